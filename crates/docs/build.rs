//! Lists the files of the documentation, so that none is forgotten: all Markdown files and pictures under `docs/`, and the definitions of
//! the examples, which pages link to.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Collects the files under a folder, including its subfolders.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files(&path, found)? } else { found.push(path) }
    }
    Ok(())
}

/// Writes a constant with the files of one kind: their paths from the root of the repository, and their contents.
fn constant(code: &mut String, comment: &str, name: &str, root: &Path, files: &[&PathBuf]) -> Result<(), Box<dyn Error>> {
    writeln!(code, "/// {comment}\npub const {name}: &[(&str, &str)] = &[")?;
    for file in files {
        let path = file.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
        writeln!(code, "    ({path:?}, include_str!({:?})),", file.to_string_lossy())?;
    }
    writeln!(code, "];")?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let mut all = Vec::new();
    for folder in ["docs", "examples"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
        files(&root.join(folder), &mut all)?;
    }
    all.sort();
    let (documentation, examples): (Vec<&PathBuf>, Vec<&PathBuf>) = all.iter().partition(|path| path.starts_with(root.join("docs")));
    let with = |ending: &str| documentation.iter().copied().filter(|path| path.extension().is_some_and(|own| own == ending)).collect::<Vec<_>>();
    let definitions: Vec<&PathBuf> = examples.into_iter().filter(|path| path.file_name().is_some_and(|name| name == "catalogue.yaml")).collect();
    let mut code = String::new();
    constant(&mut code, "Pages of the documentation.", "PAGES", &root, &with("md"))?;
    constant(&mut code, "Pictures of pages.", "PICTURES", &root, &with("svg"))?;
    constant(&mut code, "Definitions of the examples.", "DEFINITIONS", &root, &definitions)?;
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("files.rs"), code)?;
    Ok(())
}
