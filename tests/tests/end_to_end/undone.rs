//! Jobs that are undone: by command, over HTTP and on the page of an import.

use serde_json::{Value as Json, json};
use stook_tests::http::Served;
use stook_tests::{Sandbox, counts};

const SHOP: &str = "\
catalogue: shop
sources:
  prices: { format: csv, undo: 30d, into: item, as_of: meta.received }
  stock: { format: csv, into: item, as_of: meta.received }
profiles:
  known: { source: stock, matched: update, unmatched: skip }
collections:
  item: { key: id, fields: { id: text, price: { type: integer, index: equal }, code: { type: text, unique: true }, left: integer } }
";

fn items(sandbox: &Sandbox) -> Json {
    let rows = sandbox.ok(&["query", "item | sort id", "--format", "json"]);
    serde_json::from_str(&rows).unwrap()
}

/// Imports a file with these lines below the header.
fn import(sandbox: &Sandbox, lines: &str) -> Json {
    let file = sandbox.write_file("prices.csv", format!("id,price,code\n{lines}"));
    sandbox.import(&[&file, "--source", "prices"])
}

#[test]
fn a_job_is_undone_by_command() {
    for sandbox in Sandbox::on_each_store(SHOP) {
        import(&sandbox, "a,10,\nb,20,\n");
        let before = items(&sandbox);
        import(&sandbox, "a,100,\nb,200,\nc,300,\n");
        let undone = sandbox.run(&["undo", "2", "--json"]).exits(0).json();
        assert_eq!((&undone["state"], &undone["undoes"], counts(&undone).as_str()), (&json!("completed"), &json!(2), "updated 2, withdrawn 1"));
        assert_eq!(items(&sandbox), before);
        let jobs = sandbox.json(&["jobs", "--json"]);
        assert_eq!((&jobs[1]["state"], &jobs[1]["undone_by"]), (&json!("undone"), &json!(3)));
        assert_eq!(sandbox.run(&["undo", "2", "--json"]).exits(0).json()["id"], 3, "nothing is left to do");
        sandbox.run(&["undo", "3"]).exits(1).stderr_contains(&["job 3 cannot be undone", "it undoes job 2"]);
        sandbox.run(&["undo", "77"]).exits(1).stderr_contains(&["no job 77"]);
        sandbox.run(&["import", "--resume", "2"]);
        assert_eq!(items(&sandbox), before, "an undone job is not resumed");
    }
}

#[test]
fn workers_undo_a_job_that_is_left_to_them() {
    for sandbox in Sandbox::on_each_store(SHOP) {
        import(&sandbox, "a,10,\n");
        assert!(sandbox.ok(&["undo", "1", "--detach"]).contains("job 2: 1 document queued to undo job 1"));
        sandbox.ok(&["work", "--drain"]);
        assert_eq!(items(&sandbox), json!([]));
        assert_eq!(sandbox.json(&["jobs", "--json"])[0]["state"], "completed");
    }
}

#[test]
fn what_is_not_certain_is_refused_or_named() {
    for sandbox in Sandbox::on_each_store(SHOP) {
        import(&sandbox, "a,10,x\n");
        import(&sandbox, "a,11,y\n");
        import(&sandbox, "b,12,x\n");
        // without job 2, `a` would have the code that `b` has now
        let kept = sandbox.run(&["undo", "2"]).exits(2);
        let shown = kept.stderr_contains(&["1 record keep", "stook undo 2"]).text();
        assert!(shown.contains("1 failed") && shown.contains("nothing of it was undone"), "{shown}");
        sandbox.ok(&["undo", "3"]);
        sandbox.ok(&["undo", "2"]);
        assert_eq!((&items(&sandbox)[0]["code"], items(&sandbox).as_array().unwrap().len()), (&json!("x"), 1));
        // another source has imported only what existed
        let stock = sandbox.write_file("stock.csv", "id,left\na,5\nz,5\n");
        sandbox.import(&[&stock, "--profile", "known"]);
        sandbox.run(&["undo", "1"]).exits(1).stderr_contains(&["job 1 cannot be undone", "by its profile `known`"]);
        let stock = sandbox.json(&["jobs", "--json"])[0]["id"].to_string();
        sandbox.run(&["undo", &stock]).exits(1).stderr_contains(&["what jobs of `stock` replace is not kept", "undo: 30d"]);
    }
}

#[test]
fn a_job_is_undone_over_http_and_on_its_page() {
    for sandbox in Sandbox::on_each_store(SHOP) {
        import(&sandbox, "a,10,\n");
        import(&sandbox, "a,11,\n");
        let writer = sandbox.ok(&["token", "create", "--role", "write"]).trim().to_owned();
        let reader = sandbox.ok(&["token", "create", "--role", "read"]).trim().to_owned();
        let stook = Served::new(&sandbox, &["--workers", "1"]).with_token(&writer);
        let job = stook.get("/v1/main/jobs/2").expect_json(200);
        assert!(job["undoable_until"].is_string() && job["undone_by"].is_null(), "{job}");
        assert_eq!(stook.client(Some(&reader)).call("POST", "/v1/main/jobs/2/undo", &json!({})).status, 403);
        let undo = stook.call("POST", "/v1/main/jobs/2/undo", &json!({})).expect_json(202);
        assert_eq!((&undo["kind"], &undo["undoes"]), (&json!("undo"), &json!(2)));
        assert_eq!(stook.wait_for_job("main", &undo)["state"], "completed");
        assert_eq!(stook.get("/v1/main/item/a").expect_json(200)["price"], 10);
        let undone = stook.get("/v1/main/jobs/2").expect_json(200);
        assert_eq!((&undone["state"], &undone["undone_by"], &undone["undoable_until"]), (&json!("undone"), &undo["id"], &Json::Null));
        assert_eq!(stook.call("POST", "/v1/main/jobs/2/undo", &json!({})).expect_json(202)["id"], undo["id"]);
        let refused = stook.call("POST", &format!("/v1/main/jobs/{}/undo", undo["id"]), &json!({})).expect_json(409);
        assert!(refused["detail"].as_str().unwrap().contains("it undoes job 2"), "{refused}");
        assert_eq!(stook.call("POST", "/v1/main/jobs/77/undo", &json!({})).status, 404);
    }
}
