//! How long no server answers: queries at short intervals, each with its times.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use nodens_wire::Type;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ask;
use super::net::{self, PODS};

/// Between two queries of one kind.
const PERIOD: Duration = Duration::from_millis(5);
/// An answer that takes longer is none.
const TIMEOUT: Duration = Duration::from_secs(1);

/// One query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    /// How long the answer took; nothing if it did not come in time, or said something else.
    pub(crate) answered: Option<Duration>,
}

/// Queries that are asked from now on.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Asked>>>,
}

struct Pending {
    id: u16,
    number: usize,
    socket: UdpSocket,
}

impl Watch {
    /// Begins to ask for `name` from a pod: each query from a new port, as stub resolvers do.
    pub(crate) fn start(server: Ipv4Addr, name: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || net::inside(PODS, || watch((server, 53).into(), name, &stop))
        });
        Watch { stop, thread }
    }

    /// Waits for the last responses and returns all queries.
    pub(crate) fn finish(self) -> Result<Vec<Asked>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("a thread panicked"))?
    }
}

fn watch(server: SocketAddr, name: &str, stop: &AtomicBool) -> Result<Vec<Asked>> {
    let mut asked: Vec<Asked> = Vec::new();
    let mut pending: Vec<Pending> = Vec::new();
    let mut next = Instant::now();
    let mut id = 0_u16;
    loop {
        let now = Instant::now();
        if now >= next && !stop.load(Ordering::Relaxed) {
            id = id.wrapping_add(1);
            next += PERIOD;
            let socket = ask::socket(server)?;
            socket.set_nonblocking(true)?;
            asked.push(Asked { at: Instant::now(), answered: None });
            // What cannot be sent is not answered either.
            if socket.send(&ask::question(id, name, Type::A)?).is_ok() {
                pending.push(Pending { id, number: asked.len() - 1, socket });
            }
        }
        pending.retain(|question| asked[question.number].at.elapsed() < TIMEOUT);
        if stop.load(Ordering::Relaxed) && pending.is_empty() {
            return Ok(asked);
        }
        wait(&pending, next.saturating_duration_since(Instant::now()))?;
        pending.retain(|question| match receive(question) {
            Some(good) => {
                let entry = &mut asked[question.number];
                entry.answered = good.then(|| entry.at.elapsed());
                false
            }
            None => true,
        });
    }
}

fn wait(pending: &[Pending], limit: Duration) -> Result<()> {
    let mut sockets: Vec<PollFd<'_>> =
        pending.iter().map(|question| PollFd::new(&question.socket, PollFlags::IN)).collect();
    let limit = limit.min(PERIOD);
    let limit = Timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() };
    match poll(&mut sockets, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the answer is good; nothing while there is none.
fn receive(question: &Pending) -> Option<bool> {
    let mut octets = [0; 1232];
    match question.socket.recv(&mut octets) {
        Ok(size) if size >= 12 && octets[..2] == question.id.to_be_bytes() => {
            Some(octets[3] & 15 == 0 && octets[6..8] != [0, 0])
        }
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(_) => Some(false),
    }
}

/// How long after `moment` the last unanswered query was asked; nothing if all were answered, or an error when the
/// last of all was not: then no server answers yet.
pub(crate) fn resumed(asked: &[Asked], moment: Instant) -> Result<Duration> {
    let lost = asked.iter().rposition(|question| question.answered.is_none());
    let Some(last) = lost else { return Ok(Duration::ZERO) };
    match asked.get(last + 1) {
        Some(next) => Ok(next.at.saturating_duration_since(moment)),
        None => Err(anyhow!("no server answered until the end")),
    }
}

/// The queries without an answer.
pub(crate) fn lost(asked: &[Asked]) -> usize {
    asked.iter().filter(|question| question.answered.is_none()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_resume_with_the_question_after_the_last_lost_one() {
        let start = Instant::now();
        let at = |millis: u64, answered: bool| Asked {
            at: start + Duration::from_millis(millis),
            answered: answered.then_some(Duration::from_millis(1)),
        };
        let after = |asked: &[Asked]| resumed(asked, start).ok();
        assert_eq!(after(&[at(0, true), at(5, true)]), Some(Duration::ZERO));
        let asked = [at(0, true), at(5, false), at(10, true), at(15, false), at(20, true)];
        assert_eq!(after(&asked), Some(Duration::from_millis(20)));
        assert_eq!(lost(&asked), 2);
        assert_eq!(after(&asked[..4]), None);
    }
}
