//! `init`: writes a definition, as an example or of what files contain.

use super::profile::read;
use crate::arguments::init::InitArgs;
use crate::output::{count, number};
use crate::output_file::Output;
use crate::remote::LocalFiles;
use crate::{CommandError, CommandResult};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use stook_catalogue::definition::FormatFamily;
use stook_catalogue::diagnostic::render;
use stook_catalogue::parse::parse;
use stook_engine::service::files::is_remote;
use stook_profile::{CollectPlan, KeyPlan, NextPage, Proposal, next_page, proposal_to_json, propose, write_definition};

/// The definition in a new folder.
const TEMPLATE: &str = include_str!("template.yaml");

pub fn init(arguments: &InitArgs) -> CommandResult {
    let folder = arguments.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let file = arguments.output.clone().unwrap_or_else(|| folder.join("catalogue.yaml"));
    let is_stream = file.as_os_str() == "-";
    if !arguments.force && !is_stream && file.exists() {
        return Err(CommandError::new(format!("{} exists already; --force replaces it", file.display())));
    }
    if arguments.from.is_empty() {
        fs::create_dir_all(&folder)?;
        fs::write(&file, TEMPLATE)?;
        say!("created {}; edit it, then run `stook -C {} check`", file.display(), folder.display());
        return Ok(0);
    }
    let files = LocalFiles::new(&arguments.from)?;
    let mut proposal = propose(&name_of(&folder), read(&files.paths, arguments.rows).map_err(|error| files.named(error))?);
    collect_fetched(&mut proposal, &files);
    if let (None, Some(first)) = (&arguments.dir, proposal.sources.first()) {
        // whatever the folder at hand is called, the catalogue is one of these files
        proposal.name.clone_from(&first.name);
    }
    let text = write_definition(&proposal);
    if let Err(problems) = parse(&text) {
        let shown = render("the proposed definition", &text, &problems, crate::output::colours());
        return Err(CommandError::new(format!("the proposal is not sound, which is a mistake of `stook init`; nothing was written\n{shown}")));
    }
    if !is_stream {
        fs::create_dir_all(&folder)?;
    }
    let mut output = Output::new(Some(file.as_path()).filter(|_| !is_stream))?;
    output.write_all(text.as_bytes())?;
    output.finish()?;
    if arguments.json && !is_stream {
        let mut found = proposal_to_json(&proposal);
        found["file"] = json!(file);
        say!("{found}");
    } else if !is_stream {
        show(&proposal, &text, &file, arguments);
    }
    Ok(if proposal.tables.iter().any(|table| table.problems > 0) { 2 } else { 0 })
}

/// Lets the sources of files from elsewhere collect them again.
fn collect_fetched(proposal: &mut Proposal, files: &LocalFiles) {
    for source in &mut proposal.sources {
        let table = &mut proposal.tables[source.table];
        let fetched = table.files.iter().find_map(|file| files.fetched.iter().find(|fetched| fetched.path == *file));
        if let Some(fetched) = fetched {
            let next = if fetched.goes_on { Some(NextPage::Link) } else { next_page(&fetched.path, &fetched.location) };
            let next = next.filter(|_| matches!(table.reading.family, FormatFamily::Json | FormatFamily::Xml));
            source.collect = Some(CollectPlan { name: source.name.clone(), location: fetched.location.clone(), next });
            source.files.clear();
        }
        table.files.iter_mut().for_each(|file| *file = files.shown(file));
    }
}

/// The name of a catalogue in a folder.
fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String = name.to_lowercase().chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect();
    let plain = plain.trim_matches('_');
    if plain.starts_with(|first: char| first.is_ascii_lowercase()) { plain.chars().take(40).collect() } else { "catalogue".to_owned() }
}

/// Says what was found, and what to do next.
fn show(proposal: &Proposal, text: &str, file: &Path, arguments: &InitArgs) {
    for (index, collection) in proposal.collections.iter().enumerate() {
        let sources: Vec<String> = proposal
            .sources
            .iter()
            .filter(|source| source.collection == index)
            .map(|source| {
                let table = &proposal.tables[source.table];
                let files = if table.files.len() > 1 { format!(" in {} files", number(table.files.len() as u64)) } else { String::new() };
                format!("{} ({}{files})", source.name, count(table.documents, "document"))
            })
            .collect();
        let key = match &collection.key {
            KeyPlan::Field(key) | KeyPlan::Template(key) => key,
        };
        say!("{}: key {key}, {} from {}", collection.name, count(collection.fields.len() as u64, "field"), sources.join(", "));
        for link in &collection.links {
            say!("  {} leads to {}, by {}", link.name, link.to, link.from);
        }
    }
    let unreadable: u64 = proposal.tables.iter().map(|table| table.problems).sum();
    if unreadable > 0 {
        say!("{} cannot be read; comments in the file say which comes first", count(unreadable, "document"));
    }
    let guesses = text.lines().filter(|line| line.trim_start().starts_with("# guess:")).count() as u64;
    say!("wrote {}, with {} to look at (`grep guess:`)", file.display(), count(guesses, "guess").replace("guesss", "guesses"));
    let is_named = file.file_name().is_some_and(|name| name == "catalogue.yaml");
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty() && *folder != Path::new("."));
    let place = folder.map(|folder| format!(" -C {}", quoted(&folder.display().to_string()))).unwrap_or_default();
    let files: Vec<String> =
        arguments.from.iter().filter(|file| !file.to_str().is_some_and(is_remote)).map(|file| quoted(&file.display().to_string())).collect();
    say!("next:");
    if !is_named {
        say!("  rename it to catalogue.yaml");
    }
    if proposal.sources.iter().any(|source| source.collect.is_some()) {
        say!("  stook{place} collect");
    }
    if !files.is_empty() {
        say!("  stook{place} import {}", files.join(" "));
    }
    if let Some(first) = proposal.collections.first() {
        say!("  stook{place} query {} --limit 10", first.name);
    }
}

/// A file's name as a shell takes it.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|character| character.is_ascii_alphanumeric() || "/._-+,:=@%".contains(character));
    if is_plain { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}
