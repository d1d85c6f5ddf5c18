//! Changes of records, for those who follow them: `?since=CURSOR&wait=SECONDS&limit=N`, as lines of JSON. The last line of a response has the cursor
//! after it; a response without changes waits for some first.

use super::export::{failed, streamed};
use super::rows::NDJSON;
use crate::App;
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::StatusCode;
use serde_json::json;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stook_engine::EngineError;
use stook_engine::change_feed::{ChangeCursor, ChangeFollower, ChangePage};
use stook_store::Tenant;
use stook_store::change_feed::ChangeSelection;

/// Most changes of a response, and how many it has if nothing is said.
pub const MAX_CHANGES: u64 = 100_000;
const DEFAULT_CHANGES: u64 = 10_000;
/// Most seconds that a response waits for changes, and how many if nothing is said and a cursor is given.
pub const MAX_WAIT: u64 = 300;
const DEFAULT_WAIT: u64 = 20;
/// How often the store is asked whether there is something new, for all who wait together.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Whose changes a request follows.
#[derive(Clone)]
struct Followed {
    app: Arc<App>,
    tenant: Tenant,
    collection: Option<String>,
}

impl Followed {
    fn with<T>(&self, work: impl FnOnce(&ChangeFollower<'_>) -> Result<T, EngineError>) -> Result<T, EngineError> {
        let follower = ChangeFollower::new(&self.app.catalogue, &*self.app.store, &self.tenant, self.collection.as_deref())?;
        work(&follower)
    }

    async fn read(&self, cursor: ChangeCursor, limit: usize) -> HandlerResult<ChangePage> {
        let own = self.clone();
        reading(move || own.with(|follower| follower.read(&cursor, limit))).await
    }
}

/// Changes of all collections that keep them.
pub async fn all(ctx: RequestContext) -> HandlerResult {
    follow(ctx, None).await
}

/// Changes of one collection.
pub async fn collection(ctx: RequestContext) -> HandlerResult {
    let name = ctx.name().to_owned();
    follow(ctx, Some(name)).await
}

async fn follow(mut ctx: RequestContext, collection: Option<String>) -> HandlerResult {
    let since = ctx.params.single("since")?;
    let default_wait = if since.as_deref().is_some_and(|since| since != "now") { DEFAULT_WAIT } else { 0 };
    let wait = Duration::from_secs(ctx.params.number("wait", 0, MAX_WAIT)?.unwrap_or(default_wait));
    let limit = ctx.params.number("limit", 1, MAX_CHANGES)?.unwrap_or(DEFAULT_CHANGES) as usize;
    ctx.params.end()?;
    ctx.count_store_reached();
    let followed = Followed { app: ctx.app.clone(), tenant: ctx.tenant.clone(), collection };
    let own = followed.clone();
    let cursor = reading(move || own.with(|follower| follower.begin(since.as_deref()))).await.map_err(as_request_problem)?;
    let deadline = Instant::now() + wait;
    let mut page = followed.read(cursor, limit).await?;
    // this ends as well when the caller is gone, because nobody polls it then
    while page.changes.is_empty() && Instant::now() < deadline && !followed.app.ending.load(Ordering::SeqCst) {
        tokio::time::sleep(POLL_INTERVAL.min(deadline.saturating_duration_since(Instant::now()))).await;
        let newest = newest(&followed.app).await?;
        if page.next.is_before(newest) {
            page = followed.read(page.next, limit).await?;
        }
    }
    Ok(streamed(NDJSON, move |out| followed.with(|follower| write(follower, page, limit, out))))
}

/// 400 for what is no cursor: it is wrong in the address, not in a body.
fn as_request_problem(problem: Problem) -> Problem {
    if problem.status == StatusCode::UNPROCESSABLE_ENTITY { Problem { status: StatusCode::BAD_REQUEST, ..problem } } else { problem }
}

/// Writes a page and those after it, up to the limit, and the cursor.
fn write(follower: &ChangeFollower<'_>, mut page: ChangePage, limit: usize, out: &mut dyn Write) -> Result<(), EngineError> {
    let mut remaining = limit;
    loop {
        for change in &page.changes {
            writeln!(out, "{}", change.to_json()).map_err(failed)?;
        }
        remaining -= page.changes.len();
        if remaining == 0 || page.changes.is_empty() {
            break;
        }
        page = follower.read(&page.next, remaining)?;
    }
    let end = json!({ "cursor": page.next.to_string(), "settled": follower.is_settled()? });
    Ok(writeln!(out, "{end}").map_err(failed)?)
}

/// The position up to which everything has been committed, at most some milliseconds ago.
async fn newest(app: &Arc<App>) -> HandlerResult<i64> {
    let mut known = app.newest_change.lock().await;
    if let Some((read, position)) = *known
        && read.elapsed() < POLL_INTERVAL / 2
    {
        return Ok(position);
    }
    let own = app.clone();
    let read = move || {
        let tenant = Tenant::new(stook_store::DEFAULT_TENANT)?;
        own.store.read_changes(ChangeSelection { tenant: &tenant, collections: &[], from: 0, seen: 0, max_batches: 0 })
    };
    let position = reading(read).await?.until;
    *known = Some((Instant::now(), position));
    Ok(position)
}
