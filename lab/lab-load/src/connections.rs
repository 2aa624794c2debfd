//! What became of every connection, as counts that add up.

use crate::SECOND;
use lab_histogram::Histogram;
use std::collections::BTreeMap;

/// How many different texts of failures are kept; the others are counted together.
const FAILURES_MAX: usize = 16;

/// Counts of connections. Nothing here is about UDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections asked for.
    pub attempts: u64,
    /// Set up as far as to carry queries, handshake included.
    pub opened: u64,
    /// Not set up: the server, or its host, refused (RST to the SYN, ICMP).
    pub refused: u64,
    /// Not set up: reset or closed during the handshake.
    pub reset: u64,
    /// Not set up: TLS failed (certificate, alert, no common version or protocol).
    pub handshake_failed: u64,
    /// Not set up in the time for it.
    pub timed_out: u64,
    /// Not set up: the system could not even try (no free port, no descriptor, no route).
    pub not_tried: u64,
    /// Neither set up nor failed when the run ended.
    pub unfinished: u64,
    /// Opened ones that the server closed in order.
    pub closed_by_server: u64,
    /// Opened ones that the client closed because their life was over.
    pub closed_by_client: u64,
    /// Opened ones that ended out of order: reset, broken protocol, silence.
    pub broken: u64,
    /// Opened ones that were still open when the run ended.
    pub left_open: u64,
    /// Opened ones whose TLS session was resumed from a ticket.
    pub resumed: u64,
    /// Connections on which early data (0-RTT) was offered.
    pub early_offered: u64,
    /// Those on which the server took it.
    pub early_accepted: u64,
    /// Queries that went out as early data.
    pub early_questions: u64,
    /// Those of them that the server took.
    pub early_questions_taken: u64,
    /// Queries cut by the end of their connection: some of their octets had left, not all. They
    /// are among the queries lost with their connection.
    pub half_written: u64,
    /// Queries that went back to their client because a connection ended before any of their
    /// octets had left; they were asked on another.
    pub asked_again: u64,
    /// Queries whose stream ended without an answer: an HTTP status other than 200, a reset
    /// stream, a body that is no message. They are among the queries lost with their connection.
    pub rejected: u64,
    /// How often a query had to wait because the server allows no more streams at once.
    pub stream_waits: u64,
    /// The lowest and the highest number of streams at once that servers allowed (SETTINGS of
    /// HTTP/2, transport parameters of QUIC as far as seen).
    pub streams_allowed: Option<(u64, u64)>,
    /// HTTP responses by status.
    pub http: BTreeMap<u16, u64>,
    /// Texts of failures, and how often each occurred.
    pub failures: BTreeMap<String, u64>,
    /// From asking to the end of TCP's handshake; those that timed out or were refused are not
    /// among them.
    pub tcp: Histogram,
    /// From there to the end of TLS's; with QUIC, whose handshakes are one, from asking.
    pub tls: Histogram,
    /// From when a query was handed to its client until the first of its octets left: waiting
    /// for a connection, for an answer on it, or for room.
    pub waited: Histogram,
    /// By second of the event.
    pub seconds: Vec<Second>,
}

/// The connections of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Asked for.
    pub attempts: u64,
    /// Set up.
    pub opened: u64,
    /// Those set up by resuming a session.
    pub resumed: u64,
    /// Not set up, whatever the cause.
    pub failed: u64,
    /// Ended after having been set up, by either side.
    pub closed: u64,
}

/// Why a connection was not set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server, or its host, refused.
    Refused,
    /// It was reset or closed during the handshake.
    Reset,
    /// TLS failed.
    Handshake,
    /// It took too long.
    TimedOut,
    /// The system could not even try.
    NotTried,
}

/// How a connection that was set up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closure {
    /// The server closed it in order.
    ByServer,
    /// The client closed it because its life was over.
    ByClient,
    /// It ended out of order.
    Broken,
    /// It was still open when the run ended.
    LeftOpen,
}

impl Connections {
    /// Connections asked for and not set up, whatever the cause; unfinished ones are not among them.
    pub fn failed(&self) -> u64 {
        self.refused + self.reset + self.handshake_failed + self.timed_out + self.not_tried
    }

    /// Adds what another thread has counted.
    pub fn merge(&mut self, other: &Self) {
        for (into, from) in self.counts_mut().into_iter().zip(other.counts()) {
            *into += from;
        }
        for (status, count) in &other.http {
            *self.http.entry(*status).or_default() += count;
        }
        for (text, count) in &other.failures {
            self.note(text, *count);
        }
        if let Some((low, high)) = other.streams_allowed {
            self.allow(low);
            self.allow(high);
        }
        self.tcp.merge(&other.tcp);
        self.tls.merge(&other.tls);
        self.waited.merge(&other.waited);
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Second::default());
        }
        for (into, from) in self.seconds.iter_mut().zip(&other.seconds) {
            into.attempts += from.attempts;
            into.opened += from.opened;
            into.resumed += from.resumed;
            into.failed += from.failed;
            into.closed += from.closed;
        }
    }

    /// Every way in which the numbers do not add up.
    pub(crate) fn contradictions(&self) -> Vec<&'static str> {
        let sum = |of: fn(&Second) -> u64| self.seconds.iter().map(of).sum::<u64>();
        let ended = self.closed_by_server + self.closed_by_client + self.broken + self.left_open;
        let checks = [
            (self.attempts == self.opened + self.failed() + self.unfinished, "connections"),
            (self.opened == ended, "ends of connections"),
            (sum(|second| second.attempts) == self.attempts, "connections of all seconds"),
            (sum(|second| second.opened) == self.opened, "opened connections of all seconds"),
            (sum(|second| second.failed) == self.failed(), "failed connections of all seconds"),
            (sum(|second| second.closed) == ended - self.left_open, "closures of all seconds"),
            (self.resumed <= self.opened && self.early_accepted <= self.early_offered, "sessions"),
            (self.early_questions_taken <= self.early_questions, "early data"),
        ];
        checks.iter().filter(|(holds, _)| !holds).map(|(_, what)| *what).collect()
    }

    /// Counts all seconds so far as the first: they were before the schedule.
    pub(crate) fn count_in_first_second(&mut self) {
        let later = self.seconds.split_off(self.seconds.len().min(1));
        let Some(first) = self.seconds.first_mut() else { return };
        for from in later {
            first.attempts += from.attempts;
            first.opened += from.opened;
            first.resumed += from.resumed;
            first.failed += from.failed;
            first.closed += from.closed;
        }
    }

    /// Counts a connection that is asked for at `now`, in nanoseconds from the start.
    pub fn attempt(&mut self, now: u64) {
        self.attempts += 1;
        self.second(now).attempts += 1;
    }

    /// Counts a connection that was set up at `now`.
    pub fn open(&mut self, now: u64, resumed: bool) {
        self.opened += 1;
        self.resumed += u64::from(resumed);
        let second = self.second(now);
        second.opened += 1;
        second.resumed += u64::from(resumed);
    }

    /// Counts a connection that was not set up.
    pub fn fail(&mut self, now: u64, why: Failure, text: &str) {
        *match why {
            Failure::Refused => &mut self.refused,
            Failure::Reset => &mut self.reset,
            Failure::Handshake => &mut self.handshake_failed,
            Failure::TimedOut => &mut self.timed_out,
            Failure::NotTried => &mut self.not_tried,
        } += 1;
        self.second(now).failed += 1;
        self.note(text, 1);
    }

    /// Counts the end of a connection that had been set up.
    pub fn close(&mut self, now: u64, how: Closure, text: &str) {
        *match how {
            Closure::ByServer => &mut self.closed_by_server,
            Closure::ByClient => &mut self.closed_by_client,
            Closure::Broken => &mut self.broken,
            Closure::LeftOpen => {
                self.left_open += 1;
                return;
            }
        } += 1;
        self.second(now).closed += 1;
        if how == Closure::Broken {
            self.note(text, 1);
        }
    }

    /// Notes how many streams a server allows at once.
    pub(crate) fn allow(&mut self, streams: u64) {
        let (low, high) = self.streams_allowed.unwrap_or((streams, streams));
        self.streams_allowed = Some((low.min(streams), high.max(streams)));
    }

    fn note(&mut self, text: &str, count: u64) {
        let known = self.failures.contains_key(text) || self.failures.len() < FAILURES_MAX;
        let text = if known { text } else { "other failures" };
        *self.failures.entry(text.to_owned()).or_default() += count;
    }

    fn second(&mut self, now: u64) -> &mut Second {
        let at = (now / SECOND) as usize;
        if self.seconds.len() <= at {
            self.seconds.resize(at + 1, Second::default());
        }
        &mut self.seconds[at]
    }

    fn counts(&self) -> [u64; 21] {
        let mut copy = Self { seconds: Vec::new(), ..self.clone() };
        copy.counts_mut().map(|count| *count)
    }

    fn counts_mut(&mut self) -> [&mut u64; 21] {
        [
            &mut self.attempts,
            &mut self.opened,
            &mut self.refused,
            &mut self.reset,
            &mut self.handshake_failed,
            &mut self.timed_out,
            &mut self.not_tried,
            &mut self.unfinished,
            &mut self.closed_by_server,
            &mut self.closed_by_client,
            &mut self.broken,
            &mut self.left_open,
            &mut self.resumed,
            &mut self.early_offered,
            &mut self.early_accepted,
            &mut self.early_questions,
            &mut self.early_questions_taken,
            &mut self.half_written,
            &mut self.asked_again,
            &mut self.rejected,
            &mut self.stream_waits,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_has_one_fate_and_merging_keeps_it() {
        let mut one = Connections::default();
        for second in 0..4 {
            one.attempt(second * SECOND);
        }
        one.open(SECOND, true);
        one.open(SECOND, false);
        one.fail(2 * SECOND, Failure::Refused, "refused");
        one.close(2 * SECOND, Closure::ByServer, "");
        assert_eq!(one.contradictions(), ["connections", "ends of connections"]);
        one.unfinished = 1;
        one.close(3 * SECOND, Closure::LeftOpen, "");
        one.allow(100);
        *one.http.entry(200).or_default() += 3;
        assert_eq!(one.contradictions(), [""; 0]);
        let mut both = one.clone();
        both.merge(&one);
        assert_eq!(both.contradictions(), [""; 0]);
        assert_eq!((both.attempts, both.opened, both.resumed, both.failed()), (8, 4, 2, 2));
        assert_eq!((both.http[&200], both.failures["refused"]), (6, 2));
        assert_eq!(both.streams_allowed, Some((100, 100)));
        assert_eq!(
            both.seconds[1],
            Second { attempts: 2, opened: 4, resumed: 2, ..Second::default() }
        );
    }

    #[test]
    fn many_different_failures_are_kept_together() {
        let mut connections = Connections::default();
        for n in 0..40 {
            connections.fail(0, Failure::Handshake, &format!("failure {n}"));
        }
        assert_eq!(connections.failures.len(), FAILURES_MAX + 1);
        assert_eq!(connections.failures["other failures"], 24);
    }
}
