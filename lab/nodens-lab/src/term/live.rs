//! One line of progress.

use std::io::{self, IsTerminal, Write};

/// Characters of the bar of progress, and of its whole line.
const BAR: usize = 10;
const LINE: usize = 80;

/// A line on standard error that shows the progress: rewritten on a terminal, else one per step.
pub(crate) struct Live {
    terminal: bool,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self { terminal: io::stderr().is_terminal() }
    }

    /// Shows `text`; `done` of `all` as a bar on a terminal.
    pub(crate) fn show(&self, done: f64, all: f64, text: &str) {
        let mut stderr = io::stderr().lock();
        _ = if self.terminal {
            let part = if all > 0.0 { (done / all).clamp(0.0, 1.0) } else { 0.0 };
            let filled = (part * BAR as f64) as usize;
            let bar = format!("{}{}", "━".repeat(filled), "╌".repeat(BAR - filled));
            // Cut to one line: a wrapped one could not be rewritten.
            let text: String = text.chars().take(LINE - BAR - 2).collect();
            write!(stderr, "\r\x1b[2K\x1b[36m{bar}\x1b[0m {text}").and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "{text}")
        };
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if self.terminal {
            let mut stderr = io::stderr().lock();
            _ = write!(stderr, "\r\x1b[2K").and_then(|()| stderr.flush());
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}
