//! Memory of sockets and lengths of queues.

use super::claims::{LIKE_SACK, SPREAD, esnet, operator, trials};
use super::{At, INT, ROW, Row, number};
use crate::knob::{Expect, Space, Takes, Values};

const OCTETS: Values = number(1, INT, "octets");
const TRIPLE: Values = Values::Triple { min: 1, max: INT, unit: "octets" };
const PAGES: Values = Values::Triple { min: 0, max: INT, unit: "pages" };

const BUFFER: Row =
    Row { at: At::Core, values: OCTETS, space: Space::Host, takes: Takes::NewSockets, ..ROW };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "somaxconn",
        at: At::Core,
        values: number(0, INT, "connections"),
        takes: Takes::NewSockets,
        needs: "a server that asks for as long a listen backlog",
        default: "4096 (before Linux 5.4 128)",
        high: "32768",
        about: "the longest listen backlog that a server gets",
        claims: &[operator("32768", "longer"), LIKE_SACK],
        ..ROW
    },
    Row {
        name: "optmem_max",
        at: At::Core,
        values: number(0, INT, "octets"),
        takes: Takes::AtOnce,
        needs: "Linux 6.8 in a network namespace",
        default: "20480, of newer kernels 131072",
        high: "10485760",
        about: "memory of a socket for options and control messages",
        claims: &[
            operator("10485760", "larger"),
            trials("larger", Expect::NoChange, "no improvement to be seen"),
            LIKE_SACK,
        ],
        ..ROW
    },
    Row {
        name: "tcp_rmem",
        values: TRIPLE,
        takes: Takes::NewSockets,
        default: "4096 131072 6291456, the last one less with little memory",
        high: "4096 87380 33554432",
        about: "receive buffer of TCP: least, at first, most",
        claims: &[
            esnet("4096 87380 33554432", "lets it grow to 32 MB"),
            operator("1024 4096 1048576", "smaller"),
            trials("550 octets", Expect::NoChange, "small buffers have no effect"),
            trials("more than 32 MB", Expect::NoChange, "no improvement over the baseline"),
            SPREAD,
        ],
        ..ROW
    },
    Row {
        name: "tcp_wmem",
        values: TRIPLE,
        takes: Takes::NewSockets,
        default: "4096 16384 4194304, the last one less with little memory",
        high: "4096 65536 33554432",
        about: "send buffer of TCP: least, at first, most",
        claims: &[
            esnet("4096 65536 33554432", "lets it grow to 32 MB"),
            operator("1024 4096 1048576", "smaller"),
            trials("550 octets", Expect::NoChange, "small buffers have no effect"),
            trials("more than 32 MB", Expect::NoChange, "no improvement over the baseline"),
            SPREAD,
        ],
        ..ROW
    },
    Row {
        name: "udp_rmem_min",
        values: OCTETS,
        takes: Takes::AtOnce,
        default: "4096",
        high: "65536",
        about: "receive buffer that a UDP socket has when memory is short",
        ..ROW
    },
    Row {
        name: "rmem_max",
        needs: "a server that sets SO_RCVBUF",
        default: "212992, of newer kernels 4194304",
        high: "67108864",
        about: "the largest receive buffer that a server may set",
        claims: &[esnet("67108864", "buffers up to 64 MB"), operator("10485760", "larger"), SPREAD],
        ..BUFFER
    },
    Row {
        name: "wmem_max",
        needs: "a server that sets SO_SNDBUF",
        default: "212992, of newer kernels 4194304",
        high: "67108864",
        about: "the largest send buffer that a server may set",
        claims: &[esnet("67108864", "buffers up to 64 MB"), operator("10485760", "larger"), SPREAD],
        ..BUFFER
    },
    Row {
        name: "rmem_default",
        default: "212992",
        high: "67108864",
        about: "receive buffer of sockets other than TCP",
        claims: &[esnet("67108864", "64 MB"), SPREAD],
        ..BUFFER
    },
    Row {
        name: "wmem_default",
        default: "212992",
        high: "67108864",
        about: "send buffer of sockets other than TCP",
        claims: &[esnet("67108864", "64 MB"), SPREAD],
        ..BUFFER
    },
    Row {
        name: "tcp_mem",
        values: PAGES,
        space: Space::Host,
        takes: Takes::AtOnce,
        default: "by memory",
        high: "8388608 8388608 8388608",
        about: "memory of all TCP sockets: no pressure below the first, no more than the last",
        claims: &[operator("8388608 8388608 8388608", "more"), LIKE_SACK],
        ..ROW
    },
    Row {
        name: "udp_mem",
        values: PAGES,
        space: Space::Host,
        takes: Takes::AtOnce,
        default: "by memory",
        high: "747744 996992 1495488",
        about: "memory of all UDP sockets",
        claims: &[operator("747744 996992 1495488", "more"), LIKE_SACK],
        ..ROW
    },
];
