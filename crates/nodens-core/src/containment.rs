//! A handler's panic ends one question, not the worker.

use crate::chain::{self, Outcome, Start};
use crate::config::Config;
use crate::handler::Job;
use crate::log::Level;
use crate::time::Now;
use crate::worker::WorkerState;
use nodens_wire::Rcode;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// [`chain::run`]; a panic is logged and counted, and decides the question with SERVFAIL. In a
/// server block with `debug` it goes on its way instead, as in CoreDNS.
pub fn run(
    config: &Config,
    worker: &mut WorkerState,
    now: Now,
    job: &mut Job,
    start: Start<'_>,
) -> Outcome {
    contain(config, worker, job, |worker, job| chain::run(config, worker, now, job, start))
}

fn contain(
    config: &Config,
    worker: &mut WorkerState,
    job: &mut Job,
    act: impl FnOnce(&mut WorkerState, &mut Job) -> Outcome,
) -> Outcome {
    // What a handler leaves half done belongs to this job, which ends here, or is a counter.
    let caught = catch_unwind(AssertUnwindSafe(|| act(worker, job)));
    caught.unwrap_or_else(|panic| {
        let block = config.blocks.get(job.current.block);
        if block.is_some_and(|block| block.settings.debug) {
            resume_unwind(panic);
        }
        worker.cells.add(worker.shared.panics, 1);
        let server = block.map_or("", |block| block.server.as_str());
        let text = format!("Recovered from panic in server: \"{server}\" {}", text_of(&*panic));
        worker.sink.line(Level::Error, "", text);
        job.outer.clear();
        job.inner = None;
        job.current.response.clear();
        job.current.response.rcode = Rcode::SERVFAIL;
        Outcome::Done
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Record;
    use crate::testing::Bench;

    fn panic_in(bench: &mut Bench) -> (Outcome, Job) {
        let config = bench.worker.config().clone();
        let mut job = Job::new();
        let outcome = contain(&config, bench.worker.state(), &mut job, |_, job| {
            job.current.response.written = true;
            panic!("no record {}", 7)
        });
        (outcome, job)
    }

    #[test]
    fn a_panic_is_a_servfail_a_line_and_a_count() {
        let mut bench = Bench::new(".:53 {\n whoami\n}");
        let (outcome, job) = panic_in(&mut bench);
        assert_eq!(outcome, Outcome::Done);
        let response = &job.current.response;
        assert_eq!((response.rcode, response.written), (Rcode::SERVFAIL, false));
        let Some(Record::Line { level: Level::Error, text, .. }) = bench.log.try_iter().last()
        else {
            panic!("no line");
        };
        assert_eq!(text, "Recovered from panic in server: \"dns://:53\" no record 7");
        assert_eq!(bench.shared.registry.value(bench.shared.panics), 1);
        assert_eq!(bench.ask("example.org A").flags.rcode(), Rcode::NOERROR);
    }

    #[test]
    #[should_panic(expected = "no record 7")]
    fn with_debug_a_panic_is_not_contained() {
        panic_in(&mut Bench::new(".:53 {\n debug\n whoami\n}"));
    }
}
