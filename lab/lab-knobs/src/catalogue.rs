//! The settings that are known.

mod buffers;
mod claims;
mod host;
mod path;
mod sockets;
mod tcp;

use crate::knob::{Claim, Kind, Knob, Side, Space, Takes, Values};
use crate::listener::SocketOption;
use std::borrow::Cow;
use std::sync::LazyLock;

/// The settings that this crate knows.
///
/// Of each, the first level is `present`: what the machine has. The second one is the value that was
/// claimed to help, or to do harm where that is all that was claimed, or the kernel's other choice.
pub fn knobs() -> &'static [Knob] {
    static KNOBS: LazyLock<Vec<Knob>> = LazyLock::new(|| {
        let parts = [tcp::ROWS, tcp::MORE, buffers::ROWS, path::ROWS, sockets::ROWS, host::ROWS];
        parts.concat().into_iter().map(Row::knob).collect()
    });
    &KNOBS
}

/// The value that stands for what the machine has.
pub(crate) const PRESENT: &str = "present";

/// A setting as the tables have it.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    at: At,
    values: Values,
    space: Space,
    side: Side,
    takes: Takes,
    needs: &'static str,
    default: &'static str,
    high: &'static str,
    about: &'static str,
    claims: &'static [Claim],
}

/// Where it is.
#[derive(Clone, Copy)]
enum At {
    /// `net.ipv4.NAME`
    Ipv4,
    /// `net.core.NAME`
    Core,
    /// `fs.NAME`
    Fs,
    Device(&'static str),
    Queues(&'static str, &'static str),
    Qdisc,
    Route(&'static str),
    Listener(SocketOption),
    Irq,
    Governor,
}

/// On or off.
const FLAG: Values = number(0, 1, "");
/// The kernel's own maximum of most numbers.
const INT: i64 = i32::MAX as i64;

/// What most rows have.
const ROW: Row = Row {
    name: "",
    at: At::Ipv4,
    values: FLAG,
    space: Space::Namespace,
    side: Side::Server,
    takes: Takes::NewConnections,
    needs: "",
    default: "",
    high: "",
    about: "",
    claims: &[],
};

const fn number(min: i64, max: i64, unit: &'static str) -> Values {
    Values::Integer { min, max, unit }
}

impl Row {
    fn knob(self) -> Knob {
        let sysctl =
            |folder: &str| Kind::Sysctl { path: Cow::Owned(format!("{folder}.{}", self.name)) };
        let kind = match self.at {
            At::Ipv4 => sysctl("net.ipv4"),
            At::Core => sysctl("net.core"),
            At::Fs => sysctl("fs"),
            At::Device(file) => Kind::Device { file },
            At::Queues(queue, file) => Kind::Queues { queue, file },
            At::Qdisc => Kind::Qdisc,
            At::Route(attribute) => Kind::Route { attribute },
            At::Listener(option) => Kind::Listener(option),
            At::Irq => Kind::Irq,
            At::Governor => Kind::Governor,
        };
        Knob {
            name: Cow::Borrowed(self.name),
            kind,
            values: self.values,
            space: self.space,
            side: self.side,
            takes_effect: self.takes,
            needs: self.needs,
            default: self.default,
            levels: (Cow::Borrowed(PRESENT), Cow::Borrowed(self.high)),
            about: self.about,
            claims: self.claims,
        }
    }
}

#[cfg(test)]
mod tests;
