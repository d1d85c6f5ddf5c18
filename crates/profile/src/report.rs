//! Profiles and proposals as JSON.

use crate::column::ColumnProfile;
use crate::guess::{KeyPlan, Proposal, column_types};
use crate::table::TableProfile;
use serde_json::{Value as Json, json};

/// Values that are shown with their numbers.
const FREQUENT: usize = 10;
/// Parts of a histogram.
pub const PARTS: usize = 10;

/// The profile of files as JSON.
pub fn to_json(table: &TableProfile) -> Json {
    let types = column_types(table);
    let columns: Vec<Json> = table.columns.iter().zip(types).map(|(column, ty)| column_json(table, column, &ty)).collect();
    json!({
        "files": table.files,
        "format": table.reading.family.name(),
        "records": table.reading.records,
        "documents": table.documents,
        "sample": table.is_sample,
        "unreadable": table.problems,
        "first_unreadable": table.problem,
        "notes": table.notes,
        "columns": columns,
    })
}

fn column_json(table: &TableProfile, column: &ColumnProfile, ty: &str) -> Json {
    let mut json = json!({
        "path": column.path,
        "type": ty,
        "documents": column.documents,
        "nulls": table.documents.saturating_sub(column.documents),
        "values": column.values,
        "distinct": column.distinct.count(),
        "distinct_is_exact": column.distinct.is_exact(),
        "unique": column.distinct.is_unique() && column.values > 0,
        "examples": column.examples,
        "lengths": { "shortest": column.shortest, "mean": column.mean_length(), "longest": column.longest },
    });
    if column.most_in_document > 1 {
        json["most_in_document"] = json!(column.most_in_document);
    }
    if let Some((least, greatest)) = &column.texts {
        (json["min"], json["max"]) = (json!(least), json!(greatest));
    }
    if column.numbers.count == column.values && column.values > 0 {
        (json["min"], json["max"]) = (json!(column.numbers.least), json!(column.numbers.greatest));
        json["histogram"] = json!(column.numbers.histogram(PARTS));
    }
    let frequent: Vec<Json> = column.frequent(FREQUENT).into_iter().map(|(value, count)| json!({ "value": value, "count": count })).collect();
    json["frequent"] = Json::Array(frequent);
    json["frequent_is_exact"] = json!(column.is_counted);
    json
}

/// A proposal as JSON: what was found, and why.
pub fn proposal_to_json(proposal: &Proposal) -> Json {
    let sources = proposal.sources.iter().map(|source| {
        let table = &proposal.tables[source.table];
        json!({
            "name": source.name,
            "files": table.files,
            "format": table.reading.family.name(),
            "documents": table.documents,
            "collection": proposal.collections[source.collection].name,
            "notes": table.notes,
            "collect": source.collect.as_ref().map(|collect| &collect.location),
        })
    });
    let collections = proposal.collections.iter().map(|collection| {
        let fields = collection
            .fields
            .iter()
            .map(|field| json!({ "name": field.name, "type": field.ty.to_string(), "columns": field.columns, "notes": field.notes }));
        let links = collection
            .links
            .iter()
            .map(|link| json!({ "name": link.name, "to": link.to, "from": link.from, "same": link.same, "notes": link.notes }));
        let key = match &collection.key {
            KeyPlan::Field(key) | KeyPlan::Template(key) => key,
        };
        json!({
            "name": collection.name,
            "key": key,
            "key_notes": collection.key_notes,
            "fields": fields.collect::<Vec<_>>(),
            "links": links.collect::<Vec<_>>(),
        })
    });
    json!({ "catalogue": proposal.name, "sources": sources.collect::<Vec<_>>(), "collections": collections.collect::<Vec<_>>() })
}
