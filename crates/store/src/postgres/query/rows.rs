//! Reads the rows of a plan.

use super::super::session::{DbResult, Session};
use super::super::values::decode_column;
use super::columns::column_info;
use super::comparison::is_complete_in_index;
use super::parameters::Parameters;
use super::select::{SqlBuilder, rows_statement_of};
use crate::plan::{Comparison, PlanColumn, QueryPlan};
use crate::sql::plan_parts::unreadable;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::{FieldType, Value};

pub fn visit(
    session: &mut Session,
    catalogue: &Catalogue,
    tenant: i64,
    plan: &QueryPlan,
    visit: &mut dyn FnMut(Vec<Value>) -> crate::Result<()>,
) -> DbResult<()> {
    if let Some(rows) = read_smallest(session, catalogue, tenant, plan)? {
        return Ok(rows.into_iter().try_for_each(visit)?);
    }
    let builder = SqlBuilder::new(catalogue, tenant, plan)?;
    if may_read_first_records(&builder, plan)?
        && let Some(rows) = read_first_records(session, catalogue, tenant, plan)?
    {
        return Ok(rows.into_iter().try_for_each(visit)?);
    }
    read_rows(session, catalogue, plan, rows_statement_of(builder, plan)?, visit)
}

/// Reads any one of the records with the smallest text in a column. The indexed beginnings nearly always decide which that is; sorting records with
/// the same beginning by their complete texts would read them all. `None` if the beginnings do not decide, or if the plan is not of this kind.
fn read_smallest(session: &mut Session, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> DbResult<Option<Vec<Vec<Value>>>> {
    let [sort] = plan.sort.as_slice() else { return Ok(None) };
    let is_single_row = plan.limit == Some(1) && plan.offset == 0 && plan.any_order && !plan.distinct && plan.each.is_none();
    let Some(index) = plan.columns.iter().position(|column| *column == sort.column).filter(|_| is_single_row) else { return Ok(None) };
    let builder = SqlBuilder::new(catalogue, tenant, plan)?;
    let column = column_info(builder.catalogue, builder.collection, None, sort.column)?;
    if !builder.is_ordered_scan || !column.index.ordered || column.ty != FieldType::Text {
        return Ok(None);
    }
    let rows = collect_rows(session, catalogue, plan, SqlBuilder { sorts_by_indexed_prefix: true, ..builder })?;
    let is_decided = rows.iter().all(|row| column.folded(&row[index]).as_text().is_none_or(is_complete_in_index));
    Ok(Some(rows).filter(|_| is_decided))
}

fn collect_rows(session: &mut Session, catalogue: &Catalogue, plan: &QueryPlan, builder: SqlBuilder<'_>) -> DbResult<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    read_rows(session, catalogue, plan, rows_statement_of(builder, plan)?, &mut |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

pub fn read_rows(
    session: &mut Session,
    catalogue: &Catalogue,
    plan: &QueryPlan,
    (sql, parameters): (String, Parameters),
    visit: &mut dyn FnMut(Vec<Value>) -> crate::Result<()>,
) -> DbResult<()> {
    let collection = &catalogue.collections[plan.collection];
    let types: Vec<FieldType> =
        plan.columns.iter().map(|column| Ok(column_info(catalogue, collection, plan.each, *column)?.ty)).collect::<DbResult<_>>()?;
    parameters.with(|parameters| {
        session.visit(&sql, parameters, |row| {
            let mut values = Vec::with_capacity(types.len());
            for (index, ty) in types.iter().enumerate() {
                values.push(decode_column(row, index, ty).map_err(|unfit| {
                    let column = column_info(catalogue, collection, plan.each, plan.columns[index]);
                    column.map_or_else(|error| error, |column| unreadable(collection, &column.name, &unfit).into())
                })?);
            }
            Ok(visit(values)?)
        })
    })
}

/// Maximum number of rows of a page that is searched among the first records.
const MAX_ROWS_FROM_FIRST: u64 = 1_024;

/// How many of the first records are read for it: a few, and more if those show that the page is likely to be among them.
const FIRST_RECORDS: [u64; 2] = [512, 8_192];

/// Whether the plan is a page, in the order of keys, of records that an index finds: if these are very many, the first records are searched instead
/// of finding and sorting them all.
fn may_read_first_records(builder: &SqlBuilder<'_>, plan: &QueryPlan) -> DbResult<bool> {
    let is_page = plan.limit.is_some_and(|limit| limit.saturating_add(plan.offset) <= MAX_ROWS_FROM_FIRST);
    let is_plain = plan.sort.is_empty() && !plan.distinct && !plan.any_order && plan.each.is_none();
    if !is_page || !is_plain || !builder.is_indexed || builder.is_ordered_scan || builder.is_tag_scan {
        return Ok(false);
    }
    for condition in &plan.conditions {
        // elements of lists are found better in their own tables
        let is_list = column_info(builder.catalogue, builder.collection, None, condition.column)?.ty.is_list();
        let is_unique = matches!(condition.column, PlanColumn::Field(index) if builder.collection.fields[index].unique);
        if is_list || (is_unique && matches!(condition.test, Comparison::Equal(_))) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads a page from the first records in the order of keys, if they contain it. The planner's estimate is no help: for beginnings of texts it may be
/// a thousand times too low.
fn read_first_records(session: &mut Session, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> DbResult<Option<Vec<Vec<Value>>>> {
    let row_count = plan.offset + plan.limit.unwrap_or_default();
    let page = QueryPlan { offset: 0, limit: Some(row_count), ..plan.clone() };
    let [fewer, more] = FIRST_RECORDS;
    for records in FIRST_RECORDS {
        let builder = SqlBuilder::new(catalogue, tenant, &page)?.among_first(&page, records)?;
        let mut rows = collect_rows(session, catalogue, &page, builder)?;
        let found_count = rows.len() as u64;
        if found_count == row_count {
            return Ok(Some(rows.split_off(plan.offset as usize)));
        }
        if found_count * (more / fewer) < row_count {
            break;
        }
    }
    Ok(None)
}
