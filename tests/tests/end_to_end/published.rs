//! Published records are fetched by OAI-PMH: all of them, and then what has changed, whatever is written meanwhile.

use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_tests::http::{Served, url_encoded};
use stook_tests::{Sandbox, repository};

const LIBRARY: &str = "
catalogue: library
serve: { repository: { name: 'A & B library', email: books@example.org } }
sources:
  books: { format: csv, into: book, as_of: meta.received }
  bibs:
    format: marc
    let: { status: LDR/05 }
    gone: \"status == 'd'\"
    as_of: meta.received
    feeds: [ { into: record, map: { id: '001', title: 245$a, languages: 041$a } } ]
collections:
  book:
    key: id
    publish: { dc: { creator: authors, date: 'string(year)', type: \"'book'\" } }
    fields: { id: text, title: text, authors: text, year: integer, shelf: text }
  record:
    key: id
    raw: keep
    publish: true
    fields: { id: text, title: text, languages: [text] }
";

fn python() -> Option<PathBuf> {
    let named = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from);
    let of_home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/stook/venv/bin/python"));
    let is_usable =
        |python: &PathBuf| Command::new(python).args(["-c", "import sickle, oaipmh, lxml"]).output().is_ok_and(|output| output.status.success());
    let found = named.into_iter().chain(of_home).find(is_usable);
    if found.is_none() {
        stook_testkit::skip::missing("there is no Python with sickle and pyoai (STOOK_TEST_PYTHON)");
    }
    found
}

fn csv(rows: impl IntoIterator<Item = (usize, String)>) -> String {
    rows.into_iter().fold("id,title,authors,year,shelf\n".to_owned(), |text, (id, title)| text + &format!("k/{id:03} ü,{title},\"Ann <a>\",2001,s\n"))
}

fn titles(range: std::ops::Range<usize>) -> impl Iterator<Item = (usize, String)> {
    range.map(|id| (id, format!("Title {id}")))
}

/// What sickle harvests: each record's identifier with what is said of it, and the last line.
fn harvest(python: &PathBuf, stook: &Served, arguments: &[&str]) -> (BTreeMap<String, Json>, Json) {
    let url = format!("http://{}/v1/main/oai", stook.address());
    let output = Command::new(python).arg(repository().join("tests/reference/oai_harvest.py")).arg(url).args(arguments).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{err}");
    let mut lines: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = lines.pop().unwrap();
    let number = lines.len();
    let records: BTreeMap<String, Json> = lines.into_iter().map(|line| (line["id"].as_str().unwrap().to_owned(), line)).collect();
    assert_eq!(records.len(), number, "a record is listed twice: {out}");
    (records, end)
}

/// The response to a request, and the code of its error.
fn ask(stook: &Served, query: &str) -> (String, Option<String>) {
    let reply = stook.get(&format!("/v1/main/oai?{query}"));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/xml; charset=utf-8")), "{}", reply.text());
    let text = reply.text();
    let code = text.split_once("<error code=\"").and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_owned()));
    (text, code)
}

fn part(text: &str, name: &str) -> String {
    text.split_once(&format!("<{name}>")).and_then(|(_, rest)| Some(rest.split_once(&format!("</{name}>"))?.0.to_owned())).unwrap_or_default()
}

const MARC: &str = "<collection xmlns='http://www.loc.gov/MARC21/slim'>\
    <record><leader>00000nam a2200000 i 4500</leader><controlfield tag='001'>m1</controlfield>\
    <datafield tag='245' ind1='1' ind2='0'><subfield code='a'>Kept &lt;1&gt;</subfield></datafield></record>\
    <record><leader>00000nam a2200000 i 4500</leader><controlfield tag='001'>m2</controlfield>\
    <datafield tag='041' ind1=' ' ind2=' '><subfield code='a'>eng</subfield><subfield code='a'>ger</subfield></datafield>\
    <datafield tag='245' ind1='1' ind2='0'><subfield code='a'>Second</subfield></datafield></record></collection>";

#[test]
fn a_public_harvester_gets_all_records_and_then_what_has_changed() {
    let Some(python) = python() else { return };
    let sandbox = Sandbox::new(LIBRARY);
    sandbox.import(&[&sandbox.write_file("books.csv", csv(titles(0..250)))]);
    sandbox.import(&[&sandbox.write_file("bibs.xml", MARC)]);
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let (all, end) = harvest(&python, &stook, &["oai_dc"]);
    assert_eq!((all.len(), &end["pages"], &end["name"]), (252, &3.into(), &"A & B library".into()));
    assert_eq!(all["oai:example.org:book/k%2F007%20%C3%BC"]["title"], "Title 7");
    // the same records as an export has
    let exported = sandbox.run(&["export", "book", "--format", "ndjson"]).exits(0).lines();
    let named = |record: &Json| record["title"].as_str().unwrap().to_owned();
    let of_books = |all: &BTreeMap<String, Json>| {
        all.values().filter(|record| record["id"].as_str().unwrap().contains("book/")).map(named).collect::<BTreeSet<_>>()
    };
    assert_eq!(of_books(&all), exported.iter().map(named).collect());
    let (books, _) = harvest(&python, &stook, &["oai_dc", "", "", "book"]);
    assert_eq!(books.len(), 250);
    let (marc, end) = harvest(&python, &stook, &["marcxml"]);
    assert_eq!(marc.values().map(named).collect::<Vec<_>>(), ["Kept <1>", "Second"]);
    // one changes, one is new, one is deleted, one is imported again as it was
    let date = end["date"].as_str().unwrap().to_owned();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let update = csv([(3, "Changed".to_owned()), (4, "Title 4".to_owned()), (900, "New".to_owned())]);
    sandbox.import(&[&sandbox.write_file("books.csv", update)]);
    sandbox.import(&[&sandbox.write_file("bibs.xml", MARC.replace("00000nam", "00000dam").replacen("00000dam", "00000nam", 1))]);
    let (changes, _) = harvest(&python, &stook, &["oai_dc", &date]);
    // what was committed in the second of the first harvest is listed again
    let changes: BTreeMap<String, Json> = changes.into_iter().filter(|(id, record)| all.get(id) != Some(record)).collect();
    let deleted = |id: &str| changes[id]["deleted"] == true;
    assert_eq!(changes.len(), 3, "{changes:#?}");
    assert!(changes["oai:example.org:book/k%2F003%20%C3%BC"]["title"] == "Changed" && !deleted("oai:example.org:book/k%2F900%20%C3%BC"));
    assert!(deleted("oai:example.org:record/m2"));
    let (none, end) = harvest(&python, &stook, &["oai_dc", "2031-01-01"]);
    assert_eq!((none.len(), &end["pages"]), (0, &1.into()));
}

#[test]
fn nothing_is_lost_while_records_are_imported() {
    let Some(python) = python() else { return };
    let sandbox = Sandbox::new(LIBRARY);
    sandbox.import(&[&sandbox.write_file("books.csv", csv(titles(0..150)))]);
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let done = AtomicBool::new(false);
    let (mut known, mut from): (BTreeMap<String, Json>, Option<String>) = (BTreeMap::new(), None);
    let mut harvest_once = |known: &mut BTreeMap<String, Json>| {
        let (records, end) = harvest(&python, &stook, &["oai_dc", from.as_deref().unwrap_or("")]);
        known.extend(records);
        from = Some(end["date"].as_str().unwrap().to_owned());
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..6 {
                let rows = (round * 40..round * 40 + 120).map(|id| (id, format!("Title {id} of round {round}")));
                sandbox.import(&[&sandbox.write_file(&format!("{round}.csv"), csv(rows))]);
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            harvest_once(&mut known);
        }
    });
    harvest_once(&mut known);
    let exported = sandbox.run(&["export", "book", "--format", "ndjson"]).exits(0).lines();
    let expected: BTreeSet<String> = exported.iter().map(|record| record["title"].as_str().unwrap().to_owned()).collect();
    let found: BTreeSet<String> = known.values().map(|record| record["title"].as_str().unwrap().to_owned()).collect();
    assert_eq!((found.len(), found), (320, expected));
}

#[test]
fn errors_of_the_protocol_have_their_codes() {
    let sandbox = Sandbox::new(LIBRARY);
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    for (query, code) in [
        ("", "badVerb"),
        ("verb=Nothing", "badVerb"),
        ("verb=ListRecords&metadataPrefix=oai_dc&until=yesterday", "badArgument"),
        ("verb=ListRecords&metadataPrefix=oai_dc", "noRecordsMatch"),
        ("verb=ListRecords&metadataPrefix=oai_dc&set=nothing", "noRecordsMatch"),
        ("verb=ListRecords&metadataPrefix=mods", "cannotDisseminateFormat"),
        ("verb=ListRecords&metadataPrefix=marcxml&set=book", "cannotDisseminateFormat"),
        ("verb=ListIdentifiers&resumptionToken=abc", "badResumptionToken"),
        ("verb=GetRecord&metadataPrefix=oai_dc&identifier=oai:example.org:book/none", "idDoesNotExist"),
        ("verb=GetRecord&metadataPrefix=oai_dc&identifier=%00%3C", "idDoesNotExist"),
        ("verb=ListMetadataFormats&identifier=oai:other.org:book/1", "idDoesNotExist"),
    ] {
        if query.contains("%00") {
            assert_eq!(stook.get(&format!("/v1/main/oai?{query}")).status, 400);
            continue;
        }
        assert_eq!(ask(&stook, query).1.as_deref(), Some(code), "{query}");
    }
    sandbox.import(&[&sandbox.write_file("books.csv", csv(titles(0..1_200)))]);
    sandbox.import(&[&sandbox.write_file("bibs.xml", MARC)]);
    let (identified, _) = ask(&stook, "verb=Identify");
    assert_eq!((part(&identified, "repositoryName").as_str(), part(&identified, "deletedRecord").as_str()), ("A &amp; B library", "transient"));
    assert!(part(&identified, "baseURL").ends_with("/v1/main/oai") && part(&identified, "earliestDatestamp").ends_with('Z'), "{identified}");
    let (record, _) = ask(&stook, "verb=GetRecord&metadataPrefix=oai_dc&identifier=oai:example.org:book/k%252F001%2520%25C3%25BC");
    for element in [
        "<dc:title>Title 1</dc:title>",
        "<dc:creator>Ann &lt;a&gt;</dc:creator>",
        "<dc:date>2001</dc:date>",
        "<dc:type>book</dc:type>",
        "<dc:identifier>k/001 ü</dc:identifier>",
    ] {
        assert!(record.contains(element), "{element}: {record}");
    }
    assert!(!record.contains("shelf"), "{record}");
    let (record, _) = ask(&stook, "verb=GetRecord&metadataPrefix=marc21&identifier=oai:example.org:record/m1");
    assert!(record.contains("<record xmlns=\"http://www.loc.gov/MARC21/slim\">") && record.contains("Kept &lt;1&gt;"), "{record}");
    // a token contains all of its list, so another request may be in between, and a changed one is refused
    let (page, _) = ask(&stook, "verb=ListIdentifiers&metadataPrefix=oai_dc");
    let token = page.split_once("<resumptionToken cursor=\"0\">").and_then(|(_, rest)| rest.split_once('<')).expect("a token").0.to_owned();
    let (last, _) = ask(&stook, &format!("verb=ListIdentifiers&resumptionToken={token}"));
    assert_eq!((page.matches("<header").count(), last.matches("<header").count()), (1_000, 202));
    assert!(last.contains("<resumptionToken cursor=\"1000\"/>"), "{last}");
    assert_eq!(ask(&stook, &format!("verb=ListIdentifiers&resumptionToken={token}x")).1.as_deref(), Some("badResumptionToken"));
    // arguments may be in the body
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let posted = stook.send("POST", "/v1/main/oai", &form, b"verb=ListSets");
    assert!(posted.status == 200 && posted.text().contains("<setSpec>record</setSpec>"), "{}", posted.text());
    // nothing is published unless the definition says so
    let other = Sandbox::new(
        &LIBRARY
            .replace("    publish: true\n", "")
            .replace("    publish: { dc: { creator: authors, date: 'string(year)', type: \"'book'\" } }\n", "")
            .replace("serve: { repository: { name: 'A & B library', email: books@example.org } }\n", ""),
    );
    assert_eq!(Served::new(&other, &["--workers", "1"]).get("/v1/main/oai?verb=Identify").status, 404);
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_public_repository_is_collected() {
    let Some(python) = python() else { return };
    let mut server =
        Running(Command::new(python).arg(repository().join("tests/reference/oai_server.py")).arg("25").stdout(Stdio::piped()).spawn().unwrap());
    let mut port = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.0.stdout.take().unwrap()), &mut port).unwrap();
    let sandbox = Sandbox::new(
        "catalogue: datasets
sources:
  archive:
    format: xml
    records: ListRecords/record
    namespaces: { o: 'http://www.openarchives.org/OAI/2.0/', dc: 'http://purl.org/dc/elements/1.1/' }
    let: { status: 'o:header/@status' }
    gone: \"status == 'deleted'\"
    as_of: meta.received
    into: dataset
    collect: { oai: { books: \"${OAI_URL}\" } }
collections:
  dataset: { key: id, fields: { id: { path: 'o:header/o:identifier', type: text }, title: { path: './/dc:title', type: text } } }
",
    );
    let url = format!("http://127.0.0.1:{}/oai", port.trim());
    let output = sandbox.command(&["collect", "--json"]).env("OAI_URL", url).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = sandbox.run(&["query", "dataset | grep id, title", "--format", "ndjson", "--limit", "100"]).exits(0).lines();
    assert_eq!((rows.len(), rows[0]["title"].as_str()), (21, Some("Title 0 & more")));
}

/// A book of which a library of record and a local one have a record, composed of both.
const COMPOSED: &str = "
catalogue: library
serve: { repository: { name: Library, email: books@example.org } }
sources:
  loc: { format: marc, as_of: meta.received, into: book }
  local: { format: marc, as_of: meta.received, into: book }
collections:
  book:
    key: lccn
    raw: keep
    publish: true
    compose: { survivorship: { prefer: [loc], then: latest }, protect: { local: [590] }, union: [650] }
    fields:
      lccn: { path: 010$a, type: text, clean: lccn }
      title: { path: 245$a, type: text, index: [equal, words] }
";

/// The elements `datafield` of a text, in their order, without the prefixes of their namespaces.
fn data_fields(text: &str) -> Vec<String> {
    let plain = text.replace("marc:", "");
    let found = plain
        .split("<datafield")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("</datafield>")?.0.split_whitespace().collect::<Vec<_>>().join(" ")));
    found.collect()
}

#[test]
fn what_is_composed_is_published_as_it_is_exported() {
    for sandbox in Sandbox::on_each_store(COMPOSED) {
        let record = |fields: &str| format!("=LDR  00000nam a2200000 i 4500\n=001  x\n=010  \\\\$an 79089035\n{fields}\n\n");
        let loc = sandbox.write_file("loc.mrk", record("=245  10$aOf the library of record\n=650  \\0$aSea"));
        let local = sandbox.write_file("local.mrk", record("=245  10$aLocal\n=590  \\\\$aour note\n=650  \\7$aMeer"));
        sandbox.import(&[&loc, "--source", "loc"]);
        sandbox.import(&[&local, "--source", "local"]);
        let exported = data_fields(&String::from_utf8(sandbox.export("book", "marcxml")).unwrap());
        assert!(exported.len() == 5 && exported.iter().any(|field| field.contains("our note")), "{exported:?}");
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        // what was committed in this second is listed when it is over
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut listed = ask(&stook, "verb=ListRecords&metadataPrefix=marcxml").0;
        while data_fields(&listed).is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
            listed = ask(&stook, "verb=ListRecords&metadataPrefix=marcxml").0;
        }
        assert_eq!(data_fields(&listed), exported);
        let identifier = part(&listed, "identifier");
        let (single, _) = ask(&stook, &format!("verb=GetRecord&metadataPrefix=marcxml&identifier={identifier}"));
        assert_eq!(data_fields(&single), exported);
        let search = |query: &str| {
            let path =
                format!("/v1/main/sru/book?operation=searchRetrieve&version=1.2&recordSchema=marcxml&maximumRecords=10&query={}", url_encoded(query));
            stook.get(&path).text()
        };
        // words of the title, in any case, and beginnings of them
        for query in ["title=Library", "title=\"the libr*\"", "dc.title any \"sea record\"", "title all \"record library\""] {
            let found = search(query);
            assert_eq!(data_fields(&found), exported, "{query}: {found}");
        }
        for query in ["title=rec", "title=\"record library\"", "title all \"record sea\"", "title==library", "title=!"] {
            assert!(data_fields(&search(query)).is_empty(), "{query}");
        }
    }
}
