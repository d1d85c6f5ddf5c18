//! Access paths: chooses the condition whose index finds the records of a plan.

use super::super::error::store_error;
use super::super::tables::conflict_index;
use super::super::words_index::{words_query, words_table};
use super::alternatives::{IndexedAlternative, indexed_alternatives, probe_alternatives};
use super::columns::{ColumnInfo, column_info};
use super::comparison::{comparison, is_negation};
use super::linked::condition_column;
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
    pub fn bound_parameters(&self) -> Vec<&dyn ToSql> {
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
    /// The table of words, with this query.
    Words(String),
    /// The table of bounding boxes.
    Boxes,
    /// The index of records with conflicts.
    Conflicts,
}

/// How many entries of each index are counted if several indexes could be used; the one with fewest is chosen. If all have more, more are counted:
/// counting an entry costs much less than reading a record in vain.
const PROBES: [i64; 3] = [256, 4_096, 32_768];

/// The access path of a condition, with a rank of how selective it usually is; smaller is better. `None` if all records must be read.
pub fn access_path_of(collection: &Collection, column: &ColumnInfo, test: &Comparison) -> Option<(u32, AccessPath)> {
    if column.conflicts {
        return (!is_negation(test)).then_some((4, AccessPath::Conflicts));
    }
    if matches!(test, Comparison::Related(..)) {
        return column.index.intersects.then_some((5, AccessPath::Boxes));
    }
    if let Comparison::Words(search) = test {
        return column.index.words.then(|| (6, AccessPath::Words(words_query(search))));
    }
    let ordered_path = if column.index.ordered && column.ty.is_list() {
        Some(AccessPath::Elements)
    } else {
        column.ordered_index(collection).map(AccessPath::Ordered)
    };
    if matches!(test, Comparison::Wildcard(pieces) | Comparison::NotWildcard(pieces) if pieces.is_empty()) {
        return None;
    }
    let prefix_length = match test {
        Comparison::Prefix(prefix) => column.fold_pattern(&[prefix.clone(), String::new()])[0].chars().count(),
        Comparison::Wildcard(pieces) => column.fold_pattern(pieces)[0].chars().count(),
        _ => 0,
    };
    // a short beginning excludes less than the rest of the pattern
    let by_trigrams = ordered_path.is_none() || (prefix_length < 3 && matches!(test, Comparison::Prefix(_) | Comparison::Wildcard(_)));
    if by_trigrams && let Some(query) = trigrams(column, test) {
        return Some((11, AccessPath::Trigrams(query)));
    }
    let rank = match test {
        Comparison::Equal(_) if column.is_key => 0,
        Comparison::Equal(_) if column.unique => 1,
        // one of two values may be half of the records
        Comparison::Equal(_) | Comparison::In(_) if column.ty.element() == &FieldType::Boolean => 14,
        Comparison::Equal(_) => 2,
        Comparison::In(_) => 3,
        Comparison::Among(_) => 4,
        Comparison::Prefix(_) | Comparison::Wildcard(_) if prefix_length > 0 => 10 - prefix_length.min(4) as u32,
        Comparison::Range { low: Some(_), high: Some(_) } | Comparison::During(_) => 12,
        Comparison::Range { .. } => 13,
        _ => return None,
    };
    Some((rank, ordered_path?))
}

/// The query of the trigram table: every record that satisfies the test has all these trigrams.
fn trigrams(column: &ColumnInfo, test: &Comparison) -> Option<String> {
    let pieces = match test {
        _ if !column.index.contains => return None,
        Comparison::Wildcard(pieces) => column.fold_pattern(pieces),
        Comparison::Prefix(prefix) => column.fold_pattern(&[prefix.clone(), String::new()]),
        Comparison::Equal(wanted) => vec![column.folded(wanted).as_text()?.to_owned()],
        _ => return None,
    };
    let quoted: Vec<String> = pattern::trigrams(&pieces).iter().map(|trigram| format!("\"{}\"", trigram.replace('"', "\"\""))).collect();
    (!quoted.is_empty()).then(|| quoted.join(" AND "))
}

/// The query for ids of records whose bounding boxes overlap those of the geometry in the condition.
pub fn box_query(collection: &Collection, column: &ColumnInfo, test: &Comparison, parameters: &mut Vec<Sql>) -> String {
    let Comparison::Related(_, wanted) = test else { return String::new() };
    let areas = wanted.reach().search_boxes();
    parameters.extend(areas.iter().flat_map(|area| [area.east, area.west, area.north, area.south]).map(Sql::Real));
    let side = format!("\"g_{}_{}\"", collection.name, column.name);
    let box_sql = format!("SELECT id FROM {side} WHERE west <= ? AND east >= ? AND south <= ? AND north >= ?");
    vec![box_sql; areas.len()].join(" UNION ALL ")
}

pub fn collection_of<'a>(catalogue: &'a Catalogue, plan: &QueryPlan) -> Result<&'a Collection> {
    catalogue.collections.get(plan.collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))
}

/// What finds the records of a plan.
pub enum Driving {
    /// A condition, by its position.
    Condition(usize, AccessPath),
    /// Alternatives, one of which must hold.
    Alternatives(Vec<IndexedAlternative>),
}

impl Driving {
    /// Counts the entries of its indexes, at most about `max_entries`.
    pub fn probe(&self, connection: &Connection, catalogue: &Catalogue, (tenant, plan): (i64, &QueryPlan), max_entries: i64) -> Result<i64> {
        let collection = collection_of(catalogue, plan)?;
        match self {
            Driving::Condition(index, path) => {
                let condition = &plan.conditions[*index];
                let column = condition_column(connection, catalogue, tenant, plan, condition)?;
                probe(connection, tenant, &IndexedCondition { collection, column: &column, test: &condition.test, path }, max_entries)
            }
            Driving::Alternatives(alternatives) => probe_alternatives(connection, tenant, collection, (alternatives, max_entries)),
        }
    }
}

/// Chooses the condition, or the alternatives, whose indexes find fewest records.
pub fn choose_driving_condition(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> Result<Option<Driving>> {
    let collection = collection_of(catalogue, plan)?;
    let columns: Vec<ColumnInfo> =
        plan.conditions.iter().map(|condition| column_info(catalogue, collection, plan.each, condition.column)).collect::<Result<_>>()?;
    let mut candidates: Vec<(u32, Driving)> = Vec::new();
    for (index, (condition, column)) in plan.conditions.iter().zip(&columns).enumerate() {
        candidates.extend(access_path_of(collection, column, &condition.test).map(|(rank, path)| (rank, Driving::Condition(index, path))));
    }
    for combined in &plan.combined {
        // one condition needs fewer look-ups than several
        candidates.extend(indexed_alternatives(catalogue, plan, combined)?.map(|(rank, found)| (rank.max(2), Driving::Alternatives(found))));
    }
    // stable: conditions stay in their order
    candidates.sort_by_key(|(rank, _)| *rank);
    // records with a tag are found in the order of keys, so a page in that order reads no more than it returns
    let is_page = plan.sort.is_empty() && !plan.distinct && plan.limit.is_some_and(|limit| limit.saturating_add(plan.offset) <= PROBES[0] as u64);
    let is_tag_in_key_order = |driving: &Driving| match driving {
        Driving::Condition(index, _) => is_page && columns[*index].tags.is_some() && matches!(plan.conditions[*index].test, Comparison::Equal(_)),
        Driving::Alternatives(_) => false,
    };
    // nothing finds fewer than one record
    if candidates.len() < 2 || candidates[0].0 <= 1 {
        return Ok(candidates.into_iter().next().map(|(_, driving)| driving));
    }
    for max_entries in PROBES {
        let mut fewest = (max_entries, 0);
        for (position, (_, driving)) in candidates.iter().enumerate() {
            fewest = fewest.min((driving.probe(connection, catalogue, (tenant, plan), max_entries)?, position));
        }
        if fewest.0 < max_entries {
            return Ok(Some(candidates.swap_remove(fewest.1).1));
        }
        if let Some(position) = candidates.iter().position(|(_, driving)| is_tag_in_key_order(driving)) {
            return Ok(Some(candidates.swap_remove(position).1));
        }
    }
    Ok(candidates.into_iter().next().map(|(_, driving)| driving))
}

/// How an access path finds records, in words.
pub fn description(path: &AccessPath, column: &ColumnInfo, test: &Comparison) -> String {
    let name = &column.name;
    match path {
        AccessPath::Ordered(_) if matches!(test, Comparison::Equal(_) | Comparison::In(_) | Comparison::Among(_)) => {
            format!("looks up {name} in its index")
        }
        AccessPath::Ordered(_) => format!("reads a range of the index on {name}"),
        AccessPath::Elements => format!("finds records through the index on the elements of {name}"),
        AccessPath::Boxes => format!("finds records through the boxes around {name}"),
        AccessPath::Conflicts => "reads records with conflicts in key order".into(),
        AccessPath::Words(_) => format!("finds records through the index of words of {name}"),
        AccessPath::Trigrams(_) => format!("finds records through the trigram index on {name}"),
    }
}

/// A condition with its access path.
pub struct IndexedCondition<'c> {
    pub collection: &'c Collection,
    pub column: &'c ColumnInfo,
    pub test: &'c Comparison,
    pub path: &'c AccessPath,
}

/// Counts the entries of an index for a condition, at most `max_entries`.
pub fn probe(connection: &Connection, tenant: i64, condition: &IndexedCondition<'_>, max_entries: i64) -> Result<i64> {
    let mut parameters = Vec::new();
    let from = entries_sql(tenant, condition, &mut parameters)?;
    let statement = SqlStatement { sql: format!("SELECT count(*) FROM (SELECT 1 FROM {from} LIMIT {max_entries})"), parameters };
    let mut prepared = connection.prepare_cached(&statement.sql).map_err(store_error)?;
    prepared.query_row(statement.bound_parameters().as_slice(), |row| row.get(0)).map_err(store_error)
}

/// The table of an index, with the condition on its entries.
pub fn entries_sql(tenant: i64, condition: &IndexedCondition<'_>, parameters: &mut Vec<Sql>) -> Result<String> {
    let IndexedCondition { collection, column, test, path } = *condition;
    // only the beginning of a pattern limits which entries are read
    let test = match test {
        Comparison::Wildcard(pieces) => &Comparison::Prefix(pieces[0].clone()),
        other => other,
    };
    if !matches!(path, AccessPath::Boxes | AccessPath::Trigrams(_) | AccessPath::Words(_)) {
        parameters.push(Sql::Integer(tenant));
    }
    let (name, field) = (&collection.name, &column.name);
    Ok(match path {
        AccessPath::Ordered(index) => {
            format!("\"r_{name}\" INDEXED BY {index} WHERE tenant = ? AND {}", comparison(&column.compared, test, column, parameters)?)
        }
        AccessPath::Elements => {
            let (elements_table, tenant_condition) = (column.elements_table(collection), column.tenant_condition());
            format!("{elements_table} WHERE {tenant_condition} AND {}", comparison("value", test, column, parameters)?)
        }
        AccessPath::Boxes => format!("({})", box_query(collection, column, test, parameters)),
        AccessPath::Conflicts => format!("\"r_{name}\" INDEXED BY {} WHERE tenant = ? AND conflict IS NOT NULL", conflict_index(name)),
        AccessPath::Words(query) => {
            let side = words_table(name, field);
            parameters.push(Sql::Text(query.clone()));
            format!("{side} WHERE {side} MATCH ?")
        }
        AccessPath::Trigrams(query) => {
            parameters.push(Sql::Text(query.clone()));
            format!("\"t_{name}_{field}\" WHERE \"t_{name}_{field}\" MATCH ?")
        }
    })
}
