//! Tags: their definitions, and which records have them.
//!
//! A tag is manual (given to records by hand), a query (evaluated when the tag is used), or an XPath over the kept XML documents of records. There
//! are two directions: a record's documents are evaluated against all definitions in the chunk that writes them ([`tagger`]); a definition is
//! evaluated for all records by a job whose chunks are ranges of keys ([`rebuild`]). A commit names the revision of the definitions that it has
//! evaluated; if another one is current by then, it evaluates again inside the transaction. So a result of an older definition is never written
//! late, and a record keeps its tags until new results replace them.

pub mod collection;
pub mod document;
pub(crate) mod rebuild;
mod run;
mod tagger;

pub use rebuild::{TagEvaluationUnit, is_rebuild, progress};
pub(crate) use tagger::{ChangedDocuments, FailedEvaluation, TagEvaluator};

use crate::{EngineError, Result};
pub use collection::{collection, only_collection};
use document::TagDefinitions;
use rebuild::Rebuild;
pub use run::run;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stook_catalogue::definition::{Catalogue, Collection, TagAttribute, TagSettings};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::{Value, from_json};
use stook_catalogue::xpath::{XPath, advise};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::queue::{JobId, JobState};
use stook_store::tag::{CollectionTags, MAX_TAG_NAME, Tag, TagChanges, TagDefinition, TagRename, TagWrites};
use stook_store::{ReadDetail, RecordFilter, RefusedWrite, Store, StoreError, StoredRecord, Tenant, Unit};

/// The time in microseconds after which a job whose chunks are not all in the queue counts as abandoned; writing them takes seconds.
const ABANDONED_AFTER: i64 = 600_000_000;

/// How often a tag is renamed again because other tags were changed meanwhile.
const RENAME_ATTEMPTS: usize = 10;

/// The number of records on which a preview evaluates a definition.
pub const PREVIEWED: usize = 200;

/// A change of a tag; members that are `None` stay as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TagChange {
    /// Its name.
    pub name: String,
    /// Its XPath or query; a new tag without one is manual.
    pub definition: Option<TagDefinition>,
    /// Its purpose.
    pub comment: Option<String>,
    /// Its attributes, which replace the former ones.
    pub attributes: Option<Map<String, Json>>,
}

/// Reads a change from JSON: `{"name", "xpath" or "query", "comment", "attributes"}`.
///
/// # Errors
/// What is wrong with it.
pub fn tag_change_from_json(json: &Json) -> std::result::Result<TagChange, String> {
    let Json::Object(members) = json else { return Err("a tag is a JSON object".into()) };
    let text = |name: &str| match members.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{name} is text")),
    };
    const MEMBERS: [&str; 5] = ["name", "xpath", "query", "comment", "attributes"];
    if let Some(other) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(format!("a tag has no `{other}`; {}", known_instead(other, MEMBERS)));
    }
    let definition = match (text("xpath")?, text("query")?) {
        (Some(_), Some(_)) => return Err("a tag has an XPath or a query, not both".into()),
        (Some(text), None) => Some(TagDefinition::XPath(text)),
        (None, Some(text)) => Some(TagDefinition::Query(text)),
        (None, None) => None,
    };
    let attributes = match members.get("attributes") {
        None | Some(Json::Null) => None,
        Some(Json::Object(attributes)) => Some(attributes.clone()),
        Some(_) => return Err("attributes are an object".into()),
    };
    Ok(TagChange { name: text("name")?.ok_or("a tag has a name")?, definition, comment: text("comment")?, attributes })
}

/// The result of changing tags.
#[derive(Debug, Default)]
pub struct TagChangeResult {
    /// Tags with advice on their definitions.
    pub advice: Vec<(String, String)>,
    /// The job that evaluates new definitions.
    pub job: Option<JobId>,
}

/// Tags as changes make them.
#[derive(Default)]
struct PlannedTags {
    tags: Vec<Tag>,
    /// The names of those that must be evaluated.
    stale: Vec<String>,
    /// Tags with advice on their definitions.
    advice: Vec<(String, String)>,
}

/// The tags of a tenant's collection.
pub struct TaggedCollection<'c> {
    catalogue: &'c Catalogue,
    store: &'c dyn Store,
    tenant: &'c Tenant,
    index: CollectionId,
    collection: &'c Collection,
    rules: &'c TagSettings,
    /// The records to which the caller may assign tags; `None` for all.
    part: Option<Arc<RecordFilter>>,
}

impl<'c> TaggedCollection<'c> {
    /// The tags of the collection called `of`.
    ///
    /// # Errors
    /// When there is no such collection, or its records have no tags.
    pub fn new(catalogue: &'c Catalogue, store: &'c dyn Store, tenant: &'c Tenant, of: &str) -> Result<Self> {
        let (index, rules) = collection(catalogue, of)?;
        Ok(Self { catalogue, store, tenant, index, collection: &catalogue.collections[index], rules, part: None })
    }

    /// The same for a caller who may assign them to these records only.
    pub fn within(self, part: Option<Arc<RecordFilter>>) -> Self {
        Self { part, ..self }
    }

    /// The collection's tags as JSON, with the number of records that have each, and the progress of its evaluation.
    ///
    /// # Errors
    /// When the store fails.
    pub fn list(&self) -> Result<Vec<Json>> {
        self.store.tags(self.tenant, self.index)?.tags.iter().map(|tag| to_json(self.store, self.tenant, self.index, tag)).collect()
    }

    /// One tag as [`Self::list`] shows it.
    ///
    /// # Errors
    /// When there is none, or the store fails.
    pub fn show(&self, name: &str) -> Result<Option<Json>> {
        let tags = self.store.tags(self.tenant, self.index)?.tags;
        tags.iter().find(|tag| tag.name == name).map(|tag| to_json(self.store, self.tenant, self.index, tag)).transpose()
    }

    /// Creates tags, if `new`, or changes them; if definitions must be evaluated, a job will do that.
    ///
    /// # Errors
    /// When a change is wrong, and then nothing is changed; or when the store fails.
    pub fn save(&self, changes: &[TagChange], new: bool) -> Result<TagChangeResult> {
        let known = self.store.tags(self.tenant, self.index)?.tags;
        let PlannedTags { mut tags, stale, advice } = self.planned(&known, changes, new)?;
        if stale.is_empty() {
            self.store.put_tags(self.tenant, self.index, tags, new)?;
            return Ok(TagChangeResult { advice, job: None });
        }
        let job = self.rebuild(&known, (&stale, false), |job| {
            tags.iter_mut().filter(|tag| stale.contains(&tag.name)).for_each(|tag| tag.job = job);
            Ok(self.store.put_tags(self.tenant, self.index, tags, new)?)
        })?;
        Ok(TagChangeResult { advice, job: Some(job) })
    }

    /// Gives a tag another name, and changes it. Records carry the new name at once; nothing is evaluated for that.
    ///
    /// # Errors
    /// When the change is wrong, the name is taken, the tag is being evaluated, or the store fails; then nothing is changed.
    pub fn rename(&self, change: TagChange, to: &str) -> Result<TagChangeResult> {
        if change.name == to {
            return self.save(&[change], false);
        }
        check_name(to)?;
        for _ in 0..RENAME_ATTEMPTS {
            let CollectionTags { revision, tags: known } = self.store.tags(self.tenant, self.index)?;
            // everything is checked before anything is written
            self.planned(&known, std::slice::from_ref(&change), false)?;
            let Some(former) = known.iter().find(|tag| tag.name == change.name) else { break };
            if known.iter().any(|tag| tag.name == to) {
                return Err(EngineError::Wrong(format!("tag `{}`: there is a tag `{to}` already", change.name)));
            }
            if former.job > 0 && !self.store.job_state(former.job)?.is_final() {
                let reason = format!("tag `{}`: it is being evaluated (job {}); rename it when that has ended", change.name, former.job);
                return Err(EngineError::Wrong(reason));
            }
            let tag = Tag { name: to.to_owned(), changed: self.store.clock(), ..former.clone() };
            match self.store.rename_tag(self.tenant, self.index, TagRename { from: change.name.clone(), tag, revision }) {
                Ok(true) if change == (TagChange { name: change.name.clone(), ..TagChange::default() }) => return Ok(TagChangeResult::default()),
                Ok(true) => return self.save(&[TagChange { name: to.to_owned(), ..change }], false),
                Ok(false) | Err(StoreError::Outdated) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(EngineError::Wrong(format!("tag `{}`: tags are being changed by others; try again", change.name)))
    }

    /// Checks changes, and returns the tags that they make.
    fn planned(&self, known: &[Tag], changes: &[TagChange], new: bool) -> Result<PlannedTags> {
        let PlannedTags { mut tags, mut stale, mut advice } = PlannedTags::default();
        for change in changes {
            if tags.iter().any(|tag| tag.name == change.name) {
                return Err(EngineError::Wrong(format!("the tag `{}` is there twice", change.name)));
            }
            let old = known.iter().find(|tag| tag.name == change.name);
            let wrong = |reason: String| EngineError::Wrong(format!("tag `{}`: {reason}", change.name));
            let now = self.store.clock();
            let mut tag = match old {
                Some(_) if new => return Err(EngineError::Wrong(format!("there is a tag `{}` already", change.name))),
                Some(old) => old.clone(),
                None if new => {
                    check_name(&change.name)?;
                    let definition = TagDefinition::Manual;
                    let (comment, attributes) = (String::new(), Map::new());
                    Tag { name: change.name.clone(), definition, comment, attributes, created: now, changed: now, generation: now, job: 0 }
                }
                None => return Err(EngineError::Wrong(no_such_tag(&change.name, known))),
            };
            if let Some(definition) = change.definition.as_ref().filter(|definition| **definition != tag.definition) {
                if old.is_some() && (tag.definition == TagDefinition::Manual) != (*definition == TagDefinition::Manual) {
                    let obstacle = if tag.definition == TagDefinition::Manual {
                        "is manual and cannot get a definition"
                    } else {
                        "has a definition, which cannot be removed"
                    };
                    return Err(wrong(format!("it {obstacle}; delete it and create it again")));
                }
                let own_advice = check_definition(self.rules, definition).map_err(wrong)?;
                advice.extend(own_advice.into_iter().map(|advice| (change.name.clone(), advice)));
                if matches!(definition, TagDefinition::XPath(_)) {
                    stale.push(change.name.clone());
                } else if matches!(tag.definition, TagDefinition::XPath(_)) {
                    return Err(wrong("an XPath tag cannot become a query; delete it and create it again".into()));
                }
                (tag.definition, tag.generation) = (definition.clone(), now);
            }
            tag.comment = change.comment.clone().unwrap_or(tag.comment);
            if let Some(attributes) = &change.attributes {
                tag.attributes = check_attributes(self.rules, attributes).map_err(wrong)?;
            }
            tag.changed = now;
            tags.push(tag);
        }
        Ok(PlannedTags { tags, stale, advice })
    }

    /// Evaluates tags again for all records, on their kept documents: the named ones, or all XPath tags.
    ///
    /// # Errors
    /// When a tag is not known or has no XPath, or the store fails.
    pub fn reevaluate(&self, names: &[String]) -> Result<Option<JobId>> {
        let known = self.store.tags(self.tenant, self.index)?.tags;
        let has_xpath = |tag: &&Tag| matches!(tag.definition, TagDefinition::XPath(_));
        for name in names {
            match known.iter().find(|tag| tag.name == *name) {
                None => return Err(EngineError::Wrong(no_such_tag(name, &known))),
                Some(tag) if !has_xpath(&tag) => {
                    return Err(EngineError::Wrong(format!("the tag `{name}` has no XPath: there is nothing to evaluate")));
                }
                Some(_) => {}
            }
        }
        let wanted = |tag: &&Tag| has_xpath(tag) && (names.is_empty() || names.contains(&tag.name));
        let mut tags: Vec<Tag> = known.iter().filter(wanted).cloned().collect();
        if tags.is_empty() {
            return Ok(None);
        }
        let stale: Vec<String> = tags.iter().map(|tag| tag.name.clone()).collect();
        let job = self.rebuild(&known, (&stale, true), |job| {
            tags.iter_mut().for_each(|tag| tag.job = job);
            Ok(self.store.put_tags(self.tenant, self.index, tags, false)?)
        })?;
        Ok(Some(job))
    }

    /// Removes a tag.
    ///
    /// # Errors
    /// When there is none, or the store fails.
    pub fn delete(&self, name: &str) -> Result<()> {
        if self.store.delete_tag(self.tenant, self.index, name)? {
            return Ok(());
        }
        Err(EngineError::Wrong(no_such_tag(name, &self.store.tags(self.tenant, self.index)?.tags)))
    }

    /// Gives a manual tag to records and removes it from others. Returns to how many it was given and from how many it was removed, and the keys for
    /// which there is no record, or none that the caller may change.
    ///
    /// # Errors
    /// When the tag is not manual, or the store fails.
    pub fn assign(&self, name: &str, add: &[Key], remove: &[Key]) -> Result<(TagChanges, Vec<Key>)> {
        let tags = self.store.tags(self.tenant, self.index)?;
        match tags.tags.iter().find(|tag| tag.name == name).map(|tag| &tag.definition) {
            None => return Err(EngineError::Wrong(no_such_tag(name, &tags.tags))),
            Some(TagDefinition::Manual) => {}
            Some(_) => return Err(EngineError::Wrong(format!("`{name}` is assigned by its definition; only manual tags can be assigned by hand"))),
        }
        if let Some(both) = add.iter().find(|key| remove.contains(key)) {
            return Err(EngineError::Wrong(format!("{:?} is in both `add` and `remove`", both.as_str())));
        }
        let (known, mut unknown) = self.known(add)?;
        // a record that was deleted may have a tag that is to be removed
        let (taken, others) = if self.part.is_some() { self.known(remove)? } else { (remove.to_vec(), Vec::new()) };
        unknown.extend(others);
        let mut carried: Vec<(Key, Vec<u32>)> = known.into_iter().map(|key| (key, vec![0])).collect();
        carried.extend(taken.into_iter().map(|key| (key, Vec::new())));
        carried.sort();
        carried.dedup();
        let (sender, receiver) = std::sync::mpsc::channel();
        let tagging = TagWrites { collection: self.index, tags: vec![name.to_owned()], assignments: carried, trees: Vec::new() };
        self.store.commit(Box::new(TagAssignment { tenant: self.tenant.clone(), revision: tags.revision, tagging, sender }))?;
        let given = receiver.try_iter().last().unwrap_or_default();
        Ok((given, unknown))
    }

    /// The keys of records that exist and that the caller may change, and the others.
    fn known(&self, keys: &[Key]) -> Result<(Vec<Key>, Vec<Key>)> {
        let detail = if self.part.is_some() { ReadDetail::Values } else { ReadDetail::Head };
        let found = self.store.read(self.tenant, self.index, keys, detail)?;
        let may_change = |record: &StoredRecord| self.part.as_ref().is_none_or(|part| part.admits(self.collection, record.values()));
        let is_known: Vec<bool> = found.iter().map(|record| record.as_ref().is_some_and(|record| record.exists && may_change(record))).collect();
        let of = |wanted: bool| keys.iter().zip(&is_known).filter(|(_, known)| **known == wanted).map(|(key, _)| key.clone()).collect();
        Ok((of(true), of(false)))
    }

    /// Evaluates an XPath on the first records; writes nothing.
    ///
    /// # Errors
    /// When the XPath is wrong, or the store fails.
    pub fn preview(&self, xpath: &str) -> Result<TagPreview> {
        let (xpath, advice) = checked(self.rules, xpath).map_err(EngineError::Wrong)?;
        let definition = TagDefinitions::from_xpath(xpath);
        let all = QueryPlan::all(self.tenant.clone(), self.index);
        let first = QueryPlan { columns: vec![PlanColumn::Key], limit: Some(PREVIEWED as u64), ..all };
        let key = |row: Vec<Value>| Key::new(row.first()?.as_text()?).ok();
        let keys: Vec<Key> = self.store.find(&first)?.rows.into_iter().filter_map(key).collect();
        let trees = self.store.trees(self.tenant, self.index, &keys)?;
        let mut seen = TagPreview { records: keys.len(), matches: 0, keys: Vec::new(), failed: 0, took: Duration::ZERO, advice };
        let started = Instant::now();
        for (key, trees) in keys.into_iter().zip(trees) {
            let parts = trees.into_iter().map(|(source, tree)| (source.into(), bytes::Bytes::from(tree))).collect();
            let (carried, failed) = definition.evaluate(self.catalogue, self.collection, &parts);
            seen.failed += failed.len();
            if !carried.is_empty() {
                seen.matches += 1;
                seen.keys.push(key);
            }
        }
        seen.took = started.elapsed();
        Ok(seen)
    }

    fn rebuild(&self, known: &[Tag], (stale, whole): (&[String], bool), put: impl FnOnce(JobId) -> Result<()>) -> Result<JobId> {
        let (tenant, index, collection) = (self.tenant, self.index, self.collection);
        rebuild::start(self.store, &Rebuild { tenant, index, collection, known, stale, whole }, put)
    }
}

/// The message that there is no tag with a name, with the one that may be meant.
pub fn no_such_tag(name: &str, known: &[Tag]) -> String {
    format!("there is no tag `{name}`; {}", known_instead(name, known.iter().map(|tag| tag.name.as_str())))
}

/// Names of tags whose evaluation was not finished: records may have them by a former definition.
///
/// # Errors
/// When the store fails.
pub fn stale(catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, collection: CollectionId) -> Result<Vec<String>> {
    if catalogue.collections[collection].tags.is_none() {
        return Ok(Vec::new());
    }
    let tags = store.tags(tenant, collection)?.tags;
    let jobs: BTreeSet<JobId> = tags.iter().map(|tag| tag.job).filter(|job| *job > 0).collect();
    let mut broken = Vec::new();
    for id in jobs {
        let job = store.job(id)?;
        let is_abandoned = !job.progress.complete && store.clock() - job.created > ABANDONED_AFTER;
        if is_abandoned || matches!(job.state, JobState::Failed | JobState::Cancelled) {
            broken.push(id);
        }
    }
    Ok(tags.into_iter().filter(|tag| broken.contains(&tag.job)).map(|tag| tag.name).collect())
}

fn to_json(store: &dyn Store, tenant: &Tenant, collection: CollectionId, tag: &Tag) -> Result<Json> {
    // before the records: of an evaluation that is shown as completed, all records are counted
    let job = if tag.job > 0 { Some(store.job(tag.job)?) } else { None };
    let mut shown = described(tag);
    if !matches!(tag.definition, TagDefinition::Query(_)) {
        let condition = Condition { column: PlanColumn::Tag, test: Comparison::Equal(Value::text(tag.name.as_str())) };
        shown["records"] = json!(store.count(&QueryPlan { conditions: vec![condition], ..QueryPlan::all(tenant.clone(), collection) })?);
    }
    if let Some(job) = job {
        shown["evaluation"] = rebuild::progress(&job);
    }
    Ok(shown)
}

/// A tag as JSON, without anything about its records.
pub fn described(tag: &Tag) -> Json {
    let mut shown = json!({ "name": tag.name, "kind": kind(&tag.definition) });
    if let TagDefinition::XPath(text) | TagDefinition::Query(text) = &tag.definition {
        shown[kind(&tag.definition)] = json!(text);
    }
    shown["comment"] = json!(tag.comment);
    shown["attributes"] = json!(tag.attributes);
    shown["created"] = json!(stook_catalogue::value::show_timestamp(tag.created));
    shown["changed"] = json!(stook_catalogue::value::show_timestamp(tag.changed));
    shown
}

/// The name of a definition's kind.
fn kind(definition: &TagDefinition) -> &'static str {
    match definition {
        TagDefinition::Manual => "manual",
        TagDefinition::XPath(_) => "xpath",
        TagDefinition::Query(_) => "query",
    }
}

fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > MAX_TAG_NAME || !name.chars().all(fits) {
        return Err(EngineError::Wrong(format!("`{name}` is not a tag's name: 1 to {MAX_TAG_NAME} letters of A-Z, digits, - and _")));
    }
    Ok(())
}

/// Checks a definition and returns advice. Queries are checked by the caller, which can parse them.
fn check_definition(rules: &TagSettings, definition: &TagDefinition) -> std::result::Result<Vec<String>, String> {
    let TagDefinition::XPath(text) = definition else { return Ok(Vec::new()) };
    Ok(checked(rules, text)?.1)
}

/// Parses an XPath and returns it with advice.
fn checked(rules: &TagSettings, text: &str) -> std::result::Result<(XPath, Vec<String>), String> {
    let Some(document) = &rules.document else {
        return Err("the collection's `tags:` have no `document:` for XPath to be evaluated on".into());
    };
    let xpath = XPath::parse(text, &document.namespaces).map_err(|error| {
        let column = text.get(..error.at).map_or(0, |before| before.chars().count()) + 1;
        format!("column {column} of the XPath: {}", error.message)
    })?;
    let advice = advise(&xpath);
    Ok((xpath, advice))
}

/// What a definition would find among some records.
#[derive(Debug)]
pub struct TagPreview {
    /// The number of records on which it was evaluated: the first ones.
    pub records: usize,
    /// How many of them would get the tag.
    pub matches: usize,
    /// Their keys, or the first of these.
    pub keys: Vec<Key>,
    /// The number of records for which it exceeded its steps.
    pub failed: usize,
    /// The time it took for all of these, including composing their documents.
    pub took: Duration,
    /// Advice on what is probably not meant.
    pub advice: Vec<String>,
}

fn check_attributes(rules: &TagSettings, attributes: &Map<String, Json>) -> std::result::Result<Map<String, Json>, String> {
    let mut checked = Map::new();
    for (name, value) in attributes {
        let Some(TagAttribute { ty, .. }) = rules.attributes.iter().find(|known| known.name == *name) else {
            let known = rules.attributes.iter().map(|attribute| attribute.name.as_str());
            return Err(format!("there is no attribute `{name}`; {}", known_instead(name, known)));
        };
        if !value.is_null() {
            let value = from_json(value, ty, None).map_err(|error| format!("{name}: {error}"))?;
            checked.insert(name.clone(), value.to_json(ty));
        }
    }
    Ok(checked)
}

/// The attributes of a record that are joined from those of its tags, whose names are given: those that are not empty.
pub fn joined_attributes(rules: &TagSettings, known: &[Tag], carried: &[String]) -> Map<String, Json> {
    let mut shown = Map::new();
    for TagAttribute { name, joined, .. } in &rules.attributes {
        let Some(joined) = joined else { continue };
        // tags are read in the order of their names
        let of_tags = known.iter().filter(|tag| carried.contains(&tag.name)).filter_map(|tag| tag.attributes.get(name)?.as_str());
        let texts: Vec<&str> = joined.first.as_deref().into_iter().chain(of_tags).filter(|text| !text.is_empty()).collect();
        if !texts.is_empty() {
            shown.insert(name.clone(), texts.join(&joined.separator).into());
        }
    }
    shown
}

/// Gives and removes a manual tag.
struct TagAssignment {
    tenant: Tenant,
    revision: i64,
    tagging: TagWrites,
    sender: std::sync::mpsc::Sender<TagChanges>,
}

impl Unit for TagAssignment {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn refused(&mut self, _refused: RefusedWrite) {}

    fn tag_revision(&self) -> Option<i64> {
        Some(self.revision)
    }

    fn retag(&mut self, tags: Vec<(CollectionId, stook_store::tag::CollectionTags)>) {
        // if the tag has been deleted or got a definition meanwhile, nothing is written
        let current = tags.iter().find(|(collection, _)| *collection == self.tagging.collection);
        let is_manual = |tag: &Tag| self.tagging.tags.contains(&tag.name) && tag.definition == TagDefinition::Manual;
        if !current.is_some_and(|(_, tags)| tags.tags.iter().any(is_manual)) {
            self.tagging.assignments.clear();
        }
    }

    fn tagging(&mut self) -> Vec<TagWrites> {
        vec![self.tagging.clone()]
    }

    fn tags_changed(&mut self, given: TagChanges) {
        let _ = self.sender.send(given);
    }
}
