//! Documents of which elements contribute one by one, through feeds that say `each:`.

use super::{DocumentInput, DocumentMapper, Element, MAX_SCOPE_BYTES};
use crate::chunk::map::document::{CompleteDocument, MappedDocument};
use crate::chunk::map::names::DocumentScope;
use crate::content::key::shown;
use std::collections::HashSet;
use stook_catalogue::definition::FeedEach;
use stook_formats::find_context_nodes;

/// The maximum number of elements of one document that contribute through one feed.
const MAX_ELEMENTS: usize = 10_000;

impl<'c> DocumentMapper<'c> {
    /// Adds the contributions of the elements of a document, through the feeds that say `each:`, and what the document is complete for.
    ///
    /// # Errors
    /// When the document has no identity or too many elements; it then fails.
    pub(super) fn elements<'s>(
        &'s self,
        input: DocumentInput<'_>,
        scope: &mut DocumentScope<'s, 'c>,
        mapped: &mut MappedDocument,
    ) -> Result<(), String> {
        let (document_key, as_of) = (mapped.key.clone(), self.as_of(scope, &[])?);
        let is_deleted = match &self.source.gone {
            Some(gone) => self.evaluator.holds(gone, scope).map_err(|error| format!("`gone`: {error}"))?,
            None => false,
        };
        let (mut has_unread_elements, mut keys) = (false, HashSet::new());
        for (index, feed) in self.source.feeds.iter().enumerate() {
            let Some(each) = &feed.each else { continue };
            let identity = self.identity(each, scope, mapped)?;
            let is_complete = mapped.complete_document.get_or_insert(CompleteDocument { scope: identity.clone(), as_of }).scope == identity;
            if !is_complete {
                return Err(format!("the feeds with `each` identify the document differently: {identity}"));
            }
            let is_wanted = match &feed.when {
                Some(when) => {
                    let name = &self.catalogue.collections[feed.collection].name;
                    self.evaluator.holds(when, scope).map_err(|error| format!("`when` of {name}: {error}"))?
                }
                None => true,
            };
            let nodes = if is_wanted && !is_deleted { find_context_nodes(input.document, &each.path) } else { Vec::new() };
            if nodes.len() > MAX_ELEMENTS {
                return Err(format!(
                    "{} elements contribute to {}; {MAX_ELEMENTS} may",
                    nodes.len(),
                    self.catalogue.collections[feed.collection].name
                ));
            }
            let mut found = Vec::new();
            for (number, node) in nodes.into_iter().enumerate() {
                let mut element = MappedDocument::default();
                let input = DocumentInput { element: Some(Element { node, identity: &identity }), ..input };
                let contribution = self.feed(input, index, scope, &mut element, &mut found);
                scope.feed = None;
                let name = format!("{} {}", self.catalogue.collections[feed.collection].name, number + 1);
                let has_unreadable_value = !element.warnings.is_empty();
                mapped.warnings.extend(element.warnings.into_iter().map(|warning| format!("{name}: {warning}")));
                match contribution {
                    Some(own) if !keys.insert((feed.collection, own.key.clone())) => {
                        mapped.warnings.push(format!("{name}: an element before it has the key `{}`, too; it is left out", own.key));
                    }
                    Some(own) => mapped.contributions.push(own),
                    None => {
                        // an element whose key is absent is none of those that older documents contained; one whose key cannot be read may be
                        has_unread_elements |= has_unreadable_value;
                        let reason = element.failed.unwrap_or_else(|| "it cannot be read".into());
                        mapped.warnings.push(format!("{name}: {reason}; it is left out"));
                    }
                }
            }
        }
        mapped.key = document_key;
        if has_unread_elements {
            mapped.complete_document = None;
            mapped.warnings.push("an element cannot be read, so nothing that older documents contained is retired".into());
        }
        Ok(())
    }

    /// What identifies a document of which elements contribute: a `let` value, or the key of its first contribution as a whole.
    fn identity(&self, each: &FeedEach, scope: &DocumentScope<'_, '_>, mapped: &MappedDocument) -> Result<String, String> {
        let identity = match &each.of {
            Some(name) => {
                let value = scope.get_let(name).and_then(shown);
                value.ok_or_else(|| format!("`each`: the document has no `{name}`, which identifies it"))?
            }
            None => {
                let whole = mapped.contributions.iter().find(|own| self.source.feeds[own.feed].each.is_none());
                whole.map(|own| own.key.to_string()).ok_or("`each`: the document as a whole contributes to nothing, so nothing identifies it")?
            }
        };
        if identity.len() > MAX_SCOPE_BYTES {
            return Err(format!("`each`: what identifies the document has {} bytes; {MAX_SCOPE_BYTES} are allowed", identity.len()));
        }
        Ok(identity)
    }
}
