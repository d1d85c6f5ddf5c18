//! Collects what services have published since the last time, a time window and a page at a time (those of OAI-PMH: `oai.rs`; lists in
//! pages: `paged.rs`; files: `files.rs`).
//!
//! Each page becomes an import job of its own, named like a file that the service had delivered. After each page, the watermark of the service
//! moves to the time of the page's last document, and a run that is stopped continues from there. Documents of exactly that time are fetched
//! again, which changes nothing. Pages are separated by the documents' own times, not by their number from the beginning of the window, so
//! what is published meanwhile is not skipped.

use super::files::FileCollection;
use super::http::{HttpAttempt, HttpClient, encoded, on_same_host, persist, with_environment};
use super::oai::Repository;
use super::page::{DeliveredPage, PageImport, time_in_name};
use super::paged::PagedList;
use crate::relations::SettlingUnit;
use crate::relations::stored::number;
use crate::{EngineError, Result};
use serde_json::Value as Json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_catalogue::definition::{Catalogue, Collect, CollectProtocol, OdataService, Source};
use stook_catalogue::ids::SourceId;
use stook_catalogue::value::{FieldType, SmolStr, from_text, show_timestamp};
use stook_formats::strange;
use stook_store::journal::OutcomeCounts;
use stook_store::{Edge, EdgeChange, SettlingChanges, Store, Tenant};

/// The maximum size of a page, in bytes.
pub(super) const MAX_PAGE_BYTES: u64 = 64 << 20;
/// The maximum number of requests for a page.
pub(super) const ATTEMPTS: u32 = 5;
/// The first pause between two attempts; each further one is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The time limit of a request.
pub(super) const PAGE_TIME: Duration = Duration::from_secs(120);
/// The maximum number of consecutive pages without documents that have a next page.
const MAX_EMPTY_PAGES: u32 = 1_000;
/// The members in which services give the address of the next page.
const NEXT: [&str; 2] = ["@odata.nextLink", "odata.nextLink"];

/// Which service to collect from, and what.
#[derive(Debug, Clone)]
pub struct CollectRequest {
    /// The source's index.
    pub source: SourceId,
    /// The service's index in it.
    pub service: usize,
    /// The tenant of the records.
    pub tenant: Tenant,
    /// Start of the window, in microseconds; default: the watermark, or else the definition's `since`.
    pub since: Option<i64>,
    /// End of the window, excluded; default: now, less the definition's `lag`.
    pub until: Option<i64>,
    /// Number of worker threads for imports.
    pub workers: usize,
    /// The folder of the definition, at which relative paths of files begin.
    pub folder: PathBuf,
}

/// The result of collecting from a service.
#[derive(Debug, Clone, Default)]
pub struct CollectReport {
    /// Number of pages, or of files.
    pub pages: u64,
    /// Number of files that were not collected because they have not changed; nothing for pages.
    pub unchanged_files: Option<u64>,
    /// The outcomes of their documents.
    pub counts: OutcomeCounts,
    /// The time up to which everything has been collected, in microseconds.
    pub until: i64,
}

/// The watermark of a service: the time up to which it has been collected, in microseconds.
///
/// # Errors
/// When the store fails.
pub fn journal(store: &dyn Store, tenant: &Tenant, collect: &Collect, service: &str) -> Result<Option<i64>> {
    let edges = store.edges(tenant, collect.id, service)?;
    Ok(edges.first().map(number).transpose()?)
}

/// Collects everything new from one service and imports it. `show` is called with what has been done so far.
///
/// # Errors
/// When the service fails in spite of several attempts, or an import fails. What was collected until then stays, and the watermark is
/// after it.
pub fn collect(
    catalogue: &Arc<Catalogue>,
    store: &dyn Store,
    request: &CollectRequest,
    stop: &AtomicBool,
    show: &dyn Fn(&CollectReport),
) -> Result<CollectReport> {
    let source = &catalogue.sources[request.source];
    let Some(collect) = &source.collect else { return Err(EngineError::Wrong(format!("source `{}` is not collected", source.name))) };
    let (name, url) = &collect.services[request.service];
    let url = with_environment(url)?;
    let watermark = journal(store, &request.tenant, collect, name)?;
    let from = request.since.or(watermark).or(collect.since);
    // a window that starts after a gap does not move the watermark
    let is_next = watermark.is_none_or(|watermark| from.is_none_or(|from| from <= watermark));
    let move_to = |reached: i64| match is_next && watermark.is_none_or(|watermark| reached > watermark) {
        true => store.commit(Box::new(note(&request.tenant, collect, name, reached))).map(|_| ()),
        false => Ok(()),
    };
    let mut done = CollectReport { until: from.unwrap_or_default(), ..CollectReport::default() };
    let pages = PageImport { catalogue, store, request, stop };
    let odata = match &collect.protocol {
        CollectProtocol::Odata(odata) => odata,
        CollectProtocol::Oai => {
            let repository = Repository::new(collect, name, (&url, source.family), stop)?;
            if let Some(reached) = repository.harvest(&pages, from, &mut done, show)? {
                done.until = reached - collect.lag;
                move_to(done.until)?;
            }
            return Ok(done);
        }
        CollectProtocol::Pages(service) => {
            let list = PagedList::new(&pages, service, (name, &url), collect.credentials.as_deref())?;
            if let Some(reached) = list.collect(from, &mut done, show)? {
                done.until = reached - collect.lag;
                move_to(done.until)?;
            }
            return Ok(done);
        }
        CollectProtocol::Files => {
            done.unchanged_files = Some(0);
            if let Some(reached) = FileCollection::new(&pages, collect, name)?.collect(&url, &mut done, show)? {
                done.until = reached;
                move_to(reached)?;
            }
            return Ok(done);
        }
    };
    let service = CollectedService::new(collect, odata, name, &url)?;
    let Some(mut from) = from else {
        return Err(EngineError::Wrong(format!("`{name}` has not been collected yet: say from when on with --since, or `since:` in the definition")));
    };
    let until = request.until.unwrap_or_else(|| store.clock() - collect.lag);
    let mut skip = 0;
    while from < until && !stop.load(Ordering::SeqCst) {
        let page = service.page(from, until, skip, stop)?;
        let times = page.times(odata, source, name)?;
        let Some(last) = times.iter().copied().max() else {
            from = until;
            break;
        };
        if times.iter().any(|time| *time < from || *time >= until) {
            let wanted = format!("{} to {}", show_timestamp(from), show_timestamp(until));
            return Err(EngineError::Wrong(format!("`{name}` returned documents outside the requested window, {wanted}")));
        }
        let page_name = format!("{name}_{}_{}_{}_P{:06}.json", time_in_name(from), time_in_name(until), odata.page, done.pages);
        let counts = pages.import(DeliveredPage { name: page_name, bytes: page.bytes }, Some(from))?;
        done.pages += 1;
        done.counts.include(&counts);
        let of_last = times.iter().filter(|time| **time == last).count();
        skip = if last == from { skip + of_last } else { of_last };
        from = last;
        done.until = from;
        move_to(from)?;
        show(&done);
    }
    if from >= until {
        done.until = until;
        move_to(until)?;
    }
    Ok(done)
}

/// Waits before another attempt; returns false if the collection is to stop.
pub(super) fn pause_until(pause: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + pause;
    while Instant::now() < until && !stop.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(50));
    }
    !stop.load(Ordering::SeqCst)
}

/// A page of documents.
struct CollectPage {
    bytes: Vec<u8>,
    documents: Vec<Json>,
    /// The address of the next page, if the service gives one.
    next: Option<String>,
}

impl CollectPage {
    /// The times at which its documents were published.
    fn times(&self, odata: &OdataService, source: &Source, service: &str) -> Result<Vec<i64>> {
        let time = |document: &Json| {
            let text = document.get(&odata.window).and_then(Json::as_str)?;
            from_text(text, &FieldType::Timestamp, None).ok()?.as_int()
        };
        let missing = || EngineError::Wrong(format!("`{service}` returned documents of `{}` without a time in `{}`", source.name, odata.window));
        self.documents.iter().map(|document| time(document).ok_or_else(missing)).collect()
    }
}

/// A service to collect from.
struct CollectedService<'c> {
    odata: &'c OdataService,
    name: &'c str,
    url: String,
    client: HttpClient,
}

impl<'c> CollectedService<'c> {
    fn new(collect: &'c Collect, odata: &'c OdataService, name: &'c str, url: &str) -> Result<Self> {
        Ok(Self { odata, name, url: url.to_owned(), client: HttpClient::new(collect.credentials.as_deref())? })
    }

    /// Fetches the page of a window after `skip` documents.
    fn page(&self, from: i64, until: i64, skip: usize, stop: &AtomicBool) -> Result<CollectPage> {
        let OdataService { window, page, filter } = self.odata;
        let own = filter.as_ref().map(|filter| format!(" and ({filter})")).unwrap_or_default();
        let wanted = format!("{window} ge {} and {window} lt {}{own}", show_timestamp(from), show_timestamp(until));
        let joint = if self.url.contains('?') { '&' } else { '?' };
        let mut url =
            format!("{}{joint}$filter={}&$orderby={}&$top={page}&$skip={skip}", self.url, encoded(&wanted), encoded(&format!("{window} asc")));
        let pause = |pause: Duration| pause_until(pause, stop);
        // a page without documents is the end only if it has no next page
        for _ in 0..MAX_EMPTY_PAGES {
            let attempt = || {
                self.client.get(&url, "application/json", (PAGE_TIME, MAX_PAGE_BYTES), &mut |_, body| {
                    let mut bytes = Vec::new();
                    body.read_to_end(&mut bytes)?;
                    Ok(HttpAttempt::Answered(bytes))
                })
            };
            let page = self.read(persist(ATTEMPTS, FIRST_PAUSE, &pause, attempt).map_err(|reason| self.failed(&reason))?)?;
            match &page.next {
                Some(next) if page.documents.is_empty() => url = on_same_host(&url, next)?,
                _ => return Ok(page),
            }
        }
        Err(self.failed(&format!("it has {MAX_EMPTY_PAGES} pages without documents one after the other")))
    }

    fn read(&self, bytes: Vec<u8>) -> Result<CollectPage> {
        let refused = |missing: &str| self.failed(&format!("its answer {}", strange::no_document(&bytes, missing)));
        let other = |error| self.failed(&format!("the response is not JSON: {error}; it {}", strange::no_document(&bytes, "it is not JSON")));
        let page: Json = serde_json::from_slice(&bytes).map_err(other)?;
        match page {
            Json::Object(mut page) => match page.remove("value") {
                Some(Json::Array(documents)) => {
                    let next = NEXT.iter().find_map(|name| page.get(*name)?.as_str()).map(str::to_owned);
                    Ok(CollectPage { bytes, documents, next })
                }
                _ => Err(refused("there is no list `value` in its top object")),
            },
            _ => Err(refused("it is not an object")),
        }
    }

    fn failed(&self, reason: &str) -> EngineError {
        EngineError::Wrong(format!("service `{}`: {reason}", self.name))
    }
}

/// Moves the watermark of a service.
fn note(tenant: &Tenant, collect: &Collect, service: &str, until: i64) -> SettlingUnit {
    let (link, target, payload) = (collect.id, service.to_owned(), until.to_le_bytes().into());
    let edge = Edge { link, target: target.into(), group: SmolStr::default(), start: 0, child: SmolStr::default(), payload };
    SettlingUnit { tenant: tenant.clone(), settling: SettlingChanges { edges: vec![EdgeChange::Put(edge)], ..SettlingChanges::default() } }
}
