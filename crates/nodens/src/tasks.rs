//! The repeated work of handlers, on one thread of its own.

use nodens_core::config::Task;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The tasks of one configuration; dropping it ends them.
pub(crate) struct Tasks {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tasks {
    /// Starts `tasks`; without any, no thread is needed.
    pub(crate) fn start(tasks: Vec<Task>) -> Self {
        if tasks.is_empty() {
            return Self { stop: None, thread: None };
        }
        let (stop, stopped) = channel::<()>();
        let run = move || {
            let mut due: Vec<_> =
                tasks.into_iter().map(|task| (Instant::now() + task.interval, task)).collect();
            loop {
                let next = due.iter().map(|(at, _)| *at).min();
                let next = next.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
                let wait = next.saturating_duration_since(Instant::now());
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                for (at, task) in &mut due {
                    if *at <= Instant::now() {
                        (task.run)();
                        // From the end of the run, so that slow work cannot pile up.
                        *at = Instant::now() + task.interval;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("tasks".to_owned()).spawn(run).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_task_runs_again_and_again_until_it_is_dropped() {
        let runs = Arc::new(AtomicUsize::new(0));
        let seen = runs.clone();
        let task = Task {
            name: "count".to_owned(),
            interval: Duration::from_millis(1),
            run: Box::new(move || _ = seen.fetch_add(1, Ordering::Relaxed)),
        };
        let tasks = Tasks::start(vec![task]);
        while runs.load(Ordering::Relaxed) < 3 {
            std::thread::yield_now();
        }
        drop(tasks);
        let after = runs.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(runs.load(Ordering::Relaxed), after);
    }
}
