//! A signed version out of another one and what has changed since: signatures over RRsets that are not what
//! they were, and the links of NSEC or NSEC3 records around names that came or went. The work is that of the
//! change, whatever the size of the zone.

use super::canonical::Canonical;
use super::links::{ByHash, ByName, Hash, Links, NEXT_AT, Ring};
use super::nsec3::PARAMETERS;
use super::signer::{Signer, is_fresh, is_proof, validity};
use super::sweep::Due;
use super::zone::{Denial, SignZoneError};
use crate::data::{Data, Edit, HASH_LEN, Rrset, Standing, hashed_name, name_in, plain_hash};
use crate::presentation::rdata::push_types;
use crate::zone::RecordRef;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, NameRef, Type};
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// The types of a name that the zone says something of; nothing of a name that it does not.
type Types = Option<Vec<Type>>;

impl Signer {
    /// Signs `new`, which was made of the signed version `old` without a thought of signatures, at a time in
    /// Unix seconds. What is `due` gets other signatures where those that are there do not last. Refused if a cut
    /// or DNAME record that came or went has more than `names_most` names below it.
    ///
    /// # Errors
    /// [`SignZoneError`].
    pub fn resign(
        &self,
        (old, new): (&Data, Data),
        due: &Due,
        (now_s, names_most): (u64, usize),
    ) -> Result<Data, SignZoneError> {
        let names = affected((old, &new), due, names_most)?;
        let clean = without_leftovers(new, &names)?;
        let soa = clean.soa();
        // RFC 9077 section 3.
        let ttl = soa.record().ttl.min(soa.minimum());
        let edit = clean.edit();
        let mut work = Work { old, clean: &clean, edit, signer: self, now_s, ttl };
        let mut types = BTreeMap::new();
        for name in names {
            let own = work.name(name.view())?;
            types.insert(name, own);
        }
        match self.denial() {
            Denial::Nsec => work.link_names(&types)?,
            Denial::Nsec3 => work.link_hashes(&types, due)?,
        }
        Ok(work.edit.finish()?)
    }
}

/// The names whose signatures and links may not be right: those that have changed, those that are due, and
/// those below a name that hides them now and did not, or the reverse.
fn affected(
    (old, new): (&Data, &Data),
    due: &Due,
    most: usize,
) -> Result<BTreeSet<Name>, SignZoneError> {
    let mut names = BTreeSet::new();
    new.changed_names(Some(old), |name| _ = names.insert(name.to_name()));
    let turned = |name: &&Name| old.hides_below(name.view()) != new.hides_below(name.view());
    let turned: Vec<Name> = names.iter().filter(turned).cloned().collect();
    for name in turned {
        let below = new.names_below(name.view(), most.saturating_sub(names.len()));
        names.extend(below.ok_or(SignZoneError::TooManyNames(most))?);
    }
    names.extend(due.names.iter().cloned());
    Ok(names)
}

/// The version without names that have nothing but signatures and what denied others.
fn without_leftovers(new: Data, names: &BTreeSet<Name>) -> Result<Data, SignZoneError> {
    let mut edit = new.edit();
    for name in names {
        if new.rrsets(name.view()).all(|set| is_proof(set.rtype())) {
            new.rrsets(name.view()).for_each(|set| remove(&mut edit, &set));
        }
    }
    Ok(edit.finish()?)
}

/// Takes out these records alone: an NSEC3 record may have the same owner.
fn remove(edit: &mut Edit, set: &Rrset<'_>) {
    set.iter().for_each(|record| _ = edit.remove(record));
}

/// Whether both have the same records, the letters of names in them included.
fn is_same(a: &Rrset<'_>, b: &Rrset<'_>) -> bool {
    let has = |rdata: &[u8]| b.iter().any(|record| record.rdata == rdata);
    let equal = |(a, b): (RecordRef<'_>, RecordRef<'_>)| a.rdata == b.rdata;
    (a.count(), a.ttl()) == (b.count(), b.ttl())
        // Most often they have the same order.
        && (a.iter().zip(b.iter()).all(equal) || a.iter().all(|record| has(record.rdata)))
}

/// What precedes a name up to the origin, the name itself left out.
fn above<'n>(name: NameRef<'n>, origin: NameRef<'n>) -> impl Iterator<Item = NameRef<'n>> {
    let upper = move |name: &NameRef<'n>| name.parent().filter(|up| up.is_in_domain(origin));
    std::iter::successors(upper(&name), upper)
}

struct Work<'z> {
    old: &'z Data,
    /// The new version with signatures and links that may not be right.
    clean: &'z Data,
    edit: Edit,
    signer: &'z Signer,
    now_s: u64,
    /// That of NSEC and NSEC3 records.
    ttl: u32,
}

impl Work<'_> {
    /// Signs what is the zone's own of a name, and takes out signatures over what is not, or is gone.
    fn name(&mut self, name: NameRef<'_>) -> Result<Types, SignZoneError> {
        let (clean, is_cut) = (self.clean, self.clean.is_cut(name));
        let is_own = clean.standing(name) == Standing::Own;
        // Addresses at a cut are the other zone's (RFC 4035 section 2.3).
        let counts = |rtype| is_own && (!is_cut || matches!(rtype, Type::NS | Type::DS));
        let is_signed = |rtype| counts(rtype) && !(is_cut && rtype == Type::NS);
        let mut types = Vec::new();
        for set in clean.rrsets(name) {
            match set.covered() {
                // It goes and comes with its NSEC record.
                Some(Type::NSEC) => {}
                Some(covered) => {
                    if !is_signed(covered) || clean.rrset(name, covered).is_none() {
                        remove(&mut self.edit, &set);
                    }
                }
                None if set.rtype() == Type::NSEC || !counts(set.rtype()) => {}
                None => {
                    types.push(set.rtype());
                    if is_signed(set.rtype()) {
                        self.set(&set)?;
                    }
                }
            }
        }
        Ok(is_own.then_some(types))
    }

    /// Signs an RRset whose signatures are not those of its records, or do not last.
    fn set(&mut self, set: &Rrset<'_>) -> Result<(), SignZoneError> {
        let was = self.old.rrset(set.owner(), set.rtype());
        let is_signed = |was: &Rrset<'_>, sigs: &Rrset<'_>| {
            is_same(was, set) && was.sigs().is_some_and(|old| is_same(&old, sigs))
        };
        match (was, set.sigs()) {
            (Some(was), Some(sigs)) if is_signed(&was, &sigs) && self.lasts(&sigs) => return Ok(()),
            (_, Some(sigs)) => remove(&mut self.edit, &sigs),
            (_, None) => {}
        }
        let rdatas: Vec<&[u8]> = set.iter().map(|record| record.rdata).collect();
        self.sign(set.owner(), set.rtype(), set.ttl(), &rdatas)
    }

    fn lasts(&self, sigs: &Rrset<'_>) -> bool {
        usize::from(sigs.count()) == self.signer.keys().len() && is_fresh(sigs, self.now_s)
    }

    fn sign(
        &mut self,
        owner: NameRef<'_>,
        rtype: Type,
        ttl: u32,
        rdatas: &[&[u8]],
    ) -> Result<(), SignZoneError> {
        let (origin, class) = (self.clean.origin(), self.clean.class());
        let set = Canonical::new(owner, (rtype, class), ttl, rdatas.iter().copied());
        let validity = validity(&set, origin, self.now_s);
        for key in self.signer.keys() {
            let rdata = set.sign(key, origin, validity).map_err(|_| SignZoneError::Sign)?;
            self.edit.add(RecordRef { owner, rtype: Type::RRSIG, class, ttl, rdata: &rdata })?;
        }
        Ok(())
    }

    /// Has this NSEC or NSEC3 record stand alone at its owner, and signs it.
    fn prove(
        &mut self,
        owner: NameRef<'_>,
        rtype: Type,
        rdata: &[u8],
    ) -> Result<(), SignZoneError> {
        if let Some(set) = self.clean.rrset(owner, rtype) {
            let is_right = set.count() == 1 && set.first() == rdata && set.ttl() == self.ttl;
            if is_right && set.sigs().is_some_and(|sigs| self.lasts(&sigs)) {
                return Ok(());
            }
        }
        self.disprove(owner, rtype);
        let (class, ttl) = (self.clean.class(), self.ttl);
        self.edit.add(RecordRef { owner, rtype, class, ttl, rdata })?;
        self.sign(owner, rtype, ttl, &[rdata])
    }

    /// Takes out an NSEC or NSEC3 record with its signatures.
    fn disprove(&mut self, owner: NameRef<'_>, rtype: Type) {
        let Some(set) = self.clean.rrset(owner, rtype) else { return };
        set.sigs().iter().for_each(|sigs| remove(&mut self.edit, sigs));
        remove(&mut self.edit, &set);
    }

    fn link_names(&mut self, types: &BTreeMap<Name, Types>) -> Result<(), SignZoneError> {
        let mut links = Links::of(ByName(self.old));
        let has_some = |own: &Types| own.as_ref().is_some_and(|own| !own.is_empty());
        for (name, own) in types {
            links.set(name.clone(), has_some(own));
        }
        links.gone.iter().for_each(|name| self.disprove(name.view(), Type::NSEC));
        let changed = types.iter().filter(|(_, own)| has_some(own)).map(|(name, _)| name.clone());
        for name in ends(&links, changed) {
            let next = links.after(&name).ok_or(SignZoneError::Broken)?;
            let mut rdata = next.view().as_wire().to_vec();
            match types.get(&name) {
                Some(Some(own)) => {
                    let own = own.iter().chain(&[Type::RRSIG, Type::NSEC]);
                    push_types(&mut rdata, &own.map(|rtype| rtype.0).collect());
                }
                _ => rdata.extend(types_of_nsec(self.clean, &name).ok_or(SignZoneError::Broken)?),
            }
            self.prove(name.view(), Type::NSEC, &rdata)?;
        }
        Ok(())
    }

    fn link_hashes(
        &mut self,
        types: &BTreeMap<Name, Types>,
        due: &Due,
    ) -> Result<(), SignZoneError> {
        let lists = self.lists(types);
        let mut links = Links::of(ByHash(self.old));
        for (hash, list) in &lists {
            links.set(*hash, list.is_some());
        }
        for hash in &links.gone {
            let mut buffer = [0; NAME_LEN_MAX];
            let owner = hashed_name(hash, self.clean.origin(), &mut buffer);
            self.disprove(owner.ok_or(SignZoneError::LongOrigin)?, Type::NSEC3);
        }
        let changed = lists.iter().filter(|(_, list)| list.is_some()).map(|(hash, _)| *hash);
        let old = ByHash(self.old);
        let is_left = |hash: &&Hash| old.has(hash) && !links.gone.contains(*hash);
        let due = due.hashes.iter().filter(is_left).copied();
        for hash in ends(&links, changed.chain(due)) {
            let mut buffer = [0; NAME_LEN_MAX];
            let owner = hashed_name(&hash, self.clean.origin(), &mut buffer);
            let owner = owner.ok_or(SignZoneError::LongOrigin)?;
            let next = links.after(&hash).ok_or(SignZoneError::Broken)?;
            let mut rdata = [&PARAMETERS, &[HASH_LEN as u8][..], &next].concat();
            match lists.get(&hash) {
                Some(Some(list)) => push_types(&mut rdata, list),
                _ => {
                    let set = self.clean.rrset(owner, Type::NSEC3).ok_or(SignZoneError::Broken)?;
                    rdata.extend(set.first().get(NEXT_AT + HASH_LEN..).unwrap_or_default());
                }
            }
            self.prove(owner, Type::NSEC3, &rdata)?;
        }
        Ok(())
    }

    /// What NSEC3 records have to say of names and of those above them; nothing of names that are to have none.
    fn lists(&self, types: &BTreeMap<Name, Types>) -> BTreeMap<Hash, Option<BTreeSet<u16>>> {
        let mut lists = BTreeMap::new();
        let clean = self.clean;
        for (name, own) in types {
            let list = own.as_ref().map(|own| {
                // Nothing is signed at a cut to a zone that is not, and where there are no records.
                let is_signed = !own.is_empty() && !clean.is_cut(name.view());
                let sigs = (is_signed || own.contains(&Type::DS)).then_some(Type::RRSIG);
                own.iter().copied().chain(sigs).map(|rtype| rtype.0).collect()
            });
            lists.insert(plain_hash(name.view()), list);
            for upper in above(name.view(), clean.origin()) {
                let hash = plain_hash(upper);
                // What has records has not changed, unless it is among the names itself.
                if lists.contains_key(&hash)
                    || clean.rrsets(upper).next().is_some()
                        && clean.standing(upper) == Standing::Own
                {
                    continue;
                }
                let exists = clean.standing(upper) == Standing::Own;
                lists.insert(hash, exists.then(BTreeSet::new));
            }
        }
        lists
    }
}

/// The links to be looked at: these, and those that lead to where links have come or gone.
fn ends<R: Ring>(links: &Links<R>, changed: impl Iterator<Item = R::Key>) -> BTreeSet<R::Key> {
    let before = links.gone.iter().chain(&links.come).filter_map(|key| links.before(key));
    changed.chain(before).collect()
}

/// The list of types in the NSEC record of a name.
fn types_of_nsec<'z>(data: &'z Data, name: &Name) -> Option<&'z [u8]> {
    let rdata = data.rrset(name.view(), Type::NSEC)?.first();
    rdata.get(name_in(rdata, 0)?.as_wire().len()..)
}
