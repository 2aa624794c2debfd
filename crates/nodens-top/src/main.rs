//! `nodens-top`: the report of a running server, in a terminal. `nodens top` starts it, so that the
//! server itself needs none of the libraries that draw.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the program's output")]

mod screen;

use nodens_insight::Report;
use nodens_insight::socket::{DEFAULT, fetch};
use screen::{Key, Screen, View};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: nodens-top [-once] [-socket ADDRESS]

  -once            print one screen and end, as where the output is no terminal
  -socket ADDRESS  the server's -top-socket (default: @nodens/top)
";
/// How often the report is read anew.
const EVERY: Duration = Duration::from_secs(1);
/// Between looks at whether a report has been read.
const LOOK: Duration = Duration::from_millis(50);
/// Size of a screen that is printed, in characters.
const PRINTED: (u16, u16) = (120, 44);

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprint!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match show(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nodens top: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What to show, and how.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    socket: String,
    once: bool,
}

impl Options {
    /// Reads `arguments`; `None` if they ask for help. An error says what was expected.
    fn read(arguments: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self { socket: DEFAULT.to_owned(), once: false };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let name = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
            match name {
                Some("h" | "help") => return Ok(None),
                Some("once") => options.once = true,
                Some("socket") => {
                    options.socket = arguments.next().ok_or("flag needs an argument: -socket")?;
                }
                Some(name) => match name.strip_prefix("socket=") {
                    Some(socket) => options.socket = socket.to_owned(),
                    None => return Err(format!("flag provided but not defined: -{name}")),
                },
                None => return Err(format!("nothing expected behind the flags, not {argument:?}")),
            }
        }
        Ok(Some(options))
    }
}

fn show(options: &Options) -> Result<(), String> {
    let report = fetch(&options.socket).map_err(|error| error.to_string())?;
    if options.once || !std::io::stdout().is_terminal() {
        print!("{}", screen::text(&report, PRINTED));
        return Ok(());
    }
    live(&options.socket, report).map_err(|error| error.to_string())
}

/// Redraws each second until a key ends it.
fn live(socket: &str, mut report: Report) -> std::io::Result<()> {
    let mut screen = Screen::open()?;
    let mut view = View::default();
    let mut next = Instant::now() + EVERY;
    let mut reading: Option<Receiver<Result<Report, String>>> = None;
    loop {
        screen.draw(&report, &view)?;
        let wait = next.saturating_duration_since(Instant::now());
        match screen.wait(if reading.is_some() { LOOK } else { wait })? {
            Some(Key::Quit) => return Ok(()),
            Some(Key::Up) => view.selected = view.selected.saturating_sub(1),
            Some(Key::Down) => view.selected += 1,
            Some(Key::Tab) => view.tab = view.tab.next(),
            Some(Key::Pause) => view.paused = !view.paused,
            Some(Key::Other) => {}
            None => {}
        }
        match reading.as_ref().map(Receiver::try_recv) {
            Some(Ok(read)) => {
                reading = None;
                match read {
                    Ok(newest) if !view.paused => {
                        report = newest;
                        view.trouble.clear();
                    }
                    Ok(_) => {}
                    Err(error) => view.trouble = error,
                }
            }
            Some(Err(TryRecvError::Empty)) => {}
            Some(Err(TryRecvError::Disconnected)) => reading = None,
            None if Instant::now() >= next => {
                next = Instant::now() + EVERY;
                reading = (!view.paused).then(|| read(socket));
            }
            None => {}
        }
        view.selected = view.selected.min(report.leaks.len().saturating_sub(1));
    }
}

/// Reads the report on a thread of its own: a server that does not answer must not hold up keys.
fn read(socket: &str) -> Receiver<Result<Report, String>> {
    let (to, from) = mpsc::channel();
    let socket = socket.to_owned();
    std::thread::spawn(move || {
        // An error means that the screen was closed meanwhile.
        _ = to.send(fetch(&socket).map_err(|error| error.to_string()));
    });
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_what_is_not_understood_is_said() {
        let read = |text: &str| Options::read(text.split_whitespace().map(str::to_owned));
        let options = |socket: &str, once| Some(Options { socket: socket.to_owned(), once });
        assert_eq!(read(""), Ok(options(DEFAULT, false)));
        assert_eq!(read("-once --socket /run/a"), Ok(options("/run/a", true)));
        assert_eq!(read("-socket=@b"), Ok(options("@b", false)));
        assert_eq!(read("-once -help"), Ok(None));
        for wrong in ["-x", "-socket", "word", "-socketx=1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
