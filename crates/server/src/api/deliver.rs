//! Delivers documents: for callers who have a few and wait until they are written.

use crate::api::response::json_answer;
use crate::api::transitions::refuse_key;
use crate::api::uploads::UploadParams;
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::body::Body;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use stook_engine::deliver::{self, DeliverResult};
use stook_store::journal::{DocumentOutcome, Issue, Outcome};

/// Max bytes of JSON that is mapped on the async thread, because handing it to a blocking thread would cost as much.
const MAX_INLINE_BYTES: usize = 4 << 10;

/// `?profile=&source=&as_of=&name=` with the documents as the body.
pub async fn create(ctx: UndecidedContext, body: Body) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::BySource);
    refuse_key(&ctx, "sent again, the documents are unchanged")?;
    let params = UploadParams::read(&mut ctx)?;
    params.check_allowed(&ctx)?;
    ctx.params.end()?;
    let bytes = ctx.bytes(body).await?;
    let delivery = params.upload(&ctx, Some(bytes.len() as u64));
    ctx.count_store_reached();
    let (app, caller) = (ctx.app.clone(), ctx.caller.name.clone());
    let is_small = bytes.len() <= MAX_INLINE_BYTES && matches!(bytes.first(), Some(b'{' | b'['));
    let map = move || deliver::map(&app.rules, &*app.store, &delivery, &caller, bytes);
    let store = ctx.app.store.clone();
    let pending = if is_small {
        let mapped = map()?;
        if mapped.reads(&*store) { blocking(move || mapped.submit(&*store)).await? } else { mapped.submit(&*store)? }
    } else {
        blocking(move || map()?.submit(&*store)).await?
    };
    // no thread is blocked while the commit becomes durable
    let delivered = pending.end().await?;
    let failed = delivered.counts.of(Outcome::Failed);
    if failed > 0 && delivered.lines.iter().all(|line| line.outcome == Outcome::Failed) {
        return Err(Problem::unprocessable(delivered.troubles.iter().filter(|issue| issue.failed).map(describe).collect()));
    }
    Ok(json_answer(StatusCode::OK, shown(&ctx, &delivered).to_string()))
}

fn describe(issue: &Issue) -> String {
    let key = issue.key.as_ref().map(|key| format!(", record {key:?}")).unwrap_or_default();
    format!("document {} at byte {}{key}: {}", issue.record, issue.offset, issue.reason)
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
    let issue =
        |issue: &Issue| json!({ "document": issue.record, "offset": issue.offset, "key": issue.key, "failed": issue.failed, "reason": issue.reason });
    json!({
        "counts": delivered.counts,
        "records": delivered.lines.iter().map(line).collect::<Vec<_>>(),
        "troubles": delivered.troubles.iter().map(issue).collect::<Vec<_>>(),
    })
}
