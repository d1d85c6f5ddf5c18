//! Gives values of records that were recognised (data extension), and says which there are.

use super::callback::Callback;
use super::{type_of, unprocessable};
use crate::guard::blocking::reading;
use crate::guard::problem::HandlerResult;
use crate::guard::request::RequestContext;
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Value};
use stook_query::reconcile::{self, Reconciler, property_named};
use stook_store::plan::{Condition, PlanColumn, QueryPlan};
use stook_store::{Store, Tenant};

/// Max records of a request.
pub const MAX_EXTENDED_KEYS: usize = 200;
/// Max properties of a request.
pub const MAX_EXTENDED_PROPERTIES: usize = 50;
/// Max values of one property of one record; a record with more is refused, so that none is missing silently.
const MAX_VALUES: usize = 1_000;
/// Max properties that are proposed.
pub const MAX_PROPOSED: u64 = 1_000;

/// A property that is asked for.
struct Wanted {
    field: FieldId,
    /// The collection of the records whose keys are its values, if the caller may read it.
    target: Option<CollectionId>,
}

/// What is asked for.
struct Extension {
    keys: Vec<Key>,
    properties: Vec<Wanted>,
}

/// The values of properties of records.
pub(super) async fn answer(ctx: &RequestContext, sent: &Json) -> HandlerResult<Json> {
    let extension = read(ctx, sent)?;
    let (app, tenant, id) = (ctx.app.clone(), ctx.tenant.clone(), ctx.collection());
    reading(move || extension.answer(&app.catalogue, &*app.store, (&tenant, id))).await
}

fn read(ctx: &RequestContext, sent: &Json) -> HandlerResult<Extension> {
    let catalogue = &ctx.app.catalogue;
    let collection = ctx.definition(ctx.collection());
    let list = |name: &str, max: usize| match &sent[name] {
        Json::Array(items) if items.len() > max => Err(unprocessable(&format!("extend.{name}: at most {max}; send several requests"))),
        Json::Array(items) => Ok(items),
        _ => Err(unprocessable(&format!("extend.{name}: expected a list"))),
    };
    let key = |(at, sent): (usize, &Json)| {
        let text = sent.as_str().ok_or_else(|| "expected a text".to_owned());
        text.and_then(|text| Key::new(text).map_err(|error| error.to_string())).map_err(|reason| format!("extend.ids[{at}]: {reason}"))
    };
    let property = |(at, sent): (usize, &Json)| {
        let wrong = |reason: String| format!("extend.properties[{at}]{reason}");
        let named = sent["id"].as_str().ok_or_else(|| wrong(".id: expected the name of a property".into()))?;
        let (field, _) = property_named(collection, named).map_err(|reason| wrong(format!(".id: {reason}")))?;
        if sent.get("settings").and_then(Json::as_object).is_some_and(|settings| !settings.is_empty()) {
            return Err(wrong(".settings: properties have no settings here".into()));
        }
        Ok(Wanted { field, target: target_of(catalogue, ctx.collection(), field).filter(|target| ctx.sees(*target)) })
    };
    let keys = list("ids", MAX_EXTENDED_KEYS)?.iter().enumerate().map(key).collect::<Result<Vec<_>, _>>();
    let properties = list("properties", MAX_EXTENDED_PROPERTIES)?.iter().enumerate().map(property).collect::<Result<Vec<_>, _>>();
    match (keys, properties) {
        (Ok(keys), Ok(properties)) => Ok(Extension { keys, properties }),
        (Err(reason), _) | (_, Err(reason)) => Err(unprocessable(&reason)),
    }
}

/// The collection of the records whose keys a field has.
fn target_of(catalogue: &Catalogue, collection: CollectionId, field: FieldId) -> Option<CollectionId> {
    catalogue.links.iter().find(|link| link.child_collection == collection && link.field == field).map(|link| link.target_collection)
}

impl Extension {
    fn answer(&self, catalogue: &Catalogue, store: &dyn Store, (tenant, id): (&Tenant, CollectionId)) -> HandlerResult<Json> {
        let collection = &catalogue.collections[id];
        let columns = [PlanColumn::Key].into_iter().chain(self.properties.iter().map(|wanted| PlanColumn::Field(wanted.field))).collect();
        let keys = self.keys.iter().map(|key| Value::text(key.as_str())).collect();
        let conditions = vec![Condition::one_of(PlanColumn::Key, keys)];
        let found = store.find(&QueryPlan { conditions, columns, ..QueryPlan::all(tenant.clone(), id) })?.rows;
        let names = self.names(catalogue, store, tenant, &found)?;
        let no_values = || self.properties.iter().map(|wanted| (collection.fields[wanted.field].name.clone(), json!([]))).collect::<Map<_, _>>();
        // a record that does not exist has no values
        let mut rows: Map<String, Json> = self.keys.iter().map(|key| (key.as_str().to_owned(), Json::Object(no_values()))).collect();
        for row in &found {
            let Some((key, values)) = row.split_first().and_then(|(key, values)| Some((key.as_text()?, values))) else { continue };
            for (wanted, value) in self.properties.iter().zip(values) {
                let field = &collection.fields[wanted.field];
                if value.elements().len() > MAX_VALUES {
                    let reason = format!("{:?} has {} values of `{}`, more than {MAX_VALUES}", key, value.elements().len(), field.name);
                    return Err(unprocessable(&reason));
                }
                let cell = |value: &Value| match wanted.target.and_then(|target| Some((target, Key::new(value.as_text()?).ok()?))) {
                    Some((target, key)) => {
                        let name = names.get(&(target, key.clone())).map_or(key.as_str(), String::as_str);
                        json!({ "id": key.as_str(), "name": name })
                    }
                    None => cell(value, field.golden_type().element()),
                };
                rows[key][&field.name] = value.elements().iter().map(cell).collect();
            }
        }
        Ok(json!({ "meta": self.properties.iter().map(|wanted| described(catalogue, collection, wanted)).collect::<Vec<_>>(), "rows": rows }))
    }

    /// The names of linked records.
    fn names(
        &self,
        catalogue: &Catalogue,
        store: &dyn Store,
        tenant: &Tenant,
        found: &[Vec<Value>],
    ) -> HandlerResult<BTreeMap<(CollectionId, Key), String>> {
        let mut keys: BTreeMap<CollectionId, BTreeSet<Key>> = BTreeMap::new();
        for (position, target) in self.properties.iter().enumerate().filter_map(|(position, wanted)| Some((position + 1, wanted.target?))) {
            let values = found.iter().filter_map(|row| row.get(position)).flat_map(Value::elements);
            keys.entry(target).or_default().extend(values.filter_map(|value| Key::new(value.as_text()?).ok()));
        }
        let mut names = BTreeMap::new();
        for (target, keys) in keys {
            let Some(reconciler) = Reconciler::new(store, (tenant, target), &catalogue.collections[target]) else { continue };
            for keys in keys.into_iter().collect::<Vec<_>>().chunks(MAX_VALUES) {
                names.extend(reconciler.names(keys)?.into_iter().map(|(key, name)| ((target, key), name)));
            }
        }
        Ok(names)
    }
}

/// A property as it heads its values.
fn described(catalogue: &Catalogue, collection: &Collection, wanted: &Wanted) -> Json {
    let name = &collection.fields[wanted.field].name;
    let mut meta = json!({ "id": name, "name": name });
    if let Some(target) = wanted.target {
        meta["type"] = type_of(&catalogue.collections[target]);
    }
    meta
}

/// A value as one of the kinds that the protocol has.
fn cell(value: &Value, ty: &FieldType) -> Json {
    match (ty, value) {
        (FieldType::Integer | FieldType::Size, Value::Int(number)) => json!({ "int": number }),
        (FieldType::Float, Value::Float(number)) => json!({ "float": number }),
        (FieldType::Timestamp, _) => json!({ "date": value.show(ty) }),
        (FieldType::Date, _) => json!({ "date": format!("{}T00:00:00Z", value.show(ty)) }),
        _ => json!({ "str": value.show(ty) }),
    }
}

/// `?type=&limit=`: the properties whose values can be asked for.
pub(super) async fn proposals(mut ctx: RequestContext) -> HandlerResult {
    let callback = Callback::of(&mut ctx)?;
    let asked = ctx.params.single("type")?;
    let limit = ctx.params.number("limit", 1, MAX_PROPOSED)?.unwrap_or(MAX_PROPOSED);
    ctx.params.end()?;
    let collection = ctx.definition(ctx.collection());
    let is_of_type = asked.as_ref().is_none_or(|asked| asked.is_empty() || *asked == collection.name);
    let all = reconcile::properties(collection).filter(|_| is_of_type).take(limit as usize);
    let properties: Vec<Json> = all.map(|(_, field)| json!({ "id": field.name, "name": field.name })).collect();
    let kind = asked.unwrap_or_else(|| collection.name.clone());
    Ok(callback.wrap(&json!({ "type": kind, "limit": limit, "properties": properties })))
}
