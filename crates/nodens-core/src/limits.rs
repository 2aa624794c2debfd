//! Every maximum of the core in one place, with compile-time checks of how they relate.

use std::time::Duration;

/// Octets of records that may wait for the log writer.
pub const LOG_BACKLOG_MAX: usize = 16 << 20;
/// Octets of messages that may wait for one writer of `dnstap`, for each that may.
pub const TAP_MESSAGE_LEN: usize = 1_600;
/// How long clients may keep what `ddr` tells them, in seconds: a day.
pub const DDR_TTL_MAX: u32 = 86_400;
/// Padded responses are as long as a multiple of so many octets (RFC 8467 section 4.1).
pub const PADDING_BLOCK: usize = 468;
/// The most accounts that an `rrl` may have in all workers together, of 24 octets each.
pub const RRL_TABLE_LEN_MAX: usize = 1_000_000;
/// Tables of `rrl` that a worker keeps of blocks that a reload has changed or taken out, beside those of blocks
/// that are there.
pub const RRL_OLD_TABLES_MAX: usize = 16;
/// Queries that arrived together from which on memory is fetched before they are looked at: for fewer it takes more to
/// find the zone than is won.
pub const FETCHED_FROM: usize = 4;
/// The most names for which it is fetched: no more datagrams are received at a time.
pub const FETCHED_AT_ONCE: usize = 64;
/// Nested lookups one question may cause (CNAME targets, search paths, DNS64).
pub const LOOKUP_DEPTH_MAX: usize = 8;
/// Lookups one question may cause in all.
pub const LOOKUPS_PER_JOB_MAX: u32 = 32;
/// CNAME records of a response that the `cname` rules of `rewrite` look at, as many as a chain of
/// aliases can sensibly have.
pub const REWRITTEN_CNAMES_MAX: usize = 32;
/// Names of a search list that `autopath` tries for one question, the client's own included; room
/// is left for the aliases they may lead to.
pub const SEARCH_NAMES_MAX: usize = 16;
/// Time after which `autopath` leaves the rest of a search list to the client: half of what stub
/// resolvers wait for one answer.
pub const SEARCH_TIME_MAX: Duration = Duration::from_millis(2500);
/// How long `search` goes by what a zone's servers said, of a cut, of a name or of whose zone it is,
/// before it hears them again: so long a name can be denied at most that they have had meanwhile.
pub const SEARCH_TIME: Duration = Duration::from_secs(30);
/// After so much of it, whose zone it is is asked for anew, so that no query has to wait for that.
pub const PROOF_AGAIN: Duration = Duration::from_secs(15);
/// Time between two attempts to find that out while nothing is heard.
pub const PROOF_PAUSE: Duration = Duration::from_secs(2);
/// How long `search` keeps out of the way of names below one that was there after all.
pub const POPULATED_TIME: Duration = Duration::from_secs(3600);
/// How long after a denial was gone by a name that exists there counts as a surprise.
pub const SURPRISE_TIME: Duration = Duration::from_secs(60);
/// For so many seconds at least no denial is taken from the cache for a name that is new.
pub const FRESH_TIME_MIN: u32 = 30;
/// The same at most.
pub const FRESH_TIME_MAX: u32 = 300;
/// The most places there are in one worker for questions that wait for an upstream or another's answer,
/// however much memory there is.
pub const PENDING_PER_WORKER_MAX: usize = 65_536;
/// The fewest, however little there is.
pub const PENDING_PER_WORKER_MIN: usize = 32;
/// What a question that waits takes, in octets: its job with all buffers, its places in queues and
/// tables. This is one place; a question whose octets need more takes several.
/// Check: `a_waiting_question_takes_what_is_reckoned_with`
pub const PENDING_OCTETS: usize = 4096;
/// How many of them are for what clients and upstreams make long: the query as it came and as it is sent, the
/// response. Check: `long_queries_take_no_more_than_all_that_wait_may_and_give_it_back`
pub const PENDING_BUFFERS: usize = 1536;
/// Places that were taken in a worker from which on their memory is worth giving back to the kernel.
pub const PLACES_MANY: usize = 2048;
/// It is given back when one part in this many of them is taken.
pub const PLACES_FEW_SHARE: usize = 8;
/// Queries that one connection over QUIC may have open at once, whatever `quic` says: each takes memory
/// from the beginning of the connection.
pub const QUIC_STREAMS_MAX: u32 = 4096;
/// Questions drawn to find the client that has most of them waiting.
pub const CLIENTS_LOOKED_AT: usize = 16;
/// Places of questions refused after which the count of them by client is halved.
pub const LOSSES_REMEMBERED: u32 = 65_536;
/// Clients whose refused questions are counted; with more of them the counts are halved.
pub const LOSERS_REMEMBERED: usize = 4096;
/// How often a worker says that it refuses questions.
pub const REFUSALS_SAID_EVERY: Duration = Duration::from_secs(1);
/// Clients that may wait for one and the same upstream answer. Others fail: each query more that is sent is one more that
/// a forged response may fit.
pub const FOLLOWERS_PER_QUERY_MAX: usize = 16_384;
/// How long after its beginning a query in flight is joined by others that ask the same. A later one is sent for itself.
pub const JOIN_TIME_MAX: Duration = Duration::from_secs(1);
/// Jobs that sent it before the last of them did and may get a response still: older ones have ended.
pub const FORMER_LEADERS_MAX: usize = 5;
/// Buffers of answers that were waited for a worker keeps for reuse.
pub const SPARE_BUFFERS_MAX: usize = 256;
/// The largest such buffer, in octets.
pub const SPARE_BUFFER_LEN: usize = 4096;
/// Finished jobs a worker keeps for reuse, as long as there is room for them beside questions that wait.
pub const SPARE_JOBS_MAX: usize = 1024;
/// The most places that such a job would take, but for one of them.
pub const SPARE_JOB_PLACES: usize = 2;
/// Coalesced queries that have ended and are kept for their buffers, behind each of the locks they are spread over.
pub const SPARE_COALESCED_MAX: usize = 16;
/// The longest query of which that is done, in octets.
pub const SPARE_COALESCED_LEN: usize = 512;
/// Shortest time after which a question that is not answered is asked elsewhere as well.
pub const HEDGE_TIME_MIN: Duration = Duration::from_millis(50);
/// Longest such time.
pub const HEDGE_TIME_MAX: Duration = Duration::from_secs(1);
/// Attempts to ask upstreams for one question, whatever the Corefile says.
pub const ATTEMPTS_PER_QUESTION_MAX: u32 = 64;
/// Questions that have to be asked upstream for each further attempt (retries, and asking elsewhere
/// because an answer is late): so these add at most a fifth to what upstreams get.
pub const QUERIES_PER_RETRY: u32 = 5;
/// Seconds over which both are counted.
pub const RETRY_WINDOW_S: usize = 10;
/// Further attempts that each `forward`, all workers together, may make in so many seconds whatever it
/// asks: enough for a lone question to be asked as often as its time allows.
pub const RETRIES_FREE: u32 = 32;
/// Further attempts that each `forward`, all workers together, may make in so many seconds beside all these for clients
/// that have had few of them: one that asks for much that is never answered must not take those of others.
pub const RETRIES_RESERVED: u32 = 128;
/// Those of them for one client.
pub const RETRIES_PER_CLIENT: u32 = 8;
/// How long a question to which no upstream can answer any more waits until it may be asked again.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(1);
/// The longest pause after which a retry that was put off looks for budget again: an upstream may
/// have recovered. With thousands of them it is still little work.
pub const PUT_OFF_PAUSE_MAX: Duration = Duration::from_millis(250);
/// How long an upstream must have been silent for its next answer to be a recovery. One that only
/// loses some, for having too much to do, answers more often.
pub const OUTAGE_MIN: Duration = Duration::from_millis(500);
/// Budgets of retries a worker keeps before it looks for those without a count.
pub const BUDGETS_KEPT: usize = 16;
/// One question in this many tries upstreams that failed in their turn, where `max_fails 0` forbids
/// health checks.
pub const TRY_SUSPECT_EVERY: u32 = 32;
/// How often a worker says that an upstream's reply is malformed.
pub const MALFORMED_SAID_EVERY: Duration = Duration::from_secs(10);
/// How often a worker says that it refuses clients for one kind of fault of their certificates.
pub const UNTRUSTED_SAID_EVERY: Duration = Duration::from_secs(60);
/// Words that may stand as TO in one `forward`.
pub const DESTINATIONS_PER_FORWARD_MAX: usize = 15;
/// Upstreams of one `forward`: a file or a name among its destinations can stand for several.
pub const UPSTREAMS_PER_FORWARD_MAX: usize = 64;
/// How long one attempt of `grpc` may take: as long as a query (CoreDNS's bound).
pub const GRPC_READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Time a health check has to be answered.
pub const PROBE_TIME_MAX: Duration = Duration::from_secs(1);
/// Octets of responses to clients that waited at which they are sent before others are made. A long
/// response that thousands wait for would else be in memory thousands of times. All workers may
/// have so much at the same time.
pub const ANSWERS_AT_ONCE: usize = 128 << 10;
/// Longest time a question may take from receipt to answer.
pub const QUESTION_TIME_MAX: Duration = Duration::from_secs(5);
/// The UDP payload Nodens announces and the most it sends where no `bufsize` says otherwise
/// (the value of DNS Flag Day 2020).
pub const UDP_SIZE_DEFAULT: u16 = 1232;
/// The UDP payload that `cache` announces to upstreams for clients that accept long responses; [`UDP_SIZE_DEFAULT`] for
/// others.
pub const UDP_SIZE_LARGE: u16 = 4096;
/// From which size on a client does.
pub const UDP_SIZE_LARGE_FROM: u16 = 4000;

/// Zone transfers that may be under way in the process.
pub const TRANSFERS_MAX: usize = 1024;
/// Zone transfers that may be under way to one address.
pub const TRANSFERS_PER_CLIENT_MAX: usize = 16;
/// Zone transfers that may be under way to one network, an IPv4 /24 or an IPv6 /64: one host may have all of its
/// addresses.
pub const TRANSFERS_PER_NETWORK_MAX: usize = TRANSFERS_MAX / 4;
/// Longest time a zone transfer may take, however slowly its client reads (the value of BIND).
pub const TRANSFER_TIME_MAX: Duration = Duration::from_secs(2 * 3600);

/// Answers of one round that differ in when they were asked for, or in where they are counted, whose
/// time is taken when they are sent; those beyond count as sent a little earlier. A batch has 64.
pub const UNSENT_KINDS_MAX: usize = 128;
/// Late answers in a row that make a path suspect.
pub const STRIKES_MAX: u32 = 3;
/// Overflows a bucket of the cache may have; each holds as many entries as the bucket.
pub const OVERFLOWS_MAX: usize = 3;
/// Segments of the cache there can be: 4 Mi buckets, 29 million entries. A fuller table only evicts earlier.
pub const SEGMENTS_MAX: usize = 4096;
/// The most octets of search domains, with a space behind each, that a kubelet writes.
pub const SEARCH_LIST_LEN_MAX: usize = 2048;
/// The most search domains that a kubelet writes.
pub const SEARCH_LIST_DOMAINS_MAX: usize = 32;
/// The longest pause between two looks at a cluster that is not known yet.
pub const SYNC_PAUSE_MAX: Duration = Duration::from_millis(160);
/// Octets of a word in a hosts file; a longer one cannot be a name.
pub const HOSTS_FIELD_LEN_MAX: usize = 1024;
/// Records that `loadbalance` orders in place, which takes quadratic time at worst.
pub const SHUFFLED_RECORDS_MAX: usize = 64;
/// Zones named in a log line about upstreams that are down; a block may have hundreds.
pub const ZONES_NAMED_MAX: usize = 3;
/// Octets of the longest name in presentation format: each octet as `\DDD`, and the dots.
pub const NAME_TEXT_MAX: usize = 1024;
/// Octets of a file of keys for TSIG.
pub const KEY_FILE_LEN_MAX: usize = 1 << 20;
/// RRsets whose signatures `dnssec` keeps where `cache_capacity` names no number, as in CoreDNS.
pub const SIGNATURES_DEFAULT: usize = 10_000;
/// The most that are kept, whatever it says. One takes about 350 octets with a key of ECDSAP256SHA256.
pub const SIGNATURES_MAX: usize = 1 << 17;
/// Of RRsets that are made for questions, which may be any, one part in this many is kept beside them.
pub const SIGNATURES_MADE_SHARE: usize = 4;
/// Of proofs that a name which there is has no records of a type, one part in this many.
pub const SIGNATURES_DENIED_SHARE: usize = 2;
/// RRsets of the apex of each zone whose signatures are kept beside all of them, in each part of the store.
pub const SIGNATURES_APEX_PART: usize = 1;
/// NSEC records of the apex of each zone, of which there are 49 (see `OF_NAME` and `OF_APEX`), in the same way.
pub const SIGNATURES_APEX_DENIED_PART: usize = 4;
/// Room beside that of each zone: where a hash puts an RRset is chance.
pub const SIGNATURES_APEX_SPARE: usize = 16;
/// Of both sorts of RRsets of apexes together, one part in this many of the most that are kept, for each of them.
pub const SIGNATURES_APEX_SHARE: usize = 2;
/// How much a worker may sign in a second, in units of about 20 µs: a fifth of its time.
pub const SIGNING_PER_SECOND: u64 = 10_000;
/// How much at once, in the same units.
pub const SIGNING_BURST: u64 = SIGNING_PER_SECOND / 4;
/// One part in this many is signed beside all else of what every validator needs of a zone.
pub const SIGNING_APEX_SHARE: u64 = 10;
/// Records at the front of a file that `sign` looks for signatures of the SOA record in, as in CoreDNS.
pub const SIGNED_FILE_RECORDS: usize = 100;
/// Octets of comments at the front of such a file that say what it was made of. Where they would be more, there
/// are none, and the zone is signed at every start.
pub const SIGNED_FILE_HEAD_MAX: usize = 1 << 16;
/// RRsets that `dnssec` signs in one response; others stay unsigned.
pub const SIGNED_RRSETS_MAX: usize = 64;
/// The most elements of a list that a variable may hold.
pub const TEMPLATE_ELEMENTS_MAX: usize = 1 << 16;
/// To how many times the first the interval between health checks of an upstream that stays down grows.
pub const PROBE_INTERVAL_FACTOR_MAX: u32 = 4;
/// More sightings of a probe than this are a loop: upstreams may ask twice for good reasons.
pub const SIGHTINGS_MAX: u32 = 2;
/// Aliases that are followed within a zone for one query; one more than CoreDNS follows behind the first.
pub const ALIASES_MAX: usize = 10;
/// RRsets that may prove what a response says: three for each alias and for the last name.
pub const PROOFS_MAX: usize = 3 * (ALIASES_MAX + 1);
/// Names of one RRset whose addresses are added to a response.
pub const ADDITIONAL_NAMES_MAX: usize = 64;

const _: () = assert!(SPARE_JOBS_MAX <= PENDING_PER_WORKER_MAX);
const _: () =
    assert!(JOIN_TIME_MAX.as_nanos() * FORMER_LEADERS_MAX as u128 >= QUESTION_TIME_MAX.as_nanos());
const _: () = assert!(PENDING_BUFFERS < PENDING_OCTETS);
const _: () = assert!(SEARCH_NAMES_MAX <= LOOKUPS_PER_JOB_MAX as usize / 2);
const _: () = assert!(TRANSFERS_PER_CLIENT_MAX <= TRANSFERS_MAX);
const _: () = assert!(LOOKUP_DEPTH_MAX <= LOOKUPS_PER_JOB_MAX as usize);

/// Aliases (`ExternalName`) that `kubernetes` follows within a zone for one question.
pub const CLUSTER_ALIASES_MAX: usize = 11;
/// How long a question waits for a cluster to be known for the first time.
pub const SYNC_TIME_MAX: Duration = Duration::from_secs(1);

const _: () = assert!(SYNC_TIME_MAX.as_nanos() < QUESTION_TIME_MAX.as_nanos());

/// How often files of certificates are looked at for changes.
pub const CERTIFICATE_RELOAD: Duration = Duration::from_secs(10);

/// How often the files of a zone are read one after the other because they change meanwhile.
pub const ZONE_FILE_READS_MAX: usize = 3;

/// How long an update may wait until it is on the disk before its client hears that it has failed. It
/// may be done all the same, as after any response that is lost.
pub const UPDATE_TIME_MAX: Duration = Duration::from_millis(4500);

const _: () = assert!(UPDATE_TIME_MAX.as_nanos() < QUESTION_TIME_MAX.as_nanos());

/// What the cache may take, in octets, where no `memory` says otherwise.
pub const CACHE_MEMORY_DEFAULT: usize = 64 << 20;
/// The least `memory` may say, in octets.
pub const CACHE_MEMORY_MIN: usize = 1 << 20;
/// The most `memory` may say, in octets.
pub const CACHE_MEMORY_MAX: usize = 16 << 30;
/// One part in this many of the cache belongs to expired entries kept for `serve_stale`.
pub const CACHE_STALE_SHARE: usize = 4;
/// One part in this many of the cache is for entries nobody has asked for a second time.
pub const CACHE_PROBATION_SHARE: usize = 10;
/// Buckets one insertion looks at for an entry nobody asked for; then it takes any.
pub const CACHE_PATIENCE: usize = 64;
/// Insertions after which a bucket is looked through for what is dead; a bucket has room for more
/// entries than this.
pub const CACHE_TIDY_EVERY: usize = 2;
/// CNAME records the cache follows to see whether a response answers its question.
pub const CACHE_CNAME_CHAIN_MAX: usize = 32;
/// The shortest pause after a prefetch that brought nothing new.
pub const PREFETCH_PAUSE_MIN: Duration = Duration::from_secs(1);
/// The pause after a prefetch that brought nothing new is this part of the time that the answer has left.
pub const PREFETCH_PAUSE_SHARE: u32 = 10;

/// Sessions by proxies that are kept where `udp_session_tracking` names no number, as in CoreDNS.
pub const PROXY_SESSIONS_DEFAULT: usize = 10_240;
/// The most that are kept, whatever it says. One takes about 200 octets.
pub const PROXY_SESSIONS_MAX: usize = 1 << 17;
/// Octets of TLVs that the sessions of a server may keep together.
pub const PROXY_SESSION_TLVS_MAX: usize = 1 << 20;

const _: () = assert!(PROXY_SESSIONS_DEFAULT <= PROXY_SESSIONS_MAX);
// Each session may have those of the longest header.
const _: () = assert!(nodens_wire::proxy::PROXY_HEADER_MAX <= PROXY_SESSION_TLVS_MAX);
