//! The documents of a job that failed: written as files, mended, and imported again, by command and over HTTP.

use serde_json::json;
use stook_formats::marc::MarcBuilder;
use stook_tests::http::Served;
use stook_tests::{LIBRARY, Sandbox, authorities, counts};

const THINGS: &str = "\
catalogue: things
sources:
  table: { format: csv, into: thing, as_of: meta.received }
  list: { format: json, records: '$.things[*]', into: thing, as_of: meta.received }
  whole: { format: csv, into: plan, as_of: meta.received, replaces: { scope: part } }
collections:
  thing: { key: id, fields: { id: { type: text, required: true }, code: { type: text, unique: true }, size: { type: integer, on_error: fail } } }
  plan: { key: id, fields: { id: { type: text, required: true }, part: text } }
profiles:
  only_new: { source: table, matched: fail, unmatched: create }
";

/// A record without the number that is its key.
fn nameless() -> Vec<u8> {
    let mut record = MarcBuilder::new("00000nz  a2200000n  4500").unwrap();
    record.data("100", "1", " ").unwrap();
    record.subfield("a", "No Number Given").unwrap();
    record.finish().to_iso2709().unwrap()
}

#[test]
fn failed_records_are_a_file_that_can_be_imported_again() {
    for sandbox in Sandbox::on_each_store(LIBRARY) {
        let (sound, broken) = (authorities(3, 1, 1), nameless());
        let file = sandbox.write_file("names.mrc", [&sound[..], &broken, &authorities(2, 2, 10), &broken].concat());
        let answer = sandbox.run(&["import", &file, "--source", "loc"]).exits(2).text();
        assert!(answer.contains("the failed documents as a file: stook journal 1 --failed -o FILE"), "{answer}");
        let again = sandbox.path("again.mrc").display().to_string();
        assert_eq!(sandbox.ok(&["journal", "1", "--failed", "-o", &again]), format!("{again}: 2 failed documents\n"));
        assert_eq!(std::fs::read(&again).unwrap(), [&broken[..], &broken].concat(), "byte for byte");
        assert_eq!(sandbox.run(&["journal", "1", "--failed"]).exits(0).out, std::fs::read(&again).unwrap());
        let report = sandbox.json(&["journal", "1", "--failed", "--json", "-o", &again]);
        assert_eq!(report, json!({ "documents": 2, "files": [{ "file": again, "documents": 2 }], "not_kept": [] }));
        assert_eq!(counts(&sandbox.import(&[&again, "--source", "loc"])), "failed 2");
        // nothing is mended, so the same fail again
        assert_eq!(counts(&sandbox.run(&["import", "--retry", "1", "--json"]).exits(2).json()), "failed 2");
        assert_eq!(sandbox.journal(3)[0]["file"], "upload:names.mrc");
        sandbox.run(&["journal", "1", "--failed", "--json"]).exits(64);
        sandbox.run(&["journal", "9", "--failed"]).exits(1).stderr_contains(&["no job 9"]);
    }
}

#[test]
fn rows_keep_their_header_and_documents_that_fail_late_are_kept_too() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        let first = sandbox.write_file("first.csv", "id,code,size\na,1,5\nb,1,6\nc,3,\"many\n\"\n,4,1\n");
        let second = sandbox.write_file("second.csv", "size,id\n7,d\nlarge,e\n");
        let job = sandbox.import(&[&first, &second, "--source", "table", "--as-of", "2020-01-01"]);
        assert_eq!(counts(&job), "created 2, failed 4");
        let again = sandbox.path("again.csv").display().to_string();
        let next = sandbox.path("again.2.csv").display().to_string();
        assert_eq!(sandbox.ok(&["journal", "1", "--failed", "-o", &again]), format!("{again}: 3 failed documents\n{next}: 1 failed document\n"));
        // of two records with one unique value the second fails when it is written
        assert_eq!(std::fs::read_to_string(&again).unwrap(), "id,code,size\nb,1,6\nc,3,\"many\n\"\n,4,1\n");
        assert_eq!(std::fs::read_to_string(&next).unwrap(), "size,id\nlarge,e\n");
        sandbox.run(&["journal", "1", "--failed"]).exits(1).stderr_contains(&["cannot be in one file", "-o FILE"]);
        let listed = sandbox.ok(&["journal", "1"]);
        assert!(listed.contains("\nfirst.csv\n") && listed.contains("\nsecond.csv\n"), "{listed}");
        let jobs = sandbox.ok(&["jobs"]);
        assert!(jobs.contains("first.csv and 1 more") && !jobs.contains("superseded"), "{jobs}");
        // a changed definition lets some of them in, with the time of the delivery
        sandbox.write_definition(&THINGS.replace("integer, on_error: fail", "integer"));
        sandbox.ok(&["prepare"]);
        let retried = sandbox.run(&["import", "--retry", "1", "--json"]).exits(2).json();
        assert_eq!((counts(&retried), &retried["as_of"]), ("created 2, failed 2, warnings 2".to_owned(), &json!(1_577_836_800_000_000_u64)));
        let files: Vec<_> = retried["files"].as_array().unwrap().iter().map(|file| file["path"].clone()).collect();
        assert_eq!(files, [json!("upload:first.csv"), json!("upload:second.csv")]);
        assert_eq!(sandbox.records("thing").len(), 4);
        sandbox.run(&["import", "--retry", "99"]).exits(1).stderr_contains(&["no job 99"]);
    }
}

#[test]
fn documents_that_are_not_kept_are_named_and_complete_deliveries_are_not_retried() {
    let sandbox = Sandbox::new(THINGS);
    let long = format!("{{\"things\":[{{\"code\":\"{}\"}},{{\"code\":\"x\"}},{{\"id\":\"a\"}}]}}", "y".repeat(300 << 10));
    let file = sandbox.write_file("list.json", long);
    assert_eq!(counts(&sandbox.import(&[&file, "--source", "list"])), "created 1, failed 2");
    let answer = sandbox.run(&["journal", "1", "--failed"]).exits(2).stderr_contains(&["document 1 failed, too, but nothing of them is kept"]);
    assert_eq!(answer.text(), "{\"things\": [\n{\"code\":\"x\"}\n]}\n");
    // those that fail because of what the profile says
    let file = sandbox.write_file("table.csv", "id,size\na,1\nb,2\n");
    assert_eq!(counts(&sandbox.import(&[&file, "--profile", "only_new"])), "created 1, failed 1");
    assert_eq!(sandbox.ok(&["journal", "2", "--failed"]), "id,size\na,1\n");
    let file = sandbox.write_file("whole.csv", "id,part\na,p\n,p\n");
    assert_eq!(counts(&sandbox.import(&[&file, "--source", "whole"])), "created 1, failed 1");
    sandbox.run(&["import", "--retry", "3"]).exits(1).stderr_contains(&["source `whole` has complete deliveries", "import that"]);
    let file = sandbox.write_file("sound.csv", "id\nz\n");
    sandbox.import(&[&file, "--source", "table"]);
    sandbox.run(&["journal", "4", "--failed"]).exits(1).stderr_contains(&["job 4 has no failed documents"]);
    sandbox.run(&["import", "--retry", "4"]).exits(1).stderr_contains(&["job 4 has no failed documents"]);
}

#[test]
fn callers_get_failed_documents_and_import_them_again() {
    for sandbox in Sandbox::on_each_store(THINGS) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let send = |name: &str, body: &[u8]| {
            let job = stook.send("POST", &format!("/v1/main/import?source=table&name={name}"), &[], body).expect_json(202);
            stook.wait_for_job("main", &job)
        };
        assert_eq!(send("a%20b.csv", b"id,size\na,1\nb,two\n")["counts"]["failed"], 1);
        let file = stook.get("/v1/main/jobs/1/failed");
        assert_eq!((file.status, file.text()), (200, "id,size\nb,two\n".into()));
        assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"failed-1-a_b.csv\""));
        assert_eq!((file.header("stook-parts"), file.header("stook-not-kept")), (Some("1"), Some("0")));
        assert_eq!(stook.get("/v1/main/jobs/1/failed?part=2").expect_json(404)["detail"], "the failed documents of job 1 are 1 files");
        assert_eq!(stook.get("/v1/main/jobs/1/documents/2").text(), "id,size\nb,two");
        // and on the page of the import
        let page = stook.get("/t/main/job?id=1").text();
        assert!(page.contains("/t/main/job/failed?id=1") && page.contains("import the failed documents again"), "{page}");
        assert_eq!(stook.get("/t/main/job/failed?id=1").text(), "id,size\nb,two\n");
        assert!(stook.get("/t/main/job/failed?id=77").status == 404 && !stook.get("/t/main/job?id=3").text().contains("job/failed"));
        let new = stook.call("POST", "/v1/main/jobs/1/failed/retry", &json!({})).expect_json(202);
        assert_eq!((&new["id"], &new["not_kept"], &new["files"][0]["name"]), (&json!(2), &json!([]), &json!("upload:a b.csv")));
        assert_eq!(stook.wait_for_job("main", &new)["counts"]["failed"], 1);
        assert_eq!(send("c.csv", b"id\nc\n")["counts"]["created"], 1);
        assert_eq!(stook.get("/v1/main/jobs/3/failed").expect_json(404)["detail"], "job 3 has no failed documents");
        assert_eq!(stook.call("POST", "/v1/main/jobs/3/failed/retry", &json!({})).status, 422);
        // a dry run names the upload, whether it could be read or not
        let seen = stook.send("POST", "/v1/main/import?source=table&dry_run=true&name=d.csv", &[], b"id,size\nd,x\n").expect_json(200);
        assert_eq!((&seen["files"][0]["file"], &seen["troubles"][0]["file"]), (&json!("d.csv"), &json!("d.csv")), "{seen}");
        let refused = stook.send("POST", "/v1/main/import?source=table&dry_run=true&name=d.json", &[], b"<html></html>");
        assert!(refused.status == 422 && refused.text().contains("d.json") && !refused.text().contains("/tmp"), "{}", refused.text());
    }
}
