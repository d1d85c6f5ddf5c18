//! Aggregates over all rows of a plan.

use super::super::session::{DatabaseError, DbResult, Session};
use super::super::values::{RowExt, decode_column};
use super::columns::column_info;
use super::group::PostgresDialect;
use super::select::{SqlBuilder, rows_statement};
use crate::StoreError;
use crate::plan::{ALL_VALUES, Aggregate, AggregateFunction, PlanColumn, QueryPlan, percentile_between};
use crate::sql::grouping::{GroupedColumn, percentile_of};
use crate::sql::plan_parts::{aggregated_values_sql, all_rows, float_aggregate, integer_aggregate, unreadable};
use crate::sql::record_counts;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::{FieldType, Value};

pub fn count(session: &mut Session, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> DbResult<u64> {
    if let Some(collection) = catalogue.collections.get(plan.collection).filter(|_| record_counts::applies_to(plan)) {
        return super::super::record_counts::read(session, tenant, &collection.name);
    }
    let plan = all_rows(plan);
    let (sql, parameters) = if plan.distinct {
        let (rows, parameters) = rows_statement(catalogue, tenant, &plan)?;
        (format!("SELECT count(*) FROM ({rows}) AS rows"), parameters)
    } else {
        let builder = SqlBuilder::new(catalogue, tenant, &plan)?;
        (format!("SELECT count(*) FROM {}", builder.from()), builder.parameters)
    };
    let row = parameters.with(|parameters| session.query_one(&sql, parameters))?;
    Ok(row.at::<i64>(0)? as u64)
}

/// Computes one aggregate; its type is the same as in SQLite.
pub fn aggregate(session: &mut Session, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan, aggregate: Aggregate) -> DbResult<Value> {
    let plan = all_rows(plan);
    let builder = SqlBuilder::new(catalogue, tenant, &plan)?;
    let column = column_info(builder.catalogue, builder.collection, plan.each, aggregate.column)?;
    let column_of = |column: PlanColumn| -> DbResult<GroupedColumn> {
        let column = column_info(builder.catalogue, builder.collection, plan.each, column)?;
        Ok(GroupedColumn { sql: column.sql, ty: column.ty, name: column.name })
    };
    let rows = aggregated_values_sql(&PostgresDialect, &plan, aggregate.column, &builder.from(), column_of)?;
    if column.ty == FieldType::Ranges {
        let sql = match aggregate.function {
            AggregateFunction::Count => "coalesce(sum((e.v ->> 1)::bigint - (e.v ->> 0)::bigint + 1), 0)::bigint",
            AggregateFunction::Min => "min((e.v ->> 0)::bigint)",
            AggregateFunction::Max => "max((e.v ->> 1)::bigint)",
            other => return Err(StoreError::Wrong(format!("ranges have no {}", other.name())).into()),
        };
        let sql = format!("SELECT {sql} FROM ({rows}) AS rows, jsonb_array_elements(rows.v::jsonb) AS e(v)");
        let row = builder.parameters.with(|parameters| session.query_one(&sql, parameters))?;
        return Ok(row.at::<Option<i64>>(0)?.map_or(Value::Null, Value::Int));
    }
    let values = if column.ty.is_list() {
        format!("SELECT e.v FROM ({rows}) AS rows, unnest(rows.v) AS e(v) WHERE e.v IS NOT NULL")
    } else {
        format!("SELECT v FROM ({rows}) AS rows WHERE v IS NOT NULL")
    };
    let element = column.ty.element().clone();
    let is_integer = element != FieldType::Float;
    let sql = match aggregate.function {
        AggregateFunction::Count => format!("SELECT count(*) FROM ({values}) AS present"),
        AggregateFunction::CountDistinct => format!("SELECT count(DISTINCT v) FROM ({values}) AS present"),
        AggregateFunction::Min => format!("SELECT v FROM ({values}) AS present ORDER BY v LIMIT 1"),
        AggregateFunction::Max => format!("SELECT v FROM ({values}) AS present ORDER BY v DESC LIMIT 1"),
        // as text: a sum of 64-bit numbers may need more than 64 bits
        AggregateFunction::Sum | AggregateFunction::Avg if is_integer => format!("SELECT count(*), sum(v)::text FROM ({values}) AS present"),
        AggregateFunction::Sum | AggregateFunction::Avg => format!("SELECT count(*), sum(v) FROM ({values}) AS present"),
        AggregateFunction::Median | AggregateFunction::Percentile(_) => {
            let (steps, all) = (format!("(n - 1) * {}", percentile_of(aggregate.function).unwrap_or_default()), ALL_VALUES);
            format!(
                "WITH present AS MATERIALIZED ({values}), size AS (SELECT count(*) AS n FROM present) SELECT v, (SELECT n FROM size) FROM present \
                 ORDER BY v LIMIT 1 + (SELECT ({steps} % {all} > 0)::integer FROM size) OFFSET greatest((SELECT {steps} / {all} FROM size), 0)"
            )
        }
    };
    let overflow = |error| match error {
        DatabaseError::Store(StoreError::Other(reason)) if !is_integer && reason.contains("out of range") => {
            StoreError::Wrong("the sum is too large for a float".into()).into()
        }
        other => other,
    };
    let found = builder.parameters.with(|parameters| session.query(&sql, parameters)).map_err(overflow)?;
    let Some(row) = found.first() else { return Ok(Value::Null) };
    match aggregate.function {
        AggregateFunction::Count | AggregateFunction::CountDistinct => Ok(Value::Int(row.at(0)?)),
        AggregateFunction::Min | AggregateFunction::Max => {
            decode_column(row, 0, &element).map_err(|unfit| unreadable(builder.collection, &column.name, &unfit).into())
        }
        AggregateFunction::Sum | AggregateFunction::Avg => {
            let count = row.at::<i64>(0)?;
            if count == 0 {
                return Ok(Value::Null);
            }
            if !is_integer {
                return Ok(float_aggregate(aggregate.function, count, row.at(1)?)?);
            }
            let sum: i128 = match row.at::<Option<&str>>(1)? {
                Some(sum) => sum.parse().map_err(|_| StoreError::Other(format!("a sum is no number: {sum:?}")))?,
                None => 0,
            };
            Ok(integer_aggregate(aggregate.function, count, sum, &column.ty)?)
        }
        AggregateFunction::Median | AggregateFunction::Percentile(_) => {
            let (percentile, count) = (percentile_of(aggregate.function).unwrap_or_default(), row.at::<i64>(1)?.max(0) as u64);
            let low = decode_column(row, 0, &element).map_err(|unfit| unreadable(builder.collection, &column.name, &unfit))?;
            let high = found.last().map_or(Ok(Value::Null), |row| decode_column(row, 0, &element));
            let high = high.map_err(|unfit| unreadable(builder.collection, &column.name, &unfit))?;
            Ok(percentile_between(&low, &high, percentile, count, &column.ty))
        }
    }
}
