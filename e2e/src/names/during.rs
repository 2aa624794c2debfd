//! Queries while objects change: the answers are not compared, as the servers see changes at their own times, but
//! there has to be one, and what did not change must not be denied.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use nodens_judge::question::Question;
use nodens_judge::transport::Transport;

use super::Pair;
use super::report::Report;
use super::settle::State;
use crate::ask::ask_all;

/// Seconds of quiet between two rounds of queries.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks Nodens for the Service `kubernetes`, which never changes, until it is stopped.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, JoinHandle<Result<Seen>>)>,
}

#[derive(Debug, Default)]
struct Seen {
    asked: usize,
    wrong: Vec<String>,
}

impl Watch {
    pub(crate) fn start(pairs: &[Pair], state: &State) -> Result<Self> {
        let service = state.services.iter().find(|service| {
            service["metadata"]["name"] == "kubernetes"
                && service["metadata"]["namespace"] == "default"
        });
        let address = service.and_then(|service| service["spec"]["clusterIP"].as_str());
        let address = address.ok_or_else(|| anyhow!("no Service 'kubernetes'"))?.to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        // Where namespaces or labels hide it, there is nothing to see.
        let shown = pairs.iter().filter(|pair| pair.case.shows_default());
        let threads = shown
            .map(|pair| {
                let (server, stop) = (pair.nodens.address(), Arc::clone(&stop));
                let wanted = format!(" A {address} ");
                let thread = thread::spawn(move || watch(server, &stop, &wanted));
                (pair.case.name, thread)
            })
            .collect();
        Ok(Watch { stop, threads })
    }

    /// Ends it and reports the faults.
    pub(crate) fn stop(self, report: &mut Report) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for (case, thread) in self.threads {
            let seen = thread.join().map_err(|_| anyhow!("a thread that asks has panicked"))??;
            report.during(case, seen.asked, &seen.wrong);
        }
        Ok(())
    }
}

fn watch(server: std::net::SocketAddr, stop: &AtomicBool, wanted: &str) -> Result<Seen> {
    let mut seen = Seen::default();
    let localhost = std::net::Ipv4Addr::LOCALHOST.into();
    let question = Question::new(localhost, "kubernetes.default.svc.cluster.local.", 1);
    let questions = [(Transport::Udp, question.clone()), (Transport::Tcp, question)];
    while !stop.load(Ordering::Relaxed) {
        for answer in ask_all(server, &questions)? {
            seen.asked += 1;
            let text = answer.map_or("(silent)".to_owned(), |answer| {
                nodens_judge::answer::Outcome::read(&answer).to_string()
            });
            if !text.contains(wanted) {
                seen.wrong.push(text);
            }
        }
        thread::sleep(PAUSE);
    }
    Ok(seen)
}
