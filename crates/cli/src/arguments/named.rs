//! Values of options that are chosen by their names.

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Returns the value with this name.
pub fn one_of<T: Copy + Send + Sync>(all: &'static [(&'static str, T)]) -> impl TypedValueParser<Value = T> {
    let value_of = |name: String| all.iter().find(|(known, _)| *known == name).unwrap_or(&all[0]).1;
    PossibleValuesParser::new(all.iter().map(|(name, _)| *name)).map(value_of)
}
