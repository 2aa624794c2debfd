//! What the local authority answers: a pure function of the question, so that both servers get the same.
//!
//! The first label of the name, without digits, names the rule; digits are its argument (`chain5`, `ttl30`). The
//! records are master file lines.

use std::time::Duration;

use domain::base::iana::{Rcode, Rtype};

/// A question as it arrived.
#[derive(Debug)]
pub(super) struct Seen {
    /// In presentation format with the final dot, in the case of the question.
    pub(super) qname: String,
    pub(super) qtype: Rtype,
    pub(super) tcp: bool,
    pub(super) rd: bool,
    pub(super) ad: bool,
    pub(super) cd: bool,
    /// UDP size, DO bit and options (code and data in hexadecimal) when there was an OPT record.
    pub(super) edns: Option<(u16, bool, Vec<String>)>,
}

impl Seen {
    fn dnssec_ok(&self) -> bool {
        self.edns.as_ref().is_some_and(|(_, dnssec_ok, _)| *dnssec_ok)
    }
}

/// What to answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) rcode: Rcode,
    pub(super) aa: bool,
    pub(super) ad: bool,
    pub(super) ra: bool,
    pub(super) tc: bool,
    pub(super) answer: Vec<String>,
    pub(super) authority: Vec<String>,
    pub(super) additional: Vec<String>,
    /// `None`: no answer at all.
    pub(super) after: Option<Duration>,
    /// An EDE code to add.
    pub(super) ede: Option<u16>,
    /// Ask back another question than the one received.
    pub(super) other_question: bool,
}

/// The answer of upstream `flavour` to `seen`.
pub(super) fn reply(seen: &Seen, flavour: usize) -> Reply {
    let name = seen.qname.as_str();
    let lower = name.to_ascii_lowercase();
    let first = lower.split('.').next().unwrap_or("");
    let digits = first.trim_start_matches(|c: char| !c.is_ascii_digit());
    let word = &first[..first.len() - digits.len()];
    let number: Option<u32> = digits.parse().ok();
    // `nx0` and the like hold for one flavour only.
    let here = number.is_none_or(|number| number as usize == flavour);

    let mut reply = Reply {
        rcode: Rcode::NOERROR,
        aa: false,
        ad: false,
        ra: true,
        tc: false,
        answer: Vec::new(),
        authority: Vec::new(),
        additional: Vec::new(),
        after: Some(Duration::ZERO),
        ede: None,
        other_question: false,
    };
    let rcode = match word {
        "nx" | "nosoa" => Some(Rcode::NXDOMAIN),
        "servfail" => Some(Rcode::SERVFAIL),
        "refused" => Some(Rcode::REFUSED),
        "notimp" => Some(Rcode::NOTIMP),
        "formerr" => Some(Rcode::FORMERR),
        "yxdomain" => Some(Rcode::YXDOMAIN),
        _ => None,
    };
    match rcode {
        Some(rcode) if here => {
            reply.rcode = rcode;
            if word == "nx" {
                reply.authority.push(soa(name, 300));
            }
            return reply;
        }
        _ => {}
    }
    shape(&mut reply, word, number, seen);
    let ttl = if word == "ttl" { number.unwrap_or(0) } else { 300 };
    let (owner, exists) = aliases(&mut reply, word, number, name, ttl);
    if exists && !(word == "nodata" && here) {
        reply.answer.extend(records(&owner, seen, flavour, word, ttl));
    }
    if reply.answer.is_empty() && word != "referral" && word != "barenodata" {
        let minimum = if word == "negttl" { number.unwrap_or(0) } else { 300 };
        reply.authority.push(soa(name, minimum));
    }
    reply
}

/// What the rule does to the header and the other sections.
fn shape(reply: &mut Reply, word: &str, number: Option<u32>, seen: &Seen) {
    let name = &seen.qname;
    match word {
        "aa" => reply.aa = true,
        "nora" => reply.ra = false,
        "tc" => reply.tc = !seen.tcp,
        "mute" => reply.after = None,
        "slow" => reply.after = Some(Duration::from_millis(u64::from(number.unwrap_or(100)))),
        "ede" => reply.ede = Some(15),
        "otherquestion" => reply.other_question = true,
        "signed" | "expired" => reply.ad = (seen.dnssec_ok() || seen.ad) && !seen.cd,
        "extra" => {
            reply.authority.push(format!("{name} 300 IN NS ns1.example.net."));
            reply.additional.push("ns1.example.net. 60 IN A 192.0.2.53".to_owned());
        }
        "referral" => {
            reply.authority.push(format!("{name} 300 IN NS ns1.example.net."));
            reply.additional.push("ns1.example.net. 300 IN A 192.0.2.53".to_owned());
        }
        _ => {}
    }
}

/// Adds the CNAME records of the rule; gives the name whose records end the answer and whether it has any.
fn aliases(
    reply: &mut Reply,
    word: &str,
    number: Option<u32>,
    name: &str,
    ttl: u32,
) -> (String, bool) {
    let parent = parent(name);
    match word {
        "cname" => {
            let target = child("www", parent);
            reply.answer.push(format!("{name} {ttl} IN CNAME {target}"));
            (target, true)
        }
        "deadcname" => {
            reply.answer.push(format!("{name} {ttl} IN CNAME {}", child("nx", parent)));
            reply.rcode = Rcode::NXDOMAIN;
            reply.authority.push(soa(name, 300));
            (String::new(), false)
        }
        "chain" => {
            let mut owner = name.to_owned();
            for step in (0..number.unwrap_or(3).min(20)).rev() {
                let target = child(&format!("step{step}"), parent);
                reply.answer.push(format!("{owner} {} IN CNAME {target}", ttl + step));
                owner = target;
            }
            (owner, true)
        }
        "v4only" | "v6only" | "referral" | "barenodata" => (name.to_owned(), word != "referral"),
        _ => (name.to_owned(), true),
    }
}

/// The records at `owner` for the type asked.
fn records(owner: &str, seen: &Seen, flavour: usize, word: &str, ttl: u32) -> Vec<String> {
    let hash = hash(owner);
    let (high, low) = (hash >> 8 & 255, hash & 255);
    let flavour = flavour + 1;
    let a = |host: u32| format!("10.{flavour}.{high}.{}", (low + host) % 256);
    let aaaa = format!("2001:db8:{flavour}::{hash:x}");
    let mut data = match seen.qtype {
        _ if word == "barenodata" => vec![],
        Rtype::A if word == "v6only" => vec![],
        Rtype::AAAA if word == "v4only" => vec![],
        Rtype::A if word == "multi" => (0..6).map(&a).collect(),
        Rtype::A if word == "big" => (0..60).map(&a).collect(),
        Rtype::A => vec![a(0)],
        Rtype::AAAA if word == "multi" => vec![aaaa.clone(), format!("{aaaa}:1")],
        Rtype::AAAA => vec![aaaa],
        Rtype::TXT if word == "saw" => vec![saw(seen)],
        Rtype::TXT if word == "big" => {
            (0..12).map(|n| format!("\"{n:03} {}\"", "x".repeat(200))).collect()
        }
        Rtype::TXT => vec![format!("\"text {hash}\" \"flavour {flavour}\"")],
        Rtype::MX => lines(&["10 mx1.example.net.", "20 MX2.example.net."]),
        Rtype::SRV => lines(&["0 50 8080 a.example.net.", "1 50 8443 b.example.net."]),
        Rtype::NS => lines(&["ns1.example.net.", "ns2.example.net."]),
        Rtype::SOA => lines(&["ns1.example.net. hostmaster.example.net. 7 7200 1800 86400 300"]),
        Rtype::PTR => vec![format!("host-{high}-{low}.example.org.")],
        // `0 issue "ca.example.net"`, in the generic form of RFC 3597, like the next two.
        Rtype::DS => vec![format!("{hash} 13 2 {}", format!("{flavour:02}").repeat(32))],
        Rtype::CAA => lines(&[r"\# 21 000569737375656361 2e6578616d706c652e6e6574"]),
        // `1 . alpn=h2`
        Rtype::HTTPS => lines(&[r"\# 10 00010000010003026832"]),
        Rtype::SSHFP => lines(&[r"\# 6 040212345678"]),
        _ => vec![],
    };
    if word == "multi" && seen.qtype == Rtype::MX {
        data.push("5 mx0.example.net.".to_owned());
    }
    let qtype = seen.qtype;
    let mut records: Vec<String> =
        data.iter().map(|data| format!("{owner} {ttl} IN {qtype} {data}")).collect();
    if matches!(word, "signed" | "expired") && seen.dnssec_ok() && !records.is_empty() {
        let until = if word == "signed" { "20370101000000" } else { "20200102000000" };
        let labels = owner.split('.').count() - 1;
        let signer = parent(owner);
        records.push(format!(
            "{owner} {ttl} IN RRSIG {qtype} 13 {labels} {ttl} {until} 20200101000000 12345 {signer} \
             c2lnbmF0dXJl"
        ));
    }
    records
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// `label` in the zone `parent`.
fn child(label: &str, parent: &str) -> String {
    if parent == "." { format!("{label}.") } else { format!("{label}.{parent}") }
}

/// Tells what the question looked like here: how a server shapes what it asks upstream becomes part of the answer.
fn saw(seen: &Seen) -> String {
    let bit = u8::from;
    let edns = match &seen.edns {
        None => "none".to_owned(),
        Some((size, dnssec_ok, options)) => {
            format!("size={size} do={} options={}", bit(*dnssec_ok), options.join(","))
        }
    };
    format!(
        "\"{} rd={} ad={} cd={}\" \"edns {edns}\" \"{}\"",
        if seen.tcp { "tcp" } else { "udp" },
        bit(seen.rd),
        bit(seen.ad),
        bit(seen.cd),
        seen.qname.replace(['\\', '"'], "?"),
    )
}

fn soa(name: &str, minimum: u32) -> String {
    let zone = parent(name);
    format!(
        "{zone} 300 IN SOA ns1.example.net. hostmaster.example.net. 7 7200 1800 86400 {minimum}"
    )
}

fn parent(name: &str) -> &str {
    match name.split_once('.') {
        Some((_, parent)) if !parent.is_empty() => parent,
        _ => ".",
    }
}

/// A 16-bit number from a name, without regard to case.
fn hash(name: &str) -> u32 {
    let bytes = name.bytes().map(|b| u32::from(b.to_ascii_lowercase()));
    bytes.fold(7, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(byte)) & 0xffff
}
