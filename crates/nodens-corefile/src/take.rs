//! Taking a directive's words apart: what every directive's configuration code needs.
//!
//! ```
//! use nodens_corefile::{NoSources, parse, take};
//!
//! let corefile = parse("Corefile", ".\nhealth :8080 {\n lameduck 5sec\n}", &NoSources).unwrap();
//! let health = &corefile.blocks[0].directives[0];
//! let [address] = health.expect_args()?;
//! assert_eq!(address.text, ":8080");
//! for property in health.lines() {
//!     let error = match property.name.text.as_str() {
//!         "lameduck" => take::parse_go_duration(&property.expect_args::<1>()?[0]).unwrap_err(),
//!         _ => return Err(property.unknown_property(&["lameduck"])),
//!     };
//!     assert_eq!(error.to_string(), "Corefile:3:11: expected a duration such as 30s, found `5sec`");
//! }
//! # Ok::<(), nodens_corefile::Error>(())
//! ```

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

pub use crate::cidr::{Cidr, InvalidCidr};
use crate::duration;
pub use crate::duration::format_go_duration;
use crate::error::{Error, ErrorKind};
pub use crate::key::parse_zones;
use crate::nearest::nearest;
use crate::syntax::{Directive, Token};

impl Directive {
    /// The words after the name.
    pub fn args(&self) -> &[Token] {
        &self.args
    }

    /// The lines of the body; none if there is no body.
    pub fn lines(&self) -> &[Directive] {
        self.body.as_deref().unwrap_or_default()
    }

    /// Exactly `N` arguments.
    ///
    /// # Errors
    /// [`ErrorKind::ArgumentCount`], at the first argument too many or at the name.
    pub fn expect_args<const N: usize>(&self) -> Result<&[Token; N], Error> {
        self.args.as_slice().try_into().map_err(|_| self.wrong_count(N, N.to_string()))
    }

    /// A number of arguments within `range`.
    ///
    /// # Errors
    /// As [`Directive::expect_args`].
    pub fn expect_args_within(&self, range: RangeInclusive<usize>) -> Result<&[Token], Error> {
        if range.contains(&self.args.len()) {
            return Ok(&self.args);
        }
        let (least, most) = range.into_inner();
        let expected = match most {
            usize::MAX => format!("{least} or more"),
            _ => format!("{least} to {most}"),
        };
        Err(self.wrong_count(most, expected))
    }

    /// At least `least` arguments.
    ///
    /// # Errors
    /// As [`Directive::expect_args`].
    pub fn expect_args_from(&self, least: usize) -> Result<&[Token], Error> {
        self.expect_args_within(least..=usize::MAX)
    }

    /// Nothing but the name and perhaps a body.
    ///
    /// # Errors
    /// As [`Directive::expect_args`].
    pub fn expect_no_args(&self) -> Result<(), Error> {
        self.expect_args::<0>().map(drop)
    }

    /// No body. Empty braces are a body.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedBody`].
    pub fn expect_no_body(&self) -> Result<(), Error> {
        match self.body {
            None => Ok(()),
            Some(_) => {
                let name = self.name.text.clone();
                Err(Error::at(&self.name, ErrorKind::UnexpectedBody { name }))
            }
        }
    }

    /// This line is a property that its directive does not have.
    pub fn unknown_property(&self, known: &[&str]) -> Error {
        let (word, nearest, known) = self.unknown(known);
        Error::at(&self.name, ErrorKind::UnknownProperty { word, nearest, known })
    }

    /// This line is a directive that the server does not have.
    pub fn unknown_directive(&self, known: &[&str]) -> Error {
        let (word, nearest, known) = self.unknown(known);
        Error::at(&self.name, ErrorKind::UnknownDirective { word, nearest, known })
    }

    /// A rule of this directive or property broken; say what was expected.
    pub fn invalid(&self, message: impl Into<String>) -> Error {
        Error::invalid(&self.name, message)
    }

    fn unknown(&self, known: &[&str]) -> (String, Option<String>, String) {
        let word = &self.name.text;
        let nearest = nearest(word, known.iter().copied()).map(str::to_owned);
        (word.clone(), nearest, known.join(", "))
    }

    fn wrong_count(&self, most: usize, expected: String) -> Error {
        let (name, found) = (self.name.text.clone(), self.args.len());
        let at = self.args.get(most).unwrap_or(&self.name);
        Error::at(at, ErrorKind::ArgumentCount { name, expected, found })
    }
}

/// A duration as Go writes it, not below zero: `30s`, `1m30s`, `500ms`, `1.5h`; `0` needs no unit.
///
/// # Errors
/// [`ErrorKind::Expected`], also for a duration below zero or over 292 years.
pub fn parse_go_duration(token: &Token) -> Result<Duration, Error> {
    duration::parse(&token.text).ok_or_else(|| Error::expected(token, "a duration such as 30s"))
}

/// A duration within `range`.
///
/// # Errors
/// [`ErrorKind::Expected`].
pub fn parse_go_duration_within(
    token: &Token,
    range: RangeInclusive<Duration>,
) -> Result<Duration, Error> {
    let found = duration::parse(&token.text).filter(|duration| range.contains(duration));
    found.ok_or_else(|| {
        let (least, most) = range.into_inner();
        let (least, most) = (format_go_duration(least), format_go_duration(most));
        Error::expected(token, format!("a duration from {least} to {most}"))
    })
}

/// A decimal integer within `range`; a plus sign is allowed.
///
/// # Errors
/// [`ErrorKind::Expected`].
///
/// ```
/// # use nodens_corefile::{NoSources, parse, take};
/// # let corefile = parse("Corefile", "multisocket +12", &NoSources).unwrap();
/// # let token = &corefile.blocks[0].keys[1];
/// assert_eq!(take::parse_integer(token, 1_u16..=1024), Ok(12));
/// ```
pub fn parse_integer<T>(token: &Token, range: RangeInclusive<T>) -> Result<T, Error>
where
    T: FromStr + PartialOrd + Display,
{
    match token.text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => {
            let (least, most) = range.into_inner();
            Err(Error::expected(token, format!("a number from {least} to {most}")))
        }
    }
}

/// An IPv4 or IPv6 address, without port and zone.
///
/// # Errors
/// [`ErrorKind::Expected`].
pub fn parse_ip(token: &Token) -> Result<IpAddr, Error> {
    let expected = "an IP address such as 10.0.0.10 or fd00::10";
    token.text.parse().map_err(|_| Error::expected(token, expected))
}

/// An address prefix. Bits after the prefix are dropped.
///
/// # Errors
/// [`ErrorKind::Expected`].
pub fn parse_cidr(token: &Token) -> Result<Cidr, Error> {
    let expected = "a prefix such as 10.0.0.0/8 or 2001:db8::/32";
    token.text.parse().map_err(|_| Error::expected(token, expected))
}

/// An address prefix, or an address alone as the prefix that holds only it.
///
/// # Errors
/// [`ErrorKind::Expected`].
pub fn parse_ip_or_cidr(token: &Token) -> Result<Cidr, Error> {
    let alone = |address: IpAddr| Cidr::new(address, if address.is_ipv4() { 32 } else { 128 });
    let expected = "an address or prefix such as 10.0.0.10 or 10.0.0.0/8";
    let found = token.text.parse().ok().and_then(alone).or_else(|| token.text.parse().ok());
    found.ok_or_else(|| Error::expected(token, expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoSources, parse};

    fn line(text: &str) -> Directive {
        let text = format!(".\n{text}");
        parse("F", &text, &NoSources).unwrap().blocks.remove(0).directives.remove(0)
    }

    fn message<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn counts_arguments() {
        let two = line("a b c");
        assert_eq!(two.expect_args::<2>().unwrap()[1].text, "c");
        assert_eq!(
            message(two.expect_args::<1>()),
            "F:2:5: Wrong argument count after 'a': expected 1, found 2"
        );
        assert_eq!(
            message(two.expect_args::<3>()),
            "F:2:1: Wrong argument count after 'a': expected 3, found 2"
        );
        assert_eq!(
            message(two.expect_no_args()),
            "F:2:3: Wrong argument count after 'a': expected 0, found 2"
        );
        assert_eq!(two.expect_args_within(1..=2).unwrap().len(), 2);
        assert_eq!(
            message(two.expect_args_within(0..=1)),
            "F:2:5: Wrong argument count after 'a': expected 0 to 1, found 2"
        );
        assert_eq!(two.expect_args_from(2).unwrap().len(), 2);
        assert_eq!(
            message(two.expect_args_from(3)),
            "F:2:1: Wrong argument count after 'a': expected 3 or more, found 2"
        );
    }

    #[test]
    fn looks_at_bodies() {
        let with_body = line("a {\n b\n c 1\n}");
        assert_eq!(message(with_body.expect_no_body()), "F:2:1: 'a' takes no block in braces");
        assert_eq!(with_body.lines().len(), 2);
        assert!(line("a {\n}").expect_no_body().is_err());
        assert!(line("a").expect_no_body().is_ok());
        assert!(line("a").lines().is_empty());
    }

    #[test]
    fn names_the_nearest_word() {
        let known = ["success", "denial", "prefetch"];
        assert_eq!(
            line("prefetc").unknown_property(&known).to_string(),
            "F:2:1: unknown property 'prefetc', did you mean 'prefetch'?"
        );
        assert_eq!(
            line("zzz").unknown_property(&known).to_string(),
            "F:2:1: unknown property 'zzz': expected one of success, denial, prefetch"
        );
        assert_eq!(
            line("cahce").unknown_directive(&["cache", "log"]).to_string(),
            "F:2:1: Unknown directive 'cahce', did you mean 'cache'?"
        );
        assert_eq!(
            line("zzz").unknown_directive(&[]).to_string(),
            "F:2:1: Unknown directive 'zzz'"
        );
        assert_eq!(line("zzz").invalid("only once").to_string(), "F:2:1: only once");
    }

    #[test]
    fn reads_values() {
        let args = line("x 1m30s 10 fd00::1 10.1.2.3/8 abc -1 70000").args;
        let [duration, number, ip, cidr, word, negative, large] = args.as_slice() else {
            panic!("seven arguments");
        };
        assert_eq!(parse_go_duration(duration), Ok(Duration::from_secs(90)));
        let limits = Duration::from_secs(1)..=Duration::from_secs(60);
        assert_eq!(
            message(parse_go_duration_within(duration, limits)),
            "F:2:3: expected a duration from 1s to 1m0s, found `1m30s`"
        );
        let day = Duration::ZERO..=Duration::from_secs(86_400);
        assert_eq!(parse_go_duration_within(duration, day), Ok(Duration::from_secs(90)));
        assert_eq!(
            message(parse_go_duration(word)),
            "F:2:31: expected a duration such as 30s, found `abc`"
        );
        assert_eq!(parse_integer(number, 0..=10), Ok(10));
        assert_eq!(
            message(parse_integer(number, 0..=9)),
            "F:2:9: expected a number from 0 to 9, found `10`"
        );
        assert!(parse_integer(negative, 0_u32..=9).is_err());
        assert_eq!(parse_integer(negative, -1_i32..=9), Ok(-1));
        assert!(parse_integer(large, 0..=u16::MAX).is_err());
        assert_eq!(parse_ip(ip), Ok("fd00::1".parse().unwrap()));
        assert!(message(parse_ip(cidr)).contains("expected an IP address such as 10.0.0.10"));
        assert_eq!(parse_cidr(cidr).unwrap().to_string(), "10.0.0.0/8");
        assert!(message(parse_cidr(ip)).contains("expected a prefix such as 10.0.0.0/8"));
        assert_eq!(parse_ip_or_cidr(ip).unwrap().to_string(), "fd00::1/128");
        assert_eq!(parse_ip_or_cidr(cidr).unwrap().to_string(), "10.0.0.0/8");
        assert!(message(parse_ip_or_cidr(word)).contains("expected an address or prefix"));
    }
}
