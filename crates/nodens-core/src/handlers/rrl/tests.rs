use crate::job::Transport;
use crate::shared::Shared;
use crate::testing::{Bench, request};
use nodens_wire::edns::{code, push_option};
use nodens_wire::shape::{ResponseEdns, shape};
use nodens_wire::{Flags, Message, Rcode, Type};
use nodens_zone::tsig::Key;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tempfile::NamedTempFile;

const ZONE: &str = "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n\
     www AAAA 2001:db8::1\n*.w A 192.0.2.3\n*.alias CNAME www\ndn DNAME w\nout DNAME other.test.\nsub NS ns.sub\nns.sub A 192.0.2.4\n";

fn served(options: &str) -> (Bench, NamedTempFile) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(ZONE.as_bytes()).unwrap();
    let path = file.path().display();
    let corefile = format!("example.org {{\n rrl {{\n {options}\n }}\n file {path}\n prometheus\n}}");
    (Bench::new(&corefile), file)
}

fn from(bench: &mut Bench, client: &str) {
    bench.client.peer = SocketAddr::new(client.parse().unwrap(), 4000);
}

/// How many of so many queries get a whole response, and how many one that is truncated.
fn ask(bench: &mut Bench, count: usize, question: impl Fn(usize) -> String) -> (usize, usize) {
    let answers = (0..count).filter_map(|n| bench.ask_bytes(&request(&question(n))));
    let (mut whole, mut cut) = (0, 0);
    for answer in answers {
        let message = Message::parse(&answer).unwrap();
        if message.flags.has(Flags::TC) {
            let records = [&message.answer, &message.authority];
            assert!(records.iter().all(|section| section.is_empty()), "{message:?}");
            cut += 1;
        } else {
            whole += 1;
        }
    }
    (whole, cut)
}

fn same(question: &str) -> impl Fn(usize) -> String {
    let question = question.to_owned();
    move |_| question.clone()
}

fn counted(bench: &Bench, metric: &str) -> String {
    let text = bench.shared.registry.render();
    let series = format!("{metric}{{server=\"dns://:53\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&series));
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn a_flood_from_one_network_is_held_to_the_rate_and_others_are_not() {
    let (mut bench, _file) = served("responses-per-second 10\n slip-ratio 4");
    from(&mut bench, "198.51.100.7");
    let (whole, cut) = ask(&mut bench, 100, same("www.example.org. A"));
    assert_eq!((whole, cut), (10, 22));
    // The debt has a bound: the window.
    ask(&mut bench, 10_000, same("www.example.org. A"));
    from(&mut bench, "198.51.100.200");
    assert_eq!(ask(&mut bench, 3, same("www.EXAMPLE.org. A")).0, 0, "it is the same network");
    for other in ["198.51.101.7", "2001:db8::1"] {
        from(&mut bench, other);
        assert_eq!(ask(&mut bench, 5, same("www.example.org. A")), (5, 0), "{other}");
    }
    from(&mut bench, "198.51.100.7");
    assert_eq!(ask(&mut bench, 5, same("www.example.org. AAAA")), (5, 0), "another type");
    assert_eq!(ask(&mut bench, 5, same("ns.example.org. A")), (5, 0), "another name");
    bench.pass(Duration::from_millis(14_900));
    assert_eq!(ask(&mut bench, 3, same("www.example.org. A")).0, 0);
    bench.pass(Duration::from_secs(2));
    assert!(ask(&mut bench, 3, same("www.example.org. A")).0 > 0);
    let dropped: usize = counted(&bench, "coredns_rrl_responses_exceeded_total").parse().unwrap();
    assert!((10_090..10_100).contains(&dropped), "{dropped}");
}

#[test]
fn what_an_attacker_can_vary_makes_no_other_response() {
    for (question, expected) in [
        // Denied names of one zone, of any type.
        ("N.example.org. A", 4),
        ("N.a.b.example.org. TXT", 4),
        ("N.w.example.org. A", 3),
        ("N.w.example.org. TXT", 2),
        ("N.alias.example.org. A", 3),
        // An alias is given for any type.
        ("x.alias.example.org. TYPEN", 3),
        ("x.dn.example.org. TYPEN", 3),
        ("x.out.example.org. TYPEN", 3),
        ("N.sub.example.org. A", 5),
        ("x.sub.example.org. TYPEN", 5),
        ("N.dn.example.org. A", 3),
        ("N.m.dn.example.org. TXT", 3),
        ("N.out.example.org. A", 3),
    ] {
        let limits = "responses-per-second 3\n nodata-per-second 2\n nxdomains-per-second 4\n referrals-per-second 5";
        let (mut bench, _file) = served(limits);
        let varied = |n: usize| match question.strip_suffix('N') {
            Some(question) => format!("{question}{}", 1000 + n),
            None => question.replace('N', &format!("n{n}")),
        };
        assert_eq!(ask(&mut bench, 50, varied), (expected, 0), "{question}");
    }
}

#[test]
fn errors_and_queries_are_limited_by_network_alone() {
    let corefile = "example.org {\n rrl {\n errors-per-second 3\n }\n acl {\n block\n }\n whoami\n}";
    let mut bench = Bench::new(corefile);
    let varied = |n: usize| format!("n{n}.example.org. A");
    assert_eq!(ask(&mut bench, 50, varied), (3, 0));
    let mut bench = Bench::new("example.org {\n rrl {\n errors-per-second 3\n slip-ratio 1\n }\n erratic {\n drop 0\n }\n acl {\n block\n }\n}");
    assert_eq!(ask(&mut bench, 50, varied), (3, 47));
    let (mut bench, _file) = served("requests-per-second 4");
    assert_eq!(ask(&mut bench, 50, varied), (4, 0));
    assert_eq!(counted(&bench, "coredns_rrl_requests_exceeded_total"), "46");
}

#[test]
fn streams_clients_with_a_cookie_and_other_zones_are_not_limited() {
    let (mut bench, _file) = served("responses-per-second 1\n requests-per-second 1");
    bench.client.transport = Transport::Tcp;
    assert_eq!(ask(&mut bench, 20, same("www.example.org. A")), (20, 0));
    bench.client.transport = Transport::Udp;
    bench.shared.cookies.get_or_init(|| crate::cookie::Secret::new([7; 16]));
    let secret: &Shared = &bench.shared;
    let shown = secret.cookies.get().unwrap().answer(
        &[1; 8],
        bench.client.peer.ip(),
        bench.now.unix_s,
    );
    let with = |cookie: &[u8]| {
        let mut options = Vec::new();
        push_option(&mut options, code::COOKIE, cookie);
        let mut wire = request("www.example.org. A");
        let edns = ResponseEdns { udp_size: 1232, flags: 0, options: &options };
        shape(&mut wire, Rcode::NOERROR, Some(edns), 512).unwrap();
        wire
    };
    let answered = |bench: &mut Bench, wire: &[u8]| {
        (0..20).filter(|_| bench.ask_bytes(wire).is_some()).count()
    };
    assert_eq!(answered(&mut bench, &with(&shown.unwrap())), 20);
    let mut forged = shown.unwrap();
    forged[23] ^= 1;
    assert_eq!(answered(&mut bench, &with(&forged)), 1);
    let mut bench = Bench::new(". {\n rrl a.test b.test {\n responses-per-second 1\n }\n whoami\n}");
    assert_eq!(ask(&mut bench, 20, same("c.test. A")), (20, 0));
    assert_eq!(ask(&mut bench, 20, same("x.b.test. A")), (1, 0));
}

#[test]
fn who_has_signed_is_not_limited_and_an_update_that_is_refused_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("db"), ZONE).unwrap();
    let secret = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=";
    let mut bench = Bench::new(&format!(
        "example.org {{\n root {}\n tsig {{\n secret key.example. {secret}\n }}\n rrl {{\n responses-per-second 1\n }}\n \
         dynupdate {{\n file db\n allow key.example. * *\n }}\n}}",
        folder.path().display()
    ));
    let key = Key::parse("key.example.", secret, None).unwrap();
    let mut signed = request("www.example.org. A");
    _ = key.sign_query(&mut signed, bench.now.unix_s).unwrap();
    let passed = |bench: &mut Bench, wire: &[u8]| {
        (0..20).filter(|_| bench.ask_bytes(wire).is_some()).count()
    };
    assert_eq!(passed(&mut bench, &signed), 20);
    assert_eq!(passed(&mut bench, &request("www.example.org. A")), 1);
    let mut update = request("example.org. SOA");
    update[2] = 5 << 3;
    assert_eq!(passed(&mut bench, &update), 1, "it is refused, as it is not signed");
    assert_eq!(passed(&mut bench, &request("other.example.org. A")), 1);
}

#[test]
fn reports_drop_nothing() {
    let (mut bench, _file) = served("responses-per-second 5\n requests-per-second 5\n report-only");
    assert_eq!(ask(&mut bench, 20, same("www.example.org. A")), (20, 0));
    assert_eq!(counted(&bench, "coredns_rrl_requests_exceeded_total"), "15");
    assert_eq!(counted(&bench, "coredns_rrl_responses_exceeded_total"), "15");
    assert_eq!(counted(&bench, "nodens_rrl_truncated_total"), "0");
}

#[test]
fn a_table_full_of_forged_networks_still_holds_back_who_is_in_debt() {
    let (mut bench, _file) = served("responses-per-second 10\n max-table-size 64");
    from(&mut bench, "198.51.100.7");
    assert_eq!(ask(&mut bench, 2_000, same("www.example.org. A")), (10, 0));
    for n in 0..20_000_u32 {
        let address = IpAddr::from((0x0b00_0000 + (n << 8)).to_be_bytes());
        bench.client.peer = SocketAddr::new(address, 4000);
        // A network that is new is answered, whatever room there is.
        assert!(bench.ask_bytes(&request("www.example.org. A")).is_some(), "{n}");
    }
    from(&mut bench, "198.51.100.7");
    assert_eq!(ask(&mut bench, 20, same("www.example.org. A")), (0, 0));
    assert!(bench.ask_bytes(&request("ns.example.org. A")).is_some());
}

#[test]
fn a_reload_forgets_nothing_of_a_block_that_stays() {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(ZONE.as_bytes()).unwrap();
    let block = |rate: usize| {
        let path = file.path().display();
        format!("example.org {{\n rrl {{\n responses-per-second {rate}\n }}\n file {path}\n}}")
    };
    let mut bench = Bench::new(&block(5));
    assert_eq!(ask(&mut bench, 20, same("www.example.org. A")), (5, 0));
    bench.reload(&format!("{}\nother.test {{\n whoami\n}}", block(5))).unwrap();
    assert_eq!(ask(&mut bench, 20, same("www.example.org. A")), (0, 0));
    for rate in 6..60 {
        bench.reload(&block(rate)).unwrap();
        assert_eq!(ask(&mut bench, 100, same("www.example.org. A")), (rate, 0));
    }
}

#[test]
fn without_a_rate_nothing_is_limited() {
    for options in ["", "responses-per-second 0", "slip-ratio 2\n window 1"] {
        let (mut bench, _file) = served(options);
        assert_eq!(ask(&mut bench, 500, same("www.example.org. A")), (500, 0));
    }
    let (mut bench, _file) = served("nxdomains-per-second 1");
    assert_eq!(ask(&mut bench, 500, same("www.example.org. A")), (500, 0));
    assert_eq!(ask(&mut bench, 500, |n| format!("n{n}.example.org. A")), (1, 0));
    let answer = bench.ask("www.example.org. A");
    assert_eq!((answer.answer[0].rtype, answer.flags.rcode()), (Type::A, Rcode::NOERROR));
}

#[test]
fn options_are_those_of_the_plugin_and_what_is_none_is_refused() {
    let complete = "window 0.5\n ipv4-prefix-length 32\n ipv6-prefix-length 128\n responses-per-second 0.1\n \
         nodata-per-second 1\n nxdomains-per-second 2\n referrals-per-second 3\n errors-per-second 4\n \
         slip-ratio 10\n requests-per-second 1e3\n max-table-size 0\n report-only";
    served(complete);
    for wrong in [
        "window 0",
        "window -1",
        "window soon",
        "window inf",
        "window",
        "window 1 2",
        "ipv4-prefix-length 0",
        "ipv4-prefix-length 33",
        "ipv6-prefix-length 129",
        "responses-per-second -1",
        "responses-per-second many",
        "responses-per-second",
        "nodata-per-second NaN",
        "nxdomains-per-second 1 2",
        "referrals-per-second x",
        "errors-per-second {\n }",
        "slip-ratio 11",
        "slip-ratio -1",
        "requests-per-second -0.1",
        "max-table-size -1",
        "max-table-size 1000001",
        "report-only yes",
        "report-all",
    ] {
        let corefile = format!(". {{\n rrl {{\n {wrong}\n }}\n whoami\n}}");
        assert!(Bench::try_new(&corefile).is_err(), "{wrong}");
    }
    for wrong in ["rrl a..b", "rrl\n rrl"] {
        assert!(Bench::try_new(&format!(". {{\n {wrong}\n whoami\n}}")).is_err(), "{wrong}");
    }
}
