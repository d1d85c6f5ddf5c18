//! The API of the original that `examples/machines` declares, by requests in the form of its clients, end to end on both stores: OAuth 1.0 with
//! PLAINTEXT signatures, routes told apart by `op`, fields of forms, some of them as parts in Base64.

use base64::Engine;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use stook_tests::Sandbox;
use stook_tests::http::{Client, Reply, Served};

const MACHINES: &str = include_str!("../../../examples/machines/catalogue.yaml");
const API: &str = "/MAAS/api/2.0";

/// A client whose key has three parts.
struct KeyClient {
    client: Client,
    authorization: String,
}

impl KeyClient {
    fn new(stook: &Served, token: &str) -> Self {
        let signed = format!(
            "OAuth oauth_nonce=\"17\", oauth_timestamp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"PLAINTEXT\", \
             oauth_consumer_key=\"consumer\", oauth_token=\"key\", oauth_signature=\"%26{token}\""
        );
        Self { client: stook.client(None), authorization: signed }
    }

    fn get(&self, path: &str) -> Reply {
        self.client.send("GET", &format!("{API}{path}"), &[("authorization", &self.authorization)], b"")
    }

    /// Sends fields as a form.
    fn form(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let body = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&");
        let headers = [("authorization", self.authorization.as_str()), ("content-type", "application/x-www-form-urlencoded")];
        self.client.send(method, &format!("{API}{path}"), &headers, body.as_bytes())
    }

    /// Sends fields as the parts of a message; the last boundary is not followed by a line break.
    fn parts(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        let part = |(name, value): &(&str, &str)| {
            let content = base64::engine::general_purpose::STANDARD.encode(value);
            format!(
                "--===1==\r\nContent-Type: text/plain; charset=\"utf-8\"\r\nMIME-Version: 1.0\r\nContent-Transfer-Encoding: base64\r\n\
                 Content-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n"
            )
        };
        let parts = if fields.is_empty() { "--===1==\r\n\r\n".to_owned() } else { fields.iter().map(part).collect() };
        let headers = [("authorization", self.authorization.as_str()), ("content-type", "multipart/form-data; boundary=\"===1==\"")];
        self.client.send(method, &format!("{API}{path}"), &headers, format!("{parts}--===1==--").as_bytes())
    }
}

fn names(list: &Json, member: &str) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|one| one[member].as_str().unwrap().to_owned()).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[track_caller]
fn refused(reply: Reply, status: u16, reason: &str) {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert!(reply.text().contains(reason), "{}", reply.text());
}

/// Four machines with one to four processors and gigabytes.
fn served(sandbox: &Sandbox) -> (Served, [KeyClient; 3]) {
    let machine = |number: usize| {
        let processors = "<node class='processor'/>".repeat(number);
        let memory = format!("<node id='memory'><size units='bytes'>{}</size></node>", number << 30);
        let network = format!("<node class='network'><serial>00:00:00:00:00:0{number}</serial></node>");
        let lshw = format!("<list><node class='system'><vendor>ACME</vendor><node id='core'>{processors}{memory}{network}</node></node></list>");
        json!({ "system_id": format!("m{number}"), "hostname": format!("host-{number}"), "at": "2026-01-01T00:00:00Z", "lshw": lshw }).to_string()
    };
    let lines = (1..=4).map(machine).collect::<Vec<_>>().join("\n");
    sandbox.import(&[&sandbox.write_file("m.ndjson", lines), "--source", "enlist"]);
    let token = |role: &str, name: &str| sandbox.ok(&["token", "create", "--role", role, "--name", name]).trim().to_owned();
    let tokens = [token("admin", "root"), token("write", "alice"), token("write", "bob")];
    let stook = Served::new(sandbox, &["--workers", "1"]);
    let clients = tokens.map(|token| KeyClient::new(&stook, &token));
    (stook, clients)
}

#[test]
fn clients_with_keys_of_three_parts_find_out_what_they_may_call() {
    let sandbox = Sandbox::new(MACHINES);
    let (stook, [root, alice, _]) = served(&sandbox);
    let nobody = stook.client(None);
    // without a key: what the API can do, with the address that the client has reached
    let described = nobody.get(&format!("{API}/describe/")).expect_json(200);
    let tag = described["resources"].as_array().unwrap().iter().find(|resource| resource["name"] == "TagHandler").unwrap();
    assert_eq!(tag["auth"]["uri"], format!("http://{}{API}/tags/{{name}}/", stook.address()));
    let update = tag["auth"]["actions"].as_array().unwrap().iter().find(|action| action["name"] == "update_nodes").unwrap();
    assert_eq!(
        (&update["method"], &update["op"], &update["restful"], &tag["anon"]),
        (&json!("POST"), &json!("update_nodes"), &json!(false), &Json::Null)
    );
    assert_eq!(nobody.get(&format!("{API}/version/")).expect_json(200)["capabilities"], json!(["tags"]));
    refused(nobody.get(&format!("{API}/tags/")), 401, "send a token");
    for (client, name, is_admin) in [(&root, "root", true), (&alice, "alice", false)] {
        let who = client.get("/users/?op=whoami").expect_json(200);
        assert_eq!((&who["username"], &who["is_superuser"]), (&json!(name), &json!(is_admin)));
    }
    // routes are told apart by a parameter
    refused(root.get("/users/"), 400, "the parameter op is missing; op is one of whoami");
    refused(root.get("/tags/x/?op=machine"), 400, "op is one of none, machines, nodes, devices, rack_controllers, region_controllers");
    refused(root.get("/tags/x/?op=machines&op=nodes"), 400, "the parameter op is given 2 times");
    refused(root.get("/tags/?op=list"), 400, "there is no parameter \"op\"");
    let unsigned = KeyClient { client: nobody, authorization: root.authorization.replace("PLAINTEXT", "HMAC-SHA1") };
    refused(unsigned.get("/tags/"), 401, "as the token secret of OAuth 1.0 with PLAINTEXT");
}

#[test]
fn tags_are_made_changed_renamed_given_and_deleted() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        let (_stook, [root, alice, _]) = served(&sandbox);
        let made =
            root.parts("POST", "/tags/", &[("name", "rack7"), ("comment", "by the door, für Ann"), ("kernel_opts", "nomodeset")]).expect_json(200);
        assert_eq!(
            made,
            json!({ "name": "rack7", "definition": "", "comment": "by the door, für Ann", "kernel_opts": "nomodeset", "resource_uri": format!("{API}/tags/rack7/") })
        );
        refused(root.form("POST", "/tags/", &[("name", "rack7")]), 400, "Tag with this Name already exists.");
        refused(root.form("POST", "/tags/", &[("comment", "x")]), 400, "name: This field is required.");
        refused(root.form("POST", "/tags/", &[("name", "a:b")]), 400, "is not a tag's name");
        refused(root.form("POST", "/tags/", &[("name", "x"), ("definition", "//a[b = ]")]), 400, "column 9 of the XPath");
        refused(root.form("POST", "/tags/", &[("name", "x"), ("defintion", "//a")]), 400, "did you mean definition?");
        refused(alice.form("POST", "/tags/", &[("name", "x")]), 403, "this requires the role admin");
        // the worker of the server evaluates it
        root.form("POST", "/tags/?op=", &[("name", "large"), ("definition", "count(//node[@class='processor']) > 2")]).expect_json(200);
        let large = || names(&root.get("/tags/large/?op=machines").expect_json(200), "system_id");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while large() != set(["m3", "m4"]) {
            assert!(std::time::Instant::now() < deadline, "{:?}", large());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(names(&root.get("/tags/").expect_json(200), "name"), set(["large", "rack7"]));
        // a form may repeat a name
        let given = alice.form("POST", "/tags/rack7/?op=update_nodes", &[("add", "m1"), ("add", "m3"), ("add", "nobody")]);
        assert_eq!(given.expect_json(200), json!({ "added": 2, "removed": 0 }));
        let taken = alice.parts("POST", "/tags/rack7/?op=update_nodes", &[("add", "m2"), ("remove", "m1")]);
        assert_eq!(taken.expect_json(200), json!({ "added": 1, "removed": 1 }));
        refused(alice.form("POST", "/tags/large/?op=update_nodes", &[("add", "m1")]), 400, "only manual tags can be assigned by hand");
        let stale = alice.form("POST", "/tags/large/?op=update_nodes", &[("add", "m1"), ("definition", "//other")]);
        refused(stale, 409, "does not match the definition");
        // another name: machines keep the tag, and nothing is evaluated
        let renamed = root.form("PUT", "/tags/large/", &[("name", "roomy"), ("comment", "three processors")]).expect_json(200);
        assert_eq!((&renamed["name"], &renamed["comment"]), (&json!("roomy"), &json!("three processors")));
        assert_eq!(renamed["definition"], "count(//node[@class='processor']) > 2");
        assert_eq!(names(&root.get("/tags/roomy/?op=nodes").expect_json(200), "system_id"), set(["m3", "m4"]));
        refused(root.get("/tags/large/"), 404, "No Tag matches the given query.");
        refused(root.form("PUT", "/tags/roomy/", &[("name", "rack7")]), 400, "Tag with this Name already exists.");
        refused(root.form("PUT", "/tags/large/", &[("name", "roomier")]), 404, "No Tag matches the given query.");
        let changed = root.parts("PUT", "/tags/rack7/", &[("name", "rack7"), ("kernel_opts", "quiet"), ("comment", "")]).expect_json(200);
        assert_eq!((&changed["kernel_opts"], &changed["comment"]), (&json!("quiet"), &json!("")));
        assert_eq!(root.get("/machines/m3/").expect_json(200)["tag_names"], json!(["rack7", "roomy"]));
        assert_eq!(root.get("/tags/rack7/?op=devices").expect_json(200), json!([]));
        for tag in ["rack7", "roomy"] {
            assert_eq!(root.parts("POST", &format!("/tags/{tag}/?op=rebuild"), &[]).expect_json(200), json!({ "rebuilding": tag }));
        }
        refused(alice.parts("DELETE", "/tags/rack7/", &[]), 403, "this requires the role admin");
        assert_eq!(root.parts("DELETE", "/tags/rack7/", &[]).status, 204);
        refused(root.parts("DELETE", "/tags/rack7/", &[]), 404, "No Tag matches the given query.");
        assert_eq!(root.get("/machines/m3/").expect_json(200)["tag_names"], json!(["roomy"]));
        refused(
            root.client.send("POST", &format!("{API}/tags/"), &[("authorization", &root.authorization), ("content-type", "text/csv")], b"x"),
            415,
            "or a form",
        );
    }
}

#[test]
fn machines_are_listed_acquired_by_tags_and_released() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        let (_stook, [root, alice, bob]) = served(&sandbox);
        let all = root.get("/machines/").expect_json(200);
        assert_eq!(names(&all, "system_id"), set(["m1", "m2", "m3", "m4"]));
        let first = &all[0];
        assert_eq!(
            (&first["hostname"], &first["status"], &first["status_name"], &first["cpu_count"], &first["memory"], &first["tag_names"]),
            (&json!("host-1"), &json!(4), &json!("Ready"), &json!(1), &json!(1024), &json!([]))
        );
        assert_eq!(first["resource_uri"], format!("{API}/machines/m1/"));
        for name in ["rack7", "old"] {
            root.form("POST", "/tags/", &[("name", name)]).expect_json(200);
        }
        root.form("POST", "/tags/rack7/?op=update_nodes", &[("add", "m1"), ("add", "m2"), ("add", "m3")]).expect_json(200);
        root.form("POST", "/tags/old/?op=update_nodes", &[("add", "m2"), ("add", "m4")]).expect_json(200);
        let found = |filter: &str| names(&root.get(&format!("/machines/?{filter}")).expect_json(200), "system_id");
        assert_eq!(found("hostname=host-1&hostname=host-4"), set(["m1", "m4"]));
        assert_eq!(found("mac_address=00:00:00:00:00:03"), set(["m3"]));
        assert_eq!(found("tags=rack7&not_tags=old"), set(["m1", "m3"]));
        assert_eq!(found("tags=rack7&tags=old"), set(["m2"]));
        assert_eq!(found("status=ready&id=m4"), set(["m4"]));
        assert_eq!(found("hostname=host-1%22%5D%20or%20key!%3D%22x"), set([]), "a text stays a value");
        assert_eq!(found("hostname=host-*"), set([]), "a star in it, too");
        refused(root.get("/machines/?tags=rack8"), 400, "there is no tag `rack8`; did you mean `rack7`?");
        refused(root.get("/machines/?zone=east"), 400, "there is no parameter \"zone\"");
        // a dry run acquires nothing
        let wanted = [("tags", "rack7"), ("not_tags", "old"), ("mem", "2048.0"), ("cpu_count", "2")];
        let would_be = alice.parts("POST", "/machines/?op=allocate", &[&wanted[..], &[("dry_run", "true")]].concat()).expect_json(200);
        assert_eq!((&would_be["system_id"], &would_be["status_name"]), (&json!("m3"), &json!("Ready")));
        let acquired = alice.parts("POST", "/machines/?op=allocate", &wanted).expect_json(200);
        assert_eq!(
            (&acquired["system_id"], &acquired["status"], &acquired["status_name"], &acquired["owner"], &acquired["tag_names"]),
            (&json!("m3"), &json!(10), &json!("Allocated"), &json!("alice"), &json!(["rack7"]))
        );
        refused(bob.form("POST", "/machines/?op=allocate", &wanted), 409, "No machine with matching constraints was found.");
        assert_eq!(names(&alice.get("/machines/?op=list_allocated").expect_json(200), "system_id"), set(["m3"]));
        assert_eq!(bob.get("/machines/?op=list_allocated").expect_json(200), json!([]));
        refused(bob.parts("POST", "/machines/m3/?op=release", &[]), 403, "machine belongs to another user");
        let deploying = alice.form("POST", "/machines/m3/?op=deploy", &[("distro_series", "focal")]).expect_json(200);
        assert_eq!((&deploying["status_name"], &deploying["distro_series"]), (&json!("Deploying"), &json!("focal")));
        let released = alice.parts("POST", "/machines/m3/?op=release", &[]).expect_json(200);
        assert_eq!((&released["status_name"], &released["owner"]), (&json!("Ready"), &Json::Null));
        refused(alice.parts("POST", "/machines/none/?op=release", &[]), 404, "there is no such machine");
        // a repeated request with the same key acquires the same machine once
        let headers =
            [("authorization", bob.authorization.as_str()), ("idempotency-key", "a"), ("content-type", "application/x-www-form-urlencoded")];
        let once = || bob.client.send("POST", &format!("{API}/machines/?op=allocate"), &headers, b"tags=rack7").expect_json(200);
        let (one, again) = (once(), once());
        assert_eq!((&one, &one["owner"]), (&again, &json!("bob")));
        assert_eq!(names(&bob.get("/machines/?op=list_allocated").expect_json(200), "system_id").len(), 1);
        // several at once, all or none
        let id = one["system_id"].as_str().unwrap();
        let other = bob.form("POST", "/machines/?op=allocate", &[("name", "host-4")]).expect_json(200);
        assert_eq!(other["system_id"], "m4");
        let free = if id == "m1" { "m2" } else { "m1" };
        refused(bob.form("POST", "/machines/?op=release", &[("machines", id), ("machines", free)]), 409, "machine is Ready");
        assert_eq!(bob.form("POST", "/machines/?op=release", &[("machines", id), ("machines", "m4")]).expect_json(200), json!([id, "m4"]));
        assert_eq!(bob.get("/machines/?op=list_allocated").expect_json(200), json!([]));
        assert_eq!(bob.form("POST", "/machines/m1/?op=mark_broken", &[]).expect_json(200)["status_name"], "Broken");
        assert_eq!(bob.parts("POST", "/machines/m1/?op=mark_fixed", &[]).expect_json(200)["status_name"], "Ready");
        refused(bob.parts("DELETE", "/machines/m1/", &[]), 403, "only an administrator");
        assert_eq!(root.parts("DELETE", "/machines/m1/", &[]).status, 204);
        refused(root.get("/machines/m1/"), 404, "No Machine matches the given query.");
        sandbox.assert_sound();
    }
}

#[test]
fn machines_devices_and_controllers_have_fields_of_their_own() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        let lshw = "<list><node class='system'><vendor>ACME</vendor><product>A1</product><serial>S7</serial><node id='core'>\
                    <node class='processor'><capabilities><capability id='x86-64'/></capabilities></node><node class='storage'>\
                    <node class='disk'><serial>D1</serial><size units='bytes'>500107862016</size></node>\
                    <node class='disk'><serial>D2</serial><size units='bytes'>500107862016</size></node></node></node></node></list>";
        let at = "2026-01-01T00:00:00Z";
        let lines = [
            json!({ "system_id": "m1", "hostname": "one", "at": at, "lshw": lshw }),
            json!({ "system_id": "d1", "hostname": "camera", "at": at, "node_type": "device", "mac_addresses": ["00:00:00:00:00:09"] }),
            json!({ "system_id": "r1", "hostname": "rack", "at": at, "node_type": "rack_controller" }),
        ];
        let text = lines.iter().map(Json::to_string).collect::<Vec<_>>().join("\n");
        sandbox.import(&[&sandbox.write_file("n.ndjson", text), "--source", "enlist"]);
        let token = sandbox.ok(&["token", "create", "--role", "admin", "--name", "root"]).trim().to_owned();
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let root = KeyClient::new(&stook, &token);
        let machine = &root.get("/machines/").expect_json(200)[0];
        assert_eq!(
            (&machine["architecture"], &machine["storage"], &machine["node_type"], &machine["hardware_info"]["system_serial"]),
            (&json!("amd64/generic"), &json!(1_000_215), &json!(0), &json!("S7"))
        );
        assert_eq!(sandbox.get("machine", "m1")["disks"], json!(["D1", "D2"]));
        let of = |path: &str| names(&root.get(path).expect_json(200), "system_id");
        assert_eq!(
            (of("/machines/"), of("/devices/"), of("/rackcontrollers/"), of("/regioncontrollers/")),
            (set(["m1"]), set(["d1"]), set(["r1"]), set([]))
        );
        assert_eq!((of("/nodes/"), of("/nodes/?mac_address=00:00:00:00:00:09")), (set(["m1", "d1", "r1"]), set(["d1"])));
        assert_eq!(
            (of("/machines/?arch=amd64"), of("/machines/?arch=amd64/generic&arch=arm64"), of("/machines/?arch=arm64")),
            (set(["m1"]), set(["m1"]), set([]))
        );
        root.form("POST", "/tags/", &[("name", "here")]).expect_json(200);
        root.form("POST", "/tags/here/?op=update_nodes", &[("add", "m1"), ("add", "d1"), ("add", "r1")]).expect_json(200);
        let by = |op: &str| of(&format!("/tags/here/?op={op}"));
        assert_eq!(
            (by("machines"), by("devices"), by("rack_controllers"), by("region_controllers")),
            (set(["m1"]), set(["d1"]), set(["r1"]), set([]))
        );
        assert_eq!(by("nodes"), set(["m1", "d1", "r1"]));
        assert_eq!(root.form("POST", "/machines/?op=allocate", &[("tags", "here"), ("arch", "amd64")]).expect_json(200)["system_id"], "m1");
        refused(root.form("POST", "/machines/?op=allocate", &[]), 409, "No machine");
    }
}

#[test]
fn of_many_who_acquire_at_once_each_gets_a_machine_of_its_own() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        let line = |number: usize| {
            json!({ "system_id": format!("n{number:03}"), "hostname": "h", "at": "2026-01-01T00:00:00Z", "lshw": "<list><node id='core'><node class='processor'/></node></list>" })
                .to_string()
        };
        sandbox.import(&[&sandbox.write_file("n.ndjson", (0..60).map(line).collect::<Vec<_>>().join("\n")), "--source", "enlist"]);
        let token = sandbox.ok(&["token", "create", "--role", "write", "--name", "robot"]).trim().to_owned();
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let acquired: Vec<Json> = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..6)
                .map(|_| {
                    let client = KeyClient::new(&stook, &token);
                    scope.spawn(move || (0..10).map(|_| client.form("POST", "/machines/?op=allocate", &[]).expect_json(200)).collect::<Vec<_>>())
                })
                .collect();
            callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
        });
        assert_eq!(names(&json!(acquired), "system_id").len(), 60, "never two the same");
        refused(KeyClient::new(&stook, &token).form("POST", "/machines/?op=allocate", &[]), 409, "No machine");
    }
}
