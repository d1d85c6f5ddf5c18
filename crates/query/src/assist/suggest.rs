//! Turns free text into queries: what its words may mean in a catalogue, and the queries that fit most of them.
//!
//! A word of the text may name the collection, be a value that records have, a part of values, a field, or a comparison; spelling
//! mistakes lower the score. For each collection, the best meaning of each word is taken; words without a meaning lower the score most. Every
//! suggestion compiles.

use super::vocabulary::{WordIndex, WordIndexBuilder};
use crate::language::{MAX_GROUP_COLUMNS, identity, parse};
use crate::plan::{QueryScope, compile};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use stook_catalogue::definition::{Catalogue, Collection, Field};
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::links::Derivation;
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::{Result, Store, Tenant};

/// The maximum number of suggestions.
pub const SUGGESTIONS: usize = 4;
/// The maximum length of a text, in characters.
pub const MAX_TEXT: usize = 1_000;
/// The maximum number of words of a text that are interpreted.
const MAX_WORDS: usize = 12;
/// The maximum number of a field's words that are remembered as already learnt; further ones are only looked up again.
const MAX_SEEN: usize = 500_000;
/// The maximum number of complete values of a field that are stored.
const MAX_VALUES: usize = 2_000;
/// Words that are less similar than this are different words.
const MIN_SIMILARITY: f64 = 0.7;
/// The factor by which a word without a meaning lowers a suggestion's score.
const UNKNOWN_WORD_FACTOR: f64 = 0.3;
/// The factor by which the score is lowered if no word names the collection.
const UNNAMED_COLLECTION_FACTOR: f64 = 0.8;

/// The number of letters that a word and the name of a time field must have in common.
const MIN_SHARED_STEM: usize = 4;
/// The minimum length of a name that a word starts with: "ended" means `end_time`.
const MIN_STEM: usize = 3;

/// Words that are ignored.
const STOP_WORDS: [&str; 27] = [
    "a", "all", "an", "and", "any", "are", "at", "by", "find", "for", "from", "get", "give", "have", "in", "is", "list", "me", "of", "on", "per",
    "show", "that", "the", "what", "which", "with",
];

/// The words and values of a tenant's records from which suggestions are made.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// The fields that were read: collection and field.
    fields: Vec<(CollectionId, FieldId)>,
    /// Words inside values.
    words: WordIndex,
    /// Complete values of fields that have few, by position in `fields`: in lower case, with their original form.
    values: HashMap<u16, BTreeMap<Box<str>, Box<str>>>,
    /// Whether a collection may have more records than were read.
    is_partial: bool,
}

/// A query that a text may mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// The query.
    pub query: String,
    /// How well it fits, 1 at best.
    pub score: f64,
    /// The interpretation of each word.
    pub reasons: Vec<String>,
}

impl Suggestion {
    /// The JSON form.
    pub fn to_json(&self) -> Json {
        json!({ "query": self.query, "score": self.score, "reasons": self.reasons })
    }
}

impl Vocabulary {
    /// Reads the values of all indexed text fields, for `row_limit` records of each collection or for all.
    ///
    /// # Errors
    /// When the store fails.
    ///
    /// Cost: all values are read; a word or value that is known already costs a lookup.
    pub fn learn(catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, row_limit: Option<u64>) -> Result<Self> {
        let (mut vocabulary, mut builder) = (Self::default(), WordIndexBuilder::default());
        for (collection, definition) in catalogue.collections.enumerate().filter(|(_, definition)| definition.rows_of.is_none()) {
            for (field, found) in definition.fields.enumerate() {
                let is_indexed = found.index.ordered || found.index.contains || definition.key_field() == Some(field);
                // keys of linked records are learnt from these records
                let is_linked = matches!(found.derive, Some(Derivation::LinkKeys(_)));
                if found.golden_type().element() != &FieldType::Text || !is_indexed || is_linked || lists_sources(found) {
                    continue;
                }
                let Ok(position) = u16::try_from(vocabulary.fields.len()) else { break };
                vocabulary.fields.push((collection, field));
                let plan = QueryPlan {
                    columns: vec![PlanColumn::Field(field)],
                    any_order: true,
                    limit: row_limit,
                    ..QueryPlan::all(tenant.clone(), collection)
                };
                vocabulary.read(store, plan, position, &mut builder)?;
            }
        }
        vocabulary.words = builder.finish();
        Ok(vocabulary)
    }

    /// Whether all records were read.
    pub fn is_complete(&self) -> bool {
        !self.is_partial
    }

    fn read(&mut self, store: &dyn Store, plan: QueryPlan, position: u16, builder: &mut WordIndexBuilder) -> Result<()> {
        let mut rows = 0;
        let mut values: Option<BTreeMap<Box<str>, Box<str>>> = Some(BTreeMap::new());
        // what is known of this field: texts as they are written, and words by their hashes, of which two may be equal once in a million years
        let (mut texts_seen, mut words_seen): (HashSet<Box<str>>, HashSet<u64>) = Default::default();
        let hasher = RandomState::new();
        store.visit(&plan, &mut |row| {
            rows += 1;
            let texts: Vec<&str> = match row.first() {
                Some(Value::Text(text)) => vec![text],
                Some(Value::List(items)) => items.iter().filter_map(Value::as_text).collect(),
                _ => Vec::new(),
            };
            for text in texts {
                if texts_seen.contains(text) {
                    continue;
                }
                if texts_seen.len() < MAX_VALUES {
                    texts_seen.insert(text.into());
                }
                if let Some(seen) = &mut values {
                    seen.entry(text.to_lowercase().into()).or_insert_with(|| text.into());
                    if seen.len() > MAX_VALUES {
                        values = None;
                    }
                }
                for word in words_of(text) {
                    let hash = hasher.hash_one(word);
                    if words_seen.contains(&hash) {
                        continue;
                    }
                    if words_seen.len() < MAX_SEEN {
                        words_seen.insert(hash);
                    }
                    builder.learn(word, position);
                }
            }
            Ok(())
        })?;
        self.is_partial |= plan.limit == Some(rows);
        if let Some(values) = values {
            self.values.insert(position, values);
        }
        Ok(())
    }
}

/// Whether a field lists the contributors of a record. These are not learnt, because services often have the same names as records, `runs` or
/// `sites`.
fn lists_sources(field: &Field) -> bool {
    matches!(field.derive, Some(Derivation::Sources))
}

/// The words of a value that people may remember: no numbers, and nothing that looks like a part of an identifier.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let remembered = |word: &&str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let hex = digits > 0 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        word.chars().count() >= 2 && digits < word.len() && !(hex && word.len() >= 4)
    };
    text.split(|c: char| !c.is_alphanumeric()).filter(remembered)
}

/// An interpretation of a word in a collection.
#[derive(Debug, Clone)]
enum Interpretation {
    /// It names the collection.
    Selects,
    /// A condition, as text.
    Condition(String),
    /// A column.
    Column(String),
    /// It has no meaning and does not lower the score.
    Ignored,
}

#[derive(Debug, Clone)]
struct ScoredInterpretation {
    meaning: Interpretation,
    score: f64,
    reason: String,
}

/// The queries that a text may mean, of collections that the caller may read, best first.
///
/// # Errors
/// When the store fails.
pub fn suggest(vocabulary: &Vocabulary, scope: &QueryScope<'_>, text: &str) -> Result<Vec<Suggestion>> {
    let QueryScope { catalogue, store, tenant, .. } = *scope;
    let tokens = tokens(text);
    let mut found: Vec<Suggestion> = Vec::new();
    let (exact_matches, similar_words) = (RefCell::default(), RefCell::default());
    for (index, collection) in catalogue.collections.enumerate().filter(|(index, collection)| collection.rows_of.is_none() && scope.sees_all(*index))
    {
        let (exact_matches, similar_words) = (&exact_matches, &similar_words);
        let suggester = Suggester { vocabulary, scope, catalogue, store, tenant, index, collection, exact_matches, similar_words };
        found.extend(suggester.suggestion(&tokens)?);
    }
    found.retain(|suggestion| {
        let compiled = parse(&suggestion.query).and_then(|mut query| {
            query.apply_aliases(catalogue)?;
            compile(&query, catalogue, tenant, store.clock())
        });
        compiled.is_ok()
    });
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.query.len().cmp(&b.query.len())));
    found.truncate(SUGGESTIONS);
    Ok(found)
}

/// Splits a text into words and quoted texts; comparisons are joined with their values, even if they are expressed in words.
fn tokens(text: &str) -> Vec<String> {
    let text: String = text.chars().take(MAX_TEXT).filter(|c| *c != '\0').collect();
    let mut words: Vec<String> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        let word = if rest.starts_with('"') { word } else { word.trim_end_matches([',', '?', '.', '!', ';']) };
        if !word.is_empty() {
            words.push(word.to_owned());
        }
        rest = after.trim_start();
    }
    // "more than 33" becomes >33; a comparison belongs to the word before it
    let mut joined: Vec<String> = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let lowercase = word.to_lowercase();
        let worded_operator = match lowercase.as_str() {
            "more" | "greater" | "larger" | "above" | "over" => Some(">"),
            "less" | "fewer" | "smaller" | "below" | "under" => Some("<"),
            "since" | "after" => Some(">="),
            "before" => Some("<"),
            _ => None,
        };
        let is_operator = !word.is_empty() && word.chars().all(|c| matches!(c, '=' | '<' | '>' | '!'));
        let operator = if is_operator { Some(word.as_str()) } else { worded_operator };
        if let Some(operator) = operator {
            if words.peek().is_some_and(|next| next.eq_ignore_ascii_case("than")) {
                words.next();
            }
            if let Some(value) = words.next_if(|next| next.starts_with(|c: char| c.is_ascii_digit()) || is_operator) {
                let comparison = format!("{operator}{value}");
                match joined.last_mut().filter(|last| !last.contains(['=', '<', '>'])) {
                    Some(last) => last.push_str(&comparison),
                    None => joined.push(comparison),
                }
                continue;
            }
        }
        match joined.last_mut() {
            Some(last) if last.ends_with(['=', '<', '>']) => last.push_str(&word),
            _ => joined.push(word),
        }
    }
    joined.truncate(MAX_WORDS);
    joined
}

/// Words by their positions, with their similarity.
type SimilarWords = Rc<[(usize, f64)]>;

struct Suggester<'r> {
    vocabulary: &'r Vocabulary,
    catalogue: &'r Catalogue,
    store: &'r dyn Store,
    tenant: &'r Tenant,
    /// What the caller may read.
    scope: &'r QueryScope<'r>,
    index: CollectionId,
    collection: &'r Collection,
    /// The field that has a value, by collection and value, so that the store is read once for each.
    exact_matches: &'r RefCell<HashMap<(CollectionId, String), Option<String>>>,
    /// Words with similar spelling, so that they are searched once for each word of the text.
    similar_words: &'r RefCell<HashMap<String, SimilarWords>>,
}

impl Suggester<'_> {
    fn suggestion(&self, tokens: &[String]) -> Result<Option<Suggestion>> {
        let (mut conditions, mut columns, mut reasons) = (Vec::<String>::new(), Vec::<String>::new(), Vec::new());
        let (mut is_collection_named, mut product, mut counted) = (false, 1.0_f64, 0);
        let mut groups = Vec::<String>::new();
        let tokens = self.attach_days(tokens);
        for (position, token) in tokens.iter().enumerate() {
            let follows_by = position.checked_sub(1).is_some_and(|before| ["by", "per"].iter().any(|word| tokens[before].eq_ignore_ascii_case(word)));
            let guess = self.guesses(token, is_collection_named)?.into_iter().max_by(|a, b| a.score.total_cmp(&b.score));
            let Some(guess) = guess else {
                product *= UNKNOWN_WORD_FACTOR;
                counted += 1;
                reasons.push(format!("`{token}` was not understood"));
                continue;
            };
            match guess.meaning {
                Interpretation::Ignored => continue,
                Interpretation::Selects => is_collection_named = true,
                Interpretation::Condition(text) if !conditions.contains(&text) => conditions.push(text),
                Interpretation::Column(column) if follows_by && self.groups(&column) => {
                    product *= guess.score;
                    counted += 1;
                    reasons.push(format!("records are counted by {column}"));
                    groups.push(column);
                    continue;
                }
                Interpretation::Column(column) if !columns.contains(&column) => columns.push(column),
                Interpretation::Condition(_) | Interpretation::Column(_) => {}
            }
            product *= guess.score;
            counted += 1;
            reasons.push(guess.reason);
        }
        // fields with a condition need not be shown as well
        columns.retain(|column| {
            !conditions.iter().any(|condition| condition.strip_prefix(column.as_str()).is_some_and(|rest| rest.starts_with(['=', '<', '>'])))
        });
        groups.truncate(MAX_GROUP_COLUMNS);
        if counted == 0 || (!is_collection_named && conditions.is_empty()) {
            return Ok(None);
        }
        let mut query = self.collection.name.clone();
        conditions.iter().for_each(|condition| query.push_str(&format!(" {condition}")));
        if !groups.is_empty() {
            query.push_str(&format!(" | count(key) by {}", groups.join(", ")));
        } else if !columns.is_empty() {
            query.push_str(&format!(" | grep {}", columns.join(", ")));
        }
        let score = product.powf(1.0 / f64::from(counted)) * if is_collection_named { 1.0 } else { UNNAMED_COLLECTION_FACTOR };
        Ok(Some(Suggestion { query, score: (score * 1_000.0).round() / 1_000.0, reasons }))
    }

    /// Separates days from the words before them: "datasets since 2012-05-01" names a collection and a day, "created on 2012-05-01" a time field.
    fn attach_days(&self, tokens: &[String]) -> Vec<String> {
        let mut separated: Vec<String> = Vec::with_capacity(tokens.len());
        for token in tokens {
            let at = token.find(['=', '<', '>']).filter(|at| *at > 0);
            match at.map(|at| token.split_at(at)) {
                Some((name, comparison))
                    if compared_day(comparison).is_some() && !self.field_called(name).is_some_and(|(field, _)| self.is_time(&field)) =>
                {
                    separated.extend([name.to_owned(), comparison.to_owned()]);
                }
                _ => separated.push(token.clone()),
            }
            let Some((operator, day)) = separated.last().and_then(|last| compared_day(last).map(|(operator, day)| (operator.to_owned(), day))) else {
                continue;
            };
            let before = separated.len() - 1;
            let word = separated[..before].iter().rposition(|word| !STOP_WORDS.contains(&word.to_lowercase().as_str()));
            if let Some((word, field)) = word.and_then(|word| Some((word, self.time_called(&separated[word])?))) {
                separated[before] = format!("{field}{operator}{day}");
                separated.remove(word);
            }
        }
        separated
    }

    /// The time field that a word before a day means: "created" means `creation_time`, "started" means `start_time`.
    fn time_called(&self, word: &str) -> Option<&str> {
        let lowercase = word.to_lowercase();
        let shares_stem = |field: &&str| {
            let first = field.split('_').next().unwrap_or_default();
            let shared = lowercase.chars().zip(first.chars()).take_while(|(a, b)| a == b).count();
            shared >= MIN_SHARED_STEM || shared == first.chars().count() && shared >= MIN_STEM
        };
        let is_asked_for = similarity(&lowercase, &self.collection.name) >= MIN_SIMILARITY;
        let fields = self.collection.fields.iter().map(|field| field.name.as_str());
        fields.filter(|field| !is_asked_for && self.is_time(field)).find(shares_stem)
    }

    /// The time field that days are compared with: the first that an alias tests, or else the first of the collection.
    fn day_field(&self) -> Option<&str> {
        let tested = self.catalogue.aliases.iter().flat_map(|alias| &alias.tests).flat_map(|test| &test.fields);
        let tested = tested.filter(|(collection, _)| *collection == self.index).map(|(_, field)| field.as_str());
        tested.chain(self.collection.fields.iter().map(|field| field.name.as_str())).find(|field| self.is_time(field))
    }

    /// Whether rows can be grouped by a field.
    fn groups(&self, name: &str) -> bool {
        let field = || self.collection.field(name).map(|(_, field)| field.golden_type());
        field().or_else(|| self.collection.state(name).map(|(_, state)| &state.ty)).is_some_and(|ty| ty.element().is_ordered())
    }

    fn is_time(&self, name: &str) -> bool {
        let field = self.collection.fields.iter().find(|field| field.name == name);
        field.is_some_and(|field| matches!(field.golden_type(), FieldType::Timestamp | FieldType::Date | FieldType::PartialDate))
    }

    fn guesses(&self, token: &str, is_collection_named: bool) -> Result<Vec<ScoredInterpretation>> {
        let lowercase = token.to_lowercase();
        let mut guesses = Vec::new();
        if STOP_WORDS.contains(&lowercase.as_str()) {
            guesses.push(ScoredInterpretation { meaning: Interpretation::Ignored, score: 1.0, reason: String::new() });
            return Ok(guesses);
        }
        let mut guess = |meaning: Interpretation, score: f64, reason: String| guesses.push(ScoredInterpretation { meaning, score, reason });
        if let (Some((operator, day)), Some(field)) = (compared_day(token), self.day_field()) {
            guess(Interpretation::Condition(format!("{field}{operator}{day}")), 0.9, format!("`{token}` is a day of {field}"));
        }
        if let Some(at) = token.find(['=', '<', '>']) {
            let (name, comparison) = token.split_at(at);
            let name = name.trim_end_matches('!');
            if let Some((field, score)) = self.field_called(name) {
                let (operator, value) = comparison.split_at(comparison.find(|c| !matches!(c, '=' | '<' | '>')).unwrap_or(comparison.len()));
                guess(Interpretation::Condition(format!("{field}{operator}{}", quoted(value))), score, format!("`{token}` compares {field}"));
            }
            return Ok(guesses);
        }
        // the name of the collection
        let selects = self.catalogue.aliases.iter().filter(|alias| alias.select == Some(self.index)).map(|alias| alias.name.as_str());
        let best = selects.chain([self.collection.name.as_str()]).map(|name| similarity(&lowercase, name)).fold(0.0, f64::max);
        if best >= MIN_SIMILARITY && !is_collection_named {
            guess(Interpretation::Selects, best, format!("`{token}` asks for {}", self.collection.name));
        }
        // the form of a value
        for alias in &self.catalogue.aliases {
            for test in alias.tests.iter().filter(|test| test.matches.as_ref().is_some_and(|shape| shape.is_match(token))) {
                if let Some((_, field)) = test.fields.iter().find(|(collection, _)| *collection == self.index) {
                    guess(Interpretation::Condition(format!("{field}={}", quoted(token))), 0.9, format!("`{token}` looks like a {}", alias.name));
                    break;
                }
            }
        }
        self.values(token, &lowercase, &mut guess);
        if !token.contains('*') {
            // the name of a record is that of this collection, or of one that a word selects, before it is the value of another field
            let found = self.field_with_value(token)?;
            let is_own_name = found.is_some() && identity(self.catalogue, self.index) == found.as_deref();
            let score = if found.is_some() { 1.0 } else { 0.9 };
            let of_word = if is_own_name { None } else { self.alias_with_value(token)? };
            if let Some((word, field)) = of_word.or(found.map(|field| (field.clone(), field))) {
                guess(Interpretation::Condition(format!("{field}={}", quoted(token))), score, format!("`{token}` is a {word}"));
            }
        }
        // the name of a field to show
        if let Some((field, score)) = self.field_called(&lowercase) {
            guess(Interpretation::Column(field.clone()), score * 0.9, format!("`{token}` is the field {field}"));
        }
        Ok(guesses)
    }

    /// The field that a name means, by its own name or by an alias.
    fn field_called(&self, name: &str) -> Option<(String, f64)> {
        let lowercase = name.to_lowercase();
        let lowercase = lowercase.strip_prefix(self.collection.name.as_str()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&lowercase);
        let tests = self.catalogue.aliases.iter().filter_map(|alias| {
            let (_, field) = alias.tests.iter().flat_map(|test| &test.fields).find(|(collection, _)| *collection == self.index)?;
            Some((alias.name.as_str(), field.as_str()))
        });
        let fields = self.collection.fields.iter().map(|field| (field.name.as_str(), field.name.as_str()));
        let states = self.collection.states.iter().map(|state| (state.name.as_str(), state.name.as_str()));
        let scored = fields.chain(states).chain(tests).map(|(name, field)| (field, similarity(lowercase, name)));
        let (field, score) = scored.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, score)| *score >= MIN_SIMILARITY)?;
        Some((field.to_owned(), score))
    }

    /// Interpretations as values that records have, or as parts of them.
    fn values(&self, token: &str, lowercase: &str, guess: &mut impl FnMut(Interpretation, f64, String)) {
        for (position, (collection, field)) in self.vocabulary.fields.iter().enumerate() {
            if *collection != self.index {
                continue;
            }
            let (position, name) = (position as u16, self.collection.fields[*field].name.as_str());
            let values = self.vocabulary.values.get(&position);
            if let Some(written) = values.and_then(|values| values.get(lowercase)) {
                let score = if **written == *token { 1.0 } else { 0.95 };
                guess(Interpretation::Condition(format!("{name}={}", quoted(written))), score, format!("`{token}` is a {name}"));
                continue;
            }
            if let Some((prefix, _)) = lowercase.split_once('*').filter(|(prefix, _)| !prefix.is_empty()) {
                if values.is_some_and(|values| values.keys().any(|value| value.starts_with(prefix))) {
                    guess(Interpretation::Condition(format!("{name}={}", quoted(token))), 0.85, format!("`{token}` begins values of {name}"));
                }
                continue;
            }
            // a part that starts after a separator: 4_1 of CMSSW_4_1_2
            let starts_inside = |value: &str| value.find(lowercase).is_some_and(|at| at > 0 && !value[..at].ends_with(char::is_alphanumeric));
            if lowercase.len() >= 3
                && lowercase.bytes().any(|byte| byte.is_ascii_digit())
                && let Some(value) = values.and_then(|values| values.iter().find(|(value, _)| starts_inside(value)))
            {
                // the lower-case form of a text can be longer than the original
                let prefix = value.0.find(lowercase).and_then(|at| value.1.get(..at)).unwrap_or_default();
                guess(
                    Interpretation::Condition(format!("{name}={}", quoted(&format!("{prefix}{token}*")))),
                    0.85,
                    format!("`{token}` occurs in values of {name}"),
                );
                continue;
            }
            let parts: Vec<&str> = words_of(lowercase).collect();
            let words = &self.vocabulary.words;
            let occurs = |word: &str| words.find(word).is_some_and(|word_position| words.occurs_in(word_position, position));
            if !parts.is_empty() && parts.iter().all(|part| occurs(part)) {
                let written = self.as_written(lowercase);
                guess(
                    Interpretation::Condition(format!("{name}={}", quoted(&format!("*{written}*")))),
                    0.8,
                    format!("`{token}` occurs in values of {name}"),
                );
            } else if lowercase.chars().count() >= 4
                && let Some((similar, score)) = self.similar_word(lowercase, position)
            {
                guess(
                    Interpretation::Condition(format!("{name}={}", quoted(&format!("*{similar}*")))),
                    0.8 * score,
                    format!("`{token}` may be {similar}, which occurs in values of {name}"),
                );
            }
        }
    }

    /// Writes words as values have them, because patterns distinguish upper and lower case.
    fn as_written(&self, lowercase: &str) -> String {
        let mut written = String::with_capacity(lowercase.len());
        let mut rest = lowercase;
        for part in words_of(lowercase) {
            let Some((before, after)) = rest.split_once(part) else { continue };
            written.push_str(before);
            let spelling = self.vocabulary.words.find(part).map(|word_position| self.vocabulary.words.written(word_position));
            written.push_str(spelling.as_deref().unwrap_or(part));
            rest = after;
        }
        written + rest
    }

    /// The word of a field's values that is spelled most similarly and begins with the same letter.
    fn similar_word(&self, lowercase: &str, position: u16) -> Option<(String, f64)> {
        let words = &self.vocabulary.words;
        let similar = self.similar_words.borrow().get(lowercase).cloned();
        let similar = similar.unwrap_or_else(|| {
            let found: SimilarWords = words.similar(lowercase, MIN_SIMILARITY).into();
            self.similar_words.borrow_mut().insert(lowercase.to_owned(), found.clone());
            found
        });
        let (word_position, score) = similar.iter().find(|(word_position, _)| words.occurs_in(*word_position, position))?;
        Some((words.written(*word_position).into_owned(), *score))
    }

    /// The indexed field that has exactly this value.
    fn field_with_value(&self, token: &str) -> Result<Option<String>> {
        let key = (self.index, token.to_owned());
        if let Some(found) = self.exact_matches.borrow().get(&key) {
            return Ok(found.clone());
        }
        let found = self.find_field_with_value(token)?;
        self.exact_matches.borrow_mut().insert(key, found.clone());
        Ok(found)
    }

    fn find_field_with_value(&self, token: &str) -> Result<Option<String>> {
        let lowercase = token.to_lowercase();
        for (index, field) in self.collection.fields.enumerate() {
            let is_key = self.collection.key_field() == Some(index);
            if (!field.index.ordered && !is_key) || lists_sources(field) {
                continue;
            }
            let ty = field.golden_type().element();
            if !matches!(ty, FieldType::Text | FieldType::Integer | FieldType::Uuid) {
                continue;
            }
            // all values of this field are known
            let position = self.vocabulary.fields.iter().position(|entry| *entry == (self.index, index));
            if let Some(values) = position.and_then(|position| self.vocabulary.values.get(&(position as u16))) {
                if values.get(lowercase.as_str()).is_some_and(|written| **written == *token) {
                    return Ok(Some(field.name.clone()));
                }
                continue;
            }
            let Ok(value) = from_text(token, ty, None) else { continue };
            if value.is_null() {
                continue;
            }
            let column = if is_key { PlanColumn::Key } else { PlanColumn::Field(index) };
            let value = if is_key { Value::text(value.show(&field.ty)) } else { value };
            let plan = QueryPlan {
                conditions: vec![Condition { column, test: Comparison::Equal(value) }],
                limit: Some(1),
                ..QueryPlan::all(self.tenant.clone(), self.index)
            };
            if !self.store.find(&plan)?.rows.is_empty() {
                return Ok(Some(field.name.clone()));
            }
        }
        Ok(None)
    }

    /// The alias, and the field it tests here, if a record of another collection has exactly this value.
    fn alias_with_value(&self, token: &str) -> Result<Option<(String, String)>> {
        for alias in &self.catalogue.aliases {
            let Some(other) = alias.select.filter(|other| *other != self.index && self.scope.sees_all(*other)) else { continue };
            let test = alias.tests.iter().find(|test| test.matches.as_ref().is_none_or(|shape| shape.is_match(token)));
            let own_field = test.and_then(|test| test.fields.iter().find(|(collection, _)| *collection == self.index));
            let Some((_, field)) = own_field else { continue };
            let suggester = Suggester { index: other, collection: &self.catalogue.collections[other], ..*self };
            let tested = test.and_then(|test| test.fields.iter().find(|(collection, _)| *collection == other)).map(|(_, field)| field);
            if tested.is_some() && suggester.field_with_value(token)?.as_ref() == tested {
                return Ok(Some((alias.name.clone(), field.clone())));
            }
        }
        Ok(None)
    }
}

/// The similarity of a word and a name; a plural is as good as the singular.
fn similarity(word: &str, name: &str) -> f64 {
    let singular = word.strip_suffix("es").filter(|singular| *singular == name).or_else(|| word.strip_suffix('s'));
    match (word == name, singular) {
        (true, _) => 1.0,
        (_, Some(singular)) if singular == name => 0.98,
        _ if word.chars().count() < 4 => 0.0,
        (_, singular) => strsim::normalized_damerau_levenshtein(singular.filter(|_| !name.ends_with('s')).unwrap_or(word), name).min(0.95),
    }
}

/// A day with its comparison: 2012-05-01, 2012/05/01, 20120501 or >=2012-05-01.
fn compared_day(text: &str) -> Option<(&str, String)> {
    let (operator, day) = text.split_at(text.find(|c| !matches!(c, '=' | '<' | '>'))?);
    let separators = day.matches(['-', '/']).count();
    let digits = day.replace(['-', '/'], "");
    let is_day = digits.len() == 8 && matches!(separators, 0 | 2) && (digits.starts_with("19") || digits.starts_with("20"));
    let day = format!("{}-{}-{}", digits.get(..4).filter(|_| is_day)?, digits.get(4..6)?, digits.get(6..)?);
    from_text(&day, &FieldType::Date, None).ok()?;
    Some((if operator.is_empty() { "=" } else { operator }, day))
}

/// A value, quoted if a query requires that.
fn quoted(value: &str) -> String {
    let plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || ",|[]()=<>!'\"".contains(c));
    if plain { value.to_owned() } else { format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")) }
}
