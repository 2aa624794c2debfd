//! Tables of what travels in streams: TCP, and the transports within TLS.

use super::{Column, Numbers, Section, cost_column, rate_column, ratio_column, section};
use crate::bench::cells::Cell;
use crate::bench::peers::Peer;
use crate::bench::sample::Sample;
use crate::term;

pub(super) fn tcp(peers: &[Peer], n: &Numbers<'_>) -> Section {
    let columns = [
        rate_column(n, "100 connections", Cell::Tcp100),
        cost_column(n, Cell::Tcp100),
        ratio_column(n, "×CoreDNS", Cell::Tcp100, ("coredns", Cell::Tcp100)),
        rate_column(n, "1,000 connections", Cell::Tcp1000),
        cost_column(n, Cell::Tcp1000),
        ratio_column(n, "×CoreDNS", Cell::Tcp1000, ("coredns", Cell::Tcp1000)),
    ];
    section("TCP, one query in flight per connection, 10,000 names, all hits", peers, &columns)
}

pub(super) fn connections(peers: &[Peer], n: &Numbers<'_>) -> Section {
    let second = |server: &str| {
        let of = |sample: &Sample| sample.latency(0.5);
        Some(n.summary(server, Cell::TcpPair, of)?.text(term::nanos))
    };
    let octets = |server: &str| {
        let of = |sample: &Sample| sample.load.octets_each.unwrap_or(f64::NAN);
        Some(n.summary(server, Cell::TcpIdle, of)?.text(|value| format!("{value:.0}")))
    };
    let open = |server: &str| {
        let of = |sample: &Sample| sample.load.answered as f64;
        Some(format!("{:.0}", n.summary(server, Cell::TcpIdle, of)?.median))
    };
    let columns: [Column<'_>; 9] = [
        rate_column(n, "100 connections, 4 in flight", Cell::TcpDeep),
        ratio_column(n, "×echo", Cell::TcpDeep, ("echo", Cell::TcpDeep)),
        ratio_column(n, "×CoreDNS", Cell::TcpDeep, ("coredns", Cell::TcpDeep)),
        rate_column(n, "new connections a second", Cell::TcpNew),
        cost_column(n, Cell::TcpNew),
        ratio_column(n, "×CoreDNS", Cell::TcpNew, ("coredns", Cell::TcpNew)),
        ("second of two queries, p50", Box::new(second)),
        ("octets per connection", Box::new(octets)),
        ("still answered of 10,000", Box::new(open)),
    ];
    section("TCP: several queries in flight, new connections, idle ones", peers, &columns)
}

pub(super) fn encrypted(peers: &[Peer], n: &Numbers<'_>) -> Section {
    let columns = [
        rate_column(n, "DoT", Cell::Dot100),
        cost_column(n, Cell::Dot100),
        ratio_column(n, "×CoreDNS", Cell::Dot100, ("coredns", Cell::Dot100)),
        rate_column(n, "DoH", Cell::Doh100),
        cost_column(n, Cell::Doh100),
        ratio_column(n, "×CoreDNS", Cell::Doh100, ("coredns", Cell::Doh100)),
        rate_column(n, "DoQ", Cell::Doq100),
        cost_column(n, Cell::Doq100),
        ratio_column(n, "×CoreDNS", Cell::Doq100, ("coredns", Cell::Doq100)),
        rate_column(n, "DoH3", Cell::DohThree100),
        cost_column(n, Cell::DohThree100),
        ratio_column(n, "×CoreDNS", Cell::DohThree100, ("coredns", Cell::DohThree100)),
    ];
    section(
        "DNS over TLS, HTTPS (HTTP/2), QUIC and HTTPS (HTTP/3): 100 connections, one query in flight on each",
        peers,
        &columns,
    )
}

pub(super) fn handshakes(peers: &[Peer], n: &Numbers<'_>) -> Section {
    let columns = [
        rate_column(n, "full", Cell::DotFull),
        cost_column(n, Cell::DotFull),
        ratio_column(n, "×dnsdist", Cell::DotFull, ("dnsdist", Cell::DotFull)),
        rate_column(n, "resumed", Cell::DotResumed),
        cost_column(n, Cell::DotResumed),
        ratio_column(n, "×dnsdist", Cell::DotResumed, ("dnsdist", Cell::DotResumed)),
    ];
    section("DNS over TLS: new connections a second, one query on each", peers, &columns)
}
