//! The view of a running load: what every second brought, as numbers and as sparklines.
//!
//! A frame is made from numbers alone, for any width; drawing it is [`crate::term::Screen`]'s work.

use crate::term::{self, Screen, Style};
use lab_histogram::Quantile;
use lab_load::Progress;
use lab_load::tally::Cohort;
use std::collections::VecDeque;

/// The latencies that are shown: what they are called, and which part of the answers is faster.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Seconds that are remembered: more than fit on the widest line.
const HISTORY: usize = 400;
/// Columns in front of the sparklines: a name, a number, and space.
const NAME: usize = 10;
const NUMBER: usize = 12;
/// Columns behind them, for lowest and highest value.
const SCALE: usize = 22;

/// What one second brought.
#[derive(Clone, Copy, Debug)]
struct Moment {
    second: u64,
    sent: u64,
    answered: u64,
    lost: u64,
    in_flight: u64,
    quantiles: [Quantile; 3],
}

/// What the view knows.
pub(crate) struct View {
    title: String,
    duration: f64,
    /// Planned QPS, if there is a plan.
    rate: Option<f64>,
    history: VecDeque<Moment>,
    sent: u64,
    answered: u64,
    lost: u64,
}

impl View {
    pub(crate) fn new(title: String, duration: f64, rate: Option<f64>) -> Self {
        Self { title, duration, rate, history: VecDeque::new(), sent: 0, answered: 0, lost: 0 }
    }

    pub(crate) fn add(&mut self, progress: &Progress) {
        let counts = &progress.counts;
        self.sent += counts.sent;
        self.answered += counts.answered;
        self.lost += counts.lost();
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(Moment {
            second: progress.second,
            sent: counts.sent,
            answered: counts.answered,
            lost: counts.lost(),
            in_flight: progress.in_flight,
            quantiles: quantiles(&progress.cohort),
        });
        // Answers and timeouts that came later belong to the second that they were sent in.
        for (second, cohort) in &progress.finals {
            let moment = self.history.iter_mut().find(|moment| moment.second == *second);
            moment.into_iter().for_each(|moment| moment.quantiles = quantiles(cohort));
        }
    }

    /// The second's numbers on one line, for output that is no terminal.
    fn line(&self) -> String {
        let Some(now) = self.history.back() else { return String::new() };
        let [p50, p99, p999] = now.quantiles.map(term::quantile);
        format!(
            "{:>4} s  sent {}/s  answered {}/s  lost {}  in flight {}  p50 {p50}  p99 {p99}  p99.9 {p999}",
            now.second + 1,
            term::rate(now.sent as f64),
            term::rate(now.answered as f64),
            now.lost,
            now.in_flight,
        )
    }

    /// The view for a terminal of `width` columns, one string per line.
    fn frame(&self, width: usize) -> Vec<String> {
        let now = self.history.back();
        let seconds = now.map_or(0.0, |now| now.second as f64 + 1.0);
        let mut lines = vec![self.heading(seconds, width)];
        let room = width.saturating_sub(NAME + NUMBER + SCALE + 3).max(8);
        let skip = self.history.len().saturating_sub(room);
        let shown: Vec<_> = self.history.iter().skip(skip).collect();
        let rates: Vec<_> = shown.iter().map(|moment| Some(moment.answered as f64)).collect();
        let rate = now.map_or("n/a".into(), |now| format!("{}/s", term::rate(now.answered as f64)));
        let planned = self.rate.map_or(String::new(), |rate| format!("of {}/s", term::rate(rate)));
        let spark = term::spark(&rates, term::Scale::FromZero, self.rate.unwrap_or(0.0));
        lines.push(row("answered", &rate, &spark, room, &planned, Style::Accent));
        for (at, (name, _)) in QUANTILES.iter().enumerate() {
            let values: Vec<_> = shown
                .iter()
                .map(|moment| moment.quantiles.get(at)?.nanos().map(|n| n as f64))
                .collect();
            let number = now
                .and_then(|now| now.quantiles.get(at))
                .map_or("n/a".into(), |q| term::quantile(*q));
            let spark = term::spark(&values, term::Scale::Logarithmic, 0.0);
            lines.push(row(name, &number, &spark, room, &span(&values), Style::Plain));
        }
        let losses: Vec<_> = shown.iter().map(|moment| Some(moment.lost as f64)).collect();
        let spark = term::spark(&losses, term::Scale::FromZero, 1.0);
        let style = if self.lost > 0 { Style::Bad } else { Style::Plain };
        let lost = now.map_or("n/a".into(), |now| format!("{}/s", term::rate(now.lost as f64)));
        let all = if self.lost > 0 {
            format!("{} in all", term::count(self.lost))
        } else {
            "none".into()
        };
        lines.push(row("lost", &lost, &spark, room, &all, style));
        lines.push(self.totals(now, width));
        lines
    }

    fn heading(&self, seconds: f64, width: usize) -> String {
        let time = if seconds > self.duration {
            "waiting for the last responses".to_owned()
        } else {
            format!("{seconds:.0} of {} s", self.duration)
        };
        let title = term::cut(&self.title, width.saturating_sub(time.chars().count() + 4).max(8));
        let room = width.saturating_sub(title.chars().count() + time.chars().count() + 4).min(40);
        let part =
            if self.duration > 0.0 { (seconds / self.duration).clamp(0.0, 1.0) } else { 0.0 };
        let filled = (part * room as f64) as usize;
        let bar = format!("{}{}", "━".repeat(filled), "╌".repeat(room - filled));
        let (title, bar) =
            (term::paint_err(Style::Bold, &title), term::paint_err(Style::Accent, &bar));
        format!("{title}  {bar}  {time}")
    }

    fn totals(&self, now: Option<&Moment>, width: usize) -> String {
        let in_flight = now.map_or(0, |now| now.in_flight);
        let text = format!(
            "{:<NAME$}sent {}  answered {}  in flight {}",
            "so far",
            term::count(self.sent),
            term::count(self.answered),
            term::count(in_flight)
        );
        term::paint_err(Style::Dim, &term::cut(&text, width))
    }
}

fn quantiles(cohort: &Cohort) -> [Quantile; 3] {
    QUANTILES.map(|(_, part)| cohort.response.quantile(part))
}

fn row(name: &str, number: &str, spark: &str, room: usize, behind: &str, style: Style) -> String {
    let padding = " ".repeat(room.saturating_sub(spark.chars().count()));
    let spark = term::paint_err(if style == Style::Plain { Style::Accent } else { style }, spark);
    let behind = term::paint_err(Style::Dim, &term::cut(behind, SCALE));
    format!("{name:<NAME$}{number:>NUMBER$}  {spark}{padding} {behind}")
}

/// The lowest and the highest value.
fn span(values: &[Option<f64>]) -> String {
    let known = || values.iter().flatten();
    let low = known().copied().fold(f64::INFINITY, f64::min);
    let high = known().copied().fold(0.0, f64::max);
    if low > high {
        String::new()
    } else {
        format!("{} to {}", term::nanos(low), term::nanos(high))
    }
}

/// Shows a view while the load runs, on standard error.
pub(crate) struct Live {
    view: View,
    screen: Screen,
}

fn opening(opened: u64, all: u64) -> String {
    format!("opening connections: {} of {}", term::count(opened), term::count(all))
}

impl Live {
    pub(crate) fn new(view: View) -> Self {
        let live = Self { view, screen: Screen::new() };
        if let Some(width) = live.screen.width() {
            live.screen.draw(&live.view.frame(width));
        }
        live
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        self.view.add(progress);
        match self.screen.width() {
            Some(width) => self.screen.draw(&self.view.frame(width)),
            None => self.screen.draw(&[self.view.line()]),
        }
    }

    /// Says how many connections are there before the load.
    pub(crate) fn opening(&mut self, opened: u64, all: u64) {
        self.screen.clear();
        self.screen.draw(&[opening(opened, all)]);
    }

    /// Takes the view away.
    pub(crate) fn clear(&self) {
        self.screen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_load::tally::Counts;

    fn second(second: u64, answered: u64, took: u64) -> Progress {
        let mut cohort = Cohort { sent: answered, answered, ..Cohort::default() };
        cohort.response.record_n(took, answered);
        let counts = Counts { sent: answered, answered, ..Counts::default() };
        Progress { second, counts, cohort, ..Progress::default() }
    }

    fn view(seconds: u64) -> View {
        let mut view = View::new("192.0.2.1:53 udp".into(), 60.0, Some(1_000.0));
        (0..seconds).for_each(|at| view.add(&second(at, 1_000, 40_000 + at * 1_000)));
        view
    }

    /// What a line takes on a terminal: without the escapes that colour it.
    fn columns(line: &str) -> usize {
        let mut parts = line.split('\x1b');
        let first = parts.next().unwrap_or_default().chars().count();
        first
            + parts
                .map(|part| part.split_once('m').map_or(0, |(_, text)| text.chars().count()))
                .sum::<usize>()
    }

    #[test]
    fn a_frame_keeps_its_height_and_never_exceeds_the_width() {
        for seconds in [0, 1, 7, 59, 300, 900] {
            for width in [40, 60, 80, 120, 200] {
                let frame = view(seconds).frame(width);
                assert_eq!(frame.len(), 7);
                for line in &frame {
                    assert!(
                        columns(line) <= width.max(NAME + NUMBER + SCALE + 11),
                        "{width}: {line}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_second_is_shown_with_what_came_later_once_it_is_final() {
        let mut view = view(5);
        let mut cohort = second(1, 900, 41_000).cohort;
        (0..100).for_each(|_| cohort.response.record_censored(2_000_000_000));
        view.add(&Progress { finals: vec![(1, cohort)], ..second(5, 1_000, 45_000) });
        assert_eq!(view.history[1].quantiles[1], Quantile::AtLeast(2_000_000_000));
        assert_eq!(view.history[2].quantiles[1], Quantile::Value(42_000));
        assert!(view.frame(80).join("\n").contains("to 2.00 s"));
    }

    #[test]
    fn a_second_without_answers_shows_no_number_that_is_none() {
        let mut view = view(3);
        view.add(&Progress { second: 3, in_flight: 9, ..Progress::default() });
        let text = view.frame(80).join("\n");
        assert!(text.contains("n/a") && !text.contains("NaN"), "{text}");
        assert!(view.line().contains("p50 n/a"), "{}", view.line());
    }

    #[test]
    fn connections_before_the_load_are_counted() {
        assert_eq!(opening(64, 300), "opening connections: 64 of 300");
    }

    #[test]
    fn a_plain_line_has_all_numbers_of_the_second() {
        assert_eq!(
            view(2).line(),
            "   2 s  sent 1.00k/s  answered 1.00k/s  lost 0  in flight 0  p50 41.0 µs  p99 41.0 µs  p99.9 41.0 µs"
        );
    }
}
