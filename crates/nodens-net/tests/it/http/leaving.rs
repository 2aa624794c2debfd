//! Listeners that go, to another process or for good: what is under way is answered, and clients hear that
//! they should go elsewhere.

use super::clients::{One, Two};
use crate::client::question;
use crate::server::{Server, WORKERS, eventually};
use crate::upstream::{Act, Upstream};
use nodens_net::Options;
use std::sync::mpsc::channel;
use std::time::Duration;

fn slow() -> Upstream {
    Upstream::start(|asked| {
        let wait = Duration::from_millis(if asked.name().starts_with("slow") { 300 } else { 0 });
        vec![Act::Wait(wait), Act::Send(asked.answer())]
    })
}

#[test]
fn a_hand_over_loses_no_answer_and_new_connections_are_the_heirs() {
    let upstream = slow();
    let corefile =
        format!("https://.:0 {{\n bind 127.0.0.1\n forward . {}\n}}\n", upstream.address);
    let old = Server::start(&corefile);
    let address = old.address();
    let (mut one, mut two) = (One::connect(address), Two::connect(address));
    let mut idle = Two::connect(address);
    assert_eq!(idle.post(&question(1, "a.test A")).message().id, 1);
    one.send_get(&question(2, "slow1.test A"));
    let slow = two.block_on(async |client| client.send_post(&question(3, "slow2.test A")));
    eventually("both to be asked", || upstream.count() == 3);
    let inherited = old.runtime.export();
    assert_eq!(inherited[0].sockets.len(), WORKERS);
    old.runtime.pause().unwrap();
    let mut heir =
        Server::with(&corefile, Options { inherited, paused: true, ..Options::default() });
    assert_eq!(heir.address(), address);
    heir.runtime.resume().unwrap();
    let kept = old.runtime.bound_listeners();
    let (sender, connections) = channel();
    let grace = Duration::from_secs(5);
    let leave = std::thread::spawn(move || old.runtime.leave(&kept, &sender, grace));
    // Connections of HTTP stay and end; those of heirs begin.
    assert!(idle.is_ended());
    assert_eq!(One::connect(address).get(&question(4, "b.test A")).message().id, 4);
    assert_eq!(two.block_on(async |_| slow.await).message().id, 3);
    assert!(two.is_ended());
    assert_eq!(one.receive().message().id, 2);
    assert!(one.is_closed());
    leave.join().unwrap();
    assert_eq!(connections.iter().count(), 0);
    heir.stop();
}

#[test]
fn a_listener_that_a_reload_leaves_out_answers_what_it_has_and_refuses_the_rest() {
    let upstream = slow();
    let dns = ".:0 {\n bind 127.0.0.1\n whoami\n}\n";
    let corefile =
        format!("https://.:0 {{\n bind 127.0.0.1\n forward . {}\n}}\n{dns}", upstream.address);
    let mut server = Server::start(&corefile);
    let mut two = Two::connect(server.address());
    let slow = two.block_on(async |client| client.send_post(&question(1, "slow.test A")));
    eventually("it to be asked", || upstream.count() == 1);
    server.reload(dns).unwrap();
    // The client knows that it must not ask here, or hears that nobody looked at what it asks.
    let refused = two.block_on(async |client| {
        let Ok((_, response)) = client.try_begin() else { return true };
        response.await.is_err_and(|error| {
            error.reason() == Some(h2::Reason::REFUSED_STREAM) || error.is_go_away()
        })
    });
    assert!(refused);
    assert_eq!(two.block_on(async |_| slow.await).message().id, 1);
    assert!(two.is_ended());
    server.stop();
}

#[test]
fn a_connection_may_ask_as_much_as_timeouts_says() {
    let limit = " timeouts {\n  maxtcpqueries 3\n }\n whoami";
    let server = Server::start(&super::COREFILE.replace(" whoami", limit));
    let (mut one, mut two) = (One::connect(server.address()), Two::connect(server.address()));
    for id in 1..=3 {
        let query = question(id, "example.org A");
        assert_eq!(two.post(&query).message().id, id);
        assert_eq!(one.post(&query).message().id, id);
    }
    assert!(two.is_ended() && one.is_closed());
    server.stop();
}
