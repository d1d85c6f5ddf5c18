//! The MARC record of a record: the newest kept document, or, where the definition says `compose:`, the golden record of all kept documents.

use super::record::ExplainedRecord;
use std::borrow::Cow;
use stook_catalogue::definition::{Catalogue, Collection, Composition, DocumentOptions, FormatFamily};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::record::{Contribution, ContributionContent};
use stook_catalogue::survivorship::Consolidator;
use stook_catalogue::value::show_timestamp;
use stook_formats::marc::compose::{ComposeRules, compose};
use stook_formats::marc::{MarcRecord, Repairs};
use stook_formats::write::{MarcWriter, WriteError};
use stook_formats::{Document, ParseContext, Syntax};
use std::io::Write;

/// The maximum number of documents that one record is composed from; of more, the newest are.
const MAX_DOCUMENTS: usize = 256;

/// Finds or composes the MARC records of one collection. Used by one thread.
pub struct MarcOfRecords<'c> {
    catalogue: &'c Catalogue,
    collection: &'c Collection,
    evaluator: Evaluator,
}

/// The MARC record of a record.
pub enum MarcOfRecord<'r> {
    /// The newest kept document: its bytes and their syntax.
    Kept(&'r [u8], Syntax),
    /// Composed of several documents.
    Composed(Box<MarcRecord<'static>>),
}

/// A document that a record is composed from.
struct SourceDocument<'r> {
    contribution: &'r Contribution,
    document: Document<'r>,
}

impl<'c> MarcOfRecords<'c> {
    /// For the records of a collection.
    pub fn new(catalogue: &'c Catalogue, collection: &'c Collection) -> Self {
        Self { catalogue, collection, evaluator: Evaluator::new(catalogue.tables.clone()) }
    }

    /// The MARC record of a record. What had to be repaired in documents that are composed is added to `repairs`.
    ///
    /// # Errors
    /// When it has no MARC document, or a document cannot be read.
    pub fn of<'r>(&self, record: &'r ExplainedRecord<'_>, repairs: &mut Repairs) -> Result<MarcOfRecord<'r>, WriteError> {
        if let Some(composition) = &self.collection.compose {
            return Ok(MarcOfRecord::Composed(Box::new(self.composed(composition, &record.contributions, repairs)?)));
        }
        let (number, bytes) = record.document(None).ok_or(WriteError::NoDocument)?;
        Ok(MarcOfRecord::Kept(bytes, Syntax::from_number(number).unwrap_or(Syntax::Marc)))
    }

    /// Writes the MARC record of a record in the form that is nearest to it.
    ///
    /// # Errors
    /// As [`MarcOfRecords::of`], and when the output fails.
    pub fn write<W: Write>(&self, record: &ExplainedRecord<'_>, out: &mut MarcWriter<W>, repairs: &mut Repairs) -> Result<(), WriteError> {
        match self.of(record, repairs)? {
            MarcOfRecord::Kept(bytes, syntax) => out.write_nearest(bytes, syntax, &record.marc_options(self.catalogue), repairs),
            MarcOfRecord::Composed(composed) => out.write_record(&composed, repairs),
        }
    }

    fn composed(
        &self,
        composition: &Composition,
        contributions: &[Contribution],
        repairs: &mut Repairs,
    ) -> Result<MarcRecord<'static>, WriteError> {
        let consolidator = Consolidator::new(self.catalogue, self.collection, &self.evaluator);
        let is_marc = |contribution: &&Contribution| {
            let syntax = contribution.raw.as_ref().and_then(|raw| Syntax::from_number(raw.syntax));
            syntax.is_some_and(|syntax| syntax.family() == FormatFamily::Marc) && matches!(contribution.content, ContributionContent::Values(_))
        };
        let ranked: Vec<&Contribution> = consolidator.ranked(&composition.base, contributions).into_iter().filter(is_marc).collect();
        let base = *ranked.first().ok_or(WriteError::NoDocument)?;
        let mut newest_first: Vec<&Contribution> = ranked;
        newest_first.sort_by_key(|contribution| std::cmp::Reverse((contribution.age(), contribution.contributor.clone())));
        let owner = |source: &str| newest_first.iter().copied().find(|contribution| contribution.source() == source);
        let owners: Vec<&Contribution> =
            composition.protect.iter().filter_map(|protected| owner(&self.catalogue.sources[protected.source].name)).collect();
        let is_needed = |contribution: &Contribution| {
            let is_same = |other: &&Contribution| other.contributor == contribution.contributor;
            is_same(&base) || owners.iter().any(|owner| is_same(owner))
        };
        let uses_all = !composition.union.is_empty() || composition.other_numbers.is_some();
        let mut documents: Vec<SourceDocument<'_>> = Vec::new();
        for (position, contribution) in newest_first.into_iter().enumerate() {
            if (uses_all && position < MAX_DOCUMENTS) || is_needed(contribution) {
                documents.extend(self.document(contribution, repairs)?);
            }
        }
        let records: Vec<&MarcRecord<'_>> = documents.iter().filter_map(|own| own.document.marc()).collect();
        let position = |contributor: &str| documents.iter().position(|own| own.contribution.contributor == contributor);
        let kept = composition.protect.iter().filter_map(|protected| {
            let owner = owners.iter().find(|owner| owner.source() == self.catalogue.sources[protected.source].name)?;
            Some((position(&owner.contributor)?, protected.fields.as_slice()))
        });
        let rules = ComposeRules {
            kept: kept.collect(),
            united: &composition.union,
            other_numbers: composition.other_numbers,
            defaults: &composition.defaults,
        };
        let changed = |used: &[usize]| changed_text(used.iter().map(|number| documents[*number].contribution.as_of).max()?);
        Ok(compose(&records, position(&base.contributor).ok_or(WriteError::NoDocument)?, &rules, &changed)?)
    }

    /// Reads the document of a contribution; `None` if it is the element around a record, without the record.
    fn document<'r>(&self, contribution: &'r Contribution, repairs: &mut Repairs) -> Result<Option<SourceDocument<'r>>, WriteError> {
        let Some(raw) = &contribution.raw else { return Ok(None) };
        let syntax = Syntax::from_number(raw.syntax).unwrap_or(Syntax::Marc);
        let options = self.catalogue.source(contribution.source()).map_or(Cow::Owned(DocumentOptions::DEFAULT), |(_, source)| Cow::Borrowed(&source.reading));
        let document = Document::read(&raw.bytes, syntax, &ParseContext::default(), &options, repairs)?;
        Ok(document.marc().is_some().then_some(SourceDocument { contribution, document }))
    }
}

/// A time as field 005 has it, with tenths of a second; `None` for an unknown time, and for years before 0.
fn changed_text(micros: i64) -> Option<String> {
    let second = show_timestamp(micros.div_euclid(1_000_000).checked_mul(1_000_000)?);
    let digits: String = second.chars().filter(char::is_ascii_digit).collect();
    (digits.len() == 14 && !second.starts_with('-')).then(|| format!("{digits}.{}", micros.rem_euclid(1_000_000) / 100_000))
}
