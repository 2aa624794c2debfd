//! Answers changed on purpose, to see that the comparison notices every one.

/// Changes one answer in `every`, each in another way; returns how many.
pub(crate) fn tamper(answers: &mut [Option<Vec<u8>>], every: usize) -> usize {
    let mut count = 0;
    for answer in answers.iter_mut().flatten().step_by(every.max(1)) {
        change(answer, count);
        count += 1;
    }
    count
}

/// Changes the message: way 0 its RCODE, 1 the AA bit, 2 the RA bit, 3 the TTL of its first record or the RCODE if it
/// has none, 4 the last octet of its question's type.
fn change(message: &mut [u8], way: usize) {
    let end = question_end(message);
    match way % 5 {
        3 if end + 10 < message.len() && records(message) > 0 => {
            // Owner (a pointer or the root), type, class; then the TTL.
            let owner = if message[end] & 0xc0 == 0xc0 { 2 } else { name_length(&message[end..]) };
            if let Some(octet) = message.get_mut(end + owner + 4) {
                *octet ^= 0x10;
            }
        }
        4 if end >= 16 => message[end - 3] ^= 0x80,
        way => {
            let (at, bit) = [(3, 0x05), (2, 0x04), (3, 0x80), (3, 0x05), (3, 0x05)][way];
            if let Some(octet) = message.get_mut(at) {
                *octet ^= bit;
            }
        }
    }
}

/// ANCOUNT and NSCOUNT: records before any OPT record.
fn records(message: &[u8]) -> u16 {
    let count = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    if message.len() < 12 { 0 } else { count(6) + count(8) }
}

fn question_end(message: &[u8]) -> usize {
    message.get(12..).map_or(message.len(), |rest| 12 + name_length(rest) + 4)
}

/// Octets of a name without compression.
fn name_length(wire: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = wire.get(at).filter(|length| **length != 0) {
        at += 1 + usize::from(*length);
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_judge::answer::{Outcome, Tolerance, compare};

    #[test]
    fn every_way_is_noticed() {
        let answer = b"\0\x01\x84\0\0\x01\0\x01\0\0\0\0\x01a\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\x7f\0\0\x01";
        let negative = b"\0\x01\x84\x03\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
        let tolerance = Tolerance { serial: 60, truncated: true };
        for message in [&answer[..], negative] {
            for way in 0..5 {
                let mut changed = message.to_vec();
                change(&mut changed, way);
                let (before, after) = (Outcome::read(message), Outcome::read(&changed));
                assert!(!compare(&before, &after, tolerance).is_empty(), "{way}: {after}");
            }
        }
    }
}
