//! Searches for words: what is found, in which order, and how their index follows records. Results are compared with those of a reader that cuts every
//! text itself.

use super::support::*;
use std::sync::Arc;
use stook_catalogue::value::Value;
use stook_catalogue::words::{WordSearch, words_of};
use stook_store::plan::*;
use stook_store::*;

const LETTERS: &str = "
catalogue: letters
collections:
  letter:
    key: name
    fields:
      name: text
      title: { type: text, index: words }
      notes: { type: [text], index: [words, equal], fold: true }
      both: { type: text, fold: true, index: [words, contains, equal] }
      plain: text
      number: { type: integer, index: equal }
";

/// Words and what stands between them.
const PARTS: [&str; 18] =
    ["sea", "Sea", "SÉA", "se", "seas", "deep", "the", "The", "a", "海", "の", "l'amour", "amour", "don't", "ﬁn", "x-ray", "…", "'\"*%_\\"];

/// What is searched for; terms as lists of words, the last of which may end in a star.
const SEARCHES: [(&str, &[&[&str]]); 14] = [
    ("sea", &[&["sea"]]),
    ("SÉA*", &[&["sea*"]]),
    ("se*", &[&["se*"]]),
    ("the sea", &[&["the"], &["sea"]]),
    ("\"the sea\"", &[&["the", "sea"]]),
    ("\"the se\"*", &[&["the", "se*"]]),
    ("\"sea sea\" deep", &[&["sea", "sea"], &["deep"]]),
    ("海", &[&["海"]]),
    ("\"海 の\"", &[&["海", "の"]]),
    ("amour", &[&["amour"]]),
    ("don't a*", &[&["don", "t"], &["a*"]]),
    ("fin", &[&["fin"]]),
    ("x-ray deep*", &[&["x", "ray"], &["deep*"]]),
    ("nowhere", &[&["nowhere"]]),
];

fn search(text: &str) -> Comparison {
    Comparison::Words(Arc::new(WordSearch::parse(text).expect("a search")))
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn text(&mut self) -> Value {
        let parts: Vec<&str> = (0..self.below(7)).map(|_| PARTS[self.below(PARTS.len())]).collect();
        if parts.is_empty() { Value::Null } else { text(&parts.join([" ", ", ", "  "][self.below(3)])) }
    }

    fn values(&mut self) -> Vec<(&'static str, Value)> {
        let list = (0..self.below(4)).map(|_| self.text()).filter(|value| !value.is_null()).collect();
        let number = Value::Int(self.below(5) as i64);
        vec![("title", self.text()), ("notes", Value::List(list)), ("both", self.text()), ("plain", self.text()), ("number", number)]
    }
}

/// The words of each element.
fn words(value: &Value) -> Vec<Vec<String>> {
    let of_text = |text: &str| words_of(text).map(|word| word.folded).collect();
    value.elements().iter().filter_map(Value::as_text).map(of_text).collect()
}

/// How often a term occurs, without overlaps.
fn occurrences(term: &[&str], value: &Value) -> i64 {
    let is_at = |words: &[String], first: usize| {
        term.iter().enumerate().all(|(position, wanted)| match (words.get(first + position), wanted.strip_suffix('*')) {
            (Some(word), Some(beginning)) => word.starts_with(beginning),
            (Some(word), None) => word == wanted,
            (None, _) => false,
        })
    };
    let mut found = 0;
    for words in words(value) {
        let mut first = 0;
        while first < words.len() {
            let matched = is_at(&words, first);
            found += i64::from(matched);
            first += if matched { term.len() } else { 1 };
        }
    }
    found
}

fn holds(terms: &[&[&str]], value: &Value) -> bool {
    terms.iter().all(|term| occurrences(term, value) > 0)
}

fn rank(terms: &[&[&str]], value: &Value) -> i64 {
    let count: i64 = words(value).iter().map(|words| words.len() as i64).sum();
    terms.iter().map(|term| (10_000_000 * occurrences(term, value)) / (10 * occurrences(term, value) + 10 + count)).sum()
}

/// Records with their values.
type Letters = Vec<(String, Vec<(&'static str, Value)>)>;

fn letters(fixture: &Fixture, count: usize, seed: u64) -> Letters {
    let mut dice = Dice(seed);
    let letters: Letters = (0..count).map(|number| (format!("k{number:03}"), dice.values())).collect();
    for unit in letters.chunks(50) {
        let writes = unit.iter().map(|(name, values)| put(fixture.collection, name, None, fixture.content(values)));
        fixture.unit().writes(writes).commit_ok(&*fixture.store);
    }
    letters
}

fn value<'l>(values: &'l [(&str, Value)], name: &str) -> &'l Value {
    &values.iter().find(|(known, _)| *known == name).expect("a field").1
}

/// A plan for key and rank, the highest rank first.
fn ranked(plan: QueryPlan) -> QueryPlan {
    let sort = vec![SortKey { column: PlanColumn::Rank, descending: true }];
    QueryPlan { sort, columns: vec![PlanColumn::Key, PlanColumn::Rank], ..plan }
}

/// Rows of key and rank, in the order that is expected.
fn expected(letters: &Letters, found: impl Fn(&[(&str, Value)]) -> Option<i64>) -> Vec<Vec<Value>> {
    let mut rows: Vec<(i64, &str)> = letters.iter().filter_map(|(name, values)| Some((found(values)?, name.as_str()))).collect();
    rows.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    rows.into_iter().map(|(rank, name)| vec![text(name), Value::Int(rank)]).collect()
}

pub fn words_are_found_and_ranked_as_by_a_naive_reader(location: &StoreLocation) {
    let fixture = Fixture::open(location, LETTERS);
    let letters = letters(&fixture, 300, 7);
    let mut found_rows = 0;
    for field in ["title", "notes", "both"] {
        for (written, terms) in SEARCHES {
            let plan = ranked(fixture.plan(vec![(field, search(written))]));
            let wanted = expected(&letters, |values| {
                let value = value(values, field);
                holds(terms, value).then(|| rank(terms, value))
            });
            assert_eq!(fixture.rows(&plan), wanted, "{field} ~ {written}");
            assert_eq!(fixture.store.count(&plan).expect("a number"), wanted.len() as u64, "{field} ~ {written}");
            let pages =
                (0..=wanted.len()).step_by(3).flat_map(|offset| fixture.rows(&QueryPlan { offset: offset as u64, limit: Some(3), ..plan.clone() }));
            assert_eq!(pages.collect::<Vec<_>>(), wanted, "pages of {field} ~ {written}");
            // without an order by rank, in that of keys
            let mut keys: Vec<String> = wanted.iter().map(|row| row[0].as_text().expect("a key").to_owned()).collect();
            keys.sort();
            assert_eq!(fixture.keys_where(field, search(written)), keys, "{field} ~ {written}");
            found_rows += wanted.len();
        }
    }
    assert!(found_rows > 1_000, "{found_rows} rows");
}

pub fn words_are_combined_with_other_conditions(location: &StoreLocation) {
    let fixture = Fixture::open(location, LETTERS);
    let letters = letters(&fixture, 200, 8);
    let condition = |name: &str, test: Comparison| Condition { column: fixture.column(name), test };
    for (index, (written, terms)) in SEARCHES.into_iter().enumerate() {
        let (other, other_terms) = SEARCHES[(index + 3) % SEARCHES.len()];
        // (title ~ written or number=1 or notes ~ other) not both ~ written
        let any = CombinedCondition::Any(vec![
            CombinedCondition::Is(condition("title", search(written))),
            CombinedCondition::Is(condition("number", equal(Value::Int(1)))),
            CombinedCondition::Is(condition("notes", search(other))),
        ]);
        let not = CombinedCondition::IsNot(condition("both", search(written)));
        let plan = ranked(QueryPlan { combined: vec![any.clone(), not], ..fixture.plan(Vec::new()) });
        let wanted = expected(&letters, |values| {
            let (title, notes) = (value(values, "title"), value(values, "notes"));
            let is_any = holds(terms, title) || value(values, "number") == &Value::Int(1) || holds(other_terms, notes);
            (is_any && !holds(terms, value(values, "both"))).then(|| rank(terms, title) + rank(other_terms, notes))
        });
        assert_eq!(fixture.rows(&plan), wanted, "{written}, {other}");
        // the same alternatives, and a condition with an index
        let plan =
            QueryPlan { combined: vec![any], ..fixture.plan(vec![("number", between(Some((Value::Int(1), true)), Some((Value::Int(2), true))))]) };
        let wanted = expected(&letters, |values| {
            let (title, notes, number) = (value(values, "title"), value(values, "notes"), value(values, "number").as_int());
            let is_any = holds(terms, title) || number == Some(1) || holds(other_terms, notes);
            (is_any && (number == Some(1) || number == Some(2))).then(|| rank(terms, title) + rank(other_terms, notes))
        });
        assert_eq!(fixture.rows(&ranked(plan)), wanted, "{written}, {other}");
    }
}

pub fn words_follow_every_change_of_a_record(location: &StoreLocation) {
    let fixture = Fixture::open(location, LETTERS);
    let found = |word: &str| (fixture.keys_where("title", search(word)), fixture.keys_where("notes", search(word)));
    let both =
        |names: &[&str]| (names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), names.iter().map(|name| (*name).to_owned()).collect());
    let put = |name: &str, word: &str| fixture.put(name, &[("title", text(&format!("The {word}"))), ("notes", texts(&["a", &format!("{word}!")]))]);
    put("a", "Sea");
    put("b", "Land");
    assert_eq!((found("sea"), found("land"), found("the").0.len()), (both(&["a"]), both(&["b"]), 2));
    put("a", "Land");
    assert_eq!((found("sea"), found("land")), (both(&[]), both(&["a", "b"])));
    put("a", "Seas");
    assert_eq!((found("sea"), found("sea*"), found("land")), (both(&[]), both(&["a"]), both(&["b"])));
    let plain = [("title", text("The Seas")), ("notes", texts(&["a", "Seas!"])), ("plain", text("new"))];
    // the same values of indexed fields
    let content = RecordContent { indexes_unchanged: true, ..fixture.content(&plain) };
    fixture.unit().write(super::support::put(fixture.collection, "a", fixture.version("a"), content)).commit_ok(&*fixture.store);
    assert_eq!((found("seas"), fixture.value("a", "plain")), (both(&["a"]), text("new")));
    fixture.put("b", &[("number", Value::Int(1))]);
    assert_eq!((found("land"), found("seas")), (both(&[]), both(&["a"])));
    let hidden = RecordContent { exists: false, ..fixture.content(&plain) };
    fixture.unit().write(super::support::put(fixture.collection, "a", fixture.version("a"), hidden)).commit_ok(&*fixture.store);
    assert_eq!(found("seas"), both(&[]));
    put("a", "Sea");
    fixture.delete("a");
    put("c", "Sea");
    assert_eq!((found("sea"), found("seas")), (both(&["c"]), both(&[])));
    let fixture = fixture.reopen(location);
    assert_eq!(fixture.keys_where("title", search("sea")), ["c"]);
    let foreign = Fixture { tenant: tenant("other"), ..fixture };
    assert_eq!(foreign.keys_where("title", search("sea")), Vec::<String>::new());
}

pub fn an_index_of_words_is_added_to_records_dropped_and_added_again(location: &StoreLocation) {
    let without = LETTERS.replace(", index: words", "").replace("[words, ", "[");
    let fixture = Fixture::open(location, &without);
    let letters = letters(&fixture, 60, 9);
    let refused = fixture.store.find(&fixture.plan(vec![("title", search("sea"))])).expect_err("there is no index").to_string();
    assert!(refused.contains("`title` has no index of words"), "{refused}");
    let mut fixture = fixture;
    for (round, definition_text) in [LETTERS, without.as_str(), LETTERS].into_iter().enumerate() {
        drop(fixture);
        fixture = Fixture::open(location, definition_text);
        let changes = fixture.store.changes();
        assert!(changes.iter().any(|change| change.contains("`letter.title`")), "{changes:?}");
        if round == 1 {
            // changed while there was no index
            fixture.put(&letters[0].0, &[("title", text("nowhere before"))]);
            fixture.put(&letters[1].0, &[("title", Value::Null)]);
            continue;
        }
        let wanted = letters.iter().filter(|(_, values)| holds(&[&["sea"]], value(values, "title"))).map(|(name, _)| name.clone());
        let changed = [&letters[0].0, &letters[1].0];
        let wanted: Vec<String> = wanted.filter(|name| round == 0 || !changed.contains(&name)).collect();
        assert_eq!(fixture.keys_where("title", search("sea")), wanted);
    }
    assert_eq!(fixture.keys_where("title", search("nowhere")), [letters[0].0.as_str()]);
    let notes = letters.iter().skip(2).filter(|(_, values)| holds(&[&["se*"]], value(values, "notes"))).map(|(name, _)| name.clone());
    assert_eq!(fixture.keys_where("notes", search("se*")), notes.collect::<Vec<_>>());
}

pub fn different_values_are_counted_once(location: &StoreLocation) {
    let fixture = Fixture::open(location, LETTERS);
    let letters = letters(&fixture, 100, 10);
    for field in ["title", "notes", "number", "both"] {
        let mut values: Vec<&Value> = letters.iter().flat_map(|(_, values)| value(values, field).elements()).collect();
        values.sort_by(|a, b| a.compare(b));
        values.dedup();
        let aggregate = Aggregate { function: AggregateFunction::CountDistinct, column: fixture.column(field) };
        let plan = fixture.plan(Vec::new());
        assert_eq!(fixture.store.aggregate(&plan, &[aggregate]).expect("a number"), [Value::Int(values.len() as i64)], "{field}");
        let by = vec![GroupColumn { column: fixture.column("number"), period: None }];
        let grouping = Grouping { by, sort: vec![GroupSort { position: 1, descending: true }] };
        let groups = fixture.store.group(&plan, &[aggregate], &grouping).expect("groups").rows;
        assert!(groups.windows(2).all(|pair| pair[0][1].as_int() >= pair[1][1].as_int()), "{groups:?}");
        for group in groups {
            let of_group = letters.iter().filter(|(_, values)| value(values, "number") == &group[0]);
            let mut values: Vec<&Value> = of_group.flat_map(|(_, values)| value(values, field).elements()).collect();
            values.sort_by(|a, b| a.compare(b));
            values.dedup();
            assert_eq!(group[1], Value::Int(values.len() as i64), "{field} of {:?}", group[0]);
        }
    }
}

pub fn a_search_for_words_does_not_scan(location: &StoreLocation) {
    let fixture = Fixture::open(location, LETTERS);
    letters(&fixture, 20, 11);
    for field in ["title", "notes", "both"] {
        let explanation = fixture.store.explain(&fixture.plan(vec![(field, search("the \"deep se\"*"))])).expect("an explanation");
        assert!(!location.is_full_scan(&explanation), "{explanation:#?}");
    }
}
