//! What of a table becomes a field: columns, lists of structs, JSON values.

use super::names::{field_name, free, last_step, words};
use super::types::{ColumnType, Conversion};
use crate::column::ColumnProfile;
use crate::table::TableProfile;
use std::collections::BTreeMap;
use stook_catalogue::definition::FormatFamily;
use stook_catalogue::value::{FieldType, StructMember};

/// Something of a document that becomes a field.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The position of its column.
    pub(crate) column: usize,
    pub(crate) path: String,
    /// The name of its field, unless another field has it.
    pub(crate) name: String,
    pub(crate) guess: ColumnType,
    /// The paths of the members of structs, and how they are read.
    pub(crate) members: Vec<(String, String, Conversion)>,
}

/// Finds what becomes a field; columns without a value do not.
pub(crate) fn entries(table: &TableProfile, types: &[ColumnType]) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let positions = (0..table.columns.len()).filter(|position| !is_empty(&table.columns[*position]));
    for position in positions {
        let column = &table.columns[position];
        match (&column.inside, table.reading.family) {
            (Some(list), FormatFamily::Json) if table.columns.iter().any(|other| other.path == *list) => {}
            (Some(list), FormatFamily::Xml) => {
                if found.iter().any(|entry| entry.path == *list) {
                    continue;
                }
                match structs(table, types, list) {
                    Some(entry) => found.push(Entry { column: position, ..entry }),
                    None => found.push(scalar(table, types, position)),
                }
            }
            (_, FormatFamily::Xml) if has_parts(table, &column.path) => {
                if let Some(entry) = structs(table, types, &column.path) {
                    found.push(Entry { column: position, ..entry });
                } else {
                    found.push(scalar(table, types, position));
                }
            }
            (_, FormatFamily::Json) if is_below_value(table, &column.path) => {}
            (_, FormatFamily::Json) if column.native.nested > 0 || is_value_and_object(table, &column.path) => {
                let has_scalars = column.values > 0 || column.native.mixed > 0;
                let entry = if has_scalars { None } else { structs(table, types, &column.path) };
                found.push(entry.map_or_else(|| json(position, &column.path), |entry| Entry { column: position, ..entry }));
            }
            _ => found.push(scalar(table, types, position)),
        }
    }
    name_all(&mut found, table.reading.family);
    found
}

pub(crate) fn is_empty(column: &ColumnProfile) -> bool {
    column.values == 0 && column.native.nested == 0
}

/// Whether an element that is repeated has attributes or elements.
fn has_parts(table: &TableProfile, path: &str) -> bool {
    table.columns.iter().any(|column| column.inside.as_deref() == Some(path))
}

/// Whether a JSON path leads into a value that is not always an object.
fn is_below_value(table: &TableProfile, path: &str) -> bool {
    table.columns.iter().any(|other| is_value_around(&other.path, path) && other.native.nested + other.values > 0)
}

fn is_value_and_object(table: &TableProfile, path: &str) -> bool {
    table.columns.iter().any(|other| is_value_around(path, &other.path))
}

fn is_value_around(around: &str, path: &str) -> bool {
    path.strip_prefix(around).is_some_and(|rest| rest.starts_with('.') || rest.starts_with("['"))
}

fn scalar(table: &TableProfile, types: &[ColumnType], position: usize) -> Entry {
    let path = table.columns[position].path.clone();
    let mut guess = types[position].clone();
    if table.columns[position].inside.is_some() {
        guess.notes.push("its values stand apart from those that belong to them".to_owned());
    }
    Entry { column: position, path, name: String::new(), guess, members: Vec::new() }
}

fn json(position: usize, path: &str) -> Entry {
    let guess = ColumnType {
        ty: FieldType::Json,
        conversion: Conversion::Plain,
        absent: Vec::new(),
        notes: vec!["objects or lists of several shapes are kept as JSON, which has no index".to_owned()],
    };
    Entry { column: position, path: path.to_owned(), name: String::new(), guess, members: Vec::new() }
}

/// A list of structs, if all members of its elements have scalar types.
fn structs(table: &TableProfile, types: &[ColumnType], list: &str) -> Option<Entry> {
    let is_xml = table.reading.family == FormatFamily::Xml;
    let belongs = |column: &ColumnProfile| column.inside.as_deref() == Some(list) || is_xml && column.path == list;
    let (mut members, mut paths): (Vec<StructMember>, Vec<(String, String, Conversion)>) = (Vec::new(), Vec::new());
    for (position, column) in table.columns.iter().enumerate().filter(|(_, column)| belongs(column)) {
        let guess = &types[position];
        let ty = guess.ty.element().clone();
        let is_member = ty.is_ordered() && !column.is_in_inner_list && matches!(guess.conversion, Conversion::Plain | Conversion::Format(_));
        let rest = column.path.strip_prefix(list)?;
        let (path, name) = match (is_xml, rest) {
            (true, "") => (".".to_owned(), "value".to_owned()),
            (true, rest) => (rest.trim_start_matches('/').to_owned(), last_step(rest).to_owned()),
            (false, rest) => (format!("${}", rest.trim_start_matches("[*]")), last_step(rest).to_owned()),
        };
        if !is_member {
            return None;
        }
        let name = field_name(&words(&name), members.len());
        let name = free(&name, |name| members.iter().any(|member| member.name == name));
        members.push(StructMember { name: name.clone(), ty });
        paths.push((name, path, guess.conversion.clone()));
    }
    if members.is_empty() {
        return None;
    }
    let ty = FieldType::List(Box::new(FieldType::Struct(members.into())));
    let guess = ColumnType { ty, conversion: Conversion::Plain, absent: Vec::new(), notes: Vec::new() };
    Some(Entry { column: 0, path: list.to_owned(), name: String::new(), guess, members: paths })
}

/// Names of MARC fields that most records have.
const MARC_NAMES: [(&str, &str); 20] = [
    ("LDR", "leader"),
    ("001", "control_number"),
    ("003", "agency"),
    ("005", "changed"),
    ("008", "fixed_data"),
    ("010$a", "lccn"),
    ("020$a", "isbn"),
    ("022$a", "issn"),
    ("035$a", "system_number"),
    ("100$a", "author"),
    ("245$a", "title"),
    ("245$b", "subtitle"),
    ("245$c", "responsibility"),
    ("260$b", "publisher"),
    ("260$c", "published"),
    ("264$b", "publisher"),
    ("264$c", "published"),
    ("300$a", "extent"),
    ("650$a", "subject"),
    ("700$a", "contributor"),
];

/// Names the fields: by the last step of their path, or by more steps where several have the same.
fn name_all(entries: &mut [Entry], family: FormatFamily) {
    let short = |path: &str| match family {
        FormatFamily::Marc => MARC_NAMES.iter().find(|(known, _)| *known == path).map_or_else(|| format!("f{path}"), |(_, name)| (*name).to_owned()),
        FormatFamily::Csv => path.to_owned(),
        FormatFamily::Json | FormatFamily::Xml => last_step(path).to_owned(),
    };
    let mut counts: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    entries.iter().for_each(|entry| *counts.entry(words(&short(&entry.path))).or_default() += 1);
    let mut taken: Vec<String> = Vec::new();
    for (position, entry) in entries.iter_mut().enumerate() {
        let mut words_of = words(&short(&entry.path));
        if counts.get(&words_of).is_some_and(|count| *count > 1) && family != FormatFamily::Csv {
            words_of = words(&entry.path);
        }
        let name = free(&field_name(&words_of, position), |name| taken.iter().any(|known| known == name));
        taken.push(name.clone());
        entry.name = name;
    }
}
