//! What was learnt of the values of each tenant's records, for suggestions; it is learnt anew when it is old.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_query::Vocabulary;
use stook_store::{Store, Tenant};

/// How old what was learnt of values may be before it is learnt anew, while requests go on; more where learning takes long.
const OLD: Duration = Duration::from_secs(60);
/// How much longer than learning takes it is good for.
const WORTH: u32 = 20;
/// Records of each collection of which values are learnt while somebody waits; of the rest they are learnt while requests go on.
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
    /// What is known of a tenant's values; it is learnt first where nothing is.
    ///
    /// # Errors
    /// When the store fails.
    pub fn of(self: &Arc<Self>, catalogue: &Arc<Catalogue>, store: &Arc<dyn Store>, tenant: &Tenant) -> stook_store::Result<Arc<Vocabulary>> {
        if let Some(found) = self.find(catalogue, store, tenant) {
            return Ok(found);
        }
        let _one = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.find(catalogue, store, tenant) {
            return Ok(found);
        }
        let vocabulary = Arc::new(Vocabulary::learn(catalogue, &**store, tenant, Some(FIRST))?);
        let until = Instant::now() + if vocabulary.is_whole() { OLD } else { Duration::ZERO };
        self.keep(tenant, CachedVocabulary { until, vocabulary: vocabulary.clone(), is_refreshing: false });
        Ok(vocabulary)
    }

    fn find(self: &Arc<Self>, catalogue: &Arc<Catalogue>, store: &Arc<dyn Store>, tenant: &Tenant) -> Option<Arc<Vocabulary>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let learnt = known.get_mut(tenant)?;
        if learnt.until < Instant::now() && !learnt.is_refreshing {
            learnt.is_refreshing = true;
            let (own, catalogue, store, tenant) = (self.clone(), catalogue.clone(), store.clone(), tenant.clone());
            std::thread::spawn(move || own.learn(&catalogue, &*store, &tenant));
        }
        Some(learnt.vocabulary.clone())
    }

    /// Reads all values; what cannot be read is tried again with the next request.
    fn learn(&self, catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant) {
        let began = Instant::now();
        match Vocabulary::learn(catalogue, store, tenant, None).map(Arc::new) {
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
