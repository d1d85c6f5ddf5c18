//! Tools that read: queries, records, explanations and changes.

use super::Context;
use super::arguments::{ToolArguments, ToolResult};
use super::bounded::{BoundedList, MAX_RESULT, shortened};
use super::describe::collection_named;
use serde_json::{Map, Value as Json, json};
use stook_catalogue::diagnostic::{Diagnostic, known_instead, render};
use stook_catalogue::value::Value;
use stook_engine::change_feed::ChangeFollower;
use stook_engine::fetch::{FetchOptions, FetchPolicy, Fetcher, ServiceStatus};
use stook_engine::record::{self, ExplainedRecord, RecordAddress};
use stook_query::{CompiledQuery, QueryScope, ResultColumn, resolve, resolve_all_collections, tags_of};
use stook_store::StoreError;

/// Rows of a query that does not say how many.
const DEFAULT_ROWS: u64 = 50;
/// Max rows of a query.
pub const MAX_ROWS: u64 = 1_000;
/// Max rows that are skipped.
pub const MAX_OFFSET: u64 = 1_000_000;
/// Changes of a request that does not say how many.
const DEFAULT_CHANGES: u64 = 100;
/// Max changes.
pub const MAX_CHANGES: u64 = 1_000;
/// Max fields that may be named.
pub const MAX_FIELDS: usize = 200;

/// An error of the store, in words that say what can be done.
pub fn failed(error: impl Into<stook_engine::EngineError>) -> String {
    match error.into() {
        stook_engine::EngineError::Store(StoreError::Cancelled) => {
            "this took too long and was stopped; ask for less: more conditions, conditions on indexed fields, or fewer columns".into()
        }
        other => other.to_string(),
    }
}

/// Rows of a query.
pub fn query(context: &Context, mut arguments: ToolArguments) -> ToolResult {
    let text = arguments.required("query")?;
    let offset = arguments.number("offset", 0, MAX_OFFSET)?.unwrap_or(0);
    let limit = arguments.number("limit", 1, MAX_ROWS)?.unwrap_or(DEFAULT_ROWS);
    let explain = arguments.flag("plan")?;
    arguments.end()?;
    let (catalogue, store) = (&context.catalogue, &*context.store);
    let scope = QueryScope::all(catalogue, store, &context.tenant);
    let misread = |problem: Diagnostic| render("query", &text, &[problem], false).trim_end().to_owned();
    if let Some(all) = resolve_all_collections(&text, &scope, store.clock()).map_err(failed)? {
        let all = all.map_err(misread)?;
        if explain {
            return Err("a query of all collections has no plan; query one collection".into());
        }
        let (rows, _) = all.find(store, offset, Some(limit + 1), false).map_err(failed)?;
        let mut found = page(&all.headings(), rows, (offset, limit));
        if let Some(hint) = all.hint().filter(|_| offset == 0 && found["rows"].as_array().is_some_and(Vec::is_empty)) {
            found["hint"] = hint.into();
        }
        return Ok(found);
    }
    let mut compiled = resolve(&text, &scope, store.clock()).map_err(failed)?.map_err(misread)?;
    compiled.set_page(offset, Some(limit + 1));
    if explain {
        return Ok(json!({ "plan": store.explain(&compiled.plan).map_err(failed)? }));
    }
    let statuses = services(context, &compiled)?;
    let rows = match (&compiled.grouping, compiled.aggregates.is_empty()) {
        (Some(grouping), _) => compiled.group(store, grouping).map_err(failed)?.rows,
        (None, false) => vec![compiled.aggregate(store).map_err(failed)?],
        (None, true) => store.find(&compiled.plan).map_err(failed)?.rows,
    };
    let mut found = page(&compiled.columns, rows, (offset, limit));
    if !statuses.is_empty() {
        let is_complete = statuses.iter().all(|status| status.state() == "complete");
        found["services"] = statuses.iter().map(ServiceStatus::to_json).collect();
        if !is_complete {
            found["may_be_incomplete"] = "not all services have been asked for these records; only what is stored was read".into();
        }
    }
    Ok(found)
}

/// How complete the stored answers of services are on which a query depends. Nothing is fetched.
fn services(context: &Context, compiled: &CompiledQuery) -> ToolResult<Vec<ServiceStatus>> {
    let (fetcher, aggregated) = (Fetcher::new(&context.catalogue), compiled.aggregated_columns());
    if !fetcher.has_services_for(&compiled.plan, &aggregated) {
        return Ok(Vec::new());
    }
    let options = FetchOptions { when: FetchPolicy::Never, ..FetchOptions::default() };
    fetcher.fetch(&context.store, &compiled.plan, &aggregated, options).map_err(failed)
}

/// A page of rows. One more than the limit was read, to know whether there are more.
fn page(columns: &[ResultColumn], rows: Vec<Vec<Value>>, (offset, limit): (u64, u64)) -> Json {
    let has_more = rows.len() as u64 > limit;
    let (mut shown, mut is_cut, mut is_shortened) = (BoundedList::new(), false, false);
    for row in rows.into_iter().take(limit as usize) {
        let members = columns.iter().zip(&row).filter(|(_, value)| !value.is_null());
        let mut row: Json = Json::Object(members.map(|(column, value)| (column.name.clone(), value.to_json(&column.ty))).collect::<Map<_, _>>());
        is_shortened |= shortened(&mut row);
        if !shown.add(row) {
            is_cut = true;
            break;
        }
    }
    let next = offset + shown.items.len() as u64;
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let mut found = json!({ "columns": names, "rows": shown.items });
    if has_more || is_cut {
        found["next"] = json!({ "offset": next });
    }
    if is_shortened {
        found["note"] = "long texts are shortened; get_record shows all of them".into();
    }
    found
}

/// One record.
pub fn get_record(context: &Context, arguments: ToolArguments) -> ToolResult {
    of_record(context, arguments, |found, _| Ok(found.to_json()), |shown| shown)
}

/// Where the values of a record come from.
pub fn explain_record(context: &Context, arguments: ToolArguments) -> ToolResult {
    let explained = |found: &ExplainedRecord<'_>, collection: &str| {
        let mut shown = found.explain(&context.catalogue, &*context.store, &context.tenant).map_err(failed)?;
        if found.collection.tags.is_some() {
            let (id, _) = collection_named(&context.catalogue, collection)?;
            let tags = tags_of(&context.catalogue, &*context.store, &context.tenant, id, &found.stored.key).map_err(failed)?;
            shown["tags"] = tags.into();
        }
        Ok(shown)
    };
    of_record(context, arguments, explained, |shown| &mut shown["fields"])
}

/// Shows a record, of which the members that `fields` finds may be limited to named ones.
fn of_record(
    context: &Context,
    mut arguments: ToolArguments,
    show: impl FnOnce(&ExplainedRecord<'_>, &str) -> ToolResult,
    fields: impl FnOnce(&mut Json) -> &mut Json,
) -> ToolResult {
    let (collection, key, named) = (arguments.required("collection")?, arguments.key()?, arguments.texts("fields", MAX_FIELDS)?);
    arguments.end()?;
    let (_, definition) = collection_named(&context.catalogue, &collection)?;
    for name in named.iter().flatten() {
        let known =
            || definition.shown_fields().map(|(_, field)| field.name.as_str()).chain(definition.states.iter().map(|state| state.name.as_str()));
        if !known().any(|known| known == name) {
            return Err(format!("fields: `{collection}` has no field {name:?}; {}", known_instead(name, known())));
        }
    }
    let address = RecordAddress { tenant: &context.tenant, collection: &collection, key: key.as_str() };
    let found = record::get(&context.catalogue, &*context.store, &address, false).map_err(failed)?;
    let found = found.ok_or_else(|| format!("there is no {collection} {:?}; keys are compared exactly, including spaces", key.as_str()))?;
    let mut shown = show(&found, &collection)?;
    if let (Some(named), Json::Object(members)) = (&named, fields(&mut shown)) {
        members.retain(|name, _| name == "key" || named.contains(name));
    }
    let bytes = shown.to_string().len();
    if bytes > MAX_RESULT {
        return Err(format!("this would be {bytes} bytes, more than {MAX_RESULT}; ask for single `fields`, or for fewer of them"));
    }
    Ok(shown)
}

/// What has changed after a cursor.
pub fn changes_since(context: &Context, mut arguments: ToolArguments) -> ToolResult {
    let (collection, since) = (arguments.text("collection")?, arguments.text("cursor")?);
    let limit = arguments.number("limit", 1, MAX_CHANGES)?.unwrap_or(DEFAULT_CHANGES) as usize;
    arguments.end()?;
    let follower = ChangeFollower::new(&context.catalogue, &*context.store, &context.tenant, collection.as_deref()).map_err(failed)?;
    let mut cursor = follower.begin(since.as_deref()).map_err(failed)?;
    let (mut changes, mut has_more) = (BoundedList::new(), true);
    'pages: while changes.items.len() < limit {
        let page = follower.read(&cursor, limit - changes.items.len()).map_err(failed)?;
        if page.changes.is_empty() {
            (cursor, has_more) = (page.next, false);
            break;
        }
        for change in &page.changes {
            let mut shown = change.to_json();
            shortened(&mut shown);
            if !changes.add(shown) {
                break 'pages;
            }
            cursor = change.cursor.clone();
        }
    }
    let settled = follower.is_settled().map_err(failed)?;
    let mut found = json!({ "changes": changes.items, "cursor": cursor.to_string(), "settled": settled });
    if has_more {
        found["next"] = json!({ "cursor": cursor.to_string() });
    }
    Ok(found)
}
