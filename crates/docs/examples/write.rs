//! Writes the documentation as a folder of static files: `cargo run --package stook-docs --example write -- FOLDER`.

use maud::{DOCTYPE, Markup, html};
use std::error::Error;
use std::path::Path;
use stook_docs::view::{self, Surroundings};
use stook_docs::{Address, Docs, VERSION, tree};

const STYLE: &str = include_str!("../../server/assets/stook.css");

fn document(docs: &Docs, path: &str, title: &str, main: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Stook " (VERSION) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(docs.address().file(path, "stook.css"));
            }
            body { (view::body(docs, &Surroundings::default(), path, "", main)) }
        }
    };
    page.into_string()
}

fn write(folder: &Path, file: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let file = folder.join(file);
    let made = file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&file, text));
    made.map_err(|error| format!("cannot write {}: {error}", file.display()).into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = std::env::args_os().nth(1) else { return Err("name the folder to write to".into()) };
    let (folder, docs) = (Path::new(&folder), Docs::new(Address::Folder));
    write(folder, "index.html", &document(&docs, "", "Documentation", &view::start(&docs, &Surroundings::default())))?;
    for page in docs.pages() {
        write(folder, &format!("{}.html", page.path), &document(&docs, &page.path, &page.title, &view::page(&docs, page)))?;
    }
    for (path, picture) in tree::pictures() {
        write(folder, path, picture)?;
    }
    write(folder, "stook.css", STYLE)?;
    println!("{} pages in {}", docs.pages().len() + 1, folder.display());
    Ok(())
}
