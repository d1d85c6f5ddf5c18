//! Random requests of every kind that reads, and whether they are answered as one of the worlds that there were meanwhile.

use crate::reads::market::{self, Item, KINDS, LABELS, NOTES, SHOPS, STORAGES, TOWNS, WORDS};
use crate::reads::naive::{Condition, Params, Query, Test, World, shop, words};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use stook_tests::Dice;
use stook_tests::http::{Reply, url_encoded};

/// A request, and what its answer is checked with.
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub body: Json,
    pub check: Check,
}

/// Says what is wrong with an answer; the worlds are those that the request may have seen.
type Check = Box<dyn Fn(&Reply, &[World<'_>]) -> Result<(), String>>;

fn one_of<'a>(dice: &mut Dice, all: &[&'a str]) -> &'a str {
    all[dice.below(all.len() as u64) as usize]
}

/// One JSON value out of an answer that was expected.
fn json_of(reply: &Reply) -> Result<Json, String> {
    if reply.status != 200 {
        return Err(format!("status {}: {}", reply.status, reply.text()));
    }
    serde_json::from_slice(&reply.body).map_err(|error| format!("{error}: {}", reply.text()))
}

/// What is shown of two values that should be equal: the place where they begin to differ.
fn difference(found: &Json, expected: &Json) -> String {
    let (found, expected) = (found.to_string(), expected.to_string());
    let offset = found.bytes().zip(expected.bytes()).take_while(|(left, right)| left == right).count().saturating_sub(60);
    let part = |text: &str| text.bytes().skip(offset).take(300).map(char::from).collect::<String>();
    format!("of {} and {} bytes, from {offset}:\n  found  {}\n  wanted {}", found.len(), expected.len(), part(&found), part(&expected))
}

/// An answer is what is expected in one of the worlds.
fn is_one_of(found: &Json, expected: impl Iterator<Item = Json>) -> Result<(), String> {
    let mut first = None;
    for expected in expected {
        if *found == expected {
            return Ok(());
        }
        first = first.or(Some(expected));
    }
    Err(difference(found, &first.unwrap_or_default()))
}

/// The same for numbers: sums are exact, means have the precision of a float.
fn is_about(found: &Json, expected: &Json) -> bool {
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        _ => found == expected,
    }
}

/// A value as a query takes it, quoted.
fn quoted(text: &str) -> String {
    format!("'{text}'")
}

fn random_known_text(dice: &mut Dice, field: &str) -> String {
    match field {
        "kind" => one_of(dice, &[&KINDS[..], &["none such"]].concat()).to_owned(),
        "word" => {
            let word = one_of(dice, &WORDS);
            if dice.below(2) == 0 { word.to_ascii_uppercase() } else { word.to_owned() }
        }
        "labels" => one_of(dice, &LABELS).to_owned(),
        "shop" if dice.below(3) == 0 => "s000".into(),
        "shop" => market::shop_id(dice),
        "note" => one_of(dice, &NOTES).to_owned(),
        "status" => one_of(dice, &["open", "shut", "gone"]).to_owned(),
        "lots.place" => one_of(dice, &STORAGES).to_owned(),
        "id" => format!("i{:05}", dice.below(14_000)),
        other => panic!("{other}"),
    }
}

/// A condition and how it is written.
fn condition(dice: &mut Dice) -> (Condition, String) {
    let texts = ["kind", "kind", "word", "labels", "shop", "note", "id", "status", "lots.place"];
    let numbers = ["rank", "size", "ratio", "lots.amount"];
    match dice.below(11) {
        0..6 => {
            let field = one_of(dice, &texts);
            let text = random_known_text(dice, field);
            match dice.below(6) {
                0..2 => (Condition { field, test: Test::Equal(json!(text)) }, format!("{field}={}", quoted(&text))),
                2 => (Condition { field, test: Test::NotEqual(json!(text)) }, format!("{field}!={}", quoted(&text))),
                3 => {
                    let all: Vec<String> = (0..1 + dice.below(4)).map(|_| random_known_text(dice, field)).collect();
                    let written = all.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ");
                    (Condition { field, test: Test::In(all.into_iter().map(Json::from).collect()) }, format!("{field} in [{written}]"))
                }
                // around a star, which is written in double quotes
                way => {
                    let (start, end) = (dice.below(3) as usize, dice.below(3) as usize);
                    let pieces =
                        vec![text.chars().take(start).collect::<String>(), text.chars().skip(text.chars().count().saturating_sub(end)).collect()];
                    let escaped: Vec<String> = pieces.iter().map(|piece| piece.replace('*', "\\*")).collect();
                    let (test, sign) = if way == 4 { (Test::Like(pieces), "=") } else { (Test::NotLike(pieces), "!=") };
                    (Condition { field, test }, format!("{field}{sign}\"{}\"", escaped.join("*")))
                }
            }
        }
        6..9 => {
            let field = one_of(dice, &numbers);
            let number = match field {
                "rank" if dice.below(2) == 0 => json!(0),
                "rank" => json!(dice.below(400) as i64 - 200),
                "size" if dice.below(2) == 0 => json!(7),
                "size" => json!(dice.below(2_000)),
                "lots.amount" => json!(dice.below(50)),
                _ => json!(dice.below(64) as f64 / 4.0 - 8.0),
            };
            let (test, sign) = match dice.below(6) {
                0 => (Test::Equal(number.clone()), "="),
                1 => (Test::NotEqual(number.clone()), "!="),
                2 => (Test::Less(number.clone()), "<"),
                3 => (Test::AtMost(number.clone()), "<="),
                4 => (Test::Greater(number.clone()), ">"),
                _ => (Test::AtLeast(number.clone()), ">="),
            };
            (Condition { field, test }, format!("{field}{sign}{number}"))
        }
        // a tag that is a query
        9 => (Condition { field: "size", test: Test::AtLeast(json!(1_000)) }, "tag=big".into()),
        _ => {
            let is_set = dice.below(2) == 0;
            (Condition { field: "flag", test: Test::Equal(json!(is_set)) }, format!("flag={is_set}"))
        }
    }
}

const SCALARS: [&str; 10] = ["id", "kind", "word", "shop", "rank", "size", "ratio", "flag", "note", "status"];

/// Conditions of a query, and the query as far as they go.
fn lookup(dice: &mut Dice) -> (Query, String) {
    let mut query = Query::default();
    let mut text = "item".to_owned();
    for _ in 0..dice.below(4) {
        let (condition, written) = condition(dice);
        query.conditions.push(condition);
        text = format!("{text} {written}");
    }
    (query, text)
}

/// A whole query.
fn query(dice: &mut Dice) -> (Query, String) {
    let (mut query, mut text) = lookup(dice);
    query.unique = dice.below(4) == 0;
    let columns: Vec<&'static str> =
        if query.unique { ["kind", "word", "shop", "rank", "flag"].to_vec() } else { [&SCALARS[..], &["labels"]].concat() };
    for _ in 0..1 + dice.below(3) {
        let column = one_of(dice, &columns);
        if !query.columns.contains(&column) {
            query.columns.push(column);
        }
    }
    if dice.below(2) == 0 {
        for _ in 0..1 + dice.below(2) {
            let sortable: Vec<&'static str> = if query.unique { query.columns.clone() } else { SCALARS.to_vec() };
            query.sort.push((one_of(dice, &sortable), dice.below(2) == 0));
        }
        let written: Vec<String> = query.sort.iter().map(|(field, down)| format!("{field}{}", if *down { "-" } else { "" })).collect();
        text = format!("{text} | sort {}", written.join(", "));
    }
    text = format!("{text} | grep {}{}", query.columns.join(", "), if query.unique { " | unique" } else { "" });
    (query, text)
}

fn page_of_query(dice: &mut Dice) -> Request {
    let (mut query, text) = query(dice);
    let limit = [1, 10, 50, 1_000, 10_000][dice.below(5) as usize];
    let mut idx = if dice.below(2) == 0 { 0 } else { dice.below(12_000) as usize };
    let total = dice.below(2) == 0;
    let mut path = format!("/v1/main/query?q={}&limit={limit}&total={total}", url_encoded(&text));
    if query.sort.is_empty() && !query.unique && dice.below(3) == 0 {
        let after = random_known_text(dice, "id");
        path = format!("{path}&after={after}");
        // the number of rows is that of those after it
        query.after = Some(after);
        idx = 0;
    } else {
        path = format!("{path}&idx={idx}");
    }
    let check = move |reply: &Reply, worlds: &[World<'_>]| {
        let found = json_of(reply)?;
        let shown = if total { json!({ "rows": found["rows"], "total": found["total"] }) } else { json!({ "rows": found["rows"] }) };
        let expected = worlds.iter().map(|world| {
            let rows = query.rows(world);
            let count = rows.len();
            let page: Vec<Json> = rows.into_iter().skip(idx).take(limit).collect();
            if total { json!({ "rows": page, "total": count }) } else { json!({ "rows": page }) }
        });
        is_one_of(&shown, expected)
    };
    Request { method: "GET", path, body: Json::Null, check: Box::new(check) }
}

/// Rows of the structs that items have.
fn lots(dice: &mut Dice) -> Request {
    let (query, mut text) = lookup(dice);
    let sort = (dice.below(2) == 0).then(|| (one_of(dice, &["lots.amount", "lots.place", "rank", "kind"]), dice.below(2) == 0));
    text = format!("{text} | each lots | grep id, lots.place, lots.amount");
    let mut lot_conditions = Vec::new();
    if dice.below(3) == 0 {
        let storage = random_known_text(dice, "lots.place");
        text = format!("{text}, lots.place={}", quoted(&storage));
        lot_conditions.push(Condition { field: "lots.place", test: Test::Equal(json!(storage)) });
    }
    if dice.below(3) == 0 {
        let amount = dice.below(50);
        text = format!("{text}, lots.amount>={amount}");
        lot_conditions.push(Condition { field: "lots.amount", test: Test::AtLeast(json!(amount)) });
    }
    if let Some((field, down)) = sort {
        text = format!("{text} | sort {field}{}", if down { "-" } else { "" });
    }
    let (limit, idx) = ([10, 1_000, 10_000][dice.below(3) as usize], if dice.below(2) == 0 { 0 } else { dice.below(6_000) as usize });
    let path = format!("/v1/main/query?q={}&limit={limit}&idx={idx}&total=true", url_encoded(&text));
    let check = move |reply: &Reply, worlds: &[World<'_>]| {
        let found = json_of(reply)?;
        let shown = json!({ "rows": found["rows"], "total": found["total"] });
        let expected = worlds.iter().map(|world| {
            let rows = query.lots(world, &lot_conditions, sort);
            let count = rows.len();
            json!({ "rows": rows.into_iter().skip(idx).take(limit).collect::<Vec<_>>(), "total": count })
        });
        is_one_of(&shown, expected)
    };
    Request { method: "GET", path, body: Json::Null, check: Box::new(check) }
}

/// Records of all collections of which conditions can be asked.
fn everywhere(dice: &mut Dice) -> Request {
    let (field, value) = match dice.below(3) {
        0 => ("id", if dice.below(2) == 0 { random_known_text(dice, "id") } else { market::shop_id(dice) }),
        1 => ("town", one_of(dice, &TOWNS).to_owned()),
        _ => ("kind", random_known_text(dice, "kind")),
    };
    let path = format!("/v1/main/query?q={}&limit=100&total=true", url_encoded(&format!("records {field}={}", quoted(&value))));
    let check = move |reply: &Reply, worlds: &[World<'_>]| {
        let found = json_of(reply)?;
        let shown = json!({ "rows": found["rows"], "total": found["total"] });
        let expected = worlds.iter().map(|world| {
            let shops = world.shops.iter().filter(|shop| match field {
                "id" => shop.id == value,
                "town" => shop.town.as_ref() == Some(&value),
                _ => false,
            });
            let items = world.items.iter().filter(|item| field != "town" && item.value(field) == json!(value));
            let rows = shops.map(|shop| json!({ "collection": "shop", "key": shop.id }));
            let rows: Vec<Json> = rows.chain(items.map(|item| json!({ "collection": "item", "key": item.id }))).collect();
            json!({ "rows": rows.iter().take(100).collect::<Vec<_>>(), "total": rows.len() })
        });
        is_one_of(&shown, expected)
    };
    Request { method: "GET", path, body: Json::Null, check: Box::new(check) }
}

fn aggregates(dice: &mut Dice) -> Request {
    let (query, mut text) = lookup(dice);
    let mut requested: Vec<(&'static str, &'static str)> = Vec::new();
    for _ in 0..1 + dice.below(3) {
        let aggregate = match dice.below(3) {
            0 => ("count", one_of(dice, &[&SCALARS[..], &["labels", "lots.amount"]].concat())),
            1 => (one_of(dice, &["min", "max"]), one_of(dice, &["id", "kind", "shop", "rank", "size", "ratio", "lots.amount"])),
            _ => (one_of(dice, &["sum", "avg", "median"]), one_of(dice, &["rank", "size", "ratio", "lots.amount"])),
        };
        if !requested.contains(&aggregate) {
            requested.push(aggregate);
        }
    }
    let written: Vec<String> = requested.iter().map(|(function, field)| format!("{function}({field})")).collect();
    text = format!("{text} | {}", written.join(", "));
    let check = move |reply: &Reply, worlds: &[World<'_>]| {
        let row = json_of(reply)?["rows"][0].clone();
        let fits = |world: &World<'_>| {
            let is_equal =
                |((function, field), name): (&(&str, &str), &String)| is_about(&row[name.as_str()], &query.aggregate(world, function, field));
            requested.iter().zip(&written).all(is_equal)
        };
        if worlds.iter().any(fits) {
            return Ok(());
        }
        let first: Vec<Json> = requested.iter().map(|(function, field)| query.aggregate(&worlds[0], function, field)).collect();
        Err(format!("{row}, not {first:?}"))
    };
    Request { method: "GET", path: format!("/v1/main/query?q={}", url_encoded(&text)), body: Json::Null, check: Box::new(check) }
}

/// Records of which facets are counted.
const COUNTED: usize = 5_000;

fn facets(dice: &mut Dice) -> Request {
    let (query, text) = lookup(dice);
    let check = move |reply: &Reply, worlds: &[World<'_>]| {
        let found = json_of(reply)?;
        let in_world = |world: &World<'_>| -> Result<(), String> {
            let records = query.matching_items(world);
            if found["counted"] != records.len().min(COUNTED) || found["whole"] != (records.len() <= COUNTED) {
                return Err(format!("{} counted, whole: {}, of {}", found["counted"], found["whole"], records.len()));
            }
            for facet in found["facets"].as_array().unwrap() {
                let mut counts: HashMap<String, u64> = HashMap::new();
                for record in &records {
                    let values = match record.value(facet["field"].as_str().unwrap()) {
                        Json::Null => Vec::new(),
                        Json::Array(elements) => elements,
                        value => vec![value],
                    };
                    for value in values {
                        *counts.entry(value.as_str().map_or_else(|| value.to_string(), str::to_owned)).or_default() += 1;
                    }
                }
                for value in facet["values"].as_array().unwrap() {
                    let (all, shown) = (counts.get(value["value"].as_str().unwrap()).copied().unwrap_or(0), value["records"].as_u64().unwrap());
                    if shown > all || (shown != all && found["whole"] == true) {
                        return Err(format!("{} {value}, not {all}", facet["field"]));
                    }
                }
                let shown = facet["values"].as_array().unwrap().len() + facet["others"].as_u64().unwrap() as usize;
                if found["whole"] == true && shown != counts.len() {
                    return Err(format!("{facet}: {} values", counts.len()));
                }
            }
            Ok(())
        };
        let mut all = worlds.iter().map(in_world);
        let first = all.next().unwrap();
        if first.is_ok() || all.any(|other| other.is_ok()) { Ok(()) } else { first }
    };
    Request { method: "GET", path: format!("/v1/main/query/facets?q={}", url_encoded(&text)), body: Json::Null, check: Box::new(check) }
}

fn export(dice: &mut Dice) -> Request {
    let (query, text) = query(dice);
    let check = move |reply: &Reply, worlds: &[World<'_>]| {
        if reply.status != 200 {
            return Err(format!("status {}: {}", reply.status, reply.text()));
        }
        let rows: Result<Vec<Json>, _> = reply.text().lines().map(serde_json::from_str).collect();
        is_one_of(&Json::from(rows.map_err(|error| error.to_string())?), worlds.iter().map(|world| Json::from(query.rows(world))))
    };
    Request { method: "GET", path: format!("/v1/main/export?q={}", url_encoded(&text)), body: Json::Null, check: Box::new(check) }
}

fn record(dice: &mut Dice, movers: &[&str]) -> Request {
    let id = if dice.below(2) == 0 { one_of(dice, movers).to_owned() } else { random_known_text(dice, "id") };
    let path = format!("/v1/main/item/{id}");
    let check = move |reply: &Reply, worlds: &[World<'_>]| {
        let found = if reply.status == 404 { Json::Null } else { json_of(reply)? };
        let expected = worlds.iter().map(|world| world.items.iter().find(|item| item.id == id).map_or(Json::Null, |item| item.record()));
        is_one_of(&found, expected)
    };
    Request { method: "GET", path, body: Json::Null, check: Box::new(check) }
}

fn lookup_of_many(dice: &mut Dice, movers: &[&str]) -> Request {
    let keys: Vec<String> =
        (0..dice.below(300)).map(|_| if dice.below(9) == 0 { one_of(dice, movers).to_owned() } else { random_known_text(dice, "id") }).collect();
    let body = json!({ "collection": "item", "keys": keys });
    let check = move |reply: &Reply, worlds: &[World<'_>]| {
        let found = json_of(reply)?;
        let by_key = |world: &World<'_>| -> Json {
            let all: HashMap<&str, &Item> = world.items.iter().map(|item| (item.id.as_str(), *item)).collect();
            keys.iter().map(|key| all.get(key.as_str()).map_or(Json::Null, |item| item.record())).collect()
        };
        is_one_of(&found["records"], worlds.iter().map(by_key))
    };
    Request { method: "POST", path: "/v1/main/lookup".into(), body, check: Box::new(check) }
}

/// Parameters that are repeated.
fn random_choices(dice: &mut Dice, all: &[&str], max: u64) -> Vec<String> {
    let mut chosen: Vec<String> = Vec::new();
    for _ in 0..dice.below(max + 1) {
        let choice = one_of(dice, all).to_owned();
        if !chosen.contains(&choice) {
            chosen.push(choice);
        }
    }
    chosen
}

fn pairs(name: &str, values: &[String]) -> String {
    values.iter().map(|value| format!("&{name}={}", url_encoded(value))).collect()
}

fn items_route(dice: &mut Dice) -> Request {
    let mut params = Params { kinds: random_choices(dice, &KINDS, 3), page: 1, size: 20, max_total: 1_000_000, ..Params::default() };
    let mut path = pairs("kind", &params.kinds);
    if dice.below(2) == 0 {
        params.labels = random_choices(dice, &LABELS, 2);
        path += &pairs("label", &params.labels);
    }
    if dice.below(3) == 0 {
        let shop = random_known_text(dice, "shop");
        path += &format!("&shop={shop}");
        params.shop = Some(shop);
    }
    params.size = [1, 20, 700, 2_000][dice.below(4) as usize];
    params.page = 1 + if dice.below(2) == 0 { 0 } else { dice.below(8) as usize };
    path += &format!("&size={}&page={}", params.size, params.page);
    if dice.below(3) == 0 {
        params.max_total = [10, 1_000, 10_000, 12_000][dice.below(4) as usize];
        path += &format!("&most={}", params.max_total);
    }
    type Expected = fn(&Params, &World<'_>) -> Json;
    let ways: [(&str, Expected); 3] = [
        ("items", |params, world| Params { max_total: 1_000_000, ..params.clone() }.items(world)),
        ("placed", Params::with_towns),
        ("distinct", Params::distinct),
    ];
    let (name, expected) = ways[dice.below(3) as usize];
    let check = move |reply: &Reply, worlds: &[World<'_>]| is_one_of(&json_of(reply)?, worlds.iter().map(|world| expected(&params, world)));
    Request { method: "GET", path: format!("/r/{name}?{}", path.trim_start_matches('&')), body: Json::Null, check: Box::new(check) }
}

fn labelled(dice: &mut Dice) -> Request {
    // all of them once in a while
    let labels_to_choose = if dice.below(4) == 0 { &LABELS[..] } else { &LABELS[3..] };
    let labels = random_choices(dice, labels_to_choose, 3);
    let params = Params { labels, ..Params::default() };
    let path = format!("/r/labelled?{}", pairs("label", &params.labels).trim_start_matches('&'));
    let check = move |reply: &Reply, worlds: &[World<'_>]| is_one_of(&json_of(reply)?, worlds.iter().map(|world| params.labelled(world)));
    Request { method: "GET", path, body: Json::Null, check: Box::new(check) }
}

fn by_words(dice: &mut Dice) -> Request {
    let start = (dice.below(4) > 0).then(|| random_known_text(dice, "word").chars().take(1 + dice.below(5) as usize).collect::<String>());
    let part = (dice.below(2) == 0).then(|| one_of(dice, &["note", "e", "*", "some", "not there"]).to_owned());
    let given = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("&{name}={}", url_encoded(value))).unwrap_or_default();
    let path = format!("/r/words?{}{}", given("start", &start), given("part", &part)).replace("?&", "?");
    let check = move |reply: &Reply, worlds: &[World<'_>]| {
        is_one_of(&json_of(reply)?, worlds.iter().map(|world| words(world, start.as_deref(), part.as_deref())))
    };
    Request { method: "GET", path, body: Json::Null, check: Box::new(check) }
}

/// Shops with what belongs to them: each of the two look-ups is of a moment of its own.
fn shops(dice: &mut Dice) -> Request {
    let shop_id = (dice.below(2) == 0).then(|| if dice.below(2) == 0 { "s000".to_owned() } else { format!("s{:03}", dice.below(SHOPS as u64 + 2)) });
    let towns = if shop_id.is_some() { Vec::new() } else { random_choices(dice, &TOWNS, 2) };
    let path = match &shop_id {
        Some(id) => format!("/r/shops/{id}"),
        None => format!("/r/shops?{}", pairs("town", &towns).trim_start_matches('&')),
    };
    let check = move |reply: &Reply, worlds: &[World<'_>]| {
        let found = if reply.status == 404 && shop_id.is_some() { Json::Null } else { json_of(reply)? };
        let all: Vec<(&World<'_>, &World<'_>)> = worlds.iter().flat_map(|best| worlds.iter().map(move |items| (best, items))).collect();
        let expected = all.into_iter().map(|(best, items)| -> Json {
            if let Some(id) = &shop_id {
                let shop_of_world = worlds[0].shops.iter().find(|shop| shop.id == *id);
                return shop_of_world.and_then(|shop_of_world| shop(shop_of_world, best, items)).unwrap_or(Json::Null);
            }
            let fits = |shop: &&market::Shop| towns.is_empty() || shop.town.as_ref().is_some_and(|town| towns.contains(town));
            worlds[0].shops.iter().rev().filter(fits).filter_map(|shop_of_world| shop(shop_of_world, best, items)).collect()
        });
        is_one_of(&found, expected)
    };
    Request { method: "GET", path, body: Json::Null, check: Box::new(check) }
}

/// A request of any kind; `movers` are the keys of records that somebody changes.
pub fn random_request(dice: &mut Dice, movers: &[&str]) -> Request {
    match dice.below(23) {
        20..22 => lots(dice),
        22 => everywhere(dice),
        0..5 => page_of_query(dice),
        5..7 => aggregates(dice),
        7 => facets(dice),
        8 => export(dice),
        9 => record(dice, movers),
        10 => lookup_of_many(dice, movers),
        11..15 => items_route(dice),
        15 => labelled(dice),
        16 => by_words(dice),
        _ => shops(dice),
    }
}
