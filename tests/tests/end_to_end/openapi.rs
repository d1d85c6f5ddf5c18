//! The OpenAPI document against the server that it describes, by schemathesis.

use std::path::{Path, PathBuf};
use std::process::Command;
use stook_sample::datasets::Datasets;
use stook_sample::machines;
use stook_tests::http::Served;
use stook_tests::{Sandbox, authorities, repository};

fn schemathesis() -> Option<PathBuf> {
    let named = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from);
    let of_home = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache/stook/venv/bin/python"));
    let program = named.or_else(of_home)?.with_file_name("schemathesis");
    if program.exists() {
        return Some(program);
    }
    stook_testkit::skip::missing("there is no schemathesis beside STOOK_TEST_PYTHON");
    None
}

fn check(sandbox: &Sandbox) {
    let Some(program) = schemathesis() else { return };
    let token = sandbox.ok(&["token", "create", "--role", "admin"]).trim().to_owned();
    let stook = Served::new(sandbox, &["--workers", "1"]).with_token(&token);
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(repository().join("tests/reference/schemathesis.toml"), folder.path().join("schemathesis.toml")).unwrap();
    let url = format!("http://{}/openapi.json", stook.address());
    let authorization = format!("Authorization: Bearer {token}");
    let output = Command::new("timeout")
        .arg("400")
        .arg(program)
        .args(["run", &url, "-H", &authorization, "--seed", "1", "-n", "8", "-w", "1", "--generation-database", "none", "--no-color"])
        .args(["--phases", "examples,coverage,fuzzing,stateful", "--request-timeout", "10", "--max-failures", "20"])
        // `?deleted=true` shows what was deleted
        .args(["--exclude-checks", "use_after_free"])
        // a stream is no answer to compare; a token that is revoked, or gets another secret or expiry, would be the one in use
        .args(["--exclude-path-regex", "/events$", "--exclude-operation-id", "revoke_token"])
        .args(["--exclude-operation-id", "rotate_token", "--exclude-operation-id", "change_token"])
        .current_dir(folder.path())
        .output()
        .expect("schemathesis starts");
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output_text}\n{}\n{}", String::from_utf8_lossy(&output.stderr), stook.log_text());
    assert!(output_text.contains(" passed"), "{output_text}");
    assert_eq!(stook.get("/readyz").status, 200);
}

#[test]
fn authorities_are_served_as_documented() {
    let sandbox = Sandbox::new(&std::fs::read_to_string(repository().join("examples/authorities/catalogue.yaml")).unwrap());
    sandbox.import(&[&sandbox.write_file("names.mrc", authorities(50, 1, 1))]);
    sandbox.import(&[&sandbox.write_file("items.csv", "barcode,lccn\nb1,x\nb2,y\n"), "--profile", "stock"]);
    check(&sandbox);
}

#[test]
fn datasets_are_served_as_documented() {
    let (_, definition) = stook_tests::datasets::services(Datasets { records: 20, seed: 1 });
    let sandbox = Sandbox::new(&definition);
    sandbox.ok(&["query", "block | count(key)"]);
    check(&sandbox);
}

#[test]
fn businesses_are_served_as_documented() {
    let sandbox = Sandbox::new(&std::fs::read_to_string(repository().join("examples/businesses/catalogue.yaml")).unwrap());
    sandbox.import_businesses(20);
    check(&sandbox);
}

#[test]
fn machines_and_their_tags_are_served_as_documented() {
    let sandbox = Sandbox::new(&std::fs::read_to_string(repository().join("examples/machines/catalogue.yaml")).unwrap());
    let document = |number: u64| machines::machine(1, number).line().to_string();
    sandbox.import(&[&sandbox.write_file("machines.ndjson", (1..20).map(document).collect::<Vec<_>>().join("\n")), "--source", "enlist"]);
    sandbox.ok(&["tag", "create", "intel", "--xpath", "//node[@class='processor']/vendor = 'Intel Corp.'"]);
    sandbox.ok(&["tag", "create", "rack7"]);
    check(&sandbox);
}

#[test]
fn the_document_is_a_page_too() {
    let sandbox = Sandbox::new(&std::fs::read_to_string(repository().join("examples/businesses/catalogue.yaml")).unwrap());
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    let page = stook.get("/docs/operations");
    assert!(page.text().contains("/party-api/v1/businesses/search") && page.header("content-security-policy").is_some());
    let document = stook.get("/openapi.json").expect_json(200);
    assert_eq!(document["openapi"], "3.1.0");
}
