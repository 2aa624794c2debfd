//! Proofs out of NSEC and NSEC3 records.

use super::*;
use crate::data::denial::{Params, hashed_name};
use nodens_wire::name::NAME_LEN_MAX;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const KEY: &str = "@ DNSKEY 256 3 13 AAAA";

fn rrsig(owner: &str, covered: &str) -> String {
    format!("{owner} RRSIG {covered} 13 1 300 20380101000000 20200101000000 1 z. AAAA")
}

/// The owners of what proves the answer.
fn proof(data: &Data, qname: &str, qtype: Type) -> Vec<String> {
    let qname = name(qname);
    let found = data.lookup(qname.view(), qtype);
    let owners = data.proof(qname.view(), &found);
    owners.iter().map(|part| part.owner().to_string()).collect()
}

#[test]
fn nsec_records_that_match_and_cover_prove_an_answer() {
    let data = zone(&[
        KEY,
        &rrsig("@", "SOA"),
        "@ NSEC b.z. SOA NS DNSKEY NSEC",
        "b A 192.0.2.1",
        "b NSEC cut.z. A NSEC",
        "cut NS a.b.",
        "cut NSEC x.ent.z. NS NSEC",
        "host.cut A 192.0.2.1",
        "x.ent A 192.0.2.1",
        "x.ent NSEC signed.z. A NSEC",
        "signed NS a.b.",
        "signed DS 1 13 2 00",
        "signed NSEC *.w.z. NS DS NSEC",
        "*.w TXT a",
        &rrsig("*.w", "NSEC"),
        "*.w NSEC z. TXT NSEC",
    ]);
    assert!(data.is_signed());
    for (qname, qtype, owners) in [
        ("b.z.", Type::A, &[][..]),
        ("b.z.", Type::AAAA, &["b.z."]),
        ("c.z.", Type::A, &["b.z.", "z."]),
        ("a.z.", Type::A, &["z."]),
        ("d.z.", Type::A, &["cut.z.", "z."]),
        ("q.cut.z.", Type::A, &["cut.z."]),
        ("cut.z.", Type::DS, &["cut.z."]),
        ("ent.z.", Type::A, &["cut.z."]),
        ("q.ent.z.", Type::A, &["cut.z."]),
        ("y.ent.z.", Type::A, &["x.ent.z.", "cut.z."]),
        ("signed.z.", Type::A, &[]),
        ("q.w.z.", Type::TXT, &["*.w.z."]),
        ("q.w.z.", Type::A, &["*.w.z."]),
        ("!.w.z.", Type::TXT, &["signed.z."]),
        ("!.w.z.", Type::A, &["signed.z.", "*.w.z."]),
        ("w.z.", Type::A, &["signed.z."]),
        ("zz.z.", Type::A, &["*.w.z.", "z."]),
    ] {
        assert_eq!(proof(&data, qname, qtype), owners, "{qname} {qtype}");
    }
    let set = data.rrset(name("*.w.z.").view(), Type::NSEC).unwrap();
    assert_eq!(set.sigs().map(|sigs| (sigs.covered(), sigs.count())), Some((Some(Type::NSEC), 1)));
    let plain = zone(&["@ NSEC b.z. NSEC"]);
    assert!(!plain.is_signed() && proof(&plain, "q.z.", Type::A).is_empty());
}

#[test]
fn names_are_hashed_as_in_rfc_5155() {
    let params = Params::read(&[1, 0, 0, 12, 4, 0xaa, 0xbb, 0xcc, 0xdd]).unwrap();
    for (owner, hashed) in [
        ("example.", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example."),
        ("A.Example.", "35mthgpgcu1qg68fab165klnsnk3dpvl.example."),
        ("*.w.example.", "r53bq7cc2uvmubfu5ocmm6pers9tk9en.example."),
        ("x.y.w.example.", "2vptu5timamqttgl4luu9kg21e0aor3s.example."),
    ] {
        let (mut buffer, origin) = ([0; NAME_LEN_MAX], name("example."));
        let hash = params.hash(name(owner).view());
        let found = hashed_name(&hash, origin.view(), &mut buffer).unwrap();
        assert_eq!(found.to_string(), hashed);
    }
    assert!(Params::read(&[1, 0, 9, 196, 0]).is_some());
    // More than 2,500 iterations, another algorithm, a salt that is cut off.
    for unusable in [&[1, 0, 9, 197, 0][..], &[2, 0, 0, 0, 0], &[1, 0, 0, 0, 1], &[1, 0, 0, 0]] {
        assert!(Params::read(unusable).is_none());
    }
}

/// A zone of these lines with the NSEC3 records that it has to have, of empty signatures.
fn hashed_zone(lines: &[String], opt_out: bool) -> Option<Data> {
    let mut edit = edit(&[KEY, &rrsig("@", "SOA"), "@ NSEC3PARAM 1 0 1 ab"]);
    for line in lines {
        edit.add((&record(line)).into()).unwrap();
    }
    let plain = edit.clone().finish().unwrap();
    let params = Params::read(&[1, 0, 0, 1, 1, 0xab]).unwrap();
    let mut names = BTreeSet::new();
    for line in lines.iter().map(String::as_str).chain([KEY]) {
        let owner = record(line).owner;
        // What lies at a cut or above it exists; what lies below does not.
        let found = plain.lookup(owner.view(), Type::TXT);
        let insecure = match found {
            Found::Referral(cut) if cut.name() == owner.view() => opt_out && cut.ds().is_none(),
            Found::Referral(_) | Found::Dname { .. } => true,
            _ => false,
        };
        let mut above = (!insecure).then(|| owner.view());
        while let Some(name) = above.filter(|name| name.is_in_domain(plain.origin())) {
            names.insert(name.to_name());
            above = name.parent();
        }
    }
    let hashes: Vec<_> = names.iter().map(|name| params.hash(name.view())).collect();
    let hashes: BTreeSet<_> = hashes.into_iter().collect();
    for hash in &hashes {
        let after = hashes.range::<[u8; 20], _>(hash..).nth(1).or(hashes.first())?;
        let mut buffer = [0; NAME_LEN_MAX];
        let owner = hashed_name(hash, plain.origin(), &mut buffer)?.to_name();
        let head = [1, u8::from(opt_out), 0, 1, 1, 0xab, 20];
        let rdata = [&head[..], after, &[0, 1, 0x40]].concat();
        let (rtype, class, ttl) = (Type::NSEC3, Class::IN, 60);
        edit.add((&Record { owner, rtype, class, ttl, rdata }).into()).unwrap();
    }
    Some(edit.finish().unwrap())
}

/// What NSEC3 records say of names, by their hashes.
struct Verifier<'p> {
    params: Params<'p>,
    spans: BTreeMap<String, String>,
}

impl Verifier<'_> {
    fn hash(&self, name: NameRef<'_>) -> String {
        let mut buffer = [0; NAME_LEN_MAX];
        let hash = self.params.hash(name);
        hashed_name(&hash, NameRef::root(), &mut buffer).unwrap().to_string()
    }

    fn matches(&self, name: NameRef<'_>) -> bool {
        self.spans.contains_key(&self.hash(name))
    }

    fn covers(&self, name: NameRef<'_>) -> bool {
        let hash = self.hash(name);
        self.spans.iter().any(|(first, next)| {
            let wraps = first >= next;
            if wraps { hash > *first || hash < *next } else { hash > *first && hash < *next }
        })
    }

    /// Whether some name above is proven to exist, and the one below it not; that name.
    fn encloser<'n>(&self, name: NameRef<'n>) -> Option<NameRef<'n>> {
        let (mut closer, mut above) = (name, name.parent()?);
        while !self.matches(above) {
            (closer, above) = (above, above.parent()?);
        }
        self.covers(closer).then_some(above)
    }
}

fn is_proven(qname: NameRef<'_>, found: &Found<'_>, verifier: &Verifier<'_>) -> bool {
    let wildcard = |above: NameRef<'_>| name("*.").join(above).unwrap();
    match found {
        Found::Answer { wildcard: Some(wildcard), .. }
        | Found::Several { wildcard: Some(wildcard), .. }
        | Found::Cname { wildcard: Some(wildcard), .. } => {
            let encloser = wildcard.parent().unwrap();
            let mut closer = qname;
            while closer.parent() != Some(encloser) {
                closer = closer.parent().unwrap();
            }
            verifier.covers(closer)
        }
        Found::NoData { wildcard: Some(source) } => {
            let encloser = verifier.encloser(qname);
            // Opt-out leaves out a wildcard with nothing below it but insecure delegations.
            let left_out = encloser.is_some() && verifier.covers(*source);
            encloser == source.parent() && verifier.matches(*source) || left_out
        }
        Found::NoData { wildcard: None } => {
            verifier.matches(qname) || verifier.encloser(qname).is_some()
        }
        Found::NxDomain { closest_encloser, .. } => {
            let encloser = verifier.encloser(qname);
            encloser.is_some_and(|above| closest_encloser.is_in_domain(above))
                // If opt-out left the encloser out, no more can be proven than that.
                && (encloser != Some(*closest_encloser)
                    || verifier.covers(wildcard(*closest_encloser).view()))
        }
        Found::Referral(cut) if cut.ds().is_none() => {
            verifier.matches(cut.name()) || verifier.encloser(cut.name()).is_some()
        }
        _ => verifier.spans.is_empty(),
    }
}

fn line() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec!["a", "b", "*"]);
    let owner = prop::collection::vec(label, 1..4).prop_map(|labels| labels.join("."));
    let rest =
        prop::sample::select(vec!["A 192.0.2.1", "TXT x", "NS x.", "DS 1 13 2 00", "CNAME x."]);
    let line = (owner, rest).prop_map(|(owner, rest)| format!("{owner} {rest}"));
    // A wildcard with NS records is a cut to those who sign, and data to those who ask.
    line.prop_filter("a wildcard with NS", |line| !(line.starts_with('*') && line.contains("NS x")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn nsec3_records_prove_what_a_random_zone_answers(
        lines in prop::collection::vec(line(), 0..7),
        opt_out in any::<bool>(),
    ) {
        let data = hashed_zone(&lines, opt_out).unwrap();
        prop_assert!(data.is_signed());
        let mut names: BTreeSet<Name> = ["z.", "b.a.z.", "q.a.b.z."].map(name).into();
        for line in &lines {
            let owner = record(line).owner;
            names.extend(["q.", "*."].map(|label| name(label).join(owner.view()).unwrap()));
            names.extend(owner.view().parent().map(|parent| name("q.").join(parent).unwrap()));
            names.insert(owner);
        }
        for qname in names {
            for qtype in [Type::A, Type::DS, Type::TXT] {
                let found = data.lookup(qname.view(), qtype);
                let proof = data.proof(qname.view(), &found);
                let spans = proof.iter().map(|part| {
                    let set = part.rrset().unwrap();
                    let first = set.owner().labels().next().unwrap().to_vec();
                    let mut buffer = [0; NAME_LEN_MAX];
                    let next = set.first()[7..27].first_chunk().unwrap();
                    let next = hashed_name(next, NameRef::root(), &mut buffer).unwrap().to_string();
                    (format!("{}.", String::from_utf8(first).unwrap()), next)
                });
                let spans: BTreeMap<_, _> = spans.collect();
                let params = Params::read(&[1, 0, 0, 1, 1, 0xab]).unwrap();
                let proven = is_proven(qname.view(), &found, &Verifier { params, spans });
                prop_assert!(proven, "{} {}: {:?} {:?}", qname, qtype, found, proof);
            }
        }
    }
}
