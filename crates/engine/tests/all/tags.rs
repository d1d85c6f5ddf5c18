//! The law of tags: whatever arrives in whichever order, over however many processes, a record has a tag if the tag's last definition holds
//! for the record's last documents. And: the known tags of sample machines, budgets, manual tags.

use crate::support;

use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_catalogue::value::Value;
use stook_engine::import;
use stook_engine::record::{self, RecordAddress};
use stook_engine::tags::{self, TagChange, TagEvaluationUnit, TaggedCollection};
use stook_engine::withdraw::{self, WithdrawalRequest};
use stook_engine::work::{self, JobRun, WorkerOptions};
use stook_sample::machines;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::queue::{JobId, JobState};
use stook_store::tag::TagDefinition;
use stook_store::{LeaseToken, Priority, Tenant};
use support::Desk;

const DEFINITION: &str = include_str!("../../../../examples/machines/catalogue.yaml");

fn definition() -> Arc<Catalogue> {
    Arc::new(parse(DEFINITION).unwrap_or_else(|problems| panic!("{problems:?}")))
}

fn on_a_file(name: &str) -> Desk {
    let (catalogue, folder) = (definition(), support::folder(&format!("tags-{name}")));
    Desk { stores: support::on_a_file(&folder, &catalogue, 2), catalogue, folder }
}

fn on_a_server(name: &str) -> Option<Desk> {
    let catalogue = definition();
    Some(Desk { stores: support::on_a_server(name, &catalogue)?, catalogue, folder: support::folder(&format!("tags-server-{name}")) })
}

static FILE: LazyLock<Desk> = LazyLock::new(|| on_a_file("file"));
static SERVER: LazyLock<Option<Desk>> = LazyLock::new(|| on_a_server("tags"));

fn desks() -> impl Iterator<Item = &'static Desk> {
    [Some(&*FILE), SERVER.as_ref()].into_iter().flatten()
}

/// The documents of a machine: ids of the nodes in its `lshw`, and the address of its switch; `None` if a part is missing.
#[derive(Debug, Clone, PartialEq)]
struct MachineReport {
    machine: usize,
    at: i64,
    lshw: Option<Vec<&'static str>>,
    lldp: Option<&'static str>,
}

/// Documents of a machine: nodes and switch.
type Documents = (Option<Vec<&'static str>>, Option<&'static str>);

/// A definition, and when it holds.
type Known = (&'static str, fn(&Documents) -> bool);

const DEFINITIONS: [Known; 6] = [
    ("//node[@id='a']", |(lshw, _)| lshw.as_ref().is_some_and(|ids| ids.contains(&"a"))),
    ("count(//node) > 1", |(lshw, _)| lshw.as_ref().is_some_and(|ids| ids.len() > 1)),
    ("//lldp:id = 'x'", |(_, lldp)| *lldp == Some("x")),
    ("not(//node)", |(lshw, _)| lshw.as_ref().is_none_or(Vec::is_empty)),
    ("//lshw:node[@id='b'] and not(//lldp:id)", |(lshw, lldp)| lshw.as_ref().is_some_and(|ids| ids.contains(&"b")) && lldp.is_none()),
    ("true()", |_| true),
];

const TAGS: [&str; 3] = ["one", "two", "three"];

#[derive(Debug, Clone)]
enum Change {
    /// A definition, for a tag that is created if it does not exist.
    Define(usize, usize),
    Delete(usize),
    /// Another name; refused if there is no such tag, the name is taken, or the tag is being evaluated.
    Rename(usize, usize),
    Rebuild,
}

fn report() -> impl Strategy<Value = MachineReport> {
    let ids = prop::sample::subsequence(vec!["a", "b", "c"], 0..=3);
    (0..5_usize, 0..6_i64, prop::option::weighted(0.8, ids), prop::option::of(prop::sample::select(vec!["x", "y"])))
        .prop_map(|(machine, at, lshw, lldp)| MachineReport { machine, at, lshw, lldp })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (0..TAGS.len(), 0..DEFINITIONS.len()).prop_map(|(tag, definition)| Change::Define(tag, definition)),
        1 => (0..TAGS.len()).prop_map(Change::Delete),
        2 => (0..TAGS.len(), 0..TAGS.len()).prop_map(|(from, to)| Change::Rename(from, to)),
        1 => Just(Change::Rebuild),
    ]
}

impl Desk {
    fn import(&self, tenant: &Tenant, text: &str, chunk: u32) -> JobId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let path = self.folder.join(format!("{}.ndjson", NEXT.fetch_add(1, Ordering::SeqCst)));
        support::job(&self.catalogue, &*self.stores[0], tenant, "enlist", (&path, text), chunk)
    }

    fn deliver_reports(&self, tenant: &Tenant, all: &[MachineReport]) -> JobId {
        let line = |own: &MachineReport| {
            let node = |id: &&str| format!("<node id='{id}'/>");
            let lshw = own.lshw.as_ref().map(|ids| format!("<list>{}</list>", ids.iter().map(node).collect::<String>()));
            let lldp = own.lldp.map(|id| format!("<lldp><chassis><id type='mac'>{id}</id></chassis></lldp>"));
            let at = format!("2026-01-01T00:00:{:02}Z", own.at);
            json!({ "system_id": format!("m{}", own.machine), "at": at, "lshw": lshw, "lldp": lldp }).to_string() + "\n"
        };
        self.import(tenant, &all.iter().map(line).collect::<String>(), 2)
    }

    fn define(&self, tenant: &Tenant, tag: &str, definition: &str) -> Option<JobId> {
        let store = &*self.stores[0];
        let known = store.tags(tenant, CollectionId::from(0)).expect("tags").tags.iter().any(|own| own.name == tag);
        let wish = TagChange { name: tag.into(), definition: Some(TagDefinition::XPath(definition.into())), ..TagChange::default() };
        TaggedCollection::new(&self.catalogue, store, tenant, "machine").expect("it has tags").save(&[wish], !known).expect("it is sound").job
    }

    fn carriers(&self, tenant: &Tenant, tag: &str) -> BTreeSet<String> {
        let condition = Condition { column: PlanColumn::Tag, test: Comparison::Equal(Value::text(tag)) };
        let plan = QueryPlan { conditions: vec![condition], ..QueryPlan::all(tenant.clone(), CollectionId::from(0)) };
        let rows = self.stores[0].find(&plan).expect("rows").rows;
        rows.iter().map(|row| row[0].as_text().unwrap_or_default().to_owned()).collect()
    }
}

/// The newest documents of each machine; among equal times those with the larger hash.
fn documents(desk: &Desk, tenant: &Tenant, all: &[MachineReport]) -> BTreeMap<String, Documents> {
    let mut found = BTreeMap::new();
    for machine in all.iter().map(|own| own.machine).collect::<BTreeSet<_>>() {
        let key = format!("m{machine}");
        let record = record::get(&desk.catalogue, &*desk.stores[0], &RecordAddress { tenant, collection: "machine", key: &key }, false)
            .expect("it reads")
            .expect("a record");
        let text = |source: &str| {
            let own = record.contributions.iter().find(|own| &*own.contributor == source)?;
            Some(String::from_utf8_lossy(&own.raw.as_ref()?.bytes).into_owned())
        };
        // which of two documents of one time wins is not tested here, only that one of the newest does
        let of = |text: &Option<String>, newest: &mut dyn Iterator<Item = (i64, String)>| {
            let newest: Vec<(i64, String)> = newest.collect();
            let last = newest.iter().map(|(at, _)| *at).max();
            let fits = newest.iter().any(|(at, own)| Some(*at) == last && Some(own) == text.as_ref());
            assert!(fits || (newest.is_empty() && text.is_none()), "{newest:?} {text:?}");
        };
        let own = || all.iter().filter(move |own| own.machine == machine);
        let node = |id: &&str| format!("<node id='{id}'/>");
        let lshw = |ids: &Vec<&str>| format!("<list>{}</list>", ids.iter().map(node).collect::<String>());
        of(&text("lshw"), &mut own().filter_map(|own| Some((own.at, lshw(own.lshw.as_ref()?)))));
        let lldp = |id: &str| format!("<lldp><chassis><id type='mac'>{id}</id></chassis></lldp>");
        of(&text("lldp"), &mut own().filter_map(|own| Some((own.at, lldp(own.lldp?)))));
        let ids = text("lshw").map(|text| ["a", "b", "c"].into_iter().filter(|id| text.contains(&node(id))).collect());
        let switch = text("lldp").map(|text| if text.contains(">x<") { "x" } else { "y" });
        found.insert(key, (ids, switch));
    }
    found
}

fn assert_tags_follow_the_last_definition(desk: &Desk, groups: &[Vec<MachineReport>], changes: &[Change], processes: usize) {
    let tenant = desk.new_tenant();
    let over = AtomicBool::new(false);
    let options = WorkerOptions { workers: 2, lease_seconds: 60, drain: false, settles: true, only: None };
    let mut wanted: BTreeMap<usize, usize> = BTreeMap::new();
    std::thread::scope(|scope| {
        for store in desk.stores.iter().cycle().take(processes) {
            scope.spawn(|| work::run(&desk.catalogue, &**store, &options, &over, &|_| ()).expect("it works"));
        }
        let delivering = scope.spawn(|| groups.iter().for_each(|group| assert!(desk.deliver_reports(&tenant, group) > 0)));
        let store = &*desk.stores[0];
        for change in changes {
            match change {
                Change::Define(tag, definition) => {
                    desk.define(&tenant, TAGS[*tag], DEFINITIONS[*definition].0);
                    wanted.insert(*tag, *definition);
                }
                Change::Delete(tag) if wanted.remove(tag).is_some() => {
                    TaggedCollection::new(&desk.catalogue, store, &tenant, "machine").expect("it has tags").delete(TAGS[*tag]).expect("it is there");
                }
                Change::Delete(_) => {}
                Change::Rename(from, to) => {
                    let tags = TaggedCollection::new(&desk.catalogue, store, &tenant, "machine").expect("it has tags");
                    let renamed = tags.rename(TagChange { name: TAGS[*from].into(), ..TagChange::default() }, TAGS[*to]);
                    let is_possible = wanted.contains_key(from) && (from == to || !wanted.contains_key(to));
                    match renamed {
                        Ok(_) => {
                            assert!(is_possible, "{from} to {to}");
                            wanted.remove(from).map(|definition| wanted.insert(*to, definition));
                        }
                        Err(error) => assert!(!is_possible || error.to_string().contains("it is being evaluated"), "{error}"),
                    }
                }
                Change::Rebuild => {
                    TaggedCollection::new(&desk.catalogue, store, &tenant, "machine").expect("it has tags").reevaluate(&[]).expect("it is made");
                }
            }
        }
        delivering.join().expect("no panic");
        over.store(true, Ordering::SeqCst);
    });
    desk.drain(processes);
    let all: Vec<MachineReport> = groups.iter().flatten().cloned().collect();
    let now = documents(desk, &tenant, &all);
    let check = |now: &BTreeMap<String, Documents>, when: &str| {
        for (tag, name) in TAGS.iter().enumerate() {
            let holds = |documents: &Documents| wanted.get(&tag).is_some_and(|definition| DEFINITIONS[*definition].1(documents));
            let expected: BTreeSet<String> = now.iter().filter(|(_, documents)| holds(documents)).map(|(key, _)| key.clone()).collect();
            assert_eq!(desk.carriers(&tenant, name), expected, "{when} {name} {:?}", wanted.get(&tag).map(|own| DEFINITIONS[*own].0));
        }
    };
    check(&now, "at the end");
    // evaluating everything again changes nothing
    if let Some(job) =
        TaggedCollection::new(&desk.catalogue, &*desk.stores[0], &tenant, "machine").expect("it has tags").reevaluate(&[]).expect("it is made")
    {
        desk.drain(1);
        let progress = tags::progress(&desk.stores[0].job(job).expect("the job"));
        assert_eq!((&progress["added"], &progress["removed"]), (&json!(0), &json!(0)), "{progress}");
    }
    // without the contributions of lshw
    withdraw::withdraw(
        &desk.catalogue,
        &*desk.stores[0],
        &WithdrawalRequest { tenant: &tenant, contributor: "lshw", collection: None, key: None },
        &|_| (),
    )
    .expect("it is withdrawn");
    let without: BTreeMap<String, Documents> = now.into_iter().map(|(key, (_, lldp))| (key, (None, lldp))).collect();
    check(&without, "without lshw");
}

fn histories() -> impl Strategy<Value = (Vec<Vec<MachineReport>>, Vec<Change>)> {
    (prop::collection::vec(prop::collection::vec(report(), 1..6), 1..5), prop::collection::vec(change(), 1..7))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tags_follow_the_last_definition_and_the_last_documents_on_a_file((groups, changes) in histories()) {
        assert_tags_follow_the_last_definition(&FILE, &groups, &changes, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, max_shrink_iters: 50, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tags_follow_the_last_definition_and_the_last_documents_on_a_server((groups, changes) in histories()) {
        if let Some(desk) = &*SERVER {
            assert_tags_follow_the_last_definition(desk, &groups, &changes, 3);
        }
    }
}

#[test]
fn records_have_the_tags_that_the_sample_expects() {
    const MACHINES: u64 = 1_200;
    for desk in desks() {
        let tenant = desk.new_tenant();
        let text: String = (1..=MACHINES).map(|number| machines::machine(7, number).line().to_string() + "\n").collect();
        // half of the tags exist before the machines, half are created later
        let (before, after) = machines::TAGS.split_at(10);
        let save = |all: &[machines::SampleTag]| {
            let wish = |tag: &machines::SampleTag| TagChange {
                name: tag.name.into(),
                definition: Some(TagDefinition::XPath(tag.xpath.into())),
                ..TagChange::default()
            };
            let wishes: Vec<TagChange> = all.iter().map(wish).collect();
            TaggedCollection::new(&desk.catalogue, &*desk.stores[0], &tenant, "machine")
                .expect("it has tags")
                .save(&wishes, true)
                .expect("they are sound")
                .job
                .expect("a job")
        };
        let empty = save(before);
        let job = desk.import(&tenant, &text, 250);
        desk.drain(desk.stores.len());
        let imported = desk.stores[0].job(job).expect("the job");
        assert_eq!(imported.state, JobState::Completed);
        let rebuilt = save(after);
        desk.drain(desk.stores.len());
        assert_eq!(tags::progress(&desk.stores[0].job(empty).expect("the job"))["added"], 0);
        let mut added = 0;
        for (index, machines::SampleTag { name, carries, .. }) in machines::TAGS.iter().enumerate() {
            let expected: BTreeSet<String> =
                (1..=MACHINES).map(|number| machines::machine(7, number)).filter(carries).map(|machine| machine.id()).collect();
            assert_eq!(desk.carriers(&tenant, name), expected, "{name}");
            added += if index < before.len() { 0 } else { expected.len() };
        }
        let progress = tags::progress(&desk.stores[0].job(rebuilt).expect("the job"));
        assert_eq!((progress["added"].as_u64(), &progress["removed"], &progress["records"]), (Some(added as u64), &json!(0), &json!(MACHINES)));
        // a damaged part affects only itself
        let cut = (1..=MACHINES).filter(|number| machines::machine(7, *number).lshw == machines::LshwState::Cut).count();
        assert_eq!((imported.counts.warnings, imported.counts.documents), (cut as i64, MACHINES as i64));
        // importing the same again changes nothing
        let job = desk.import(&tenant, &text, 250);
        desk.drain(1);
        let counts = desk.stores[0].job(job).expect("the job").counts;
        assert_eq!(counts.of(stook_store::journal::Outcome::Unchanged), MACHINES as i64);
    }
}

#[test]
fn a_late_result_of_an_older_definition_is_not_written() {
    // no other workers take its chunks
    for desk in [Some(on_a_file("late")), on_a_server("late")].iter().flatten() {
        let (tenant, store) = (desk.new_tenant(), &*desk.stores[0]);
        let report = |machine, ids: &[&'static str]| MachineReport { machine, at: 1, lshw: Some(ids.to_vec()), lldp: None };
        desk.deliver_reports(&tenant, &[report(0, &["a"]), report(1, &["a", "b"]), report(2, &[])]);
        desk.drain(1);
        let begin = |definition: &str| {
            let job = desk.define(&tenant, "one", definition).expect("a job");
            let lease = store.lease(Some(job), 1, 60).expect("it leases").pop().expect("a chunk");
            let fence = LeaseToken { chunk: lease.chunk, token: lease.token };
            let range = TagEvaluationUnit::new(&desk.catalogue, store, (&tenant, "machine"), &lease.slice, fence).expect("it is read");
            (job, range)
        };
        // A, and then B while A is evaluated: A's chunk no longer belongs to A
        let (_, late) = begin("//node[@id='a']");
        let (_, other) = begin("count(//node) > 1");
        assert!(store.submit(Box::new(late), Priority::Bulk).wait().is_err());
        assert_eq!(desk.carriers(&tenant, "one"), BTreeSet::new());
        // A again while B is evaluated, by a process that does not end B's job: B's result now belongs to A
        let mut again = store.tags(&tenant, CollectionId::from(0)).expect("tags").tags;
        (again[0].definition, again[0].generation) = (TagDefinition::XPath("//node[@id='a']".into()), store.clock());
        store.put_tags(&tenant, CollectionId::from(0), again, false).expect("it is written");
        store.submit(Box::new(other), Priority::Bulk).wait().expect("it is written");
        assert_eq!(desk.carriers(&tenant, "one"), ["m0", "m1"].map(str::to_owned).into());
        // a document that changes while a definition is evaluated wins
        let (job, range) = begin("not(//node)");
        let newer = desk.deliver_reports(&tenant, &[MachineReport { at: 2, ..report(0, &[]) }]);
        import::run(&desk.catalogue, store, &JobRun { job: newer, workers: 1, settles: false, stop: &AtomicBool::new(false) }, &|_| ())
            .expect("it is imported");
        store.submit(Box::new(range), Priority::Bulk).wait().expect("it is written");
        assert_eq!(desk.carriers(&tenant, "one"), ["m0", "m2"].map(str::to_owned).into());
        assert_eq!(store.job_state(job).expect("the job"), JobState::Completed);
    }
}

#[test]
fn tags_stay_until_they_are_replaced_even_if_the_evaluation_is_cancelled() {
    const MACHINES: usize = 2_500;
    for desk in [Some(on_a_file("cancelled")), on_a_server("cancelled")].iter().flatten() {
        let (tenant, store) = (desk.new_tenant(), &*desk.stores[0]);
        // half of them have a, the others b
        let id = |index: usize| format!("m{index:05}");
        let line = |index: usize| {
            let lshw = format!("<list><node id='{}'/></list>", if index.is_multiple_of(2) { "a" } else { "b" });
            json!({ "system_id": id(index), "at": "2026-01-01T00:00:00Z", "lshw": lshw }).to_string() + "\n"
        };
        desk.import(&tenant, &(0..MACHINES).map(line).collect::<String>(), 1_000);
        desk.drain(1);
        let with = |remainder: usize| (0..MACHINES).filter(move |index| index % 2 == remainder).map(id);
        let (even, odd): (BTreeSet<String>, BTreeSet<String>) = (with(0).collect(), with(1).collect());
        desk.define(&tenant, "one", "//node[@id='a']");
        desk.define(&tenant, "two", "//node[@id='a']");
        desk.drain(1);
        assert_eq!(desk.carriers(&tenant, "one"), even);
        let lease = |job: JobId| {
            let lease = store.lease(Some(job), 1, 60).expect("it leases").pop().expect("a chunk");
            let fence = LeaseToken { chunk: lease.chunk, token: lease.token };
            let range = TagEvaluationUnit::new(&desk.catalogue, store, (&tenant, "machine"), &lease.slice, fence).expect("it is read");
            (lease.slice, range)
        };
        // all ranges are read before the first one is written, then that one alone
        let job = desk.define(&tenant, "one", "//node[@id='b']").expect("a job");
        assert_eq!(desk.carriers(&tenant, "one"), even);
        let (first, range) = lease(job);
        store.submit(Box::new(range), Priority::Bulk).wait().expect("it is written");
        let is_done = |key: &String| *key < id(first.documents as usize);
        let mixed: BTreeSet<String> = odd.iter().filter(|key| is_done(key)).chain(even.iter().filter(|key| !is_done(key))).cloned().collect();
        assert_eq!((first.documents, desk.carriers(&tenant, "one")), (1_000, mixed.clone()));
        // cancelled while another range is evaluated, which is not written then
        let (_, late) = lease(job);
        store.end_job(job, JobState::Cancelled, "enough").expect("it ends");
        assert!(store.submit(Box::new(late), Priority::Bulk).wait().is_err());
        desk.drain(1);
        assert_eq!(desk.carriers(&tenant, "one"), mixed);
        assert_eq!(tags::stale(&desk.catalogue, store, &tenant, CollectionId::from(0)).expect("it reads"), ["one"]);
        // and again: what is missing is done, and nothing else changes
        let job = TaggedCollection::new(&desk.catalogue, store, &tenant, "machine")
            .expect("it has tags")
            .reevaluate(&["one".to_owned()])
            .expect("it is made")
            .expect("a job");
        assert_eq!(desk.carriers(&tenant, "one"), mixed);
        desk.drain(1);
        assert_eq!((desk.carriers(&tenant, "one"), desk.carriers(&tenant, "two")), (odd.clone(), even.clone()));
        let progress = tags::progress(&store.job(job).expect("the job"));
        let remaining = |keys: &BTreeSet<String>| keys.iter().filter(|key| !is_done(key)).count();
        assert_eq!((&progress["added"], &progress["removed"]), (&json!(remaining(&odd)), &json!(remaining(&even))), "{progress}");
        assert!(tags::stale(&desk.catalogue, store, &tenant, CollectionId::from(0)).expect("it reads").is_empty());
        // a second definition goes through what is left of the first in the same ranges: documents are read once for both
        let job = desk.define(&tenant, "one", "//node[@id='a']").expect("a job");
        store.submit(Box::new(lease(job).1), Priority::Bulk).wait().expect("it is written");
        let both = desk.define(&tenant, "two", "//node[@id='b']").expect("a job");
        assert_eq!(store.job_state(job).expect("the job"), JobState::Cancelled);
        let chunks = store.chunks(Some(both)).expect("chunks");
        assert_eq!(chunks.iter().map(|chunk| chunk.documents as usize).collect::<Vec<_>>(), [1_000, 1_000, 500]);
        desk.drain(1);
        let progress = tags::progress(&store.job(both).expect("the job"));
        assert_eq!(progress["records"], json!(MACHINES));
        // all of the second, and what was left of the first
        assert_eq!(progress["added"], json!(odd.len() + remaining(&even)), "{progress}");
        assert_eq!((desk.carriers(&tenant, "one"), desk.carriers(&tenant, "two")), (even, odd));
    }
}

#[test]
fn an_xpath_that_exceeds_its_steps_is_counted_and_reported() {
    for desk in desks() {
        let (tenant, store) = (desk.new_tenant(), &*desk.stores[0]);
        let nodes: String = (0..400).map(|_| "<node><x/></node>").collect();
        let line = |id: usize, nodes: &str| {
            json!({ "system_id": format!("m{id}"), "at": "2026-01-01T00:00:00Z", "lshw": format!("<list>{nodes}</list>") }).to_string() + "\n"
        };
        desk.import(&tenant, &(line(1, &nodes) + &line(2, "<node/>")), 10);
        desk.drain(1);
        let job = desk.define(&tenant, "slow", "count(//*[//*[//*]]) > 0 and //*[//*[//*[. = 'nothing']]] or true()").expect("a job");
        desk.drain(1);
        let done = store.job(job).expect("the job");
        assert_eq!(tags::progress(&done)["failed"], 1);
        assert_eq!(desk.carriers(&tenant, "slow"), ["m2".to_owned()].into());
        let troubles = done.counts.of(stook_store::journal::Outcome::Failed);
        assert_eq!((done.state, troubles), (JobState::CompletedWithErrors, 1));
        let entries = store.journal(job, 0, 10, true).expect("the journal");
        assert_eq!(entries[0].key.as_deref(), Some("m1"));
        assert!(entries[0].reasons.iter().any(|reason| reason.contains("tag slow: the XPath exceeded 200000 steps")), "{entries:?}");
        // in a chunk it is a warning of the document
        let job = desk.import(&tenant, &line(3, &nodes), 10);
        desk.drain(1);
        assert_eq!(store.job(job).expect("the job").counts.warnings, 1);
    }
}

#[test]
fn a_manual_tag_is_given_and_removed_only_by_hand() {
    for desk in desks() {
        let (tenant, store) = (desk.new_tenant(), &*desk.stores[0]);
        let report = |machine| MachineReport { machine, at: 1, lshw: Some(vec!["a"]), lldp: None };
        desk.deliver_reports(&tenant, &[report(0), report(1)]);
        desk.drain(1);
        let manual = TagChange { name: "rack7".into(), ..TagChange::default() };
        TaggedCollection::new(&desk.catalogue, store, &tenant, "machine")
            .expect("it has tags")
            .save(std::slice::from_ref(&manual), true)
            .expect("it is made");
        let keys = |names: &[&str]| names.iter().map(|name| Key::new(*name).expect("a key")).collect::<Vec<_>>();
        let assign = |add: &[&str], remove: &[&str]| {
            let (given, unknown) = TaggedCollection::new(&desk.catalogue, store, &tenant, "machine")
                .expect("it has tags")
                .assign("rack7", &keys(add), &keys(remove))
                .expect("it is manual");
            (given.added.len() as u64, given.removed.len() as u64, unknown.len())
        };
        assert_eq!(assign(&["m0", "m1", "m9"], &[]), (2, 0, 1));
        assert_eq!(assign(&["m0"], &["m1"]), (0, 1, 0));
        desk.define(&tenant, "one", "//node");
        desk.deliver_reports(&tenant, &[MachineReport { at: 3, lshw: Some(vec![]), ..report(0) }]);
        desk.drain(1);
        assert_eq!(desk.carriers(&tenant, "rack7"), ["m0".to_owned()].into());
        assert_eq!(desk.carriers(&tenant, "one"), ["m1".to_owned()].into());
        let wrong = |wish: TagChange, new: bool| {
            TaggedCollection::new(&desk.catalogue, store, &tenant, "machine").expect("it has tags").save(&[wish], new).expect_err("wrong").to_string()
        };
        assert_eq!(wrong(manual, true), "there is a tag `rack7` already");
        let xpath =
            |name: &str, text: &str| TagChange { name: name.into(), definition: Some(TagDefinition::XPath(text.into())), ..TagChange::default() };
        assert!(wrong(xpath("rack7", "//a"), false).contains("is manual"));
        assert!(wrong(xpath("none", "//a"), false).contains("there is no tag"));
        assert!(wrong(xpath("two words", "//a"), true).contains("is not a tag's name"));
        assert_eq!(wrong(xpath("two", "//a[b = ]"), true), "tag `two`: column 9 of the XPath: expected a step of a path");
        assert!(wrong(xpath("two", "//nge:bar"), true).contains("`nge` is not bound; bound are lldp, lshw"));
        let assigned = TaggedCollection::new(&desk.catalogue, store, &tenant, "machine").expect("it has tags").assign("one", &keys(&["m0"]), &[]);
        assert!(assigned.expect_err("not manual").to_string().contains("only manual tags"));
        let attributes =
            |name: &str| TagChange { name: "rack7".into(), attributes: json!({ name: "nomodeset" }).as_object().cloned(), ..TagChange::default() };
        assert!(wrong(attributes("kernel"), false).contains("there is no attribute `kernel`"));
        TaggedCollection::new(&desk.catalogue, store, &tenant, "machine")
            .expect("it has tags")
            .save(&[attributes("kernel_options")], false)
            .expect("it is known");
        let shown =
            TaggedCollection::new(&desk.catalogue, store, &tenant, "machine").expect("it has tags").show("rack7").expect("it reads").expect("a tag");
        assert_eq!((&shown["attributes"]["kernel_options"], &shown["records"]), (&json!("nomodeset"), &json!(1)));
        // deleted, and made anew, nobody carries it
        TaggedCollection::new(&desk.catalogue, store, &tenant, "machine").expect("it has tags").delete("one").expect("it is there");
        assert!(TaggedCollection::new(&desk.catalogue, store, &tenant, "machine").expect("it has tags").delete("one").is_err());
        assert_eq!(desk.carriers(&tenant, "one"), BTreeSet::new());
    }
}

#[test]
fn advice_is_given_when_a_tag_is_saved() {
    let desk = &*FILE;
    let wish = TagChange {
        name: "typo".into(),
        definition: Some(TagDefinition::XPath("contains(//node[@id=network]/vendor, 'Intel')".into())),
        ..TagChange::default()
    };
    let saved = TaggedCollection::new(&desk.catalogue, &*desk.stores[0], &desk.new_tenant(), "machine")
        .expect("it has tags")
        .save(&[wish], true)
        .expect("it is sound");
    assert!(saved.advice.iter().any(|(_, advice)| advice.contains("did you mean 'network'?")), "{:?}", saved.advice);
}
