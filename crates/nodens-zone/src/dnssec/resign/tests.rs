use super::*;
use crate::dnssec::{SigningKey, Sweep, is_made};
use crate::zone::Advance;
use crate::{Serial, Soa};
use nodens_wire::Class;
use proptest::prelude::*;

/// One whose signatures are the same for the same octets.
const KEY: [&str; 2] = [
    include_str!("../../../testdata/dnssec/Kexample.org.+015+21968.key"),
    include_str!("../../../testdata/dnssec/Kexample.org.+015+21968.private"),
];
const NOW_S: u64 = 1_800_000_000;
const DAY_S: u64 = 24 * 3600;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn signer(denial: Denial) -> Signer {
    Signer::new(vec![SigningKey::parse(KEY[0], KEY[1]).unwrap()], denial)
}

fn soa(serial: u32, minimum: u32) -> Soa {
    let zone = name("example.org.");
    Soa::with(zone.view(), 60, (&zone, &zone), [serial, 7200, 1800, 86400, minimum])
}

fn zone() -> Data {
    let origin = name("example.org.");
    let mut edit = Edit::new(origin.view(), Class::IN);
    edit.add(soa(1, 30).record().into()).unwrap();
    add(&mut edit, "example.org.", Type::NS, 1);
    edit.finish().unwrap()
}

/// RDATA of a type, one of a few.
fn rdata(rtype: Type, which: u8) -> Vec<u8> {
    match rtype {
        Type::A => vec![192, 0, 2, which],
        Type::DS => vec![0, which, 13, 2, 1, 2, 3, 4],
        Type::TXT => vec![1, b'a' + which],
        _ => name(&format!("n{which}.example.net.")).view().as_wire().to_vec(),
    }
}

fn add(edit: &mut Edit, owner: &str, rtype: Type, which: u8) {
    let owner = name(owner);
    let rdata = rdata(rtype, which);
    let record = RecordRef { owner: owner.view(), rtype, class: Class::IN, ttl: 60, rdata: &rdata };
    edit.add(record).unwrap();
}

#[derive(Clone, Debug)]
struct Change {
    owner: String,
    rtype: Type,
    which: u8,
    adds: bool,
    /// All records of the name.
    all: bool,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let label = prop_oneof![Just("a"), Just("b"), Just("c"), Just("*")];
    let owner =
        prop::collection::vec(label, 1..4).prop_map(|labels| labels.join(".") + ".example.org.");
    let types = [Type::A, Type::A, Type::TXT, Type::NS, Type::DS, Type::DNAME];
    let rtype = prop::sample::select(types.to_vec());
    let change = (owner, rtype, 0..3_u8, any::<bool>(), prop::bool::weighted(0.2));
    let change = change.prop_map(|(owner, rtype, which, adds, all)| Change {
        owner,
        rtype,
        which,
        adds,
        all,
    });
    prop::collection::vec(change, 1..5)
}

fn make(edit: &mut Edit, change: &Change) {
    let Change { owner, rtype, which, adds, all } = change;
    let at = name(owner);
    if *adds {
        add(edit, owner, *rtype, *which);
    } else if *all {
        let own = edit.rrsets(at.view()).map(|set| set.rtype()).filter(|own| !is_made(*own));
        own.collect::<Vec<_>>().into_iter().for_each(|own| _ = edit.remove_rrset(at.view(), own));
    } else {
        edit.remove_rrset(at.view(), *rtype);
    }
}

/// All records, in an order of their own.
fn records(data: &Data) -> BTreeSet<String> {
    let mut cursor = data.cursor();
    let mut found = BTreeSet::from([format!("{:?}", data.soa().record())]);
    loop {
        match cursor.advance() {
            Advance::End => return found,
            Advance::Nothing => {}
            Advance::Record => _ = found.insert(format!("{:?}", cursor.record().unwrap())),
        }
    }
}

fn step(signer: &Signer, old: &Data, changes: &[Change], at_s: u64) -> Data {
    let mut edit = old.edit();
    changes.iter().for_each(|change| make(&mut edit, change));
    edit.add(soa(old.soa().serial().0 + 1, 30).record().into()).unwrap();
    signer.resign((old, edit.finish().unwrap()), &Due::default(), (at_s, 100)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What is signed bit by bit is what is signed as a whole.
    #[test]
    fn a_zone_that_changes_is_signed_as_one_that_is_signed_anew(
        steps in prop::collection::vec(changes(), 1..16),
        hashed in any::<bool>(),
    ) {
        let signer = signer(if hashed { Denial::Nsec3 } else { Denial::Nsec });
        let mut data = signer.whole(zone(), NOW_S, &|| true).unwrap().data;
        prop_assert!(signer.has_signed(&data));
        for changes in steps {
            data = step(&signer, &data, &changes, NOW_S);
            let bare = Signer::unsigned(data.clone(), &|| true).unwrap();
            let whole = signer.whole(bare, NOW_S, &|| true).unwrap().data;
            let (found, wanted) = (records(&data), records(&whole));
            let missing: Vec<_> = wanted.difference(&found).collect();
            let odd: Vec<_> = found.difference(&wanted).collect();
            prop_assert!(missing.is_empty() && odd.is_empty(), "{changes:?}: missing {missing:#?}, odd {odd:#?}");
            prop_assert_eq!(data.records(), whole.records());
        }
    }
}

#[test]
fn a_change_signs_what_has_changed_alone() {
    for denial in [Denial::Nsec, Denial::Nsec3] {
        let signer = signer(denial);
        let mut edit = zone().edit();
        (0..50)
            .for_each(|number| add(&mut edit, &format!("host-{number}.example.org."), Type::A, 1));
        let data = signer.whole(edit.finish().unwrap(), NOW_S, &|| true).unwrap().data;
        let owner = "host-7x.example.org.".to_owned();
        let change = Change { owner, rtype: Type::A, which: 2, adds: true, all: false };
        // At another time all signatures would be other ones.
        let next = step(&signer, &data, std::slice::from_ref(&change), NOW_S + 60);
        let sigs = |text: &&String| text.contains("RRSIG");
        let (before, after) = (records(&data), records(&next));
        let new: Vec<_> = after.difference(&before).filter(sigs).collect();
        // Of SOA, A, its NSEC or NSEC3 record and the one before.
        assert_eq!(new.len(), 4, "{new:#?}");
        let back = step(&signer, &next, &[Change { adds: false, ..change }], NOW_S + 120);
        let new: Vec<_> = records(&back).difference(&after).cloned().collect();
        assert_eq!(new.iter().filter(sigs).count(), 2, "{new:#?}");
        assert_eq!(back.records(), data.records());
    }
}

#[test]
fn what_hides_more_names_than_may_be_signed_at_once_is_refused() {
    let signer = signer(Denial::Nsec);
    let mut edit = zone().edit();
    (0..120).for_each(|number| add(&mut edit, &format!("h{number}.a.example.org."), Type::A, 1));
    let data = signer.whole(edit.finish().unwrap(), NOW_S, &|| true).unwrap().data;
    let mut edit = data.edit();
    add(&mut edit, "a.example.org.", Type::NS, 1);
    let new = edit.finish().unwrap();
    let resigned = |most| signer.resign((&data, new.clone()), &Due::default(), (NOW_S, most));
    assert_eq!(resigned(100).unwrap_err(), SignZoneError::TooManyNames(100));
    let hidden = resigned(200).unwrap();
    assert!(hidden.rrset(name("h7.a.example.org.").view(), Type::A).unwrap().sigs().is_none());
}

#[test]
fn signatures_are_made_anew_before_they_expire_and_not_all_at_once() {
    for denial in [Denial::Nsec, Denial::Nsec3] {
        let signer = signer(denial);
        let mut edit = zone().edit();
        (0..300)
            .for_each(|number| add(&mut edit, &format!("host-{number}.example.org."), Type::A, 1));
        let mut data = signer.whole(edit.finish().unwrap(), NOW_S, &|| true).unwrap().data;
        let mut versions = 0;
        let mut sweep = |data: &mut Data, now_s: u64| {
            let (mut sweep, mut more, mut count) = (Sweep::of(data), true, 0);
            while more {
                let due;
                (due, more) = sweep.step(now_s);
                count += due.len();
                if due.is_empty() {
                    continue;
                }
                versions += 1;
                let mut edit = data.edit();
                let serial = Serial(data.soa().serial().0 + 1);
                edit.add(soa(serial.0, 30).record().into()).unwrap();
                let next = edit.finish().unwrap();
                *data = signer.resign((data, next), &due, (now_s, 100)).unwrap();
            }
            count
        };
        assert_eq!(sweep(&mut data, NOW_S + 24 * DAY_S), 0);
        let parts: Vec<usize> =
            (0..12).map(|half| sweep(&mut data, NOW_S + 25 * DAY_S + half * DAY_S / 2)).collect();
        // All have been, over five days.
        assert!(parts.iter().skip(1).take(10).all(|part| (10..200).contains(part)), "{parts:?}");
        assert_eq!(Sweep::of(&data).step(NOW_S + 32 * DAY_S).0.len(), 0, "{denial:?}");
        let bare = Signer::unsigned(data.clone(), &|| true).unwrap();
        let whole = signer.whole(bare, NOW_S, &|| true).unwrap().data;
        assert_eq!((data.records(), versions > 10), (whole.records(), true));
        // Another minimum is another TTL of what denies.
        let mut edit = data.edit();
        edit.add(soa(900, 20).record().into()).unwrap();
        data = signer
            .resign((&data, edit.finish().unwrap()), &Due::default(), (NOW_S + 32 * DAY_S, 100))
            .unwrap();
        assert!(Sweep::of(&data).step(NOW_S + 32 * DAY_S).0.len() > 20);
    }
}
