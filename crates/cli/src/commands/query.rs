//! `query` and `suggest`.

use super::status::{shown_state, shown_status};
use crate::arguments::records::{QueryArgs, QueryFormat};
use crate::open::{self, CatalogueLocation};
use crate::output::{colours, count, number, seconds, stream, table};
use crate::{CommandError, CommandResult};
use serde_json::{Map, Value as Json, json};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::render;
use stook_catalogue::value::{FieldType, Value};
use stook_engine::aggregate::{by_source, over};
use stook_engine::fetch::{FetchOptions, FetchPolicy, Fetcher, ServiceStatus};
use stook_query::{AllCollectionsQuery, CompiledQuery, ResultColumn, Suggestion, Vocabulary, resolve, resolve_all_collections};
use stook_store::plan::QueryPlan;
use stook_store::{Store, StoreError};

pub fn suggest(place: &CatalogueLocation, text: &str, tenant: &str, as_json: bool) -> CommandResult {
    let (catalogue, store) = place.read()?;
    let tenant = open::tenant(tenant)?;
    let vocabulary = Vocabulary::learn(&catalogue, &*store, &tenant, None)?;
    let found = stook_query::suggest(&vocabulary, &catalogue, &*store, &tenant, text)?;
    if as_json {
        let shown: Vec<Json> = found.iter().map(Suggestion::to_json).collect();
        say!("{}", Json::Array(shown));
        return Ok(0);
    }
    for own in &found {
        say!("{}", own.query);
        say!("    {:.2}: {}", own.score, own.reasons.join("; "));
    }
    if found.is_empty() {
        return Err(CommandError::new("no suggestion for these words"));
    }
    Ok(0)
}

/// Fetches what a query needs, and prints the state of services on standard error. Returns none if the query concerns no service.
fn ask_services(
    catalogue: &Arc<Catalogue>,
    store: &Arc<dyn Store>,
    query: &CompiledQuery,
    arguments: &QueryArgs,
) -> Result<Vec<ServiceStatus>, CommandError> {
    let asker = Fetcher::new(catalogue);
    if !asker.concerns(&query.plan, &query.aggregates) {
        return Ok(Vec::new());
    }
    let said =
        asker.fetch(store, &query.plan, &query.aggregates, FetchOptions { when: arguments.ask, time: arguments.wait.map(Duration::from_secs) })?;
    asker.stop();
    for status in &said {
        if arguments.format == QueryFormat::Table {
            eprintln!("{}", shown_status(status));
        } else {
            eprintln!("{}", status.to_json());
        }
    }
    Ok(said)
}

/// Reports that no service has answered, which is different from a result without rows.
fn no_answer(said: &[ServiceStatus], format: QueryFormat) -> CommandResult {
    let reasons: Vec<String> = said.iter().map(shown_state).collect();
    let error = format!("no result: no service has answered; {}", reasons.join("; "));
    if matches!(format, QueryFormat::Json | QueryFormat::Ndjson) {
        say!("{}", json!({ "error": error, "services": said.iter().map(ServiceStatus::to_json).collect::<Vec<_>>() }));
    }
    Err(CommandError::new(error))
}

pub fn query(place: &CatalogueLocation, arguments: &QueryArgs) -> CommandResult {
    // fetched documents are written, which creates a store
    let asks = arguments.ask != FetchPolicy::Never && !arguments.explain && !place.catalogue()?.services.is_empty();
    let (catalogue, store) = if asks { place.written().map_err(unwritten)? } else { place.read()? };
    let tenant = open::tenant(&arguments.tenant)?;
    let misread = |problem| CommandError::new(render("query", &arguments.query, &[problem], colours()).trim_end().to_owned());
    if let Some(all) = resolve_all_collections(&arguments.query, &catalogue, &*store, &tenant, store.clock())? {
        return show_all(&*store, &all.map_err(misread)?, arguments);
    }
    let compiled = resolve(&arguments.query, &catalogue, &*store, &tenant, store.clock())?;
    let mut compiled = compiled.map_err(misread)?;
    compiled.plan.offset = arguments.idx;
    compiled.plan.limit = (arguments.limit > 0).then_some(arguments.limit);
    if arguments.explain {
        for line in store.explain(&compiled.plan)? {
            say!("{line}");
        }
        return Ok(0);
    }
    let said = ask_services(&catalogue, &store, &compiled, arguments)?;
    let has_answered = said.is_empty() || said.iter().any(|status| matches!(status.state(), "complete" | "partial"));
    if !has_answered && store.count(&QueryPlan { limit: None, offset: 0, ..compiled.plan.clone() })? == 0 {
        return no_answer(&said, arguments.format);
    }
    let is_whole = said.iter().all(|status| status.state() == "complete");
    let code = show_answer(&catalogue, &*store, compiled, arguments)?;
    Ok(if is_whole { code } else { 2 })
}

/// Prints on standard error which aggregates do not cover all rows, if services are involved.
fn show_over(catalogue: &Arc<Catalogue>, store: &dyn Store, compiled: &CompiledQuery, format: QueryFormat) -> Result<(), CommandError> {
    if !Fetcher::new(catalogue).concerns(&compiled.plan, &compiled.aggregates) {
        return Ok(());
    }
    let found = over(catalogue, store, &compiled.plan, &compiled.aggregates)?;
    let named = found.iter().map(|own| (&compiled.columns[own.aggregate].name, own));
    if format == QueryFormat::Table {
        named.for_each(|(name, own)| {
            eprintln!("{name} covers {} of {}; the others have no readable value", number(own.values), count(own.rows, "row"))
        });
    } else if !found.is_empty() {
        let shown: Map<String, Json> = named.map(|(name, own)| (name.clone(), json!({ "values": own.values, "rows": own.rows }))).collect();
        eprintln!("{}", json!({ "over": shown }));
    }
    Ok(())
}

/// Adds a hint for users who only want to read.
fn unwritten(failure: CommandError) -> CommandError {
    let is_of_writing = failure.message.contains("cannot be written");
    CommandError {
        message: if is_of_writing { format!("{}; use `--ask never` to read only what is stored", failure.message) } else { failure.message },
        ..failure
    }
}

/// Shows records of several collections.
fn show_all(store: &dyn Store, all: &AllCollectionsQuery, arguments: &QueryArgs) -> CommandResult {
    let began = Instant::now();
    if arguments.explain || arguments.by_source {
        return Err(CommandError::new("--explain and --by-source do not work across collections"));
    }
    let counts = arguments.format == QueryFormat::Table;
    let (rows, total) = all.find(store, arguments.idx, (arguments.limit > 0).then_some(arguments.limit), counts)?;
    show_rows(&AllCollectionsQuery::headings(), rows, arguments.format, total, began)
}

fn show_answer(catalogue: &Arc<Catalogue>, store: &dyn Store, mut compiled: CompiledQuery, arguments: &QueryArgs) -> CommandResult {
    let began = Instant::now();
    if !compiled.aggregates.is_empty() {
        show_over(catalogue, store, &compiled, arguments.format)?;
        let mut rows = vec![store.aggregate(&compiled.plan, &compiled.aggregates)?];
        if arguments.by_source {
            rows[0].insert(0, Value::text("merged"));
            let found = by_source(catalogue, store, &compiled.plan, &compiled.aggregates)?;
            rows.extend(found.into_iter().map(|(source, row)| std::iter::once(Value::text(source)).chain(row).collect()));
            compiled.columns.insert(0, ResultColumn { name: "source".into(), ty: FieldType::Text });
        }
        compiled.plan.limit = None;
        return show_rows(&compiled.columns, rows, arguments.format, None, began);
    }
    match arguments.format {
        QueryFormat::Table => {
            let rows = store.find(&compiled.plan)?.rows;
            let short = arguments.limit == 0 || (rows.len() as u64) < arguments.limit;
            let total =
                if short && (!rows.is_empty() || arguments.idx == 0) { arguments.idx + rows.len() as u64 } else { store.count(&compiled.plan)? };
            show_rows(&compiled.columns, rows, arguments.format, Some(total), began)
        }
        _ => stream_rows(store, &compiled, arguments.format),
    }
}

/// Prints rows as they are read.
fn stream_rows(store: &dyn Store, compiled: &CompiledQuery, format: QueryFormat) -> CommandResult {
    let mut out = stream();
    let mut first = true;
    let mut written = Ok(());
    if format == QueryFormat::Csv {
        csv_line(&mut out, compiled.columns.iter().map(|heading| heading.name.clone()))?;
    }
    let visited = store.visit(&compiled.plan, &mut |row| {
        written = match format {
            QueryFormat::Csv => csv_line(&mut out, row.iter().zip(&compiled.columns).map(|(value, heading)| value.show(&heading.ty))),
            QueryFormat::Ndjson => writeln!(out, "{}", row_json(&compiled.columns, &row)),
            _ => write!(out, "{}{}", if first { "[\n" } else { ",\n" }, row_json(&compiled.columns, &row)),
        };
        first = false;
        // if writing fails, stop reading
        written.as_ref().map_err(|error| StoreError::Wrong(error.to_string())).copied()
    });
    written?;
    visited?;
    if format == QueryFormat::Json {
        writeln!(out, "{}", if first { "[]" } else { "\n]" })?;
    }
    out.flush()?;
    Ok(0)
}

fn csv_line(out: &mut dyn Write, values: impl Iterator<Item = String>) -> std::io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(values)?;
    writer.flush()
}

fn row_json(headings: &[ResultColumn], row: &[Value]) -> Json {
    let entries = headings.iter().zip(row).map(|(heading, value)| (heading.name.clone(), value.to_json(&heading.ty)));
    Json::Object(entries.collect::<Map<String, Json>>())
}

fn show_rows(headings: &[ResultColumn], rows: Vec<Vec<Value>>, format: QueryFormat, total: Option<u64>, began: Instant) -> CommandResult {
    let elapsed = began.elapsed();
    match format {
        QueryFormat::Table => {
            // columns without values on this page are left out
            let shown: Vec<usize> = (0..headings.len()).filter(|index| rows.len() == 1 || rows.iter().any(|row| !row[*index].is_null())).collect();
            let names: Vec<&str> = shown.iter().map(|index| headings[*index].name.as_str()).collect();
            let right: Vec<bool> =
                shown.iter().map(|index| matches!(headings[*index].ty, FieldType::Integer | FieldType::Float | FieldType::Size)).collect();
            let cells: Vec<Vec<String>> = rows.iter().map(|row| shown.iter().map(|index| row[*index].show(&headings[*index].ty)).collect()).collect();
            if !rows.is_empty() {
                say!("{}", table(&names, &cells, &right));
            }
            if let Some(total) = total {
                let of = if total == rows.len() as u64 {
                    count(total, "row")
                } else {
                    format!("{} of {}", number(rows.len() as u64), count(total, "row"))
                };
                eprintln!("{of} in {}", seconds(elapsed));
            }
        }
        QueryFormat::Csv => {
            let mut out = stream();
            csv_line(&mut out, headings.iter().map(|heading| heading.name.clone()))?;
            for row in &rows {
                csv_line(&mut out, row.iter().zip(headings).map(|(value, heading)| value.show(&heading.ty)))?;
            }
        }
        QueryFormat::Json => say!("{}", Json::Array(rows.iter().map(|row| row_json(headings, row)).collect())),
        QueryFormat::Ndjson => rows.iter().for_each(|row| say!("{}", row_json(headings, row))),
    }
    Ok(0)
}
