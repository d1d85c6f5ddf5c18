//! `import --corrections`.

use super::settle;
use crate::arguments::import::{ImportArgs, WaitFor};
use crate::open::{self, CatalogueLocation};
use crate::output::{count, number};
use crate::process::stop_signal;
use crate::{CommandError, CommandResult};
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;
use stook_engine::corrections::{self, CorrectionsReport, CorrectionsTarget};
use stook_engine::record::find_collection;
use stook_engine::settle::SettleRules;

/// Who makes the edits of lines that do not say by whom they were made.
const CALLER: &str = "stook import";

/// Makes the edits of files of corrections.
pub fn import(location: &CatalogueLocation, arguments: &ImportArgs, collection: &str) -> CommandResult {
    let (catalogue, store) = location.written_existing()?;
    let tenant = open::tenant(&arguments.tenant)?;
    let (collection, _) = find_collection(&catalogue, collection)?;
    let (rules, stop) = (Arc::new(SettleRules::new(&catalogue)), stop_signal()?);
    let target = CorrectionsTarget { tenant: &tenant, collection, caller: CALLER };
    let mut total = CorrectionsReport::default();
    for path in &arguments.files {
        let named = |reason: &dyn std::fmt::Display| CommandError::new(format!("{}: {reason}", path.display()));
        let file = File::open(path).map_err(|error| named(&error))?;
        let mut note = |line: u64, reason: &str| eprintln!("{}:{line}: {reason}", path.display());
        let report = corrections::import(&rules, &*store, &target, &mut BufReader::new(file), &mut note).map_err(|error| named(&error))?;
        total.changed += report.changed;
        total.unchanged += report.unchanged;
        total.failed += report.failed;
    }
    if arguments.wait == WaitFor::Settled {
        settle::warn(&settle::drain(&catalogue, &*store, &stop)?.failures);
    }
    let CorrectionsReport { changed, unchanged, failed } = total;
    if arguments.json {
        say!("{}", json!({ "changed": changed, "unchanged": unchanged, "failed": failed }));
    } else {
        say!(
            "{} imported: {} changed, {} unchanged, {} failed",
            count(changed + unchanged, "correction"),
            number(changed),
            number(unchanged),
            number(failed)
        );
    }
    Ok(if failed == 0 { 0 } else { 2 })
}
