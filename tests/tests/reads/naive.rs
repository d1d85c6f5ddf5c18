//! What requests are to be answered: every record is looked at, in the plainest way. Nothing of the engine is used.

use crate::market::{Item, Shop};
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
pub fn compare(one: &Json, other: &Json) -> Ordering {
    match (one, other) {
        (Json::Null, Json::Null) => Ordering::Equal,
        (Json::Null, _) => Ordering::Less,
        (_, Json::Null) => Ordering::Greater,
        (Json::Bool(one), Json::Bool(other)) => one.cmp(other),
        (Json::String(one), Json::String(other)) => one.as_bytes().cmp(other.as_bytes()),
        _ => one.as_f64().unwrap().total_cmp(&other.as_f64().unwrap()),
    }
}

/// As texts of this field are compared.
fn form(field: &str, value: &Json) -> Json {
    match value {
        Json::String(text) if field == "word" => json!(text.to_ascii_lowercase()),
        other => other.clone(),
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
                let Some(at) = text.find(piece.as_str()) else { return false };
                text = &text[at + piece.len()..];
            }
            text.ends_with(last.as_str())
        }
        [] => false,
    }
}

impl Condition {
    fn holds_of(&self, own: &Json) -> bool {
        let same = |wanted: &Json| compare(own, &form(self.field, wanted)).is_eq();
        let order = |wanted: &Json| compare(own, &form(self.field, wanted));
        let like = |pieces: &[String]| {
            let pieces: Vec<String> =
                pieces.iter().map(|piece| if self.field == "word" { piece.to_ascii_lowercase() } else { piece.clone() }).collect();
            is_like(own.as_str().unwrap(), &pieces)
        };
        match &self.test {
            Test::Equal(wanted) | Test::NotEqual(wanted) => same(wanted),
            Test::In(wanted) => wanted.iter().any(same),
            Test::Less(wanted) => order(wanted).is_lt(),
            Test::AtMost(wanted) => order(wanted).is_le(),
            Test::Greater(wanted) => order(wanted).is_gt(),
            Test::AtLeast(wanted) => order(wanted).is_ge(),
            Test::Like(pieces) | Test::NotLike(pieces) => like(pieces),
        }
    }

    pub fn holds(&self, item: &Item) -> bool {
        self.holds_for(&item.value(self.field))
    }

    fn holds_for(&self, own: &Json) -> bool {
        let any = match own {
            Json::Null => false,
            Json::Array(elements) => elements.iter().any(|element| self.holds_of(&form(self.field, element))),
            value => self.holds_of(&form(self.field, value)),
        };
        any != matches!(self.test, Test::NotEqual(_) | Test::NotLike(_))
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

fn in_order(sort: &[(&'static str, bool)], folds: bool, one: &Item, other: &Item) -> Ordering {
    for (field, descending) in sort {
        let value = |item: &Item| if folds { form(field, &item.value(field)) } else { item.value(field) };
        let order = compare(&value(one), &value(other));
        let order = if *descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    one.id.as_bytes().cmp(other.id.as_bytes())
}

impl Query {
    pub fn found<'w>(&self, world: &World<'w>) -> Vec<&'w Item> {
        let fits = |item: &&&Item| self.after.as_ref().is_none_or(|after| item.id > *after) && self.conditions.iter().all(|own| own.holds(item));
        world.items.iter().filter(fits).copied().collect()
    }

    /// All rows.
    pub fn rows(&self, world: &World<'_>) -> Vec<Json> {
        let mut found = self.found(world);
        found.sort_by(|one, other| in_order(&self.sort, true, one, other));
        let row = |item: &&Item| -> Json { self.columns.iter().map(|name| ((*name).to_owned(), item.value(name))).collect() };
        if !self.unique {
            return found.iter().map(row).collect();
        }
        // by what is sorted by, then by all columns
        let by_columns = |one: &&Item, other: &&Item| {
            let sorted = self.sort.iter().map(|(field, descending)| {
                let order = compare(&form(field, &one.value(field)), &form(field, &other.value(field)));
                if *descending { order.reverse() } else { order }
            });
            let columns = self.columns.iter().map(|field| compare(&one.value(field), &other.value(field)));
            sorted.chain(columns).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        found.sort_by(by_columns);
        let mut rows: Vec<Json> = found.iter().map(row).collect();
        rows.dedup();
        rows
    }

    /// A row for each lot of each item that is found, and of which conditions on lots hold.
    pub fn lots(&self, world: &World<'_>, of_lots: &[Condition], sort: Option<(&str, bool)>) -> Vec<Json> {
        let mut rows: Vec<(Json, Json)> = Vec::new();
        for item in self.found(world) {
            for lot in item.lots.iter().filter(|lot| of_lots.iter().all(|own| own.holds_for(&lot.value(own.field)))) {
                let sorted = sort.map_or(Json::Null, |(field, _)| if field.starts_with("lots.") { lot.value(field) } else { item.value(field) });
                rows.push((sorted, json!({ "id": item.id, "lots.place": lot.place, "lots.amount": lot.amount })));
            }
        }
        let descends = sort.is_some_and(|(_, descends)| descends);
        rows.sort_by(|(one, _), (other, _)| if descends { compare(other, one) } else { compare(one, other) });
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Values of a column, elements one by one.
    fn values(&self, world: &World<'_>, field: &str) -> Vec<Json> {
        let mut values = Vec::new();
        for item in self.found(world) {
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
            other => panic!("{other}"),
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
    pub most: usize,
}

impl Params {
    fn found<'w>(&self, world: &World<'w>, sort: &[(&'static str, bool)]) -> Vec<&'w Item> {
        let fits = |item: &&&Item| {
            let kind = self.kinds.is_empty() || item.kind.as_ref().is_some_and(|kind| self.kinds.contains(kind));
            let label = self.labels.is_empty() || item.labels.iter().any(|label| self.labels.contains(label));
            kind && label && self.shop.as_ref().is_none_or(|shop| item.shop.as_ref() == Some(shop))
        };
        let mut found: Vec<&Item> = world.items.iter().filter(fits).copied().collect();
        found.sort_by(|one, other| in_order(sort, false, one, other));
        found
    }

    fn page(&self, rows: Vec<Json>) -> Json {
        let total = rows.len();
        let shown = if total > self.most { Vec::new() } else { rows };
        let shown: Vec<Json> = shown.into_iter().skip((self.page - 1) * self.size).take(self.size).collect();
        json!({ "rows": shown, "total": total })
    }

    pub fn items(&self, world: &World<'_>) -> Json {
        let rows = self.found(world, &[("rank", true)]);
        self.page(rows.iter().map(|item| json!({ "id": item.id, "kind": item.kind, "rank": item.rank })).collect())
    }

    pub fn labelled(&self, world: &World<'_>) -> Json {
        let rows = self.found(world, &[("size", true), ("kind", false)]);
        rows.iter().map(|item| json!({ "id": item.id, "labels": item.value("labels") })).collect()
    }

    pub fn placed(&self, world: &World<'_>) -> Json {
        let rows = self.found(world, &[("size", false), ("kind", true)]);
        let row = |item: &&Item| {
            let shop = world.shops.iter().find(|shop| Some(&shop.id) == item.shop.as_ref())?;
            Some(json!({ "id": item.id, "town": shop.town }))
        };
        self.page(rows.iter().filter_map(row).collect())
    }

    pub fn distinct(&self, world: &World<'_>) -> Json {
        let mut seen = std::collections::HashSet::new();
        let rows = self.found(world, &[("rank", false)]);
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
    all.sort_by(|one, other| in_order(&[("rank", true), ("size", false)], false, one, other));
    let items: Vec<Json> = of_shop(items).into_iter().map(|id| json!({ "id": id })).collect();
    (!items.is_empty()).then(|| json!({ "id": shop.id, "best": all.first().map(|item| &item.id), "items": items }))
}
