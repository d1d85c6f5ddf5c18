//! Coverage by day and group, and the children that a coverage counts.

use crate::api::response::json_answer;
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::FieldId;
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_engine::settle::measured;
use stook_store::access::Operation;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};

const DAY: i64 = 86_400_000_000;
/// Max rows that are read.
const MAX_ROWS: u64 = 500_000;
/// Max children shown for one parent.
const MAX_CHILDREN: usize = 10_000;

/// The percentages of one day and group.
#[derive(Default)]
struct CoverageCell {
    rows: u64,
    sum: f64,
    min: f64,
}

/// The problem that a coverage does not exist.
fn no_coverage(catalogue: &Catalogue, name: &str) -> Problem {
    let known = catalogue.collections.iter().filter(|collection| collection.rows_of.is_some()).map(|collection| collection.name.as_str());
    Problem::not_found(format!("there is no coverage {name:?}; {}", known_instead(name, known)))
}

/// `?collection=PARENT.COVERAGE&from=&until=`: the percentages of a coverage by day and group. The day is that of the rows' first timestamp field,
/// which `with:` gives them.
pub async fn days(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByName);
    let coverage_name = ctx.params.single("collection")?.ok_or_else(|| Problem::bad_request("say ?collection=PARENT.COVERAGE"))?;
    let time = |text: Option<String>| match text {
        None => Ok(None),
        Some(text) => from_text(&text, &FieldType::Timestamp, None).map(Some).map_err(|error| Problem::bad_request(format!("a time: {error}"))),
    };
    let (from, until) = (time(ctx.params.single("from")?)?, time(ctx.params.single("until")?)?);
    ctx.params.end()?;
    let catalogue = ctx.app.catalogue.clone();
    let (index, collection) = catalogue.collection(&coverage_name).ok_or_else(|| no_coverage(&catalogue, &coverage_name))?;
    ctx.require(Operation::Read, index)?;
    let Some([at, group, percentage]) = columns(collection) else {
        let reason = "its rows have no time, group and percentage: `with:` gives them a time of their parent";
        return Err(Problem::not_found(format!("{coverage_name} cannot be shown by day; {reason}")));
    };
    let range = Comparison::Range { low: from.map(|time| (time, true)), high: until.map(|time| (time, false)) };
    let plan = QueryPlan {
        conditions: vec![Condition { column: PlanColumn::Field(at), test: range }],
        columns: [at, group, percentage].map(PlanColumn::Field).into(),
        limit: Some(MAX_ROWS + 1),
        ..QueryPlan::all(ctx.tenant.clone(), index)
    };
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let (whole, cells) = reading(move || {
        let (mut rows, mut cells) = (0, BTreeMap::<(i64, String), CoverageCell>::new());
        app.store.visit(&plan, &mut |row| {
            rows += 1;
            if rows > MAX_ROWS {
                return Ok(());
            }
            if let [Value::Int(at), group, share] = row.as_slice()
                && let Some(share) = share.as_number()
            {
                let cell = cells.entry((at.div_euclid(DAY), group.as_text().unwrap_or_default().to_owned())).or_default();
                cell.min = if cell.rows == 0 { share } else { cell.min.min(share) };
                (cell.rows, cell.sum) = (cell.rows + 1, cell.sum + share);
            }
            Ok(())
        })?;
        Ok::<_, stook_store::StoreError>((rows <= MAX_ROWS, cells))
    })
    .await?;
    let shown = |((day, group), cell): (&(i64, String), &CoverageCell)| {
        let day = Value::Int(day * DAY).show(&FieldType::Timestamp);
        json!({ "day": day[..10], "group": group, "rows": cell.rows, "mean": cell.sum / cell.rows as f64, "least": cell.min })
    };
    let cells: Vec<Json> = cells.iter().map(shown).collect();
    let body = json!({ "time": collection.fields[at].name, "whole": whole, "days": cells });
    Ok(json_answer(StatusCode::OK, body.to_string()))
}

/// `?collection=PARENT.COVERAGE&parent=KEY`: the children of one parent that the coverage counts, by group and start.
pub async fn children(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByName);
    let coverage_name = ctx.params.single("collection")?.ok_or_else(|| Problem::bad_request("say ?collection=PARENT.COVERAGE"))?;
    let parent = ctx.params.single("parent")?.ok_or_else(|| Problem::bad_request("say ?parent=KEY"))?;
    ctx.params.end()?;
    let parent = Key::new(parent).map_err(|error| Problem::bad_request(error.to_string()))?;
    let catalogue = ctx.app.catalogue.clone();
    let missing = || no_coverage(&catalogue, &coverage_name);
    let (index, rows) = catalogue.collection(&coverage_name).ok_or_else(missing)?;
    ctx.require(Operation::Read, index)?;
    let coverage = rows.rows_of.ok_or_else(missing)?;
    ctx.count_store_reached();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let read = move || measured(&app.catalogue, &*app.store, &tenant, &app.catalogue.coverages[coverage], parent.as_str());
    let Some((link, found)) = reading(read).await? else {
        return Err(Problem::not_found(format!("{coverage_name} sums the rows of another coverage and has no children of its own")));
    };
    // what is shown are keys of the children
    ctx.require(Operation::Read, catalogue.links[link].child_collection)?;
    let mut groups: Vec<(&str, Vec<Json>)> = Vec::new();
    for child in found.iter().take(MAX_CHILDREN) {
        let mut shown = json!({ "key": child.key });
        if let Some((start, stop)) = child.span {
            shown["start"] = Value::Int(start).to_json(&FieldType::Timestamp);
            shown["stop"] = Value::Int(stop).to_json(&FieldType::Timestamp);
        }
        match groups.last_mut() {
            Some((group, children)) if *group == child.group => children.push(shown),
            _ => groups.push((&child.group, vec![shown])),
        }
    }
    let groups: Vec<Json> = groups.into_iter().map(|(group, children)| json!({ "group": group, "children": children })).collect();
    let child = &ctx.app.catalogue.collections[ctx.app.catalogue.links[link].child_collection].name;
    let body = json!({ "collection": child, "whole": found.len() <= MAX_CHILDREN, "groups": groups });
    Ok(json_answer(StatusCode::OK, body.to_string()))
}

/// Returns the first timestamp, the group and the percentage of a coverage's rows, if it has all of them.
fn columns(collection: &Collection) -> Option<[FieldId; 3]> {
    collection.rows_of?;
    let time = collection.fields.position(|field| field.ty == FieldType::Timestamp)?;
    Some([time, collection.field("group")?.0, collection.field("percentage")?.0])
}
