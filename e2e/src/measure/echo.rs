//! A server that sends every query back at once: its delays come from the machine.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

/// The QR bit in the third octet of a message.
const RESPONSE: u8 = 0x80;

/// A running echo; it ends with the value.
#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    /// The queries so far, if they are to be kept.
    seen: Option<Mutex<Vec<Vec<u8>>>>,
}

impl Echo {
    /// Starts on `cpus`.
    pub(crate) fn start(cpus: &[usize]) -> Result<Self> {
        Self::with(cpus, Shared::default())
    }

    /// Starts anywhere and keeps the queries.
    pub(crate) fn recording() -> Result<Self> {
        Self::with(&[], Shared { seen: Some(Mutex::default()), ..Shared::default() })
    }

    /// The queries so far.
    pub(crate) fn seen(&self) -> Vec<Vec<u8>> {
        let seen = self.shared.seen.as_ref();
        seen.map_or_else(Vec::new, |seen| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
        })
    }

    fn with(cpus: &[usize], shared: Shared) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot open a socket")?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let address = socket.local_addr()?;
        let shared = Arc::new(shared);
        let thread = std::thread::spawn({
            let (shared, cpus) = (shared.clone(), cpus.to_vec());
            move || {
                if !cpus.is_empty() && lab_sys::cpu::pin(&cpus).is_err() {
                    eprintln!("the echo could not be pinned to its CPU");
                }
                serve(&socket, &shared);
            }
        });
        Ok(Echo { address, shared, thread: Some(thread) })
    }
}

fn serve(socket: &UdpSocket, shared: &Shared) {
    let mut octets = [0; 4096];
    while !shared.over.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut octets) else { continue };
        let Some(message) = octets.get_mut(..len) else { continue };
        if let Some(seen) = &shared.seen {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(message.to_vec());
        }
        if let Some(flags) = message.get_mut(2) {
            *flags |= RESPONSE;
            // A lost answer counts as lost.
            _ = socket.send_to(message, from);
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it has been reported already.
            _ = thread.join();
        }
    }
}
