//! Certificates of listeners from an ACME server (RFC 8555): obtained, kept and renewed in the background, on a thread of
//! its own. The server sees that a domain is ours by a TXT record (RFC 8555 section 8.4) that the chains of
//! `nodens-core` answer with.

#![forbid(unsafe_code)]

mod account;
mod client;
mod keeper;
mod limits;
mod order;
mod pace;
mod resolver;

use keeper::Keeper;
use nodens_core::config::AcmeService;
use nodens_core::log::{Level, Sink};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{Mutex, oneshot};

/// Keeps the certificates of one configuration; dropping it ends that, and what is under way.
#[derive(Debug, Default)]
pub struct Acme {
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Acme {
    /// Starts to keep the certificates of `service`; without any it does nothing.
    #[must_use]
    pub fn start(service: Option<&AcmeService>, sink: &Sink) -> Self {
        let Some(service) = service.cloned() else { return Self::default() };
        let (stop, stopped) = oneshot::channel();
        let lines = sink.clone();
        let run = move || run(&service, &lines, stopped);
        match std::thread::Builder::new().name("acme".to_owned()).spawn(run) {
            Ok(thread) => Self { running: Some((stop, thread)) },
            Err(error) => {
                let text = format!("ACME failed: no thread: {error}; no certificate is renewed");
                sink.line(Level::Error, "tls", text);
                Self::default()
            }
        }
    }
}

impl Drop for Acme {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            _ = thread.join();
        }
    }
}

fn run(service: &AcmeService, sink: &Sink, stopped: oneshot::Receiver<()>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let text = format!("ACME failed: {error}; no certificate is renewed");
            return sink.line(Level::Error, "tls", text);
        }
    };
    // Two configurations may have the same account.
    let accounts = Arc::new(Mutex::new(()));
    for managed in &service.managed {
        let challenges = service.challenges.clone();
        let keeper = Keeper::new(managed.clone(), challenges, sink.clone(), accounts.clone());
        runtime.spawn(keeper.run());
    }
    // An error is what dropping the other side looks like.
    _ = runtime.block_on(stopped);
    runtime.shutdown_background();
}
