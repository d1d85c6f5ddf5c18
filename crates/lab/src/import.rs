//! Import matrix: imports files for several tenants, at the same time or one after the other, while users work: how long each import takes, how it
//! affects users, and which tenant is served first.

use crate::http::{self, ReadResponse, RequestOutcome, exchange, listens};
use crate::plan::{LoadPlan, TargetAddress, from_environment, header_lines};
use crate::record::{CompletedRequest, ResultRecorder};
use crate::template::encode;
use crate::watched::ResourceMonitor;
use crate::{LabError, Result};
use serde_json::Value as Json;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use stook_report::plan::{IDLE, ImportFileEntry, ImportPlanFile, PlanFile, UsersEntry, duration};
use stook_report::run::{ImportResult, RequestSet, Run};
use stook_sample::random::Random;
use tokio::task::{JoinHandle, LocalSet};

/// Min time between two requests for a job's state.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Max time of an upload.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(3_600);

/// A matrix that can be run.
pub struct ImportPlan {
    /// The plan as written, without secrets.
    pub text: Json,
    /// Its name.
    pub name: String,
    target: TargetAddress,
    headers: String,
    tenants: Vec<String>,
    files: Vec<ImportFileEntry>,
    folder: PathBuf,
    profile: String,
    pause: Option<Duration>,
    rounds: u64,
    users: Option<SimulatedUsers>,
    programs: Vec<String>,
    postgres: Option<String>,
}

struct SimulatedUsers {
    plan: LoadPlan,
    number: usize,
    idle: Duration,
    think: Duration,
}

impl ImportPlan {
    /// Checks a matrix and the files it names, relative to `folder`.
    ///
    /// # Errors
    /// The first error.
    pub fn new(text: &ImportPlanFile, folder: &Path) -> Result<Self> {
        let wrong = |why: String| LabError::Plan(why);
        let shown = serde_json::to_value(text).map_err(|error| wrong(error.to_string()))?;
        let is_plain_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let tenants = if text.tenants.is_empty() { vec!["main".to_owned()] } else { text.tenants.clone() };
        if let Some(odd) = tenants.iter().find(|name| !is_plain_name(name)) {
            return Err(wrong(format!("{odd:?} is no name of a tenant")));
        }
        if text.files.is_empty() {
            return Err(wrong("a matrix has files and a profile, or each its source: `profile: upsert`, `files: [{ file: names.mrc }]`".into()));
        }
        for file in &text.files {
            let source_name = if file.source.is_empty() { &text.profile } else { &file.source };
            let is_valid = if file.post.is_empty() {
                !file.file.is_empty() && is_plain_name(source_name)
            } else {
                file.file.is_empty() && file.post.starts_with('/')
            };
            if !is_valid || file.post.contains([' ', '\r', '\n']) {
                return Err(wrong(format!("{}: it has a `file` and a profile or `source`, or `post: /...`", file.name())));
            }
        }
        let rounds = text.rounds.unwrap_or(1).clamp(1, 1_000);
        let matrix = Self {
            name: if text.name.is_empty() { text.profile.clone() } else { text.name.clone() },
            target: TargetAddress::from_url(&from_environment(&text.target)?)?,
            headers: header_lines(&text.headers)?,
            tenants,
            files: text.files.clone(),
            folder: folder.to_owned(),
            profile: text.profile.clone(),
            pause: text.pause.as_deref().map(duration).transpose()?,
            rounds,
            users: text.users.as_ref().map(|users| SimulatedUsers::new(users, text, folder)).transpose()?,
            programs: text.programs.clone(),
            postgres: text.postgres.as_deref().map(from_environment).transpose()?,
            text: shown,
        };
        // a missing file is noticed now, not after an hour
        for round in 1..=rounds {
            for tenant in &matrix.tenants {
                matrix.steps(tenant, round)?;
            }
        }
        Ok(matrix)
    }

    /// Returns what a tenant starts in a round, in this order.
    fn steps(&self, tenant: &str, round: u64) -> Result<Vec<ImportStep>> {
        let mut steps = Vec::new();
        for (file_index, text) in self.files.iter().enumerate() {
            if !text.post.is_empty() {
                steps.push(ImportStep { file_index, path: format!("/v1/{tenant}{}", text.post), file: None });
                continue;
            }
            let named = if text.source.is_empty() { format!("profile={}", self.profile) } else { format!("source={}", text.source) };
            for file in matching_files(&self.folder.join(text.file.replace("{round}", &round.to_string()).replace("{tenant}", tenant)))? {
                let mut path = format!("/v1/{tenant}/import?{named}&name=").into_bytes();
                encode(&file.file_name().unwrap_or_default().to_string_lossy(), &mut path);
                steps.push(ImportStep { file_index, path: String::from_utf8_lossy(&path).into_owned(), file: Some(file) });
            }
        }
        Ok(steps)
    }

    /// Returns the phases during which users work: idle, all imports or, if imports follow each other, the import of each file.
    fn phases(&self) -> Vec<String> {
        let files = self.files.iter().map(ImportFileEntry::name).map(str::to_owned);
        let import_phases = if self.is_in_turn() { files.collect() } else { vec!["import".to_owned()] };
        [IDLE.to_owned()].into_iter().chain(import_phases).collect()
    }

    fn is_in_turn(&self) -> bool {
        self.pause.is_some() && self.tenants.len() == 1
    }
}

/// A step that starts a job.
struct ImportStep {
    /// The position of its file in the matrix.
    file_index: usize,
    /// The path of the POST request.
    path: String,
    file: Option<PathBuf>,
}

/// Returns a file, or the files that match `*` in its name, ordered by name.
fn matching_files(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| LabError::File(path.display().to_string(), error);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some((prefix, suffix)) = name.split_once('*') else {
        return std::fs::metadata(path).map(|_| vec![path.to_owned()]).map_err(failed);
    };
    let mut all = Vec::new();
    for entry in std::fs::read_dir(path.parent().unwrap_or(Path::new("."))).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let file_name = entry.file_name().to_string_lossy().into_owned();
        if file_name.len() >= prefix.len() + suffix.len() && file_name.starts_with(prefix) && file_name.ends_with(suffix) {
            all.push(entry.path());
        }
    }
    all.sort();
    if all.is_empty() { Err(LabError::Plan(format!("{}: there is no such file", path.display()))) } else { Ok(all) }
}

impl SimulatedUsers {
    fn new(text: &UsersEntry, matrix: &ImportPlanFile, folder: &Path) -> Result<Self> {
        if !(1..=10_000).contains(&text.number) {
            return Err(LabError::Plan("users are 1 to 10 000: `users: { number: 5 }`".into()));
        }
        let plan = PlanFile {
            target: matrix.target.clone(),
            headers: matrix.headers.clone(),
            parameters: text.parameters.clone(),
            routes: text.routes.clone(),
            ..PlanFile::default()
        };
        let think = text.think.as_deref().map_or(Ok(Duration::ZERO), duration)?;
        let idle = if text.idle.is_empty() { Duration::from_secs(10) } else { duration(&text.idle)? };
        Ok(Self { plan: LoadPlan::new(&plan, folder)?, number: text.number, idle, think })
    }
}

/// What all tasks of a run share.
struct ImportRunState {
    matrix: ImportPlan,
    began: Instant,
    /// The current phase, if requests of users count.
    phase: Cell<Option<usize>>,
    /// The duration of each phase.
    durations: RefCell<Vec<Duration>>,
    /// Recorders by phase and route.
    recorders: RefCell<Vec<Vec<ResultRecorder>>>,
    imports: RefCell<Vec<ImportResult>>,
    stopped: Cell<bool>,
}

impl ImportRunState {
    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

/// Runs a matrix. The caller adds time and machine to the result.
///
/// # Errors
/// When the server does not respond or refuses an import, or a file cannot be read.
pub fn run(matrix: ImportPlan, watch: &dyn Fn(&str) -> bool) -> Result<Run> {
    let watcher = ResourceMonitor::start(matrix.target.address, &matrix.programs, matrix.postgres.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = LocalSet::new().block_on(&runtime, run_matrix(matrix, watch));
    let (curves, statements) = watcher.stop();
    let (sets, imports) = done?;
    Ok(Run { sets, imports, curves, statements, ..Run::default() })
}

async fn run_matrix(matrix: ImportPlan, watch: &dyn Fn(&str) -> bool) -> Result<(Vec<RequestSet>, Vec<ImportResult>)> {
    listens(matrix.target.address).await?;
    let (phases, routes) = (matrix.phases(), matrix.users.as_ref().map_or(0, |users| users.plan.routes.len()));
    let recorders = phases.iter().map(|_| (0..routes).map(|_| ResultRecorder::new(Duration::from_secs(60))).collect());
    let shared = Rc::new(ImportRunState {
        began: Instant::now(),
        phase: Cell::new(Some(0)),
        durations: RefCell::new(vec![Duration::ZERO; phases.len()]),
        recorders: RefCell::new(recorders.collect()),
        imports: RefCell::default(),
        stopped: Cell::new(false),
        matrix,
    });
    let users: Vec<JoinHandle<()>> = match &shared.matrix.users {
        Some(users) => {
            let tasks: Vec<_> = (0..users.number as u64).map(|number| tokio::task::spawn_local(user(shared.clone(), number))).collect();
            let end = Instant::now() + users.idle;
            while Instant::now() < end && watch("users only, no import") {
                tokio::time::sleep(Duration::from_millis(100).min(users.idle)).await;
            }
            tasks
        }
        None => Vec::new(),
    };
    shared.durations.borrow_mut()[0] = shared.began.elapsed();
    shared.phase.set(None);
    let mut first_error = None;
    for round in 1..=shared.matrix.rounds {
        let tenant_tasks = (0..shared.matrix.tenants.len()).map(|tenant| tokio::task::spawn_local(run_tenant(shared.clone(), tenant, round)));
        let tenant_tasks: Vec<JoinHandle<Result<()>>> = tenant_tasks.collect();
        while !tenant_tasks.iter().all(JoinHandle::is_finished) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if !watch(&progress_line(&shared)) {
                shared.stopped.set(true);
            }
        }
        for tenant in tenant_tasks {
            if let Ok(Err(error)) = tenant.await {
                first_error = first_error.or(Some(error));
            }
        }
        if first_error.is_some() || shared.stopped.get() {
            break;
        }
    }
    shared.stopped.set(true);
    for user in users {
        let _ = user.await;
    }
    if let Some(error) = first_error {
        return Err(error);
    }
    Ok((sets(&shared, &phases), shared.imports.take()))
}

fn progress_line(shared: &ImportRunState) -> String {
    let imports = shared.imports.borrow();
    let finished = imports.iter().filter(|import| import.ended > 0.0).count();
    let documents: u64 = imports.iter().map(|import| import.documents).sum();
    format!("{finished} imports finished, {} running, {documents} documents", imports.len() - finished)
}

/// Returns the results of users, by phase and route.
fn sets(shared: &ImportRunState, phases: &[String]) -> Vec<RequestSet> {
    let Some(users) = &shared.matrix.users else { return Vec::new() };
    let mut sets = Vec::new();
    for ((phase, recorders), durations) in phases.iter().zip(shared.recorders.take()).zip(&*shared.durations.borrow()) {
        for (route, recorder) in users.plan.routes.iter().zip(recorders) {
            let set = recorder.set(durations.as_secs_f64());
            sets.push(RequestSet { route: route.name.clone(), series: phase.clone(), clients: Some(users.number as u64), ..set });
        }
    }
    sets
}

/// Simulates a user until the run is over.
async fn user(shared: Rc<ImportRunState>, number: u64) {
    let Some(SimulatedUsers { plan, think, .. }) = &shared.matrix.users else { return };
    let (mut connection, mut request) = (None, Vec::new());
    for turn in 0.. {
        for (route_index, route) in plan.routes.iter().enumerate() {
            if shared.stopped.get() {
                return;
            }
            // the same values for every route of a turn
            let mut random = Random::of_item(plan.seed ^ (turn << 16), number);
            route.write(&plan.target, false, &plan.parameters, &mut random, &mut request);
            let (phase, begun) = (shared.phase.get(), shared.began.elapsed());
            let ReadResponse { outcome, bytes, .. } = exchange(plan.target.address, &mut connection, &request, plan.timeout).await;
            if let Some(phase) = phase {
                let ended = shared.began.elapsed();
                shared.recorders.borrow_mut()[phase][route_index].add(&CompletedRequest {
                    due: begun,
                    picked_up: begun,
                    sent: begun,
                    ended,
                    outcome,
                    bytes,
                });
            }
            if !matches!(outcome, RequestOutcome::Status(_)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if !think.is_zero() {
                tokio::time::sleep(*think).await;
            }
        }
    }
}

/// Runs all steps of a tenant.
async fn run_tenant(shared: Rc<ImportRunState>, tenant: usize, round: u64) -> Result<()> {
    let mut running_jobs = Vec::new();
    for step in shared.matrix.steps(&shared.matrix.tenants[tenant], round)? {
        if shared.stopped.get() {
            break;
        }
        let phase = if shared.matrix.is_in_turn() { step.file_index + 1 } else { 1 };
        let began = Instant::now();
        shared.phase.set(Some(phase));
        let (import_index, job) = start_job(&shared, tenant, &step, round).await?;
        let job_end = tokio::task::spawn_local(wait_for_end(shared.clone(), tenant, import_index, job));
        match shared.matrix.pause {
            None => running_jobs.push(job_end),
            Some(pause) => {
                let ended = job_end.await;
                if shared.matrix.is_in_turn() {
                    shared.phase.set(None);
                    shared.durations.borrow_mut()[phase] += began.elapsed();
                }
                ended.map_err(|error| LabError::Plan(error.to_string()))??;
                tokio::time::sleep(pause).await;
            }
        }
    }
    for job_end in running_jobs {
        job_end.await.map_err(|error| LabError::Plan(error.to_string()))??;
    }
    Ok(())
}

/// Starts a job, by sending a file if it is an import. Returns its position in the run, and its number.
async fn start_job(shared: &ImportRunState, tenant: usize, step: &ImportStep, round: u64) -> Result<(usize, u64)> {
    let matrix = &shared.matrix;
    let failed = |error| LabError::File(step.file.as_ref().map_or_else(String::new, |path| path.display().to_string()), error);
    let source = step.file.as_ref().map(std::fs::File::open).transpose().map_err(failed)?;
    let length = source.as_ref().map_or(Ok(0), |source| source.metadata().map(|metadata| metadata.len())).map_err(failed)?;
    let head = format!(
        "POST {}{} HTTP/1.1\r\nhost: {}\r\n{}content-length: {length}\r\nconnection: close\r\n\r\n",
        matrix.target.base, step.path, matrix.target.host, matrix.headers
    );
    let begun = shared.now();
    let import_index = {
        let (tenant, file) = (matrix.tenants[tenant].clone(), matrix.files[step.file_index].name().to_owned());
        let mut imports = shared.imports.borrow_mut();
        imports.push(ImportResult { tenant, file, round, begun, ..ImportResult::default() });
        imports.len() - 1
    };
    let answer = request_json(matrix, &head, source, UPLOAD_TIMEOUT).await?;
    let job = answer["id"].as_u64().or(answer["job"].as_u64());
    shared.imports.borrow_mut()[import_index].sent = shared.now();
    Ok((import_index, job.ok_or_else(|| LabError::Plan(format!("{}{}: it did not create a job: {answer}", matrix.target.host, step.path)))?))
}

/// Waits for the end of a job; cancels it if the run is stopped.
async fn wait_for_end(shared: Rc<ImportRunState>, tenant: usize, import_index: usize, job: u64) -> Result<()> {
    let matrix = &shared.matrix;
    let head = |method: &str, suffix: &str| {
        let (TargetAddress { base, host, .. }, name, headers) = (&matrix.target, &matrix.tenants[tenant], &matrix.headers);
        format!("{method} {base}/v1/{name}/jobs/{job}{suffix} HTTP/1.1\r\nhost: {host}\r\n{headers}content-length: 0\r\nconnection: close\r\n\r\n")
    };
    loop {
        let answer = request_json(matrix, &head("GET", ""), None, Duration::from_secs(30)).await?;
        let now = shared.now();
        let (is_over, is_settled) = (!answer["finished"].is_null(), answer["settled"] == true);
        {
            let result = &mut shared.imports.borrow_mut()[import_index];
            result.documents = answer["documents"].as_u64().unwrap_or(0);
            result.failed = answer["counts"]["failed"].as_u64().unwrap_or(0);
            result.state = answer["state"].as_str().unwrap_or_default().to_owned();
            if is_over && result.ended == 0.0 {
                result.ended = now;
            }
            if is_settled {
                result.settled = now;
            }
        }
        // a job without success is not settled
        if is_over && (is_settled || !answer["state"].as_str().is_some_and(|state| state.starts_with("completed"))) {
            return Ok(());
        }
        if shared.stopped.get() {
            return request_json(matrix, &head("POST", "/cancel"), None, Duration::from_secs(30)).await.map(drop);
        }
        // wait for a hundredth of the time so far, but at most 500 ms
        let elapsed = now - shared.imports.borrow()[import_index].begun;
        tokio::time::sleep(MIN_POLL_INTERVAL.max(Duration::from_secs_f64(elapsed / 100.0)).min(Duration::from_millis(500))).await;
    }
}

/// Makes a request about a job. Returns the JSON of a successful response, or the server's error.
async fn request_json(matrix: &ImportPlan, head: &str, body: Option<std::fs::File>, time: Duration) -> Result<Json> {
    let response =
        tokio::time::timeout(time, http::fetch(matrix.target.address, head.as_bytes(), body)).await.unwrap_or(Err(RequestOutcome::TimedOut));
    let request = || head.split(" HTTP/1.1").next().unwrap_or_default();
    let (status, body) = response.map_err(|outcome| LabError::Plan(format!("{}: {}", request(), outcome.name())))?;
    let json: Json = serde_json::from_slice(&body).unwrap_or_default();
    if !(200..300).contains(&status) {
        let reason = json["detail"].as_str().or(json["title"].as_str()).unwrap_or("no reason").to_owned();
        return Err(LabError::Plan(format!("{}: {status}: {reason}", request())));
    }
    Ok(json)
}
