//! The MARC record of a record: the newest kept document, or, where the definition says `compose:`, the golden record of all kept documents.

use super::record::ExplainedRecord;
use crate::Result;
use std::borrow::Cow;
use std::io::Write;
use stook_catalogue::definition::{Catalogue, Collection, Composition, DocumentOptions, FormatFamily};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::SourceId;
use stook_catalogue::key::Key;
use stook_catalogue::record::Contribution;
use stook_catalogue::survivorship::Consolidator;
use stook_catalogue::value::{Value, show_timestamp};
use stook_formats::marc::compose::{ComposeRules, compose};
use stook_formats::marc::{MarcRecord, Repairs};
use stook_formats::write::{MarcWriter, WriteError};
use stook_formats::{Document, ParseContext, Syntax};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::{ReadDetail, Store, Tenant};

/// The maximum number of documents that one record is composed from; of more, the newest are.
const MAX_DOCUMENTS: usize = 256;

/// The maximum number of records that link to a record and whose documents are read.
const MAX_LINKED: u64 = 1_000;

/// Finds or composes the MARC records of one collection. Used by one thread.
pub struct MarcOfRecords<'c> {
    catalogue: &'c Catalogue,
    collection: &'c Collection,
    evaluator: Evaluator,
    store: Option<(&'c dyn Store, &'c Tenant)>,
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
    /// For the records of a collection. The documents of records that link to them are read from `store`.
    pub fn new(catalogue: &'c Catalogue, collection: &'c Collection, store: Option<(&'c dyn Store, &'c Tenant)>) -> Self {
        Self { catalogue, collection, evaluator: Evaluator::new(catalogue.tables.clone()), store }
    }

    /// The MARC record of a record, or why it has none. What had to be repaired in documents that are composed is added to `repairs`.
    ///
    /// # Errors
    /// When the store fails.
    pub fn of<'r>(&self, record: &'r ExplainedRecord<'_>, repairs: &mut Repairs) -> Result<std::result::Result<MarcOfRecord<'r>, WriteError>> {
        if let Some(composition) = &self.collection.compose {
            let contributions = self.contributions(composition, record)?;
            return Ok(self.composed(composition, &contributions, repairs).map(|composed| MarcOfRecord::Composed(Box::new(composed))));
        }
        let kept = record.document(None).map(|(number, bytes)| MarcOfRecord::Kept(bytes, Syntax::from_number(number).unwrap_or(Syntax::Marc)));
        Ok(kept.ok_or(WriteError::NoDocument))
    }

    /// Writes the MARC record of a record in the form that is nearest to it, or returns why it was not written.
    ///
    /// # Errors
    /// When the store fails.
    pub fn write<W: Write>(
        &self,
        record: &ExplainedRecord<'_>,
        out: &mut MarcWriter<W>,
        repairs: &mut Repairs,
    ) -> Result<std::result::Result<(), WriteError>> {
        Ok(self.of(record, repairs)?.and_then(|marc| match marc {
            MarcOfRecord::Kept(bytes, syntax) => out.write_nearest(bytes, syntax, &record.marc_options(self.catalogue), repairs),
            MarcOfRecord::Composed(composed) => out.write_record(&composed, repairs),
        }))
    }

    /// The contributions to a record, and those to the records that link to it.
    fn contributions<'r>(&self, composition: &Composition, record: &'r ExplainedRecord<'_>) -> Result<Cow<'r, [Contribution]>> {
        let Some((store, tenant)) = self.store.filter(|_| !composition.with.is_empty()) else { return Ok(Cow::Borrowed(&record.contributions)) };
        let mut all = record.contributions.clone();
        for link in composition.with.iter().map(|link| &self.catalogue.links[*link]) {
            let test = Comparison::Equal(Value::text(record.stored.key.as_str()));
            let conditions = vec![Condition { column: PlanColumn::Field(link.field), test }];
            let plan = QueryPlan { conditions, limit: Some(MAX_LINKED), ..QueryPlan::all(tenant.clone(), link.child_collection) };
            let keys = store.find(&plan)?.rows.into_iter().filter_map(|row| Key::new(row.first()?.as_text()?).ok()).collect::<Vec<Key>>();
            let definition = &self.catalogue.collections[link.child_collection];
            for stored in store.read(tenant, link.child_collection, &keys, ReadDetail::Full)?.into_iter().flatten().filter(|child| child.exists) {
                all.extend(stored.contributions_of(definition)?);
            }
        }
        Ok(Cow::Owned(all))
    }

    fn composed(
        &self,
        composition: &Composition,
        contributions: &[Contribution],
        repairs: &mut Repairs,
    ) -> std::result::Result<MarcRecord<'static>, WriteError> {
        let consolidator = Consolidator::new(self.catalogue, self.collection, &self.evaluator);
        let is_marc = |contribution: &&Contribution| {
            let syntax = contribution.raw.as_ref().and_then(|raw| Syntax::from_number(raw.syntax));
            syntax.is_some_and(|syntax| syntax.family() == FormatFamily::Marc)
        };
        let ranked: Vec<&Contribution> = consolidator.ranked(&composition.base, contributions).into_iter().filter(is_marc).collect();
        let base = *ranked.first().ok_or(WriteError::NoDocument)?;
        let mut newest_first = ranked;
        newest_first.sort_by_key(|contribution| std::cmp::Reverse((contribution.age(), contribution.contributor.clone())));
        // for each source that keeps fields, its newest document
        let newest_of = |source: SourceId| {
            let name = &self.catalogue.sources[source].name;
            newest_first.iter().copied().find(|contribution| contribution.source() == name)
        };
        let owners: Vec<Option<&Contribution>> = composition.protect.iter().map(|protected| newest_of(protected.source)).collect();
        let uses_all = !composition.union.is_empty() || composition.other_numbers.is_some();
        let mut documents: Vec<SourceDocument<'_>> = Vec::new();
        for (position, contribution) in newest_first.iter().copied().enumerate() {
            let is_needed = std::ptr::eq(contribution, base) || owners.iter().flatten().any(|owner| std::ptr::eq(*owner, contribution));
            if is_needed || (uses_all && position < MAX_DOCUMENTS) {
                documents.extend(self.document(contribution, repairs)?);
            }
        }
        let records: Vec<&MarcRecord<'_>> = documents.iter().filter_map(|own| own.document.marc()).collect();
        let position = |contribution: &Contribution| documents.iter().position(|own| std::ptr::eq(own.contribution, contribution));
        let kept = composition.protect.iter().zip(&owners);
        let kept = kept.filter_map(|(protected, owner)| Some((position((*owner)?)?, protected.fields.as_slice())));
        let rules = ComposeRules {
            kept: kept.collect(),
            united: &composition.union,
            other_numbers: composition.other_numbers,
            defaults: &composition.defaults,
        };
        let changed = |used: &[usize]| changed_text(used.iter().map(|number| documents[*number].contribution.as_of).max()?);
        Ok(compose(&records, position(base).ok_or(WriteError::NoDocument)?, &rules, &changed)?)
    }

    /// Reads the document of a contribution; `None` if it is the element around a record, without the record.
    fn document<'r>(&self, contribution: &'r Contribution, repairs: &mut Repairs) -> std::result::Result<Option<SourceDocument<'r>>, WriteError> {
        let Some(raw) = &contribution.raw else { return Ok(None) };
        let syntax = Syntax::from_number(raw.syntax).unwrap_or(Syntax::Marc);
        let options =
            self.catalogue.source(contribution.source()).map_or(Cow::Owned(DocumentOptions::DEFAULT), |(_, source)| Cow::Borrowed(&source.reading));
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
