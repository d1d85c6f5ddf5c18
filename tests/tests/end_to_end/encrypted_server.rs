//! A store on a server that accepts only encrypted connections, and tells who may connect by certificates: every connection of the program.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use stook_testkit::certificates::{Authority, Validity};
use stook_testkit::postgres::TestServer;
use stook_tests::Sandbox;
use stook_tests::http::Served;

const THINGS: &str = "
catalogue: things
sources:
  list: { format: csv, as_of: meta.received, into: thing }
collections:
  thing:
    key: id
    fields:
      id: { type: text, path: id }
      name: { type: text, path: name, index: [equal] }
";

#[test]
fn every_connection_of_the_program_is_encrypted() {
    let Some(server) = TestServer::for_test(&["fsync=off", "log_connections=on"]) else { return };
    let authority = Authority::new("the library's authority").unwrap();
    server.encrypt(&authority.sign("db", &["db.example"], Validity::Now).unwrap(), &authority.certificate()).unwrap();
    server.sql("CREATE ROLE librarian LOGIN; GRANT CREATE ON DATABASE postgres TO librarian").unwrap();
    server.allow(&["hostssl all librarian 127.0.0.1/32 cert"]).unwrap();
    let client = authority.sign("librarian", &[], Validity::Now).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    // who and how is in a service file, as for psql
    let service = format!(
        "[library]\nhost=db.example\nhostaddr=127.0.0.1\nport={}\nuser=librarian\ndbname=postgres\nsslmode=verify-full\nsslrootcert={}\nsslcert={}\nsslkey={}\n",
        server.port(),
        file("root.crt", &authority.certificate()),
        file("client.crt", &client.certificate),
        file("client.key", &client.key),
    );
    let services = file("services", &service);
    let sandbox = Sandbox::new(THINGS);
    let url = "postgres:///?service=library&schema=library";
    let run = |arguments: &[&str]| {
        let output = sandbox.command(arguments).env("PGSERVICEFILE", &services).env("STOOK_STORE", url).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["prepare"]);
    run(&["import", &sandbox.write_file("list.csv", "id,name\nt1,Lamp\nt2,Desk\n"), "--detach"]);
    // workers are told of new chunks by the server
    let mut worker = sandbox.command(&["work"]).env("PGSERVICEFILE", &services).env("STOOK_STORE", url).spawn().unwrap();
    run(&["import", &sandbox.write_file("more.csv", "id,name\nt3,Chair\n"), "--detach"]);
    let count =
        || serde_json::from_str::<serde_json::Value>(&run(&["query", "thing | count(id)", "--format", "json"])).unwrap()[0]["count(id)"].clone();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while count() != 3 {
        assert!(std::time::Instant::now() < deadline, "the worker has not done it: {}", count());
        std::thread::sleep(Duration::from_millis(50));
    }
    worker.kill().and_then(|()| worker.wait()).unwrap();
    let served = Served::with_variables(&sandbox, &["--workers", "1"], &[("PGSERVICEFILE", &services), ("STOOK_STORE", url)]);
    assert_eq!(served.get("/v1/main/thing/t1").expect_json(200)["name"], "Lamp");
    drop(served);
    let backup = sandbox.path("all.stook").display().to_string();
    run(&["backup", &backup]);
    sandbox.ok(&["restore", &backup]);
    assert_eq!(sandbox.get("thing", "t3")["name"], "Chair");
    let logged = server.logged();
    let authorized: Vec<&str> = logged.lines().filter(|line| line.contains("connection authorized: user=librarian")).collect();
    assert!(authorized.len() >= 6 && authorized.iter().all(|line| line.contains("SSL enabled")), "{logged}");
    assert!(!logged.contains("FATAL"), "no connection was tried in another way: {logged}");

    // what is wrong is said at once, and what to do
    let refused = |url: &str, words: &[&str]| {
        let output = sandbox.command(&["jobs"]).env("PGSERVICEFILE", &services).env("STOOK_STORE", url).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && words.iter().all(|word| text.contains(word)), "{url}: {text}");
    };
    refused("postgres:///?service=librari", &["no service `librari`", "did you mean `library`?"]);
    refused("postgres:///?service=library&host=elsewhere.example", &["not for elsewhere.example", "db.example"]);
    refused("postgres:///?service=library&sslmode=disable", &["no encryption", "sslmode=require"]);
}
