//! The law of settling: whatever arrives in whichever order and in overlapping transactions, when no mark is left, every link, field through a
//! link, rollup and coverage is what an oracle finds that looks at all records at once.

use crate::support;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_engine::edit::{self, Edit, EditAction, EditFields, EditResult, Preconditions};
use stook_engine::settle::{self, SettleRules, SettlingUnit};
use stook_engine::split;
use stook_engine::work::{self, WorkerOptions};
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::queue::{NewJob, SplitProgress};
use stook_store::{PassContext, PassWrites, RefusedWrite, SettlePass, SettlingChanges, StaleMark, Store, Tenant, lock_partition_of};

const DEFINITION: &str = "\
catalogue: settling
sources:
  plan: &source
    format: json
    let: { made: { path: $.made, type: timestamp }, gone: { path: $.gone, type: boolean } }
    as_of: made
    gone: gone
    into: plan
  item: { <<: *source, into: item }
  bag: { <<: *source, into: bag }
  shelf: { <<: *source, into: shelf }
  seen: { <<: *source, into: seen }
collections:
  plan:
    key: id
    fields:
      id: text
      side: text
      mode: text
      from: timestamp
      to: timestamp
      area: { type: duration, rollup: { over: item.found, groups: 'a', where: \"size > 2\", sum: length } }
      largest: { type: integer, rollup: { over: item.found, max: size } }
      words: { type: integer, rollup: { over: item.found, where: \"size > 1\", distinct: words } }
    coverage:
      local:
        over: item.found
        when: \"mode != 'none'\"
        where: \"size > 0\"
        groups: \"mode == 'both' ? ['a', 'b'] : ['a']\"
        with: [side]
        cases:
          - match: a
            measure: union
            expected: \"to - from\"
            gaps: { within: [from, to], until: \"to - duration('1s')\", shift: 2s }
            overlaps: { longer: 1s }
          - match: b
            measure: { distinct: [size], near: 1s }
            value: \"value > 0 ? value + 1 : 0\"
            expected: \"area == null ? 0 : int(string(largest))\"
          - measure: count
      sum: { of: local }
  item:
    key: id
    fields:
      id: text
      side: text
      kind: text
      from: timestamp
      to: timestamp
      size: integer
      words: [text]
      box_id: text
      own_mode: text
      length: { type: duration, derive: \"to - from\" }
      mode: { type: text, derive: \"coalesce(own_mode, found.mode)\", index: equal }
      weight: { type: integer, derive: \"box.number\" }
      colour: { type: [text], derive: bag.colour }
      shade: { type: text, derive: \"colour == null ? null : string(size(colour)) + '/' + string(coalesce(weight, 0))\" }
    links:
      found:
        to: plan
        when: \"kind != 'x'\"
        same: side
        overlap: { mine: [from, to], theirs: [from, to], tolerance: 1s, reach: 4s }
        group: kind
        span: [from, to]
      box: { to: box, key: box_id, create: true, group: kind }
      bag: { to: bag, same: { words: labels } }
  box:
    key: id
    fields:
      id: text
      number: { type: integer, rollup: { over: item.box, count: true } }
    coverage:
      kinds: { over: item.box, where: \"size > 0\", measure: count, expected: \"3\" }
  bag:
    key: id
    fields: { id: text, labels: [text], colour: text }
  seen:
    key: id
    fields: { id: text, of: text, at: timestamp, until: timestamp, status: text }
    links: { of_box: { to: box, key: of, create: true, span: [at, until] } }
  shelf:
    key: id
    fields:
      id: text
      of: text
      at: timestamp
      until: timestamp
      status: text
      bag_id: text
      colour: { type: text, derive: bag.colour }
    links:
      room: { to: room, key: of, create: true, span: [at, until] }
      bag: { to: bag, key: bag_id }
  room:
    key: id
    fields: { id: text }
    coverage:
      status: { over: shelf.room, runs: { value: status, max_gap: 3s } }
";

/// A change of one record.
#[derive(Debug, Clone)]
struct Step {
    collection: &'static str,
    key: String,
    /// `None` deletes the record.
    fields: Option<Json>,
}

fn time(seconds: i64) -> Json {
    stook_catalogue::value::show_timestamp(seconds * 1_000_000).into()
}

fn step() -> impl Strategy<Value = Step> {
    let side = prop::sample::select(vec!["l", "r"]);
    let plan = (0..4_usize, side.clone(), prop::sample::select(vec!["one", "both", "none"]), 0..40_i64, 0..12_i64, any::<bool>()).prop_map(
        |(id, side, mode, from, length, timed)| {
            let mut fields = json!({ "side": side, "mode": mode, "from": time(from) });
            if timed {
                fields["to"] = time(from + length);
            }
            Step { collection: "plan", key: format!("p{id}"), fields: Some(fields) }
        },
    );
    let words = prop::sample::subsequence(vec!["u", "v", "w"], 0..=3);
    let item =
        (0..8_usize, side, prop::sample::select(vec!["a", "b", "c", "x"]), (0..40_i64, 0..9_i64), 0..5_i64, words.clone(), 0..3_usize, any::<bool>())
            .prop_map(|(id, side, kind, (from, length), size, words, box_id, own)| {
                let mut fields = json!({ "side": side, "kind": kind, "from": time(from), "to": time(from + length), "size": size, "words": words });
                if box_id > 0 {
                    fields["box_id"] = format!("b{box_id}").into();
                }
                if own {
                    fields["own_mode"] = "own".into();
                }
                Step { collection: "item", key: format!("i{id}"), fields: Some(fields) }
            });
    let bag = (0..2_usize, words, prop::sample::select(vec!["red", "blue"])).prop_map(|(id, labels, colour)| Step {
        collection: "bag",
        key: format!("g{id}"),
        fields: Some(json!({ "labels": labels, "colour": colour })),
    });
    let of = (0..2_usize, 0..3_usize);
    let shelf = (0..6_usize, of, 0..30_i64, 0..3_i64, prop::sample::select(vec!["OK", "KO"])).prop_map(|(id, of, at, length, status)| {
        let (of, bag) = (format!("r{}", of.0), format!("g{}", of.1));
        let fields = json!({ "of": of, "bag_id": bag, "at": time(at), "until": time(at + length), "status": status });
        Step { collection: "shelf", key: format!("s{id}"), fields: Some(fields) }
    });
    let deletion =
        (prop::sample::select(vec![("plan", "p", 4_usize), ("item", "i", 8), ("bag", "g", 2), ("shelf", "s", 6)]), any::<prop::sample::Index>())
            .prop_map(|((collection, letter, most), which)| Step { collection, key: format!("{letter}{}", which.index(most)), fields: None });
    prop_oneof![3 => plan, 6 => item, 1 => bag, 2 => shelf, 2 => deletion]
}

struct Desk {
    catalogue: Arc<Catalogue>,
    rules: Arc<dyn SettlePass>,
    /// Several connections to one store, as several processes have them.
    stores: Vec<Box<dyn Store>>,
}

fn definition() -> Arc<Catalogue> {
    Arc::new(parse(DEFINITION).unwrap_or_else(|problems| panic!("{problems:?}")))
}

fn desk(catalogue: Arc<Catalogue>, stores: Vec<Box<dyn Store>>) -> Desk {
    Desk { rules: Arc::new(SettleRules::new(&catalogue)), catalogue, stores }
}

static FILE: LazyLock<Desk> = LazyLock::new(|| {
    let catalogue = definition();
    let stores = support::on_a_file(&support::folder("settle"), &catalogue, 2);
    desk(catalogue, stores)
});

static SERVER: LazyLock<Option<Desk>> = LazyLock::new(|| {
    let catalogue = definition();
    let stores = support::on_a_server("settling", &catalogue)?;
    Some(desk(catalogue, stores))
});

impl Desk {
    fn tenant(&self) -> Tenant {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Tenant::new(&format!("t{}", NEXT.fetch_add(1, Ordering::SeqCst))).expect("a tenant")
    }

    fn apply(&self, turn: usize, tenant: &Tenant, step: &Step) {
        let store = &*self.stores[turn % self.stores.len()];
        let (collection, _) = self.catalogue.collection(step.collection).expect("a collection");
        let action = match &step.fields {
            Some(fields) => EditAction::Put(EditFields { values: fields.as_object().expect("fields").clone(), ..EditFields::default() }),
            None => EditAction::Delete,
        };
        let evaluator = Evaluator::new(self.catalogue.tables.clone());
        let key = Some(Key::new(step.key.as_str()).expect("a key"));
        let edit = Edit { tenant: tenant.clone(), collection, key, action, conditions: Preconditions::default(), caller: "test".into(), call: None };
        let ended = edit::run(&Arc::new(SettleRules::new(&self.catalogue)), store, &evaluator, edit).expect("the store works");
        assert!(matches!(ended, EditResult::Done { .. } | EditResult::Missing), "{step:?}: {ended:?}");
    }

    fn settle(&self, turn: usize) {
        settle::drain(&*self.stores[turn % self.stores.len()], &self.rules, &AtomicBool::new(false)).expect("it settles");
    }

    /// Every record of every collection as JSON: the collection, the key, its golden fields.
    fn see(&self, tenant: &Tenant) -> BTreeMap<String, BTreeMap<String, Json>> {
        let mut seen = BTreeMap::new();
        for (index, collection) in self.catalogue.collections.enumerate() {
            let mut plan = QueryPlan::all(tenant.clone(), index);
            plan.columns = [PlanColumn::Key].into_iter().chain(collection.fields.ids().map(PlanColumn::Field)).collect();
            let mut records = BTreeMap::new();
            for row in self.stores[0].find(&plan).expect("rows").rows {
                let shown =
                    collection.fields.iter().zip(&row[1..]).filter(|(_, value)| !value.elements().iter().all(stook_catalogue::value::Value::is_null));
                let shown: serde_json::Map<String, Json> =
                    shown.map(|(field, value)| (field.name.clone(), value.to_json(field.golden_type()))).collect();
                records.insert(row[0].as_text().unwrap_or_default().to_owned(), Json::Object(shown));
            }
            seen.insert(collection.name.clone(), records);
        }
        seen
    }
}

// --- the oracle: looking at all records at once -------------------------------------------------------------------------

fn seconds(record: &Json, name: &str) -> Option<i64> {
    let text = record.get(name)?.as_str()?;
    let value = stook_catalogue::value::from_text(text, &stook_catalogue::value::FieldType::Timestamp, None).ok()?;
    Some(value.as_int()? / 1_000_000)
}

fn text<'r>(record: &'r Json, name: &str) -> &'r str {
    record.get(name).and_then(Json::as_str).unwrap_or_default()
}

fn number(record: &Json, name: &str) -> i64 {
    record.get(name).and_then(Json::as_i64).unwrap_or(0)
}

fn words<'r>(record: &'r Json, name: &str) -> Vec<&'r str> {
    record.get(name).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect()
}

fn duration(seconds: i64) -> Json {
    stook_catalogue::value::Value::Int(seconds * 1_000_000).to_json(&stook_catalogue::value::FieldType::Duration)
}

type Records = BTreeMap<String, Json>;

/// Computes the settled values from the others.
fn expected(steps: &[Step]) -> BTreeMap<String, Records> {
    let mut all: BTreeMap<String, Records> = BTreeMap::new();
    for step in steps {
        let own = all.entry(step.collection.to_owned()).or_default();
        match &step.fields {
            Some(fields) => {
                let mut record = fields.clone();
                record["id"] = step.key.clone().into();
                // an empty list counts as no value
                record.as_object_mut().expect("fields").retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
                own.insert(step.key.clone(), record);
            }
            None => drop(own.remove(&step.key)),
        }
    }
    let get = |name: &str| all.get(name).cloned().unwrap_or_default();
    let (mut plans, mut items, bags, shelves) = (get("plan"), get("item"), get("bag"), get("shelf"));
    let mut boxes: Records = BTreeMap::new();
    for (key, item) in &mut items {
        let (from, to) = (seconds(item, "from").expect("a time"), seconds(item, "to").expect("a time"));
        item["length"] = duration(to - from);
        let middle = 2 * from + (to - from);
        let candidates = plans.iter().filter_map(|(key, plan)| {
            let span = (seconds(plan, "from")?, seconds(plan, "to")?);
            let is_candidate = text(plan, "side") == text(item, "side") && span.0 <= to + 1 && span.1 >= from - 1;
            is_candidate.then(|| ((2 * span.0 - middle).max(middle - 2 * span.1).max(0), span.0, key.clone()))
        });
        if text(item, "kind") != "x"
            && let Some((.., plan)) = candidates.min()
        {
            item["found"] = plan.into();
        }
        let own: Vec<&String> = bags
            .iter()
            .filter(|(_, bag)| words(bag, "labels").iter().any(|label| words(item, "words").contains(label)))
            .map(|(key, _)| key)
            .collect();
        if !own.is_empty() {
            item["bag"] = json!(own);
        }
        let box_id = text(item, "box_id").to_owned();
        if !box_id.is_empty() {
            item["box"] = box_id.clone().into();
            let record = boxes.entry(box_id.clone()).or_insert_with(|| json!({ "id": box_id, "number": 0 }));
            record["number"] = (number(record, "number") + 1).into();
        }
        let found = plans.get(text(item, "found")).map(|plan| text(plan, "mode").to_owned());
        let mode = if item.get("own_mode").is_some() { Some("own".to_owned()) } else { found };
        if let Some(mode) = mode {
            item["mode"] = mode.into();
        }
        let _ = key;
    }
    for item in items.values_mut() {
        if let Some(record) = boxes.get(text(item, "box_id")) {
            item["weight"] = record["number"].clone();
        }
        let colours: Vec<&str> = words(item, "bag").iter().filter_map(|bag| Some(text(bags.get(*bag)?, "colour"))).collect();
        if !colours.is_empty() {
            (item["colour"], item["shade"]) = (json!(colours), format!("{}/{}", colours.len(), number(item, "weight")).into());
        }
    }
    let (mut local, mut sum, mut kinds, mut status) = (Records::new(), Records::new(), Records::new(), Records::new());
    for (key, plan) in &mut plans {
        let children: Vec<&Json> = items.values().filter(|item| text(item, "found") == key).collect();
        let area: Vec<i64> = children
            .iter()
            .filter(|item| text(item, "kind") == "a" && number(item, "size") > 2)
            .map(|item| seconds(item, "to").unwrap_or(0) - seconds(item, "from").unwrap_or(0))
            .collect();
        plan["area"] = duration(area.iter().sum());
        if let Some(largest) = children.iter().map(|item| number(item, "size")).max() {
            plan["largest"] = largest.into();
        }
        let different: BTreeSet<&str> = children.iter().filter(|item| number(item, "size") > 1).flat_map(|item| words(item, "words")).collect();
        plan["words"] = different.len().into();
        if text(plan, "mode") == "none" {
            continue;
        }
        let mut totals: Vec<(i64, i64)> = Vec::new();
        let wanted = if text(plan, "mode") == "both" { vec!["a", "b"] } else { vec!["a"] };
        for group in ["a", "b", "c"] {
            let own: Vec<(i64, i64, i64)> = children
                .iter()
                .filter(|item| text(item, "kind") == group && number(item, "size") > 0)
                .map(|item| (seconds(item, "from").unwrap_or(0), seconds(item, "to").unwrap_or(0), number(item, "size")))
                .collect();
            let covered = |position: i64| own.iter().any(|(from, to, _)| *from <= position && position < *to);
            let span = seconds(plan, "from").zip(seconds(plan, "to"));
            let mut gaps = Vec::new();
            let (value, expected) = match group {
                "a" => {
                    if let Some((from, to)) = span.filter(|_| wanted.contains(&"a")) {
                        // one second is tolerated at the end, and a first child that starts only a little late, or early, moves the window
                        let (from, to) = match own.iter().map(|(from, ..)| *from).min() {
                            None => (from, to),
                            Some(first) if first - from <= 2 => (first, to - 1 + first - from),
                            Some(_) => (from, to - 1),
                        };
                        let mut open = None;
                        for position in from..=to {
                            let missing = position < to && !covered(position);
                            match (missing, open) {
                                (true, None) => open = Some(position),
                                (false, Some(start)) => {
                                    gaps.push(json!({ "start": time(start), "stop": time(position), "duration": duration(position - start) }));
                                    open = None;
                                }
                                _ => {}
                            }
                        }
                    }
                    let value = (0..80).filter(|position| covered(*position)).count() as i64;
                    (value * 1_000_000, span.map_or(0, |(from, to)| (to - from) * 1_000_000))
                }
                "b" => {
                    let mut seen: Vec<(i64, i64)> = own.iter().map(|(from, _, size)| (*size, *from)).collect();
                    seen.sort_unstable();
                    // a value counts unless it is near one that counts already
                    let mut counted: Vec<(i64, i64)> = Vec::new();
                    for (size, at) in seen {
                        if counted.iter().all(|(other, before)| *other != size || at - before > 1) {
                            counted.push((size, at));
                        }
                    }
                    let value = counted.len() as i64;
                    (if value > 0 { value + 1 } else { 0 }, plan.get("largest").and_then(Json::as_i64).unwrap_or(0))
                }
                _ => (own.len() as i64, 0),
            };
            let expected = if wanted.contains(&group) { expected } else { 0 };
            if expected > 0 {
                totals.push((value.min(expected), expected));
            }
            if let Some(mut row) = row("plan", key, group, value, expected) {
                row["side"] = plan["side"].clone();
                if !gaps.is_empty() && value < expected {
                    row["gaps"] = gaps.into();
                }
                if group == "a" {
                    // seconds that more than one child covers, where two or more of them follow each other
                    let repeated = |position: i64| own.iter().filter(|(from, to, _)| (*from..*to).contains(&position)).count() > 1;
                    let starts = (0..80).filter(|start| repeated(*start) && !repeated(start - 1));
                    let parts = starts.map(|start| (start, (start..81).find(|stop| !repeated(*stop)).expect("an end")));
                    let parts: Vec<(i64, i64)> = parts.filter(|(start, stop)| stop - start > 1).collect();
                    row["overlap"] = duration(parts.iter().map(|(start, stop)| stop - start).sum());
                    if !parts.is_empty() {
                        let shown =
                            |(start, stop): &(i64, i64)| json!({ "start": time(*start), "stop": time(*stop), "duration": duration(stop - start) });
                        row["overlaps"] = parts.iter().map(shown).collect();
                    }
                }
                local.insert(format!("{key}#{group}"), row);
            }
        }
        let (value, wanted) = totals.iter().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
        if let Some(row) = row("plan", key, "all", value, wanted) {
            sum.insert(format!("{key}#all"), row);
        }
    }
    for key in boxes.keys() {
        for group in ["a", "b", "c", "x"] {
            let own = items.values().filter(|item| text(item, "box_id") == key && text(item, "kind") == group && number(item, "size") > 0).count();
            let named = items.values().any(|item| text(item, "box_id") == key && text(item, "kind") == group);
            if named
                && own > 0
                && let Some(row) = row("box", key, group, own as i64, 3)
            {
                kinds.insert(format!("{key}#{group}"), row);
            }
        }
    }
    let mut rooms = Records::new();
    let mut shelves = shelves;
    for shelf in shelves.values_mut() {
        shelf["room"] = shelf["of"].clone();
        shelf["bag"] = shelf["bag_id"].clone();
        if let Some(bag) = bags.get(text(shelf, "bag")) {
            shelf["colour"] = bag["colour"].clone();
        }
        rooms.insert(text(shelf, "of").to_owned(), json!({ "id": shelf["of"] }));
    }
    for room in rooms.keys() {
        let mut own: Vec<(i64, i64, &str, &str)> = shelves
            .iter()
            .filter(|(_, shelf)| text(shelf, "of") == room)
            .map(|(key, shelf)| (seconds(shelf, "at").unwrap_or(0), seconds(shelf, "until").unwrap_or(0), key.as_str(), text(shelf, "status")))
            .collect();
        own.sort_unstable();
        let mut runs: Vec<(&str, i64, i64)> = Vec::new();
        for (start, stop, _, value) in own {
            runs.retain(|run| run.1 != start || run.0 == value);
            match runs.last_mut() {
                Some(last) if start - last.2 <= 3 && last.0 == value => last.2 = last.2.max(stop),
                Some(last) if start - last.2 <= 3 => {
                    last.2 = start;
                    runs.push((value, start, stop));
                }
                _ => runs.push((value, start, stop)),
            }
        }
        for (value, start, stop) in runs {
            let row = json!({ "room": room, "value": value, "start": time(start), "stop": time(stop), "duration": duration(stop - start) });
            status.insert(format!("{room}@{}", time(start).as_str().unwrap_or_default()), row);
        }
    }
    let named = [
        ("plan", plans),
        ("item", items),
        ("box", boxes),
        ("bag", bags),
        ("seen", Records::new()),
        ("shelf", shelves),
        ("room", rooms),
        ("plan.local", local),
        ("plan.sum", sum),
        ("box.kinds", kinds),
        ("room.status", status),
    ];
    named.into_iter().map(|(name, records)| (name.to_owned(), records)).collect()
}

/// A row of a coverage; integers if the coverage mixes measures.
fn row(parent: &str, key: &str, group: &str, value: i64, expected: i64) -> Option<Json> {
    if value == 0 && expected == 0 {
        return None;
    }
    let mut row = json!({ parent: key, "group": group, "value": value });
    if expected > 0 {
        let adjusted = value.min(expected);
        row["expected"] = expected.into();
        row["adjusted"] = adjusted.into();
        row["percentage"] = (adjusted as f64 / expected as f64 * 100.0).into();
        let status = if adjusted == 0 {
            "Missing"
        } else if adjusted == expected {
            "Complete"
        } else {
            "Partial"
        };
        row["status"] = status.into();
    }
    Some(row)
}

fn compare(desk: &Desk, tenant: &Tenant, steps: &[Step]) {
    let seen = desk.see(tenant);
    let wanted = expected(steps);
    for (collection, records) in &wanted {
        let key_of = |records: &Records| records.keys().cloned().collect::<Vec<_>>();
        assert_eq!(key_of(&seen[collection]), key_of(records), "records of {collection}");
        for (key, record) in records {
            assert_eq!(sorted(&seen[collection][key]), sorted(record), "{collection} {key}");
        }
    }
}

fn sorted(record: &Json) -> BTreeMap<String, Json> {
    record.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Changes one after the other, settled now and then.
    #[test]
    fn settling_gives_the_same_values_as_reading_all_records(steps in prop::collection::vec((step(), prop::bool::weighted(0.2)), 1..40)) {
        let desk = &*FILE;
        let tenant = desk.tenant();
        for (step, settles) in &steps {
            desk.apply(0, &tenant, step);
            if *settles {
                desk.settle(0);
            }
        }
        desk.settle(0);
        compare(desk, &tenant, &steps.into_iter().map(|(step, _)| step).collect::<Vec<_>>());
    }
}

/// Several connections change different records at once while others settle.
fn together(desk: &Desk, steps: &[Step], sessions: usize) {
    let tenant = desk.tenant();
    let done = AtomicBool::new(false);
    let lanes: Vec<Vec<&Step>> = (0..sessions)
        .map(|session| steps.iter().filter(|step| step.key.bytes().map(usize::from).sum::<usize>() % sessions == session).collect())
        .collect();
    std::thread::scope(|scope| {
        let settlers: Vec<_> = (0..2)
            .map(|turn| {
                let done = &done;
                scope.spawn(move || {
                    while !done.load(Ordering::SeqCst) {
                        desk.settle(turn);
                    }
                })
            })
            .collect();
        let tenant = &tenant;
        let writers: Vec<_> = lanes
            .into_iter()
            .enumerate()
            .map(|(turn, own)| scope.spawn(move || own.into_iter().for_each(|step| desk.apply(turn, tenant, step))))
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
        done.store(true, Ordering::SeqCst);
        settlers.into_iter().for_each(|settler| settler.join().expect("it settles"));
    });
    desk.settle(0);
    compare(desk, &tenant, steps);
}

fn histories(cases: u32) -> impl Iterator<Item = Vec<Step>> {
    support::drawn(prop::collection::vec(step(), 10..80), cases)
}

#[test]
fn overlapping_transactions_settle_correctly_on_a_file() {
    histories(24).for_each(|steps| together(&FILE, &steps, 2));
}

#[test]
fn overlapping_transactions_settle_correctly_on_a_server() {
    if let Some(desk) = &*SERVER {
        histories(40).for_each(|steps| together(desk, &steps, 3));
    }
}

/// A check runs while connections write and settle: pending changes are not reported as wrong.
fn checked(desk: &Desk, histories: impl Iterator<Item = Vec<Step>>, sessions: usize) {
    let (rules, done) = (Arc::new(SettleRules::new(&desk.catalogue)), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let checker = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let found = settle::check(&*desk.stores[0], &rules, &AtomicBool::new(false), &|_| ()).expect("it looks").expect("nobody stops it");
                assert_eq!(found.incorrect, [], "{} are undecided", found.inconclusive);
            }
        });
        histories.take_while(|_| !checker.is_finished()).for_each(|steps| together(desk, &steps, sessions));
        done.store(true, Ordering::SeqCst);
        checker.join().expect("nothing is wrong");
    });
}

#[test]
fn a_check_during_transactions_finds_nothing_wrong_on_a_file() {
    checked(&desk(definition(), support::on_a_file(&support::folder("settle checked"), &definition(), 2)), histories(12), 2);
}

#[test]
fn a_check_during_transactions_finds_nothing_wrong_on_a_server() {
    if let Some(stores) = support::on_a_server("checked", &definition()) {
        checked(&desk(definition(), stores), histories(20), 3);
    }
}

/// Waits until a condition is true.
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Processes nothing, and keeps the lock partition of a rule's marks locked until it is released.
struct Hold {
    rule: u32,
    holds: AtomicBool,
    let_go: AtomicBool,
}

impl Hold {
    fn new(rule: u32) -> Arc<Self> {
        Arc::new(Self { rule, holds: AtomicBool::new(false), let_go: AtomicBool::new(false) })
    }
}

impl SettlePass for Hold {
    fn max_marks(&self) -> usize {
        1
    }

    fn run(&self, _tenant: &Tenant, marks: &[StaleMark], _refused: &[RefusedWrite], _desk: &mut dyn PassContext) -> stook_store::Result<PassWrites> {
        if marks.iter().all(|mark| mark.rule == self.rule) {
            self.holds.store(true, Ordering::SeqCst);
            wait("the lane is held too long", || self.let_go.load(Ordering::SeqCst));
        }
        Ok(PassWrites::default())
    }
}

/// A check corrects a record before the mark that would have corrected it is processed, and its parent only after that.
#[test]
fn a_value_computed_from_an_undecided_one_is_not_reported_as_wrong() {
    const FOUND: u32 = 0;
    const CHILD: u32 = 2;
    let Some(stores) = support::on_a_server("undecided", &definition()) else { return };
    let desk = desk(definition(), stores);
    let (rules, tenant) = (Arc::new(SettleRules::new(&desk.catalogue)), desk.tenant());
    let named =
        |prefix: &str, lane: u32| (0..).map(|number| format!("{prefix}{number}")).find(|name| lock_partition_of(name) == lane).expect("a name");
    let (side, parent, child) = (named("side", 0), named("p", 1), named("i", 2));
    let plan = |key: &str, from: i64| Step {
        collection: "plan",
        key: key.into(),
        fields: Some(json!({ "side": side, "mode": "both", "from": time(from), "to": time(from + 9) })),
    };
    let item = json!({ "side": side, "kind": "a", "from": time(1), "to": time(2), "size": 1, "words": ["u"] });
    let steps = [plan("far", 1_000), Step { collection: "item", key: child, fields: Some(item) }, plan(&parent, 0)];
    steps[..2].iter().for_each(|step| desk.apply(0, &tenant, step));
    // like a store in use, which was settled by these rules
    settle::mark_outdated(&*desk.stores[0], &rules, &|_| ()).expect("it is marked");
    desk.settle(0);
    let found = desk.catalogue.links.iter().find(|link| link.name == "found").expect("a link").id;
    let (before, behind) = (Hold::new(found), Hold::new(4));
    let has =
        |kind: u32| desk.stores[2].marks(&tenant, 100).expect("marks").iter().any(|mark| mark.rule != behind.rule && mark.pass_order & 3 == kind);
    let checked = std::thread::scope(|scope| {
        let hold = |hold: &Arc<Hold>| {
            let (pass, desk, tenant): (Arc<dyn SettlePass>, _, _) = (hold.clone(), &desk, &tenant);
            let own = hold.clone();
            scope.spawn(move || {
                while !own.holds.load(Ordering::SeqCst) {
                    desk.stores[1].settle(tenant, &pass).expect("it holds");
                }
            });
            wait("it does not hold", || hold.holds.load(Ordering::SeqCst));
        };
        let first = AtomicBool::new(true);
        // plans are marked, items are not
        let meanwhile = |_| {
            if first.swap(false, Ordering::SeqCst) {
                desk.apply(2, &tenant, &steps[2]);
                hold(&before);
                wait("the parent is not settled", || desk.stores[2].settle(&tenant, &desk.rules).expect("it settles").marks_cleared == 0 && !has(3));
                let mark = StaleMark { pass_order: 3, rule: behind.rule, target: parent.as_str().into(), ..StaleMark::default() };
                let settling = SettlingChanges { marks: vec![mark], ..SettlingChanges::default() };
                desk.stores[2].commit(Box::new(SettlingUnit { tenant: tenant.clone(), settling })).expect("it is written");
                hold(&behind);
            }
        };
        scope.spawn(|| {
            wait("the child is not marked", || has(CHILD));
            wait("the child is not settled", || !has(CHILD));
            before.let_go.store(true, Ordering::SeqCst);
            wait("nobody looks for children", || !has(FOUND));
            behind.let_go.store(true, Ordering::SeqCst);
        });
        settle::check(&*desk.stores[0], &rules, &AtomicBool::new(false), &meanwhile).expect("it looks").expect("nobody stops it")
    });
    assert_eq!(checked.incorrect, []);
    assert!(checked.inconclusive > 0);
    compare(&desk, &tenant, &steps);
}

/// Deliveries of steps, each in its own chunks, at the same time and in any order: what chunks settle inline is the same as what passes
/// would compute.
fn delivered(desk: &Desk, steps: &[Step], order: &[usize], chunk: u32, processes: usize) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let tenant = desk.tenant();
    let folder = tempfile::tempdir().expect("a folder");
    let turns = order.len().div_ceil(3).max(1);
    for turn in order.chunks(turns) {
        for name in ["plan", "item", "bag", "shelf"] {
            let own = turn.iter().filter(|place| steps[**place].collection == name);
            let text: String = own
                .map(|place| {
                    let step = &steps[*place];
                    let mut document = step.fields.clone().unwrap_or_else(|| json!({ "gone": true }));
                    (document["id"], document["made"]) = (step.key.clone().into(), time(1_000_000 + *place as i64));
                    format!("{document}\n")
                })
                .collect();
            if text.is_empty() {
                continue;
            }
            let path = folder.path().join(format!("{}.ndjson", NEXT.fetch_add(1, Ordering::SeqCst)));
            std::fs::write(&path, text).expect("a file");
            let (_, source) = desk.catalogue.source(name).expect("a source");
            let files = vec![split::inspect(&path, source).expect("it reads")];
            let new = NewJob { tenant: tenant.clone(), profile: None, source: name.into(), as_of: None, files: files.clone() };
            let job = desk.stores[0].create_job(new).expect("a job");
            let added = split::split(&files, source, chunk, SplitProgress::default(), |chunks, progress| {
                desk.stores[0].add_chunks(job, chunks, progress)?;
                Ok(true)
            });
            added.expect("it is cut");
        }
        let options = WorkerOptions { workers: 2, lease_seconds: 60, drain: true, settles: true, only: None };
        std::thread::scope(|scope| {
            for store in desk.stores.iter().cycle().take(processes) {
                scope.spawn(|| work::run(&desk.catalogue, &**store, &options, &AtomicBool::new(false), &|_| ()).expect("it works"));
            }
        });
    }
    compare(desk, &tenant, steps);
}

fn orders() -> impl Strategy<Value = (Vec<Step>, Vec<usize>, u32)> {
    prop::collection::vec(step(), 5..60).prop_flat_map(|steps| {
        let order: Vec<usize> = (0..steps.len()).collect();
        (Just(steps), Just(order).prop_shuffle(), 1..20_u32)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn chunks_settle_the_same_values_as_passes_on_a_file((steps, order, chunk) in orders()) {
        delivered(&FILE, &steps, &order, chunk, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn chunks_settle_the_same_values_as_passes_on_a_server((steps, order, chunk) in orders()) {
        if let Some(desk) = &*SERVER {
            delivered(desk, &steps, &order, chunk, 3);
        }
    }
}

/// A tenant with a hundred thousand marks gets one pass for each pass of a tenant with a few.
#[test]
fn a_large_tenant_and_a_small_one_are_settled_in_turn() {
    let desks = [Some(&*FILE), SERVER.as_ref()];
    for desk in desks.into_iter().flatten() {
        let (large, small) = (desk.tenant(), desk.tenant());
        let rules = SettleRules::new(&desk.catalogue);
        let (item, _) = desk.catalogue.collection("item").expect("a collection");
        let mark = |number: usize| StaleMark {
            pass_order: rules.depth(item) << 2 | 2,
            rule: stook_catalogue::links::id_of("item"),
            target: format!("i{number}").into(),
            ..StaleMark::default()
        };
        let settling = SettlingChanges { marks: (0..100_000).map(mark).collect(), ..SettlingChanges::default() };
        desk.stores[0].commit(Box::new(SettlingUnit { tenant: large.clone(), settling })).expect("they are written");
        let plan = |side: &str| {
            let fields = json!({ "side": side, "mode": "both", "from": time(0), "to": time(9) });
            Step { collection: "plan", key: "p1".into(), fields: Some(fields) }
        };
        let fields = json!({ "side": "l", "kind": "a", "from": time(1), "to": time(2), "size": 1, "words": ["u"] });
        let steps = [Step { collection: "item", key: "i1".into(), fields: Some(fields) }, plan("r"), plan("l")];
        steps.iter().for_each(|step| desk.apply(0, &small, step));
        let (stop, turns) = (AtomicBool::new(false), std::sync::Mutex::new(Vec::new()));
        while desk.stores[0].tenants_with_marks().expect("it tells").contains(&small) {
            settle::round(&*desk.stores[0], &desk.rules, &stop, &|tenant, _, _| turns.lock().expect("turns").push(tenant.clone()))
                .expect("it settles");
        }
        compare(desk, &small, &steps);
        let turns = turns.into_inner().expect("turns");
        let count = |tenant: &Tenant| turns.iter().filter(|own| *own == tenant).count();
        assert!(count(&large) <= count(&small) + 1, "{} passes of the large tenant, {} of the small one", count(&large), count(&small));
        assert!(desk.stores[0].tenants_with_marks().expect("it tells").contains(&large), "the large one is not done yet");
        desk.settle(0);
    }
}

/// One parent has more children than a pass reads at once, and all of them read a field of it.
#[test]
fn a_parent_with_more_children_than_are_read_at_once_is_settled() {
    const CHILDREN: usize = 9_000;
    for desk in [Some(&*FILE), SERVER.as_ref()].into_iter().flatten() {
        let item = |number: usize, size: i64| Step {
            collection: "item",
            key: format!("i{number}"),
            fields: Some(json!({ "side": "l", "kind": "x", "from": time(0), "to": time(1), "size": size, "words": [], "box_id": "b1" })),
        };
        let mut steps: Vec<Step> = (0..CHILDREN).map(|number| item(number, number as i64 % 3)).collect();
        // some change, some are deleted
        steps.extend((0..CHILDREN).step_by(100).map(|number| item(number, 7)));
        steps.extend((0..CHILDREN).step_by(7).map(|number| Step { fields: None, ..item(number, 0) }));
        let order: Vec<usize> = (0..steps.len()).collect();
        delivered(desk, &steps, &order, 1_000, 1);
    }
}

/// Number of marks of records that are to be settled as children.
fn unsettled(desk: &Desk, tenant: &Tenant) -> usize {
    desk.stores[0].marks(tenant, 100).expect("marks").iter().filter(|mark| mark.pass_order & 3 == 2).count()
}

#[test]
fn a_change_of_a_field_that_settling_does_not_read_leaves_no_marks() {
    let desk = desk(definition(), support::on_a_file(&support::folder("settle alone"), &definition(), 1));
    let tenant = desk.tenant();
    let item = |side: &str, size: i64| Step {
        collection: "item",
        key: "i1".into(),
        fields: Some(json!({ "side": side, "kind": "a", "from": time(0), "to": time(5), "size": size })),
    };
    let plan = Step { collection: "plan", key: "p1".into(), fields: Some(json!({ "side": "l", "mode": "one", "from": time(0), "to": time(9) })) };
    let steps = [plan, item("l", 1), item("l", 4), item("r", 4)];
    let found = || desk.see(&tenant)["item"]["i1"].get("found").cloned();
    desk.apply(0, &tenant, &steps[0]);
    desk.apply(0, &tenant, &steps[1]);
    desk.settle(0);
    assert_eq!(found(), Some(json!("p1")));
    // only the size for its parent changes, so it stays settled
    desk.apply(0, &tenant, &steps[2]);
    assert_eq!((unsettled(&desk, &tenant), found()), (0, Some(json!("p1"))));
    desk.settle(0);
    compare(&desk, &tenant, &steps[..3]);
    desk.apply(0, &tenant, &steps[3]);
    assert_eq!(unsettled(&desk, &tenant), 1);
    desk.settle(0);
    compare(&desk, &tenant, &steps);
}

#[test]
fn a_parent_is_created_with_its_rollups() {
    let desk = desk(definition(), support::on_a_file(&support::folder("settle made"), &definition(), 1));
    let tenant = desk.tenant();
    let item = json!({ "side": "l", "kind": "a", "from": time(0), "to": time(5), "size": 1, "box_id": "b1" });
    let item = |key: &str| Step { collection: "item", key: key.into(), fields: Some(item.clone()) };
    let steps = [item("i1"), item("i2")];
    steps.iter().for_each(|step| desk.apply(0, &tenant, step));
    let made = || desk.see(&tenant)["box"].get("b1").cloned();
    while made().is_none() {
        assert!(desk.stores[0].settle(&tenant, &desk.rules).expect("it settles").marks_cleared > 0, "nothing is left to do");
    }
    assert_eq!(number(&made().expect("it is there"), "number"), 2);
    desk.settle(0);
    compare(&desk, &tenant, &steps);
}
