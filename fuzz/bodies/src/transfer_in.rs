//! Responses to AXFR and IXFR.

use nodens_wire::framing::first_message;
use nodens_wire::{Class, Flags, Name, Type};
use nodens_zone::data::{Data, Edit};
use nodens_zone::incoming::{Incoming, Limits, Received};
use nodens_zone::{Next, Question, Soa, Transfer};

const ID: u16 = 4711;

/// Messages of a response to AXFR, or to IXFR if the first octet is odd, become a version or are refused.
/// What they become is written as a transfer, which becomes the same again.
pub fn transfer_in(data: &[u8]) {
    let Some((kind, mut stream)) = data.split_first() else { return };
    let limits = Limits { octets: 1 << 20, records: 10_000, messages: 1000 };
    let mut incoming = match kind & 1 {
        0 => Incoming::axfr(zone(), ID, None),
        _ => Incoming::ixfr(zone(), ID, base()),
    }
    .with_limits(limits);
    while let Some((message, end)) = first_message(stream) {
        // What is checked first would else be all that is ever reached.
        let mut message = message.to_vec();
        if let Some(head) = message.first_chunk_mut::<4>() {
            *head = [(ID >> 8) as u8, ID as u8, 0x84, head[3] & 0xf0];
        }
        match incoming.message(&message) {
            Ok(Some(Received::Whole(data) | Received::Changed(data, _))) => return check(&data),
            Ok(None) => stream = stream.get(end..).unwrap_or_default(),
            Ok(Some(Received::UpToDate(_))) | Err(_) => return,
        }
    }
}

fn zone() -> Name {
    Name::parse("a.").expect("a name")
}

/// Version 1, with an address for `b`.
fn base() -> Data {
    let zone = zone();
    let soa = Soa::with(zone.view(), 5, (&zone, &zone), [1, 2, 3, 4, 5]);
    let owner = Name::parse("b.a.").expect("a name");
    let (rtype, class, rdata) = (Type::A, Class::IN, vec![192, 0, 2, 1]);
    let address = nodens_wire::Record { owner, rtype, class, ttl: 5, rdata };
    let mut edit = Edit::new(zone.view(), Class::IN);
    for record in [soa.record(), &address] {
        edit.add(record.into()).expect("a record of the zone");
    }
    edit.finish().expect("a zone")
}

fn check(data: &Data) {
    let flags = Flags(0).reply().with(Flags::AA, true);
    let question = Question { id: ID, flags, qname: zone(), qtype: Type::AXFR, qclass: Class::IN };
    let mut transfer = Transfer::whole(question, data.version());
    let mut incoming = Incoming::axfr(zone(), ID, None);
    let mut out = Vec::new();
    loop {
        let next = transfer.next_message(&mut out).expect("records came in a message");
        let received = match next {
            Next::Nothing => continue,
            Next::Message | Next::Last => incoming.message(&out).expect("what was written"),
        };
        match (received, next) {
            (None, Next::Message) => {}
            (Some(Received::Whole(again)), Next::Last) => {
                assert_eq!(again.records(), data.records());
                assert_eq!(again.soa(), data.soa());
                return;
            }
            (other, next) => panic!("{other:?} {next:?}"),
        }
    }
}
