//! Exports: all rows of a query, or all records of a collection, sent while they are read.

use super::queries::{compile_for_all_collections, compiled};
use super::rows::{CSV, NDJSON, csv, csv_row, shown};
use crate::App;
use crate::guard::admission::BlockingWork;
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::{Seek, Write};
use std::sync::Arc;
use stook_catalogue::value::Value;
use stook_engine::EngineError;
use stook_engine::change_feed::{self, ChangeCursor};
use stook_engine::export::{self, ExportContents, ExportFormat, ExportRemark, ExportReport, ExportRequest};
use stook_formats::TableColumn;
use stook_formats::spreadsheet::MAX_CELL_TEXT;
use stook_formats::typed::{TypedFormat, TypedWriter};
use stook_query::csv::BYTE_ORDER_MARK;
use stook_query::{AllCollectionsQuery, CompiledQuery, ResultColumn};
use stook_store::StoreError;

/// All rows of a query as they are read, `?q=QUERY&format=ndjson|csv|csv-bom|xlsx|parquet|arrow`. Services are not asked.
pub async fn rows(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByQuery);
    let Some(query) = ctx.params.single("q")? else { return Err(Problem::bad_request("give ?q=QUERY, for example ?q=authority%20heading=Smith*")) };
    let (format, mark) = match ctx.params.single("format")?.as_deref() {
        None | Some("ndjson") => (ExportFormat::Ndjson, ""),
        Some("csv") => (ExportFormat::Csv, ""),
        Some("csv-bom") => (ExportFormat::Csv, BYTE_ORDER_MARK),
        Some(name) => match TypedFormat::named(name) {
            Some(format) => (ExportFormat::Typed(format), ""),
            None => return Err(Problem::bad_request("format is ndjson, csv, csv-bom, xlsx, parquet or arrow")),
        },
    };
    ctx.params.end()?;
    let all_collections = compile_for_all_collections(&ctx, &query).await?;
    let single = if all_collections.is_none() { Some(compiled(&ctx, &query).await?) } else { None };
    let headings = match (&single, &all_collections) {
        (Some(compiled), _) => compiled.columns.clone(),
        (None, all) => all.as_ref().map(AllCollectionsQuery::headings).unwrap_or_default(),
    };
    ctx.count_store_reached();
    let app = ctx.app.clone();
    // computed before the answer begins, which could not be refused later
    let (single, computed) = match single {
        Some(compiled) if !compiled.aggregates.is_empty() => {
            let app = ctx.app.clone();
            (None, reading(move || computed_rows(&app, &compiled)).await?)
        }
        single => (single, Vec::new()),
    };
    let visit = move |line: &mut dyn FnMut(Vec<Value>) -> Result<(), StoreError>| -> Result<(), EngineError> {
        if let Some(all_collections) = &all_collections {
            all_collections.visit(&*app.store, line)?;
        }
        computed.into_iter().try_for_each(&mut *line)?;
        if let Some(compiled) = &single {
            app.store.visit(&compiled.plan, line)?;
        }
        Ok(())
    };
    if let ExportFormat::Typed(format) = format {
        let file = reading(move || typed_file(format, headings, visit)).await?;
        return Ok(streamed_file(format.media_type(), file));
    }
    let write = move |out: &mut dyn Write| -> Result<(), EngineError> {
        out.write_all(mark.as_bytes()).map_err(failed)?;
        if format == ExportFormat::Csv {
            out.write_all(csv(&headings, &[]).as_bytes()).map_err(failed)?;
        }
        visit(&mut |row| {
            let line = match format {
                ExportFormat::Csv => csv_row(&headings, &row),
                _ => Json::Object(shown(&headings, &row)).to_string() + "\n",
            };
            out.write_all(line.as_bytes()).map_err(failed)
        })
    };
    Ok(streamed(if format == ExportFormat::Csv { CSV } else { NDJSON }, write))
}

/// A temporary file with all rows and their types; or the refusal, because a text is too long for a cell.
fn typed_file(
    format: TypedFormat,
    headings: Vec<ResultColumn>,
    visit: impl FnOnce(&mut dyn FnMut(Vec<Value>) -> Result<(), StoreError>) -> Result<(), EngineError>,
) -> Result<File, Problem> {
    let columns = headings.into_iter().map(|heading| TableColumn { name: heading.name, ty: heading.ty });
    let mut file = tempfile::tempfile().map_err(failed)?;
    let mut rows = TypedWriter::new(format, "rows", columns.collect()).map_err(failed)?;
    let mut too_long = None;
    visit(&mut |row| rows.row(row, &mut file, &mut |column| too_long = Some(column.to_owned())).map_err(failed))?;
    if let Some(column) = too_long {
        let reason = format!("`{column}` has texts of more than {MAX_CELL_TEXT} characters, which no cell can hold; use csv or ndjson");
        return Err(Problem::new(StatusCode::CONFLICT, reason));
    }
    rows.finish(&mut file).map_err(failed)?;
    Ok(file)
}

/// Sends a file that has been written.
fn streamed_file(media: &'static str, mut file: File) -> Response {
    streamed(media, move |out| {
        file.rewind().and_then(|()| std::io::copy(&mut file, out)).map_err(failed)?;
        Ok(())
    })
}

/// The row of aggregates, or that of each group.
fn computed_rows(app: &App, compiled: &CompiledQuery) -> Result<Vec<Vec<Value>>, EngineError> {
    Ok(match &compiled.grouping {
        Some(grouping) => compiled.group(&*app.store, grouping)?.rows,
        None => vec![compiled.aggregate(&*app.store)?],
    })
}

/// An answer that could not be sent on.
pub fn failed(error: std::io::Error) -> StoreError {
    StoreError::Other(error.to_string())
}

/// An answer that is sent while it is written. Where that fails its end is missing, which the peer sees.
pub fn streamed(media: &'static str, write: impl FnOnce(&mut dyn Write) -> Result<(), EngineError> + Send + 'static) -> Response {
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(4);
    let (working, waiting) = BlockingWork::new();
    tokio::task::spawn_blocking(move || {
        let written = working.run(|| {
            let mut out = std::io::BufWriter::with_capacity(64 << 10, BodyWriter(sender.clone()));
            write(&mut out).map_err(|error| error.to_string())?;
            out.flush().map_err(|error| error.to_string())
        });
        if let Err(error) = written {
            let _ = sender.blocking_send(Err(std::io::Error::other(error)));
        }
    });
    // nobody waits any more when the stream is dropped
    let channel = (receiver, waiting);
    let stream = futures_util::stream::unfold(channel, |(mut receiver, waiting)| async move { Some((receiver.recv().await?, (receiver, waiting))) });
    // whoever compresses asks once more after the end
    let mut response = Response::new(Body::from_stream(stream.fuse()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// The reasons in the answer to a refused export; `report=true` lists all.
const MAX_REASONS: usize = 20;

/// Streams a complete collection: `?format=ndjson|csv|csv-bom|xlsx|parquet|arrow|marc|marcxml`. An export as MARC or XLSX that would have to change or leave out records is
/// refused before anything is sent, unless `lossy=true`; `report=true` lists those records instead. `explain=true` exports what contributors say, `corrections=true` edits.
pub async fn collection(mut ctx: RequestContext) -> HandlerResult {
    let collection = ctx.collection();
    let (format, media, mark) = match ctx.params.single("format")?.as_deref() {
        None | Some("ndjson") => (ExportFormat::Ndjson, NDJSON, ""),
        Some("csv") => (ExportFormat::Csv, CSV, ""),
        Some("csv-bom") => (ExportFormat::Csv, CSV, BYTE_ORDER_MARK),
        Some("marc") => (ExportFormat::Marc, "application/marc", ""),
        Some("marcxml") => (ExportFormat::MarcXml, "application/marcxml+xml", ""),
        Some(name) => match TypedFormat::named(name) {
            Some(format) => (ExportFormat::Typed(format), format.media_type(), ""),
            None => return Err(Problem::bad_request("format is ndjson, csv, csv-bom, xlsx, parquet, arrow, marc or marcxml")),
        },
    };
    let (lossy, report) = (ctx.params.flag("lossy")?, ctx.params.flag("report")?);
    let (explain, corrections) = (ctx.params.flag("explain")?, ctx.params.flag("corrections")?);
    ctx.params.end()?;
    let is_marc = matches!(format, ExportFormat::Marc | ExportFormat::MarcXml);
    if is_marc && !ctx.definition(collection).keep_raw && ctx.definition(collection).compose.is_none() {
        return Err(Problem::bad_request("the collection keeps no documents; it needs `raw: keep`"));
    }
    if is_marc && explain {
        return Err(Problem::new(StatusCode::CONFLICT, "documents do not say who says what; use the format ndjson, csv, xlsx, parquet or arrow"));
    }
    if corrections && (explain || format != ExportFormat::Ndjson) {
        return Err(Problem::new(StatusCode::CONFLICT, "corrections are exported as ndjson, without explain=true"));
    }
    ctx.count_store_reached();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let export = Arc::new(move |out: &mut dyn Write, remark: &mut dyn FnMut(ExportRemark<'_>)| {
        let contents = match (explain, corrections) {
            (true, _) => ExportContents::Statements,
            (false, true) => ExportContents::Corrections,
            (false, false) => ExportContents::Records,
        };
        let request = ExportRequest { tenant: &tenant, collection: &app.catalogue.collections[collection].name, contents, format };
        export::export(&app.catalogue, &*app.store, &request, out, remark)
    });
    let cursor_of = {
        let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
        move || change_feed::cursor_of_export(&app.catalogue, &*app.store, &tenant, &app.catalogue.collections[collection].name)
    };
    // read before the records are
    let cursor = reading(cursor_of).await?;
    if report {
        return Ok(streamed(NDJSON, move |out| {
            let mut sent = Ok(());
            export(&mut std::io::sink(), &mut |remark| {
                let line = json!({ "key": remark.key, "outcome": remark.outcome.name(), "reason": remark.reason });
                sent = std::mem::replace(&mut sent, Ok(())).and_then(|()| writeln!(out, "{line}"));
            })?;
            Ok(sent.map_err(failed)?)
        }));
    }
    let is_typed = matches!(format, ExportFormat::Typed(_));
    if is_typed || (is_marc && !lossy) {
        // checked before anything is sent, because the end of a failed transfer may overtake what was sent before it
        let check = export.clone();
        let (exported, reasons, file) = reading(move || {
            // such a file is complete only then
            let mut file = if is_typed { Some(tempfile::tempfile().map_err(failed)?) } else { None };
            let (mut nowhere, mut reasons) = (std::io::sink(), Vec::new());
            let out: &mut dyn Write = file.as_mut().map_or(&mut nowhere, |file| file);
            let exported = check(out, &mut |remark| {
                if reasons.len() < MAX_REASONS {
                    reasons.push(remark.to_string());
                }
            })?;
            Ok::<_, EngineError>((exported, reasons, file))
        })
        .await?;
        if !lossy && !is_lossless(&exported) {
            return Err(Problem::new(StatusCode::CONFLICT, losses(&exported)).errors(reasons));
        }
        if let Some(file) = file {
            return Ok(with_cursor(streamed_file(media, file), cursor));
        }
    }
    let response = streamed(media, move |out| {
        out.write_all(mark.as_bytes()).map_err(failed)?;
        let exported = export(out, &mut |_| {})?;
        // records may have changed since they were checked
        if lossy || is_lossless(&exported) { Ok(()) } else { Err(EngineError::Wrong(losses(&exported))) }
    });
    Ok(with_cursor(response, cursor))
}

/// The header with the cursor from which the changes of what is exported can be followed.
pub const CHANGES_CURSOR: &str = "stook-changes-cursor";

fn with_cursor(mut response: Response, cursor: Option<ChangeCursor>) -> Response {
    if let Some(value) = cursor.and_then(|cursor| HeaderValue::from_str(&cursor.to_string()).ok()) {
        response.headers_mut().insert(HeaderName::from_static(CHANGES_CURSOR), value);
    }
    response
}

fn is_lossless(exported: &ExportReport) -> bool {
    exported.changed + exported.left_out == 0
}

fn losses(exported: &ExportReport) -> String {
    let ExportReport { changed, left_out, .. } = exported;
    format!("in this format {changed} records are changed and {left_out} left out; `lossy=true` accepts that, `report=true` lists them")
}

/// Writes to a response. A slow peer blocks the writer.
struct BodyWriter(tokio::sync::mpsc::Sender<Result<Bytes, std::io::Error>>);

impl Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
