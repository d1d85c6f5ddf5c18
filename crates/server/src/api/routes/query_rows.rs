//! The rows of a query in a declared route: plain, or with what each source contributes to a record.

use crate::App;
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::collections::HashMap;
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::FieldId;
use stook_catalogue::key::Key;
use stook_catalogue::parts::joined;
use stook_catalogue::record::ContributionContent;
use stook_catalogue::route::QueryRoute;
use stook_catalogue::survivorship::members_of;
use stook_catalogue::value::Value;
use stook_engine::EngineError;
use stook_engine::aggregate::over;
use stook_engine::fetch::ServiceStatus;
use stook_query::{CompiledQuery, NamedColumn, ResultColumn, identity, named_columns};
use stook_store::ReadDetail;
use stook_store::plan::{Aggregate, PlanColumn, QueryPlan};

/// Returns a row for each aggregate of a query, with the number of values it covers.
pub fn aggregated(app: &App, compiled: &CompiledQuery) -> Result<Vec<Json>, EngineError> {
    let collection = &app.catalogue.collections[compiled.plan.collection];
    let values = compiled.aggregate(&*app.store)?;
    let row = |((value, heading), aggregate): ((&Value, &ResultColumn), &Aggregate)| {
        let key = heading.name.split_once('(').map_or("", |(_, rest)| rest.split([',', ')']).next().unwrap_or(rest));
        json!({ "function": aggregate.function.name(), "key": format!("{}.{key}", collection.name), "result": { "value": value.to_json(&heading.ty) } })
    };
    let mut rows: Vec<Json> = values.iter().zip(&compiled.columns).zip(&compiled.aggregates).map(row).collect();
    for coverage in over(&app.catalogue, &*app.store, &compiled.plan, &compiled.aggregates)? {
        rows[coverage.aggregate]["result"]["over"] = json!({ "values": coverage.values, "rows": coverage.rows });
    }
    Ok(rows)
}

/// Returns groups as objects by the names of their columns, without absent values.
pub fn grouped(compiled: &CompiledQuery, groups: &[Vec<Value>]) -> Vec<Json> {
    let row = |group: &Vec<Value>| -> Json {
        let cells = compiled.columns.iter().zip(group).map(|(heading, value)| (heading.name.clone(), value.to_json(&heading.ty)));
        cells.filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
    };
    groups.iter().map(row).collect()
}

/// Makes rows of a response from rows of the store.
pub struct RowMaker<'r> {
    app: &'r App,
    compiled: &'r CompiledQuery,
    collection: &'r Collection,
    statuses: &'r [ServiceStatus],
    /// Whether a row lists what each source contributes to the record.
    by_source: bool,
    /// Names in the query, with their columns.
    named: Vec<NamedColumn>,
    /// The field that identifies a record.
    identity: Option<&'r str>,
}

impl<'r> RowMaker<'r> {
    pub fn new(app: &'r App, (route, query): (&QueryRoute, &str), compiled: &'r CompiledQuery, statuses: &'r [ServiceStatus]) -> Self {
        let collection = &app.catalogue.collections[compiled.plan.collection];
        let named = stook_query::parse(query).map(|query| named_columns(&query, &app.catalogue)).unwrap_or_default();
        let identity = identity(&app.catalogue, compiled.plan.collection);
        Self { app, compiled, collection, statuses, by_source: route.by_source, named, identity }
    }

    /// Whether a record is read for each row.
    fn reads_records(&self) -> bool {
        self.by_source && !self.compiled.plan.distinct && self.compiled.plan.each.is_none()
    }

    /// Returns the plan for the store. If records are read for the rows, its columns are the key and the columns that no source contributes to.
    pub fn plan(&self) -> QueryPlan {
        if !self.reads_records() {
            return self.compiled.plan.clone();
        }
        let columns = std::iter::once(PlanColumn::Key).chain(self.uncontributed_columns().map(|(column, _)| *column)).collect();
        QueryPlan { columns, ..self.compiled.plan.clone() }
    }

    /// Columns that no source contributes to: derived values, values through links, and state.
    fn uncontributed_columns(&self) -> impl Iterator<Item = (&'r PlanColumn, &'r ResultColumn)> {
        let collection = self.collection;
        let is_contributed_column = |column: &PlanColumn| matches!(column, PlanColumn::Field(field) if is_contributed(collection, *field));
        let columns = self.compiled.plan.columns.iter().zip(&self.compiled.columns);
        columns.filter(move |(column, _)| !is_contributed_column(column) && **column != PlanColumn::Key)
    }

    /// Makes rows of what [`RowMaker::plan`] found.
    pub fn rows(&self, found: Vec<Vec<Value>>) -> Result<Vec<Json>, EngineError> {
        if self.reads_records() { self.rows_of_records(found) } else { Ok(found.iter().map(|row| self.row_of_columns(row)).collect()) }
    }

    fn row_of_columns(&self, row: &[Value]) -> Json {
        let Self { compiled, collection, .. } = self;
        let cells = compiled.columns.iter().zip(row).map(|(heading, value)| (heading.name.as_str(), value.to_json(&heading.ty)));
        let cells = cells.filter(|(_, value)| !value.is_null());
        if !self.by_source {
            return cells.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into();
        }
        let cells: Vec<(&str, Json)> = cells.collect();
        let mut row = by_name(&self.named, &cells);
        let record_json = row.entry(collection.name.as_str()).or_insert_with(|| json!([{}]));
        add_missing(&mut record_json[0], nested(cells));
        // if the query does not name what identifies its records, its first column represents the row
        let names = || compiled.columns.iter().map(|heading| heading.name.as_str());
        let key = self.identity.unwrap_or("key");
        let key = names().find(|name| *name == key).or(names().next()).unwrap_or(key);
        let first = self.named.first().map_or((collection.name.as_str(), key), |first| (&first.name, &first.member));
        row.insert("das".into(), origin_of((first.0, Some(first.1)), &[]));
        row.into()
    }

    fn rows_of_records(&self, found: Vec<Vec<Value>>) -> Result<Vec<Json>, EngineError> {
        let Self { app, compiled, collection, .. } = self;
        let uncontributed_columns: Vec<&ResultColumn> = self.uncontributed_columns().map(|(_, heading)| heading).collect();
        let keyed = found.into_iter().filter_map(|row| Some((Key::new(row.first()?.as_text()?).ok()?, row)));
        let (keys, values): (Vec<Key>, Vec<Vec<Value>>) = keyed.unzip();
        let contributed = compiled.plan.columns.iter().filter_map(|column| column.field());
        let contributed_fields: Vec<FieldId> = contributed.filter(|field| is_contributed(collection, *field)).collect();
        let services: HashMap<&str, &str> = self.statuses.iter().map(|status| (status.source.as_str(), status.service.as_str())).collect();
        // a key that is made of several fields is none of the values
        let key = self.identity.map(|field| if field == "key" { first_of(compiled) } else { field });
        let mut rows = Vec::with_capacity(keys.len());
        let read = app.store.read(&compiled.plan.tenant, compiled.plan.collection, &keys, ReadDetail::Full)?;
        for (record, values) in read.into_iter().zip(values).filter_map(|(record, values)| Some((record?, values))) {
            let contributions = record.contributions_of(collection)?;
            let (mut contributed, mut sources) = (Vec::new(), Vec::new());
            let contributions = joined(&app.catalogue, collection, &contributions);
            for contribution in contributions.iter().filter(|contribution| contribution.counts()) {
                let ContributionContent::Values(values) = &contribution.content else { continue };
                let cells = contributed_fields.iter().map(|index| (&collection.fields[*index], contributed_value(collection, *index, values)));
                let cells = cells.filter(|(_, value)| !matches!(**value, Value::Null | Value::Cleared));
                contributed.push(nested(cells.map(|(field, value)| (field.name.as_str(), value.to_json(&field.ty)))));
                sources.push((services.get(contribution.source()).copied().unwrap_or(contribution.source()), contribution.source()));
            }
            let cells = uncontributed_columns.iter().zip(&values[1..]).map(|(heading, value)| (heading.name.as_str(), value.to_json(&heading.ty)));
            let more = nested(cells.filter(|(_, value)| !value.is_null()));
            match contributed.first_mut() {
                Some(first) => add_missing(first, more),
                None => contributed.push(more),
            }
            rows.push(json!({ collection.name.as_str(): contributed, "das": origin_of((&collection.name, key), &sources) }));
        }
        Ok(rows)
    }
}

/// Adds the members that an object does not have.
fn add_missing(to: &mut Json, more: Json) {
    if let (Some(to), Json::Object(more)) = (to.as_object_mut(), more) {
        for (name, value) in more {
            to.entry(name).or_insert(value);
        }
    }
}

/// Whether sources contribute to a field, or to the list that it is a member of.
fn is_contributed(collection: &Collection, field: FieldId) -> bool {
    let contributed_field = collection.member(field).map_or(field, |(list, _)| list);
    collection.fields[contributed_field].derive.is_none()
}

/// The first column of a query other than the key; it represents rows whose key is made of several fields.
fn first_of(compiled: &CompiledQuery) -> &str {
    compiled.columns.iter().map(|heading| heading.name.as_str()).find(|name| *name != "key").unwrap_or("key")
}

/// Values under the names that the query uses: the rows of `site dataset=D` have sites, wherever the values are read from.
fn by_name<'n>(named: &'n [NamedColumn], cells: &[(&str, Json)]) -> Map<String, Json> {
    let value = |column: &'n NamedColumn| cells.iter().find(|(name, _)| *name == column.field).map(|(_, value)| value.clone());
    named.iter().filter_map(|column| Some((column.name.clone(), json!([{ column.member.as_str(): value(column)? }])))).collect()
}

/// Returns a contributor's value of a field or, for a member of a list of structs, the member's values.
fn contributed_value<'v>(collection: &Collection, index: FieldId, values: &'v [Value]) -> Cow<'v, Value> {
    collection.member(index).map_or(Cow::Borrowed(&values[index]), |(list, member)| Cow::Owned(members_of(&values[list], member)))
}

/// Nests cells by the parts of their names, because clients of the original service walk from name to name.
fn nested<'c>(cells: impl IntoIterator<Item = (&'c str, Json)>) -> Json {
    let mut whole = Map::new();
    'cells: for (name, value) in cells {
        let mut names: Vec<&str> = name.split('.').collect();
        let last = names.pop().unwrap_or(name);
        let mut object = &mut whole;
        for name in names {
            // a list of structs that is a column itself contains its members already
            let Some(inner) = object.entry(name).or_insert_with(|| json!({})).as_object_mut() else { continue 'cells };
            object = inner;
        }
        object.entry(last).or_insert(value);
    }
    Json::Object(whole)
}

/// The origin of a row's values, as clients of the original service expect it. Records that nothing identifies are called after their collection.
fn origin_of((collection, key): (&str, Option<&str>), sources: &[(&str, &str)]) -> Json {
    let (systems, calls): (Vec<&str>, Vec<&str>) = sources.iter().copied().unzip();
    let primary_key = key.map_or(collection.to_owned(), |key| format!("{collection}.{key}"));
    json!({ "primary_key": primary_key, "record": 1, "system": systems, "api": calls })
}
