//! Free text: queries that it may mean.

use crate::App;
use crate::problem::{Answer, Problem};
use crate::records::{blocking, json_answer};
use crate::request::Ctx;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stook_query::{MOST_TEXT, Suggestion, Vocabulary, suggest};
use stook_store::Tenant;

/// How old what was learnt of values may be before it is learnt anew, beside the requests.
const OLD: Duration = Duration::from_secs(60);
/// Most tenants whose values are remembered.
const MOST_TENANTS: usize = 64;

/// What was learnt of tenants' values.
#[derive(Default)]
pub struct Vocabularies {
    known: Mutex<HashMap<Tenant, Learnt>>,
    /// Held by who learns for the first time: others that come meanwhile wait, and find it.
    learning: Mutex<()>,
}

struct Learnt {
    at: Instant,
    vocabulary: Arc<Vocabulary>,
    /// Whether somebody learns it anew.
    again: bool,
}

impl Vocabularies {
    fn of(&self, app: &Arc<App>, tenant: &Tenant) -> stook_store::Result<Arc<Vocabulary>> {
        if let Some(found) = self.find(app, tenant) {
            return Ok(found);
        }
        let _one = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        match self.find(app, tenant) {
            Some(found) => Ok(found),
            None => self.learn(app, tenant),
        }
    }

    fn find(&self, app: &Arc<App>, tenant: &Tenant) -> Option<Arc<Vocabulary>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let learnt = known.get_mut(tenant)?;
        if learnt.at.elapsed() > OLD && !learnt.again {
            learnt.again = true;
            let (app, tenant) = (app.clone(), tenant.clone());
            std::thread::spawn(move || app.vocabularies.learn(&app, &tenant));
        }
        Some(learnt.vocabulary.clone())
    }

    fn learn(&self, app: &App, tenant: &Tenant) -> stook_store::Result<Arc<Vocabulary>> {
        let learnt = Vocabulary::learn(&app.catalogue, &*app.store, tenant).map(Arc::new);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &learnt {
            Ok(vocabulary) => {
                if known.len() >= MOST_TENANTS {
                    known.clear();
                }
                known.insert(tenant.clone(), Learnt { at: Instant::now(), vocabulary: vocabulary.clone(), again: false });
            }
            Err(_) => drop(known.remove(tenant)),
        }
        learnt
    }
}

/// `?text=TEXT`: at most four queries, best first.
pub async fn get(mut ctx: Ctx) -> Answer {
    let Some(text) = ctx.params.one("text")? else {
        return Err(Problem::bad("say ?text=TEXT, for example ?text=smith%20personal"));
    };
    ctx.params.end()?;
    if text.chars().count() > MOST_TEXT || text.contains('\0') {
        return Err(Problem::bad(format!("a text has at most {MOST_TEXT} characters, and no NUL")));
    }
    ctx.reaches_store();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let found = blocking(move || {
        let vocabulary = app.vocabularies.of(&app, &tenant)?;
        suggest(&vocabulary, &app.catalogue, &*app.store, &tenant, &text)
    })
    .await?;
    let shown: Vec<Json> = found.iter().map(Suggestion::to_json).collect();
    Ok(json_answer(StatusCode::OK, json!({ "suggestions": shown }).to_string()))
}
