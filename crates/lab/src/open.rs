//! Open loop: requests start at planned times, whether or not earlier ones have completed, and latencies count from these times, so that a stall of
//! the target counts in full. It runs on one thread and records its own delays.

use crate::http::{HttpConnection, ReadResponse, exchange, listens};
use crate::plan::{LoadPlan, RequestSetPlan};
use crate::record::{CompletedRequest, ResultRecorder};
use crate::{ProgressFn, Result, RunProgress};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};
use stook_report::plan::Schedule;
use stook_report::run::{GeneratorInfo, RequestSet};
use stook_sample::random::Random;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// Time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Max requests started before responses are processed.
const BURST: usize = 16;

/// A precise timer of the system, because those of the runtime have a resolution of a millisecond. It is read like a pipe.
pub struct PreciseTimer {
    descriptor: OwnedFd,
    expirations: Receiver,
}

impl PreciseTimer {
    /// Creates a timer that is not set.
    ///
    /// # Errors
    /// When the system provides none.
    pub fn new() -> Result<Self> {
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let expirations = Receiver::from_owned_fd_unchecked(descriptor.try_clone()?)?;
        Ok(Self { descriptor, expirations })
    }

    /// Waits for `time`.
    pub async fn wait(&self, time: Duration) {
        let value = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos().max(1)) };
        let timer_spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        if timerfd_settime(&self.descriptor, TimerfdTimerFlags::empty(), &timer_spec).is_err() {
            return tokio::time::sleep(time).await;
        }
        let mut count = [0_u8; 8];
        while self.expirations.readable().await.is_ok()
            && self.expirations.try_read(&mut count).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        {}
    }
}

/// What all requests of a set share.
struct OpenLoopState {
    plan: Rc<LoadPlan>,
    began: Instant,
    idle: RefCell<Vec<HttpConnection>>,
    open: Cell<usize>,
    /// Requests that wait for a connection.
    queue: RefCell<VecDeque<ScheduledRequest>>,
    recorder: RefCell<ResultRecorder>,
    in_flight: Cell<u64>,
    completed: Notify,
    buffers: RefCell<Vec<Vec<u8>>>,
    /// Max requests that waited for a connection at one time.
    max_queued: Cell<usize>,
}

struct ScheduledRequest {
    due: Duration,
    picked_up: Duration,
    request: Vec<u8>,
}

impl OpenLoopState {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn buffer(&self) -> Vec<u8> {
        self.buffers.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(512))
    }

    /// Starts a request, or queues it for a connection.
    fn start(self: &Rc<Self>, request: ScheduledRequest) {
        self.in_flight.set(self.in_flight.get() + 1);
        let idle = if self.plan.close { None } else { self.idle.borrow_mut().pop() };
        if idle.is_none() {
            if self.open.get() >= self.plan.connections {
                let mut queue = self.queue.borrow_mut();
                queue.push_back(request);
                self.max_queued.set(self.max_queued.get().max(queue.len()));
                return;
            }
            self.open.set(self.open.get() + 1);
        }
        let this = self.clone();
        tokio::task::spawn_local(async move { this.run_on_connection(idle, request).await });
    }

    /// Makes requests on one connection as long as some are queued.
    async fn run_on_connection(self: Rc<Self>, mut connection: Option<HttpConnection>, mut request: ScheduledRequest) {
        loop {
            let begun = self.now();
            let time_left = self.plan.timeout.saturating_sub(begun.saturating_sub(request.due));
            let ReadResponse { outcome, bytes, .. } = exchange(self.plan.target.address, &mut connection, &request.request, time_left).await;
            self.recorder.borrow_mut().add(&CompletedRequest {
                due: request.due,
                picked_up: request.picked_up,
                sent: begun,
                ended: self.now(),
                outcome,
                bytes,
            });
            self.buffers.borrow_mut().push(std::mem::take(&mut request.request));
            self.in_flight.set(self.in_flight.get() - 1);
            let next = self.queue.borrow_mut().pop_front();
            match (next, connection.take()) {
                (Some(next), open_connection) => (request, connection) = (next, open_connection),
                (None, Some(open_connection)) => {
                    self.idle.borrow_mut().push(open_connection);
                    break;
                }
                (None, None) => {
                    self.open.set(self.open.get() - 1);
                    break;
                }
            }
        }
        self.completed.notify_one();
    }
}

/// Runs a plan, set by set.
///
/// # Errors
/// When the system provides no timer or runtime, or no server listens before the first request.
pub fn run(plan: LoadPlan, watch: &ProgressFn<'_>) -> Result<(Vec<RequestSet>, GeneratorInfo)> {
    let plan = Rc::new(plan);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        listens(plan.target.address).await?;
        let timer = Rc::new(PreciseTimer::new()?);
        let (mut sets, mut generator) = (Vec::new(), GeneratorInfo::default());
        for (set_index, set) in plan.sets.iter().enumerate() {
            if set_index > 0 {
                tokio::time::sleep(plan.pause).await;
            }
            let counters_before = counters(&plan).await;
            let report_progress = |progress: RunProgress| watch(&RunProgress { set: set_index, sets: plan.sets.len(), ..progress });
            let (mut results, max_queued, continues) = run_set(&plan, set, plan.seed + set_index as u64, &timer, &report_progress).await;
            results.route = set.route.map_or_else(|| "all routes".into(), |route| plan.routes[route].name.clone());
            (results.every, results.planned) = (Some(set.every.as_secs_f64()), Some(set.requests));
            results.served = difference(&counters_before, &counters(&plan).await);
            if !generator.bottleneck {
                generator = judge_generator(&results, max_queued, &plan);
            }
            sets.push(results);
            if !continues {
                break;
            }
        }
        Ok((sets, generator))
    })
}

/// Judges whether the generator was too slow: requests started late, or found no connection.
fn judge_generator(set: &RequestSet, max_queued: usize, plan: &LoadPlan) -> GeneratorInfo {
    let late = set.late.quantile(0.99).unwrap_or(0.0);
    let latency = set.latency.quantile(0.5).unwrap_or(f64::INFINITY);
    let bottleneck = late > 0.001_f64.max(latency / 4.0);
    let reason = if bottleneck {
        Some(format!("{}: 1 % of requests were sent {:.1} ms late because of the generator", set.route, late * 1e3))
    } else if max_queued > 0 {
        Some(format!("{}: {max_queued} requests waited for one of {} connections; `connections:` allows more", set.route, plan.connections))
    } else {
        None
    };
    GeneratorInfo { bottleneck, reason }
}

async fn run_set(
    plan: &Rc<LoadPlan>,
    set: &RequestSetPlan,
    seed: u64,
    timer: &Rc<PreciseTimer>,
    watch: &dyn Fn(RunProgress) -> bool,
) -> (RequestSet, usize, bool) {
    let shared = Rc::new(OpenLoopState {
        plan: plan.clone(),
        began: Instant::now(),
        idle: RefCell::default(),
        open: Cell::new(0),
        queue: RefCell::default(),
        recorder: RefCell::new(ResultRecorder::new(set.expected())),
        in_flight: Cell::new(0),
        completed: Notify::new(),
        buffers: RefCell::default(),
        max_queued: Cell::new(0),
    });
    let mut random = Random::new(seed);
    let mut last_report = Instant::now();
    let mut continues = true;
    let report_progress = |shared: &OpenLoopState| watch(RunProgress { planned: set.requests, ..shared.recorder.borrow().progress(shared.now()) });
    let mut burst = 0;
    for due in set.times(seed ^ 0x5eed) {
        // after the response to the previous request, if planned so
        let due = if set.schedule == Schedule::Delay {
            while shared.in_flight.get() > 0 {
                shared.completed.notified().await;
            }
            shared.now() + set.every
        } else {
            due
        };
        let now = shared.now();
        if due > now {
            timer.wait(due - now).await;
            burst = 0;
        } else {
            burst += 1;
            if burst % BURST == 0 {
                tokio::task::yield_now().await;
            }
        }
        let route = set.route.unwrap_or_else(|| plan.draw(&mut random));
        let mut request = shared.buffer();
        plan.routes[route].write(&plan.target, plan.close, &plan.parameters, &mut random, &mut request);
        shared.start(ScheduledRequest { due, picked_up: shared.now(), request });
        if last_report.elapsed() >= PROGRESS_INTERVAL {
            // start the request before reporting
            tokio::task::yield_now().await;
            continues = report_progress(&shared);
            last_report = Instant::now();
            if !continues {
                break;
            }
        }
    }
    // requests in flight end with their responses or timeouts
    while shared.in_flight.get() > 0 {
        let _ = tokio::time::timeout(PROGRESS_INTERVAL, shared.completed.notified()).await;
        if last_report.elapsed() >= PROGRESS_INTERVAL {
            report_progress(&shared);
            last_report = Instant::now();
        }
    }
    let seconds = shared.now().as_secs_f64();
    let max_queued = shared.max_queued.get();
    let recorder = shared.recorder.replace(ResultRecorder::new(Duration::ZERO));
    (recorder.set(seconds), max_queued, continues)
}

/// Returns the counters of the system under test by name and labels; none if the plan does not say where they are.
async fn counters(plan: &LoadPlan) -> BTreeMap<String, u64> {
    let Some(path) = &plan.metrics else { return BTreeMap::new() };
    crate::served::counters(&plan.target, path).await.unwrap_or_default()
}

fn difference(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let differences = after.iter().map(|(name, value)| (name.clone(), value.saturating_sub(before.get(name).copied().unwrap_or(0))));
    differences.filter(|(_, value)| *value > 0).collect()
}
