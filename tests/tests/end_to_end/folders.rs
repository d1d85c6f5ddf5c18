//! Folders and several files: each file goes to the source whose it is, and what is nobody's is named.

use serde_json::{Value as Json, json};
use stook_tests::http::Served;
use stook_tests::{Sandbox, gzip};

/// A shop that gets orders of two systems, prices as a table and notes of people.
const SHOP: &str = "\
catalogue: shop
sources:
  north: { format: csv, files: 'orders_*.csv', has: number, into: order, as_of: meta.received }
  south: { format: csv, files: ['orders_*.csv', 'south?.csv'], has: order_id, as_of: meta.received, feeds: [ { into: order, map: { number: order_id, customer: client } } ] }
  prices: { format: json, files: 'price[0-9].json', records: '$.value[*]', into: price, as_of: meta.received }
  notes: { format: json, has: $.note, into: note, as_of: meta.received }
collections:
  order: { key: number, fields: { number: text, customer: text } }
  price: { key: article, fields: { article: text, cents: integer } }
  note: { key: note, fields: { note: text } }
";

fn shop() -> Sandbox {
    let sandbox = Sandbox::new(SHOP);
    for folder in ["in", "in/late", "in/late/.git", "nothing"] {
        std::fs::create_dir(sandbox.path(folder)).unwrap();
    }
    sandbox.write_file("in/orders_1.csv", "number,customer\n1,Ann\n2,Bob\n");
    sandbox.write_file("in/orders_2.csv.gz", gzip(b"order_id,client\n3,Cid\n"));
    sandbox.write_file("in/late/price7.json", json!({ "value": [{ "article": "nail", "cents": 5 }] }).to_string());
    sandbox.write_file("in/late/price8.json", json!({ "value": [] }).to_string());
    sandbox.write_file("in/late/south1.csv", "order_id,client\n4,Dan\n5,Eve\n");
    sandbox.write_file("in/late/written by hand", json!({ "note": "call Ann" }).to_string());
    sandbox.write_file("in/late/price9.json.part", "{\"value\": [");
    sandbox.write_file("in/late/.git/orders_9.csv", "number\n9\n");
    sandbox
}

/// Source and documents of jobs.
fn sources(jobs: &[Json]) -> Vec<(&str, u64)> {
    jobs.iter().map(|job| (job["source"].as_str().unwrap_or_default(), job["counts"]["documents"].as_u64().unwrap_or_default())).collect()
}

fn numbers(sandbox: &Sandbox) -> Vec<String> {
    sandbox.records("order").iter().map(|order| order["number"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_file_of_a_folder_goes_to_its_source() {
    let sandbox = shop();
    let tried = sandbox.run(&["import", "in", "--dry-run", "--json"]).exits(0).lines();
    let expected = [("north", 2), ("south", 3), ("prices", 1), ("notes", 1)];
    assert_eq!(sources(&tried), expected);
    let files = |run: &Json| run["files"].as_array().unwrap().iter().map(|file| file["documents"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(tried.iter().map(files).collect::<Vec<_>>(), [vec![2], vec![2, 1], vec![1, 0], vec![1]]);
    assert!(!sandbox.store().exists());

    let table = sandbox.ok(&["import", "in", "--dry-run"]);
    assert!(table.contains("price8.json") && table.contains("prices") && !table.contains("price9"), "{table}");

    let jobs = sandbox.run(&["import", "in", "--json"]).exits(0).lines();
    assert_eq!(sources(&jobs), expected);
    assert_eq!(numbers(&sandbox), ["1", "2", "3", "4", "5"]);
    assert_eq!(sandbox.get("price", "nail")["cents"], 5);
    assert_eq!(sandbox.get("note", "call Ann")["note"], "call Ann");

    let again = sandbox.run(&["import", "in/late", "in", "in/orders_1.csv", "--json"]).exits(0).lines();
    assert_eq!(sources(&again), expected);
    assert!(again.iter().all(|job| job["counts"]["unchanged"] == job["counts"]["documents"]), "{again:?}");
}

#[test]
fn files_without_a_source_are_named_and_not_read() {
    let sandbox = shop();
    for number in 0..12 {
        sandbox.write_file(&format!("in/notice{number:02}.csv"), "number,customer\n77,Zoe\n");
    }
    let answer = sandbox.run(&["import", "in"]).exits(2);
    let text = answer.text();
    assert!(text.contains("12 files not imported") && text.contains("notice09.csv") && !text.contains("notice10.csv"), "{text}");
    assert!(text.contains("and 2 more"), "{text}");
    assert_eq!(numbers(&sandbox), ["1", "2", "3", "4", "5"]);
    let lines = sandbox.run(&["import", "in", "--json"]).exits(2).lines();
    assert_eq!(lines.last().unwrap()["unclaimed"].as_array().unwrap().len(), 12);
    sandbox.run(&["import", "in", "--dry-run", "--json"]).exits(2);
    // a single file is an error, and one whose source is named is read whatever it is called
    sandbox.run(&["import", "in/notice00.csv"]).exits(1).stderr_contains(&["notice00.csv is no source's by its name", "north, south"]);
    assert_eq!(sandbox.import(&["in/notice00.csv", "--source", "north"])["counts"]["created"], 1);
}

#[test]
fn a_file_of_two_sources_stops_everything_before_it_begins() {
    let sandbox = shop();
    sandbox.write_file("in/orders_3.csv", "number,order_id,customer,client\n8,8,Ann,Ann\n");
    sandbox.run(&["import", "in"]).exits(1).stderr_contains(&["orders_3.csv contains csv; choose the source: north, south"]);
    assert!(!sandbox.store().exists());
    sandbox.run(&["import", "nothing"]).exits(1).stderr_contains(&["nothing has no files"]);
    sandbox.run(&["import", "in/nowhere", "in"]).exits(1).stderr_contains(&["nowhere"]);
    // so does one that is not what its source reads
    std::fs::remove_file(sandbox.path("in/orders_3.csv")).unwrap();
    sandbox.write_file("in/price3.json", "<html>gone</html>");
    sandbox.run(&["import", "in"]).exits(1).stderr_contains(&["price3.json", "HTML"]);
    assert_eq!(sandbox.json(&["jobs", "--json"]), json!([]));
}

#[test]
fn a_job_keeps_its_source() {
    let sandbox = shop();
    let jobs = sandbox.run(&["import", "in", "--detach", "--json"]).exits(0).lines();
    assert_eq!(jobs.iter().map(|job| job["source"].as_str().unwrap()).collect::<Vec<_>>(), ["north", "south", "prices", "notes"]);
    // what is said of files now does not change whose they were
    sandbox.write_definition(&SHOP.replace("orders_*.csv", "ordered_*.csv"));
    sandbox.ok(&["import", "--resume", "2"]);
    sandbox.ok(&["work", "--drain"]);
    assert_eq!(numbers(&sandbox), ["1", "2", "3", "4", "5"]);
}

#[test]
fn an_upload_is_of_the_source_that_its_name_says() {
    let sandbox = shop();
    let served = Served::new(&sandbox, &[]);
    let import = |name: &str, text: &str| served.send("POST", &format!("/v1/main/import?name={name}"), &[], text.as_bytes());
    let job = import("orders_7.csv", "number,customer\n7,Ann\n");
    assert_eq!((job.status, job.json()["source"].clone()), (202, json!("north")));
    let tried = served.send("POST", "/v1/main/import?dry_run=true&name=orders_7.csv", &[], b"order_id,client\n7,Ann\n");
    assert_eq!((tried.status, tried.json()["source"].clone()), (200, json!("south")));
    assert_eq!(import("other.csv", "number,customer\n7,Ann\n").status, 422);
    assert_eq!(import("orders_7.csv", "number,order_id\n7,7\n").status, 422);
    // without a name only what is in it counts
    let delivered = served.send("POST", "/v1/main/deliver", &[], json!({ "note": "x" }).to_string().as_bytes());
    assert_eq!((delivered.status, delivered.json()["records"][0]["collection"].clone()), (200, json!("note")));
    let delivered = served.send("POST", "/v1/main/deliver?name=price1.json", &[], json!({ "value": [{ "article": "saw" }] }).to_string().as_bytes());
    assert_eq!((delivered.status, delivered.json()["records"][0]["collection"].clone()), (200, json!("price")));
}

#[test]
fn rows_that_are_shorter_than_the_header_have_absent_values() {
    let definition = |short_rows: &str| {
        format!(
            "catalogue: list\nsources: {{ list: {{ format: csv, {short_rows}into: thing, as_of: meta.received }} }}\n\
             collections: {{ thing: {{ key: id, fields: {{ id: text, name: text, size: {{ type: integer, required: true }} }} }} }}\n"
        )
    };
    let rows = "id,size,name\na,1\n\nb,2,\nc\nd,4,four,more\n";
    let sandbox = Sandbox::new(&definition("short_rows: absent, "));
    let file = sandbox.write_file("rows.csv", rows);
    let job = sandbox.import(&[&file]);
    assert_eq!((&job["counts"]["created"], &job["counts"]["failed"]), (&json!(2), &json!(2)));
    assert_eq!(sandbox.get("thing", "a"), json!({ "key": "a", "id": "a", "size": 1 }));
    let reasons: Vec<String> = sandbox.troubles(1).iter().map(|trouble| trouble["reasons"][0].as_str().unwrap().to_owned()).collect();
    assert!(reasons[0].contains("size") && reasons[1].contains("the row has 4 values, the header has 3"), "{reasons:?}");
    for default in ["", "short_rows: fail, "] {
        let sandbox = Sandbox::new(&definition(default));
        let file = sandbox.write_file("rows.csv", rows);
        assert_eq!(sandbox.import(&[&file])["counts"]["failed"], 3);
    }
}
