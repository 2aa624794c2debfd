//! Every value of a metric, group by group, with quartiles and the interval of the median.

use super::{class, value};
use crate::plot::{Key, Places, Plot, Readout, folded};
use crate::scale::{Linear, Tick};
use crate::svg::{Drawing, Path, WIDTH};
use crate::table::{Head, Table};
use lab_result::analysis::{AnalysedMetric, AnalysisFile, Sample};
use maud::{Markup, html};

/// Height of a plot.
const HEIGHT: f64 = 200.0;
/// The parts of a group's width that its box and its dots take, beside each other.
const BOX: f64 = 0.2;
const DOTS: f64 = 0.2;
/// The part of it between the middle and the centre of either.
const ASIDE: f64 = 0.13;
/// More values than this are small dots.
const LARGE_MAX: usize = 60;
/// More values than this of a group are not drawn one by one.
const DOTS_MAX: usize = 400;
/// More groups than this have no room for all their names.
const NAMES_MAX: usize = 12;
/// The part of the height that is left free above and below.
const FREE: f64 = 0.08;

/// A plot for each metric that is compared and of which a group has more than one value.
pub(crate) fn values(file: &AnalysisFile, at: usize) -> Markup {
    let is_shown = |metric: &AnalysedMetric| !metric.contrasts.is_empty() || file.groups.len() == 1;
    let shown = file.metrics.iter().enumerate().filter(|(_, metric)| is_shown(metric));
    let shown = shown.filter(|(_, metric)| metric.samples.iter().any(|one| one.values.len() > 1));
    html! {
        @for (number, metric) in shown {
            h3 { (metric.name) }
            (plot(file, metric, &format!("values{at}-{number}")))
        }
    }
}

/// A linear axis that need not begin at zero.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(samples: &[Sample]) -> Self {
        let all =
            || samples.iter().flat_map(|sample| &sample.values).filter(|value| value.is_finite());
        let low = all().copied().fold(f64::INFINITY, f64::min);
        let high = all().copied().fold(f64::NEG_INFINITY, f64::max);
        // Values that hardly differ must not look as if they did.
        let room = ((high - low) * FREE).max(high.abs() * 0.01).max(1e-9);
        if low > high {
            Self { low: 0.0, high: 1.0 }
        } else {
            Self { low: low - room, high: high + room }
        }
    }

    fn at(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        (1.0 - self.at(value)) * HEIGHT
    }

    /// Marks at round values, as many as a linear scale of this length has.
    fn ticks(&self, label: impl Fn(f64) -> String) -> Vec<Tick> {
        let span = self.high - self.low;
        let of_span = Linear::up_to(span).ticks(|value| format!("{value}"));
        let steps: Vec<f64> = of_span.iter().filter_map(|tick| tick.label.parse().ok()).collect();
        let Some(step) = steps.get(1).copied().filter(|step| *step > 0.0) else {
            return Vec::new();
        };
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last.min(first.saturating_add(20)))
            .map(|number| {
                let value = number as f64 * step;
                Tick { at: self.at(value), label: label(value), hint: String::new(), minor: false }
            })
            .collect()
    }
}

fn plot(file: &AnalysisFile, metric: &AnalysedMetric, id: &str) -> Markup {
    let axis = Axis::of(&metric.samples);
    let width = WIDTH / metric.samples.len().max(1) as f64;
    let mut drawing = Drawing::default();
    let (mut whiskers, mut boxes, mut medians, mut intervals) = Default::default();
    for (at, sample) in metric.samples.iter().enumerate() {
        let middle = (at as f64 + 0.5 - ASIDE) * width;
        let [low, q1, median, q3, high] = sample.five.map(|value| axis.y(value));
        Path::upright(&mut whiskers, middle, high, low);
        Path::rect(&mut boxes, middle - width * BOX / 2.0, q3, width * BOX, q1 - q3);
        Path::across(&mut medians, middle - width * BOX / 2.0, median, middle + width * BOX / 2.0);
        if let Some([from, to]) = sample.median_interval {
            Path::upright(
                &mut intervals,
                middle + width * (BOX / 2.0 + 0.02),
                axis.y(to),
                axis.y(from),
            );
        }
    }
    drawing.path("whisker", &whiskers);
    drawing.path("box", &boxes);
    drawing.path("median", &medians);
    drawing.path("line interval", &intervals);
    for (at, sample) in metric.samples.iter().enumerate() {
        let mut dots = Path::default();
        for (number, value) in sample.values.iter().enumerate().take(DOTS_MAX) {
            let x = (at as f64 + 0.5 + ASIDE + shift(number) * DOTS) * width;
            dots.dot(x, axis.y(*value));
        }
        let kind = if sample.values.len() > LARGE_MAX { "dot small" } else { "dot" };
        drawing.path_of(kind, &class(file, &sample.group), &dots);
    }
    let mut keys = vec![
        Key::line("whisker", "lowest to highest"),
        Key::filled("box", "middle half"),
        Key::line("median", "median"),
    ];
    if metric.samples.iter().any(|sample| sample.median_interval.is_some()) {
        keys.push(Key::line("interval", "interval of the median"));
    }
    let table = table(metric, id);
    let tick = |(at, sample): (usize, &Sample)| Tick {
        at: (at as f64 + 0.5) / metric.samples.len() as f64,
        label: sample.group.clone(),
        hint: String::new(),
        minor: metric.samples.len() > NAMES_MAX && at % 4 > 0,
    };
    let plot = Plot {
        height: HEIGHT,
        name: format!("Values of {} by group", metric.name),
        x_name: String::new(),
        y_name: metric.name.clone(),
        x: metric.samples.iter().enumerate().map(tick).collect(),
        y: axis.ticks(|number| value(metric, number)),
        keys,
        drawing,
        readout: Some(Readout {
            table: table.id.clone(),
            columns: (1..table.head.len()).collect(),
            places: Places::Even(metric.samples.len()),
            heat: None,
        }),
    };
    html! { (plot.render()) (folded(&table, "The groups in numbers")) }
}

/// Where a dot lies beside the middle of its group, −0.5 to 0.5: spread evenly, the same each time.
fn shift(number: usize) -> f64 {
    (number as f64 * 0.618_033_988_749_895).fract() - 0.5
}

fn table(metric: &AnalysedMetric, id: &str) -> Table {
    let head = [
        "group",
        "values",
        "lowest",
        "p25",
        "median",
        "p75",
        "highest",
        "interval of the median",
        "mean",
        "deviation",
    ];
    let mut table = Table::new(format!("{id}-table"), head.map(Head::plain).into());
    table.rows = metric
        .samples
        .iter()
        .map(|sample| {
            let of = |number: f64| value(metric, number);
            let interval =
                sample.median_interval.map(|[low, high]| format!("{} to {}", of(low), of(high)));
            let mut row = vec![sample.group.clone(), sample.values.len().to_string()];
            row.extend(sample.five.map(of));
            row.push(interval.unwrap_or_else(|| "–".to_owned()));
            row.push(of(sample.mean));
            row.push(sample.deviation.map_or("–".to_owned(), of));
            row
        })
        .collect();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_its_values_and_has_round_marks() {
        let sample = |values: &[f64]| Sample { values: values.to_vec(), ..Sample::default() };
        let axis = Axis::of(&[sample(&[281.0, 286.0]), sample(&[292.0, 298.0])]);
        assert!(axis.at(281.0) > 0.0 && axis.at(298.0) < 1.0);
        let labels: Vec<String> =
            axis.ticks(|value| format!("{value}")).into_iter().map(|t| t.label).collect();
        assert!(labels.contains(&"285".to_owned()) && labels.len() < 9, "{labels:?}");
        for values in [vec![], vec![0.0, 0.0], vec![5.0, 5.0], vec![-1e300, 1e300]] {
            let ticks = Axis::of(&[sample(&values)]).ticks(|value| format!("{value}"));
            assert!(
                ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.at)),
                "{values:?} {ticks:?}"
            );
        }
    }

    #[test]
    fn dots_lie_beside_each_other_within_their_group() {
        assert!((0..500).all(|number| shift(number).abs() <= 0.5));
    }
}
