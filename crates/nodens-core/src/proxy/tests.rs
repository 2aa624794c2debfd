use super::*;
use crate::limits::PROXY_SESSION_TLVS_MAX;
use nodens_wire::proxy::SIGNATURE;

const PROXY: &str = "192.0.2.9:999";
const CLIENT: &str = "203.0.113.7:4321";
const ASKED: &str = "198.51.100.2:53";
const SECOND: u64 = 1_000_000_000;

fn rules(settings: ProxySettings) -> ProxyRules {
    ProxyRules::new(&settings)
}

fn tracking() -> ProxySettings {
    ProxySettings { tracking: Duration::from_secs(10), ..ProxySettings::default() }
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A header with this command and family, from `source` to [`ASKED`].
fn header(command: u8, family: u8, source: &str, tlvs: &[u8]) -> Vec<u8> {
    let (source, asked) = (at(source), at(ASKED));
    let (IpAddr::V4(from), IpAddr::V4(to)) = (source.ip(), asked.ip()) else { panic!() };
    let ports = [source.port().to_be_bytes(), asked.port().to_be_bytes()].concat();
    let rest = [&from.octets()[..], &to.octets(), &ports, tlvs].concat();
    let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [&SIGNATURE[..], &[command, family], &len, &rest].concat()
}

fn of_client() -> Proxied {
    Proxied { addresses: Some((at(CLIENT), at(ASKED))), tlvs: None }
}

fn nobody() -> Proxied {
    Proxied::default()
}

const POLICIES: [ProxyPolicy; 4] =
    [ProxyPolicy::Use, ProxyPolicy::Ignore, ProxyPolicy::Reject, ProxyPolicy::Skip];

#[test]
fn all_are_believed_unless_something_is_said() {
    let allow = vec!["192.0.2.0/28".parse().unwrap()];
    let cases = [
        (vec![], None, ProxyPolicy::Use, ProxyPolicy::Use),
        (vec![], Some(ProxyPolicy::Ignore), ProxyPolicy::Ignore, ProxyPolicy::Ignore),
        (allow.clone(), None, ProxyPolicy::Use, ProxyPolicy::Ignore),
        (allow, Some(ProxyPolicy::Skip), ProxyPolicy::Use, ProxyPolicy::Skip),
    ];
    for (allow, others, named, other) in cases {
        let rules = rules(ProxySettings { allow, others, ..ProxySettings::default() });
        assert_eq!(rules.policy(at(PROXY).ip()), named);
        assert_eq!(rules.policy("192.0.2.16".parse().unwrap()), other);
        assert_eq!(rules.policy("2001:db8::1".parse().unwrap()), other);
    }
}

#[test]
fn connections_open_as_their_policy_says() {
    let tcp = header(0x21, 0x11, CLIENT, &[]);
    let len = tcp.len();
    for policy in POLICIES {
        let rules = rules(ProxySettings { others: Some(policy), ..ProxySettings::default() });
        let open = |octets: &[u8]| rules.open(at(PROXY).ip(), octets);
        let headed = match policy {
            ProxyPolicy::Use => Ok(Opening::Headed(len, of_client())),
            ProxyPolicy::Ignore => Ok(Opening::Headed(len, nobody())),
            ProxyPolicy::Reject => Err(ProxyRefusal::Rejected),
            ProxyPolicy::Skip => Ok(Opening::Bare),
        };
        assert_eq!(open(&tcp), headed, "{policy:?}");
        assert_eq!(open(b"\0\x1d query"), Ok(Opening::Bare));
        let skips = policy == ProxyPolicy::Skip;
        let cut = if skips { Opening::Bare } else { Opening::Wait(len) };
        assert_eq!(open(&tcp[..20]), Ok(cut), "{policy:?}");
        let broken = if skips { Ok(Opening::Bare) } else { Err(ProxyError::Command.into()) };
        assert_eq!(open(&header(0x11, 0x11, CLIENT, &[])), broken, "{policy:?}");
    }
    let open = |octets: &[u8]| rules(ProxySettings::default()).open(at(PROXY).ip(), octets);
    let local = header(0x20, 0x11, CLIENT, &[]);
    assert_eq!(open(&local), Ok(Opening::Headed(len, nobody())));
    let line = b"PROXY TCP4 203.0.113.7 198.51.100.2 4321 53\r\n";
    assert_eq!(open(line), Ok(Opening::Headed(line.len(), of_client())));
}

#[test]
fn datagrams_are_unwrapped_as_their_policy_says() {
    let udp = [header(0x21, 0x12, CLIENT, &[]), b"query".to_vec()].concat();
    for policy in POLICIES {
        let rules = rules(ProxySettings { others: Some(policy), ..ProxySettings::default() });
        let unwrap = |octets: &'static [u8]| rules.unwrap(0, at(PROXY), octets);
        let wanted = match policy {
            ProxyPolicy::Use => Ok(Enveloped::Message(&b"query"[..], of_client())),
            ProxyPolicy::Ignore => Ok(Enveloped::Message(&b"query"[..], nobody())),
            ProxyPolicy::Reject => Err(ProxyRefusal::Rejected),
            ProxyPolicy::Skip => Ok(Enveloped::Message(&udp[..], nobody())),
        };
        assert_eq!(rules.unwrap(0, at(PROXY), &udp), wanted, "{policy:?}");
        assert_eq!(unwrap(b"query"), Ok(Enveloped::Message(b"query", nobody())));
        assert_eq!(unwrap(b"PROX"), Ok(Enveloped::Message(b"PROX", nobody())));
    }
}

#[test]
fn headers_that_no_datagram_has_are_refused() {
    let rules = rules(ProxySettings::default());
    let unix = [&SIGNATURE[..], &[0x21, 0x32, 0, 216], &[0; 216]].concat();
    let udp = header(0x21, 0x12, CLIENT, &[]);
    let cases = [
        (header(0x21, 0x11, CLIENT, &[]), ProxyRefusal::NoDatagram),
        (b"PROXY TCP4 203.0.113.7 198.51.100.2 4321 53\r\n".to_vec(), ProxyRefusal::NoDatagram),
        (b"PROXY UNKNOWN\r\n".to_vec(), ProxyRefusal::NoDatagram),
        (unix, ProxyRefusal::NoDatagram),
        (udp[..udp.len() - 1].to_vec(), ProxyRefusal::Cut),
        (udp[..12].to_vec(), ProxyRefusal::Cut),
        (b"PROXY TCP4 203.0".to_vec(), ProxyRefusal::Cut),
        (header(0x31, 0x12, CLIENT, &[]), ProxyRefusal::Invalid(ProxyError::Command)),
    ];
    for (octets, refusal) in cases {
        assert_eq!(rules.unwrap(0, at(PROXY), &octets), Err(refusal), "{octets:?}");
    }
    // A proxy that asks for itself names no transport.
    let local = [&SIGNATURE[..], &[0x20, 0, 0, 0], b"query"].concat();
    assert_eq!(rules.unwrap(0, at(PROXY), &local), Ok(Enveloped::Message(b"query", nobody())));
}

#[test]
fn a_session_lasts_from_its_header_for_as_long_as_datagrams_come() {
    let rules = rules(tracking());
    let message = |now, peer| match rules.unwrap(now * SECOND, at(peer), b"query") {
        Ok(Enveloped::Message(b"query", proxied)) => proxied,
        other => panic!("{other:?}"),
    };
    let announcement = header(0x21, 0x12, CLIENT, &[]);
    assert_eq!(message(0, PROXY), nobody());
    assert_eq!(rules.unwrap(0, at(PROXY), &announcement), Ok(Enveloped::Announcement));
    assert_eq!(message(9, PROXY), of_client());
    assert_eq!(message(18, PROXY), of_client());
    assert_eq!(message(18, "192.0.2.9:1000"), nobody());
    assert_eq!(message(28, PROXY), nobody());
    // One that is not for a client begins none.
    let local = header(0x20, 0x12, CLIENT, &[]);
    assert_eq!(rules.unwrap(30 * SECOND, at(PROXY), &local), Ok(Enveloped::Announcement));
    assert_eq!(message(30, PROXY), nobody());
    // Nor does one that brings its message end with it.
    let whole = [announcement, b"query".to_vec()].concat();
    let first = rules.unwrap(31 * SECOND, at(PROXY), &whole);
    assert_eq!(first, Ok(Enveloped::Message(b"query", of_client())));
    assert_eq!(message(31, PROXY), of_client());
}

#[test]
fn only_addresses_that_are_believed_have_sessions() {
    let allow = vec!["192.0.2.0/24".parse().unwrap()];
    let rules = rules(ProxySettings { allow, ..tracking() });
    let announcement = header(0x21, 0x12, CLIENT, &[]);
    let stranger = at("203.0.113.99:1");
    let taken = rules.unwrap(0, stranger, &announcement);
    assert_eq!(taken, Ok(Enveloped::Message(&b""[..], nobody())));
    let message = rules.unwrap(0, stranger, b"query");
    assert_eq!(message, Ok(Enveloped::Message(b"query", nobody())));
}

#[test]
fn sessions_are_bounded_in_number_and_in_octets() {
    let settings = ProxySettings { sessions_max: Some(3), tlvs: true, ..tracking() };
    let few = rules(settings.clone());
    let peer = |number: u16| SocketAddr::new(at(PROXY).ip(), number);
    let announcement = header(0x21, 0x12, CLIENT, &[0xea, 0, 1, 7]);
    for number in 1..=5 {
        _ = few.unwrap(0, peer(number), &announcement);
        _ = few.unwrap(0, peer(number), &announcement);
    }
    assert_eq!(few.sessions.as_ref().unwrap().sizes(), (3, 12));
    assert_eq!(few.unwrap(0, peer(2), b"q"), Ok(Enveloped::Message(b"q", nobody())));
    let tlvs: Option<Arc<[u8]>> = Some(Arc::from([0xea, 0, 1, 7]));
    let kept = Proxied { tlvs, ..of_client() };
    assert_eq!(few.unwrap(0, peer(3), b"q"), Ok(Enveloped::Message(b"q", kept)));
    _ = few.unwrap(60 * SECOND, peer(3), b"q");
    assert_eq!(few.sessions.as_ref().unwrap().sizes(), (2, 8));

    let many = rules(ProxySettings { sessions_max: Some(usize::MAX), ..settings });
    let mut tlv = vec![0xea, 0x0f, 0xa0];
    tlv.resize(4003, 1);
    let long = header(0x21, 0x12, CLIENT, &tlv);
    for number in 1..=1000 {
        _ = many.unwrap(0, peer(number), &long);
    }
    let (sessions, octets) = many.sessions.as_ref().unwrap().sizes();
    assert_eq!(sessions, 1000, "long TLVs take nobody's addresses");
    assert!((1_000_000..=PROXY_SESSION_TLVS_MAX).contains(&octets), "{octets}");
    let is_of_client = |number, now| match many.unwrap(now, peer(number), b"q") {
        Ok(Enveloped::Message(_, proxied)) => {
            (proxied.addresses == of_client().addresses, proxied.tlvs.is_some())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!((is_of_client(1, 1), is_of_client(1000, 1)), ((true, true), (true, false)));
    // Those whose time is over make room.
    _ = many.unwrap(61 * SECOND, peer(2000), &long);
    assert_eq!(is_of_client(2000, 61 * SECOND), (true, true));
}
