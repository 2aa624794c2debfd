//! The log writer: one thread that formats and writes what others hand over, so that nobody who
//! answers queries waits for a terminal, a pipe or a disk.

mod json;

use crate::flags::LogFormat;
use nodens_core::log::{Backlog, FailureRecord, Level, Levels, Record, Rules, Sink};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Records that may wait for the writer, of `LOG_BACKLOG_MAX` octets at the most.
const QUEUE_LEN: usize = 65_536;
/// How long the writer waits for work before it looks at its counts again.
const IDLE: Duration = Duration::from_secs(3600);

/// How long the end of the process waits for what is queued to be written: whoever reads the log
/// may have stopped.
const STOP_TIME: Duration = Duration::from_secs(2);
/// How often it looks meanwhile whether there is room in the queue.
const STOP_ROUND: Duration = Duration::from_millis(10);

/// The writer's handle.
pub(crate) struct Logger {
    /// Where to hand records to.
    pub(crate) sink: Sink,
    /// Lines that could not be written: full disk, closed pipe.
    pub(crate) lost: Arc<AtomicU64>,
    stop: SyncSender<Record>,
    /// Disconnected once the writer has ended.
    ended: Receiver<()>,
}

impl Logger {
    /// Starts the writer.
    pub(crate) fn start(format: LogFormat, output: impl Write + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(QUEUE_LEN);
        let lost = Arc::new(AtomicU64::new(0));
        let out = BufWriter::with_capacity(64 * 1024, output);
        let sink = Sink::new(sender.clone());
        let (counts, levels, backlog) = (Vec::new(), sink.levels().clone(), sink.backlog().clone());
        let mut writer = Writer { out, format, counts, lost: lost.clone(), levels, backlog };
        let (running, ended) = sync_channel(0);
        let run = move || {
            writer.run(&receiver);
            drop(running);
        };
        // Without a writer there is no log, but there are answers.
        _ = std::thread::Builder::new().name("log".to_owned()).spawn(run);
        Self { sink, lost, stop: sender, ended }
    }

    /// Writes what is queued, as far as it can be written in a short time, and ends the writer.
    pub(crate) fn stop(self) {
        let until = Instant::now() + STOP_TIME;
        // An empty line of level Fatal is never sent otherwise.
        let mut end = Record::Line { level: Level::Fatal, origin: "", text: String::new() };
        while let Err(TrySendError::Full(unsent)) = self.stop.try_send(end) {
            if Instant::now() >= until {
                return;
            }
            end = unsent;
            std::thread::sleep(STOP_ROUND);
        }
        _ = self.ended.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

/// Errors counted instead of written, until their period ends.
struct Count {
    rules: Arc<Rules>,
    pattern: usize,
    seen: u64,
    until: Instant,
}

struct Writer<W: Write> {
    out: BufWriter<W>,
    format: LogFormat,
    counts: Vec<Count>,
    lost: Arc<AtomicU64>,
    levels: Levels,
    backlog: Backlog,
}

impl<W: Write> Writer<W> {
    fn run(&mut self, receiver: &Receiver<Record>) {
        loop {
            let record = match receiver.try_recv() {
                Ok(record) => Some(record),
                Err(_) => {
                    self.flush();
                    match receiver.recv_timeout(self.patience()) {
                        Ok(record) => Some(record),
                        Err(RecvTimeoutError::Timeout) => None,
                        Err(RecvTimeoutError::Disconnected) => break,
                    }
                }
            };
            match record {
                Some(Record::Line { level: Level::Fatal, origin: "", text }) if text.is_empty() => {
                    break;
                }
                Some(record) => {
                    self.backlog.taken(&record);
                    self.write(record);
                }
                None => {}
            }
            self.report_counts(false);
        }
        self.report_counts(true);
        self.flush();
    }

    fn patience(&self) -> Duration {
        let next = self.counts.iter().map(|count| count.until).min();
        next.map_or(IDLE, |until| until.saturating_duration_since(Instant::now()))
    }

    fn write(&mut self, record: Record) {
        match record {
            Record::Line { level, origin, text } => self.line(level, origin, &text),
            Record::Query(query) => match self.format {
                LogFormat::Text => self.line(Level::Info, "", &query.line()),
                LogFormat::Json => {
                    let written = self.out.write_all(json::query(&query).as_bytes());
                    self.note(written);
                }
            },
            Record::Banner(text) => self.banner(&text),
            Record::Failure(failure) => self.failure(&failure),
        }
    }

    /// Counts the error if a pattern says so, else writes it.
    fn failure(&mut self, failure: &FailureRecord) {
        let mut patterns = failure.rules.patterns.iter();
        let Some(pattern) = patterns.position(|p| p.regex.is_match(&failure.error)) else {
            return self.line(Level::Error, "errors", &failure.text);
        };
        let known = |count: &&mut Count| {
            Arc::ptr_eq(&count.rules, &failure.rules) && count.pattern == pattern
        };
        if let Some(count) = self.counts.iter_mut().find(known) {
            count.seen += 1;
            return;
        }
        let Some(rule) = failure.rules.patterns.get(pattern) else { return };
        let (until, level) = (Instant::now() + rule.period, rule.level);
        self.counts.push(Count { rules: failure.rules.clone(), pattern, seen: 1, until });
        if rule.show_first {
            self.line(level, "errors", &failure.text);
        }
    }

    /// Writes the counts whose period is over, or all of them.
    fn report_counts(&mut self, all: bool) {
        if self.counts.is_empty() {
            return;
        }
        let now = Instant::now();
        let (over, open) = std::mem::take(&mut self.counts)
            .into_iter()
            .partition::<Vec<_>, _>(|count| all || count.until <= now);
        self.counts = open;
        for count in over {
            let Some(rule) = count.rules.patterns.get(count.pattern) else { continue };
            if count.seen > 1 || !rule.show_first {
                let (seen, regex) = (count.seen, rule.regex.as_str());
                let period = go_duration(rule.period);
                let text = format!("{seen} errors like '{regex}' occurred in last {period}");
                self.line(rule.level, "errors", &text);
            }
        }
    }

    fn line(&mut self, level: Level, origin: &str, text: &str) {
        if !self.levels.shows(level) {
            return;
        }
        let line = line(self.format, level, origin, text);
        let written = self.out.write_all(line.as_bytes());
        self.note(written);
    }

    /// Lines of their own, or in JSON one record.
    fn banner(&mut self, text: &str) {
        if self.format == LogFormat::Json {
            return self.line(Level::Info, "", text.trim_end());
        }
        let written = self.out.write_all(text.as_bytes());
        self.note(written);
    }

    fn flush(&mut self) {
        let flushed = self.out.flush();
        self.note(flushed);
    }

    /// A log that cannot be written must not stop the server: the loss is counted.
    fn note(&mut self, written: io::Result<()>) {
        if written.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A line as the log has it, with its end.
pub(crate) fn line(format: LogFormat, level: Level, origin: &str, text: &str) -> String {
    let name = level_name(level);
    match (format, origin) {
        (LogFormat::Json, _) => json::line(level, origin, text),
        (LogFormat::Text, "") => format!("[{name}] {text}\n"),
        (LogFormat::Text, _) => format!("[{name}] plugin/{origin}: {text}\n"),
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Debug => "DEBUG",
        Level::Info => "INFO",
        Level::Warning => "WARNING",
        Level::Error => "ERROR",
        Level::Fatal => "FATAL",
    }
}

/// A duration as Go prints it: `30s`, `1m30s`, `500ms`.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_nanos() != 0 || seconds == 0 {
        return format!("{duration:?}");
    }
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (h, m) {
        (0, 0) => format!("{s}s"),
        (0, _) => format!("{m}m{s}s"),
        _ => format!("{h}h{m}m{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_core::log::Pattern;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct FullDisk;

    impl Write for FullDisk {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A pipe that nobody reads.
    struct Blocked(Arc<Mutex<()>>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            drop(self.0.lock());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn failure(rules: &Arc<Rules>, error: &str) -> Record {
        let text = format!("2 example.org. A: {error}");
        let (rules, error) = (rules.clone(), error.to_owned());
        Record::Failure(Box::new(FailureRecord { rules, text, error }))
    }

    #[test]
    fn alike_errors_are_counted_and_others_written() {
        let memory = Memory::default();
        let logger = Logger::start(LogFormat::Text, memory.clone());
        let pattern = Pattern {
            regex: nodens_core::go_regex::compile(r"\Qi/o\E timeout$").unwrap(),
            period: Duration::from_secs(90),
            level: Level::Warning,
            show_first: true,
        };
        let rules = Arc::new(Rules { patterns: vec![pattern] });
        for error in ["i/o timeout", "i/o timeout", "refused"] {
            logger.sink.send(failure(&rules, error));
        }
        logger.stop();
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            text,
            "[WARNING] plugin/errors: 2 example.org. A: i/o timeout\n\
             [ERROR] plugin/errors: 2 example.org. A: refused\n\
             [WARNING] plugin/errors: 2 errors like '\\Qi/o\\E timeout$' occurred in last 1m30s\n"
        );
    }

    #[test]
    fn lines_of_level_debug_are_written_where_they_are_wanted() {
        let memory = Memory::default();
        let logger = Logger::start(LogFormat::Text, memory.clone());
        let pattern = Pattern {
            regex: nodens_core::go_regex::compile("timeout$").unwrap(),
            period: Duration::from_secs(90),
            level: Level::Debug,
            show_first: true,
        };
        let rules = Arc::new(Rules { patterns: vec![pattern] });
        let sink = logger.sink.clone();
        for (shown, text) in [(false, "a"), (true, "b")] {
            sink.levels().show_debug(shown);
            sink.line(Level::Debug, "", text);
        }
        // Decided when it is written, which is after all of this.
        sink.levels().show_debug(false);
        sink.send(failure(&rules, "i/o timeout"));
        sink.line(Level::Info, "", "c");
        logger.stop();
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert!(text.ends_with("[INFO] c\n"), "{text}");
        assert!(!text.contains(" a\n") && !text.contains("timeout"), "{text}");
    }

    #[test]
    fn a_log_that_nobody_reads_does_not_keep_the_process_from_ending() {
        for records in [1, 2 * QUEUE_LEN] {
            let gate = Arc::new(Mutex::new(()));
            let shut = gate.lock().unwrap();
            let logger = Logger::start(LogFormat::Text, Blocked(gate.clone()));
            let sink = logger.sink.clone();
            (0..records).for_each(|_| sink.line(Level::Info, "", "x"));
            let (sender, stopped) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                logger.stop();
                _ = sender.send(());
            });
            assert!(stopped.recv_timeout(5 * STOP_TIME).is_ok(), "{records} records");
            drop(shut);
        }
    }

    #[test]
    fn a_full_disk_is_counted_and_does_not_stop_the_writer() {
        let logger = Logger::start(LogFormat::Text, FullDisk);
        let lost = logger.lost.clone();
        logger.sink.line(Level::Info, "", "x".repeat(100_000));
        logger.sink.line(Level::Info, "", "y");
        logger.stop();
        assert!(lost.load(Ordering::Relaxed) > 0);
    }
}
