//! `nodens top`: what a running server sees, in a terminal.

#![allow(clippy::print_stdout, reason = "this is the program's output")]

use super::options::{Known, Options, usage};
use super::socket::{DEFAULT_SOCKET, fetch};
use nodens_seeing::Report;
use nodens_seeing::terminal::{self, Key, View};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "top [FLAG…]: who asks for what, and what of it is in vain";
const KNOWN: &[Known] = &[
    ("h", "", "the same as -help"),
    ("help", "", "explain the flags"),
    ("json", "", "print one report as JSON and end"),
    ("once", "", "print one screen and end, as where the output is no terminal"),
    ("socket", "ADDRESS", "the server's -top-socket (default: @nodens/top)"),
];
/// How often there is something new.
const EVERY: Duration = Duration::from_secs(1);
/// Size of a screen that is printed, in characters.
const PRINTED: (u16, u16) = (120, 44);

/// Shows what the server at the socket sees until the person at the terminal has seen enough.
pub(crate) fn run(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let options = match Options::read(arguments, KNOWN) {
        Ok(options) if options.has("help") || options.has("h") => {
            print!("{}", usage(USAGE, KNOWN));
            return ExitCode::SUCCESS;
        }
        Ok(options) if options.words.is_empty() => options,
        Ok(options) => {
            return wrong(&format!("nothing expected behind the flags, not {:?}", options.words));
        }
        Err(error) => return wrong(&error),
    };
    match show(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nodens top: {error}");
            ExitCode::FAILURE
        }
    }
}

fn wrong(error: &str) -> ExitCode {
    eprint!("{error}\n{}", usage(USAGE, KNOWN));
    ExitCode::from(2)
}

fn show(options: &Options) -> Result<(), String> {
    let socket = options.get("socket").unwrap_or(DEFAULT_SOCKET);
    let json = fetch(socket)
        .map_err(|error| format!("{socket}: {error} (is a server running here with -top?)"))?;
    // What is no report is not shown: it may have been written to do something to a terminal.
    let report = parse(&json)?;
    if options.has("json") {
        println!("{}", serde_json::to_string(&report).map_err(|error| error.to_string())?);
        return Ok(());
    }
    if options.has("once") || !std::io::stdout().is_terminal() {
        print!("{}", terminal::text(&report, PRINTED));
        return Ok(());
    }
    live(socket, report).map_err(|error| error.to_string())
}

fn parse(json: &str) -> Result<Report, String> {
    serde_json::from_str(json)
        .map_err(|error| format!("that is no report, or one of another version: {error}"))
}

/// Redraws each second until a key ends it.
fn live(socket: &str, mut report: Report) -> std::io::Result<()> {
    let mut screen = terminal::Screen::open()?;
    let mut view = View::default();
    let mut next = Instant::now() + EVERY;
    loop {
        screen.draw(&report, &view)?;
        match screen.wait(next.saturating_duration_since(Instant::now()))? {
            Some(Key::Quit) => return Ok(()),
            Some(Key::Up) => view.selected = view.selected.saturating_sub(1),
            Some(Key::Down) => view.selected += 1,
            Some(Key::Tab) => view.tab = view.tab.next(),
            Some(Key::Pause) => view.paused = !view.paused,
            Some(Key::Other) => {}
            None => {
                next = Instant::now() + EVERY;
                if view.paused {
                    continue;
                }
                match fetch(socket).map_err(|error| error.to_string()).and_then(|json| parse(&json))
                {
                    Ok(newest) => {
                        report = newest;
                        view.trouble.clear();
                    }
                    Err(error) => view.trouble = error,
                }
            }
        }
        view.selected = view.selected.min(report.leaks.len().saturating_sub(1));
    }
}
