//! What the whole machine has in common.

use super::claims::{LIKE_SACK, SPREAD, esnet, ldplayer, operator, trials};
use super::{At, INT, ROW, Row, number};
use crate::knob::{Expect, Space, Takes, Values};

const HOST: Row = Row { space: Space::Host, takes: Takes::AtOnce, ..ROW };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "netdev_max_backlog",
        at: At::Core,
        values: number(0, INT, "packets"),
        default: "1000",
        high: "300000",
        about: "packets of a CPU that wait for the network stack; of loopback, veth and RPS, too",
        claims: &[operator("300000", "more"), LIKE_SACK],
        ..HOST
    },
    Row {
        name: "default_qdisc",
        at: At::Core,
        values: Values::Choice(&["pfifo_fast", "fq", "fq_codel", "sfq", "codel", "pfifo"]),
        takes: Takes::NewInterfaces,
        needs: "a kernel with that queueing discipline; qdisc changes one interface",
        default: "pfifo_fast, with systemd fq_codel",
        high: "fq",
        about: "queueing discipline of interfaces that are set up",
        claims: &[
            esnet("fq", "fair queueing"),
            trials(
                "sfq, codel, fq_codel, fq",
                Expect::NoChange,
                "none has an effect under any load",
            ),
            SPREAD,
        ],
        ..HOST
    },
    Row {
        name: "file-max",
        at: At::Fs,
        values: number(0, i64::MAX, "files"),
        needs: "a limit of the process (RLIMIT_NOFILE) as large",
        default: "by memory",
        high: "6500000",
        about: "open files of the whole machine",
        claims: &[
            ldplayer("6500000", "more open files"),
            trials("more than 524288", Expect::NoChange, "no improvement of TCP to be seen"),
            SPREAD,
        ],
        ..HOST
    },
    Row {
        name: "nr_open",
        at: At::Fs,
        values: number(64, INT, "files"),
        takes: Takes::NewSockets,
        needs: "a limit of the process (RLIMIT_NOFILE) as large, and a restart of the server",
        default: "1048576",
        high: "6500000",
        about: "the highest limit of open files that a process may have",
        claims: &[ldplayer("6500000", "more open files"), SPREAD],
        ..HOST
    },
    Row {
        name: "tcp_low_latency",
        needs: "a kernel before Linux 4.14; it has no effect since",
        default: "0",
        high: "1",
        about: "received segments are handled at once",
        claims: &[operator("1", "latency before throughput; gone since Linux 4.13"), LIKE_SACK],
        ..HOST
    },
    Row {
        name: "busy_poll",
        at: At::Core,
        values: number(0, INT, "µs"),
        needs: "a driver with NAPI",
        default: "0",
        high: "50",
        about: "how long poll asks the network card before it sleeps",
        ..HOST
    },
    Row {
        name: "busy_read",
        at: At::Core,
        values: number(0, INT, "µs"),
        takes: Takes::NewSockets,
        needs: "a driver with NAPI",
        default: "0",
        high: "50",
        about: "the same for reads of a socket",
        ..HOST
    },
    Row {
        name: "netdev_budget",
        at: At::Core,
        values: number(1, INT, "packets"),
        default: "300",
        high: "600",
        about: "packets that are received in one turn",
        ..HOST
    },
    Row {
        name: "netdev_budget_usecs",
        at: At::Core,
        values: number(1, INT, "µs"),
        default: "two ticks of the kernel, 2000 or 8000",
        high: "20000",
        about: "how long such a turn may be",
        ..HOST
    },
    Row {
        name: "dev_weight",
        at: At::Core,
        values: number(1, INT, "packets"),
        default: "64",
        high: "256",
        about: "packets of one queue in a turn",
        ..HOST
    },
    Row {
        name: "rps_sock_flow_entries",
        at: At::Core,
        values: number(0, 1 << 30, "flows"),
        needs: "rps_flow_cnt of each receive queue",
        default: "0",
        high: "32768",
        about: "packets go to the CPU where their socket was read last (RFS); a power of two",
        ..HOST
    },
    Row {
        name: "irq_affinity",
        at: At::Irq,
        values: Values::Cpus,
        needs: "no irqbalance",
        default: "by driver or irqbalance",
        high: "0",
        about: "the CPUs that the network card interrupts",
        claims: &[esnet("CPUs near the card", "bind interrupts")],
        ..HOST
    },
    Row {
        name: "governor",
        at: At::Governor,
        values: Values::Choice(&["performance", "powersave", "schedutil", "ondemand"]),
        default: "by distribution",
        high: "performance",
        about: "how the frequency of CPUs follows their load",
        claims: &[trials("performance", Expect::NoChange, "no improvement to be seen")],
        ..HOST
    },
];
