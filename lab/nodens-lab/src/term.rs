//! What people look at: numbers, tables, colour only on a terminal, a line of progress.

mod live;

pub(crate) use live::Live;

use lab_histogram::Quantile;
use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};

/// Writes to standard output; an error there (a closed pipe) ends the writing and nothing else.
pub(crate) fn out(text: &str) {
    _ = writeln!(io::stdout().lock(), "{text}");
}

/// Writes all of `text` to standard output, or says why not: for output that programs read. A reader
/// that has had enough is no error.
pub(crate) fn all(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    })
}

/// Writes to standard error, beside the output.
pub(crate) fn note(text: &str) {
    _ = writeln!(io::stderr().lock(), "{text}");
}

/// A colour of text on a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
    Accent,
}

/// `text` in `style`, if standard output is a terminal and `NO_COLOR` is not set.
pub(crate) fn paint(style: Style, text: &str) -> String {
    paint_if(io::stdout().is_terminal(), style, text)
}

/// The same for standard error.
pub(crate) fn paint_err(style: Style, text: &str) -> String {
    paint_if(io::stderr().is_terminal(), style, text)
}

fn paint_if(terminal: bool, style: Style, text: &str) -> String {
    // <https://no-color.org>: present and not empty.
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let code = match style {
        Style::Bold => "1",
        Style::Dim => "2",
        Style::Good => "32",
        Style::Bad => "1;31",
        Style::Accent => "36",
        Style::Plain => return text.to_owned(),
    };
    if terminal && !unwanted { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// `text` cut to `width` characters, with `…` if something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `text` in lines of at most `width` characters, broken at spaces; all but the first begin with
/// `indent` spaces. A word that is too long stays whole.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_inclusive(' ') {
        let len = line.chars().count() + word.trim_end().chars().count();
        if len > width && !line.trim().is_empty() {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// Columns of the terminal on standard output; `None` if it is none.
pub(crate) fn width() -> Option<usize> {
    width_of(io::stdout())
}

fn width_of(stream: impl std::os::fd::AsFd + IsTerminal) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    // A terminal that does not know its size says 0.
    let known = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Some(if known == 0 { 80 } else { known })
}

/// Where the lowest bar of a sparkline stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// At zero; equal steps are equal heights.
    FromZero,
    /// At the lowest value; equal factors are equal heights.
    Logarithmic,
}

/// A character per value; a missing value is a space, and one of zero has no height. `full` is the
/// least value of a full bar.
pub(crate) fn spark(values: &[Option<f64>], scale: Scale, full: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let known = || values.iter().flatten().copied();
    let height = |value: f64| match scale {
        Scale::FromZero => value,
        Scale::Logarithmic => value.max(1.0).ln(),
    };
    let low = match scale {
        Scale::FromZero => 0.0,
        Scale::Logarithmic => known().map(height).fold(f64::INFINITY, f64::min),
    };
    // Values that hardly differ must not look as if they did: at least a factor of two is shown.
    let least = match scale {
        Scale::FromZero => full.max(f64::MIN_POSITIVE),
        Scale::Logarithmic => low + std::f64::consts::LN_2,
    };
    let high = known().map(height).fold(least, f64::max);
    let bar = |value: f64| {
        if scale == Scale::FromZero && value <= 0.0 {
            return ' ';
        }
        let part = ((height(value) - low) / (high - low)).clamp(0.0, 1.0);
        let at = (part * (BARS.len() - 1) as f64).round() as usize;
        BARS.get(at).copied().unwrap_or(' ')
    };
    values.iter().map(|value| value.map_or(' ', bar)).collect()
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

/// A number of things by their name for one: `1 pair`, `1,200 pairs`.
pub(crate) fn of(number: usize, name: &str) -> String {
    format!("{} {name}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

/// A probability with four digits; a tiny one is not rounded to nothing.
pub(crate) fn probability(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
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

/// `text` as a shell takes it for one word.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "./-_+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    let text = if text.starts_with('-') { format!("./{text}") } else { text.to_owned() };
    format!("'{}'", text.replace('\'', r"'\''"))
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

/// Lines on standard error that are rewritten in place on a terminal, and follow each other
/// elsewhere. The terminal keeps its settings, so there is nothing to restore whatever happens.
pub(crate) struct Screen {
    terminal: bool,
    /// Characters of the lines that stand there.
    drawn: RefCell<Vec<usize>>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        // A dumb terminal cannot go back.
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { terminal: io::stderr().is_terminal() && !dumb, drawn: RefCell::default() }
    }

    /// Columns, if it is a terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        self.terminal.then(|| width_of(io::stderr())).flatten()
    }

    /// Puts `lines` in the place of those that stand there.
    pub(crate) fn draw(&self, lines: &[String]) {
        let mut text = self.back();
        for line in lines {
            text.push_str(line);
            text.push_str(if self.terminal { "\x1b[K\n" } else { "\n" });
        }
        *self.drawn.borrow_mut() = lines.iter().map(|line| columns(line)).collect();
        // One write, so that no half of a frame is seen.
        let mut stderr = io::stderr().lock();
        _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    /// Takes the lines away.
    pub(crate) fn clear(&self) {
        let text = self.back();
        self.drawn.borrow_mut().clear();
        _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// What goes back to the first line and empties the rest. A terminal that was made narrower has
    /// broken the lines that stand there into more.
    fn back(&self) -> String {
        let Some(width) = self.width() else { return String::new() };
        let drawn = self.drawn.borrow();
        let rows: usize = drawn.iter().map(|columns| columns.div_ceil(width.max(1)).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\r\x1b[{rows}A\x1b[J") }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

/// What a line takes on a terminal: without the escapes that colour it.
pub(crate) fn columns(line: &str) -> usize {
    let mut parts = line.split('\x1b');
    let plain = parts.next().unwrap_or_default().chars().count();
    let rest = parts.map(|part| part.split_once('m').map_or(0, |(_, text)| text.chars().count()));
    plain + rest.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_opens_a_result_is_one_a_shell_takes() {
        assert_eq!(shell_word("a/b-1.json"), "a/b-1.json");
        assert_eq!(shell_word("my result's.json"), r"'my result'\''s.json'");
        assert_eq!(shell_word("-x.json"), "'./-x.json'");
    }

    #[test]
    fn numbers_are_short_and_never_nan() {
        assert_eq!(nanos(941.0), "941 ns");
        assert_eq!(nanos(41_312.0), "41.3 µs");
        assert_eq!(nanos(1_523_000.0), "1.52 ms");
        assert_eq!(quantile(Quantile::AtLeast(2_000_000_000)), "≥ 2.00 s");
        assert_eq!(quantile(Quantile::Empty), "n/a");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!([of(1, "pair"), of(2, "pair")], ["1 pair", "2 pairs"]);
        assert_eq!([probability(0.00004), probability(0.0312)], ["< 0.0001", "0.0312"]);
        assert_eq!([rate(823.4), rate(43_210.0), rate(1_250_000.0)], ["823", "43.2k", "1.25M"]);
        assert_eq!([percent(0.0), percent(0.00001), percent(0.973)], ["0 %", "< 0.01 %", "97.3 %"]);
    }

    #[test]
    fn what_is_printed_can_be_typed() {
        for value in [941.0, 41_300.0, 1_520_000.0, 2_000_000_000.0, 600_000_000_000.0] {
            let typed = lab_units::nanos(&nanos(value)).unwrap();
            assert_eq!(lab_units::seconds(&nanos(value)), Ok(typed));
            assert!((typed as f64 / value - 1.0).abs() < 0.01, "{value}: {typed}");
        }
        for value in [823.0, 43_200.0, 1_250_000.0] {
            assert_eq!(lab_units::rate(&rate(value)), Ok(value));
            assert_eq!(lab_units::rate(&format!("{}/s", rate(value))), Ok(value));
            assert_eq!(lab_units::rate(&count(value as u64)), Ok(value));
        }
        for value in [0.0, 0.001, 0.973] {
            assert_eq!(lab_units::part(&percent(value)), Ok(value));
        }
    }

    #[test]
    fn long_lines_are_broken_at_spaces_and_stay_whole_otherwise() {
        assert_eq!(wrap("a bb ccc", 80, 2), ["a bb ccc"]);
        assert_eq!(
            wrap("  note  one two three", 14, 8),
            ["  note  one", "        two", "        three"]
        );
        assert_eq!(wrap("unbreakable", 4, 2), ["unbreakable"]);
    }

    #[test]
    fn a_sparkline_shows_factors_and_marks_what_is_missing() {
        let values = [Some(1e3), None, Some(1e4), Some(1e5), Some(f64::NAN)];
        assert_eq!(&spark(&values[..4], Scale::Logarithmic, 0.0), "▁ ▅█");
        let steady = [Some(1_000.0), Some(1_010.0)];
        assert_eq!(spark(&steady, Scale::Logarithmic, 0.0), "▁▁");
        assert_eq!(spark(&[Some(0.0), Some(5.0), Some(10.0)], Scale::FromZero, 0.0), " ▅█");
        assert_eq!(spark(&[Some(1.0)], Scale::FromZero, 100.0), "▁");
        assert_eq!(spark(&[], Scale::Logarithmic, 0.0), "");
        assert_eq!(spark(&values, Scale::Logarithmic, 0.0).chars().count(), 5);
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
