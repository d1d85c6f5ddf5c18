//! Published records are searched by SRU: as a naive reader would find them, with the diagnostics of the standard, and by yaz-client.

use std::process::{Command, Stdio};
use stook_tests::Sandbox;
use stook_tests::http::{Served, url_encoded};

const LIBRARY: &str = "
catalogue: library
serve: { repository: { name: Library, email: books@example.org } }
sources:
  books: { format: json, into: book, as_of: meta.received }
  bibs:
    format: marc
    as_of: meta.received
    feeds: [ { into: record, map: { id: '001', title: 245$a } } ]
collections:
  book:
    key: id
    publish: { dc: { creator: 'authors.map(a, a.name)', date: 'string(year)', identifier: [id, isbn] } }
    fields:
      id: text
      title: { type: text, fold: true, index: contains }
      authors: [{ name: text, born: integer }]
      year: { type: integer, index: equal }
      isbn: { type: [text], index: equal }
      language: { type: text, index: equal }
      shelf: text
  record: { key: id, raw: keep, publish: true, fields: { id: text, title: text } }
";

const MARC: &str = "<collection xmlns='http://www.loc.gov/MARC21/slim'><record><leader>00000nam a2200000 i 4500</leader>\
    <controlfield tag='001'>m1</controlfield><datafield tag='245' ind1='1' ind2='0'><subfield code='a'>Kept</subfield></datafield></record></collection>";

fn library() -> Sandbox {
    let sandbox = Sandbox::new(LIBRARY);
    let book = |number: usize| {
        let (subject, language) = (["sea", "wood", "sea and wood"][number % 3], ["eng", "ger"][number % 2]);
        let author = ["Lee, Ann", "Ray, Ben"][number % 2];
        format!(
            "{{\"id\":\"b{number:02}\",\"title\":\"The {subject} (vol. {number})\",\"authors\":[{{\"name\":\"{author}\",\"born\":1950}}],\
             \"year\":{},\"isbn\":[\"i{number}\",\"j{number}\"],\"language\":\"{language}\",\"shelf\":\"s\"}}\n",
            1990 + number
        )
    };
    sandbox.import(&[&sandbox.write_file("books.json", (0..30).map(book).collect::<String>()), "--source", "books"]);
    sandbox.import(&[&sandbox.write_file("bibs.xml", MARC)]);
    sandbox
}

fn ask(stook: &Served, collection: &str, arguments: &str) -> String {
    let reply = stook.get(&format!("/v1/main/sru{collection}?version=1.2&{arguments}"));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/xml; charset=utf-8")), "{}", reply.text());
    reply.text()
}

/// The number of records that a query finds, and the identifiers on the page.
fn search(stook: &Served, query: &str, more: &str) -> (usize, Vec<String>) {
    let text = ask(stook, "/book", &format!("operation=searchRetrieve&recordSchema=dc&query={}{more}", url_encoded(query)));
    assert!(!text.contains("<diagnostic"), "{query}: {text}");
    let number = text.split("<numberOfRecords>").nth(1).unwrap().split('<').next().unwrap().parse().unwrap();
    let ids = text.split("<dc:identifier>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned());
    (number, ids.filter(|id| id.starts_with('b')).collect())
}

/// The number of the diagnostic in a response.
fn diagnostic(text: &str) -> Option<u16> {
    text.split("info:srw/diagnostic/1/").nth(1)?.split('<').next()?.parse().ok()
}

#[test]
fn queries_find_what_a_naive_reader_finds() {
    let sandbox = library();
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let all =
        |condition: &dyn Fn(usize) -> bool| (0..30).filter(|number| condition(*number)).map(|number| format!("b{number:02}")).collect::<Vec<_>>();
    let has_sea = |number: usize| number % 3 != 1;
    let has_wood = |number: usize| !number.is_multiple_of(3);
    for (query, condition) in [
        ("cql.allRecords=1", &(|_| true) as &dyn Fn(usize) -> bool),
        ("sea", &has_sea),
        ("dc.title = SEA", &has_sea),
        ("title all \"wood sea\"", &|n| has_sea(n) && has_wood(n)),
        ("title any \"wood sea\"", &|_| true),
        ("dc.title == \"the sea (vol. 3)\"", &|n| n == 3),
        ("dc.title exact \"the sea*\"", &has_sea),
        ("dc.title = \"the*vol. 2\"", &|n| n == 2 || (20..30).contains(&n)),
        ("sea and wood", &|n| has_sea(n) && has_wood(n)),
        ("sea not wood", &|n| has_sea(n) && !has_wood(n)),
        ("year < 1995 or year >= 2018", &|n| !(5..28).contains(&n)),
        ("(year < 1995 or year >= 2018) and sea", &|n| !(5..28).contains(&n) && has_sea(n)),
        ("sea and (year < 1995 or year >= 2018) not language=eng", &|n| !(5..28).contains(&n) && has_sea(n) && n % 2 == 1),
        ("dc.creator=\"Lee*\" and dc.language <> ger", &|n| n % 2 == 0),
        ("authors.name=\"Ray, Ben\"", &|n| n % 2 == 1),
        ("dc.identifier=b07", &|n| n == 7),
        ("dc.identifier=j8", &|n| n == 8),
        ("rec.identifier=b09", &|n| n == 9),
        ("isbn any \"i1 j2 x\"", &|n| n == 1 || n == 2),
        ("dc.date=2000", &|n| n == 10),
        ("nothing", &|_| false),
    ] {
        let (number, ids) = search(&stook, query, "&maximumRecords=100");
        let expected = all(condition);
        assert_eq!((number, &ids), (expected.len(), &expected), "{query}");
    }
    // pages and orders
    let page = |query: &str, more: &str| search(&stook, query, more).1;
    assert_eq!(page("cql.allRecords=1", "&startRecord=29&maximumRecords=10"), ["b28", "b29"]);
    assert_eq!(page("cql.allRecords=1 sortBy dc.date/sort.descending", "&maximumRecords=2"), ["b29", "b28"]);
    assert_eq!(page("sea or wood sortBy year/sort.descending", "&maximumRecords=2"), ["b29", "b28"]);
    assert_eq!(page("sea", "&sortKeys=date,dc,0&maximumRecords=2"), ["b29", "b27"]);
    assert_eq!(page("cql.allRecords=1", "").len(), 10);
    let text = ask(&stook, "/book", "operation=searchRetrieve&query=sea&recordSchema=dc&maximumRecords=5");
    assert!(text.contains("<nextRecordPosition>6</nextRecordPosition>") && text.contains("<recordPosition>5</recordPosition>"), "{text}");
    let text = ask(&stook, "/record", "operation=searchRetrieve&query=Kept&recordPacking=string");
    assert!(text.contains("info:srw/schema/1/marcxml-v1.1") && text.contains("&lt;record xmlns="), "{text}");
}

#[test]
fn mistakes_are_diagnostics_and_databases_explain_themselves() {
    let sandbox = library();
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    for (arguments, number) in [
        ("operation=scan&query=a", 4),
        ("operation=searchRetrieve", 7),
        ("query=a&startRecord=0", 6),
        ("query=a&maximumRecords=x", 6),
        ("query=a&colour=red", 8),
        ("query=(a", 10),
        ("query=mods.title=a", 15),
        ("query=dc.titel=a", 16),
        ("query=shelf=s", 16),
        ("query=a%20within%20b", 19),
        ("query=title=%22%22", 27),
        ("query=title=a?", 28),
        ("query=title=%5Ea", 31),
        ("query=year=x", 36),
        ("query=a%20prox%20b", 39),
        ("query=sea&startRecord=100", 61),
        ("query=a&recordSchema=mods", 66),
        ("query=a&recordSchema=marcxml", 66),
        ("query=a&recordPacking=bag", 71),
        ("query=a%20sortBy%20isbn", 82),
    ] {
        let text = ask(&stook, "/book", arguments);
        assert_eq!(diagnostic(&text), Some(number), "{arguments}: {text}");
    }
    assert!(ask(&stook, "/book", "query=dc.titel=a").contains("did you mean dc.title?"));
    assert_eq!(diagnostic(&stook.get("/v1/main/sru?version=7&query=a").text()), Some(5));
    for arguments in ["operation=explain", ""] {
        let text = ask(&stook, "/book", arguments);
        for part in ["<explainResponse", "<name set=\"dc\">creator</name>", "<name>authors.name</name>", "name=\"dc\"", "v1/main/sru/book"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("shelf") && !text.contains("born") && !text.contains("name=\"marcxml\""), "{text}");
    }
    // without a name, the first published collection
    assert!(ask(&stook, "", "").contains("v1/main/sru/book"));
    assert_eq!(stook.get("/v1/main/sru/nothing").status, 404);
}

#[test]
fn yaz_client_finds_and_shows_records() {
    if !Command::new("yaz-client").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return stook_testkit::skip::missing("there is no yaz-client");
    }
    let sandbox = library();
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let script = "querytype cql\nsru get 1.2\nschema dc\nfind dc.title = sea and year < 1993\nshow 1+2\nquit\n";
    let target = format!("http://{}/v1/main/sru/book", stook.address());
    let mut child = Command::new("yaz-client").arg(target).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Number of hits: 2") && text.contains("The sea (vol. 0)") && text.contains("The sea and wood (vol. 2)"), "{text}");
}
