//! Goes through the records of a version, for transfers and files.

use super::Data;
use super::node::{Node, Step};
use super::trie::Leaves;
use crate::zone::{Advance, Cursor, RecordRef};
use nodens_wire::{Class, Type};

/// See [`Data::cursor`].
pub(super) struct Records {
    class: Class,
    leaves: Leaves,
    /// Owners of NSEC3 records, which come afterwards.
    hashed: Option<Leaves>,
    /// The node that is gone through, and where in it the record is.
    current: Option<(Node, Step)>,
}

impl Records {
    pub(super) fn new(data: &Data) -> Self {
        let (leaves, hashed) = (Leaves::new(&data.names), Some(Leaves::new(&data.hashed)));
        Self { class: data.class, leaves, hashed, current: None }
    }
}

impl Cursor for Records {
    fn advance(&mut self) -> Advance {
        if let Some((node, step)) = &mut self.current {
            if node.step(step) {
                let is_soa = step.rtype() == Type::SOA;
                return if is_soa { Advance::Nothing } else { Advance::Record };
            }
            self.current = None;
        }
        loop {
            if let Some(node) = self.leaves.next() {
                self.current = Some((node, Step::default()));
                return Advance::Nothing;
            }
            match self.hashed.take() {
                Some(hashed) => self.leaves = hashed,
                None => return Advance::End,
            }
        }
    }

    fn record(&self) -> Option<RecordRef<'_>> {
        let (node, step) = self.current.as_ref()?;
        node.record(step, self.class).filter(|record| record.rtype != Type::SOA)
    }
}
