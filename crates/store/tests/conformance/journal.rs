//! The outcome of every document, listed and counted.

use super::queue::{fence, new_job, progress, slice};
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

fn line(document: u64, collection: CollectionId, outcome: Outcome, key: &str) -> DocumentOutcome {
    DocumentOutcome {
        document,
        offset: document * 10,
        collection: Some(collection),
        outcome,
        key: key.into(),
        reason: (outcome == Outcome::Skipped).then(|| "not wanted".into()),
    }
}

fn trouble(document: u64, file_start: u64, failed: bool, reason: &str) -> Issue {
    let (file, record) = (usize::from(file_start > 0), document - file_start);
    Issue { document, file, record, offset: document * 10, key: None, failed, reason: reason.into() }
}

/// A chunk's journal; its counts are those of its outcomes.
fn chunk_journal(first: u64, lines: Vec<DocumentOutcome>, troubles: Vec<Issue>) -> ChunkJournal {
    let mut counts = OutcomeCounts::default();
    let mut last = 0;
    for line in &lines {
        counts.add(line.outcome, 1);
        counts.documents += i64::from(line.document != last);
        last = line.document;
    }
    counts.warnings = troubles.iter().filter(|trouble| !trouble.failed).count() as i64;
    ChunkJournal { counts, first, packed_outcomes: pack(&lines), troubles, ..ChunkJournal::default() }
}

/// The correction of a document in the first collection.
fn corrected(document: u64, outcome: Outcome) -> OutcomeCorrection {
    OutcomeCorrection { document, collection: CollectionId::from(0), outcome, reason: format!("another one counts instead of {document}") }
}

/// A job with these chunks' journals, committed in the order of `order`.
fn job_with(desk: &Desk, journals: &[ChunkJournal], order: &[usize]) -> JobId {
    let job = desk.store.create_job(new_job(&desk.tenant, 2)).expect("the job is written");
    let chunks: Vec<NewChunk> = (1..=journals.len() as u32).map(|ordinal| NewChunk { ordinal, slice: slice(ordinal) }).collect();
    desk.store.add_chunks(job, chunks, progress(journals.len() as u32, true)).expect("chunks are added");
    let leases = desk.store.lease(Some(job), journals.len(), 60).expect("leasing works");
    for index in order {
        desk.work().fence(fence(&leases[*index])).journal(journals[*index].clone()).done(&*desk.store);
    }
    job
}

/// Two files, documents that feed two collections, failures, many warnings, a chunk without documents, and corrections.
fn eventful(desk: &Desk) -> JobId {
    use Outcome::*;
    let warnings = (0..20).map(|number| trouble(2, 0, false, &format!("warning {number}")));
    let mut first = chunk_journal(
        1,
        vec![
            line(1, CollectionId::from(0), Created, "a"),
            line(1, CollectionId::from(1), Created, "m"),
            line(2, CollectionId::from(0), Created, "b"),
            line(3, CollectionId::from(0), Failed, ""),
        ],
        warnings.chain([trouble(3, 0, true, "not JSON")]).collect(),
    );
    first.file = 0;
    first.failed_documents = vec![(3, b"{ broken\0\xff".to_vec())];
    let mut second = chunk_journal(
        4,
        vec![
            line(4, CollectionId::from(0), Skipped, "c"),
            line(5, CollectionId::from(0), Updated, "a"),
            line(5, CollectionId::from(1), Unchanged, "m"),
            line(6, CollectionId::from(1), Failed, "n"),
        ],
        vec![trouble(4, 0, false, "a blank year"), trouble(6, 0, true, "no key"), trouble(6, 0, false, "and no year")],
    );
    second.corrections = vec![corrected(1, Superseded), corrected(2, Superseded)];
    second.counts.add(Created, -2);
    second.counts.add(Superseded, 2);
    let in_second_file = |journal: ChunkJournal| ChunkJournal { file: 1, file_start: 6, ..journal };
    let empty = in_second_file(chunk_journal(0, Vec::new(), Vec::new()));
    let third = in_second_file(chunk_journal(
        7,
        (7..=30)
            .flat_map(|document| {
                [line(document, CollectionId::from(0), Created, &format!("k{document}")), line(document, CollectionId::from(1), Created, "many")]
            })
            .collect(),
        (7..=30).filter(|document| document % 3 == 0).map(|document| trouble(document, 6, false, "odd")).collect(),
    ));
    job_with(desk, &[first, second, empty, third], &[3, 1, 0, 2])
}

fn whole(desk: &Desk, job: JobId) -> Vec<JournalEntry> {
    desk.store.journal(job, 0, usize::MAX >> 2, false).expect("reading works")
}

/// All pages of a size; a page ends with the last entry of its last document.
fn pages(desk: &Desk, job: JobId, size: usize, troubles_only: bool) -> Vec<JournalEntry> {
    let mut all: Vec<JournalEntry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |entry| entry.document);
        let page = desk.store.journal(job, after, size, troubles_only).expect("reading works");
        assert!(page.iter().all(|entry| entry.document > after));
        if page.is_empty() {
            return all;
        }
        let before_last = page.iter().filter(|entry| entry.document < page[page.len() - 1].document).count();
        assert!(before_last < size, "a page of {size} begins no document beyond its size");
        all.extend(page);
    }
}

pub fn the_journal_lists_documents_in_the_order_of_the_files(place: &Place) {
    let desk = Desk::open(place, TWO);
    let job = eventful(&desk);
    let entries = whole(&desk, job);
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

pub fn a_document_that_failed_is_there_as_it_was_read(place: &Place) {
    let desk = Desk::open(place, TWO);
    let job = eventful(&desk);
    let kept = |job, document| desk.store.failed_document(job, document).expect("reading works");
    assert_eq!(kept(job, 3).as_deref(), Some(&b"{ broken\0\xff"[..]));
    assert_eq!((kept(job, 6), kept(job, u64::MAX), kept(job + 1, 3)), (None, None, None));
}

pub fn counts_of_chunks_add_up_with_corrections(place: &Place) {
    let desk = Desk::open(place, TWO);
    let job = desk.store.job(eventful(&desk)).expect("the job is there");
    use Outcome::*;
    let counted = [Created, Updated, Unchanged, Superseded, Skipped, Withdrawn, Failed].map(|outcome| job.counts.of(outcome));
    assert_eq!(counted, [3 - 2 + 48, 1, 1, 2, 1, 0, 2]);
    assert_eq!((job.counts.documents, job.counts.warnings), (30, 20 + 2 + 8));
    assert_eq!(job.state, JobState::CompletedWithErrors);
    // the counts are those of the list
    for (outcome, name) in OUTCOMES {
        let listed = whole(&desk, job.id).iter().filter(|entry| entry.outcome == outcome).count();
        assert_eq!(listed as i64, job.counts.of(outcome), "{name}");
    }
}

pub fn a_correction_changes_the_entry_of_another_chunk_whichever_was_first(place: &Place) {
    let desk = Desk::open(place, TWO);
    for order in [[0, 1], [1, 0]] {
        let first = chunk_journal(
            1,
            vec![line(1, CollectionId::from(0), Outcome::Created, "a"), line(1, CollectionId::from(1), Outcome::Created, "a")],
            Vec::new(),
        );
        let mut correcting = chunk_journal(2, vec![line(2, CollectionId::from(0), Outcome::Created, "a")], Vec::new());
        correcting.corrections = vec![corrected(1, Outcome::Superseded)];
        correcting.counts.add(Outcome::Created, -1);
        correcting.counts.add(Outcome::Superseded, 1);
        let job = job_with(&desk, &[first, correcting], &order);
        let outcomes: Vec<Outcome> = whole(&desk, job).iter().map(|entry| entry.outcome).collect();
        assert_eq!(outcomes, [Outcome::Superseded, Outcome::Created, Outcome::Created]);
        let counts = desk.store.job(job).expect("the job is there").counts;
        assert_eq!((counts.of(Outcome::Created), counts.of(Outcome::Superseded)), (2, 1));
    }
    // the later correction of a document counts
    let again = |first, outcome| ChunkJournal {
        corrections: vec![corrected(1, outcome)],
        ..chunk_journal(first, vec![line(first, CollectionId::from(0), Outcome::Created, "a")], Vec::new())
    };
    let job = job_with(&desk, &[again(1, Outcome::Superseded), again(2, Outcome::Updated)], &[0, 1]);
    assert_eq!(whole(&desk, job)[0].outcome, Outcome::Updated);
}

pub fn pages_of_any_size_put_together_are_the_whole_journal(place: &Place) {
    let desk = Desk::open(place, TWO);
    let job = eventful(&desk);
    let all = whole(&desk, job);
    for size in (1..=9).chain([55, 56, 57, 1_000]) {
        assert_eq!(pages(&desk, job, size, false), all, "pages of {size}");
    }
    assert_eq!(desk.store.journal(job, 0, 0, false).expect("reading works"), []);
    assert_eq!(desk.store.journal(job, 30, 10, false).expect("reading works"), []);
    assert_eq!(desk.store.journal(job, u64::MAX >> 1, 10, false).expect("reading works"), []);
}

pub fn troubles_are_the_entries_of_the_journal_that_have_reasons(place: &Place) {
    let desk = Desk::open(place, TWO);
    let job = eventful(&desk);
    let is_trouble = |reason: &String| !reason.starts_with("another one counts");
    let troubled: Vec<JournalEntry> = whole(&desk, job).into_iter().filter(|entry| entry.reasons.iter().any(is_trouble)).collect();
    assert_eq!(desk.store.journal(job, 0, 1_000, true).expect("reading works"), troubled);
    let corrected = troubled.iter().find(|entry| entry.document == 2).expect("it has warnings");
    assert_eq!(corrected.outcome, Outcome::Superseded);
}

pub fn pages_of_troubles_of_any_size_put_together_are_all_troubles(place: &Place) {
    let desk = Desk::open(place, TWO);
    let job = eventful(&desk);
    let all = desk.store.journal(job, 0, 1_000, true).expect("reading works");
    assert!(all.len() > 10);
    for size in 1..=all.len() + 1 {
        assert_eq!(pages(&desk, job, size, true), all, "pages of {size}");
    }
    assert_eq!(desk.store.journal(job, 0, 0, true).expect("reading works"), []);
    assert_eq!(desk.store.journal(job, 30, 10, true).expect("reading works"), []);
}

pub fn a_chunk_without_documents_is_journalled(place: &Place) {
    let desk = Desk::open(place, TWO);
    let job = job_with(&desk, &[ChunkJournal::default()], &[0]);
    assert_eq!(whole(&desk, job), []);
    assert_eq!(desk.store.job(job).expect("the job is there").state, JobState::Completed);
    let error = desk.store.load_chunk(ChunkId { job, ordinal: 1 }, slice(1)).expect_err("it is done");
    assert!(error.to_string().contains("is done already"), "{error}");
}

pub fn a_failed_unit_leaves_no_journal(place: &Place) {
    let desk = Desk::open(place, TWO);
    let job = desk.store.create_job(new_job(&desk.tenant, 1)).expect("the job is written");
    desk.store.add_chunks(job, vec![NewChunk { ordinal: 1, slice: slice(1) }], progress(1, true)).expect("chunks are added");
    let lease = desk.store.lease(None, 1, 60).expect("leasing works").remove(0);
    let own = chunk_journal(1, vec![line(1, CollectionId::from(0), Outcome::Failed, "a")], vec![trouble(1, 0, true, "why")]);
    let unexpected = put(CollectionId::from(0), "a", Some(Version::default()), desk.content(&[]));
    let failing = desk.work().fence(fence(&lease)).journal(own.clone()).write(unexpected);
    failing.commit(&*desk.store).0.expect_err("the conflict is not resolved");
    assert_eq!(whole(&desk, job), []);
    assert_eq!(desk.store.journal(job, 0, 10, true).expect("reading works"), []);
    assert_eq!(desk.store.job(job).expect("the job is there").chunks_left, 1);
    // the lease is still valid, and the chunk can be completed
    desk.work().fence(fence(&lease)).journal(own).done(&*desk.store);
    assert_eq!(whole(&desk, job).len(), 1);
    assert_eq!(desk.store.journal(job, 0, 10, true).expect("reading works").len(), 1);
}

pub fn the_journal_of_another_job_is_not_shown(place: &Place) {
    let desk = Desk::open(place, TWO);
    let troubled = |name: &str| chunk_journal(1, vec![line(1, CollectionId::from(0), Outcome::Created, name)], vec![trouble(1, 0, false, name)]);
    let mut correcting = troubled("b");
    correcting.corrections = vec![corrected(1, Outcome::Superseded)];
    let (first, second) = (job_with(&desk, &[troubled("a")], &[0]), job_with(&desk, &[correcting], &[0]));
    let instead = "another one counts instead of 1";
    for (job, name, outcome, more) in [(first, "a", Outcome::Created, None), (second, "b", Outcome::Superseded, Some(instead))] {
        for troubles_only in [false, true] {
            let entries = desk.store.journal(job, 0, 10, troubles_only).expect("reading works");
            assert_eq!(entries.len(), 1);
            let reasons: Vec<&str> = std::iter::once(name).chain(more).collect();
            assert_eq!((entries[0].key.as_deref(), entries[0].outcome), (Some(name), outcome));
            assert_eq!(entries[0].reasons, reasons);
        }
    }
}

pub fn packed_lines_come_back_as_they_were(_: &Place) {
    let mut lines = Vec::new();
    for (number, (outcome, _)) in OUTCOMES.into_iter().enumerate() {
        let number = number as u64;
        lines.push(DocumentOutcome {
            document: number,
            offset: u64::MAX - number,
            collection: Some(CollectionId::from(number as usize * 100)),
            outcome,
            key: "\u{e4}".repeat(number as usize).into(),
            reason: (number % 3 == 1).then(|| format!("reason {number}").into()),
        });
    }
    // offsets start again at 0 where a new file begins
    lines.push(DocumentOutcome {
        document: 9,
        offset: 0,
        collection: Some(CollectionId::from(0)),
        outcome: Outcome::Created,
        key: String::new().into(),
        reason: None,
    });
    assert_eq!(unpack(&pack(&lines)), Ok(lines.clone()));
    assert_eq!(unpack(&pack(&[])), Ok(Vec::new()));
    lines.iter_mut().for_each(|line| line.reason = None);
    assert_eq!(unpack(&pack(&lines)), Ok(lines.clone()), "also without any reason");
    let packed = pack(&lines);
    unpack(&packed[..packed.len() - 5]).expect_err("a torn journal is noticed");
    assert_eq!(unpack(b""), Ok(Vec::new()), "nothing is nothing");
}
