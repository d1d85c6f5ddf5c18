//! How the embedded store finds records: through an index if one can be used, and through the better one of several.
//!
//! The first line of an explanation describes it in words, followed by the database's own lines and its statement.

use crate::support;

use std::sync::LazyLock;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_store::Queries;
use support::{Filled, NOW, Record, compiled, definition, filled, main_tenant};

const DEFINITION: &str = "
catalogue: plans
collections:
  book:
    key: code
    fields:
      code: text
      serial: { type: text, unique: true, index: equal }
      title: { type: text, index: [equal, prefix] }
      heading: { type: text, fold: true, index: prefix }
      body: { type: text, index: contains }
      summary: { type: text, fold: true, index: contains }
      alias: { type: text, index: [equal, contains] }
      pages: { type: integer, index: equal }
      weight: { type: float, index: equal }
      active: { type: boolean, index: equal }
      changed: { type: timestamp, index: equal }
      born: { type: date, index: equal }
      length: { type: duration, index: equal }
      bytes: { type: size, index: equal }
      owner: { type: uuid, index: equal }
      tags: { type: [text], index: [equal, prefix] }
      echoes: { type: [text], fold: true, index: equal }
      numbers: { type: [integer], index: equal }
      marks: { type: [uuid], index: equal }
      story: { type: text, index: words }
      tale: { type: text, index: words }
      note: text
      rank: integer
      words: [text]
    state:
      status: { type: text, index: equal }
      visits: integer
";

/// Number of books: more than the number of index entries that are counted to find the better index.
const BOOKS: usize = 600;

static LIBRARY: LazyLock<Filled> = LazyLock::new(|| {
    let catalogue = definition(DEFINITION);
    let collection = &catalogue.collections[CollectionId::from(0)];
    let book = |number: usize| {
        let mut book = Record::empty(format!("b{number:03}"), collection);
        for (value, field) in book.golden.iter_mut().zip(&collection.fields) {
            let text = match field.name.as_str() {
                "serial" => format!("S{number}"),
                "title" | "heading" | "alias" => format!("Common {}", number % 100),
                "story" => format!("common words{}", if number == 7 { ", rare words" } else { "" }),
                "tale" => format!("number {number} of many"),
                "body" | "summary" => format!("common words{}", if number == 7 { ", rare words" } else { "" }),
                "pages" => (number % 50).to_string(),
                "weight" => (number / 2).to_string(),
                "active" => (number != 7).to_string(),
                "tags" | "echoes" => if number % 200 == 7 { "rare" } else { "common" }.to_owned(),
                _ => continue,
            };
            let element = from_text(&text, field.ty.element(), None).expect("a value");
            *value = if field.ty.is_list() { Value::List(vec![element]) } else { element };
        }
        let changed = collection.field("changed").expect("a field").0;
        book.golden[changed] = Value::Int(NOW - number as i64 * 3_600_000_000);
        book.state[0] = Value::text("available");
        book
    };
    let books: Vec<Record> = (0..BOOKS).map(book).collect();
    filled(catalogue.clone(), &[(main_tenant(), &books)])
});

/// How a query is executed: in words, and by the database.
fn access_path_and_plan(query: &str) -> (String, Vec<String>) {
    let plan = compiled(&LIBRARY.catalogue, query).plan;
    let mut lines = LIBRARY.store.explain(&plan).unwrap_or_else(|error| panic!("{error} in {query}"));
    lines.pop();
    (lines.remove(0), lines)
}

/// The words, if the database finds records by more than their tenant.
fn access_path(query: &str) -> String {
    let (path, lines) = access_path_and_plan(query);
    let record_lines: Vec<&String> = lines.iter().filter(|line| line.contains(" r_book")).collect();
    assert!(!record_lines.is_empty(), "{query} reads no records: {lines:?}");
    for line in record_lines {
        let looks_up_values = line.starts_with("search r_book") && (line.contains("(tenant=? and ") || line.contains("(rowid=?)"));
        assert!(looks_up_values, "{query} is answered by reading records one by one: {lines:#?}");
    }
    for line in lines.iter().filter(|line| line.starts_with("scan")) {
        assert!(line.contains("virtual table"), "{query} reads a table from end to end: {lines:#?}");
    }
    path
}

#[test]
fn equality_looks_up_the_index() {
    for (field, value) in [
        ("key", "b001"),
        ("serial", "S1"),
        ("title", "'Common 1'"),
        ("heading", "'COMMON 1'"),
        ("alias", "'Common 1'"),
        ("pages", "1"),
        ("weight", "1.5"),
        ("active", "true"),
        ("changed", "2024-05-06T00:00:00Z"),
        ("born", "2024-05-06"),
        ("length", "1h"),
        ("bytes", "1kB"),
        ("owner", "67e55044-10b1-426f-9247-bb680e5fe0c8"),
        ("status", "lent"),
    ] {
        let wanted = format!("looks up {field} in its index");
        assert_eq!(access_path(&format!("book {field}={value}")), wanted);
        assert_eq!(access_path(&format!("book {field} in [{value}, {value}]")), wanted);
        assert_eq!(access_path(&format!("book note=x | grep {field}={value} | sort rank- | unique | grep rank")), wanted);
    }
    assert_eq!(access_path("book=b001"), "looks up key in its index");
    // the key field needs no index of its own
    for condition in ["code=b001", "code in [b001, b002]"] {
        assert_eq!(access_path(&format!("book {condition} note=x")), "looks up key in its index");
    }
    for condition in ["code=b00*", "code=b*1", "code>=b590", "code between [b001, b010]"] {
        assert_eq!(access_path(&format!("book {condition}")), "reads a range of the index on key");
    }
}

#[test]
fn ranges_read_a_part_of_the_index() {
    for (field, low, high) in [
        ("key", "b001", "b010"),
        ("title", "a", "b"),
        ("heading", "A", "B"),
        ("pages", "1", "5"),
        ("weight", "0.5", "1e3"),
        ("changed", "2024-05-01", "2024-05-02"),
        ("born", "2024-05-01", "2024-05-02"),
        ("length", "1h", "2h"),
        ("bytes", "1kB", "1MB"),
        ("owner", "00000000-0000-0000-0000-000000000000", "67e55044-10b1-426f-9247-bb680e5fe0c8"),
        ("status", "a", "b"),
    ] {
        let wanted = format!("reads a range of the index on {field}");
        for condition in [format!("<{low}"), format!("<={low}"), format!(">{high}"), format!(">={high}"), format!(" between [{low}, {high}]")] {
            assert_eq!(access_path(&format!("book {field}{condition}")), wanted);
        }
    }
    assert_eq!(access_path("book changed=2024-05-06"), "reads a range of the index on changed");
    assert_eq!(access_path("book changed last 24h"), "reads a range of the index on changed");
}

#[test]
fn beginnings_of_texts_read_a_part_of_the_index() {
    for field in ["key", "title", "heading", "alias", "status"] {
        for pattern in ["a*", "\"Common 1*\"", "abc*d", "com*on*"] {
            assert_eq!(access_path(&format!("book {field}={pattern}")), format!("reads a range of the index on {field}"));
        }
    }
}

#[test]
fn conditions_on_lists_look_up_the_index_of_their_elements() {
    for (field, conditions) in [
        ("tags", ["=rare", " in [rare, common]", "=ra*", "=ra*e", " between [a, b]", ">ra", "<=b"]),
        ("echoes", ["=RARE", " in [Rare, Common]", "=RA*", "=Ra*e", " between [A, b]", ">ra", "<=b"]),
        ("numbers", ["=1", " in [1, 2]", ">1", "<1", " between [1, 2]", ">=1", "<=1"]),
    ] {
        for condition in conditions {
            let wanted = format!("finds records through the index on the elements of {field}");
            assert_eq!(access_path(&format!("book {field}{condition}")), wanted);
            assert_eq!(access_path(&format!("book {field}{condition} note=x | sort pages | grep pages, conflict")), wanted);
        }
    }
    assert_eq!(access_path("book marks=67e55044-10b1-426f-9247-bb680e5fe0c8"), "finds records through the index on the elements of marks");
}

#[test]
fn texts_within_texts_are_found_by_their_trigrams() {
    for field in ["body", "summary"] {
        for pattern in ["=*mon*", "=*words", "=com*", "=c*mmo*", "=\"*mon w*\"", "=common", "='common words'"] {
            let wanted = format!("finds records through the trigram index on {field}");
            assert_eq!(access_path(&format!("book {field}{pattern}")), wanted);
            assert_eq!(access_path(&format!("book {field}{pattern} note=x | sort key- | unique | grep key")), wanted);
        }
    }
    assert_eq!(access_path("book summary=*MON*"), "finds records through the trigram index on summary");
    assert_eq!(access_path("book alias=*mon*"), "finds records through the trigram index on alias");
    assert_eq!(access_path("book alias=C*mon*"), "finds records through the trigram index on alias");
    assert_eq!(access_path("book alias=Com*mon*"), "reads a range of the index on alias");
}

#[test]
fn a_condition_without_an_index_reads_every_record_and_the_explanation_says_so() {
    for query in [
        "book note=x",
        "book note=x*",
        "book words=x",
        "book rank>1",
        "book visits=1",
        "book title!=x",
        "book tags!=x",
        "book title=*",
        "book title=*x",
        "book body=*xy*",
        "book body=xy*",
        "book conflict=title",
    ] {
        assert_eq!(access_path_and_plan(query).0, "reads every record of the collection", "{query}");
    }
}

#[test]
fn a_sort_without_conditions_on_indexes_walks_its_index() {
    for (field, index) in [
        ("key", "k_book"),
        ("pages", "o_book_f_pages"),
        ("heading", "o_book_x_heading"),
        ("changed", "o_book_f_changed"),
        ("status", "o_book_s_status"),
    ] {
        for query in [format!("book | sort {field}"), format!("book | sort {field}-"), format!("book note=x rank>1 | sort {field}-")] {
            let (words, lines) = access_path_and_plan(&query);
            assert_eq!(words, format!("scans the index on {field} in order"), "{query}");
            assert_eq!(lines[0], format!("search r_book using index {index} (tenant=?)"), "{query}");
            // only records with equal values are sorted
            assert!(!lines.contains(&"use temp b-tree for order by".to_owned()), "{query}: {lines:?}");
        }
    }
    let (_, lines) = access_path_and_plan("book");
    assert_eq!(lines, ["search r_book using index k_book (tenant=?)"]);
    assert_eq!(access_path_and_plan("book | sort rank").1.last().map(String::as_str), Some("use temp b-tree for order by"));
}

#[test]
fn of_several_indexes_the_one_with_fewest_entries_is_used() {
    for (conditions, wanted) in [
        (["status=available", "title='Common 7'"], "looks up title in its index"),
        // more than are counted at first, but one less than the other
        (["status=available", "active=true"], "looks up active in its index"),
        (["active=true", "title=\"Common 7*\""], "reads a range of the index on title"),
        (["active=false", "title=Common*"], "looks up active in its index"),
        (["status=available", "pages between [7, 8]"], "reads a range of the index on pages"),
        (["pages>0", "weight>=299"], "reads a range of the index on weight"),
        (["pages>0", "body=*rare*"], "finds records through the trigram index on body"),
        (["pages=7", "body=*common*"], "looks up pages in its index"),
        (["body=*words*", "summary=*rare*"], "finds records through the trigram index on summary"),
        (["status=available", "tags=rare"], "finds records through the index on the elements of tags"),
        (["echoes=common", "pages=7"], "looks up pages in its index"),
        (["tags=common", "echoes=RARE"], "finds records through the index on the elements of echoes"),
        (["pages=7", "serial=S7"], "looks up serial in its index"),
        (["serial=S7", "key=b007"], "looks up key in its index"),
        (["key>b0", "changed last 5h"], "reads a range of the index on changed"),
        (["pages in [1, 2, 3]", "note=x"], "looks up pages in its index"),
        (["title=*x", "pages!=1"], "reads every record of the collection"),
    ] {
        let [first, second] = conditions;
        for query in [format!("book {first} {second}"), format!("book {second} {first} | sort rank"), format!("book {second} | grep {first}, key")] {
            if wanted.starts_with("reads every") {
                assert_eq!(access_path_and_plan(&query).0, wanted, "{query}");
            } else {
                assert_eq!(access_path(&query), wanted, "{query}");
            }
        }
    }
}

#[test]
fn indexes_with_equally_many_entries_are_chosen_by_the_kind_of_condition() {
    for (conditions, wanted) in [
        (["status=available", "title=Common*"], "looks up status in its index"),
        (["title=C*", "heading=comm*"], "reads a range of the index on heading"),
        (["pages>=0", "changed between [2000-01-01, 2030-01-01]"], "reads a range of the index on changed"),
    ] {
        let [first, second] = conditions;
        assert_eq!(access_path(&format!("book {first} {second}")), wanted);
        assert_eq!(access_path(&format!("book {second} {first}")), wanted);
    }
}

#[test]
fn counts_and_aggregates_use_the_same_records() {
    for (query, count) in [
        ("book tags=rare echoes=rare", 3),
        ("book tags=ra* numbers!=1 | grep key, tags | unique", 3),
        ("book body=*rare* key=b007", 1),
        ("book=b007 tags=rare", 1),
        ("book status=available title=\"Common 7*\"", 66),
    ] {
        let aggregation = compiled(&LIBRARY.catalogue, &format!("{query} | count(key), count(tags)"));
        let counted = LIBRARY.store.aggregate(&aggregation.plan, &aggregation.aggregates).unwrap_or_else(|error| panic!("{error} in {query}"));
        assert_eq!(counted, [Value::Int(count), Value::Int(count)], "{query}");
        assert_eq!(LIBRARY.store.count(&aggregation.plan).expect("a count"), count as u64, "{query}");
        assert_eq!(aggregation.columns[0].ty, FieldType::Integer);
    }
}

#[test]
fn words_look_up_their_index() {
    for condition in ["story ~ rare", "story ~ 'common words'", "story ~ '\"rare words\"'", "story ~ ra*"] {
        let wanted = "finds records through the index of words of story";
        assert_eq!(access_path(&format!("book {condition}")), wanted);
        assert_eq!(access_path(&format!("book {condition} note=x | sort pages | grep pages, rank")), wanted);
    }
    // the rarer one of two
    assert_eq!(access_path("book story ~ common pages=7"), "looks up pages in its index");
    assert_eq!(access_path("book story ~ rare pages=7"), "finds records through the index of words of story");
    assert_eq!(keys("book story ~ 'rare words'"), ["b007"]);
    assert_eq!(keys("book tale ~ 'number 12*' | limit 3"), ["b012", "b120", "b121"]);
}

#[test]
fn alternatives_are_looked_up_if_each_has_an_index() {
    let path = access_path("book pages=7 or title='Common 8'");
    assert_eq!(path, "finds the records of each alternative: looks up pages in its index; looks up title in its index");
    let path = access_path("book story ~ rare or tags=rare or (note=x serial=S1) or body='*rare*'");
    let wanted = "finds the records of each alternative: finds records through the index of words of story; \
                  finds records through the index on the elements of tags; looks up serial in its index; finds records through the trigram index on body";
    assert_eq!(path, wanted);
    let path = access_path("book ~ 'rare 7'");
    assert!(path.starts_with("finds the records of each alternative: finds records through the index of words of story; "), "{path}");
    // the rarer one of a condition and alternatives
    assert_eq!(
        access_path("book tags=common (pages=7 or serial=S1)"),
        "finds the records of each alternative: looks up pages in its index; looks up serial in its index"
    );
    assert_eq!(access_path("book serial=S1 (pages=7 or title=Common*)"), "looks up serial in its index");
    for query in ["book pages=7 or note=x", "book pages=7 or not title='Common 8'", "book not (pages=7 or serial=S1)", "book pages=7 or title!=x"] {
        assert_eq!(access_path_and_plan(query).0, "reads every record of the collection", "{query}");
    }
}

#[test]
fn alternatives_with_indexes_find_what_a_scan_finds() {
    for query in [
        "book (pages=7 or title='Common 8')",
        "book (pages=7 or serial=S1) tags=common",
        "book (title=Common* or pages=7)",
        "book (story ~ rare or tags=rare or pages between [3, 5]) | sort pages-, key",
    ] {
        // an alternative without an index, which never holds, makes them a scan
        let scanned = query.replacen(')', " or note=z)", 1);
        let path = access_path_and_plan(&scanned.replace(" tags=common", "")).0;
        assert!(!path.contains("each alternative"), "{path}");
        let indexed = keys(query);
        assert!(!indexed.is_empty(), "{query}");
        assert_eq!(indexed, keys(&scanned), "{query}");
    }
}

/// The keys that a query finds, in its order.
fn keys(query: &str) -> Vec<String> {
    let found = LIBRARY.store.find(&compiled(&LIBRARY.catalogue, &format!("{query} | grep key")).plan).expect("rows");
    found.rows.into_iter().map(|row| row[0].as_text().expect("a key").to_owned()).collect()
}
