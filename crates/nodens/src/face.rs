//! What the process prints about itself.

#![allow(clippy::print_stdout, reason = "this is the program's output")]

use crate::VERSION;
use crate::flags::{FlagError, HELP, LogFormat, NODE_HELP};
use crate::logger;
use nodens_core::config::Listener;
use nodens_core::directives::DIRECTIVES;
use nodens_core::log::Level;
use nodens_core::{Config, ListenerKind};
use std::fmt::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Exit code for a command line that is not understood, as in Go.
const EXIT_USAGE: u8 = 2;

/// Columns for a flag and its value in `-help`.
const HELP_COLUMN: usize = 19;

/// `-help`.
pub(crate) fn help() -> ExitCode {
    print!("{}", usage());
    ExitCode::SUCCESS
}

/// A command line that is not understood.
pub(crate) fn usage_error(error: &FlagError) -> ExitCode {
    if matches!(error, FlagError::LocalIp(_)) {
        // The flags are understood; what they are would hide what is wrong with the address.
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    eprint!("{error}\n{}", usage());
    let extra = matches!(error, FlagError::Extra(_));
    if extra { ExitCode::FAILURE } else { ExitCode::from(EXIT_USAGE) }
}

/// Why there is no server: plain text, or a record of the log.
pub(crate) fn start_error(format: LogFormat, error: &str) {
    match format {
        LogFormat::Text => eprintln!("{error}"),
        LogFormat::Json => eprint!("{}", logger::line(format, Level::Fatal, "", error)),
    }
}

fn usage() -> String {
    let mut text = String::from("usage: nodens [FLAG…]\n\n");
    let mut rows = |rows: &[(&str, &str, &str)]| {
        for (name, value, meaning) in rows {
            let flag = format!("-{name} {value}");
            _ = writeln!(text, "  {flag:HELP_COLUMN$}  {meaning}");
        }
    };
    rows(HELP);
    rows(&[("", "", "")]);
    rows(NODE_HELP);
    text
}

/// `-version`.
pub(crate) fn version() -> ExitCode {
    print!("{}", version_text());
    ExitCode::SUCCESS
}

/// Name and version, then platform, compiler and commit, as CoreDNS prints them.
pub(crate) fn version_text() -> String {
    format!(
        "Nodens-{VERSION}\n{}/{}, {}, {}\n",
        std::env::consts::OS,
        goarch(),
        env!("NODENS_RUSTC"),
        env!("NODENS_COMMIT")
    )
}

/// The architecture by Go's name, which is what image tags and dashboards use.
fn goarch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `-plugins`: the directives in alphabetical order.
pub(crate) fn plugins() -> ExitCode {
    let mut names: Vec<_> =
        DIRECTIVES.iter().filter(|spec| spec.setup.is_some()).map(|spec| spec.name).collect();
    names.sort_unstable();
    for name in names {
        println!("{name}");
    }
    ExitCode::SUCCESS
}

/// One line per zone and address: `example.org.:53`, `example.org.:53 on 192.0.2.1`; a text for each
/// listener.
///
/// `bound` holds the addresses in use, which differ from the configured ones where port 0 asked
/// for any port.
pub(crate) fn banner(config: &Config, bound: &[SocketAddr]) -> Vec<String> {
    let of_listener = |(index, listener): (usize, &Listener)| {
        let mut text = String::new();
        let port = bound.get(index).unwrap_or(&listener.address).port();
        let mut zones: Vec<String> =
            config.zones_of(listener.server).map(|zone| zone.to_folded().to_string()).collect();
        zones.sort_unstable();
        zones.dedup();
        let server = config.servers.get(listener.server).map(|server| server.label.as_str());
        // As the Corefile names it: `dns://:53` where it has no `bind`.
        let named = server.and_then(|label| label.split_once("://")).map(|(_, at)| at);
        let ip = named.and_then(|at| at.parse().ok()).map(|at: SocketAddr| at.ip());
        let scheme = match listener.kind {
            ListenerKind::Dns => String::new(),
            kind => format!("{}://", kind.scheme()),
        };
        for zone in zones {
            _ = match ip {
                None => writeln!(text, "{scheme}{zone}:{port}"),
                Some(ip) => writeln!(text, "{scheme}{zone}:{port} on {ip}"),
            };
        }
        text
    };
    config.listeners.iter().enumerate().map(of_listener).collect()
}
