//! Links between collections: fields whose values are keys of other records.

use super::assemble::Draft;
use super::names::{has_word, words};
use super::{FieldPlan, GuessedTable, KeyPlan, LinkPlan};
use crate::column::ColumnProfile;
use stook_catalogue::value::FieldType;

/// Words of columns that name another record of the same collection.
const ABOVE: [&str; 10] = ["parent", "manager", "supervisor", "boss", "reports", "predecessor", "successor", "superior", "mentor", "previous"];
/// The share of values that must be keys.
const CONTAINED: f64 = 0.9;
/// The same where names say that there is a link, so that some records may be missing.
const CONTAINED_BY_NAME: f64 = 0.6;

/// Adds the links of all collections.
pub(crate) fn add_links(drafts: &mut [Draft], tables: &[GuessedTable<'_>]) {
    let found: Vec<Vec<LinkPlan>> = (0..drafts.len()).map(|child| links_of(drafts, tables, child)).collect();
    for (draft, links) in drafts.iter_mut().zip(found) {
        draft.plan.links = links;
    }
}

fn links_of(drafts: &[Draft], tables: &[GuessedTable<'_>], child: usize) -> Vec<LinkPlan> {
    let mut links: Vec<LinkPlan> = Vec::new();
    let draft = &drafts[child];
    for field in &draft.plan.fields {
        let is_linkable = matches!(field.ty.element(), FieldType::Text | FieldType::Integer | FieldType::Uuid) && field.ty.members().is_empty();
        let is_key = draft.plan.key == KeyPlan::Field(field.name.clone());
        if !is_linkable || is_key && draft.sources.len() > 1 {
            continue;
        }
        let best = (0..drafts.len()).filter_map(|parent| to(drafts, tables, (child, field), parent)).max_by(|one, other| one.0.total_cmp(&other.0));
        if let Some((_, link)) = best {
            let is_taken = |name: &str| draft.plan.fields.iter().any(|field| field.name == name) || links.iter().any(|link| link.name == name);
            let name = link_name(field, &link.to, is_taken);
            links.push(LinkPlan { name, ..link });
        }
    }
    links
}

/// A name for a link: what the field is called without its ending, or what it leads to.
fn link_name(field: &FieldPlan, to: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let without = ["_id", "_code", "_key", "_no", "_nr", "_ref"].iter().find_map(|ending| field.name.strip_suffix(ending)).unwrap_or(to);
    let singular = super::names::singular(&field.name);
    let candidates = [without.to_owned(), to.to_owned(), format!("{singular}_record")];
    let free = candidates.into_iter().find(|name| !is_taken(name) && !["key", "tag"].contains(&name.as_str()));
    super::names::free(&free.unwrap_or_else(|| format!("{}_link", field.name)), is_taken)
}

/// A link of a field to a collection, with how much speaks for it.
fn to(drafts: &[Draft], tables: &[GuessedTable<'_>], (child, field): (usize, &FieldPlan), parent: usize) -> Option<(f64, LinkPlan)> {
    let target = &drafts[parent].plan;
    let mut best: Option<(f64, LinkPlan)> = None;
    for key in &target.fields {
        let is_key = target.key == KeyPlan::Field(key.name.clone());
        let is_same_field = child == parent && key.name == field.name;
        let is_type = key.ty == *field.ty.element() || key.ty == FieldType::Text && field.ty.element() == &FieldType::Integer;
        if is_same_field || !is_type || key.ty.is_list() {
            continue;
        }
        let (own, theirs) = (columns(drafts, tables, (child, field)), columns(drafts, tables, (parent, key)));
        let is_unique = !theirs.is_empty() && theirs.iter().all(|column| column.distinct.is_unique());
        let (Some(values), true) = (own.first(), is_unique) else { continue };
        let contained = theirs.iter().map(|column| values.distinct.overlap(&column.distinct).contained()).fold(0.0, f64::max);
        let names = names_say(&words(&field.name), &words(&key.name), &words(&target.name), child == parent);
        // that a column has the values of another one of the same rows shows no link
        let is_named = names >= 1.0 || is_key && child != parent;
        if !is_named || !is_enough(values, theirs[0], contained, names) {
            continue;
        }
        let share = (contained * 100.0).floor();
        let mut notes = vec![format!("{share} % of its values are in `{}.{}`", target.name, key.name)];
        if names < 1.0 {
            notes.push("the names do not say so; remove the link if it is none".to_owned());
        }
        let same = (!is_key).then(|| key.name.clone());
        let plan = LinkPlan { name: String::new(), to: target.name.clone(), from: field.name.clone(), same, notes };
        let strength = contained + names + if is_key { 0.5 } else { 0.0 };
        if best.as_ref().is_none_or(|(found, _)| strength > *found) {
            best = Some((strength, plan));
        }
    }
    best
}

fn columns<'t>(drafts: &[Draft], tables: &[GuessedTable<'t>], (collection, field): (usize, &FieldPlan)) -> Vec<&'t ColumnProfile> {
    let origins = drafts[collection].origins.get(&field.name).map(Vec::as_slice).unwrap_or_default();
    origins.iter().map(|(table, entry)| &tables[*table].table.columns[tables[*table].entries[*entry].column]).collect()
}

/// How much the names speak for a link: 0 for nothing, 1 and more for a link.
fn names_say(field: &[String], key: &[String], target: &[String], is_same_collection: bool) -> f64 {
    let names_target = target.last().is_some_and(|last| field.iter().any(|word| word == last || super::names::singular(word) == *last));
    let is_generic = |word: &String| ["id", "code", "name", "key", "no", "nr", "number", "title"].contains(&word.as_str());
    let is_key_name = field == key && !key.iter().all(is_generic) || field.len() > key.len() && field.ends_with(key) && !key.iter().all(is_generic);
    match () {
        () if is_same_collection => {
            f64::from(u8::from(has_word(field, &ABOVE) || names_target && field != key && field.len() > 1 && field.ends_with(key)))
        }
        () if names_target && field.ends_with(key) => 2.0,
        () if names_target => 1.5,
        () if is_key_name => 1.0,
        () => 0.0,
    }
}

fn is_enough(values: &ColumnProfile, keys: &ColumnProfile, contained: f64, names: f64) -> bool {
    if names >= 1.0 {
        return contained >= CONTAINED_BY_NAME;
    }
    // short codes and small numbers are in many columns
    let is_specific = values.mean_length() >= 4.0 && values.numbers.count == 0;
    contained >= CONTAINED && is_specific && values.distinct.count() >= 3 && keys.distinct.count() >= 3
}
