//! Every maximum of transfers and notifications in one place.

use std::time::Duration;

/// Octets at which a message of a transfer ends: as far as a compression pointer can point (RFC
/// 1035 section 4.1.4), and a bound for the work that one message is. Only a record that is longer
/// makes a longer message.
pub const MESSAGE_LEN: usize = 16 << 10;
/// Steps of a cursor that one message may take, whether each leads to a record or not.
pub const STEPS_PER_MESSAGE: usize = 4096;

/// Times a NOTIFY is sent to a server that does not accept it (RFC 1996 section 3.6).
pub const NOTIFY_ATTEMPTS: u32 = 5;
/// Until it is sent for the second time; each time after that it takes twice as long.
pub const NOTIFY_TIMEOUT: Duration = Duration::from_secs(2);
/// The least time between two versions of a zone that one server is told of.
pub const NOTIFY_INTERVAL: Duration = Duration::from_secs(5);
/// Messages of NOTIFY that may be sent to one server in one go, so that one that is secondary for very
/// many zones is not told of all at once when the program starts.
pub const NOTIFY_BURST: u32 = 100;
/// Until as many may be sent again.
pub const NOTIFY_PAUSE: Duration = Duration::from_millis(100);

/// The least time between two looks at a primary, whatever the SOA record says (as in Knot DNS).
pub const REFRESH_MIN: Duration = Duration::from_secs(2);
/// The least time until the next attempt when no primary could be reached.
pub const RETRY_MIN: Duration = Duration::from_secs(1);
/// The least time that a zone is kept without a primary.
pub const EXPIRE_MIN: Duration = Duration::from_secs(3);
/// Until the second attempt to get a zone of which there is no version; twice as long each time (as in
/// CoreDNS).
pub const BOOTSTRAP_MIN: Duration = Duration::from_millis(250);
/// The longest time between two attempts to get such a zone (as in CoreDNS).
pub const BOOTSTRAP_MAX: Duration = Duration::from_secs(10);
/// The longest time between two attempts to get a zone that is there, but cannot be served.
pub const USELESS_MAX: Duration = Duration::from_secs(3600);
/// The same where all primaries answer that they will not give it, or there is no room for it: the next attempt is
/// likely to end in the same way, and very many zones may be refused at once.
pub const REFUSED_MAX: Duration = Duration::from_secs(300);
/// Queries and transfers of the zones of one server block that may be under way at once; with one address never more
/// than are left for others, as one that says nothing keeps them for half a minute.
pub const REFRESHES_AT_ONCE: usize = 128;
/// Those of them that may be with one address before it has said something.
pub const REFRESHES_UNHEARD: usize = 8;
/// Between the first queries for two zones of which a version is here already, and between two attempts to get a zone
/// after one that has failed: after a restart a hundred thousand zones would be asked for at once, and take the CPU
/// while clients ask for them.
pub const PACED_INTERVAL: Duration = Duration::from_micros(500);
/// After a pause those of so long may be asked for at once, as timers are late.
pub const PACED_BURST: Duration = Duration::from_millis(10);
/// A zone that expires within this time is asked for at once all the same.
pub const RESTORED_MARGIN: Duration = Duration::from_secs(600);

/// Names whose searches are made side by side before their queries are answered: about as many lines of memory as a
/// processor fetches at the same time.
pub const NAMES_AT_ONCE: usize = 16;
/// Names of a zone that the caches of a processor do not hold beside all else. With 10,000 signed ones fetching gains a
/// twentieth, with 1,450 it costs as much.
pub const FETCHED_ZONE_MIN: u64 = 4096;
/// Zones that the caches do not hold.
pub const FETCHED_ZONES_MIN: usize = 1024;

/// Octets of the RDATA of one RRset with their lengths: a longer one is in no message.
pub const RRSET_LEN_MAX: usize = 65_535;
/// Octets of all records of one name, which a change of one of them copies.
pub const NODE_LEN_MAX: usize = 1 << 18;
/// Seconds of the greatest TTL (RFC 2181 section 8).
pub const TTL_MAX: u32 = (1 << 31) - 1;
/// Names that are looked at for the one whose NSEC record covers another, before it is given up: in a
/// zone that is signed throughout there are never more between them than names without records above
/// one another.
pub const NSEC_STEPS: usize = 256;
/// Iterations of the hash of NSEC3 up to which a zone's proofs are given, the most that RFC 5155, section 10.3, allows for
/// any key. Validators take such zones for unsigned from far fewer on (RFC 9276 section 3.2), but only if they are shown
/// the records; without any, an answer is bogus. A query costs up to 5 times so many.
pub const NSEC3_ITERATIONS_MAX: u16 = 2500;
/// Versions that a zone that is served keeps until their last reader is done.
pub const RETIRED_MAX: usize = 16;

/// Octets that a zone from a primary takes beside its records: itself, its name, and its places in the tables of zones, in
/// the schedule, in the catalog and among its members, also while tables have just doubled. `tests/cost.rs` compares it with the
/// most of that for names of a usual length; those of 250 octets take up to an eighth more.
pub const SECONDARY_OCTETS: u64 = 2200;

/// Octets by which a version that is being made may grow before they are set aside.
pub const ROOM_STEP: u64 = 256 << 10;

/// Octets of one entry of a master file, with its comments: the longest RDATA written as `\DDD` takes a
/// quarter of it.
pub const MASTER_ENTRY_LEN_MAX: usize = 1 << 20;
/// Files that `$INCLUDE` may open within one another, as in CoreDNS.
pub const MASTER_INCLUDE_DEPTH: usize = 7;
/// Records that one `$GENERATE` may make, as in CoreDNS.
pub const MASTER_GENERATED_MAX: u64 = 1 << 16;
/// Digits to which a number of `$GENERATE` may be filled up, as in CoreDNS.
pub const MASTER_DIGITS_MAX: usize = 255;
/// Octets of a secret of TSIG; hash functions make nothing of more than 128.
pub const TSIG_SECRET_LEN_MAX: usize = 1024;
/// Messages in a row of a response that may be without a TSIG record (RFC 8945 section 5.3.1).
pub const TSIG_UNSIGNED_MAX: usize = 99;
/// Octets of the differences between versions that are kept for one zone, for secondaries that ask for
/// those alone.
pub const JOURNAL_OCTETS: usize = 4 << 20;
/// Differences that are kept for one zone.
pub const JOURNAL_STEPS_MAX: usize = 4096;

/// Seconds by which the serial number of a catalog may be ahead of the clock for a change to wait until the clock has
/// passed it. Where it is further ahead, the clock was set back, and a change would wait for as long.
pub const CATALOG_AHEAD_S: u32 = 2;

/// Updates of one zone that may wait; those beyond fail.
pub const UPDATES_WAITING_MAX: usize = 1024;
/// Octets of their messages.
pub const UPDATES_WAITING_OCTETS: usize = 4 << 20;
/// Updates that make one version together, which is written to the disk once.
pub const UPDATES_AT_ONCE: usize = 64;

/// Octets of records after which a frame of a stored zone ends.
pub const IMAGE_CHUNK_LEN: usize = 64 << 10;
/// Octets that are hashed in search of a good frame behind one that is not, up to half a second.
pub const IMAGE_SEARCH_OCTETS: usize = 64 << 20;

/// Octets of all messages of one transfer to this server.
pub const INCOMING_OCTETS_MAX: u64 = 4 << 30;
/// Records of one transfer to this server.
pub const INCOMING_RECORDS_MAX: u64 = 64 << 20;
/// Messages of one transfer to this server: some servers send one record in each.
pub const INCOMING_MESSAGES_MAX: u64 = INCOMING_RECORDS_MAX;
/// Messages without any record in one transfer to this server.
pub const INCOMING_EMPTY_MAX: u64 = 16;

/// Octets of the parts of responses that are written once, of all zones together.
pub const PREPARED_OCTETS_MAX: usize = 8 << 20;
/// The part of the memory of zones that they are: one in so many, if that is less.
pub const PREPARED_PART: u64 = 16;
/// The part of it that one version of a zone may take: one in so many.
pub const PREPARED_ONE_ZONE: usize = 2;
/// Octets that have to be left of these before another part is made: more than one has.
pub const PREPARED_RESERVE: usize = 32 << 10;
/// Places in which one of them may be. With as few as two, a tenth of the parts of a zone like the root had none.
pub const PREPARED_PLACES: usize = 6;
/// Places for such parts in one version of a zone; a power of two.
pub const PREPARED_SLOTS_MAX: usize = 8192;

const _: () = assert!(MESSAGE_LEN <= 1 << 14 && MESSAGE_LEN < nodens_wire::MESSAGE_LEN_MAX);

/// Names that may have to be signed again because an update hides what lies below a name, or shows it: so that one
/// update takes a part of a second at most.
pub const RESIGNED_NAMES_MAX: usize = 4096;
/// Records that one step looks at for signatures that expire: a part of a millisecond.
pub const SWEEP_STEPS: usize = 2048;
/// Names that are signed again in one step, which makes a version of the zone: some milliseconds.
pub const SWEEP_DUE_MAX: usize = 64;
