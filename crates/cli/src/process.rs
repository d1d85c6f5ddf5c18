//! Threads and stop signals for long-running commands.

use crate::CommandError;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns a flag that becomes true on Ctrl-C or SIGTERM. A second signal ends the process at once, which loses nothing.
pub fn stop_signal() -> Result<Arc<AtomicBool>, CommandError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Returns the number of threads requested, or one for each core.
pub fn threads(requested: Option<usize>) -> usize {
    requested.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}
