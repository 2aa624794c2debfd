//! Primaries that answer as a test says.

use nodens_wire::framing::{framed, read_message};
use nodens_wire::{Builder, Class, Flags, Message, Name, Rcode, Record, Section, Type};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A query to a primary.
pub(super) struct Query {
    id: u16,
    pub(super) zone: Name,
    pub(super) qtype: Type,
    /// Queries for transfers that came before.
    pub(super) transfers: u32,
}

/// How many queries have come.
pub(super) type Count = Arc<AtomicU32>;

/// Answers queries over TCP with what `answer` writes, and closes a connection where that fails.
pub(super) fn primary(
    answer: impl Fn(&Query, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> (SocketAddr, Count) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, transfers) = (Count::default(), Count::default());
    let (answer, count) = (Arc::new(answer), asked.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (answer, count, transfers) = (answer.clone(), count.clone(), transfers.clone());
            std::thread::spawn(move || {
                let mut stream = stream;
                while let Ok(query) = read_message(&mut stream) {
                    let query = Message::parse(&query).unwrap();
                    let [question] = query.questions.as_slice() else { return };
                    count.fetch_add(1, Ordering::SeqCst);
                    let is_transfer = matches!(question.qtype, Type::AXFR | Type::IXFR);
                    let transfers = transfers.fetch_add(is_transfer.into(), Ordering::SeqCst);
                    let (zone, qtype) = (question.qname.clone(), question.qtype);
                    let query = Query { id: query.id, zone, qtype, transfers };
                    if answer(&query, &mut stream).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, asked)
}

impl Query {
    /// A message with these records, as it is sent.
    pub(super) fn message(&self, records: &[Record]) -> Vec<u8> {
        self.message_with(self.id, Flags(0).reply().with(Flags::AA, true), records)
    }

    pub(super) fn refusal(&self, rcode: Rcode) -> Vec<u8> {
        self.message_with(self.id, Flags(0).reply().with_rcode(rcode), &[])
    }

    /// The message, with TC or another ID.
    pub(super) fn truncated(&self, records: &[Record]) -> Vec<u8> {
        self.message_with(
            self.id,
            Flags(0).reply().with(Flags::AA, true).with(Flags::TC, true),
            records,
        )
    }

    pub(super) fn stray(&self, records: &[Record]) -> Vec<u8> {
        self.message_with(!self.id, Flags(0).reply().with(Flags::AA, true), records)
    }

    fn message_with(&self, id: u16, flags: Flags, records: &[Record]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, id, flags);
        builder.question(self.zone.view(), self.qtype, Class::IN);
        for record in records {
            builder.push(Section::Answer, record).unwrap();
        }
        framed(&out)
    }

    /// Answers as it should be: the zone in this version.
    pub(super) fn good(&self, serial: u32, stream: &mut TcpStream) -> std::io::Result<()> {
        match self.qtype {
            Type::SOA => stream.write_all(&self.message(&[soa(&self.zone, serial)])),
            _ => stream.write_all(&self.message(&whole(&self.zone, serial))),
        }
    }
}

/// Refresh and retry are as short as they can be.
pub(super) fn soa(zone: &Name, serial: u32) -> Record {
    let mut rdata = [0, 0].to_vec();
    for number in [serial, 1, 1, 3600, 5] {
        rdata.extend_from_slice(&number.to_be_bytes());
    }
    Record { owner: zone.clone(), rtype: Type::SOA, class: Class::IN, ttl: 60, rdata }
}

/// `hNUMBER` in the zone.
pub(super) fn host(zone: &Name, number: u8) -> Record {
    let owner = format!("h{number}.{zone}").parse().unwrap();
    Record { owner, rtype: Type::A, class: Class::IN, ttl: 60, rdata: vec![192, 0, 2, number] }
}

pub(super) fn whole(zone: &Name, serial: u32) -> Vec<Record> {
    let ends = soa(zone, serial);
    vec![ends.clone(), host(zone, 1), host(zone, 2), ends]
}
