//! Turns a plan into one statement.

use super::super::tables::conflict_index;
use super::super::words_index::words_table;
use super::access::{AccessPath, Driving, SqlStatement, box_query, choose_driving_condition, collection_of, description};
use super::alternatives::{descriptions, ids_sql};
use super::columns::{ColumnInfo, column_info, packed_key};
use super::comparison::comparison;
use super::group::SqliteDialect;
use super::linked::condition_column;
use crate::Result;
use crate::plan::{Comparison, Condition, PlanColumn, QueryPlan, SortKey};
use crate::sql::combined::{TruthValues, combined_sql};
use crate::sql::plan_parts::struct_list;
use crate::sql::ranking::rank_sql;
use crate::sql::united::{united_column, united_rows};
use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::FieldId;

/// The condition that a record exists for readers.
pub const ALIVE: &str = "alive = 1";

/// How the database writes the two truth values.
const TRUTH_VALUES: TruthValues = TruthValues { yes: "1", no: "0" };

pub struct SqlBuilder<'a> {
    pub catalogue: &'a Catalogue,
    pub collection: &'a Collection,
    connection: &'a Connection,
    tenant: i64,
    pub conditions: Vec<String>,
    pub parameters: Vec<Sql>,
    /// `INDEXED BY` clause.
    index_clause: String,
    /// A table that is read before the records, and leads to them.
    leading_table: &'static str,
    /// The list of structs whose elements are the rows, joined to each record.
    struct_join: String,
    /// How the records are found, in words.
    access_description: String,
}

impl<'a> SqlBuilder<'a> {
    /// Builds the `FROM ... WHERE ...` of a plan.
    pub fn new(connection: &'a Connection, catalogue: &'a Catalogue, tenant: i64, plan: &QueryPlan) -> Result<Self> {
        Self::with_access_path((connection, catalogue), tenant, plan, choose_driving_condition(connection, catalogue, tenant, plan)?)
    }

    /// The same with a given condition that finds the records; without one, they are read in order.
    pub fn with_access_path(
        (connection, catalogue): (&'a Connection, &'a Catalogue),
        tenant: i64,
        plan: &QueryPlan,
        driving: Option<Driving>,
    ) -> Result<Self> {
        let collection = collection_of(catalogue, plan)?;
        let mut builder = Self {
            catalogue,
            collection,
            connection,
            tenant,
            conditions: vec![format!("\"r_{}\".tenant = ?", collection.name), ALIVE.into()],
            parameters: vec![Sql::Integer(tenant)],
            index_clause: String::new(),
            leading_table: "",
            struct_join: struct_join(collection, plan.each)?,
            access_description: "reads every record of the collection".into(),
        };
        let columns: Vec<ColumnInfo> =
            plan.conditions.iter().map(|condition| condition_column(connection, catalogue, tenant, plan, condition)).collect::<Result<_>>()?;
        let mut satisfied = None;
        if let Some(Driving::Condition(index, path)) = driving {
            builder.use_access_path(&plan.conditions[index].test, &columns[index], &path)?;
            // finding records by elements leaves nothing to check
            satisfied = matches!(path, AccessPath::Elements).then_some(index);
        } else if let Some(Driving::Alternatives(alternatives)) = driving {
            builder.index_clause = " NOT INDEXED".into();
            builder.access_description = descriptions(&alternatives);
            let ids = ids_sql(tenant, collection, &alternatives, &mut builder.parameters)?;
            builder.conditions.push(format!("\"r_{}\".id IN ({ids})", collection.name));
        } else if let Some(sort) = plan.sort.first() {
            let column = column_info(catalogue, collection, plan.each, sort.column)?;
            if let Some(index) = column.ordered_index(collection) {
                builder.index_clause = format!(" INDEXED BY {index}");
                builder.access_description = format!("scans the index on {} in order", column.name);
            }
        } else if !plan.distinct {
            builder.index_clause = format!(" INDEXED BY \"k_{}\"", collection.name);
        }
        for (index, (condition, column)) in plan.conditions.iter().zip(&columns).enumerate() {
            if satisfied != Some(index) {
                builder.condition(&condition.test, column)?;
            }
        }
        for combined in &plan.combined {
            let sql = combined_sql(combined, &TRUTH_VALUES, &mut |condition| builder.single(condition, plan))?;
            builder.conditions.push(sql);
        }
        Ok(builder)
    }

    /// How well a record matches the words that the plan searches for.
    fn rank(&self, plan: &QueryPlan, parameters: &mut Vec<Sql>) -> Result<String> {
        let column_of = |column| column_info(self.catalogue, self.collection, plan.each, column)?.kept_words();
        rank_sql(plan, column_of, |text| {
            parameters.push(Sql::Text(text));
            "?".to_owned()
        })
    }

    /// A condition as SQL, apart from the others.
    fn single(&mut self, condition: &Condition, plan: &QueryPlan) -> Result<String> {
        let column = condition_column(self.connection, self.catalogue, self.tenant, plan, condition)?;
        let others = std::mem::take(&mut self.conditions);
        self.condition(&condition.test, &column)?;
        Ok(std::mem::replace(&mut self.conditions, others).join(" AND "))
    }

    /// Makes this the condition whose index finds the records.
    fn use_access_path(&mut self, test: &Comparison, column: &ColumnInfo, path: &AccessPath) -> Result<()> {
        let (collection, name) = (&self.collection.name, &column.name);
        self.access_description = description(path, column, test);
        match path {
            AccessPath::Ordered(index) => self.index_clause = format!(" INDEXED BY {index}"),
            AccessPath::Elements if column.tags.is_some() && matches!(test, Comparison::Equal(_)) => {
                self.index_clause = format!(" INDEXED BY \"k_{collection}\"");
                self.access_description = "reads the records with the tag in key order".into();
                self.leading_table = "tagged AS t CROSS JOIN ";
                self.parameters.push(Sql::Integer(self.tenant));
                let comparison = comparison("t.value", test, column, &mut self.parameters)?;
                let tags = column.tags.unwrap_or_default();
                let key_condition = format!("{} = packed(t.key)", packed_key(self.collection));
                self.conditions.push(format!("t.tenant = ? AND t.collection = {tags} AND {comparison} AND {key_condition}"));
            }
            // rows are found by their ids, and no other index may be used
            AccessPath::Elements => {
                let id_column = if column.tags.is_some() { packed_key(self.collection) } else { format!("\"r_{collection}\".id") };
                let element_id = if column.tags.is_some() { "packed(key)" } else { "id" };
                self.index_clause = if column.tags.is_some() { format!(" INDEXED BY \"k_{collection}\"") } else { " NOT INDEXED".into() };
                self.parameters.push(Sql::Integer(self.tenant));
                let comparison = comparison("value", test, column, &mut self.parameters)?;
                let (elements_table, tenant_condition) = (column.elements_table(self.collection), column.tenant_condition());
                self.conditions.push(format!("{id_column} IN (SELECT {element_id} FROM {elements_table} WHERE {tenant_condition} AND {comparison})"));
            }
            AccessPath::Boxes => {
                self.index_clause = " NOT INDEXED".into();
                let boxes = box_query(self.collection, column, test, &mut self.parameters);
                self.conditions.push(format!("\"r_{collection}\".id IN ({boxes})"));
            }
            AccessPath::Conflicts => {
                self.index_clause = format!(" INDEXED BY {}", conflict_index(collection));
                self.conditions.push("conflict IS NOT NULL".into());
            }
            AccessPath::Words(query) => {
                self.index_clause = " NOT INDEXED".into();
                let side = words_table(collection, name);
                self.conditions.push(format!("\"r_{collection}\".id IN (SELECT rowid FROM {side} WHERE {side} MATCH ?)"));
                self.parameters.push(Sql::Text(query.clone()));
            }
            AccessPath::Trigrams(query) => {
                self.index_clause = " NOT INDEXED".into();
                self.conditions
                    .push(format!("\"r_{collection}\".id IN (SELECT rowid FROM \"t_{collection}_{name}\" WHERE \"t_{collection}_{name}\" MATCH ?)"));
                self.parameters.push(Sql::Text(query.clone()));
            }
        }
        Ok(())
    }

    fn condition(&mut self, test: &Comparison, column: &ColumnInfo) -> Result<()> {
        if let Comparison::Exists(wanted) = test {
            let negation = if *wanted { "NOT " } else { "" };
            self.conditions.push(format!("{} IS {negation}NULL", column.sql));
            return Ok(());
        }
        if !column.ty.is_list() || matches!(test, Comparison::Words(_)) {
            let sql = comparison(&column.compared, test, column, &mut self.parameters)?;
            self.conditions.push(sql);
            return Ok(());
        }
        // a list: some element must satisfy the condition; for negations, none may satisfy the positive form
        let (test, negation) = match test {
            Comparison::NotEqual(value) => (&Comparison::Equal(value.clone()), "NOT "),
            Comparison::NotWildcard(pieces) => (&Comparison::Wildcard(pieces.clone()), "NOT "),
            Comparison::NotAmong(rows) => (&Comparison::Among(rows.clone()), "NOT "),
            other => (other, ""),
        };
        let inner = comparison("e.value", test, column, &mut self.parameters)?;
        let records = &self.collection.name;
        self.conditions.push(if let Some(tags) = column.tags {
            let join_condition = format!("e.tenant = \"r_{records}\".tenant AND e.collection = {tags} AND e.key = \"r_{records}\".key");
            format!("{negation}EXISTS (SELECT 1 FROM tagged AS e WHERE {join_condition} AND {inner})")
        } else if column.fold && column.index.ordered {
            // only the index has the folded form
            let (elements_table, records) = (column.elements_table(self.collection), &self.collection.name);
            format!("{negation}EXISTS (SELECT 1 FROM {elements_table} AS e WHERE e.id = \"r_{records}\".id AND {inner})")
        } else {
            format!("{negation}EXISTS (SELECT 1 FROM json_each({}) AS e WHERE {inner})", column.sql)
        });
        Ok(())
    }

    pub fn from(&self) -> String {
        format!(
            "{}\"r_{}\"{}{} WHERE {}",
            self.leading_table,
            self.collection.name,
            self.index_clause,
            self.struct_join,
            self.conditions.join(" AND ")
        )
    }
}

/// The join of each record with its structs, if these are the rows.
pub fn struct_join(collection: &Collection, field: Option<FieldId>) -> Result<String> {
    let list = struct_list(collection, field)?;
    Ok(list.map_or(String::new(), |list| format!(" CROSS JOIN json_each(\"r_{}\".\"f_{}\") AS el", collection.name, list.name)))
}

pub fn rows_statement(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> Result<(SqlStatement, String)> {
    rows_statement_of(SqlBuilder::new(connection, catalogue, tenant, plan)?, plan)
}

pub fn rows_statement_of(builder: SqlBuilder<'_>, plan: &QueryPlan) -> Result<(SqlStatement, String)> {
    let columns: Vec<ColumnInfo> =
        plan.columns.iter().map(|column| column_info(builder.catalogue, builder.collection, plan.each, *column)).collect::<Result<_>>()?;
    // the parameters of a statement follow each other as in its text
    let mut parameters = Vec::new();
    let mut selected: Vec<String> = Vec::with_capacity(columns.len());
    for (column, info) in plan.columns.iter().zip(&columns) {
        selected.push(if *column == PlanColumn::Rank { builder.rank(plan, &mut parameters)? } else { info.sql.clone() });
    }
    if selected.is_empty() {
        // rows without columns can be counted; a statement has at least one
        selected.push("alive".to_owned());
    }
    let mut order_parameters = Vec::new();
    let mut sorted: Vec<String> = Vec::new();
    for sort in &plan.sort {
        let column = column_info(builder.catalogue, builder.collection, plan.each, sort.column)?;
        sorted.push(if sort.column == PlanColumn::Rank { builder.rank(plan, &mut order_parameters)? } else { column.compared });
    }
    let directed = |(sql, sort): (&String, &SortKey)| format!("{sql}{}", if sort.descending { " DESC" } else { "" });
    let mut order: Vec<String> = sorted.iter().zip(&plan.sort).map(directed).collect();
    let mut sql = if let Some(ranges) = united_column(columns.iter().map(|column| &column.ty)).filter(|_| plan.distinct) {
        let names: Vec<String> = (0..columns.len()).map(|position| format!("u{position}")).collect();
        let sorts: Vec<String> = (0..sorted.len()).map(|position| format!("s{position}")).collect();
        order = sorts.iter().zip(&plan.sort).map(directed).collect();
        order.extend(names.iter().enumerate().filter(|(position, _)| *position != ranges).map(|(_, name)| name.clone()));
        format!("SELECT {} FROM ({})", names.join(", "), united_rows(&SqliteDialect, &selected, &sorted, ranges, &builder.from()))
    } else if plan.distinct {
        // the order of distinct rows may only contain selected columns, and ends in all of them
        for column in &columns {
            order.push(column.sql.clone());
        }
        format!("SELECT DISTINCT {} FROM {}", selected.join(", "), builder.from())
    } else {
        if !plan.any_order {
            order.push(if builder.leading_table.is_empty() { packed_key(builder.collection) } else { "t.key".to_owned() });
            order.extend(plan.each.map(|_| "el.key".to_owned()));
        }
        format!("SELECT {} FROM {}", selected.join(", "), builder.from())
    };
    if !order.is_empty() {
        sql.push_str(&format!(" ORDER BY {}", order.join(", ")));
    }
    parameters.extend(builder.parameters);
    parameters.extend(order_parameters);
    if plan.limit.is_some() || plan.offset > 0 {
        sql.push_str(" LIMIT ? OFFSET ?");
        parameters.push(Sql::Integer(plan.limit.map_or(-1, |limit| limit.min(i64::MAX as u64) as i64)));
        parameters.push(Sql::Integer(plan.offset.min(i64::MAX as u64) as i64));
    }
    Ok((SqlStatement { sql, parameters }, builder.access_description))
}
