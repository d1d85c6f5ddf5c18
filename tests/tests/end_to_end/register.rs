//! The register's routes that write, end to end on both stores: what is stored, what is refused, and what several requests at once leave.

use serde_json::{Value as Json, json};
use std::time::Duration;
use stook_tests::http::{Client, Reply, Served};
use stook_tests::{Dice, Sandbox, repository};

const BASE: &str = "/party-api/v1";
const ANN: &str = "b3f0a2c4-0d5e-4f60-8a71-92b3c4d5e6f7";
const BEN: &str = "c4f0a2c4-0d5e-4f60-8a71-92b3c4d5e6f8";
const SURVEY: &str = "cb0711c3-0ac8-41d3-ae0e-567e5ea1ef87";
const OTHER_SURVEY: &str = "75b19ea0-69a4-4c58-8d7f-4458c8f43f5c";

fn definition() -> String {
    std::fs::read_to_string(repository().join("examples/businesses/catalogue.yaml")).unwrap()
}

fn business(reference: &str, sample: &str) -> Json {
    json!({
        "sampleUnitRef": reference, "sampleUnitType": "B", "sampleSummaryId": sample, "region": "UK",
        "runame1": "Kestrel ", "runame2": "", "runame3": "Foundry", "tradstyle1": "The  Forge", "tradstyle2": "", "tradstyle3": "",
    })
}

/// A register with two people, and one business that is active.
struct Register {
    stook: Served,
    /// The business's id.
    id: String,
}

impl Register {
    fn new(sandbox: &Sandbox) -> Self {
        let stook = Served::new(sandbox, &["--workers", "0"]);
        for (id, email, name) in [(ANN, "Ann@example.com", "Ann"), (BEN, "ben@example.com", "Ben")] {
            let person = json!({"email": email, "first_name": name, "last_name": "Lund", "telephone": "1", "first_status": "ACTIVE"});
            assert!(stook.call("PUT", &format!("/v1/main/respondent/{id}"), &person).status < 300);
        }
        let id =
            stook.call("POST", &format!("{BASE}/businesses"), &business("49900000001", "s-1")).expect_json(200)["id"].as_str().unwrap().to_owned();
        stook.call("PUT", &format!("{BASE}/businesses/sample/link/s-1"), &json!({"collectionExerciseId": "e-1"})).expect_json(200);
        Self { stook, id }
    }

    fn get(&self, path: &str) -> Reply {
        self.stook.get(&format!("{BASE}{path}"))
    }

    fn call(&self, method: &str, path: &str, body: &Json) -> Reply {
        self.stook.call(method, &format!("{BASE}{path}"), body)
    }

    fn enrol(&self, person: &str, survey: &str, status: &str) {
        let pair = json!({"business_id": self.id, "respondent_id": person});
        let key = format!("{}%2F{person}", self.id);
        assert!(self.stook.call("PUT", &format!("/v1/main/business_respondent/{key}"), &pair).status < 300);
        let enrolment = json!({"business_id": self.id, "respondent_id": person, "survey_id": survey, "status": status});
        assert!(self.stook.call("PUT", &format!("/v1/main/enrolment/{key}%2F{survey}"), &enrolment).status < 300);
    }

    fn offer(&self, kind: &str, email: &str, survey: &str) -> Json {
        json!({ kind: [{"email_address": email, "survey_id": survey, "business_id": self.id, "shared_by": ANN}] })
    }

    /// The batch of what Ann has offered.
    fn batch(&self) -> String {
        self.get(&format!("/pending-surveys/originator/{ANN}")).expect_json(200)[0]["batch_no"].as_str().unwrap().to_owned()
    }

    fn count(&self, query: &str) -> u64 {
        self.stook.get(&format!("/v1/main/query?q={query}%20|%20count(key)")).expect_json(200)["rows"][0]
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .as_u64()
            .unwrap()
    }
}

#[test]
fn a_business_is_written_linked_described_and_removed() {
    for sandbox in Sandbox::on_each_store(&definition()) {
        let register = Register::new(&sandbox);
        let id = register.id.clone();
        let shown = register.get(&format!("/businesses/id/{id}")).expect_json(200);
        assert_eq!(shown["name"], "Kestrel Foundry", "{shown}");
        assert_eq!((&shown["trading_as"], &shown["associations"], shown.as_object().unwrap().len()), (&json!("The Forge"), &json!([]), 7));
        // the same sample again is the same version, another one is not active before it is linked
        register.call("POST", "/businesses", &business("49900000001", "s-1")).expect_json(200);
        let again = register.call("POST", "/businesses", &business("49900000001", "s-2")).expect_json(200);
        assert_eq!((&again["id"], &again["sampleSummaryId"], &again["attributes"]["region"]), (&json!(id), &json!("s-2"), &json!("UK")));
        assert_eq!((register.count("business"), register.count("version")), (1, 2));
        assert_eq!(register.get(&format!("/businesses/id/{id}")).expect_json(200)["sampleSummaryId"], "s-1");
        register.call("PUT", "/businesses/sample/link/s-2", &json!({"collectionExerciseId": "e-2"})).expect_json(200);
        assert_eq!(register.get("/businesses/ref/49900000001").expect_json(200)["sampleSummaryId"], "s-2");
        let asked = |query: &str| register.get(&format!("/businesses/id/{id}?{query}")).expect_json(200);
        assert_eq!(asked("collection_exercise_id=e-1")["sampleSummaryId"], "s-1");
        assert_eq!(asked("collection_exercise_id=nothing")["sampleSummaryId"], "s-2", "the newest, as its callers expect");
        assert_eq!(asked("verbose=true")["runame3"], "Foundry");
        let by_exercise = register.get(&format!("/businesses/id/{id}/attributes")).expect_json(200);
        assert_eq!(by_exercise.as_object().unwrap().keys().collect::<Vec<_>>(), ["e-1", "e-2"]);
        assert_eq!(by_exercise["e-1"]["business_id"], json!(id));
        let details = register.call("POST", "/businesses/latest-business-details", &json!({"party_uuids": [id]})).expect_json(200);
        let none = register.call("POST", "/businesses/latest-business-details", &json!({})).expect_json(400);
        assert_eq!(none, json!({"description": "A list of party_uuids should be supplied"}));
        assert_eq!(details, json!([{"id": id, "sampleUnitRef": "49900000001", "name": "Kestrel Foundry"}]));
        // what a route writes is a contribution like any other
        let explained = register.stook.get("/v1/main/business/49900000001/explain").expect_json(200);
        assert!(explained.to_string().contains("\"api\""), "{explained}");
        sandbox.import(&[&sandbox.write_file("later.json", business("49900000001", "s-3").to_string()), "--source", "sample"]);
        assert_eq!(register.count("version"), 3);
        // parties are the same businesses
        let party = json!({"sampleUnitRef": "49900000001", "sampleUnitType": "B", "sampleSummaryId": "s-2", "attributes": {"runame1": "a", "runame2": "b", "runame3": "c"}});
        assert_eq!(register.call("POST", "/parties", &party).expect_json(409)["description"], "party already exists for sample");
        assert_eq!(register.call("PATCH", "/parties", &party).expect_json(200)["name"], "a b c");
        assert_eq!(register.get(&format!("/parties/type/B/id/{id}")).expect_json(200)["name"], "a b c");
        assert_eq!(register.get(&format!("/parties/type/XX/id/{id}")).status, 400);
        // removed, with its link
        let sample = "0c1d2e3f-0000-4000-8000-000000000001";
        register.call("POST", "/businesses", &business("49900000002", sample)).expect_json(200);
        assert_eq!(register.stook.send("DELETE", &format!("{BASE}/businesses/attributes/sample-summary/{sample}"), &[], b"").status, 204);
        assert_eq!(register.stook.send("DELETE", &format!("{BASE}/businesses/attributes/sample-summary/{sample}"), &[], b"").status, 204);
        assert_eq!(register.stook.send("DELETE", &format!("{BASE}/businesses/attributes/sample-summary/x"), &[], b"").status, 400);
        assert_eq!(register.get("/businesses/ref/49900000002").status, 400);
        sandbox.assert_sound();
    }
}

#[test]
fn wrong_requests_are_answered_in_the_registers_own_words() {
    for sandbox in Sandbox::on_each_store(&definition()) {
        let register = Register::new(&sandbox);
        let errors = register.call("POST", "/businesses", &json!({"bad": "schema"})).expect_json(400)["description"].clone();
        assert!(errors.as_array().unwrap().iter().any(|error| error.as_str().unwrap().contains("sampleUnitRef")), "{errors}");
        assert_eq!(register.call("POST", "/businesses", &Json::Null).status, 400);
        let described = |path: &str, body: Json, status: u16| register.call("POST", path, &body).expect_json(status)["description"].clone();
        assert_eq!(described("/pending-surveys", json!({}), 400), "Payload Invalid - Pending survey key missing");
        assert_eq!(described("/pending-surveys", json!({"pending_shares": []}), 400), "Payload Invalid - pending_surveys list is empty");
        let mut incomplete = register.offer("pending_shares", "x@example.com", SURVEY);
        incomplete["pending_shares"][0].as_object_mut().unwrap().remove("email_address");
        assert_eq!(described("/pending-surveys", incomplete, 400), json!(["Required key 'email_address' is missing."]));
        assert_eq!(
            register.call("PUT", "/businesses/sample/link/s-9", &json!({})).expect_json(400)["description"],
            json!(["Required key 'collectionExerciseId' is missing."])
        );
        // a body that is no object is none, whatever it lacks
        for (method, path) in [("PUT", "/businesses/sample/link/s-9"), ("GET", "/respondents/email")] {
            let nothing = register.stook.send(method, &format!("{BASE}{path}"), &[("content-type", "application/json")], b"null").expect_json(400);
            assert_eq!(nothing["description"], "send a JSON object, this is null");
        }
        // plain text where its callers expect it
        let text = |path: &str, status: u16| {
            let reply = register.get(path);
            assert_eq!((reply.status, reply.header("content-type")), (status, Some("text/plain; charset=utf-8")), "{path}");
            reply.text()
        };
        assert_eq!(text("/respondents/party_id/x", 400), "party_id is not UUID");
        assert_eq!(text(&format!("/respondents/party_id/{SURVEY}"), 404), format!("respondent not found for party_id {SURVEY}"));
        let claim = |survey: &str| text(&format!("/respondents/claim?respondent_id={ANN}&business_id={}&survey_id={survey}", register.id), 200);
        register.enrol(ANN, SURVEY, "DISABLED");
        assert_eq!((claim(SURVEY), claim(OTHER_SURVEY)), ("Valid".into(), "Invalid".into()));
        // any JSON by its name; unknown parameters do not matter; a page of another origin may call
        let vendor = [("content-type", "application/vnd.ons.business+json")];
        let posted = register.stook.send("POST", &format!("{BASE}/businesses?x=1"), &vendor, business("49900000003", "s-1").to_string().as_bytes());
        assert_eq!(posted.status, 200);
        let form = [("content-type", "application/x-www-form-urlencoded")];
        assert_eq!(register.stook.send("POST", &format!("{BASE}/businesses"), &form, b"a=b").status, 415);
        let preflight = [("origin", "https://example.org"), ("access-control-request-method", "PUT")];
        let allowed = register.stook.send("OPTIONS", &format!("{BASE}/businesses/sample/link/s-1"), &preflight, b"");
        assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (200, Some("*")));
        // a body of GET, and case
        let by_email = register.stook.send(
            "GET",
            &format!("{BASE}/respondents/email"),
            &[("content-type", "application/json")],
            br#"{"email": "ANN@EXAMPLE.COM"}"#,
        );
        assert_eq!(by_email.expect_json(200)["id"], ANN);
        // /info needs no token, everything else does
        let token = sandbox.ok(&["token", "create", "--role", "read", "--tenant", "main"]).trim().to_owned();
        std::thread::sleep(Duration::from_secs(6));
        assert_eq!(register.stook.client(None).get("/info").expect_json(200)["name"], "ras-party");
        assert_eq!(register.stook.client(None).get(&format!("{BASE}/businesses/search")).status, 401);
        let reader = register.stook.client(Some(&token));
        assert_eq!(reader.call("PUT", &format!("{BASE}/businesses/sample/link/s-1"), &json!({"collectionExerciseId": "e"})).status, 403);
        assert_eq!(reader.get(&format!("{BASE}/businesses/ref/49900000001")).status, 200);
    }
}

#[test]
fn enrolments_that_waited_for_an_account_are_enabled_when_it_becomes_active() {
    for sandbox in Sandbox::on_each_store(&definition()) {
        let register = Register::new(&sandbox);
        register.enrol(ANN, SURVEY, "PENDING");
        register.enrol(ANN, OTHER_SURVEY, "DISABLED");
        register.enrol(BEN, SURVEY, "PENDING");
        let path = format!("/respondents/edit-account-status/{ANN}");
        let statuses = || ["PENDING", "ENABLED", "DISABLED"].map(|status| register.count(&format!("enrolment%20status={status}")));
        register.call("PUT", &path, &json!({"status_change": "SUSPENDED", "email_address": "ann@example.com"})).expect_json(200);
        assert_eq!(statuses(), [2, 0, 1]);
        register.call("PUT", &path, &json!({"status_change": "ACTIVE", "email_address": "ann@example.com"})).expect_json(200);
        assert_eq!(statuses(), [1, 1, 1]);
    }
}

#[test]
fn offers_are_accepted_and_transfers_give_up_what_the_originator_had() {
    for sandbox in Sandbox::on_each_store(&definition()) {
        let register = Register::new(&sandbox);
        register.enrol(ANN, SURVEY, "ENABLED");
        register.enrol(ANN, OTHER_SURVEY, "ENABLED");
        let users = |transfer: &str| {
            register
                .get(&format!("/pending-survey-users-count?business_id={}&survey_id={SURVEY}&is_transfer={transfer}", register.id))
                .expect_json(200)
        };
        register.call("POST", "/pending-surveys", &register.offer("pending_transfers", "BEN@example.com", SURVEY)).expect_json(201);
        assert_eq!((users("False"), users("True")), (json!(1), json!(2)));
        let again = register.call("POST", "/pending-surveys", &register.offer("pending_shares", "BEN@example.com", SURVEY)).expect_json(400);
        assert_eq!(again["description"], "This pending survey is already in progress");
        let batch = register.batch();
        assert_eq!(register.get(&format!("/pending-surveys/{batch}")).expect_json(200)[0]["is_transfer"], true);
        register.call("POST", &format!("/pending-survey/confirm-pending-surveys/{batch}"), &json!({})).expect_json(201);
        assert_eq!(register.call("POST", &format!("/pending-survey/confirm-pending-surveys/{batch}"), &json!({})).status, 404);
        let enrolments = |person: &str| {
            let shown = register.get(&format!("/respondents/id/{person}")).expect_json(200);
            shown["associations"]
                .as_array()
                .into_iter()
                .flatten()
                .flat_map(|one| one["enrolments"].as_array().unwrap().clone())
                .collect::<Vec<Json>>()
        };
        assert_eq!(enrolments(BEN), [json!({"surveyId": SURVEY, "enrolmentStatus": "ENABLED"})]);
        assert_eq!(enrolments(ANN), [json!({"surveyId": OTHER_SURVEY, "enrolmentStatus": "ENABLED"})], "one survey of the business is left");
        register.call("POST", "/pending-surveys", &register.offer("pending_transfers", "ben@example.com", OTHER_SURVEY)).expect_json(201);
        register.call("POST", &format!("/pending-survey/confirm-pending-surveys/{}", register.batch()), &json!({})).expect_json(201);
        assert_eq!((enrolments(ANN).len(), enrolments(BEN).len(), register.count("business_respondent")), (0, 2, 1));
        // all of a person's enrolments are disabled, and the person is deleted when the clock says so
        let disabled = register.call("PATCH", "/respondents/disable-user-enrolments", &json!({"email": "Ben@Example.com"})).expect_json(200);
        assert_eq!(disabled["message"], "2 enrolments removed");
        assert!(enrolments(BEN).iter().all(|enrolment| enrolment["enrolmentStatus"] == "DISABLED"));
        let of = register.stook.send(
            "GET",
            &format!("{BASE}/enrolments/respondent/{BEN}"),
            &[("content-type", "application/json")],
            br#"{"status": "DISABLED"}"#,
        );
        assert_eq!(of.expect_json(200)[0]["survey_details"].as_array().unwrap().len(), 2);
        let marked = register.stook.send("DELETE", &format!("{BASE}/respondents/ben@example.com"), &[], b"");
        assert_eq!((marked.status, marked.text().as_str()), (202, "respondent successfully marked for deletion"));
        assert_eq!(register.stook.send("DELETE", &format!("{BASE}/batch/respondents"), &[], b"").status, 204);
        assert_eq!((register.get(&format!("/respondents/id/{BEN}")).status, register.count("enrolment")), (404, 0));
        assert_eq!(register.get(&format!("/respondents/id/{ANN}")).status, 200);
        sandbox.assert_sound();
    }
}

/// Sends the same request from several clients at once; returns the statuses in order.
fn at_once(client: &Client, number: usize, send: impl Fn(&Client, usize) -> u16 + Sync) -> Vec<u16> {
    let mut statuses: Vec<u16> = std::thread::scope(|scope| {
        let send = &send;
        let threads: Vec<_> = (0..number).map(|index| scope.spawn(move || send(client, index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    statuses
}

#[test]
fn of_several_requests_at_once_each_decides_on_what_the_others_wrote() {
    for sandbox in Sandbox::on_each_store(&definition()) {
        let register = Register::new(&sandbox);
        register.enrol(ANN, SURVEY, "ENABLED");
        let client = register.stook.client(None);
        for _ in 0..5 {
            // one offer is made, and accepted once
            let offer = register.offer("pending_shares", "ben@example.com", SURVEY);
            let made = at_once(&client, 6, |client, _| client.call("POST", &format!("{BASE}/pending-surveys"), &offer).status);
            assert_eq!(made, [201, 400, 400, 400, 400, 400]);
            let batch = register.batch();
            let confirm = format!("{BASE}/pending-survey/confirm-pending-surveys/{batch}");
            let confirmed = at_once(&client, 6, |client, _| client.call("POST", &confirm, &json!({})).status);
            assert_eq!(confirmed, [201, 404, 404, 404, 404, 404]);
            assert_eq!((register.count("enrolment"), register.count("pending_survey")), (2, 0));
        }
        // one address goes to one person, however it is written
        let spellings = ["new@example.com", "NEW@example.com"];
        let created = at_once(&client, 6, |client, index| {
            let person = json!({"id": format!("b3f0a2c4-0d5e-4f60-8a71-00000000000{index}"), "email": spellings[index % 2], "first_name": "x"});
            client.call("POST", "/v1/main/respondent", &person).status
        });
        assert_eq!(created, [201, 409, 409, 409, 409, 409]);
        // a business that many describe at once is one
        let described = at_once(&client, 6, |client, index| {
            client.call("POST", &format!("{BASE}/businesses"), &business("49900000077", &format!("s-{index}"))).status
        });
        assert_eq!(described, [200; 6]);
        assert_eq!((register.count("business%20ref=49900000077"), register.count("version%20ref=49900000077")), (1, 6));
        sandbox.assert_sound();
    }
}

#[test]
fn a_repeated_request_is_done_once() {
    for sandbox in Sandbox::on_each_store(&definition()) {
        let register = Register::new(&sandbox);
        let key = [("content-type", "application/json"), ("idempotency-key", "k-1")];
        let offer = register.offer("pending_shares", "ben@example.com", SURVEY).to_string();
        let path = format!("{BASE}/pending-surveys");
        let first = register.stook.send("POST", &path, &key, offer.as_bytes());
        let batch = register.batch();
        let second = register.stook.send("POST", &path, &key, offer.as_bytes());
        assert_eq!((first.status, second.status, &first.body), (201, 201, &second.body));
        assert_eq!((register.batch(), register.count("pending_survey")), (batch.clone(), 1));
        let other = register.offer("pending_shares", "eve@example.com", SURVEY).to_string();
        assert_eq!(register.stook.send("POST", &path, &key, other.as_bytes()).status, 422, "the key was used for another request");
        // also one that would be refused now
        let confirm = format!("{BASE}/pending-survey/confirm-pending-surveys/{batch}");
        let key = [("idempotency-key", "k-2")];
        let statuses = (0..3).map(|_| register.stook.send("POST", &confirm, &key, b"").status).collect::<Vec<_>>();
        assert_eq!(statuses, [201, 201, 201]);
        assert_eq!(register.stook.send("POST", &confirm, &[], b"").status, 404);
        let by_several = at_once(&register.stook.client(None), 6, |client, _| {
            let key = [("content-type", "application/json"), ("idempotency-key", "k-3")];
            client.send("POST", &path, &key, other.as_bytes()).status
        });
        assert_eq!(by_several, [201; 6]);
        assert_eq!(register.count("pending_survey"), 1);
    }
}

#[test]
fn a_request_is_written_completely_or_not_at_all_when_the_server_is_killed() {
    let mut dice = Dice::new(5);
    for sandbox in Sandbox::on_each_store(&definition()) {
        for round in 0..4 {
            let register = Register::new(&sandbox);
            let client = register.stook.client(None);
            let (id, path) = (register.id.clone(), format!("{BASE}/pending-surveys"));
            let (pid, wait) = (register.stook.pid(), Duration::from_millis(30 + dice.below(150)));
            let sender = std::thread::spawn(move || {
                (0..).map_while(|number: u32| {
                    let one = |part: u32| json!({"email_address": format!("p{round}-{number}-{part}@example.com"), "survey_id": SURVEY, "business_id": id, "shared_by": ANN});
                    let offer = json!({"pending_shares": (0..20).map(one).collect::<Vec<_>>()}).to_string();
                    let sent = client.try_send("POST", &path, &[("content-type", "application/json")], offer.as_bytes());
                    sent.ok().filter(|reply| reply.status == 201)
                })
                .count() as u64
            });
            std::thread::sleep(wait);
            let _ = std::process::Command::new("kill").arg("-KILL").arg(pid.to_string()).status();
            let answered = sender.join().unwrap();
            drop(register);
            let register = Register::new(&sandbox);
            let stored = register.count(&format!("pending_survey%20email_address=p{round}-*"));
            assert!(
                stored.is_multiple_of(20) && stored / 20 >= answered && stored / 20 <= answered + 1,
                "{stored} records of {answered} answered requests"
            );
        }
        sandbox.assert_sound();
    }
}
