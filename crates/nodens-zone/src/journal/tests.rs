use super::*;
use nodens_wire::{Class, Name, Record, Type};

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn soa(serial: u32) -> Soa {
    let zone = name("example.org.");
    Soa::with(zone.view(), 5, (&zone, &zone), [serial, 7200, 1800, 86400, 5])
}

fn address(number: u32) -> Record {
    let owner = name(&format!("host-{number}.example.org."));
    Record { owner, rtype: Type::A, class: Class::IN, ttl: 5, rdata: number.to_be_bytes().to_vec() }
}

fn packed(numbers: impl IntoIterator<Item = u32>) -> Packed {
    let mut packed = Packed::default();
    numbers.into_iter().for_each(|number| packed.push((&address(number)).into()));
    packed
}

/// From one version to another, with these hosts gone and these new.
fn step(from: u32, to: u32, removed: &[u32], added: &[u32]) -> Arc<Step> {
    let (removed, added) = (removed.iter().copied(), added.iter().copied());
    let (removed, added) = (packed(removed), packed(added));
    Arc::new(Step { from: soa(from), to: soa(to), removed, added })
}

fn owned(record: RecordRef<'_>) -> Record {
    let RecordRef { owner, rtype, class, ttl, rdata } = record;
    Record { owner: owner.to_name(), rtype, class, ttl, rdata: rdata.to_vec() }
}

#[test]
fn packed_records_come_out_as_they_went_in() {
    let packed = packed(0..1000);
    assert_eq!((packed.len(), packed.is_empty()), (1000, false));
    assert!(packed.iter().map(owned).eq((0..1000).map(address)));
    assert_eq!(Packed::default().iter().count(), 0);
}

#[test]
fn a_sequence_has_the_order_of_the_rfc() {
    let steps = vec![step(1, 2, &[1, 2], &[]), step(2, 3, &[], &[3]), step(3, 5, &[], &[])];
    let mut cursor = Steps::new(steps);
    let mut seen = Vec::new();
    assert!(cursor.record().is_none());
    while cursor.advance() == Advance::Record {
        seen.push(owned(cursor.record().unwrap()));
    }
    let soa = |serial| soa(serial).record().clone();
    let first = [soa(1), address(1), address(2), soa(2)];
    let others = [soa(2), soa(3), address(3), soa(3), soa(5)];
    assert_eq!(seen, [&first[..], &others].concat());
    assert_eq!(cursor.advance(), Advance::End);
}

#[test]
fn the_steps_since_a_version_are_found_and_those_since_others_are_not() {
    let mut journal = Journal::new(usize::MAX);
    let steps = [step(1, 2, &[], &[1]), step(2, 4, &[1], &[]), step(4, 7, &[], &[2])];
    steps.into_iter().for_each(|step| journal.push(step));
    let serials = |since| {
        let steps = journal.since(Serial(since))?;
        Some(steps.iter().map(|step| step.to.serial().0).collect::<Vec<_>>())
    };
    assert_eq!(serials(1), Some(vec![2, 4, 7]));
    assert_eq!(serials(4), Some(vec![7]));
    assert_eq!([serials(7), serials(3), serials(0)], [None, None, None]);
}

#[test]
fn a_gap_makes_the_earlier_steps_useless() {
    let mut journal = Journal::new(usize::MAX);
    let steps = [step(1, 2, &[], &[1]), step(3, 4, &[], &[2])];
    steps.into_iter().for_each(|step| journal.push(step));
    assert_eq!(journal.since(Serial(1)), None);
    assert_eq!(journal.since(Serial(3)).map(|steps| steps.len()), Some(1));
    journal.forget();
    assert_eq!((journal.since(Serial(3)), journal.octets()), (None, 0));
}

#[test]
fn the_budget_is_kept_and_the_oldest_go_first() {
    let each = step(1, 2, &[1], &[2]).octets();
    let mut journal = Journal::new(10 * each);
    for serial in 1..100 {
        journal.push(step(serial, serial + 1, &[1], &[2]));
        assert!(journal.octets() <= 10 * each);
    }
    assert_eq!(journal.since(Serial(90)).map(|steps| steps.len()), Some(10));
    assert_eq!(journal.since(Serial(89)), None);
    // One that is too large for the budget leaves nothing.
    let many: Vec<_> = (0..1000).collect();
    journal.push(step(100, 101, &[], &many));
    assert_eq!((journal.since(Serial(100)), journal.octets()), (None, 0));
}

#[test]
fn steps_are_few_whatever_their_size() {
    let mut journal = Journal::new(usize::MAX);
    for serial in 0..crate::limits::JOURNAL_STEPS_MAX as u32 + 10 {
        journal.push(step(serial, serial + 1, &[], &[]));
    }
    assert_eq!(journal.since(Serial(9)), None);
    assert!(journal.since(Serial(10)).is_some());
}
