//! `audit`, and what the log says about commands.

use crate::arguments::Arguments;
use crate::arguments::serve::AuditArgs;
use crate::open::{self, CatalogueLocation};
use crate::output::table;
use crate::{CommandError, CommandResult};
use clap::CommandFactory;
use stook_catalogue::key::Key;
use stook_catalogue::value::time::timestamp_from_text;
use stook_catalogue::value::{duration_from_text, show_timestamp};
use stook_server::secret::now;
use stook_server::shown_audit_entry;
use stook_store::audit::{AuditEntry, AuditQuery, AuditScope, AuditedOperation};

/// The operation of this process: a command of the user who called it. Values of options are not part of it, as they may be secret.
pub fn scope() -> AuditScope {
    let known = Arguments::command();
    let words = std::env::args().skip(1).skip_while(|word| known.find_subcommand(word).is_none());
    let command: Vec<String> = words.take_while(|word| !word.starts_with('-')).take(4).collect();
    scope_of(&format!("stook {}", command.join(" ")))
}

/// An operation of this process for the user who called it.
pub fn scope_of(operation: &str) -> AuditScope {
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(|| "somebody".into());
    AuditScope::new(AuditedOperation { caller: format!("{user} (command line)"), ..AuditedOperation::new(operation) })
}

pub fn audit(location: &CatalogueLocation, arguments: &AuditArgs) -> CommandResult {
    let since = arguments.since.as_deref().map(since).transpose()?;
    let record = arguments.record.as_deref().map(record).transpose()?;
    let tenant = arguments.tenant.as_deref().map(open::tenant).transpose()?;
    let wanted = AuditQuery { tenant, since, token: arguments.token, record, before: None, limit: arguments.limit };
    let entries = location.admin_store(true)?.audit(&wanted)?;
    if arguments.json {
        for entry in &entries {
            say!("{}", shown_audit_entry(entry));
        }
    } else {
        let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
        say!("{}", table(&["when", "tenant", "token", "who", "from", "what", "record", "outcome"], &rows, &[]));
    }
    Ok(0)
}

fn row(entry: &AuditEntry) -> Vec<String> {
    let AuditEntry { at, by, record, outcome, .. } = entry;
    let text = |value: Option<String>| value.unwrap_or_default();
    vec![
        show_timestamp(*at),
        text(by.tenant.as_ref().map(ToString::to_string)),
        text(by.token.map(|token| token.to_string())),
        by.caller.clone(),
        text(by.address.clone()),
        by.operation().to_owned(),
        text(record.as_ref().map(|(collection, key)| format!("{collection}/{key}"))),
        outcome.clone(),
    ]
}

fn since(text: &str) -> Result<i64, CommandError> {
    let wrong = || CommandError::usage(format!("--since: {text:?} is neither a time such as 2026-11-01T00:00:00Z nor one before now such as 24h"));
    match duration_from_text(text, None) {
        Some(time) => now().checked_sub(time).ok_or_else(wrong),
        None => timestamp_from_text(text, None).ok_or_else(wrong),
    }
}

fn record(text: &str) -> Result<(String, Key), CommandError> {
    let record = text.split_once('/').and_then(|(collection, key)| Some((collection.to_owned(), Key::new(key).ok()?)));
    record.ok_or_else(|| CommandError::usage(format!("--record: {text:?} is not COLLECTION/KEY")))
}
