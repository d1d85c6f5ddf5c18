//! A document to contributions: paths, conversions, expressions, key, time. Done once per document, whatever it feeds.

use bytes::Bytes;
use cel::objects::{Key as CelKey, Map as CelMap};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use stook_catalogue::definition::{
    AsOfRule, Captures, Catalogue, Collection, Feed, Field, FieldMapping, FormatFamily, KeyDefinition, Source, SourceRef, ValueOrigin, ValueRule,
    WhitespaceRule,
};
use stook_catalogue::expr::{Evaluator, Expression, MemberReference, Scope, from_cel, json_to_cel, text_to_cel, to_cel};
use stook_catalogue::fold::squash;
use stook_catalogue::key::Key;
use stook_catalogue::path::Path;
use stook_catalogue::plain::{PlainText, PlainValue};
use stook_catalogue::record::{ContributionContent, Hash, KeptDocument, put_bytes, put_value};
use stook_catalogue::value::{FieldType, SmolStr, Value, among, from_json, from_text, ranges, ranges_of, show_timestamp, struct_of};
use stook_formats::{Document, ParseContext, SelectedValue, Syntax, places, select, select_from};

/// How far ahead of the store's clock a document may be: one of 2099 would block its record for ever.
const MOST_AHEAD: i64 = 24 * 3600 * 1_000_000;

/// Most bytes of the name of a scope.
const MOST_SCOPE: usize = 512;

/// What is known of a document beside its content. It never enters the content hash.
#[derive(Debug, Clone)]
pub struct Envelope<'e> {
    /// Name of the file, without folders.
    pub name: &'e str,
    /// Number of the document inside the file, from 1.
    pub ordinal: u64,
    /// When the delivery was made, in microseconds.
    pub received: i64,
    /// The store's clock, in microseconds.
    pub now: i64,
    /// What its documents tell of a list, if not all: the part of their contributor's name.
    pub partial_list: Option<&'e str>,
}

/// What a document says in one collection.
#[derive(Debug, Clone)]
pub struct NewContribution {
    /// The collection's index.
    pub collection: usize,
    /// The index of the source whose document it is.
    pub source: usize,
    /// The feed's index in that source.
    pub feed: usize,
    /// Whether the document stood inside another one.
    pub embedded: bool,
    /// The record spoken of.
    pub key: Key,
    /// Who speaks.
    pub contributor: SmolStr,
    /// When it was true.
    pub as_of: i64,
    /// Hash of the content.
    pub hash: Hash,
    /// What is said.
    pub content: ContributionContent,
    /// Fields, by index and in their order, whose values could not be read.
    pub unreadable: Vec<usize>,
    /// The document, if the collection keeps it.
    pub raw: Option<KeptDocument>,
    /// The document as a packed tree, if tags are asked of it.
    pub tree: Option<Bytes>,
    /// Which scope it was said in, where files take the place of others.
    pub scope: Option<Box<ScopePosition>>,
    /// Whether a newer delivery has taken its place already.
    pub retired: bool,
}

/// Where a statement stands among those that a file takes the place of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopePosition {
    /// The scope.
    pub scope: String,
    /// A time in it, in microseconds.
    pub at: i64,
}

/// What became of a document when it was mapped.
#[derive(Debug, Default)]
pub struct MappedDocument {
    /// What it says, one per collection it feeds.
    pub statements: Vec<NewContribution>,
    /// Why it was skipped.
    pub skipped: Option<String>,
    /// Why it failed.
    pub failed: Option<String>,
    /// The key, if it is known though the document failed.
    pub key: Option<Key>,
    /// What was left out.
    pub warnings: Vec<String>,
}

/// Maps documents of one source. One per thread.
pub struct DocumentMapper<'c> {
    catalogue: &'c Catalogue,
    index: usize,
    source: &'c Source,
    evaluator: &'c Evaluator,
    /// The name of each `let`.
    names: Vec<&'c str>,
    /// For each `let` whether it is the same for all documents of a file.
    constant_per_file: Vec<bool>,
    /// Values of those, once they are known.
    known: RefCell<Vec<Option<LetResult<'c>>>>,
    /// For each feed fields that are mapped, but that the source has no say in.
    ignored_fields: Vec<Vec<usize>>,
    /// For each feed, for each `let`, the field of its name.
    same_name_fields: Vec<Vec<Option<usize>>>,
}

/// A `let` value.
#[derive(Clone)]
enum LetResult<'c> {
    Value(Value),
    /// Groups of a text, and the object they are where somebody asks for that.
    Groups(Captures<'c>, OnceCell<Value>),
}

impl LetResult<'_> {
    fn value(&self) -> &Value {
        match self {
            LetResult::Value(value) => value,
            LetResult::Groups(groups, object) => object.get_or_init(|| Value::Json(Arc::new(groups.to_json()))),
        }
    }
}

/// Values computed for the document at hand.
struct DocumentScope<'s, 'c> {
    source: &'s Source,
    /// Of the source's `let` values: they are looked up often, and lie close together here.
    names: &'s [&'s str],
    lets: Vec<LetResult<'c>>,
    /// Those of them that could not be read, and what follows from them alone.
    unread: Vec<usize>,
    /// The feed at hand, where its fields are known beside the `let` values.
    feed: Option<MappedFields<'s>>,
    meta: &'s Envelope<'s>,
}

/// Values of a collection's fields, of which only those mapped so far can be named: until `ref: { expr: ref }` is done, `ref`
/// is the `let` value.
#[derive(Clone, Copy)]
struct MappedFields<'s> {
    collection: &'s Collection,
    values: &'s [Value],
    mapped: &'s [FieldMapping],
    /// Fields that could not be read.
    unread: &'s [usize],
    /// For each `let` value the field of its name.
    namesakes: &'s [Option<usize>],
}

impl<'s> MappedFields<'s> {
    /// The value of a field, if it is mapped.
    fn get(self, field: usize) -> Option<(&'s Value, &'s FieldType)> {
        self.mapped.iter().any(|entry| entry.field == field).then(|| (&self.values[field], &self.collection.fields[field].ty))
    }
}

/// What a name stands for.
enum ResolvedName<'v, 'c> {
    Field(&'v Value, &'v FieldType),
    Let(&'v LetResult<'c>, &'v FieldType),
}

impl LetResult<'_> {
    fn is_null(&self) -> bool {
        matches!(self, LetResult::Value(Value::Null))
    }
}

impl<'s, 'c> DocumentScope<'s, 'c> {
    /// The same with fields of a feed beside the `let` values, which are lent to it.
    fn lend<'h>(&mut self, feed: Option<MappedFields<'h>>) -> DocumentScope<'h, 'c>
    where
        's: 'h,
    {
        let (lets, unread) = (std::mem::take(&mut self.lets), std::mem::take(&mut self.unread));
        DocumentScope { source: self.source, names: self.names, lets, unread, feed, meta: self.meta }
    }

    fn end(self) -> (Vec<LetResult<'c>>, Vec<usize>) {
        (self.lets, self.unread)
    }

    fn take_back(&mut self, (lets, unread): (Vec<LetResult<'c>>, Vec<usize>)) {
        (self.lets, self.unread) = (lets, unread);
    }
}

impl<'c> DocumentScope<'_, 'c> {
    /// Whether a rule is about something that could not be read: if it gives nothing, that is no statement.
    fn reads_unread(&self, rule: &ValueRule) -> bool {
        match &rule.origin {
            ValueOrigin::Expression(expression) => expression.variables().iter().any(|name| self.is_unread(name)),
            ValueOrigin::Match { of, .. } => self.is_unread(of),
            ValueOrigin::Paths(_) | ValueOrigin::Cases(_) | ValueOrigin::Elements(..) => false,
        }
    }

    fn is_unread(&self, name: &str) -> bool {
        let own = self.names.iter().position(|known| *known == name);
        let field = self.feed.and_then(|feed| Some((feed, feed.collection.field(name)?.0))).filter(|(feed, field)| feed.get(*field).is_some());
        match (field, own) {
            (Some((feed, field)), _) => feed.unread.contains(&field),
            (None, Some(own)) => self.unread.contains(&own),
            (None, None) => false,
        }
    }

    fn get(&self, name: &str) -> Option<(&Value, &FieldType)> {
        self.find(name).map(|found| match found {
            ResolvedName::Field(value, ty) => (value, ty),
            ResolvedName::Let(own, ty) => (own.value(), ty),
        })
    }

    fn get_let(&self, name: &str) -> Option<(&Value, &FieldType)> {
        let index = self.names.iter().position(|known| *known == name)?;
        Some((self.lets.get(index)?.value(), &self.source.lets[index].rule.ty))
    }

    fn find(&self, name: &str) -> Option<ResolvedName<'_, 'c>> {
        let own = self.names.iter().position(|known| *known == name);
        let field = self.feed.and_then(|feed| match own {
            Some(index) => feed.get(feed.namesakes[index]?),
            None => feed.get(feed.collection.field(name)?.0),
        });
        match (field, own) {
            (Some((value, ty)), _) => Some(ResolvedName::Field(value, ty)),
            (None, Some(index)) => Some(ResolvedName::Let(self.lets.get(index)?, &self.source.lets[index].rule.ty)),
            (None, None) => None,
        }
    }

    fn variable(&self, name: &str) -> cel::Value {
        match self.get(name) {
            Some((value, ty)) => to_cel(value, ty),
            None if name == "meta" => self.meta.to_cel(),
            None => cel::Value::Null,
        }
    }

    fn text(&self, name: &str) -> Option<SmolStr> {
        match self.get(name)? {
            (Value::Text(text), _) => Some(text.clone()),
            other => shown(other).map(Into::into),
        }
    }
}

impl Scope for DocumentScope<'_, '_> {
    /// A name: where only members are read of it, those; members of what is absent are absent.
    fn cel(&self, name: &str, read: &[MemberReference]) -> cel::Value {
        let members: Vec<&str> = read.iter().filter(|member| member.of == name).map(|member| member.name.as_str()).collect();
        match self.get(name) {
            Some((Value::Json(json), FieldType::Json)) if !members.is_empty() && json.is_object() => {
                let member = |name: &str| json.get(name).map_or(cel::Value::Null, json_to_cel);
                members_to_cel(&members, member)
            }
            Some((Value::Null, FieldType::Json)) if !members.is_empty() => members_to_cel(&members, |_| cel::Value::Null),
            _ => self.variable(name),
        }
    }

    fn plain(&self, name: &str, member: Option<&str>) -> Option<PlainValue<'_>> {
        let found = match (self.find(name), member) {
            (Some(ResolvedName::Let(LetResult::Groups(groups, _), _)), Some(member)) => {
                return Some(groups.get(member).map_or(PlainValue::Null, |text| PlainValue::Text(PlainText::Borrowed(text))));
            }
            (Some(ResolvedName::Let(LetResult::Groups(..), _)), None) => return Some(PlainValue::Object),
            (Some(ResolvedName::Let(LetResult::Value(value), ty) | ResolvedName::Field(value, ty)), _) => Some((value, ty)),
            (None, _) => None,
        };
        match (found, member) {
            (Some((value, ty)), None) => Some(PlainValue::of(value, ty)),
            (Some((Value::Json(json), _)), Some(member)) if json.is_object() => json.get(member).map_or(Some(PlainValue::Null), PlainValue::of_json),
            (Some((Value::Null, FieldType::Json)), Some(_)) => Some(PlainValue::Null),
            (None, Some("name")) if name == "meta" => Some(PlainValue::Text(PlainText::Borrowed(self.meta.name))),
            (None, Some("received")) if name == "meta" => Some(PlainValue::Time(self.meta.received)),
            _ => None,
        }
    }
}

fn members_to_cel(members: &[&str], value: impl Fn(&str) -> cel::Value) -> cel::Value {
    let map: HashMap<CelKey, cel::Value> = members.iter().map(|name| (CelKey::String(Arc::new((*name).to_owned())), value(name))).collect();
    cel::Value::Map(CelMap { map: Arc::new(map) })
}

fn shown((value, ty): (&Value, &FieldType)) -> Option<String> {
    (!value.is_null()).then(|| value.show(ty))
}

impl Envelope<'_> {
    fn to_cel(&self) -> cel::Value {
        let entries = [
            ("name", text_to_cel(self.name)),
            ("ordinal", cel::Value::Int(self.ordinal as i64)),
            ("received", to_cel(&Value::Int(self.received), &FieldType::Timestamp)),
        ];
        let map: HashMap<CelKey, cel::Value> = entries.into_iter().map(|(name, value)| (CelKey::String(Arc::new(name.to_owned())), value)).collect();
        cel::Value::Map(CelMap { map: Arc::new(map) })
    }
}

/// A statement without what it says.
struct ContributionHeader {
    key: Key,
    contributor: SmolStr,
    as_of: i64,
    gone: bool,
    scope: Option<Box<ScopePosition>>,
}

/// Trouble with one value.
enum ValueIssue {
    /// It is left out.
    Warning(String),
    /// The document fails.
    Failure(String),
}

impl<'c> DocumentMapper<'c> {
    /// A mapper of the source with this index, for documents of one file.
    pub fn new(catalogue: &'c Catalogue, index: usize, evaluator: &'c Evaluator) -> Self {
        let source = &catalogue.sources[index];
        let mut of_file: Vec<bool> = Vec::with_capacity(source.lets.len());
        for own in &source.lets {
            let earlier = |name: &str| source.lets.iter().zip(&of_file).any(|(other, of_file)| *of_file && other.name == name);
            of_file.push(match &own.rule.origin {
                ValueOrigin::Expression(expression) => expression.variables().iter().all(|name| {
                    let mut members = expression.members().iter().filter(|member| member.of == "meta").peekable();
                    earlier(name) || (name == "meta" && members.peek().is_some() && members.all(|member| member.name != "ordinal"))
                }),
                ValueOrigin::Match { of, .. } => earlier(of),
                ValueOrigin::Paths(_) | ValueOrigin::Cases(_) | ValueOrigin::Elements(..) => false,
            });
        }
        let known = RefCell::new(vec![None; source.lets.len()]);
        let unheard = source.feeds.iter().map(|feed| {
            let from = |field: usize| catalogue.collections[feed.collection].fields[field].from.as_ref();
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
        let (unheard, namesakes) = (unheard.collect(), namesakes.collect());
        Self { catalogue, index, source, evaluator, names, constant_per_file: of_file, known, ignored_fields: unheard, same_name_fields: namesakes }
    }

    /// Maps one document. `bytes` are what is kept and hashed, in `syntax`.
    pub fn map(&self, document: &Document<'_>, bytes: &Bytes, syntax: Syntax, envelope: &Envelope<'_>) -> MappedDocument {
        let mut mapped = MappedDocument::default();
        if let Document::Marc(record) = document
            && record.unknown_characters > 0
        {
            mapped.warnings.push(format!("{} characters are not MARC-8 and became U+FFFD", record.unknown_characters));
        }
        let lets = Vec::with_capacity(self.source.lets.len());
        let mut scope = DocumentScope { source: self.source, names: &self.names, lets, unread: Vec::new(), feed: None, meta: envelope };
        let mut found = Vec::new();
        for (index, own) in self.source.lets.iter().enumerate() {
            let known = if self.constant_per_file[index] { self.known.borrow()[index].clone() } else { None };
            let value = match known {
                Some(value) => value,
                None => {
                    let value = match &own.rule.origin {
                        ValueOrigin::Match { pattern, of } => Ok(self.matched(*pattern, of, &scope)),
                        _ => self.value(document, &own.rule, &scope, &mut found).map(LetResult::Value),
                    };
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
                        self.known.borrow_mut()[index] = Some(value.clone());
                    }
                    value
                }
            };
            scope.lets.push(value);
        }
        let alone = self.source.feeds.len() == 1;
        if !alone {
            self.conditions(&scope, &mut mapped);
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
            if let Some(statement) = self.feed(document, index, feed, bytes, syntax, &mut scope, alone, &mut mapped, &mut found) {
                mapped.statements.push(statement);
            }
            scope.feed = None;
            if mapped.failed.is_some() || mapped.skipped.is_some() {
                mapped.statements.clear();
                return mapped;
            }
        }
        match mapped.statements.first().map(|statement| statement.as_of) {
            None if mapped.skipped.is_none() => mapped.skipped = Some("it contributes to no collection".into()),
            None => {}
            Some(as_of) => self.embedded(document, &scope, as_of, &mut mapped),
        }
        mapped
    }

    /// Documents inside a document. What is wrong with one is a warning, and only it is left out.
    fn embedded(&self, document: &Document<'_>, scope: &DocumentScope<'_, '_>, as_of: i64, mapped: &mut MappedDocument) {
        for embed in &self.source.embeds {
            let inner = &self.catalogue.sources[embed.source];
            let mut found = Vec::new();
            select(document, &embed.path, &mut found);
            let text = match found.first() {
                Some(SelectedValue::Text(text, _)) => text,
                Some(SelectedValue::Json(Json::String(text))) => text.as_str(),
                Some(SelectedValue::Json(_)) => {
                    mapped.warnings.push(format!("{}: not text; ignored", inner.name));
                    continue;
                }
                None => continue,
            };
            // nothing is said: what was said before stays
            if text.trim().is_empty() {
                continue;
            }
            let Some(name) = embed.name.fill(|name| shown(scope.get_let(name)?).map(Cow::Owned)) else {
                mapped.warnings.push(format!("{}: a value of its name is missing; it is left out", inner.name));
                continue;
            };
            let syntax = if inner.family == FormatFamily::Xml { Syntax::Xml } else { Syntax::Json };
            let bytes = Bytes::copy_from_slice(text.as_bytes());
            let said = match Document::parse(&bytes, syntax, &ParseContext::default()) {
                Ok(parsed) => {
                    let envelope = Envelope { name: &name, partial_list: None, ..scope.meta.clone() };
                    DocumentMapper::new(self.catalogue, embed.source, self.evaluator).map(&parsed, &bytes, syntax, &envelope)
                }
                Err(error) => MappedDocument { failed: Some(error.to_string()), ..MappedDocument::default() },
            };
            mapped.warnings.extend(said.warnings.into_iter().map(|warning| format!("{}: {warning}", inner.name)));
            mapped.warnings.extend(said.failed.map(|reason| format!("{}: {reason}; it is left out", inner.name)));
            let own = |statement: NewContribution| NewContribution { as_of, embedded: true, ..statement };
            mapped.statements.extend(said.statements.into_iter().map(own));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one document's context, used in one place")]
    fn feed<'s, 'd>(
        &'s self,
        document: &'d Document<'_>,
        index: usize,
        feed: &'s Feed,
        bytes: &Bytes,
        syntax: Syntax,
        scope: &mut DocumentScope<'s, 'c>,
        alone: bool,
        mapped: &mut MappedDocument,
        found: &mut Vec<SelectedValue<'d>>,
    ) -> Option<NewContribution> {
        let collection = &self.catalogue.collections[feed.collection];
        let namesakes = &self.same_name_fields[index];
        let mut values = vec![Value::Null; collection.fields.len()];
        let mut unread: Vec<usize> = Vec::new();
        for (done, entry) in feed.map.iter().enumerate() {
            let field = &collection.fields[entry.field];
            let own = MappedFields { collection, values: &values, unread: &unread, mapped: &feed.map[..done], namesakes };
            let heard = scope.lend(Some(own));
            let value = self.value(document, &entry.rule, &heard, found).and_then(|value| allowed(value, field, entry.rule.strict));
            let reads_unread = matches!(value, Ok(Value::Null)) && heard.reads_unread(&entry.rule);
            let lent = heard.end();
            scope.take_back(lent);
            if reads_unread || value.is_err() {
                unread.push(entry.field);
            }
            values[entry.field] = match value {
                Ok(value) => value,
                Err(trouble) => self.note((&field.name, &field.ty), trouble, mapped).ok()?,
            };
        }
        // conditions of a source with several feeds are about its `let` values
        let own = alone.then_some(MappedFields { collection, values: &values, unread: &unread, mapped: &feed.map, namesakes });
        let heard = scope.lend(own);
        let result = self.statement(&heard, feed, collection, &values, alone, mapped);
        let lent = heard.end();
        scope.take_back(lent);
        let ContributionHeader { key, contributor, as_of, gone, scope } = result?;
        for field in &self.ignored_fields[index] {
            values[*field] = Value::Null;
        }
        // what is deleted says nothing of fields, and nothing of what was said before is left
        unread.retain(|field| !gone && !self.ignored_fields[index].contains(field));
        unread.sort_unstable();
        let said = if gone { ContributionContent::Tombstone } else { ContributionContent::Values(values.into()) };
        let hash = content_hash(&said, &unread, (collection, feed), bytes, scope.as_deref());
        let raw = collection.keep_raw.then(|| KeptDocument { format: syntax as u8, bytes: bytes.clone() });
        let asked = collection.tag_document().filter(|own| own.sources().contains(&self.index));
        let tree = match document {
            Document::Xml(tree) if asked.is_some() => Some(tree.pack().into()),
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
            content: said,
            unreadable: unread,
            raw,
            tree,
            scope,
            retired: false,
        })
    }

    fn statement(
        &self,
        scope: &DocumentScope<'_, '_>,
        feed: &Feed,
        collection: &Collection,
        values: &[Value],
        alone: bool,
        mapped: &mut MappedDocument,
    ) -> Option<ContributionHeader> {
        let key = self.key(collection, values);
        mapped.key = key.as_ref().ok().cloned();
        if alone {
            self.conditions(scope, mapped);
            if mapped.failed.is_some() || mapped.skipped.is_some() {
                return None;
            }
        }
        let gone = match &self.source.gone {
            None => false,
            Some(gone) => match self.evaluator.holds(gone, scope) {
                Ok(gone) => gone,
                Err(error) => {
                    mapped.failed = Some(format!("`gone`: {error}"));
                    return None;
                }
            },
        };
        let missing: Vec<&str> = collection
            .fields
            .iter()
            .zip(values)
            .filter(|(field, value)| field.required && value.is_null() && !gone)
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
        let contributor = match (&feed.contributor, scope.meta.partial_list) {
            (None, None) => self.source.name.as_str().into(),
            (None, Some(part)) => format!("{}:{part}", self.source.name).into(),
            (Some(template), _) => match template.fill(|name| shown(scope.get_let(name)?).map(Cow::Owned)) {
                Some(part) => format!("{}:{part}", self.source.name).into(),
                None => {
                    mapped.failed = Some("the contributor's name cannot be built: a value of its template is missing".into());
                    return None;
                }
            },
        };
        match self.scoped(scope) {
            Ok(scope) => Some(ContributionHeader { key, contributor, as_of, gone, scope }),
            Err(reason) => {
                mapped.failed = Some(reason);
                None
            }
        }
    }

    /// Where a document stands among those that a file takes the place of.
    fn scoped(&self, scope: &DocumentScope<'_, '_>) -> Result<Option<Box<ScopePosition>>, String> {
        let Some(replaces) = &self.source.replaces else { return Ok(None) };
        let found = |name: &str, expression: &Expression, ty: FieldType| match self.evaluator.value(expression, &ty, scope) {
            Ok(Value::Null) => Err(format!("`replaces`: the document has no `{name}`")),
            Err(error) => Err(format!("`{name}` of `replaces`: {error}")),
            found => found,
        };
        let named = found("scope", &replaces.scope, FieldType::Text)?.as_text().map(str::to_owned).unwrap_or_default();
        if named.len() > MOST_SCOPE {
            return Err(format!("`scope` of `replaces` has {} bytes; {MOST_SCOPE} are allowed", named.len()));
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

    fn key(&self, collection: &Collection, values: &[Value]) -> Result<Key, String> {
        key_of(collection, values, self.evaluator)
    }

    fn as_of(&self, scope: &DocumentScope<'_, '_>, values: &[Value]) -> Result<i64, String> {
        let value = match &self.source.as_of {
            AsOfRule::Received => Value::Int(scope.meta.received),
            AsOfRule::Let(index) => scope.lets.get(*index).map(LetResult::value).cloned().unwrap_or_default(),
            AsOfRule::Field(index) => values[*index].clone(),
            AsOfRule::Expression(expression) => {
                self.evaluator.value(expression, &FieldType::Timestamp, scope).map_err(|error| format!("`as_of`: {error}"))?
            }
        };
        // what does not say when it was true was true when it was delivered
        let as_of = value.as_int().unwrap_or(scope.meta.received);
        if as_of > scope.meta.now.saturating_add(MOST_AHEAD) {
            return Err(format!("the document's as-of time {} is more than a day in the future", show_timestamp(as_of)));
        }
        Ok(as_of)
    }

    /// A warning leaves the value out, a failure ends the document. In a file that takes the place of older ones nothing may be left out:
    /// what was said before could not be kept, as the file retires it.
    fn note(&self, (name, ty): (&str, &FieldType), trouble: ValueIssue, mapped: &mut MappedDocument) -> Result<Value, ()> {
        match trouble {
            ValueIssue::Warning(reason) if self.source.replaces.is_some() => {
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

    /// `found` is room for what paths find.
    fn value<'d>(
        &self,
        document: &'d Document<'_>,
        rule: &ValueRule,
        scope: &DocumentScope<'_, '_>,
        found: &mut Vec<SelectedValue<'d>>,
    ) -> Result<Value, ValueIssue> {
        found.clear();
        let trouble = |reason: String| if rule.strict { ValueIssue::Failure(reason) } else { ValueIssue::Warning(reason) };
        match &rule.origin {
            ValueOrigin::Paths(_) | ValueOrigin::Cases(_) => self.selected(rule, |path, found| select(document, path, found), found).map_err(trouble),
            ValueOrigin::Elements(path, rules) => {
                let members = rule.ty.members();
                let mut structs = Vec::new();
                for place in places(document, path) {
                    let mut values = vec![Value::Null; members.len()];
                    for (member, rule) in rules {
                        let value = self.selected(rule, |path, found| select_from(place, path, found), &mut Vec::new());
                        let value = value.map_err(|reason| trouble(format!("{}: {reason}", members[*member].name)))?;
                        values[*member] = check(value, &rule.ty, &[]).map_err(trouble)?;
                    }
                    structs.push(struct_of(members, values));
                }
                structs.retain(|element| !element.is_null());
                Ok(if structs.is_empty() { Value::Null } else { Value::List(structs) })
            }
            ValueOrigin::Expression(expression) => self.expression(expression, rule, scope).map_err(trouble),
            ValueOrigin::Match { pattern, of } => Ok(self.matched(*pattern, of, scope).value().clone()),
        }
    }

    fn matched(&self, pattern: usize, of: &str, scope: &DocumentScope<'_, '_>) -> LetResult<'c> {
        let groups = scope.text(of).and_then(|text| self.catalogue.patterns[pattern].groups(&text));
        groups.map_or(LetResult::Value(Value::Null), |groups| LetResult::Groups(groups, OnceCell::new()))
    }

    /// The value of a rule on paths, of what `select` finds; `found` is room for it.
    fn selected<'d>(
        &self,
        rule: &ValueRule,
        select: impl Fn(&Path, &mut Vec<SelectedValue<'d>>),
        found: &mut Vec<SelectedValue<'d>>,
    ) -> Result<Value, String> {
        match &rule.origin {
            ValueOrigin::Paths(paths) => {
                for path in paths {
                    select(path, found);
                    if !found.is_empty() {
                        break;
                    }
                }
                self.convert(found, rule)
            }
            ValueOrigin::Cases(cases) => {
                for (path, constant) in cases {
                    select(path, found);
                    if !found.is_empty() {
                        return self.text(constant, rule);
                    }
                }
                Ok(Value::Null)
            }
            ValueOrigin::Elements(..) | ValueOrigin::Expression(_) | ValueOrigin::Match { .. } => Ok(Value::Null),
        }
    }

    fn expression(&self, expression: &Expression, rule: &ValueRule, scope: &DocumentScope<'_, '_>) -> Result<Value, String> {
        let changes = rule.clean.is_some() || rule.lookup.is_some() || rule.format.is_some();
        let plain = |plain: PlainValue<'_>| match plain {
            PlainValue::Text(text) if changes && !rule.ty.is_list() => Some(self.text(&text, rule)),
            plain => plain.into_value(&rule.ty).map(Ok),
        };
        let found = self.evaluator.eval(expression, scope, plain, |found| {
            let value = match (found, &rule.format) {
                // a text in a format of its own
                (cel::Value::String(text), Some(_)) => return Ok(self.text(&text, rule)),
                (found, _) => from_cel(&found, &rule.ty).map_err(|error| error.to_string())?,
            };
            Ok(match value {
                Value::Text(text) if rule.clean.is_some() || rule.lookup.is_some() => self.text(&text, rule),
                Value::Json(json) if json.is_null() => Ok(Value::Null),
                other => Ok(other),
            })
        });
        found?
    }

    /// What paths found, as one value of the rule's type.
    fn convert(&self, found: &[SelectedValue<'_>], rule: &ValueRule) -> Result<Value, String> {
        let Some(first) = found.first() else { return Ok(Value::Null) };
        if let Some(separator) = &rule.join {
            return self.joined(found, separator, rule);
        }
        if rule.ty == FieldType::Ranges {
            let mut all = Vec::new();
            for selected in found {
                if let Value::Json(own) = self.one(selected, rule)? {
                    all.extend(ranges(&own));
                }
            }
            return Ok(ranges_of(all));
        }
        if !rule.ty.is_list() {
            return self.one(first, rule);
        }
        let mut values = Vec::with_capacity(found.len());
        for selected in found {
            match self.one(selected, rule)? {
                Value::Null => {}
                Value::List(items) => values.extend(items),
                value => values.push(value),
            }
        }
        Ok(if values.is_empty() { Value::Null } else { Value::List(values) })
    }

    fn joined(&self, found: &[SelectedValue<'_>], separator: &str, rule: &ValueRule) -> Result<Value, String> {
        let mut texts: Vec<(Cow<'_, str>, u32)> = Vec::new();
        for selected in found {
            let (text, field): (Cow<'_, str>, u32) = match selected {
                SelectedValue::Text(text, field) => (Cow::Borrowed(text), *field),
                SelectedValue::Json(serde_json::Value::String(text)) => (Cow::Borrowed(text), 0),
                SelectedValue::Json(json) => (Cow::Owned(json.to_string()), 0),
            };
            if text.is_empty() {
                continue;
            }
            match texts.last_mut() {
                Some((joined, previous)) if !rule.each_field || *previous == field => {
                    let joined = joined.to_mut();
                    joined.push_str(separator);
                    joined.push_str(&text);
                }
                _ => texts.push((text, field)),
            }
        }
        if !rule.ty.is_list() {
            return texts.first().map_or(Ok(Value::Null), |(text, _)| self.text(text, rule));
        }
        let values: Vec<Value> = texts.iter().map(|(text, _)| self.text(text, rule)).collect::<Result<_, _>>()?;
        let values: Vec<Value> = values.into_iter().filter(|value| !value.is_null()).collect();
        Ok(if values.is_empty() { Value::Null } else { Value::List(values) })
    }

    fn one(&self, selected: &SelectedValue<'_>, rule: &ValueRule) -> Result<Value, String> {
        match selected {
            SelectedValue::Text(text, _) => self.text(text, rule),
            SelectedValue::Json(serde_json::Value::String(text)) if rule.ty.element() != &FieldType::Json => self.text(text, rule),
            SelectedValue::Json(json) => from_json(json, &rule.ty, rule.format.as_deref()).map_err(|error| error.to_string()),
        }
    }

    /// Text as an element of the rule's type. Blank text says nothing.
    fn text(&self, text: &str, rule: &ValueRule) -> Result<Value, String> {
        let cleaned: Cow<'_, str> = match rule.clean {
            None => Cow::Borrowed(text),
            Some(WhitespaceRule::Trim) => Cow::Borrowed(text.trim()),
            Some(WhitespaceRule::Squash) => Cow::Owned(squash(text)),
        };
        if cleaned.is_empty() {
            return Ok(Value::Null);
        }
        let looked_up = match &rule.lookup {
            None => cleaned,
            Some(table) => match self.catalogue.tables.get(table).and_then(|table| table.get(&cleaned)) {
                Some(found) => Cow::Owned(found.to_owned()),
                None => return Ok(Value::Null),
            },
        };
        from_text(&looked_up, rule.ty.element(), rule.format.as_deref()).map_err(|error| error.to_string())
    }
}

/// The key that values of a document, or of an edit, give a record.
///
/// # Errors
/// Why they give none.
pub fn key_of(collection: &Collection, values: &[Value], evaluator: &Evaluator) -> Result<Key, String> {
    Key::new(key_text(collection, values, evaluator)?).map_err(|error| error.to_string())
}

/// The text of the key that values give, which may be too long for one.
///
/// # Errors
/// When there is none.
pub fn key_text(collection: &Collection, values: &[Value], evaluator: &Evaluator) -> Result<SmolStr, String> {
    let get = |name: &str| collection.field(name).map(|(index, field)| (&values[index], &field.ty));
    Ok(match &collection.key {
        KeyDefinition::Field(index) => match &values[*index] {
            Value::Null => return Err(format!("no key: `{}` has no value", collection.fields[*index].name)),
            Value::Text(text) => text.clone(),
            other => other.show(&collection.fields[*index].ty).into(),
        },
        KeyDefinition::Template(template) => {
            template.fill(|name| shown(get(name)?).map(Cow::Owned)).ok_or("there is no key: a value of its template is missing")?.into()
        }
        KeyDefinition::Expression(expression) => {
            let variable = |name: &str| get(name).map_or(cel::Value::Null, |(value, ty)| to_cel(value, ty));
            let text = evaluator.value(expression, &FieldType::Text, &variable).map_err(|error| format!("the key: {error}"))?;
            text.as_text().ok_or("no key: its expression returned nothing")?.into()
        }
    })
}

fn allowed(value: Value, field: &Field, strict: bool) -> Result<Value, ValueIssue> {
    check(value, &field.ty, &field.one_of).map_err(if strict { ValueIssue::Failure } else { ValueIssue::Warning })
}

/// Checks `one_of`, and that every store can hold the value: some keep no text with a NUL character.
///
/// # Errors
/// Why it is not allowed.
pub fn check(value: Value, ty: &FieldType, one_of: &[Value]) -> Result<Value, String> {
    let has_nul = |element: &Value| element.as_text().is_some_and(|text| text.contains('\0'));
    if value.elements().iter().any(has_nul) {
        return Err(format!("{:?} has a NUL character", value.show(ty)));
    }
    among(value, ty, one_of)
}

/// The hash of what a document says: of its bytes where they are kept, else of its values, those of the envelope left out; and of
/// where it stands in which scope.
fn content_hash(
    said: &ContributionContent,
    unread: &[usize],
    (collection, feed): (&Collection, &Feed),
    bytes: &[u8],
    scope: Option<&ScopePosition>,
) -> Hash {
    let mut content = Vec::new();
    let content = match said {
        ContributionContent::Values(values) if !collection.keep_raw => {
            // that a value could not be read is not that there is none
            let is_said = |field: usize| !values[field].is_null() || unread.contains(&field);
            for entry in feed.map.iter().filter(|entry| !entry.rule.reads_meta && is_said(entry.field)) {
                put_bytes(&mut content, collection.fields[entry.field].name.as_bytes());
                put_value(&mut content, &values[entry.field]);
            }
            content.as_slice()
        }
        _ => bytes,
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(content);
    if let Some(ScopePosition { scope, at }) = scope {
        hasher.update(scope.as_bytes()).update(&at.to_le_bytes());
    }
    let mut hash = [0; 16];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}
