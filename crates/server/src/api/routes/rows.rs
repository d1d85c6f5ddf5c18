//! Makes the rows of a declared lookup: adds includes to its records, sorts and projects them.

use super::columns::{cel_null, column_named, shown, value_of};
use super::fragment::JsonFragment;
use super::records::{RouteRequest, too_many};
use crate::guard::problem::{HandlerResult, Problem};
use crate::reads::ServedRecord;
use axum::http::StatusCode;
use serde_json::Value as Json;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use stook_catalogue::definition::Collection;
use stook_catalogue::eval::{json_to_cel, to_cel};
use stook_catalogue::route::{IncludeRequirement, Lookup, Projection, TAG};
use stook_catalogue::value::{FieldType, Value};

type LookupFuture<'f, T> = Pin<Box<dyn Future<Output = HandlerResult<T>> + Send + 'f>>;

impl RouteRequest<'_> {
    /// Returns what an include finds for each parent.
    fn include<'f, 'l: 'f>(
        &'f self,
        lookup: &'l Lookup,
        parent: &'f Collection,
        parents: &'f [Arc<ServedRecord>],
    ) -> LookupFuture<'f, Vec<JsonFragment<'l>>> {
        Box::pin(async move {
            let Some(first) = lookup.conditions.first() else { return Ok(vec![JsonFragment::NULL; parents.len()]) };
            let values = parents.iter().map(|record| self.values(first, Some((parent, record))).unwrap_or_default()).collect();
            let found = self.by_values(lookup, first.column, values).await?;
            let mut groups = found.ok_or_else(|| too_many(&format!("what is included of `{}` is", self.collection(lookup).name)))?;
            for (records, parent_record) in groups.iter_mut().zip(parents) {
                records.retain(|record| self.satisfies(lookup, record, Some((parent, parent_record))));
            }
            let rows = self.finish(lookup, groups).await?;
            let shown = |mut rows: Vec<JsonFragment<'l>>| {
                if lookup.single { rows.pop().unwrap_or(JsonFragment::NULL) } else { JsonFragment::Array(rows.into()) }
            };
            Ok(rows.into_iter().map(shown).collect())
        })
    }

    /// Adds includes to groups of records, sorts and projects them. A lookup for a single record keeps at most one row of each group.
    pub fn finish<'f, 'l: 'f>(&'f self, lookup: &'l Lookup, groups: Vec<Vec<Arc<ServedRecord>>>) -> LookupFuture<'f, Vec<Vec<JsonFragment<'l>>>> {
        Box::pin(async move {
            let collection = self.collection(lookup);
            let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
            let all: Vec<Arc<ServedRecord>> = groups.into_iter().flatten().collect();
            let mut is_kept = vec![true; all.len()];
            let mut included: Vec<Vec<JsonFragment<'l>>> = Vec::with_capacity(lookup.includes.len());
            for (_, include) in &lookup.includes {
                let included_rows = self.include(include, collection, &all).await?;
                for (is_kept, included_rows) in is_kept.iter_mut().zip(&included_rows) {
                    match &include.required {
                        IncludeRequirement::Optional => {}
                        _ if !included_rows.is_nothing() => {}
                        IncludeRequirement::DropRecord => *is_kept = false,
                        IncludeRequirement::Refuse(status, sentence) => {
                            return Err(Problem::new(StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_REQUEST), sentence.clone()));
                        }
                    }
                }
                included.push(included_rows);
            }
            let tags = if lookup.shows_tags() { self.tags_of(lookup.collection, &all).await? } else { Vec::new() };
            let mut answers = Vec::with_capacity(sizes.len());
            let mut start = 0;
            for size in sizes {
                let mut rows: Vec<usize> = (start..start + size).filter(|row| is_kept[*row]).collect();
                start += size;
                if !lookup.sort.is_empty() {
                    rows.sort_by(|a, b| self.order(lookup, &all[*a], &all[*b]));
                }
                rows.truncate(if lookup.single { 1 } else { rows.len() });
                answers.push(rows.into_iter().map(|row| self.show(lookup, &all[row], tags.get(row), &|index| &included[index][row])).collect());
            }
            Ok(answers)
        })
    }

    fn order(&self, lookup: &Lookup, a: &ServedRecord, b: &ServedRecord) -> std::cmp::Ordering {
        let collection = self.collection(lookup);
        for (column, descending) in &lookup.sort {
            let order = value_of(collection, a, *column).0.compare(&value_of(collection, b, *column).0);
            let order = if *descending { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        a.stored.key.cmp(&b.stored.key)
    }

    fn show<'r, 'l: 'r>(
        &self,
        lookup: &'l Lookup,
        record: &ServedRecord,
        tags: Option<&Vec<String>>,
        included: &dyn Fn(usize) -> &'r JsonFragment<'l>,
    ) -> JsonFragment<'l> {
        let collection = self.collection(lookup);
        let include = |name: &str| lookup.includes.iter().position(|(known, _)| known == name).map(included);
        if lookup.projection.is_empty() {
            let mut whole = record.to_json(collection);
            if let Json::Object(members) = &mut whole {
                members.extend(lookup.includes.iter().enumerate().map(|(index, (name, _))| (name.clone(), included(index).json())));
            }
            return JsonFragment::Json(whole);
        }
        let named = |name: &str| -> JsonFragment<'l> {
            match include(name) {
                Some(found) => found.clone(),
                None if name == "params" => JsonFragment::Json(self.params().clone()),
                None if let (TAG, Some(tags)) = (name, tags) => JsonFragment::Json(tags.as_slice().into()),
                None => column_named(collection, name).map_or(JsonFragment::NULL, |column| shown(collection, record, column)),
            }
        };
        let evaluator = self.ctx.app.evaluator();
        let leaf = |name: &str, leaf: &Projection| match leaf {
            Projection::Text(text) => JsonFragment::Json(text.as_str().into()),
            Projection::Path(path) => path.split_first().map_or(JsonFragment::NULL, |(first, rest)| named(first).at_path(rest)),
            Projection::Expression(expression) => {
                let variable = |name: &str| match include(name) {
                    Some(found) => json_to_cel(&found.json()),
                    None if name == "params" => json_to_cel(self.params()),
                    None if let (TAG, Some(tags)) = (name, tags) => json_to_cel(&tags.as_slice().into()),
                    None => column_named(collection, name).map_or(cel_null(), |column| {
                        let (value, ty) = value_of(collection, record, column);
                        to_cel(&value, ty)
                    }),
                };
                let value = evaluator.value(expression, &FieldType::Json, &variable).unwrap_or_else(|error| {
                    evaluator.note(&format!("`{name}`"), expression, &error);
                    Value::Null
                });
                JsonFragment::Json(value.to_json(&FieldType::Json))
            }
        };
        let shown = JsonFragment::Object(lookup.projection.iter().map(|(name, value)| (name.as_str(), leaf(name, value))).collect());
        let failures = evaluator.failures();
        if !failures.is_empty() {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).add(&collection.name, record.stored.key.as_str(), failures);
        }
        shown
    }
}
