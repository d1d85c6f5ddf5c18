//! Routes in steps: what a definition can say, and what is refused at its place.

use stook_catalogue::definition::Catalogue;
use stook_catalogue::parse::parse;
use stook_catalogue::route::{GeneratedValue, ParamLocation, RouteAction, WriteAction};

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
