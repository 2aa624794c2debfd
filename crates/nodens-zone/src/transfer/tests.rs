use super::*;
use crate::zone::{Records, Soa};
use nodens_wire::{Message, NameRef, Record};
use proptest::prelude::*;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn soa(serial: u32) -> Soa {
    let apex = name("cluster.local.");
    let names = (&name("ns.dns.cluster.local."), &name("hostmaster.cluster.local."));
    Soa::with(apex.view(), 5, names, [serial, 7200, 1800, 86400, 5])
}

fn record(owner: &str, rtype: Type, rdata: &[u8]) -> Record {
    Record { owner: name(owner), rtype, class: Class::IN, ttl: 5, rdata: rdata.to_vec() }
}

fn question(qtype: Type) -> Question {
    let flags = Flags(0).reply().with(Flags::AA, true);
    Question { id: 4711, flags, qname: name("Cluster.local."), qtype, qclass: Class::IN }
}

fn transfer(records: Vec<Record>) -> Transfer {
    let version = Version { soa: soa(7), records: Box::new(Records::new(records)) };
    Transfer::whole(question(Type::AXFR), version)
}

/// All messages, and how often there was none yet.
fn messages(mut transfer: Transfer) -> (Vec<Vec<u8>>, usize) {
    let (mut all, mut pauses) = (Vec::new(), 0);
    loop {
        let mut out = vec![0xff; 3];
        match transfer.next_message(&mut out).unwrap() {
            Next::Nothing => pauses += 1,
            next => {
                all.push(out);
                if next == Next::Last {
                    assert!(transfer.is_done());
                    assert_eq!(transfer.messages(), all.len() as u64);
                    return (all, pauses);
                }
            }
        }
    }
}

fn answers(messages: &[Vec<u8>]) -> Vec<Record> {
    messages.iter().flat_map(|wire| Message::parse(wire).unwrap().answer).collect()
}

/// Endpoints of services of a cluster.
fn endpoints(count: u32) -> Vec<Record> {
    let endpoint = |n: u32| {
        let [_, b, c, d] = n.to_be_bytes();
        let owner = format!("10-{b}-{c}-{d}.svc-{}.ns-{}.svc.cluster.local.", n / 20, n / 200);
        record(&owner, Type::A, &[10, b, c, d])
    };
    (0..count).map(endpoint).collect()
}

#[test]
fn an_empty_zone_is_one_message_that_begins_and_ends_with_the_soa() {
    let (messages, _) = messages(transfer(Vec::new()));
    let [only] = messages.as_slice() else { panic!("{} messages", messages.len()) };
    let message = Message::parse(only).unwrap();
    assert_eq!((message.id, message.flags.has(Flags::QR | Flags::AA)), (4711, true));
    assert_eq!(message.questions[0].qname.as_wire(), b"\x07Cluster\x05local\0");
    assert_eq!(message.answer, [soa(7).record().clone(), soa(7).record().clone()]);
    // Letters keep their case: the owner cannot be a pointer to all of the question.
    assert_eq!(message.answer[0].owner.as_wire(), b"\x07cluster\x05local\0");
}

#[test]
fn a_large_zone_is_cut_where_pointers_end_and_only_the_first_message_has_the_question() {
    let records = endpoints(20_000);
    let (messages, pauses) = messages(transfer(records.clone()));
    assert_eq!(pauses, 0);
    let soa = soa(7).record().clone();
    assert_eq!(
        answers(&messages),
        [std::slice::from_ref(&soa), &records, std::slice::from_ref(&soa)].concat()
    );
    let (last, full) = messages.split_last().unwrap();
    assert!(full.iter().all(|wire| wire.len() > MESSAGE_LEN - 64 && wire.len() <= MESSAGE_LEN));
    assert!(last.len() <= MESSAGE_LEN);
    for (at, wire) in messages.iter().enumerate() {
        let message = Message::parse(wire).unwrap();
        assert_eq!(message.questions.len(), usize::from(at == 0));
        assert_eq!((message.id, message.flags), (4711, question(Type::AXFR).flags));
    }
    // Length of the first label, pointer, type, class, TTL, RDLENGTH and RDATA; the names of
    // services and namespaces once in a message.
    let octets: usize = messages.iter().map(Vec::len).sum();
    assert!(octets < 20_000 * 32, "{octets} octets");
}

#[test]
fn a_message_says_what_the_first_one_said() {
    let mut transfer = transfer(endpoints(2000));
    let mut out = Vec::new();
    assert_eq!(transfer.next_message(&mut out), Ok(Next::Message));
    nodens_wire::header::set_id(&mut out, 12);
    nodens_wire::header::set_flags(&mut out, Flags(0x8580));
    transfer.continue_like(&out);
    transfer.next_message(&mut out).unwrap();
    let message = Message::parse(&out).unwrap();
    assert_eq!((message.id, message.flags), (12, Flags(0x8580)));
}

#[test]
fn one_soa_is_the_answer_to_those_who_have_the_zone() {
    let transfer = Transfer::soa_alone(question(Type::IXFR), soa(9));
    assert!(transfer.is_soa_alone());
    let (messages, _) = messages(transfer);
    assert_eq!(answers(&messages), [soa(9).record().clone()]);
}

#[test]
fn a_record_too_long_for_others_has_a_message_of_its_own_and_one_too_long_for_any_ends_it() {
    let long = record("long.cluster.local.", Type::TXT, &[1; 60_000]);
    let small = record("a.cluster.local.", Type::A, &[192, 0, 2, 1]);
    let (messages, _) = messages(transfer(vec![small.clone(), long.clone(), small.clone()]));
    let soa = soa(7).record().clone();
    assert_eq!(answers(&messages), [soa.clone(), small.clone(), long, small, soa]);
    assert_eq!(messages.len(), 3);
    let endless = record("long.cluster.local.", Type::TXT, &[1; 65_530]);
    let mut transfer = transfer(vec![endless]);
    let mut out = Vec::new();
    assert_eq!(transfer.next_message(&mut out), Ok(Next::Message));
    assert_eq!(transfer.next_message(&mut out), Err(TransferError::TooLong));
}

/// Goes past many things that are no records.
struct Sparse {
    left: u32,
    record: Record,
}

impl Cursor for Sparse {
    fn advance(&mut self) -> Advance {
        self.left = self.left.saturating_sub(1);
        match self.left {
            0 => Advance::End,
            left if left.is_multiple_of(10_000) => Advance::Record,
            _ => Advance::Nothing,
        }
    }

    fn record(&self) -> Option<RecordRef<'_>> {
        self.left.is_multiple_of(10_000).then_some((&self.record).into())
    }
}

#[test]
fn nobody_waits_for_a_record_that_is_far_away() {
    let record = record("a.cluster.local.", Type::A, &[192, 0, 2, 1]);
    let sparse = Sparse { left: 50_001, record: record.clone() };
    let version = Version { soa: soa(7), records: Box::new(sparse) };
    let (messages, pauses) = messages(Transfer::whole(question(Type::AXFR), version));
    assert!(pauses >= 50_000 / STEPS_PER_MESSAGE - 7, "{pauses}");
    assert_eq!(answers(&messages).len(), 7);
}

#[test]
fn the_serial_of_a_client_is_read_from_its_question() {
    let mut out = Vec::new();
    let mut builder = nodens_wire::Builder::new(&mut out, 1, Flags(0));
    builder.question(name("cluster.local.").view(), Type::IXFR, Class::IN);
    builder.push(Section::Authority, soa(41).record()).unwrap();
    assert_eq!(requested_serial(&out), Ok(Some(Serial(41))));
    let cut = out.len() - 1;
    assert!(requested_serial(&out[..cut]).is_err());
    let mut builder = nodens_wire::Builder::new(&mut out, 1, Flags(0));
    builder.question(NameRef::root(), Type::IXFR, Class::IN);
    builder.push(Section::Answer, soa(41).record()).unwrap();
    assert_eq!(requested_serial(&out), Ok(None));
}

fn any_name() -> impl Strategy<Value = Name> {
    // Few labels, so that names share tails, in both cases and of lengths up to the longest.
    let label = prop_oneof![
        Just("a".to_owned()),
        Just("A".to_owned()),
        Just("svc".to_owned()),
        Just("x".repeat(63)),
        "[a-c]{1,3}",
    ];
    let labels = prop::collection::vec(label, 0..7);
    labels.prop_filter_map("too long", |labels| Name::parse(&labels.join(".")).ok())
}

fn any_record() -> impl Strategy<Value = Record> {
    let octets = (0..300_usize, any::<u8>()).prop_map(|(len, octet)| vec![octet; len]);
    (any_name(), any_name(), any_name(), 0..6_u8, octets).prop_map(|(owner, a, b, kind, octets)| {
        let [a, b] = [a.as_wire(), b.as_wire()];
        let (rtype, rdata) = match kind {
            0 => (Type::NS, a.to_vec()),
            1 => (Type::SOA, [a, b, &[7; 20]].concat()),
            2 => (Type::SRV, [&[1, 2, 3, 4, 5, 6], a].concat()),
            3 => (Type::MX, [&[0, 10], a].concat()),
            4 => (Type::A, vec![192, 0, 2, 1]),
            _ => (Type(65_280), octets),
        };
        Record { owner, rtype, class: Class::IN, ttl: 30, rdata }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_records_there_are_they_arrive_letter_by_letter(
        records in prop::collection::vec(any_record(), 0..150),
    ) {
        let (messages, _) = messages(transfer(records.clone()));
        let arrived = answers(&messages);
        prop_assert_eq!(arrived.len(), records.len() + 2);
        for (arrived, sent) in arrived[1..].iter().zip(&records) {
            prop_assert_eq!(arrived.owner.as_wire(), sent.owner.as_wire());
            prop_assert_eq!(arrived, sent);
        }
    }
}
