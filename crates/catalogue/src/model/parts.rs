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
pub const LONGEST: usize = 200;

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
    pub fn of(collection: &'c Collection, contributor: &'c str) -> Option<Self> {
        let (_, part) = contributor.split_once(':')?;
        let (name, pattern) = part.split_once('=')?;
        let (field, _) = collection.field(name)?;
        let (list, member) = collection.member(field)?;
        Some(Self { list, member, pieces: pattern.split('*').collect() })
    }

    /// Whether the partial contribution covers an element.
    pub fn holds(&self, element: &Value) -> bool {
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
        let Some((_, behind)) = text.split_once(piece.as_ref()) else { return false };
        text = behind;
    }
    text.ends_with(last.as_ref())
}

/// Combines the partial contributions of each source into one. Retired ones do not count.
pub fn joined<'a>(catalogue: &Catalogue, collection: &Collection, contributions: &'a [Contribution]) -> Cow<'a, [Contribution]> {
    let mut parted: Vec<&str> = contributions.iter().filter(|own| is_part(catalogue, own)).map(Contribution::source).collect();
    if parted.is_empty() {
        return Cow::Borrowed(contributions);
    }
    parted.dedup();
    let whole = contributions.iter().filter(|own| !parted.contains(&own.source())).cloned();
    Cow::Owned(whole.chain(parted.iter().filter_map(|source| join(collection, source, contributions))).collect())
}

fn is_part(catalogue: &Catalogue, own: &Contribution) -> bool {
    own.contributor.contains(':') && catalogue.source(own.source()).is_some_and(|(_, source)| source.asks.is_some())
}

/// Removes partial contributions that a newer complete contribution of the same source replaces.
pub fn prune(catalogue: &Catalogue, contributions: &mut Vec<Contribution>) {
    let all = contributions.clone();
    contributions.retain(|own| {
        let newer = |other: &Contribution| *other.contributor == *own.source() && other.counts() && other.order() > own.order();
        !is_part(catalogue, own) || !all.iter().any(newer)
    });
}

/// A contribution, and the part it covers unless it is complete.
type Statement<'a> = (&'a Contribution, Option<PartialList<'a>>);

/// Combines the contributions of one source.
fn join(collection: &Collection, source: &str, contributions: &[Contribution]) -> Option<Contribution> {
    let own = contributions.iter().filter(|own| own.source() == source && own.counts());
    let mut counted: Vec<Statement<'_>> = own.map(|own| (own, PartialList::of(collection, &own.contributor))).collect();
    // a part of a list that the definition no longer has is ignored
    counted.retain(|(own, part)| part.is_some() || *own.contributor == *source);
    counted.sort_by_key(|(own, _)| own.order());
    // everything before the newest complete contribution is replaced by it
    let begin = counted.iter().rposition(|(_, part)| part.is_none()).unwrap_or(0);
    let counted = &counted[begin..];
    let newest = counted.iter().rev().map(|(own, _)| *own).find(|own| matches!(own.content, ContributionContent::Values(_)));
    let Some(newest) = newest else {
        return counted.first().filter(|(_, part)| part.is_none()).map(|(gone, _)| (*gone).clone());
    };
    let values = collection.fields.ids().map(|index| {
        if counted.iter().any(|(_, part)| part.as_ref().is_some_and(|part| part.list == index)) {
            return elements(collection, index, counted);
        }
        let said = |own: &'_ Statement<'_>| own.0.value(index).map(|(value, _)| value.clone());
        counted.iter().rev().find_map(said).unwrap_or_default()
    });
    let said = ContributionContent::Values(values.collect());
    Some(Contribution { contributor: newest.source().into(), content: said, raw: None, unreadable: Vec::new(), ..newest.clone() })
}

/// Returns the elements of a list that no newer contribution replaces; the contributions are ordered by age.
fn elements(collection: &Collection, list: FieldId, counted: &[Statement<'_>]) -> Value {
    let left = counted.iter().enumerate().filter_map(|(place, (own, _))| {
        let is_over = |element: &Value| {
            let mut newer = counted[place + 1..].iter().filter_map(|(_, part)| part.as_ref());
            newer.any(|part| part.list == list && part.holds(element))
        };
        let own: Vec<Value> = own.value(list)?.0.elements().iter().filter(|element| !is_over(element)).cloned().collect();
        Some(Value::List(own))
    });
    let (left, field): (Vec<Value>, _) = (left.collect(), &collection.fields[list]);
    match &field.survivorship {
        Survivorship::UnionBy(member) => union_by(&field.ty.members()[*member].name, &left),
        _ => union(&left),
    }
}
