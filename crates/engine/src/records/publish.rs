//! Records as other systems fetch them: as simple Dublin Core, or as MARCXML.

use super::composed::{MarcOfRecord, MarcOfRecords};
use super::record::ExplainedRecord;
use crate::{EngineError, Result};
use serde_json::Value as Json;
use stook_catalogue::definition::{Catalogue, Collection, DUBLIN_CORE, DocumentOptions, Publication};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::FieldType;
use stook_formats::marc::Repairs;
use stook_formats::xml::escaped;
use stook_formats::{Document, ParseContext, marcxml};
use stook_store::StoredRecord;

/// How a record is written for other systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishedForm {
    /// Simple Dublin Core, in the element that OAI-PMH defines for it.
    DublinCore,
    /// The newest MARC document of the record, or what the definition composes of all of them.
    MarcXml,
}

/// Writes records of one collection. Used by one thread.
pub struct RecordPublisher<'c> {
    catalogue: &'c Catalogue,
    collection: &'c Collection,
    publication: &'c Publication,
    evaluator: Evaluator,
}

impl<'c> RecordPublisher<'c> {
    /// A publisher of a collection.
    ///
    /// # Errors
    /// When it is not published.
    pub fn new(catalogue: &'c Catalogue, collection: CollectionId) -> Result<Self> {
        let collection = &catalogue.collections[collection];
        let not_published = || EngineError::Wrong(format!("`{}` is not published", collection.name));
        let publication = collection.publish.as_ref().ok_or_else(not_published)?;
        Ok(Self { catalogue, collection, publication, evaluator: Evaluator::new(catalogue.tables.clone()) })
    }

    /// Writes a record, which was read completely, as an XML element; `None` if it has no document in this form.
    ///
    /// # Errors
    /// When its contributions are damaged.
    pub fn write(&self, stored: StoredRecord, form: PublishedForm) -> Result<Option<String>> {
        match form {
            PublishedForm::DublinCore => Ok(Some(self.dublin_core(&stored))),
            PublishedForm::MarcXml if self.publication.has_marc => self.marc(stored),
            PublishedForm::MarcXml => Ok(None),
        }
    }

    fn dublin_core(&self, stored: &StoredRecord) -> String {
        let mut out = String::from(
            "<oai_dc:dc xmlns:oai_dc=\"http://www.openarchives.org/OAI/2.0/oai_dc/\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xsi:schemaLocation=\"http://www.openarchives.org/OAI/2.0/oai_dc/ http://www.openarchives.org/OAI/2.0/oai_dc.xsd\">",
        );
        let scope = GoldenValues::new(self.collection, &stored.golden);
        let mut has_identifier = false;
        for (position, expressions) in &self.publication.elements {
            let mut texts = Vec::new();
            for expression in expressions {
                // an expression that fails gives no value, as in a record
                if let Ok(value) = self.evaluator.value(expression, &FieldType::Json, &scope) {
                    add_texts(&value.to_json(&FieldType::Json), &mut texts);
                }
            }
            let name = DUBLIN_CORE[*position];
            has_identifier |= name == IDENTIFIER && !texts.is_empty();
            texts.iter().for_each(|text| out.push_str(&element(name, text)));
        }
        if !has_identifier {
            out.push_str(&element(IDENTIFIER, stored.key.as_str()));
        }
        out.push_str("</oai_dc:dc>");
        out
    }

    fn marc(&self, stored: StoredRecord) -> Result<Option<String>> {
        let contributions = stored.contributions_of(self.collection)?;
        let record = ExplainedRecord { collection: self.collection, stored, contributions };
        let mut repairs = Repairs::default();
        let written = match MarcOfRecords::new(self.catalogue, self.collection, None).of(&record, &mut repairs)? {
            Ok(MarcOfRecord::Composed(composed)) => Some(marcxml::write_nearest(&composed, &mut repairs)),
            Ok(MarcOfRecord::Kept(bytes, syntax)) => {
                let options = DocumentOptions::from_marc(record.marc_options(self.catalogue));
                let Ok(document) = Document::read(bytes, syntax, &ParseContext::default(), &options, &mut repairs) else { return Ok(None) };
                document.marc().map(|record| marcxml::write_nearest(record, &mut repairs))
            }
            Err(_) => None,
        };
        Ok(written.map(|text| text.trim().replacen("<record>", &format!("<record xmlns=\"{}\">", marcxml::NAMESPACE), 1)))
    }
}

const IDENTIFIER: &str = "identifier";

fn element(name: &str, text: &str) -> String {
    format!("<dc:{name}>{}</dc:{name}>", escaped(text))
}

/// Adds the texts of a value: one, or those of a list. Objects have no text.
fn add_texts(value: &Json, texts: &mut Vec<String>) {
    match value {
        Json::Array(elements) => elements.iter().for_each(|element| add_texts(element, texts)),
        Json::String(text) if !text.is_empty() => texts.push(text.clone()),
        Json::Number(number) => texts.push(number.to_string()),
        Json::Bool(value) => texts.push(value.to_string()),
        Json::String(_) | Json::Null | Json::Object(_) => {}
    }
}
