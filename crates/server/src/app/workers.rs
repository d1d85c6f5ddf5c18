//! The import workers of a server.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first pause before workers that have failed are restarted; each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Runs import workers on the queue until `stop` is set. If they fail, they are restarted after a pause; during the pause the server is not ready.
///
/// # Errors
/// When they failed, and `stop` was set before they were restarted.
pub fn work(app: &crate::App, options: &stook_engine::work::WorkerOptions, stop: &AtomicBool) -> stook_engine::Result<()> {
    let on_event = |event| {
        if let stook_engine::work::WorkerEvent::TaskDone(stage) = &event {
            app.metrics.count_task(stage);
        }
        crate::log::worked(&event);
    };
    let set_failure = |reason: Option<String>| *app.workers_failed.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let worked = stook_engine::work::run(&app.catalogue, &*app.store, options, stop, &on_event);
        let Err(error) = &worked else { return worked };
        let reason = format!("the import workers stopped: {error}");
        set_failure(Some(reason.clone()));
        if began.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        let restart_at = Instant::now() + pause;
        crate::log::write("work", [("error", format!("{reason}; they restart in {} s", pause.as_secs()).into())]);
        while Instant::now() < restart_at {
            if stop.load(Ordering::SeqCst) {
                return worked;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        set_failure(None);
    }
}
