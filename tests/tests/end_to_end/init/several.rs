//! Several files: sources of one collection, links, deliveries of one source, and what is refused.

use super::folder;
use serde_json::{Value as Json, json};
use stook_tests::{Sandbox, counts};

fn init(sandbox: &Sandbox, files: &[(&str, &str)]) -> Json {
    let paths: Vec<String> = files.iter().map(|(name, text)| sandbox.write_file(name, text)).collect();
    let arguments: Vec<&str> = ["init", "--json", "--from"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let found = sandbox.json(&arguments);
    sandbox.ok(&["check"]);
    found
}

fn import(sandbox: &Sandbox, files: &[&str]) {
    let arguments: Vec<String> = files.iter().map(|file| sandbox.path(file).display().to_string()).collect();
    let arguments: Vec<&str> = ["import"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    sandbox.run(&arguments).exits(0);
}

#[test]
fn files_about_the_same_things_are_sources_of_one_collection() {
    let sandbox = folder();
    let library = "isbn,title,pages\n978-1,The Sea,320\n978-2,Tides,210\n978-3,Bread at Home,96\n";
    let shop = r#"[{"ISBN": "978-1", "price": 24.5}, {"ISBN": "978-3", "price": 12.0}, {"ISBN": "978-4", "price": 9.0}]"#;
    let found = init(&sandbox, &[("books.csv", library), ("shop.json", shop)]);
    assert_eq!(found["collections"].as_array().unwrap().len(), 1);
    assert_eq!(found["collections"][0]["key"], "isbn");
    import(&sandbox, &["books.csv", "shop.json"]);
    assert_eq!(sandbox.get("book", "978-1")["price"], json!(24.5));
    assert_eq!(sandbox.records("book").len(), 4);
}

#[test]
fn columns_of_other_names_are_matched_by_their_values_and_rows_without_them_are_kept() {
    let sandbox = folder();
    let code = |number: usize| {
        format!("{}{}{}", char::from(b'A' + (number / 26 % 26) as u8), char::from(b'A' + (number % 26) as u8), char::from(b'K' + (number % 7) as u8))
    };
    let open: String =
        (1..=80).map(|number| format!("{number},Airfield {number},{}\n", if number % 8 == 0 { "\\N".to_owned() } else { code(number) })).collect();
    let other: String = (1..=90).filter(|number| number % 8 != 0).map(|number| format!("{};{}\n", code(number), number * 3)).collect();
    let found = init(&sandbox, &[("airports.csv", &format!("id,name,iata\n{open}")), ("heights.csv", &format!("IATA code;elevation\n{other}"))]);
    assert_eq!(found["collections"].as_array().unwrap().len(), 1, "{found}");
    import(&sandbox, &["airports.csv", "heights.csv"]);
    let records = sandbox.records("airport");
    assert_eq!(records.len(), 80 + 9);
    let joined = records.iter().filter(|record| record["name"].is_string() && record["elevation"].is_number()).count();
    assert_eq!(joined, 70);
    assert_eq!(records.iter().filter(|record| record["iata"].is_null()).count(), 10);
}

#[test]
fn a_column_with_keys_of_another_file_is_a_link() {
    let sandbox = folder();
    let authors = "id,name\n1,Ann Berg\n2,Bo Li\n3,Eva Ito\n";
    let books = "isbn,title,author_id\n978-1,Sea,1\n978-2,Tides,1\n978-3,Bread,3\n978-4,Stone,2\n";
    let found = init(&sandbox, &[("books.csv", books), ("authors.csv", authors)]);
    let link = &found["collections"][0]["links"][0];
    assert_eq!((&link["name"], &link["to"]), (&json!("author"), &json!("author")));
    import(&sandbox, &["books.csv", "authors.csv"]);
    assert_eq!(sandbox.get("book", "978-3")["author"], "3");
    assert_eq!(sandbox.ok(&["query", "book author=1 | grep isbn", "--format", "ndjson"]).lines().count(), 2);
}

#[test]
fn tables_that_only_share_small_numbers_stay_apart() {
    let sandbox = folder();
    let colours = "id,colour\n1,red\n2,blue\n3,green\n4,white\n";
    let people = "id,name,born\n1,Ann,1990\n2,Bo,1985\n3,Eva,2001\n4,Kim,1999\n";
    let found = init(&sandbox, &[("colours.csv", colours), ("people.csv", people)]);
    assert_eq!(found["collections"].as_array().unwrap().len(), 2, "{found}");
    assert!(found["collections"].as_array().unwrap().iter().all(|collection| collection["links"] == json!([])), "{found}");
}

#[test]
fn deliveries_of_one_source_are_one_source() {
    let sandbox = folder();
    let january = "number,day,amount\nA1,2024-01-03,5\nA2,2024-01-04,7\n";
    let february = "number,day,amount\nB1,2024-02-03,5\nB2,2024-02-04,9\n";
    let found = init(&sandbox, &[("orders_2024-01.csv", january), ("orders_2024-02.csv", february)]);
    assert_eq!(found["sources"].as_array().unwrap().len(), 1);
    import(&sandbox, &["orders_2024-01.csv", "orders_2024-02.csv"]);
    assert_eq!(sandbox.records("order").len(), 4);
}

#[test]
fn columns_of_one_name_rows_of_other_lengths_and_lists_of_objects_lose_nothing() {
    let sandbox = folder();
    init(&sandbox, &[("n.csv", "id,n,n,\n1,7,8,x\n2,9\n3,1,2,3,4\n")]);
    import(&sandbox, &["n.csv"]);
    let records = sandbox.records("n");
    assert_eq!(records[0], json!({"key": "1", "id": 1, "n": 7, "n_2": 8, "column_4": "x"}));
    assert_eq!(records[2]["column_5"], json!(4));
    let sandbox = folder();
    let works = r#"{"doi":"10/a","authors":[{"name":"Ann","rank":1},{"name":"Bo","rank":2}],"meta":{"lang":"en"},"title":["One"],"odd":[1,[2]]}
{"doi":"10/b","authors":[{"name":"Cy","rank":1}],"meta":{"lang":"de"},"odd":{"a":null}}
"#;
    init(&sandbox, &[("works.ndjson", works)]);
    import(&sandbox, &["works.ndjson"]);
    let work = sandbox.get("work", "10/a");
    assert_eq!(work["authors"], json!([{"name": "Ann", "rank": 1}, {"name": "Bo", "rank": 2}]));
    assert_eq!((&work["lang"], &work["title"], &work["odd"]), (&json!("en"), &json!(["One"]), &json!([1, [2]])));
}

#[test]
fn what_cannot_be_read_is_refused_with_advice_and_nothing_is_overwritten() {
    let sandbox = folder();
    let page = sandbox.write_file("page.csv", "<html><head><title>502 Bad Gateway</title></head></html>");
    sandbox.run(&["init", "--from", &page]).exits(1).stderr_contains(&["looks like HTML"]);
    let metadata = [b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        ".as_slice(), &[0; 60], b"com.apple.quarantine"].concat();
    let binary = sandbox.write_file("._table.csv", metadata);
    sandbox.run(&["init", "--from", &binary]).exits(1).stderr_contains(&["._table.csv: it looks like binary data, not text"]);
    sandbox.run(&["profile", &binary]).exits(1).stderr_contains(&["it looks like binary data"]);
    let map = sandbox.write_file("map.json", r#"{"a":{"n":1},"b":{"n":2},"c":{"n":3}}"#);
    sandbox.run(&["init", "--from", &map]).exits(1).stderr_contains(&["members of one object", "jq"]);
    let empty = sandbox.write_file("empty.csv", "");
    sandbox.run(&["init", "--from", &empty]).exits(1).stderr_contains(&["it is empty"]);
    let good = sandbox.write_file("good.csv", "id,name\n1,a\n");
    sandbox.ok(&["init", "--from", &good]);
    sandbox.run(&["init", "--from", &good]).exits(1).stderr_contains(&["exists already", "--force"]);
    sandbox.ok(&["init", "--from", &good, "--force"]);
}

#[test]
fn a_job_of_the_proposal_reads_its_files_without_a_warning() {
    let sandbox = folder();
    let mixed = sandbox.write_file("m.csv", "code;preis;wann\nA1;1,50;3.4.2024\nA2;12,25;30.12.2023\nA3;7,00;1.1.2024\n");
    sandbox.ok(&["init", "--from", &mixed]);
    let job = sandbox.import(&[&mixed]);
    assert_eq!(counts(&job), "created 3");
    assert_eq!(sandbox.get("m", "A2"), json!({"key": "A2", "code": "A2", "preis": 12.25, "wann": "2023-12-30"}));
}

#[test]
fn a_document_with_a_short_list_is_no_envelope_of_it() {
    let sandbox = folder();
    let country = r#"{"name":"Andorra","alpha2":"AD","area":468,"capital":"Andorra la Vella","region":"Europe","population":76098,"calling":"376",
"geo":{"type":"FeatureCollection","features":[{"type":"Feature","id":"AND"}]}}"#;
    let found = init(&sandbox, &[("andorra.json", country)]);
    assert_eq!(sandbox.ok(&["init", "--from", "andorra.json", "--output", "-"]).matches("is taken to be one document").count(), 1);
    import(&sandbox, &["andorra.json"]);
    let records = sandbox.records(found["collections"][0]["name"].as_str().unwrap());
    assert_eq!((records.len(), &records[0]["population"]), (1, &json!(76_098)));
    let page = r#"{"total":1,"page":1,"message":{"next":null,"works":[{"doi":"10/a","title":"Sea","year":2001,"pages":12,"lang":"en","type":"book","open":true}]}}"#;
    let sandbox = folder();
    let found = init(&sandbox, &[("page.json", page)]);
    assert_eq!(found["collections"][0]["name"], "work", "{found}");
}

#[test]
fn rows_of_one_file_are_not_linked_to_themselves_because_two_columns_are_equal() {
    let sandbox = folder();
    let risks: String =
        ["Argentina", "Australia", "Austria", "Bangladesh", "Belgium"].map(|name| format!("\"{name}\",\"{name}\",{}\n", name.len())).concat();
    let found = init(&sandbox, &[("risk.csv", &format!("\"\",\"country\",\"risk\"\n{risks}"))]);
    assert_eq!(found["collections"][0]["links"], json!([]), "{found}");
}
