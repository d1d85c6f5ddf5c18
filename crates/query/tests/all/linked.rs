//! Queries through links, in both directions: random queries on random records under random definitions, answered by both stores and by a reader that
//! follows links from record to record.

use crate::support;

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::render;
use stook_catalogue::fold::fold;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_query::{QueryScope, resolve};
use stook_store::postgres::{PostgresOptions, PostgresStore};
use stook_store::sqlite::{SqliteOptions, SqliteStore};
use stook_store::{RecordChange, RecordContent, RecordWrite, RefusedWrite, Result, Store, Tenant, Unit, WriteConflict};
use stook_testkit::postgres::TestServer;
use support::{compiled, definition, main_tenant, try_compile};

/// How a definition indexes the fields of persons and works.
#[derive(Debug, Clone, Copy)]
struct Design {
    indexes: bool,
    folds: bool,
    reads: bool,
}

impl Design {
    fn text(self) -> String {
        let index = if self.indexes { ", index: equal" } else { "" };
        let fold = if self.folds { ", fold: true" } else { "" };
        let read = if self.reads { "\n      read: { type: [text], derive: authors.name }" } else { "" };
        let link = if self.indexes { ", index: equal" } else { "" };
        format!(
            "
catalogue: linked
collections:
  work:
    key: id
    fields:
      id: text
      names: [text]
      edited: text
      title: {{ type: text{index} }}
      pages: {{ type: integer{index} }}{read}
    links:
      authors: {{ to: person, key: names }}
      editor: {{ to: person, key: \"{{edited}}\"{link} }}
  person:
    key: id
    fields:
      id: text
      home: text
      guide: text
      name: {{ type: text{index}{fold} }}
      born: {{ type: integer{index} }}
      height: float
      badge: uuid
      tongues: {{ type: [text]{index} }}
      scores: [float]
    state:
      status: text
    links:
      institute: {{ to: institute, key: \"{{home}}\"{link} }}
      mentor: {{ to: person, key: \"{{guide}}\" }}
  institute:
    key: id
    fields:
      id: text
      name: text
      founded: {{ type: integer{index} }}
"
        )
    }
}

/// A record: its values by name; links are lists of keys.
type Fields = BTreeMap<&'static str, Value>;

/// All records of a tenant, by collection and key.
type Records = BTreeMap<&'static str, BTreeMap<String, Fields>>;

const COLLECTIONS: [&str; 3] = ["work", "person", "institute"];
/// Links with their collections.
const LINKS: [(&str, &str, &str); 4] =
    [("work", "authors", "person"), ("work", "editor", "person"), ("person", "institute", "institute"), ("person", "mentor", "person")];
const NAMES: [&str; 5] = ["Ada", "ada", "Åsa Lind", "b*c", "it's"];
const KEYS: usize = 7;

fn key(collection: &str, number: usize) -> String {
    format!("{}{number}", &collection[..1])
}

/// Records from dice.
fn records(dice: &mut impl FnMut(usize) -> usize) -> Records {
    let mut all = Records::new();
    for collection in COLLECTIONS {
        let mut own = BTreeMap::new();
        for number in 0..KEYS {
            // some keys have no record
            if dice(5) == 0 {
                continue;
            }
            let mut fields = Fields::new();
            let mut put = |name: &'static str, value: Value, dice: &mut dyn FnMut(usize) -> usize| {
                if dice(4) > 0 {
                    fields.insert(name, value);
                }
            };
            let person = |dice: &mut dyn FnMut(usize) -> usize| Value::text(key("person", dice(KEYS)));
            match collection {
                "work" => {
                    let mut authors: Vec<String> = (0..dice(4)).map(|_| key("person", dice(KEYS))).collect();
                    authors.sort();
                    authors.dedup();
                    if !authors.is_empty() {
                        put("authors", Value::List(authors.into_iter().map(Value::text).collect()), dice);
                    }
                    let editor = person(dice);
                    put("editor", editor, dice);
                    let title = Value::text(NAMES[dice(NAMES.len())]);
                    put("title", title, dice);
                    let pages = Value::Int(dice(4) as i64);
                    put("pages", pages, dice);
                }
                "person" => {
                    let institute = Value::text(key("institute", dice(KEYS)));
                    put("institute", institute, dice);
                    let mentor = person(dice);
                    put("mentor", mentor, dice);
                    let name = Value::text(NAMES[dice(NAMES.len())]);
                    put("name", name, dice);
                    let born = Value::Int(dice(4) as i64);
                    put("born", born, dice);
                    let height = Value::Float(dice(9) as f64 / 10.0 + 0.1);
                    put("height", height, dice);
                    let badge = Value::Uuid(dice(3) as u128 + (1 << 100));
                    put("badge", badge, dice);
                    let tongues: Vec<Value> = (0..=dice(2)).map(|_| Value::text(NAMES[dice(NAMES.len())])).collect();
                    put("tongues", Value::List(tongues), dice);
                    let scores: Vec<Value> = (0..=dice(2)).map(|_| Value::Float(dice(9) as f64 / 3.0)).collect();
                    put("scores", Value::List(scores), dice);
                    let status = Value::text(["here", "gone"][dice(2)]);
                    put("status", status, dice);
                }
                _ => {
                    let name = Value::text(NAMES[dice(NAMES.len())]);
                    put("name", name, dice);
                    let founded = Value::Int(dice(4) as i64);
                    put("founded", founded, dice);
                }
            }
            own.insert(key(collection, number), fields);
        }
        all.insert(collection, own);
    }
    all
}

struct Load {
    tenant: Tenant,
    writes: Vec<RecordWrite>,
}

impl Unit for Load {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn writes(&self) -> &[RecordWrite] {
        &self.writes
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> Result<Vec<RecordWrite>> {
        panic!("{} records are not new", conflicts.len())
    }

    fn refused(&mut self, refused: RefusedWrite) {
        panic!("{refused:?}")
    }
}

fn load(store: &dyn Store, catalogue: &Catalogue, tenant: &Tenant, records: &Records) {
    let mut writes = Vec::new();
    for (name, records) in records {
        let (index, collection) = catalogue.collection(name).expect("a collection");
        for (key, fields) in records {
            let mut golden = vec![Value::Null; collection.fields.len()];
            let mut state = vec![Value::Null; collection.states.len()];
            golden[usize::from(collection.field("id").expect("a key").0)] = Value::text(key.as_str());
            for (name, value) in fields {
                match collection.field(name) {
                    Some((field, _)) => golden[usize::from(field)] = value.clone(),
                    None => state[collection.state(name).expect("a state").0] = value.clone(),
                }
            }
            writes.push(write(index, key, golden, state));
        }
    }
    writes.sort_by(|a, b| (a.collection, &a.key).cmp(&(b.collection, &b.key)));
    store.commit(Box::new(Load { tenant: tenant.clone(), writes })).expect("records are written");
}

fn write(collection: CollectionId, key: &str, golden: Vec<Value>, state: Vec<Value>) -> RecordWrite {
    let content = RecordContent {
        created_job: 0,
        exists: true,
        golden: golden.into(),
        state,
        state_set: Vec::new(),
        conflicts: Vec::new(),
        contributions: Vec::new(),
        raw: None,
        indexes_unchanged: false,
    };
    RecordWrite { collection, key: Key::new(key).expect("a key"), expect: None, change: RecordChange::Put(Box::new(content)) }
}

/// A step of a path.
#[derive(Debug, Clone, Copy)]
enum Step {
    Targets(usize),
    Children(usize),
}

/// A path from a collection, with the field at its end.
#[derive(Debug, Clone)]
struct Path {
    steps: Vec<Step>,
    field: &'static str,
}

impl Path {
    /// A path of some links; forwards only if it is to be a column.
    fn random(from: &'static str, is_column: bool, dice: &mut dyn FnMut(usize) -> usize) -> Self {
        let (mut steps, mut here) = (Vec::new(), from);
        for _ in 0..1 + dice(3) {
            let targets = LINKS.iter().enumerate().filter(|(_, link)| link.0 == here).map(|(index, link)| (Step::Targets(index), link.2));
            let children = LINKS.iter().enumerate().filter(|(_, link)| link.2 == here && !is_column);
            // a link of a collection to itself is followed backwards by another name
            let children = children.filter(|(_, link)| link.0 != link.2).map(|(index, link)| (Step::Children(index), link.0));
            let all: Vec<(Step, &'static str)> = targets.chain(children).collect();
            if all.is_empty() {
                break;
            }
            let (step, next) = all[dice(all.len())];
            steps.push(step);
            here = next;
        }
        let fields: &[&'static str] = match here {
            "work" => &["title", "pages", "id", "editor"],
            "person" => &["name", "born", "height", "badge", "tongues", "scores", "status", "id", "institute"],
            _ => &["name", "founded", "id"],
        };
        Self { steps, field: fields[dice(fields.len())] }
    }

    fn text(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (place, step) in self.steps.iter().enumerate() {
            match step {
                Step::Targets(link) => parts.push(LINKS[*link].1.to_owned()),
                // the only link of persons to institutes needs no name, unless it would be taken for one
                Step::Children(2) if !matches!(self.steps.get(place + 1), Some(Step::Targets(2))) => parts.push("person".to_owned()),
                Step::Children(link) => parts.push(format!("{}.{}", LINKS[*link].0, LINKS[*link].1)),
            }
        }
        parts.push(self.field.to_owned());
        parts.join(".")
    }

    fn may_be_several(&self) -> bool {
        self.field == "tongues" || self.field == "scores" || self.is_of_several()
    }

    fn is_of_several(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Targets(0) | Step::Children(_)))
    }

    /// All values at its end, in order.
    fn values(&self, records: &Records, from: &str, key: &str) -> Vec<Value> {
        let mut found: Vec<(&str, String)> = vec![(from, key.to_owned())];
        for step in &self.steps {
            let mut next = Vec::new();
            for (collection, key) in found {
                let (link, leads_back) = match step {
                    Step::Targets(link) => (LINKS[*link], false),
                    Step::Children(link) => (LINKS[*link], true),
                };
                let keys_of = |fields: &Fields| -> Vec<String> {
                    let value = fields.get(link.1).cloned().unwrap_or_default();
                    value.elements().iter().map(|key| key.as_text().unwrap().to_owned()).collect()
                };
                if leads_back {
                    let children = records[link.0].iter().filter(|(_, fields)| keys_of(fields).contains(&key));
                    next.extend(children.map(|(key, _)| (link.0, key.clone())));
                } else {
                    let targets = keys_of(&records[collection][&key]).into_iter();
                    next.extend(targets.filter(|key| records[link.2].contains_key(key)).map(|key| (link.2, key)));
                }
            }
            found = next;
        }
        let values = found.iter().flat_map(|(collection, key)| match self.field {
            "id" => vec![Value::text(key.as_str())],
            field => records[*collection][key].get(field).cloned().unwrap_or_default().elements().to_vec(),
        });
        values.filter(|value| !value.is_null()).collect()
    }

    /// The value of the column.
    fn value(&self, records: &Records, from: &str, key: &str) -> Value {
        let values = self.values(records, from, key);
        match self.may_be_several() {
            _ if values.is_empty() => Value::Null,
            true => Value::List(values),
            false => values[0].clone(),
        }
    }
}

/// A condition on a path: its text, and whether values satisfy it.
struct TestCondition {
    path: Path,
    operator: &'static str,
    value: Value,
    folds: bool,
}

impl TestCondition {
    fn random(from: &'static str, folds: bool, dice: &mut dyn FnMut(usize) -> usize) -> Self {
        let path = Path::random(from, false, dice);
        let value = match path.field {
            "pages" | "born" | "founded" => Value::Int(dice(4) as i64),
            "height" => Value::Float(dice(9) as f64 / 10.0 + 0.1),
            "scores" => Value::Float(dice(9) as f64 / 3.0),
            "badge" => Value::Uuid(dice(3) as u128 + (1 << 100)),
            "status" => Value::text(["here", "gone"][dice(2)]),
            "editor" => Value::text(key("person", dice(KEYS))),
            "institute" => Value::text(key("institute", dice(KEYS))),
            "id" => Value::text(key(COLLECTIONS[dice(3)], dice(KEYS))),
            _ => Value::text(NAMES[dice(NAMES.len())]),
        };
        let folds = folds && path.field == "name" && Self::ends_at_person(from, &path);
        Self { operator: ["=", "!=", "<", ">=", "in"][dice(5)], path, value, folds }
    }

    fn ends_at_person(from: &str, path: &Path) -> bool {
        let end = path.steps.last().map_or(from, |step| match step {
            Step::Targets(link) => LINKS[*link].2,
            Step::Children(link) => LINKS[*link].0,
        });
        end == "person"
    }

    fn text(&self) -> String {
        let shown = match &self.value {
            Value::Int(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
            Value::Uuid(id) => {
                let digits = format!("{id:032x}");
                [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
            }
            Value::Text(text) if text.contains('\'') => format!("\"{text}\""),
            Value::Text(text) => format!("'{text}'"),
            other => panic!("{other:?}"),
        };
        let path = self.path.text();
        if self.operator == "in" { format!("{path} in [{shown}]") } else { format!("{path}{}{shown}", self.operator) }
    }

    fn holds(&self, records: &Records, from: &str, key: &str) -> bool {
        let folded = |value: &Value| match value {
            Value::Text(text) if self.folds => Value::text(fold(text)),
            other => other.clone(),
        };
        let order = |value: &Value| match (folded(value), folded(&self.value)) {
            (Value::Int(a), Value::Int(b)) => a.cmp(&b),
            (Value::Float(a), Value::Float(b)) => a.total_cmp(&b),
            (Value::Uuid(a), Value::Uuid(b)) => a.cmp(&b),
            (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            other => panic!("{other:?}"),
        };
        let mut orders = self.path.values(records, from, key).into_iter().map(|value| order(&value));
        match self.operator {
            "=" | "in" => orders.any(|order| order.is_eq()),
            "!=" => !orders.any(|order| order.is_eq()),
            "<" => orders.any(|order| order.is_lt()),
            _ => orders.any(|order| order.is_ge()),
        }
    }
}

/// Conditions of a query, combined.
fn selected(from: &'static str, folds: bool, records: &Records, dice: &mut dyn FnMut(usize) -> usize) -> (String, Vec<String>) {
    let conditions: Vec<TestCondition> = (0..1 + dice(3)).map(|_| TestCondition::random(from, folds, dice)).collect();
    let (shape, negated) = (dice(3), dice(3));
    let text = |(index, condition): (usize, &TestCondition)| {
        if shape == 2 && index == negated { format!("not {}", condition.text()) } else { condition.text() }
    };
    let texts: Vec<String> = conditions.iter().enumerate().map(text).collect();
    let holds = |key: &String| {
        let mut each = conditions.iter().enumerate().map(|(index, own)| own.holds(records, from, key) != (shape == 2 && index == negated));
        if shape == 1 { each.any(|holds| holds) } else { each.all(|holds| holds) }
    };
    let joined = texts.join(if shape == 1 { " or " } else { " " });
    (joined, records[from].keys().filter(|key| holds(key)).cloned().collect())
}

fn found(store: &dyn Store, catalogue: &Catalogue, tenant: &Tenant, query: &str) -> (Vec<Vec<Value>>, u64) {
    let scope = QueryScope::all(catalogue, store, tenant);
    let compiled = resolve(query, &scope, support::NOW).expect("the store works");
    let compiled = compiled.unwrap_or_else(|problem| panic!("{}", render("query", query, &[problem], false)));
    if let Some(grouping) = &compiled.grouping {
        let groups = compiled.group(store, grouping).unwrap_or_else(|error| panic!("{query}: {error}"));
        return (groups.rows, groups.total);
    }
    if !compiled.aggregates.is_empty() {
        return (vec![compiled.aggregate(store).unwrap_or_else(|error| panic!("{query}: {error}"))], 1);
    }
    let (rows, total) = store.find_and_count(&compiled.plan).unwrap_or_else(|error| panic!("{query}: {error}"));
    (rows.rows, total)
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 16, ..ProptestConfig::default() })]

    #[test]
    fn both_stores_answer_queries_through_links_as_a_reader_does_that_follows_them(
        (indexes, folds, reads) in any::<(bool, bool, bool)>(),
        mut rolls in prop::collection::vec(any::<u16>(), 64..512),
    ) {
        let design = Design { indexes, folds, reads };
        rolls.push(1);
        let (mut at, mut state) = (0, 88_172_645_463_325_252_u64);
        let mut dice = |limit: usize| {
            // the dice thrown by proptest, mixed so that they do not repeat
            at += 1;
            state ^= u64::from(rolls[at % rolls.len()]) << 17;
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % limit as u64) as usize
        };
        let catalogue = Arc::new(definition(&design.text()));
        let folder = tempfile::tempdir().unwrap();
        let mut stores: Vec<Box<dyn Store>> =
            vec![Box::new(SqliteStore::open(&folder.path().join("store"), catalogue.clone(), SqliteOptions::default()).unwrap())];
        if let Some(server) = TestServer::shared() {
            let url = format!("{}?schema=linked{}", server.url("postgres"), NUMBER.fetch_add(1, Ordering::SeqCst));
            stores.push(Box::new(PostgresStore::open(&url, catalogue.clone(), &PostgresOptions::default()).unwrap()));
        }
        let (tenant, other) = (main_tenant(), Tenant::new("other").unwrap());
        let (own, others) = (records(&mut dice), records(&mut dice));
        for store in &stores {
            load(&**store, &catalogue, &tenant, &own);
            load(&**store, &catalogue, &other, &others);
        }
        for _ in 0..40 {
            let from = COLLECTIONS[dice(3)];
            let (conditions, keys) = selected(from, folds, &own, &mut dice);
            let column = Path::random(from, true, &mut dice);
            let has_column = !column.steps.is_empty() && column.field != "scores";
            let shown = if has_column { format!(", {}", column.text()) } else { String::new() };
            let query = format!("{from} {conditions} | grep id{shown}");
            let wanted: Vec<Vec<Value>> = keys
                .iter()
                .map(|key| std::iter::once(Value::text(key.as_str())).chain(has_column.then(|| column.value(&own, from, key))).collect())
                .collect();
            for store in &stores {
                let (rows, total) = found(&**store, &catalogue, &tenant, &query);
                prop_assert_eq!(total, wanted.len() as u64, "{}", &query);
                prop_assert_eq!(&rows, &wanted, "{}", &query);
            }
            if !has_column {
                continue;
            }
            let name = column.text();
            let values = keys.iter().map(|key| column.values(&own, from, key).len()).sum::<usize>();
            let query = format!("{from} {conditions} | count({name}), count(distinct {name})");
            for store in &stores {
                let (rows, _) = found(&**store, &catalogue, &tenant, &query);
                prop_assert_eq!(&rows[0][0], &Value::Int(values as i64), "{}", &query);
            }
            let mut queries = vec![
                format!("{from} {conditions} | grep {name} | unique"),
                format!("{from} {conditions} | count(key), max({name}) by {name}"),
            ];
            if !column.may_be_several() {
                queries.push(format!("{from} {conditions} | grep id, {name} | sort {name}-"));
            }
            for query in queries {
                let answers: Vec<_> = stores.iter().map(|store| found(&**store, &catalogue, &tenant, &query)).collect();
                prop_assert!(answers.iter().all(|answer| *answer == answers[0]), "{}: {:?}", &query, &answers);
            }
        }
    }
}

#[test]
fn paths_through_links_say_what_they_cannot_mean() {
    let catalogue = definition(&Design { indexes: true, folds: false, reads: false }.text());
    for (query, problem, help) in [
        ("work authors.nam=x", "`person` has no field `nam`", "did you mean `name`?"),
        ("person work.title=x", "`work` has 2 links to `person`", "say which: work.authors.title, work.editor.title"),
        ("person | grep work.authors.title", "records of `work` can only be in conditions here", "work authors=KEY finds those of one record"),
        ("work authors.mentor.mentor.mentor.name=x", "a query follows at most 3 links", "derive: LINK.FIELD"),
        ("work | grep id | sort authors.name", "`authors.name` is of type [text], which has no order", "sort by a field with one value"),
        ("work | grep authors.key", "`authors` is a link to `person`", "`authors` is the key itself"),
    ] {
        let shown = match try_compile(&catalogue, query) {
            Ok(_) => panic!("accepted: {query}"),
            Err(found) => render("query", query, &[found], false),
        };
        assert!(shown.contains(problem) && shown.contains(help), "{query}: {shown}");
    }
    let uses = compiled(&catalogue, "work authors.institute.name=x | grep editor.name").linked_uses;
    let names: Vec<&str> = uses.iter().map(|other| catalogue.collections[other.collection].name.as_str()).collect();
    assert_eq!(names, ["person", "institute", "person"]);
}

#[test]
fn linked_records_that_the_caller_may_not_read_are_refused_by_name() {
    let catalogue = Arc::new(definition(&Design { indexes: true, folds: false, reads: false }.text()));
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("store"), catalogue.clone(), SqliteOptions::default()).unwrap();
    let (tenant, institute) = (main_tenant(), catalogue.collection("institute").unwrap().0);
    let scope = QueryScope { visible: &|collection| (collection != institute).into(), ..QueryScope::all(&catalogue, &store, &tenant) };
    for query in [
        "work authors.institute.name=x",
        "work not editor.institute.founded>2",
        "work | grep editor.institute.name",
        "person | count(institute.name)",
    ] {
        let problem = resolve(query, &scope, support::NOW).unwrap().expect_err(query);
        assert_eq!(problem.message, "you may not read `institute`", "{query}");
    }
    assert!(resolve("work authors.name=x institute=y", &scope, support::NOW).unwrap().is_err());
    assert!(resolve("work authors.institute=i1", &scope, support::NOW).unwrap().is_ok());
}
