//! Collections: how their records are made and identified.

use super::composition::Composition;
use super::field::Field;
use super::publish::Publication;
use super::tags::{TagDocument, TagSettings};
use super::transition::{StateField, Transition};
use crate::eval::{Expression, Name};
use crate::model::ids::{FieldId, IdVec};
use crate::model::key::Template;
use crate::model::links::derivation::Derivation;
use crate::value::{StructMember, Value};
use serde_json::{Map, Value as Json};
use std::time::Duration;

/// A named set of records.
#[derive(Debug, Clone)]
pub struct Collection {
    /// Its name.
    pub name: String,
    /// How keys are made.
    pub key: KeyDefinition,
    /// The key rule as written, to compare it with the definition that a store was prepared with.
    pub key_text: String,
    /// The field by which people call a record.
    pub title: Option<FieldId>,
    /// Whether contributions keep their documents.
    pub keep_raw: bool,
    /// What decides whether a record exists.
    pub exists: ExistenceRule,
    /// How many changes of a record's golden values its change log keeps.
    pub history: Option<u32>,
    /// How long its changes can be followed; `None` if they are not kept.
    pub changes: Option<Duration>,
    /// Contributed and derived fields.
    pub fields: IdVec<FieldId, Field>,
    /// Fields that only transitions write.
    pub states: Vec<StateField>,
    /// Named changes of state.
    pub transitions: Vec<Transition>,
    /// Whether, and how, records carry tags.
    pub tags: Option<TagSettings>,
    /// How the MARC records of its records are composed; without it they are the newest documents.
    pub compose: Option<Composition>,
    /// How its records are shown to other systems, if they are published.
    pub publish: Option<Publication>,
    /// The coverage, by position, whose rows these records are.
    pub rows_of: Option<usize>,
}

impl Collection {
    /// Returns the field that is the key, if the key is one field.
    pub fn key_field(&self) -> Option<FieldId> {
        match self.key {
            KeyDefinition::Field(field) => Some(field),
            _ => None,
        }
    }

    /// Whether keys are made of this field, alone or with others.
    pub fn is_in_key(&self, field: &Field) -> bool {
        match &self.key {
            KeyDefinition::Field(index) => self.fields[*index].name == field.name,
            KeyDefinition::Template(template) => template.names().any(|name| name == field.name),
            KeyDefinition::Expression(expression) => expression.variables().contains(&field.name),
        }
    }

    /// Returns the document that XPath tags are evaluated on.
    pub fn tag_document(&self) -> Option<&TagDocument> {
        self.tags.as_ref()?.document.as_ref()
    }

    /// Iterates over the fields that a store keeps. Members of structs come after them, and are read from their structs.
    pub fn stored_fields(&self) -> impl ExactSizeIterator<Item = (FieldId, &Field)> {
        let members = self.fields.position(Field::is_member);
        self.fields.enumerate().take(members.map_or(self.fields.len(), FieldId::index))
    }

    /// If the field is a member of structs, returns the list and the member.
    pub fn member(&self, field: FieldId) -> Option<(FieldId, &StructMember)> {
        match self.fields.get(field)?.derive {
            Some(Derivation::Member(list, member)) => Some((list, &self.fields[list].ty.members()[member])),
            _ => None,
        }
    }

    /// Iterates over the fields that a record is shown with: all except members, which are shown in their structs.
    pub fn shown_fields(&self) -> impl Iterator<Item = (FieldId, &Field)> {
        self.fields.enumerate().filter(|(_, field)| !field.is_member())
    }

    /// Golden values and state as JSON, in the order of the definition, without absent ones: what readers are shown of a record.
    pub fn shown_values(&self, golden: &[Value], state: &[Value]) -> Map<String, Json> {
        let fields = self.shown_fields().map(|(index, field)| (&field.name, &golden[index.index()], field.golden_type()));
        let states = self.states.iter().zip(state).map(|(field, value)| (&field.name, value, &field.ty));
        fields.chain(states).filter(|(_, value, _)| !value.is_null()).map(|(name, value, ty)| (name.clone(), value.to_json(ty))).collect()
    }

    /// Returns the field called `name` with its id.
    pub fn field(&self, name: &str) -> Option<(FieldId, &Field)> {
        self.fields.enumerate().find(|(_, field)| field.name == name)
    }

    /// Returns the field that an expression names, with its id.
    pub fn field_named(&self, name: &Name) -> Option<(FieldId, &Field)> {
        let position = name.position(self.fields.iter().as_slice(), |field| &field.name)?;
        Some((FieldId::from(position), &self.fields[FieldId::from(position)]))
    }

    /// Returns the state field called `name` with its position.
    pub fn state(&self, name: &str) -> Option<(usize, &StateField)> {
        self.states.iter().enumerate().find(|(_, state)| state.name == name)
    }

    /// Whether settling computes any of its fields.
    pub fn settles(&self) -> bool {
        self.fields.iter().any(Field::is_settled)
    }

    /// Whether conflicts are detected for any of its fields.
    pub fn compares(&self) -> bool {
        self.fields.iter().any(|field| field.compare.is_some())
    }
}

/// How a record's key is made from the values one document gives its fields.
#[derive(Debug, Clone)]
pub enum KeyDefinition {
    /// The text of a field.
    Field(FieldId),
    /// A template over fields.
    Template(Template),
    /// CEL over fields.
    Expression(Expression),
}

/// What decides whether a record exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistenceRule {
    /// The newest contribution: a tombstone newer than all other contributions deletes the record.
    Latest,
    /// Any living contribution.
    Any,
}
