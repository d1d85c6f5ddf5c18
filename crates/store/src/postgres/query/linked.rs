//! Linked records: their parts as columns, and their keys and links as values that conditions compare with.

use super::super::session::DbResult;
use super::super::tables::quoted_name;
use super::columns::{ColumnInfo, column_info};
use super::parameters::Parameters;
use super::select::SqlBuilder;
use crate::plan::{LinkedColumn, PlanColumn, QueryPlan};
use crate::sql::linked::{LinkedStep, are_several, compared_column, linked_name, linked_steps, linked_type};
use stook_catalogue::definition::{Catalogue, Collection, FieldIndexes};

/// The statement whose column `v` has the values of a plan's first column, one by one; its parameters follow those given.
pub fn values_statement(catalogue: &Catalogue, tenant: i64, plan: &QueryPlan, parameters: Parameters) -> DbResult<(String, Parameters)> {
    let builder = SqlBuilder::with_parameters(catalogue, tenant, plan, parameters)?;
    let column = column_info(catalogue, builder.collection, None, compared_column(plan)?)?;
    let rows = format!("SELECT {} AS f FROM {}", column.sql, builder.from());
    let sql = match column.ty.is_list() {
        true => format!("SELECT fe.v FROM ({rows}) AS lf CROSS JOIN LATERAL unnest(lf.f) AS fe(v) WHERE fe.v IS NOT NULL"),
        false => format!("SELECT lf.f AS v FROM ({rows}) AS lf WHERE lf.f IS NOT NULL"),
    };
    Ok((sql, builder.parameters))
}

/// The SQL of a part of the records that links lead to.
pub fn linked_column(catalogue: &Catalogue, collection: &Collection, column: &LinkedColumn) -> DbResult<ColumnInfo> {
    let steps = linked_steps(catalogue, collection, column)?;
    let target = steps.last().map_or(collection, |step| step.target);
    let part = column_info(catalogue, target, None, PlanColumn::from(column.part))?;
    let ty = linked_type(&steps, part.ty.clone())?;
    let mut found = LinkedRecords::of(&steps);
    let (sql, compared) = match (are_several(&steps), part.ty.is_list()) {
        (false, _) => (found.value(&part.sql), found.value(&part.compared)),
        (true, is_list) => {
            let value = if is_list { found.unfold(&part.sql) } else { part.sql.clone() };
            let list = found.list(&value);
            (list.clone(), list)
        }
    };
    Ok(ColumnInfo { sql, compared, ty, index: FieldIndexes::default(), tags: None, name: linked_name(&steps, &part.name), ..part })
}

/// The records `r` that the last of several links leads to. Each record is joined with the key that leads to it, which is read in a sub-query of its own:
/// so a collection may occur several times.
struct LinkedRecords {
    joined: String,
    conditions: &'static str,
    /// What they are ordered by.
    places: Vec<String>,
}

impl LinkedRecords {
    fn of(steps: &[LinkedStep<'_>]) -> Self {
        let mut found = Self { joined: String::new(), conditions: "r.tenant = l.t AND r.key = l.k AND r.alive", places: Vec::new() };
        for (position, LinkedStep { child, target, link }) in steps.iter().enumerate() {
            let field = format!("r.{}", quoted_name(&["f", &child.fields[link.field].name]));
            let kept: String = found.places.iter().map(|place| format!(", {place}")).collect();
            let own = if link.many { format!("le.v AS k{kept}, le.p AS p{position}") } else { format!("{field} AS k{kept}") };
            let elements = format!("unnest({field}) WITH ORDINALITY AS le(v, p)");
            let from = match (found.joined.as_str(), link.many) {
                ("", false) => String::new(),
                ("", true) => format!(" FROM {elements}"),
                (joined, false) => format!(" FROM {joined} WHERE {}", found.conditions),
                (joined, true) => format!(" FROM {joined} CROSS JOIN LATERAL {elements} WHERE {}", found.conditions),
            };
            if link.many {
                found.places.push(format!("l.p{position}"));
            }
            found.joined = format!("(SELECT r.tenant AS t, {own}{from}) AS l CROSS JOIN {} r", quoted_name(&["r", &target.name]));
        }
        found
    }

    /// A part of the only record.
    fn value(&self, part: &str) -> String {
        format!("(SELECT {part} FROM {} WHERE {})", self.joined, self.conditions)
    }

    /// Joins each record with the elements of a list, and returns the SQL of an element.
    fn unfold(&mut self, list: &str) -> String {
        self.joined.push_str(&format!(" CROSS JOIN LATERAL unnest({list}) WITH ORDINALITY AS pe(v, p)"));
        self.places.push("pe.p".to_owned());
        "pe.v".to_owned()
    }

    /// The values of all records, in their order.
    fn list(&self, value: &str) -> String {
        let (joined, conditions, places) = (&self.joined, self.conditions, self.places.join(", "));
        format!("(SELECT array_agg({value} ORDER BY {places}) FROM {joined} WHERE {conditions} AND {value} IS NOT NULL)")
    }
}
