//! Random zones, plain and signed, answered by Knot DNS, NSD and BIND from the same file: what the
//! lookup finds and proves is what they say. `NODENS_ZONE_QUESTIONS` is how many questions are asked
//! for each kind of zone (500), at most 1,000 to one zone; `-- --nocapture` prints how often the peers
//! differ among themselves.

use nodens_testkit::{free_port, need};
use nodens_wire::{Builder, Class, Flags, Message, Name, NameRef, Rcode, Record, Section, Type};
use nodens_zone::RecordRef;
use nodens_zone::data::{Data, Edit, Found, Rrset};
use nodens_zone::master::{Master, NoIncludes};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(15);

const LABELS: [&str; 8] = ["a", "b", "c", "d", "aa", "*", "*", "-"];
const TYPES: [Type; 9] = [
    Type::A,
    Type::TXT,
    Type::NS,
    Type::DS,
    Type::CNAME,
    Type::MX,
    Type::DNAME,
    Type::SOA,
    Type::AAAA,
];

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn name(&mut self, longest: usize) -> Name {
        let labels = self.below(longest + 1);
        let labels: String =
            (0..labels).map(|_| format!("{}.", LABELS[self.below(LABELS.len())])).collect();
        name(&format!("{labels}z."))
    }
}

fn record(owner: &Name, rtype: Type, rdata: &[u8]) -> Record {
    Record { owner: owner.clone(), rtype, class: Class::IN, ttl: 300, rdata: rdata.to_vec() }
}

/// A zone that all peers load.
fn zone(numbers: &mut Numbers, records: usize) -> Edit {
    let mut edit = Edit::new(name("z.").view(), Class::IN).strict();
    let soa =
        [&b"\x02ns\x01x\0\x01h\x01x\0"[..], &1_u32.to_be_bytes(), &[0, 1, 0, 0].repeat(4)].concat();
    edit.add((&record(&name("z."), Type::SOA, &soa)).into()).unwrap();
    edit.add((&record(&name("z."), Type::NS, name("ns.x.").as_wire())).into()).unwrap();
    for number in 0..records {
        let (owner, target) = (numbers.name(4), name(&format!("t{}.x.", numbers.below(3))));
        let (rtype, rdata) = match numbers.below(12) {
            0..=3 => (Type::A, vec![192, 0, 2, number as u8]),
            4 => (Type::TXT, vec![1, number as u8 & 7]),
            5..=6 => (Type::NS, target.as_wire().to_vec()),
            7 => (Type::CNAME, target.as_wire().to_vec()),
            8 => (Type::MX, [&[0, 1], target.as_wire()].concat()),
            9 => (Type::DNAME, target.as_wire().to_vec()),
            _ => (Type::DS, [&[0, 1, 13, 2][..], &[number as u8; 32]].concat()),
        };
        let now = edit.clone().finish().unwrap();
        let found = now.lookup(owner.view(), Type::TXT);
        let is_wildcard = owner.as_wire().starts_with(b"\x01*");
        let is_fit = match rtype {
            // What these do at a wildcard, no RFC says.
            Type::NS => {
                !is_wildcard
                    && owner != name("z.")
                    && now.rrset(owner.view(), Type::DNAME).is_none()
            }
            // Peers refuse names below it.
            Type::DNAME => !is_wildcard && matches!(found, Found::NxDomain { .. }),
            Type::DS => owner != name("z.") && now.rrset(owner.view(), Type::NS).is_some(),
            // And some types beside NS.
            Type::CNAME => matches!(found, Found::NxDomain { .. }),
            _ => true,
        };
        let mut above = owner.view().parent();
        let mut below_dname = false;
        while let Some(name) = above {
            below_dname |= now.rrset(name, Type::DNAME).is_some();
            above = name.parent();
        }
        if is_fit && !below_dname {
            // A CNAME record and other data.
            _ = edit.add((&record(&owner, rtype, &rdata)).into());
        }
    }
    edit
}

/// The zone as a file.
fn text(data: &Data) -> String {
    let rdata = |record: RecordRef<'_>| {
        let digits: String = record.rdata.iter().map(|octet| format!("{octet:02x}")).collect();
        format!("\\# {} {digits}", record.rdata.len())
    };
    let soa = data.soa().record();
    let mut text = "z. 300 IN SOA ns.x. h.x. 1 65536 65536 65536 65536\n".to_owned();
    let mut cursor = data.cursor();
    loop {
        match cursor.advance() {
            nodens_zone::Advance::Record => {
                let record = cursor.record().unwrap();
                let number = record.rtype.0;
                text +=
                    &format!("{} {} IN TYPE{number} {}\n", record.owner, soa.ttl, rdata(record));
            }
            nodens_zone::Advance::Nothing => {}
            nodens_zone::Advance::End => return text,
        }
    }
}

fn read(text: String) -> Data {
    let origin = name("z.");
    let text = std::io::Cursor::new(text.into_bytes());
    let mut master = Master::new(Box::new(text), "z", origin.view(), Box::new(NoIncludes));
    let mut edit = Edit::new(origin.view(), Class::IN).strict();
    while let Some(record) = master.next_record().unwrap() {
        edit.add(record).unwrap();
    }
    edit.finish().unwrap()
}

/// Signs the zone in `folder/z` with BIND's tools.
fn sign(folder: &Path, more: &[&str]) {
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).current_dir(folder).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program}: {stderr}");
    };
    run("dnssec-keygen", &["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", "z"]);
    run("dnssec-keygen", &["-q", "-a", "ECDSAP256SHA256", "z"]);
    let args =
        [&["-S", "-P", "-Q", "-o", "z", "-O", "full", "-f", "signed"], more, &["z"]].concat();
    run("dnssec-signzone", &args);
    fs::rename(folder.join("signed"), folder.join("z")).unwrap();
}

struct Peer {
    name: &'static str,
    child: Child,
    socket: UdpSocket,
}

impl Drop for Peer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Peer {
    fn start(
        name: &'static str,
        folder: &Path,
        args: &[&str],
        config: &dyn Fn(u16) -> String,
    ) -> Self {
        let port = free_port();
        let file = folder.join(name);
        fs::write(&file, config(port)).unwrap();
        let log = fs::File::create(folder.join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(name);
        command.args(args).arg(&file).current_dir(folder).stdin(Stdio::null());
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let peer = Self { name, child, socket };
        let started = Instant::now();
        while peer
            .ask(name_ref(b"\x01z\0"), Type::SOA, false)
            .is_none_or(|message| message.answer.is_empty())
        {
            if started.elapsed() > PATIENCE {
                let log = fs::read_to_string(folder.join(format!("{name}.log"))).unwrap();
                let last: Vec<_> = log.lines().rev().take(12).collect();
                panic!("{name} does not serve: {last:#?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        peer
    }

    fn ask(&self, qname: NameRef<'_>, qtype: Type, wants_proof: bool) -> Option<Message> {
        let mut query = Vec::new();
        Builder::new(&mut query, 7, Flags::default()).question(qname, qtype, Class::IN);
        // OPT: 4,096 octets, DO.
        let flags = if wants_proof { 0x80 } else { 0 };
        query.extend_from_slice(&[0, 0, 41, 16, 0, 0, 0, flags, 0, 0, 0]);
        query[11] = 1;
        let mut buffer = [0; 65_535];
        self.socket.send(&query).ok()?;
        loop {
            let len = self.socket.recv(&mut buffer).ok()?;
            let message = Message::parse(&buffer[..len]).unwrap();
            // One that was waited for in vain may come late.
            let question = &message.questions[0];
            if question.qname.view() == qname && question.qtype == qtype {
                return Some(message);
            }
        }
    }
}

fn name_ref(wire: &[u8]) -> NameRef<'_> {
    NameRef::new(wire).unwrap()
}

fn start(folder: &Path) -> [Peer; 3] {
    let at = folder.display();
    let knot = |port| {
        format!(
            "server:\n  listen: 127.0.0.1@{port}\n  rundir: {at}\n  udp-workers: 1\n  tcp-workers: 1\n\
             database:\n  storage: {at}\nzone:\n  - domain: z\n    storage: {at}\n    file: z\n    \
             zonefile-sync: -1\n    journal-content: none\n    semantic-checks: off\n"
        )
    };
    let nsd = |port| {
        format!(
            "server:\n  ip-address: 127.0.0.1@{port}\n  username: \"\"\n  chroot: \"\"\n  \
             zonesdir: \"{at}\"\n  pidfile: \"{at}/pid\"\n  xfrdfile: \"{at}/xfrd\"\n  \
             xfrdir: \"{at}\"\n  zonelistfile: \"{at}/zones\"\n  database: \"\"\n  server-count: 1\n  \
             ipv4-edns-size: 4096\nremote-control:\n  control-enable: no\n\
             zone:\n  name: z\n  zonefile: z\n"
        )
    };
    let bind = |port| {
        format!(
            "options {{ directory \"{at}\"; pid-file \"{at}/pid.bind\"; session-keyfile \"{at}/key\"; \
             listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no; \
             dnssec-validation no; max-udp-size 4096; minimal-responses no-auth-recursive; \
             check-integrity no; check-names primary ignore; }};\ncontrols {{ }};\n\
             zone \"z\" {{ type primary; file \"z\"; }};\n"
        )
    };
    [
        Peer::start("knotd", folder, &["-c"], &knot),
        Peer::start("nsd", folder, &["-d", "-c"], &nsd),
        Peer::start("named", folder, &["-g", "-n", "1", "-c"], &bind),
    ]
}

/// Owners of the records that prove something.
fn proofs<'a>(owners: impl Iterator<Item = (NameRef<'a>, Type)>) -> String {
    let proofs = owners.filter(|(_, rtype)| matches!(*rtype, Type::NSEC | Type::NSEC3));
    let mut owners: Vec<_> = proofs.map(|(owner, _)| owner.to_string().to_lowercase()).collect();
    owners.sort();
    owners.dedup();
    format!(" proven by {owners:?}")
}

fn rdata<'a>(records: impl Iterator<Item = &'a [u8]>) -> String {
    let mut all: Vec<_> = records.collect();
    all.sort();
    format!("{all:?}")
}

fn set(set: Rrset<'_>) -> String {
    rdata(set.iter().map(|record| record.rdata))
}

/// What a peer says, in the words of [`ours`].
fn theirs(message: &Message, qname: &Name, qtype: Type) -> String {
    let of = |section: Section, rtype: Type| {
        let records = message.section(section).iter().filter(move |record| record.rtype == rtype);
        rdata(records.map(|record| &record.rdata[..]))
    };
    let has = |section: Section, rtype: Type| {
        message.section(section).iter().find(|record| record.rtype == rtype)
    };
    let proof =
        || proofs(message.authority.iter().map(|record| (record.owner.view(), record.rtype)));
    if let Some(dname) = has(Section::Answer, Type::DNAME).filter(|record| record.owner != *qname) {
        return format!("DNAME {} {:?}", dname.owner, dname.rdata);
    }
    if qtype != Type::CNAME && has(Section::Answer, Type::CNAME).is_some() {
        return format!("CNAME {}{}", of(Section::Answer, Type::CNAME), proof());
    }
    if message.flags.rcode() == Rcode::NXDOMAIN {
        return format!("NXDOMAIN{}", proof());
    }
    if has(Section::Answer, qtype).is_some() {
        return format!("answer {}{}", of(Section::Answer, qtype), proof());
    }
    match has(Section::Authority, Type::NS) {
        Some(ns) => {
            let (servers, ds) =
                (of(Section::Authority, Type::NS), of(Section::Authority, Type::DS));
            format!("referral {} {servers} DS {ds}{}", ns.owner, proof())
        }
        None => format!("NODATA{}", proof()),
    }
}

/// What the lookup finds.
fn ours(data: &Data, qname: &Name, qtype: Type, wants_proof: bool) -> String {
    let found = data.lookup(qname.view(), qtype);
    let proof = || {
        let proof = data.proof(qname.view(), &found);
        let none = proof.iter().filter(|_| wants_proof).filter_map(|part| part.rrset());
        let none = none.map(|set| (set.owner(), set.rtype()));
        proofs(none)
    };
    match found {
        Found::Answer { rrset, .. } => format!("answer {}{}", set(rrset), proof()),
        Found::Cname { rrset, .. } => format!("CNAME {}{}", set(rrset), proof()),
        Found::Dname { rrset, .. } => format!("DNAME {} {:?}", rrset.owner(), rrset.first()),
        Found::Referral(cut) => {
            let ds = cut.ds().filter(|_| wants_proof).map_or("[]".to_owned(), set);
            format!("referral {} {} DS {ds}{}", cut.name(), set(cut.ns().unwrap()), proof())
        }
        Found::NoData { .. } => format!("NODATA{}", proof()),
        Found::NxDomain { .. } => format!("NXDOMAIN{}", proof()),
        Found::Several { .. } | Found::Outside => panic!("{qname} {qtype}"),
    }
}

/// Compares answers to as many questions as are wanted.
fn compare(seed: u64, signature: Option<&[&str]>) {
    for (tool, package) in [("knotd", "knot"), ("nsd", "nsd"), ("named", "bind9")] {
        need(tool, package);
    }
    let questions = std::env::var("NODENS_ZONE_QUESTIONS").ok();
    let mut questions: usize = questions.and_then(|text| text.parse().ok()).unwrap_or(500);
    let mut seed = seed;
    while questions > 0 {
        let some = questions.min(1000);
        compare_zone(seed, signature, some);
        questions -= some;
        seed += 10;
    }
}

/// Asks the peers and the lookup. An answer has to be one that a peer gives; so if all agree, theirs.
/// Where each says something else, as below names that opt-out leaves out, nothing is known.
fn compare_zone(seed: u64, signature: Option<&[&str]>, questions: usize) {
    let mut numbers = Numbers(seed);
    let edit = zone(&mut numbers, 400);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("z"), text(&edit.finish().unwrap())).unwrap();
    if let Some(more) = signature {
        need("dnssec-signzone", "bind9-utils");
        sign(folder.path(), more);
    }
    let data = read(fs::read_to_string(folder.path().join("z")).unwrap());
    assert_eq!(data.is_signed(), signature.is_some());
    let peers = start(folder.path());
    let (mut differ, mut wrong) = (0, Vec::new());
    for _ in 0..questions {
        let (qname, qtype) = (numbers.name(6), TYPES[numbers.below(TYPES.len())]);
        let wants_proof = signature.is_some();
        let answers = peers.each_ref().map(|peer| {
            let started = Instant::now();
            let message = loop {
                match peer.ask(qname.view(), qtype, wants_proof) {
                    Some(message) => break message,
                    None => assert!(started.elapsed() < PATIENCE, "{} {qname}", peer.name),
                }
            };
            theirs(&message, &qname, qtype)
        });
        let ours = ours(&data, &qname, qtype, wants_proof);
        let [a, b, c] = &answers;
        differ += usize::from(a != b || b != c);
        let some_agree = a == b || b == c || a == c;
        if some_agree && !answers.contains(&ours) {
            wrong.push(format!("{qname} {qtype}\n  ours {ours}\n  theirs {answers:#?}"));
        }
    }
    eprintln!(
        "{questions} questions to a zone of {} records: {} answers unlike those of all peers, {differ} to \
         which the peers differ",
        data.records(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{} wrong: {}", wrong.len(), wrong[..wrong.len().min(4)].join("\n"));
}

#[test]
fn plain_zones_are_answered_as_by_peers() {
    compare(1, None);
}

#[test]
fn zones_signed_with_nsec_are_answered_as_by_peers() {
    compare(2, Some(&[]));
}

#[test]
fn zones_signed_with_nsec3_are_answered_as_by_peers() {
    compare(3, Some(&["-3", "aabb", "-H", "1"]));
}

#[test]
fn zones_signed_with_nsec3_and_opt_out_are_answered_as_by_peers() {
    compare(4, Some(&["-3", "-", "-H", "0", "-A"]));
}
