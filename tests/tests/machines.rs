//! Machines and their tags, end to end: the sample's truth, queries, explanations, the HTTP API, machines acquired by tag, a
//! definition that is being evaluated when the program is killed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_sample::machines::{self, Machines};
use stook_tests::http::Served;
use stook_tests::{Place, counts, kill_after};

const MACHINES: &str = include_str!("../../examples/machines/catalogue.yaml");

/// Machines, made once.
fn sample() -> &'static Path {
    static SAMPLE: OnceLock<PathBuf> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("stook-machines").tempdir().expect("a folder").keep();
        machines::write(&Machines { records: 600, seed: 11, first: 1 }, &folder).expect("a sample");
        folder
    })
}

fn file(name: &str) -> String {
    sample().join(name).display().to_string()
}

fn truth() -> Vec<(String, BTreeSet<String>)> {
    let text = std::fs::read_to_string(file("truth.ndjson")).unwrap();
    let line = |line: &str| {
        let json: Json = serde_json::from_str(line).unwrap();
        let members = json["members"].as_array().unwrap().iter().map(|key| key.as_str().unwrap().to_owned());
        (json["tag"].as_str().unwrap().to_owned(), members.collect())
    };
    text.lines().map(line).collect()
}

fn keys(place: &Place, question: &str) -> BTreeSet<String> {
    let answer = place.run(&["query", &format!("{question} | grep key"), "--format", "ndjson", "--limit", "100000"]).exits(0);
    answer.lines().iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn machines_carry_what_the_sample_says() {
    for place in Place::both(MACHINES) {
        let job = place.import(&[&file("machines.ndjson"), "--source", "enlist"]);
        assert_eq!(job["counts"]["documents"], 600, "{job}");
        let made = place.run(&["tag", "create", "--file", &file("tags.ndjson"), "--json"]).exits(0).json();
        assert_eq!((&made["state"], &made["records"], &made["removed"]), (&json!("completed"), &json!(600), &json!(0)));
        let listed = place.run(&["tag", "ls", "--json"]).exits(0).json();
        for (tag, members) in truth() {
            assert_eq!(keys(&place, &format!("machine tag={tag}")), members, "{tag}");
            let own = listed.as_array().unwrap().iter().find(|own| own["name"] == tag.as_str()).unwrap();
            assert_eq!(own["records"], members.len(), "{tag}");
        }
        let of = |name: &str| truth().into_iter().find(|(tag, _)| tag == name).unwrap().1;
        let (intel, uefi) = (of("intel"), of("uefi"));
        assert_eq!(keys(&place, "machine tag=intel tag=uefi"), &intel & &uefi);
        assert_eq!(keys(&place, "machine tag=intel tag!=uefi"), &intel - &uefi);
        assert_eq!(keys(&place, "machine tag in [amd, intel]"), &of("amd") | &intel);
        assert_eq!(keys(&place, "machine tag=virtual*"), &of("virtual") | &of("virtual-uefi"));
        // a tag that is a query stands for its conditions, also inside of another
        place.ok(&["tag", "create", "large", "--query", "memory>=262144"]);
        place.ok(&["tag", "create", "large-intel", "--query", "tag=large tag=intel"]);
        assert_eq!(keys(&place, "machine tag=large"), of("big-memory"));
        assert_eq!(keys(&place, "machine tag=large-intel cpu_count=1"), &keys(&place, "machine cpu_count=1") & &(&of("big-memory") & &intel));
        place.run(&["query", "machine tag!=large"]).exits(1).complains(&["the tag `large` is a query"]);
        place
            .run(&["tag", "create", "wrong", "--query", "memry>=1"])
            .exits(1)
            .complains(&["`machine` has no field `memry`", "did you mean `memory`?"]);
        place.run(&["tag", "set", "large", "--query", "tag=large-intel"]).exits(1).complains(&["the tag's definition is circular"]);
        let one = intel.iter().find(|key| of("big-memory").contains(*key)).unwrap();
        let explained = place.run(&["get", "machine", one, "--explain", "--format", "json"]).exits(0).json();
        for tag in ["big-memory", "intel", "large", "large-intel", "vmx"] {
            assert!(explained["tags"].as_array().unwrap().contains(&json!(tag)), "{explained}");
        }
        // derived of the same documents, whether memory is one node or several
        let (mut derived, mut arrays) = (0, 0);
        for (own, number) in place.records("machine").iter().zip(1..) {
            let machine = machines::machine(11, number);
            assert_eq!(own["system_id"], machine.id());
            if machine.lshw == machines::LshwState::Whole {
                assert_eq!((&own["cpu_count"], &own["memory"]), (&json!(machine.processors), &json!(machine.memory() >> 20)), "{own}");
                derived += 1;
                arrays += usize::from(machine.arrays);
            }
        }
        assert!(derived > 550 && arrays > 50, "{derived} {arrays}");
        place.assert_sound();
    }
}

#[test]
fn tags_are_given_taken_and_deleted_by_command() {
    for place in Place::both(MACHINES) {
        place.import(&[&file("machines.ndjson"), "--source", "enlist"]);
        place.ok(&["tag", "create", "rack7", "--comment", "by the door", "--set", "kernel_options=nomodeset"]);
        let ids: Vec<String> = (1..=3).map(|number| machines::machine(11, number).id()).collect();
        let given = place.json(&["tag", "add", "rack7", &ids[0], &ids[1], &ids[2], "--json"]);
        assert_eq!(given, json!({ "added": 3, "removed": 0, "unknown": [] }));
        let again = place.run(&["tag", "add", "rack7", &ids[0], "nobody", "--json"]).exits(1).complains(&["there is no record nobody"]);
        assert_eq!(again.json(), json!({ "added": 0, "removed": 0, "unknown": ["nobody"] }));
        assert_eq!(place.ok(&["tag", "remove", "rack7", &ids[1]]).trim(), "0 added, 1 removed");
        assert_eq!(keys(&place, "machine tag=rack7"), [ids[0].clone(), ids[2].clone()].into());
        let shown = place.json(&["tag", "show", "rack7", "--json"]);
        assert_eq!(
            (&shown["records"], &shown["comment"], &shown["attributes"]["kernel_options"]),
            (&json!(2), &json!("by the door"), &json!("nomodeset"))
        );
        place.ok(&["tag", "create", "intel", "--xpath", "//node[@class='processor']/vendor = 'Intel Corp.'"]);
        place.run(&["tag", "remove", "intel", &ids[0]]).exits(1).complains(&["only manual tags can be assigned by hand"]);
        for tag in ["rack7", "intel"] {
            assert_eq!(place.json(&["tag", "delete", tag, "--json"]), json!({ "deleted": tag }));
            place.run(&["query", &format!("machine tag={tag}")]).exits(1).complains(&[&format!("there is no tag `{tag}`")]);
            place.run(&["tag", "delete", tag]).exits(1).complains(&[&format!("there is no tag `{tag}`")]);
        }
        assert_eq!(place.json(&["tag", "ls", "--json"]), json!([]));
    }
}

#[test]
fn a_machine_goes_through_its_states_for_who_has_it() {
    for place in Place::both(MACHINES) {
        let line = |id: &str| json!({ "system_id": id, "hostname": id, "at": "2026-01-01T00:00:00Z", "lshw": "<list><node id='core'><node class='processor'/></node></list>" });
        place.import(&[&place.file("m.ndjson", format!("{}\n{}\n", line("m1"), line("m2"))), "--source", "enlist"]);
        let token = |role: &str, name: &str| place.ok(&["token", "create", "--role", role, "--name", name]).trim().to_owned();
        let (alice, bob, admin) = (token("write", "alice"), token("write", "bob"), token("admin", "root"));
        let stook = Served::new(&place, &["--workers", "0"]);
        let says =
            |who: &str, transition: &str, args: Json| stook.client(Some(who)).call("POST", &format!("/v1/main/machine/m1/{transition}"), &args);
        let state = |reply: stook_tests::http::Reply| reply.with(200)["state"].clone();
        let refused = |reply: stook_tests::http::Reply, code: u16, reason: &str| {
            assert_eq!(reply.status, code, "{}", reply.text());
            assert!(reply.text().contains(reason), "{}", reply.text());
        };
        let nothing = || json!({});
        let focal = || json!({ "image": "focal" });
        refused(says(&alice, "deploy", focal()), 409, "machine is Ready");
        refused(says(&alice, "fixed", nothing()), 409, "machine is Ready");
        let acquired = state(says(&alice, "acquire", nothing()));
        assert_eq!((&acquired["status"], &acquired["owner"]), (&json!("Allocated"), &json!("alice")));
        refused(says(&bob, "acquire", nothing()), 409, "machine is Allocated");
        refused(says(&bob, "deploy", focal()), 403, "machine belongs to another user");
        refused(says(&bob, "release", nothing()), 403, "machine belongs to another user");
        refused(says(&alice, "deploy", nothing()), 422, "image");
        let deploying = state(says(&alice, "deploy", focal()));
        assert_eq!((&deploying["status"], &deploying["image"]), (&json!("Deploying"), &json!("focal")));
        refused(says(&alice, "deployed", nothing()), 403, "only an administrator may say so");
        assert_eq!(state(says(&admin, "deployed", nothing()))["status"], "Deployed");
        refused(says(&admin, "deployed", nothing()), 409, "machine is Deployed");
        // another delivery changes what it is, not whose
        place.import(&[&place.file("m.ndjson", format!("{}\n", line("m1")).replace("-01T", "-02T")), "--source", "enlist"]);
        let released = state(says(&alice, "release", nothing()));
        assert_eq!((&released["status"], &released["owner"], &released["image"]), (&json!("Ready"), &Json::Null, &Json::Null));
        state(says(&alice, "acquire", nothing()));
        let broken = state(says(&bob, "broken", nothing()));
        assert_eq!((&broken["status"], &broken["owner"]), (&json!("Broken"), &Json::Null));
        refused(says(&alice, "acquire", nothing()), 409, "machine is Broken");
        let pick = json!({ "query": "machine status=Ready", "transition": "acquire" });
        let picked = || stook.client(Some(&alice)).call("POST", "/v1/main/pick", &pick);
        assert_eq!(picked().with(200)["key"], "m2", "the other one is broken");
        assert_eq!(picked().status, 409);
        assert_eq!(state(says(&bob, "fixed", nothing()))["status"], "Ready");
        assert_eq!(picked().with(200)["key"], "m1");
        let log = stook.client(Some(&admin)).get("/v1/main/machine/m1/log").with(200);
        let did: Vec<&str> = log["entries"].as_array().unwrap().iter().rev().filter_map(|entry| entry["transition"].as_str()).collect();
        assert_eq!(did, ["acquire", "deploy", "deployed", "release", "acquire", "broken", "fixed", "acquire"]);
    }
}

#[test]
fn ranges_of_a_killed_worker_are_taken_by_others() {
    let Some(place) = Place::both(MACHINES).into_iter().nth(1) else { return };
    let text = std::fs::read_to_string(file("machines.ndjson")).unwrap();
    const ROUNDS: usize = 8;
    for round in 0..ROUNDS {
        let again: String = text.lines().map(|line| line.replace("node-", &format!("r{round}-")) + "\n").collect();
        place.import(&[&place.file("more.ndjson", again), "--source", "enlist"]);
    }
    let worker = || place.command(&["work", "--workers", "1", "--lease", "1"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let shown = |tag: &str| place.json(&["tag", "show", tag, "--json"]);
    let wanted = |name: &str| ROUNDS * truth().into_iter().find(|(tag, _)| tag == name).unwrap().1.len();
    let mut killed_in_work = 0;
    for (round, xpath) in ["//node[@class='processor']/vendor = 'Intel Corp.'", "not(//node[@class='processor']/vendor = 'Intel Corp.')"]
        .iter()
        .cycle()
        .take(4)
        .enumerate()
    {
        let command = if round == 0 { "create" } else { "set" };
        let job = place.json(&["tag", command, "intel", "--xpath", xpath, "--no-wait", "--json"])["job"].clone();
        let (mut doomed, mut other) = (worker(), worker());
        let records = || shown("intel")["evaluation"]["records"].as_u64().unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        while records() == 0 {
            assert!(Instant::now() < deadline, "nobody evaluates");
            std::thread::sleep(Duration::from_millis(5));
        }
        doomed.kill().unwrap();
        doomed.wait().unwrap();
        killed_in_work += usize::from(shown("intel")["evaluation"]["state"] == "running");
        while shown("intel")["evaluation"]["state"] != "completed" {
            assert!(Instant::now() < deadline, "{}", shown("intel"));
            std::thread::sleep(Duration::from_millis(20));
        }
        other.kill().unwrap();
        other.wait().unwrap();
        let all = ROUNDS * 600;
        let expected = if round % 2 == 0 { wanted("intel") } else { all - wanted("intel") };
        let evaluation = &shown("intel")["evaluation"];
        assert_eq!((&evaluation["job"], &evaluation["records"]), (&job, &json!(all)), "each record once: {evaluation}");
        let added = if round == 0 { wanted("intel") } else { expected };
        let removed = if round == 0 { 0 } else { all - expected };
        assert_eq!((&evaluation["added"], &evaluation["removed"]), (&json!(added), &json!(removed)), "{evaluation}");
        assert_eq!(keys(&place, "machine tag=intel").len(), expected);
    }
    assert!(killed_in_work > 0);
}

#[test]
fn a_part_that_says_nothing_leaves_what_was_said() {
    let place = Place::new(MACHINES);
    let line = |at: u32, lshw: Json| {
        json!({ "system_id": "m1", "hostname": "h", "at": format!("2026-01-0{at}T00:00:00Z"), "lshw": lshw, "lldp": "<lldp/>" }).to_string() + "\n"
    };
    let node = "<list><node id='core'><node class='processor'/></node></list>";
    place.ok(&["tag", "create", "machine", "--xpath", "//node"]);
    let import = |lines: String| place.import(&[&place.file("m.ndjson", lines), "--source", "enlist"]);
    import(line(1, json!(node)));
    assert_eq!(place.get("machine", "m1")["cpu_count"], 1);
    for nothing in [json!(null), json!(""), json!("  "), json!("<list><broken>"), json!(17)] {
        import(line(2, nothing));
        assert_eq!(place.get("machine", "m1")["cpu_count"], 1);
        assert_eq!(keys(&place, "machine tag=machine").len(), 1);
    }
    let told = place.run(&["jobs", "--json", "--limit", "1"]).exits(0).json();
    assert_eq!(told[0]["counts"]["warnings"], 1, "{told}");
    import(line(3, json!("<list/>")));
    assert_eq!(keys(&place, "machine tag=machine").len(), 0);
    assert_eq!(place.get("machine", "m1").get("cpu_count").unwrap_or(&json!(0)), &json!(0));
}

#[test]
fn tags_are_made_and_given_by_http_and_machines_acquired_by_them() {
    for place in Place::both(MACHINES) {
        place.import(&[&file("machines.ndjson"), "--source", "enlist"]);
        let stook = Served::new(&place, &["--workers", "1"]);
        let tags = "/v1/main/tags/machine";
        let made = stook.call("POST", tags, &json!({ "name": "intel", "xpath": "//node[@class='processor']/vendor = 'Intel Corp.'" })).with(201);
        stook.ended("main", &json!({ "id": made["job"] }));
        let of = |name: &str| truth().into_iter().find(|(tag, _)| tag == name).unwrap().1;
        let intel = of("intel");
        // the journal says who gained and who lost it
        let told = |job: &Json, outcome: &str| -> BTreeSet<String> {
            let entries = stook.get(&format!("/v1/main/jobs/{job}/journal?limit=10000")).with(200)["entries"].as_array().unwrap().clone();
            entries.iter().filter(|entry| entry["outcome"] == outcome).map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!((told(&made["job"], "created"), told(&made["job"], "withdrawn")), (intel.clone(), BTreeSet::new()));
        let other = json!({ "xpath": "//node[@class='processor']/vendor != 'Intel Corp.'" });
        let set = stook.call("PATCH", &format!("{tags}/intel"), &other).with(200);
        stook.ended("main", &json!({ "id": set["job"] }));
        let others = keys(&place, "machine tag=intel");
        assert_eq!((told(&set["job"], "created"), told(&set["job"], "withdrawn")), (&others - &intel, &intel - &others));
        let back = stook.call("PATCH", &format!("{tags}/intel"), &json!({ "xpath": "//node[@class='processor']/vendor = 'Intel Corp.'" })).with(200);
        stook.ended("main", &json!({ "id": back["job"] }));
        assert_eq!(stook.get(&format!("{tags}/intel")).with(200)["records"], intel.len());
        assert_eq!(stook.call("POST", tags, &json!({ "name": "intel" })).status, 409);
        let wrong = stook.call("POST", tags, &json!({ "name": "x", "xpath": "//a[b = ]" })).with(422);
        assert!(wrong["detail"].as_str().unwrap().contains("column 9 of the XPath"), "{wrong}");
        let typo = stook.call("POST", tags, &json!({ "name": "typo", "xpath": "//node[@id=network]" })).with(201);
        assert!(typo["advice"][0].as_str().unwrap().contains("did you mean 'network'?"), "{typo}");
        stook.call("POST", tags, &json!({ "name": "rack7", "comment": "by the door", "attributes": { "kernel_options": "nomodeset" } })).with(201);
        let mut some = intel.iter();
        let (first, second) = (some.next().unwrap(), some.next().unwrap());
        let given = stook.call("POST", &format!("{tags}/rack7/records"), &json!({ "add": [first, second, "nobody"] })).with(200);
        assert_eq!(given, json!({ "added": 2, "removed": 0, "unknown": ["nobody"] }));
        assert_eq!(stook.call("POST", &format!("{tags}/intel/records"), &json!({ "add": [first] })).status, 422);
        assert_eq!(stook.call("POST", &format!("{tags}/nothing/records"), &json!({})).status, 404);
        let explained = stook.get(&format!("/v1/main/machine/{first}/explain")).with(200);
        assert_eq!(explained["tags"], json!(["intel", "rack7"]));
        // two of them, and no third
        let ask = json!({ "query": "machine status=Ready tag=intel tag=rack7", "transition": "acquire" });
        let granted: BTreeSet<String> =
            (0..2).map(|_| stook.call("POST", "/v1/main/pick", &ask).with(200)["key"].as_str().unwrap().to_owned()).collect();
        assert_eq!(granted, [first.clone(), second.clone()].into());
        assert_eq!(stook.call("POST", "/v1/main/pick", &ask).status, 409);
        assert_eq!(stook.call("POST", &format!("/v1/main/machine/{first}/release"), &json!({})).status, 200);
        assert_eq!(&stook.call("POST", "/v1/main/pick", &ask).with(200)["key"], first);
        // changed, deleted
        let set = stook.call("PATCH", &format!("{tags}/intel"), &json!({ "xpath": "//node[@class='nothing']" })).with(200);
        stook.ended("main", &json!({ "id": set["job"] }));
        assert_eq!(stook.get(&format!("{tags}/intel")).with(200)["records"], 0);
        assert_eq!(stook.call("DELETE", &format!("{tags}/rack7"), &json!({})).status, 204);
        assert_eq!(stook.get(&format!("{tags}/rack7")).status, 404);
        let asked = stook.get("/v1/main/query?q=machine%20tag%3Drack7&total=true").with(400);
        assert!(asked["detail"].as_str().unwrap().starts_with("there is no tag `rack7`"), "{asked}");
        assert_eq!(stook.get("/v1/other/tags/machine").status, 404);
        // one that is made by hand has no documents
        let none = stook.call("POST", tags, &json!({ "name": "unknown", "xpath": "not(//node)" })).with(201);
        stook.ended("main", &json!({ "id": none["job"] }));
        stook.call("POST", "/v1/main/machine", &json!({ "system_id": "by-hand", "hostname": "h" })).with(201);
        assert_eq!(stook.get("/v1/main/machine/by-hand/explain").with(200)["tags"], json!(["unknown"]));
        // and one that has keeps what its documents say when it is edited
        stook.call("PATCH", &format!("/v1/main/machine/{first}"), &json!({ "hostname": "other" })).with(200);
        assert_eq!(stook.get(&format!("/v1/main/machine/{first}/explain")).with(200)["tags"], json!([]));
    }
}

#[test]
fn a_tag_evaluation_that_was_killed_is_completed_by_tag_rebuild() {
    let place = Place::new(MACHINES);
    let text = std::fs::read_to_string(file("machines.ndjson")).unwrap();
    // four ranges
    let again = |round: usize| text.lines().map(|line| line.replace("node-", &format!("r{round}-"))).collect::<Vec<_>>().join("\n");
    for round in 0..6 {
        place.import(&[&place.file("more.ndjson", again(round)), "--source", "enlist"]);
    }
    let xpath = "//node[@class='processor']/vendor = 'Intel Corp.'";
    let mut killed = 0;
    for round in 0..8 {
        let tag = format!("t{round}");
        let command = place.command(&["tag", "create", &tag, "--xpath", xpath]);
        killed += usize::from(kill_after(command, Duration::from_millis(10 + 25 * round)));
        if place.run(&["tag", "show", &tag]).code != 0 {
            continue;
        }
        let shown = || place.run(&["tag", "show", &tag, "--json"]).exits(0).json();
        place.run(&["import", "--resume", &shown()["evaluation"]["job"].to_string()]);
        let shown = shown();
        if shown["evaluation"]["state"] != "completed" {
            // it was killed before all ranges were written
            place.ok(&["tag", "rebuild", &tag]);
        }
        let expected = 6 * truth().into_iter().find(|(tag, _)| tag == "intel").unwrap().1.len();
        assert_eq!(keys(&place, &format!("machine tag={tag}")).len(), expected, "{shown}");
    }
    assert!(killed > 2, "{killed}");
}

#[test]
fn many_acquire_machines_of_several_servers_while_tags_are_evaluated() {
    for place in Place::both(MACHINES) {
        place.import(&[&file("machines.ndjson"), "--source", "enlist"]);
        place.ok(&["tag", "create", "vmx-or-svm", "--xpath", "//capability/@id = 'vmx' or //capability/@id = 'svm'"]);
        let all = keys(&place, "machine tag=vmx-or-svm");
        let served = [Served::new(&place, &["--workers", "0"]), Served::new(&place, &["--workers", "0"])];
        let pick = json!({ "query": "machine status=Ready tag=vmx-or-svm", "transition": "acquire" });
        let over = AtomicBool::new(false);
        let mut granted: Vec<String> = std::thread::scope(|scope| {
            let rebuilding = scope.spawn(|| {
                let mut rounds = 0;
                while !over.load(Ordering::SeqCst) {
                    place.ok(&["tag", "rebuild"]);
                    rounds += 1;
                }
                rounds
            });
            let caller = |server| {
                let (served, pick): (&Served, &Json) = (server, &pick);
                scope.spawn(move || {
                    let mut own = Vec::new();
                    loop {
                        let reply = served.call("POST", "/v1/main/pick", pick);
                        match reply.status {
                            200 => own.push(reply.json()["key"].as_str().unwrap().to_owned()),
                            // all that are left are held for a while
                            503 => {}
                            _ => {
                                assert_eq!(reply.status, 409, "{}", reply.text());
                                return own;
                            }
                        }
                    }
                })
            };
            let callers: Vec<_> = (0..6).map(|number| caller(&served[number % 2])).collect();
            let granted = callers.into_iter().flat_map(|own| own.join().unwrap()).collect();
            over.store(true, Ordering::SeqCst);
            assert!(rebuilding.join().unwrap() > 0);
            granted
        });
        // each of them to one caller, and nobody was told too early that there is none
        granted.sort();
        assert_eq!(granted, all.into_iter().collect::<Vec<_>>());
    }
}

/// A line of what a machine uploads, a day of January and parts that are texts.
fn line(id: &str, day: u32, lshw: &str) -> String {
    json!({ "system_id": id, "hostname": id, "at": format!("2026-01-{day:02}T00:00:00Z"), "lshw": lshw }).to_string() + "\n"
}

/// As `lshw -xml` writes it: the machine is the outermost element, or the only one of a list.
const HARDWARE: &str = "<node id='box' class='system'><vendor>Müller &amp; Söhne</vendor><node id='core' class='bus'>\
    <node id='memory' class='memory'><size units='bytes'>8589934592</size></node><node id='cpu:0' class='processor'/><node id='cpu:1' class='processor'/>\
    </node></node>";

#[test]
fn a_file_of_lshw_is_one_machine_however_it_is_written() {
    for place in Place::both(MACHINES) {
        let latin = |text: String| text.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect::<Vec<u8>>();
        for (id, bytes) in [
            ("bare", HARDWARE.to_owned().into_bytes()),
            ("declared", format!("<?xml version=\"1.0\" standalone=\"yes\" ?>\n<!-- generated -->\n{HARDWARE}\n").into_bytes()),
            ("in-a-list", format!("<?xml version='1.0'?>\n<list>\n{HARDWARE}</list>").into_bytes()),
            ("typed", format!("<!DOCTYPE list SYSTEM 'lshw.dtd' [<!ENTITY unused 'x'>]><list>{HARDWARE}</list>").into_bytes()),
            ("latin", latin(format!("<?xml version='1.0' encoding='ISO-8859-1'?><list>{HARDWARE}</list>"))),
            ("windows", latin(format!("<?xml version='1.0' encoding='windows-1252'?>{HARDWARE}"))),
            ("entity", format!("<!DOCTYPE node [<!ENTITY ue 'ü'>]>{}", HARDWARE.replace('ü', "&ue;")).into_bytes()),
        ] {
            let job = place.import(&[&place.file(&format!("{id}.lshw.xml"), bytes), "--source", "lshw"]);
            assert_eq!((counts(&job), &job["counts"]["documents"]), ("created 1".to_owned(), &json!(1)), "{id}");
            let own = place.get("machine", id);
            assert_eq!((&own["cpu_count"], &own["memory"], &own["vendor"]), (&json!(2), &json!(8_192), &json!("Müller & Söhne")), "{id}: {own}");
        }
        place.ok(&["tag", "create", "two", "--xpath", "count(//node[@class='processor']) = 2"]);
        assert_eq!(keys(&place, "machine tag=two").len(), 7);
        place.assert_sound();
    }
}

#[test]
fn a_part_that_cannot_be_read_takes_nothing_else_with_it() {
    let deep = |levels: usize| format!("{}<node id='core'><node class='processor'/></node>{}", "<node>".repeat(levels), "</node>".repeat(levels));
    let bad = {
        let mut bytes = line("bad", 1, "<node><vendor>Gr?n</vendor></node>").into_bytes();
        let at = bytes.iter().position(|byte| *byte == b'?').unwrap();
        bytes[at] = 0xfc;
        (bytes, at)
    };
    let typed = line("typed", 1, &format!("<?xml version='1.0' encoding='ISO-8859-1'?><!DOCTYPE list [<!ENTITY e 'x'>]><list>{HARDWARE}</list>"));
    let lines = [
        bad.0.as_slice(),
        typed.as_bytes(),
        line("half", 1, "<list/>").replace("<list/>", "\\ud83d").as_bytes(),
        line("deep", 1, &deep(4_000)).as_bytes(),
        line("too-deep", 1, &deep(4_096)).as_bytes(),
        line("last", 1, HARDWARE).as_bytes(),
        format!(
            "{{\"system_id\": \"nested\", \"hostname\": \"n\", \"at\": \"2026-01-01T00:00:00Z\", \"x\": {}{}}}\n",
            "[".repeat(4_000),
            "]".repeat(4_000)
        )
        .as_bytes(),
    ]
    .concat();
    let check = |place: &Place| {
        let own = |id: &str| place.get("machine", id);
        assert_eq!((own("bad")["hostname"].as_str(), own("bad").get("vendor")), (Some("bad"), None));
        assert_eq!((&own("typed")["vendor"], &own("typed")["cpu_count"]), (&json!("Müller & Söhne"), &json!(2)));
        assert_eq!((&own("deep")["cpu_count"], own("too-deep").get("cpu_count"), &own("last")["cpu_count"]), (&json!(1), None, &json!(2)));
        assert_eq!((&own("half")["hostname"], &own("nested")["hostname"]), (&json!("half"), &json!("n")));
    };
    let told = |troubles: &[String]| {
        assert_eq!(troubles.len(), 3, "{troubles:?}");
        let parts = [
            format!("lshw: byte {} of the document is not UTF-8; it is left out", bad.1),
            "of the document has unexpected end of hex escape".into(),
            "nested deeper than 4096 levels".into(),
        ];
        assert!(troubles.iter().zip(&parts).all(|(trouble, part)| trouble.contains(part.as_str())), "{troubles:?}");
    };
    for place in Place::both(MACHINES) {
        let job = place.import(&[&place.file("uploads.ndjson", &lines), "--source", "enlist"]);
        assert_eq!((&job["counts"]["created"], &job["counts"]["failed"], &job["counts"]["warnings"]), (&json!(7), &json!(0), &json!(3)), "{job}");
        let reasons = |troubles: Vec<Json>| troubles.iter().map(Json::to_string).collect::<Vec<_>>();
        told(&reasons(place.troubles(job["id"].as_u64().unwrap())));
        check(&place);
        place.ok(&["tag", "create", "found", "--xpath", "//node[@class='processor']"]);
        assert_eq!(keys(&place, "machine tag=found"), ["deep", "last", "typed"].map(str::to_owned).into());
        // the same by HTTP, and the pages of such documents are shown
        let other = Place::new(MACHINES);
        let stook = Served::new(&other, &["--workers", "0"]);
        let said = stook.send("POST", "/v1/main/deliver?source=enlist", &[], &lines).with(200);
        assert_eq!(said["counts"]["created"], 7, "{said}");
        told(&reasons(said["troubles"].as_array().unwrap().clone()));
        for id in ["bad", "deep", "nested", "typed"] {
            assert_eq!(stook.get(&format!("/t/main/record?collection=machine&key={id}")).status, 200, "{id}");
        }
        stook.end();
        check(&other);
    }
}

#[test]
fn what_is_older_than_a_deletion_is_superseded_and_tags_count_who_is_left() {
    for place in Place::both(MACHINES) {
        let stook = Served::new(&place, &["--workers", "1"]);
        let deliver = |text: &str| {
            let said = stook.send("POST", "/v1/main/deliver?source=enlist", &[], text.as_bytes()).with(200);
            said["records"].as_array().unwrap().iter().map(|own| (own["outcome"].clone(), own["reason"].to_string())).collect::<Vec<_>>()
        };
        let all: String = ["a", "b", "c"].iter().map(|id| line(id, 1, HARDWARE)).collect();
        deliver(&all);
        assert_eq!(stook.send("DELETE", "/v1/main/machine/b", &[], b"").status, 204);
        let late = deliver(&line("b", 2, HARDWARE));
        assert_eq!(late[0].0, "superseded", "{late:?}");
        assert!(late[0].1.contains("the deletion by `api` counts instead, as of 20"), "{late:?}");
        assert_eq!(stook.get("/v1/main/machine/b").status, 404);
        let wish = json!({ "name": "two", "xpath": "count(//node[@class='processor']) = 2" });
        let seen = stook.call("POST", "/v1/main/tags/machine?preview=true", &wish).with(200);
        assert_eq!((&seen["records"], &seen["matches"], &seen["keys"]), (&json!(2), &json!(2), &json!(["a", "c"])), "{seen}");
        let made = stook.call("POST", "/v1/main/tags/machine", &wish).with(201);
        stook.ended("main", &json!({ "id": made["job"] }));
        let shown = stook.get("/v1/main/tags/machine/two").with(200);
        let evaluated = &shown["evaluation"];
        assert_eq!(
            (&evaluated["records"], &evaluated["of"], &evaluated["added"], &shown["records"]),
            (&json!(2), &json!(2), &json!(2), &json!(2)),
            "{shown}"
        );
        // what comes back carries what its documents say
        stook.call("POST", "/v1/main/machine", &json!({ "system_id": "b", "hostname": "again" })).with(201);
        assert_eq!(stook.get("/v1/main/machine/b/explain").with(200)["tags"], json!(["two"]));
        stook.end();
        place.assert_sound();
    }
}

#[test]
fn a_tag_that_does_not_exist_is_named_with_the_one_that_may_be_meant() {
    for place in Place::both(MACHINES) {
        place.import(&[&place.file("m.ndjson", line("a", 1, HARDWARE)), "--source", "enlist"]);
        place.run(&["query", "machine tag=two"]).exits(1).complains(&["there is no tag `two`", "machine has no tags yet"]);
        place.ok(&["tag", "create", "graphics-fast", "--xpath", "//node"]);
        place.ok(&["tag", "create", "many", "--query", "cpu_count>=2"]);
        for text in
            ["machine tag=grapics-fast", "machine tag!=grapics-fast", "machine tag in [many, grapics-fast]", "machine | grep key, tag=grapics-fast"]
        {
            place.run(&["query", text]).exits(1).complains(&["there is no tag `grapics-fast`", "did you mean `graphics-fast`?"]);
        }
        place.run(&["query", "machine tag=nothing"]).exits(1).complains(&["tags of machine are graphics-fast, many"]);
        assert_eq!(keys(&place, "machine tag=graphics* tag=many").len(), 1);
        place.run(&["tag", "create", "wrong", "--query", "tag=nothing"]).exits(1).complains(&["there is no tag `nothing`"]);
        // those of one file may be defined by each other in any order
        let file =
            place.file("tags.ndjson", "{\"name\": \"first\", \"query\": \"tag=second\"}\n{\"name\": \"second\", \"query\": \"cpu_count=2\"}\n");
        place.ok(&["tag", "create", "--file", &file]);
        assert_eq!(keys(&place, "machine tag=first").len(), 1);
        place.ok(&["tag", "delete", "second"]);
        place.run(&["query", "machine tag=first"]).exits(1).complains(&["there is no tag `second`, by which a tag is defined"]);
        for command in
            [&["show", "grapics-fast"][..], &["delete", "grapics-fast"], &["set", "grapics-fast", "--comment", "x"], &["add", "grapics-fast", "a"]]
        {
            let said = place.run(&[&["tag"], command].concat());
            said.exits(1).complains(&["there is no tag `grapics-fast`; did you mean `graphics-fast`?"]);
        }
        let stook = Served::new(&place, &["--workers", "0"]);
        let unknown = stook.get("/v1/main/tags/machine/grapics-fast").with(404);
        assert_eq!(unknown["detail"], "there is no tag `grapics-fast`; did you mean `graphics-fast`?");
        let refused = stook.get("/v1/main/query?q=machine%20tag%3Dgrapics-fast").with(400);
        assert_eq!(refused["detail"], "there is no tag `grapics-fast`; did you mean `graphics-fast`?");
        assert_eq!((&refused["at"], &refused["until"]), (&json!(12), &json!(24)));
        let page = stook.get("/t/main/search?q=machine%20tag%3Dgrapics-fast").text();
        assert!(page.contains("graphics-fast"), "{page}");
    }
}

#[test]
fn an_edit_that_is_sent_again_by_its_key_is_done_once() {
    for place in Place::both(MACHINES) {
        let stook = Served::new(&place, &["--workers", "0"]);
        let send = |method: &str, path: &str, key: &str, body: &str| {
            let mut headers = vec![("idempotency-key", key)];
            headers.extend((!body.is_empty()).then_some(("content-type", "application/json")));
            let reply = stook.send(method, &format!("/v1/main/machine{path}"), &headers, body.as_bytes());
            let (etag, place) = (reply.header("etag").map(str::to_owned), reply.header("location").map(str::to_owned));
            (reply.status, etag, place, reply.text())
        };
        let (first, other) = (r#"{"system_id": "a", "hostname": "one"}"#, r#"{"system_id": "a", "hostname": "two"}"#);
        let created = send("POST", "", "k1", first);
        assert_eq!((created.0, created.2.as_deref()), (201, Some("/v1/main/machine/a")));
        assert_eq!(created.1.as_deref(), stook.get("/v1/main/machine/a").header("etag"));
        let changed = send("PATCH", "/a", "k2", r#"{"hostname": "three"}"#);
        assert_eq!((changed.0, stook.get("/v1/main/machine/a").with(200)["hostname"].clone()), (200, json!("three")));
        // each answer is the first one, whatever has become of the record
        assert_eq!((send("POST", "", "k1", first), send("PATCH", "/a", "k2", r#"{"hostname": "three"}"#)), (created.clone(), changed));
        assert_eq!(send("POST", "", "k1", other).0, 422);
        assert_eq!(send("POST", "", "k3", first).0, 409, "a refusal is not kept");
        let put = send("PUT", "/b", "k1", r#"{"system_id": "b"}"#);
        assert_eq!((put.0, send("PUT", "/b", "k1", r#"{"system_id": "b"}"#)), (201, put.clone()), "the same key for another call");
        let deleted = send("DELETE", "/a", "k4", "");
        assert_eq!((deleted.0, send("DELETE", "/a", "k4", "").0, send("DELETE", "/a", "k5", "").0), (204, 204, 404));
        assert_eq!((send("POST", "", "k1", first), stook.get("/v1/main/machine/a").status), (created, 404), "it was not made again");
        assert_eq!(send("POST", "", "k3", first).0, 201, "what was refused may be tried again");
        stook.end();
        place.assert_sound();
    }
}
