//! Why a run could not start or continue.

use crate::ports::TooFewPorts;
use crate::stream::TlsError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Why a run could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No query.
    #[error("the workload has no query")]
    NoQuestion,
    /// A rate, window or number of clients that is not positive.
    #[error("{0} must be positive")]
    NotPositive(&'static str),
    /// Arrivals or a profile that no schedule can be made of.
    #[error("cannot make a schedule of {0}")]
    Schedule(String),
    /// A source address of the other family.
    #[error(
        "--source: {address} cannot be the source of queries to {server}, expected an {} address",
        if server.is_ipv4() { "IPv4" } else { "IPv6" }
    )]
    Source {
        /// The source.
        address: IpAddr,
        /// The server.
        server: SocketAddr,
    },
    /// More queries in flight than IDs.
    #[error(
        "{rate:.0} QPS with a timeout of {timeout:?} need at least {clients} clients: \
         half of the 65,536 IDs of each may be in flight"
    )]
    TooFewClients {
        /// QPS.
        rate: f64,
        /// When a query has timed out.
        timeout: Duration,
        /// How many clients would do.
        clients: usize,
    },
    /// More clients than the machine has descriptors or ports for.
    #[error("{clients} clients need {needed} {what}, but there are {limit}")]
    TooManyClients {
        /// Clients, each with a socket.
        clients: u64,
        /// What they and the program itself need.
        needed: u64,
        /// How many there are of what is short.
        limit: u64,
        /// What is short, and where it is set.
        what: &'static str,
    },
    /// A CPU that the threads cannot be pinned to.
    #[error("--cpus: this process may not run on CPU {cpu}, only on {}", list(allowed))]
    NoCpu {
        /// The CPU.
        cpu: usize,
        /// Those it may run on.
        allowed: Vec<usize>,
    },
    /// An address that is not this machine's.
    #[error(
        "--source: cannot send from {address}, expected addresses of this machine (`ip address`)"
    )]
    ForeignSource {
        /// The address.
        address: IpAddr,
        /// The cause.
        source: io::Error,
    },
    /// Not as many ports from the first one as clients.
    #[error("local ports {first} to {last} are out of range", last = first + clients - 1)]
    PortRange {
        /// The first port.
        first: usize,
        /// Clients, each with the next port.
        clients: usize,
    },
    /// A socket could not be opened.
    #[error("cannot open socket {number} to {server}")]
    Socket {
        /// The server.
        server: SocketAddr,
        /// The client, counted from 1.
        number: usize,
        /// The cause.
        source: io::Error,
    },
    /// The server's certificate is not taken, so no connection would ever be set up.
    #[error(
        "the certificate of {server} is not trusted: {why}; name the authority that signed it \
         (--tls-ca), the name in it (--tls-sni), or take any certificate (--tls-insecure)"
    )]
    Certificate {
        /// The server.
        server: SocketAddr,
        /// What is wrong with it.
        why: String,
    },
    /// The server speaks something else, so no connection would ever be set up.
    #[error(
        "{server} does not speak {name} (no ALPN {alpn}); name the port where it does (--port) or \
         another transport (-m)"
    )]
    NoProtocol {
        /// The server.
        server: SocketAddr,
        /// What was expected.
        name: &'static str,
        /// Its name in ALPN.
        alpn: &'static str,
    },
    /// TLS cannot be set up as asked for.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Fewer clients than workers that share them.
    #[error("{workers} workers need at least {workers} clients, but there are {clients}")]
    TooManyWorkers {
        /// Processes that share the plan.
        workers: usize,
        /// Clients of the plan.
        clients: usize,
    },
    /// There is no common start, or it was missed.
    #[error("{0}")]
    Start(String),
    /// Clients would use up the local ports.
    #[error(transparent)]
    Ports(#[from] TooFewPorts),
    /// A thread could not be set up or ended without a report.
    #[error("cannot run a load thread: {0}")]
    Thread(io::Error),
}
