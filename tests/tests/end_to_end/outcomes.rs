//! What becomes of documents: every profile, every refusal, every kind of damage, and what is left in the store after it.

use serde_json::{Value as Json, json};
use stook_formats::marc::MarcBuilder;
use stook_tests::http::{Served, url_encoded};
use stook_tests::{Sandbox, authorities, counts, gzip, sum_of_outcomes, touch, zstandard};

/// Things from a list that says itself when it was true.
const THINGS: &str = "\
catalogue: things
sources:
  list: { format: csv, into: thing, as_of: changed, gone: \"status == 'gone'\" }
collections:
  thing:
    key: id
    fields:
      id: text
      name: { type: text, index: equal }
      size: integer
      status: text
      changed: timestamp
profiles:
  create_on_no_match: { source: list, matched: skip, unmatched: create }
  upsert: { source: list, matched: update, unmatched: create }
  update_only: { source: list, matched: update, unmatched: skip }
  take_back: { source: list, matched: withdraw, unmatched: skip }
  only_new: { source: list, matched: fail, unmatched: create }
  only_known: { source: list, matched: update, unmatched: fail }
";

const HEADER: &str = "id,name,size,status,changed\n";

/// A row of things: id, name and day of January 2020.
fn thing(id: &str, name: &str, day: u32) -> String {
    format!("{id},{name},,,2020-01-{day:02}T00:00:00Z\n")
}

fn things(rows: &[(&str, &str, u32)]) -> String {
    let rows = rows.iter().map(|(id, name, day)| thing(id, name, *day));
    std::iter::once(HEADER.to_owned()).chain(rows).collect()
}

/// Imports rows with a profile; gives the counts in words.
fn deliver(sandbox: &Sandbox, profile: &str, rows: &[(&str, &str, u32)]) -> String {
    let file = sandbox.write_file("rows.csv", things(rows));
    let preview = sandbox.dry_run(&[&file, "--profile", profile]);
    let job = sandbox.import(&[&file, "--profile", profile]);
    assert_eq!(preview["counts"], job["counts"], "a dry run counts what the import does");
    counts(&job)
}

fn names(sandbox: &Sandbox) -> Vec<(String, String)> {
    let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
    sandbox.records("thing").iter().map(|record| (text(&record["id"]), text(&record["name"]))).collect()
}

fn reasons(trouble: &Json) -> String {
    trouble["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

// --- profiles -----------------------------------------------------------------------------------------------------------

#[test]
fn create_on_no_match_leaves_existing_records_as_they_are() {
    let sandbox = Sandbox::new(THINGS);
    assert_eq!(deliver(&sandbox, "create_on_no_match", &[("a", "one", 1), ("b", "two", 1)]), "created 2");
    assert_eq!(deliver(&sandbox, "create_on_no_match", &[("a", "one", 1), ("b", "two", 1)]), "skipped 2");
    assert_eq!(deliver(&sandbox, "create_on_no_match", &[("a", "newer", 9), ("c", "three", 1)]), "created 1, skipped 1");
    assert_eq!(names(&sandbox), pairs(&[("a", "one"), ("b", "two"), ("c", "three")]));
}

#[test]
fn importing_the_same_file_twice_changes_nothing() {
    let sandbox = Sandbox::new(THINGS);
    assert_eq!(deliver(&sandbox, "upsert", &[("a", "one", 1), ("b", "two", 1)]), "created 2");
    let before = sandbox.json(&["get", "thing", "a", "--explain", "--format", "json"]);
    assert_eq!(deliver(&sandbox, "upsert", &[("a", "one", 1), ("b", "two", 1)]), "unchanged 2");
    assert_eq!(sandbox.json(&["get", "thing", "a", "--explain", "--format", "json"]), before, "not even where it came from");
}

#[test]
fn upsert_updates_what_changed_and_creates_what_is_new() {
    let sandbox = Sandbox::new(THINGS);
    deliver(&sandbox, "upsert", &[("a", "one", 1), ("b", "two", 1)]);
    assert_eq!(deliver(&sandbox, "upsert", &[("a", "one!", 2), ("b", "two", 1), ("c", "three", 1)]), "created 1, updated 1, unchanged 1");
    assert_eq!(names(&sandbox), pairs(&[("a", "one!"), ("b", "two"), ("c", "three")]));
}

#[test]
fn update_only_creates_nothing() {
    let sandbox = Sandbox::new(THINGS);
    deliver(&sandbox, "upsert", &[("a", "one", 1)]);
    assert_eq!(deliver(&sandbox, "update_only", &[("a", "one!", 2), ("b", "two", 1)]), "updated 1, skipped 1");
    assert_eq!(names(&sandbox), pairs(&[("a", "one!")]));
}

#[test]
fn fail_profiles_refuse_documents_with_a_reason() {
    let sandbox = Sandbox::new(THINGS);
    deliver(&sandbox, "upsert", &[("a", "one", 1)]);
    assert_eq!(deliver(&sandbox, "only_new", &[("a", "one!", 2), ("b", "two", 1)]), "created 1, failed 1");
    assert_eq!(reasons(&sandbox.troubles(2)[0]), "a record with this key existed before");
    assert_eq!(deliver(&sandbox, "only_known", &[("a", "one!", 2), ("c", "three", 1)]), "updated 1, failed 1");
    assert_eq!(reasons(&sandbox.troubles(3)[0]), "there is no record with this key");
    assert_eq!(names(&sandbox), pairs(&[("a", "one!"), ("b", "two")]));
}

/// A record must not change another one's because its number stands second.
#[test]
fn a_document_with_different_values_of_its_key_fails_and_names_them() {
    let definition = |format: &str, id: &str, group: &str| {
        format!(
            "catalogue: c\nsources:\n  list: {{ format: {format}, into: thing, as_of: meta.received }}\ncollections:\n  thing:\n    key: '{{group}}/{{id}}'\n    \
             fields:\n      id: {{ type: text, path: '{id}', clean: trim }}\n      group: {{ type: text, path: '{group}' }}\n"
        )
    };
    let marc = |numbers: &[&str]| {
        let mut record = MarcBuilder::new("00000nz  a2200000n  4500").unwrap();
        for (tag, value) in numbers.iter().map(|number| ("010", *number)).chain([("040", "DLC")]) {
            record.data(tag, " ", " ").unwrap();
            record.subfield("a", value).unwrap();
        }
        record.finish().to_iso2709().unwrap()
    };
    let json = |ids: &str| format!("{{\"ids\": {ids}, \"g\": \"DLC\"}}").into_bytes();
    let xml = |ids: &str| format!("<r>{ids}<g>DLC</g></r>").into_bytes();
    let cases = [
        ("marc", "010$a", "040$a", [marc(&["n 1"]), marc(&["n 1", "n 2"]), marc(&["n 1", " n 1 ", ""])]),
        ("json", "$.ids[*]", "$.g", [json("[\"n 1\"]"), json("[\"n 1\", \"n 2\"]"), json("[null, \"n 1\", \"n 1 \"]")]),
        ("xml", "id", "g", [xml("<id>n 1</id>"), xml("<id>n 1</id><id>n 2</id>"), xml("<id> n 1</id><id/><id>n 1</id>")]),
    ];
    for (format, id, group, [one, two, equal]) in cases {
        let sandbox = Sandbox::new(&definition(format, id, group));
        assert_eq!(counts(&sandbox.import(&[&sandbox.write_file("one", one)])), "created 1", "{format}");
        let job = sandbox.import(&[&sandbox.write_file("two", two)]);
        assert_eq!(counts(&job), "failed 1", "{format}");
        let reason = reasons(&sandbox.troubles(2)[0]);
        assert!(reason.ends_with("id: it identifies the record and has different values here: `n 1`, `n 2`"), "{format}: {reason}");
        assert_eq!(counts(&sandbox.import(&[&sandbox.write_file("equal", equal)])), "unchanged 1", "{format}");
    }
}

#[test]
fn a_withdrawing_profile_withdraws_the_contributions_for_the_keys_in_the_file() {
    let sandbox = Sandbox::new(THINGS);
    deliver(&sandbox, "upsert", &[("a", "one", 1), ("b", "two", 1), ("c", "three", 1)]);
    assert_eq!(deliver(&sandbox, "take_back", &[("a", "whatever", 1), ("a", "again", 1), ("x", "unknown", 1)]), "skipped 2, withdrawn 1");
    assert_eq!(names(&sandbox), pairs(&[("b", "two"), ("c", "three")]));
    assert_eq!(deliver(&sandbox, "upsert", &[("a", "one", 1)]), "created 1", "nothing is left that would know of it");
}

#[test]
fn matched_means_existed_before_the_job() {
    let sandbox = Sandbox::new(THINGS);
    // the second document for `a` does not match the record the first one made
    assert_eq!(deliver(&sandbox, "create_on_no_match", &[("a", "old", 1), ("a", "new", 2)]), "created 1, superseded 1");
    assert_eq!(names(&sandbox), pairs(&[("a", "new")]));
}

// --- time ---------------------------------------------------------------------------------------------------------------

#[test]
fn of_several_documents_for_one_record_the_newest_wins_and_the_others_are_superseded() {
    let sandbox = Sandbox::new(THINGS);
    assert_eq!(deliver(&sandbox, "upsert", &[("a", "second", 2), ("a", "third", 3), ("a", "first", 1)]), "created 1, superseded 2");
    assert_eq!(names(&sandbox), pairs(&[("a", "third")]));
    let outcomes: Vec<Json> = sandbox.journal(1).iter().map(|entry| entry["outcome"].clone()).collect();
    assert_eq!(outcomes, ["superseded", "created", "superseded"]);
}

#[test]
fn a_late_delivery_of_an_older_version_loses() {
    let sandbox = Sandbox::new(THINGS);
    deliver(&sandbox, "upsert", &[("a", "new", 5)]);
    assert_eq!(deliver(&sandbox, "upsert", &[("a", "old", 4)]), "superseded 1");
    assert_eq!(names(&sandbox), pairs(&[("a", "new")]));
}

#[test]
fn of_documents_with_one_date_the_one_that_was_received_last_wins() {
    let sandbox = Sandbox::new(&THINGS.replace("as_of: changed", "as_of: [changed, meta.received]"));
    let texts = ["b", "a", "c", "b", "b"];
    let outcomes = ["created 1", "updated 1", "updated 1", "updated 1", "unchanged 1"];
    for (text, outcome) in texts.into_iter().zip(outcomes) {
        assert_eq!(deliver(&sandbox, "upsert", &[("k", text, 1)]), outcome);
        assert_eq!(names(&sandbox), pairs(&[("k", text)]));
    }
    // of one file the last one
    assert_eq!(deliver(&sandbox, "upsert", &[("k", "z", 1), ("k", "a", 1), ("k", "d", 1)]), "updated 1, superseded 2");
    assert_eq!(names(&sandbox), pairs(&[("k", "d")]));
    let reason = reasons(&sandbox.journal(6)[0]);
    assert!(reason.starts_with("document 3 of the same delivery counts instead, as of 2020-01-01T00:00:00Z, received 20"), "{reason}");
    // the order of acceptance counts, not that of processing
    let detach = |text: &str| {
        let file = sandbox.write_file(&format!("{text}.csv"), things(&[("k", text, 1)]));
        let job = sandbox.json(&["import", "--json", "--detach", "--profile", "upsert", &file]);
        job["id"].as_u64().unwrap().to_string()
    };
    let (older, newer) = (detach("f"), detach("e"));
    assert_eq!(counts(&sandbox.json(&["import", "--json", "--resume", &newer])), "updated 1");
    assert_eq!(counts(&sandbox.json(&["import", "--json", "--resume", &older])), "superseded 1");
    assert_eq!(names(&sandbox), pairs(&[("k", "e")]));
    let shown = sandbox.ok(&["journal", &older]);
    assert!(shown.contains(&format!("document 1 of job {newer} counts instead, as of 2020-01-01T00:00:00Z, received 20")), "{shown}");
}

#[test]
fn without_a_list_the_content_decides_between_documents_with_one_date_and_the_journal_says_so() {
    let sandbox = Sandbox::new(THINGS);
    let rows = [("k", "a", 1), ("k", "b", 1)];
    deliver(&sandbox, "upsert", &rows[..1]);
    let first = deliver(&sandbox, "upsert", &rows[1..]);
    let (job, superseding) = if first == "superseded 1" { (2, "document 1 of job 1") } else { (3, "document 1 of job 2") };
    deliver(&sandbox, "upsert", &rows[..1]);
    let reason = reasons(&sandbox.journal(job)[0]);
    assert_eq!(reason, format!("{superseding} counts instead, as of 2020-01-01T00:00:00Z: both are of the same time, so their content decided"));
}

/// A(1), A(3), then a late B(2): the second A says nothing new, but its time counts.
#[test]
fn equal_content_of_a_later_time_is_unchanged_and_still_overrules_what_was_between() {
    let sandbox = Sandbox::new(
        "\
catalogue: things
sources: { list: { format: csv, into: thing, as_of: meta.received } }
collections: { thing: { key: id, fields: { id: text, name: text } } }
",
    );
    let a = sandbox.write_file("a.csv", "id,name\nx,A\n");
    let b = sandbox.write_file("b.csv", "id,name\nx,B\n");
    assert_eq!(counts(&sandbox.import(&[&a, "--as-of", "2020-01-01"])), "created 1");
    assert_eq!(counts(&sandbox.import(&[&a, "--as-of", "2020-01-03"])), "unchanged 1");
    assert_eq!(counts(&sandbox.import(&[&b, "--as-of", "2020-01-02"])), "superseded 1");
    assert_eq!(sandbox.get("thing", "x")["name"], "A");
    assert_eq!(counts(&sandbox.import(&[&b, "--as-of", "2020-01-04"])), "updated 1");
    assert_eq!(sandbox.get("thing", "x")["name"], "B");
}

#[test]
fn a_document_from_the_future_fails_and_blocks_nothing() {
    let sandbox = Sandbox::new(THINGS);
    let file = sandbox.write_file("rows.csv", format!("{HEADER}a,one,,,2999-01-01T00:00:00Z\n{}", thing("b", "two", 1)));
    assert_eq!(counts(&sandbox.import(&[&file])), "created 1, failed 1");
    let trouble = &sandbox.troubles(1)[0];
    assert_eq!((&trouble["record"], &trouble["key"], &trouble["collection"]), (&json!(1), &json!("a"), &json!("thing")));
    assert_eq!(reasons(trouble), "the document's as-of time 2999-01-01T00:00:00Z is more than a day in the future");
    assert_eq!(deliver(&sandbox, "upsert", &[("a", "one", 2)]), "created 1");
}

#[test]
fn a_delivery_from_the_future_fails_as_well() {
    let sandbox = Sandbox::new(&THINGS.replace("as_of: changed", "as_of: meta.received"));
    let file = sandbox.write_file("rows.csv", things(&[("a", "one", 1)]));
    assert_eq!(counts(&sandbox.import(&[&file, "--as-of", "2999-01-01"])), "failed 1");
    touch(&file, 32_472_144_000);
    assert_eq!(counts(&sandbox.import(&[&file])), "failed 1");
    touch(&file, 1_500_000_000);
    assert_eq!(counts(&sandbox.import(&[&file])), "created 1");
}

#[test]
fn a_delivery_without_a_time_of_its_own_has_that_of_its_file() {
    let sandbox = Sandbox::new(
        &THINGS
            .replace("as_of: changed", "as_of: meta.received")
            .replace("status: text", "status: text\n      seen: { type: timestamp, expr: meta.received }"),
    );
    let file = sandbox.write_file("rows.csv", things(&[("a", "one", 1)]));
    touch(&file, 1_000_000_000);
    sandbox.import(&[&file]);
    let as_of = |sandbox: &Sandbox| sandbox.json(&["get", "thing", "a", "--explain", "--format", "json"])["contributions"][0]["as_of"].clone();
    assert_eq!(as_of(&sandbox), "2001-09-09T01:46:40Z");
    assert_eq!(sandbox.get("thing", "a")["seen"], "2001-09-09T01:46:40Z");
    // what the caller says counts more than the file
    assert_eq!(counts(&sandbox.import(&[&file, "--as-of", "2010-05-06T07:08:09Z"])), "unchanged 1");
    assert_eq!(as_of(&sandbox), "2010-05-06T07:08:09Z");
}

#[test]
fn a_changed_mapping_maps_the_same_documents_again() {
    let sandbox = Sandbox::new(THINGS);
    let rows: Vec<(String, String)> = (0..64).map(|number| (format!("k{number:02}"), format!("name {number}"))).collect();
    let rows: Vec<(&str, &str, u32)> = rows.iter().map(|(id, name)| (id.as_str(), name.as_str(), 1)).collect();
    assert_eq!(deliver(&sandbox, "upsert", &rows), "created 64");
    sandbox.write_definition(&THINGS.replace("name: { type: text, index: equal }", "name: { type: text, index: equal, path: id }"));
    assert_eq!(deliver(&sandbox, "upsert", &rows), "updated 64", "the documents have the same times, but another map read them");
    assert!(names(&sandbox).iter().all(|(id, name)| id == name));
    assert_eq!(deliver(&sandbox, "upsert", &rows), "unchanged 64");
}

// --- deletion and withdrawal --------------------------------------------------------------------------------------------

#[test]
fn a_tombstone_deletes_by_its_time_and_a_later_document_revives() {
    let sandbox = Sandbox::new(THINGS);
    let row = |status: &str, day: u32| format!("{HEADER}a,one,,{status},2020-01-{day:02}T00:00:00Z\n");
    let import = |text: String| counts(&sandbox.import(&[&sandbox.write_file("rows.csv", text)]));
    assert_eq!(import(row("here", 2)), "created 1");
    assert_eq!(import(row("gone", 1)), "superseded 1", "an older tombstone does not delete");
    assert_eq!(sandbox.records("thing").len(), 1);
    assert_eq!(import(row("gone", 3)), "deleted 1");
    assert_eq!(import(row("gone", 3)), "unchanged 1");
    assert_eq!(sandbox.records("thing").len(), 0);
    assert_eq!(sandbox.get("thing", "a"), Json::Null);
    assert_eq!(sandbox.run(&["get", "thing", "a", "--deleted", "--format", "json"]).exits(0).json()["key"], "a");
    assert_eq!(sandbox.json(&["query", "thing | count(id)", "--format", "json"])[0]["count(id)"], 0);
    assert_eq!(import(row("here", 2)), "superseded 1", "what is older than the tombstone stays dead");
    assert_eq!(sandbox.records("thing").len(), 0);
    assert_eq!(import(row("here", 4)), "created 1");
    assert_eq!(sandbox.records("thing").len(), 1);
}

/// Whether or not documents of one time are ordered by their reception.
#[test]
fn a_repeated_deletion_is_unchanged_whatever_its_order() {
    let row = |id: &str, status: &str, day: u32| format!("{id},one,,{status},2020-01-{day:02}T00:00:00Z\n");
    for as_of in ["changed", "[changed, meta.received]"] {
        let sandbox = Sandbox::new(&THINGS.replace("as_of: changed", &format!("as_of: {as_of}")));
        let import = |rows: &[String]| counts(&sandbox.import(&[&sandbox.write_file("rows.csv", format!("{HEADER}{}", rows.concat()))]));
        assert_eq!(import(&[row("a", "here", 1), row("b", "here", 1)]), "created 2");
        assert_eq!(import(&[row("a", "gone", 2), row("b", "here", 1), row("c", "gone", 2)]), "unchanged 1, deleted 2", "{as_of}");
        assert_eq!(import(&[row("a", "gone", 2), row("c", "gone", 2)]), "unchanged 2", "{as_of}");
        assert_eq!(import(&[row("a", "gone", 3)]), "unchanged 1", "{as_of}: a later one says the same");
        assert_eq!(import(&[row("a", "here", 4), row("a", "gone", 2)]), "created 1, superseded 1", "{as_of}");
        assert_eq!(import(&[row("a", "gone", 5)]), "deleted 1", "{as_of}");
        let outcomes: Vec<String> = sandbox.journal(2).iter().map(|entry| entry["outcome"].as_str().unwrap().to_owned()).collect();
        assert_eq!(outcomes, ["deleted", "unchanged", "deleted"]);
    }
}

/// A record that another source still has is not gone, which the journal says.
#[test]
fn a_deletion_of_a_record_that_remains_names_who_keeps_it() {
    let sandbox = Sandbox::new(
        "\
catalogue: things
sources:
  list: &source { format: csv, into: thing, as_of: meta.received, gone: \"name == 'gone'\" }
  staff: { <<: *source }
collections:
  thing: { key: id, exists: any, fields: { id: text, name: text } }
",
    );
    let import = |source: &str, name: &str, day: &str| {
        let file = sandbox.write_file("rows.csv", format!("id,name\na,{name}\n"));
        sandbox.import(&[&file, "--source", source, "--as-of", day])
    };
    import("list", "one", "2020-01-01");
    import("staff", "two", "2020-01-01");
    assert_eq!(counts(&import("list", "gone", "2020-01-02")), "deleted 1");
    assert_eq!(
        sandbox.journal(3)[0]["reasons"],
        json!(["the record remains, because of what `staff` (document 1 of job 2) says as of 2020-01-01T00:00:00Z"])
    );
    assert_eq!(sandbox.records("thing").len(), 1);
    assert_eq!(counts(&import("staff", "gone", "2020-01-02")), "deleted 1");
    assert_eq!((sandbox.journal(4)[0]["reasons"].clone(), sandbox.records("thing").len()), (json!([]), 0));
}

const TWO_VOICES: &str = "\
catalogue: things
sources:
  list: { format: csv, into: thing, as_of: meta.received }
  staff: { format: csv, into: thing, as_of: meta.received }
collections:
  thing:
    key: id
    fields: { id: text, name: text, shelf: text }
";

#[test]
fn withdrawing_a_source_restores_the_previous_values() {
    let sandbox = Sandbox::new(TWO_VOICES);
    let list = sandbox.write_file("list.csv", "id,name,shelf\na,from the list,1\nb,list only,2\n");
    let staff = sandbox.write_file("staff.csv", "id,name,shelf\na,by hand,\nc,staff only,3\n");
    sandbox.import(&[&list, "--source", "list", "--as-of", "2020-01-01"]);
    let before = sandbox.export("thing", "ndjson");
    assert_eq!(counts(&sandbox.import(&[&staff, "--source", "staff", "--as-of", "2020-01-02"])), "created 1, updated 1");
    assert_eq!(sandbox.get("thing", "a"), json!({"key": "a", "id": "a", "name": "by hand", "shelf": "1"}));
    let explained = sandbox.json(&["get", "thing", "a", "--explain", "--format", "json"]);
    assert_eq!(explained["fields"]["name"]["from"], json!(["staff"]));
    assert_eq!(explained["fields"]["name"]["lost"][0]["value"], "from the list");
    let withdrawn = json!({"records": 2, "gone": 1, "held": 0, "refused": [], "fails": [], "more_fail": false});
    assert_eq!(sandbox.json(&["withdraw", "staff", "--json"]), withdrawn);
    assert!(sandbox.export("thing", "ndjson") == before);
    assert_eq!(sandbox.json(&["withdraw", "staff", "--json"])["records"], 0, "a second time nothing found to take back");
    // and it may speak again as if it never had
    assert_eq!(counts(&sandbox.import(&[&staff, "--source", "staff", "--as-of", "2020-01-02"])), "created 1, updated 1");
}

#[test]
fn withdrawing_from_one_record_leaves_the_others() {
    let sandbox = Sandbox::new(TWO_VOICES);
    let list = sandbox.write_file("list.csv", "id,name,shelf\na,one,1\nb,two,2\n");
    sandbox.import(&[&list, "--source", "list"]);
    assert_eq!(sandbox.json(&["withdraw", "list", "--collection", "thing", "--key", "a", "--json"])["gone"], 1);
    assert_eq!(names(&sandbox), pairs(&[("b", "two")]));
}

// --- conditions ---------------------------------------------------------------------------------------------------------

const STRICT: &str = "\
catalogue: strict
sources:
  list:
    format: csv
    into: thing
    as_of: meta.received
    accept:
      - { unless: \"kind != 'secret'\", do: skip }
      - { unless: \"kind != 'wrong'\", do: fail, reason: \"'kind ' + kind + ' is not for us'\" }
collections:
  thing:
    key: id
    fields:
      id: text
      name: { type: text, required: true }
      code: { type: text, unique: true }
      size: { type: integer, on_error: fail }
      width: integer
      kind: { type: text, one_of: [a, b, secret, wrong] }
";

const STRICT_HEADER: &str = "id,name,code,size,width,kind\n";

#[test]
fn documents_without_required_values_fail_and_the_others_are_imported() {
    let sandbox = Sandbox::new(STRICT);
    let rows = "ok,one,,1,2,a\nnameless,,,,,a\n,no key,,,,a\nlarge,three,,many,,a\nlast,four,,,,b\n";
    let file = sandbox.write_file("rows.csv", [STRICT_HEADER, rows].concat());
    let job = sandbox.import(&[&file]);
    assert_eq!(counts(&job), "created 2, failed 3");
    let failures: Vec<(u64, String)> = sandbox.troubles(1).iter().map(|trouble| (trouble["record"].as_u64().unwrap(), reasons(trouble))).collect();
    assert_eq!(failures[0], (2, "missing required field: name".to_owned()));
    assert_eq!(failures[1], (3, "no key: `id` has no value".to_owned()));
    assert_eq!(failures[2].0, 4);
    assert!(failures[2].1.starts_with("size: ") && failures[2].1.contains("many"), "{}", failures[2].1);
    assert_eq!(names(&sandbox), pairs(&[("last", "four"), ("ok", "one")]));
}

#[test]
fn accept_rules_skip_or_fail_with_their_reason() {
    let sandbox = Sandbox::new(STRICT);
    let file = sandbox.write_file("rows.csv", [STRICT_HEADER, "a,one,,,,a\nb,two,,,,secret\nc,three,,,,wrong\n"].concat());
    let preview = sandbox.dry_run(&[&file]);
    let job = sandbox.import(&[&file]);
    assert_eq!((counts(&job), &preview["counts"]), ("created 1, skipped 1, failed 1".to_owned(), &job["counts"]));
    let journal = sandbox.journal(1);
    assert_eq!((&journal[1]["outcome"], &journal[1]["key"]), (&json!("skipped"), &json!("b")));
    assert_eq!((&journal[2]["outcome"], reasons(&journal[2])), (&json!("failed"), "kind wrong is not for us".to_owned()));
}

#[test]
fn text_with_a_nul_character_is_left_out() {
    let sandbox = Sandbox::new(STRICT);
    let job = sandbox.import(&[&sandbox.write_file("rows.csv", [STRICT_HEADER, "a,on\0e,,,7,b\n"].concat())]);
    // it is a required field
    assert_eq!(counts(&job), "failed 1, warnings 1");
    let reason = reasons(&sandbox.troubles(1)[0]);
    assert!(reason.contains("name: ") && reason.contains("\"on\\0e\" has a NUL character"), "{reason}");
}

#[test]
fn unreadable_values_are_left_out_with_a_warning_that_names_their_position() {
    let sandbox = Sandbox::new(STRICT);
    let file = sandbox.write_file("rows.csv", [STRICT_HEADER, "a,one,,,wide,x\nb,two,,,7,b\n"].concat());
    let job = sandbox.import(&[&file]);
    assert_eq!(counts(&job), "created 2, warnings 2");
    let troubles = sandbox.troubles(1);
    assert_eq!(troubles.len(), 1, "one document, two warnings");
    let trouble = &troubles[0];
    assert_eq!(
        (&trouble["outcome"], &trouble["record"], &trouble["offset"], &trouble["key"]),
        (&json!("created"), &json!(1), &json!(29), &json!("a"))
    );
    assert!(trouble["file"].as_str().unwrap().ends_with("rows.csv"));
    let reason = reasons(trouble);
    assert!(reason.contains("width: ") && reason.contains("\"x\" is not one of a, b, secret, wrong") && reason.contains("it is ignored"), "{reason}");
    assert_eq!(sandbox.get("thing", "a"), json!({"key": "a", "id": "a", "name": "one"}));
    let shown = sandbox.run(&["import", &file]).exits(0).text();
    assert!(shown.contains("2 warnings"), "{shown}");
    assert!(shown.contains("warning: rows.csv record 1 at byte 29 (a): width: "), "{shown}");
}

#[test]
fn a_unique_value_is_refused_with_the_name_of_its_holder() {
    let sandbox = Sandbox::new(STRICT);
    let import = |rows: &str| counts(&sandbox.import(&[&sandbox.write_file("rows.csv", [STRICT_HEADER, rows].concat())]));
    assert_eq!(import("a,one,X1,,,\n"), "created 1");
    assert_eq!(import("b,two,X1,,,\nc,three,X2,,,\n"), "created 1, failed 1");
    let trouble = &sandbox.troubles(2)[0];
    assert_eq!(reasons(trouble), "`code` must be unique, but record \"a\" already has this value");
    assert_eq!((&trouble["key"], &trouble["collection"], &trouble["offset"]), (&json!("b"), &json!("thing"), &json!(29)));
    assert_eq!(names(&sandbox), pairs(&[("a", "one"), ("c", "three")]));
    // a value that is given up can be taken
    assert_eq!(import("a,one,X9,,,\n"), "updated 1");
    assert_eq!(import("b,two,X1,,,\n"), "created 1");
}

#[test]
fn one_document_feeds_several_collections_or_fails_as_a_whole() {
    let sandbox = Sandbox::new(
        "\
catalogue: businesses
sources:
  sample:
    format: json
    let: { ref: $.ref, sample: $.sample }
    as_of: meta.received
    feeds:
      - { into: business, map: { ref: $.ref, name: $.name } }
      - { into: version, when: \"sample != null\", map: { ref: { expr: ref }, sample: { expr: sample }, name: $.name } }
collections:
  business: { key: ref, fields: { ref: text, name: { type: text, required: true } } }
  version: { key: \"{ref}/{sample}\", fields: { ref: text, sample: text, name: text } }
",
    );
    let rows = r#"[{"ref":"1","sample":"x","name":"one"},{"ref":"1","sample":"y","name":"one"},{"ref":"2","name":"two"},{"ref":"3","sample":"x"}]"#;
    let job = sandbox.import(&[&sandbox.write_file("rows.json", rows), "--as-of", "2020-01-01"]);
    assert_eq!(job["counts"]["documents"], 4);
    // an outcome per document and collection: the second says of business 1 what the first had said
    assert_eq!(counts(&job), "created 4, superseded 1, failed 1");
    let keys = |collection: &str| sandbox.records(collection).iter().map(|record| record["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(keys("business"), ["1", "2"]);
    assert_eq!(keys("version"), ["1/x", "1/y"]);
    let failed = &sandbox.troubles(1)[0];
    assert_eq!((&failed["document"], &failed["collection"]), (&json!(4), &Json::Null), "it reached none of its collections");
    let lines: Vec<(u64, Json)> = sandbox.journal(1).iter().map(|entry| (entry["document"].as_u64().unwrap(), entry["collection"].clone())).collect();
    assert_eq!(lines.iter().map(|(document, _)| *document).collect::<Vec<_>>(), [1, 1, 2, 2, 3, 4]);
    assert_eq!((&lines[0].1, &lines[1].1), (&json!("business"), &json!("version")));
}

#[test]
fn documents_that_fail_are_journalled_under_the_collection_they_were_for() {
    // `item` is not the first collection of the library
    let sandbox = Sandbox::library();
    let file = sandbox.write_file("items.csv", "barcode,lccn\nb1,n 1\n,n 2\nb3,n 3,surplus\n");
    let job = sandbox.import(&[&file, "--profile", "stock"]);
    assert_eq!(counts(&job), "created 1, failed 2");
    let collections: Vec<Json> = sandbox.journal(1).iter().map(|entry| entry["collection"].clone()).collect();
    assert_eq!(collections, [json!("item"), Json::Null, Json::Null]);
    let future = sandbox.run(&["import", "--json", &file, "--profile", "stock", "--as-of", "2999-01-01"]).exits(2).json();
    assert_eq!(counts(&future), "failed 3");
    let entry = &sandbox.journal(2)[0];
    assert_eq!((&entry["key"], &entry["collection"]), (&json!("b1"), &json!("item")), "it had a key, so the collection is known");
}

// --- damage -------------------------------------------------------------------------------------------------------------

/// A definition that reads `id` and `name` from one format.
fn plain(format: &str, id: &str, name: &str, more: &str) -> String {
    format!(
        "\
catalogue: plain
sources: {{ list: {{ format: {format}, into: thing, as_of: meta.received{more} }} }}
collections: {{ thing: {{ key: id, fields: {{ id: {{ type: text, path: \"{id}\" }}, name: {{ type: text, path: \"{name}\" }} }} }} }}
"
    )
}

/// Imports a file in which document 2 is broken at `offset`, and two others are sound.
fn broken(definition: &str, name: &str, bytes: &[u8], offset: usize, reason: &str) {
    let sandbox = Sandbox::new(definition);
    let file = sandbox.write_file(name, bytes);
    let answer = sandbox.run(&["import", &file]).exits(2);
    let shown = answer.text();
    assert!(shown.contains("job 1: completed with errors, 3 documents"), "{shown}");
    assert!(shown.contains("2 created, 1 failed"), "{shown}");
    assert!(shown.contains(&format!("failed: {name} record 2 at byte {offset}: ")), "{shown}");
    assert!(shown.contains("for all issues: stook journal 1 --errors"), "{shown}");
    let troubles = sandbox.troubles(1);
    assert_eq!(troubles.len(), 1);
    assert_eq!((&troubles[0]["record"], &troubles[0]["offset"], &troubles[0]["outcome"]), (&json!(2), &json!(offset), &json!("failed")));
    assert!(reasons(&troubles[0]).contains(reason), "{reason:?} is missing in {}", reasons(&troubles[0]));
    assert_eq!(names(&sandbox).iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    // the same bytes compressed break at the same place
    for (ending, compressed) in [("gz", gzip(bytes)), ("zst", zstandard(bytes))] {
        let sandbox = Sandbox::new(definition);
        let file = sandbox.write_file(&format!("{name}.{ending}"), compressed);
        sandbox.run(&["import", &file]).exits(2);
        assert_eq!(sandbox.troubles(1)[0]["offset"], offset);
        assert_eq!(names(&sandbox).len(), 2);
    }
}

#[test]
fn a_broken_csv_row_is_reported_with_its_position() {
    broken(&plain("csv", "id", "name", ""), "rows.csv", b"id,name\na,one\nb,two,three\nc,four\n", 14, "the row has 3 values, the header has 2");
}

#[test]
fn a_broken_json_value_is_reported_with_its_position() {
    let bytes = b"[\n {\"id\":\"a\",\"name\":\"one\"},\n {\"id\":\"b\",\"name\":tw},\n {\"id\":\"c\",\"name\":\"three\"}\n]\n";
    broken(&plain("json", "$.id", "$.name", ""), "rows.json", bytes, 29, "not JSON");
}

#[test]
fn a_broken_line_of_json_is_reported_with_its_position() {
    let bytes = b"{\"id\":\"a\",\"name\":\"one\"}\n{\"id\":\"b\",\"name\":tw}\n{\"id\":\"c\",\"name\":\"three\"}\n";
    broken(&plain("json", "$.id", "$.name", ""), "rows.ndjson", bytes, 24, "not JSON");
}

#[test]
fn a_broken_xml_element_is_reported_with_its_position() {
    let bytes = b"<all>\n<t><id>a</id><name>one</name></t>\n<t><id>b</id><name a=b>two</name></t>\n<t><id>c</id><name>three</name></t>\n</all>\n";
    broken(&plain("xml", "id", "name", ", records: t"), "rows.xml", bytes, 40, "not XML");
}

/// An authority record with this number, and another field to break.
fn marc_record(number: &str) -> Vec<u8> {
    let fields = [("010", format!("  \u{1f}a{number}\u{1e}")), ("100", "1 \u{1f}aSomebody\u{1e}".to_owned())];
    let (mut directory, mut data) = (String::new(), String::new());
    for (tag, field) in &fields {
        directory += &format!("{tag}{:04}{:05}", field.len(), data.len());
        data += field;
    }
    let base = 24 + directory.len() + 1;
    let length = base + data.len() + 1;
    format!("{length:05}nz  a22{base:05}n  4500{directory}\u{1e}{data}\u{1d}").into_bytes()
}

#[test]
fn a_broken_marc_record_is_reported_with_its_position() {
    let definition = plain("marc", "010$a", "100$a", ", tolerance: strict");
    let (first, second, third) = (marc_record("a"), marc_record("b"), marc_record("c"));
    let mut damaged = second.clone();
    // the directory points after the record's end
    damaged[24 + 3..24 + 7].copy_from_slice(b"9999");
    let bytes = [first.clone(), damaged, third.clone()].concat();
    broken(&definition, "names.mrc", &bytes, first.len(), "");
    // unless the source is strict, it is repaired, and a warning says so
    let sandbox = Sandbox::new(&plain("marc", "010$a", "100$a", ""));
    let job = sandbox.import(&[&sandbox.write_file("names.mrc", bytes)]);
    assert_eq!(counts(&job), "created 3, warnings 1");
    assert_eq!((&sandbox.troubles(1)[0]["record"], &sandbox.troubles(1)[0]["offset"]), (&json!(2), &json!(first.len())));
    assert!(reasons(&sandbox.troubles(1)[0]).contains("field 010"), "{}", reasons(&sandbox.troubles(1)[0]));
    // a record whose end is missing is found out at the next record's beginning
    let sandbox = Sandbox::new(&definition);
    let cut_short = second[..second.len() - 12].to_vec();
    let file = sandbox.write_file("names.mrc", [first.clone(), cut_short, third.clone(), marc_record("d")].concat());
    let job = sandbox.run(&["import", "--json", &file]).exits(2).json();
    assert_eq!((&job["counts"]["failed"], &sandbox.troubles(1)[0]["offset"]), (&json!(1), &json!(first.len())));
    assert!(names(&sandbox).contains(&("d".to_owned(), "Somebody".to_owned())), "reading goes on behind the damage");
}

#[test]
fn a_broken_marcxml_record_is_reported_with_its_position() {
    let record = |number: &str, more: &str| {
        format!(
            "<record><leader>00000nz  a2200000n  4500</leader><datafield tag=\"010\" ind1=\" \" ind2=\" \"><subfield code=\"a\">{number}</subfield></datafield>{more}</record>\n"
        )
    };
    let head = "<collection xmlns=\"http://www.loc.gov/MARC21/slim\">\n";
    let text = [head, &record("a", ""), &record("b", "<datafield tag=1></datafield>"), &record("c", ""), "</collection>\n"].concat();
    broken(&plain("marc", "010$a", "100$a", ""), "names.xml", text.as_bytes(), head.len() + record("a", "").len(), "not XML");
}

#[test]
fn an_empty_file_is_a_job_without_documents() {
    let sandbox = Sandbox::new(THINGS);
    for name in ["empty.csv", "empty.csv.gz"] {
        let bytes = if name.ends_with(".gz") { gzip(b"") } else { Vec::new() };
        let job = sandbox.import(&[&sandbox.write_file(name, bytes)]);
        assert_eq!((&job["state"], &job["counts"]["documents"]), (&json!("completed"), &json!(0)));
    }
    let job = sandbox.import(&[&sandbox.write_file("header.csv", HEADER)]);
    assert_eq!(job["counts"]["documents"], 0, "a header is no document");
}

#[test]
fn a_file_that_is_something_else_is_refused_before_a_job_is_made() {
    let sandbox = Sandbox::library();
    let mut dice = stook_tests::Dice::new(9);
    let noise: Vec<u8> = (0..5_000).map(|_| dice.below(256) as u8).filter(|byte| !matches!(byte, 0x1d | 0x1f)).collect();
    let file = sandbox.write_file("noise", noise);
    sandbox.run(&["import", &file, "--profile", "upsert"]).exits(1).stderr_contains(&["noise looks like csv, source `loc` reads marc"]);
    let folder = sandbox.folder().to_str().unwrap().to_owned();
    sandbox.run(&["import", &folder, "--profile", "upsert"]).exits(1).stderr_contains(&["looks like csv, source `loc` reads marc"]);
    sandbox.run(&["import", "nowhere.mrc", "--profile", "upsert"]).exits(1).stderr_contains(&["nowhere.mrc"]);
    let json = sandbox.write_file("page.json", "{}");
    sandbox.run(&["import", &json, "--profile", "stock"]).exits(1).stderr_contains(&["page.json looks like json, source `holdings` reads csv"]);
    assert_eq!(sandbox.json(&["jobs", "--json"]), json!([]));
}

#[test]
fn noise_between_records_costs_no_record() {
    let sandbox = Sandbox::new(&plain("marc", "010$a", "100$a", ""));
    let file = sandbox.write_file("names.mrc", [marc_record("a"), b"\r\n\r\n".to_vec(), marc_record("b"), b"rubbish".to_vec()].concat());
    let job = sandbox.run(&["import", "--json", &file]).exits(2).json();
    assert_eq!(counts(&job), "created 2, failed 1");
}

#[test]
fn a_damaged_compressed_file_fails_with_a_message() {
    let sandbox = Sandbox::library();
    let mut bytes = gzip(&authorities(2_000, 1, 1));
    bytes.truncate(bytes.len() / 2);
    let file = sandbox.write_file("names.mrc.gz", bytes);
    sandbox.run(&["import", &file, "--profile", "upsert"]).exits(1).stderr_contains(&["names.mrc.gz", "--resume 1"]);
    sandbox.assert_sound();
}

// --- several files ------------------------------------------------------------------------------------------------------

#[test]
fn two_files_are_one_job_and_each_keeps_its_own_numbers() {
    let sandbox = Sandbox::new(THINGS);
    let first = sandbox.write_file("first.csv", things(&[("a", "one", 1), ("b", "two", 1)]));
    let second =
        sandbox.write_file("second.csv.gz", gzip([things(&[("a", "newer", 2)]), "broken\n".to_owned(), thing("c", "three", 1)].concat().as_bytes()));
    let empty = sandbox.write_file("empty.csv", "");
    let job = sandbox.run(&["import", "--json", &first, &empty, &second]).exits(2).json();
    assert_eq!((counts(&job), &job["counts"]["documents"]), ("created 3, superseded 1, failed 1".to_owned(), &json!(5)));
    let numbering: Vec<(u64, String, u64)> = sandbox
        .journal(1)
        .iter()
        .map(|entry| {
            let file = entry["file"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            (entry["document"].as_u64().unwrap(), file, entry["record"].as_u64().unwrap())
        })
        .collect();
    let expected = [(1, "first.csv", 1), (2, "first.csv", 2), (3, "second.csv.gz", 1), (4, "second.csv.gz", 2), (5, "second.csv.gz", 3)];
    assert_eq!(numbering, expected.map(|(document, file, record)| (document, file.to_owned(), record)));
    let trouble = &sandbox.troubles(1)[0];
    assert_eq!((&trouble["document"], &trouble["record"]), (&json!(4), &json!(2)));
    assert!(trouble["file"].as_str().unwrap().ends_with("second.csv.gz"));
}

#[test]
fn compressed_input_equals_plain_input() {
    let bytes = authorities(2_500, 7, 1);
    let import = |name: &str, bytes: &[u8]| {
        let sandbox = Sandbox::library();
        let job = sandbox.import(&[&sandbox.write_file(name, bytes), "--profile", "upsert"]);
        let journal: Vec<Json> =
            sandbox.journal(1).iter().map(|entry| json!([entry["record"], entry["offset"], entry["key"], entry["outcome"]])).collect();
        (job["counts"].clone(), journal, sandbox.export("authority", "ndjson"), sandbox.export("authority", "marc"))
    };
    let plain = import("names.mrc", &bytes);
    assert_eq!(plain.0["created"], 2_500);
    assert!(import("names.mrc.gz", &gzip(&bytes)) == plain);
    assert!(import("names.mrc.zst", &zstandard(&bytes)) == plain);
    // what a compressed file is called does not matter
    assert!(import("names.mrc", &gzip(&bytes)) == plain);
    // several gzip members one after the other are one file
    let middle = bytes.len() / 2;
    assert!(import("names.mrc.gz", &[gzip(&bytes[..middle]), gzip(&bytes[middle..])].concat()) == plain);
}

#[test]
fn the_number_of_workers_changes_nothing() {
    // every record several times, spread over many chunks that run into each other
    let versions: Vec<u8> = (1..=6).flat_map(|seed| authorities(1_500, seed, 1)).collect();
    let import = |workers: &str| {
        let sandbox = Sandbox::library();
        let job = sandbox.import(&[&sandbox.write_file("names.mrc", &versions), "--profile", "upsert", "--workers", workers]);
        assert_eq!(sum_of_outcomes(&job), 9_000);
        (job["counts"].clone(), sandbox.export("authority", "ndjson"), sandbox.export("authority", "marc"))
    };
    let alone = import("1");
    assert_eq!((&alone.0["created"], &alone.0["superseded"]), (&json!(1_500), &json!(7_500)));
    for workers in ["2", "8", "8", "8"] {
        assert!(import(workers) == alone, "{workers} workers");
    }
}

// --- dry runs -----------------------------------------------------------------------------------------------------------

#[test]
fn a_dry_run_counts_like_the_import_and_changes_nothing() {
    // duplicates inside a chunk and far apart, against an empty and a filled store
    let first = [authorities(1_500, 1, 1), authorities(700, 2, 1_001), authorities(1_000, 1, 1)].concat();
    let second = [authorities(900, 3, 1), authorities(900, 1, 1), authorities(1_500, 4, 1_201), authorities(900, 3, 1)].concat();
    let sandbox = Sandbox::library();
    for (number, bytes) in [(1, &first), (2, &second), (3, &second)] {
        for profile in ["upsert", "create_on_no_match"] {
            let file = sandbox.write_file("names.mrc", bytes);
            let before = std::fs::read(sandbox.store()).unwrap_or_default();
            let preview = sandbox.dry_run(&[&file, "--profile", profile]);
            let untouched = before.is_empty() || std::fs::read(sandbox.store()).unwrap() == before;
            assert!(untouched, "the store's file is the same");
            let trial = Sandbox::library();
            if !before.is_empty() {
                std::fs::write(trial.store(), &before).unwrap();
            }
            let job = trial.import(&[&file, "--profile", profile]);
            assert_eq!(preview["counts"], job["counts"], "file {number}, {profile}");
        }
        let file = sandbox.write_file("names.mrc", bytes);
        sandbox.import(&[&file, "--profile", "upsert"]);
    }
    assert_eq!(sandbox.json(&["jobs", "--json"]).as_array().unwrap().len(), 3);
}

#[test]
fn a_dry_run_with_several_contributors_counts_like_the_import() {
    let definition = TWO_VOICES.replace("list: { format: csv,", "list: { format: csv, let: { shelf: shelf }, contributor: \"{shelf}\",");
    let sandbox = Sandbox::new(&definition);
    let old: String = (0..1_200).map(|number| format!("k{number},name {},s{}\n", number % 7, number % 3)).collect();
    sandbox.import(&[&sandbox.write_file("old.csv", format!("id,name,shelf\n{old}")), "--source", "list", "--as-of", "2020-01-01"]);
    // the same and other voices speak again of the same records, twice, more than a chunk apart
    let new: String = (0..2_600).map(|number| format!("k{},name {},s{}\n", number % 1_300, number % 5, number % 4)).collect();
    let file = sandbox.write_file("new.csv", format!("id,name,shelf\n{new}"));
    for (source, as_of) in [("list", "2020-01-02"), ("list", "2020-01-02"), ("staff", "2020-01-03")] {
        let preview = sandbox.dry_run(&[&file, "--source", source, "--as-of", as_of]);
        let job = sandbox.import(&[&file, "--source", source, "--as-of", as_of]);
        assert_eq!(preview["counts"], job["counts"]);
    }
}

#[test]
fn a_dry_run_shows_the_issues_of_the_import() {
    let sandbox = Sandbox::new(STRICT);
    let file = sandbox.write_file("rows.csv", [STRICT_HEADER, "a,one,,,wide,a\nnameless,,,,,a\n"].concat());
    let preview = sandbox.dry_run(&[&file]);
    assert_eq!(counts(&preview), "created 1, failed 1, warnings 1");
    assert_eq!(
        preview["troubles"][1],
        json!({
            "file": std::fs::canonicalize(&file).unwrap(), "record": 2, "offset": 44, "key": "nameless", "failed": true, "reason": "missing required field: name",
        })
    );
    let shown = sandbox.run(&["import", "--dry-run", &file]).exits(2).text();
    assert!(shown.contains("nothing changed") && shown.contains("failed: record 2 at byte 44: missing required field: name"), "{shown}");
    assert!(!sandbox.store().exists());
}

#[test]
fn a_dry_run_knows_unique_values() {
    let sandbox = Sandbox::new(STRICT);
    sandbox.import(&[&sandbox.write_file("rows.csv", [STRICT_HEADER, "a,one,X1,,,\n"].concat())]);
    // taken in the store, taken in the file, given up in the file
    let rows = "b,two,X1,,,\nc,three,X2,,,\nd,four,X2,,,\n";
    let file = sandbox.write_file("rows.csv", [STRICT_HEADER, rows].concat());
    let preview = sandbox.dry_run(&[&file]);
    let job = sandbox.import(&[&file]);
    assert_eq!((counts(&job), &preview["counts"]), ("created 1, failed 2".to_owned(), &job["counts"]));
    assert_eq!(preview["troubles"][0]["reason"], "`code` must be unique, but record \"a\" already has this value");
}

// --- tenants ------------------------------------------------------------------------------------------------------------

#[test]
fn tenants_do_not_see_each_other() {
    let sandbox = Sandbox::new(STRICT);
    let file = sandbox.write_file("rows.csv", [STRICT_HEADER, "a,one,X1,,,\n"].concat());
    let other_file = sandbox.write_file("other.csv", [STRICT_HEADER, "a,another,X1,,,\nb,two,X2,,,\n"].concat());
    assert_eq!(counts(&sandbox.import(&[&file, "--tenant", "north"])), "created 1");
    assert_eq!(
        counts(&sandbox.import(&[&other_file, "--tenant", "south"])),
        "created 2",
        "neither the key nor the unique value of the other is in the way"
    );
    let export = |tenant: &str| sandbox.run(&["export", "thing", "--format", "ndjson", "--tenant", tenant]).exits(0).lines();
    assert_eq!(export("north"), [json!({"key": "a", "id": "a", "name": "one", "code": "X1"})]);
    assert_eq!(export("south").len(), 2);
    assert_eq!(export("main").len(), 0);
    assert_eq!(sandbox.run(&["get", "thing", "b", "--tenant", "north"]).code, 1);
    assert_eq!(sandbox.json(&["query", "thing | count(id)", "--format", "json", "--tenant", "south"])[0]["count(id)"], 2);
    let jobs = sandbox.json(&["jobs", "--json", "--tenant", "north"]);
    assert_eq!((jobs.as_array().unwrap().len(), &jobs[0]["tenant"]), (1, &json!("north")));
    assert_eq!(sandbox.json(&["withdraw", "list", "--tenant", "south", "--json"])["gone"], 2);
    assert_eq!(export("north").len(), 1);
    sandbox.run(&["import", &file, "--tenant", "No Such"]).exits(64).stderr_contains(&["`No Such` is not a tenant"]);
}

#[test]
fn a_document_that_is_too_long_fails_alone() {
    let mut bytes = Vec::new();
    let name = |bytes: &mut Vec<u8>, id: u32| bytes.extend_from_slice(format!("{{\"id\":\"n{id}\"}}\n").as_bytes());
    (1..=3).for_each(|id| name(&mut bytes, id));
    bytes.extend_from_slice(b"{\"id\":\"");
    bytes.resize(bytes.len() + (100 << 20), b'x');
    bytes.extend_from_slice(b"\"}\n");
    let following_offset = bytes.len();
    (5..=7).for_each(|id| name(&mut bytes, id));
    for (file, bytes) in [("names.ndjson.gz", gzip(&bytes)), ("names.ndjson", bytes)] {
        let sandbox = Sandbox::new(
            "catalogue: long\nsources: { s: { format: json, into: name, as_of: meta.received } }\n\
             collections: { name: { key: id, fields: { id: text } } }\n",
        );
        sandbox.run(&["import", &sandbox.write_file(file, bytes)]).exits(2);
        let positions: Vec<_> =
            sandbox.journal(1).iter().map(|line| (line["record"].clone(), line["offset"].clone(), line["outcome"].clone())).collect();
        assert_eq!(positions[3], (4.into(), 36.into(), "failed".into()), "{file}");
        assert_eq!(positions[4], (5.into(), following_offset.into(), "created".into()), "{file}");
        assert_eq!((sandbox.records("name").len(), sandbox.troubles(1).len()), (6, 1), "{file}");
    }
}

/// What two shops and a register say of things.
const SHOPS: &str = "\
catalogue: shops
sources:
  one: { format: csv, into: thing, as_of: meta.received }
  two: { format: csv, into: thing, as_of: meta.received }
collections:
  thing:
    key: id
    fields:
      id: text
      name: text
      whole: integer
      part: float
      at: timestamp
      twice: { type: integer, derive: \"whole == null ? null : whole * 2\" }
";

#[test]
fn aggregates_are_also_reported_by_source() {
    const ALL: &str = "count(key), count(whole), sum(whole), min(whole), max(whole), avg(whole), median(whole), sum(part), avg(part), median(part), \
                       min(name), max(name), min(at), max(at)";
    let row = |number: i64| {
        let whole = if number % 5 == 0 { String::new() } else { (number * number % 97 - 40).to_string() };
        format!("k{number:03},n{},{whole},{:.2},2020-01-{:02}T00:00:00Z\n", number % 13, number as f64 / 8.0, number % 28 + 1)
    };
    let file = |numbers: std::ops::Range<i64>| std::iter::once("id,name,whole,part,at\n".to_owned()).chain(numbers.map(row)).collect::<String>();
    for sandbox in Sandbox::on_each_store(SHOPS) {
        let query_by_source = |query: &str| -> Vec<Json> {
            let rows = sandbox.json(&["query", query, "--by-source", "--format", "json"]);
            rows.as_array().unwrap().iter().map(|row| row.as_object().unwrap().clone().into()).collect()
        };
        sandbox.import(&[&sandbox.write_file("one.csv", file(0..1_500)), "--source", "one"]);
        // who is alone is all
        for query in ["thing", "thing whole>0", "thing key<k100"] {
            let mut rows = query_by_source(&format!("{query} | {ALL}"));
            assert_eq!((rows.len(), &rows[0]["source"], &rows[1]["source"]), (2, &json!("merged"), &json!("one")));
            rows[1]["source"] = json!("merged");
            let [merged, by_source] = &rows[..] else { panic!("two rows") };
            for (name, value) in merged.as_object().unwrap() {
                let is_equal = match (value.as_f64(), by_source[name].as_f64()) {
                    (Some(a), Some(b)) => (a - b).abs() <= a.abs() * 1e-12,
                    _ => *value == by_source[name],
                };
                assert!(is_equal, "{query} {name}: {value} {}", by_source[name]);
            }
        }
        // what another one says is its own
        sandbox.import(&[&sandbox.write_file("two.csv", "id,name,whole,part,at\nk001,n1,1000,,\nother,x,7,,\n"), "--source", "two"]);
        let rows = query_by_source("thing | sum(whole), count(key), count(part)");
        let of = |source: &str| rows.iter().find(|row| row["source"] == source).unwrap().clone();
        assert_eq!((&of("two")["sum(whole)"], &of("two")["count(key)"], &of("two")["count(part)"]), (&json!(1_007), &json!(2), &json!(0)));
        assert_eq!((&of("one")["count(key)"], &of("merged")["count(key)"]), (&json!(1_500), &json!(1_501)));
        // the same by HTTP: the merged row, and beside it each source's
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let text = url_encoded("thing | sum(whole), count(key), count(part)");
        let answer = stook.get(&format!("/v1/main/query?q={text}&by_source=true")).expect_json(200);
        let without = |mut row: Json| {
            row.as_object_mut().unwrap().remove("source");
            row
        };
        assert_eq!(answer["rows"], json!([without(of("merged"))]));
        let sources = json!([{ "source": "one", "row": without(of("one")) }, { "source": "two", "row": without(of("two")) }]);
        assert_eq!(answer["by_source"], sources);
        assert_eq!(stook.get(&format!("/v1/main/query?q={}&by_source=true", url_encoded("thing | sum(twice)"))).status, 400);
        sandbox
            .run(&["query", "thing | sum(twice)", "--by-source"])
            .exits(1)
            .stderr_contains(&["`twice` is derived or of type ranges, so it has no values by source"]);
    }
}

#[test]
fn a_list_that_is_cut_off_after_a_complete_document_is_not_a_complete_file() {
    let definition = "\
catalogue: list
sources:
  list: { format: json, records: '$.value[*]', as_of: meta.received, into: thing }
collections:
  thing: { key: id, fields: { id: text } }
";
    let sandbox = Sandbox::new(definition);
    for (number, count) in [1_u64, 999, 1_000, 1_001, 2_500].into_iter().enumerate() {
        let rows: Vec<String> = (0..count).map(|row| format!("{{\"id\": \"{number}-{row}\"}}")).collect();
        let cut = format!("{{\"value\": [{}", rows.join(", "));
        for (name, bytes) in [("list.json", cut.as_bytes().to_vec()), ("list.json.gz", gzip(cut.as_bytes()))] {
            let file = sandbox.write_file(&format!("{number}-{name}"), bytes);
            let answer = sandbox.run(&["import", &file, "--json"]).exits(2);
            let job = answer.lines().pop().expect("the job is told at the end");
            let counts = &job["counts"];
            assert_eq!((&counts["documents"], &counts["failed"]), (&json!(count + 1), &json!(1)), "{job}");
            let troubles = sandbox.troubles(job["id"].as_u64().expect("a number"));
            let trouble = troubles.last().expect("one is told");
            assert_eq!((&trouble["record"], &trouble["offset"]), (&json!(count + 1), &json!(cut.len())), "{trouble}");
            assert!(trouble["reasons"][0].as_str().is_some_and(|reason| reason.contains("there is no closing ]")), "{trouble}");
        }
        // the same, whole
        let file = sandbox.write_file(&format!("{number}-whole.json"), format!("{cut}]}}"));
        let job = sandbox.import(&[&file]);
        assert_eq!((&job["counts"]["documents"], &job["counts"]["failed"]), (&json!(count), &json!(0)), "{job}");
    }
}

// --- complete deliveries ------------------------------------------------------------------------------------------------

/// Plans of satellites with rows that say that nothing is planned; of one collection, and of two by `when`.
fn plans(is_alone: bool) -> String {
    let feeds = if is_alone {
        "into: visit, accept: [{ unless: \"kind != 'none'\", do: skip }]".to_owned()
    } else {
        "accept: [{ unless: \"what != 'none'\", do: skip }], feeds: [{ into: visit, when: \"what != 'far'\", map: { id: id, kind: kind } }, \
         { into: pass, when: \"what == 'far'\", map: { id: id } }]"
            .to_owned()
    };
    format!(
        "catalogue: plans\nsources:\n  plan: {{ format: csv, as_of: made, replaces: {{ scope: craft, at: at }}, \
         let: {{ made: {{ path: made, type: timestamp }}, at: {{ path: at, type: timestamp }}, craft: craft, what: kind }}, {feeds} }}\n\
         collections:\n  visit: {{ key: id, fields: {{ id: text, kind: text }} }}\n  pass: {{ key: id, exists: any, fields: {{ id: text }} }}\n"
    )
}

/// A plan by its day, with rows of key, day and kind.
fn plan(day: u32, rows: &[(&str, &str, &str)]) -> String {
    let row = |(id, time, kind): &(&str, &str, &str)| format!("{id},2020-01-{day:02}T00:00:00Z,{time},A,{kind}\n");
    std::iter::once("id,made,at,craft,kind\n".to_owned()).chain(rows.iter().map(row)).collect()
}

#[test]
fn rows_that_are_skipped_are_part_of_a_complete_delivery() {
    let at = |day: u32| format!("2020-02-{day:02}T00:00:00Z");
    let (first, second, third, fourth) = (at(1), at(2), at(3), at(4));
    // the newer plan begins with a row that is skipped; it keeps three of four keys, one of them as nothing
    let older = plan(1, &[("a", &first, "near"), ("b", &second, "near"), ("c", &third, "near"), ("d", &fourth, "near"), ("e", &fourth, "near")]);
    let newer = plan(2, &[("b", &second, "none"), ("x", &first, "none"), ("d", &fourth, "near"), ("e", &fourth, "near"), ("c", &third, "near")]);
    for is_alone in [true, false] {
        let definition = if is_alone { plans(true).replace("  pass: { key: id, exists: any, fields: { id: text } }\n", "") } else { plans(false) };
        for order in [[&older, &newer], [&newer, &older]] {
            let sandbox = Sandbox::new(&definition);
            for (number, text) in order.iter().enumerate() {
                let file = sandbox.write_file(&format!("{number}.csv"), text);
                let preview = sandbox.dry_run(&[&file]);
                let job = sandbox.import(&[&file]);
                assert_eq!(preview["counts"], job["counts"]);
                assert_eq!(preview["replaced"]["retired"], job["replaced"]["retired"], "{preview} {job}");
            }
            let remaining_ids: Vec<String> = sandbox.records("visit").iter().map(|visit| visit["id"].as_str().unwrap().to_owned()).collect();
            assert_eq!(remaining_ids, ["c", "d", "e"], "alone: {is_alone}");
        }
    }
    // a skipped row without a place in the plan takes no part, and fails nothing
    let sandbox = Sandbox::new(&plans(true).replace("  pass: { key: id, exists: any, fields: { id: text } }\n", ""));
    sandbox.import(&[&sandbox.write_file("older.csv", &older)]);
    let job =
        sandbox
            .import(&[&sandbox
                .write_file("newer.csv", plan(2, &[("a", "", "none"), ("c", &third, "near"), ("d", &fourth, "near"), ("e", &fourth, "near")]))]);
    assert_eq!((&job["counts"]["skipped"], &job["counts"]["failed"]), (&json!(1), &json!(0)));
    let remaining_ids: Vec<String> = sandbox.records("visit").iter().map(|visit| visit["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(remaining_ids, ["a", "b", "c", "d", "e"]);
}
