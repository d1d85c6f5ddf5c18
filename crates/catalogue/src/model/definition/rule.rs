//! Rules: how one value is taken from a document.

use crate::eval::Expression;
use crate::eval::functions::Cleaner;
use crate::model::path::Path;
use crate::value::FieldType;

/// How a value is taken from a document.
#[derive(Debug, Clone)]
pub struct ValueRule {
    /// Type of the result.
    pub ty: FieldType,
    /// Where it comes from.
    pub origin: ValueOrigin,
    /// One value per field instead of per subfield.
    pub each_field: bool,
    /// Separator that joins what was found.
    pub join: Option<String>,
    /// What each text that is found is cleaned by, one after the other.
    pub clean: Vec<&'static Cleaner>,
    /// Pattern or unit of times.
    pub format: Option<String>,
    /// Constant table that replaces the value.
    pub lookup: Option<String>,
    /// Conversion trouble fails the document.
    pub strict: bool,
    /// Depends on the envelope and so is left out of the content hash.
    pub reads_meta: bool,
}

/// Where a value comes from.
#[derive(Debug, Clone)]
pub enum ValueOrigin {
    /// The first of these paths that finds something.
    Paths(Vec<Path>),
    /// The constant beside the first path that finds something.
    Cases(Vec<(Path, String)>),
    /// A struct for each place that the path finds: of its members, by index, by rules on paths from there.
    Elements(Path, Vec<(usize, ValueRule)>),
    /// CEL.
    Expression(Expression),
    /// Groups of a pattern (index) matched against a `let` or field by name.
    Match {
        /// The pattern's index.
        pattern: usize,
        /// The value's name.
        of: String,
    },
}
