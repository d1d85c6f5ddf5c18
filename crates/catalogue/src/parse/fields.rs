//! Parses the fields of a collection: their types, indexes, allowed values, survivorship and derivations, and the members of their structs.

use super::keywords;
use super::parser::{DefinitionParser, NamedNode};
use super::yaml::{Node, NodeKind};
use crate::diagnostic::did_you_mean;
use crate::model::definition::{API_NAME, Field, FieldIndexes, SourceRef, Survivorship};
use crate::model::ids::{FieldId, IdVec};
use crate::model::links::Derivation;
use crate::value::{FieldType, StructMember, TYPE_NAMES, Value, from_text};

impl DefinitionParser<'_> {
    pub(super) fn field(
        &mut self,
        name: &str,
        node: &Node,
        default_rule: &Survivorship,
        source_names: &[&str],
        field_names: &[&str],
    ) -> Option<Field> {
        let mut field = placeholder(name);
        field.survivorship = default_rule.clone();
        if !matches!(node.kind, NodeKind::Map(_)) {
            field.ty = self.field_type(node)?;
            if matches!(field.survivorship, Survivorship::Union) && !field.ty.is_list() {
                field.survivorship = Survivorship::Latest;
            }
            return Some(field);
        }
        self.section(node, "a field", &[keywords::FIELD, keywords::RULE])?;
        match node.get("type") {
            Some(ty) => field.ty = self.field_type(ty)?,
            None => {
                self.problem(node, format!("field `{name}` has no type"));
                return None;
            }
        }
        let mut union_rule = None;
        field.required = self.boolean(node.get("required"), "required");
        field.unique = self.boolean(node.get("unique"), "unique");
        field.fold = self.boolean(node.get("fold"), "fold");
        field.compare = self.comparison(node.get("compare"), name, &field.ty);
        field.index = self.index(node.get("index"), &field.ty);
        field.one_of = self.one_of(node.get("one_of"), &field.ty);
        if field.fold && field.ty.element() != &FieldType::Text {
            self.problem(node, format!("only text can be folded; `{name}` is {}", field.ty));
        }
        if field.fold && field.ty.is_list() && !field.index.ordered {
            self.problem(node, "a folded list needs `index: equal`");
        }
        if let Some(by) = node.get("by") {
            let names: Vec<&str> = field.ty.members().iter().map(|member| member.name.as_str()).collect();
            match self.reference::<usize>(by, "member", &names) {
                Some(member) if field.ty.members()[member].ty.is_ordered() => union_rule = Some(Survivorship::UnionBy(member)),
                Some(_) => self.problem(by, "ranges cannot identify structs"),
                None => {}
            }
        }
        if !field.ty.members().is_empty() && ["derive", "rollup", "one_of"].iter().any(|word| node.get(word).is_some()) {
            self.problem(node, format!("`{name}` is a list of structs and can only be contributed"));
        }
        if field.unique && !field.ty.is_ordered() {
            self.problem(node, format!("a field of type {} cannot be unique", field.ty));
        }
        if let Some(rule) = union_rule {
            if let Some(survivorship) = node.get("survivorship") {
                self.problem(survivorship, "use either `by` or `survivorship`, not both");
            }
            field.survivorship = rule;
        } else if let Some(rule) = node.get("survivorship") {
            field.survivorship = self.survivorship(rule, source_names).unwrap_or(Survivorship::Latest);
            if matches!(field.survivorship, Survivorship::Union) && !field.ty.is_list() {
                self.problem(rule, format!("union produces a list; `{name}` is {}", field.ty));
            }
        } else if matches!(field.survivorship, Survivorship::Union) && !field.ty.is_list() {
            field.survivorship = Survivorship::Latest;
        }
        if let Some(from) = node.get("from") {
            field.from = Some(self.source_list(from, source_names));
        }
        self.check_single_valued(&field, node);
        if let Some(derive) = node.get("derive").or(node.get("rollup")) {
            let other_fields: Vec<&str> = field_names.iter().copied().filter(|other| *other != name).collect();
            field.derive = match (node.get("rollup"), node.get("derive")) {
                (Some(rollup), Some(_)) => {
                    self.problem(rollup, "a value is derived or rolled up, not both");
                    None
                }
                // replaced when links are parsed
                (Some(_), None) => Some(Derivation::Pending),
                (None, _) if !other_fields.contains(&"sources") && matches!(&derive.kind, NodeKind::Scalar { text, .. } if text == "sources") => {
                    if field.ty != FieldType::List(Box::new(FieldType::Text)) {
                        self.problem(derive, format!("`sources` are names, of type [text]; `{name}` is {}", field.ty));
                    }
                    Some(Derivation::Sources)
                }
                (None, _) => self.cel(derive, &other_fields).map(Derivation::SameRecord),
            };
            for word in keywords::RULE.iter().filter(|word| !matches!(word.name, "type")) {
                if let Some(value) = node.get(word.name) {
                    self.problem(value, format!("`{name}` is derived from golden fields; `{}` says how documents give it", word.name));
                }
            }
            if field.required {
                self.problem(derive, "a derived field cannot be required of a document");
            }
        }
        Some(field)
    }

    /// Checks that a field that keeps the value of each contributor has no `index`, `fold` or `unique`, because it has no single value.
    fn check_single_valued(&mut self, field: &Field, node: &Node) {
        if field.survivorship != Survivorship::ByContributor || node.get("derive").or(node.get("rollup")).is_some() {
            return;
        }
        for (word, is_on) in [("index", true), ("fold", field.fold), ("unique", field.unique)] {
            if let Some(value) = node.get(word).filter(|_| is_on) {
                let name = &field.name;
                self.problem_with_help(
                    value,
                    format!("`{name}` is kept by contributor, a mapping; `{word}` needs one value"),
                    "give the field another survivorship, for example: survivorship: latest",
                );
            }
        }
    }

    pub(super) fn survivorship(&mut self, node: &Node, source_names: &[&str]) -> Option<Survivorship> {
        if matches!(node.kind, NodeKind::Map(_)) {
            self.section(node, "survivorship", &[keywords::SURVIVORSHIP_MAP])?;
            let Some(prefer) = node.get("prefer") else {
                self.problem(node, "survivorship with a mapping needs `prefer: [sources]`");
                return None;
            };
            let sources = self.source_list(prefer, source_names);
            let then_earliest = self.choice(node.get("then"), "second rule", &[("latest", false), ("earliest", true)]).unwrap_or(false);
            return Some(Survivorship::Prefer { sources, then_earliest });
        }
        let choices = [("latest", 0), ("earliest", 1), ("union", 2), ("by_contributor", 3)];
        Some(match self.choice(Some(node), "survivorship rule", &choices)? {
            0 => Survivorship::Latest,
            1 => Survivorship::Earliest,
            2 => Survivorship::Union,
            _ => Survivorship::ByContributor,
        })
    }

    fn source_list(&mut self, node: &Node, source_names: &[&str]) -> Vec<SourceRef> {
        let NodeKind::List(items) = &node.kind else {
            self.problem(node, format!("expected a list of sources, this is {}", node.kind_name()));
            return Vec::new();
        };
        let names: Vec<&str> = source_names.iter().copied().chain([API_NAME]).collect();
        let indexes = items.iter().filter_map(|item| self.reference::<usize>(item, "source", &names));
        indexes.map(|index| if index == source_names.len() { SourceRef::Api } else { SourceRef::Source(index.into()) }).collect()
    }

    /// Checks that no derived field reads itself through other derived fields.
    pub(super) fn check_derivation_cycles(&mut self, fields: &IdVec<FieldId, Field>, nodes: &[NamedNode<'_>]) {
        fn reaches(fields: &IdVec<FieldId, Field>, from: FieldId, target: FieldId, depth: usize) -> bool {
            let Some(derive) = fields[from].derive.as_ref().and_then(Derivation::expression) else { return false };
            derive.variables().iter().any(|name| {
                let Some(next) = fields.position(|field| field.name == *name) else { return false };
                next == target || (depth > 0 && reaches(fields, next, target, depth - 1))
            })
        }
        for (index, field) in fields.enumerate() {
            if field.derive.is_some() && reaches(fields, index, index, fields.len()) {
                self.problem(nodes[index.index()].name_node, format!("`{}` is derived from itself", field.name));
            }
        }
    }

    pub(super) fn field_type(&mut self, node: &Node) -> Option<FieldType> {
        if let NodeKind::List(items) = &node.kind {
            let [element] = items.as_slice() else {
                self.problem(node, "a list type has one element type: [text]");
                return None;
            };
            if matches!(element.kind, NodeKind::Map(_)) {
                return self.struct_type(element).map(|members| FieldType::List(Box::new(members)));
            }
            return self.field_type(element).and_then(|element_type| match element_type {
                FieldType::List(_) => {
                    self.problem(node, "lists of lists are not a type; use json");
                    None
                }
                FieldType::Ranges => {
                    self.problem(node, "ranges are a set already; leave the brackets out");
                    None
                }
                FieldType::Geometry => {
                    self.problem(node, "a geometry has any number of points, lines and areas; leave the brackets out");
                    None
                }
                scalar => Some(FieldType::List(Box::new(scalar))),
            });
        }
        let text = self.text_of(node, "a type")?;
        if let Some(ty) = FieldType::named(text) {
            return Some(ty);
        }
        let message = format!("`{text}` is not a type");
        match did_you_mean(text, TYPE_NAMES.iter().map(|(name, _)| *name)) {
            Some(meant) => self.problem_with_help(node, message, format!("did you mean `{meant}`?")),
            None => {
                let names: Vec<&str> = TYPE_NAMES.iter().map(|(name, _)| *name).collect();
                let help = format!("types are {}, a list of one: [text], or a list of structs: [{{ name: text }}]", names.join(", "));
                self.problem_with_help(node, message, help);
            }
        }
        None
    }

    /// Parses the members of a list's structs.
    fn struct_type(&mut self, node: &Node) -> Option<FieldType> {
        let mut members = Vec::new();
        for NamedNode { name, name_node, node: ty } in self.named_entries(Some(node), "members") {
            match self.field_type(ty)? {
                FieldType::List(_) | FieldType::Json | FieldType::Geometry => {
                    self.problem(name_node, format!("`{name}` is inside a list: its type is a scalar one, or ranges"))
                }
                ty => members.push(StructMember { name: name.to_owned(), ty }),
            }
        }
        if members.is_empty() {
            self.problem(node, "a struct has members: [{ name: text, size: size }]");
            return None;
        }
        Some(FieldType::Struct(members.into()))
    }

    /// Makes the fields for the members of structs that queries can use: `replica.site`. A list that is kept by contributor is a mapping and has none.
    pub(super) fn member_fields(&mut self, fields: &IdVec<FieldId, Field>, nodes: &[NamedNode<'_>]) -> Vec<Field> {
        let mut members = Vec::new();
        for ((list, field), NamedNode { name, node, .. }) in fields.enumerate().zip(nodes) {
            if field.survivorship == Survivorship::ByContributor {
                continue;
            }
            let struct_members = field.ty.members();
            let indexes = node.get("index").filter(|_| !struct_members.is_empty());
            if let Some(index) = indexes.filter(|index| !matches!(index.kind, NodeKind::Map(_))) {
                self.problem_with_help(index, format!("`{name}` has members, each with an index of its own"), "for example: index: { site: equal }");
            }
            let indexes = match indexes {
                Some(index) if matches!(index.kind, NodeKind::Map(_)) => self.named_entries(Some(index), "members with an index"),
                _ => Vec::new(),
            };
            let names: Vec<&str> = struct_members.iter().map(|member| member.name.as_str()).collect();
            for entry in &indexes {
                self.reference::<usize>(entry.name_node, "member", &names);
            }
            for (position, member) in struct_members.iter().enumerate() {
                let ty = match &member.ty {
                    FieldType::Ranges => FieldType::Ranges,
                    scalar => FieldType::List(Box::new(scalar.clone())),
                };
                let node = indexes.iter().find(|entry| entry.name == member.name).map(|entry| entry.node);
                let mut index = self.index(node, &ty);
                self.refuse_words(node, &mut index, "a member of structs");
                let derive = Some(Derivation::Member(list, position));
                members.push(Field { ty, index, derive, ..placeholder(&format!("{name}.{}", member.name)) });
            }
        }
        members
    }

    pub(super) fn one_of(&mut self, node: Option<&Node>, ty: &FieldType) -> Vec<Value> {
        let Some(node) = node else { return Vec::new() };
        let NodeKind::List(items) = &node.kind else {
            self.problem(node, format!("one_of is a list, this is {}", node.kind_name()));
            return Vec::new();
        };
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let Some(text) = self.text_of(item, "a value of one_of").map(str::to_owned) else { continue };
            match from_text(&text, ty.element(), None) {
                Ok(value) => values.push(value),
                Err(error) => self.problem(item, error.to_string()),
            }
        }
        values
    }

    /// Refuses an index of words of `what`.
    pub(super) fn refuse_words(&mut self, node: Option<&Node>, index: &mut FieldIndexes, what: &str) {
        if let Some(node) = node.filter(|_| std::mem::take(&mut index.words)) {
            let help = "fields of type text and [text] can: index: words";
            self.problem_with_help(node, format!("{what} cannot have an index of words"), help);
        }
    }

    pub(super) fn index(&mut self, node: Option<&Node>, ty: &FieldType) -> FieldIndexes {
        let Some(node) = node.filter(|_| ty.members().is_empty()) else { return FieldIndexes::default() };
        let kinds: Vec<&Node> = match &node.kind {
            NodeKind::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        let mut index = FieldIndexes::default();
        for kind in kinds {
            match self.choice(Some(kind), "kind of index", &[("equal", 0), ("prefix", 1), ("contains", 2), ("intersects", 3), ("words", 4)]) {
                Some(3) if ty == &FieldType::Geometry => index.intersects = true,
                Some(3) => self.problem(kind, format!("only geometries can have this kind of index; the field is {ty}")),
                Some(_) if ty == &FieldType::Geometry => {
                    self.problem_with_help(kind, "geometries are not compared with other values, but lie to each other", "index: intersects")
                }
                Some(0) => index.ordered = true,
                Some(_) if ty.element() != &FieldType::Text => {
                    self.problem(kind, format!("only text can have this kind of index; the field is {ty}"));
                }
                Some(1) => index.ordered = true,
                Some(4) => index.words = true,
                Some(_) if ty.is_list() => {
                    self.problem(kind, "a list cannot have a `contains` index; use equal or prefix, which apply to each element")
                }
                Some(_) => index.contains = true,
                None => {}
            }
        }
        match ty.element() {
            FieldType::Json => self.problem(node, "json has no index; give the part you ask for a field of its own"),
            FieldType::Ranges => self.problem(node, "ranges have no index; they are compared record by record"),
            _ => {}
        }
        index
    }
}

pub(super) fn placeholder(name: &str) -> Field {
    Field {
        name: name.to_owned(),
        ty: FieldType::Text,
        required: false,
        index: FieldIndexes::default(),
        unique: false,
        fold: false,
        one_of: Vec::new(),
        derive: None,
        survivorship: Survivorship::Latest,
        from: None,
        compare: None,
    }
}
