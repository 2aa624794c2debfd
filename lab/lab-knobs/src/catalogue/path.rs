//! The way of a packet: ports, routes, interfaces, CPUs.

use super::claims::{SPREAD, esnet, ldplayer, operator, trials};
use super::{At, FLAG, INT, ROW, Row, number};
use crate::knob::{Expect, Side, Takes, Values};

const AT_ONCE: Row = Row { takes: Takes::AtOnce, ..ROW };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "ip_local_port_range",
        values: Values::Pair { min: 1, max: 65535, unit: "ports" },
        side: Side::Client,
        default: "32768 60999",
        high: "2048 65500",
        about: "the ports of connections that this side opens",
        claims: &[
            ldplayer("2048 65500", "more ports"),
            operator("1024 65535", "more ports"),
            SPREAD,
        ],
        ..ROW
    },
    Row {
        name: "ip_early_demux",
        default: "1",
        high: "0",
        about: "finds the socket of a packet before its route",
        ..AT_ONCE
    },
    Row {
        name: "udp_early_demux",
        needs: "ip_early_demux",
        default: "1",
        high: "0",
        about: "the same for UDP alone",
        ..AT_ONCE
    },
    Row {
        name: "txrehash",
        at: At::Core,
        takes: Takes::NewSockets,
        default: "1",
        high: "0",
        about: "another hash for packets that are sent again, so that they may take another path",
        ..ROW
    },
    Row {
        name: "qdisc",
        at: At::Qdisc,
        values: Values::Text,
        needs: "a kernel with that queueing discipline",
        default: "net.core.default_qdisc on hardware, noqueue on veth",
        high: "fq",
        about: "the order in which packets leave the interface",
        claims: &[
            esnet("fq", "fair queueing"),
            esnet(
                "fq maxrate 8gbit",
                "no bursts that overflow switches and receivers, at 10 Gbit/s",
            ),
            trials(
                "sfq, codel, fq_codel, fq",
                Expect::NoChange,
                "none has an effect under any load",
            ),
            SPREAD,
        ],
        ..AT_ONCE
    },
    Row {
        name: "qdisc_pfifo",
        at: At::Qdisc,
        values: Values::Text,
        default: "noqueue on veth",
        high: "pfifo limit 1000",
        about: "one queue in order of arrival at the interface",
        ..AT_ONCE
    },
    Row {
        name: "tx_queue_len",
        at: At::Device("tx_queue_len"),
        values: number(0, INT, "packets"),
        needs: "a qdisc with a queue of that length",
        default: "1000",
        high: "10000",
        about: "packets that wait at the interface to be sent",
        ..AT_ONCE
    },
    Row {
        name: "mtu",
        at: At::Device("mtu"),
        values: number(1280, 65535, "octets"),
        default: "1500",
        high: "1280",
        needs: "for more than 1500 the same at the other end",
        about: "octets of a packet",
        ..AT_ONCE
    },
    Row {
        name: "gro_flush_timeout",
        at: At::Device("gro_flush_timeout"),
        values: number(0, INT, "ns"),
        default: "0",
        high: "20000",
        about: "how long segments wait to be received as one",
        ..AT_ONCE
    },
    Row {
        name: "napi_threaded",
        at: At::Device("threaded"),
        values: FLAG,
        default: "0",
        high: "1",
        needs: "a driver with NAPI; on veth GRO or XDP",
        about: "packets are received by threads of their own",
        ..AT_ONCE
    },
    Row {
        name: "rps_cpus",
        at: At::Queues("rx-", "rps_cpus"),
        values: Values::Cpus,
        default: "none",
        high: "all",
        about: "spreads received packets over CPUs by their flow (RPS)",
        ..AT_ONCE
    },
    Row {
        name: "xps_cpus",
        at: At::Queues("tx-", "xps_cpus"),
        values: Values::Cpus,
        needs: "more than one transmit queue",
        default: "by the driver",
        high: "all",
        about: "which CPUs send through a queue (XPS)",
        ..AT_ONCE
    },
    Row {
        name: "initcwnd",
        at: At::Route("initcwnd"),
        values: Values::Optional { min: 1, max: 1000 },
        default: "none, which means 10",
        high: "20",
        about: "segments that may be sent before the first acknowledgement (RFC 6928)",
        ..ROW
    },
    Row {
        name: "initrwnd",
        at: At::Route("initrwnd"),
        values: Values::Optional { min: 1, max: 1000 },
        default: "none, which means by receive buffer",
        high: "20",
        about: "segments that the other side may send at first",
        ..ROW
    },
    Row {
        name: "quickack",
        at: At::Route("quickack"),
        values: Values::Optional { min: 0, max: 1 },
        default: "none",
        high: "1",
        about: "acknowledges every segment at once",
        ..ROW
    },
];
