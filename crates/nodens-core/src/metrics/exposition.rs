//! How the series are written for a scrape: as text of format 0.0.4, as OpenMetrics text 1.0 and
//! 0.0.1, and as delimited messages `io.prometheus.client.MetricFamily`.

use std::fmt::Write;

/// A format in which a scrape can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus text, format 0.0.4.
    Text,
    /// OpenMetrics text; the two versions there are look the same for what is shown here.
    OpenMetrics,
    /// `io.prometheus.client.MetricFamily`, each behind its length.
    Protobuf,
}

/// What a family's series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number that only grows.
    Counter,
    /// A number.
    Gauge,
    /// Cumulative buckets.
    Histogram,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A family's head.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
}

/// The value of one series.
pub(super) enum Value {
    Number(f64),
    Histogram {
        /// Upper bounds and the observations up to each; the one without bound is last.
        buckets: Vec<(f64, u64)>,
        sum: f64,
    },
}

/// A series: its labels as `name="value"` with the escapes of the text formats, and its value.
pub(super) type Sample<'a> = (&'a str, Value);

/// Writes families one after the other.
pub(super) struct Writer {
    format: Exposition,
    out: Vec<u8>,
}

impl Writer {
    pub(super) fn new(format: Exposition) -> Self {
        Self { format, out: Vec::with_capacity(16 * 1024) }
    }

    pub(super) fn family<'a>(&mut self, head: Head, samples: impl Iterator<Item = Sample<'a>>) {
        match self.format {
            Exposition::Protobuf => protobuf_family(head, samples, &mut self.out),
            format => text_family(format, head, samples, &mut self.out),
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.format == Exposition::OpenMetrics {
            self.out.extend_from_slice(b"# EOF\n");
        }
        self.out
    }
}

fn text_family<'a>(
    format: Exposition,
    head: Head,
    samples: impl Iterator<Item = Sample<'a>>,
    out: &mut Vec<u8>,
) {
    let open = format == Exposition::OpenMetrics;
    let Head { name, help, kind } = head;
    let (mut family, mut kind) = (name, kind.text());
    if open && head.kind == Kind::Counter {
        // There a counter's name is that of its series without the end.
        match name.strip_suffix("_total") {
            Some(stem) => family = stem,
            None => kind = "unknown",
        }
    }
    let mut text = String::new();
    let mut help = help.replace('\\', "\\\\").replace('\n', "\\n");
    if open {
        help = help.replace('"', "\\\"");
    }
    _ = writeln!(text, "# HELP {family} {help}\n# TYPE {family} {kind}");
    for (labels, value) in samples {
        match value {
            Value::Number(value) => {
                _ = writeln!(text, "{name}{} {}", braces(labels), number(value, open));
            }
            Value::Histogram { buckets, sum } => {
                let comma = if labels.is_empty() { "" } else { "," };
                for (bound, count) in &buckets {
                    let le = number(*bound, open);
                    _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{le}\"}} {count}");
                }
                let (braces, sum) = (braces(labels), number(sum, open));
                let count = buckets.last().map_or(0, |(_, count)| *count);
                _ = writeln!(text, "{name}_sum{braces} {sum}\n{name}_count{braces} {count}");
            }
        }
    }
    out.extend_from_slice(text.as_bytes());
}

fn braces(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

/// A number; OpenMetrics wants those that are no integers by nature to show it.
fn number(value: f64, open: bool) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let mut text = value.to_string();
    if open && value.is_finite() && !text.contains('.') {
        text.push_str(".0");
    }
    text
}

/// Fields of `MetricFamily`, `Metric`, `LabelPair`, `Gauge`, `Counter`, `Histogram` and `Bucket`.
mod field {
    pub(super) const FAMILY_NAME: u64 = 1;
    pub(super) const FAMILY_HELP: u64 = 2;
    pub(super) const FAMILY_TYPE: u64 = 3;
    pub(super) const FAMILY_METRIC: u64 = 4;
    pub(super) const METRIC_LABEL: u64 = 1;
    pub(super) const METRIC_GAUGE: u64 = 2;
    pub(super) const METRIC_COUNTER: u64 = 3;
    pub(super) const METRIC_HISTOGRAM: u64 = 7;
    pub(super) const LABEL_NAME: u64 = 1;
    pub(super) const LABEL_VALUE: u64 = 2;
    pub(super) const NUMBER_VALUE: u64 = 1;
    pub(super) const HISTOGRAM_COUNT: u64 = 1;
    pub(super) const HISTOGRAM_SUM: u64 = 2;
    pub(super) const HISTOGRAM_BUCKET: u64 = 3;
    pub(super) const BUCKET_COUNT: u64 = 1;
    pub(super) const BUCKET_BOUND: u64 = 2;
}

fn protobuf_family<'a>(head: Head, samples: impl Iterator<Item = Sample<'a>>, out: &mut Vec<u8>) {
    let mut family = Vec::new();
    octets(field::FAMILY_NAME, head.name.as_bytes(), &mut family);
    octets(field::FAMILY_HELP, head.help.as_bytes(), &mut family);
    let kind = match head.kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Histogram => 4,
    };
    integer(field::FAMILY_TYPE, kind, &mut family);
    for (labels, value) in samples {
        let mut metric = Vec::new();
        for (name, value) in pairs(labels) {
            let mut label = Vec::new();
            octets(field::LABEL_NAME, name.as_bytes(), &mut label);
            octets(field::LABEL_VALUE, value.as_bytes(), &mut label);
            octets(field::METRIC_LABEL, &label, &mut metric);
        }
        let mut message = Vec::new();
        let place = match value {
            Value::Number(value) => {
                double(field::NUMBER_VALUE, value, &mut message);
                if head.kind == Kind::Gauge { field::METRIC_GAUGE } else { field::METRIC_COUNTER }
            }
            Value::Histogram { buckets, sum } => {
                histogram(&buckets, sum, &mut message);
                field::METRIC_HISTOGRAM
            }
        };
        octets(place, &message, &mut metric);
        octets(field::FAMILY_METRIC, &metric, &mut family);
    }
    varint(family.len() as u64, out);
    out.extend_from_slice(&family);
}

fn histogram(buckets: &[(f64, u64)], sum: f64, out: &mut Vec<u8>) {
    let count = buckets.last().map_or(0, |(_, count)| *count);
    integer(field::HISTOGRAM_COUNT, count, out);
    double(field::HISTOGRAM_SUM, sum, out);
    // The bucket without bound is the count.
    for (bound, count) in buckets.iter().filter(|(bound, _)| bound.is_finite()) {
        let mut bucket = Vec::new();
        integer(field::BUCKET_COUNT, *count, &mut bucket);
        double(field::BUCKET_BOUND, *bound, &mut bucket);
        octets(field::HISTOGRAM_BUCKET, &bucket, out);
    }
}

/// The labels of `text` with their values as they were before the text formats' escapes.
fn pairs(text: &str) -> Vec<(&str, String)> {
    let mut pairs = Vec::new();
    let mut rest = text;
    while let Some((name, behind)) = rest.split_once("=\"") {
        let (mut value, mut chars) = (String::new(), behind.char_indices());
        let mut end = behind.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, escaped)) => value.push(escaped),
                    None => {}
                },
                c => value.push(c),
            }
        }
        pairs.push((name.trim_start_matches(','), value));
        rest = behind.get(end..).unwrap_or_default();
    }
    pairs
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn integer(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3, out);
    varint(value, out);
}

fn double(field: u64, value: f64, out: &mut Vec<u8>) {
    varint(field << 3 | 1, out);
    out.extend_from_slice(&value.to_le_bytes());
}

fn octets(field: u64, value: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | 2, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::super::Registry;
    use super::*;
    use std::sync::Arc;

    fn registry() -> Registry {
        let registry = Registry::new(1);
        let counter = registry.counter("a_total", "A \"b\".", &[("x", "1\\2\"3\n,y=\"")]);
        let histogram = registry.histogram("h_seconds", "H.", &[("x", "1")], &[0.5, 16e3], 1e-9);
        registry.gauge("g", "G.", &[], Arc::new(|| f64::INFINITY));
        let cells = registry.cells(0);
        cells.add(counter, 300);
        [1, 1_000_000_000].into_iter().for_each(|ns| cells.observe(histogram, ns));
        registry
    }

    #[test]
    fn open_metrics_text() {
        let text = String::from_utf8(registry().render_as(Exposition::OpenMetrics)).unwrap();
        let wanted = "# HELP a A \\\"b\\\".\n# TYPE a counter\n\
            a_total{x=\"1\\\\2\\\"3\\n,y=\\\"\"} 300.0\n\
            # HELP g G.\n# TYPE g gauge\ng +Inf\n\
            # HELP h_seconds H.\n# TYPE h_seconds histogram\n\
            h_seconds_bucket{x=\"1\",le=\"0.5\"} 1\n\
            h_seconds_bucket{x=\"1\",le=\"16000.0\"} 2\n\
            h_seconds_bucket{x=\"1\",le=\"+Inf\"} 2\n\
            h_seconds_sum{x=\"1\"} 1.000000001\nh_seconds_count{x=\"1\"} 2\n# EOF\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn protobuf_messages() {
        let octets = registry().render_as(Exposition::Protobuf);
        let family = &octets[1..][..usize::from(octets[0])];
        let label = b"\x0a\x0f\x0a\x01x\x12\x0a1\\2\"3\n,y=\"";
        let counter = [&[0x1a, 9, 9][..], &300f64.to_le_bytes()].concat();
        let head = b"\x0a\x07a_total\x12\x06A \"b\".\x18\x00\x22";
        let metric = [&label[..], &counter].concat();
        let wanted = [&head[..], &[metric.len() as u8], &metric].concat();
        assert_eq!(family, wanted);
    }

    #[test]
    fn labels_are_read_back() {
        assert_eq!(pairs(""), []);
        let expected = [("a", String::new()), ("b", "c,d=".to_owned())];
        assert_eq!(pairs("a=\"\",b=\"c,d=\""), expected);
    }
}
