//! Maps the documents of one source: what each contributes through which feed, or why it is skipped or fails.

mod elements;
mod embedded;

use super::document::{Envelope, MappedDocument, SkippedContribution};
use super::hash::content_hash;
use super::names::{DocumentScope, LetResult, MappedFields};
use super::values::{PathOrigin, ValueIssue, ValueReader, allowed};
use crate::content::key::{key_of, shown};
use crate::merge::{NewContribution, ScopePosition};
use crate::settle::complete_delivery;
use bytes::Bytes;
use std::borrow::Cow;
use std::cell::RefCell;
use stook_catalogue::definition::{AsOfRule, Catalogue, Feed, Source, SourceRef, ValueOrigin};
use stook_catalogue::eval::{Evaluator, Expression};
use stook_catalogue::ids::{FieldId, IdVec, SourceId};
use stook_catalogue::key::Key;
use stook_catalogue::record::{ContributionContent, KeptDocument};
use stook_catalogue::value::{FieldType, SmolStr, Value, show_timestamp};
use stook_formats::{ContextNode, Document, SelectedValue, Syntax};

/// How far ahead of the store's clock an as-of time may be, in microseconds: one in 2099 would block its record until then.
const MAX_AHEAD_OF_CLOCK: i64 = 24 * 3600 * 1_000_000;

/// Why a document is skipped that is only the header of a record.
const NO_RECORD: &str = "it is the header of a record without the record, as of one that was deleted: `around` and `gone` say what that means";

/// The maximum length of a scope's name, in bytes.
const MAX_SCOPE_BYTES: usize = 512;

/// Maps the documents of one source. Used by one thread.
pub struct DocumentMapper<'c> {
    catalogue: &'c Catalogue,
    index: SourceId,
    source: &'c Source,
    evaluator: &'c Evaluator,
    values: ValueReader<'c>,
    /// The name of each `let`.
    names: Vec<&'c str>,
    /// For each `let`, whether its value is the same for all documents of a file.
    constant_per_file: Vec<bool>,
    /// The values of these, once they are known.
    file_constants: RefCell<Vec<Option<LetResult<'c>>>>,
    /// For each feed, the fields that are mapped but that the definition does not accept from this source (`from:`).
    ignored_fields: Vec<Vec<FieldId>>,
    /// Whether a feed says `each:`.
    has_elements: bool,
    /// Whether a rule says `around:`.
    reads_envelopes: bool,
    /// For each feed and each `let`, the field that has the same name.
    same_name_fields: Vec<Vec<Option<FieldId>>>,
    /// For each feed and each field, the position of its rule.
    rule_positions: Vec<IdVec<FieldId, Option<usize>>>,
}

/// A document, or one of its elements, and the bytes that are kept and hashed for it.
#[derive(Clone, Copy)]
struct DocumentInput<'d> {
    document: &'d Document<'d>,
    bytes: &'d Bytes,
    syntax: Syntax,
    element: Option<Element<'d>>,
}

impl<'d> DocumentInput<'d> {
    /// Where the paths of a feed start.
    fn origin(self) -> PathOrigin<'d> {
        PathOrigin { document: self.document, node: self.element.map(|element| element.node) }
    }
}

/// An element of a document that contributes on its own.
#[derive(Clone, Copy)]
struct Element<'d> {
    node: ContextNode<'d>,
    /// What identifies the document.
    identity: &'d str,
}

/// A contribution without its values.
struct ContributionHeader {
    key: Key,
    contributor: SmolStr,
    as_of: i64,
    is_deleted: bool,
    scope: Option<Box<ScopePosition>>,
}

impl<'c> DocumentMapper<'c> {
    /// A mapper of the source with this index, for documents of one file.
    pub fn new(catalogue: &'c Catalogue, index: SourceId, evaluator: &'c Evaluator) -> Self {
        let source = &catalogue.sources[index];
        let mut is_constant_per_file: Vec<bool> = Vec::with_capacity(source.lets.len());
        for own in &source.lets {
            let earlier = |name: &str| {
                source.lets.iter().zip(&is_constant_per_file).any(|(other, is_constant_per_file)| *is_constant_per_file && other.name == name)
            };
            is_constant_per_file.push(match &own.rule.origin {
                ValueOrigin::Expression(expression) => expression.variables().iter().all(|name| {
                    let mut members = expression.members().iter().filter(|member| member.of == "meta").peekable();
                    earlier(name) || (name == "meta" && members.peek().is_some() && members.all(|member| member.name != "ordinal"))
                }),
                ValueOrigin::Match { of, .. } => earlier(of),
                ValueOrigin::Paths(_) | ValueOrigin::Cases(_) | ValueOrigin::Elements(..) => false,
            });
        }
        let file_constants = RefCell::new(vec![None; source.lets.len()]);
        let ignored_fields = source.feeds.iter().map(|feed| {
            let from = |field: FieldId| catalogue.collections[feed.collection].fields[field].from.as_ref();
            feed.map
                .iter()
                .map(|entry| entry.field)
                .filter(|field| from(*field).is_some_and(|from| !from.contains(&SourceRef::Source(index))))
                .collect()
        });
        let names: Vec<&str> = source.lets.iter().map(|own| own.name.as_str()).collect();
        let namesakes = source.feeds.iter().map(|feed| {
            let collection = &catalogue.collections[feed.collection];
            names.iter().map(|name| collection.field(name).map(|(field, _)| field)).collect()
        });
        let rule_positions = source.feeds.iter().map(|feed| {
            let fields = catalogue.collections[feed.collection].fields.ids();
            fields.map(|field| feed.map.iter().position(|entry| entry.field == field)).collect()
        });
        let (ignored_fields, namesakes, rule_positions) = (ignored_fields.collect(), namesakes.collect(), rule_positions.collect());
        let values = ValueReader::new(catalogue, evaluator);
        Self {
            catalogue,
            values,
            index,
            source,
            has_elements: source.feeds.iter().any(|feed| feed.each.is_some()),
            reads_envelopes: source.reads_envelopes(),
            evaluator,
            names,
            constant_per_file: is_constant_per_file,
            file_constants,
            ignored_fields,
            same_name_fields: namesakes,
            rule_positions,
        }
    }

    /// Maps one document. `bytes` are what is kept and hashed, in `syntax`.
    pub fn map(&self, document: &Document<'_>, bytes: &Bytes, syntax: Syntax, envelope: &Envelope<'_>) -> MappedDocument {
        let input = DocumentInput { document, bytes, syntax, element: None };
        let mut mapped = MappedDocument::default();
        if document.is_empty_envelope() && !self.reads_envelopes {
            mapped.skipped = Some(NO_RECORD.into());
            return mapped;
        }
        if let Some(record) = document.marc()
            && record.unknown_characters > 0
            // otherwise they are reported as repairs
            && !self.source.reading.marc.repairs()
        {
            mapped.warnings.push(format!("{} characters are not MARC-8 and became U+FFFD", record.unknown_characters));
        }
        let lets = Vec::with_capacity(self.source.lets.len());
        let mut scope = DocumentScope { source: self.source, names: &self.names, lets, unread: Vec::new(), feed: None, meta: envelope };
        let mut found = Vec::new();
        for (index, own) in self.source.lets.iter().enumerate() {
            let known = if self.constant_per_file[index] { self.file_constants.borrow()[index].clone() } else { None };
            let value = match known {
                Some(value) => value,
                None => {
                    let value = match &own.rule.origin {
                        ValueOrigin::Match { pattern, of } => Ok(self.values.matched(*pattern, of, &scope)),
                        _ => self.values.value(PathOrigin { document, node: None }, &own.rule, &scope, &mut found).map(LetResult::Value),
                    };
                    self.note_repairs(&own.name, &mut mapped);
                    let value = match value {
                        Ok(value) => value,
                        Err(trouble) => {
                            let Ok(value) = self.note((&own.name, &own.rule.ty), trouble, &mut mapped) else { return mapped };
                            scope.unread.push(index);
                            LetResult::Value(value)
                        }
                    };
                    if value.is_null() && scope.reads_unread(&own.rule) {
                        scope.unread.push(index);
                    }
                    if self.constant_per_file[index] && mapped.warnings.is_empty() {
                        self.file_constants.borrow_mut()[index] = Some(value.clone());
                    }
                    value
                }
            };
            scope.lets.push(value);
        }
        if !self.is_only_feed() {
            self.conditions(&scope, &mut mapped);
            if mapped.skipped.is_some() {
                mapped.skipped_contribution = self.skipped_contribution(&scope, &[]);
                if let Some(skipped_contribution) = &mut mapped.skipped_contribution {
                    skipped_contribution.names = self.names(input, &mut scope, &mut found);
                }
            }
            if mapped.failed.is_some() || mapped.skipped.is_some() {
                return mapped;
            }
        }
        for (index, feed) in self.source.feeds.iter().enumerate() {
            if let Some(when) = &feed.when {
                match self.evaluator.holds(when, &scope) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) => {
                        mapped.failed = Some(format!("`when` of {}: {error}", self.catalogue.collections[feed.collection].name));
                        return mapped;
                    }
                }
            }
            if feed.each.is_some() {
                continue;
            }
            if let Some(contribution) = self.feed(input, index, &mut scope, &mut mapped, &mut found) {
                mapped.contributions.push(contribution);
            }
            scope.feed = None;
            if mapped.failed.is_some() || mapped.skipped.is_some() {
                mapped.contributions.clear();
                return mapped;
            }
        }
        if self.has_elements
            && let Err(reason) = self.elements(input, &mut scope, &mut mapped)
        {
            mapped.failed = Some(reason);
            mapped.contributions.clear();
            return mapped;
        }
        match mapped.contributions.first().map(|contribution| contribution.as_of) {
            None if mapped.skipped.is_none() && mapped.complete_document.is_none() => {
                mapped.skipped = Some("it contributes to no collection".into());
                mapped.skipped_contribution = self.skipped_contribution(&scope, &[]);
            }
            None => {}
            Some(as_of) => self.embedded(document, &scope, as_of, &mut mapped),
        }
        mapped
    }

    /// Whether the source has one feed, so that its conditions may use the fields of that feed.
    fn is_only_feed(&self) -> bool {
        self.source.feeds.len() == 1 && !self.has_elements
    }

    /// The contribution of a document, or of one of its elements, through one feed.
    fn feed<'s, 'd>(
        &'s self,
        input: DocumentInput<'d>,
        index: usize,
        scope: &mut DocumentScope<'s, 'c>,
        mapped: &mut MappedDocument,
        found: &mut Vec<SelectedValue<'d>>,
    ) -> Option<NewContribution> {
        let DocumentInput { document, bytes, syntax, element: _ } = input;
        let (feed, is_only_feed) = (&self.source.feeds[index], self.is_only_feed());
        let collection = &self.catalogue.collections[feed.collection];
        let (namesakes, rule_positions) = (&self.same_name_fields[index], &self.rule_positions[index]);
        let mut values = vec![Value::Null; collection.fields.len()];
        let mut unread: Vec<FieldId> = Vec::new();
        let mut ambiguity = None;
        for (done, entry) in feed.map.iter().enumerate() {
            let field = &collection.fields[entry.field];
            let mapped_fields = MappedFields { collection, values: &values, unread: &unread, rule_positions, done, namesakes };
            let lent_scope = scope.lend(Some(mapped_fields));
            let value = self.values.value(input.origin(), &entry.rule, &lent_scope, found).and_then(|value| allowed(value, field, entry.rule.strict));
            if found.len() > 1 && matches!(entry.rule.origin, ValueOrigin::Paths(_)) && collection.is_in_key(field) {
                ambiguity = ambiguity.or(self.values.ambiguity(found, &entry.rule).map(|reason| format!("{}: {reason}", field.name)));
            }
            self.note_repairs(&field.name, mapped);
            let reads_unread = matches!(value, Ok(Value::Null)) && lent_scope.reads_unread(&entry.rule);
            let lent = lent_scope.end();
            scope.take_back(lent);
            if reads_unread || value.is_err() {
                unread.push(entry.field);
            }
            values[entry.field] = match value {
                Ok(value) => value,
                Err(trouble) => self.note((&field.name, &field.ty), trouble, mapped).ok()?,
            };
        }
        // the conditions of a source with several feeds use only its `let` values
        let mapped_fields =
            is_only_feed.then_some(MappedFields { collection, values: &values, unread: &unread, rule_positions, done: feed.map.len(), namesakes });
        let lent_scope = scope.lend(mapped_fields);
        let key = ambiguity.map_or_else(|| key_of(collection, &values, self.evaluator), Err);
        let result = self.contribution_header(key, &lent_scope, (feed, input), &values, mapped);
        let lent = lent_scope.end();
        scope.take_back(lent);
        let ContributionHeader { key, contributor, as_of, is_deleted, scope } = result?;
        for field in &self.ignored_fields[index] {
            values[*field] = Value::Null;
        }
        // a deletion has no field values, and leaves no earlier ones to keep
        unread.retain(|field| !is_deleted && !self.ignored_fields[index].contains(field));
        unread.sort_unstable();
        let content = if is_deleted { ContributionContent::Tombstone } else { ContributionContent::Values(values.into()) };
        let hash = content_hash(&content, &unread, (collection, feed), bytes, scope.as_deref());
        let raw = collection.keep_raw.then(|| KeptDocument { syntax: syntax as u8, bytes: bytes.clone() });
        let tag_document = collection.tag_document().filter(|document| document.sources().contains(&self.index));
        let tree = match document {
            Document::Xml(tree) if tag_document.is_some() => Some(tree.pack().into()),
            _ => None,
        };
        let (source, feed, collection) = (self.index, index, feed.collection);
        Some(NewContribution {
            collection,
            source,
            feed,
            embedded: false,
            key,
            contributor,
            as_of,
            hash,
            content,
            unreadable: unread,
            raw,
            tree,
            scope,
            replaced_by: None,
        })
    }

    fn contribution_header(
        &self,
        key: Result<Key, String>,
        scope: &DocumentScope<'_, '_>,
        (feed, input): (&Feed, DocumentInput<'_>),
        values: &[Value],
        mapped: &mut MappedDocument,
    ) -> Option<ContributionHeader> {
        let element = input.element;
        let collection = &self.catalogue.collections[feed.collection];
        mapped.key = key.as_ref().ok().cloned();
        if self.is_only_feed() {
            self.conditions(scope, mapped);
            if mapped.skipped.is_some() {
                mapped.skipped_contribution = self.skipped_contribution(scope, values);
                let contributor = self.contributor(feed, scope, None);
                if let (Some(skipped_contribution), Some(contributor), Ok(key)) = (&mut mapped.skipped_contribution, contributor, &key) {
                    skipped_contribution.names.push(complete_delivery::contribution_name(&collection.name, &contributor, key));
                }
            }
            if mapped.failed.is_some() || mapped.skipped.is_some() {
                return None;
            }
        }
        let is_deleted = match &self.source.gone {
            None => false,
            Some(condition) => match self.evaluator.holds(condition, scope) {
                Ok(is_deleted) => is_deleted,
                Err(error) => {
                    mapped.failed = Some(format!("`gone`: {error}"));
                    return None;
                }
            },
        };
        if !is_deleted && input.document.is_empty_envelope() {
            mapped.skipped = Some(NO_RECORD.into());
            return None;
        }
        let missing: Vec<&str> = collection
            .fields
            .iter()
            .zip(values)
            .filter(|(field, value)| field.required && value.is_null() && !is_deleted)
            .map(|(field, _)| field.name.as_str())
            .collect();
        if !missing.is_empty() {
            mapped.failed = Some(format!("missing required field: {}", missing.join(", ")));
            return None;
        }
        let key = match key {
            Ok(key) => key,
            Err(reason) => {
                mapped.failed = Some(reason);
                return None;
            }
        };
        let as_of = match self.as_of(scope, values) {
            Ok(as_of) => as_of,
            Err(reason) => {
                mapped.failed = Some(reason);
                return None;
            }
        };
        let Some(contributor) = self.contributor(feed, scope, element) else {
            mapped.failed = Some("the contributor's name cannot be built: a value of its template is missing".into());
            return None;
        };
        if let Some(Element { identity, .. }) = element {
            let scope = Some(Box::new(ScopePosition { scope: identity.to_owned(), at: 0 }));
            return Some(ContributionHeader { key, contributor, as_of, is_deleted, scope });
        }
        match self.scoped(scope) {
            Ok(scope) => Some(ContributionHeader { key, contributor, as_of, is_deleted, scope }),
            Err(reason) => {
                mapped.failed = Some(reason);
                None
            }
        }
    }

    /// The contributor's name; `None` if a value in its template is missing.
    fn contributor(&self, feed: &Feed, scope: &DocumentScope<'_, '_>, element: Option<Element<'_>>) -> Option<SmolStr> {
        let part = element.map(|element| element.identity).or(scope.meta.partial_list);
        let part = match (&feed.contributor, part) {
            (None, None) => return Some(self.source.name.as_str().into()),
            (None, Some(part)) => Cow::Borrowed(part),
            (Some(template), _) => template.fill(|name| shown(scope.get_let(name)?).map(Cow::Owned))?.into(),
        };
        Some(format!("{}:{part}", self.source.name).into())
    }

    /// The position in a scope of a document that is skipped; a document whose position cannot be read does not take part in the complete
    /// delivery.
    fn skipped_contribution(&self, scope: &DocumentScope<'_, '_>, values: &[Value]) -> Option<SkippedContribution> {
        let position = self.scoped(scope).ok()??;
        Some(SkippedContribution { position, as_of: self.as_of(scope, values).ok()?, names: Vec::new() })
    }

    /// The names of the contributions that a skipped document would make through the feeds whose conditions it meets.
    fn names<'s, 'd>(&'s self, input: DocumentInput<'d>, scope: &mut DocumentScope<'s, 'c>, found: &mut Vec<SelectedValue<'d>>) -> Vec<String> {
        let mut names = Vec::new();
        for (index, feed) in self.source.feeds.iter().enumerate() {
            if feed.when.as_ref().is_none_or(|when| self.evaluator.holds(when, scope).unwrap_or(false)) {
                let contribution = self.feed(input, index, scope, &mut MappedDocument::default(), found);
                let name = |own: NewContribution| {
                    complete_delivery::contribution_name(&self.catalogue.collections[own.collection].name, &own.contributor, &own.key)
                };
                names.extend(contribution.map(name));
                scope.feed = None;
            }
        }
        names
    }

    /// The position of a document in a scope.
    fn scoped(&self, scope: &DocumentScope<'_, '_>) -> Result<Option<Box<ScopePosition>>, String> {
        let Some(replaces) = self.source.complete_files() else { return Ok(None) };
        let found = |name: &str, expression: &Expression, ty: FieldType| match self.evaluator.value(expression, &ty, scope) {
            Ok(Value::Null) => Err(format!("`replaces`: the document has no `{name}`")),
            Err(error) => Err(format!("`{name}` of `replaces`: {error}")),
            found => found,
        };
        let named = found("scope", &replaces.scope, FieldType::Text)?.as_text().map(str::to_owned).unwrap_or_default();
        if named.len() > MAX_SCOPE_BYTES {
            return Err(format!("`scope` of `replaces` has {} bytes; {MAX_SCOPE_BYTES} are allowed", named.len()));
        }
        let at = replaces.at.as_ref().map(|at| found("at", at, FieldType::Timestamp)).transpose()?;
        Ok(Some(Box::new(ScopePosition { scope: named, at: at.and_then(|at| at.as_int()).unwrap_or_default() })))
    }

    fn conditions(&self, scope: &DocumentScope<'_, '_>, mapped: &mut MappedDocument) {
        for accept in &self.source.accept {
            match self.evaluator.holds(&accept.unless, scope) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    mapped.failed = Some(format!("`accept`: {error}"));
                    return;
                }
            }
            let given = accept.reason.as_ref().map(|reason| self.evaluator.value(reason, &FieldType::Text, scope)).transpose();
            let given = given.map_err(|error| mapped.warnings.push(format!("`reason` of `accept`: {error}; it is left out"))).ok().flatten();
            let given = given.and_then(|given| given.as_text().map(str::to_owned));
            let reason = given.unwrap_or_else(|| format!("not accepted: `{}` does not hold", accept.unless.source()));
            if accept.skip {
                mapped.skipped = Some(reason);
            } else {
                mapped.failed = Some(reason);
            }
            return;
        }
    }

    fn as_of(&self, scope: &DocumentScope<'_, '_>, values: &[Value]) -> Result<i64, String> {
        let mut time = None;
        for rule in &self.source.as_of.times {
            let value = match rule {
                AsOfRule::Received => Value::Int(scope.meta.received),
                AsOfRule::Let(index) => scope.lets.get(*index).map(LetResult::value).cloned().unwrap_or_default(),
                AsOfRule::Field(index) => values[*index].clone(),
                AsOfRule::Expression(expression) => {
                    self.evaluator.value(expression, &FieldType::Timestamp, scope).map_err(|error| format!("`as_of`: {error}"))?
                }
            };
            time = value.as_int();
            if time.is_some() {
                break;
            }
        }
        // without an as-of time of its own, a document counts as true when it was delivered
        let as_of = time.unwrap_or(scope.meta.received);
        if as_of > scope.meta.now.saturating_add(MAX_AHEAD_OF_CLOCK) {
            return Err(format!("the document's as-of time {} is more than a day in the future", show_timestamp(as_of)));
        }
        Ok(as_of)
    }

    /// Reports what was repaired in a value as warnings about the document.
    fn note_repairs(&self, name: &str, mapped: &mut MappedDocument) {
        mapped.warnings.extend(self.values.repairs().into_iter().map(|repair| format!("{name}: {repair}")));
    }

    /// Turns an issue of a value into a warning, which leaves the value out, or a failure of the document. In a source with `replaces:` nothing may
    /// be left out: the last readable value could not be kept, because the delivery retires it.
    fn note(&self, (name, ty): (&str, &FieldType), trouble: ValueIssue, mapped: &mut MappedDocument) -> Result<Value, ()> {
        match trouble {
            ValueIssue::Warning(reason) if self.source.complete_files().is_some() => {
                mapped.failed = Some(format!("{name}: {reason}; in a source with `replaces` every value must be readable"));
                Err(())
            }
            ValueIssue::Warning(reason) => {
                let it = if ty.is_list() { "the whole list" } else { "it" };
                mapped.warnings.push(format!("{name}: {reason}; {it} is ignored"));
                Ok(Value::Null)
            }
            ValueIssue::Failure(reason) => {
                mapped.failed = Some(format!("{name}: {reason}"));
                Err(())
            }
        }
    }
}
