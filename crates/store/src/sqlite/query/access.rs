//! Access paths: chooses the condition whose index finds the records of a plan.

use super::super::error::failure;
use super::super::tables::conflict_index;
use super::columns::{ColumnInfo, known};
use super::comparison::{comparison, is_negation};
use crate::plan::{Comparison, QueryPlan};
use crate::sql::pattern::{self};
use crate::{Result, StoreError};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, ToSql};
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::value::FieldType;

/// SQL with its parameters.
pub struct SqlStatement {
    pub sql: String,
    pub parameters: Vec<Sql>,
}

impl SqlStatement {
    pub fn bound(&self) -> Vec<&dyn ToSql> {
        self.parameters.iter().map(|value| value as &dyn ToSql).collect()
    }
}

/// How the records that satisfy a condition are found.
pub enum AccessPath {
    /// An index of the record table, by name.
    Ordered(String),
    /// The table of the elements of a list.
    Elements,
    /// The trigram table, with this query.
    Trigrams(String),
    /// The table of bounding boxes.
    Boxes,
    /// The index of records with conflicts.
    Conflicts,
}

/// How many entries of each index are counted if several indexes could be used; the one with fewest is chosen. If all have more, more are counted:
/// counting an entry costs much less than reading a record in vain.
const PROBES: [i64; 3] = [256, 4_096, 32_768];

/// The access path of a condition, with a rank of how selective it usually is; smaller is better. `None` if all records must be read.
pub fn access_path_of(collection: &Collection, known: &ColumnInfo, test: &Comparison) -> Option<(u32, AccessPath)> {
    if known.conflicts {
        return (!is_negation(test)).then_some((4, AccessPath::Conflicts));
    }
    if matches!(test, Comparison::Lies(..)) {
        return known.index.intersects.then_some((5, AccessPath::Boxes));
    }
    let ordered =
        if known.index.ordered && known.ty.is_list() { Some(AccessPath::Elements) } else { known.ordered_index(collection).map(AccessPath::Ordered) };
    if matches!(test, Comparison::Wildcard(pieces) | Comparison::NotWildcard(pieces) if pieces.is_empty()) {
        return None;
    }
    let beginning = match test {
        Comparison::Prefix(prefix) => known.pieces(&[prefix.clone(), String::new()])[0].chars().count(),
        Comparison::Wildcard(pieces) => known.pieces(pieces)[0].chars().count(),
        _ => 0,
    };
    // a short beginning excludes less than the rest of the pattern
    let by_trigrams = ordered.is_none() || (beginning < 3 && matches!(test, Comparison::Prefix(_) | Comparison::Wildcard(_)));
    if by_trigrams && let Some(query) = trigrams(known, test) {
        return Some((11, AccessPath::Trigrams(query)));
    }
    let rank = match test {
        Comparison::Equal(_) if known.is_key => 0,
        Comparison::Equal(_) if known.unique => 1,
        // one of two values may be half of the records
        Comparison::Equal(_) | Comparison::In(_) if known.ty.element() == &FieldType::Boolean => 14,
        Comparison::Equal(_) => 2,
        Comparison::In(_) => 3,
        Comparison::Prefix(_) | Comparison::Wildcard(_) if beginning > 0 => 10 - beginning.min(4) as u32,
        Comparison::Range { low: Some(_), high: Some(_) } => 12,
        Comparison::Range { .. } => 13,
        _ => return None,
    };
    Some((rank, ordered?))
}

/// The query of the trigram table: every record that satisfies the test has all these trigrams.
fn trigrams(known: &ColumnInfo, test: &Comparison) -> Option<String> {
    let pieces = match test {
        _ if !known.index.contains => return None,
        Comparison::Wildcard(pieces) => known.pieces(pieces),
        Comparison::Prefix(prefix) => known.pieces(&[prefix.clone(), String::new()]),
        Comparison::Equal(wanted) => vec![known.folded(wanted).as_text()?.to_owned()],
        _ => return None,
    };
    let quoted: Vec<String> = pattern::trigrams(&pieces).iter().map(|three| format!("\"{}\"", three.replace('"', "\"\""))).collect();
    (!quoted.is_empty()).then(|| quoted.join(" AND "))
}

/// The query for ids of records whose bounding boxes overlap those of the geometry in the condition.
pub fn in_boxes(collection: &Collection, known: &ColumnInfo, test: &Comparison, parameters: &mut Vec<Sql>) -> String {
    let Comparison::Lies(_, wanted) = test else { return String::new() };
    let asked = wanted.reach().asked();
    parameters.extend(asked.iter().flat_map(|own| [own.east, own.west, own.north, own.south]).map(Sql::Real));
    let side = format!("\"g_{}_{}\"", collection.name, known.name);
    let one = format!("SELECT id FROM {side} WHERE west <= ? AND east >= ? AND south <= ? AND north >= ?");
    vec![one; asked.len()].join(" UNION ALL ")
}

pub fn collection_of<'a>(catalogue: &'a Catalogue, plan: &QueryPlan) -> Result<&'a Collection> {
    catalogue.collections.get(plan.collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))
}

/// Chooses the condition whose index finds fewest records.
pub fn choose_driving_condition(
    connection: &Connection,
    catalogue: &Catalogue,
    tenant: i64,
    plan: &QueryPlan,
) -> Result<Option<(usize, AccessPath)>> {
    let collection = collection_of(catalogue, plan)?;
    let columns: Vec<ColumnInfo> =
        plan.conditions.iter().map(|condition| known(catalogue, collection, plan.each, condition.column)).collect::<Result<_>>()?;
    let mut candidates: Vec<(u32, usize, AccessPath)> = Vec::new();
    for (index, (condition, known)) in plan.conditions.iter().zip(&columns).enumerate() {
        candidates.extend(access_path_of(collection, known, &condition.test).map(|(rank, path)| (rank, index, path)));
    }
    candidates.sort_by_key(|(rank, index, _)| (*rank, *index));
    // records with a tag are found in the order of keys, so a page in that order reads no more than it returns
    let is_page = plan.sort.is_empty() && !plan.distinct && plan.limit.is_some_and(|limit| limit.saturating_add(plan.offset) <= PROBES[0] as u64);
    let streams = |index: usize| is_page && columns[index].tags.is_some() && matches!(plan.conditions[index].test, Comparison::Equal(_));
    // nothing finds fewer than one record
    if candidates.len() < 2 || candidates[0].0 <= 1 {
        return Ok(candidates.into_iter().next().map(|(_, index, path)| (index, path)));
    }
    for most in PROBES {
        let mut fewest = (most, 0);
        for (place, (_, index, path)) in candidates.iter().enumerate() {
            let condition = IndexedCondition { collection, column: &columns[*index], test: &plan.conditions[*index].test, path };
            let entries = probe(connection, tenant, &condition, most)?;
            fewest = fewest.min((entries, place));
        }
        if fewest.0 < most {
            let (_, index, path) = candidates.swap_remove(fewest.1);
            return Ok(Some((index, path)));
        }
        if let Some(place) = candidates.iter().position(|(_, index, _)| streams(*index)) {
            let (_, index, path) = candidates.swap_remove(place);
            return Ok(Some((index, path)));
        }
    }
    Ok(candidates.into_iter().next().map(|(_, index, path)| (index, path)))
}

/// A condition with its access path.
pub struct IndexedCondition<'c> {
    pub collection: &'c Collection,
    pub column: &'c ColumnInfo,
    pub test: &'c Comparison,
    pub path: &'c AccessPath,
}

/// Counts the entries of an index for a condition, at most `most`.
pub fn probe(connection: &Connection, tenant: i64, condition: &IndexedCondition<'_>, most: i64) -> Result<i64> {
    let IndexedCondition { collection, column: known, test, path } = *condition;
    // only the beginning of a pattern limits which entries are read
    let test = match test {
        Comparison::Wildcard(pieces) => &Comparison::Prefix(pieces[0].clone()),
        other => other,
    };
    let mut parameters = vec![Sql::Integer(tenant)];
    let (name, field) = (&collection.name, &known.name);
    let from = match path {
        AccessPath::Ordered(index) => {
            format!("\"r_{name}\" INDEXED BY {index} WHERE tenant = ? AND {}", comparison(&known.compared, test, known, &mut parameters)?)
        }
        AccessPath::Elements => {
            let (elements, own) = (known.elements(collection), known.elements_of());
            format!("{elements} WHERE {own} AND {}", comparison("value", test, known, &mut parameters)?)
        }
        AccessPath::Boxes => {
            parameters = Vec::new();
            format!("({})", in_boxes(collection, known, test, &mut parameters))
        }
        AccessPath::Conflicts => format!("\"r_{name}\" INDEXED BY {} WHERE tenant = ? AND conflict IS NOT NULL", conflict_index(name)),
        AccessPath::Trigrams(query) => {
            parameters = vec![Sql::Text(query.clone())];
            format!("\"t_{name}_{field}\" WHERE \"t_{name}_{field}\" MATCH ?")
        }
    };
    let statement = SqlStatement { sql: format!("SELECT count(*) FROM (SELECT 1 FROM {from} LIMIT {most})"), parameters };
    let mut prepared = connection.prepare_cached(&statement.sql).map_err(failure)?;
    prepared.query_row(statement.bound().as_slice(), |row| row.get(0)).map_err(failure)
}
