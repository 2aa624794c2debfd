//! What a setting is, which values it takes, and what has been claimed of it.

use crate::catalogue::PRESENT;
use crate::error::Error;
use crate::listener::SocketOption;
use crate::near::near;
use std::borrow::Cow;
use std::fmt;

/// A setting with two or more values to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name, without spaces, unique among [`crate::knobs`].
    pub name: Cow<'static, str>,
    /// Where it is.
    pub kind: Kind,
    /// The values that it takes.
    pub values: Values,
    /// How far a change reaches.
    pub space: Space,
    /// Which end of the connections it is changed on.
    pub side: Side,
    /// When a new value takes effect.
    pub takes_effect: Takes,
    /// What else has to be so that a value takes effect; empty if there is no such thing.
    pub needs: &'static str,
    /// The value that Linux has without any configuration, as its documentation says.
    pub default: &'static str,
    /// The two values that a screening compares: the usual one, and the one that is claimed to help.
    pub levels: (Cow<'static, str>, Cow<'static, str>),
    /// What it does, in one line.
    pub about: &'static str,
    /// What has been said of it.
    pub claims: &'static [Claim],
}

/// Where a setting is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file under `/proc/sys`.
    Sysctl {
        /// Its name with dots, `net.ipv4.tcp_sack`.
        path: Cow<'static, str>,
    },
    /// A file of the network interface under `/sys/class/net/DEVICE`.
    Device {
        /// The name of the file.
        file: &'static str,
    },
    /// A file of each queue of the network interface under `/sys/class/net/DEVICE/queues`.
    Queues {
        /// How the names of the queues begin: `rx-` or `tx-`.
        queue: &'static str,
        /// The name of the file.
        file: &'static str,
    },
    /// The queueing discipline at the root of the network interface.
    Qdisc,
    /// An attribute of the route between client and server.
    Route {
        /// Its name, as `ip route` has it.
        attribute: &'static str,
    },
    /// An option of the sockets that the server listens on; connections inherit it.
    Listener(SocketOption),
    /// The CPUs that take the interrupts of the network interface.
    Irq,
    /// The governor of the frequency of all CPUs.
    Governor,
    /// Text that takes the place of `{NAME}` in a template of the server's configuration.
    Server {
        /// The name between the braces.
        placeholder: Cow<'static, str>,
    },
}

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// A whole number.
    Integer {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
        /// What is counted; empty for a plain number.
        unit: &'static str,
    },
    /// Two numbers from low to high.
    Pair {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
        /// What is counted.
        unit: &'static str,
    },
    /// Three numbers that do not fall.
    Triple {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
        /// What is counted.
        unit: &'static str,
    },
    /// One of several words.
    Choice(&'static [&'static str]),
    /// A number, or `none` for the kernel's own choice.
    Optional {
        /// The least number.
        min: i64,
        /// The most.
        max: i64,
    },
    /// `none`, `all`, or CPUs such as `0-1,3`.
    Cpus,
    /// Any text of one line.
    Text,
}

/// How far a change reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Each network namespace has its own.
    Namespace,
    /// The machine has one.
    Host,
    /// Only the measured server has it.
    Server,
}

/// Which end of the connections a setting is changed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The server's.
    Server,
    /// The load generator's.
    Client,
}

/// When a new value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// For everything, at once.
    AtOnce,
    /// For connections that are opened from then on.
    NewConnections,
    /// For sockets that are opened from then on: a server has to be restarted.
    NewSockets,
    /// For interfaces that appear from then on: they have to be made again.
    NewInterfaces,
}

/// What somebody expects of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It helps.
    Better,
    /// It does harm.
    Worse,
    /// It changes nothing.
    NoChange,
}

/// What has been said of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// By whom.
    pub by: &'static str,
    /// Of which value.
    pub value: &'static str,
    /// What it is expected to do.
    pub expects: Expect,
    /// What was said, in other words.
    pub says: &'static str,
    /// Where it was said.
    pub source: &'static str,
}

/// A value, as the kernel or the server is given it: fields with one space between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(String);

impl Value {
    /// `text` with single spaces.
    pub(crate) fn normal(text: &str) -> Self {
        Self(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Knob {
    /// The known setting `name`, by its own name or that of its sysctl.
    ///
    /// # Errors
    ///
    /// There is none; the error lists those with a similar name.
    pub fn find(name: &str) -> Result<&'static Self, Error> {
        let known = crate::knobs();
        known
            .iter()
            .find(|knob| knob.name == name || knob.path() == Some(name))
            .ok_or_else(|| Error::Unknown { name: name.to_owned(), near: near(name, known) })
    }

    /// The value that `text` stands for; `present` stands for what was saved when a session began.
    ///
    /// # Errors
    ///
    /// The setting does not take it; the error says what it takes.
    pub fn value(&self, text: &str) -> Result<Value, Error> {
        let value = Value::normal(text);
        let taken = value.as_str() == PRESENT || self.values.take(value.as_str());
        if taken && !text.contains(['\n', '\0']) {
            return Ok(value);
        }
        Err(Error::Value {
            knob: self.name.to_string(),
            value: text.to_owned(),
            expected: self.values.to_string(),
        })
    }

    /// The name of its sysctl, if it is one.
    pub fn path(&self) -> Option<&str> {
        match &self.kind {
            Kind::Sysctl { path } => Some(path),
            _ => None,
        }
    }

    /// Where it is, as operators write it.
    pub fn place(&self) -> String {
        match &self.kind {
            Kind::Sysctl { path } => format!("sysctl {path}"),
            Kind::Device { file } => format!("/sys/class/net/DEVICE/{file}"),
            Kind::Queues { queue, file } => {
                format!("/sys/class/net/DEVICE/queues/{queue}*/{file}")
            }
            Kind::Qdisc => "tc qdisc, root of DEVICE".to_owned(),
            Kind::Route { attribute } => format!("ip route, {attribute}"),
            Kind::Listener(option) => format!("socket option {}", option.name()),
            Kind::Irq => "/proc/irq/N/smp_affinity_list of DEVICE".to_owned(),
            Kind::Governor => "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor".to_owned(),
            Kind::Server { placeholder } => {
                format!("{{{placeholder}}} in the server's configuration")
            }
        }
    }
}

impl Values {
    fn take(self, text: &str) -> bool {
        match self {
            Self::Integer { min, max, .. } => numbers(text, 1, min, max),
            Self::Pair { min, max, .. } => numbers(text, 2, min, max),
            Self::Triple { min, max, .. } => numbers(text, 3, min, max),
            Self::Choice(words) => words.contains(&text),
            Self::Optional { min, max } => text == "none" || numbers(text, 1, min, max),
            Self::Cpus => cpus(text).is_some(),
            Self::Text => !text.is_empty(),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |f: &mut fmt::Formatter<'_>, what, min, max, unit: &str| {
            let of = if unit.is_empty() { String::new() } else { format!(" of {unit}") };
            write!(f, "{what}{of} from {min} to {max}")
        };
        match *self {
            Self::Integer { min, max, unit } => range(f, "a number", min, max, unit),
            Self::Pair { min, max, unit } => range(f, "two numbers", min, max, unit),
            Self::Triple { min, max, unit } => range(f, "three numbers", min, max, unit),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Optional { min, max } => {
                write!(f, "`none` or a number from {min} to {max}")
            }
            Self::Cpus => write!(f, "`none`, `all` or CPUs such as 0-1,3"),
            Self::Text => write!(f, "a line of text"),
        }
    }
}

impl Takes {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::AtOnce => "at once",
            Self::NewConnections => "for new connections",
            Self::NewSockets => "for new sockets: restart the server",
            Self::NewInterfaces => "for new interfaces",
        }
    }
}

impl Space {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Namespace => "network namespace",
            Self::Host => "host",
            Self::Server => "server",
        }
    }
}

impl Side {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

impl Expect {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoChange => "no change",
        }
    }
}

/// True for exactly `count` numbers from `min` to `max` of which none is less than the one before.
fn numbers(text: &str, count: usize, min: i64, max: i64) -> bool {
    let all: Option<Vec<i64>> = text.split(' ').map(|field| field.parse().ok()).collect();
    all.is_some_and(|all| {
        all.len() == count && all.is_sorted() && all.iter().all(|n| (min..=max).contains(n))
    })
}

/// The CPUs of `0-1,3`; all of this machine for `all`.
pub(crate) fn cpus(text: &str) -> Option<Vec<usize>> {
    /// The kernel's own maximum is 8,192.
    const MOST: usize = 8192;
    match text {
        "none" => return Some(Vec::new()),
        "all" => {
            let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
            return cpus(online.trim());
        }
        _ => {}
    }
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

#[cfg(test)]
mod tests;
