//! What both stores do alike, whatever SQL they send.
//!
//! * [`shape`] compares the definition that a store was prepared for with the one at hand.
//! * [`row`] packs parts of rows and reads them; [`pattern`] folds patterns and takes their trigrams.
//! * [`plan_parts`] is what plans have in common on their way to SQL, [`listing`] what journals and jobs have.
//! * [`lies`] compares geometries, which no database does.
//! * [`unique`] decides who gets a value that only one record may have.
//! * [`mod@unit`] is the part of a unit's protocol that needs no SQL, [`tagging`] what a unit changes of who carries which tag.

pub mod lies;
pub mod listing;
pub mod pattern;
pub mod plan_parts;
pub mod row;
pub mod shape;
pub mod tagging;
pub mod unique;
pub mod unit;
