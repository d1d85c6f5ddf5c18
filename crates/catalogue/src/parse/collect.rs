//! Parses `collect`: the services from which a source's documents are collected.

use super::keywords;
use super::parser::DefinitionParser;
use super::yaml::{Node, NodeKind};
use crate::model::definition::{Collect, CollectProtocol, FileLocation, FormatFamily, OdataService};
use crate::model::links::id_of;
use crate::value::{FieldType, from_text};

impl DefinitionParser<'_> {
    pub(super) fn collect(&mut self, source: &str, node: &Node, family: FormatFamily, records: Option<&str>) -> Option<Collect> {
        self.section(node, "collect", &[keywords::COLLECT])?;
        let (services, protocol) = match (node.get("odata"), node.get("oai"), node.get("files")) {
            (Some(odata), None, None) => {
                if family != FormatFamily::Json || records != Some("value") {
                    self.problem(node, "what is collected by OData is json with `records: $.value[*]`");
                }
                (self.collected_services(odata, "odata", Self::url), CollectProtocol::Odata(self.odata(node)?))
            }
            (None, Some(oai), None) => {
                let is_record = family == FormatFamily::Marc || matches!(records, Some("record" | "ListRecords/record"));
                if !is_record || !matches!(family, FormatFamily::Marc | FormatFamily::Xml) {
                    self.problem(node, "what is collected by OAI-PMH is marc, or xml with `records: ListRecords/record`");
                }
                self.only_for_odata(node, "what is wanted of a repository stands in its URL: `?metadataPrefix=marc21&set=maps`");
                (self.collected_services(oai, "oai", Self::url), CollectProtocol::Oai)
            }
            (None, None, Some(files)) => {
                self.only_for_odata(node, "which files are wanted stands in their location: `s3://bucket/folder/*.csv`");
                (self.collected_services(files, "files", Self::location), CollectProtocol::Files)
            }
            _ => {
                self.problem(node, "`collect` has one of `odata`, `oai` and `files`, which says where from");
                return None;
            }
        };
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

    /// Reports words of OData beside another protocol.
    fn only_for_odata(&mut self, node: &Node, help: &'static str) {
        for word in ["window", "page", "filter"] {
            if let Some(own) = node.get(word) {
                self.problem_with_help(own, format!("`{word}` is for OData"), help);
            }
        }
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
