//! `nodens top`: what a running server sees. JSON is printed here; screens are drawn by a program of
//! their own, `nodens-top`, whose libraries the server does without.

#![allow(clippy::print_stdout, reason = "this is the program's output")]

use super::options::{Known, Options, usage};
use nodens_insight::socket::{DEFAULT, FetchError, fetch};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const USAGE: &str = "top [FLAG…]: top clients and names, and wasted queries";
const KNOWN: &[Known] = &[
    ("h", "", "the same as -help"),
    ("help", "", "explain the flags"),
    ("json", "", "print one report as JSON and end"),
    ("once", "", "print one screen and end; the default unless the output is a terminal"),
    ("socket", "ADDRESS", "the server's -top-socket (default: @nodens/top)"),
];
/// The program that draws, beside this one or in `PATH`.
const SCREEN: &str = "nodens-top";

/// Shows what the server at the socket sees.
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
        Err(error) => return wrong(&error.to_string()),
    };
    let socket = options.get("socket").unwrap_or(DEFAULT);
    let shown = match options.has("json") {
        true => json(socket),
        false => Err(draw(socket, options.has("once"))),
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nodens top: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why nothing is shown.
#[derive(Debug, thiserror::Error)]
enum TopError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(
        "{SCREEN} not found, neither beside this program nor in PATH: it draws the screen; `nodens top -json` needs no other program"
    )]
    NoScreen,
    #[error("cannot start {SCREEN}: {0}")]
    Screen(std::io::Error),
}

fn wrong(error: &str) -> ExitCode {
    eprint!("{error}\n{}", usage(USAGE, KNOWN));
    ExitCode::from(2)
}

fn json(socket: &str) -> Result<(), TopError> {
    let report = fetch(socket)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// Becomes the program that draws, or says why not.
fn draw(socket: &str, once: bool) -> TopError {
    let mut command = Command::new(screen());
    command.args(once.then_some("-once")).args(["-socket", socket]);
    let error = command.exec();
    match error.kind() {
        ErrorKind::NotFound => TopError::NoScreen,
        _ => TopError::Screen(error),
    }
}

/// The program that draws: the one beside this one if it is there.
fn screen() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    Some(own.with_file_name(SCREEN)).filter(|path| path.is_file()).unwrap_or(SCREEN.into())
}
