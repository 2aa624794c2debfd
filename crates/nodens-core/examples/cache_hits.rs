//! Measures hits in the cache without sockets: `cargo run --release --example cache_hits [WORKERS]`.
//!
//! Prints nanoseconds per hit, from octets to octets, for one worker and for all CPUs at once.
//! If the second is much more than the first, workers disturb each other.

use nodens_core::config::{BuildOptions, build};
use nodens_core::log::Sink;
use nodens_core::testing::request;
use nodens_core::worker::Verdict;
use nodens_core::{Client, Config, Now, Shared, Transport, Worker};
use nodens_corefile::{NoSources, parse};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Barrier};
use std::time::Instant;

const NAMES: usize = 1000;
const ROUNDS: usize = 2000;
const COREFILE: &str = ".:53 {\n prometheus\n cache {\n success 9984 3600 3600\n }\n whoami\n}";

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let asked = std::env::args().nth(1).and_then(|workers| workers.parse().ok());
    for workers in asked.map_or(vec![1, cpus], |workers| vec![workers]) {
        let each = measure(workers)?;
        println!("{workers} workers: {each:.1} ns per hit");
    }
    Ok(())
}

/// Nanoseconds per hit with this many workers at once.
fn measure(workers: usize) -> Result<f64, Box<dyn Error>> {
    let (sender, _log) = std::sync::mpsc::sync_channel(1);
    let shared = Arc::new(Shared::new(workers, Sink::new(sender)));
    let tree = parse("Corefile", COREFILE, &NoSources)?;
    let config = build(&tree, &BuildOptions::default(), &shared)?;
    let (config, start) = (Arc::new(config), Arc::new(Barrier::new(workers)));
    let threads: Vec<_> = (0..workers)
        .map(|index| {
            let (shared, config, start) = (shared.clone(), config.clone(), start.clone());
            std::thread::spawn(move || run(index, shared, config, &start))
        })
        .collect();
    let mut sum = 0.0;
    for thread in threads {
        sum += thread.join().map_err(|_| "a worker panicked")?;
    }
    Ok(sum / workers as f64)
}

fn run(index: usize, shared: Arc<Shared>, config: Arc<Config>, start: &Barrier) -> f64 {
    let mut worker = Worker::new(index, shared, config, index as u64);
    let client = Client {
        peer: SocketAddr::from(([192, 0, 2, 1], 40_000)),
        local: SocketAddr::from(([192, 0, 2, 2], 53)),
        transport: Transport::Udp,
        listener: 0,
        connection: 0,
        stream: 0,
        old_tls: false,
    };
    let requests: Vec<_> =
        (0..NAMES).map(|n| request(&format!("service{n}.default.svc.cluster.local. A"))).collect();
    let now = Now { mono_ns: 1_000_000_000, unix_s: 0 };
    let mut out = Vec::with_capacity(4096);
    let mut ask_all = |worker: &mut Worker| {
        for request in &requests {
            let verdict = worker.receive(now, client, request, &mut out);
            assert_eq!(verdict, Verdict::Answered);
        }
    };
    ask_all(&mut worker);
    start.wait();
    let began = Instant::now();
    (0..ROUNDS).for_each(|_| ask_all(&mut worker));
    began.elapsed().as_nanos() as f64 / (NAMES * ROUNDS) as f64
}
