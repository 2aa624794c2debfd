//! What people look at: numbers, tables, colour only on a terminal, a line of progress.

use lab_histogram::Quantile;
use std::io::{self, IsTerminal, Write};

/// Writes to standard output; an error there (a closed pipe) ends the writing and nothing else.
pub(crate) fn out(text: &str) {
    _ = writeln!(io::stdout().lock(), "{text}");
}

/// A colour of text on a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Bold,
    Dim,
    Good,
    Bad,
    Accent,
}

/// `text` in `style`, if standard output is a terminal and `NO_COLOR` is not set.
pub(crate) fn paint(style: Style, text: &str) -> String {
    if !io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some() {
        return text.to_owned();
    }
    let code = match style {
        Style::Bold => "1",
        Style::Dim => "2",
        Style::Good => "32",
        Style::Bad => "1;31",
        Style::Accent => "36",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// A duration with three digits that count: `41.3 µs`, `1.52 ms`.
pub(crate) fn nanos(nanos: f64) -> String {
    let (value, unit) = match nanos {
        ..1e3 => return format!("{nanos:.0} ns"),
        ..1e6 => (nanos / 1e3, "µs"),
        ..1e9 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// As [`nanos`]; a rank among timeouts reads `≥ 2.00 s`.
pub(crate) fn quantile(quantile: Quantile) -> String {
    match quantile {
        Quantile::Empty => "n/a".to_owned(),
        Quantile::Value(value) => nanos(value as f64),
        Quantile::AtLeast(value) => format!("≥ {}", nanos(value as f64)),
    }
}

/// A whole number with separators: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate that need not be exact: `823`, `43.2k`, `1.25M`.
pub(crate) fn rate(rate: f64) -> String {
    match rate {
        ..1e3 => format!("{rate:.0}"),
        ..1e4 => format!("{:.2}k", rate / 1e3),
        ..1e5 => format!("{:.1}k", rate / 1e3),
        ..1e6 => format!("{:.0}k", rate / 1e3),
        _ => format!("{:.2}M", rate / 1e6),
    }
}

/// A part as percent; tiny parts are not rounded to nothing.
pub(crate) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        ..0.01 => "< 0.01 %".to_owned(),
        ..1.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.1} %"),
    }
}

/// A table with a frame; the first column is flush left, the others flush right.
#[derive(Default)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<(Option<Style>, Vec<String>)>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|text| (*text).to_owned()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push((None, cells));
    }

    pub(crate) fn styled(&mut self, style: Style, cells: Vec<String>) {
        self.rows.push((Some(style), cells));
    }

    fn widths(&self) -> Vec<usize> {
        let all = std::iter::once(&self.header).chain(self.rows.iter().map(|(_, cells)| cells));
        all.fold(vec![0; self.header.len()], |mut widths, cells| {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
            widths
        })
    }

    /// The table for a terminal.
    pub(crate) fn framed(&self) -> String {
        let widths = self.widths();
        let rule = |left: &str, middle: &str, right: &str| {
            let dashes: Vec<_> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
            paint(Style::Dim, &format!("{left}{}{right}", dashes.join(middle)))
        };
        let mut lines = vec![rule("╭", "┬", "╮"), line(&self.header, &widths, Some(Style::Bold))];
        lines.push(rule("├", "┼", "┤"));
        for (style, cells) in &self.rows {
            lines.push(line(cells, &widths, *style));
        }
        lines.push(rule("╰", "┴", "╯"));
        lines.join("\n")
    }

    /// The table in Markdown.
    pub(crate) fn markdown(&self) -> String {
        let row = |cells: &[String]| format!("| {} |", cells.join(" | "));
        let rules = (0..self.header.len()).map(|at| if at == 0 { "---" } else { "---:" });
        let mut lines =
            vec![row(&self.header), format!("|{}|", rules.collect::<Vec<_>>().join("|"))];
        lines.extend(self.rows.iter().map(|(_, cells)| row(cells)));
        lines.join("\n")
    }
}

fn line(cells: &[String], widths: &[usize], style: Option<Style>) -> String {
    let bar = paint(Style::Dim, "│");
    let cells = widths.iter().enumerate().map(|(at, width)| {
        let text = cells.get(at).map_or("", String::as_str);
        let padding = " ".repeat(width.saturating_sub(text.chars().count()));
        let text =
            if at == 0 { format!(" {text}{padding} ") } else { format!(" {padding}{text} ") };
        style.map_or(text.clone(), |style| paint(style, &text))
    });
    let cells: Vec<_> = cells.collect();
    format!("{bar}{}{bar}", cells.join(&bar))
}

/// Characters of the bar of progress, and of its whole line.
const BAR: usize = 10;
const LINE: usize = 80;

/// A line on standard error that tells what is going on: rewritten on a terminal, else one per step.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_nan() {
        assert_eq!(nanos(941.0), "941 ns");
        assert_eq!(nanos(41_312.0), "41.3 µs");
        assert_eq!(nanos(1_523_000.0), "1.52 ms");
        assert_eq!(quantile(Quantile::AtLeast(2_000_000_000)), "≥ 2.00 s");
        assert_eq!(quantile(Quantile::Empty), "n/a");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!([rate(823.4), rate(43_210.0), rate(1_250_000.0)], ["823", "43.2k", "1.25M"]);
        assert_eq!([percent(0.0), percent(0.00001), percent(0.973)], ["0 %", "< 0.01 %", "97.3 %"]);
    }

    #[test]
    fn a_table_is_aligned_by_characters_and_not_octets() {
        let mut table = Table::new(&["name", "p50"]);
        table.row(vec!["µ".into(), "41.3 µs".into()]);
        table.row(vec!["longer".into(), "≥ 2 s".into()]);
        let framed = table.framed();
        let widths: Vec<_> = framed.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{framed}");
        assert_eq!(table.markdown().lines().nth(2), Some("| µ | 41.3 µs |"));
    }
}
