//! Corrections as a file: a line for each field to which an edit gives a value, which [`crate::corrections::import`] reads back.

use super::export::{ExportFormat, ExportReport, ExportRequest, each_record, failed};
use crate::content::collection::find_collection;
use crate::{EngineError, Result};
use serde_json::{Map, Value as Json, json};
use std::io::Write;
use stook_catalogue::definition::{API_NAME, Catalogue, Collection};
use stook_catalogue::record::{Contribution, ContributionContent};
use stook_catalogue::value::show_timestamp;
use stook_store::Store;

/// Exports the corrections of all records of a collection, ordered by key and field, in constant memory. Counts corrections as records.
///
/// # Errors
/// When the collection is not known, the format is another one than NDJSON, or the store or the output fails.
pub(super) fn export(catalogue: &Catalogue, store: &dyn Store, request: &ExportRequest<'_>, out: &mut dyn Write) -> Result<ExportReport> {
    if request.format != ExportFormat::Ndjson {
        return Err(EngineError::Wrong("corrections are exported as ndjson, which an import reads back".into()));
    }
    let (index, definition) = find_collection(catalogue, request.collection)?;
    let mut exported = ExportReport::default();
    each_record(definition, index, store, request.tenant, &mut |record| {
        let Some(own) = record.contributions.iter().find(|contribution| &*contribution.contributor == API_NAME) else { return Ok(()) };
        for line in lines(definition, record.stored.key.as_str(), own) {
            writeln!(out, "{line}").map_err(failed)?;
            exported.records += 1;
        }
        Ok(())
    })?;
    out.flush().map_err(failed)?;
    Ok(exported)
}

/// A line for each field of the contribution of `api` to a record, except those of the key.
fn lines<'a>(definition: &'a Collection, key: &'a str, own: &'a Contribution) -> impl Iterator<Item = Json> + 'a {
    let values = match &own.content {
        ContributionContent::Values(values) => &values[..],
        ContributionContent::Tombstone => &[],
    };
    let edited = definition.fields.enumerate().zip(values).filter(|((_, field), value)| !value.is_null() && !definition.is_in_key(field));
    edited.map(move |((index, field), value)| {
        let mut line =
            Map::from_iter([("key".to_owned(), json!(key)), ("field".to_owned(), json!(field.name)), ("value".to_owned(), value.to_json(&field.ty))]);
        if let Some(correction) = own.corrections.iter().find(|correction| correction.field == index) {
            if let Some(corrects) = &correction.corrects {
                let by_contributor = corrects.iter().map(|(contributor, value)| (contributor.to_string(), value.to_json(&field.ty)));
                line.insert("corrects".into(), by_contributor.collect::<Map<_, _>>().into());
            }
            line.extend(correction.reason.as_ref().map(|reason| ("reason".to_owned(), json!(reason))));
            line.insert("by".into(), json!(correction.caller));
            line.insert("at".into(), json!(show_timestamp(correction.at)));
        }
        Json::Object(line)
    })
}
