//! The sections of an UPDATE message (RFC 2136 section 2).

use nodens_wire::{Header, Rcode, Record, RecordView, Records, Section, Type, WireError};

/// The records of a message, names not compressed.
#[derive(Debug)]
pub(super) struct Sections {
    /// In the place of the answer section.
    pub(super) prerequisites: Vec<Record>,
    /// In the place of the authority section.
    pub(super) updates: Vec<Record>,
}

impl Sections {
    /// Reads a message whose header and question are known to be good, and that may have so many records.
    ///
    /// # Errors
    /// The RCODE of the response.
    pub(super) fn read(message: &[u8], records_max: usize) -> Result<Self, Rcode> {
        let header = Header::read(message).map_err(|_| Rcode::FORMERR)?;
        let [_, prerequisites, updates, _] = header.counts.map(usize::from);
        if prerequisites + updates > records_max {
            return Err(Rcode::REFUSED);
        }
        let mut sections = Self { prerequisites: Vec::new(), updates: Vec::new() };
        for view in Records::of(message).map_err(|_| Rcode::FORMERR)? {
            let view = view.map_err(|_| Rcode::FORMERR)?;
            let into = match view.section {
                Section::Answer => &mut sections.prerequisites,
                Section::Authority => &mut sections.updates,
                Section::Additional => continue,
            };
            into.push(record(&view, message).map_err(|_| Rcode::FORMERR)?);
        }
        Ok(sections)
    }
}

/// A record, which has no RDATA where it stands for an RRset or a name.
fn record(view: &RecordView, message: &[u8]) -> Result<Record, WireError> {
    if !view.rdata.is_empty() {
        return view.to_record(message);
    }
    let mut record = RecordView { rtype: Type::NULL, ..view.clone() }.to_record(message)?;
    record.rtype = view.rtype;
    Ok(record)
}
