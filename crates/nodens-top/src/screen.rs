//! A report in a terminal.

use nodens_insight::text::{duration, kind_text, milliseconds, percent, rate, times, why};
use nodens_insight::{Client, Leak, LeakKind, Moment, Name, Report, Source};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Cell, Padding, Paragraph, Row, Sparkline, Table, Wrap};
use ratatui::{DefaultTerminal, Frame, Terminal};
use std::time::Duration;

/// The least columns of a figure: of a number that is cut, the rest is another number.
const FIGURE: u16 = 14;
/// Columns of a frame and its padding.
const FRAME: u16 = 4;
/// Columns between those of a table.
const SPACING: u16 = 2;
/// The least columns of a name beside numbers.
const NAME_MIN: u16 = 12;
/// From how many columns on a table says of whom or where besides.
const WIDE: u16 = 75;

/// What is shown below the leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tab {
    /// Who asks most.
    #[default]
    Clients,
    /// What is asked for most.
    Names,
    /// What is waited for most.
    Slow,
}

/// What the person at the terminal has chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// Which table.
    pub(crate) tab: Tab,
    /// Which leak is explained.
    pub(crate) selected: usize,
    /// Why what is shown is not the newest; empty if it is.
    pub(crate) trouble: String,
    /// Whether the view stands still.
    pub(crate) paused: bool,
}

impl Tab {
    /// The next one.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Clients => Self::Names,
            Self::Names => Self::Slow,
            Self::Slow => Self::Clients,
        }
    }
}

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, report: &Report, view: &View) {
    let leaks = (report.leaks.len() as u16).clamp(1, 8) + 3;
    let stopped = u16::from(!report.stopped.is_empty());
    // Whether the rest is the newest stands in the first row, however few rows there are.
    let [head, rest] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(frame.area());
    let areas = Layout::vertical([
        Constraint::Length(5),
        Constraint::Length(leaks.min(frame.area().height / 2)),
        Constraint::Length(5),
        Constraint::Length(stopped),
        Constraint::Min(4),
        Constraint::Length(1),
    ]);
    let [figures_at, leaks_at, why_at, stopped_at, table_at, foot] = areas.areas(rest);
    draw_head(frame, head, report, view);
    figures(frame, figures_at, report);
    draw_leaks(frame, leaks_at, report, view);
    explain(frame, why_at, report.leaks.get(view.selected));
    let names: Vec<_> = report.stopped.iter().map(|leak| leak.name.as_str()).collect();
    let text = format!("  Stopped by a template: {}", names.join(", "));
    frame.render_widget(Paragraph::new(text.green()), stopped_at);
    match view.tab {
        Tab::Clients => clients(frame, table_at, &report.clients),
        Tab::Names => names_table(frame, table_at, " For what ", &report.names),
        Tab::Slow => names_table(frame, table_at, " Longest waited for ", &report.slow),
    }
    let keys = "  q quit   ↑↓ choose a leak   Tab clients, names, slow names   p pause";
    frame.render_widget(Paragraph::new(keys.dark_gray()), foot);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, report: &Report, view: &View) {
    let mut spans = Vec::new();
    // A name of a host can be as long as the row: what must be seen comes first.
    if !view.trouble.is_empty() {
        spans.push(format!("  Not the newest: {}", view.trouble).red());
    }
    if view.paused {
        spans.push("  paused".yellow());
    }
    spans.extend([
        Span::from("  DNS of "),
        Span::from(report.host.clone()).bold(),
        Span::from(format!("   counting for {}", duration(report.counted_s))).dark_gray(),
    ]);
    frame.render_widget(Line::from(spans), area);
}

fn panel(title: &str) -> Block<'_> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(Color::DarkGray))
        .title(title.bold())
        .padding(Padding::horizontal(1))
}

fn figures(frame: &mut Frame<'_>, area: Rect, report: &Report) {
    let now = &report.now;
    let of_all = |part: f64| format!(" {}", percent(part, now.questions));
    type Figure = (&'static str, Color, fn(&Moment) -> f64, String);
    let all: [Figure; 4] = [
        (" Queries ", Color::Blue, |m| m.questions, String::new()),
        (" To upstreams ", Color::Magenta, |m| m.upstream, of_all(now.upstream)),
        (" NXDOMAIN ", Color::Yellow, |m| m.denied, of_all(now.denied)),
        (" Failures ", Color::Red, |m| m.failed, of_all(now.failed)),
    ];
    let count = (area.width / FIGURE).clamp(1, all.len() as u16);
    let each = vec![Constraint::Ratio(1, count.into()); count.into()];
    let areas = Layout::horizontal(each).split(area);
    for ((title, color, of, aside), area) in all.into_iter().zip(areas.iter().copied()) {
        let block = panel(title);
        let inside = block.inner(area);
        frame.render_widget(block, area);
        let [value, chart] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(inside);
        let mut text =
            Line::from(vec![Span::from(rate(of(now))).bold().fg(color), "/s".dark_gray()]);
        if text.width() + aside.len() <= usize::from(value.width) {
            text.push_span(aside.dark_gray());
        }
        frame.render_widget(text, value);
        let width = usize::from(chart.width);
        let history = report.history.iter().map(|moment| (of(moment) * 10.0) as u64);
        let history: Vec<u64> = history.collect();
        let newest = history.get(history.len().saturating_sub(width)..).unwrap_or_default();
        let spark = Sparkline::default().data(newest.iter().copied()).style(Style::new().fg(color));
        frame.render_widget(spark, chart);
    }
}

fn draw_leaks(frame: &mut Frame<'_>, area: Rect, report: &Report, view: &View) {
    let block = panel(" Wasted queries, most costly first ");
    if report.leaks.is_empty() {
        let text = "None: every name that clients query exists.".green();
        return frame.render_widget(Paragraph::new(text).block(block), area);
    }
    let is_wide = area.width >= WIDE;
    let widths = columns(area.width, 1 + usize::from(is_wide), &[11, 9, 9, 7]);
    let row = |(index, leak): (usize, &Leak)| {
        let who = leak.sources.first().map_or(String::new(), whose);
        let who = match leak.source_count {
            0 | 1 => who,
            many => format!("{who} +{}", many - 1),
        };
        let cells = [
            Cell::from(kind_text(leak.kind)),
            right(rate(leak.rate)),
            right(rate(leak.upstream)),
            right(format!("×{}", times(leak.amplification))),
        ];
        let name = Cell::from(leak.name.clone()).style(Style::new().fg(color(leak.kind)).bold());
        let who = is_wide.then(|| Cell::from(who));
        let row =
            Row::new([name].into_iter().chain(cells.into_iter().take(widths.len())).chain(who));
        let chosen = Style::new().add_modifier(Modifier::REVERSED);
        if index == view.selected { row.style(chosen) } else { row }
    };
    let height = usize::from(area.height.saturating_sub(3)).max(1);
    let chosen = view.selected.min(report.leaks.len() - 1);
    let from = if chosen == view.selected { (chosen + 1).saturating_sub(height) } else { 0 };
    let rows = report.leaks.iter().enumerate().skip(from).map(row);
    let shown = ["kind", "wasted/s", "upstream", "lookup"].into_iter().take(widths.len());
    let head = titles(["name"].into_iter().chain(shown).chain(is_wide.then_some("who")));
    let who = is_wide.then_some(Constraint::Fill(2));
    let widths = [Constraint::Fill(3)].into_iter().chain(widths.iter().copied()).chain(who);
    frame.render_widget(Table::new(rows, widths).header(head).column_spacing(2).block(block), area);
}

fn color(kind: LeakKind) -> Color {
    match kind {
        LeakKind::Name => Color::Red,
        LeakKind::Search => Color::Blue,
        LeakKind::Storm => Color::Yellow,
        LeakKind::Failure => Color::Magenta,
    }
}

/// The chosen leak in words, and what stops it.
fn explain(frame: &mut Frame<'_>, area: Rect, leak: Option<&Leak>) {
    let Some(leak) = leak else { return };
    let who = leak.sources.iter().map(whose).collect::<Vec<_>>().join(", ");
    let mut lines = vec![
        Line::from(format!("  {}", why(leak))),
        Line::from(vec!["  from ".dark_gray(), Span::from(who)]),
    ];
    if !leak.command.is_empty() {
        lines.push(Line::from(vec!["  stop it: ".dark_gray(), leak.command.clone().green()]));
    }
    let words = Paragraph::new(lines).wrap(Wrap { trim: false });
    frame.render_widget(words.block(Block::new().padding(Padding::right(2))), area);
}

fn whose(source: &Source) -> String {
    match &source.place {
        Some(place) if place.namespace.is_empty() => place.pod.clone(),
        Some(place) => format!("{}/{}", place.namespace, place.pod),
        None => source.address.to_string(),
    }
}

fn clients(frame: &mut Frame<'_>, area: Rect, clients: &[Client]) {
    let is_wide = area.width >= WIDE;
    let widths = columns(area.width, 1 + usize::from(is_wide), &[9; 4]);
    let row = |client: &Client| {
        let numbers = [
            right(rate(client.source.rate)),
            right(rate(client.upstream)),
            right(percent(client.denied, client.source.rate)),
            right(percent(client.failed, client.source.rate)),
        ];
        let address = client.source.address.to_string();
        let address = Cell::from(address).style(Style::new().fg(Color::DarkGray));
        let names =
            [Cell::from(whose(&client.source))].into_iter().chain(is_wide.then_some(address));
        Row::new(names.chain(numbers.into_iter().take(widths.len())))
    };
    let shown = ["/s", "upstream", "NXDOMAIN", "failed"].into_iter().take(widths.len());
    let head = titles(["client"].into_iter().chain(is_wide.then_some("address")).chain(shown));
    let address = is_wide.then_some(Constraint::Fill(1));
    let widths = [Constraint::Fill(2)].into_iter().chain(address).chain(widths.iter().copied());
    let table = Table::new(clients.iter().map(row), widths).header(head).column_spacing(2);
    frame.render_widget(table.block(panel(" Top clients ")), area);
}

fn names_table(frame: &mut Frame<'_>, area: Rect, title: &str, names: &[Name]) {
    let widths = columns(area.width, 1, &[9; 5]);
    let row = |name: &Name| {
        let numbers = [
            right(rate(name.rate)),
            right(rate(name.upstream)),
            right(percent(name.denied, name.rate)),
            right(milliseconds(name.wait_ms)),
            right(milliseconds(name.wait_max_ms)),
        ];
        let numbers = numbers.into_iter().take(widths.len());
        Row::new([Cell::from(name.name.clone())].into_iter().chain(numbers))
    };
    let shown = ["/s", "upstream", "NXDOMAIN", "mean", "longest"].into_iter().take(widths.len());
    let head = titles(["name"].into_iter().chain(shown));
    let widths = [Constraint::Fill(1)].into_iter().chain(widths.iter().copied());
    let table = Table::new(names.iter().map(row), widths).header(head).column_spacing(2);
    frame.render_widget(table.block(panel(title)), area);
}

/// The columns that fit whole beside `names` columns of names: of a number that is cut, the rest is
/// another number.
fn columns(width: u16, names: usize, wanted: &[u16]) -> Vec<Constraint> {
    let names = NAME_MIN.saturating_mul(names as u16);
    let mut left = width.saturating_sub(FRAME.saturating_add(names));
    let fits = |column: &&u16| {
        let rest = left.checked_sub(**column + SPACING);
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    wanted.iter().take_while(fits).map(|column| Constraint::Length(*column)).collect()
}

fn titles(titles: impl Iterator<Item = &'static str>) -> Row<'static> {
    let left = ["name", "kind", "who", "client", "address"];
    let cell = |title: &'static str| match left.contains(&title) {
        true => Cell::from(title),
        false => right(title.to_owned()),
    };
    Row::new(titles.map(cell).collect::<Vec<_>>()).style(Style::new().fg(Color::DarkGray))
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// A report as lines of text, on a screen of `size` columns and rows.
pub(crate) fn text(report: &Report, size: (u16, u16)) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(size.0, size.1));
    _ = terminal
        .draw(|frame| draw(frame, report, &View { selected: usize::MAX, ..View::default() }));
    let buffer = terminal.backend().buffer();
    let mut out = String::new();
    for row in buffer.content().chunks(usize::from(size.0).max(1)) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// What a person pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Enough seen.
    Quit,
    /// The leak above.
    Up,
    /// The leak below.
    Down,
    /// The next table.
    Tab,
    /// Stand still, or go on.
    Pause,
    /// Anything else, such as another size of the terminal.
    Other,
}

/// The terminal of this process, drawn on until the value is dropped.
pub(crate) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes over the terminal.
    pub(crate) fn open() -> std::io::Result<Self> {
        Ok(Self(ratatui::try_init()?))
    }

    /// Draws a report.
    pub(crate) fn draw(&mut self, report: &Report, view: &View) -> std::io::Result<()> {
        self.0.draw(|frame| draw(frame, report, view)).map(|_| ())
    }

    /// Waits for a key, at most for `time`.
    pub(crate) fn wait(&mut self, time: Duration) -> std::io::Result<Option<Key>> {
        if !event::poll(time)? {
            return Ok(None);
        }
        let Event::Key(key) = event::read()? else { return Ok(Some(Key::Other)) };
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        Ok(Some(match key.code {
            KeyCode::Char('c') if control => Key::Quit,
            KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
            KeyCode::Up | KeyCode::Char('k') => Key::Up,
            KeyCode::Down | KeyCode::Char('j') => Key::Down,
            KeyCode::Tab | KeyCode::Right => Key::Tab,
            KeyCode::Char('p' | ' ') => Key::Pause,
            _ => Key::Other,
        }))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_its_size_whatever_is_drawn() {
        let report: Report = serde_json::from_str(include_str!("../tests/report.json")).unwrap();
        for size in [(1, 1), (20, 5), (120, 44), (500, 200)] {
            for report in [&report, &Report::default()] {
                assert_eq!(text(report, size).lines().count(), usize::from(size.1));
            }
        }
    }

    /// The screen with `view`, as lines.
    fn lines(report: &Report, view: &View, size: (u16, u16)) -> Vec<String> {
        let Ok(mut terminal) = Terminal::new(TestBackend::new(size.0, size.1));
        _ = terminal.draw(|frame| draw(frame, report, view));
        let rows = terminal.backend().buffer().content().chunks(usize::from(size.0));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    #[test]
    fn a_number_that_has_no_room_is_left_out_and_never_cut() {
        let mut report: Report =
            serde_json::from_str(include_str!("../tests/report.json")).unwrap();
        report.clients.truncate(1);
        report.clients[0].source.rate = 123_456.0;
        report.now.questions = 123_456.0;
        let whole = rate(123_456.0);
        let mut with = 0;
        for width in 1..150 {
            let screen = lines(&report, &View::default(), (width, 44));
            let at = screen.iter().position(|line| line.contains("client ") && line.contains("/s"));
            let Some(row) = at.and_then(|at| screen.get(at + 1)) else { continue };
            with += 1;
            assert!(row.contains(&whole), "{width}: {row}");
            assert!(screen[2].contains(&format!("{whole}/s")), "{width}: {}", screen[2]);
        }
        assert!(with > 100, "{with}");
    }

    #[test]
    fn that_numbers_are_old_is_said_in_any_window_and_behind_any_name() {
        let host = "a-node-of-a-cluster-with-a-name-that-is-as-long-as-names-of-nodes-are.example";
        let report = Report { host: host.to_owned(), ..Report::default() };
        let view = View { trouble: "@nodens/top: gone".to_owned(), ..View::default() };
        for size in [(40, 3), (40, 10), (80, 24)] {
            let screen = lines(&report, &view, size);
            assert!(screen[0].contains("Not the newest: @nodens/top: gone"), "{screen:?}");
        }
    }
}
