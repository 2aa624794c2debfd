//! Lookups that handlers make, and what those who count, log and refuse make of them.

use crate::log::Record;
use crate::testing::{Bench, request};
use nodens_wire::Type;

/// Answers for the names of the tests; anything else does not exist.
const ANSWERS: &str = "
    template IN A v4.test t.new {
        answer \"{{ .Name }} 60 IN A 192.0.2.1\"
    }
    template IN A cn.test {
        answer \"{{ .Name }} 60 IN CNAME t.old.\"
    }
    template IN AAAA v6.test {
        answer \"{{ .Name }} 60 IN AAAA 2001:db8::1\"
    }
    template ANY ANY v4.test v6.test cn.test drop.test
    template ANY ANY {
        rcode NXDOMAIN
    }";

fn bench(directives: &str) -> Bench {
    Bench::new(&format!(".:53 {{\n{directives}\n{ANSWERS}\n}}"))
}

/// The lines of `log`, sorted.
fn logged(bench: &Bench) -> Vec<String> {
    let line = |record| match record {
        Record::Query(query) => Some(query.line()),
        _ => None,
    };
    let mut lines: Vec<String> = bench.log.try_iter().filter_map(line).collect();
    lines.sort();
    lines
}

/// The value of each series of `metric` and of one of its labels, sorted.
fn counted(bench: &Bench, metric: &str, label: &str) -> Vec<(String, String)> {
    let text = bench.shared.registry.render();
    let start = format!("{metric}{{");
    let series = text.lines().filter_map(|line| line.strip_prefix(&start)?.rsplit_once("} "));
    let value = |(labels, count): (&str, &str)| {
        let of_label =
            labels.split(',').find_map(|pair| pair.strip_prefix(label)?.strip_prefix('='));
        (of_label.unwrap_or_default().trim_matches('"').to_owned(), count.to_owned())
    };
    let mut values: Vec<_> = series.map(value).collect();
    values.sort();
    values
}

fn pairs(values: &[(&str, &str)]) -> Vec<(String, String)> {
    values.iter().map(|(label, count)| ((*label).to_owned(), (*count).to_owned())).collect()
}

const REQUESTS: &str = "coredns_dns_requests_total";
const RESPONSES: &str = "coredns_dns_responses_total";

/// What CoreDNS 1.15.0 counts and logs with this Corefile.
#[test]
fn what_handlers_ask_the_server_is_counted_as_it_is_logged() {
    let log = "log . \"{type} {name} {size}\"";
    let mut bench = bench(&format!(
        "prometheus\n{log}\ndns64 {{\n allow_ipv4\n}}\nrewrite cname suffix .old. .new."
    ));
    bench.ask("v4.test AAAA");
    bench.ask("v6.test AAAA");
    assert_eq!(logged(&bench), ["A v4.test. 25", "AAAA v4.test. 25", "AAAA v6.test. 25"]);
    assert_eq!(counted(&bench, REQUESTS, "type"), pairs(&[("A", "1"), ("AAAA", "2")]));
    bench.ask("cn.test A +edns");
    // The template looks its own alias up before the rule gives it another target.
    assert_eq!(logged(&bench), ["A cn.test. 36", "A t.new. 34", "A t.old. 34"]);
    assert_eq!(counted(&bench, REQUESTS, "type"), pairs(&[("A", "4"), ("AAAA", "2")]));
}

#[test]
fn a_lookup_takes_the_time_since_it_began() {
    let corefile =
        ".:53 {\nlog . \"{type} {duration}\"\ndns64 {\nallow_ipv4\n}\nforward . 192.0.2.9\n}";
    let mut bench = Bench::new(corefile);
    bench.upstream(|_, question| {
        let mut answer = question.clone();
        answer.flags = question.flags.reply();
        let mut reply = Vec::new();
        answer.write(&mut reply).unwrap();
        let time = std::time::Duration::from_millis(20);
        crate::testing::Reaction::After(time, Box::new(crate::testing::Reaction::Reply(reply)))
    });
    bench.ask_for("v4.test AAAA", std::time::Duration::from_secs(1)).unwrap();
    assert_eq!(logged(&bench), ["A 0.02s", "AAAA 0.04s"]);
}

#[test]
fn a_response_has_the_name_of_the_directive_that_gave_it() {
    let cname = "rewrite cname suffix .old. .new.";
    for directives in ["prometheus\ndns64 {\n allow_ipv4\n}", &format!("prometheus\n{cname}")] {
        let mut bench = bench(directives);
        bench.ask("v6.test AAAA");
        assert_eq!(counted(&bench, RESPONSES, "plugin"), pairs(&[("template", "1")]));
    }
    let mut bench = bench("prometheus\ndns64 {\n allow_ipv4\n}");
    bench.ask("v4.test AAAA");
    let wanted = pairs(&[("dns64", "1"), ("template", "1")]);
    assert_eq!(counted(&bench, RESPONSES, "plugin"), wanted);
}

/// Which count and log what comes without a response.
const WATCHERS: &str = "prometheus\nlog . \"{type} {name} {rcode} {rsize} {>rflags}\" {
        class error
    }";

fn assert_noted_once(bench: &mut Bench) {
    assert_eq!(bench.ask_bytes(&request("drop.test AAAA")), None);
    assert_eq!(logged(bench), ["AAAA drop.test. - 0 -"]);
    assert_eq!(counted(bench, REQUESTS, "type"), pairs(&[("AAAA", "1")]));
    assert_eq!(counted(bench, RESPONSES, "rcode"), pairs(&[("NOERROR", "1")]));
}

#[test]
fn a_question_that_is_dropped_is_counted_and_logged_once() {
    for waiting in ["bufsize", "dns64 {\n allow_ipv4\n}", "rewrite cname suffix .old. .new."] {
        let mut bench = bench(&format!("{WATCHERS}\n{waiting}\nacl drop.test {{\n drop\n}}"));
        assert_noted_once(&mut bench);
        // And the next one is not taken for one that was dropped.
        assert_eq!(bench.ask("v6.test AAAA").answer.len(), 1);
        assert_eq!(logged(&bench), [""; 0], "{waiting}");
    }
}

#[test]
fn a_question_that_is_dropped_under_another_name_is_noted_under_its_own() {
    let rename =
        "rewrite name exact drop.test other.test\nrewrite rcode exact drop.test NOERROR REFUSED";
    let erratic = "erratic {\n drop 1\n delay 0\n}";
    assert_noted_once(&mut Bench::new(&format!(".:53 {{\n{WATCHERS}\n{rename}\n{erratic}\n}}")));
}

#[test]
fn a_question_that_is_dropped_has_no_answer_whoever_waits_for_it() {
    for waiting in ["dns64 {\n allow_ipv4\n}", "rewrite cname suffix .old. .new.", "bufsize"] {
        let mut bench = bench(&format!("{waiting}\nacl drop.test {{\n drop type AAAA\n}}"));
        assert_eq!(bench.ask_bytes(&request("drop.test AAAA")), None, "{waiting}");
        assert_eq!(bench.worker.pending(), 0);
        assert_eq!(bench.ask("v6.test AAAA").answer.len(), 1);
    }
    // What is only looked up for the client's question is not that question.
    let corefile = "rewrite cname suffix .old. .new.\nacl t.new {\n drop\n}";
    let answer = bench(corefile).ask("cn.test A").answer;
    assert_eq!(answer.iter().map(|record| record.rtype).collect::<Vec<_>>(), [Type::CNAME]);
}

#[test]
fn clients_alone_are_seen_by_dnstap() {
    let mut bench = bench("dnstap /run/tap\ndns64 {\n allow_ipv4\n}");
    let messages = bench.worker.config().services.taps[0].take_messages().unwrap();
    assert_eq!(bench.ask("v4.test AAAA").answer.len(), 1);
    assert_eq!(messages.now().count(), 2);
}
