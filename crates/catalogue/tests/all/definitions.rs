//! Definitions from the author's point of view: what is accepted, and messages for errors.

use stook_catalogue::definition::{AsOfRule, KeyDefinition, SourceRef, Survivorship};
use stook_catalogue::diagnostic::render;
use stook_catalogue::ids::{CollectionId, FieldId, LinkId, SourceId};
use stook_catalogue::parse::parse;

/// Returns the rendered errors of a definition that must not be accepted.
fn errors(text: &str) -> String {
    let problems = parse(text).err().unwrap_or_else(|| panic!("accepted:\n{text}"));
    render("catalogue.yaml", text, &problems, false)
}

#[test]
fn the_authorities_example_is_accepted() {
    let text = include_str!("../../../../examples/authorities/catalogue.yaml");
    let catalogue = parse(text).unwrap_or_else(|problems| panic!("{}", render("catalogue.yaml", text, &problems, false)));
    let (_, authority) = catalogue.collection("authority").expect("defined");
    assert!(matches!(authority.key, KeyDefinition::Field(key) if key.index() == 0));
    assert!(authority.keep_raw);
    let order = &catalogue.sources[SourceId::from(0)].as_of;
    assert!(matches!(order.times[..], [AsOfRule::Field(_)]) && !order.by_reception);
    assert_eq!(catalogue.collection("item").expect("defined").1.transitions.len(), 2);
}

#[test]
fn the_definition_in_the_documentation_is_accepted() {
    let page = include_str!("../../../../docs/definition.md");
    let text = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a definition");
    let problems = parse(text).err().unwrap_or_default();
    assert!(problems.is_empty(), "{}", render("docs/definition.md", text, &problems, false));
}

#[test]
fn layout_and_comments_do_not_change_the_hash() {
    let a = parse("catalogue: a\ncollections: { x: { key: k, fields: { k: text } } }").expect("valid");
    let b = parse("# hello\ncollections:\n  x:\n    fields: {k: text}\n    key: k\ncatalogue: a").expect("valid");
    let c = parse("catalogue: a\ncollections: { x: { key: k, fields: { k: integer } } }").expect("valid");
    assert_eq!(a.hash, b.hash);
    assert_ne!(a.hash, c.hash);
}

#[test]
fn fields_that_would_have_one_name_in_a_store_are_refused() {
    let definition = "catalogue: c\nsources:\n  one: { format: csv, as_of: meta.received, into: a }\n  two: { format: csv, as_of: meta.received, into: a_b }\n\
                      collections:\n  a: { key: id, fields: { id: text, b_c: { type: [text], index: equal } } }\n  \
                      a_b: { key: id, fields: { id: text, c: { type: [text], index: equal } } }\n";
    assert!(errors(definition).contains("`a_b.c` and `a.b_c` would have the same name in a store"));
    assert!(parse(&definition.replace("b_c", "b_d")).is_ok());
}

#[test]
fn indexes_that_a_state_field_cannot_have_are_refused() {
    let with = |state: &str| format!("catalogue: a\ncollections: {{ x: {{ key: k, fields: {{ k: text }}, state: {{ s: {state} }} }} }}");
    for accepted in ["{ type: text, index: [equal, prefix] }", "{ type: integer, index: equal }", "[text]", "{ type: geometry }"] {
        assert!(parse(&with(accepted)).is_ok(), "{accepted}");
    }
    for (state, kind) in [
        ("{ type: text, index: [equal, contains] }", "a `contains` index"),
        ("{ type: geometry, index: intersects }", "an `intersects` index"),
        ("{ type: [text], index: equal }", "an index of the elements of a list"),
    ] {
        let shown = errors(&with(state));
        assert!(shown.contains(&format!("a state field cannot have {kind}")) && shown.contains("leave `index` out"), "{shown}");
    }
}

#[test]
fn jobs_cannot_be_undone_in_sources_that_leave_more_behind_than_contributions() {
    let with = |words: &str, feed: &str| {
        format!(
            "catalogue: a\nsources:\n  s: {{ format: json, as_of: meta.received, undo: 30d, {words} {feed} }}\n  other: {{ format: json, as_of: meta.received, into: x }}\n\
             collections:\n  x: {{ key: k, fields: {{ k: text, f: text }} }}\n"
        )
    };
    let catalogue = parse(&with("", "into: x")).expect("it is accepted");
    assert_eq!(catalogue.sources[SourceId::from(0)].undo.map(|kept| kept.as_secs()), Some(30 * 24 * 3600));
    for (words, feed, message) in [
        ("replaces: { scope: f },", "into: x", "a source with `replaces`"),
        ("let: { n: $.n },", "feeds: [{ into: x, each: { path: '$.all[*]', of: n }, map: { k: $.k } }]", "a source with `each`"),
        ("embeds: { other: { path: $.other, name: other.json } },", "into: x", "a source with `embeds`"),
    ] {
        let shown = errors(&with(words, feed));
        assert!(shown.contains(&format!("jobs cannot be undone in {message}")), "{shown}");
    }
    for wrong in ["soon", "0s"] {
        let shown = errors(&with("", "into: x").replace("30d", wrong));
        assert!(shown.contains("`undo` is"), "{shown}");
    }
    // what is kept does not change what documents become
    let generation = |text: &str| parse(text).expect("it is accepted").sources[SourceId::from(0)].feeds[0].generation;
    assert_eq!(generation(&with("", "into: x")), generation(&with("", "into: x").replace("undo: 30d,", "")));
}

#[test]
fn overlaps_need_intervals_and_a_length() {
    let with = |span: &str, overlaps: &str| {
        format!(
            "catalogue: a\ncollections:\n  x: {{ key: k, fields: {{ k: text }}, coverage: {{ c: {{ over: y.of, measure: count, overlaps: {overlaps} }} }} }}\n  \
             y: {{ key: k, fields: {{ k: text, x: text, a: timestamp, b: timestamp }}, links: {{ of: {{ to: x, key: x{span} }} }} }}\n"
        )
    };
    assert!(parse(&with(", span: [a, b]", "{ longer: 10s }")).is_ok());
    for (span, overlaps, message) in [
        ("", "{ longer: 10s }", "this needs an interval: give link `of` a `span`"),
        (", span: [a, b]", "{}", "longer"),
        (", span: [a, b]", "{ long: 10s }", "did you mean `longer`"),
    ] {
        let shown = errors(&with(span, overlaps));
        assert!(shown.contains(message), "{shown}");
    }
}

#[test]
fn all_errors_of_a_file_are_reported_with_their_positions() {
    let text = "\
catalogue: broken
sources:
  loc: { format: mark, into: authority, as_of: changed }
  csv: { format: csv, into: authorty, as_of: meta.received }
collections:
  authority:
    key: lcn
    fields:
      lccn: { type: txt, requierd: true }
      changed: timestamp
      name: { type: text, index: prefx }
";
    let shown = errors(text);
    for expected in [
        "`mark` is not a format",
        "--> catalogue.yaml:3:18",
        "did you mean `marc`?",
        "there is no field `lcn`",
        "`txt` is not a type",
        "a field has no key `requierd`",
        "did you mean `required`?",
        "`prefx` is not a kind of index",
    ] {
        assert!(shown.contains(expected), "{expected:?} is missing in\n{shown}");
    }
}

#[test]
fn a_path_error_points_into_the_path() {
    let text = "\
catalogue: a
sources: { loc: { format: marc, into: x, as_of: meta.received } }
collections:
  x:
    key: k
    fields:
      k: { path: \"001\", type: text }
      h: { path: \"1XX$a\", type: text }
";
    let shown = errors(text);
    assert!(shown.contains("MARCspec's wildcard is a dot: write 1.."), "{shown}");
    assert!(shown.contains("catalogue.yaml:8:19"), "{shown}");
}

#[test]
fn values_that_read_the_clock_are_refused() {
    let text = "\
catalogue: a
collections:
  x: { key: k, fields: { k: text, age: { type: text, derive: \"string(now)\" } } }
";
    assert!(errors(text).contains("`now` is only known in transitions"));
}

#[test]
fn a_source_must_say_when_its_documents_were_true() {
    let text = "catalogue: a\nsources: { s: { format: csv, into: x } }\ncollections: { x: { key: k, fields: { k: text } } }";
    assert!(errors(text).contains("has no as-of time"));
}

#[test]
fn derived_fields_cannot_go_round_in_circles() {
    let text = "catalogue: a\ncollections: { x: { key: k, fields: { k: text, a: { type: text, derive: b }, b: { type: text, derive: a } } } }";
    assert!(errors(text).contains("`a` is derived from itself"));
}

/// Phases of settling: each reads only values settled before, and there are no cycles.
#[test]
fn rules_settled_first_cannot_depend_on_fields_settled_later() {
    let with = |parent: &str, child: &str, links: &str| {
        format!(
            "catalogue: a\nsources: {{ s: {{ format: csv, into: child, as_of: meta.received }}, p: {{ format: csv, into: parent, as_of: meta.received }} }}\ncollections:\n  parent:\n    key: id\n    fields:\n      \
             id: text\n      best: text\n      size: integer\n{parent}  child:\n    key: id\n    fields:\n      id: text\n      of: text\n      size: integer\n{child}    \
             links: {{ {links} }}\n"
        )
    };
    let (sum, read) = ("      sum: { type: integer, rollup: { over: child.up, sum: size } }\n", "      read: { type: integer, derive: up.sum }\n");
    let up = "up: { to: parent, key: of }";
    // a child reads a sum over its siblings
    assert!(parse(&with(sum, read, up)).is_ok());
    let late = "link `up` and rules over it can use what documents say of `child`, but `read` is settled after them";
    for (parent, child, links, expected) in [
        ("      sum: { type: integer, rollup: { over: child.up, sum: read } }\n", read, up, late),
        ("      sum: { type: integer, rollup: { over: child.up, where: \"read > 1\", sum: size } }\n", read, up, late),
        (sum, "      read: { type: text, derive: string(up.sum) }\n", "up: { to: parent, key: read }", late),
        (sum, read, "up: { to: parent, key: of, when: \"read > 1\" }", late),
        (
            sum,
            read,
            "up: { to: parent, key: of }, like: { to: parent, same: { size: sum } }",
            "link `like` matches on `parent.sum`, which is itself settled later",
        ),
        (
            "      turn: { type: integer, derive: favourite.read }\n    links: { favourite: { to: child, key: best } }\n",
            "      read: { type: integer, derive: up.turn }\n",
            up,
            "`parent.turn` depends on itself",
        ),
    ] {
        let found = errors(&with(parent, child, links));
        assert!(found.contains(expected), "{found}");
    }
}

/// A link by a list gives lists; what cannot be meant is refused.
#[test]
fn a_link_of_a_list_is_a_list() {
    let with = |fields: &str, link: &str| {
        format!(
            "catalogue: a\nsources: {{ s: {{ format: json, into: work, as_of: meta.received }}, p: {{ format: json, into: person, as_of: meta.received }} }}\ncollections:\n  work:\n    key: id\n    fields:\n      \
             id: text\n      name: text\n      names: [text]\n      sides: [text]\n      from: timestamp\n      to: timestamp\n      spots: {{ type: [{{ at: text, of: text }}], index: {{ of: equal }} }}\n{fields}    \
             links: {{ authors: {{ to: person, {link} }} }}\n  person:\n    key: id\n    fields: {{ id: text, name: text, born: integer, aliases: [text], from: timestamp, to: timestamp }}\n"
        )
    };
    for (link, is_list) in [
        ("same: { names: name }", true),
        ("same: { names: aliases }", true),
        ("same: { name: aliases }", false),
        ("same: { name: name }", false),
        ("same: { spots.of: name }", true),
        ("same: { names: name }, overlap: { mine: [from, to], theirs: [from, to] }", false),
        ("key: names", true),
        ("key: \"{name}:{names}\"", true),
        ("key: \"{spots.of}\"", true),
        ("key: name", false),
    ] {
        let found = parse(&with("", link)).unwrap_or_else(|problems| panic!("{link}: {problems:?}"));
        let field = &found.collections[CollectionId::from(0)].fields[found.links[LinkId::from(0)].field];
        assert_eq!((found.links[LinkId::from(0)].many, field.ty.is_list()), (is_list, is_list), "{link}");
    }
    for (fields, link, expected) in [
        ("", "key: \"{names}:{sides}\"", "a key can use the elements of one list only; `names` and `sides` are two"),
        ("", "key: \"{spots}\"", "`spots` is a list of structs; name one of their members: `spots.at`"),
        ("", "key: \"{spots.at}\"", "a link by `spots.at` needs an index on that member: `index: { at: equal }`"),
        ("", "same: { spots.at: name }", "a link by `spots.at` needs an index on that member"),
        ("      born: { type: integer, derive: authors.born }\n", "key: names", "`authors.born` is a list: `type: [integer]`"),
        ("      keys: { type: text, derive: authors.key }\n", "key: names", "`authors.key` is a list: `type: [text]`"),
        ("      all: { type: text, derive: authors }\n", "key: names", "`authors.exists`"),
    ] {
        let found = errors(&with(fields, link));
        assert!(found.contains(expected), "{found}");
    }
    assert!(
        parse(&with(
            "      known: { type: boolean, derive: authors.exists }\n      first: { type: integer, derive: min(authors.born) }\n",
            "key: names"
        ))
        .is_ok()
    );
}

/// If rules of settling change, existing stores settle again what they concern.
#[test]
fn the_settling_hash_changes_only_with_the_rules_of_settling() {
    let with = |person: &str, work: &str| {
        let text = format!(
            "catalogue: a\nsources: {{ s: {{ format: json, into: work, as_of: meta.received }}, p: {{ format: json, into: person, as_of: meta.received }} }}\ncollections:\n  work:\n    key: id\n    \
             fields: {{ id: text, name: text, names: [text] }}\n    links: {{ authors: {{ to: person, {work} }} }}\n  person:\n    key: id\n    fields: {{ id: text{person} }}\n"
        );
        let found = parse(&text).unwrap_or_else(|problems| panic!("{problems:?}"));
        (found.settling, found.hash)
    };
    let rolled = |aggregate: &str| format!(", works: {{ type: integer, rollup: {{ over: work.authors, {aggregate} }} }}");
    let plain = with("", "key: name");
    assert_eq!(with(", more: text", "key: name").0, plain.0, "a field of documents");
    for (person, work) in [("", "key: names"), (&*rolled("count: true"), "key: name"), (&rolled("where: \"name == 'x'\", count: true"), "key: name")]
    {
        assert_ne!(with(person, work).0, plain.0, "{person} {work}");
    }
    assert_ne!(with(&rolled("count: true"), "key: name").0, with(&rolled("where: \"name == 'x'\", count: true"), "key: name").0);
}

#[test]
fn rollups_have_the_type_of_what_they_compute() {
    let with = |ty: &str, rollup: &str| {
        format!(
            "catalogue: a\nsources: {{ s: {{ format: csv, feeds: [{{ into: child }}, {{ into: parent }}], as_of: meta.received }} }}\ncollections:\n  \
             parent: {{ key: id, fields: {{ id: text, r: {{ type: {ty}, rollup: {{ over: child.up, {rollup} }} }} }} }}\n  child:\n    key: id\n    \
             fields: {{ id: text, of: text, number: integer, size: size, share: float, words: [text], who: {{ type: text, survivorship: by_contributor }} }}\n    \
             links: {{ up: {{ to: parent, key: of }} }}\n"
        )
    };
    for (ty, rollup) in [
        ("integer", "count: true"),
        ("integer", "distinct: words"),
        ("integer", "sum: number"),
        ("float", "sum: number"),
        ("size", "sum: size"),
        ("float", "sum: share"),
        ("text", "max: of"),
        ("text", "min: words"),
        ("json", "min: who"),
    ] {
        assert!(parse(&with(ty, rollup)).is_ok(), "{ty} {rollup}");
    }
    for (ty, rollup, expected) in [
        ("text", "count: true", "this rollup is integer, the field is text"),
        ("float", "distinct: number", "this rollup is integer, the field is float"),
        ("integer", "sum: share", "this rollup is float, the field is integer"),
        ("integer", "sum: of", "`of` is text, which has no sum"),
        ("text", "max: who", "this rollup is json, the field is text"),
        ("[text]", "max: words", "this rollup is text, the field is [text]"),
    ] {
        let found = errors(&with(ty, rollup));
        assert!(found.contains(expected), "{ty} {rollup}: {found}");
    }
}

#[test]
fn link_fields_are_compared_by_their_golden_types() {
    let with = |link: &str| {
        format!(
            "catalogue: a\nsources: {{ s: {{ format: csv, into: x, as_of: meta.received }} }}\ncollections:\n  x:\n    key: id\n    fields:\n      \
             id: text\n      who: {{ type: text, survivorship: by_contributor }}\n      at: {{ type: timestamp, survivorship: by_contributor }}\n    \
             links: {{ l: {{ to: x, {link} }} }}\n"
        )
    };
    assert!(errors(&with("same: who")).contains("`who` is json and `who` is json: they are never equal"));
    assert!(errors(&with("key: id, span: [at, at]")).contains("an interval has timestamps, `at` is json"));
}

#[test]
fn derived_fields_are_of_their_own_type_whatever_the_rule_is() {
    let text = "catalogue: a\nsources: { s: { format: csv, into: x, as_of: meta.received } }\ncollections: { x: { key: k, survivorship: by_contributor, \
                fields: { k: text, d: { type: text, derive: \"'a'\" } } } }";
    let catalogue = parse(text).unwrap_or_else(|problems| panic!("{problems:?}"));
    let types: Vec<String> = catalogue.collections[CollectionId::from(0)].fields.iter().map(|field| field.golden_type().to_string()).collect();
    assert_eq!(types, ["json", "text"]);
}

#[test]
fn a_source_feeds_something() {
    let text = "catalogue: a\nsources: { s: { format: csv, feeds: [], as_of: meta.received } }\ncollections: { x: { key: k, fields: { k: text } } }";
    assert!(errors(text).contains("this source feeds no collection"));
}

/// Makes a collection `x` with these fields and links, and a source with these keywords.
fn fed(source: &str, fields: &str, more: &str) -> String {
    format!(
        "catalogue: a\nsources: {{ s: {{ format: json, as_of: meta.received, {source} }} }}\ncollections:\n  x: {{ key: k, fields: {{ k: text{fields} }}{more} }}\n  \
         y: {{ key: k, fields: {{ k: text, name: text, of: text }}, links: {{ l: {{ to: x, key: of }} }} }}\n"
    )
}

#[test]
fn keywords_without_effect_are_refused() {
    let both = "feeds: [{ into: x }, { into: y }]";
    assert!(parse(&fed(both, "", "")).is_ok(), "{}", errors(&fed(both, "", "")));
    for (source, fields, more, expected) in [
        ("feeds: [{ into: x, map: { k: { path: $.k, klean: trim } } }, { into: y }]", "", "", "klean"),
        ("feeds: [{ into: x, map: { k: { path: $.k, required: true } } }, { into: y }]", "", "", "required"),
        ("feeds: [{ into: x }, { into: y }], let: { a: { path: $.a, on_eror: fail } }", "", "", "on_eror"),
        ("feeds: [{ into: x }, { into: y }], map: { k: $.k }", "", "", "in a source with `feeds`, `map` belongs in each feed"),
        ("feeds: [{ into: x }, { into: y }], when: 'true'", "", "", "when"),
        ("feeds: [{ into: x }, { into: y }], contributor: '{who}'", "", "", "there is no `let` value `who`"),
        (both, ", u: { type: text, survivorship: by_contributor, index: equal }", "", "`u` is kept by contributor"),
        (both, ", u: { type: text, derive: m.name, unique: true }", ", links: { m: { to: y, key: k } }", "`u` is derived from other records"),
    ] {
        let found = errors(&fed(source, fields, more));
        assert!(found.contains(expected), "{source} {fields}: {found}");
    }
}

#[test]
fn records_that_create_each_other_by_their_keys_alone_are_refused() {
    let with = |to_y: &str, to_x: &str| {
        format!(
            "catalogue: a\nsources: {{ s: {{ format: json, as_of: meta.received, feeds: [{{ into: x }}, {{ into: y }}] }} }}\ncollections:\n  \
             x: {{ key: k, fields: {{ k: text, of: text }}, links: {{ l: {{ to: y, {to_y} }} }} }}\n  \
             y: {{ key: k, fields: {{ k: text, of: text }}, links: {{ l: {{ to: x, {to_x} }} }} }}\n"
        )
    };
    for (to_y, to_x) in [("key: k, create: true", "key: k"), ("key: k, create: true", "key: of, create: true"), ("key: k", "key: k")] {
        assert!(parse(&with(to_y, to_x)).is_ok(), "{to_y} {to_x}");
    }
    let found = errors(&with("key: k, create: true", "key: k, create: true"));
    assert!(found.contains("link `l` of `x` creates records that, by their key alone, create records of `x` again"), "{found}");
}

#[test]
fn an_operator_that_cel_lacks_is_refused_with_what_to_write_instead() {
    let text = "catalogue: a\ncollections: { x: { key: k, fields: { k: text, a: { type: text, derive: \"k ?? 'x'\" } } } }";
    assert!(errors(text).contains("CEL has no `??`: write coalesce(a, b)"));
}

#[test]
fn one_document_may_feed_several_collections() {
    let text = "\
catalogue: businesses
sources:
  sample:
    format: json
    let: { ref: $.sampleUnitRef, sample: $.sampleSummaryId }
    as_of: meta.received
    feeds:
      - { into: business, map: { ref: $.sampleUnitRef } }
      - { into: version, map: { ref: { expr: ref }, sample: { expr: sample }, name: { expr: \"squash([ref, sample])\" } } }
collections:
  business: { key: ref, fields: { ref: text, id: { type: uuid, derive: \"uuid5('business', ref)\", unique: true } } }
  version:  { key: \"{ref}/{sample}\", fields: { ref: text, sample: text, name: text } }
";
    let catalogue = parse(text).unwrap_or_else(|problems| panic!("{}", render("x", text, &problems, false)));
    assert_eq!(catalogue.sources[SourceId::from(0)].feeds.len(), 2);
    assert!(matches!(catalogue.collections[CollectionId::from(1)].key, KeyDefinition::Template(_)));
}

#[test]
fn survivorship_has_a_default_and_exceptions() {
    let text = "\
catalogue: a
sources:
  loc: { format: json, into: x, as_of: meta.received }
  staff: { format: json, into: x, as_of: meta.received }
collections:
  x:
    key: k
    survivorship: { prefer: [staff, loc], then: latest }
    fields: { k: text, all: { type: [text], survivorship: union }, only: { type: text, from: [staff] } }
";
    let catalogue = parse(text).unwrap_or_else(|problems| panic!("{}", render("x", text, &problems, false)));
    let fields = &catalogue.collections[CollectionId::from(0)].fields;
    assert_eq!(
        fields[FieldId::from(0)].survivorship,
        Survivorship::Prefer { sources: vec![SourceRef::Source(SourceId::from(1)), SourceRef::Source(SourceId::from(0))], then_earliest: false }
    );
    assert_eq!(fields[FieldId::from(1)].survivorship, Survivorship::Union);
    assert_eq!(fields[FieldId::from(2)].from, Some(vec![SourceRef::Source(SourceId::from(1))]));
}

#[test]
fn tags_and_embedded_documents_are_checked_with_the_sources_they_name() {
    let text = include_str!("../../../../examples/machines/catalogue.yaml");
    let catalogue = parse(text).unwrap_or_else(|problems| panic!("{}", render("catalogue.yaml", text, &problems, false)));
    let tags = catalogue.collections[CollectionId::from(0)].tags.as_ref().expect("tags");
    let document = tags.document.as_ref().expect("a document");
    assert_eq!((document.placeholder.as_str(), tags.steps), ("list", 200_000));
    assert_eq!(document.embedded.iter().map(|(prefix, _)| prefix.as_str()).collect::<Vec<_>>(), ["lldp", "lshw"]);
    for (from, to, expected) in [
        ("raw: keep", "raw: drop", "an XPath is asked of kept documents: add `raw: keep`"),
        ("root: lshw,", "root: enlist,", "`enlist` is json; XPath tags need xml"),
        ("parts: { lshw: lshw,", "parts: { lshw: lshv,", "did you mean `lshw`?"),
        ("name: \"{id}.lshw.xml\"", "name: \"{ed}.lshw.xml\"", "there is no `let` value `ed`"),
        ("      lldp: { path:", "      lldq: { path:", "did you mean `lldp`?"),
        ("\"//chassis/id[@type='mac']\"", "\"//chassis/id[@type='mac'\"", "not a XPath: expected an operator or `]`"),
        ("\"//chassis/id[@type='mac']\"", "\"//l:chassis/id\"", "the prefix `l` is not bound"),
        ("attributes: { kernel_options: {", "attributes: { comment: {", "every tag has a `comment` already"),
        ("steps: 200000", "steps: 10", "steps is a whole number from 1000"),
    ] {
        assert!(text.contains(from), "{from}");
        let shown = errors(&text.replacen(from, to, 1));
        assert!(shown.contains(expected), "{to}: {shown}");
    }
}

#[test]
fn structs_declare_their_members_and_their_paths() {
    let text = "\
catalogue: a
sources:
  xml: { format: xml, records: b, as_of: meta.received, feeds: [{ into: x, map: { k: '@k', parts: { path: p, map: { site: '@s', at: '@t' } } } }] }
  json: { format: json, as_of: meta.received, into: x }
collections:
  x:
    key: k
    fields:
      k: text
      parts: { type: [{ site: text, at: timestamp, runs: ranges }], by: site, index: { site: [equal, prefix] } }
";
    let catalogue = parse(text).unwrap_or_else(|problems| panic!("{}", render("x", text, &problems, false)));
    let names: Vec<&str> = catalogue.collections[CollectionId::from(0)].fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["k", "parts", "parts.site", "parts.at", "parts.runs"]);
    let shown = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        errors(&text.replace(from, to))
    };
    for (from, to, message) in [
        ("{ site: text, at: timestamp, runs: ranges }", "{}", "a struct has members"),
        ("site: text,", "site: [text],", "`site` is inside a list"),
        ("[{ site: text, at: timestamp, runs: ranges }]", "[ranges]", "ranges are a set already"),
        ("by: site", "by: sit", "did you mean `site`?"),
        ("by: site", "by: runs", "ranges cannot identify structs"),
        ("by: site", "by: site, survivorship: union", "use either `by` or `survivorship`, not both"),
        ("by: site", "derive: k", "`parts` is a list of structs and can only be contributed"),
        ("index: { site: [equal, prefix] }", "index: equal", "`parts` has members, each with an index of its own"),
        ("index: { site: [equal, prefix] }", "index: { sit: equal }", "did you mean `site`?"),
        ("index: { site: [equal, prefix] }", "index: { runs: equal }", "ranges have no index"),
        ("index: { site: [equal, prefix] }", "index: { at: prefix }", "only text can have this kind of index"),
        ("parts: { path: p, map: { site: '@s', at: '@t' } }", "parts: p", "the structs of xml need a rule for each member"),
        ("map: { site: '@s', at: '@t' }", "map: { sit: '@s' }", "did you mean `site`?"),
        ("map: { site: '@s', at: '@t' }", "map: { site: { expr: \"'a'\" } }", "a member comes from a path"),
        ("path: p, map", "map", "`path` says where the structs are"),
        ("k: '@k', parts", "parts.site: '@k', k: '@k', parts", "is not a name"),
    ] {
        let problems = shown(from, to);
        assert!(problems.contains(message), "{message:?} is missing in\n{problems}");
    }
}

/// Paths that the server could not distinguish are found before it starts.
#[test]
fn routes_cannot_use_reserved_or_ambiguous_paths() {
    let with = |routes: &str| {
        format!(
            "catalogue: c\nsources:\n  s: {{ format: json, into: x, as_of: meta.received }}\ncollections:\n  x:\n    key: k\n    fields: {{ k: text }}\n    \
             state: {{ n: {{ type: integer, seed: \"0\" }} }}\n    transitions: {{ move: {{ set: {{ n: n + 1 }} }} }}\nroutes:\n{routes}"
        )
    };
    let get = |path: &str| format!("  - {{ get: '{path}', params: {{ k: text }}, one: x, where: {{ key: params.k }} }}\n");
    for taken in ["/t/{k}", "/sign-in", "/sign-out", "/assets/{k}", "/v1/x", "/docs", "/metrics/{k}", "/{k}"] {
        let first = taken[1..].split('/').next().unwrap_or_default();
        let shown = errors(&with(&get(taken)));
        assert!(shown.contains(&format!("paths under /{first} are those of the API and its pages")), "{shown}");
    }
    let post = |path: &str, name: &str| format!("  - {{ post: '{path}', params: {{ {name}: text }}, of: x, key: '{{{name}}}', transition: move }}\n");
    let shown = errors(&with(&(get("/a/{k}") + &post("/a/{other}", "other"))));
    assert!(shown.contains("/a/{k} and /a/{other} are one path, but call its parameters differently"), "{shown}");
    assert!(errors(&with(&(get("/a/{k}") + &get("/a/{k}")))).contains("get /a/{k} is declared twice"));
    let all = with(&(get("/a/{k}") + &post("/a/{k}", "k") + &get("/a/{k}/b")));
    parse(&all).unwrap_or_else(|problems| panic!("{}", render("catalogue.yaml", &all, &problems, false)));
}

#[test]
fn two_sources_cannot_have_the_same_file_pattern() {
    let definition = |first: &str, second: &str| {
        format!(
            "catalogue: c\nsources:\n  one: {{ format: csv, into: t, as_of: meta.received{first} }}\n  other: {{ format: csv, into: t, as_of: meta.received{second} }}\n\
             collections: {{ t: {{ key: id, fields: {{ id: text }} }} }}\n"
        )
    };
    let accepted = [
        (", files: 'a*'", ", files: ['b*', 'a?']"),
        (", files: 'a*', has: x", ", files: 'a*', has: y"),
        (", files: 'a*', has: x", ", files: 'a*'"),
        (", has: x", ", has: x"),
        (", short_rows: absent", ", short_rows: fail"),
        (", header: [id, x], null: '\\N', skip: 2", ", null: [NA, '-'], delimiter: \"\\t\", encoding: latin-1, sheet: 'A b'"),
    ];
    for (first, second) in accepted {
        parse(&definition(first, second)).unwrap_or_else(|problems| panic!("{first} {second}: {problems:?}"));
    }
    let duplicate = errors(&definition(", files: ['x', 'a*'], has: x", ", files: 'a*', has: x"));
    assert!(
        duplicate.contains("`a*` is a pattern of source `one`, too") && duplicate.contains("catalogue.yaml:4:") && duplicate.contains("say `has:`"),
        "{duplicate}"
    );
    for (wrong, expected) in [
        (", files: 'in/a*'", "without its folder"),
        (", files: 'a[b'", "a `[` has no `]`"),
        (", files: 'a*.gz'", "names are compared without .gz"),
        (", files: []", "`files` lists no pattern"),
        (", files: ['a', 'a']", "`a` is listed twice"),
        (", files: { a: b }", "a pattern for names of files is text"),
        (", short_rows: perhaps", "it is one of fail, absent"),
        (", header: [id, id]", "there are two columns `id`"),
        (", header: []", "`header` names no column"),
        (", header: [id], let: { a: b }", "`header` has no column `b`, which a rule of `one` reads"),
        (", skip: 1001", "`skip` is a whole number from 0 to 1000"),
        (", delimiter: ab", "a delimiter is one ASCII character"),
        (", delimiter: '\"'", "a delimiter is one ASCII character"),
        (", encoding: marc-8", "it is one of utf-8, latin-1, cp1252"),
        (", tolerance: strict", "`tolerance` is for sources of `format: marc`"),
    ] {
        let shown = errors(&definition(wrong, ""));
        assert!(shown.contains(expected), "{wrong}: {shown}");
    }
    let xml = "catalogue: c\nsources: { one: { format: xml, into: t, as_of: meta.received, short_rows: absent, has: '//(' } }\n\
               collections: { t: { key: id, fields: { id: { type: text, path: id } } } }\n";
    let shown = errors(xml);
    assert!(shown.contains("`short_rows` is for sources of `format: csv`; this one is xml") && shown.contains("not a XPath"), "{shown}");
}

#[test]
fn file_patterns_do_not_change_the_generation_of_a_feed() {
    let generation = |more: &str| {
        let text = format!(
            "catalogue: c\nsources: {{ one: {{ format: csv, as_of: meta.received, feeds: [{{ into: t, map: {{ id: id, files: a, has: b }} }}]{more} }} }}\n\
             collections: {{ t: {{ key: id, fields: {{ id: text, files: text, has: text }} }} }}\n"
        );
        parse(&text).expect("sound").sources[SourceId::from(0)].feeds[0].generation
    };
    let plain = generation("");
    assert_eq!(plain, generation(", files: 'a*', has: a"));
    assert_ne!(plain, generation(", short_rows: absent"));
}

#[test]
fn an_order_of_documents_ends_with_their_reception() {
    let define = |as_of: &str| {
        format!(
            "catalogue: a\nsources:\n  s:\n    format: json\n    let: {{ made: {{ path: $.made, type: timestamp }}, who: $.who }}\n    into: x\n    as_of: {as_of}\n\
             collections: {{ x: {{ key: k, fields: {{ k: text, changed: timestamp }} }} }}\n"
        )
    };
    let order = |as_of: &str| {
        let catalogue = parse(&define(as_of)).unwrap_or_else(|problems| panic!("{as_of}: {problems:?}"));
        let order = catalogue.sources[SourceId::from(0)].as_of.clone();
        (order.times.len(), order.by_reception, order.is_received())
    };
    assert_eq!(order("changed"), (1, false, false));
    assert_eq!(order("meta.received"), (1, false, true));
    assert_eq!(order("[meta.received]"), (1, true, true));
    assert_eq!(order("[changed, made, \"coalesce(made, changed)\", meta.received]"), (4, true, false));
    for (as_of, expected) in [
        ("[]", "this list does not say in which order documents of the same time count"),
        ("[changed, made]", "end it with `meta.received`"),
        ("[meta.received, changed]", "`meta.received` is not the last of the list"),
        ("[meta.received, changed, meta.received]", "`meta.received` is not the last of the list"),
        ("[who, meta.received]", "as_of is a timestamp, `who` is text"),
        ("[chnged, meta.received]", "chnged"),
    ] {
        let shown = errors(&define(as_of));
        assert!(shown.contains(expected), "{as_of}: {shown}");
    }
    // it is a changed mapping: documents that are imported again count
    let generation = |as_of: &str| parse(&define(as_of)).expect("valid").sources[SourceId::from(0)].feeds[0].generation;
    assert_ne!(generation("changed"), generation("[changed, meta.received]"));
}

#[test]
fn cleaners_are_chosen_by_name_and_documented() {
    use stook_catalogue::functions::{ABBREVIATIONS, CLEANERS};
    let define = |clean: &str| {
        format!(
            "catalogue: a\nsources: {{ s: {{ format: json, into: x, as_of: meta.received }} }}\n\
             collections: {{ x: {{ key: k, fields: {{ k: {{ type: text, clean: {clean} }} }} }} }}\n"
        )
    };
    let names = |clean: &str| -> Vec<&str> {
        let catalogue = parse(&define(clean)).unwrap_or_else(|problems| panic!("{clean}: {problems:?}"));
        catalogue.sources[SourceId::from(0)].feeds[0].map[0].rule.clean.iter().map(|cleaner| cleaner.name).collect()
    };
    assert_eq!(names("isbd"), ["isbd"]);
    assert_eq!(names("[isbd, nfc, lower]"), ["isbd", "nfc", "lower"]);
    for cleaner in &CLEANERS {
        assert_eq!(names(cleaner.name), [cleaner.name]);
    }
    for (clean, expected) in [
        ("lowr", "did you mean `lower`?"),
        ("[isbd, trimm]", "did you mean `trim`?"),
        ("md5", "it is one of squash, trim, isbd"),
        ("[]", "names nothing"),
    ] {
        let shown = errors(&define(clean));
        assert!(shown.contains(expected), "{clean}: {shown}");
    }
    // the documentation lists all of them
    let page = include_str!("../../../../docs/definition.md");
    let paragraph = page.split("`clean` is one name").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a paragraph");
    assert!(CLEANERS.iter().all(|cleaner| paragraph.contains(&format!("`{}`", cleaner.name))), "{paragraph}");
    let words: Vec<&str> = paragraph.split(|character: char| !character.is_alphabetic()).collect();
    assert!(ABBREVIATIONS.iter().all(|word| words.contains(word)), "{paragraph}");
}

#[test]
fn each_names_elements_of_documents_that_are_identified() {
    let definition = |format: &str, source: &str, feeds: &str| {
        let collections = ["t", "u"].into_iter().filter(|name| feeds.contains(&format!("into: {name}")));
        let collections: Vec<String> = collections.map(|name| format!("{name}: {{ key: id, fields: {{ id: text }} }}")).collect();
        let source = format!("format: {format}, as_of: meta.received{source}, feeds: [{feeds}]");
        format!("catalogue: c\nsources:\n  s: {{ {source} }}\ncollections: {{ {} }}\n", collections.join(", "))
    };
    for (format, source, feeds) in [
        ("marc", "", "{ into: t, map: { id: '001' } }, { into: u, each: 945, map: { id: $i } }"),
        ("marc", ", let: { n: '001' }", "{ into: u, each: { path: '9..{^1=\\1}', of: n }, map: { id: '/0-3' } }"),
        ("json", ", let: { n: $.n }", "{ into: u, each: { path: '$.a[*]', of: n } }, { into: u, each: { path: '$.b[*]', of: n }, map: { id: $.x } }"),
        ("xml", ", let: { n: '@n' }", "{ into: t, map: { id: '@n' } }, { into: u, each: 'item', map: { id: '@id' } }"),
    ] {
        let text = definition(format, source, feeds);
        parse(&text).unwrap_or_else(|problems| panic!("{}", render("catalogue.yaml", &text, &problems, false)));
    }
    for (format, source, feeds, expected) in [
        ("csv", "", "{ into: t }, { into: u, each: a }", "a row of csv has no parts"),
        ("marc", "", "{ into: t, map: { id: '001' } }, { into: u, each: 945$i, map: { id: $i } }", "this path names fields, not parts of them"),
        ("marc", "", "{ into: t, map: { id: '001' } }, { into: u, each: 945, map: { id: 945$i } }", "expected a part of the field"),
        ("json", "", "{ into: u, each: '$.a[*]' }", "no feed is without `each`"),
        ("json", "", "{ into: u, each: { path: '$.a[*]', of: n } }", "`n`"),
        ("json", "", "{ into: t }, { into: t, each: '$.a[*]' }", "this source feeds `t` twice"),
        (
            "json",
            ", let: { n: $.n }, replaces: { scope: n }",
            "{ into: t }, { into: u, each: '$.a[*]' }",
            "`replaces` is for files that are complete",
        ),
    ] {
        let shown = errors(&definition(format, source, feeds));
        assert!(shown.contains(expected), "{feeds}: {shown}");
    }
}
