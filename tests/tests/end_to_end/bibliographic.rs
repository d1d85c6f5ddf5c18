//! A library's catalogue of bibliographic MARC records, with the authorities of their headings, in two deliveries.

use serde_json::{Value as Json, json};
use stook_tests::Sandbox;

const CATALOGUE: &str = include_str!("../../../examples/bibliographic/catalogue.yaml");
const COLLECTIONS: [&str; 6] = ["instance", "holding", "item", "name_use", "subject_use", "authority"];
const FIRST: [&str; 3] = ["authorities-1.mrc", "bibs-1.mrc", "bibs-1.xml"];
const SECOND: [&str; 2] = ["bibs-2.mrc", "authorities-2.mrc"];

/// Writes a sample into a sandbox; gives its folder and what is right of it.
fn sample(sandbox: &Sandbox, records: u64) -> (String, Json) {
    let folder = sandbox.path("library").display().to_string();
    sandbox.ok(&["sample", "bibliographic", "--records", &records.to_string(), "--seed", "5", "-o", &folder]);
    let truth = std::fs::read(format!("{folder}/truth.json")).unwrap();
    (folder, serde_json::from_slice(&truth).unwrap())
}

/// Counts what `truth.json` counts.
fn counted(sandbox: &Sandbox) -> Json {
    let of = |collection: &str| sandbox.records(collection);
    let outdated = |records: &[Json]| records.iter().filter(|record| record["outdated"] == true).count();
    let (instances, names, subjects) = (of("instance"), of("name_use"), of("subject_use"));
    json!({
        "instances": instances.len(),
        "holdings": of("holding").len(),
        "items": of("item").len(),
        "name_uses": names.len(),
        "subject_uses": subjects.len(),
        "outdated_name_uses": outdated(&names),
        "outdated_subject_uses": outdated(&subjects),
        "titles_in_own_script": instances.iter().filter(|instance| !instance["title_script"].is_null()).count(),
        "authorities": of("authority").len(),
    })
}

fn import(sandbox: &Sandbox, folder: &str, files: &[&str]) -> Vec<Json> {
    // each file goes to the source whose it is
    files.iter().map(|file| sandbox.import(&[&format!("{folder}/{file}")])).collect()
}

#[test]
fn both_deliveries_give_what_is_right_in_either_order() {
    for sandbox in Sandbox::on_each_store(CATALOGUE) {
        let (folder, truth) = sample(&sandbox, 300);
        let jobs = import(&sandbox, &folder, &FIRST);
        assert_eq!(counted(&sandbox), truth["after_delivery_1"]);
        assert_eq!((&jobs[1]["counts"]["failed"], &jobs[2]["counts"]["failed"]), (&truth["failed"], &json!(0)));
        let is_warned = |entry: &&Json| entry["outcome"] != "failed" && entry["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty());
        let warned = sandbox.troubles(2).iter().filter(is_warned).count();
        assert_eq!(json!(warned), truth["repaired"]);
        let jobs = import(&sandbox, &folder, &SECOND);
        assert_eq!(counted(&sandbox), truth["after_delivery_2"]);
        assert!(jobs[0]["replaced"]["retired"].as_u64().unwrap() > 0, "{}", jobs[0]);

        let reversed = Sandbox::new(CATALOGUE);
        import(&reversed, &folder, &SECOND);
        import(&reversed, &folder, &FIRST);
        assert_eq!(counted(&reversed), truth["after_delivery_2"]);
        for collection in COLLECTIONS {
            assert_eq!(reversed.records(collection), sandbox.records(collection), "{collection}");
        }
    }
}

/// A data field: tag, indicators, and subfields with their codes.
type DataField<'f> = (&'f str, &'f str, &'f [(&'f str, &'f str)]);

/// A record in MARCXML.
fn marcxml(leader: &str, controls: &[(&str, &str)], fields: &[DataField<'_>]) -> String {
    let controls: String = controls.iter().map(|(tag, text)| format!("<controlfield tag=\"{tag}\">{text}</controlfield>")).collect();
    let fields: String = fields
        .iter()
        .map(|(tag, indicators, subfields)| {
            let own: String = subfields.iter().map(|(code, text)| format!("<subfield code=\"{code}\">{text}</subfield>")).collect();
            format!("<datafield tag=\"{tag}\" ind1=\"{}\" ind2=\"{}\">{own}</datafield>", &indicators[..1], &indicators[1..])
        })
        .collect();
    format!("<record xmlns=\"http://www.loc.gov/MARC21/slim\"><leader>{leader}</leader>{controls}{fields}</record>")
}

const BIB: &str = "00000cam a2200000 i 4500";
const AUTHORITY: &str = "00000nz  a2200000n  4500";

fn bib(sandbox: &Sandbox, name: &str, id: &str, time: &str, fields: &[DataField<'_>]) {
    let file = sandbox.write_file(name, marcxml(BIB, &[("001", id), ("005", time)], fields));
    sandbox.import(&[&file]);
}

fn authority(sandbox: &Sandbox, name: &str, id: &str, time: &str, fields: &[DataField<'_>]) {
    let file = sandbox.write_file(name, marcxml(AUTHORITY, &[("001", id), ("005", time)], fields));
    sandbox.import(&[&file]);
}

#[test]
fn a_changed_heading_finds_the_records_that_carry_it() {
    let sandbox = Sandbox::new(CATALOGUE);
    let title: (&str, &str, &[(&str, &str)]) = ("245", "10", &[("a", "A book /")]);
    // by number, by its text, and as a subject; the records come before the authority
    bib(&sandbox, "1.xml", "b1", "20240101000000.0", &[title, ("100", "1 ", &[("a", "Kovac, Ana,"), ("d", "1930-"), ("0", "(DLC)n 50000001")])]);
    bib(&sandbox, "2.xml", "b2", "20240101000000.0", &[title, ("700", "1 ", &[("a", "KOVAC, ANA,"), ("d", "1930-,"), ("e", "editor.")])]);
    bib(&sandbox, "3.xml", "b3", "20240101000000.0", &[title, ("600", "10", &[("a", "Kovac, Ana,"), ("d", "1930-"), ("x", "Letters.")])]);
    authority(&sandbox, "4.xml", "n50000001", "20240101000000.0", &[("100", "1 ", &[("a", "Kovac, Ana,"), ("d", "1930-")])]);
    let uses = |query: &str| sandbox.ok(&["query", query, "--format", "csv"]);
    assert_eq!(uses("name_use authority=n50000001 outdated=false | grep bib | sort bib"), "bib\nb1\n");
    // b2 has it in capital letters: found, and to be corrected
    assert_eq!(
        uses("name_use outdated=true | grep bib, heading, current, as"),
        "bib,heading,current,as\nb2,\"KOVAC, ANA, 1930-\",\"Kovac, Ana, 1930-\",editor\n"
    );
    let record = sandbox.get("authority", "n50000001");
    assert_eq!((&record["as_name"], &record["as_subject"]), (&json!(2), &json!(1)));

    let changed: &[DataField<'_>] =
        &[("100", "1 ", &[("a", "Kovač, Ana,"), ("d", "1930-2021")]), ("400", "1 ", &[("w", "nne"), ("a", "Kovac, Ana,"), ("d", "1930-")])];
    authority(&sandbox, "5.xml", "n50000001", "20240601000000.0", changed);
    assert_eq!(
        uses("name_use outdated=true | grep bib, current | sort bib"),
        "bib,current\nb1,\"Kovač, Ana, 1930-2021\"\nb2,\"Kovač, Ana, 1930-2021\"\n"
    );
    assert_eq!(uses("subject_use outdated=true | grep bib, subdivisions"), "bib,subdivisions\nb3,Letters\n");
    let record = sandbox.get("authority", "n50000001");
    assert_eq!((&record["as_name"], &record["as_subject"]), (&json!(2), &json!(1)), "its earlier heading is a reference, so all are still found");

    // corrected, and then deleted
    bib(&sandbox, "6.xml", "b1", "20240701000000.0", &[title, ("100", "1 ", &[("a", "Kovač, Ana,"), ("d", "1930-2021.")])]);
    assert_eq!(uses("name_use outdated=true | grep bib"), "bib\nb2\n");
    let gone = sandbox.write_file("7.xml", marcxml(&BIB.replace("0c", "0d"), &[("001", "b2"), ("005", "20240801000000.0")], &[title]));
    sandbox.import(&[&gone]);
    assert_eq!(uses("name_use | grep bib"), "bib\nb1\n");
    assert_eq!(sandbox.get("authority", "n50000001")["as_name"], 1);
    sandbox.assert_sound();
}

#[test]
fn holdings_items_and_scripts_are_taken_from_their_fields() {
    let sandbox = Sandbox::new(CATALOGUE);
    let fields: &[DataField<'_>] = &[
        ("020", "  ", &[("a", "0-306-40615-2 (pbk.)"), ("z", "123")]),
        ("245", "10", &[("6", "880-02"), ("a", "Istoriia goroda :"), ("b", "ocherk /"), ("c", "A. Petrov.")]),
        ("852", "0 ", &[("b", "STACKS"), ("h", "QA1"), ("i", ".P4"), ("8", "1")]),
        ("852", "0 ", &[("b", "ANNEX"), ("h", "QA1"), ("p", "303")]),
        ("852", "0 ", &[("h", "LOST")]),
        ("876", "  ", &[("p", "101"), ("8", "1.1\\p"), ("j", "available")]),
        ("876", "  ", &[("p", "303")]),
        ("880", "10", &[("6", "100-01/(N"), ("a", "Петров, А.")]),
        ("880", "10", &[("6", "245-02/(N"), ("a", "История города :"), ("b", "очерк /")]),
        ("945", "  ", &[("i", "202 "), ("l", "ANNEX")]),
        ("945", "  ", &[("a", "STANDING ORDER")]),
    ];
    bib(&sandbox, "1.xml", "b1", "20240101000000.0", fields);
    let record = sandbox.get("instance", "b1");
    assert_eq!((&record["title"], &record["title_script"]), (&json!("Istoriia goroda : ocherk"), &json!("История города : очерк")));
    assert_eq!((&record["isbn"], &record["holdings"], &record["items"]), (&json!(["9780306406157"]), &json!(3), &json!(3)));
    assert_eq!(record["scripts"][0], json!({ "tag": "100", "occurrence": "01", "text": "Петров, А." }));
    let items = sandbox.ok(&["query", "item | grep barcode, holding, call_number, title | sort barcode", "--format", "csv"]);
    let expected = "barcode,holding,call_number,title\n101,b1/STACKS/QA1 .P4,QA1 .P4,Istoriia goroda : ocherk\n\
                    202,b1/ANNEX/QA1,QA1,Istoriia goroda : ocherk\n303,b1/ANNEX/QA1,QA1,Istoriia goroda : ocherk\n";
    assert_eq!(items, expected);

    // a holdings record of its own; then the newer record says less
    let separate = marcxml(
        "00000nx  a22000003n 4500",
        &[("001", "h7"), ("004", "b1"), ("005", "20240102000000.0")],
        &[("852", "0 ", &[("b", "LAW"), ("h", "K3")])],
    );
    let file = sandbox.write_file("2.xml", separate);
    sandbox.import(&[&file]);
    assert_eq!(sandbox.get("holding", "b1/h7")["title"], "Istoriia goroda : ocherk");
    bib(&sandbox, "3.xml", "b1", "20240201000000.0", &fields[1..4]);
    assert_eq!(sandbox.ok(&["query", "item | grep barcode", "--format", "csv"]), "barcode\n");
    assert_eq!(sandbox.ok(&["query", "holding | grep location | sort location", "--format", "csv"]), "location\nANNEX\nLAW\nSTACKS\n");
    sandbox.assert_sound();
}
