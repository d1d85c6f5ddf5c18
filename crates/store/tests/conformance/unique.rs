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
fn try_put(desk: &Desk, name: &str, values: &[(&str, Value)]) -> Option<(String, String)> {
    let (result, told) = desk.work().write(desk.write_of(name, values)).commit(&*desk.store);
    result.expect("a refused record does not fail its unit");
    assert!(told.refused.len() <= 1);
    told.refused.into_iter().next().map(|(collection, refused, field, holder)| {
        assert_eq!((collection, refused.as_str()), (CollectionId::from(0), name));
        (desk.catalogue.collections[CollectionId::from(0)].fields[field].name.clone(), holder)
    })
}

fn refused_for(field: &str, holder: &str) -> Option<(String, String)> {
    Some((field.to_owned(), holder.to_owned()))
}

pub fn the_second_record_with_a_value_is_refused_with_the_holders_key(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    assert_eq!(try_put(&desk, "ada", &badge("1")), None);
    assert_eq!(try_put(&desk, "bob", &badge("1")), refused_for("badge", "ada"));
    assert_eq!(desk.record("bob"), None);
    assert_eq!(desk.keys_where("badge", equal(text("1"))), ["ada"]);
    // inside one unit as well
    let twins = ["cyd", "dan"].map(|name| put(CollectionId::from(0), name, None, desk.content(&badge("2"))));
    let (result, told) = desk.work().writes(twins).commit(&*desk.store);
    result.expect("the unit is written");
    assert_eq!(told.refused, [(CollectionId::from(0), "dan".to_owned(), FieldId::from(1), "cyd".to_owned())]);
}

pub fn a_refused_record_keeps_what_it_had_and_its_unit_goes_on(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    desk.put("ada", &[("badge", text("1")), ("number", Value::Int(10))]);
    desk.put("bob", &[("badge", text("2")), ("number", Value::Int(20)), ("colour", text("red"))]);
    let before = desk.record("bob");
    let writes = [
        desk.write_of("abe", &badge("3")),
        desk.write_of("bob", &[("badge", text("4")), ("number", Value::Int(10)), ("colour", text("blue"))]),
        desk.write_of("cyd", &badge("5")),
    ];
    let (result, told) = desk.work().writes(writes).commit(&*desk.store);
    result.expect("the unit is written");
    assert_eq!(told.refused, [(CollectionId::from(0), "bob".to_owned(), FieldId::from(3), "ada".to_owned())]);
    assert_eq!(desk.record("bob"), before);
    assert!(desk.record("abe").is_some() && desk.record("cyd").is_some());
    // it has neither lost its own values nor taken the one that was free
    assert_eq!(try_put(&desk, "dan", &badge("2")), refused_for("badge", "bob"));
    assert_eq!(try_put(&desk, "dan", &[("number", Value::Int(20))]), refused_for("number", "bob"));
    assert_eq!(try_put(&desk, "dan", &badge("4")), None);
}

pub fn a_value_is_freed_by_an_update_a_deletion_and_a_death(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    for (round, name) in ["updated", "emptied", "deleted", "dead"].into_iter().enumerate() {
        let value = round.to_string();
        desk.put(name, &badge(&value));
        assert_eq!(try_put(&desk, "heir", &badge(&value)), refused_for("badge", name));
        match name {
            "updated" => desk.put(name, &badge("other")),
            "emptied" => desk.put(name, &[]),
            "deleted" => desk.delete(name),
            _ => {
                let dead = RecordContent { exists: false, ..desk.content(&badge(&value)) };
                desk.work().write(put(CollectionId::from(0), name, desk.version(name), dead)).done(&*desk.store)
            }
        };
        assert_eq!(try_put(&desk, "heir", &badge(&value)), None, "{name}");
    }
    // a record that is created again finds the value taken
    assert_eq!(try_put(&desk, "dead", &badge("3")), refused_for("badge", "heir"));
    desk.put("heir", &[]);
    assert_eq!(try_put(&desk, "dead", &badge("3")), None);
}

pub fn many_records_may_have_no_value(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    for name in ["ada", "bob", "cyd"] {
        assert_eq!(try_put(&desk, name, &[]), None);
    }
    assert_eq!(try_put(&desk, "dan", &badge("")), None, "an empty text is a value");
    assert_eq!(try_put(&desk, "eve", &badge("")), refused_for("badge", "dan"));
}

pub fn a_record_may_keep_its_own_value(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    for colour in ["red", "blue"] {
        assert_eq!(try_put(&desk, "ada", &[("badge", text("1")), ("colour", text(colour))]), None);
    }
    desk.work().write(touch(CollectionId::from(0), "ada", desk.version("ada"), b"later")).done(&*desk.store);
    assert_eq!(try_put(&desk, "bob", &badge("1")), refused_for("badge", "ada"));
}

pub fn values_that_fold_to_the_same_are_the_same(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    desk.put("ada", &[("login", text(" \u{c9}va  Ada"))]);
    assert_eq!(try_put(&desk, "bob", &[("login", text("e\u{301}VA ada"))]), refused_for("login", "ada"));
    assert_eq!(try_put(&desk, "bob", &[("login", text("eva ada"))]), None, "an accent makes a difference");
    assert_eq!(try_put(&desk, "ada", &[("login", text("\u{e9}va ada"))]), None, "written otherwise by the same record");
    assert_eq!(desk.value("ada", "login"), text("\u{e9}va ada"));
    // without fold, case makes a difference
    desk.put("cyd", &badge("x"));
    assert_eq!(try_put(&desk, "dan", &badge("X")), None);
}

pub fn each_type_of_value_can_be_unique(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
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
        desk.put(&first, &[(field, value.clone())]);
        assert_eq!(try_put(&desk, &second, &[(field, value)]), refused_for(field, &first));
        assert_eq!(try_put(&desk, &second, &[(field, other)]), None, "{field}");
    }
}

pub fn a_record_refused_after_a_conflict_is_refused_as_well(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    desk.put("ada", &badge("1"));
    desk.put("bob", &badge("2"));
    let before = desk.record("bob");
    let merged = put(CollectionId::from(0), "bob", desk.version("bob"), desk.content(&badge("1")));
    let stale = put(CollectionId::from(0), "bob", None, desk.content(&badge("3")));
    let (result, told) = desk.work().write(stale).resolve(move |_| Ok(vec![merged.clone()])).commit(&*desk.store);
    result.expect("the unit is written");
    assert_eq!(told.refused, [(CollectionId::from(0), "bob".to_owned(), FieldId::from(1), "ada".to_owned())]);
    assert_eq!(desk.record("bob"), before);
    assert_eq!(try_put(&desk, "cyd", &badge("2")), refused_for("badge", "bob"));
}

pub fn a_record_that_is_merged_again_still_comes_in_the_order_of_keys(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    desk.put("ada", &[("colour", text("red"))]);
    let merged = put(CollectionId::from(0), "ada", desk.version("ada"), desk.content(&badge("1")));
    let stale = put(CollectionId::from(0), "ada", None, desk.content(&badge("1")));
    let unit = desk.work().write(stale).write(desk.write_of("bob", &badge("1"))).resolve(move |_| Ok(vec![merged.clone()]));
    let (result, told) = unit.commit(&*desk.store);
    result.expect("the unit is written");
    assert_eq!(told.refused, [(CollectionId::from(0), "bob".to_owned(), FieldId::from(1), "ada".to_owned())]);
}

pub fn a_stale_write_takes_and_frees_no_value(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    desk.put("ada", &badge("old"));
    let stale = desk.version("ada");
    desk.put("ada", &badge("new"));
    for expect in [None, stale] {
        let write = put(CollectionId::from(0), "ada", expect, desk.content(&badge("stale")));
        desk.work().write(write).resolve(|_| Ok(Vec::new())).done(&*desk.store);
        assert_eq!(try_put(&desk, "bob", &badge("new")), refused_for("badge", "ada"), "the record still has it");
        assert_eq!(try_put(&desk, "bob", &badge("stale")), None, "the record never had it");
        desk.delete("bob");
    }
    // a record that was deleted meanwhile does not reserve anything either
    let gone = desk.version("ada");
    desk.delete("ada");
    let write = put(CollectionId::from(0), "ada", gone, desk.content(&badge("ghost")));
    desk.work().write(write).resolve(|_| Ok(Vec::new())).done(&*desk.store);
    assert_eq!(try_put(&desk, "bob", &badge("ghost")), None);
}

pub fn a_stale_write_of_a_taken_value_is_a_conflict_first(place: &Place) {
    // after merging with the current record, it may not claim the value any more
    let desk = Desk::open(place, PEOPLE);
    desk.put("ada", &badge("1"));
    desk.put("bob", &badge("2"));
    let stale = put(CollectionId::from(0), "bob", None, desk.content(&badge("1")));
    let merged = put(CollectionId::from(0), "bob", desk.version("bob"), desk.content(&badge("3")));
    let (result, told) = desk.work().write(stale).resolve(move |_| Ok(vec![merged.clone()])).commit(&*desk.store);
    result.expect("the unit is written");
    assert_eq!(told.refused, []);
    assert_eq!(told.conflicts.len(), 1);
    assert_eq!(desk.value("bob", "badge"), text("3"));
}

pub fn a_failed_unit_leaves_no_reservation(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    desk.put("ada", &badge("1"));
    let writes = [
        desk.write_of("ada", &badge("2")),
        desk.write_of("bob", &badge("3")),
        put(CollectionId::from(0), "cyd", Some(Version::default()), desk.content(&[])),
    ];
    let (result, _) = desk.work().writes(writes).commit(&*desk.store);
    result.expect_err("the conflict is not resolved");
    assert_eq!(try_put(&desk, "dan", &badge("1")), refused_for("badge", "ada"));
    assert_eq!(try_put(&desk, "dan", &badge("2")), None);
    assert_eq!(try_put(&desk, "eve", &badge("3")), None);
}

pub fn reservations_outlive_the_process(place: &Place) {
    let desk = Desk::open(place, PEOPLE);
    desk.put("ada", &badge("1"));
    let desk = desk.reopen(place);
    assert_eq!(try_put(&desk, "bob", &badge("1")), refused_for("badge", "ada"));
}
