use super::*;
use nodens_wire::Message;

const SECOND: u64 = 1_000_000_000;

fn soa(serial: u32) -> Soa {
    let apex = Name::parse("cluster.local.").unwrap();
    Soa::with(apex.view(), 5, (&apex, &apex), [serial, 7200, 1800, 86400, 5])
}

fn server(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 53))
}

/// A notifier whose messages are numbered from 1.
struct Fixture {
    notifier: Notifier,
    ids: u16,
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

impl Fixture {
    fn new(servers: &[u8]) -> Self {
        let servers: Vec<_> = servers.iter().map(|last| server(*last)).collect();
        let notifier = Notifier::new(Name::parse("cluster.local.").unwrap(), &servers);
        Self { notifier, ids: 0, sent: Vec::new() }
    }

    /// Polls at this second; gives who is told and what ended.
    fn poll(&mut self, second: u64, serial: u32) -> (Vec<SocketAddr>, Vec<(SocketAddr, Outcome)>) {
        self.sent.clear();
        let Self { notifier, ids, sent } = self;
        let id = || {
            *ids += 1;
            *ids
        };
        let send = |to, message: &[u8]| sent.push((to, message.to_vec()));
        let ended = notifier.poll(second * SECOND, Some(&soa(serial)), id, send);
        (self.sent.iter().map(|(to, _)| *to).collect(), ended)
    }

    fn answer(&mut self, from: u8, id: u16, rcode: Rcode) -> Option<Outcome> {
        let flags = Flags(0).with_opcode(Opcode::NOTIFY).reply().with_rcode(rcode);
        let header = Header { id, flags, counts: [0; 4] };
        self.notifier.receive(server(from), &header.to_bytes())
    }
}

#[test]
fn everybody_is_told_at_the_start_and_of_every_change_until_they_accept() {
    let mut fixture = Fixture::new(&[1, 2]);
    assert_eq!(fixture.notifier.poll(0, None, || 1, |_, _| panic!()), []);
    assert_eq!(fixture.notifier.next_deadline(), None);
    assert_eq!(fixture.poll(10, 7), (vec![server(1), server(2)], Vec::new()));
    let message = Message::parse(&fixture.sent[0].1).unwrap();
    assert_eq!((message.id, message.flags.opcode()), (1, Opcode::NOTIFY));
    assert!(message.flags.has(Flags::AA) && !message.flags.has(Flags::QR));
    assert_eq!(message.questions[0].qtype, Type::SOA);
    assert_eq!(message.answer, [soa(7).record().clone()]);
    assert_eq!(fixture.answer(1, 1, Rcode::NOERROR), Some(Outcome::Accepted));
    assert_eq!(fixture.notifier.next_deadline(), Some(12 * SECOND));
    assert_eq!(fixture.poll(12, 7).0, [server(2)]);
    assert_eq!(fixture.answer(2, 3, Rcode::NOERROR), Some(Outcome::Accepted));
    assert_eq!(fixture.notifier.next_deadline(), None);
    assert_eq!(fixture.poll(14, 7).0, []);
    // Changes that follow one another soon are told as one.
    assert_eq!(fixture.poll(14, 8).0, []);
    assert_eq!(fixture.poll(15, 9).0, [server(1), server(2)]);
}

#[test]
fn one_who_never_accepts_is_told_five_times_at_growing_intervals() {
    let mut fixture = Fixture::new(&[1]);
    let mut told = Vec::new();
    let mut ended = Vec::new();
    for second in 0..200 {
        let (sent, gone) = fixture.poll(second, 7);
        told.extend(sent.iter().map(|_| second));
        ended.extend(gone.iter().map(|(_, outcome)| (second, *outcome)));
        if second == 31 {
            assert_eq!(fixture.answer(1, 5, Rcode::NOTAUTH), None);
        }
    }
    assert_eq!(told, [0, 2, 6, 14, 30]);
    assert_eq!(ended, [(62, Outcome::GivenUp(Some(Rcode::NOTAUTH)))]);
    // The next version is a new beginning.
    assert_eq!(fixture.poll(200, 8).0, [server(1)]);
}

#[test]
fn a_newer_version_takes_the_place_of_one_that_is_being_told() {
    let mut fixture = Fixture::new(&[1]);
    fixture.poll(0, 7);
    fixture.poll(2, 7);
    assert_eq!(fixture.poll(5, 8).0, [server(1)]);
    // An answer to an earlier message says nothing of this version.
    assert_eq!(fixture.answer(1, 2, Rcode::NOERROR), None);
    assert_eq!(fixture.answer(1, 3, Rcode::NOERROR), Some(Outcome::Accepted));
}

#[test]
fn answers_of_others_and_what_is_no_answer_are_passed_over() {
    let mut fixture = Fixture::new(&[1]);
    fixture.poll(0, 7);
    assert_eq!(fixture.answer(2, 1, Rcode::NOERROR), None);
    assert_eq!(fixture.answer(1, 2, Rcode::NOERROR), None);
    assert_eq!(fixture.notifier.receive(server(1), &[0; 11]), None);
    let question = Header { id: 1, flags: Flags(0).with_opcode(Opcode::NOTIFY), counts: [0; 4] };
    assert_eq!(fixture.notifier.receive(server(1), &question.to_bytes()), None);
    let other = Header { id: 1, flags: Flags(0).reply(), counts: [0; 4] };
    assert_eq!(fixture.notifier.receive(server(1), &other.to_bytes()), None);
    assert_eq!(fixture.answer(1, 1, Rcode::NOERROR), Some(Outcome::Accepted));
    assert_eq!(fixture.answer(1, 1, Rcode::NOERROR), None);
}
