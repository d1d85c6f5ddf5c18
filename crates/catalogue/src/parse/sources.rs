//! Parses sources: the format of their documents, `let` values, as-of time, refused documents, and what a complete delivery replaces.

use super::expressions::{RESERVED, Types, meta};
use super::fingerprint::canonical;
use super::keywords;
use super::parser::{DefinitionParser, NamedNode};
use super::rules::{PathSettings, RuleScope, SourceContext};
use super::services::AskingSource;
use super::yaml::{Node, NodeKind};
use crate::eval::types::{Expected, TextConversion, Type};
use crate::model::definition::*;
use crate::model::ids::{IdVec, SourceId};
use crate::model::links::id_of;
use crate::model::records_path::RecordsPath;
use crate::value::FieldType;
use std::time::Duration;
use stook_marc::{Encoding, ReadOptions, Tolerance};

/// Maximum number of lines before the header of a table.
const MAX_SKIPPED_LINES: u32 = 1000;

impl DefinitionParser<'_> {
    pub(super) fn source(&mut self, name: &str, name_node: &Node, node: &Node, context: &SourceContext<'_>) -> Option<Source> {
        self.section(node, "a source", &[keywords::SOURCE])?;
        // the rows of a table are JSON documents, whatever the file is
        let rows = [("parquet", FormatFamily::Json), ("arrow", FormatFamily::Json)];
        let families = [("marc", FormatFamily::Marc), ("xml", FormatFamily::Xml), ("json", FormatFamily::Json), ("csv", FormatFamily::Csv)];
        let families = [&families[..], &rows].concat();
        let format = self.required(node, "format");
        let family = self.choice(format, "format", &families)?;
        let records = match (node.get("records"), family) {
            (None, _) => None,
            (Some(records), FormatFamily::Xml | FormatFamily::Json | FormatFamily::Marc) => self.records(records, family),
            (Some(records), _) => {
                self.problem(records, format!("a {} file has no `records` to choose", family.name()));
                None
            }
        };
        let marc = self.marc(node, family);
        let csv = self.csv(node, family);
        let empty = node.get("empty").and_then(|node| self.regex(node, str::to_owned));
        let mut namespaces = Vec::new();
        if let Some(bindings) = node.get("namespaces") {
            for NamedNode { name: prefix, node: uri, .. } in self.named_entries(Some(bindings), "namespaces") {
                namespaces.extend(self.text_of(uri, "a namespace").map(|uri| (prefix.to_owned(), uri.to_owned())));
            }
        }
        let files = self.file_patterns(node.get("files"));
        let has = node.get("has").and_then(|node| self.path(node, PathSettings { family, namespaces: &namespaces, is_inside: false }));
        let mut lets: Vec<LetValue> = Vec::new();
        let mut types: Types = [meta()].into();
        for NamedNode { name: let_name, name_node: let_node, node: rule_node } in self.named_entries(node.get("let"), "let values") {
            if RESERVED.contains(&let_name) {
                self.problem(let_node, format!("`{let_name}` has a meaning in expressions; choose another name"));
            }
            let known: Vec<&str> = lets.iter().map(|known| known.name.as_str()).chain(["meta"]).collect();
            let meta_lets: Vec<&str> = lets.iter().filter(|known| known.rule.reads_meta).map(|known| known.name.as_str()).collect();
            let format = PathSettings { family, namespaces: &namespaces, is_inside: false };
            let scope = RuleScope { format, names: &known, types: &types, reads_meta: &meta_lets, context };
            let ty = match rule_node.get("type") {
                Some(ty) => self.field_type(ty),
                None if rule_node.get("match").is_some() => Some(FieldType::Json),
                None if rule_node.get("expr").is_some() => Some(FieldType::Json),
                None => Some(FieldType::Text),
            };
            let Some(ty) = ty else { continue };
            self.check_rule_keys(rule_node);
            if let Some(rule) = self.rule(rule_node, &ty, None, &scope) {
                types.insert(let_name.to_owned(), self.type_of_let(&rule, context.patterns, &types));
                lets.push(LetValue { name: let_name.to_owned(), rule });
            }
        }
        let feeds = self.feeds(name_node, node, PathSettings { family, namespaces: &namespaces, is_inside: false }, (&lets, &types), context);
        // fields of a single feed can be used like `let` values in the source's own conditions
        let only_feed = if feeds.len() == 1 { feeds.first().filter(|feed| feed.each.is_none()) } else { None };
        if let Some(feed) = only_feed {
            let fields = feed.map.iter().map(|entry| &context.collections[feed.collection].fields[entry.field]);
            types.extend(fields.map(|field| (field.name.clone(), Type::from_field_type(&field.ty).or_null())));
        }
        let mut accept = Vec::new();
        for item in self.items(node.get("accept"), "accept") {
            if self.section(item, "a condition", &[keywords::ACCEPT]).is_none() {
                continue;
            }
            let unless = self.required(item, "unless").and_then(|node| self.cel_of(node, &types, Expected::Condition));
            let skip = self.choice(item.get("do"), "choice for do", &[("fail", false), ("skip", true)]).unwrap_or(false);
            let text = Expected::Field(&FieldType::Text, TextConversion::Value);
            let reason = item.get("reason").and_then(|node| self.cel_of(node, &types, text));
            accept.extend(unless.map(|unless| AcceptRule { unless, skip, reason }));
        }
        let expect = self.expectations(node.get("expect"), &feeds, context);
        let gone = node.get("gone").and_then(|node| self.cel_of(node, &types, Expected::Condition));
        let as_of = self.document_order(node, only_feed, (&lets, &types), context)?;
        let mut replaces = node.get("replaces").and_then(|node| self.replaces(name, node, &types));
        if feeds.iter().any(|feed| feed.each.is_some()) {
            if let Some(node) = node.get("replaces") {
                self.problem(
                    node,
                    "a document of a source with `each` replaces what older ones contained; `replaces` is for files that are complete",
                );
            }
            replaces = Some(CompleteDelivery { id: id_of(&format!("{name} each")), files: None });
        }
        let collect = node.get("collect").and_then(|node| self.collect(name, node, family, records.as_deref()));
        if let Some(node) = node.get("asks").filter(|_| feeds.iter().any(|feed| feed.each.is_some())) {
            self.problem(node, "what a service answers takes the place of older answers as a whole; `each` is for sources of files");
        }
        let asks = node.get("asks").and_then(|node| {
            let source = AskingSource { name, family, as_of: &as_of, replaces: node.get("replaces").is_some() };
            self.service_binding(&source, node, &feeds, context)
        });
        let embeds = self.embeds(node, PathSettings { family, namespaces: &namespaces, is_inside: false }, &lets, context);
        let undo = self.undo(node, &feeds);
        let source = Source {
            name: name.to_owned(),
            family,
            records,
            reading: DocumentOptions { marc, csv },
            empty,
            files,
            has,
            namespaces,
            lets,
            accept,
            expect,
            gone,
            as_of,
            replaces,
            undo,
            collect,
            asks,
            feeds,
            embeds,
        };
        if let Some(header) = node.get("header").filter(|_| !source.reading.csv.header.is_empty()) {
            for names in source.missing_columns(&source.reading.csv.header, |_| false) {
                self.problem(
                    header,
                    format!(
                        "`header` has no column {}, which a rule of `{name}` reads",
                        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
                    ),
                );
            }
        }
        Some(source)
    }

    /// Parses how MARC records are read; the default repairs them.
    fn marc(&mut self, node: &Node, family: FormatFamily) -> ReadOptions {
        if let Some(option_node) = node.get("tolerance").filter(|_| family != FormatFamily::Marc) {
            self.problem(option_node, format!("`tolerance` is for sources of `format: marc`; this one is {}", family.name()));
        }
        if let Some(option_node) = node.get("encoding").filter(|_| !matches!(family, FormatFamily::Marc | FormatFamily::Csv)) {
            self.problem(option_node, format!("`encoding` is for sources of `format: marc` and `format: csv`; this one is {}", family.name()));
        }
        if family != FormatFamily::Marc {
            return ReadOptions::REPAIR;
        }
        let tolerances = [("repair", Tolerance::Repair), ("strict", Tolerance::Strict)];
        let tolerance = self.choice(node.get("tolerance"), "tolerance", &tolerances).unwrap_or(Tolerance::Repair);
        let encodings = [
            ("auto", Encoding::Auto),
            ("utf-8", Encoding::Utf8),
            ("marc-8", Encoding::Marc8),
            ("latin-1", Encoding::Latin1),
            ("cp1252", Encoding::Cp1252),
        ];
        let encoding = self.choice(node.get("encoding"), "encoding", &encodings).unwrap_or(Encoding::Auto);
        ReadOptions { tolerance, encoding }
    }

    /// Parses how tables are read.
    fn csv(&mut self, node: &Node, family: FormatFamily) -> CsvOptions {
        if family != FormatFamily::Csv {
            for word in ["header", "skip", "null", "delimiter", "sheet", "merged", "short_rows"] {
                if let Some(own) = node.get(word) {
                    self.problem(own, format!("`{word}` is for sources of `format: csv`; this one is {}", family.name()));
                }
            }
            return CsvOptions::DEFAULT;
        }
        let mut header: Vec<String> = Vec::new();
        for item in self.items(node.get("header"), "header") {
            match self.text_of(item, "the name of a column").map(str::to_owned) {
                Some(name) if header.contains(&name) => self.problem(item, format!("there are two columns `{name}`")),
                Some(name) => header.push(name),
                None => {}
            }
        }
        if let Some(node) = node.get("header").filter(|_| header.is_empty()) {
            self.problem(node, "`header` names no column");
        }
        let skip = node.get("skip").and_then(|node| self.number_of(node, "`skip`", 0..=MAX_SKIPPED_LINES)).unwrap_or(0);
        let mut null = Vec::new();
        for item in node.get("null").map(Node::items_or_self).unwrap_or_default() {
            null.extend(self.text_of(item, "a text for an absent value").map(str::to_owned));
        }
        let encodings = [("utf-8", CsvEncoding::Utf8), ("latin-1", CsvEncoding::Latin1), ("cp1252", CsvEncoding::Cp1252)];
        let encoding = self.choice(node.get("encoding"), "encoding", &encodings).unwrap_or(CsvEncoding::Utf8);
        let delimiter = node.get("delimiter").and_then(|node| self.delimiter(node));
        let sheet = node.get("sheet").and_then(|node| self.text_of(node, "the name of a sheet").map(str::to_owned));
        let merged = [("first", MergedCells::First), ("every", MergedCells::Every)];
        let merged = self.choice(node.get("merged"), "choice for merged", &merged).unwrap_or(MergedCells::First);
        let short_rows = self.choice(node.get("short_rows"), "choice for short_rows", &[("fail", false), ("absent", true)]).unwrap_or(false);
        CsvOptions { header, skip, null, encoding, delimiter, sheet, merged, short_rows }
    }

    /// Parses the character between two values of a row.
    fn delimiter(&mut self, node: &Node) -> Option<u8> {
        let text = self.text_of(node, "a delimiter")?.to_owned();
        match text.as_bytes() {
            [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !matches!(byte, b'"' | b'\n' | b'\r') => Some(*byte),
            _ => {
                self.problem_with_help(
                    node,
                    "a delimiter is one ASCII character that is no letter, digit, quote or line end",
                    r#"for example: ';' or "\t""#,
                );
                None
            }
        }
    }

    /// Parses `files`: a pattern, or a list of patterns.
    fn file_patterns(&mut self, node: Option<&Node>) -> Vec<FilePattern> {
        let Some(node) = node else { return Vec::new() };
        let nodes = node.items_or_self();
        if nodes.is_empty() {
            self.problem(node, "`files` lists no pattern");
        }
        let mut patterns: Vec<FilePattern> = Vec::new();
        for node in nodes {
            let Some(text) = self.text_of(node, "a pattern for names of files").map(str::to_owned) else { continue };
            match FilePattern::new(&text) {
                Ok(pattern) if patterns.iter().any(|existing| existing.text() == pattern.text()) => {
                    self.problem(node, format!("`{text}` is listed twice"))
                }
                Ok(pattern) => patterns.push(pattern),
                Err(reason) => self.problem_with_help(node, format!("`{text}`: {reason}"), "for example: orders_*.csv, S[12]?_plan*.json"),
            }
        }
        patterns
    }

    /// Checks that no two sources claim the same files: if their names do not differ, the test of the first document must.
    pub(super) fn check_file_patterns_differ(&mut self, nodes: &IdVec<SourceId, NamedNode<'_>>) {
        let mut seen: Vec<(&str, &str, Option<&str>)> = Vec::new();
        for NamedNode { name, node, .. } in nodes {
            let has = node.get("has").and_then(|has| if let NodeKind::Scalar { text, .. } = &has.kind { Some(text.as_str()) } else { None });
            for file in node.get("files").map(Node::items_or_self).unwrap_or_default() {
                let NodeKind::Scalar { text, .. } = &file.kind else { continue };
                let duplicate = seen.iter().find(|(other, pattern, other_has)| other != name && pattern == text && *other_has == has);
                if let Some((other, ..)) = duplicate {
                    let help = "of files with the same name say `has:`, what their first document has that those of the other source have not";
                    self.problem_with_help(file, format!("`{text}` is a pattern of source `{other}`, too"), help);
                }
                seen.push((name, text, has));
            }
        }
    }

    /// Parses `undo`: how long jobs of the source can be undone. Sources are refused whose jobs leave more behind than contributions.
    fn undo(&mut self, source: &Node, feeds: &[Feed]) -> Option<Duration> {
        let node = source.get("undo")?;
        let obstacles = [
            (source.get("replaces").is_some(), "`replaces`: what a complete file retires is not restored"),
            (feeds.iter().any(|feed| feed.each.is_some()), "`each`: what a document takes back is not restored"),
            (source.get("asks").is_some(), "`asks`: answers of services are replaced by newer ones, not by jobs"),
            (source.get("embeds").is_some(), "`embeds`: the journal does not name the records of embedded documents"),
        ];
        for (_, obstacle) in obstacles.iter().filter(|(is_there, _)| *is_there) {
            self.problem(node, format!("jobs cannot be undone in a source with {obstacle}"));
        }
        let micros = self.duration(node, "`undo`")?;
        if micros <= 0 {
            self.problem(node, "`undo` is how long jobs can be undone, such as 30d");
            return None;
        }
        Some(Duration::from_micros(micros.unsigned_abs()))
    }

    fn replaces(&mut self, source: &str, node: &Node, names: &Types) -> Option<CompleteDelivery> {
        self.section(node, "replaces", &[keywords::REPLACES])?;
        let text = Expected::Field(&FieldType::Text, TextConversion::Document);
        let scope = self.required(node, "scope").and_then(|node| self.cel_of(node, names, text))?;
        let at = node.get("at").and_then(|node| self.cel_of(node, names, Expected::Field(&FieldType::Timestamp, TextConversion::Document)));
        let max_missing = node.get("most").and_then(|node| self.percent(node)).unwrap_or(MAX_MISSING_PERCENT);
        // changed keywords give another number, so that contributions made under the old ones are in other scopes
        let id = id_of(&format!("{source} {}", canonical(node, &["most"])));
        Some(CompleteDelivery { id, files: Some(CompleteFiles { scope, at, max_missing }) })
    }

    pub(super) fn percent(&mut self, node: &Node) -> Option<f64> {
        let text = self.text_of(node, "a share")?;
        let share = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok()).filter(|share| (0.0..=100.0).contains(share));
        if share.is_none() {
            self.problem(node, format!("`{text}` is not a percentage such as 20%"));
        }
        share
    }

    fn records(&mut self, node: &Node, family: FormatFamily) -> Option<String> {
        let text = self.text_of(node, "records")?.to_owned();
        if family == FormatFamily::Xml {
            let local = text.trim_start_matches('/');
            let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'));
            let valid = match local.rsplit_once('/') {
                Some((outer, element)) => is_name(outer) && (is_name(element) || element == "*"),
                None => is_name(local),
            };
            if !valid {
                self.problem(
                    node,
                    "`records` of xml is the name of an element, such as `record` or `marc:record`, or after the one around it: `list/record`",
                );
                return None;
            }
            return Some(local.to_owned());
        }
        match RecordsPath::parse(&text).filter(|_| text.starts_with('$')) {
            Some(path) => Some(path.to_string()).filter(|path| !path.is_empty()),
            None => {
                self.problem(
                    node,
                    format!(
                        "`records` of {} is \"$[*]\" or a list in the top object, such as \"$.value[*]\", \"$.message.items[*]\" or \"$['@graph'][*]\", and \
                         where in its elements a document stands: \"$.value[*].content\"",
                        family.name()
                    ),
                );
                None
            }
        }
    }

    fn document_order(
        &mut self,
        node: &Node,
        feed: Option<&Feed>,
        (lets, names): (&[LetValue], &Types),
        context: &SourceContext<'_>,
    ) -> Option<DocumentOrder> {
        let Some(as_of) = node.get("as_of") else {
            self.problem_with_help(
                node,
                "this source has no as-of time",
                "add `as_of:` with a field of type timestamp, or `as_of: meta.received` (then the order of delivery matters), or both: \
                 `as_of: [changed, meta.received]`",
            );
            return None;
        };
        let NodeKind::List(items) = &as_of.kind else {
            return Some(DocumentOrder { times: vec![self.as_of(as_of, feed, (lets, names), context)?], by_reception: false });
        };
        let times: Vec<Option<AsOfRule>> = items.iter().map(|item| self.as_of(item, feed, (lets, names), context)).collect();
        let is_received = |rule: &Option<AsOfRule>| matches!(rule, Some(AsOfRule::Received));
        let early = times.iter().position(is_received).filter(|position| position + 1 < times.len());
        match (early, times.last()) {
            (Some(position), _) => {
                let help = "move it to the end of the list: every document has been received, so what follows it would never count";
                self.problem_with_help(&items[position], "`meta.received` is not the last of the list", help);
            }
            (None, Some(last)) if is_received(last) => {}
            _ => {
                let help = "end it with `meta.received`, by which documents of the same time are ordered: `as_of: [changed, meta.received]`";
                self.problem_with_help(as_of, "this list does not say in which order documents of the same time count", help);
            }
        }
        Some(DocumentOrder { times: times.into_iter().collect::<Option<_>>()?, by_reception: true })
    }

    fn as_of(&mut self, as_of: &Node, feed: Option<&Feed>, (lets, names): (&[LetValue], &Types), context: &SourceContext<'_>) -> Option<AsOfRule> {
        let text = self.text_of(as_of, "as_of")?.to_owned();
        if text == "meta.received" {
            return Some(AsOfRule::Received);
        }
        let is_time = |ty: &FieldType| matches!(ty, FieldType::Timestamp);
        if let Some(index) = lets.iter().position(|known| known.name == text) {
            if !is_time(&lets[index].rule.ty) {
                self.problem(as_of, format!("as_of is a timestamp, `{text}` is {}", lets[index].rule.ty));
            }
            return Some(AsOfRule::Let(index));
        }
        if let Some(feed) = feed {
            let collection = &context.collections[feed.collection];
            if let Some((index, field)) = collection.field(&text) {
                if !is_time(&field.ty) {
                    self.problem(as_of, format!("as_of is a timestamp, `{text}` is {}", field.ty));
                }
                if feed.map.iter().all(|entry| entry.field != index) {
                    self.problem(as_of, format!("no value for `{text}` in this source"));
                }
                return Some(AsOfRule::Field(index));
            }
        }
        self.cel_of(as_of, names, Expected::Field(&FieldType::Timestamp, TextConversion::Document)).map(AsOfRule::Expression)
    }
}
