//! The values that expressions read.

use super::convert::CelValue;
use super::plain_value::PlainValue;

/// A member of a variable that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberReference {
    /// The variable.
    pub of: String,
    /// Its member.
    pub name: String,
}

/// The values over which an expression is evaluated, by name. A closure from names to CEL values is a scope, too.
pub trait Scope {
    /// Returns the value of a name, or of its member, if it is plain; on `None`, [`Scope::cel`] is called.
    fn plain(&self, name: &str, member: Option<&str>) -> Option<PlainValue<'_>>;

    /// Returns the value of a name as a CEL value; null if there is none. `read` are the members that the expression reads, or empty if it reads the
    /// variable as a whole.
    fn cel(&self, name: &str, read: &[MemberReference]) -> CelValue;
}

impl<F: Fn(&str) -> CelValue> Scope for F {
    fn plain(&self, _: &str, _: Option<&str>) -> Option<PlainValue<'_>> {
        None
    }

    fn cel(&self, name: &str, _: &[MemberReference]) -> CelValue {
        self(name)
    }
}
