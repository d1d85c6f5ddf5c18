//! Rules by which one value is taken from a document.

use crate::eval::Expression;
use crate::eval::functions::Cleaner;
use crate::model::path::Path;
use crate::value::FieldType;

/// A rule by which a value is taken from a document.
#[derive(Debug, Clone)]
pub struct ValueRule {
    /// Type of the result.
    pub ty: FieldType,
    /// Where it comes from.
    pub origin: ValueOrigin,
    /// Whether there is one value per MARC field instead of per subfield.
    pub each_field: bool,
    /// A separator; if given, all values found are joined to one.
    pub join: Option<String>,
    /// Functions that clean each text found, applied in order.
    pub clean: Vec<&'static Cleaner>,
    /// The formats of times, of which the first that fits counts: patterns or units.
    pub formats: Vec<String>,
    /// A constant table that replaces the value.
    pub lookup: Option<String>,
    /// Whether a value that cannot be converted fails the document.
    pub strict: bool,
    /// Whether it depends on the delivery rather than the document; it is then left out of the content hash.
    pub reads_meta: bool,
}

/// Where a value comes from.
#[derive(Debug, Clone)]
pub enum ValueOrigin {
    /// The first of these paths that finds something.
    Paths(Vec<Path>),
    /// The constant of the first path that finds something.
    Cases(Vec<(Path, String)>),
    /// A struct for each node that the path finds: its members, by position, are taken by rules relative to that node.
    Elements(Path, Vec<(usize, ValueRule)>),
    /// CEL.
    Expression(Expression),
    /// The groups of a pattern set matched against a `let` value or a field.
    Match {
        /// The position of the pattern set.
        pattern: usize,
        /// The value's name.
        of: String,
    },
}
