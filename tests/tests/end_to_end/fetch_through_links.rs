//! What a query reads through links is asked of services, too: the rows on an empty store are those that a complete one has, and the calls
//! are as narrow as what is known allows.

use serde_json::{Value as Json, json};
use stook_tests::Sandbox;
use stook_tests::http::{Served, url_encoded};
use stook_tests::service::{FAILS, Service, ServiceRequest};

const KIND: &str = "application/json";
const AUTHORS: usize = 12;
const WORKS: usize = 130;

/// Authors, their works, and what is said of those: reviews are told of one work at a time.
fn definition(url: &str) -> String {
    format!(
        r#"
catalogue: shelf
services:
  people:  {{ url: '{url}/people', attempts: 1, ttl: 1h }}
  shelf:   {{ url: '{url}/shelf', attempts: 1, ttl: 1h }}
  critics: {{ url: '{url}/critics', attempts: 1, ttl: 1h, parallel: 8 }}
sources:
  author_list:
    format: json
    records: $[*]
    as_of: meta.received
    into: author
    asks: {{ service: people, calls: {{ authors: {{ get: /authors, args: {{ id: id, city: city }} }} }} }}
  work_list:
    format: json
    records: $[*]
    as_of: meta.received
    feeds: [ {{ into: work, map: {{ id: $.id, author: $.author, genre: $.genre, pages: $.pages }} }} ]
    asks: {{ service: shelf, calls: {{ works: {{ get: /works, args: {{ author: author, genre: {{ field: genre, takes: pattern }} }} }} }} }}
  prices:                                             # says nothing of what is read below but the price
    format: json
    records: $[*]
    as_of: meta.received
    feeds: [ {{ into: work, map: {{ id: $.id, author: $.author, price: $.price }} }} ]
    asks: {{ service: shelf, calls: {{ prices: {{ get: /prices, args: {{ author: author }} }} }} }}
  review_list:
    format: json
    records: $[*]
    as_of: meta.received
    into: review
    asks: {{ service: critics, calls: {{ reviews: {{ get: /reviews, args: {{ work: {{ field: work, required: true }} }} }} }} }}
collections:
  author:
    key: id
    fields:
      id: {{ path: $.id, type: text }}
      city: {{ path: $.city, type: text, index: equal }}
      self: {{ type: [text], derive: "[id]" }}
      genres: {{ type: [text], derive: wrote.genre }}
      pages: {{ type: integer, rollup: {{ over: work.by, sum: pages }} }}
      prices: {{ type: integer, rollup: {{ over: work.by, sum: price }} }}
    links:
      wrote: {{ to: work, same: {{ self: author }} }}
  work:
    key: id
    fields:
      id: text
      author: {{ type: text, index: equal }}
      genre: {{ type: text, index: equal }}
      pages: integer
      price: integer
      city: {{ type: text, derive: by.city }}
      stars: {{ type: integer, rollup: {{ over: review.of, max: stars }} }}
    links:
      by: {{ to: author, key: author }}
  review:
    key: id
    fields:
      id: {{ path: $.id, type: text }}
      work: {{ path: $.work, type: text, index: equal }}
      stars: {{ path: $.stars, type: integer }}
      city: {{ type: text, derive: of.city }}
    links:
      of: {{ to: work, key: work }}
      told: {{ to: genre, key: "{{work}}", create: true }}
  genre:                                              # exists because of reviews alone
    key: name
    fields:
      name: text
      best: {{ type: integer, rollup: {{ over: review.told, max: stars }} }}
routes:
  - get: /find
    params: {{ q: {{ type: text, required: true }}, ticket: text }}
    ask: {{ query: q, ticket: ticket }}
    answer: {{ status: status, reason: reason, rows: rows }}
"#
    )
}

fn author(number: usize) -> Json {
    let cities = ["Bern", "Oslo", "Rome", "Kyiv"];
    json!({ "id": format!("a{number:02}"), "city": cities[number % 4] })
}

fn work(number: usize) -> Json {
    let (genres, by) = (["crime", "essay", "verse"], author(number % AUTHORS));
    json!({ "id": format!("w{number:03}"), "author": by["id"], "genre": genres[number / AUTHORS % 3], "pages": number + 1, "price": 2 })
}

fn reviews(work: &str) -> Vec<Json> {
    let number: usize = work.trim_start_matches('w').parse().unwrap();
    (0..2).map(|review_number| json!({ "id": format!("{work}.{review_number}"), "work": work, "stars": (number + review_number) % 5 })).collect()
}

fn answer(request: &ServiceRequest<'_>) -> (&'static str, String) {
    let fits = |row: &Json| {
        request.parameters.iter().all(|(name, value)| {
            let row_value = row[name].as_str().unwrap();
            value.strip_suffix('*').map_or(row_value == value, |prefix| row_value.starts_with(prefix))
        })
    };
    let rows: Vec<Json> = match request.path {
        "/people/authors" => (0..AUTHORS).map(author).filter(fits).collect(),
        "/shelf/works" | "/shelf/prices" => (0..WORKS).map(work).filter(fits).collect(),
        "/critics/reviews" => reviews(request.all("work")[0]),
        other => panic!("{other}"),
    };
    (KIND, json!(rows).to_string())
}

/// The rows of a query on an empty store, and the calls made for it, by name.
#[track_caller]
fn query_on_empty_store(service: &Service, sandbox: &Sandbox, query: &str) -> (Json, Vec<String>) {
    let found = sandbox.run(&["query", query, "--format", "json", "--limit", "0"]).exits(0).json();
    let mut targets = service.take_targets();
    targets.sort_unstable();
    (found, targets)
}

fn works(fits: impl Fn(usize, &Json) -> bool) -> Vec<Json> {
    (0..WORKS).map(|number| (number, work(number))).filter(|(number, work)| fits(*number, work)).map(|(_, work)| work).collect()
}

fn pages(author: usize) -> usize {
    works(|number, _| number % AUTHORS == author).iter().map(|work| work["pages"].as_u64().unwrap() as usize).sum()
}

fn ids(rows: &[Json]) -> Json {
    rows.iter().map(|row| json!({ "id": row["id"] })).collect()
}

#[test]
fn records_read_through_links_are_fetched_by_the_narrowest_known_conditions() {
    let service = Service::new(answer);
    let of_bern = [0, 4, 8];
    let essays_of_a01 = json!([{ "id": "a01" }]);
    let by_bern = |number: usize| of_bern.contains(&(number % AUTHORS));
    let of_works: Vec<String> =
        works(|number, _| by_bern(number)).iter().map(|work| format!("/critics/reviews?work={}", work["id"].as_str().unwrap())).collect();
    let cases: Vec<(&str, Json, Vec<&str>)> = vec![
        // a condition through a link by equal fields: with what holds at the other end, and whose records they are, if that is one
        ("author id=a01 genres=essay | grep id", essays_of_a01.clone(), vec!["/people/authors?id=a01", "/shelf/works?author=a01&genre=essay"]),
        ("author id=a01 genres=es* | grep id", essays_of_a01, vec!["/people/authors?id=a01", "/shelf/works?author=a01&genre=es*"]),
        (
            "author city=Bern genres=essay | grep id",
            json!([{ "id": "a00" }, { "id": "a04" }, { "id": "a08" }]),
            vec!["/people/authors?city=Bern", "/shelf/works?genre=essay"],
        ),
        // nobody there: nothing more to ask
        ("author id=zz genres=essay | grep id", json!([]), vec!["/people/authors?id=zz"]),
        (
            "author id=a01 wrote=w001 | grep id",
            json!([{ "id": "a01" }]),
            vec!["/people/authors?id=a01", "/shelf/prices?author=a01", "/shelf/works?author=a01"],
        ),
        // columns, of the rows that are shown; of a few records each is asked for alone
        ("author id=a01 | grep id, pages", json!([{ "id": "a01", "pages": pages(1) }]), vec!["/people/authors?id=a01", "/shelf/works?author=a01"]),
        ("author id=a01 | grep prices", json!([{ "prices": 22 }]), vec!["/people/authors?id=a01", "/shelf/prices?author=a01"]),
        (
            "author city=Bern | grep id, pages | sort pages-",
            json!([{ "id": "a08", "pages": pages(8) }, { "id": "a04", "pages": pages(4) }, { "id": "a00", "pages": pages(0) }]),
            vec!["/people/authors?city=Bern", "/shelf/works?author=a00", "/shelf/works?author=a04", "/shelf/works?author=a08"],
        ),
        (
            "author city=Bern | sum(pages)",
            json!([{ "sum(pages)": of_bern.map(pages).iter().sum::<usize>() }]),
            vec!["/people/authors?city=Bern", "/shelf/works?author=a00", "/shelf/works?author=a04", "/shelf/works?author=a08"],
        ),
        (
            "author city=Bern pages>700 | grep id",
            of_bern.iter().filter(|number| pages(**number) > 700).map(|number| json!({ "id": format!("a{number:02}") })).collect(),
            vec!["/people/authors?city=Bern", "/shelf/works?author=a00", "/shelf/works?author=a04", "/shelf/works?author=a08"],
        ),
        // a link by key
        ("work city=Bern | grep id", ids(&works(|number, _| by_bern(number))), vec!["/people/authors?city=Bern", "/shelf/prices", "/shelf/works"]),
        // children that are told of one parent at a time
        ("work id=w007 | grep id, stars", json!([{ "id": "w007", "stars": 3 }]), vec!["/critics/reviews?work=w007", "/shelf/prices", "/shelf/works"]),
        // links after links
        (
            "review work=w005 | grep id, city",
            json!([{ "id": "w005.0", "city": "Oslo" }, { "id": "w005.1", "city": "Oslo" }]),
            vec!["/critics/reviews?work=w005", "/people/authors?id=a05", "/shelf/prices", "/shelf/works"],
        ),
        // what a service requires is known from the linked records
        (
            "review city=Bern | count(id)",
            json!([{ "count(id)": 2 * works(|number, _| by_bern(number)).len() }]),
            of_works.iter().map(String::as_str).chain(["/people/authors?city=Bern", "/shelf/prices", "/shelf/works"]).collect(),
        ),
        // records that exist because others name them
        ("genre name=w003", json!([{ "key": "w003", "name": "w003", "best": 4 }]), vec!["/critics/reviews?work=w003"]),
        // a record as it is asks nobody but its own services, and shows nothing that it then does not know
        ("author id=a01", json!([{ "key": "a01", "id": "a01", "city": "Oslo", "self": ["a01"] }]), vec!["/people/authors?id=a01"]),
    ];
    for (query, rows, targets) in cases {
        for sandbox in Sandbox::on_each_store(&definition(&service.url)) {
            let (found, requested_targets) = query_on_empty_store(&service, &sandbox, query);
            assert_eq!(requested_targets, targets, "{query}");
            assert_eq!(found, rows, "{query}");
            // and nobody is asked again
            assert_eq!(query_on_empty_store(&service, &sandbox, query), (rows.clone(), vec![]), "{query}");
        }
    }
}

/// What a declared route answers when it has all.
fn find_when_complete(stook: &Served, query: &str) -> Json {
    for ticket in std::iter::once(String::new()).chain(std::iter::repeat_with(|| ticket_of(stook, query))) {
        let reply = stook.get(&format!("/find?q={}&ticket={ticket}", url_encoded(query)));
        if reply.text().len() != 32 {
            return reply.expect_json(200);
        }
    }
    Json::Null
}

fn ticket_of(stook: &Served, query: &str) -> String {
    let reply = stook.get(&format!("/find?q={}", url_encoded(query)));
    Some(reply.text()).filter(|text| text.len() == 32).unwrap_or_default()
}

#[test]
fn services_that_fail_or_cannot_be_called_are_named_and_the_result_is_partial() {
    let service = Service::new(|request| match request.all("author").as_slice() {
        ["a04"] if request.path == "/shelf/works" => (FAILS, "down".into()),
        _ => answer(request),
    });
    for sandbox in Sandbox::on_each_store(&definition(&service.url)) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        // what the query does not say
        let answer = find_when_complete(&stook, "genre best>3");
        let reason = "review_list is unasked: it requires a condition on work; it is read through review.told";
        assert_eq!((&answer["status"], answer["reason"].as_str()), (&json!("fail"), Some(reason)), "{answer}");
        // one of three calls fails
        let answer = stook.get(&format!("/v1/main/query?q={}", url_encoded("author city=Bern | grep id, pages"))).expect_json(200);
        let failed: Vec<&Json> =
            answer["services"].as_array().unwrap().iter().filter(|service_status| service_status["state"] != "complete").collect();
        assert_eq!(failed.len(), 1, "{answer}");
        assert_eq!(
            (&failed[0]["asked"], &failed[0]["state"], &failed[0]["through"]),
            (&json!("/works?author=a04"), &json!("failed"), &json!("work.by"))
        );
        assert!(failed[0]["reason"].as_str().unwrap().contains("500"), "{answer}");
        let answer = find_when_complete(&stook, "author city=Bern | grep id, pages");
        assert_eq!(answer["status"], "partial", "{answer}");
        assert!(answer["reason"].as_str().unwrap().contains("work_list is failed: "), "{answer}");
        // one work after the other would be too many
        service.take_targets();
        let answer = find_when_complete(&stook, "work genre=essay stars>3 | grep id");
        assert_eq!(answer["status"], "ok", "{answer}");
        let essays = works(|_, work| work["genre"] == "essay").len();
        assert_eq!(service.take_targets().iter().filter(|target| target.starts_with("/critics")).count(), essays);
        let answer = find_when_complete(&stook, "work stars>3 | grep id");
        let reason = "review_list is unasked: it would take more than 100 calls, one for each value of work, and a query makes at most 100 for what it \
                      reads through links; it is read through review.of";
        assert_eq!((&answer["status"], answer["reason"].as_str()), (&json!("partial"), Some(reason)), "{answer}");
        assert!(service.take_targets().iter().all(|target| !target.starts_with("/critics")));
    }
}
