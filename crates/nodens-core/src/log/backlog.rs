//! How much memory the records take that wait for the log writer: clients choose their names, and a
//! writer whose reader stands still takes none.

use super::{FailureRecord, QueryRecord, Record};
use crate::limits::LOG_BACKLOG_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Octets of the records that wait; one for all copies.
#[derive(Clone, Debug, Default)]
pub struct Backlog(Arc<AtomicUsize>);

impl Backlog {
    /// Whether there is room for a record, which takes it then.
    pub(super) fn takes(&self, record: &Record) -> bool {
        let octets = octets(record);
        if self.0.fetch_add(octets, Ordering::Relaxed).saturating_add(octets) <= LOG_BACKLOG_MAX {
            return true;
        }
        self.0.fetch_sub(octets, Ordering::Relaxed);
        false
    }

    /// The record waits no longer.
    pub fn taken(&self, record: &Record) {
        self.0.fetch_sub(octets(record), Ordering::Relaxed);
    }
}

/// Octets that a record takes in memory, the same as long as it waits.
fn octets(record: &Record) -> usize {
    let data = match record {
        Record::Line { text, .. } | Record::Banner(text) => text.capacity(),
        Record::Query(query) => of_query(query),
        Record::Failure(failure) => {
            size_of::<FailureRecord>() + failure.text.capacity() + failure.error.capacity()
        }
    };
    size_of::<Record>() + data
}

fn of_query(query: &QueryRecord) -> usize {
    let texts = query.metadata.iter().map(|text| size_of::<String>() + text.capacity());
    size_of::<QueryRecord>() + query.qname.as_wire().len() + texts.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use crate::log::{Level, Record, Sink};
    use std::sync::mpsc::sync_channel;

    #[test]
    fn records_that_wait_take_no_more_than_their_memory() {
        let (sender, waiting) = sync_channel(1 << 20);
        let sink = Sink::new(sender);
        let text = "x".repeat(10_000);
        let fill = || {
            let before = sink.dropped();
            (0..3000).for_each(|_| sink.line(Level::Info, "", text.as_str()));
            sink.dropped() - before
        };
        let dropped = fill();
        let records: Vec<Record> = waiting.try_iter().collect();
        assert!(records.len() < 1700 && records.len() as u64 + dropped == 3000, "{dropped}");
        assert_eq!(fill(), 3000, "no record was taken");
        // One that is shorter than what is left.
        sink.line(Level::Info, "", "x");
        records.iter().for_each(|record| sink.backlog().taken(record));
        assert_eq!(fill(), dropped);
    }

    #[test]
    fn a_full_queue_keeps_nothing_of_what_it_does_not_take() {
        let (sender, waiting) = sync_channel(1);
        let sink = Sink::new(sender);
        (0..100_000).for_each(|_| sink.line(Level::Info, "", "x".repeat(1000)));
        let first = waiting.try_recv().unwrap();
        sink.backlog().taken(&first);
        sink.line(Level::Info, "", "y");
        assert!(waiting.try_recv().is_ok());
    }
}
