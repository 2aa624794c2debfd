use super::*;
use crate::Name;
use crate::suffixes::COMPARED;
use proptest::prelude::*;

#[test]
fn names_are_compressed_and_the_message_reads_back() {
    let mut out = Vec::new();
    let name = |text: &str| Name::parse(text).unwrap();
    let mut builder = Builder::new(&mut out, 1, Flags(0x8180));
    builder.question(name("www.example.org.").view(), Type::A, Class::IN);
    let fields = (Type::CNAME, Class::IN, 60);
    let target = name("a.example.org.");
    builder
        .record(Section::Answer, name("www.example.org.").view(), fields, target.as_wire())
        .unwrap();
    let fields = (Type::A, Class::IN, 60);
    builder.record(Section::Answer, target.view(), fields, &[192, 0, 2, 1]).unwrap();
    assert_eq!(out.len(), 12 + 17 + 4 + (2 + 10 + 4) + (2 + 10 + 4));
    let message = crate::Message::parse(&out).unwrap();
    assert_eq!(message.answer[0].rdata, target.as_wire());
    assert_eq!(message.answer[1].owner, target);
}

#[test]
fn names_may_end_in_rdata_that_is_not_compressed() {
    let name = |text: &str| Name::parse(text).unwrap();
    let (owner, target) = (name("_a._tcp.example.org."), name("host.example.org."));
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, 1, Flags(0));
    builder.question(owner.view(), Type::SRV, Class::IN);
    let rdata = [&[0, 0, 0, 1, 0, 53], target.as_wire()].concat();
    builder.record(Section::Answer, owner.view(), (Type::SRV, Class::IN, 60), &rdata).unwrap();
    let fields = (Type::A, Class::IN, 60);
    builder.record(Section::Additional, target.view(), fields, &[192, 0, 2, 1]).unwrap();
    let srv = 2 + 10 + 6 + target.as_wire().len();
    assert_eq!(out.len(), 12 + owner.as_wire().len() + 4 + srv + (2 + 10 + 4));
    let message = crate::Message::parse(&out).unwrap();
    assert_eq!(message.answer[0].rdata, rdata);
    assert_eq!(message.additional[0].owner, target);
}

#[test]
fn a_record_may_point_into_the_question() {
    let name: Name = "www.example.org.".parse().unwrap();
    let zone_at = HEADER_LEN + 4;
    let rdata = [b"\x02ns", &pointer_to(zone_at)[..]].concat();
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, 1, Flags(0));
    builder.question(name.view(), Type::NS, Class::IN);
    let fields = (Type::NS, Class::IN, 60);
    builder.record_at(Section::Answer, zone_at, fields, &rdata).unwrap();
    let big = vec![0; 65_535];
    let fields = (Type::TXT, Class::IN, 60);
    let error = builder.record_at(Section::Answer, HEADER_LEN, fields, &big).unwrap_err();
    assert_eq!(error, WireError::TooLong);
    let message = crate::Message::parse(&out).unwrap();
    assert_eq!(message.answer.len(), 1);
    assert_eq!(message.answer[0].owner, "example.org.".parse().unwrap());
    assert_eq!(message.answer[0].rdata, b"\x02ns\x07example\x03org\0");
}

#[test]
fn a_record_that_does_not_fit_leaves_a_whole_message() {
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, 1, Flags(0));
    builder.question(NameRef::root(), Type::TXT, Class::IN);
    let big = vec![0; 40_000];
    let fields = (Type::TXT, Class::IN, 0);
    builder.record(Section::Answer, NameRef::root(), fields, &big).unwrap();
    let error = builder.record(Section::Answer, NameRef::root(), fields, &big).unwrap_err();
    assert_eq!(error, WireError::TooLong);
    let message = crate::Message::parse(&out).unwrap();
    assert_eq!((message.answer.len(), message.flags.has(Flags::TC)), (1, true));
}

/// Writes messages as [`Builder`] does, and looks for every name among all that it remembers.
#[derive(Default)]
struct Reference {
    out: Vec<u8>,
    known: Vec<(u16, Vec<u8>)>,
}

impl Reference {
    fn name(&mut self, name: &Name, compress: bool) {
        let (wire, mut rest) = (name.as_wire(), name.view());
        while !rest.is_root() {
            if let Some((at, _)) = self.known.iter().find(|(_, known)| known == rest.as_wire()) {
                if compress {
                    self.out.extend((0xc000 | at).to_be_bytes());
                    return;
                }
                break;
            }
            let label = wire.len() - rest.as_wire().len();
            let at = self.out.len() + if compress { 0 } else { label };
            if at < 0x4000 && self.known.len() < 48 {
                self.known.push((at as u16, rest.as_wire().to_vec()));
            }
            let parent = rest.parent().unwrap();
            if compress {
                let len = rest.as_wire().len() - parent.as_wire().len();
                self.out.extend(&rest.as_wire()[..len]);
            }
            rest = parent;
        }
        self.out.extend(if compress { &[0] } else { wire });
    }

    /// A record with `padding` octets behind the name in its RDATA, if there is one.
    fn record(&mut self, owner: &Name, rtype: Type, target: Option<&Name>, padding: usize) -> bool {
        let (before, known) = (self.out.len(), self.known.len());
        self.name(owner, true);
        self.out.extend(rtype.0.to_be_bytes());
        self.out.extend([0, 1, 0, 0, 0, 60, 0, 0]);
        let at = self.out.len();
        if rtype == Type::SRV {
            self.out.extend([0; 6]);
        }
        if let Some(target) = target {
            self.name(target, rtype != Type::SRV);
        }
        self.out.resize(self.out.len() + padding, 7);
        let len = self.out.len() - at;
        if self.out.len() > MESSAGE_LEN_MAX || len > MESSAGE_LEN_MAX {
            self.out.truncate(before);
            self.known.truncate(known);
            self.out[2] |= 0x02;
            return false;
        }
        self.out[at - 2..at].copy_from_slice(&(len as u16).to_be_bytes());
        let count = u16::from_be_bytes([self.out[6], self.out[7]]) + 1;
        self.out[6..8].copy_from_slice(&count.to_be_bytes());
        true
    }
}

fn any_name() -> impl Strategy<Value = Name> {
    let label = prop_oneof!["[aA]", "[ab]{1,3}", "x{62}[ab]"];
    let few = prop::collection::vec(label, 0..5);
    let many = prop::collection::vec("[ab]", 60..127);
    prop_oneof![4 => few, 1 => many]
        .prop_filter_map("too long", |labels| Name::parse(&labels.join(".")).ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn names_end_with_the_pointers_a_search_of_all_names_finds(
        qname in any_name(),
        records in prop::collection::vec(
            (
                any_name(),
                prop_oneof![Just(Type::TXT), Just(Type::NS), Just(Type::SRV)],
                any_name(),
                prop_oneof![6 => 0..20_usize, 1 => 3000..9000_usize, 1 => 16_000..60_000_usize],
            ),
            0..40,
        ),
    ) {
        let mut reference = Reference { out: vec![0; HEADER_LEN], known: Vec::new() };
        reference.out[5] = 1;
        reference.name(&qname, true);
        reference.out.extend([0, 1, 0, 1]);
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, 0, Flags(0));
        builder.question(qname.view(), Type::A, Class::IN);
        for (owner, rtype, target, padding) in &records {
            let target = Some(target).filter(|_| *rtype != Type::TXT);
            let mut rdata = if *rtype == Type::SRV { vec![0; 6] } else { Vec::new() };
            rdata.extend(target.map_or(&[][..], Name::as_wire));
            rdata.resize(rdata.len() + padding, 7);
            let fields = (*rtype, Class::IN, 60);
            let written = builder.record(Section::Answer, owner.view(), fields, &rdata).is_ok();
            prop_assert_eq!(written, reference.record(owner, *rtype, target, *padding));
        }
        prop_assert_eq!(out, reference.out);
    }
}

/// What an upstream can send to make work: names as long as names can be that differ in the label
/// before the root.
#[test]
fn names_that_differ_at_the_end_are_told_apart_at_the_end() {
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, 0, Flags(0));
    builder.question(NameRef::root(), Type::A, Class::IN);
    let fields = (Type::A, Class::IN, 60);
    let names = (0..).map(|n| Name::parse(&format!("{}{n}.", "a.".repeat(124))).unwrap());
    let fits =
        |name: &Name| builder.record(Section::Answer, name.view(), fields, &[192, 0, 2, 1]).is_ok();
    assert_eq!(names.take_while(fits).count(), 245);
    // Each name with the one before the root of the first; the last one did not fit.
    assert_eq!(COMPARED.get(), 245);
}

/// The same with all that is remembered on the way to the last label.
#[test]
fn a_name_is_compared_with_each_suffix_once_at_most() {
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, 0, Flags(0));
    builder.question(Name::parse(&"a.".repeat(48)).unwrap().view(), Type::A, Class::IN);
    let fields = (Type::A, Class::IN, 60);
    for n in 0..1000 {
        let name = Name::parse(&format!("{n}.{}", "a.".repeat(48))).unwrap();
        builder.record(Section::Answer, name.view(), fields, &[192, 0, 2, 1]).unwrap();
    }
    assert_eq!(COMPARED.get(), 1000 * 48);
}

/// The records that a message reads as, and how long it is.
fn read(out: &[u8]) -> (crate::Message, usize) {
    (crate::Message::parse(out).unwrap(), out.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn records_of_an_rrset_read_as_if_written_one_by_one_and_are_hardly_longer(
        qname in any_name(),
        above in 0..4_usize,
        targets in prop::collection::vec(any_name(), 1..20),
        rtype in prop_oneof![Just(Type::NS), Just(Type::MX), Just(Type::TXT)],
    ) {
        let owner = (0..above).fold(qname.view(), |name, _| name.parent().unwrap_or(name));
        let fields = (rtype, Class::IN, 60);
        // An RRset has each once.
        let mut different = Vec::new();
        targets.into_iter().for_each(|name| {
            if !different.contains(&name) {
                different.push(name);
            }
        });
        let targets = different;
        let front: &[u8] = if rtype == Type::MX { &[0, 1] } else { &[] };
        let rdata: Vec<_> = targets.iter().map(|name| [front, name.as_wire()].concat()).collect();
        let (mut one_by_one, mut together) = (Vec::new(), Vec::new());
        let mut builder = Builder::new(&mut one_by_one, 0, Flags(0));
        builder.question(qname.view(), Type::A, Class::IN);
        for rdata in &rdata {
            builder.record(Section::Authority, owner, fields, rdata).unwrap();
        }
        for name in &targets {
            builder.record(Section::Additional, name.view(), (Type::A, Class::IN, 1), &[1; 4]).unwrap();
        }
        let mut builder = Builder::new(&mut together, 0, Flags(0));
        builder.question(qname.view(), Type::A, Class::IN);
        let of = builder.end_of_question(owner);
        prop_assert_eq!(of.is_none(), owner.is_root() || qname.view().label_count() > 48);
        let mut standing = [0; 16];
        let all = rdata.iter().map(Vec::as_slice);
        let of = of.unwrap_or(Owner::Name(owner));
        builder.records(Section::Authority, of, fields, all, &mut standing).unwrap();
        for (at, name) in targets.iter().enumerate() {
            let owner = match standing.get(at) {
                Some(stands @ 1..) => Owner::At(*stands),
                _ => Owner::Name(name.view()),
            };
            let rdata = std::iter::once(&[1; 4][..]);
            builder.records(Section::Additional, owner, (Type::A, Class::IN, 1), rdata, &mut []).unwrap();
        }
        let ((expected, long), (message, len)) = (read(&one_by_one), read(&together));
        prop_assert_eq!(message, expected);
        // A name that begins an earlier one is not looked for behind the first.
        prop_assert!(len <= long + 8 * targets.len(), "{} octets, not {}", len, long);
    }
}

#[test]
fn names_of_an_rrset_share_what_they_end_with_and_say_where_they_stand() {
    let name = |text: &str| Name::parse(text).unwrap();
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, 0, Flags(0));
    builder.question(name("www.example.org.").view(), Type::A, Class::IN);
    let cut = builder.end_of_question(name("example.org.").view()).unwrap();
    assert!(matches!(cut, Owner::At(16)));
    assert!(builder.end_of_question(name("EXAMPLE.org.").view()).is_none());
    assert!(builder.end_of_question(NameRef::root()).is_none());
    let servers =
        ["a.ns.example.org.", "b.ns.example.org.", "x.net.", "y.net.", "www.example.org."];
    let servers = servers.map(name);
    let mut standing = [0; 8];
    let rdata = servers.iter().map(Name::as_wire);
    let fields = (Type::NS, Class::IN, 60);
    builder.records(Section::Authority, cut, fields, rdata, &mut standing).unwrap();
    let start = 12 + 17 + 4;
    // Each has 12 octets before its RDATA.
    assert_eq!(standing, [start + 12, start + 31, start + 47, start + 66, 12, 0, 0, 0]);
    assert_eq!(
        out.len(),
        usize::from(start) + (12 + 7) + (12 + 4) + (12 + 7) + (12 + 4) + (12 + 2)
    );
    let message = crate::Message::parse(&out).unwrap();
    let read: Vec<_> = message.authority.iter().map(|record| record.rdata.clone()).collect();
    assert_eq!(read, servers.map(|name| name.as_wire().to_vec()));
}

#[test]
fn an_rrset_that_does_not_fit_ends_with_a_whole_record() {
    let name: Name = "example.org.".parse().unwrap();
    let big = vec![0; 40_000];
    for rdata in [[name.as_wire(), &big[..]], [&big[..], name.as_wire()]] {
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, 0, Flags(0));
        builder.question(name.view(), Type::TXT, Class::IN);
        let fields = (Type::TXT, Class::IN, 60);
        let all = rdata.into_iter().chain([&big[..]]);
        let of = Owner::At(HEADER_LEN as u16);
        let written = builder.records(Section::Answer, of, fields, all, &mut []);
        assert_eq!(written.unwrap_err(), WireError::TooLong);
        let message = crate::Message::parse(&out).unwrap();
        assert_eq!((message.answer.len(), message.flags.has(Flags::TC)), (2, true));
    }
}
