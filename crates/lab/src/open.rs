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
const TOLD: Duration = Duration::from_millis(200);
/// Max requests started before responses are processed.
const BURST: usize = 16;

/// A precise timer of the system, because those of the runtime have a resolution of a millisecond. It is read like a pipe.
pub struct PreciseTimer {
    own: OwnedFd,
    ends: Receiver,
}

impl PreciseTimer {
    /// Creates a timer that is not set.
    ///
    /// # Errors
    /// When the system provides none.
    pub fn new() -> Result<Self> {
        let own = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let ends = Receiver::from_owned_fd_unchecked(own.try_clone()?)?;
        Ok(Self { own, ends })
    }

    /// Waits for `time`.
    pub async fn wait(&self, time: Duration) {
        let value = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos().max(1)) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        if timerfd_settime(&self.own, TimerfdTimerFlags::empty(), &once).is_err() {
            return tokio::time::sleep(time).await;
        }
        let mut count = [0_u8; 8];
        while self.ends.readable().await.is_ok() && self.ends.try_read(&mut count).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {}
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
    queued: Cell<usize>,
}

struct ScheduledRequest {
    due: Duration,
    taken: Duration,
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
    fn fire(self: &Rc<Self>, shot: ScheduledRequest) {
        self.in_flight.set(self.in_flight.get() + 1);
        let idle = if self.plan.close { None } else { self.idle.borrow_mut().pop() };
        if idle.is_none() {
            if self.open.get() >= self.plan.connections {
                let mut queue = self.queue.borrow_mut();
                queue.push_back(shot);
                self.queued.set(self.queued.get().max(queue.len()));
                return;
            }
            self.open.set(self.open.get() + 1);
        }
        let own = self.clone();
        tokio::task::spawn_local(async move { own.fly(idle, shot).await });
    }

    /// Makes requests on one connection as long as some are queued.
    async fn fly(self: Rc<Self>, mut connection: Option<HttpConnection>, mut shot: ScheduledRequest) {
        loop {
            let begun = self.now();
            let left = self.plan.timeout.saturating_sub(begun.saturating_sub(shot.due));
            let ReadResponse { outcome, bytes, .. } = exchange(self.plan.target.address, &mut connection, &shot.request, left).await;
            self.recorder.borrow_mut().add(&CompletedRequest {
                due: shot.due,
                picked_up: shot.taken,
                sent: begun,
                ended: self.now(),
                outcome,
                bytes,
            });
            self.buffers.borrow_mut().push(std::mem::take(&mut shot.request));
            self.in_flight.set(self.in_flight.get() - 1);
            let next = self.queue.borrow_mut().pop_front();
            match (next, connection.take()) {
                (Some(next), kept) => (shot, connection) = (next, kept),
                (None, Some(kept)) => {
                    self.idle.borrow_mut().push(kept);
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
        for (place, set) in plan.sets.iter().enumerate() {
            if place > 0 {
                tokio::time::sleep(plan.pause).await;
            }
            let before = counters(&plan).await;
            let told = |progress: RunProgress| watch(&RunProgress { set: place, sets: plan.sets.len(), ..progress });
            let (mut seen, queued, goes_on) = one_set(&plan, set, plan.seed + place as u64, &timer, &told).await;
            seen.route = set.route.map_or_else(|| "all routes".into(), |route| plan.routes[route].name.clone());
            (seen.every, seen.planned) = (Some(set.every.as_secs_f64()), Some(set.requests));
            seen.served = difference(&before, &counters(&plan).await);
            if !generator.bottleneck {
                generator = judged(&seen, queued, &plan);
            }
            sets.push(seen);
            if !goes_on {
                break;
            }
        }
        Ok((sets, generator))
    })
}

/// Judges whether the generator was too slow: requests started late, or found no connection.
fn judged(set: &RequestSet, queued: usize, plan: &LoadPlan) -> GeneratorInfo {
    let late = set.late.at(0.99).unwrap_or(0.0);
    let latency = set.latency.at(0.5).unwrap_or(f64::INFINITY);
    let bottleneck = late > 0.001_f64.max(latency / 4.0);
    let reason = if bottleneck {
        Some(format!("{}: 1 % of requests were sent {:.1} ms late because of the generator", set.route, late * 1e3))
    } else if queued > 0 {
        Some(format!("{}: {queued} requests waited for one of {} connections; `connections:` allows more", set.route, plan.connections))
    } else {
        None
    };
    GeneratorInfo { bottleneck, reason }
}

async fn one_set(
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
        queued: Cell::new(0),
    });
    let mut random = Random::new(seed);
    let mut told = Instant::now();
    let mut goes_on = true;
    let tell = |shared: &OpenLoopState| watch(RunProgress { planned: set.requests, ..shared.recorder.borrow().progress(shared.now()) });
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
        shared.fire(ScheduledRequest { due, taken: shared.now(), request });
        if told.elapsed() >= TOLD {
            // start the request before reporting
            tokio::task::yield_now().await;
            goes_on = tell(&shared);
            told = Instant::now();
            if !goes_on {
                break;
            }
        }
    }
    // requests in flight end with their responses or timeouts
    while shared.in_flight.get() > 0 {
        let _ = tokio::time::timeout(TOLD, shared.completed.notified()).await;
        if told.elapsed() >= TOLD {
            tell(&shared);
            told = Instant::now();
        }
    }
    let seconds = shared.now().as_secs_f64();
    let queued = shared.queued.get();
    let recorder = shared.recorder.replace(ResultRecorder::new(Duration::ZERO));
    (recorder.set(seconds), queued, goes_on)
}

/// Returns the counters of the system under test by name and labels; none if the plan does not say where they are.
async fn counters(plan: &LoadPlan) -> BTreeMap<String, u64> {
    let Some(path) = &plan.metrics else { return BTreeMap::new() };
    crate::served::counters(&plan.target, path).await.unwrap_or_default()
}

fn difference(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = after.iter().map(|(name, value)| (name.clone(), value.saturating_sub(before.get(name).copied().unwrap_or(0))));
    grown.filter(|(_, value)| *value > 0).collect()
}
