//! The catalogue of the test, and random records of it with skew: one value that most records have, one parent with most children.

use serde_json::{Value as Json, json};
use stook_tests::Dice;

pub const MARKET: &str = "
catalogue: market
sources:
  items: { format: json, into: item, as_of: meta.received }
  shops: { format: json, into: shop, as_of: meta.received }
collections:
  shop:
    key: id
    fields:
      id:   text
      town: { type: text, index: equal }
  item:
    key: id
    fields:
      id:     text
      kind:   { type: text, index: equal }
      word:   { type: text, fold: true, index: [equal, prefix, contains] }
      labels: { type: [text], index: equal }
      shop:   { type: text, index: equal }
      rank:   integer
      size:   { type: integer, index: equal }
      ratio:  float
      flag:   { type: boolean, index: equal }
      note:   text
      lots:   { type: [{ place: text, amount: integer }], index: { place: equal } }
    state: { status: { type: text, seed: \"flag == true ? 'open' : 'shut'\", index: equal } }
    tags: {}
routes:
  - get: /r/items
    params: &paged
      kind:  { type: [text] }
      label: { type: [text] }
      shop:  text
      page:  { type: integer, default: 1, min: 1, max: 1000000 }
      size:  { type: integer, default: 20, min: 1, max: 2000 }
      most:  { type: integer, default: 1000000, min: 1, max: 1000000 }
    list: item
    where: { kind: params.kind, labels: params.label, shop: params.shop }
    sort: [rank-]
    page: { number: params.page, size: params.size }
    answer: { rows: rows, total: total }
    fields: { id: id, kind: kind, rank: rank }
  - get: /r/labelled
    params: { label: { type: [text] } }
    list: item
    where: { labels: params.label }
    sort: [size-, kind]
    fields: { id: id, labels: labels }
  - get: /r/placed
    params: *paged
    list: item
    where: { kind: params.kind, labels: params.label, shop: params.shop }
    sort: [size, kind-]
    include: { at: { one: shop, where: { key: shop }, required: true } }
    page: { number: params.page, size: params.size, most: params.most }
    answer: { rows: rows, total: total }
    fields: { id: id, town: at.town }
  - get: /r/distinct
    params: *paged
    list: item
    where: { kind: params.kind, labels: params.label, shop: params.shop }
    sort: [rank]
    distinct: true
    page: { number: params.page, size: params.size, most: params.most }
    answer: { rows: rows, total: total }
    fields: { shop: shop, flag: flag }
  - get: /r/words
    params: { start: text, part: text }
    list: item
    where: { word: { prefix: params.start }, note: { contains: params.part } }
    sort: [id]
    answer: { rows: rows, total: total }
    fields: { id: id, word: word }
  - get: /r/shops
    params: { town: { type: [text] } }
    list: shop
    where: { town: params.town }
    sort: [id-]
    include:
      best:  { one: item, where: { shop: id }, sort: [rank-, size] }
      items: { list: item, where: { shop: id }, required: true, fields: { id: id } }
    fields: { id: id, best: best.id, items: items }
  - get: /r/shops/{id}
    params: { id: text }
    one: shop
    where: { key: params.id }
    missing: There is no such shop.
    include:
      best:  { one: item, where: { shop: id }, sort: [rank-, size] }
      items: { list: item, where: { shop: id }, required: true, fields: { id: id } }
    fields: { id: id, best: best.id, items: items }
";

pub const KINDS: [&str; 7] = ["common", "usual", "some", "few", "com", "Common", "rare"];
pub const WORDS: [&str; 8] = ["Alpha", "alpha", "ALPHA beta", "alphabet", "Beta", "beta gamma", "gamma*", "delta"];
pub const LABELS: [&str; 6] = ["most", "many", "mo", "red", "blue", "lone"];
pub const TOWNS: [&str; 4] = ["metropolis", "village", "town", "ghost town"];
pub const STORAGES: [&str; 4] = ["yard", "hall", "yacht", "shed"];
pub const NOTES: [&str; 5] = ["plain note", "a note*", "noted", "something else", "x"];

const ITEMS: usize = 13_500;
pub const SHOPS: usize = 120;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Item {
    pub id: String,
    pub kind: Option<String>,
    pub word: Option<String>,
    /// None of them is the same as no list: nothing is said of it then.
    pub labels: Vec<String>,
    pub shop: Option<String>,
    pub rank: Option<i64>,
    pub size: Option<i64>,
    pub ratio: Option<f64>,
    pub flag: Option<bool>,
    pub note: Option<String>,
    pub lots: Vec<Lot>,
}

/// What there is of an item in a place; something is said of each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lot {
    pub storage: Option<String>,
    pub amount: Option<i64>,
}

impl Lot {
    fn to_json(&self) -> Json {
        let mut members = json!({ "place": self.storage, "amount": self.amount });
        members.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        members
    }

    pub fn value(&self, name: &str) -> Json {
        match name {
            "lots.place" => json!(self.storage),
            "lots.amount" => json!(self.amount),
            other => panic!("{other}"),
        }
    }
}

impl Item {
    /// As a document: what it has not is left out.
    pub fn document(&self) -> Json {
        let names = ["id", "kind", "word", "labels", "shop", "rank", "size", "ratio", "flag", "note", "lots"];
        let all = names.into_iter().map(|name| (name.to_owned(), self.value(name)));
        all.filter(|(_, value)| !value.is_null()).collect()
    }

    /// As a record is answered.
    pub fn record(&self) -> Json {
        let mut all = self.document();
        all["key"] = json!(self.id);
        all["status"] = self.value("status");
        all
    }

    pub fn value(&self, name: &str) -> Json {
        match name {
            "id" | "key" => json!(self.id),
            "kind" => json!(self.kind),
            "word" => json!(self.word),
            "labels" if self.labels.is_empty() => Json::Null,
            "labels" => json!(self.labels),
            "shop" => json!(self.shop),
            "rank" => json!(self.rank),
            "size" => json!(self.size),
            "ratio" => json!(self.ratio),
            "flag" => json!(self.flag),
            "note" => json!(self.note),
            "status" => json!(if self.flag == Some(true) { "open" } else { "shut" }),
            "lots" if self.lots.is_empty() => Json::Null,
            "lots" => self.lots.iter().map(Lot::to_json).collect(),
            "lots.place" | "lots.amount" => self.lots.iter().map(|lot| lot.value(name)).filter(|value| !value.is_null()).collect(),
            other => panic!("{other}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Shop {
    pub id: String,
    pub town: Option<String>,
}

fn one_of(dice: &mut Dice, all: &[&str]) -> String {
    all[dice.below(all.len() as u64) as usize].to_owned()
}

/// The first is what most have; one in `none` has nothing.
fn skewed(dice: &mut Dice, all: &[&str], most: u64, none: u64) -> Option<String> {
    if dice.below(none) == 0 {
        return None;
    }
    Some(if dice.below(100) < most { all[0].to_owned() } else { one_of(dice, all) })
}

pub fn shop_id(dice: &mut Dice) -> String {
    format!("s{:03}", dice.below(SHOPS as u64))
}

fn lot(dice: &mut Dice) -> Lot {
    let storage = skewed(dice, &STORAGES, 70, 8);
    let amount = (storage.is_none() || dice.below(6) > 0).then(|| if dice.below(2) == 0 { 1 } else { dice.below(50) as i64 });
    Lot { storage, amount }
}

/// A record whose values are about as those of others.
pub fn item(dice: &mut Dice, id: String) -> Item {
    let kinds = &KINDS[..KINDS.len() - 1];
    let mut labels = Vec::new();
    if dice.below(100) < 76 {
        labels.push("most".to_owned());
    }
    for _ in 0..dice.below(3) {
        let label = one_of(dice, &LABELS[..LABELS.len() - 1]);
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let shop = match dice.below(100) {
        0..3 => None,
        3..5 => Some("nowhere".to_owned()),
        5..83 => Some("s000".to_owned()),
        _ => Some(shop_id(dice)),
    };
    Item {
        id,
        kind: skewed(dice, kinds, 78, 60),
        word: skewed(dice, &WORDS, 70, 20),
        labels,
        shop,
        rank: (dice.below(20) > 0).then(|| if dice.below(10) < 6 { 0 } else { dice.below(400) as i64 - 200 }),
        size: (dice.below(20) > 0).then(|| if dice.below(2) == 0 { 7 } else { dice.below(2_000) as i64 }),
        ratio: (dice.below(10) > 0).then(|| dice.below(64) as f64 / 4.0 - 8.0),
        flag: (dice.below(50) > 0).then(|| dice.below(10) > 0),
        note: skewed(dice, &NOTES, 50, 10),
        lots: (0..[0, 0, 1, 1, 2, 3][dice.below(6) as usize]).map(|_| lot(dice)).collect(),
    }
}

/// All records that nobody changes, in the order of their keys.
pub fn records(seed: u64) -> (Vec<Item>, Vec<Shop>) {
    let mut dice = Dice::new(seed);
    let mut items: Vec<Item> = (0..ITEMS).map(|number| item(&mut dice, format!("i{number:05}"))).collect();
    for _ in 0..5 {
        let index = dice.below(ITEMS as u64) as usize;
        items[index].kind = Some("rare".into());
        items[index].labels.push("lone".into());
    }
    for item in &mut items {
        item.labels.dedup();
    }
    let shops = (0..SHOPS).map(|number| Shop { id: format!("s{number:03}"), town: skewed(&mut dice, &TOWNS, 60, 15) }).collect();
    (items, shops)
}
