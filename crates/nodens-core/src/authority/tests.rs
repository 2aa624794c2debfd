use crate::testing::Bench;
use nodens_wire::{Flags, Message, Record, Type};
use std::fmt::Write;
use std::io::Write as _;
use tempfile::NamedTempFile;

const ZONE: &str = "\
$TTL 300
@ 3600 SOA ns hostmaster 7 1h 10m 1d 60
@ NS ns
@ NS ns.elsewhere.net.
@ MX 10 mail
@ MX 20 Mail
@ MX 30 mail.elsewhere.net.
ns A 192.0.2.1
ns AAAA 2001:db8::1
mail A 192.0.2.2
www A 192.0.2.3
alias CNAME www
chain CNAME alias
to.nothing CNAME none
to.nodata CNAME www
out CNAME www.elsewhere.net.
out2 CNAME out
gone CNAME none.elsewhere.net.
self CNAME self
a.circle CNAME b.circle
b.circle CNAME a.circle
deep.ent.x A 192.0.2.4
*.wild A 192.0.2.5
*.wild MX 1 mail
sub.wild TXT x
*.aliases CNAME www
to.wild CNAME q.wild
cut NS ns.cut
cut NS ns
cut NS sibling.other
ns.cut A 192.0.2.6
other NS sibling.other
sibling.other A 192.0.2.7
to.cut2 CNAME below.cut
d DNAME www.example.org.
t DNAME sub.wild
round DNAME d.round
_s._tcp SRV 1 2 3 www
_s._tcp SRV 1 2 4 mail
h HTTPS 1 www alpn=h2
h MX 1 www
both A 192.0.2.8
both MX 1 both
";

const OTHER: &str = "@ 60 SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\nwww 60 A 192.0.2.9\nloop 60 CNAME out2.example.org.\n";

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn served(zone: &str, options: &str) -> (Bench, [NamedTempFile; 2]) {
    let files = [file(zone), file(OTHER)];
    let [own, other] = files.each_ref().map(|file| file.path().display());
    let corefile = format!(
        "example.org {{\n file {own} {{\n {options}\n }}\n whoami\n}}\nelsewhere.net {{\n file {other}\n}}"
    );
    (Bench::new(&corefile), files)
}

fn list(text: &mut String, records: &[Record]) {
    for record in records.iter().filter(|record| record.rtype != Type::OPT) {
        let owner = record.owner.to_string();
        let owner = owner.strip_suffix("example.org.").unwrap_or(&owner);
        _ = write!(text, " {owner}/{}", record.rtype);
    }
}

/// RCODE, `aa`, and each section as `OWNER/TYPE`, owners relative to the zone.
fn shown(message: &Message) -> String {
    let mut text = message.flags.rcode().to_string();
    if message.flags.has(Flags::AA) {
        text.push_str(" aa");
    }
    for section in [&message.answer, &message.authority, &message.additional] {
        text.push_str(" |");
        list(&mut text, section);
    }
    text
}

const NS: &str = "| /NS /NS |";

#[test]
fn responses_have_the_records_that_coredns_gives() {
    let (mut bench, _files) = served(ZONE, "");
    for (question, expected) in [
        ("example.org. SOA", format!("NOERROR aa | /SOA {NS}")),
        ("example.org. NS", "NOERROR aa | /NS /NS | | ns./A ns./AAAA".to_owned()),
        (
            "EXAMPLE.org. MX",
            format!("NOERROR aa | EXAMPLE.org./MX EXAMPLE.org./MX EXAMPLE.org./MX {NS} mail./A"),
        ),
        ("example.org. TXT", "NOERROR aa | | /SOA |".into()),
        ("www.example.org. A", format!("NOERROR aa | www./A {NS}")),
        ("www.example.org. AAAA", "NOERROR aa | | /SOA |".into()),
        ("none.example.org. A", "NXDOMAIN aa | | /SOA |".into()),
        ("none.www.example.org. A", "NXDOMAIN aa | | /SOA |".into()),
        ("ent.x.example.org. A", "NOERROR aa | | /SOA |".into()),
        ("x.x.example.org. A", "NXDOMAIN aa | | /SOA |".into()),
        (
            "_s._tcp.example.org. SRV",
            format!("NOERROR aa | _s._tcp./SRV _s._tcp./SRV {NS} www./A mail./A"),
        ),
        ("h.example.org. HTTPS", format!("NOERROR aa | h./HTTPS {NS} www./A")),
        // Each address once, though two RRsets lead to it.
        ("h.example.org. ANY", format!("NOERROR aa | h./MX h./HTTPS {NS} www./A")),
        ("both.example.org. ANY", format!("NOERROR aa | both./A both./MX {NS}")),
        ("both.example.org. MX", format!("NOERROR aa | both./MX {NS} both./A")),
        ("www.example.org. ANY", format!("NOERROR aa | www./A {NS}")),
        ("ns.example.org. ANY", format!("NOERROR aa | ns./A ns./AAAA {NS}")),
    ] {
        assert_eq!(shown(&bench.ask(question)), expected, "{question}");
    }
}

#[test]
fn any_for_a_name_with_thousands_of_targets_takes_no_time_that_grows_with_their_square() {
    let (sender, ended) = std::sync::mpsc::channel();
    let asking = std::thread::spawn(move || {
        let mut zone = ZONE.to_owned();
        for n in 0..2700 {
            _ = writeln!(zone, "many MX 1 t{n}\nmany HTTPS 1 t{}", 2699 - n);
        }
        let (mut bench, _files) = served(&zone, "");
        for _ in 0..100 {
            bench.ask("many.example.org. ANY");
        }
        _ = sender.send(());
    });
    // It took minutes.
    ended.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
    asking.join().unwrap();
}

#[test]
fn aliases_are_followed_in_the_zone_and_out_of_it() {
    let (mut bench, _files) = served(ZONE, "");
    for (question, expected) in [
        ("alias.example.org. CNAME", format!("NOERROR aa | alias./CNAME {NS}")),
        ("alias.example.org. A", format!("NOERROR aa | alias./CNAME www./A {NS}")),
        ("chain.example.org. A", format!("NOERROR aa | chain./CNAME alias./CNAME www./A {NS}")),
        ("alias.example.org. TXT", "NOERROR aa | alias./CNAME | /SOA |".into()),
        ("to.nothing.example.org. A", "NXDOMAIN aa | to.nothing./CNAME | /SOA |".into()),
        ("out.example.org. A", format!("NOERROR aa | out./CNAME www.elsewhere.net./A {NS}")),
        ("out2.example.org. A", format!("NOERROR aa | out2./CNAME out./CNAME www.elsewhere.net./A {NS}")),
        ("out.example.org. TXT", "NOERROR aa | out./CNAME | elsewhere.net./SOA |".into()),
        ("gone.example.org. A", "NXDOMAIN aa | gone./CNAME | elsewhere.net./SOA |".into()),
        // As Knot, NSD and BIND do.
        ("self.example.org. A", format!("NOERROR aa | self./CNAME {NS}")),
        ("a.circle.example.org. A", format!("NOERROR aa | a.circle./CNAME b.circle./CNAME {NS}")),
        ("to.cut2.example.org. A", "NOERROR aa | to.cut2./CNAME | cut./NS cut./NS cut./NS | ns.cut./A sibling.other./A".into()),
        ("x.d.example.org. A", "NXDOMAIN aa | d./DNAME x.d./CNAME | /SOA |".into()),
        ("x.d.example.org. CNAME", format!("NOERROR aa | d./DNAME x.d./CNAME {NS}")),
        ("x.d.example.org. DNAME", "NXDOMAIN aa | d./DNAME x.d./CNAME | /SOA |".into()),
        ("d.example.org. DNAME", format!("NOERROR aa | d./DNAME {NS}")),
        ("d.example.org. A", "NOERROR aa | | /SOA |".into()),
        ("loop.elsewhere.net. A", "NOERROR aa | loop.elsewhere.net./CNAME out2./CNAME out./CNAME www.elsewhere.net./A | elsewhere.net./NS |".into()),
    ] {
        assert_eq!(shown(&bench.ask(question)), expected, "{question}");
    }
    let long = format!("{}t.example.org. A", "aaaaaaaaaaaaaaaaaaa.".repeat(12));
    assert_eq!(shown(&bench.ask(&long)), "YXDOMAIN aa | t./DNAME | |");
    let round = shown(&bench.ask("x.round.example.org. A +edns"));
    assert_eq!(
        (round.matches("DNAME").count(), round.matches("/CNAME").count()),
        (1, 10),
        "{round}"
    );
}

#[test]
fn an_alias_at_the_apex_does_not_hide_what_makes_a_zone() {
    let (mut bench, _files) = served(
        "@ 5 SOA . . 1 2 3 4 5\n@ 5 NS ns\n@ 5 CNAME www\nwww 5 A 192.0.2.1\n* 5 CNAME www\n",
        "",
    );
    for (question, expected) in [
        ("example.org. SOA", "NOERROR aa | /SOA | /NS |"),
        ("example.org. NS", "NOERROR aa | /NS | |"),
        ("example.org. A", "NOERROR aa | /CNAME www./A | /NS |"),
        ("x.example.org. SOA", "NOERROR aa | x./CNAME | /SOA |"),
    ] {
        assert_eq!(shown(&bench.ask(question)), expected, "{question}");
    }
}

#[test]
fn wildcards_stand_for_names_right_below_what_exists() {
    let (mut bench, _files) = served(ZONE, "");
    for (question, expected) in [
        ("q.wild.example.org. A", format!("NOERROR aa | q.wild./A {NS}")),
        ("q.r.wild.example.org. A", format!("NOERROR aa | q.r.wild./A {NS}")),
        ("q.wild.example.org. MX", format!("NOERROR aa | q.wild./MX {NS} mail./A")),
        ("q.wild.example.org. TXT", "NOERROR aa | | /SOA |".into()),
        ("x.sub.wild.example.org. A", "NXDOMAIN aa | | /SOA |".into()),
        ("*.wild.example.org. A", format!("NOERROR aa | *.wild./A {NS}")),
        ("q.aliases.example.org. A", format!("NOERROR aa | q.aliases./CNAME www./A {NS}")),
        ("q.aliases.example.org. CNAME", format!("NOERROR aa | q.aliases./CNAME {NS}")),
        ("to.wild.example.org. A", format!("NOERROR aa | to.wild./CNAME q.wild./A {NS}")),
    ] {
        assert_eq!(shown(&bench.ask(question)), expected, "{question}");
    }
}

#[test]
fn what_lies_below_a_cut_belongs_to_others() {
    let (mut bench, _files) = served(ZONE, "");
    let referral = "NOERROR | | cut./NS cut./NS cut./NS | ns.cut./A sibling.other./A";
    for question in ["cut A", "cut NS", "ns.cut A", "a.b.cut TXT", "cut ANY"] {
        let question = question.replace(' ', ".example.org. ");
        assert_eq!(shown(&bench.ask(&question)), referral, "{question}");
    }
    assert_eq!(shown(&bench.ask("cut.example.org. DS")), "NOERROR aa | | /SOA |");
    let below = shown(&bench.ask("a.cut.example.org. DS"));
    assert_eq!(below, referral);
}

#[test]
fn an_alias_to_a_name_below_a_cut_is_answered_from_the_zone_below_if_that_is_here() {
    let child = file("@ 60 SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\nbelow 60 A 192.0.2.9\n");
    let parent = file(ZONE);
    let (parent, child) = (parent.path().display(), child.path().display());
    let answer = "NOERROR aa | to.cut2./CNAME below.cut./A | /NS /NS |";
    for (corefile, expected) in [
        (
            format!(
                "example.org cut.example.org {{\n file {parent} example.org\n file {child} cut.example.org\n}}"
            ),
            answer,
        ),
        (
            format!("example.org {{\n file {parent}\n}}\ncut.example.org {{\n file {child}\n}}"),
            answer,
        ),
        // Another zone than that of the cut is none of it.
        (
            format!("example.org {{\n file {parent}\n}}\na.cut.example.org {{\n file {child}\n}}"),
            "NOERROR aa | to.cut2./CNAME | cut./NS cut./NS cut./NS | ns.cut./A sibling.other./A",
        ),
    ] {
        let mut bench = Bench::new(&corefile);
        assert_eq!(shown(&bench.ask("to.cut2.example.org. A")), expected, "{corefile}");
    }
}

#[test]
fn negative_answers_are_kept_no_longer_than_the_zone_says() {
    let ttl = |zone: &str| {
        let (mut bench, _files) = served(zone, "");
        let answers = ["none.example.org. A", "example.org. TXT", "example.org. SOA"];
        answers.map(|question| {
            let message = bench.ask(question);
            let records = message.answer.iter().chain(&message.authority);
            records.filter(|record| record.rtype == Type::SOA).map(|record| record.ttl).next()
        })
    };
    assert_eq!(ttl("@ 3600 SOA . . 1 2 3 4 60"), [Some(60), Some(60), Some(3600)]);
    assert_eq!(ttl("@ 30 SOA . . 1 2 3 4 60"), [Some(30), Some(30), Some(30)]);
}

#[test]
fn other_handlers_may_try_names_that_do_not_exist() {
    let (mut bench, _files) = served(ZONE, "fallthrough none.example.org x.example.org");
    let passed = |bench: &mut Bench, question: &str| bench.ask(question).additional.len() == 2;
    for (question, expected) in [
        ("none.example.org. A", true),
        ("a.none.example.org. A", true),
        ("none2.example.org. A", false),
        ("ent.x.example.org. A", true),
        ("deep.ent.x.example.org. AAAA", false),
        ("q.wild.example.org. TXT", false),
    ] {
        assert_eq!(passed(&mut bench, question), expected, "{question}");
    }
    let (mut bench, _files) = served("@ 5 SOA . . 1 2 3 4 5\na 5 CNAME none", "fallthrough");
    // `whoami` answers for the target, too.
    assert_eq!(shown(&bench.ask("a.example.org. A")), "NOERROR aa | a./CNAME | /SOA |");
}

/// A complete chain of NSEC records, with signatures that do not verify: no test verifies them.
const SIGNED: &str = "\
$TTL 300
@ SOA ns hostmaster 7 1h 10m 1d 60
@ RRSIG SOA 8 2 300 20300101000000 20200101000000 1 @ AAEC
@ NS ns
@ RRSIG NS 8 2 300 20300101000000 20200101000000 1 @ AAEC
@ DNSKEY 257 3 8 AAEC
@ RRSIG DNSKEY 8 2 300 20300101000000 20200101000000 1 @ AAEC
@ NSEC *.w SOA NS RRSIG NSEC DNSKEY
@ RRSIG NSEC 8 2 300 20300101000000 20200101000000 1 @ AAEC
ns A 192.0.2.1
ns RRSIG A 8 3 300 20300101000000 20200101000000 1 @ AAEC
ns NSEC s A RRSIG NSEC
ns RRSIG NSEC 8 3 300 20300101000000 20200101000000 1 @ AAEC
s NS ns.s
s DS 1 8 2 00
s RRSIG DS 8 3 300 20300101000000 20200101000000 1 @ AAEC
s NSEC u NS DS RRSIG NSEC
s RRSIG NSEC 8 3 300 20300101000000 20200101000000 1 @ AAEC
u NS ns.u
u NSEC *.w NS RRSIG NSEC
u RRSIG NSEC 8 3 300 20300101000000 20200101000000 1 @ AAEC
*.w A 192.0.2.2
*.w RRSIG A 8 3 300 20300101000000 20200101000000 1 @ AAEC
*.w NSEC @ A RRSIG NSEC
*.w RRSIG NSEC 8 3 300 20300101000000 20200101000000 1 @ AAEC
*.out CNAME www.elsewhere.net.
*.out RRSIG CNAME 8 3 300 20300101000000 20200101000000 1 @ AAEC
*.gone CNAME none.elsewhere.net.
*.here CNAME absent
*.here RRSIG CNAME 8 3 300 20300101000000 20200101000000 1 @ AAEC
";

#[test]
fn signatures_and_proofs_are_for_those_who_want_them() {
    let (mut bench, _files) = served(&SIGNED.replace("@ NSEC *.w", "@ NSEC ns"), "");
    for (question, expected) in [
        ("ns.example.org. A", "NOERROR aa | ns./A | /NS |"),
        ("ns.example.org. A +do", "NOERROR aa | ns./A ns./RRSIG | /NS /RRSIG |"),
        ("example.org. SOA +do", "NOERROR aa | /SOA /RRSIG | /NS /RRSIG |"),
        ("example.org. NS +do", "NOERROR aa | /NS /RRSIG | | ns./A ns./RRSIG"),
        ("none.example.org. A", "NXDOMAIN aa | | /SOA |"),
        ("ns.example.org. TXT +do", "NOERROR aa | | /SOA /RRSIG ns./NSEC ns./RRSIG |"),
        ("none.example.org. A +do", "NXDOMAIN aa | | /SOA /RRSIG /NSEC /RRSIG |"),
        ("s.example.org. A", "NOERROR | | s./NS |"),
        ("s.example.org. A +do", "NOERROR | | s./NS s./DS s./RRSIG |"),
        ("u.example.org. A +do", "NOERROR | | u./NS u./NSEC u./RRSIG |"),
        ("u.example.org. DS +do", "NOERROR aa | | /SOA /RRSIG u./NSEC u./RRSIG |"),
        (
            "q.w.example.org. A +do",
            "NOERROR aa | q.w./A q.w./RRSIG | /NS /RRSIG *.w./NSEC *.w./RRSIG |",
        ),
        ("q.w.example.org. TXT +do", "NOERROR aa | | /SOA /RRSIG *.w./NSEC *.w./RRSIG |"),
        ("ns.example.org. NSEC", "NOERROR aa | ns./NSEC | /NS |"),
        // One RRset proves that neither name exists.
        (
            "q.here.example.org. A +do",
            "NXDOMAIN aa | q.here./CNAME q.here./RRSIG | /SOA /RRSIG /NSEC /RRSIG |",
        ),
        // Another zone has the target.
        (
            "q.out.example.org. A +do",
            "NOERROR aa | q.out./CNAME q.out./RRSIG www.elsewhere.net./A | /NS /RRSIG ns./NSEC ns./RRSIG |",
        ),
        ("q.out.example.org. A", "NOERROR aa | q.out./CNAME www.elsewhere.net./A | /NS |"),
        (
            "q.gone.example.org. A +do",
            "NXDOMAIN aa | q.gone./CNAME | elsewhere.net./SOA /NSEC /RRSIG |",
        ),
    ] {
        assert_eq!(shown(&bench.ask(question)), expected, "{question}");
    }
}

/// Aliases into a signed zone, from where one leads back.
#[test]
fn the_zone_that_has_the_target_proves_its_part_and_nothing_is_proved_twice() {
    let own = "*.wild CNAME q.w.elsewhere.net.\n*.back CNAME back.elsewhere.net.\n";
    let own = SIGNED.replace("@ NSEC *.w", "@ NSEC ns") + own;
    let other = SIGNED.replace("*.out ", "back CNAME none.example.org.\n*.out ");
    let files = [file(&own), file(&other)];
    let [own, other] = files.each_ref().map(|file| file.path().display());
    let corefile = format!("example.org {{\n file {own}\n}}\nelsewhere.net {{\n file {other}\n}}");
    let mut bench = Bench::new(&corefile);
    for (question, expected) in [
        (
            "q.wild.example.org. A +do",
            "NOERROR aa | q.wild./CNAME q.w.elsewhere.net./A q.w.elsewhere.net./RRSIG | /NS /RRSIG \
             *.w.elsewhere.net./NSEC *.w.elsewhere.net./RRSIG *.w./NSEC *.w./RRSIG |",
        ),
        ("q.wild.example.org. A", "NOERROR aa | q.wild./CNAME q.w.elsewhere.net./A | /NS |"),
        (
            "q.back.example.org. A +do",
            "NXDOMAIN aa | q.back./CNAME back.elsewhere.net./CNAME | /SOA /RRSIG /NSEC /RRSIG |",
        ),
    ] {
        assert_eq!(shown(&bench.ask(question)), expected, "{question}");
    }
}

/// A resolver that is referred to either could not begin with the other.
#[test]
fn a_referral_has_the_addresses_of_servers_below_other_cuts() {
    let zone = "@ 60 SOA ns hostmaster 1 2 3 4 5\na 60 NS ns.b\nb 60 NS ns.a\nns.a 60 A 192.0.2.1\n\
                ns.b 60 A 192.0.2.2\nc 60 NS ns.b\nc 60 NS ns\nc 60 NS ns.c\nns 60 A 192.0.2.3\nns.c 60 A 192.0.2.4\n";
    let (mut bench, _files) = served(zone, "");
    for (question, expected) in [
        ("x.a.example.org. A", "NOERROR | | a./NS | ns.b./A"),
        ("x.b.example.org. A", "NOERROR | | b./NS | ns.a./A"),
        // What is left out first if there is no room stands behind. The address of `ns` can be asked for here.
        ("x.c.example.org. A", "NOERROR | | c./NS c./NS c./NS | ns.c./A ns.b./A"),
    ] {
        assert_eq!(shown(&bench.ask(question)), expected, "{question}");
    }
}

#[test]
fn an_alias_that_is_too_long_is_proved_as_well() {
    let long = ["x"; 3].map(|letter| letter.repeat(60)).join(".");
    let more = format!("\nlong DNAME {long}\n*.over CNAME {long}.long\n");
    let zone = SIGNED.replace("@ NSEC *.w", "@ NSEC ns").replace("@ NSEC ns", "@ NSEC zz") + &more;
    let (mut bench, _files) = served(&zone, "");
    let message = bench.ask("q.over.example.org. A +do");
    let has_proof = message.authority.iter().any(|record| record.rtype == Type::NSEC);
    assert_eq!((message.flags.rcode(), has_proof), (nodens_wire::Rcode::YXDOMAIN, true));
}

/// RFC 2181 section 9; Knot DNS, NSD and BIND do the same.
#[test]
fn servers_and_addresses_without_room_set_no_tc_from_the_zone_and_from_the_cache() {
    let mut zone = ZONE.to_owned();
    for host in 1..=14 {
        let address = format!("{host} A 192.0.2.{host}\nhost-{host} AAAA 2001:db8::{host}");
        _ = writeln!(zone, "few MX {host} host-{host}\nhost-{address}");
        _ = writeln!(zone, "many MX {host} another-host-with-a-longer-name-{host}");
    }
    let file = file(&zone);
    let corefile = format!("example.org {{\n cache\n file {}\n}}", file.path().display());
    let mut bench = Bench::new(&corefile);
    for round in ["zone", "cache"] {
        let whole = bench.ask("few.example.org. MX");
        let sections = [&whole.answer, &whole.authority, &whole.additional].map(Vec::len);
        assert!(!whole.flags.has(Flags::TC) && sections[..2] == [14, 2], "{round} {sections:?}");
        assert!((2..28).contains(&sections[2]), "{round} {sections:?}");
        assert!(bench.ask("many.example.org. MX").flags.has(Flags::TC), "{round}");
    }
}

/// A query with DO from a client that takes so many octets.
fn request_up_to(question: &str, udp_size: u16) -> Vec<u8> {
    let mut request = crate::testing::request(question);
    let edns = nodens_wire::shape::ResponseEdns { udp_size, flags: 0x8000, options: &[] };
    nodens_wire::shape::shape(&mut request, nodens_wire::Rcode::NOERROR, Some(edns), 512).unwrap();
    request
}

#[test]
fn tc_is_not_set_while_all_has_room_when_it_is_written_anew() {
    let (long, sig) = ("l".repeat(50), "A".repeat(400));
    let mut zone = SIGNED.to_owned();
    for owner in [&format!("b.{long}"), &format!("z.b.{long}"), &format!("cut.{long}")] {
        let rrsig = format!("RRSIG NSEC 8 5 300 20300101000000 20200101000000 1 @ {sig}");
        _ = writeln!(zone, "{owner} NSEC ns NS RRSIG NSEC\n{owner} {rrsig}");
    }
    for server in 0..12 {
        let name = format!("server-{server}.cut.{long}");
        _ = writeln!(zone, "cut.{long} NS {name}\n{name} A 192.0.2.{server}");
    }
    _ = writeln!(
        zone,
        "z.b.{long} A 192.0.2.1\n1.{long} CNAME 2.{long}\n2.{long} CNAME q.b.{long}"
    );
    let (mut bench, _files) = served(&zone, "");
    for name in ["server-1.cut", "very.far.below.cut", "none.b", "1"] {
        let question = format!("{name}.{long}.example.org. AAAA");
        let mut ask = |udp_size| bench.ask_bytes(&request_up_to(&question, udp_size)).unwrap();
        let (largest, mut anew) = (ask(4096), Vec::new());
        Message::parse(&largest).unwrap().write(&mut anew).unwrap();
        assert!(anew.len() < largest.len() && anew.len() > 512, "{name} {}", anew.len());
        for udp_size in 512..=largest.len() {
            let message = Message::parse(&ask(udp_size as u16)).unwrap();
            let (is_cut, has_room) = (message.flags.has(Flags::TC), anew.len() <= udp_size);
            assert_eq!(is_cut, !has_room, "{name} {udp_size}");
        }
    }
}
