//! Maximums and times.

use std::time::Duration;

/// How long a connection to the ACME server may take to come about.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the ACME server may take for one response.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest response of the ACME server that is read, in octets: a chain of certificates is a few thousand.
pub(crate) const RESPONSE_MAX: usize = 1 << 20;
/// How long the ACME server may take to look at a challenge, and to issue a certificate.
pub(crate) const ORDER_TIMEOUT: Duration = Duration::from_secs(180);
/// How long obtaining one certificate may take in all.
pub(crate) const OBTAIN_TIMEOUT: Duration = Duration::from_secs(600);
/// Time before the first of the looks at an order; each later one is twice as far away.
pub(crate) const ORDER_PAUSE: Duration = Duration::from_millis(250);

/// Pause after the first failure; each later one is twice as long.
pub(crate) const RETRY_MIN: Duration = Duration::from_secs(60);
/// The longest pause after a failure.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(6 * 3600);
/// The longest time between two looks at the lives of certificates: the clock of the system may be set.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(600);

/// How long a DNS server may take for one response to the query for the ACME server's address.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is asked.
pub(crate) const RESOLVE_ATTEMPTS: u32 = 2;
/// The most CNAME records from the ACME server's name to its address.
pub(crate) const ALIASES_MAX: u32 = 8;
