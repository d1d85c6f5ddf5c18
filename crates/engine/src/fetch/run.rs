//! Requests the pages of one answer within the limits of its service, and imports each.

use super::answer::ServiceAnswer;
use super::limits::ServiceLimits;
use super::response::fresh_for;
use crate::import;
use crate::relations::SettleRules;
use crate::service::http::{HttpAttempt, HttpClient, persist, with_environment};
use crate::service::paging::{PageWalk, ReceivedPage, next_link};
use crate::work::JobRun;
use crate::{EngineError, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_catalogue::definition::{FormatFamily, Service, ServiceCall, Source};
use stook_catalogue::value::show_timestamp;
use stook_formats::read::open;
use stook_formats::strange;
use stook_store::journal::{OUTCOMES, Outcome};
use stook_store::queue::{JobId, JobState};
use stook_store::{Store, Tenant};

/// The first pause between two attempts; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The number of issues of a page among which the first of a kind is looked for.
const MAX_JOURNAL_ENTRIES: usize = 100;

pub(super) struct FetchRun<'f> {
    pub(super) rules: &'f Arc<SettleRules>,
    pub(super) store: &'f dyn Store,
    pub(super) tenant: &'f Tenant,
    pub(super) source: &'f Source,
    pub(super) service: &'f Service,
    pub(super) limits: &'f ServiceLimits,
    pub(super) until: Instant,
    /// The part of the contributor's name, if the answer contains only a part of a list.
    pub(super) part: Option<String>,
    /// The values that are asked for, by argument.
    pub(super) arguments: BTreeMap<String, String>,
    pub(super) stop: &'f AtomicBool,
    /// The shortest time for which any response is fresh by its headers, in microseconds.
    pub(super) ttl: Option<i64>,
    /// The beginning of the last page.
    pub(super) beginning: String,
}

impl FetchRun<'_> {
    /// Requests all pages and imports each as soon as it has been received.
    pub(super) fn pages(
        &mut self,
        call: &ServiceCall,
        request: &str,
        answer: &mut ServiceAnswer,
        note: &mut dyn FnMut(&ServiceAnswer) -> Result<()>,
    ) -> Result<()> {
        let base = with_environment(&self.service.url)?.replace("{tenant}", self.tenant.as_str());
        let client = HttpClient::new(self.service.credentials.as_deref())?;
        let folder = tempfile::Builder::new().prefix("stook-asked-").tempdir().map_err(|error| EngineError::Wrong(error.to_string()))?;
        let list = format!("{}{request}", base.trim_end_matches('/'));
        let mut walk = PageWalk::new(call.page.as_ref(), self.source, list);
        let time: String = show_timestamp(answer.started).chars().take(19).filter(|c| !matches!(c, '-' | ':')).collect();
        for page in 0_u64.. {
            let file = folder.path().join(format!("{}_{time}_{page}.{}", self.source.name, self.source.family.name()));
            let link = self.request(&client, walk.url(), &file)?;
            walk.check(&file)?;
            let documents = self.import(&file, answer, note)?;
            let goes_on = walk.advance(&ReceivedPage { file: &file, link }, documents)?;
            let _ = std::fs::remove_file(&file);
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Requests one page into a file; returns the address of the next one, if a header says it.
    fn request(&mut self, client: &HttpClient, url: &str, file: &Path) -> Result<Option<String>> {
        let late = || format!("it did not answer within {} s", self.limits.deadline.as_secs_f64());
        let pause = |pause: Duration| {
            let until = Instant::now() + pause;
            if until >= self.until {
                return false;
            }
            while Instant::now() < until && !self.stop.load(Ordering::SeqCst) {
                std::thread::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
            }
            !self.stop.load(Ordering::SeqCst)
        };
        let (accept, family) = match self.source.family {
            FormatFamily::Xml => ("application/xml, text/xml", "xml"),
            _ => ("application/json", "json"),
        };
        let attempt = || {
            let Some(_permit) = self.limits.enter(self.until, self.stop) else { return HttpAttempt::GiveUp(late()) };
            let time = self.limits.timeout.min(self.until.saturating_duration_since(Instant::now()));
            client.get(url, accept, (time, self.service.most_bytes), &mut |headers, body| {
                let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or(family);
                if !kind.contains(family) {
                    return Ok(HttpAttempt::GiveUp(format!("it sent {kind} instead of {family}")));
                }
                let mut out = File::create(file)?;
                let bytes = std::io::copy(body, &mut out)?;
                Ok(if bytes == 0 {
                    HttpAttempt::RetryLater("it sent an empty response".into(), None)
                } else {
                    HttpAttempt::Answered((fresh_for(headers), next_link(headers)))
                })
            })
        };
        let (fresh, link) = persist(self.service.attempts, FIRST_PAUSE, &pause, attempt).map_err(EngineError::Wrong)?;
        if let Some(fresh) = fresh {
            self.ttl = Some(self.ttl.map_or(fresh, |ttl| ttl.min(fresh)));
        }
        Ok(link)
    }

    /// Imports a page; returns the number of its documents.
    fn import(&mut self, file: &Path, answer: &mut ServiceAnswer, note: &mut dyn FnMut(&ServiceAnswer) -> Result<()>) -> Result<u64> {
        let opened = open(file).map_err(|error| EngineError::Wrong(error.to_string()))?;
        if opened.syntax.is_none() {
            // a file may be empty, but an answer without documents must say so
            let (name, reason) = (String::new(), "contains no document, only white space".to_owned());
            return Err(EngineError::NoDocument { name, reason });
        }
        self.beginning = strange::beginning(&opened.beginning);
        let files: Vec<PathBuf> = vec![file.to_owned()];
        let source = Some(self.source.name.clone());
        let (tenant, as_of) = (self.tenant.clone(), Some(answer.started));
        let request = import::ImportRequest {
            files,
            profile: None,
            source,
            tenant,
            as_of,
            part: self.part.clone(),
            arguments: self.arguments.clone(),
            retires_all: false,
            unexpected: true,
        };
        let job = import::create(&self.rules.catalogue, self.store, &request)?;
        answer.jobs.push(job);
        note(answer)?;
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let job = import::run(&self.rules.catalogue, self.store, &JobRun { job, workers, settles: true, stop: self.stop }, &|_| ())?;
        let documents = job.counts.documents.max(0) as u64;
        answer.documents += documents;
        answer.failed += job.counts.of(Outcome::Failed).max(0) as u64;
        answer.unreadable += job.counts.warnings.max(0) as u64;
        if answer.example.is_none() && job.counts.warnings > 0 {
            answer.example = self.first_issue_of(&answer.jobs, |outcome| outcome != Outcome::Failed)?;
        }
        match job.state {
            JobState::Completed | JobState::CompletedWithErrors => {
                // a single object may be a document or an error message: if the source skips it, it is no document
                let is_one = self.source.records.is_none() && documents == 1 && opened.beginning.trim_ascii_start().starts_with(b"{");
                let is_skipped = OUTCOMES.iter().all(|(outcome, _)| *outcome == Outcome::Skipped || job.counts.of(*outcome) == 0);
                if is_one && is_skipped {
                    let reason = strange::no_document(&opened.beginning, "its only object is not accepted by the source");
                    return Err(EngineError::NoDocument { name: String::new(), reason });
                }
                Ok(documents)
            }
            state => {
                let job_reason = job.reason.unwrap_or_default();
                match job.files.first().and_then(|file| job_reason.strip_prefix(&file.path)?.strip_prefix(' ')) {
                    Some(reason) => Err(EngineError::NoDocument { name: String::new(), reason: reason.to_owned() }),
                    None => Err(EngineError::Wrong(format!("job {} is {}", job.id, state.name()))),
                }
            }
        }
    }

    /// The first issue of jobs that belongs to an outcome that is wanted.
    pub(super) fn first_issue_of(&self, jobs: &[JobId], is_wanted: impl Fn(Outcome) -> bool) -> Result<Option<String>> {
        for job in jobs {
            let troubles = self.store.journal(*job, 0, MAX_JOURNAL_ENTRIES, true)?;
            let mut wanted = troubles.into_iter().filter(|entry| is_wanted(entry.outcome));
            if let Some(reason) = wanted.find_map(|entry| entry.reasons.into_iter().next()) {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }
}
