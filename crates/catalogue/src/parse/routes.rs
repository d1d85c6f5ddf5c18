//! Parses declared routes.

use super::expressions::{Types, golden_types};
use super::parser::{DefinitionParser, NamedNode};
use super::route_steps::StepsScope;
use crate::diagnostic::Diagnostic;
use crate::eval::Expression;
use crate::eval::types::{Expected, TextConversion, Type, TypeKind};
use crate::model::definition::{Collection, QueryAlias};
use crate::model::ids::{CollectionId, IdVec};
use crate::model::key::Template;
use crate::model::route::{
    IncludeRequirement, Lookup, LookupCondition, LookupPart, LookupRoute, METHODS, MatchKind, Method, OperandSource, PageParams, Param,
    ParamLocation, Projection, QUERY_PARTS, QueryPart, QueryRoute, RecordColumn, Route, RouteAction, RouteSelector, TAG,
};
use crate::parse::keywords;
use crate::parse::yaml::{Node, NodeKind};
use crate::value::FieldType;

/// Max levels of includes.
const MAX_INCLUDE_DEPTH: usize = 5;

/// Words that only routes in steps have, and those that they have not.
const STEPS_WORDS: [&str; 6] = ["find", "refuse", "write", "body", "code", "type"];
const OTHER_WORDS: [&str; 10] = ["missing", "distinct", "page", "of", "key", "args", "where", "sort", "include", "fields"];

/// First segments of the server's own paths.
const RESERVED_PATHS: [&str; 10] = ["v1", "healthz", "readyz", "metrics", "docs", "openapi.json", "t", "sign-in", "sign-out", "assets"];

/// The names that are known inside a route.
#[derive(Clone, Copy)]
pub(super) struct RouteScope<'s> {
    pub(super) collections: &'s IdVec<CollectionId, Collection>,
    pub(super) params: &'s [Param],
    /// The collection of the record that a lookup is included with.
    pub(super) parent: Option<&'s Collection>,
    pub(super) depth: usize,
    /// What a route in steps has found before.
    pub(super) steps: Option<&'s StepsScope>,
}

impl DefinitionParser<'_> {
    pub(super) fn routes(&mut self, node: Option<&Node>, collections: &IdVec<CollectionId, Collection>, words: &[QueryAlias]) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        for item in self.items(node, "routes") {
            let Some(route) = self.route(item, collections, words) else { continue };
            // paths that differ only in names of parameters are the same path
            let shape = |path: &str| path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part }).collect::<Vec<_>>().join("/");
            let same_shape = routes.iter().filter(|other| shape(&other.path) == shape(&route.path)).collect::<Vec<_>>();
            let mut same_method = same_shape.iter().filter(|other| other.method == route.method);
            if same_method.clone().any(|other| other.selected_by() == route.selected_by()) {
                self.problem(item, format!("{} {} is declared twice", route.method.name(), route.declared_path()));
            } else if let Some(other) = same_shape.iter().find(|other| other.path != route.path) {
                self.problem(item, format!("{} and {} are one path, but call its parameters differently", other.path, route.path));
            } else if let Some(other) = same_method.clone().find(|other| {
                let (own, others) = (&route.selector, &other.selector);
                own.as_ref().zip(others.as_ref()).is_some_and(|(own, others)| own.param != others.param)
            }) {
                self.problem(item, format!("{} and {} are told apart by different parameters", other.declared_path(), route.declared_path()));
            } else if same_method.any(|other| other.is_open != route.is_open) {
                self.problem(item, format!("either all routes of {} {} are `open`, or none", route.method.name(), route.path));
            }
            routes.push(route);
        }
        routes
    }

    fn route(&mut self, node: &Node, collections: &IdVec<CollectionId, Collection>, words: &[QueryAlias]) -> Option<Route> {
        self.section(node, "a route", &[keywords::ROUTE, keywords::LOOK])?;
        let methods: Vec<(Method, &Node)> = METHODS.iter().filter_map(|(method, word)| Some((*method, node.get(word)?))).collect();
        let [(method, path_node)] = methods.as_slice() else {
            self.problem(node, "a route begins with its method and path, such as `get: /things/{id}`");
            return None;
        };
        let (path, selector) = self.route_path(path_node)?;
        let in_path: Vec<&str> = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let params = self.params(node.get("params"), &in_path, *method);
        if let Some(selector) = selector.as_ref().filter(|selector| params.iter().any(|param| param.name == selector.param)) {
            self.problem(path_node, format!("`{}` stands in the path and under `params`", selector.param));
        }
        if params.iter().any(|param| param.location == ParamLocation::WholeBody) && params.iter().any(|param| param.location == ParamLocation::Body) {
            self.problem(node, "a body is one parameter as a whole, or parameters for its members");
        }
        for name in in_path.iter().filter(|name| !params.iter().any(|param| param.name == **name)) {
            self.problem(path_node, format!("the parameter {{{name}}} of the path has no type under `params`"));
        }
        let scope = RouteScope { collections, params: &params, parent: None, depth: 0, steps: None };
        let action = match (node.get("transition"), node.get("ask")) {
            (Some(transition), _) => self.transition_route(node, transition, &scope)?,
            (None, Some(ask)) => RouteAction::Query(self.query_route(node, ask, &scope, words)?),
            (None, None) if node.get("one").is_none() && node.get("list").is_none() => RouteAction::Steps(Box::new(self.steps_route(node, &scope)?)),
            (None, None) => RouteAction::Lookup(Box::new(self.find(node, &scope)?)),
        };
        let changes = match &action {
            RouteAction::Transition { .. } => true,
            RouteAction::Steps(steps) => !steps.writes.is_empty(),
            RouteAction::Lookup(_) | RouteAction::Query(_) => false,
        };
        if changes && *method == Method::Get {
            self.problem(path_node, "a transition or write needs post, put, patch or delete, not get");
        }
        let is_steps = matches!(action, RouteAction::Steps(_));
        for word in if is_steps { &OTHER_WORDS[..] } else { &STEPS_WORDS[..] } {
            if let Some(misplaced) = node.get(word) {
                let of = if is_steps { "a look-up, a transition or `ask`" } else { "a route in steps, without `one`, `list`, `transition` or `ask`" };
                self.problem(misplaced, format!("`{word}` is of {of}"));
            }
        }
        let missing = node.get("missing").and_then(|node| self.text_of(node, "a sentence")).map(str::to_owned);
        let is_open = self.boolean(node.get("open"), "open");
        if is_open && !matches!(&action, RouteAction::Steps(steps) if steps.finds.is_empty() && steps.writes.is_empty()) {
            self.problem(node, "a route that needs no token finds and writes nothing");
        }
        let has_text_errors = self.choice(node.get("errors"), "form of errors", &[("declared", false), ("text", true)]).unwrap_or(false);
        Some(Route { method: *method, path, selector, params, action, missing, is_open, has_text_errors })
    }

    fn query_route(&mut self, node: &Node, ask: &Node, scope: &RouteScope<'_>, words: &[QueryAlias]) -> Option<QueryRoute> {
        self.section(ask, "ask", &[keywords::ROUTE_ASK])?;
        let names: Vec<&str> = scope.params.iter().map(|param| param.name.as_str()).collect();
        let mut param = |parameter_node: &Node, ty: &FieldType| {
            let index = self.reference::<usize>(parameter_node, "parameter", &names)?;
            if scope.params[index].ty != *ty {
                self.problem(parameter_node, format!("the parameter is of type {ty}"));
            }
            Some(index)
        };
        let mut param_of = |word: &str, ty: &FieldType| param(ask.get(word)?, ty);
        let (query, ticket, view) = (param_of("query", &FieldType::Text), param_of("ticket", &FieldType::Text), param_of("view", &FieldType::Text));
        let (offset, limit) = (param_of("offset", &FieldType::Integer), param_of("limit", &FieldType::Integer));
        let mut given = Vec::new();
        if let Some(Node { kind: NodeKind::Map(entries), .. }) = ask.get("where") {
            for (word, parameter) in entries {
                given.extend(param(parameter, &FieldType::Text).map(|index| (word, index)));
            }
        }
        let known: Vec<&str> = words.iter().map(|word| word.name.as_str()).collect();
        let given: Vec<(String, usize)> =
            given.into_iter().filter_map(|(word, index)| Some((known[self.reference::<usize>(word, "word", &known)?].to_owned(), index))).collect();
        let by_source = self.boolean(ask.get("by_source"), "by_source");
        let one_is_enough = self.boolean(ask.get("one_is_enough"), "one_is_enough");
        let answers_mistakes = self.boolean(ask.get("answers_mistakes"), "answers_mistakes");
        let mut answer = Vec::new();
        for NamedNode { name, node: part, .. } in self.named_entries(node.get("answer"), "members") {
            answer.extend(self.choice(Some(part), "part of an answer", &QUERY_PARTS).map(|part| (name.to_owned(), part)));
        }
        if !answer.iter().any(|(_, part)| *part == QueryPart::Rows) {
            self.problem(ask, "`answer` says which member holds the rows, and which the status: { data: rows, status: status }");
        }
        if query.is_some_and(|query| scope.params[query].required.is_none()) {
            self.problem(ask, "the parameter with the query is required");
        }
        self.required(ask, "query");
        self.required(ask, "ticket");
        Some(QueryRoute { query: query?, offset, limit, ticket: ticket?, view, given, by_source, one_is_enough, answers_mistakes, answer })
    }

    /// Parses a path, and the parameter with a value after a question mark.
    fn route_path(&mut self, node: &Node) -> Option<(String, Option<RouteSelector>)> {
        let text = self.text_of(node, "a path")?.to_owned();
        let (path, selector) = text.split_once('?').map_or((text.as_str(), None), |(path, selector)| (path, Some(selector)));
        let path = path.to_owned();
        let is_word =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~'));
        let is_segment = |part: &str| is_word(part.strip_prefix('{').and_then(|part| part.strip_suffix('}')).unwrap_or(part));
        // a path may end with a slash
        let segments = path.strip_prefix('/').map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        let selector =
            selector.map(|selector| selector.split_once('=').filter(|(param, value)| is_word(param) && (value.is_empty() || is_word(value))));
        if !segments.is_some_and(|rest| rest.split('/').all(is_segment)) || selector == Some(None) {
            self.problem(node, "a path is /words/and/{parameters}, and may end with ?parameter=value: letters, digits, - _ . ~");
            return None;
        }
        let selector = selector.flatten().map(|(param, value)| RouteSelector { param: param.to_owned(), value: value.to_owned() });
        let first = path[1..].split('/').next().unwrap_or_default();
        if RESERVED_PATHS.contains(&first) || first.starts_with('{') {
            self.problem(node, format!("paths under /{first} are those of the API and its pages"));
            return None;
        }
        Some((path, selector))
    }

    fn transition_route(&mut self, node: &Node, transition_node: &Node, scope: &RouteScope<'_>) -> Option<RouteAction> {
        let names: Vec<&str> = scope.collections.iter().map(|collection| collection.name.as_str()).collect();
        let collection = self.required(node, "of").and_then(|node| self.reference(node, "collection", &names))?;
        let definition = &scope.collections[collection];
        let transitions: Vec<&str> = definition.transitions.iter().map(|transition| transition.name.as_str()).collect();
        let transition = self.reference::<usize>(transition_node, "transition", &transitions)?;
        let key_node = self.required(node, "key")?;
        let text = self.text_of(key_node, "a key")?.to_owned();
        let text = text.strip_prefix("params.").map_or(text.clone(), |name| format!("{{{name}}}"));
        let key = match Template::parse(&text) {
            Ok(key) => key,
            Err((at, message)) => {
                self.problems.push(Diagnostic::new(self.span_at(key_node, at), message));
                return None;
            }
        };
        for name in key.names() {
            if !scope.params.iter().any(|param| param.name == name) {
                self.problem(key_node, format!("there is no parameter `{name}`"));
            }
        }
        let mut args = Vec::new();
        let known: Vec<&str> = definition.transitions[transition].args.iter().map(|argument| argument.name.as_str()).collect();
        for NamedNode { name_node, node, .. } in self.named_entries(node.get("args"), "arguments") {
            let Some(index) = self.reference::<usize>(name_node, "argument", &known) else { continue };
            args.extend(self.param_index(node, scope).map(|param| (known[index].to_owned(), param)));
        }
        Some(RouteAction::Transition { collection, transition, key, args })
    }

    pub(super) fn find(&mut self, node: &Node, scope: &RouteScope<'_>) -> Option<LookupRoute> {
        let mut lookup = self.lookup(node, scope)?;
        lookup.trim();
        if let (Some(query), Some(steps)) = (node.get("query"), scope.steps) {
            lookup.query = self.computed(query, &FieldType::Text, steps);
        } else if lookup.conditions.is_empty() {
            self.problem(node, "a look-up has conditions: `where: { field: params.NAME }`");
        }
        let page = node.get("page").and_then(|page| {
            self.section(page, "a page", &[keywords::PAGE])?;
            let number = self.required(page, "number").and_then(|node| self.param_index(node, scope))?;
            let size = self.required(page, "size").and_then(|node| self.param_index(node, scope))?;
            let max_rows = page.get("most").and_then(|node| self.param_index(node, scope));
            for index in [Some(number), Some(size), max_rows].into_iter().flatten() {
                let param = &scope.params[index];
                if param.ty != FieldType::Integer || param.default.is_none() || param.min.is_none() || param.max.is_none() {
                    self.problem(page, format!("`{}` must be an integer with a default, a min and a max", param.name));
                }
            }
            Some(PageParams { number, size, max_rows })
        });
        let mut answer = Vec::new();
        if scope.steps.is_some() {
            // later expressions name the rows of a page, and their number
            answer.extend(page.map(|_| [("rows".to_owned(), LookupPart::Rows), ("total".to_owned(), LookupPart::Total)]).into_iter().flatten());
        } else if let Some(Node { kind: NodeKind::Map(entries), .. }) = node.get("answer") {
            for (name, part) in entries {
                let part = self.choice(Some(part), "part of an answer", &[("rows", LookupPart::Rows), ("total", LookupPart::Total)]);
                answer.extend(name.text().map(str::to_owned).zip(part));
            }
        }
        let distinct = self.boolean(node.get("distinct"), "distinct");
        if lookup.single && (page.is_some() || distinct) {
            self.problem(node, "one record has no pages and is distinct already");
        }
        Some(LookupRoute { lookup, distinct, page, answer })
    }

    fn lookup(&mut self, node: &Node, scope: &RouteScope<'_>) -> Option<Lookup> {
        let names: Vec<&str> = scope.collections.iter().map(|collection| collection.name.as_str()).collect();
        let (single, name) = match (node.get("one"), node.get("list")) {
            (Some(name), None) => (true, name),
            (None, Some(name)) => (false, name),
            _ => {
                self.problem(node, "it looks up `one: COLLECTION` or `list: COLLECTION`");
                return None;
            }
        };
        let collection = self.reference(name, "collection", &names)?;
        let definition = &scope.collections[collection];
        let mut conditions = Vec::new();
        if let Some(node) = node.get("where") {
            let NodeKind::Map(entries) = &node.kind else {
                self.problem(node, format!("where is a mapping from fields, this is {}", node.kind_name()));
                return None;
            };
            for (name, value) in entries {
                conditions.extend(self.lookup_condition(name, value, definition, scope));
            }
        }
        let can_use_index = |condition: &LookupCondition| match condition.column {
            RecordColumn::Key => condition.comparison == MatchKind::Equal,
            RecordColumn::Field(index) if condition.comparison == MatchKind::Contains => definition.fields[index].index.contains,
            RecordColumn::Field(index) => definition.fields[index].index.ordered,
            RecordColumn::State(index) => definition.states[index].index.ordered,
        };
        if !conditions.is_empty() && !conditions.iter().any(can_use_index) {
            let where_node = node.get("where").unwrap_or(node);
            self.problem_with_help(where_node, "no condition can use an index", "give a field an `index`");
        }
        // the condition that finds records comes first
        conditions.sort_by_key(|condition| !(can_use_index(condition) && condition.comparison == MatchKind::Equal));
        if scope.parent.is_some() && !conditions.first().is_some_and(|first| can_use_index(first) && first.comparison == MatchKind::Equal) {
            self.problem(node, "an include needs an equality with `key` or an indexed field: `where: { field: field_of_the_other }`");
        }
        let mut sort = Vec::new();
        for item in self.items(node.get("sort"), "sort") {
            let Some(text) = self.text_of(item, "a field").map(str::to_owned) else { continue };
            let (name, descending) = text.strip_suffix('-').map_or((text.as_str(), false), |name| (name, true));
            sort.extend(self.column(item, name, definition).map(|column| (column, descending)));
        }
        let mut includes = Vec::new();
        if node.get("include").is_some() && scope.depth >= MAX_INCLUDE_DEPTH {
            self.problem(node, format!("includes are at most {MAX_INCLUDE_DEPTH} deep"));
            return None;
        }
        let inner = RouteScope { parent: Some(definition), depth: scope.depth + 1, ..*scope };
        for NamedNode { name, name_node, node } in self.named_entries(node.get("include"), "includes") {
            if definition.field(name).is_some() || definition.state(name).is_some() || matches!(name, "key" | "params") {
                self.problem(name_node, format!("`{name}` is a field already"));
            }
            if self.section(node, "an include", &[keywords::LOOK, keywords::INCLUDE]).is_none() {
                continue;
            }
            includes.extend(self.lookup(node, &inner).map(|lookup| (name.to_owned(), lookup)));
        }
        let required = self.requirement(node);
        let projection = self.projections(node.get("fields"), definition, &includes);
        Some(Lookup { collection, single, conditions, query: None, sort, required, includes, projection })
    }

    /// Parses what happens if nothing is found.
    pub(super) fn requirement(&mut self, node: &Node) -> IncludeRequirement {
        match node.get("required") {
            Some(required @ Node { kind: NodeKind::Map(_), .. }) => self
                .status_and_sentence(required, "required")
                .map_or(IncludeRequirement::DropRecord, |(status, sentence)| IncludeRequirement::Refuse(status, sentence)),
            other if self.boolean(other, "required") => IncludeRequirement::DropRecord,
            _ => IncludeRequirement::Optional,
        }
    }

    /// Parses `{ 409: It exists already. }`.
    pub(super) fn status_and_sentence(&mut self, node: &Node, word: &str) -> Option<(u16, String)> {
        if let NodeKind::Map(entries) = &node.kind
            && let [(code, sentence)] = entries.as_slice()
            && let Some(status) = code.text().and_then(|text| text.parse().ok()).filter(|code| (400..500).contains(code))
            && let Some(sentence) = sentence.text()
        {
            return Some((status, sentence.to_owned()));
        }
        self.problem(node, format!("{word} has a status from 400 to 499 and a sentence: {{ 409: It exists already. }}"));
        None
    }

    fn lookup_condition(&mut self, name: &Node, value: &Node, collection: &Collection, scope: &RouteScope<'_>) -> Option<LookupCondition> {
        let column = self.column(name, name.text().unwrap_or_default(), collection)?;
        if let NodeKind::Map(entries) = &value.kind {
            self.section(value, "a condition", &[keywords::MATCH])?;
            let [(comparison, operand)] = entries.as_slice() else {
                self.problem(value, "one of prefix, contains, like and below");
                return None;
            };
            let comparison = match comparison.text() {
                Some("prefix") => MatchKind::Prefix,
                Some("like") => MatchKind::Like,
                Some("below") => MatchKind::Below,
                _ => MatchKind::Contains,
            };
            if comparison == MatchKind::Below {
                return self.condition_with(operand, (column, comparison), collection, scope);
            }
            let is_text = match column {
                RecordColumn::Key => matches!(comparison, MatchKind::Prefix | MatchKind::Like),
                RecordColumn::Field(index) => collection.fields[index].ty == FieldType::Text,
                RecordColumn::State(index) => collection.states[index].ty == FieldType::Text,
            };
            if !is_text {
                self.problem(value, "`prefix`, `contains` and `like` are for text only");
            }
            return self.condition_with(operand, (column, comparison), collection, scope);
        }
        self.condition_with(value, (column, MatchKind::Equal), collection, scope)
    }

    fn condition_with(
        &mut self,
        node: &Node,
        (column, comparison): (RecordColumn, MatchKind),
        collection: &Collection,
        scope: &RouteScope<'_>,
    ) -> Option<LookupCondition> {
        let text = self.text_of(node, "params.NAME or a field")?.to_owned();
        let is_param = text.strip_prefix("params.").is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        let wanted = type_of(column, collection);
        let operand = match (is_param, scope.parent, scope.steps) {
            (true, ..) => OperandSource::Param(self.param_index(node, scope)?),
            (false, Some(parent), _) => OperandSource::Parent(self.column(node, &text, parent)?),
            (false, None, Some(steps)) => OperandSource::Computed(self.computed(node, wanted, steps)?),
            (false, None, None) => {
                self.problem(node, format!("expected a parameter, params.NAME, not `{text}`"));
                return None;
            }
        };
        if let OperandSource::Param(index) = operand {
            let given = scope.params[index].ty.element();
            let is_key = column == RecordColumn::Key && comparison == MatchKind::Equal;
            if wanted.element() != given && !is_key && given != &FieldType::Json {
                self.problem(node, format!("the parameter is of type {given}, the field of type {wanted}"));
            }
        }
        Some(LookupCondition { column, comparison, operand })
    }

    fn column(&mut self, node: &Node, name: &str, collection: &Collection) -> Option<RecordColumn> {
        if name == "key" {
            return Some(RecordColumn::Key);
        }
        if let Some((index, _)) = collection.field(name) {
            return Some(RecordColumn::Field(index));
        }
        if let Some((index, _)) = collection.state(name) {
            return Some(RecordColumn::State(index));
        }
        self.problem(node, format!("`{}` has no field `{name}`", collection.name));
        None
    }

    fn projections(&mut self, node: Option<&Node>, collection: &Collection, includes: &[(String, Lookup)]) -> Vec<(String, Projection)> {
        let Some(node) = node else { return Vec::new() };
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, format!("fields are a mapping from names, this is {}", node.kind_name()));
            return Vec::new();
        };
        let mut names: Vec<&str> = collection.fields.iter().map(|field| field.name.as_str()).collect();
        names.extend(collection.states.iter().map(|state| state.name.as_str()));
        names.extend(includes.iter().map(|(name, _)| name.as_str()));
        names.extend(["key", "params"]);
        names.extend(collection.tags.as_ref().map(|_| TAG));
        // included records and parameters are JSON
        let mut types = golden_types(collection, true);
        types.extend(collection.states.iter().map(|state| (state.name.clone(), Type::from_field_type(&state.ty).or_null())));
        types.insert("key".to_owned(), TypeKind::Text.into());
        types.insert(TAG.to_owned(), Type::from_field_type(&FieldType::List(Box::new(FieldType::Text))));
        names.iter().filter(|name| includes.iter().any(|(include, _)| include == *name) || **name == "params").for_each(|name| {
            types.insert((*name).to_owned(), Type::any());
        });
        let mut projections = Vec::new();
        for (name, value) in entries {
            let Some(text) = self.text_of(value, "what is shown").map(str::to_owned) else { continue };
            let projection = self.projection(value, &text, &names, &types);
            projections.extend(name.text().map(str::to_owned).zip(projection));
        }
        projections
    }

    pub(super) fn projection(&mut self, node: &Node, text: &str, names: &[&str], types: &Types) -> Option<Projection> {
        let is_name =
            |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let parts: Vec<&str> = text.split('.').collect();
        if parts.iter().all(|part| is_name(part)) && names.contains(&parts[0]) {
            return Some(Projection::Path(parts.into_iter().map(str::to_owned).collect()));
        }
        let quoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).filter(|inner| !inner.contains(['\'', '\\']));
        if let Some(constant) = quoted {
            return Some(Projection::Text(constant.to_owned()));
        }
        match Expression::compile(text, names) {
            Ok(expression) => {
                self.check_type(node, &expression, types, Expected::Field(&FieldType::Json, TextConversion::Value));
                Some(Projection::Expression(expression))
            }
            Err((at, message)) => {
                self.problems.push(Diagnostic::new(self.span_at(node, at), message));
                None
            }
        }
    }
}

fn type_of(column: RecordColumn, collection: &Collection) -> &FieldType {
    match column {
        RecordColumn::Key => &FieldType::Text,
        RecordColumn::Field(index) => collection.fields[index].golden_type(),
        RecordColumn::State(index) => &collection.states[index].ty,
    }
}
