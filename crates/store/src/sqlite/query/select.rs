//! Turns a plan into one statement.

use super::super::tables::conflict_index;
use super::access::{AccessPath, SqlStatement, choose_driving_condition, collection_of, in_boxes};
use super::columns::{ColumnInfo, key, known};
use super::comparison::comparison;
use crate::Result;
use crate::plan::{Comparison, QueryPlan};
use crate::sql::plan_parts::structs;
use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::FieldId;

/// The condition that a record exists for readers.
pub const ALIVE: &str = "alive = 1";

pub struct SqlBuilder<'a> {
    pub catalogue: &'a Catalogue,
    pub collection: &'a Collection,
    tenant: i64,
    pub conditions: Vec<String>,
    pub parameters: Vec<Sql>,
    /// `INDEXED BY` clause.
    index: String,
    /// A table that is read before the records, and leads to them.
    before: &'static str,
    /// The list of structs whose elements are the rows, joined to each record.
    each: String,
    /// How the records are found, in words.
    access: String,
}

impl<'a> SqlBuilder<'a> {
    /// Builds the `FROM ... WHERE ...` of a plan.
    pub fn new(connection: &Connection, catalogue: &'a Catalogue, tenant: i64, plan: &QueryPlan) -> Result<Self> {
        Self::driven(catalogue, tenant, plan, choose_driving_condition(connection, catalogue, tenant, plan)?)
    }

    /// The same with a given condition that finds the records; without one, they are read in order.
    pub fn driven(catalogue: &'a Catalogue, tenant: i64, plan: &QueryPlan, driving: Option<(usize, AccessPath)>) -> Result<Self> {
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
        let columns: Vec<ColumnInfo> =
            plan.conditions.iter().map(|condition| known(catalogue, collection, plan.each, condition.column)).collect::<Result<_>>()?;
        let mut answered = None;
        if let Some((index, path)) = driving {
            builder.drive(&plan.conditions[index].test, &columns[index], &path)?;
            // finding records by elements leaves nothing to check
            answered = matches!(path, AccessPath::Elements).then_some(index);
        } else if let Some(sort) = plan.sort.first() {
            let column = known(catalogue, collection, plan.each, sort.column)?;
            if let Some(index) = column.ordered_index(collection) {
                builder.index = format!(" INDEXED BY {index}");
                builder.access = format!("scans the index on {} in order", column.name);
            }
        } else if !plan.distinct {
            builder.index = format!(" INDEXED BY \"k_{}\"", collection.name);
        }
        for (index, (condition, known)) in plan.conditions.iter().zip(&columns).enumerate() {
            if answered != Some(index) {
                builder.condition(&condition.test, known)?;
            }
        }
        Ok(builder)
    }

    /// Makes this the condition whose index finds the records.
    fn drive(&mut self, test: &Comparison, known: &ColumnInfo, path: &AccessPath) -> Result<()> {
        let (collection, name) = (&self.collection.name, &known.name);
        match path {
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
            // rows are found by their ids, and no other index may be used
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
            AccessPath::Boxes => {
                self.index = " NOT INDEXED".into();
                self.access = format!("finds records through the boxes around {name}");
                let boxes = in_boxes(self.collection, known, test, &mut self.parameters);
                self.conditions.push(format!("\"r_{collection}\".id IN ({boxes})"));
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
        // a list: some element must satisfy the condition; for negations, none may satisfy the positive form
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

    pub fn from(&self) -> String {
        format!("{}\"r_{}\"{}{} WHERE {}", self.before, self.collection.name, self.index, self.each, self.conditions.join(" AND "))
    }
}

/// The join of each record with its structs, if these are the rows.
pub fn each(collection: &Collection, field: Option<FieldId>) -> Result<String> {
    let list = structs(collection, field)?;
    Ok(list.map_or(String::new(), |list| format!(" CROSS JOIN json_each(\"r_{}\".\"f_{}\") AS el", collection.name, list.name)))
}

pub fn rows_statement(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> Result<(SqlStatement, String)> {
    select(SqlBuilder::new(connection, catalogue, tenant, plan)?, plan)
}

pub fn select(builder: SqlBuilder<'_>, plan: &QueryPlan) -> Result<(SqlStatement, String)> {
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
        // the order of distinct rows may only contain selected columns, and ends in all of them
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
