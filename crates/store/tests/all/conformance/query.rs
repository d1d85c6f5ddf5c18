//! Queries: conditions, order, pages, aggregates. Many results are compared with those of [`Naive`], which reads everything.

use super::support::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cmp::Ordering;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::fold::fold;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::survivorship::members_of;
use stook_catalogue::value::{FieldType, PartialDate, StructMember, Value, from_text, ranges, ranges_of, struct_of};
use stook_store::plan::*;
use stook_store::*;

const LIBRARY: &str = "
catalogue: library
sources:
  deliveries: { format: json, into: book, as_of: meta.received }
collections:
  book:
    key: name
    fields:
      name: { type: text, compare: true }
      plain: { type: text, compare: true }
      ordered: { type: text, index: [equal, prefix] }
      searched: { type: text, index: contains }
      both: { type: text, index: [equal, contains] }
      folded: { type: text, fold: true, index: [equal, prefix, contains] }
      folded_plain: { type: text, fold: true }
      folded_searched: { type: text, fold: true, index: contains }
      badge: { type: text, unique: true, index: equal }
      number: integer
      number_i: { type: integer, index: equal }
      ratio: float
      ratio_i: { type: float, index: equal }
      flag: boolean
      flag_i: { type: boolean, index: equal }
      moment_i: { type: timestamp, index: equal }
      day: date
      era: partial_date
      era_i: { type: partial_date, index: equal }
      eras: { type: [partial_date] }
      eras_i: { type: [partial_date], index: equal }
      id: uuid
      id_i: { type: uuid, index: equal }
      tree: json
      words: { type: [text] }
      words_i: { type: [text], index: equal }
      words_f: { type: [text], fold: true, index: equal }
      numbers: { type: [integer] }
      numbers_i: { type: [integer], index: equal }
      ratios: { type: [float] }
      flags: { type: [boolean] }
      ids: { type: [uuid] }
      ids_i: { type: [uuid], index: equal }
      moments: { type: [timestamp] }
      trees: { type: [json] }
      place: geometry
      place_i: { type: geometry, index: intersects }
    state:
      s_text: text
      s_text_i: { type: text, index: [equal, prefix] }
      s_number_i: { type: integer, index: equal }
      s_words: { type: [text] }
      s_place: geometry
";

/// Areas next to each other, inside each other, across the antimeridian, around poles, and points and lines on their borders.
const PLACES: [&str; 14] = [
    "POLYGON((0 0, 10 0, 10 10, 0 10, 0 0))",
    "POLYGON((2 2, 4 2, 4 4, 2 4, 2 2))",
    "POLYGON((10 10, 20 10, 20 20, 10 20, 10 10))",
    "POLYGON((5 5, 15 -5, 16 -4, 6 6, 5 5))",
    "POLYGON((170 -10, 190 -10, 190 10, 170 10, 170 -10))",
    "POLYGON((-180 0, -175 0, -175 5, -180 5, -180 0))",
    "POLYGON((150 20, 180 20, 180 30, 150 30, 150 20))",
    "POLYGON((0 80, 120 80, 240 80, 360 80, 0 80))",
    "LINESTRING(-170 -90, -170 -60)",
    "POINT(30 -90)",
    "POINT(10 10)",
    "POINT(180 25)",
    "MULTIPOINT(0 0, 100 0)",
    "POLYGON((-180 -90, 180 -90, 180 90, -180 90, -180 -90))",
];

const TEXTS: [&str; 16] =
    ["", "a", "A", "ab", "aB", "abc", "abcd", "b", "ba bc", "Ba  Bc", "b*c", "b?[c]", "\u{e4}bc", "\u{c4}BC", "\u{ffff}", "\u{10000}"];

const ERAS: [&str; 10] =
    ["1998", "1998-01", "1998-01-01", "1998-12", "1998-12-31", "1998/1999", "1998-05/1999-02", "1997/..", "../1998-06", "9999-12-31"];

fn scalars(ty: &FieldType) -> Vec<Value> {
    match ty {
        FieldType::Text => TEXTS.map(text).to_vec(),
        FieldType::Float => [-1.5, -1.0, 0.0, 0.1, 0.5, 1.0, 2.5, 1e9].map(Value::Float).to_vec(),
        FieldType::Boolean => [false, true].map(Value::Bool).to_vec(),
        FieldType::Uuid => [0, 1, 1 << 64, u128::MAX].map(Value::Uuid).to_vec(),
        FieldType::Struct(_) => panic!("made of members"),
        FieldType::Geometry => PLACES.map(geometry).to_vec(),
        FieldType::Json => ["{\"a\":1}", "[1,2]", "\"x\"", "1"].map(|json| Value::Json(Arc::new(serde_json::from_str(json).expect("JSON")))).to_vec(),
        FieldType::PartialDate => ERAS.map(|text| from_text(text, ty, None).expect("a partial date")).to_vec(),
        _ => [-7, -1, 0, 1, 2, 3, 1_000].map(Value::Int).to_vec(),
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn value(&mut self, ty: &FieldType) -> Value {
        if self.below(6) == 0 {
            return Value::Null;
        }
        let choices = scalars(ty.element());
        if ty.is_list() {
            let length = self.below(4);
            return Value::List((0..length).map(|_| choices[self.below(choices.len())].clone()).collect());
        }
        choices[self.below(choices.len())].clone()
    }
}

/// A column as the naive reader knows it.
#[derive(Clone)]
struct NaiveColumn {
    name: String,
    column: PlanColumn,
    ty: FieldType,
    fold: bool,
}

fn naive_columns(catalogue: &Catalogue) -> Vec<NaiveColumn> {
    let collection = &catalogue.collections[CollectionId::from(0)];
    let unfolded = |name: &str, column, ty| NaiveColumn { name: name.into(), column, ty, fold: false };
    let mut columns = vec![unfolded("key", PlanColumn::Key, FieldType::Text)];
    for (index, field) in collection.fields.enumerate() {
        columns.push(NaiveColumn { name: field.name.clone(), column: PlanColumn::Field(index), ty: field.ty.clone(), fold: field.fold });
    }
    for (index, state) in collection.states.iter().enumerate() {
        columns.push(unfolded(&state.name, PlanColumn::State(index), state.ty.clone()));
    }
    columns
}

/// Existing records in memory, with the documented meaning of plans.
struct Naive {
    columns: Vec<NaiveColumn>,
    records: Vec<(String, RecordContent)>,
}

impl Naive {
    fn value(record: &(String, RecordContent), column: PlanColumn) -> Value {
        match column {
            PlanColumn::Key => text(&record.0),
            PlanColumn::Field(index) => record.1.golden[index].clone(),
            PlanColumn::State(index) => record.1.state[index].clone(),
            // these come after the fields if rows are structs
            PlanColumn::Element(index) => record.1.golden[record.1.golden.len() - STRUCT.len() + index].clone(),
            _ => panic!("not asked of the naive reader"),
        }
    }

    fn naive_column(&self, column: PlanColumn) -> &NaiveColumn {
        self.columns.iter().find(|naive_column| naive_column.column == column).expect("a column of the library")
    }

    fn satisfying(&self, plan: &QueryPlan) -> Vec<&(String, RecordContent)> {
        let holds = |record: &(String, RecordContent), condition: &Condition| {
            satisfies(&Self::value(record, condition.column), &condition.test, self.naive_column(condition.column))
        };
        self.records
            .iter()
            .filter(|record| plan.conditions.iter().all(|condition| holds(record, condition)))
            .filter(|record| plan.combined.iter().all(|combined| is_satisfied(combined, &|condition| holds(record, condition))))
            .collect()
    }

    fn compare(&self, a: &(String, RecordContent), b: &(String, RecordContent), sort: &SortKey) -> Ordering {
        let fold = self.naive_column(sort.column).fold;
        let order = comparable(&Self::value(a, sort.column), fold).compare(&comparable(&Self::value(b, sort.column), fold));
        if sort.descending { order.reverse() } else { order }
    }

    fn rows(&self, plan: &QueryPlan) -> Vec<Vec<Value>> {
        let mut found = self.satisfying(plan);
        let row = |record: &(String, RecordContent)| plan.columns.iter().map(|column| Self::value(record, *column)).collect::<Vec<Value>>();
        let is_ranges = |position: usize| self.naive_column(plan.columns[position]).ty == FieldType::Ranges;
        let united = match (0..plan.columns.len()).filter(|position| is_ranges(*position)).collect::<Vec<_>>().as_slice() {
            [only] if plan.distinct => Some(*only),
            _ => None,
        };
        let by_columns = |a: &(String, RecordContent), b: &(String, RecordContent)| {
            let orders =
                row(a).into_iter().zip(row(b)).enumerate().filter(|(position, _)| Some(*position) != united).map(|(_, (a, b))| a.compare(&b));
            orders.fold(Ordering::Equal, Ordering::then)
        };
        found.sort_by(|a, b| {
            let sorted = plan.sort.iter().map(|sort| self.compare(a, b, sort)).fold(Ordering::Equal, Ordering::then);
            sorted.then_with(|| if plan.distinct { by_columns(a, b) } else { a.0.cmp(&b.0) })
        });
        let mut rows: Vec<Vec<Value>> = found.into_iter().map(row).collect();
        if let Some(position) = united {
            type Ranges = Vec<(i64, i64)>;
            let mut sets: Vec<(Vec<Value>, Ranges)> = Vec::new();
            for mut row in rows {
                let numbers = std::mem::replace(&mut row[position], Value::Null);
                let pairs = if let Value::Json(json) = &numbers { ranges(json).collect() } else { Vec::new() };
                match sets.iter_mut().find(|(known, _)| *known == row) {
                    Some((_, known)) => known.extend(pairs),
                    None => sets.push((row, pairs)),
                }
            }
            let whole = |(mut row, pairs): (Vec<Value>, Ranges)| {
                row[position] = ranges_of(pairs);
                row
            };
            rows = sets.into_iter().map(whole).collect();
        } else if plan.distinct {
            let mut seen = Vec::new();
            rows.retain(|row| {
                !seen.contains(row) && {
                    seen.push(row.clone());
                    true
                }
            });
        }
        let rows = rows.into_iter().skip(plan.offset as usize);
        rows.take(plan.limit.map_or(usize::MAX, |limit| limit as usize)).collect()
    }

    fn aggregate(&self, plan: &QueryPlan, aggregate: &Aggregate) -> Value {
        self.aggregate_of(&self.satisfying(plan), aggregate)
    }

    /// The values of a record in a grouping column.
    fn group_values(&self, record: &(String, RecordContent), group: &GroupColumn) -> Vec<Value> {
        let ty = &self.naive_column(group.column).ty;
        let value = Self::value(record, group.column);
        let mut values: Vec<Value> = Vec::new();
        for element in value.elements() {
            let value = group.period.map_or(element.clone(), |period| start_of(period, ty.element(), element));
            if !values.contains(&value) {
                values.push(value);
            }
        }
        if values.is_empty() { vec![Value::Null] } else { values }
    }

    /// The groups, in the order in which they are found.
    fn groups(&self, plan: &QueryPlan, aggregates: &[Aggregate], grouping: &Grouping) -> Vec<Vec<Value>> {
        type Group<'r> = (Vec<Value>, Vec<&'r (String, RecordContent)>);
        let mut groups: Vec<Group<'_>> = Vec::new();
        for record in self.satisfying(plan) {
            let mut combinations: Vec<Vec<Value>> = vec![Vec::new()];
            for group in &grouping.by {
                let values = self.group_values(record, group);
                let extended = |combination: &Vec<Value>| -> Vec<Vec<Value>> {
                    values.iter().map(|value| combination.iter().cloned().chain([value.clone()]).collect()).collect()
                };
                combinations = combinations.iter().flat_map(extended).collect();
            }
            for combination in combinations {
                match groups.iter_mut().find(|(values, _)| *values == combination) {
                    Some((_, records)) => records.push(record),
                    None => groups.push((combination, vec![record])),
                }
            }
        }
        let row = |(values, records): Group<'_>| {
            let aggregated = aggregates.iter().map(|aggregate| self.aggregate_of(&records, aggregate));
            values.into_iter().chain(aggregated).collect()
        };
        groups.into_iter().map(row).collect()
    }

    fn aggregate_of(&self, found: &[&(String, RecordContent)], aggregate: &Aggregate) -> Value {
        let ty = &self.naive_column(aggregate.column).ty;
        let mut values: Vec<Value> = found.iter().flat_map(|record| parts(&Self::value(record, aggregate.column), ty)).collect();
        values.sort_by(Value::compare);
        if aggregate.function == AggregateFunction::CountDistinct {
            values.dedup();
        }
        let numbers = || values.iter().map(as_number);
        let whole = values.iter().all(|value| matches!(value, Value::Int(_)));
        match aggregate.function {
            AggregateFunction::Count | AggregateFunction::CountDistinct => Value::Int(values.len() as i64),
            _ if values.is_empty() => Value::Null,
            AggregateFunction::Min => values[0].clone(),
            AggregateFunction::Max => values[values.len() - 1].clone(),
            AggregateFunction::Sum if whole => Value::Int(values.iter().filter_map(Value::as_int).sum()),
            AggregateFunction::Sum => Value::Float(numbers().sum()),
            AggregateFunction::Avg => Value::Float(numbers().sum::<f64>() / values.len() as f64),
            AggregateFunction::Median | AggregateFunction::Percentile(_) => {
                let percentile = if let AggregateFunction::Percentile(percentile) = aggregate.function { usize::from(percentile) } else { 5_000 };
                let steps = (values.len() - 1) * percentile;
                let (position, part) = (steps / 10_000, (steps % 10_000) as i64);
                let (low, high) = (&values[position], &values[position + usize::from(part > 0)]);
                match (low, high) {
                    (Value::Int(low), Value::Int(high)) if (low * (10_000 - part) + high * part) % 10_000 == 0 => {
                        Value::Int((low * (10_000 - part) + high * part) / 10_000)
                    }
                    _ => Value::Float((as_number(low) * (10_000 - part) as f64 + as_number(high) * part as f64) / 10_000.0),
                }
            }
        }
    }
}

/// The day on which a period begins, from the text of the day.
fn start_of(period: Period, ty: &FieldType, value: &Value) -> Value {
    let number = value.as_int().expect("a time");
    if ty == &FieldType::PartialDate {
        let date = PartialDate::from_stored(number).expect("a partial date");
        let [first, last] = [date.first(), date.last()].map(|day| start_of(period, &FieldType::Date, &Value::Int(day)));
        return if first == last { first } else { Value::Null };
    }
    let day = if ty == &FieldType::Timestamp { number.div_euclid(86_400_000_000) } else { number };
    let shown = Value::Int(day).show(&FieldType::Date);
    let day_of = |text: String| from_text(&text, &FieldType::Date, None).expect("a date");
    match period {
        Period::Day => Value::Int(day),
        Period::Week => (0..7).map(|back| day - back).find(|day| (day + 3).rem_euclid(7) == 0).map(Value::Int).expect("a Monday"),
        Period::Month => day_of(format!("{}01", &shown[..shown.len() - 2])),
        Period::Year => day_of(format!("{}01-01", &shown[..shown.len() - 5])),
    }
}

fn as_number(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        _ => panic!("not a number"),
    }
}

fn comparable(value: &Value, folds: bool) -> Value {
    match value {
        Value::Text(text) if folds => Value::text(fold(text)),
        other => other.clone(),
    }
}

fn satisfies(value: &Value, test: &Comparison, naive_column: &NaiveColumn) -> bool {
    match test {
        Comparison::Exists(wanted) => value.is_null() != *wanted,
        Comparison::NotEqual(wanted) => !satisfies(value, &Comparison::Equal(wanted.clone()), naive_column),
        Comparison::NotWildcard(pieces) => !satisfies(value, &Comparison::Wildcard(pieces.clone()), naive_column),
        test => parts(value, &naive_column.ty).iter().any(|element| element_satisfies(element, test, naive_column)),
    }
}

/// Elements of a list, numbers of ranges.
fn parts(value: &Value, ty: &FieldType) -> Vec<Value> {
    match value {
        Value::Json(json) if ty == &FieldType::Ranges => ranges(json).flat_map(|(low, high)| low..=high).map(Value::Int).collect(),
        other => other.elements().to_vec(),
    }
}

fn element_satisfies(element: &Value, test: &Comparison, naive_column: &NaiveColumn) -> bool {
    let comparable_element = comparable(element, naive_column.fold);
    let element_text = comparable_element.as_text().unwrap_or_default();
    let compare = |wanted: &Value| comparable_element.compare(&comparable(wanted, naive_column.fold));
    match test {
        Comparison::Equal(wanted) => compare(wanted).is_eq(),
        Comparison::In(wanted) => wanted.iter().any(|wanted| compare(wanted).is_eq()),
        Comparison::Range { low, high } => {
            let above = low.as_ref().is_none_or(|(bound, included)| compare(bound).is_gt() || *included && compare(bound).is_eq());
            let below = high.as_ref().is_none_or(|(bound, included)| compare(bound).is_lt() || *included && compare(bound).is_eq());
            above && below
        }
        Comparison::Prefix(prefix) => element_text.starts_with(&if naive_column.fold { fold(prefix) } else { prefix.clone() }),
        Comparison::Wildcard(pieces) => {
            let pieces: Vec<String> = pieces.iter().map(|piece| if naive_column.fold { fold(piece) } else { piece.clone() }).collect();
            matches_pieces(element_text, &pieces)
        }
        Comparison::During(wanted) => element.as_int().and_then(PartialDate::from_stored).is_some_and(|date| date.lies_in(*wanted)),
        Comparison::Related(relation, wanted) => match (element, relation) {
            (Value::Geometry(geometry), GeometryRelation::Intersects) => geometry.intersects(wanted).expect("few edges"),
            (Value::Geometry(geometry), GeometryRelation::Within) => geometry.is_within(wanted).expect("few edges"),
            _ => false,
        },
        Comparison::NotEqual(_) | Comparison::NotWildcard(_) | Comparison::Exists(_) => unreachable!("handled for the whole value"),
        Comparison::Words(_) | Comparison::Among(_) | Comparison::NotAmong(_) => unreachable!("have tests of their own"),
    }
}

fn matches_pieces(text: &str, pieces: &[String]) -> bool {
    let (first, rest) = pieces.split_first().expect("one piece at least");
    let Some(text) = text.strip_prefix(first.as_str()) else { return false };
    let Some((last, middle)) = rest.split_last() else { return text.is_empty() };
    let mut text = text;
    for piece in middle {
        let Some(at) = text.find(piece.as_str()) else { return false };
        text = &text[at + piece.len()..];
    }
    text.ends_with(last.as_str())
}

/// Comparisons to try on a column.
fn tests_of(naive_column: &NaiveColumn) -> Vec<Comparison> {
    let values = scalars(naive_column.ty.element());
    let mut tests = vec![Comparison::Exists(true), Comparison::Exists(false), Comparison::In(Vec::new())];
    for value in &values {
        tests.push(Comparison::Equal(value.clone()));
        tests.push(Comparison::NotEqual(value.clone()));
    }
    tests.push(Comparison::In(values[..2].to_vec()));
    tests.push(Comparison::In([&values[1..2], &values[1..2]].concat()));
    for value in &values {
        if let Value::Geometry(wanted) = value {
            tests.extend([GeometryRelation::Intersects, GeometryRelation::Within].map(|relation| Comparison::Related(relation, wanted.clone())));
        }
    }
    if naive_column.ty.element() == &FieldType::PartialDate {
        tests.extend(values.iter().filter_map(|value| PartialDate::from_stored(value.as_int()?)).map(Comparison::During));
    }
    if matches!(naive_column.ty.element(), FieldType::Json | FieldType::Geometry) {
        return tests;
    }
    for (number, low) in values.iter().enumerate() {
        let high = &values[values.len() - 1 - number];
        for included in [false, true] {
            tests.push(between(Some((low.clone(), included)), None));
            tests.push(between(None, Some((low.clone(), included))));
            tests.push(between(Some((low.clone(), included)), Some((high.clone(), !included))));
        }
    }
    tests.push(between(None, None));
    if naive_column.ty.element() == &FieldType::Text {
        tests.extend(TEXTS.map(|prefix| Comparison::Prefix(prefix.into())));
        let patterns = [
            "",
            "*",
            "a",
            "a*",
            "*a",
            "*a*",
            "a*c",
            "a*a",
            "ab*bc",
            "*bc*",
            "*abc*",
            "*abcd",
            "a*b*c*",
            "*b*",
            "b\\*c",
            "*[c]*",
            "*?*",
            "\u{e4}*",
            "*\u{e4}bc*",
            "x*",
            "*a bc*",
            "b*\u{10000}*",
        ];
        for pattern in patterns {
            tests.push(wildcard(pattern));
            tests.push(Comparison::NotWildcard(pattern.split('*').map(str::to_owned).collect()));
        }
        tests.push(Comparison::Wildcard(vec!["b*c".into()]));
        tests.push(Comparison::Wildcard(vec!["b?".into(), "".into()]));
    }
    tests
}

/// A library whose records have been changed, marked as not existing and deleted, and the same in memory.
fn library(location: &StoreLocation) -> (Fixture, Naive) {
    let fixture = Fixture::open(location, LIBRARY);
    let columns = naive_columns(&fixture.catalogue);
    let mut dice = Dice(1);
    let mut records = Vec::new();
    for round in 0..3 {
        let mut writes = Vec::new();
        for number in 0..150 {
            let name = format!("{}{number}", TEXTS[number % 7]);
            // some are written once, some twice, some three times
            if round > 0 && dice.below(3) == 0 {
                continue;
            }
            let golden = columns.iter().filter(|naive_column| matches!(naive_column.column, PlanColumn::Field(_)));
            let golden: Vec<Value> = golden
                .map(|naive_column| if naive_column.name == "badge" { text(&format!("badge {name}")) } else { dice.value(&naive_column.ty) })
                .collect();
            let state = columns.iter().filter(|naive_column| matches!(naive_column.column, PlanColumn::State(_)));
            let state: Vec<Value> = state.map(|naive_column| dice.value(&naive_column.ty)).collect();
            let exists = round < 2 || dice.below(6) > 0;
            let content = RecordContent { golden: golden.into(), state, exists, ..fixture.content(&[]) };
            let is_deleted = round == 2 && dice.below(8) == 0;
            records.retain(|(existing, _): &(String, RecordContent)| *existing != name);
            if is_deleted {
                writes.push(delete(CollectionId::from(0), &name, fixture.version(&name)));
            } else {
                writes.push(put(CollectionId::from(0), &name, fixture.version(&name), content.clone()));
                records.push((name, content));
            }
        }
        fixture.unit().writes(writes).commit_ok(&*fixture.store);
    }
    records.retain(|(_, content)| content.exists);
    // another tenant's records must not change any result
    let other_writes = records.iter().take(50).map(|(name, content)| put(CollectionId::from(0), name, None, content.clone()));
    TestUnit::new(&tenant("other")).writes(other_writes).commit_ok(&*fixture.store);
    (fixture, Naive { columns, records })
}

fn is_satisfied(combined: &CombinedCondition, holds: &dyn Fn(&Condition) -> bool) -> bool {
    match combined {
        CombinedCondition::Is(condition) => holds(condition),
        CombinedCondition::IsNot(condition) => !holds(condition),
        CombinedCondition::All(inner) => inner.iter().all(|inner| is_satisfied(inner, holds)),
        CombinedCondition::Any(inner) => inner.iter().any(|inner| is_satisfied(inner, holds)),
    }
}

pub fn every_condition_on_every_column_finds_what_a_naive_reader_finds(location: &StoreLocation) {
    let (fixture, naive) = library(location);
    let mut hits = 0;
    for naive_column in &naive.columns {
        for test in tests_of(naive_column) {
            let plan = QueryPlan { conditions: vec![Condition { column: naive_column.column, test: test.clone() }], ..fixture.plan(vec![]) };
            let expected: Vec<String> = naive.rows(&plan).iter().map(|row| row[0].as_text().expect("a key").to_owned()).collect();
            assert_eq!(fixture.keys(plan.clone()), expected, "{} {test:?}", naive_column.name);
            assert_eq!(fixture.store.count(&plan).expect("counting works"), expected.len() as u64, "{} {test:?}", naive_column.name);
            hits += expected.len();
        }
    }
    assert!(hits > 10_000, "the questions have answers");
}

/// Choices, as numbers that are taken modulo what there is to choose from.
#[derive(Debug, Clone)]
struct Choices {
    conditions: Vec<(usize, usize)>,
    /// Conditions, and how each is combined with those before it.
    combined: Vec<(usize, usize, u8)>,
    sort: Vec<(usize, bool)>,
    columns: Vec<usize>,
    distinct: bool,
    offset: u64,
    limit: Option<u64>,
    aggregates: Vec<(usize, usize)>,
}

prop_compose! {
    fn choices()(
        conditions in proptest::collection::vec((any::<usize>(), any::<usize>()), 0..4),
        combined in proptest::collection::vec((any::<usize>(), any::<usize>(), 0_u8..6), 0..6),
        sort in proptest::collection::vec((any::<usize>(), any::<bool>()), 0..4),
        columns in proptest::collection::vec(any::<usize>(), 1..5),
        distinct in any::<bool>(),
        offset in prop_oneof![Just(0_u64), 0_u64..40],
        limit in proptest::option::of(0_u64..40),
        aggregates in proptest::collection::vec((any::<usize>(), any::<usize>()), 1..4),
    ) -> Choices {
        Choices { conditions, combined, sort, columns, distinct, offset, limit, aggregates }
    }
}

fn chosen_plan(choices: &Choices, naive: &Naive, plan: QueryPlan) -> (QueryPlan, Vec<Aggregate>) {
    // lists have no order that stores agree on
    let scalar: Vec<&NaiveColumn> =
        naive.columns.iter().filter(|naive_column| !naive_column.ty.is_list() && naive_column.ty != FieldType::Ranges).collect();
    let condition = |(choice, test): (usize, usize)| {
        let naive_column = &naive.columns[choice % naive.columns.len()];
        let tests = tests_of(naive_column);
        Condition { column: naive_column.column, test: tests[test % tests.len()].clone() }
    };
    let conditions = choices.conditions.iter().copied().map(condition);
    let mut combined: Vec<CombinedCondition> = Vec::new();
    for (choice, test, shape) in &choices.combined {
        let condition = condition((*choice, *test));
        let single = if shape % 2 == 0 { CombinedCondition::Is(condition) } else { CombinedCondition::IsNot(condition) };
        combined = match shape / 2 {
            0 => combined.into_iter().chain([single]).collect(),
            1 => vec![CombinedCondition::Any(combined), single],
            _ => vec![CombinedCondition::Any(vec![CombinedCondition::All(combined), single])],
        };
    }
    let candidates: Vec<&NaiveColumn> = naive.columns.iter().filter(|column| !choices.distinct || !column.ty.is_list()).collect();
    let mut columns: Vec<PlanColumn> = choices.columns.iter().map(|choice| candidates[choice % candidates.len()].column).collect();
    let is_ranges = |column: PlanColumn| naive.naive_column(column).ty == FieldType::Ranges;
    if choices.distinct {
        // rows with several are ordered by their texts
        let first = columns.iter().position(|column| is_ranges(*column));
        let mut position = 0..;
        columns.retain(|column| position.next() == first || !is_ranges(*column));
    }
    let sort = choices.sort.iter().filter_map(|(choice, descending)| {
        // only one of equal rows is left, so they can only be ordered by their values
        let column = if choices.distinct { columns[choice % columns.len()] } else { scalar[choice % scalar.len()].column };
        (!is_ranges(column)).then_some(SortKey { column, descending: *descending })
    });
    let aggregates = choices.aggregates.iter().map(|(choice, function)| {
        let naive_column = &naive.columns[choice % naive.columns.len()];
        let numeric = matches!(naive_column.ty.element(), FieldType::Integer | FieldType::Float);
        let functions: Vec<AggregateFunction> = FUNCTIONS.iter().map(|(function, _)| *function).collect();
        let function = if numeric {
            functions[function % functions.len()]
        } else {
            [AggregateFunction::Count, AggregateFunction::Min, AggregateFunction::Max][function % 3]
        };
        Aggregate { function, column: naive_column.column }
    });
    let (conditions, sort, aggregates) = (conditions.collect(), sort.collect(), aggregates.collect());
    (QueryPlan { conditions, combined, sort, columns, distinct: choices.distinct, offset: choices.offset, limit: choices.limit, ..plan }, aggregates)
}

/// Equality, for floats up to the last digits: sums depend on the order of adding.
fn about_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
        _ => a == b,
    }
}

pub fn random_plans_give_what_a_naive_reader_gives(location: &StoreLocation) {
    let (fixture, naive) = library(location);
    compare_random_plans(&fixture, &naive, fixture.plan(vec![]), 1_500);
}

/// Members of the structs below, as they are written.
const STRUCT: [&str; 9] =
    ["site: text", "era: partial_date", "size: integer", "seen: timestamp", "ratio: float", "held: boolean", "id: uuid", "day: date", "runs: ranges"];

/// Records with lists of structs and sets of numbers, and the same in memory: by record, and by struct.
fn replicas(location: &StoreLocation) -> (Fixture, Naive, Naive) {
    let definition_text = format!(
        "catalogue: replicas\ncollections: {{ block: {{ key: name, fields: {{ name: text, size: integer, lumi: ranges, \
         parts: {{ type: [{{ {} }}], index: {{ site: equal, size: equal }} }} }} }} }}",
        STRUCT.join(", ")
    );
    let fixture = Fixture::open(location, &definition_text);
    let collection = &fixture.catalogue.collections[CollectionId::from(0)];
    let (list, parts) = collection.field("parts").expect("a list");
    let members = parts.ty.members();
    let mut dice = Dice(7);
    let number_set = |dice: &mut Dice| ranges_of((0..dice.below(4)).map(|_| dice.below(8) as i64).map(|low| (low - 2, low)).collect());
    let (mut records, mut rows, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..200 {
        let name = format!("{}{number}", TEXTS[number % 7]);
        let structs: Vec<Vec<Value>> = (0..dice.below(4))
            .map(|_| {
                members.iter().map(|member| if member.ty == FieldType::Ranges { number_set(&mut dice) } else { dice.value(&member.ty) }).collect()
            })
            .filter(|values: &Vec<Value>| values.iter().any(|value| !value.is_null()))
            .collect();
        let struct_list = Value::List(structs.iter().map(|values| struct_of(members, values.iter().cloned())).collect());
        let mut golden = vec![text(&name), dice.value(&FieldType::Integer), number_set(&mut dice), struct_list];
        let member_values: Vec<Value> = members.iter().map(|member| members_of(&golden[list], member)).collect();
        golden.extend(member_values);
        let content = RecordContent { golden: golden.clone().into(), ..fixture.content(&[]) };
        writes.push(put(CollectionId::from(0), &name, None, content.clone()));
        records.push((name.clone(), content.clone()));
        rows.extend(structs.into_iter().map(|values| {
            let golden: Vec<Value> = golden.iter().cloned().chain(values).collect();
            (name.clone(), RecordContent { golden: golden.into(), ..content.clone() })
        }));
    }
    fixture.unit().writes(writes).commit_ok(&*fixture.store);
    let columns: Vec<NaiveColumn> = naive_columns(&fixture.catalogue).into_iter().filter(|naive_column| naive_column.name != "parts").collect();
    let element = |(index, member): (usize, &StructMember)| {
        let (name, ty) = (format!("element {}", member.name), member.ty.clone());
        NaiveColumn { name, column: PlanColumn::Element(index), ty, fold: false }
    };
    let of_structs: Vec<NaiveColumn> = columns.iter().cloned().chain(members.iter().enumerate().map(element)).collect();
    let rows = Naive { columns: of_structs, records: rows };
    (fixture, Naive { columns, records }, rows)
}

pub fn members_of_structs_and_rows_of_them_are_those_of_a_naive_reader(location: &StoreLocation) {
    let (fixture, naive, rows) = replicas(location);
    let by_struct = QueryPlan { each: Some(FieldId::from(3)), ..fixture.plan(vec![]) };
    for (naive, plan) in [(&naive, fixture.plan(vec![])), (&rows, by_struct)] {
        let mut hits = 0;
        for naive_column in &naive.columns {
            for test in tests_of(naive_column) {
                let plan = QueryPlan { conditions: vec![Condition { column: naive_column.column, test: test.clone() }], ..plan.clone() };
                let expected = naive.rows(&plan);
                assert_eq!(fixture.rows(&plan), expected, "{} {test:?}", naive_column.name);
                hits += expected.len();
            }
        }
        assert!(hits > 5_000, "the questions have answers");
        compare_random_plans(&fixture, naive, plan, 600);
    }
    let site = Condition { column: fixture.column("parts.site"), test: equal(text("ab")) };
    let explained = fixture.store.explain(&QueryPlan { conditions: vec![site], ..fixture.plan(vec![]) }).expect("a way");
    assert!(!location.is_full_scan(&explained), "{explained:?}");
    let nothing = QueryPlan { each: Some(FieldId::from(0)), ..fixture.plan(vec![]) };
    assert!(matches!(fixture.store.find(&nothing), Err(StoreError::Wrong(_))), "a text has no structs");
    let nowhere = QueryPlan { columns: vec![PlanColumn::Element(0)], ..fixture.plan(vec![]) };
    assert!(matches!(fixture.store.find(&nowhere), Err(StoreError::Wrong(_))), "no struct is asked for");
}

pub fn unique_rows_that_differ_in_one_column_of_ranges_are_one(location: &StoreLocation) {
    let definition_text = "catalogue: files\ncollections: { file: { key: name, fields: { name: text, run: integer, lumi: ranges, more: ranges } } }";
    let fixture = Fixture::open(location, definition_text);
    let (most, least) = (i64::MAX, i64::MIN);
    for (name, run, lumi) in [
        ("a", Some(1), vec![(1, 5), (8, 9)]),
        ("b", Some(1), vec![(4, 7)]),
        ("c", Some(1), vec![(20, 20)]),
        ("d", Some(2), vec![(most - 1, most), (least, least)]),
        ("e", Some(2), vec![(least + 1, 3), (most, most)]),
        ("f", Some(2), Vec::new()),
        ("g", Some(3), Vec::new()),
        ("h", None, vec![(1, 1)]),
        ("i", None, vec![(1, 2)]),
    ] {
        let run = run.map_or(Value::Null, Value::Int);
        fixture.put(name, &[("run", run), ("lumi", ranges_of(lumi.clone())), ("more", ranges_of(lumi))]);
    }
    let (run, lumi, more) = (fixture.column("run"), fixture.column("lumi"), fixture.column("more"));
    let unique = |columns: &[PlanColumn]| QueryPlan { columns: columns.to_vec(), distinct: true, ..fixture.plan(vec![]) };
    let all_of_two = vec![(least, 3), (most - 1, most)];
    let expected = vec![
        vec![Value::Null, ranges_of(vec![(1, 2)])],
        vec![Value::Int(1), ranges_of(vec![(1, 9), (20, 20)])],
        vec![Value::Int(2), ranges_of(all_of_two)],
        vec![Value::Int(3), Value::Null],
    ];
    let plan = unique(&[run, lumi]);
    assert_eq!(fixture.rows(&plan), expected);
    assert_eq!(fixture.store.count(&plan).expect("counting works"), 4);
    let turned: Vec<Vec<Value>> = expected.iter().map(|row| row.iter().rev().cloned().collect()).collect();
    assert_eq!(fixture.rows(&unique(&[lumi, run])), turned);
    let descending = QueryPlan { sort: vec![SortKey { column: run, descending: true }], offset: 1, limit: Some(2), ..plan.clone() };
    assert_eq!(fixture.rows(&descending), [expected[2].clone(), expected[1].clone()]);
    // every number once
    let below_most = Condition { column: run, test: Comparison::NotEqual(Value::Int(2)) };
    let small = QueryPlan { conditions: vec![below_most.clone()], ..plan.clone() };
    let count = Aggregate { function: AggregateFunction::Count, column: lumi };
    assert_eq!(fixture.store.aggregate(&small, &[count]).expect("it counts"), [Value::Int(12)]);
    let by = GroupColumn { column: run, period: None };
    let grouping = Grouping { by: vec![by], sort: Vec::new() };
    let groups = fixture.store.group(&small, &[count], &grouping).expect("it groups");
    assert_eq!(groups.rows, [[Value::Null, Value::Int(2)], [Value::Int(1), Value::Int(10)], [Value::Int(3), Value::Int(0)]]);
    // the only column
    assert_eq!(fixture.rows(&QueryPlan { conditions: vec![below_most], ..unique(&[lumi]) }), [vec![ranges_of(vec![(1, 9), (20, 20)])]]);
    let nothing = Condition { column: run, test: equal(Value::Int(9)) };
    assert!(fixture.rows(&QueryPlan { conditions: vec![nothing], ..unique(&[lumi]) }).is_empty());
    // pairs of sets are no set
    assert_eq!(fixture.rows(&unique(&[run, lumi, more])).len(), 9);
}

fn compare_random_plans(fixture: &Fixture, naive: &Naive, base: QueryPlan, cases: u32) {
    let mut runner = TestRunner::new(Config { failure_persistence: None, cases, ..Config::default() });
    let checked = runner.run(&choices(), |choices| {
        let (plan, aggregates) = chosen_plan(&choices, naive, base.clone());
        let expected = naive.rows(&plan);
        prop_assert_eq!(fixture.rows(&plan), expected, "{:?}", plan);
        let whole = QueryPlan { offset: 0, limit: None, ..plan.clone() };
        prop_assert_eq!(fixture.store.count(&plan).expect("counting works"), naive.rows(&whole).len() as u64, "{:?}", plan);
        let plan = QueryPlan { distinct: false, ..plan };
        let found = fixture.store.aggregate(&plan, &aggregates).unwrap_or_else(|error| panic!("{error}: {plan:?} {aggregates:?}"));
        for (aggregate, value) in aggregates.iter().zip(found) {
            let expected = naive.aggregate(&plan, aggregate);
            prop_assert!(about_equal(&value, &expected), "{:?} is {:?}, not {:?}, of {:?}", aggregate, value, expected, plan);
        }
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}

fn chosen_grouping(choices: &Choices, naive: &Naive, aggregates: usize) -> Grouping {
    let groups = |naive_column: &&NaiveColumn| naive_column.ty.element().is_ordered();
    let candidates: Vec<&NaiveColumn> = naive.columns.iter().filter(groups).collect();
    let by: Vec<GroupColumn> = choices
        .columns
        .iter()
        .take(3)
        .map(|choice| {
            let naive_column = candidates[choice % candidates.len()];
            let is_time = matches!(naive_column.ty.element(), FieldType::Timestamp | FieldType::Date | FieldType::PartialDate);
            let period = is_time.then(|| PERIODS.get((choice / candidates.len()) % 5).map(|(period, _)| *period)).flatten();
            GroupColumn { column: naive_column.column, period }
        })
        .collect();
    let columns = by.len() + aggregates;
    let sort = choices.sort.iter().map(|(choice, descending)| GroupSort { position: choice % columns, descending: *descending }).collect();
    Grouping { by, sort }
}

/// The order of two groups.
fn order_of_groups(a: &[Value], b: &[Value], grouping: &Grouping) -> Ordering {
    let compare = |a: &Value, b: &Value| match (a, b) {
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => as_number(a).total_cmp(&as_number(b)),
        _ => a.compare(b),
    };
    let sorted = grouping.sort.iter().map(|sort| {
        let order = compare(&a[sort.position], &b[sort.position]);
        if sort.descending { order.reverse() } else { order }
    });
    let by = (0..grouping.by.len()).map(|position| a[position].compare(&b[position]));
    sorted.chain(by).fold(Ordering::Equal, Ordering::then)
}

fn compare_random_groups(fixture: &Fixture, naive: &Naive, base: QueryPlan, cases: u32) {
    let mut runner = TestRunner::new(Config { failure_persistence: None, cases, ..Config::default() });
    let checked = runner.run(&choices(), |choices| {
        let (plan, mut aggregates) = chosen_plan(&choices, naive, base.clone());
        for (aggregate, (choice, _)) in aggregates.iter_mut().zip(&choices.aggregates) {
            // geometries have no order, so no query asks for the least
            if naive.naive_column(aggregate.column).ty.element() == &FieldType::Geometry {
                aggregate.function = AggregateFunction::Count;
            }
            if aggregate.function == AggregateFunction::Median && choice % 3 > 0 {
                aggregate.function = AggregateFunction::Percentile([0, 2_500, 9_500, 9_990, 10_000][choice % 5]);
            }
        }
        let plan = QueryPlan { distinct: false, sort: Vec::new(), ..plan };
        let grouping = chosen_grouping(&choices, naive, aggregates.len());
        let group = |plan: &QueryPlan| {
            fixture.store.group(plan, &aggregates, &grouping).unwrap_or_else(|error| panic!("{error}: {plan:?} {aggregates:?} {grouping:?}"))
        };
        let whole = group(&QueryPlan { offset: 0, limit: None, ..plan.clone() });
        let expected = naive.groups(&plan, &aggregates, &grouping);
        prop_assert_eq!(whole.total, expected.len() as u64, "{:?} {:?}", plan, grouping);
        prop_assert_eq!(whole.rows.len(), expected.len(), "{:?} {:?}", plan, grouping);
        for row in &whole.rows {
            let own = expected.iter().find(|own| own[..grouping.by.len()] == row[..grouping.by.len()]);
            let is_equal = own.is_some_and(|own| own.iter().zip(row).all(|(own, found)| about_equal(found, own)));
            prop_assert!(is_equal, "{:?} instead of {:?} of {:?} {:?} {:?}", row, own, plan, aggregates, grouping);
        }
        for pair in whole.rows.windows(2) {
            prop_assert!(order_of_groups(&pair[0], &pair[1], &grouping).is_lt(), "{:?} of {:?} {:?} {:?}", pair, plan, aggregates, grouping);
        }
        let page = group(&plan);
        prop_assert_eq!(page.total, whole.total);
        let rows = whole.rows.into_iter().skip(plan.offset as usize).take(plan.limit.map_or(usize::MAX, |limit| limit as usize));
        prop_assert_eq!(page.rows, rows.collect::<Vec<_>>(), "{:?} {:?} {:?}", plan, aggregates, grouping);
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}

pub fn random_groups_are_those_of_a_naive_reader(location: &StoreLocation) {
    let (fixture, naive) = library(location);
    compare_random_groups(&fixture, &naive, fixture.plan(vec![]), 600);
}

pub fn groups_of_members_of_structs_are_those_of_a_naive_reader(location: &StoreLocation) {
    let (fixture, naive, rows) = replicas(location);
    compare_random_groups(&fixture, &naive, fixture.plan(vec![]), 300);
    compare_random_groups(&fixture, &rows, QueryPlan { each: Some(FieldId::from(3)), ..fixture.plan(vec![]) }, 300);
}

fn count_by(fixture: &Fixture, plan: &QueryPlan, by: &[(&str, Option<Period>)]) -> Result<Groups> {
    let by = by.iter().map(|(name, period)| GroupColumn { column: fixture.column(name), period: *period }).collect();
    let count = Aggregate { function: AggregateFunction::Count, column: PlanColumn::Key };
    fixture.store.group(plan, &[count], &Grouping { by, sort: Vec::new() })
}

pub fn periods_begin_on_days_of_the_calendar_in_every_year(location: &StoreLocation) {
    let early = ["-009999-01-01", "-009998-12-31", "-004713-11-23", "-000001-03-01", "0000-02-29", "0001-01-01", "1582-10-15", "1899-12-31"];
    let late = ["1900-02-28", "1900-03-01", "1969-12-28", "1969-12-29", "1970-01-01", "2000-02-29", "2000-12-31", "2024-12-30", "9999-12-30"];
    let day = |text: &&str| from_text(text, &FieldType::Date, None).unwrap_or_else(|problem| panic!("{text}: {problem:?}"));
    let days: Vec<Value> = early.iter().chain(&late).map(day).collect();
    let fixture = with_values(location, "day", &days);
    for (number, day) in days.iter().enumerate() {
        let micros = day.as_int().expect("a day") * 86_400_000_000;
        for (part, moment) in [0, 1, 43_200_000_000, 86_399_999_999].into_iter().enumerate() {
            fixture.put(&format!("{number}.{part}"), &[("moment_i", Value::Int(micros + moment))]);
        }
    }
    for (period, _) in PERIODS {
        for (name, times, ty) in [("day", 1, FieldType::Date), ("moment_i", 4, FieldType::Timestamp)] {
            let mut expected: Vec<(Value, i64)> = Vec::new();
            for day in &days {
                let start = start_of(period, &FieldType::Date, day);
                match expected.iter_mut().find(|(known, _)| *known == start) {
                    Some((_, count)) => *count += times,
                    None => expected.push((start, times)),
                }
            }
            expected.sort_by(|a, b| a.0.compare(&b.0));
            let with_value = fixture.plan(vec![(name, Comparison::Exists(true))]);
            let found = count_by(&fixture, &with_value, &[(name, Some(period))]).expect("groups");
            let rows: Vec<Vec<Value>> = expected.into_iter().map(|(start, count)| vec![start, Value::Int(count)]).collect();
            assert_eq!(found.rows, rows, "{period:?} of {ty}");
        }
    }
}

pub fn more_groups_than_may_be_returned_are_refused_unless_a_page_is_asked_for(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    let put_all = |numbers: std::ops::Range<i64>| {
        let writes = numbers.map(|number| put(CollectionId::from(0), &number.to_string(), None, fixture.content(&[("number", Value::Int(number))])));
        fixture.unit().writes(writes).commit_ok(&*fixture.store);
    };
    put_all(0..MAX_GROUPS as i64);
    let all = fixture.plan(vec![]);
    assert_eq!(count_by(&fixture, &all, &[("number", None)]).expect("just as many").rows.len() as u64, MAX_GROUPS);
    put_all(MAX_GROUPS as i64..MAX_GROUPS as i64 + 5);
    let Err(StoreError::Wrong(reason)) = count_by(&fixture, &all, &[("number", None)]) else { panic!("there are too many") };
    assert!(reason.starts_with("there are 10005 groups, and at most 10000 are returned without a limit;"), "{reason}");
    let page =
        |offset: u64, limit: u64| count_by(&fixture, &QueryPlan { offset, limit: Some(limit), ..all.clone() }, &[("number", None)]).expect("a page");
    let last = page(MAX_GROUPS + 3, 5);
    assert_eq!((last.rows, last.total), ((10_003..10_005).map(|number| vec![Value::Int(number), Value::Int(1)]).collect(), 10_005));
    for (offset, limit) in [(10_005, 5), (0, 0)] {
        assert_eq!(page(offset, limit), Groups { rows: Vec::new(), total: 10_005 });
    }
    let nothing = fixture.plan(vec![("number", Comparison::Equal(Value::Int(-1)))]);
    assert_eq!(count_by(&fixture, &nothing, &[("number", None)]).expect("none"), Groups::default());
    let other = QueryPlan::all(tenant("nobody"), CollectionId::from(0));
    assert_eq!(count_by(&fixture, &other, &[("number", None)]).expect("none"), Groups::default());
}

pub fn unique_rows_are_grouped_by_columns_they_have(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    for (name, plain, number) in [("a", Some("x"), 1), ("b", Some("x"), 1), ("c", Some("x"), 2), ("d", None, 1), ("e", None, 1)] {
        fixture.put(name, &[("plain", plain.map_or(Value::Null, text)), ("number", Value::Int(number))]);
    }
    let plan = QueryPlan { distinct: true, ..fixture.columns(fixture.plan(vec![]), &["plain", "number"]) };
    let aggregates = [AggregateFunction::Count, AggregateFunction::Sum].map(|function| Aggregate { function, column: fixture.column("number") });
    let by = |name: &str| Grouping { by: vec![GroupColumn { column: fixture.column(name), period: None }], sort: Vec::new() };
    let rows = vec![vec![Value::Null, Value::Int(1), Value::Int(1)], vec![text("x"), Value::Int(2), Value::Int(3)]];
    assert_eq!(fixture.store.group(&plan, &aggregates, &by("plain")).expect("groups").rows, rows);
    assert!(matches!(fixture.store.group(&plan, &aggregates, &by("ordered")), Err(StoreError::Wrong(_))));
}

pub fn sums_of_groups_are_exact_and_refused_where_they_do_not_fit(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    for (name, plain, number) in
        [("1", "a", i64::MAX), ("2", "a", i64::MAX), ("3", "a", -i64::MAX), ("4", "b", i64::MIN), ("5", "b", 1), ("6", "c", 2)]
    {
        fixture.put(name, &[("plain", text(plain)), ("number", Value::Int(number))]);
    }
    let aggregates = [AggregateFunction::Sum, AggregateFunction::Avg].map(|function| Aggregate { function, column: fixture.column("number") });
    let grouping =
        Grouping { by: vec![GroupColumn { column: fixture.column("plain"), period: None }], sort: vec![GroupSort { position: 1, descending: true }] };
    let sum = |name: &str, sum: i64, average: f64| vec![text(name), Value::Int(sum), Value::Float(average)];
    let rows = vec![sum("a", i64::MAX, i64::MAX as f64 / 3.0), sum("c", 2, 2.0), sum("b", i64::MIN + 1, (i64::MIN + 1) as f64 / 2.0)];
    assert_eq!(fixture.store.group(&fixture.plan(vec![]), &aggregates, &grouping).expect("groups").rows, rows);
    fixture.put("7", &[("plain", text("a")), ("number", Value::Int(1))]);
    let Err(StoreError::Wrong(reason)) = fixture.store.group(&fixture.plan(vec![]), &aggregates, &grouping) else { panic!("it does not fit") };
    assert!(reason.contains("does not fit 64 bits"), "{reason}");
}

pub fn percentiles_lie_between_values_in_proportion(location: &StoreLocation) {
    let fixture = with_values(location, "number", &[10, 20, 30, 40, 50].map(Value::Int));
    let all = fixture.plan(vec![]);
    let percentile = |percentile: u16, name: &str| aggregate(&fixture, &all, AggregateFunction::Percentile(percentile), name);
    for (hundredths, value) in [(0, 10.0), (5_000, 30.0), (2_500, 20.0), (9_500, 48.0), (9_990, 49.96), (10_000, 50.0), (1, 10.004)] {
        assert!(about_equal(&Value::Float(as_number(&percentile(hundredths, "number"))), &Value::Float(value)), "{hundredths}");
    }
    assert_eq!(percentile(9_500, "number"), Value::Int(48), "a value without a fraction is an integer");
    assert_eq!(percentile(9_500, "ratio"), Value::Null);
    fixture.put("9", &[("ratio", Value::Float(2.5)), ("number", Value::Int(60))]);
    assert_eq!(percentile(9_500, "ratio"), Value::Float(2.5));
    assert_eq!(percentile(5_000, "number"), aggregate(&fixture, &all, AggregateFunction::Median, "number"));
}

/// Records called 0, 1, 2 ... with one value each.
fn with_values(location: &StoreLocation, field: &str, values: &[Value]) -> Fixture {
    let fixture = Fixture::open(location, LIBRARY);
    let writes = values
        .iter()
        .enumerate()
        .map(|(number, value)| put(CollectionId::from(0), &number.to_string(), None, fixture.content(&[(field, value.clone())])));
    fixture.unit().writes(writes).commit_ok(&*fixture.store);
    fixture
}

fn with_texts(location: &StoreLocation, field: &str, values: &[&str]) -> Fixture {
    with_values(location, field, &values.iter().map(|value| text(value)).collect::<Vec<_>>())
}

pub fn text_is_ordered_by_its_bytes(location: &StoreLocation) {
    let mut values = ["b", "a", "B", "A", "", "aa", "a b", "10", "9", "\u{e4}", "\u{ffff}", "\u{10000}", "z", "\u{7f}"];
    for field in ["plain", "ordered", "s_text_i"] {
        let fixture = with_texts(location, field, &values);
        let plan = fixture.columns(fixture.sorted(fixture.plan(vec![]), &[(field, false)]), &[field]);
        values.sort_unstable();
        assert_eq!(fixture.rows(&plan), values.map(|value| vec![text(value)]));
        assert_eq!(fixture.keys_where(field, between(Some((text("a"), false)), Some((text("b"), false)))).len(), 2, "aa and a b");
        fixture
            .unit()
            .writes((0..values.len()).map(|number| delete(CollectionId::from(0), &number.to_string(), fixture.version(&number.to_string()))))
            .commit_ok(&*fixture.store);
    }
    let fixture = Fixture::open(location, LIBRARY);
    fixture
        .unit()
        .writes(["b", "\u{10000}", "a", "B", "\u{ffff}", "10", "9"].map(|name| put(CollectionId::from(0), name, None, fixture.content(&[]))))
        .commit_ok(&*fixture.store);
    let mut keys = ["10", "9", "B", "a", "b", "\u{ffff}", "\u{10000}"];
    assert_eq!(fixture.keys(fixture.plan(vec![])), keys);
    keys.reverse();
    assert_eq!(fixture.keys(fixture.sorted(fixture.plan(vec![]), &[("key", true)])), keys);
}

/// An index may contain only the beginnings of texts.
pub fn long_texts_with_equal_beginnings_are_distinguished(location: &StoreLocation) {
    let long = |length: usize, end: &str| "\u{e4}".repeat(length) + end;
    let mut values = [long(0, "z"), long(599, ""), long(599, "b"), long(600, ""), long(600, "a"), long(600, "b"), long(601, ""), long(700, "a")];
    values.sort_unstable();
    for field in ["ordered", "both", "folded", "s_text_i"] {
        let fixture = with_texts(location, field, &values.each_ref().map(String::as_str));
        let found = |test: Comparison| -> Vec<String> {
            let plan = fixture.columns(fixture.sorted(fixture.plan(vec![(field, test)]), &[(field, false)]), &[field]);
            fixture.rows(&plan).iter().map(|row| row[0].as_text().expect("a text").to_owned()).collect()
        };
        for (number, value) in values.iter().enumerate() {
            let bound = |included: bool| Some((text(value), included));
            assert_eq!(found(Comparison::Equal(text(value))), [value.as_str()], "{field}");
            assert_eq!(found(Comparison::In(vec![text(value), text("z")])).len(), if value == "z" { 1 } else { 2 }, "{field}");
            assert_eq!(found(Comparison::Range { low: bound(true), high: None }), values[number..], "{field}");
            assert_eq!(found(Comparison::Range { low: bound(false), high: None }), values[number + 1..], "{field}");
            assert_eq!(found(Comparison::Range { low: None, high: bound(true) }), values[..=number], "{field}");
            assert_eq!(found(Comparison::Range { low: None, high: bound(false) }), values[..number], "{field}");
            let beginning: Vec<&String> = values.iter().filter(|other| other.starts_with(value.as_str())).collect();
            assert_eq!(found(Comparison::Prefix(value.as_str().into())).iter().collect::<Vec<_>>(), beginning, "{field}");
            // any of the records with the next value, whichever is found first
            let next = fixture.plan(vec![(field, Comparison::Range { low: bound(false), high: None })]);
            let next = QueryPlan { limit: Some(1), any_order: true, ..fixture.columns(fixture.sorted(next, &[(field, false)]), &[field]) };
            assert_eq!(fixture.rows(&next), values.get(number + 1).map(|next| vec![text(next)]).into_iter().collect::<Vec<_>>(), "{field}");
        }
        fixture
            .unit()
            .writes((0..values.len()).map(|number| delete(CollectionId::from(0), &number.to_string(), fixture.version(&number.to_string()))))
            .commit_ok(&*fixture.store);
    }
}

pub fn folded_fields_are_compared_and_sorted_folded_and_shown_as_they_are(location: &StoreLocation) {
    for field in ["folded", "folded_plain"] {
        let fixture = with_texts(location, field, &["b", "A", " a  x ", "B", "\u{c4}", "\u{ff21}"]);
        assert_eq!(fixture.keys_where(field, equal(text("B"))), ["0", "3"]);
        assert_eq!(fixture.keys_where(field, equal(text("a"))), ["1", "5"], "compatible forms are the same");
        assert_eq!(fixture.keys_where(field, equal(text("A X"))), ["2"]);
        assert_eq!(fixture.keys_where(field, equal(text("a\u{308}"))), ["4"]);
        assert_eq!(fixture.keys_where(field, Comparison::In(vec![text("X"), text("\u{e4}")])), ["4"]);
        assert_eq!(fixture.keys_where(field, Comparison::NotEqual(text("a"))), ["0", "2", "3", "4"]);
        assert_eq!(fixture.keys_where(field, between(Some((text("A"), false)), Some((text("B"), true)))), ["0", "2", "3"]);
        assert_eq!(fixture.keys_where(field, Comparison::Prefix("A".into())), ["1", "2", "5"]);
        let plan = fixture.columns(fixture.sorted(fixture.plan(vec![]), &[(field, false)]), &[field]);
        assert_eq!(fixture.rows(&plan), ["A", "\u{ff21}", " a  x ", "b", "B", "\u{c4}"].map(|value| vec![text(value)]));
        fixture
            .unit()
            .writes((0..6).map(|number| delete(CollectionId::from(0), &number.to_string(), fixture.version(&number.to_string()))))
            .commit_ok(&*fixture.store);
    }
}

pub fn a_wildcard_on_a_folded_field_is_folded_like_the_field(location: &StoreLocation) {
    for field in ["folded", "folded_plain", "folded_searched"] {
        let fixture = with_texts(location, field, &["M\u{e4}rchen  und Sagen", "Maerchen", "\u{fb01}nale"]);
        for pattern in ["M\u{c4}RCHEN*", "ma\u{308}rchen*", "*A\u{308}RCHEN UND*", "*und  sagen", " m\u{e4}rchen*", "*SAGEN ", "*\u{ff35}ND*"] {
            assert_eq!(fixture.keys_where(field, wildcard(pattern)), ["0"], "{field} {pattern:?}");
        }
        assert_eq!(fixture.keys_where(field, wildcard("FINA*")), ["2"], "{field}");
        assert_eq!(fixture.keys_where(field, wildcard("*\u{fb01}nal*")), ["2"], "{field}");
        assert_eq!(fixture.keys_where(field, wildcard("*chen u*")), ["0"], "{field}");
        assert_eq!(fixture.keys_where(field, wildcard("*chen *")), ["0"], "{field}: a blank between two pieces is a blank");
        fixture
            .unit()
            .writes((0..3).map(|number| delete(CollectionId::from(0), &number.to_string(), fixture.version(&number.to_string()))))
            .commit_ok(&*fixture.store);
    }
}

pub fn wildcard_characters_of_other_languages_are_plain_text(location: &StoreLocation) {
    for field in ["plain", "ordered", "searched", "both", "folded"] {
        let fixture = with_texts(location, field, &["a%c", "abc", "a_c", "a?c", "a[b]c", "a*c", "a\\c", "a\"c\"", "a'c"]);
        for (pieces, expected) in [
            (vec!["a%", ""], "0"),
            (vec!["a_", ""], "2"),
            (vec!["", "a?c", ""], "3"),
            (vec!["", "a[b]c", ""], "4"),
            (vec!["a*c"], "5"),
            (vec!["", "a*c", ""], "5"),
            (vec!["a\\", ""], "6"),
            (vec!["", "a\"c\"", ""], "7"),
            (vec!["", "a'c", ""], "8"),
        ] {
            let test = Comparison::Wildcard(pieces.iter().map(|piece| (*piece).to_owned()).collect());
            assert_eq!(fixture.keys_where(field, test), [expected], "{field} {pieces:?}");
        }
        assert_eq!(fixture.keys_where(field, Comparison::Prefix("a%".into())), ["0"]);
        fixture
            .unit()
            .writes((0..9).map(|number| delete(CollectionId::from(0), &number.to_string(), fixture.version(&number.to_string()))))
            .commit_ok(&*fixture.store);
    }
}

pub fn a_prefix_may_end_in_any_character(location: &StoreLocation) {
    let ends = ["a", "\u{7f}", "\u{7ff}", "\u{d7ff}", "\u{e000}", "\u{ffff}", "\u{10ffff}", "\u{10ffff}\u{10ffff}"];
    let values: Vec<String> = ends.iter().flat_map(|end| [format!("x{end}"), format!("x{end}b")]).chain(["x".into(), "y".into()]).collect();
    for field in ["plain", "ordered"] {
        let fixture = with_texts(location, field, &values.iter().map(String::as_str).collect::<Vec<_>>());
        for end in ends {
            let prefix = format!("x{end}");
            let mut expected: Vec<String> =
                (0..values.len()).filter(|number| values[*number].starts_with(&prefix)).map(|number| number.to_string()).collect();
            expected.sort();
            assert_eq!(fixture.keys_where(field, Comparison::Prefix(prefix)), expected, "{field} {end:?}");
        }
        assert_eq!(fixture.keys_where(field, Comparison::Prefix(String::new())).len(), values.len());
        fixture
            .unit()
            .writes((0..values.len()).map(|number| delete(CollectionId::from(0), &number.to_string(), fixture.version(&number.to_string()))))
            .commit_ok(&*fixture.store);
    }
}

pub fn a_prefix_with_a_blank_at_its_end_means_the_next_word(location: &StoreLocation) {
    let fixture = with_texts(location, "folded", &["Sea", "sea horse", "SEASIDE"]);
    assert_eq!(fixture.keys_where("folded", Comparison::Prefix("SEA".into())), ["0", "1", "2"]);
    assert_eq!(fixture.keys_where("folded", Comparison::Prefix("sea ".into())), ["1"]);
    assert_eq!(fixture.keys_where("folded", Comparison::Prefix(" sea  h".into())), ["1"]);
}

pub fn a_record_without_a_value_satisfies_only_negations(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    fixture.put("empty", &[]);
    for naive_column in naive_columns(&fixture.catalogue).iter().filter(|naive_column| naive_column.column != PlanColumn::Key) {
        for test in tests_of(naive_column) {
            let negation = matches!(test, Comparison::Exists(false) | Comparison::NotEqual(_) | Comparison::NotWildcard(_));
            let plan = QueryPlan { conditions: vec![Condition { column: naive_column.column, test: test.clone() }], ..fixture.plan(vec![]) };
            assert_eq!(fixture.keys(plan).len(), usize::from(negation), "{} {test:?}", naive_column.name);
        }
    }
}

pub fn a_list_satisfies_a_condition_when_an_element_does(location: &StoreLocation) {
    for field in ["words", "words_i", "s_words"] {
        let fixture = with_values(location, field, &[texts(&["a", "b"]), texts(&["b", "c"]), texts(&["c"]), texts(&["ab"])]);
        assert_eq!(fixture.keys_where(field, equal(text("b"))), ["0", "1"]);
        assert_eq!(fixture.keys_where(field, Comparison::NotEqual(text("b"))), ["2", "3"], "no element is");
        assert_eq!(fixture.keys_where(field, Comparison::In(vec![text("a"), text("c")])), ["0", "1", "2"]);
        assert_eq!(fixture.keys_where(field, Comparison::Prefix("a".into())), ["0", "3"]);
        assert_eq!(fixture.keys_where(field, wildcard("*b")), ["0", "1", "3"]);
        assert_eq!(fixture.keys_where(field, Comparison::NotWildcard(vec!["".into(), "b".into()])), ["2"]);
        // one element must be inside both bounds
        assert_eq!(fixture.keys_where(field, between(Some((text("aa"), true)), Some((text("b"), false)))), ["3"]);
        let both = fixture.plan(vec![(field, equal(text("b"))), (field, equal(text("c")))]);
        assert_eq!(fixture.keys(both), ["1"], "two conditions may be satisfied by two elements");
        fixture
            .unit()
            .writes((0..4).map(|number| delete(CollectionId::from(0), &number.to_string(), fixture.version(&number.to_string()))))
            .commit_ok(&*fixture.store);
    }
}

pub fn an_empty_list_is_a_value_without_elements(location: &StoreLocation) {
    for field in ["words", "words_i", "words_f"] {
        let fixture = with_values(location, field, &[Value::List(Vec::new()), Value::Null, texts(&["a"])]);
        assert_eq!(fixture.keys_where(field, Comparison::Exists(true)), ["0", "2"]);
        assert_eq!(fixture.keys_where(field, Comparison::Exists(false)), ["1"]);
        assert_eq!(fixture.keys_where(field, equal(text("a"))), ["2"]);
        assert_eq!(fixture.keys_where(field, Comparison::NotEqual(text("a"))), ["0", "1"]);
        fixture
            .unit()
            .writes((0..3).map(|number| delete(CollectionId::from(0), &number.to_string(), fixture.version(&number.to_string()))))
            .commit_ok(&*fixture.store);
    }
}

pub fn elements_of_a_folded_list_are_compared_folded(location: &StoreLocation) {
    let fixture = with_values(location, "words_f", &[texts(&["Red", "\u{c4}"]), texts(&["red  "]), texts(&["redder"])]);
    assert_eq!(fixture.keys_where("words_f", equal(text("RED"))), ["0", "1"]);
    assert_eq!(fixture.keys_where("words_f", Comparison::NotEqual(text("RED"))), ["2"]);
    assert_eq!(fixture.keys_where("words_f", Comparison::In(vec![text("a\u{308}"), text("Redder")])), ["0", "2"]);
    assert_eq!(fixture.keys_where("words_f", Comparison::Prefix("REDD".into())), ["2"]);
    assert_eq!(fixture.keys_where("words_f", wildcard("*D")), ["0", "1"]);
    assert_eq!(fixture.keys_where("words_f", between(Some((text("REDA"), true)), Some((text("S"), true)))), ["2"]);
    assert_eq!(fixture.value("0", "words_f"), texts(&["Red", "\u{c4}"]), "and shown as they are");
}

pub fn a_condition_on_key_revision_or_conflict_finds_its_records(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    let disputed = |conflicts: Vec<usize>| RecordContent { conflicts: conflicts.into_iter().map(FieldId::from).collect(), ..fixture.content(&[]) };
    let commit_times = [("a", vec![]), ("ab", vec![0]), ("b", vec![0, 1]), ("B", vec![1])].map(|(name, conflicts)| {
        fixture.unit().write(put(CollectionId::from(0), name, None, disputed(conflicts))).commit_ok(&*fixture.store).committed_at
    });
    assert_eq!(fixture.keys_where("key", equal(text("b"))), ["b"]);
    assert_eq!(fixture.keys_where("key", Comparison::In(vec![text("b"), text("B"), text("x")])), ["B", "b"]);
    assert_eq!(fixture.keys_where("key", Comparison::Prefix("a".into())), ["a", "ab"]);
    assert_eq!(fixture.keys_where("key", wildcard("*b")), ["ab", "b"]);
    assert_eq!(fixture.keys_where("key", between(Some((text("a"), false)), Some((text("b"), true)))), ["ab", "b"]);
    assert_eq!(fixture.keys_where("key", Comparison::NotEqual(text("a"))), ["B", "ab", "b"]);
    assert_eq!(fixture.keys_where("key", Comparison::Exists(true)).len(), 4);
    assert_eq!(fixture.keys_where("revision", equal(Value::Int(commit_times[2]))), ["b"]);
    assert_eq!(fixture.keys_where("revision", between(Some((Value::Int(commit_times[1]), false)), None)), ["B", "b"]);
    assert_eq!(fixture.keys(fixture.sorted(fixture.plan(vec![]), &[("revision", true)])), ["B", "b", "ab", "a"]);
    assert_eq!(fixture.keys_where("conflict", equal(text("name"))), ["ab", "b"]);
    assert_eq!(fixture.keys_where("conflict", Comparison::Exists(true)), ["B", "ab", "b"]);
    assert_eq!(fixture.keys_where("conflict", Comparison::Exists(false)), ["a"]);
    let shown = fixture.columns(fixture.plan(vec![("key", equal(text("b")))]), &["revision", "conflict"]);
    assert_eq!(fixture.rows(&shown), [[Value::Int(commit_times[2]), texts(&["name", "plain"])]]);
}

pub fn a_condition_on_a_state_field_finds_its_records(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    fixture.put("a", &[("s_text_i", text("out")), ("s_number_i", Value::Int(1)), ("s_words", texts(&["x"]))]);
    fixture.put("b", &[("s_text_i", text("in")), ("s_number_i", Value::Int(2))]);
    assert_eq!(fixture.keys_where("s_text_i", equal(text("out"))), ["a"]);
    assert_eq!(fixture.keys_where("s_number_i", between(Some((Value::Int(1), false)), None)), ["b"]);
    assert_eq!(fixture.keys_where("s_words", equal(text("x"))), ["a"]);
    assert_eq!(fixture.keys(fixture.sorted(fixture.plan(vec![]), &[("s_text_i", false)])), ["b", "a"]);
    fixture.put("a", &[("s_text_i", text("in"))]);
    assert_eq!(fixture.keys_where("s_text_i", equal(text("in"))), ["a", "b"]);
    assert_eq!(fixture.keys_where("s_number_i", Comparison::Exists(false)), ["a"]);
}

pub fn a_condition_on_no_values_finds_nothing(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    fixture.put("a", &[("ordered", text("x")), ("words", texts(&["x"])), ("words_i", texts(&["x"])), ("words_f", texts(&["x"]))]);
    for name in ["key", "ordered", "plain", "words", "words_i", "words_f", "s_text"] {
        assert_eq!(fixture.keys_where(name, Comparison::In(Vec::new())), Vec::<String>::new(), "{name}");
    }
}

pub fn a_condition_may_list_thousands_of_values(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    fixture.put(
        "5",
        &[
            ("number", Value::Int(5)),
            ("number_i", Value::Int(5)),
            ("numbers", Value::List(vec![Value::Int(5)])),
            ("numbers_i", Value::List(vec![Value::Int(5)])),
        ],
    );
    fixture.put("-5", &[("number", Value::Int(-5)), ("number_i", Value::Int(-5)), ("words_f", texts(&["a", "5"]))]);
    let numbers: Vec<Value> = (0..40_000).map(Value::Int).collect();
    let words: Vec<Value> = (0..40_000).map(|number: i64| text(&number.to_string())).collect();
    for name in ["number", "number_i", "numbers", "numbers_i"] {
        assert_eq!(fixture.keys_where(name, Comparison::In(numbers.clone())), ["5"], "{name}");
    }
    assert_eq!(fixture.keys_where("key", Comparison::In(words.clone())), ["5"]);
    assert_eq!(fixture.keys_where("words_f", Comparison::In(words)), ["-5"]);
}

pub fn several_sort_columns_decide_in_turn_and_the_key_last(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    for (name, ordered, number) in [("f", "x", 1), ("e", "x", 2), ("d", "y", 1), ("c", "y", 1), ("b", "x", 1)] {
        fixture.put(name, &[("ordered", text(ordered)), ("number", Value::Int(number))]);
    }
    fixture.put("a", &[]);
    let keys = |sort: &[(&str, bool)]| fixture.keys(fixture.sorted(fixture.plan(vec![]), sort)).concat();
    assert_eq!(keys(&[]), "abcdef");
    assert_eq!(keys(&[("key", true)]), "fedcba");
    assert_eq!(keys(&[("ordered", false)]), "abefcd", "no value comes first, ties are broken by key");
    assert_eq!(keys(&[("ordered", true)]), "cdbefa");
    assert_eq!(keys(&[("ordered", false), ("number", true)]), "aebfcd");
    assert_eq!(keys(&[("number", false), ("ordered", true)]), "acdbfe");
    assert_eq!(keys(&[("number", true), ("ordered", true), ("key", true)]), "edcfba");
}

pub fn pages_together_are_the_complete_result(location: &StoreLocation) {
    let (fixture, _) = library(location);
    for sort in [vec![], vec![("ordered", true)], vec![("number", false), ("folded", true)], vec![("s_text", false)]] {
        let plan = fixture.columns(fixture.sorted(fixture.plan(vec![("flag", Comparison::Exists(true))]), &sort), &["key", "ordered"]);
        let whole = fixture.rows(&plan);
        assert!(whole.len() > 50);
        for size in [1, 7, 50, 1_000] {
            let mut together = Vec::new();
            while together.len() < whole.len() {
                let page = fixture.rows(&QueryPlan { offset: together.len() as u64, limit: Some(size), ..plan.clone() });
                assert_eq!(page.len(), (size as usize).min(whole.len() - together.len()));
                together.extend(page);
            }
            assert_eq!(together, whole);
        }
        let rest = fixture.rows(&QueryPlan { offset: 10, ..plan.clone() });
        assert_eq!(rest, whole[10..]);
    }
}

pub fn rows_may_have_no_columns(location: &StoreLocation) {
    let fixture = with_texts(location, "plain", &["a", "b", "c"]);
    let none = QueryPlan { columns: Vec::new(), ..fixture.plan(vec![]) };
    assert_eq!(fixture.rows(&none), vec![Vec::<Value>::new(); 3]);
    assert_eq!(fixture.rows(&QueryPlan { any_order: true, limit: Some(2), ..none.clone() }), vec![Vec::<Value>::new(); 2]);
    assert_eq!(fixture.rows(&QueryPlan { distinct: true, ..none }), vec![Vec::<Value>::new()]);
}

pub fn a_page_after_the_end_is_empty(location: &StoreLocation) {
    let fixture = with_texts(location, "plain", &["a", "b"]);
    for (offset, limit) in [(2, None), (2, Some(5)), (0, Some(0)), (u64::MAX, Some(u64::MAX))] {
        let plan = QueryPlan { offset, limit, ..fixture.plan(vec![]) };
        assert_eq!(fixture.keys(plan.clone()), Vec::<String>::new());
        assert_eq!(fixture.store.count(&plan).expect("counting works"), 2, "counting leaves the page aside");
    }
    assert_eq!(fixture.keys(QueryPlan { offset: 1, limit: Some(u64::MAX), ..fixture.plan(vec![]) }), ["1"]);
}

/// So many records that a page of them may be searched among the first ones instead of sorting all.
pub fn pages_of_a_condition_of_very_many_records_are_in_the_order_of_keys(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    // half of them satisfy it, those of the second half of the keys more often
    let many = |number: i64| if number % 2 == 1 || number > 20_000 { "many" } else { "few" };
    let name = |number: i64| format!("k{:05}", number * 7_919 % 30_000);
    let values = |number: i64| fixture.content(&[("plain", text(if number % 2_500 == 0 { "one" } else { "all" })), ("ordered", text(many(number)))]);
    for start in (0..30_000).step_by(5_000) {
        let mut writes: Vec<RecordWrite> =
            (start..start + 5_000).map(|number| put(CollectionId::from(0), &name(number), None, values(number))).collect();
        writes.sort_by(|a, b| a.key.cmp(&b.key));
        fixture.unit().writes(writes).commit_ok(&*fixture.store);
    }
    let beginning = Comparison::Prefix("ma".into());
    let after = Comparison::Range { low: Some((text("k15000"), false)), high: None };
    let rare = Comparison::Equal(text("one"));
    for conditions in [
        vec![("ordered", beginning.clone())],
        vec![("ordered", Comparison::Equal(text("many"))), ("key", after.clone())],
        vec![("ordered", beginning.clone()), ("plain", rare.clone())],
        vec![("ordered", beginning.clone()), ("key", Comparison::Range { low: None, high: Some((text("k00010"), true)) })],
    ] {
        let plan = fixture.plan(conditions);
        let all = fixture.keys(plan.clone());
        assert!(all.is_sorted() && !all.is_empty());
        for (offset, limit) in [(0, 1), (0, 50), (3, 50), (900, 100), (990, 1_000), (all.len() as u64 - 1, 10), (40_000, 10)] {
            let from = (offset as usize).min(all.len());
            let expected = &all[from..(from + limit as usize).min(all.len())];
            assert_eq!(fixture.keys(QueryPlan { offset, limit: Some(limit), ..plan.clone() }), expected, "{offset} {limit}");
        }
    }
}

pub fn distinct_rows_are_counted_and_paged_as_rows(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    for (name, plain, number) in [("a", Some("x"), 1), ("b", Some("x"), 1), ("c", Some("x"), 2), ("d", None, 1), ("e", None, 1)] {
        fixture.put(name, &[("plain", plain.map_or(Value::Null, text)), ("number", Value::Int(number))]);
    }
    let plan = QueryPlan { distinct: true, ..fixture.columns(fixture.plan(vec![]), &["plain", "number"]) };
    let rows = vec![vec![Value::Null, Value::Int(1)], vec![text("x"), Value::Int(1)], vec![text("x"), Value::Int(2)]];
    assert_eq!(fixture.rows(&plan), rows, "without a sort, by the columns");
    assert_eq!(fixture.store.count(&plan).expect("counting works"), 3);
    assert_eq!(fixture.rows(&QueryPlan { offset: 1, limit: Some(1), ..plan.clone() }), rows[1..2]);
    let sorted = fixture.sorted(plan, &[("number", true)]);
    assert_eq!(fixture.rows(&sorted), [rows[2].clone(), rows[0].clone(), rows[1].clone()]);
}

fn aggregates(fixture: &Fixture, plan: &QueryPlan, name: &str) -> Vec<Value> {
    let column = fixture.column(name);
    let all: Vec<Aggregate> = FUNCTIONS.iter().map(|(function, _)| Aggregate { function: *function, column }).collect();
    fixture.store.aggregate(plan, &all).unwrap_or_else(|error| panic!("{error}: {plan:?}"))
}

fn aggregate(fixture: &Fixture, plan: &QueryPlan, function: AggregateFunction, name: &str) -> Value {
    fixture
        .store
        .aggregate(plan, &[Aggregate { function, column: fixture.column(name) }])
        .unwrap_or_else(|error| panic!("{error}: {plan:?}"))
        .remove(0)
}

pub fn every_aggregate_of_numbers_is_exact(location: &StoreLocation) {
    // sum, count, min, max, avg, median
    let fixture = with_values(location, "number", &[4, 1, 4, -3].map(Value::Int));
    fixture.put("nothing", &[]);
    let all = fixture.plan(vec![]);
    let int = Value::Int;
    assert_eq!(aggregates(&fixture, &all, "number"), [int(6), int(4), int(-3), int(4), Value::Float(1.5), Value::Float(2.5)]);
    fixture.put("nothing", &[("number", int(1))]);
    assert_eq!(aggregates(&fixture, &all, "number"), [int(7), int(5), int(-3), int(4), Value::Float(1.4), int(1)]);
    let some = fixture.plan(vec![("number", between(Some((int(1), false)), None))]);
    assert_eq!(
        aggregates(&fixture, &some, "number"),
        [int(8), int(2), int(4), int(4), Value::Float(4.0), int(4)],
        "two equal middle values are the median"
    );
    for (number, value) in [0.5, 2.0, 1.0].into_iter().enumerate() {
        fixture.put(&number.to_string(), &[("ratio", Value::Float(value))]);
    }
    let float = Value::Float;
    assert_eq!(aggregates(&fixture, &all, "ratio"), [float(3.5), int(3), float(0.5), float(2.0), float(3.5 / 3.0), float(1.0)]);
    fixture.put("3", &[("ratio", float(4.0))]);
    assert_eq!(aggregate(&fixture, &all, AggregateFunction::Median, "ratio"), float(1.5));
}

pub fn aggregates_of_text_times_and_uuids_keep_their_type(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    for (name, letter, number, flag) in [("1", "b", 20, true), ("2", "B", -10, false), ("3", "\u{e4}", 0, true)] {
        let values = [
            ("plain", text(letter)),
            ("moment_i", Value::Int(number)),
            ("day", Value::Int(number)),
            ("id", Value::Uuid(number as u128)),
            ("flag", Value::Bool(flag)),
        ];
        fixture.put(name, &values);
    }
    let all = fixture.plan(vec![]);
    let ends = |name: &str| [AggregateFunction::Min, AggregateFunction::Max].map(|function| aggregate(&fixture, &all, function, name));
    assert_eq!(ends("plain"), [text("B"), text("\u{e4}")]);
    assert_eq!(ends("moment_i"), [Value::Int(-10), Value::Int(20)]);
    assert_eq!(ends("day"), [Value::Int(-10), Value::Int(20)]);
    assert_eq!(ends("id"), [Value::Uuid(0), Value::Uuid(-10_i64 as u128)]);
    assert_eq!(ends("flag"), [Value::Bool(false), Value::Bool(true)]);
    assert_eq!(ends("key"), [text("1"), text("3")]);
    assert_eq!(aggregate(&fixture, &all, AggregateFunction::Median, "moment_i"), Value::Int(0));
    assert_eq!(aggregate(&fixture, &all, AggregateFunction::Count, "flag"), Value::Int(3));
}

pub fn aggregates_of_lists_count_elements(location: &StoreLocation) {
    let list = |numbers: &[i64]| Value::List(numbers.iter().map(|number| Value::Int(*number)).collect());
    for field in ["numbers", "numbers_i"] {
        let fixture = with_values(location, field, &[list(&[1, 2]), list(&[]), list(&[2, 2, 10]), Value::Null]);
        let int = Value::Int;
        assert_eq!(aggregates(&fixture, &fixture.plan(vec![]), field), [int(17), int(5), int(1), int(10), Value::Float(3.4), int(2)]);
        fixture
            .unit()
            .writes((0..4).map(|number| delete(CollectionId::from(0), &number.to_string(), fixture.version(&number.to_string()))))
            .commit_ok(&*fixture.store);
    }
    let fixture = Fixture::open(location, LIBRARY);
    let ids = Value::List([7, u128::MAX, 3].map(Value::Uuid).to_vec());
    fixture.put(
        "a",
        &[
            ("ids_i", ids),
            ("words", texts(&["b", "a"])),
            ("flags", Value::List(vec![Value::Bool(true)])),
            ("ratios", Value::List(vec![Value::Float(0.5)])),
        ],
    );
    let all = fixture.plan(vec![]);
    assert_eq!(aggregate(&fixture, &all, AggregateFunction::Min, "ids_i"), Value::Uuid(3));
    assert_eq!(aggregate(&fixture, &all, AggregateFunction::Max, "ids_i"), Value::Uuid(u128::MAX));
    assert_eq!(aggregate(&fixture, &all, AggregateFunction::Min, "words"), text("a"));
    assert_eq!(aggregate(&fixture, &all, AggregateFunction::Max, "flags"), Value::Bool(true));
    assert_eq!(aggregate(&fixture, &all, AggregateFunction::Sum, "ratios"), Value::Float(0.5));
}

pub fn aggregates_of_lists_obey_conditions_on_key_and_lists(location: &StoreLocation) {
    let list = |numbers: &[i64]| Value::List(numbers.iter().map(|number| Value::Int(*number)).collect());
    let fixture = with_values(location, "numbers_i", &[list(&[1, 2]), list(&[2, 3]), list(&[4])]);
    for (name, test, sum) in [
        ("key", equal(text("1")), 5),
        ("key", Comparison::Prefix("0".into()), 3),
        ("key", Comparison::NotEqual(text("0")), 9),
        ("numbers_i", equal(Value::Int(2)), 8),
        ("numbers_i", Comparison::NotEqual(Value::Int(2)), 4),
        ("numbers_i", between(Some((Value::Int(3), true)), None), 9),
        ("words_f", Comparison::NotEqual(text("x")), 12),
        ("revision", Comparison::Exists(true), 12),
        ("conflict", Comparison::Exists(false), 12),
        ("searched", Comparison::NotWildcard(vec!["abc".into()]), 12),
    ] {
        assert_eq!(
            aggregate(&fixture, &fixture.plan(vec![(name, test.clone())]), AggregateFunction::Sum, "numbers_i"),
            Value::Int(sum),
            "{name} {test:?}"
        );
    }
}

pub fn keys_of_all_sorts_are_found_in_their_order(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    let all = [
        "a",
        "a ",
        "a-",
        "a/",
        "a0",
        "a00",
        "a9",
        "a:",
        "aA",
        "a_",
        "a`",
        "aa",
        "ab",
        "af",
        "ag",
        "az",
        "a~",
        "a\u{7f}",
        "a\u{80}",
        "a\u{e9}",
        "a\u{fffd}",
        "a\u{10000}",
        "A",
        "Z_",
        "_",
        "0",
        "00",
        "9f86d081884c7d659a2feaa0c55ad015",
        "9f86d081884c7d659a2feaa0c55ad016",
        "9F86D081",
        "\u{1}",
        " ",
        "*",
        "-",
        "S1A_IW_RAW__0SDV_20260101T000000",
        "S1A_IW_RAW__0SDV_20260101T000001",
        "123e4567-e89b-12d3-a456-426614174000",
        "~",
        "\u{10ffff}",
    ];
    fixture.unit().writes(all.map(|name| put(CollectionId::from(0), name, None, fixture.content(&[])))).commit_ok(&*fixture.store);
    let mut sorted = all.map(str::to_owned).to_vec();
    sorted.sort();
    assert_eq!(fixture.keys(fixture.plan(vec![])), sorted);
    let backwards = sorted.iter().rev().cloned().collect::<Vec<String>>();
    assert_eq!(fixture.keys(fixture.sorted(fixture.plan(vec![]), &[("key", true)])), backwards);
    let keys_that = |wanted: &dyn Fn(&str) -> bool| sorted.iter().filter(|key| wanted(key)).cloned().collect::<Vec<String>>();
    let names = all.into_iter().chain(["", "b", "9f86", "S1A_", "a\u{ffff}", "zz"]);
    for name in names {
        let value = || text(name);
        let keys_with = |test: Comparison| fixture.keys_where("key", test);
        assert_eq!(keys_with(equal(value())), keys_that(&|key| key == name), "{name:?}");
        assert_eq!(keys_with(Comparison::NotEqual(value())), keys_that(&|key| key != name), "{name:?}");
        assert_eq!(keys_with(Comparison::In(vec![value(), text("a0")])), keys_that(&|key| key == name || key == "a0"), "{name:?}");
        assert_eq!(keys_with(between(Some((value(), false)), None)), keys_that(&|key| key > name), "{name:?}");
        assert_eq!(keys_with(between(Some((value(), true)), Some((text("a_"), false)))), keys_that(&|key| key >= name && key < "a_"), "{name:?}");
        assert_eq!(keys_with(between(None, Some((value(), true)))), keys_that(&|key| key <= name), "{name:?}");
        assert_eq!(keys_with(Comparison::Prefix(name.into())), keys_that(&|key| key.starts_with(name)), "{name:?}");
        if !name.contains('*') {
            assert_eq!(
                keys_with(wildcard(&format!("{name}*0"))),
                keys_that(&|key| key.starts_with(name) && key[name.len()..].ends_with('0')),
                "{name:?}"
            );
            assert_eq!(keys_with(wildcard(&format!("*{name}*"))), keys_that(&|key| key.contains(name)), "{name:?}");
        }
    }
    let many = (0..2_000).map(|number| text(&number.to_string())).chain([text("a~"), text("9F86D081")]).collect();
    assert_eq!(fixture.keys_where("key", Comparison::In(many)), ["0", "9F86D081", "a~"]);
    assert_eq!(fixture.keys_where("key", Comparison::In(Vec::new())), Vec::<String>::new());
}

pub fn aggregates_of_nothing_are_null_and_zero(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    fixture.put("a", &[]);
    for name in ["number", "ratio", "numbers", "numbers_i", "ratios"] {
        let nothing = Value::Null;
        let expected = [nothing.clone(), Value::Int(0), nothing.clone(), nothing.clone(), nothing.clone(), nothing];
        assert_eq!(aggregates(&fixture, &fixture.plan(vec![]), name), expected, "{name}");
    }
}

pub fn aggregates_look_at_all_rows_whatever_the_page(location: &StoreLocation) {
    let fixture = with_values(location, "number", &[1, 2, 3].map(Value::Int));
    let page = QueryPlan { offset: 1, limit: Some(1), ..fixture.sorted(fixture.plan(vec![]), &[("number_i", true)]) };
    assert_eq!(aggregate(&fixture, &page, AggregateFunction::Sum, "number"), Value::Int(6));
    assert_eq!(fixture.store.count(&page).expect("counting works"), 3);
}

pub fn a_sum_that_does_not_fit_is_an_error_in_words(location: &StoreLocation) {
    let fixture = with_values(location, "number", &[i64::MAX, 1].map(Value::Int));
    let sum = Aggregate { function: AggregateFunction::Sum, column: fixture.column("number") };
    let error = fixture.store.aggregate(&fixture.plan(vec![]), &[sum]).expect_err("it does not fit");
    assert!(matches!(&error, StoreError::Wrong(reason) if reason.contains("64 bits")), "{error}");
    fixture.put("1", &[("number", Value::Int(-1))]);
    assert_eq!(aggregate(&fixture, &fixture.plan(vec![]), AggregateFunction::Sum, "number"), Value::Int(i64::MAX - 1));
    let ends = [AggregateFunction::Min, AggregateFunction::Max].map(|function| aggregate(&fixture, &fixture.plan(vec![]), function, "number"));
    assert_eq!(ends, [Value::Int(-1), Value::Int(i64::MAX)]);
}

pub fn floats_in_lists_are_exact(location: &StoreLocation) {
    let mut dice = Dice(7);
    let mut bits = || (dice.below(1 << 31) as u64) << 33 ^ (dice.below(1 << 31) as u64) << 10 ^ dice.below(1 << 31) as u64;
    let floats: Vec<f64> = std::iter::from_fn(|| Some(f64::from_bits(bits()))).filter(|float| float.is_finite()).take(1_000).collect();
    let fixture = with_values(location, "ratios", &floats.iter().map(|float| Value::List(vec![Value::Float(*float)])).collect::<Vec<_>>());
    let lost: Vec<&f64> = floats.iter().filter(|float| fixture.keys_where("ratios", equal(Value::Float(**float))).is_empty()).collect();
    assert!(lost.is_empty(), "{} are not found, such as {:e}", lost.len(), lost[0]);
}

pub fn an_indexed_condition_does_not_scan(location: &StoreLocation) {
    let (fixture, _) = library(location);
    let is_full_scan = |conditions: Vec<(&str, Comparison)>| {
        let explanation = fixture.store.explain(&fixture.plan(conditions)).expect("explaining works");
        assert!(explanation.len() > 1);
        let is_full_scan = location.is_full_scan(&explanation);
        if is_full_scan {
            println!("{explanation:#?}");
        }
        is_full_scan
    };
    let int = |number| Value::Int(number);
    for (name, test) in [
        ("key", equal(text("a1"))),
        ("key", Comparison::In(vec![text("a1"), text("a2")])),
        ("key", Comparison::Prefix("a1".into())),
        ("key", between(Some((text("a"), true)), Some((text("b"), true)))),
        ("ordered", equal(text("a"))),
        ("ordered", Comparison::In(vec![text("a"), text("b")])),
        ("ordered", Comparison::Prefix("ab".into())),
        ("ordered", wildcard("ab*c")),
        ("ordered", between(Some((text("a"), true)), None)),
        ("ordered", between(None, Some((text("a"), false)))),
        ("searched", wildcard("*abc*")),
        ("searched", Comparison::Prefix("abc".into())),
        ("both", equal(text("abc"))),
        ("both", wildcard("*abc")),
        ("folded", equal(text("ABC"))),
        ("folded", Comparison::Prefix("AB".into())),
        ("folded", wildcard("*BCD*")),
        ("folded_searched", wildcard("*BCD*")),
        ("badge", equal(text("badge a1"))),
        ("number_i", equal(int(1))),
        ("number_i", Comparison::In(vec![int(1), int(2)])),
        ("number_i", between(Some((int(1), true)), Some((int(2), true)))),
        ("ratio_i", between(None, Some((Value::Float(0.5), true)))),
        ("flag_i", equal(Value::Bool(true))),
        ("moment_i", between(Some((int(0), true)), None)),
        ("id_i", equal(Value::Uuid(1))),
        ("place_i", intersects(PLACES[1])),
        ("words_i", equal(text("a"))),
        ("words_i", Comparison::In(vec![text("a"), text("b")])),
        ("words_f", equal(text("A"))),
        ("numbers_i", equal(int(1))),
        ("ids_i", Comparison::In(vec![Value::Uuid(1)])),
        ("s_text_i", equal(text("a"))),
        ("s_text_i", Comparison::Prefix("a".into())),
        ("s_number_i", between(Some((int(1), true)), None)),
    ] {
        assert!(!is_full_scan(vec![(name, test.clone())]), "{name} {test:?} scans");
        // together with a condition without an index, too, in either order
        let other = || ("plain", Comparison::NotEqual(text("a")));
        assert!(!is_full_scan(vec![other(), (name, test.clone())]), "{name} {test:?} scans beside another");
        assert!(!is_full_scan(vec![(name, test.clone()), other()]), "{name} {test:?} scans beside another");
    }
    // otherwise the test would show nothing
    for (name, test) in [
        ("plain", equal(text("a"))),
        ("place", intersects(PLACES[1])),
        ("ordered", Comparison::NotEqual(text("a"))),
        ("searched", wildcard("*ab*")),
        ("words", equal(text("a"))),
    ] {
        assert!(is_full_scan(vec![(name, test.clone())]), "{name} {test:?} cannot be answered without reading all");
    }
}

pub fn indexes_follow_every_change_of_a_record(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    let values = |word: &str, number: i64| {
        let values_by_field = [
            ("ordered", text(word)),
            ("searched", text(word)),
            ("folded", text(word)),
            ("badge", text(word)),
            ("number_i", Value::Int(number)),
            ("words_i", texts(&[word, "all"])),
            ("words_f", texts(&[word, "all"])),
            ("ids_i", Value::List(vec![Value::Uuid(number as u128)])),
            ("place_i", geometry(&format!("POINT({number} 5)"))),
            ("s_text_i", text(word)),
        ];
        values_by_field.to_vec()
    };
    let hits = |word: &str, number: i64| -> Vec<usize> {
        let conditions = [
            ("ordered", equal(text(word))),
            ("searched", wildcard(&format!("*{word}*"))),
            ("folded", wildcard(&format!("*{word}*"))),
            ("badge", equal(text(word))),
            ("number_i", equal(Value::Int(number))),
            ("words_i", equal(text(word))),
            ("words_f", equal(text(word))),
            ("ids_i", equal(Value::Uuid(number as u128))),
            ("place_i", intersects(&format!("LINESTRING({number} 0, {number} 9)"))),
            ("s_text_i", equal(text(word))),
        ];
        conditions.into_iter().map(|(name, test)| fixture.keys_where(name, test).len()).collect()
    };
    let (everywhere, nowhere) = (vec![1; 10], vec![0; 10]);
    fixture.put("x", &values("first", 1));
    assert_eq!(hits("first", 1), everywhere);
    fixture.put("x", &values("second", 2));
    assert_eq!((hits("first", 1), hits("second", 2)), (nowhere.clone(), everywhere.clone()));
    let dead = RecordContent { exists: false, ..fixture.content(&values("second", 2)) };
    fixture.unit().write(put(CollectionId::from(0), "x", fixture.version("x"), dead)).commit_ok(&*fixture.store);
    assert_eq!(hits("second", 2), nowhere);
    fixture.put("x", &values("third", 3));
    assert_eq!(hits("third", 3), everywhere);
    fixture.delete("x");
    assert_eq!(hits("third", 3), nowhere);
    // another record with the key of the deleted one inherits nothing
    fixture.put("y", &values("fourth", 4));
    assert_eq!((hits("third", 3), hits("fourth", 4)), (nowhere, everywhere));
}

pub fn visiting_sees_one_snapshot_and_stops_at_an_error(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    let name = |number: usize| format!("{number:04}");
    fixture
        .unit()
        .writes((0..500).map(|number| put(CollectionId::from(0), &name(number), None, fixture.content(&[("plain", text("old"))]))))
        .commit_ok(&*fixture.store);
    let plan = fixture.columns(fixture.plan(vec![]), &["key", "plain"]);
    let mut visited = Vec::new();
    let whole = fixture.store.visit(&plan, &mut |row| {
        if visited.is_empty() {
            fixture.put(&name(400), &[("plain", text("new"))]);
            fixture.delete(&name(450));
            fixture.put(&name(999), &[]);
        }
        visited.push(row);
        Ok(())
    });
    whole.expect("visiting works");
    assert_eq!(visited, (0..500).map(|number| vec![text(&name(number)), text("old")]).collect::<Vec<_>>());
    assert_eq!(fixture.store.count(&plan).expect("counting works"), 500);

    let mut seen = 0;
    let stopped = fixture.store.visit(&plan, &mut |_| {
        seen += 1;
        if seen == 3 { Err(StoreError::Wrong("enough".into())) } else { Ok(()) }
    });
    assert_eq!(stopped.expect_err("it was stopped").to_string(), "enough");
    assert_eq!(seen, 3);
    assert_eq!(fixture.rows(&plan).len(), 500, "and another question is answered");
}

pub fn a_page_and_the_number_of_rows_are_of_one_snapshot(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    let name = |number: usize| format!("{number:04}");
    fixture
        .unit()
        .writes((0..100).map(|number| put(CollectionId::from(0), &name(number), None, fixture.content(&[("plain", text("there"))]))))
        .commit_ok(&*fixture.store);
    let plan = QueryPlan { offset: 10, ..fixture.plan(vec![("plain", equal(text("there")))]) };
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // one more and one less, again and again
            while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
                fixture.put(&name(200), &[("plain", text("there"))]);
                fixture.delete(&name(200));
            }
        });
        for _ in 0..300 {
            let (found, total) = fixture.store.find_and_count(&plan).expect("it answers");
            let is_consistent = found.rows.len() as u64 + 10 == total;
            if !is_consistent {
                is_done.store(true, std::sync::atomic::Ordering::SeqCst);
            }
            assert!(is_consistent, "{} rows behind 10, of {total}", found.rows.len());
        }
        is_done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    let page = QueryPlan { limit: Some(3), ..plan };
    let (found, total) = fixture.store.find_and_count(&page).expect("it answers");
    assert_eq!((found.rows.len(), total), (3, 100), "the page aside");
    let nobody = QueryPlan { tenant: tenant("nobody"), ..page };
    assert_eq!(fixture.store.find_and_count(&nobody).expect("it answers"), (ResultRows::default(), 0));
}

pub fn a_cancelled_query_is_given_up_and_others_are_answered(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    let words: Vec<String> = (0..200).map(|number| format!("w{number}")).collect();
    let words = texts(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let records = (0..3_000).map(|number| put(CollectionId::from(0), &format!("{number:04}"), None, fixture.content(&[("words", words.clone())])));
    fixture.unit().writes(records).commit_ok(&*fixture.store);
    // each is compared with each word of each record
    let slow = fixture.plan((0..180).map(|number| ("words", Comparison::NotEqual(text(&format!("x{number}"))))).collect());
    let sorted = fixture.sorted(slow.clone(), &[("plain", true)]);
    let median = Aggregate { function: AggregateFunction::Median, column: fixture.column("number") };
    let grouping = Grouping { by: vec![GroupColumn { column: fixture.column("words"), period: None }], sort: Vec::new() };
    let queries: [&(dyn Fn() -> Result<()> + Sync); 5] = [
        &|| fixture.store.count(&slow).map(drop),
        &|| fixture.store.find(&sorted).map(drop),
        &|| fixture.store.find_and_count(&sorted).map(drop),
        &|| fixture.store.aggregate(&slow, &[median]).map(drop),
        &|| fixture.store.group(&slow, &[median], &grouping).map(drop),
    ];
    let run_and_cancel = |query: &(dyn Fn() -> Result<()> + Sync)| {
        let token = cancel::CancelToken::default();
        let ended = std::thread::scope(|scope| {
            let running = scope.spawn(|| token.during(query));
            let mut in_use = 0;
            while in_use == 0 && !running.is_finished() {
                in_use = fixture.store.stats().expect("it answers").connections_in_use;
                std::thread::yield_now();
            }
            token.cancel();
            running.join().expect("no panic")
        });
        assert!(matches!(token.during(query), Err(StoreError::Cancelled)), "nothing is begun either");
        ended
    };
    for query in queries {
        // on a busy machine the query may finish before it is cancelled
        let mut ended = (0..20).map(|_| run_and_cancel(query)).skip_while(Result::is_ok);
        let ended = ended.next();
        assert!(matches!(ended, Some(Err(StoreError::Cancelled))), "{ended:?}");
        assert_eq!(fixture.store.count(&fixture.plan(vec![])).expect("others are answered"), 3_000);
    }
    let token = cancel::CancelToken::default();
    assert_eq!(token.during(|| fixture.store.count(&fixture.plan(vec![]))).expect("it is wanted"), 3_000);
}

pub fn a_plan_of_another_catalogue_is_refused(location: &StoreLocation) {
    let fixture = Fixture::open(location, LIBRARY);
    fixture.put("a", &[]);
    let no_collection = QueryPlan { collection: CollectionId::from(9), ..fixture.plan(vec![]) };
    let no_column = |column| QueryPlan { columns: vec![column], ..fixture.plan(vec![]) };
    let no_condition = QueryPlan {
        conditions: vec![Condition { column: PlanColumn::Field(FieldId::from(999)), test: Comparison::Exists(true) }],
        ..fixture.plan(vec![])
    };
    let no_sort = QueryPlan { sort: vec![SortKey { column: PlanColumn::State(999), descending: false }], ..fixture.plan(vec![]) };
    for plan in [no_collection.clone(), no_column(PlanColumn::Field(FieldId::from(999))), no_column(PlanColumn::State(999)), no_condition, no_sort] {
        let found = fixture.store.find(&plan);
        assert!(matches!(found, Err(StoreError::Wrong(_))), "{found:?}");
        assert!(fixture.store.explain(&plan).is_err());
    }
    assert!(matches!(fixture.store.count(&no_collection), Err(StoreError::Wrong(_))));
    let sum = Aggregate { function: AggregateFunction::Sum, column: PlanColumn::Field(FieldId::from(999)) };
    assert!(matches!(fixture.store.aggregate(&fixture.plan(vec![]), &[sum]), Err(StoreError::Wrong(_))));
    assert!(matches!(fixture.store.read(&fixture.tenant, CollectionId::from(9), &[key("a")], ReadDetail::Head), Err(StoreError::Wrong(_))));
    assert!(matches!(fixture.store.find(&fixture.plan(vec![("plain", Comparison::Wildcard(Vec::new()))])), Err(StoreError::Wrong(_))));
}
