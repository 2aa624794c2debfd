//! `rrl [ZONES…] { OPTION… }`.

use super::Kind;
use crate::limits::RRL_TABLE_LEN_MAX;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, take};
use nodens_wire::Name;

const SECOND: f64 = 1e9;
const WINDOW_DEFAULT: u64 = 15_000_000_000;
const TABLE_LEN_DEFAULT: usize = 100_000;
const KNOWN: [&str; 12] = [
    "window",
    "ipv4-prefix-length",
    "ipv6-prefix-length",
    "responses-per-second",
    "nodata-per-second",
    "nxdomains-per-second",
    "referrals-per-second",
    "errors-per-second",
    "slip-ratio",
    "requests-per-second",
    "max-table-size",
    "report-only",
];

/// What the block says. Intervals are nanoseconds from one response to the next, 0 for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Nanoseconds.
    pub(super) window: u64,
    /// Bits of the network of a client with an IPv4 address.
    pub(super) ipv4_len: u8,
    pub(super) ipv6_len: u8,
    responses: u64,
    nodata: Option<u64>,
    nxdomains: Option<u64>,
    referrals: Option<u64>,
    errors: Option<u64>,
    pub(super) requests: u64,
    /// Of so many responses that are dropped, one is sent truncated; none at 0.
    pub(super) slip: u8,
    /// Accounts of all workers together.
    pub(super) table_len: usize,
    pub(super) report_only: bool,
}

impl Options {
    pub(super) fn interval(&self, kind: Kind) -> u64 {
        let own = match kind {
            Kind::Response => None,
            Kind::Nodata => self.nodata,
            Kind::Nxdomain => self.nxdomains,
            Kind::Referral => self.referrals,
            Kind::Error => self.errors,
            Kind::Request => Some(self.requests),
        };
        own.unwrap_or(self.responses)
    }
}

/// Reads the directive in a block for `block_zones`.
pub(super) fn read(directive: &Directive, block_zones: &[Name]) -> Result<(Zones, Options), Error> {
    let zones = Zones::of(directive.args(), block_zones)?;
    let mut options = Options {
        window: WINDOW_DEFAULT,
        ipv4_len: 24,
        ipv6_len: 56,
        responses: 0,
        nodata: None,
        nxdomains: None,
        referrals: None,
        errors: None,
        requests: 0,
        slip: 0,
        table_len: TABLE_LEN_DEFAULT,
        report_only: false,
    };
    for line in directive.lines() {
        line.expect_no_body()?;
        property(line, &mut options)?;
    }
    Ok((zones, options))
}

fn property(line: &Directive, options: &mut Options) -> Result<(), Error> {
    match line.name.text.as_str() {
        "window" => options.window = window(line)?,
        "ipv4-prefix-length" => options.ipv4_len = take::parse_integer(one(line)?, 1..=32)?,
        "ipv6-prefix-length" => options.ipv6_len = take::parse_integer(one(line)?, 1..=128)?,
        "responses-per-second" => options.responses = interval(line)?,
        "nodata-per-second" => options.nodata = Some(interval(line)?),
        "nxdomains-per-second" => options.nxdomains = Some(interval(line)?),
        "referrals-per-second" => options.referrals = Some(interval(line)?),
        "errors-per-second" => options.errors = Some(interval(line)?),
        "requests-per-second" => options.requests = interval(line)?,
        "slip-ratio" => options.slip = take::parse_integer(one(line)?, 0..=10)?,
        "max-table-size" => {
            options.table_len = take::parse_integer(one(line)?, 0..=RRL_TABLE_LEN_MAX)?;
        }
        "report-only" => {
            line.expect_no_args()?;
            options.report_only = true;
        }
        _ => return Err(line.unknown_property(&KNOWN)),
    }
    Ok(())
}

fn one(line: &Directive) -> Result<&nodens_corefile::Token, Error> {
    line.expect_args().map(|[token]| token)
}

fn number(line: &Directive, expected: &str) -> Result<f64, Error> {
    let token = one(line)?;
    let number = token.text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.filter(|number| *number >= 0.0).ok_or_else(|| Error::expected(token, expected))
}

fn window(line: &Directive) -> Result<u64, Error> {
    let expected = "seconds, more than none";
    let seconds = number(line, expected)?;
    let window = (seconds * SECOND) as u64;
    if window == 0 { Err(Error::expected(one(line)?, expected)) } else { Ok(window) }
}

/// The time from one response to the next, of a number of them in a second.
fn interval(line: &Directive) -> Result<u64, Error> {
    let rate = number(line, "responses or queries in a second, 0 for no limit")?;
    Ok(if rate == 0.0 { 0 } else { ((SECOND / rate) as u64).max(1) })
}
