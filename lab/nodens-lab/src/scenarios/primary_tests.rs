use super::*;
use crate::scenarios::zones;
use nodens_wire::Message;

fn query(name: &Name, qtype: Type, serial: Option<u32>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, 77, Flags::default());
    builder.question(name.view(), qtype, Class::IN);
    if let Some(serial) = serial {
        let rdata = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
        let fields = (Type::SOA, Class::IN, 0);
        builder.record(Section::Authority, name.view(), fields, &rdata).unwrap();
    }
    out
}

/// The types of all records of a transfer, which ends with the second SOA record of this serial.
fn transfer(stream: &mut TcpStream, request: &[u8], records: usize) -> Vec<Type> {
    stream.write_all(&framing::framed(request)).unwrap();
    let mut types = Vec::new();
    while types.len() < records {
        let octets = framing::read_message(stream).unwrap();
        let message = Message::parse(&octets).unwrap();
        assert_eq!(octets.get(..2), Some(&[0, 77][..]));
        types.extend(message.section(Section::Answer).iter().map(|record| record.rtype));
    }
    assert_eq!(types.len(), records);
    types
}

#[test]
fn a_secondary_gets_a_catalog_its_members_and_what_has_changed() {
    let primary = Primary::start(Zones::new(2_000, 0, 0), &[]).unwrap();
    let mut stream = TcpStream::connect(primary.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let catalog = Name::parse(zones::CATALOG).unwrap();
    let all = transfer(&mut stream, &query(&catalog, Type::AXFR, None), 2_004);
    assert_eq!(all.iter().filter(|rtype| **rtype == Type::PTR).count(), 2_000);
    let member = zones::member(1_999).unwrap();
    transfer(&mut stream, &query(&member, Type::AXFR, None), zones::RECORDS_OF_MEMBER + 1);
    primary.change(|zones| zones.change_catalog(vec![2_000], vec![0, 1]));
    assert_eq!(transfer(&mut stream, &query(&catalog, Type::IXFR, Some(1)), 7)[2], Type::PTR);
    assert_eq!(transfer(&mut stream, &query(&catalog, Type::IXFR, Some(2)), 1), [Type::SOA]);
    assert_eq!(primary.transfers().0, 4);
}

#[test]
fn a_serial_is_told_over_udp_a_stranger_refused_and_a_change_notified() {
    let primary = Primary::start(Zones::new(1, 50, 1), &[]).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 512];
    let mut ask = |name: &Name| {
        socket.send_to(&query(name, Type::SOA, None), primary.address).unwrap();
        let len = socket.recv(&mut buffer).unwrap();
        Message::parse(&buffer[..len]).unwrap()
    };
    let large = Name::parse(zones::LARGE).unwrap();
    assert_eq!(ask(&large).section(Section::Answer)[0].rtype, Type::SOA);
    let refused = ask(&zones::member(1).unwrap());
    assert_eq!(refused.flags.rcode(), Rcode::REFUSED);
    primary.change(Zones::change_large);
    primary.notify(Which::Large, socket.local_addr().unwrap()).unwrap();
    let len = socket.recv(&mut buffer).unwrap();
    let message = Message::parse(&buffer[..len]).unwrap();
    assert_eq!(message.flags.opcode(), Opcode::NOTIFY);
    assert!(message.section(Section::Answer)[0].rdata.windows(4).any(|four| four == [0, 0, 0, 2]));
}
