//! Resolves the paths of a query to columns of the store, with their types.

use super::linked::LinkedUse;
use crate::language::FieldPath;
use std::cell::RefCell;
use stook_catalogue::definition::{Catalogue, Collection, Field};
use stook_catalogue::diagnostic::{Diagnostic, did_you_mean};
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::value::FieldType;
use stook_store::Tenant;
use stook_store::plan::PlanColumn;

/// A column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub ty: FieldType,
}

/// Resolves names of a query in one collection.
#[derive(Clone, Copy)]
pub struct Resolver<'c> {
    pub catalogue: &'c Catalogue,
    pub tenant: &'c Tenant,
    /// The collection's id.
    pub id: CollectionId,
    pub collection: &'c Collection,
    /// The list of structs whose elements are the rows.
    pub each: Option<FieldId>,
    /// The time from which `last` counts back, in microseconds.
    pub now: i64,
    /// Whether the query searches for words, so that records have a rank.
    pub is_ranked: bool,
    /// The number of links that lead from the query's records to these.
    pub links_followed: usize,
    /// Where other collections are read.
    pub linked_uses: &'c RefCell<Vec<LinkedUse>>,
}

impl<'c> Resolver<'c> {
    /// The path without the collection's name.
    pub fn name_in_collection<'p>(&self, path: &'p FieldPath) -> &'p str {
        if path.text == self.collection.name {
            return "key";
        }
        path.text.strip_prefix(self.collection.name.as_str()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&path.text)
    }

    /// The key field, if there is one whose values have another type than text.
    fn typed_key(&self) -> Option<(FieldId, &'c FieldType)> {
        let index = self.collection.key_field()?;
        let field = self.collection.fields.get(index)?;
        (field.ty != FieldType::Text && field.golden_type() == &field.ty).then_some((index, &field.ty))
    }

    /// The column of the collection's own records that a name means, and its type.
    pub fn own_column(&self, name: &str) -> Option<(PlanColumn, FieldType)> {
        match name {
            "key" => {
                let typed = self.typed_key().map(|(index, ty)| (PlanColumn::Field(index), ty.clone()));
                return Some(typed.unwrap_or((PlanColumn::Key, FieldType::Text)));
            }
            "conflict" => return Some((PlanColumn::Conflict, FieldType::List(Box::new(FieldType::Text)))),
            "tag" if self.collection.tags.is_some() => return Some((PlanColumn::Tag, FieldType::List(Box::new(FieldType::Text)))),
            _ => {}
        }
        let member = self.each.and_then(|list| {
            let list = &self.collection.fields[list];
            let name = name.strip_prefix(list.name.as_str())?.strip_prefix('.')?;
            list.ty.members().iter().enumerate().find(|(_, member)| member.name == name)
        });
        if let Some((index, member)) = member {
            return Some((PlanColumn::Element(index), member.ty.clone()));
        }
        if let Some((index, field)) = self.collection.field(name) {
            return Some((PlanColumn::Field(index), field.golden_type().clone()));
        }
        if let Some((index, state)) = self.collection.state(name) {
            return Some((PlanColumn::State(index), state.ty.clone()));
        }
        if name == "rank" && self.is_ranked {
            return Some((PlanColumn::Rank, FieldType::Integer));
        }
        let (link, _) = self.catalogue.link_of(self.id, name.strip_suffix(".exists")?)?;
        Some((PlanColumn::TargetsExist(link), FieldType::Boolean))
    }

    /// The column that a path names, and its type.
    pub fn resolve(&self, path: &FieldPath) -> Result<(PlanColumn, FieldType), Diagnostic> {
        let name = self.name_in_collection(path);
        if let Some(own) = self.own_column(name) {
            return Ok(own);
        }
        if let Some(linked) = self.linked_column(path)? {
            return Ok(linked);
        }
        let known = || {
            let fields = self.collection.fields.iter().map(|field| field.name.as_str());
            let tag = self.collection.tags.as_ref().map(|_| "tag");
            fields.chain(self.collection.states.iter().map(|state| state.name.as_str())).chain(["key", "conflict"]).chain(tag)
        };
        let problem = Diagnostic::new(path.span.clone(), format!("`{}` has no field `{name}`", self.collection.name));
        Err(match did_you_mean(name, known()) {
            Some(suggestion) => problem.help(format!("did you mean `{suggestion}`?")),
            None => problem.help(format!("its fields are {}", known().collect::<Vec<_>>().join(", "))),
        })
    }

    /// The list of structs that a path names.
    pub fn structs(&self, path: &FieldPath) -> Result<FieldId, Diagnostic> {
        let name = self.name_in_collection(path);
        let has_structs = |field: &Field| !field.golden_type().members().is_empty();
        if let Some((index, _)) = self.collection.field(name).filter(|(_, field)| has_structs(field)) {
            return Ok(index);
        }
        let problem = Diagnostic::new(path.span.clone(), format!("`{name}` is no list of structs of `{}`", self.collection.name));
        let lists: Vec<&str> = self.collection.fields.iter().filter(|field| has_structs(field)).map(|field| field.name.as_str()).collect();
        Err(problem.help(if lists.is_empty() { "it has none".into() } else { format!("it has {}", lists.join(", ")) }))
    }

    /// All columns of a row, if the query chooses none: the record's fields, and what is read of other records unless these are fetched from
    /// services.
    pub fn all_columns(&self) -> (Vec<PlanColumn>, Vec<ResultColumn>) {
        let mut columns = vec![PlanColumn::Key];
        let mut headings = vec![ResultColumn { name: "key".into(), ty: FieldType::Text }];
        if let Some(list) = self.each.and_then(|list| self.collection.fields.get(list)) {
            for (index, member) in list.ty.members().iter().enumerate() {
                columns.push(PlanColumn::Element(index));
                headings.push(ResultColumn { name: format!("{}.{}", list.name, member.name), ty: member.ty.clone() });
            }
            return (columns, headings);
        }
        // services are fetched from for other records only if the query names what it reads of them
        let needs_fetch = |field: FieldId| self.catalogue.needs_fetch_elsewhere(self.id, field);
        for (index, field) in self.collection.shown_fields().filter(|(index, _)| !needs_fetch(*index)) {
            columns.push(PlanColumn::Field(index));
            headings.push(ResultColumn { name: field.name.clone(), ty: field.golden_type().clone() });
        }
        for (index, state) in self.collection.states.iter().enumerate() {
            columns.push(PlanColumn::State(index));
            headings.push(ResultColumn { name: state.name.clone(), ty: state.ty.clone() });
        }
        (columns, headings)
    }
}
