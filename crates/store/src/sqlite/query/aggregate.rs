//! Aggregates over all rows of a plan.

use super::super::error::store_error;
use super::super::values::unbind;
use super::access::SqlStatement;
use super::columns::column_info;
use super::group::SqliteDialect;
use super::select::{SqlBuilder, rows_statement};
use crate::plan::{ALL_VALUES, Aggregate, AggregateFunction, PlanColumn, QueryPlan, percentile_between};
use crate::sql::grouping::{GroupedColumn, percentile_of};
use crate::sql::plan_parts::{aggregated_values_sql, all_rows, float_aggregate, integer_aggregate, unreadable};
use crate::sql::record_counts;
use crate::{Result, StoreError};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::{FieldType, Value};

pub fn count(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> Result<u64> {
    if let Some(collection) = catalogue.collections.get(plan.collection).filter(|_| record_counts::applies_to(plan)) {
        return super::super::record_counts::read(connection, tenant, &collection.name);
    }
    let plan = all_rows(plan);
    let statement = if plan.distinct {
        let (rows, _) = rows_statement(connection, catalogue, tenant, &plan)?;
        SqlStatement { sql: format!("SELECT count(*) FROM ({})", rows.sql), parameters: rows.parameters }
    } else {
        let builder = SqlBuilder::new(connection, catalogue, tenant, &plan)?;
        SqlStatement { sql: format!("SELECT count(*) FROM {}", builder.from()), parameters: builder.parameters }
    };
    let mut prepared = connection.prepare_cached(&statement.sql).map_err(store_error)?;
    let count: i64 = prepared.query_row(statement.bound_parameters().as_slice(), |row| row.get(0)).map_err(store_error)?;
    Ok(count as u64)
}

/// Computes one aggregate. Its type is that of the column for sum, min, max, medians that need no fraction, and means of times and durations; other
/// means are floats.
pub fn aggregate(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan, aggregate: Aggregate) -> Result<Value> {
    let plan = all_rows(plan);
    let builder = SqlBuilder::new(connection, catalogue, tenant, &plan)?;
    let column = column_info(builder.catalogue, builder.collection, plan.each, aggregate.column)?;
    let column_of = |column: PlanColumn| -> Result<GroupedColumn> {
        let column = column_info(builder.catalogue, builder.collection, plan.each, column)?;
        Ok(GroupedColumn { sql: column.sql, ty: column.ty, name: column.name })
    };
    let rows = aggregated_values_sql(&SqliteDialect, &plan, aggregate.column, &builder.from(), column_of)?;
    if column.ty == FieldType::Ranges {
        let sql = match aggregate.function {
            AggregateFunction::Count => "coalesce(sum((e.value ->> 1) - (e.value ->> 0) + 1), 0)",
            AggregateFunction::Min => "min(e.value ->> 0)",
            AggregateFunction::Max => "max(e.value ->> 1)",
            other => return Err(StoreError::Wrong(format!("ranges have no {}", other.name()))),
        };
        let statement = SqlStatement { sql: format!("SELECT {sql} FROM ({rows}) AS r, json_each(r.v) AS e"), parameters: builder.parameters };
        let mut prepared = connection.prepare_cached(&statement.sql).map_err(store_error)?;
        let found: Option<i64> = prepared.query_row(statement.bound_parameters().as_slice(), |row| row.get(0)).map_err(store_error)?;
        return Ok(found.map_or(Value::Null, Value::Int));
    }
    let values = if column.ty.is_list() {
        // a sub-query, because json_each has columns called `id` and `key` too
        format!("SELECT e.value AS v FROM ({rows}) AS r, json_each(r.v) AS e WHERE e.value IS NOT NULL")
    } else {
        format!("SELECT v FROM ({rows}) WHERE v IS NOT NULL")
    };
    let is_integer = !matches!(column.ty.element(), FieldType::Float);
    let sql = match aggregate.function {
        AggregateFunction::Count => format!("SELECT count(*) FROM ({values})"),
        AggregateFunction::CountDistinct => format!("SELECT count(DISTINCT v) FROM ({values})"),
        AggregateFunction::Min => format!("SELECT min(v) FROM ({values})"),
        AggregateFunction::Max => format!("SELECT max(v) FROM ({values})"),
        // in two halves, which cannot overflow on the way to a sum that fits
        AggregateFunction::Sum | AggregateFunction::Avg if is_integer => {
            format!("SELECT count(*), sum(v >> 32), sum(v & 4294967295) FROM ({values})")
        }
        AggregateFunction::Sum | AggregateFunction::Avg => format!("SELECT count(*), sum(v) FROM ({values})"),
        AggregateFunction::Median | AggregateFunction::Percentile(_) => {
            let (steps, all) = (format!("(n - 1) * {}", percentile_of(aggregate.function).unwrap_or_default()), ALL_VALUES);
            format!(
                "WITH present AS MATERIALIZED ({values}), size AS (SELECT count(*) AS n FROM present) SELECT min(v), max(v), (SELECT n FROM size) \
                 FROM (SELECT v FROM present ORDER BY v LIMIT 1 + (SELECT {steps} % {all} > 0 FROM size) OFFSET (SELECT {steps} / {all} FROM size))"
            )
        }
    };
    let mut prepared = connection.prepare_cached(&sql).map_err(store_error)?;
    let parameters: Vec<&dyn ToSql> = builder.parameters.iter().map(|value| value as &dyn ToSql).collect();
    let mut rows = prepared.query(parameters.as_slice()).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else { return Ok(Value::Null) };
    let number = |index: usize| row.get::<_, Option<f64>>(index).map_err(store_error);
    let integer = |index: usize| row.get::<_, Option<i64>>(index).map_err(store_error);
    match aggregate.function {
        AggregateFunction::Count | AggregateFunction::CountDistinct => Ok(Value::Int(integer(0)?.unwrap_or(0))),
        AggregateFunction::Min | AggregateFunction::Max => {
            read_element(row.get_ref(0).map_err(store_error)?, &column.ty).map_err(|unfit| unreadable(builder.collection, &column.name, unfit))
        }
        AggregateFunction::Sum | AggregateFunction::Avg => {
            let count = integer(0)?.unwrap_or(0);
            if count == 0 {
                return Ok(Value::Null);
            }
            if !is_integer {
                return float_aggregate(aggregate.function, count, number(1)?);
            }
            let sum = (i128::from(integer(1)?.unwrap_or(0)) << 32) + i128::from(integer(2)?.unwrap_or(0));
            integer_aggregate(aggregate.function, count, sum, &column.ty)
        }
        AggregateFunction::Median | AggregateFunction::Percentile(_) => {
            let (percentile, count) = (percentile_of(aggregate.function).unwrap_or_default(), integer(2)?.unwrap_or(0).max(0) as u64);
            let read_middle_value = |index: usize| -> Result<Value> {
                Ok(if is_integer { integer(index)?.map_or(Value::Null, Value::Int) } else { number(index)?.map_or(Value::Null, Value::Float) })
            };
            Ok(percentile_between(&read_middle_value(0)?, &read_middle_value(1)?, percentile, count, &column.ty))
        }
    }
}

/// Reads a value, or an element of a list as it is in JSON.
pub fn read_element(value: ValueRef<'_>, ty: &FieldType) -> std::result::Result<Value, &'static str> {
    match (value, ty) {
        (ValueRef::Text(digits), FieldType::List(element)) if **element == FieldType::Uuid => {
            let id = std::str::from_utf8(digits).ok().and_then(|digits| u128::from_str_radix(digits, 16).ok());
            id.map(Value::Uuid).ok_or("it is no UUID")
        }
        _ => unbind(value, ty.element()),
    }
}
