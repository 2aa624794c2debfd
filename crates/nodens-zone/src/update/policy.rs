//! Who may change what, and how large a zone may become.

use super::Size;
use nodens_wire::{Name, NameRef, Rcode, Record, Type};

/// What one key may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The key's name.
    pub key: Name,
    /// The owner of the records; nothing for all names of the zone.
    pub owner: Option<Name>,
    /// Their types, of which ANY allows the deletion of all records of the owner; nothing for all.
    pub types: Option<Vec<Type>>,
}

/// What is allowed in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Each allows something; what none allows is refused.
    pub permissions: Vec<Permission>,
    /// Records of the zone, without those that signing makes.
    pub records_max: u64,
    /// Octets of these, names not compressed.
    pub octets_max: u64,
    /// Records of one message, prerequisites among them.
    pub update_records_max: usize,
}

impl Policy {
    /// Whether the key may change anything.
    pub fn knows(&self, key: NameRef<'_>) -> bool {
        self.permissions.iter().any(|own| own.key.view() == key)
    }

    /// Whether the records of an update section are allowed to who has the key.
    pub(super) fn check(&self, key: NameRef<'_>, updates: &[Record]) -> Result<(), Rcode> {
        let allowed = |record: &Record| {
            self.permissions.iter().any(|own| {
                own.key.view() == key
                    && own.owner.as_ref().is_none_or(|owner| *owner == record.owner)
                    && own.types.as_ref().is_none_or(|types| types.contains(&record.rtype))
            })
        };
        if updates.iter().all(allowed) { Ok(()) } else { Err(Rcode::REFUSED) }
    }

    /// Whether a zone of this size is not too large.
    ///
    /// # Errors
    /// Which maximum it exceeds.
    pub fn check_size(&self, size: Size) -> Result<(), String> {
        if size.records > self.records_max {
            return Err(format!("zone exceeds max_records ({})", self.records_max));
        }
        if size.octets > self.octets_max {
            return Err(format!("zone exceeds max_bytes ({})", self.octets_max));
        }
        Ok(())
    }
}
