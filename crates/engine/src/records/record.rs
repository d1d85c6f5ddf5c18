//! Reads one record: its values, and their explanation.

pub use crate::content::collection::find_collection;
use crate::relations::left_out::left_out;
use crate::{EngineError, Result};
use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::{API_NAME, Catalogue, Collection};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::key::Key;
use stook_catalogue::links::{Derivation, Link, MAX_TARGETS};
use stook_catalogue::record::{Contribution, ContributionContent, Correction, UNKNOWN_TIME};
use stook_catalogue::survivorship::{Consolidator, GoldenRecord};
use stook_catalogue::value::{FieldType, Value, show_timestamp};
use stook_formats::marc::ReadOptions;
use stook_store::{ReadDetail, Store, StoredRecord, Tenant};

/// A record with its contributions.
pub struct ExplainedRecord<'c> {
    /// The definition of its collection.
    pub collection: &'c Collection,
    /// The stored record.
    pub stored: StoredRecord,
    /// Its contributions.
    pub contributions: Vec<Contribution>,
}

/// Which record to read.
#[derive(Debug, Clone, Copy)]
pub struct RecordAddress<'a> {
    /// Its tenant.
    pub tenant: &'a Tenant,
    /// Its collection.
    pub collection: &'a str,
    /// Its key.
    pub key: &'a str,
}

/// Reads a record. Returns `None` if there is none, or if it was deleted and `deleted` is false.
///
/// # Errors
/// When the collection is not known or the store fails.
pub fn get<'c>(catalogue: &'c Catalogue, store: &dyn Store, address: &RecordAddress<'_>, deleted: bool) -> Result<Option<ExplainedRecord<'c>>> {
    let (index, definition) = find_collection(catalogue, address.collection)?;
    let key = Key::new(address.key).map_err(|error| EngineError::Wrong(error.to_string()))?;
    let found = store.read(address.tenant, index, std::slice::from_ref(&key), ReadDetail::Full)?.pop().flatten();
    let Some(stored) = found.filter(|record| record.exists || deleted) else { return Ok(None) };
    let contributions = stored.contributions_of(definition)?;
    Ok(Some(ExplainedRecord { collection: definition, stored, contributions }))
}

/// Golden fields and state of a record as JSON, in the order of the definition, without absent ones.
pub fn to_json(collection: &Collection, stored: &StoredRecord) -> Json {
    let mut fields = Map::from_iter([("key".to_owned(), json!(stored.key.as_str()))]);
    fields.extend(collection.shown_values(&stored.golden, &stored.state));
    Json::Object(fields)
}

impl ExplainedRecord<'_> {
    /// Golden fields and state as JSON, in the order of the definition, without absent ones.
    pub fn to_json(&self) -> Json {
        to_json(self.collection, &self.stored)
    }

    /// The newest kept document, or the one of a contributor: the number of its syntax, and its bytes.
    pub fn document(&self, contributor: Option<&str>) -> Option<(u8, &[u8])> {
        self.newest_with_document(contributor)?.raw.as_ref().map(|raw| (raw.syntax, &*raw.bytes))
    }

    /// The options by which the source of the newest kept document reads MARC.
    pub fn marc_options(&self, catalogue: &Catalogue) -> ReadOptions {
        let source = self.newest_with_document(None).and_then(|contribution| catalogue.source(contribution.source()));
        source.map_or(ReadOptions::REPAIR, |(_, source)| source.reading.marc)
    }

    fn newest_with_document(&self, contributor: Option<&str>) -> Option<&Contribution> {
        let candidates = self.contributions.iter().filter(|contribution| contribution.raw.is_some() && contribution.counts());
        let candidates = candidates.filter(|contribution| contributor.is_none_or(|name| *contribution.contributor == *name));
        candidates.max_by_key(|contribution| (contribution.age(), contribution.contributor.clone()))
    }

    /// The explanation: for each golden field its value, the contributions that gave it and the rule, what was overruled, why an expression failed,
    /// and whether marks that may change it are pending; then the contributions themselves.
    ///
    /// # Errors
    /// When the store fails.
    pub fn explain(&self, catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant) -> Result<Json> {
        let is_row = self.collection.rows_of.is_some();
        let waits = (is_row || self.collection.settles()) && !store.marks(tenant, 1)?.is_empty();
        let evaluator = Evaluator::new(catalogue.tables.clone());
        let consolidator = Consolidator::new(catalogue, self.collection, &evaluator);
        let golden =
            GoldenRecord { values: self.stored.golden.as_slice().into(), alive: self.stored.exists, conflicts: self.stored.conflicts.clone() };
        let own = self.contributions.iter().find(|contribution| &*contribution.contributor == API_NAME);
        let mut fields = Map::new();
        for explanation in consolidator.explain(&self.contributions, &golden) {
            let field = &self.collection.fields[explanation.field];
            if field.is_member() {
                continue;
            }
            let value = &self.stored.golden[explanation.field];
            let failed = match &field.derive {
                Some(Derivation::SameRecord(expression)) if value.is_null() => {
                    evaluator.value(expression, &field.ty, &GoldenValues::new(self.collection, &self.stored.golden)).err()
                }
                Some(Derivation::LinkKeys(link)) if value.is_null() => {
                    crate::settle::ambiguity_of((catalogue, &evaluator), (store, tenant), *link, &self.stored.golden)?
                }
                Some(Derivation::ThroughLinks(_)) if value.is_null() => {
                    crate::settle::failure_of((catalogue, &evaluator), (store, tenant), self.collection, &self.stored.golden, field)?
                }
                _ => None,
            };
            let stale = waits && (field.is_settled() || is_row);
            let correction = own.and_then(|own| own.corrections.iter().find(|correction| correction.field == explanation.field));
            if value.is_null() && explanation.lost.is_empty() && failed.is_none() && !stale && correction.is_none() {
                continue;
            }
            let mut entry = Map::new();
            if stale {
                entry.insert("stale".into(), json!(true));
            }
            if let Some(reason) = failed {
                entry.insert("failed".into(), json!(reason));
            }
            entry.insert("value".into(), value.to_json(field.golden_type()));
            if let Some(Derivation::TargetKey(link, ..) | Derivation::LinkKeys(link)) = &field.derive {
                let link = &catalogue.links[*link];
                let planned = missing_targets(store, tenant, link, &self.stored.golden)?;
                if !planned.is_empty() {
                    entry.insert("planned".into(), json!(planned));
                }
                if link.many && value.elements().len() >= MAX_TARGETS {
                    entry.insert("most".into(), json!(MAX_TARGETS));
                }
            }
            match &field.derive {
                Some(derive) => {
                    entry.insert("derived".into(), json!(describe(catalogue, derive)));
                }
                None => {
                    entry.insert("rule".into(), json!(rule_name(catalogue, field)));
                    let winners: Vec<&str> = explanation.won.iter().map(|(contribution, _)| &*contribution.contributor).collect();
                    entry.insert("from".into(), json!(winners));
                    let other_values = explanation.won.iter().filter(|(_, won)| *won != value && **won != Value::Cleared);
                    let other_values: Map<String, Json> =
                        other_values.map(|(own, value)| (own.contributor.to_string(), value.to_json(&field.ty))).collect();
                    if !other_values.is_empty() {
                        entry.insert("said".into(), other_values.into());
                    }
                }
            }
            if !explanation.lost.is_empty() {
                let lost: Vec<Json> = explanation
                    .lost
                    .iter()
                    .map(|(contribution, value)| {
                        let as_of = contribution.value_as_of(explanation.field);
                        json!({"contributor": &*contribution.contributor, "value": value.to_json(&field.ty), "as_of": show_as_of(as_of)})
                    })
                    .collect();
                entry.insert("lost".into(), Json::Array(lost));
            }
            if let Some(correction) = correction {
                let contradicted_by = consolidator.contradicted_by(explanation.field, &self.contributions);
                entry.insert("correction".into(), shown_correction(correction, &field.ty, contradicted_by));
            }
            if golden.conflicts.contains(&explanation.field) {
                entry.insert("conflict".into(), json!(true));
            }
            fields.insert(field.name.clone(), Json::Object(entry));
        }
        let state: Map<String, Json> = self
            .collection
            .states
            .iter()
            .zip(&self.stored.state)
            .enumerate()
            .filter(|(_, (_, value))| !value.is_null())
            .map(|(index, (state, value))| {
                let set = self.stored.state_set.iter().any(|(set, _)| *set == index);
                (state.name.clone(), json!({"value": value.to_json(&state.ty), "from": if set { "transition" } else { "seed" }}))
            })
            .collect();
        let contributions: Vec<Json> = self
            .contributions
            .iter()
            .map(|contribution| {
                let unread = contribution.unreadable.iter().map(|own| {
                    let field = &self.collection.fields[own.field];
                    let last_readable = (own.as_of != UNKNOWN_TIME || !own.value.is_null())
                        .then(|| json!({"value": own.value.to_json(&field.ty), "as_of": show_as_of(own.as_of)}));
                    (field.name.clone(), last_readable.unwrap_or_default())
                });
                let unread: Map<String, Json> = unread.collect();
                let mut shown = json!({
                    "contributor": &*contribution.contributor,
                    "as_of": show_as_of(contribution.as_of),
                    "says": match contribution.content {
                        _ if !contribution.counts() => "retired",
                        ContributionContent::Tombstone => "deleted",
                        ContributionContent::Values(_) => "values",
                    },
                    "job": contribution.origin.job,
                    "document": contribution.origin.document,
                    "hash": contribution.hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
                    "raw_bytes": contribution.raw.as_ref().map(|raw| raw.bytes.len()),
                });
                if let Some(received) = contribution.received {
                    shown["received"] = json!(show_timestamp(received));
                }
                // fields that could not be read in the newest document; they keep the last readable value
                if !unread.is_empty() {
                    shown["unread"] = unread.into();
                }
                shown
            })
            .collect();
        let mut whole = Map::new();
        whole.insert("collection".into(), json!(self.collection.name));
        whole.insert("key".into(), json!(self.stored.key.as_str()));
        whole.insert("exists".into(), json!(self.stored.exists));
        whole.insert("changed".into(), json!(show_timestamp(self.stored.version.revision)));
        whole.insert("created_by_job".into(), json!(self.stored.created_job));
        whole.insert("fields".into(), Json::Object(fields));
        let left_out = catalogue.collection(&self.collection.name).map(|(own, _)| left_out(catalogue, own, &self.stored.golden)).unwrap_or_default();
        if !left_out.is_empty() {
            whole.insert("left_out".into(), json!(left_out));
        }
        if !state.is_empty() {
            whole.insert("state".into(), Json::Object(state));
        }
        whole.insert("contributions".into(), Json::Array(contributions));
        Ok(Json::Object(whole))
    }
}

/// Who edited a field, when and why, which values of others are corrected, and whether that still holds.
fn shown_correction(correction: &Correction, ty: &FieldType, contradicted_by: Option<&str>) -> Json {
    let mut shown = json!({ "by": &*correction.caller, "at": show_timestamp(correction.at) });
    if let Some(reason) = &correction.reason {
        shown["reason"] = json!(reason);
    }
    if let Some(corrects) = &correction.corrects {
        shown["corrects"] = corrects.iter().map(|(contributor, value)| (contributor.to_string(), value.to_json(ty))).collect::<Map<_, _>>().into();
        shown["holds"] = json!(contradicted_by.is_none());
    }
    if let Some(contributor) = contradicted_by {
        shown["contradicted_by"] = json!(contributor);
    }
    shown
}

/// The keys of targets that do not exist yet.
fn missing_targets(store: &dyn Store, tenant: &Tenant, link: &Link, values: &[Value]) -> Result<Vec<String>> {
    let keys: Vec<Key> = link.target_keys(values).filter_map(|key| Key::new(key.clone()).ok()).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let found = store.read(tenant, link.target_collection, &keys, ReadDetail::Head)?;
    let missing = keys.iter().zip(found).filter(|(_, record)| record.as_ref().is_none_or(|record| !record.exists));
    Ok(missing.map(|(key, _)| key.to_string()).collect())
}

fn show_as_of(as_of: i64) -> Json {
    if as_of == UNKNOWN_TIME { Json::Null } else { json!(show_timestamp(as_of)) }
}

/// Describes in words how a derived value is computed.
fn describe(catalogue: &Catalogue, derive: &Derivation) -> String {
    match derive {
        Derivation::SameRecord(expression) | Derivation::ThroughLinks(expression) => expression.source().to_owned(),
        Derivation::TargetKey(link, ..) | Derivation::LinkKeys(link) => {
            let link = &catalogue.links[*link];
            let target = &catalogue.collections[link.target_collection].name;
            if link.many { format!("all targets of {target}") } else { format!("the linked {target}") }
        }
        Derivation::Pending => "linked".into(),
        Derivation::Sources => "sources that contribute to the record".into(),
        Derivation::Member(..) => "a member of the structs in a list".into(),
        Derivation::Rollup(rollup) => {
            let link = &catalogue.links[rollup.link];
            let child = &catalogue.collections[link.child_collection];
            let field = rollup.edge_field.map_or_else(String::new, |told| format!(" of {}", child.fields[link.edge_fields[told]].name));
            format!("{:?}{field} over {}.{}", rollup.function, child.name, link.name).to_lowercase()
        }
    }
}

/// The rule by which the golden values of a field are chosen, as definitions write it.
pub fn rule_name(catalogue: &Catalogue, field: &stook_catalogue::definition::Field) -> String {
    use stook_catalogue::definition::Survivorship;
    match &field.survivorship {
        Survivorship::Latest => "latest".into(),
        Survivorship::Earliest => "earliest".into(),
        Survivorship::Union => "union".into(),
        Survivorship::UnionBy(member) => format!("union by {}", field.ty.members()[*member].name),
        Survivorship::ByContributor => "by_contributor".into(),
        Survivorship::Prefer { sources, then_earliest } => {
            let names: Vec<&str> = sources.iter().map(|source| catalogue.contributor_name(*source)).collect();
            format!("prefer {} then {}", names.join(", "), if *then_earliest { "earliest" } else { "latest" })
        }
    }
}
