//! Puts a proposal together: collections of the tables that list the same things, their fields, and the rules of their sources.

use super::entries::{Entry, entries, is_empty};
use super::files::{recognise_files, source_names};
use super::keys::{TableKey, key_of};
use super::links::add_links;
use super::names::{collection_name, free, has_word, stem, words};
use super::rules::{Lookups, quoted, rule};
use super::together::{Group, agree, groups};
use super::types::{ColumnType, Habits, column_type};
use super::{CollectionPlan, FieldPlan, GuessedTable, IndexPlan, KeyPlan, Proposal, SourcePlan, ValueSource};
use crate::column::ColumnProfile;
use crate::table::TableProfile;
use std::collections::BTreeMap;
use stook_catalogue::definition::FormatFamily;
use stook_catalogue::value::FieldType;

/// Fields of MARC records that are proposed; the documents are kept with all others.
const MAX_MARC_FIELDS: usize = 120;
/// Fields of a collection that get an index.
const MAX_INDEXES: usize = 8;

/// Names of lists that say nothing of what is in them.
const LIST_NAMES: &[&str] = &[
    "content",
    "contents",
    "data",
    "doc",
    "docs",
    "document",
    "documents",
    "element",
    "elements",
    "entries",
    "entry",
    "feature",
    "features",
    "hit",
    "hits",
    "item",
    "items",
    "list",
    "member",
    "message",
    "object",
    "objects",
    "page",
    "payload",
    "record",
    "records",
    "response",
    "result",
    "results",
    "row",
    "rows",
    "value",
    "values",
];

/// For each field, the tables and entries it is read from.
pub(crate) type Origins = BTreeMap<String, Vec<(usize, usize)>>;

/// A collection while it is put together.
pub(crate) struct Draft {
    pub(crate) plan: CollectionPlan,
    pub(crate) sources: Vec<SourcePlan>,
    /// Where its fields come from.
    pub(crate) origins: Origins,
}

/// Proposes a definition of what the tables list.
pub fn propose(name: &str, tables: Vec<TableProfile>) -> Proposal {
    let guessed: Vec<GuessedTable<'_>> = tables.iter().map(guess).collect();
    let names = source_names(&guessed);
    let mut lookups = Lookups::new();
    let mut drafts: Vec<Draft> = Vec::new();
    for group in groups(&guessed) {
        // what documents call their list says more than what somebody called the file
        let listed = group.tables.iter().find_map(|(table, _)| name_in_records(guessed[*table].table));
        let thing = listed.unwrap_or_else(|| guessed[group.tables[0].0].thing.clone());
        let collection = free(&thing, |name| drafts.iter().any(|draft| draft.plan.name == name));
        drafts.push(Assembly { tables: &guessed, names: &names, group: &group, lookups: &mut lookups }.draft(collection, drafts.len()));
    }
    add_links(&mut drafts, &guessed);
    for draft in &mut drafts {
        finish(draft, &guessed);
    }
    let mut sources: Vec<SourcePlan> = drafts.iter().flat_map(|draft| draft.sources.clone()).collect();
    sources.sort_by_key(|source| source.table);
    recognise_files(&mut sources, &guessed);
    let collections = drafts.into_iter().map(|draft| draft.plan).collect();
    drop(guessed);
    Proposal { name: name.to_owned(), tables, lookups, sources, collections }
}

/// The guessed types of a table's columns, in their order.
pub fn column_types(table: &TableProfile) -> Vec<String> {
    let guessed = guess(table);
    let entry = |position: usize| guessed.entries.iter().find(|entry| entry.column == position);
    let own = |position: usize| if is_empty(&table.columns[position]) { String::new() } else { guessed.types[position].ty.to_string() };
    (0..table.columns.len()).map(|position| entry(position).map_or_else(|| own(position), |entry| entry.guess.ty.to_string())).collect()
}

fn guess(table: &TableProfile) -> GuessedTable<'_> {
    let habits = Habits::of(table);
    let types: Vec<ColumnType> = table.columns.iter().map(|column| column_type(column, table, habits)).collect();
    let key = key_of(table, &types);
    let mut entries = entries(table, &types);
    if table.reading.family == FormatFamily::Marc && entries.len() > MAX_MARC_FIELDS {
        entries.sort_by_key(|entry| std::cmp::Reverse(table.columns[entry.column].documents));
        entries.truncate(MAX_MARC_FIELDS);
        entries.sort_by_key(|entry| entry.column);
    }
    GuessedTable { table, types, key, thing: collection_name(&stem(&table.files[0])), entries }
}

/// The name of the things in a file, by the name of the list in which they are; none if it says only that it is a list.
fn name_in_records(table: &TableProfile) -> Option<String> {
    let records = table.reading.records.as_deref()?;
    let last = records.rsplit(['.', '/', ':']).next()?.trim_matches(['[', ']', '\'', '"', '@']);
    let is_of_anything = LIST_NAMES.contains(&last.to_ascii_lowercase().as_str());
    (!is_of_anything && last.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')).then(|| collection_name(last))
}

struct Assembly<'a, 't> {
    tables: &'a [GuessedTable<'t>],
    names: &'a [String],
    group: &'a Group,
    lookups: &'a mut Lookups,
}

impl Assembly<'_, '_> {
    fn draft(&mut self, name: String, number: usize) -> Draft {
        let (fields, origins) = self.fields();
        let is_marc = self.group.tables.iter().any(|(table, _)| self.tables[*table].table.reading.family == FormatFamily::Marc);
        let empty = |table: usize| self.tables[table].table.columns.iter().filter(|column| is_empty(column)).map(|column| column.path.clone());
        let plan = CollectionPlan {
            name,
            key: KeyPlan::Field(String::new()),
            key_notes: self.group.notes.clone(),
            fields,
            links: Vec::new(),
            keeps_documents: is_marc,
            empty: self.group.tables.iter().flat_map(|(table, _)| empty(*table)).collect(),
        };
        let mut draft = Draft { plan, sources: Vec::new(), origins };
        for (table, _) in &self.group.tables {
            let source = self.source(*table, number, &draft);
            draft.sources.push(source);
        }
        self.key(&mut draft);
        draft
    }

    /// The fields of all tables of the group: columns of the same name, and the columns of the key, are one field.
    fn fields(&self) -> (Vec<FieldPlan>, Origins) {
        let mut fields: Vec<FieldPlan> = Vec::new();
        let mut origins: Origins = BTreeMap::new();
        for (table, key) in &self.group.tables {
            let guessed = &self.tables[*table];
            for (position, entry) in guessed.entries.iter().enumerate() {
                let same = self.same_field(&fields, &origins, (*table, *key), entry);
                match same {
                    Some((index, ty, note)) => {
                        let field = &mut fields[index];
                        field.compare = true;
                        field.ty = ty;
                        field.columns.push(entry.path.clone());
                        field.notes.extend(entry.guess.notes.iter().cloned().chain(note));
                        origins.entry(field.name.clone()).or_default().push((*table, position));
                    }
                    None => {
                        let name = free(&entry.name, |name| fields.iter().any(|field| field.name == name));
                        let columns = vec![entry.path.clone()];
                        let notes = entry.guess.notes.clone();
                        origins.insert(name.clone(), vec![(*table, position)]);
                        fields.push(FieldPlan { name, ty: entry.guess.ty.clone(), index: IndexPlan::None, compare: false, notes, columns });
                    }
                }
            }
        }
        fields.iter_mut().for_each(|field| field.notes.dedup());
        (fields, origins)
    }

    /// The field that an entry gives, too, with the type that fits all, and a note.
    fn same_field(
        &self,
        fields: &[FieldPlan],
        origins: &Origins,
        (table, key): (usize, Option<usize>),
        entry: &Entry,
    ) -> Option<(usize, FieldType, Option<String>)> {
        let is_key = |(other, position): &(usize, usize)| {
            let chosen = self.group.tables.iter().find(|(member, _)| member == other).and_then(|(_, key)| *key);
            chosen == Some(self.tables[*other].entries[*position].column)
        };
        for (index, field) in fields.iter().enumerate() {
            let sources = &origins[&field.name];
            if sources.iter().any(|(other, _)| *other == table) {
                continue;
            }
            let is_key_field = sources.iter().all(is_key);
            let is_key_entry = key == Some(entry.column);
            if is_key_field != is_key_entry {
                continue;
            }
            let is_named_alike = words(&field.name) == words(&entry.name);
            let (share, note) = self.agreement(sources, (table, key), entry);
            let is_same = is_key_entry || is_named_alike || share >= 0.95;
            if let Some(ty) = common_type(&field.ty, &entry.guess.ty).filter(|_| is_same) {
                let other_name = format!(
                    "`{}` is taken to be the same as `{}`: in {:.0} % of common records they are equal",
                    entry.path,
                    field.name,
                    share * 100.0
                );
                let note = if is_key_entry || is_named_alike { note } else { Some(other_name) };
                return Some((index, ty, note));
            }
        }
        None
    }

    /// In how many of the records that two tables have in common a field and an entry are equal; 0 if there are too few to say.
    fn agreement(&self, sources: &[(usize, usize)], (table, key): (usize, Option<usize>), entry: &Entry) -> (f64, Option<String>) {
        let Some((first, position)) = sources.first() else { return (0.0, None) };
        let first_key = self.group.tables.iter().find(|(member, _)| member == first).and_then(|(_, key)| *key);
        let (Some(first_key), Some(key)) = (first_key, key) else { return (0.0, None) };
        let other = &self.tables[*first];
        let (own, theirs) = (self.tables[table].table, other.table);
        let column = other.entries[*position].column;
        let (share, compared) = agree(theirs, own, (first_key, key), (column, entry.column));
        let is_varied = own.columns[entry.column].distinct.count() >= 4;
        let note = (compared >= 5 && share < 0.9).then(|| format!("the sources agree in {:.0} % of common records", share * 100.0));
        (if compared >= 5 && is_varied { share } else { 0.0 }, note)
    }

    /// The source of a table, with the rules of its fields.
    fn source(&mut self, table: usize, collection: usize, draft: &Draft) -> SourcePlan {
        let mut source = SourcePlan {
            name: self.names[table].clone(),
            table,
            collection,
            files: Vec::new(),
            has: None,
            lets: Vec::new(),
            map: Vec::new(),
            collect: None,
        };
        for field in &draft.plan.fields {
            let origin = draft.origins[&field.name].iter().find(|(other, _)| *other == table);
            if let Some((_, position)) = origin {
                let entry = &self.tables[table].entries[*position];
                let is_padded = self.tables[table].table.columns[entry.column].padded > 0;
                let rule = rule(entry, &field.ty, is_padded, &mut source, self.lookups);
                source.map.push((field.name.clone(), rule));
            }
        }
        source
    }

    /// Chooses the key, and adds a field for it where no column has a value in every row.
    fn key(&self, draft: &mut Draft) {
        let field_of = |draft: &Draft, table: usize, column: usize| {
            let is_origin = |origins: &Vec<(usize, usize)>| {
                origins.iter().any(|(other, position)| *other == table && self.tables[table].entries[*position].column == column)
            };
            draft.origins.iter().find(|(_, origins)| is_origin(origins)).map(|(name, _)| name.clone())
        };
        if let [(table, None)] = self.group.tables[..] {
            let guessed = &self.tables[table];
            match &guessed.key.key {
                TableKey::Column(column) => {
                    if let Some(name) = field_of(draft, table, *column) {
                        draft.plan.key = KeyPlan::Field(name);
                        let others: Vec<String> = guessed.key.others.iter().filter_map(|column| field_of(draft, table, *column)).take(4).collect();
                        let is_sample = guessed.table.is_sample || !guessed.table.columns[*column].distinct.is_exact();
                        let unique = if is_sample { "unique in what was read" } else { "unique" };
                        let verb = if others.len() == 1 { "is" } else { "are" };
                        let note = if others.is_empty() { unique.to_owned() } else { format!("{unique}; so {verb} {}", others.join(", ")) };
                        draft.plan.key_notes.push(note);
                        return;
                    }
                }
                TableKey::Columns(columns) => {
                    let names: Vec<String> = columns.iter().filter_map(|column| field_of(draft, table, *column)).collect();
                    if names.len() == columns.len() {
                        let parts: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
                        draft.plan.key = KeyPlan::Template(parts.join("/"));
                        let rows = guessed.table.rows.len();
                        let read = if rows as u64 == guessed.table.documents { String::new() } else { format!(" in the first {rows} rows") };
                        draft.plan.key_notes.push(format!("no column is unique alone, these are together{read}"));
                        return;
                    }
                }
                TableKey::Row => {}
            }
            let note =
                "no column is unique, and no two or three together, so rows are told apart by their place in the file: choose a key if you know one";
            self.add_key_field(draft, note, |_| "meta.name + '/' + string(meta.ordinal)".to_owned());
            return;
        }
        let key_field = self.group.tables.iter().find_map(|(table, column)| field_of(draft, *table, (*column)?));
        let is_complete = self.group.tables.iter().all(|(table, column)| {
            let table = self.tables[*table].table;
            column.is_some_and(|column| table.columns[column].documents == table.documents)
        });
        match key_field {
            Some(name) if is_complete => {
                draft.plan.fields.iter_mut().filter(|field| field.name == name).for_each(|field| field.compare = false);
                draft.plan.key = KeyPlan::Field(name);
            }
            Some(name) => {
                let columns: BTreeMap<usize, Option<usize>> = self.group.tables.iter().copied().collect();
                let note = format!("`{name}`, and for rows without it, something else that identifies them in their file");
                draft.plan.fields.iter_mut().filter(|field| field.name == name).for_each(|field| {
                    field.compare = false;
                    field.index = IndexPlan::Equal;
                });
                let key_of = |source: &mut SourcePlan| self.incomplete_key(source, columns.get(&source.table).copied().flatten());
                self.add_key_field(draft, &note, key_of);
            }
            None => self.add_key_field(draft, "the place in the file", |_| "meta.name + '/' + string(meta.ordinal)".to_owned()),
        }
    }

    /// An expression for the key of a source's documents, some of which may have no value in the column.
    fn incomplete_key(&self, source: &mut SourcePlan, column: Option<usize>) -> String {
        let guessed = &self.tables[source.table];
        let mut read = |name: &str, column: usize| {
            source.lets.push((name.to_owned(), guessed.table.columns[column].path.clone()));
            name.to_owned()
        };
        let shared = column.map(|column| read("shared_key", column));
        let own = match guessed.key.key {
            TableKey::Column(own) if Some(own) != column => read("own_key", own),
            _ => "string(meta.ordinal)".to_owned(),
        };
        let otherwise = format!("{} + {own}", quoted(&format!("{}/", source.name)));
        match shared {
            Some(shared) if guessed.table.columns[column.unwrap_or(0)].documents == guessed.table.documents => shared,
            Some(shared) => format!("coalesce({shared}, {otherwise})"),
            None => otherwise,
        }
    }

    fn add_key_field(&self, draft: &mut Draft, note: &str, expression: impl Fn(&mut SourcePlan) -> String) {
        let name = free(&format!("{}_key", draft.plan.name), |name| draft.plan.fields.iter().any(|field| field.name == name));
        for source in &mut draft.sources {
            let text = expression(source);
            source.map.insert(0, (name.clone(), ValueSource::Expression(text, Vec::new())));
        }
        let (ty, notes, columns) = (FieldType::Text, Vec::new(), Vec::new());
        draft.plan.fields.insert(0, FieldPlan { name: name.clone(), ty, index: IndexPlan::None, compare: false, notes, columns });
        draft.plan.key = KeyPlan::Field(name);
        draft.plan.key_notes.push(note.to_owned());
    }
}

/// The type of a field that is read from two columns; none if they cannot be one field.
fn common_type(one: &FieldType, other: &FieldType) -> Option<FieldType> {
    match (one, other) {
        (one, other) if one == other => Some(one.clone()),
        (FieldType::Integer, FieldType::Float) | (FieldType::Float, FieldType::Integer) => Some(FieldType::Float),
        (one, other) if one.is_ordered() && other.is_ordered() => Some(FieldType::Text),
        _ => None,
    }
}

/// Chooses indexes, and the order of the fields: what names a record first, then the key.
fn finish(draft: &mut Draft, tables: &[GuessedTable<'_>]) {
    let plan = &mut draft.plan;
    let column = |field: &FieldPlan| -> Option<(&ColumnProfile, u64)> {
        let (table, entry) = draft.origins.get(&field.name)?.first()?;
        let table = &tables[*table];
        Some((&table.table.columns[table.entries[*entry].column], table.table.documents))
    };
    let title = title_of(&plan.fields, column);
    let key = match &plan.key {
        KeyPlan::Field(name) => Some(name.clone()),
        KeyPlan::Template(_) => None,
    };
    let linked: Vec<String> = plan.links.iter().filter(|link| link.same.is_some()).map(|link| link.from.clone()).collect();
    let mut left = MAX_INDEXES;
    for index in 0..plan.fields.len() {
        let field = &plan.fields[index];
        let is_key = key.as_ref() == Some(&field.name);
        let chosen = match column(field) {
            _ if field.index != IndexPlan::None => field.index,
            _ if title == Some(index) && field.ty == FieldType::Text => IndexPlan::Searched,
            _ if title == Some(index) => IndexPlan::Words,
            _ if is_key || left == 0 => IndexPlan::None,
            _ if field.ty == FieldType::Geometry => IndexPlan::Intersects,
            _ if linked.contains(&field.name) => IndexPlan::Equal,
            Some((column, documents)) if is_filterable(field, column, documents) => IndexPlan::Equal,
            _ => IndexPlan::None,
        };
        left -= usize::from(chosen != IndexPlan::None).min(left);
        plan.fields[index].index = chosen;
    }
    if let Some(title) = title {
        let field = plan.fields.remove(title);
        plan.fields.insert(0, field);
    }
    if let Some(at) = key.and_then(|key| plan.fields.iter().position(|field| field.name == key)) {
        let field = plan.fields.remove(at);
        plan.fields.insert(usize::from(title.is_some() && at != 0).min(plan.fields.len()), field);
    }
}

/// The field that names a record for people.
fn title_of<'c>(fields: &[FieldPlan], column: impl Fn(&FieldPlan) -> Option<(&'c ColumnProfile, u64)>) -> Option<usize> {
    const TITLES: [&str; 14] = [
        "title",
        "name",
        "label",
        "titel",
        "bezeichnung",
        "nom",
        "nombre",
        "heading",
        "subject",
        "caption",
        "titre",
        "titulo",
        "display",
        "fullname",
    ];
    let is_text = |field: &FieldPlan| field.ty == FieldType::Text;
    // some services send titles as lists, of one title
    let is_texts = |field: &FieldPlan| *field.ty.element() == FieldType::Text;
    let named = fields.iter().position(|field| is_texts(field) && words(&field.name).last().is_some_and(|last| TITLES.contains(&last.as_str())));
    let is_phrase = |field: &FieldPlan| {
        column(field).is_some_and(|(column, documents)| {
            let mean = column.mean_length();
            (8.0..80.0).contains(&mean) && column.distinct.count() * 2 > documents && column.examples.iter().any(|example| example.contains(' '))
        })
    };
    named.or_else(|| fields.iter().position(|field| is_text(field) && is_phrase(field)))
}

/// Whether people are likely to look for records by a field.
fn is_filterable(field: &FieldPlan, column: &ColumnProfile, documents: u64) -> bool {
    let words = words(&field.name);
    let distinct = column.distinct.count();
    let is_grouping = distinct >= 2 && distinct <= 200.max(documents / 20) && distinct * 2 <= documents.max(4);
    match field.ty.element() {
        FieldType::Date | FieldType::PartialDate | FieldType::Timestamp => true,
        FieldType::Text | FieldType::Boolean | FieldType::Uuid if field.ty.members().is_empty() => {
            is_grouping && column.mean_length() <= 40.0 || has_word(&words, &["email", "code", "id"]) && column.mean_length() <= 60.0
        }
        FieldType::Integer => has_word(&words, &["year", "month", "id", "jahr"]) && distinct >= 2 || is_grouping && distinct <= 50,
        _ => false,
    }
}
