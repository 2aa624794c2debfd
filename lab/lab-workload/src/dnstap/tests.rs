use super::*;
use crate::recorded::{Carrier, Content, Record};
use nodens_wire::{Name, Type};
use proptest::prelude::*;
use std::io::{Cursor, Read, Write};

const SECOND: u64 = 1_000_000_000;

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn octets(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn fixed(field: u64, value: u32) -> Vec<u8> {
    [varint(field << 3 | 5), value.to_le_bytes().to_vec()].concat()
}

fn dns(name: &str, is_response: bool) -> Vec<u8> {
    let mut workload = crate::Workload::new(0);
    workload.push(Name::parse(name).unwrap().view(), Type::A, None);
    let mut out = Vec::new();
    workload.append(0, 7, &mut out);
    out[2] |= if is_response { 0x80 } else { 0 };
    out
}

/// A message inside the frame: its kind, and what else it has.
fn inner(kind: u64, message: &[u8]) -> Vec<u8> {
    let is_response = kind.is_multiple_of(2);
    [
        number(1, kind),
        number(2, 1),
        number(3, 1),
        octets(4, &[10, 0, 0, 1]),
        number(6, 40_000),
        number(8, 1_000),
        fixed(9, 5),
        if is_response { [number(12, 1_000), fixed(13, 9)].concat() } else { Vec::new() },
        octets(if is_response { 14 } else { 10 }, message),
    ]
    .concat()
}

fn outer(inner: &[u8]) -> Vec<u8> {
    [octets(1, b"me"), octets(2, b"1.0"), octets(14, inner), number(15, 1)].concat()
}

fn data(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes()[..], frame].concat()
}

fn control(kind: u32, content_type: Option<&[u8]>) -> Vec<u8> {
    let mut frame = kind.to_be_bytes().to_vec();
    if let Some(content) = content_type {
        frame.extend(1_u32.to_be_bytes());
        frame.extend((content.len() as u32).to_be_bytes());
        frame.extend(content);
    }
    [&[0; 4][..], &data(&frame)].concat()
}

fn start() -> Vec<u8> {
    control(2, Some(CONTENT_TYPE))
}

fn file(frames: &[Vec<u8>]) -> Vec<u8> {
    let frames: Vec<u8> = frames.iter().flat_map(|frame| data(frame)).collect();
    [start(), frames, control(3, None)].concat()
}

fn read(octets: &[u8]) -> (Vec<Record>, Vec<String>) {
    let mut recording = match Recording::open(octets, &Role::OF_CLIENTS) {
        Ok(recording) => recording,
        Err(error) => return (Vec::new(), vec![error.to_string()]),
    };
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    while let Some(item) = recording.read() {
        match item {
            Ok(record) => records.push(record),
            Err(error) => errors.push(error.to_string()),
        }
    }
    (records, errors)
}

#[test]
fn messages_have_times_clients_and_octets() {
    let query = dns("a.example", false);
    let other = [
        number(1, 5),
        number(2, 2),
        number(3, 4),
        octets(4, &[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]),
        octets(5, &[0; 16]),
        number(6, 41_000),
        number(7, 443),
        number(8, 2_000),
        octets(10, &query),
        octets(11, b"\0"),
        octets(15, b"policy"),
        number(16, 2),
    ]
    .concat();
    let frames =
        [outer(&inner(5, &query)), outer(&inner(6, &dns("a.example", true))), outer(&other)];
    let (records, errors) = read(&file(&frames));
    assert_eq!(errors, [""; 0]);
    let times: Vec<_> = records.iter().map(|record| (record.number, record.time)).collect();
    assert_eq!(
        times,
        [(2, 1_000 * SECOND + 5), (3, 1_000 * SECOND + 9), (4, 2_000 * SECOND)],
        "START is the first frame"
    );
    let clients: Vec<_> = records.iter().map(|record| record.client.to_string()).collect();
    assert_eq!(clients, ["10.0.0.1:40000", "10.0.0.1:40000", "[2001:db8::9]:41000"]);
    assert_eq!(records[2].server.to_string(), "[::]:443");
    assert_eq!([records[1].carrier, records[2].carrier], [Carrier::Udp, Carrier::Tcp]);
    assert_eq!(records[0].content, Content::Query(query));
    assert!(matches!(records[1].content, Content::Response(_)));
}

#[test]
fn roles_that_are_not_asked_for_are_counted() {
    let frames = [5, 7, 3, 1].map(|kind| outer(&inner(kind, &dns("a.example", false))));
    let octets = file(&frames);
    for (roles, expected) in [
        (&Role::OF_CLIENTS[..], (2, 2)),
        (&[Role::Forwarder], (1, 3)),
        (&[Role::Resolver, Role::Forwarder], (2, 2)),
        (&Role::ALL, (4, 0)),
    ] {
        let mut recording = Recording::open(&*octets, roles).unwrap();
        assert_eq!((recording.by_ref().count() as u64, recording.others()), expected, "{roles:?}");
    }
}

#[test]
fn a_broken_frame_is_named_and_the_next_one_is_read() {
    let good = outer(&inner(5, &dns("a.example", false)));
    let message = dns("a.example", false);
    let with = |inner: &[u8]| outer(inner);
    let response = inner(6, &message);
    for (frame, expected) in [
        (vec![0xff; 11], "a number of more than 64 bits"),
        (vec![0x08, 0x80], "a number that the frame ends in"),
        (octets(14, b"")[..1].to_vec(), "a number that the frame ends in"),
        (
            [varint(14 << 3 | 2), varint(9)].concat(),
            "field 14 of 9 octets, but 0 are left in the frame",
        ),
        (vec![0x0b], "wire type 3 of field 1, expected 0, 1, 2 or 5"),
        (
            [good.clone(), number(99, 1)].concat(),
            "field 99 of Dnstap with a number, expected a field of dnstap.proto",
        ),
        (
            [good.clone(), number(1, 1)].concat(),
            "field 1 of Dnstap with a number, expected a field of dnstap.proto",
        ),
        (octets(14, &inner(5, &message)), "no Dnstap.type in it"),
        (number(15, 1), "no Dnstap.message in it"),
        ([octets(14, b""), number(15, 2)].concat(), "Dnstap.type 2, expected 1 (MESSAGE)"),
        (with(b""), "no Message.type in it"),
        (with(&number(1, 15)), "Message.type 15, expected 1 to 14"),
        (with(&number(1, 0)), "Message.type 0, expected 1 to 14"),
        (with(&number(2, 3)), "socket_family 3, expected 1 (INET) or 2 (INET6)"),
        (with(&number(3, 8)), "socket_protocol 8, expected 1 to 7"),
        (with(&octets(4, &[1, 2, 3])), "an address of neither 4 nor 16 octets"),
        (with(&number(6, 65_536)), "port 65536, expected 0 to 65535"),
        (with(&number(8, u64::MAX)), "a time of 18446744073709551615 s, expected a date of now"),
        (with(&fixed(9, 1_000_000_000)), "1000000000 ns of a second, expected less than 10^9"),
        (
            with(&octets(17, b"x")),
            "field 17 of Message with octets, expected a field of dnstap.proto",
        ),
        (
            with(&[number(1, 5), number(2, 2), octets(4, &[1, 2, 3, 4])].concat()),
            "address 1.2.3.4, expected one of the family that is said",
        ),
        (
            with(&number(1, 5)),
            "no message of DNS in it, expected one (CoreDNS and Nodens write them with `full`)",
        ),
        (with(&[number(1, 5), octets(10, &message)].concat()), "no time in it"),
        (with(&inner(5, b"short")), "a message of 5 octets, expected at least 12"),
        (with(&inner(5, &dns("a.example", true))), "a query with the QR bit"),
        (with(&response), "a response without the QR bit"),
    ] {
        let (records, errors) = read(&file(&[good.clone(), frame, good.clone()]));
        assert_eq!((records.len(), errors.len()), (2, 1), "{expected}: {errors:?}");
        assert!(errors[0].starts_with("frame 3 (octet "), "{errors:?}");
        assert!(errors[0].ends_with(&format!("): {expected}")), "{} is not {expected}", errors[0]);
    }
}

#[test]
fn the_octet_of_a_fault_is_that_of_the_stream() {
    let inner = [inner(5, &dns("a.example", false)), number(99, 1)].concat();
    let frame = outer(&inner);
    let octets = file(std::slice::from_ref(&frame));
    let at = start().len() + 4 + octets_before(&frame, &inner) + inner.len() - 3;
    let (_, errors) = read(&octets);
    assert!(errors[0].starts_with(&format!("frame 2 (octet {at}): field 99 ")), "{errors:?}");
    assert_eq!(octets[at], varint(99 << 3)[0]);
}

fn octets_before(frame: &[u8], inner: &[u8]) -> usize {
    frame.windows(inner.len()).position(|window| window == inner).unwrap()
}

#[test]
fn what_is_no_stream_is_refused_and_what_ends_it_ends_it() {
    let good = outer(&inner(5, &dns("a.example", false)));
    let with = |behind: &[u8]| [start(), data(&good), behind.to_vec()].concat();
    let len = with(b"").len();
    for (octets, read_before, expected) in [
        (Vec::new(), 0, "frame 1 (octet 0): not a Frame Stream, expected the control frame START with the content type of dnstap".to_owned()),
        (data(&good), 0, "frame 1 (octet 0): not a Frame Stream, expected the control frame START with the content type of dnstap".into()),
        (control(3, None), 0, "frame 1 (octet 0): control frame 3, expected 2 (START)".into()),
        (control(2, Some(b"protobuf:other")), 0, "frame 1 (octet 0): content type `protobuf:other`, expected `protobuf:dnstap.Dnstap`".into()),
        ([&[0; 4][..], &data(&[0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0])].concat(), 0, "frame 1 (octet 0): a broken field of a control frame, expected a type, a length and as many octets".into()),
        ([&[0; 4][..], &data(&[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 9])].concat(), 0, "frame 1 (octet 0): a broken field of a control frame, expected a type, a length and as many octets".into()),
        ([&[0; 4][..], &513_u32.to_be_bytes()].concat(), 0, "frame 1 (octet 0): a control frame of 513 octets, expected 4 to 512".into()),
        ([&[0; 4][..], &3_u32.to_be_bytes()].concat(), 0, "frame 1 (octet 0): a control frame of 3 octets, expected 4 to 512".into()),
        (with(b""), 1, format!("frame 2 (octet {len}): the stream ends without STOP; what was before is whole")),
        (with(b"\0\0"), 1, format!("frame 3 (octet {len}): the stream ends after 2 of 4 octets")),
        (with(&[0, 0, 0, 9, 1]), 1, format!("frame 3 (octet {}): the stream ends after 1 of 9 octets", len + 4)),
        (with(&[0xff; 4]), 1, format!("frame 3 (octet {len}): a frame of 4294967295 octets, expected at most 262144")),
        (with(&start()), 1, format!("frame 3 (octet {len}): control frame 2, expected a frame of data or 3 (STOP)")),
        (with(&[control(3, None), vec![0]].concat()), 1, format!("frame 3 (octet {}): octets behind STOP, expected the end of the stream", len + 12)),
    ] {
        let (records, errors) = read(&octets);
        assert_eq!(errors, [expected]);
        assert_eq!(records.len(), read_before);
    }
}

/// A writer at a socket: what it sends, and what it was told.
#[derive(Debug)]
struct Peer {
    sends: Cursor<Vec<u8>>,
    told: Vec<u8>,
}

impl Read for Peer {
    fn read(&mut self, octets: &mut [u8]) -> std::io::Result<usize> {
        // In pieces, as from a socket.
        let len = octets.len().min(3);
        self.sends.read(&mut octets[..len])
    }
}

impl Write for Peer {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        self.told.write(octets)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_at_a_socket_is_accepted_and_told_that_all_was_read() {
    let good = outer(&inner(5, &dns("a.example", false)));
    let ready = control(4, Some(CONTENT_TYPE));
    let sends = [ready, start(), data(&good), control(3, None)].concat();
    let peer = Peer { sends: Cursor::new(sends), told: Vec::new() };
    let mut reader = Reader::accept(peer).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 1);
    reader.finish().unwrap();
    let told = [control(1, Some(CONTENT_TYPE)), control(5, None)].concat();
    assert_eq!(reader.into_inner().told, told);
    // One that expects no answers gets none.
    let sends = [start(), data(&good), control(3, None)].concat();
    let mut reader = Reader::accept(Peer { sends: Cursor::new(sends), told: Vec::new() }).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 1);
    assert_eq!(reader.content(), &control(3, None)[8..]);
    reader.finish().unwrap();
    assert_eq!(reader.into_inner().told, b"");
    let peer = Peer { sends: Cursor::new(control(3, None)), told: Vec::new() };
    let error = Reader::accept(peer).unwrap_err();
    let expected = "frame 1 (octet 0): control frame 3, expected 4 (READY) or 2 (START)";
    assert_eq!(error.to_string(), expected);
}

/// Octets that come in pieces, with nothing for some time before each; at the end there is nothing for ever.
struct Slow {
    pieces: Vec<Vec<u8>>,
    is_waited_for: bool,
    waits: usize,
}

impl Read for Slow {
    fn read(&mut self, octets: &mut [u8]) -> std::io::Result<usize> {
        self.is_waited_for ^= true;
        if self.is_waited_for || self.pieces.is_empty() {
            self.waits += 1;
            assert!(self.waits < 20, "waits for ever");
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let piece = &mut self.pieces[0];
        let len = octets.len().min(piece.len());
        octets[..len].copy_from_slice(&piece[..len]);
        piece.drain(..len);
        // What is left of the piece is there already.
        self.is_waited_for = !piece.is_empty();
        if piece.is_empty() {
            self.pieces.remove(0);
        }
        Ok(len)
    }
}

impl Write for Slow {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        Ok(octets.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_may_be_silent_between_frames_only() {
    let good = outer(&inner(5, &dns("a.example", false)));
    let slow = |pieces: Vec<Vec<u8>>| {
        // The first piece is there at once.
        Reader::accept(Slow { pieces, is_waited_for: true, waits: 0 })
    };
    let begin = [control(4, Some(CONTENT_TYPE)), start()].concat();
    let stop = control(3, None);
    let mut reader = slow(vec![begin.clone(), data(&good), stop]).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 1);
    let cut = data(&good)[..9].to_vec();
    let mut reader = slow(vec![begin.clone(), cut]).unwrap();
    let error = reader.next().unwrap().unwrap_err();
    let expected = format!("nothing more came after 5 of {} octets", good.len());
    assert!(error.is_end() && error.to_string().ends_with(&expected), "{error}");
    assert!(reader.next().is_none());
    for pieces in [vec![], vec![begin[..5].to_vec()], vec![control(4, None)]] {
        let error = slow(pieces).map(|_| ()).unwrap_err();
        assert!(matches!(error.fault, FrameFault::Silent { .. }), "{error}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    let tapped = |at: u64, is_response: bool, address: &str| Tapped {
        role: Role::Client,
        is_response,
        transport: Some(Transport::Udp),
        asker: (Some(address.parse().unwrap()), Some(40_000)),
        asked: (Some(address.parse().unwrap()), Some(53)),
        query_time: Some(at),
        response_time: is_response.then_some(at + 1),
        query: (!is_response).then(|| dns("a.example", false)),
        response: is_response.then(|| dns("a.example", true)),
    };
    let all = [
        tapped(1_700_000_000 * SECOND + 5, false, "10.0.0.1"),
        tapped(SECOND - 1, true, "2001:db8::1"),
        Tapped { transport: None, asker: (None, None), ..tapped(0, false, "192.0.2.1") },
    ];
    let mut writer = Writer::start(Vec::new()).unwrap();
    for tapped in &all {
        writer.message(tapped).unwrap();
    }
    writer.frame(b"").unwrap_err();
    writer.frame(&vec![0; FRAME_LEN_MAX + 1]).unwrap_err();
    let file = writer.stop().unwrap();
    let mut reader = Reader::new(&*file).unwrap();
    let read: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(read, all);
    reader.check_end().unwrap();
}

#[test]
fn a_capture_may_be_dnstap() {
    let frames = [
        outer(&inner(5, &dns("a.example", false))),
        outer(&inner(6, &dns("a.example", true))),
        vec![0x0b],
        outer(&inner(7, &dns("b.example", false))),
    ];
    let capture = crate::capture::read(&file(&frames), 53).unwrap();
    assert_eq!((capture.questions.len(), capture.others, capture.packets), (1, 2, 6));
    assert_eq!(capture.questions[0].time, 1_000 * SECOND + 5);
    assert_eq!((capture.faults.len(), capture.broken_frames.len()), (0, 1));
    assert_eq!(capture.broken_frames[0].frame, 4);
    let forwarder = crate::capture::read_roles(&file(&frames), 53, &[Role::Forwarder]).unwrap();
    assert_eq!(forwarder.questions.len(), 1);
    let open = |octets: &'static [u8]| crate::capture::open(octets, 53, &Role::OF_CLIENTS).err();
    assert!(open(b"text that is no capture").is_some() && open(b"").is_some());
    let octets = file(&frames);
    let messages = crate::capture::open(&*octets, 53, &Role::OF_CLIENTS).unwrap();
    assert_eq!(messages.map(|item| item.is_ok()).collect::<Vec<_>>(), [true, true, false]);
}

proptest! {
    #[test]
    fn a_cut_file_gives_its_whole_frames_and_one_error(cut in any::<prop::sample::Index>()) {
        let frames: Vec<_> = (0..4).map(|_| outer(&inner(5, &dns("a.example", false)))).collect();
        let octets = file(&frames);
        let cut = cut.index(octets.len());
        let (records, errors) = read(&octets[..cut]);
        let whole = cut.saturating_sub(start().len()) / data(&frames[0]).len();
        prop_assert_eq!((records.len(), errors.len()), (whole.min(4), 1));
    }

    #[test]
    fn spoilt_streams_are_read_as_far_as_they_can_be(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let frames: Vec<_> = (1..=14).map(|kind| {
            outer(&inner(kind, &dns("a.example", kind % 2 == 0)))
        }).collect();
        let mut octets = file(&frames);
        for (at, octet) in changes {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        octets.truncate(cut.index(octets.len() + 1));
        if let Ok(mut recording) = Recording::open(&*octets, &Role::ALL) {
            let mut ended = false;
            while let Some(item) = recording.read() {
                prop_assert!(!ended, "something follows the end");
                if let Err(error) = item {
                    prop_assert!(error.frame > 0 && error.at <= octets.len() as u64);
                    ended = error.is_end();
                }
            }
        }
    }

    #[test]
    fn any_octets_are_read_or_refused(octets: Vec<u8>, begun: bool) {
        let octets = if begun { [start(), octets].concat() } else { octets };
        _ = read(&octets);
        _ = crate::capture::read(&octets, 53);
    }

    #[test]
    fn any_frame_is_read_or_refused(frame: Vec<u8>) {
        let frame = outer(&frame);
        let (_, errors) = read(&file(&[frame, outer(&inner(5, &dns("a.example", false)))]));
        prop_assert!(errors.len() <= 1, "{:?}", errors);
    }
}
