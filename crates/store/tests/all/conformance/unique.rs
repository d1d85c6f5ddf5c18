//! A value of a unique field belongs to one living record of a tenant.

use super::support::*;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::value::Value;
use stook_store::*;

const PEOPLE: &str = "
catalogue: people
sources:
  staff: { format: json, into: person, as_of: meta.received }
collections:
  person:
    key: name
    fields:
      name: text
      badge: { type: text, unique: true, index: equal }
      login: { type: text, unique: true, fold: true }
      number: { type: integer, unique: true }
      weight: { type: float, unique: true }
      born: { type: timestamp, unique: true }
      boss: { type: boolean, unique: true }
      id: { type: uuid, unique: true }
      colour: text
";

fn badge(value: &str) -> [(&'static str, Value); 1] {
    [("badge", text(value))]
}

/// Writes a record; returns field and holder if it was refused.
fn try_put(fixture: &Fixture, name: &str, values: &[(&str, Value)]) -> Option<(String, String)> {
    let (result, feedback) = fixture.unit().write(fixture.write_of(name, values)).commit(&*fixture.store);
    result.expect("a refused record does not fail its unit");
    assert!(feedback.refused.len() <= 1);
    feedback.refused.into_iter().next().map(|(collection, refused, field, holder)| {
        assert_eq!((collection, refused.as_str()), (CollectionId::from(0), name));
        (fixture.catalogue.collections[CollectionId::from(0)].fields[field].name.clone(), holder)
    })
}

fn refused_for(field: &str, holder: &str) -> Option<(String, String)> {
    Some((field.to_owned(), holder.to_owned()))
}

pub fn the_second_record_with_a_value_is_refused_with_the_holders_key(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    assert_eq!(try_put(&fixture, "ada", &badge("1")), None);
    assert_eq!(try_put(&fixture, "bob", &badge("1")), refused_for("badge", "ada"));
    assert_eq!(fixture.record("bob"), None);
    assert_eq!(fixture.keys_where("badge", equal(text("1"))), ["ada"]);
    // inside one unit as well
    let twins = ["cyd", "dan"].map(|name| put(CollectionId::from(0), name, None, fixture.content(&badge("2"))));
    let (result, feedback) = fixture.unit().writes(twins).commit(&*fixture.store);
    result.expect("the unit is written");
    assert_eq!(feedback.refused, [(CollectionId::from(0), "dan".to_owned(), FieldId::from(1), "cyd".to_owned())]);
}

pub fn a_refused_record_keeps_its_values_and_its_unit_is_written(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    fixture.put("ada", &[("badge", text("1")), ("number", Value::Int(10))]);
    fixture.put("bob", &[("badge", text("2")), ("number", Value::Int(20)), ("colour", text("red"))]);
    let before = fixture.record("bob");
    let writes = [
        fixture.write_of("abe", &badge("3")),
        fixture.write_of("bob", &[("badge", text("4")), ("number", Value::Int(10)), ("colour", text("blue"))]),
        fixture.write_of("cyd", &badge("5")),
    ];
    let (result, feedback) = fixture.unit().writes(writes).commit(&*fixture.store);
    result.expect("the unit is written");
    assert_eq!(feedback.refused, [(CollectionId::from(0), "bob".to_owned(), FieldId::from(3), "ada".to_owned())]);
    assert_eq!(fixture.record("bob"), before);
    assert!(fixture.record("abe").is_some() && fixture.record("cyd").is_some());
    // it has neither lost its own values nor taken the one that was free
    assert_eq!(try_put(&fixture, "dan", &badge("2")), refused_for("badge", "bob"));
    assert_eq!(try_put(&fixture, "dan", &[("number", Value::Int(20))]), refused_for("number", "bob"));
    assert_eq!(try_put(&fixture, "dan", &badge("4")), None);
}

pub fn a_value_is_freed_when_its_record_changes_is_deleted_or_exists_no_more(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    for (round, name) in ["updated", "emptied", "deleted", "dead"].into_iter().enumerate() {
        let value = round.to_string();
        fixture.put(name, &badge(&value));
        assert_eq!(try_put(&fixture, "heir", &badge(&value)), refused_for("badge", name));
        match name {
            "updated" => fixture.put(name, &badge("other")),
            "emptied" => fixture.put(name, &[]),
            "deleted" => fixture.delete(name),
            _ => {
                let dead = RecordContent { exists: false, ..fixture.content(&badge(&value)) };
                fixture.unit().write(put(CollectionId::from(0), name, fixture.version(name), dead)).commit_ok(&*fixture.store)
            }
        };
        assert_eq!(try_put(&fixture, "heir", &badge(&value)), None, "{name}");
    }
    // a record that is created again finds the value taken
    assert_eq!(try_put(&fixture, "dead", &badge("3")), refused_for("badge", "heir"));
    fixture.put("heir", &[]);
    assert_eq!(try_put(&fixture, "dead", &badge("3")), None);
}

pub fn many_records_may_have_no_value(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    for name in ["ada", "bob", "cyd"] {
        assert_eq!(try_put(&fixture, name, &[]), None);
    }
    assert_eq!(try_put(&fixture, "dan", &badge("")), None, "an empty text is a value");
    assert_eq!(try_put(&fixture, "eve", &badge("")), refused_for("badge", "dan"));
}

pub fn a_record_may_keep_its_own_value(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    for colour in ["red", "blue"] {
        assert_eq!(try_put(&fixture, "ada", &[("badge", text("1")), ("colour", text(colour))]), None);
    }
    fixture.unit().write(touch(CollectionId::from(0), "ada", fixture.version("ada"), b"later")).commit_ok(&*fixture.store);
    assert_eq!(try_put(&fixture, "bob", &badge("1")), refused_for("badge", "ada"));
}

pub fn values_that_fold_to_the_same_text_are_equal(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    fixture.put("ada", &[("login", text(" \u{c9}va  Ada"))]);
    assert_eq!(try_put(&fixture, "bob", &[("login", text("e\u{301}VA ada"))]), refused_for("login", "ada"));
    assert_eq!(try_put(&fixture, "bob", &[("login", text("eva ada"))]), None, "an accent makes a difference");
    assert_eq!(try_put(&fixture, "ada", &[("login", text("\u{e9}va ada"))]), None, "written otherwise by the same record");
    assert_eq!(fixture.value("ada", "login"), text("\u{e9}va ada"));
    // without fold, case makes a difference
    fixture.put("cyd", &badge("x"));
    assert_eq!(try_put(&fixture, "dan", &badge("X")), None);
}

pub fn each_type_of_value_can_be_unique(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    let values = [
        ("badge", text("1"), text("1.0")),
        ("number", Value::Int(i64::MAX), Value::Int(i64::MAX - 1)),
        ("weight", Value::Float(0.1), Value::Float(0.1 + f64::EPSILON)),
        ("born", Value::Int(0), Value::Int(-1)),
        ("boss", Value::Bool(true), Value::Bool(false)),
        ("id", Value::Uuid(u128::MAX), Value::Uuid(u128::MAX - 1)),
    ];
    for (field, value, other) in values {
        let (first, second) = (format!("{field} 1"), format!("{field} 2"));
        fixture.put(&first, &[(field, value.clone())]);
        assert_eq!(try_put(&fixture, &second, &[(field, value)]), refused_for(field, &first));
        assert_eq!(try_put(&fixture, &second, &[(field, other)]), None, "{field}");
    }
}

pub fn a_record_refused_after_a_conflict_is_refused_as_well(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    fixture.put("ada", &badge("1"));
    fixture.put("bob", &badge("2"));
    let before = fixture.record("bob");
    let merged = put(CollectionId::from(0), "bob", fixture.version("bob"), fixture.content(&badge("1")));
    let stale = put(CollectionId::from(0), "bob", None, fixture.content(&badge("3")));
    let (result, feedback) = fixture.unit().write(stale).resolve(move |_| Ok(vec![merged.clone()])).commit(&*fixture.store);
    result.expect("the unit is written");
    assert_eq!(feedback.refused, [(CollectionId::from(0), "bob".to_owned(), FieldId::from(1), "ada".to_owned())]);
    assert_eq!(fixture.record("bob"), before);
    assert_eq!(try_put(&fixture, "cyd", &badge("2")), refused_for("badge", "bob"));
}

pub fn a_record_that_is_merged_again_keeps_its_turn_in_the_order_of_keys(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    fixture.put("ada", &[("colour", text("red"))]);
    let merged = put(CollectionId::from(0), "ada", fixture.version("ada"), fixture.content(&badge("1")));
    let stale = put(CollectionId::from(0), "ada", None, fixture.content(&badge("1")));
    let unit = fixture.unit().write(stale).write(fixture.write_of("bob", &badge("1"))).resolve(move |_| Ok(vec![merged.clone()]));
    let (result, feedback) = unit.commit(&*fixture.store);
    result.expect("the unit is written");
    assert_eq!(feedback.refused, [(CollectionId::from(0), "bob".to_owned(), FieldId::from(1), "ada".to_owned())]);
}

pub fn a_stale_write_takes_and_frees_no_value(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    fixture.put("ada", &badge("old"));
    let stale = fixture.version("ada");
    fixture.put("ada", &badge("new"));
    for expect in [None, stale] {
        let write = put(CollectionId::from(0), "ada", expect, fixture.content(&badge("stale")));
        fixture.unit().write(write).resolve(|_| Ok(Vec::new())).commit_ok(&*fixture.store);
        assert_eq!(try_put(&fixture, "bob", &badge("new")), refused_for("badge", "ada"), "the record still has it");
        assert_eq!(try_put(&fixture, "bob", &badge("stale")), None, "the record never had it");
        fixture.delete("bob");
    }
    // a record that was deleted meanwhile does not reserve anything either
    let deleted_version = fixture.version("ada");
    fixture.delete("ada");
    let write = put(CollectionId::from(0), "ada", deleted_version, fixture.content(&badge("ghost")));
    fixture.unit().write(write).resolve(|_| Ok(Vec::new())).commit_ok(&*fixture.store);
    assert_eq!(try_put(&fixture, "bob", &badge("ghost")), None);
}

pub fn a_stale_write_of_a_taken_value_is_a_conflict_first(location: &StoreLocation) {
    // after merging with the current record, it may not claim the value any more
    let fixture = Fixture::open(location, PEOPLE);
    fixture.put("ada", &badge("1"));
    fixture.put("bob", &badge("2"));
    let stale = put(CollectionId::from(0), "bob", None, fixture.content(&badge("1")));
    let merged = put(CollectionId::from(0), "bob", fixture.version("bob"), fixture.content(&badge("3")));
    let (result, feedback) = fixture.unit().write(stale).resolve(move |_| Ok(vec![merged.clone()])).commit(&*fixture.store);
    result.expect("the unit is written");
    assert_eq!(feedback.refused, []);
    assert_eq!(feedback.conflicts.len(), 1);
    assert_eq!(fixture.value("bob", "badge"), text("3"));
}

pub fn a_failed_unit_leaves_no_reservation(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    fixture.put("ada", &badge("1"));
    let writes = [
        fixture.write_of("ada", &badge("2")),
        fixture.write_of("bob", &badge("3")),
        put(CollectionId::from(0), "cyd", Some(Version::default()), fixture.content(&[])),
    ];
    let (result, _) = fixture.unit().writes(writes).commit(&*fixture.store);
    result.expect_err("the conflict is not resolved");
    assert_eq!(try_put(&fixture, "dan", &badge("1")), refused_for("badge", "ada"));
    assert_eq!(try_put(&fixture, "dan", &badge("2")), None);
    assert_eq!(try_put(&fixture, "eve", &badge("3")), None);
}

pub fn reservations_outlive_the_process(location: &StoreLocation) {
    let fixture = Fixture::open(location, PEOPLE);
    fixture.put("ada", &badge("1"));
    let fixture = fixture.reopen(location);
    assert_eq!(try_put(&fixture, "bob", &badge("1")), refused_for("badge", "ada"));
}
