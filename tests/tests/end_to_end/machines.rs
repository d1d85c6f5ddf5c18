//! Machines and their tags, end to end: the sample's truth, queries, explanations, the HTTP API, machines acquired by tag, a
//! definition that is being evaluated when the program is killed.

use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_sample::machines::{self, Machines};
use stook_tests::http::Served;
use stook_tests::{Sandbox, counts, kill_after};

const MACHINES: &str = include_str!("../../../examples/machines/catalogue.yaml");

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
    let parse = |line: &str| {
        let json: Json = serde_json::from_str(line).unwrap();
        let members = json["members"].as_array().unwrap().iter().map(|key| key.as_str().unwrap().to_owned());
        (json["tag"].as_str().unwrap().to_owned(), members.collect())
    };
    text.lines().map(parse).collect()
}

fn keys(sandbox: &Sandbox, question: &str) -> BTreeSet<String> {
    let answer = sandbox.run(&["query", &format!("{question} | grep key"), "--format", "ndjson", "--limit", "100000"]).exits(0);
    answer.lines().iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn machines_have_the_tags_of_the_sample() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        let job = sandbox.import(&[&file("machines.ndjson"), "--source", "enlist"]);
        assert_eq!(job["counts"]["documents"], 600, "{job}");
        let made = sandbox.run(&["tag", "create", "--file", &file("tags.ndjson"), "--json"]).exits(0).json();
        assert_eq!((&made["state"], &made["records"], &made["removed"]), (&json!("completed"), &json!(600), &json!(0)));
        let listed = sandbox.run(&["tag", "ls", "--json"]).exits(0).json();
        for (tag, members) in truth() {
            assert_eq!(keys(&sandbox, &format!("machine tag={tag}")), members, "{tag}");
            let listed_tag = listed.as_array().unwrap().iter().find(|listed_tag| listed_tag["name"] == tag.as_str()).unwrap();
            assert_eq!(listed_tag["records"], members.len(), "{tag}");
        }
        let of = |name: &str| truth().into_iter().find(|(tag, _)| tag == name).unwrap().1;
        let (intel, uefi) = (of("intel"), of("uefi"));
        assert_eq!(keys(&sandbox, "machine tag=intel tag=uefi"), &intel & &uefi);
        assert_eq!(keys(&sandbox, "machine tag=intel tag!=uefi"), &intel - &uefi);
        assert_eq!(keys(&sandbox, "machine tag in [amd, intel]"), &of("amd") | &intel);
        assert_eq!(keys(&sandbox, "machine tag=virtual*"), &of("virtual") | &of("virtual-uefi"));
        // a tag that is a query stands for its conditions, also inside of another
        sandbox.ok(&["tag", "create", "large", "--query", "memory>=262144"]);
        sandbox.ok(&["tag", "create", "large-intel", "--query", "tag=large tag=intel"]);
        assert_eq!(keys(&sandbox, "machine tag=large"), of("big-memory"));
        assert_eq!(keys(&sandbox, "machine tag=large-intel cpu_count=1"), &keys(&sandbox, "machine cpu_count=1") & &(&of("big-memory") & &intel));
        sandbox.run(&["query", "machine tag!=large"]).exits(1).stderr_contains(&["the tag `large` is a query"]);
        sandbox
            .run(&["tag", "create", "wrong", "--query", "memry>=1"])
            .exits(1)
            .stderr_contains(&["`machine` has no field `memry`", "did you mean `memory`?"]);
        sandbox.run(&["tag", "set", "large", "--query", "tag=large-intel"]).exits(1).stderr_contains(&["the tag's definition is circular"]);
        let sample_key = intel.iter().find(|key| of("big-memory").contains(*key)).unwrap();
        let explained = sandbox.run(&["get", "machine", sample_key, "--explain", "--format", "json"]).exits(0).json();
        for tag in ["big-memory", "intel", "large", "large-intel", "vmx"] {
            assert!(explained["tags"].as_array().unwrap().contains(&json!(tag)), "{explained}");
        }
        // derived of the same documents, whether memory is one node or several
        let (mut derived, mut arrays) = (0, 0);
        for (record, number) in sandbox.records("machine").iter().zip(1..) {
            let machine = machines::machine(11, number);
            assert_eq!(record["system_id"], machine.id());
            if machine.lshw == machines::LshwState::Whole {
                assert_eq!((&record["cpu_count"], &record["memory"]), (&json!(machine.processors), &json!(machine.memory() >> 20)), "{record}");
                derived += 1;
                arrays += usize::from(machine.arrays);
            }
        }
        assert!(derived > 550 && arrays > 50, "{derived} {arrays}");
        sandbox.assert_sound();
    }
}

#[test]
fn tags_are_given_taken_and_deleted_by_command() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        sandbox.import(&[&file("machines.ndjson"), "--source", "enlist"]);
        sandbox.ok(&["tag", "create", "rack7", "--comment", "by the door", "--set", "kernel_options=nomodeset"]);
        let ids: Vec<String> = (1..=3).map(|number| machines::machine(11, number).id()).collect();
        let given = sandbox.json(&["tag", "add", "rack7", &ids[0], &ids[1], &ids[2], "--json"]);
        assert_eq!(given, json!({ "added": 3, "removed": 0, "unknown": [] }));
        let again = sandbox.run(&["tag", "add", "rack7", &ids[0], "nobody", "--json"]).exits(1).stderr_contains(&["there is no record nobody"]);
        assert_eq!(again.json(), json!({ "added": 0, "removed": 0, "unknown": ["nobody"] }));
        assert_eq!(sandbox.ok(&["tag", "remove", "rack7", &ids[1]]).trim(), "0 added, 1 removed");
        assert_eq!(keys(&sandbox, "machine tag=rack7"), [ids[0].clone(), ids[2].clone()].into());
        let shown = sandbox.json(&["tag", "show", "rack7", "--json"]);
        assert_eq!(
            (&shown["records"], &shown["comment"], &shown["attributes"]["kernel_options"]),
            (&json!(2), &json!("by the door"), &json!("nomodeset"))
        );
        sandbox.ok(&["tag", "create", "intel", "--xpath", "//node[@class='processor']/vendor = 'Intel Corp.'"]);
        sandbox.run(&["tag", "remove", "intel", &ids[0]]).exits(1).stderr_contains(&["only manual tags can be assigned by hand"]);
        for tag in ["rack7", "intel"] {
            assert_eq!(sandbox.json(&["tag", "delete", tag, "--json"]), json!({ "deleted": tag }));
            sandbox.run(&["query", &format!("machine tag={tag}")]).exits(1).stderr_contains(&[&format!("there is no tag `{tag}`")]);
            sandbox.run(&["tag", "delete", tag]).exits(1).stderr_contains(&[&format!("there is no tag `{tag}`")]);
        }
        assert_eq!(sandbox.json(&["tag", "ls", "--json"]), json!([]));
    }
}

#[test]
fn a_renamed_tag_stays_with_its_machines_and_their_kernel_options_are_joined() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        sandbox.import(&[&file("machines.ndjson"), "--source", "enlist"]);
        let ids: Vec<String> = (1..=2).map(|number| machines::machine(11, number).id()).collect();
        sandbox.ok(&["tag", "create", "gpu", "--xpath", "//node[@class='system']", "--set", "kernel_options=nomodeset"]);
        sandbox.ok(&["tag", "create", "rack7", "--set", "kernel_options=quiet splash"]);
        sandbox.ok(&["tag", "create", "all-gpu", "--query", "tag=gpu", "--set", "kernel_options=console=tty0"]);
        sandbox.ok(&["tag", "create", "bare"]);
        for tag in ["rack7", "bare"] {
            sandbox.ok(&["tag", "add", tag, &ids[0], &ids[1]]);
        }
        let carriers = keys(&sandbox, "machine tag=gpu");
        assert!(carriers.len() > 500);
        let options = |id: &str| sandbox.json(&["get", "machine", id, "--explain", "--format", "json"])["tag_attributes"].clone();
        let machine = carriers.iter().find(|id| ids.contains(id)).unwrap();
        assert_eq!(options(machine), json!({ "kernel_options": "console=tty0 nomodeset quiet splash" }), "in the order of the tags' names");
        let text = sandbox.ok(&["get", "machine", machine, "--explain"]);
        assert!(text.contains("tags: all-gpu; bare; gpu; rack7\nkernel_options: console=tty0 nomodeset quiet splash\n"), "{text}");
        // the tag's results go with it: there is no other job
        let jobs = || sandbox.run(&["jobs", "--json"]).exits(0).json().as_array().unwrap().len();
        let jobs_before = jobs();
        sandbox
            .run(&["tag", "rename", "gpu", "zz-graphics"])
            .exits(0)
            .stderr_contains(&["tag all-gpu: its query names `gpu`, which is no tag any more"]);
        assert_eq!(jobs(), jobs_before);
        assert_eq!(keys(&sandbox, "machine tag=zz-graphics"), carriers);
        sandbox.run(&["query", "machine tag=gpu"]).exits(1).stderr_contains(&["there is no tag `gpu`"]);
        sandbox.ok(&["tag", "set", "all-gpu", "--query", "tag=zz-graphics"]);
        assert_eq!(options(machine), json!({ "kernel_options": "console=tty0 quiet splash nomodeset" }));
        let shown = sandbox.json(&["tag", "show", "zz-graphics", "--json"]);
        assert_eq!((&shown["xpath"], &shown["evaluation"]["state"]), (&json!("//node[@class='system']"), &json!("completed")));
        // new documents are evaluated for it
        let none = json!({ "system_id": machine, "hostname": "h", "at": "2026-06-01T00:00:00Z", "lshw": "<list/>" });
        sandbox.import(&[&sandbox.write_file("none.ndjson", none.to_string()), "--source", "enlist"]);
        assert!(!keys(&sandbox, "machine tag=zz-graphics").contains(machine));
        for (from, to, reason) in [
            ("rack7", "zz-graphics", "there is a tag `zz-graphics` already"),
            ("rack8", "rack9", "there is no tag `rack8`; did you mean `rack7`?"),
            ("rack7", "rack 7", "`rack 7` is not a tag's name"),
        ] {
            sandbox.run(&["tag", "rename", from, to]).exits(1).stderr_contains(&[reason]);
        }
        assert_eq!(sandbox.json(&["tag", "rename", "rack7", "rack7", "--json"]), json!({ "tag": "rack7", "name": "rack7" }));
        // one that is being evaluated is not renamed
        sandbox.ok(&["tag", "set", "zz-graphics", "--xpath", "//node", "--no-wait"]);
        sandbox.run(&["tag", "rename", "zz-graphics", "graphics"]).exits(1).stderr_contains(&["it is being evaluated (job"]);
        // over HTTP, together with other changes
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let path = "/v1/main/tags/machine";
        let renamed = stook.call("PATCH", &format!("{path}/rack7"), &json!({ "name": "rack8", "comment": "moved" })).expect_json(200);
        assert_eq!((&renamed["name"], &renamed["comment"], &renamed["records"]), (&json!("rack8"), &json!("moved"), &json!(2)));
        assert_eq!(stook.call("PATCH", &format!("{path}/rack8"), &json!({ "name": "bare" })).status, 409);
        assert_eq!(stook.call("PATCH", &format!("{path}/rack8"), &json!({ "name": 8 })).status, 422);
        assert_eq!(stook.call("PATCH", &format!("{path}/rack8"), &json!({ "name": "rack9", "xpath": "//node" })).status, 422);
        assert_eq!(stook.get(&format!("{path}/rack8")).expect_json(200)["records"], 2, "nothing of a wrong change is done");
        let explained = stook.get(&format!("/v1/main/machine/{machine}/explain")).expect_json(200);
        assert_eq!(explained["tag_attributes"], json!({ "kernel_options": "quiet splash" }));
        sandbox.assert_sound();
    }
}

#[test]
fn a_machine_changes_state_for_its_owner_only() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        let document = |id: &str| json!({ "system_id": id, "hostname": id, "at": "2026-01-01T00:00:00Z", "lshw": "<list><node id='core'><node class='processor'/></node></list>" });
        sandbox.import(&[&sandbox.write_file("m.ndjson", format!("{}\n{}\n", document("m1"), document("m2"))), "--source", "enlist"]);
        let token = |role: &str, name: &str| sandbox.ok(&["token", "create", "--role", role, "--name", name]).trim().to_owned();
        let (alice, bob, admin) = (token("write", "alice"), token("write", "bob"), token("admin", "root"));
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let call_transition =
            |token: &str, transition: &str, args: Json| stook.client(Some(token)).call("POST", &format!("/v1/main/machine/m1/{transition}"), &args);
        let state = |reply: stook_tests::http::Reply| reply.expect_json(200)["state"].clone();
        let refused = |reply: stook_tests::http::Reply, code: u16, reason: &str| {
            assert_eq!(reply.status, code, "{}", reply.text());
            assert!(reply.text().contains(reason), "{}", reply.text());
        };
        let nothing = || json!({});
        let focal = || json!({ "image": "focal" });
        refused(call_transition(&alice, "deploy", focal()), 409, "machine is Ready");
        refused(call_transition(&alice, "fixed", nothing()), 409, "machine is Ready");
        let acquired = state(call_transition(&alice, "acquire", nothing()));
        assert_eq!((&acquired["status"], &acquired["owner"]), (&json!("Allocated"), &json!("alice")));
        refused(call_transition(&bob, "acquire", nothing()), 409, "machine is Allocated");
        refused(call_transition(&bob, "deploy", focal()), 403, "machine belongs to another user");
        refused(call_transition(&bob, "release", nothing()), 403, "machine belongs to another user");
        refused(call_transition(&alice, "deploy", nothing()), 422, "image");
        let deploying = state(call_transition(&alice, "deploy", focal()));
        assert_eq!((&deploying["status"], &deploying["image"]), (&json!("Deploying"), &json!("focal")));
        refused(call_transition(&alice, "deployed", nothing()), 403, "only an administrator may say so");
        assert_eq!(state(call_transition(&admin, "deployed", nothing()))["status"], "Deployed");
        refused(call_transition(&admin, "deployed", nothing()), 409, "machine is Deployed");
        // another delivery changes what it is, not whose
        sandbox.import(&[&sandbox.write_file("m.ndjson", format!("{}\n", document("m1")).replace("-01T", "-02T")), "--source", "enlist"]);
        let released = state(call_transition(&alice, "release", nothing()));
        assert_eq!((&released["status"], &released["owner"], &released["image"]), (&json!("Ready"), &Json::Null, &Json::Null));
        state(call_transition(&alice, "acquire", nothing()));
        let broken = state(call_transition(&bob, "broken", nothing()));
        assert_eq!((&broken["status"], &broken["owner"]), (&json!("Broken"), &Json::Null));
        refused(call_transition(&alice, "acquire", nothing()), 409, "machine is Broken");
        let pick = json!({ "query": "machine status=Ready", "transition": "acquire" });
        let picked = || stook.client(Some(&alice)).call("POST", "/v1/main/pick", &pick);
        assert_eq!(picked().expect_json(200)["key"], "m2", "the other one is broken");
        assert_eq!(picked().status, 409);
        assert_eq!(state(call_transition(&bob, "fixed", nothing()))["status"], "Ready");
        assert_eq!(picked().expect_json(200)["key"], "m1");
        let log = stook.client(Some(&admin)).get("/v1/main/machine/m1/log").expect_json(200);
        let did: Vec<&str> = log["entries"].as_array().unwrap().iter().rev().filter_map(|entry| entry["transition"].as_str()).collect();
        assert_eq!(did, ["acquire", "deploy", "deployed", "release", "acquire", "broken", "fixed", "acquire"]);
    }
}

#[test]
fn ranges_of_a_killed_worker_are_taken_over() {
    let Some(sandbox) = Sandbox::on_each_store(MACHINES).into_iter().nth(1) else { return };
    let text = std::fs::read_to_string(file("machines.ndjson")).unwrap();
    const ROUNDS: usize = 8;
    for round in 0..ROUNDS {
        let renamed_lines: String = text.lines().map(|line| line.replace("node-", &format!("r{round}-")) + "\n").collect();
        sandbox.import(&[&sandbox.write_file("more.ndjson", renamed_lines), "--source", "enlist"]);
    }
    let worker = || sandbox.command(&["work", "--workers", "1", "--lease", "1"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let shown = |tag: &str| sandbox.json(&["tag", "show", tag, "--json"]);
    let wanted = |name: &str| ROUNDS * truth().into_iter().find(|(tag, _)| tag == name).unwrap().1.len();
    let mut killed_in_work = 0;
    for (round, xpath) in ["//node[@class='processor']/vendor = 'Intel Corp.'", "not(//node[@class='processor']/vendor = 'Intel Corp.')"]
        .iter()
        .cycle()
        .take(4)
        .enumerate()
    {
        let command = if round == 0 { "create" } else { "set" };
        let job = sandbox.json(&["tag", command, "intel", "--xpath", xpath, "--no-wait", "--json"])["job"].clone();
        let (mut doomed, mut second_worker) = (worker(), worker());
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
        second_worker.kill().unwrap();
        second_worker.wait().unwrap();
        let all = ROUNDS * 600;
        let expected = if round % 2 == 0 { wanted("intel") } else { all - wanted("intel") };
        let evaluation = &shown("intel")["evaluation"];
        assert_eq!((&evaluation["job"], &evaluation["records"]), (&job, &json!(all)), "each record once: {evaluation}");
        let added = if round == 0 { wanted("intel") } else { expected };
        let removed = if round == 0 { 0 } else { all - expected };
        assert_eq!((&evaluation["added"], &evaluation["removed"]), (&json!(added), &json!(removed)), "{evaluation}");
        assert_eq!(keys(&sandbox, "machine tag=intel").len(), expected);
    }
    assert!(killed_in_work > 0);
}

#[test]
fn a_part_without_content_leaves_earlier_contributions() {
    let sandbox = Sandbox::new(MACHINES);
    let document = |day: u32, lshw: Json| {
        json!({ "system_id": "m1", "hostname": "h", "at": format!("2026-01-0{day}T00:00:00Z"), "lshw": lshw, "lldp": "<lldp/>" }).to_string() + "\n"
    };
    let node = "<list><node id='core'><node class='processor'/></node></list>";
    sandbox.ok(&["tag", "create", "machine", "--xpath", "//node"]);
    let import = |lines: String| sandbox.import(&[&sandbox.write_file("m.ndjson", lines), "--source", "enlist"]);
    import(document(1, json!(node)));
    assert_eq!(sandbox.get("machine", "m1")["cpu_count"], 1);
    for nothing in [json!(null), json!(""), json!("  "), json!("<list><broken>"), json!(17)] {
        import(document(2, nothing));
        assert_eq!(sandbox.get("machine", "m1")["cpu_count"], 1);
        assert_eq!(keys(&sandbox, "machine tag=machine").len(), 1);
    }
    let jobs = sandbox.run(&["jobs", "--json", "--limit", "1"]).exits(0).json();
    assert_eq!(jobs[0]["counts"]["warnings"], 1, "{jobs}");
    import(document(3, json!("<list/>")));
    assert_eq!(keys(&sandbox, "machine tag=machine").len(), 0);
    assert_eq!(sandbox.get("machine", "m1").get("cpu_count").unwrap_or(&json!(0)), &json!(0));
}

#[test]
fn tags_are_made_and_given_by_http_and_machines_acquired_by_them() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        sandbox.import(&[&file("machines.ndjson"), "--source", "enlist"]);
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let tags = "/v1/main/tags/machine";
        let made =
            stook.call("POST", tags, &json!({ "name": "intel", "xpath": "//node[@class='processor']/vendor = 'Intel Corp.'" })).expect_json(201);
        stook.wait_for_job("main", &json!({ "id": made["job"] }));
        let of = |name: &str| truth().into_iter().find(|(tag, _)| tag == name).unwrap().1;
        let intel = of("intel");
        // the journal says who gained and who lost it
        let machines_with_outcome = |job: &Json, outcome: &str| -> BTreeSet<String> {
            let entries = stook.get(&format!("/v1/main/jobs/{job}/journal?limit=10000")).expect_json(200)["entries"].as_array().unwrap().clone();
            entries.iter().filter(|entry| entry["outcome"] == outcome).map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(
            (machines_with_outcome(&made["job"], "created"), machines_with_outcome(&made["job"], "withdrawn")),
            (intel.clone(), BTreeSet::new())
        );
        let other_xpath = json!({ "xpath": "//node[@class='processor']/vendor != 'Intel Corp.'" });
        let set = stook.call("PATCH", &format!("{tags}/intel"), &other_xpath).expect_json(200);
        stook.wait_for_job("main", &json!({ "id": set["job"] }));
        let other_keys = keys(&sandbox, "machine tag=intel");
        assert_eq!(
            (machines_with_outcome(&set["job"], "created"), machines_with_outcome(&set["job"], "withdrawn")),
            (&other_keys - &intel, &intel - &other_keys)
        );
        let back =
            stook.call("PATCH", &format!("{tags}/intel"), &json!({ "xpath": "//node[@class='processor']/vendor = 'Intel Corp.'" })).expect_json(200);
        stook.wait_for_job("main", &json!({ "id": back["job"] }));
        assert_eq!(stook.get(&format!("{tags}/intel")).expect_json(200)["records"], intel.len());
        assert_eq!(stook.call("POST", tags, &json!({ "name": "intel" })).status, 409);
        let wrong = stook.call("POST", tags, &json!({ "name": "x", "xpath": "//a[b = ]" })).expect_json(422);
        assert!(wrong["detail"].as_str().unwrap().contains("column 9 of the XPath"), "{wrong}");
        let typo = stook.call("POST", tags, &json!({ "name": "typo", "xpath": "//node[@id=network]" })).expect_json(201);
        assert!(typo["advice"][0].as_str().unwrap().contains("did you mean 'network'?"), "{typo}");
        stook
            .call("POST", tags, &json!({ "name": "rack7", "comment": "by the door", "attributes": { "kernel_options": "nomodeset" } }))
            .expect_json(201);
        let mut some = intel.iter();
        let (first, second) = (some.next().unwrap(), some.next().unwrap());
        let given = stook.call("POST", &format!("{tags}/rack7/records"), &json!({ "add": [first, second, "nobody"] })).expect_json(200);
        assert_eq!(given, json!({ "added": 2, "removed": 0, "unknown": ["nobody"] }));
        assert_eq!(stook.call("POST", &format!("{tags}/intel/records"), &json!({ "add": [first] })).status, 422);
        assert_eq!(stook.call("POST", &format!("{tags}/nothing/records"), &json!({})).status, 404);
        let explained = stook.get(&format!("/v1/main/machine/{first}/explain")).expect_json(200);
        assert_eq!(explained["tags"], json!(["intel", "rack7"]));
        // two of them, and no third
        let pick_request = json!({ "query": "machine status=Ready tag=intel tag=rack7", "transition": "acquire" });
        let granted: BTreeSet<String> =
            (0..2).map(|_| stook.call("POST", "/v1/main/pick", &pick_request).expect_json(200)["key"].as_str().unwrap().to_owned()).collect();
        assert_eq!(granted, [first.clone(), second.clone()].into());
        assert_eq!(stook.call("POST", "/v1/main/pick", &pick_request).status, 409);
        assert_eq!(stook.call("POST", &format!("/v1/main/machine/{first}/release"), &json!({})).status, 200);
        assert_eq!(&stook.call("POST", "/v1/main/pick", &pick_request).expect_json(200)["key"], first);
        // changed, deleted
        let set = stook.call("PATCH", &format!("{tags}/intel"), &json!({ "xpath": "//node[@class='nothing']" })).expect_json(200);
        stook.wait_for_job("main", &json!({ "id": set["job"] }));
        assert_eq!(stook.get(&format!("{tags}/intel")).expect_json(200)["records"], 0);
        assert_eq!(stook.call("DELETE", &format!("{tags}/rack7"), &json!({})).status, 204);
        assert_eq!(stook.get(&format!("{tags}/rack7")).status, 404);
        let problem = stook.get("/v1/main/query?q=machine%20tag%3Drack7&total=true").expect_json(400);
        assert!(problem["detail"].as_str().unwrap().starts_with("there is no tag `rack7`"), "{problem}");
        assert_eq!(stook.get("/v1/other/tags/machine").status, 404);
        // one that is made by hand has no documents
        let none = stook.call("POST", tags, &json!({ "name": "unknown", "xpath": "not(//node)" })).expect_json(201);
        stook.wait_for_job("main", &json!({ "id": none["job"] }));
        stook.call("POST", "/v1/main/machine", &json!({ "system_id": "by-hand", "hostname": "h" })).expect_json(201);
        assert_eq!(stook.get("/v1/main/machine/by-hand/explain").expect_json(200)["tags"], json!(["unknown"]));
        // and one that has keeps what its documents say when it is edited
        stook.call("PATCH", &format!("/v1/main/machine/{first}"), &json!({ "hostname": "other" })).expect_json(200);
        assert_eq!(stook.get(&format!("/v1/main/machine/{first}/explain")).expect_json(200)["tags"], json!([]));
    }
}

#[test]
fn a_tag_evaluation_that_was_killed_is_completed_by_tag_rebuild() {
    let sandbox = Sandbox::new(MACHINES);
    let text = std::fs::read_to_string(file("machines.ndjson")).unwrap();
    // four ranges
    let renamed_lines = |round: usize| text.lines().map(|line| line.replace("node-", &format!("r{round}-"))).collect::<Vec<_>>().join("\n");
    for round in 0..6 {
        sandbox.import(&[&sandbox.write_file("more.ndjson", renamed_lines(round)), "--source", "enlist"]);
    }
    let xpath = "//node[@class='processor']/vendor = 'Intel Corp.'";
    let mut killed = 0;
    for round in 0..8 {
        let tag = format!("t{round}");
        let command = sandbox.command(&["tag", "create", &tag, "--xpath", xpath]);
        killed += usize::from(kill_after(command, Duration::from_millis(10 + 25 * round)));
        if sandbox.run(&["tag", "show", &tag]).code != 0 {
            continue;
        }
        let shown = || sandbox.run(&["tag", "show", &tag, "--json"]).exits(0).json();
        sandbox.run(&["import", "--resume", &shown()["evaluation"]["job"].to_string()]);
        let shown = shown();
        if shown["evaluation"]["state"] != "completed" {
            // it was killed before all ranges were written
            sandbox.ok(&["tag", "rebuild", &tag]);
        }
        let expected = 6 * truth().into_iter().find(|(tag, _)| tag == "intel").unwrap().1.len();
        assert_eq!(keys(&sandbox, &format!("machine tag={tag}")).len(), expected, "{shown}");
    }
    assert!(killed > 2, "{killed}");
}

#[test]
fn many_callers_acquire_machines_of_several_servers_while_tags_are_evaluated() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        sandbox.import(&[&file("machines.ndjson"), "--source", "enlist"]);
        sandbox.ok(&["tag", "create", "vmx-or-svm", "--xpath", "//capability/@id = 'vmx' or //capability/@id = 'svm'"]);
        let all = keys(&sandbox, "machine tag=vmx-or-svm");
        let served = [Served::new(&sandbox, &["--workers", "0"]), Served::new(&sandbox, &["--workers", "0"])];
        let pick = json!({ "query": "machine status=Ready tag=vmx-or-svm", "transition": "acquire" });
        let is_over = AtomicBool::new(false);
        let mut granted: Vec<String> = std::thread::scope(|scope| {
            let rebuilding = scope.spawn(|| {
                let mut rounds = 0;
                while !is_over.load(Ordering::SeqCst) {
                    sandbox.ok(&["tag", "rebuild"]);
                    rounds += 1;
                }
                rounds
            });
            let caller = |server| {
                let (served, pick): (&Served, &Json) = (server, &pick);
                scope.spawn(move || {
                    let mut acquired = Vec::new();
                    loop {
                        let reply = served.call("POST", "/v1/main/pick", pick);
                        match reply.status {
                            200 => acquired.push(reply.json()["key"].as_str().unwrap().to_owned()),
                            // all that are left are held for a while
                            503 => {}
                            _ => {
                                assert_eq!(reply.status, 409, "{}", reply.text());
                                return acquired;
                            }
                        }
                    }
                })
            };
            let callers: Vec<_> = (0..6).map(|number| caller(&served[number % 2])).collect();
            let granted = callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
            is_over.store(true, Ordering::SeqCst);
            assert!(rebuilding.join().unwrap() > 0);
            granted
        });
        // each of them to one caller, and nobody was told too early that there is none
        granted.sort();
        assert_eq!(granted, all.into_iter().collect::<Vec<_>>());
    }
}

/// A line of what a machine uploads, a day of January and parts that are texts.
fn document_line(id: &str, day: u32, lshw: &str) -> String {
    json!({ "system_id": id, "hostname": id, "at": format!("2026-01-{day:02}T00:00:00Z"), "lshw": lshw }).to_string() + "\n"
}

/// As `lshw -xml` writes it: the machine is the outermost element, or the only one of a list.
const HARDWARE: &str = "<node id='box' class='system'><vendor>Müller &amp; Söhne</vendor><node id='core' class='bus'>\
    <node id='memory' class='memory'><size units='bytes'>8589934592</size></node><node id='cpu:0' class='processor'/><node id='cpu:1' class='processor'/>\
    </node></node>";

#[test]
fn a_file_of_lshw_is_one_machine_however_it_is_written() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
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
            let job = sandbox.import(&[&sandbox.write_file(&format!("{id}.lshw.xml"), bytes), "--source", "lshw"]);
            assert_eq!((counts(&job), &job["counts"]["documents"]), ("created 1".to_owned(), &json!(1)), "{id}");
            let record = sandbox.get("machine", id);
            assert_eq!(
                (&record["cpu_count"], &record["memory"], &record["vendor"]),
                (&json!(2), &json!(8_192), &json!("Müller & Söhne")),
                "{id}: {record}"
            );
        }
        sandbox.ok(&["tag", "create", "two", "--xpath", "count(//node[@class='processor']) = 2"]);
        assert_eq!(keys(&sandbox, "machine tag=two").len(), 7);
        sandbox.assert_sound();
    }
}

#[test]
fn an_unreadable_part_affects_no_other_part() {
    let deep = |levels: usize| format!("{}<node id='core'><node class='processor'/></node>{}", "<node>".repeat(levels), "</node>".repeat(levels));
    let bad = {
        let mut bytes = document_line("bad", 1, "<node><vendor>Gr?n</vendor></node>").into_bytes();
        let at = bytes.iter().position(|byte| *byte == b'?').unwrap();
        bytes[at] = 0xfc;
        (bytes, at)
    };
    let typed =
        document_line("typed", 1, &format!("<?xml version='1.0' encoding='ISO-8859-1'?><!DOCTYPE list [<!ENTITY e 'x'>]><list>{HARDWARE}</list>"));
    let lines = [
        bad.0.as_slice(),
        typed.as_bytes(),
        document_line("half", 1, "<list/>").replace("<list/>", "\\ud83d").as_bytes(),
        document_line("deep", 1, &deep(4_000)).as_bytes(),
        document_line("too-deep", 1, &deep(4_096)).as_bytes(),
        document_line("last", 1, HARDWARE).as_bytes(),
        format!(
            "{{\"system_id\": \"nested\", \"hostname\": \"n\", \"at\": \"2026-01-01T00:00:00Z\", \"x\": {}{}}}\n",
            "[".repeat(4_000),
            "]".repeat(4_000)
        )
        .as_bytes(),
    ]
    .concat();
    let check = |sandbox: &Sandbox| {
        let record = |id: &str| sandbox.get("machine", id);
        assert_eq!((record("bad")["hostname"].as_str(), record("bad").get("vendor")), (Some("bad"), None));
        assert_eq!((&record("typed")["vendor"], &record("typed")["cpu_count"]), (&json!("Müller & Söhne"), &json!(2)));
        assert_eq!((&record("deep")["cpu_count"], record("too-deep").get("cpu_count"), &record("last")["cpu_count"]), (&json!(1), None, &json!(2)));
        assert_eq!((&record("half")["hostname"], &record("nested")["hostname"]), (&json!("half"), &json!("n")));
    };
    let assert_reasons = |troubles: &[String]| {
        assert_eq!(troubles.len(), 3, "{troubles:?}");
        let parts = [
            format!("lshw: byte {} of the document is not UTF-8; it is left out", bad.1),
            "of the document has unexpected end of hex escape".into(),
            "nested deeper than 4096 levels".into(),
        ];
        assert!(troubles.iter().zip(&parts).all(|(trouble, part)| trouble.contains(part.as_str())), "{troubles:?}");
    };
    for sandbox in Sandbox::on_each_store(MACHINES) {
        let job = sandbox.import(&[&sandbox.write_file("uploads.ndjson", &lines), "--source", "enlist"]);
        assert_eq!((&job["counts"]["created"], &job["counts"]["failed"], &job["counts"]["warnings"]), (&json!(7), &json!(0), &json!(3)), "{job}");
        let reasons = |troubles: Vec<Json>| troubles.iter().map(Json::to_string).collect::<Vec<_>>();
        assert_reasons(&reasons(sandbox.troubles(job["id"].as_u64().unwrap())));
        check(&sandbox);
        sandbox.ok(&["tag", "create", "found", "--xpath", "//node[@class='processor']"]);
        assert_eq!(keys(&sandbox, "machine tag=found"), ["deep", "last", "typed"].map(str::to_owned).into());
        // the same by HTTP, and the pages of such documents are shown
        let other_sandbox = Sandbox::new(MACHINES);
        let stook = Served::new(&other_sandbox, &["--workers", "0"]);
        let delivery = stook.send("POST", "/v1/main/deliver?source=enlist", &[], &lines).expect_json(200);
        assert_eq!(delivery["counts"]["created"], 7, "{delivery}");
        assert_reasons(&reasons(delivery["troubles"].as_array().unwrap().clone()));
        for id in ["bad", "deep", "nested", "typed"] {
            assert_eq!(stook.get(&format!("/t/main/record?collection=machine&key={id}")).status, 200, "{id}");
        }
        stook.terminate();
        check(&other_sandbox);
    }
}

#[test]
fn contributions_older_than_a_deletion_are_superseded_and_tags_count_remaining_records() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let deliver = |text: &str| {
            let delivery = stook.send("POST", "/v1/main/deliver?source=enlist", &[], text.as_bytes()).expect_json(200);
            delivery["records"].as_array().unwrap().iter().map(|record| (record["outcome"].clone(), record["reason"].to_string())).collect::<Vec<_>>()
        };
        let all: String = ["a", "b", "c"].iter().map(|id| document_line(id, 1, HARDWARE)).collect();
        deliver(&all);
        assert_eq!(stook.send("DELETE", "/v1/main/machine/b", &[], b"").status, 204);
        let late = deliver(&document_line("b", 2, HARDWARE));
        assert_eq!(late[0].0, "superseded", "{late:?}");
        assert!(late[0].1.contains("the deletion by `api` counts instead, as of 20"), "{late:?}");
        assert_eq!(stook.get("/v1/main/machine/b").status, 404);
        let wish = json!({ "name": "two", "xpath": "count(//node[@class='processor']) = 2" });
        let seen = stook.call("POST", "/v1/main/tags/machine?preview=true", &wish).expect_json(200);
        assert_eq!((&seen["records"], &seen["matches"], &seen["keys"]), (&json!(2), &json!(2), &json!(["a", "c"])), "{seen}");
        let made = stook.call("POST", "/v1/main/tags/machine", &wish).expect_json(201);
        stook.wait_for_job("main", &json!({ "id": made["job"] }));
        let shown = stook.get("/v1/main/tags/machine/two").expect_json(200);
        let evaluated = &shown["evaluation"];
        assert_eq!(
            (&evaluated["records"], &evaluated["of"], &evaluated["added"], &shown["records"]),
            (&json!(2), &json!(2), &json!(2), &json!(2)),
            "{shown}"
        );
        // what comes back carries what its documents say
        stook.call("POST", "/v1/main/machine", &json!({ "system_id": "b", "hostname": "again" })).expect_json(201);
        assert_eq!(stook.get("/v1/main/machine/b/explain").expect_json(200)["tags"], json!(["two"]));
        stook.terminate();
        sandbox.assert_sound();
    }
}

#[test]
fn a_tag_that_does_not_exist_is_named_with_the_one_that_may_be_meant() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        sandbox.import(&[&sandbox.write_file("m.ndjson", document_line("a", 1, HARDWARE)), "--source", "enlist"]);
        sandbox.run(&["query", "machine tag=two"]).exits(1).stderr_contains(&["there is no tag `two`", "machine has no tags yet"]);
        sandbox.ok(&["tag", "create", "graphics-fast", "--xpath", "//node"]);
        sandbox.ok(&["tag", "create", "many", "--query", "cpu_count>=2"]);
        for text in
            ["machine tag=grapics-fast", "machine tag!=grapics-fast", "machine tag in [many, grapics-fast]", "machine | grep key, tag=grapics-fast"]
        {
            sandbox.run(&["query", text]).exits(1).stderr_contains(&["there is no tag `grapics-fast`", "did you mean `graphics-fast`?"]);
        }
        sandbox.run(&["query", "machine tag=nothing"]).exits(1).stderr_contains(&["tags of machine are graphics-fast, many"]);
        assert_eq!(keys(&sandbox, "machine tag=graphics* tag=many").len(), 1);
        sandbox.run(&["tag", "create", "wrong", "--query", "tag=nothing"]).exits(1).stderr_contains(&["there is no tag `nothing`"]);
        // those of one file may be defined by each other in any order
        let file = sandbox
            .write_file("tags.ndjson", "{\"name\": \"first\", \"query\": \"tag=second\"}\n{\"name\": \"second\", \"query\": \"cpu_count=2\"}\n");
        sandbox.ok(&["tag", "create", "--file", &file]);
        assert_eq!(keys(&sandbox, "machine tag=first").len(), 1);
        sandbox.ok(&["tag", "delete", "second"]);
        sandbox.run(&["query", "machine tag=first"]).exits(1).stderr_contains(&["there is no tag `second`, by which a tag is defined"]);
        for command in
            [&["show", "grapics-fast"][..], &["delete", "grapics-fast"], &["set", "grapics-fast", "--comment", "x"], &["add", "grapics-fast", "a"]]
        {
            let refusal = sandbox.run(&[&["tag"], command].concat());
            refusal.exits(1).stderr_contains(&["there is no tag `grapics-fast`; did you mean `graphics-fast`?"]);
        }
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let unknown = stook.get("/v1/main/tags/machine/grapics-fast").expect_json(404);
        assert_eq!(unknown["detail"], "there is no tag `grapics-fast`; did you mean `graphics-fast`?");
        let refused = stook.get("/v1/main/query?q=machine%20tag%3Dgrapics-fast").expect_json(400);
        assert_eq!(refused["detail"], "there is no tag `grapics-fast`; did you mean `graphics-fast`?");
        assert_eq!((&refused["at"], &refused["until"]), (&json!(12), &json!(24)));
        let page = stook.get("/t/main/search?q=machine%20tag%3Dgrapics-fast").text();
        assert!(page.contains("graphics-fast"), "{page}");
    }
}

#[test]
fn an_edit_that_is_sent_again_by_its_key_is_done_once() {
    for sandbox in Sandbox::on_each_store(MACHINES) {
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let send = |method: &str, path: &str, key: &str, body: &str| {
            let mut headers = vec![("idempotency-key", key)];
            headers.extend((!body.is_empty()).then_some(("content-type", "application/json")));
            let reply = stook.send(method, &format!("/v1/main/machine{path}"), &headers, body.as_bytes());
            let (etag, location) = (reply.header("etag").map(str::to_owned), reply.header("location").map(str::to_owned));
            (reply.status, etag, location, reply.text())
        };
        let (first_body, other_body) = (r#"{"system_id": "a", "hostname": "one"}"#, r#"{"system_id": "a", "hostname": "two"}"#);
        let created = send("POST", "", "k1", first_body);
        assert_eq!((created.0, created.2.as_deref()), (201, Some("/v1/main/machine/a")));
        assert_eq!(created.1.as_deref(), stook.get("/v1/main/machine/a").header("etag"));
        let changed = send("PATCH", "/a", "k2", r#"{"hostname": "three"}"#);
        assert_eq!((changed.0, stook.get("/v1/main/machine/a").expect_json(200)["hostname"].clone()), (200, json!("three")));
        // each answer is the first one, whatever has become of the record
        assert_eq!((send("POST", "", "k1", first_body), send("PATCH", "/a", "k2", r#"{"hostname": "three"}"#)), (created.clone(), changed));
        assert_eq!(send("POST", "", "k1", other_body).0, 422);
        assert_eq!(send("POST", "", "k3", first_body).0, 409, "a refusal is not kept");
        let put = send("PUT", "/b", "k1", r#"{"system_id": "b"}"#);
        assert_eq!((put.0, send("PUT", "/b", "k1", r#"{"system_id": "b"}"#)), (201, put.clone()), "the same key for another call");
        let deleted = send("DELETE", "/a", "k4", "");
        assert_eq!((deleted.0, send("DELETE", "/a", "k4", "").0, send("DELETE", "/a", "k5", "").0), (204, 204, 404));
        assert_eq!((send("POST", "", "k1", first_body), stook.get("/v1/main/machine/a").status), (created, 404), "it was not made again");
        assert_eq!(send("POST", "", "k3", first_body).0, 201, "what was refused may be tried again");
        stook.terminate();
        sandbox.assert_sound();
    }
}
