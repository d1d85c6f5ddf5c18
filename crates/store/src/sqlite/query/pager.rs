//! Reads the rows of a plan a page at a time.

use super::access::{access_path_of, collection_of};
use super::alternatives::indexed_alternatives;
use super::columns::column_info;
use super::rows::visit;
use crate::Result;
use crate::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use rusqlite::Connection;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::Value;

/// Reads the rows of a plan in the order of keys a page at a time, if no index finds records by a condition: then a page costs what its rows cost.
pub struct KeyPager {
    /// The plan of the next page; its last column is the key.
    plan: QueryPlan,
    /// How many rows may follow, if there is a limit.
    remaining: Option<u64>,
    /// Whether the page follows another one.
    is_continued: bool,
}

/// Number of rows in a page.
const PAGE_ROWS: u64 = 1_000;

impl KeyPager {
    /// The first page of a plan; `None` if it must be read at once.
    pub fn for_plan(catalogue: &Catalogue, plan: &QueryPlan) -> Option<Self> {
        let is_plain = plan.sort.is_empty() && plan.each.is_none() && !plan.distinct && !plan.any_order && plan.offset == 0;
        // each page would search the linked records again
        if !is_plain || plan.has_linked_conditions() || plan.limit.is_some_and(|limit| limit <= PAGE_ROWS) {
            return None;
        }
        let collection = collection_of(catalogue, plan).ok()?;
        let needs_scan = |condition: &Condition| {
            column_info(catalogue, collection, None, condition.column)
                .is_ok_and(|column| access_path_of(collection, &column, &condition.test).is_none())
        };
        let has_alternatives = |combined| matches!(indexed_alternatives(catalogue, plan, combined), Ok(Some(_)));
        if !plan.conditions.iter().all(needs_scan) || plan.combined.iter().any(has_alternatives) {
            return None;
        }
        let mut first = plan.clone();
        first.columns.push(PlanColumn::Key);
        Some(Self { plan: first, remaining: plan.limit, is_continued: false })
    }

    /// Reads the rows of the page.
    pub fn read(&mut self, connection: &Connection, catalogue: &Catalogue, tenant: i64) -> Result<Vec<Vec<Value>>> {
        self.plan.limit = Some(self.remaining.map_or(PAGE_ROWS, |remaining| remaining.min(PAGE_ROWS)));
        let mut rows = Vec::new();
        visit(connection, catalogue, tenant, &self.plan, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Moves to the next page after one with these rows; returns whether there may be one.
    pub fn move_to_next(&mut self, rows: &[Vec<Value>]) -> bool {
        let row_count = rows.len() as u64;
        self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(row_count));
        let Some(last) = rows.last().and_then(|row| row.last()).filter(|_| row_count >= PAGE_ROWS && self.remaining != Some(0)) else { return false };
        let test = Comparison::Range { low: Some((last.clone(), false)), high: None };
        // the condition of the page before, if there was one, is the last
        self.plan.conditions.truncate(self.plan.conditions.len() - usize::from(self.is_continued));
        self.plan.conditions.push(Condition { column: PlanColumn::Key, test });
        self.is_continued = true;
        true
    }

    /// Removes the key that was added to a row.
    pub fn without_key(&self, mut row: Vec<Value>) -> Vec<Value> {
        row.pop();
        row
    }
}
