//! The store schema that a store was prepared for, and whether another definition can be applied to it.
//!
//! The schema is kept in the store. Additions are applied when a store is opened with `prepare`. Changes that would make stored golden values wrong
//! are refused, with advice. A changed mapping is allowed: contributions carry the number of the mapping that made them, and the next import of the
//! same documents brings them up to date.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use stook_catalogue::definition::{Catalogue, FieldIndexes, SourceRef};
use stook_catalogue::eval::Expression;
use stook_catalogue::links::Derivation;

/// The parts of a definition that decide how records are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct StoreSchema {
    /// Collections by name.
    pub collections: BTreeMap<String, CollectionSchema>,
}

/// How a collection is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct CollectionSchema {
    /// How keys are computed.
    pub key: String,
    /// The rule that decides whether a record exists.
    pub exists: String,
    /// Whether there is an index of changes.
    #[serde(default)]
    pub published: bool,
    /// Golden fields by name.
    pub fields: BTreeMap<String, FieldSchema>,
    /// State fields by name.
    pub states: BTreeMap<String, FieldSchema>,
}

/// How a field is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct FieldSchema {
    /// Type of golden values.
    pub ty: String,
    /// What determines the golden value: survivorship, sources, derivation.
    pub rule: String,
    /// Whether values are compared folded.
    pub fold: bool,
    /// Whether only one record may have a value.
    pub unique: bool,
    /// Whether there is an ordered index.
    pub ordered: bool,
    /// Whether there is a trigram index.
    pub contains: bool,
    /// Whether there is an index of bounding boxes.
    #[serde(default)]
    pub intersects: bool,
    /// Whether there is an index of words.
    #[serde(default)]
    pub words: bool,
    /// Whether there is an index of a link's children.
    #[serde(default)]
    pub linked: bool,
    /// Whether values are settled; all are settled again if the rules change.
    #[serde(default)]
    pub settled: bool,
}

impl FieldSchema {
    /// The field's indexes.
    pub fn index(&self) -> FieldIndexes {
        FieldIndexes { ordered: self.ordered, contains: self.contains, intersects: self.intersects, words: self.words, by_link: self.linked }
    }

    /// Whether values are lists.
    pub fn is_list(&self) -> bool {
        self.ty.starts_with('[')
    }

    /// Whether no contributor has ever given a value.
    fn is_derived(&self) -> bool {
        let rule = without_comparison(&self.rule);
        !rule.is_empty() && !rule.ends_with(" None")
    }

    /// Whether a field stored like this becomes `wanted` when its records are consolidated again from the contributions that are kept: another
    /// contributor's value is chosen, or contributors are compared. A unique value could be refused then, so that the order of records would matter.
    fn is_chosen_otherwise(&self, wanted: &Self) -> bool {
        let is_stored_alike = self.ty == wanted.ty && self.fold == wanted.fold;
        let (before, after) = (contributors_of(&self.rule), contributors_of(&wanted.rule));
        is_stored_alike && self.rule != wanted.rule && before.is_some() && before == after && !self.unique && !wanted.unique
    }

    /// Whether a field stored like this may become `wanted`: its values were never contributed and will be settled again.
    fn can_become(&self, wanted: &Self) -> bool {
        self.is_derived() && wanted.settled
    }

    /// Whether its values must be converted to lists, or from lists to single values.
    pub fn is_reshaped(&self, wanted: &Self) -> bool {
        let key_types = ["text", "[text]"];
        self.ty != wanted.ty && self.can_become(wanted) && key_types.contains(&&*self.ty) && key_types.contains(&&*wanted.ty)
    }
}

/// A rule up to the derivation, behind which stands how contributors are compared: `true`, `folded`, `within DISTANCE`, or `false`.
fn without_comparison(rule: &str) -> &str {
    let named = [" false", " true", " folded"].into_iter().find_map(|comparison| rule.strip_suffix(comparison));
    let within = || rule.rsplit_once(" within ").filter(|(_, distance)| !distance.contains([' ', '"'])).map(|(rule, _)| rule);
    named.or_else(within).unwrap_or(rule)
}

/// The sources that may contribute to a field with this rule, as the rule has them; `None` if it is derived.
fn contributors_of(rule: &str) -> Option<&str> {
    let rule = without_comparison(rule).strip_suffix(" None")?;
    match rule.strip_suffix(" None") {
        Some(_) => Some(""),
        None => rule.rfind(" Some([").map(|at| &rule[at..]),
    }
}

/// What a store has recorded about itself and the definition it was prepared for.
#[derive(Debug, Default)]
pub(crate) struct StoredDefinition {
    /// Format and hash of the definition.
    pub definition: Option<String>,
    /// Its [`StoreSchema`].
    pub shape: Option<String>,
    /// Names of its collections in order, as [`collection_names_json`] writes them.
    pub collections: Option<String>,
    /// The rules by which records were settled.
    pub settled: Option<String>,
}

/// What a store has recorded about the definition that it was prepared for, for those who want to know before they prepare it for another one.
#[derive(Debug)]
pub struct PreparedFor {
    /// The schema of that definition.
    schema: StoreSchema,
    /// The store's format, if it is an earlier one that `prepare` upgrades.
    earlier_format: Option<String>,
    /// The format that this program writes.
    own_format: &'static str,
    /// The rules by which records were settled.
    settled: Option<String>,
}

impl PreparedFor {
    /// Reads it from the store's own notes.
    ///
    /// # Errors
    /// When they cannot be read, or the store has a format that cannot be upgraded.
    pub(crate) fn read<E: From<crate::StoreError>>(
        own_format: &'static str,
        upgraded: &[&str],
        meta: &mut dyn FnMut(&str) -> Result<Option<String>, E>,
    ) -> Result<Self, E> {
        let earlier_format = meta("format")?.filter(|format| format != own_format);
        if let Some(format) = earlier_format.as_deref().filter(|format| !upgraded.contains(format)) {
            return Err(other_format(Some(format), own_format, upgraded).into());
        }
        Ok(Self { schema: parse_schema(meta("shape")?.as_deref())?, earlier_format, own_format, settled: meta("settled")? })
    }

    /// Why a definition cannot be applied to the store, in sentences; empty if it can.
    pub fn refusals(&self, catalogue: &Catalogue) -> Vec<String> {
        self.schema.refusals(&StoreSchema::from_catalogue(catalogue))
    }

    /// What preparing the store for a definition changes in it, in sentences.
    pub fn changes(&self, catalogue: &Catalogue) -> Vec<String> {
        let upgrade = self.earlier_format.iter().map(|format| upgrade_text("is", format, self.own_format));
        let settled_again = self.settled.iter().filter(|settled| **settled != catalogue.settling);
        let settled_again = settled_again.map(|_| "links or their rules differ: derived values are settled again where they differ".to_owned());
        upgrade.chain(self.schema.changes(&StoreSchema::from_catalogue(catalogue))).chain(settled_again).collect()
    }
}

/// How a process uses a store that it does not prepare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessMode {
    /// Reads and writes records: the store must hold exactly the same definition.
    Write,
    /// Reads records: a definition with the same store schema is enough.
    Read,
    /// Uses jobs, chunks and tokens only: any definition will do.
    Admin,
}

/// Writes the names of collections in their order; journals contain their numbers.
pub(crate) fn collection_names_json(catalogue: &Catalogue) -> String {
    serde_json::json!(catalogue.collections.iter().map(|collection| collection.name.as_str()).collect::<Vec<_>>()).to_string()
}

/// Reads what [`collection_names_json`] wrote.
pub(crate) fn parse_collection_names(names: Option<&str>) -> crate::Result<Vec<String>> {
    let missing = || crate::StoreError::Definition("the store has no list of its collections; run `stook prepare` to add it".into());
    names.and_then(|names| serde_json::from_str(names).ok()).ok_or_else(missing)
}

/// What is said about a store that was brought up to date.
pub(crate) fn upgraded(from: &str, to: &str) -> String {
    upgrade_text("was", from, to)
}

/// Says that a store is, or was, upgraded.
fn upgrade_text(is: &str, from: &str, to: &str) -> String {
    format!("the store {is} upgraded from format {from} to {to}; older versions of this program can no longer open it")
}

/// The error for a store of another format. Formats in `upgraded` can be upgraded by `stook prepare`.
pub(crate) fn other_format(format: Option<&str>, own_format: &str, upgraded: &[&str]) -> crate::StoreError {
    let format = format.unwrap_or("?");
    let advice = if upgraded.contains(&format) { "`stook prepare` brings it up to date" } else { "use the program that wrote it" };
    crate::StoreError::Definition(format!("the store has format {format}, this program writes format {own_format}; {advice}"))
}

impl StoredDefinition {
    /// Checks whether a process with this definition, for which a store records `recorded`, may use the store as it is.
    ///
    /// # Errors
    /// When it may not: what differs, and what to do.
    pub(crate) fn check_usable(&self, catalogue: &Catalogue, recorded: &str, wanted: &StoreSchema, purpose: AccessMode) -> crate::Result<()> {
        if purpose == AccessMode::Admin || self.definition.as_deref() == Some(recorded) {
            return Ok(());
        }
        let old = parse_schema(self.shape.as_deref())?;
        let is_settled_alike = self.settled.as_deref().is_none_or(|settled| settled == catalogue.settling);
        let is_stored_alike = old == *wanted && self.collections.as_deref() == Some(collection_names_json(catalogue).as_str()) && is_settled_alike;
        if purpose == AccessMode::Read && is_stored_alike {
            return Ok(());
        }
        old.check(wanted)?;
        let mut differences = old.changes(wanted);
        if differences.is_empty() {
            differences.push(
                "the difference does not affect how records are stored: mappings, rules, links, routes, services or the order of collections".into(),
            );
        }
        Err(crate::StoreError::Definition(format!(
            "this catalogue.yaml is not the one the store was prepared for, and nothing was changed; what differs:\n  - {}\n\
             `stook prepare` applies it; servers and workers that run with the one before must be started again then",
            differences.join("\n  - ")
        )))
    }
}

/// Reads the schema that a store has recorded.
pub(crate) fn parse_schema(schema: Option<&str>) -> crate::Result<StoreSchema> {
    let damaged = |error| crate::StoreError::Other(format!("the definition recorded in the store cannot be read: {error}"));
    serde_json::from_str(schema.unwrap_or_default()).map_err(damaged)
}

impl StoreSchema {
    /// The schema of a definition.
    pub fn from_catalogue(catalogue: &Catalogue) -> Self {
        let source = |contributor: &SourceRef| catalogue.contributor_name(*contributor).to_owned();
        let collections = catalogue.collections.iter().map(|collection| {
            let fields = collection.fields.iter().map(|field| {
                let survivorship = match &field.survivorship {
                    stook_catalogue::definition::Survivorship::Prefer { sources, then_earliest } => {
                        format!("prefer {:?} {then_earliest}", sources.iter().map(source).collect::<Vec<_>>())
                    }
                    other => format!("{other:?}"),
                };
                let from = field.from.as_ref().map(|sources| sources.iter().map(source).collect::<Vec<_>>());
                // how settled values are computed may change: they are settled again
                let derive = field.derive.as_ref().map(|derive| match derive {
                    Derivation::SameRecord(expression) => expression.source().to_owned(),
                    Derivation::TargetKey(_, when, key) => format!("{:?} {key:?}", when.as_ref().map(Expression::source)),
                    Derivation::Member(list, _) => format!("member of {}", collection.fields[*list].name),
                    Derivation::Sources => "sources".to_owned(),
                    _ => "settled".to_owned(),
                });
                let compare = field.compare.map_or_else(|| "false".to_owned(), |comparison| comparison.to_string());
                let schema = FieldSchema {
                    // members are separate fields
                    ty: if field.golden_type().members().is_empty() { field.golden_type().to_string() } else { "[{}]".into() },
                    rule: format!("{survivorship} {from:?} {derive:?} {compare}"),
                    fold: field.fold,
                    unique: field.unique,
                    ordered: field.index.ordered,
                    contains: field.index.contains,
                    intersects: field.index.intersects,
                    words: field.index.words,
                    linked: field.index.by_link,
                    settled: field.is_settled() || field.is_link(),
                };
                (field.name.clone(), schema)
            });
            let states = collection.states.iter().map(|state| {
                let schema =
                    FieldSchema { ty: state.ty.to_string(), ordered: state.index.ordered, contains: state.index.contains, ..FieldSchema::default() };
                (state.name.clone(), schema)
            });
            let schema = CollectionSchema {
                key: collection.key_text.clone(),
                exists: format!("{:?}", collection.exists),
                published: collection.publish.is_some(),
                fields: fields.collect(),
                states: states.collect(),
            };
            (collection.name.clone(), schema)
        });
        Self { collections: collections.collect() }
    }

    /// Checks whether a definition can be applied to a store with this schema.
    ///
    /// # Errors
    /// When it cannot: all reasons, and what to do.
    pub fn check(&self, wanted: &StoreSchema) -> crate::Result<()> {
        let refusals = self.refusals(wanted);
        if refusals.is_empty() {
            return Ok(());
        }
        Err(crate::StoreError::Definition(format!(
            "this catalogue.yaml is not compatible with the store:\n  - {}\nrevert these changes, or export with the old definition and import into a new store (--store)",
            refusals.join("\n  - ")
        )))
    }

    /// Collections whose records must be consolidated again for `wanted`, with the fields whose rules differ.
    pub(crate) fn consolidated_again(&self, wanted: &StoreSchema) -> BTreeMap<String, Vec<String>> {
        let mut collections: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, old) in &self.collections {
            let Some(new) = wanted.collections.get(name) else { continue };
            for (field, old) in &old.fields {
                if new.fields.get(field).is_some_and(|new| old.is_chosen_otherwise(new)) {
                    collections.entry(name.clone()).or_default().push(field.clone());
                }
            }
        }
        collections
    }

    /// What changes in a store with this schema when it is prepared for `wanted`, in sentences.
    pub fn changes(&self, wanted: &StoreSchema) -> Vec<String> {
        let mut changes = Vec::new();
        for (name, new) in &wanted.collections {
            let Some(old) = self.collections.get(name) else {
                changes.push(format!("collection `{name}` is new"));
                continue;
            };
            match (old.published, new.published) {
                (false, true) => changes.push(format!("records of `{name}` get an index by the time of their last change, as they are published")),
                (true, false) => changes.push(format!("records of `{name}` are no longer published")),
                _ => {}
            }
            for (field, new) in &new.fields {
                match old.fields.get(field) {
                    None => changes.push(format!("field `{name}.{field}` is new; import documents again to fill it")),
                    Some(old) if old.is_reshaped(new) => {
                        let keys = if new.is_list() { "a list of keys" } else { "one key" };
                        changes.push(format!("`{name}.{field}` is {keys} now, and is settled again"));
                    }
                    Some(old) => report_index(&mut changes, name, field, new.index(), old.index()),
                }
                if !new.unique && old.fields.get(field).is_some_and(|old| old.unique) {
                    changes.push(format!("`{name}.{field}` is not unique any more"));
                }
            }
            for (field, new) in &new.states {
                match old.states.get(field) {
                    None => changes.push(format!("state field `{name}.{field}` is new")),
                    Some(old) => {
                        // lists have no index there
                        let index = |state: &FieldSchema| FieldIndexes { ordered: state.ordered && !state.is_list(), ..FieldIndexes::default() };
                        report_index(&mut changes, name, field, index(new), index(old));
                    }
                }
            }
        }
        changes.extend(self.consolidated_again(wanted).iter().map(|(collection, fields)| report_consolidated_again(collection, fields)));
        changes
    }

    /// Reasons why `wanted` cannot be applied to a store with this schema, in sentences; empty if it can.
    pub fn refusals(&self, wanted: &StoreSchema) -> Vec<String> {
        let mut reasons = Vec::new();
        for (name, old) in &self.collections {
            let Some(new) = wanted.collections.get(name) else {
                reasons.push(format!("collection `{name}` is not in the definition any more, its records are in the store"));
                continue;
            };
            if old.key != new.key {
                reasons.push(format!("the key of `{name}` was `{}` and is now `{}`", old.key, new.key));
            }
            if old.exists != new.exists {
                reasons.push(format!("`exists` of `{name}` changed"));
            }
            for (kind, old_fields, new_fields) in [("field", &old.fields, &new.fields), ("state field", &old.states, &new.states)] {
                for (field, old) in old_fields {
                    let Some(new) = new_fields.get(field) else {
                        reasons.push(format!("{kind} `{name}.{field}` is not in the definition any more"));
                        continue;
                    };
                    if old.ty != new.ty && !old.is_reshaped(new) {
                        reasons.push(format!("{kind} `{name}.{field}` was of type {} and is now {}", old.ty, new.ty));
                    }
                    if old.rule != new.rule && !old.can_become(new) && !old.is_chosen_otherwise(new) {
                        reasons.push(format!("the rule for the golden value of `{name}.{field}` changed"));
                    }
                    if old.fold != new.fold {
                        reasons.push(format!("`fold` of `{name}.{field}` changed"));
                    }
                    if !old.unique && new.unique {
                        reasons.push(format!("`{name}.{field}` is now unique, records in the store may not be"));
                    }
                }
            }
        }
        reasons
    }
}

/// The beginning of the names in `meta` of collections whose records wait to be consolidated again.
const CONSOLIDATED_AGAIN: &str = "consolidate ";

/// The name in `meta` that says that the records of a collection wait to be consolidated again.
pub(crate) fn consolidated_again_name(collection: &str) -> String {
    format!("{CONSOLIDATED_AGAIN}{collection}")
}

/// Says that records of a collection are consolidated again.
fn report_consolidated_again(collection: &str, fields: &[String]) -> String {
    format!(
        "values of `{collection}` are chosen by other rules ({}): they are consolidated again, and stay as they are until then",
        fields.join(", ")
    )
}

/// What to do with an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexChange {
    /// Create it.
    Create,
    /// Drop it.
    Drop,
    /// Leave it as it is, present or not.
    Nothing,
}

impl IndexChange {
    /// Chooses the change by whether the index is wanted and whether it exists.
    pub(crate) fn choose(wanted: bool, exists: bool) -> Self {
        match (wanted, exists) {
            (true, false) => Self::Create,
            (false, true) => Self::Drop,
            _ => Self::Nothing,
        }
    }
}

/// Says what happens to the indexes of an existing field.
fn report_index(changes: &mut Vec<String>, collection: &str, field: &str, wanted: FieldIndexes, existing: FieldIndexes) {
    let has_gained = |before: FieldIndexes, after: FieldIndexes| {
        let kinds = |index: FieldIndexes| [index.ordered, index.contains, index.intersects, index.words];
        kinds(before).into_iter().zip(kinds(after)).any(|(before, after)| after && !before)
    };
    if has_gained(existing, wanted) {
        changes.push(format!("index on `{collection}.{field}` is new"));
    }
    if has_gained(wanted, existing) {
        changes.push(format!("index on `{collection}.{field}` was dropped"));
    }
}
