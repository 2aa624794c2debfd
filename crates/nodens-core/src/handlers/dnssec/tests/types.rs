//! Which types a name is said to have that is denied one of them.

use super::*;

#[test]
fn a_denial_says_that_a_name_has_a_dname_record() {
    let folder = TempDir::new().unwrap();
    let zone = format!("{ZONE}d DNAME www\nto CNAME d\n*.any DNAME www\n");
    fs::write(folder.path().join("db"), zone).unwrap();
    let mut bench = Bench::new(&corefile(folder.path(), &format!("key file {ED}")));
    for (question, has_dname) in [
        ("d.example.org. TXT", true),
        ("to.example.org. TXT", true),
        ("x.any.example.org. TXT", true),
        ("any.example.org. TXT", false),
        ("www.example.org. DNAME", false),
    ] {
        let answer = bench.ask(&format!("{question} +do"));
        let (_, _, types) = nsec(&answer.authority);
        assert_eq!(types.contains(&Type::DNAME), has_dname, "{question} {types:?}");
    }
}

#[test]
fn a_denial_of_one_type_denies_no_other_that_a_name_may_have() {
    const DSYNC: Type = Type(66);
    const UNASSIGNED: [Type; 2] = [Type(120), Type(271)];
    const PRIVATE: [Type; 2] = [Type(65_280), Type(65_534)];
    let mut bench = bench(&[ED]);
    // RFC 9615 has CDS records below names of servers, RFC 9859 has DSYNC records.
    let rare = [Type::CDS, Type::CDNSKEY, DSYNC, Type::NULL, Type::TA];
    let rare: Vec<Type> = rare.into_iter().chain(UNASSIGNED).chain(PRIVATE).collect();
    for (question, lacking) in [("www", Type::TXT), ("www", DSYNC), ("www", PRIVATE[0])] {
        let answer = bench.ask(&format!("{question}.example.org. TYPE{} +do", lacking.0));
        let (_, _, types) = nsec(&answer.authority);
        for rtype in rare.iter().filter(|rtype| **rtype != lacking) {
            assert!(types.contains(rtype), "{lacking} {rtype} {types:?}");
        }
        assert!(!types.contains(&lacking), "{lacking} {types:?}");
        // Nor is a name said to have what stands in questions alone.
        assert!(!types.iter().any(|rtype| matches!(rtype.0, 41 | 128..=255 | 65_535)), "{types:?}");
    }
}

#[test]
fn what_the_apex_lacks_is_signed_once_for_each_type() {
    let mut bench = bench(&[ED]);
    let types: Vec<u16> = (3..400).chain([32769]).filter(|rtype| !(249..256).contains(rtype)).collect();
    let mut ask = |rounds| {
        for rtype in (0..rounds).flat_map(|_| &types) {
            bench.ask(&format!("example.org. TYPE{rtype} +do"));
        }
        counts(&bench)
    };
    let [entries, _, misses] = ask(1);
    // One for each type up to 271 and TA and DLV, and one for all others.
    assert!((132..=140).contains(&misses) && entries == misses, "{entries} {misses}");
    let [_, hits, again] = ask(2);
    assert!(again == misses && hits > 1000, "{hits} {again}");
}
