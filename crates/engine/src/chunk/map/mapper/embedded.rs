//! Documents that are embedded in others as text.

use super::DocumentMapper;
use crate::chunk::map::document::{Envelope, MappedDocument};
use crate::chunk::map::names::DocumentScope;
use crate::content::key::shown;
use crate::merge::NewContribution;
use bytes::Bytes;
use serde_json::Value as Json;
use std::borrow::Cow;
use stook_catalogue::definition::FormatFamily;
use stook_catalogue::ids::SourceId;
use stook_formats::{Document, DocumentError, ParseContext, SelectedValue, Syntax, select, unreadable};

impl DocumentMapper<'_> {
    /// Maps the documents embedded in a document. A problem with one of them is a warning, and only that one is left out.
    pub(super) fn embedded(&self, document: &Document<'_>, scope: &DocumentScope<'_, '_>, as_of: i64, mapped: &mut MappedDocument) {
        for embed in &self.source.embeds {
            let inner = &self.catalogue.sources[embed.source];
            let mut found = Vec::new();
            select(document, &embed.path, &mut found);
            if let Some(reason) = found.first().and_then(|first| unreadable(document, first)) {
                mapped.warnings.push(format!("{}: {reason}; it is left out", inner.name));
                continue;
            }
            let text = match found.first() {
                Some(SelectedValue::Text(text, _)) => text,
                Some(SelectedValue::Json(Json::String(text))) => text.as_str(),
                Some(SelectedValue::Json(_)) => {
                    mapped.warnings.push(format!("{}: not text; ignored", inner.name));
                    continue;
                }
                None => continue,
            };
            // nothing is contributed, so an earlier contribution stays
            if text.trim().is_empty() {
                continue;
            }
            let Some(name) = embed.name.fill(|name| shown(scope.get_let(name)?).map(Cow::Owned)) else {
                mapped.warnings.push(format!("{}: a value of its name is missing; it is left out", inner.name));
                continue;
            };
            let syntax = if inner.family == FormatFamily::Xml { Syntax::Xml } else { Syntax::Json };
            let envelope = Envelope { name: &name, partial_list: None, ..scope.meta.clone() };
            let inner_document = self
                .embedded_document(embed.source, text, syntax, &envelope)
                .unwrap_or_else(|error| MappedDocument { failed: Some(error.to_string()), ..MappedDocument::default() });
            mapped.warnings.extend(inner_document.warnings.into_iter().map(|warning| format!("{}: {warning}", inner.name)));
            mapped.warnings.extend(inner_document.failed.map(|reason| format!("{}: {reason}; it is left out", inner.name)));
            let as_embedded = |contribution: NewContribution| NewContribution { as_of, embedded: true, ..contribution };
            mapped.contributions.extend(inner_document.contributions.into_iter().map(as_embedded));
        }
    }

    /// Maps a document that is embedded in another one as text.
    fn embedded_document(&self, source: SourceId, text: &str, syntax: Syntax, envelope: &Envelope<'_>) -> Result<MappedDocument, DocumentError> {
        let bytes = Bytes::copy_from_slice(stook_formats::embedded(text, syntax)?.as_bytes());
        let parsed = Document::parse(&bytes, syntax, &ParseContext::default())?;
        Ok(DocumentMapper::new(self.catalogue, source, self.evaluator).map(&parsed, &bytes, syntax, envelope))
    }
}
