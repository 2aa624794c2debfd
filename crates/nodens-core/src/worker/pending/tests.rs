use super::*;
use crate::job::{Client, Transport};
use crate::limits::{PENDING_BUFFERS, PENDING_OCTETS};
use std::collections::VecDeque;
use std::net::SocketAddr;

fn job(ip: &str) -> Box<Job> {
    let mut job = Box::new(Job::new());
    let peer = SocketAddr::new(ip.parse().unwrap(), 40_000);
    let (local, transport) = (SocketAddr::from(([192, 0, 2, 1], 53)), Transport::Udp);
    let client =
        Client { peer, local, transport, listener: 0, connection: 0, stream: 0, old_tls: false };
    job.recipient = Recipient::Client(client);
    job
}

/// The ticket of no question.
const NOBODY: Ticket = Ticket { slot: NONE, serial: 0 };

/// A job that takes so many places.
fn long_job(ip: &str, places: usize) -> Box<Job> {
    let mut job = job(ip);
    job.request = Vec::with_capacity(PENDING_BUFFERS + (places - 1) * PENDING_OCTETS);
    job
}

fn park(pending: &mut Pending, ip: &str) -> Ticket {
    let ticket = pending.next_ticket();
    pending.park(job(ip));
    ticket
}

#[test]
fn a_ticket_of_a_job_that_ended_matches_no_later_one() {
    let mut pending = Pending::default();
    let first = park(&mut pending, "192.0.2.1");
    pending.remove(first);
    let second = park(&mut pending, "192.0.2.1");
    assert_eq!(first.slot, second.slot);
    assert!(pending.get(first).is_none() && pending.get(second).is_some());
    pending.remove(first);
    assert_eq!(pending.len(), 1);
}

#[test]
fn who_asks_most_loses_the_oldest_question_first() {
    let (mut pending, mut rng) = (Pending::default(), Rng::with_seed(1));
    let good: Vec<Ticket> =
        (0..20).map(|n| park(&mut pending, &format!("198.51.100.{n}"))).collect();
    // One host, however many of its addresses it uses.
    let mut greedy: VecDeque<Ticket> =
        (0..500).map(|n| park(&mut pending, &format!("2001:db8::{n:x}"))).collect();
    for _ in 0..250 {
        let victim = pending.victim(NOBODY, &mut rng).unwrap();
        assert_eq!(Some(victim), greedy.pop_front());
        pending.remove(victim);
    }
    assert!(good.iter().all(|ticket| pending.get(*ticket).is_some()));
}

#[test]
fn who_lost_much_lately_loses_before_who_asks_little() {
    let (mut pending, mut rng) = (Pending::default(), Rng::with_seed(1));
    let crowd = |n: usize| format!("10.0.{}.{}", n / 100, n % 100);
    (0..64).for_each(|n| _ = park(&mut pending, &crowd(n)));
    let mut lose_one = |pending: &mut Pending, n: usize| {
        park(pending, &crowd(n));
        let victim = pending.victim(NOBODY, &mut rng).unwrap();
        pending.note_loss(victim);
        pending.remove(victim);
        victim
    };
    (0..1000).for_each(|n| _ = lose_one(&mut pending, n % 300));
    let good = park(&mut pending, "192.0.2.1");
    for n in 0..1000 {
        assert_ne!(lose_one(&mut pending, n % 300), good);
    }
    // What is remembered is bounded, and fades.
    for n in 0..2 * LOSERS_REMEMBERED {
        lose_one(&mut pending, n);
    }
    assert!(pending.lost.len() <= LOSERS_REMEMBERED);
}

#[test]
fn jobs_that_run_or_have_no_client_keep_their_place() {
    let (mut pending, mut rng) = (Pending::default(), Rng::with_seed(1));
    let [a, b, c] = [(); 3].map(|()| park(&mut pending, "192.0.2.1"));
    let mut taken = pending.take(a).unwrap();
    assert!(pending.get(a).is_none() && pending.take(a).is_none());
    let Recipient::Client(client) = taken.recipient else { panic!() };
    taken.recipient = Recipient::Nobody(client);
    assert!(pending.put_back(a, taken).is_none());
    assert_eq!(pending.victim(NOBODY, &mut rng), Some(b));
    pending.remove(c);
    pending.remove(b);
    assert_eq!((pending.victim(NOBODY, &mut rng), pending.len()), (None, 1));
    assert!(pending.queues.is_empty());
    let homeless = pending.put_back(b, job("192.0.2.1"));
    assert!(homeless.is_some());
    assert_eq!(pending.tickets(), [a]);
}

#[test]
fn who_takes_most_places_loses_first_however_few_questions_they_are() {
    let (mut pending, mut rng) = (Pending::default(), Rng::with_seed(1));
    let many: Vec<Ticket> = (0..30).map(|_| park(&mut pending, "192.0.2.1")).collect();
    let long: Vec<Ticket> = (0..5).map(|_| pending.park(long_job("192.0.2.2", 10))).collect();
    assert_eq!((pending.len(), pending.places()), (35, 80));
    for ticket in long.iter().take(2) {
        assert_eq!(pending.victim(NOBODY, &mut rng), Some(*ticket));
        pending.note_loss(*ticket);
        pending.remove(*ticket);
    }
    // What it has lost counts in places, too.
    assert_eq!(pending.victim(NOBODY, &mut rng), Some(long[2]));
    many.iter().chain(&long).for_each(|ticket| pending.remove(*ticket));
    assert_eq!((pending.len(), pending.places()), (0, 0));
    assert!(pending.queues.is_empty());
}

#[test]
fn a_question_that_becomes_longer_while_it_waits_takes_more_places() {
    let (mut pending, mut rng) = (Pending::default(), Rng::with_seed(1));
    let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|ip| park(&mut pending, ip));
    assert!(pending.take(other).is_some());
    assert!(pending.put_back(other, long_job("192.0.2.2", 3)).is_none());
    assert_eq!(pending.places(), 4);
    assert_eq!(pending.victim(NOBODY, &mut rng), Some(other));
    assert!(pending.take(other).is_some());
    assert!(pending.put_back(other, job("192.0.2.2")).is_none());
    assert_eq!(pending.places(), 2);
    [one, other].into_iter().for_each(|ticket| pending.remove(ticket));
    assert_eq!(pending.places(), 0);
}

#[test]
fn who_takes_most_is_found_among_few_questions_in_the_slots_of_many() {
    let (mut pending, mut rng) = (Pending::default(), Rng::with_seed(1));
    let old: Vec<Ticket> = (0..50_000).map(|_| park(&mut pending, "192.0.2.1")).collect();
    let good = park(&mut pending, "192.0.2.2");
    old.iter().for_each(|ticket| pending.remove(*ticket));
    let long: Vec<Ticket> = (0..5).map(|_| pending.park(long_job("192.0.2.3", 10))).collect();
    // It has to make room for its own question, and then for one of somebody else.
    let newcomer = pending.park(long_job("192.0.2.3", 10));
    for (ticket, newcomer) in long.iter().zip([newcomer, good, good]) {
        assert_eq!(pending.victim(newcomer, &mut rng), Some(*ticket));
        pending.remove(*ticket);
    }
}

#[test]
fn few_places_after_many_are_noticed_once() {
    let mut pending = Pending::default();
    let long: Vec<Ticket> =
        (0..PLACES_MANY / 10 + 1).map(|_| pending.park(long_job("192.0.2.1", 10))).collect();
    let left = long.len() / PLACES_FEW_SHARE;
    for ticket in long.iter().skip(left + 1) {
        pending.remove(*ticket);
        assert!(!pending.has_ebbed());
    }
    pending.remove(long[left]);
    assert!(pending.has_ebbed());
    long.iter().take(left).for_each(|ticket| pending.remove(*ticket));
    assert!(!pending.has_ebbed());
    // So few at a time are nothing to be noticed.
    let few: Vec<Ticket> = (1..PLACES_MANY).map(|_| park(&mut pending, "192.0.2.1")).collect();
    few.iter().for_each(|ticket| pending.remove(*ticket));
    assert!(!pending.has_ebbed());
}
