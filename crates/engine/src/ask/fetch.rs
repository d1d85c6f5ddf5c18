//! One question to one service: requests within its limits, pages spooled and imported, and what is not said any more taken back.

use super::answer::{AnswerState, AnswerStore, ServiceAnswer, is_wide, noted};
use super::bind::{BoundArguments, holds, implies, key_field, part, pieces, type_of};
use crate::http::{HttpAttempt, HttpClient, encoded, persist, with_environment};
use crate::settle::{self, SettleRules};
use crate::withdraw::{self, RemoveContributions};
use crate::{EngineError, Result, import};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stook_catalogue::definition::{ArgumentForm, Collection, FormatFamily, Pagination, Service, ServiceCall, Source};
use stook_catalogue::parts::PartialList;
use stook_catalogue::record::{Contribution, ContributionContent, ContributionOrigin, Retirement};
use stook_catalogue::value::{FieldType, Value, from_text, show_timestamp};
use stook_formats::Syntax;
use stook_formats::read::{DocumentReader, open};
use stook_formats::strange;
use stook_store::journal::Outcome;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan, keys_of};
use stook_store::queue::{JobId, JobState};
use stook_store::{SettlePass, Store, Tenant};
use ureq::http::{HeaderMap, Uri};

/// The first pause between two attempts; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Troubles of a page that are looked at for the first of a kind.
const MOST_LOOKED_AT: usize = 100;
/// Most pages of an answer: a service that always has one more is not asked for ever.
const MOST_PAGES: u64 = 100_000;

/// What a service bears, of all questions of this process.
pub struct ServiceLimits {
    /// For all requests of an answer.
    pub deadline: Duration,
    timeout: Duration,
    interval: Duration,
    parallel: usize,
    busy: Mutex<LimitState>,
    freed: Condvar,
}

struct LimitState {
    requests: usize,
    /// When the next request may begin.
    next: Instant,
}

impl ServiceLimits {
    pub fn new(service: &Service) -> Self {
        let micros = |micros: i64| Duration::from_micros(micros.max(0) as u64);
        Self {
            deadline: micros(service.deadline),
            timeout: micros(service.timeout),
            interval: service.rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) / rate),
            parallel: service.parallel,
            busy: Mutex::new(LimitState { requests: 0, next: Instant::now() }),
            freed: Condvar::new(),
        }
    }

    /// Waits until a request may begin; nothing when it is too late for one.
    fn enter(&self, until: Instant, stop: &AtomicBool) -> Option<RequestSlot<'_>> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            if now >= until || stop.load(Ordering::SeqCst) {
                return None;
            }
            let wait = if busy.requests >= self.parallel {
                until - now
            } else if busy.next > now {
                busy.next - now
            } else {
                busy.requests += 1;
                busy.next = busy.next.max(now - self.interval) + self.interval;
                return Some(RequestSlot(self));
            };
            // `stop` is not notified
            let wait = wait.min(Duration::from_millis(200));
            busy = self.freed.wait_timeout(busy, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A request on its way.
struct RequestSlot<'l>(&'l ServiceLimits);

impl Drop for RequestSlot<'_> {
    fn drop(&mut self) {
        self.0.busy.lock().unwrap_or_else(PoisonError::into_inner).requests -= 1;
        self.0.freed.notify_one();
    }
}

/// What a service is asked.
pub struct FetchRequest<'q> {
    /// Whose records.
    pub tenant: &'q Tenant,
    /// The source's index.
    pub source: usize,
    /// The call's index.
    pub call: usize,
    /// What it is told.
    pub arguments: BoundArguments,
    /// The same as it is asked.
    pub request: &'q str,
}

/// What a call asks, behind the service's URL; `wildcard` is what stands for any text there.
pub fn path(collection: &Collection, call: &ServiceCall, told: &BoundArguments, wildcard: &str) -> String {
    let mut path = call.get.clone();
    for (place, test) in told {
        let arg = &call.args[*place];
        let ty = type_of(collection, arg);
        let show = |value: &Value| match (ty, value) {
            // a bound may be a little wider, never narrower
            (FieldType::Timestamp, Value::Int(micros)) if arg.epoch => {
                let rest = micros.rem_euclid(1_000_000);
                (micros.div_euclid(1_000_000) + i64::from(arg.takes == ArgumentForm::To && rest > 0)).to_string()
            }
            _ => value.show(ty),
        };
        let texts = match test {
            Comparison::Equal(value) => vec![show(value)],
            Comparison::In(values) => values.iter().map(show).collect(),
            Comparison::Range { low, high } => low.iter().chain(high).map(|(value, _)| show(value)).collect(),
            other => pieces(other).map(|pieces| pieces.join(wildcard)).into_iter().collect(),
        };
        let own = format!("{{{}}}", arg.name);
        if let ([text], true) = (texts.as_slice(), path.contains(&own)) {
            path = path.replace(&own, &encoded(text));
            continue;
        }
        for text in texts {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&encoded(&arg.name));
            path.push('=');
            path.push_str(&encoded(&text));
        }
    }
    path
}

/// Asks, imports, and notes what came of it.
///
/// # Errors
/// When the store fails; what is wrong with a service stands in the answer.
pub fn fetch(
    rules: &Arc<SettleRules>,
    store: &dyn Store,
    limits: &[ServiceLimits],
    question: &FetchRequest<'_>,
    stop: &AtomicBool,
) -> Result<ServiceAnswer> {
    let catalogue = &rules.catalogue;
    let source = &catalogue.sources[question.source];
    let Some(asks) = &source.asks else { return Err(EngineError::Wrong(format!("source `{}` does not fetch on demand", source.name))) };
    let collection = &catalogue.collections[source.feeds[0].collection];
    let (service, call) = (&catalogue.services[asks.service], &asks.calls[question.call]);
    let known = AnswerStore { store, tenant: question.tenant, collection, asks };
    let begun = store.clock();
    let old = known.of(question.request)?;
    let asked_before = !old.is_empty();
    for old in old.iter().filter(|old| old.state == AnswerState::Running && old.expires < begun) {
        // whoever had asked is gone
        for job in &old.jobs {
            if store.job_state(*job).is_ok_and(|state| !state.is_final()) {
                store.end_job(*job, JobState::Cancelled, "superseded by a newer fetch")?;
            }
        }
    }
    let wide = is_wide(&question.arguments);
    let mut answer =
        ServiceAnswer::begun(question.request, &call.name, noted(collection, call, &question.arguments), begun, begun + service.deadline);
    known.note(&answer, wide)?;
    let mut fetching = FetchRun {
        rules,
        store,
        tenant: question.tenant,
        source,
        service,
        limits: &limits[asks.service],
        until: Instant::now() + limits[asks.service].deadline,
        part: part(collection, call, &question.arguments),
        stop,
        ttl: None,
        beginning: String::new(),
    };
    let fetched = fetching.pages(call, question.request, &mut answer, &mut |answer| known.note(answer, wide));
    match fetched {
        Err(EngineError::Store(error)) => return Err(error.into()),
        Err(error) => {
            answer.state = if answer.documents > answer.failed { AnswerState::Partial } else { AnswerState::Failed };
            answer.reason = Some(match error {
                EngineError::NoDocument { reason, .. } => format!("its answer {reason}"),
                other => other.to_string(),
            });
        }
        Ok(()) if answer.failed > 0 => {
            answer.state = if answer.documents > answer.failed { AnswerState::Partial } else { AnswerState::Failed };
            let jobs: Vec<String> = answer.jobs.iter().map(ToString::to_string).collect();
            let first =
                fetching.first_of(&answer.jobs, |outcome| outcome == Outcome::Failed)?.map(|reason| format!(" ({reason})")).unwrap_or_default();
            let (failed, all) = (answer.failed, answer.documents);
            // an error may be a document of the format
            let first = if answer.state == AnswerState::Failed { format!("{first}, which begins with: {}", fetching.beginning) } else { first };
            answer.reason = Some(format!("{failed} of {all} documents could not be read{first}; see the journal of job {}", jobs.join(", ")));
        }
        Ok(()) => answer.state = AnswerState::Complete,
    }
    if answer.state == AnswerState::Complete && (asked_before || known.has_others(question.request)?) {
        answer.retired += fetching.retire(&known, (call, &question.arguments), begun)?;
    }
    let ttl = match answer.state {
        AnswerState::Complete => fetching.ttl.unwrap_or(if answer.documents == 0 { service.ttl_empty } else { service.ttl }),
        _ => service.ttl_failed,
    };
    answer.ended = store.clock();
    answer.expires = answer.ended.saturating_add(ttl);
    known.note(&answer, wide)?;
    // the last whole answer keeps its jobs, and what was tried since; somebody may have asked meanwhile
    let kept = known.of(question.request)?;
    for job in old.iter().flat_map(|old| &old.jobs).filter(|job| !kept.iter().any(|kept| kept.jobs.contains(job))) {
        if store.job_state(*job).is_ok_and(JobState::is_final) {
            store.forget_job(*job)?;
        }
    }
    // what was said here meanwhile may be older than what another one did not say
    for newer in known.newer(begun)? {
        if let Some((call, told)) = known.told(&newer) {
            fetching.retire(&known, (&asks.calls[call], &told), newer.begun)?;
        }
    }
    Ok(answer)
}

struct FetchRun<'f> {
    rules: &'f Arc<SettleRules>,
    store: &'f dyn Store,
    tenant: &'f Tenant,
    source: &'f Source,
    service: &'f Service,
    limits: &'f ServiceLimits,
    until: Instant,
    /// What the answer tells of a list, if not all.
    part: Option<String>,
    stop: &'f AtomicBool,
    /// How long responses say that they are fresh, in microseconds.
    ttl: Option<i64>,
    /// How the last page begins.
    beginning: String,
}

impl FetchRun<'_> {
    /// All pages, each imported when it is here.
    fn pages(
        &mut self,
        call: &ServiceCall,
        asked: &str,
        answer: &mut ServiceAnswer,
        note: &mut dyn FnMut(&ServiceAnswer) -> Result<()>,
    ) -> Result<()> {
        let base = with_environment(&self.service.url)?.replace("{tenant}", self.tenant.as_str());
        let client = HttpClient::new(self.service.credentials.as_deref())?;
        let folder = tempfile::Builder::new().prefix("stook-asked-").tempdir().map_err(|error| EngineError::Wrong(error.to_string()))?;
        let first = format!("{}{asked}", base.trim_end_matches('/'));
        let mut url = match &call.page {
            Some(Pagination::Offset { offset, limit, size }) => with_arguments(&first, &[(offset, "0"), (limit, &size.to_string())]),
            _ => first.clone(),
        };
        let time: String = show_timestamp(answer.begun).chars().take(19).filter(|c| !matches!(c, '-' | ':')).collect();
        let mut full = None;
        let (mut first_document, mut seen) = (None, HashSet::new());
        for page in 0..MOST_PAGES {
            let file = folder.path().join(format!("{}_{time}_{page}.{}", self.source.name, self.source.family.name()));
            self.request(&client, &url, &file)?;
            if let Some(Pagination::Offset { offset, .. }) = &call.page {
                let own = self.first_document(&file)?;
                if page == 0 {
                    first_document = own;
                } else if own.is_some() && own == first_document {
                    let reason = format!("it returned the same documents from {offset}={} on: it ignores `{offset}`", answer.documents);
                    return Err(EngineError::Wrong(reason));
                }
            }
            let documents = self.import(&file, answer, note)?;
            let next = match &call.page {
                None => None,
                // a service may give less at once than it is asked for: a page is the last one when it is shorter than the first
                Some(Pagination::Offset { offset, limit, size }) if documents > 0 && documents >= *full.get_or_insert(documents) => {
                    Some(with_arguments(&first, &[(offset, &answer.documents.to_string()), (limit, &size.to_string())]))
                }
                Some(Pagination::Offset { .. }) => None,
                Some(Pagination::Next(member)) => member_of(&file, member)?.map(|next| on_same_host(&url, &next)).transpose()?,
                Some(Pagination::Token(element, argument)) => {
                    element_of(&file, element)?.map(|token| with_arguments(&with_verb_only(&first), &[(argument, &token)]))
                }
            };
            let _ = std::fs::remove_file(&file);
            match next {
                Some(next) if !seen.insert(next.clone()) => return Err(EngineError::Wrong("it keeps returning the same page".into())),
                Some(next) => url = next,
                None => return Ok(()),
            }
        }
        Err(EngineError::Wrong(format!("it has more than {MOST_PAGES} pages")))
    }

    /// One response into a file.
    fn request(&mut self, client: &HttpClient, url: &str, file: &Path) -> Result<()> {
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
            let Some(_place) = self.limits.enter(self.until, self.stop) else { return HttpAttempt::GiveUp(late()) };
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
                    HttpAttempt::Answered(fresh_for(headers))
                })
            })
        };
        let fresh = persist(self.service.attempts, FIRST_PAUSE, &pause, attempt).map_err(EngineError::Wrong)?;
        if let Some(fresh) = fresh {
            self.ttl = Some(self.ttl.map_or(fresh, |ttl| ttl.min(fresh)));
        }
        Ok(())
    }

    /// The digest of the first document of a page.
    fn first_document(&self, file: &Path) -> Result<Option<[u8; 32]>> {
        let wrong = |error: std::io::Error| EngineError::Wrong(format!("its page cannot be read: {error}"));
        let opened = open(file).map_err(wrong)?;
        let Some(syntax) = opened.syntax.and_then(|found| found.as_family(self.source.family)) else { return Ok(None) };
        let mut documents = DocumentReader::new(opened.bytes, syntax, self.source.records.as_deref());
        Ok(documents.next().map_err(wrong)?.map(|(_, bytes)| blake3::hash(bytes).into()))
    }

    /// Imports a page; returns its documents.
    fn import(&mut self, file: &Path, answer: &mut ServiceAnswer, note: &mut dyn FnMut(&ServiceAnswer) -> Result<()>) -> Result<u64> {
        let opened = open(file).map_err(|error| EngineError::Wrong(error.to_string()))?;
        if opened.syntax.is_none() {
            // a file may be empty, an answer says at least that there is nothing
            let (name, reason) = (String::new(), "contains no document, only white space".to_owned());
            return Err(EngineError::NoDocument { name, reason });
        }
        self.beginning = strange::beginning(&opened.beginning);
        let files: Vec<PathBuf> = vec![file.to_owned()];
        let source = Some(self.source.name.clone());
        let (tenant, as_of) = (self.tenant.clone(), Some(answer.begun));
        let request = import::ImportRequest { files, profile: None, source, tenant, as_of, part: self.part.clone(), retires_all: false };
        let job = import::create(&self.rules.catalogue, self.store, &request)?;
        answer.jobs.push(job);
        note(answer)?;
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let job = import::run(&self.rules.catalogue, self.store, job, (workers, true), self.stop, &|_| ())?;
        let documents = job.counts.documents.max(0) as u64;
        answer.documents += documents;
        answer.failed += job.counts.of(Outcome::Failed).max(0) as u64;
        answer.unreadable += job.counts.warnings.max(0) as u64;
        if answer.example.is_none() && job.counts.warnings > 0 {
            answer.example = self.first_of(&answer.jobs, |outcome| outcome != Outcome::Failed)?;
        }
        match job.state {
            JobState::Completed | JobState::CompletedWithErrors => {
                // one object may be a document or an error: if it is left out it was none of those that were asked for
                let is_one = self.source.records.is_none() && documents == 1 && opened.beginning.trim_ascii_start().starts_with(b"{");
                let outcomes = [Outcome::Created, Outcome::Updated, Outcome::Unchanged, Outcome::Superseded, Outcome::Withdrawn, Outcome::Failed];
                if is_one && outcomes.iter().all(|outcome| job.counts.of(*outcome) == 0) {
                    let reason = strange::no_document(&opened.beginning, "its only object is not accepted by the source");
                    return Err(EngineError::NoDocument { name: String::new(), reason });
                }
                Ok(documents)
            }
            state => {
                let whole = job.reason.unwrap_or_default();
                match job.files.first().and_then(|file| whole.strip_prefix(&file.path)?.strip_prefix(' ')) {
                    Some(reason) => Err(EngineError::NoDocument { name: String::new(), reason: reason.to_owned() }),
                    None => Err(EngineError::Wrong(format!("job {} is {}", job.id, state.name()))),
                }
            }
        }
    }

    /// What was wrong with the first document of jobs that had an outcome with trouble.
    fn first_of(&self, jobs: &[JobId], is_wanted: impl Fn(Outcome) -> bool) -> Result<Option<String>> {
        for job in jobs {
            let troubles = self.store.journal(*job, 0, MOST_LOOKED_AT, true)?;
            let mut wanted = troubles.into_iter().filter(|entry| is_wanted(entry.outcome));
            if let Some(reason) = wanted.find_map(|entry| entry.reasons.into_iter().next()) {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }

    /// Takes back what the source said, before a whole answer was asked for, of records that the answer would have had. They may be there
    /// with other values: older answers that would have those are not fresh any more.
    fn retire(&self, known: &AnswerStore<'_>, (call, told): (&ServiceCall, &BoundArguments), begun: i64) -> Result<u64> {
        let index = self.source.feeds[0].collection;
        let collection = &self.rules.catalogue.collections[index];
        let key = key_field(collection);
        let tests = tests_of(call, told);
        let column = |field: usize| if key == Some(field) { PlanColumn::Key } else { PlanColumn::Field(field) };
        let conditions = tests.iter().map(|(field, test)| Condition { column: column(*field), test: test.clone() }).collect();
        let keys = keys_of(self.store, &QueryPlan { conditions, ..QueryPlan::all(self.tenant.clone(), index) })?;
        let wider = Arc::new(BroaderAnswers::of(known, &tests, key, begun)?);
        // a condition on members chose elements, not records
        let tests = tests.into_iter().filter(|(field, _)| collection.member(*field).is_none()).collect();
        let old = PreviousContributions { source: self.source.name.clone(), begun, tests, wider: wider.clone() };
        let taken: RemoveContributions = match part(collection, call, told) {
            None => Arc::new(move |all| old.retire(all)),
            Some(part) => {
                let (rules, contributor) = (self.rules.clone(), format!("{}:{part}", self.source.name));
                Arc::new(move |all| old.retire_part(&rules.catalogue.collections[index], &contributor, all))
            }
        };
        let caller = format!("answer of {}", self.service.name);
        let mut retired = 0;
        for page in keys.chunks(withdraw::PAGE) {
            retired += withdraw::page(self.rules, self.store, self.tenant, (&taken, &caller), index, page)?.records;
        }
        for answer in wider.doubted() {
            known.expire(answer, self.store.clock())?;
        }
        if retired > 0 {
            let rules: Arc<dyn SettlePass> = self.rules.clone();
            settle::drain(self.store, &rules, self.stop)?;
        }
        Ok(retired)
    }
}

/// A URL with further arguments.
fn with_arguments(url: &str, arguments: &[(&String, &str)]) -> String {
    let mut url = url.to_owned();
    for (name, value) in arguments {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(&format!("{}={}", encoded(name), encoded(value)));
    }
    url
}

/// OAI-PMH: nothing stands beside a token but the verb.
fn with_verb_only(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    query.split('&').find(|part| part.starts_with("verb=")).map_or(path.to_owned(), |verb| format!("{path}?{verb}"))
}

/// What a call was told, by field.
fn tests_of(call: &ServiceCall, told: &BoundArguments) -> Vec<(usize, Comparison)> {
    told.iter().map(|(place, test)| (call.args[*place].field, test.clone())).collect()
}

/// Whether tests by field hold of values.
fn hold(tests: &[(usize, Comparison)], values: &[Value]) -> bool {
    tests.iter().all(|(field, test)| values.get(*field).is_some_and(|value| holds(test, value)))
}

/// What a source said of some records before it was asked again.
struct PreviousContributions {
    source: String,
    /// When it was asked again.
    begun: i64,
    /// Conditions that it was told, by field.
    tests: Vec<(usize, Comparison)>,
    /// Answers that are not fresh any more when something of theirs is not said again.
    wider: Arc<BroaderAnswers>,
}

/// Older answers of a source that would also have records of which a newer one says nothing because they have changed.
struct BroaderAnswers(Vec<BroaderAnswer>);

struct BroaderAnswer {
    answer: ServiceAnswer,
    /// What it was told of records.
    tests: Vec<(usize, Comparison)>,
    /// Whether it would have something that is not said again.
    is_stale: AtomicBool,
}

impl BroaderAnswers {
    /// Those that are fresh and whole, and have more than what satisfies `tests`.
    fn of(known: &AnswerStore<'_>, tests: &[(usize, Comparison)], key: Option<usize>, begun: i64) -> Result<Self> {
        // a record that is not there by its key is nowhere
        if tests.iter().all(|(field, _)| Some(*field) == key) {
            return Ok(Self(Vec::new()));
        }
        let now = known.store.clock();
        let mut wider = Vec::new();
        for answer in known.newer(i64::MIN)?.into_iter().filter(|answer| answer.begun < begun && answer.expires > now) {
            let Some((call, told)) = known.told(&answer) else { continue };
            let own = tests_of(&known.asks.calls[call], &told);
            let is_narrower = tests.iter().all(|(field, test)| own.iter().any(|(other, own)| other == field && implies(own, test)));
            if !is_narrower {
                let tests = own.into_iter().filter(|(field, _)| known.collection.member(*field).is_none()).collect();
                wider.push(BroaderAnswer { answer, tests, is_stale: AtomicBool::new(false) });
            }
        }
        Ok(Self(wider))
    }

    /// Something with these values is not said any more.
    fn doubt(&self, values: &[Value]) {
        for older in &self.0 {
            if hold(&older.tests, values) {
                older.is_stale.store(true, Ordering::Relaxed);
            }
        }
    }

    fn doubted(&self) -> impl Iterator<Item = &ServiceAnswer> {
        self.0.iter().filter(|older| older.is_stale.load(Ordering::Relaxed)).map(|older| &older.answer)
    }
}

impl PreviousContributions {
    /// The values of a contribution, if it is what the source said then.
    fn said<'c>(&self, own: &'c Contribution) -> Option<&'c [Value]> {
        let ContributionContent::Values(values) = &own.said else { return None };
        (own.source() == self.source && own.as_of < self.begun && hold(&self.tests, values)).then_some(values)
    }

    /// A whole answer does not say it any more.
    fn retire(&self, contributions: &mut Vec<Contribution>) {
        contributions.iter().filter_map(|own| self.said(own)).for_each(|values| self.wider.doubt(values));
        contributions.retain(|own| self.said(own).is_none());
        self.leave_out_nothing(contributions);
    }

    /// An answer that tells a part does not tell the elements of the part any more.
    fn retire_part(&self, collection: &Collection, contributor: &str, contributions: &mut Vec<Contribution>) {
        let Some(part) = PartialList::of(collection, contributor) else { return };
        let tells = |values: &&[Value]| values.get(part.list).is_some_and(|list| list.elements().iter().any(|element| part.holds(element)));
        let told: Vec<&[Value]> = contributions.iter().filter_map(|own| self.said(own)).filter(tells).collect();
        let is_said_anew = contributions.iter().any(|own| *own.contributor == *contributor && own.as_of >= self.begun);
        if is_said_anew || told.is_empty() {
            return;
        }
        told.into_iter().for_each(|values| self.wider.doubt(values));
        contributions.retain(|own| *own.contributor != *contributor);
        contributions.push(Contribution {
            contributor: contributor.into(),
            as_of: self.begun,
            hash: [0; 16],
            generation: 0,
            origin: ContributionOrigin::default(),
            before: None,
            retired: Retirement::Live,
            said: ContributionContent::Tombstone,
            raw: None,
            unread: Vec::new(),
        });
        self.leave_out_nothing(contributions);
    }

    /// That the source knows nothing of a part need not be said where it says nothing else.
    fn leave_out_nothing(&self, contributions: &mut Vec<Contribution>) {
        let is_said = |own: &Contribution| own.source() == self.source && matches!(own.said, ContributionContent::Values(_));
        if !contributions.iter().any(is_said) {
            contributions.retain(|own| own.source() != self.source || !own.contributor.contains(':'));
        }
    }
}

/// How long a response says that it is fresh, in microseconds.
fn fresh_for(headers: &HeaderMap) -> Option<i64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let seconds = |seconds: i64| seconds.clamp(0, 365 * 24 * 3_600) * 1_000_000;
    if let Some(control) = text("cache-control") {
        if control.split(',').any(|part| matches!(part.trim(), "no-store" | "no-cache")) {
            return Some(0);
        }
        if let Some(age) = control.split(',').find_map(|part| part.trim().strip_prefix("max-age=")?.parse::<i64>().ok()) {
            return Some(seconds(age));
        }
    }
    let time = |text: &str| from_text(text, &FieldType::Timestamp, Some("%a, %d %b %Y %H:%M:%S GMT")).ok()?.as_int();
    let expires = time(text("expires")?)?;
    let now = text("date").and_then(time)?;
    Some((expires - now).clamp(0, seconds(i64::MAX)))
}

/// A URL that a service gave, on the service's own host.
fn on_same_host(from: &str, next: &str) -> Result<String> {
    let wrong = || EngineError::Wrong(format!("its next page is on another host: {next}"));
    let own: Uri = from.parse().map_err(|_| wrong())?;
    let root = format!("{}://{}", own.scheme_str().unwrap_or("http"), own.authority().map_or("", |authority| authority.as_str()));
    if next.starts_with('/') && !next.starts_with("//") {
        return Ok(format!("{root}{next}"));
    }
    let uri: Uri = next.parse().map_err(|_| wrong())?;
    if uri.scheme() == own.scheme() && uri.authority() == own.authority() { Ok(next.to_owned()) } else { Err(wrong()) }
}

/// The text of a member of the top object, without reading the rest into memory.
fn member_of(file: &Path, name: &str) -> Result<Option<String>> {
    struct Member<'n>(&'n str);
    impl<'de> Visitor<'de> for Member<'_> {
        type Value = Option<String>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(name) = map.next_key::<String>()? {
                if name == self.0 {
                    found = map.next_value::<Option<String>>()?.filter(|next| !next.is_empty());
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    let open = File::open(file).map_err(|error| EngineError::Wrong(error.to_string()))?;
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(open));
    reader.deserialize_map(Member(name)).map_err(|error| EngineError::Wrong(format!("its page cannot be read: {error}")))
}

/// The text of the first element of a name.
fn element_of(file: &Path, name: &str) -> Result<Option<String>> {
    let wrong = |error: String| EngineError::Wrong(format!("its page cannot be read: {error}"));
    let open: Box<dyn Read + Send> = Box::new(BufReader::new(File::open(file).map_err(|error| wrong(error.to_string()))?));
    let mut elements = DocumentReader::new(open, Syntax::Xml, Some(name));
    let Some((_, bytes)) = elements.next().map_err(|error| wrong(error.to_string()))? else { return Ok(None) };
    let tree = stook_formats::xml::parse(bytes).map_err(|error| wrong(error.to_string()))?;
    Ok(tree.root_element().text().map(str::trim).filter(|token| !token.is_empty()).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn what_follows_is_found_in_a_page() {
        let json = |text: &str| member_of(file(text).path(), "next").map_err(|error| error.to_string());
        assert_eq!(json(r#"{"rows":[{"next":"inner"}],"next":"/b"}"#), Ok(Some("/b".into())));
        assert_eq!(json(r#"{"next":null,"rows":[]}"#), Ok(None));
        assert_eq!(json(r#"{"next":"","rows":[]}"#), Ok(None));
        assert_eq!(json("{}"), Ok(None));
        assert!(json("[]").is_err() && json(r#"{"next": 1}"#).is_err() && json(r#"{"next": "/b""#).is_err());
        let xml = |text: &str| element_of(file(text).path(), "resumptionToken").unwrap();
        let page = |token: &str| format!("<OAI-PMH><ListRecords><record/>{token}</ListRecords></OAI-PMH>");
        assert_eq!(xml(&page("<resumptionToken cursor='0'> a&amp;b </resumptionToken>")), Some("a&b".into()));
        assert_eq!(xml(&page("<resumptionToken cursor='9'/>")), None);
        assert_eq!(xml(&page("<!-- <resumptionToken>x</resumptionToken> -->")), None);
        assert_eq!(xml(&page("")), None);
        assert_eq!(with_verb_only("http://a/oai?verb=ListRecords&from=2"), "http://a/oai?verb=ListRecords");
        assert_eq!(with_arguments("http://a/oai?verb=L", &[(&"token".to_owned(), "a&b c")]), "http://a/oai?verb=L&token=a%26b%20c");
    }

    #[test]
    fn nobody_is_followed_to_another_host() {
        let from = "http://host:81/a?b=c";
        assert_eq!(on_same_host(from, "/d?e=f").unwrap(), "http://host:81/d?e=f");
        assert_eq!(on_same_host(from, "http://host:81/g").unwrap(), "http://host:81/g");
        for other in ["http://host/g", "https://host:81/g", "//other/g", "http://host:81@other/g", "file:///etc/passwd", "g", ""] {
            assert!(on_same_host(from, other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_response_says_how_long_it_is_fresh() {
        let fresh = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            headers.iter().for_each(|(name, value)| drop(map.insert(*name, value.parse().unwrap())));
            fresh_for(&map)
        };
        assert_eq!(fresh(&[("cache-control", "public, max-age=60")]), Some(60_000_000));
        assert_eq!(fresh(&[("cache-control", "no-store")]), Some(0));
        assert_eq!(fresh(&[("cache-control", "max-age=99999999999999999")]), Some(365 * 24 * 3_600 * 1_000_000));
        let dates = [("date", "Mon, 04 Oct 2010 18:57:42 GMT"), ("expires", "Mon, 04 Oct 2010 18:59:42 GMT")];
        assert_eq!(fresh(&dates), Some(120_000_000));
        assert_eq!(fresh(&[("expires", "Mon, 04 Oct 2010 18:59:42 GMT"), ("date", "Mon, 04 Oct 2010 19:59:42 GMT")]), Some(0));
        assert_eq!(fresh(&[("expires", "0")]), None);
        assert_eq!(fresh(&[]), None);
    }
}
