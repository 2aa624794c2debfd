//! DNS over HTTPS and gRPC: clients of both versions of HTTP, and such that do not behave.

mod clients;
mod encrypted;
mod floods;
mod frames;
mod grpc;
mod leaving;

use super::client::{PATIENCE, assert_answered, question};
use super::server::{Server, eventually};
use super::upstream::{Act, Upstream, gate};
use clients::{One, Two};
use nodens_net::Options;
use nodens_wire::Message;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const COREFILE: &str = "https://.:0 {\n bind 127.0.0.1\n whoami\n}";

fn query(id: u16) -> Vec<u8> {
    question(id, "example.org A")
}

#[test]
fn both_versions_answer_queries_of_both_methods() {
    let server = Server::start(COREFILE);
    let mut one = One::connect(server.address());
    let mut two = Two::connect(server.address());
    for id in 1..20 {
        for response in
            [one.get(&query(id)), one.post(&query(id)), two.get(&query(id)), two.post(&query(id))]
        {
            assert_eq!(
                (response.status, response.field("content-type")),
                (200, "application/dns-message")
            );
            assert_eq!(response.field("content-length"), response.body.len().to_string());
            // `whoami` answers with TTL 0.
            assert_eq!(response.field("cache-control"), "max-age=0");
            let answer = Message::parse(&response.body).unwrap();
            assert_eq!(answer.id, id);
            assert_answered(&answer);
            // It came over TCP.
            assert!(format!("{:?}", answer.additional).contains("_tcp"), "{answer:?}");
        }
    }
    assert_eq!(server.count("coredns_dns_https_responses_total"), 76);
    server.stop();
}

#[test]
fn many_requests_at_once_are_answered_as_their_answers_come() {
    let (open, wait) = gate();
    let upstream = Upstream::start(move |asked| {
        let name = asked.name();
        let wait = match &*name {
            "held.test." => Act::WaitFor(wait.clone()),
            "slow.test." => Act::Wait(Duration::from_millis(100)),
            _ => Act::Wait(Duration::ZERO),
        };
        vec![wait, Act::Send(asked.answer())]
    });
    let corefile = format!("https://.:0 {{\n bind 127.0.0.1\n forward . {}\n}}", upstream.address);
    let server = Server::start(&corefile);
    let mut two = Two::connect(server.address());
    two.block_on(async |client| {
        let held = client.send_post(&question(1, "held.test A"));
        let quick: Vec<_> =
            (2..200).map(|id| client.send_post(&question(id, &format!("{id}.test A")))).collect();
        for (id, response) in (2..).zip(quick) {
            assert_eq!(response.await.message().id, id);
        }
        open.store(true, Ordering::Relaxed);
        assert_eq!(held.await.message().id, 1);
    });
    // In HTTP/1.1 one follows the other.
    let mut one = One::connect(server.address());
    one.send_get(&question(1, "slow.test A"));
    one.send_get(&question(2, "quick.test A"));
    assert_eq!([one.receive().message().id, one.receive().message().id], [1, 2]);
    server.stop();
}

#[test]
fn what_gets_no_dns_response_gets_one_of_http() {
    let silent = Upstream::start(|_| Vec::new());
    let corefile = format!(
        "https://.:0 {{\n bind 127.0.0.1\n acl {{\n  drop net 127.0.0.0/8\n }}\n forward . {}\n}}",
        silent.address
    );
    let server = Server::start(&corefile);
    let (mut one, mut two) = (One::connect(server.address()), Two::connect(server.address()));
    for response in [one.post(&query(1)), two.post(&query(1))] {
        assert_eq!((response.status, &response.body[..]), (500, &b"No response\n"[..]));
        assert_eq!(response.field("x-content-type-options"), "nosniff");
    }
    for response in [one.post(b"abc"), two.post(b"abc")] {
        assert_eq!((response.status, &response.body[..]), (400, &b"invalid request\n"[..]));
    }
    let long = vec![0; 70_000];
    assert_eq!(two.post(&long).status, 400);
    for response in [
        one.request("GET", "/", b""),
        two.block_on(async |client| client.send("GET", "/", &[]).await),
    ] {
        assert_eq!(response.status, 404);
    }
    eventually("statuses to be counted", || server.count("coredns_dns_https_responses_total") == 7);
    server.stop();
}

#[test]
fn a_request_that_is_not_heard_out_is_answered_and_read_to_its_end() {
    let server = Server::start(COREFILE);
    let long = "x".repeat(400_000);
    for octets in [
        format!("POST /dns-query HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n{long}"),
        format!("GET / HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n"),
        format!("GET /\r\n{long}"),
    ] {
        let mut one = One::connect(server.address());
        // Slowly: the response is sent long before the last octet.
        assert!(octets.as_bytes().chunks(40_000).all(|own| one.sends_slowly(own)));
        let reply = one.receive();
        assert!((400..500).contains(&reply.status), "{reply:?}");
        assert!(one.is_closed());
    }
    server.stop();
}

#[test]
fn transfers_are_refused() {
    let server = Server::start(
        "https://.:0 {\n bind 127.0.0.1\n transfer {\n  to *\n }\n hosts {\n  192.0.2.1 a.test\n }\n}",
    );
    let response = One::connect(server.address()).post(&question(1, "test AXFR"));
    assert_eq!(response.message().flags.rcode(), nodens_wire::Rcode::REFUSED);
    server.stop();
}

#[test]
fn a_request_that_does_not_become_whole_is_given_up() {
    let timeouts = " timeouts {\n  read 1s\n  idle 20s\n }\n whoami";
    let server = Server::start(&COREFILE.replace(" whoami", timeouts));
    // Octet by octet: the head, and the body. All of it would take longer than ten seconds.
    let head = "POST /dns-query HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n".to_owned();
    for (at_once, slowly) in
        [(0, head.clone() + &"x".repeat(100)), (head.len(), head + &"x".repeat(200))]
    {
        let mut one = One::connect(server.address());
        assert_eq!(one.post(&query(1)).status, 200);
        let began = Instant::now();
        assert!(one.drips_behind(slowly.as_bytes(), at_once));
        let elapsed = began.elapsed();
        assert!((700..2500).contains(&elapsed.as_millis()), "{elapsed:?}");
    }
    let mut two = Two::connect(server.address());
    two.block_on(async |client| {
        let (mut body, response) = client.begin("POST", "/dns-query");
        body.send_data(vec![0; 3].into(), false).unwrap();
        let began = Instant::now();
        // Others on the same connection are served meanwhile.
        while began.elapsed() < Duration::from_millis(700) {
            assert_eq!(client.send_post(&query(2)).await.status, 200);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(response.await.is_err());
        assert!(began.elapsed() < Duration::from_secs(3));
        assert_eq!(client.send_post(&query(3)).await.status, 200);
    });
    server.stop();
}

#[test]
fn idle_connections_hear_that_they_end() {
    let timeouts = " timeouts {\n  idle 1s\n }\n whoami";
    let server = Server::start(&COREFILE.replace(" whoami", timeouts));
    let mut one = One::connect(server.address());
    assert_eq!(one.post(&query(1)).status, 200);
    let mut two = Two::connect(server.address());
    assert_eq!(two.post(&query(1)).status, 200);
    assert!(two.is_ended(), "the end is no error");
    assert!(one.is_closed());
    server.stop();
}

#[test]
fn frames_that_ask_nothing_buy_no_time() {
    let timeouts = " timeouts {\n  read 1s\n  idle 1s\n }\n whoami";
    let server = Server::start(&COREFILE.replace(" whoami", timeouts));
    let mut raw = floods::Raw::connect(server.address());
    let (mut other, began) = (raw.other_end(), Instant::now());
    let sends = std::thread::spawn(move || {
        let frames = [(frames::PING, &[7; 8][..]), (frames::SETTINGS, &[])];
        let frames = frames.map(|(kind, payload)| frames::frame(kind, 0, 0, payload)).concat();
        while began.elapsed() < Duration::from_secs(3) && other.send(&frames) {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert_eq!(raw.goodbye(), Some(0));
    assert!((800..2500).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    sends.join().unwrap();
    server.stop();
}

#[test]
fn no_more_queries_are_answered_than_a_connection_may_ask() {
    let timeouts = " timeouts {\n  maxtcpqueries 3\n }\n whoami";
    let server = Server::start(&COREFILE.replace(" whoami", timeouts));
    // All at once.
    let mut raw = floods::Raw::connect(server.address());
    let requests = [1, 3, 5, 7, 9].map(|stream| {
        let head = frames::frame(frames::HEADERS, frames::END_HEADERS, stream, frames::POST);
        [head, frames::frame(frames::DATA, frames::END_STREAM, stream, &query(1))].concat()
    });
    assert!(raw.send(&requests.concat()));
    let (mut answered, mut refused) = (Vec::new(), Vec::new());
    while let Some((kind, stream, payload)) = raw.frame() {
        match kind {
            frames::DATA => answered.push(stream),
            frames::RST_STREAM => refused.push((stream, u32::from(payload[3]))),
            _ => {}
        }
    }
    assert_eq!(answered, [1, 3, 5]);
    assert_eq!(refused, [7, 9].map(|stream| (stream, frames::REFUSED_STREAM)));
    let mut one = One::connect(server.address());
    let closes = [1, 2, 3].map(|id| one.get(&query(id)).fields.get("connection").is_some());
    assert_eq!(closes, [false, false, true]);
    assert!(one.is_closed());
    server.stop();
}

#[test]
fn a_stop_answers_what_is_under_way_and_says_that_no_more_is_taken() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(300)), Act::Send(asked.answer())]
    });
    let corefile = format!("https://.:0 {{\n bind 127.0.0.1\n forward . {}\n}}", upstream.address);
    let server = Server::start(&corefile);
    let mut one = One::connect(server.address());
    let mut two = Two::connect(server.address());
    one.send_get(&question(1, "a.test A"));
    let response = two.block_on(async |client| client.send_post(&question(2, "b.test A")));
    eventually("both to be asked", || upstream.count() == 2);
    let stop = std::thread::spawn(move || server.stop());
    two.block_on(async move |_| assert_eq!(response.await.message().id, 2));
    assert!(two.is_ended());
    let last = one.receive();
    assert_eq!((last.message().id, last.field("connection")), (1, "close"));
    assert!(one.is_closed());
    stop.join().unwrap();
}

#[test]
fn of_few_connections_one_makes_room_for_one_whichever_workers_have_them() {
    let few = " https {\n  max_connections 6\n }\n whoami";
    let server =
        Server::of(4, &COREFILE.replace(" whoami", few), Options::default(), &Default::default());
    let open = || server.count("nodens_tcp_connections");
    let mut clients = Vec::new();
    for round in 0..40 {
        let mut client = One::connect(server.address());
        if client.tries(&query(round)) {
            clients.push(client);
        }
        std::thread::sleep(Duration::from_millis(5));
        // A new one that found no place is not served, and leaves one free place.
        assert!(round < 6 || open() >= 5, "{} are left in round {round}", open());
    }
    // Of those that came when all places were taken, some were served.
    assert!(clients.len() > 16, "{}", clients.len());
    server.stop();
}

#[test]
fn no_client_keeps_all_of_few_connections() {
    for workers in [1, 4] {
        let silent = Upstream::start(|asked| match asked.name().starts_with("held") {
            true => Vec::new(),
            false => vec![Act::Send(asked.answer())],
        });
        let forward = format!("forward . {} {{\n  read_timeout 60s\n }}", silent.address);
        let few = format!(" https {{\n  max_connections 8\n }}\n {forward}");
        let corefile = COREFILE.replace(" whoami", &few);
        let server = Server::of(workers, &corefile, Options::default(), &Default::default());
        let hold = |mut client: One, name: &str| {
            client.send_get(&question(1, &format!("{name} A")));
            client
        };
        let held: Vec<_> = (0..8)
            .map(|n| hold(One::connect(server.address()), &format!("held{n}.test")))
            .collect();
        let waits = |name: String| _ = eventually(&name, || silent.knows_of(&name));
        (0..8).for_each(|n| waits(format!("held{n}.test.")));
        let mut others = Vec::new();
        for n in 1..=6 {
            let connect = || One::connect_from([127, 0, n, 1], server.address());
            // One of another worker makes room for the next one.
            let until = Instant::now() + PATIENCE;
            let mut client = connect();
            while !client.tries(&query(1)) {
                assert!(workers > 1 && Instant::now() < until, "client {n} of {workers} workers");
                client = connect();
            }
            others.push(hold(client, &format!("held.n{n}.test")));
            waits(format!("held.n{n}.test."));
        }
        // Nobody has more than a share, and all wait.
        assert!(!One::connect_from([127, 0, 7, 1], server.address()).tries(&query(1)));
        assert!(!One::connect(server.address()).tries(&query(1)));
        let left = held.iter().filter(|client| client.is_open()).count();
        assert_eq!((left, others.iter().filter(|client| client.is_open()).count()), (2, 6));
        server.stop();
    }
}

#[test]
fn of_few_connections_the_longest_idle_one_makes_room() {
    let few = " https {\n  max_connections 3\n }\n whoami";
    let server =
        Server::of(1, &COREFILE.replace(" whoami", few), Options::default(), &Default::default());
    let mut clients: Vec<_> = (0..10)
        .map(|_| {
            let mut client = One::connect(server.address());
            assert_eq!(client.post(&query(1)).status, 200);
            std::thread::sleep(Duration::from_millis(2));
            client
        })
        .collect();
    for client in &mut clients[..7] {
        assert!(client.is_closed());
    }
    for client in &mut clients[7..] {
        assert_eq!(client.post(&query(1)).status, 200);
    }
    eventually("three to be left", || server.count("nodens_tcp_connections") == 3);
    // One of HTTP/2 hears of it.
    drop(clients);
    eventually("none to be left", || server.count("nodens_tcp_connections") == 0);
    let mut two = Two::connect(server.address());
    assert_eq!(two.post(&query(1)).status, 200);
    std::thread::sleep(Duration::from_millis(2));
    let mut others: Vec<_> = (0..3).map(|_| One::connect(server.address())).collect();
    assert!(others.iter_mut().all(|other| other.post(&query(1)).status == 200));
    assert!(two.is_ended());
    server.stop();
}
