//! Partial answers: a service that is called with a condition on the elements of a list returns only the elements that satisfy it.
//!
//! The contributor of a partial contribution is `source:list.member=pattern`, with `*` for any text. A newer contribution of a source replaces older
//! ones as far as it reaches: the elements that satisfy its condition, or everything if it has none. So the combined contribution of the source does
//! not depend on the order in which the parts arrive.

use crate::model::definition::{Catalogue, Collection, Survivorship};
use crate::model::ids::FieldId;
use crate::model::record::{Contribution, ContributionContent};
use crate::model::union::{union, union_by};
use crate::value::{StructMember, Value, member_of};
use std::borrow::Cow;

/// Max bytes of a condition's value, because it becomes part of the contributor's name.
pub const MAX_VALUE_BYTES: usize = 200;

/// The part of a list that a partial contribution covers.
#[derive(Debug, Clone, PartialEq)]
pub struct PartialList<'c> {
    /// The list.
    pub list: FieldId,
    member: &'c StructMember,
    pieces: Vec<&'c str>,
}

impl<'c> PartialList<'c> {
    /// Parses a contributor's name; `None` if the contribution is not partial.
    pub fn from_contributor(collection: &'c Collection, contributor: &'c str) -> Option<Self> {
        let (_, part) = contributor.split_once(':')?;
        let (name, pattern) = part.split_once('=')?;
        let (field, _) = collection.field(name)?;
        let (list, member) = collection.member(field)?;
        Some(Self { list, member, pieces: pattern.split('*').collect() })
    }

    /// Whether the partial contribution covers an element.
    pub fn contains(&self, element: &Value) -> bool {
        let Value::Json(json) = element else { return false };
        match member_of(json, self.member) {
            Value::Null => false,
            Value::Text(text) => matches(&self.pieces, &text),
            value => matches(&self.pieces, &value.show(&self.member.ty)),
        }
    }
}

/// Returns the part of a contributor's name for elements whose member (a field) matches `pattern`.
pub fn name(collection: &Collection, field: FieldId, pattern: &str) -> String {
    format!("{}={pattern}", collection.fields[field].name)
}

/// Whether a text consists of these pieces in this order, with any text between two of them.
pub fn matches(pieces: &[impl AsRef<str>], text: &str) -> bool {
    let Some((first, rest)) = pieces.split_first() else { return false };
    let Some(mut text) = text.strip_prefix(first.as_ref()) else { return false };
    let Some((last, between)) = rest.split_last() else { return text.is_empty() };
    for piece in between {
        let Some((_, after)) = text.split_once(piece.as_ref()) else { return false };
        text = after;
    }
    text.ends_with(last.as_ref())
}

/// Combines the partial contributions of each source into one. Retired ones do not count.
pub fn joined<'a>(catalogue: &Catalogue, collection: &Collection, contributions: &'a [Contribution]) -> Cow<'a, [Contribution]> {
    let mut sources_with_parts: Vec<&str> =
        contributions.iter().filter(|contribution| is_part(catalogue, contribution)).map(Contribution::source).collect();
    if sources_with_parts.is_empty() {
        return Cow::Borrowed(contributions);
    }
    sources_with_parts.dedup();
    let undivided = contributions.iter().filter(|contribution| !sources_with_parts.contains(&contribution.source())).cloned();
    Cow::Owned(undivided.chain(sources_with_parts.iter().filter_map(|source| join(collection, source, contributions))).collect())
}

fn is_part(catalogue: &Catalogue, contribution: &Contribution) -> bool {
    contribution.contributor.contains(':') && catalogue.source(contribution.source()).is_some_and(|(_, source)| source.asks.is_some())
}

/// Removes partial contributions that a newer complete contribution of the same source replaces.
pub fn prune(catalogue: &Catalogue, contributions: &mut Vec<Contribution>) {
    let all = contributions.clone();
    contributions.retain(|contribution| {
        let newer = |other: &Contribution| *other.contributor == *contribution.source() && other.counts() && other.order() > contribution.order();
        !is_part(catalogue, contribution) || !all.iter().any(newer)
    });
}

/// A contribution, and the part it covers unless it is complete.
type CountedContribution<'a> = (&'a Contribution, Option<PartialList<'a>>);

/// Combines the contributions of one source.
fn join(collection: &Collection, source: &str, contributions: &[Contribution]) -> Option<Contribution> {
    let counted = contributions.iter().filter(|contribution| contribution.source() == source && contribution.counts());
    let mut counted: Vec<CountedContribution<'_>> =
        counted.map(|contribution| (contribution, PartialList::from_contributor(collection, &contribution.contributor))).collect();
    // a part of a list that the definition no longer has is ignored
    counted.retain(|(contribution, part)| part.is_some() || *contribution.contributor == *source);
    counted.sort_by_key(|(contribution, _)| contribution.order());
    // everything before the newest complete contribution is replaced by it
    let begin = counted.iter().rposition(|(_, part)| part.is_none()).unwrap_or(0);
    let counted = &counted[begin..];
    let newest = counted
        .iter()
        .rev()
        .map(|(contribution, _)| *contribution)
        .find(|contribution| matches!(contribution.content, ContributionContent::Values(_)));
    let Some(newest) = newest else {
        return counted.first().filter(|(_, part)| part.is_none()).map(|(tombstone, _)| (*tombstone).clone());
    };
    let values = collection.fields.ids().map(|field| {
        if counted.iter().any(|(_, part)| part.as_ref().is_some_and(|part| part.list == field)) {
            return elements(collection, field, counted);
        }
        let contributed = |contribution: &'_ CountedContribution<'_>| contribution.0.value(field).map(|(value, _)| value.clone());
        counted.iter().rev().find_map(contributed).unwrap_or_default()
    });
    let content = ContributionContent::Values(values.collect());
    Some(Contribution { contributor: newest.source().into(), content, raw: None, unreadable: Vec::new(), ..newest.clone() })
}

/// Returns the elements of a list that no newer contribution replaces; the contributions are ordered by age.
fn elements(collection: &Collection, list: FieldId, counted: &[CountedContribution<'_>]) -> Value {
    let elements_by_contribution = counted.iter().enumerate().filter_map(|(position, (contribution, _))| {
        let is_overruled = |element: &Value| {
            let mut newer = counted[position + 1..].iter().filter_map(|(_, part)| part.as_ref());
            newer.any(|part| part.list == list && part.contains(element))
        };
        let remaining: Vec<Value> = contribution.value(list)?.0.elements().iter().filter(|element| !is_overruled(element)).cloned().collect();
        Some(Value::List(remaining))
    });
    let (elements_by_contribution, field): (Vec<Value>, _) = (elements_by_contribution.collect(), &collection.fields[list]);
    match &field.survivorship {
        Survivorship::UnionBy(member) => union_by(&field.ty.members()[*member].name, &elements_by_contribution),
        _ => union(&elements_by_contribution),
    }
}
