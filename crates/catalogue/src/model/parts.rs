//! What a source says in part: asked for the elements of a list that satisfy a condition, a service answers with those, not the others.
//!
//! Such a statement's contributor is `source:list.member=pattern`, with `*` for any text. Of what one source says, a newer statement takes
//! the place of older ones as far as it goes: of the elements that satisfy its condition, or of everything where it has none. So what the
//! source says is a function of its statements, whatever order they came in.

use crate::model::definition::{Catalogue, Collection, Survivorship};
use crate::model::ids::FieldId;
use crate::model::record::{Contribution, ContributionContent};
use crate::model::union::{union, union_by};
use crate::value::{StructMember, Value, member_of};
use std::borrow::Cow;

/// Longest value of a condition, in bytes: contributors have names that people read.
pub const LONGEST: usize = 200;

/// Which elements of which list a statement has.
#[derive(Debug, Clone, PartialEq)]
pub struct PartialList<'c> {
    /// The list's index.
    pub list: FieldId,
    member: &'c StructMember,
    pieces: Vec<&'c str>,
}

impl<'c> PartialList<'c> {
    /// The part of a contributor's name; nothing for one that says everything.
    pub fn of(collection: &'c Collection, contributor: &'c str) -> Option<Self> {
        let (_, part) = contributor.split_once(':')?;
        let (name, pattern) = part.split_once('=')?;
        let (field, _) = collection.field(name)?;
        let (list, member) = collection.member(field)?;
        Some(Self { list, member, pieces: pattern.split('*').collect() })
    }

    /// Whether an element is one of those that the statement has.
    pub fn holds(&self, element: &Value) -> bool {
        let Value::Json(json) = element else { return false };
        match member_of(json, self.member) {
            Value::Null => false,
            Value::Text(text) => matches(&self.pieces, &text),
            value => matches(&self.pieces, &value.show(&self.member.ty)),
        }
    }
}

/// The part of a contributor's name for elements whose member, a field by index, is as `pattern` says.
pub fn name(collection: &Collection, field: FieldId, pattern: &str) -> String {
    format!("{}={pattern}", collection.fields[field].name)
}

/// Whether a text has these pieces in this order, any text between two of them.
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

/// Contributions with one for each source that says things in part: what it says altogether. Retired ones are left out of it.
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

/// Leaves out parts that a newer statement of everything has taken the place of.
pub fn prune(catalogue: &Catalogue, contributions: &mut Vec<Contribution>) {
    let all = contributions.clone();
    contributions.retain(|own| {
        let newer = |other: &Contribution| *other.contributor == *own.source() && other.counts() && other.order() > own.order();
        !is_part(catalogue, own) || !all.iter().any(newer)
    });
}

/// A contribution, and the part that it has if that is not everything.
type Statement<'a> = (&'a Contribution, Option<PartialList<'a>>);

/// What the statements of one source say altogether.
fn join(collection: &Collection, source: &str, contributions: &[Contribution]) -> Option<Contribution> {
    let own = contributions.iter().filter(|own| own.source() == source && own.counts());
    let mut counted: Vec<Statement<'_>> = own.map(|own| (own, PartialList::of(collection, &own.contributor))).collect();
    // a part of a list that the definition has no more says nothing
    counted.retain(|(own, part)| part.is_some() || *own.contributor == *source);
    counted.sort_by_key(|(own, _)| own.order());
    // everything before a statement of everything is over
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

/// The elements of a list that no newer statement has taken the place of; statements are in the order of their age.
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
