//! A hard limit on the time of a check: a check that hangs fails with a message.

use std::process;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long the last words may take.
const WORDS_TIMEOUT: Duration = Duration::from_secs(60);

/// Ends the whole run, unless it is dropped in time. The process that started the run's sandbox continues with the next one.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Its end is the end of the limit.
    _running: Sender<()>,
}

impl Limit {
    /// A limit for the check `name`; `words` says what there is to see when it is reached.
    pub(crate) fn start(
        name: &str,
        limit: Duration,
        words: impl FnOnce() -> String + Send + 'static,
    ) -> Self {
        let (running, ended) = channel::<()>();
        let name = name.to_owned();
        thread::spawn(move || {
            if ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let seconds = limit.as_secs();
            println!("FAILED  {name}: timed out after {seconds} s: the run ends here");
            // What is asked for them may hang for the same reason.
            let (say, said) = channel();
            thread::spawn(move || say.send(words()));
            let words = said.recv_timeout(WORDS_TIMEOUT);
            println!("{}", words.unwrap_or_else(|_| "and what says why hangs, too".to_owned()));
            process::exit(1);
        });
        Limit { _running: running }
    }
}

/// Whether a check is among those that were asked for: its name contains one of these texts.
pub(crate) fn wanted(name: &str, only: &[String]) -> bool {
    only.iter().any(|part| name.contains(part.as_str()))
}
