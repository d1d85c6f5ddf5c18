//! Closed loop: each client sends its next request after the response to the one before. Its latencies say nothing about users who do not wait for
//! each other; the open loop measures those.

use crate::http::{ReadResponse, RequestOutcome, exchange, listens};
use crate::plan::{LoadPlan, TargetAddress};
use crate::record::{CompletedRequest, ResultRecorder};
use crate::{ProgressFn, Result, RunProgress};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use stook_report::run::RequestSet;
use stook_sample::random::Random;
use tokio::task::LocalSet;

/// Warm-up time of each number of clients, as a share of the measured time.
const WARM: f64 = 0.2;

/// Measures every route with every number of clients, on every target.
///
/// # Errors
/// When there is no runtime, or no server listens.
pub fn run(plan: LoadPlan, time: Duration, watch: &ProgressFn<'_>) -> Result<Vec<RequestSet>> {
    let plan = Rc::new(plan);
    let targets: Vec<(String, TargetAddress)> = if plan.series.is_empty() { vec![(String::new(), plan.target.clone())] } else { plan.series.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut sets = Vec::new();
        let all = targets.len() * plan.routes.len() * plan.clients.len();
        for (name, target) in targets {
            let target = Rc::new(target);
            listens(target.address).await?;
            for route in 0..plan.routes.len() {
                for clients in &plan.clients {
                    let place = sets.len();
                    let told = |progress: RunProgress| watch(&RunProgress { set: place, sets: all, ..progress });
                    let (mut set, goes_on) = one(&plan, &target, (route, *clients), time, &told).await;
                    (set.series, set.route, set.clients) = (name.clone(), plan.routes[route].name.clone(), Some(*clients as u64));
                    sets.push(set);
                    if !goes_on {
                        return Ok(sets);
                    }
                }
            }
        }
        Ok(sets)
    })
}

async fn one(
    plan: &Rc<LoadPlan>,
    target: &Rc<TargetAddress>,
    (route, clients): (usize, usize),
    time: Duration,
    watch: &dyn Fn(RunProgress) -> bool,
) -> (RequestSet, bool) {
    let recorder = Rc::new(RefCell::new(ResultRecorder::new(time)));
    let (began, warm) = (Instant::now(), time.mul_f64(WARM));
    let end = warm + time;
    let stopped = Rc::new(Cell::new(false));
    let client = |number: usize| {
        let (recorder, stopped, plan, target) = (recorder.clone(), stopped.clone(), plan.clone(), target.clone());
        async move {
            let mut random = Random::of_item(plan.seed, number as u64);
            let (mut connection, mut request) = (None, Vec::new());
            while began.elapsed() < end && !stopped.get() {
                plan.routes[route].write(&target, plan.close, &plan.parameters, &mut random, &mut request);
                let begun = began.elapsed();
                let ReadResponse { outcome, bytes, .. } = exchange(target.address, &mut connection, &request, plan.timeout).await;
                let ended = began.elapsed();
                // a request that ends after the end began before it, and counts: otherwise slow ones would be left out
                if begun >= warm {
                    let (due, ended) = (begun - warm, ended - warm);
                    recorder.borrow_mut().add(&CompletedRequest { due, picked_up: due, sent: due, ended, outcome, bytes });
                }
                if !matches!(outcome, RequestOutcome::Status(_)) {
                    // a target that refuses connections is not flooded
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    };
    let all: Vec<_> = (0..clients).map(|number| tokio::task::spawn_local(client(number))).collect();
    let mut goes_on = true;
    while !all.iter().all(tokio::task::JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(if goes_on { 50 } else { 10 })).await;
        goes_on &= watch(recorder.borrow().progress(began.elapsed().saturating_sub(warm)));
        stopped.set(!goes_on);
    }
    let seconds = began.elapsed().saturating_sub(warm).as_secs_f64();
    let recorder = recorder.replace(ResultRecorder::new(Duration::ZERO));
    (recorder.set(seconds), goes_on)
}
