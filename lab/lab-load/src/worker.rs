//! A plan that several processes share, on one machine or many: each sends the queries of its own part of
//! the clients.
//!
//! The clients of a plan, in the order of their transports, take turns among the workers, and those of a
//! worker among its threads ([`crate::transport`]). So which worker has a client follows from the plan and
//! the number of workers: no two have the same one, and every one has a worker, whatever the number of
//! threads of each.

use crate::run::Config;
use crate::transport::{Placement, Share};
use std::fmt;
use std::str::FromStr;

/// How many workers can share a plan.
const WORKERS_MAX: usize = 10_000;

/// One of several processes that share a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Which one, counted from 0.
    index: usize,
    /// How many there are.
    of: usize,
}

/// A text or numbers that name no worker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}`: expected a worker, counted from 0, and their number (at most {WORKERS_MAX}), as 0/4 to 3/4"
)]
pub struct NoWorker(String);

impl Worker {
    /// The worker `index`, counted from 0, of `of`.
    pub fn new(index: usize, of: usize) -> Result<Self, NoWorker> {
        let is_one = index < of && of <= WORKERS_MAX;
        if is_one { Ok(Self { index, of }) } else { Err(NoWorker(format!("{index}/{of}"))) }
    }

    /// Which one, counted from 0.
    pub fn index(self) -> usize {
        self.index
    }

    /// How many there are.
    pub fn of(self) -> usize {
        self.of
    }

    /// Whether a thread is one of its own; `thread` counts those of a transport, from the number of
    /// clients of the transports before on.
    pub(crate) fn has(self, thread: usize) -> bool {
        thread % self.of == self.index
    }
}

impl FromStr for Worker {
    type Err = NoWorker;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || NoWorker(text.to_owned());
        let (index, of) = text.split_once('/').ok_or_else(error)?;
        let number = |text: &str| text.parse().map_err(|_| error());
        Self::new(number(index)?, number(of)?).map_err(|_| error())
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// Which thread each client belongs to, and which of the threads are this process's.
pub(crate) fn place(config: &Config, shares: &[Share]) -> (Placement, Vec<usize>) {
    let threads = config.threads.saturating_mul(config.worker.map_or(1, Worker::of));
    let placement = Placement::new(shares, config.clients, threads, config.seed);
    let Some(worker) = config.worker else {
        let own = (0..placement.shards().len()).collect();
        return (placement, own);
    };
    // A share has as many threads as all workers together, or one for each client: in both cases the
    // client at some place of its share has a thread of the worker whose turn it is.
    let (mut own, mut clients_before, mut place) = (Vec::new(), 0, 0);
    let shards = placement.shards();
    for (at, (share, _)) in shards.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| shards.get(before));
        if before.is_some_and(|(other, _)| other != share) {
            let clients =
                shards.iter().filter(|(other, _)| other < share).map(|(_, clients)| clients);
            (clients_before, place) = (clients.sum(), 0);
        }
        if worker.has(clients_before + place) {
            own.push(at);
        }
        place += 1;
    }
    (placement, own)
}

/// The queries of a closed loop that a thread sends: from the first on, one of so many. `at` is its place
/// among the `own` threads of this process. Of all workers' threads no two have the same one.
pub(crate) fn items(config: &Config, at: usize, own: usize) -> (u64, u64) {
    let (index, of) = config.worker.map_or((0, 1), |worker| (worker.index, worker.of));
    ((index + of * at) as u64, (of * own) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Transport;

    #[test]
    fn a_worker_is_read_as_it_is_written_and_others_are_refused() {
        let worker: Worker = "3/4".parse().unwrap();
        assert_eq!((worker.index(), worker.of(), &*worker.to_string()), (3, 4, "3/4"));
        for text in ["", "4", "4/4", "0/0", "-1/4", "1/x", "1/2/3", "0/10001", " 0/1"] {
            let error = text.parse::<Worker>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}`: expected")), "{error}");
        }
    }

    #[test]
    fn each_client_has_one_worker_whatever_the_transports() {
        let server = ([127, 0, 0, 1], 53).into();
        let share = |transport, weight| Share { transport, weight, server };
        let mix =
            vec![share(Transport::Udp, 5), share(Transport::Tcp, 3), share(Transport::Dot, 1)];
        for (of, threads, clients) in [(2, 1, 32), (3, 2, 32), (4, 1, 4), (7, 3, 50)] {
            let mut had = vec![0; clients];
            for index in 0..of {
                let worker = Worker::new(index, of).ok();
                let config = Config { worker, threads, clients, ..Config::new(server, 1.0) };
                for mix in [&mix, &vec![share(Transport::Udp, 1)]] {
                    let (placement, own) = place(&config, mix);
                    assert!(!own.is_empty(), "worker {index} of {of}");
                    for thread in own {
                        let members =
                            (0..placement.shards()[thread].1).map(|n| placement.client(thread, n));
                        members.for_each(|client| had[client as usize] += 1);
                    }
                }
            }
            assert!(had.iter().all(|times| *times == 2), "{had:?}");
        }
    }

    #[test]
    fn each_client_and_each_query_has_one_worker_when_workers_have_different_threads() {
        let server = ([127, 0, 0, 1], 53).into();
        let share = |transport, weight| Share { transport, weight, server };
        let mix =
            vec![share(Transport::Udp, 5), share(Transport::Tcp, 3), share(Transport::Dot, 1)];
        for clients in [3, 8, 32, 50] {
            let (mut had, mut sent) = (vec![0; clients], vec![0; 100]);
            for (index, threads) in [4, 1, 3].into_iter().enumerate() {
                let worker = Worker::new(index, 3).ok();
                let config = Config { worker, threads, clients, ..Config::new(server, 1.0) };
                let (placement, own) = place(&config, &mix);
                assert!(!own.is_empty(), "worker {index}");
                for (at, thread) in own.iter().enumerate() {
                    let numbers = 0..placement.shards()[*thread].1;
                    numbers.for_each(|n| had[placement.client(*thread, n) as usize] += 1);
                    let (first, step) = items(&config, at, own.len());
                    (first..100).step_by(step as usize).for_each(|item| sent[item as usize] += 1);
                }
            }
            assert!(had.iter().all(|times| *times == 1), "{clients} clients: {had:?}");
            assert!(sent.iter().all(|times| *times == 1), "{clients} clients: {sent:?}");
        }
    }

    #[test]
    fn each_thread_has_one_worker() {
        for of in 1..5 {
            let workers: Vec<_> = (0..of).map(|index| Worker::new(index, of).unwrap()).collect();
            for thread in 0..20 {
                assert_eq!(workers.iter().filter(|worker| worker.has(thread)).count(), 1);
            }
        }
    }
}
