//! Describes the catalogue in words: collections with their fields, sources, and how queries are written.

use super::Context;
use super::arguments::{ToolArguments, ToolResult};
use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::{Catalogue, Collection, Field};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::links::Derivation;
use stook_engine::record::rule_name;
use stook_engine::tags::TaggedCollection;
use stook_query::examples::LESSONS;

/// Describes one collection, or all with their fields by name and type only.
pub fn describe_catalogue(context: &Context, mut arguments: ToolArguments) -> ToolResult {
    let collection = arguments.text("collection")?;
    arguments.end()?;
    let catalogue = &context.catalogue;
    if let Some(name) = collection {
        let (id, definition) = collection_named(catalogue, &name)?;
        let mut described = one(catalogue, id, definition);
        if definition.tags.is_some() {
            let tags = TaggedCollection::new(catalogue, &*context.store, &context.tenant, &name).and_then(|tags| tags.list());
            described["tags"] = tags.map_err(|error| error.to_string())?.into();
        }
        return Ok(described);
    }
    let collections = catalogue.collections.iter().map(|definition| {
        let fields: Map<String, Json> =
            definition.shown_fields().map(|(_, field)| (field.name.clone(), field.golden_type().to_string().into())).collect();
        json!({ "name": definition.name, "key": definition.key_text, "fields": fields })
    });
    let sources = catalogue.sources.iter().map(|source| {
        let into: Vec<&str> = source.feeds.iter().map(|feed| catalogue.collections[feed.collection].name.as_str()).collect();
        json!({ "name": source.name, "format": source.family.name(), "contributes_to": into })
    });
    let examples = LESSONS.iter().flat_map(|lesson| lesson.examples).map(|example| json!({ "query": example.query, "about": example.about }));
    Ok(json!({
        "catalogue": catalogue.name,
        "tenant": context.tenant.as_str(),
        "collections": collections.collect::<Vec<_>>(),
        "sources": sources.collect::<Vec<_>>(),
        "services": catalogue.services.iter().map(|service| service.name.as_str()).collect::<Vec<_>>(),
        "may_write": context.allows_writes,
        "more": "describe_catalogue with `collection` says how each field is chosen, derived and indexed",
        "query_language": {
            "about": "COLLECTION, then conditions that must all hold, then stages after `|`. These examples are about another catalogue, of books.",
            "examples": examples.collect::<Vec<_>>(),
        },
    }))
}

/// Finds a collection.
pub fn collection_named<'c>(catalogue: &'c Catalogue, name: &str) -> ToolResult<(CollectionId, &'c Collection)> {
    catalogue.collection(name).ok_or_else(|| {
        let known = catalogue.collections.iter().map(|collection| collection.name.as_str());
        format!("there is no collection {name:?}; {}", known_instead(name, known))
    })
}

fn one(catalogue: &Catalogue, id: CollectionId, collection: &Collection) -> Json {
    let fields: Map<String, Json> =
        collection.shown_fields().map(|(field, definition)| (definition.name.clone(), in_words(catalogue, id, field, definition).into())).collect();
    let state: Map<String, Json> = collection.states.iter().map(|state| (state.name.clone(), state.ty.to_string().into())).collect();
    let sources = catalogue.sources.iter().filter(|source| source.feeds.iter().any(|feed| feed.collection == id));
    let services = sources.clone().filter(|source| source.asks.is_some()).count();
    let mut described = json!({
        "name": collection.name,
        "key": collection.key_text,
        "fields": fields,
        "sources": sources.map(|source| source.name.as_str()).collect::<Vec<_>>(),
        "states": state,
        "transitions": collection.transitions.iter().map(|transition| transition.name.as_str()).collect::<Vec<_>>(),
        "changes_are_kept": collection.changes.is_some(),
    });
    if services > 0 {
        described["note"] =
            "records of this collection are fetched from services when people ask for them: what is stored may not be all there is".into();
    }
    described
}

/// A field in words: its type, where its values come from, and which conditions on it are fast.
fn in_words(catalogue: &Catalogue, id: CollectionId, field: FieldId, definition: &Field) -> String {
    let mut words = vec![definition.golden_type().to_string()];
    match &definition.derive {
        None => words.push(format!("chosen from what sources say: {}", rule_name(catalogue, definition))),
        Some(Derivation::LinkKeys(_) | Derivation::TargetKey(..)) => {}
        Some(Derivation::Rollup(_)) => words.push("computed from the records that link to this one".into()),
        Some(Derivation::ThroughLinks(_)) => words.push("computed, also from linked records".into()),
        Some(Derivation::Sources) => words.push("the names of the sources that contribute to the record".into()),
        Some(Derivation::SameRecord(_) | Derivation::Member(..) | Derivation::Pending) => words.push("computed from other fields".into()),
    }
    if let Some(link) = catalogue.links.iter().find(|link| link.child_collection == id && link.field == field) {
        words.push(format!(
            "the key of {} `{}`",
            if link.many { "records of" } else { "a record of" },
            catalogue.collections[link.target_collection].name
        ));
    }
    let indexes = [
        (definition.index.ordered, "conditions of equality, ranges and order are fast"),
        (definition.index.contains, "patterns are fast"),
        (definition.index.words, "its words can be searched for with ~"),
        (definition.index.intersects, "conditions of place are fast"),
        (definition.unique, "no two records have the same value"),
        (definition.required, "documents without a value fail"),
    ];
    words.extend(indexes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words.to_owned()));
    if !definition.one_of.is_empty() {
        let allowed: Vec<String> = definition.one_of.iter().map(|value| value.show(&definition.ty)).collect();
        words.push(format!("one of {}", allowed.join(", ")));
    }
    words.join("; ")
}
