//! Decides which record gets the value of a unique field. It is decided for all records of a unit at once: values that some of them give up are free
//! for the others, and of several records that claim the same value the one with the lowest key gets it. So the order in which a unit lists its
//! records, which differs when some were merged again, does not matter.

use crate::{RecordChange, RecordWrite};
use std::collections::{BTreeSet, HashMap};
use stook_catalogue::record::put_value;
use stook_catalogue::value::Value;

/// A value, as its hash.
pub type Digest = Vec<u8>;

/// The hash of a value; `None` for null.
pub fn digest(value: &Value) -> Option<Digest> {
    if value.is_null() {
        return None;
    }
    let mut bytes = Vec::new();
    put_value(&mut bytes, value);
    Some(blake3::hash(&bytes).as_bytes()[..16].to_vec())
}

/// Whether a write sets the unique fields of its record; other writes leave them as they are.
pub fn sets_unique_fields(write: &RecordWrite) -> bool {
    matches!(write.change, RecordChange::Put(_) | RecordChange::Delete)
}

/// The values that a record claims in the unique fields of its collection.
pub struct Claim<'k> {
    /// Its key.
    pub key: &'k str,
    /// The value by unique field; `None` if it claims none.
    pub values: Vec<Option<Digest>>,
}

/// The values of one unique field that are taken before the unit: at least all that its records have, and all that they claim.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// The key of the record that has the value, by value.
    pub holders: HashMap<Digest, String>,
}

/// A claim that cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The index of the claim.
    pub claim: usize,
    /// The index of the unique field.
    pub field: usize,
    /// The key of the record that has the value.
    pub holder: String,
}

/// Returns the claims that cannot be granted, in the order of the claims, because another record keeps or gets one of the values; and the values that
/// are taken after the unit. Both these and `before` are by unique field. Records whose claim is refused keep their values. The order of the claims
/// does not matter: they are granted in the order of their keys.
///
/// Cost: linear, for each round; there is another round whenever a refused record keeps a value that an earlier claim was granted.
pub fn decide(claims: &[Claim<'_>], before: &[Taken]) -> (Vec<Refusal>, Vec<Taken>) {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|claim| claims[*claim].key);
    let sorted: Vec<&Claim<'_>> = order.iter().map(|claim| &claims[*claim]).collect();
    let (mut refusals, taken) = decide_in_order(&sorted, before);
    refusals.iter_mut().for_each(|refusal| refusal.claim = order[refusal.claim]);
    refusals.sort_by_key(|refusal| refusal.claim);
    (refusals, taken)
}

fn decide_in_order(claims: &[&Claim<'_>], before: &[Taken]) -> (Vec<Refusal>, Vec<Taken>) {
    let mut refused: BTreeSet<usize> = BTreeSet::new();
    let mut taken = loop {
        match grant(claims, before, &mut refused) {
            Ok(taken) => break taken,
            Err(claim) => refused.insert(claim),
        };
    };
    // the obstacle of a refused claim may have been refused itself
    while let Some(claim) = refused.iter().copied().find(|claim| obstacle(claims[*claim], &taken).is_none()) {
        refused.remove(&claim);
        let granted = claims[claim];
        for (taken, value) in taken.iter_mut().zip(&granted.values) {
            taken.holders.retain(|_, holder| holder != granted.key);
            taken.holders.extend(value.clone().map(|value| (value, granted.key.to_owned())));
        }
    }
    let refusal = |claim: usize| obstacle(claims[claim], &taken).map(|(field, holder)| Refusal { claim, field, holder: holder.to_owned() });
    let refusals = refused.into_iter().filter_map(refusal).collect();
    (refusals, taken)
}

/// The first field of a claim whose value another record has, and the key of that record.
fn obstacle<'t>(claim: &Claim<'_>, taken: &'t [Taken]) -> Option<(usize, &'t str)> {
    claim.values.iter().enumerate().find_map(|(field, value)| {
        let holder = taken[field].holders.get(value.as_ref()?).filter(|holder| *holder != claim.key)?;
        Some((field, holder.as_str()))
    })
}

/// Grants claims one after the other, except those known to be refused, and adds newly refused ones to `refused`; returns the values that are then
/// taken. Fails with a claim that is refused if its record keeps a value that an earlier claim was granted.
fn grant(claims: &[&Claim<'_>], before: &[Taken], refused: &mut BTreeSet<usize>) -> Result<Vec<Taken>, usize> {
    let mut taken = before.to_vec();
    let granted: Vec<usize> = (0..claims.len()).filter(|claim| !refused.contains(claim)).collect();
    let changing: HashMap<&str, &Claim<'_>> = granted.iter().map(|claim| (claims[*claim].key, claims[*claim])).collect();
    // a value that a record gives up is free, a value that it keeps is not
    let mut given_up: HashMap<&str, Vec<(usize, &Digest)>> = HashMap::new();
    for (field, (taken, before)) in taken.iter_mut().zip(before).enumerate() {
        for (value, holder) in &before.holders {
            if changing.get(holder.as_str()).is_some_and(|claim| claim.values[field].as_ref() != Some(value)) {
                taken.holders.remove(value);
                given_up.entry(holder).or_default().push((field, value));
            }
        }
    }
    let mut newly_refused = Vec::new();
    for index in granted {
        let claim = claims[index];
        if obstacle(claim, &taken).is_none() {
            for (taken, value) in taken.iter_mut().zip(&claim.values) {
                taken.holders.extend(value.clone().map(|value| (value, claim.key.to_owned())));
            }
            continue;
        }
        newly_refused.push(index);
        for (field, value) in given_up.get(claim.key).into_iter().flatten() {
            if taken[*field].holders.contains_key(*value) {
                return Err(index);
            }
            taken[*field].holders.insert((*value).clone(), claim.key.to_owned());
        }
    }
    refused.extend(newly_refused);
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claims(wanted: &[(&'static str, &[u8])]) -> Vec<Claim<'static>> {
        wanted.iter().map(|(key, value)| Claim { key, values: vec![(!value.is_empty()).then(|| value.to_vec())] }).collect()
    }

    fn taken(holders: &[(&[u8], &str)]) -> Vec<Taken> {
        vec![Taken { holders: holders.iter().map(|(value, key)| (value.to_vec(), (*key).to_owned())).collect() }]
    }

    #[test]
    fn two_records_swap_their_values() {
        let (refusals, state) = decide(&claims(&[("a", b"y"), ("b", b"x")]), &taken(&[(b"x", "a"), (b"y", "b")]));
        assert_eq!(refusals, []);
        assert_eq!(state[0].holders, taken(&[(b"y", "a"), (b"x", "b")])[0].holders);
    }

    #[test]
    fn a_value_that_is_given_up_is_free_in_any_order() {
        for wanted in [[("a", b"z".as_slice()), ("b", b"x")], [("b", b"x"), ("a", b"z")], [("a", b""), ("b", b"x")], [("b", b"x"), ("a", b"")]] {
            assert_eq!(decide(&claims(&wanted), &taken(&[(b"x", "a")])).0, []);
        }
    }

    #[test]
    fn a_value_that_a_refused_record_keeps_is_not_granted() {
        // c keeps z, so a keeps y, so b does not get it
        let (refusals, state) = decide(&claims(&[("b", b"y"), ("a", b"z")]), &taken(&[(b"y", "a"), (b"z", "c")]));
        let refusal = |claim, holder: &str| Refusal { claim, field: 0, holder: holder.into() };
        assert_eq!(refusals, [refusal(0, "a"), refusal(1, "c")]);
        assert_eq!(state[0].holders, taken(&[(b"y", "a"), (b"z", "c")])[0].holders);
    }

    #[test]
    fn of_two_claims_of_one_value_that_of_the_lower_key_is_granted_in_any_order() {
        for (claim, wanted) in [(1, [("a", b"x".as_slice()), ("b", b"x")]), (0, [("b", b"x"), ("a", b"x")])] {
            assert_eq!(decide(&claims(&wanted), &taken(&[])).0, [Refusal { claim, field: 0, holder: "a".into() }]);
        }
    }

    const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    proptest! {
        /// After a unit no value has two holders, refused records have the values they had, others those they claim, and every holder that is named
        /// has the value.
        #[test]
        fn every_record_ends_with_the_value_it_was_granted(
            taken_values in prop::collection::vec((0_usize..6, 0_u8..6), 0..12),
            wanted in prop::collection::vec((prop::option::of(0_u8..6), prop::option::of(0_u8..6)), 6),
            order in Just((0..4_usize).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            // each key has at most one value of each field
            let mut before = vec![Taken::default(), Taken::default()];
            for (position, (key, value)) in taken_values.iter().enumerate() {
                let holders = &mut before[position % 2].holders;
                if holders.values().all(|holder| holder != KEYS[*key]) {
                    holders.entry(vec![*value]).or_insert_with(|| KEYS[*key].to_owned());
                }
            }
            let claims: Vec<Claim<'_>> = order
                .iter()
                .map(|key| Claim { key: KEYS[*key], values: vec![wanted[*key].0.map(|value| vec![value]), wanted[*key].1.map(|value| vec![value])] })
                .collect();
            let (refusals, state) = decide(&claims, &before);
            let mut listed_by_key: Vec<Claim<'_>> = claims.iter().map(|claim| Claim { key: claim.key, values: claim.values.clone() }).collect();
            listed_by_key.sort_by_key(|claim| claim.key);
            let sorted_result = decide(&listed_by_key, &before);
            let keys = |claims: &[Claim<'_>], refusals: &[Refusal]| refusals.iter().map(|refusal| claims[refusal.claim].key.to_owned()).collect::<BTreeSet<_>>();
            let refused_keys = keys(&claims, &refusals);
            prop_assert_eq!(refused_keys, keys(&listed_by_key, &sorted_result.0), "the order of the list decides nothing");
            let has = |state: &[Taken], field: usize, key: &str| -> Option<Digest> {
                let mut values = state[field].holders.iter().filter(|(_, holder)| *holder == key).map(|(value, _)| value.clone());
                let first = values.next();
                assert!(values.next().is_none(), "{key} has two values");
                first
            };
            for (index, claim) in claims.iter().enumerate() {
                let refusal = refusals.iter().find(|refusal| refusal.claim == index);
                for field in 0..2 {
                    let expected = if refusal.is_some() { has(&before, field, claim.key) } else { claim.values[field].clone() };
                    prop_assert_eq!(has(&state, field, claim.key), expected);
                }
                if let Some(refusal) = refusal {
                    let value = claim.values[refusal.field].clone().expect("a value is wanted");
                    prop_assert_eq!(state[refusal.field].holders.get(&value), Some(&refusal.holder));
                }
            }
            // records that are not in the unit keep their values
            for key in &KEYS[4..] {
                for field in 0..2 {
                    prop_assert_eq!(has(&state, field, key), has(&before, field, key));
                }
            }
        }

        /// If no two records claim the same value and no other record has it, nothing is refused.
        #[test]
        fn claims_without_contradictions_are_all_granted_in_any_order(order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(), goal in Just((0..6_u8).collect::<Vec<_>>()).prop_shuffle()) {
            let before = vec![Taken { holders: KEYS.iter().zip(0_u8..).map(|(key, value)| (vec![value], (*key).to_owned())).collect() }];
            let claims: Vec<Claim<'_>> = order.iter().map(|key| Claim { key: KEYS[*key], values: vec![Some(vec![goal[*key]])] }).collect();
            prop_assert_eq!(decide(&claims, &before).0, []);
        }
    }
}
