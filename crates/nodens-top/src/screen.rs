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
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(5),
        Constraint::Length(leaks.min(frame.area().height / 2)),
        Constraint::Length(5),
        Constraint::Length(stopped),
        Constraint::Min(4),
        Constraint::Length(1),
    ]);
    let [head, figures_at, leaks_at, why_at, stopped_at, table_at, foot] =
        areas.areas(frame.area());
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
    let mut spans = vec![
        Span::from("  DNS of "),
        Span::from(report.host.clone()).bold(),
        Span::from(format!("   counting for {}", duration(report.counted_s))).dark_gray(),
    ];
    if view.paused {
        spans.push("   paused".yellow());
    }
    if !view.trouble.is_empty() {
        spans.push(format!("   {}", view.trouble).red());
    }
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
    let areas: [Rect; 4] = Layout::horizontal([Constraint::Ratio(1, 4); 4]).areas(area);
    for ((title, color, of, aside), area) in all.into_iter().zip(areas) {
        let block = panel(title);
        let inside = block.inner(area);
        frame.render_widget(block, area);
        let [value, chart] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(inside);
        let text = Line::from(vec![
            Span::from(rate(of(now))).bold().fg(color),
            "/s".dark_gray(),
            aside.dark_gray(),
        ]);
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
    let row = |(index, leak): (usize, &Leak)| {
        let who = leak.sources.first().map_or(String::new(), whose);
        let who = match leak.source_count {
            0 | 1 => who,
            many => format!("{who} +{}", many - 1),
        };
        let row = Row::new([
            Cell::from(leak.name.clone()).style(Style::new().fg(color(leak.kind)).bold()),
            Cell::from(kind_text(leak.kind)),
            right(rate(leak.rate)),
            right(rate(leak.upstream)),
            right(format!("×{}", times(leak.amplification))),
            Cell::from(who),
        ]);
        let chosen = Style::new().add_modifier(Modifier::REVERSED);
        if index == view.selected { row.style(chosen) } else { row }
    };
    let height = usize::from(area.height.saturating_sub(3)).max(1);
    let chosen = view.selected.min(report.leaks.len() - 1);
    let from = if chosen == view.selected { (chosen + 1).saturating_sub(height) } else { 0 };
    let rows = report.leaks.iter().enumerate().skip(from).map(row);
    let widths = [
        Constraint::Fill(3),
        Constraint::Length(11),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Fill(2),
    ];
    let head = titles(&["name", "kind", "wasted/s", "upstream", "lookup", "who"]);
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
    let row = |client: &Client| {
        Row::new([
            Cell::from(whose(&client.source)),
            Cell::from(client.source.address.to_string()).style(Style::new().fg(Color::DarkGray)),
            right(rate(client.source.rate)),
            right(rate(client.upstream)),
            right(percent(client.denied, client.source.rate)),
            right(percent(client.failed, client.source.rate)),
        ])
    };
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
    ];
    let head = titles(&["client", "address", "/s", "upstream", "NXDOMAIN", "failed"]);
    let table = Table::new(clients.iter().map(row), widths).header(head).column_spacing(2);
    frame.render_widget(table.block(panel(" Top clients ")), area);
}

fn names_table(frame: &mut Frame<'_>, area: Rect, title: &str, names: &[Name]) {
    let row = |name: &Name| {
        Row::new([
            Cell::from(name.name.clone()),
            right(rate(name.rate)),
            right(rate(name.upstream)),
            right(percent(name.denied, name.rate)),
            right(milliseconds(name.wait_ms)),
            right(milliseconds(name.wait_max_ms)),
        ])
    };
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
    ];
    let head = titles(&["name", "/s", "upstream", "NXDOMAIN", "mean", "longest"]);
    let table = Table::new(names.iter().map(row), widths).header(head).column_spacing(2);
    frame.render_widget(table.block(panel(title)), area);
}

fn titles(titles: &[&str]) -> Row<'static> {
    let left = ["name", "kind", "who", "client", "address"];
    let cell = |title: &&str| match left.contains(title) {
        true => Cell::from((*title).to_owned()),
        false => right((*title).to_owned()),
    };
    Row::new(titles.iter().map(cell).collect::<Vec<_>>()).style(Style::new().fg(Color::DarkGray))
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
}
