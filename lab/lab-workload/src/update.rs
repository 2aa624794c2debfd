//! Dynamic updates (RFC 2136) in dnsperf's format: blocks of a zone, prerequisites and changes, each
//! ended by `send`.
//!
//! ```text
//! example.com
//! require a            ; the name exists
//! require a A          ; the RRset exists
//! require a A 1.2.3.4  ; and its data is this
//! prohibit x           ; the name does not exist
//! prohibit x A         ; the RRset does not exist
//! add x 3600 A 10.1.2.3
//! delete y A 10.1.2.3
//! delete z A
//! delete w
//! send
//! ```
//!
//! As dnsperf reads it: words are separated by spaces and tabs, keywords are known in any case, names
//! without a final dot are relative to the zone, prerequisites come first, and lines that are empty or start
//! with `;` are skipped. A block with a faulty line is left out as a whole.

use crate::edns::Edns;
use crate::text::{columns, printable};
use crate::workload::{Style, Workload};
use domain::base::Name as DomainName;
use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};
use nodens_wire::{Class, Flags, Header, MESSAGE_LEN_MAX, Name, NameError, Opcode, Type};

/// A line of an update that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {fault}")]
pub struct UpdateError {
    /// The line, counted from 1.
    pub line: usize,
    /// Where the word starts, in octets counted from 1.
    pub column: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first word of a line.
    #[error("`{0}` is not a command of an update, expected require, prohibit, add, delete or send")]
    Command(String),
    /// A prerequisite behind a change.
    #[error("a prerequisite after a change, expected add, delete or send")]
    Order,
    /// A line that is too short.
    #[error("the line ends, expected {0}")]
    End(&'static str),
    /// A name.
    #[error("{0}, expected a domain name")]
    Name(#[from] NameError),
    /// A TTL.
    #[error("`{0}` is not a TTL, expected seconds such as 3600, or units such as 1h30m")]
    Ttl(String),
    /// A type.
    #[error("`{0}` is not a record type, expected a mnemonic such as A, or TYPEnnn")]
    Type(String),
    /// The data of a record.
    #[error("`{text}` is not valid data of a record of type {rtype}: {reason}")]
    Rdata {
        /// The type.
        rtype: Type,
        /// What stands there.
        text: String,
        /// What a reader of zone files says to it.
        reason: String,
    },
    /// Words behind the end.
    #[error("`{0}`, expected the end of the line")]
    Trailing(String),
    /// The end of the file within a block.
    #[error("the file ends within an update, expected send")]
    Unsent,
    /// More octets or records than a message can have.
    #[error("the update is longer than a DNS message can be")]
    TooLong,
}

/// Appends the updates in `text` to `workload`, with the EDNS of `style`, and returns the lines that are
/// none.
pub fn read(text: &[u8], style: &Style, workload: &mut Workload) -> Vec<UpdateError> {
    let (mut errors, mut block, mut lines) = (Vec::new(), None::<Block>, 0);
    for (at, line) in text.split(|octet| *octet == b'\n').enumerate() {
        lines = at + 1;
        let line = printable(line);
        let Some((column, first)) =
            columns(&line).next().filter(|(_, word)| !word.starts_with(';'))
        else {
            continue;
        };
        let mut fail = |(column, fault)| errors.push(UpdateError { line: at + 1, column, fault });
        let Some(open) = &mut block else {
            block = Some(match Name::parse(first) {
                Ok(zone) => Block::new(zone),
                Err(error) => {
                    fail((column, error.into()));
                    Block { faulty: true, ..Block::new(Name::root()) }
                }
            });
            continue;
        };
        if first.eq_ignore_ascii_case("send") {
            match open.message(style.edns.as_ref()) {
                _ if open.faulty => {}
                Some(message) => _ = workload.push_message(&message),
                None => fail((column, Fault::TooLong)),
            }
            block = None;
        } else if let Err(fault) = open.read_line(&line) {
            open.faulty = true;
            fail(fault);
        }
    }
    if block.is_some() {
        errors.push(UpdateError { line: lines, column: 1, fault: Fault::Unsent });
    }
    errors
}

/// An update that is being read.
struct Block {
    zone: Name,
    prerequisites: usize,
    changes: usize,
    records: Vec<u8>,
    faulty: bool,
}

/// What a command needs behind the name, and what it means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Require,
    Prohibit,
    Add,
    Delete,
}

impl Block {
    fn new(zone: Name) -> Self {
        Self { zone, prerequisites: 0, changes: 0, records: Vec::new(), faulty: false }
    }

    fn read_line(&mut self, line: &str) -> Result<(), (usize, Fault)> {
        let mut words = columns(line);
        let end = line.trim_end().len() + 1;
        let (at, word) = words.next().unwrap_or((1, ""));
        let command = match word.to_ascii_lowercase().as_str() {
            "require" => Command::Require,
            "prohibit" => Command::Prohibit,
            "add" => Command::Add,
            "delete" => Command::Delete,
            _ => return Err((at, Fault::Command(word.to_owned()))),
        };
        let changes = matches!(command, Command::Add | Command::Delete);
        if !changes && self.changes > 0 {
            return Err((at, Fault::Order));
        }
        let (at, word) = words.next().ok_or((end, Fault::End("a name")))?;
        let owner = self.name(word).map_err(|error| (at, error.into()))?;
        let mut ttl = 0;
        if command == Command::Add {
            let (at, word) = words.next().ok_or((end, Fault::End("a TTL")))?;
            ttl = seconds(word).ok_or_else(|| (at, Fault::Ttl(word.to_owned())))?;
        }
        let (mut rtype, mut rdata) = (Type::ANY, None);
        match words.next() {
            Some((at, word)) => {
                rtype = word.parse().map_err(|_| (at, Fault::Type(word.to_owned())))?;
                rdata = words.next();
            }
            None if command == Command::Add => return Err((end, Fault::End("a type"))),
            None => {}
        }
        let rdata = match (command, rdata) {
            (Command::Prohibit, Some((at, word))) => {
                return Err((at, Fault::Trailing(word.to_owned())));
            }
            (Command::Add, None) => return Err((end, Fault::End("the data of the record"))),
            (_, None) => None,
            (_, Some((at, _))) => {
                let text = line.get(at - 1..).unwrap_or_default().trim_end();
                Some(self.rdata(rtype, text).map_err(|fault| (at, fault))?)
            }
        };
        // RFC 2136 sections 2.4 and 2.5: the class says what is meant.
        let class = match (command, &rdata) {
            (Command::Add, _) | (Command::Require, Some(_)) => Class::IN,
            (Command::Delete, Some(_)) | (Command::Prohibit, _) => Class::NONE,
            (Command::Delete | Command::Require, None) => Class::ANY,
        };
        self.push(&owner, rtype, class, ttl, rdata.as_deref().unwrap_or_default());
        *(if changes { &mut self.changes } else { &mut self.prerequisites }) += 1;
        Ok(())
    }

    /// A name, relative to the zone if it has no final dot.
    fn name(&self, text: &str) -> Result<Name, NameError> {
        if text == "@" {
            return Ok(self.zone.clone());
        }
        let name = Name::parse(text)?;
        if ends_with_dot(text) { Ok(name) } else { name.join(self.zone.view()) }
    }

    /// Data in presentation format as octets.
    fn rdata(&self, rtype: Type, text: &str) -> Result<Vec<u8>, Fault> {
        let refuse = |reason: String| Fault::Rdata { rtype, text: text.to_owned(), reason };
        if rtype == Type::TXT {
            return character_strings(text).map_err(|reason| refuse(reason.to_owned()));
        }
        let mut file = Zonefile::new();
        let origin = DomainName::from_octets(self.zone.as_wire().to_vec().into());
        file.set_origin(origin.map_err(|error| refuse(error.to_string()))?);
        file.extend_from_slice(format!(". 0 IN {rtype} {text}\n").as_bytes());
        match file.next_entry() {
            Ok(Some(Entry::Record(record))) => {
                let mut rdata = Vec::new();
                // Writing to a Vec cannot fail.
                _ = record.data().compose_rdata(&mut rdata);
                Ok(rdata)
            }
            Ok(_) => Err(refuse("nothing there".to_owned())),
            Err(error) => Err(refuse(error.to_string())),
        }
    }

    fn push(&mut self, owner: &Name, rtype: Type, class: Class, ttl: u32, rdata: &[u8]) {
        self.records.extend(owner.as_wire());
        self.records.extend(rtype.0.to_be_bytes());
        self.records.extend(class.0.to_be_bytes());
        self.records.extend(ttl.to_be_bytes());
        // Data of a zone file's record is no longer than its length can say.
        self.records.extend(u16::try_from(rdata.len()).unwrap_or(u16::MAX).to_be_bytes());
        self.records.extend(rdata);
    }

    /// The message; `None` if it is too long.
    fn message(&self, edns: Option<&Edns>) -> Option<Vec<u8>> {
        let [prerequisites, changes] =
            [self.prerequisites, self.changes].map(|count| u16::try_from(count).ok());
        let counts = [1, prerequisites?, changes?, u16::from(edns.is_some())];
        let flags = Flags::default().with_opcode(Opcode::UPDATE);
        let mut message = Header { id: 0, flags, counts }.to_bytes().to_vec();
        message.extend(self.zone.as_wire());
        message.extend(Type::SOA.0.to_be_bytes());
        message.extend(Class::IN.0.to_be_bytes());
        message.extend(&self.records);
        if let Some(edns) = edns {
            edns.append(&mut message);
        }
        (message.len() <= MESSAGE_LEN_MAX).then_some(message)
    }
}

fn ends_with_dot(text: &str) -> bool {
    let escapes = text.strip_suffix('.').map(|rest| rest.bytes().rev().take_while(|o| *o == b'\\'));
    escapes.is_some_and(|escapes| escapes.count() % 2 == 0)
}

/// Seconds as a number or with units, as BIND has them: `1w2d3h4m5s`.
fn seconds(text: &str) -> Option<u32> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds).filter(|_| !text.starts_with('+'));
    }
    let (mut total, mut number) = (0_u32, None::<u32>);
    for octet in text.bytes() {
        let unit = match octet.to_ascii_lowercase() {
            b'0'..=b'9' => {
                let digit = u32::from(octet - b'0');
                number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
                continue;
            }
            b'w' => 604_800,
            b'd' => 86_400,
            b'h' => 3_600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    (number.is_none() && !text.is_empty()).then_some(total)
}

/// The character strings of a TXT record, quoted or not (RFC 1035 section 5.1). Parentheses, which
/// only matter where data continues in the next line, are space.
///
/// Not read by `domain` as other types are: 0.11 panics where a string is missing or not closed.
fn character_strings(text: &str) -> Result<Vec<u8>, &'static str> {
    let mut rdata = Vec::new();
    let mut rest = text.as_bytes();
    loop {
        rest = rest.trim_ascii_start();
        let quoted = match rest {
            [b'(' | b')', after @ ..] => {
                rest = after;
                continue;
            }
            [] | [b';', ..] if rdata.is_empty() => return Err("nothing there"),
            [] | [b';', ..] => return Ok(rdata),
            [b'"', after @ ..] => {
                rest = after;
                true
            }
            _ => false,
        };
        let (string, after) = character_string(rest, quoted)?;
        let length = u8::try_from(string.len()).map_err(|_| "a string has more than 255 octets")?;
        rdata.push(length);
        rdata.extend(string);
        rest = after;
    }
}

/// One string and the rest.
fn character_string(mut rest: &[u8], quoted: bool) -> Result<(Vec<u8>, &[u8]), &'static str> {
    let mut string = Vec::new();
    loop {
        let (octet, after) = match rest {
            [] if quoted => return Err("a quote is not closed"),
            [] => return Ok((string, rest)),
            [b'"', after @ ..] if quoted => return Ok((string, after)),
            [b' ' | b'\t' | b'\r' | b';' | b'(' | b')' | b'"', ..] if !quoted => {
                return Ok((string, rest));
            }
            [b'\\', a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', after @ ..] => {
                let digit = |octet: &u8| u16::from(octet - b'0');
                let number = 100 * digit(a) + 10 * digit(b) + digit(c);
                (u8::try_from(number).map_err(|_| "an escape is above \\255")?, after)
            }
            [b'\\'] => return Err("a backslash at the end"),
            [b'\\', octet, after @ ..] | [octet, after @ ..] => (*octet, after),
        };
        string.push(octet);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::{HEADER_LEN, Reader};
    use proptest::prelude::*;

    fn read_all(text: &[u8]) -> (Workload, Vec<String>) {
        let mut workload = Workload::new(0);
        let errors = read(text, &Style::default(), &mut workload);
        (workload, errors.iter().map(ToString::to_string).collect())
    }

    /// The zone and the records of each section, as text; empty data, as updates have it, is not what
    /// `Message` takes.
    fn update(workload: &Workload, n: u64) -> (String, [Vec<String>; 2]) {
        let mut out = Vec::new();
        workload.append(n, 7, &mut out);
        let header = Header::read(&out).unwrap();
        assert_eq!((header.flags.opcode(), header.counts[0]), (Opcode::UPDATE, 1));
        let mut reader = Reader::new(&out, HEADER_LEN);
        let name = |reader: &mut Reader<'_>| {
            let mut name = Vec::new();
            reader.name(&mut name).unwrap();
            Name::from_wire(&name).unwrap()
        };
        let zone = name(&mut reader).to_string();
        assert_eq!(reader.take(4, "zone").unwrap(), [0, 6, 0, 1]);
        let sections = [header.counts[1], header.counts[2]].map(|count| {
            let record = |_| {
                let owner = name(&mut reader);
                let rtype = Type(reader.u16("type").unwrap());
                let class = Class(reader.u16("class").unwrap());
                let ttl = reader.u32("TTL").unwrap();
                let len = reader.u16("length").unwrap();
                reader.take(len.into(), "data").unwrap();
                format!("{owner} {ttl} {class} {rtype} {len}")
            };
            (0..count).map(record).collect()
        });
        assert_eq!(reader.left(), 0);
        (zone, sections)
    }

    #[test]
    fn each_line_of_the_manual_is_the_record_that_rfc_2136_prescribes() {
        let text = b"; a comment\nexample.com\nrequire a\nrequire a A\nREQUIRE a A 1.2.3.4\n\
            prohibit x\nprohibit x A\n\nadd x 3600 A 10.1.2.3\nadd m 1h MX 10 mail\n\
            delete y.example.com. A 10.1.2.3\ndelete z A\ndelete w\nsend\r\n";
        let (workload, errors) = read_all(text);
        assert_eq!(errors, [""; 0]);
        let (zone, [prerequisites, changes]) = update(&workload, 0);
        assert_eq!(zone, "example.com.");
        assert_eq!(
            prerequisites,
            [
                "a.example.com. 0 ANY ANY 0",
                "a.example.com. 0 ANY A 0",
                "a.example.com. 0 IN A 4",
                "x.example.com. 0 NONE ANY 0",
                "x.example.com. 0 NONE A 0",
            ]
        );
        assert_eq!(
            changes,
            [
                "x.example.com. 3600 IN A 4",
                "m.example.com. 3600 IN MX 20",
                "y.example.com. 0 NONE A 4",
                "z.example.com. 0 ANY A 0",
                "w.example.com. 0 ANY ANY 0",
            ]
        );
    }

    #[test]
    fn a_faulty_line_is_named_and_its_block_left_out() {
        let text = b"zone.\nadd a x A 1.2.3.4\nadd b 1 A 1.2.3.4\nsend\nzone.\ndelete a\nsend\nzone.\n\
            frob\nadd\nadd a\nadd a 1\nadd a 1 A\nadd a 1 NOPE x\nadd a 1 A nope\nprohibit a A 1.2.3.4\n\
            delete a\nrequire a\nadd a..b 1 A 1.2.3.4\nsend\na..b\nadd b 1 A 1.2.3.4\nsend\nzone.\nadd c 1 A 1.2.3.4";
        let (workload, errors) = read_all(text);
        assert_eq!(workload.len(), 1);
        let expected = [
            "2:7: `x` is not a TTL, expected seconds such as 3600, or units such as 1h30m",
            "9:1: `frob` is not a command of an update, expected require, prohibit, add, delete or send",
            "10:4: the line ends, expected a name",
            "11:6: the line ends, expected a TTL",
            "12:8: the line ends, expected a type",
            "13:10: the line ends, expected the data of the record",
            "14:9: `NOPE` is not a record type, expected a mnemonic such as A, or TYPEnnn",
            "15:11: `nope` is not valid data of a record of type A: ",
            "16:14: `1.2.3.4`, expected the end of the line",
            "18:1: a prerequisite after a change, expected add, delete or send",
            "19:5: name has an empty label, expected a domain name",
            "21:1: name has an empty label, expected a domain name",
            "25:1: the file ends within an update, expected send",
        ];
        assert_eq!(errors.len(), expected.len(), "{errors:#?}");
        for (error, expected) in errors.iter().zip(expected) {
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
    }

    #[test]
    fn strings_are_read_as_in_zone_files_and_broken_ones_refused() {
        let cases: [(&str, Result<&[u8], &str>); 9] = [
            ("a \"b c\" \\065\\\"", Ok(b"\x01a\x03b c\x02A\"")),
            ("(\"\" ;) a", Ok(b"\0")),
            (";", Err("nothing there")),
            ("( )", Err("nothing there")),
            ("\"a", Err("a quote is not closed")),
            ("a\\", Err("a backslash at the end")),
            ("\\256", Err("an escape is above \\255")),
            (&"a".repeat(255), Ok(&[&[255][..], &[b'a'; 255]].concat())),
            (&"a".repeat(256), Err("a string has more than 255 octets")),
        ];
        for (text, expected) in cases {
            let read = character_strings(text);
            assert_eq!(read.as_deref().map_err(|reason| *reason), expected, "{text}");
        }
    }

    #[test]
    fn ttls_have_units() {
        let texts = ["1w2d3h4m5s", "0", "7M", "", "1x", "h", "1h2", "+5", "4294967296", "9999999w"];
        let read = texts.map(seconds);
        let none = None::<u32>;
        assert_eq!(
            read,
            [Some(788_645), Some(0), Some(420), none, none, none, none, none, none, none]
        );
    }

    proptest! {
        #[test]
        fn any_octets_are_updates_or_faults(text: Vec<u8>) {
            let (workload, errors) = read_all(&text);
            for n in 0..workload.len() as u64 {
                _ = update(&workload, n);
            }
            prop_assert!(errors.iter().all(|error| error.contains(':')));
        }

        #[test]
        fn updates_of_likely_words_are_read_or_named(
            words in proptest::collection::vec(
                prop_oneof![
                    Just("add"), Just("delete"), Just("require"), Just("prohibit"), Just("send"),
                    Just("a"), Just("A"), Just("TXT"), Just("\""), Just("("), Just("60"), Just("1.2.3.4"),
                    Just("\n"), Just("\n"), Just("\\"), Just(";"), Just("@"), Just("\\# 4 01020304"),
                ], 0..40),
        ) {
            let (workload, _) = read_all(words.join(" ").as_bytes());
            for n in 0..workload.len() as u64 {
                _ = update(&workload, n);
            }
        }
    }
}
