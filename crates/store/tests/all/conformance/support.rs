//! Helpers for specifications: locations to open stores in, units of work, short ways to write records and plans.

use std::sync::{Arc, Mutex};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_store::erasure::NewErasure;
use stook_store::former::{FormerChange, FormerWrite};
use stook_store::journal::ChunkJournal;
use stook_store::plan::{Comparison, Condition, GeometryRelation, PlanColumn, QueryPlan, SortKey};
use stook_store::*;

type OpenStore = Box<dyn Fn(&Catalogue) -> Result<Box<dyn Store>> + Send + Sync>;

/// The location of one test's store. It is empty at first; opening it again, also while it is open, opens the same store.
pub struct StoreLocation {
    open_store: OpenStore,
    is_full_scan: fn(&[String]) -> bool,
    check: Box<dyn Fn() + Send + Sync>,
    /// The definition that the store was last opened for.
    last: Mutex<Option<Catalogue>>,
}

impl StoreLocation {
    /// `open_store` opens the store of the location. `is_full_scan` says whether an explanation reads every record of the collection. `check` runs when
    /// a test has passed, with the store closed.
    pub fn new(
        open_store: impl Fn(&Catalogue) -> Result<Box<dyn Store>> + Send + Sync + 'static,
        is_full_scan: fn(&[String]) -> bool,
        check: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { open_store: Box::new(open_store), is_full_scan, check: Box::new(check), last: Mutex::default() }
    }

    pub fn open(&self, catalogue: &Catalogue) -> Box<dyn Store> {
        self.try_open(catalogue).expect("the store opens")
    }

    pub fn try_open(&self, catalogue: &Catalogue) -> Result<Box<dyn Store>> {
        let opened = (self.open_store)(catalogue)?;
        *self.last.lock().expect("a lock") = Some(catalogue.clone());
        Ok(opened)
    }

    pub fn is_full_scan(&self, explanation: &[String]) -> bool {
        (self.is_full_scan)(explanation)
    }

    /// Checks what must be so after every test.
    pub fn check(&self) {
        (self.check)();
        let last = self.last.lock().expect("a lock").take();
        if let Some(catalogue) = last {
            let wrong = self.open(&catalogue).correct_record_counts().expect("counting works");
            assert_eq!(wrong, Vec::<String>::new(), "the numbers of records are kept");
        }
    }
}

pub fn definition(text: &str) -> Catalogue {
    parse(text).unwrap_or_else(|problems| panic!("{problems:?}\nin\n{text}"))
}

pub fn tenant(name: &str) -> Tenant {
    Tenant::new(name).expect("a tenant's name")
}

pub fn main_tenant() -> Tenant {
    tenant(DEFAULT_TENANT)
}

pub fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

pub fn text(text: &str) -> Value {
    Value::text(text)
}

pub fn texts(texts: &[&str]) -> Value {
    Value::List(texts.iter().map(|text| Value::text(*text)).collect())
}

pub fn geometry(text: &str) -> Value {
    from_text(text, &FieldType::Geometry, None).expect("a geometry")
}

/// Geometries that have a point in common with one.
pub fn intersects(text: &str) -> Comparison {
    let Value::Geometry(wanted) = geometry(text) else { panic!("{text} is a geometry") };
    Comparison::Related(GeometryRelation::Intersects, wanted)
}

/// The column of a field or state field by name, or of `key`, `revision`, `conflict`.
pub fn column(catalogue: &Catalogue, collection: CollectionId, name: &str) -> PlanColumn {
    let definition = &catalogue.collections[collection];
    match name {
        "key" => PlanColumn::Key,
        "revision" => PlanColumn::Revision,
        "conflict" => PlanColumn::Conflict,
        _ => match (definition.field(name), definition.state(name)) {
            (Some((index, _)), _) => PlanColumn::Field(index),
            (_, Some((index, _))) => PlanColumn::State(index),
            _ => panic!("collection {} has no {name}", definition.name),
        },
    }
}

/// The content of an existing record: the given fields and state fields, no values in the others.
pub fn content(catalogue: &Catalogue, collection: CollectionId, values: &[(&str, Value)]) -> RecordContent {
    let definition = &catalogue.collections[collection];
    let mut golden = vec![Value::Null; definition.fields.len()];
    let mut state = vec![Value::Null; definition.states.len()];
    for (name, value) in values {
        match column(catalogue, collection, name) {
            PlanColumn::Field(index) => golden[index] = value.clone(),
            PlanColumn::State(index) => state[index] = value.clone(),
            _ => panic!("{name} is not content"),
        }
    }
    RecordContent {
        created_job: 0,
        exists: true,
        golden: golden.into(),
        state,
        state_set: Vec::new(),
        conflicts: Vec::new(),
        contributions: b"contributions".to_vec(),
        raw: None,
        indexes_unchanged: false,
    }
}

pub fn put(collection: CollectionId, name: &str, expect: Option<Version>, content: RecordContent) -> RecordWrite {
    RecordWrite { collection, key: key(name), expect, change: RecordChange::Put(Box::new(content)) }
}

pub fn touch(collection: CollectionId, name: &str, expect: Option<Version>, contributions: &[u8]) -> RecordWrite {
    RecordWrite { collection, key: key(name), expect, change: RecordChange::Touch { contributions: contributions.to_vec() } }
}

pub fn delete(collection: CollectionId, name: &str, expect: Option<Version>) -> RecordWrite {
    RecordWrite { collection, key: key(name), expect, change: RecordChange::Delete }
}

/// What the store has passed to a unit.
#[derive(Debug, Clone, Default)]
pub struct UnitFeedback {
    pub conflicts: Vec<WriteConflict>,
    /// Collection, key, field and holder.
    pub refused: Vec<(CollectionId, String, FieldId, String)>,
    /// Keys of records that were erased.
    pub erased: Vec<String>,
    /// Whether the request was the same, and the kept response.
    pub repeated: Option<(bool, Vec<u8>)>,
}

type Resolve = Box<dyn FnMut(Vec<WriteConflict>) -> Result<Vec<RecordWrite>> + Send>;

/// A unit of work, composed for a test.
pub struct TestUnit {
    tenant: Tenant,
    lease_token: Option<LeaseToken>,
    writes: Vec<RecordWrite>,
    resolve: Option<Resolve>,
    settling: SettlingChanges,
    journal: Option<ChunkJournal>,
    call: Option<(IdempotentCall, Vec<u8>)>,
    log: Vec<NewChangeLogEntry>,
    former: Vec<FormerWrite>,
    reads_former: bool,
    fails_on_locks: bool,
    rebuilt_if_undone: bool,
    premises: Option<Premises>,
    is_all_or_nothing: bool,
    erases: Vec<NewErasure>,
    feedback: Arc<Mutex<UnitFeedback>>,
}

impl TestUnit {
    pub fn new(tenant: &Tenant) -> Self {
        Self {
            tenant: tenant.clone(),
            lease_token: None,
            writes: Vec::new(),
            resolve: None,
            settling: SettlingChanges::default(),
            journal: None,
            call: None,
            log: Vec::new(),
            former: Vec::new(),
            reads_former: false,
            fails_on_locks: false,
            rebuilt_if_undone: false,
            premises: None,
            is_all_or_nothing: false,
            erases: Vec::new(),
            feedback: Arc::default(),
        }
    }

    pub fn write(mut self, write: RecordWrite) -> Self {
        self.writes.push(write);
        self
    }

    pub fn writes(mut self, writes: impl IntoIterator<Item = RecordWrite>) -> Self {
        self.writes.extend(writes);
        self
    }

    /// Erases records of the first collection.
    pub fn erasing(mut self, names: &[&str]) -> Self {
        let erasure = |name: &&str| NewErasure { collection: CollectionId::from(0), key: key(name), reason: None };
        self.erases = names.iter().map(erasure).collect();
        self
    }

    pub fn lease_token(mut self, lease_token: LeaseToken) -> Self {
        self.lease_token = Some(lease_token);
        self
    }

    pub fn journal(mut self, journal: ChunkJournal) -> Self {
        self.journal = Some(journal);
        self
    }

    pub fn call(mut self, id: u8, request: u8, response: &[u8]) -> Self {
        self.call = Some((IdempotentCall { id: [id; 16], request: [request; 16] }, response.to_vec()));
        self
    }

    pub fn log(mut self, name: &str, transition: &str) -> Self {
        let change = serde_json::json!({"after": {"status": transition}});
        self.log.push(NewChangeLogEntry {
            collection: CollectionId::from(0),
            key: key(name),
            transition: Some(transition.to_owned()),
            caller: "ann".into(),
            change,
        });
        self
    }

    /// A change of the former contributions of a record of the first collection.
    pub fn former(mut self, name: &str, change: FormerChange) -> Self {
        self.former.push(FormerWrite { collection: CollectionId::from(0), key: key(name), change });
        self
    }

    /// Conflicts contain the former contributions of their records.
    pub fn reading_former(mut self) -> Self {
        self.reads_former = true;
        self
    }

    pub fn without_waiting(mut self) -> Self {
        self.fails_on_locks = true;
        self
    }

    /// The test builds it again if it is undone.
    pub fn rebuilt_if_undone(mut self) -> Self {
        self.rebuilt_if_undone = true;
        self
    }

    /// A search that must still find these keys when the unit is written.
    pub fn if_found(mut self, plan: QueryPlan, keys: &[&str]) -> Self {
        let search = SearchRead { plan, keys: keys.iter().map(|name| key(name)).collect() };
        self.premises.get_or_insert_default().searches.push(search);
        self
    }

    /// A record that must still have this version's content when the unit is written.
    pub fn if_unchanged(mut self, name: &str, version: Version) -> Self {
        let read = RevisionRead { collection: CollectionId::from(0), key: key(name), revision: version.revision };
        self.premises.get_or_insert_default().records.push(read);
        self
    }

    /// If a record is refused, nothing is written.
    pub fn all_or_nothing(mut self) -> Self {
        self.is_all_or_nothing = true;
        self.premises.get_or_insert_default();
        self
    }

    pub fn edge(mut self, change: EdgeChange) -> Self {
        self.settling.edges.push(change);
        self
    }

    pub fn clear_link(mut self, link: u32) -> Self {
        self.settling.cleared_links.push(link);
        self
    }

    pub fn mark(mut self, pass_order: u32, target: &str) -> Self {
        self.settling.marks.push(StaleMark { id: 0, pass_order, rule: 3, target: target.into(), part: "p".into(), job: 7 });
        self
    }

    /// Marks of new records, of a link that may lead to them.
    pub fn marks_if_linked(mut self, link: u32, targets: &[&str]) -> Self {
        let mark = |target: &&str| StaleMark { id: 0, pass_order: 1, rule: link, target: (*target).into(), part: "".into(), job: 7 };
        self.settling.marks_if_linked.extend(targets.iter().map(mark));
        self
    }

    pub fn clear_marks(mut self, marks: &[StaleMark]) -> Self {
        self.settling.cleared.extend(marks.iter().map(|mark| mark.id));
        self
    }

    /// How it resolves conflicts; without it they fail the unit.
    pub fn resolve(mut self, resolve: impl FnMut(Vec<WriteConflict>) -> Result<Vec<RecordWrite>> + Send + 'static) -> Self {
        self.resolve = Some(Box::new(resolve));
        self
    }

    pub fn commit(self, store: &dyn Store) -> (Result<CommitReceipt>, UnitFeedback) {
        let feedback = self.feedback.clone();
        let result = store.commit(Box::new(self));
        let feedback = feedback.lock().expect("not poisoned").clone();
        (result, feedback)
    }

    /// Commits a unit that must succeed.
    pub fn commit_ok(self, store: &dyn Store) -> CommitReceipt {
        let (result, feedback) = self.commit(store);
        assert_eq!(feedback.refused, [], "nothing is refused");
        result.expect("the unit is written")
    }
}

impl Unit for TestUnit {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn erases(&self) -> &[NewErasure] {
        &self.erases
    }

    fn lease_token(&self) -> Option<LeaseToken> {
        self.lease_token
    }

    fn call(&self) -> Option<&IdempotentCall> {
        self.call.as_ref().map(|(call, _)| call)
    }

    fn repeated(&mut self, is_same_request: bool, response: Vec<u8>) {
        self.feedback.lock().expect("not poisoned").repeated = Some((is_same_request, response));
    }

    fn waits_for_locks(&self) -> bool {
        !self.fails_on_locks
    }

    fn reads_former(&self) -> bool {
        self.reads_former
    }

    fn former(&mut self) -> Vec<FormerWrite> {
        self.former.clone()
    }

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        self.log.clone()
    }

    fn response_to_keep(&mut self, _committed_at: i64) -> Option<Vec<u8>> {
        self.call.as_ref().map(|(_, response)| response.clone()).filter(|response| !response.is_empty())
    }

    fn writes(&self) -> &[RecordWrite] {
        // the store may start again: the last calls count
        *self.feedback.lock().expect("not poisoned") = UnitFeedback::default();
        &self.writes
    }

    fn premises(&self) -> Option<&Premises> {
        self.premises.as_ref()
    }

    fn must_be_undone(&self) -> bool {
        self.is_all_or_nothing && !self.feedback.lock().expect("not poisoned").refused.is_empty()
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> Result<Vec<RecordWrite>> {
        self.feedback.lock().expect("not poisoned").conflicts.extend(conflicts.iter().cloned());
        match &mut self.resolve {
            Some(resolve) => resolve(conflicts),
            None => Err(StoreError::Wrong("this unit expects no conflict".into())),
        }
    }

    fn refused(&mut self, refused: RefusedWrite) {
        let mut feedback = self.feedback.lock().expect("not poisoned");
        match refused.reason {
            RefusalReason::Taken { field, holder } => feedback.refused.push((refused.collection, refused.key.to_string(), field, holder)),
            RefusalReason::Erased => feedback.erased.push(refused.key.to_string()),
        }
    }

    fn settling(&mut self) -> SettlingChanges {
        self.settling.clone()
    }

    fn journal(&mut self) -> Option<&ChunkJournal> {
        self.journal.as_ref()
    }

    fn is_rebuilt_if_undone(&self) -> bool {
        self.rebuilt_if_undone
    }
}

/// An open store with its definition, and short ways to work on one collection of one tenant.
pub struct Fixture {
    pub catalogue: Catalogue,
    pub store: Box<dyn Store>,
    pub tenant: Tenant,
    pub collection: CollectionId,
}

impl Fixture {
    /// Opens a store for the first collection of a definition.
    pub fn open(location: &StoreLocation, definition_text: &str) -> Self {
        let catalogue = definition(definition_text);
        let store = location.open(&catalogue);
        Self { catalogue, store, tenant: main_tenant(), collection: CollectionId::from(0) }
    }

    pub fn reopen(self, location: &StoreLocation) -> Self {
        let Self { catalogue, store, tenant, collection } = self;
        drop(store);
        let store = location.open(&catalogue);
        Self { catalogue, store, tenant, collection }
    }

    pub fn unit(&self) -> TestUnit {
        TestUnit::new(&self.tenant)
    }

    pub fn content(&self, values: &[(&str, Value)]) -> RecordContent {
        content(&self.catalogue, self.collection, values)
    }

    /// A write of these values, based on the record that the store has now.
    pub fn write_of(&self, name: &str, values: &[(&str, Value)]) -> RecordWrite {
        put(self.collection, name, self.version(name), self.content(values))
    }

    /// Gives a record these values and no others.
    pub fn put(&self, name: &str, values: &[(&str, Value)]) -> CommitReceipt {
        self.unit().write(self.write_of(name, values)).commit_ok(&*self.store)
    }

    pub fn delete(&self, name: &str) -> CommitReceipt {
        self.unit().write(delete(self.collection, name, self.version(name))).commit_ok(&*self.store)
    }

    pub fn record(&self, name: &str) -> Option<StoredRecord> {
        let found = self.store.read(&self.tenant, self.collection, &[key(name)], ReadDetail::Full).expect("reading works");
        assert_eq!(found.len(), 1);
        found.into_iter().next().flatten()
    }

    pub fn version(&self, name: &str) -> Option<Version> {
        let found = self.store.read(&self.tenant, self.collection, &[key(name)], ReadDetail::Head).expect("reading works");
        found.into_iter().next().flatten().map(|record| record.version)
    }

    pub fn column(&self, name: &str) -> PlanColumn {
        column(&self.catalogue, self.collection, name)
    }

    /// The value of a golden or state field.
    pub fn value(&self, record: &str, name: &str) -> Value {
        let stored = self.record(record).unwrap_or_else(|| panic!("there is no record {record}"));
        match self.column(name) {
            PlanColumn::Field(index) => stored.golden[index].clone(),
            PlanColumn::State(index) => stored.state[index].clone(),
            _ => panic!("{name} is not a field"),
        }
    }

    pub fn plan(&self, conditions: Vec<(&str, Comparison)>) -> QueryPlan {
        let conditions = conditions.into_iter().map(|(name, test)| Condition { column: self.column(name), test }).collect();
        QueryPlan { conditions, ..QueryPlan::all(self.tenant.clone(), self.collection) }
    }

    pub fn sorted(&self, plan: QueryPlan, sort: &[(&str, bool)]) -> QueryPlan {
        let sort = sort.iter().map(|(name, descending)| SortKey { column: self.column(name), descending: *descending }).collect();
        QueryPlan { sort, ..plan }
    }

    pub fn columns(&self, plan: QueryPlan, names: &[&str]) -> QueryPlan {
        QueryPlan { columns: names.iter().map(|name| self.column(name)).collect(), ..plan }
    }

    /// Keys of the records of a plan, in its order.
    pub fn keys(&self, plan: QueryPlan) -> Vec<String> {
        let plan = QueryPlan { columns: vec![PlanColumn::Key], ..plan };
        let found = self.store.find(&plan).unwrap_or_else(|error| panic!("{error}: {plan:?}"));
        found.rows.into_iter().map(|row| row[0].as_text().expect("a key").to_owned()).collect()
    }

    /// Keys of the records that satisfy one condition.
    pub fn keys_where(&self, name: &str, test: Comparison) -> Vec<String> {
        self.keys(self.plan(vec![(name, test)]))
    }

    pub fn rows(&self, plan: &QueryPlan) -> Vec<Vec<Value>> {
        self.store.find(plan).unwrap_or_else(|error| panic!("{error}: {plan:?}")).rows
    }
}

pub fn equal(value: Value) -> Comparison {
    Comparison::Equal(value)
}

pub fn between(low: Option<(Value, bool)>, high: Option<(Value, bool)>) -> Comparison {
    Comparison::Range { low, high }
}

pub fn wildcard(pattern: &str) -> Comparison {
    Comparison::Wildcard(pattern.split('*').map(str::to_owned).collect())
}
