//! The command line: CoreDNS's and node-cache's flags in Go's syntax (`-name value`, `-name=value`,
//! one dash or two), and our own.

mod node;

pub(crate) use node::{HELP as NODE_HELP, NodeFlags};

use nodens_core::config::SearchMode;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// The program name that alone switches on the node role.
const NODE_CACHE: &str = "node-cache";

/// Says what `-search` would, where the flag is not given.
const SEARCH_VARIABLE: &str = "NODENS_SEARCH";

/// How long a predecessor stays ready to go on.
const HANDOVER_TRIAL: Duration = Duration::from_secs(1);

/// What the process is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Command {
    /// Answer queries.
    #[default]
    Serve,
    /// Say whether the Corefile is accepted.
    Check,
    /// Show the chains that result from the Corefile.
    PrintEffective,
    /// List the directives.
    Plugins,
    /// Say which version this is.
    Version,
    /// Explain the flags.
    Help,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum LogFormat {
    /// CoreDNS's lines.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The flags as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// What to do.
    pub(crate) command: Command,
    /// `-conf`: file name, or `stdin`; empty for `Corefile` in the working directory.
    pub(crate) conf: String,
    /// `-dns.port`, `-p`.
    pub(crate) port: u16,
    /// `-pidfile`.
    pub(crate) pidfile: Option<String>,
    /// `-quiet`.
    pub(crate) quiet: bool,
    /// `-log-format`.
    pub(crate) log_format: LogFormat,
    /// `-workers`: threads that answer; 0 for one per allowed CPU.
    pub(crate) workers: usize,
    /// `-pending-memory`: what queries that wait for upstreams may take, in octets; 0 for a part
    /// of the memory there is.
    pub(crate) pending_memory: usize,
    /// `-memory`: what the process may use, in octets; 0 for what its control group allows.
    pub(crate) memory: usize,
    /// `-handover`: the name under which processes that follow each other find each other, or `off`.
    pub(crate) handover: Option<String>,
    /// `-handover-dir`: the folder that they share.
    pub(crate) handover_dir: Option<PathBuf>,
    /// `-handover-trial`: how long this process is ready before it takes over.
    pub(crate) handover_trial: Duration,
    /// node-cache's flags, if the node role is switched on.
    pub(crate) node: Option<NodeFlags>,
    /// `-search`, or else [`SEARCH_VARIABLE`]: what `search` does in all blocks.
    pub(crate) search: Option<SearchMode>,
    /// `-top`: whether to count who asks for what; `None` leaves it to the role.
    pub(crate) top: Option<bool>,
    /// `-top-http`: whether `/debug/dns` shows it, too.
    pub(crate) top_http: bool,
    /// `-top-socket`: where that is shown.
    pub(crate) top_socket: String,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            command: Command::default(),
            conf: String::new(),
            port: 53,
            pidfile: None,
            quiet: false,
            log_format: LogFormat::default(),
            workers: 0,
            pending_memory: 0,
            memory: 0,
            handover: None,
            handover_dir: None,
            handover_trial: HANDOVER_TRIAL,
            node: None,
            search: None,
            top: None,
            top_http: false,
            top_socket: nodens_insight::socket::DEFAULT.to_owned(),
        }
    }
}

/// Why the command line is not understood; the texts are Go's.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum FlagError {
    /// Not a flag of ours.
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
    /// The last argument is a flag that wants a value.
    #[error("flag needs an argument: -{0}")]
    NoValue(String),
    /// A value of the wrong kind.
    #[error("invalid value {value:?} for flag -{flag}: expected {expected}")]
    BadValue {
        /// The flag.
        flag: String,
        /// As given.
        value: String,
        /// What would fit.
        expected: &'static str,
    },
    /// Arguments that are not flags.
    #[error("extra command line arguments: [{0}]")]
    Extra(String),
    /// `-localip` is missing in the node role, or holds something else than addresses; the text is
    /// node-cache's.
    #[error("Error parsing flags - invalid localip specified - {0:?}, Exiting")]
    LocalIp(String),
}

/// Every flag with the kind of its value, if it takes one, and the text of `-help`.
pub(crate) const HELP: &[(&str, &str, &str)] = &[
    ("check", "", "say whether the Corefile is accepted (exit code 0), or why not (1)"),
    ("conf", "FILE", "the Corefile; stdin for standard input (default: Corefile)"),
    ("dns.port", "PORT", "port of server blocks that name none (default: 53)"),
    (
        "handover",
        "NAME",
        "take over from the process that runs under this name, and let others take over from this one; off for neither (default in the node role: the interface's name)",
    ),
    (
        "handover-dir",
        "FOLDER",
        "where processes that follow each other find each other; its owner alone may use it (default: /run/nodens-handover)",
    ),
    (
        "handover-trial",
        "TIME",
        "trial period before a process takes over, and after it, while its predecessor stands by, such as 500ms; if the process ends, the predecessor resumes (default: 1s)",
    ),
    ("log-format", "FORMAT", "text or json (default: text)"),
    (
        "memory",
        "SIZE",
        "memory for everything, such as 192MiB, of which nine tenths are given out (default: what the control group allows, or the machine has)",
    ),
    ("p", "PORT", "the same as -dns.port"),
    (
        "pending-memory",
        "SIZE",
        "memory for queries that wait for upstreams, such as 16MiB (default: a sixteenth of the available memory, at most 256MiB)",
    ),
    ("pidfile", "FILE", "where to write the process ID"),
    ("plugins", "", "list the directives that are built in"),
    (
        "print-effective",
        "",
        "show server blocks in the order they act in, and where each line is from",
    ),
    ("quiet", "", "do not tell zones, addresses and version at start"),
    (
        "search",
        "MODE",
        "on, off, or dry-run, which denies nothing and counts what would have been wrong: what search does in all server blocks, written or not (default: $NODENS_SEARCH, or on)",
    ),
    ("top", "", "count queries by client and name, for `nodens top` (default: in the node role)"),
    ("top-http", "", "show it to this host at /debug/dns of the port of metrics or health, too"),
    ("top-socket", "ADDRESS", "unix socket for that, @ for an abstract one (default: @nodens/top)"),
    ("version", "", "tell version, platform, compiler and commit"),
    ("workers", "NUMBER", "threads that answer queries (default: one per allowed CPU)"),
];

impl Flags {
    /// Reads the name the program was called by, and the arguments behind it.
    pub(crate) fn parse(
        program: &str,
        args: impl IntoIterator<Item = String>,
    ) -> Result<Self, FlagError> {
        let mut flags = Self::default();
        if Path::new(program).file_name().is_some_and(|name| name == NODE_CACHE) {
            flags.node = Some(NodeFlags::default());
        }
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let name = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'));
            let Some(name) = name.filter(|name| !name.is_empty()) else {
                let rest: Vec<_> = std::iter::once(arg).chain(args).collect();
                return Err(FlagError::Extra(rest.join(" ")));
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            flags.set(name, value, &mut args)?;
        }
        let serves = !matches!(flags.command, Command::Help | Command::Version | Command::Plugins);
        if let Some(node) = &mut flags.node
            && serves
        {
            node.finish()?;
        }
        Ok(flags)
    }

    /// Takes from the environment what no flag says.
    pub(crate) fn with_environment(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, FlagError> {
        let value = variable(SEARCH_VARIABLE).filter(|value| !value.is_empty());
        if let (None, Some(value)) = (self.search, value) {
            self.search = Some(search_mode("search", value)?);
        }
        Ok(self)
    }

    fn set(
        &mut self,
        name: &str,
        value: Option<String>,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), FlagError> {
        let command = match name {
            "check" => Some(Command::Check),
            "print-effective" => Some(Command::PrintEffective),
            "plugins" => Some(Command::Plugins),
            "version" => Some(Command::Version),
            "h" | "help" => Some(Command::Help),
            _ => None,
        };
        if let Some(command) = command {
            if boolean(name, value)? {
                self.command = command;
            }
            return Ok(());
        }
        if name == "quiet" {
            self.quiet = boolean(name, value)?;
            return Ok(());
        }
        if NODE_HELP.iter().any(|(known, _, _)| *known == name) {
            return self.node.get_or_insert_default().set(name, value, rest);
        }
        if name == "top" {
            self.top = Some(boolean(name, value)?);
            return Ok(());
        }
        if name == "top-http" {
            self.top_http = boolean(name, value)?;
            return Ok(());
        }
        if !HELP.iter().any(|(known, _, _)| *known == name) {
            return Err(FlagError::Unknown(name.to_owned()));
        }
        let value = value.or_else(|| rest.next());
        let value = value.ok_or_else(|| FlagError::NoValue(name.to_owned()))?;
        match name {
            "conf" => self.conf = value,
            "pidfile" => self.pidfile = Some(value).filter(|path| !path.is_empty()),
            "handover" => self.handover = Some(value),
            "handover-dir" => self.handover_dir = Some(value.into()),
            "handover-trial" => self.handover_trial = time(name, value)?,
            "log-format" => self.log_format = log_format(value)?,
            "memory" => self.memory = size(name, value)?,
            "pending-memory" => self.pending_memory = size(name, value)?,
            "search" => self.search = Some(search_mode(name, value)?),
            "top-socket" => self.top_socket = value,
            "workers" => self.workers = number(name, value, "a number of threads")?,
            _ => self.port = number(name, value, "a port from 0 to 65535")?,
        }
        Ok(())
    }
}

fn boolean(flag: &str, value: Option<String>) -> Result<bool, FlagError> {
    let Some(value) = value else { return Ok(true) };
    match value.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(bad(flag, value, "true or false")),
    }
}

fn number<N: std::str::FromStr>(
    flag: &str,
    value: String,
    expected: &'static str,
) -> Result<N, FlagError> {
    value.parse().map_err(|_| bad(flag, value, expected))
}

/// Octets, or a number with `KiB`, `MiB` or `GiB`, as in the Corefile.
fn size(flag: &str, value: String) -> Result<usize, FlagError> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.iter().find_map(|(name, bits)| Some((value.strip_suffix(name)?, *bits)));
    let (number, bits) = unit.unwrap_or((&value, 0));
    let octets = number.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << bits));
    octets.ok_or_else(|| bad(flag, value, "a size such as 16MiB"))
}

/// A number with `ms` or `s`.
fn time(flag: &str, value: String) -> Result<Duration, FlagError> {
    let number = |unit| value.strip_suffix(unit).and_then(|number| number.parse().ok());
    let time = number("ms").map(Duration::from_millis);
    let time = time.or_else(|| number("s").map(Duration::from_secs));
    time.ok_or_else(|| bad(flag, value, "a time such as 500ms or 1s"))
}

/// What YAML makes of `on` and `off` is understood, too.
fn search_mode(flag: &str, value: String) -> Result<SearchMode, FlagError> {
    match value.as_str() {
        "on" | "true" => Ok(SearchMode::On),
        "dry-run" => Ok(SearchMode::DryRun),
        "off" | "false" => Ok(SearchMode::Off),
        _ => Err(bad(flag, value, "on, off or dry-run")),
    }
}

fn log_format(value: String) -> Result<LogFormat, FlagError> {
    match value.as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(bad("log-format", value, "text or json")),
    }
}

fn bad(flag: &str, value: String, expected: &'static str) -> FlagError {
    FlagError::BadValue { flag: flag.to_owned(), value, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Flags, FlagError> {
        Flags::parse("nodens", args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn go_syntax_is_understood() {
        let flags = parse(&["-conf", "a", "--dns.port=1053", "-quiet", "-pidfile=/p"]).unwrap();
        assert_eq!((flags.conf.as_str(), flags.port, flags.quiet), ("a", 1053, true));
        assert_eq!(flags.pidfile.as_deref(), Some("/p"));
        assert_eq!(parse(&["-p", "0", "-quiet=false"]).unwrap().port, 0);
        assert_eq!(parse(&["-pending-memory", "16MiB"]).unwrap().pending_memory, 16 << 20);
        assert_eq!(parse(&["-check", "-conf", "x"]).unwrap().command, Command::Check);
    }

    #[test]
    fn search_is_switched_by_flag_or_else_by_environment() {
        let search = |args: &[&str], variable: Option<&str>| {
            let flags = parse(args).unwrap();
            flags.with_environment(|name| {
                assert_eq!(name, "NODENS_SEARCH");
                variable.map(str::to_owned)
            })
        };
        let mode = |args, variable| search(args, variable).unwrap().search;
        assert_eq!(mode(&[], None), None);
        assert_eq!(mode(&[], Some("")), None);
        assert_eq!(mode(&[], Some("off")), Some(SearchMode::Off));
        assert_eq!(mode(&["-search=dry-run"], Some("off")), Some(SearchMode::DryRun));
        assert_eq!(mode(&["-search", "false"], None), Some(SearchMode::Off));
        let error = search(&[], Some("never")).unwrap_err().to_string();
        assert!(error.contains("\"never\"") && error.contains("on, off or dry-run"), "{error}");
    }

    #[test]
    fn what_is_not_understood_is_said() {
        assert_eq!(parse(&["-x"]), Err(FlagError::Unknown("x".into())));
        assert_eq!(parse(&["-conf"]), Err(FlagError::NoValue("conf".into())));
        assert_eq!(parse(&["a", "b"]), Err(FlagError::Extra("a b".into())));
        assert!(matches!(parse(&["-p", "x"]), Err(FlagError::BadValue { .. })));
        assert!(matches!(parse(&["-pending-memory", "M"]), Err(FlagError::BadValue { .. })));
        assert!(matches!(parse(&["-quiet=maybe"]), Err(FlagError::BadValue { .. })));
    }
}
