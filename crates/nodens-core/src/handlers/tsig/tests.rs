use crate::job::Transport;
use crate::stream::Stream;
use crate::testing::{Bench, request};
use crate::worker::Verdict;
use nodens_wire::{Builder, Class, Flags, Message, Name, Opcode, Rcode, Record, Section, Type};
use nodens_zone::tsig::{ErrorCode, Fault, Key, Verifier};
use nodens_zone::{Next, Records, Soa, Version, Zone};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

const SECRET: &str = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=";
const OTHER: &str = "X28hl0BOfAL5G0jsmJWSacrwn7YRm2f6U5brnzwWEus=";

fn key(name: &str, algorithm: &str) -> Key {
    Key::parse(name, SECRET, Some(algorithm)).unwrap()
}

/// A server with `tsig` and these lines in it, for the zone example.org.
fn bench(lines: &str) -> Bench {
    let tsig = format!("tsig {{\n secret key.example. {SECRET}\n{lines}\n}}");
    Bench::new(&format!("example.org {{\n {tsig}\n whoami\n}}\n. {{\n whoami\n}}"))
}

/// The response to `query` signed with `key`, verified or not.
fn ask(bench: &mut Bench, mut query: Vec<u8>, key: &Key) -> (Message, Result<(), Fault>) {
    let mut verifier = key.sign_query(&mut query, bench.now.unix_s).unwrap();
    let response = bench.ask_bytes(&query).unwrap();
    let verdict = verifier.accept(&response, bench.now.unix_s).and_then(|()| verifier.end());
    (Message::parse(&response).unwrap(), verdict)
}

fn rcode(bench: &mut Bench, question: &str) -> Rcode {
    bench.ask(question).flags.rcode()
}

fn signed_rcode(bench: &mut Bench, question: &str) -> Rcode {
    let (message, verdict) = ask(bench, request(question), &key("key.example.", "hmac-sha256"));
    assert_eq!(verdict, Ok(()), "{question}");
    message.flags.rcode()
}

fn types(message: &Message) -> Vec<Type> {
    message.additional.iter().map(|record| record.rtype).collect()
}

#[test]
fn a_signed_query_gets_a_signed_response() {
    let mut bench = bench("");
    for algorithm in ["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"] {
        let (message, verdict) =
            ask(&mut bench, request("www.example.org. A +edns"), &key("KEY.example", algorithm));
        assert_eq!(verdict, Ok(()), "{algorithm}");
        assert_eq!(message.flags.rcode(), Rcode::NOERROR);
        assert_eq!(types(&message)[2..], [Type::OPT, Type::TSIG]);
    }
    // Without a signature nothing is signed.
    let message = bench.ask("www.example.org. A");
    assert!(!types(&message).contains(&Type::TSIG));
}

#[test]
fn a_key_with_an_algorithm_is_for_that_alone() {
    let tsig = format!("tsig {{\n secret key.example. {SECRET} hmac-md5\n}}");
    let mut bench = Bench::new(&format!(". {{\n {tsig}\n whoami\n}}"));
    let query = || request("example.org. A");
    assert_eq!(ask(&mut bench, query(), &key("key.example.", "hmac-md5")).1, Ok(()));
    let (message, verdict) = ask(&mut bench, query(), &key("key.example.", "hmac-sha256"));
    assert_eq!(message.flags.rcode(), Rcode::NOTAUTH);
    assert_eq!(verdict, Err(Fault::Refused(ErrorCode::BADKEY)));
}

#[test]
fn what_is_not_authentic_is_notauth_with_the_reason() {
    let mut bench = bench("");
    let query = || request("www.example.org. A +edns");
    let wrong = Key::parse("key.example.", OTHER, None).unwrap();
    let unknown = key("unknown.example.", "hmac-sha256");
    for (key, error) in [(&wrong, ErrorCode::BADSIG), (&unknown, ErrorCode::BADKEY)] {
        let (message, verdict) = ask(&mut bench, query(), key);
        assert_eq!(message.flags.rcode(), Rcode::NOTAUTH);
        assert_eq!(verdict, Err(Fault::Refused(error)));
        assert_eq!((message.answer.len(), types(&message)), (0, vec![Type::OPT, Type::TSIG]));
    }
    let mut late = query();
    let right = key("key.example.", "hmac-sha256");
    let mut verifier = right.sign_query(&mut late, bench.now.unix_s).unwrap();
    bench.pass(Duration::from_secs(301));
    let response = bench.ask_bytes(&late).unwrap();
    let now = bench.now.unix_s;
    let verdict = verifier.accept(&response, now);
    assert_eq!(verdict, Err(Fault::OtherClock { server_s: now, own_s: now }));
    let text = bench.shared.registry.render();
    let line = "nodens_tsig_refused_total{server=\"dns://:53\",view=\"\"} 3";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_misplaced_record_is_formerr_without_a_signature() {
    let mut bench = bench("");
    let right = key("key.example.", "hmac-sha256");
    let mut query = request("www.example.org. A");
    right.sign_query(&mut query, bench.now.unix_s).unwrap();
    query.extend(b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00");
    query[11] += 1;
    let response = Message::parse(&bench.ask_bytes(&query).unwrap()).unwrap();
    assert_eq!(response.flags.rcode(), Rcode::FORMERR);
    assert_eq!(types(&response), [Type::OPT]);
}

#[test]
fn what_is_required_is_refused_unsigned() {
    let mut bench_of_types = bench(" require AXFR TXT\n require A TYPE65280");
    let bench = &mut bench_of_types;
    // The last line counts.
    for (question, expected) in [
        ("www.example.org. A", Rcode::REFUSED),
        ("www.example.org. TYPE65280", Rcode::REFUSED),
        ("www.example.org. TXT", Rcode::NOERROR),
        ("www.example.net. A", Rcode::NOERROR),
    ] {
        assert_eq!(rcode(bench, question), expected, "{question}");
    }
    assert_eq!(signed_rcode(bench, "www.example.org. A"), Rcode::NOERROR);
    assert!(bench.ask("www.example.org. A +edns").answer.is_empty());
}

#[test]
fn all_stays_and_none_does_not_undo_it() {
    for (lines, expected) in [
        (" require all", Rcode::REFUSED),
        (" require none", Rcode::NOERROR),
        (" require A\n require none", Rcode::NOERROR),
        (" require all\n require none", Rcode::REFUSED),
        (" require_opcode all", Rcode::REFUSED),
        (" require_opcode QUERY", Rcode::REFUSED),
        (" require_opcode UPDATE NOTIFY", Rcode::NOERROR),
        (" require_opcode none", Rcode::NOERROR),
    ] {
        assert_eq!(rcode(&mut bench(lines), "www.example.org. A"), expected, "{lines}");
    }
    let mut bench = bench(" require_opcode NOTIFY");
    let mut notify = request("example.org. SOA +norec");
    notify[2] |= Opcode::NOTIFY.0 << 3;
    let response = Message::parse(&bench.ask_bytes(&notify).unwrap()).unwrap();
    assert_eq!(response.flags.rcode(), Rcode::REFUSED);
    let (response, verdict) = ask(&mut bench, notify, &key("key.example.", "hmac-sha256"));
    assert_eq!((response.flags.opcode(), verdict), (Opcode::NOTIFY, Ok(())));
}

#[test]
fn outside_the_zones_a_signature_means_nothing() {
    let tsig = format!("tsig sub.example.org {{\n secret key.example. {SECRET}\n require all\n}}");
    let mut bench = Bench::new(&format!("example.org {{\n {tsig}\n whoami\n}}"));
    let unknown = key("unknown.example.", "hmac-sha256");
    let (message, verdict) = ask(&mut bench, request("www.example.org. A"), &unknown);
    assert_eq!((message.flags.rcode(), verdict), (Rcode::NOERROR, Err(Fault::Unsigned)));
    assert_eq!(rcode(&mut bench, "www.sub.example.org. A"), Rcode::REFUSED);
}

#[test]
fn errors_of_the_chain_are_signed() {
    let tsig = format!("tsig {{\n secret key.example. {SECRET}\n}}");
    let mut bench = Bench::new(&format!(". {{\n {tsig}\n}}"));
    assert_eq!(signed_rcode(&mut bench, "example.org. MX"), Rcode::SERVFAIL);
    let mut bench = Bench::new(&format!(". {{\n {tsig}\n acl {{\n block\n }}\n whoami\n}}"));
    assert_eq!(signed_rcode(&mut bench, "example.org. A"), Rcode::REFUSED);
}

#[test]
fn keys_are_those_of_all_blocks_of_a_server() {
    let tsig = |lines: &str| format!("tsig {{\n {lines}\n require all\n}}\n whoami");
    let corefile = format!(
        "a.example {{\n {}\n}}\nb.example {{\n {}\n}}\nc.example:54 {{\n {}\n}}",
        tsig(""),
        tsig(&format!("secret key.example. {SECRET}")),
        tsig("")
    );
    let mut bench = Bench::new(&corefile);
    assert_eq!(signed_rcode(&mut bench, "www.a.example. A"), Rcode::NOERROR);
    assert_eq!(signed_rcode(&mut bench, "www.b.example. A"), Rcode::NOERROR);
    bench.client.listener = 1;
    let right = key("key.example.", "hmac-sha256");
    let (message, _) = ask(&mut bench, request("www.c.example. A"), &right);
    assert_eq!(message.flags.rcode(), Rcode::NOTAUTH);
}

#[test]
fn a_signature_counts_for_lookups_that_the_query_leads_to() {
    let alias = "template IN A alias.example.org {\n answer \"{{ .Name }} 60 IN CNAME \
                 www.secret.example.\"\n }";
    let tsig = format!("tsig {{\n secret key.example. {SECRET}\n require A\n}}");
    let answer = "template IN A secret.example {\n answer \"{{ .Name }} 60 IN A 192.0.2.7\"\n }";
    let secret = format!("secret.example {{\n {tsig}\n {answer}\n}}");
    // The alias is shown, and what it leads to is not.
    let mut open = Bench::new(&format!("example.org {{\n {alias}\n}}\n{secret}"));
    assert_eq!(open.ask("alias.example.org. A").answer.len(), 1);
    let mut both = Bench::new(&format!("example.org {{\n {tsig}\n {alias}\n}}\n{secret}"));
    let right = key("key.example.", "hmac-sha256");
    let (message, verdict) = ask(&mut both, request("alias.example.org. A"), &right);
    assert_eq!((message.answer.len(), verdict), (2, Ok(())));
}

#[test]
fn the_signature_of_a_query_without_a_response_is_for_no_other() {
    let tsig = format!("tsig {{\n secret key.example. {SECRET}\n}}");
    let acl = "acl {\n drop type TXT\n }";
    let mut bench = Bench::new(&format!(". {{\n {tsig}\n {acl}\n whoami\n}}"));
    let mut query = request("example.org. TXT");
    key("key.example.", "hmac-sha256").sign_query(&mut query, bench.now.unix_s).unwrap();
    assert_eq!(bench.ask_bytes(&query), None);
    assert!(!types(&bench.ask("example.org. A")).contains(&Type::TSIG));
}

#[test]
fn an_answer_that_is_given_early_is_signed() {
    let tsig = format!("tsig {{\n secret key.example. {SECRET}\n}}");
    let cache = "cache {\n serve_stale 1h verify 100ms\n }";
    let corefile = format!(". {{\n {tsig}\n {cache}\n forward . 192.0.2.9\n}}");
    let (mut bench, mut asked) = (Bench::new(&corefile), 0);
    bench.upstream(move |_, query| {
        asked += 1;
        let mut reply = query.clone();
        reply.flags = reply.flags.with(Flags::QR, true);
        let owner = reply.questions[0].qname.clone();
        let rdata = vec![192, 0, 2, 7];
        reply.answer = vec![Record { owner, rtype: Type::A, class: Class::IN, ttl: 10, rdata }];
        let mut wire = Vec::new();
        reply.write(&mut wire).unwrap();
        match asked {
            1 => crate::testing::Reaction::Reply(wire),
            _ => crate::testing::Reaction::Silence,
        }
    });
    bench.ask("example.org. A");
    bench.pass(Duration::from_secs(20));
    let mut query = request("example.org. A");
    let right = key("key.example.", "hmac-sha256");
    let mut verifier = right.sign_query(&mut query, bench.now.unix_s).unwrap();
    assert_eq!(bench.ask_bytes(&query), None);
    let sent = bench.pass(Duration::from_millis(100));
    let [(_, response)] = sent.as_slice() else { panic!("{} responses", sent.len()) };
    assert_eq!(Message::parse(response).unwrap().answer.len(), 1);
    assert_eq!(verifier.accept(response, bench.now.unix_s), Ok(()));
}

/// A zone with many records.
#[derive(Debug)]
struct Numbers;

impl Zone for Numbers {
    fn soa(&self) -> Option<Soa> {
        let origin: Name = "example.org.".parse().unwrap();
        Some(Soa::with(origin.view(), 5, (&origin, &origin), [7, 7200, 1800, 86400, 5]))
    }

    fn version(&self) -> Option<Version> {
        let record = |n: u32| Record {
            owner: format!("n{n}.example.org.").parse().unwrap(),
            rtype: Type::A,
            class: Class::IN,
            ttl: 5,
            rdata: n.to_be_bytes().to_vec(),
        };
        let records = Records::new((0..5000).map(record).collect());
        Some(Version { soa: self.soa()?, records: Box::new(records) })
    }
}

fn begin(bench: &mut Bench, query: &[u8]) -> (Vec<u8>, Option<Box<Stream>>) {
    let mut out = Vec::new();
    let verdict = bench.worker.receive(bench.now, bench.client, query, &mut out);
    assert!(matches!(verdict, Verdict::Answered | Verdict::Streaming), "{verdict:?}");
    (out, bench.worker.take_stream())
}

fn primary() -> Bench {
    let tsig = format!("tsig {{\n secret key.example. {SECRET}\n require AXFR IXFR\n}}");
    let corefile = format!("example.org {{\n {tsig}\n transfer {{\n to *\n }}\n whoami\n}}");
    let zone: Arc<dyn Zone> = Arc::new(Numbers);
    let options = crate::config::BuildOptions {
        zones: vec![("example.org.".parse().unwrap(), zone)],
        ..Default::default()
    };
    let mut bench = Bench::with_options(&corefile, &options).unwrap();
    bench.client.transport = Transport::Tcp;
    bench
}

/// Verifies what is left of a transfer, ten minutes after each message, and counts messages.
fn rest(bench: &mut Bench, stream: Option<Box<Stream>>, verifier: &mut Verifier) -> usize {
    let (mut stream, mut out, mut count) = (stream.unwrap(), Vec::new(), 0);
    loop {
        bench.pass(Duration::from_secs(600));
        let next = stream.next_message(bench.now, &mut out).unwrap();
        if next != Next::Nothing {
            count += 1;
            verifier.accept(&out, bench.now.unix_s).unwrap();
            assert_eq!(verifier.end(), Ok(()));
        }
        if next == Next::Last {
            return count;
        }
    }
}

#[test]
fn every_message_of_a_transfer_is_signed_when_it_is_made() {
    let mut bench = primary();
    assert_eq!(rcode(&mut bench, "example.org. AXFR"), Rcode::REFUSED);
    for algorithm in ["hmac-sha256", "hmac-sha512"] {
        let mut query = request("example.org. AXFR +edns");
        let now = bench.now.unix_s;
        let mut verifier = key("key.example.", algorithm).sign_query(&mut query, now).unwrap();
        let (first, stream) = begin(&mut bench, &query);
        verifier.accept(&first, bench.now.unix_s).unwrap();
        assert!(rest(&mut bench, stream, &mut verifier) > 3);
    }
    // One message is signed as a response of one.
    let mut query = Vec::new();
    let origin: Name = "example.org.".parse().unwrap();
    let mut builder = Builder::new(&mut query, 7, Flags(0));
    builder.question(origin.view(), Type::IXFR, Class::IN);
    builder.push(Section::Authority, Numbers.soa().unwrap().record()).unwrap();
    let (message, verdict) = ask(&mut bench, query, &key("key.example.", "hmac-sha256"));
    assert_eq!((message.answer.len(), verdict), (1, Ok(())));
}

#[test]
fn a_signature_has_room_in_a_datagram() {
    let text = "x".repeat(90);
    let answers: String =
        (0..20).map(|n| format!("answer \"{{{{ .Name }}}} 60 IN TXT {n}{text}\"\n")).collect();
    let tsig = format!("tsig {{\n secret key.example. {SECRET}\n}}");
    let corefile = format!(". {{\n {tsig}\n template IN TXT . {{\n {answers} }}\n}}");
    let mut bench = Bench::new(&corefile);
    for (question, limit) in [("example.org. TXT", 512), ("example.org. TXT +edns", 1232)] {
        let mut query = request(question);
        let right = key("key.example.", "hmac-sha512");
        let mut verifier = right.sign_query(&mut query, bench.now.unix_s).unwrap();
        let response = bench.ask_bytes(&query).unwrap();
        assert!(response.len() <= limit && response.len() > limit - 130, "{}", response.len());
        let message = Message::parse(&response).unwrap();
        assert!(message.flags.has(Flags::TC) && !message.answer.is_empty());
        assert_eq!(verifier.accept(&response, bench.now.unix_s), Ok(()));
    }
}

#[test]
fn a_response_that_had_to_be_waited_for_is_signed() {
    let tsig = format!("tsig {{\n secret key.example. {SECRET}\n}}");
    let mut bench = Bench::new(&format!(". {{\n {tsig}\n forward . 192.0.2.9\n}}"));
    bench.upstream(|_, query| {
        assert!(query.additional.iter().all(|record| record.rtype != Type::TSIG));
        let mut reply = query.clone();
        reply.flags = reply.flags.with(Flags::QR, true);
        let mut wire = Vec::new();
        reply.write(&mut wire).unwrap();
        crate::testing::Reaction::Reply(wire)
    });
    assert_eq!(signed_rcode(&mut bench, "example.org. A"), Rcode::NOERROR);
}

#[test]
fn what_is_wrong_is_refused_with_its_place() {
    for (lines, wanted) in [
        ("secret a", "3:2: Wrong argument count"),
        ("secret a b c d", "Wrong argument count"),
        ("secret a..b c2VjcmV0", "3:2: the name of key \"a..b\" is invalid"),
        ("secret a c2Vjc", "3:2: the secret of key \"a\" is not base64"),
        ("secret a c2VjcmV0 rot13", "\"rot13\" is not an algorithm of TSIG, expected hmac-md5,"),
        ("secret a c2VjcmV0\n secret A. c2VjcmV0", "4:2: key \"a.\" redefined"),
        ("secrets", "3:2: Wrong argument count"),
        ("secrets a b", "Wrong argument count"),
        ("secrets /none/keys", "3:10: secrets \"/none/keys\": No such file"),
        ("require", "3:2: Wrong argument count"),
        ("require axfr", "3:10: expected a type such as AXFR, all, or none"),
        ("require all A", "3:14: expected nothing after all"),
        ("require A all", "3:12: expected a type such as AXFR, all, or none"),
        ("require_opcode", "3:2: Wrong argument count"),
        ("require_opcode query", "3:17: expected QUERY, IQUERY, STATUS, NOTIFY, UPDATE, all, or"),
        ("require_opcode none QUERY", "expected nothing after none"),
        ("secret a c2VjcmV0 {\n}", "3:2:"),
        ("sercet a c2VjcmV0", "3:2: unknown property 'sercet', did you mean 'secret'?"),
    ] {
        let error = Bench::try_new(&format!(". {{\ntsig {{\n {lines}\n}}\n}}")).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(wanted), "{lines}: {error}");
    }
    let twice = Bench::try_new(". {\n tsig\n tsig\n}").unwrap_err().to_string();
    assert!(twice.contains("3:2: this plugin can only be used once per Server Block"), "{twice}");
}

#[test]
fn keys_of_a_file_are_as_good_as_those_of_the_corefile() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    let corefile = format!(". {{\ntsig {{\n secrets {path}\n}}\n whoami\n}}");
    assert!(Bench::try_new(&corefile).is_ok());
    writeln!(
        file,
        "key \"key.example.\" {{\n  algorithm hmac-sha256;\n  secret \"{SECRET}\";\n}};"
    )
    .unwrap();
    let mut bench = Bench::new(&corefile);
    assert_eq!(signed_rcode(&mut bench, "example.org. A"), Rcode::NOERROR);
    let other = key("key.example.", "hmac-sha1");
    let (_, verdict) = ask(&mut bench, request("example.org. A"), &other);
    assert_eq!(verdict, Err(Fault::Refused(ErrorCode::BADKEY)));
    let both = corefile.replace("secrets", &format!("secret key.example. {SECRET}\n secrets"));
    let error = Bench::try_new(&both).unwrap_err().to_string();
    assert!(error.contains("4:10: key \"key.example.\" redefined"), "{error}");
    writeln!(file, "kye").unwrap();
    let error = Bench::try_new(&corefile).unwrap_err().to_string();
    assert!(error.contains("line 5: expected `key`"), "{error}");
    file.as_file().set_len(2 << 20).unwrap();
    let error = Bench::try_new(&corefile).unwrap_err().to_string();
    assert!(error.contains("longer than 1048576 octets"), "{error}");
}
