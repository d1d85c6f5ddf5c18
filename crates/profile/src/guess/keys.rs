//! Which column, or columns together, identify the rows of a table.

use super::names::{IDENTIFYING, WORLDWIDE, collection_name, has_word, stem, words_of_path};
use super::types::ColumnType;
use crate::column::ColumnProfile;
use crate::table::TableProfile;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use stook_catalogue::definition::FormatFamily;
use stook_catalogue::value::FieldType;

/// Maximum number of characters of a value in a key.
const MAX_LENGTH: u64 = 200;
/// Columns that are tried together.
const MAX_TOGETHER: usize = 12;

/// Words of columns that people share: names of persons, and where they live.
const SHARED: [&str; 14] =
    ["postcode", "postal", "zip", "zipcode", "plz", "first", "last", "given", "family", "surname", "vorname", "nachname", "firstname", "lastname"];
/// Words of columns with times of a thing's life, which differ by chance: the time of an observation identifies it, the day of somebody's death does not.
const OF_A_LIFE: [&str; 16] = [
    "birth",
    "born",
    "birthday",
    "birthdate",
    "dob",
    "death",
    "died",
    "deceased",
    "founded",
    "opened",
    "closed",
    "created",
    "updated",
    "modified",
    "geboren",
    "gestorben",
];

/// What identifies the rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableKey {
    /// The column at this position.
    Column(usize),
    /// Several columns.
    Columns(Vec<usize>),
    /// Nothing but the place in the file.
    Row,
}

/// A table's key, and what else it could be.
#[derive(Debug, Clone)]
pub(crate) struct KeyGuess {
    pub(crate) key: TableKey,
    /// Other columns that identify rows, best first.
    pub(crate) others: Vec<usize>,
}

/// Whether a column has a value in every document, and each once.
pub(crate) fn identifies(column: &ColumnProfile, ty: &FieldType, documents: u64) -> bool {
    is_complete(column, ty, documents) && column.distinct.is_unique()
}

fn is_complete(column: &ColumnProfile, ty: &FieldType, documents: u64) -> bool {
    column.documents == documents && can_be_in_key(column, ty)
}

/// Whether a column's values, where there are some, can be keys.
pub(crate) fn can_be_in_key(column: &ColumnProfile, ty: &FieldType) -> bool {
    let is_scalar =
        matches!(ty, FieldType::Text | FieldType::Integer | FieldType::Uuid | FieldType::Date | FieldType::PartialDate | FieldType::Timestamp);
    is_scalar && column.most_in_document <= 1 && column.longest <= MAX_LENGTH && column.inside.is_none() && column.tokens.is_empty()
}

/// Guesses the key of a table.
pub(crate) fn key_of(table: &TableProfile, types: &[ColumnType]) -> KeyGuess {
    let thing = collection_name(&stem(&table.files[0]));
    let ranked = |found: Vec<usize>| {
        let mut scored: Vec<(i32, usize)> = found.into_iter().map(|position| (score(table, types, position, &thing), position)).collect();
        scored.sort_by_key(|(score, position)| (std::cmp::Reverse(*score), *position));
        scored
    };
    let unique = ranked((0..types.len()).filter(|position| identifies(&table.columns[*position], &types[*position].ty, table.documents)).collect());
    let others = |chosen: usize| unique.iter().map(|(_, position)| *position).filter(|position| *position != chosen).collect();
    match unique.first() {
        Some((score, best)) if *score >= 1 => return KeyGuess { key: TableKey::Column(*best), others: others(*best) },
        _ => {}
    }
    if let Some(together) = together(table, types) {
        return KeyGuess { key: TableKey::Columns(together), others: others(usize::MAX) };
    }
    match unique.first() {
        Some((score, best)) if *score >= -3 => KeyGuess { key: TableKey::Column(*best), others: others(*best) },
        _ => KeyGuess { key: TableKey::Row, others: Vec::new() },
    }
}

/// How much a column looks like what people identify things by.
fn score(table: &TableProfile, types: &[ColumnType], position: usize, thing: &str) -> i32 {
    let (column, ty) = (&table.columns[position], &types[position].ty);
    let words = words_of_path(&column.path, table.reading.family);
    let name = words.join("_");
    let is_own = name.strip_suffix("_id").or_else(|| name.strip_suffix("_code")).is_some_and(|rest| rest == thing || thing.ends_with(rest));
    let is_number_of_row = ["index", "unnamed_0", "row", "rank", "rownames", "column_1"].contains(&name.as_str()) || words.is_empty();
    let by_name = match () {
        () if ["id", "_id", "uuid", "identifier", "key"].contains(&name.as_str()) => 11,
        () if is_own || name == format!("{thing}id") => 10,
        () if name == "001" => 12,
        // people share names and places, and few rows do not show it
        () if has_word(&words, &SHARED) || has_word(&words, &OF_A_LIFE) => -6,
        () if has_word(&words, &WORLDWIDE) => 8,
        () if words.last().is_some_and(|last| IDENTIFYING.contains(&last.as_str())) => 7,
        () if has_word(&words, &IDENTIFYING) && !is_number_of(&words) => 5,
        () if name.ends_with("id") && ty != &FieldType::Text || name.ends_with("code") => 5,
        () if is_number_of_row => 1,
        () if ["name", "title", "email", "url", "login", "label"].contains(&name.as_str()) => 2,
        () => 0,
    };
    let by_type = match ty {
        FieldType::Uuid => 5,
        // a measure is often unique, but no key
        FieldType::Integer if by_name == 0 => -4,
        FieldType::Date | FieldType::PartialDate | FieldType::Timestamp => 0,
        FieldType::Text if column.mean_length() > 60.0 => -5,
        FieldType::Text if column.mean_length() > 30.0 => -2,
        FieldType::Text if column.examples.iter().any(|example| example.contains(' ')) => -1,
        _ => 0,
    };
    let by_place = match position {
        0 => 3,
        1 | 2 => 1,
        _ => 0,
    };
    by_name + by_type + by_place
}

/// Whether a name speaks of how many there are of something: `no_of_vaccinations`, `num_pages`.
fn is_number_of(words: &[String]) -> bool {
    words.len() > 1 && words.first().is_some_and(|first| ["no", "nr", "num", "number"].contains(&first.as_str()))
}

/// Two or three columns that identify rows together, as far as rows were kept.
fn together(table: &TableProfile, types: &[ColumnType]) -> Option<Vec<usize>> {
    let fits = |position: &usize| is_complete(&table.columns[*position], &types[*position].ty, table.documents);
    let mut ranked: Vec<(i32, usize)> = (0..types.len())
        .filter(fits)
        .map(|position| (part_score(&table.columns[position], &types[position].ty, table.reading.family), position))
        .collect();
    ranked.sort_by_key(|(score, position)| (std::cmp::Reverse(*score), *position));
    ranked.truncate(MAX_TOGETHER);
    for (size, least) in [(2, 2), (3, 3)] {
        let mut sets = subsets(&ranked, size);
        sets.sort_by_key(|(score, set)| (std::cmp::Reverse(*score), set.clone()));
        let found = sets.into_iter().take_while(|(score, _)| *score >= least).find(|(_, set)| is_unique_together(table, set));
        if let Some((_, mut set)) = found {
            set.sort_unstable();
            return Some(set);
        }
    }
    None
}

/// How much a column looks like a part of a key.
fn part_score(column: &ColumnProfile, ty: &FieldType, family: FormatFamily) -> i32 {
    let words = words_of_path(&column.path, family);
    let is_id = has_word(&words, &IDENTIFYING) && !is_number_of(&words) || has_word(&words, &WORLDWIDE);
    let is_time =
        has_word(&words, &["year", "month", "day", "date", "time", "week", "period", "quarter", "hour", "version", "line", "position", "item"]);
    match ty {
        _ if is_id => 3,
        _ if has_word(&words, &SHARED) || has_word(&words, &OF_A_LIFE) => 0,
        FieldType::Date | FieldType::PartialDate | FieldType::Timestamp => 3,
        _ if is_time => 2,
        FieldType::Text if column.mean_length() > 40.0 => -3,
        FieldType::Text => 1,
        FieldType::Integer => -2,
        _ => 0,
    }
}

fn subsets(ranked: &[(i32, usize)], size: usize) -> Vec<(i32, Vec<usize>)> {
    let mut sets: Vec<(i32, Vec<usize>, usize)> = vec![(0, Vec::new(), 0)];
    for _ in 0..size {
        let longer = |(total, set, next): &(i32, Vec<usize>, usize)| {
            let (total, set, next) = (*total, set.clone(), *next);
            (next..ranked.len()).map(move |at| (total + ranked[at].0, [set.clone(), vec![ranked[at].1]].concat(), at + 1)).collect::<Vec<_>>()
        };
        sets = sets.iter().flat_map(longer).collect();
    }
    sets.into_iter().map(|(score, set, _)| (score, set)).collect()
}

fn is_unique_together(table: &TableProfile, columns: &[usize]) -> bool {
    let mut seen = HashSet::new();
    table.rows.iter().all(|row| {
        let mut hasher = DefaultHasher::new();
        columns.iter().for_each(|column| row.get(*column).copied().unwrap_or(0).hash(&mut hasher));
        seen.insert(hasher.finish())
    })
}
