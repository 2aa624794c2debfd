use super::{P256_ZSK, bench};
use nodens_wire::{Record, Type};

#[test]
fn signatures_that_begin_later_are_made_anew_after_the_clock_was_set_back() {
    let mut bench = bench(&[P256_ZSK]);
    for question in ["www.example.org. AAAA +do", "example.org. DNSKEY +do"] {
        let ahead = bench.ask(question).answer;
        bench.now.unix_s -= 8 * 3600;
        let right = bench.ask(question).answer;
        let begins = |record: &Record| {
            let octets = record.rdata.get(12..16).unwrap();
            u64::from(u32::from_be_bytes(octets.try_into().unwrap()))
        };
        let signatures: Vec<_> =
            right.iter().filter(|record| record.rtype == Type::RRSIG).collect();
        assert!(!signatures.is_empty() && ahead != right);
        assert!(signatures.iter().all(|record| begins(record) <= bench.now.unix_s));
    }
}
