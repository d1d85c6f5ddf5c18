//! The views `golden_COLLECTION`, in which other programs read golden records with SQL: what both stores have in common.
//!
//! | column | what it is |
//! |---|---|
//! | `_tenant` | the name of the tenant |
//! | `key` | the record's key |
//! | `FIELD`, `STATE` | golden values and state fields by their names; the types are those of `views.rs` in `sqlite` and `postgres` |
//! | `_conflict` | the names of the fields on which contributors disagree, if the collection compares some |
//! | `_changed` | when the record changed last |
//! | `_job` | the job that created it; 0 for an edit |
//!
//! A view has the records that exist for readers. Geometries have no column: no function of a database reads how they are stored. Views use built-in
//! functions only, so that every program that opens the database can read them. They are made again whenever their statements change.

use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::value::FieldType;

/// The name under which `meta` keeps [`stamp`].
pub const STAMP: &str = "views";

/// The name of a collection's view.
pub fn view_name(collection: &Collection) -> String {
    format!("golden_{}", collection.name)
}

/// A column of a view that shows a golden value or a state field.
pub struct ShownColumn<'c> {
    /// Its name.
    pub name: &'c str,
    /// The prefix of the column in which it is stored.
    pub prefix: &'static str,
    /// Its type.
    pub ty: &'c FieldType,
}

/// The columns of a collection's values, in the order of the definition.
pub fn shown_columns(collection: &Collection) -> impl Iterator<Item = ShownColumn<'_>> {
    let fields = collection.stored_fields().map(|(_, field)| ShownColumn { name: &field.name, prefix: "f", ty: field.golden_type() });
    let states = collection.states.iter().map(|state| ShownColumn { name: &state.name, prefix: "s", ty: &state.ty });
    fields.chain(states).filter(|column| !holds_geometry(column.ty))
}

fn holds_geometry(ty: &FieldType) -> bool {
    match ty {
        FieldType::Geometry => true,
        FieldType::List(element) => **element == FieldType::Geometry,
        _ => false,
    }
}

/// What tells whether a store has just these views, of columns of these types: a column that is shown as it is may become another one.
pub fn stamp(catalogue: &Catalogue, statements: &[String]) -> String {
    let mut hasher = blake3::Hasher::new();
    for (collection, statement) in catalogue.collections.iter().zip(statements) {
        hasher.update(statement.as_bytes());
        shown_columns(collection).for_each(|column| {
            hasher.update(format!("\n{}", column.ty).as_bytes());
        });
    }
    hasher.finalize().to_hex()[..32].to_owned()
}
