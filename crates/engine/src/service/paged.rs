//! Collects lists that services send in pages: all documents, or those that have changed since the watermark.
//!
//! A list has no order that can be relied on, so the watermark moves when its last page has been imported: to the time at which the service sent the
//! first one. What changes while pages are sent is in this list or in the next.

use super::collect::{ATTEMPTS, CollectReport, FIRST_PAUSE, MAX_PAGE_BYTES, PAGE_TIME, pause_until};
use super::http::{HttpAttempt, HttpClient, encoded, http_date, persist};
use super::page::{DeliveredFile, PageImport, time_in_name};
use super::paging::{PageWalk, ReceivedPage, next_link};
use crate::{EngineError, Result};
use std::io::{BufReader, Seek};
use std::sync::atomic::Ordering;
use stook_catalogue::definition::{FormatFamily, PagedService, Source};
use stook_catalogue::value::show_timestamp;
use stook_store::queue::JobState;
use tempfile::NamedTempFile;

/// A service with a list.
pub(super) struct PagedList<'l> {
    pages: &'l PageImport<'l>,
    service: &'l PagedService,
    source: &'l Source,
    name: &'l str,
    url: &'l str,
    client: HttpClient,
}

/// A page in a temporary file, with what its headers say.
struct Page {
    file: NamedTempFile,
    size: u64,
    link: Option<String>,
    /// The time at which it was sent, by the service's clock, in microseconds.
    date: Option<i64>,
}

impl<'l> PagedList<'l> {
    pub(super) fn new(
        pages: &'l PageImport<'l>,
        service: &'l PagedService,
        (name, url): (&'l str, &'l str),
        credentials: Option<&str>,
    ) -> Result<Self> {
        let source = &pages.catalogue.sources[pages.request.source];
        Ok(Self { pages, service, source, name, url, client: HttpClient::new(credentials)? })
    }

    /// Imports the list; returns the time up to which everything has been imported, unless it was stopped.
    pub(super) fn collect(&self, from: Option<i64>, done: &mut CollectReport, show: &dyn Fn(&CollectReport)) -> Result<Option<i64>> {
        let since = from.filter(|_| self.service.changed.is_some());
        let mut walk = PageWalk::new(self.service.page.as_ref(), self.source, self.list(since));
        let mut sent_at = None;
        loop {
            let page = self.page(walk.url());
            if self.pages.stop.load(Ordering::SeqCst) {
                return Ok(None);
            }
            let page = page?;
            // the service's clock decides, because its times are compared with it
            let sent_at = *sent_at.get_or_insert_with(|| page.date.unwrap_or_else(|| self.pages.store.clock()));
            walk.check(page.file.path()).map_err(|error| self.failed(&error.to_string()))?;
            let times = format!("{}_{}", since.map_or_else(|| "all".to_owned(), time_in_name), time_in_name(sent_at));
            let name = format!("{}_{times}_P{:06}.{}", self.name, done.pages, self.source.family.name());
            let bytes = page.file.reopen().map_err(|error| self.failed(&error.to_string()))?;
            let file = DeliveredFile { name, size: page.size, as_of: None, accepts_all: true };
            let job = self.pages.import_bytes(file, Box::new(BufReader::new(bytes))).map_err(|error| self.failed(&error.to_string()))?;
            if !matches!(job.state, JobState::Completed | JobState::CompletedWithErrors) {
                let again = since.map_or_else(|| "the beginning".to_owned(), show_timestamp);
                return Err(self.failed(&format!("job {} is {}; the next collection begins again at {again}", job.id, job.state.name())));
            }
            done.pages += 1;
            done.counts.include(&job.counts);
            show(done);
            let received = ReceivedPage { file: page.file.path(), link: page.link };
            let goes_on = walk.advance(&received, job.documents_done()).map_err(|error| self.failed(&error.to_string()))?;
            if !goes_on {
                return Ok(Some(sent_at));
            }
        }
    }

    /// The URL of the list, or of its part that has changed since a time.
    fn list(&self, since: Option<i64>) -> String {
        let (Some(argument), Some(since)) = (&self.service.changed, since) else { return self.url.to_owned() };
        let time = if self.service.epoch { since.div_euclid(1_000_000).to_string() } else { show_timestamp(since) };
        let joint = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{joint}{}={}", self.url, encoded(argument), encoded(&time))
    }

    fn page(&self, url: &str) -> Result<Page> {
        let accept = if self.source.family == FormatFamily::Xml { "application/xml, text/xml" } else { "application/json" };
        let attempt = || {
            self.client.get(url, accept, (PAGE_TIME, MAX_PAGE_BYTES), &mut |headers, body| {
                let mut file = NamedTempFile::new()?;
                let size = std::io::copy(body, &mut file)?;
                file.rewind()?;
                let date = headers.get("date").and_then(|date| http_date(date.to_str().ok()?));
                Ok(HttpAttempt::Answered(Page { file, size, link: next_link(headers), date }))
            })
        };
        persist(ATTEMPTS, FIRST_PAUSE, &|pause| pause_until(pause, self.pages.stop), attempt).map_err(|reason| self.failed(&reason))
    }

    fn failed(&self, reason: &str) -> EngineError {
        EngineError::Wrong(format!("service `{}`: {reason}", self.name))
    }
}
