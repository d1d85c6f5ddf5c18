//! Queries whose services had not answered yet, kept for who comes back.

use std::collections::HashMap;
use std::sync::Mutex;
use stook_engine::fetch::{FetchOptions, FetchPolicy};
use stook_store::Tenant;

/// How rows are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowFormat {
    #[default]
    Json,
    Csv,
    Ndjson,
}

/// Queries whose services had not answered yet, by tenant and number, for who comes back.
#[derive(Default)]
pub struct PendingQueries(Mutex<HashMap<(Tenant, String), QueryRequest>>);

/// Most of them before all are forgotten.
const MOST_UNANSWERED: usize = 1_000;

impl PendingQueries {
    /// Keeps a query whose services are asked already; returns where its answer will be.
    pub fn keep(&self, tenant: Tenant, page: QueryRequest) -> String {
        let id = page.id();
        let place = format!("/v1/{tenant}/query/asked/{id}");
        if let Ok(mut all) = self.0.lock() {
            if all.len() >= MOST_UNANSWERED {
                all.clear();
            }
            let wish = FetchOptions { when: FetchPolicy::Needed, ..page.wish };
            all.insert((tenant, id), QueryRequest { wish, ..page });
        }
        place
    }

    pub fn find(&self, tenant: &Tenant, id: &str) -> Option<QueryRequest> {
        self.0.lock().ok()?.get(&(tenant.clone(), id.to_owned())).cloned()
    }
}

/// A page of a query.
#[derive(Debug, Clone, Default)]
pub struct QueryRequest {
    pub query: String,
    pub idx: u64,
    pub limit: u64,
    pub after: Option<String>,
    pub total: bool,
    pub explain: bool,
    pub form: RowFormat,
    /// Aggregates also of what each source says.
    pub by_source: bool,
    pub wish: FetchOptions,
}

impl QueryRequest {
    /// What tells it from others, however it wants to be answered.
    pub fn id(&self) -> String {
        let own = Self { wish: FetchOptions::default(), ..self.clone() };
        blake3::hash(format!("{own:?}").as_bytes()).to_hex()[..32].to_owned()
    }
}
