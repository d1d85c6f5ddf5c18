//! Somebody who follows the changes of a tenant's records, and makes the same records of them.

use super::Desk;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use stook_catalogue::definition::Catalogue;
use stook_engine::change_feed::{Change, ChangeFollower};
use stook_engine::record::to_json;
use stook_store::change_feed::ChangeKind;
use stook_store::{ReadDetail, Store, Tenant};

/// Records by collection and key.
pub type Records = BTreeMap<(String, String), Map<String, Json>>;

/// What somebody knows who follows.
#[derive(Debug, Default)]
pub struct Follower {
    pub cursor: Option<String>,
    pub records: Records,
    revisions: BTreeMap<(String, String), i64>,
    pub changes: usize,
}

impl Follower {
    /// Reads on until nothing more is committed, in pages of some changes.
    pub fn read(&mut self, catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, page: usize) {
        let follower = ChangeFollower::new(catalogue, store, tenant, None).expect("changes are kept");
        let mut cursor = follower.begin(self.cursor.as_deref()).expect("a cursor");
        loop {
            let found = follower.read(&cursor, page).expect("changes are read");
            for change in &found.changes {
                self.apply(change);
            }
            cursor = found.next;
            self.cursor = Some(cursor.to_string());
            if found.changes.is_empty() {
                return;
            }
        }
    }

    /// Applies a change. Whoever follows from the beginning sees that each fits what is known.
    fn apply(&mut self, change: &Change) {
        let id = (change.collection.clone(), change.entry.key.clone());
        let known = self.records.get_mut(&id);
        match (change.entry.kind, known) {
            (ChangeKind::Created, None) => drop(self.records.insert(id.clone(), change.entry.fields.clone())),
            (ChangeKind::Deleted, Some(_)) => drop(self.records.remove(&id)),
            // what was noted of an erased record before its deletion is removed
            (ChangeKind::Deleted, None) => {}
            (ChangeKind::Changed, Some(known)) => {
                assert!(!change.entry.fields.is_empty(), "{change:?}");
                for (name, value) in &change.entry.fields {
                    let before = if value.is_null() { known.remove(name) } else { known.insert(name.clone(), value.clone()) };
                    assert_ne!(before.unwrap_or_default(), *value, "{change:?} changes nothing");
                }
            }
            (_, known) => panic!("{change:?} does not fit {known:?}"),
        }
        let former = self.revisions.insert(id, change.entry.revision);
        // a record that was removed may come again with any revision
        assert!(
            former.is_none_or(|former| former <= change.entry.revision || change.entry.kind == ChangeKind::Created),
            "{change:?} after {former:?}"
        );
        assert!(!change.entry.causes.iter().any(|cause| cause.contributor.is_empty()));
        self.changes += 1;
    }
}

/// All records of collections whose changes are kept, as an export has them.
pub fn exported(catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant) -> Records {
    let mut all = Records::new();
    for (index, collection) in catalogue.collections.enumerate().filter(|(_, collection)| collection.changes.is_some()) {
        let keys = store.keys_after(tenant, index, "", 100_000).expect("keys");
        for record in store.read(tenant, index, &keys, ReadDetail::Values).expect("records").into_iter().flatten().filter(|record| record.exists) {
            let Json::Object(mut shown) = to_json(collection, &record) else { panic!("a record is an object") };
            // the key comes first, where no field has its name
            if collection.field("key").is_none() {
                assert_eq!(shown.remove("key"), Some(json!(record.key.as_str())));
            }
            all.insert((collection.name.clone(), record.key.to_string()), shown);
        }
    }
    all
}

impl Desk {
    /// Does something while others follow the changes of a tenant, and checks that they know in the end what an export has.
    pub fn followed<T>(&self, tenant: &Tenant, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        let follow = |store: &dyn Store, page: usize| {
            let mut follower = Follower::default();
            loop {
                let is_last = done.load(Ordering::SeqCst);
                follower.read(&self.catalogue, store, tenant, page);
                if is_last {
                    return follower;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        std::thread::scope(|scope| {
            let last = self.stores.last().expect("a store");
            let follower = scope.spawn(|| follow(&**last, 3));
            // without this, the follower would wait for ever when the work panics
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            done.store(true, Ordering::SeqCst);
            let while_it_worked = follower.join().expect("it follows");
            let value = worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let mut afterwards = Follower::default();
            afterwards.read(&self.catalogue, &**last, tenant, 1_000);
            let wanted = exported(&self.catalogue, &*self.stores[0], tenant);
            assert_eq!(while_it_worked.records, wanted);
            assert_eq!(afterwards.records, wanted);
            // nothing is noted any more of what was erased
            let has_erased = self.stores[0].erasures().expect("a list").iter().any(|own| own.tenant == tenant.as_str());
            let is_less = has_erased && afterwards.changes < while_it_worked.changes;
            assert!(is_less || afterwards.changes == while_it_worked.changes, "{} and {}", afterwards.changes, while_it_worked.changes);
            value
        })
    }
}
