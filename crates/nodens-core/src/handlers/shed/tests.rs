use crate::log::Record;
use crate::testing::{Bench, Reaction};
use crate::transport::Transport;
use nodens_wire::{Builder, Flags, Message};

/// The fewest queries of one worker that may wait.
const WAITING: usize = 32;

const COREFILE: &str = ". {\n shed\n prometheus\n log . \"{name} {rcode}\"\n forward . 192.0.2.1\n}\n\
     loud.test {\n forward . 192.0.2.1\n}";

/// A bench at which [`WAITING`] queries wait for an upstream that is silent.
fn full(corefile: &str, first: &str) -> Bench {
    let mut bench = Bench::new(corefile);
    bench.shared.set_pending_memory(1);
    bench.upstream(|_, _| Reaction::Silence);
    for number in 0..WAITING {
        assert_eq!(bench.worker.pending(), number);
        assert_eq!(bench.ask_bytes(&crate::testing::request(&format!("{number}.{first} A"))), None);
    }
    bench
}

fn one_more(bench: &mut Bench, name: &str) -> Option<Vec<u8>> {
    let answer = bench.ask_bytes(&crate::testing::request(&format!("{name} A")));
    assert_eq!(bench.worker.pending(), WAITING);
    answer
}

fn dropped(bench: &Bench, reason: &str) -> String {
    let text = bench.shared.registry.render();
    let series = format!("coredns_shed_dropped_total{{server=\"dns://:53\",reason=\"{reason}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&series));
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn a_query_that_there_is_no_room_for_gets_no_response_and_is_counted() {
    let mut bench = full(COREFILE, "test");
    assert_eq!(dropped(&bench, "query"), "0");
    _ = bench.log.try_iter().count();
    assert_eq!(one_more(&mut bench, "more.test"), None);
    assert_eq!((dropped(&bench, "query"), dropped(&bench, "response")), ("1".into(), "0".into()));
    let lines: Vec<String> = bench
        .log
        .try_iter()
        .filter_map(|record| match record {
            Record::Query(query) => Some(query.line()),
            _ => None,
        })
        .collect();
    // The oldest of them, without an RCODE.
    assert_eq!(lines, ["0.test. -"]);
    let text = bench.shared.registry.render();
    assert!(!text.contains("rcode=\"SERVFAIL\""), "{text}");
}

#[test]
fn other_blocks_and_transports_hear_that_it_failed() {
    let servfail = |answer: Option<Vec<u8>>| assert_eq!(answer.unwrap()[3] & 0x0f, 2);
    let mut loud = full(COREFILE, "loud.test");
    servfail(one_more(&mut loud, "more.loud.test"));
    assert_eq!(dropped(&loud, "query"), "0");
    let mut bench = Bench::new(COREFILE);
    bench.client.transport = Transport::Tcp;
    bench.shared.set_pending_memory(1);
    bench.upstream(|_, _| Reaction::Silence);
    for number in 0..WAITING {
        assert_eq!(one_of(&mut bench, number), None);
    }
    servfail(one_of(&mut bench, WAITING));
    assert_eq!(dropped(&bench, "query"), "0");
}

/// A response without records.
fn nxdomain(query: &Message) -> Vec<u8> {
    let mut wire = Vec::new();
    let question = &query.questions[0];
    let mut builder = Builder::new(&mut wire, query.id, Flags(0x8183));
    builder.question(question.qname.view(), question.qtype, question.qclass);
    wire
}

fn one_of(bench: &mut Bench, number: usize) -> Option<Vec<u8>> {
    bench.ask_bytes(&crate::testing::request(&format!("{number}.test A")))
}

#[test]
fn those_who_wait_for_the_same_are_not_dropped_with_it() {
    // The query that leads is dropped; the next one asks in its place.
    let mut bench = Bench::new(". {\n shed\n cache\n forward . 192.0.2.1\n}");
    bench.shared.set_pending_memory(1);
    bench.upstream(|_, _| Reaction::Silence);
    for _ in 0..WAITING {
        assert_eq!(bench.ask_bytes(&crate::testing::request("same.test A")), None);
    }
    assert_eq!(bench.asked, 1);
    assert_eq!(bench.ask_bytes(&crate::testing::request("same.test A")), None);
    assert_eq!(dropped(&bench, "query"), "1");
    assert_eq!(bench.worker.pending(), WAITING);
    bench.upstream(|_, query| Reaction::Reply(nxdomain(query)));
    let sent = bench.pass(std::time::Duration::from_secs(6));
    assert_eq!(sent.len(), WAITING);
}

#[test]
fn what_it_does_not_take_is_refused() {
    let cases = [
        ("shed 1024", "2:7: Wrong argument count"),
        ("shed {\n depth 1\n }", "3:2: unknown property 'depth'"),
        ("shed\n shed", "3:2: this plugin can only be used once"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n whoami\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
