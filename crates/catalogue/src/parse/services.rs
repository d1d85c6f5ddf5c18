//! Parses services from which documents are fetched when a query needs them.

use super::parser::{DefinitionParser, NamedNode};
use super::rules::SourceContext;
use crate::model::definition::{
    ArgumentForm, CallArgument, Collection, DocumentOrder, Feed, Field, FormatFamily, Pagination, Service, ServiceBinding, ServiceCall, Survivorship,
};
use crate::model::ids::{CollectionId, FieldId};
use crate::model::links::{Derivation, id_of};
use crate::parse::keywords;
use crate::parse::yaml::{Node, NodeKind};
use crate::value::{FieldType, Value, from_text};

/// The other properties of a source with `asks`.
pub(super) struct AskingSource<'s> {
    pub(super) name: &'s str,
    pub(super) family: FormatFamily,
    pub(super) as_of: &'s DocumentOrder,
    pub(super) replaces: bool,
}

const SECOND: i64 = 1_000_000;

impl DefinitionParser<'_> {
    pub(super) fn service(&mut self, name: &str, node: &Node) -> Option<Service> {
        self.section(node, "a service", &[keywords::SERVICE])?;
        let url_node = self.required(node, "url")?;
        let url = self.url(url_node)?.trim_end_matches('/').to_owned();
        let mut time = |word: &str, default: i64| match node.get(word) {
            None => default,
            Some(node) => match self.duration(node, word) {
                Some(length) if length > 0 => length,
                Some(_) => {
                    self.problem(node, format!("{word} must be greater than 0"));
                    default
                }
                None => default,
            },
        };
        let (timeout, deadline) = (time("timeout", 30 * SECOND), time("deadline", 120 * SECOND));
        let (ttl, ttl_empty, ttl_failed) = (time("ttl", 600 * SECOND), time("ttl_empty", 20 * SECOND), time("ttl_failed", 10 * SECOND));
        let ahead = node.get("ahead").and_then(|node| self.duration(node, "ahead"));
        let mut number = |word: &str, max: u32| node.get(word).and_then(|node| self.number_of(node, word, 1..=max));
        let (parallel, rate, attempts) =
            (number("parallel", 64).unwrap_or(4) as usize, number("rate", 1_000_000), number("attempts", 20).unwrap_or(4));
        let max_bytes = node.get("most_bytes").and_then(|node| {
            let text = self.text_of(node, "most_bytes")?.to_owned();
            let size = from_text(&text, &FieldType::Size, None).ok().and_then(|size| size.as_int()).filter(|size| *size > 0);
            if size.is_none() {
                self.problem(node, "most_bytes is a size, such as 64MiB");
            }
            size
        });
        let mut text = |word: &str| node.get(word).and_then(|node| self.text_of(node, word)).map(str::to_owned);
        let (wildcard, credentials) = (text("wildcard").unwrap_or_else(|| "*".into()), text("credentials"));
        let max_bytes = max_bytes.map_or(2 << 30, |size| size as u64);
        let name = name.to_owned();
        Some(Service {
            name,
            url,
            timeout,
            deadline,
            parallel,
            rate,
            attempts,
            most_bytes: max_bytes,
            ttl,
            ttl_empty,
            ttl_failed,
            ahead,
            wildcard,
            credentials,
        })
    }

    /// Parses the URL of a service.
    pub(super) fn url(&mut self, node: &Node) -> Option<String> {
        let url = self.text_of(node, "a URL")?.to_owned();
        if !["http://", "https://", "${"].iter().any(|start| url.starts_with(start)) {
            self.problem(node, "a URL begins with https://, http:// or ${NAME} from the environment");
        }
        Some(url)
    }

    pub(super) fn service_binding(
        &mut self,
        source: &AskingSource<'_>,
        node: &Node,
        feeds: &[Feed],
        context: &SourceContext<'_>,
    ) -> Option<ServiceBinding> {
        self.section(node, "asks", &[keywords::ASKS])?;
        if !matches!(source.family, FormatFamily::Json | FormatFamily::Xml) {
            self.problem(node, format!("services return json or xml; this source is {}", source.family.name()));
        }
        if !source.as_of.is_received() {
            self.problem(node, "the newest answer of a service counts: add `as_of: meta.received`");
        }
        if source.replaces {
            self.problem(node, "an answer takes the place of older ones by its arguments; `replaces` is for files");
        }
        let [feed] = feeds else {
            self.problem(node, "a source with `asks` feeds exactly one collection");
            return None;
        };
        if feed.contributor.is_some() {
            self.problem(node, "a source with `asks` has one contributor; remove `contributor`");
        }
        let service_node = self.required(node, "service")?;
        let service = self.reference(service_node, "service", context.service_names)?;
        let mut calls = Vec::new();
        for NamedNode { name, node: call, .. } in self.named_entries(node.get("calls"), "calls") {
            calls.extend(self.call(name, call, source.family, feed.collection, context));
        }
        if calls.is_empty() && self.problems.is_empty() {
            self.problem(node, "`calls` says how the service is asked");
        }
        Some(ServiceBinding { id: id_of(&format!("{} asks", source.name)), service, calls })
    }

    fn call(&mut self, name: &str, node: &Node, family: FormatFamily, collection: CollectionId, context: &SourceContext<'_>) -> Option<ServiceCall> {
        self.section(node, "a call", &[keywords::CALL])?;
        let get_node = self.required(node, "get")?;
        let get = self.text_of(get_node, "a path")?.to_owned();
        if !get.starts_with('/') || get.contains(['#', ' ']) {
            self.problem(get_node, "a path begins with /, such as /blocks or /blocks?detail=true");
        }
        let mut args = Vec::new();
        for NamedNode { name, node: arg, .. } in self.named_entries(node.get("args"), "arguments") {
            args.extend(self.call_arg(name, arg, collection, context));
        }
        self.check_path_arguments(get_node, &get, &args);
        let page = node.get("page").and_then(|page| self.paging(page, family));
        let cost = node.get("cost").and_then(|node| self.number_of(node, "cost", 0..=u32::MAX)).unwrap_or(0);
        Some(ServiceCall { name: name.to_owned(), get, args, page, cost })
    }

    /// Checks `{argument}` in a path, which is replaced by the value of the argument.
    fn check_path_arguments(&mut self, node: &Node, path: &str, args: &[CallArgument]) {
        for part in path.split('{').skip(1) {
            let name = part.split_once('}').map(|(name, _)| name);
            let arg = name.and_then(|name| args.iter().find(|arg| arg.name == name));
            match (name, arg) {
                (_, Some(arg)) if (!arg.required && arg.default.is_none()) || arg.takes == ArgumentForm::List => {
                    self.problem(node, format!("`{}` is part of the path, so it takes one value and needs `required` or `default`", arg.name));
                }
                (_, Some(arg)) if !arg.sent => self.problem(node, format!("`{}` is part of the path, so it is sent", arg.name)),
                (_, Some(_)) => {}
                (Some(name), None) => self.problem(node, format!("`{{{name}}}` is no argument of this call")),
                (None, None) => self.problem(node, "a `{` without a `}`"),
            }
        }
    }

    fn call_arg(&mut self, name: &str, node: &Node, collection: CollectionId, context: &SourceContext<'_>) -> Option<CallArgument> {
        let collection = &context.collections[collection];
        let fields: Vec<&str> = collection.fields.iter().map(|field| field.name.as_str()).collect();
        let is_short = matches!(node.kind, NodeKind::Scalar { .. });
        if !is_short {
            self.section(node, "an argument", &[keywords::CALL_ARG])?;
        }
        let field_node = if is_short { node } else { self.required(node, "field")? };
        let field = self.reference(field_node, "field", &fields)?;
        let field_definition = &collection.fields[field];
        let list = collection.member(field).map(|(list, _)| list);
        let ty = if list.is_some() { field_definition.golden_type().element() } else { field_definition.golden_type() };
        if !ty.is_ordered() {
            self.problem(
                field_node,
                format!("`{}` is of type {ty}; an argument is a condition on a field with one value", collection.fields[field].name),
            );
        }
        if let Some(list) = list {
            self.check_partial_list(field_node, collection, (list, field));
        } else if field_definition.derive.is_some() {
            self.problem(
                field_node,
                format!("`{}` is derived; an argument is a condition on what the service's documents say", collection.fields[field].name),
            );
        }
        let kinds = [
            ("value", ArgumentForm::Value),
            ("pattern", ArgumentForm::Pattern),
            ("list", ArgumentForm::List),
            ("from", ArgumentForm::From),
            ("to", ArgumentForm::To),
        ];
        let takes = self.choice(node.get("takes"), "choice for takes", &kinds).unwrap_or(ArgumentForm::Value);
        if list.is_some() && !matches!(takes, ArgumentForm::Value | ArgumentForm::Pattern) {
            self.problem(node, "for elements of a list, an argument takes one value or a pattern");
        }
        if takes == ArgumentForm::Pattern && *ty != FieldType::Text {
            self.problem(node, format!("patterns are for text; `{}` is of type {ty}", collection.fields[field].name));
        }
        if *ty == FieldType::PartialDate {
            self.problem(
                field_node,
                format!("`{}` is of type {ty}, and a service cannot be asked for years, months or ranges of dates", collection.fields[field].name),
            );
        }
        let shape = node.get("shape").and_then(|node| self.regex(node, str::to_owned));
        let required = self.boolean(node.get("required"), "required");
        let default = node.get("default").and_then(|node| {
            let text = self.text_of(node, "a default")?.to_owned();
            if !matches!(from_text(&text, ty, None), Ok(value) if value != Value::Null) {
                self.problem(node, format!("`{text}` is no value of `{}`, which is of type {ty}", collection.fields[field].name));
            }
            if matches!(takes, ArgumentForm::From | ArgumentForm::To) || list.is_some() {
                self.problem(node, "a bound has no default, nor has a condition on elements of a list");
            }
            Some(text)
        });
        let epoch = self.choice(node.get("as"), "choice for as", &[("text", false), ("epoch", true)]).unwrap_or(false);
        if epoch && *ty != FieldType::Timestamp {
            self.problem(node, format!("`as: epoch` is for timestamps; `{}` is of type {ty}", collection.fields[field].name));
        }
        let sent = node.get("sent").is_none() || self.boolean(node.get("sent"), "sent");
        if !sent && !required && default.is_none() {
            self.problem(node, "a condition that is not sent decides whether the call is made: give it `required: true`, mostly with a `shape`");
        }
        Some(CallArgument { name: name.to_owned(), field, takes, matches: shape, required, default, epoch, sent })
    }

    /// Checks an argument on elements of a list: answers contain only these, so it must be possible to identify them among others.
    fn check_partial_list(&mut self, node: &Node, collection: &Collection, (list, field): (FieldId, FieldId)) {
        let (list, member) = (&collection.fields[list], &collection.fields[field]);
        if !matches!(list.survivorship, Survivorship::UnionBy(_)) {
            let message = format!("answers may contain `{}` partially: give `by`, the member that identifies a struct", list.name);
            self.problem(node, message);
        }
        if !member.index.ordered {
            self.problem(node, format!("`{}` is used as an argument: give it `index: equal`", member.name));
        }
        let reads = |field: &&Field| match &field.derive {
            Some(Derivation::SameRecord(expression)) => expression.variables().contains(&list.name),
            _ => false,
        };
        if let Some(derived) = collection.fields.iter().find(reads) {
            self.problem(node, format!("`{}` may be told in part, and `{}` is derived from all of it", list.name, derived.name));
        }
        if collection.keep_raw {
            self.problem(node, format!("`{}` keeps documents, but answers may contain them only partially", collection.name));
        }
    }

    pub(super) fn paging(&mut self, node: &Node, family: FormatFamily) -> Option<Pagination> {
        self.section(node, "page", &[keywords::CALL_PAGE])?;
        let size = node.get("size").and_then(|node| self.number_of(node, "size", 1..=1_000_000)).map_or(1_000, u64::from);
        let mut text = |word: &str| node.get(word).and_then(|node| self.text_of(node, word)).map(str::to_owned);
        let (offset, number, limit, next, token, argument) =
            (text("offset"), text("number"), text("limit"), text("next"), text("token"), text("argument"));
        let (by_link, link) = (node.get("link").is_some(), self.boolean(node.get("link"), "link"));
        let is_json = family == FormatFamily::Json;
        match (offset, number, limit, next, token, by_link) {
            (Some(offset), None, Some(limit), None, None, false) => Some(Pagination::Offset { offset, limit, size }),
            (None, Some(number), Some(limit), None, None, false) => Some(Pagination::Number { number, limit, size }),
            (None, None, None, Some(next), None, false) if is_json => Some(Pagination::Next(next)),
            (None, None, None, None, Some(token), false) => {
                if is_json && argument.is_none() {
                    self.problem(node, "`argument` says which argument takes the token");
                }
                let argument = argument.unwrap_or_else(|| token.clone());
                Some(Pagination::Token(token, argument))
            }
            (None, None, None, None, None, true) if link => Some(Pagination::Link),
            _ => {
                let message = "a page has `offset` and `limit`, or `number` and `limit`, or `next` (json), or `token`, or `link: true`";
                self.problem(node, message);
                None
            }
        }
    }
}
