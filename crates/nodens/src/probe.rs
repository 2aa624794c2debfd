//! Small queries to ourselves: the loop probe, and the health endpoint's own check.

use crate::endpoints::Endpoints;
use nodens_core::Shared;
use nodens_core::config::{
    HealthService, LOOP_PROBE_GRACE, LOOP_PROBE_INTERVAL, LOOP_PROBE_TIME, LoopProbe,
};
use nodens_core::log::Level;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::Instant;

/// Time between attempts to send the probe.
const LOOP_RETRY: Duration = Duration::from_secs(1);
/// A health check slower than this is worth a warning.
const HEALTH_SLOW: Duration = Duration::from_secs(1);
/// Seconds: a quarter of a millisecond, then ten times as much, four times.
static HEALTH_BOUNDS: [f64; 5] = [0.00025, 0.0025, 0.025, 0.25, 2.5];

/// Says whether something is so by now. Must return at once.
pub(crate) type Check = Arc<dyn Fn() -> bool + Send + Sync>;

/// Begins to watch for loops, and to show them.
pub(crate) fn watch_for_loops(probes: &[LoopProbe], begins: Option<Check>, endpoints: &Endpoints) {
    for probe in probes {
        show_loop(probe, endpoints.shared());
        endpoints.spawn(watch_for_loop(probe.clone(), begins.clone()));
    }
}

/// Shows in the metrics whether a server block loops. Of a configuration that is at work: one that is
/// refused must not take its place.
fn show_loop(probe: &LoopProbe, shared: &Shared) {
    let [server, zone] = &probe.labels;
    // Not held: a block that is gone does not loop.
    let state = Arc::downgrade(&probe.state);
    let looped = move || state.upgrade().is_some_and(|state| state.is_looped());
    shared.registry.gauge(
        "nodens_loop_detected",
        "1 while what the server block forwards comes back, so that nothing is forwarded.",
        &[("server", server), ("zone", zone)],
        Arc::new(move || f64::from(u8::from(looped()))),
    );
}

/// Asks ourselves the probe's query, and once more after a while as long as it came back.
///
/// Begins when `here` says so: before the node role has its addresses, no server would answer, and
/// before an upstream answers, nothing could come back.
///
/// While the node role has left its addresses, a loop that leads through them cannot be seen. That it
/// seems to be gone then is believed once, and checked as soon as queries come here again. If it is
/// still there, only another configuration brings them back.
async fn watch_for_loop(probe: LoopProbe, here: Option<Check>) {
    let is_here = || here.as_ref().is_none_or(|here| here());
    let mut is_believed = true;
    if !wait_until(&is_here, &probe).await {
        return;
    }
    loop {
        let (was_here, was_looped) = (is_here(), probe.state.is_looped());
        if look_for_loop(&probe).await {
            tokio::time::sleep(LOOP_PROBE_INTERVAL).await;
            if is_believed {
                continue;
            }
        } else if was_here && is_here() {
            return;
        } else if was_looped {
            is_believed = false;
        }
        if !wait_until(&is_here, &probe).await {
            return;
        }
    }
}

/// Waits until `is_so`; false if the configuration that wanted the probe is gone.
async fn wait_until(is_so: impl Fn() -> bool, probe: &LoopProbe) -> bool {
    while !is_so() {
        if Arc::strong_count(&probe.state) == 1 {
            return false;
        }
        tokio::time::sleep(LOOP_RETRY).await;
    }
    true
}

/// Sends the probe until it is answered; whether it came back.
async fn look_for_loop(probe: &LoopProbe) -> bool {
    let until = Instant::now() + LOOP_PROBE_TIME;
    while Instant::now() < until {
        probe.state.begin();
        if ask_once(probe).await.is_some() {
            break;
        }
        tokio::time::sleep(LOOP_RETRY).await;
    }
    tokio::time::sleep(LOOP_PROBE_GRACE).await;
    probe.state.end()
}

async fn ask_once(probe: &LoopProbe) -> Option<()> {
    let target = reachable(probe.target);
    let local = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local).await.ok()?;
    socket.connect(target).await.ok()?;
    socket.send(&probe.question(fastrand::u16(..))).await.ok()?;
    let mut reply = [0; 512];
    let answered = tokio::time::timeout(LOOP_RETRY, socket.recv(&mut reply)).await;
    answered.ok()?.ok().map(drop)
}

/// An address that stands for all is asked on loopback.
fn reachable(target: SocketAddr) -> SocketAddr {
    let ip = match target.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) | IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        }
        ip => ip,
    };
    SocketAddr::new(ip, target.port())
}

/// Asks the health endpoint once a second and counts how it does, as CoreDNS's `health` does.
pub(crate) async fn watch_health(service: HealthService, shared: Arc<Shared>) {
    let writer = shared.workers();
    let duration = shared.registry.histogram(
        "coredns_health_request_duration_seconds",
        "Seconds the health endpoint took to answer.",
        &[],
        &HEALTH_BOUNDS,
        1e-9,
    );
    let failures = shared.registry.counter(
        "coredns_health_request_failures_total",
        "Times the health endpoint did not answer.",
        &[],
    );
    let address = match service.address.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => service.address.clone(),
    };
    let url = format!("http://{}/health", service.address);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let start = Instant::now();
        let answered = tokio::time::timeout(Duration::from_secs(5), get(&address)).await;
        let took = start.elapsed();
        let cells = shared.registry.cells(writer);
        if !matches!(answered, Ok(Ok(()))) {
            if !is_here(&address) {
                continue;
            }
            cells.add(failures, 1);
            let text = format!("Local health request to {url:?} failed");
            shared.sink.line(Level::Warning, "health", text);
            continue;
        }
        cells.observe(duration, took.as_nanos() as u64);
        if took > HEALTH_SLOW {
            let text = format!("Local health request to {url:?} took more than 1s: {took:?}");
            shared.sink.line(Level::Warning, "health", text);
        }
    }
}

/// Whether the machine has the address. In the node role the endpoint may be there before it.
fn is_here(address: &str) -> bool {
    let ip = address.parse::<SocketAddr>().map(|address| address.ip());
    let bound = ip.map(|ip| std::net::UdpSocket::bind((ip, 0)));
    !matches!(bound, Ok(Err(error)) if error.kind() == std::io::ErrorKind::AddrNotAvailable)
}

async fn get(address: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /health HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = [0; 64];
    let len = stream.read(&mut response).await?;
    let ok = response.get(..len).is_some_and(|head| head.starts_with(b"HTTP/1.0 200"));
    if ok { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_core::config::LoopState;
    use nodens_core::handlers::loops::State;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn a_probe_for_loops_begins_when_it_may_however_late_that_is() {
        let us = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let state = Arc::new(State::new("1.2.example.".parse().unwrap()));
        let (target, seconds) = (us.local_addr().unwrap(), AtomicU32::new(0));
        let later = LOOP_PROBE_TIME.as_secs() as u32 + 10;
        let begins = move || seconds.fetch_add(1, Ordering::Relaxed) > later;
        let probe = LoopProbe { target, state: state.clone(), labels: Default::default() };
        let begun = Instant::now();
        let watch = tokio::spawn(watch_for_loop(probe.clone(), Some(Arc::new(begins))));
        let mut question = [0; 512];
        let (len, _) = us.recv_from(&mut question).await.unwrap();
        assert!(begun.elapsed() > LOOP_PROBE_TIME, "after {:?}", begun.elapsed());
        assert_eq!(question[2..len], probe.question(0)[2..]);
        watch.await.unwrap();
        // Who waits for a configuration that is gone waits no longer.
        drop(state);
        watch_for_loop(probe, Some(Arc::new(|| false))).await;
    }

    async fn until(so: impl Fn() -> bool) {
        while !so() {
            tokio::time::sleep(LOOP_RETRY).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_leads_through_addresses_that_were_left_is_believed_to_be_gone_once() {
        let us = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let state = Arc::new(State::new("1.2.example.".parse().unwrap()));
        let target = us.local_addr().unwrap();
        let (here, loops) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
        let set = |value| [&here, &loops].map(|one| one.store(value, Ordering::Relaxed));
        let (comes_back, seen) = (loops.clone(), state.clone());
        tokio::spawn(async move {
            let mut question = [0; 512];
            while let Ok((len, from)) = us.recv_from(&mut question).await {
                let times = if comes_back.load(Ordering::Relaxed) { 3 } else { 1 };
                (0..times).for_each(|_| _ = seen.note_sighting());
                _ = us.send_to(&question[..len], from).await;
            }
        });
        let is_here = here.clone();
        let check: Check = Arc::new(move || is_here.load(Ordering::Relaxed));
        let probe = LoopProbe { target, state: state.clone(), labels: Default::default() };
        let watch = tokio::spawn(watch_for_loop(probe, Some(check)));
        until(|| state.is_looped()).await;
        // The addresses are left, and the probe does not come back through them.
        set(false);
        until(|| !state.is_looped()).await;
        // Queries come here again, and with them the loop.
        set(true);
        until(|| state.is_looped()).await;
        set(false);
        tokio::time::sleep(20 * LOOP_PROBE_INTERVAL).await;
        assert!(state.is_looped(), "what was wrong once is not believed again");
        here.store(true, Ordering::Relaxed);
        until(|| !state.is_looped()).await;
        watch.await.unwrap();
    }

    #[test]
    fn an_address_that_nobody_has_is_told_from_one_that_does_not_answer() {
        assert!(is_here("127.0.0.1:8080") && is_here("localhost:8080"));
        assert!(!is_here("192.0.2.1:8080") && !is_here("[2001:db8::1]:8080"));
    }
}
