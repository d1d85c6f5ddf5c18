//! Plans to SQL.
//!
//! One condition drives: the best index among those the conditions allow is named with `INDEXED BY` (or a side table is
//! read first), so an indexed condition never scans; the others filter. Everything is bound, nothing is pasted, except names
//! of columns, which come from the definition.

use super::failure;
use super::records::{bind, bind_element, unbind};
use super::tables::ordered_index;
use crate::plan::{Aggregate, Column, Condition, Function, Plan, Test};
use crate::{Result, StoreError};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, ToSql};
use stook_catalogue::definition::{Catalogue, Collection, Index};
use stook_catalogue::fold::fold;
use stook_catalogue::value::{FieldType, Value};

/// SQL with its parameters.
struct Statement {
    sql: String,
    parameters: Vec<Sql>,
}

impl Statement {
    fn bound(&self) -> Vec<&dyn ToSql> {
        self.parameters.iter().map(|value| value as &dyn ToSql).collect()
    }
}

/// What the builder knows of a column.
struct Known {
    /// As SQL, for values.
    sql: String,
    /// As SQL, for comparisons and order: the folded form where there is one.
    compared: String,
    ty: FieldType,
    fold: bool,
    index: Index,
    /// Name without prefix quoting, for indexes and side tables.
    name: String,
    is_key: bool,
    unique: bool,
}

fn known(collection: &Collection, column: Column) -> Result<Known> {
    let plain = |sql: &str, ty: FieldType| Known {
        sql: sql.to_owned(),
        compared: sql.to_owned(),
        ty,
        fold: false,
        index: Index::default(),
        name: sql.to_owned(),
        is_key: sql == "key",
        unique: false,
    };
    match column {
        Column::Key => Ok(plain("key", FieldType::Text)),
        Column::Revision => Ok(plain("revision", FieldType::Integer)),
        Column::Conflict => Ok(plain("conflict", FieldType::List(Box::new(FieldType::Text)))),
        Column::Field(index) => {
            let field = collection.fields.get(index).ok_or_else(|| StoreError::Wrong("there is no such field".into()))?;
            let sql = format!("\"f_{}\"", field.name);
            let folded = field.fold && !field.ty.is_list();
            let compared = if folded { format!("\"x_{}\"", field.name) } else { sql.clone() };
            let ty = field.golden_type().clone();
            Ok(Known { sql, compared, ty, fold: field.fold, index: field.index, name: field.name.clone(), is_key: false, unique: field.unique })
        }
        Column::State(index) => {
            let state = collection.states.get(index).ok_or_else(|| StoreError::Wrong("there is no such state field".into()))?;
            let sql = format!("\"s_{}\"", state.name);
            Ok(Known { compared: sql.clone(), sql, ty: state.ty.clone(), fold: false, index: state.index, name: state.name.clone(), is_key: false, unique: false })
        }
    }
}

impl Known {
    /// Name of the ordered index on this column, if there is one.
    fn ordered_index(&self, collection: &Collection) -> Option<String> {
        if self.is_key {
            return Some(format!("\"k_{}\"", collection.name));
        }
        (self.index.ordered && !self.ty.is_list()).then(|| ordered_index(&collection.name, self.compared.trim_matches('"')))
    }

    fn folded(&self, value: &Value) -> Value {
        match value {
            Value::Text(text) if self.fold => Value::text(fold(text)),
            other => other.clone(),
        }
    }
}

/// How good an index is for a condition; smaller is better, `None` when it has none.
fn rank(known: &Known, test: &Test) -> Option<u32> {
    let indexed = known.is_key || known.index.ordered;
    match test {
        Test::Equal(_) | Test::In(_) if known.is_key => Some(0),
        Test::Equal(_) if known.unique && indexed => Some(1),
        Test::Equal(_) if indexed => Some(2),
        Test::In(_) if indexed => Some(3),
        Test::Prefix(prefix) if indexed && !known.ty.is_list() => Some(10 - prefix.len().min(4) as u32),
        Test::Wildcard(pieces) if indexed && !known.ty.is_list() && !pieces[0].is_empty() => Some(10 - pieces[0].len().min(4) as u32),
        Test::Wildcard(pieces) if known.index.contains && pieces.iter().any(|piece| folded_len(known, piece) >= 3) => Some(11),
        Test::Prefix(prefix) if known.index.contains && folded_len(known, prefix) >= 3 => Some(11),
        Test::Range { low: Some(_), high: Some(_) } if indexed && !known.ty.is_list() => Some(12),
        Test::Range { .. } if indexed && !known.ty.is_list() => Some(13),
        _ => None,
    }
}

fn folded_len(known: &Known, piece: &str) -> usize {
    if known.fold { fold(piece).chars().count() } else { piece.chars().count() }
}

struct Builder<'a> {
    collection: &'a Collection,
    conditions: Vec<String>,
    parameters: Vec<Sql>,
    /// `INDEXED BY` clause.
    index: String,
    /// In words, how the records are found.
    access: String,
}

impl<'a> Builder<'a> {
    /// The `FROM ... WHERE ...` of a plan.
    fn new(catalogue: &'a Catalogue, tenant: i64, plan: &Plan) -> Result<Self> {
        let collection = catalogue.collections.get(plan.collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
        let mut builder = Self {
            collection,
            conditions: vec!["tenant = ?".into(), "alive = 1".into()],
            parameters: vec![Sql::Integer(tenant)],
            index: String::new(),
            access: "reads every record of the collection".into(),
        };
        let knowns: Vec<Known> = plan.conditions.iter().map(|condition| known(collection, condition.column)).collect::<Result<_>>()?;
        let ranked = plan.conditions.iter().zip(&knowns).enumerate();
        let ranked = ranked.filter_map(|(index, (condition, known))| Some((rank(known, &condition.test)?, index)));
        let driver = ranked.min().map(|(_, index)| index);
        if let Some(driver) = driver {
            builder.drive(&plan.conditions[driver], &knowns[driver])?;
        } else if let Some(sort) = plan.sort.first() {
            let column = known(collection, sort.column)?;
            if let Some(index) = column.ordered_index(collection) {
                builder.index = format!(" INDEXED BY {index}");
                builder.access = format!("walks the index on {}", column.name);
            }
        } else if !plan.distinct {
            builder.index = format!(" INDEXED BY \"k_{}\"", collection.name);
        }
        for (condition, known) in plan.conditions.iter().zip(&knowns) {
            builder.condition(condition, known)?;
        }
        Ok(builder)
    }

    /// Makes the condition the one whose index finds the records.
    fn drive(&mut self, condition: &Condition, known: &Known) -> Result<()> {
        let name = &known.name;
        let collection = &self.collection.name;
        if known.ty.is_list() {
            self.access = format!("finds records through the index on the elements of {name}");
            let values: Vec<&Value> = match &condition.test {
                Test::Equal(value) => vec![value],
                Test::In(values) => values.iter().collect(),
                _ => return Ok(()),
            };
            let marks = vec!["?"; values.len()].join(", ");
            self.conditions.push(format!("id IN (SELECT id FROM \"i_{collection}_{name}\" WHERE tenant = {} AND value IN ({marks}))", self.tenant()));
            for value in values {
                let value = owned(&bind_element(&known.folded(value)));
                self.parameters.push(value);
            }
            return Ok(());
        }
        let ordered = known.ordered_index(self.collection);
        let by_trigram = match &condition.test {
            Test::Wildcard(pieces) => ordered.is_none() || pieces[0].is_empty(),
            Test::Prefix(_) => ordered.is_none(),
            _ => false,
        };
        if by_trigram {
            self.access = format!("finds records through the trigram index on {name}");
            let pieces: Vec<String> = match &condition.test {
                Test::Wildcard(pieces) => pieces.clone(),
                Test::Prefix(prefix) => vec![prefix.clone()],
                _ => Vec::new(),
            };
            let trigrams = pieces.iter().flat_map(|piece| {
                let text: Vec<char> = if known.fold { fold(piece).chars().collect() } else { piece.chars().collect() };
                text.windows(3).map(|three| format!("\"{}\"", three.iter().collect::<String>().replace('"', "\"\""))).collect::<Vec<_>>()
            });
            let query = trigrams.collect::<Vec<_>>().join(" AND ");
            self.conditions.push(format!("id IN (SELECT rowid FROM \"t_{collection}_{name}\" WHERE \"t_{collection}_{name}\" MATCH ?)"));
            self.parameters.push(Sql::Text(query));
            return Ok(());
        }
        if let Some(index) = ordered {
            self.index = format!(" INDEXED BY {index}");
            self.access = match &condition.test {
                Test::Equal(_) | Test::In(_) => format!("looks up {name} in its index"),
                _ => format!("reads a range of the index on {name}"),
            };
        }
        Ok(())
    }

    /// The tenant again, for side tables; ids are numbers.
    fn tenant(&self) -> String {
        match self.parameters.first() {
            Some(Sql::Integer(id)) => id.to_string(),
            _ => "-1".to_owned(),
        }
    }

    fn condition(&mut self, condition: &Condition, known: &Known) -> Result<()> {
        if let Test::Exists(wanted) = condition.test {
            let negation = if wanted { "NOT " } else { "" };
            self.conditions.push(format!("{} IS {negation}NULL", known.sql));
            return Ok(());
        }
        if !known.ty.is_list() {
            let sql = self.comparison(&known.compared.clone(), condition, known, false)?;
            self.conditions.push(sql);
            return Ok(());
        }
        // a list: some element satisfies it; negations: none satisfies the positive form
        let (test, negated) = match &condition.test {
            Test::NotEqual(value) => (Test::Equal(value.clone()), true),
            Test::NotWildcard(pieces) => (Test::Wildcard(pieces.clone()), true),
            other => (other.clone(), false),
        };
        if known.fold && !matches!(test, Test::Equal(_) | Test::In(_)) {
            return Err(StoreError::Wrong(format!("`{}` is a folded list: only = and in can be asked of it", known.name)));
        }
        let sql = if known.fold {
            let values: Vec<Value> = match &test {
                Test::In(values) => values.clone(),
                Test::Equal(value) => vec![value.clone()],
                _ => Vec::new(),
            };
            let marks = vec!["?"; values.len()].join(", ");
            self.parameters.extend(values.iter().map(|value| owned(&bind_element(&known.folded(value)))));
            format!("id IN (SELECT id FROM \"i_{}_{}\" WHERE tenant = {} AND value IN ({marks}))", self.collection.name, known.name, self.tenant())
        } else {
            let element = Condition { column: condition.column, test };
            let inner = self.comparison("e.value", &element, known, true)?;
            format!("EXISTS (SELECT 1 FROM json_each({}) AS e WHERE {inner})", known.sql)
        };
        self.conditions.push(if negated { format!("NOT {sql}") } else { sql });
        Ok(())
    }

    fn comparison(&mut self, sql: &str, condition: &Condition, known: &Known, element: bool) -> Result<String> {
        let value = |value: &Value| {
            let folded = known.folded(value);
            if element { owned(&bind_element(&folded)) } else { owned(&bind(&folded)) }
        };
        Ok(match &condition.test {
            Test::Equal(wanted) => {
                self.parameters.push(value(wanted));
                format!("{sql} = ?")
            }
            Test::NotEqual(wanted) => {
                self.parameters.push(value(wanted));
                format!("{sql} IS NOT ?")
            }
            Test::In(wanted) => {
                self.parameters.extend(wanted.iter().map(value));
                format!("{sql} IN ({})", vec!["?"; wanted.len()].join(", "))
            }
            Test::Range { low, high } => {
                let mut parts = Vec::new();
                for (bound, operator) in [(low, ">"), (high, "<")] {
                    if let Some((wanted, included)) = bound {
                        self.parameters.push(value(wanted));
                        parts.push(format!("{sql} {operator}{} ?", if *included { "=" } else { "" }));
                    }
                }
                if parts.is_empty() { format!("{sql} IS NOT NULL") } else { parts.join(" AND ") }
            }
            Test::Prefix(prefix) => self.prefix(sql, known, prefix),
            Test::Wildcard(pieces) => {
                let beginning = if pieces[0].is_empty() { String::new() } else { format!("{} AND ", self.prefix(sql, known, &pieces[0])) };
                self.parameters.push(Sql::Text(glob(known, pieces)));
                format!("{beginning}{sql} GLOB ?")
            }
            Test::NotWildcard(pieces) => {
                self.parameters.push(Sql::Text(glob(known, pieces)));
                format!("({sql} IS NULL OR {sql} NOT GLOB ?)")
            }
            Test::Exists(_) => format!("{sql} IS NOT NULL"),
        })
    }

    /// Text from `prefix` on, up to the next text that does not begin with it.
    fn prefix(&mut self, sql: &str, known: &Known, prefix: &str) -> String {
        let prefix = if known.fold { fold_prefix(prefix) } else { prefix.to_owned() };
        let mut next: Vec<char> = prefix.chars().collect();
        self.parameters.push(Sql::Text(prefix));
        while let Some(last) = next.pop() {
            let following = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
            if let Some(following) = following {
                next.push(following);
                self.parameters.push(Sql::Text(next.into_iter().collect()));
                return format!("{sql} >= ? AND {sql} < ?");
            }
        }
        format!("{sql} >= ?")
    }

    fn from(&self) -> String {
        format!("\"r_{}\"{} WHERE {}", self.collection.name, self.index, self.conditions.join(" AND "))
    }
}

/// Folding squashes blanks, but a blank at the end of a prefix means the next word.
fn fold_prefix(prefix: &str) -> String {
    let folded = fold(prefix);
    if prefix.ends_with(char::is_whitespace) && !folded.is_empty() { format!("{folded} ") } else { folded }
}

fn glob(known: &Known, pieces: &[String]) -> String {
    let escape = |piece: &String| {
        let folded = if known.fold { piece.chars().flat_map(char::to_lowercase).collect() } else { piece.clone() };
        folded.chars().fold(String::new(), |mut out, character| {
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

fn rows_statement(catalogue: &Catalogue, tenant: i64, plan: &Plan) -> Result<(Statement, String)> {
    let builder = Builder::new(catalogue, tenant, plan)?;
    let columns: Vec<Known> = plan.columns.iter().map(|column| known(builder.collection, *column)).collect::<Result<_>>()?;
    let selected: Vec<&str> = columns.iter().map(|column| column.sql.as_str()).collect();
    let mut order: Vec<String> = Vec::new();
    for sort in &plan.sort {
        let column = known(builder.collection, sort.column)?;
        order.push(format!("{}{}", column.compared, if sort.descending { " DESC" } else { "" }));
    }
    let mut sql = if plan.distinct {
        // equal rows once; the order may only name what is selected, and ends in all of it
        for column in &columns {
            order.push(column.sql.clone());
        }
        format!("SELECT DISTINCT {} FROM {}", selected.join(", "), builder.from())
    } else {
        order.push("key".to_owned());
        format!("SELECT {} FROM {}", selected.join(", "), builder.from())
    };
    sql.push_str(&format!(" ORDER BY {}", order.join(", ")));
    let mut parameters = builder.parameters;
    if plan.limit.is_some() || plan.offset > 0 {
        sql.push_str(" LIMIT ? OFFSET ?");
        parameters.push(Sql::Integer(plan.limit.map_or(-1, |limit| limit.min(i64::MAX as u64) as i64)));
        parameters.push(Sql::Integer(plan.offset.min(i64::MAX as u64) as i64));
    }
    Ok((Statement { sql, parameters }, builder.access))
}

pub fn visit(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &Plan, visit: &mut dyn FnMut(Vec<Value>) -> Result<()>) -> Result<()> {
    let (statement, _) = rows_statement(catalogue, tenant, plan)?;
    let collection = &catalogue.collections[plan.collection];
    let columns: Vec<Known> = plan.columns.iter().map(|column| known(collection, *column)).collect::<Result<_>>()?;
    let mut prepared = connection.prepare_cached(&statement.sql).map_err(failure)?;
    let mut rows = prepared.query(statement.bound().as_slice()).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        let mut values = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            values.push(unbind(row.get_ref(index).map_err(failure)?, &column.ty));
        }
        visit(values)?;
    }
    Ok(())
}

pub fn count(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &Plan) -> Result<u64> {
    let statement = if plan.distinct {
        let whole = Plan { sort: Vec::new(), offset: 0, limit: None, ..plan.clone() };
        let (rows, _) = rows_statement(catalogue, tenant, &whole)?;
        Statement { sql: format!("SELECT count(*) FROM ({})", rows.sql), parameters: rows.parameters }
    } else {
        let builder = Builder::new(catalogue, tenant, plan)?;
        Statement { sql: format!("SELECT count(*) FROM {}", builder.from()), parameters: builder.parameters }
    };
    let mut prepared = connection.prepare_cached(&statement.sql).map_err(failure)?;
    let count: i64 = prepared.query_row(statement.bound().as_slice(), |row| row.get(0)).map_err(failure)?;
    Ok(count as u64)
}

/// One aggregate; its type is that of the column for sum, min, max and median of integers with a whole middle, else float.
pub fn aggregate(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &Plan, aggregate: Aggregate) -> Result<Value> {
    let builder = Builder::new(catalogue, tenant, plan)?;
    let column = known(builder.collection, aggregate.column)?;
    let values = if column.ty.is_list() {
        let from = builder.from().replacen(&builder.index, "", 1);
        let (table, conditions) = from.split_once(" WHERE ").unwrap_or((&from, "1"));
        format!("SELECT e.value AS v FROM {table} AS r{}, json_each(r.{}) AS e WHERE {}", builder.index, column.sql, conditions)
    } else if plan.distinct {
        format!("SELECT DISTINCT {} AS v FROM {}", column.sql, builder.from())
    } else {
        format!("SELECT {} AS v FROM {}", column.sql, builder.from())
    };
    let present = format!("({values}) WHERE v IS NOT NULL");
    let sql = match aggregate.function {
        Function::Sum => format!("SELECT sum(v) FROM {present}"),
        Function::Count => format!("SELECT count(v) FROM {present}"),
        Function::Min => format!("SELECT min(v) FROM {present}"),
        Function::Max => format!("SELECT max(v) FROM {present}"),
        Function::Avg => format!("SELECT avg(v) FROM {present}"),
        Function::Median => format!(
            "WITH all_values AS MATERIALIZED ({values}), present AS (SELECT v FROM all_values WHERE v IS NOT NULL), size AS (SELECT count(*) AS n FROM present) \
             SELECT CASE WHEN count(*) = 1 OR min(v) = max(v) THEN min(v) ELSE avg(v) END \
             FROM (SELECT v FROM present ORDER BY v LIMIT 2 - (SELECT n % 2 FROM size) OFFSET (SELECT (n - 1) / 2 FROM size))"
        ),
    };
    let mut prepared = connection.prepare_cached(&sql).map_err(failure)?;
    let parameters: Vec<&dyn ToSql> = builder.parameters.iter().map(|value| value as &dyn ToSql).collect();
    prepared
        .query_row(parameters.as_slice(), |row| {
            let ty = match aggregate.function {
                Function::Count => &FieldType::Integer,
                _ => column.ty.element(),
            };
            Ok(match (row.get_ref(0)?, aggregate.function) {
                (rusqlite::types::ValueRef::Null, Function::Count) => Value::Int(0),
                (value, _) => unbind(value, ty),
            })
        })
        .map_err(|error| if error.to_string().contains("integer overflow") { StoreError::Wrong("the sum does not fit 64 bits".into()) } else { failure(error) })
}

pub fn explain(connection: &Connection, catalogue: &Catalogue, plan: &Plan) -> Result<Vec<String>> {
    let (statement, access) = rows_statement(catalogue, 1, plan)?;
    let mut lines = vec![access];
    let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql)).map_err(failure)?;
    let mut rows = prepared.query(statement.bound().as_slice()).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        lines.push(row.get::<_, String>(3).map_err(failure)?.to_lowercase());
    }
    lines.push(statement.sql);
    Ok(lines)
}
