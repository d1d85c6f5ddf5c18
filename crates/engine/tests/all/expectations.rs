//! What is expected of files: each is checked as a whole before any of its documents is imported, against files before it and not against the store.

use crate::support;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::parse::parse;
use stook_engine::import::{self, DryRunLimits, ImportRequest, UploadRequest};
use stook_store::Tenant;
use stook_store::queue::{Job, JobId, JobState};
use support::{Desk, folder, on_a_file, on_a_server};

const DEFINITION: &str = "
catalogue: airports
sources:
  airports:
    format: csv
    into: airport
    as_of: made
    expect:
      - { field: iata, matches: '^[A-Z]{3}$', at_least: 75% }
      - { field: name, present: true, at_least: 50% }
      - { field: id, unique: true, do: stop }
      - { documents: { at_least: 2, at_most: 100, fewer: 20%, more: 300% }, do: stop }
      - { fresh: 24h }
  others: { format: json, into: airport, as_of: meta.received }
collections:
  airport:
    key: '{id}'
    fields: { id: text, name: text, iata: text, made: timestamp }
";

fn catalogue() -> Arc<Catalogue> {
    Arc::new(parse(DEFINITION).unwrap_or_else(|problems| panic!("{problems:?}")))
}

static FILE: LazyLock<Desk> = LazyLock::new(|| {
    let (folder, catalogue) = (folder("expectations-file"), catalogue());
    Desk { stores: on_a_file(&folder, &catalogue, 2), catalogue, folder }
});

static SERVER: LazyLock<Option<Desk>> = LazyLock::new(|| {
    let catalogue = catalogue();
    let stores = on_a_server("expectations", &catalogue)?;
    Some(Desk { stores, catalogue, folder: folder("expectations-server") })
});

fn desks() -> impl Iterator<Item = &'static Desk> {
    [Some(&*FILE), SERVER.as_ref()].into_iter().flatten()
}

/// A day of January 2026.
fn day(day: u32) -> String {
    format!("2026-01-{day:02}T00:00:00Z")
}

/// As many rows, all of a day.
fn rows(count: usize, made: u32) -> String {
    let row = |number: usize| {
        format!("a{number},Airport,A{}{},{}\n", char::from(b'A' + (number % 26) as u8), char::from(b'A' + (number / 26) as u8), day(made))
    };
    format!("id,name,iata,made\n{}", (0..count).map(row).collect::<String>())
}

fn request(desk: &Desk, tenant: &Tenant, name: &str, text: &str, made: u32) -> ImportRequest {
    let path = desk.folder.join(format!("{tenant}-{name}.csv"));
    std::fs::write(&path, text).unwrap();
    let as_of = stook_catalogue::value::from_text(&day(made), &stook_catalogue::value::FieldType::Timestamp, None).unwrap().as_int();
    ImportRequest {
        files: vec![path],
        profile: None,
        source: Some("airports".into()),
        tenant: tenant.clone(),
        as_of,
        part: None,
        arguments: Default::default(),
        retires_all: false,
        unexpected: false,
    }
}

fn import(desk: &Desk, request: &ImportRequest) -> Job {
    let job = import::create(&desk.catalogue, &*desk.stores[0], request).unwrap();
    import::split_files(&desk.catalogue, &*desk.stores[0], job, &AtomicBool::new(false), &|_| {}).unwrap();
    desk.drain(1);
    desk.stores[0].job(job).unwrap()
}

/// What does not hold.
fn failed(job: &Job) -> Vec<String> {
    let outcomes = job.files.iter().flat_map(|file| &file.checks.as_ref().unwrap().expectations);
    outcomes.filter(|own| !own.holds).map(|own| format!("{}: {}", own.expected, own.found)).collect()
}

fn airports(desk: &Desk, tenant: &Tenant) -> usize {
    desk.golden_values(tenant)["airport"].as_object().unwrap().len()
}

#[test]
fn a_file_that_is_as_expected_is_imported_and_the_checks_are_kept() {
    for desk in desks() {
        let tenant = desk.new_tenant();
        let job = import(desk, &request(desk, &tenant, "a", &rows(10, 5), 5));
        let checks = job.files[0].checks.clone().unwrap();
        assert_eq!((job.state, checks.documents, checks.expectations.len(), failed(&job)), (JobState::Completed, 10, 5, vec![]));
        assert_eq!(airports(desk, &tenant), 10);
    }
}

#[test]
fn what_does_not_hold_is_a_warning_with_the_first_value() {
    for desk in desks() {
        let tenant = desk.new_tenant();
        let text = format!("id,name,iata,made\nx,,AA1,{0}\ny,,BBB,{0}\nz,Z,,{0}\n", day(5));
        let job = import(desk, &request(desk, &tenant, "a", &text, 7));
        assert_eq!(
            failed(&job),
            [
                "`iata` matches ^[A-Z]{3}$ in at least 75%: 50% (1 of 2); first \"AA1\" in document 1",
                "`name` is present in at least 50%: 33.33% (1 of 3); first no value in document 1",
                "the newest document is at most 24h old: it is of 2026-01-05T00:00:00Z",
            ]
        );
        assert_eq!((job.state, airports(desk, &tenant)), (JobState::Completed, 3));
    }
}

#[test]
fn a_file_that_is_stopped_writes_nothing_and_stays_stopped() {
    for desk in desks() {
        let tenant = desk.new_tenant();
        let text = rows(10, 5) + &format!("a3,Again,AAA,{}\n", day(5));
        let request = request(desk, &tenant, "a", &text, 5);
        let job = import(desk, &request);
        assert_eq!((job.state, airports(desk, &tenant)), (JobState::Failed, 0));
        let reason = job.reason.clone().unwrap();
        assert!(reason.contains("expected that `id` is unique, found 90.9% (10 of 11); first \"a3\" again in document 11"), "{reason}");
        let dry = import::dry_run(&desk.catalogue, &*desk.stores[0], &request, DryRunLimits { documents: 100, troubles: 10 }).unwrap();
        assert_eq!(dry.refusal, Some(reason));
        // resuming it does not import it either
        let run = stook_engine::work::JobRun { job: job.id, workers: 1, settles: true, stop: &AtomicBool::new(false) };
        let resumed = import::run(&desk.catalogue, &*desk.stores[0], &run, &|_| {}).unwrap();
        assert_eq!((resumed.state, airports(desk, &tenant)), (JobState::Failed, 0));
        let job = import(desk, &ImportRequest { unexpected: true, ..request });
        assert_eq!((job.state, failed(&job).len(), airports(desk, &tenant)), (JobState::Completed, 1, 10));
    }
}

#[test]
fn numbers_of_documents_are_compared_with_the_file_before_by_as_of() {
    for desk in desks() {
        let tenant = desk.new_tenant();
        // what another source has contributed does not matter
        let path = desk.folder.join(format!("{tenant}.json"));
        let text: String = (0..90).map(|number| format!("{{\"id\": \"o{number}\"}}\n")).collect();
        std::fs::write(&path, text).unwrap();
        let others = ImportRequest { files: vec![path], source: Some("others".into()), ..request(desk, &tenant, "o", "", 1) };
        assert_eq!(import(desk, &others).state, JobState::Completed);
        assert_eq!(import(desk, &request(desk, &tenant, "first", &rows(10, 10), 10)).state, JobState::Completed);
        // a quarter fewer
        let stopped = import(desk, &request(desk, &tenant, "short", &rows(7, 20), 20));
        assert!(stopped.reason.as_deref().is_some_and(|reason| reason.contains("found 7 documents; the file before,")), "{stopped:?}");
        assert!(stopped.reason.as_deref().is_some_and(|reason| reason.ends_with("-first.csv, had 10")), "{stopped:?}");
        // a file that was stopped is no file before
        assert_eq!(import(desk, &request(desk, &tenant, "next", &rows(8, 21), 21)).state, JobState::Completed);
        // an older file that comes late is compared with what is older than it, in this case nothing
        assert_eq!(import(desk, &request(desk, &tenant, "late", &rows(3, 5), 5)).state, JobState::Completed);
        // the same file again has no file of its own time before it
        assert_eq!(import(desk, &request(desk, &tenant, "again", &rows(10, 10), 10)).state, JobState::Completed);
        assert_eq!(import(desk, &request(desk, &tenant, "grown", &rows(60, 22), 22)).state, JobState::Failed);
    }
}

#[test]
fn uploads_are_checked_before_they_are_queued() {
    for desk in desks() {
        let tenant = desk.new_tenant();
        let upload = |text: String, unexpected: bool| -> (Job, Option<JobId>) {
            let request = UploadRequest {
                name: "upload:a.csv".into(),
                size: None,
                profile: None,
                source: Some("airports".into()),
                tenant: tenant.clone(),
                as_of: None,
                retires_all: false,
                unexpected,
            };
            let mut created = None;
            let bytes = Box::new(std::io::Cursor::new(text.into_bytes()));
            let job = import::upload(&desk.catalogue, &*desk.stores[0], &request, bytes, &mut |job| created = Some(job)).unwrap();
            desk.drain(1);
            (desk.stores[0].job(job.id).unwrap(), created)
        };
        let (job, created) = upload(rows(1, 5), false);
        assert_eq!((job.state, created, airports(desk, &tenant)), (JobState::Failed, Some(job.id), 0));
        assert!(
            job.reason.unwrap().starts_with("not imported, because it is not as expected: a.csv: expected that the file has at least 2 documents")
        );
        assert_eq!((upload(rows(1, 5), true).0.state, airports(desk, &tenant)), (JobState::Completed, 1));
        assert_eq!((upload(rows(9, 9), false).0.state, airports(desk, &tenant)), (JobState::Failed, 1));
        assert_eq!((upload(rows(3, 9), false).0.state, airports(desk, &tenant)), (JobState::Completed, 3));
    }
}

#[test]
fn mistakes_in_expectations_are_shown_at_their_place() {
    for (expect, message) in [
        ("{ field: iat, present: true }", "this source gives no value to a field `iat`"),
        ("{ field: iata }", "of a field one of these is expected"),
        ("{ field: iata, present: true, unique: true }", "of a field one of these is expected"),
        ("{ fresh: 24h, present: true }", "`present` is about the values of a `field`"),
        ("{ field: iata, fresh: 24h }", "an expectation is about one of `field`, `documents` and `fresh`"),
        ("{ documents: { fewer: 20 } }", "`20` is not a percentage"),
        ("{ documents: {} }", "say `at_least`, `at_most`, `fewer` or `more`"),
        ("{ field: iata, matches: '(' }", "`(` is not a regular expression"),
    ] {
        let definition = format!(
            "catalogue: c\nsources:\n  a:\n    format: csv\n    into: airport\n    as_of: meta.received\n    expect: [ {expect} ]\n\
             collections: {{ airport: {{ key: id, fields: {{ id: text, iata: text }} }} }}\n"
        );
        let problems = parse(&definition).expect_err("it is refused");
        assert!(problems.iter().any(|problem| problem.message.contains(message)), "{expect}: {problems:?}");
    }
}
