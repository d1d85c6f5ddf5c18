//! Writes a proposal as `catalogue.yaml`.

use crate::guess::{CollectPlan, CollectionPlan, FieldPlan, IndexPlan, KeyPlan, NextPage, Proposal, SourcePlan, ValueSource};
use crate::table::TableProfile;
use std::fmt::Write as _;
use stook_catalogue::definition::{CsvEncoding, FormatFamily};
use stook_catalogue::records_path::RecordsPath;
use stook_catalogue::value::FieldType;

/// Maximum length of a line of comment.
const WIDTH: usize = 120;

/// The proposal as the text of a definition, with comments that say what was guessed.
pub fn write_definition(proposal: &Proposal) -> String {
    let mut out = String::new();
    comment(
        &mut out,
        0,
        "Proposed from the contents of files. Comments that begin with `guess:` say what may be otherwise; `stook check` finds mistakes after a change.",
    );
    line(&mut out, 0, &format!("catalogue: {}", scalar(&proposal.name)));
    if !proposal.lookups.is_empty() {
        out.push_str("\nlookups:\n");
        for (name, words) in &proposal.lookups {
            let words: Vec<String> = words.iter().map(|(word, is_yes)| format!("{}: '{is_yes}'", scalar(word))).collect();
            line(&mut out, 1, &format!("{name}: {{ {} }}", words.join(", ")));
        }
    }
    out.push_str("\nsources:\n");
    for source in &proposal.sources {
        write_source(&mut out, proposal, source);
    }
    out.push_str("\ncollections:\n");
    for collection in &proposal.collections {
        write_collection(&mut out, collection);
    }
    out
}

fn line(out: &mut String, level: usize, text: &str) {
    let _ = writeln!(out, "{}{text}", "  ".repeat(level));
}

/// Writes a comment, in lines that are not too long.
fn comment(out: &mut String, level: usize, text: &str) {
    let indent = format!("{}# ", "  ".repeat(level));
    let mut current = indent.clone();
    for word in text.split_whitespace() {
        if current.len() + word.len() > WIDTH && current.len() > indent.len() {
            let _ = writeln!(out, "{}", current.trim_end());
            current.clone_from(&indent);
        }
        current.push_str(word);
        current.push(' ');
    }
    let _ = writeln!(out, "{}", current.trim_end());
}

fn write_source(out: &mut String, proposal: &Proposal, source: &SourcePlan) {
    let table = &proposal.tables[source.table];
    line(out, 1, &format!("{}:", source.name));
    table.notes.iter().for_each(|note| comment(out, 2, &format!("guess: {note}")));
    if let Some(problem) = &table.problem {
        comment(out, 2, &format!("{} documents cannot be read; the first: {problem}", table.problems));
    }
    line(out, 2, &format!("format: {}", table.reading.family.name()));
    if !source.files.is_empty() {
        line(out, 2, &format!("files: {}", one_or_list(&source.files)));
    }
    if let Some(has) = &source.has {
        line(out, 2, &format!("has: {}", scalar(has)));
    }
    write_reading(out, table);
    if let Some(collect) = &source.collect {
        write_collect(out, collect);
    }
    line(out, 2, "as_of: meta.received");
    if !source.lets.is_empty() {
        line(out, 2, "let:");
        source.lets.iter().for_each(|(name, path)| line(out, 3, &format!("{name}: {}", scalar(path))));
    }
    let collection = &proposal.collections[source.collection];
    if is_plain(proposal, source) {
        line(out, 2, &format!("into: {}", collection.name));
        return;
    }
    line(out, 2, "feeds:");
    line(out, 3, &format!("- into: {}", collection.name));
    line(out, 4, "map:");
    for field in &collection.fields {
        if let Some((name, from)) = source.map.iter().find(|(name, _)| *name == field.name) {
            line(out, 5, &format!("{name}: {}", rule(from)));
        }
    }
}

/// Whether every field is read from the column or member of its name, so that this need not be said.
fn is_plain(proposal: &Proposal, source: &SourcePlan) -> bool {
    let is_only = proposal.sources.iter().filter(|other| other.collection == source.collection).count() == 1;
    let default = |name: &str| match proposal.tables[source.table].reading.family {
        FormatFamily::Csv => Some(name.to_owned()),
        FormatFamily::Json => Some(format!("$.{name}")),
        FormatFamily::Marc | FormatFamily::Xml => None,
    };
    is_only && source.map.iter().all(|(name, from)| default(name).is_some_and(|path| *from == ValueSource::Path(path)))
}

fn write_reading(out: &mut String, table: &TableProfile) {
    let (csv, records) = (&table.reading.csv, &table.reading.records);
    if let Some(records) = records {
        let path = RecordsPath::parse(records)
            .filter(|_| table.reading.family == FormatFamily::Json)
            .map_or_else(|| records.clone(), |path| path.to_json_path());
        line(out, 2, &format!("records: {}", scalar(&path)));
    }
    if !table.reading.namespaces.is_empty() {
        let all: Vec<String> = table.reading.namespaces.iter().map(|(prefix, uri)| format!("{prefix}: {}", scalar(uri))).collect();
        line(out, 2, &format!("namespaces: {{ {} }}", all.join(", ")));
    }
    match csv.encoding {
        CsvEncoding::Utf8 => {}
        CsvEncoding::Latin1 => line(out, 2, "encoding: latin-1"),
        CsvEncoding::Cp1252 => line(out, 2, "encoding: cp1252"),
    }
    if let Some(delimiter) = csv.delimiter {
        line(out, 2, &format!("delimiter: {}", scalar(&char::from(delimiter).to_string())));
    }
    if csv.skip > 0 {
        line(out, 2, &format!("skip: {}", csv.skip));
    }
    if !csv.header.is_empty() {
        line(out, 2, &format!("header: {}", list(&csv.header)));
    }
    if !csv.null.is_empty() {
        line(out, 2, &format!("null: {}", one_or_list(&csv.null)));
    }
    if csv.short_rows {
        line(out, 2, "short_rows: absent");
    }
}

fn write_collect(out: &mut String, collect: &CollectPlan) {
    line(out, 2, "collect:");
    let place = format!("{{ {}: {} }}", collect.name, scalar(&collect.location));
    match &collect.next {
        None => line(out, 3, &format!("files: {place}")),
        Some(next) => {
            line(out, 3, &format!("pages: {place}"));
            match next {
                NextPage::Link => line(out, 3, "page: { link: true }"),
                NextPage::Member(member) => line(out, 3, &format!("page: {{ next: {} }}", scalar(member))),
            }
            comment(
                out,
                3,
                "guess: the whole list is fetched each time; if the service can be asked for what has changed since a time, say by which argument (`changed: updated_since`)",
            );
        }
    }
}

fn write_collection(out: &mut String, collection: &CollectionPlan) {
    line(out, 1, &format!("{}:", collection.name));
    collection.key_notes.iter().for_each(|note| comment(out, 2, &format!("guess: {note}")));
    match &collection.key {
        KeyPlan::Field(name) => line(out, 2, &format!("key: {name}")),
        KeyPlan::Template(template) => line(out, 2, &format!("key: {}", scalar(template))),
    }
    if let Some(title) = collection.fields.iter().find(|field| field.index == IndexPlan::Searched && !field.ty.is_list()) {
        line(out, 2, &format!("title: {}", title.name));
    }
    if collection.keeps_documents {
        line(out, 2, "raw: keep");
    }
    line(out, 2, "fields:");
    for field in &collection.fields {
        field.notes.iter().for_each(|note| comment(out, 3, &format!("guess: {note}")));
        line(out, 3, &format!("{}: {}", field.name, field_text(field)));
    }
    if !collection.empty.is_empty() {
        let names: Vec<String> = collection.empty.iter().map(|name| scalar(name)).collect();
        comment(out, 3, &format!("without a value in the files: {}", names.join(", ")));
    }
    if !collection.links.is_empty() {
        line(out, 2, "links:");
    }
    for link in &collection.links {
        link.notes.iter().for_each(|note| comment(out, 3, &format!("guess: {note}")));
        let by = match &link.same {
            None => format!("key: \"{{{}}}\"", link.from),
            Some(theirs) => format!("same: {{ {}: {theirs} }}", link.from),
        };
        line(out, 3, &format!("{}: {{ to: {}, {by} }}", link.name, link.to));
    }
}

fn field_text(field: &FieldPlan) -> String {
    let ty = type_text(&field.ty);
    let mut more = Vec::new();
    match field.index {
        IndexPlan::None => {}
        IndexPlan::Equal => more.push("index: equal"),
        IndexPlan::Searched => more.push("fold: true, index: [equal, prefix, words]"),
        IndexPlan::Words => more.push("index: words"),
        IndexPlan::Intersects => more.push("index: intersects"),
    }
    if field.compare {
        more.push("compare: true");
    }
    if more.is_empty() { ty } else { format!("{{ type: {ty}, {} }}", more.join(", ")) }
}

fn type_text(ty: &FieldType) -> String {
    match ty {
        FieldType::List(element) => format!("[{}]", type_text(element)),
        FieldType::Struct(members) => {
            let members: Vec<String> = members.iter().map(|member| format!("{}: {}", member.name, member.ty)).collect();
            format!("{{ {} }}", members.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

fn rule(from: &ValueSource) -> String {
    let with = |word: &str, text: &str, more: &[(&str, String)]| {
        let more = more.iter().map(|(word, value)| format!(", {word}: {}", scalar(value)));
        format!("{{ {word}: {}{} }}", scalar(text), more.collect::<String>())
    };
    match from {
        ValueSource::Path(path) => scalar(path),
        ValueSource::Rule(path, more) => with("path", path, more),
        ValueSource::Expression(text, more) => with("expr", text, more),
        ValueSource::Structs(path, members) => {
            let members: Vec<String> = members.iter().map(|(name, from)| format!("{name}: {}", rule(from))).collect();
            format!("{{ path: {}, map: {{ {} }} }}", scalar(path), members.join(", "))
        }
    }
}

fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| scalar(item)).collect();
    format!("[{}]", items.join(", "))
}

fn one_or_list(items: &[String]) -> String {
    match items {
        [only] => scalar(only),
        several => list(several),
    }
}

/// A text as YAML: plain where every reader of YAML takes it for this text, and otherwise in quotation marks.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && !text.ends_with(' ')
        && text.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-' | '/' | ' '))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            character if character.is_control() || matches!(character, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{a0}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            character => out.push(character),
        }
    }
    out.push('"');
    out
}
