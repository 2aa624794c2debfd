//! What the records of a transfer mean, by what came before them.

use super::{Incoming, IncomingError, Received};
use crate::data::{Edit, Refused};
use crate::journal::{Packed, Step};
use crate::limits::JOURNAL_OCTETS;
use crate::zone::{RecordRef, Soa};
use nodens_wire::record::decompress_rdata;
use nodens_wire::{Class, NameRef, Reader, Record, RecordView, Type, WireError};
use std::fmt;
use std::sync::Arc;

/// What the next record is.
#[derive(Debug)]
pub(super) enum Stage {
    /// The SOA record of the version that the primary has.
    First,
    /// The second one, which tells differences from a whole zone.
    Second,
    /// One of a whole zone.
    Whole(Edit),
    /// One that a difference removes.
    Removing(Edit, Draft),
    /// One that a difference adds.
    Adding(Edit, Draft, Soa),
    /// None: all is here.
    Done,
}

/// A difference that is being read.
#[derive(Debug)]
pub(super) struct Draft {
    from: Soa,
    removed: Packed,
    added: Packed,
}

impl Draft {
    fn new(from: Soa) -> Self {
        Self { from, removed: Packed::default(), added: Packed::default() }
    }

    fn octets(&self) -> usize {
        self.removed.octets() + self.added.octets()
    }
}

/// The differences of a transfer. All are given up once they take more memory than those of a zone are kept in: however
/// often a primary removes a record and adds it again, the version that it leads to does not grow.
#[derive(Debug, Default)]
pub(super) struct Differences {
    pub(super) steps: Vec<Arc<Step>>,
    octets: usize,
    is_over: bool,
}

impl Differences {
    /// Notes that the one that is being read removes a record.
    fn remove(&mut self, draft: &mut Draft, record: RecordRef<'_>) {
        if !self.is_over {
            draft.removed.push(record);
            self.limit(draft);
        }
    }

    /// Notes that it adds one.
    fn add(&mut self, draft: &mut Draft, record: RecordRef<'_>) {
        if !self.is_over {
            draft.added.push(record);
            self.limit(draft);
        }
    }

    fn limit(&mut self, draft: &mut Draft) {
        if self.octets + draft.octets() > JOURNAL_OCTETS {
            (draft.removed, draft.added) = Default::default();
            self.give_up();
        }
    }

    /// One is whole, and leads to this version.
    fn end(&mut self, draft: Draft, to: Soa) {
        if self.is_over {
            return;
        }
        let Draft { from, removed, added } = draft;
        let step = Step { from, to, removed, added };
        self.octets += step.octets();
        self.steps.push(Arc::new(step));
        if self.octets > JOURNAL_OCTETS {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        (self.steps, self.octets, self.is_over) = (Vec::new(), 0, true);
    }
}

impl Incoming {
    /// Takes one record of the answer section.
    pub(super) fn take(
        &mut self,
        message: &[u8],
        view: &RecordView,
    ) -> Result<Option<Received>, IncomingError> {
        self.counts.records += 1;
        if self.counts.records > self.limits.records {
            return Err(IncomingError::TooMany("records"));
        }
        let (mut name, mut rdata) = std::mem::take(&mut self.scratch);
        name.clear();
        rdata.clear();
        // The name of the root, which `validate` wants in front of RDATA.
        rdata.push(0);
        Reader::new(message, view.owner_at).name(&mut name)?;
        decompress_rdata(message, view.rtype, view.rdata.clone(), &mut rdata)?;
        let fault = WireError::NameTooLong(view.owner_at);
        let owner = NameRef::new(&name).map_err(|_| fault)?;
        let RecordView { section, rtype, class, ttl, ttl_at, .. } = *view;
        let whole =
            RecordView { section, owner_at: 0, rtype, class, ttl, ttl_at, rdata: 1..rdata.len() };
        if whole.validate(&rdata).is_err() && owner.is_in_domain(self.zone.view()) {
            return Err(IncomingError::Rdata(owner.to_name(), rtype));
        }
        let octets = rdata.get(1..).unwrap_or_default();
        let received = self.take_record(RecordRef { owner, rtype, class, ttl, rdata: octets });
        self.scratch = (name, rdata);
        received
    }

    fn take_record(&mut self, record: RecordRef<'_>) -> Result<Option<Received>, IncomingError> {
        if record.class != Class::IN {
            return Err(IncomingError::Class(record.owner.to_name()));
        }
        let at_apex = record.owner == self.zone.view();
        if record.rtype == Type::SOA {
            if !at_apex {
                return match record.owner.is_in_domain(self.zone.view()) {
                    true => Err(IncomingError::SoaBelow(record.owner.to_name())),
                    false => Err(IncomingError::NoSoa),
                };
            }
            let soa = Soa::new(owned(record)).map_err(|_| IncomingError::NoSoa)?;
            return self.take_soa(soa);
        }
        if matches!(self.stage, Stage::Second) {
            if let Some(known) = self.up_to_date() {
                return Ok(Some(known));
            }
            // A zone that is sent whole, whatever was asked for.
            self.begin_whole()?;
        }
        let stage = &mut self.stage;
        if !record.owner.is_in_domain(self.zone.view()) && !matches!(stage, Stage::First) {
            self.counts.outside += 1;
            return Ok(None);
        }
        match stage {
            Stage::First => return Err(IncomingError::NoSoa),
            Stage::Second | Stage::Done => return Err(IncomingError::AfterEnd),
            Stage::Whole(edit) => _ = edit.add(record).map_err(refused)?,
            Stage::Removing(edit, draft) => {
                if !edit.remove(record) {
                    return Err(IncomingError::NotThere(record.owner.to_name(), record.rtype));
                }
                self.differences.remove(draft, record);
            }
            Stage::Adding(edit, draft, _) => {
                if edit.add(record).map_err(refused)? {
                    self.differences.add(draft, record);
                }
            }
        }
        Ok(None)
    }

    fn begin_whole(&mut self) -> Result<(), IncomingError> {
        let Some(latest) = &self.latest else { return Err(IncomingError::NoSoa) };
        let mut edit = Edit::new(&self.zone, Class::IN).like(self.base.clone());
        edit.add(latest.record().into()).map_err(refused)?;
        self.stage = Stage::Whole(edit);
        Ok(())
    }

    /// Takes a SOA record of the zone: it ends one part of the response, and may begin the next.
    fn take_soa(&mut self, soa: Soa) -> Result<Option<Received>, IncomingError> {
        let Some(latest) = self.latest.clone() else {
            self.latest = Some(soa);
            self.stage = Stage::Second;
            // Whoever has no later version need not send it.
            return Ok(if self.qtype == Type::AXFR { self.up_to_date() } else { None });
        };
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::First | Stage::Done => Err(IncomingError::AfterEnd),
            Stage::Second => self.take_second(soa, &latest),
            Stage::Whole(edit) => self.end_whole(edit, &soa, &latest),
            Stage::Removing(edit, draft) => {
                let (from, to) = (draft.from.serial(), soa.serial());
                if to <= from {
                    return Err((from, to).into());
                }
                self.stage = Stage::Adding(edit, draft, soa);
                Ok(None)
            }
            Stage::Adding(edit, draft, to) => {
                let reached = to.serial();
                self.differences.end(draft, to);
                if reached == latest.serial() {
                    return self.end_changes(edit, &soa, &latest);
                }
                if soa.serial() != reached {
                    let (wanted, found) = (reached.0, soa.serial().0);
                    return Err(IncomingError::Order { wanted, found });
                }
                self.stage = Stage::Removing(edit, Draft::new(soa));
                Ok(None)
            }
        }
    }

    /// The second record is a SOA record too: a difference begins with it, or it is the end of a zone
    /// that has no other record.
    fn take_second(&mut self, soa: Soa, latest: &Soa) -> Result<Option<Received>, IncomingError> {
        let base = self.base.clone().filter(|_| self.qtype == Type::IXFR);
        match base {
            Some(base) if soa.serial() == base.soa().serial() => {
                self.stage = Stage::Removing(base.edit(), Draft::new(base.soa().clone()));
                Ok(None)
            }
            Some(base) if soa.serial() != latest.serial() => {
                let (wanted, found) = (base.soa().serial().0, soa.serial().0);
                Err(IncomingError::Order { wanted, found })
            }
            _ => {
                self.begin_whole()?;
                self.take_soa(soa)
            }
        }
    }

    fn end_whole(
        &mut self,
        edit: Edit,
        soa: &Soa,
        latest: &Soa,
    ) -> Result<Option<Received>, IncomingError> {
        same_end(soa, latest)?;
        let data = edit.finish().map_err(incomplete)?;
        Ok(Some(Received::Whole(data)))
    }

    fn end_changes(
        &mut self,
        mut edit: Edit,
        soa: &Soa,
        latest: &Soa,
    ) -> Result<Option<Received>, IncomingError> {
        same_end(soa, latest)?;
        // It takes the place of the earlier one.
        edit.add(latest.record().into()).map_err(refused)?;
        let data = edit.finish().map_err(incomplete)?;
        Ok(Some(Received::Changed(data, std::mem::take(&mut self.differences.steps))))
    }
}

/// The last SOA record has to be the first one (RFC 5936 section 2.2).
fn same_end(soa: &Soa, latest: &Soa) -> Result<(), IncomingError> {
    let (first, last) = (latest.serial().0, soa.serial().0);
    if first == last { Ok(()) } else { Err(IncomingError::OtherEnd { first, last }) }
}

fn owned(record: RecordRef<'_>) -> Record {
    let RecordRef { owner, rtype, class, ttl, rdata } = record;
    Record { owner: owner.to_name(), rtype, class, ttl, rdata: rdata.to_vec() }
}

fn refused(error: Refused) -> IncomingError {
    match error {
        // Another zone may leave some, or the configuration.
        Refused::NoRoom => IncomingError::NoRoom,
        error => IncomingError::Refused(error.to_string()),
    }
}

fn incomplete(error: impl fmt::Display) -> IncomingError {
    IncomingError::Incomplete(error.to_string())
}
