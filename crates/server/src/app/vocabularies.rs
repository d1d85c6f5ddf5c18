//! A vocabulary for each tenant, made from the values of its records for suggestions and refreshed when it is old.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_query::Vocabulary;
use stook_store::{Store, Tenant};

/// How long a vocabulary is used before it is refreshed in the background; longer if reading the values takes long.
const OLD: Duration = Duration::from_secs(60);
/// A vocabulary is used for at least this many times as long as it took to make.
const WORTH: u32 = 20;
/// Records of each collection that are read while a caller waits for the first vocabulary; the others are read in the background.
const FIRST: u64 = 5_000;
/// Max tenants whose vocabulary is kept.
const MOST_TENANTS: usize = 64;

/// The vocabularies of tenants.
#[derive(Default)]
pub struct VocabularyCache {
    known: Mutex<HashMap<Tenant, CachedVocabulary>>,
    /// Held while a tenant's first vocabulary is made; other callers wait for it.
    learning: Mutex<()>,
}

struct CachedVocabulary {
    /// When it must be refreshed.
    until: Instant,
    vocabulary: Arc<Vocabulary>,
    /// Whether a refresh is running.
    is_refreshing: bool,
}

impl VocabularyCache {
    /// Returns a tenant's vocabulary, which is made first if there is none.
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

    /// Makes a vocabulary from all values. If that fails, the old one is dropped, so that the next request tries again.
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
