//! Whose zone it is: only in a zone of the cluster whose names are known can a name be missing.
//!
//! A zone's servers have to give the address of the API server's own Service as the API server gives
//! it, and that of another one which was drawn at random: the first is the same in many clusters.
//! They are asked for both again and again, so nothing is gone by for long after they became others.

use crate::limits::{PROOF_AGAIN, PROOF_PAUSE, SEARCH_TIME};
use crate::time::Now;
use nodens_wire::{Flags, Message, Rcode, Type};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// What may be denied in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trust {
    /// Nothing.
    Nothing,
    /// What no object of any cluster has.
    Shapes,
    /// What no object of this cluster has.
    Names,
}

/// What a zone's servers have shown.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// Until when it holds that they know the API server's Service, monotonic nanoseconds.
    api_until: AtomicU64,
    /// The same of a Service that no other cluster has at this address.
    witness_until: AtomicU64,
    /// When they are to be asked again.
    ask_at: AtomicU64,
}

impl Proof {
    /// How far the zone's servers can be trusted to speak for the cluster.
    pub(super) fn trust(&self, now: Now) -> Trust {
        let holds = |until: &AtomicU64| until.load(Ordering::Relaxed) > now.mono_ns;
        match (holds(&self.api_until), holds(&self.witness_until)) {
            (false, _) => Trust::Nothing,
            (true, false) => Trust::Shapes,
            (true, true) => Trust::Names,
        }
    }

    /// Whether it is time to ask them.
    pub(super) fn is_due(&self, now: Now) -> bool {
        self.ask_at.load(Ordering::Relaxed) <= now.mono_ns
    }

    /// The same, and nobody else does.
    pub(super) fn take_turn(&self, now: Now) -> bool {
        let at = self.ask_at.load(Ordering::Relaxed);
        let next = now.plus(PROOF_PAUSE);
        let ordering = Ordering::Relaxed;
        at <= now.mono_ns && self.ask_at.compare_exchange(at, next, ordering, ordering).is_ok()
    }

    /// Goes by an answer of theirs.
    pub(super) fn heard(&self, heard: Heard, is_api: bool, now: Now) {
        let until = if is_api { &self.api_until } else { &self.witness_until };
        match heard {
            Heard::Confirmed => until.store(now.plus(SEARCH_TIME), Ordering::Relaxed),
            Heard::Refuted => {
                self.api_until.store(0, Ordering::Relaxed);
                self.witness_until.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Goes by an answer to a question that was asked for this. Clients ask for the same names, but
    /// perhaps for one of the two alone, and the other would never have its turn.
    pub(super) fn was_asked(&self, now: Now) {
        self.ask_at.store(now.plus(PROOF_AGAIN), Ordering::Relaxed);
    }
}

/// What an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// They speak for the cluster.
    Confirmed,
    /// They do not.
    Refuted,
}

impl Heard {
    /// Reads an answer to a question for the addresses of a Service that has `cluster_ips`; `None`
    /// if nothing follows from it.
    pub(super) fn of(qtype: Type, rcode: Rcode, wire: &[u8], cluster_ips: &[IpAddr]) -> Option<Self> {
        let mut expected = cluster_ips.iter().filter(|ip| type_of(**ip) == qtype).peekable();
        expected.peek()?;
        if !matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
            return None;
        }
        let message = Message::parse(wire).ok()?;
        if message.flags.has(Flags::TC) {
            return None;
        }
        let given = |ip: &IpAddr| {
            message.answer.iter().any(|record| match ip {
                IpAddr::V4(ip) => record.rtype == Type::A && *record.rdata == ip.octets(),
                IpAddr::V6(ip) => record.rtype == Type::AAAA && *record.rdata == ip.octets(),
            })
        };
        Some(if expected.all(given) { Self::Confirmed } else { Self::Refuted })
    }
}

/// The type that asks for such an address.
pub(super) fn type_of(ip: IpAddr) -> Type {
    if ip.is_ipv4() { Type::A } else { Type::AAAA }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { mono_ns: seconds * 1_000_000_000, unix_s: 0 }
    }

    #[test]
    fn a_proof_is_asked_for_anew_before_it_ends_and_by_one() {
        let proof = Proof::default();
        assert_eq!(proof.trust(at(10)), Trust::Nothing);
        assert!(proof.take_turn(at(10)) && !proof.take_turn(at(10)) && !proof.take_turn(at(11)));
        assert!(proof.take_turn(at(12)), "no answer came");
        proof.heard(Heard::Confirmed, true, at(12));
        proof.was_asked(at(12));
        assert_eq!(proof.trust(at(12)), Trust::Shapes);
        proof.heard(Heard::Confirmed, false, at(12));
        assert_eq!((proof.trust(at(41)), proof.trust(at(42))), (Trust::Names, Trust::Nothing));
        assert!(!proof.take_turn(at(26)) && proof.take_turn(at(27)));
        proof.heard(Heard::Refuted, false, at(28));
        proof.was_asked(at(28));
        assert_eq!(proof.trust(at(28)), Trust::Nothing);
        assert!(!proof.take_turn(at(42)) && proof.take_turn(at(43)));
    }

    #[test]
    fn what_clients_ask_for_does_not_keep_the_proof_from_being_asked_for() {
        let proof = Proof::default();
        assert!(proof.take_turn(at(10)));
        proof.was_asked(at(10));
        for second in 11..25 {
            proof.heard(Heard::Confirmed, false, at(second));
            assert!(!proof.take_turn(at(second)));
        }
        assert!(proof.take_turn(at(25)));
    }

    #[test]
    fn no_witness_without_the_api_server_is_a_proof() {
        let proof = Proof::default();
        proof.heard(Heard::Confirmed, false, at(1));
        assert_eq!(proof.trust(at(1)), Trust::Nothing);
    }
}
