//! A record at the limit of its contributors keeps those whose contributions are newest, in whatever order they arrive.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_catalogue::record::MAX_CONTRIBUTORS;
use stook_engine::work::{self, WorkerOptions};
use stook_sample::random::Random;
use stook_store::queue::JobState;
use stook_store::{ReadDetail, Store, Tenant};

const DEFINITION: &str = "\
catalogue: votes
sources:
  votes:
    format: json
    let: { who: { path: $.who, type: text }, at: { path: $.at, type: timestamp, format: epoch } }
    as_of: at
    contributor: \"{who}\"
    into: choice
collections:
  choice:
    key: id
    fields:
      id: text
      newest: { path: $.says, type: text }
      oldest: { path: $.says, type: text, survivorship: earliest }
      all: { path: $.says, type: [text], survivorship: union }
";

/// Number of contributors beyond the limit.
const MORE: usize = 150;

/// What is kept of a record: its golden values, and its contributors with the times of their contributions.
type Kept = (Vec<String>, Vec<(String, i64)>);

/// Imports one contribution of each contributor in this order, then another one of a contributor that is too old to be kept.
fn keeps(catalogue: &Arc<Catalogue>, store: &dyn Store, order: &[usize]) -> Kept {
    let tenant = Tenant::new("main").expect("a tenant");
    let folder = tempfile::tempdir().expect("a folder");
    let line = |(who, at): (usize, usize)| format!("{{\"id\":\"a\",\"who\":\"w{who:05}\",\"at\":{at},\"says\":\"t{at}\"}}\n");
    let texts: [String; 2] = [order.iter().map(|position| line((*position, 1_000 + position))).collect(), line((0, 1_000 + MAX_CONTRIBUTORS + MORE))];
    for (number, text) in texts.iter().enumerate() {
        let path = folder.path().join(format!("{number}.ndjson"));
        let job = support::job(catalogue, store, &tenant, "votes", (&path, text), 25_000);
        let options = WorkerOptions { workers: 2, lease_seconds: 60, drain: true, settles: false, only: None };
        work::run(catalogue, store, &options, &AtomicBool::new(false), &|_| ()).expect("it works");
        let job = store.job(job).expect("the job");
        assert_eq!(job.state, JobState::Completed, "{:?}", job.counts);
        assert_eq!(job.counts.outcomes.iter().sum::<i64>(), job.counts.documents, "{:?}", job.counts);
    }
    let collection = &catalogue.collections[CollectionId::from(0)];
    let found = store
        .read(&tenant, CollectionId::from(0), &[Key::new("a").expect("a key")], ReadDetail::Full)
        .expect("it reads")
        .pop()
        .flatten()
        .expect("the record");
    let golden = collection.fields.iter().zip(&found.golden).map(|(field, value)| value.to_json(field.golden_type()).to_string());
    let contributions = found.contributions_of(collection).expect("they read");
    (golden.collect(), contributions.iter().map(|own| (own.contributor.to_string(), own.as_of / 1_000_000)).collect())
}

#[test]
fn a_record_with_too_many_contributors_keeps_the_newest_in_any_order() {
    let catalogue = Arc::new(parse(DEFINITION).expect("a definition"));
    let all: Vec<usize> = (0..MAX_CONTRIBUTORS + MORE).collect();
    let mut random = Random::new(5);
    let mut shuffled = all.clone();
    for position in (1..shuffled.len()).rev() {
        shuffled.swap(position, random.below(position as u64 + 1) as usize);
    }
    let orders = [all.clone(), all.iter().rev().copied().collect(), shuffled];
    // the first has contributed again; of the others the newest are kept
    let mut wanted: Vec<(String, i64)> = all[MORE + 1..].iter().map(|position| (format!("votes:w{position:05}"), 1_000 + *position as i64)).collect();
    wanted.insert(0, ("votes:w00000".into(), (1_000 + MAX_CONTRIBUTORS + MORE) as i64));
    let mut seen: Option<Kept> = None;
    for (number, order) in orders.iter().enumerate() {
        let folder = support::folder("contributors").join(number.to_string());
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut results = vec![keeps(&catalogue, &*support::on_a_file(&folder, &catalogue, 1)[0], order)];
        if let Some(stores) = support::on_a_server(&format!("contributors{number}"), &catalogue) {
            results.push(keeps(&catalogue, &*stores[0], order));
        }
        for (golden, contributors) in results {
            assert!(contributors == wanted, "{} contributors, from {:?} to {:?}", contributors.len(), contributors.first(), contributors.last());
            assert_eq!(golden[1..3], [format!("\"t{}\"", 1_000 + MAX_CONTRIBUTORS + MORE), format!("\"t{}\"", 1_000 + MORE + 1)]);
            let first = seen.get_or_insert_with(|| (golden.clone(), Vec::new()));
            assert!(first.0 == golden, "another order, or another store, gives other values");
        }
    }
}
