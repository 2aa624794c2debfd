//! `forward` and `loop` over real sockets.

use crate::fixture::{Server, eventually, free_port};
use crate::upstreams::{Habit, Upstream};
use nodens_wire::{Rcode, Type};
use std::time::Duration;

#[test]
fn a_loop_isolates_the_block_that_loops_and_no_other() {
    let upstream = Upstream::start(Habit::Answers(Duration::ZERO));
    let corefile = format!(
        "looping.example:PORT {{\n loop\n forward . 127.0.0.1:PORT\n}}\n\
         .:PORT {{\n loop\n forward . {}\n}}\n",
        upstream.address
    );
    let server = Server::start("loop", &corefile);
    let line = server.wait_for("plugin/loop: Loop (");
    assert!(line.starts_with("[ERROR]"), "{line}");
    assert!(line.contains("detected for zone \"looping.example.\""), "{line}");
    let asked = std::time::Instant::now();
    let answer = server.ask("www.looping.example.", Type::A);
    assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
    // A query that went round and round would end after five seconds.
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    assert_eq!(server.ask("www.example.", Type::A).answer.len(), 1);
    assert!(server.end("-TERM").success());
}

#[test]
fn a_server_whose_every_question_goes_round_and_round_is_not_ready() {
    let (ready, metrics) = (free_port(), free_port());
    let corefile = format!(
        ".:PORT {{\n bind 127.0.0.1\n loop\n ready 127.0.0.1:{ready}\n \
         prometheus 127.0.0.1:{metrics}\n forward . 127.0.0.1:PORT\n}}\n"
    );
    let server = Server::start("loop-ready", &corefile);
    server.wait_for("plugin/loop: Loop (");
    assert_eq!(server.ask("www.example.", Type::A).flags.rcode(), Rcode::SERVFAIL);
    let (status, body) = server.get(ready, "/ready");
    assert!(status.contains(" 503 ") && body == "loop", "{status} {body}");
    let text = server.get(metrics, "/metrics").1;
    let series =
        format!("nodens_loop_detected{{server=\"dns://{}\",zone=\".\"}} 1\n", server.address);
    assert!(text.contains(&series), "{text}");
    assert!(server.end("-TERM").success());
}

#[test]
fn an_upstream_may_be_named_and_is_looked_up_at_start() {
    let upstream = Upstream::start(Habit::Answers(Duration::ZERO));
    let corefile = format!(".:PORT {{\n forward . localhost:{}\n}}\n", upstream.address.port());
    let server = Server::start("named-upstream", &corefile);
    eventually("an answer", || !server.ask("www.example.", Type::A).answer.is_empty());
    assert!(upstream.asked() > 0);
}
