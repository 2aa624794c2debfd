use super::*;
use crate::transfer::{Next, Question, Transfer};
use crate::zone::{Cursor, Records as RecordCursor, Version};
use crate::{Advance, RecordRef};
use nodens_wire::{Message, Name, Record};
use proptest::prelude::*;
use std::collections::BTreeSet;

const ID: u16 = 4711;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn zone() -> Name {
    name("Example.org.")
}

fn soa(serial: u32) -> Record {
    let names = (&name("ns.example.org."), &name("root.example.org."));
    Soa::with(zone().view(), 60, names, [serial, 7200, 1800, 86400, 5]).record().clone()
}

fn record(owner: &str, rtype: Type, rdata: &[u8]) -> Record {
    Record { owner: name(owner), rtype, class: Class::IN, ttl: 60, rdata: rdata.to_vec() }
}

fn ns() -> Record {
    record("example.org.", Type::NS, name("ns.example.org.").as_wire())
}

fn host(number: u8) -> Record {
    record(&format!("h{number}.example.org."), Type::A, &[192, 0, 2, number])
}

/// A message with these records.
fn message(qtype: Type, records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    let flags = Flags(0).reply().with(Flags::AA, true);
    let mut builder = Builder::new(&mut out, ID, flags);
    builder.question(zone().view(), qtype, Class::IN);
    records.iter().for_each(|record| builder.push(Section::Answer, record).unwrap());
    out
}

/// All records, in an order of their own.
fn all(data: &Data) -> BTreeSet<String> {
    let mut cursor = data.cursor();
    let mut found = BTreeSet::new();
    loop {
        match cursor.advance() {
            Advance::Record => {
                found.extend(cursor.record().map(|record| format!("{:?}", owned_folded(record))));
            }
            Advance::Nothing => {}
            Advance::End => break,
        }
    }
    found.insert(format!("{:?}", owned_folded(data.soa().record().into())));
    found
}

fn owned_folded(record: RecordRef<'_>) -> Record {
    let RecordRef { owner, rtype, class, ttl, rdata } = record;
    Record { owner: owner.to_name().to_folded(), rtype, class, ttl, rdata: rdata.to_vec() }
}

fn set(records: &[Record]) -> BTreeSet<String> {
    records.iter().map(|record| format!("{:?}", owned_folded(record.into()))).collect()
}

fn expect(data: &Data, serial: u32, records: &[Record]) {
    let mut wanted = set(records);
    wanted.insert(format!("{:?}", owned_folded((&soa(serial)).into())));
    assert_eq!(all(data), wanted);
    assert_eq!(data.soa().serial(), Serial(serial));
}

/// A version with the NS record and these hosts.
fn base(serial: u32, hosts: &[u8]) -> Data {
    let mut records = vec![soa(serial), ns()];
    records.extend(hosts.iter().copied().map(host));
    records.push(soa(serial));
    whole(&[&records]).unwrap().0
}

/// Feeds a response to AXFR, one message for each part.
fn whole(parts: &[&[Record]]) -> Result<(Data, Counts), IncomingError> {
    let mut incoming = Incoming::axfr(zone(), ID, None);
    let parts: Vec<_> = parts.iter().map(|part| message(Type::AXFR, part)).collect();
    match feed(&mut incoming, &parts)? {
        Some(Received::Whole(data)) => Ok((data, incoming.counts())),
        other => panic!("{other:?}"),
    }
}

fn feed(incoming: &mut Incoming, messages: &[Vec<u8>]) -> Result<Option<Received>, IncomingError> {
    let mut received = None;
    for message in messages {
        received = incoming.message(message)?;
    }
    Ok(received)
}

/// Feeds a response to IXFR from `base`.
fn changed(base: &Data, parts: &[&[Record]]) -> Result<Option<Received>, IncomingError> {
    let mut incoming = Incoming::ixfr(zone(), ID, base.clone());
    let parts: Vec<_> = parts.iter().map(|part| message(Type::IXFR, part)).collect();
    feed(&mut incoming, &parts)
}

#[test]
fn a_whole_zone_in_one_message_and_record_by_record() {
    let records = [soa(7), ns(), host(1), host(2), soa(7)];
    let (data, _) = whole(&[&records]).unwrap();
    expect(&data, 7, &[ns(), host(1), host(2)]);
    let each: Vec<_> = records.chunks(1).collect();
    let (data, counts) = whole(&each).unwrap();
    expect(&data, 7, &[ns(), host(1), host(2)]);
    assert_eq!((counts.messages, counts.records), (5, 5));
}

#[test]
fn differences_lead_from_version_to_version() {
    let base = base(7, &[1, 2]);
    let sequence =
        [soa(9), soa(7), host(1), soa(8), host(3), host(4), soa(8), host(3), soa(9), soa(9)];
    let each: Vec<_> = sequence.chunks(1).collect();
    for parts in [vec![&sequence[..]], each] {
        let Some(Received::Changed(data, steps)) = changed(&base, &parts).unwrap() else {
            panic!()
        };
        expect(&data, 9, &[ns(), host(2), host(4)]);
        let [first, second] = steps.as_slice() else { panic!("{steps:?}") };
        let serials = |step: &Step| (step.from.serial().0, step.to.serial().0);
        assert_eq!((serials(first), serials(second)), ((7, 8), (8, 9)));
        assert_eq!((first.removed.len(), first.added.len()), (1, 2));
        assert_eq!((second.removed.len(), second.added.len()), (1, 0));
    }
    // What was there is as it was.
    expect(&base, 7, &[ns(), host(1), host(2)]);
}

#[test]
fn differences_that_take_more_memory_than_is_kept_of_a_zone_are_given_up() {
    // The same record goes and comes back in each.
    let text =
        record("t.example.org.", Type::TXT, &[&[255], &[b'x'; 255][..]].concat().repeat(100));
    let steps_for = |count: u32, adds: usize| {
        let base = whole(&[&[soa(1), ns(), text.clone(), soa(1)]]).unwrap().0;
        let mut incoming = Incoming::ixfr(zone(), ID, base);
        let mut take = |records: &[Record]| {
            let received = incoming.message(&message(Type::IXFR, records)).unwrap();
            let octets = incoming.differences.steps.iter().map(|step| step.octets());
            assert!(octets.sum::<usize>() <= crate::limits::JOURNAL_OCTETS);
            received
        };
        take(&[soa(count + 1)]);
        for serial in 1..=count {
            take(&[soa(serial), text.clone()]);
            take(&[soa(serial + 1)]);
            (0..adds).for_each(|_| assert!(take(std::slice::from_ref(&text)).is_none()));
        }
        let Some(Received::Changed(data, steps)) = take(&[soa(count + 1)]) else { panic!() };
        let texts = if adds > 0 { vec![ns(), text.clone()] } else { vec![ns()] };
        expect(&data, count + 1, &texts);
        steps.len()
    };
    assert_eq!((steps_for(1, 0), steps_for(70, 1), steps_for(90, 1)), (1, 70, 0));
}

#[test]
fn a_response_to_ixfr_may_be_a_whole_zone_or_one_soa_record() {
    let base = base(7, &[1, 2]);
    let records = [soa(9), ns(), host(5), soa(9)];
    let each: Vec<_> = records.chunks(1).collect();
    for parts in [vec![&records[..]], each] {
        let Some(Received::Whole(data)) = changed(&base, &parts).unwrap() else { panic!() };
        expect(&data, 9, &[ns(), host(5)]);
    }
    for serial in [7, 6] {
        let received = changed(&base, &[&[soa(serial)]]).unwrap();
        assert!(matches!(received, Some(Received::UpToDate(Serial(s))) if s == serial));
        // Whoever sends a version that is not later, whole, is heard no further.
        let received = changed(&base, &[&[soa(serial), ns(), host(5), soa(serial)]]).unwrap();
        assert!(matches!(received, Some(Received::UpToDate(Serial(s))) if s == serial));
        let mut incoming = Incoming::axfr(zone(), ID, Some(base.clone()));
        let all = message(Type::AXFR, &[soa(serial), ns(), soa(serial)]);
        let received = incoming.message(&all).unwrap();
        assert!(matches!(received, Some(Received::UpToDate(Serial(s))) if s == serial));
    }
    // One that is later is the beginning of more.
    assert!(changed(&base, &[&[soa(8)]]).unwrap().is_none());
}

#[test]
fn the_query_says_what_is_here() {
    let data = base(7, &[1]);
    let query = Message::parse(&Incoming::ixfr(zone(), ID, data.clone()).request()).unwrap();
    assert_eq!((query.id, query.questions[0].qtype), (ID, Type::IXFR));
    assert_eq!(query.authority, [soa(7)]);
    let query = Message::parse(&Incoming::axfr(zone(), ID, Some(data)).request()).unwrap();
    assert_eq!((query.questions[0].qtype, query.authority.len()), (Type::AXFR, 0));
    assert!(query.flags == Flags(0));
}

#[test]
fn records_that_are_not_in_the_zone_are_counted_and_ignored() {
    let elsewhere = record("www.example.net.", Type::A, &[192, 0, 2, 9]);
    let (data, counts) = whole(&[&[soa(7), ns(), elsewhere.clone(), soa(7)]]).unwrap();
    expect(&data, 7, &[ns()]);
    assert_eq!((counts.outside, counts.records), (1, 4));
    let base = base(7, &[]);
    let parts = [soa(8), soa(7), elsewhere.clone(), soa(8), elsewhere, host(1), soa(8)];
    let Some(Received::Changed(data, steps)) = changed(&base, &[&parts]).unwrap() else { panic!() };
    expect(&data, 8, &[ns(), host(1)]);
    assert_eq!((steps[0].removed.len(), steps[0].added.len()), (0, 1));
}

#[test]
fn what_is_wrong_with_a_whole_zone_is_found() {
    let foreign = Record { class: Class::CH, ..host(1) };
    let below = Record { owner: name("a.example.org."), ..soa(7) };
    for (records, wanted) in [
        (vec![ns(), soa(7)], "does not begin with the SOA"),
        (vec![Record { owner: name("example.net."), ..soa(7) }], "does not begin with the SOA"),
        (vec![soa(7), ns(), foreign, soa(7)], "another class, for h1.example.org."),
        (vec![soa(7), ns(), below, soa(7)], "a SOA record for a.example.org."),
        (vec![soa(7), ns(), soa(8)], "ends with serial 8, and began with 7"),
        (vec![soa(7), ns(), soa(7), host(1)], "records follow"),
    ] {
        let error = whole(&[&records]).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let mut incoming = Incoming::axfr(zone(), ID, None);
    incoming.message(&message(Type::AXFR, &[soa(7), ns(), soa(7)])).unwrap();
    let more = incoming.message(&message(Type::AXFR, &[host(1)]));
    assert_eq!(more.unwrap_err(), IncomingError::AfterEnd);
}

/// Clients could not read a response with such a record.
#[test]
fn rdata_that_is_not_of_its_type_is_refused() {
    let mx = [&[0, 1][..], name("ns.example.org.").as_wire()].concat();
    for (rtype, rdata) in [
        (Type::MX, [&mx[..], &[0]].concat()),
        (Type::TXT, b"\x05ab".to_vec()),
        (Type::HINFO, b"\x01a\x01b\x01c".to_vec()),
        (Type::CAA, b"\0".to_vec()),
        (Type::NSEC, [name("b.").as_wire(), &[0, 33][..], &[0; 33]].concat()),
    ] {
        let bad = record("a.example.org.", rtype, &rdata);
        let error = whole(&[&[soa(7), ns(), bad.clone(), soa(7)]]).unwrap_err();
        let text = format!("RDATA of a.example.org. {rtype} does not fit its type");
        assert_eq!((error.to_string(), error.is_lasting()), (text, true));
        let base = base(7, &[]);
        let error = changed(&base, &[&[soa(8), soa(7), soa(8), bad.clone(), soa(8)]]).unwrap_err();
        assert!(error.whole_may_help(), "{error}");
        // Outside the zone it does not matter.
        let elsewhere = Record { owner: name("example.net."), ..bad };
        expect(&whole(&[&[soa(7), ns(), elsewhere, soa(7)]]).unwrap().0, 7, &[ns()]);
    }
    let fine = record("a.example.org.", Type::MX, &mx);
    expect(&whole(&[&[soa(7), ns(), fine.clone(), soa(7)]]).unwrap().0, 7, &[ns(), fine]);
}

#[test]
fn what_is_wrong_with_differences_is_found() {
    let base = base(7, &[1]);
    for (records, wanted) in [
        (vec![soa(9), soa(6), host(1), soa(9), soa(9)], "from serial 6 follows where 7"),
        (vec![soa(9), soa(7), host(2), soa(9), soa(9)], "not there: h2.example.org. A"),
        (vec![soa(9), soa(7), soa(8), soa(9)], "from serial 9 follows where 8"),
        (vec![soa(9), soa(7), soa(6), soa(6), soa(9)], "from serial 7 to 6"),
        (vec![soa(9), soa(7), soa(7), soa(7), soa(9)], "from serial 7 to 7"),
        (vec![soa(9), soa(7), soa(9), soa(10)], "ends with serial 10, and began with 9"),
        (vec![soa(9), soa(7), soa(9), soa(9), host(1)], "records follow"),
    ] {
        let error = changed(&base, &[&records]).unwrap_err();
        assert!(error.whole_may_help());
        assert!(error.to_string().contains(wanted), "{error}");
    }
    expect(&base, 7, &[ns(), host(1)]);
}

#[test]
fn messages_that_do_not_belong_to_the_query_are_refused() {
    let good = || {
        let mut message = Message::parse(&message(Type::AXFR, &[soa(7), ns(), soa(7)])).unwrap();
        message.flags = message.flags.with(Flags::AA, true);
        message
    };
    let refused = |change: fn(&mut Message)| {
        let mut message = good();
        change(&mut message);
        let mut out = Vec::new();
        message.write(&mut out).unwrap();
        Incoming::axfr(zone(), ID, None).message(&out).unwrap_err()
    };
    use IncomingError::{Rcode as Code, Stray, Truncated};
    assert_eq!(refused(|m| m.id ^= 1), Stray);
    assert_eq!(refused(|m| m.flags = m.flags.with(Flags::QR, false)), Stray);
    assert_eq!(refused(|m| m.flags = m.flags.with_opcode(Opcode::NOTIFY)), Stray);
    assert_eq!(refused(|m| m.questions[0].qname = name("example.net.")), Stray);
    assert_eq!(refused(|m| m.questions[0].qtype = Type::IXFR), Stray);
    assert_eq!(refused(|m| m.questions[0].qclass = Class::CH), Stray);
    assert_eq!(refused(|m| m.flags = m.flags.with_rcode(Rcode::REFUSED)), Code(Rcode::REFUSED));
    assert_eq!(refused(|m| m.flags = m.flags.with(Flags::TC, true)), Truncated);
    // Without a question it is as good as with one, and some servers do not set AA.
    let mut message = good();
    message.questions.clear();
    message.flags = message.flags.with(Flags::AA, false);
    let mut out = Vec::new();
    message.write(&mut out).unwrap();
    assert!(Incoming::axfr(zone(), ID, None).message(&out).unwrap().is_some());
    assert!(matches!(
        Incoming::axfr(zone(), ID, None).message(&out[..out.len() - 1]),
        Err(IncomingError::Malformed(_))
    ));
}

#[test]
fn a_transfer_without_end_ends_at_each_of_the_limits() {
    let limits = Limits { octets: 10_000, records: 100, messages: 50 };
    let ends = |limits: Limits, part: &[Record]| {
        let mut incoming = Incoming::axfr(zone(), ID, None).with_limits(limits);
        incoming.message(&message(Type::AXFR, &[soa(7), ns()])).unwrap();
        let part = message(Type::AXFR, part);
        (0..1000).find_map(|_| incoming.message(&part).err()).unwrap()
    };
    let most = Limits { octets: u64::MAX, records: u64::MAX, messages: u64::MAX };
    let hosts: Vec<_> = (0..10).map(host).collect();
    let error = |limits, part: &[Record]| {
        let error = ends(limits, part);
        assert!(!error.whole_may_help());
        error.to_string()
    };
    assert_eq!(
        error(Limits { octets: limits.octets, ..most }, &hosts),
        "more octets than a transfer may have"
    );
    assert_eq!(
        error(Limits { records: limits.records, ..most }, &hosts),
        "more records than a transfer may have"
    );
    assert_eq!(
        error(Limits { messages: limits.messages, ..most }, &hosts),
        "more messages than a transfer may have"
    );
    assert_eq!(error(most, &[]), "more messages without records than a transfer may have");
}

/// Accepts messages until one is longer than it likes, and an end if it likes that.
#[derive(Debug)]
struct Short(usize, bool);

impl Verify for Short {
    fn message(&mut self, message: &[u8]) -> Result<(), String> {
        if message.len() <= self.0 { Ok(()) } else { Err("not signed".to_owned()) }
    }

    fn end(&mut self) -> Result<(), String> {
        if self.1 { Ok(()) } else { Err("the last message is not signed".to_owned()) }
    }
}

#[test]
fn messages_are_verified_before_they_are_read() {
    let all = message(Type::AXFR, &[soa(7), ns(), soa(7)]);
    let mut verdicts = [(1, true), (usize::MAX, false), (usize::MAX, true)].map(|(len, end)| {
        Incoming::axfr(zone(), ID, None).verified_by(Box::new(Short(len, end))).message(&all)
    });
    let signature = |text: &str| IncomingError::Signature(text.to_owned());
    assert_eq!(verdicts[0].as_ref().unwrap_err(), &signature("not signed"));
    assert_eq!(verdicts[1].as_ref().unwrap_err(), &signature("the last message is not signed"));
    assert!(!signature("").whole_may_help());
    assert!(matches!(verdicts[2].as_mut(), Ok(Some(Received::Whole(_)))));
}

/// What [`Transfer`] writes of a version.
fn written(qtype: Type, transfer: impl FnOnce(Question) -> Transfer) -> Vec<Vec<u8>> {
    let flags = Flags(0).reply().with(Flags::AA, true);
    let question = Question { id: ID, flags, qname: zone(), qtype, qclass: Class::IN };
    let (mut transfer, mut all) = (transfer(question), Vec::new());
    loop {
        let mut out = Vec::new();
        match transfer.next_message(&mut out).unwrap() {
            Next::Nothing => {}
            next => {
                all.push(out);
                if next == Next::Last {
                    return all;
                }
            }
        }
    }
}

fn version(serial: u32, records: Vec<Record>) -> Version {
    let soa = Soa::new(soa(serial)).unwrap();
    Version { soa, records: Box::new(RecordCursor::new(records)) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Versions with random hosts go out as differences and come in the same, whatever the messages are;
    /// each cut of the messages is no version.
    #[test]
    fn what_goes_out_as_differences_comes_in_the_same(
        versions in prop::collection::vec(prop::collection::btree_set(0_u8..40, 0..30), 2..6),
    ) {
        let hosts = |set: &BTreeSet<u8>| set.iter().copied().collect::<Vec<_>>();
        let first = base(1, &hosts(&versions[0]));
        let mut sequence = Vec::new();
        for (serial, pair) in (1..).zip(versions.windows(2)) {
            sequence.push(soa(serial));
            sequence.extend(pair[0].difference(&pair[1]).copied().map(host));
            sequence.push(soa(serial + 1));
            sequence.extend(pair[1].difference(&pair[0]).copied().map(host));
        }
        let last = versions.len() as u32;
        let messages = written(Type::IXFR, |question| {
            Transfer::differences(question, version(last, sequence))
        });
        let mut incoming = Incoming::ixfr(zone(), ID, first.clone());
        let Some(Received::Changed(data, steps)) = feed(&mut incoming, &messages).unwrap() else {
            panic!()
        };
        let mut wanted: Vec<_> = versions.last().unwrap().iter().copied().map(host).collect();
        wanted.push(ns());
        expect(&data, last, &wanted);
        // And out again.
        let cursor: Box<dyn Cursor> = Box::new(crate::journal::Steps::new(steps));
        let soa = data.soa().clone();
        let again = written(Type::IXFR, |question| {
            Transfer::differences(question, Version { soa, records: cursor })
        });
        prop_assert_eq!(&again, &messages);
    }

    #[test]
    fn octets_of_any_kind_are_read_or_refused(
        octets in prop::collection::vec(prop_oneof![Just(0_u8), Just(0xc0), 0_u8..16, any::<u8>()], 0..200),
    ) {
        let mut incoming = Incoming::axfr(zone(), ID, None);
        let mut octets = octets;
        let head = message(Type::AXFR, &[soa(7), ns()]);
        incoming.message(&head).unwrap();
        octets.splice(0..0, Header { id: ID, flags: Flags(0).reply(), counts: [0, 3, 0, 0] }.to_bytes());
        _ = incoming.message(&octets);
    }
}
