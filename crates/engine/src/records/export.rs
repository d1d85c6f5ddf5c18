//! Exports records: golden fields as NDJSON, CSV, a spreadsheet, Parquet or Arrow IPC, kept documents as MARC.

use super::composed::MarcOfRecords;
use super::record::ExplainedRecord;
use crate::content::collection::find_collection;
use crate::job::sizes::PAGE;
use crate::{EngineError, Result};
use std::io::Write;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::{FieldType, Value};
use stook_formats::marc::Repairs;
use stook_formats::spreadsheet::MAX_CELL_TEXT;
use stook_formats::typed::{TypedFormat, TypedWriter};
use stook_formats::write::{MarcWriter, WriteError};
use stook_formats::{Syntax, TableColumn};
use stook_store::{ReadDetail, Store, Tenant};

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// One JSON object a line.
    Ndjson,
    /// A header and a row per record; lists are joined by "; ".
    Csv,
    /// The same as a spreadsheet or a table of columns, with numbers, dates and times as such.
    Typed(TypedFormat),
    /// Kept documents, unchanged if they are ISO 2709; or what the definition composes of them.
    Marc,
    /// The same as MARCXML.
    MarcXml,
}

/// What an export says of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportContents {
    /// Their golden values, or their documents.
    Records,
    /// What contributors say: a row for each value that one gives, see [`super::statements`].
    Statements,
    /// Edits of fields: a line for each, which can be imported again, see [`super::corrections`].
    Corrections,
}

/// What is exported.
#[derive(Debug, Clone, Copy)]
pub struct ExportRequest<'r> {
    /// The tenant of the records.
    pub tenant: &'r Tenant,
    /// The collection.
    pub collection: &'r str,
    /// What is said of its records.
    pub contents: ExportContents,
    /// The format.
    pub format: ExportFormat,
}

/// A record that was not exported unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportRemark<'r> {
    /// The record.
    pub key: &'r str,
    /// Whether it was exported at all.
    pub outcome: ExportOutcome,
    /// What was changed, or why it was left out.
    pub reason: &'r str,
}

/// What became of a record that was not exported unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportOutcome {
    /// Written in the nearest form, because the syntax cannot hold its own.
    Changed,
    /// Not written.
    LeftOut,
}

impl ExportOutcome {
    /// The name of the outcome, for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::LeftOut => "left out",
        }
    }
}

impl std::fmt::Display for ExportRemark<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.outcome.name(), self.key, self.reason)
    }
}

/// The result of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Number of records exported.
    pub records: u64,
    /// Number of records without a document that could be exported.
    pub left_out: u64,
    /// Number of records that were exported in another form, because the syntax cannot represent theirs.
    pub changed: u64,
}

/// Exports all records of a collection, ordered by key, in constant memory. `remark` is called for each that was changed or left out.
///
/// # Errors
/// When the collection is not known, or the store or the output fails.
pub fn export(
    catalogue: &Catalogue,
    store: &dyn Store,
    request: &ExportRequest<'_>,
    out: &mut dyn Write,
    remark: &mut dyn FnMut(ExportRemark<'_>),
) -> Result<ExportReport> {
    let ExportRequest { tenant, collection, contents, format } = *request;
    match contents {
        ExportContents::Statements => return super::statements::export(catalogue, store, request, out, remark),
        ExportContents::Corrections => return super::corrections::export(catalogue, store, request, out),
        ExportContents::Records => {}
    }
    let (index, definition) = find_collection(catalogue, collection)?;
    let mut exported = ExportReport::default();
    match format {
        ExportFormat::Ndjson => each_record(definition, index, store, tenant, &mut |record| {
            serde_json::to_writer(&mut *out, &record.to_json()).map_err(|error| failed(error.into()))?;
            out.write_all(b"\n").map_err(failed)?;
            exported.records += 1;
            Ok(())
        })?,
        ExportFormat::Csv => {
            let mut rows = csv::Writer::from_writer(&mut *out);
            let names =
                definition.shown_fields().map(|(_, field)| field.name.as_str()).chain(definition.states.iter().map(|state| state.name.as_str()));
            rows.write_record(std::iter::once("key").chain(names)).map_err(|error| failed(error.into()))?;
            each_record(definition, index, store, tenant, &mut |record| {
                let fields = definition.shown_fields().map(|(index, field)| record.stored.golden[index].show(field.golden_type()));
                let states = definition.states.iter().zip(&record.stored.state).map(|(state, value)| value.show(&state.ty));
                let values = std::iter::once(record.stored.key.to_string()).chain(fields).chain(states);
                rows.write_record(values).map_err(|error| failed(error.into()))?;
                exported.records += 1;
                Ok(())
            })?;
            rows.flush().map_err(failed)?;
        }
        ExportFormat::Typed(format) => {
            let column = |name: &str, ty: &FieldType| TableColumn { name: name.to_owned(), ty: ty.clone() };
            let fields = definition.shown_fields().map(|(_, field)| column(&field.name, field.golden_type()));
            let states = definition.states.iter().map(|state| column(&state.name, &state.ty));
            let columns = std::iter::once(column("key", &FieldType::Text)).chain(fields).chain(states);
            let mut rows = TypedWriter::new(format, collection, columns.collect()).map_err(failed)?;
            each_record(definition, index, store, tenant, &mut |record| {
                let key = record.stored.key.as_str();
                let fields = definition.shown_fields().map(|(index, _)| record.stored.golden[index].clone());
                let values: Vec<Value> = std::iter::once(Value::text(key)).chain(fields).chain(record.stored.state.iter().cloned()).collect();
                let mut cut = Vec::new();
                rows.row(values, out, &mut |column| cut.push(column.to_owned())).map_err(failed)?;
                for column in &cut {
                    let reason = format!("`{column}` is cut after {MAX_CELL_TEXT} characters, which is what a cell can hold");
                    remark(ExportRemark { key, outcome: ExportOutcome::Changed, reason: &reason });
                }
                exported.records += 1;
                exported.changed += u64::from(!cut.is_empty());
                Ok(())
            })?;
            rows.finish(out).map_err(failed)?;
        }
        ExportFormat::Marc | ExportFormat::MarcXml => {
            if !definition.keep_raw && definition.compose.is_none() {
                return Err(EngineError::Wrong(format!(
                    "`{collection}` does not keep its documents (raw: keep); export ndjson, csv, xlsx, parquet or arrow"
                )));
            }
            let mut records = MarcWriter::new(&mut *out, if format == ExportFormat::MarcXml { Syntax::MarcXml } else { Syntax::Marc });
            let mut repairs = Repairs::default();
            let marc = MarcOfRecords::new(catalogue, definition, Some((store, tenant)));
            each_record(definition, index, store, tenant, &mut |record| {
                repairs.begin(0);
                match marc.write(&record, &mut records, &mut repairs)? {
                    Ok(()) => {
                        exported.records += 1;
                        exported.changed += u64::from(!repairs.is_empty());
                        for repair in &repairs {
                            remark(ExportRemark { key: record.stored.key.as_str(), outcome: ExportOutcome::Changed, reason: &repair.to_string() });
                        }
                    }
                    Err(WriteError::Io(error)) => return Err(failed(error)),
                    Err(reason) => {
                        remark(ExportRemark { key: record.stored.key.as_str(), outcome: ExportOutcome::LeftOut, reason: &reason.to_string() });
                        exported.left_out += 1;
                    }
                }
                Ok(())
            })?;
            records.finish().map_err(failed)?;
        }
    }
    out.flush().map_err(failed)?;
    Ok(exported)
}

pub(super) fn failed(error: std::io::Error) -> EngineError {
    EngineError::File { path: "the output".into(), error }
}

/// Calls `visit` for every existing record of a collection, reading a page of keys at a time.
pub(super) fn each_record(
    definition: &Collection,
    index: CollectionId,
    store: &dyn Store,
    tenant: &Tenant,
    visit: &mut dyn FnMut(ExplainedRecord<'_>) -> Result<()>,
) -> Result<()> {
    let mut after = String::new();
    loop {
        let keys = store.keys_after(tenant, index, &after, PAGE)?;
        let Some(last) = keys.last() else { return Ok(()) };
        last.as_str().clone_into(&mut after);
        for stored in store.read(tenant, index, &keys, ReadDetail::Full)?.into_iter().flatten().filter(|record| record.exists) {
            let contributions = stored.contributions_of(definition)?;
            visit(ExplainedRecord { collection: definition, stored, contributions })?;
        }
    }
}
