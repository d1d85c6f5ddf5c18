//! Shrinks a failing case: parts are left out as long as the case stays valid and still fails.

use super::case::Case;
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

/// Max time of shrinking.
const MAX_TIME: Duration = Duration::from_secs(90);

/// Returns the smallest case found for which `fails` still holds.
pub fn shrink(case: &Case, fails: &dyn Fn(&Case) -> bool) -> Case {
    let began = Instant::now();
    let mut best = case.clone();
    loop {
        let before = best.clone();
        let mut part_number = 0;
        // shrinking continues at the same position: earlier parts could not be left out
        while let Some(smaller) = smaller(&best, part_number) {
            if began.elapsed() > MAX_TIME {
                return best;
            }
            if smaller != best && fails(&smaller) {
                best = smaller;
            } else {
                part_number += 1;
            }
        }
        if best == before {
            return best;
        }
    }
}

/// Returns the case with part number `place` left out or simplified; `None` after the last part.
fn smaller(case: &Case, part_number: usize) -> Option<Case> {
    let mut remaining = part_number;
    for list in 0..2 {
        let length = if list == 0 { case.deliveries.len() } else { case.edits.len() };
        if remaining < length {
            let mut smaller = case.clone();
            if list == 0 {
                smaller.deliveries.remove(remaining);
            } else {
                smaller.edits.remove(remaining);
            }
            return Some(smaller);
        }
        remaining -= length;
    }
    for part in ["collections", "sources"] {
        let names: Vec<&String> = case.definition[part].as_object().into_iter().flat_map(|named| named.keys()).collect();
        if remaining < names.len() {
            return Some(without(case, part, names[remaining]));
        }
        remaining -= names.len();
    }
    let mut smaller = case.clone();
    for delivery in &mut smaller.deliveries {
        let mut documents = json!(delivery.documents);
        if leave_out_or_simplify(&mut documents, &mut remaining) {
            delivery.documents = documents.as_array().cloned().unwrap_or_default();
            return Some(smaller);
        }
    }
    for edit in &mut smaller.edits {
        if leave_out_or_simplify(&mut edit.body, &mut remaining) {
            return Some(smaller);
        }
    }
    leave_out_or_simplify(&mut smaller.definition, &mut remaining).then_some(smaller)
}

/// Returns the case without a collection or source, and without what feeds, reads or changes it.
fn without(case: &Case, part: &str, name: &str) -> Case {
    let mut smaller = case.clone();
    let remove = |tree: &mut Json, name: &str| {
        if let Some(entries) = tree.as_object_mut() {
            entries.shift_remove(name);
        }
    };
    remove(&mut smaller.definition[part], name);
    if part == "sources" {
        smaller.deliveries.retain(|delivery| delivery.source != name);
        return smaller;
    }
    smaller.edits.retain(|edit| edit.collection != name);
    for source in smaller.definition["sources"].as_object_mut().into_iter().flat_map(|sources| sources.values_mut()) {
        if let Some(feeds) = source["feeds"].as_array_mut() {
            feeds.retain(|feed| feed["into"] != name);
        }
    }
    smaller
}

/// Leaves out one member or element, larger parts first.
fn leave_out_or_simplify(tree: &mut Json, remaining: &mut usize) -> bool {
    match tree {
        Json::Object(entries) => {
            let names: Vec<String> = entries.keys().cloned().collect();
            for name in &names {
                if *remaining == 0 {
                    entries.shift_remove(name);
                    return true;
                }
                *remaining -= 1;
            }
            // `{ type: T }` means the same as T, and `{ path: P }` the same as P
            if let [(word, value)] = entries.iter().collect::<Vec<_>>().as_slice()
                && (*word == "type" || *word == "path")
            {
                if *remaining == 0 {
                    *tree = (*value).clone();
                    return true;
                }
                *remaining -= 1;
            }
            let Json::Object(entries) = tree else { return false };
            entries.iter_mut().any(|(_, value)| leave_out_or_simplify(value, remaining))
        }
        Json::Array(items) => {
            for index in 0..items.len() {
                if *remaining == 0 {
                    items.remove(index);
                    return true;
                }
                *remaining -= 1;
            }
            items.iter_mut().any(|item| leave_out_or_simplify(item, remaining))
        }
        _ => false,
    }
}
