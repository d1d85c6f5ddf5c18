//! Profiles files, and proposes a definition for them.
//!
//! * [`profile`] reads files and says how they are read, and what is in their columns: in bounded memory, whatever their size.
//! * [`propose`] guesses types, keys, what files have in common and links between them, from profiles alone.
//! * [`write_definition`] writes the proposal as `catalogue.yaml`, with a comment wherever something was guessed.

mod column;
mod distinct;
mod guess;
mod kind;
mod number;
mod read;
mod report;
mod separated;
mod table;
mod write;

pub use column::{ColumnProfile, NativeCounts, Numbers};
pub use distinct::{DistinctValues, EXACT, Overlap};
pub use guess::{
    CollectPlan, CollectionPlan, FieldPlan, IndexPlan, KeyPlan, LinkPlan, NextPage, Proposal, SourcePlan, ValueSource, column_types, next_page,
    propose,
};
pub use read::{FileGroup, Limits, ProfileError, group, profile};
pub use report::{PARTS, proposal_to_json, to_json};
pub use table::{Note, Reading, TableProfile};
pub use write::write_definition;
