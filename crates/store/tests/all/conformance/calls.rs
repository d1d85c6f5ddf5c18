//! What a server needs: idempotent calls, change logs, tokens, versions, commit numbers.

use super::support::*;
use std::sync::{Arc, Mutex};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::access::{FormerSecret, NewSecret, NewToken, Rights, Role, TokenChange};
use stook_store::audit::{AuditQuery, AuditScope, AuditedOperation};
use stook_store::*;

const ITEMS: &str = "catalogue: c\ncollections:\n  item:\n    key: code\n    fields: { code: text, title: text }\n    state: { status: text }\n";

pub fn a_repeated_call_is_executed_once_and_gets_the_first_response(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    let write =
        |title: &str| fixture.unit().write(put(CollectionId::from(0), "a", None, fixture.content(&[("code", text("a")), ("title", text(title))])));
    let (_, feedback) = write("first").call(1, 7, b"done").commit(&*fixture.store);
    assert_eq!(feedback.repeated, None);
    let (receipt, feedback) = write("second").call(1, 7, b"done again").commit(&*fixture.store);
    assert_eq!((receipt.expect("answered").rows, feedback.repeated), (0, Some((true, b"done".to_vec()))));
    assert_eq!(fixture.value("a", "title"), text("first"));
    let fixture = fixture.reopen(location);
    let (_, feedback) = fixture.unit().call(1, 7, b"x").commit(&*fixture.store);
    assert_eq!(feedback.repeated, Some((true, b"done".to_vec())));
}

pub fn a_call_id_with_another_request_is_reported_as_different(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    fixture.unit().call(1, 7, b"done").commit_ok(&*fixture.store);
    let (_, feedback) = fixture.unit().write(fixture.write_of("a", &[("code", text("a"))])).call(1, 8, b"no").commit(&*fixture.store);
    assert_eq!(feedback.repeated, Some((false, b"done".to_vec())));
    assert_eq!(fixture.record("a"), None);
}

pub fn a_call_without_a_kept_response_may_be_repeated(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    fixture.unit().call(1, 7, b"").commit_ok(&*fixture.store);
    let (_, feedback) = fixture.unit().call(1, 7, b"now").commit(&*fixture.store);
    assert_eq!(feedback.repeated, None);
}

pub fn equal_calls_of_two_tenants_are_two_calls(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    fixture.unit().call(1, 7, b"done").commit_ok(&*fixture.store);
    let (_, feedback) = TestUnit::new(&tenant("other")).call(1, 7, b"theirs").commit(&*fixture.store);
    assert_eq!(feedback.repeated, None);
}

pub fn of_simultaneous_equal_calls_only_one_is_executed(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    for round in 0..10 {
        let name = format!("r{round}");
        let repeated: Vec<bool> = std::thread::scope(|scope| {
            let call = |index: u8| {
                let write = put(CollectionId::from(0), &name, None, fixture.content(&[("code", text(&name)), ("title", text(&index.to_string()))]));
                let unit = fixture.unit().write(write).log(&name, "made").call(round, 1, &[b'0' + index]);
                let (result, feedback) = unit.resolve(|_| Ok(Vec::new())).commit(&*fixture.store);
                result.expect("answered");
                feedback.repeated.is_some()
            };
            let threads: Vec<_> = (0..6).map(|index| scope.spawn(move || call(index))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(repeated.iter().filter(|repeated| !**repeated).count(), 1, "{repeated:?}");
        assert_eq!(fixture.store.log(&fixture.tenant, CollectionId::from(0), &key(&name), None, 10).expect("a log").len(), 1);
    }
}

pub fn a_unit_that_waits_for_a_locked_record_does_not_delay_others(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    fixture.put("a", &[("code", text("a"))]);
    fixture.put("b", &[("code", text("b"))]);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (arrive, arrived) = std::sync::mpsc::channel();
    // it locks the record while it computes
    let holding = fixture.unit().write(touch(CollectionId::from(0), "a", None, b"")).resolve(move |_| {
        let _ = arrive.send(());
        let _ = released.recv();
        Ok(Vec::new())
    });
    let other_fixture = Fixture::open(location, ITEMS);
    let holding = other_fixture.store.submit(Box::new(holding), Priority::Interactive);
    arrived.recv().expect("it is at work");
    let submit_impatient = |name: &str| -> PendingCommit {
        fixture.store.submit(Box::new(fixture.unit().write(fixture.write_of(name, &[("code", text(name))])).without_waiting()), Priority::Interactive)
    };
    let submit_patient = || {
        fixture
            .store
            .submit(Box::new(fixture.unit().write(touch(CollectionId::from(0), "a", fixture.version("a"), b"patient"))), Priority::Interactive)
    };
    let waiting = (!fixture.store.is_local()).then(submit_patient);
    let (locked, free) = (submit_impatient("a"), submit_impatient("b"));
    if fixture.store.is_local() {
        // units come one after the other
        drop(release);
        assert!(matches!(locked.wait(), Err(StoreError::Held) | Ok(_)));
        free.wait().expect("nobody held it");
    } else {
        assert!(matches!(locked.wait(), Err(StoreError::Held)));
        free.wait().expect("nobody held it");
        drop(release);
    }
    holding.wait().expect("it goes on");
    waiting.map_or_else(|| Ok(CommitReceipt::default()), PendingCommit::wait).expect("then it is its turn");
    let (result, _) = fixture.unit().write(fixture.write_of("a", &[("code", text("a"))])).without_waiting().commit(&*fixture.store);
    result.expect("nobody holds it now");
}

pub fn the_change_log_lists_transitions_newest_first(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    for name in ["out", "in", "lost"] {
        fixture.unit().log("a", name).log("b", name).commit_ok(&*fixture.store);
    }
    let names = |entries: &[ChangeLogEntry]| entries.iter().map(|entry| entry.transition.clone().unwrap_or_default()).collect::<Vec<_>>();
    let all = fixture.store.log(&fixture.tenant, CollectionId::from(0), &key("a"), None, 10).expect("a log");
    assert_eq!(names(&all), ["lost", "in", "out"]);
    assert!(all[0].at > all[1].at && all[0].caller == "ann" && all[0].change["after"]["status"] == "lost");
    let older = fixture.store.log(&fixture.tenant, CollectionId::from(0), &key("a"), Some(all[0].id), 1).expect("a log");
    assert_eq!(names(&older), ["in"]);
    assert_eq!(fixture.store.log(&tenant("other"), CollectionId::from(0), &key("a"), None, 10).expect("a log"), []);
}

pub fn a_unit_that_fails_logs_nothing(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    fixture.put("a", &[("code", text("a"))]);
    let failing = fixture.unit().write(put(CollectionId::from(0), "a", None, fixture.content(&[]))).log("a", "out").call(1, 1, b"yes");
    failing.commit(&*fixture.store).0.expect_err("the conflict is not resolved");
    assert_eq!(fixture.store.log(&fixture.tenant, CollectionId::from(0), &key("a"), None, 10).expect("a log"), []);
    assert_eq!(fixture.unit().call(1, 1, b"yes").commit(&*fixture.store).1.repeated, None);
}

pub fn tokens_are_listed_until_they_are_revoked(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    let token = |byte: u8, tenant: Option<Tenant>, role| NewToken {
        digest: [byte; 32],
        tenant,
        rights: Rights::from(role),
        name: format!("t{byte}"),
        expires: None,
    };
    let (admin_token, reader_token) = (token(1, None, Role::Admin), token(2, Some(tenant("acme")), Role::Read));
    assert!(!fixture.store.has_had_tokens().expect("read"));
    let first = fixture.store.create_token(admin_token.clone()).expect("written");
    let second = fixture.store.create_token(reader_token.clone()).expect("written");
    let listed: Vec<(u64, NewToken)> = fixture.store.tokens().expect("listed").into_iter().map(|token| (token.id, token.token)).collect();
    assert_eq!(listed, [(first, admin_token), (second, reader_token.clone())]);
    assert!(fixture.store.revoke_token(first).expect("revoked"));
    assert!(!fixture.store.revoke_token(first).expect("read"), "it is revoked already");
    let fixture = fixture.reopen(location);
    assert_eq!(fixture.store.tokens().expect("listed").into_iter().map(|token| token.token).collect::<Vec<_>>(), [reader_token]);
    assert!(fixture.store.revoke_token(second).expect("revoked"));
    assert!(fixture.store.tokens().expect("listed").is_empty() && fixture.store.has_had_tokens().expect("read"));
}

pub fn tokens_are_changed_rotated_and_say_when_they_were_used(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    let new =
        NewToken { digest: [1; 32], tenant: Some(fixture.tenant.clone()), rights: Role::Read.into(), name: "robot".into(), expires: Some(5_000) };
    let id = fixture.store.create_token(new.clone()).expect("written");
    let other = fixture.store.create_token(NewToken { digest: [9; 32], expires: None, ..new.clone() }).expect("written");
    let only = |fixture: &Fixture| fixture.store.tokens().expect("listed").into_iter().find(|token| token.id == id).expect("it is there");
    assert_eq!((only(&fixture).token, only(&fixture).used, only(&fixture).former), (new.clone(), None, None), "an expired token is listed");
    // each part of a change alone
    let change = |change: TokenChange| assert!(fixture.store.change_token(id, change).expect("changed"));
    change(TokenChange::default());
    assert_eq!(only(&fixture).token, new);
    change(TokenChange { name: Some("\u{1f916}".into()), ..TokenChange::default() });
    let rights = Rights::parse("write:item,read:place").expect("rights");
    change(TokenChange { rights: Some(rights.clone()), ..TokenChange::default() });
    change(TokenChange { expires: Some(None), ..TokenChange::default() });
    assert_eq!(only(&fixture).token, NewToken { name: "\u{1f916}".into(), rights, expires: None, ..new.clone() });
    // the secret before the last one is forgotten
    for (digest, former_until) in [(2, 100), (3, 200)] {
        change(TokenChange { secret: Some(NewSecret { digest: [digest; 32], former_until }), expires: Some(Some(900)), ..TokenChange::default() });
        let token = only(&fixture);
        assert_eq!((token.token.digest, token.former), ([digest; 32], Some(FormerSecret { digest: [digest - 1; 32], until: former_until })));
        assert_eq!(token.token.expires, Some(900));
    }
    fixture.store.note_token_uses(&[(id, 700), (99, 1)]).expect("written");
    fixture.store.note_token_uses(&[(id, 600)]).expect("written");
    fixture.store.note_token_uses(&[]).expect("nothing to write");
    assert_eq!(only(&fixture).used, Some(700));
    let before = fixture.store.tokens().expect("listed");
    let fixture = fixture.reopen(location);
    assert_eq!(fixture.store.tokens().expect("listed"), before);
    // one that is revoked is not changed
    assert!(fixture.store.revoke_token(other).expect("revoked"));
    let renamed = || TokenChange { name: Some("x".into()), ..TokenChange::default() };
    assert!(!fixture.store.change_token(other, renamed()).expect("read") && !fixture.store.change_token(99, renamed()).expect("read"));
}

pub fn a_change_and_its_audit_entry_are_written_together(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    let scope = |operation: &str, token: u64| {
        let (tenant, caller, address) = (Some(fixture.tenant.clone()), "ann".to_owned(), Some("::1".to_owned()));
        AuditScope::new(AuditedOperation { tenant, token: Some(token), caller, address, ..AuditedOperation::new(operation) })
    };
    let unit = |name: &str| fixture.unit().write(put(CollectionId::from(0), name, None, fixture.content(&[("code", text(name))])));
    let collection = fixture.catalogue.collections[CollectionId::from(0)].name.clone();
    let all = |fixture: &Fixture, wanted: AuditQuery| fixture.store.audit(&AuditQuery { limit: 100, ..wanted }).expect("listed");
    // without a scope nothing is audited
    unit("a").commit_ok(&*fixture.store);
    assert_eq!(all(&fixture, AuditQuery::default()), []);
    let (edit, failing) = (scope("PUT b", 7), scope("PUT c", 7));
    edit.during(|| unit("b").commit_ok(&*fixture.store));
    assert!(edit.is_written());
    failing.during(|| unit("b").commit(&*fixture.store).0.expect_err("the conflict is not resolved"));
    assert!(!failing.is_written(), "what is not written has no entry");
    // several changes of one operation are one
    let tokens = scope("stook token\ncreate", 8);
    let new = NewToken { digest: [1; 32], tenant: None, rights: Role::Read.into(), name: String::new(), expires: None };
    tokens.during(|| {
        let id = fixture.store.create_token(new).expect("written");
        assert!(fixture.store.revoke_token(id).expect("written"));
    });
    failing.during(|| fixture.store.sync().expect("it is synced"));
    fixture.store.add_refusal(scope("DELETE b", 9).operation(), "refused: 403").expect("written");
    let entries = all(&fixture, AuditQuery::default());
    let shown: Vec<_> = entries.iter().map(|entry| (entry.by.operation(), entry.by.token, entry.record.clone(), entry.outcome.as_str())).collect();
    let record = |key: &str| Some((collection.clone(), key.to_owned()));
    assert_eq!(
        shown,
        [("DELETE b", Some(9), None, "refused: 403"), ("stook token create", Some(8), None, "done"), ("PUT b", Some(7), record("b"), "done")]
    );
    assert_eq!((entries[2].by.caller.as_str(), entries[2].by.address.as_deref()), ("ann", Some("::1")));
    // what is wanted
    let numbers = |wanted: AuditQuery| all(&fixture, wanted).into_iter().map(|entry| entry.id).collect::<Vec<_>>();
    let [third, second, first] = [entries[0].id, entries[1].id, entries[2].id];
    assert!(first < second && second < third && entries[2].at < entries[1].at);
    assert_eq!(numbers(AuditQuery { token: Some(8), ..AuditQuery::default() }), [second]);
    assert_eq!(numbers(AuditQuery { record: Some((collection.clone(), key("b"))), ..AuditQuery::default() }), [first]);
    assert_eq!(numbers(AuditQuery { before: Some(third), since: Some(entries[1].at), ..AuditQuery::default() }), [second]);
    assert_eq!(numbers(AuditQuery { tenant: Some(tenant("other")), ..AuditQuery::default() }), [] as [u64; 0]);
    assert_eq!(fixture.store.audit(&AuditQuery { limit: 1, ..AuditQuery::default() }).expect("listed").len(), 1);
    // a change of many records has one entry
    let many = scope("many", 1);
    let writes = (0..30).map(|number| put(CollectionId::from(0), &format!("m{number}"), None, fixture.content(&[])));
    many.during(|| fixture.unit().writes(writes).commit_ok(&*fixture.store));
    assert_eq!(
        all(&fixture, AuditQuery { token: Some(1), ..AuditQuery::default() }).iter().map(|entry| entry.record.clone()).collect::<Vec<_>>(),
        [None]
    );
    let before = all(&fixture, AuditQuery::default());
    assert_eq!(all(&fixture.reopen(location), AuditQuery::default()), before);
}

pub fn versions_are_those_of_the_records_that_are_read(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    fixture.put("a", &[("code", text("a"))]);
    fixture.unit().write(touch(CollectionId::from(0), "a", fixture.version("a"), b"again")).commit_ok(&*fixture.store);
    fixture.put("b", &[("code", text("b"))]);
    let keys: Vec<Key> = ["b", "missing", "a", "b"].map(key).to_vec();
    let versions = fixture.store.versions(&fixture.tenant, CollectionId::from(0), &keys).expect("versions");
    assert_eq!(versions, ["b", "missing", "a", "b"].map(|name| fixture.version(name)));
    assert_eq!(versions[2].map(|version| version.touches), Some(1));
    assert_eq!(fixture.store.versions(&tenant("other"), CollectionId::from(0), &keys).expect("versions"), vec![None; 4]);
}

/// The commit number before, the commit number, and the keys that were reported.
pub type ObservedCommit = (i64, i64, Option<Vec<String>>);

/// The commits that were reported.
#[derive(Default)]
pub struct CommitRecorder(pub Mutex<Vec<ObservedCommit>>);

impl CommitObserver for CommitRecorder {
    fn committing(&self, previous: i64, current: i64) {
        self.0.lock().expect("not poisoned").push((previous, current, None));
    }

    fn committed(&self, commit_number: i64, changed: &[ChangedRecord]) {
        let mut commits = self.0.lock().expect("not poisoned");
        let last = commits.last_mut().expect("it was announced");
        assert_eq!(last.1, commit_number);
        last.2 = Some(changed.iter().map(|changed| changed.key.to_string()).collect());
    }
}

pub fn commit_numbers_grow_with_every_commit_and_local_observers_are_notified(location: &StoreLocation) {
    let fixture = Fixture::open(location, ITEMS);
    let Some(first_number) = fixture.store.commit_number().expect("a commit number") else { return };
    let recorder = Arc::new(CommitRecorder::default());
    fixture.store.watch(recorder.clone());
    fixture.put("a", &[("code", text("a"))]);
    let own_number = fixture.store.commit_number().expect("a commit number").expect("still");
    assert!(own_number > first_number);
    if !fixture.store.is_local() {
        // other users of the server commit at the same time
        let other_fixture = Fixture::open(location, ITEMS);
        other_fixture.put("b", &[("code", text("b"))]);
        assert!(fixture.store.commit_number().expect("a commit number").expect("still") > own_number);
        return;
    }
    assert_eq!(fixture.store.commit_number().expect("a commit number"), Some(own_number));
    let last = recorder.0.lock().expect("not poisoned").last().cloned().expect("it was notified");
    assert_eq!((last.1, last.2), (own_number, Some(vec!["a".to_owned()])));
    // another process
    let other_fixture = Fixture::open(location, ITEMS);
    other_fixture.put("b", &[("code", text("b"))]);
    let other_number = fixture.store.commit_number().expect("a commit number").expect("still");
    assert!(other_number > own_number);
    let known_commits = recorder.0.lock().expect("not poisoned").len();
    fixture.put("c", &[("code", text("c"))]);
    let new_commits = recorder.0.lock().expect("not poisoned")[known_commits..].to_vec();
    assert_eq!(new_commits[0].0, other_number, "what happened between is noticed");
}
