//! Delivers documents: for callers who have a few and wait until they are written.

use crate::api::response::json_answer;
use crate::api::uploads::UploadParams;
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::body::Body;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use stook_engine::deliver::{self, DeliverResult};
use stook_store::access::Role;
use stook_store::journal::{DocumentOutcome, Issue, Outcome};

/// Max bytes of JSON that is mapped on the async thread, because handing it to a blocking thread would cost as much.
const LITTLE: usize = 4 << 10;

/// `?profile=&source=&as_of=&name=` with the documents as the body.
pub async fn create(mut ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.caller.need(Role::Write)?;
    let described = UploadParams::read(&mut ctx)?;
    ctx.params.end()?;
    let bytes = ctx.bytes(body).await?;
    let delivery = described.upload(&ctx, Some(bytes.len() as u64));
    ctx.reaches_store();
    let (app, caller) = (ctx.app.clone(), ctx.caller.name.clone());
    let is_little = bytes.len() <= LITTLE && matches!(bytes.first(), Some(b'{' | b'['));
    let map = move || deliver::map(&app.rules, &*app.store, &delivery, &caller, bytes);
    let store = ctx.app.store.clone();
    let underway = if is_little {
        let mapped = map()?;
        if mapped.reads(&*store) { blocking(move || mapped.submit(&*store)).await? } else { mapped.submit(&*store)? }
    } else {
        blocking(move || map()?.submit(&*store)).await?
    };
    // no thread is blocked while the commit becomes durable
    let delivered = underway.end().await?;
    let failed = delivered.counts.of(Outcome::Failed);
    if failed > 0 && delivered.lines.iter().all(|line| line.outcome == Outcome::Failed) {
        return Err(Problem::wrong(delivered.troubles.iter().filter(|trouble| trouble.failed).map(in_words).collect()));
    }
    Ok(json_answer(StatusCode::OK, shown(&ctx, &delivered).to_string()))
}

fn in_words(trouble: &Issue) -> String {
    let key = trouble.key.as_ref().map(|key| format!(", record {key:?}")).unwrap_or_default();
    format!("document {} at byte {}{key}: {}", trouble.record, trouble.offset, trouble.reason)
}

fn shown(ctx: &RequestContext, delivered: &DeliverResult) -> Json {
    let collections = &ctx.app.catalogue.collections;
    let line = |line: &DocumentOutcome| {
        json!({
            "document": line.document,
            "collection": line.collection.and_then(|collection| collections.get(collection)).map(|collection| &collection.name),
            "key": (!line.key.is_empty()).then_some(&*line.key),
            "outcome": line.outcome.name(),
            "reason": line.reason.as_deref(),
        })
    };
    let trouble = |trouble: &Issue| json!({ "document": trouble.record, "offset": trouble.offset, "key": trouble.key, "failed": trouble.failed, "reason": trouble.reason });
    json!({
        "counts": delivered.counts,
        "records": delivered.lines.iter().map(line).collect::<Vec<_>>(),
        "troubles": delivered.troubles.iter().map(trouble).collect::<Vec<_>>(),
    })
}
