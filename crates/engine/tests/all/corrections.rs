//! The law of corrections: an edit that names the values of others which it corrects holds as long as they give only these, whether their documents came
//! before it or after it, were withdrawn, undone or imported again.

use crate::support;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_engine::corrections::{self, CORRECTS, CorrectionsReport, CorrectionsTarget, REASON};
use stook_engine::edit::{self, Edit, EditAction, EditFields, EditResult, Preconditions};
use stook_engine::export::{ExportContents, ExportFormat, ExportRequest, export};
use stook_engine::record::{self, RecordAddress};
use stook_engine::settle::SettleRules;
use stook_engine::undo;
use stook_engine::withdraw::{WithdrawalRequest, withdraw};
use stook_store::Tenant;
use stook_store::queue::JobId;
use support::Desk;

const DEFINITION: &str = "\
catalogue: corrected
sources:
  one: &source
    format: json
    undo: 30d
    let: { at: { path: $.at, type: timestamp, format: epoch } }
    as_of: at
    into: thing
  two: *source
collections:
  thing:
    key: id
    history: 5
    changes: 30d
    fields:
      id: text
      text: { type: text, compare: folded, index: equal }
      first: { path: $.text, type: text, survivorship: { prefer: [one, two, api] } }
      words: { path: $.words, type: [text], survivorship: union }
      each: { path: $.text, type: text, survivorship: by_contributor }
      size: { path: $.n, type: integer, compare: { within: 1 } }
      doubled: { type: integer, derive: \"size * 2\" }
";

const SOURCES: [&str; 2] = ["one", "two"];
/// The fields that are edited, with the member of documents that gives them.
const FIELDS: [(&str, &str); 5] = [("text", "text"), ("first", "text"), ("words", "words"), ("each", "text"), ("size", "n")];

/// A state of a source: the number of a document, of which the greatest counts.
#[derive(Debug, Clone)]
enum Step {
    /// Delivers a document with this time; the same time is always the same document.
    Deliver { source: usize, at: usize },
    /// Undoes one of the jobs so far.
    Undo { job: usize },
    /// Withdraws a source.
    Withdraw { source: usize },
    /// Edits a field, correcting what the documents with these times say, if any.
    Correct { field: usize, value: usize, corrects: Option<[Option<usize>; 2]> },
    /// Takes the edit of a field back.
    TakeBack { field: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let document = || proptest::option::weighted(0.8, 0..4_usize);
    prop_oneof![
        6 => (0..2_usize, 0..4_usize).prop_map(|(source, at)| Step::Deliver { source, at }),
        2 => (0..6_usize).prop_map(|job| Step::Undo { job }),
        1 => (0..2_usize).prop_map(|source| Step::Withdraw { source }),
        6 => (0..FIELDS.len(), 0..4_usize, proptest::option::weighted(0.8, (document(), document()).prop_map(|(one, two)| [one, two])))
            .prop_map(|(field, value, corrects)| Step::Correct { field, value, corrects }),
        1 => (0..FIELDS.len()).prop_map(|field| Step::TakeBack { field }),
    ]
}

/// What a source's document with a time says.
fn document(source: usize, at: usize) -> Json {
    let texts = [["Sea", "sea", "Tide", "Coast"], ["SEA", "Wave", "Tide", "Sand"]];
    let words = [[json!(["a"]), json!(["a", "b"]), json!(["a"]), json!([])], [json!(["a"]), json!(["c"]), json!(["b"]), json!(["c"])]];
    let numbers = [[1, 2, 5, 9], [2, 1, 4, 12]];
    json!({ "id": "k", "at": at + 1, "text": texts[source][at], "words": words[source][at], "n": numbers[source][at] })
}

fn edited_value(field: &str, value: usize) -> Json {
    match field {
        "words" => [json!(["a"]), json!(["z"]), json!(["z", "a"]), json!(["c"])][value].clone(),
        "size" => json!([1, 7, 4, 3][value]),
        _ => json!(["Sea", "Ocean", "tide", "ocean"][value]),
    }
}

fn definition() -> Arc<Catalogue> {
    Arc::new(parse(DEFINITION).unwrap_or_else(|problems| panic!("{problems:?}")))
}

static DESK: LazyLock<Desk> = LazyLock::new(|| {
    let (catalogue, folder) = (definition(), support::folder("corrections"));
    Desk { stores: support::on_a_file(&folder, &catalogue, 1), catalogue, folder }
});

fn desk_on_a_server(name: &str) -> Option<Desk> {
    let catalogue = definition();
    Some(Desk { stores: support::on_a_server(name, &catalogue)?, catalogue, folder: support::folder(name) })
}

/// What is seen of the record at the end: golden values, conflicts and what is edited; without times.
type Shown = Option<(Json, Vec<String>, BTreeMap<String, Json>)>;

trait Corrected {
    fn deliver(&self, tenant: &Tenant, source: usize, at: usize) -> JobId;
    fn edit(&self, tenant: &Tenant, members: Json) -> EditResult;
    fn run(&self, tenant: &Tenant, action: EditAction) -> EditResult;
    fn shown(&self, tenant: &Tenant) -> Shown;
    fn play(&self, tenant: &Tenant, steps: &[Step]) -> Model;
    fn holds(&self, steps: &[Step]);
    fn comes_back_from_a_file(&self, tenant: &Tenant, documents: &[Step], shown: &Shown);
    fn exported_corrections(&self, tenant: &Tenant) -> String;
    fn import_corrections(&self, tenant: &Tenant, file: &str) -> CorrectionsReport;
}

/// What remains of a history.
#[derive(Debug, Default, Clone)]
struct Model {
    /// The times of each source's documents, by job.
    documents: [BTreeMap<usize, usize>; 2],
    /// The last edit of each field.
    edits: BTreeMap<usize, Step>,
}

impl Corrected for Desk {
    fn deliver(&self, tenant: &Tenant, source: usize, at: usize) -> JobId {
        let path = self.folder.join(format!("{}.json", self.stores[0].clock()));
        let job = support::job(&self.catalogue, &*self.stores[0], tenant, SOURCES[source], (&path, &format!("{}\n", document(source, at))), 10);
        self.drain(1);
        job
    }

    fn edit(&self, tenant: &Tenant, members: Json) -> EditResult {
        let members = members.as_object().expect("members").clone();
        self.run(tenant, EditAction::Patch(EditFields::from_members(members, Vec::new())))
    }

    fn run(&self, tenant: &Tenant, action: EditAction) -> EditResult {
        let edit = Edit {
            tenant: tenant.clone(),
            collection: CollectionId::from(0),
            key: Some(Key::new("k").expect("a key")),
            action,
            conditions: Preconditions::default(),
            caller: "somebody".into(),
            call: None,
        };
        let rules = Arc::new(SettleRules::new(&self.catalogue));
        edit::run(&rules, &*self.stores[0], &Evaluator::new(self.catalogue.tables.clone()), edit).expect("an edit")
    }

    fn shown(&self, tenant: &Tenant) -> Shown {
        let address = RecordAddress { tenant, collection: "thing", key: "k" };
        let found = record::get(&self.catalogue, &*self.stores[0], &address, false).expect("read")?;
        let explained = found.explain(&self.catalogue, &*self.stores[0], tenant).expect("explained");
        let names = |fields: &[stook_catalogue::ids::FieldId]| fields.iter().map(|field| found.collection.fields[*field].name.clone()).collect();
        let corrections = explained["fields"].as_object().expect("fields").iter().filter_map(|(name, field)| {
            let mut correction = field.get("correction")?.clone();
            assert!(correction.as_object_mut().expect("a correction").remove("at").is_some());
            Some((name.clone(), correction))
        });
        Some((found.to_json(), names(&found.stored.conflicts), corrections.collect()))
    }

    /// Plays a history; a record is there from its beginning, so that it can be edited.
    fn play(&self, tenant: &Tenant, steps: &[Step]) -> Model {
        let (mut model, mut jobs): (Model, Vec<(usize, JobId)>) = Default::default();
        if self.shown(tenant).is_none() {
            let created = self.run(tenant, EditAction::Put(EditFields::default()));
            assert!(matches!(created, EditResult::Done { .. }), "{created:?}");
        }
        for step in steps {
            match step {
                Step::Deliver { source, at } => {
                    model.documents[*source].insert(jobs.len(), *at);
                    jobs.push((*source, self.deliver(tenant, *source, *at)));
                }
                Step::Undo { job } => {
                    let Some((source, id)) = jobs.get(*job) else { continue };
                    if undo::start(&self.catalogue, &*self.stores[0], *id).is_ok() {
                        model.documents[*source].remove(job);
                    }
                    self.drain(1);
                }
                Step::Withdraw { source } => {
                    let request = WithdrawalRequest { tenant, contributor: SOURCES[*source], collection: None, key: None };
                    withdraw(&self.catalogue, &*self.stores[0], &request, &|_| ()).expect("a withdrawal");
                    model.documents[*source].clear();
                }
                Step::Correct { field, value, corrects } => {
                    let (name, member) = FIELDS[*field];
                    let mut members = json!({ REASON: "because" });
                    members[name] = edited_value(name, *value);
                    if let Some(corrects) = corrects {
                        members[CORRECTS] = json!({ name: corrected(member, corrects) });
                    }
                    let done = self.edit(tenant, members);
                    assert!(matches!(done, EditResult::Done { .. }), "{done:?}");
                    model.edits.insert(*field, step.clone());
                }
                Step::TakeBack { field } => {
                    let done = self.edit(tenant, json!({ FIELDS[*field].0: null }));
                    assert!(matches!(done, EditResult::Done { .. }), "{done:?}");
                    model.edits.remove(field);
                }
            }
        }
        model
    }

    fn holds(&self, steps: &[Step]) {
        let tenant = self.new_tenant();
        let model = self.followed(&tenant, || self.play(&tenant, steps));
        let shown = self.shown(&tenant);
        // the same documents and edits in other orders: edits first, edits last, and everything twice
        let documents: Vec<Step> =
            (0..2).flat_map(|source| model.documents[source].values().map(move |at| Step::Deliver { source, at: *at }).collect::<Vec<_>>()).collect();
        let edits: Vec<Step> = model.edits.values().cloned().collect();
        for order in [
            [edits.as_slice(), &documents].concat(),
            [documents.as_slice(), &edits].concat(),
            [documents.as_slice(), &edits, &documents, &edits].concat(),
        ] {
            let tenant = self.new_tenant();
            self.play(&tenant, &order);
            assert_eq!(self.shown(&tenant), shown, "{order:?}");
        }
        model.check(&shown);
        self.comes_back_from_a_file(&tenant, &documents, &shown);
    }

    /// A store with the same documents and the exported corrections is the same, and exports the same.
    fn comes_back_from_a_file(&self, tenant: &Tenant, documents: &[Step], shown: &Shown) {
        let (file, other) = (self.exported_corrections(tenant), self.new_tenant());
        for documents_come_first in [true, false] {
            let other = if documents_come_first { other.clone() } else { self.new_tenant() };
            if documents_come_first {
                self.play(&other, documents);
                self.import_corrections(&other, &file);
            } else {
                self.play(&other, &[]);
                self.import_corrections(&other, &file);
                self.play(&other, documents);
            }
            assert_eq!(&self.shown(&other), shown);
            assert_eq!(self.exported_corrections(&other), file);
            let again = self.import_corrections(&other, &file);
            assert_eq!((again.changed, again.failed), (0, 0));
        }
    }

    fn exported_corrections(&self, tenant: &Tenant) -> String {
        let mut out = Vec::new();
        let request = ExportRequest { tenant, collection: "thing", contents: ExportContents::Corrections, format: ExportFormat::Ndjson };
        export(&self.catalogue, &*self.stores[0], &request, &mut out, &mut |remark| panic!("{remark}")).expect("exported");
        String::from_utf8(out).expect("text")
    }

    fn import_corrections(&self, tenant: &Tenant, file: &str) -> CorrectionsReport {
        let rules = Arc::new(SettleRules::new(&self.catalogue));
        let target = CorrectionsTarget { tenant, collection: CollectionId::from(0), caller: "importer" };
        let imported = corrections::import(&rules, &*self.stores[0], &target, &mut file.as_bytes(), &mut |_, _| ()).expect("imported");
        assert_eq!((imported.failed, imported.changed + imported.unchanged), (0, file.lines().count() as u64));
        imported
    }
}

/// What the documents with these times say, as a request names it.
fn corrected(member: &str, corrects: &[Option<usize>; 2]) -> Json {
    let said = corrects.iter().enumerate().filter_map(|(source, at)| {
        let value = document(source, (*at)?)[member].clone();
        Some((SOURCES[source].to_owned(), value))
    });
    said.collect::<serde_json::Map<_, _>>().into()
}

impl Model {
    /// Compares what is seen with the documents and edits that remain.
    fn check(&self, shown: &Shown) {
        let (record, conflicts, corrections) = shown.as_ref().expect("the record that was created stays");
        let newest = |source: usize| self.documents[source].values().max().map(|at| document(source, *at));
        for (field, step) in &self.edits {
            let (name, member) = FIELDS[*field];
            let Step::Correct { value, corrects: Some(corrects), .. } = step else { continue };
            let (own, corrects) = (edited_value(name, *value), corrected(member, corrects));
            let agree = |one: &Json, other: &Json| match name {
                "text" => one.as_str().map(|text| text.trim().to_lowercase()) == other.as_str().map(|text| text.trim().to_lowercase()),
                "size" => one.as_i64().zip(other.as_i64()).is_some_and(|(one, other)| one.abs_diff(other) <= 1),
                _ => one == other,
            };
            let given: Vec<(usize, Json)> =
                (0..2).filter_map(|source| Some((source, newest(source)?[member].clone()))).filter(|(_, given)| *given != json!([])).collect();
            let holds = given
                .iter()
                .all(|(source, given)| agree(given, &own) || corrects.get(SOURCES[*source]).is_some_and(|corrected| agree(given, corrected)));
            assert_eq!(corrections[name]["holds"], holds, "{name}: {given:?} {corrects} {own}");
            assert_eq!(corrections[name]["reason"], "because");
            if holds {
                assert_eq!(record[name], if name == "each" { json!({ "api": own }) } else { own.clone() }, "{name}");
                assert!(!conflicts.contains(&name.to_owned()));
            } else {
                assert!(name == "each" || record[name] != own || given.iter().any(|(_, given)| *given == own) || name == "words", "{name} {record}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_correction_holds_until_something_new_is_said_in_every_order(steps in prop::collection::vec(step(), 1..10)) {
        DESK.holds(&steps);
    }
}

#[test]
fn a_correction_holds_until_something_new_is_said_in_every_order_on_a_server() {
    let Some(desk) = desk_on_a_server("corrections_law") else { return };
    for steps in support::drawn(prop::collection::vec(step(), 1..10), 12) {
        desk.holds(&steps);
    }
}

fn an_accepted_conflict_comes_back(desk: &Desk) {
    let tenant = desk.new_tenant();
    let field = |name: &str| {
        let address = RecordAddress { tenant: &tenant, collection: "thing", key: "k" };
        let found = record::get(&desk.catalogue, &*desk.stores[0], &address, false).expect("read").expect("a record");
        found.explain(&desk.catalogue, &*desk.stores[0], &tenant).expect("explained")["fields"][name].clone()
    };
    desk.deliver(&tenant, 0, 0);
    desk.deliver(&tenant, 1, 1);
    assert_eq!((&field("text")["conflict"], &field("text")["value"]), (&json!(true), &json!("Wave")));
    // ours is kept, although documents of sources are newer in the rule of the field
    let ours =
        json!({ "text": "Ocean", "first": "Ocean", CORRECTS: { "text": { "one": "Sea", "two": "Wave" }, "first": { "one": "Sea", "two": "Wave" } } });
    let EditResult::Done { overruled, failures, .. } = desk.edit(&tenant, ours) else { panic!("refused") };
    assert_eq!((overruled, failures), (vec![], vec![]));
    let text = field("text");
    assert_eq!((&text["value"], &text["conflict"], &text["correction"]["holds"]), (&json!("Ocean"), &Json::Null, &json!(true)));
    assert_eq!((&field("first")["value"], &field("first")["from"]), (&json!("Ocean"), &json!(["api"])));
    // one repeats in other letters what it said, which is nothing new for `text`, but is for `first`
    desk.deliver(&tenant, 0, 1);
    assert_eq!(field("text")["value"], "Ocean");
    assert_eq!((&field("first")["value"], &field("first")["correction"]["contradicted_by"]), (&json!("sea"), &json!("one")));
    // one says something new
    desk.deliver(&tenant, 0, 3);
    let text = field("text");
    assert_eq!((&text["value"], &text["conflict"], &text["correction"]["holds"]), (&json!("Coast"), &json!(true), &json!(false)));
    // an edit that corrects what is not said any more is stored and says why it has no effect
    let EditResult::Done { overruled, .. } = desk.edit(&tenant, json!({ "text": "Ocean", CORRECTS: { "text": { "one": "Sea", "two": "Wave" } } }))
    else {
        panic!("refused")
    };
    assert_eq!(overruled[0].reason, "one gives a value that the edit does not correct");
    // taken back, nothing of it is left
    desk.edit(&tenant, json!({ "text": null }));
    assert_eq!((&field("text")["value"], &field("text")["correction"]), (&json!("Coast"), &Json::Null));
}

#[test]
fn an_accepted_conflict_is_none_until_a_source_says_something_new() {
    an_accepted_conflict_comes_back(&DESK);
    if let Some(desk) = desk_on_a_server("accepted_conflict") {
        an_accepted_conflict_comes_back(&desk);
    }
}

#[test]
fn wrong_corrections_are_refused_with_their_places() {
    let tenant = DESK.new_tenant();
    DESK.run(&tenant, EditAction::Put(EditFields::default()));
    let refusal = |members: Json| match DESK.edit(&tenant, members.clone()) {
        EditResult::Invalid(reasons) => reasons.join("; "),
        other => panic!("{members} is not refused: {other:?}"),
    };
    for (members, reason) in [
        (json!({ "text": "x", CORRECTS: [] }), "$corrects: it is an object"),
        (json!({ "text": "x", CORRECTS: { "txt": {} } }), "there is no field `txt` that can be edited; did you mean `text`?"),
        (json!({ "text": "x", CORRECTS: { "doubled": {} } }), "there is no field `doubled` that can be edited"),
        (json!({ "text": "x", CORRECTS: { "size": {} } }), "the edit gives `size` no value, so it corrects none"),
        (json!({ "text": null, CORRECTS: { "text": {} } }), "the edit gives `text` no value, so it corrects none"),
        (json!({ "text": "x", CORRECTS: { "text": 3 } }), "$corrects.text: it is an object"),
        (json!({ "text": "x", CORRECTS: { "text": { "one": 3 } } }), "$corrects.text.one:"),
        (json!({ "text": "x", CORRECTS: { "text": { "api": "y" } } }), "`api` is the edit itself"),
        (json!({ "text": "x", REASON: 3 }), "$reason: it is a text"),
        (json!({ "text": "x", REASON: "a\u{0}b" }), "$reason: it has a NUL character"),
        (json!({ "text": "x", REASON: "x".repeat(1_001) }), "$reason: it has more than 1000 characters"),
    ] {
        let shown = refusal(members);
        assert!(shown.contains(reason), "{reason}: {shown}");
    }
    let EditResult::Done { failures, .. } = DESK.edit(&tenant, json!({ "text": "x", CORRECTS: { "text": { "on": "y" } } })) else {
        panic!("refused")
    };
    assert_eq!(failures, ["$corrects: there is no source `on`; did you mean `one`?"]);
}

#[test]
fn lines_that_are_no_corrections_fail_with_their_reasons() {
    let tenant = DESK.new_tenant();
    DESK.run(&tenant, EditAction::Put(EditFields::default()));
    let file = r#"{"key":"k","field":"text","value":"Sea","corrects":{"one":"Lake"},"by":"ann","at":"2026-05-24T10:00:00Z"}

{"key":"k","field":"text"
[]
{"key":"k","field":"txt","value":"x"}
{"key":"none","field":"text","value":"x"}
{"key":"k","field":"size","value":"many"}
{"key":"k","field":"text","value":"x","at":"yesterday"}
{"key":"k","field":"text","value":"x","correct":{}}
{"key":"k","field":"text"}
{"key":"k","field":"size","value":null}
"#;
    let rules = Arc::new(SettleRules::new(&DESK.catalogue));
    let target = CorrectionsTarget { tenant: &tenant, collection: CollectionId::from(0), caller: "importer" };
    let mut notes = Vec::new();
    let report =
        corrections::import(&rules, &*DESK.stores[0], &target, &mut file.as_bytes(), &mut |line, reason| notes.push(format!("{line}: {reason}")));
    assert_eq!(report.expect("imported"), CorrectionsReport { changed: 2, unchanged: 0, failed: 8 });
    for (note, expected) in notes.iter().zip([
        "3: it is not JSON",
        "4: a line is an object",
        "5: there is no field `txt`; did you mean `text`?",
        "6: there is no such thing; import its documents first",
        "7: size:",
        "8: `at` is a time such as",
        "9: there is no member `correct`; did you mean `corrects`?",
        "10: `value` is missing",
    ]) {
        assert!(note.starts_with(expected), "{expected}: {note}");
    }
    assert_eq!(notes.len(), 8);
    let (_, _, corrections) = DESK.shown(&tenant).expect("a record");
    assert_eq!((&corrections["text"]["by"], &corrections["size"]["by"]), (&json!("ann"), &json!("importer")));
}
