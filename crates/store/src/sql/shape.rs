//! What a store was prepared for, and whether another definition can be applied to it.
//!
//! The shape is kept in the store. Additions are applied when a store is opened. Changes that would make stored golden
//! values wrong are refused with what to do. A changed map is allowed: contributions carry the number of the map that made
//! them, and the next import of the same documents brings them up to date.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use stook_catalogue::definition::{Catalogue, FieldIndexes, SourceRef};
use stook_catalogue::eval::Expression;
use stook_catalogue::links::Derivation;

/// The parts of a definition that decide how rows look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct StoreSchema {
    /// Collections by name.
    pub collections: BTreeMap<String, CollectionSchema>,
}

/// A collection's rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct CollectionSchema {
    /// How keys are made.
    pub key: String,
    /// What decides existence.
    pub exists: String,
    /// Golden fields by name.
    pub fields: BTreeMap<String, FieldSchema>,
    /// State fields by name.
    pub states: BTreeMap<String, FieldSchema>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct FieldSchema {
    /// Type of golden values.
    pub ty: String,
    /// What makes the golden value: survivorship, sources, derivation.
    pub rule: String,
    /// Compared folded.
    pub fold: bool,
    /// One record per value.
    pub unique: bool,
    /// Ordered index.
    pub ordered: bool,
    /// Trigram index.
    pub contains: bool,
    /// Index of boxes around geometries.
    #[serde(default)]
    pub intersects: bool,
    /// Index of a link's children.
    #[serde(default)]
    pub linked: bool,
    /// Whether values are settled, all of them again where the rules change.
    #[serde(default)]
    pub settled: bool,
}

impl FieldSchema {
    /// Its indexes.
    pub fn index(&self) -> FieldIndexes {
        FieldIndexes { ordered: self.ordered, contains: self.contains, intersects: self.intersects, by_link: self.linked }
    }

    /// Whether values are lists.
    pub fn is_list(&self) -> bool {
        self.ty.starts_with('[')
    }

    /// Whether no contributor has ever given a value: the rule ends in how it is derived, and whether contributors are compared.
    fn is_derived(&self) -> bool {
        let rule = self.rule.trim_end_matches(" false").trim_end_matches(" true");
        !rule.is_empty() && !rule.ends_with(" None")
    }

    /// Whether a field of this shape becomes one of another, whose values are settled again and were never contributed.
    fn becomes(&self, wanted: &Self) -> bool {
        self.is_derived() && wanted.settled
    }

    /// Whether its values must become lists, or stop being some.
    pub fn is_reshaped(&self, wanted: &Self) -> bool {
        let keys = ["text", "[text]"];
        self.ty != wanted.ty && self.becomes(wanted) && keys.contains(&&*self.ty) && keys.contains(&&*wanted.ty)
    }
}

/// What a store says of itself and of the definition it was prepared for.
#[derive(Debug, Default)]
pub(crate) struct StoredDefinition {
    /// What it notes of the definition.
    pub definition: Option<String>,
    /// Its [`StoreSchema`].
    pub shape: Option<String>,
    /// Names of its collections in their order, as [`names`] writes them.
    pub collections: Option<String>,
    /// The rules by which records were settled.
    pub settled: Option<String>,
}

/// What a process wants to do with a store that it does not prepare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessMode {
    /// Read and write records: it must hold the very definition.
    Write,
    /// Read records: a definition by which rows look alike is enough.
    Read,
    /// Jobs, chunks and tokens: any definition is good.
    Admin,
}

/// Names of collections in their order: journals say their numbers.
pub(crate) fn names(catalogue: &Catalogue) -> String {
    serde_json::json!(catalogue.collections.iter().map(|own| own.name.as_str()).collect::<Vec<_>>()).to_string()
}

/// The same, read.
pub(crate) fn named(names: Option<&str>) -> crate::Result<Vec<String>> {
    let missing = || crate::StoreError::Definition("the store has no list of its collections; run `stook prepare` to add it".into());
    names.and_then(|names| serde_json::from_str(names).ok()).ok_or_else(missing)
}

/// The refusal of a store of another release. Those of formats in `upgraded` are brought up to date.
pub(crate) fn other_format(format: Option<&str>, own: &str, upgraded: &[&str]) -> crate::StoreError {
    let format = format.unwrap_or("?");
    let advice = if upgraded.contains(&format) { "`stook prepare` brings it up to date" } else { "use the program that wrote it" };
    crate::StoreError::Definition(format!("the store has format {format}, this program writes format {own}; {advice}"))
}

impl StoredDefinition {
    /// Whether a process with this definition, of which a store notes `noted`, may use the store as it is; else what differs, and what to do.
    ///
    /// # Errors
    /// When it may not.
    pub(crate) fn fits(&self, catalogue: &Catalogue, noted: &str, wanted: &StoreSchema, purpose: AccessMode) -> crate::Result<()> {
        if purpose == AccessMode::Admin || self.definition.as_deref() == Some(noted) {
            return Ok(());
        }
        let old = stored(self.shape.as_deref())?;
        let settled_alike = self.settled.as_deref().is_none_or(|settled| settled == catalogue.settling);
        let alike = old == *wanted && self.collections.as_deref() == Some(names(catalogue).as_str()) && settled_alike;
        if purpose == AccessMode::Read && alike {
            return Ok(());
        }
        old.check(wanted)?;
        let mut differences = old.additions(wanted);
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

/// The shape that a store has kept.
pub(crate) fn stored(shape: Option<&str>) -> crate::Result<StoreSchema> {
    let damaged = |error| crate::StoreError::Other(format!("the definition recorded in the store cannot be read: {error}"));
    serde_json::from_str(shape.unwrap_or_default()).map_err(damaged)
}

impl StoreSchema {
    /// The shape a definition asks for.
    pub fn of(catalogue: &Catalogue) -> Self {
        let source = |speaker: &SourceRef| catalogue.contributor_name(*speaker).to_owned();
        let collections = catalogue.collections.iter().map(|collection| {
            let fields = collection.fields.iter().map(|field| {
                let survivorship = match &field.survivorship {
                    stook_catalogue::definition::Survivorship::Prefer { sources, then_earliest } => {
                        format!("prefer {:?} {then_earliest}", sources.iter().map(source).collect::<Vec<_>>())
                    }
                    other => format!("{other:?}"),
                };
                let from = field.from.as_ref().map(|sources| sources.iter().map(source).collect::<Vec<_>>());
                // what the settle machine gives may change: it is settled again
                let derive = field.derive.as_ref().map(|derive| match derive {
                    Derivation::SameRecord(expression) => expression.source().to_owned(),
                    Derivation::TargetKey(_, when, key) => format!("{:?} {key:?}", when.as_ref().map(Expression::source)),
                    Derivation::Member(list, _) => format!("member of {}", collection.fields[*list].name),
                    Derivation::Sources => "sources".to_owned(),
                    _ => "settled".to_owned(),
                });
                let shape = FieldSchema {
                    // members are fields of their own
                    ty: if field.golden_type().members().is_empty() { field.golden_type().to_string() } else { "[{}]".into() },
                    rule: format!("{survivorship} {from:?} {derive:?} {}", field.compare),
                    fold: field.fold,
                    unique: field.unique,
                    ordered: field.index.ordered,
                    contains: field.index.contains,
                    intersects: field.index.intersects,
                    linked: field.index.by_link,
                    settled: field.is_settled() || field.is_link(),
                };
                (field.name.clone(), shape)
            });
            let states = collection.states.iter().map(|state| {
                let shape =
                    FieldSchema { ty: state.ty.to_string(), ordered: state.index.ordered, contains: state.index.contains, ..FieldSchema::default() };
                (state.name.clone(), shape)
            });
            let shape = CollectionSchema {
                key: collection.key_text.clone(),
                exists: format!("{:?}", collection.exists),
                fields: fields.collect(),
                states: states.collect(),
            };
            (collection.name.clone(), shape)
        });
        Self { collections: collections.collect() }
    }

    /// Refuses a definition that does not fit a store of this shape.
    ///
    /// # Errors
    /// With all reasons, and what to do.
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

    /// What `wanted` has that a store of this shape has not, in plain sentences.
    fn additions(&self, wanted: &StoreSchema) -> Vec<String> {
        let mut additions = Vec::new();
        for (name, new) in &wanted.collections {
            let Some(old) = self.collections.get(name) else {
                additions.push(format!("collection `{name}` is not in the store"));
                continue;
            };
            for (kind, old_fields, new_fields) in [("field", &old.fields, &new.fields), ("state field", &old.states, &new.states)] {
                for (field, new) in new_fields {
                    match old_fields.get(field) {
                        None => additions.push(format!("{kind} `{name}.{field}` is not in the store")),
                        Some(old) if old.index() != new.index() => additions.push(format!("indexes of `{name}.{field}` differ")),
                        Some(old) if old.unique != new.unique => additions.push(format!("`{name}.{field}` is unique in the store")),
                        Some(_) => {}
                    }
                }
            }
        }
        additions
    }

    /// Reasons why `wanted` cannot be applied to a store of this shape, in plain sentences; empty when it can.
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
                    if old.rule != new.rule && !old.becomes(new) {
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

/// Says that a link leads to several records from now on, or to one.
pub(crate) fn report_reshaped(changes: &mut Vec<String>, collection: &str, field: &str, is_list: bool) {
    let what = if is_list { "a list of keys" } else { "one key" };
    changes.push(format!("`{collection}.{field}` is {what} now, and is settled again"));
}

/// What becomes of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexChange {
    /// It is built.
    Create,
    /// It goes.
    Drop,
    /// It stays as it is, there or not.
    Nothing,
}

impl IndexChange {
    /// Of an index that is wanted or not, and was there or not.
    pub(crate) fn of(wanted: bool, had: bool) -> Self {
        match (wanted, had) {
            (true, false) => Self::Create,
            (false, true) => Self::Drop,
            _ => Self::Nothing,
        }
    }
}

/// Says what happened to the index of a field that was there before.
pub(crate) fn report_index(changes: &mut Vec<String>, collection: &str, field: &str, wanted: FieldIndexes, had: FieldIndexes) {
    let gained = |had: FieldIndexes, wanted: FieldIndexes| {
        wanted.ordered && !had.ordered || wanted.contains && !had.contains || wanted.intersects && !had.intersects
    };
    if gained(had, wanted) {
        changes.push(format!("index on `{collection}.{field}` is new"));
    }
    if gained(wanted, had) {
        changes.push(format!("index on `{collection}.{field}` was dropped"));
    }
}
