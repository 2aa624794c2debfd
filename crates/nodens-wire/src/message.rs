//! A whole message as values, for code that edits answers. Not for the hot path: it allocates.

use crate::HEADER_LEN;
use crate::builder::Builder;
use crate::edns::{Edns, Options};
use crate::header::{Flags, Header};
use crate::name::Name;
use crate::reader::{Reader, WireError};
use crate::record::{Record, Records, Section};
use crate::types::{Class, Type};

/// A question (RFC 1035 section 4.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// QNAME.
    pub qname: Name,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
}

impl Question {
    /// Reads the question at the cursor.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let start = reader.at();
        let mut wire = Vec::new();
        reader.name(&mut wire)?;
        let qname = Name::from_wire(&wire).map_err(|_| WireError::NameTooLong(start))?;
        let (qtype, qclass) = (Type(reader.u16("QTYPE")?), Class(reader.u16("QCLASS")?));
        Ok(Self { qname, qtype, qclass })
    }
}

/// A message taken apart. The OPT record is kept with the additional records.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Message {
    /// Identifier.
    pub id: u16,
    /// Flags with the lower four bits of the RCODE.
    pub flags: Flags,
    /// Question section.
    pub questions: Vec<Question>,
    /// Answer section.
    pub answer: Vec<Record>,
    /// Authority section.
    pub authority: Vec<Record>,
    /// Additional section.
    pub additional: Vec<Record>,
}

impl Message {
    /// Takes `bytes` apart; octets behind the last record are an error.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let header = Header::read(bytes)?;
        let mut message = Self { id: header.id, flags: header.flags, ..Self::default() };
        let mut reader = Reader::new(bytes, HEADER_LEN);
        for _ in 0..header.counts[0] {
            message.questions.push(Question::read(&mut reader)?);
        }
        let mut records = Records::new(bytes, reader.at(), header.counts);
        for view in records.by_ref() {
            let view = view?;
            message.section_mut(view.section).push(view.to_record(bytes)?);
        }
        match bytes.len() - records.at().min(bytes.len()) {
            0 => Ok(message),
            extra => Err(WireError::Trailing(extra)),
        }
    }

    /// The records of a section.
    pub fn section(&self, section: Section) -> &Vec<Record> {
        match section {
            Section::Answer => &self.answer,
            Section::Authority => &self.authority,
            Section::Additional => &self.additional,
        }
    }

    /// The records of a section, to change them.
    pub fn section_mut(&mut self, section: Section) -> &mut Vec<Record> {
        match section {
            Section::Answer => &mut self.answer,
            Section::Authority => &mut self.authority,
            Section::Additional => &mut self.additional,
        }
    }

    /// The OPT record's fields and RDATA.
    pub fn edns(&self) -> Option<(Edns, Options<'_>)> {
        let opt = self.additional.iter().find(|record| record.rtype == Type::OPT)?;
        let edns = Edns::from_fields(opt.class.0, opt.ttl, 0..opt.rdata.len());
        Some((edns, Options::new(&opt.rdata)))
    }

    /// Writes the message with name compression.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let mut builder = Builder::new(out, self.id, self.flags);
        for question in &self.questions {
            builder.question(question.qname.view(), question.qtype, question.qclass);
        }
        for section in Section::ALL {
            for record in self.section(section) {
                builder.push(section, record)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_parses_is_written_and_parses_to_the_same(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(message) = Message::parse(&bytes) {
                let mut out = Vec::new();
                message.write(&mut out).unwrap();
                prop_assert_eq!(Message::parse(&out).unwrap(), message);
            }
        }
    }
}
