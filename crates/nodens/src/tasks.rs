//! The repeated work of handlers, on one thread of its own.

use nodens_core::config::{Services, Task, Watched};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From the first change in a folder until what depends on it is done: an editor and a script change
/// several files one after the other.
const SETTLE: Duration = Duration::from_millis(100);

/// The repeated work of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Work {
    tasks: Vec<Task>,
    watched: Vec<Watched>,
}

impl Work {
    /// Takes it out of a configuration.
    pub(crate) fn take(services: &mut Services) -> Self {
        let tasks = std::mem::take(&mut services.tasks);
        Self { tasks, watched: std::mem::take(&mut services.watched) }
    }
}

/// What the thread is told.
enum Word {
    Stop,
    /// Something has changed at these paths.
    Changed(Vec<PathBuf>),
}

/// The tasks of one configuration; dropping it ends them.
pub(crate) struct Tasks {
    stop: Option<Sender<Word>>,
    thread: Option<JoinHandle<()>>,
}

impl Tasks {
    /// Starts the work; without any, no thread is needed.
    pub(crate) fn start(work: Work) -> Self {
        if work.tasks.is_empty() {
            return Self { stop: None, thread: None };
        }
        let (stop, words) = channel::<Word>();
        let watch = watch(&work.watched, stop.clone());
        let run = move || {
            let _watch = watch;
            run(work, &words);
        };
        let thread = std::thread::Builder::new().name("tasks".to_owned()).spawn(run).ok();
        Self { stop: Some(stop), thread }
    }
}

/// Does what is due until it is told to stop.
fn run(Work { tasks, watched }: Work, words: &Receiver<Word>) {
    let mut due: Vec<_> =
        tasks.into_iter().map(|task| (Instant::now() + task.interval, task)).collect();
    loop {
        let next = due.iter().map(|(at, _)| *at).min();
        let next = next.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        let wait = next.saturating_duration_since(Instant::now());
        match words.recv_timeout(wait) {
            Ok(Word::Changed(paths)) => {
                let soon = Instant::now() + SETTLE;
                let is_in = |folder: &PathBuf| paths.iter().any(|path| path.starts_with(folder));
                for Watched { task, .. } in watched.iter().filter(|w| is_in(&w.folder)) {
                    if let Some((at, _)) = due.get_mut(*task) {
                        *at = (*at).min(soon);
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Word::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
        for (at, task) in &mut due {
            if *at <= Instant::now() {
                (task.run)();
                // From the end of the run, so that slow work cannot pile up.
                *at = Instant::now() + task.interval;
            }
        }
    }
}

/// Watches folders, as far as it is possible: work is done in its interval anyway.
fn watch(watched: &[Watched], words: Sender<Word>) -> Option<RecommendedWatcher> {
    let folders: BTreeSet<&PathBuf> = watched.iter().map(|watched| &watched.folder).collect();
    if folders.is_empty() {
        return None;
    }
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if let Some(event) = event.ok().filter(|event| !event.kind.is_access()) {
            _ = words.send(Word::Changed(event.paths));
        }
    })
    .ok()?;
    for folder in folders {
        _ = watcher.watch(folder, RecursiveMode::NonRecursive);
    }
    Some(watcher)
}

impl Drop for Tasks {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            _ = stop.send(Word::Stop);
        }
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
        let tasks = Tasks::start(Work { tasks: vec![task], watched: Vec::new() });
        while runs.load(Ordering::Relaxed) < 3 {
            std::thread::yield_now();
        }
        drop(tasks);
        let after = runs.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(runs.load(Ordering::Relaxed), after);
    }

    #[test]
    fn a_change_in_a_folder_makes_its_work_due_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let runs = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
        let task = |seen: &Arc<AtomicUsize>| {
            let seen = seen.clone();
            Task {
                name: "count".to_owned(),
                interval: Duration::from_secs(3600),
                run: Box::new(move || _ = seen.fetch_add(1, Ordering::Relaxed)),
            }
        };
        let tasks = runs.iter().map(task).collect();
        let watched = vec![
            Watched { folder: "/nonexistent/folder".into(), task: 0 },
            Watched { folder: folder.path().to_owned(), task: 1 },
        ];
        let tasks = Tasks::start(Work { tasks, watched });
        for count in 1..=2 {
            std::fs::write(folder.path().join("file"), "text").unwrap();
            while runs[1].load(Ordering::Relaxed) < count {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(tasks);
        assert_eq!(runs[0].load(Ordering::Relaxed), 0);
    }
}
