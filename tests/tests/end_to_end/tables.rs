//! Tables and elements from end to end: CSV as it really comes, sheets of spreadsheets, and documents that several records are made of.

use rust_xlsxwriter::Workbook;
use serde_json::{Value as Json, json};
use stook_tests::http::{Served, url_encoded};
use stook_tests::{Sandbox, counts};

/// A catalogue of airports from tables that are read with these options.
fn airports(options: &str) -> Sandbox {
    Sandbox::new(&format!(
        "catalogue: c\nsources:\n  list: {{ format: csv, {options} as_of: meta.received, into: airport }}\ncollections:\n  airport:\n    key: id\n    fields:\n      \
         id: {{ type: text, path: id }}\n      name: {{ type: text, path: name }}\n      iata: {{ type: text, path: iata }}\n      \
         opened: {{ type: date, path: opened, format: ['%Y-%m-%d', '%d.%m.%Y'] }}\n"
    ))
}

fn reasons(sandbox: &Sandbox, job: u64) -> Vec<String> {
    let reasons = |line: Json| line["reasons"].as_array().cloned().unwrap_or_default();
    sandbox.journal(job).into_iter().flat_map(reasons).map(|reason| reason.as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_table_without_a_header_has_the_columns_of_the_definition() {
    let sandbox = airports("header: [id, name, iata, opened], null: '\\N',");
    let file = sandbox.write_file("list.csv", "1,\"Goroka\",GKA,2001-02-03\n2,Strip,\\N,31.12.1999\n3,Field,\\N,yesterday\n");
    let job = sandbox.import(&[&file]);
    assert_eq!(counts(&job), "created 3, warnings 1");
    let records = sandbox.records("airport");
    let shown: Vec<Json> = records.iter().map(|record| json!([record["name"], record["iata"], record["opened"]])).collect();
    assert_eq!(shown, [json!(["Goroka", "GKA", "2001-02-03"]), json!(["Strip", null, "1999-12-31"]), json!(["Field", null, null])]);
    assert!(reasons(&sandbox, 1)[0].contains("nor in the format %d.%m.%Y"), "{:?}", reasons(&sandbox, 1));
}

#[test]
fn columns_that_are_missing_and_columns_of_one_name_are_reported_once_for_a_file() {
    let sandbox = airports("");
    let rows: String = (1..2_500).map(|id| format!("{id},a,b\n")).collect();
    let file = sandbox.write_file("list.csv", format!("id,name,name\n{rows}"));
    sandbox.import(&[&file]);
    let expected = [
        "the header has no column `iata`, `opened`; it has `id`, `name`, `name`",
        "columns 2, 3 of the header are all called `name`; column 2 is read",
    ];
    assert_eq!(reasons(&sandbox, 1), expected);
}

#[test]
fn the_sheet_of_a_spreadsheet_that_the_definition_names_is_read() {
    let mut workbook = Workbook::new();
    workbook.add_worksheet().set_name("Notes").unwrap().write(0, 0, "made by hand").unwrap();
    let sheet = workbook.add_worksheet().set_name("Airports").unwrap();
    for (row, values) in
        [["List of airports", "", ""], ["id", "name", "iata"], ["1", "Zürich, \"Kloten\"", "ZRH"], ["2", "two\nlines", ""]].iter().enumerate()
    {
        for (column, value) in values.iter().enumerate() {
            sheet.write(row as u32, column as u16, *value).unwrap();
        }
    }
    let bytes = workbook.save_to_buffer().unwrap();
    let sandbox = airports("sheet: Airports, skip: 1, encoding: cp1252,");
    let file = sandbox.write_file("list.xlsx", &bytes);
    assert_eq!(counts(&sandbox.import(&[&file])), "created 2, warnings 1");
    let names: Vec<Json> = sandbox.records("airport").iter().map(|record| record["name"].clone()).collect();
    assert_eq!(names, [json!("Zürich, \"Kloten\""), json!("two\nlines")]);
    let other = airports("sheet: Airport,");
    let file = other.write_file("list.xlsx", &bytes);
    other.run(&["import", &file]).exits(1).stderr_contains(&["no sheet `Airport`; the spreadsheet has Notes, Airports"]);
}

#[test]
fn sheets_of_one_form_of_file_are_told_apart_by_what_they_have() {
    let definition = "catalogue: c\nsources:\n  people: { format: csv, sheet: People, has: id, as_of: meta.received, into: person }\n  \
        places: { format: csv, sheet: Places, has: id, as_of: meta.received, into: place }\ncollections:\n  \
        person: { key: id, fields: { id: text } }\n  place: { key: id, fields: { id: text } }\n";
    let sandbox = Sandbox::new(definition);
    for (name, id) in [("People", "a"), ("Places", "b")] {
        let mut workbook = Workbook::new();
        let sheet = workbook.add_worksheet().set_name(name).unwrap();
        sheet.write(0, 0, "id").unwrap().write(1, 0, id).unwrap();
        let file = sandbox.write_file(&format!("{id}.xlsx"), workbook.save_to_buffer().unwrap());
        assert_eq!(counts(&sandbox.import(&[&file])), "created 1");
    }
    assert_eq!((sandbox.records("person").len(), sandbox.records("place").len()), (1, 1));
}

#[test]
fn a_newer_record_of_a_library_takes_back_its_items() {
    let definition = "catalogue: library\nsources:\n  bibs:\n    format: marc\n    let: { id: '001' }\n    as_of: [made, meta.received]\n    feeds:\n      \
        - { into: bib, map: { id: { expr: id }, names: { path: '7..', map: { name: $a, kind: '^1', tag: tag } } } }\n      \
        - { into: item, each: 945, map: { barcode: $i, shelf: $l, bib: { expr: id } } }\ncollections:\n  \
        bib: { key: id, fields: { id: text, names: { type: [{ name: text, kind: text, tag: text }] }, items: { type: integer, rollup: { over: item.of, count: true } } } }\n  \
        item: { key: barcode, fields: { barcode: text, shelf: text, bib: text }, links: { of: { to: bib, key: '{bib}' } } }\n"
        .replace("let: { id", "let: { made: { path: '005', type: timestamp, format: '%Y%m%d%H%M%S.0' }, id");
    let line_mode = |made: &str, items: &[&str]| {
        let items: String = items.iter().map(|item| format!("=945  \\\\$i{item}$lmain\n")).collect();
        format!("=LDR  00000nam a2200000 a 4500\n=001  b1\n=005  {made}\n=700  1\\$aAbel, A.\n=710  0\\$aBede\n{items}\n")
    };
    let (first, second) = (line_mode("20240101000000.0", &["i1", "i2"]), line_mode("20240201000000.0", &["i2", "i3"]));
    for sandbox in Sandbox::on_each_store(&definition) {
        for (order, retired) in [(["first", "second"], 1), (["second", "first"], 0)] {
            sandbox.write_file("first.mrk", &first);
            sandbox.write_file("second.mrk", &second);
            for (number, name) in order.iter().enumerate() {
                let job = sandbox.import(&[sandbox.path(&format!("{name}.mrk")).to_str().unwrap()]);
                if number == 1 {
                    assert_eq!(job["replaced"]["retired"], retired, "{job}");
                }
            }
            let items: Vec<Json> = sandbox.records("item").iter().map(|record| record["barcode"].clone()).collect();
            assert_eq!(items, [json!("i2"), json!("i3")]);
            let bib = &sandbox.records("bib")[0];
            assert_eq!(
                (&bib["items"], &bib["names"]),
                (&json!(2), &json!([{ "name": "Abel, A.", "kind": "1", "tag": "700" }, { "name": "Bede", "kind": "0", "tag": "710" }]))
            );
            sandbox.ok(&["withdraw", "bibs"]);
        }
        sandbox.assert_sound();
    }
}

#[test]
fn an_exported_spreadsheet_can_be_imported_again() {
    let definition = "catalogue: c\nsources:\n  list: { format: csv, as_of: meta.received, into: thing }\ncollections:\n  thing:\n    key: id\n    fields:\n      \
        id: text\n      text: text\n      number: integer\n      share: float\n      day: date\n      seen: timestamp\n      is_new: boolean\n";
    let row = |id: &str, text: &str| format!("{id},{text},12345678901234567,0.1,1850-01-01,2026-01-02T03:04:05.678901Z,true\n");
    let header = "id,text,number,share,day,seen,is_new\n";
    for sandbox in Sandbox::on_each_store(definition) {
        let rows = [header, &row("007", "=SUM(A1)"), &row("1E5", "\"two\nlines\""), "8,,-5,-1e300,2026-11-27,2026-01-02T00:00:00Z,false\n"].concat();
        assert_eq!(counts(&sandbox.import(&[&sandbox.write_file("rows.csv", rows)])), "created 3");
        let stook = Served::new(&sandbox, &[]);
        let over_http = |path: &str| {
            let reply = stook.get(path);
            assert_eq!((reply.status, reply.header("content-type").is_some_and(|media| media.contains("spreadsheetml"))), (200, true), "{path}");
            reply.body
        };
        let files = [
            sandbox.export("thing", "xlsx"),
            sandbox.run(&["query", "thing", "--format", "xlsx", "--limit", "0"]).exits(0).out,
            over_http("/v1/main/export/thing?format=xlsx"),
            over_http(&format!("/v1/main/export?format=xlsx&q={}", url_encoded("thing | grep id, text, number, share, day, seen, is_new"))),
        ];
        for bytes in files {
            assert_eq!(counts(&sandbox.import(&[&sandbox.write_file("again.xlsx", bytes)])), "unchanged 3");
        }
        // one text that fits no cell
        let long = sandbox.write_file("long.csv", [header, &row("9", &"x".repeat(40_000))].concat());
        sandbox.import(&[&long]);
        let file = sandbox.path("cut.xlsx");
        let exported = sandbox.run(&["export", "thing", "--format", "xlsx", "-o", file.to_str().unwrap()]).exits(2);
        exported.stderr_contains(&["changed: 9: `text` is cut after 32767 characters"]);
        sandbox.run(&["query", "thing", "--format", "xlsx", "--limit", "0"]).exits(2).stderr_contains(&["`text` is cut"]);
        for path in ["/v1/main/export/thing?format=xlsx", "/v1/main/export?format=xlsx&q=thing"] {
            assert_eq!(stook.get(path).status, 409, "{path}");
        }
        assert_eq!(stook.get("/v1/main/export/thing?format=xlsx&lossy=true").status, 200);
    }
}

#[test]
fn csv_for_spreadsheets_begins_with_a_byte_order_mark_and_can_be_imported_again() {
    let definition = "catalogue: c\nsources:\n  list: { format: csv, as_of: meta.received, into: thing }\ncollections:\n  thing:\n    key: id\n    fields:\n      \
        id: text\n      text: text\n";
    for sandbox in Sandbox::on_each_store(definition) {
        sandbox.import(&[&sandbox.write_file("rows.csv", "id,text\n1,Žofie\n2,=SUM(A1)\n")]);
        let stook = Served::new(&sandbox, &[]);
        let query = url_encoded("thing | grep id, text");
        for (with_mark, plain) in [
            (sandbox.ok(&["export", "thing", "--format", "csv-bom"]), sandbox.ok(&["export", "thing", "--format", "csv"])),
            (
                sandbox.ok(&["query", "thing | grep id, text", "--format", "csv-bom"]),
                sandbox.ok(&["query", "thing | grep id, text", "--format", "csv"]),
            ),
            (sandbox.ok(&["query", "thing | count(id)", "--format", "csv-bom"]), sandbox.ok(&["query", "thing | count(id)", "--format", "csv"])),
            (stook.get("/v1/main/export/thing?format=csv-bom").text(), stook.get("/v1/main/export/thing?format=csv").text()),
            (
                stook.get(&format!("/v1/main/export?format=csv-bom&q={query}")).text(),
                stook.get(&format!("/v1/main/export?format=csv&q={query}")).text(),
            ),
        ] {
            assert_eq!(with_mark, format!("\u{feff}{plain}"));
            if plain.contains("Žofie") {
                // texts are written as they are
                assert!(plain.contains("2,=SUM(A1)"), "{plain}");
                assert_eq!(counts(&sandbox.import(&[&sandbox.write_file("again.csv", with_mark)])), "unchanged 2");
            }
        }
    }
}

/// What a bulk explanation says of a record, and what `get --explain` says of it: values by field and contributor, and whether they were chosen.
fn said(sandbox: &Sandbox, key: &str, statements: &[Json]) -> [Vec<(String, String, bool)>; 2] {
    let text = |value: &Json| value.as_str().unwrap().to_owned();
    let of_key = statements.iter().filter(|row| row["key"] == key);
    let mut in_bulk: Vec<_> = of_key.map(|row| (text(&row["field"]), text(&row["contributor"]), row["chosen"] == true)).collect();
    let explained = sandbox.json(&["get", "airport", key, "--explain", "--format", "json"]);
    let mut alone = Vec::new();
    for (field, entry) in explained["fields"].as_object().unwrap() {
        let won = entry["from"].as_array().into_iter().flatten().map(|contributor| (field.clone(), text(contributor), true));
        let lost = entry["lost"].as_array().into_iter().flatten().map(|lost| (field.clone(), text(&lost["contributor"]), false));
        alone.extend(won.chain(lost));
    }
    in_bulk.sort();
    alone.sort();
    [in_bulk, alone]
}

#[test]
fn who_says_what_is_exported_as_a_table() {
    let definition = "catalogue: c\nsources:\n  list: { format: csv, as_of: meta.received, into: airport }\n  other: { format: csv, as_of: meta.received, into: airport }\n\
                      collections:\n  airport:\n    key: id\n    fields:\n      id: text\n      name: { type: text, compare: true }\n      runways: integer\n      \
                      codes: { type: [text], survivorship: union }\n      label: { type: text, derive: \"id + ' ' + name\" }\n";
    for sandbox in Sandbox::on_each_store(definition) {
        let list = sandbox.write_file("list.csv", "id,name,runways,codes\n1,Goroka,1,GKA\n2,\"a, \"\"b\"\"\",x,\n");
        let other = sandbox.write_file("other.csv", "id,name,codes\n1,Goroka Airport,AYGA\n3,Field,F\n");
        sandbox.import(&[&list, "--source", "list", "--as-of", "2026-01-01T00:00:00Z"]);
        sandbox.import(&[&other, "--source", "other", "--as-of", "2026-01-02T00:00:00Z"]);
        let statements = sandbox.run(&["export", "airport", "--explain", "--format", "ndjson"]).exits(0).lines();
        for key in ["1", "2", "3"] {
            let [in_bulk, alone] = said(&sandbox, key, &statements);
            assert_eq!(in_bulk, alone);
            assert!(!in_bulk.is_empty());
        }
        let overruled = json!({ "key": "1", "field": "name", "contributor": "list", "value": "Goroka", "chosen": false, "as_of": "2026-01-01T00:00:00Z", "job": 1, "document": 1 });
        assert!(statements.contains(&overruled), "{statements:?}");
        let rows = sandbox.ok(&["export", "airport", "--explain", "--format", "csv"]);
        assert_eq!(rows.lines().count(), statements.len() + 1);
        assert!(rows.contains("2,name,list,\"a, \"\"b\"\"\",true,2026-01-01T00:00:00Z,1,2"), "{rows}");
        for format in ["xlsx", "parquet", "arrow"] {
            let file = sandbox.path(format).display().to_string();
            let answer = sandbox.run(&["export", "airport", "--explain", "--format", format, "-o", &file]);
            if !answer.err.contains("was built without") {
                answer.exits(0);
            }
        }
        sandbox.run(&["export", "airport", "--explain", "--format", "marc"]).exits(1).stderr_contains(&["who says what"]);
        let served = Served::new(&sandbox, &[]);
        let lines = served.get("/v1/main/export/airport?explain=true").text();
        assert_eq!(lines.lines().count(), statements.len());
    }
}

#[test]
fn a_row_that_cannot_be_read_is_counted_by_profiles_as_by_imports() {
    let sandbox = airports("");
    for broken in 0..6 {
        let row = |id: usize| if id == broken { format!("{id},\"Field {id},I{id},\n") } else { format!("{id},Field {id},I{id},2001-02-03\n") };
        let file =
            sandbox.write_file(&format!("list{broken}.csv"), (0..6).map(row).fold("id,name,iata,opened\n".to_owned(), |text, row| text + &row));
        let profile = sandbox.run(&["profile", &file, "--json"]).exits(2).json();
        let job = sandbox.run(&["import", "--json", "--source", "list", &file]).exits(2).json();
        assert_eq!((&profile["documents"], &profile["unreadable"]), (&json!(5), &json!(1)), "row {broken}: {profile}");
        assert!(profile["first_unreadable"].as_str().unwrap().contains("never closed"), "{profile}");
        assert!(counts(&job).contains("failed 1"), "{}", counts(&job));
    }
}
