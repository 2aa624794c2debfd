//! The zone that a database, or the memory, begins with.

use crate::authority::source::Files;
use nodens_wire::{Class, Name, Type};
use nodens_zone::data::{Data, Edit};
use nodens_zone::update::types::Kind;
use nodens_zone::update::{Policy, size};
use nodens_zone::{Master, RecordRef, Soa};
use std::path::Path;

/// Reads the master file of a zone that can be updated: a stricter one than `file` reads.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(
    path: &Path,
    origin: &Name,
    (policy, kind): (&Policy, Kind),
) -> Result<Data, String> {
    let (files, file) = (Files::default(), path.to_string_lossy());
    let text = files.open_path(path).map_err(|error| {
        format!("opening zone file \"{file}\": {error}")
    })?;
    let mut master = Master::new(text, &file, origin.view(), Box::new(files.clone()));
    let (mut edit, mut soas, mut size) = (Edit::new(origin.view(), Class::IN), 0_u32, 0);
    while let Some(record) = master.next_record().map_err(|error| error.to_string())? {
        let RecordRef { owner, rtype, .. } = record;
        size += 1;
        if size > policy.records_max {
            return Err(format!("zone file \"{file}\" has more than max_records records"));
        }
        soas += u32::from(rtype == Type::SOA);
        let fault = match () {
            () if !kind.can_have(rtype) => Some("a type that updates would make wrong".to_owned()),
            () if soas > 1 && rtype == Type::SOA => Some("a second SOA record".to_owned()),
            () if has_alias_beside(&edit, &record) => Some("other data beside CNAME".to_owned()),
            () => edit.add(record).err().map(|error| error.to_string()),
        };
        if let Some(fault) = fault {
            let record = format!("{} {rtype}", owner.to_name());
            let (file, line) = master.position();
            return Err(format!("{file}:{line}: {record}: {fault}"));
        }
    }
    if soas == 0 {
        return Err(format!("file \"{file}\" has no SOA record for origin {origin}"));
    }
    let data = edit.finish().map_err(|error| format!("{file}: {error}"))?;
    check(&data, policy).map_err(|error| format!("{file}: {error}"))?;
    Ok(data)
}

/// Whether the zone can be updated.
pub(super) fn check(data: &Data, policy: &Policy) -> Result<(), String> {
    if Soa::serial(data.soa()).0 == 0 {
        return Err("the serial number is 0, which updates avoid".to_owned());
    }
    policy.check_size(size(data))
}

/// Whether the name has a CNAME record beside which the record cannot stand, or the other way round.
fn has_alias_beside(edit: &Edit, record: &RecordRef<'_>) -> bool {
    let mut types = edit.rrsets(record.owner).map(|set| set.rtype());
    match record.rtype {
        Type::CNAME => {
            let present = edit.rrset(record.owner, Type::CNAME);
            types.any(|rtype| rtype != Type::CNAME)
                || present.is_some_and(|set| set.first() != record.rdata)
        }
        _ => types.any(|rtype| rtype == Type::CNAME),
    }
}
