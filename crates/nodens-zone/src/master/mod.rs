//! Zones in master format (RFC 1035 section 5, `$TTL` of RFC 2308 section 4, unknown types of RFC 3597 section
//! 5), read record by record from something that is read as a stream: a zone is never in memory as text.
//!
//! Accepted is what CoreDNS accepts. A TTL that is left out is that of `$TTL`, else the last one that was
//! written, else the last field of the SOA record before it, else 0 where the class is written. An owner
//! that is left out is the last one, that of the including file at first, or the origin.
//! `$GENERATE` is that of BIND, with the bases `d`, `o`, `x`, `X`, `n` and `N`.

mod generate;
mod lines;

use crate::data::META_TYPES;
use crate::limits::{MASTER_ENTRY_LEN_MAX, MASTER_INCLUDE_DEPTH};
use crate::presentation::rdata::{end, name, seconds};
use crate::presentation::tokens::{Token, Tokens};
use crate::presentation::{Head, PresentationError, data, head, is_readable};
use crate::zone::RecordRef;
use generate::Generate;
use lines::Lines;
use nodens_wire::{Class, Name, NameRef, Record, Type};
use std::io::{self, BufRead};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Seconds, where neither the file nor a record before `$GENERATE` says anything, as in CoreDNS.
const GENERATED_TTL_DEFAULT: u32 = 3600;

/// Finds the files that `$INCLUDE` names.
pub trait Includes: Send {
    /// Opens the file that is called `path` in the file `from`. With it comes the name by which errors, and
    /// files that it includes, call it.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn open(&mut self, path: &str, from: &str) -> io::Result<(String, Box<dyn BufRead>)>;
}

/// No files: `$INCLUDE` is an error.
#[derive(Clone, Copy, Debug)]
pub struct NoIncludes;

impl Includes for NoIncludes {
    fn open(&mut self, _path: &str, _from: &str) -> io::Result<(String, Box<dyn BufRead>)> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "there are no other files"))
    }
}

/// Why a master file cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {fault}")]
pub struct MasterError {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// From 1.
    pub line: usize,
    /// In octets, from 1.
    pub column: usize,
    /// What is wrong there.
    pub fault: MasterFault,
}

/// What is wrong with an entry of a master file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MasterFault {
    /// A record or directive that is not written as it should be.
    #[error(transparent)]
    Entry(#[from] PresentationError),
    /// A record without a TTL and class, and nothing before it that says a TTL.
    #[error("expected a TTL, as no record and no $TTL before says one")]
    NoTtl,
    /// A record that no message has room for, or octets that are not RDATA of their type.
    #[error("expected a record of type {0} that a message can hold")]
    Unreadable(Type),
    /// An entry that does not end: a parenthesis or quote that is not closed, mostly.
    #[error("expected the end of the entry within {MASTER_ENTRY_LEN_MAX} octets")]
    TooLong,
    /// A file that includes a file, and so on.
    #[error("expected at most {MASTER_INCLUDE_DEPTH} files within one another")]
    TooDeep,
    /// A file that cannot be opened.
    #[error("failed to open `{path}`: {reason}")]
    Include {
        /// As it was written.
        path: String,
        /// In the words of the system.
        reason: String,
    },
    /// The file cannot be read any further.
    #[error("failed to read: {0}")]
    Read(String),
}

/// The records of a master file, one after the other.
pub struct Master {
    /// The file, what it includes, what that includes, …; the last is being read.
    sources: Vec<Source>,
    includes: Box<dyn Includes>,
    /// The entry at work; kept for its memory.
    text: Vec<u8>,
    record: Record,
}

impl std::fmt::Debug for Master {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files = self.sources.iter().map(|source| &source.file);
        f.debug_list().entries(files).finish()
    }
}

/// Something that entries come from, and what it says of those to come.
struct Source {
    file: Arc<str>,
    input: Input,
    origin: Name,
    owner: Option<Name>,
    ttl: DefaultTtl,
}

enum Input {
    Lines(Lines),
    Generate(Generate),
}

/// The TTL of records that do not say one.
#[derive(Clone, Copy, Debug)]
enum DefaultTtl {
    Unknown,
    /// That of the last record that said one.
    Last(u32),
    /// That of `$TTL`.
    Directive(u32),
}

impl DefaultTtl {
    fn seconds(self) -> Option<u32> {
        match self {
            Self::Unknown => None,
            Self::Last(ttl) | Self::Directive(ttl) => Some(ttl),
        }
    }
}

/// What an entry is.
enum Entry {
    /// Nothing, or something that matters to entries behind it only.
    Nothing,
    Record(Record),
    /// The path of a file to read before the next entry, and the origin there.
    Include(String, Name),
    Generate(Generate),
}

impl Master {
    /// The records of `text`, which errors call `file`. `origin` is what names are relative to at the start.
    pub fn new(
        text: Box<dyn BufRead>,
        file: &str,
        origin: NameRef<'_>,
        includes: Box<dyn Includes>,
    ) -> Self {
        let source = Source {
            file: file.into(),
            input: Input::Lines(Lines::new(text)),
            origin: origin.to_name(),
            owner: None,
            ttl: DefaultTtl::Unknown,
        };
        let record = Record {
            owner: Name::root(),
            rtype: Type::default(),
            class: Class::default(),
            ttl: 0,
            rdata: Vec::new(),
        };
        Self { sources: vec![source], includes, text: Vec::new(), record }
    }

    /// The next record; nothing at the end. After an error there is no other record.
    ///
    /// # Errors
    /// At the first entry that is not as it should be.
    pub fn next_record(&mut self) -> Result<Option<RecordRef<'_>>, MasterError> {
        match self.advance() {
            Ok(true) => Ok(Some(RecordRef::from(&self.record))),
            Ok(false) => Ok(None),
            Err(error) => {
                self.sources.clear();
                Err(error)
            }
        }
    }

    /// Where the record that was read last stands: file, and line from 1 at which its entry begins.
    pub fn position(&self) -> (&str, usize) {
        self.sources.last().map_or(("", 0), |source| (&source.file, source.input.line()))
    }

    fn advance(&mut self) -> Result<bool, MasterError> {
        while let Some(source) = self.sources.last_mut() {
            self.text.clear();
            let more = source.input.next_entry(&mut self.text);
            if !more.map_err(|fault| source.error_at(&[], 0, fault))? {
                self.sources.pop();
                continue;
            }
            if lines::is_blank(&self.text) {
                continue;
            }
            let text = lines::as_text(&self.text);
            let (position, entry) = source.read(&text);
            let entry = entry.map_err(|fault| source.error_at(text.as_bytes(), position, fault))?;
            match entry {
                Entry::Nothing => {}
                Entry::Record(record) => {
                    self.record = record;
                    return Ok(true);
                }
                Entry::Include(path, origin) => {
                    let error = |source: &Source, fault| Err(source.error_at(&[], 0, fault));
                    let Some(source) = self.sources.last() else { continue };
                    if self.sources.len() > MASTER_INCLUDE_DEPTH {
                        return error(source, MasterFault::TooDeep);
                    }
                    match self.includes.open(&path, &source.file) {
                        Ok((file, text)) => {
                            let input = Input::Lines(Lines::new(text));
                            let below = source.below(file.into(), input, origin, source.ttl);
                            self.sources.push(below);
                        }
                        Err(reason) => {
                            let reason = reason.to_string();
                            return error(source, MasterFault::Include { path, reason });
                        }
                    }
                }
                Entry::Generate(generate) => {
                    let ttl = match source.ttl {
                        DefaultTtl::Unknown => DefaultTtl::Last(GENERATED_TTL_DEFAULT),
                        known => known,
                    };
                    let (file, origin) = (source.file.clone(), source.origin.clone());
                    let below = source.below(file, Input::Generate(generate), origin, ttl);
                    self.sources.push(below);
                }
            }
        }
        Ok(false)
    }
}

impl Input {
    /// Appends the next entry to `text`; false if there is none.
    fn next_entry(&mut self, text: &mut Vec<u8>) -> Result<bool, MasterFault> {
        match self {
            Self::Lines(lines) => lines.next_entry(text),
            Self::Generate(generate) => generate.next_entry(text),
        }
    }

    /// The line at which the entry begins, from 1.
    fn line(&self) -> usize {
        match self {
            Self::Lines(lines) => lines.line(),
            Self::Generate(generate) => generate.line,
        }
    }
}

impl Source {
    /// What is read before the next entry of this one.
    fn below(&self, file: Arc<str>, input: Input, origin: Name, ttl: DefaultTtl) -> Self {
        // As in BIND and NSD, whatever the origin.
        let owner = self.owner.clone();
        Self { file, input, origin, owner, ttl }
    }

    /// An error at an octet of an entry.
    fn error_at(&self, text: &[u8], position: usize, fault: MasterFault) -> MasterError {
        let before = text.get(..position).unwrap_or_default();
        let lines = before.iter().filter(|octet| **octet == b'\n').count();
        let start = before.iter().rposition(|octet| *octet == b'\n').map_or(0, |at| at + 1);
        MasterError {
            file: self.file.clone(),
            line: self.input.line() + lines,
            column: before.len() - start + 1,
            fault,
        }
    }

    /// Reads an entry, and says how far it has come.
    fn read(&mut self, text: &str) -> (usize, Result<Entry, MasterFault>) {
        let origin = self.origin.clone();
        let mut tokens = Tokens::relative_to(origin.view(), text);
        let entry = self.entry(text, &mut tokens);
        (tokens.position(), entry)
    }

    fn entry(&mut self, text: &str, tokens: &mut Tokens<'_>) -> Result<Entry, MasterFault> {
        let mut ahead = tokens.clone();
        let Some(first) = ahead.next()? else { return Ok(Entry::Nothing) };
        let has_owner = !text.starts_with([' ', '\t']);
        if has_owner {
            *tokens = ahead;
            if let Some(entry) = self.directive(&first, tokens)? {
                return Ok(entry);
            }
            self.owner = Some(name(&first)?);
        }
        let Head { ttl, class, rtype } = head(tokens)?;
        let ttl = match (ttl, self.ttl) {
            (Some(ttl), DefaultTtl::Directive(_)) => ttl,
            (Some(ttl), _) => {
                self.ttl = DefaultTtl::Last(ttl);
                ttl
            }
            // See below.
            (None, DefaultTtl::Unknown) if rtype == Type::SOA => 0,
            (None, DefaultTtl::Unknown) if has_owner && class.is_none() => {
                return Err(MasterFault::NoTtl);
            }
            (None, default) => default.seconds().unwrap_or(0),
        };
        if rtype == Type::NONE || META_TYPES.contains(&rtype.0) {
            let expected = "a type such as AAAA";
            return Err(PresentationError::Expected { expected, found: rtype.to_string() }.into());
        }
        let is_generic = matches!(tokens.clone().next(), Ok(Some(Token { raw: "\\#", .. })));
        let rdata = data(rtype, tokens)?;
        let ttl = match (rtype, self.ttl, rdata.last_chunk()) {
            // As BIND does, and as RFC 1035 had it, the field MINIMUM is for records without a TTL. Behind a TTL that
            // is written that one holds, as in CoreDNS.
            (Type::SOA, DefaultTtl::Unknown, Some(minimum)) => {
                let minimum = u32::from_be_bytes(*minimum);
                self.ttl = DefaultTtl::Last(minimum);
                minimum
            }
            _ => ttl,
        };
        let owner = self.owner.as_ref().unwrap_or(&self.origin).clone();
        let class = class.unwrap_or(Class::IN);
        let record = Record { owner, rtype, class, ttl, rdata };
        // What was read field by field is RDATA of the type; octets may be anything.
        let is_short = record.rdata.len() < SHORT_RDATA;
        if (is_short && !is_generic) || is_readable(&record) {
            return Ok(Entry::Record(record));
        }
        Err(MasterFault::Unreadable(rtype))
    }

    /// Does what a line that begins with `$` says; nothing if it is a name.
    fn directive(
        &mut self,
        first: &Token<'_>,
        tokens: &mut Tokens<'_>,
    ) -> Result<Option<Entry>, MasterFault> {
        let is = |word: &str| !first.quoted && first.raw.eq_ignore_ascii_case(word);
        if is("$ORIGIN") {
            let word = tokens.expect("a domain name")?;
            self.origin = name(&word)?;
        } else if is("$TTL") {
            let word = tokens.expect("a TTL")?;
            let ttl = seconds(word.raw).ok_or_else(|| word.unlike("a TTL"))?;
            self.ttl = DefaultTtl::Directive(ttl);
        } else if is("$INCLUDE") {
            let path = tokens.expect("the path of a file")?.raw.to_owned();
            let origin = match tokens.next()? {
                Some(word) => name(&word)?,
                None => self.origin.clone(),
            };
            end(tokens)?;
            return Ok(Some(Entry::Include(path, origin)));
        } else if is("$GENERATE") {
            if matches!(self.input, Input::Generate(_)) {
                return Err(first.unlike("a record").into());
            }
            let generate = Generate::read(tokens, self.input.line())?;
            return Ok(Some(Entry::Generate(generate)));
        } else {
            return Ok(None);
        }
        end(tokens)?;
        Ok(Some(Entry::Nothing))
    }
}

/// Octets of RDATA that fit into a message whatever else is in the record.
const SHORT_RDATA: usize = 1 << 15;
