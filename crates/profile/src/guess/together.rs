//! Which tables list the same things: those with columns that identify rows and have values in common.

use super::GuessedTable;
use super::keys::{TableKey, can_be_in_key};
use super::names::{WORLDWIDE, has_word, words, words_of_path};
use crate::distinct::Overlap;
use crate::table::TableProfile;
use std::collections::HashMap;
use stook_catalogue::value::FieldType;

/// Tables that list the same things, each with the column that identifies them.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) tables: Vec<(usize, Option<usize>)>,
    /// Why they belong together.
    pub(crate) notes: Vec<String>,
}

/// Columns of two tables by which both list the same things.
struct Match {
    own: (usize, usize),
    other: (usize, usize),
    strength: f64,
    note: String,
}

/// Finds the groups, in the order of their first tables.
pub(crate) fn groups(tables: &[GuessedTable<'_>]) -> Vec<Group> {
    let mut matches: Vec<Match> = Vec::new();
    for own in 0..tables.len() {
        for other in own + 1..tables.len() {
            matches.extend(matched(tables, own, other));
        }
    }
    matches.sort_by(|one, other| other.strength.total_cmp(&one.strength));
    // the group of each table, with the column
    let mut of: Vec<(usize, Option<usize>)> = (0..tables.len()).map(|table| (table, None)).collect();
    let mut notes: Vec<(usize, String)> = Vec::new();
    for found in matches {
        let ((own, own_column), (other, other_column)) = (found.own, found.other);
        let fits = |(table, column): (usize, usize)| of[table].1.is_none_or(|chosen| chosen == column);
        if of[own].0 == of[other].0 || !fits(found.own) || !fits(found.other) {
            continue;
        }
        (of[own].1, of[other].1) = (Some(own_column), Some(other_column));
        let (kept, joined) = (of[own].0.min(of[other].0), of[own].0.max(of[other].0));
        of.iter_mut().filter(|(group, _)| *group == joined).for_each(|(group, _)| *group = kept);
        notes.iter_mut().filter(|(group, _)| *group == joined).for_each(|(group, _)| *group = kept);
        notes.push((kept, found.note));
    }
    let mut groups: Vec<Group> = Vec::new();
    for first in 0..tables.len() {
        let members: Vec<(usize, Option<usize>)> =
            (0..tables.len()).filter(|table| of[*table].0 == first).map(|table| (table, of[table].1)).collect();
        if !members.is_empty() {
            let notes = notes.iter().filter(|(group, _)| *group == first).map(|(_, note)| note.clone()).collect();
            groups.push(Group { tables: members, notes });
        }
    }
    groups
}

/// The best match of two tables, if there is one.
fn matched(tables: &[GuessedTable<'_>], own: usize, other: usize) -> Option<Match> {
    let (a, b) = (&tables[own], &tables[other]);
    let mut best: Option<Match> = None;
    for one in identifying(a) {
        for two in identifying(b) {
            let Some((strength, overlap)) = strength(a, b, (one, two)) else { continue };
            if best.as_ref().is_none_or(|best| strength > best.strength) {
                let (first, second) = (&a.table.columns[one].path, &b.table.columns[two].path);
                let share = (overlap.of_smaller() * 100.0).round();
                let note = format!(
                    "`{second}` of {} is taken to be `{first}` of {}: {share} % of the smaller one's values are in both",
                    name(b.table),
                    name(a.table)
                );
                best = Some(Match { own: (own, one), other: (other, two), strength, note });
            }
        }
    }
    best
}

fn name(table: &TableProfile) -> String {
    super::names::file_name(&table.files[0])
}

/// Columns that identify the rows in which they have a value, which are not few.
fn identifying(table: &GuessedTable<'_>) -> Vec<usize> {
    let fits = |position: &usize| {
        let column = &table.table.columns[*position];
        let ty = &table.types[*position].ty;
        let is_identifier = matches!(ty, FieldType::Text | FieldType::Integer | FieldType::Uuid);
        let is_filled = column.documents * 10 >= table.table.documents * 3;
        is_identifier && is_filled && column.distinct.is_unique() && column.values > 0 && can_be_in_key(column, ty)
    };
    (0..table.types.len()).filter(fits).collect()
}

fn strength(a: &GuessedTable<'_>, b: &GuessedTable<'_>, (one, two): (usize, usize)) -> Option<(f64, Overlap)> {
    let (first, second) = (&a.table.columns[one], &b.table.columns[two]);
    let overlap = first.distinct.overlap(&second.distinct);
    let (own_key, their_key) = (a.key.key == TableKey::Column(one), b.key.key == TableKey::Column(two));
    let (own_words, their_words) = (words_of_path(&first.path, a.table.reading.family), words_of_path(&second.path, b.table.reading.family));
    let is_equal = own_words == their_words;
    if overlap.shared == 0 {
        let same = is_equal && own_key && their_key && have_same_columns(a, b);
        return same.then_some((0.05, overlap));
    }
    // a column that names what the other table lists leads there
    let leads = |words: &[String], thing: &str, is_key: bool| !is_key && super::names::words(thing).iter().any(|word| words.contains(word));
    if !own_key && !their_key || leads(&own_words, &b.thing, own_key) || leads(&their_words, &a.thing, their_key) {
        return None;
    }
    let is_worldwide = has_word(&own_words, &WORLDWIDE) && own_words.iter().any(|word| their_words.contains(word));
    let is_related = is_equal
        || is_worldwide
        || own_words.iter().all(|word| their_words.contains(word))
        || their_words.iter().all(|word| own_words.contains(word));
    if is_dense(a, one) && is_dense(b, two) {
        // numbers from 1 on are in many tables; the rows themselves must agree, too
        let is_specific = is_equal && own_words.len() > 1;
        let agree = agreement(a, b, (one, two)) >= 0.5;
        return (is_related && (is_specific || agree)).then_some((overlap.of_smaller(), overlap));
    }
    let (smaller, larger) = (overlap.of_smaller(), overlap.of_larger());
    let is_same = match () {
        () if is_worldwide => smaller >= 0.05,
        () if is_equal && own_key && their_key => smaller >= 0.3 || have_same_columns(a, b),
        () if is_related => smaller >= 0.3 && (own_key && their_key || larger >= 0.3),
        () => smaller >= 0.5 && overlap.shared >= 3 && larger >= if own_key && their_key { 0.2 } else { 0.5 },
    };
    let by_name = if is_equal {
        1.0
    } else if is_related {
        0.5
    } else {
        0.0
    };
    is_same.then_some((smaller + larger + by_name, overlap))
}

/// Whether a column has whole numbers without many gaps.
fn is_dense(table: &GuessedTable<'_>, position: usize) -> bool {
    let numbers = &table.table.columns[position].numbers;
    table.types[position].ty == FieldType::Integer && numbers.greatest - numbers.least <= 20.0 * numbers.count as f64
}

fn have_same_columns(a: &GuessedTable<'_>, b: &GuessedTable<'_>) -> bool {
    let names = |table: &GuessedTable<'_>| -> Vec<Vec<String>> { table.entries.iter().map(|entry| words(&entry.name)).collect() };
    let (own, others) = (names(a), names(b));
    let shared = own.iter().filter(|name| others.contains(name)).count();
    shared >= 3 && shared * 10 >= own.len().max(others.len()) * 8
}

/// In rows with equal values in two columns: the greatest share of equal values of another column that both tables have by the same name.
fn agreement(a: &GuessedTable<'_>, b: &GuessedTable<'_>, (one, two): (usize, usize)) -> f64 {
    let mut best: f64 = 0.0;
    for entry in a.entries.iter().filter(|entry| entry.column != one) {
        if let Some(same) = b.entries.iter().find(|other| other.column != two && other.name == entry.name) {
            best = best.max(agree(a.table, b.table, (one, two), (entry.column, same.column)).0);
        }
    }
    best
}

/// In rows with equal values in `keys`: the share of equal values in `columns`, of those where both have one, and the number of these.
pub(crate) fn agree(a: &TableProfile, b: &TableProfile, keys: (usize, usize), columns: (usize, usize)) -> (f64, usize) {
    let value = |row: &[u64], column: usize| row.get(column).copied().filter(|hash| *hash != 0);
    let by_key: HashMap<u64, u64> = a.rows.iter().filter_map(|row| Some((value(row, keys.0)?, value(row, columns.0)?))).collect();
    let both = b.rows.iter().filter_map(|row| Some((*by_key.get(&value(row, keys.1)?)?, value(row, columns.1)?)));
    let (mut equal, mut compared) = (0_usize, 0_usize);
    for (own, other) in both {
        compared += 1;
        equal += usize::from(own == other);
    }
    (if compared == 0 { 0.0 } else { equal as f64 / compared as f64 }, compared)
}
