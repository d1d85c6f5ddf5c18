//! A vocabulary for each tenant, made from the values of its records for suggestions and refreshed when it is old.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_query::Vocabulary;
use stook_store::{Store, Tenant};

/// How long a vocabulary is used before it is refreshed in the background; longer if reading the values takes long.
const REFRESH_AFTER: Duration = Duration::from_secs(60);
/// A vocabulary is used for at least this many times as long as it took to make.
const MIN_REUSE_FACTOR: u32 = 20;
/// Records of each collection that are read while a caller waits for the first vocabulary; the others are read in the background.
const FIRST_RECORDS: u64 = 5_000;
/// Max tenants whose vocabulary is kept.
const MAX_TENANTS: usize = 64;

/// The vocabularies of tenants.
#[derive(Default)]
pub struct VocabularyCache {
    cached: Mutex<HashMap<Tenant, CachedVocabulary>>,
    /// Held while a tenant's first vocabulary is made; other callers wait for it.
    first_learning: Mutex<()>,
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
    pub fn get(self: &Arc<Self>, catalogue: &Arc<Catalogue>, store: &Arc<dyn Store>, tenant: &Tenant) -> stook_store::Result<Arc<Vocabulary>> {
        if let Some(found) = self.find(catalogue, store, tenant) {
            return Ok(found);
        }
        let _guard = self.first_learning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.find(catalogue, store, tenant) {
            return Ok(found);
        }
        let vocabulary = Arc::new(Vocabulary::learn(catalogue, &**store, tenant, Some(FIRST_RECORDS))?);
        let until = Instant::now() + if vocabulary.is_complete() { REFRESH_AFTER } else { Duration::ZERO };
        self.keep(tenant, CachedVocabulary { until, vocabulary: vocabulary.clone(), is_refreshing: false });
        Ok(vocabulary)
    }

    fn find(self: &Arc<Self>, catalogue: &Arc<Catalogue>, store: &Arc<dyn Store>, tenant: &Tenant) -> Option<Arc<Vocabulary>> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = cached.get_mut(tenant)?;
        if entry.until < Instant::now() && !entry.is_refreshing {
            entry.is_refreshing = true;
            let (cache, catalogue, store, tenant) = (self.clone(), catalogue.clone(), store.clone(), tenant.clone());
            std::thread::spawn(move || cache.learn(&catalogue, &*store, &tenant));
        }
        Some(entry.vocabulary.clone())
    }

    /// Makes a vocabulary from all values. If that fails, the old one is dropped, so that the next request tries again.
    fn learn(&self, catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant) {
        let began = Instant::now();
        match Vocabulary::learn(catalogue, store, tenant, None).map(Arc::new) {
            Ok(vocabulary) => {
                let until = Instant::now() + REFRESH_AFTER.max(began.elapsed() * MIN_REUSE_FACTOR);
                self.keep(tenant, CachedVocabulary { until, vocabulary, is_refreshing: false });
            }
            Err(_) => drop(self.cached.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant)),
        }
    }

    fn keep(&self, tenant: &Tenant, entry: CachedVocabulary) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= MAX_TENANTS && !cached.contains_key(tenant) {
            cached.clear();
        }
        cached.insert(tenant.clone(), entry);
    }
}
