//! One connection to a primary: a query for its serial number, a transfer, or one after the other.

use super::answers::{serial, verify};
use super::lanes::Way;
use super::link::{Link, text_of};
use super::pace::Pace;
use crate::clock;
use crate::limits::{
    PRIMARY_CONNECT_TIME, PRIMARY_PACE_OCTETS, PRIMARY_PACE_TIME, PRIMARY_READS_IN_A_ROW,
    PRIMARY_SILENCE_MAX, PRIMARY_TRANSFER_TIME_MAX,
};
use crate::pipe::{Received as Read, take_front};
use crate::poll::{Poll, Ready};
use crate::slots::Key;
use nodens_wire::framing::first_message;
use nodens_wire::{Builder, Class, Flags, SharedName, Type};
use nodens_zone::Serial;
use nodens_zone::counts;
use nodens_zone::incoming::{Incoming, IncomingError, Received};
use nodens_zone::refresh::{End, Token};
use nodens_zone::secondary::Primary;
use nodens_zone::tsig::{Key as TsigKey, Verifier};
use std::io;
use std::time::Duration;

/// Who it is for.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// The keeper's number of the directive.
    pub(super) area: usize,
    pub(super) zone: SharedName,
    pub(super) primary: Primary,
    pub(super) token: Token,
    /// What queries are signed with, and responses have to be.
    pub(super) key: Option<TsigKey>,
}

impl Order {
    pub(super) fn way(&self) -> Way {
        (self.area, self.primary.address)
    }
}

/// What is asked.
pub(super) enum Work {
    /// The SOA record, with this ID.
    Serial(u16),
    Transfer(Box<Incoming>),
}

impl Work {
    fn request(&self, zone: &SharedName) -> Vec<u8> {
        match self {
            Self::Transfer(incoming) => incoming.request(),
            Self::Serial(id) => {
                let mut out = Vec::with_capacity(512);
                let mut builder = Builder::new(&mut out, *id, Flags(0));
                builder.question(zone.view(), Type::SOA, Class::IN);
                out
            }
        }
    }
}

/// What a primary answered.
pub(super) enum Answer {
    Serial(Serial),
    Transfer(Received),
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// No connection was made.
    Unreachable(String),
    /// It could not be asked, or did not answer in time.
    Silent(String),
    /// It closed the connection before the answer was whole.
    Cut(String),
    /// What it answered is of no use.
    Wrong(IncomingError),
}

impl Failure {
    /// Whether the same primary may answer AXFR instead.
    pub(super) fn whole_may_help(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Silent(_) => false,
            Self::Cut(_) => true,
            Self::Wrong(error) => error.whole_may_help(),
        }
    }

    /// What it is for the schedule.
    pub(super) fn end(&self) -> End {
        match self {
            Self::Wrong(error) if error.is_lasting() => End::Useless,
            Self::Wrong(error) if error.is_refusal() => End::Refused,
            _ => End::Failed,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(text) | Self::Silent(text) | Self::Cut(text) => f.write_str(text),
            Self::Wrong(error) => error.fmt(f),
        }
    }
}

/// The connection.
pub(super) struct Exchange {
    pub(super) order: Order,
    work: Work,
    /// Verifies the response, if the query is signed.
    verifier: Option<Verifier>,
    link: Link,
    input: Vec<u8>,
    /// Whether the system has made it, and whether the handshake is over, too.
    connected: bool,
    made: bool,
    /// Whether anything has come since.
    pub(super) heard: bool,
    /// When it has to go on whatever the socket says.
    pub(super) timer_ns: Option<u64>,
    /// When it was opened, and when something last came.
    pub(super) began_ns: u64,
    pub(super) heard_ns: u64,
    pace: Pace,
}

impl Exchange {
    /// Starts to connect to the primary.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn open(order: Order, work: Work) -> io::Result<Self> {
        let link = Link::open(&order.primary)?;
        let now = clock::mono_ns();
        let (input, timer_ns) = (Vec::new(), None);
        let (connected, made, heard) = (false, false, false);
        let (verifier, began_ns, heard_ns, pace) = (None, now, now, Pace::new(now));
        let mut exchange = Self {
            order,
            work,
            verifier,
            link,
            input,
            connected,
            made,
            heard,
            timer_ns,
            began_ns,
            heard_ns,
            pace,
        };
        exchange.ask()?;
        Ok(exchange)
    }

    /// Has `poll` say when it can go on.
    pub(super) fn register(&mut self, poll: &Poll, key: Key) -> io::Result<()> {
        self.link.register(poll, key)?;
        self.timer_ns = self.link.timer_ns();
        Ok(())
    }

    /// Asks for something else on the same connection.
    pub(super) fn ask_for(&mut self, work: Work, poll: &Poll, key: Key) -> io::Result<()> {
        self.work = work;
        self.ask()?;
        self.link.write()?;
        self.watch(poll, key);
        Ok(())
    }

    fn ask(&mut self) -> io::Result<()> {
        let mut request = self.work.request(&self.order.zone);
        self.verifier = match &self.order.key {
            Some(key) => {
                let signed = key.sign_query(&mut request, clock::now().unix_s);
                Some(signed.map_err(io::Error::other)?)
            }
            None => None,
        };
        self.link.push(&request);
        Ok(())
    }

    /// The transfer under way.
    pub(super) fn incoming(&self) -> Option<&Incoming> {
        match &self.work {
            Work::Transfer(incoming) => Some(incoming),
            Work::Serial(_) => None,
        }
    }

    /// How long it has taken so far.
    pub(super) fn took_ns(&self) -> u64 {
        clock::mono_ns().saturating_sub(self.began_ns)
    }

    /// Counts what came of it.
    pub(super) fn count(&self, counts: &counts::Incoming, came: counts::Result) {
        let (kind, octets) = match self.incoming() {
            None => (counts::Kind::Soa, 0),
            Some(incoming) => {
                let is_incremental = incoming.qtype() == Type::IXFR;
                let kind = if is_incremental { counts::Kind::Ixfr } else { counts::Kind::Axfr };
                (kind, incoming.counts().octets)
            }
        };
        counts.ended(kind, came, octets, self.took_ns());
    }

    /// Why it failed, and how far it came.
    pub(super) fn tell(&self, failure: &Failure) -> String {
        match self.incoming().map(Incoming::counts).filter(|counts| counts.records > 0) {
            None => failure.to_string(),
            Some(counts) => {
                let ms = Duration::from_nanos(self.took_ns()).as_millis();
                let (octets, records) = (counts.octets, counts.records);
                format!("{failure}, after {records} records in {octets} octets and {ms} ms")
            }
        }
    }

    /// When the patience with the primary is over.
    pub(super) fn deadline_ns(&self) -> u64 {
        let patience = if self.made { PRIMARY_SILENCE_MAX } else { PRIMARY_CONNECT_TIME };
        let silent = self.heard_ns.saturating_add(nanoseconds(patience));
        let whole = self.began_ns.saturating_add(nanoseconds(PRIMARY_TRANSFER_TIME_MAX));
        silent.min(whole).min(self.pace.deadline_ns())
    }

    /// That it is.
    pub(super) fn timed_out(&self) -> Failure {
        let is_incremental = self.incoming().is_some_and(|i| i.qtype() == Type::IXFR);
        match self.made {
            true if self.pace.deadline_ns() <= self.deadline_ns() => {
                let seconds = PRIMARY_PACE_TIME.as_secs();
                let text =
                    format!("too slow: fewer than {PRIMARY_PACE_OCTETS} octets in {seconds} s");
                Failure::Silent(text)
            }
            // Some servers and firewalls answer IXFR with silence: AXFR may do.
            true if is_incremental => Failure::Cut("timed out".to_owned()),
            true => Failure::Silent("timed out".to_owned()),
            false if self.connected => Failure::Unreachable("the handshake timed out".to_owned()),
            false => Failure::Unreachable("connecting timed out".to_owned()),
        }
    }

    /// Goes on after `poll` has said that it can; gives the answer once it is whole.
    pub(super) fn go_on(
        &mut self,
        ready: Ready,
        poll: &Poll,
        buffer: &mut [u8],
    ) -> Result<Option<Answer>, Failure> {
        if !self.connected {
            if let Some(error) = self.link.connect_error() {
                return Err(Failure::Unreachable(text_of(&error)));
            }
            self.connected = true;
        }
        self.write()?;
        let mut answer = None;
        if ready.readable {
            answer = self.read(buffer)?;
            self.write()?;
        }
        self.watch(poll, ready.key);
        Ok(answer)
    }

    /// Sends what there is, once it is known that it may be sent.
    fn write(&mut self) -> Result<(), Failure> {
        if !self.made && self.link.is_made() {
            if let Some(text) = self.link.mismatch() {
                return Err(Failure::Unreachable(text));
            }
            self.made = true;
            self.heard_ns = clock::mono_ns();
        }
        self.link.write().map_err(|error| match self.made {
            true => Failure::Silent(self.text_of(&error)),
            false => Failure::Unreachable(text_of(&error)),
        })
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<Option<Answer>, Failure> {
        for _ in 0..PRIMARY_READS_IN_A_ROW {
            let octets = match self.link.read(buffer) {
                Ok(Read::Octets(len)) => buffer.get(..len).unwrap_or_default(),
                Ok(Read::Nothing) => break,
                Ok(Read::End) => {
                    let text = format!("the primary closed the connection{}", self.hint());
                    return Err(self.ended(text));
                }
                Err(error) => return Err(self.ended(self.text_of(&error))),
            };
            self.heard_ns = clock::mono_ns();
            self.heard = true;
            self.pace.came(octets.len(), self.heard_ns);
            if let Some(answer) = self.take(octets)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    fn text_of(&self, error: &io::Error) -> String {
        let is_end = matches!(error.raw_os_error(), Some(libc::ECONNRESET | libc::EPIPE));
        let hint = if is_end { self.hint() } else { "" };
        format!("{}{hint}", text_of(error))
    }

    /// Some say no more to who shows no certificate, or the wrong one.
    fn hint(&self) -> &'static str {
        let is_within_tls = self.order.primary.identity.is_some();
        match is_within_tls && self.link.is_made() && !self.heard {
            true => " after the handshake: does it want a certificate?",
            false => "",
        }
    }

    /// That nothing more comes.
    fn ended(&self, text: String) -> Failure {
        if self.link.is_made() { Failure::Cut(text) } else { Failure::Unreachable(text) }
    }

    fn watch(&mut self, poll: &Poll, key: Key) {
        self.link.watch(poll, key);
        self.timer_ns = self.link.timer_ns();
    }

    /// Takes the messages that are whole.
    fn take(&mut self, octets: &[u8]) -> Result<Option<Answer>, Failure> {
        let (work, zone, verifier) = (&mut self.work, &self.order.zone, &mut self.verifier);
        let mut result = Ok(None);
        let take = |octets: &[u8]| {
            let mut taken = 0;
            while let (Ok(None), Some(rest)) = (&result, octets.get(taken..)) {
                let Some((message, end)) = first_message(rest) else { break };
                taken += end;
                result = verify(verifier.as_mut(), message).and_then(|()| match work {
                    Work::Serial(id) => serial(message, *id, zone).map(Answer::Serial).map(Some),
                    Work::Transfer(incoming) => {
                        incoming.message(message).map(|received| received.map(Answer::Transfer))
                    }
                });
                if let (Ok(Some(_)), Some(Err(fault))) =
                    (&result, verifier.as_ref().map(Verifier::end))
                {
                    result = Err(IncomingError::Signature(fault.to_string()));
                }
            }
            taken
        };
        self.input = take_front(std::mem::take(&mut self.input), octets, take);
        result.map_err(Failure::Wrong)
    }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
