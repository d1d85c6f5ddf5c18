//! The outcome of every document, listed and counted.

use super::queue::{new_job, progress, slice, token_of};
use super::support::*;
use stook_catalogue::ids::CollectionId;
use stook_store::journal::*;
use stook_store::queue::*;
use stook_store::*;

const TWO: &str = "
catalogue: two
sources:
  deliveries: { format: json, feeds: [{ into: item }, { into: maker }], as_of: meta.received }
collections:
  item:
    key: name
    fields:
      name: text
  maker:
    key: name
    fields:
      name: text
";

fn document_outcome(document: u64, collection: CollectionId, outcome: Outcome, key: &str) -> DocumentOutcome {
    DocumentOutcome {
        document,
        offset: document * 10,
        collection: Some(collection),
        outcome,
        key: key.into(),
        reason: (outcome == Outcome::Skipped).then(|| "not wanted".into()),
    }
}

fn issue(document: u64, file_start: u64, failed: bool, reason: &str) -> Issue {
    let (file, record) = (usize::from(file_start > 0), document - file_start);
    Issue { document, file, record, offset: document * 10, key: None, failed, reason: reason.into() }
}

/// A chunk's journal; its counts are those of its outcomes.
fn chunk_journal(first: u64, outcomes: Vec<DocumentOutcome>, issues: Vec<Issue>) -> ChunkJournal {
    let mut counts = OutcomeCounts::default();
    let mut last = 0;
    for outcome in &outcomes {
        counts.add(outcome.outcome, 1);
        counts.documents += i64::from(outcome.document != last);
        last = outcome.document;
    }
    counts.warnings = issues.iter().filter(|issue| !issue.failed).count() as i64;
    ChunkJournal { counts, first, packed_outcomes: pack(&outcomes), troubles: issues, ..ChunkJournal::default() }
}

/// The correction of a document in the first collection.
fn correction(document: u64, outcome: Outcome) -> OutcomeCorrection {
    OutcomeCorrection { document, collection: CollectionId::from(0), outcome, reason: format!("another one counts instead of {document}") }
}

/// A job with these chunks' journals, committed in the order of `order`.
fn job_with(fixture: &Fixture, journals: &[ChunkJournal], order: &[usize]) -> JobId {
    let job = fixture.store.create_job(new_job(&fixture.tenant, 2)).expect("the job is written");
    let chunks: Vec<NewChunk> = (1..=journals.len() as u32).map(|ordinal| NewChunk { ordinal, slice: slice(ordinal) }).collect();
    fixture.store.add_chunks(job, chunks, progress(journals.len() as u32, true)).expect("chunks are added");
    let leases = fixture.store.lease(Some(job), journals.len(), 60).expect("leasing works");
    for index in order {
        fixture.unit().lease_token(token_of(&leases[*index])).journal(journals[*index].clone()).commit_ok(&*fixture.store);
    }
    job
}

/// Two files, documents that feed two collections, failures, many warnings, a chunk without documents, and corrections.
fn eventful(fixture: &Fixture) -> JobId {
    use Outcome::*;
    let warnings = (0..20).map(|number| issue(2, 0, false, &format!("warning {number}")));
    let mut first = chunk_journal(
        1,
        vec![
            document_outcome(1, CollectionId::from(0), Created, "a"),
            document_outcome(1, CollectionId::from(1), Created, "m"),
            document_outcome(2, CollectionId::from(0), Created, "b"),
            document_outcome(3, CollectionId::from(0), Failed, ""),
        ],
        warnings.chain([issue(3, 0, true, "not JSON")]).collect(),
    );
    first.file = 0;
    first.failed_documents = vec![(3, b"{ broken\0\xff".to_vec())];
    let mut second = chunk_journal(
        4,
        vec![
            document_outcome(4, CollectionId::from(0), Skipped, "c"),
            document_outcome(5, CollectionId::from(0), Updated, "a"),
            document_outcome(5, CollectionId::from(1), Unchanged, "m"),
            document_outcome(6, CollectionId::from(1), Failed, "n"),
        ],
        vec![issue(4, 0, false, "a blank year"), issue(6, 0, true, "no key"), issue(6, 0, false, "and no year")],
    );
    second.corrections = vec![correction(1, Superseded), correction(2, Superseded)];
    second.counts.add(Created, -2);
    second.counts.add(Superseded, 2);
    let in_second_file = |journal: ChunkJournal| ChunkJournal { file: 1, file_start: 6, ..journal };
    let empty = in_second_file(chunk_journal(0, Vec::new(), Vec::new()));
    let third = in_second_file(chunk_journal(
        7,
        (7..=30)
            .flat_map(|document| {
                [
                    document_outcome(document, CollectionId::from(0), Created, &format!("k{document}")),
                    document_outcome(document, CollectionId::from(1), Created, "many"),
                ]
            })
            .collect(),
        (7..=30).filter(|document| document % 3 == 0).map(|document| issue(document, 6, false, "odd")).collect(),
    ));
    job_with(fixture, &[first, second, empty, third], &[3, 1, 0, 2])
}

fn all_entries(fixture: &Fixture, job: JobId) -> Vec<JournalEntry> {
    fixture.store.journal(job, 0, usize::MAX >> 2, false).expect("reading works")
}

/// All pages of a size; a page ends with the last entry of its last document.
fn pages(fixture: &Fixture, job: JobId, size: usize, troubles_only: bool) -> Vec<JournalEntry> {
    let mut all: Vec<JournalEntry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |entry| entry.document);
        let page = fixture.store.journal(job, after, size, troubles_only).expect("reading works");
        assert!(page.iter().all(|entry| entry.document > after));
        if page.is_empty() {
            return all;
        }
        let before_last = page.iter().filter(|entry| entry.document < page[page.len() - 1].document).count();
        assert!(before_last < size, "a page of {size} begins no document beyond its size");
        all.extend(page);
    }
}

pub fn the_journal_lists_documents_in_the_order_of_the_files(location: &StoreLocation) {
    let fixture = Fixture::open(location, TWO);
    let job = eventful(&fixture);
    let entries = all_entries(&fixture, job);
    assert_eq!(entries.len(), 4 + 4 + 48);
    assert!(entries.is_sorted_by_key(|entry| entry.document));
    let entry =
        |document: u64, file: &str, record: u64, collection: Option<&str>, key: Option<&str>, outcome: Outcome, reasons: &[&str]| JournalEntry {
            document,
            file: file.into(),
            record,
            offset: document * 10,
            collection: collection.map(str::to_owned),
            key: key.map(str::to_owned),
            outcome,
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
        };
    // the reason of a correction is only shown for its collection
    let instead = "another one counts instead of 1";
    assert_eq!(entries[0], entry(1, "file0.json", 1, Some("item"), Some("a"), Outcome::Superseded, &[instead]));
    assert_eq!(entries[1], entry(1, "file0.json", 1, Some("maker"), Some("m"), Outcome::Created, &[]));
    assert_eq!(entries[3], entry(3, "file0.json", 3, None, None, Outcome::Failed, &["not JSON"]));
    assert_eq!(entries[4], entry(4, "file0.json", 4, Some("item"), Some("c"), Outcome::Skipped, &["not wanted", "a blank year"]));
    assert_eq!(entries[7], entry(6, "file0.json", 6, Some("maker"), Some("n"), Outcome::Failed, &["no key", "and no year"]));
    assert_eq!(entries[8], entry(7, "file1.json", 1, Some("item"), Some("k7"), Outcome::Created, &[]));
    let reasons = &entries[2].reasons;
    assert_eq!(reasons.iter().filter(|reason| reason.starts_with("warning")).count(), 20);
    assert!(reasons.len() == 21 && reasons.contains(&"another one counts instead of 2".to_owned()), "{reasons:?}");
}

pub fn the_bytes_of_a_failed_document_are_kept(location: &StoreLocation) {
    let fixture = Fixture::open(location, TWO);
    let job = eventful(&fixture);
    let failed_document = |job, document| fixture.store.failed_document(job, document).expect("reading works");
    assert_eq!(failed_document(job, 3).as_deref(), Some(&b"{ broken\0\xff"[..]));
    assert_eq!((failed_document(job, 6), failed_document(job, u64::MAX), failed_document(job + 1, 3)), (None, None, None));
}

pub fn counts_of_chunks_add_up_with_corrections(location: &StoreLocation) {
    let fixture = Fixture::open(location, TWO);
    let job = fixture.store.job(eventful(&fixture)).expect("the job is there");
    use Outcome::*;
    let counted = [Created, Updated, Unchanged, Deleted, Superseded, Skipped, Withdrawn, Failed].map(|outcome| job.counts.of(outcome));
    assert_eq!(counted, [3 - 2 + 48, 1, 1, 0, 2, 1, 0, 2]);
    assert_eq!((job.counts.documents, job.counts.warnings), (30, 20 + 2 + 8));
    assert_eq!(job.state, JobState::CompletedWithErrors);
    // the counts are those of the list
    for (outcome, name) in OUTCOMES {
        let listed = all_entries(&fixture, job.id).iter().filter(|entry| entry.outcome == outcome).count();
        assert_eq!(listed as i64, job.counts.of(outcome), "{name}");
    }
}

pub fn a_correction_changes_the_entry_of_another_chunk_whichever_was_first(location: &StoreLocation) {
    let fixture = Fixture::open(location, TWO);
    for order in [[0, 1], [1, 0]] {
        let first = chunk_journal(
            1,
            vec![
                document_outcome(1, CollectionId::from(0), Outcome::Created, "a"),
                document_outcome(1, CollectionId::from(1), Outcome::Created, "a"),
            ],
            Vec::new(),
        );
        let mut correcting = chunk_journal(2, vec![document_outcome(2, CollectionId::from(0), Outcome::Created, "a")], Vec::new());
        correcting.corrections = vec![correction(1, Outcome::Superseded)];
        correcting.counts.add(Outcome::Created, -1);
        correcting.counts.add(Outcome::Superseded, 1);
        let job = job_with(&fixture, &[first, correcting], &order);
        let outcomes: Vec<Outcome> = all_entries(&fixture, job).iter().map(|entry| entry.outcome).collect();
        assert_eq!(outcomes, [Outcome::Superseded, Outcome::Created, Outcome::Created]);
        let counts = fixture.store.job(job).expect("the job is there").counts;
        assert_eq!((counts.of(Outcome::Created), counts.of(Outcome::Superseded)), (2, 1));
    }
    // the later correction of a document counts
    let again = |first, outcome| ChunkJournal {
        corrections: vec![correction(1, outcome)],
        ..chunk_journal(first, vec![document_outcome(first, CollectionId::from(0), Outcome::Created, "a")], Vec::new())
    };
    let job = job_with(&fixture, &[again(1, Outcome::Superseded), again(2, Outcome::Updated)], &[0, 1]);
    assert_eq!(all_entries(&fixture, job)[0].outcome, Outcome::Updated);
}

pub fn pages_of_any_size_together_are_the_complete_journal(location: &StoreLocation) {
    let fixture = Fixture::open(location, TWO);
    let job = eventful(&fixture);
    let all = all_entries(&fixture, job);
    for size in (1..=9).chain([55, 56, 57, 1_000]) {
        assert_eq!(pages(&fixture, job, size, false), all, "pages of {size}");
    }
    assert_eq!(fixture.store.journal(job, 0, 0, false).expect("reading works"), []);
    assert_eq!(fixture.store.journal(job, 30, 10, false).expect("reading works"), []);
    assert_eq!(fixture.store.journal(job, u64::MAX >> 1, 10, false).expect("reading works"), []);
}

pub fn a_journal_of_issues_lists_only_entries_with_failures_or_warnings(location: &StoreLocation) {
    let fixture = Fixture::open(location, TWO);
    let job = eventful(&fixture);
    let is_issue = |reason: &String| !reason.starts_with("another one counts");
    let entries_with_issues: Vec<JournalEntry> = all_entries(&fixture, job).into_iter().filter(|entry| entry.reasons.iter().any(is_issue)).collect();
    assert_eq!(fixture.store.journal(job, 0, 1_000, true).expect("reading works"), entries_with_issues);
    let corrected_entry = entries_with_issues.iter().find(|entry| entry.document == 2).expect("it has warnings");
    assert_eq!(corrected_entry.outcome, Outcome::Superseded);
}

pub fn pages_of_issues_of_any_size_together_are_all_issues(location: &StoreLocation) {
    let fixture = Fixture::open(location, TWO);
    let job = eventful(&fixture);
    let all = fixture.store.journal(job, 0, 1_000, true).expect("reading works");
    assert!(all.len() > 10);
    for size in 1..=all.len() + 1 {
        assert_eq!(pages(&fixture, job, size, true), all, "pages of {size}");
    }
    assert_eq!(fixture.store.journal(job, 0, 0, true).expect("reading works"), []);
    assert_eq!(fixture.store.journal(job, 30, 10, true).expect("reading works"), []);
}

pub fn a_chunk_without_documents_is_journalled(location: &StoreLocation) {
    let fixture = Fixture::open(location, TWO);
    let job = job_with(&fixture, &[ChunkJournal::default()], &[0]);
    assert_eq!(all_entries(&fixture, job), []);
    assert_eq!(fixture.store.job(job).expect("the job is there").state, JobState::Completed);
    let error = fixture.store.load_chunk(ChunkId { job, ordinal: 1 }, slice(1)).expect_err("it is done");
    assert!(error.to_string().contains("is done already"), "{error}");
}

pub fn a_failed_unit_leaves_no_journal(location: &StoreLocation) {
    let fixture = Fixture::open(location, TWO);
    let job = fixture.store.create_job(new_job(&fixture.tenant, 1)).expect("the job is written");
    fixture.store.add_chunks(job, vec![NewChunk { ordinal: 1, slice: slice(1) }], progress(1, true)).expect("chunks are added");
    let lease = fixture.store.lease(None, 1, 60).expect("leasing works").remove(0);
    let journal = chunk_journal(1, vec![document_outcome(1, CollectionId::from(0), Outcome::Failed, "a")], vec![issue(1, 0, true, "why")]);
    let unexpected = put(CollectionId::from(0), "a", Some(Version::default()), fixture.content(&[]));
    let failing = fixture.unit().lease_token(token_of(&lease)).journal(journal.clone()).write(unexpected);
    failing.commit(&*fixture.store).0.expect_err("the conflict is not resolved");
    assert_eq!(all_entries(&fixture, job), []);
    assert_eq!(fixture.store.journal(job, 0, 10, true).expect("reading works"), []);
    assert_eq!(fixture.store.job(job).expect("the job is there").chunks_left, 1);
    // the lease is still valid, and the chunk can be completed
    fixture.unit().lease_token(token_of(&lease)).journal(journal).commit_ok(&*fixture.store);
    assert_eq!(all_entries(&fixture, job).len(), 1);
    assert_eq!(fixture.store.journal(job, 0, 10, true).expect("reading works").len(), 1);
}

pub fn the_journal_of_another_job_is_not_shown(location: &StoreLocation) {
    let fixture = Fixture::open(location, TWO);
    let journal_with_issue =
        |name: &str| chunk_journal(1, vec![document_outcome(1, CollectionId::from(0), Outcome::Created, name)], vec![issue(1, 0, false, name)]);
    let mut correcting = journal_with_issue("b");
    correcting.corrections = vec![correction(1, Outcome::Superseded)];
    let (first, second) = (job_with(&fixture, &[journal_with_issue("a")], &[0]), job_with(&fixture, &[correcting], &[0]));
    let instead = "another one counts instead of 1";
    for (job, name, outcome, correction) in [(first, "a", Outcome::Created, None), (second, "b", Outcome::Superseded, Some(instead))] {
        for troubles_only in [false, true] {
            let entries = fixture.store.journal(job, 0, 10, troubles_only).expect("reading works");
            assert_eq!(entries.len(), 1);
            let reasons: Vec<&str> = std::iter::once(name).chain(correction).collect();
            assert_eq!((entries[0].key.as_deref(), entries[0].outcome), (Some(name), outcome));
            assert_eq!(entries[0].reasons, reasons);
        }
    }
}

pub fn packed_outcomes_are_unpacked_unchanged(_: &StoreLocation) {
    let mut outcomes = Vec::new();
    for (number, (outcome, _)) in OUTCOMES.into_iter().enumerate() {
        let number = number as u64;
        outcomes.push(DocumentOutcome {
            document: number,
            offset: u64::MAX - number,
            collection: Some(CollectionId::from(number as usize * 100)),
            outcome,
            key: "\u{e4}".repeat(number as usize).into(),
            reason: (number % 3 == 1).then(|| format!("reason {number}").into()),
        });
    }
    // offsets start again at 0 where a new file begins
    outcomes.push(DocumentOutcome {
        document: 9,
        offset: 0,
        collection: Some(CollectionId::from(0)),
        outcome: Outcome::Created,
        key: String::new().into(),
        reason: None,
    });
    assert_eq!(unpack(&pack(&outcomes)), Ok(outcomes.clone()));
    assert_eq!(unpack(&pack(&[])), Ok(Vec::new()));
    outcomes.iter_mut().for_each(|outcome| outcome.reason = None);
    assert_eq!(unpack(&pack(&outcomes)), Ok(outcomes.clone()), "also without any reason");
    let packed = pack(&outcomes);
    unpack(&packed[..packed.len() - 5]).expect_err("a torn journal is noticed");
    assert_eq!(unpack(b""), Ok(Vec::new()), "nothing is nothing");
}
