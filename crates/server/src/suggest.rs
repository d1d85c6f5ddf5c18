//! Free text: queries that it may mean.

use crate::App;
use crate::problem::{HandlerResult, Problem};
use crate::records::{blocking, json_answer};
use crate::request::RequestContext;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stook_query::{MAX_TEXT, Suggestion, Vocabulary, suggest};
use stook_store::Tenant;

/// How old what was learnt of values may be before it is learnt anew, beside the requests; more where learning takes long.
const OLD: Duration = Duration::from_secs(60);
/// How much longer than learning takes it is good for.
const WORTH: u32 = 20;
/// Records of each collection of which values are learnt while somebody waits; of the rest they are learnt beside the requests.
const FIRST: u64 = 5_000;
/// Most tenants whose values are remembered.
const MOST_TENANTS: usize = 64;

/// What was learnt of tenants' values.
#[derive(Default)]
pub struct VocabularyCache {
    known: Mutex<HashMap<Tenant, CachedVocabulary>>,
    /// Held by who learns for the first time: others that come meanwhile wait, and find it.
    learning: Mutex<()>,
}

struct CachedVocabulary {
    /// Until when it is good enough.
    until: Instant,
    vocabulary: Arc<Vocabulary>,
    /// Whether somebody learns it anew.
    is_refreshing: bool,
}

impl VocabularyCache {
    fn of(&self, app: &Arc<App>, tenant: &Tenant) -> stook_store::Result<Arc<Vocabulary>> {
        if let Some(found) = self.find(app, tenant) {
            return Ok(found);
        }
        let _one = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.find(app, tenant) {
            return Ok(found);
        }
        let vocabulary = Arc::new(Vocabulary::learn(&app.catalogue, &*app.store, tenant, Some(FIRST))?);
        let until = Instant::now() + if vocabulary.is_whole() { OLD } else { Duration::ZERO };
        self.keep(tenant, CachedVocabulary { until, vocabulary: vocabulary.clone(), is_refreshing: false });
        Ok(vocabulary)
    }

    fn find(&self, app: &Arc<App>, tenant: &Tenant) -> Option<Arc<Vocabulary>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let learnt = known.get_mut(tenant)?;
        if learnt.until < Instant::now() && !learnt.is_refreshing {
            learnt.is_refreshing = true;
            let (app, tenant) = (app.clone(), tenant.clone());
            std::thread::spawn(move || app.vocabularies.learn(&app, &tenant));
        }
        Some(learnt.vocabulary.clone())
    }

    /// Reads all values; what cannot be read is tried again with the next request.
    fn learn(&self, app: &App, tenant: &Tenant) {
        let began = Instant::now();
        match Vocabulary::learn(&app.catalogue, &*app.store, tenant, None).map(Arc::new) {
            Ok(vocabulary) => {
                let until = Instant::now() + OLD.max(began.elapsed() * WORTH);
                self.keep(tenant, CachedVocabulary { until, vocabulary, is_refreshing: false });
            }
            Err(_) => drop(self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant)),
        }
    }

    fn keep(&self, tenant: &Tenant, learnt: CachedVocabulary) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_TENANTS && !known.contains_key(tenant) {
            known.clear();
        }
        known.insert(tenant.clone(), learnt);
    }
}

/// `?text=TEXT`: at most four queries, best first. `learning` says that not all values have been read yet.
pub async fn get(mut ctx: RequestContext) -> HandlerResult {
    let Some(text) = ctx.params.one("text")? else {
        return Err(Problem::bad("say ?text=TEXT, for example ?text=smith%20personal"));
    };
    ctx.params.end()?;
    if text.chars().count() > MAX_TEXT || text.contains('\0') {
        return Err(Problem::bad(format!("a text has at most {MAX_TEXT} characters, and no NUL")));
    }
    ctx.reaches_store();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let (found, whole) = blocking(move || {
        let vocabulary = app.vocabularies.of(&app, &tenant)?;
        Ok::<_, stook_store::StoreError>((suggest(&vocabulary, &app.catalogue, &*app.store, &tenant, &text)?, vocabulary.is_whole()))
    })
    .await?;
    let shown: Vec<Json> = found.iter().map(Suggestion::to_json).collect();
    Ok(json_answer(StatusCode::OK, json!({ "suggestions": shown, "learning": !whole }).to_string()))
}
