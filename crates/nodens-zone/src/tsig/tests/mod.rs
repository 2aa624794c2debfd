//! The rules of RFC 8945, one by one.

mod key_files;
mod vectors;

use super::*;
use nodens_wire::{Builder, Class, Flags, Message, Name, Rcode, Record, Section, Type};
use proptest::prelude::*;
use vectors::{BADTIME, MACS, SECRET};

/// When the query is signed.
const TIME: u64 = 1_700_000_000;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn key_of(algorithm: Option<&str>) -> Key {
    let policy = algorithm.map(|text| text.parse().unwrap());
    Key::new(name("Key.Example.").view(), SECRET, policy).unwrap()
}

fn keys(key: &Key) -> Keys {
    let mut keys = Keys::default();
    keys.add(key.clone()).unwrap();
    keys
}

fn message(flags: u16, with_question: bool, last: Option<u8>) -> Vec<u8> {
    let (mut out, owner) = (Vec::new(), name("example.org."));
    let mut builder = Builder::new(&mut out, 0x1234, Flags(flags));
    if with_question {
        builder.question(owner.view(), Type::AXFR, Class::IN);
    }
    if let Some(last) = last {
        // Written by hand, for the vectors have no compressed names.
        let rdata = vec![192, 0, 2, last];
        let record = Record { owner, rtype: Type::A, class: Class::IN, ttl: 60, rdata };
        if with_question {
            out.extend(record.owner.as_wire());
            out.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            out.extend(record.rdata);
            out[7] = 1;
        } else {
            builder.push(Section::Answer, &record).unwrap();
        }
    }
    out
}

fn query() -> Vec<u8> {
    message(0, true, None)
}

/// The three messages of the vectors' response.
fn response() -> [Vec<u8>; 3] {
    [
        message(0x8400, true, Some(1)),
        message(0x8400, false, Some(2)),
        message(0x8400, false, Some(3)),
    ]
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn mac(message: &[u8]) -> String {
    hex(Signature::find(message).unwrap().unwrap().mac)
}

/// What a server makes of `query` `later` seconds after it was signed.
fn checked(key: &Key, query: &[u8], later: u64) -> Check {
    check(&keys(key), query, &Signature::find(query).unwrap().unwrap(), TIME + later)
}

fn verified(key: &Key, query: &[u8]) -> Signer {
    match checked(key, query, 0) {
        Check::Verified(signer) => signer,
        other => panic!("{other:?}"),
    }
}

fn refused(key: &Key, query: &[u8], later: u64) -> Signer {
    match checked(key, query, later) {
        Check::Refused(signer) => signer,
        other => panic!("{other:?}"),
    }
}

/// A signed query, and what verifies the response.
fn signed(key: &Key) -> (Vec<u8>, Verifier) {
    let mut query = query();
    let verifier = key.sign_query(&mut query, TIME).unwrap();
    (query, verifier)
}

/// The response with every message signed.
fn signed_response(key: &Key, query: &[u8]) -> Vec<Vec<u8>> {
    let mut signer = verified(key, query);
    let mut messages = response().to_vec();
    for (later, message) in (1..).zip(&mut messages) {
        signer.sign_next(message, TIME + later).unwrap();
    }
    messages
}

#[test]
fn macs_are_those_of_another_implementation() {
    for (algorithm, [of_query, first, second, third, _]) in MACS {
        let key = key_of(Some(algorithm));
        let (query, mut verifier) = signed(&key);
        assert_eq!(mac(&query), of_query, "{algorithm}");
        let messages = signed_response(&key, &query);
        let macs: Vec<_> = messages.iter().map(|message| mac(message)).collect();
        assert_eq!(macs, [first, second, third], "{algorithm}");
        for message in &messages {
            verifier.accept(message, TIME).unwrap();
            assert_eq!(verifier.end(), Ok(()));
        }
        let signer = verified(&key, &query);
        assert_eq!(query.len() - super::tests::query().len(), signer.record_len());
    }
}

#[test]
fn a_record_is_what_the_rfc_prescribes() {
    let (query, _) = signed(&key_of(Some("hmac-sha256")));
    let message = Message::parse(&query).unwrap();
    let [record] = message.additional.as_slice() else { panic!() };
    assert_eq!((record.rtype, record.class, record.ttl), (Type::TSIG, Class::ANY, 0));
    assert_eq!(record.owner.to_string(), "key.example.");
    let rdata = format!(
        "{}{}{}{}{}{}{}{}",
        hex(b"\x0bhmac-sha256\0"),
        "00006553f100",
        "012c",
        "0020",
        mac(&query),
        "1234",
        "0000",
        "0000"
    );
    assert_eq!(hex(&record.rdata), rdata);
}

#[test]
fn letters_of_names_count_as_lower_case_and_go_back_as_they_came() {
    let key = key_of(Some("hmac-sha256"));
    let (mut query, _) = signed(&key);
    let at = super::tests::query().len();
    query[at + 1..at + 4].copy_from_slice(b"KEY");
    let algorithm = at + 13 + 10;
    query[algorithm + 1..algorithm + 5].copy_from_slice(b"HMAC");
    let mut signer = verified(&key, &query);
    let [mut first, ..] = response();
    signer.sign_next(&mut first, TIME + 1).unwrap();
    let signature = Signature::find(&first).unwrap().unwrap();
    assert_eq!(signature.key_name().to_string(), "KEY.example.");
    assert_eq!(mac(&first), MACS[3].1[1]);
}

#[test]
fn the_id_may_change_on_the_way() {
    let key = key_of(None);
    let (mut query, mut verifier) = signed(&key);
    nodens_wire::header::set_id(&mut query, 0x4321);
    let mut signer = verified(&key, &query);
    let [mut first, ..] = response();
    nodens_wire::header::set_id(&mut first, 0x4321);
    signer.sign_next(&mut first, TIME).unwrap();
    nodens_wire::header::set_id(&mut first, 0x1234);
    assert_eq!(verifier.accept(&first, TIME), Ok(()));
}

#[test]
fn unknown_keys_and_algorithms_are_badkey_without_a_mac() {
    let key = key_of(Some("hmac-sha256"));
    let other = Key::new(name("other.example.").view(), SECRET, None).unwrap();
    for (theirs, ours) in [
        (&key, &other),
        (&key_of(Some("hmac-sha512")), &key),
        // Without a policy every algorithm but this.
        (&key_of(Some("hmac-md5")), &key_of(None)),
    ] {
        let (query, mut verifier) = signed(theirs);
        let mut signer = refused(ours, &query, 0);
        assert_eq!(signer.error(), ErrorCode::BADKEY);
        assert!(!signer.is_verified());
        let mut response = message(0x8009, true, None);
        signer.sign_next(&mut response, TIME).unwrap();
        let signature = Signature::find(&response).unwrap().unwrap();
        assert_eq!((signature.mac.len(), signature.variables.error), (0, ErrorCode::BADKEY));
        assert_eq!((signature.variables.other.len(), signature.variables.time_s), (0, TIME));
        let fault = verifier.accept(&response, TIME);
        assert_eq!(fault, Err(Fault::Refused(ErrorCode::BADKEY)));
    }
    for algorithm in ["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"] {
        let (query, _) = signed(&key_of(Some(algorithm)));
        verified(&key_of(None), &query);
    }
}

#[test]
fn every_changed_octet_is_badsig_or_worse() {
    let key = key_of(Some("hmac-sha256"));
    let (query, _) = signed(&key);
    let original_id = query.len() - 6..query.len() - 4;
    for at in 0..query.len() {
        let mut changed = query.clone();
        changed[at] ^= 1;
        let Ok(Some(signature)) = Signature::find(&changed) else { continue };
        match check(&keys(&key), &changed, &signature, TIME) {
            // The ID is not signed: it may change on the way.
            Check::Verified(_) => assert!(at < 2, "{at}"),
            Check::Refused(signer) => {
                let expected = [ErrorCode::BADSIG, ErrorCode::BADKEY];
                assert!(expected.contains(&signer.error()), "{at}");
                assert!(!original_id.contains(&at) || signer.error() == ErrorCode::BADSIG);
            }
            Check::Malformed => {}
        }
    }
    let other = Key::new(key.name(), b"another secret", Some(Algorithm::Sha256.into())).unwrap();
    let mut signer = refused(&other, &query, 0);
    assert_eq!(signer.error(), ErrorCode::BADSIG);
    let mut response = message(0x8009, true, None);
    signer.sign_next(&mut response, TIME).unwrap();
    assert_eq!(mac(&response), "");
}

#[test]
fn badtime_is_signed_and_has_both_times() {
    let key = key_of(Some("hmac-sha256"));
    let (query, mut verifier) = signed(&key);
    assert!(matches!(checked(&key, &query, 300), Check::Verified(_)));
    let mut signer = refused(&key, &query, 301);
    assert_eq!(signer.error(), ErrorCode::BADTIME);
    let mut response = message(0x8009, true, None);
    let len = response.len() + signer.record_len();
    signer.sign_next(&mut response, TIME + 301).unwrap();
    assert_eq!((mac(&response).as_str(), response.len()), (BADTIME, len));
    let signature = Signature::find(&response).unwrap().unwrap();
    assert_eq!(signature.variables.time_s, TIME);
    assert_eq!(hex(signature.variables.other), "00006553f22d");
    let fault = verifier.accept(&response, TIME);
    assert_eq!(fault, Err(Fault::OtherClock { server_s: TIME + 301, own_s: TIME }));
    // A clock that is behind differs as much as one that is ahead; a wrong MAC counts before the time.
    let late = check(&keys(&key), &query, &Signature::find(&query).unwrap().unwrap(), TIME - 301);
    assert!(matches!(late, Check::Refused(signer) if signer.error() == ErrorCode::BADTIME));
    let other = Key::new(key.name(), b"another secret", None).unwrap();
    assert_eq!(refused(&other, &query, 301).error(), ErrorCode::BADSIG);
}

#[test]
fn macs_are_cut_as_far_as_the_policy_allows() {
    let short = key_of(Some("hmac-sha256-128"));
    let (query, mut verifier) = signed(&short);
    // The response to a query with a short MAC has a short one.
    let mut signer = verified(&short, &query);
    let [mut first, ..] = response();
    signer.sign_next(&mut first, TIME).unwrap();
    assert_eq!(mac(&first).len(), 32);
    assert_eq!(verifier.accept(&first, TIME), Ok(()));
    // A whole one is accepted too.
    let (whole, _) = signed(&key_of(Some("hmac-sha256")));
    verified(&short, &whole);
    for strict in [key_of(Some("hmac-sha256")), key_of(None)] {
        let mut signer = refused(&strict, &query, 0);
        assert_eq!(signer.error(), ErrorCode::BADTRUNC);
        let mut response = message(0x8009, true, None);
        signer.sign_next(&mut response, TIME).unwrap();
        assert_eq!(mac(&response).len(), 64);
    }
    // The time counts before the length.
    assert_eq!(refused(&key_of(None), &query, 301).error(), ErrorCode::BADTIME);
}

/// `query` with a MAC of `len` octets, the first of its own.
fn with_mac_len(query: &[u8], len: usize) -> Vec<u8> {
    let signature = Signature::find(query).unwrap().unwrap();
    let at = signature.start + 13 + 10 + signature.algorithm.len() + 8;
    let rdata_len = (signature.algorithm.len() + 16 + len) as u16;
    let mut mac = signature.mac.to_vec();
    mac.resize(len, 0);
    let mut out = query[..at].to_vec();
    out.extend((len as u16).to_be_bytes());
    out.extend(mac);
    out.extend(&query[query.len() - 6..]);
    let rdlength = signature.start + 13 + 8;
    out[rdlength..rdlength + 2].copy_from_slice(&rdata_len.to_be_bytes());
    out
}

#[test]
fn macs_of_impossible_lengths_are_malformed() {
    for (algorithm, least, most) in [
        ("hmac-md5", 10, 16),
        ("hmac-sha1", 10, 20),
        ("hmac-sha256", 16, 32),
        ("hmac-sha512", 32, 64),
    ] {
        let key = key_of(Some(algorithm));
        let (query, _) = signed(&key);
        for len in 0..80 {
            let found = checked(&key, &with_mac_len(&query, len), 0);
            let fits = (least..=most).contains(&len);
            assert_eq!(!matches!(found, Check::Malformed), fits, "{algorithm} {len}");
        }
    }
}

#[test]
fn registered_names_of_short_macs_are_known() {
    let key = key_of(Some("hmac-sha256-128"));
    let (query, _) = signed(&key);
    // Made by hand: such a name is received, and never sent first.
    let start = Signature::find(&query).unwrap().unwrap().start;
    let mut renamed = query[..start + 13 + 10].to_vec();
    renamed.extend(b"\x0fhmac-sha256-128\0");
    renamed.extend(&query[start + 13 + 10 + 13..]);
    renamed[start + 13 + 9] += 4;
    // The name is signed too.
    assert_eq!(refused(&key, &renamed, 0).error(), ErrorCode::BADSIG);
    assert!(matches!(checked(&key, &with_mac_len(&renamed, 17), 0), Check::Malformed));
}

#[test]
fn a_misplaced_or_malformed_record_is_said_to_be_so() {
    let (query, _) = signed(&key_of(None));
    assert!(Signature::find(&super::tests::query()).unwrap().is_none());
    let start = Signature::find(&query).unwrap().unwrap().start;
    let record = query[start..].to_vec();
    let with = |counts: [u8; 3], records: &[&[u8]]| {
        let mut out = super::tests::query();
        [out[7], out[9], out[11]] = counts;
        records.iter().for_each(|record| out.extend(*record));
        Signature::find(&out).map(|found| found.is_some())
    };
    let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00".as_slice();
    assert_eq!(with([0, 0, 1], &[&record]), Ok(true));
    assert_eq!(with([0, 0, 2], &[opt, &record]), Ok(true));
    for (counts, records) in [
        ([0, 0, 2], [&record[..], opt]),
        ([0, 0, 2], [&record, &record]),
        ([1, 0, 0], [&record, b""]),
        ([0, 1, 0], [&record, b""]),
        // Octets behind it, which no MAC covers.
        ([0, 0, 1], [&record, b"\0"]),
    ] {
        assert_eq!(with(counts, &records), Err(Malformed), "{counts:?}");
    }
    let altered = |at: usize, octet: u8| {
        let mut record = record.clone();
        record[at] = octet;
        with([0, 0, 1], &[&record])
    };
    // CLASS, TTL, a compressed algorithm, the lengths of the MAC and of other data.
    for (at, octet) in [(16, 1), (20, 1), (23, 0xc0), (45, 31), (45, 33), (record.len() - 1, 1)] {
        assert_eq!(altered(at, octet), Err(Malformed), "{at}");
    }
    for len in start + 1..query.len() {
        assert!(Signature::find(&query[..len]).is_err(), "{len}");
    }
}

#[test]
fn messages_without_a_record_are_verified_with_the_next_that_has_one() {
    for (algorithm, [.., of_third]) in MACS {
        let key = key_of(Some(algorithm));
        let (query, mut verifier) = signed(&key);
        let [first, _, _] = signed_response(&key, &query).try_into().unwrap();
        let [_, second, third] = response();
        verifier.accept(&first, TIME).unwrap();
        verifier.accept(&second, TIME).unwrap();
        assert_eq!(verifier.end(), Err(Fault::Unsigned));
        let signature = Signature::find(&query).unwrap().unwrap();
        let octets = |at: usize| u8::from_str_radix(&of_third[at..at + 2], 16).unwrap();
        let mac: Vec<u8> = (0..of_third.len()).step_by(2).map(octets).collect();
        let mut signed = third;
        let variables = record::Variables { time_s: TIME + 3, ..signature.variables };
        let draft = record::Draft {
            key: signature.key.view(),
            algorithm: signature.algorithm,
            variables,
            mac: &mac,
            original_id: 0x1234,
        };
        draft.append(&mut signed).unwrap();
        assert_eq!(verifier.accept(&signed, TIME), Ok(()), "{algorithm}");
        assert_eq!(verifier.end(), Ok(()));
    }
}

#[test]
fn a_hundredth_message_without_a_record_is_one_too_many() {
    let key = key_of(None);
    let (query, mut verifier) = signed(&key);
    let [unsigned, ..] = response();
    assert_eq!(verifier.accept(&unsigned, TIME), Err(Fault::Unsigned));
    assert_eq!(verifier.end(), Err(Fault::Unsigned));
    let messages = signed_response(&key, &query);
    verifier.accept(&messages[0], TIME).unwrap();
    for _ in 0..99 {
        verifier.accept(&unsigned, TIME).unwrap();
    }
    assert_eq!(verifier.accept(&unsigned, TIME), Err(Fault::TooManyUnsigned));
}

#[test]
fn what_is_changed_in_a_stream_does_not_verify() {
    let key = key_of(None);
    let (query, _) = signed(&key);
    let messages = signed_response(&key, &query);
    let verify = |messages: &[&[u8]], time_s: u64| {
        let (_, mut verifier) = signed(&key);
        messages.iter().try_for_each(|message| verifier.accept(message, time_s))
    };
    let [first, second, third] = [0, 1, 2].map(|at| messages[at].as_slice());
    assert_eq!(verify(&[first, second, third], TIME), Ok(()));
    for stream in [&[first, third][..], &[second], &[first, third, second], &[first, first]] {
        assert_eq!(verify(stream, TIME), Err(Fault::BadSignature));
    }
    let (signed_s, fudge_s) = (TIME + 1, FUDGE_S);
    assert_eq!(verify(&[first], TIME + 302), Err(Fault::BadTime { signed_s, fudge_s }));
    // Each message has its own time.
    let signed_s = TIME + 2;
    let (_, mut verifier) = signed(&key);
    verifier.accept(first, TIME).unwrap();
    let fault = Fault::BadTime { signed_s, fudge_s };
    assert_eq!(verifier.accept(second, TIME + 303), Err(fault));
    let (_, mut other) = signed(&Key::new(name("other.").view(), SECRET, None).unwrap());
    assert_eq!(other.accept(first, TIME), Err(Fault::OtherKey));
    let (_, mut other) = signed(&key_of(Some("hmac-sha1")));
    assert_eq!(other.accept(first, TIME), Err(Fault::OtherKey));
}

#[test]
fn a_message_without_room_stays_as_it_is() {
    let key = key_of(None);
    let (query, _) = signed(&key);
    let mut signer = verified(&key, &query);
    let mut long = message(0x8400, true, None);
    long.resize(65_536 - signer.record_len(), 0);
    let before = long.clone();
    assert_eq!(signer.sign_next(&mut long, TIME), Err(TooLong));
    assert_eq!(long, before);
    long.pop();
    assert_eq!(signer.sign_next(&mut long, TIME), Ok(()));
    assert_eq!(long.len(), 65_535);
    assert_eq!(signer.sign_next(&mut vec![0; 11], TIME), Err(TooLong));
}

#[test]
fn algorithms_are_named_as_operators_do() {
    let policy = |text: &str| text.parse::<Policy>().ok().map(|own| (own.algorithm, own.mac_len));
    for (text, expected) in [
        ("hmac-sha256", Some((Algorithm::Sha256, 32))),
        ("HMAC-SHA512.", Some((Algorithm::Sha512, 64))),
        ("hmac-md5.sig-alg.reg.int.", Some((Algorithm::Md5, 16))),
        ("hmac-sha1-80", Some((Algorithm::Sha1, 10))),
        ("hmac-sha512-512", Some((Algorithm::Sha512, 64))),
        ("hmac-sha512-248", None),
        ("hmac-sha256-129", None),
        ("hmac-sha256-264", None),
        ("hmac-sha256-", None),
        ("hmac-sha3", None),
        ("gss-tsig", None),
        ("", None),
    ] {
        assert_eq!(policy(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_key_is_named_and_secrets_are_not() {
    for (key, part) in [
        (Key::parse("a..b", "c2VjcmV0", None), "the name of key \"a..b\" is invalid"),
        (Key::parse("a", "c2Vjc.mV0", None), "the secret of key \"a\" is not base64"),
        (Key::parse("a", "", None), "the secret of key \"a.\" is not base64"),
        (Key::parse("a", "c2VjcmV0", Some("rot13")), "\"rot13\" is not an algorithm"),
    ] {
        let error = key.unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("c2V"), "{error}");
    }
    let key = Key::parse("A.", "c2VjcmV0cw==", Some("hmac-sha1")).unwrap();
    assert_eq!(format!("{key:?}"), "Key(a. hmac-sha1)");
    let mut keys = keys(&key);
    assert!(keys.add(key).is_err());
    assert_eq!((keys.len(), keys.is_empty()), (1, false));
}

#[test]
fn an_error_of_the_server_without_a_signature_is_not_believed() {
    let (_, mut verifier) = signed(&key_of(None));
    let refused = message(0x8000 | Rcode::REFUSED.0, true, None);
    assert_eq!(verifier.accept(&refused, TIME), Err(Fault::Unsigned));
}

proptest! {
    #[test]
    fn any_octets_are_verified_or_refused(octets: Vec<u8>, time_s: u64) {
        if let Ok(Some(signature)) = Signature::find(&octets) {
            _ = check(&keys(&key_of(None)), &octets, &signature, time_s);
        }
        let (_, mut verifier) = signed(&key_of(None));
        prop_assert!(verifier.accept(&octets, time_s).is_err());
        let mut octets = octets;
        _ = key_of(None).sign_query(&mut octets, time_s);
    }

    #[test]
    fn what_is_signed_verifies(secret in prop::collection::vec(any::<u8>(), 1..200), time_s in 0_u64..1 << 48) {
        let key = Key::new(name("k.").view(), &secret, None).unwrap();
        let mut signed = query();
        key.sign_query(&mut signed, time_s).unwrap();
        let signature = Signature::find(&signed).unwrap().unwrap();
        let verdict = check(&keys(&key), &signed, &signature, time_s);
        prop_assert!(matches!(verdict, Check::Verified(_)));
    }
}
