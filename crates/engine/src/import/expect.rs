//! Whether files fulfil what their source expects of them, before any of their documents is imported.
//!
//! Each file is read once as a whole for this. What it was found to have is kept with its job, and is what later files are compared with: never what
//! the store happens to hold, which other sources and older files have contributed to.

use crate::Result;
use crate::chunk::map::{DocumentMapper, Envelope};
use crate::job::file::{UPLOADED, syntax};
use bytes::Bytes;
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use stook_catalogue::definition::{Catalogue, DocumentsExpectation, Expectation, ExpectationTest, FieldExpectation, ValueExpectation};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::SourceId;
use stook_catalogue::record::{ContributionContent, UNKNOWN_TIME, put_value};
use stook_catalogue::value::{SmolStr, Value, show_timestamp};
use stook_formats::Document;
use stook_formats::marc::Repairs;
use stook_formats::read::{DocumentReader, OpenedInput};
use stook_store::queue::{ExpectationOutcome, FileChecks, JobFile, JobState};
use stook_store::{Store, Tenant};

/// How many values of a field are remembered to find those that occur twice.
const MAX_REMEMBERED: usize = 16_000_000;
/// Among how many jobs the file before is looked for.
const MAX_JOBS: usize = 1_000;
/// Maximum length of a value in a report, in characters.
const MAX_SHOWN: usize = 60;

/// The files of a delivery, and what is expected of them.
pub(super) struct FileExpectations<'e> {
    pub(super) catalogue: &'e Catalogue,
    pub(super) store: &'e dyn Store,
    pub(super) tenant: &'e Tenant,
    pub(super) source: SourceId,
    /// When the delivery was made.
    pub(super) received: i64,
    /// Whether a file that does not fulfil an expectation is imported all the same.
    pub(super) accepts_all: bool,
}

impl FileExpectations<'_> {
    fn expected(&self) -> &[Expectation] {
        &self.catalogue.sources[self.source].expect
    }

    /// Whether anything is expected.
    pub(super) fn is_some(&self) -> bool {
        !self.expected().is_empty()
    }

    /// Checks each file and notes the result in it; files of the same delivery can be the one before.
    pub(super) fn check_all(&self, files: &mut [JobFile], mut open: impl FnMut(&JobFile) -> Result<OpenedInput>) -> Result<()> {
        if !self.is_some() {
            return Ok(());
        }
        for position in 0..files.len() {
            let Some((file, others)) = files.get(position).zip(files.get(..position)) else { break };
            let opened = if syntax(file).is_some() { Some(open(file)?) } else { None };
            let checks = self.check(file, opened.map(|opened| opened.bytes), others)?;
            files[position].checks = Some(checks);
        }
        Ok(())
    }

    /// Checks a file by its bytes; none if it is empty.
    pub(super) fn check(&self, file: &JobFile, bytes: Option<Box<dyn Read + Send>>, others: &[JobFile]) -> Result<FileChecks> {
        let mut measured = Measured { newest: UNKNOWN_TIME, documents: 0, fields: self.expected().iter().map(|_| FieldCount::default()).collect() };
        if let Some(bytes) = bytes {
            self.measure(file, bytes, &mut measured)?;
        }
        let as_of = if measured.newest == UNKNOWN_TIME { self.received } else { measured.newest };
        let compares =
            self.expected().iter().any(|own| matches!(&own.test, ExpectationTest::Documents(own) if own.fewer.is_some() || own.more.is_some()));
        let before = if compares { self.before(as_of, others)? } else { None };
        let judged = self.expected().iter().zip(&measured.fields).map(|(own, count)| {
            let (holds, found) = match &own.test {
                ExpectationTest::Field(field) => count.judge(field),
                ExpectationTest::Documents(number) => judge_number(number, measured.documents, before.as_ref()),
                ExpectationTest::Fresh(age) => (self.received.saturating_sub(as_of) <= *age, format!("it is of {}", show_timestamp(as_of))),
            };
            ExpectationOutcome { expected: own.text.clone(), found, holds, stops: own.stops && !self.accepts_all }
        });
        Ok(FileChecks { documents: measured.documents, as_of, expectations: judged.collect() })
    }

    fn measure(&self, file: &JobFile, bytes: Box<dyn Read + Send>, measured: &mut Measured) -> Result<()> {
        let Some(syntax) = syntax(file) else { return Ok(()) };
        let source = &self.catalogue.sources[self.source];
        let evaluator = Evaluator::new(self.catalogue.tables.clone());
        let mapper = DocumentMapper::new(self.catalogue, self.source, &evaluator);
        let path = file.path.strip_prefix(UPLOADED).unwrap_or(&file.path);
        let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let now = self.store.clock();
        let failed = |error| crate::EngineError::File { path: file.path.clone(), error };
        let mut repairs = Repairs::default();
        let mut documents = DocumentReader::new(bytes, syntax, source);
        while let Some((found, bytes)) = documents.next().map_err(failed)? {
            measured.documents += 1;
            if found.problem.is_some() {
                continue;
            }
            let bytes = Bytes::from(found.head.complete(bytes).into_owned());
            repairs.begin(found.offset);
            let Ok(parsed) = Document::read(&bytes, syntax, &found.head, &source.reading, &mut repairs) else { continue };
            let envelope = Envelope {
                name: &name,
                ordinal: found.number,
                received: self.received,
                now,
                partial_list: file.part.as_deref(),
                arguments: &file.arguments,
            };
            for contribution in mapper.map(&parsed, &bytes, syntax, &envelope).contributions {
                measured.newest = measured.newest.max(contribution.as_of);
                let ContributionContent::Values(values) = &contribution.content else { continue };
                for (count, own) in measured.fields.iter_mut().zip(self.expected()) {
                    if let ExpectationTest::Field(field) = &own.test
                        && field.field.0 == contribution.collection
                    {
                        let ty = &self.catalogue.collections[field.field.0].fields[field.field.1].ty;
                        let value = &values[field.field.1.index()];
                        let shown = || value.elements().iter().map(|element| element.show(ty.element())).collect();
                        count.add(&field.values, value, shown, found.number);
                    }
                }
            }
        }
        Ok(())
    }

    /// The newest file of the source that is older than a time.
    fn before(&self, as_of: i64, others: &[JobFile]) -> Result<Option<FileBefore>> {
        let name = &self.catalogue.sources[self.source].name;
        let jobs = self.store.jobs(Some(self.tenant), MAX_JOBS)?;
        let counts = |state: JobState| !matches!(state, JobState::Failed | JobState::Cancelled);
        let stored = jobs.iter().filter(|job| job.source == *name && counts(job.state)).flat_map(|job| &job.files);
        let candidates = stored.chain(others).filter_map(|file| Some((file, file.checks.as_ref()?)));
        let older = candidates.filter(|(_, checks)| checks.as_of < as_of && !checks.stops());
        Ok(older.max_by_key(|(_, checks)| checks.as_of).map(|(file, checks)| FileBefore { path: file.path.clone(), documents: checks.documents }))
    }
}

/// The file before another one.
struct FileBefore {
    path: String,
    documents: u64,
}

/// What is counted while a file is read.
struct Measured {
    /// The as-of time of its newest document.
    newest: i64,
    documents: u64,
    /// For each expectation.
    fields: Vec<FieldCount>,
}

/// How many values fulfil an expectation.
#[derive(Default)]
struct FieldCount {
    all: u64,
    fulfil: u64,
    /// The first value that does not, and its document.
    first: Option<(String, u64)>,
    /// Hashes of the values, if they are to be unique.
    seen: HashSet<u64>,
    /// Whether there were too many values to remember.
    is_given_up: bool,
}

impl FieldCount {
    fn add(&mut self, expected: &ValueExpectation, value: &Value, shown: impl Fn() -> Vec<String>, document: u64) {
        let is_absent = value.elements().is_empty();
        let mut count = |is_fulfilled: bool, shown: &dyn Fn() -> String| {
            self.all += 1;
            self.fulfil += u64::from(is_fulfilled);
            if !is_fulfilled && self.first.is_none() {
                self.first = Some((shown(), document));
            }
        };
        match expected {
            ValueExpectation::Present => count(!is_absent, &|| "no value".to_owned()),
            // absent values are the business of `present`
            _ if is_absent => {}
            ValueExpectation::Matches(regex) => {
                shown().iter().for_each(|text| count(regex.is_match(text), &|| format!("{:?}", shortened(text))));
            }
            ValueExpectation::Unique if self.seen.len() >= MAX_REMEMBERED => self.is_given_up = true,
            ValueExpectation::Unique => {
                let mut bytes = Vec::new();
                put_value(&mut bytes, value);
                let hash = blake3::hash(&bytes);
                let hash = hash.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
                let is_new = self.seen.insert(hash);
                count(is_new, &|| format!("{:?} again", shortened(&shown().join("; "))));
            }
        }
    }

    fn judge(&self, expected: &FieldExpectation) -> (bool, String) {
        if self.is_given_up {
            return (true, format!("not tested: there are more than {MAX_REMEMBERED} values"));
        }
        if self.all == 0 {
            return (true, "there is no value".to_owned());
        }
        let share = self.fulfil as f64 * 100.0 / self.all as f64;
        let first = self.first.as_ref().map_or_else(String::new, |(value, document)| format!("; first {value} in document {document}"));
        // a share that is rounded up to the limit would not explain why it is too small
        let shown = (share * 100.0).floor() / 100.0;
        (share >= expected.at_least, format!("{shown}% ({} of {}){first}", self.fulfil, self.all))
    }
}

fn judge_number(expected: &DocumentsExpectation, documents: u64, before: Option<&FileBefore>) -> (bool, String) {
    let DocumentsExpectation { at_least, at_most, fewer, more } = *expected;
    let mut holds = at_least.is_none_or(|least| documents >= least) && at_most.is_none_or(|most| documents <= most);
    let mut found = if documents == 1 { "1 document".to_owned() } else { format!("{documents} documents") };
    if fewer.is_some() || more.is_some() {
        match before {
            None => found.push_str("; there is no file before it"),
            Some(before) => {
                let (now, then) = (documents as f64, before.documents as f64);
                holds &=
                    fewer.is_none_or(|share| now >= then * (1.0 - share / 100.0)) && more.is_none_or(|share| now <= then * (1.0 + share / 100.0));
                let name = Path::new(&before.path).file_name().map_or_else(|| before.path.clone(), |name| name.to_string_lossy().into_owned());
                found.push_str(&format!("; the file before, {name}, had {}", before.documents));
            }
        }
    }
    (holds, found)
}

fn shortened(text: &str) -> SmolStr {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]).into(),
        None => text.into(),
    }
}

/// Why nothing of a delivery is imported; none if it may be.
pub(super) fn refusal(files: &[JobFile]) -> Option<String> {
    let outcomes = |file: &JobFile| {
        file.checks.iter().flat_map(|checks| &checks.expectations).filter(|own| own.stops && !own.holds).cloned().collect::<Vec<_>>()
    };
    let reasons: Vec<String> = files
        .iter()
        .flat_map(|file| outcomes(file).into_iter().map(|own| format!("{}: expected that {}, found {}", file.short_name(), own.expected, own.found)))
        .collect();
    (!reasons.is_empty()).then(|| format!("not imported, because it is not as expected: {}", reasons.join("; ")))
}
