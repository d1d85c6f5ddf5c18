//! Random queries on random records, answered by the embedded store and by a reader that knows nothing about SQL.
//!
//! The reader is written from the semantics on the front page of the crate: it looks at every record, one condition after the other. A failure prints
//! the query; `STOOK_TEST_SEED` chooses other records and queries than the usual ones.

use crate::support;

use proptest::prelude::{Rng, RngExt};
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::cmp::Ordering;
use std::fmt::Write;
use stook_catalogue::definition::Collection;
use stook_catalogue::fold::fold;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::value::{FieldType, Geometry, PartialDate, Value, from_text};
use stook_catalogue::words::words_of;
use stook_query::CompiledQuery;
use stook_store::plan::{AggregateFunction, GeometryRelation, Grouping, PERIODS, Period, QueryPlan};
use stook_store::{Queries, Tenant};
use support::{Filled, NOW, Record, compiled, definition, filled, main_tenant};

const DEFINITION: &str = "
catalogue: differential
collections:
  thing:
    key: code
    fields:
      code: text
      serial: { type: text, unique: true, index: equal }
      title: { type: text, index: [equal, prefix] }
      note: text
      heading: { type: text, fold: true, index: prefix }
      label: { type: text, fold: true }
      body: { type: text, index: contains }
      abstract: { type: text, fold: true, index: contains }
      name: { type: text, index: [prefix, contains] }
      alias: { type: text, fold: true, index: [equal, prefix, contains] }
      pages: { type: integer, index: equal }
      rank: integer
      weight: { type: float, index: equal }
      price: float
      active: { type: boolean, index: equal }
      visible: boolean
      changed: { type: timestamp, index: equal }
      seen: timestamp
      born: { type: date, index: equal }
      died: date
      printed: { type: partial_date, index: equal }
      written: partial_date
      issued: { type: [partial_date], index: equal }
      copied: [partial_date]
      length: { type: duration, index: equal }
      pause: duration
      bytes: { type: size, index: equal }
      disk: size
      owner: { type: uuid, index: equal }
      other: uuid
      tags: { type: [text], index: [equal, prefix] }
      words: [text]
      echoes: { type: [text], fold: true, index: equal }
      numbers: { type: [integer], index: equal }
      steps: [integer]
      measures: [float]
      amounts: { type: [float], index: equal }
      marks: { type: [uuid], index: equal }
      moments: [timestamp]
      flags: [boolean]
      story: { type: text, index: words }
      stories: { type: [text], index: [equal, words] }
      extra: json
      extras: [json]
      footprint: { type: geometry, index: intersects }
      outline: geometry
    state:
      status: { type: text, index: equal }
      patron: text
      visits: { type: integer, index: equal }
      place: geometry
";

/// Parts of texts. Some differ only in case, width or composition; some have a meaning in SQL, in its patterns, or in queries.
#[rustfmt::skip]
const SYLLABLES: [&str; 46] = [
    "a", "b", "ab", "abc", "A", "B", "Ab", "é", "e\u{301}", "É", "ß", "ẞ", "Ａ", "ﬁ", "fi", "İ", "i", "σ", "ς", " ", " ", " ", "  ", "\u{a0}",
    "[", "]", "?", "*", "^", "-", "[a-c]", "%", "_", "\\", "\"", "'", ",", "|", "=", "(",
    "\u{d7ff}", "\u{e000}", "\u{fffd}", "\u{ffff}", "\u{10000}", "\u{10ffff}",
];

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

struct Dice(TestRng);

impl Dice {
    fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0.random_range(0..limit)
    }

    fn integer_between(&mut self, low: i64, high: i64) -> i64 {
        self.0.random_range(low..=high)
    }

    /// True once in `times`.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }

    fn syllables(&mut self, max: usize) -> String {
        (0..self.below(max + 1)).map(|_| *self.choose(&SYLLABLES)).collect()
    }

    /// A value of a type; often one of a few, so that values are equal and conditions hold.
    fn scalar(&mut self, ty: &FieldType) -> Value {
        let common = !self.once_in(4);
        match ty {
            FieldType::Text => Value::text(self.syllables(if common { 3 } else { 12 })),
            FieldType::Integer if common => Value::Int(self.integer_between(-5, 15)),
            FieldType::Integer => Value::Int(*self.choose(&[i64::MAX, i64::MIN, 1 << 53, (1 << 53) + 1, -1_000_000, 77])),
            FieldType::Float if common => Value::Float(self.integer_between(-12, 30) as f64 / 4.0),
            FieldType::Float if self.once_in(10) => Value::Float(*self.choose(&[1e300, -1e300, 1e-300, 5e-324, 123_456_789.123_456_79])),
            FieldType::Float => Value::Float((self.0.next_u64() >> 11) as f64 * self.choose(&[1.0, -1.0, 1e-9, 1e-17])),
            FieldType::Boolean => Value::Bool(self.once_in(2)),
            FieldType::Timestamp => Value::Int(self.moment()),
            FieldType::Date => Value::Int(if common { self.integer_between(19_840, 19_850) } else { self.integer_between(-40_000, 60_000) }),
            FieldType::PartialDate => Value::Int(self.partial_date(common).stored()),
            FieldType::Duration => {
                Value::Int(if common { self.integer_between(-2, 8) * 1_800_000_000 } else { self.integer_between(-1 << 40, 1 << 40) })
            }
            FieldType::Size => Value::Int(if common { self.integer_between(0, 10) } else { self.integer_between(0, 1 << 50) }),
            FieldType::Uuid if common => Value::Uuid(self.below(8) as u128),
            FieldType::Uuid => Value::Uuid((u128::from(self.0.next_u64()) << 64) | u128::from(self.0.next_u64())),
            FieldType::Json => {
                let text = self.choose(&["1", "1.5", "\"a\"", "[1,2]", "{\"b\":1,\"a\":[true]}", "{}", "\"é\u{10ffff}\""]);
                from_text(text, ty, None).expect("JSON")
            }
            FieldType::Geometry => self.geometry().0,
            FieldType::Ranges | FieldType::Struct(_) => unreachable!("the stores' own tests have them"),
            FieldType::List(element) => Value::List((0..self.below(5)).map(|_| self.scalar(element)).collect()),
        }
    }

    /// A year, month, day or range; often one of a few years.
    fn partial_date(&mut self, common: bool) -> PartialDate {
        let year = if common { self.integer_between(1998, 2000) } else { self.integer_between(0, 9999) };
        let (month, day) = (self.choose(&[1, 2, 5, 12]).to_owned(), self.choose(&[1, 15, 28]).to_owned());
        let one = |text: String| PartialDate::parse(&text).expect("a partial date");
        match self.below(6) {
            0 | 1 => one(format!("{year:04}")),
            2 => one(format!("{year:04}-{month:02}")),
            3 => one(format!("{year:04}-{month:02}-{day:02}")),
            4 => one(format!("{year:04}-{month:02}/..")),
            _ => one(format!("{year:04}-{month:02}-{day:02}/{:04}", (year + self.integer_between(0, 2)).min(9999))),
        }
    }

    /// A moment within a few days of now; often one at which a day begins or ends.
    fn moment(&mut self) -> i64 {
        let day = NOW.div_euclid(DAY) * DAY + self.integer_between(-6, 1) * DAY;
        match self.below(5) {
            0 => day,
            1 => day + DAY - 1,
            2 => NOW + self.integer_between(-2, 2) * 1_800_000_000,
            3 => NOW,
            _ => day + self.integer_between(0, DAY - 1),
        }
    }

    /// A geometry on a coarse grid, so that many of them touch, contain or cross each other, also across the antimeridian; and how a query says it.
    fn geometry(&mut self) -> (Value, String) {
        let (west, south) = (self.integer_between(-3, 3) * 5 + self.choose(&[0, 0, 165]), self.integer_between(-3, 3) * 5);
        let (east, north) = (west + self.integer_between(1, 4) * 5, south + self.integer_between(1, 4) * 5);
        let corners = format!("{west} {south}, {east} {south}, {east} {north}");
        let wkt = match self.below(6) {
            0 => format!("POINT({west} {south})"),
            1 => format!("LINESTRING({west} {south}, {east} {north})"),
            2 => format!("POLYGON(({corners}, {west} {south}))"),
            _ => format!("POLYGON(({corners}, {west} {north}, {west} {south}))"),
        };
        let is_box = wkt.matches(',').count() == 4;
        let turned = |longitude: i64| if longitude > 180 { longitude - 360 } else { longitude };
        let text = match self.below(3) {
            0 if is_box => format!("bbox({}, {south}, {}, {north})", turned(west), turned(east)),
            1 => format!("'{wkt}'"),
            _ => format!("\"{wkt}\""),
        };
        (from_text(&wkt, &FieldType::Geometry, None).expect("a geometry"), text)
    }

    fn record(&mut self, key: String, collection: &Collection) -> Record {
        let mut record = Record::empty(key.clone(), collection);
        for (value, field) in record.golden.iter_mut().zip(&collection.fields) {
            *value = match field.name.as_str() {
                "code" => Value::text(key.as_str()),
                "serial" if self.once_in(3) => Value::Null,
                "serial" => Value::text(format!("{}-{key}", self.choose(&["A", "é", "ab"]))),
                _ if self.once_in(6) => Value::Null,
                _ => self.scalar(&field.ty),
            };
        }
        for (value, state) in record.state.iter_mut().zip(&collection.states) {
            *value = match state.name.as_str() {
                "status" => Value::text(*self.choose(&["available", "available", "available", "lent", "lost"])),
                _ if self.once_in(3) => Value::Null,
                _ => self.scalar(&state.ty),
            };
        }
        record.alive = !self.once_in(20);
        record.conflicts = collection.fields.ids().filter(|_| self.once_in(60)).collect();
        record
    }

    fn records(&mut self, count: usize, collection: &Collection) -> Vec<Record> {
        let mut keys: Vec<String> =
            (0..count).map(|number| format!("{}{}{number}", self.choose(&["k", "K", "é", "\u{e000}"]), self.choose(&["", "*", " "]))).collect();
        keys.push("a".into());
        keys.push("\u{10ffff}".into());
        keys.iter().map(|key| self.record(key.clone(), collection)).collect()
    }
}

/// A name that a query can use.
#[derive(Debug, Clone)]
struct QueryableName {
    name: String,
    ty: FieldType,
    fold: bool,
    location: ValueLocation,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ValueLocation {
    Key,
    Conflict,
    Field(FieldId),
    State(usize),
}

impl QueryableName {
    fn all(collection: &Collection) -> Vec<QueryableName> {
        let named =
            |name: &str, ty: &FieldType, fold: bool, location: ValueLocation| QueryableName { name: name.to_owned(), ty: ty.clone(), fold, location };
        let mut all = vec![named("key", &FieldType::Text, false, ValueLocation::Key)];
        let fields = collection.fields.enumerate();
        all.extend(fields.map(|(index, field)| named(&field.name, &field.ty, field.fold, ValueLocation::Field(index))));
        let states = collection.states.iter().enumerate();
        all.extend(states.map(|(index, state)| named(&state.name, &state.ty, false, ValueLocation::State(index))));
        all.push(named("conflict", &FieldType::List(Box::new(FieldType::Text)), false, ValueLocation::Conflict));
        all
    }

    fn has_order(&self) -> bool {
        !self.ty.is_list() && !matches!(self.ty, FieldType::Json | FieldType::Geometry)
    }

    /// The text that a comparison uses.
    fn folded<'v>(&self, value: &'v Value) -> std::borrow::Cow<'v, Value> {
        match value {
            Value::Text(text) if self.fold => std::borrow::Cow::Owned(Value::text(fold(text))),
            other => std::borrow::Cow::Borrowed(other),
        }
    }

    fn compare(&self, a: &Value, b: &Value) -> Ordering {
        compare(&self.folded(a), &self.folded(b))
    }
}

/// The order of two values of one type; absent values come first.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).expect("no NaN"),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
        _ => panic!("{a:?} and {b:?} have no order"),
    }
}

/// A condition, before it is text.
#[derive(Debug, Clone)]
enum TestCondition {
    Equal(Operand),
    NotEqual(Operand),
    Less(Operand),
    AtMost(Operand),
    Greater(Operand),
    AtLeast(Operand),
    Between(Operand, Operand),
    In(Vec<Value>),
    /// Microseconds before now.
    Last(i64),
    /// Words, each a list of which the last may be the beginning of a word, as the query says them.
    Words(Vec<SearchTerm>, String),
    /// How a geometry lies to this one, which the query says with this text.
    Related(GeometryRelation, Value, String),
}

#[derive(Debug, Clone)]
enum Operand {
    Value(Value),
    /// Texts between wildcards.
    Pattern(Vec<String>),
    /// The first moment of a day.
    Day(i64),
    /// A partial date.
    Part(PartialDate),
}

impl TestCondition {
    /// Whether a value satisfies the condition.
    fn holds(&self, named: &QueryableName, value: &Value) -> bool {
        match self {
            TestCondition::Words(terms, _) => terms.iter().all(|term| occurrences(term, value) > 0),
            TestCondition::NotEqual(operand) => !value.elements().iter().any(|element| equals(named, element, operand)),
            positive => value.elements().iter().any(|element| positive.holds_for(named, element)),
        }
    }

    fn holds_for(&self, named: &QueryableName, element: &Value) -> bool {
        let at_least = |operand: &Operand| match operand {
            Operand::Day(day) => element.as_int() >= Some(*day),
            Operand::Part(part) => partial(element).first() >= part.first(),
            operand => order(named, element, operand).is_ge(),
        };
        let at_most = |operand: &Operand| match operand {
            Operand::Day(day) => element.as_int() < Some(*day + DAY),
            Operand::Part(part) => partial(element).first() <= part.last(),
            operand => order(named, element, operand).is_le(),
        };
        match self {
            TestCondition::Equal(operand) => equals(named, element, operand),
            TestCondition::NotEqual(operand) => !equals(named, element, operand),
            TestCondition::Words(..) => panic!("words are of all elements"),
            TestCondition::Less(operand) => !at_least(operand),
            TestCondition::AtMost(operand) => at_most(operand),
            TestCondition::Greater(operand) => !at_most(operand),
            TestCondition::AtLeast(operand) => at_least(operand),
            TestCondition::Between(low, high) => at_least(low) && at_most(high),
            TestCondition::In(values) => values.iter().any(|value| named.compare(element, value).is_eq()),
            TestCondition::Last(span) => (Some(NOW - span)..=Some(NOW)).contains(&element.as_int()),
            TestCondition::Related(relation, wanted, _) => {
                let (own, wanted) = (geometry_of(element), geometry_of(wanted));
                match relation {
                    GeometryRelation::Intersects => own.intersects(wanted),
                    GeometryRelation::Within => own.is_within(wanted),
                }
                .expect("they are compared")
            }
        }
    }
}

fn partial(value: &Value) -> PartialDate {
    value.as_int().and_then(PartialDate::from_stored).unwrap_or_else(|| panic!("{value:?} is no partial date"))
}

/// The words of each element.
fn words(value: &Value) -> Vec<Vec<String>> {
    let of_text = |text: &str| words_of(text).map(|word| word.folded).collect();
    value.elements().iter().map(|element| of_text(element.as_text().expect("a text"))).collect()
}

/// Words that follow each other, and whether of the last one only the beginning is given.
type SearchTerm = (Vec<String>, bool);

/// How often words follow each other, without overlaps; of the last one only the beginning may be given.
fn occurrences((term, is_prefix): &SearchTerm, value: &Value) -> i64 {
    let mut found = 0;
    for words in words(value) {
        let mut first = 0;
        while first + term.len() <= words.len() {
            let (last, whole) = term.split_last().expect("a word");
            let word = &words[first + whole.len()];
            let is_here = words[first..].starts_with(whole) && if *is_prefix { word.starts_with(last) } else { word == last };
            found += i64::from(is_here);
            first += if is_here { term.len() } else { 1 };
        }
    }
    found
}

/// How well a value matches words.
fn rank_of(terms: &[SearchTerm], value: &Value) -> i64 {
    let count: i64 = words(value).iter().map(|words| words.len() as i64).sum();
    let rank = |term| {
        let found = occurrences(term, value);
        10_000_000 * found / (10 * found + 10 + count)
    };
    terms.iter().map(rank).sum()
}

fn geometry_of(value: &Value) -> &Geometry {
    let Value::Geometry(geometry) = value else { panic!("{value:?} is no geometry") };
    geometry
}

fn order(named: &QueryableName, element: &Value, operand: &Operand) -> Ordering {
    match operand {
        Operand::Value(value) => named.compare(element, value),
        other => panic!("{other:?} has no order"),
    }
}

fn equals(named: &QueryableName, element: &Value, operand: &Operand) -> bool {
    match operand {
        Operand::Value(value) => named.compare(element, value).is_eq(),
        Operand::Day(day) => (Some(*day)..Some(*day + DAY)).contains(&element.as_int()),
        Operand::Part(part) => partial(element).lies_in(*part),
        Operand::Pattern(pieces) => {
            let folded = named.folded(element);
            let pieces = if named.fold { folded_pattern(pieces) } else { pieces.clone() };
            matches(folded.as_text().expect("patterns are for text"), &pieces)
        }
    }
}

/// A pattern folded like text, with the blanks next to wildcards.
fn folded_pattern(pieces: &[String]) -> Vec<String> {
    let last = pieces.len() - 1;
    let folded = pieces.iter().enumerate().map(|(index, piece)| {
        let words = fold(piece);
        let before = if index > 0 && piece.starts_with(char::is_whitespace) { " " } else { "" };
        let after = if index < last && piece.ends_with(char::is_whitespace) { " " } else { "" };
        match (words.is_empty(), index) {
            (false, _) => format!("{before}{words}{after}"),
            (true, 0) => String::new(),
            (true, _) => format!("{before}{after}").trim_end_matches(' ').to_owned() + if index < last && !piece.is_empty() { " " } else { "" },
        }
    });
    folded.collect()
}

/// Whether the pieces cover the entire text, with anything between them.
fn matches(text: &str, pieces: &[String]) -> bool {
    match pieces {
        [] => text.is_empty(),
        [only] => text == only,
        [first, rest @ ..] => {
            let Some(remaining) = text.strip_prefix(first.as_str()) else { return false };
            let mut starts = remaining.char_indices().map(|(at, _)| at).chain([remaining.len()]);
            starts.any(|at| matches(&remaining[at..], rest))
        }
    }
}

/// Conditions combined by `and`, `or` and `not`.
#[derive(Debug, Clone)]
enum TestTree {
    One(usize, TestCondition),
    Not(Box<TestTree>),
    All(Vec<TestTree>),
    Any(Vec<TestTree>),
}

/// A query, before it is text.
#[derive(Debug, Clone, Default)]
struct GeneratedQuery {
    conditions: Vec<(usize, TestCondition)>,
    combined: Vec<TestTree>,
    columns: Vec<usize>,
    sort: Vec<(usize, bool)>,
    unique: bool,
    aggregates: Vec<(AggregateFunction, usize)>,
    by: Vec<(usize, Option<Period>)>,
    /// The order of groups, by the positions of their columns.
    group_sort: Vec<(usize, bool)>,
    text: String,
}

const FUNCTIONS: [(AggregateFunction, &str); 9] = [
    (AggregateFunction::CountDistinct, "count"),
    (AggregateFunction::Sum, "sum"),
    (AggregateFunction::Count, "count"),
    (AggregateFunction::Min, "min"),
    (AggregateFunction::Max, "max"),
    (AggregateFunction::Avg, "avg"),
    (AggregateFunction::Median, "median"),
    (AggregateFunction::Percentile(9_500), "percentile"),
    (AggregateFunction::Percentile(3_330), "percentile"),
];

/// Makes queries about the records of one tenant.
struct QueryGenerator<'a> {
    dice: Dice,
    names: &'a [QueryableName],
    records: &'a [Record],
}

impl QueryGenerator<'_> {
    fn value(&self, record: &Record, name: usize) -> Value {
        match self.names[name].location {
            ValueLocation::Key => Value::text(record.key.as_str()),
            ValueLocation::Field(index) => record.golden[index].clone(),
            ValueLocation::State(index) => record.state[index].clone(),
            ValueLocation::Conflict if record.conflicts.is_empty() => Value::Null,
            ValueLocation::Conflict => {
                let names = record.conflicts.iter().map(|index| self.names.iter().find(|named| named.location == ValueLocation::Field(*index)));
                Value::List(names.flatten().map(|named| Value::text(named.name.as_str())).collect())
            }
        }
    }

    /// A value to compare a field with: usually one that some record has.
    fn operand_value(&mut self, name: usize) -> Value {
        let ty = self.names[name].ty.element().clone();
        for _ in 0..4 {
            let record = self.dice.below(self.records.len());
            let value = self.value(&self.records[record], name);
            if !value.elements().is_empty() && !self.dice.once_in(3) {
                return self.dice.choose(value.elements()).clone();
            }
        }
        self.dice.scalar(&ty)
    }

    fn operand(&mut self, name: usize, days: bool) -> Operand {
        let value = self.operand_value(name);
        match value {
            value if self.names[name].ty.element() == &FieldType::PartialDate => Operand::Part(partial(&value)),
            Value::Int(moment) if days && self.names[name].ty.element() == &FieldType::Timestamp && self.dice.once_in(2) => {
                Operand::Day(moment.div_euclid(DAY) * DAY)
            }
            value => Operand::Value(value),
        }
    }

    fn pattern(&mut self, name: usize) -> Operand {
        let text = self.operand_value(name).as_text().expect("patterns are for text").to_owned();
        let mut characters: Vec<char> = text.chars().collect();
        let mut pieces = vec![String::new()];
        for _ in 0..=self.dice.below(3) {
            let kept_count = self.dice.below(characters.len() + 1);
            let dropped_count = if self.dice.once_in(2) { 0 } else { self.dice.below(characters.len() - kept_count + 1) };
            pieces.last_mut().expect("one").extend(characters.drain(..kept_count));
            characters.drain(..dropped_count);
            pieces.push(String::new());
        }
        if self.dice.once_in(2) {
            pieces.last_mut().expect("one").extend(characters);
        }
        Operand::Pattern(pieces)
    }

    fn condition(&mut self, name: usize) -> TestCondition {
        let element = self.names[name].ty.element().clone();
        if element == FieldType::Geometry {
            let relation = *self.dice.choose(&[GeometryRelation::Intersects, GeometryRelation::Intersects, GeometryRelation::Within]);
            let (wanted, text) = self.dice.geometry();
            return TestCondition::Related(relation, wanted, text);
        }
        if matches!(self.names[name].name.as_str(), "story" | "stories") && !self.dice.once_in(3) {
            return self.words(name);
        }
        let pattern = element == FieldType::Text && self.dice.once_in(2);
        // `in` and `!=` do not take partial dates
        let choice = self.dice.below(11);
        match if element == FieldType::PartialDate && matches!(choice, 2 | 3) { 0 } else { choice } {
            0..=2 if pattern => TestCondition::Equal(self.pattern(name)),
            3 if pattern => TestCondition::NotEqual(self.pattern(name)),
            0..=1 => TestCondition::Equal(self.operand(name, true)),
            2 => TestCondition::In((0..=self.dice.below(4)).map(|_| self.operand_value(name)).collect()),
            3 => TestCondition::NotEqual(self.operand(name, false)),
            4 => TestCondition::Less(self.operand(name, true)),
            5 => TestCondition::AtMost(self.operand(name, true)),
            6 => TestCondition::Greater(self.operand(name, true)),
            7 => TestCondition::AtLeast(self.operand(name, true)),
            8 if element == FieldType::Timestamp => TestCondition::Last(self.dice.choose(&[1, 1, 2, 3, 24, 48, 96]) * 1_800_000_000),
            _ => {
                let mut ends = [self.operand_value(name), self.operand_value(name)];
                if !self.dice.once_in(5) {
                    ends.sort_by(|a, b| self.names[name].compare(a, b));
                }
                let [low, high] = ends;
                let mut end = |value: Value| match value {
                    value if element == FieldType::PartialDate => Operand::Part(partial(&value)),
                    Value::Int(moment) if element == FieldType::Timestamp && self.dice.once_in(2) => Operand::Day(moment.div_euclid(DAY) * DAY),
                    value => Operand::Value(value),
                };
                TestCondition::Between(end(low), end(high))
            }
        }
    }

    /// A search for some of the words that a record has.
    fn words(&mut self, name: usize) -> TestCondition {
        let (mut terms, mut texts) = (Vec::new(), Vec::new());
        let value = self.operand_value(name);
        for _ in 0..*self.dice.choose(&[1, 1, 2, 3]) {
            let mut words = words(&value).concat();
            if words.is_empty() {
                words.push("a".into());
            }
            let first = self.dice.below(words.len());
            let mut term: Vec<String> = words.split_off(first).into_iter().take(1 + self.dice.below(2)).collect();
            let is_prefix = self.dice.once_in(3);
            let last = term.last_mut().expect("a word");
            // a mark is no word of its own
            if let Some((at, _)) = last.char_indices().nth(1).filter(|(_, character)| is_prefix && character.is_alphanumeric()) {
                last.truncate(at);
            }
            let star = if is_prefix { "*" } else { "" };
            texts.push(if term.len() > 1 { format!("\"{}\"{star}", term.join(" ")) } else { term[0].to_uppercase() + star });
            // upper case may be longer
            let written = if term.len() > 1 { term.clone() } else { words_of(&term[0].to_uppercase()).map(|word| word.folded).collect() };
            terms.push((written, is_prefix));
        }
        TestCondition::Words(terms, format!("'{}'", texts.join(" ")))
    }

    /// The words that make a record rank higher.
    fn searches<'q>(&self, query: &'q GeneratedQuery) -> Vec<(usize, &'q [SearchTerm])> {
        fn collect<'q>(tree: &'q TestTree, is_negated: bool, found: &mut Vec<(usize, &'q [SearchTerm])>) {
            match tree {
                TestTree::One(name, TestCondition::Words(terms, _)) if !is_negated => found.push((*name, terms)),
                TestTree::One(..) => {}
                TestTree::Not(inner) => collect(inner, !is_negated, found),
                TestTree::All(inner) | TestTree::Any(inner) => inner.iter().for_each(|inner| collect(inner, is_negated, found)),
            }
        }
        let mut found = Vec::new();
        for (name, condition) in &query.conditions {
            if let TestCondition::Words(terms, _) = condition {
                found.push((*name, terms.as_slice()));
            }
        }
        query.combined.iter().for_each(|tree| collect(tree, false, &mut found));
        found
    }

    fn tree(&mut self, comparable: &[usize], depth: usize) -> TestTree {
        if depth == 3 || self.dice.once_in(4) {
            let name = *self.dice.choose(comparable);
            return TestTree::One(name, self.condition(name));
        }
        match self.dice.below(4) {
            0 => TestTree::Not(Box::new(self.tree(comparable, depth + 1))),
            1 => TestTree::All((0..2 + self.dice.below(2)).map(|_| self.tree(comparable, depth + 1)).collect()),
            // values of one field
            2 if self.dice.once_in(3) => {
                let is_value = |name: &usize| self.names[*name].ty.element() != &FieldType::Geometry;
                let values: Vec<usize> = comparable.iter().copied().filter(is_value).collect();
                let name = *self.dice.choose(&values);
                TestTree::Any((0..2 + self.dice.below(2)).map(|_| TestTree::One(name, TestCondition::Equal(self.operand(name, true)))).collect())
            }
            _ => TestTree::Any((0..2 + self.dice.below(2)).map(|_| self.tree(comparable, depth + 1)).collect()),
        }
    }

    fn holds(&self, record: &Record, tree: &TestTree) -> bool {
        match tree {
            TestTree::One(name, condition) => condition.holds(&self.names[*name], &self.value(record, *name)),
            TestTree::Not(inner) => !self.holds(record, inner),
            TestTree::All(inner) => inner.iter().all(|inner| self.holds(record, inner)),
            TestTree::Any(inner) => inner.iter().any(|inner| self.holds(record, inner)),
        }
    }

    fn generate(&mut self) -> GeneratedQuery {
        let mut query = GeneratedQuery::default();
        let comparable: Vec<usize> = (0..self.names.len()).filter(|name| self.names[*name].ty.element() != &FieldType::Json).collect();
        for _ in 0..*self.dice.choose(&[0, 1, 1, 1, 1, 2, 2, 3]) {
            let name = *self.dice.choose(&comparable);
            let condition = self.condition(name);
            query.conditions.push((name, condition));
        }
        for _ in 0..*self.dice.choose(&[0, 0, 0, 1, 1, 2]) {
            query.combined.push(self.tree(&comparable, 0));
        }
        for _ in 0..*self.dice.choose(&[0, 0, 1, 2, 3]) {
            let name = self.dice.below(self.names.len());
            if !query.columns.contains(&name) {
                query.columns.push(name);
            }
        }
        query.unique = self.dice.once_in(4);
        let choices: Vec<usize> = if query.unique && !query.columns.is_empty() { query.columns.clone() } else { (0..self.names.len() - 1).collect() };
        let sortable: Vec<usize> = choices.iter().copied().filter(|name| self.names[*name].has_order()).collect();
        if !sortable.is_empty() {
            query.sort = (0..*self.dice.choose(&[0, 0, 1, 1, 2])).map(|_| (*self.dice.choose(&sortable), self.dice.once_in(2))).collect();
        }
        if self.dice.once_in(4) {
            for _ in 0..=self.dice.below(3) {
                let name = *self.dice.choose(&choices);
                let element = self.names[name].ty.element();
                let numeric = matches!(element, FieldType::Integer | FieldType::Float | FieldType::Size | FieldType::Duration);
                let possible = FUNCTIONS.iter().map(|(function, _)| *function).filter(|function| match function {
                    AggregateFunction::Count => true,
                    AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::CountDistinct => {
                        !matches!(element, FieldType::Json | FieldType::Geometry)
                    }
                    AggregateFunction::Sum | AggregateFunction::Avg | AggregateFunction::Median | AggregateFunction::Percentile(_) => numeric,
                });
                let possible: Vec<AggregateFunction> = possible.collect();
                query.aggregates.push((*self.dice.choose(&possible), name));
            }
        }
        if !query.aggregates.is_empty() && self.dice.once_in(2) {
            let is_group = |name: &usize| !matches!(self.names[*name].ty.element(), FieldType::Json | FieldType::Geometry);
            let groups: Vec<usize> = choices.iter().copied().filter(is_group).collect();
            for _ in 0..groups.len().min(1 + self.dice.below(3)) {
                let name = *self.dice.choose(&groups);
                let is_time = matches!(self.names[name].ty.element(), FieldType::Timestamp | FieldType::Date | FieldType::PartialDate);
                let period = (is_time && !self.dice.once_in(4)).then(|| self.dice.choose(&PERIODS).0);
                if !query.by.contains(&(name, period)) {
                    query.by.push((name, period));
                }
            }
            if !query.by.is_empty() {
                query.sort.clear();
                let columns = query.by.len() + query.aggregates.len();
                query.group_sort = (0..*self.dice.choose(&[0, 1, 1, 2])).map(|_| (self.dice.below(columns), self.dice.once_in(2))).collect();
            }
        }
        query.text = self.query_text(&query);
        query
    }

    // --- a query as text

    fn path(&mut self, name: usize) -> String {
        let plain = &self.names[name].name;
        match self.dice.below(4) {
            0 => format!("thing.{plain}"),
            1 if plain == "key" => "thing".to_owned(),
            _ => plain.clone(),
        }
    }

    fn blank(&mut self) -> &'static str {
        self.dice.choose::<&str>(&["", "", " ", "  ", "\n"])
    }

    fn text_value(&mut self, pieces: &[String]) -> String {
        let special = |character: char| character.is_whitespace() || ",|[]()=<>!\"'*".contains(character);
        let bare = !pieces.concat().contains(special) && (pieces.len() > 1 || !pieces[0].is_empty());
        let single = pieces.len() == 1 && !pieces[0].contains('\'');
        match self.dice.below(3) {
            0 if bare => pieces.join("*"),
            1 if single => format!("'{}'", pieces[0]),
            _ => {
                let escaped = pieces.iter().map(|piece| piece.replace('\\', "\\\\").replace('"', "\\\"").replace('*', "\\*"));
                format!("\"{}\"", escaped.collect::<Vec<_>>().join("*"))
            }
        }
    }

    fn operand_text(&mut self, name: usize, operand: &Operand) -> String {
        let ty = self.names[name].ty.element().clone();
        let plain = match operand {
            Operand::Pattern(pieces) => return self.text_value(pieces),
            Operand::Value(Value::Text(text)) => return self.text_value(&[text.to_string()]),
            Operand::Day(day) => {
                let text = Value::Int(day / DAY).show(&FieldType::Date);
                if self.dice.once_in(2) { text.replace('-', "") } else { text }
            }
            Operand::Part(part) => part.to_string(),
            Operand::Value(Value::Float(number)) if self.dice.once_in(2) => format!("{number:e}"),
            Operand::Value(Value::Int(number)) if ty == FieldType::Integer && number.unsigned_abs() < 1 << 50 && self.dice.once_in(4) => {
                format!("{number}e0")
            }
            Operand::Value(Value::Bool(true)) => (*self.dice.choose(&["true", "yes", "1"])).to_owned(),
            Operand::Value(value) => value.show(&ty),
        };
        match self.dice.below(4) {
            0 => format!("'{plain}'"),
            1 => format!("\"{plain}\""),
            _ => plain,
        }
    }

    fn condition_text(&mut self, name: usize, condition: &TestCondition) -> String {
        let comparison = |generator: &mut Self, operator: &str, operand: &Operand| {
            format!("{}{operator}{}{}", generator.blank(), generator.blank(), generator.operand_text(name, operand))
        };
        match condition {
            TestCondition::Equal(operand) => comparison(self, "=", operand),
            TestCondition::NotEqual(operand) => comparison(self, "!=", operand),
            TestCondition::Less(operand) => comparison(self, "<", operand),
            TestCondition::AtMost(operand) => comparison(self, "<=", operand),
            TestCondition::Greater(operand) => comparison(self, ">", operand),
            TestCondition::AtLeast(operand) => comparison(self, ">=", operand),
            TestCondition::Between(low, high) => {
                let (low, high) = (self.operand_text(name, low), self.operand_text(name, high));
                format!(" between{}[{low},{}{high}{}]", self.blank(), self.blank(), self.blank())
            }
            TestCondition::In(values) => {
                let values: Vec<String> = values.iter().map(|value| self.operand_text(name, &Operand::Value(value.clone()))).collect();
                format!(" in{}[{}]", self.blank(), values.join(", "))
            }
            TestCondition::Related(relation, _, text) => {
                let word = if *relation == GeometryRelation::Within { "within" } else { "intersects" };
                format!(" {word}{}{text}", if text.starts_with("bbox") { " " } else { self.blank() })
            }
            TestCondition::Words(_, text) => format!("{}~{}{text}", self.blank(), self.blank()),
            TestCondition::Last(span) => match span / 1_800_000_000 {
                halves if halves % 48 == 0 => format!(" last {}d", halves / 48),
                halves if halves % 2 == 0 => format!(" last {}h", halves / 2),
                halves => format!(" last {}m", halves * 30),
            },
        }
    }

    /// Combined conditions as text; in parentheses where they are needed, and sometimes where they are not.
    fn tree_text(&mut self, tree: &TestTree, is_enclosed: bool) -> String {
        let text = match tree {
            TestTree::One(name, condition) => {
                let condition_text = self.condition_text(*name, condition);
                self.path(*name) + &condition_text
            }
            TestTree::Not(inner) => {
                let is_single = matches!(**inner, TestTree::One(..) | TestTree::Not(_));
                format!("{} {}", self.dice.choose(&["not", "NOT"]), self.tree_text(inner, is_single))
            }
            TestTree::All(inner) => {
                let inner: Vec<String> = inner.iter().map(|inner| self.tree_text(inner, false)).collect();
                inner.join(*self.dice.choose(&[" and ", " ", ", ", " AND "]))
            }
            TestTree::Any(inner) => {
                let inner: Vec<String> = inner.iter().map(|inner| self.tree_text(inner, matches!(inner, TestTree::All(_)))).collect();
                inner.join(*self.dice.choose(&[" or ", " OR "]))
            }
        };
        let needs = !is_enclosed && matches!(tree, TestTree::All(_) | TestTree::Any(_));
        if needs || self.dice.once_in(8) { format!("({}{text}{})", self.blank(), self.blank()) } else { text }
    }

    fn query_text(&mut self, query: &GeneratedQuery) -> String {
        let mut text = "thing".to_owned();
        let mut greps: Vec<String> = Vec::new();
        let mut bare_key = true;
        for (name, condition) in &query.conditions {
            let condition_text = self.condition_text(*name, condition);
            if self.dice.once_in(3) {
                greps.push(self.path(*name) + &condition_text);
            } else if bare_key && self.names[*name].location == ValueLocation::Key && self.dice.once_in(2) {
                text += &condition_text;
            } else {
                let separator = *self.dice.choose(&[" ", ", ", ",", " ,"]);
                write!(text, "{separator}{}{condition_text}", self.path(*name)).expect("fits");
            }
            bare_key = false;
        }
        for tree in &query.combined {
            if self.dice.once_in(3) {
                // commas separate the items of `grep`
                let is_simple = matches!(tree, TestTree::Any(inner) if !inner.iter().any(|inner| matches!(inner, TestTree::All(_))));
                greps.push(self.tree_text(tree, is_simple));
            } else if text == "thing" && query.combined.len() == 1 {
                // the only condition of the lookup
                text = format!("thing {}", self.tree_text(tree, true));
            } else {
                write!(text, " {}", self.tree_text(tree, false)).expect("fits");
            }
        }
        greps.extend(query.columns.iter().map(|name| self.path(*name)));
        let mut stages: Vec<String> = Vec::new();
        // columns keep their order, the other stages may be anywhere
        while !greps.is_empty() {
            let rest = greps.split_off(1 + self.dice.below(greps.len()));
            stages.push(format!("grep {}", greps.join(*self.dice.choose(&[", ", ","]))));
            greps = rest;
        }
        let mut other_stages: Vec<String> = Vec::new();
        if query.unique {
            other_stages.push("unique".into());
        }
        if !query.sort.is_empty() {
            let order: Vec<String> = query.sort.iter().map(|(name, descending)| self.path(*name) + if *descending { "-" } else { "" }).collect();
            other_stages.push(format!("sort {}", order.join(",")));
        }
        if !query.group_sort.is_empty() {
            let mut order: Vec<String> = Vec::new();
            for (position, descending) in &query.group_sort {
                let column = match position.checked_sub(query.by.len()) {
                    Some(aggregate) => self.aggregate_text(query.aggregates[aggregate]),
                    None => self.group_text(query.by[*position]),
                };
                order.push(column + if *descending { "-" } else { "" });
            }
            other_stages.push(format!("sort {}", order.join(", ")));
        }
        if !query.aggregates.is_empty() {
            let aggregates: Vec<String> = query.aggregates.iter().map(|aggregate| self.aggregate_text(*aggregate)).collect();
            let groups: Vec<String> = query.by.iter().map(|group| self.group_text(*group)).collect();
            let separator = *self.dice.choose(&[",", ", "]);
            let by = if groups.is_empty() { String::new() } else { format!("{}by {}", self.blank(), groups.join(separator)) };
            other_stages.push(aggregates.join(", ") + &by);
        }
        self.dice.shuffle(&mut other_stages);
        for stage in other_stages {
            stages.insert(self.dice.below(stages.len() + 1), stage);
        }
        for stage in stages {
            write!(text, "{}|{}{stage}", self.blank(), self.blank()).expect("fits");
        }
        text
    }

    fn aggregate_text(&mut self, (function, name): (AggregateFunction, usize)) -> String {
        let function_name = FUNCTIONS.iter().find(|(known, _)| *known == function).expect("known").1;
        let percentile = match function {
            AggregateFunction::Percentile(9_500) => ", 95",
            AggregateFunction::Percentile(_) => ",33.3",
            _ => "",
        };
        let distinct = if function == AggregateFunction::CountDistinct { "distinct " } else { "" };
        format!("{function_name}({distinct}{}{percentile})", self.path(name))
    }

    fn group_text(&mut self, (name, period): (usize, Option<Period>)) -> String {
        match period {
            Some(period) => format!("{}({})", period.name(), self.path(name)),
            None => self.path(name),
        }
    }

    // --- results, read from the records

    fn columns(&self, query: &GeneratedQuery) -> Vec<usize> {
        // the last name is `conflict`, which is not part of a complete row
        if query.columns.is_empty() { (0..self.names.len() - 1).collect() } else { query.columns.clone() }
    }

    /// Rows in their order.
    fn rows(&self, query: &GeneratedQuery) -> Vec<Vec<Value>> {
        let holds = |record: &&Record| {
            query.conditions.iter().all(|(name, condition)| condition.holds(&self.names[*name], &self.value(record, *name)))
                && query.combined.iter().all(|tree| self.holds(record, tree))
        };
        let mut found: Vec<&Record> = self.records.iter().filter(|record| record.alive).filter(holds).collect();
        let columns = self.columns(query);
        // without another order, what matches best comes first
        let searches = if query.sort.is_empty() && !query.unique && query.aggregates.is_empty() { self.searches(query) } else { Vec::new() };
        let rank = |record: &Record| -> i64 { searches.iter().map(|(name, terms)| rank_of(terms, &self.value(record, *name))).sum() };
        let scalar: Vec<usize> = columns.iter().copied().take_while(|name| self.names[*name].has_order()).collect();
        found.sort_by(|a, b| {
            let criteria = query.sort.iter().map(|(name, descending)| {
                let order = self.names[*name].compare(&self.value(a, *name), &self.value(b, *name));
                if *descending { order.reverse() } else { order }
            });
            let columns = scalar.iter().filter(|_| query.unique).map(|name| compare(&self.value(a, *name), &self.value(b, *name)));
            let ranks = std::iter::once(rank(b).cmp(&rank(a)));
            criteria.chain(ranks).chain(columns).find(|order| order.is_ne()).unwrap_or_else(|| a.key.cmp(&b.key))
        });
        // with the key, no two rows are equal
        let differ = columns.iter().any(|name| self.names[*name].location == ValueLocation::Key);
        let mut rows: Vec<Vec<Value>> = Vec::new();
        for record in found {
            let row: Vec<Value> = columns.iter().map(|name| self.value(record, *name)).collect();
            if !query.unique || differ || !rows.contains(&row) {
                rows.push(row);
            }
        }
        rows
    }

    /// Whether the order of rows is defined: the order of unique rows of lists and JSON has no meaning.
    fn has_order(&self, query: &GeneratedQuery) -> bool {
        !query.unique || self.columns(query).iter().all(|name| self.names[*name].has_order())
    }

    /// The values of a column in all rows.
    fn values_of(&self, query: &GeneratedQuery, name: usize) -> Vec<Value> {
        let columns = if query.unique { self.columns(query) } else { vec![name] };
        let position = columns.iter().position(|column| *column == name).expect("a column");
        self.rows(&GeneratedQuery { columns, sort: Vec::new(), ..query.clone() }).into_iter().map(|mut row| row.swap_remove(position)).collect()
    }

    /// The groups, in any order; `None` in place of a sum that overflows.
    fn groups(&self, query: &GeneratedQuery) -> Vec<(Vec<Value>, Vec<Option<Value>>)> {
        let read: Vec<usize> = query.by.iter().map(|(name, _)| *name).chain(query.aggregates.iter().map(|(_, name)| *name)).collect();
        let columns = if query.unique { self.columns(query) } else { read };
        let position = |name: usize| columns.iter().position(|column| *column == name).expect("a column");
        let mut groups: Vec<(Vec<Value>, Vec<Vec<Value>>)> = Vec::new();
        for row in self.rows(&GeneratedQuery { columns: columns.clone(), sort: Vec::new(), ..query.clone() }) {
            let mut combinations: Vec<Vec<Value>> = vec![Vec::new()];
            for (name, period) in &query.by {
                let mut values: Vec<Value> = Vec::new();
                for element in row[position(*name)].elements() {
                    let value = period.map_or(element.clone(), |period| start_of(period, self.names[*name].ty.element(), element));
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                if values.is_empty() {
                    values.push(Value::Null);
                }
                let with_each = |before: Vec<Value>| -> Vec<Vec<Value>> {
                    values.iter().map(|value| before.iter().cloned().chain([value.clone()]).collect()).collect()
                };
                combinations = combinations.into_iter().flat_map(with_each).collect();
            }
            for combination in combinations {
                match groups.iter_mut().find(|(values, _)| *values == combination) {
                    Some((_, rows)) => rows.push(row.clone()),
                    None => groups.push((combination, vec![row.clone()])),
                }
            }
        }
        let aggregated = |(values, rows): (Vec<Value>, Vec<Vec<Value>>)| {
            let values_of = |name: usize| rows.iter().map(|row| row[position(name)].clone()).collect();
            let aggregates = query.aggregates.iter().map(|(function, name)| self.aggregate_of(values_of(*name), *function, *name)).collect();
            (values, aggregates)
        };
        groups.into_iter().map(aggregated).collect()
    }

    /// An aggregate over all rows; `None` if the sum overflows.
    fn aggregate(&self, query: &GeneratedQuery, function: AggregateFunction, name: usize) -> Option<Value> {
        self.aggregate_of(self.values_of(query, name), function, name)
    }

    fn aggregate_of(&self, rows: Vec<Value>, function: AggregateFunction, name: usize) -> Option<Value> {
        let mut values: Vec<&Value> = rows.iter().flat_map(Value::elements).collect();
        values.sort_by(|a, b| if function == AggregateFunction::Count { Ordering::Equal } else { compare(a, b) });
        let number = |value: &Value| match value {
            Value::Int(number) => *number as f64,
            Value::Float(number) => *number,
            other => panic!("{other:?} is not a number"),
        };
        let duration = self.names[name].ty.element() == &FieldType::Duration;
        let mean = |mean: f64| Some(if duration { Value::Int(mean.round() as i64) } else { Value::Float(mean) });
        if function == AggregateFunction::CountDistinct {
            values.dedup();
        }
        if matches!(function, AggregateFunction::Count | AggregateFunction::CountDistinct) {
            return Some(Value::Int(values.len() as i64));
        }
        let (Some(first), Some(last)) = (values.first(), values.last()) else { return Some(Value::Null) };
        let integers: Option<Vec<i128>> = values.iter().map(|value| value.as_int().map(i128::from)).collect();
        match function {
            AggregateFunction::Count | AggregateFunction::CountDistinct | AggregateFunction::Min => Some((*first).clone()),
            AggregateFunction::Max => Some((*last).clone()),
            AggregateFunction::Sum => match integers {
                Some(integers) => i64::try_from(integers.iter().sum::<i128>()).ok().map(Value::Int),
                None => Some(Value::Float(values.iter().map(|value| number(value)).sum())),
            },
            AggregateFunction::Avg => match integers {
                Some(integers) => mean(integers.iter().sum::<i128>() as f64 / integers.len() as f64),
                None => mean(values.iter().map(|value| number(value)).sum::<f64>() / values.len() as f64),
            },
            AggregateFunction::Percentile(percentile) => {
                let steps = (values.len() - 1) * usize::from(percentile);
                let (low, part) = (values[steps / 10_000], (steps % 10_000) as i128);
                let high = values[steps / 10_000 + usize::from(part > 0)];
                match (low.as_int(), high.as_int()) {
                    (Some(low), Some(high)) => {
                        let weighted = i128::from(low) * (10_000 - part) + i128::from(high) * part;
                        if weighted % 10_000 == 0 { Some(Value::Int((weighted / 10_000) as i64)) } else { mean(weighted as f64 / 10_000.0) }
                    }
                    _ => mean(number(low) * (10_000 - part) as f64 / 10_000.0 + number(high) * part as f64 / 10_000.0),
                }
            }
            AggregateFunction::Median => {
                let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
                match (low.as_int(), high.as_int()) {
                    (Some(low), Some(high)) if (i128::from(low) + i128::from(high)) % 2 == 0 => Some(Value::Int(low.midpoint(high))),
                    (Some(low), Some(high)) => mean((i128::from(low) + i128::from(high)) as f64 / 2.0),
                    _ => mean(number(low) / 2.0 + number(high) / 2.0),
                }
            }
        }
    }

    /// How far sums of these values may differ, because floats are added in another order.
    fn tolerance(&self, query: &GeneratedQuery, name: usize) -> f64 {
        let rows = self.values_of(query, name);
        let sizes = rows.iter().flat_map(Value::elements).map(|value| match value {
            Value::Float(number) => number.abs(),
            Value::Int(number) => number.unsigned_abs() as f64,
            _ => 0.0,
        });
        1e-9 * sizes.sum::<f64>()
    }
}

/// The day on which a period begins, from the text of the day.
fn start_of(period: Period, ty: &FieldType, value: &Value) -> Value {
    let number = value.as_int().expect("a time");
    if ty == &FieldType::PartialDate {
        let [first, last] = [partial(value).first(), partial(value).last()].map(|day| start_of(period, &FieldType::Date, &Value::Int(day)));
        return if first == last { first } else { Value::Null };
    }
    let day = if ty == &FieldType::Timestamp { number.div_euclid(DAY) } else { number };
    let text = Value::Int(day).show(&FieldType::Date);
    let day_of = |text: String| from_text(&text, &FieldType::Date, None).expect("a date");
    match period {
        Period::Day => Value::Int(day),
        Period::Week => Value::Int(day - (day + 3).rem_euclid(7)),
        Period::Month => day_of(format!("{}01", &text[..text.len() - 2])),
        Period::Year => day_of(format!("{}01-01", &text[..text.len() - 5])),
    }
}

/// Whether the last digits of floats depend on how they are computed.
fn is_rounded(function: AggregateFunction) -> bool {
    matches!(function, AggregateFunction::Sum | AggregateFunction::Avg | AggregateFunction::Percentile(_))
}

/// The difference between the store's groups and those of the records, if there is one.
fn group_difference(generator: &QueryGenerator<'_>, filled: &Filled, query: &GeneratedQuery, compiled: &CompiledQuery) -> Option<String> {
    let expected = generator.groups(query);
    let grouping: &Grouping = compiled.grouping.as_ref().expect("it is grouped");
    let found = filled.store.group(&compiled.plan, &compiled.aggregates, grouping);
    if expected.iter().any(|(_, aggregates)| aggregates.contains(&None)) {
        let is_refused = found.as_ref().is_err_and(|error| error.to_string().contains("does not fit"));
        return (!is_refused).then(|| format!("a sum does not fit, but there is {found:?}"));
    }
    let found = found.expect("groups are found");
    if found.rows.len() != expected.len() || found.total != expected.len() as u64 {
        return Some(format!("{} groups, in all {}, instead of {}", found.rows.len(), found.total, expected.len()));
    }
    let columns = query.by.len();
    let tolerance = |(function, name): &(AggregateFunction, usize)| if is_rounded(*function) { generator.tolerance(query, *name) } else { 1e-12 };
    let tolerances: Vec<f64> = query.aggregates.iter().map(tolerance).collect();
    for row in &found.rows {
        let Some((_, aggregates)) = expected.iter().find(|(values, _)| *values == row[..columns]) else {
            return Some(format!("{row:?} is no group"));
        };
        for (position, (wanted, found)) in aggregates.iter().flatten().zip(&row[columns..]).enumerate() {
            let size = if let Value::Float(number) = wanted { number.abs() } else { 0.0 };
            if !is_close(wanted, found, tolerances[position].max(1e-12 * size)) {
                return Some(format!("{:?} of {:?} is {found:?} instead of {wanted:?}", query.aggregates[position], &row[..columns]));
            }
        }
    }
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    let is_exact = |function: AggregateFunction| {
        matches!(function, AggregateFunction::Count | AggregateFunction::CountDistinct | AggregateFunction::Min | AggregateFunction::Max)
    };
    for pair in found.rows.windows(2) {
        let sort = query.group_sort.iter().copied().chain((0..columns).map(|position| (position, false)));
        for (position, descending) in sort {
            let (a, b) = (&pair[0][position], &pair[1][position]);
            let computed = position.checked_sub(columns).filter(|aggregate| !is_exact(query.aggregates[*aggregate].0));
            let order = match (number(a), number(b), computed) {
                // the order is that of the values before they are rounded
                (Some(a), Some(b), Some(aggregate)) if (a - b).abs() <= (2.0 * tolerances[aggregate]).max(1e-12 * a.abs()).max(1e-3) => break,
                (Some(a), Some(b), Some(_)) => a.total_cmp(&b),
                _ => compare(a, b),
            };
            match if descending { order.reverse() } else { order } {
                Ordering::Less => break,
                Ordering::Equal => {}
                Ordering::Greater => return Some(format!("{:?} comes before {:?}", pair[0], pair[1])),
            }
        }
    }
    None
}

fn is_close(a: &Value, b: &Value, tolerance: f64) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a == b || (a - b).abs() <= tolerance,
        (a, b) => a == b,
    }
}

/// The difference between the store's result and the records, if there is one.
fn difference(generator: &mut QueryGenerator<'_>, filled: &Filled, query: &GeneratedQuery, compiled: &CompiledQuery) -> Option<String> {
    let store = &filled.store;
    let expected = generator.rows(query);
    let same_rows = |found: &[Vec<Value>]| {
        if generator.has_order(query) {
            return found == expected;
        }
        found.len() == expected.len() && expected.iter().all(|row| found.contains(row))
    };
    let plan = &compiled.plan;
    let found = store.find(plan).expect("rows are found").rows;
    if !same_rows(&found) {
        let only = |a: &[Vec<Value>], b: &[Vec<Value>]| a.iter().filter(|row| !b.contains(row)).take(3).cloned().collect::<Vec<_>>();
        let (missing, wrong) = (only(&expected, &found), only(&found, &expected));
        return Some(format!("{} rows instead of {}\nmissing: {missing:#?}\nwrong: {wrong:#?}", found.len(), expected.len()));
    }
    let count = store.count(plan).expect("rows are counted");
    if count != expected.len() as u64 {
        return Some(format!("count is {count} instead of {}", expected.len()));
    }
    let size = 1 + generator.dice.below(expected.len() + 3);
    let page = |offset: usize| QueryPlan { offset: offset as u64, limit: Some(size as u64), ..plan.clone() };
    let pages = (0..=expected.len()).step_by(size).flat_map(|offset| store.find(&page(offset)).expect("a page is found").rows);
    if pages.take(found.len() + 1).collect::<Vec<_>>() != found {
        return Some(format!("pages of {size} are not the whole"));
    }
    if !query.by.is_empty() {
        return group_difference(generator, filled, query, compiled);
    }
    if compiled.columns.len() != if query.aggregates.is_empty() { plan.columns.len() } else { query.aggregates.len() } {
        return Some(format!("{} headings", compiled.columns.len()));
    }
    for ((function, name), aggregate) in query.aggregates.iter().zip(&compiled.aggregates) {
        let expected = generator.aggregate(query, *function, *name);
        let found = store.aggregate(plan, &[*aggregate]);
        let tolerance = if is_rounded(*function) { generator.tolerance(query, *name) } else { 0.0 };
        let is_equal = match (&expected, &found) {
            (None, Err(error)) => error.to_string().contains("does not fit"),
            (Some(expected), Ok(found)) => is_close(expected, &found[0], tolerance),
            _ => false,
        };
        if !is_equal {
            return Some(format!("{function:?} of {} is {found:?} instead of {expected:?}", generator.names[*name].name));
        }
    }
    None
}

fn check(seed: u64, records: usize, questions: usize) {
    let catalogue = definition(DEFINITION);
    let collection = &catalogue.collections[CollectionId::from(0)];
    let mut dice = Dice::new(seed);
    let records_of_tenant = dice.records(records, collection);
    let foreign = dice.records(50, collection);
    let names = QueryableName::all(collection);
    let filled = filled(catalogue, &[(Tenant::new("foreign").expect("a name"), &foreign), (main_tenant(), &records_of_tenant)]);
    let mut generator = QueryGenerator { dice, names: &names, records: &records_of_tenant };
    let mut nonempty = 0;
    for number in 0..questions {
        let query = generator.generate();
        let compiled = compiled(&filled.catalogue, &query.text);
        nonempty += usize::from(!generator.rows(&query).is_empty());
        if let Some(difference) = difference(&mut generator, &filled, &query, &compiled) {
            let lines = filled.store.explain(&compiled.plan).expect("it is explained").join("\n");
            panic!("query {number} of seed {seed}:\n{}\n\n{difference}\n\n{:?}\n\n{lines}", query.text, query.conditions);
        }
    }
    assert!(nonempty * 2 > questions, "only {nonempty} of {questions} queries find anything");
}

#[test]
fn texts_at_the_edges_of_unicode_and_of_patterns_are_distinguished() {
    let catalogue =
        definition("catalogue: edges\ncollections: { x: { key: k, fields: { k: text, plain: text, folded: { type: text, fold: true } } } }");
    let texts = [
        "a b",
        "ab",
        "a  B",
        " a b ",
        "ＡＢ",
        "e\u{301}f",
        "éf",
        "\u{fffd}",
        "\u{fffe}",
        "\u{ffff}",
        "a\u{d7ff}",
        "a\u{d7ff}b",
        "a\u{e000}",
        "a\u{10ffff}",
        "a\u{10ffff}b",
        "b",
        "[a]",
        "a?",
        "^a",
        "a-c",
    ];
    let record = |text: &&str| {
        let mut record = Record::empty(*text, &catalogue.collections[CollectionId::from(0)]);
        record.golden = vec![Value::text(*text); 3];
        record
    };
    let records: Vec<Record> = texts.iter().map(record).collect();
    let filled = filled(catalogue.clone(), &[(main_tenant(), &records)]);
    for (condition, wanted) in [
        ("plain=*b", vec!["a b", "ab", "a\u{d7ff}b", "a\u{10ffff}b", "b"]),
        ("plain=\"a *\"", vec!["a b", "a  B"]),
        ("plain=*\u{fffd}", vec!["\u{fffd}"]),
        ("plain=\u{fffe}*", vec!["\u{fffe}"]),
        ("plain!=*\u{ffff}*", texts.iter().copied().filter(|text| *text != "\u{ffff}").collect()),
        ("plain=a\u{d7ff}*", vec!["a\u{d7ff}", "a\u{d7ff}b"]),
        ("plain=a\u{10ffff}*", vec!["a\u{10ffff}", "a\u{10ffff}b"]),
        ("plain=\"[a]*\"", vec!["[a]"]),
        ("plain=\"*[a]\"", vec!["[a]"]),
        ("plain=*?", vec!["a?"]),
        ("plain=^*", vec!["^a"]),
        ("plain='a b'", vec!["a b"]),
        ("folded='A B'", vec!["a b", "a  B", " a b "]),
        ("folded=\" a  b \"", vec!["a b", "a  B", " a b "]),
        ("folded=\"a *\"", vec!["a b", "a  B", " a b "]),
        ("folded=\"a *b\"", vec!["a b", "a  B", " a b "]),
        ("folded=\"* b\"", vec!["a b", "a  B", " a b "]),
        ("folded=\" *b \"", vec!["a b", "ab", "a  B", " a b ", "ＡＢ", "a\u{d7ff}b", "a\u{10ffff}b", "b"]),
        ("folded=\"a * b\"", vec![]),
        ("folded=AB", vec!["ab", "ＡＢ"]),
        ("folded=Ａ*", texts.iter().copied().filter(|text| text.trim().starts_with(['a', 'Ａ'])).collect()),
        ("folded=*Ｂ*", texts.iter().copied().filter(|text| text.contains(['b', 'B', 'Ｂ'])).collect()),
        ("folded=E\u{301}*", vec!["e\u{301}f", "éf"]),
        ("folded=*E\u{301}F", vec!["e\u{301}f", "éf"]),
        ("folded=e*", vec![]),
    ] {
        let query = format!("x {condition} | grep key");
        let mut wanted: Vec<Vec<Value>> = wanted.into_iter().map(|text| vec![Value::text(text)]).collect();
        wanted.sort_by(|a, b| compare(&a[0], &b[0]));
        assert_eq!(filled.store.find(&compiled(&catalogue, &query).plan).expect("rows").rows, wanted, "{query}");
    }
}

#[test]
fn keys_that_are_numbers_are_compared_as_numbers_and_listed_as_texts() {
    let catalogue = definition("catalogue: runs\ncollections: { run: { key: number, fields: { number: integer } } }");
    let record = |number: &i64| Record {
        golden: vec![Value::Int(*number)],
        ..Record::empty(number.to_string(), &catalogue.collections[CollectionId::from(0)])
    };
    let records: Vec<Record> = [9, 10, 11, 100, -1].iter().map(record).collect();
    let filled = filled(catalogue.clone(), &[(main_tenant(), &records)]);
    for (query, wanted) in [
        ("run | grep number", vec![-1, 10, 100, 11, 9]),
        ("run between [9, 11] | grep number", vec![10, 11, 9]),
        ("run>9 | grep number | sort run", vec![10, 11, 100]),
        ("run | grep number | sort run-", vec![100, 11, 10, 9, -1]),
        ("run=+10 | grep number", vec![10]),
        ("run in [9, 100, 5] | grep key", vec![100, 9]),
        ("run!=9 | grep run", vec![-1, 10, 100, 11]),
        ("run run<10 | grep key | unique", vec![-1, 9]),
    ] {
        let wanted: Vec<Vec<Value>> = wanted.into_iter().map(|number| vec![Value::Int(number)]).collect();
        assert_eq!(filled.store.find(&compiled(&catalogue, query).plan).expect("rows").rows, wanted, "{query}");
    }
    let largest = compiled(&catalogue, "run | max(run), min(key), count(run)");
    let largest = filled.store.aggregate(&largest.plan, &largest.aggregates).expect("numbers");
    assert_eq!(largest, [100, -1, 5].map(Value::Int));
}

#[test]
fn thousands_of_random_queries_give_what_a_naive_evaluation_gives() {
    let seed = std::env::var("STOOK_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    check(seed, 400, 3_000);
}

#[test]
fn random_queries_over_few_records_give_what_a_naive_evaluation_gives() {
    let seed = std::env::var("STOOK_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(2);
    for round in 0..10 {
        check(seed + round, 5, 200);
    }
}
