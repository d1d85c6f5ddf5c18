//! Collects from repositories of OAI-PMH: all records that have changed since the watermark, page by page.
//!
//! A list has no order, so the watermark moves when the last page has been imported: to the time at which the repository sent the first one. What
//! changes while pages are sent is in this list or in the next. A list that was not read to its end is read again from its beginning.

use super::collect::{ATTEMPTS, CollectReport, CollectRequest, FIRST_PAUSE, MAX_PAGE_BYTES, PAGE_TIME, pause_until};
use super::http::{HttpAttempt, HttpClient, encoded, persist};
use super::oai_page::{Granularity, OaiPage};
use super::page::{DeliveredPage, PageImport, time_in_name};
use crate::{EngineError, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use stook_catalogue::definition::{Collect, FormatFamily};
use stook_catalogue::value::show_timestamp;

/// How often a list is begun again because its token has expired.
const MAX_RESTARTS: u32 = 3;
/// The maximum number of pages of a list.
const MAX_PAGES: u64 = 10_000_000;
/// The arguments of a list, which must not be repeated next to a token.
const LIST_ARGUMENTS: [&str; 5] = ["verb", "metadataPrefix", "set", "from", "until"];

/// A repository.
pub(super) struct Repository<'r> {
    name: &'r str,
    /// Its URL without arguments of a list, and these.
    base: String,
    list_arguments: String,
    client: HttpClient,
    stop: &'r AtomicBool,
}

/// The result of reading one list.
enum ListEnd {
    /// It was read to its end; it contains what had changed until this time.
    Complete(i64),
    Stopped,
    /// The repository no longer knows the token.
    Expired,
}

impl<'r> Repository<'r> {
    pub(super) fn new(collect: &Collect, name: &'r str, (url, family): (&str, FormatFamily), stop: &'r AtomicBool) -> Result<Self> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let is_of_list = |part: &&str| LIST_ARGUMENTS.contains(&part.split('=').next().unwrap_or_default());
        let (of_list, own): (Vec<&str>, Vec<&str>) = query.split('&').filter(|part| !part.is_empty()).partition(is_of_list);
        let mut list_arguments = of_list.iter().filter(|part| !part.starts_with("verb=")).map(|part| format!("&{part}")).collect::<String>();
        if !list_arguments.contains("&metadataPrefix=") {
            list_arguments.push_str(if family == FormatFamily::Marc { "&metadataPrefix=marc21" } else { "&metadataPrefix=oai_dc" });
        }
        let base = own.iter().fold(format!("{path}?"), |base, part| format!("{base}{part}&"));
        Ok(Self { name, base, list_arguments, client: HttpClient::new(collect.credentials.as_deref())?, stop })
    }

    /// Imports everything that has changed since a time; returns the time up to which everything has been imported, unless it was stopped.
    pub(super) fn harvest(
        &self,
        pages: &PageImport<'_>,
        from: Option<i64>,
        done: &mut CollectReport,
        show: &dyn Fn(&CollectReport),
    ) -> Result<Option<i64>> {
        let granularity = self.identify()?;
        for _ in 0..=MAX_RESTARTS {
            match self.list(pages, (from, granularity), done, show)? {
                ListEnd::Complete(until) => return Ok(Some(until)),
                ListEnd::Stopped => return Ok(None),
                ListEnd::Expired => {}
            }
        }
        Err(self.failed(&format!("its resumption tokens expired before the list was complete, {} times", MAX_RESTARTS + 1)))
    }

    fn identify(&self) -> Result<Granularity> {
        let page = self.page(&format!("{}verb=Identify", self.base))?.0;
        match page.errors.first() {
            Some(error) => Err(self.failed(&format!("it refuses to identify itself: {}: {}", error.code, error.text))),
            None => Ok(page.granularity.unwrap_or(Granularity::Day)),
        }
    }

    fn list(
        &self,
        pages: &PageImport<'_>,
        (from, granularity): (Option<i64>, Granularity),
        done: &mut CollectReport,
        show: &dyn Fn(&CollectReport),
    ) -> Result<ListEnd> {
        let CollectRequest { until, .. } = *pages.request;
        let bound = |name: &str, time: Option<i64>| time.map(|time| format!("&{name}={}", encoded(&shown(time, granularity)))).unwrap_or_default();
        let mut url = format!("{}verb=ListRecords{}{}{}", self.base, self.list_arguments, bound("from", from), bound("until", until));
        let (mut complete_until, mut seen) = (None, HashSet::new());
        for number in 0..MAX_PAGES {
            if self.stop.load(Ordering::SeqCst) {
                return Ok(ListEnd::Stopped);
            }
            let (page, bytes) = self.page(&url)?;
            // the repository's clock decides, because its times are compared with it
            let date = page.date.unwrap_or_else(|| pages.store.clock());
            let complete_until = *complete_until.get_or_insert(until.map_or(date, |until| until.min(date)));
            if page.has_error("noRecordsMatch") {
                return Ok(ListEnd::Complete(complete_until));
            }
            if number > 0 && page.has_error("badResumptionToken") {
                return Ok(ListEnd::Expired);
            }
            if let Some(error) = page.errors.first() {
                return Err(self.failed(&format!("it answers {} with {}: {}", url, error.code, error.text)));
            }
            let times = format!("{}_{}", from.map_or_else(|| "start".to_owned(), time_in_name), time_in_name(complete_until));
            let name = format!("{}_{times}_P{number:06}.xml", self.name);
            let counts = pages.import(DeliveredPage { name, bytes }, from)?;
            done.pages += 1;
            done.counts.include(&counts);
            show(done);
            match page.token {
                None => return Ok(ListEnd::Complete(complete_until)),
                Some(token) if !seen.insert(token.clone()) => return Err(self.failed("it gives a resumption token for the second time")),
                Some(token) => url = format!("{}verb=ListRecords&resumptionToken={}", self.base, encoded(&token)),
            }
        }
        Err(self.failed(&format!("a list has more than {MAX_PAGES} pages")))
    }

    fn page(&self, url: &str) -> Result<(OaiPage, Vec<u8>)> {
        let attempt = || {
            self.client.get(url, "application/xml, text/xml", (PAGE_TIME, MAX_PAGE_BYTES), &mut |_, body| {
                let mut bytes = Vec::new();
                body.read_to_end(&mut bytes)?;
                Ok(HttpAttempt::Answered(bytes))
            })
        };
        let bytes = persist(ATTEMPTS, FIRST_PAUSE, &|pause| pause_until(pause, self.stop), attempt).map_err(|reason| self.failed(&reason))?;
        Ok((OaiPage::read(&bytes).map_err(|reason| self.failed(&reason))?, bytes))
    }

    fn failed(&self, reason: &str) -> EngineError {
        EngineError::Wrong(format!("service `{}`: {reason}", self.name))
    }
}

/// A time as the repository understands it, rounded down.
fn shown(micros: i64, granularity: Granularity) -> String {
    let text = show_timestamp(micros);
    match granularity {
        Granularity::Day => text.chars().take(10).collect(),
        Granularity::Second => text.chars().take(19).chain(['Z']).collect(),
    }
}
