//! What both stores share, independent of their SQL dialects.
//!
//! * [`store_schema`] compares the definition that a store was prepared for with the current one.
//! * [`row`] packs and reads parts of rows; [`pattern`] folds patterns and computes their trigrams.
//! * [`plan_parts`] is the common part of turning plans into SQL, [`listing`] that of journals and jobs.
//! * [`grouping`] is the statement of groups, [`combined`] that of conditions with `or` and `not`.
//! * [`backed_up`] is what a backup contains: tables and records that both stores have.
//! * [`change_feed`] finds the changes that writes make, and packs them.
//! * [`erasure`] finds what tells of an erased record in journals and changes.
//! * [`during`] compares partial dates.
//! * [`ranking`] is the rank of records that match words.
//! * [`record_counts`] keeps the numbers of records.
//! * [`geometry_filter`] compares geometries, which no database does here.
//! * [`unique`] decides which record gets the value of a unique field.
//! * [`mod@unit`] is the part of a unit's protocol that needs no SQL; [`tagging`] computes which records gain or lose tags;
//!   [`former`] is the common part of keeping former contributions.

pub mod audit;
pub mod backed_up;
pub mod change_feed;
pub mod combined;
pub mod during;
pub mod erasure;
pub mod former;
pub mod geometry_filter;
pub mod grouping;
pub mod linked;
pub mod listing;
pub mod pattern;
pub mod plan_parts;
pub mod ranking;
pub mod record_counts;
pub mod row;
pub mod store_schema;
pub mod tagging;
pub mod unique;
pub mod unit;
pub mod united;
pub mod views;
