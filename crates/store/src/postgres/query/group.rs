//! Groups of the rows of a plan.

use super::super::session::{DatabaseError, DbResult, Session};
use super::super::values::{RowExt, bare_type, decode_column};
use super::columns::column_info;
use super::parameters::QueryParameter;
use super::select::SqlBuilder;
use crate::StoreError;
use crate::plan::{Aggregate, AggregateFunction, Grouping, Groups, Period, QueryPlan};
use crate::sql::grouping::{ElementsSql, GroupDialect, GroupRow, GroupedColumn, group_statement, read_groups};
use crate::sql::plan_parts::all_rows;
use ::tokio_postgres::Row;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::{FieldType, Value};

pub struct PostgresDialect;

impl GroupDialect for PostgresDialect {
    fn null(&self, ty: &FieldType) -> String {
        format!("NULL::{}", bare_type(ty))
    }

    fn elements(&self, list: &str, alias: &str) -> ElementsSql {
        ElementsSql { join: format!(" JOIN LATERAL unnest({list}) AS {alias}(v) ON {alias}.v IS NOT NULL"), value: format!("{alias}.v") }
    }

    fn ranges(&self, column: &str, alias: &str) -> (ElementsSql, String) {
        let join = format!(" LEFT JOIN LATERAL jsonb_array_elements({column}::jsonb) AS {alias}(v) ON true");
        (ElementsSql { join, value: format!("({alias}.v ->> 0)::bigint") }, format!("({alias}.v ->> 1)::bigint"))
    }

    fn distinct_elements(&self, list: &str, alias: &str, value: &dyn Fn(&str) -> String) -> ElementsSql {
        let elements = format!("SELECT DISTINCT {} AS v FROM unnest({list}) AS d(v) WHERE d.v IS NOT NULL", value("d.v"));
        ElementsSql { join: format!(" LEFT JOIN LATERAL ({elements}) AS {alias} ON true"), value: format!("{alias}.v") }
    }

    fn extreme(&self, function: AggregateFunction, column: &str, ty: &FieldType) -> String {
        let name = function.name();
        match (ty, function) {
            (FieldType::Boolean, AggregateFunction::Min) => format!("bool_and({column})"),
            (FieldType::Boolean, _) => format!("bool_or({column})"),
            // not all servers compare them in aggregates; their texts have the same order
            (FieldType::Uuid, _) => format!("{name}({column}::text COLLATE \"C\")::uuid"),
            _ => format!("{name}({})", self.ordered(column, ty)),
        }
    }

    fn ordered(&self, column: &str, ty: &FieldType) -> String {
        if *ty == FieldType::Text { format!("{column} COLLATE \"C\"") } else { column.to_owned() }
    }

    fn first_day(&self, period: Period, day: &str) -> String {
        let epoch = "date '1970-01-01'";
        format!("(date_trunc('{}', ({epoch} + ({day})::integer)::timestamp)::date - {epoch})::bigint", period.name())
    }
}

impl GroupRow<DatabaseError> for Row {
    fn integer(&self, index: usize) -> DbResult<Option<i64>> {
        self.at(index)
    }

    fn float(&self, index: usize) -> DbResult<Option<f64>> {
        self.at(index)
    }

    fn value(&self, index: usize, ty: &FieldType) -> Result<Value, String> {
        decode_column(self, index, ty.element())
    }
}

pub fn group(
    session: &mut Session,
    catalogue: &Catalogue,
    tenant: i64,
    plan: &QueryPlan,
    (aggregates, grouping): (&[Aggregate], &Grouping),
) -> DbResult<Groups> {
    read_groups(plan, |limit, offset| -> DbResult<Groups> {
        let mut builder = SqlBuilder::new(catalogue, tenant, &all_rows(plan))?;
        let column_of = |column| {
            let info = column_info(catalogue, builder.collection, plan.each, column)?;
            Ok::<_, DatabaseError>(GroupedColumn { sql: info.sql, ty: info.ty, name: info.name })
        };
        let statement = group_statement(&PostgresDialect, builder.collection, plan, (aggregates, grouping), &builder.from(), column_of)?;
        // some servers add limit and offset
        let mut bounded = |rows: u64| builder.parameters.push(QueryParameter::Number(rows.min(i64::MAX as u64 / 4) as i64), "bigint");
        let sql = format!("{} LIMIT {} OFFSET {}", statement.sql, bounded(limit), bounded(offset));
        let overflow = |error| match error {
            DatabaseError::Store(StoreError::Other(reason)) if reason.contains("out of range") => {
                StoreError::Wrong("the sum is too large for a float".into()).into()
            }
            other => other,
        };
        let mut groups = Groups::default();
        for row in &builder.parameters.with(|parameters| session.query(&sql, parameters)).map_err(overflow)? {
            let (values, total) = statement.read(row)?;
            groups.rows.push(values);
            groups.total = total;
        }
        Ok(groups)
    })
}
