//! Guesses a definition from profiles: what the files list, by which keys, with which types, and how they are linked.

mod assemble;
mod collect;
mod entries;
mod files;
mod keys;
mod links;
pub(crate) mod names;
mod rules;
mod together;
mod types;

pub use assemble::{column_types, propose};
pub use collect::{CollectPlan, NextPage, next_page};

use crate::table::{Note, TableProfile};
use entries::Entry;
use keys::KeyGuess;
use stook_catalogue::value::FieldType;
use types::ColumnType;

/// A proposed definition.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The catalogue's name.
    pub name: String,
    /// The profiles that it was guessed from.
    pub tables: Vec<TableProfile>,
    /// Constant tables of words for true and false.
    pub lookups: Vec<(String, Vec<(String, bool)>)>,
    /// A source for each table.
    pub sources: Vec<SourcePlan>,
    /// The collections.
    pub collections: Vec<CollectionPlan>,
}

/// A proposed source.
#[derive(Debug, Clone)]
pub struct SourcePlan {
    /// Its name.
    pub name: String,
    /// The position of its table.
    pub table: usize,
    /// The position of its collection.
    pub collection: usize,
    /// Patterns of the names of its files; empty if it is the only source of its format.
    pub files: Vec<String>,
    /// What its files have and others of the same name have not.
    pub has: Option<String>,
    /// Texts that expressions read, by name, with their paths.
    pub lets: Vec<(String, String)>,
    /// Where the fields get their values.
    pub map: Vec<(String, ValueSource)>,
    /// Where its documents are collected from, if they are not given as files.
    pub collect: Option<CollectPlan>,
}

/// Where a field gets its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueSource {
    /// A path.
    Path(String),
    /// A path, and further keywords of a rule with their values.
    Rule(String, Vec<(&'static str, String)>),
    /// An expression, and further keywords of a rule with their values.
    Expression(String, Vec<(&'static str, String)>),
    /// A path to structs, and the paths of their members.
    Structs(String, Vec<(String, ValueSource)>),
}

/// A proposed collection.
#[derive(Debug, Clone)]
pub struct CollectionPlan {
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: KeyPlan,
    /// Why that is the key, and what else it could be.
    pub key_notes: Vec<Note>,
    /// Its fields, in order.
    pub fields: Vec<FieldPlan>,
    /// Its links.
    pub links: Vec<LinkPlan>,
    /// Whether documents are kept byte for byte.
    pub keeps_documents: bool,
    /// Columns without a value, which have no field.
    pub empty: Vec<String>,
}

/// A proposed key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlan {
    /// A field.
    Field(String),
    /// Several fields.
    Template(String),
}

/// A proposed field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPlan {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
    /// How it is indexed.
    pub index: IndexPlan,
    /// Whether differences between sources are reported.
    pub compare: bool,
    /// What was guessed, and what the alternative is.
    pub notes: Vec<Note>,
    /// The names of the columns it is read from.
    pub columns: Vec<String>,
}

/// How a field is indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexPlan {
    /// Not.
    None,
    /// For equality and ranges.
    Equal,
    /// For words as people type them, and for the whole text.
    Searched,
    /// For words as people type them.
    Words,
    /// For geometries that meet.
    Intersects,
}

/// A proposed link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkPlan {
    /// Its name.
    pub name: String,
    /// The collection it leads to.
    pub to: String,
    /// The field with the values.
    pub from: String,
    /// The field of the linked collection that has them, if it is not its key.
    pub same: Option<String>,
    /// Why it is taken for a link.
    pub notes: Vec<Note>,
}

/// A table with what was guessed of it.
pub(crate) struct GuessedTable<'t> {
    pub(crate) table: &'t TableProfile,
    /// The guessed type of each column.
    pub(crate) types: Vec<ColumnType>,
    pub(crate) key: KeyGuess,
    /// What it lists, in the singular.
    pub(crate) thing: String,
    /// What becomes a field.
    pub(crate) entries: Vec<Entry>,
}
