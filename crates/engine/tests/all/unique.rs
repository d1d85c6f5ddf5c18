//! The law of waiting: when no mark is left, a record that settling was to write, and could not because another one had its unique value, is
//! written unless another one still has that value.

use crate::support;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_engine::edit::{self, Edit, EditAction, EditFields, EditResult, Preconditions};
use stook_engine::settle::{self, SettleRules};
use stook_engine::withdraw::{self, WithdrawalRequest};
use stook_engine::work::{self, WorkerOptions};
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::{SettlePass, Store, Tenant};

const DEFINITION: &str = "\
catalogue: waiting
sources:
  list:
    format: csv
    let: { made: { path: made, type: timestamp } }
    as_of: made
    replaces: { scope: \"'all'\", most: 100% }
    into: person
  item: { format: csv, as_of: meta.received, into: item }
collections:
  item:
    key: id
    fields: { id: { path: id, type: text }, names: [text] }
    links: { of: { to: person, key: names, create: true } }
  person:
    key: id
    exists: any
    fields:
      id: { path: id, type: text }
      own: { path: own, type: text, survivorship: { prefer: [list] } }
      login: { type: text, derive: \"coalesce(own, id)\", unique: true, fold: true }
";

struct Desk {
    catalogue: Arc<Catalogue>,
    rules: Arc<SettleRules>,
    stores: Vec<Box<dyn Store>>,
}

/// A desk for each store.
fn desks(name: &str) -> Vec<Desk> {
    let catalogue: Arc<Catalogue> = Arc::new(parse(DEFINITION).unwrap_or_else(|problems| panic!("{problems:?}")));
    let stores = [Some(support::on_a_file(&support::folder(name), &catalogue, 2)), support::on_a_server(name, &catalogue)];
    let desk = |stores| Desk { catalogue: catalogue.clone(), rules: Arc::new(SettleRules::new(&catalogue)), stores };
    stores.into_iter().flatten().map(desk).collect()
}

/// A change of one record.
#[derive(Debug, Clone)]
enum Step {
    /// An item names persons.
    Name(String, Vec<String>),
    /// A document says which login a person has; nothing is its key.
    Login(String, Option<String>),
    /// No document speaks of it any more.
    Withdraw(String),
}

fn step() -> impl Strategy<Value = Step> {
    let names = vec!["a", "A", "b", "B", "c"];
    let text = |name: &'static str| name.to_owned();
    let person = prop::sample::select(names.clone()).prop_map(text);
    let login = prop::option::of(prop::sample::select(vec!["a", "b", "c", "x"]).prop_map(text));
    let named = prop::sample::subsequence(names, 0..=3).prop_map(|names| names.into_iter().map(str::to_owned).collect());
    prop_oneof![
        3 => (0..4_usize, named).prop_map(|(item, named)| Step::Name(format!("i{item}"), named)),
        3 => (person.clone(), login).prop_map(|(person, login)| Step::Login(person, login)),
        2 => person.prop_map(Step::Withdraw),
    ]
}

impl Desk {
    fn tenant(&self) -> Tenant {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Tenant::new(&format!("t{}", NEXT.fetch_add(1, Ordering::SeqCst))).expect("a tenant")
    }

    fn apply(&self, turn: usize, tenant: &Tenant, step: &Step) {
        let store = &*self.stores[turn % self.stores.len()];
        let (collection, key, fields) = match step {
            Step::Name(item, names) => ("item", item, json!({ "names": names })),
            Step::Login(person, login) => ("person", person, json!({ "own": login })),
            Step::Withdraw(person) => {
                withdraw::withdraw(
                    &self.catalogue,
                    store,
                    &WithdrawalRequest { tenant, contributor: "api", collection: Some("person"), key: Some(person) },
                    &|_| (),
                )
                .expect("it is withdrawn");
                return;
            }
        };
        let (collection, _) = self.catalogue.collection(collection).expect("a collection");
        let action = EditAction::Put(EditFields { values: fields.as_object().expect("fields").clone(), ..EditFields::default() });
        let key = Some(Key::new(key.as_str()).expect("a key"));
        let edit = Edit { tenant: tenant.clone(), collection, key, action, conditions: Preconditions::default(), caller: "test".into(), call: None };
        let ended = edit::run(&self.rules, store, &Evaluator::new(self.catalogue.tables.clone()), edit).expect("the store works");
        assert!(matches!(ended, EditResult::Done { .. } | EditResult::UniqueConflict { .. }), "{step:?}: {ended:?}");
    }

    fn settle(&self, turn: usize) {
        let pass: Arc<dyn SettlePass> = self.rules.clone();
        settle::drain(&*self.stores[turn % self.stores.len()], &pass, &AtomicBool::new(false)).expect("it settles");
    }

    /// Records of a collection, by key, as lists of values.
    fn see(&self, tenant: &Tenant, collection: &str) -> BTreeMap<String, Vec<Json>> {
        let (index, collection) = self.catalogue.collection(collection).expect("a collection");
        let mut plan = QueryPlan::all(tenant.clone(), index);
        plan.columns = [PlanColumn::Key].into_iter().chain(collection.fields.ids().map(PlanColumn::Field)).collect();
        let rows = self.stores[0].find(&plan).expect("rows").rows.into_iter();
        let shown = |row: &[stook_catalogue::value::Value]| {
            collection.fields.iter().zip(row).map(|(field, value)| value.to_json(field.golden_type())).collect()
        };
        rows.map(|row| (row[0].as_text().unwrap_or_default().to_owned(), shown(&row[1..]))).collect()
    }

    /// Nobody who is named waits for a login that nobody else has.
    fn assert_no_record_waits_for_a_free_value(&self, tenant: &Tenant, steps: &[Step]) {
        let persons = self.see(tenant, "person");
        let logins: Vec<String> = persons.values().filter_map(|person| Some(person[2].as_str()?.to_lowercase())).collect();
        let taken: BTreeSet<&String> = logins.iter().collect();
        assert_eq!(taken.len(), logins.len(), "{persons:?}");
        for name in self.see(tenant, "item").values().flat_map(|item| item[1].as_array()).flatten().filter_map(Json::as_str) {
            assert!(persons.contains_key(name) || taken.contains(&name.to_lowercase()), "{name} is not there: {persons:?} after {steps:?}");
        }
    }
}

fn histories(cases: u32) -> impl Iterator<Item = Vec<Step>> {
    support::drawn(prop::collection::vec(step(), 5..40), cases)
}

/// One after the other, settled now and then.
#[test]
fn a_linked_record_is_created_as_soon_as_its_unique_value_is_free() {
    for desk in desks("waiting") {
        for (case, steps) in histories(60).enumerate() {
            let tenant = desk.tenant();
            for (index, step) in steps.iter().enumerate() {
                desk.apply(0, &tenant, step);
                if (case + index) % 3 == 0 {
                    desk.settle(0);
                }
            }
            desk.settle(0);
            desk.assert_no_record_waits_for_a_free_value(&tenant, &steps);
        }
    }
}

/// Sessions name, change and withdraw at once, while others settle.
#[test]
fn a_unique_value_that_is_given_up_during_a_pass_is_noticed() {
    for desk in desks("waiting_together") {
        for steps in histories(30) {
            let (tenant, done) = (desk.tenant(), AtomicBool::new(false));
            std::thread::scope(|scope| {
                let settlers: Vec<_> = (0..2)
                    .map(|turn| {
                        let (desk, done) = (&desk, &done);
                        scope.spawn(move || {
                            while !done.load(Ordering::SeqCst) {
                                desk.settle(turn);
                            }
                        })
                    })
                    .collect();
                let (desk, tenant, steps) = (&desk, &tenant, &steps);
                let writers: Vec<_> = (0..2)
                    .map(|turn| scope.spawn(move || steps.iter().skip(turn).step_by(2).for_each(|step| desk.apply(turn, tenant, step))))
                    .collect();
                let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
                // also when a writer has panicked: the others would settle for ever
                done.store(true, Ordering::SeqCst);
                written.into_iter().for_each(|written| written.expect("it writes"));
                settlers.into_iter().for_each(|settler| settler.join().expect("it settles"));
            });
            desk.settle(0);
            desk.assert_no_record_waits_for_a_free_value(&tenant, &steps);
        }
    }
}

/// More wait for one value than a pass reads at once.
#[test]
fn one_of_thousands_of_waiting_records_gets_a_unique_value_that_is_given_up() {
    const WAITING: usize = 5_000;
    for desk in desks("waiting_many") {
        let tenant = desk.tenant();
        desk.apply(0, &tenant, &Step::Login("holder".into(), Some("A".repeat(20))));
        // equal without regard to case
        let spelling = |number: usize| (0..20).map(|bit| if number >> bit & 1 == 1 { 'A' } else { 'a' }).collect::<String>();
        let names: Vec<String> = (0..WAITING).map(spelling).collect();
        names.chunks(500).enumerate().for_each(|(index, some)| desk.apply(0, &tenant, &Step::Name(format!("i{index}"), some.to_vec())));
        desk.settle(0);
        assert_eq!(desk.see(&tenant, "person").len(), 1);
        desk.apply(0, &tenant, &Step::Login("holder".into(), None));
        desk.settle(0);
        assert_eq!(desk.see(&tenant, "person").len(), 2, "one of them has it now");
    }
}

/// A record that a complete delivery could not retire, because it would then have the value of another one.
#[test]
fn a_record_is_retired_as_soon_as_the_value_it_falls_back_to_is_free() {
    for desk in desks("waiting_retired") {
        let (tenant, folder) = (desk.tenant(), support::folder("waiting files"));
        let list = |name: &str, text: &str| {
            let path = folder.join(name);
            let store = &*desk.stores[0];
            support::job_of(&desk.catalogue, store, &tenant, "list", (&path, text), (1_000, true));
            let options = WorkerOptions { workers: 1, lease_seconds: 60, drain: true, settles: true, only: None };
            work::run(&desk.catalogue, store, &options, &AtomicBool::new(false), &|_| ()).expect("it works");
        };
        let login = |person: &str| desk.see(&tenant, "person").get(person).map(|person| person[2].clone());
        desk.apply(0, &tenant, &Step::Login("p".into(), Some("old".into())));
        list("1.csv", "id,own,made\np,new,2020-01-01T00:00:00Z\nq,q,2020-01-01T00:00:00Z\n");
        assert_eq!(login("p"), Some(json!("new")));
        desk.apply(0, &tenant, &Step::Login("r".into(), Some("old".into())));
        list("2.csv", "id,own,made\nq,q,2021-01-01T00:00:00Z\n");
        assert_eq!((login("p"), login("r")), (Some(json!("new")), Some(json!("old"))), "it stays, for r has the value");
        desk.apply(0, &tenant, &Step::Login("r".into(), Some("other".into())));
        desk.settle(0);
        assert_eq!((login("p"), login("r")), (Some(json!("old")), Some(json!("other"))));
    }
}
