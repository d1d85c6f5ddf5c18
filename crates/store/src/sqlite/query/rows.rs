//! Reads the rows of a plan.

use super::super::error::store_error;
use super::super::values::{unbind, unbind_stored};
use super::access::{Driving, SqlStatement, choose_driving_condition, collection_of};
use super::columns::{ColumnInfo, column_info};
use super::select::{ALIVE, SqlBuilder, rows_statement_of};
use crate::Result;
use crate::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use crate::sql::plan_parts::unreadable;
use rusqlite::Connection;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::Value;

pub fn visit(
    connection: &Connection,
    catalogue: &Catalogue,
    tenant: i64,
    plan: &QueryPlan,
    visit: &mut dyn FnMut(Vec<Value>) -> Result<()>,
) -> Result<()> {
    let driving = choose_driving_condition(connection, catalogue, tenant, plan)?;
    if let Some(rows) = read_first_records(connection, catalogue, tenant, plan, driving.as_ref())? {
        return rows.into_iter().try_for_each(visit);
    }
    let statement = rows_statement_of(SqlBuilder::with_access_path((connection, catalogue), tenant, plan, driving)?, plan)?.0;
    read_rows(connection, catalogue, plan, &statement, visit)
}

/// Maximum number of rows of a page that is searched among the first records.
const MAX_ROWS_FROM_FIRST: u64 = 1_024;

/// How many of the first records are read for it, if at least as many would have to be found otherwise: at worst the work is done twice.
const FIRST_RECORDS: u64 = 8_192;

/// Reads a page in the order of keys if very many records satisfy the conditions: instead of finding and sorting them all, it searches the first
/// records. `None` if these do not fill the page, or if an index finds few records.
fn read_first_records(
    connection: &Connection,
    catalogue: &Catalogue,
    tenant: i64,
    plan: &QueryPlan,
    driving: Option<&Driving>,
) -> Result<Option<Vec<Vec<Value>>>> {
    let row_count = plan.limit.map(|limit| limit.saturating_add(plan.offset)).filter(|row_count| *row_count <= MAX_ROWS_FROM_FIRST);
    let (Some(row_count), Some(driving)) = (row_count, driving) else { return Ok(None) };
    if !plan.sort.is_empty() || plan.distinct || plan.any_order || plan.each.is_some() {
        return Ok(None);
    }
    let collection = collection_of(catalogue, plan)?;
    let max_entries = FIRST_RECORDS as i64;
    // keys are found in their order anyway, as are the records with a tag
    let is_ordered = match driving {
        Driving::Condition(index, _) => {
            let Condition { column, test } = &plan.conditions[*index];
            let column = column_info(catalogue, collection, None, *column)?;
            column.is_key || (column.tags.is_some() && matches!(test, Comparison::Equal(_)))
        }
        Driving::Alternatives(_) => false,
    };
    if is_ordered || driving.probe(connection, catalogue, (tenant, plan), max_entries)? < max_entries {
        return Ok(None);
    }
    let collect_rows = |plan: &QueryPlan, only_keys: bool| -> Result<Vec<Vec<Value>>> {
        let mut rows = Vec::new();
        let mut builder = SqlBuilder::with_access_path((connection, catalogue), tenant, plan, None)?;
        // the index does not contain whether a record is alive
        builder.conditions.retain(|condition| !only_keys || condition != ALIVE);
        let statement = rows_statement_of(builder, plan)?.0;
        read_rows(connection, catalogue, plan, &statement, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    };
    let key_conditions = plan.conditions.iter().filter(|condition| condition.column == PlanColumn::Key).cloned().collect();
    let last_key_plan = QueryPlan {
        conditions: key_conditions,
        combined: Vec::new(),
        columns: vec![PlanColumn::Key],
        offset: FIRST_RECORDS,
        limit: Some(1),
        ..plan.clone()
    };
    let mut first_plan = plan.clone();
    if let Some(key) = collect_rows(&last_key_plan, true)?.pop().and_then(|mut row| row.pop()) {
        first_plan.conditions.push(Condition { column: PlanColumn::Key, test: Comparison::Range { low: None, high: Some((key, true)) } });
    }
    let rows = collect_rows(&first_plan, false)?;
    let is_full = rows.len() as u64 + plan.offset >= row_count;
    Ok(Some(rows).filter(|_| is_full || first_plan.conditions.len() == plan.conditions.len()))
}

pub fn read_rows(
    connection: &Connection,
    catalogue: &Catalogue,
    plan: &QueryPlan,
    statement: &SqlStatement,
    visit: &mut dyn FnMut(Vec<Value>) -> Result<()>,
) -> Result<()> {
    let collection = &catalogue.collections[plan.collection];
    let columns: Vec<ColumnInfo> = plan.columns.iter().map(|column| column_info(catalogue, collection, plan.each, *column)).collect::<Result<_>>()?;
    let mut prepared = connection.prepare_cached(&statement.sql).map_err(store_error)?;
    let mut rows = prepared.query(statement.bound_parameters().as_slice()).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let mut values = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            let value = row.get_ref(index).map_err(store_error)?;
            let is_stored = match plan.columns[index] {
                PlanColumn::Field(field) => collection.member(field).is_none(),
                PlanColumn::State(_) => true,
                _ => false,
            };
            let value = if is_stored { unbind_stored(value, &column.ty) } else { unbind(value, &column.ty) };
            values.push(value.map_err(|unfit| unreadable(collection, &column.name, unfit))?);
        }
        visit(values)?;
    }
    Ok(())
}
