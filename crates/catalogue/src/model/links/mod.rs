//! Relations between records: links, values read through them, rollups, coverage.
//!
//! A link belongs to the collection of the *child* and leads to one or several records of the *target*'s collection. The child's field with the
//! link's name holds the target's key, or a list of keys. An *edge* from the child carries what the target's rules need, so a target is settled from
//! its edges alone. If targets have no rules about children there are no edges, only the field. Edges carry only values that documents give a child,
//! never values read through a link, so that settling ends.

pub(super) mod coverage;
pub(super) mod derivation;
pub(super) mod link;
mod reads;
mod targets;

pub use coverage::{
    COVERAGE_FIELDS, Coverage, CoverageKind, CoverageTotal, GapRule, GroupedChildren, Measure, MeasureCase, OVERLAP_FIELDS, OverlapRule, RUN_FIELDS,
};
pub use derivation::{Derivation, Rollup, RollupFunction};
pub use link::{EqualFields, IntervalOverlap, Link, SeveralFound, TargetRule, id_of, members_of};
pub use reads::{LinkEnd, LinkedRead};
pub use targets::{KeyedLink, MAX_COMBINATIONS, MAX_COMPONENT, MAX_TARGETS, keys_to_list, list_field_in_key, target_by_template};
