//! The words of one entry: quotes, escapes, parentheses and comments (RFC 1035 section 5.1).

use super::PresentationError;
use nodens_wire::NameRef;

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    /// As written, without quotes around it, escapes in place.
    pub(crate) raw: &'t str,
    pub(crate) quoted: bool,
    /// What a name without a final dot is relative to.
    pub(super) origin: NameRef<'t>,
}

impl Token<'_> {
    pub(crate) fn unlike(&self, expected: &'static str) -> PresentationError {
        PresentationError::Expected { expected, found: self.raw.to_owned() }
    }

    /// The octets, with `\DDD` and `\X` replaced.
    pub(super) fn octets(&self) -> Result<Vec<u8>, PresentationError> {
        let mut octets = Vec::with_capacity(self.raw.len());
        let mut bytes = self.raw.bytes();
        while let Some(byte) = bytes.next() {
            if byte != b'\\' {
                octets.push(byte);
                continue;
            }
            let wrong = || self.unlike("an escape such as \\032 or \\\"");
            let first = bytes.next().ok_or_else(wrong)?;
            if !first.is_ascii_digit() {
                octets.push(first);
                continue;
            }
            let mut value = u32::from(first - b'0');
            for _ in 0..2 {
                let digit = bytes.next().filter(u8::is_ascii_digit).ok_or_else(wrong)?;
                value = value * 10 + u32::from(digit - b'0');
            }
            octets.push(u8::try_from(value).map_err(|_| wrong())?);
        }
        Ok(octets)
    }
}

/// Cuts the first entry of a text into words.
#[derive(Clone, Debug)]
pub(crate) struct Tokens<'t> {
    rest: &'t str,
    open: usize,
    origin: NameRef<'t>,
    /// Octets of the whole text.
    len: usize,
    /// Where the last word begins.
    last: usize,
}

impl<'t> Tokens<'t> {
    /// The words of `text`; all names in it are absolute.
    pub(super) fn new(text: &'t str) -> Self {
        Self::relative_to(NameRef::root(), text)
    }

    /// The words of `text`; names without a final dot are relative to `origin`.
    pub(crate) fn relative_to(origin: NameRef<'t>, text: &'t str) -> Self {
        Self { rest: text, open: 0, origin, len: text.len(), last: 0 }
    }

    /// The octet of the text at which the word that was taken last begins.
    pub(crate) fn position(&self) -> usize {
        self.last
    }

    /// What names are relative to.
    pub(super) fn origin(&self) -> NameRef<'t> {
        self.origin
    }

    /// What is left, with the lines behind the entry.
    pub(crate) fn rest(&self) -> &'t str {
        self.rest
    }

    /// How many parentheses stand open.
    pub(super) fn open_parentheses(&self) -> usize {
        self.open
    }

    /// The next word; `None` at the end of the entry.
    pub(crate) fn next(&mut self) -> Result<Option<Token<'t>>, PresentationError> {
        loop {
            let Some(first) = self.rest.chars().next() else {
                return match self.open {
                    0 => Ok(None),
                    _ => Err(PresentationError::Unclosed("a parenthesis")),
                };
            };
            match first {
                '\n' if self.open == 0 => return Ok(None),
                ' ' | '\t' | '\r' | '\n' => self.skip(1),
                ';' => self.skip(self.rest.find('\n').unwrap_or(self.rest.len())),
                '(' => {
                    self.open += 1;
                    self.skip(1);
                }
                ')' => {
                    let found = || PresentationError::Trailing(")".to_owned());
                    self.open = self.open.checked_sub(1).ok_or_else(found)?;
                    self.skip(1);
                }
                '"' => return self.quoted().map(Some),
                _ => return Ok(Some(self.word())),
            }
        }
    }

    /// The next word, which must be there.
    pub(crate) fn expect(
        &mut self,
        expected: &'static str,
    ) -> Result<Token<'t>, PresentationError> {
        self.next()?.ok_or(PresentationError::End(expected))
    }

    fn skip(&mut self, octets: usize) {
        self.rest = self.rest.get(octets..).unwrap_or_default();
    }

    fn word(&mut self) -> Token<'t> {
        self.last = self.len.saturating_sub(self.rest.len());
        let end = unescaped(self.rest, |octet| b" \t\r\n();\"".contains(&octet));
        let (raw, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        Token { raw, quoted: false, origin: self.origin }
    }

    fn quoted(&mut self) -> Result<Token<'t>, PresentationError> {
        self.last = self.len.saturating_sub(self.rest.len());
        self.skip(1);
        let end = unescaped(self.rest, |octet| octet == b'"')
            .ok_or(PresentationError::Unclosed("a quote"))?;
        let raw = self.rest.get(..end).unwrap_or_default();
        self.skip(end + 1);
        Ok(Token { raw, quoted: true, origin: self.origin })
    }
}

/// Where the first octet, a character of ASCII, that `ends` stands without a backslash before it.
fn unescaped(text: &str, ends: impl Fn(u8) -> bool) -> Option<usize> {
    let mut escaped = false;
    for (at, octet) in text.bytes().enumerate() {
        if escaped {
            escaped = false;
        } else if octet == b'\\' {
            escaped = true;
        } else if ends(octet) {
            return Some(at);
        }
    }
    None
}
