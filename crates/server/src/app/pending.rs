//! Queries whose services had not answered yet, kept until the caller asks for the result again.

use std::collections::HashMap;
use std::sync::Mutex;
use stook_engine::fetch::{FetchOptions, FetchPolicy};
use stook_store::Tenant;

/// The format of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowFormat {
    #[default]
    Json,
    Csv,
    Ndjson,
}

/// Queries whose services had not answered yet, by tenant and id.
#[derive(Default)]
pub struct PendingQueries(Mutex<HashMap<(Tenant, String), QueryRequest>>);

/// Max pending queries; when they are reached, all are removed.
const MAX_PENDING: usize = 1_000;

impl PendingQueries {
    /// Keeps a query whose fetches have been started, and returns the path of its result.
    pub fn keep(&self, tenant: Tenant, request: QueryRequest) -> String {
        let id = request.id();
        let path = format!("/v1/{tenant}/query/asked/{id}");
        if let Ok(mut all) = self.0.lock() {
            if all.len() >= MAX_PENDING {
                all.clear();
            }
            let fetch_options = FetchOptions { when: FetchPolicy::Needed, ..request.fetch_options };
            all.insert((tenant, id), QueryRequest { fetch_options, ..request });
        }
        path
    }

    pub fn find(&self, tenant: &Tenant, id: &str) -> Option<QueryRequest> {
        self.0.lock().ok()?.get(&(tenant.clone(), id.to_owned())).cloned()
    }
}

/// A request for one page of a query's result.
#[derive(Debug, Clone, Default)]
pub struct QueryRequest {
    pub query: String,
    pub idx: u64,
    pub limit: u64,
    pub after: Option<String>,
    pub total: bool,
    pub explain: bool,
    pub format: RowFormat,
    /// Whether aggregates are also computed from each source's contributions.
    pub by_source: bool,
    pub fetch_options: FetchOptions,
}

impl QueryRequest {
    /// An id of the request that does not depend on its fetch options.
    pub fn id(&self) -> String {
        let without_options = Self { fetch_options: FetchOptions::default(), ..self.clone() };
        blake3::hash(format!("{without_options:?}").as_bytes()).to_hex()[..32].to_owned()
    }
}
