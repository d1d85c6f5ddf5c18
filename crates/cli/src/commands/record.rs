//! `get`, `withdraw`, `export`: records by key, and all of them.

use super::settle;
use crate::arguments::records::{ExportArgs, ExportFormat, GetArgs, GetFormat, WithdrawArgs};
use crate::open::{self, CatalogueLocation};
use crate::output::{count, number, seconds, stream, table, yaml};
use crate::output_file::Output;
use crate::{CommandError, CommandResult};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use stook_engine::change_feed;
use stook_engine::composed::MarcOfRecords;
use stook_engine::export::{self, ExportContents, ExportRequest};
use stook_engine::record::{self, RecordAddress};
use stook_engine::tags::joined_attributes;
use stook_engine::withdraw::{self, WithdrawalRequest};
use stook_formats::Syntax;
use stook_formats::marc::{ReadOptions, Repairs};
use stook_formats::typed::TypedFormat;
use stook_formats::write::{MarcWriter, WriteError};
use stook_query::csv::BYTE_ORDER_MARK;
use stook_query::tags_of;

pub fn get(location: &CatalogueLocation, arguments: &GetArgs) -> CommandResult {
    let (catalogue, store) = location.read()?;
    let tenant = open::tenant(&arguments.tenant)?;
    let found = record::get(
        &catalogue,
        &*store,
        &RecordAddress { tenant: &tenant, collection: &arguments.collection, key: &arguments.key },
        arguments.deleted,
    )?;
    let Some(found) = found else {
        let hint = if arguments.key.trim() != arguments.key { "" } else { " (keys are compared exactly, including spaces)" };
        return Err(CommandError::new(format!("there is no {} {:?}{hint}", arguments.collection, arguments.key)));
    };
    let explained = |found: &record::ExplainedRecord<'_>| -> Result<Json, CommandError> {
        let mut json = found.explain(&catalogue, &*store, &tenant)?;
        let (index, definition) = record::find_collection(&catalogue, &arguments.collection)?;
        if let Some(rules) = &definition.tags {
            let carried = tags_of(&catalogue, &*store, &tenant, index, &found.stored.key)?;
            json["tag_attributes"] = joined_attributes(rules, &store.tags(&tenant, index)?.tags, &carried).into();
            json["tags"] = carried.into();
        }
        Ok(json)
    };
    match arguments.format {
        None if arguments.explain => explain_table(&explained(&found)?),
        None | Some(GetFormat::Json | GetFormat::Yaml) => {
            let json = if arguments.explain { explained(&found)? } else { found.to_json() };
            if arguments.format == Some(GetFormat::Json) {
                say!("{json}");
            } else {
                say!("{}", yaml(&json).trim_end());
            }
        }
        Some(format) => {
            let syntax = if format == GetFormat::Marc { Syntax::Marc } else { Syntax::MarcXml };
            let mut out = stream();
            let mut writer = MarcWriter::new(&mut out, syntax);
            let mut repairs = Repairs::default();
            let contributor = arguments.contributor.as_deref();
            let kept = if contributor.is_some() { found.document(contributor) } else { None };
            match (kept, contributor) {
                (Some((number, bytes)), Some(name)) => {
                    let source = name.split_once(':').map_or(name, |(source, _)| source);
                    let options = catalogue.source(source).map_or(ReadOptions::REPAIR, |(_, source)| source.reading.marc);
                    match Syntax::from_number(number).unwrap_or(Syntax::Marc) {
                        // the document itself is asked for
                        Syntax::Marc if syntax == Syntax::Marc => writer.write(bytes, Syntax::Marc)?,
                        kept_syntax => writer.write_nearest(bytes, kept_syntax, &options, &mut repairs)?,
                    }
                }
                (_, Some(name)) => {
                    let names: Vec<&str> = found.contributions.iter().filter(|own| own.raw.is_some()).map(|own| &*own.contributor).collect();
                    return Err(CommandError::new(format!("the record has no document of {name}; it has those of {}", names.join(", "))));
                }
                (_, None) => {
                    match MarcOfRecords::new(&catalogue, found.collection, Some((&*store, &tenant))).write(&found, &mut writer, &mut repairs)? {
                        Err(WriteError::NoDocument) => {
                            return Err(CommandError::new("no document was kept for this record (the collection needs `raw: keep`)"));
                        }
                        written => written?,
                    }
                }
            }
            writer.finish()?;
            repairs.into_iter().for_each(|repair| eprintln!("changed: {}: {repair}", found.stored.key));
            return Ok(if repairs.is_empty() { 0 } else { 2 });
        }
    }
    Ok(0)
}

/// Who edited a field and why, and whether that still counts before its rule.
fn edited(correction: &Json) -> String {
    let Some(caller) = correction["by"].as_str() else { return String::new() };
    // a token need not have a name
    let by = if caller.is_empty() { String::new() } else { format!(" by {caller}") };
    let reason = correction["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
    match (correction["holds"].as_bool(), correction["contradicted_by"].as_str()) {
        (Some(true), _) => format!("; corrected{by}{reason}"),
        (Some(false), Some(contributor)) => format!("; the correction{by} no longer counts, because {contributor} gives another value"),
        _ => format!("; edited{by}{reason}"),
    }
}

/// Prints an explanation: a line per field and per overruled value, then the contributors.
fn explain_table(explained: &Json) {
    let text = |value: &Json| match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    };
    let entries = |name: &str| explained[name].as_object().cloned().unwrap_or_default();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, field) in entries("fields") {
        let conflict = if field["conflict"] == Json::Bool(true) { " (conflict)" } else { "" };
        let (from, rule) = match field.get("derived") {
            Some(derived) => {
                let failed = field.get("failed").map(|reason| format!(" (failed: {})", text(reason))).unwrap_or_default();
                let stale = if field["stale"] == Json::Bool(true) { " (stale)" } else { "" };
                let planned = field.get("planned").map(|keys| format!(" (missing targets: {})", text(keys))).unwrap_or_default();
                let limit = field.get("most").map(|limit| format!(" (limited to {})", text(limit))).unwrap_or_default();
                ("derived".to_owned(), format!("{}{failed}{stale}{planned}{limit}", text(derived)))
            }
            None => (text(&field["from"]), format!("{}{conflict}{}", text(&field["rule"]), edited(&field["correction"]))),
        };
        rows.push(vec![name, text(&field["value"]), from, rule]);
        for lost in field["lost"].as_array().into_iter().flatten() {
            rows.push(vec![String::new(), text(&lost["value"]), text(&lost["contributor"]), format!("overruled, as of {}", text(&lost["as_of"]))]);
        }
    }
    for (name, state) in entries("state") {
        rows.push(vec![name, text(&state["value"]), text(&state["from"]), "state".to_owned()]);
    }
    say!("{}", table(&["field", "value", "from", "rule"], &rows, &[]));
    for reason in explained["left_out"].as_array().into_iter().flatten() {
        say!("\n{}", text(reason));
    }
    say!("");
    let contributions: Vec<Vec<String>> = explained["contributions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|contribution| ["contributor", "says", "as_of", "job", "document"].iter().map(|name| text(&contribution[*name])).collect())
        .collect();
    say!("{}", table(&["contributor", "says", "as of", "job", "document"], &contributions, &[false, false, false, true, true]));
    let exists = if explained["exists"] == Json::Bool(true) { "exists" } else { "is deleted" };
    if let Some(tags) = explained.get("tags") {
        let tags = text(tags);
        say!("\ntags: {}", if tags.is_empty() { "none" } else { &tags });
        for (name, value) in explained["tag_attributes"].as_object().into_iter().flatten() {
            say!("{name}: {}", text(value));
        }
    }
    say!("\nthe record {exists}; it last changed {}", text(&explained["changed"]));
}

pub fn withdraw(location: &CatalogueLocation, arguments: &WithdrawArgs) -> CommandResult {
    let (catalogue, store) = location.written_existing()?;
    let WithdrawArgs { source, collection, key, .. } = arguments;
    let tenant = open::tenant(&arguments.tenant)?;
    let began = Instant::now();
    let request = WithdrawalRequest { tenant: &tenant, contributor: source, collection: collection.as_deref(), key: key.as_deref() };
    let done = withdraw::withdraw(&catalogue, &*store, &request, &|_| {})?;
    let settled = settle::drain(&catalogue, &*store, &AtomicBool::new(false))?;
    let mut failures = done.failures;
    failures.include(settled.failures);
    settle::warn(&failures);
    if arguments.json {
        say!(
            "{}",
            json!({
                "records": done.records, "gone": done.deleted, "held": done.kept_for_state, "refused": done.unique_conflicts, "fails": failures.first, "more_fail": failures.truncated,
            })
        );
    } else {
        say!("withdrew {source} from {} in {}", count(done.records, "record"), seconds(began.elapsed()));
        say!("  {} deleted; {} of them kept because transitions have set their state", number(done.deleted), number(done.kept_for_state));
    }
    done.unique_conflicts.iter().for_each(|reason| eprintln!("not withdrawn: {reason}"));
    Ok(if done.unique_conflicts.is_empty() { 0 } else { 2 })
}

pub fn export(location: &CatalogueLocation, arguments: &ExportArgs) -> CommandResult {
    let ExportArgs { collection, output, .. } = arguments;
    let (catalogue, store) = location.read()?;
    let tenant = open::tenant(&arguments.tenant)?;
    let format = match arguments.format {
        None | Some(ExportFormat::Ndjson) => export::ExportFormat::Ndjson,
        Some(ExportFormat::Csv | ExportFormat::CsvBom) => export::ExportFormat::Csv,
        Some(ExportFormat::Xlsx) => export::ExportFormat::Typed(TypedFormat::Xlsx),
        Some(ExportFormat::Parquet) => export::ExportFormat::Typed(TypedFormat::Parquet),
        Some(ExportFormat::Arrow) => export::ExportFormat::Typed(TypedFormat::Arrow),
        Some(ExportFormat::Marc) => export::ExportFormat::Marc,
        Some(ExportFormat::Marcxml) => export::ExportFormat::MarcXml,
    };
    // read before the records are
    let cursor = change_feed::cursor_of_export(&catalogue, &*store, &tenant, collection)?;
    let mut out = Output::new(output.as_deref())?;
    if arguments.format == Some(ExportFormat::CsvBom) {
        out.write_all(BYTE_ORDER_MARK.as_bytes())?;
    }
    let contents = match (arguments.explain, arguments.corrections) {
        (true, _) => ExportContents::Statements,
        (false, true) => ExportContents::Corrections,
        (false, false) => ExportContents::Records,
    };
    let request = ExportRequest { tenant: &tenant, collection, contents, format };
    let exported = export::export(&catalogue, &*store, &request, &mut out, &mut |remark| eprintln!("{remark}"))?;
    out.finish()?;
    if let Some(path) = output {
        let noun = if arguments.corrections { "correction" } else { "record" };
        eprintln!("wrote {} to {}", count(exported.records, noun), path.display());
    }
    if let Some(cursor) = cursor {
        eprintln!("what changes from now on: stook changes {collection} --since {cursor}");
    }
    Ok(if exported.left_out + exported.changed > 0 { 2 } else { 0 })
}
