//! Every maximum of the sockets in one place, with compile-time checks of how they relate.

mod primaries;

pub use primaries::*;

use std::time::Duration;

/// Datagrams taken from a socket by one system call.
pub const BATCH: usize = 64;
/// Full batches taken from one socket before the other sockets get their turn.
pub const BATCHES_IN_A_ROW: usize = 4;
/// The largest buffer for an answer that a worker keeps for each datagram of a batch, in octets.
pub const ANSWER_BUFFER_LEN: usize = 8 << 10;
/// The longest request from a client, in octets, but for UPDATE over TCP and TLS; it rarely has more than 300.
pub const REQUEST_LEN_MAX: usize = 4096;
/// What is asked of the kernel as receive buffer of each UDP socket of a listener, in octets.
pub const RECEIVE_BUFFER: usize = 4 << 20;
/// Events taken from epoll by one system call.
pub const EVENTS: usize = 256;
/// Sockets one listener may have, whatever `multisocket` says (CoreDNS's bound).
pub const SOCKETS_PER_LISTENER_MAX: usize = 1024;
/// Ports tried for a listener on port 0 until one is free for UDP and for TCP.
pub const FREE_PORT_ATTEMPTS: usize = 32;

/// How often the supervisor looks at the workers.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Looks in a row at which a worker has made no turn although there is something for it to do,
/// after which it is stuck: its clients are served by another within half a second, long before
/// they ask again. A worker that is merely slow makes thousands of turns in that time.
pub const SILENT_LOOKS_MAX: u32 = 4;
/// Looks in a row with a turn after which a worker that was stuck has recovered.
pub const RECOVERED_LOOKS: u32 = 5;
/// Looks between two times that what workers have freed is given back to the kernel. It may take some milliseconds,
/// for which a worker that needs memory waits.
pub const RETURN_LOOKS: u32 = 100;
/// Looks in a row with nothing to do after which a worker is woken, to see whether it would.
pub const IDLE_LOOKS_MAX: u32 = 10;
/// For how long a worker may be stuck until the process calls itself unhealthy. Its clients are
/// served meanwhile, but for its connections, so there is time to recover.
pub const UNHEALTHY_AFTER: Duration = Duration::from_secs(5);

/// Octets that are read and dropped of a client whose connection has ended, while its own end is awaited:
/// it may have been sending queries, or a long body.
pub const DROPPED_MAX: usize = 1 << 20;
/// Connections the kernel completes before they are accepted.
pub const BACKLOG: i32 = 4096;
/// Connections accepted from one listener before other sockets get their turn.
pub const ACCEPTS_IN_A_ROW: usize = 64;
/// The same while another worker is to make room: it is woken after that, while places are left.
pub const ACCEPTS_WHILE_ASKING: usize = 16;
/// Octets taken from a connection at once: no more wait until they may be looked at, but for an UPDATE message.
pub const STREAM_READ_LEN: usize = 16 << 10;
/// The most octets that one record of TLS holds (RFC 8446 section 5.1).
pub const RECORD_LEN_MAX: usize = 16 << 10;
/// Octets of a connection that wait to become whole records and messages of the handshake: the longest
/// certificate message that is read, and what may have arrived after it.
pub const TLS_WAITING_MAX: usize = 96 << 10;
/// What a connection with TLS is reckoned to hold beside its messages, its handshake and its client's
/// certificates, in octets: its keys and its state. It is a part of what each connection may hold.
pub const TLS_COST: usize = 4 << 10;
/// Handshakes of TLS that go on by one step before other sockets get their turn. One step takes up to a
/// few milliseconds with an RSA key, for which queries to the same worker wait.
pub const HANDSHAKES_IN_A_ROW: usize = 1;
/// Reads from a connection whose listener closes, so that what has arrived is still answered.
pub const LAST_READS: usize = 4;
/// The most octets of the head of a request of HTTP/1.1, or of its fields in HTTP/2. The longest query in
/// a target takes a third of it.
pub const HTTP_HEAD_LEN_MAX: usize = 16 << 10;
/// The longest query as it stands in a target, in Base64.
pub const HTTP_QUERY_TEXT_MAX: usize = REQUEST_LEN_MAX.div_ceil(3) * 4;
/// For how long a response may be kept by others, in seconds, whatever its TTLs say (CoreDNS's bound).
pub const HTTP_AGE_MAX: u32 = 3600;
/// Octets that gRPC puts around a query: the head of a frame, and the key and length of a field.
pub const GRPC_AROUND: usize = 5 + 4;
/// Fields of the head of a request.
pub const HTTP_FIELDS_MAX: usize = 64;
/// Octets of a line with the size of a chunk.
pub const HTTP_CHUNK_LINE_MAX: usize = 256;
/// Octets of responses that the client of a connection has no room for at which no more of its requests
/// are taken.
pub const HTTP_SENT_AT_ONCE: usize = 64 << 10;
/// Requests of one connection of HTTP/2 that may be under way, whatever the Corefile says: each takes
/// memory before it is whole.
pub const HTTP2_STREAMS_MAX: u32 = 1024;
/// Octets of the body of one request of HTTP/2 that may come before they are looked at: a query, and what
/// gRPC puts around it.
pub const HTTP2_STREAM_WINDOW: u32 = 8 << 10;
/// Requests of one connection of HTTP/2 that its client gave up, less those that were responded to, and
/// resets for its faults, after which it is closed.
pub const HTTP2_RESETS_MAX: usize = 128;
/// What small frames of bodies that nobody has looked at may take on a connection of HTTP/2, in octets: `h2`
/// reckons 256 for each, less what is in it. One read brings less than this.
pub const HTTP2_DATA_BUDGET: usize = 512 << 10;
/// Octets of requests and of responses that wait on a connection of HTTP/2 at which new requests are refused.
pub const HTTP2_KEPT_MAX: usize = 128 << 10;
/// Octets that `h2` gets at once, and so those whose requests have all their fields in memory at the same
/// time. A compressed field of one octet takes more than a hundred.
pub const HTTP2_READ_LEN: usize = 2 << 10;
/// What a connection of HTTP/2 is reckoned to hold beside its requests and responses, in octets: buffers
/// for frames, and the tables of compressed fields.
pub const HTTP2_COST: usize = 36 << 10;
/// The same of one request that is under way.
pub const HTTP2_REQUEST_COST: usize = 1 << 10;
/// Questions of one connection that may be under way; reading pauses there.
pub const IN_FLIGHT_PER_CONNECTION: usize = 128;
/// Unsent response octets of a connection at which reading its questions pauses.
pub const UNSENT_PAUSE: usize = 64 << 10;
/// Unsent response octets of a connection at which it is closed.
pub const UNSENT_MAX: usize = 2 << 20;
/// What an answer that is under way counts as unsent, in octets: what most answers are not longer
/// than.
pub const ANSWER_RESERVE: usize = 512;
/// Unsent octets of a connection at which they are sent before the end of the round.
pub const SEND_EARLY: usize = 16 << 10;
/// Octets that all client connections together may hold where nothing else is said.
pub const HELD_MAX: usize = 64 << 20;
/// Octets that each connection may hold beside that: a query, an answer.
pub const HELD_FREE: usize = 8 << 10;
/// What is held is reckoned in pieces of so many octets.
pub const HELD_STEP: usize = 8 << 10;
/// A block of memory of so many octets is the kernel's again as soon as it is free. Few answers are
/// longer, so that few cost the system calls.
pub const LARGE_BLOCK: usize = 32 << 10;
/// Octets sent after which the kernel is asked how many of them it still holds.
pub const SENT_UNSEEN: u64 = 16 << 10;
/// What is asked of the kernel as send buffer of a client connection, in octets. It takes twice
/// that, and where nothing is asked up to 4 MiB for a client that does not read.
pub const STREAM_SEND_BUFFER: usize = 64 << 10;
/// The same as receive buffer: several times what is read at once.
pub const STREAM_RECEIVE_BUFFER: usize = 32 << 10;
/// What a connection may hold in the kernel while its requests are not read, in octets.
pub const RECEIVE_COST: usize = 2 * STREAM_RECEIVE_BUFFER;
/// Unsent octets of a connection below which the next message of an answer of many is made.
pub const UNSENT_STREAM: usize = 32 << 10;
/// Messages of such answers that are made before other sockets get their turn. One of a cluster's
/// zone takes less than half a millisecond, for which questions to the same worker wait.
pub const STREAM_MESSAGES_IN_A_ROW: usize = 1;
/// Octets a slow reader must have taken for its write timeout to start anew.
pub const WRITE_PROGRESS: u64 = 16 << 10;
/// Descriptors kept free of client connections: listeners, upstreams, files.
pub const DESCRIPTOR_RESERVE: usize = 1024;
/// Client connections where the descriptor limit says nothing.
pub const CONNECTIONS_MAX: usize = 1 << 20;
/// One client address may hold the whole divided by this many connections.
pub const CONNECTIONS_CLIENT_SHARE: usize = 4;
/// But so many, if that is no more than half: a node's cache that asks over TCP is one client, and has
/// a connection for each query that waits.
pub const CONNECTIONS_CLIENT_FEW: usize = 1024;
/// Of ten connections, one network (an IPv4 /24, an IPv6 /64) may hold so many. Where all clients
/// are of one network, as the pods of a node are, it is the bound of all.
pub const CONNECTIONS_NETWORK_TENTHS: usize = 8;
/// What an idle connection takes in the table of a worker, at most, in octets. Beside that it has an
/// entry in the queue of idle connections and one in that of deadlines, of 16 octets each: 240 in all.
pub const CONNECTION_LEN: usize = 200;
/// With less than so many percent of the places free, connections may be idle for one part in so
/// many of the time for it. Later and less than elsewhere: whoever comes when all places are taken
/// gets that of the longest idle connection, so nobody has to go before that, and clients that ask
/// every few seconds would come back again and again.
pub const PRESSURE: [(usize, u64); 2] = [(3, 4), (12, 2)];
/// But never for less than this, in nanoseconds, if its time is not shorter anyway.
pub const IDLE_MIN_NS: u64 = 1_000_000_000;
/// How often idle connections are looked over while few places are left, in nanoseconds.
pub const PRESSURE_SWEEP_NS: u64 = 200_000_000;
/// Idle connections that a sweep passes over because they may be idle for longer.
pub const SPARED_MAX: usize = 64;
/// The other workers are asked to close idle connections no more often than this, in nanoseconds.
pub const PRESS_NS: u64 = 1_000_000;
/// A client has so long to take a long response before its connection counts as idle, in nanoseconds.
pub const TAKING_NS: u64 = 1_000_000_000;
/// For how long nothing is accepted when there is no descriptor at all, in nanoseconds.
pub const HOLD_OFF_NS: u64 = 20_000_000;
/// Idle connections closed before other sockets get their turn.
pub const CLOSES_IN_A_ROW: usize = 64;
/// Connections of two workers are taken to be idle for equally long if they differ by no more than this, in
/// nanoseconds. Workers would else wake each other for each connection that is closed.
pub const IDLE_ALIKE_NS: u64 = 100_000_000;
/// Idle connections closed at once when there is no descriptor for a query to an upstream: more such
/// queries follow.
pub const ROOM_FOR_UPSTREAMS: usize = 16;
/// Parts, each with a lock of its own, that the counts of clients' connections are spread over: many
/// more than there are workers on most machines.
pub const QUOTA_PARTS: usize = 64;
/// Buffers a worker keeps for its connections' use.
pub const SPARE_BUFFERS: usize = 32;
/// The largest buffer kept, in octets.
pub const SPARE_BUFFER_LEN: usize = 4 << 10;

/// Octets of a query on a stream of QUIC that are taken before it is read, with its length in front.
pub const QUIC_STREAM_WINDOW: u32 = REQUEST_LEN_MAX as u32 + 2;
/// The same of all streams of a connection.
pub const QUIC_RECEIVE_WINDOW: u32 = 64 << 10;
/// Octets of responses that a connection over QUIC keeps for sending, and for sending again, before it
/// keeps them as responses that wait. Room for the longest.
pub const QUIC_SEND_WINDOW: u64 = 128 << 10;
/// Octets of a packet that every path for QUIC carries (RFC 9000 section 14).
pub const QUIC_PACKET_LEN: u16 = 1200;
/// Octets of the longest packet that clients may send: that of Ethernet. Longer ones are dropped.
pub const QUIC_DATAGRAM_MAX: usize = 1500;
/// Octets of datagrams with stream data that a connection may hold before all of it is read. What is
/// received stays in the datagram it came in, however little of it is of use.
pub const QUIC_UNREAD_MAX: usize = 256 << 10;
/// Octets of datagrams with parts of the handshake of a connection: certificates of a client have a quarter of it,
/// and are sent again where they are lost. Behind the handshake nobody sends such.
pub const QUIC_TLS_MAX: usize = 64 << 10;
/// What a connection over QUIC is reckoned to hold beside its messages, in octets: its keys, and the
/// tables that it begins with. Check: `a_connection_holds_what_is_reckoned_with`
pub const QUIC_COST: usize = 20 << 10;
/// What each stream that it may open adds to that, in octets.
pub const QUIC_STREAM_COST: usize = 96;
/// Connections over QUIC whose first packet waits for its turn, of a worker.
pub const QUIC_INCOMING_MAX: usize = 256;
/// Octets kept of what follows each such packet: the rest of a handshake's first message.
pub const QUIC_INCOMING_LEN: usize = 8 << 10;
/// Handshakes of QUIC that are not over, of all workers, from which on a client has to show that it
/// receives at its address before more is done for it.
pub const QUIC_RETRY_FROM: usize = 32;
/// The same as a part of what all connections may hold: one in so many octets.
pub const QUIC_RETRY_SHARE: usize = 16;
/// Handshakes of QUIC that are under way at most, of all workers.
pub const QUIC_HALF_OPEN_MAX: usize = 1024;
/// Those of one client.
pub const QUIC_HALF_OPEN_CLIENT: usize = 64;
/// Those of one network.
pub const QUIC_HALF_OPEN_NETWORK: usize = 256;
/// New connections that get a packet of their own in answer to each batch, which refuses them or has them
/// show their address. Others have to begin again, after a second: with as many as a batch has, the
/// clients of a server that begins to serve do not.
pub const QUIC_TURNED_AWAY_MAX: usize = BATCH;
/// Packets of a handshake that wait for its turn.
pub const QUIC_WAITING_EVENTS: usize = 8;
/// How soon it is looked whether another worker gave back a place among all queries, in nanoseconds.
pub const QUIC_RETRY_NS: u64 = 5_000_000;

/// Octets of one stream of HTTP/3 that may come before they are looked at.
pub const HTTP3_STREAM_WINDOW: u32 = HTTP2_STREAM_WINDOW;
/// Octets of the stream of one request of HTTP/3 that is not whole: its fields, its body, and what is of
/// no use.
pub const HTTP3_REQUEST_LEN_MAX: usize = 32 << 10;
/// Octets that are dropped behind a response to a request that is not whole, before its client is told that
/// nobody reads them: some clients read no response after that.
pub const HTTP3_DROPPED_MAX: usize = 128 << 10;
/// What the place of a dropped piece is reckoned to take, in octets.
pub const HTTP3_PIECE_COST: usize = 48;
/// Octets of memory that requests of one connection of HTTP/3 may take which are not whole; beyond them they
/// are refused.
pub const HTTP3_KEPT_MAX: usize = HTTP2_KEPT_MAX;
/// Streams in one direction that a client of HTTP/3 may have open: it needs three (RFC 9114 section 6.2),
/// and some open others that mean nothing.
pub const HTTP3_SIDE_STREAMS_MAX: u32 = 8;
/// Octets of a frame of the control stream of HTTP/3 that means anything, such as SETTINGS.
pub const HTTP3_CONTROL_FRAME_MAX: usize = 1 << 10;
/// Octets of a stream of HTTP/3 that came before those in front of them.
pub const HTTP3_EARLY_LEN_MAX: usize = HTTP3_STREAM_WINDOW as usize;
/// In how many pieces.
pub const HTTP3_EARLY_PIECES_MAX: usize = 16;
/// What a client of HTTP/3 may do on a connection that is of no use, less its responses: requests that it
/// gives up, streams and frames of control that mean nothing.
pub const HTTP3_IDLE_MAX: usize = 128;
/// What HTTP/3 adds to [`QUIC_COST`], in octets: streams of control, and what came on them.
pub const HTTP3_COST: usize = 4 << 10;

/// Questions sent from one UDP port before it is given up.
pub const USES_PER_PORT: u32 = 128;
/// Questions of one round that may share a UDP port.
pub const SHARED_PORT: usize = 16;
/// The longest buffer of such a question that is kept for others, in octets: nearly all have room in it.
pub const SPARE_QUERY_LEN: usize = 1024;
/// How long a UDP port is used.
pub const PORT_AGE_MAX: Duration = Duration::from_secs(5);
/// Open UDP ports towards one upstream below which every question opens a fresh one.
pub const FRESH_PORTS: usize = 32;
/// UDP ports one worker may have open towards upstreams.
pub const PORTS_PER_WORKER: usize = 1024;
/// UDP ports each upstream gets even when all are in use, so that one that never answers cannot
/// take them all.
pub const PORTS_PER_UPSTREAM_MIN: usize = 8;
/// Questions of one UDP port at which those that were given up begin to be dropped, whose IDs else
/// stay in use for as long as the port does.
pub const WAITING_PER_PORT: usize = 256;
/// Full batches of datagrams taken from an upstream's socket before other sockets get their turn.
pub const REPLIES_IN_A_ROW: usize = 2;

/// Connections a worker may have to one upstream.
pub const UPSTREAM_CONNECTIONS: usize = 4;
/// The same of one that closes connections after a number of queries, which cannot all share a few.
pub const UPSTREAM_CONNECTIONS_SHORT: usize = 256;
/// For how long it counts that an upstream closed a connection although queries waited there.
pub const UPSTREAM_ANSWERS_KEPT: Duration = Duration::from_secs(60);
/// For how long no handshake with an upstream begins after one that failed; doubled with each further one.
pub const HANDSHAKE_PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest such time.
pub const HANDSHAKE_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Questions under way on every connection before another is opened.
pub const UPSTREAM_SPREAD: usize = 16;
/// Requests of HTTP/2 that may be under way on one connection to an upstream, whatever it says: its SETTINGS come
/// only after the first of them, and most servers take 100 or more (RFC 9113 section 6.5.2).
pub const UPSTREAM_STREAMS: usize = 100;
/// Octets of the body of one response of HTTP/2 that may come before they are looked at: a message, and what gRPC
/// puts around it.
pub const UPSTREAM_STREAM_WINDOW: u32 = 66 << 10;
/// The same of all responses of a connection that are not whole, and so what they take of the memory.
pub const UPSTREAM_CONNECTION_WINDOW: u32 = 512 << 10;
/// Octets on a connection of HTTP/2 to an upstream without a whole response at which it is closed.
pub const UPSTREAM_UNANSWERED_MAX: usize = 1 << 20;
/// Octets of a text of an upstream's that a log line has.
pub const UPSTREAM_TEXT_MAX: usize = 200;
/// For how long a request of HTTP/2 that needs no response any more is not taken back: servers close connections
/// on which many are.
pub const UPSTREAM_FORGOTTEN_MAX: Duration = Duration::from_secs(10);
/// Questions under way or forgotten on one connection; an upstream that is so far behind gets no more.
pub const UPSTREAM_IN_FLIGHT: usize = 8192;
/// Unsent octets of queries on one connection at which it gets no more: as many queries as there may be, of the
/// usual length. Longer ones would else take much memory when nobody waits for them any more.
pub const UPSTREAM_UNSENT_MAX: usize = 512 << 10;
/// How long a connection to an upstream may take to be made.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an upstream's host may leave our octets unacknowledged.
pub const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
/// Connections take no more questions at this age less up to half of it, at random, where
/// `max_age` says nothing, so that what balances the load between us and the upstream gets its
/// chance, and not for all connections at once.
pub const UPSTREAM_AGE: Duration = Duration::from_secs(120);
/// Queries under way on one connection over QUIC: each has room of its own for what arrives out of order.
pub const QUIC_UPSTREAM_IN_FLIGHT: usize = 1024;
/// Octets of a response on a stream of QUIC that are taken before it is read: the longest, with its length.
pub const QUIC_UPSTREAM_STREAM_WINDOW: u32 = nodens_wire::MESSAGE_LEN_MAX as u32 + 2;
/// The same of all streams of a connection.
pub const QUIC_UPSTREAM_WINDOW: u32 = 1 << 20;
/// Octets of responses that are not whole, of one connection, at which it is closed.
pub const QUIC_UPSTREAM_PARTIAL_MAX: usize = 16 << 20;
/// The round trip that is reckoned with before the first one: a packet that is lost then is sent again after
/// three times as long, and so more than once before [`CONNECT_TIMEOUT`].
pub const QUIC_UPSTREAM_RTT: Duration = Duration::from_millis(100);
/// A connection over QUIC on which nothing is heard for so long is taken for lost; longer where `expire` is.
pub const QUIC_IDLE: Duration = Duration::from_secs(30);
/// How often connections and ports to upstreams are looked over for age.
pub const SWEEP: Duration = Duration::from_millis(250);

/// The longest answer to a notification that is read, in octets.
pub const NOTIFY_MESSAGE_LEN: usize = 512;
/// Places for connections that are kept free, at most, until another worker has closed those idle for longest.
pub const RESERVE_MAX: usize = 64;
/// For how long the distance of the clocks is taken for the same, in nanoseconds. A clock that is
/// slewed runs 0.05 % faster or slower: 50 µs in that time.
pub const DISTANCE_AGE_MAX: u64 = 100_000_000;
/// The most that is read of a response; no EDNS is sent, so over UDP it has at most 512 octets.
pub const RESPONSE_LEN_MAX: usize = 4096;

const _: () = assert!(UPSTREAM_SPREAD <= UPSTREAM_IN_FLIGHT && UPSTREAM_SPREAD <= UPSTREAM_STREAMS);
const _: () =
    assert!(nodens_wire::MESSAGE_LEN_MAX + GRPC_AROUND <= UPSTREAM_STREAM_WINDOW as usize);
const _: () = assert!(UPSTREAM_STREAM_WINDOW < UPSTREAM_CONNECTION_WINDOW);
// What may be under way at the same time is no reason to close a connection.
const _: () = assert!(UPSTREAM_CONNECTION_WINDOW as usize * 2 <= UPSTREAM_UNANSWERED_MAX);
const _: () = assert!(UPSTREAM_SPREAD <= QUIC_UPSTREAM_IN_FLIGHT);
const _: () = assert!(QUIC_UPSTREAM_STREAM_WINDOW <= QUIC_UPSTREAM_WINDOW);
// IDs are drawn at random until one is free, which is quick only while most are.
const _: () = assert!(UPSTREAM_IN_FLIGHT * 4 <= 1 << 16);
const _: () = assert!(2 * ACCEPTS_WHILE_ASKING <= RESERVE_MAX);
/// Octets of a database of `dynupdate` up to which it is not written anew, however small the zone is.
pub const DATABASE_LEN_MIN: u64 = 256 << 10;
/// Between two attempts to get a database that another process still has.
pub const DATABASE_PAUSE: Duration = Duration::from_millis(10);
/// How long updates wait for it before they fail.
pub const DATABASE_WAIT: Duration = Duration::from_secs(3);
/// How long a process that takes over queries waits until it serves what its databases have: the clients wait as well.
pub const DATABASE_LOOK: Duration = Duration::from_millis(250);
/// How long a database waits to be read while another one is, whose disk may not answer.
pub const DATABASE_TURN: Duration = Duration::from_secs(3);
/// How long updates are added to a version before it is written: all of them wait for that, and clients get SERVFAIL
/// after 4.5 s.
pub const DATABASE_BATCH: Duration = Duration::from_millis(500);
/// Between two attempts to use a database that is damaged or cannot be opened.
pub const DATABASE_RETRY: Duration = Duration::from_secs(5);
/// Threads that write databases; where there are more databases, some share one.
pub const DATABASE_WRITERS_MAX: usize = 64;
/// How long the end of a configuration waits for databases that are being written.
pub const DATABASE_END: Duration = Duration::from_secs(3);

const _: () = assert!(REQUEST_LEN_MAX < STREAM_READ_LEN);
const _: () = assert!(nodens_wire::MESSAGE_LEN_MAX + 2 < QUIC_SEND_WINDOW as usize);
const _: () = assert!(QUIC_RETRY_FROM <= QUIC_HALF_OPEN_MAX);
const _: () = assert!(HTTP_QUERY_TEXT_MAX < HTTP_HEAD_LEN_MAX / 2);
const _: () = assert!(REQUEST_LEN_MAX + GRPC_AROUND < HTTP2_STREAM_WINDOW as usize);
const _: () = assert!(HTTP_SENT_AT_ONCE < HTTP2_KEPT_MAX);
const _: () = assert!(
    HTTP3_STREAM_WINDOW <= QUIC_RECEIVE_WINDOW && QUIC_STREAM_WINDOW <= QUIC_RECEIVE_WINDOW
);
const _: () = assert!(HTTP_HEAD_LEN_MAX + REQUEST_LEN_MAX < HTTP3_REQUEST_LEN_MAX);
const _: () = assert!(HTTP_SENT_AT_ONCE + nodens_wire::MESSAGE_LEN_MAX < UNSENT_MAX);
const _: () =
    assert!(TLS_COST + SPARE_BUFFER_LEN <= HELD_FREE && SPARE_BUFFER_LEN <= HELD_FREE / 2);
const _: () =
    assert!(UPSTREAM_IN_FLIGHT * 64 <= UPSTREAM_UNSENT_MAX && UPSTREAM_UNSENT_MAX <= UNSENT_MAX);
const _: () = assert!(SEND_EARLY <= UNSENT_PAUSE && UNSENT_PAUSE < UNSENT_MAX);
const _: () = assert!(IN_FLIGHT_PER_CONNECTION * ANSWER_RESERVE <= UNSENT_PAUSE);
const _: () = assert!(UNSENT_STREAM + nodens_wire::MESSAGE_LEN_MAX < UNSENT_MAX);
const _: () = assert!(SHARED_PORT <= USES_PER_PORT as usize && SHARED_PORT < WAITING_PER_PORT);
const _: () = assert!(PORTS_PER_UPSTREAM_MIN <= FRESH_PORTS && FRESH_PORTS <= PORTS_PER_WORKER);
