//! The bodies of the fuzz targets. Each takes any octets and panics if a property is broken.

#![forbid(unsafe_code)]

pub mod http;
pub mod http3;
pub mod quic;
pub mod tls;
pub mod transfer_in;
pub mod tsig;
pub mod update;
pub mod workload;
pub mod zones;

use nodens_core::testing::{Bench, Reaction};
use nodens_expr::{CallError, Context, Environment, Program, Type, Value as ExprValue};
use nodens_gotemplate::{Object, Template, Value as TemplateValue};
use nodens_wire::{
    Admission, Builder, Class, Flags, Header, Message, Name, Records, Section, admit,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A fuzz target: its name, which is also its corpus folder, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("message", message),
    ("admission", admission),
    ("name", name),
    ("corefile", corefile),
    ("question", question),
    ("reply", reply),
    ("template", template),
    ("expression", expression),
    ("record", record),
    ("master", master),
    ("queries", workload::queries),
    ("names_template", workload::names_template),
    ("capture", workload::capture),
    ("kubernetes", kubernetes),
    ("proxy", proxy),
    ("tls", tls::tls),
    ("http", http::http),
    ("quic", quic::quic),
    ("tsig", tsig::tsig),
    ("transfer_in", transfer_in::transfer_in),
    ("update", update::update),
    ("http3", http3::http3),
    ("catalog", zones::catalog),
    ("image", zones::image),
];

/// A template is parsed or refused; what is parsed writes no more than it may.
pub fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(template) = Template::parse("answer", text) else { return };
    let mut out = String::new();
    _ = template.render(&Record, &mut out);
    assert!(out.len() <= nodens_gotemplate::limits::OUTPUT_BYTES);
    _ = template.to_string();
}

/// What templates see: a name, a list and a map, each under the name that CoreDNS gives it.
#[derive(Debug)]
struct Record;

impl Object for Record {
    fn type_name(&self) -> &str {
        "record"
    }

    fn field(&self, name: &str) -> Option<TemplateValue<'_>> {
        let list = || vec![TemplateValue::from("a"), TemplateValue::Int(1), TemplateValue::Nil];
        match name {
            "Name" => Some(TemplateValue::from("www.example.")),
            "Match" => Some(TemplateValue::from(list())),
            "Group" => {
                let pairs = list().into_iter().enumerate();
                let map: BTreeMap<_, _> =
                    pairs.map(|(at, value)| (format!("k{at}"), value)).collect();
                Some(TemplateValue::from(map))
            }
            "Record" => Some(TemplateValue::Object(self)),
            _ => None,
        }
    }
}

/// A list or watch of an API server, in either form: wherever it is cut, the same comes of it. The
/// first octet says what it is, the second where it is cut.
pub fn kubernetes(data: &[u8]) {
    use nodens_core::cluster::Kind;
    let Some(([what, cut], response)) = data.split_first_chunk::<2>() else { return };
    let kind = match what & 7 {
        0 => Kind::Namespaces,
        1 => Kind::Services,
        2 => Kind::Slices,
        3 => Kind::Pods,
        4 => Kind::Imports,
        _ => Kind::ImportSlices,
    };
    let form = (what & 8 != 0, what & 16 != 0);
    let whole = nodens_kube::testing::read(kind, form, [response]);
    let pieces = response.chunks(usize::from(*cut) + 1);
    assert_eq!(nodens_kube::testing::read(kind, form, pieces), whole);
}

/// A record in presentation format is read or refused; what is read goes into a message and back.
pub fn record(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(record) = nodens_zone::presentation::record(text) else { return };
    let mut wire = Vec::new();
    let mut builder = Builder::new(&mut wire, 0, Flags::default());
    builder.push(Section::Answer, &record).expect("one record fits");
    let message = Message::parse(&wire).expect("what was built can be read");
    assert_eq!(message.answer, [record]);
}

/// A master file is read to its end or refused with its place; its records make a zone or are refused, and a zone
/// finds each of them again.
pub fn master(data: &[u8]) {
    let origin = Name::parse("example.org.").expect("a name");
    let text = Box::new(std::io::Cursor::new(data.to_vec()));
    let none = Box::new(nodens_zone::master::NoIncludes);
    let mut master = nodens_zone::Master::new(text, "zone", origin.view(), none);
    let mut edit = nodens_zone::data::Edit::new(origin.view(), Class::IN);
    let mut kept = Vec::new();
    // `$GENERATE` makes many records out of a few octets.
    for _ in 0..GENERATED_MAX {
        match master.next_record() {
            Ok(Some(record)) => {
                let (owner, rtype) = (record.owner.to_name(), record.rtype);
                if edit.add(record).is_ok() {
                    kept.push((owner, rtype));
                }
            }
            Ok(None) => break,
            Err(error) => {
                assert!(error.line >= 1 && error.column >= 1);
                return;
            }
        }
    }
    let Ok(zone) = edit.finish() else { return };
    for (owner, rtype) in kept {
        let is_signature = rtype == nodens_wire::Type::RRSIG;
        assert!(is_signature || zone.rrset(owner.view(), rtype).is_some(), "{owner} {rtype}");
        _ = zone.lookup(owner.view(), rtype);
    }
}

/// Records of a master file that are looked at.
const GENERATED_MAX: usize = 2_000;

/// An expression is compiled or refused; what is compiled has a value or a reason.
pub fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let environment = Environment::new()
        .with_function("name", 0, &[], Type::Str)
        .with_function("group", 1, &[Type::Any], Type::Any)
        .with_variable("words", 0, Type::array_of(Type::Str));
    if let Ok(program) = Program::compile(text, &environment) {
        _ = program.evaluate(&Question);
    }
}

/// What expressions see.
struct Question;

impl Context for Question {
    fn call<'a>(
        &'a self,
        _function: usize,
        arguments: &[ExprValue<'a>],
    ) -> Result<ExprValue<'a>, CallError> {
        Ok(arguments.first().cloned().unwrap_or(ExprValue::from("www.example.")))
    }

    fn variable(&self, _variable: usize) -> ExprValue<'_> {
        ExprValue::from(vec![ExprValue::from("one"), ExprValue::from("two")])
    }
}

/// What parses is written, and what was written parses to the same.
pub fn message(data: &[u8]) {
    let Ok(message) = Message::parse(data) else { return };
    let mut out = Vec::new();
    if message.write(&mut out).is_ok() {
        assert_eq!(Message::parse(&out).as_ref(), Ok(&message));
    }
}

/// What is admitted has one question that reads the same in the general parser.
pub fn admission(data: &[u8]) {
    match admit(data) {
        Admission::Accept(query) | Admission::Update(query) => {
            let qname = query.qname(data).to_name();
            let header = Header::read(data).expect("an admitted request has a header");
            assert!(!header.flags.has(Flags::QR));
            assert_eq!(header.counts[0], 1);
            if let Ok(message) = Message::parse(data) {
                assert_eq!(message.questions[0].qname, qname);
                assert_eq!(message.questions[0].qtype, query.qtype);
            }
        }
        Admission::Reject(header) => assert!(header.flags.has(Flags::QR)),
        Admission::Ignore => {}
    }
}

/// A PROXY protocol header is bounded, and is the same however much follows it.
pub fn proxy(data: &[u8]) {
    use nodens_wire::proxy::{Beginning, PROXY_HEADER_MAX, beginning, tlv_vector};
    let found = beginning(data);
    match found {
        Ok(Beginning::Header(header)) => {
            assert!(header.len <= data.len().min(PROXY_HEADER_MAX));
            assert_eq!(beginning(&data[..header.len]), found);
            assert!(matches!(beginning(&data[..header.len - 1]), Ok(Beginning::Part { .. })));
            let vector = tlv_vector(header.tlvs);
            assert!(vector.is_none_or(|vector| vector.len() <= header.tlvs.len()));
        }
        Ok(Beginning::Part { wanted, .. }) => {
            assert!(wanted > data.len() && wanted <= PROXY_HEADER_MAX);
        }
        Ok(Beginning::Absent) | Err(_) => {
            assert_eq!(beginning(&[data, b"more"].concat()), found);
        }
    }
}

/// Presentation format goes both ways.
pub fn name(data: &[u8]) {
    if let Ok(name) = Name::from_wire(data) {
        assert_eq!(Name::parse(&name.to_string()).as_ref(), Ok(&name));
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(name) = Name::parse(text)
    {
        assert_eq!(Name::from_wire(name.as_wire()).as_ref(), Ok(&name));
    }
}

/// A Corefile is parsed or refused with a place; what is parsed is compiled or refused.
pub fn corefile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let sources = nodens_corefile::NoSources;
    match nodens_corefile::parse("Corefile", text, &sources) {
        Ok(_) => _ = Bench::try_new(text).map(drop),
        Err(error) => assert!(!error.render(text).is_empty()),
    }
}

/// Directives that look at, change and make messages, in one chain.
const COREFILE: &str = "example.org:53 {
    errors
    log
    prometheus
    nsid nodens
    any
    loadbalance
    dns64 {
        allow_ipv4
    }
    rewrite name suffix .rewritten.example.org .example.org answer auto
    rewrite ttl regex .* 10-100
    acl {
        block type TXT net 198.51.100.0/24
    }
    cache
    header {
        response set ra
    }
    minimal
    template IN TXT {
        match ^t\\.
        answer \"{{ .Name }} 60 IN TXT {{ .Question.Name }}\"
        fallthrough
    }
    hosts {
        192.0.2.9 h.example.org
        fallthrough
    }
    forward . 192.0.2.53
}
.:53 {
    chaos
    whoami
}";

thread_local! {
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

fn with_bench(run: impl FnOnce(&mut Bench)) {
    BENCH.with_borrow_mut(|bench| run(bench.get_or_insert_with(|| Bench::new(COREFILE))));
}

/// Any request gets a well-formed response with its ID, or none.
pub fn question(data: &[u8]) {
    with_bench(|bench| {
        bench.upstream(|_, question| {
            let mut answer = question.clone();
            answer.flags = answer.flags.with(Flags::QR, true).with(Flags::RA, true);
            let mut out = Vec::new();
            _ = answer.write(&mut out);
            Reaction::Reply(out)
        });
        if let Some(response) = bench.ask_bytes(data) {
            let header = Header::read(&response).expect("a response has a header");
            assert!(header.flags.has(Flags::QR));
            assert_eq!(response.get(..2), data.get(..2));
            assert!(Message::parse(&response).is_ok(), "malformed response");
        }
        while bench.log.try_recv().is_ok() {}
    });
}

/// Whatever an upstream says to a question, the client gets a well-formed response, now or after
/// the timeouts. The input is a header and what follows the question; the sockets' owner lets no
/// reply through whose question is not the one that was asked.
pub fn reply(data: &[u8]) {
    let Some((header, rest)) = data.split_first_chunk::<12>() else { return };
    let (header, rest) = (*header, rest.to_vec());
    with_bench(|bench| {
        bench.upstream(move |_, question| {
            let mut asked = question.clone();
            asked.additional.clear();
            let mut reply = Vec::new();
            _ = asked.write(&mut reply);
            reply.splice(2..4, [header[2] | 0x80, header[3]]);
            reply.splice(6..12, header[6..12].iter().copied());
            reply.extend(&rest);
            Reaction::Reply(reply)
        });
        let qname = format!("n{}.example.org", bench.now.mono_ns % 1_000_003);
        let request = nodens_core::testing::request(&format!("{qname} A +edns"));
        let mut responses: Vec<_> = bench.ask_bytes(&request).into_iter().collect();
        for _ in 0..70 {
            let sent = bench.pass(std::time::Duration::from_millis(100));
            responses.extend(sent.into_iter().map(|(_, wire)| wire));
        }
        assert_eq!(responses.len(), 1, "exactly one response");
        assert!(Message::parse(&responses[0]).is_ok(), "malformed response {:02x?}", responses[0]);
        for record in Records::of(&responses[0]).expect("it was read") {
            let valid = record.and_then(|record| record.validate(&responses[0]));
            assert!(valid.is_ok(), "{valid:?} in response {:02x?}", responses[0]);
        }
        assert_eq!(bench.worker.pending(), 0, "a job was left behind");
        while bench.log.try_recv().is_ok() {}
    });
}
