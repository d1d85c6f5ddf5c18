//! Erased records: they are not written until that is lifted, whoever has read what and when.

use super::records::SHELF;
use super::support::*;
use stook_catalogue::ids::CollectionId;

pub fn erased_records_are_not_written_until_that_is_lifted(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let collection = CollectionId::from(0);
    let content = || fixture.content(&[]);
    fixture.unit().writes(["x", "y"].map(|name| put(collection, name, None, content()))).commit_ok(&*fixture.store);
    let read = fixture.version("x");
    fixture.unit().write(delete(collection, "x", read)).erasing(&["x", "never"]).commit_ok(&*fixture.store);
    let erased = |names: [&str; 3]| fixture.store.erased(&fixture.tenant, collection, &names.map(key)).expect("an answer");
    assert_eq!(erased(["x", "y", "never"]), [0, 2]);

    // what was read before the erasure, what was read after it, and what nobody has read
    for (name, expect) in [("x", read), ("x", None), ("never", None)] {
        let other = put(collection, "y", fixture.version("y"), content());
        let again = content();
        let unit = fixture
            .unit()
            .writes([put(collection, name, expect, content()), other])
            .resolve(move |conflicts| Ok(conflicts.into_iter().map(|own| put(own.collection, own.key.as_str(), None, again.clone())).collect()));
        let (written, feedback) = unit.commit(&*fixture.store);
        assert_eq!((written.expect("the other one is written").rows, feedback.erased), (1, vec![name.to_owned()]));
        assert_eq!(fixture.record(name), None);
    }
    let other_tenant = TestUnit::new(&tenant("other")).write(put(collection, "x", None, content()));
    assert_eq!(other_tenant.commit(&*fixture.store).1.erased, Vec::<String>::new());

    // of answers that are kept, the one that names the record goes, and that of a longer key stays
    for (call, answer) in [(1, "{\"key\":\"x\"}"), (2, "{\"key\":\"xx\"}")] {
        fixture.unit().call(call, 7, answer.as_bytes()).commit_ok(&*fixture.store);
    }
    let listed = fixture.store.erasures().expect("a list");
    assert_eq!(listed.iter().map(|own| own.finished).collect::<Vec<_>>(), [false, false]);
    assert_eq!(fixture.store.clear_traces(&fixture.tenant, collection, &key("x")).expect("it is finished").answers, 1);
    assert_eq!(fixture.unit().call(2, 7, b"again").commit(&*fixture.store).1.repeated.map(|(_, answer)| answer), Some(b"{\"key\":\"xx\"}".to_vec()));
    assert_eq!(fixture.store.erasures().expect("a list").iter().filter(|own| own.finished).count(), 1);
    assert!(fixture.store.clear_traces(&fixture.tenant, collection, &key("y")).is_err());
    fixture.store.purge().expect("it is rewritten");

    assert_eq!(fixture.store.note_erasures(&listed).expect("they are known"), 0);
    assert!(fixture.store.lift_erasure(&fixture.tenant, collection, &key("x")).expect("it was"));
    assert!(!fixture.store.lift_erasure(&fixture.tenant, collection, &key("x")).expect("it is not any more"));
    fixture.unit().write(put(collection, "x", None, content())).commit_ok(&*fixture.store);
    assert!(fixture.record("x").is_some());
    assert_eq!(fixture.store.note_erasures(&listed).expect("one is new"), 1);
    assert_eq!(erased(["y", "x", "never"]), [1, 2]);
}
