//! Parses routes in steps, and how routes are served.

use super::expressions::Types;
use super::parser::{DefinitionParser, NamedNode};
use super::routes::RouteScope;
use crate::eval::Expression;
use crate::eval::types::{Expected, TextConversion, Type, TypeKind};
use crate::model::definition::{Collection, Serving};
use crate::model::ids::{CollectionId, FieldId};
use crate::model::route::{
    ComputedOperand, FindKind, FoundBy, Projection, ResponseForm, ResponseMedia, RouteFind, RouteResponseBody, RouteWrite, StepsRoute, WRITTEN,
    WriteAction,
};
use crate::parse::keywords;
use crate::parse::yaml::{Node, NodeKind};
use crate::value::FieldType;
use std::cell::RefCell;

/// Names with a meaning in the steps of a route.
const STEP_NAMES: [&str; 7] = ["params", "now", "caller", "role", "url", "item", WRITTEN];

/// What the steps of a route know so far.
#[derive(Default)]
pub(super) struct StepsScope {
    /// The names of what was found, and whether it is found after the write.
    found: RefCell<Vec<(String, bool)>>,
    /// Whether the route writes, so that expressions may name what was written.
    writes: bool,
    /// The operands that are computed for its lookups.
    computed: RefCell<Vec<ComputedOperand>>,
}

impl StepsScope {
    /// The names of expressions. What was found, and parameters, are JSON.
    pub(super) fn types(&self) -> Types {
        let mut types: Types = self.found.borrow().iter().map(|(name, _)| (name.clone(), Type::any())).collect();
        types.insert("params".into(), Type::any());
        types.insert("now".into(), TypeKind::Timestamp.into());
        ["caller", "role", "url"].into_iter().for_each(|name| drop(types.insert(name.into(), TypeKind::Text.into())));
        if self.writes {
            types.insert(WRITTEN.into(), Type::any());
        }
        types
    }

    /// The names that are known before the write.
    fn types_before_write(&self) -> Types {
        let mut types = self.types();
        types.remove(WRITTEN);
        self.found.borrow().iter().filter(|(_, is_after_write)| *is_after_write).for_each(|(name, _)| drop(types.remove(name)));
        types
    }

    /// Whether an expression names something that is known only after the write.
    fn is_after_write(&self, expression: &Expression) -> bool {
        let found = self.found.borrow();
        let is_late = |name: &String| name == WRITTEN || found.iter().any(|(known, is_after_write)| known == name && *is_after_write);
        expression.variables().iter().any(is_late)
    }
}

pub(super) const AS_JSON: Expected<'static> = Expected::Field(&FieldType::Json, TextConversion::Value);
pub(super) const AS_TEXT: Expected<'static> = Expected::Field(&FieldType::Text, TextConversion::Value);

impl DefinitionParser<'_> {
    pub(super) fn serving(&mut self, node: &Node) -> Serving {
        let error_member = node.get("error").and_then(|node| self.text_of(node, "the member of errors")).map(str::to_owned);
        let ignores_unknown = self.choice(node.get("unknown"), "use of unknown parameters", &[("refuse", false), ("ignore", true)]).unwrap_or(false);
        let mut origins = Vec::new();
        for item in self.items(node.get("origins"), "origins") {
            let Some(origin) = self.text_of(item, "an origin").map(str::to_owned) else { continue };
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            if origin != "*" && !host.is_some_and(|host| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')) {
                self.problem(item, "an origin is https://HOST or http://HOST:PORT without a path, or '*' for all");
            }
            origins.push(origin);
        }
        Serving { error_member, ignores_unknown, origins }
    }

    pub(super) fn steps_route(&mut self, node: &Node, scope: &RouteScope<'_>) -> Option<StepsRoute> {
        let steps = StepsScope { writes: node.get("write").is_some(), ..StepsScope::default() };
        let mut finds = Vec::new();
        for NamedNode { name, name_node, node: find } in self.named_entries(node.get("find"), "what is found") {
            if STEP_NAMES.contains(&name) {
                self.problem(name_node, format!("`{name}` has a meaning in expressions; choose another name"));
            }
            if self.section(find, "what is found", &[keywords::LOOK, keywords::INCLUDE, keywords::FIND]).is_none() {
                continue;
            }
            let when = find.get("when").and_then(|when| self.cel_of(when, &steps.types(), Expected::Condition));
            let start = steps.computed.borrow().len();
            let kind = match find.get("tags") {
                Some(tags) => self.tag_find(find, tags, &steps.types(), scope).map(FindKind::Tags),
                None if let Some(key) = find.get("key") => {
                    self.problem(key, "`key` names a tag of `tags`; records are found by `where: { key: … }`");
                    None
                }
                None => self.find(find, &RouteScope { steps: Some(&steps), ..*scope }).map(|route| FindKind::Records(Box::new(route))),
            };
            let computed = start..steps.computed.borrow().len();
            if let (Some(page), true) = (find.get("page"), steps.writes) {
                self.problem(page, "a route that writes finds all records, no page of them");
            }
            let is_after_write = {
                let operands = &steps.computed.borrow()[computed.clone()];
                let tag = if let Some(FindKind::Tags(find)) = &kind { find.name.as_ref() } else { None };
                when.iter().chain(operands.iter().map(|operand| &operand.expression)).chain(tag).any(|expression| steps.is_after_write(expression))
            };
            finds.extend(kind.map(|kind| RouteFind { name: name.to_owned(), when, kind, computed, is_after_write }));
            steps.found.borrow_mut().push((name.to_owned(), is_after_write));
        }
        // conditions and writes cannot name what is known later
        let types = steps.types_before_write();
        let names: Vec<&str> = types.keys().map(String::as_str).collect();
        let mut refusals = Vec::new();
        for (item, refusal) in self.refusals(node.get("refuse"), &names) {
            if let (Some(when), Some(reason)) = (item.get("when"), item.get("reason")) {
                self.check_type(when, &refusal.when, &types, Expected::Condition);
                // a text, or a list of texts
                self.check_type(reason, &refusal.reason, &types, AS_JSON);
            }
            let variables = || refusal.when.variables().iter().chain(refusal.reason.variables());
            let needed = variables().filter_map(|name| finds.iter().position(|find| find.name == *name)).max().map_or(0, |position| position + 1);
            refusals.push((needed, refusal));
        }
        let mut writes = Vec::new();
        for item in self.items(node.get("write"), "write") {
            writes.extend(self.route_write(item, &types, scope));
        }
        if let (Some(list), true, true) = (node.get("write"), writes.len() > 1, writes.iter().any(RouteWrite::stands_alone)) {
            self.problem(list, "a transition with `query`, or a change of a tag, is the only write of a route");
        }
        let response = self.response_form(node, &steps.types());
        let is_answered_after_write = finds.iter().any(|find| find.is_after_write)
            || response.body.projections().any(|projection| match projection {
                Projection::Path(path) => path[0] == WRITTEN,
                Projection::Expression(expression) => steps.is_after_write(expression),
                Projection::Text(_) => false,
            });
        Some(StepsRoute { finds, computed: steps.computed.into_inner(), refusals, writes, response, is_answered_after_write })
    }

    /// Parses an operand that is computed before the lookup; returns its position.
    pub(super) fn computed(&mut self, node: &Node, ty: &FieldType, steps: &StepsScope) -> Option<usize> {
        let expression = self.cel_of(node, &steps.types(), AS_JSON)?;
        let mut computed = steps.computed.borrow_mut();
        computed.push(ComputedOperand { expression, ty: ty.element().clone() });
        Some(computed.len() - 1)
    }

    fn route_write(&mut self, node: &Node, types: &Types, scope: &RouteScope<'_>) -> Option<RouteWrite> {
        self.section(node, "a write", &[keywords::WRITE])?;
        let actions = ["create", "put", "patch", "delete", "transition", "tag"];
        let present: Vec<&str> = actions.into_iter().filter(|word| node.get(word).is_some()).collect();
        let [action] = present.as_slice() else {
            self.problem(node, "a write is one of create, put, patch, delete, transition and tag");
            return None;
        };
        let names: Vec<&str> = scope.collections.iter().map(|collection| collection.name.as_str()).collect();
        let collection_node = if matches!(*action, "transition" | "tag") { self.required(node, "of") } else { node.get(action) };
        let collection: CollectionId = collection_node.and_then(|node| self.reference(node, "collection", &names))?;
        let definition = &scope.collections[collection];
        let mut types = types.clone();
        let each = node.get("each").and_then(|each| self.cel_of(each, &types, AS_JSON));
        if each.is_some() {
            types.insert("item".into(), Type::any());
        }
        let when = node.get("when").and_then(|when| self.cel_of(when, &types, Expected::Condition));
        let key = node.get("key").and_then(|key| self.cel_of(key, &types, AS_TEXT));
        let query = node.get("query").and_then(|query| self.cel_of(query, &types, AS_TEXT));
        let record = match (key, query) {
            (Some(key), None) => FoundBy::Key(key),
            (None, Some(query)) => FoundBy::Query(query),
            (None, None) if matches!(*action, "create" | "put") => FoundBy::Fields,
            (Some(_), Some(_)) => {
                self.problem(node, "a record has a `key`, or a `query` finds it");
                return None;
            }
            (None, None) => {
                self.problem(node, format!("`{action}` needs the `key` of the record, or name of the tag"));
                return None;
            }
        };
        if let (Some(each), true) = (node.get("each"), *action == "tag" || matches!(record, FoundBy::Query(_))) {
            self.problem(each, "a transition with `query`, or a change of a tag, is done once");
        }
        let of_fields = ["create", "put", "patch", "tag"];
        for (word, of) in
            [("fields", &of_fields[..]), ("args", &actions[4..5]), ("of", &actions[4..]), ("query", &actions[4..5]), ("required", &actions[4..5])]
                .into_iter()
                .chain([("add", &actions[5..]), ("remove", &actions[5..])])
        {
            if let (Some(misplaced), false) = (node.get(word), of.contains(action)) {
                self.problem(misplaced, format!("`{word}` is of {}", of.join(", ")));
            }
        }
        let written = match *action {
            "create" => WriteAction::Create(self.written_fields(node, definition, &types)?),
            "put" => WriteAction::Put(self.written_fields(node, definition, &types)?),
            "patch" => WriteAction::Patch(self.written_fields(node, definition, &types)?),
            "delete" => WriteAction::Delete,
            "tag" => WriteAction::Tag(self.tag_write(node, definition, &types)?),
            _ => {
                let transitions: Vec<&str> = definition.transitions.iter().map(|transition| transition.name.as_str()).collect();
                let transition = node.get("transition").and_then(|node| self.reference::<usize>(node, "transition", &transitions))?;
                let known = &definition.transitions[transition].args;
                let known_names: Vec<&str> = known.iter().map(|argument| argument.name.as_str()).collect();
                let mut args = Vec::new();
                for NamedNode { name_node, node, .. } in self.named_entries(node.get("args"), "arguments") {
                    let Some(index) = self.reference::<usize>(name_node, "argument", &known_names) else { continue };
                    args.extend(self.cel_of(node, &types, AS_JSON).map(|expression| (known_names[index].to_owned(), expression)));
                }
                WriteAction::Transition(transition, args)
            }
        };
        let taken = node.get("taken").and_then(|taken| self.status_and_sentence(taken, "taken"));
        let required = node.get("required").and_then(|required| self.status_and_sentence(required, "required"));
        Some(RouteWrite { collection, each, when, record, action: written, taken, required })
    }

    fn written_fields(&mut self, node: &Node, collection: &Collection, types: &Types) -> Option<Vec<(FieldId, Expression)>> {
        let fields_node = self.required(node, "fields")?;
        let NodeKind::Map(entries) = &fields_node.kind else {
            self.problem(fields_node, format!("fields are a mapping from names, this is {}", fields_node.kind_name()));
            return None;
        };
        let names: Vec<&str> = collection.fields.iter().map(|field| field.name.as_str()).collect();
        let mut fields = Vec::new();
        for (name, value) in entries {
            let Some(index) = self.reference::<FieldId>(name, "field", &names) else { continue };
            let field = &collection.fields[index];
            if field.derive.is_some() {
                self.problem(name, format!("`{}` is derived from other fields", field.name));
            }
            fields.extend(self.cel_of(value, types, Expected::Field(&field.ty, TextConversion::Value)).map(|expression| (index, expression)));
        }
        Some(fields)
    }

    fn response_form(&mut self, node: &Node, types: &Types) -> ResponseForm {
        let media = self.choice(node.get("type"), "type of a response", &[("json", ResponseMedia::Json), ("text", ResponseMedia::Text)]);
        let status = node.get("code").and_then(|node| self.number_of(node, "a code", 200..=299)).map_or(200, |code| code as u16);
        let names: Vec<&str> = types.keys().map(String::as_str).collect();
        let shown = |reader: &mut Self, node: &Node| -> Option<Projection> {
            let text = reader.text_of(node, "what is answered")?.to_owned();
            reader.projection(node, &text, &names, types)
        };
        let body = match (node.get("body"), node.get("answer")) {
            (Some(body), None) => shown(self, body).map_or(RouteResponseBody::Empty, RouteResponseBody::Value),
            (None, Some(Node { kind: NodeKind::Map(entries), .. })) => {
                let mut members = Vec::new();
                for (name, value) in entries {
                    members.extend(name.text().map(str::to_owned).zip(shown(self, value)));
                }
                RouteResponseBody::Members(members)
            }
            (None, None) => RouteResponseBody::Empty,
            (_, Some(answer)) => {
                self.problem(answer, "`answer` is a mapping from names to what is answered, and stands without `body`");
                RouteResponseBody::Empty
            }
        };
        ResponseForm { status, media: media.unwrap_or(ResponseMedia::Json), body }
    }
}
