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
const WARM_UP_SHARE: f64 = 0.2;

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
        let set_count = targets.len() * plan.routes.len() * plan.clients.len();
        for (name, target) in targets {
            let target = Rc::new(target);
            listens(target.address).await?;
            for route in 0..plan.routes.len() {
                for clients in &plan.clients {
                    let set_index = sets.len();
                    let report_progress = |progress: RunProgress| watch(&RunProgress { set: set_index, sets: set_count, ..progress });
                    let (mut set, continues) = measure_clients(&plan, &target, (route, *clients), time, &report_progress).await;
                    (set.series, set.route, set.clients) = (name.clone(), plan.routes[route].name.clone(), Some(*clients as u64));
                    sets.push(set);
                    if !continues {
                        return Ok(sets);
                    }
                }
            }
        }
        Ok(sets)
    })
}

async fn measure_clients(
    plan: &Rc<LoadPlan>,
    target: &Rc<TargetAddress>,
    (route, clients): (usize, usize),
    time: Duration,
    watch: &dyn Fn(RunProgress) -> bool,
) -> (RequestSet, bool) {
    let recorder = Rc::new(RefCell::new(ResultRecorder::new(time)));
    let (began, warm_up) = (Instant::now(), time.mul_f64(WARM_UP_SHARE));
    let end = warm_up + time;
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
                if begun >= warm_up {
                    let (due, ended) = (begun - warm_up, ended - warm_up);
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
    let mut continues = true;
    while !all.iter().all(tokio::task::JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(if continues { 50 } else { 10 })).await;
        continues &= watch(recorder.borrow().progress(began.elapsed().saturating_sub(warm_up)));
        stopped.set(!continues);
    }
    let seconds = began.elapsed().saturating_sub(warm_up).as_secs_f64();
    let recorder = recorder.replace(ResultRecorder::new(Duration::ZERO));
    (recorder.set(seconds), continues)
}
