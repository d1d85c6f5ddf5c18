//! Turns a plan into one statement.

use super::super::session::DbResult;
use super::super::tables::{index_expression, quoted_name};
use super::columns::{ColumnInfo, column_info};
use super::comparison::ComparisonSql;
use super::group::PostgresDialect;
use super::linked::values_statement;
use super::parameters::{Parameters, QueryParameter};
use crate::StoreError;
use crate::plan::{Comparison, Condition, PlanColumn, QueryPlan, SortKey};
use crate::sql::combined::{TruthValues, combined_sql};
use crate::sql::plan_parts::struct_list;
use crate::sql::ranking::rank_sql;
use crate::sql::united::{united_column, united_rows};
use stook_catalogue::definition::{Catalogue, Collection, Field};
use stook_catalogue::ids::FieldId;
use stook_catalogue::value::FieldType;

/// How the database writes the two truth values.
const TRUTH_VALUES: TruthValues = TruthValues { yes: "true", no: "false" };

pub struct SqlBuilder<'a> {
    pub catalogue: &'a Catalogue,
    pub collection: &'a Collection,
    pub tenant: i64,
    pub conditions: Vec<String>,
    pub parameters: Parameters,
    /// Whether an index finds the records, so that scanning another one in the requested order would be a mistake.
    pub is_indexed: bool,
    /// Whether records are found only by the first sort column, so that its index is scanned.
    pub is_ordered_scan: bool,
    /// The field that is the key, if the key's index is scanned.
    pub key_field: Option<&'a str>,
    /// Whether the records with a tag are read in the order of keys, and looked up by these.
    pub is_tag_scan: bool,
    /// The list of structs whose elements are the rows, joined to each record.
    pub struct_join: String,
    /// If only the first records are searched: the condition on their keys, and how many.
    pub first: Option<(String, u64)>,
    /// Whether texts are sorted only by the characters that an index contains.
    pub sorts_by_indexed_prefix: bool,
}

/// Maximum number of rows of a page that is read in the order of keys.
const SMALL_PAGE: u64 = 256;

impl<'a> SqlBuilder<'a> {
    pub fn new(catalogue: &'a Catalogue, tenant: i64, plan: &QueryPlan) -> DbResult<Self> {
        Self::with_parameters(catalogue, tenant, plan, Parameters::default())
    }

    /// The same in a statement that has these parameters already.
    pub fn with_parameters(catalogue: &'a Catalogue, tenant: i64, plan: &QueryPlan, parameters: Parameters) -> DbResult<Self> {
        let collection = catalogue.collections.get(plan.collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
        let struct_join = struct_join(collection, plan.each)?;
        let mut builder = Self {
            catalogue,
            collection,
            tenant,
            conditions: Vec::new(),
            parameters,
            is_indexed: false,
            is_ordered_scan: false,
            key_field: None,
            is_tag_scan: false,
            struct_join,
            first: None,
            sorts_by_indexed_prefix: false,
        };
        let tenant = builder.parameters.push(QueryParameter::Number(tenant), "bigint");
        builder.conditions = vec![format!("r.tenant = {tenant}"), "r.alive".into()];
        let conditions: Vec<(ColumnInfo, &Comparison)> =
            plan.conditions.iter().map(|condition| Ok((builder.condition_column(condition, plan)?, &condition.test))).collect::<DbResult<_>>()?;
        let finds = |(column, test): &(ColumnInfo, &Comparison)| column.finds(test);
        builder.is_indexed = conditions.iter().any(finds);
        let first_column = column_info(catalogue, collection, plan.each, plan.sort.first().map_or(PlanColumn::Key, |sort| sort.column))?;
        // conditions on the field that is the key repeat those on the key; but its trigram index is better for patterns
        let key_field = collection.key_field().map(|index| collection.fields[index].name.as_str()).filter(|_| first_column.name == "key");
        let repeats_key = |(column, test): &(ColumnInfo, &Comparison)| {
            Some(column.name.as_str()) == key_field && !(column.index.contains && matches!(test, Comparison::Wildcard(_)))
        };
        let is_on_first_column = |condition: &(ColumnInfo, &Comparison)| condition.0.name == first_column.name || repeats_key(condition);
        builder.is_ordered_scan = !plan.distinct
            && !first_column.ty.is_list()
            && conditions.iter().any(|condition| condition.0.name == first_column.name && finds(condition))
            && conditions.iter().all(|condition| is_on_first_column(condition) || !finds(condition));
        builder.key_field = key_field.filter(|_| builder.is_ordered_scan);
        let is_page = plan.sort.is_empty() && !plan.distinct && plan.limit.is_some_and(|limit| limit.saturating_add(plan.offset) <= SMALL_PAGE);
        let of_tag = |(column, test): &(ColumnInfo, &Comparison)| column.tags.filter(|_| matches!(test, Comparison::Equal(_)));
        let tag_condition = conditions.iter().position(|condition| is_page && of_tag(condition).is_some());
        // nothing finds fewer than one record
        let by_key = |(column, test): &(ColumnInfo, &Comparison)| column.name == "key" && matches!(test, Comparison::Equal(_) | Comparison::In(_));
        let tag_condition = tag_condition.filter(|_| !conditions.iter().any(by_key));
        if let Some(index) = tag_condition
            && let (column, Comparison::Equal(wanted)) = &conditions[index]
        {
            builder.is_tag_scan = true;
            let value = builder.parameters.value(wanted.clone(), &FieldType::Text);
            let tags = column.tags.unwrap_or_default();
            builder.conditions.push(format!("t.tenant = {tenant} AND t.collection = {tags} AND t.value = {value}"));
            // the index of tags also finds the beginning of a page
            for (column, test) in conditions.iter().filter(|(column, _)| column.name == "key") {
                let condition = ComparisonSql { sql: "t.key", column, index_expression: None, contains: false, parameters: &mut builder.parameters }
                    .test(test)?;
                builder.conditions.push(condition);
            }
        }
        // elements of lists find records only if no other condition does
        let mut by_elements = !conditions.iter().any(|condition| finds(condition) && !condition.0.ty.is_list());
        for (index, condition) in conditions.iter().enumerate() {
            if tag_condition == Some(index) {
                continue;
            }
            let drives = by_elements && finds(condition);
            by_elements &= !drives;
            builder.condition(condition.1, &condition.0, drives)?;
        }
        for combined in &plan.combined {
            let sql = combined_sql(combined, &TRUTH_VALUES, &mut |condition| builder.single(condition, plan))?;
            builder.conditions.push(sql);
        }
        Ok(builder)
    }

    /// How well a record matches the words that the plan searches for.
    fn rank(&mut self, plan: &QueryPlan) -> DbResult<String> {
        let (catalogue, collection, parameters) = (self.catalogue, self.collection, &mut self.parameters);
        let column_of = |column| column_info(catalogue, collection, plan.each, column)?.kept_words();
        rank_sql(plan, column_of, |text| parameters.text(text))
    }

    /// The column of a condition, with the values of linked records that it is compared with.
    fn condition_column(&mut self, condition: &Condition, plan: &QueryPlan) -> DbResult<ColumnInfo> {
        let mut column = column_info(self.catalogue, self.collection, plan.each, condition.column)?;
        if let Comparison::Among(rows) | Comparison::NotAmong(rows) = &condition.test {
            let (sql, parameters) = values_statement(self.catalogue, self.tenant, rows, std::mem::take(&mut self.parameters))?;
            (column.among, self.parameters) = (Some(sql), parameters);
        }
        Ok(column)
    }

    /// A condition as SQL, apart from the others.
    fn single(&mut self, condition: &Condition, plan: &QueryPlan) -> DbResult<String> {
        let column = self.condition_column(condition, plan)?;
        let others = std::mem::take(&mut self.conditions);
        self.condition(&condition.test, &column, false)?;
        Ok(std::mem::replace(&mut self.conditions, others).join(" AND "))
    }

    /// Adds a condition; if `drives`, a condition on an indexed list is evaluated first and its results are used to look up records.
    fn condition(&mut self, test: &Comparison, column: &ColumnInfo, drives: bool) -> DbResult<()> {
        if let Comparison::Exists(wanted) = test {
            self.conditions.push(format!("{} IS {}NULL", column.sql, if *wanted { "NOT " } else { "" }));
            return Ok(());
        }
        if !column.ty.is_list() || matches!(test, Comparison::Words(_)) {
            let sql = column.compared.clone();
            // if the key finds the records, no other index must be preferred
            let is_repeated = Some(column.name.as_str()) == self.key_field;
            let index_expression = (column.index.ordered && column.ty == FieldType::Text && !is_repeated).then(|| index_expression(&sql, &column.ty));
            let contains = column.index.contains && !is_repeated;
            let condition = ComparisonSql { sql: &sql, column, index_expression, contains, parameters: &mut self.parameters }.test(test)?;
            self.conditions.push(condition);
            return Ok(());
        }
        // a list: some element must satisfy the condition; for negations, none may satisfy the positive form
        let (test, negation) = match test {
            Comparison::NotEqual(value) => (&Comparison::Equal(value.clone()), "NOT "),
            Comparison::NotWildcard(pieces) => (&Comparison::Wildcard(pieces.clone()), "NOT "),
            Comparison::NotAmong(rows) => (&Comparison::Among(rows.clone()), "NOT "),
            other => (other, ""),
        };
        if column.sql == "r.conflict" && negation.is_empty() {
            // most records have no conflicts: the others are in an index
            self.conditions.push("r.conflict IS NOT NULL".into());
        }
        if column.index.ordered {
            // the index of tags contains entire names
            let index_expression =
                (column.ty.element() == &FieldType::Text && column.tags.is_none()).then(|| index_expression("i.value", column.ty.element()));
            let tenant = self.parameters.push(QueryParameter::Number(self.tenant), "bigint");
            let tenant = column.tags.map_or(tenant.clone(), |tags| format!("{tenant} AND i.collection = {tags}"));
            let inner = ComparisonSql { sql: "i.value", column, index_expression, contains: false, parameters: &mut self.parameters }.test(test)?;
            let side = if column.tags.is_some() { "tagged".to_owned() } else { quoted_name(&["i", &self.collection.name, &column.name]) };
            self.conditions.push(if drives {
                format!("r.key = ANY(ARRAY(SELECT i.key FROM {side} i WHERE i.tenant = {tenant} AND {inner}))")
            } else if negation.is_empty() {
                format!("r.key IN (SELECT i.key FROM {side} i WHERE i.tenant = {tenant} AND {inner})")
            } else {
                format!("NOT EXISTS (SELECT 1 FROM {side} i WHERE i.tenant = {tenant} AND i.key = r.key AND {inner})")
            });
        } else {
            let inner =
                ComparisonSql { sql: "e.value", column, index_expression: None, contains: false, parameters: &mut self.parameters }.test(test)?;
            self.conditions.push(format!("{negation}EXISTS (SELECT 1 FROM unnest({}) AS e(value) WHERE {inner})", column.sql));
        }
        Ok(())
    }

    /// Restricts the query to the first records in the order of keys; every condition must be on the record itself.
    pub fn among_first(mut self, plan: &QueryPlan, records: u64) -> DbResult<Self> {
        let mut first = vec!["r.tenant = $1".to_owned()];
        // conditions on linked records do not say where the first keys are
        let is_of_key = |condition: &&Condition| condition.column == PlanColumn::Key && !condition.test.is_of_linked();
        for condition in plan.conditions.iter().filter(is_of_key) {
            let column = column_info(self.catalogue, self.collection, None, PlanColumn::Key)?;
            let mut key = ComparisonSql { sql: "r.key", column: &column, index_expression: None, contains: false, parameters: &mut self.parameters };
            first.push(key.test(&condition.test)?);
        }
        self.first = Some((first.join(" AND "), records));
        Ok(self)
    }

    pub fn from(&self) -> String {
        let (table, conditions, struct_join) = (quoted_name(&["r", &self.collection.name]), self.conditions.join(" AND "), &self.struct_join);
        if let Some((first, records)) = &self.first {
            return format!("(SELECT * FROM {table} r WHERE {first} ORDER BY r.key LIMIT {records}) AS r WHERE {conditions}");
        }
        match self.is_tag_scan {
            true => format!(
                "tagged t CROSS JOIN LATERAL (SELECT * FROM {table} o WHERE o.tenant = t.tenant AND o.key = t.key OFFSET 0) AS r{struct_join} WHERE {conditions}"
            ),
            false => format!("{table} r{struct_join} WHERE {conditions}"),
        }
    }
}

/// The join of each record with its structs, if these are the rows.
pub fn struct_join(collection: &Collection, field: Option<FieldId>) -> DbResult<String> {
    let unnested = |list: &Field| format!(" CROSS JOIN LATERAL unnest(r.{}) WITH ORDINALITY AS el(value, place)", quoted_name(&["f", &list.name]));
    Ok(struct_list(collection, field)?.map_or(String::new(), unnested))
}

/// The expression of a sort column; `hidden` from the planner, which would otherwise scan its index in the hope of finding enough records soon.
pub fn hidden_sort_expression(column: &str, hidden: bool) -> String {
    if hidden { format!("(SELECT {column})") } else { column.to_owned() }
}

pub fn rows_statement(catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> DbResult<(String, Parameters)> {
    rows_statement_of(SqlBuilder::new(catalogue, tenant, plan)?, plan)
}

pub fn rows_statement_of(mut builder: SqlBuilder<'_>, plan: &QueryPlan) -> DbResult<(String, Parameters)> {
    let columns: Vec<ColumnInfo> =
        plan.columns.iter().map(|column| column_info(builder.catalogue, builder.collection, plan.each, *column)).collect::<DbResult<_>>()?;
    let is_ranked = plan.columns.contains(&PlanColumn::Rank) || plan.sort.iter().any(|sort| sort.column == PlanColumn::Rank);
    let rank = if is_ranked { builder.rank(plan)? } else { String::new() };
    let of_column = |column: &PlanColumn, sql: &String| if *column == PlanColumn::Rank { rank.clone() } else { sql.clone() };
    let mut selected: Vec<String> = plan.columns.iter().zip(&columns).map(|(column, info)| of_column(column, &info.sql)).collect();
    if selected.is_empty() {
        // rows without columns can be counted; distinct ones are grouped by at least one
        selected.push("r.alive".into());
    }
    let (mut order, mut sorted): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let direction = |sort: &SortKey| if sort.descending { " DESC NULLS LAST" } else { " ASC NULLS FIRST" };
    let hidden = builder.is_indexed && !builder.is_ordered_scan && builder.first.is_none();
    for sort in &plan.sort {
        let column = column_info(builder.catalogue, builder.collection, plan.each, sort.column)?;
        let index_expression = (column.index.ordered && column.ty == FieldType::Text).then(|| index_expression(&column.compared, &column.ty));
        let direction = direction(sort);
        order.extend(index_expression.filter(|_| !plan.distinct && !hidden).map(|indexed| format!("{indexed} COLLATE \"C\"{direction}")));
        if !builder.sorts_by_indexed_prefix {
            let compared = of_column(&sort.column, &column.compared);
            order.push(format!("{}{direction}", hidden_sort_expression(&compared, hidden && !plan.distinct)));
        }
        sorted.push(column.compared);
    }
    let from = builder.from();
    // lists have no natural order: as in SQLite, that of their text
    let distinct_order = |(sql, column): (&String, &ColumnInfo)| match column.ty {
        FieldType::List(_) => format!("array_to_json({sql})::text COLLATE \"C\" NULLS FIRST"),
        _ => format!("{sql} NULLS FIRST"),
    };
    let mut sql = if let Some(ranges) = united_column(columns.iter().map(|column| &column.ty)).filter(|_| plan.distinct) {
        let names: Vec<String> = (0..columns.len()).map(|position| format!("u{position}")).collect();
        order = plan.sort.iter().enumerate().map(|(position, sort)| format!("s{position}{}", direction(sort))).collect();
        order.extend(names.iter().zip(&columns).enumerate().filter(|(position, _)| *position != ranges).map(|(_, column)| distinct_order(column)));
        format!("SELECT {} FROM ({}) AS united", names.join(", "), united_rows(&PostgresDialect, &selected, &sorted, ranges, &from))
    } else if plan.distinct {
        order.extend(selected.iter().zip(&columns).map(distinct_order));
        // a sort column may be folded, which is not selected
        let grouped: Vec<String> = selected.iter().cloned().chain(sorted).collect();
        format!("SELECT {} FROM {from} GROUP BY {}", selected.join(", "), grouped.join(", "))
    } else {
        if !plan.any_order {
            order.push(if builder.is_tag_scan { "t.key".to_owned() } else { hidden_sort_expression("r.key", hidden) });
            order.extend(plan.each.map(|_| "el.place".to_owned()));
        }
        format!("SELECT {} FROM {from}", selected.join(", "))
    };
    if !order.is_empty() {
        sql.push_str(&format!(" ORDER BY {}", order.join(", ")));
    }
    let mut parameters = builder.parameters;
    // some servers add limit and offset
    let bounded = |rows: u64| QueryParameter::Number(rows.min(i64::MAX as u64 / 4) as i64);
    if let Some(limit) = plan.limit {
        let limit = parameters.push(bounded(limit), "bigint");
        sql.push_str(&format!(" LIMIT {limit}"));
    }
    if plan.offset > 0 {
        let offset = parameters.push(bounded(plan.offset), "bigint");
        sql.push_str(&format!(" OFFSET {offset}"));
    }
    Ok((sql, parameters))
}
