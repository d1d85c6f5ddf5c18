//! `query` and `suggest`.

use super::status::{shown_state, shown_status};
use crate::arguments::records::{QueryArgs, QueryFormat};
use crate::open::{self, CatalogueLocation};
use crate::output::{clean, colours, count, number, seconds, stream, table_of_clean};
use crate::{CommandError, CommandResult};
use console::style;
use serde_json::{Map, Value as Json, json};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::render;
use stook_catalogue::value::{FieldType, Value};
use stook_engine::aggregate::{by_source, over};
use stook_engine::fetch::{FetchOptions, FetchPolicy, Fetcher, ServiceStatus};
use stook_formats::TableColumn;
use stook_formats::spreadsheet::MAX_CELL_TEXT;
use stook_formats::typed::{TypedFormat, TypedWriter};
use stook_query::csv::{BYTE_ORDER_MARK, LineEnd};
use stook_query::{
    AllCollectionsQuery, CompiledQuery, Highlights, QueryScope, ResultColumn, Suggestion, Vocabulary, resolve, resolve_all_collections, words_alone,
};
use stook_store::plan::QueryPlan;
use stook_store::{Store, StoreError, Tenant};

pub fn suggest(location: &CatalogueLocation, text: &str, tenant: &str, as_json: bool) -> CommandResult {
    let (catalogue, store) = location.read()?;
    let tenant = open::tenant(tenant)?;
    let vocabulary = Vocabulary::learn(&catalogue, &*store, &tenant, None)?;
    let found = stook_query::suggest(&vocabulary, &QueryScope::all(&catalogue, &*store, &tenant), text)?;
    if as_json {
        let shown: Vec<Json> = found.iter().map(Suggestion::to_json).collect();
        say!("{}", Json::Array(shown));
        return Ok(0);
    }
    for suggestion in &found {
        say!("{}", suggestion.query);
        say!("    {:.2}: {}", suggestion.score, suggestion.reasons.join("; "));
    }
    if found.is_empty() {
        return Err(CommandError::new("no suggestion for these words"));
    }
    Ok(0)
}

/// Fetches what a query needs, and prints the state of services on standard error. Returns none if the query concerns no service.
fn fetch_from_services(
    catalogue: &Arc<Catalogue>,
    store: &Arc<dyn Store>,
    query: &CompiledQuery,
    arguments: &QueryArgs,
) -> Result<Vec<ServiceStatus>, CommandError> {
    let fetcher = Fetcher::new(catalogue);
    if !fetcher.has_services_for(&query.plan, &query.aggregated_columns()) {
        return Ok(Vec::new());
    }
    let statuses = fetcher.fetch(
        store,
        &query.plan,
        &query.aggregated_columns(),
        FetchOptions { when: arguments.ask, time: arguments.wait.map(Duration::from_secs) },
    )?;
    fetcher.stop();
    for status in &statuses {
        if arguments.format == QueryFormat::Table {
            eprintln!("{}", shown_status(status));
        } else {
            eprintln!("{}", status.to_json());
        }
    }
    Ok(statuses)
}

/// Reports that no service has answered, which is different from a result without rows.
fn no_answer(statuses: &[ServiceStatus], format: QueryFormat) -> CommandResult {
    let reasons: Vec<String> = statuses.iter().map(shown_state).collect();
    let error = format!("no result: no service has answered; {}", reasons.join("; "));
    if matches!(format, QueryFormat::Json | QueryFormat::Ndjson) {
        say!("{}", json!({ "error": error, "services": statuses.iter().map(ServiceStatus::to_json).collect::<Vec<_>>() }));
    }
    Err(CommandError::new(error))
}

pub fn query(location: &CatalogueLocation, arguments: &QueryArgs) -> CommandResult {
    // fetched documents are written, which creates a store
    let fetches = arguments.ask != FetchPolicy::Never && !arguments.explain && !location.catalogue()?.services.is_empty();
    let (catalogue, store) = if fetches { location.written().map_err(add_read_only_hint)? } else { location.read()? };
    let tenant = open::tenant(&arguments.tenant)?;
    let query_error = |problem| CommandError::new(render("query", &arguments.query, &[problem], colours()).trim_end().to_owned());
    let scope = QueryScope::all(&catalogue, &*store, &tenant);
    if let Some(all) = resolve_all_collections(&arguments.query, &scope, store.clock())? {
        return show_all(&*store, &all.map_err(query_error)?, arguments);
    }
    let mut compiled = match resolve(&arguments.query, &scope, store.clock())? {
        Ok(compiled) => compiled,
        Err(problem) => {
            let problem = query_error(problem);
            let meant = meant_queries(&catalogue, &*store, &tenant, &arguments.query)?;
            return Err(CommandError { message: problem.message + &meant, ..problem });
        }
    };
    compiled.set_page(arguments.idx, (arguments.limit > 0).then_some(arguments.limit));
    if arguments.explain {
        for line in store.explain(&compiled.plan)? {
            say!("{line}");
        }
        return Ok(0);
    }
    let statuses = fetch_from_services(&catalogue, &store, &compiled, arguments)?;
    let has_answered = statuses.is_empty() || statuses.iter().any(|status| matches!(status.state(), "complete" | "partial"));
    if !has_answered && store.count(&QueryPlan { limit: None, offset: 0, ..compiled.plan.clone() })? == 0 {
        return no_answer(&statuses, arguments.format);
    }
    let is_complete = statuses.iter().all(|status| status.state() == "complete");
    let code = show_answer(&catalogue, &*store, compiled, arguments)?;
    Ok(if is_complete { code } else { 2 })
}

/// The queries that may be meant by a text that is nothing but words, where no collection has an index of words.
fn meant_queries(catalogue: &Arc<Catalogue>, store: &dyn Store, tenant: &Tenant, text: &str) -> Result<String, CommandError> {
    if words_alone(text, catalogue).is_none() {
        return Ok(String::new());
    }
    let vocabulary = Vocabulary::learn(catalogue, store, tenant, None)?;
    let found = stook_query::suggest(&vocabulary, &QueryScope::all(catalogue, store, tenant), text)?;
    let queries: String = found.iter().map(|suggestion| format!("\n    {}", suggestion.query)).collect();
    Ok(if queries.is_empty() { queries } else { format!("\nqueries that these words may mean:{queries}") })
}

/// Prints on standard error which aggregates do not cover all rows, if services are involved.
fn show_coverage(catalogue: &Arc<Catalogue>, store: &dyn Store, compiled: &CompiledQuery, format: QueryFormat) -> Result<(), CommandError> {
    if !Fetcher::new(catalogue).has_services_for(&compiled.plan, &compiled.aggregated_columns()) {
        return Ok(());
    }
    let found = over(catalogue, store, &compiled.plan, &compiled.aggregates)?;
    let named = found.iter().map(|coverage| (&compiled.columns[coverage.aggregate].name, coverage));
    if format == QueryFormat::Table {
        named.for_each(|(name, coverage)| {
            eprintln!("{name} covers {} of {}; the others have no readable value", number(coverage.values), count(coverage.rows, "row"))
        });
    } else if !found.is_empty() {
        let shown: Map<String, Json> =
            named.map(|(name, coverage)| (name.clone(), json!({ "values": coverage.values, "rows": coverage.rows }))).collect();
        eprintln!("{}", json!({ "over": shown }));
    }
    Ok(())
}

/// Adds a hint for users who only want to read.
fn add_read_only_hint(failure: CommandError) -> CommandError {
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
    if let Some(hint) = all.hint().filter(|_| rows.is_empty() && arguments.idx == 0) {
        eprintln!("{hint}");
    }
    show_rows(Shown { headings: &all.headings(), highlights: &all.highlights() }, rows, arguments.format, total, began)
}

fn show_answer(catalogue: &Arc<Catalogue>, store: &dyn Store, mut compiled: CompiledQuery, arguments: &QueryArgs) -> CommandResult {
    let began = Instant::now();
    if let Some(grouping) = compiled.grouping.as_ref().filter(|_| !arguments.by_source) {
        let groups = compiled.group(store, grouping)?;
        let total = compiled.total(groups.total);
        return show_rows(Shown::plain(&compiled.columns), groups.rows, arguments.format, Some(total), began);
    }
    if !compiled.aggregates.is_empty() {
        show_coverage(catalogue, store, &compiled, arguments.format)?;
        let mut rows = vec![compiled.aggregate(store)?];
        if arguments.by_source {
            rows[0].insert(0, Value::text("merged"));
            let found = by_source(catalogue, store, &compiled.plan, &compiled.aggregates, compiled.grouping.as_ref())?;
            rows.extend(found.into_iter().map(|(source, row)| std::iter::once(Value::text(source)).chain(row).collect()));
            compiled.columns.insert(0, ResultColumn { name: "source".into(), ty: FieldType::Text });
        }
        compiled.plan.limit = None;
        return show_rows(Shown::plain(&compiled.columns), rows, arguments.format, None, began);
    }
    match arguments.format {
        QueryFormat::Table => {
            let rows = store.find(&compiled.plan)?.rows;
            let short = compiled.plan.limit.is_none() || compiled.plan.limit.is_some_and(|limit| (rows.len() as u64) < limit);
            let total = if short && (!rows.is_empty() || arguments.idx == 0) {
                arguments.idx + rows.len() as u64
            } else {
                compiled.total(store.count(&compiled.plan)?)
            };
            let highlights = Highlights::of(&compiled);
            show_rows(Shown { headings: &compiled.columns, highlights: &highlights }, rows, arguments.format, Some(total), began)
        }
        _ => stream_rows(store, &compiled, arguments.format),
    }
}

/// Prints rows as they are read.
fn stream_rows(store: &dyn Store, compiled: &CompiledQuery, format: QueryFormat) -> CommandResult {
    if let Some(format) = typed(format) {
        return write_typed(format, &compiled.columns, |row| {
            store.visit(&compiled.plan, row)?;
            Ok(())
        });
    }
    let mut out = stream();
    let mut is_first = true;
    let mut write_result = Ok(());
    if matches!(format, QueryFormat::Csv | QueryFormat::CsvBom) {
        csv_head(&mut out, format == QueryFormat::CsvBom, compiled.columns.iter().map(|heading| heading.name.clone()))?;
    }
    let visited = store.visit(&compiled.plan, &mut |row| {
        write_result = match format {
            QueryFormat::Csv | QueryFormat::CsvBom => {
                csv_line(&mut out, row.iter().zip(&compiled.columns).map(|(value, heading)| value.show(&heading.ty)))
            }
            QueryFormat::Ndjson => writeln!(out, "{}", row_json(&compiled.columns, &row)),
            _ => write!(out, "{}{}", if is_first { "[\n" } else { ",\n" }, row_json(&compiled.columns, &row)),
        };
        is_first = false;
        // if writing fails, stop reading
        write_result.as_ref().map_err(|error| StoreError::Wrong(error.to_string())).copied()
    });
    write_result?;
    visited?;
    if format == QueryFormat::Json {
        writeln!(out, "{}", if is_first { "[]" } else { "\n]" })?;
    }
    out.flush()?;
    Ok(0)
}

/// The format, if its values have types.
fn typed(format: QueryFormat) -> Option<TypedFormat> {
    match format {
        QueryFormat::Xlsx => Some(TypedFormat::Xlsx),
        QueryFormat::Parquet => Some(TypedFormat::Parquet),
        QueryFormat::Arrow => Some(TypedFormat::Arrow),
        QueryFormat::Table | QueryFormat::Json | QueryFormat::Ndjson | QueryFormat::Csv | QueryFormat::CsvBom => None,
    }
}

/// Writes the rows that `visit` passes on with their types, and says what was cut.
fn write_typed(
    format: TypedFormat,
    headings: &[ResultColumn],
    visit: impl FnOnce(&mut dyn FnMut(Vec<Value>) -> Result<(), StoreError>) -> Result<(), CommandError>,
) -> CommandResult {
    let columns = headings.iter().map(|heading| TableColumn { name: heading.name.clone(), ty: heading.ty.clone() });
    let mut out = stream();
    let mut rows = TypedWriter::new(format, "rows", columns.collect())?;
    let (mut row_number, mut cut_rows) = (0, 0);
    let mut write_result = Ok(());
    let visited = visit(&mut |row| {
        row_number += 1;
        let mut is_cut = false;
        write_result = rows.row(row, &mut out, &mut |column| {
            is_cut = true;
            eprintln!("row {row_number}: `{column}` is cut after {MAX_CELL_TEXT} characters, which is what a cell can hold");
        });
        cut_rows += u64::from(is_cut);
        write_result.as_ref().map_err(|error| StoreError::Wrong(error.to_string())).copied()
    });
    write_result?;
    visited?;
    rows.finish(&mut out)?;
    Ok(if cut_rows > 0 { 2 } else { 0 })
}

pub fn csv_line(out: &mut dyn Write, values: impl Iterator<Item = String>) -> std::io::Result<()> {
    out.write_all(stook_query::csv::csv_line(values, LineEnd::LineFeed).as_bytes())
}

/// Writes the names of columns, after a byte order mark if there is to be one.
pub fn csv_head(out: &mut dyn Write, marked: bool, names: impl Iterator<Item = String>) -> std::io::Result<()> {
    if marked {
        out.write_all(BYTE_ORDER_MARK.as_bytes())?;
    }
    csv_line(out, names)
}

fn row_json(headings: &[ResultColumn], row: &[Value]) -> Json {
    let entries = headings.iter().zip(row).map(|(heading, value)| (heading.name.clone(), value.to_json(&heading.ty)));
    Json::Object(entries.collect::<Map<String, Json>>())
}

/// The columns of a result, and what is marked in them.
struct Shown<'r> {
    headings: &'r [ResultColumn],
    highlights: &'r Highlights,
}

impl<'r> Shown<'r> {
    fn plain(headings: &'r [ResultColumn]) -> Self {
        const NOTHING: &Highlights = &Highlights::none();
        Self { headings, highlights: NOTHING }
    }

    /// A value as text, with what was found in bold.
    fn cell(&self, position: usize, value: &Value) -> String {
        let text = clean(&value.show(&self.headings[position].ty));
        let pieces = self.highlights.of_position(position).and_then(|search| search.pieces(&text));
        let bold = |(number, piece): (usize, &str)| if number % 2 == 1 { style(piece).bold().to_string() } else { piece.to_owned() };
        pieces.map(|pieces| pieces.into_iter().enumerate().map(bold).collect()).unwrap_or(text)
    }
}

fn show_rows(shown: Shown<'_>, rows: Vec<Vec<Value>>, format: QueryFormat, total: Option<u64>, began: Instant) -> CommandResult {
    let elapsed = began.elapsed();
    let headings = shown.headings;
    match format {
        QueryFormat::Table => {
            // columns without values on this page are left out
            let columns: Vec<usize> = (0..headings.len()).filter(|index| rows.len() == 1 || rows.iter().any(|row| !row[*index].is_null())).collect();
            let names: Vec<&str> = columns.iter().map(|index| headings[*index].name.as_str()).collect();
            let right: Vec<bool> =
                columns.iter().map(|index| matches!(headings[*index].ty, FieldType::Integer | FieldType::Float | FieldType::Size)).collect();
            let cells: Vec<Vec<String>> = rows.iter().map(|row| columns.iter().map(|index| shown.cell(*index, &row[*index])).collect()).collect();
            if !rows.is_empty() {
                say!("{}", table_of_clean(&names, &cells, &right));
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
        QueryFormat::Csv | QueryFormat::CsvBom => {
            let mut out = stream();
            csv_head(&mut out, format == QueryFormat::CsvBom, headings.iter().map(|heading| heading.name.clone()))?;
            for row in &rows {
                csv_line(&mut out, row.iter().zip(headings).map(|(value, heading)| value.show(&heading.ty)))?;
            }
        }
        QueryFormat::Json => say!("{}", Json::Array(rows.iter().map(|row| row_json(headings, row)).collect())),
        QueryFormat::Xlsx | QueryFormat::Parquet | QueryFormat::Arrow => {
            let Some(format) = typed(format) else { return Ok(0) };
            return write_typed(format, headings, |row| Ok(rows.into_iter().try_for_each(row)?));
        }
        QueryFormat::Ndjson => rows.iter().for_each(|row| say!("{}", row_json(headings, row))),
    }
    Ok(0)
}
