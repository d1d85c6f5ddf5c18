//! Parses `collect`: the services from which a source's documents are collected.

use super::keywords;
use super::parser::DefinitionParser;
use super::yaml::{Node, NodeKind};
use crate::model::definition::{Collect, CollectProtocol, FileLocation, FormatFamily, OdataService, PagedService};
use crate::model::links::id_of;
use crate::value::{FieldType, from_text};

impl DefinitionParser<'_> {
    pub(super) fn collect(&mut self, source: &str, node: &Node, family: FormatFamily, records: Option<&str>) -> Option<Collect> {
        self.section(node, "collect", &[keywords::COLLECT])?;
        let places = ["odata", "oai", "pages", "files"].map(|word| node.get(word).map(|node| (word, node)));
        let (services, protocol) = match places {
            [Some((word, odata)), None, None, None] => {
                if family != FormatFamily::Json || records != Some("value") {
                    self.problem(node, "what is collected by OData is json with `records: $.value[*]`");
                }
                (self.collected_services(odata, word, Self::url), CollectProtocol::Odata(self.odata(node)?))
            }
            [None, Some((word, oai)), None, None] => {
                let is_record = family == FormatFamily::Marc || matches!(records, Some("record" | "ListRecords/record"));
                if !is_record || !matches!(family, FormatFamily::Marc | FormatFamily::Xml) {
                    self.problem(node, "what is collected by OAI-PMH is marc, or xml with `records: ListRecords/record`");
                }
                self.only_for(
                    node,
                    "OData",
                    &["window", "page", "filter"],
                    "what is wanted of a repository stands in its URL: `?metadataPrefix=marc21&set=maps`",
                );
                (self.collected_services(oai, word, Self::url), CollectProtocol::Oai)
            }
            [None, None, Some((word, pages)), None] => {
                if !matches!(family, FormatFamily::Json | FormatFamily::Xml) {
                    self.problem(node, format!("pages are json or xml; this source is {}", family.name()));
                }
                self.only_for(node, "OData", &["window", "filter"], "what is wanted of a service stands in its URL: `?status=open&per_page=100`");
                (self.collected_services(pages, word, Self::url), CollectProtocol::Pages(self.paged(node, family)))
            }
            [None, None, None, Some((word, files))] => {
                self.only_for(
                    node,
                    "OData",
                    &["window", "page", "filter"],
                    "which files are wanted stands in their location: `s3://bucket/folder/*.csv`",
                );
                (self.collected_services(files, word, Self::location), CollectProtocol::Files)
            }
            _ => {
                self.problem(node, "`collect` has one of `odata`, `oai`, `pages` and `files`, which says where from");
                return None;
            }
        };
        if !matches!(protocol, CollectProtocol::Pages(_)) {
            self.only_for(node, "`pages`", &["changed", "as"], "here the definition knows how services are asked for what is new");
        }
        let lag = node.get("lag").and_then(|node| self.duration(node, "lag")).unwrap_or(0);
        let since = node.get("since").and_then(|node| {
            let text = self.text_of(node, "since")?.to_owned();
            let time = from_text(&text, &FieldType::Timestamp, None).ok().and_then(|time| time.as_int());
            if time.is_none() {
                self.problem(node, "since is a time, such as 2026-01-01T00:00:00Z");
            }
            time
        });
        let credentials = node.get("credentials").and_then(|node| self.text_of(node, "credentials")).map(str::to_owned);
        Some(Collect { id: id_of(&format!("{source} collect")), services, protocol, lag, since, credentials })
    }

    /// Reports words of one protocol beside another.
    fn only_for(&mut self, node: &Node, protocol: &str, words: &[&str], help: &'static str) {
        for word in words {
            if let Some(own) = node.get(word) {
                self.problem_with_help(own, format!("`{word}` is for {protocol}"), help);
            }
        }
    }

    fn paged(&mut self, node: &Node, family: FormatFamily) -> PagedService {
        let page = node.get("page").and_then(|page| self.paging(page, family));
        let changed = node.get("changed").and_then(|node| self.text_of(node, "the name of an argument")).map(str::to_owned);
        let epoch = self.choice(node.get("as"), "choice for as", &[("text", false), ("epoch", true)]).unwrap_or(false);
        for (word, own) in [("as", node.get("as")), ("since", node.get("since")), ("lag", node.get("lag"))] {
            if let (None, Some(own)) = (&changed, own) {
                self.problem(
                    own,
                    format!("`{word}` is about times: say in `changed` which argument takes the time since which documents have changed"),
                );
            }
        }
        PagedService { page, changed, epoch }
    }

    /// Parses the location of files.
    fn location(&mut self, node: &Node) -> Option<String> {
        let location = self.text_of(node, "a location of files")?.to_owned();
        // what the environment says is checked when files are collected
        if !location.contains("${")
            && let Err(reason) = FileLocation::parse(&location)
        {
            self.problem(node, reason);
        }
        Some(location)
    }

    /// Parses names of services, and where they are.
    fn collected_services(&mut self, node: &Node, word: &str, address: fn(&mut Self, &Node) -> Option<String>) -> Vec<(String, String)> {
        let mut services = Vec::new();
        let NodeKind::Map(entries) = &node.kind else {
            let wanted = if word == "files" { "locations of files" } else { "URLs" };
            self.problem(node, format!("{word} is a mapping from names to {wanted}"));
            return services;
        };
        for (name, url) in entries {
            let (name, address) = (self.text_of(name, "a service's name"), address(self, url));
            let (Some(name), Some(address)) = (name, address) else { continue };
            services.push((name.to_owned(), address));
        }
        services
    }

    fn odata(&mut self, node: &Node) -> Option<OdataService> {
        let window = self.required(node, "window").and_then(|node| self.text_of(node, "window"))?.to_owned();
        let page = match node.get("page").and_then(|node| Some((node, self.text_of(node, "page")?))) {
            None => 1_000,
            Some((node, text)) => text.parse().ok().filter(|page| (1..=100_000).contains(page)).unwrap_or_else(|| {
                self.problem(node, "page is a number of documents, at most 100000");
                1
            }),
        };
        let filter = node.get("filter").and_then(|node| self.text_of(node, "filter")).map(str::to_owned);
        Some(OdataService { window, page, filter })
    }
}
