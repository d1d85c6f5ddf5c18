//! Plans to SQL.
//!
//! One condition drives: its index is named with `INDEXED BY` (or a side table is read first), so an indexed condition never
//! scans; the others filter. Where several could drive, their indexes are asked for a few entries each, and the one that has
//! fewest does. Everything is bound, nothing is pasted, except names of columns, which come from the definition.

use super::failure;
use super::records::{bind, bind_element, unbind, unbind_stored};
use super::tables::{conflict_index, ordered_index};
use crate::damage::Damage;
use crate::pattern::{self, MAX_PATTERN, fold_pieces};
use crate::plan::{Aggregate, AggregateFunction, Comparison, Condition, PlanColumn, QueryPlan, link_of, mean_of, member, middle_of, structs};
use crate::{Result, StoreError};
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, ToSql};
use stook_catalogue::definition::{Catalogue, Collection, FieldIndexes};
use stook_catalogue::fold::fold;
use stook_catalogue::value::{FieldType, StructMember, Value};

/// SQL with its parameters.
struct SqlStatement {
    sql: String,
    parameters: Vec<Sql>,
}

impl SqlStatement {
    fn bound(&self) -> Vec<&dyn ToSql> {
        self.parameters.iter().map(|value| value as &dyn ToSql).collect()
    }
}

/// What the builder knows of a column.
struct ColumnInfo {
    /// As SQL, for values.
    sql: String,
    /// As SQL, for comparisons and order: the folded form where there is one, keys as their index holds them.
    compared: String,
    ty: FieldType,
    fold: bool,
    index: FieldIndexes,
    /// Name without prefix quoting, for indexes and side tables.
    name: String,
    is_key: bool,
    unique: bool,
    /// The number of the collection's tags, where it is those.
    tags: Option<u32>,
    /// Whether it is the fields on which contributors disagree, and records that have any are in an index.
    conflicts: bool,
}

/// The key of a collection's records as its index holds it, see [`super::packed`].
fn key(collection: &Collection) -> String {
    format!("\"r_{}\".packed", collection.name)
}

fn known(catalogue: &Catalogue, collection: &Collection, each: Option<usize>, column: PlanColumn) -> Result<ColumnInfo> {
    let plain = |sql: &str, ty: FieldType| ColumnInfo {
        sql: sql.to_owned(),
        compared: sql.to_owned(),
        ty,
        fold: false,
        index: FieldIndexes::default(),
        name: sql.to_owned(),
        is_key: sql == "key",
        unique: false,
        tags: None,
        conflicts: false,
    };
    match column {
        // records may be joined with what has a key, too
        PlanColumn::Key => {
            let sql = format!("\"r_{}\".key", collection.name);
            Ok(ColumnInfo { compared: key(collection), sql, name: "key".into(), is_key: true, ..plain("key", FieldType::Text) })
        }
        PlanColumn::Revision => Ok(plain("revision", FieldType::Integer)),
        PlanColumn::Conflict => Ok(ColumnInfo { conflicts: collection.compares(), ..plain("conflict", FieldType::List(Box::new(FieldType::Text))) }),
        PlanColumn::Tag => {
            let tags = collection.tags.as_ref().ok_or_else(|| StoreError::Wrong("the records of this collection carry no tags".into()))?;
            // an ordered aggregate, by an ordered sub-query
            let sql = format!(
                "(SELECT nullif(json_group_array(value), '[]') FROM (SELECT value FROM tagged WHERE tagged.tenant = \"r_{0}\".tenant \
                 AND tagged.collection = {1} AND tagged.key = \"r_{0}\".key ORDER BY value))",
                collection.name, tags.id
            );
            let index = FieldIndexes { ordered: true, ..FieldIndexes::default() };
            let name = "tag".to_owned();
            let ty = FieldType::List(Box::new(FieldType::Text));
            Ok(ColumnInfo {
                compared: sql.clone(),
                sql,
                ty,
                fold: false,
                index,
                name,
                is_key: false,
                unique: false,
                tags: Some(tags.id),
                conflicts: false,
            })
        }
        PlanColumn::Field(index) => {
            let field = collection.fields.get(index).ok_or_else(|| StoreError::Wrong("there is no such field".into()))?;
            let sql = match collection.member(index) {
                Some((list, member)) => in_structs(&collection.name, &collection.fields[list].name, member),
                None => format!("\"f_{}\"", field.name),
            };
            let folded = field.fold && !field.ty.is_list();
            let compared = if folded { format!("\"x_{}\"", field.name) } else { sql.clone() };
            let ty = field.golden_type().clone();
            Ok(ColumnInfo {
                sql,
                compared,
                ty,
                fold: field.fold,
                index: field.index,
                name: field.name.clone(),
                is_key: false,
                unique: field.unique,
                tags: None,
                conflicts: false,
            })
        }
        PlanColumn::Element(index) => {
            let member = member(collection, each, index)?;
            let value = format!("el.value ->> '{}'", member.name);
            let sql = if member.ty == FieldType::Uuid { format!("unhex({value})") } else { format!("({value})") };
            Ok(ColumnInfo { name: member.name.clone(), is_key: false, ..plain(&sql, member.ty.clone()) })
        }
        PlanColumn::TargetsExist(index) => {
            let link = link_of(catalogue, collection, index)?;
            let (to, field) = (&catalogue.collections[link.target_collection].name, &collection.fields[link.field].name);
            let own = format!("\"r_{}\"", collection.name);
            let exists = |key: &str| {
                format!("EXISTS (SELECT 1 FROM \"r_{to}\" AS lt WHERE lt.tenant = {own}.tenant AND packed(lt.key) = packed({key}) AND lt.alive)")
            };
            let all = match link.many {
                false => exists(&format!("{own}.\"f_{field}\"")),
                true => format!("NOT EXISTS (SELECT 1 FROM json_each({own}.\"f_{field}\") AS le WHERE NOT {})", exists("le.value")),
            };
            let sql = format!("(CASE WHEN {own}.\"f_{field}\" IS NOT NULL THEN {all} END)");
            Ok(ColumnInfo { name: format!("{}.exists", link.name), ..plain(&sql, FieldType::Boolean) })
        }
        PlanColumn::State(index) => {
            let state = collection.states.get(index).ok_or_else(|| StoreError::Wrong("there is no such state field".into()))?;
            let sql = format!("\"s_{}\"", state.name);
            // state fields have no side tables
            let index = FieldIndexes { ordered: state.index.ordered && !state.ty.is_list(), ..FieldIndexes::default() };
            Ok(ColumnInfo {
                compared: sql.clone(),
                sql,
                ty: state.ty.clone(),
                fold: false,
                index,
                name: state.name.clone(),
                is_key: false,
                unique: false,
                tags: None,
                conflicts: false,
            })
        }
    }
}

impl ColumnInfo {
    /// Name of the ordered index on this column, if there is one.
    fn ordered_index(&self, collection: &Collection) -> Option<String> {
        if self.is_key {
            return Some(format!("\"k_{}\"", collection.name));
        }
        (self.index.ordered && !self.ty.is_list()).then(|| ordered_index(&collection.name, self.compared.trim_matches('"')))
    }

    /// The table of the elements of an indexed list.
    fn elements(&self, collection: &Collection) -> String {
        match self.tags {
            Some(_) => "tagged".to_owned(),
            None => format!("\"i_{}_{}\"", collection.name, self.name),
        }
    }

    /// What finds the elements of a tenant's records in that table.
    fn elements_of(&self) -> String {
        self.tags.map_or("tenant = ?".to_owned(), |tags| format!("tenant = ? AND collection = {tags}"))
    }

    fn folded(&self, value: &Value) -> Value {
        match value {
            Value::Text(text) if self.fold => Value::text(fold(text)),
            other => other.clone(),
        }
    }

    /// Pieces of a pattern in the form that is compared.
    fn pieces(&self, pieces: &[String]) -> Vec<String> {
        if self.fold { fold_pieces(pieces) } else { pieces.to_vec() }
    }
}

/// What finds the records that satisfy a condition.
enum AccessPath {
    /// An index of the record table, by name.
    Ordered(String),
    /// The table of the elements of a list.
    Elements,
    /// The trigram table, asked for this.
    Trigrams(String),
    /// The index of records on which contributors disagree.
    Conflicts,
}

/// Entries that an index is asked for when several could find the records: the one that has fewest does. Where all have more,
/// they are asked for more: looking at an entry costs much less than reading a record in vain.
const PROBES: [i64; 3] = [256, 4_096, 32_768];

/// Values of one `in` that are bound one by one.
const MAX_VALUES: usize = 1_000;

/// What finds the records of a condition, and how good that usually is; smaller is better. Nothing when all records must be read.
fn way(collection: &Collection, known: &ColumnInfo, test: &Comparison) -> Option<(u32, AccessPath)> {
    if known.conflicts {
        return (!is_negation(test)).then_some((4, AccessPath::Conflicts));
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
    // a short beginning leaves out less than what stands behind it
    let by_trigrams = ordered.is_none() || (beginning < 3 && matches!(test, Comparison::Prefix(_) | Comparison::Wildcard(_)));
    if by_trigrams && let Some(query) = trigrams(known, test) {
        return Some((11, AccessPath::Trigrams(query)));
    }
    let rank = match test {
        Comparison::Equal(_) if known.is_key => 0,
        Comparison::Equal(_) if known.unique => 1,
        // one of two values is half of the records
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

/// Whether records without a value satisfy it.
fn is_negation(test: &Comparison) -> bool {
    matches!(test, Comparison::NotEqual(_) | Comparison::NotWildcard(_) | Comparison::Exists(false))
}

/// What the trigram table is asked for: every record that satisfies the test has all of these.
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

fn collection_of<'a>(catalogue: &'a Catalogue, plan: &QueryPlan) -> Result<&'a Collection> {
    catalogue.collections.get(plan.collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))
}

/// The condition whose index finds fewest records.
fn driver(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> Result<Option<(usize, AccessPath)>> {
    let collection = collection_of(catalogue, plan)?;
    let knowns: Vec<ColumnInfo> =
        plan.conditions.iter().map(|condition| known(catalogue, collection, plan.each, condition.column)).collect::<Result<_>>()?;
    let mut candidates: Vec<(u32, usize, AccessPath)> = Vec::new();
    for (index, (condition, known)) in plan.conditions.iter().zip(&knowns).enumerate() {
        candidates.extend(way(collection, known, &condition.test).map(|(rank, way)| (rank, index, way)));
    }
    candidates.sort_by_key(|(rank, index, _)| (*rank, *index));
    // who carries a tag is found in the order of keys, so a page in that order reads no more than it shows
    let is_page = plan.sort.is_empty() && !plan.distinct && plan.limit.is_some_and(|limit| limit.saturating_add(plan.offset) <= PROBES[0] as u64);
    let streams = |index: usize| is_page && knowns[index].tags.is_some() && matches!(plan.conditions[index].test, Comparison::Equal(_));
    // one record at most cannot be beaten
    if candidates.len() < 2 || candidates[0].0 <= 1 {
        return Ok(candidates.into_iter().next().map(|(_, index, way)| (index, way)));
    }
    for most in PROBES {
        let mut fewest = (most, 0);
        for (place, (_, index, way)) in candidates.iter().enumerate() {
            let entries = probe(connection, collection, tenant, &plan.conditions[*index].test, &knowns[*index], way, most)?;
            fewest = fewest.min((entries, place));
        }
        if fewest.0 < most {
            let (_, index, way) = candidates.swap_remove(fewest.1);
            return Ok(Some((index, way)));
        }
        if let Some(place) = candidates.iter().position(|(_, index, _)| streams(*index)) {
            let (_, index, way) = candidates.swap_remove(place);
            return Ok(Some((index, way)));
        }
    }
    Ok(candidates.into_iter().next().map(|(_, index, way)| (index, way)))
}

/// How many entries an index has for a condition, at most `most`.
fn probe(
    connection: &Connection,
    collection: &Collection,
    tenant: i64,
    test: &Comparison,
    known: &ColumnInfo,
    way: &AccessPath,
    most: i64,
) -> Result<i64> {
    // the rest of a pattern could leave out any number of entries that are read
    let test = match test {
        Comparison::Wildcard(pieces) => &Comparison::Prefix(pieces[0].clone()),
        other => other,
    };
    let mut parameters = vec![Sql::Integer(tenant)];
    let (name, field) = (&collection.name, &known.name);
    let from = match way {
        AccessPath::Ordered(index) => {
            format!("\"r_{name}\" INDEXED BY {index} WHERE tenant = ? AND {}", comparison(&known.compared, test, known, &mut parameters)?)
        }
        AccessPath::Elements => {
            let (elements, own) = (known.elements(collection), known.elements_of());
            format!("{elements} WHERE {own} AND {}", comparison("value", test, known, &mut parameters)?)
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

/// What holds of records that were not deleted.
const ALIVE: &str = "alive = 1";

struct SqlBuilder<'a> {
    catalogue: &'a Catalogue,
    collection: &'a Collection,
    tenant: i64,
    conditions: Vec<String>,
    parameters: Vec<Sql>,
    /// `INDEXED BY` clause.
    index: String,
    /// What is read before the records, and leads to them.
    before: &'static str,
    /// The structs that rows are of, read of each record.
    each: String,
    /// In words, how the records are found.
    access: String,
}

impl<'a> SqlBuilder<'a> {
    /// The `FROM ... WHERE ...` of a plan.
    fn new(connection: &Connection, catalogue: &'a Catalogue, tenant: i64, plan: &QueryPlan) -> Result<Self> {
        Self::driven(catalogue, tenant, plan, driver(connection, catalogue, tenant, plan)?)
    }

    /// The same with what finds the records; without anything they are read in their order.
    fn driven(catalogue: &'a Catalogue, tenant: i64, plan: &QueryPlan, driver: Option<(usize, AccessPath)>) -> Result<Self> {
        let collection = collection_of(catalogue, plan)?;
        let mut builder = Self {
            catalogue,
            collection,
            tenant,
            conditions: vec![format!("\"r_{}\".tenant = ?", collection.name), ALIVE.into()],
            parameters: vec![Sql::Integer(tenant)],
            index: String::new(),
            before: "",
            each: each(collection, plan.each)?,
            access: "reads every record of the collection".into(),
        };
        let knowns: Vec<ColumnInfo> =
            plan.conditions.iter().map(|condition| known(catalogue, collection, plan.each, condition.column)).collect::<Result<_>>()?;
        let mut answered = None;
        if let Some((index, way)) = driver {
            builder.drive(&plan.conditions[index].test, &knowns[index], &way)?;
            // asking the elements leaves nothing to check
            answered = matches!(way, AccessPath::Elements).then_some(index);
        } else if let Some(sort) = plan.sort.first() {
            let column = known(catalogue, collection, plan.each, sort.column)?;
            if let Some(index) = column.ordered_index(collection) {
                builder.index = format!(" INDEXED BY {index}");
                builder.access = format!("scans the index on {} in order", column.name);
            }
        } else if !plan.distinct {
            builder.index = format!(" INDEXED BY \"k_{}\"", collection.name);
        }
        for (index, (condition, known)) in plan.conditions.iter().zip(&knowns).enumerate() {
            if answered != Some(index) {
                builder.condition(&condition.test, known)?;
            }
        }
        Ok(builder)
    }

    /// Makes the condition the one whose index finds the records.
    fn drive(&mut self, test: &Comparison, known: &ColumnInfo, way: &AccessPath) -> Result<()> {
        let (collection, name) = (&self.collection.name, &known.name);
        match way {
            AccessPath::Ordered(index) => {
                self.index = format!(" INDEXED BY {index}");
                self.access = match test {
                    Comparison::Equal(_) | Comparison::In(_) => format!("looks up {name} in its index"),
                    _ => format!("reads a range of the index on {name}"),
                };
            }
            AccessPath::Elements if known.tags.is_some() && matches!(test, Comparison::Equal(_)) => {
                self.index = format!(" INDEXED BY \"k_{collection}\"");
                self.access = "reads the records with the tag in key order".into();
                self.before = "tagged AS t CROSS JOIN ";
                self.parameters.push(Sql::Integer(self.tenant));
                let comparison = comparison("t.value", test, known, &mut self.parameters)?;
                let tags = known.tags.unwrap_or_default();
                let same = format!("{} = packed(t.key)", key(self.collection));
                self.conditions.push(format!("t.tenant = ? AND t.collection = {tags} AND {comparison} AND {same}"));
            }
            // rows come by their ids, and no other index may tempt
            AccessPath::Elements => {
                let by = if known.tags.is_some() { key(self.collection) } else { format!("\"r_{collection}\".id") };
                let from = if known.tags.is_some() { "packed(key)" } else { "id" };
                self.index = if known.tags.is_some() { format!(" INDEXED BY \"k_{collection}\"") } else { " NOT INDEXED".into() };
                self.access = format!("finds records through the index on the elements of {name}");
                self.parameters.push(Sql::Integer(self.tenant));
                let comparison = comparison("value", test, known, &mut self.parameters)?;
                let (elements, own) = (known.elements(self.collection), known.elements_of());
                self.conditions.push(format!("{by} IN (SELECT {from} FROM {elements} WHERE {own} AND {comparison})"));
            }
            AccessPath::Conflicts => {
                self.index = format!(" INDEXED BY {}", conflict_index(collection));
                self.access = "reads records with conflicts in key order".into();
                self.conditions.push("conflict IS NOT NULL".into());
            }
            AccessPath::Trigrams(query) => {
                self.index = " NOT INDEXED".into();
                self.access = format!("finds records through the trigram index on {name}");
                self.conditions
                    .push(format!("\"r_{collection}\".id IN (SELECT rowid FROM \"t_{collection}_{name}\" WHERE \"t_{collection}_{name}\" MATCH ?)"));
                self.parameters.push(Sql::Text(query.clone()));
            }
        }
        Ok(())
    }

    fn condition(&mut self, test: &Comparison, known: &ColumnInfo) -> Result<()> {
        if let Comparison::Exists(wanted) = test {
            let negation = if *wanted { "NOT " } else { "" };
            self.conditions.push(format!("{} IS {negation}NULL", known.sql));
            return Ok(());
        }
        if !known.ty.is_list() {
            let sql = comparison(&known.compared, test, known, &mut self.parameters)?;
            self.conditions.push(sql);
            return Ok(());
        }
        // a list: some element satisfies it; negations: none satisfies the positive form
        let (test, negation) = match test {
            Comparison::NotEqual(value) => (&Comparison::Equal(value.clone()), "NOT "),
            Comparison::NotWildcard(pieces) => (&Comparison::Wildcard(pieces.clone()), "NOT "),
            other => (other, ""),
        };
        let inner = comparison("e.value", test, known, &mut self.parameters)?;
        let records = &self.collection.name;
        self.conditions.push(if let Some(tags) = known.tags {
            let own = format!("e.tenant = \"r_{records}\".tenant AND e.collection = {tags} AND e.key = \"r_{records}\".key");
            format!("{negation}EXISTS (SELECT 1 FROM tagged AS e WHERE {own} AND {inner})")
        } else if known.fold && known.index.ordered {
            // only the index has the folded form
            let (elements, records) = (known.elements(self.collection), &self.collection.name);
            format!("{negation}EXISTS (SELECT 1 FROM {elements} AS e WHERE e.id = \"r_{records}\".id AND {inner})")
        } else {
            format!("{negation}EXISTS (SELECT 1 FROM json_each({}) AS e WHERE {inner})", known.sql)
        });
        Ok(())
    }

    fn from(&self) -> String {
        format!("{}\"r_{}\"{}{} WHERE {}", self.before, self.collection.name, self.index, self.each, self.conditions.join(" AND "))
    }
}

/// The values of a member of the structs in a list, as a list is stored; of ranges all of them.
fn in_structs(collection: &str, list: &str, member: &StructMember) -> String {
    let (list, name) = (format!("json_each(\"r_{collection}\".\"f_{list}\") AS m"), &member.name);
    match member.ty {
        FieldType::Ranges => {
            format!("(SELECT nullif(json_group_array(json(g.value)), '[]') FROM {list}, json_each(m.value -> '{name}') AS g)")
        }
        _ => format!("(SELECT nullif(json_group_array(m.value ->> '{name}'), '[]') FROM {list} WHERE m.value ->> '{name}' IS NOT NULL)"),
    }
}

/// What is read beside each record for rows that are of structs.
fn each(collection: &Collection, field: Option<usize>) -> Result<String> {
    let list = structs(collection, field)?;
    Ok(list.map_or(String::new(), |list| format!(" CROSS JOIN json_each(\"r_{}\".\"f_{}\") AS el", collection.name, list.name)))
}

/// A test of `sql`, which holds ranges.
fn in_ranges(sql: &str, test: &Comparison, parameters: &mut Vec<Sql>) -> Result<String> {
    let windows = test.windows().ok_or_else(|| StoreError::Wrong("ranges are compared with integers".into()))?;
    let windows: Vec<[i64; 2]> = windows.into_iter().map(|(low, high)| [low, high]).collect();
    parameters.push(Sql::Text(serde_json::json!(windows).to_string()));
    let negation = if matches!(test, Comparison::NotEqual(_)) { "NOT " } else { "" };
    Ok(format!(
        "{negation}EXISTS (SELECT 1 FROM json_each({sql}) AS g, json_each(?) AS w \
         WHERE g.value ->> 0 <= w.value ->> 1 AND g.value ->> 1 >= w.value ->> 0)"
    ))
}

/// A test of `sql`, which is the column in the form that is compared, or an element of the list.
fn comparison(sql: &str, test: &Comparison, known: &ColumnInfo, parameters: &mut Vec<Sql>) -> Result<String> {
    if known.ty == FieldType::Ranges {
        return in_ranges(sql, test, parameters);
    }
    let value = |value: &Value| {
        let folded = known.folded(value);
        if known.ty.is_list() { owned(&bind_element(&folded)) } else { owned(&bind(&folded)) }
    };
    // what a value is compared as, and what patterns are asked of
    let (bound, text) = if known.is_key { ("packed(?)", known.sql.as_str()) } else { ("?", sql) };
    Ok(match test {
        Comparison::Wildcard(pieces) | Comparison::NotWildcard(pieces) if pieces.is_empty() => {
            return Err(StoreError::Wrong("a pattern has one piece at least".into()));
        }
        Comparison::Equal(wanted) => {
            parameters.push(value(wanted));
            format!("{sql} = {bound}")
        }
        Comparison::NotEqual(wanted) => {
            parameters.push(value(wanted));
            format!("{sql} IS NOT {bound}")
        }
        // more values than SQLite has parameters for travel as one JSON text; so do none, which would make it forget a partial index
        Comparison::In(wanted) if wanted.len() > MAX_VALUES || wanted.is_empty() => {
            let blobs = wanted.iter().any(|wanted| matches!(value(wanted), Sql::Blob(_)));
            let json = wanted.iter().map(|wanted| match value(wanted) {
                Sql::Integer(number) => number.into(),
                Sql::Real(number) => number.into(),
                Sql::Text(text) => text.into(),
                Sql::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
                Sql::Null => serde_json::Value::Null,
            });
            parameters.push(Sql::Text(serde_json::Value::Array(json.collect()).to_string()));
            let element = if blobs { "unhex(value)" } else { "value" };
            format!("{sql} IN (SELECT {} FROM json_each(?))", bound.replace('?', element))
        }
        Comparison::In(wanted) => {
            parameters.extend(wanted.iter().map(value));
            format!("{sql} IN ({})", vec![bound; wanted.len()].join(", "))
        }
        Comparison::Range { low, high } => {
            let mut parts = Vec::new();
            for (end, operator) in [(low, ">"), (high, "<")] {
                if let Some((wanted, included)) = end {
                    parameters.push(value(wanted));
                    parts.push(format!("{sql} {operator}{} {bound}", if *included { "=" } else { "" }));
                }
            }
            if parts.is_empty() { format!("{sql} IS NOT NULL") } else { parts.join(" AND ") }
        }
        Comparison::Prefix(prefix) => begins(sql, bound, &known.pieces(&[prefix.clone(), String::new()])[0], parameters),
        Comparison::Wildcard(pieces) => matches((sql, bound, text), &known.pieces(pieces), parameters)?,
        Comparison::NotWildcard(pieces) => format!("({sql} IS NULL OR NOT ({}))", matches((sql, bound, text), &known.pieces(pieces), parameters)?),
        Comparison::Exists(_) => format!("{sql} IS NOT NULL"),
    })
}

/// Text from `prefix` on, up to the next text that does not begin with it.
fn begins(sql: &str, bound: &str, prefix: &str, parameters: &mut Vec<Sql>) -> String {
    parameters.push(Sql::Text(prefix.to_owned()));
    match pattern::behind(prefix) {
        Some(behind) => {
            parameters.push(Sql::Text(behind));
            format!("{sql} >= {bound} AND {sql} < {bound}")
        }
        None => format!("{sql} >= {bound}"),
    }
}

/// Text that has the pieces in their order, the first at the beginning and the last at the end.
fn matches((sql, bound, text): (&str, &str, &str), pieces: &[String], parameters: &mut Vec<Sql>) -> Result<String> {
    let mut parts = Vec::new();
    if let Some(beginning) = pieces.first().filter(|beginning| !beginning.is_empty()) {
        parts.push(begins(sql, bound, beginning, parameters));
    }
    let pattern = glob(pieces);
    if pattern.len() > MAX_PATTERN {
        return Err(StoreError::Wrong(format!("a pattern has at most {MAX_PATTERN} bytes, this one has {}", pattern.len())));
    }
    parameters.push(Sql::Text(pattern));
    parts.push(format!("{text} GLOB ?"));
    // GLOB takes these three for one character
    for piece in pieces.iter().filter(|piece| piece.contains(['\u{fffd}', '\u{fffe}', '\u{ffff}'])) {
        parameters.push(Sql::Text(piece.clone()));
        parts.push(format!("instr({text}, ?) > 0"));
    }
    Ok(parts.join(" AND "))
}

fn glob(pieces: &[String]) -> String {
    let escape = |piece: &String| {
        piece.chars().fold(String::new(), |mut out, character| {
            match character {
                '*' | '?' | '[' => out.extend(['[', character, ']']),
                other => out.push(other),
            }
            out
        })
    };
    pieces.iter().map(escape).collect::<Vec<_>>().join("*")
}

fn owned(value: &rusqlite::types::ToSqlOutput<'_>) -> Sql {
    match value {
        rusqlite::types::ToSqlOutput::Owned(value) => value.clone(),
        rusqlite::types::ToSqlOutput::Borrowed(value) => Sql::try_from(*value).unwrap_or(Sql::Null),
        _ => Sql::Null,
    }
}

fn rows_statement(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> Result<(SqlStatement, String)> {
    select(SqlBuilder::new(connection, catalogue, tenant, plan)?, plan)
}

fn select(builder: SqlBuilder<'_>, plan: &QueryPlan) -> Result<(SqlStatement, String)> {
    let columns: Vec<ColumnInfo> =
        plan.columns.iter().map(|column| known(builder.catalogue, builder.collection, plan.each, *column)).collect::<Result<_>>()?;
    let mut selected: Vec<&str> = columns.iter().map(|column| column.sql.as_str()).collect();
    if selected.is_empty() {
        // rows without columns can be counted; a statement has at least one
        selected.push("alive");
    }
    let mut order: Vec<String> = Vec::new();
    for sort in &plan.sort {
        let column = known(builder.catalogue, builder.collection, plan.each, sort.column)?;
        order.push(format!("{}{}", column.compared, if sort.descending { " DESC" } else { "" }));
    }
    let mut sql = if plan.distinct {
        // equal rows once; the order may only name what is selected, and ends in all of it
        for column in &columns {
            order.push(column.sql.clone());
        }
        format!("SELECT DISTINCT {} FROM {}", selected.join(", "), builder.from())
    } else {
        if !plan.any_order {
            order.push(if builder.before.is_empty() { key(builder.collection) } else { "t.key".to_owned() });
            order.extend(plan.each.map(|_| "el.key".to_owned()));
        }
        format!("SELECT {} FROM {}", selected.join(", "), builder.from())
    };
    if !order.is_empty() {
        sql.push_str(&format!(" ORDER BY {}", order.join(", ")));
    }
    let mut parameters = builder.parameters;
    if plan.limit.is_some() || plan.offset > 0 {
        sql.push_str(" LIMIT ? OFFSET ?");
        parameters.push(Sql::Integer(plan.limit.map_or(-1, |limit| limit.min(i64::MAX as u64) as i64)));
        parameters.push(Sql::Integer(plan.offset.min(i64::MAX as u64) as i64));
    }
    Ok((SqlStatement { sql, parameters }, builder.access))
}

pub fn visit(
    connection: &Connection,
    catalogue: &Catalogue,
    tenant: i64,
    plan: &QueryPlan,
    visit: &mut dyn FnMut(Vec<Value>) -> Result<()>,
) -> Result<()> {
    let driver = driver(connection, catalogue, tenant, plan)?;
    if let Some(rows) = glance(connection, catalogue, tenant, plan, driver.as_ref())? {
        return rows.into_iter().try_for_each(visit);
    }
    let statement = select(SqlBuilder::driven(catalogue, tenant, plan, driver)?, plan)?.0;
    read(connection, catalogue, plan, &statement, visit)
}

/// Rows of a plan that is answered in the order of keys, read a page at a time: where no index finds records by a condition, a page costs
/// what its rows cost.
pub struct KeyPager {
    /// The plan of the page that is next; its last column is the key.
    plan: QueryPlan,
    /// Rows that may follow, if they are bounded.
    remaining: Option<u64>,
    /// Whether it begins behind another one.
    is_continued: bool,
}

/// Rows of such a page.
const PAGE: u64 = 1_000;

impl KeyPager {
    /// The first page of a plan; nothing where it is read at once.
    pub fn of(catalogue: &Catalogue, plan: &QueryPlan) -> Option<Self> {
        let is_plain = plan.sort.is_empty() && plan.each.is_none() && !plan.distinct && !plan.any_order && plan.offset == 0;
        if !is_plain || plan.limit.is_some_and(|limit| limit <= PAGE) {
            return None;
        }
        let collection = collection_of(catalogue, plan).ok()?;
        let is_found = |condition: &Condition| {
            known(catalogue, collection, None, condition.column).is_ok_and(|known| way(collection, &known, &condition.test).is_none())
        };
        if !plan.conditions.iter().all(is_found) {
            return None;
        }
        let mut first = plan.clone();
        first.columns.push(PlanColumn::Key);
        Some(Self { plan: first, remaining: plan.limit, is_continued: false })
    }

    /// Rows of the page.
    pub fn read(&mut self, connection: &Connection, catalogue: &Catalogue, tenant: i64) -> Result<Vec<Vec<Value>>> {
        self.plan.limit = Some(self.remaining.map_or(PAGE, |left| left.min(PAGE)));
        let mut rows = Vec::new();
        visit(connection, catalogue, tenant, &self.plan, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Whether a page may follow the one that has these rows.
    pub fn goes_on(&mut self, rows: &[Vec<Value>]) -> bool {
        let found = rows.len() as u64;
        self.remaining = self.remaining.map(|left| left.saturating_sub(found));
        let Some(last) = rows.last().and_then(|row| row.last()).filter(|_| found >= PAGE && self.remaining != Some(0)) else { return false };
        let test = Comparison::Range { low: Some((last.clone(), false)), high: None };
        // that of the page before, if there was one, stands last
        self.plan.conditions.truncate(self.plan.conditions.len() - usize::from(self.is_continued));
        self.plan.conditions.push(Condition { column: PlanColumn::Key, test });
        self.is_continued = true;
        true
    }

    /// A row as the plan wants it.
    pub fn row(&self, mut row: Vec<Value>) -> Vec<Value> {
        row.pop();
        row
    }
}

/// Most rows of a page that is looked for in the order of keys.
const GLANCED: u64 = 1_024;
/// Records that are looked at for it, where at least as many would have to be found otherwise: at worst the work is done twice.
const LOOKED_AT: u64 = 8_192;

/// A page in the order of keys of what very many records satisfy: instead of finding all of them and sorting, the first records are
/// looked at. Nothing if these are too few, or if an index finds few.
fn glance(
    connection: &Connection,
    catalogue: &Catalogue,
    tenant: i64,
    plan: &QueryPlan,
    driver: Option<&(usize, AccessPath)>,
) -> Result<Option<Vec<Vec<Value>>>> {
    let wanted = plan.limit.map(|limit| limit.saturating_add(plan.offset)).filter(|wanted| *wanted <= GLANCED);
    let (Some(wanted), Some((index, way))) = (wanted, driver) else { return Ok(None) };
    if !plan.sort.is_empty() || plan.distinct || plan.any_order || plan.each.is_some() {
        return Ok(None);
    }
    let collection = collection_of(catalogue, plan)?;
    let Condition { column, test } = &plan.conditions[*index];
    let driving = known(catalogue, collection, None, *column)?;
    let most = LOOKED_AT as i64;
    // keys are found in their order anyway, and so is who carries a tag
    let is_ordered = driving.is_key || (driving.tags.is_some() && matches!(test, Comparison::Equal(_)));
    if is_ordered || probe(connection, collection, tenant, test, &driving, way, most)? < most {
        return Ok(None);
    }
    let collect = |plan: &QueryPlan, only_keys: bool| -> Result<Vec<Vec<Value>>> {
        let mut rows = Vec::new();
        let mut builder = SqlBuilder::driven(catalogue, tenant, plan, None)?;
        // whether a record is alive is not in the index
        builder.conditions.retain(|condition| !only_keys || condition != ALIVE);
        let statement = select(builder, plan)?.0;
        read(connection, catalogue, plan, &statement, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    };
    let of_keys = plan.conditions.iter().filter(|condition| condition.column == PlanColumn::Key).cloned().collect();
    let last = QueryPlan { conditions: of_keys, columns: vec![PlanColumn::Key], offset: LOOKED_AT, limit: Some(1), ..plan.clone() };
    let mut first = plan.clone();
    if let Some(key) = collect(&last, true)?.pop().and_then(|mut row| row.pop()) {
        first.conditions.push(Condition { column: PlanColumn::Key, test: Comparison::Range { low: None, high: Some((key, true)) } });
    }
    let rows = collect(&first, false)?;
    let is_full = rows.len() as u64 + plan.offset >= wanted;
    Ok(Some(rows).filter(|_| is_full || first.conditions.len() == plan.conditions.len()))
}

fn read(
    connection: &Connection,
    catalogue: &Catalogue,
    plan: &QueryPlan,
    statement: &SqlStatement,
    visit: &mut dyn FnMut(Vec<Value>) -> Result<()>,
) -> Result<()> {
    let collection = &catalogue.collections[plan.collection];
    let columns: Vec<ColumnInfo> = plan.columns.iter().map(|column| known(catalogue, collection, plan.each, *column)).collect::<Result<_>>()?;
    let mut prepared = connection.prepare_cached(&statement.sql).map_err(failure)?;
    let mut rows = prepared.query(statement.bound().as_slice()).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        let mut values = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            let value = row.get_ref(index).map_err(failure)?;
            let is_stored = match plan.columns[index] {
                PlanColumn::Field(field) => collection.member(field).is_none(),
                PlanColumn::State(_) => true,
                _ => false,
            };
            let value = if is_stored { unbind_stored(value, &column.ty) } else { unbind(value, &column.ty) };
            values.push(value.map_err(|unfit| unreadable(collection, column, unfit))?);
        }
        visit(values)?;
    }
    Ok(())
}

/// Says that a record that was found has no readable value in a column.
fn unreadable(collection: &Collection, column: &ColumnInfo, unfit: &str) -> StoreError {
    let row = format!("a record of `{}` that the query finds", collection.name);
    StoreError::Damaged(Damage::of_row(row, format!("`{}`: {unfit} (`stook check --deep` names the record)", column.name)))
}

/// A plan without its order and page.
fn all_rows(plan: &QueryPlan) -> QueryPlan {
    QueryPlan { sort: Vec::new(), offset: 0, limit: None, ..plan.clone() }
}

pub fn count(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> Result<u64> {
    let plan = all_rows(plan);
    let statement = if plan.distinct {
        let (rows, _) = rows_statement(connection, catalogue, tenant, &plan)?;
        SqlStatement { sql: format!("SELECT count(*) FROM ({})", rows.sql), parameters: rows.parameters }
    } else {
        let builder = SqlBuilder::new(connection, catalogue, tenant, &plan)?;
        SqlStatement { sql: format!("SELECT count(*) FROM {}", builder.from()), parameters: builder.parameters }
    };
    let mut prepared = connection.prepare_cached(&statement.sql).map_err(failure)?;
    let count: i64 = prepared.query_row(statement.bound().as_slice(), |row| row.get(0)).map_err(failure)?;
    Ok(count as u64)
}

/// One aggregate. Its type is that of the column for sum, min, max, a median with a whole middle, and means of times and durations;
/// other means are floats.
pub fn aggregate(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan, aggregate: Aggregate) -> Result<Value> {
    let plan = all_rows(plan);
    let builder = SqlBuilder::new(connection, catalogue, tenant, &plan)?;
    let column = known(builder.catalogue, builder.collection, plan.each, aggregate.column)?;
    let rows = if plan.distinct {
        if !plan.columns.contains(&aggregate.column) {
            return Err(StoreError::Wrong(format!("unique rows have no `{}`", column.name)));
        }
        let columns: Vec<ColumnInfo> =
            plan.columns.iter().map(|column| known(builder.catalogue, builder.collection, plan.each, *column)).collect::<Result<_>>()?;
        let wanted = plan.columns.iter().position(|other| *other == aggregate.column);
        let name = |index: usize| if Some(index) == wanted { "v".to_owned() } else { format!("c{index}") };
        let selected: Vec<String> = columns.iter().enumerate().map(|(index, column)| format!("{} AS {}", column.sql, name(index))).collect();
        format!("SELECT DISTINCT {} FROM {}", selected.join(", "), builder.from())
    } else {
        format!("SELECT {} AS v FROM {}", column.sql, builder.from())
    };
    if column.ty == FieldType::Ranges {
        let sql = match aggregate.function {
            AggregateFunction::Count => "coalesce(sum((e.value ->> 1) - (e.value ->> 0) + 1), 0)",
            AggregateFunction::Min => "min(e.value ->> 0)",
            AggregateFunction::Max => "max(e.value ->> 1)",
            other => return Err(StoreError::Wrong(format!("ranges have no {}", other.name()))),
        };
        let statement = SqlStatement { sql: format!("SELECT {sql} FROM ({rows}) AS r, json_each(r.v) AS e"), parameters: builder.parameters };
        let mut prepared = connection.prepare_cached(&statement.sql).map_err(failure)?;
        let found: Option<i64> = prepared.query_row(statement.bound().as_slice(), |row| row.get(0)).map_err(failure)?;
        return Ok(found.map_or(Value::Null, Value::Int));
    }
    let values = if column.ty.is_list() {
        // not one statement: json_each has columns called `id` and `key` too
        format!("SELECT e.value AS v FROM ({rows}) AS r, json_each(r.v) AS e WHERE e.value IS NOT NULL")
    } else {
        format!("SELECT v FROM ({rows}) WHERE v IS NOT NULL")
    };
    let whole = !matches!(column.ty.element(), FieldType::Float);
    let sql = match aggregate.function {
        AggregateFunction::Count => format!("SELECT count(*) FROM ({values})"),
        AggregateFunction::Min => format!("SELECT min(v) FROM ({values})"),
        AggregateFunction::Max => format!("SELECT max(v) FROM ({values})"),
        // in two halves, which cannot overflow on the way to a sum that fits
        AggregateFunction::Sum | AggregateFunction::Avg if whole => format!("SELECT count(*), sum(v >> 32), sum(v & 4294967295) FROM ({values})"),
        AggregateFunction::Sum | AggregateFunction::Avg => format!("SELECT count(*), sum(v) FROM ({values})"),
        AggregateFunction::Median => format!(
            "WITH present AS MATERIALIZED ({values}), size AS (SELECT count(*) AS n FROM present) \
             SELECT min(v), max(v) FROM (SELECT v FROM present ORDER BY v LIMIT 2 - (SELECT n % 2 FROM size) OFFSET (SELECT (n - 1) / 2 FROM size))"
        ),
    };
    let mut prepared = connection.prepare_cached(&sql).map_err(failure)?;
    let parameters: Vec<&dyn ToSql> = builder.parameters.iter().map(|value| value as &dyn ToSql).collect();
    let mut rows = prepared.query(parameters.as_slice()).map_err(failure)?;
    let Some(row) = rows.next().map_err(failure)? else { return Ok(Value::Null) };
    let number = |index: usize| row.get::<_, Option<f64>>(index).map_err(failure);
    let integer = |index: usize| row.get::<_, Option<i64>>(index).map_err(failure);
    match aggregate.function {
        AggregateFunction::Count => Ok(Value::Int(integer(0)?.unwrap_or(0))),
        AggregateFunction::Min | AggregateFunction::Max => {
            element(row.get_ref(0).map_err(failure)?, &column.ty).map_err(|unfit| unreadable(builder.collection, &column, unfit))
        }
        AggregateFunction::Sum | AggregateFunction::Avg => {
            let count = integer(0)?.unwrap_or(0);
            if count == 0 {
                return Ok(Value::Null);
            }
            let mean = aggregate.function == AggregateFunction::Avg;
            if !whole {
                let sum = number(1)?.filter(|sum| sum.is_finite()).ok_or_else(|| StoreError::Wrong("the sum is too large for a float".into()))?;
                return Ok(Value::Float(if mean { sum / count as f64 } else { sum }));
            }
            let sum = (i128::from(integer(1)?.unwrap_or(0)) << 32) + i128::from(integer(2)?.unwrap_or(0));
            if mean {
                return Ok(mean_of(sum, i128::from(count), &column.ty));
            }
            i64::try_from(sum).map(Value::Int).map_err(|_| StoreError::Wrong("the sum does not fit 64 bits".into()))
        }
        AggregateFunction::Median => {
            let of = |index: usize| -> Result<Value> {
                Ok(if whole { integer(index)?.map_or(Value::Null, Value::Int) } else { number(index)?.map_or(Value::Null, Value::Float) })
            };
            Ok(middle_of(&of(0)?, &of(1)?, &column.ty))
        }
    }
}

/// A value, or an element of a list as it stands in JSON.
fn element(value: ValueRef<'_>, ty: &FieldType) -> std::result::Result<Value, &'static str> {
    match (value, ty) {
        (ValueRef::Text(digits), FieldType::List(element)) if **element == FieldType::Uuid => {
            let id = std::str::from_utf8(digits).ok().and_then(|digits| u128::from_str_radix(digits, 16).ok());
            id.map(Value::Uuid).ok_or("it is no UUID")
        }
        _ => unbind(value, ty.element()),
    }
}

pub fn explain(connection: &Connection, catalogue: &Catalogue, plan: &QueryPlan) -> Result<Vec<String>> {
    let (statement, access) = rows_statement(connection, catalogue, 1, plan)?;
    let mut lines = vec![access];
    let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql)).map_err(failure)?;
    let mut rows = prepared.query(statement.bound().as_slice()).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        lines.push(row.get::<_, String>(3).map_err(failure)?.to_lowercase());
    }
    lines.push(statement.sql);
    Ok(lines)
}
