//! What must hold before a run starts, so that it is not the generator that fails.

use crate::run::{Config, Pace, RunError};
use crate::shard::clients_needed;
use crate::{Worker, Workload, host, ports};
use std::net::UdpSocket;

/// Descriptors that are no sockets of clients: files, pollers, the process's own.
const OTHER_DESCRIPTORS: u64 = 64;

/// What the machine has for a run.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Descriptors that the process may have.
    descriptors: u64,
    /// Ports that the kernel gives out by itself.
    ports: u64,
}

impl Room {
    /// What this machine has; descriptors are asked for as needed.
    fn here(config: &Config) -> Self {
        let wanted = (config.own_clients() as u64).saturating_add(OTHER_DESCRIPTORS);
        let descriptors = lab_sys::limits::raise_descriptors(wanted).unwrap_or(u64::MAX);
        Self { descriptors, ports: host::ephemeral_ports() }
    }
}

/// Refuses a run that cannot be what it is asked to be, here.
pub(crate) fn all(config: &Config, workload: &Workload) -> Result<(), RunError> {
    check(config, workload, Room::here(config))?;
    check_machine(config)
}

/// Refuses a run that no machine with this room could do.
fn check(config: &Config, workload: &Workload, room: Room) -> Result<(), RunError> {
    let positive = [
        (config.clients > 0, "the number of clients"),
        (config.threads > 0, "the number of threads"),
        (!config.timeout.is_zero(), "the timeout"),
        (!config.duration.is_zero(), "the duration"),
        (config.queries != Some(0), "the number of queries"),
        (config.shares().iter().any(|share| share.weight > 0), "the weight of a transport"),
    ];
    if let Some((_, what)) = positive.iter().find(|(holds, _)| !holds) {
        return Err(RunError::NotPositive(what));
    }
    if workload.is_empty() {
        return Err(RunError::NoQuestion);
    }
    if let Some(workers) = config.worker.map(Worker::of).filter(|of| *of > config.clients) {
        return Err(RunError::TooManyWorkers { workers, clients: config.clients });
    }
    let server = config.server;
    let foreign = config.sources.iter().find(|address| address.is_ipv4() != server.is_ipv4());
    if let Some(&address) = foreign {
        return Err(RunError::Source { address, server });
    }
    if !config.profile.is_sound() {
        return Err(RunError::Schedule(config.profile.to_string()));
    }
    let (peak, timeout) = (config.peak_rate(), config.timeout);
    match config.pace {
        Pace::Closed { window: 0 } => return Err(RunError::NotPositive("the window")),
        Pace::Open { rate, .. } if rate.is_nan() || rate <= 0.0 => {
            return Err(RunError::NotPositive("the rate"));
        }
        Pace::Open { arrivals, .. } if !arrivals.is_sound() => {
            return Err(RunError::Schedule(arrivals.to_string()));
        }
        Pace::Open { .. } if clients_needed(peak, timeout) > config.clients => {
            let clients = clients_needed(peak, timeout);
            return Err(RunError::TooFewClients { rate: peak, timeout, clients });
        }
        Pace::Closed { .. } | Pace::Open { .. } => {}
    }
    ports::check(config)?;
    check_clients(config, room)?;
    let first = config.local_port.map_or(0, usize::from);
    if first.saturating_add(config.clients) > usize::from(u16::MAX) + 1 {
        return Err(RunError::PortRange { first, clients: config.clients });
    }
    Ok(())
}

/// Refuses more clients than this machine has sockets for, before anything is made for each of them.
pub(crate) fn clients(config: &Config) -> Result<(), RunError> {
    check_clients(config, Room::here(config))
}

fn check_clients(config: &Config, room: Room) -> Result<(), RunError> {
    let clients = config.own_clients() as u64;
    // Every address has all of the ports.
    let ports = room.ports.saturating_mul(config.sources.len().max(1) as u64);
    let limits = [
        (room.descriptors, OTHER_DESCRIPTORS, "open descriptors (`ulimit -n`)"),
        (ports, 0, "ports (sysctl net.ipv4.ip_local_port_range)"),
    ];
    let needed = |others| clients.saturating_add(others);
    match limits.into_iter().find(|(limit, others, _)| needed(*others) > *limit) {
        Some((limit, others, what)) => {
            Err(RunError::TooManyClients { clients, needed: needed(others), limit, what })
        }
        None => Ok(()),
    }
}

/// Refuses what this machine does not have: CPUs to run on and addresses to send from.
fn check_machine(config: &Config) -> Result<(), RunError> {
    if !config.cpus.is_empty() {
        let allowed = lab_sys::cpu::allowed().map_err(RunError::Thread)?;
        if let Some(&cpu) = config.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(RunError::NoCpu { cpu, allowed });
        }
    }
    for &address in &config.sources {
        UdpSocket::bind((address, 0))
            .map_err(|source| RunError::ForeignSource { address, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::{Name, Type};
    use std::time::Duration;

    const PLENTY: Room = Room { descriptors: 1_000_000, ports: 60_000 };

    fn refused(config: &Config, room: Room) -> String {
        let mut workload = Workload::new(1);
        workload.push(Name::parse("a.example.").unwrap().view(), Type::A, None);
        check(config, &workload, room).err().map_or(String::new(), |error| error.to_string())
    }

    fn config(rate: f64, clients: usize) -> Config {
        Config { clients, ..Config::new("127.0.0.1:53".parse().unwrap(), rate) }
    }

    #[test]
    fn half_of_all_ids_may_be_in_flight_and_no_more() {
        // 16 clients x 65,536 x 0.5 = 524,288 = 262,144 a second x 2 s.
        assert_eq!(refused(&config(262_144.0, 16), PLENTY), "");
        let text = refused(&config(262_145.0, 16), PLENTY);
        assert!(text.contains("need at least 17 clients"), "{text}");
    }

    #[test]
    fn clients_without_a_descriptor_or_a_port_are_refused_before_the_start() {
        let few = Room { descriptors: 1_064, ..PLENTY };
        assert_eq!(refused(&config(1.0, 1_000), few), "");
        let text = refused(&config(1.0, 1_001), few);
        assert!(text.contains("1001 clients") && text.contains("1065 open descriptors"), "{text}");
        let few = Room { ports: 100, ..PLENTY };
        assert!(refused(&config(1.0, 101), few).contains("101 ports"));
        // As many as an absurd rate would need.
        let all = usize::MAX;
        assert!(refused(&config(1e300, all), few).contains("18446744073709551615 clients need"));
        let sources = crate::sources::parse("127.0.0.1,127.0.0.2").unwrap();
        assert_eq!(refused(&Config { sources, ..config(1.0, 101) }, few), "");
    }

    #[test]
    fn what_is_not_positive_is_refused() {
        for (config, what) in [
            (config(f64::NAN, 1), "the rate"),
            (config(0.0, 1), "the rate"),
            (config(1.0, 0), "the number of clients"),
            (Config { duration: Duration::ZERO, ..config(1.0, 1) }, "the duration"),
            (Config { queries: Some(0), ..config(1.0, 1) }, "the number of queries"),
            (Config { pace: Pace::Closed { window: 0 }, ..config(1.0, 1) }, "the window"),
        ] {
            assert!(refused(&config, PLENTY).starts_with(what), "{what}");
        }
    }

    #[test]
    fn a_worker_needs_room_for_its_own_clients_and_each_worker_has_some() {
        let few = Room { descriptors: 1_064, ..PLENTY };
        let worker = |clients, of| {
            let worker = Some(Worker::new(0, of).unwrap());
            refused(&Config { worker, ..config(1.0, clients) }, few)
        };
        assert!(worker(4_000, 2).contains("open descriptors"));
        assert_eq!((worker(4_000, 4), worker(4, 4)), (String::new(), String::new()));
        assert_eq!(worker(3, 4), "4 workers need at least 4 clients, but there are 3");
    }
}
