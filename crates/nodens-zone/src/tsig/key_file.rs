//! Files of keys as BIND's tools write them: `key "NAME" { algorithm ALGORITHM; secret "SECRET"; };`.

use super::key::{Key, KeyError, Keys};

/// Why a file has no keys. Nothing of a secret is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct KeyFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: Reason,
}

/// See [`KeyFileError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Another word than was expected, or the end of the file; the word is not repeated where it could
    /// be a secret.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A key without a secret.
    #[error("key {0:?} has no secret")]
    NoSecret(String),
    /// A second `secret` or `algorithm` in one key.
    #[error("`{0}` stands twice in one key")]
    Twice(&'static str),
    /// A second key of this name.
    #[error("key {0:?} redefined")]
    Redefined(String),
    /// A key that is none.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Reads the keys of a file. Comments are `#`, `//` and `/* */`; a key that names no algorithm is for
/// all, see [`Key::new`].
///
/// # Errors
/// At the first line that is wrong; no key is taken then.
pub fn parse(text: &str) -> Result<Keys, KeyFileError> {
    let mut words = Words { rest: text, line: 1, last: 1 };
    let mut keys = Keys::default();
    while let Some(word) = words.next()? {
        if word != Word::Text("key") {
            return Err(words.error(Reason::Expected("`key`")));
        }
        let (line, key) = key(&mut words)?;
        if let Err(key) = keys.add(key) {
            return Err(KeyFileError { line, reason: Reason::Redefined(key.name().to_string()) });
        }
    }
    Ok(keys)
}

/// What stands behind `key`, and the line of its name.
fn key(words: &mut Words<'_>) -> Result<(usize, Key), KeyFileError> {
    let name = words.text("the name of a key")?;
    let named_at = words.last;
    let (mut algorithm, mut secret) = (None, None);
    let mut word = words.next()?;
    if word == Some(Word::Mark('{')) {
        word = words.next()?;
    }
    loop {
        let (slot, keyword, wanted) = match word {
            Some(Word::Mark('}')) => break,
            Some(Word::Text("algorithm")) => (&mut algorithm, "algorithm", "an algorithm"),
            Some(Word::Text("secret")) => (&mut secret, "secret", "a secret"),
            _ => return Err(words.error(Reason::Expected("`algorithm`, `secret` or `}`"))),
        };
        let value = words.text(wanted)?;
        if slot.replace(value).is_some() {
            return Err(words.error(Reason::Twice(keyword)));
        }
        word = words.next_but_semicolon()?;
    }
    words.skip_semicolon()?;
    let at_name = |reason: Reason| KeyFileError { line: named_at, reason };
    let secret = secret.ok_or_else(|| at_name(Reason::NoSecret(name.to_owned())))?;
    let key = Key::parse(name, secret, algorithm).map_err(|error| at_name(error.into()))?;
    Ok((named_at, key))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word<'t> {
    /// A word, in quotes or not.
    Text(&'t str),
    /// A brace or semicolon.
    Mark(char),
}

/// The words of a file.
struct Words<'t> {
    rest: &'t str,
    /// The line where `rest` begins.
    line: usize,
    /// The line of the last word.
    last: usize,
}

impl<'t> Words<'t> {
    fn error(&self, reason: Reason) -> KeyFileError {
        KeyFileError { line: self.last, reason }
    }

    /// Moves behind the next `len` octets, which it gives.
    fn take(&mut self, len: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Moves behind white space and comments.
    fn skip(&mut self) -> Result<(), KeyFileError> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.take(blank);
            if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                self.last = self.line;
                let text = self.rest.get(2..).unwrap_or_default();
                let end = text.find("*/");
                let end = end.ok_or_else(|| self.error(Reason::Expected("`*/`")))?;
                self.take(end + 4);
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Option<Word<'t>>, KeyFileError> {
        self.skip()?;
        self.last = self.line;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        if matches!(first, '{' | '}' | ';') {
            self.take(1);
            return Ok(Some(Word::Mark(first)));
        }
        if first == '"' {
            self.take(1);
            let line = self.rest.lines().next().unwrap_or_default();
            let end = line.find('"');
            let end =
                end.ok_or_else(|| self.error(Reason::Expected("a closing quotation mark")))?;
            let text = self.take(end);
            self.take(1);
            return Ok(Some(Word::Text(text)));
        }
        let ends = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';' | '"');
        let len = self.rest.find(ends).unwrap_or(self.rest.len());
        Ok(Some(Word::Text(self.take(len))))
    }

    /// The next word, which has to be a text.
    fn text(&mut self, wanted: &'static str) -> Result<&'t str, KeyFileError> {
        match self.next()? {
            Some(Word::Text(text)) if !text.is_empty() => Ok(text),
            _ => Err(self.error(Reason::Expected(wanted))),
        }
    }

    /// The next word; of a semicolon and what follows it, the latter.
    fn next_but_semicolon(&mut self) -> Result<Option<Word<'t>>, KeyFileError> {
        match self.next()? {
            Some(Word::Mark(';')) => self.next(),
            word => Ok(word),
        }
    }

    /// Moves behind a semicolon, if one is next.
    fn skip_semicolon(&mut self) -> Result<(), KeyFileError> {
        self.skip()?;
        if self.rest.starts_with(';') {
            self.take(1);
        }
        Ok(())
    }
}
