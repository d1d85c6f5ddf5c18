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
const MAX_SHOWN: usize = 20;

/// Settles all stale marks, or as many as possible until `stop` is set.
pub fn drain(catalogue: &Arc<Catalogue>, store: &dyn Store, stop: &AtomicBool) -> Result<PassReport, CommandError> {
    let rules = Arc::new(SettleRules::new(catalogue));
    settle::until_stopped(&|| stop.load(Ordering::SeqCst), || settle::mark_outdated(store, &rules, &|_| ()))?;
    let pass: Arc<dyn SettlePass> = rules;
    Ok(settle::drain(store, &pass, stop)?)
}

/// Returns the message [`INTERRUPTED`] if `stop` ended settling before it was complete.
pub fn interruption(catalogue: &Arc<Catalogue>, store: &dyn Store, stop: &AtomicBool) -> Result<Option<&'static str>, CommandError> {
    let is_unsettled = stop.load(Ordering::SeqCst) && !settle::is_settled(store, &SettleRules::new(catalogue))?;
    Ok(is_unsettled.then_some(INTERRUPTED))
}

/// The message that settling was interrupted, and what continues it.
pub const INTERRUPTED: &str = "settling was interrupted: derived values are not yet what the records say\n  workers will settle them (`stook work`, or a running `stook serve`), or run: stook settle";

/// Settles everything again if the store was settled by other rules.
///
/// It also settles marks left by an earlier process that was stopped while it did this.
pub fn mark_outdated(catalogue: &Arc<Catalogue>, store: &dyn Store) -> Result<(), CommandError> {
    let rules = Arc::new(SettleRules::new(catalogue));
    let marked = settle::mark_outdated(store, &rules, &|_| ())?;
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

pub fn settle(location: &CatalogueLocation, as_json: bool) -> CommandResult {
    let (catalogue, store) = location.written_existing()?;
    let stop = stop_signal()?;
    let began = Instant::now();
    let passed = drain(&catalogue, &*store, &stop)?;
    let interruption = interruption(&catalogue, &*store, &stop)?;
    if as_json {
        let failures = passed.failures;
        say!(
            "{}",
            json!({
                "answered": passed.marks_cleared, "changed": passed.rows, "damaged": passed.damaged, "fails": failures.first, "more_fail": failures.truncated,
                "finished": interruption.is_none(),
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
    match interruption {
        Some(message) => Err(CommandError::new(message)),
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

pub fn check(location: &CatalogueLocation, as_json: bool) -> CommandResult {
    let (catalogue, store) = location.written_existing()?;
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
    let record_damage = stook_engine::damage::find(&*store, &catalogue)?;
    if record_damage.damaged > 0 {
        if as_json {
            let named: Vec<_> = record_damage.named.iter().map(of_record).collect();
            say!("{}", json!({ "sound": false, "read": record_damage.read, "damaged": record_damage.damaged, "records": named }));
        } else {
            let read = count(record_damage.read, "record");
            say!("{} of {read} cannot be read; derived values were not checked:", number(record_damage.damaged));
            record_damage.named.iter().for_each(|(tenant, damage)| say!("  {damage}{}", of_tenant(tenant)));
            if let more @ 1.. = record_damage.damaged.saturating_sub(record_damage.named.len() as u64) {
                say!("  and {} more", number(more));
            }
        }
        return Ok(1);
    }
    let stop = stop_signal()?;
    let checked = settle::check(&*store, &Arc::new(SettleRules::new(&catalogue)), &stop, &|_| ())?;
    let Some(DeepCheckReport { records, incorrect, inconclusive, failed }) = checked else {
        return Err(CommandError::new("the check was interrupted: nothing is known about derived values; run it again: stook check --deep"));
    };
    let miscounted = store.correct_record_counts()?;
    let is_sound = incorrect.is_empty() && miscounted.is_empty();
    let record_json =
        |record: &CheckedRecord| json!({ "tenant": record.tenant.as_str(), "collection": record.collection, "key": record.key.as_str() });
    if as_json {
        let shown: Vec<_> = incorrect.iter().take(MAX_SHOWN).map(record_json).collect();
        let fails = failed.iter().take(MAX_SHOWN).map(|(CheckedRecord { tenant, collection, key }, failure)| {
            json!({ "tenant": tenant.as_str(), "collection": collection, "key": key.as_str(), "what": failure.lines().collect::<Vec<_>>() })
        });
        let fails: Vec<_> = fails.collect();
        say!(
            "{}",
            json!({
                "sound": is_sound, "miscounted": miscounted, "read": record_damage.read, "records": records, "changed": incorrect.len(), "wrong": shown, "undecided": inconclusive,
                "failing": failed.len(), "fails": fails,
            })
        );
        return Ok(u8::from(!is_sound));
    }
    say!("{} read, none damaged", count(record_damage.read, "record"));
    if !miscounted.is_empty() {
        say!("numbers of records were wrong and have been corrected:");
        miscounted.iter().for_each(|wrong| say!("  {wrong}"));
    }
    let records = count(records, "record");
    if incorrect.is_empty() {
        say!("all derived values of {records} are correct ({})", seconds(began.elapsed()));
    } else {
        say!("derived values of {} of {records} were wrong and have been corrected", number(incorrect.len() as u64));
        for CheckedRecord { tenant, collection, key } in incorrect.iter().take(MAX_SHOWN) {
            say!("  {collection} {}{}", key.as_str(), of_tenant(tenant));
        }
        if let more @ 1.. = incorrect.len().saturating_sub(MAX_SHOWN) {
            say!("  and {} more", number(more as u64));
        }
    }
    if !failed.is_empty() {
        say!("expressions failed on {}, which have no value for them:", count(failed.len() as u64, "record"));
        for (CheckedRecord { tenant, collection, key }, failure) in failed.iter().take(MAX_SHOWN) {
            failure.lines().for_each(|failure| say!("  {collection} {}{}: {failure}", key.as_str(), of_tenant(tenant)));
        }
        if let more @ 1.. = failed.len().saturating_sub(MAX_SHOWN) {
            say!("  and {} more", number(more as u64));
        }
    }
    if inconclusive > 0 {
        say!(
            "{} changed during running imports, so the check is inconclusive for them; check again when the imports have finished",
            number(inconclusive)
        );
    }
    Ok(u8::from(!is_sound))
}
