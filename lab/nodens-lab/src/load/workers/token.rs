//! The secret that the workers of a load share.

use anyhow::{Result, bail};
use std::fmt::Write as _;
use std::io::Error;

/// Characters of a token: a shorter one could be guessed.
const LEN: std::ops::RangeInclusive<usize> = 16..=64;

/// A secret in the address where workers ask for the start. It is told to them alone.
#[derive(Clone)]
pub(super) struct Token(String);

impl Token {
    /// Another one each time.
    pub(super) fn new() -> Result<Self> {
        let mut octets = [0; 16];
        let filled =
            rustix::rand::getrandom(&mut octets[..], rustix::rand::GetRandomFlags::empty())?;
        if filled < octets.len() {
            bail!(Error::other("the kernel has too few random octets"));
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        octets.iter().for_each(|octet| _ = write!(text, "{octet:02x}"));
        Ok(Self(text))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether `text` is the token. How long that takes does not depend on how much of it is right.
    pub(super) fn is(&self, text: &str) -> bool {
        let differences = self.0.bytes().zip(text.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        text.len() == self.0.len() && differences == 0
    }
}

impl std::str::FromStr for Token {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain = text.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-');
        if !is_plain || !LEN.contains(&text.len()) {
            bail!(
                "TOKEN is a secret that all workers of a load are given, {} to {} letters, digits and `-`",
                LEN.start(),
                LEN.end()
            );
        }
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_another_one_each_time_and_only_itself() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert!(one.is(one.text()) && !one.is(other.text()) && !one.is(""));
        assert!(!one.is(&one.text()[1..]) && !one.is(&format!("{}0", one.text())));
        assert!(one.text().parse::<Token>().unwrap().is(one.text()));
        assert!(!format!("{one:?}").contains(one.text()));
        for text in
            ["", "0123456789abcde", "0123456789abcde/", "0123456789 abcdef", &"a".repeat(65)]
        {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
