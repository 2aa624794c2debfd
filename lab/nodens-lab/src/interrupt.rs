//! The flag that ends a run: Ctrl-C or SIGTERM sets it, and another one ends the program at once.

use anyhow::Result;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Signals this soon after the first are the same request: `timeout` sends its signal to a program and to
/// the group that this is in, and a terminal sends it to a child that its parent asks to end, too.
const TOGETHER: Duration = Duration::from_millis(500);

/// A flag that Ctrl-C or SIGTERM sets; a later one ends the program at once.
pub(crate) fn flag() -> Result<Arc<AtomicBool>> {
    let (stop, again) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (mut first, signals) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, again.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
        signal_hook::low_level::pipe::register(signal, signals.try_clone()?)?;
    }
    // It sleeps until the first signal comes, so it costs a measurement nothing.
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        if first.read_exact(&mut [0]).is_ok() {
            std::thread::sleep(TOGETHER);
            again.store(true, Ordering::Relaxed);
        }
    })?;
    Ok(stop)
}
