//! Options of the server's sockets, set from outside; connections inherit them.

use super::{At, INT, ROW, Row};
use crate::knob::{Space, Takes, Values};
use crate::listener::SocketOption;

/// They are set again after every start of the server.
const LISTENER: Row = Row {
    space: Space::Server,
    takes: Takes::NewConnections,
    default: "none: the server's own choice",
    ..ROW
};
const SWITCH: Values = Values::Optional { min: 0, max: 1 };
const SIZE: Values = Values::Optional { min: 1, max: INT };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "socket_backlog",
        at: At::Listener(SocketOption::Backlog),
        values: SIZE,
        takes: Takes::AtOnce,
        needs: "somaxconn at least as large",
        high: "4096",
        about: "connections that may wait to be accepted",
        ..LISTENER
    },
    Row {
        name: "socket_nodelay",
        at: At::Listener(SocketOption::NoDelay),
        values: SWITCH,
        high: "1",
        about: "small segments leave at once (no Nagle's algorithm)",
        ..LISTENER
    },
    Row {
        name: "socket_defer_accept",
        at: At::Listener(SocketOption::DeferAccept),
        values: SIZE,
        high: "1",
        about: "accepts connections when they have brought a query; seconds, rounded up",
        ..LISTENER
    },
    Row {
        name: "socket_fastopen",
        at: At::Listener(SocketOption::FastOpen),
        values: SIZE,
        needs: "tcp_fastopen with 2 in its value",
        high: "256",
        about: "queries within the SYN: how many may wait",
        ..LISTENER
    },
    Row {
        name: "socket_keepalive",
        at: At::Listener(SocketOption::KeepAlive),
        values: SWITCH,
        high: "1",
        about: "silent connections are checked, and closed if there is no answer",
        ..LISTENER
    },
    Row {
        name: "socket_rcvbuf",
        at: At::Listener(SocketOption::ReceiveBuffer),
        values: SIZE,
        needs: "rmem_max at least as large",
        high: "4194304",
        about: "octets that may wait to be read, also for UDP; no longer grows",
        ..LISTENER
    },
    Row {
        name: "socket_sndbuf",
        at: At::Listener(SocketOption::SendBuffer),
        values: SIZE,
        needs: "wmem_max at least as large",
        high: "4194304",
        about: "octets that may wait to be sent, also for UDP; no longer grows",
        ..LISTENER
    },
    Row {
        name: "socket_busy_poll",
        at: At::Listener(SocketOption::BusyPoll),
        values: SIZE,
        needs: "a driver with NAPI",
        high: "50",
        about: "microseconds for which a reader asks the network card before it sleeps",
        ..LISTENER
    },
];
