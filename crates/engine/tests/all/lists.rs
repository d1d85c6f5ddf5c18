//! The law of links of lists: whatever the rule, and whatever arrives in whichever order, a link of a list leads to all records that it
//! should, expressions through it read the values of all these, and each of these counts each child once. Definitions are generated; an oracle
//! looks at all records at once.

use crate::support;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::links::{MAX_COMBINATIONS, MAX_TARGETS};
use stook_catalogue::parse::parse;
use stook_catalogue::value::Value;
use stook_engine::deliver;
use stook_engine::edit::{self, Edit, EditAction, EditFields, EditResult, Preconditions};
use stook_engine::import::UploadRequest;
use stook_engine::record::{self, RecordAddress};
use stook_engine::settle::{self, SettleRules};
use stook_engine::work::{self, WorkerOptions};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::{SettlePass, Store, Tenant};

/// Which people are the authors of a work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    /// Those with one of its names.
    Name,
    /// The one with an alias that is its name.
    Alias,
    /// Those with an alias that is one of its names.
    Both,
    /// Those with one of its names that are on one of its sides.
    Two,
    /// Those whose key is one of its names.
    Key,
    /// Those whose key consists of its side and one of its names.
    Template,
    /// The one whose key is its name.
    One,
}

impl Rule {
    const ALL: [Self; 7] = [Self::Name, Self::Alias, Self::Both, Self::Two, Self::Key, Self::Template, Self::One];

    fn text(self) -> &'static str {
        match self {
            Rule::Name => "same: { names: name }",
            Rule::Alias => "same: { name: aliases }",
            Rule::Both => "same: { names: aliases }",
            Rule::Two => "same: { names: aliases, sides: side }",
            Rule::Key => "key: names",
            Rule::Template => "key: \"{side}:{names}\"",
            Rule::One => "key: name",
        }
    }

    fn is_many(self) -> bool {
        !matches!(self, Rule::Alias | Rule::One)
    }

    fn is_by_key(self) -> bool {
        matches!(self, Rule::Key | Rule::Template | Rule::One)
    }
}

/// A definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Design {
    rule: Rule,
    when: bool,
    create: bool,
    index: bool,
    reads: bool,
    rolls: bool,
    covers: bool,
    /// The field by which children are grouped.
    group: &'static str,
}

impl Design {
    fn text(self) -> String {
        let mut text = String::from(
            "catalogue: lists\nsources:\n  work: &source\n    format: json\n    let: { made: { path: $.made, type: timestamp }, gone: { path: $.gone, type: boolean } }\n    \
             as_of: made\n    gone: gone\n    into: work\n  person: { <<: *source, into: person }\ncollections:\n  work:\n    key: id\n    fields:\n      \
             id: text\n      name: text\n      names: [text]\n      side: text\n      sides: [text]\n      kind: text\n      size: integer\n      refs: [text]\n      \
             cited: { type: integer, rollup: { over: work.cites, count: true } }\n      cited_kinds: { type: [text], derive: cites.kind }\n",
        );
        if self.reads {
            let born = if self.rule.is_many() { "[integer]" } else { "integer" };
            let _ = write!(
                text,
                "      born: {{ type: {born}, derive: authors.born }}\n      labels: {{ type: [text], derive: authors.labels }}\n      \
                 whole: {{ type: boolean, derive: authors.exists }}\n      some: {{ type: text, derive: \"authors.exists == false ? 'planned' : kind\" }}\n"
            );
            if self.rule.is_many() {
                text.push_str("      eldest: { type: integer, derive: min(authors.born) }\n      keys: { type: [text], derive: authors.key }\n");
            }
            if self.rolls {
                let fame = if self.rule.is_many() { "[integer]" } else { "integer" };
                let _ = writeln!(text, "      fame: {{ type: {fame}, derive: authors.works }}");
            }
        }
        let _ = write!(
            text,
            "    links:\n      cites: {{ to: work, key: refs }}\n      authors: {{ to: person, {}, group: {}",
            self.rule.text(),
            self.group
        );
        text.push_str(if self.when { ", when: \"kind != 'x'\"" } else { "" });
        text.push_str(if self.create { ", create: true" } else { "" });
        text.push_str(if self.index { ", index: equal" } else { "" });
        text.push_str(" }\n  person:\n    key: id\n    fields:\n      id: text\n      name: text\n      aliases: [text]\n      side: text\n      born: integer\n      labels: [text]\n");
        if self.rolls {
            text.push_str(
                "      works: { type: integer, rollup: { over: work.authors, count: true } }\n      \
                 size: { type: integer, rollup: { over: work.authors, where: \"kind == 'a'\", sum: size } }\n",
            );
        }
        if self.covers {
            text.push_str("    coverage:\n      kinds: { over: work.authors, where: \"size > 0\", measure: count, expected: \"2\" }\n");
        }
        text
    }
}

fn design() -> impl Strategy<Value = Design> {
    let rule = prop::sample::select(Rule::ALL.to_vec());
    (rule, any::<(bool, bool, bool)>(), 0..4_u8, prop::sample::select(vec!["kind", "kind", "side"])).prop_map(
        |(rule, (when, create, index), uses, group)| {
            let create = create && rule.is_by_key();
            Design { rule, when, create, index, reads: uses != 1, rolls: uses == 1 || uses == 3, covers: uses == 1, group }
        },
    )
}

/// A change of one record.
#[derive(Debug, Clone)]
struct Step {
    collection: &'static str,
    key: String,
    /// `None` deletes the record.
    fields: Option<Json>,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Keys of people, some of which the rules by key form.
const PEOPLE: [&str; 8] = ["a", "b", "c", "d", "l:a", "l:b", "r:a", "p"];

fn step() -> impl Strategy<Value = Step> {
    let names = || prop::sample::subsequence(NAMES.to_vec(), 0..=4);
    let side = || prop::sample::select(vec!["l", "r"]);
    let works = || (0..5_usize).prop_map(|id| format!("w{id}"));
    let work = (
        works(),
        (names(), prop::sample::select(NAMES.to_vec())),
        (side(), prop::sample::subsequence(vec!["l", "r"], 0..=2)),
        0..4_usize,
        0..3_i64,
        prop::collection::vec(works(), 0..3),
    )
        .prop_map(|(key, (mut names, name), (side, sides), kind, size, refs)| {
            // the order of elements has no meaning, and repeated ones count once
            names.reverse();
            names.extend(names.first().copied());
            let kind = ["a", "a", "b", "x"][kind];
            let fields = json!({ "name": name, "names": names, "side": side, "sides": sides, "kind": kind, "size": size, "refs": refs });
            Step { collection: "work", key, fields: Some(fields) }
        });
    let labels = prop::sample::subsequence(vec!["u", "v"], 0..=2);
    let person = (prop::sample::select(PEOPLE.to_vec()), prop::sample::select(NAMES.to_vec()), names(), side(), 0..4_i64, labels).prop_map(
        |(key, name, aliases, side, born, labels)| {
            let mut fields = json!({ "name": name, "aliases": aliases, "side": side, "labels": labels });
            if born > 0 {
                fields["born"] = born.into();
            }
            Step { collection: "person", key: key.into(), fields: Some(fields) }
        },
    );
    let deletion = prop_oneof![
        works().prop_map(|key| Step { collection: "work", key, fields: None }),
        prop::sample::select(PEOPLE.to_vec()).prop_map(|key| Step { collection: "person", key: key.into(), fields: None }),
    ];
    prop_oneof![5 => work, 4 => person, 2 => deletion]
}

impl Design {
    /// Whether the result of a step does not depend on what was stored before: a record that links create is deleted by a document only while links
    /// lead to it.
    fn takes(self, step: &Step) -> bool {
        !(self.create && step.collection == "person" && step.fields.is_none())
    }
}

// --- the oracle: looking at all records at once -------------------------------------------------------------------------

type Records = BTreeMap<String, Json>;

fn text<'r>(record: &'r Json, name: &str) -> &'r str {
    record.get(name).and_then(Json::as_str).unwrap_or_default()
}

fn texts<'r>(record: &'r Json, name: &str) -> BTreeSet<&'r str> {
    record.get(name).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect()
}

fn put(record: &mut Json, name: &str, values: Vec<Json>) {
    if !values.is_empty() {
        record[name] = values.into();
    }
}

/// The records that documents contribute.
fn contributed_records(steps: &[Step]) -> [Records; 2] {
    let mut all = [Records::new(), Records::new()];
    for step in steps {
        let records = &mut all[usize::from(step.collection == "person")];
        match &step.fields {
            Some(fields) => {
                let mut record = fields.clone();
                record["id"] = step.key.clone().into();
                record.as_object_mut().expect("fields").retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
                records.insert(step.key.clone(), record);
            }
            None => drop(records.remove(&step.key)),
        }
    }
    all
}

/// The keys of the authors of a work.
fn authors(design: Design, work: &Json, people: &Records) -> Vec<String> {
    if design.when && text(work, "kind") == "x" {
        return Vec::new();
    }
    let (names, sides) = (texts(work, "names"), texts(work, "sides"));
    let with = |is_one: &dyn Fn(&Json) -> bool| people.iter().filter(|(_, person)| is_one(person)).map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let mut found = match design.rule {
        Rule::Name => with(&|person| names.contains(text(person, "name"))),
        Rule::Alias => with(&|person| texts(person, "aliases").contains(text(work, "name"))),
        Rule::Both => with(&|person| !texts(person, "aliases").is_disjoint(&names)),
        Rule::Two => with(&|person| !texts(person, "aliases").is_disjoint(&names) && sides.contains(text(person, "side"))),
        Rule::Key => names.iter().map(|name| (*name).to_owned()).collect(),
        Rule::Template => names.iter().map(|name| format!("{}:{name}", text(work, "side"))).collect(),
        Rule::One => vec![text(work, "name").to_owned()],
    };
    if !design.rule.is_many() {
        found.truncate(1);
    }
    found
}

/// All records, settled.
fn expected(design: Design, steps: &[Step]) -> BTreeMap<String, Records> {
    let [mut works, mut people] = contributed_records(steps);
    let target_keys: BTreeMap<String, Vec<String>> = works.iter().map(|(key, work)| (key.clone(), authors(design, work, &people))).collect();
    if design.create {
        for key in target_keys.values().flatten() {
            people.entry(key.clone()).or_insert_with(|| json!({ "id": key }));
        }
    }
    let kinds: BTreeMap<String, Json> = works.iter().map(|(key, work)| (key.clone(), work["kind"].clone())).collect();
    let mut covered = Records::new();
    for (key, person) in &mut people {
        let linked_works = || works.iter().filter(|(work, _)| target_keys[*work].contains(key)).map(|(_, work)| work);
        let size = |work: &Json| work["size"].as_i64().unwrap_or(0);
        if design.rolls {
            person["works"] = linked_works().count().into();
            person["size"] = linked_works().filter(|work| text(work, "kind") == "a").map(size).sum::<i64>().into();
        }
        let group = |work: &Json| text(work, design.group).to_owned();
        for kind in linked_works().map(group).collect::<BTreeSet<String>>().into_iter().filter(|_| design.covers) {
            let value = linked_works().filter(|work| group(work) == kind && size(work) > 0).count();
            if value > 0 {
                let (adjusted, status) = (value.min(2), if value >= 2 { "Complete" } else { "Partial" });
                let percentage = adjusted as f64 / 2.0 * 100.0;
                let row = json!({ "person": key, "group": kind, "value": value, "expected": 2, "adjusted": adjusted, "percentage": percentage, "status": status });
                covered.insert(format!("{key}#{kind}"), row);
            }
        }
    }
    let cites: BTreeMap<String, Vec<String>> =
        works.iter().map(|(key, work)| (key.clone(), texts(work, "refs").into_iter().map(str::to_owned).collect())).collect();
    for (key, work) in &mut works {
        put(work, "cites", cites[key].iter().map(|cited| cited.as_str().into()).collect());
        put(work, "cited_kinds", cites[key].iter().filter_map(|cited| kinds.get(cited).cloned()).collect());
        work["cited"] = cites.values().filter(|cited| cited.contains(key)).count().into();
        let target_keys = &target_keys[key];
        match target_keys.as_slice() {
            [] => {}
            [only] if !design.rule.is_many() => work["authors"] = only.as_str().into(),
            several => work["authors"] = several.into(),
        }
        if !design.reads {
            continue;
        }
        let existing: Vec<&Json> = target_keys.iter().filter_map(|key| people.get(key)).collect();
        let read = |name: &str| existing.iter().filter_map(|person| person.get(name).cloned()).collect::<Vec<Json>>();
        let whole = (!target_keys.is_empty()).then_some(existing.len() == target_keys.len());
        if let Some(whole) = whole {
            work["whole"] = whole.into();
        }
        work["some"] = if whole == Some(false) { json!("planned") } else { work["kind"].clone() };
        let labels = read("labels").into_iter().flat_map(|list| list.as_array().cloned().unwrap_or_default()).collect();
        put(work, "labels", labels);
        let (born, fame) = (read("born"), read("works"));
        if design.rule.is_many() {
            if let Some(eldest) = born.iter().filter_map(Json::as_i64).min() {
                work["eldest"] = eldest.into();
            }
            put(work, "keys", target_keys.iter().map(|key| key.as_str().into()).collect());
            put(work, "born", born);
            put(work, "fame", fame);
        } else {
            for (name, values) in [("born", born), ("fame", fame)] {
                if let Some(value) = values.into_iter().next() {
                    work[name] = value;
                }
            }
        }
    }
    let mut all = BTreeMap::from([("work".to_owned(), works), ("person".to_owned(), people)]);
    if design.covers {
        all.insert("person.kinds".into(), covered);
    }
    all
}

// --- stores -------------------------------------------------------------------------------------------------------------

struct Desk {
    catalogue: Arc<Catalogue>,
    rules: Arc<dyn SettlePass>,
    /// Several connections to one store, as several processes have them.
    stores: Vec<Box<dyn Store>>,
}

static FILES: LazyLock<Mutex<BTreeMap<Design, Arc<Desk>>>> = LazyLock::new(Mutex::default);

fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

fn tenant() -> Tenant {
    Tenant::new(&format!("t{}", number())).expect("a tenant")
}

fn definition(text: &str) -> Arc<Catalogue> {
    Arc::new(parse(text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}")))
}

fn desk(catalogue: Arc<Catalogue>, stores: Vec<Box<dyn Store>>) -> Arc<Desk> {
    Arc::new(Desk { rules: Arc::new(SettleRules::new(&catalogue)), catalogue, stores })
}

/// A store for each definition.
fn on_a_file(design: Design) -> Arc<Desk> {
    let mut desks = FILES.lock().expect("nobody panicked");
    let known = desks.entry(design).or_insert_with(|| {
        let catalogue = definition(&design.text());
        let folder = support::folder("lists").join(number().to_string());
        std::fs::create_dir_all(&folder).expect("a folder");
        desk(catalogue.clone(), support::on_a_file(&folder, &catalogue, 2))
    });
    known.clone()
}

/// A schema for each case, because a server cannot take connections of many stores at once.
fn on_a_server(design: Design) -> Option<Arc<Desk>> {
    let catalogue = definition(&design.text());
    Some(desk(catalogue.clone(), support::on_a_server(&format!("lists{}", number()), &catalogue)?))
}

impl Desk {
    fn apply(&self, turn: usize, tenant: &Tenant, step: &Step) {
        let (collection, _) = self.catalogue.collection(step.collection).expect("a collection");
        let action = match &step.fields {
            Some(fields) => EditAction::Put(EditFields { values: fields.as_object().expect("fields").clone(), ..EditFields::default() }),
            None => EditAction::Delete,
        };
        let evaluator = Evaluator::new(self.catalogue.tables.clone());
        let key = Some(Key::new(step.key.as_str()).expect("a key"));
        let edit = Edit { tenant: tenant.clone(), collection, key, action, conditions: Preconditions::default(), caller: "test".into(), call: None };
        let store = &*self.stores[turn % self.stores.len()];
        let ended = edit::run(&Arc::new(SettleRules::new(&self.catalogue)), store, &evaluator, edit).expect("the store works");
        assert!(matches!(ended, EditResult::Done { .. } | EditResult::Missing), "{step:?}: {ended:?}");
    }

    fn settle(&self, turn: usize) {
        settle::drain(&*self.stores[turn % self.stores.len()], &self.rules, &AtomicBool::new(false)).expect("it settles");
    }

    fn find(&self, tenant: &Tenant, collection: CollectionId, columns: Vec<PlanColumn>, conditions: Vec<Condition>) -> Vec<Vec<Value>> {
        let plan =
            QueryPlan { columns: [PlanColumn::Key].into_iter().chain(columns).collect(), conditions, ..QueryPlan::all(tenant.clone(), collection) };
        self.stores[0].find(&plan).expect("rows").rows
    }

    /// Every record of every collection as JSON: the collection, the key, its golden fields.
    fn see(&self, tenant: &Tenant) -> BTreeMap<String, Records> {
        let collections = self.catalogue.collections.enumerate();
        let records = collections.map(|(index, collection)| {
            let rows = self.find(tenant, index, collection.fields.ids().map(PlanColumn::Field).collect(), Vec::new());
            let record = |row: Vec<Value>| {
                let shown = collection.fields.iter().zip(&row[1..]).filter(|(_, value)| !value.elements().iter().all(Value::is_null));
                let shown = shown.map(|(field, value)| (field.name.clone(), value.to_json(field.golden_type())));
                (row[0].as_text().unwrap_or_default().to_owned(), Json::Object(shown.collect()))
            };
            (collection.name.clone(), rows.into_iter().map(record).collect())
        });
        records.collect()
    }

    /// Compares settled values, and the results of queries, with the expected ones.
    fn compare(&self, design: Design, tenant: &Tenant, steps: &[Step]) {
        let (seen, wanted) = (self.see(tenant), expected(design, steps));
        for (collection, records) in &wanted {
            for (key, record) in records {
                let own = seen[collection].get(key);
                assert_eq!(own.map(sorted), Some(sorted(record)), "{collection} {key}\n{}", design.text());
            }
            assert_eq!(seen[collection].len(), records.len(), "{collection}: {:?} {:?}", seen[collection].keys(), records.keys());
        }
        let (links, link) = (&self.catalogue.links, self.catalogue.links.position(|link| link.name == "authors").expect("a link"));
        let keys_matching = |condition: Condition| -> Vec<String> {
            let rows = self.find(tenant, links[link].child_collection, vec![PlanColumn::TargetsExist(link)], vec![condition]);
            rows.iter().map(|row| row[0].as_text().unwrap_or_default().to_owned()).collect()
        };
        for person in PEOPLE {
            let leading: Vec<&String> = wanted["work"].iter().filter(|(_, work)| leads(work, person)).map(|(key, _)| key).collect();
            let test = Comparison::Equal(Value::text(person));
            assert_eq!(
                keys_matching(Condition { column: PlanColumn::Field(links[link].field), test }).iter().collect::<Vec<_>>(),
                leading,
                "authors={person}"
            );
        }
        for targets_exist in [true, false] {
            let all_targets_exist = |work: &Json| {
                let led: Vec<&str> = PEOPLE.into_iter().chain(["r:b", "l:c", "l:d", "r:c", "r:d"]).filter(|person| leads(work, person)).collect();
                (!led.is_empty()).then(|| led.iter().all(|person| wanted["person"].contains_key(*person)))
            };
            let matching: Vec<&String> =
                wanted["work"].iter().filter(|(_, work)| all_targets_exist(work) == Some(targets_exist)).map(|(key, _)| key).collect();
            let test = Comparison::Equal(Value::Bool(targets_exist));
            assert_eq!(
                keys_matching(Condition { column: PlanColumn::TargetsExist(link), test }).iter().collect::<Vec<_>>(),
                matching,
                "authors.exists={targets_exist}"
            );
        }
    }
}

fn leads(work: &Json, person: &str) -> bool {
    text(work, "authors") == person || texts(work, "authors").contains(person)
}

fn sorted(record: &Json) -> BTreeMap<String, Json> {
    record.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect()
}

// --- laws ---------------------------------------------------------------------------------------------------------------

/// One change after the other, settled now and then; a check finds nothing wrong.
fn one_by_one(desk: &Desk, design: Design, steps: &[(Step, bool)]) {
    let tenant = tenant();
    let steps: Vec<&(Step, bool)> = steps.iter().filter(|(step, _)| design.takes(step)).collect();
    for (turn, (step, settles)) in steps.iter().enumerate() {
        desk.apply(turn, &tenant, step);
        if *settles {
            desk.settle(turn);
        }
    }
    desk.settle(0);
    let steps: Vec<Step> = steps.iter().map(|(step, _)| step.clone()).collect();
    desk.compare(design, &tenant, &steps);
}

/// Changes delivered in chunks, in any order, by several workers at the same time.
fn delivered(desk: &Desk, design: Design, (steps, order): (&[Step], &[usize]), chunk: u32, processes: usize) {
    let tenant = tenant();
    let order: Vec<usize> = order.iter().copied().filter(|place| design.takes(&steps[*place])).collect();
    let folder = tempfile::tempdir().expect("a folder");
    for turn in order.chunks(order.len().div_ceil(3).max(1)) {
        for name in ["work", "person"] {
            let own = turn.iter().filter(|place| steps[**place].collection == name);
            let line = |place: &usize| {
                let step = &steps[*place];
                let mut document = step.fields.clone().unwrap_or_else(|| json!({ "gone": true }));
                let made = stook_catalogue::value::show_timestamp((1_000_000 + *place as i64) * 1_000_000);
                (document["id"], document["made"]) = (step.key.clone().into(), made.into());
                format!("{document}\n")
            };
            let text: String = own.map(line).collect();
            if !text.is_empty() {
                let path = folder.path().join(format!("{}.ndjson", number()));
                support::job(&desk.catalogue, &*desk.stores[0], &tenant, name, (&path, &text), chunk);
            }
        }
        let options = WorkerOptions { workers: 2, lease_seconds: 60, drain: true, settles: true, only: None };
        std::thread::scope(|scope| {
            for store in desk.stores.iter().cycle().take(processes) {
                scope.spawn(|| work::run(&desk.catalogue, &**store, &options, &AtomicBool::new(false), &|_| ()).expect("it works"));
            }
        });
    }
    let steps: Vec<Step> = steps.iter().filter(|step| design.takes(step)).cloned().collect();
    desk.compare(design, &tenant, &steps);
}

fn histories() -> impl Strategy<Value = Vec<(Step, bool)>> {
    prop::collection::vec((step(), prop::bool::weighted(0.2)), 1..40)
}

fn orders() -> impl Strategy<Value = (Vec<Step>, Vec<usize>, u32)> {
    prop::collection::vec(step(), 5..50).prop_flat_map(|steps| {
        let order: Vec<usize> = (0..steps.len()).collect();
        (Just(steps), Just(order).prop_shuffle(), 1..20_u32)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn links_from_lists_lead_to_all_targets_on_a_file(design in design(), steps in histories()) {
        one_by_one(&on_a_file(design), design, &steps);
    }

    #[test]
    fn chunks_settle_links_from_lists_on_a_file(design in design(), (steps, order, chunk) in orders()) {
        delivered(&on_a_file(design), design, (&steps, &order), chunk, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn links_from_lists_lead_to_all_targets_on_a_server(design in design(), steps in histories()) {
        if let Some(desk) = on_a_server(design) {
            one_by_one(&desk, design, &steps);
        }
    }

    #[test]
    fn chunks_settle_links_from_lists_on_a_server(design in design(), (steps, order, chunk) in orders()) {
        if let Some(desk) = on_a_server(design) {
            delivered(&desk, design, (&steps, &order), chunk, 3);
        }
    }
}

// --- changed definitions ------------------------------------------------------------------------------------------------

/// Opens one store for a definition.
type Open<'o> = dyn Fn(&Arc<Catalogue>) -> Vec<Box<dyn Store>> + 'o;

/// One definition after the other on one store: a link becomes one of a list, stops being one, has another key, or is only read, and each
/// time everything is settled again as if the store had been created for it.
fn redesigned(open: &Open<'_>, designs: &[Design], steps: &[Step]) {
    let tenant = tenant();
    let mut done: Vec<Step> = Vec::new();
    let most = steps.len().div_ceil(designs.len());
    for (turn, design) in designs.iter().enumerate() {
        let catalogue = definition(&design.text());
        let desk = desk(catalogue.clone(), open(&catalogue));
        let rules = Arc::new(SettleRules::new(&catalogue));
        settle::mark_outdated(&*desk.stores[0], &rules, &|_| ()).expect("it is marked");
        desk.settle(0);
        desk.compare(*design, &tenant, &done);
        for step in steps.iter().skip(turn * most).take(most).filter(|step| designs.iter().all(|design| design.takes(step))) {
            desk.apply(0, &tenant, step);
            done.push(step.clone());
        }
        desk.settle(0);
        desk.compare(*design, &tenant, &done);
        let found = settle::check(&*desk.stores[0], &rules, &AtomicBool::new(false), &|_| ()).expect("it looks").expect("nobody stops it");
        assert_eq!((found.incorrect, found.inconclusive), (Vec::new(), 0), "{}", design.text());
    }
}

/// All definitions have the fields of the first, so that none is removed.
fn redesigns() -> impl Strategy<Value = Vec<Design>> {
    prop::collection::vec(design(), 2..4).prop_map(|designs| {
        let first = designs[0];
        designs.into_iter().map(|design| Design { reads: false, rolls: first.rolls, covers: first.covers, ..design }).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn records_are_settled_again_when_a_link_changes_on_a_file(designs in redesigns(), steps in prop::collection::vec(step(), 5..40)) {
        let folder = support::folder("relinked").join(number().to_string());
        std::fs::create_dir_all(&folder).expect("a folder");
        redesigned(&|catalogue| support::on_a_file(&folder, catalogue, 1), &designs, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, max_shrink_iters: 10, ..ProptestConfig::default() })]

    #[test]
    fn records_are_settled_again_when_a_link_changes_on_a_server(designs in redesigns(), steps in prop::collection::vec(step(), 5..40)) {
        let schema = format!("relinked{}", number());
        if support::on_a_server(&schema, &definition(&designs[0].text())).is_some() {
            redesigned(&|catalogue| support::on_a_server(&schema, catalogue).expect("it was there"), &designs, &steps);
        }
    }
}

// --- at the same time ---------------------------------------------------------------------------------------------------

/// Two deliveries at the same time: one deletes a work and says that another work cites it; the other one, which is newer and arrives a moment
/// earlier, contributes the deleted work again. The unit that prepared the citing work had read the cited one as deleted.
fn cited_meanwhile(desk: &Desk) {
    let store = &*desk.stores[0];
    let rules = Arc::new(SettleRules::new(&desk.catalogue));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for _ in 0..40 {
        let tenant = tenant();
        let mapped = |documents: &[Json]| {
            let upload = UploadRequest {
                name: "works".into(),
                size: None,
                profile: None,
                source: Some("work".into()),
                tenant: tenant.clone(),
                as_of: None,
                retires_all: false,
                unexpected: false,
            };
            let text: String = documents.iter().map(|document| format!("{document}\n")).collect();
            deliver::map(&rules, store, &upload, "test", text.into()).expect("it is mapped")
        };
        let newer = mapped(&[json!({ "id": "w2", "kind": "a", "made": "2026-01-02T00:00:00Z" })]);
        let older = mapped(&[
            json!({ "id": "w2", "gone": true, "made": "2026-01-01T00:00:00Z" }),
            json!({ "id": "w1", "refs": ["w2"], "made": "2026-01-01T00:00:00Z" }),
        ]);
        let newer = newer.submit(store).expect("it is written");
        let older = older.submit(store).expect("it is written");
        runtime.block_on(async { (newer.end().await.expect("it ends"), older.end().await.expect("it ends")) });
        desk.settle(0);
        let work = record::get(&desk.catalogue, store, &RecordAddress { tenant: &tenant, collection: "work", key: "w1" }, false)
            .expect("it reads")
            .expect("it is there");
        let explained = work.explain(&desk.catalogue, store, &tenant).expect("it explains");
        assert_eq!(explained["fields"]["cited_kinds"]["value"], json!(["a"]), "{explained}");
    }
}

#[test]
fn an_existing_record_that_was_taken_for_missing_is_read_again() {
    cited_meanwhile(&on_a_file(plain(Rule::Key)));
    if let Some(desk) = on_a_server(plain(Rule::Key)) {
        cited_meanwhile(&desk);
    }
}

// --- limits -------------------------------------------------------------------------------------------------------------

fn plain(rule: Rule) -> Design {
    Design { rule, when: false, create: false, index: false, reads: false, rolls: true, covers: false, group: "kind" }
}

#[test]
fn values_that_a_link_ignores_are_reported() {
    for (rule, names, sides, ignored) in [
        (Rule::Key, MAX_TARGETS + 2, 1, Some(2)),
        (Rule::Name, MAX_TARGETS + 2, 1, Some(2)),
        (Rule::Key, MAX_TARGETS, 1, None),
        (Rule::Two, MAX_COMBINATIONS / 2 + 1, 2, Some(2)),
    ] {
        let (design, tenant) = (plain(rule), tenant());
        let desk = on_a_file(design);
        let names: Vec<String> = (0..names).map(|name| format!("n{name:05}")).collect();
        let sides: Vec<&str> = ["l", "r"].into_iter().take(sides).collect();
        let document = json!({ "id": "w", "kind": "a", "names": names, "sides": sides, "made": "2026-01-01T00:00:00Z" });
        let folder = tempfile::tempdir().expect("a folder");
        let job = support::job(&desk.catalogue, &*desk.stores[0], &tenant, "work", (&folder.path().join("w.ndjson"), &document.to_string()), 10);
        let options = WorkerOptions { workers: 1, lease_seconds: 60, drain: true, settles: true, only: None };
        work::run(&desk.catalogue, &*desk.stores[0], &options, &AtomicBool::new(false), &|_| ()).expect("it works");
        let reported: Vec<String> = desk.stores[0].journal(job, 0, 10, true).expect("troubles").into_iter().flat_map(|entry| entry.reasons).collect();
        let explained = record::get(&desk.catalogue, &*desk.stores[0], &RecordAddress { tenant: &tenant, collection: "work", key: "w" }, false)
            .expect("it reads")
            .expect("it is there");
        let explained = explained.explain(&desk.catalogue, &*desk.stores[0], &tenant).expect("it explains");
        match ignored {
            Some(ignored) => {
                assert!(reported.len() == 1 && reported[0].contains(&format!("{ignored} are ignored")), "{reported:?}");
                assert_eq!(explained["left_out"], json!(reported));
            }
            None => assert_eq!((reported.len(), &explained["left_out"]), (0, &Json::Null)),
        }
        if rule == Rule::Key {
            let led = explained["fields"]["authors"].clone();
            assert_eq!((led["value"].as_array().map(Vec::len), &led["most"]), (Some(MAX_TARGETS), &json!(MAX_TARGETS)));
            assert_eq!(led["planned"].as_array().map(Vec::len), Some(MAX_TARGETS), "nobody of these is there");
        }
    }
}

/// Works with two names each, and the people created because of them, by one design and then by another.
fn named_by(designs: [Design; 2]) {
    let work = |key: &str, name: &str, names: [&str; 3], side: &str| Step {
        collection: "work",
        key: key.into(),
        fields: Some(json!({ "name": name, "names": names, "side": side, "sides": [], "kind": "a", "size": 1, "refs": [] })),
    };
    let steps = [work("w2", "d", ["d", "c", "d"], "l"), work("w0", "b", ["d", "a", "d"], "r")];
    let folder = support::folder("named").join(number().to_string());
    std::fs::create_dir_all(&folder).expect("a folder");
    redesigned(&|catalogue| support::on_a_file(&folder, catalogue, 1), &designs, &steps);
    let schema = format!("named{}", number());
    if support::on_a_server(&schema, &definition(&designs[0].text())).is_some() {
        redesigned(&|catalogue| support::on_a_server(&schema, catalogue).expect("it was there"), &designs, &steps);
    }
}

#[test]
fn contributions_of_a_source_stay_when_it_leaves_the_definition() {
    let created = Design { create: true, rolls: false, ..plain(Rule::Template) };
    let after = Design { rule: Rule::One, ..created }.text().replace("  person: { <<: *source, into: person }\n", "");
    let (before, after) = (definition(&created.text()), definition(&after));
    let folder = support::folder("left").join(number().to_string());
    std::fs::create_dir_all(&folder).expect("a folder");
    let tenant = tenant();
    let open = |catalogue: &Arc<Catalogue>| desk(catalogue.clone(), support::on_a_file(&folder, catalogue, 1));
    let desk = open(&before);
    for (source, document) in [
        ("person", json!({ "id": "r:a", "name": "said", "made": "2026-01-01T00:00:00Z" })),
        ("work", json!({ "id": "w", "names": ["a", "b"], "name": "c", "side": "r", "made": "2026-01-01T00:00:00Z" })),
    ] {
        support::job(&before, &*desk.stores[0], &tenant, source, (&folder.join(source), &document.to_string()), 10);
    }
    let options = WorkerOptions { workers: 1, lease_seconds: 60, drain: true, settles: true, only: None };
    work::run(&before, &*desk.stores[0], &options, &AtomicBool::new(false), &|_| ()).expect("it works");
    assert_eq!(desk.see(&tenant)["person"].keys().collect::<Vec<_>>(), ["r:a", "r:b"]);
    drop(desk);
    let desk = open(&after);
    settle::mark_outdated(&*desk.stores[0], &Arc::new(SettleRules::new(&after)), &|_| ()).expect("it is marked");
    desk.settle(0);
    let people = desk.see(&tenant)["person"].clone();
    assert_eq!(people.keys().collect::<Vec<_>>(), ["c", "r:a"], "who existed because of the link alone is gone");
    assert_eq!(people["r:a"]["name"], "said");
}

#[test]
fn a_record_created_by_a_link_is_deleted_with_it() {
    let created = Design { create: true, rolls: false, ..plain(Rule::Template) };
    named_by([created, Design { rule: Rule::One, ..created }]);
    named_by([created, Design { create: false, ..created }]);
    named_by([Design { create: false, ..created }, created]);
}
