//! What long work needs of the process: threads, and the signal to end.

use crate::CommandError;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Becomes true when the process is asked to end (Ctrl-C, SIGTERM). Asked twice, it ends at once: nothing is lost by that.
pub fn stop_signal() -> Result<Arc<AtomicBool>, CommandError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// The number of threads that was asked for, or one for each core.
pub fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}
