//! Every maximum of a hand-over.

use std::time::Duration;

/// Descriptors of one message; the kernel allows 253.
pub(crate) const DESCRIPTORS_MAX: usize = 200;
/// Descriptors in all: a thousand listeners' sockets on a machine with a hundred CPUs would be more,
/// and more than a process may have open.
pub(crate) const STATE_DESCRIPTORS_MAX: usize = 65_536;
/// The longest message, in octets: the longest cached answer and the longest input of a
/// connection fit.
pub(crate) const MESSAGE_LEN_MAX: usize = 128 << 10;
/// The longest message of a process that has not shown yet that it knows the secret.
pub(crate) const GREETING_LEN_MAX: usize = 512;
/// The longest name of a version, which every greeting has room for.
pub(crate) const PROGRAM_LEN_MAX: usize = 128;
/// Octets of answers that go into one message.
pub(crate) const ANSWERS_LEN: usize = MESSAGE_LEN_MAX / 2;

/// Connections that wait to be accepted.
pub(crate) const BACKLOG: i32 = 16;
/// Connections that have been accepted and have not shown yet that they know the secret. The oldest
/// gives way to a new one: a successor answers the challenge at once.
pub(crate) const CANDIDATES_MAX: usize = 8;
/// How long such a connection may last.
pub(crate) const AUTHENTICATION_MAX: Duration = Duration::from_secs(2);
/// How long a successor waits until the process at the other end has shown who it is. One that does not
/// is stopped, or hangs, or is a stranger.
pub(crate) const GREETING_MAX: Duration = Duration::from_secs(3);
/// How long passing on descriptors may take in all.
pub(crate) const STATE_TIME: Duration = Duration::from_secs(10);
/// How long a successor may take to get ready in all: the ten minutes of the manifests' startup probe.
pub(crate) const PREPARE_MAX: Duration = Duration::from_secs(600);
/// How long the connections of the predecessor may take to be passed on, of which it bounds the last
/// query to 5 s.
pub(crate) const LEAVE_MAX: Duration = Duration::from_secs(60);
/// How long a successor hears nothing from a predecessor that leaves before it takes it for gone.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Words without an answer after which a successor says no more until it hears something: as many as the
/// predecessor waits for. One that is stopped reads nothing, and its last word has to fit behind them.
pub(crate) const UNHEARD_MAX: u32 = SILENT_ROUNDS;

/// How often it is looked, while the other process is waited for, whether there is time for that; and
/// how often a process that is waited for says that it lives.
pub(crate) const ROUND: Duration = Duration::from_millis(50);
/// Rounds without a word after which a successor counts as stopped: 0.8 s. Only those count in which this
/// process had its turn in time: where it had not, the successor had not either.
pub(crate) const SILENT_ROUNDS: u32 = 16;
/// How late a turn may be to count.
pub(crate) const IN_TIME: Duration = Duration::from_millis(150);
/// How long nothing is accepted after the system refused to, as when descriptors have run out.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
