//! `settle`, `check --deep`.

use crate::open::CatalogueLocation;
use crate::output::{count, number, seconds};
use crate::process::stop_signal;
use crate::{CommandError, CommandResult};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::ExpressionFailures;
use stook_engine::settle::{self, CheckedRecord, DeepCheckReport, SettleRules};
use stook_store::damage::Damage;
use stook_store::{DEFAULT_TENANT, PassReport, SettlePass, Store, Tenant};

/// Max records that a check lists.
const SHOWN: usize = 20;

/// Settles all stale marks, or as many as possible until `stop` is set.
pub fn drain(catalogue: &Arc<Catalogue>, store: &dyn Store, stop: &AtomicBool) -> Result<PassReport, CommandError> {
    let rules = Arc::new(SettleRules::new(catalogue));
    settle::until_stopped(&|| stop.load(Ordering::SeqCst), || settle::bring_up(store, &rules, &|_| ()))?;
    let pass: Arc<dyn SettlePass> = rules;
    Ok(settle::drain(store, &pass, stop)?)
}

/// Returns the message [`LEFT`] if `stop` ended settling before it was complete.
pub fn left(catalogue: &Arc<Catalogue>, store: &dyn Store, stop: &AtomicBool) -> Result<Option<&'static str>, CommandError> {
    let is_left = stop.load(Ordering::SeqCst) && !settle::is_settled(store, &SettleRules::new(catalogue))?;
    Ok(is_left.then_some(LEFT))
}

/// The message that settling was interrupted, and what continues it.
pub const LEFT: &str = "settling was interrupted: derived values are not yet what the records say\n  workers will settle them (`stook work`, or a running `stook serve`), or run: stook settle";

/// Settles everything again if the store was settled by other rules.
///
/// It also settles marks left by an earlier process that was stopped while it did this.
pub fn bring_up(catalogue: &Arc<Catalogue>, store: &dyn Store) -> Result<(), CommandError> {
    let rules = Arc::new(SettleRules::new(catalogue));
    let marked = settle::bring_up(store, &rules, &|_| ())?;
    if marked > 0 {
        eprintln!("note: links or their rules have changed; the derived values of {} are being settled again", count(marked, "record"));
    } else if store.tenants_with_marks()?.is_empty() {
        return Ok(());
    } else {
        eprintln!("note: values left unsettled by an earlier process have been settled");
    }
    let pass: Arc<dyn SettlePass> = rules;
    let passed = settle::drain(store, &pass, &AtomicBool::new(false))?;
    warn(&passed.failures);
    eprintln!("note: {} changed", count(passed.rows, "record"));
    Ok(())
}

/// Prints which expressions have failed on which records.
pub fn warn(failures: &ExpressionFailures) {
    if !failures.first.is_empty() {
        eprintln!("warning: expressions failed on some records, which have no value for them:");
        failures.first.iter().for_each(|failure| eprintln!("  {failure}"));
        if failures.truncated {
            eprintln!("  and more: `stook check --deep` names records");
        }
    }
}

pub fn settle(place: &CatalogueLocation, as_json: bool) -> CommandResult {
    let (catalogue, store) = place.written_existing()?;
    let stop = stop_signal()?;
    let began = Instant::now();
    let passed = drain(&catalogue, &*store, &stop)?;
    let left = left(&catalogue, &*store, &stop)?;
    if as_json {
        let failures = passed.failures;
        say!(
            "{}",
            json!({
                "answered": passed.marks_cleared, "changed": passed.rows, "damaged": passed.damaged, "fails": failures.first, "more_fail": failures.truncated,
                "finished": left.is_none(),
            })
        );
    } else {
        warn(&passed.failures);
        passed.damaged.iter().for_each(|reason| eprintln!("warning: not settled: {reason}"));
        say!(
            "settled in {}: {} stale marks cleared, {} changed",
            seconds(began.elapsed()),
            count(passed.marks_cleared, "mark"),
            count(passed.rows, "record")
        );
    }
    match left {
        Some(left) => Err(CommandError::new(left)),
        None => Ok(u8::from(!passed.damaged.is_empty())),
    }
}

/// Returns the name of a tenant that is not the default one, in parentheses.
fn of_tenant(tenant: &Tenant) -> String {
    if tenant.as_str() == DEFAULT_TENANT { String::new() } else { format!(" (tenant {})", tenant.as_str()) }
}

fn of_record((tenant, damage): &(Tenant, Damage)) -> serde_json::Value {
    let (collection, key) = damage.record.clone().unwrap_or_default();
    json!({ "tenant": tenant.as_str(), "collection": collection, "key": key, "reason": damage.reason })
}

pub fn check(place: &CatalogueLocation, as_json: bool) -> CommandResult {
    let (catalogue, store) = place.written_existing()?;
    let began = Instant::now();
    let damage = store.damage()?;
    if !damage.is_empty() {
        if as_json {
            say!("{}", json!({ "sound": false, "damage": damage }));
        } else {
            say!("the store is damaged: restore a backup, or import into a new store (--store)");
            damage.iter().for_each(|line| say!("  {line}"));
        }
        return Ok(1);
    }
    let found = stook_engine::damage::find(&*store, &catalogue)?;
    if found.damaged > 0 {
        if as_json {
            let named: Vec<_> = found.named.iter().map(of_record).collect();
            say!("{}", json!({ "sound": false, "read": found.read, "damaged": found.damaged, "records": named }));
        } else {
            let read = count(found.read, "record");
            say!("{} of {read} cannot be read; derived values were not checked:", number(found.damaged));
            found.named.iter().for_each(|(tenant, damage)| say!("  {damage}{}", of_tenant(tenant)));
            if let more @ 1.. = found.damaged.saturating_sub(found.named.len() as u64) {
                say!("  and {} more", number(more));
            }
        }
        return Ok(1);
    }
    let stop = stop_signal()?;
    let checked = settle::check(&*store, &Arc::new(SettleRules::new(&catalogue)), &stop, &|_| ())?;
    let Some(DeepCheckReport { records, incorrect: wrong, inconclusive: undecided, failed }) = checked else {
        return Err(CommandError::new("the check was interrupted: nothing is known about derived values; run it again: stook check --deep"));
    };
    let of = |own: &CheckedRecord| json!({ "tenant": own.tenant.as_str(), "collection": own.collection, "key": own.key.as_str() });
    if as_json {
        let shown: Vec<_> = wrong.iter().take(SHOWN).map(of).collect();
        let fails = failed.iter().take(SHOWN).map(|(CheckedRecord { tenant, collection, key }, what)| {
            json!({ "tenant": tenant.as_str(), "collection": collection, "key": key.as_str(), "what": what.lines().collect::<Vec<_>>() })
        });
        let fails: Vec<_> = fails.collect();
        say!(
            "{}",
            json!({
                "sound": wrong.is_empty(), "read": found.read, "records": records, "changed": wrong.len(), "wrong": shown, "undecided": undecided,
                "failing": failed.len(), "fails": fails,
            })
        );
        return Ok(u8::from(!wrong.is_empty()));
    }
    say!("{} read, none damaged", count(found.read, "record"));
    let records = count(records, "record");
    if wrong.is_empty() {
        say!("all derived values of {records} are correct ({})", seconds(began.elapsed()));
    } else {
        say!("derived values of {} of {records} were wrong and have been corrected", number(wrong.len() as u64));
        for CheckedRecord { tenant, collection, key } in wrong.iter().take(SHOWN) {
            say!("  {collection} {}{}", key.as_str(), of_tenant(tenant));
        }
        if let more @ 1.. = wrong.len().saturating_sub(SHOWN) {
            say!("  and {} more", number(more as u64));
        }
    }
    if !failed.is_empty() {
        say!("expressions failed on {}, which have no value for them:", count(failed.len() as u64, "record"));
        for (CheckedRecord { tenant, collection, key }, what) in failed.iter().take(SHOWN) {
            what.lines().for_each(|what| say!("  {collection} {}{}: {what}", key.as_str(), of_tenant(tenant)));
        }
        if let more @ 1.. = failed.len().saturating_sub(SHOWN) {
            say!("  and {} more", number(more as u64));
        }
    }
    if undecided > 0 {
        say!(
            "{} changed during running imports, so the check is inconclusive for them; check again when the imports have finished",
            number(undecided)
        );
    }
    Ok(u8::from(!wrong.is_empty()))
}
