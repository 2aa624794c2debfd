//! Many questions over time, with an upstream that does as it likes: whatever happens, every
//! question is answered once, with something that was true not too long ago.

use super::*;
use crate::worker::Verdict;
use proptest::prelude::*;

/// The TTL of every answer and how long it may be served after that, in seconds.
const TTL_S: u32 = 10;
const STALE_S: u64 = 60;

const OPTIONS: [&str; 6] = [
    "",
    "serve_stale 1m",
    "serve_stale 1m immediate 7s 20s\n prefetch 2 1m 50%",
    "serve_stale 1m verify",
    "serve_stale 1m verify 100ms 7s",
    "serve_stale 1m verify 100ms 7s 20s\n serve_stale_policy prefer_positive",
];

#[derive(Clone, Debug)]
enum Event {
    /// Ask for a name, with DO or not.
    Ask(u8, bool),
    /// Let milliseconds pass.
    Pass(u64),
    /// From now on the upstream does this.
    Upstream(Mood),
}

#[derive(Clone, Copy, Debug)]
enum Mood {
    Answers,
    AnswersLate(u64),
    Denies,
    Servfails,
    Breaks,
    Silent,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let mood = prop_oneof![
        3 => Just(Mood::Answers),
        2 => (1..1500_u64).prop_map(Mood::AnswersLate),
        1 => Just(Mood::Denies),
        1 => Just(Mood::Servfails),
        1 => Just(Mood::Breaks),
        1 => Just(Mood::Silent),
    ];
    let event = prop_oneof![
        8 => (0..3_u8, any::<bool>()).prop_map(|(name, dnssec_ok)| Event::Ask(name, dnssec_ok)),
        4 => prop_oneof![0..300_u64, 1000..12_000_u64, Just(70_000)].prop_map(Event::Pass),
        1 => mood.prop_map(Event::Upstream),
    ];
    prop::collection::vec(event, 1..120)
}

/// What the upstream said: for which name, with DO or not, when.
type Said = Rc<RefCell<Vec<(u8, bool, u64)>>>;

struct Life {
    bench: Bench,
    mood: Rc<RefCell<Mood>>,
    clock: Rc<RefCell<u64>>,
    said: Said,
    window_s: u64,
    /// Questions without a response so far.
    open: usize,
}

impl Life {
    fn new(options: usize) -> Self {
        let mood = Rc::new(RefCell::new(Mood::Answers));
        let (clock, said) = (Rc::new(RefCell::new(0)), Said::default());
        let (told, time, noted) = (mood.clone(), clock.clone(), said.clone());
        let script = move |q: &Message| {
            if q.questions[0].qname.view().is_root() {
                // A probe.
                return reply(q, Rcode::NOERROR).send();
            }
            let asked = q.questions[0].qname.as_wire()[2] - b'0';
            let dnssec_ok = q.edns().is_some_and(|(edns, _)| edns.dnssec_ok());
            let say = || {
                noted.borrow_mut().push((asked, dnssec_ok, *time.borrow()));
                let index = u16::try_from(noted.borrow().len() - 1).unwrap().to_be_bytes();
                let rdata = [192, 0, index[0], index[1]];
                reply(q, Rcode::NOERROR).answer("@", Type::A, TTL_S, &rdata).send()
            };
            match *told.borrow() {
                Mood::Answers => say(),
                Mood::AnswersLate(ms) => after(Duration::from_millis(ms), say()),
                Mood::Denies => reply(q, Rcode::NXDOMAIN).soa(TTL_S).send(),
                Mood::Servfails => reply(q, Rcode::SERVFAIL).send(),
                Mood::Breaks => fails(),
                Mood::Silent => Reaction::Silence,
            }
        };
        let bench = bench(&format!("cache {{\n {}\n }}", OPTIONS[options]), script);
        let window_s = if options == 0 { 0 } else { STALE_S };
        Self { bench, mood, clock, said, window_s, open: 0 }
    }

    fn now_ms(&self) -> u64 {
        self.bench.now.mono_ns / 1_000_000
    }

    fn pass(&mut self, ms: u64) {
        // In steps, so that what the upstream says is dated to some accuracy.
        for step in (0..ms).step_by(500).map(|at| (ms - at).min(500)) {
            *self.clock.borrow_mut() = self.now_ms();
            for (_, wire) in self.bench.pass(Duration::from_millis(step)) {
                self.look_at(&wire, None);
            }
        }
    }

    fn ask(&mut self, asked: u8, dnssec_ok: bool) {
        *self.clock.borrow_mut() = self.now_ms();
        let question = format!("n{asked}.example. A{}", if dnssec_ok { " +do" } else { "" });
        self.open += 1;
        let (request, mut out) = (crate::testing::request(&question), Vec::new());
        let Bench { worker, now, client, .. } = &mut self.bench;
        let verdict = worker.receive(*now, *client, &request, &mut out);
        if verdict == Verdict::Answered {
            self.look_at(&out, Some((asked, dnssec_ok)));
        }
        let sent = self.bench.act();
        // An upstream's response may be one to others that wait, too.
        let is_own = verdict == Verdict::Pending && sent.len() == 1;
        for (_, wire) in sent {
            self.look_at(&wire, is_own.then_some((asked, dnssec_ok)));
        }
    }

    /// Checks one response; `asked` is the question if it is known.
    fn look_at(&mut self, wire: &[u8], asked: Option<(u8, bool)>) {
        self.open = self.open.checked_sub(1).expect("no more responses than questions");
        let response = Message::parse(wire).unwrap();
        let Some(record) = response.answer.first() else { return };
        let index = usize::from(u16::from_be_bytes([record.rdata[2], record.rdata[3]]));
        let (name, dnssec_ok, at_ms) = self.said.borrow()[index];
        assert!(asked.is_none_or(|asked| asked == (name, dnssec_ok)), "someone else's answer");
        assert_eq!(response.questions[0].qname.as_wire()[2] - b'0', name);
        // Said at most so long ago; it may have been under way for two seconds, and the question
        // may have waited for something newer.
        let waited_ms = 2000 + crate::limits::QUESTION_TIME_MAX.as_millis() as u64;
        let most_ms = (u64::from(TTL_S) + self.window_s) * 1000 + waited_ms;
        assert!(self.now_ms() - at_ms <= most_ms, "{} ms old", self.now_ms() - at_ms);
        let until_ms = u64::from(record.ttl) * 1000;
        assert!(until_ms <= u64::from(TTL_S) * 1000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_question_is_answered_once_and_in_time(
        options in 0..OPTIONS.len(),
        events in events(),
    ) {
        let mut life = Life::new(options);
        for event in events {
            match event {
                Event::Ask(name, dnssec_ok) => life.ask(name, dnssec_ok),
                Event::Pass(ms) => life.pass(ms),
                Event::Upstream(mood) => *life.mood.borrow_mut() = mood,
            }
        }
        life.pass(20_000);
        prop_assert_eq!(life.open, 0, "questions without a response");
        prop_assert_eq!(life.bench.worker.pending(), 0);
    }
}
