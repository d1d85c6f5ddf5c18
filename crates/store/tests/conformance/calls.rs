//! What a server needs: idempotent calls, change logs, tokens, versions, commit numbers.

use super::support::*;
use std::sync::{Arc, Mutex};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::access::{NewToken, Role};
use stook_store::*;

const ITEMS: &str = "catalogue: c\ncollections:\n  item:\n    key: code\n    fields: { code: text, title: text }\n    state: { status: text }\n";

pub fn a_call_is_done_once_and_answered_as_before(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    let write = |title: &str| desk.work().write(put(CollectionId::from(0), "a", None, desk.content(&[("code", text("a")), ("title", text(title))])));
    let (_, told) = write("first").call(1, 7, b"done").commit(&*desk.store);
    assert_eq!(told.repeated, None);
    let (receipt, told) = write("second").call(1, 7, b"done again").commit(&*desk.store);
    assert_eq!((receipt.expect("answered").rows, told.repeated), (0, Some((true, b"done".to_vec()))));
    assert_eq!(desk.value("a", "title"), text("first"));
    let desk = desk.reopen(place);
    let (_, told) = desk.work().call(1, 7, b"x").commit(&*desk.store);
    assert_eq!(told.repeated, Some((true, b"done".to_vec())));
}

pub fn a_call_with_another_request_is_told_so(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    desk.work().call(1, 7, b"done").done(&*desk.store);
    let (_, told) = desk.work().write(desk.write_of("a", &[("code", text("a"))])).call(1, 8, b"no").commit(&*desk.store);
    assert_eq!(told.repeated, Some((false, b"done".to_vec())));
    assert_eq!(desk.record("a"), None);
}

pub fn a_call_without_an_answer_may_be_tried_again(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    desk.work().call(1, 7, b"").done(&*desk.store);
    let (_, told) = desk.work().call(1, 7, b"now").commit(&*desk.store);
    assert_eq!(told.repeated, None);
}

pub fn calls_of_two_tenants_are_two_calls(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    desk.work().call(1, 7, b"done").done(&*desk.store);
    let (_, told) = Work::of(&tenant("other")).call(1, 7, b"theirs").commit(&*desk.store);
    assert_eq!(told.repeated, None);
}

pub fn of_equal_calls_at_once_one_is_done(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    for round in 0..10 {
        let name = format!("r{round}");
        let repeated: Vec<bool> = std::thread::scope(|scope| {
            let call = |index: u8| {
                let write = put(CollectionId::from(0), &name, None, desk.content(&[("code", text(&name)), ("title", text(&index.to_string()))]));
                let work = desk.work().write(write).log(&name, "made").call(round, 1, &[b'0' + index]);
                let (result, told) = work.resolve(|_| Ok(Vec::new())).commit(&*desk.store);
                result.expect("answered");
                told.repeated.is_some()
            };
            let threads: Vec<_> = (0..6).map(|index| scope.spawn(move || call(index))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(repeated.iter().filter(|repeated| !**repeated).count(), 1, "{repeated:?}");
        assert_eq!(desk.store.log(&desk.tenant, CollectionId::from(0), &key(&name), None, 10).expect("a log").len(), 1);
    }
}

pub fn whoever_waits_for_a_held_record_keeps_nobody_else_waiting(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    desk.put("a", &[("code", text("a"))]);
    desk.put("b", &[("code", text("b"))]);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (arrive, arrived) = std::sync::mpsc::channel();
    // it locks the record while it computes
    let holding = desk.work().write(touch(CollectionId::from(0), "a", None, b"")).resolve(move |_| {
        let _ = arrive.send(());
        let _ = released.recv();
        Ok(Vec::new())
    });
    let other = Desk::open(place, ITEMS);
    let holding = other.store.submit(Box::new(holding), Priority::Interactive);
    arrived.recv().expect("it is at work");
    let hurry = |name: &str| -> PendingCommit {
        desk.store.submit(Box::new(desk.work().write(desk.write_of(name, &[("code", text(name))])).without_waiting()), Priority::Interactive)
    };
    let patient =
        || desk.store.submit(Box::new(desk.work().write(touch(CollectionId::from(0), "a", desk.version("a"), b"patient"))), Priority::Interactive);
    let first = (!desk.store.is_near()).then(patient);
    let (held, free) = (hurry("a"), hurry("b"));
    if desk.store.is_near() {
        // units come one after the other
        drop(release);
        assert!(matches!(held.wait(), Err(StoreError::Held) | Ok(_)));
        free.wait().expect("nobody held it");
    } else {
        assert!(matches!(held.wait(), Err(StoreError::Held)));
        free.wait().expect("nobody held it");
        drop(release);
    }
    holding.wait().expect("it goes on");
    first.map_or_else(|| Ok(CommitReceipt::default()), PendingCommit::wait).expect("then it is its turn");
    let (result, _) = desk.work().write(desk.write_of("a", &[("code", text("a"))])).without_waiting().commit(&*desk.store);
    result.expect("nobody holds it now");
}

pub fn what_transitions_did_is_listed_newest_first(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    for name in ["out", "in", "lost"] {
        desk.work().log("a", name).log("b", name).done(&*desk.store);
    }
    let names = |entries: &[ChangeLogEntry]| entries.iter().map(|entry| entry.transition.clone().unwrap_or_default()).collect::<Vec<_>>();
    let all = desk.store.log(&desk.tenant, CollectionId::from(0), &key("a"), None, 10).expect("a log");
    assert_eq!(names(&all), ["lost", "in", "out"]);
    assert!(all[0].at > all[1].at && all[0].caller == "ann" && all[0].change["after"]["status"] == "lost");
    let older = desk.store.log(&desk.tenant, CollectionId::from(0), &key("a"), Some(all[0].id), 1).expect("a log");
    assert_eq!(names(&older), ["in"]);
    assert_eq!(desk.store.log(&tenant("other"), CollectionId::from(0), &key("a"), None, 10).expect("a log"), []);
}

pub fn a_unit_that_fails_logs_nothing(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    desk.put("a", &[("code", text("a"))]);
    let failing = desk.work().write(put(CollectionId::from(0), "a", None, desk.content(&[]))).log("a", "out").call(1, 1, b"yes");
    failing.commit(&*desk.store).0.expect_err("the conflict is not resolved");
    assert_eq!(desk.store.log(&desk.tenant, CollectionId::from(0), &key("a"), None, 10).expect("a log"), []);
    assert_eq!(desk.work().call(1, 1, b"yes").commit(&*desk.store).1.repeated, None);
}

pub fn tokens_are_listed_until_they_are_revoked(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    let token = |byte: u8, tenant: Option<Tenant>, role| NewToken { digest: [byte; 32], tenant, role, name: format!("t{byte}") };
    let (all, one) = (token(1, None, Role::Admin), token(2, Some(tenant("acme")), Role::Read));
    assert!(!desk.store.has_had_tokens().expect("asked"));
    let first = desk.store.create_token(all.clone()).expect("written");
    let second = desk.store.create_token(one.clone()).expect("written");
    let listed: Vec<(u64, NewToken)> = desk.store.tokens().expect("listed").into_iter().map(|token| (token.id, token.token)).collect();
    assert_eq!(listed, [(first, all), (second, one.clone())]);
    assert!(desk.store.revoke_token(first).expect("revoked"));
    assert!(!desk.store.revoke_token(first).expect("asked"), "it is revoked already");
    let desk = desk.reopen(place);
    assert_eq!(desk.store.tokens().expect("listed").into_iter().map(|token| token.token).collect::<Vec<_>>(), [one]);
    assert!(desk.store.revoke_token(second).expect("revoked"));
    assert!(desk.store.tokens().expect("listed").is_empty() && desk.store.has_had_tokens().expect("asked"));
}

pub fn versions_are_those_that_reading_gives(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    desk.put("a", &[("code", text("a"))]);
    desk.work().write(touch(CollectionId::from(0), "a", desk.version("a"), b"again")).done(&*desk.store);
    desk.put("b", &[("code", text("b"))]);
    let keys: Vec<Key> = ["b", "missing", "a", "b"].map(key).to_vec();
    let versions = desk.store.versions(&desk.tenant, CollectionId::from(0), &keys).expect("versions");
    assert_eq!(versions, ["b", "missing", "a", "b"].map(|name| desk.version(name)));
    assert_eq!(versions[2].map(|version| version.touches), Some(1));
    assert_eq!(desk.store.versions(&tenant("other"), CollectionId::from(0), &keys).expect("versions"), vec![None; 4]);
}

/// The commit number before, the commit number, and the keys that were reported.
pub type Told = (i64, i64, Option<Vec<String>>);

/// The commits that were reported.
#[derive(Default)]
pub struct Heard(pub Mutex<Vec<Told>>);

impl CommitObserver for Heard {
    fn committing(&self, before: i64, stand: i64) {
        self.0.lock().expect("not poisoned").push((before, stand, None));
    }

    fn committed(&self, stand: i64, changed: &[ChangedRecord]) {
        let mut heard = self.0.lock().expect("not poisoned");
        let last = heard.last_mut().expect("it was announced");
        assert_eq!(last.1, stand);
        last.2 = Some(changed.iter().map(|changed| changed.key.to_string()).collect());
    }
}

pub fn where_there_is_a_stand_it_grows_with_every_commit_and_near_watchers_hear_of_it(place: &Place) {
    let desk = Desk::open(place, ITEMS);
    let Some(begin) = desk.store.commit_number().expect("a stand") else { return };
    let heard = Arc::new(Heard::default());
    desk.store.watch(heard.clone());
    desk.put("a", &[("code", text("a"))]);
    let own = desk.store.commit_number().expect("a stand").expect("still");
    assert!(own > begin);
    if !desk.store.is_near() {
        // other users of the server commit at the same time
        let other = Desk::open(place, ITEMS);
        other.put("b", &[("code", text("b"))]);
        assert!(desk.store.commit_number().expect("a stand").expect("still") > own);
        return;
    }
    assert_eq!(desk.store.commit_number().expect("a stand"), Some(own));
    let last = heard.0.lock().expect("not poisoned").last().cloned().expect("heard");
    assert_eq!((last.1, last.2), (own, Some(vec!["a".to_owned()])));
    // another process
    let other = Desk::open(place, ITEMS);
    other.put("b", &[("code", text("b"))]);
    let theirs = desk.store.commit_number().expect("a stand").expect("still");
    assert!(theirs > own);
    let before = heard.0.lock().expect("not poisoned").len();
    desk.put("c", &[("code", text("c"))]);
    let news = heard.0.lock().expect("not poisoned")[before..].to_vec();
    assert_eq!(news[0].0, theirs, "what happened between is noticed");
}
