//! Groups of the rows of a plan.

use super::super::error::store_error;
use super::super::values::unbind_stored;
use super::aggregate::read_element;
use super::columns::column_info;
use super::select::SqlBuilder;
use crate::plan::{Aggregate, AggregateFunction, Grouping, Groups, Period, QueryPlan};
use crate::sql::grouping::{ElementsSql, GroupDialect, GroupRow, GroupedColumn, group_statement, read_groups};
use crate::sql::plan_parts::all_rows;
use crate::{Result, StoreError};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, Row, ToSql};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::{FieldType, Value};

pub struct SqliteDialect;

impl GroupDialect for SqliteDialect {
    fn null(&self, _: &FieldType) -> String {
        "NULL".into()
    }

    fn elements(&self, list: &str, alias: &str) -> ElementsSql {
        ElementsSql { join: format!(" JOIN json_each({list}) AS {alias} ON {alias}.value IS NOT NULL"), value: format!("{alias}.value") }
    }

    fn ranges(&self, column: &str, alias: &str) -> (ElementsSql, String) {
        let elements = ElementsSql { join: format!(" LEFT JOIN json_each({column}) AS {alias}"), value: format!("{alias}.value ->> 0") };
        (elements, format!("{alias}.value ->> 1"))
    }

    fn distinct_elements(&self, list: &str, alias: &str, value: &dyn Fn(&str) -> String) -> ElementsSql {
        let elements = format!("SELECT json_group_array(DISTINCT {}) FROM json_each({list}) AS d WHERE d.value IS NOT NULL", value("d.value"));
        ElementsSql { join: format!(" LEFT JOIN json_each(({elements})) AS {alias}"), value: format!("{alias}.value") }
    }

    fn extreme(&self, function: AggregateFunction, column: &str, _: &FieldType) -> String {
        format!("{}({column})", function.name())
    }

    fn ordered(&self, column: &str, _: &FieldType) -> String {
        column.to_owned()
    }

    fn first_day(&self, period: Period, day: &str) -> String {
        format!("unixepoch({day} * 86400, 'unixepoch', 'start of {}') / 86400", period.name())
    }
}

impl GroupRow<StoreError> for Row<'_> {
    fn integer(&self, index: usize) -> Result<Option<i64>> {
        self.get(index).map_err(store_error)
    }

    fn float(&self, index: usize) -> Result<Option<f64>> {
        self.get(index).map_err(store_error)
    }

    fn value(&self, index: usize, ty: &FieldType) -> std::result::Result<Value, String> {
        let value = self.get_ref(index).map_err(|error| error.to_string())?;
        let read = if ty.is_list() { read_element(value, ty) } else { unbind_stored(value, ty) };
        read.map_err(str::to_owned)
    }
}

pub fn group(
    connection: &Connection,
    catalogue: &Catalogue,
    tenant: i64,
    plan: &QueryPlan,
    (aggregates, grouping): (&[Aggregate], &Grouping),
) -> Result<Groups> {
    let builder = SqlBuilder::new(connection, catalogue, tenant, &all_rows(plan))?;
    let column_of = |column| {
        let info = column_info(catalogue, builder.collection, plan.each, column)?;
        Ok::<_, StoreError>(GroupedColumn { sql: info.sql, ty: info.ty, name: info.name })
    };
    let statement = group_statement(&SqliteDialect, builder.collection, plan, (aggregates, grouping), &builder.from(), column_of)?;
    read_groups(plan, |limit, offset| -> Result<Groups> {
        let mut prepared = connection.prepare_cached(&format!("{} LIMIT ? OFFSET ?", statement.sql)).map_err(store_error)?;
        let page = [limit, offset].map(|number| Sql::Integer(number.min(i64::MAX as u64) as i64));
        let parameters: Vec<&dyn ToSql> = builder.parameters.iter().chain(&page).map(|value| value as &dyn ToSql).collect();
        let mut rows = prepared.query(parameters.as_slice()).map_err(store_error)?;
        let mut groups = Groups::default();
        while let Some(row) = rows.next().map_err(store_error)? {
            let (values, total) = statement.read(row)?;
            groups.rows.push(values);
            groups.total = total;
        }
        Ok(groups)
    })
}
