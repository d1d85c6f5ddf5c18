//! The expressions of a definition: the names they may use, with their types; see [`crate::eval::types`] for the check itself.

use super::parser::{DefinitionParser, NamedNode};
use super::yaml::{Node, NodeKind};
use crate::diagnostic::Diagnostic;
use crate::eval::Expression;
use crate::eval::types::{self, Expected, TextConversion, Type, TypeKind};
use crate::model::definition::{Collection, KeyDefinition, PatternSet, StateField, Survivorship, TransitionArgument, ValueOrigin, ValueRule};
use crate::model::ids::{CollectionId, FieldId, IdVec, LinkId};
use crate::model::links::{Derivation, Link};
use crate::value::FieldType;
use std::collections::HashMap;

/// Types by name.
pub(super) type Types = HashMap<String, Type>;

/// Names with a meaning in expressions, which cannot be names of fields.
pub(super) const RESERVED: [&str; 12] = ["meta", "args", "now", "caller", "role", "key", "tag", "true", "false", "null", "in", "conflict"];

impl DefinitionParser<'_> {
    pub(super) fn cel(&mut self, node: &Node, names: &[&str]) -> Option<Expression> {
        let source = self.text_of(node, "a CEL expression")?.to_owned();
        let is_known = |name: &String| names.contains(&name.as_str());
        if let Some(cached) = self.compiled.get(&source).filter(|cached| cached.variables().iter().all(is_known)) {
            return Some(cached.clone());
        }
        match Expression::compile(&source, names) {
            Ok(expression) => {
                self.compiled.insert(source, expression.clone());
                Some(expression)
            }
            Err((at, message)) => {
                let mut problem = Diagnostic::new(self.span_at(node, at), message);
                if source.contains("??") {
                    problem = problem.help("CEL has no `??`: write coalesce(a, b)");
                }
                self.problems.push(problem);
                None
            }
        }
    }

    /// Checks the types of an expression.
    pub(super) fn check_type(&mut self, node: &Node, expression: &Expression, names: &Types, expected: Expected<'_>) {
        let found = types::check(expression, &self.tables, &|name| names.get(name).cloned(), expected);
        let Err(mistake) = found else { return };
        let span = self.span_at(node, mistake.span.start).start..self.span_at(node, mistake.span.end.saturating_sub(1)).end;
        let problem = Diagnostic::new(span.start..span.end.max(span.start), mistake.message);
        self.mistyped.push(match mistake.help {
            Some(help) => problem.help(help),
            None => problem,
        });
    }

    /// Compiles an expression and checks its types.
    pub(super) fn cel_of(&mut self, node: &Node, names: &Types, expected: Expected<'_>) -> Option<Expression> {
        let known: Vec<&str> = names.keys().map(String::as_str).collect();
        let expression = self.cel(node, &known)?;
        self.check_type(node, &expression, names, expected);
        Some(expression)
    }

    /// Checks the expressions of collections, once all collections and links are known.
    pub(super) fn check_collection_types(
        &mut self,
        collections: &IdVec<CollectionId, Collection>,
        nodes: &IdVec<CollectionId, NamedNode<'_>>,
        links: &IdVec<LinkId, Link>,
    ) {
        for (index, NamedNode { node, .. }) in nodes.enumerate() {
            let collection = &collections[index];
            let created = links.iter().any(|link| link.create && link.target_collection == index);
            let types = golden_types(collection, created);
            let mut derived = types.clone();
            for link in links.iter().filter(|link| link.child_collection == index) {
                derived.insert(link.name.clone(), linked_type(link, &collections[link.target_collection]));
            }
            for NamedNode { name, node: field_node, .. } in self.named_entries(node.get("fields"), "fields") {
                let Some((_, field)) = collection.field(name) else { continue };
                let expression = field.derive.as_ref().and_then(Derivation::expression);
                if let (Some(expression), Some(derive)) = (expression, field_node.get("derive")) {
                    self.check_type(derive, expression, &derived, Expected::Field(&field.ty, TextConversion::Value));
                }
            }
            if let (KeyDefinition::Expression(expression), Some(key)) = (&collection.key, node.get("key")) {
                let contributed = collection.fields.iter().filter(|field| field.derive.is_none());
                let contributed_types = contributed.map(|field| {
                    let ty = Type::from_field_type(&field.ty);
                    (field.name.clone(), if field.required { ty } else { ty.or_null() })
                });
                self.check_type(key, expression, &contributed_types.collect(), Expected::Key);
            }
            for NamedNode { name, node: state_node, .. } in self.named_entries(node.get("state"), "state fields") {
                let Some((_, StateField { initial: Some(seed), ty, .. })) = collection.state(name) else { continue };
                if let Some(written) = state_node.get("seed") {
                    self.check_type(written, seed, &types, Expected::Field(ty, TextConversion::Value));
                }
            }
            self.check_transition_types(collection, node, &types);
        }
    }

    fn check_transition_types(&mut self, collection: &Collection, node: &Node, types: &Types) {
        for NamedNode { name, node: written, .. } in self.named_entries(node.get("transitions"), "transitions") {
            let Some(transition) = collection.transitions.iter().find(|transition| transition.name == name) else { continue };
            let mut names = types.clone();
            names.extend(collection.states.iter().map(|state| (state.name.clone(), Type::from_field_type(&state.ty).or_null())));
            names.extend(caller_types());
            names.insert("role".to_owned(), TypeKind::Text.into());
            names.insert("key".to_owned(), TypeKind::Text.into());
            let argument = |argument: &TransitionArgument| {
                let ty = Type::from_field_type(&argument.ty);
                (argument.name.clone(), if argument.required { ty } else { ty.or_null() })
            };
            let arguments = transition.args.iter().map(argument).collect();
            names.insert("args".to_owned(), Type::structure(format!("args of `{name}`"), arguments));
            for (refusal, item) in transition.refuse.iter().zip(self.items(written.get("refuse"), "refuse")) {
                if let (Some(when), Some(reason)) = (item.get("when"), item.get("reason")) {
                    self.check_type(when, &refusal.when, &names, Expected::Condition);
                    self.check_type(reason, &refusal.reason, &names, Expected::Field(&FieldType::Text, TextConversion::Value));
                }
            }
            for NamedNode { name: state, node: value, .. } in self.named_entries(written.get("set"), "values to set") {
                let state_index = collection.state(state).map(|(index, _)| index);
                let set = transition.set.iter().find(|(index, _)| Some(*index) == state_index);
                if let Some((index, Some(expression))) = set {
                    self.check_type(value, expression, &names, Expected::Field(&collection.states[*index].ty, TextConversion::Value));
                }
            }
            for NamedNode { name: argument, node: argument_node, .. } in self.named_entries(written.get("args"), "arguments") {
                let definition = transition.args.iter().find(|definition| definition.name == argument);
                if let (Some(TransitionArgument { default: Some(default), ty, .. }), NodeKind::Map(_), Some(node)) =
                    (definition, &argument_node.kind, argument_node.get("default"))
                {
                    self.check_type(node, default, &caller_types().into_iter().collect(), Expected::Field(ty, TextConversion::Value));
                }
            }
        }
    }

    /// Returns the type of a `let` value.
    pub(super) fn type_of_let(&self, rule: &ValueRule, patterns: &[PatternSet], names: &Types) -> Type {
        match &rule.origin {
            ValueOrigin::Match { pattern, .. } => {
                let pattern = &patterns[*pattern];
                let mut groups: Vec<(String, Type)> = Vec::new();
                for name in pattern.expressions.iter().flat_map(|named_regex| named_regex.groups()) {
                    if groups.iter().all(|(known, _)| known != name) {
                        groups.push((name.to_owned(), Type::from(TypeKind::Text).or_null()));
                    }
                }
                Type::structure(format!("pattern `{}`", pattern.name), groups).or_null()
            }
            ValueOrigin::Expression(expression) => {
                let found = types::type_of(expression, &self.tables, &|name| names.get(name).cloned());
                let Ok(found) = found else { return Type::any() };
                let changes = !rule.clean.is_empty() || rule.lookup.is_some() || !rule.formats.is_empty();
                let stored_type = if rule.ty == FieldType::Json { found.as_json() } else { Type::from_field_type(&rule.ty) };
                // a value that must be converted to another type may become null
                let is_kept_as_it_is = !found.may_be_null() && (rule.ty == FieldType::Json || found == stored_type);
                if is_kept_as_it_is && !changes { stored_type } else { stored_type.or_null() }
            }
            _ => Type::from_field_type(&rule.ty).or_null(),
        }
    }
}

/// The type of `meta`, which every source has in addition to the document.
pub(super) fn meta() -> (String, Type) {
    let members = [
        ("name", TypeKind::Text),
        ("ordinal", TypeKind::Integer),
        ("received", TypeKind::Timestamp),
        // what a service was asked for
        ("arguments", TypeKind::Json),
    ];
    ("meta".to_owned(), Type::structure("meta", members.map(|(name, kind)| (name.to_owned(), kind.into())).into()))
}

/// Returns the type of a link's name in expressions: the members of its target or, if it leads to several, lists with the members of all targets.
fn linked_type(link: &Link, target: &Collection) -> Type {
    let listed_if_many = |ty: Type| if link.many { Type::list(ty) } else { ty };
    let fields = golden_types(target, true).into_iter().filter(|(name, _)| !name.contains('.')).map(|(name, ty)| {
        let ty = ty.present();
        let is_list = target.field(&name).is_some_and(|(_, field)| field.golden_type().is_list());
        (name, if link.many && is_list { ty } else { listed_if_many(ty) })
    });
    let mut members: Vec<(String, Type)> = fields.collect();
    let builtin = [("key", listed_if_many(TypeKind::Text.into())), ("exists", TypeKind::Boolean.into())];
    for (name, ty) in builtin.into_iter().filter(|(name, _)| target.field(name).is_none()) {
        members.push((name.to_owned(), ty));
    }
    members.iter_mut().for_each(|(_, ty)| *ty = std::mem::take(ty).or_null());
    members.sort_by(|a, b| a.0.cmp(&b.0));
    let of = if link.many { format!("records of `{}`", target.name) } else { format!("a record of `{}`", target.name) };
    Type::structure(of, members)
}

/// The types of `now` and `caller`.
fn caller_types() -> [(String, Type); 2] {
    [("now".to_owned(), TypeKind::Timestamp.into()), ("caller".to_owned(), TypeKind::Text.into())]
}

/// Returns the types of a collection's golden values. All but the key are null in records that links create.
pub(super) fn golden_types(collection: &Collection, created: bool) -> Types {
    let in_key = |index: FieldId, name: &str| match &collection.key {
        KeyDefinition::Field(field) => *field == index,
        KeyDefinition::Template(template) => template.names().any(|placeholder| placeholder == name),
        KeyDefinition::Expression(_) => false,
    };
    let field_type = |(index, field): (FieldId, &crate::model::definition::Field)| {
        let ty = match field.survivorship {
            Survivorship::ByContributor if field.derive.is_none() => {
                Type::mapping(format!("`{}`", field.name), Type::from_field_type(&field.ty).as_json())
            }
            _ => Type::from_field_type(field.golden_type()),
        };
        let is_always_present = field.derive.is_none() && field.from.is_none() && (in_key(index, &field.name) || field.required && !created);
        (field.name.clone(), if is_always_present { ty } else { ty.or_null() })
    };
    collection.fields.enumerate().map(field_type).collect()
}
