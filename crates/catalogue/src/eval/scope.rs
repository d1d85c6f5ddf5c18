//! Where expressions find their values.

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

/// The values over which an expression is evaluated, by name. A closure from names to CEL's values is one, too.
pub trait Scope {
    /// The value of a name, or of its member, as it is; nothing where that is not plain, or where there is no such value: then
    /// [`Scope::cel`] is asked.
    fn plain(&self, name: &str, member: Option<&str>) -> Option<PlainValue<'_>>;

    /// The value of a name as CEL has it; null where there is none. `read` has the members of variables that the expression
    /// reads, and is empty where it reads this one whole.
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
