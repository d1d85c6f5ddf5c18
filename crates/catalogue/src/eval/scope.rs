//! The values that expressions read.

use super::convert::CelValue;
use super::plain_value::PlainValue;
use std::sync::atomic::{AtomicU32, Ordering};

/// A member of a variable that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberReference {
    /// The variable.
    pub of: String,
    /// Its member.
    pub name: String,
}

/// A name in an expression, and where it was found last. An expression is evaluated for one record or document after the other, and what it names is in
/// the same position in each: comparing it with all names every time costs more than the rest of most expressions.
#[derive(Debug)]
pub struct Name {
    text: Box<str>,
    /// Only a guess, so no order of memory matters.
    last_position: AtomicU32,
}

impl Name {
    /// Wraps a text.
    pub fn new(text: &str) -> Self {
        Self { text: text.into(), last_position: AtomicU32::new(0) }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Finds the first item of this name, or the one where it was found last. Items must have different names.
    pub fn position<'i, T>(&self, items: &'i [T], name_of: impl Fn(&'i T) -> &'i str) -> Option<usize> {
        let last_position = self.last_position.load(Ordering::Relaxed) as usize;
        if items.get(last_position).is_some_and(|item| *name_of(item) == *self.text) {
            return Some(last_position);
        }
        let position = items.iter().position(|item| *name_of(item) == *self.text)?;
        self.last_position.store(u32::try_from(position).unwrap_or(0), Ordering::Relaxed);
        Some(position)
    }
}

impl Clone for Name {
    fn clone(&self) -> Self {
        Self::new(&self.text)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// The values over which an expression is evaluated, by name. A closure from names to CEL values is a scope, too.
pub trait Scope {
    /// Returns the value of a name, or of its member, if it is plain; on `None`, [`Scope::cel`] is called.
    fn plain(&self, name: &Name, member: Option<&Name>) -> Option<PlainValue<'_>>;

    /// Returns the value of a name as a CEL value; null if there is none. `read` are the members that the expression reads, or empty if it reads the
    /// variable as a whole.
    fn cel(&self, name: &str, read: &[MemberReference]) -> CelValue;
}

impl<F: Fn(&str) -> CelValue> Scope for F {
    fn plain(&self, _: &Name, _: Option<&Name>) -> Option<PlainValue<'_>> {
        None
    }

    fn cel(&self, name: &str, _: &[MemberReference]) -> CelValue {
        self(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_wherever_it_is_whatever_was_found_before() {
        let name = Name::new("b");
        let position = |names: &'static [&'static str]| name.position(names, |name| name);
        for (names, expected) in [(&["a", "b"][..], Some(1)), (&["a", "c"], None), (&["b", "a"], Some(0)), (&[], None), (&["a", "c", "b"], Some(2))] {
            assert_eq!(position(names), expected, "{names:?}");
            assert_eq!(position(names), expected, "{names:?} again");
        }
    }
}
