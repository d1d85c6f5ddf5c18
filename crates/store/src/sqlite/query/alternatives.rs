//! Finds records by alternatives (`or`), if each of them has an index: the ids that all their indexes find. The alternatives are compared with each record
//! all the same, so what is found here may be more.

use super::access::{AccessPath, IndexedCondition, access_path_of, description, entries_sql, probe};
use super::columns::{ColumnInfo, column_info};
use crate::Result;
use crate::plan::{CombinedCondition, Condition, QueryPlan};
use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use stook_catalogue::definition::{Catalogue, Collection};

/// Maximum number of alternatives that are looked up in indexes.
const MAX_ALTERNATIVES: usize = 100;

/// A condition that finds the records of one alternative.
pub struct IndexedAlternative {
    condition: Condition,
    column: ColumnInfo,
    path: AccessPath,
    rank: u32,
}

impl IndexedAlternative {
    fn indexed<'c>(&'c self, collection: &'c Collection) -> IndexedCondition<'c> {
        IndexedCondition { collection, column: &self.column, test: &self.condition.test, path: &self.path }
    }
}

/// The conditions that find all records for which combined conditions hold, with a rank of how selective they usually are; `None` if all records must
/// be read.
pub fn indexed_alternatives(catalogue: &Catalogue, plan: &QueryPlan, combined: &CombinedCondition) -> Result<Option<(u32, Vec<IndexedAlternative>)>> {
    let collection = &catalogue.collections[plan.collection];
    let found = find(catalogue, (collection, plan), combined)?.filter(|found| (1..=MAX_ALTERNATIVES).contains(&found.len()));
    Ok(found.map(|found| (rank_of(&found), found)))
}

fn rank_of(alternatives: &[IndexedAlternative]) -> u32 {
    alternatives.iter().map(|alternative| alternative.rank).max().unwrap_or(0)
}

fn find(
    catalogue: &Catalogue,
    (collection, plan): (&Collection, &QueryPlan),
    combined: &CombinedCondition,
) -> Result<Option<Vec<IndexedAlternative>>> {
    match combined {
        CombinedCondition::Is(condition) => {
            // the statement of linked records is made when the condition is compared
            if condition.test.is_of_linked() {
                return Ok(None);
            }
            let column = column_info(catalogue, collection, plan.each, condition.column)?;
            let path = access_path_of(collection, &column, &condition.test);
            Ok(path.map(|(rank, path)| vec![IndexedAlternative { condition: condition.clone(), column, path, rank }]))
        }
        CombinedCondition::IsNot(_) => Ok(None),
        CombinedCondition::All(inner) => {
            let mut best: Option<Vec<IndexedAlternative>> = None;
            for inner in inner {
                let found = find(catalogue, (collection, plan), inner)?;
                best = [best, found].into_iter().flatten().min_by_key(|found| rank_of(found));
            }
            Ok(best)
        }
        CombinedCondition::Any(inner) => {
            let mut all = Vec::new();
            for inner in inner {
                let Some(found) = find(catalogue, (collection, plan), inner)? else { return Ok(None) };
                all.extend(found);
            }
            Ok(Some(all))
        }
    }
}

/// Counts the entries of the indexes, at most about `max_entries`.
pub fn probe_alternatives(
    connection: &Connection,
    tenant: i64,
    collection: &Collection,
    (alternatives, max_entries): (&[IndexedAlternative], i64),
) -> Result<i64> {
    let mut entries = 0;
    for alternative in alternatives {
        entries += probe(connection, tenant, &alternative.indexed(collection), max_entries)?;
        if entries >= max_entries {
            break;
        }
    }
    Ok(entries.min(max_entries))
}

/// The query for the ids of the records.
pub fn ids_sql(tenant: i64, collection: &Collection, alternatives: &[IndexedAlternative], parameters: &mut Vec<Sql>) -> Result<String> {
    let mut queries = Vec::with_capacity(alternatives.len());
    for alternative in alternatives {
        let mut own = Vec::new();
        let from = entries_sql(tenant, &alternative.indexed(collection), &mut own)?;
        let name = &collection.name;
        queries.push(match &alternative.path {
            AccessPath::Elements if alternative.column.tags.is_some() => {
                parameters.push(Sql::Integer(tenant));
                format!("SELECT id FROM \"r_{name}\" INDEXED BY \"k_{name}\" WHERE tenant = ? AND packed IN (SELECT packed(key) FROM {from})")
            }
            AccessPath::Trigrams(_) | AccessPath::Words(_) => format!("SELECT rowid FROM {from}"),
            AccessPath::Ordered(_) | AccessPath::Elements | AccessPath::Boxes | AccessPath::Conflicts => format!("SELECT id FROM {from}"),
        });
        parameters.extend(own);
    }
    Ok(queries.join(" UNION ALL "))
}

/// How the records are found, in words.
pub fn descriptions(alternatives: &[IndexedAlternative]) -> String {
    let mut each: Vec<String> = Vec::new();
    for IndexedAlternative { condition, column, path, .. } in alternatives {
        let description = description(path, column, &condition.test);
        if !each.contains(&description) {
            each.push(description);
        }
    }
    format!("finds the records of each alternative: {}", each.join("; "))
}
