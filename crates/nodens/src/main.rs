//! `nodens`: the server. Flags, start, reload, signals and the HTTP endpoints; queries are
//! answered by `nodens-core` over the sockets of `nodens-net`.

#![forbid(unsafe_code)]

mod budget;
mod check;
mod clusters;
mod context;
mod dnstap;
mod effective;
mod endpoints;
mod events;
mod face;
mod flags;
mod handover;
mod insight;
mod load;
mod logger;
mod machine;
mod node;
mod pidfile;
mod probe;
mod process;
mod reload;
mod serve;
mod signing;
mod tasks;
mod watch;
mod zones;

use flags::{Command, Flags};
use std::process::ExitCode;

/// What `nodens -version` prints and what stands in `coredns_build_info`.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    let mut args = std::env::args();
    let program = args.next().unwrap_or_default();
    match args.next().as_deref() {
        Some("top") => return insight::top(args),
        Some("blackhole") => return insight::blackhole(args),
        _ => {}
    }
    let flags = Flags::parse(&program, std::env::args().skip(1));
    let flags =
        match flags.and_then(|flags| flags.with_environment(|name| std::env::var(name).ok())) {
            Ok(flags) => flags,
            Err(error) => return face::usage_error(&error),
        };
    match flags.command {
        Command::Help => face::help(),
        Command::Version => face::version(),
        Command::Plugins => face::plugins(),
        Command::Check => check::run(&flags),
        Command::PrintEffective => effective::run(&flags),
        Command::Serve => serve::run(&flags),
    }
}
