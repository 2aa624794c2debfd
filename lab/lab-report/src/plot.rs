//! A plot: its area with axes around it, a legend above, and the text shown at each place.

use crate::run::Range;
use crate::scale::{self, Log, Tick};
use crate::svg::{Drawing, Path, WIDTH};
use crate::table::Table;
use lab_histogram::Quantile;
use maud::{Markup, PreEscaped, html};

/// Units of height of the band above an axis of latencies, where lost queries lie.
const BAND: f64 = 22.0;
/// Units between this band and the axis.
const GAP: f64 = 6.0;

/// A line of the legend; its sign is drawn in the same class as what it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// Class of the sign.
    pub(crate) class: String,
    /// How the sign is drawn.
    pub(crate) sign: Sign,
    /// What it stands for.
    pub(crate) text: String,
}

/// How a sign of the legend is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// A line.
    Line,
    /// A filled box.
    Box,
    /// A hollow dot.
    Ring,
    /// A dot.
    Dot,
}

impl Key {
    /// A line in `class`.
    pub(crate) fn line(class: impl Into<String>, text: impl Into<String>) -> Self {
        Self { class: class.into(), sign: Sign::Line, text: text.into() }
    }

    /// A filled box in `class`.
    pub(crate) fn filled(class: impl Into<String>, text: impl Into<String>) -> Self {
        Self { class: class.into(), sign: Sign::Box, text: text.into() }
    }

    /// A dot in `class`.
    pub(crate) fn dot(class: impl Into<String>, text: impl Into<String>) -> Self {
        Self { class: class.into(), sign: Sign::Dot, text: text.into() }
    }

    /// A hollow dot in `class`.
    pub(crate) fn ring(class: impl Into<String>, text: impl Into<String>) -> Self {
        Self { class: class.into(), sign: Sign::Ring, text: text.into() }
    }

    /// The sign alone.
    pub(crate) fn sign(&self) -> Markup {
        let (width, kind, path) = match self.sign {
            Sign::Line => (24, "line", "M1 6h22"),
            Sign::Box => (12, "fill", "M1 1h10v10h-10z"),
            Sign::Dot => (12, "dot", "M6 6h0"),
            Sign::Ring => (12, "ring", "M2 6a4 4 0 1 0 8 0a4 4 0 1 0 -8 0"),
        };
        let view = format!("0 0 {width} 12");
        html! {
            svg.sign viewBox=(view) width=(width) height="12" aria-hidden="true" {
                path class={ (kind) " " (self.class) } d=(path) {}
            }
        }
    }
}

/// The legend of a plot; nothing for no keys.
pub(crate) fn legend(keys: &[Key]) -> Markup {
    html! {
        @if !keys.is_empty() {
            ul.legend { @for key in keys { li { (key.sign()) (key.text) } } }
        }
    }
}

/// Where the rows of a table lie in the area.
pub(crate) enum Places {
    /// One after another, all of one width, in the given number of columns.
    Even(usize),
    /// At these places, 0 to 1.
    At(Vec<f64>),
}

/// The text shown at each place: cells of a table on the same page.
pub(crate) struct Readout {
    /// ID of the table.
    pub(crate) table: String,
    /// Its columns that belong to this plot.
    pub(crate) columns: Vec<usize>,
    /// Where its rows lie.
    pub(crate) places: Places,
    /// Counts of a heat map for [`Readout::places`], in the script's format.
    pub(crate) heat: Option<String>,
}

/// A plot.
pub(crate) struct Plot {
    /// Units and pixels of height.
    pub(crate) height: f64,
    /// What it shows, for those who cannot see it.
    pub(crate) name: String,
    /// What the axis across counts.
    pub(crate) x_name: String,
    /// What the axis upright counts.
    pub(crate) y_name: String,
    /// Marks of the axis across.
    pub(crate) x: Vec<Tick>,
    /// Marks of the axis upright.
    pub(crate) y: Vec<Tick>,
    /// The signs.
    pub(crate) keys: Vec<Key>,
    /// What is drawn over the grid.
    pub(crate) drawing: Drawing,
    /// What can be read in it.
    pub(crate) readout: Option<Readout>,
}

impl Plot {
    /// The plot as HTML.
    pub(crate) fn render(&self) -> Markup {
        html! {
            div.plot {
                div.plot-head { span.y-name { (self.y_name) } (legend(&self.keys)) }
                div.frame {
                    div.y aria-hidden="true" { @for tick in labelled(&self.y) { (mark("bottom", tick)) } }
                    (self.area())
                    div.x aria-hidden="true" { @for tick in labelled(&self.x) { (mark("left", tick)) } }
                    div.x-name aria-hidden="true" { (self.x_name) }
                }
            }
        }
    }

    fn area(&self) -> Markup {
        let style = format!("height:{}px", self.height);
        let drawn = html! { (self.grid().finish(self.height)) (self.drawing.finish(self.height)) };
        let Some(readout) = &self.readout else {
            return html! { div.area style=(style) role="img" aria-label=(self.name) { (drawn) } };
        };
        let columns: Vec<String> = readout.columns.iter().map(usize::to_string).collect();
        let (even, at) = match &readout.places {
            Places::Even(count) => (Some(count.to_string()), None),
            Places::At(places) => (
                None,
                Some(places.iter().map(|at| format!("{at:.4}")).collect::<Vec<_>>().join(" ")),
            ),
        };
        html! {
            div.area style=(style) role="img" aria-label=(self.name) tabindex="0"
                data-table=(readout.table) data-columns=(columns.join(" "))
                data-even=[even] data-at=[at] data-heat=[readout.heat.as_ref()] { (drawn) }
        }
    }

    fn grid(&self) -> Drawing {
        let (mut major, mut minor) = (Path::default(), Path::default());
        for tick in &self.y {
            let y = (1.0 - tick.at) * self.height;
            if is_strong(tick) { &mut major } else { &mut minor }.across(0.0, y, WIDTH);
        }
        for tick in &self.x {
            let x = tick.at * WIDTH;
            if is_strong(tick) { &mut major } else { &mut minor }.upright(x, 0.0, self.height);
        }
        let mut drawing = Drawing::default();
        drawing.path("grid-minor", &minor);
        drawing.path("grid", &major);
        drawing
    }
}

fn is_strong(tick: &Tick) -> bool {
    !tick.minor && !tick.label.is_empty()
}

fn labelled(ticks: &[Tick]) -> impl Iterator<Item = &Tick> {
    ticks.iter().filter(|tick| !tick.label.is_empty())
}

fn mark(side: &str, tick: &Tick) -> Markup {
    let style = format!("{side}:{:.2}%", tick.at * 100.0);
    html! {
        span style=(style) .minor[tick.minor] {
            (tick.label)
            @if !tick.hint.is_empty() { small { (tick.hint) } }
        }
    }
}

/// A table that is shown when it is asked for.
pub(crate) fn folded(table: &Table, summary: &str) -> Markup {
    html! {
        details { summary { (summary) } (table.render()) }
    }
}

/// An axis of response times; lost queries, whose time is only known to be at least something,
/// lie in a band above it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    scale: Log,
    height: f64,
    floor: Option<u64>,
}

impl Latencies {
    /// An axis of `height` units that holds `range`.
    pub(crate) fn new(range: Range, height: f64) -> Self {
        let (low, high) = range.recorded.unwrap_or((1_000_000, 1_000_000));
        let scale = match range.floor {
            None => Log::around(low as f64, high as f64),
            Some(floor) => Log::up_to(low as f64, high.max(floor) as f64),
        };
        Self { scale, height, floor: range.floor }
    }

    /// The scale without the band.
    pub(crate) fn scale(&self) -> &Log {
        &self.scale
    }

    /// Units above the scale.
    pub(crate) fn top(&self) -> f64 {
        if self.floor.is_some() { BAND + GAP } else { 0.0 }
    }

    /// Top and height of the band.
    pub(crate) fn band(&self) -> Option<(f64, f64)> {
        self.floor.map(|_| (0.0, BAND))
    }

    /// The unit, counted from the top, at which a time is drawn.
    pub(crate) fn y(&self, nanos: f64) -> f64 {
        self.top() + (1.0 - self.scale.at(nanos)) * (self.height - self.top())
    }

    /// The same of a quantile: in the middle of the band if it is censored.
    pub(crate) fn y_of(&self, quantile: Quantile) -> Option<f64> {
        match quantile {
            Quantile::Empty => None,
            Quantile::Value(nanos) => Some(self.y(nanos as f64)),
            Quantile::AtLeast(_) => Some(BAND / 2.0),
        }
    }

    /// Marks, with one for the band.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        let part = (self.height - self.top()) / self.height;
        let mut ticks = self.scale.ticks();
        ticks.iter_mut().for_each(|tick| tick.at *= part);
        if let Some(floor) = self.floor {
            let crowded = 1.0 - (BAND + GAP + 9.0) / self.height;
            ticks.iter_mut().filter(|tick| tick.at > crowded).for_each(|tick| tick.label.clear());
            ticks.push(Tick {
                at: 1.0 - BAND / 2.0 / self.height,
                label: format!("≥ {}", scale::short_nanos(floor as f64)),
                hint: String::new(),
                minor: true,
            });
        }
        ticks
    }

    /// Draws the empty band.
    pub(crate) fn draw_band(&self, drawing: &mut Drawing) {
        if let Some((top, height)) = self.band() {
            let mut path = Path::default();
            path.rect(0.0, top, WIDTH, height);
            drawing.path("band", &path);
        }
    }
}

/// Text that is known to be safe, as HTML.
pub(crate) fn plain(text: &'static str) -> Markup {
    PreEscaped(text.to_owned())
}
