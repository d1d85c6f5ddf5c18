//! What requests are to be answered: every record is looked at, in the plainest way. Nothing of the engine is used.

use crate::reads::market::{Item, Lot, Shop};
use serde_json::{Value as Json, json};
use std::cmp::Ordering;

/// All records as they are at one moment, in the order of their keys.
pub struct World<'w> {
    pub items: Vec<&'w Item>,
    pub shops: &'w [Shop],
}

/// A condition of a query.
#[derive(Debug, Clone)]
pub struct Condition {
    pub field: &'static str,
    pub test: Test,
}

#[derive(Debug, Clone)]
pub enum Test {
    Equal(Json),
    NotEqual(Json),
    In(Vec<Json>),
    Less(Json),
    AtMost(Json),
    Greater(Json),
    AtLeast(Json),
    /// Text around stars.
    Like(Vec<String>),
    NotLike(Vec<String>),
}

/// The order of two values of one field: nothing first, then by number, by bytes, or false first.
pub fn compare(left: &Json, right: &Json) -> Ordering {
    match (left, right) {
        (Json::Null, Json::Null) => Ordering::Equal,
        (Json::Null, _) => Ordering::Less,
        (_, Json::Null) => Ordering::Greater,
        (Json::Bool(left), Json::Bool(right)) => left.cmp(right),
        (Json::String(left), Json::String(right)) => left.as_bytes().cmp(right.as_bytes()),
        _ => left.as_f64().unwrap().total_cmp(&right.as_f64().unwrap()),
    }
}

/// As texts of this field are compared.
fn form(field: &str, value: &Json) -> Json {
    match value {
        Json::String(text) if field == "word" => json!(text.to_ascii_lowercase()),
        right => right.clone(),
    }
}

/// Whether a text is these pieces with anything between them.
fn is_like(text: &str, pieces: &[String]) -> bool {
    match pieces {
        [only] => text == only,
        [first, rest @ ..] => {
            let Some(mut text) = text.strip_prefix(first.as_str()) else { return false };
            let (last, between) = rest.split_last().unwrap();
            for piece in between {
                let Some(offset) = text.find(piece.as_str()) else { return false };
                text = &text[offset + piece.len()..];
            }
            text.ends_with(last.as_str())
        }
        [] => false,
    }
}

impl Condition {
    fn is_satisfied_by_text(&self, value: &Json) -> bool {
        let is_equal = |expected: &Json| compare(value, &form(self.field, expected)).is_eq();
        let order = |expected: &Json| compare(value, &form(self.field, expected));
        let matches_pieces = |pieces: &[String]| {
            let pieces: Vec<String> =
                pieces.iter().map(|piece| if self.field == "word" { piece.to_ascii_lowercase() } else { piece.clone() }).collect();
            is_like(value.as_str().unwrap(), &pieces)
        };
        match &self.test {
            Test::Equal(expected) | Test::NotEqual(expected) => is_equal(expected),
            Test::In(expected) => expected.iter().any(is_equal),
            Test::Less(expected) => order(expected).is_lt(),
            Test::AtMost(expected) => order(expected).is_le(),
            Test::Greater(expected) => order(expected).is_gt(),
            Test::AtLeast(expected) => order(expected).is_ge(),
            Test::Like(pieces) | Test::NotLike(pieces) => matches_pieces(pieces),
        }
    }

    pub fn is_satisfied_by(&self, item: &Item) -> bool {
        self.is_satisfied_by_value(&item.value(self.field))
    }

    fn is_satisfied_by_value(&self, value: &Json) -> bool {
        let is_any_satisfied = match value {
            Json::Null => false,
            Json::Array(elements) => elements.iter().any(|element| self.is_satisfied_by_text(&form(self.field, element))),
            value => self.is_satisfied_by_text(&form(self.field, value)),
        };
        is_any_satisfied != matches!(self.test, Test::NotEqual(_) | Test::NotLike(_))
    }
}

/// A query of items.
#[derive(Debug, Clone, Default)]
pub struct Query {
    pub conditions: Vec<Condition>,
    pub sort: Vec<(&'static str, bool)>,
    pub columns: Vec<&'static str>,
    pub unique: bool,
    pub after: Option<String>,
}

fn compare_items(sort: &[(&'static str, bool)], folds: bool, left: &Item, right: &Item) -> Ordering {
    for (field, descending) in sort {
        let value = |item: &Item| if folds { form(field, &item.value(field)) } else { item.value(field) };
        let order = compare(&value(left), &value(right));
        let order = if *descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    left.id.as_bytes().cmp(right.id.as_bytes())
}

impl Query {
    pub fn matching_items<'w>(&self, world: &World<'w>) -> Vec<&'w Item> {
        let fits = |item: &&&Item| {
            self.after.as_ref().is_none_or(|after| item.id > *after) && self.conditions.iter().all(|condition| condition.is_satisfied_by(item))
        };
        world.items.iter().filter(fits).copied().collect()
    }

    /// All rows.
    pub fn rows(&self, world: &World<'_>) -> Vec<Json> {
        let mut matching_items = self.matching_items(world);
        matching_items.sort_by(|left, right| compare_items(&self.sort, true, left, right));
        let row = |item: &&Item| -> Json { self.columns.iter().map(|name| ((*name).to_owned(), item.value(name))).collect() };
        if !self.unique {
            return matching_items.iter().map(row).collect();
        }
        // by what is sorted by, then by all columns
        let by_columns = |left: &&Item, right: &&Item| {
            let sorted = self.sort.iter().map(|(field, descending)| {
                let order = compare(&form(field, &left.value(field)), &form(field, &right.value(field)));
                if *descending { order.reverse() } else { order }
            });
            let columns = self.columns.iter().map(|field| compare(&left.value(field), &right.value(field)));
            sorted.chain(columns).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        matching_items.sort_by(by_columns);
        let mut rows: Vec<Json> = matching_items.iter().map(row).collect();
        rows.dedup();
        rows
    }

    /// A row for each lot of each item that is found, and of which conditions on lots hold.
    pub fn lots(&self, world: &World<'_>, lot_conditions: &[Condition], sort: Option<(&str, bool)>) -> Vec<Json> {
        let mut rows: Vec<(Json, Json)> = Vec::new();
        for item in self.matching_items(world) {
            for lot in
                item.lots.iter().filter(|lot| lot_conditions.iter().all(|condition| condition.is_satisfied_by_value(&lot.value(condition.field))))
            {
                let sorted = sort.map_or(Json::Null, |(field, _)| if field.starts_with("lots.") { lot.value(field) } else { item.value(field) });
                rows.push((sorted, json!({ "id": item.id, "lots.place": lot.storage, "lots.amount": lot.amount })));
            }
        }
        let descends = sort.is_some_and(|(_, descends)| descends);
        rows.sort_by(|(left, _), (right, _)| if descends { compare(right, left) } else { compare(left, right) });
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Values of a column, elements one by one; of lots, those of which the conditions on lots hold.
    fn values(&self, world: &World<'_>, field: &str) -> Vec<Json> {
        let mut values = Vec::new();
        let fits = |lot: &&Lot| {
            let mut of_lots = self.conditions.iter().filter(|condition| condition.field.starts_with("lots."));
            of_lots.all(|condition| condition.is_satisfied_by_value(&lot.value(condition.field)))
        };
        for item in self.matching_items(world) {
            if field.starts_with("lots.") {
                values.extend(item.lots.iter().filter(fits).map(|lot| lot.value(field)).filter(|value| !value.is_null()));
                continue;
            }
            match item.value(field) {
                Json::Null => {}
                Json::Array(elements) => values.extend(elements),
                value => values.push(value),
            }
        }
        values
    }

    pub fn aggregate(&self, world: &World<'_>, function: &str, field: &str) -> Json {
        let mut values = self.values(world, field);
        if function == "count" {
            return json!(values.len());
        }
        if values.is_empty() {
            return Json::Null;
        }
        values.sort_by(compare);
        let numbers = || values.iter().map(|value| value.as_f64().unwrap());
        match function {
            "min" => values[0].clone(),
            "max" => values[values.len() - 1].clone(),
            "sum" => json!(numbers().sum::<f64>()),
            "avg" => json!(numbers().sum::<f64>() / values.len() as f64),
            "median" => {
                let (low, high) = (values[(values.len() - 1) / 2].as_f64().unwrap(), values[values.len() / 2].as_f64().unwrap());
                json!((low + high) / 2.0)
            }
            right => panic!("{right}"),
        }
    }
}

/// The parameters of a route of items.
#[derive(Debug, Clone, Default)]
pub struct Params {
    pub kinds: Vec<String>,
    pub labels: Vec<String>,
    pub shop: Option<String>,
    pub page: usize,
    pub size: usize,
    pub max_total: usize,
}

impl Params {
    fn matching_items<'w>(&self, world: &World<'w>, sort: &[(&'static str, bool)]) -> Vec<&'w Item> {
        let fits = |item: &&&Item| {
            let kind = self.kinds.is_empty() || item.kind.as_ref().is_some_and(|kind| self.kinds.contains(kind));
            let label = self.labels.is_empty() || item.labels.iter().any(|label| self.labels.contains(label));
            kind && label && self.shop.as_ref().is_none_or(|shop| item.shop.as_ref() == Some(shop))
        };
        let mut matching_items: Vec<&Item> = world.items.iter().filter(fits).copied().collect();
        matching_items.sort_by(|left, right| compare_items(sort, false, left, right));
        matching_items
    }

    fn page(&self, rows: Vec<Json>) -> Json {
        let total = rows.len();
        let shown = if total > self.max_total { Vec::new() } else { rows };
        let shown: Vec<Json> = shown.into_iter().skip((self.page - 1) * self.size).take(self.size).collect();
        json!({ "rows": shown, "total": total })
    }

    pub fn items(&self, world: &World<'_>) -> Json {
        let rows = self.matching_items(world, &[("rank", true)]);
        self.page(rows.iter().map(|item| json!({ "id": item.id, "kind": item.kind, "rank": item.rank })).collect())
    }

    pub fn labelled(&self, world: &World<'_>) -> Json {
        let rows = self.matching_items(world, &[("size", true), ("kind", false)]);
        rows.iter().map(|item| json!({ "id": item.id, "labels": item.value("labels") })).collect()
    }

    pub fn with_towns(&self, world: &World<'_>) -> Json {
        let rows = self.matching_items(world, &[("size", false), ("kind", true)]);
        let row = |item: &&Item| {
            let shop = world.shops.iter().find(|shop| Some(&shop.id) == item.shop.as_ref())?;
            Some(json!({ "id": item.id, "town": shop.town }))
        };
        self.page(rows.iter().filter_map(row).collect())
    }

    pub fn distinct(&self, world: &World<'_>) -> Json {
        let mut seen = std::collections::HashSet::new();
        let rows = self.matching_items(world, &[("rank", false)]);
        let rows = rows.iter().map(|item| json!({ "shop": item.shop, "flag": item.flag }));
        self.page(rows.filter(|row| seen.insert(row.to_string())).collect())
    }
}

pub fn words(world: &World<'_>, start: Option<&str>, part: Option<&str>) -> Json {
    let fits = |item: &&&Item| {
        let starts = |start: &str| item.word.as_ref().is_some_and(|word| word.to_ascii_lowercase().starts_with(&start.to_ascii_lowercase()));
        let has = |part: &str| item.note.as_ref().is_some_and(|note| note.contains(part));
        start.is_none_or(starts) && part.is_none_or(has)
    };
    let rows: Vec<Json> = world.items.iter().filter(fits).map(|item| json!({ "id": item.id, "word": item.word })).collect();
    json!({ "total": rows.len(), "rows": rows })
}

/// A shop, with what its two includes find, each at a moment of its own.
pub fn shop(shop: &Shop, best: &World<'_>, items: &World<'_>) -> Option<Json> {
    let of_shop = |world: &World<'_>| -> Vec<String> {
        world.items.iter().filter(|item| item.shop.as_ref() == Some(&shop.id)).map(|item| item.id.clone()).collect()
    };
    let mut all: Vec<&&Item> = best.items.iter().filter(|item| item.shop.as_ref() == Some(&shop.id)).collect();
    all.sort_by(|left, right| compare_items(&[("rank", true), ("size", false)], false, left, right));
    let items: Vec<Json> = of_shop(items).into_iter().map(|id| json!({ "id": id })).collect();
    (!items.is_empty()).then(|| json!({ "id": shop.id, "best": all.first().map(|item| &item.id), "items": items }))
}
