//! The numbers of a running load for Prometheus, in its text format, over HTTP.

use crate::http::{self, Page};
use anyhow::{Context, Result};
use lab_histogram::Histogram;
use lab_load::Progress;
use lab_load::tally::{Cohort, Counts};
use nodens_wire::Rcode;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

/// Upper bounds of the buckets in nanoseconds, with the text of the seconds.
const BOUNDS: [(u64, &str); 20] = [
    (10_000, "1e-05"),
    (20_000, "2e-05"),
    (50_000, "5e-05"),
    (100_000, "0.0001"),
    (200_000, "0.0002"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_000_000, "0.002"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (20_000_000, "0.02"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (200_000_000, "0.2"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_000_000_000, "2"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
    (20_000_000_000, "20"),
];
const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Sums over the seconds so far. They never fall: a second that is not final is known by its last
/// report, and what becomes final is at least that.
#[derive(Default)]
struct Sums {
    counts: Counts,
    in_flight: u64,
    done: Cohort,
    open: BTreeMap<u64, Cohort>,
}

impl Sums {
    fn add(&mut self, progress: &Progress) {
        self.counts.add(&progress.counts);
        self.in_flight = progress.in_flight;
        self.open.insert(progress.second, progress.cohort.clone());
        for (second, cohort) in &progress.finals {
            self.open.remove(second);
            self.done.merge(cohort);
        }
    }

    fn text(&self, server: &str) -> String {
        let mut all = self.done.clone();
        self.open.values().for_each(|cohort| all.merge(cohort));
        let mut out = String::new();
        let version = env!("CARGO_PKG_VERSION");
        head(&mut out, "info", "gauge", "Transport, server and plan of this run.");
        _ = writeln!(out, "nodens_lab_info{{version=\"{version}\",server=\"{server}\"}} 1");
        head(&mut out, "in_flight", "gauge", "Queries without an outcome at the last full second.");
        _ = writeln!(out, "nodens_lab_in_flight {}", self.in_flight);
        let c = &self.counts;
        let groups = [
            ("sent_total", "Queries sent.", "", &[("", c.sent)][..]),
            (
                "questions_total",
                "Queries by outcome.",
                "outcome",
                &[
                    ("answered", c.answered),
                    ("timed_out", c.timed_out),
                    ("icmp_refused", c.refused),
                    ("connection_failed", c.connection_failed),
                    ("interrupted", c.interrupted),
                    ("skipped", c.skipped),
                    ("send_error", c.send_errors),
                ],
            ),
            (
                "messages_total",
                "Received messages by kind.",
                "kind",
                &[
                    ("answer", c.answered),
                    ("late", c.late),
                    ("duplicate", c.duplicate),
                    ("mismatched", c.mismatched),
                    ("unknown", c.unknown),
                    ("malformed", c.malformed),
                ],
            ),
        ];
        for (name, help, label, values) in groups {
            head(&mut out, name, "counter", help);
            for (value, count) in values {
                sample(&mut out, name, label, value, *count);
            }
        }
        head(&mut out, "answers_total", "counter", "Answers by RCODE.");
        for (code, count) in all.rcodes.iter() {
            sample(&mut out, "answers_total", "rcode", &Rcode(code).to_string(), count);
        }
        histogram(&mut out, &all.response);
        out
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    _ = write!(out, "# HELP nodens_lab_{name} {help}\n# TYPE nodens_lab_{name} {kind}\n");
}

fn sample(out: &mut String, name: &str, label: &str, value: &str, count: u64) {
    let labels = if label.is_empty() { String::new() } else { format!("{{{label}=\"{value}\"}}") };
    _ = writeln!(out, "nodens_lab_{name}{labels} {count}");
}

/// Lost queries took at least the timeout: they are counted, and in no bucket but the last.
fn histogram(out: &mut String, times: &Histogram) {
    let name = "response_seconds";
    let help =
        "From the intended time of sending to the answer; lost queries are above all buckets.";
    head(out, name, "histogram", help);
    let mut buckets = times.buckets().peekable();
    let mut below = 0;
    for (bound, text) in BOUNDS {
        while let Some((_, _, count)) = buckets.next_if(|(_, high, _)| *high <= bound) {
            below += count;
        }
        _ = writeln!(out, "nodens_lab_{name}_bucket{{le=\"{text}\"}} {below}");
    }
    let all = times.recorded() + times.censored();
    let sum = times.to_parts().sum as f64 / 1e9;
    _ = writeln!(out, "nodens_lab_{name}_bucket{{le=\"+Inf\"}} {all}");
    _ = writeln!(out, "nodens_lab_{name}_sum {sum}\nnodens_lab_{name}_count {all}");
}

/// An endpoint that serves the sums of the seconds given to it.
pub(crate) struct Endpoint {
    sums: Sums,
    server: String,
    page: Arc<Mutex<String>>,
}

impl Endpoint {
    /// Listens on `address`; the threads that serve end with the process.
    pub(crate) fn open(address: SocketAddr, server: String) -> Result<Self> {
        let failed = || format!("cannot serve metrics on {address}");
        let listener = TcpListener::bind(address).with_context(failed)?;
        let address = listener.local_addr().with_context(failed)?;
        let sums = Sums::default();
        let page = Arc::new(Mutex::new(sums.text(&server)));
        let shared = Arc::clone(&page);
        http::serve(listener, move |path| {
            answer(path, &shared.lock().unwrap_or_else(PoisonError::into_inner))
        });
        crate::term::note(&format!("metrics on http://{address}/metrics"));
        Ok(Self { sums, server, page })
    }

    pub(crate) fn add(&mut self, progress: &Progress) {
        self.sums.add(progress);
        let text = self.sums.text(&self.server);
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

fn answer(path: &str, page: &str) -> Page {
    match path.split('?').next() {
        Some("/metrics") => Page::found(TYPE, page.to_owned()),
        _ => Page::not_found("the metrics are at /metrics"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn cohort(answered: u64, lost: u64, took: u64) -> Cohort {
        let mut cohort =
            Cohort { sent: answered + lost, answered, timed_out: lost, ..Cohort::default() };
        cohort.response.record_n(took, answered);
        (0..lost).for_each(|_| cohort.response.record_censored(2_000_000_000));
        cohort.rcodes.add(0, answered);
        cohort
    }

    /// The samples of a page, as a scraper reads them: name with labels, and value.
    fn scrape(text: &str) -> BTreeMap<String, f64> {
        let mut samples = BTreeMap::new();
        let mut kind = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                kind = rest.split(' ').next().map(str::to_owned);
                continue;
            }
            if line.starts_with("# HELP ") {
                continue;
            }
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(kind.as_deref().unwrap()), "{line} is of another family");
            assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
        samples
    }

    #[test]
    fn counters_never_fall_when_seconds_become_final() {
        let mut sums = Sums::default();
        let counts = Counts { sent: 10, answered: 8, ..Counts::default() };
        let step =
            |second, cohort, finals| Progress { second, counts, cohort, in_flight: 2, finals };
        let seconds = [
            step(0, cohort(8, 0, 30_000), vec![]),
            step(1, cohort(8, 0, 3_000_000), vec![]),
            step(2, cohort(8, 0, 400_000_000), vec![(0, cohort(9, 1, 30_000))]),
            step(3, cohort(8, 0, 30_000), vec![(1, cohort(8, 2, 3_000_000))]),
        ];
        let mut before = scrape(&sums.text("x"));
        for progress in &seconds {
            sums.add(progress);
            let after = scrape(&sums.text("x"));
            for (name, value) in &before {
                assert!(name.contains("in_flight") || after[name] >= *value, "{name}");
            }
            before = after;
        }
        assert_eq!(before["nodens_lab_sent_total"], 40.0);
        assert_eq!(before["nodens_lab_answers_total{rcode=\"NOERROR\"}"], 33.0);
        let bucket =
            |le: &str| before[&format!("nodens_lab_response_seconds_bucket{{le=\"{le}\"}}")];
        assert_eq!((bucket("2e-05"), bucket("5e-05"), bucket("0.005")), (0.0, 17.0, 25.0));
        assert_eq!((bucket("0.5"), bucket("20"), bucket("+Inf")), (33.0, 33.0, 36.0));
        assert_eq!(before["nodens_lab_response_seconds_count"], 36.0);
    }

    #[test]
    fn the_buckets_are_what_their_texts_say_and_rise() {
        assert!(BOUNDS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (nanos, text) in BOUNDS {
            assert_eq!((text.parse::<f64>().unwrap() * 1e9).round() as u64, nanos);
        }
    }

    #[test]
    fn the_endpoint_answers_a_scraper_and_whoever_else_comes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            for _ in 0..3 {
                let (stream, _) = listener.accept().unwrap();
                http::answer(stream, |path| answer(path, "page 1\n")).unwrap();
            }
        });
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let found = ask("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n");
        assert!(found.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
        assert!(
            found.ends_with("Content-Length: 7\r\nConnection: close\r\n\r\npage 1\n"),
            "{found}"
        );
        assert!(ask("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        thread.join().unwrap();
    }
}
