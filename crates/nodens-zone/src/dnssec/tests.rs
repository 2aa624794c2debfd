use super::*;
use nodens_wire::{Class, Name, NameRef, Type};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};

/// A public and a private file.
type Files = (&'static str, &'static str);

macro_rules! files {
    ($name:literal) => {
        (
            include_str!(concat!("../../testdata/dnssec/Kexample.org.+", $name, ".key")),
            include_str!(concat!("../../testdata/dnssec/Kexample.org.+", $name, ".private")),
        )
    };
}

const RSA_SHA256: Files = files!("008+47388");
const RSA_SHORT: Files = files!("008+19965");
const RSA_SHA512: Files = files!("010+59492");
const P256_KSK: Files = files!("013+31548");
const P256_ZSK: Files = files!("013+44575");
const P384: Files = files!("014+11226");
const ED: Files = files!("015+21968");

/// The example of RFC 8080 section 6.1.
const RFC_8080: Files = (
    "example.com. 3600 IN DNSKEY 257 3 15 (
         l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4= )",
    "Private-key-format: v1.2
Algorithm: 15 (ED25519)
PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=
",
);

/// The example of RFC 6605 section 6.1.
const RFC_6605: Files = (
    "; a comment

example.net. 3600 IN DNSKEY 257 3 13 (
    GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edb
    krSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA== )",
    "Private-key-format: v1.2
Algorithm: 13 (ECDSAP256SHA256)
PrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=
",
);

const VALIDITY: Validity = Validity { inception: 1_438_207_200, expiration: 1_440_021_600 };

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn key((public, private): Files) -> SigningKey {
    SigningKey::parse(public, private).unwrap()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn keys_have_the_tags_and_digests_that_others_give_them() {
    let tags = [RSA_SHA256, RSA_SHA512, P256_KSK, P256_ZSK, P384, ED].map(|files| key(files).tag());
    assert_eq!(tags, [47388, 59492, 31548, 44575, 11226, 21968]);
    assert!(key(P256_KSK).is_ksk() && !key(P256_KSK).is_zsk());
    assert!(key(P256_ZSK).is_zsk() && !key(P256_ZSK).is_ksk());
    for (files, tag, digest) in [
        (RFC_8080, 3613, "3aa5ab37efce57f737fc1627013fee07bdf241bd10f3b1964ab55c78e79a304b"),
        (RFC_6605, 55648, "b4c8c1fe2e7477127b27115656ad6256f424625bf5c1e2770ce6d6e37df61d17"),
    ] {
        let key = key(files);
        assert_eq!((key.tag(), key.ttl()), (tag, 3600));
        let ds = ds_rdata(key.owner(), key.rdata(), key.tag(), DigestType::Sha256);
        assert_eq!(ds[..4], [tag.to_be_bytes(), [key.algorithm().number(), 2]].concat());
        assert_eq!(hex(&ds[4..]), digest);
        let ds = ds_rdata(key.owner(), key.rdata(), key.tag(), DigestType::Sha1);
        assert_eq!((ds[3], ds.len()), (1, 24));
    }
}

#[test]
fn the_signature_is_that_of_the_rfc() {
    let rdata = [&[0, 10], name("mail.example.com.").as_wire()].concat();
    let mx = |owner: &str, rdata: &[u8]| {
        Canonical::new(name(owner).view(), (Type::MX, Class::IN), 3600, [rdata])
    };
    let key = key(RFC_8080);
    let rrsig = mx("example.com.", &rdata).sign(&key, key.owner(), VALIDITY).unwrap();
    let signature =
        "oL9krJun7xfBOIWcGHi7mag5/hdZrKWw15jPGrHpjQeRAvTdszaPD+QLs3fx8A4M3e23mRZ9VrbpMngwcrqNAg==";
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    assert_eq!(engine.encode(&rrsig[rrsig.len() - 64..]), signature);
    // Names in any case, in the RDATA too, and records that come twice, are the same RRset.
    let upper = rdata.to_ascii_uppercase();
    let again = Canonical::new(
        name("EXAMPLE.com.").view(),
        (Type::MX, Class::IN),
        3600,
        [upper.as_slice(), rdata.as_slice()],
    );
    assert_eq!(again.sign(&key, name("Example.COM.").view(), VALIDITY).unwrap(), rrsig);
    let digest = |rrset: &Canonical, signer: &str| rrset.digest(name(signer).view());
    assert_eq!(digest(&again, "EXAMPLE.com."), digest(&mx("example.com.", &rdata), "example.com."));
    assert_ne!(digest(&again, "com."), digest(&again, "example.com."));
    assert_ne!(digest(&again, "com."), digest(&mx("example.com.", &rdata[..7]), "com."));
}

/// Whether `rrsig` is a signature over these octets behind its head.
fn verifies(key: &SigningKey, rrsig: &[u8], records: &[u8], signer: NameRef<'_>) -> bool {
    let head = 18 + signer.as_wire().len();
    let (algorithm, public): (&'static dyn VerificationAlgorithm, _) = match key.algorithm() {
        Algorithm::Ed25519 => (&ED25519, key.rdata()[4..].to_vec()),
        Algorithm::EcdsaP256Sha256 => {
            (&ECDSA_P256_SHA256_FIXED, [&[4], &key.rdata()[4..]].concat())
        }
        Algorithm::EcdsaP384Sha384 => {
            (&ECDSA_P384_SHA384_FIXED, [&[4], &key.rdata()[4..]].concat())
        }
        // 65537 in three octets, and then the modulus; as ASN.1.
        rsa => {
            let modulus = &key.rdata()[8..];
            let integer = [&[2, 0x82, 1, 1, 0], modulus, &[2, 3, 1, 0, 1]].concat();
            let len = (integer.len() as u16).to_be_bytes();
            let public = [&[0x30, 0x82, len[0], len[1]], integer.as_slice()].concat();
            let short = rsa == Algorithm::RsaSha256;
            let algorithm: &'static dyn VerificationAlgorithm =
                if short { &RSA_PKCS1_2048_8192_SHA256 } else { &RSA_PKCS1_2048_8192_SHA512 };
            (algorithm, public)
        }
    };
    let signed = [&rrsig[..head], records].concat();
    UnparsedPublicKey::new(algorithm, public).verify(&signed, &rrsig[head..]).is_ok()
}

#[test]
fn every_algorithm_signs_so_that_its_public_key_verifies() {
    let owner = name("*.WWW.example.org.");
    let rdatas: [&[u8]; 3] = [&[192, 0, 2, 9], &[10, 0, 0, 1], &[192, 0, 2, 9]];
    let rrset = Canonical::new(owner.view(), (Type::A, Class::IN), 300, rdatas);
    let mut records = Vec::new();
    for address in [[10, 0, 0, 1], [192, 0, 2, 9]] {
        records.extend(b"\x01*\x03www\x07example\x03org\0\0\x01\0\x01\0\0\x01\x2c\0\x04");
        records.extend(address);
    }
    let lens = [256, 256, 64, 64, 96, 64];
    for (files, len) in [RSA_SHA256, RSA_SHA512, P256_KSK, P256_ZSK, P384, ED].into_iter().zip(lens)
    {
        let key = key(files);
        let rrsig = rrset.sign(&key, key.owner(), VALIDITY).unwrap();
        let head = [
            &[0, 1, key.algorithm().number(), 3, 0, 0, 1, 44],
            &VALIDITY.expiration.to_be_bytes()[..],
            &VALIDITY.inception.to_be_bytes(),
            &key.tag().to_be_bytes(),
            b"\x07example\x03org\0",
        ]
        .concat();
        assert_eq!((&rrsig[..31], rrsig.len() - 31), (&head[..], len), "{key:?}");
        assert!(verifies(&key, &rrsig, &records, key.owner()), "{key:?}");
        assert!(!verifies(&key, &rrsig, &records[1..], key.owner()), "{key:?}");
    }
}

#[test]
fn files_that_make_no_key_are_refused() {
    let (public, private) = P256_ZSK;
    let cases: &[(&str, &str, KeyError)] = &[
        ("; nothing", private, KeyError::Record(crate::presentation::PresentationError::Empty)),
        ("example.org. A 192.0.2.1", private, KeyError::NotKey(Type::A)),
        ("example.org. DNSKEY 257 2 13 AAAA", private, KeyError::Rdata),
        ("example.org. DNSKEY 0 3 13 AAAA", private, KeyError::Rdata),
        ("example.org. DNSKEY 257 3 5 AAAA", private, KeyError::Algorithm(5)),
        ("example.org. DNSKEY 257 3 13 AAAA", private, KeyError::Mismatch),
        (public, "", KeyError::Format),
        (public, "Private-key-format: v2.0\nAlgorithm: 13", KeyError::Format),
        (public, "Private-key-format: v1.3\n", KeyError::OtherAlgorithm(13)),
        (public, ED.1, KeyError::OtherAlgorithm(13)),
        (public, "Private-key-format: v1.3\nAlgorithm: 13\n", KeyError::Field("PrivateKey")),
        (
            public,
            "Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: ?",
            KeyError::Field("PrivateKey"),
        ),
        (public, P256_KSK.1, KeyError::Mismatch),
        (ED.0, RFC_8080.1, KeyError::Mismatch),
        (RSA_SHORT.0, RSA_SHORT.1, KeyError::Mismatch),
        (RSA_SHA256.0, RSA_SHORT.1, KeyError::Mismatch),
    ];
    for (public, private, wanted) in cases {
        let error = SigningKey::parse(public, private).unwrap_err();
        assert_eq!(error, *wanted, "{public} {private}");
    }
    let shown = format!("{:?}", key(ED));
    assert_eq!(shown, "SigningKey(example.org. ED25519 21968)");
}

#[test]
fn no_cut_of_a_private_file_is_a_fault() {
    for (public, private) in [RSA_SHA512, P384, ED] {
        for len in 0..private.len() {
            _ = SigningKey::parse(public, &private[..len]);
        }
        for len in 0..public.len() {
            assert!(SigningKey::parse(&public[..len], private).is_err() || len + 1 == public.len());
        }
    }
}

#[test]
fn signatures_are_valid_between_their_times() {
    let validity = Validity { inception: u32::MAX - 9, expiration: 10 };
    for (now, valid) in [(-11, false), (-10, true), (0, true), (10, true), (11, false)] {
        assert_eq!(validity.contains((1_i64 << 32).wrapping_add(now) as u64), valid, "{now}");
    }
}

/// A name of 194 octets and those of its first label.
fn long(first: &[u8]) -> Name {
    let full = [&[63], &[b'x'; 63][..]].concat().repeat(3);
    Name::from_wire(&[&[first.len() as u8], first, &full, &[0]].concat()).unwrap()
}

#[test]
fn successors_come_behind_a_name_or_all_below_it() {
    let cases = [
        (name("."), Some(name("\\000.")), None),
        (name("Www.example."), Some(name("\\000.www.example.")), Some(name("www\\000.example."))),
        // Of 254 octets: there is no room for another label.
        (long(&[b'a'; 60]), Some(long(&[&[b'a'; 60][..], &[0]].concat())), None),
        // Of 255.
        (long(&[b'a'; 61]), Some(long(&[&[b'a'; 60][..], b"b"].concat())), None),
        (long(&[b'@'; 61]), Some(long(&[&[b'@'; 60][..], b"["].concat())), None),
        (
            long(&[&[b'a'; 60][..], &[255]].concat()),
            Some(long(&[&[b'a'; 59][..], b"b"].concat())),
            None,
        ),
        (long(&[255; 61]), None, None),
    ];
    for (name, first, behind) in cases {
        let found = successor(name.view(), false);
        assert!(found.iter().all(|found| *found > name), "{name}");
        assert_eq!(found, first, "{name}");
        assert!(behind.is_none() || successor(name.view(), true) == behind, "{name}");
    }
}

#[test]
fn nsec_records_have_a_map_of_types() {
    let next = name("b.");
    let rdata = nsec_rdata(next.view(), [Type::NSEC, Type::A, Type::RRSIG, Type::CAA]);
    assert_eq!(rdata, b"\x01b\0\x00\x06\x40\0\0\0\0\x03\x01\x01\x40");
    assert_eq!(nsec_rdata(next.view(), []), b"\x01b\0");
}
