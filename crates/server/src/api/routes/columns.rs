//! How declared routes find, compare and show columns of records.

use super::fragment::JsonFragment;
use crate::reads::ServedRecord;
use serde_json::Value as Json;
use std::borrow::Cow;
use stook_catalogue::definition::Collection;
use stook_catalogue::eval::json_to_cel;
use stook_catalogue::fold::fold;
use stook_catalogue::route::RecordColumn;
use stook_catalogue::survivorship::members_of;
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::PlanColumn;

pub fn cel_null() -> stook_catalogue::eval::CelValue {
    json_to_cel(&Json::Null)
}

pub fn column_named(collection: &Collection, name: &str) -> Option<RecordColumn> {
    if name == "key" {
        return Some(RecordColumn::Key);
    }
    let field = collection.field(name).map(|(index, _)| RecordColumn::Field(index));
    field.or_else(|| collection.state(name).map(|(index, _)| RecordColumn::State(index)))
}

/// Returns a value of a record as JSON; one of type json is passed on as the text that the record keeps.
pub fn shown<'l>(collection: &Collection, record: &ServedRecord, column: RecordColumn) -> JsonFragment<'l> {
    if let RecordColumn::Field(index) = column
        && collection.fields[index].golden_type() == &FieldType::Json
        && let Some(text) = record.text(index)
    {
        return JsonFragment::Text(text.into());
    }
    let (value, ty) = value_of(collection, record, column);
    JsonFragment::Json(value.to_json(ty))
}

pub fn value_of<'r>(collection: &'r Collection, record: &'r ServedRecord, column: RecordColumn) -> (Cow<'r, Value>, &'r FieldType) {
    match column {
        RecordColumn::Key => (Cow::Owned(Value::text(record.stored.key.as_str())), &FieldType::Text),
        RecordColumn::Field(index) => {
            let value =
                collection.member(index).map_or_else(|| record.field(index), |(list, member)| Cow::Owned(members_of(&record.field(list), member)));
            (value, collection.fields[index].golden_type())
        }
        RecordColumn::State(index) => (Cow::Borrowed(&record.stored.state[index]), &collection.states[index].ty),
    }
}

pub fn indexed(collection: &Collection, column: RecordColumn) -> bool {
    match column {
        RecordColumn::Key => true,
        RecordColumn::Field(index) => collection.fields[index].index.ordered,
        RecordColumn::State(index) => collection.states[index].index.ordered,
    }
}

/// Whether texts of a column are compared without regard to case, width and white space.
pub fn folds(collection: &Collection, column: RecordColumn) -> bool {
    matches!(column, RecordColumn::Field(index) if collection.fields[index].fold)
}

/// Returns the form of a value that such a column compares.
pub fn folded(value: &Value) -> Value {
    match value {
        Value::Text(text) => Value::text(fold(text)),
        other => other.clone(),
    }
}

/// Whether values of a type have the same order here as in a store.
pub fn has_order(ty: &FieldType) -> bool {
    !ty.is_list() && !matches!(ty, FieldType::Json | FieldType::Ranges | FieldType::Geometry)
}

pub fn plan_column(column: RecordColumn) -> PlanColumn {
    match column {
        RecordColumn::Key => PlanColumn::Key,
        RecordColumn::Field(index) => PlanColumn::Field(index),
        RecordColumn::State(index) => PlanColumn::State(index),
    }
}
