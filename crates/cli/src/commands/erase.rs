//! `erase`: removes records with everything that was ever said of them.

use super::settle;
use crate::arguments::records::EraseArgs;
use crate::open::{self, CatalogueLocation};
use crate::output::{count, number, table};
use crate::{CommandError, CommandResult};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use stook_catalogue::value::show_timestamp;
use stook_engine::erase::{self, ErasureReport, ErasureRequest};
use stook_engine::record::find_collection;
use stook_store::erasure::Erasure;

/// The caller of what is erased by a command.
const CALLER: &str = "erase";

pub fn erase(location: &CatalogueLocation, arguments: &EraseArgs) -> CommandResult {
    let EraseArgs { collection, keys, reason, lift, again, no_purge, .. } = arguments;
    if arguments.list {
        return list(location, arguments.json);
    }
    let (catalogue, store) = location.written_existing()?;
    let tenant = open::tenant(&arguments.tenant)?;
    if let (true, Some(collection)) = (*lift, collection) {
        let (id, _) = find_collection(&catalogue, collection)?;
        let mut lifted = Vec::new();
        for key in keys {
            let key = stook_catalogue::key::Key::new(key).map_err(|error| CommandError::new(error.to_string()))?;
            lifted.push(store.lift_erasure(&tenant, id, &key)?);
        }
        let done = lifted.iter().filter(|lifted| **lifted).count();
        if arguments.json {
            say!("{}", json!({ "lifted": done }));
        } else {
            say!("{} may exist again; import their documents again", count(done as u64, "erased record"));
        }
        return Ok(u8::from(done < keys.len()));
    }
    let reports = match (again, collection) {
        (Some(file), _) => erase::erase_again(&catalogue, &*store, &read_list(file)?, CALLER)?,
        (None, Some(collection)) => {
            let request = |key| ErasureRequest { tenant: &tenant, collection, key, reason: reason.as_deref(), caller: CALLER };
            keys.iter().map(|key| erase::erase(&catalogue, &*store, &request(key))).collect::<Result<_, _>>()?
        }
        (None, None) => Vec::new(),
    };
    let settled = settle::drain(&catalogue, &*store, &AtomicBool::new(false))?;
    settle::warn(&settled.failures);
    let purged = !no_purge;
    if purged {
        store.purge()?;
    }
    if arguments.json {
        say!("{}", json!({ "erased": reports, "purged": purged }));
        return Ok(0);
    }
    reports.iter().for_each(show);
    if reports.is_empty() {
        say!("nothing was found that had been erased");
    }
    if !purged {
        say!("unused places of the store still have it until a `stook erase` without --no-purge");
    }
    Ok(0)
}

fn show(report: &ErasureReport) {
    let ErasureReport { collection, key, existed, traces, linked } = report;
    let existence = if *existed { "erased" } else { "there was no such record; what told of it was erased, and it will be left out" };
    say!("{collection} {key}: {existence}");
    let found = [
        (traces.log_entries, "entry of its change log", "entries of its change log"),
        (traces.outcomes, "outcome in journals", "outcomes in journals"),
        (traces.issues, "failure or warning", "failures and warnings"),
        (traces.changes, "change that was noted", "changes that were noted"),
        (traces.answers, "kept answer", "kept answers"),
        (traces.audit_entries, "entry of the audit log, which stays without the key", "entries of the audit log, which stay without the key"),
    ];
    for (times, one, many) in found.into_iter().filter(|(times, ..)| *times > 0) {
        say!("  {} {}", number(times), if times == 1 { one } else { many });
    }
    name_others("these records still name it", linked);
    name_others("these records were made of the same documents, which may be kept with them", &traces.shared);
}

/// The most records that are named.
const MAX_NAMED: usize = 10;

fn name_others(what: &str, records: &[(String, String)]) {
    if records.is_empty() {
        return;
    }
    let named: Vec<String> = records.iter().take(MAX_NAMED).map(|(collection, key)| format!("{collection} {key}")).collect();
    let more = records.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {} more (--json names them)", number(more as u64)) } else { String::new() };
    say!("  {what}: {}{more}", named.join(", "));
}

fn list(location: &CatalogueLocation, as_json: bool) -> CommandResult {
    let (_, store) = location.read()?;
    let erasures = store.erasures()?;
    if as_json {
        say!("{}", json!(erasures));
        return Ok(0);
    }
    let row = |own: &Erasure| {
        let state = if own.finished { "" } else { "not finished: repeat the command" };
        let reason = own.reason.clone().unwrap_or_default();
        vec![show_timestamp(own.at), own.tenant.clone(), own.collection.clone(), own.digest.clone(), reason, state.to_owned()]
    };
    say!("{}", table(&["when", "tenant", "collection", "hash", "reason", "state"], &erasures.iter().map(row).collect::<Vec<_>>(), &[]));
    Ok(0)
}

fn read_list(file: &Path) -> Result<Vec<Erasure>, CommandError> {
    let text = std::fs::read_to_string(file).map_err(|error| CommandError::new(format!("{}: {error}", file.display())))?;
    serde_json::from_str(&text).map_err(|error| CommandError::new(format!("{}: not a list of `stook erase --list --json`: {error}", file.display())))
}
