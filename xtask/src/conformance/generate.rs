//! Makes a case's questions: every name plainly, then variations from a generator whose seed is the case's name, so
//! that each run asks the same. `--seed` makes it ask others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use domain::base::iana::{Class, Rtype};

use super::adapt::Adapted;
use super::case::Case;
use super::corefile::Corefile;
use super::random::Random;
use nodens_judge::question::{Defect, Edns, Question, bits};
use nodens_judge::signature::Signing;

/// Questions per transport when the case does not say.
pub(super) const DEFAULT_COUNT: usize = 70;

const IXFR: u16 = 251;

/// First labels that the local authority has rules for.
const LABELS: &[&str] = &[
    "www",
    "cname",
    "chain3",
    "nx",
    "nodata",
    "multi",
    "big",
    "servfail",
    "refused",
    "ttl1",
    "ttl7200",
    "signed",
    "expired",
    "extra",
    "v4only",
    "v6only",
    "saw",
    "deadcname",
    "nosoa",
    "ede",
    "aa",
    "tc",
    "referral",
    "barenodata",
    "notimp",
    "formerr",
    "negttl30",
    "nora",
    "ttl0",
];

const TYPES: &[&str] = &[
    "A",
    "A",
    "A",
    "AAAA",
    "AAAA",
    "MX",
    "TXT",
    "SRV",
    "NS",
    "SOA",
    "PTR",
    "CNAME",
    "ANY",
    "HTTPS",
    "CAA",
    "DS",
    "DNSKEY",
    "HINFO",
    "SVCB",
    "RRSIG",
    "NSEC",
    "DNAME",
    "NAPTR",
    "TYPE65280",
    "SSHFP",
];

/// Names that the templates of CoreDNS's README answer.
const TEMPLATE_NAMES: &[&str] = &[
    "ip-10-0-0-5.example.",
    "ip0a0b0c0d.example.",
    "ip-10-1-2-3.dc.example.",
    "10.1.2.3.ext.example.",
    "5.0.0.10.in-addr.arpa.",
    "10-0-0-5.abcdefghijklmnopqrstuvwxyz.example.com.",
    "192-0-2-5.abcdefghijklmnopqrstuvwxyz.example.com.",
    "www.example.com.dc1.example.com.",
    "example.com.dc1.example.com.",
    "a.invalid.",
];

/// The questions of `case` whose Corefile was adapted to `adapted`, in the order to ask them. Another `seed` gives
/// other variations.
pub(crate) fn questions(case: &Case, adapted: &Adapted, seed: &str) -> Result<Vec<Question>> {
    let mut random = Random::seeded(&format!("{}{seed}", case.name));
    let mut questions = Vec::new();
    for ask in &case.settings.asks {
        questions.push(parse_ask(ask).with_context(|| format!("in 'ask: {ask}'"))?);
    }
    let count = case.settings.count.unwrap_or(DEFAULT_COUNT);
    if count == 0 {
        return Ok(questions);
    }
    let names = names(case, adapted, &mut random);
    let clients = clients(case, adapted);
    let types = case.settings.types.iter().map(|t| rtype(t)).collect::<Result<Vec<u16>>>()?;
    let plain_types = if types.is_empty() { vec![1, 28] } else { types.clone() };
    let mut plain = Vec::new();
    for qtype in &plain_types {
        for (index, name) in names.iter().enumerate() {
            let client = clients[index % clients.len()];
            let port = adapted.served()[index % adapted.served().len()];
            plain.push(Question { port, ..Question::new(client, name, *qtype) });
        }
    }
    plain.truncate(count * 2 / 3);
    questions.extend(plain);
    while questions.len() < count {
        let qtype = match types.is_empty() || random.below(4) == 0 {
            true => rtype(random.one_of::<&str>(TYPES))?,
            false => *random.one_of(&types),
        };
        let mut question =
            Question::new(*random.one_of(&clients), random.one_of::<String>(&names), qtype);
        question.port = *random.one_of(adapted.served());
        if !case.settings.plain {
            for _ in 0..1 + random.below(2) {
                twist(&mut question, &mut random);
            }
        }
        questions.push(question);
    }
    let serials = &case.settings.serials;
    for question in questions.iter_mut().filter(|question| question.qtype == IXFR) {
        if !serials.is_empty() && question.serial.is_none() {
            question.serial = Some(*random.one_of::<u32>(serials));
        }
    }
    for question in questions.iter_mut().filter(|question| question.signing.is_none()) {
        let keys = &case.settings.keys;
        if !keys.is_empty() && random.below(3) > 0 {
            question.signing = Some(random.one_of::<Signing>(keys).clone());
        }
    }
    Ok(questions)
}

/// Changes one thing about a question. Things that real clients do come more often.
fn twist(question: &mut Question, random: &mut Random) {
    let edns =
        |question: &mut Question| question.edns.get_or_insert_with(|| Edns::of_size(1232)).clone();
    match random.below(34) {
        0..=4 => question.edns = Some(Edns::of_size(*random.one_of(&[1232, 4096, 512, 1400]))),
        5..=7 => question.edns = Some(Edns { dnssec_ok: true, ..edns(question) }),
        8 | 9 => question.flags ^= bits::RD,
        10 | 11 => question.flags |= bits::AD,
        12 | 13 => question.flags |= bits::CD,
        14 => question.edns = Some(Edns::of_size(*random.one_of(&[0, 100, 511, 65_535, 8192]))),
        15 | 16 => question.edns = Some(with_option(edns(question), random)),
        17 => question.edns = Some(Edns { version: 1, ..edns(question) }),
        18..=20 => question.qname = mix_case(&question.qname, random),
        21 => question.qclass = *random.one_of(&[3, 4, 254, 255, 2, 0, 4097]),
        22 => question.opcode = *random.one_of(&[1, 2, 3, 4, 5, 6, 15]),
        23 => question.flags |= *random.one_of(&[bits::AA, bits::TC, bits::RA, bits::Z]),
        24 => question.defect = *random.one_of(drawn_defects()),
        25 => question.qname = longest(&question.qname, random),
        26 => question.qtype = *random.one_of(&[0, 41, 251, 252, 255, 249, 250, 65_535, 53, 99]),
        27 => question.qname = format!("a.b.c.d.e.f.{}", question.qname),
        28 => question.qname = format!("\\000\\255x\\.y.{}", question.qname),
        29 if random.below(4) == 0 => question.flags |= bits::QR,
        _ => {}
    }
}

/// The defects that are drawn: all but the last, a signature, which cases ask for.
fn drawn_defects() -> &'static [Defect] {
    const ALL: &[Defect] = &Defect::ALL;
    ALL.split_last().map_or(ALL, |(_, drawn)| drawn)
}

fn with_option(mut edns: Edns, random: &mut Random) -> Edns {
    let options: [(u16, &[u8]); 9] = [
        (3, b""),                                  // NSID
        (10, b"\x01\x02\x03\x04\x05\x06\x07\x08"), // client cookie
        (10, b"\x01\x02\x03"),                     // cookie of a wrong length
        (8, b"\x00\x01\x18\x00\xc0\x00\x02"),      // ECS 192.0.2.0/24
        (8, b"\x00\x02\x20\x00\x20\x01\x0d\xb8"),  // ECS 2001:db8::/32
        (11, b""),                                 // keepalive
        (12, b"\x00\x00\x00\x00"),                 // padding
        (65_001, b"abcd"),                         // local use
        (9, b""),                                  // EXPIRE
    ];
    let (code, data) = random.one_of(&options);
    edns.options.push((*code, data.to_vec()));
    edns
}

fn mix_case(name: &str, random: &mut Random) -> String {
    let flip = |c: char| if random.below(2) == 0 { c.to_ascii_uppercase() } else { c };
    name.chars().map(flip).collect()
}

/// The name with labels in front, up to the limit of 255 octets or just short of it.
fn longest(name: &str, random: &mut Random) -> String {
    let mut name = name.to_owned();
    let limit = 253 - random.below(3);
    while name.len() + 2 <= limit {
        let label = (limit - name.len() - 1).min(63);
        name = format!("{}.{name}", "l".repeat(label));
    }
    name
}

/// The names to ask for, absolute.
fn names(case: &Case, adapted: &Adapted, random: &mut Random) -> Vec<String> {
    let mut names: Vec<String> = case.settings.names.clone();
    if names.is_empty() {
        let corefile = Corefile::parse(&case.text);
        let mut zones: Vec<String> =
            corefile.keys().filter_map(|key| zone_name(key.zone)).collect();
        let words = corefile
            .directives()
            .flat_map(|d| d.arguments.iter().chain(d.options.iter().flatten()));
        zones.extend(words.filter(|word| is_domain(&word.text)).map(|word| word.text.clone()));
        zones.sort();
        zones.dedup();
        for zone in &zones {
            names.push(zone.clone());
            for label in LABELS.iter().skip(random.below(3)).step_by(3) {
                names.push(join(label, zone));
            }
        }
        if case.directive == "template" {
            names.splice(0..0, TEMPLATE_NAMES.iter().map(|name| (*name).to_owned()));
        }
        names.extend(
            ["www.example.org", "localhost", "nx.example.com", "1.0.0.127.in-addr.arpa"]
                .map(str::to_owned),
        );
        names.extend(adapted.binds.is_empty().then(|| ".".to_owned()));
    }
    for name in &mut names {
        if !name.ends_with('.') {
            name.push('.');
        }
    }
    names
}

fn join(label: &str, zone: &str) -> String {
    if zone == "." { format!("{label}.") } else { format!("{label}.{zone}") }
}

/// The zone of a key; a network stands for the reverse zone of its first address.
fn zone_name(zone: &str) -> Option<String> {
    let Some((address, _)) = zone.split_once('/') else { return Some(zone.to_owned()) };
    let octets = address.parse::<Ipv4Addr>().ok()?.octets();
    let [a, b, c, d] = octets;
    Some(format!("{d}.{c}.{b}.{a}.in-addr.arpa"))
}

fn is_domain(word: &str) -> bool {
    let ok = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    word.contains('.')
        && word.chars().all(ok)
        && word.trim_end_matches('.').rsplit('.').next().is_some_and(|last| {
            last.len() > 1 && last.chars().all(|c| c.is_ascii_alphabetic()) && last != "conf"
        })
}

/// The addresses to ask from: those of the settings, or loopback ones with some in each network of the Corefile.
fn clients(case: &Case, adapted: &Adapted) -> Vec<IpAddr> {
    let mut clients = case.settings.clients.clone();
    if clients.is_empty() {
        let corefile = Corefile::parse(&adapted.text);
        let words = corefile.directives().flat_map(|d| d.options.iter().flatten());
        for word in words {
            let (address, length) = word.text.split_once('/').unwrap_or((&word.text, "32"));
            let (Ok(address), Ok(length)) = (address.parse::<Ipv4Addr>(), length.parse()) else {
                continue;
            };
            if address.is_loopback() && (8..=32).contains(&length) {
                clients.extend(inside(address, length));
            }
        }
        clients.extend([1, 1, 1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(127, 0, 0, host))));
        clients.push(IpAddr::V6(Ipv6Addr::LOCALHOST));
    }
    if !adapted.binds.is_empty() {
        clients
            .retain(|client| adapted.binds.iter().any(|bind| bind.is_ipv4() == client.is_ipv4()));
    }
    if clients.is_empty() {
        clients.extend(&adapted.binds);
    }
    clients
}

/// An address in a network, and one just after its end when the network leaves room.
fn inside(network: Ipv4Addr, length: u32) -> Vec<IpAddr> {
    let size = 1u32 << (32 - length);
    let base = network.to_bits();
    let within = base + 5.min(size - 1);
    [within, base.saturating_add(size + 5)]
        .into_iter()
        .map(Ipv4Addr::from_bits)
        .filter(Ipv4Addr::is_loopback)
        .map(IpAddr::V4)
        .collect()
}

fn rtype(text: &str) -> Result<u16> {
    match Rtype::from_str(text) {
        Ok(rtype) => Ok(rtype.to_int()),
        Err(_) => bail!("unknown type '{text}'"),
    }
}

fn class(text: &str) -> Result<u16> {
    match text {
        "ANY" => Ok(255),
        "NONE" => Ok(254),
        text => match Class::from_str(text) {
            Ok(class) => Ok(class.to_int()),
            Err(_) => bail!("unknown class '{text}'"),
        },
    }
}

/// Reads `NAME TYPE[=SERIAL] [-b ADDRESS] [-p PORT] [-c CLASS] [+norec] [+ad] [+cd] [+tc] [+qr] [+dnssec] [+bufsize=N]
/// [+nsid] [+opcode=N] [+ednsopt=CODE:HEX] [+broken=DEFECT] [-y ALGORITHM:NAME:SECRET [+skew=SECONDS] [+mac=OCTETS]]`.
fn parse_ask(text: &str) -> Result<Question> {
    let mut words = text.split_whitespace();
    let name = words.next().context("no name")?;
    let name = if name.ends_with('.') { name.to_owned() } else { format!("{name}.") };
    let qtype = words.next().context("no type")?;
    let (qtype, serial) = match qtype.split_once('=') {
        Some((qtype, serial)) => (qtype, Some(serial.parse()?)),
        None => (qtype, None),
    };
    let mut question = Question::new(IpAddr::V4(Ipv4Addr::LOCALHOST), &name, rtype(qtype)?);
    question.serial = serial;
    while let Some(word) = words.next() {
        let mut edns = question.edns.clone().unwrap_or_else(|| Edns::of_size(1232));
        let (option, value) = word.split_once('=').unwrap_or((word, ""));
        match option {
            "-b" => question.client = words.next().context("-b needs an address")?.parse()?,
            "-p" => question.port = words.next().context("-p needs a port")?.parse()?,
            "-c" => {
                question.qclass = class(words.next().context("-c needs a class")?)?;
            }
            "-y" => question.signing = Some(words.next().context("-y needs a key")?.parse()?),
            "+skew" => signing(&mut question)?.skew = value.parse()?,
            "+mac" => signing(&mut question)?.mac_len = Some(value.parse()?),
            "+norec" => question.flags &= !bits::RD,
            "+ad" => question.flags |= bits::AD,
            "+cd" => question.flags |= bits::CD,
            "+tc" => question.flags |= bits::TC,
            "+qr" => question.flags |= bits::QR,
            "+dnssec" => question.edns = Some(Edns { dnssec_ok: true, ..edns }),
            "+bufsize" => question.edns = Some(Edns { size: value.parse()?, ..edns }),
            "+broken" => {
                let named = |defect: &&Defect| format!("{defect:?}") == value;
                let defect = Defect::ALL.iter().find(named);
                question.defect = *defect.with_context(|| format!("no defect '{value}'"))?;
            }
            "+opcode" => question.opcode = value.parse()?,
            "+nsid" => {
                edns.options.push((3, Vec::new()));
                question.edns = Some(edns);
            }
            "+ednsopt" => {
                let (code, hex) = value.split_once(':').context("+ednsopt=CODE:HEX")?;
                edns.options.push((code.parse()?, from_hex(hex)?));
                question.edns = Some(edns);
            }
            word => bail!("unknown option '{word}'"),
        }
    }
    Ok(question)
}

fn signing(question: &mut Question) -> Result<&mut Signing> {
    question.signing.as_mut().context("-y has to come first")
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::adapt::adapt;
    use crate::conformance::authority::Upstreams;
    use crate::conformance::case::Settings;

    fn case(text: &str, settings: Settings) -> (Case, Adapted) {
        let name = "test/case".to_owned();
        let case = Case {
            directive: "acl".into(),
            name,
            text: text.into(),
            files: None,
            settings,
            transports: Vec::new(),
        };
        let mut port = 20_000;
        let adapted = adapt(text, &Upstreams::fixed(9000), || {
            port += 1;
            port
        });
        (case, adapted)
    }

    #[test]
    fn the_same_case_asks_the_same() {
        let (case, adapted) = case("example.org {\n acl\n}\n", Settings::default());
        let texts = |case, adapted| -> Vec<String> {
            questions(case, adapted, "").unwrap().iter().map(ToString::to_string).collect()
        };
        let first = texts(&case, &adapted);
        assert_eq!(first, texts(&case, &adapted));
        assert_eq!(first.len(), DEFAULT_COUNT);
        assert!(first.iter().any(|q| q.contains("www.example.org. A")), "{first:?}");
    }

    #[test]
    fn clients_come_from_the_networks_of_the_corefile() {
        let text = ". {\n acl {\n  block net 192.168.1.0/24\n }\n}\n";
        let (case, adapted) = case(text, Settings::default());
        let clients = clients(&case, &adapted);
        assert!(clients.contains(&"127.168.1.5".parse().unwrap()), "{clients:?}");
        assert!(clients.contains(&"127.168.2.5".parse().unwrap()), "{clients:?}");
    }

    #[test]
    fn asks_are_read_as_dig_would() {
        let asked = parse_ask("version.bind TXT -c CH +norec +nsid +dnssec").unwrap();
        assert_eq!((asked.qclass, asked.qtype, asked.flags), (3, 16, 0));
        let edns = asked.edns.unwrap();
        assert!(edns.dnssec_ok && edns.options == [(3, vec![])]);
        assert!(parse_ask("a.b A +bogus").is_err());
    }

    #[test]
    fn long_names_have_a_wire_form() {
        let mut random = Random::seeded("x");
        for _ in 0..20 {
            let name = longest("example.org.", &mut random);
            assert!(domain::base::Name::<Vec<u8>>::from_str(&name).is_ok(), "{}", name.len());
        }
    }
}
