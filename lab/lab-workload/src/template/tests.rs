use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::io;

fn load(path: &str) -> io::Result<Vec<u8>> {
    match path {
        "names.txt" => Ok(b"www A\n; comment\n# comment\n\napi.shop\nmail\xe9\n".to_vec()),
        "long.txt" => Ok(format!("a\n{}.b\n", "x".repeat(60)).into_bytes()),
        "empty.txt" => Ok(b"; nothing\n".to_vec()),
        "bad.txt" => Ok(b"good\n\na..b\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn names(text: &str, count: u64) -> Vec<String> {
    let template = Template::parse(text, load).unwrap_or_else(|error| panic!("{text}: {error}"));
    (0..count).map(|n| template.name(1, n).to_string()).collect()
}

#[test]
fn each_field_makes_what_it_says() {
    assert_eq!(names("n{seq}.example.", 3), ["n0.example.", "n1.example.", "n2.example."]);
    assert_eq!(names("{seq:98}.x", 3), ["98.x.", "99.x.", "100.x."]);
    assert_eq!(
        names("a{turn:names.txt}.x", 4),
        ["awww.x.", "aapi.shop.x.", "amail\\233.x.", "awww.x."]
    );
    assert_eq!(names("\\{a\\}\\.b.{7-7}", 1), ["{a}\\.b.7."]);
    for name in names("{rand:63}.{hex:5}.{000-255}.x", 1_000) {
        let labels: Vec<_> = name.split('.').collect();
        assert_eq!(labels[0].len(), 63);
        assert!(labels[0].bytes().all(|octet| ALPHABET.contains(&octet)), "{name}");
        assert!(labels[1].len() == 5 && labels[1].bytes().all(|octet| HEX.contains(&octet)));
        assert!(labels[2].len() == 3 && labels[2].parse::<u8>().is_ok(), "{name}");
    }
    let mut seen = HashMap::new();
    names("{choice:a,b,c}", 3_000).into_iter().for_each(|name| *seen.entry(name).or_insert(0) += 1);
    assert!(seen.len() == 3 && seen.values().all(|count| (850..1150).contains(count)), "{seen:?}");
}

#[test]
fn zipf_prefers_the_first_line_as_its_exponent_says() {
    let first =
        |text: &str| names(text, 10_000).iter().filter(|name| name.as_str() == "0.").count();
    // Harmonic number of 100: 5.187.
    assert!((1_750..2_110).contains(&first("{zipf:100}")), "{}", first("{zipf:100}"));
    assert!((60..140).contains(&first("{zipf(0):100}")));
    assert!((60..140).contains(&first("{uniform:100}")));
    assert!((5_900..6_350).contains(&first("{zipf(2):100}")), "{}", first("{zipf(2):100}"));
    assert_eq!(
        names("{zipf:names.txt}.x", 100).iter().filter(|name| *name == "www.x.").count() / 30,
        1
    );
}

#[test]
fn random_characters_are_spread_evenly() {
    let mut counts = [0_u32; 256];
    names("{rand:60}", 3_600)
        .iter()
        .for_each(|name| name.bytes().for_each(|octet| counts[usize::from(octet)] += 1));
    for octet in ALPHABET {
        let count = counts[usize::from(*octet)];
        assert!((5_600..6_400).contains(&count), "{octet}: {count}");
    }
}

#[test]
fn faults_have_a_column_and_say_what_was_expected() {
    let long = format!("{{choice:{}}}{{rand:20}}", "x".repeat(50));
    let whole = "{rand:60}.".repeat(5);
    for (text, message) in [
        ("a.{rand:8", "template, column 3: `{` without a `}` after it"),
        ("{nope}.x", "column 1: `nope` is not a template field, expected seq"),
        ("{rand:0}", "column 1: `0`, expected a length from 1 to 63"),
        ("a{rand:x}", "column 2: `x`, expected a length"),
        ("{hex:64}", "`64`, expected a length"),
        ("{9-3}", "`9-3`, expected A-B with A <= B"),
        ("{uniform:0}", "`0`, expected a count from 1"),
        ("{zipf(11):5}", "`11`, expected an exponent"),
        ("{zipf:no.txt}", "cannot read no.txt"),
        ("{zipf:empty.txt}", "empty.txt contains no name"),
        ("{zipf:bad.txt}", "bad.txt, line 3: name has an empty label"),
        ("{choice:a,,b}", "column 1: name has an empty label"),
        ("", "column 1: name has an empty label"),
        (".x", "column 1: name has an empty label"),
        ("{seq}..x", "column 6: name has an empty label"),
        ("a\\999", "column 1: name has a backslash"),
        (&long, "column 60: a label can become 70 octets long, expected at most 63"),
        ("{seq}{uniform:long.txt}", "column 6: a label can become 80 octets"),
        (&whole, "column 41: the name can become 306 octets long"),
    ] {
        let error = Template::parse(text, load).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

/// Templates that are likely to be valid, and some that are not.
fn any_template() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z.\\\\{}0-9]{0,9}",
        Just("{seq}".to_owned()),
        (0_usize..70).prop_map(|len| format!("{{rand:{len}}}")),
        Just("{uniform:names.txt}".to_owned()),
        Just("{zipf:long.txt}".to_owned()),
        Just("{choice:a.b,cc}".to_owned()),
        Just("{08-12}".to_owned()),
        Just(".".to_owned()),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn what_is_accepted_makes_a_valid_name_for_every_item(text in any_template(), seed: u64, n: u64) {
        if let Ok(template) = Template::parse(&text, load) {
            for n in [n, 0, u64::MAX].into_iter().chain(n..n.saturating_add(20)) {
                let mut buffer = NameBuffer::new();
                template.write(seed, n, &mut buffer);
                let name = Name::from_wire(buffer.finish());
                prop_assert!(name.is_ok_and(|name| !name.view().is_root()), "{} at {}", text, n);
            }
        }
    }

    #[test]
    fn any_text_is_accepted_or_refused(text: String) {
        _ = Template::parse(&text, load);
    }
}
