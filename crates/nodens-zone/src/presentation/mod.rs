//! Single records in presentation format (RFC 1035 section 5.1), as `template` makes them, and records as text.
//!
//! The `domain` crate reads much of the RDATA. Read here are the owner and what stands before the
//! type, and types that `domain` does not know, reads more strictly than operators are used to
//! (`1h30m` for a number of seconds, text of more than 255 octets) or less (empty labels in names).

mod print;
pub(crate) mod rdata;
mod special;
mod svcb;
mod text;
pub(crate) mod tokens;

pub use print::record_text;

use domain::base::Name as DomainName;
use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};
use nodens_wire::{Builder, Class, Flags, Message, Record, Records, Section, Type};
use tokens::{Token, Tokens};

/// Seconds, where a record says nothing else.
const TTL_DEFAULT: u32 = 3600;

/// Why a text is not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PresentationError {
    /// Nothing but space and comments.
    #[error("expected a record, found nothing")]
    Empty,
    /// A line such as `$ORIGIN`.
    #[error("expected a record, found the directive `{0}`")]
    Directive(String),
    /// The text ends before everything is said.
    #[error("expected {0}, found the end of the record")]
    End(&'static str),
    /// A word of another shape was wanted.
    #[error("expected {expected}, found `{found}`")]
    Expected {
        /// What was wanted.
        expected: &'static str,
        /// The word.
        found: String,
    },
    /// Words behind the last field.
    #[error("expected the end of the record, found `{0}`")]
    Trailing(String),
    /// A quote or a parenthesis without its other half.
    #[error("{0} is not closed")]
    Unclosed(&'static str),
    /// RDATA that the `domain` crate refuses.
    #[error("bad RDATA of type {rtype}: {reason}")]
    Rdata {
        /// The type.
        rtype: Type,
        /// In the words of the crate.
        reason: String,
    },
    /// More octets than RDATA can have.
    #[error("RDATA is longer than 65535 octets")]
    TooLong,
}

/// Reads the first record of `text`: `OWNER [TTL] [CLASS] TYPE RDATA`.
///
/// Names without a final dot are absolute, `@` is the root; class IN and a TTL of 3600 seconds
/// are meant where they are left out, and one empty character-string where a record of text has none. What follows on further lines is ignored.
///
/// # Errors
/// [`PresentationError`], with the word that was wrong.
pub fn record(text: &str) -> Result<Record, PresentationError> {
    let text = text.trim_start_matches(['\n', '\r']);
    let mut tokens = Tokens::new(text);
    let owner = tokens.next()?.ok_or(PresentationError::Empty)?;
    if owner.raw.starts_with('$') {
        return Err(PresentationError::Directive(owner.raw.to_owned()));
    }
    let name = rdata::name(&owner)?;
    let Head { ttl, class, rtype } = head(&mut tokens)?;
    let (class, ttl) = (class.unwrap_or(Class::IN), ttl.unwrap_or(TTL_DEFAULT));
    // As `template` of CoreDNS has it; in a master file it is an error.
    let rdata = match rdata::is_text(rtype) && tokens.clone().next()?.is_none() {
        true => vec![0],
        false => data(rtype, &mut tokens)?,
    };
    let record = Record { owner: name, rtype, class, ttl, rdata };
    if is_readable(&record) {
        return Ok(record);
    }
    Err(PresentationError::Rdata { rtype, reason: "the octets are not of this type".to_owned() })
}

/// What stands between owner and RDATA.
pub(crate) struct Head {
    /// Seconds, if they are said.
    pub(crate) ttl: Option<u32>,
    /// The class, if it is said.
    pub(crate) class: Option<Class>,
    pub(crate) rtype: Type,
}

/// Reads TTL and class, in any order, and the type.
pub(crate) fn head(tokens: &mut Tokens<'_>) -> Result<Head, PresentationError> {
    let (mut ttl, mut class) = (None, None);
    loop {
        let word = tokens.expect("a TTL, class or type")?;
        if let Some(seconds) = rdata::seconds(word.raw).filter(|_| ttl.is_none()) {
            ttl = Some(seconds);
        } else if let Some(found) = record_class(&word).filter(|_| class.is_none()) {
            class = Some(found);
        } else {
            let is_number = word.raw.starts_with(|first: char| first.is_ascii_digit());
            if ttl.is_none() && is_number {
                return Err(word.unlike("a TTL of at most 4294967295 seconds, a class or a type"));
            }
            return Ok(Head { ttl, class, rtype: record_type(&word)? });
        }
    }
}

/// Reads the RDATA of a type, to the end.
pub(crate) fn data(rtype: Type, tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let rdata = match rdata::read(rtype, tokens) {
        Some(rdata) => rdata?,
        None if is_read_with_domain(rtype) => read_with_domain(rtype, tokens)?,
        None => {
            let expected = "\\# and the number of octets, as the type has no other form";
            return Err(tokens.expect(expected)?.unlike(expected));
        }
    };
    if rdata.len() > usize::from(u16::MAX) {
        return Err(PresentationError::TooLong);
    }
    Ok(rdata)
}

/// Whether a message with the record can be read, and RDATA has the form of its type to the last octet, without names that
/// point elsewhere: what is given as octets may be anything.
pub(crate) fn is_readable(record: &Record) -> bool {
    let mut wire = Vec::new();
    let mut builder = Builder::new(&mut wire, 0, Flags::default());
    if builder.push(Section::Answer, record).is_err() || Message::parse(&wire).is_err() {
        return false;
    }
    let Some(Ok(view)) = Records::of(&wire).ok().and_then(|mut records| records.next()) else {
        return false;
    };
    let is_as_sent = || view.to_record(&wire).is_ok_and(|sent| sent.rdata == record.rdata);
    view.validate(&wire).is_ok() && is_as_sent()
}

/// ANY and NONE are classes of questions and updates, not of records.
fn record_class(word: &Token<'_>) -> Option<Class> {
    word.raw.parse().ok().filter(|class| !matches!(*class, Class::ANY | Class::NONE))
}

fn record_type(word: &Token<'_>) -> Result<Type, PresentationError> {
    let found = word.raw.parse().ok().filter(|found| !matches!(*found, Type::ANY | Type::OPT));
    found.ok_or_else(|| word.unlike("a type such as AAAA"))
}

fn is_read_with_domain(rtype: Type) -> bool {
    matches!(rtype, Type::NSEC3 | Type::NSEC3PARAM | Type::ZONEMD | Type::KEY | Type::RKEY)
}

/// Lets the `domain` crate read the RDATA behind the tokens taken so far.
fn read_with_domain(rtype: Type, tokens: &Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let refuse = |reason: String| PresentationError::Rdata { rtype, reason };
    let (open, rest) = (tokens.open_parentheses(), tokens.rest());
    let (rtype, origin) = (written_like(rtype), tokens.origin());
    let line = format!("$ORIGIN {origin}\n. 0 IN {rtype} {}{rest}\n", "(".repeat(open));
    let mut file = Zonefile::new();
    file.set_origin(DomainName::root_bytes());
    file.extend_from_slice(line.as_bytes());
    match file.next_entry() {
        Ok(Some(Entry::Record(record))) => {
            let mut rdata = Vec::new();
            // Writing to a Vec cannot fail.
            _ = record.data().compose_rdata(&mut rdata);
            Ok(rdata)
        }
        Ok(_) => Err(PresentationError::End("RDATA")),
        Err(error) => Err(refuse(error.to_string())),
    }
}

/// The type that `domain` knows and whose RDATA looks the same.
fn written_like(rtype: Type) -> Type {
    match rtype {
        Type::KEY | Type::RKEY => Type::DNSKEY,
        other => other,
    }
}

#[cfg(test)]
mod tests;
