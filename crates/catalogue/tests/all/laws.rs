//! The laws of consolidation, over random sets of contributions.

use proptest::prelude::*;
use std::collections::BTreeMap;
use stook_catalogue::definition::{API_NAME, Catalogue, SourceRef};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::parse::parse;
use stook_catalogue::parts::{matches, prune};
use stook_catalogue::record::{
    Contribution, ContributionContent, ContributionOrigin, Correction, PreviousContribution, Reception, Retirement, UnreadableField, pack, unpack,
};
use stook_catalogue::survivorship::Consolidator;
use stook_catalogue::value::{Value, ranges_of, struct_of};

fn catalogue() -> Catalogue {
    parse(
        "\
catalogue: laws
sources:
  a: { format: json, into: x, as_of: meta.received }
  b: { format: json, into: x, as_of: meta.received }
  c: { format: json, into: x, as_of: meta.received }
collections:
  x:
    key: k
    fields:
      k: text
      newest: text
      oldest: { type: text, survivorship: earliest }
      trusted: { type: text, survivorship: { prefer: [b, a], then: latest } }
      all: { type: [text], survivorship: union }
      each: { type: integer, survivorship: by_contributor }
      only: { type: text, from: [c] }
      flagged: { type: text, compare: true }
      spots: { type: [{ at: text, n: integer, seen: ranges }], by: at, index: { n: equal } }
      derived: { type: text, derive: \"coalesce(trusted, newest, 'none')\" }
      who: { type: [text], derive: sources }
      many: { type: integer, derive: size(who) }
",
    )
    .unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn stated_value() -> impl Strategy<Value = Value> {
    prop_oneof![1 => Just(Value::Cleared), 4 => "[xyz]".prop_map(Value::text)]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), Just(Value::Cleared), "[xyz]".prop_map(Value::text)]
}

fn spot(at: Option<String>, n: Option<i64>, seen: i64) -> Value {
    let catalogue = catalogue();
    let members = catalogue.collections[CollectionId::from(0)].field("spots").expect("spots").1.ty.members().to_vec();
    let seen = ranges_of((0..seen).map(|number| (number * 2, number * 2)).collect());
    struct_of(&members, [at.map_or(Value::Null, Value::text), n.map_or(Value::Null, Value::Int), seen])
}

/// What an edit says of some fields: which values of others it corrects, if any.
fn corrections() -> impl Strategy<Value = Vec<Correction>> {
    let contributor = prop_oneof![Just("a"), Just("b"), Just("b:north"), Just("c")];
    let corrects = proptest::option::of(proptest::collection::vec((contributor.prop_map(Into::into), stated_value()), 0..4));
    let correction = (proptest::sample::select(CORRECTED.to_vec()), proptest::option::of("[rs]{0,2}"), corrects);
    proptest::collection::vec(correction, 0..5).prop_map(|corrections| {
        let corrections = corrections.into_iter().map(|(field, reason, corrects)| {
            (field, Correction { field: FieldId::from(field), caller: "someone".into(), at: 7, reason: reason.map(Into::into), corrects })
        });
        corrections.collect::<BTreeMap<_, _>>().into_values().collect()
    })
}

/// The fields that edits correct: newest, oldest, trusted, only, flagged.
const CORRECTED: [usize; 5] = [1, 2, 3, 6, 7];

prop_compose! {
    fn contribution()(
        contributor in prop_oneof![Just("a"), Just("b"), Just("b:north"), Just("b:south"), Just("c"), Just(API_NAME), Just(API_NAME)],
        as_of in 0i64..5,
        hash in 0u8..3,
        is_tombstone in proptest::bool::weighted(0.15),
        texts in proptest::collection::vec(value(), 5),
        list in proptest::collection::vec("[pqr]".prop_map(Value::text), 0..3),
        spots in proptest::collection::vec((proptest::option::of("[st]"), proptest::option::of(0i64..3), 0i64..4), 0..3),
        number in proptest::option::of(0i64..3),
        retired in proptest::sample::select(vec![Retirement::None, Retirement::None, Retirement::None, Retirement::ByLaterDelivery, Retirement::OnArrival]),
        before in proptest::option::of((any::<bool>(), proptest::option::of((0u64..3, 1u64..3)), proptest::option::of(0i64..5))),
        received in proptest::option::of(0i64..3),
        (job, document) in (0u64..3, 1u64..3),
        unread in proptest::option::of((0i64..5, proptest::option::of(0i64..3), value())),
        corrections in corrections(),
    ) -> Contribution {
        let [newest, oldest, trusted, only, flagged]: [Value; 5] = texts.try_into().expect("five");
        let spots: Vec<Value> = spots.into_iter().map(|(at, n, seen)| spot(at, n, seen)).filter(|spot| !spot.is_null()).collect();
        let spots = if spots.is_empty() { Value::Null } else { Value::List(spots) };
        let list = if list.is_empty() { Value::Null } else { Value::List(list) };
        let values = vec![Value::text("k"), newest, oldest, trusted, list, number.map_or(Value::Null, Value::Int), only, flagged, spots, Value::Null];
        // derived fields, and members
        let values = values.into_iter().chain(vec![Value::Null; 5]).collect::<Vec<_>>();
        Contribution {
            contributor: contributor.into(), as_of, received, hash: [hash; 16], generation: 1, origin: ContributionOrigin { job, document },
            before: before.map(|(retired, origin, received)| {
                let origin = origin.map(|(job, document)| ContributionOrigin { job, document });
                PreviousContribution { as_of: as_of - 1, received, hash: [hash; 16], generation: 7, retired, deletes: retired ^ origin.is_some(), origin }
            }),
            retired,
            content: if is_tombstone { ContributionContent::Tombstone } else { ContributionContent::Values(values.into()) }, raw: None,
            unreadable: unread.into_iter().map(|(as_of, received, value)| {
                let received = received.map(|at| Reception { at, origin: ContributionOrigin { job, document } });
                UnreadableField { as_of, received, hash: [hash; 16], value, ..UnreadableField::new(FieldId::from(1)) }
            }).collect(),
            corrections: if contributor == API_NAME && !is_tombstone { corrections } else { Vec::new() },
        }
    }
}

/// Returns each contributor's newest contribution.
fn newest_per_contributor(all: &[Contribution]) -> Vec<Contribution> {
    let mut newest: Vec<Contribution> = Vec::new();
    for contribution in all {
        match newest.iter_mut().find(|existing| existing.contributor == contribution.contributor) {
            Some(existing) if existing.age() < contribution.age() => *existing = contribution.clone(),
            Some(_) => {}
            None => newest.push(contribution.clone()),
        }
    }
    newest
}

/// Makes contributions of equal age equal, as in reality, where the hash is that of the content.
fn consistent(mut all: Vec<Contribution>) -> Vec<Contribution> {
    for index in 0..all.len() {
        let twin = all[..index].iter().find(|other| other.age() == all[index].age() && other.contributor == all[index].contributor);
        let twin = twin.map(|twin| (twin.content.clone(), twin.retired, twin.unreadable.clone(), twin.corrections.clone()));
        if let Some((content, retired, unreadable, corrections)) = twin {
            (all[index].content, all[index].retired, all[index].unreadable) = (content, retired, unreadable);
            all[index].corrections = corrections;
        }
    }
    all
}

/// Makes a catalogue with a source that may contribute to `spots` partially.
fn fetched_catalogue() -> Catalogue {
    parse(
        "\
catalogue: parts
services: { far: { url: http://localhost } }
sources:
  s:
    format: json
    into: x
    as_of: meta.received
    asks: { service: far, calls: { all: { get: /all, args: { at: { field: spots.at, takes: pattern } } } } }
collections:
  x: { key: k, fields: { k: text, note: integer, spots: { type: [{ at: text, n: integer }], by: at, index: { at: equal } } } }
",
    )
    .unwrap_or_else(|problems| panic!("{problems:?}"))
}

proptest! {
    /// For each element of a list, the newest contribution counts that covers it.
    #[test]
    fn partial_contributions_are_joined_to_the_complete_list(
        steps in proptest::collection::vec((proptest::sample::select(vec!["", "a", "ab", "b", "a*", "*b", "*"]), 0usize..6, any::<bool>()), 1..12),
        order in any::<u64>(),
    ) {
        let catalogue = fetched_catalogue();
        let collection = &catalogue.collections[CollectionId::from(0)];
        let (list, members) = collection.field("spots").map(|(list, field)| (list, field.ty.members().to_vec())).expect("spots");
        let names = ["a", "ab", "b", "bb", "c"];
        let fits = |pattern: &str, name: &str| pattern.is_empty() || matches(&pattern.split('*').collect::<Vec<_>>(), name);
        // what the service knows over time, and what was last fetched of it
        let mut truth = std::collections::BTreeMap::<&str, i64>::new();
        let mut expected = std::collections::BTreeMap::<&str, i64>::new();
        let mut all = Vec::new();
        for (time, (pattern, name_index, is_present)) in steps.iter().enumerate() {
            if let Some(name) = names.get(*name_index) {
                if *is_present { truth.insert(name, time as i64); } else { truth.remove(name); }
            }
            let reported: Vec<(&str, i64)> = truth.iter().filter(|(name, _)| fits(pattern, name)).map(|(name, n)| (*name, *n)).collect();
            let is_tombstone = reported.is_empty() && !pattern.is_empty();
            expected.retain(|name, _| !fits(pattern, name));
            expected.extend(reported.iter().copied());
            let spots = reported.iter().map(|(name, n)| struct_of(&members, [Value::text(*name), Value::Int(*n)])).collect::<Vec<_>>();
            let mut values = vec![Value::Null; collection.fields.len()];
            values[..3].clone_from_slice(&[Value::text("k"), Value::Int(time as i64), if spots.is_empty() { Value::Null } else { Value::List(spots) }]);
            all.push(Contribution {
                contributor: if pattern.is_empty() { "s".into() } else { format!("s:spots.at={pattern}").into() },
                as_of: time as i64, received: None, hash: [time as u8; 16], generation: 1, origin: ContributionOrigin { job: time as u64, document: 1 },
                before: None, retired: Retirement::None, content: if is_tombstone { ContributionContent::Tombstone } else { ContributionContent::Values(values.into()) }, raw: None, unreadable: Vec::new(), corrections: Vec::new(),
            });
        }
        let mut contributions = newest_per_contributor(&all);
        contributions.sort_by(|a, b| a.contributor.cmp(&b.contributor));
        let evaluator = Evaluator::new(catalogue.tables.clone());
        let consolidator = Consolidator::new(&catalogue, collection, &evaluator);
        let golden = consolidator.golden_record(&contributions);
        let found: std::collections::BTreeMap<String, i64> = golden.values[list].elements().iter().map(|element| {
            let Value::Json(json) = element else { panic!("{element:?}") };
            (json["at"].as_str().expect("at").to_owned(), json["n"].as_i64().expect("n"))
        }).collect();
        let expected: std::collections::BTreeMap<String, i64> = expected.into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
        prop_assert_eq!(found, expected);
        // other values are those of the newest contribution with values
        let note = contributions.iter().filter(|contribution| matches!(contribution.content, ContributionContent::Values(_))).map(|contribution| contribution.as_of).max();
        prop_assert_eq!(golden.values[1].as_int(), note);
        // replaced contributions can be removed, and the order does not matter
        let mut pruned = contributions.clone();
        prune(&catalogue, &mut pruned);
        prop_assert_eq!(&consolidator.golden_record(&pruned).values, &golden.values);
        let turn = order as usize % contributions.len();
        contributions.rotate_left(turn);
        prop_assert_eq!(&consolidator.golden_record(&contributions).values, &golden.values);
    }

    #[test]
    fn golden_fields_depend_on_the_set_of_contributions_only(all in proptest::collection::vec(contribution(), 0..8), seed in any::<u64>()) {
        let catalogue = catalogue();
        let evaluator = Evaluator::new(catalogue.tables.clone());
        let consolidator = Consolidator::new(&catalogue, &catalogue.collections[CollectionId::from(0)], &evaluator);
        let all = consistent(all);
        let mut shuffled = all.clone();
        let mut state = seed;
        for index in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            shuffled.swap(index, (state >> 33) as usize % (index + 1));
        }
        let golden = consolidator.golden_record(&newest_per_contributor(&all));
        prop_assert_eq!(&golden, &consolidator.golden_record(&newest_per_contributor(&shuffled)));
        // adding contributions twice changes nothing
        let doubled: Vec<Contribution> = all.iter().chain(&all).cloned().collect();
        prop_assert_eq!(&golden, &consolidator.golden_record(&newest_per_contributor(&doubled)));
    }

    #[test]
    fn structs_with_one_key_are_merged_with_the_newest_value_of_each_member(all in proptest::collection::vec(contribution(), 0..8)) {
        let catalogue = catalogue();
        let collection = &catalogue.collections[CollectionId::from(0)];
        let (list, spots) = collection.field("spots").expect("spots");
        let evaluator = Evaluator::new(catalogue.tables.clone());
        let mut all = newest_per_contributor(&consistent(all));
        let golden = Consolidator::new(&catalogue, collection, &evaluator).golden_record(&all);
        all.retain(Contribution::counts);
        all.sort_by(|a, b| (a.age(), &a.contributor).cmp(&(b.age(), &b.contributor)));
        let elements = |contribution: &Contribution| match &contribution.content {
            ContributionContent::Values(values) => values[list].elements().to_vec(),
            ContributionContent::Tombstone => Vec::new(),
        };
        let mut merged: Vec<serde_json::Map<String, serde_json::Value>> = Vec::new();
        for json in all.iter().flat_map(elements).map(|spot| spot.to_json(spots.ty.element())) {
            let members = json.as_object().expect("a struct");
            let twin = merged.iter().position(|other| if members.contains_key("at") { other.get("at") == members.get("at") } else { other == members });
            match twin {
                Some(position) => merged[position].extend(members.clone()),
                None => merged.push(members.clone()),
            }
        }
        let expected = if merged.is_empty() { serde_json::Value::Null } else { serde_json::json!(merged) };
        prop_assert_eq!(golden.values[list].to_json(&spots.ty), expected);
        // members are separate fields, with one value for each struct that has one
        let (n, field) = collection.field("spots.n").expect("a member");
        let numbers: Vec<i64> = merged.iter().filter_map(|members| members.get("n")?.as_i64()).collect();
        let expected = if numbers.is_empty() { serde_json::Value::Null } else { serde_json::json!(numbers) };
        prop_assert_eq!(golden.values[n].to_json(&field.ty), expected);
    }

    #[test]
    fn sources_lists_the_contributing_sources(all in proptest::collection::vec(contribution(), 0..8)) {
        let catalogue = catalogue();
        let collection = &catalogue.collections[CollectionId::from(0)];
        let evaluator = Evaluator::new(catalogue.tables.clone());
        let all = newest_per_contributor(&consistent(all));
        let golden = Consolidator::new(&catalogue, collection, &evaluator).golden_record(&all);
        let contributes = |contribution: &&Contribution| contribution.counts() && matches!(contribution.content, ContributionContent::Values(_));
        let mut sources: Vec<Value> = all.iter().filter(contributes).map(|contribution| Value::text(contribution.source())).collect();
        sources.sort_by_key(|name| format!("{name:?}"));
        sources.dedup();
        prop_assert_eq!(golden.values[collection.field("who").expect("who").0].elements(), &sources[..]);
        // null has no size
        let source_count = golden.values[collection.field("many").expect("many").0].as_int();
        prop_assert_eq!(source_count, (!sources.is_empty()).then_some(sources.len() as i64));
    }

    #[test]
    fn withdrawing_a_fresh_contributor_restores_the_record(all in proptest::collection::vec(contribution(), 0..6), mut fresh in contribution()) {
        let catalogue = catalogue();
        let evaluator = Evaluator::new(catalogue.tables.clone());
        let consolidator = Consolidator::new(&catalogue, &catalogue.collections[CollectionId::from(0)], &evaluator);
        fresh.contributor = "a:fresh".into();
        let before = newest_per_contributor(&consistent(all));
        let golden = consolidator.golden_record(&before);
        let mut with = before.clone();
        with.push(fresh);
        let _ = consolidator.golden_record(&with);
        with.retain(|contribution| &*contribution.contributor != "a:fresh");
        prop_assert_eq!(golden, consolidator.golden_record(&with));
    }

    /// A correction holds as long as others give only the values that it corrects, or its own. Then its value is the golden one and there is no conflict;
    /// otherwise the golden value is that without it.
    #[test]
    fn a_correction_holds_until_a_source_gives_another_value(all in proptest::collection::vec(contribution(), 0..8)) {
        let catalogue = catalogue();
        let collection = &catalogue.collections[CollectionId::from(0)];
        let evaluator = Evaluator::new(catalogue.tables.clone());
        let consolidator = Consolidator::new(&catalogue, collection, &evaluator);
        let all = newest_per_contributor(&consistent(all));
        let golden = consolidator.golden_record(&all);
        let Some(own) = all.iter().find(|contribution| &*contribution.contributor == API_NAME && contribution.counts()) else { return Ok(()) };
        let others: Vec<Contribution> = all.iter().filter(|contribution| &*contribution.contributor != API_NAME).cloned().collect();
        let without = consolidator.golden_record(&others);
        for Correction { field, corrects, .. } in &own.corrections {
            let (Some(corrects), Some((value, _))) = (corrects, own.value(*field)) else { continue };
            // a field that edits may not contribute to
            if collection.fields[*field].from.as_ref().is_some_and(|from| !from.contains(&SourceRef::Api)) {
                continue;
            }
            let given = others.iter().filter(|contribution| contribution.counts());
            let mut given = given.filter_map(|contribution| Some((contribution.contributor.clone(), contribution.value(*field)?.0.clone())));
            let holds = given.all(|given| given.1 == *value || corrects.contains(&given));
            let expected = match (holds, value) {
                (true, Value::Cleared) => &Value::Null,
                (true, value) => value,
                (false, _) => &without.values[*field],
            };
            prop_assert_eq!(&golden.values[*field], expected);
            prop_assert_eq!(consolidator.contradicted_by(*field, &all).is_none(), holds);
            prop_assert!(!holds || !golden.conflicts.contains(field));
        }
    }

    #[test]
    fn retired_contributions_do_not_count(all in proptest::collection::vec(contribution(), 0..6)) {
        let catalogue = catalogue();
        let collection = &catalogue.collections[CollectionId::from(0)];
        let evaluator = Evaluator::new(catalogue.tables.clone());
        let consolidator = Consolidator::new(&catalogue, collection, &evaluator);
        let all = newest_per_contributor(&all);
        let counted: Vec<Contribution> = all.iter().filter(|contribution| contribution.counts()).cloned().collect();
        prop_assert_eq!(consolidator.golden_record(&all), consolidator.golden_record(&counted));
    }

    #[test]
    fn packed_contributions_come_back_equal(all in proptest::collection::vec(contribution(), 0..6)) {
        let catalogue = catalogue();
        let evaluator = Evaluator::new(catalogue.tables.clone());
        let collection = &catalogue.collections[CollectionId::from(0)];
        let contributions = newest_per_contributor(&consistent(all));
        let golden = Consolidator::new(&catalogue, collection, &evaluator).golden_record(&contributions);
        let packed = pack(&contributions, collection, &golden.values);
        prop_assert_eq!(unpack(&packed, collection, &golden.values, None).expect("readable"), contributions);
    }

    #[test]
    fn damaged_bytes_are_an_error_not_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let catalogue = catalogue();
        let golden = vec![Value::Null; catalogue.collections[CollectionId::from(0)].fields.len()];
        let _ = unpack(&bytes, &catalogue.collections[CollectionId::from(0)], &golden, None);
    }
}

/// A list of contributions as the version before receptions wrote it.
#[test]
fn contributions_of_earlier_versions_are_read_and_compare_as_before() {
    let catalogue = catalogue();
    let collection = &catalogue.collections[CollectionId::from(0)];
    let tombstone = |hash: u8, received: Option<i64>, job: u64| Contribution {
        contributor: "a".into(),
        as_of: 5,
        received,
        hash: [hash; 16],
        generation: 1,
        origin: ContributionOrigin { job, document: 2 },
        before: Some(PreviousContribution { as_of: 4, received: None, hash: [1; 16], generation: 1, retired: false, deletes: false, origin: None }),
        retired: Retirement::None,
        content: ContributionContent::Tombstone,
        raw: None,
        unreadable: vec![UnreadableField { as_of: 3, hash: [2; 16], ..UnreadableField::new(FieldId::from(1)) }],
        corrections: Vec::new(),
    };
    let golden = vec![Value::Null; collection.fields.len()];
    let stored = tombstone(8, None, 3);
    let mut written = vec![1 | 8, 1, b'a'];
    written.extend([5_i64.to_le_bytes().as_slice(), &[8; 16], &[1, 3, 2], &4_i64.to_le_bytes(), &[1; 16], &[1]].concat());
    let name = &collection.fields[FieldId::from(1)].name;
    written.extend([&[1, name.len() as u8], name.as_bytes(), &3_i64.to_le_bytes(), &[2; 16], &[0]].concat());
    let sum = crc32fast::hash(&written).to_le_bytes();
    let packed = pack(std::slice::from_ref(&stored), collection, &golden);
    let packed_before = [&[4, 1], written.as_slice(), &sum, &packed[packed.len() - 8..]].concat();
    assert_eq!(unpack(&packed_before, collection, &golden, None), Ok(vec![stored.clone()]));
    assert_eq!(unpack(&packed, collection, &golden, None), Ok(vec![stored.clone()]));
    // without receptions the content decides; with one, a contribution is newer than without
    assert!(stored.age() < tombstone(9, None, 1).age() && stored.age() > tombstone(7, None, 9).age());
    assert!(stored.age() < tombstone(0, Some(1), 1).age() && tombstone(9, Some(1), 1).age() < tombstone(0, Some(1), 2).age());
    assert!(tombstone(9, Some(1), 2).age() < tombstone(0, Some(2), 1).age());
}

/// Equal content with a newer time must move the time, or a late older document wins.
#[test]
fn a_newer_time_counts_even_when_the_content_is_equal() {
    let catalogue = catalogue();
    let evaluator = Evaluator::new(catalogue.tables.clone());
    let consolidator = Consolidator::new(&catalogue, &catalogue.collections[CollectionId::from(0)], &evaluator);
    let contribution = |contributor: &str, as_of: i64, text: &str| {
        let mut values = vec![Value::Null; 9];
        values[1] = Value::text(text);
        Contribution {
            contributor: contributor.into(),
            as_of,
            received: None,
            hash: [text.as_bytes()[0]; 16],
            generation: 1,
            origin: ContributionOrigin::default(),
            before: None,
            retired: Retirement::None,
            content: ContributionContent::Values(values.into()),
            raw: None,
            unreadable: Vec::new(),
            corrections: Vec::new(),
        }
    };
    let history = [contribution("a", 1, "A"), contribution("a", 3, "A"), contribution("b", 2, "B")];
    let golden = consolidator.golden_record(&newest_per_contributor(&history));
    assert_eq!(golden.values[1], Value::text("A"));
}
