//! Counts and times of queries, in the tally of `lab-load`.

use crate::flight::Flying;
use crate::limits::SECONDS_KEPT;
use lab_load::Loss;
use lab_load::tally::{Cohort, Counts, Span, Tally};
use lab_workload::recorded::Carrier;
use nodens_wire::{Flags, Header, Records, Type};

/// Steps of the rate in a second.
const STEPS: usize = (lab_load::SECOND / lab_load::tally::RATE_STEP) as usize;

/// What is counted of the queries over UDP and over TCP.
pub(crate) struct Books {
    pub(crate) udp: Tally,
    pub(crate) tcp: Tally,
    timeout: u64,
    /// Seconds that are over.
    over: usize,
}

/// What was counted of a second that is over.
pub(crate) struct Second {
    pub(crate) carrier: Carrier,
    pub(crate) second: u64,
    pub(crate) cohort: Cohort,
}

/// Why a query has no answer, in words.
pub(crate) fn text(loss: Loss) -> &'static str {
    match loss {
        Loss::TimedOut => "timed out",
        Loss::Refused => "refused (ICMP)",
        Loss::ConnectionFailed => "its connection failed",
    }
}

impl Books {
    /// Books of so many seconds.
    pub(crate) fn new(timeout: u64, seconds: u64) -> Self {
        let mut books = Self { udp: Tally::default(), tcp: Tally::default(), timeout, over: 0 };
        let seconds = usize::try_from(seconds).unwrap_or(usize::MAX).min(SECONDS_KEPT);
        // Growing while queries are sent would delay them.
        for tally in [&mut books.udp, &mut books.tcp] {
            tally.cohorts.reserve(seconds);
            tally.rate.reserve(seconds * STEPS);
        }
        books
    }

    /// Takes out the seconds whose queries have had their time for an answer at `now`. What still comes of one of
    /// them, for a query that left far too late, is taken out at the end.
    pub(crate) fn take_over(&mut self, now: u64) -> Vec<Second> {
        let over = now.saturating_sub(self.timeout) / lab_load::SECOND;
        let over = usize::try_from(over).unwrap_or(usize::MAX).saturating_sub(1);
        let mut taken = Vec::new();
        while self.over < over {
            for (carrier, tally) in [(Carrier::Udp, &mut self.udp), (Carrier::Tcp, &mut self.tcp)] {
                let second = self.over as u64;
                let cohort = tally.cohorts.get_mut(self.over).map(std::mem::take);
                taken.extend(cohort.map(|cohort| Second { carrier, second, cohort }));
            }
            self.over += 1;
        }
        taken
    }

    pub(crate) fn of(&mut self, carrier: Carrier) -> &mut Tally {
        match carrier {
            Carrier::Udp => &mut self.udp,
            Carrier::Tcp => &mut self.tcp,
        }
    }

    /// The counts of both.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.udp.counts;
        counts.add(&self.tcp.counts);
        counts
    }

    /// The second so far.
    pub(crate) fn cohort(&self, second: u64) -> Cohort {
        let at = usize::try_from(second).unwrap_or(usize::MAX);
        let mut whole = self.udp.cohorts.get(at).cloned().unwrap_or_default();
        self.tcp.cohorts.get(at).into_iter().for_each(|part| whole.merge(part));
        whole
    }

    /// Notes that a query's time has come.
    pub(crate) fn schedule(&mut self, carrier: Carrier, intended: u64) {
        let tally = self.of(carrier);
        tally.counts.scheduled += 1;
        if let Some(cohort) = tally.cohort(intended) {
            cohort.scheduled += 1;
        }
        if let Some(step) = tally.rate_step(intended) {
            step.planned += 1;
        }
    }

    /// Notes that a query is not sent: there is no ID for it, or the run was stopped.
    pub(crate) fn skip(&mut self, carrier: Carrier, intended: u64) {
        let tally = self.of(carrier);
        tally.counts.skipped += 1;
        if let Some(cohort) = tally.cohort(intended) {
            cohort.skipped += 1;
        }
    }

    /// Notes that a query had not been sent when the run was over.
    pub(crate) fn overdue(&mut self, carrier: Carrier, intended: u64) {
        self.of(carrier).counts.overdue += 1;
        self.skip(carrier, intended);
    }

    /// Notes that the operating system refuses to send a query.
    pub(crate) fn send_error(&mut self, carrier: Carrier, intended: u64) {
        let tally = self.of(carrier);
        tally.counts.send_errors += 1;
        if let Some(cohort) = tally.cohort(intended) {
            cohort.send_errors += 1;
        }
    }

    pub(crate) fn sent(&mut self, flying: &Flying) {
        let tally = self.of(flying.carrier);
        let late = flying.sent.saturating_sub(flying.intended);
        tally.counts.sent += 1;
        tally.counts.question_octets += flying.octets;
        tally.lateness.record(late);
        let intended = (flying.intended, flying.intended);
        tally.stretch(Span { intended, sent: (flying.sent, flying.sent) });
        if let Some(cohort) = tally.cohort(flying.intended) {
            cohort.sent += 1;
            cohort.lateness.record(late);
        }
        if let Some(group) = tally.by_qtype.entry(flying.qtype) {
            group.sent += 1;
        }
        if let Some(step) = tally.rate_step(flying.sent) {
            step.sent += 1;
        }
    }

    /// Notes a message that answers `flying` in time.
    pub(crate) fn answer(&mut self, flying: &Flying, now: u64, header: Header, message: &[u8]) {
        let tally = self.of(flying.carrier);
        let rcode = extended_rcode(header, message);
        tally.counts.answered += 1;
        tally.counts.answer_octets += message.len() as u64;
        tally.counts.truncated += u64::from(header.flags.has(Flags::TC));
        tally.counts.empty += u64::from(rcode == 0 && header.counts[1] == 0);
        tally.counts.without_question += u64::from(header.counts[0] == 0);
        tally.rcodes.add(rcode, 1);
        let response = now.saturating_sub(flying.intended);
        let service = now.saturating_sub(flying.sent);
        tally.response.record(response);
        tally.service.record(service);
        if let Some(cohort) = tally.cohort(flying.intended) {
            cohort.answered += 1;
            cohort.rcodes.add(rcode, 1);
            cohort.response.record(response);
            cohort.service.record(service);
        }
        if let Some(group) = tally.by_qtype.entry(flying.qtype) {
            group.answered += 1;
            group.response.record(response);
        }
        if let Some(times) = tally.by_rcode.entry(rcode) {
            times.record(response);
        }
    }

    /// Notes a query without an answer in time, in every count and histogram.
    pub(crate) fn lose(&mut self, flying: &Flying, loss: Loss) {
        let timeout = self.timeout;
        let tally = self.of(flying.carrier);
        *loss.of_run(&mut tally.counts) += 1;
        tally.response.record_censored(timeout);
        tally.service.record_censored(timeout);
        if let Some(cohort) = tally.cohort(flying.intended) {
            *loss.of_second(cohort) += 1;
            cohort.response.record_censored(timeout);
            cohort.service.record_censored(timeout);
        }
        if let Some(group) = tally.by_qtype.entry(flying.qtype) {
            group.lost += 1;
            group.response.record_censored(timeout);
        }
    }

    /// Notes a query that was in flight when the run was stopped.
    pub(crate) fn interrupt(&mut self, flying: &Flying) {
        let tally = self.of(flying.carrier);
        tally.counts.interrupted += 1;
        if let Some(cohort) = tally.cohort(flying.intended) {
            cohort.interrupted += 1;
        }
        if let Some(group) = tally.by_qtype.entry(flying.qtype) {
            group.interrupted += 1;
        }
    }
}

/// The RCODE with the upper bits that an OPT record may have (RFC 6891 section 6.1.3).
fn extended_rcode(header: Header, message: &[u8]) -> u16 {
    let low = header.flags.rcode().0;
    if header.counts[3] == 0 {
        return low;
    }
    let records = Records::of(message).into_iter().flatten().map_while(Result::ok);
    let opt = records.into_iter().find(|record| record.rtype == Type::OPT);
    low | opt.map_or(0, |opt| u16::try_from(opt.ttl >> 24).unwrap_or(0)) << 4
}
