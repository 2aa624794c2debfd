//! Addresses that end by themselves unless they are renewed.
//!
//! A thread of its own does that: whatever else hangs, a process that lives keeps its addresses, as
//! it would on a link that hangs on a descriptor.

use super::route::{Address, Route};
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many seconds an address lasts without renewal. Kernels take up to a second longer to notice
/// that it is over.
pub(crate) const SECONDS: u32 = 2;
/// Time between two renewals.
const RENEW_EVERY: Duration = Duration::from_millis(500);

/// Renews addresses of a link until it is dropped.
pub(crate) struct Lease {
    addresses: Arc<Mutex<Vec<IpAddr>>>,
    _stop: Sender<()>,
}

impl Lease {
    /// For the link with this index, and no addresses yet.
    ///
    /// # Errors
    /// There is no thread or no socket to be had.
    pub(crate) fn start(index: u32) -> io::Result<Self> {
        let route = Route::open()?;
        let addresses = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = channel::<()>();
        let lease = Self { addresses: Arc::clone(&addresses), _stop: stop };
        let run = move || {
            let mut last = Instant::now();
            while stopped.recv_timeout(RENEW_EVERY) == Err(RecvTimeoutError::Timeout) {
                let addresses = addresses.lock().unwrap_or_else(PoisonError::into_inner);
                let late = last.elapsed() >= Duration::from_secs(SECONDS.into());
                last = Instant::now();
                renew(&route, index, &addresses, late);
            }
        };
        std::thread::Builder::new().name("lease".to_owned()).spawn(run)?;
        Ok(lease)
    }

    /// Renews these from now on, and no others.
    pub(crate) fn renew(&self, wanted: &[IpAddr]) {
        wanted.clone_into(&mut self.addresses.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renew(&[]);
    }
}

fn renew(route: &Route, index: u32, addresses: &[IpAddr], late: bool) {
    if addresses.is_empty() {
        return;
    }
    // What somebody took away is put back where that is said and counted; what has ended because
    // this thread had no time, here.
    let seen = if late { None } else { route.addresses().ok() };
    let there = |ip| seen.as_ref().is_none_or(|seen| seen.contains(&Address { index, ip }));
    for &ip in addresses.iter().filter(|ip| there(**ip)) {
        // A link that is gone has no addresses to be renewed.
        _ = route.add(index, ip, Some(SECONDS));
    }
}
