//! Parses the state fields of records, and the transitions that change them.

use super::keywords;
use super::parser::{DefinitionParser, NamedNode};
use super::yaml::{Node, NodeKind};
use crate::model::definition::{Field, FieldIndexes, Refusal, StateField, Transition, TransitionArgument};
use crate::model::ids::{FieldId, IdVec};
use crate::value::FieldType;

impl DefinitionParser<'_> {
    pub(super) fn states(&mut self, node: &Node, field_names: &[&str]) -> Vec<StateField> {
        let mut states = Vec::new();
        for NamedNode { name, name_node, node } in self.named_entries(node.get("state"), "state fields") {
            if field_names.contains(&name) {
                self.problem(name_node, format!("`{name}` is a contributed field already; a state field is written by transitions only"));
            }
            let (ty, seed, index, one_of) = if matches!(node.kind, NodeKind::Map(_)) {
                if self.section(node, "a state field", &[keywords::STATE]).is_none() {
                    continue;
                }
                let Some(ty) = node.get("type").and_then(|ty| self.field_type(ty)) else {
                    if node.get("type").is_none() {
                        self.problem(node, format!("state field `{name}` has no type"));
                    }
                    continue;
                };
                let seed = node.get("seed").and_then(|seed| self.cel(seed, field_names));
                let index = self.state_index(node.get("index"), &ty);
                let one_of = self.one_of(node.get("one_of"), &ty);
                (ty, seed, index, one_of)
            } else {
                let Some(ty) = self.field_type(node) else { continue };
                (ty, None, FieldIndexes::default(), Vec::new())
            };
            states.push(StateField { name: name.to_owned(), ty, initial: seed, index, one_of });
        }
        states
    }

    /// The index of a state field. Indexes of lists, of parts of texts and of geometries are written with golden values, which transitions do not write.
    fn state_index(&mut self, node: Option<&Node>, ty: &FieldType) -> FieldIndexes {
        let index = self.index(node, ty);
        let kind = match index {
            FieldIndexes { contains: true, .. } => "a `contains` index",
            FieldIndexes { intersects: true, .. } => "an `intersects` index",
            FieldIndexes { words: true, .. } => "an index of words",
            FieldIndexes { ordered: true, .. } if ty.is_list() => "an index of the elements of a list",
            _ => return index,
        };
        if let Some(node) = node {
            let help = "leave `index` out: queries find such values by reading every record";
            self.problem_with_help(node, format!("a state field cannot have {kind}"), help);
        }
        FieldIndexes::default()
    }

    pub(super) fn transitions(&mut self, node: &Node, fields: &IdVec<FieldId, Field>, states: &[StateField]) -> Vec<Transition> {
        let state_names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
        let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).chain(state_names.iter().copied()).collect();
        names.extend(["args", "now", "caller", "role", "key"]);
        let mut transitions = Vec::new();
        for NamedNode { name, name_node, node } in self.named_entries(node.get("transitions"), "transitions") {
            if ["explain", "log", "document"].contains(&name) {
                self.problem(name_node, format!("`{name}` is reserved by the HTTP API; choose another name"));
            }
            if self.section(node, "a transition", &[keywords::TRANSITION]).is_none() {
                continue;
            }
            let args = self.arguments(node.get("args"));
            let refuse = self.refusals(node.get("refuse"), &names).into_iter().map(|(_, refusal)| refusal).collect();
            let mut set = Vec::new();
            for NamedNode { name_node, node: value, .. } in self.named_entries(node.get("set"), "values to set") {
                let Some(index) = self.reference(name_node, "state field", &state_names) else { continue };
                let expression = if value.is_null() { None } else { self.cel(value, &names) };
                set.push((index, expression));
            }
            transitions.push(Transition { name: name.to_owned(), args, refuse, set });
        }
        transitions
    }

    /// Parses refusals, each with its node.
    pub(super) fn refusals<'n>(&mut self, node: Option<&'n Node>, names: &[&str]) -> Vec<(&'n Node, Refusal)> {
        let mut refuse = Vec::new();
        for item in self.items(node, "refuse") {
            if self.section(item, "a refusal", &[keywords::REFUSE]).is_none() {
                continue;
            }
            let when = self.required(item, "when").and_then(|node| self.cel(node, names));
            let reason = self.required(item, "reason").and_then(|node| self.cel(node, names));
            let code = item.get("code").map_or(Some(409), |node| {
                let code = node.text().and_then(|text| text.parse().ok()).filter(|code| (400..500).contains(code));
                if code.is_none() {
                    self.problem(node, "a code is an HTTP status from 400 to 499");
                }
                code
            });
            if let (Some(when), Some(reason), Some(code)) = (when, reason, code) {
                refuse.push((item, Refusal { when, reason, code }));
            }
        }
        refuse
    }

    fn arguments(&mut self, node: Option<&Node>) -> Vec<TransitionArgument> {
        let mut arguments = Vec::new();
        for NamedNode { name, node, .. } in self.named_entries(node, "arguments") {
            let shorthand = !matches!(node.kind, NodeKind::Map(_));
            if !shorthand && self.section(node, "an argument", &[keywords::ARG]).is_none() {
                continue;
            }
            let type_node = if shorthand { Some(node) } else { self.required(node, "type") };
            let Some(ty) = type_node.and_then(|node| self.field_type(node)) else { continue };
            let number = |reader: &mut Self, word: &str| {
                let node = node.get(word)?;
                let number = node.text().and_then(|text| text.parse::<f64>().ok());
                if number.is_none() {
                    reader.problem(node, format!("{word} is a number"));
                }
                number
            };
            let (min, max) = (number(self, "min"), number(self, "max"));
            arguments.push(TransitionArgument {
                name: name.to_owned(),
                required: self.boolean(node.get("required"), "required"),
                default: node.get("default").and_then(|node| self.cel(node, &["now", "caller"])),
                one_of: self.one_of(node.get("one_of"), &ty),
                ty,
                min,
                max,
            });
        }
        arguments
    }
}
