//! Routes in steps: what a definition can say, and what is refused at its place.

use stook_catalogue::definition::Catalogue;
use stook_catalogue::parse::parse;
use stook_catalogue::route::{FindKind, FoundBy, GeneratedValue, ParamLocation, RouteAction, TagWrite, WriteAction};

const SHOP: &str = r#"
catalogue: shop
sources:
  goods: { format: json, as_of: meta.received, into: item }
  offers: { format: json, as_of: meta.received, into: offer }
collections:
  item:
    key: code
    fields: { code: text, left: { type: integer, index: equal }, names: [text] }
  offer:
    key: "{number}"
    fields: { number: uuid, at: timestamp, codes: [text] }
    state: { status: { type: text, seed: "'open'" } }
    transitions: { close: { args: { why: text }, set: { status: "'closed'" } } }
"#;

const ROUTE: &str = r#"
routes:
  - post: /shop/offers
    params:
      offer: { type: json, in: whole_body, required: There is no offer., schema: { type: object, required: [codes] } }
      number: { type: uuid, in: nowhere, generate: uuid }
    find:
      items: { list: item, where: { key: params.offer.codes }, fields: { key: key, left: left } }
      few: { list: item, when: size(items) > 0, where: { left: { below: "3" } }, fields: { key: key } }
    refuse:
      - { when: size(params.offer.codes) == 0, code: 400, reason: "'an offer of nothing'" }
      - { when: "items.exists(item, item.left == 0)", reason: "items.map(item, item.key)" }
    write:
      - { create: offer, fields: { number: params.number, at: now, codes: params.offer.codes }, taken: { 409: Again. } }
      - { patch: item, each: items, key: item.key, fields: { left: item.left - 1 } }
      - { transition: close, of: offer, key: params.offer.replaces, when: params.offer.replaces != null, args: { why: "'replaced'" } }
    code: 201
    answer: { number: params.number, few: "size(few)" }
"#;

fn shop(route: &str) -> Result<Catalogue, Vec<String>> {
    parse(&format!("{SHOP}{route}")).map_err(|problems| problems.into_iter().map(|problem| problem.message).collect())
}

#[test]
fn a_route_in_steps_is_read() {
    let catalogue = shop(ROUTE).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let route = &catalogue.routes[0];
    assert_eq!((route.params[0].location, route.params[1].generate), (ParamLocation::WholeBody, Some(GeneratedValue::Uuid)));
    let RouteAction::Steps(steps) = &route.action else { panic!("{route:?}") };
    assert_eq!((steps.finds.len(), steps.computed.len(), steps.writes.len(), steps.response.status), (2, 2, 3, 201));
    let needed: Vec<usize> = steps.refusals.iter().map(|(needed, _)| *needed).collect();
    assert_eq!(needed, [0, 1], "a refusal that names nothing found comes before all finds");
    assert!(matches!(steps.writes[2].action, WriteAction::Transition(0, _)));
    assert!(!route.params[0].schema.as_ref().expect("a schema").errors(&serde_json::json!({})).is_empty());
}

/// Routes that find and change tags, find by queries, and are told apart by a parameter.
const TAGGED: &str = r#"
catalogue: shop
collections:
  item:
    key: code
    fields: { code: text, left: { type: integer, index: equal } }
    tags: { attributes: { colour: text } }
    state: { status: { type: text, seed: "'free'" } }
    transitions: { reserve: { args: { by: text }, set: { status: "'reserved'" } } }
  plain: { key: code, fields: { code: text } }
routes:
  - get: /shop/items/
    find: { tags: { tags: item }, cheap: { list: item, query: "'left<3'", fields: { code: code, tags: tag } } }
    answer: { tags: tags, cheap: cheap, at: url }
  - post: /shop/items/?op=reserve
    params: { tag: { type: text, required: true } }
    write: [ { transition: reserve, of: item, query: "'tag=' + quoted(params.tag)", args: { by: caller }, required: { 409: Nothing is left. } } ]
    find:
      before: { list: item, where: { left: "1" }, fields: { code: code } }
      got: { one: item, where: { key: written.key }, fields: { code: code } }
      same: { list: item, where: { key: got.code }, fields: { code: code } }
    refuse: [ { when: size(before) > 5, reason: "'too many'" } ]
    body: same
  - post: /shop/items/?op=rename
    params: { tag: text, name: text }
    write: [ { tag: change, of: item, key: params.tag, fields: { name: params.name, colour: "'red'" }, taken: { 400: Taken. } } ]
    find: { tag: { tags: item, key: written.name, required: { 404: No tag. } } }
    body: tag
"#;

#[test]
fn routes_with_tags_and_queries_are_read() {
    let catalogue = parse(TAGGED).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let steps = |index: usize| match &catalogue.routes[index].action {
        RouteAction::Steps(steps) => steps,
        other => panic!("{other:?}"),
    };
    let paths: Vec<String> = catalogue.routes.iter().map(stook_catalogue::route::Route::declared_path).collect();
    assert_eq!(paths, ["/shop/items/", "/shop/items/?op=reserve", "/shop/items/?op=rename"]);
    let late: Vec<bool> = steps(1).finds.iter().map(|find| find.is_after_write).collect();
    assert_eq!(late, [false, true, true], "what names something that is found after the write is, too");
    assert_eq!([0, 1, 2].map(|index| steps(index).is_answered_after_write), [false, true, true]);
    assert!(steps(1).writes[0].stands_alone() && matches!(steps(1).writes[0].record, FoundBy::Query(_)));
    assert!(matches!(&steps(2).writes[0].action, WriteAction::Tag(TagWrite::Change(properties)) if properties.len() == 2));
    let shows_tags = |kind: &FindKind| matches!(kind, FindKind::Records(route) if route.lookup.shows_tags() && route.lookup.query == Some(0));
    assert!(matches!(&steps(0).finds[0].kind, FindKind::Tags(find) if find.name.is_none()) && shows_tags(&steps(0).finds[1].kind));
}

#[test]
fn mistakes_in_routes_with_tags_and_queries_are_shown() {
    for (written, wrong, message) in [
        ("post: /shop/items/?op=rename", "post: /shop/items/?op=reserve", "post /shop/items/?op=reserve is declared twice"),
        ("post: /shop/items/?op=rename", "post: /shop/items/?do=rename", "are told apart by different parameters"),
        ("post: /shop/items/?op=rename", "post: /shop/items/?op", "may end with ?parameter=value"),
        ("post: /shop/items/?op=rename", "post: /shop//items/", "a path is /words/and/{parameters}"),
        ("post: /shop/items/?op=rename", "post: /shop/items/?tag=rename", "`tag` stands in the path and under `params`"),
        ("{ tags: item }", "{ tags: plain }", "`plain` has no tags"),
        ("where: { left: \"1\" }", "key: caller", "records are found by `where: { key: … }`"),
        ("  - post: /shop/items/?op=rename", "  - post: /shop/items/?op=\n  - post: /shop/items/", "post /shop/items/ is declared twice"),
        ("{ tags: item }", "{ tags: item, sort: [code] }", "a find of `tags` has `key`, `when` and `required`"),
        ("fields: { code: code, tags: tag }", "fields: { code: code, tags: tags }", "unknown name `tags`"),
        ("tag: change, of: item", "tag: change, of: plain", "`plain` has no tags"),
        ("tag: change", "tag: rename", "`rename` is not a change of a tag"),
        ("tag: change", "tag: create", "there is no property of a tag `name`"),
        ("tag: change", "tag: delete", "`fields` does not belong to this change"),
        ("key: params.tag, fields", "fields", "needs the `key` of the record, or name of the tag"),
        ("colour: \"'red'\"", "size: \"'red'\"", "there is no property of a tag `size`"),
        (
            "query: \"'tag=' + quoted(params.tag)\",",
            "query: \"'tag=' + quoted(params.tag)\", key: caller,",
            "a record has a `key`, or a `query` finds it",
        ),
        ("query: \"'tag=' + quoted(params.tag)\",", "query: \"'tag=' + quoted(params.tag)\", each: before,", "is done once"),
        (
            "required: { 409: Nothing is left. } }",
            "required: { 409: Nothing is left. } }, { delete: item, key: caller }",
            "is the only write of a route",
        ),
        ("size(before) > 5", "size(got) > 5", "unknown name `got`"),
        ("by: caller", "by: written.key", "unknown name `written`"),
        ("answer: { tags: tags", "answer: { tags: written", "unknown name `written`"),
        ("      before:", "      url:", "`url` has a meaning"),
    ] {
        assert!(TAGGED.contains(written), "{written}");
        let problems = parse(&TAGGED.replacen(written, wrong, 1)).map(|_| ()).expect_err(wrong);
        assert!(problems.iter().any(|problem| problem.message.contains(message)), "{wrong}: {problems:?}");
    }
}

#[test]
fn mistakes_are_shown() {
    for (written, wrong, message) in [
        ("create: offer", "create: order", "there is no collection `order`"),
        ("create: offer", "make: offer", "a write has no key `make`"),
        ("create: offer, ", "create: offer, put: item, ", "one of create, put, patch, delete"),
        ("patch: item, each: items, key: item.key,", "patch: item, each: items,", "`patch` needs the `key`"),
        ("fields: { left: item.left - 1 }", "fields: { lef: item.left - 1 }", "there is no field `lef`"),
        ("left: item.left - 1", "left: itm.left - 1", "unknown name `itm`"),
        ("{ patch: item, each: items, key: item.key", "{ patch: item, key: item.key", "unknown name `item`"),
        ("at: now", "at: \"'now' + 1\"", "+"),
        ("when: size(items) > 0", "when: size(few) > 0", "unknown name `few`"),
        ("code: 201", "code: 500", "a code is a whole number from 200"),
        ("post: /shop/offers", "get: /shop/offers", "needs post, put, patch or delete"),
        ("      items: {", "      now: {", "`now` has a meaning"),
        ("taken: { 409: Again. }", "taken: { 200: Again. }", "a status from 400 to 499"),
        ("schema: { type: object,", "schema: { type: thing,", "no JSON Schema"),
        ("generate: uuid }", "}", "`in: nowhere` needs one of them"),
        ("type: uuid, in: nowhere", "type: integer, in: nowhere", "`generate: uuid` is for uuid and text"),
        ("in: whole_body", "in: query", "a parameter of type json is in the body"),
        ("    code: 201", "    open: true\n    code: 201", "finds and writes nothing"),
        ("    code: 201", "    sort: [code]\n    code: 201", "`sort` is of a look-up"),
        ("    code: 201", "    body: \"'x'\"\n    code: 201", "stands without `body`"),
        ("args: { why:", "args: { wy:", "there is no argument `wy`"),
        ("where: { left: { below: \"3\" } }", "where: { left: { above: \"3\" } }", "a condition has no key `above`"),
    ] {
        assert!(ROUTE.contains(written), "{written}");
        let problems = shop(&ROUTE.replace(written, wrong)).map(|_| ()).expect_err(wrong);
        assert!(problems.iter().any(|problem| problem.contains(message)), "{wrong}: {problems:?}");
    }
    let lookup = "routes:\n  - get: /shop/items/{code}\n    params: { code: text }\n    one: item\n    where: { key: params.code }\n    body: code\n";
    let problems = shop(lookup).map(|_| ()).expect_err("a look-up has no body");
    assert!(problems[0].contains("`body` is of a route in steps"), "{problems:?}");
    let serving = "serve: { origins: [example.org/x], unknown: forget }\n";
    assert_eq!(shop(serving).map(|_| ()).expect_err("neither").len(), 2);
}
