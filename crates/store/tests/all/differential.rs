//! Any history of calls has the same results on both stores: units of records, edges and marks, with and without leases, jobs and chunks with
//! everything that may happen to them, and reads of every kind in between.

use crate::conformance;

use conformance::support::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::value::Value;
use stook_catalogue::words::WordSearch;
use stook_store::journal::{ChunkJournal, DocumentOutcome, Issue, Outcome, OutcomeCounts, pack};
use stook_store::plan::{Aggregate, AggregateFunction, Comparison, Condition, FUNCTIONS, QueryPlan, SortKey};
use stook_store::postgres::{self, PostgresStore};
use stook_store::queue::*;
use stook_store::sqlite::{SqliteOptions, SqliteStore};
use stook_store::*;
use stook_testkit::postgres::TestServer;

const DEFINITION: &str = "
catalogue: both
collections:
  thing:
    key: name
    fields:
      name: text
      title: { type: text, index: [equal, prefix, contains, words], fold: true, compare: true }
      plain: text
      number: { type: integer, index: equal, compare: true }
      ratio: { type: float, index: equal }
      words: { type: [text], index: [equal, words], fold: true }
      numbers: { type: [integer], index: equal }
      badge: { type: text, unique: true }
      id: { type: uuid }
      extra: { type: json }
    state:
      status: { type: text, index: equal }
";
const TENANTS: [&str; 2] = ["one", "two"];
const KEYS: [&str; 6] = ["a", "b", "b/c", "é", "z z", "𝄞"];
const TEXTS: [&str; 8] = ["", "Apple", "apple pie", "ÄPFEL", "a*b", "zebra", "Z", "pineapple"];
const FIELDS: [&str; 11] = ["key", "title", "plain", "number", "ratio", "words", "numbers", "badge", "id", "status", "conflict"];

#[derive(Debug, Clone)]
enum ChangeKind {
    Put { texts: [usize; 4], numbers: [i64; 3], exists: bool, conflict: bool },
    Touch,
    Delete,
}

#[derive(Debug, Clone)]
enum Step {
    /// Changes based on what is stored now, or on what was read when the tenant was last read; with a lease or without.
    Unit {
        tenant: usize,
        changes: Vec<(usize, ChangeKind)>,
        reads_first: bool,
        lease: Option<usize>,
        edges: Vec<(usize, usize, bool)>,
        marks: Vec<usize>,
    },
    Job {
        tenant: usize,
        chunks: u32,
        complete: bool,
    },
    Lease {
        job: Option<u64>,
        limit: usize,
        expired: bool,
    },
    Release {
        lease: usize,
        attempts: u32,
    },
    ReturnUnstarted(usize),
    Renew(usize),
    TakeOver(u64),
    Interrupt(u64),
    Retry(u64),
    End {
        job: u64,
        failed: bool,
    },
    Forget(u64),
    Replace {
        job: u64,
        ordinal: u32,
        parts: usize,
    },
    Query {
        tenant: usize,
        conditions: Vec<(usize, Comparison)>,
        sort: Vec<(usize, bool)>,
        columns: Vec<usize>,
        distinct: bool,
        page: (u64, u64),
    },
}

fn kind() -> impl Strategy<Value = ChangeKind> {
    let put = (prop::array::uniform4(0..TEXTS.len()), prop::array::uniform3(-3..4_i64), prop::bool::weighted(0.9), any::<bool>())
        .prop_map(|(texts, numbers, exists, conflict)| ChangeKind::Put { texts, numbers, exists, conflict });
    prop_oneof![6 => put, 1 => Just(ChangeKind::Touch), 1 => Just(ChangeKind::Delete)]
}

fn test() -> impl Strategy<Value = Comparison> {
    let value = prop_oneof![
        (0..TEXTS.len()).prop_map(|index| text(TEXTS[index])),
        (-3..4_i64).prop_map(Value::Int),
        (-3..4_i64).prop_map(|number| Value::Float(number as f64 / 2.0)),
    ];
    let pieces = prop::collection::vec(prop::sample::select(vec!["", "a", "pp", "le", "Z", "*"]), 1..4)
        .prop_map(|pieces| pieces.into_iter().map(str::to_owned).collect::<Vec<_>>());
    let bound = proptest::option::of((value.clone(), any::<bool>()));
    prop_oneof![
        3 => value.clone().prop_map(Comparison::Equal),
        1 => value.clone().prop_map(Comparison::NotEqual),
        2 => prop::collection::vec(value, 0..4).prop_map(Comparison::In),
        2 => (bound.clone(), bound).prop_map(|(low, high)| Comparison::Range { low, high }),
        1 => prop::sample::select(vec!["", "a", "app", "z"]).prop_map(|prefix| Comparison::Prefix(prefix.to_owned())),
        1 => pieces.clone().prop_map(Comparison::Wildcard),
        1 => pieces.prop_map(Comparison::NotWildcard),
        1 => any::<bool>().prop_map(Comparison::Exists),
        1 => prop::sample::select(vec!["apple", "app*", "\"apple pi\"*", "apfel", "b z*"])
            .prop_map(|words| Comparison::Words(Arc::new(WordSearch::parse(words).expect("a search")))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let changes = prop::collection::btree_map(0..KEYS.len(), kind(), 0..5).prop_map(|changes| changes.into_iter().collect::<Vec<_>>());
    let edges = prop::collection::vec((0..3_usize, 0..3_usize, any::<bool>()), 0..3);
    let unit = (0..2_usize, changes, any::<bool>(), proptest::option::of(0..6_usize), edges, prop::collection::vec(0..3_usize, 0..3))
        .prop_map(|(tenant, changes, reads_first, lease, edges, marks)| Step::Unit { tenant, changes, reads_first, lease, edges, marks });
    let query = (
        0..2_usize,
        prop::collection::vec((0..FIELDS.len(), test()), 0..3),
        prop::collection::vec((0..FIELDS.len(), any::<bool>()), 0..3),
        prop::collection::vec(0..FIELDS.len(), 1..4),
        any::<bool>(),
        (0..3_u64, 1..6_u64),
    )
        .prop_map(|(tenant, conditions, sort, columns, distinct, page)| Step::Query { tenant, conditions, sort, columns, distinct, page });
    let job = || 1..5_u64;
    prop_oneof![
        8 => unit,
        2 => (0..2_usize, 0..5_u32, prop::bool::weighted(0.8)).prop_map(|(tenant, chunks, complete)| Step::Job { tenant, chunks, complete }),
        4 => (proptest::option::of(job()), 1..4_usize, prop::bool::weighted(0.2)).prop_map(|(job, limit, expired)| Step::Lease { job, limit, expired }),
        2 => (0..6_usize, 1..4_u32).prop_map(|(lease, attempts)| Step::Release { lease, attempts }),
        1 => (0..6_usize).prop_map(Step::ReturnUnstarted),
        1 => (0..6_usize).prop_map(Step::Renew),
        1 => job().prop_map(Step::TakeOver),
        1 => job().prop_map(Step::Interrupt),
        1 => job().prop_map(Step::Retry),
        1 => (job(), any::<bool>()).prop_map(|(job, failed)| Step::End { job, failed }),
        1 => job().prop_map(Step::Forget),
        1 => (job(), 1..5_u32, 0..3_usize).prop_map(|(job, ordinal, parts)| Step::Replace { job, ordinal, parts }),
        8 => query,
    ]
}

fn content_of(catalogue: &Catalogue, kind: &ChangeKind) -> Option<RecordContent> {
    let ChangeKind::Put { texts: text_indexes, numbers, exists, conflict } = kind else { return None };
    let text_or_null = |index: usize| if TEXTS[index].is_empty() { Value::Null } else { text(TEXTS[index]) };
    let list = |items: Vec<Value>| if items.is_empty() { Value::Null } else { Value::List(items) };
    let values = [
        ("title", text_or_null(text_indexes[0])),
        ("plain", text(TEXTS[text_indexes[1]])),
        ("number", if numbers[0] == 0 { Value::Null } else { Value::Int(numbers[0]) }),
        ("ratio", Value::Float(numbers[1] as f64 / 2.0)),
        ("words", texts(&[TEXTS[text_indexes[2]], TEXTS[text_indexes[3]]])),
        ("numbers", list((0..numbers[2].max(0)).map(Value::Int).collect())),
        ("badge", text_or_null(text_indexes[3])),
        ("id", Value::Uuid(numbers[0].unsigned_abs().into())),
        ("extra", Value::Json(Arc::new(serde_json::json!({"b": numbers[1], "a": TEXTS[text_indexes[0]]})))),
        ("status", text_or_null(text_indexes[1])),
    ];
    let base = content(catalogue, CollectionId::from(0), &values);
    let conflicts = if *conflict { vec![FieldId::from(1), FieldId::from(3)] } else { Vec::new() };
    Some(RecordContent { exists: *exists, conflicts, raw: Some(TEXTS[text_indexes[0]].as_bytes().to_vec().into()), created_job: 3, ..base })
}

fn write_of(catalogue: &Catalogue, number: usize, kind: &ChangeKind, version: Option<Version>) -> Option<RecordWrite> {
    match (kind, content_of(catalogue, kind)) {
        (_, Some(content)) => Some(put(CollectionId::from(0), KEYS[number], version, content)),
        (ChangeKind::Touch, _) => version.map(|_| touch(CollectionId::from(0), KEYS[number], version, b"touched")),
        _ => version.map(|_| delete(CollectionId::from(0), KEYS[number], version)),
    }
}

/// One of the stores, and what a client of it remembers.
struct Client {
    catalogue: Catalogue,
    store: Box<dyn Store>,
    leases: Vec<LeasedChunk>,
    read: BTreeMap<(usize, usize), Option<Version>>,
}

impl Client {
    fn new(store: Box<dyn Store>, catalogue: &Catalogue) -> Self {
        Self { catalogue: catalogue.clone(), store, leases: Vec::new(), read: BTreeMap::new() }
    }

    fn versions(&self, tenant: &Tenant) -> Vec<Option<Version>> {
        let found = self.store.read(tenant, CollectionId::from(0), &KEYS.map(key), ReadDetail::Head).expect("reading works");
        found.into_iter().map(|record| record.map(|record| record.version)).collect()
    }

    /// Does a step; returns what is visible of it, without times and tokens.
    fn step(&mut self, step: &Step) -> String {
        let or_error = |result: Result<String>| result.unwrap_or_else(|error| format!("error: {error}"));
        let token_of = |leases: &[LeasedChunk], index: usize| {
            let lease = leases.get(index % leases.len().max(1));
            lease.map_or(LeaseToken { chunk: ChunkId { job: 1, ordinal: 1 }, token: -1 }, |lease| LeaseToken {
                chunk: lease.chunk,
                token: lease.token,
            })
        };
        match step {
            Step::Unit { tenant: tenant_index, changes, reads_first, lease, edges, marks } => {
                let owner = tenant(TENANTS[*tenant_index]);
                if *reads_first {
                    for (index, version) in self.versions(&owner).into_iter().enumerate() {
                        self.read.insert((*tenant_index, index), version);
                    }
                }
                let read = |index: usize| self.read.get(&(*tenant_index, index)).copied().flatten();
                let writes: Vec<RecordWrite> =
                    changes.iter().filter_map(|(key_index, kind)| write_of(&self.catalogue, *key_index, kind, read(*key_index))).collect();
                let (catalogue, merged_changes) = (self.catalogue.clone(), changes.clone());
                let merge = move |conflicts: Vec<WriteConflict>| {
                    let write = |conflict: &WriteConflict| {
                        let (key_index, kind) = merged_changes.iter().find(|(index, _)| KEYS[*index] == conflict.key.as_str())?;
                        write_of(&catalogue, *key_index, kind, conflict.record.as_ref().map(|record| record.version))
                    };
                    Ok(conflicts.iter().filter_map(write).collect())
                };
                let mut unit = TestUnit::new(&owner).writes(writes).resolve(merge);
                for (target, child, is_put) in edges {
                    let (target, child, payload) = (format!("t{target}"), format!("c{child}"), vec![*child as u8]);
                    let edge = Edge { link: 1, target: target.into(), group: "g".into(), start: 5, child: child.into(), payload };
                    unit = unit.edge(if *is_put { EdgeChange::Put(edge) } else { EdgeChange::Delete(edge) });
                }
                for mark in marks {
                    unit = unit.mark(1, &format!("m{mark}"));
                }
                if marks.len() == 2 {
                    unit = unit.clear_marks(&self.store.marks(&owner, 1).expect("marks"));
                }
                if let Some(index) = lease {
                    let token = token_of(&self.leases, *index);
                    unit = unit.lease_token(token).journal(journal(token.chunk.ordinal));
                }
                let (result, feedback) = unit.commit(&*self.store);
                let conflicts: Vec<&str> = feedback.conflicts.iter().map(|conflict| conflict.key.as_str()).collect();
                or_error(result.map(|receipt| format!("{} rows, {conflicts:?}, {:?}", receipt.rows, feedback.refused)))
            }
            Step::Job { tenant: tenant_index, chunks, complete } => or_error((|| {
                let file = JobFile { path: "file".into(), size: u64::from(*chunks), modified: 0, ..JobFile::default() };
                let new = NewJob { tenant: tenant(TENANTS[*tenant_index]), profile: None, source: "s".into(), as_of: None, files: vec![file] };
                let job = self.store.create_job(new)?;
                let slice = |ordinal: u32| ChunkSlice { offset: u64::from(ordinal) * 10, length: 10, documents: 2, ..ChunkSlice::default() };
                let new = (1..=*chunks).map(|ordinal| NewChunk { ordinal, slice: slice(ordinal) }).collect();
                self.store.add_chunks(job, new, SplitProgress { chunks: *chunks, complete: *complete, ..SplitProgress::default() })?;
                Ok(format!("job {job}"))
            })()),
            Step::Lease { job, limit, expired } => or_error(self.store.lease(*job, *limit, if *expired { 0 } else { 3_600 }).map(|leases| {
                let text = leases.iter().map(|lease| format!("{} attempt {}; ", lease.chunk, lease.attempt)).collect();
                self.leases.extend(leases);
                text
            })),
            Step::Release { lease, attempts } => {
                or_error(self.store.release(token_of(&self.leases, *lease), "released", 0, *attempts).map(|()| String::new()))
            }
            Step::ReturnUnstarted(lease) => or_error(self.store.return_unstarted(&[token_of(&self.leases, *lease)]).map(|()| String::new())),
            Step::Renew(lease) => or_error(self.store.renew(&[token_of(&self.leases, *lease)], 3_600).map(|renewed| renewed.len().to_string())),
            Step::TakeOver(job) => or_error(self.store.take_over(*job).map(|freed| freed.to_string())),
            Step::Interrupt(job) => or_error(self.store.interrupt_job(*job).map(|()| String::new())),
            Step::Retry(job) => or_error(self.store.retry(*job, None).map(|retried| retried.to_string())),
            Step::End { job, failed } => {
                or_error(self.store.end_job(*job, if *failed { JobState::Failed } else { JobState::Cancelled }, "ended").map(|()| String::new()))
            }
            Step::Forget(job) => or_error(self.store.forget_job(*job).map(|()| String::new())),
            Step::Replace { job, ordinal, parts } => {
                let part = |index: usize| NewChunk { ordinal: 0, slice: ChunkSlice { offset: index as u64, documents: 1, ..ChunkSlice::default() } };
                let chunk = ChunkId { job: *job, ordinal: *ordinal };
                or_error(self.store.replace_chunk(chunk, (0..*parts).map(part).collect()).map(|()| String::new()))
            }
            Step::Query { .. } => self.query(step),
        }
    }

    fn query(&self, step: &Step) -> String {
        let Step::Query { tenant: tenant_index, conditions, sort, columns, distinct, page } = step else { return String::new() };
        let column_at = |field: usize| column(&self.catalogue, CollectionId::from(0), FIELDS[field]);
        let plan = QueryPlan {
            any_order: false,
            conditions: conditions.iter().map(|(field, test)| Condition { column: column_at(*field), test: fit(FIELDS[*field], test) }).collect(),
            // lists have no order, and distinct rows are sorted by their values
            sort: sort
                .iter()
                .filter(|(field, _)| !matches!(FIELDS[*field], "words" | "numbers" | "conflict") && (!*distinct || columns.contains(field)))
                .map(|(field, descending)| SortKey { column: column_at(*field), descending: *descending })
                .collect(),
            columns: columns.iter().map(|field| column_at(*field)).collect(),
            distinct: *distinct,
            offset: page.0,
            limit: Some(page.1),
            ..QueryPlan::all(tenant(TENANTS[*tenant_index]), CollectionId::from(0))
        };
        let mut text = match self.store.find(&plan) {
            Ok(found) => format!("{:?}", found.rows),
            // each database has its own words for invalid statements
            Err(_) => return "error".into(),
        };
        let _ = write!(text, " of {:?}", self.store.count(&plan).ok());
        for (offset, (function, _)) in FUNCTIONS.into_iter().enumerate() {
            let is_of_any_type = matches!(function, AggregateFunction::Count | AggregateFunction::Min | AggregateFunction::Max);
            let numbers = ["number", "ratio", "numbers"].map(|name| FIELDS.iter().position(|field| *field == name).unwrap());
            let field = if is_of_any_type { (columns[0] + offset) % FIELDS.len() } else { numbers[columns[0] % 3] };
            let aggregate = Aggregate { function, column: column_at(field) };
            let _ = write!(text, " {:?}", self.store.aggregate(&QueryPlan { distinct: false, ..plan.clone() }, &[aggregate]).ok());
        }
        text
    }

    /// Everything in the store, without times and tokens.
    fn everything(&self) -> String {
        let mut text = String::new();
        for name in TENANTS {
            let owner = tenant(name);
            for record in self.store.read(&owner, CollectionId::from(0), &KEYS.map(key), ReadDetail::Full).expect("records").into_iter().flatten() {
                let StoredRecord { key, version, created_job, exists, contributions, golden, state, conflicts, raw, .. } = record;
                let _ =
                    writeln!(text, "{key} {} {created_job} {exists} {contributions:?} {golden:?} {state:?} {conflicts:?} {raw:?}", version.touches);
            }
            for target in ["t0", "t1", "t2"] {
                let _ = writeln!(text, "{:?}", self.store.edges(&owner, 1, target).expect("edges"));
            }
            let _ = writeln!(text, "{} records", self.store.count(&QueryPlan::all(owner.clone(), CollectionId::from(0))).expect("a number"));
            let marks: Vec<String> = self.store.marks(&owner, 1_000).expect("marks").into_iter().map(|mark| mark.target.to_string()).collect();
            let _ = writeln!(text, "{marks:?}");
        }
        for job in self.store.jobs(None, 1_000).expect("jobs") {
            let job = Job { created: 0, finished: job.finished.map(|_| 1), ..job };
            let _ = writeln!(text, "{job:?}\n{:?}", self.store.journal(job.id, 0, 1_000, false).expect("a journal"));
        }
        assert_eq!(self.store.correct_record_counts().expect("counting works"), Vec::<String>::new());
        let _ = writeln!(text, "{:?} {:?}", self.store.chunks(None).expect("chunks"), self.store.is_idle().expect("an answer"));
        text
    }
}

/// A condition whose values are of the column's type, as in a checked query.
fn fit(field: &str, test: &Comparison) -> Comparison {
    let number = |value: &Value| match value {
        Value::Int(number) => *number,
        Value::Float(number) => *number as i64,
        other => other.as_text().map_or(0, |text| text.len() as i64 - 3),
    };
    let value = |value: &Value| match field {
        "number" | "numbers" => Value::Int(number(value)),
        "ratio" => Value::Float(number(value) as f64 / 2.0),
        "id" => Value::Uuid(number(value).unsigned_abs().into()),
        "key" => text(KEYS[number(value).unsigned_abs() as usize % KEYS.len()]),
        "conflict" => text(["title", "number", "plain"][number(value).unsigned_abs() as usize % 3]),
        "words" | "title" => text(&stook_catalogue::fold::fold(TEXTS[number(value).unsigned_abs() as usize % TEXTS.len()])),
        _ => text(TEXTS[number(value).unsigned_abs() as usize % TEXTS.len()]),
    };
    let is_text = !matches!(field, "number" | "numbers" | "ratio" | "id");
    match test {
        Comparison::Words(_) if !matches!(field, "title" | "words") => Comparison::Exists(true),
        Comparison::Equal(wanted) => Comparison::Equal(value(wanted)),
        Comparison::NotEqual(wanted) => Comparison::NotEqual(value(wanted)),
        Comparison::In(wanted) => Comparison::In(wanted.iter().map(value).collect()),
        Comparison::Range { low, high } => {
            let bound = |bound: &Option<(Value, bool)>| bound.as_ref().map(|(wanted, included)| (value(wanted), *included));
            Comparison::Range { low: bound(low), high: bound(high) }
        }
        Comparison::Prefix(_) | Comparison::Wildcard(_) | Comparison::NotWildcard(_) if !is_text => Comparison::Exists(true),
        other => other.clone(),
    }
}

fn journal(ordinal: u32) -> ChunkJournal {
    let first = u64::from(ordinal) * 2 + 1;
    let outcome_of = |document: u64, outcome| DocumentOutcome {
        document,
        offset: document,
        collection: Some(CollectionId::from(0)),
        outcome,
        key: format!("k{document}").into(),
        reason: None,
    };
    let packed_outcomes = pack(&[outcome_of(first, Outcome::Created), outcome_of(first + 1, Outcome::Failed)]);
    let issue = Issue { document: first + 1, file: 0, record: first + 1, offset: 7, key: None, failed: true, reason: "broken".into() };
    let mut counts = OutcomeCounts { documents: 2, ..OutcomeCounts::default() };
    counts.add(Outcome::Created, 1);
    counts.add(Outcome::Failed, 1);
    ChunkJournal { counts, first, packed_outcomes, troubles: vec![issue], ..ChunkJournal::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_history_has_the_same_results_on_both_stores(steps in prop::collection::vec(step(), 1..60)) {
        let Some(server) = TestServer::shared() else { return Ok(()) };
        let url = server.new_store_url();
        let catalogue = Arc::new(definition(DEFINITION));
        let folder = tempfile::tempdir().expect("a folder");
        let file_store = SqliteStore::open(&folder.path().join("store"), catalogue.clone(), SqliteOptions::default()).expect("a store");
        let server_store = PostgresStore::open(&url, catalogue.clone(), &postgres::PostgresOptions::default()).expect("a store");
        let mut clients = [Client::new(Box::new(file_store), &catalogue), Client::new(Box::new(server_store), &catalogue)];
        for (number, step) in steps.iter().enumerate() {
            let [file_result, server_result] = clients.each_mut().map(|client| client.step(step));
            prop_assert_eq!(file_result, server_result, "step {}: {:?}", number, step);
        }
        let [file_result, server_result] = clients.each_ref().map(Client::everything);
        prop_assert_eq!(&file_result, &server_result);

        // a backup of either is restored into the other kind, which then holds the same, finds the same, and gives the same numbers next
        let other_url = server.new_store_url();
        let open_server = || PostgresStore::open(&other_url, catalogue.clone(), &postgres::PostgresOptions::default()).expect("a store");
        let open_file = || SqliteStore::open(&folder.path().join("restored"), catalogue.clone(), SqliteOptions::default()).expect("a store");
        let opens: [&dyn Fn() -> Box<dyn Store>; 2] = [&|| Box::new(open_server()), &|| Box::new(open_file())];
        for (client, open) in clients.iter().zip(opens) {
            let backup = backup_of(&*client.store);
            prop_assert_eq!(backup_file::verify(&mut backup.as_slice()).expect("it is sound").bytes, backup.len() as u64);
            let new_store = open();
            restore(&*new_store, &backup).expect("it is restored");
            drop(new_store);
            let restored = Client::new(open(), &catalogue);
            prop_assert_eq!(restored.everything(), file_result.clone());
            prop_assert_eq!(items_of(&backup_of(&*restored.store)), items_of(&backup));
            for step in &steps {
                prop_assert_eq!(restored.query(step), client.query(step), "{:?}", step);
            }
            if client.store.jobs(None, 1).expect("jobs").len() == 1 {
                let again = restore(&*restored.store, &backup).expect_err("it is not empty").to_string();
                prop_assert!(again.contains("not empty"), "{}", again);
            }
            let next = |store: &dyn Store| store.create_job(conformance::queue::new_job(&tenant("one"), 1)).expect("a job");
            prop_assert_eq!(next(&*restored.store), next(&*client.store));
        }
    }
}

fn backup_of(store: &dyn Store) -> Vec<u8> {
    let mut file = Vec::new();
    backup_file::write(store, &mut file, &mut |_, _| {}).expect("it is backed up");
    file
}

fn restore(store: &dyn Store, mut backup: &[u8]) -> Result<backup_file::BackupContents> {
    backup_file::BackupReader::new(&mut backup)?.restore(store)
}

/// What a backup contains, in an order that does not depend on the store.
fn items_of(mut backup: &[u8]) -> Vec<String> {
    let items = backup_file::BackupReader::new(&mut backup).expect("a backup");
    let mut items: Vec<String> = items.map(|item| format!("{:?}", item.expect("an item"))).collect();
    items.sort();
    items
}
