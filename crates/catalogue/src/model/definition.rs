//! A validated definition: what the other crates work with. [`crate::parse`] makes one from text.

use crate::eval::expression::{ConstantTables, Expression};
use crate::model::key::Template;
use crate::model::links::{Coverage, Derivation, Link};
use crate::model::path::{Path, PathLanguage};
use crate::model::route::Route;
use crate::value::{FieldType, SmolStr, StructMember, Value};
use regex::{CaptureLocations, Regex};
use regex_syntax::hir::Look;
use regex_syntax::hir::literal::Extractor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything Stook knows of a domain. Indexes into its vectors are the ids used everywhere.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// Its name.
    pub name: String,
    /// BLAKE3 of the definition, without comments and layout.
    pub hash: String,
    /// BLAKE3 of everything by which records are settled, and behind it the collections whose records exist because links name them.
    pub settling: String,
    /// Constant tables.
    pub tables: Arc<ConstantTables>,
    /// Pattern sets.
    pub patterns: Vec<PatternSet>,
    /// Collections, in the order written; behind them those of coverages.
    pub collections: Vec<Collection>,
    /// Links of all collections.
    pub links: Vec<Link>,
    /// Coverages of all collections, each behind those it sums up.
    pub coverages: Vec<Coverage>,
    /// Services that are asked when a query needs them, in the order written.
    pub services: Vec<Service>,
    /// Sources, in the order written.
    pub sources: Vec<Source>,
    /// Words of queries, in the order written.
    pub words: Vec<QueryAlias>,
    /// Profiles, in the order written.
    pub profiles: Vec<Profile>,
    /// Shares of the workers, by tenant; `else` is everybody else's.
    pub tenants: BTreeMap<String, TenantShare>,
    /// Declared routes, in the order written.
    pub routes: Vec<Route>,
    /// The member of an error's JSON object that holds the sentence, for declared routes; nothing for problem details.
    pub error_member: Option<String>,
}

/// Who has a say in a field: a source, or edits through the API, which have no entry among the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceRef {
    /// The source with this index.
    Source(usize),
    /// Edits through the API.
    Api,
}

/// The name that edits through the API go by, where sources have theirs.
pub const API_NAME: &str = "api";

impl Catalogue {
    /// A definition of nothing: for what needs none.
    pub fn empty() -> Self {
        Self {
            name: String::new(),
            hash: String::new(),
            settling: String::new(),
            tables: Arc::default(),
            patterns: Vec::new(),
            collections: Vec::new(),
            links: Vec::new(),
            coverages: Vec::new(),
            services: Vec::new(),
            sources: Vec::new(),
            words: Vec::new(),
            profiles: Vec::new(),
            tenants: BTreeMap::new(),
            routes: Vec::new(),
            error_member: None,
        }
    }

    /// The name of a source, or of edits through the API.
    pub fn speaker_name(&self, speaker: SourceRef) -> &str {
        match speaker {
            SourceRef::Source(index) => &self.sources[index].name,
            SourceRef::Api => API_NAME,
        }
    }

    /// The collection called `name` and its index.
    pub fn collection(&self, name: &str) -> Option<(usize, &Collection)> {
        self.collections.iter().enumerate().find(|(_, collection)| collection.name == name)
    }

    /// The collections whose records carry tags, with their indexes.
    pub fn with_tags(&self) -> impl Iterator<Item = (usize, &Collection)> {
        self.collections.iter().enumerate().filter(|(_, collection)| collection.tags.is_some())
    }

    /// The link with this number, if its children are found by their field, see [`Link::is_only_read`].
    pub fn link_by_field(&self, id: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.edges() == id && link.is_only_read())
    }

    /// A tenant's share of the workers.
    pub fn share(&self, tenant: &str) -> TenantShare {
        self.tenants.get(tenant).or_else(|| self.tenants.get("else")).copied().unwrap_or_default()
    }

    /// The source called `name` and its index.
    pub fn source(&self, name: &str) -> Option<(usize, &Source)> {
        self.sources.iter().enumerate().find(|(_, source)| source.name == name)
    }

    /// Whether documents of a source stand inside those of another one.
    pub fn is_embedded(&self, source: &str) -> bool {
        let embeds = self.sources.iter().flat_map(|own| &own.embeds);
        self.source(source).is_some_and(|(index, _)| embeds.into_iter().any(|embed| embed.source == index))
    }

    /// What the source of a contribution is called by who asks: of one that is asked, its service's name. Nothing for records that exist
    /// because others name them.
    pub fn voice<'a>(&'a self, source: &'a str) -> Option<&'a str> {
        match self.source(source) {
            Some((_, Source { asks: Some(asks), .. })) => Some(&self.services[asks.service].name),
            Some((_, source)) => Some(&source.name),
            None => (source == API_NAME).then_some(API_NAME),
        }
    }

    /// The profile called `name`.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }
}

/// Regular expressions tried in order.
#[derive(Debug, Clone)]
pub struct PatternSet {
    /// Its name.
    pub name: String,
    /// The expressions.
    pub expressions: Vec<NamedRegex>,
}

/// A regular expression with named groups.
#[derive(Debug, Clone)]
pub struct NamedRegex {
    expression: Regex,
    /// Of its groups, where they have one.
    names: Vec<Option<String>>,
    /// How each text that matches begins, where that is known.
    beginnings: Option<Vec<Box<[u8]>>>,
}

impl NamedRegex {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, regex::Error> {
        let expression = regex::RegexBuilder::new(text).size_limit(1 << 20).build()?;
        let parsed = regex_syntax::parse(text).ok().filter(|parsed| parsed.properties().look_set_prefix().contains(Look::Start));
        let literals = parsed.map(|parsed| Extractor::new().extract(&parsed));
        let beginnings = literals.and_then(|literals| Some(literals.literals()?.iter().map(|literal| literal.as_bytes().into()).collect()));
        let names = expression.capture_names().map(|name| name.map(str::to_owned)).collect();
        Ok(Self { expression, names, beginnings })
    }

    /// The names of its groups.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.names.iter().flatten().map(String::as_str)
    }

    /// Whether a text may match: most are refused by how they begin.
    fn may_match(&self, text: &str) -> bool {
        self.beginnings.as_ref().is_none_or(|beginnings| beginnings.iter().any(|beginning| text.as_bytes().starts_with(beginning)))
    }
}

impl PatternSet {
    /// The first expression that matches, and where its groups are.
    pub fn groups(&self, text: &SmolStr) -> Option<Captures<'_>> {
        let mut possible = self.expressions.iter().filter(|own| own.may_match(text));
        possible.find_map(|own| {
            let mut places = own.expression.capture_locations();
            own.expression.captures_read(&mut places, text)?;
            Some(Captures { names: &own.names, text: text.clone(), locations: places })
        })
    }
}

/// The named groups of a text.
#[derive(Debug, Clone)]
pub struct Captures<'p> {
    names: &'p [Option<String>],
    text: SmolStr,
    locations: CaptureLocations,
}

impl Captures<'_> {
    /// The text of a group, if it is part of the match.
    pub fn get(&self, name: &str) -> Option<&str> {
        let index = self.names.iter().position(|own| own.as_deref() == Some(name))?;
        let (start, end) = self.locations.get(index)?;
        self.text.get(start..end)
    }

    /// All of them as an object.
    pub fn to_json(&self) -> serde_json::Value {
        let named = self.names.iter().flatten().filter_map(|name| Some((name.clone(), self.get(name)?.into())));
        serde_json::Value::Object(named.collect())
    }
}

/// A named set of records.
#[derive(Debug, Clone)]
pub struct Collection {
    /// Its name.
    pub name: String,
    /// How keys are made.
    pub key: KeyDefinition,
    /// The key rule as written, for comparison with what a store was prepared with.
    pub key_text: String,
    /// Whether contributions keep their documents.
    pub keep_raw: bool,
    /// What decides whether a record exists.
    pub exists: ExistenceRule,
    /// How many changes of a record's golden fields are kept in its log.
    pub history: Option<u32>,
    /// Contributed and derived fields.
    pub fields: Vec<Field>,
    /// Fields that only transitions write.
    pub states: Vec<StateField>,
    /// Named changes of state.
    pub transitions: Vec<Transition>,
    /// Whether, and how, records carry tags.
    pub tags: Option<TagSettings>,
    /// The coverage, by index, whose rows these records are.
    pub rows_of: Option<usize>,
}

/// How records carry tags.
#[derive(Debug, Clone)]
pub struct TagSettings {
    /// The number of the collection's tags in a store.
    pub id: u32,
    /// What the XPath of a tag is asked of; without it tags are manual or queries.
    pub document: Option<TagDocument>,
    /// Most steps of an XPath on one document.
    pub steps: u64,
    /// What tags have beside a definition and a comment.
    pub attributes: Vec<(String, FieldType)>,
}

/// The document of a record: one source's own, and in its element what other sources say, each in a namespace called as its
/// prefix.
#[derive(Debug, Clone)]
pub struct TagDocument {
    /// The source whose document it is.
    pub root: usize,
    /// The name of the empty element where that source says nothing.
    pub placeholder: String,
    /// Prefixes, each with the source whose document is in that namespace, by prefix.
    pub embedded: Vec<(String, usize)>,
    /// Prefixes of expressions.
    pub namespaces: Vec<(String, String)>,
}

impl TagDocument {
    /// The sources it is made of, each once.
    pub fn sources(&self) -> Vec<usize> {
        let mut sources: Vec<usize> = self.embedded.iter().map(|(_, source)| *source).chain([self.root]).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }
}

impl Collection {
    /// The field that is the key, if the key is one.
    pub fn key_field(&self) -> Option<usize> {
        match self.key {
            KeyDefinition::Field(field) => Some(field),
            _ => None,
        }
    }

    /// What the XPath of a tag is asked of.
    pub fn tag_document(&self) -> Option<&TagDocument> {
        self.tags.as_ref()?.document.as_ref()
    }

    /// The fields that a store keeps. Members stand behind all others, and are found in their structs.
    pub fn stored_fields(&self) -> &[Field] {
        let members = self.fields.iter().position(Field::is_member);
        &self.fields[..members.unwrap_or(self.fields.len())]
    }

    /// The member, and the list whose structs have it, if the field with this index is one.
    pub fn member(&self, field: usize) -> Option<(usize, &StructMember)> {
        match self.fields.get(field)?.derive {
            Some(Derivation::Member(list, member)) => Some((list, &self.fields[list].ty.members()[member])),
            _ => None,
        }
    }

    /// The fields that a record is shown with: all but members, which stand in their structs.
    pub fn shown_fields(&self) -> impl Iterator<Item = (usize, &Field)> {
        self.fields.iter().enumerate().filter(|(_, field)| !field.is_member())
    }

    /// The field called `name` and its index.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        self.fields.iter().enumerate().find(|(_, field)| field.name == name)
    }

    /// The state field called `name` and its index.
    pub fn state(&self, name: &str) -> Option<(usize, &StateField)> {
        self.states.iter().enumerate().find(|(_, state)| state.name == name)
    }

    /// Whether the settle machine gives any field its value.
    pub fn settles(&self) -> bool {
        self.fields.iter().any(Field::is_settled)
    }

    /// Whether any field is flagged when contributors disagree.
    pub fn compares(&self) -> bool {
        self.fields.iter().any(|field| field.compare)
    }
}

/// How a record's key is made from the values one document gives its fields.
#[derive(Debug, Clone)]
pub enum KeyDefinition {
    /// The text of a field.
    Field(usize),
    /// A template over fields.
    Template(Template),
    /// CEL over fields.
    Expression(Expression),
}

/// What decides whether a record exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistenceRule {
    /// The newest contribution: a tombstone that is newer than everything else deletes.
    Latest,
    /// Any living contribution.
    Any,
}

/// A golden field.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Type of contributed values.
    pub ty: FieldType,
    /// A document that feeds this collection must give a value.
    pub required: bool,
    /// Questions answered by index.
    pub index: FieldIndexes,
    /// One record per value.
    pub unique: bool,
    /// Compared by [`crate::value::fold::fold`].
    pub fold: bool,
    /// Allowed values; empty for any.
    pub one_of: Vec<Value>,
    /// How it follows from other fields, instead of being contributed.
    pub derive: Option<Derivation>,
    /// Which contribution wins.
    pub survivorship: Survivorship,
    /// Sources that may say it; `None` for all.
    pub from: Option<Vec<SourceRef>>,
    /// Disagreement is a conflict.
    pub compare: bool,
    /// The rule of sources that feed this collection without a map of their own.
    pub rule: Option<UnparsedRule>,
}

impl Field {
    /// Whether it is a member of the structs in another field: it can be asked for, and is shown with them.
    pub fn is_member(&self) -> bool {
        matches!(self.derive, Some(Derivation::Member(..)))
    }

    /// Whether the settle machine gives the value.
    pub fn is_settled(&self) -> bool {
        self.derive.as_ref().is_some_and(Derivation::is_settled)
    }

    /// Whether it holds the key of a linked record.
    pub fn is_link(&self) -> bool {
        matches!(self.derive, Some(Derivation::LinkKeys(_) | Derivation::TargetKey(..)))
    }

    /// Type of golden values: JSON for fields kept by contributor. Nobody contributes what is derived, whatever the collection's rule is.
    pub fn golden_type(&self) -> &FieldType {
        match (&self.survivorship, &self.derive) {
            (Survivorship::ByContributor, None) => &FieldType::Json,
            _ => &self.ty,
        }
    }
}

/// Where a field's shorthand rule stands, until the sources that use it are known.
#[derive(Debug, Clone)]
pub struct UnparsedRule {
    /// The definition's own node.
    pub node: crate::parse::yaml::Node,
}

/// Questions a store answers without reading every record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldIndexes {
    /// Equality, ranges, order and prefixes: one ordered index.
    pub ordered: bool,
    /// Text anywhere inside.
    pub contains: bool,
    /// Equality, for settling alone: the children of a link that is [only read](crate::model::links::Link::is_only_read), if it is not ordered.
    pub by_link: bool,
}

/// Which contribution's value becomes golden. Ties on `as_of` are broken by content hash, then contributor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Survivorship {
    /// The newest contribution that says something.
    Latest,
    /// The oldest contribution that says something.
    Earliest,
    /// By trust, then by time.
    Prefer {
        /// Sources, most trusted first.
        sources: Vec<SourceRef>,
        /// Whether the oldest instead of the newest decides among equals.
        then_earliest: bool,
    },
    /// All values of all contributions, oldest first, each once.
    Union,
    /// The structs of all contributions; those that have the same value of this member are one, and its other members have their newest
    /// values.
    UnionBy(usize),
    /// A mapping from contributor to its value.
    ByContributor,
}

impl Survivorship {
    /// Whether several contributors' values become one.
    pub fn combines(&self) -> bool {
        matches!(self, Survivorship::Union | Survivorship::UnionBy(_) | Survivorship::ByContributor)
    }
}

/// A field that only transitions write.
#[derive(Debug, Clone)]
pub struct StateField {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
    /// The value until a transition sets one.
    pub initial: Option<Expression>,
    /// Questions answered by index.
    pub index: FieldIndexes,
    /// Allowed values; empty for any.
    pub one_of: Vec<Value>,
}

/// A named, conditional change of state.
#[derive(Debug, Clone)]
pub struct Transition {
    /// Its name.
    pub name: String,
    /// Arguments of the call.
    pub args: Vec<TransitionArgument>,
    /// Conditions under which it is refused.
    pub refuse: Vec<Refusal>,
    /// State fields by index, and their new values; `None` sets null.
    pub set: Vec<(usize, Option<Expression>)>,
}

/// An argument of a transition.
#[derive(Debug, Clone)]
pub struct TransitionArgument {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
    /// A call without it is refused.
    pub required: bool,
    /// The value of a call that gives none.
    pub default: Option<Expression>,
    /// Allowed values; empty for any.
    pub one_of: Vec<Value>,
    /// Smallest number.
    pub min: Option<f64>,
    /// Largest number.
    pub max: Option<f64>,
}

/// A refusal of a transition.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The condition.
    pub when: Expression,
    /// What the caller is told.
    pub reason: Expression,
    /// HTTP status.
    pub code: u16,
}

/// Families of formats that share a path language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatFamily {
    /// ISO 2709, MARCXML, MARC-in-JSON.
    Marc,
    /// XML split at an element.
    Xml,
    /// JSON array, single value, NDJSON.
    Json,
    /// CSV with a header.
    Csv,
}

impl FormatFamily {
    /// Its path language.
    pub fn language(self) -> PathLanguage {
        match self {
            FormatFamily::Marc => PathLanguage::Marc,
            FormatFamily::Xml => PathLanguage::Xml,
            FormatFamily::Json => PathLanguage::Json,
            FormatFamily::Csv => PathLanguage::Csv,
        }
    }

    /// Its name in definitions.
    pub fn name(self) -> &'static str {
        match self {
            FormatFamily::Marc => "marc",
            FormatFamily::Xml => "xml",
            FormatFamily::Json => "json",
            FormatFamily::Csv => "csv",
        }
    }
}

/// Where documents come from.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its format.
    pub family: FormatFamily,
    /// The element (xml; behind the one around it) or member (json) that holds the documents.
    pub records: Option<String>,
    /// What says that a file without documents is empty.
    pub empty: Option<Regex>,
    /// Prefixes used in XPath.
    pub namespaces: Vec<(String, String)>,
    /// Values computed once per document, in order.
    pub lets: Vec<LetValue>,
    /// Conditions a document must meet.
    pub accept: Vec<AcceptRule>,
    /// True for a document that deletes.
    pub gone: Option<Expression>,
    /// When the document was true.
    pub as_of: AsOfRule,
    /// What a whole file of it takes the place of.
    pub replaces: Option<CompleteDelivery>,
    /// Services that are asked for documents.
    pub collect: Option<Collect>,
    /// How a service is asked for documents that a query needs.
    pub asks: Option<ServiceBinding>,
    /// Collections fed.
    pub feeds: Vec<Feed>,
    /// Documents of other sources inside its own.
    pub embeds: Vec<EmbeddedDocument>,
}

/// A document inside a document.
#[derive(Debug, Clone)]
pub struct EmbeddedDocument {
    /// The source whose document it is.
    pub source: usize,
    /// Where it stands, as text.
    pub path: Path,
    /// What its file would be called, a template over `let` values.
    pub name: Template,
}

/// OData services that are asked for what they have published in a window of time.
#[derive(Debug, Clone)]
pub struct Collect {
    /// The number of their journals in a store.
    pub id: u32,
    /// Each with its name, and the URL of its entities.
    pub services: Vec<(String, String)>,
    /// The member that says when a document was published.
    pub window: String,
    /// Documents of a page.
    pub page: usize,
    /// How long documents may take to be seen, in microseconds: what is younger is not asked for.
    pub lag: i64,
    /// Where to begin, in microseconds.
    pub since: Option<i64>,
    /// A condition of its own, in the service's language.
    pub filter: Option<String>,
    /// How the names of credentials begin in the environment.
    pub credentials: Option<String>,
}

/// A word of queries: what it selects, and what a condition on it tests.
#[derive(Debug, Clone)]
pub struct QueryAlias {
    /// The word.
    pub name: String,
    /// The collection that is asked for by it.
    pub select: Option<usize>,
    /// What it tests, by what a value looks like: the first that accepts it.
    pub tests: Vec<AliasTarget>,
}

/// What a word tests.
#[derive(Debug, Clone)]
pub struct AliasTarget {
    /// What a value must look like.
    pub matches: Option<Regex>,
    /// The fields, by collection; `key` is a record's key.
    pub fields: Vec<(usize, String)>,
}

/// A service that is asked when a query needs what it knows. Times are in microseconds.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// What the paths of its calls stand behind; `${NAME}` is taken from the environment.
    pub url: String,
    /// Time for one request.
    pub timeout: i64,
    /// Time for all requests of an answer.
    pub deadline: i64,
    /// Requests at a time.
    pub parallel: usize,
    /// Requests a second.
    pub rate: Option<u32>,
    /// How often a request is tried.
    pub attempts: u32,
    /// Most bytes of one response.
    pub most_bytes: u64,
    /// How long an answer is fresh, where the response does not say.
    pub ttl: i64,
    /// The same for answers without any document.
    pub ttl_empty: i64,
    /// How long it is not asked the same again after it has failed.
    pub ttl_failed: i64,
    /// How long before they are no longer fresh answers are asked for again that queries go on needing.
    pub ahead: Option<i64>,
    /// What stands for any text in an argument.
    pub wildcard: String,
    /// How the names of credentials begin in the environment.
    pub credentials: Option<String>,
}

/// How a source's service is asked. All of its calls give documents of one kind, chosen by their arguments.
#[derive(Debug, Clone)]
pub struct ServiceBinding {
    /// The number of its answers in a store.
    pub id: u32,
    /// The service's index.
    pub service: usize,
    /// Its calls, in the order written.
    pub calls: Vec<ServiceCall>,
}

/// A call of a service.
#[derive(Debug, Clone)]
pub struct ServiceCall {
    /// Its name.
    pub name: String,
    /// Path and constant parameters, behind the service's URL.
    pub get: String,
    /// Its arguments.
    pub args: Vec<CallArgument>,
    /// How it cuts long answers.
    pub page: Option<Pagination>,
    /// Among calls with as many arguments the cheapest is made.
    pub cost: u32,
}

/// An argument of a call: a condition of a query that the service is told. Every document of the answer satisfies it.
#[derive(Debug, Clone)]
pub struct CallArgument {
    /// Its name.
    pub name: String,
    /// The field, by index, of the collection that is fed.
    pub field: usize,
    /// What of the condition it takes.
    pub takes: ArgumentForm,
    /// What a value must look like.
    pub matches: Option<Regex>,
    /// Whether the call cannot be made without it.
    pub required: bool,
    /// What is said where the query says nothing.
    pub default: Option<String>,
    /// Times as seconds since 1970.
    pub epoch: bool,
}

/// What an argument takes of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentForm {
    /// One value.
    Value,
    /// One value, or a pattern.
    Pattern,
    /// One value, or several: the argument is repeated.
    List,
    /// The lower bound.
    From,
    /// The upper bound.
    To,
}

/// How long answers are cut.
#[derive(Debug, Clone)]
pub enum Pagination {
    /// By number: documents to leave out, and documents of a page.
    Offset {
        /// The argument with how many documents are left out.
        offset: String,
        /// The argument with how many documents there are on a page.
        limit: String,
        /// How many are asked for.
        size: u64,
    },
    /// The top object's member that holds the URL of what follows.
    Next(String),
    /// The element that holds a token, and the argument that takes it (OAI-PMH).
    Token(String, String),
}

/// A named value of a document.
#[derive(Debug, Clone)]
pub struct LetValue {
    /// Its name.
    pub name: String,
    /// How it is taken.
    pub rule: ValueRule,
}

/// A condition on documents.
#[derive(Debug, Clone)]
pub struct AcceptRule {
    /// What must hold.
    pub unless: Expression,
    /// Skip instead of fail.
    pub skip: bool,
    /// What the journal says.
    pub reason: Option<Expression>,
}

/// A file without a failure takes the place of what older files of its source said in the same scope, from its first time on.
#[derive(Debug, Clone)]
pub struct CompleteDelivery {
    /// Its number in a store; the last two bits are free.
    pub id: u32,
    /// The scope a document is in.
    pub scope: Expression,
    /// Where a document stands in it, a time; without one a file takes the place of all.
    pub at: Option<Expression>,
    /// Of the keys of the whole file before it, the largest share that a file may lack and still retire them, in percent.
    pub max_missing: f64,
}

/// The share of keys that a file may lack where the definition does not say one, in percent.
pub const MOST_LACKING: f64 = 20.0;

impl CompleteDelivery {
    /// The link of the ledger's edges: scope, from when on, and how old the delivery is.
    pub fn ledger(&self) -> u32 {
        self.id
    }

    /// The link of edges from a file to its chunks that are done.
    pub fn parts(&self) -> u32 {
        self.id | 1
    }

    /// The link of edges from a scope to what was said in it.
    pub fn statements(&self) -> u32 {
        self.id | 2
    }

    /// The link of edges that say what became of files, and what was retired.
    pub fn history(&self) -> u32 {
        self.id | 3
    }

    /// The links of all its edges.
    pub fn links(&self) -> [u32; 4] {
        [self.ledger(), self.parts(), self.statements(), self.history()]
    }
}

/// When a document was true.
#[derive(Debug, Clone)]
pub enum AsOfRule {
    /// When it was received: the delivery's time.
    Received,
    /// The `let` with this index.
    Let(usize),
    /// The field with this index of the only feed.
    Field(usize),
    /// CEL giving a timestamp.
    Expression(Expression),
}

/// One collection a document contributes to.
#[derive(Debug, Clone)]
pub struct Feed {
    /// The collection's index.
    pub collection: usize,
    /// Only documents for which this holds.
    pub when: Option<Expression>,
    /// Names the part of the source that speaks.
    pub contributor: Option<Template>,
    /// How fields get their values: rules on paths first, then expressions in the order written.
    pub map: Vec<FieldMapping>,
    /// Hash of everything that decides what a document becomes here.
    pub generation: [u8; 16],
}

/// How one field gets its value.
#[derive(Debug, Clone)]
pub struct FieldMapping {
    /// The field's index.
    pub field: usize,
    /// The rule.
    pub rule: ValueRule,
}

/// How a value is taken from a document.
#[derive(Debug, Clone)]
pub struct ValueRule {
    /// Type of the result.
    pub ty: FieldType,
    /// Where it comes from.
    pub origin: ValueOrigin,
    /// One value per field instead of per subfield.
    pub each_field: bool,
    /// Separator that joins what was found.
    pub join: Option<String>,
    /// White space.
    pub clean: Option<WhitespaceRule>,
    /// Pattern or unit of times.
    pub format: Option<String>,
    /// Constant table that replaces the value.
    pub lookup: Option<String>,
    /// Conversion trouble fails the document.
    pub strict: bool,
    /// Depends on the envelope and so is left out of the content hash.
    pub reads_meta: bool,
}

/// Where a value comes from.
#[derive(Debug, Clone)]
pub enum ValueOrigin {
    /// The first of these paths that finds something.
    Paths(Vec<Path>),
    /// The constant beside the first path that finds something.
    Cases(Vec<(Path, String)>),
    /// A struct for each place that the path finds: of its members, by index, by rules on paths from there.
    Elements(Path, Vec<(usize, ValueRule)>),
    /// CEL.
    Expression(Expression),
    /// Groups of a pattern (index) matched against a `let` or field by name.
    Match {
        /// The pattern's index.
        pattern: usize,
        /// The value's name.
        of: String,
    },
}

/// White space handling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhitespaceRule {
    /// Removed at the ends.
    Trim,
    /// Removed at the ends and squashed inside.
    Squash,
}

/// What an import does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The source's index.
    pub source: usize,
    /// For documents whose record existed before the job.
    pub matched: OnMatched,
    /// For the others.
    pub unmatched: OnUnmatched,
}

/// A tenant's share of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantShare {
    /// Work it gets beside a tenant of weight 1 while both have some.
    pub weight: u32,
    /// Most chunks in work at a time.
    pub max_running: Option<u32>,
}

impl Default for TenantShare {
    fn default() -> Self {
        Self { weight: 1, max_running: None }
    }
}

/// What happens to a document whose record existed before the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMatched {
    /// It contributes.
    Update,
    /// It is left out.
    Skip,
    /// It fails.
    Fail,
    /// Its contributor's contribution is withdrawn.
    Withdraw,
}

/// What happens to a document whose record did not exist before the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnmatched {
    /// It contributes.
    Create,
    /// It is left out.
    Skip,
    /// It fails.
    Fail,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_cannot_match_are_known_by_how_texts_begin() {
        for (expression, text, may) in [
            ("^(?P<a>S1[A-D])_.*", "S1B_IW", true),
            ("^(?P<a>S1[A-D])_.*", "S2A_IW", false),
            ("^S1.*|S2", "xS2", true),
            ("(?i)^ab+", "ABC", true),
            ("(?i)^ab+", "bab", false),
            (".*x", "anything", true),
            ("^(?:a|)b?", "zzz", true),
            ("^[^.]+$", "zzz", true),
            ("S1", "in the middle S1", true),
        ] {
            let named = NamedRegex::new(expression).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(named.may_match(text), may, "{expression} {text}");
            assert!(may || !named.expression.is_match(text), "{expression} {text}");
        }
    }
}
