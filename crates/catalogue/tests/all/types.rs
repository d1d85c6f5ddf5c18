//! The type check: what it refuses, and with which messages; and that expressions it accepts do not fail.

use stook_catalogue::diagnostic::{Diagnostic, render};
use stook_catalogue::parse::parse;

/// Makes a definition with one derived field, one key and one condition.
fn definition(field: &str, derive: &str) -> String {
    format!(
        "
catalogue: trial
lookups:
  kinds: {{ B: business, else: other }}
  some: {{ B: business }}
  lists: {{ B: [one, two] }}
sources:
  feed:
    format: json
    as_of: meta.received
    into: thing
collections:
  thing:
    key: id
    fields:
      id:       text
      title:    text
      count:    integer
      ratio:    float
      done:     boolean
      at:       timestamp
      day:      date
      length:   duration
      size:     size
      number:   uuid
      extra:    json
      lines:    ranges
      names:    [text]
      replica:  {{ type: [{{ site: text, bytes: size }}], by: site }}
      tried:    {{ type: {field}, derive: {derive:?} }}
"
    )
}

fn problems(text: &str) -> Vec<Diagnostic> {
    parse(text).map(|_| Vec::new()).unwrap_or_else(|problems| problems)
}

#[test]
fn expressions_that_always_fail_are_refused_with_help() {
    for (field, derive, message, help) in [
        (
            "float",
            "double(length)",
            "`double` takes text or integer or float or unsigned here, this is duration",
            "a duration in seconds: x / duration('1s')",
        ),
        ("text", "title > 3", "text is not compared with integer", "compare texts with texts: string(x), or numbers with numbers: int(x)"),
        ("boolean", "title == 3", "text and integer are never equal", "compare texts with texts: string(x), or numbers with numbers: int(x)"),
        (
            "boolean",
            "count in names",
            "integer is never among elements that are text",
            "compare texts with texts: string(x), or numbers with numbers: int(x)",
        ),
        ("boolean", "at > '2020-01-01'", "timestamp is not compared with text", "timestamp('2026-01-31T00:00:00Z') makes a time of a text"),
        ("text", "title + count", "`+` does not take text and integer", "string(x) makes a text of it"),
        ("text", "trim(count)", "`trim` takes text here, this is integer", "string(x) makes a text of it"),
        ("text", "fold(title, title)", "`fold` takes 1 arguments, here are 2", "it is written fold(text) -> text"),
        ("text", "isbn(count)", "`isbn` takes text here, this is integer", "string(x) makes a text of it"),
        ("text", "join(title, ',')", "`join` takes [text] here, this is text", ""),
        ("text", "join(lines[0], ',')", "`join` takes [text] here, this is [integer]", "for each element: .map(x, string(x))"),
        ("[text]", "flatten(names)", "`flatten` takes a list of lists, this has text", ""),
        ("[text]", "flatten(title)", "`flatten` takes a list, this is text", ""),
        ("text", "title.trim()", "`trim` is a function: trim(...)", ""),
        ("boolean", "contains(title, 'a')", "`contains` is a method: x.contains(...)", ""),
        ("text", "title ? 'a' : 'b'", "a condition is true or false, this is text", "compare it with something, for example with null"),
        ("text", "title.site", "text has no members, so there is no `site`", ""),
        ("[text]", "replica.site", "[struct] has no members, so there is no `site`", "for each element: .map(x, x.site)"),
        ("[text]", "replica.map(x, x.sites)", "struct has no member `sites`", "did you mean `site`?"),
        ("[text]", "title.map(x, x)", "this goes through a list, and here is text", ""),
        ("integer", "title", "this is text, and integer is needed", "write int(title)"),
        ("integer", "ratio", "this is float, and integer is needed", "write int(ratio)"),
        ("timestamp", "title", "this is text, and timestamp is needed", "write timestamp(title)"),
        ("date", "at", "this is timestamp, and date is needed", "write strftime(at, '%Y-%m-%d')"),
        ("text", "names", "this is [text], and text is needed", "write squash(names)"),
        ("integer", "done", "this is boolean, and integer is needed", ""),
        ("integer", "int('x')", "\"x\" is not an integer", ""),
        ("integer", "'x'", "\"x\" is not an integer", ""),
        ("integer", "count / 0", "this is a division by zero", ""),
        ("boolean", "title.matches('(')", "\"(\" is not a regular expression", ""),
        ("text", "lookup('kind', title)", "there is no table `kind` under `lookups`", "did you mean `kinds`?"),
        ("text", "names[0] + names['a']", "elements of a list have a number, this is text", ""),
        ("text", "min(title, count)", "`min`: integer is not compared with text", ""),
        ("float", "sum(names)", "`sum` takes a list of numbers, or of durations, not of text", ""),
        ("text", "lookup('lists', title) + 'x'", "`+` does not take [text] and text", "string(x) makes a text of it"),
        (
            "text",
            "string(names)",
            "`string` takes text or integer or float or boolean or timestamp or duration or geometry or bytes or unsigned here, this is [text]",
            "",
        ),
    ] {
        let found = problems(&definition(field, derive));
        let shown: Vec<(&str, &str)> = found.iter().map(|problem| (problem.message.as_str(), problem.help.as_deref().unwrap_or_default())).collect();
        assert_eq!(shown, [(message, help)], "{derive}");
    }
}

#[test]
fn expressions_that_give_null_for_absent_values_are_accepted() {
    for (field, derive) in [
        ("text", "fold(title)"),
        ("text", "squash(title)"),
        ("text", "squash(names)"),
        ("text", "substring(title, 0, 3) + string(count)"),
        ("text", "trim(lower(title), '.,') + isbn(title)"),
        ("[text]", "split(title, ',;')"),
        ("text", "join(names.map(x, replace(x, ',', ' ')), '; ')"),
        ("[text]", "flatten([names, names.map(x, digits(x))])"),
        ("[integer]", "flatten(lines)"),
        ("[text]", "names.map(x, x + '!')"),
        ("duration", "at - timestamp('2020-01-01T00:00:00Z')"),
        ("float", "length / duration('1s')"),
        ("text", "length / length"),
        ("duration", "length * 1.5 - length / 2"),
        ("float", "count * 1.5"),
        ("text", "title == null ? 'none' : title"),
        ("text", "extra.a.b"),
        ("integer", "extra.a"),
        ("integer", "size(lines) + lines[0][1]"),
        ("boolean", "title in ['a', 'b'] && count > 1 || done"),
        ("text", "lookup('kinds', title)"),
        ("text", "names.exists(x, x.startsWith('a')) ? 'a' : null"),
        ("size", "sum(replica.map(x, x.bytes))"),
        ("uuid", "uuid5('a', title)"),
        ("date", "strftime(at, '%Y-%m-%d')"),
        ("[text]", "title"),
        ("json", "replica"),
        ("integer", "at.getFullYear() - 1900"),
        ("text", "dyn(count) == 'a' ? 'x' : 'y'"),
    ] {
        let text = definition(field, derive);
        let found = problems(&text);
        assert!(found.is_empty(), "{derive}: {}", render("catalogue.yaml", &text, &found, false));
    }
}

#[test]
fn a_key_is_never_null() {
    let text = definition("text", "title");
    let problems_with_key =
        |key: &str, title: &str| problems(&text.replace("key: id", &format!("key: {key:?}")).replace("title:    text", &format!("title: {title}")));
    let found = problems_with_key("squash(title)", "text");
    let shown: Vec<(&str, Option<&str>)> = found.iter().map(|problem| (problem.message.as_str(), problem.help.as_deref())).collect();
    let help = "wrap it in coalesce(squash(title), 'none'), or make the fields that it is made of `required: true`";
    assert_eq!(shown, [("a record needs a key, and this may be null", Some(help))]);
    for key in [
        "squash(coalesce(title, id, 'x'))",
        "title == null ? 'x' : title",
        "title != null && title != '' ? fold(title) : 'x'",
        "has(extra.a) ? extra.a : 'x'",
    ] {
        assert_eq!(problems_with_key(key, "text"), [], "{key}");
    }
    assert_eq!(problems_with_key("squash(title) + '-' + fold(title)", "{ type: text, required: true }"), []);
    assert_eq!(problems_with_key("substring(title, 0, 3)", "{ type: text, required: true }").len(), 1);
    assert_eq!(problems_with_key("lower(title) + join(split(title, ' '), '-')", "{ type: text, required: true }"), []);
    assert_eq!(problems_with_key("isbn(title)", "{ type: text, required: true }").len(), 1);
    assert_eq!(problems_with_key("names + names", "text")[0].message, "a key is text, this is [text]");
}

#[test]
fn a_type_error_points_at_the_part_that_is_wrong() {
    let text = definition("text", "fold(title) + string('ä' + trim(count))");
    let found = problems(&text);
    assert_eq!(found.len(), 1);
    assert_eq!(&text[found[0].span.clone()], "count");
    let (line, _) = found[0].position(&text);
    assert!(text.lines().nth(line - 1).is_some_and(|line| line.contains("tried:")));
    assert_eq!(
        render("catalogue.yaml", &text, &found, false).lines().filter(|line| line.contains("^^^^^")).count(),
        1,
        "{}",
        render("catalogue.yaml", &text, &found, false)
    );
}

#[test]
fn expressions_are_checked_wherever_they_occur() {
    let text = "
catalogue: trial
lookups: { lists: { B: [one, two] } }
patterns: { name: ['^(?P<region>[A-Z]+)(?P<number>[0-9]+)$'] }
sources:
  feed:
    format: json
    let:
      ref:   $.ref
      n:     { match: name, of: ref }
      stamp: { expr: 'timestamp(ref)' }
      when:  { path: $.when, type: timestamp }
    accept: [ { unless: ACCEPT, reason: REASON } ]
    gone: GONE
    as_of: AS_OF
    feeds: [ { into: thing, when: WHEN } ]
collections:
  thing:
    key: id
    fields:
      id:     { expr: MAPPED, type: text }
      title:  text
      start:  timestamp
      stop:   timestamp
      of:     { type: text, derive: \"LINKED\" }
    state:
      status: { type: text, seed: SEED }
    transitions:
      change:
        args: { to: { type: integer, default: DEFAULT } }
        refuse: [ { when: REFUSE, reason: BECAUSE } ]
        set: { status: SET }
    links:
      parent: { to: whole, key: title, create: true, when: LINK, group: GROUP, span: [start, stop] }
  whole:
    key: id
    fields:
      id: text
      from: timestamp
      parts: { type: integer, rollup: { over: thing.parent, where: WHERE, count: true } }
    coverage:
      done: { over: thing.parent, when: COVERED, groups: GROUPS, measure: union, value: VALUE, expected: EXPECTED, gaps: { within: [FROM, TO], until: UNTIL } }
      sums: { of: done, by: BY, value: SUM }
routes:
  - { get: '/things/{id}', params: { id: text }, one: thing, where: { key: params.id }, fields: { id: id, shown: SHOWN } }
";
    let cases = [
        ("ACCEPT", "n != null", "n.nummer == 'x'"),
        ("REASON", "'no ' + ref", "ref == null ? [1] : [2]"),
        ("GONE", "ref == 'gone'", "ref"),
        ("AS_OF", "coalesce(when, meta.received)", "size(ref)"),
        ("WHEN", "n.number != null", "n.number > 3"),
        ("MAPPED", "n.region + n.number", "n"),
        ("LINKED", "string(parent.from)", "parent.form"),
        ("SEED", "'new'", "[title]"),
        ("DEFAULT", "1", "caller"),
        ("REFUSE", "status != 'new'", "status"),
        ("BECAUSE", "'is ' + status", "[status]"),
        ("SET", "string(args.to)", "args.too"),
        ("LINK", "title.startsWith('a')", "title"),
        ("GROUP", "title + '#'", "[title]"),
        ("WHERE", "start > stop", "start > 3"),
        ("COVERED", "from != null", "from"),
        ("GROUPS", "lookup('lists', id)", "lookup('lists', from)"),
        ("VALUE", "value > duration('0s') ? value : duration('1s')", "value > 0"),
        ("EXPECTED", "duration('1h')", "group"),
        ("FROM", "from", "id"),
        ("UNTIL", "from", "id"),
        ("TO", "from + duration('1h')", "from + 1"),
        ("BY", "substring(group, 0, 3)", "[group]"),
        ("SUM", "rows[by + 'x'].expected * adjusted", "rows[by].expectd"),
        ("SHOWN", "title + '!'", "title + 1"),
    ];
    let filled = |wrong: Option<usize>| {
        let mut filled = text.to_owned();
        let mut longest: Vec<_> = cases.iter().enumerate().collect();
        longest.sort_by_key(|(_, (name, ..))| std::cmp::Reverse(name.len()));
        for (index, (name, right, mistake)) in longest {
            let expression = if wrong == Some(index) { mistake } else { right };
            filled = match *name {
                "LINKED" => filled.replace(name, expression),
                _ => filled.replace(name, &format!("{expression:?}")),
            };
        }
        filled
    };
    let right = filled(None);
    assert!(problems(&right).is_empty(), "{}", render("catalogue.yaml", &right, &problems(&right), false));
    for (index, (name, _, mistake)) in cases.iter().enumerate() {
        let found = problems(&filled(Some(index)));
        assert_eq!(found.len(), 1, "{name}: {mistake}: {found:?}");
    }
}

/// A link leads to one record or, if it uses a list, to several: their values are concatenated.
#[test]
fn fields_read_through_a_link_have_the_type_that_they_have_there() {
    let check = |link: &str, field: &str, derive: &str| {
        let text = format!(
            "
catalogue: trial
sources:
  works: {{ format: json, as_of: meta.received, into: work }}
  persons: {{ format: json, as_of: meta.received, into: person }}
collections:
  work:
    key: id
    fields:
      id:    text
      by:    text
      all:   [text]
      tried: {{ type: {field}, derive: {derive:?} }}
    links:
      to: {{ to: person, {link} }}
  person:
    key: id
    fields:
      id:    text
      name:  text
      born:  integer
      names: [text]
      homes: {{ type: [{{ city: text }}], by: city }}
"
        );
        let found = problems(&text);
        found.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
    };
    for (single_link, list_link) in [("key: by", "key: all"), ("same: { by: id }", "same: { all: id }")] {
        for (field, derive, single_problem, list_problem) in [
            ("text", "fold(to.name)", "", "`fold` takes text here, this is [text]"),
            ("[text]", "to.name.map(x, fold(x))", "this goes through a list, and here is text", ""),
            ("integer", "to.born + 1", "", "`+` does not take [integer] and integer"),
            ("integer", "max(to.born) - min(to.born)", "", ""),
            ("[text]", "to.names.map(x, fold(x))", "", ""),
            ("text", "squash(to.homes.map(x, x.city))", "", ""),
            ("text", "to.key + '!'", "", "`+` does not take [text] and text"),
            ("integer", "size(to.key.filter(x, x != by))", "this goes through a list, and here is text", ""),
            ("text", "to.exists ? 'yes' : 'no'", "", ""),
            ("text", "to.exists == null ? 'none' : string(to.exists)", "", ""),
            ("integer", "to.exists + 1", "`+` does not take boolean and integer", "`+` does not take boolean and integer"),
        ] {
            assert_eq!(
                (check(single_link, field, derive).as_str(), check(list_link, field, derive).as_str()),
                (single_problem, list_problem),
                "{derive}"
            );
        }
    }
}

#[test]
fn definitions_of_all_examples_have_no_type_errors() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")).expect("examples") {
        let path = entry.expect("an entry").path().join("catalogue.yaml");
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let found = problems(&text);
        assert!(found.is_empty(), "{}", render(&path.to_string_lossy(), &text, &found, false));
    }
}

/// The documentation repeats the table of functions.
#[test]
fn the_documentation_lists_the_rules_and_functions_of_the_code() {
    use stook_catalogue::functions::{FUNCTIONS, RULES};
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/definition.md")).expect("docs/definition.md");
    let rules = RULES.iter().map(|rule| format!("- {rule}"));
    let functions = FUNCTIONS.iter().map(|function| {
        let signatures: Vec<String> = function.signatures.iter().map(|signature| format!("`{signature}`")).collect();
        format!("| {} | {} | `{}` is `{}` |", signatures.join("<br>"), function.about, function.example, function.value)
    });
    let wanted: Vec<String> = rules.chain(functions).collect();
    let section = text.split("## Expressions").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section");
    let found: Vec<&str> = section.lines().filter(|line| line.starts_with("- ") || line.starts_with("| `")).collect();
    assert_eq!(found, wanted);
}
