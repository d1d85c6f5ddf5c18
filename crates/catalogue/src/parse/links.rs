//! Links, rollups and coverages: read when all collections are known, because they speak of several.

use super::typed::{Types, golden};
use super::{DefinitionParser, placeholder};
use crate::eval::expression::Expression;
use crate::eval::types::{Expected, TextConversion, Type, TypeKind};
use crate::model::definition::{Collection, ExistenceRule, Field, FieldIndexes, KeyDefinition};
use crate::model::key::Template;
use crate::model::links::*;
use crate::parse::words;
use crate::parse::yaml::{Node, NodeKind};
use crate::value::{FieldType, Value};
use regex::Regex;

/// A collection's node, its name's and its name.
type CollectionNode<'n> = (&'n str, &'n Node, &'n Node);

impl DefinitionParser<'_> {
    /// The fields that hold keys of linked records. What they are is read later, with [`DefinitionParser::relations`].
    pub(super) fn link_fields(&mut self, node: &Node, field_names: &[&str]) -> Vec<Field> {
        let mut fields = Vec::new();
        for (name, name_node, link) in self.named(node.get("links"), "links") {
            if field_names.contains(&name) {
                self.problem(name_node, format!("`{name}` is a field already; a link is a field that holds the key of the linked record"));
                continue;
            }
            let mut field = placeholder(name);
            field.index = self.index(link.get("index"), &FieldType::Text);
            // replaced when links are read
            field.derive = Some(Derivation::LinkKeys(usize::MAX));
            fields.push(field);
        }
        fields
    }

    /// Links, rollups and coverages of all collections; the collections of coverages are added behind the others.
    pub(super) fn relations(&mut self, collections: &mut Vec<Collection>, nodes: &[CollectionNode<'_>]) -> (Vec<Link>, Vec<Coverage>) {
        let mut links = Vec::new();
        for (from, (_, _, node)) in nodes.iter().enumerate() {
            for (name, name_node, link) in self.named(node.get("links"), "links") {
                links.extend(self.link(from, name, name_node, link, collections, nodes));
            }
        }
        for (parent, (_, _, node)) in nodes.iter().enumerate() {
            for (name, _, field) in self.named(node.get("fields"), "fields") {
                let Some(rollup) = field.get("rollup") else { continue };
                let read = self.rollup(parent, rollup, collections, &mut links);
                let place = collections[parent].field(name).map(|(index, _)| index);
                if let (Some(place), Some(rollup)) = (place, read) {
                    self.rollup_fits(
                        field,
                        &collections[parent].fields[place].ty,
                        &rollup,
                        &collections[links[rollup.link].child_collection],
                        &links[rollup.link],
                    );
                    collections[parent].fields[place].derive = Some(Derivation::Rollup(rollup));
                }
            }
        }
        self.spread_settling(collections);
        self.through(collections, nodes, &mut links);
        let mut coverages = Vec::new();
        for (parent, (_, _, node)) in nodes.iter().enumerate() {
            for (name, name_node, coverage) in self.named(node.get("coverage"), "coverages") {
                self.coverage(parent, name, name_node, coverage, collections, &mut links, &mut coverages);
            }
        }
        self.children_tell_what_is_theirs(collections, nodes, &links);
        if self.problems.is_empty() {
            self.settling_is_acyclic(collections, nodes, &links);
            self.created_records_end(collections, nodes, &links);
        }
        for (collection, (_, _, node)) in collections.iter().zip(nodes) {
            for field in collection.fields.iter().filter(|field| field.unique && field.is_settled()) {
                let message = format!("`{}` is derived from other records and cannot be kept unique; remove `unique`", field.name);
                self.problem(node, message);
            }
        }
        for link in links.iter().filter(|link| link.is_only_read()) {
            let index = &mut collections[link.child_collection].fields[link.field].index;
            match link.many {
                // the index of elements answers questions, too
                true => index.ordered = true,
                false => index.by_link = !index.ordered,
            }
        }
        for link in &mut links {
            // another meaning is another link: what was built with the old one is not read any more
            let conditions: Vec<&str> = link.conditions.iter().map(Expression::source).collect();
            let told: Vec<&str> = link.edge_fields.iter().map(|field| collections[link.child_collection].fields[*field].name.as_str()).collect();
            link.id = id_of(&format!("{} {:?} {conditions:?} {told:?}", link.id, link.rule_text(collections)));
        }
        (links, coverages)
    }

    fn link(
        &mut self,
        from: usize,
        name: &str,
        name_node: &Node,
        node: &Node,
        collections: &mut [Collection],
        nodes: &[CollectionNode<'_>],
    ) -> Option<Link> {
        self.section(node, "a link", &[words::LINK])?;
        let names: Vec<&str> = nodes.iter().map(|(name, ..)| *name).collect();
        let to = self.required(node, "to").and_then(|to| self.reference(to, "collection", &names))?;
        let (field, _) = collections[from].field(name)?;
        let types = own_types(&collections[from]);
        let own: Vec<&str> = types.keys().map(String::as_str).collect();
        let when = node.get("when").and_then(|node| self.cel_of(node, &types, Expected::Condition));
        let group = node.get("group").and_then(|node| self.cel_of(node, &types, TEXT));
        let span = node.get("span").and_then(|node| self.span(node, &collections[from]));
        let rule = match (node.get("key"), node.get("same")) {
            (Some(key), None) => TargetRule::Key(self.link_key(key, &collections[from], &own)?),
            (None, Some(same)) => {
                let fields = self.same(same, &collections[from], &collections[to])?;
                let overlap = match node.get("overlap") {
                    Some(overlap) => Some(self.overlap(overlap, &collections[from], &collections[to])?),
                    None => None,
                };
                TargetRule::Same { fields, overlap }
            }
            _ => {
                self.problem(name_node, format!("link `{name}` needs `key`, the target's key, or `same`, fields that are equal"));
                return None;
            }
        };
        if let (Some(overlap), TargetRule::Key(_)) = (node.get("overlap"), &rule) {
            self.problem(overlap, "`overlap` requires `same`");
        }
        let create = self.boolean(node.get("create"), "create");
        if create && !(matches!(rule, TargetRule::Key(_)) && matches!(collections[to].key, KeyDefinition::Field(_))) {
            self.problem(name_node, "`create` requires `key`, and a collection whose key is a field");
        }
        let id = id_of(&format!("{}.{name}", collections[from].name));
        let many = match &rule {
            TargetRule::Key(key) => listed(&collections[from], key).is_some(),
            TargetRule::Same { overlap: Some(_), .. } => false,
            TargetRule::Same { fields, .. } => fields.iter().any(|(own, _)| collections[from].fields[*own].golden_type().is_list()),
        };
        if many {
            let ty = FieldType::List(Box::new(FieldType::Text));
            collections[from].fields[field].index = self.index(node.get("index"), &ty);
            collections[from].fields[field].ty = ty;
        }
        collections[from].fields[field].derive = Some(match &rule {
            TargetRule::Key(key) => Derivation::TargetKey(usize::MAX, when.clone(), key.clone()),
            TargetRule::Same { .. } => Derivation::LinkKeys(usize::MAX),
        });
        let (conditions, told, reads, asks) = (Vec::new(), Vec::new(), Vec::new(), false);
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
            edge_fields: told,
            read_fields: reads,
            reads_existence: asks,
        })
    }

    fn link_key(&mut self, node: &Node, collection: &Collection, own: &[&str]) -> Option<Template> {
        let text = self.text_of(node, "a key")?.to_owned();
        let braced = if text.contains('{') { text.clone() } else { format!("{{{text}}}") };
        match Template::parse(&braced) {
            Ok(template) => {
                for name in template.names().filter(|name| !own.contains(name)) {
                    let at = text.find(name).unwrap_or(0);
                    self.problems.push(crate::diagnostic::Diagnostic::new(self.inside(node, at), format!("there is no field `{name}`")));
                }
                let mut lists: Vec<&str> = template.names().filter(|name| own.contains(name)).collect();
                lists.retain(|name| collection.field(name).is_some_and(|(_, field)| field.golden_type().is_list()));
                lists.dedup();
                for name in &lists {
                    self.is_looked_into(node, collection, name);
                }
                if let [first, second, ..] = lists.as_slice() {
                    let message = format!("a key can use the elements of one list only; `{first}` and `{second}` are two");
                    self.problem(node, message);
                }
                Some(template)
            }
            Err((at, message)) => {
                self.problems.push(crate::diagnostic::Diagnostic::new(self.inside(node, at), message));
                None
            }
        }
    }

    /// The elements of a list that a link speaks of must be known: those of structs are where an index asks for them.
    fn is_looked_into(&mut self, node: &Node, collection: &Collection, name: &str) {
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

    /// Two fields of type timestamp.
    fn span(&mut self, node: &Node, collection: &Collection) -> Option<(usize, usize)> {
        let NodeKind::List(items) = &node.kind else {
            self.problem(node, format!("an interval is a list of two fields, this is {}", node.shape()));
            return None;
        };
        let [start, stop] = items.as_slice() else {
            self.problem(node, "an interval is a list of two fields: where it starts and where it stops");
            return None;
        };
        Some((self.time_field(start, collection)?, self.time_field(stop, collection)?))
    }

    fn time_field(&mut self, node: &Node, collection: &Collection) -> Option<usize> {
        let index = self.field_of(node, collection)?;
        let field = &collection.fields[index];
        if *field.golden_type() != FieldType::Timestamp {
            self.problem(node, format!("an interval has timestamps, `{}` is {}", field.name, field.golden_type()));
        }
        Some(index)
    }

    fn field_of(&mut self, node: &Node, collection: &Collection) -> Option<usize> {
        let names: Vec<&str> = collection.fields.iter().map(|field| field.name.as_str()).collect();
        self.reference(node, "field", &names)
    }

    fn same(&mut self, node: &Node, mine: &Collection, theirs: &Collection) -> Option<Vec<(usize, usize)>> {
        let mut fields = Vec::new();
        match &node.kind {
            NodeKind::Map(entries) => {
                for (own, other) in entries {
                    fields.push((self.field_of(own, mine)?, self.field_of(other, theirs)?));
                }
            }
            NodeKind::List(items) => {
                for item in items {
                    fields.push((self.field_of(item, mine)?, self.field_of(item, theirs)?));
                }
            }
            NodeKind::Scalar { .. } => fields.push((self.field_of(node, mine)?, self.field_of(node, theirs)?)),
        }
        for (own, other) in &fields {
            self.is_looked_into(node, mine, &mine.fields[*own].name);
            self.is_looked_into(node, theirs, &theirs.fields[*other].name);
            let (own, other) = (&mine.fields[*own], &theirs.fields[*other]);
            let (mine, theirs) = (own.golden_type(), other.golden_type());
            if mine.element() != theirs.element() || mine.element() == &FieldType::Json {
                self.problem(node, format!("`{}` is {mine} and `{}` is {theirs}: they are never equal", own.name, other.name));
            }
        }
        if fields.is_empty() {
            self.problem(node, "`same` names no field");
            return None;
        }
        Some(fields)
    }

    fn overlap(&mut self, node: &Node, mine: &Collection, theirs: &Collection) -> Option<IntervalOverlap> {
        self.section(node, "overlap", &[words::OVERLAP])?;
        let mine = self.required(node, "mine").and_then(|node| self.span(node, mine))?;
        let theirs = self.required(node, "theirs").and_then(|node| self.span(node, theirs))?;
        let tolerance = node.get("tolerance").map_or(Some(0), |node| self.length(node, "tolerance"))?;
        let reach = node.get("reach").map_or(Some(3_600_000_000), |node| self.length(node, "reach"))?;
        if reach <= 0 {
            self.problem(node, "`reach` must be greater than 0");
        }
        Some(IntervalOverlap { mine, theirs, tolerance, reach: reach.max(1) })
    }

    /// A duration, in microseconds.
    pub(super) fn length(&mut self, node: &Node, what: &str) -> Option<i64> {
        let text = self.text_of(node, what)?.to_owned();
        match crate::value::from_text(&text, &FieldType::Duration, None) {
            Ok(Value::Int(length)) => Some(length),
            _ => {
                self.problem(node, format!("{what} is a duration, such as 15s or 1h"));
                None
            }
        }
    }

    fn pattern(&mut self, node: &Node) -> Option<Regex> {
        self.regex(node, |text| format!("^(?:{text})"))
    }

    /// A regular expression, of what `whole` makes of the text.
    pub(super) fn regex(&mut self, node: &Node, whole: impl Fn(&str) -> String) -> Option<Regex> {
        let text = self.text_of(node, "a regular expression")?.to_owned();
        match Regex::new(&whole(&text)) {
            Ok(pattern) => Some(pattern),
            Err(_) => {
                self.problem(node, format!("`{text}` is not a regular expression"));
                None
            }
        }
    }

    /// A link as `COLLECTION.LINK`, which leads to `parent`.
    fn over(&mut self, node: &Node, parent: usize, collections: &[Collection], links: &[Link]) -> Option<usize> {
        let here: Vec<(usize, String)> = links
            .iter()
            .enumerate()
            .filter(|(_, link)| link.target_collection == parent)
            .map(|(index, link)| (index, format!("{}.{}", collections[link.child_collection].name, link.name)))
            .collect();
        let names: Vec<&str> = here.iter().map(|(_, name)| name.as_str()).collect();
        let place = self.reference(node, "link to this collection", &names)?;
        Some(here[place].0)
    }

    /// The number of a condition on a link's children.
    fn condition(&mut self, node: Option<&Node>, link: &mut Link, collections: &[Collection]) -> Option<usize> {
        let condition = match node {
            Some(node) => self.cel_of(node, &own_types(&collections[link.child_collection]), Expected::Condition)?,
            None => Expression::compile("true", &[]).ok()?,
        };
        let known = link.conditions.iter().position(|known| known.source() == condition.source());
        Some(known.unwrap_or_else(|| {
            link.conditions.push(condition);
            link.conditions.len() - 1
        }))
    }

    /// The place of a child's field among those that edges carry.
    fn told(&mut self, node: &Node, link: &mut Link, collections: &[Collection]) -> Option<usize> {
        let field = self.field_of(node, &collections[link.child_collection])?;
        Some(tell(link, field))
    }

    fn rollup(&mut self, parent: usize, node: &Node, collections: &[Collection], links: &mut [Link]) -> Option<Rollup> {
        self.section(node, "a rollup", &[words::ROLLUP])?;
        let link = self.required(node, "over").and_then(|over| self.over(over, parent, collections, links))?;
        let groups = node.get("groups").and_then(|node| self.pattern(node));
        let condition = self.condition(node.get("where"), &mut links[link], collections)?;
        let functions =
            [("sum", RollupFunction::Sum), ("min", RollupFunction::Min), ("max", RollupFunction::Max), ("distinct", RollupFunction::Distinct)];
        let given: Vec<_> = functions.into_iter().filter_map(|(word, function)| Some((node.get(word)?, function))).collect();
        let counts = node.get("count").is_some_and(|count| self.boolean(Some(count), "count"));
        let (function, told) = match (given.as_slice(), counts) {
            ([], true) => (RollupFunction::Count, None),
            ([(field, function)], false) => (*function, Some(self.told(field, &mut links[link], collections)?)),
            _ => {
                self.problem(node, "a rollup is one of `count: true`, `sum`, `min`, `max` and `distinct` with a field of the children");
                return None;
            }
        };
        Some(Rollup { link, groups, condition, function, edge_field: told })
    }

    /// A rollup has the type of what it computes: nothing converts it on its way into the record.
    fn rollup_fits(&mut self, node: &Node, ty: &FieldType, rollup: &Rollup, child: &Collection, link: &Link) {
        let told = rollup.edge_field.map(|told| &child.fields[link.edge_fields[told]]);
        let element = told.map(|field| field.golden_type().element());
        let name = told.map(|field| field.name.as_str()).unwrap_or_default();
        let fits = match (rollup.function, element) {
            (RollupFunction::Sum, Some(element @ (FieldType::Integer | FieldType::Size | FieldType::Duration))) => {
                ty == element || (*ty == FieldType::Float && *element != FieldType::Duration)
            }
            (RollupFunction::Sum, Some(FieldType::Float)) => *ty == FieldType::Float,
            (RollupFunction::Sum, Some(element)) => {
                return self.problem(node, format!("`{name}` is {element}, which has no sum"));
            }
            (RollupFunction::Min | RollupFunction::Max, Some(element)) => ty == element,
            _ => *ty == FieldType::Integer,
        };
        if !fits {
            let is = match (rollup.function, element) {
                (RollupFunction::Sum | RollupFunction::Min | RollupFunction::Max, Some(element)) => element,
                _ => &FieldType::Integer,
            };
            self.problem(node, format!("this rollup is {is}, the field is {ty}: say `type: {is}`"));
        }
    }

    /// A derivation that reads a settled field, or a linked record, is settled itself.
    fn spread_settling(&mut self, collections: &mut [Collection]) {
        for collection in collections {
            loop {
                let reads_settled = |field: &Field| {
                    let Some(Derivation::SameRecord(expression)) = &field.derive else { return false };
                    let settled = |name: &String| {
                        let derive = collection.field(name).and_then(|(_, read)| read.derive.as_ref());
                        derive.is_some_and(|derive| derive.is_settled() || matches!(derive, Derivation::TargetKey(..)))
                    };
                    expression.variables().iter().any(settled)
                };
                let Some(place) = collection.fields.iter().position(reads_settled) else { break };
                if let Some(Derivation::SameRecord(expression)) = collection.fields[place].derive.take() {
                    collection.fields[place].derive = Some(Derivation::ThroughLinks(expression));
                }
            }
        }
    }

    /// Numbers the links of fields, and notes what is read through them.
    fn through(&mut self, collections: &mut [Collection], nodes: &[CollectionNode<'_>], links: &mut [Link]) {
        for (index, link) in links.iter().enumerate() {
            if let Some(Derivation::LinkKeys(number) | Derivation::TargetKey(number, ..)) =
                &mut collections[link.child_collection].fields[link.field].derive
            {
                *number = index;
            }
        }
        for (from, (_, _, node)) in nodes.iter().enumerate() {
            for (name, _, field_node) in self.named(node.get("fields"), "fields") {
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
                                self.problems.push(crate::diagnostic::Diagnostic::new(self.inside(derive, at), message));
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

    #[expect(clippy::too_many_arguments, reason = "expressions of a coverage can use its parent, the parent's links and other coverages")]
    fn coverage(
        &mut self,
        parent: usize,
        name: &str,
        name_node: &Node,
        node: &Node,
        collections: &mut Vec<Collection>,
        links: &mut [Link],
        coverages: &mut Vec<Coverage>,
    ) -> Option<()> {
        self.section(node, "a coverage", &[words::COVERAGE, words::COVERAGE_CASE])?;
        let own = golden(&collections[parent], true);
        let when = node.get("when").and_then(|node| self.cel_of(node, &own, Expected::Condition));
        let mut with = Vec::new();
        for item in self.items(node.get("with"), "with") {
            with.extend(self.field_of(item, &collections[parent]));
        }
        let of = |kind| Coverage { name: name.to_owned(), parent, rows: collections.len(), when: when.clone(), kind };
        let (coverage, ty) = if let Some(of_node) = node.get("of") {
            let known: Vec<(usize, &str)> =
                coverages.iter().enumerate().filter(|(_, other)| other.parent == parent).map(|(i, o)| (i, o.name.as_str())).collect();
            let names: Vec<&str> = known.iter().map(|(_, name)| *name).collect();
            let place = self.reference(of_node, "coverage above this one", &names)?;
            let summed = known[place].0;
            if matches!(coverages[summed].kind, CoverageKind::Runs { .. }) {
                self.problem(of_node, "`runs` have no values to sum");
            }
            let numbers = ["value", "expected", "adjusted"].map(|name| (name.to_owned(), Type::from(TypeKind::Float)));
            let row = numbers.iter().map(|(name, ty)| (name.clone(), ty.clone().or_null())).collect();
            let group = ("group".to_owned(), Type::from(TypeKind::Text));
            let mut names: Types = numbers.into_iter().chain([group.clone(), ("by".to_owned(), TypeKind::Text.into())]).collect();
            names.insert("rows".to_owned(), Type::mapping("rows", Type::structure("a row", row)));
            let by = match node.get("by") {
                Some(by) => self.cel_of(by, &[group].into(), TEXT)?,
                None => Expression::compile("'all'", &[]).ok()?,
            };
            let value = node.get("value").and_then(|node| self.cel_of(node, &names, Expected::Number));
            let expected = node.get("expected").and_then(|node| self.cel_of(node, &names, Expected::Number));
            let ty = collections[coverages[summed].rows].fields[2].ty.clone();
            (of(CoverageKind::Total(CoverageTotal { of: summed, by, value, expected })), Some(ty))
        } else {
            let link = self.required(node, "over").and_then(|over| self.over(over, parent, collections, links))?;
            let condition = self.condition(node.get("where"), &mut links[link], collections)?;
            if let Some(runs) = node.get("runs") {
                self.section(runs, "runs", &[words::RUNS])?;
                let told = self.required(runs, "value").and_then(|value| self.told(value, &mut links[link], collections))?;
                let max_gap = runs.get("max_gap").map_or(Some(0), |node| self.length(node, "max_gap"))?;
                if links[link].span.is_none() {
                    self.problem(runs, "runs need the link's `span`");
                }
                (of(CoverageKind::Runs { link, condition, told, max_gap }), None)
            } else {
                let mut known = own.clone();
                known.insert("group".to_owned(), TypeKind::Text.into());
                let texts = FieldType::List(Box::new(FieldType::Text));
                let groups = node.get("groups").and_then(|node| self.cel_of(node, &own, Expected::Field(&texts, TextConversion::Value)));
                let mut cases = Vec::new();
                for item in self.items(node.get("cases"), "cases") {
                    self.section(item, "a case", &[words::COVERAGE_CASE, words::COVERAGE_MATCH])?;
                    cases.push(self.case(item, &known, &mut links[link], collections)?);
                }
                if cases.is_empty() || node.get("measure").is_some() {
                    cases.push(self.case(node, &known, &mut links[link], collections)?);
                }
                let all_times = cases.iter().all(|case| case.measure == Measure::Union);
                let ty = if all_times { FieldType::Duration } else { FieldType::Integer };
                (of(CoverageKind::Children(GroupedChildren { link, condition, groups, cases })), Some(ty))
            }
        };
        if own.contains_key("group") {
            self.problem(name_node, "a collection with coverage has no field `group`: expressions use that name");
        }
        let rows = rows_collection(&collections[parent], name, coverages.len(), ty, &with);
        coverages.push(coverage);
        collections.push(rows);
        Some(())
    }

    fn case(&mut self, node: &Node, known: &Types, link: &mut Link, collections: &[Collection]) -> Option<MeasureCase> {
        let pattern = node.get("match").and_then(|node| self.pattern(node));
        let measure_node = self.required(node, "measure")?;
        let measure = if matches!(measure_node.kind, NodeKind::Map(_)) {
            self.section(measure_node, "a measure", &[words::DISTINCT])?;
            let mut told = Vec::new();
            let distinct = self.required(measure_node, "distinct")?;
            for item in self.items(Some(distinct), "distinct") {
                told.push(self.told(item, link, collections)?);
            }
            let near = match measure_node.get("near") {
                Some(near) => Some(self.length(near, "near")?),
                None => None,
            };
            Measure::Distinct { edge_fields: told, tolerance: near }
        } else {
            self.choice(Some(measure_node), "measure", &[("union", true), ("count", false)])
                .map(|union| if union { Measure::Union } else { Measure::Count })?
        };
        let needs_span = matches!(measure, Measure::Union | Measure::Distinct { tolerance: Some(_), .. }) || node.get("gaps").is_some();
        if needs_span && link.span.is_none() {
            self.problem(measure_node, format!("this needs an interval: give link `{}` a `span`", link.name));
        }
        let mut with_value = known.clone();
        with_value.insert("value".to_owned(), Type::of(&measure.ty()));
        let value = node.get("value").and_then(|node| self.cel_of(node, &with_value, Expected::Number));
        let expected = node.get("expected").and_then(|node| self.cel_of(node, known, Expected::Number));
        let gaps = match node.get("gaps") {
            None => None,
            Some(gaps) => {
                self.section(gaps, "gaps", &[words::GAPS])?;
                let within = self.required(gaps, "within")?;
                let [from, to] = self.items(Some(within), "within") else {
                    self.problem(within, "`within` is a list of two expressions: from, to");
                    return None;
                };
                let shift = match gaps.get("shift") {
                    Some(shift) => Some(self.length(shift, "shift")?),
                    None => None,
                };
                Some(GapRule {
                    within: (self.cel_of(from, known, Expected::Number)?, self.cel_of(to, known, Expected::Number)?),
                    start_tolerance: shift,
                })
            }
        };
        Some(MeasureCase { pattern, measure, value, expected, gaps })
    }

    /// What edges carry must not be settled, or settling would not end.
    fn children_tell_what_is_theirs(&mut self, collections: &[Collection], nodes: &[CollectionNode<'_>], links: &[Link]) {
        for link in links {
            let child = &collections[link.child_collection];
            let settled = |field: usize| child.fields[field].is_settled();
            let mut used: Vec<usize> = link.edge_fields.clone();
            let named = |expression: &Expression| expression.variables().iter().filter_map(|name| Some(child.field(name)?.0)).collect::<Vec<_>>();
            used.extend(link.conditions.iter().chain(&link.when).chain(&link.group).flat_map(named));
            used.extend(link.span.iter().flat_map(|(start, stop)| [*start, *stop]));
            match &link.target_rule {
                TargetRule::Key(key) => used.extend(key.names().filter_map(|name| Some(child.field(name)?.0))),
                TargetRule::Same { fields, overlap } => {
                    used.extend(fields.iter().map(|(own, _)| *own));
                    used.extend(overlap.iter().flat_map(|overlap| [overlap.mine.0, overlap.mine.1]));
                    let target = &collections[link.target_collection];
                    let theirs =
                        fields.iter().map(|(_, other)| *other).chain(overlap.iter().flat_map(|overlap| [overlap.theirs.0, overlap.theirs.1]));
                    for field in theirs.filter(|field| target.fields[*field].is_settled()) {
                        let message =
                            format!("link `{}` matches on `{}.{}`, which is itself settled later", link.name, target.name, target.fields[field].name);
                        self.problem(nodes[link.child_collection].1, message);
                    }
                }
            }
            for field in used.into_iter().filter(|field| settled(*field)) {
                let message = format!(
                    "link `{}` and rules over it can use what documents say of `{}`, but `{}` is settled after them",
                    link.name, child.name, child.fields[field].name
                );
                self.problem(nodes[link.child_collection].1, message);
            }
        }
    }

    /// Records that exist because others name them have their key alone. Where they name others by that, these must not name them in turn:
    /// they would keep each other for ever.
    fn created_records_end(&mut self, collections: &[Collection], nodes: &[CollectionNode<'_>], links: &[Link]) {
        let goes_on = |link: &&Link| {
            let (TargetRule::Key(key), collection) = (&link.target_rule, &collections[link.child_collection]) else { return false };
            let has_value = |name: &str| {
                let is_key = |index: usize| matches!(collection.key, KeyDefinition::Field(key) if key == index);
                collection.field(name).is_some_and(|(index, field)| is_key(index) || matches!(field.derive, Some(Derivation::SameRecord(_))))
            };
            link.create && key.names().all(has_value)
        };
        let going_on: Vec<&Link> = links.iter().filter(goes_on).collect();
        for start in &going_on {
            let (mut seen, mut next) = (vec![start.target_collection], vec![start.target_collection]);
            while let Some(place) = next.pop() {
                for to in going_on.iter().filter(|link| link.child_collection == place).map(|link| link.target_collection) {
                    if !seen.contains(&to) {
                        seen.push(to);
                        next.push(to);
                    }
                }
            }
            if seen.contains(&start.child_collection) {
                let name = &collections[start.child_collection].name;
                self.problem_with_help(
                    nodes[start.child_collection].1,
                    format!("link `{}` of `{name}` creates records that, by their key alone, create records of `{name}` again", start.name),
                    "they would keep each other alive for ever; remove `create` from one of the links",
                );
            }
        }
    }

    /// A settled field may read others through links, but not itself.
    fn settling_is_acyclic(&mut self, collections: &[Collection], nodes: &[CollectionNode<'_>], links: &[Link]) {
        let settled: Vec<(usize, usize)> = (0..collections.len())
            .flat_map(|collection| (0..collections[collection].fields.len()).map(move |field| (collection, field)))
            .filter(|(collection, field)| collections[*collection].fields[*field].is_settled())
            .collect();
        let reads = |(collection, field): (usize, usize)| -> Vec<(usize, usize)> {
            let Some(Derivation::ThroughLinks(expression)) = &collections[collection].fields[field].derive else { return Vec::new() };
            let mut reads = Vec::new();
            for name in expression.variables() {
                if let Some((own, _)) = collections[collection].field(name) {
                    reads.push((collection, own));
                }
                for link in links.iter().filter(|link| link.child_collection == collection && link.name == *name) {
                    let members = members_of(expression, name).filter_map(|member| collections[link.target_collection].field(&member.name));
                    reads.extend(members.map(|(read, _)| (link.target_collection, read)));
                }
            }
            reads
        };
        for start in &settled {
            let mut seen = vec![*start];
            let mut next = reads(*start);
            while let Some(place) = next.pop() {
                if place == *start {
                    let (collection, field) = *start;
                    let message = format!("`{}.{}` depends on itself", collections[collection].name, collections[collection].fields[field].name);
                    self.problem(nodes[collection].1, message);
                    break;
                }
                if !seen.contains(&place) {
                    seen.push(place);
                    next.extend(reads(place));
                }
            }
        }
    }
}

/// The place of a child's field among those that edges carry.
fn tell(link: &mut Link, field: usize) -> usize {
    link.edge_fields.iter().position(|told| *told == field).unwrap_or_else(|| {
        link.edge_fields.push(field);
        link.edge_fields.len() - 1
    })
}

/// A group is text.
const TEXT: Expected<'static> = Expected::Field(&FieldType::Text, TextConversion::Value);

/// Fields that a collection's own rules may name: links are named by rules about other records.
fn own_types(collection: &Collection) -> Types {
    let mut own = golden(collection, true);
    collection.fields.iter().filter(|field| field.is_link()).for_each(|field| drop(own.remove(&field.name)));
    own
}

impl Link {
    fn rule_text(&self, collections: &[Collection]) -> String {
        let name = |collection: usize, field: usize| collections[collection].fields[field].name.as_str();
        let rule = match &self.target_rule {
            TargetRule::Key(key) => format!("{key:?}"),
            TargetRule::Same { fields, overlap } => {
                let fields: Vec<_> =
                    fields.iter().map(|(own, other)| (name(self.child_collection, *own), name(self.target_collection, *other))).collect();
                let overlap = overlap.map(|overlap| {
                    let mine = (name(self.child_collection, overlap.mine.0), name(self.child_collection, overlap.mine.1));
                    let theirs = (name(self.target_collection, overlap.theirs.0), name(self.target_collection, overlap.theirs.1));
                    (mine, theirs, overlap.tolerance, overlap.reach)
                });
                format!("{fields:?} {overlap:?}")
            }
        };
        let span = self.span.map(|(start, stop)| (name(self.child_collection, start), name(self.child_collection, stop)));
        let text = |expression: &Option<Expression>| expression.as_ref().map(|expression| expression.source().to_owned());
        let many = if self.many { " many" } else { "" };
        format!("{} {rule} {:?} {:?} {span:?} {}{many}", collections[self.target_collection].name, text(&self.when), text(&self.group), self.create)
    }
}

/// The collection of a coverage's rows.
fn rows_collection(parent: &Collection, name: &str, coverage: usize, ty: Option<FieldType>, with: &[usize]) -> Collection {
    let ordered = FieldIndexes { ordered: true, ..FieldIndexes::default() };
    let field = |name: &str, ty: FieldType, index: FieldIndexes| Field { ty, index, ..placeholder(name) };
    let key_text;
    let mut fields = vec![field(&parent.name, FieldType::Text, ordered)];
    match ty {
        Some(ty) => {
            key_text = format!("{{{}}}#{{group}}", parent.name);
            let types = [FieldType::Text, ty.clone(), ty.clone(), ty, FieldType::Float, FieldType::Text, FieldType::Json];
            for (name, ty) in COVERAGE_FIELDS.into_iter().zip(types) {
                fields.push(field(name, ty, if matches!(name, "group" | "status") { ordered } else { FieldIndexes::default() }));
            }
        }
        None => {
            key_text = format!("{{{}}}@{{start}}", parent.name);
            let types = [FieldType::Text, FieldType::Timestamp, FieldType::Timestamp, FieldType::Duration];
            for (name, ty) in RUN_FIELDS.into_iter().zip(types) {
                fields.push(field(name, ty, if matches!(name, "value" | "start") { ordered } else { FieldIndexes::default() }));
            }
        }
    }
    for copied in with {
        let copied = &parent.fields[*copied];
        if fields.iter().all(|known| known.name != copied.name) {
            fields.push(field(&copied.name, copied.golden_type().clone(), FieldIndexes { ordered: copied.index.ordered, ..FieldIndexes::default() }));
        }
    }
    let key = Template::parse(&key_text).map_or(KeyDefinition::Field(0), KeyDefinition::Template);
    Collection {
        name: format!("{}.{name}", parent.name),
        key,
        key_text,
        keep_raw: false,
        exists: ExistenceRule::Latest,
        history: None,
        fields,
        states: Vec::new(),
        transitions: Vec::new(),
        tags: None,
        rows_of: Some(coverage),
    }
}
