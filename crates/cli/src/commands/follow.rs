//! `stook changes`: prints what has changed in records, and goes on doing so.

use crate::CommandResult;
use crate::arguments::records::ChangesArgs;
use crate::open::{self, CatalogueLocation};
use serde_json::json;
use std::time::Duration;
use stook_engine::change_feed::ChangeFollower;

/// How often the store is asked for new changes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Prints changes as lines of JSON.
pub fn changes(location: &CatalogueLocation, arguments: &ChangesArgs) -> CommandResult {
    let ChangesArgs { collection, since, follow, limit, tenant, .. } = arguments;
    let (catalogue, store) = location.read()?;
    let tenant = open::tenant(tenant)?;
    let follower = ChangeFollower::new(&catalogue, &*store, &tenant, collection.as_deref())?;
    let mut cursor = follower.begin(since.as_deref())?;
    let mut remaining = limit.unwrap_or(usize::MAX);
    while remaining > 0 {
        let page = follower.read(&cursor, remaining)?;
        for change in &page.changes {
            say!("{}", change.to_json());
        }
        remaining -= page.changes.len();
        cursor = page.next;
        match (page.changes.is_empty(), *follow) {
            (true, false) => break,
            (true, true) => std::thread::sleep(POLL_INTERVAL),
            (false, _) => {}
        }
    }
    say!("{}", json!({ "cursor": cursor.to_string(), "settled": follower.is_settled()? }));
    Ok(0)
}
