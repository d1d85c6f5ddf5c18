//! Exports who says what: a row for each value that a contributor gives a record, whether it was chosen or not.

use super::export::{ExportFormat, ExportOutcome, ExportRemark, ExportReport, ExportRequest, each_record, failed};
use crate::content::collection::find_collection;
use crate::{EngineError, Result};
use serde_json::json;
use std::io::Write;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::record::{Contribution, UNKNOWN_TIME};
use stook_catalogue::survivorship::{Consolidator, GoldenRecord};
use stook_catalogue::value::{FieldType, Value, show_timestamp};
use stook_formats::TableColumn;
use stook_formats::spreadsheet::MAX_CELL_TEXT;
use stook_formats::typed::TypedWriter;
use stook_store::Store;

/// A value that a contributor gives.
struct Statement<'s> {
    key: &'s str,
    field: &'s str,
    ty: &'s FieldType,
    contribution: &'s Contribution,
    value: &'s Value,
    /// Whether it is, or is part of, the golden value.
    chosen: bool,
    /// The time of the document that gave the value, which is older than the contributor's newest if that one could not be read.
    as_of: Option<i64>,
}

/// The columns of a row.
const COLUMNS: [(&str, FieldType); 8] = [
    ("key", FieldType::Text),
    ("field", FieldType::Text),
    ("contributor", FieldType::Text),
    ("value", FieldType::Text),
    ("chosen", FieldType::Boolean),
    ("as_of", FieldType::Timestamp),
    ("job", FieldType::Integer),
    ("document", FieldType::Integer),
];

impl Statement<'_> {
    fn values(&self) -> Vec<Value> {
        let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        vec![
            Value::text(self.key),
            Value::text(self.field),
            Value::text(&*self.contribution.contributor),
            Value::text(self.value.show(self.ty)),
            Value::Bool(self.chosen),
            self.as_of.map_or(Value::Null, Value::Int),
            number(self.contribution.origin.job),
            number(self.contribution.origin.document),
        ]
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "key": self.key,
            "field": self.field,
            "contributor": &*self.contribution.contributor,
            "value": self.value.to_json(self.ty),
            "chosen": self.chosen,
            "as_of": self.as_of.map(show_timestamp),
            "job": self.contribution.origin.job,
            "document": self.contribution.origin.document,
        })
    }
}

/// The rows of an export, as its format writes them.
enum StatementRows<'o> {
    Ndjson(&'o mut dyn Write),
    Csv(Box<csv::Writer<&'o mut dyn Write>>),
    Typed(TypedWriter, &'o mut dyn Write),
}

impl<'o> StatementRows<'o> {
    fn begin(format: ExportFormat, collection: &str, out: &'o mut dyn Write) -> Result<Self> {
        Ok(match format {
            ExportFormat::Ndjson => Self::Ndjson(out),
            ExportFormat::Csv => {
                let mut rows = csv::Writer::from_writer(out);
                rows.write_record(COLUMNS.iter().map(|(name, _)| *name)).map_err(|error| failed(error.into()))?;
                Self::Csv(Box::new(rows))
            }
            ExportFormat::Typed(format) => {
                let columns = COLUMNS.into_iter().map(|(name, ty)| TableColumn { name: name.to_owned(), ty });
                Self::Typed(TypedWriter::new(format, collection, columns.collect()).map_err(failed)?, out)
            }
            ExportFormat::Marc | ExportFormat::MarcXml => {
                return Err(EngineError::Wrong("documents do not say who says what; export ndjson, csv, xlsx, parquet or arrow".into()));
            }
        })
    }

    /// Writes a row; returns whether a text had to be cut.
    fn write(&mut self, statement: &Statement<'_>) -> Result<bool> {
        let mut is_cut = false;
        match self {
            Self::Ndjson(out) => writeln!(out, "{}", statement.to_json()).map_err(failed)?,
            Self::Csv(rows) => {
                let cells = statement.values().into_iter().zip(&COLUMNS).map(|(value, (_, ty))| value.show(ty));
                rows.write_record(cells).map_err(|error| failed(error.into()))?;
            }
            Self::Typed(rows, out) => rows.row(statement.values(), out, &mut |_| is_cut = true).map_err(failed)?,
        }
        Ok(is_cut)
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Ndjson(out) => out.flush().map_err(failed),
            Self::Csv(mut rows) => rows.flush().map_err(failed),
            Self::Typed(rows, out) => rows.finish(out).and_then(|()| out.flush()).map_err(failed),
        }
    }
}

/// Exports what contributors say about all records of a collection, ordered by key and field, in constant memory. Counts records. `remark` is called for
/// each record of which a text was cut.
///
/// # Errors
/// When the collection is not known, the format is one of documents, or the store or the output fails.
pub(super) fn export(
    catalogue: &Catalogue,
    store: &dyn Store,
    request: &ExportRequest<'_>,
    out: &mut dyn Write,
    remark: &mut dyn FnMut(ExportRemark<'_>),
) -> Result<ExportReport> {
    let (index, definition) = find_collection(catalogue, request.collection)?;
    let evaluator = Evaluator::new(catalogue.tables.clone());
    let consolidator = Consolidator::new(catalogue, definition, &evaluator);
    let mut exported = ExportReport::default();
    let mut rows = StatementRows::begin(request.format, request.collection, out)?;
    each_record(definition, index, store, request.tenant, &mut |record| {
        let golden =
            GoldenRecord { values: record.stored.golden.as_slice().into(), alive: record.stored.exists, conflicts: record.stored.conflicts.clone() };
        let mut is_cut = false;
        for explanation in consolidator.explain(&record.contributions, &golden) {
            let field = &definition.fields[explanation.field];
            if field.is_member() {
                continue;
            }
            let won = explanation.won.iter().map(|said| (said, true));
            for ((contribution, value), chosen) in won.chain(explanation.lost.iter().map(|said| (said, false))) {
                let as_of = contribution.value_as_of(explanation.field);
                is_cut |= rows.write(&Statement {
                    key: record.stored.key.as_str(),
                    field: &field.name,
                    ty: &field.ty,
                    contribution,
                    value,
                    chosen,
                    as_of: (as_of != UNKNOWN_TIME).then_some(as_of),
                })?;
            }
        }
        if is_cut {
            let reason = format!("a value is cut after {MAX_CELL_TEXT} characters, which is what a cell can hold");
            remark(ExportRemark { key: record.stored.key.as_str(), outcome: ExportOutcome::Changed, reason: &reason });
        }
        exported.changed += u64::from(is_cut);
        exported.records += 1;
        Ok(())
    })?;
    rows.finish()?;
    Ok(exported)
}
