//! Completes what people type: records by their names, properties and types by theirs.

use super::callback::Callback;
use super::{type_of, unprocessable};
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use serde_json::{Value as Json, json};
use stook_query::reconcile::{self, Reconciler};
use stook_store::Store;

/// Max characters of what was typed.
pub const MAX_TYPED_CHARS: usize = 1_000;
/// Max suggestions of a response.
const MAX_SUGGESTED: u64 = 20;
/// Max suggestions that are skipped.
pub const MAX_CURSOR: u64 = 10_000;

/// What was typed.
struct Typed {
    text: String,
    cursor: u64,
    callback: Callback,
}

impl Typed {
    /// Reads the parameters; OpenRefine also sends which type was chosen, of which there is one.
    fn of(ctx: &mut RequestContext) -> HandlerResult<Self> {
        let callback = Callback::of(ctx)?;
        let text = ctx.params.single("prefix")?.unwrap_or_default();
        if text.chars().count() > MAX_TYPED_CHARS {
            return Err(unprocessable(&format!("prefix has at most {MAX_TYPED_CHARS} characters")));
        }
        let cursor = ctx.params.number("cursor", 0, MAX_CURSOR)?.unwrap_or(0);
        for ignored in ["type", "type_strict", "schema"] {
            ctx.params.all(ignored);
        }
        ctx.params.end()?;
        Ok(Self { text, cursor, callback })
    }

    /// Whether a word of a name begins like the text.
    fn fits(&self, name: &str) -> bool {
        let (typed, name) = (self.text.trim().to_lowercase(), name.to_lowercase());
        name.starts_with(&typed) || name.split(['_', '.']).any(|word| word.starts_with(&typed))
    }
}

/// `?prefix=&cursor=`: records by their names.
pub(super) async fn entities(mut ctx: RequestContext) -> HandlerResult {
    let typed = Typed::of(&mut ctx)?;
    ctx.count_store_reached();
    let (app, tenant, id, text, cursor) = (ctx.app.clone(), ctx.tenant.clone(), ctx.collection(), typed.text.clone(), typed.cursor);
    let found = reading(move || -> Result<Json, Problem> {
        let collection = &app.catalogue.collections[id];
        let store: &dyn Store = &*app.store;
        let found = match Reconciler::new(store, (&tenant, id), collection) {
            Some(reconciler) => reconciler.begins_with(&text, (cursor, MAX_SUGGESTED))?,
            None => Vec::new(),
        };
        Ok(found.iter().map(|record| json!({ "id": record.key.as_str(), "name": record.name, "notable": [type_of(collection)] })).collect())
    })
    .await?;
    Ok(typed.callback.wrap(&json!({ "result": found })))
}

/// `?prefix=`: properties by their names.
pub(super) async fn properties(mut ctx: RequestContext) -> HandlerResult {
    let typed = Typed::of(&mut ctx)?;
    let collection = ctx.definition(ctx.collection());
    let found = reconcile::properties(collection).filter(|(_, field)| typed.fits(&field.name));
    let found = found.skip(typed.cursor as usize).take(MAX_SUGGESTED as usize);
    let found: Json =
        found.map(|(_, field)| json!({ "id": field.name, "name": field.name, "description": field.golden_type().to_string() })).collect();
    Ok(typed.callback.wrap(&json!({ "result": found })))
}

/// `?prefix=`: the type of the records, which is their collection.
pub(super) async fn types(mut ctx: RequestContext) -> HandlerResult {
    let typed = Typed::of(&mut ctx)?;
    let found: Json = Some(type_of(ctx.definition(ctx.collection()))).into_iter().filter(|_| typed.fits(ctx.name()) && typed.cursor == 0).collect();
    Ok(typed.callback.wrap(&json!({ "result": found })))
}
