//! A client of HTTP/3 whose streams hold any octets, which arrive in any pieces.

use nodens_net::limits::HTTP3_REQUEST_LEN_MAX;
use nodens_net::testing::http3::{Asked, ask, hear};
use nodens_wire::{Admission, admit};

/// The first octet chooses requests or streams in one direction, and the length of pieces. In whatever pieces
/// octets come, the same becomes of them, and every query is one.
pub fn http3(data: &[u8]) {
    let Some((head, octets)) = data.split_first() else { return };
    // Where a request becomes too long depends on the pieces.
    let octets = octets.get(..HTTP3_REQUEST_LEN_MAX).unwrap_or(octets);
    let size = usize::from(head >> 1) + 1;
    let whole = || [(0, octets)].into_iter().filter(|(_, octets)| !octets.is_empty());
    let pieces = || {
        octets.chunks(size).scan(0, |place, piece| {
            let own = *place;
            *place += piece.len() as u64;
            Some((own, piece))
        })
    };
    if head & 1 == 1 {
        // Which of two faults comes first may depend on the pieces.
        assert_eq!(hear(whole()).is_some(), hear(pieces()).is_some());
        return;
    }
    let asked = ask(whole());
    assert_eq!(asked, ask(pieces()));
    assert_ne!(asked, Asked::More);
    if let Asked::Query(message) = asked {
        assert!(matches!(admit(&message), Admission::Accept(_)));
    }
}
