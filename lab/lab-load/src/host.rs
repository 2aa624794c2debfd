//! What the machine did meanwhile: counters of the kernel for lost datagrams, connections and CPU
//! time. A file that is missing, as in some containers, counts as zero.

use std::fs::read_to_string;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// `USER_HZ`: the unit of `/proc/stat` is the same on every Linux that Rust supports.
const TICKS_PER_SECOND: u32 = 100;

/// Counters of the network namespace, the machine and the control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams dropped because the receive buffer of their socket was full (`RcvbufErrors`), of
    /// every socket in the network namespace.
    pub udp_receive_full: u64,
    /// Datagrams dropped because the send buffer of their socket was full (`SndbufErrors`).
    pub udp_send_full: u64,
    /// Connections dropped because a listener's queue was full (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Connections that a listener dropped for any reason (`ListenDrops`).
    pub listen_drops: u64,
    /// Time of all CPUs that the hypervisor gave to others.
    pub stolen: Duration,
    /// Time for which the control group's CPU quota stopped this process.
    pub throttled: Duration,
}

impl Counters {
    /// The counters now.
    pub fn read() -> Self {
        let file = |path: &str| read_to_string(path).unwrap_or_default();
        let (snmp, snmp6) = (file("/proc/self/net/snmp"), file("/proc/self/net/snmp6"));
        let netstat = file("/proc/self/net/netstat");
        Self {
            udp_receive_full: in_table(&snmp, "Udp:", "RcvbufErrors")
                + after_word(&snmp6, "Udp6RcvbufErrors"),
            udp_send_full: in_table(&snmp, "Udp:", "SndbufErrors")
                + after_word(&snmp6, "Udp6SndbufErrors"),
            listen_overflows: in_table(&netstat, "TcpExt:", "ListenOverflows"),
            listen_drops: in_table(&netstat, "TcpExt:", "ListenDrops"),
            stolen: stolen(&file("/proc/stat")),
            throttled: throttled(&file("/proc/self/cgroup"), file),
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            udp_receive_full: self.udp_receive_full.saturating_sub(earlier.udp_receive_full),
            udp_send_full: self.udp_send_full.saturating_sub(earlier.udp_send_full),
            listen_overflows: self.listen_overflows.saturating_sub(earlier.listen_overflows),
            listen_drops: self.listen_drops.saturating_sub(earlier.listen_drops),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            throttled: self.throttled.saturating_sub(earlier.throttled),
        }
    }
}

/// The number under `column` in a table of a line with names and a line with numbers, which both
/// start with `row`.
fn in_table(text: &str, row: &str, column: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.split(' ').next() == Some(row));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split(' ').zip(numbers.split(' '));
    let found = pairs.find(|(name, _)| *name == column);
    found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// The number behind `word` at the start of a line.
fn after_word(text: &str, word: &str) -> u64 {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let found = lines.find_map(|mut words| (words.next() == Some(word)).then(|| words.next()));
    found.flatten().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The eighth number of the line of all CPUs in `/proc/stat`.
fn stolen(stat: &str) -> Duration {
    let all = stat.lines().find(|line| line.split(' ').next() == Some("cpu"));
    let ticks = all.and_then(|line| line.split_ascii_whitespace().nth(8));
    let ticks: u32 = ticks.and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
    Duration::from_secs(1) / TICKS_PER_SECOND * ticks
}

/// The time that the control group of `/proc/self/cgroup` was stopped, version 2 or 1.
fn throttled(cgroups: &str, file: impl Fn(&str) -> String) -> Duration {
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let path = path.trim_end_matches('/');
        if controllers.is_empty() {
            let stat = file(&format!("/sys/fs/cgroup{path}/cpu.stat"));
            let micros = after_word(&stat, "throttled_usec");
            if !stat.is_empty() {
                return Duration::from_micros(micros);
            }
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            let stat = file(&format!("/sys/fs/cgroup/{controllers}{path}/cpu.stat"));
            return Duration::from_nanos(after_word(&stat, "throttled_time"));
        }
    }
    Duration::ZERO
}

/// Whether `server` is this machine, as far as its routes know: the generator then shares its CPUs,
/// and counters of the kernel may be those of the server.
pub fn is_local(server: SocketAddr) -> bool {
    if server.ip().is_loopback() {
        return true;
    }
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    // Connecting a datagram socket sends nothing. To an own address, the source is that address.
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(server)?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == server.ip())
}

/// How many ports the kernel gives out by itself.
pub(crate) fn ephemeral_ports() -> u64 {
    let text = read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = text.split_ascii_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
    match (words.next(), words.next()) {
        (Some(low), Some(high)) if low <= high => high - low + 1,
        // The kernel's default.
        _ => 28_232,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_column_with_their_name() {
        let snmp = "Ip: Forwarding RcvbufErrors\nIp: 1 9\n\
                    Udp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 100 7 8\n\
                    UdpLite: InDatagrams RcvbufErrors\nUdpLite: 3 4\n";
        assert_eq!(in_table(snmp, "Udp:", "RcvbufErrors"), 7);
        assert_eq!(in_table(snmp, "Udp:", "SndbufErrors"), 8);
        assert_eq!(in_table(snmp, "Udp:", "Nothing"), 0);
        assert_eq!(in_table("", "Udp:", "RcvbufErrors"), 0);
        let snmp6 = "Ip6InReceives   1\nUdp6RcvbufErrors   \t 12\n";
        assert_eq!(after_word(snmp6, "Udp6RcvbufErrors"), 12);
        let stat = "cpu  1 2 3 4 5 6 7 250 9 10\ncpu0 1 2 3 4 5 6 7 99 9 10\n";
        assert_eq!(stolen(stat), Duration::from_millis(2_500));
    }

    #[test]
    fn throttling_is_that_of_the_own_control_group_of_either_version() {
        let file = |path: &str| match path {
            "/sys/fs/cgroup/a/b/cpu.stat" => "nr_throttled 3\nthrottled_usec 40\n".to_owned(),
            "/sys/fs/cgroup/cpu,cpuacct/x/cpu.stat" => "throttled_time 7000\n".to_owned(),
            _ => String::new(),
        };
        assert_eq!(throttled("0::/a/b\n", file), Duration::from_micros(40));
        assert_eq!(throttled("4:cpu,cpuacct:/x\n0::/\n", file), Duration::from_micros(7));
        assert_eq!(throttled("0::/none\n", file), Duration::ZERO);
    }

    #[test]
    fn own_addresses_are_local_and_others_are_not() {
        assert!(is_local("127.3.2.1:53".parse().unwrap()));
        // TEST-NET-1 (RFC 5737) is assigned to no host, whether or not there is a route.
        assert!(!is_local("192.0.2.1:53".parse().unwrap()));
    }

    #[test]
    fn the_kernel_counts_a_datagram_that_finds_no_room() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = Counters::read();
        for _ in 0..20_000 {
            sender.send_to(&[0; 1_000], receiver.local_addr().unwrap()).unwrap();
        }
        assert!(Counters::read().since(&before).udp_receive_full > 0);
    }
}
