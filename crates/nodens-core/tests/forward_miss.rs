//! What a forwarded question allocates. In a binary of its own, because it counts allocations.

use nodens_core::testing::{Bench, request};
use nodens_core::worker::{Action, Verdict};
use nodens_testkit::alloc::{Counting, allocations};
use nodens_wire::{Flags, header};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_forwarded_question_allocates_nothing() {
    let corefile = ".:53 {\n prometheus\n forward . 192.0.2.1 192.0.2.2 192.0.2.3\n}";
    let mut bench = Bench::new(corefile);
    let request = request("www.example.org. A +do");
    let (mut out, mut reply) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
    let mut actions = Vec::with_capacity(16);
    let mut answered = 0;
    let mut forward_one = |bench: &mut Bench| {
        let before = allocations();
        let verdict = bench.worker.receive(bench.now, bench.client, &request, &mut out);
        assert_eq!(verdict, Verdict::Pending);
        bench.worker.take_actions(&mut actions);
        for action in actions.drain(..) {
            let Action::Ask(ask) = action else { continue };
            if let Some(message) = bench.worker.ask_message(ask.ticket) {
                reply.clone_from(message);
                header::set_flags(&mut reply, Flags(Flags::QR | Flags::RD | Flags::RA));
            }
            bench.now.mono_ns += Duration::from_millis(2).as_nanos() as u64;
            bench.worker.tick(bench.now);
            bench.worker.reply(bench.now, ask.ticket, ask.attempt, &reply);
        }
        bench.worker.take_actions(&mut actions);
        for action in actions.drain(..) {
            let Action::Send { wire, .. } = action else { continue };
            answered += 1;
            bench.worker.reuse(wire);
        }
        allocations() - before
    };
    let warm: usize = (0..1000).map(|_| forward_one(&mut bench)).sum();
    assert!(warm > 0, "the counter works");
    let each: Vec<usize> = (0..1000).map(|_| forward_one(&mut bench)).collect();
    let most = each.iter().max().copied().unwrap_or_default();
    assert_eq!(most, 0, "allocations for one question");
    assert_eq!(answered, 2000);
}
