//! What contributors say and what becomes of it, through the program: edits that others overrule, and files that take the place of older ones.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

use serde_json::{Value as Json, json};
use stook_tests::Place;
use stook_tests::http::Served;

const PREFERRED: &str = "\
catalogue: register
sources:
  list: { format: json, into: company, as_of: meta.received }
collections:
  company:
    key: id
    survivorship: { prefer: [api] }
    fields:
      id: text
      name: text
      city: { type: text, from: [api, list], survivorship: { prefer: [list, api] } }
      staff: { type: integer, from: [list] }
";

#[test]
fn the_api_can_be_preferred_and_an_edit_that_others_overrule_says_so() {
    for place in Place::both(PREFERRED) {
        place.ok(&["check"]);
        let file = place.file("list.ndjson", "{\"id\":\"a\",\"name\":\"Old\",\"city\":\"Delft\",\"staff\":5}\n");
        place.import(&[&file, "--source", "list"]);
        let served = Served::new(&place, &[]);
        let edit = json!({ "name": "New", "city": "Gouda", "staff": 9 });
        let answer = served.call("PATCH", "/v1/main/company/a", &edit).with(200);
        assert_eq!((&answer["name"], &answer["city"], &answer["staff"]), (&json!("New"), &json!("Delft"), &json!(5)), "{answer}");
        let overruled = answer["$overruled"].as_object().expect("what had no effect is named");
        assert_eq!(overruled.keys().collect::<Vec<_>>(), ["city", "staff"], "{answer}");
        assert!(overruled["city"].as_str().is_some_and(|reason| reason.contains("list")), "{answer}");
        drop(served);
        // a newer list changes neither what the API is preferred for, nor what it has no say in
        let file = place.file("newer.ndjson", "{\"id\":\"a\",\"name\":\"Newest\",\"city\":\"Leiden\",\"staff\":6}\n");
        place.import(&[&file, "--source", "list"]);
        let record = place.get("company", "a");
        assert_eq!((&record["name"], &record["city"], &record["staff"]), (&json!("New"), &json!("Leiden"), &json!(6)), "{record}");
    }
}

const REPLACED: &str = "\
catalogue: plans
sources:
  plan: { format: csv, into: orbit, as_of: meta.received, replaces: { scope: \"'all'\" } }
collections:
  orbit: { key: id, fields: { id: text, start: text } }
";

fn plan(numbers: impl Iterator<Item = usize>) -> String {
    "id,start\n".to_owned() + &numbers.map(|number| format!("o{number},s{number}\n")).collect::<String>()
}

fn count(place: &Place) -> usize {
    place.records("orbit").len()
}

/// What the import of a file says of older ones, and that its dry run said the same and its journal says it again.
fn replaced(place: &Place, file: &str, more: &[&str]) -> Json {
    let arguments = [&[file, "--source", "plan"], more].concat();
    let foreseen = place.dry_run(&arguments)["replaced"].clone();
    let job = place.import(&arguments);
    let done = job["replaced"].clone();
    assert_eq!((&foreseen["retired"], &foreseen["files"][0]["counts"]), (&done["retired"], &done["files"][0]["counts"]), "{foreseen}\n{done}");
    let journal = place.run(&["journal", &job["id"].to_string()]).exits(0);
    let told = format!("{}{}", journal.text(), journal.err);
    let word = if done["files"][0]["counts"] == true { "retired" } else { "--retire-all" };
    assert!(done["retired"] == 0 && done["files"][0]["counts"] == true || told.contains(word), "{told}");
    done
}

#[test]
fn a_file_that_lacks_most_of_the_one_before_retires_nothing_until_somebody_allows_it() {
    for place in Place::both(REPLACED) {
        let whole = place.file("whole.csv", plan(0..100));
        replaced(&place, &whole, &[]);
        assert_eq!(count(&place), 100);
        let most = place.file("most.csv", plan(10..100));
        let done = replaced(&place, &most, &[]);
        assert_eq!((&done["retired"], &done["files"][0]["lacks"]["missing"]), (&json!(10), &json!(10)), "{done}");
        assert_eq!(count(&place), 90);
        // a cut one: its documents count all the same
        let cut = place.file("cut.csv", plan((98..100).chain(200..201)));
        let done = replaced(&place, &cut, &[]);
        assert_eq!((&done["retired"], &done["files"][0]["counts"]), (&json!(0), &json!(false)), "{done}");
        assert!(done["files"][0]["reason"].as_str().is_some_and(|reason| reason.contains("88 of 90") && reason.contains("--retire-all")), "{done}");
        assert_eq!(count(&place), 91);
        assert_eq!(place.get("orbit", "o200")["start"], "s200");
        let shown = place.run(&["import", &cut, "--source", "plan"]).exits(0);
        assert!(format!("{}{}", shown.text(), shown.err).contains("--retire-all"), "{}{}", shown.text(), shown.err);
        // allowed, it takes their place, and that is kept
        let done = replaced(&place, &cut, &["--retire-all"]);
        assert_eq!(done["files"][0]["counts"], true, "{done}");
        assert_eq!(count(&place), 3);
        let jobs = place.json(&["jobs", "--json"]);
        assert_eq!(jobs[0]["files"][0]["retires_all"], true, "{jobs}");
        place.ok(&["check", "--deep"]);
    }
}
