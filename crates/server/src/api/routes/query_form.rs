//! A query in the form that clients of the original of `examples/datasets` expect: fields, conditions in MongoDB's query language, filters, aggregators.

use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_query::{ComparisonOperator, ConditionTree, GrepItem, QueryCondition, Stage, identity, named_columns};

/// The value of a condition in MongoDB's query language, which clients of the original service expect.
fn compared(condition: &QueryCondition) -> Json {
    let values: Vec<Json> = condition
        .values
        .iter()
        .map(|value| {
            let text = value.pieces.join("*");
            text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
        })
        .collect();
    let first = values.first().cloned().unwrap_or_default();
    match condition.operator {
        ComparisonOperator::Equal => first,
        ComparisonOperator::NotEqual => json!({ "$ne": first }),
        ComparisonOperator::Less => json!({ "$lt": first }),
        ComparisonOperator::AtMost => json!({ "$lte": first }),
        ComparisonOperator::Greater => json!({ "$gt": first }),
        ComparisonOperator::AtLeast => json!({ "$gte": first }),
        ComparisonOperator::In => json!({ "$in": values }),
        ComparisonOperator::Between => json!({ "$gte": first, "$lte": values.last() }),
        ComparisonOperator::Intersects => json!({ "$geoIntersects": values }),
        ComparisonOperator::Within => json!({ "$geoWithin": values }),
        ComparisonOperator::Words => json!({ "$text": first }),
        ComparisonOperator::Last => json!({ "$last": first }),
    }
}

/// Combined conditions in MongoDB's query language.
fn combined(tree: &ConditionTree) -> Json {
    let all = |inner: &[ConditionTree]| inner.iter().map(combined).collect::<Vec<_>>();
    match tree {
        ConditionTree::One(condition) => json!({ condition.path.text.as_str(): compared(condition) }),
        ConditionTree::Not(inner) => json!({ "$nor": [combined(inner)] }),
        ConditionTree::All(inner) => json!({ "$and": all(inner) }),
        ConditionTree::Any(inner) => json!({ "$or": all(inner) }),
    }
}

/// Words that the original keeps beside the conditions: they say who is asked, not what for.
const BESIDE_CONDITIONS: [&str; 2] = ["instance", "system"];

/// A parsed query in the form that clients of the original service expect (`examples/datasets/das.md`). Of the words that it was `given`, those count
/// that it does not mention.
pub fn parsed(text: &str, selected: CollectionId, given: &[(String, String)], catalogue: &Catalogue) -> Json {
    let Ok(query) = stook_query::parse(text) else { return json!({}) };
    let named = named_columns(&query, catalogue);
    let collection = catalogue.collections[selected].name.as_str();
    let full_path = |path: &str| match named.iter().find(|column| column.name == path) {
        Some(column) => format!("{}.{}", column.name, column.member),
        None if path.contains('.') => path.to_owned(),
        None => format!("{collection}.{path}"),
    };
    // a word that selects records is called after what identifies them
    let full_name = |word: &str| {
        let selects = catalogue.aliases.iter().find(|alias| alias.name == word).and_then(|alias| alias.select);
        match selects.and_then(|of| identity(catalogue, of)) {
            Some(field) => format!("{word}.{field}"),
            None => word.to_owned(),
        }
    };
    let (mut spec, mut beside) = (Map::new(), Map::new());
    beside.extend(given.iter().filter(|(word, _)| BESIDE_CONDITIONS.contains(&word.as_str())).map(|(word, value)| (word.clone(), json!(value))));
    for condition in &query.lookup.conditions {
        let compared_value = compared(condition);
        if BESIDE_CONDITIONS.contains(&condition.path.text.as_str()) {
            beside.insert(condition.path.text.clone(), compared_value);
            continue;
        }
        let name = full_name(&condition.path.text);
        match (spec.get_mut(&name), compared_value) {
            // two bounds of one field are merged
            (Some(Json::Object(existing)), Json::Object(compared_value)) => existing.extend(compared_value),
            (_, compared_value) => drop(spec.insert(name, compared_value)),
        }
    }
    if !query.lookup.combined.is_empty() {
        spec.insert("$and".to_owned(), query.lookup.combined.iter().map(combined).collect());
    }
    let (mut filters, mut aggregators) = (Map::new(), Vec::new());
    let mut grep: Vec<String> = Vec::new();
    for stage in &query.stages {
        match stage {
            Stage::Grep(items) => grep.extend(items.iter().map(|item| match item {
                GrepItem::Column(path) => full_path(&path.text),
                GrepItem::Condition(condition) => {
                    format!("{}{}", full_path(&condition.path.text), &text[condition.path.span.end..condition.span.end])
                }
                GrepItem::Combined(tree) => combined(tree).to_string(),
            })),
            Stage::Sort(order) => {
                let shown = order.iter().map(|item| format!("{}{}", full_path(&item.path.text), if item.descending { "-" } else { "" }));
                filters.insert("sort".into(), shown.collect());
            }
            Stage::Each(path) => {
                filters.insert("each".into(), full_path(&path.text).into());
            }
            Stage::Limit(limit) => {
                filters.insert("limit".into(), json!(limit));
            }
            Stage::Unique => {
                filters.insert("unique".into(), json!(1));
            }
            Stage::Aggregates(wanted, by) => {
                aggregators.extend(wanted.iter().map(|(function, path)| json!([function.name(), full_path(&path.text)])));
                if !by.is_empty() {
                    filters.insert("by".into(), by.iter().map(|group| full_path(&group.path.text)).collect());
                }
            }
        }
    }
    if !grep.is_empty() {
        filters.insert("grep".into(), json!(grep));
    }
    let also = query.lookup.extra_names.iter().map(|(path, _)| path.text.as_str());
    let fields: Vec<&str> = std::iter::once(query.lookup.collection.text.as_str()).chain(also).collect();
    let mut parts = json!({ "fields": fields, "spec": spec });
    for (name, value) in beside {
        parts[name] = value;
    }
    if !filters.is_empty() {
        parts["filters"] = filters.into();
    }
    if !aggregators.is_empty() {
        parts["aggregators"] = aggregators.into();
    }
    parts
}
