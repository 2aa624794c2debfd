use super::*;
use crate::config::build;
use crate::testing::{Bench, request};
use crate::transport::Transport;
use crate::upstream::PrimaryPeer;
use crate::worker::Verdict;
use nodens_wire::{Builder, Class, Flags, Message, Name, Record, SharedName};
use nodens_zone::Zone;
use nodens_zone::data::{Data, Edit};
use nodens_zone::limits::FETCHED_ZONES_MIN;
use nodens_zone::secondary::{Primary, SecondaryService};

const BLOCK: &str =
    "example.org:53 {\n secondary {\n  transfer from 192.0.2.1 192.0.2.2:5300\n }\n}";

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A version with an address for `www`.
fn data(origin: &str, serial: u32) -> Data {
    let origin = name(origin);
    let record = |owner: &Name, rtype: Type, rdata: &[u8]| {
        let (owner, class, rdata) = (owner.clone(), Class::IN, rdata.to_vec());
        Record { owner, rtype, class, ttl: 60, rdata }
    };
    let soa = Soa::with(origin.view(), 60, (&origin, &origin), [serial, 7200, 900, 86_400, 30]);
    let mut edit = Edit::new(origin.view(), Class::IN);
    let ns = record(&origin, Type::NS, name("ns.example.net.").as_wire());
    let www =
        record(&name("www.").join(origin.view()).unwrap_or(origin), Type::A, &[192, 0, 2, 80]);
    for record in [soa.record(), &ns, &www] {
        edit.add(record.into()).unwrap();
    }
    edit.finish().unwrap()
}

fn service(bench: &Bench) -> &SecondaryService {
    &bench.worker.config().services.secondaries[0]
}

/// Serves a version of the zone, as if it had been transferred.
fn transfer(bench: &Bench, zone: &str, serial: u32) {
    let zones = service(bench).zones.load();
    let zone = zones.get(name(zone).view()).unwrap();
    let zone = zone.as_secondary().unwrap();
    zone.replace(data(&zone.origin().to_string(), serial), &[]);
}

/// A NOTIFY for the zone, with a serial number.
fn notify(zone: &str, serial: Option<u32>) -> Vec<u8> {
    let (mut out, zone) = (Vec::new(), name(zone));
    let flags = Flags(0).with_opcode(Opcode::NOTIFY).with(Flags::AA, true);
    let mut builder = Builder::new(&mut out, 4711, flags);
    builder.question(zone.view(), Type::SOA, Class::IN);
    if let Some(serial) = serial {
        let soa = Soa::with(zone.view(), 5, (&zone, &zone), [serial, 0, 0, 0, 0]);
        builder.push(Section::Answer, soa.record()).unwrap();
    }
    out
}

/// What comes back, if anything does.
fn send(bench: &mut Bench, client: &str, request: &[u8]) -> Option<Message> {
    bench.client.peer = client.parse().unwrap();
    let mut out = Vec::new();
    match bench.worker.receive(bench.now, bench.client, request, &mut out) {
        Verdict::Answered => Some(Message::parse(&out).unwrap()),
        _ => None,
    }
}

#[test]
fn a_zone_is_answered_for_as_soon_as_it_is_transferred_and_until_it_expires() {
    let mut bench = Bench::new(BLOCK);
    assert_eq!(bench.ask("www.example.org. A").flags.rcode(), Rcode::SERVFAIL);
    transfer(&bench, "example.org.", 7);
    let answer = bench.ask("www.example.org. A");
    assert_eq!(answer.answer[0].rdata, [192, 0, 2, 80]);
    assert!(answer.flags.has(Flags::AA));
    let configured = service(&bench).configured[0].zone.clone();
    configured.expire();
    assert_eq!(bench.ask("www.example.org. A").flags.rcode(), Rcode::SERVFAIL);
}

#[test]
fn primaries_are_heard_and_others_are_not() {
    let mut bench = Bench::new(BLOCK);
    for client in ["192.0.2.1:4000", "192.0.2.2:53", "[::ffff:192.0.2.1]:53"] {
        let answer = send(&mut bench, client, &notify("Example.org.", Some(7))).unwrap();
        assert_eq!((answer.flags.opcode(), answer.flags.rcode()), (Opcode::NOTIFY, Rcode::NOERROR));
        assert!(answer.flags.has(Flags::AA) && answer.flags.has(Flags::QR));
    }
    for stranger in ["192.0.2.3:53", "[2001:db8::1]:53"] {
        assert_eq!(send(&mut bench, stranger, &notify("example.org.", Some(9))), None);
    }
    let taken: Vec<_> = service(&bench).notices.take().collect();
    let zone = SharedName::from(name("example.org."));
    assert_eq!(taken, [(zone.clone(), 0, Some(Serial(7))), (zone, 1, Some(Serial(7)))]);
    send(&mut bench, "192.0.2.1:4000", &notify("example.org.", None)).unwrap();
    assert_eq!(service(&bench).notices.take().next(), Some((name("example.org.").into(), 0, None)));
}

#[test]
fn zones_are_handed_on_by_transfer_alone() {
    let mut bench = Bench::new(BLOCK);
    transfer(&bench, "example.org.", 7);
    assert_eq!(bench.ask("example.org. AXFR").flags.rcode(), Rcode::REFUSED);
    let corefile = BLOCK.replacen('{', "{\n transfer {\n  to *\n }\n", 1);
    let mut bench = Bench::new(&corefile);
    transfer(&bench, "example.org.", 7);
    bench.client.transport = Transport::Tcp;
    let answer = send(&mut bench, "192.0.2.9:53", &request("example.org. AXFR")).unwrap();
    assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 4));
}

#[test]
fn another_configuration_goes_on_with_what_is_there() {
    let bench = Bench::new(BLOCK);
    transfer(&bench, "example.org.", 7);
    let serial = |corefile: &str| {
        let tree =
            nodens_corefile::parse("Corefile", corefile, &nodens_corefile::SystemSources).unwrap();
        let options = crate::config::BuildOptions::default();
        let config = build(&tree, &options, &bench.shared).unwrap();
        let zone = config.services.secondaries[0].configured[0].zone.clone();
        zone.soa().map(|soa| soa.serial().0)
    };
    assert_eq!(serial(BLOCK), Some(7));
    assert_eq!(serial(&BLOCK.replace("192.0.2.2", "192.0.2.3")), None);
}

#[test]
fn addresses_of_a_block_share_its_zones_and_the_last_directive_for_a_zone_counts() {
    let corefile = "example.org:53 {\n bind 127.0.0.1 127.0.0.2\n secondary {\n  \
        transfer from 192.0.2.1\n }\n secondary example.org example.net {\n  \
        transfer from 192.0.2.2\n  transfer from 192.0.2.3:5300 [2001:db8::1]:53 2001:db8::2\n }\n}";
    let bench = Bench::new(corefile);
    let [service] = bench.worker.config().services.secondaries.as_slice() else { panic!() };
    let zones: Vec<_> = service.configured.iter().map(|zone| zone.zone.clone()).collect();
    let primaries: Vec<Primary> =
        ["192.0.2.2:53", "192.0.2.3:5300", "[2001:db8::1]:53", "[2001:db8::2]:53"]
            .map(|text| text.parse().unwrap())
            .to_vec();
    assert_eq!(zones.len(), 2);
    assert!(zones.iter().all(|zone| zone.primaries() == primaries));
}

#[test]
fn catalogs_accept_all_members_if_any_line_does() {
    let accepted = |lines: &str| {
        let corefile = BLOCK.replacen("}", &format!(" {lines}\n }}"), 1);
        let bench = Bench::new(&corefile);
        let accepted = service(&bench).configured[0].catalog.clone();
        accepted.map(|zones| zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(accepted(""), None);
    assert_eq!(accepted("catalog").as_deref(), Some(""));
    assert_eq!(accepted("catalog a.org b.org").as_deref(), Some("a.org. b.org."));
    assert_eq!(accepted("catalog a.org\ncatalog b.org").as_deref(), Some("a.org. b.org."));
    assert_eq!(accepted("catalog a.org\ncatalog").as_deref(), Some(""));
    assert_eq!(accepted("catalog\ncatalog a.org").as_deref(), Some(""));
}

#[test]
fn mistakes_are_found_where_they_are() {
    for (directive, line, text) in [
        ("secondary", 2, "require a transfer from property"),
        ("secondary {\n  fallthrough\n }", 2, "require a transfer from property"),
        ("secondary {\n  transfer\n }", 3, "1 or more"),
        ("secondary {\n  transfer from\n }", 3, "addresses behind 'from'"),
        ("secondary {\n  transfer to 192.0.2.1\n }", 3, "from"),
        ("secondary {\n  transfer from *\n }", 3, "an IP address"),
        ("secondary {\n  transfer from ns.example.org\n }", 3, "an IP address"),
        ("secondary {\n  transfer from 192.0.2.1:x\n }", 3, "an IP address"),
        ("secondary {\n  transfer from 192.0.2.1\n  catalog :\n }", 4, "expected a port"),
        ("secondary {\n  transfer from 192.0.2.1\n  store\n }", 4, "1"),
        ("secondary {\n  transferr from 192.0.2.1\n }", 3, "did you mean 'transfer'"),
        (
            "secondary {\n  transfer from dns://192.0.2.1\n }",
            3,
            "alone or behind tls:// or quic://",
        ),
        ("secondary {\n  transfer from https://192.0.2.1\n }", 3, "alone or behind tls:// or"),
        ("secondary {\n  transfer from tls://\n }", 3, "invalid address"),
        ("secondary {\n  transfer from tls://ns.example.org\n }", 3, "not an IP address"),
        ("secondary {\n  transfer from tls://192.0.2.1:x\n }", 3, "not an IP address"),
        (
            "secondary {\n  transfer from tls://192.0.2.1\n  tls /no/such/file\n }",
            4,
            "no/such/file",
        ),
        ("secondary {\n  transfer from tls://192.0.2.1\n  tls a b c d\n }", 4, "Wrong argument"),
        ("secondary {\n  transfer from tls://192.0.2.1\n  tls_servername\n }", 4, "Wrong argument"),
        (
            "secondary {\n  transfer from tls://192.0.2.1\n  tls_servername a_b%\n }",
            4,
            "no name that a",
        ),
        ("secondary {\n  transfer from 192.0.2.1\n  tls_servername a.example\n }", 2, "no effect"),
        (
            "secondary {\n  transfer from tls://192.0.2.1%a.example\n  tls_servername b.example\n }",
            2,
            "both secondary",
        ),
        ("secondary {\n  transfer from 192.0.2.1\n  group a {\n  }\n }", 4, "add catalog"),
        (
            "secondary {\n  transfer from 192.0.2.1\n  catalog\n  group {\n  }\n }",
            5,
            "Wrong argument",
        ),
        (
            "secondary {\n  transfer from 192.0.2.1\n  catalog\n  group a {\n   catalog\n  }\n }",
            6,
            "nknown property 'catalog'",
        ),
        (
            "secondary {\n  transfer from 192.0.2.1\n  catalog\n  group a\n  group a\n }",
            2,
            "two groups have the same name",
        ),
        (
            "secondary {\n  transfer from 192.0.2.1\n  catalog\n  group a {\n   tls_servername b.example\n  }\n }",
            5,
            "need a transfer from",
        ),
    ] {
        let error = Bench::try_new(&format!("example.org:53 {{\n {directive}\n}}"));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(&format!("Corefile:{line}:")), "{directive}: {error}");
        assert!(error.contains(text), "{directive}: {error}");
    }
}

#[test]
fn primaries_may_be_asked_within_tls_and_over_quic() {
    let primaries = |lines: &str| {
        let bench = Bench::new(&format!("example.org:53 {{\n secondary {{\n  {lines}\n }}\n}}"));
        service(&bench).configured[0].zone.primaries().to_vec()
    };
    let shown = |lines: &str| primaries(lines).iter().map(ToString::to_string).collect::<Vec<_>>();
    let lines = "transfer from tls://192.0.2.1 tls://[2001:db8::1]:8853 quic://192.0.2.2 192.0.2.3";
    assert_eq!(
        shown(lines),
        ["tls://192.0.2.1:853", "tls://[2001:db8::1]:8853", "quic://192.0.2.2:853", "192.0.2.3:53"]
    );
    let tls = "transfer from tls://192.0.2.1\n";
    let named = |name: &str| primaries(&format!("{tls}  tls_servername {name}"));
    let peer =
        |own: &[Primary]| PrimaryPeer::of(&own[0]).unwrap().peer.name().to_str().into_owned();
    assert_eq!(peer(&primaries(tls)), "192.0.2.1");
    assert_eq!(peer(&named("Ns.Example.")), "ns.example");
    assert_eq!(peer(&primaries("transfer from tls://192.0.2.1%ns.example")), "ns.example");
    // Another name is another server.
    assert_eq!(named("a.example"), named("A.example"));
    assert_ne!(named("a.example"), named("b.example"));
    assert_ne!(primaries("transfer from tls://192.0.2.1:53"), primaries("transfer from 192.0.2.1"));
    let both =
        ["tls", "quic"].map(|scheme| primaries(&format!("transfer from {scheme}://192.0.2.1:853")));
    assert_ne!(both[0], both[1]);
}

#[test]
fn members_of_a_group_have_what_it_says_and_the_rest_of_the_directive() {
    let corefile = "example.org:53 {\n tsig {\n  secret k. c2VjcmV0\n }\n secondary {\n  group far {\n   \
        transfer from tls://192.0.2.9\n   store far\n  }\n  group near {\n   key k.\n  }\n  \
        transfer from 192.0.2.1\n  tls_servername ns.example\n  transfer from tls://192.0.2.2\n  \
        catalog\n  store zones\n }\n}";
    let bench = Bench::new(corefile);
    let own = &service(&bench).configured[0];
    let shown = |groups: &[&str]| {
        let groups: Vec<Box<[u8]>> = groups.iter().map(|name| name.as_bytes().into()).collect();
        let terms = own.terms(&groups);
        let primaries: Vec<_> = terms.primaries.iter().map(ToString::to_string).collect();
        let folder = terms.store.unwrap().file_name().unwrap().to_string_lossy().into_owned();
        (primaries.join(" "), terms.key.is_some(), folder)
    };
    let both = "192.0.2.1:53 tls://192.0.2.2:853".to_owned();
    assert_eq!(shown(&[]), (both.clone(), false, "zones".to_owned()));
    assert_eq!(shown(&["other", "near"]), (both.clone(), true, "zones".to_owned()));
    assert_eq!(shown(&["far"]), ("tls://192.0.2.9:853".to_owned(), false, "far".to_owned()));
    // Of several the first in the Corefile; names of groups are octets.
    assert_eq!(shown(&["near", "far"]).2, "far");
    assert_eq!(shown(&["Far"]), (both, false, "zones".to_owned()));
    let terms = own.terms(&[b"far".as_slice().into()]);
    let peer = &PrimaryPeer::of(&terms.primaries[0]).unwrap().peer;
    assert_eq!(peer.name().to_str(), "ns.example");
}

#[test]
fn a_key_is_one_of_tsig_in_the_same_block() {
    let block = |tsig: &str, line: &str| {
        let secondary = format!("secondary {{\n transfer from 192.0.2.1\n {line}\n }}");
        format!("example.org:53 {{\n {tsig}\n {secondary}\n}}")
    };
    let tsig = "tsig {\n secret transfer.key. c2VjcmV0\n }";
    let bench = Bench::new(&block(tsig, "key Transfer.KEY"));
    let key = service(&bench).configured[0].key.clone();
    assert_eq!(key.map(|key| key.name().to_string()).as_deref(), Some("transfer.key."));
    assert!(service(&Bench::new(&block(tsig, ""))).configured[0].key.is_none());
    for (tsig, line, wanted) in [
        ("", "key transfer.key.", "5:6: expected a key of tsig in the same server block"),
        (tsig, "key other.key.", "expected a key of tsig in the same server block"),
        (tsig, "key a..b", "expected the name of a key"),
        (tsig, "key", "Wrong argument count"),
        (tsig, "key a b", "Wrong argument count"),
    ] {
        let error = Bench::try_new(&block(tsig, line)).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

#[test]
fn zones_that_are_not_the_same_need_folders_of_their_own() {
    let block = |port: u16, more: &str| {
        let tsig = "tsig {\n secret k. c2VjcmV0\n }";
        format!("example.org:{port} {{\n {tsig}\n secondary {{\n {more}\n }}\n}}\n")
    };
    let from = |address: &str| format!("transfer from {address}\n store zones");
    let first = block(53, &from("192.0.2.1"));
    let with = |more: &str| Bench::try_new(&(first.clone() + &block(54, more))).map(|_| ());
    assert!(with(&from("192.0.2.1")).is_ok());
    assert!(with("transfer from 192.0.2.2\n store others").is_ok());
    assert!(with("transfer from 192.0.2.2").is_ok());
    for other in [from("192.0.2.2"), from("192.0.2.1") + "\n key k."] {
        let error = with(&other).unwrap_err().to_string();
        assert!(
            error.contains("zone example.org. is stored in the same folder by another"),
            "{error}"
        );
    }
}

#[test]
fn a_notify_that_waits_already_is_said_once() {
    let mut bench = Bench::new(BLOCK);
    for serial in 0..100 {
        send(&mut bench, "192.0.2.1:53", &notify("example.org.", Some(serial))).unwrap();
    }
    let is_wanted = |record: &crate::log::Record| matches!(record, crate::log::Record::Line { text, .. } if text.contains("checking transfer"));
    assert_eq!(bench.log.try_iter().filter(is_wanted).count(), 1);
}

#[test]
fn what_primaries_say_is_counted_and_ready_waits_for_what_is_stored() {
    let mut bench = Bench::new(BLOCK);
    for (client, serial) in [("192.0.2.1:53", 1), ("192.0.2.1:53", 1), ("192.0.2.9:53", 1)] {
        send(&mut bench, client, &notify("example.org.", Some(serial)));
    }
    let text = bench.shared.registry.render();
    for result in ["taken", "waiting", "dropped"] {
        let line = format!("nodens_notify_received_total{{result=\"{result}\"}} 1\n");
        assert!(text.contains(&line), "{line}{text}");
    }
    assert!(text.contains("nodens_transfers_in_total{kind=\"soa\",result=\"newer\"} 0\n"), "{text}");
    assert!(bench.worker.config().services.readiness.is_empty());
    let bench = Bench::new(&BLOCK.replace("{\n secondary {", "{\n ready\n secondary {\n  store zones"));
    let config = bench.worker.config();
    let [readiness] = &config.services.readiness[..] else { panic!("{:?}", config.services) };
    assert_eq!((readiness.directive, (readiness.check)()), ("secondary", false));
    service(&bench).restoring.finish();
    assert!((readiness.check)());
}

#[test]
fn the_name_of_a_zone_is_in_memory_once() {
    let bench = Bench::new(BLOCK);
    let service = service(&bench);
    let own = service.configured[0].zone.origin();
    for table in [&service.zones, &service.handed_on] {
        let zones = table.load();
        let kept = zones.iter().find(|(name, _)| *name == own).unwrap().0;
        assert_eq!(kept.as_wire().as_ptr(), own.as_wire().as_ptr());
    }
}

#[test]
fn what_many_small_zones_have_is_fetched() {
    let mut bench = Bench::new(BLOCK);
    let zones = service(&bench).zones.clone();
    let searches = |bench: &Bench, qname: &str| match bench.worker.config().searches(0, name(qname).view()) {
        Searches::Zones(_) => "many zones",
        Searches::Zone(data) => data.as_ref().map_or("an empty zone", |_| "a zone"),
        Searches::Cached => "a cache",
        Searches::Nothing => "nothing",
    };
    assert_eq!(searches(&bench, "www.example.org."), "an empty zone");
    transfer(&bench, "example.org.", 1);
    assert_eq!(searches(&bench, "www.example.org."), "a zone");
    zones.update(|update| {
        for number in 0..FETCHED_ZONES_MIN {
            let zone = SecondaryZone::new(name(&format!("z{number}.example.org.")), Vec::new());
            update.replace(zone.origin().clone(), Arc::new(zone));
        }
    });
    assert_eq!(searches(&bench, "www.example.org."), "many zones");
    assert_eq!(searches(&bench, "www.z7.example.org."), "many zones");
    assert_eq!(searches(&bench, "example.com."), "nothing");
    // Versions come, and are gone, between what is fetched and the answer.
    transfer(&bench, "z1.example.org.", 1);
    let questions = ["www.z1.example.org A", "WWW.Example.ORG A", "z2.example.org SOA", "example.com A", ". NS"];
    let requests: Vec<_> = questions.iter().cycle().take(70).map(|text| request(text)).collect();
    bench.worker.expect(0, requests.iter().map(Vec::as_slice));
    let names = ["www.z1.example.org.", "WWW.Example.ORG.", "z2.example.org.", "x.z1.example.org."].map(name);
    let views: Vec<_> = names.iter().cycle().take(39).map(Name::view).collect();
    assert_eq!(zones.load().fetch(&views), 20);
    assert_eq!(zones.load().fetch(&[]), 0);
    let rcodes = [("www.z1.example.org A", Rcode::NOERROR), ("z2.example.org SOA", Rcode::SERVFAIL)];
    for (question, rcode) in rcodes {
        let answer = send(&mut bench, "192.0.2.9:53", &request(question)).unwrap();
        assert_eq!(answer.flags.rcode(), rcode, "{question}");
    }
}
