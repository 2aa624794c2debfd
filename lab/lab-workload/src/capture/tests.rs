use super::*;
use etherparse::PacketBuilder;
use nodens_wire::framing::framed;
use nodens_wire::{Name, Type};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn query(name: &str) -> Vec<u8> {
    let mut workload = Workload::new(0);
    workload.push(Name::parse(name).unwrap().view(), Type::A, None);
    let mut out = Vec::new();
    workload.append(0, 0x1234, &mut out);
    out
}

fn response(name: &str) -> Vec<u8> {
    let mut response = query(name);
    response[2] |= 0x80;
    response
}

fn udp(client: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([1; 6], [2; 6]);
    let builder = ethernet.ipv4([10, 0, 0, client], [10, 0, 0, 53], 64).udp(40_000, port);
    let mut packet = Vec::new();
    builder.write(&mut packet, payload).unwrap();
    packet
}

fn tcp(sequence: u32, syn: bool, payload: &[u8]) -> Vec<u8> {
    let address =
        |last| format!("2001:db8::{last}").parse::<std::net::Ipv6Addr>().unwrap().octets();
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv6(address(9), address(53), 64);
    let builder = builder.tcp(41_000, 53, sequence, 1_000);
    let builder = if syn { builder.syn() } else { builder.ack(1) };
    let mut packet = Vec::new();
    builder.write(&mut packet, payload).unwrap();
    packet
}

/// A capture file with packets a millisecond apart.
fn pcap(packets: &[Vec<u8>], big: bool) -> Vec<u8> {
    let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let short = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file = number(0xa1b2_c3d4).to_vec();
    file.extend([short(2), short(4)].concat());
    file.extend([number(0), number(0), number(65_535), number(1)].concat());
    for (at, packet) in packets.iter().enumerate() {
        let len = number(packet.len() as u32);
        file.extend([number(1_000), number(1_000 * at as u32), len, len].concat());
        file.extend(packet);
    }
    file
}

fn block(kind: u32, body: &[u8], big: bool) -> Vec<u8> {
    let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let padded = body.len().next_multiple_of(4);
    let len = number(12 + padded as u32);
    let mut block = [number(kind), len].concat();
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(len);
    block
}

/// The same as pcapng, with times in nanoseconds.
fn pcapng(packets: &[Vec<u8>], big: bool) -> Vec<u8> {
    let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let short = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let section = [&number(0x1a2b_3c4d)[..], &short(1), &short(0), &[0xff; 8]].concat();
    let mut file = block(0x0a0d_0d0a, &section, big);
    let resolution = [&short(9)[..], &short(1), &[9, 0, 0, 0], &[0; 4]].concat();
    let interface = [&short(1)[..], &short(0), &number(0), &resolution].concat();
    file.extend(block(1, &interface, big));
    for (at, packet) in packets.iter().enumerate() {
        let time = 1_000 * SECOND + 1_000_000 * at as u64;
        let len = number(packet.len() as u32);
        let head = [number(0), number((time >> 32) as u32), number(time as u32), len, len].concat();
        file.extend(block(6, &[&head[..], packet].concat(), big));
    }
    file
}

/// A capture of one interface, with `options`, whose only packet has this time in the interface's units.
fn with_options(options: &[(u16, Vec<u8>)], ticks: u64, kind: u32, big: bool) -> Vec<u8> {
    let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let short = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file = pcapng(&[], big)[..28].to_vec();
    let mut interface = [&short(1)[..], &short(0), &number(0)].concat();
    for (code, value) in options {
        interface.extend([short(*code), short(value.len() as u16)].concat());
        interface.extend(value);
        interface.resize(interface.len().next_multiple_of(4), 0);
    }
    interface.extend([0; 4]);
    file.extend(block(1, &interface, big));
    let packet = udp(1, 53, &query("a.example"));
    // The older kind of block has a number of 16 bits for the interface, and another for dropped packets.
    let id = if kind == 2 { [short(0), short(7)].concat() } else { number(0).to_vec() };
    let len = number(packet.len() as u32);
    let time = [number((ticks >> 32) as u32), number(ticks as u32)].concat();
    file.extend(block(kind, &[id, time, len.to_vec(), len.to_vec(), packet].concat(), big));
    file
}

fn names(capture: &Capture) -> Vec<String> {
    let workload = capture.workload(0, None);
    (0..capture.questions.len() as u64).map(|n| workload.name_of(n).to_string()).collect()
}

fn faults(capture: &Capture) -> Vec<String> {
    capture.faults.iter().map(ToString::to_string).collect()
}

/// Packets of all kinds: queries of three clients, responses, others, and broken ones.
fn mixed() -> Vec<Vec<u8>> {
    let mut cut = udp(1, 53, &query("cut.example"));
    cut.truncate(50);
    vec![
        udp(1, 53, &query("a.example")),
        udp(2, 53, &query("b.example")),
        udp(1, 53, &response("a.example")),
        udp(1, 443, b"something else"),
        cut,
        udp(3, 53, b"short"),
        tcp(100, true, &[]),
        tcp(101, false, &[&framed(&query("c.example"))[..], &framed(&query("d.example"))].concat()),
        udp(2, 53, &query("a.example")),
        vec![],
    ]
}

#[test]
fn queries_are_taken_with_clients_and_times_and_broken_packets_named() {
    for file in [
        pcap(&mixed(), false),
        pcap(&mixed(), true),
        pcapng(&mixed(), false),
        pcapng(&mixed(), true),
    ] {
        let capture = read(&file, 53).unwrap();
        assert_eq!(
            names(&capture),
            ["a.example.", "b.example.", "c.example.", "d.example.", "a.example."]
        );
        let clients: Vec<_> = capture.questions.iter().map(|question| question.client).collect();
        assert_eq!(clients, [0, 1, 2, 2, 1]);
        assert_eq!((capture.packets, capture.others), (10, 2));
        let faults = faults(&capture);
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[0].starts_with("packet 5: ") && faults[2].starts_with("packet 10: "));
        assert_eq!(faults[1], "packet 6: a message of 5 octets, expected at least 12");
        let workload = capture.workload(0, Some(2.0));
        assert_eq!(workload.times(), [0, 500_000, 3_500_000, 3_500_000, 4_000_000]);
        assert_eq!((workload.len(), workload.period()), (4, Some(5)));
        assert_eq!((workload.client(2, 8), workload.client(4, 8)), (2, 1));
        assert_eq!((workload.time_of(4), workload.time_of(5)), (Some(4_000_000), None));
        assert_eq!(capture.questions[0].time, 1_000 * SECOND);
    }
}

#[test]
fn another_port_is_asked_for_by_number() {
    let packets = [udp(1, 5353, &query("a.example")), udp(1, 53, &query("b.example"))];
    assert_eq!(names(&read(&pcap(&packets, false), 5353).unwrap()), ["a.example."]);
}

#[test]
fn a_cut_file_keeps_its_whole_packets_and_names_the_cut_one() {
    let packets = mixed();
    for (file, start) in [(pcap(&packets[..2], false), 24), (pcapng(&packets[..2], false), 60)] {
        let second = start + (file.len() - start) / 2;
        for len in second + 1..file.len() {
            let capture = read(&file[..len], 53).unwrap();
            assert_eq!(names(&capture), ["a.example."]);
            let expected =
                format!("packet 2: the file ends inside it (it starts at octet {second})");
            assert_eq!(faults(&capture), [expected]);
        }
    }
    for octets in [&b""[..], b"text", b"\x0a\x0d\x0d\x0a", &[0; 100]] {
        assert_eq!(read(octets, 53).map(|_| ()), Err(NoCapture));
    }
}

#[test]
fn a_broken_block_is_skipped_by_its_length() {
    let packets = mixed();
    let mut file = pcapng(&packets[..1], false);
    let at = file.len();
    let mut broken = block(6, &[0xff; 24], false);
    broken[8..].fill(0xff);
    file.extend(&broken);
    let rest = pcapng(&packets[1..2], false);
    file.extend(&rest[60..]);
    let capture = read(&file, 53).unwrap();
    assert_eq!(faults(&capture), [format!("packet 2: octet {at} of the file: a broken block")]);
    assert_eq!(names(&capture), ["a.example.", "b.example."]);
}

#[test]
fn a_block_that_is_shorter_than_its_frame_ends_the_file() {
    let packets = mixed();
    for kind in [1, 6, 0x8000_0001, 0xfff0_1233] {
        for (big, len) in [(false, 0_u32), (false, 9), (true, 11)] {
            let mut file = pcapng(&packets[..1], big);
            let at = file.len();
            let mut broken = block(kind, &[0; 24], big);
            broken[4..8].copy_from_slice(&if big { len.to_be_bytes() } else { len.to_le_bytes() });
            file.extend(&broken);
            let capture = read(&file, 53).unwrap();
            let what = "a broken block without a length, the rest is left out";
            assert_eq!(faults(&capture), [format!("packet 2: octet {at} of the file: {what}")]);
            assert_eq!(names(&capture), ["a.example."]);
        }
    }
}

#[test]
fn devices_of_every_kind_give_the_same_packets() {
    let packet = udp(1, 53, &query("a.example"));
    // Ethernet, loopback, a tunnel, PPP, and one without addresses.
    for kind in [1_u16, 772, 768, 512, 65_534] {
        let cooked = [&[0, 0], &kind.to_be_bytes()[..], &[0; 10], &packet[12..]].concat();
        let datagram = packet::read(113, &cooked, 53).unwrap().unwrap();
        let peers = [([10, 0, 0, 1].into(), 40_000), ([10, 0, 0, 53].into(), 53)];
        assert_eq!([datagram.from, datagram.to], peers, "{kind}");
        assert_eq!(datagram.payload, query("a.example"));
        assert!(packet::read(113, &cooked[..15], 53).is_err());
    }
}

#[test]
fn a_cut_packet_of_other_ports_or_protocols_is_none_of_ours() {
    let long = |from: u16, to: u16| {
        let builder =
            PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 53], 64);
        let mut packet = Vec::new();
        builder.tcp(from, to, 1, 1_000).ack(1).write(&mut packet, &[7; 1_000]).unwrap();
        packet
    };
    let mut encrypted = long(53, 53);
    // The header's check is the sum of all: it is not looked at.
    encrypted[23] = 50;
    for (packet, is_ours) in [
        (long(40_000, 443), false),
        (long(40_000, 53), true),
        (long(53, 40_000), true),
        (encrypted, false),
    ] {
        for len in [38, 50, 96] {
            let read = packet::read(1, &packet[..len], 53);
            assert_eq!(read.is_err(), is_ours, "{len} octets");
            assert!(is_ours || matches!(read, Ok(None)));
        }
        assert!(packet::read(1, &packet[..36], 53).is_err() || packet[23] == 50, "no ports");
    }
}

#[test]
fn interfaces_say_what_their_times_mean() {
    let units = |resolution: u8| match resolution {
        0x80.. => 1 << (resolution & 0x7f),
        _ => 10_u64.pow(resolution.into()),
    };
    // 200 is 2 to the power of 72, 20 ten to the power of 20.
    for resolution in [6, 9, 0x8a, 0x94, 0x9e, 200, 20] {
        for (big, offset) in [(false, 0), (true, 0), (false, 1_700_000_000), (true, 1_700_000_000)]
        {
            let octets = |offset: i64| {
                if big { offset.to_be_bytes() } else { offset.to_le_bytes() }.to_vec()
            };
            let options = [(9, vec![resolution]), (14, octets(offset))];
            let fits = ![200, 20].contains(&resolution);
            // Two seconds and a half.
            let ticks = if fits { units(resolution) * 5 / 2 } else { 5 };
            let capture = read(&with_options(&options, ticks, 6, big), 53).unwrap();
            let times: Vec<_> = capture.questions.iter().map(|question| question.time).collect();
            if fits {
                assert_eq!(times, [offset as u64 * SECOND + 2_500_000_000], "{resolution} {big}");
                assert_eq!(faults(&capture), [""; 0]);
            } else {
                assert_eq!(times, []);
                let faults = faults(&capture);
                assert!(
                    faults.len() == 1 && faults[0].contains("more units of time"),
                    "{faults:?}"
                );
            }
        }
    }
}

#[test]
fn blocks_of_packets_may_be_of_the_older_kind() {
    for big in [false, true] {
        let file = with_options(&[(9, vec![9])], 1_700_000_000 * SECOND, 2, big);
        let capture = read(&file, 53).unwrap();
        assert_eq!(capture.questions.len(), 1, "{:?}", faults(&capture));
        assert_eq!(capture.questions[0].time, 1_700_000_000 * SECOND);
        let mut broken = file;
        let len = broken.len() - udp(1, 53, &query("a.example")).len().next_multiple_of(4) - 12;
        broken[len..len + 4].fill(0x7f);
        let capture = read(&broken, 53).unwrap();
        assert_eq!((capture.packets, capture.faults.len()), (1, 1));
    }
}

#[test]
fn missing_octets_end_a_connection_and_name_the_packet_behind_them() {
    let message = framed(&query("a.example"));
    let len = message.len() as u32;
    let packets = [
        tcp(100, true, &[]),
        tcp(101, false, &message),
        tcp(101 + 2 * len, false, &message),
        tcp(7_000, true, &[]),
        tcp(7_001, false, &message[..9]),
    ];
    let capture = read(&pcap(&packets, false), 53).unwrap();
    assert_eq!(names(&capture).len(), 1);
    assert_eq!(
        faults(&capture),
        [
            "packet 3: octets of its TCP connection are missing before it, the rest is left out",
            "packet 5: its TCP connection ends with 9 octets of an unfinished message",
        ]
    );
    let middle = read(&pcap(&[tcp(5, false, &message[9..])], false), 53).unwrap();
    assert_eq!(
        faults(&middle),
        ["packet 1: a connection whose first octets are not a DNS message, left out"]
    );
}

proptest! {
    #[test]
    fn segments_in_any_order_and_more_than_once_give_the_same_messages(
        names_asked in proptest::collection::vec("[a-z]{1,20}", 1..6),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        order in any::<u64>(),
        origin: u32,
    ) {
        let stream: Vec<u8> = names_asked.iter().flat_map(|name| framed(&query(name))).collect();
        let mut edges: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
        edges.extend([0, stream.len()]);
        edges.sort_unstable();
        let mut segments: Vec<_> = edges.windows(2).map(|edge| (edge[0], edge[1])).collect();
        // Some are sent again, with more octets.
        for at in 0..segments.len() / 2 {
            segments.push((segments[at].0, segments[at + 1].1));
        }
        segments.sort_by_key(|segment| lab_random::at(order, (segment.0 * 1_000 + segment.1) as u64));
        let mut packets = vec![tcp(origin, true, &[])];
        packets.extend(segments.iter().map(|(from, to)| {
            let sequence = origin.wrapping_add(1).wrapping_add(*from as u32);
            tcp(sequence, false, &stream[*from..*to])
        }));
        let capture = read(&pcap(&packets, false), 53).unwrap();
        let expected: Vec<_> = names_asked.iter().map(|name| format!("{name}.")).collect();
        prop_assert_eq!(names(&capture), expected);
        prop_assert_eq!(faults(&capture), Vec::<String>::new());
    }

    #[test]
    fn spoilt_captures_are_read_as_far_as_they_can_be(
        ng: bool, big: bool,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..30),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut file = if ng { pcapng(&mixed(), big) } else { pcap(&mixed(), big) };
        for (at, octet) in changes {
            let at = at.index(file.len());
            file[at] = octet;
        }
        file.truncate(cut.index(file.len() + 1));
        if let Ok(capture) = read(&file, 53) {
            _ = capture.workload(1, Some(1.0));
            prop_assert!(capture.faults.iter().all(|error| error.packet > 0));
        }
    }

    #[test]
    fn any_octets_are_read_or_refused(octets: Vec<u8>, ng: bool) {
        let start: &[u8] = if ng { &[0x0a, 0x0d, 0x0d, 0x0a] } else { &[0xd4, 0xc3, 0xb2, 0xa1] };
        _ = read(&octets, 53);
        _ = read(&[start, &octets[..]].concat(), 53);
    }
}

#[test]
fn a_query_that_several_devices_have_is_one() {
    let [asked, other] = ["a.example.", "b.example."].map(|name| udp(1, 53, &query(name)));
    // Packets 1 to 3 are a few microseconds apart, as of a pod's device, the bridge and the node's own.
    let mut file = pcap(&[asked.clone(), asked.clone(), asked.clone(), other, asked], false);
    let mut at = 24;
    for micros in [0_u32, 7, 19, 25, 900_000] {
        file[at + 4..at + 8].copy_from_slice(&micros.to_le_bytes());
        at += 16 + u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    let capture = read(&file, 53).unwrap();
    assert_eq!((capture.questions.len(), capture.copies), (3, 2));
    assert_eq!(capture.questions[2].time - capture.questions[0].time, SECOND * 9 / 10);
}
