//! Parses links between collections, once all collections are known, and the rollups and coverages over them.

use super::expressions::{Types, golden_types};
use super::fields::placeholder;
use super::keywords;
use super::parser::{DefinitionParser, NamedNode};
use super::yaml::{Node, NodeKind};
use crate::diagnostic::Diagnostic;
use crate::eval::Expression;
use crate::eval::types::{Expected, TextConversion};
use crate::model::definition::{Collection, Field, KeyDefinition};
use crate::model::ids::{CollectionId, FieldId, IdVec, LinkId};
use crate::model::key::Template;
use crate::model::links::{Coverage, Derivation, EqualFields, IntervalOverlap, Link, SeveralFound, TargetRule, id_of, list_field_in_key, members_of};
use crate::value::FieldType;

/// Max criteria of a link.
const MAX_CRITERIA: usize = 16;

/// The type of a group.
pub(super) const TEXT: Expected<'static> = Expected::Field(&FieldType::Text, TextConversion::Value);

impl DefinitionParser<'_> {
    /// Makes the fields that hold keys of linked records. The links themselves are parsed later, by [`DefinitionParser::relations`].
    pub(super) fn link_fields(&mut self, node: &Node, field_names: &[&str]) -> Vec<Field> {
        let mut fields = Vec::new();
        for NamedNode { name, name_node, node: link } in self.named_entries(node.get("links"), "links") {
            if field_names.contains(&name) {
                self.problem(name_node, format!("`{name}` is a field already; a link is a field that holds the key of the linked record"));
                continue;
            }
            let mut field = placeholder(name);
            field.index = self.index(link.get("index"), &FieldType::Text);
            self.refuse_words(link.get("index"), &mut field.index, "a link");
            // replaced when links are parsed
            field.derive = Some(Derivation::Pending);
            fields.push(field);
        }
        fields
    }

    /// Parses the links, rollups and coverages of all collections; the collections of coverages are added after the others.
    pub(super) fn relations(
        &mut self,
        collections: &mut IdVec<CollectionId, Collection>,
        nodes: &IdVec<CollectionId, NamedNode<'_>>,
    ) -> (IdVec<LinkId, Link>, Vec<Coverage>) {
        let mut links = IdVec::new();
        for (from, NamedNode { node, .. }) in nodes.enumerate() {
            for entry in self.named_entries(node.get("links"), "links") {
                let Some(link) = self.link(from, entry, collections, nodes) else { continue };
                let field = &mut collections[from].fields[link.field];
                let (key, when) = (link.target_rule.clone(), link.when.clone());
                let id = links.push(link);
                field.derive = Some(match key {
                    TargetRule::Key(key) => Derivation::TargetKey(id, when, key),
                    TargetRule::Same { .. } | TargetRule::Merged { .. } => Derivation::LinkKeys(id),
                });
            }
        }
        for (parent, NamedNode { node, .. }) in nodes.enumerate() {
            for NamedNode { name, node: field, .. } in self.named_entries(node.get("fields"), "fields") {
                let Some(rollup) = field.get("rollup") else { continue };
                let read = self.rollup(parent, rollup, collections, &mut links);
                let index = collections[parent].field(name).map(|(index, _)| index);
                if let (Some(index), Some(rollup)) = (index, read) {
                    self.check_rollup_type(
                        field,
                        &collections[parent].fields[index].ty,
                        &rollup,
                        &collections[links[rollup.link].child_collection],
                        &links[rollup.link],
                    );
                    collections[parent].fields[index].derive = Some(Derivation::Rollup(rollup));
                }
            }
        }
        self.derive_after_settled(collections);
        self.collect_link_reads(collections, nodes, &mut links);
        let mut coverages = Vec::new();
        for (parent, NamedNode { node, .. }) in nodes.enumerate() {
            for coverage in self.named_entries(node.get("coverage"), "coverages") {
                self.coverage(parent, coverage, collections, &mut links, &mut coverages);
            }
        }
        self.check_edge_inputs(collections, nodes, &links);
        if self.problems.is_empty() {
            self.check_settling_cycles(collections, nodes, &links);
            self.check_created_records_end(collections, nodes, &links);
        }
        for (collection, NamedNode { node, .. }) in collections.iter().zip(nodes) {
            for field in collection.fields.iter().filter(|field| field.unique && field.is_settled()) {
                let message = format!("`{}` is derived from other records and cannot be kept unique; remove `unique`", field.name);
                self.problem(node, message);
            }
        }
        for link in links.iter().filter(|link| link.is_only_read()) {
            let index = &mut collections[link.child_collection].fields[link.field].index;
            match link.many {
                // the index of elements answers queries, too
                true => index.ordered = true,
                false => index.by_link = !index.ordered,
            }
        }
        for link in &mut links {
            // a link with another meaning gets another number: edges made by the old one are not read any more
            let conditions: Vec<&str> = link.conditions.iter().map(Expression::source).collect();
            let edge_field_names: Vec<&str> =
                link.edge_fields.iter().map(|field| collections[link.child_collection].fields[*field].name.as_str()).collect();
            link.id = id_of(&format!("{} {:?} {conditions:?} {edge_field_names:?}", link.id, link.rule_text(collections)));
        }
        (links, coverages)
    }

    fn link(
        &mut self,
        from: CollectionId,
        NamedNode { name, name_node, node }: NamedNode<'_>,
        collections: &mut IdVec<CollectionId, Collection>,
        nodes: &IdVec<CollectionId, NamedNode<'_>>,
    ) -> Option<Link> {
        self.section(node, "a link", &[keywords::LINK])?;
        let names: Vec<&str> = nodes.iter().map(|entry| entry.name).collect();
        let to = self.required(node, "to").and_then(|to| self.reference(to, "collection", &names))?;
        let (field, _) = collections[from].field(name)?;
        let types = types_without_links(&collections[from]);
        let field_names: Vec<&str> = types.keys().map(String::as_str).collect();
        let when = node.get("when").and_then(|node| self.cel_of(node, &types, Expected::Condition));
        let group = node.get("group").and_then(|node| self.cel_of(node, &types, TEXT));
        let span = node.get("span").and_then(|node| self.span(node, &collections[from]));
        let rule = match (node.get("key"), node.get("same"), node.get("match")) {
            (Some(key), None, None) => TargetRule::Key(self.link_key(key, &collections[from], &field_names)?),
            (None, Some(same_node), None) => {
                let fields = self.equal_fields(same_node, &collections[from], &collections[to])?;
                let overlap = match node.get("overlap") {
                    Some(overlap) => Some(self.overlap(overlap, &collections[from], &collections[to])?),
                    None => None,
                };
                let is_list = |(own, _): &(FieldId, FieldId)| collections[from].fields[*own].golden_type().is_list();
                let several = if overlap.is_none() && fields.iter().any(is_list) { SeveralFound::Every } else { SeveralFound::Smallest };
                TargetRule::Same { criteria: vec![fields], overlap, several }
            }
            (None, None, Some(criteria)) => self.matched(node, criteria, (from, to), collections)?,
            _ => {
                let message = format!(
                    "link `{name}` needs `key`, the target's key, `same`, fields that are equal, or `match`, criteria that are tried in order"
                );
                self.problem(name_node, message);
                return None;
            }
        };
        for (word, required) in [("overlap", "same"), ("several", "match")] {
            if let (Some(value), None) = (node.get(word), node.get(required)) {
                self.problem(value, format!("`{word}` requires `{required}`"));
            }
        }
        let create = self.boolean(node.get("create"), "create");
        let names_its_target = matches!(rule, TargetRule::Key(_) | TargetRule::Merged { .. });
        if create && !(names_its_target && matches!(collections[to].key, KeyDefinition::Field(_))) {
            let help = "a link by `same` or `match` finds records that exist; what is found by none could not be created under any key";
            let message = "`create` requires `key`, or `match` with `several: merge`, and a collection whose key is a field";
            self.problem_with_help(name_node, message, help);
        }
        let id = id_of(&format!("{}.{name}", collections[from].name));
        let many = match &rule {
            TargetRule::Key(key) => list_field_in_key(&collections[from], key).is_some(),
            TargetRule::Same { several, .. } => *several == SeveralFound::Every,
            TargetRule::Merged { .. } => false,
        };
        if many {
            let ty = FieldType::List(Box::new(FieldType::Text));
            let mut index = self.index(node.get("index"), &ty);
            self.refuse_words(node.get("index"), &mut index, "a link");
            collections[from].fields[field].index = index;
            collections[from].fields[field].ty = ty;
        }
        let (conditions, edge_fields, read_fields, reads_existence) = (Vec::new(), Vec::new(), Vec::new(), false);
        Some(Link {
            name: name.to_owned(),
            id,
            child_collection: from,
            target_collection: to,
            field,
            many,
            when,
            target_rule: rule,
            create,
            group,
            span,
            conditions,
            edge_fields,
            read_fields,
            reads_existence,
        })
    }

    /// Parses `match`: criteria that are tried in order, and what holds if one finds several records.
    fn matched(
        &mut self,
        link: &Node,
        node: &Node,
        (from, to): (CollectionId, CollectionId),
        collections: &IdVec<CollectionId, Collection>,
    ) -> Option<TargetRule> {
        let NodeKind::List(items) = &node.kind else {
            let help = "for example: match: [id, lccn+supplier, isbn]";
            self.problem_with_help(node, format!("`match` is a list of criteria, this is {}", node.kind_name()), help);
            return None;
        };
        let choices =
            [("fail", Some(SeveralFound::Fail)), ("smallest", Some(SeveralFound::Smallest)), ("every", Some(SeveralFound::Every)), ("merge", None)];
        let several = self.choice(link.get("several"), "choice for several", &choices).unwrap_or(Some(SeveralFound::Fail));
        if !(1..=MAX_CRITERIA).contains(&items.len()) {
            self.problem(node, format!("`match` has 1 to {MAX_CRITERIA} criteria"));
            return None;
        }
        // of a link that merges, both ends are records of this collection
        let (mine, theirs) = (&collections[from], &collections[if several.is_none() { from } else { to }]);
        let mut criteria: Vec<EqualFields> = Vec::with_capacity(items.len());
        for item in items {
            let fields = match item.text() {
                Some(text) if text.contains('+') => {
                    let parts = text
                        .split('+')
                        .map(|part| Node { kind: NodeKind::Scalar { text: part.trim().into(), quoted: false }, span: item.span.clone() });
                    self.equal_fields(&Node { kind: NodeKind::List(parts.collect()), span: item.span.clone() }, mine, theirs)?
                }
                _ => self.equal_fields(item, mine, theirs)?,
            };
            if criteria.contains(&fields) {
                self.problem(item, "this criterion is there already");
            }
            criteria.push(fields);
        }
        let Some(several) = several else {
            if let Some((position, _)) = criteria.iter().enumerate().find(|(_, fields)| fields.iter().any(|(own, other)| own != other)) {
                self.problem(&items[position], "records that are merged share values of the same fields: name each field once");
            }
            let own = criteria.iter().map(|fields| fields.iter().map(|(own, _)| *own).collect());
            return Some(TargetRule::Merged { criteria: own.collect() });
        };
        if from == to {
            let help = "`several: merge` finds what records of one collection have in common";
            self.problem_with_help(node, "a record of this collection would find itself", help);
        }
        Some(TargetRule::Same { criteria, overlap: None, several })
    }

    fn link_key(&mut self, node: &Node, collection: &Collection, field_names: &[&str]) -> Option<Template> {
        let text = self.text_of(node, "a key")?.to_owned();
        let braced = if text.contains('{') { text.clone() } else { format!("{{{text}}}") };
        match Template::parse(&braced) {
            Ok(template) => {
                for name in template.names().filter(|name| !field_names.contains(name)) {
                    let at = text.find(name).unwrap_or(0);
                    self.problems.push(Diagnostic::new(self.span_at(node, at), format!("there is no field `{name}`")));
                }
                let mut lists: Vec<&str> = template.names().filter(|name| field_names.contains(name)).collect();
                lists.retain(|name| collection.field(name).is_some_and(|(_, field)| field.golden_type().is_list()));
                lists.dedup();
                for name in &lists {
                    self.check_list_field(node, collection, name);
                }
                if let [first, second, ..] = lists.as_slice() {
                    let message = format!("a key can use the elements of one list only; `{first}` and `{second}` are two");
                    self.problem(node, message);
                }
                Some(template)
            }
            Err((at, message)) => {
                self.problems.push(Diagnostic::new(self.span_at(node, at), message));
                None
            }
        }
    }

    /// Checks that the elements of a list that a link uses are values: of a list of structs, the link must use a member that has an index.
    fn check_list_field(&mut self, node: &Node, collection: &Collection, name: &str) {
        let Some((_, field)) = collection.field(name) else { return };
        if !field.golden_type().members().is_empty() {
            let member = &field.golden_type().members()[0].name;
            self.problem(node, format!("`{name}` is a list of structs; name one of their members: `{name}.{member}`"));
        } else if field.is_member() && !field.index.ordered {
            self.problem(
                node,
                format!("a link by `{name}` needs an index on that member: `index: {{ {}: equal }}`", name.rsplit('.').next().unwrap_or(name)),
            );
        }
    }

    fn equal_fields(&mut self, node: &Node, mine: &Collection, theirs: &Collection) -> Option<Vec<(FieldId, FieldId)>> {
        let mut fields = Vec::new();
        match &node.kind {
            NodeKind::Map(entries) => {
                for (child_field, target_field) in entries {
                    fields.push((self.field_of(child_field, mine)?, self.field_of(target_field, theirs)?));
                }
            }
            NodeKind::List(items) => {
                for item in items {
                    fields.push((self.field_of(item, mine)?, self.field_of(item, theirs)?));
                }
            }
            NodeKind::Scalar { .. } => fields.push((self.field_of(node, mine)?, self.field_of(node, theirs)?)),
        }
        for (child_field, target_field) in &fields {
            self.check_list_field(node, mine, &mine.fields[*child_field].name);
            self.check_list_field(node, theirs, &theirs.fields[*target_field].name);
            let (child_field, target_field) = (&mine.fields[*child_field], &theirs.fields[*target_field]);
            let (mine, theirs) = (child_field.golden_type(), target_field.golden_type());
            if mine.element() != theirs.element() || matches!(mine.element(), FieldType::Json | FieldType::Geometry) {
                self.problem(node, format!("`{}` is {mine} and `{}` is {theirs}: they are never equal", child_field.name, target_field.name));
            }
        }
        if fields.is_empty() {
            self.problem(node, "`same` names no field");
            return None;
        }
        Some(fields)
    }

    fn overlap(&mut self, node: &Node, mine: &Collection, theirs: &Collection) -> Option<IntervalOverlap> {
        self.section(node, "overlap", &[keywords::OVERLAP])?;
        let mine = self.required(node, "mine").and_then(|node| self.span(node, mine))?;
        let theirs = self.required(node, "theirs").and_then(|node| self.span(node, theirs))?;
        let tolerance = node.get("tolerance").map_or(Some(0), |node| self.duration(node, "tolerance"))?;
        let reach = node.get("reach").map_or(Some(3_600_000_000), |node| self.duration(node, "reach"))?;
        if reach <= 0 {
            self.problem(node, "`reach` must be greater than 0");
        }
        Some(IntervalOverlap { mine, theirs, tolerance, reach: reach.max(1) })
    }

    /// Parses two fields of type timestamp.
    fn span(&mut self, node: &Node, collection: &Collection) -> Option<(FieldId, FieldId)> {
        let NodeKind::List(items) = &node.kind else {
            self.problem(node, format!("an interval is a list of two fields, this is {}", node.kind_name()));
            return None;
        };
        let [start, stop] = items.as_slice() else {
            self.problem(node, "an interval is a list of two fields: where it starts and where it stops");
            return None;
        };
        Some((self.time_field(start, collection)?, self.time_field(stop, collection)?))
    }

    fn time_field(&mut self, node: &Node, collection: &Collection) -> Option<FieldId> {
        let index = self.field_of(node, collection)?;
        let field = &collection.fields[index];
        if *field.golden_type() != FieldType::Timestamp {
            self.problem(node, format!("an interval has timestamps, `{}` is {}", field.name, field.golden_type()));
        }
        Some(index)
    }

    pub(super) fn field_of(&mut self, node: &Node, collection: &Collection) -> Option<FieldId> {
        let names: Vec<&str> = collection.fields.iter().map(|field| field.name.as_str()).collect();
        self.reference(node, "field", &names)
    }

    /// Records which fields are read through links.
    fn collect_link_reads(
        &mut self,
        collections: &mut IdVec<CollectionId, Collection>,
        nodes: &IdVec<CollectionId, NamedNode<'_>>,
        links: &mut IdVec<LinkId, Link>,
    ) {
        for (from, NamedNode { node, .. }) in nodes.enumerate() {
            for NamedNode { name, node: field_node, .. } in self.named_entries(node.get("fields"), "fields") {
                let Some((_, field)) = collections[from].field(name) else { continue };
                let Some(Derivation::ThroughLinks(expression)) = &field.derive else { continue };
                let Some(derive) = field_node.get("derive") else { continue };
                for variable in expression.variables() {
                    let Some(link) = links.iter_mut().find(|link| link.child_collection == from && link.name == *variable) else { continue };
                    let target = &collections[link.target_collection];
                    let members: Vec<&str> = members_of(expression, variable).map(|member| member.name.as_str()).collect();
                    if members.is_empty() {
                        self.problem(
                            derive,
                            format!("`{variable}` is a linked record: write `{variable}.key`, `{variable}.exists` or `{variable}.FIELD`"),
                        );
                    }
                    let is_whole = |member: &&str| expression.source().trim() == format!("{variable}.{member}");
                    if let Some(member) = members.iter().copied().find(|member| link.many && is_whole(member) && !field.ty.is_list())
                        && (member != "exists" || target.field(member).is_some())
                    {
                        let ty = target.field(member).map_or(&FieldType::Text, |(_, field)| field.golden_type().element());
                        self.problem(derive, format!("`{variable}` leads to several records, so `{variable}.{member}` is a list: `type: [{ty}]`"));
                    }
                    for member in members {
                        match target.field(member) {
                            Some((read, _)) if !link.read_fields.contains(&read) => link.read_fields.push(read),
                            Some(_) => {}
                            None if member == "exists" => link.reads_existence = true,
                            None if member == "key" => {}
                            None => {
                                let at = derive.text().and_then(|text| text.find(member)).unwrap_or(0);
                                let message = format!("`{}` has no field `{member}`", target.name);
                                self.problems.push(Diagnostic::new(self.span_at(derive, at), message));
                            }
                        }
                    }
                }
            }
        }
        for link in links {
            link.read_fields.sort_unstable();
        }
    }
}

/// Returns the types of fields that a collection's own rules may use: links are only used by rules about other records.
pub(super) fn types_without_links(collection: &Collection) -> Types {
    let mut types = golden_types(collection, true);
    collection.fields.iter().filter(|field| field.is_link()).for_each(|field| drop(types.remove(&field.name)));
    types
}

impl Link {
    fn rule_text(&self, collections: &IdVec<CollectionId, Collection>) -> String {
        let name = |collection: CollectionId, field: FieldId| collections[collection].fields[field].name.as_str();
        let rule = match &self.target_rule {
            TargetRule::Key(key) => format!("{key:?}"),
            TargetRule::Merged { criteria } => {
                let names = |fields: &Vec<FieldId>| fields.iter().map(|field| name(self.child_collection, *field)).collect::<Vec<_>>();
                format!("merge {:?}", criteria.iter().map(names).collect::<Vec<_>>())
            }
            TargetRule::Same { criteria, overlap, several } => {
                let names = |fields: &EqualFields| -> Vec<_> {
                    let pairs = fields.iter();
                    pairs.map(|(own, other)| (name(self.child_collection, *own), name(self.target_collection, *other))).collect()
                };
                let mut criteria: Vec<String> = criteria.iter().map(|fields| format!("{:?}", names(fields))).collect();
                // links by `same` are called as they always were
                if criteria.len() > 1 || *several == SeveralFound::Fail {
                    criteria.push(format!("{several:?}"));
                }
                let fields = criteria.join(" ");
                let overlap = overlap.map(|overlap| {
                    let mine = (name(self.child_collection, overlap.mine.0), name(self.child_collection, overlap.mine.1));
                    let theirs = (name(self.target_collection, overlap.theirs.0), name(self.target_collection, overlap.theirs.1));
                    (mine, theirs, overlap.tolerance, overlap.reach)
                });
                format!("{fields} {overlap:?}")
            }
        };
        let span = self.span.map(|(start, stop)| (name(self.child_collection, start), name(self.child_collection, stop)));
        let text = |expression: &Option<Expression>| expression.as_ref().map(|expression| expression.source().to_owned());
        let many = if self.many { " many" } else { "" };
        format!("{} {rule} {:?} {:?} {span:?} {}{many}", collections[self.target_collection].name, text(&self.when), text(&self.group), self.create)
    }
}
