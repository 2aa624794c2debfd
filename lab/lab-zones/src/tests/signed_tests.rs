//! How far a resolver that validates gets.

use super::*;

fn rrsig(owner: &str, covered: &str, signer: &str, [until, from]: [&str; 2]) -> String {
    let labels = owner.trim_end_matches('.').split('.').filter(|label| !label.is_empty()).count();
    format!("{owner} RRSIG {covered} 13 {labels} 300 {until}000000 {from}000000 7 {signer} AAAA")
}

const WHILE: [&str; 2] = ["20260210", "20260110"];
const KEY: &str = "DNSKEY 257 3 13 AAAA";

/// A signed root, com with a DS record there, and example.com, of which `proof` is what com says.
fn walked(with_keys_of_com: bool, proof: &[&str]) -> Rebuilt {
    let mut walk = Walk::default();
    let sig = |owner: &str, covered: &str, signer: &str| rrsig(owner, covered, signer, WHILE);
    let (ns, keys) = (sig(".", "NS", "."), sig(".", "DNSKEY", "."));
    let root = [". NS a.root.", &*ns];
    walk.says(ROOT, ". NS", Said(AA, [&root, &[], &["a.root. A 198.41.0.4"]]));
    let key = format!(". {KEY}");
    walk.says(ROOT, ". DNSKEY", Said(AA, [&[&key, &keys], &[], &[]]));
    let ds = rrsig("com.", "DS", ".", ["20260205", "20260101"]);
    let digest = "com. DS 7 13 2 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let delegation = ["com. NS ns.com.", digest, &*ds];
    walk.says(ROOT, "com. A", Said(0, [&[], &delegation, &["ns.com. A 192.0.2.10"]]));
    if with_keys_of_com {
        let (key, keys) = (format!("com. {KEY}"), sig("com.", "DNSKEY", "com."));
        walk.says(COM, "com. DNSKEY", Said(AA, [&[&key, &keys], &[], &[]]));
    }
    let mut delegation = vec!["example.com. NS ns.example.com."];
    delegation.extend(proof);
    let glue = ["ns.example.com. A 192.0.2.20"];
    walk.says(COM, "www.example.com. A", Said(0, [&[], &delegation, &glue]));
    let soa = sig("com.", "SOA", "com.");
    let (next, nsec) = ("c.com. NSEC nz.com. A RRSIG NSEC", sig("c.com.", "NSEC", "com."));
    let denial = ["com. SOA ns.com. host.com. 7 1 1 1 60", &*soa, next, &*nsec];
    walk.denies(COM, "nothing.com. A", Said(AA, [&[], &denial, &[]]));
    let www = ["www.example.com. A 10.0.0.1"];
    walk.says(EXAMPLE, "www.example.com. A", Said(AA, [&www, &[], &[]]));
    walk.rebuilt()
}

#[test]
fn the_chain_of_trust_is_followed_from_the_root() {
    let nsec = rrsig("example.com.", "NSEC", "com.", WHILE);
    let proof = ["example.com. NSEC f.com. NS RRSIG NSEC", &*nsec];
    let rebuilt = walked(true, &proof);
    assert_whole(&rebuilt);
    let found = &rebuilt.validation;
    assert_eq!(
        (&*found.secure, &*found.insecure),
        (&[".".into(), "com.".into()][..], &["example.com.".into()][..])
    );
    assert!(found.rejected.is_empty(), "{found:?}");
    // The signatures of all of them, the latest beginning and the earliest end: 2026-01-10 and 2026-02-05.
    assert_eq!((found.valid_from, found.valid_until), (Some(1_768_003_200), Some(1_770_249_600)));
    // Nobody was asked for them, so no response had a signature.
    let unsigned = whats(&found.unsigned);
    assert!(unsigned.contains(&"com.: NS of com.".to_owned()), "{unsigned:?}");
    assert!(!unsigned.iter().any(|what| what.contains("example.com")), "{unsigned:?}");
}

#[test]
fn a_break_in_the_chain_of_trust_is_told_with_its_reason() {
    let rejected = |rebuilt: &Rebuilt| whats(&rebuilt.validation.rejected);
    let proof = "neither its DS records nor a proof that it has none were recorded of com.";
    assert_eq!(rejected(&walked(true, &[])), [format!("example.com.: {proof}")]);
    let unsigned = ["example.com. NSEC f.com. NS RRSIG NSEC"];
    assert_eq!(rejected(&walked(true, &unsigned)), [format!("example.com.: {proof}")]);
    let without_keys = ["com.: its DNSKEY records were not recorded", "example.com.: below com."];
    assert_eq!(rejected(&walked(false, &[])), without_keys);
    let mut plain = Walk::default();
    assert_eq!(plain.down().rebuilt().validation, Validation::default());
}
