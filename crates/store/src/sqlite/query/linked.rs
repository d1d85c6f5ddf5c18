//! Linked records: their parts as columns, and their keys and links as values that conditions compare with.

use super::access::SqlStatement;
use super::columns::{ColumnInfo, column_info};
use super::select::{ALIVE, SqlBuilder};
use crate::Result;
use crate::plan::{Comparison, Condition, LinkedColumn, PlanColumn, QueryPlan};
use crate::sql::linked::{LinkedStep, are_several, compared_column, linked_name, linked_steps, linked_type};
use rusqlite::Connection;
use stook_catalogue::definition::{Catalogue, Collection, FieldIndexes};
use stook_catalogue::value::FieldType;

/// The column of a condition, with the values of linked records that it is compared with.
pub fn condition_column(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan, condition: &Condition) -> Result<ColumnInfo> {
    let mut column = column_info(catalogue, &catalogue.collections[plan.collection], plan.each, condition.column)?;
    if let Comparison::Among(rows) | Comparison::NotAmong(rows) = &condition.test {
        column.among = Some(values_statement(connection, catalogue, tenant, rows)?);
    }
    Ok(column)
}

/// The statement whose column `v` has the values of a plan's first column, one by one.
fn values_statement(connection: &Connection, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> Result<SqlStatement> {
    let builder = SqlBuilder::new(connection, catalogue, tenant, plan)?;
    let column = column_info(catalogue, builder.collection, None, compared_column(plan)?)?;
    let rows = format!("SELECT {} AS f FROM {}", column.sql, builder.from());
    let sql = match column.ty.is_list() {
        true => format!("SELECT fe.value AS v FROM ({rows}), json_each(f) AS fe WHERE fe.value IS NOT NULL"),
        false => format!("SELECT f AS v FROM ({rows}) WHERE f IS NOT NULL"),
    };
    Ok(SqlStatement { sql, parameters: builder.parameters })
}

/// The SQL of a part of the records that links lead to.
pub fn linked_column(catalogue: &Catalogue, collection: &Collection, column: &LinkedColumn) -> Result<ColumnInfo> {
    let steps = linked_steps(catalogue, collection, column)?;
    let target = steps.last().map_or(collection, |step| step.target);
    let part = column_info(catalogue, target, None, PlanColumn::from(column.part))?;
    let ty = linked_type(&steps, part.ty.clone())?;
    let mut found = LinkedRecords::of(&steps);
    let (sql, compared) = match (are_several(&steps), part.ty.is_list()) {
        (false, _) => (found.value(&part.sql), found.value(&part.compared)),
        (true, is_list) => {
            let value = if is_list { found.unfold(&part.sql) } else { part.sql.clone() };
            let list = found.list(&value, ty.element(), is_list);
            (list.clone(), list)
        }
    };
    let name = linked_name(&steps, &part.name);
    Ok(ColumnInfo { sql, compared, ty, index: FieldIndexes::default(), unique: false, is_key: false, tags: None, conflicts: false, name, ..part })
}

/// The records that the last of several links leads to. Each record is joined with the key that leads to it, which is read in a sub-query of its own: so a
/// collection may occur several times.
struct LinkedRecords {
    joined: String,
    conditions: String,
    /// What they are ordered by.
    places: Vec<String>,
}

impl LinkedRecords {
    fn of(steps: &[LinkedStep<'_>]) -> Self {
        let mut found = Self { joined: String::new(), conditions: String::new(), places: Vec::new() };
        for (position, LinkedStep { child, target, link }) in steps.iter().enumerate() {
            let (record, target) = (format!("\"r_{}\"", child.name), format!("\"r_{}\"", target.name));
            let field = format!("{record}.\"f_{}\"", child.fields[link.field].name);
            let kept: String = found.places.iter().map(|place| format!(", {place}")).collect();
            let own = if link.many { format!("le.value AS k{kept}, le.key AS p{position}") } else { format!("{field} AS k{kept}") };
            let elements = format!("json_each({field}) AS le");
            let from = match (found.joined.as_str(), link.many) {
                ("", false) => String::new(),
                ("", true) => format!(" FROM {elements}"),
                (joined, false) => format!(" FROM {joined} WHERE {}", found.conditions),
                (joined, true) => format!(" FROM {joined} CROSS JOIN {elements} WHERE {}", found.conditions),
            };
            if link.many {
                found.places.push(format!("p{position}"));
            }
            found.joined = format!("(SELECT {record}.tenant AS t, {own}{from}) AS l CROSS JOIN {target}");
            found.conditions = format!("{target}.tenant = l.t AND {target}.packed = packed(l.k) AND {target}.{ALIVE}");
        }
        found
    }

    /// A part of the only record.
    fn value(&self, part: &str) -> String {
        format!("(SELECT {part} FROM {} WHERE {})", self.joined, self.conditions)
    }

    /// Joins each record with the elements of a list, and returns the SQL of an element.
    fn unfold(&mut self, list: &str) -> String {
        self.joined.push_str(&format!(" CROSS JOIN json_each({list}) AS pe"));
        self.places.push("pe.key".to_owned());
        "pe.value".to_owned()
    }

    /// The values of all records, in their order, as a list is stored.
    fn list(&self, value: &str, ty: &FieldType, is_element: bool) -> String {
        let element = match ty {
            // elements of lists are its digits already
            FieldType::Uuid if !is_element => "lower(hex(v))",
            // all of its digits
            FieldType::Float => "json(printf('%!.17g', v))",
            _ => "v",
        };
        let (joined, conditions, places) = (&self.joined, &self.conditions, self.places.join(", "));
        let values = format!("SELECT {value} AS v FROM {joined} WHERE {conditions} AND {value} IS NOT NULL ORDER BY {places}");
        format!("(SELECT nullif(json_group_array({element}), '[]') FROM ({values}))")
    }
}
