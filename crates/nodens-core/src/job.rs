//! A question on its way to an answer: who asked, what is being resolved now, what has been
//! decided. A job is reused, so that a hit allocates nothing.

use crate::limits::{LOOKUP_DEPTH_MAX, LOOKUPS_PER_JOB_MAX, PENDING_BUFFERS, PENDING_OCTETS};
use crate::response::Response;
use crate::time::Now;
pub use crate::transport::Transport;
use nodens_wire::edns::OPT_LEN;
use nodens_wire::shape::Traits;
use nodens_wire::{Class, Flags, HEADER_LEN, Name, NameRef, Query, Rcode, Type};
use nodens_zone::tsig::Signer;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Who asked, and where the answer has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The client's address.
    pub peer: SocketAddr,
    /// The address asked, as far as the transport knows it.
    pub local: SocketAddr,
    /// How it asked.
    pub transport: Transport,
    /// Index into `Config::listeners`.
    pub listener: u16,
    /// Names its connection, or its socket for datagrams, to the owner of the sockets; opaque here.
    pub connection: u64,
    /// Which stream of the connection it asked on, as its owner numbers them; opaque here too, and 0
    /// where a connection is one stream.
    pub stream: u32,
    /// Whether it asked within a version of TLS in which no zone may be transferred: before 1.3
    /// (RFC 9103 section 7).
    pub old_tls: bool,
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A client over a socket.
    Client(Client),
    /// Nobody: the job only refreshes what the handlers keep (prefetch, stale refresh).
    Nobody(Client),
}

impl Recipient {
    /// The client in whose name the chain is run.
    pub fn client(&self) -> &Client {
        match self {
            Self::Client(client) | Self::Nobody(client) => client,
        }
    }
}

/// The request's EDNS as handlers may change it before it is asked upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestEdns {
    /// Largest UDP payload announced, in octets.
    pub udp_size: u16,
    /// DO and reserved bits.
    pub flags: u16,
    /// Options as they stand in RDATA.
    pub options: Vec<u8>,
}

/// Whose question a resolution is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asker {
    /// The client's, whose answer a handler may want to see first.
    #[default]
    Client,
    /// That of a handler which asks the server as a client would.
    Handler,
    /// That of a handler, for something the client has been counted and logged for already.
    Unwatched,
}

/// How a job ends that has to end without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// With a response of this RCODE.
    Failed(Rcode),
    /// Without a response.
    Dropped,
}

/// What the handlers of a chain remember of one resolution.
pub trait States: fmt::Debug + Default {
    /// The configuration that has the chain.
    type Config: fmt::Debug;

    /// Forgets everything but buffers.
    fn clear(&mut self);

    /// Octets of memory that those buffers have which queries and responses may make long.
    fn octets(&self) -> usize;

    /// The place in its chain of a handler that can answer the client with what it has, if there
    /// is one.
    fn early(&self) -> Option<usize>;

    /// Divides the states at that handler: takes out its own and those of handlers in front of it.
    fn part(&mut self) -> Self;
}

/// One resolution: a question, the place in a chain, and the response as far as it is.
///
/// A nested lookup saves the whole value and starts with a fresh one.
#[derive(Debug, Default)]
pub struct Resolution<S> {
    /// The name being looked up, in the case it was asked.
    pub qname: Name,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// Whose question it is.
    pub asker: Asker,
    /// When it was asked, monotonic nanoseconds.
    pub asked_ns: u64,
    /// The request's flags as handlers may have changed them (`header query`).
    pub flags: Flags,
    /// The request's EDNS as handlers may have changed it (`rewrite edns0`, `bufsize`).
    pub edns: Option<RequestEdns>,
    /// The response.
    pub response: Response,
    /// Index into `Config::blocks`.
    pub block: usize,
    /// Index into the block's zones: the one that matched.
    pub zone: usize,
    /// Index of the handler at work in the block's chain.
    pub position: usize,
    /// The first position: amending stops here on the way back.
    pub floor: usize,
    /// What the handlers remember of it.
    pub state: S,
}

/// A question in progress.
#[derive(Debug)]
pub struct Job<S: States> {
    /// Where the answer goes.
    pub recipient: Recipient,
    /// When the request was read from its socket.
    pub received: Now,
    /// The request as it came.
    pub request: Vec<u8>,
    /// What admission read from it.
    pub query: Query,
    /// The resolution at work.
    pub current: Resolution<S>,
    /// Resolutions that wait for the current one, outermost first.
    pub outer: Vec<Resolution<S>>,
    /// The result of the nested lookup that just ended.
    pub inner: Option<Box<Resolution<S>>>,
    /// Lookups started so far.
    pub lookups: u32,
    /// Why the resolution failed, for `errors`; empty if it did not.
    pub error: String,
    /// When the job has to have ended, monotonic nanoseconds (`cancel` may bring it forward).
    pub deadline_ns: u64,
    /// When the waiting handler wants [`crate::handler::Event::Timer`], monotonic nanoseconds.
    pub timer_at: u64,
    /// When the client is to be answered with what `cache` has, monotonic nanoseconds; 0 if never.
    pub client_timer_at: u64,
    /// A handler wants to see the answer as it is sent.
    pub(crate) tapped: bool,
    /// Signs the response to a query whose TSIG record `tsig` has looked at.
    pub(crate) signer: Option<Box<Signer>>,
    /// TLVs of the PROXY protocol header that the client's octets came with, if they are wanted.
    pub(crate) tlvs: Option<Arc<[u8]>>,
    /// Set when the job has to end without an answer.
    pub abandoned: Option<Abandoned>,
    /// The configuration the job started with, held while it waits.
    pub config: Option<Arc<S::Config>>,
}

impl<S: States> Job<S> {
    /// How many places it takes while it waits, of [`PENDING_OCTETS`] each.
    pub(crate) fn places(&self) -> usize {
        let tlvs = self.tlvs.as_ref().map_or(0, |tlvs| tlvs.len());
        let own = self.request.capacity() + self.error.capacity() + tlvs;
        let octets = own + self.current.octets() + self.octets_around();
        1 + octets.saturating_sub(PENDING_BUFFERS).div_ceil(PENDING_OCTETS)
    }

    /// Octets of memory that the other resolutions take.
    fn octets_around(&self) -> usize {
        let around = self.outer.iter().chain(self.inner.as_deref());
        let places = self.outer.capacity() + usize::from(self.inner.is_some());
        places * size_of::<Resolution<S>>() + around.map(Resolution::octets).sum::<usize>()
    }

    /// A job ready for [`Job::start`].
    pub fn new() -> Self {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let client = Client {
            peer: nowhere,
            local: nowhere,
            transport: Transport::Udp,
            listener: 0,
            connection: 0,
            stream: 0,
            old_tls: false,
        };
        Self {
            recipient: Recipient::Nobody(client),
            received: Now::default(),
            request: Vec::with_capacity(512),
            query: Query::default(),
            current: Resolution::default(),
            outer: Vec::new(),
            inner: None,
            lookups: 0,
            error: String::new(),
            deadline_ns: 0,
            timer_at: 0,
            client_timer_at: 0,
            tapped: false,
            signer: None,
            tlvs: None,
            abandoned: None,
            config: None,
        }
    }

    /// Begins with a request that was admitted as `query`.
    pub fn start(&mut self, now: Now, recipient: Recipient, request: &[u8], query: Query) {
        self.recipient = recipient;
        self.received = now;
        self.request.clear();
        self.request.extend_from_slice(request);
        self.outer.clear();
        self.inner = None;
        self.lookups = 0;
        self.error.clear();
        self.timer_at = 0;
        self.client_timer_at = 0;
        self.deadline_ns = now.plus(crate::limits::QUESTION_TIME_MAX);
        self.abandoned = None;
        self.tapped = false;
        self.current.begin(query.qname(request), query.qtype, query.qclass, query.flags);
        self.current.copy_edns(&query, request);
        self.current.asked_ns = now.mono_ns;
        self.query = query;
    }

    /// Whether one more lookup is within bounds.
    pub(crate) fn may_look_up(&self) -> bool {
        self.outer.len() < LOOKUP_DEPTH_MAX && self.lookups < LOOKUPS_PER_JOB_MAX
    }

    /// Octets of the request that asks the current question. A lookup of a handler has none: it is
    /// what a client would have sent.
    pub(crate) fn request_len(&self) -> usize {
        let q = &self.current;
        if q.is_clients() {
            return self.request.len();
        }
        let opt = q.edns.as_ref().map_or(0, |edns| OPT_LEN + edns.options.len());
        // QTYPE and QCLASS take two octets each.
        HEADER_LEN + q.qname.as_wire().len() + 4 + opt
    }

    /// The client in whose name the chain is run.
    pub fn client(&self) -> &Client {
        self.recipient.client()
    }

    /// Moves the client to `early`, a job at a handler that can answer at once. This job continues
    /// without a client. False if no handler can answer.
    pub(crate) fn part_with_client(&mut self, early: &mut Self) -> bool {
        let Recipient::Client(client) = self.recipient else { return false };
        let waiting = self.outer.iter_mut().chain([&mut self.current]);
        let able = waiting
            .enumerate()
            .find_map(|(depth, resolution)| Some((depth, resolution.state.early()?, resolution)));
        let Some((depth, place, resolution)) = able else { return false };
        early.start(self.received, self.recipient, &self.request, self.query.clone());
        early.current = resolution.part(place);
        early.outer.extend(self.outer.drain(..depth));
        early.lookups = self.lookups;
        early.tlvs = self.tlvs.clone();
        early.signer = self.signer.clone();
        early.tapped = std::mem::take(&mut self.tapped);
        self.recipient = Recipient::Nobody(client);
        true
    }

    /// The name of the key that the client's query is signed with, if `tsig` has verified it.
    pub fn verified_key(&self) -> Option<NameRef<'_>> {
        self.signer.as_ref().filter(|signer| signer.is_verified()).map(|signer| signer.key_name())
    }

    /// Makes the job end so when it next runs; nested lookups end with it.
    pub fn abandon(&mut self, how: Abandoned) {
        self.abandoned = Some(how);
    }
}

impl<S: States> Default for Job<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: States> Resolution<S> {
    /// Resets to a new question; buffers keep their capacity.
    pub fn begin(&mut self, qname: NameRef<'_>, qtype: Type, qclass: Class, flags: Flags) {
        self.qname.assign(qname);
        self.qtype = qtype;
        self.qclass = qclass;
        self.asker = Asker::Client;
        self.flags = flags;
        self.response.clear();
        self.position = 0;
        self.floor = 0;
        self.state.clear();
    }

    /// Divides the resolution at the handler at `place`, where it stands or passed: what is in front
    /// goes into the result, what is behind stays and ends there.
    fn part(&mut self, place: usize) -> Self {
        let mut front = Self::default();
        front.begin(self.qname.view(), self.qtype, self.qclass, self.flags);
        front.edns.clone_from(&self.edns);
        (front.asker, front.asked_ns) = (self.asker, self.asked_ns);
        (front.block, front.zone, front.floor) = (self.block, self.zone, self.floor);
        front.position = place;
        front.state = self.state.part();
        self.floor = front.position;
        front
    }

    /// Octets of memory that its buffers have.
    fn octets(&self) -> usize {
        let options = self.edns.as_ref().map_or(0, |edns| edns.options.capacity());
        options + self.response.octets() + self.state.octets()
    }

    fn copy_edns(&mut self, query: &Query, request: &[u8]) {
        let Some(edns) = &query.edns else {
            self.edns = None;
            return;
        };
        let current = self.edns.get_or_insert_default();
        current.udp_size = edns.udp_size;
        current.flags = edns.flags;
        current.options.clear();
        let options = request.get(edns.options.clone()).unwrap_or_default();
        current.options.extend_from_slice(options);
    }

    /// Whether it is the client's question, so that what is decided here is what the client gets:
    /// the outermost resolution, and the lookups in which handlers wait for its answer.
    pub fn is_clients(&self) -> bool {
        self.asker == Asker::Client
    }

    /// Whether the client wants DNSSEC records.
    pub fn dnssec_ok(&self) -> bool {
        self.edns.as_ref().is_some_and(|edns| edns.flags & nodens_wire::edns::DO != 0)
    }

    /// Starts a response of our own: QR, the request's OPCODE, RD and CD, AA as given.
    pub fn reply(&mut self, rcode: Rcode, authoritative: bool) -> nodens_wire::Builder<'_> {
        let flags = self.flags.reply().with(Flags::AA, authoritative).with_rcode(rcode);
        self.response.rcode = rcode;
        self.response.written = true;
        self.response.traits = Traits::default();
        let mut builder = nodens_wire::Builder::new(&mut self.response.wire, 0, flags);
        builder.question(self.qname.view(), self.qtype, self.qclass);
        builder
    }

    /// As [`Resolution::reply`], and lets `fill` add records; it is given QNAME, the usual owner.
    /// Allocates nothing once the buffer has grown.
    pub fn reply_with(
        &mut self,
        rcode: Rcode,
        authoritative: bool,
        fill: impl FnOnce(&mut nodens_wire::Builder<'_>, NameRef<'_>),
    ) {
        let flags = self.flags.reply().with(Flags::AA, authoritative).with_rcode(rcode);
        self.response.rcode = rcode;
        self.response.written = true;
        self.response.traits = Traits::default();
        let mut builder = nodens_wire::Builder::new(&mut self.response.wire, 0, flags);
        builder.question(self.qname.view(), self.qtype, self.qclass);
        fill(&mut builder, self.qname.view());
    }
}
