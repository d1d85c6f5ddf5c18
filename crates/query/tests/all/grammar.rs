//! Which texts are queries, and the errors for those that are not.
//!
//! A refused text is shown as its author sees it: what is wrong, where, what was expected there, and what to do.
//!
//! The pairs of DAS's own tests, and its list of texts that must fail, are here as far as they are about stored records. The
//! differences are deliberate, and each has its reason:
//!
//! * A query begins with the one collection it is about; DAS chose the collection (its select keys) from the conditions, and
//!   refused a collection without conditions or conditions without a select key. Fields of it may be named with or without its
//!   name, in the lookup as well, with every comparison.
//! * A day is the entire day. In DAS it was its midnight, so that `between` left out its last day.
//! * `last` takes any duration; DAS took up to 24 hours or 60 minutes, and its successor seconds and days too.
//! * `=` and a range on one field hold together like any two conditions; DAS raised an error.
//! * A wildcard pattern covers the entire value everywhere; in a DAS `grep` it was found anywhere inside the value. `!=` is the
//!   opposite of `=`; for text it meant "does not contain".
//! * `grep` with a bare field never drops records, and `unique` applies to the entire result: it needs no sorted input, and pages are cut
//!   afterwards. An aggregate of unique rows over a column that `grep` left out was "N/A"; here it is an error. The middle
//!   values of `median` are those in order of size, not of arrival.
//! * `system=` is a condition on a field that lists the contributors of a record (`derive: sources`); values stay consolidated, and those of each
//!   source are shown next to them (`--by-source`). `instance=` is the tenant: the URLs of its services may contain it.
//! * `records` lists collection and key of the records of all collections that have the fields which `grep` names. `queries`, the texts of other
//!   callers' queries, does not exist, because these are private.
//! * Not about stored records, and so not here: choosing services by values, answering a query from another query's cached answer, expiry times.

use crate::support;

use proptest::prelude::*;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::{Diagnostic, render};
use stook_catalogue::ids::{CollectionId, FieldId, LinkId};
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_query::{GrepItem, MAX_CONDITIONS, MAX_PARTS, MAX_QUERY, MAX_STARS, Query, QueryCondition, Stage, parse};
use stook_store::Queries;
use stook_store::plan::{Comparison, Condition, PlanColumn};
use support::{NOW, Record, compiled, definition, filled, main_tenant, try_compile};

const FILES: &str = "
catalogue: grammar
collections:
  file:
    key: '{name}' # a condition on a field that is the key says something of the key, too
    fields:
      name: text
      dataset: { type: text, index: [equal, prefix] }
      site: { type: [text], fold: true, index: equal }
      size: size
      events: integer
      runs: [integer]
      energy: float
      valid: boolean
      created: timestamp
      day: date
      took: duration
      owner: uuid
      extra: json
      last: text
      in_stock: boolean
    state: { status: text }
  dataset:
    key: name
    fields: { name: text, size: size, date: timestamp, runs: [integer] }
  run:
    key: number
    fields: { number: integer, date: timestamp, dataset: text }
";

/// Refused texts, each as its author sees it, separated by empty lines.
fn refused(catalogue: &str, shown: &str) {
    let catalogue = definition(catalogue);
    for expected in shown.trim_matches('\n').split("\n\n") {
        let line = expected.lines().find(|line| line.starts_with("1 |")).expect("the query is shown");
        let query = line.strip_prefix("1 | ").unwrap_or("");
        let problem = try_compile(&catalogue, query).err().unwrap_or_else(|| panic!("accepted: {query}"));
        let rendered = render("query", query, &[problem], false);
        assert_eq!(rendered.trim_end(), expected, "\nis\n{rendered}\ninstead of\n{expected}");
    }
}

/// Conditions of a query about files or runs.
fn conditions(query: &str) -> Vec<Condition> {
    compiled(&definition(FILES), query).plan.conditions
}

fn column(query: &str) -> PlanColumn {
    compiled(&definition(FILES), query).plan.columns[0]
}

fn text(text: &str) -> Value {
    Value::text(text)
}

fn range(low: Option<(i64, bool)>, high: Option<(i64, bool)>) -> Comparison {
    let bound = |(value, included)| (Value::Int(value), included);
    Comparison::Range { low: low.map(bound), high: high.map(bound) }
}

/// Microseconds of a moment.
fn moment(text: &str) -> i64 {
    from_text(text, &FieldType::Timestamp, None).expect("a moment").as_int().expect("microseconds")
}

#[test]
fn blanks_and_commas_between_conditions_mean_the_same() {
    let catalogue = definition(FILES);
    let wanted = compiled(&catalogue, "file dataset=/a/b events>=5 runs in [1,2]");
    for equivalent in [
        "file dataset = /a/b, events >= 5, runs in [ 1 , 2 ]",
        " file,dataset=/a/b,events>=5,runs in[1,2]",
        "file\n  dataset\t=\n/a/b\u{a0}events>=5 runs  in [1,2] ",
        "file file.dataset=/a/b file.events>=5 file.runs in [1,2]",
    ] {
        assert_eq!(compiled(&catalogue, equivalent), wanted, "{equivalent}");
    }
}

#[test]
fn the_name_of_a_collection_means_its_key() {
    let wanted = [Condition { column: PlanColumn::Key, test: Comparison::Equal(text("/a")) }];
    for equivalent in ["file=/a", "file key=/a", "file file=/a", "file file.key=/a", "file | grep file=/a", "file | grep key = '/a'"] {
        assert_eq!(conditions(equivalent), wanted, "{equivalent}");
    }
    assert_eq!(conditions("file=/a events=5").len(), 2);
    assert_eq!(column("file | grep file"), PlanColumn::Key);
}

#[test]
fn a_key_that_is_a_number_is_found_by_its_text_and_ordered_as_a_number() {
    assert_eq!(conditions("run=+007"), [Condition { column: PlanColumn::Key, test: Comparison::Equal(text("7")) }]);
    assert_eq!(conditions("run!=7"), [Condition { column: PlanColumn::Key, test: Comparison::NotEqual(text("7")) }]);
    assert_eq!(conditions("run in [9, 10]"), [Condition { column: PlanColumn::Key, test: Comparison::In(vec![text("9"), text("10")]) }]);
    assert_eq!(
        conditions("run between [9, 10]"),
        [Condition { column: PlanColumn::Field(FieldId::from(0)), test: range(Some((9, true)), Some((10, true))) }]
    );
    assert_eq!(conditions("run>9"), conditions("run number>9"));
    let sorted = compiled(&definition(FILES), "run | sort run- | max(run)");
    assert_eq!((sorted.plan.sort[0].column, sorted.columns[0].ty.clone()), (PlanColumn::Field(FieldId::from(0)), FieldType::Integer));
}

#[test]
fn values_are_bare_or_in_quotes() {
    for (written, value) in [
        ("/a/b#1", "/a/b#1"),
        ("a-b_c:d;e.f", "a-b_c:d;e.f"),
        ("Ångström", "Ångström"),
        (r"a\b", r"a\b"),
        ("'two words'", "two words"),
        ("''", ""),
        ("'a*b'", "a*b"),
        (r"'a\*'", r"a\*"),
        (r#"'say "a"'"#, r#"say "a""#),
        ("\"it's\"", "it's"),
        (r#""a\*b""#, "a*b"),
        (r#""a\"b\\c\d""#, r#"a"b\c\d"#),
        ("\"a|b, [c] (d) = ! < >\"", "a|b, [c] (d) = ! < >"),
    ] {
        let wanted = [Condition { column: PlanColumn::Field(FieldId::from(0)), test: Comparison::Equal(text(value)) }];
        assert_eq!(conditions(&format!("file name={written}")), wanted, "{written}");
        assert_eq!(conditions(&format!("file name in [{written}]"))[0].test, Comparison::In(vec![text(value)]), "{written}");
    }
}

#[test]
fn a_star_stands_for_any_text_in_bare_and_double_quoted_values() {
    let pieces = |pieces: &[&str]| pieces.iter().map(|piece| (*piece).to_owned()).collect::<Vec<String>>();
    for (written, test) in [
        ("=a*", Comparison::Prefix("a".into())),
        ("=\"a b*\"", Comparison::Prefix("a b".into())),
        ("=*", Comparison::Wildcard(pieces(&["", ""]))),
        ("=*a", Comparison::Wildcard(pieces(&["", "a"]))),
        ("=a*b**c", Comparison::Wildcard(pieces(&["a", "b", "", "c"]))),
        (r#"="a\**""#, Comparison::Prefix("a*".into())),
        ("!=a*", Comparison::NotWildcard(pieces(&["a", ""]))),
        ("!=*a*", Comparison::NotWildcard(pieces(&["", "a", ""]))),
    ] {
        assert_eq!(conditions(&format!("file dataset{written}"))[0].test, test, "{written}");
    }
}

#[test]
fn values_have_the_type_of_their_field() {
    let equal = |value: Value| Comparison::Equal(value);
    for (written, test) in [
        ("events=-5", equal(Value::Int(-5))),
        ("events=1e6", equal(Value::Int(1_000_000))),
        ("events='12'", equal(Value::Int(12))),
        ("energy=2", equal(Value::Float(2.0))),
        ("energy=-1e-3", equal(Value::Float(-0.001))),
        ("size=1e9", equal(Value::Int(1_000_000_000))),
        ("size=1.5GiB", equal(Value::Int(1_610_612_736))),
        ("size='10 kB'", equal(Value::Int(10_000))),
        ("valid=yes", equal(Value::Bool(true))),
        ("valid!=false", Comparison::NotEqual(Value::Bool(false))),
        ("day=1970-01-11", equal(Value::Int(10))),
        ("took=1h30m", equal(Value::Int(5_400_000_000))),
        ("owner=00000000-0000-0000-0000-00000000002a", equal(Value::Uuid(42))),
        ("runs=5", equal(Value::Int(5))),
        ("runs between [1, 5]", range(Some((1, true)), Some((5, true)))),
        ("site=cern", equal(text("cern"))),
        ("conflict=size", equal(text("size"))),
        ("status!=lost", Comparison::NotEqual(text("lost"))),
    ] {
        assert_eq!(conditions(&format!("file {written}"))[0].test, test, "{written}");
    }
}

#[test]
fn a_timestamp_written_as_a_date_is_the_whole_day() {
    let (start, end) = (moment("2018-01-31T00:00:00Z"), moment("2018-02-01T00:00:00Z"));
    for day in ["2018-01-31", "20180131", "'2018-01-31'", "' 2018-01-31 '"] {
        for (written, test) in [
            (format!("= {day}"), range(Some((start, true)), Some((end, false)))),
            (format!("< {day}"), range(None, Some((start, false)))),
            (format!("<= {day}"), range(None, Some((end, false)))),
            (format!("> {day}"), range(Some((end, true)), None)),
            (format!(">= {day}"), range(Some((start, true)), None)),
            (format!("between [{day}, {day}]"), range(Some((start, true)), Some((end, false)))),
        ] {
            assert_eq!(conditions(&format!("file created {written}"))[0].test, test, "{written}");
        }
    }
    let noon = moment("2018-01-31T12:00:00Z");
    assert_eq!(conditions("file created=2018-01-31T12:00:00Z")[0].test, Comparison::Equal(Value::Int(noon)));
    assert_eq!(conditions("file created='2018-01-31 12:00:00'")[0].test, Comparison::Equal(Value::Int(noon)));
    assert_eq!(conditions("file created between [2018-01-31T12:00:00Z, 2018-01-31]")[0].test, range(Some((noon, true)), Some((end, false))));
}

#[test]
fn last_counts_back_from_now() {
    const MINUTE: i64 = 60_000_000;
    for (written, minutes) in
        [("24h", 1_440), ("60m", 60), ("60s", 1), ("7d", 10_080), ("1d12h", 2_160), ("1h30m", 90), ("PT2H", 120), ("'2 hours'", 120)]
    {
        assert_eq!(
            conditions(&format!("file created last {written}"))[0].test,
            range(Some((NOW - minutes * MINUTE, true)), Some((NOW, true))),
            "{written}"
        );
    }
}

#[test]
fn words_that_compare_can_name_fields_and_be_values() {
    let field_column = |name: &str| PlanColumn::Field(definition(FILES).collections[CollectionId::from(0)].field(name).expect("a field").0);
    for (written, name) in [
        ("file last=x", "last"),
        ("file last != x", "last"),
        ("file last in [a, b]", "last"),
        ("file last between[a, b]", "last"),
        ("file in_stock=true", "in_stock"),
        ("file name=in", "name"),
        ("file name = betweenPostfix", "name"),
        ("file name=last, size=1", "name"),
    ] {
        assert_eq!(conditions(written)[0].column, field_column(name), "{written}");
    }
    let shown = compiled(&definition(FILES), "file created last 24h | grep last, in_stock | sort last-");
    assert_eq!((shown.plan.columns, shown.plan.sort[0].column), (vec![field_column("last"), field_column("in_stock")], field_column("last")));
}

#[test]
fn the_order_of_stages_of_different_kinds_does_not_matter() {
    let catalogue = definition(FILES);
    let stages = ["grep size, events>5", "sort size-", "unique", "sum(size), count(file.size)"];
    let wanted = compiled(&catalogue, &format!("file | {}", stages.join(" | ")));
    assert_eq!(wanted.columns.iter().map(|heading| heading.name.as_str()).collect::<Vec<_>>(), ["sum(size)", "count(size)"]);
    for order in [[3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1], [0, 3, 1, 2]] {
        let query = format!("file | {}", order.map(|index: usize| stages[index]).join(" | "));
        assert_eq!(compiled(&catalogue, &query), wanted, "{query}");
    }
    assert_eq!(
        compiled(&catalogue, "file events>5 | grep size | grep size | unique | unique"),
        compiled(&catalogue, "file | grep size, events>5 | unique")
    );
}

#[test]
fn columns_have_the_names_and_types_of_their_fields_without_the_name_of_the_collection() {
    let catalogue = definition(FILES);
    let headings =
        |query: &str| compiled(&catalogue, query).columns.into_iter().map(|heading| format!("{} {}", heading.name, heading.ty)).collect::<Vec<_>>();
    assert_eq!(headings("file | grep file.size, file, site, conflict, size"), ["size size", "key text", "site [text]", "conflict [text]"]);
    assert_eq!(headings("run"), ["key text", "number integer", "date timestamp", "dataset text"]);
    let aggregates = "file | count(site), min(runs), max(created), sum(took), avg(events), avg(took), median(energy)";
    let wanted = [
        "count(site) integer",
        "min(runs) integer",
        "max(created) timestamp",
        "sum(took) duration",
        "avg(events) float",
        "avg(took) duration",
        "median(energy) float",
    ];
    assert_eq!(headings(aggregates), wanted);
}

#[test]
fn a_query_beyond_a_limit_is_refused_with_that_limit() {
    let catalogue = definition(FILES);
    let long = |length: usize| format!("file name='{}'", "é".repeat((length - "file name=''".len()) / 2));
    assert!(try_compile(&catalogue, &long(MAX_QUERY)).is_ok());
    let refusal = |query: &str| try_compile(&catalogue, query).expect_err("too much").message;
    assert_eq!(refusal(&long(MAX_QUERY + 2)), "a query has at most 65536 bytes, this one has 65538");
    let conditions = "size=1 ".repeat(MAX_CONDITIONS);
    assert!(try_compile(&catalogue, &format!("file {conditions}")).is_ok());
    assert_eq!(refusal(&format!("file {conditions} | grep events=1")), "a query has at most 200 conditions");
    let fields = vec!["size"; MAX_PARTS].join(",");
    assert!(try_compile(&catalogue, &format!("file | sort {fields}")).is_ok());
    assert_eq!(refusal(&format!("file | sort {fields} | sort events")), "a query sorts by at most 100 fields");
    let sums = vec!["sum(size)"; MAX_PARTS].join(",");
    assert!(try_compile(&catalogue, &format!("file | {sums}")).is_ok());
    assert_eq!(refusal(&format!("file | {sums} | count(size)")), "a query has at most 100 aggregates");
    assert!(try_compile(&catalogue, &format!("file name={}", "*".repeat(MAX_STARS))).is_ok());
    assert_eq!(refusal(&format!("file name={}", "*".repeat(MAX_STARS + 1))), "a value has at most 100 `*`");
    assert_eq!(refusal("file name='a\0b'"), "a query has no NUL character");
}

#[test]
fn the_largest_queries_are_answered() {
    let catalogue = definition(FILES);
    let mut record = Record::empty("a", &catalogue.collections[CollectionId::from(0)]);
    record.golden[0] = text(&"a".repeat(200_000));
    record.golden[3] = Value::Int(1);
    let filled = filled(catalogue, &[(main_tenant(), &[record])]);
    let numbers = (0..).map(|number: u32| (number % 10).to_string()).take(MAX_QUERY / 2 - 10).collect::<Vec<_>>().join(",");
    for (query, rows) in [
        (format!("file {}", "size=1 ".repeat(MAX_CONDITIONS)), 1),
        (format!("file {}", "site!=x ".repeat(MAX_CONDITIONS)), 1),
        (format!("file size in [{numbers}]"), 1),
        (format!("file runs in [{numbers}]"), 0),
        (format!("file | sort {}", vec!["size-"; MAX_PARTS].join(",")), 1),
        (format!("file name={}b", "a*".repeat(MAX_STARS)), 0),
        (format!("file name={}", "a*".repeat(MAX_STARS)), 1),
        (format!("file name={}*", "a".repeat(40_000)), 1),
        (format!("file site={}*b", "a".repeat(40_000)), 0),
    ] {
        let plan = compiled(&filled.catalogue, &query).plan;
        let found = filled.store.find(&plan).unwrap_or_else(|error| panic!("{error} in {:.60}", query));
        assert_eq!((found.rows.len(), filled.store.count(&plan).expect("it is counted")), (rows, rows as u64), "{query:.60}");
    }
    let pattern = compiled(&filled.catalogue, &format!("file name=\"*{}\"", "?".repeat(20_000))).plan;
    let refusal = filled.store.find(&pattern).expect_err("too long for the database").to_string();
    assert_eq!(refusal, "a pattern has at most 50000 bytes, this one has 60001");
}

#[test]
fn a_query_begins_with_a_collection() {
    refused(
        FILES,
        r#"
error: expected a collection
 --> query:1:1
  |
1 | | unique
  | ^
  |
  = help: for example: authority heading=Smith*

error: expected a collection
 --> query:1:1
  |
1 | =5
  | ^
  |
  = help: for example: authority heading=Smith*

error: expected a collection
 --> query:1:1
  |
1 | 'file'
  | ^
  |
  = help: for example: authority heading=Smith*

error: there is no collection `files`
 --> query:1:1
  |
1 | files dataset=x
  | ^^^^^
  |
  = help: did you mean `file`?

error: there is no collection `flie`
 --> query:1:1
  |
1 | flie
  | ^^^^
  |
  = help: did you mean `file`?

error: there is no collection `person`
 --> query:1:1
  |
1 | person
  | ^^^^^^
  |
  = help: collections are file, dataset, run

error: there is no collection `file.name`
 --> query:1:1
  |
1 | file.name=x
  | ^^^^^^^^^
  |
  = help: write the collection first, then its fields: file name=value
"#,
    );
}

#[test]
fn conditions_are_combined_by_words_and_parentheses() {
    let catalogue = definition(FILES);
    let conditions = |query: &str| {
        let plan = try_compile(&catalogue, query).unwrap_or_else(|problem| panic!("{query}: {}", problem.message)).plan;
        (plan.conditions, plan.combined)
    };
    for (one, other) in [
        ("file events=1 and dataset=x", "file events=1, dataset=x"),
        ("file (events=1 AND dataset=x)", "file events=1 dataset=x"),
        ("file events=1 dataset=x or events=2", "file (events=1 and dataset=x) or events=2"),
        ("file events=1 or events=2 or events in [3, 4]", "file events in [1, 2, 3, 4]"),
        ("file not not (events<1 or dataset=x)", "file events<1 or dataset=x"),
        ("file not (events<1 dataset=x)", "file not events<1 or not dataset=x"),
        ("file not (events<1 or dataset=x)", "file (not events<1 and not dataset=x)"),
        ("events<1 or dataset=x file", "file events<1 or dataset=x"),
        ("file | grep events<1 or dataset=x", "file events<1 or dataset=x"),
        ("file | grep (events<1 dataset=x), name", "file events<1 dataset=x"),
    ] {
        assert_eq!(conditions(one), conditions(other), "{one}");
    }
    // the words are names where a comparison follows
    let problem = try_compile(&catalogue, "file or=1").expect_err("there is no such field");
    assert_eq!(problem.message, "`file` has no field `or`");
    // no deeper than a stack allows
    let deep = format!("file {}events=1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(try_compile(&catalogue, &deep).err().map(|problem| problem.message).as_deref(), Some("parentheses and `not` can be 32 deep"));
}

#[test]
fn conditions_follow_the_collection() {
    refused(
        FILES,
        r#"
error: expected a comparison after `dataset`: = != < <= > >= ~ in between last intersects within
 --> query:1:13
  |
1 | file dataset
  |             ^
  |
  = help: for example dataset=value; or, if `dataset` belongs to a value, quotes around all of it

error: expected a comparison after `run`: = != < <= > >= ~ in between last intersects within
 --> query:1:11
  |
1 | file, run dataset=x
  |           ^^^^^^^
  |
  = help: for example run=value; or, if `run` belongs to a value, quotes around all of it

error: expected a comparison after `dataset`: = != < <= > >= ~ in between last intersects within
 --> query:1:13
  |
1 | file dataset,
  |             ^
  |
  = help: for example dataset=value; or, if `dataset` belongs to a value, quotes around all of it

error: expected a condition after `,`
 --> query:1:16
  |
1 | file dataset=x,
  |                ^
  |
  = help: leave out the last `,`

error: expected a condition, `|` or the end
 --> query:1:7
  |
1 | file ,, events=1
  |       ^
  |
  = help: a value with blanks, quotes or any of , | [ ] ( ) = < > ! needs quotes around it

error: this parenthesis is never closed
 --> query:1:6
  |
1 | file (events=1
  |      ^
  |
  = help: for example: (status=read or pages<100) not subjects=travel

error: expected a condition
 --> query:1:15
  |
1 | file (events=1]
  |               ^
  |
  = help: for example: (status=read or pages<100) not subjects=travel

error: expected a condition
 --> query:1:7
  |
1 | file ()
  |       ^
  |
  = help: for example: (status=read or pages<100) not subjects=travel

error: expected a condition after `and`
 --> query:1:19
  |
1 | file dataset=x and
  |                   ^
  |
  = help: for example: (status=read or pages<100) not subjects=travel

error: expected a condition after `or`
 --> query:1:19
  |
1 | file dataset=x or )
  |                   ^
  |
  = help: for example: (status=read or pages<100) not subjects=travel

error: expected a condition after `not`
 --> query:1:10
  |
1 | file not | unique
  |          ^
  |
  = help: for example: (status=read or pages<100) not subjects=travel

error: expected a condition before `OR`
 --> query:1:6
  |
1 | file OR events=1
  |      ^^
  |
  = help: for example: (status=read or pages<100) not subjects=travel

error: `sort` is a stage
 --> query:1:16
  |
1 | file dataset=x sort events
  |                ^^^^
  |
  = help: stages begin with `|`: | sort

error: `file` has no field `evnts`
 --> query:1:6
  |
1 | file evnts=1
  |      ^^^^^
  |
  = help: did you mean `events`?

error: `file` has no field `colour`
 --> query:1:6
  |
1 | file colour=red
  |      ^^^^^^
  |
  = help: its fields are name, dataset, site, size, events, runs, energy, valid, created, day, took, owner, extra, last, in_stock, status, key, conflict

error: `file` has no field `run.number`
 --> query:1:6
  |
1 | file run.number=1
  |      ^^^^^^^^^^
  |
  = help: its fields are name, dataset, site, size, events, runs, energy, valid, created, day, took, owner, extra, last, in_stock, status, key, conflict

error: expected a comparison after `dataset`: = != < <= > >= ~ in between last intersects within
 --> query:1:14
  |
1 | file dataset : x
  |              ^
  |
  = help: for example dataset=value; or, if `dataset` belongs to a value, quotes around all of it

error: expected a comparison after `dataset`: = != < <= > >= ~ in between last intersects within
 --> query:1:14
  |
1 | file dataset IN [a]
  |              ^^
  |
  = help: did you mean `in`?

error: expected a comparison after `dataset`: = != < <= > >= ~ in between last intersects within
 --> query:1:14
  |
1 | file dataset betwen [a, b]
  |              ^^^^^^
  |
  = help: did you mean `between`?

error: expected a comparison after `John`: = != < <= > >= ~ in between last intersects within
 --> query:1:22
  |
1 | file name=Smith, John
  |                      ^
  |
  = help: for example John=value; or, if `John` belongs to a value, quotes around all of it
"#,
    );
}

#[test]
fn a_value_is_bare_or_quoted() {
    refused(
        FILES,
        r#"
error: expected a value
 --> query:1:11
  |
1 | file size=
  |           ^
  |
  = help: a value with blanks, quotes or any of , | [ ] ( ) = < > ! needs quotes around it

error: expected a value
 --> query:1:12
  |
1 | file size= | unique
  |            ^
  |
  = help: a value with blanks, quotes or any of , | [ ] ( ) = < > ! needs quotes around it

error: expected a value
 --> query:1:11
  |
1 | file size==5
  |           ^
  |
  = help: comparisons are = != < <= > >= ~ in between last intersects within

error: expected a value
 --> query:1:11
  |
1 | file size=>5
  |           ^
  |
  = help: comparisons are = != < <= > >= ~ in between last intersects within

error: expected a value
 --> query:1:11
  |
1 | file size<>5
  |           ^
  |
  = help: comparisons are = != < <= > >= ~ in between last intersects within

error: expected one value, not a list
 --> query:1:11
  |
1 | file size=[1,2]
  |           ^
  |
  = help: for example: size in [a, b]

error: there is a quote inside a value
 --> query:1:12
  |
1 | file name=O'Neil
  |            ^
  |
  = help: put all of the value into the other kind of quotes: "O'Neil"

error: the value continues after its closing quote
 --> query:1:14
  |
1 | file name='O'Neil'
  |              ^^^^
  |
  = help: put the entire value in quotes, followed by a space or `,`

error: the value continues after its closing quote
 --> query:1:16
  |
1 | file name="abc"def
  |                ^^^
  |
  = help: put the entire value in quotes, followed by a space or `,`

error: this quote is never closed
 --> query:1:11
  |
1 | file name="abc
  |           ^
  |
  = help: a quote inside a value needs the other kind of quotes around it

error: this quote is never closed
 --> query:1:11
  |
1 | file name='abc
  |           ^
  |
  = help: a quote inside a value needs the other kind of quotes around it
"#,
    );
}

#[test]
fn a_value_has_the_type_of_its_field() {
    refused(
        FILES,
        r#"
error: "big" is not a size (1234, 10 kB, 1.5 GiB)
 --> query:1:11
  |
1 | file size=big
  |           ^^^
  |
  = help: for example: 1.5GB, 512MiB or 1e9

error: "1.5" is not an integer
 --> query:1:13
  |
1 | file events=1.5
  |             ^^^
  |
  = help: for example: 42 or 1e6

error: "1e-3" is not an integer
 --> query:1:13
  |
1 | file events=1e-3
  |             ^^^^
  |
  = help: for example: 42 or 1e6

error: "NaN" is not a finite number
 --> query:1:13
  |
1 | file energy=NaN
  |             ^^^
  |
  = help: for example: 2.5 or 1e-3

error: "maybe" is not a boolean (true, false, 1, 0, yes, no)
 --> query:1:12
  |
1 | file valid=maybe
  |            ^^^^^
  |
  = help: for example: true

error: "2018-02-30" is not a timestamp (RFC 3339, or a date and time in UTC)
 --> query:1:14
  |
1 | file created=2018-02-30
  |              ^^^^^^^^^^
  |
  = help: for example: 2018-01-31 for the whole day, or 2018-01-31T12:30:00Z

error: "2018" is not a timestamp (RFC 3339, or a date and time in UTC)
 --> query:1:14
  |
1 | file created=2018
  |              ^^^^
  |
  = help: for example: 2018-01-31 for the whole day, or 2018-01-31T12:30:00Z

error: "20180230" is not a date (YYYY-MM-DD)
 --> query:1:10
  |
1 | file day=20180230
  |          ^^^^^^^^
  |
  = help: for example: 2018-01-31

error: "90" is not a duration (1h30m, PT90M, or a number with `format: s`)
 --> query:1:11
  |
1 | file took=90
  |           ^^
  |
  = help: for example: 1h30m

error: "42" is not a UUID
 --> query:1:12
  |
1 | file owner=42
  |            ^^
  |
  = help: for example: 67e55044-10b1-426f-9247-bb680e5fe0c8

error: "5a" is not an integer
 --> query:1:11
  |
1 | file runs=5a
  |           ^^
  |
  = help: for example: 42 or 1e6

error: `extra` is of type json, which cannot be compared
 --> query:1:6
  |
1 | file extra=1
  |      ^^^^^
  |
  = help: it can only be shown (`grep`) and counted
"#,
    );
}

#[test]
fn wildcards_are_for_equality_of_text() {
    refused(
        FILES,
        r#"
error: `*` is for text, `size` is of type size
 --> query:1:11
  |
1 | file size=1*
  |           ^^
  |
  = help: leave the condition out for records with any value, or compare with < <= > >=

error: `*` is only for = and !=
 --> query:1:14
  |
1 | file dataset>a*
  |              ^^
  |
  = help: in single quotes it is a star

error: `*` is only for = and !=
 --> query:1:18
  |
1 | file dataset in [a*]
  |                  ^^
  |
  = help: in single quotes it is a star

error: `*` is only for = and !=
 --> query:1:25
  |
1 | file events between [1, *]
  |                         ^
  |
  = help: in single quotes it is a star
"#,
    );
}

#[test]
fn lists_are_written_in_brackets() {
    refused(
        FILES,
        r#"
error: expected a list
 --> query:1:17
  |
1 | file dataset in x
  |                 ^
  |
  = help: `in` takes a list in brackets: in [a, b]

error: expected a list
 --> query:1:16
  |
1 | file dataset in
  |                ^
  |
  = help: `in` takes a list in brackets: in [a, b]

error: expected a list
 --> query:1:17
  |
1 | file dataset in (a, b)
  |                 ^
  |
  = help: `in` takes a list in brackets: in [a, b]

error: expected a value
 --> query:1:18
  |
1 | file dataset in []
  |                  ^
  |
  = help: a value with blanks, quotes or any of , | [ ] ( ) = < > ! needs quotes around it

error: expected `,` or `]`
 --> query:1:19
  |
1 | file dataset in [a
  |                   ^
  |
  = help: a value with blanks, quotes or any of , | [ ] ( ) = < > ! needs quotes around it

error: expected `,` or `]`
 --> query:1:20
  |
1 | file dataset in [a b]
  |                    ^
  |
  = help: a value with blanks, quotes or any of , | [ ] ( ) = < > ! needs quotes around it

error: expected a value
 --> query:1:20
  |
1 | file dataset in [a,]
  |                    ^
  |
  = help: a value with blanks, quotes or any of , | [ ] ( ) = < > ! needs quotes around it

error: "two" is not an integer
 --> query:1:20
  |
1 | file events in [1, two]
  |                    ^^^
  |
  = help: for example: 42 or 1e6

error: expected a list
 --> query:1:21
  |
1 | file events between 5
  |                     ^
  |
  = help: `between` takes two values in brackets: between [1, 5]

error: expected two values, there is 1
 --> query:1:21
  |
1 | file events between [5]
  |                     ^^^
  |
  = help: for example: between [1, 5]

error: expected two values, there are 3
 --> query:1:21
  |
1 | file events between [1, 2, 3]
  |                     ^^^^^^^^^
  |
  = help: for example: between [1, 5]
"#,
    );
}

#[test]
fn days_and_time_spans_are_for_timestamps() {
    refused(
        FILES,
        r#"
error: a day is a range of times, not one time
 --> query:1:40
  |
1 | file created in [2018-01-01T00:00:00Z, 2018-01-31]
  |                                        ^^^^^^^^^^
  |
  = help: `between [first day, last day]` takes whole days

error: `!=` does not take a whole day
 --> query:1:15
  |
1 | file created!=2018-01-31
  |               ^^^^^^^^^^
  |
  = help: `<` is before the day, `>` after it

error: expected a value
 --> query:1:18
  |
1 | file created last
  |                  ^
  |
  = help: a value with blanks, quotes or any of , | [ ] ( ) = < > ! needs quotes around it

error: expected a duration
 --> query:1:19
  |
1 | file created last week
  |                   ^^^^
  |
  = help: for example: 24h, 60m or 7d

error: expected a duration
 --> query:1:19
  |
1 | file created last 24
  |                   ^^
  |
  = help: for example: 24h, 60m or 7d

error: expected a duration
 --> query:1:19
  |
1 | file created last -2h
  |                   ^^^
  |
  = help: for example: 24h, 60m or 7d

error: expected one value, not a list
 --> query:1:19
  |
1 | file created last [1h, 2h]
  |                   ^
  |
  = help: for example: last 24h

error: `last` needs a timestamp, `events` is of type integer
 --> query:1:6
  |
1 | file events last 24h
  |      ^^^^^^
  |
  = help: compare it with values: < <= > >= between

error: `last` needs a timestamp, `file` is of type text
 --> query:1:1
  |
1 | file last 24h
  | ^^^^
  |
  = help: compare it with values: < <= > >= between
"#,
    );
}

#[test]
fn a_stage_begins_with_its_name() {
    refused(
        FILES,
        r#"
error: expected a stage
 --> query:1:7
  |
1 | file |
  |       ^
  |
  = help: stages are grep, sort, limit, unique, each, sum, count, min, max, avg, median, percentile

error: expected a stage
 --> query:1:8
  |
1 | file | | unique
  |        ^
  |
  = help: stages are grep, sort, limit, unique, each, sum, count, min, max, avg, median, percentile

error: `greb` is not a stage
 --> query:1:8
  |
1 | file | greb size
  |        ^^^^
  |
  = help: did you mean `grep`?

error: `many` is not a number of rows
 --> query:1:14
  |
1 | file | limit many
  |              ^^^^
  |
  = help: for example: limit 10

error: `0` is not a number of rows
 --> query:1:14
  |
1 | file | limit 0
  |              ^
  |
  = help: for example: limit 10

error: expected `|` or the end
 --> query:1:17
  |
1 | file | limit 10 20
  |                 ^^
  |
  = help: `limit` takes one number: limit 10

error: expected `|` or the end
 --> query:1:15
  |
1 | file | unique size
  |               ^^^^
  |
  = help: `unique` is about whole rows; `grep` chooses their columns

error: expected `|` or the end
 --> query:1:14
  |
1 | file | unique(size)
  |              ^
  |
  = help: `unique` is about whole rows; `grep` chooses their columns
"#,
    );
}

#[test]
fn grep_takes_fields_and_conditions() {
    refused(
        FILES,
        r#"
error: expected a field
 --> query:1:12
  |
1 | file | grep
  |            ^
  |
  = help: `grep` takes fields to show and conditions: grep name, size>5

error: expected a field
 --> query:1:18
  |
1 | file | grep size,
  |                  ^
  |
  = help: `grep` takes fields to show and conditions: grep name, size>5

error: expected `,`, `|` or the end
 --> query:1:18
  |
1 | file | grep size events
  |                  ^^^^^^
  |
  = help: fields and conditions are separated by `,`

error: `file` has no field `evnts`
 --> query:1:13
  |
1 | file | grep evnts
  |             ^^^^^
  |
  = help: did you mean `events`?

error: `extra` is of type json, which cannot be compared
 --> query:1:13
  |
1 | file | grep extra=1
  |             ^^^^^
  |
  = help: it can only be shown (`grep`) and counted
"#,
    );
}

#[test]
fn sort_takes_fields_with_an_order() {
    refused(
        FILES,
        r#"
error: expected a field
 --> query:1:12
  |
1 | file | sort
  |            ^
  |
  = help: write `-` after the field: sort size-

error: expected `,`, `|` or the end
 --> query:1:18
  |
1 | file | sort size desc
  |                  ^^^^
  |
  = help: fields are separated by `,`, and `-` after one sorts it in descending order

error: expected a field
 --> query:1:13
  |
1 | file | sort -size
  |             ^^^^^
  |
  = help: write `-` after the field: sort size-

error: expected a field
 --> query:1:19
  |
1 | file | sort size-,
  |                   ^
  |
  = help: write `-` after the field: sort size-

error: `runs` is of type [integer], which has no order
 --> query:1:13
  |
1 | file | sort runs
  |             ^^^^
  |
  = help: sort by a field with one value, or by `key`

error: `extra` is of type json, which has no order
 --> query:1:13
  |
1 | file | sort extra
  |             ^^^^^
  |
  = help: sort by a field with one value, or by `key`

error: unique rows can only be sorted by a column they have
 --> query:1:22
  |
1 | file | unique | sort size | grep name
  |                      ^^^^
  |
  = help: add it to the columns: grep size

error: unique rows can only be sorted by a column they have
 --> query:1:13
  |
1 | file | sort size | grep name | sort name | unique
  |             ^^^^
  |
  = help: add it to the columns: grep size
"#,
    );
}

#[test]
fn aggregates_take_one_field_each() {
    refused(
        FILES,
        r#"
error: expected `(`
 --> query:1:13
  |
1 | file | count
  |             ^
  |
  = help: an aggregate names its field: count(field)

error: expected a field
 --> query:1:14
  |
1 | file | count()
  |              ^
  |
  = help: an aggregate names its field: count(field)

error: expected a field
 --> query:1:14
  |
1 | file | count(*)
  |              ^
  |
  = help: an aggregate names its field: count(field)

error: expected `)`
 --> query:1:18
  |
1 | file | count(size
  |                  ^
  |
  = help: an aggregate is about one field: count(size)

error: expected `)`
 --> query:1:18
  |
1 | file | count(size, events)
  |                  ^
  |
  = help: an aggregate is about one field: count(size)

error: `dataset` is of type text, not a number
 --> query:1:12
  |
1 | file | sum(dataset)
  |            ^^^^^^^
  |
  = help: count(dataset) takes values of any type

error: `valid` is of type boolean, not a number
 --> query:1:12
  |
1 | file | avg(valid)
  |            ^^^^^
  |
  = help: count(valid) takes values of any type

error: `extra` is of type json, which has no order
 --> query:1:12
  |
1 | file | min(extra)
  |            ^^^^^
  |
  = help: count(extra) takes values of any type

error: `medain` is not a stage
 --> query:1:8
  |
1 | file | medain(size)
  |        ^^^^^^
  |
  = help: did you mean `median`?

error: `cuont` is not an aggregate
 --> query:1:19
  |
1 | file | sum(size), cuont(size)
  |                   ^^^^^
  |
  = help: did you mean `count`?

error: `size` is not an aggregate
 --> query:1:19
  |
1 | file | sum(size), size
  |                   ^^^^
  |
  = help: aggregates are sum, count, min, max, avg, median, percentile

error: `grep` is not an aggregate
 --> query:1:19
  |
1 | file | sum(size), grep size
  |                   ^^^^
  |
  = help: stages begin with `|`: | grep

error: expected `,`, `by`, `|` or the end
 --> query:1:18
  |
1 | file | sum(size) count(size)
  |                  ^^^^^
  |
  = help: aggregates are separated by `,`; `by` and fields after them group the rows

error: expected `(`
 --> query:1:18
  |
1 | file | percentile
  |                  ^
  |
  = help: an aggregate names its field: percentile(field, 95)

error: expected `,` and a percentile
 --> query:1:23
  |
1 | file | percentile(size)
  |                       ^
  |
  = help: for example: percentile(size, 95)

error: `120` is not a percentile
 --> query:1:25
  |
1 | file | percentile(size, 120)
  |                         ^^^
  |
  = help: a number from 0 to 100, with at most two decimals: percentile(size, 99.9)

error: `99.999` is not a percentile
 --> query:1:25
  |
1 | file | percentile(size, 99.999)
  |                         ^^^^^^
  |
  = help: a number from 0 to 100, with at most two decimals: percentile(size, 99.9)

error: `dataset` is of type text, not a number
 --> query:1:19
  |
1 | file | percentile(dataset, 5)
  |                   ^^^^^^^
  |
  = help: count(dataset) takes values of any type

error: an aggregate of unique rows needs a column they have
 --> query:1:33
  |
1 | file | grep name | unique | sum(size)
  |                                 ^^^^
  |
  = help: add it to the columns: grep size
"#,
    );
}

#[test]
fn groups_follow_aggregates() {
    refused(
        FILES,
        r#"
error: `group` is not a stage
 --> query:1:8
  |
1 | file | group by status
  |        ^^^^^
  |
  = help: aggregates come first, then `by`: | count(key) by status

error: `by` is not a stage
 --> query:1:8
  |
1 | file | by status
  |        ^^
  |
  = help: aggregates come first, then `by`: | count(key) by status

error: rows are grouped by `by` alone
 --> query:1:19
  |
1 | file | count(key) group by status
  |                   ^^^^^
  |
  = help: leave out `group`: count(key) by status

error: rows are grouped by `by` alone
 --> query:1:19
  |
1 | file | count(key) GROUP BY status
  |                   ^^^^^
  |
  = help: leave out `group`: count(key) by status

error: `BY` is written `by`
 --> query:1:19
  |
1 | file | count(key) BY status
  |                   ^^
  |
  = help: words are written in small letters

error: rows are grouped in a stage
 --> query:1:13
  |
1 | file size>5 group by status
  |             ^^^^^
  |
  = help: aggregates come first, then `by`: | count(key) by status

error: expected a field
 --> query:1:21
  |
1 | file | count(key) by
  |                     ^
  |
  = help: `by` takes fields, and periods of times: by status, month(changed)

error: expected `,`, `|` or the end
 --> query:1:29
  |
1 | file | count(key) by status size
  |                             ^^^^
  |
  = help: the fields after `by` are separated by `,`

error: `sum` is an aggregate
 --> query:1:30
  |
1 | file | count(key) by status, sum(size)
  |                              ^^^
  |
  = help: aggregates come first, then `by`: | count(key) by status

error: there is no function `mont` here
 --> query:1:22
  |
1 | file | count(key) by mont(created)
  |                      ^^^^
  |
  = help: did you mean `month`?

error: there is no function `hour` here
 --> query:1:22
  |
1 | file | count(key) by hour(created)
  |                      ^^^^
  |
  = help: functions are day, week, month, year

error: `status` is of type text, which has no month
 --> query:1:28
  |
1 | file | count(key) by month(status)
  |                            ^^^^^^
  |
  = help: day, week, month and year are of timestamps and dates

error: `extra` is of type json, by which rows are not grouped
 --> query:1:22
  |
1 | file | count(key) by extra
  |                      ^^^^^
  |
  = help: group by fields whose values have an order, or lists of such values

error: `file` has no field `staus`
 --> query:1:22
  |
1 | file | count(key) by staus
  |                      ^^^^^
  |
  = help: did you mean `status`?

error: rows are grouped by at most 4 columns
 --> query:1:56
  |
1 | file | count(key) by status, valid, day, day(created), owner
  |                                                        ^^^^^
  |
  = help: ask twice, with some of them each time

error: rows are grouped once
 --> query:1:44
  |
1 | file | count(key) by status | sum(size) by valid
  |                                            ^^^^^
  |
  = help: write all columns after one `by`, separated by `,`

error: groups can only be sorted by a column they have
 --> query:1:36
  |
1 | file | count(key) by status | sort size
  |                                    ^^^^
  |
  = help: their columns are status, count(key)

error: groups can only be sorted by a column they have
 --> query:1:42
  |
1 | file | count(key) by day(created) | sort created
  |                                          ^^^^^^^
  |
  = help: their columns are day(created), count(key)

error: groups can only be sorted by a column they have
 --> query:1:17
  |
1 | file | sort sum(size) | count(key) by status
  |                 ^^^^
  |
  = help: their columns are status, count(key)

error: `count(key)` is no column of the rows
 --> query:1:19
  |
1 | file | sort count(key)
  |                   ^^^
  |
  = help: `by` after aggregates groups the rows; then their columns can be sorted by: | count(key) by status

error: there is no function `length` here
 --> query:1:13
  |
1 | file | sort length(name)
  |             ^^^^^^
  |
  = help: functions are sum, count, min, max, avg, median, percentile, day, week, month, year

error: unique rows can only be grouped by a column they have
 --> query:1:42
  |
1 | file | grep size | unique | sum(size) by status
  |                                          ^^^^^^
  |
  = help: add it to the columns: grep status
"#,
    );
}

#[test]
fn groups_have_their_columns_before_the_aggregates_and_are_sorted_by_all_of_them() {
    let catalogue = definition(FILES);
    let grouped = |query: &str| {
        let compiled = compiled(&catalogue, query);
        let headings: Vec<String> = compiled.columns.iter().map(|heading| format!("{} {}", heading.name, heading.ty)).collect();
        (headings, compiled.grouping.expect("it is grouped"), compiled.aggregates.len())
    };
    let (headings, grouping, aggregates) = grouped(
        "file size>5 | sort percentile(file.size, 99.90)-, day | sum(size), percentile(size, 99.9) by file.site, month(created), day, file.site",
    );
    assert_eq!(headings, ["site text", "month(created) date", "day date", "sum(size) size", "percentile(size, 99.9) size"]);
    assert_eq!((grouping.by.len(), aggregates), (3, 2), "a column that is named twice is one");
    let sort: Vec<(usize, bool)> = grouping.sort.iter().map(|sort| (sort.position, sort.descending)).collect();
    assert_eq!(sort, [(4, true), (2, false)]);
    for query in [
        "file | sum(size) by status | sort status",
        "file | sort status | sum(size)by status",
        "file|sum(size) by\nstatus|sort file.status",
        "file | sum(size) | sort status | count(key) by status",
    ] {
        let (_, grouping, _) = grouped(&query.replace("\\n", "\n"));
        assert_eq!((grouping.by.len(), grouping.sort.len()), (1, 1), "{query}");
    }
    // no word is reserved
    let words = definition("catalogue: words\ncollections: { by: { key: by, fields: { by: text, day: date, percentile: integer, group: text } } }");
    let columns = compiled(
        &words,
        "by by=x group=y | count(by), percentile(percentile, 5) by day, day(day), by, group | sort day(day)-, percentile(percentile, 5)",
    )
    .columns;
    let names: Vec<&str> = columns.iter().map(|heading| heading.name.as_str()).collect();
    assert_eq!(names, ["day", "day(day)", "key", "group", "count(key)", "percentile(percentile, 5)"]);
}

#[test]
fn the_largest_groupings_are_answered() {
    let catalogue = definition(FILES);
    let mut record = Record::empty("a", &catalogue.collections[CollectionId::from(0)]);
    record.golden[3] = Value::Int(1);
    record.golden[5] = Value::List([1, 2, 2].map(Value::Int).to_vec());
    let filled = filled(catalogue, &[(main_tenant(), &[record])]);
    let functions = ["median", "sum", "avg", "max", "count"];
    let aggregates: Vec<String> =
        (0..MAX_PARTS).map(|number| format!("{}({})", functions[number % 5], ["size", "runs", "events", "energy"][number % 4])).collect();
    let sort: Vec<&str> = aggregates.iter().map(String::as_str).collect();
    let query = format!("file | {} by runs, site, month(created), week(day) | sort {}", aggregates.join(","), sort.join("-,"));
    let compiled = compiled(&filled.catalogue, &query);
    let groups = filled.store.group(&compiled.plan, &compiled.aggregates, compiled.grouping.as_ref().expect("it is grouped")).expect("groups");
    assert_eq!((groups.total, groups.rows.len()), (2, 2));
    assert_eq!(groups.rows[0][..4], [Value::Int(1), Value::Null, Value::Null, Value::Null]);
}

// --- what DAS's own tests say

#[test]
fn pairs_of_das_about_conditions_mean_the_same_here() {
    let condition = |column: PlanColumn, test: Comparison| Condition { column, test };
    let closed_range = |low: i64, high: i64| range(Some((low, true)), Some((high, true)));
    assert_eq!(conditions("run between [20853,20859]"), [condition(PlanColumn::Field(FieldId::from(0)), closed_range(20_853, 20_859))]);
    assert_eq!(conditions("file='two words'"), [condition(PlanColumn::Key, Comparison::Equal(text("two words")))]);
    assert_eq!(conditions("dataset=/a/b/c runs=123 | grep dataset.size")[1].test, Comparison::Equal(Value::Int(123)));
    assert_eq!(column("dataset=/a/b/c runs=123 | grep dataset.size"), PlanColumn::Field(FieldId::from(1)));
    assert_eq!(conditions("file events>=1 events!=1 events<0"), conditions("file events >= 1 events != 1 events < 0"));
    let both = [
        condition(PlanColumn::Field(FieldId::from(3)), range(Some((1, false)), None)),
        condition(PlanColumn::Field(FieldId::from(3)), range(None, Some((10, true)))),
    ];
    assert_eq!(conditions("file | grep file.size>1, file.size<=10"), both);
    let with_sum = compiled(&definition(FILES), "file dataset=123 | grep file.size | sum(file.size)");
    assert_eq!(with_sum.plan.conditions[0].test, Comparison::Equal(text("123")));
    assert_eq!((with_sum.columns.len(), with_sum.aggregates.len()), (1, 1));
    let hour = 3_600_000_000;
    assert_eq!(conditions("run date last 24h")[0].test, closed_range(NOW - 24 * hour, NOW));
    assert_eq!(conditions("run date last 60m")[0].test, closed_range(NOW - hour, NOW));
}

#[test]
fn a_day_of_das_is_the_whole_day_here() {
    let from = |seconds: i64, days: i64| range(Some((seconds * 1_000_000, true)), Some(((seconds + days * 86_400) * 1_000_000, false)));
    assert_eq!(conditions("dataset date=20110124")[0].test, from(1_295_827_200, 1));
    assert_eq!(conditions("run date between [20101201, 20101202]")[0].test, from(1_291_161_600, 2));
    assert_eq!(conditions("file=abcdeasdf dataset=abcdes created = 20080201")[2].test, from(1_201_824_000, 1));
    assert_eq!(conditions("run date=20120101")[0].test, from(1_325_376_000, 1));
    assert_eq!(conditions("run date='2012-01-01 00:00:01'")[0].test, Comparison::Equal(Value::Int(1_325_376_001_000_000)));
}

#[test]
fn das_texts_that_must_fail_fail_here_where_they_are_about_records() {
    refused(
        FILES,
        r#"
error: expected a list
 --> query:1:12
  |
1 | dataset in 2010
  |            ^^^^
  |
  = help: `in` takes a list in brackets: in [a, b]

error: `last` needs a timestamp, `run` is of type integer
 --> query:1:1
  |
1 | run last dataset
  | ^^^
  |
  = help: compare it with values: < <= > >= between

error: expected one value, not a list
 --> query:1:15
  |
1 | run date last [20101201, 20101202]
  |               ^
  |
  = help: for example: last 24h

error: there is no collection `dataset.name`
 --> query:1:1
  |
1 | dataset.name dataset=/a/b
  | ^^^^^^^^^^^^
  |
  = help: write the collection first, then its fields: dataset name=value

error: "2010-13-01" is not a timestamp (RFC 3339, or a date and time in UTC)
 --> query:1:10
  |
1 | run date=2010-13-01
  |          ^^^^^^^^^^
  |
  = help: for example: 2018-01-31 for the whole day, or 2018-01-31T12:30:00Z

error: "2012" is not a timestamp (RFC 3339, or a date and time in UTC)
 --> query:1:10
  |
1 | run date=2012
  |          ^^^^
  |
  = help: for example: 2018-01-31 for the whole day, or 2018-01-31T12:30:00Z

error: expected a duration
 --> query:1:15
  |
1 | run date last 123
  |               ^^^
  |
  = help: for example: 24h, 60m or 7d

error: "x" is not an integer
 --> query:1:19
  |
1 | run number in [1, x]
  |                   ^
  |
  = help: for example: 42 or 1e6

error: `total` is not a stage
 --> query:1:7
  |
1 | run | total(number)
  |       ^^^^^
  |
  = help: stages are grep, sort, limit, unique, each, sum, count, min, max, avg, median, percentile

error: `run` has no field `file.size`
 --> query:1:12
  |
1 | run | grep file.size
  |            ^^^^^^^^^
  |
  = help: its fields are number, date, dataset, key, conflict

error: `dataset` has no field `__class__`
 --> query:1:9
  |
1 | dataset __class__=5
  |         ^^^^^^^^^
  |
  = help: its fields are name, size, date, runs, key, conflict

error: expected one value, not a list
 --> query:1:9
  |
1 | dataset=[/a, /b]
  |         ^
  |
  = help: for example: dataset in [a, b]

error: expected a comparison after `dataset`: = != < <= > >= ~ in between last intersects within
 --> query:1:23
  |
1 | file=abc file dataset dataset=x date = 20080201
  |                       ^^^^^^^
  |
  = help: for example dataset=value; or, if `dataset` belongs to a value, quotes around all of it

error: an aggregate of unique rows needs a column they have
 --> query:1:36
  |
1 | dataset | grep name | unique | sum(size),max(size)
  |                                    ^^^^
  |
  = help: add it to the columns: grep size

error: `dataset` has no field `latitude`
 --> query:1:9
  |
1 | dataset latitude=42 longitude=-72
  |         ^^^^^^^^
  |
  = help: its fields are name, size, date, runs, key, conflict
"#,
    );
}

#[test]
fn what_das_refused_or_could_not_ask_is_a_query_here() {
    let catalogue = definition(FILES);
    for query in
        ["dataset", "file size>1 size=1", "file file.size>1", "file | unique | sort key | grep key", "file dataset!=/a* | sum(size) | grep name"]
    {
        compiled(&catalogue, query);
    }
}

#[test]
fn aggregates_of_das_pairs_are_the_numbers_of_das_with_a_sorted_median() {
    let catalogue = definition("catalogue: das\ncollections: { block: { key: name, fields: { name: text, replica_sizes: [size], k: text } } }");
    let block = |key: &str, sizes: [i64; 2], k: &str| {
        let golden = vec![text(key), Value::List(sizes.map(Value::Int).to_vec()), text(k)];
        Record { golden, ..Record::empty(key, &catalogue.collections[CollectionId::from(0)]) }
    };
    let blocks = [block("1", [1, 10], "k1"), block("2", [2, 20], "k1"), Record::empty("3", &catalogue.collections[CollectionId::from(0)])];
    let filled = filled(catalogue.clone(), &[(main_tenant(), &blocks)]);
    let aggregation =
        "block | sum(replica_sizes), count(replica_sizes), min(replica_sizes), max(replica_sizes), avg(replica_sizes), median(replica_sizes)";
    let aggregation = compiled(&catalogue, aggregation);
    let numbers = filled.store.aggregate(&aggregation.plan, &aggregation.aggregates).expect("numbers");
    assert_eq!(numbers, [Value::Int(33), Value::Int(4), Value::Int(1), Value::Int(20), Value::Float(8.25), Value::Int(6)]);
    let unique = compiled(&catalogue, "block | grep k | unique").plan;
    assert_eq!(filled.store.find(&unique).expect("rows").rows, [[Value::Null], [text("k1")]]);
    for (query, rows) in [("block k=k*", 2), ("block k=1*", 0), ("block | grep k=1*", 0), ("block | grep k=*1", 2), ("block k!=k", 3)] {
        assert_eq!(filled.store.count(&compiled(&catalogue, query).plan).expect("a count"), rows, "{query}");
    }
}

// --- any text

/// Queries that mutations begin with.
const SEEDS: [&str; 10] = [
    "file dataset=/a* | grep name, size>1e6 | sort size- | sum(size), count(site)",
    "file=\"a \\\"quoted\\\" *name\" site in ['CERN', FNAL, \"é*\"]",
    "run between [1, 5], date last 1d12h | unique",
    "file created between [2018-01-31, 20180201] owner!=67e55044-10b1-426f-9247-bb680e5fe0c8",
    "file last in [a] in_stock=true last!=b | grep file.last, conflict",
    "file energy<=-1.5e-3 took > PT1H valid=yes | median(energy) | avg(took)",
    "dataset name!='*' | grep dataset | unique | sort dataset-",
    "file extra=1 | min(extra), total(size)",
    "\u{10ffff}\u{feff} file\u{2028}name=\u{d7ff}*\u{e000}",
    "file name=O'Neil and size==5 or [x]",
];

/// Words and characters that mean something.
const TOKENS: [&str; 40] = [
    "file",
    "run",
    "size",
    "created",
    "site",
    "last",
    "in",
    "between",
    "grep",
    "sort",
    "unique",
    "sum(",
    "count",
    "key",
    "conflict",
    "|",
    ",",
    "=",
    "!=",
    "<=",
    ">",
    "[",
    "]",
    "(",
    ")",
    "*",
    "'",
    "\"",
    "\\",
    "-",
    ".",
    " ",
    "\n",
    "\0",
    "é",
    "\u{a0}",
    "\u{10ffff}",
    "2018-01-31",
    "24h",
    "1e999",
];

/// No text panics, and every position in an error lies inside it.
fn assert_parsed_or_located(catalogue: &Catalogue, query: &str) -> Result<(), TestCaseError> {
    let is_inside = |span: &std::ops::Range<usize>| span.start <= span.end && query.is_char_boundary(span.start) && query.is_char_boundary(span.end);
    let problem: Option<Diagnostic> = match parse(query) {
        Err(problem) => Some(problem),
        Ok(parsed) => {
            for (span, text) in spans(&parsed) {
                prop_assert!(is_inside(&span), "{span:?} of {query:?}");
                prop_assert!(text.is_none_or(|text| query[span.clone()] == *text), "{span:?} of {query:?}");
            }
            try_compile(catalogue, query).err()
        }
    };
    if let Some(problem) = problem {
        prop_assert!(is_inside(&problem.span), "{:?} of {query:?}", problem.span);
        prop_assert!(problem.help.is_some(), "no help for {query:?}: {}", problem.message);
        prop_assert!(!problem.message.ends_with('.'), "{}", problem.message);
        prop_assert!(!render("query", query, &[problem], false).is_empty());
    }
    Ok(())
}

/// Every position of a query, with the text there.
fn spans(query: &Query) -> Vec<(std::ops::Range<usize>, Option<String>)> {
    let mut spans = vec![(query.lookup.collection.span.clone(), Some(query.lookup.collection.text.clone()))];
    let condition_spans = |comparison: &QueryCondition| {
        let path = (comparison.path.span.clone(), Some(comparison.path.text.clone()));
        let values = comparison.values.iter().map(|value| (value.span.clone(), None));
        [path, (comparison.span.clone(), None)].into_iter().chain(values).collect::<Vec<_>>()
    };
    spans.extend(query.lookup.all_conditions().flat_map(condition_spans));
    for stage in &query.stages {
        match stage {
            Stage::Grep(items) => {
                for item in items {
                    match item {
                        GrepItem::Column(path) => spans.push((path.span.clone(), Some(path.text.clone()))),
                        GrepItem::Condition(comparison) => spans.extend(condition_spans(comparison)),
                        GrepItem::Combined(tree) => spans.extend(tree.conditions().into_iter().flat_map(condition_spans)),
                    }
                }
            }
            Stage::Sort(order) => spans.extend(order.iter().map(|item| (item.path.span.clone(), Some(item.path.text.clone())))),
            Stage::Aggregates(aggregates, by) => {
                let paths = aggregates.iter().map(|(_, path)| path).chain(by.iter().map(|group| &group.path));
                spans.extend(paths.map(|path| (path.span.clone(), Some(path.text.clone()))));
            }
            Stage::Each(path) => spans.push((path.span.clone(), Some(path.text.clone()))),
            Stage::Unique | Stage::Limit(_) => {}
        }
    }
    spans
}

/// A change of a text at a position that is given in thousandths of its length.
#[derive(Debug, Clone)]
enum Change {
    Insert(usize, String),
    Remove(usize, usize),
    /// Continues as another text does from there.
    Splice(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let token = prop_oneof![4 => (0..TOKENS.len()).prop_map(|index| TOKENS[index].to_owned()), 1 => "\\PC{1,3}"];
    prop_oneof![
        (0..1_000usize, token).prop_map(|(at, token)| Change::Insert(at, token)),
        (0..1_000usize, 1..6usize).prop_map(|(at, count)| Change::Remove(at, count)),
        (0..1_000usize, 0..SEEDS.len()).prop_map(|(at, other)| Change::Splice(at, other)),
    ]
}

fn changed(text: &str, change: &Change) -> String {
    let characters: Vec<char> = text.chars().collect();
    let position = |thousandths: usize, length: usize| thousandths * (length + 1) / 1_000;
    match change {
        Change::Insert(at, token) => {
            let (before, after) = characters.split_at(position(*at, characters.len()));
            before.iter().copied().chain(token.chars()).chain(after.iter().copied()).collect()
        }
        Change::Remove(at, count) => {
            let from = position(*at, characters.len());
            characters[..from].iter().chain(characters.iter().skip(from + count)).collect()
        }
        Change::Splice(at, other) => {
            let other: Vec<char> = SEEDS[*other].chars().collect();
            characters[..position(*at, characters.len())].iter().chain(&other[position(*at, other.len())..]).collect()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_query_or_is_refused_at_a_position_inside_it(text in "\\PC{0,40}|(?s:.{0,20})") {
        assert_parsed_or_located(&definition(FILES), &text)?;
    }

    #[test]
    fn any_words_of_the_language_are_a_query_or_are_refused_at_a_position_inside_it(tokens in prop::collection::vec(0..TOKENS.len(), 0..14)) {
        let text: String = tokens.iter().map(|index| TOKENS[*index]).collect();
        assert_parsed_or_located(&definition(FILES), &text)?;
        assert_parsed_or_located(&definition(FILES), &format!("file {text}"))?;
    }

    #[test]
    fn changed_queries_are_queries_or_are_refused_at_a_position_inside_them(seed in 0..SEEDS.len(), changes in prop::collection::vec(change(), 0..6)) {
        let text = changes.iter().fold(SEEDS[seed].to_owned(), |text, change| changed(&text, change));
        assert_parsed_or_located(&definition(FILES), &text)?;
    }
}

const LINKED: &str = "
catalogue: grammar
collections:
  work:
    key: id
    fields: { id: text, names: [text] }
    links: { authors: { to: person, key: names } }
  person:
    key: id
    fields: { id: text, born: integer }
";

#[test]
fn the_existence_of_linked_records_is_a_condition_a_column_and_an_order() {
    let catalogue = definition(LINKED);
    let found = compiled(&catalogue, "work authors.exists=false | grep authors, authors.exists | sort authors.exists-");
    let test = Comparison::Equal(Value::Bool(false));
    assert_eq!(found.plan.conditions, [Condition { column: PlanColumn::TargetsExist(LinkId::from(0)), test }]);
    assert_eq!(found.plan.columns[1], PlanColumn::TargetsExist(LinkId::from(0)));
    assert_eq!((found.plan.sort[0].column, &found.columns[1].ty), (PlanColumn::TargetsExist(LinkId::from(0)), &FieldType::Boolean));
    assert_eq!(found.columns[1].name, "authors.exists");
    // any of several
    let found = compiled(&catalogue, "work authors=p1");
    let column = PlanColumn::Field(catalogue.links[LinkId::from(0)].field);
    assert_eq!(found.plan.conditions, [Condition { column, test: Comparison::Equal(Value::text("p1")) }]);
}
