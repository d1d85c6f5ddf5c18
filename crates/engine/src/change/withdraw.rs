//! Withdrawals: removing what a source has contributed, as if it had never been contributed.

use super::removal::{Purpose, Removal, RemovalUnit, RemoveContributions};
use crate::content::collection::find_collection;
use crate::job::NO_JOB;
use crate::job::sizes::PAGE;
use crate::job::source::find_source;
use crate::relations::{SettleRules, SettlingUnit};
use crate::settle;
use crate::{EngineError, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_catalogue::definition::{API_NAME, Catalogue};
use stook_catalogue::eval::ExpressionFailures;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::journal::Outcome;
use stook_store::{SettlingChanges, Store, Tenant};

/// The result of a withdrawal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WithdrawalReport {
    /// Records that lost a contribution.
    pub records: u64,
    /// Those of them that no longer exist.
    pub deleted: u64,
    /// Those of them that are kept without any contribution, because transitions have set their state.
    pub kept_for_state: u64,
    /// Expressions that fail for these records without it.
    pub failures: ExpressionFailures,
    /// Records that keep the contribution, because without it they would get a unique value that another record has; a sentence for each.
    pub unique_conflicts: Vec<String>,
}

impl WithdrawalReport {
    fn add(&mut self, other: Self) {
        self.records += other.records;
        self.deleted += other.deleted;
        self.kept_for_state += other.kept_for_state;
        self.failures.include(other.failures);
        self.unique_conflicts.extend(other.unique_conflicts);
    }
}

/// What is to be withdrawn.
#[derive(Debug, Clone, Copy)]
pub struct WithdrawalRequest<'r> {
    /// The tenant of the records.
    pub tenant: &'r Tenant,
    /// A source, or `source:part`.
    pub contributor: &'r str,
    /// Only from this collection; if `None`, from all collections that the contributor feeds.
    pub collection: Option<&'r str>,
    /// Only from the record with this key.
    pub key: Option<&'r str>,
}

/// Withdraws all contributions of a contributor from one collection or all it feeds, or from one record; values that they overruled count again.
/// `show` is called with the number of records that have lost a contribution so far.
///
/// # Errors
/// When the names are not known, or the store fails; what was withdrawn until then stays withdrawn.
pub fn withdraw(catalogue: &Arc<Catalogue>, store: &dyn Store, request: &WithdrawalRequest<'_>, show: &dyn Fn(u64)) -> Result<WithdrawalReport> {
    let WithdrawalRequest { tenant, contributor, collection, key } = *request;
    let source = contributor.split(':').next().unwrap_or(contributor);
    let source_definition = match source {
        API_NAME => None,
        _ => Some(&catalogue.sources[find_source(catalogue, source)?]),
    };
    let collections: Vec<CollectionId> = match (collection, source_definition) {
        (Some(name), _) => vec![find_collection(catalogue, name)?.0],
        (None, Some(source)) => source.feeds.iter().map(|feed| feed.collection).collect(),
        (None, None) => catalogue.collections.ids().collect(),
    };
    if key.is_some() && collections.len() != 1 {
        return Err(EngineError::Wrong("--key requires --collection".into()));
    }
    let collection_is_all = collection.is_none();
    let rules = Arc::new(SettleRules::new(catalogue));
    let withdrawn = contributor.to_owned();
    let removes: RemoveContributions = Arc::new(move |contributions| {
        contributions.retain(|contribution| *contribution.contributor != *withdrawn && contribution.source() != withdrawn);
    });
    let caller = format!("withdrawal of {contributor}");
    let removal = Removal { tenant: tenant.clone(), removes, caller, purpose: Purpose::Withdrawal, job: NO_JOB };
    let mut total = WithdrawalReport::default();
    for collection in collections {
        if let Some(key) = key {
            let key = Key::new(key).map_err(|error| EngineError::Wrong(error.to_string()))?;
            total.add(page(&rules, store, &removal, collection, &[key])?);
            continue;
        }
        let mut after = String::new();
        loop {
            let keys = store.keys_after(tenant, collection, &after, PAGE)?;
            let Some(last) = keys.last() else { break };
            last.as_str().clone_into(&mut after);
            total.add(page(&rules, store, &removal, collection, &keys)?);
            show(total.records);
        }
    }
    if let Some(replaces) = source_definition.and_then(|source| source.replaces.as_ref()).filter(|_| contributor == source && collection_is_all) {
        // without its ledger, what the source delivers again is not retired on arrival
        let forget = replaces.links().to_vec();
        store.commit(Box::new(SettlingUnit {
            tenant: tenant.clone(),
            settling: SettlingChanges { cleared_links: forget, ..SettlingChanges::default() },
        }))?;
    }
    Ok(total)
}

/// Removes contributions from some records.
pub(crate) fn page(
    rules: &Arc<SettleRules>,
    store: &dyn Store,
    removal: &Removal,
    collection: CollectionId,
    keys: &[Key],
) -> Result<WithdrawalReport> {
    let unit = RemovalUnit::new(rules, store, removal, &BTreeMap::from([(collection, keys.to_vec())]), None)?;
    let results = unit.results();
    if !unit.is_empty() {
        store.commit(Box::new(unit))?;
    }
    let results = results.lock().map(|results| results.written()).unwrap_or_default();
    let mut report = WithdrawalReport::default();
    for ((_, key), removed) in results.records {
        report.records += 1;
        report.deleted += u64::from(removed.outcome == Outcome::Withdrawn);
        report.kept_for_state += u64::from(removed.is_kept_for_state);
        report.failures.add(&rules.catalogue.collections[collection].name, key.as_str(), removed.failures);
    }
    report.unique_conflicts = results.unique_conflicts.iter().map(|refused| settle::why_refused(&rules.catalogue, refused)).collect();
    Ok(report)
}
