//! Proofs of what is not in a signed zone, out of the NSEC (RFC 4035 section 3.1.3) and NSEC3 records
//! (RFC 5155 section 7.2) that it has.

use super::key::{Key, Place};
use super::lookup::{Gap, wildcard_name};
use super::node::Node;
use super::rrset::Rrset;
use super::trie::Entry;
use super::{Data, Found};
use crate::limits::{NSEC_STEPS, NSEC3_ITERATIONS_MAX};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, NameRef, Type};
use sha1::{Digest, Sha1};
use std::fmt;

/// NSEC or NSEC3 RRsets, each once. They belong into the authority section with their signatures.
#[derive(Clone, Debug, Default)]
pub struct Proof<'z> {
    parts: [Option<Denial<'z>>; 3],
}

impl<'z> Proof<'z> {
    /// The RRsets.
    pub fn iter(&self) -> impl Iterator<Item = Denial<'z>> + use<'z> {
        self.parts.into_iter().flatten()
    }

    fn push(&mut self, part: Option<Denial<'z>>) {
        let Some(part) = part else { return };
        for slot in &mut self.parts {
            match slot {
                Some(other) if other.owner() == part.owner() => return,
                Some(_) => {}
                None => return *slot = Some(part),
            }
        }
    }
}

/// An NSEC or NSEC3 RRset.
///
/// Which one it is is known before its records are looked for: a response that has it prepared needs nothing of them.
#[derive(Clone, Copy)]
pub struct Denial<'z> {
    node: &'z Node,
    rtype: Type,
    class: Class,
}

impl fmt::Debug for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Denial({} {})", self.owner(), self.rtype)
    }
}

impl<'z> Denial<'z> {
    /// The name it belongs to.
    pub fn owner(&self) -> NameRef<'z> {
        self.node.owner()
    }

    /// The RRset.
    pub fn rrset(&self) -> Option<Rrset<'z>> {
        self.node.set(self.rtype, self.class)
    }
}

/// Octets of a SHA-1 hash.
pub(crate) const HASH_LEN: usize = 20;
/// Letters of a hash in base32hex.
const LABEL_LEN: usize = 32;

/// How names are hashed (RFC 5155 section 5).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Params<'z> {
    iterations: u16,
    salt: &'z [u8],
}

impl<'z> Params<'z> {
    /// Those of NSEC3 or NSEC3PARAM RDATA, if they are ones that can be used.
    pub(super) fn read(rdata: &'z [u8]) -> Option<Self> {
        let ([algorithm, _, i0, i1, len], rest) = rdata.split_first_chunk::<5>()?;
        let iterations = u16::from_be_bytes([*i0, *i1]);
        let salt = rest.get(..usize::from(*len))?;
        let known = *algorithm == 1 && iterations <= NSEC3_ITERATIONS_MAX;
        known.then_some(Self { iterations, salt })
    }

    pub(super) fn hash(&self, name: NameRef<'_>) -> [u8; HASH_LEN] {
        let mut buffer = [0; NAME_LEN_MAX];
        let wire = name.as_wire();
        let folded = buffer.get_mut(..wire.len()).unwrap_or_default();
        folded.copy_from_slice(wire);
        folded.make_ascii_lowercase();
        let once = |octets: &[u8]| Sha1::new().chain_update(octets).chain_update(self.salt);
        let mut hash: [u8; HASH_LEN] = once(folded).finalize().into();
        for _ in 0..self.iterations {
            hash = once(&hash).finalize().into();
        }
        hash
    }
}

/// The hash of a name without salt and iterations, as RFC 9276 section 3.1 wants it.
pub(crate) fn plain_hash(name: NameRef<'_>) -> [u8; HASH_LEN] {
    Params { iterations: 0, salt: &[] }.hash(name)
}

/// A label of 32 letters in base32hex (RFC 4648 section 7) below the origin.
pub(crate) fn hashed_name<'b>(
    hash: &[u8; HASH_LEN],
    origin: NameRef<'_>,
    buffer: &'b mut [u8; NAME_LEN_MAX],
) -> Option<NameRef<'b>> {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let tail = origin.as_wire();
    let wire = buffer.get_mut(..1 + LABEL_LEN + tail.len())?;
    let (len, rest) = wire.split_first_mut()?;
    *len = LABEL_LEN as u8;
    let (label, end) = rest.split_at_mut_checked(LABEL_LEN)?;
    end.copy_from_slice(tail);
    for (letters, octets) in label.chunks_exact_mut(8).zip(hash.chunks_exact(5)) {
        let bits = octets.iter().fold(0_u64, |bits, octet| bits << 8 | u64::from(*octet));
        for (at, letter) in letters.iter_mut().enumerate() {
            let index = bits >> (35 - 5 * at) & 31;
            *letter = LETTERS.get(index as usize).copied().unwrap_or_default();
        }
    }
    NameRef::new(wire).ok()
}

/// The part of `name` that has one label more than `encloser`, which lies above it.
fn next_closer<'n>(name: NameRef<'n>, encloser: NameRef<'_>) -> Option<NameRef<'n>> {
    let mut name = name;
    loop {
        let parent = name.parent()?;
        if parent.as_wire().len() <= encloser.as_wire().len() {
            return Some(name);
        }
        name = parent;
    }
}

impl Data {
    /// What proves that `found`, which [`Data::lookup`] gave for `qname`, is all there is: that a name
    /// or type does not exist, that a wildcard stands for the name, that a zone below is not signed.
    /// Nothing in a zone without NSEC and usable NSEC3 records. Allocates nothing but what is kept for later
    /// queries.
    pub fn proof(&self, qname: NameRef<'_>, found: &Found<'_>) -> Proof<'_> {
        // An answer of its own name needs none.
        let is_plain = matches!(found, Found::Answer { wildcard: None, .. });
        if !self.signed || is_plain {
            return Proof::default();
        }
        match self.params() {
            Some(params) => self.proof_by_hash(&params, qname, found),
            None => self.proof_by_name(qname, found),
        }
    }

    fn proof_by_name(&self, qname: NameRef<'_>, found: &Found<'_>) -> Proof<'_> {
        let mut proof = Proof::default();
        match found {
            Found::Answer { wildcard, .. }
            | Found::Several { wildcard, .. }
            | Found::Cname { wildcard, .. } => {
                if wildcard.is_some() {
                    proof.push(self.nsec_before(qname));
                }
            }
            Found::NoData { wildcard } => {
                proof.push(self.nsec_before(qname));
                proof.push(wildcard.and_then(|wildcard| self.nsec_before(wildcard)));
            }
            Found::NxDomain { closest_encloser, gap } => {
                proof.push(self.nsec_in(qname, *gap));
                proof.push(self.nsec_of_wildcard(*closest_encloser));
            }
            Found::Referral(cut) if cut.ds().is_none() => {
                let entry = self.entry(&self.names, cut.name());
                let node = entry.map(|entry| entry.node).filter(|node| node.has(Type::NSEC));
                proof.push(node.map(|node| self.nsec(node)));
            }
            Found::Referral(_) | Found::Dname { .. } | Found::Outside => {}
        }
        proof
    }

    /// The NSEC record of `name`, or else the one that covers it: of the last name before it that has
    /// one, not counting names below a cut.
    pub fn nsec_before(&self, name: NameRef<'_>) -> Option<Denial<'_>> {
        let origin = self.origin();
        let place = Place::new(name, origin)?;
        let walk = self.names.walk(&place, origin);
        let reached = (walk.common, walk.is_behind);
        match walk.hidden_by.or(walk.hit) {
            Some(entry) => self.nsec_at_or_before(entry),
            None => self.nsec_at_or_before(self.names.before(&place.key, reached)?),
        }
    }

    /// The NSEC record that covers a name which does not exist.
    fn nsec_in(&self, name: NameRef<'_>, gap: Gap) -> Option<Denial<'_>> {
        let key = Key::new(name, self.origin())?;
        self.nsec_at_or_before(self.names.before(&key, (gap.common, gap.is_behind))?)
    }

    /// The NSEC record that covers the wildcard right below a name.
    fn nsec_of_wildcard(&self, encloser: NameRef<'_>) -> Option<Denial<'_>> {
        let find = || {
            let mut buffer = [0; NAME_LEN_MAX];
            self.nsec_before(wildcard_name(encloser, &mut buffer)?)
        };
        let prepared =
            self.prepared.covering((encloser, self.count), || find().map(|nsec| nsec.node.clone()));
        match prepared {
            Some(node) => Some(self.nsec(node)),
            None => find(),
        }
    }

    fn nsec<'z>(&self, node: &'z Node) -> Denial<'z> {
        Denial { node, rtype: Type::NSEC, class: self.class }
    }

    /// The NSEC record of the last name before this one that has one, not counting names below a cut;
    /// nothing for the origin.
    pub(crate) fn nsec_behind(&self, name: NameRef<'_>) -> Option<Denial<'_>> {
        let nsec = self.nsec_before(name)?;
        if nsec.owner() != name {
            return Some(nsec);
        }
        let key = Key::new(name, self.origin())?;
        self.nsec_at_or_before(self.names.before(&key, (key.len(), false))?)
    }

    /// The NSEC3 record whose owner comes before this one, which is the last of all for the first.
    pub(crate) fn nsec3_behind(&self, owner: NameRef<'_>) -> Option<Rrset<'_>> {
        let place = Place::new(owner, self.origin())?;
        let walk = self.hashed.walk(&place, self.origin());
        let before = self.hashed.before(&place.key, (walk.common, walk.is_behind));
        before.or_else(|| self.hashed.last())?.node.set(Type::NSEC3, self.class)
    }

    fn nsec_at_or_before<'z>(&'z self, entry: Entry<'z>) -> Option<Denial<'z>> {
        let mut entry = entry;
        for _ in 0..NSEC_STEPS {
            // Its last RRset but one lies far behind its name.
            if self.prepared.proves(entry.node.owner()) || entry.node.has(Type::NSEC) {
                return Some(self.nsec(entry.node));
            }
            let key = Key::new(entry.node.owner(), self.origin())?;
            entry = self.names.before(&key, (key.len(), false))?;
        }
        None
    }

    /// How the names of the zone are hashed; nothing if they are not, or not so that it can be used.
    fn params(&self) -> Option<Params<'_>> {
        let set = self.apex(Type::NSEC3PARAM)?;
        set.iter().find_map(|record| Params::read(record.rdata))
    }

    fn proof_by_hash(
        &self,
        params: &Params<'_>,
        qname: NameRef<'_>,
        found: &Found<'_>,
    ) -> Proof<'_> {
        let mut proof = Proof::default();
        let mut buffer = [0; NAME_LEN_MAX];
        match found {
            Found::Answer { wildcard: Some(wildcard), .. }
            | Found::Several { wildcard: Some(wildcard), .. }
            | Found::Cname { wildcard: Some(wildcard), .. } => {
                let closer = wildcard.parent().and_then(|above| next_closer(qname, above));
                proof.push(closer.and_then(|name| self.nsec3(params, name).cover()));
            }
            Found::NoData { wildcard: Some(wildcard) } => {
                if let Some(above) = wildcard.parent() {
                    self.prove_encloser(params, qname, above, &mut proof);
                }
                proof.push(self.nsec3(params, *wildcard).either());
            }
            Found::NoData { wildcard: None } => self.prove_name(params, qname, &mut proof),
            Found::NxDomain { closest_encloser, .. } => {
                let proven = self.prove_encloser(params, qname, *closest_encloser, &mut proof);
                let wildcard = proven.and_then(|above| wildcard_name(above, &mut buffer));
                proof.push(wildcard.and_then(|name| self.nsec3(params, name).cover()));
            }
            Found::Referral(cut) if cut.ds().is_none() => {
                self.prove_name(params, cut.name(), &mut proof);
            }
            _ => {}
        }
        proof
    }

    /// The record that matches the name; where opt-out left it out, the closest provable encloser
    /// (RFC 5155 sections 7.2.4 and 7.2.7).
    fn prove_name<'z>(&'z self, params: &Params<'_>, name: NameRef<'_>, proof: &mut Proof<'z>) {
        match (self.nsec3(params, name).matching(), name.parent()) {
            (Some(matching), _) => proof.push(Some(matching)),
            (None, Some(parent)) => _ = self.prove_encloser(params, name, parent, proof),
            (None, None) => {}
        }
    }

    /// That `encloser` exists, or the next name above it that can be proven to, which it gives, and that
    /// the name below it on the way to `name` does not (RFC 5155 section 7.2.1).
    fn prove_encloser<'z, 'n>(
        &'z self,
        params: &Params<'_>,
        name: NameRef<'_>,
        encloser: NameRef<'n>,
        proof: &mut Proof<'z>,
    ) -> Option<NameRef<'n>> {
        let mut encloser = encloser;
        loop {
            if let Some(matching) = self.nsec3(params, encloser).matching() {
                proof.push(Some(matching));
                let closer = next_closer(name, encloser);
                proof.push(closer.and_then(|name| self.nsec3(params, name).cover()));
                return Some(encloser);
            }
            encloser = encloser.parent().filter(|parent| parent.is_in_domain(self.origin()))?;
        }
    }

    /// The record that matches the hash of `name`, or the one that covers it.
    fn nsec3(&self, params: &Params<'_>, name: NameRef<'_>) -> Nsec3<'_> {
        self.find_nsec3(params, name).unwrap_or(Nsec3::None)
    }

    fn find_nsec3(&self, params: &Params<'_>, name: NameRef<'_>) -> Option<Nsec3<'_>> {
        let origin = self.origin();
        let mut buffer = [0; NAME_LEN_MAX];
        let hash = params.hash(name);
        let place = Place::new(hashed_name(&hash, origin, &mut buffer)?, origin)?;
        let walk = self.hashed.walk(&place, origin);
        let is_ours = |entry: &Entry<'_>| {
            let set = entry.node.set(Type::NSEC3, self.class);
            set.and_then(|set| Params::read(set.first())).as_ref() == Some(params)
        };
        let nsec3 = |node| Denial { node, rtype: Type::NSEC3, class: self.class };
        if let Some(hit) = walk.hit.filter(is_ours) {
            return Some(Nsec3::Matching(nsec3(hit.node)));
        }
        let mut next = self.hashed.before(&place.key, (walk.common, walk.is_behind));
        // The last one covers what comes before the first.
        for _ in 0..NSEC_STEPS {
            let entry = next.or_else(|| self.hashed.last())?;
            if is_ours(&entry) {
                return Some(Nsec3::Covering(nsec3(entry.node)));
            }
            let place = Place::new(entry.node.owner(), origin)?;
            next = self.hashed.before(&place.key, (place.key.len(), false));
        }
        None
    }
}

enum Nsec3<'z> {
    Matching(Denial<'z>),
    Covering(Denial<'z>),
    None,
}

impl<'z> Nsec3<'z> {
    fn matching(self) -> Option<Denial<'z>> {
        if let Self::Matching(part) = self { Some(part) } else { None }
    }

    fn either(self) -> Option<Denial<'z>> {
        if let Self::Matching(part) | Self::Covering(part) = self { Some(part) } else { None }
    }

    fn cover(self) -> Option<Denial<'z>> {
        if let Self::Covering(part) = self { Some(part) } else { None }
    }
}
