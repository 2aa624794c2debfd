//! Versions made of records in their order beside the same made by an [`Edit`].

use super::model::{Line, build, cases, line, to_record};
use super::*;
use crate::limits::{NODE_LEN_MAX, TTL_MAX};
use crate::zone::{Advance, RecordRef};
use proptest::prelude::*;

/// All records, in the order in which a zone is stored.
fn stored(data: &Data) -> Vec<Record> {
    let mut all = vec![data.soa().record().clone()];
    let mut cursor = data.cursor();
    loop {
        match cursor.advance() {
            Advance::Record => {
                let RecordRef { owner, rtype, class, ttl, rdata } = cursor.record().unwrap();
                let rdata = rdata.to_vec();
                all.push(Record { owner: owner.to_name(), rtype, class, ttl, rdata });
            }
            Advance::Nothing => {}
            Advance::End => return all,
        }
    }
}

/// What both ways make of the same records in the same order, in every detail.
fn both(records: &[Record]) -> [Result<String, String>; 2] {
    both_of(&name("z."), records)
}

fn both_of(origin: &Name, records: &[Record]) -> [Result<String, String>; 2] {
    let mut edit = Edit::new(origin.view(), Class::IN);
    let mut ordered = Ordered::new(origin.view(), Class::IN, None);
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for record in records {
        one.push(edit.add(record.into()));
        other.push(ordered.add(record.into()));
    }
    [(one, edit.finish()), (other, ordered.finish())].map(|(added, made)| match made {
        Ok(data) => {
            let Data { names, hashed, apex, records, count, signed, .. } = &data;
            let (names, hashed) = (names.shape(), hashed.shape());
            let rest = (apex.octets(), records, count, signed);
            Ok(format!("{added:?} {rest:?} {names} {hashed}"))
        }
        Err(error) => Err(error.to_string()),
    })
}

/// Records of names, and of one that is not among those that can be asked for.
const OF_NAMES: [&str; 4] = [
    "a A 192.0.2.1",
    "a NS x.",
    "a DNAME x.",
    "a NSEC3 1 0 0 - 0p9mhaveqvm6t7vbl5lop2u3t2rp3tom A",
];

fn label() -> impl Strategy<Value = Vec<u8>> {
    let often = prop::sample::select(vec![b'*', b'a', b'A', 0, 255]);
    prop::collection::vec(prop_oneof![any::<u8>(), often], 1..4)
}

/// Whether no name had to be searched for.
fn stay_in_order(origin: &Name, records: &[Record]) -> bool {
    let mut ordered = Ordered::new(origin.view(), Class::IN, None);
    records.iter().for_each(|record| _ = ordered.add(record.into()).unwrap());
    ordered.is_in_order()
}

fn same(records: &[Record]) {
    let [edit, ordered] = both(records);
    assert_eq!(edit, ordered);
}

fn lines(lines: &[&str]) -> Vec<Record> {
    let soa = "@ SOA ns.z. host.z. 1 2 3 4 300";
    [soa].iter().chain(lines).map(|line| record(line)).collect()
}

proptest! {
    #![proptest_config(cases(1))]

    #[test]
    fn records_in_their_order_make_the_same_zone(
        lines in prop::collection::btree_set(line(), 0..24),
    ) {
        let records = stored(&build(&lines));
        let [edit, ordered] = both(&records);
        prop_assert!(edit.is_ok());
        prop_assert_eq!(edit, ordered);
        prop_assert!(stay_in_order(&name("z."), &records));
    }

    /// In the root zone, where labels may have any octets.
    #[test]
    fn records_of_the_root_zone_make_the_same_zone(
        names in prop::collection::vec(
            (prop::collection::vec(label(), 0..5), prop::sample::select(OF_NAMES.to_vec())),
            0..24,
        ),
        is_stored in any::<bool>(),
    ) {
        let root = Name::root();
        let mut records = lines(&[]);
        records[0].owner = root.clone();
        records.extend(names.iter().map(|(labels, line)| {
            let labels = labels.iter().flat_map(|label| [&[label.len() as u8], &label[..]].concat());
            let wire: Vec<u8> = labels.chain([0]).collect();
            Record { owner: Name::from_wire(&wire).unwrap(), ..record(line) }
        }));
        if is_stored {
            let mut edit = Edit::new(root.view(), Class::IN);
            records.iter().for_each(|record| _ = edit.add(record.into()).unwrap());
            records = stored(&edit.finish().unwrap());
            prop_assert!(stay_in_order(&root, &records));
        }
        let [edit, ordered] = both_of(&root, &records);
        prop_assert!(edit.is_ok());
        prop_assert_eq!(edit, ordered);
    }

    #[test]
    fn records_in_any_order_make_the_same_zone(
        lines in prop::collection::btree_set(line(), 0..24),
        more in prop::collection::vec((any::<prop::sample::Index>(), line()), 1..4),
    ) {
        let mut records = stored(&build(&lines));
        for (at, line) in &more {
            let at = at.index(records.len() + 1);
            records.insert(at, to_record(line as &Line));
        }
        let [edit, ordered] = both(&records);
        prop_assert_eq!(edit, ordered);
    }
}

#[test]
fn names_above_exist_and_wildcards_are_known() {
    same(&lines(&["a.b.c.d A 192.0.2.1", "*.b.c.d A 192.0.2.1", "e A 192.0.2.1"]));
    same(&lines(&["*.b.c.d A 192.0.2.1", "x.*.b.c.d A 192.0.2.1", "x.*.y.*.c.d A 192.0.2.1"]));
    same(&lines(&["* A 192.0.2.1", "a.* A 192.0.2.1", "a.b A 192.0.2.1", "c.a.b A 192.0.2.1"]));
}

#[test]
fn hashed_names_are_kept_apart() {
    let hash = "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom";
    let (one, other) =
        (format!("{hash} NSEC3 1 0 0 - {hash} A"), "1p9mhaveqvm6t7vbl5lop2u3t2rp3tom");
    let sig = "8 2 5 20300101000000 20200101000000 1 z. AAAA";
    let lines_of = [
        "@ NS ns.z.",
        "@ NSEC3PARAM 1 0 0 -",
        "a A 192.0.2.1",
        &format!("a RRSIG A {sig}"),
        &one,
        &format!("{hash} RRSIG NSEC3 {sig}"),
        &format!("{other} NSEC3 1 0 0 - {hash} A"),
        &format!("{other} RRSIG NSEC3 {sig}"),
    ];
    same(&lines(&lines_of));
    // In the names that can be asked for, too, and in another order.
    same(&lines(&[&one, &format!("{hash} A 192.0.2.1"), "b A 192.0.2.1"]));
}

#[test]
fn records_that_are_there_and_other_times_count_once() {
    same(&lines(&["a 5 A 192.0.2.1", "a 5 A 192.0.2.1", "a 4 A 192.0.2.2", "a 6 A 192.0.2.1"]));
    same(&lines(&["a 5 TXT b", "a 5 A 192.0.2.1", "a 5 TXT c", "A 5 TXT d", "a 5 AAAA ::1"]));
    same(&lines(&["@ SOA ns.z. host.z. 2 2 3 4 300", "a A 192.0.2.1"]));
    same(&lines(&["@ SOA ns.z. host.z. 1 2 3 4 300", "@ NS a."]));
    let mut late = lines(&["a A 192.0.2.1"]);
    late[1].ttl = TTL_MAX + 1;
    same(&late);
    late.reverse();
    same(&late);
}

#[test]
fn the_origin_is_spelt_as_its_record_is() {
    let mut records = lines(&["@ NS ns.z.", "a A 192.0.2.1"]);
    records[0].owner = name("Z.");
    same(&records);
    same(&records[1..]);
    assert_eq!(both(&records[1..])[1], Err(Incomplete::NoSoa.to_string()));
}

#[test]
fn what_cannot_be_in_the_zone_is_refused_and_the_others_stay() {
    let mut records = lines(&[
        "a A 192.0.2.1",
        "a.y. A 192.0.2.1",
        "a A 192.0.2.2",
        "b A 192.0.2.1",
        "c A 192.0.2.1",
    ]);
    records[4].rtype = Type::ANY;
    same(&records);
    let long = vec![0; 60_000];
    let many = |rtype| Record { rtype, rdata: long.clone(), ..record("a A 192.0.2.1") };
    let mut records = lines(&[]);
    records.extend((65_280..65_290).map(|number| many(Type(number))));
    records.push(many(Type(65_280)));
    records.push(record("b A 192.0.2.1"));
    assert!(10 * long.len() > NODE_LEN_MAX);
    same(&records);
    // The only record of a name, and of one between others.
    let mut records = lines(&["a A 192.0.2.1", "b.a A 192.0.2.1", "c A 192.0.2.1"]);
    records[2].rtype = Type(65_280);
    records[2].rdata = vec![0; 65_535];
    same(&records);
    records[0].rdata = vec![0; 65_535];
    same(&records);
}
