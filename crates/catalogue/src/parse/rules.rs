//! Parses rules: how one value is found in a document, by a path, by cases, by an expression or by a pattern, and how it is converted.

use super::expressions::Types;
use super::keywords;
use super::parser::{DefinitionParser, NamedNode};
use super::yaml::{Node, NodeKind};
use crate::diagnostic::Diagnostic;
use crate::eval::ConstantTables;
use crate::eval::functions::{CLEANERS, Cleaner};
use crate::eval::types::{Expected, TextConversion};
use crate::model::definition::{Collection, FormatFamily, PatternSet, ValueOrigin, ValueRule};
use crate::model::ids::{CollectionId, IdVec};
use crate::model::path::{Path, PathError, PathLanguage};
use crate::value::{FieldType, from_text};
use stook_marc::marcspec::{FieldPart, TagPattern};

pub(super) struct SourceContext<'a> {
    pub(super) collections: &'a IdVec<CollectionId, Collection>,
    pub(super) collection_nodes: &'a IdVec<CollectionId, NamedNode<'a>>,
    pub(super) tables: &'a ConstantTables,
    pub(super) patterns: &'a [PatternSet],
    /// Names and contents of constant tables, patterns and files of areas, as text.
    pub(super) table_texts: &'a [(&'a str, String)],
    pub(super) source_names: &'a [&'a str],
    pub(super) service_names: &'a [&'a str],
}

/// How paths of a source are parsed.
#[derive(Clone, Copy)]
pub(super) struct PathSettings<'a> {
    pub(super) family: FormatFamily,
    pub(super) namespaces: &'a [(String, String)],
    /// Whether paths start from what another path found, and not from the document.
    pub(super) is_inside: bool,
}

impl PathSettings<'_> {
    pub(super) fn compile(self, text: &str) -> Result<Path, PathError> {
        let compile = if self.is_inside { Path::compile_inside } else { Path::compile };
        compile(text, self.family.language(), self.namespaces)
    }
}

pub(super) struct RuleScope<'a> {
    pub(super) format: PathSettings<'a>,
    /// Names expressions may use here.
    pub(super) names: &'a [&'a str],
    /// Their types.
    pub(super) types: &'a Types,
    /// Those that depend on the delivery rather than the document.
    pub(super) reads_meta: &'a [&'a str],
    pub(super) context: &'a SourceContext<'a>,
}

impl DefinitionParser<'_> {
    /// Checks the keywords of a rule in `let` or `map`; those of a rule at a field are checked with the field's.
    pub(super) fn check_rule_keys(&mut self, node: &Node) {
        if matches!(node.kind, NodeKind::Map(_)) {
            self.section(node, "a rule", &[keywords::RULE]);
        }
    }

    pub(super) fn rule(&mut self, node: &Node, ty: &FieldType, default_path: Option<String>, scope: &RuleScope<'_>) -> Option<ValueRule> {
        let has_members = !ty.members().is_empty();
        if has_members && scope.format.family != FormatFamily::Json && node.get("map").is_none() {
            let message = format!("the structs of {} need a rule for each member", scope.format.family.name());
            self.problem_with_help(node, message, "for example: { path: replica, map: { site: '@node' } }");
            return None;
        }
        if !matches!(node.kind, NodeKind::Map(_)) {
            let path = self.path(node, scope.format)?;
            return Some(plain_rule(ty, path));
        }
        let origins: Vec<&str> = ["path", "first", "cases", "around", "expr", "match"].into_iter().filter(|word| node.get(word).is_some()).collect();
        if origins.len() > 1 {
            self.problem(node, format!("use only one of {}", origins.join(", ")));
            return None;
        }
        let origin = match (origins.first().copied(), default_path) {
            (Some("path") | None, default) if node.get("map").is_some() => self.elements(node, ty, default, scope)?,
            (Some("path"), _) => ValueOrigin::Paths(vec![self.path(node.get("path")?, scope.format)?]),
            (Some("first"), _) => {
                let items = self.items(node.get("first"), "first");
                let paths: Vec<Option<Path>> = items.iter().map(|item| self.path(item, scope.format)).collect();
                ValueOrigin::Paths(paths.into_iter().collect::<Option<Vec<_>>>()?)
            }
            (Some("cases"), _) => {
                let mut cases = Vec::new();
                for item in self.items(node.get("cases"), "cases") {
                    self.section(item, "a case", &[keywords::CASE])?;
                    let path = self.required(item, "if").and_then(|path| self.path(path, scope.format))?;
                    let then = self.required(item, "then")?;
                    let text = self.text_of(then, "then")?.to_owned();
                    if let Err(error) = from_text(&text, ty.element(), None) {
                        self.problem(then, error.to_string());
                    }
                    cases.push((path, text));
                }
                ValueOrigin::Cases(cases)
            }
            (Some("around"), _) => ValueOrigin::Paths(vec![self.path_around(node.get("around")?, scope.format)?]),
            (Some("expr"), _) => {
                // a value that is looked up in a table or read in a format is text
                let through_text = ["lookup", "format"].iter().any(|word| node.get(word).is_some());
                let wanted = Expected::Field(if through_text { &FieldType::Text } else { ty }, TextConversion::Document);
                let (expr, known) = (node.get("expr")?, scope.names);
                let expression = self.cel(expr, known)?;
                self.check_type(expr, &expression, scope.types, wanted);
                ValueOrigin::Expression(expression)
            }
            (Some("match"), _) => {
                let names: Vec<&str> = scope.context.patterns.iter().map(|pattern| pattern.name.as_str()).collect();
                let pattern = self.reference(node.get("match")?, "pattern", &names)?;
                let of = self.required(node, "of")?;
                let position = self.reference::<usize>(of, "value", scope.names)?;
                ValueOrigin::Match { pattern, of: scope.names[position].to_owned() }
            }
            (_, Some(path)) => ValueOrigin::Paths(vec![scope.format.compile(&path).ok()?]),
            (_, None) => {
                self.problem(node, "this value has no rule: give it `path`, `first`, `cases`, `around`, `expr` or `match`");
                return None;
            }
        };
        let reads_meta = match &origin {
            ValueOrigin::Expression(expression) => {
                expression.variables().iter().any(|name| name == "meta" || scope.reads_meta.contains(&name.as_str()))
            }
            ValueOrigin::Match { of, .. } => of == "meta" || scope.reads_meta.contains(&of.as_str()),
            ValueOrigin::Paths(_) | ValueOrigin::Cases(_) | ValueOrigin::Elements(..) => false,
        };
        let each_field = self.choice(node.get("each"), "choice for each", &[("field", true), ("subfield", false)]).unwrap_or(false);
        if let Some(each) = node.get("each") {
            if scope.format.family != FormatFamily::Marc {
                self.problem(each, "`each` is about MARC fields and subfields");
            } else if each_field && node.get("join").is_none() {
                self.problem(each, "`each: field` needs `join`, the separator between subfields");
            }
        }
        let lookup = match node.get("lookup") {
            None => None,
            Some(lookup) => {
                let names: Vec<&str> = scope.context.tables.names().collect();
                let index = self.reference::<usize>(lookup, "lookup", &names)?;
                Some(names[index].to_owned())
            }
        };
        let join = match node.get("join") {
            None => None,
            Some(Node { kind: NodeKind::Scalar { text, .. }, .. }) => Some(text.clone()),
            Some(other) => {
                self.problem(other, format!("join is text, this is {}", other.kind_name()));
                None
            }
        };
        Some(ValueRule {
            ty: ty.clone(),
            origin,
            each_field,
            join,
            clean: self.cleaners(node.get("clean")),
            formats: node.get("format").map(|formats| self.formats(formats, ty)).unwrap_or_default(),
            lookup,
            strict: self.choice(node.get("on_error"), "choice for on_error", &[("warn", false), ("fail", true)]).unwrap_or(false),
            reads_meta,
        })
    }

    /// Parses `clean`: the name of a function, or several that are applied in order.
    fn cleaners(&mut self, node: Option<&Node>) -> Vec<&'static Cleaner> {
        let Some(node) = node else { return Vec::new() };
        let known: Vec<(&str, &'static Cleaner)> = CLEANERS.iter().map(|cleaner| (cleaner.name, cleaner)).collect();
        let nodes = node.items_or_self();
        if nodes.is_empty() {
            self.problem(node, "this list names nothing that values are cleaned by");
        }
        nodes.iter().filter_map(|item| self.choice(Some(item), "choice for clean", &known)).collect()
    }

    /// Parses a rule for structs: `path` finds nodes, and `map` has the paths of members relative to a node.
    fn elements(&mut self, node: &Node, ty: &FieldType, default_path: Option<String>, scope: &RuleScope<'_>) -> Option<ValueOrigin> {
        let map = node.get("map")?;
        let members = ty.members();
        if members.is_empty() || scope.format.family == FormatFamily::Csv {
            self.problem(map, "`map` is for lists of structs, which rows of csv do not have");
            return None;
        }
        let path = match (node.get("path"), default_path) {
            (Some(path), _) => self.path_to_elements(path, scope.format)?,
            (None, Some(path)) => Path::compile(&path, PathLanguage::Json, &[]).ok()?,
            (None, None) => {
                self.problem(node, "`path` says where the structs are");
                return None;
            }
        };
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        let mut rules = Vec::new();
        for NamedNode { name_node, node: rule_node, .. } in self.named_entries(Some(map), "members") {
            let Some(index) = self.reference::<usize>(name_node, "member", &names) else { continue };
            if let Some(origin) = ["expr", "match"].iter().find_map(|word| rule_node.get(word)) {
                self.problem(origin, "a member comes from a path");
                continue;
            }
            if matches!(rule_node.kind, NodeKind::Map(_)) {
                self.section(rule_node, "a member's rule", &[keywords::RULE])?;
            }
            let member = &members[index];
            let default = (scope.format.family == FormatFamily::Json).then(|| format!("$.{}", member.name));
            let scope = RuleScope { format: PathSettings { is_inside: true, ..scope.format }, ..*scope };
            if let Some(rule) = self.rule(rule_node, &member.ty, default, &scope) {
                rules.push((index, rule));
            }
        }
        Some(ValueOrigin::Elements(path, rules))
    }

    /// Parses a path to the things that other paths start from; in MARC it names fields.
    pub(super) fn path_to_elements(&mut self, node: &Node, format: PathSettings<'_>) -> Option<Path> {
        let path = self.path(node, format)?;
        let is_field = |path: &Path| matches!(path, Path::Marc(spec) if spec.part == FieldPart::Whole && spec.tag != TagPattern::LEADER);
        if format.family == FormatFamily::Marc && !is_field(&path) {
            self.problem_with_help(node, "this path names fields, not parts of them", "for example: 700, or 7..{^1=\\1}");
            return None;
        }
        Some(path)
    }

    /// Parses a path into the element around a MARC record.
    fn path_around(&mut self, node: &Node, format: PathSettings<'_>) -> Option<Path> {
        if format.family != FormatFamily::Marc || format.is_inside {
            let help = "in xml, let `records` name the outer element, and write its path: `header/identifier`";
            self.problem_with_help(node, "`around` is for values of MARC records in an XML element that says more about them", help);
            return None;
        }
        self.path(node, PathSettings { family: FormatFamily::Xml, namespaces: &[], is_inside: false })
    }

    /// Parses `format`: a format, or a list of them that are tried in order.
    fn formats(&mut self, node: &Node, ty: &FieldType) -> Vec<String> {
        if node.items_or_self().is_empty() {
            self.problem(node, "`format` lists no format");
        }
        node.items_or_self().iter().filter_map(|format| self.format(format, ty)).collect()
    }

    fn format(&mut self, node: &Node, ty: &FieldType) -> Option<String> {
        let text = self.text_of(node, "format")?.to_owned();
        let fits = match ty.element() {
            FieldType::Timestamp => matches!(text.as_str(), "epoch" | "epoch_ms" | "epoch_us") || text.contains('%'),
            FieldType::Date | FieldType::PartialDate => text.contains('%'),
            FieldType::Duration => matches!(text.as_str(), "d" | "h" | "m" | "s" | "ms" | "us"),
            _ => false,
        };
        if !fits {
            self.problem(node, format!("`{text}` is not a format of {ty}: timestamps and dates take a strftime pattern or epoch, durations a unit"));
        }
        fits.then_some(text)
    }

    pub(super) fn path(&mut self, node: &Node, format: PathSettings<'_>) -> Option<Path> {
        let language = format.family.language();
        let text = self.text_of(node, &format!("a {}", language.name()))?.to_owned();
        match format.compile(&text) {
            Ok(path) => Some(path),
            Err(error) => {
                let problem = Diagnostic::new(self.span_at(node, error.at), format!("not a {}: {}", language.name(), error.message));
                self.problems.push(problem.help(format!(
                    "paths are in the language of the source's format ({}); a source with another format needs a `map` of its own",
                    format.family.name()
                )));
                None
            }
        }
    }
}

pub(super) fn plain_rule(ty: &FieldType, path: Path) -> ValueRule {
    ValueRule {
        ty: ty.clone(),
        origin: ValueOrigin::Paths(vec![path]),
        each_field: false,
        join: None,
        clean: Vec::new(),
        formats: Vec::new(),
        lookup: None,
        strict: false,
        reads_meta: false,
    }
}
