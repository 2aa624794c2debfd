use super::sketch::{Asked, Sketch, Trouble};
use super::table::Table;
use super::{COUNTED_WHOLE, SAMPLED};
use crate::testing::{Bench, Reaction, request};
use nodens_wire::{Flags, Message, Name, Rcode, Type};
use std::net::SocketAddr;
use std::time::Duration;

const COREFILE: &str = ".:53 {\n cache\n forward . 192.0.2.53\n}";

fn seeing(corefile: &str) -> Bench {
    let mut bench = Bench::new(corefile);
    bench.shared.seeing.open(1);
    bench.reload(corefile).unwrap();
    bench.upstream(|_, question| {
        let mut answer = question.clone();
        let denied = question.questions[0].qname.to_string().starts_with("no");
        let rcode = if denied { Rcode::NXDOMAIN } else { Rcode::NOERROR };
        answer.flags = question.flags.reply().with(Flags::RA, true).with_rcode(rcode);
        let mut out = Vec::new();
        answer.write(&mut out).unwrap();
        Reaction::After(Duration::from_millis(5), Box::new(Reaction::Reply(out)))
    });
    bench
}

fn take(bench: &Bench) -> Box<Sketch> {
    bench.shared.seeing.panes()[0].take(Box::default())
}

fn wire(name: &str) -> Vec<u8> {
    name.parse::<Name>().unwrap().as_wire().to_vec()
}

fn asked(qname: &[u8], client: u8) -> Asked<'_> {
    Asked {
        client: [10, 0, 0, client].into(),
        qname,
        qtype: Type::A,
        rcode: Rcode::NXDOMAIN,
        waited_us: None,
        weight: 1,
    }
}

#[test]
fn what_was_counted_is_the_sum_of_the_table() {
    let mut table = Table::<8>::new(64);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut sum = 0;
    for _ in 0..20_000 {
        let key = rng.u64(..) % 5000;
        let weight = rng.u32(1..4);
        sum += weight;
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        table.add(hash, weight, [&key.to_be_bytes(), &[]]).unwrap();
    }
    assert_eq!(table.rows().map(|row| row.count).sum::<u32>(), sum);
    assert_eq!(table.rows().count(), 64);
    table.clear();
    assert_eq!(table.rows().count(), 0);
}

#[test]
fn a_frequent_key_is_found_among_many_rare_ones_with_its_bounds() {
    let mut sketch = Sketch::default();
    let bad = wire("bad.example");
    for n in 0..50_000 {
        let rare = wire(&format!("r{n}.example.org"));
        sketch.record(&asked(&rare, 1));
        if n % 50 == 0 {
            sketch.record(&asked(&bad, 2));
        }
    }
    let row = sketch.troubles.rows().max_by_key(|row| row.count - row.inherited).unwrap();
    let trouble = Trouble::of(row.key).unwrap();
    assert_eq!((trouble.qname, trouble.rcode), (&*bad, Rcode::NXDOMAIN));
    assert_eq!(trouble.client.to_string(), "10.0.0.2");
    assert!(row.count >= 1000 && row.count - row.inherited <= 1000, "{row:?}");
    assert_eq!(sketch.totals.questions, 51_000);
    assert_eq!(sketch.clients.rows().count(), 2);
}

#[test]
fn a_key_that_is_too_long_is_cut() {
    let mut table = Table::<4>::new(8);
    table.add(1 << 40, 1, [b"abc", b"def"]).unwrap();
    assert_eq!(table.rows().next().unwrap().key, b"abcd");
}

#[test]
fn answers_are_counted_by_client_name_rcode_and_wait() {
    let mut bench = seeing(COREFILE);
    for question in ["YES.example. A", "no.example. A", "no.example. AAAA", "yes.example. A"] {
        assert!(bench.ask_for(question, Duration::from_secs(1)).is_some(), "{question}");
    }
    bench.client.peer = SocketAddr::from(([10, 0, 0, 9], 1));
    assert!(bench.ask_for("no.example. A", Duration::from_secs(1)).is_some());
    let sketch = take(&bench);
    let totals = &sketch.totals;
    assert_eq!((totals.questions, totals.waited, totals.missed), (5, 4, 0));
    assert_eq!((totals.rcodes[0], totals.rcodes[3]), (2, 3));
    // 5 ms are 5,000 µs, of 13 bits.
    assert_eq!(totals.latencies[13], 4);
    let of = |name: &str| {
        let row = sketch.names.rows().find(|row| row.key == wire(name)).unwrap();
        *row.tally
    };
    let yes = of("yes.example.");
    assert_eq!((yes.questions, yes.a, yes.waited, yes.wait_max_us), (2, 2, 1, 5000));
    let no = of("no.example.");
    assert_eq!((no.questions, no.denied, no.a, no.aaaa), (3, 3, 2, 1));
    assert_eq!(sketch.troubles.rows().count(), 2);
    assert_eq!(sketch.slow.rows().map(|row| row.count).sum::<u32>(), 20_000);
    let empty = take(&bench);
    assert_eq!(empty.totals, super::Totals::default());
    assert_eq!(empty.troubles.rows().count(), 0);
}

#[test]
fn many_answers_are_sampled_and_the_sum_stays_right() {
    let mut bench = seeing(".:53 {\n whoami\n}");
    let request = request("a.example. A");
    let mut ask = |questions: u32| {
        for _ in 0..questions {
            assert!(bench.ask_bytes(&request).is_some());
        }
        take(&bench).totals.questions
    };
    let few = u64::from(COUNTED_WHOLE) - 1;
    assert_eq!(ask(COUNTED_WHOLE - 1), few);
    // Another interval: all are counted again, and behind them every sixteenth.
    let many = 200 * COUNTED_WHOLE;
    let counted = ask(many);
    let error = counted.abs_diff(u64::from(many));
    assert!(error <= u64::from(3 * SAMPLED), "{counted} of {many}");
}

#[test]
fn a_worker_does_not_wait_for_its_sketch() {
    let mut bench = seeing(".:53 {\n whoami\n}");
    let shared = bench.shared.clone();
    let held = shared.seeing.panes()[0].sketch.lock().unwrap();
    bench.ask("a.example. A");
    drop(held);
    bench.ask("a.example. A");
    let totals = take(&bench).totals;
    assert_eq!((totals.questions, totals.missed), (1, 1));
}

#[test]
fn nothing_is_counted_unless_somebody_wants_to_see_it() {
    let mut bench = Bench::new(COREFILE);
    assert!(!bench.shared.seeing.is_open());
    assert!(bench.ask_for("a.example. A", Duration::from_secs(1)).is_none());
    assert!(bench.shared.seeing.panes().is_empty());
    assert!(Message::parse(&request("a.example. A")).is_ok());
}
