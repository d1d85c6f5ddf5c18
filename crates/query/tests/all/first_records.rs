//! Pages in key order of queries that very many records satisfy: the embedded store reads the first records before it sorts.

use crate::support;

use std::sync::LazyLock;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::Value;
use stook_store::Queries;
use stook_store::plan::{PlanColumn, QueryPlan};
use support::{Filled, Record, compiled, definition, filled, main_tenant};

const RECORD_COUNT: usize = 70_000;
const DEFINITION: &str = "
catalogue: first_records
collections:
  thing:
    key: code
    fields:
      code: text
      early: { type: text, index: equal }
      late: { type: text, index: [equal, prefix] }
      thin: { type: text, index: equal }
      labels: { type: [text], index: equal }
";

static FILLED: LazyLock<Filled> = LazyLock::new(|| {
    let catalogue = definition(DEFINITION);
    let collection = &catalogue.collections[CollectionId::from(0)];
    let thing = |number: usize| {
        let mut thing = Record::empty(format!("k{number:06}"), collection);
        let yes_if = |condition: bool| Value::text(if condition { "yes" } else { "no" });
        thing.golden = vec![
            Value::text(thing.key.as_str()),
            yes_if(number < 40_000),
            // only long after the first keys
            yes_if(number >= 30_000),
            yes_if(!number.is_multiple_of(2)),
            Value::List(vec![yes_if(number.is_multiple_of(2))]),
        ];
        thing.alive = number % 7 != 3;
        thing
    };
    let things: Vec<Record> = (0..RECORD_COUNT).map(thing).collect();
    filled(catalogue.clone(), &[(main_tenant(), &things)])
});

#[test]
fn a_page_is_the_same_however_it_is_found() {
    let keys = |plan: &QueryPlan| -> Vec<String> {
        let rows = FILLED.store.find(plan).expect("found").rows;
        rows.into_iter().map(|row| row[0].as_text().expect("a key").to_owned()).collect()
    };
    for query in [
        "thing early=yes",
        "thing late=yes",
        "thing late=y*",
        "thing thin=yes",
        "thing labels=yes",
        "thing thin=yes late=yes",
        "thing late=yes early=yes",
    ] {
        for key_range in ["", " key>k029990", " key>=k000100 key<k035000"] {
            let plan = QueryPlan { columns: vec![PlanColumn::Key], ..compiled(&FILLED.catalogue, &format!("{query}{key_range}")).plan };
            // without a page, the first records are not read separately
            let all = keys(&plan);
            assert!(all.is_sorted() && !all.is_empty(), "{query}{key_range}");
            for (offset, limit) in [(0, 1), (0, 50), (900, 100), (1, 1_000), (5_000, 3), (all.len() as u64 - 2, 10), (all.len() as u64, 10), (7, 0)] {
                let page = keys(&QueryPlan { offset, limit: Some(limit), ..plan.clone() });
                let expected: Vec<&String> = all.iter().skip(offset as usize).take(limit as usize).collect();
                assert_eq!(page.iter().collect::<Vec<_>>(), expected, "{query}{key_range} from {offset}, {limit}");
            }
            let mut unordered = keys(&QueryPlan { any_order: true, ..plan.clone() });
            unordered.sort();
            assert_eq!(unordered, all, "{query}{key_range} in any order");
        }
    }
}
