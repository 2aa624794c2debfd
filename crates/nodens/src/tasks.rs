//! The repeated work of handlers, on one thread of its own.

use nodens_core::config::{Services, Task, Watched};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From the last change in a folder until what depends on it is done: an editor and a script change
/// several files one after the other, and write large ones in parts.
const SETTLE: Duration = Duration::from_millis(200);

/// From the first change, however many follow.
const SETTLE_MAX: Duration = Duration::from_secs(5);

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
    /// Something has changed for some work.
    Changed,
}

/// Work whose folders have changed, by number, until its thread takes it: each once, however many changes there
/// are while that is busy.
#[derive(Default)]
struct Changed(Mutex<BTreeSet<usize>>);

impl Changed {
    /// Adds work; says whether there was none.
    fn add(&self, tasks: impl Iterator<Item = usize>) -> bool {
        let mut changed = self.lock();
        let was_empty = changed.is_empty();
        changed.extend(tasks);
        was_empty && !changed.is_empty()
    }

    fn take(&self) -> BTreeSet<usize> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let changed = Arc::new(Changed::default());
        let Work { tasks, watched } = work;
        let watch = watch(watched, changed.clone(), stop.clone());
        let run = move || {
            let _watch = watch;
            run(tasks, &changed, &words);
        };
        let thread = std::thread::Builder::new().name("tasks".to_owned()).spawn(run).ok();
        Self { stop: Some(stop), thread }
    }
}

/// Does what is due until it is told to stop.
fn run(tasks: Vec<Task>, changed: &Changed, words: &Receiver<Word>) {
    let mut due: Vec<_> = tasks.into_iter().map(Due::new).collect();
    loop {
        let next = due.iter().map(Due::at).min();
        let next = next.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        let wait = next.saturating_duration_since(Instant::now());
        match words.recv_timeout(wait) {
            Ok(Word::Changed) => {
                for task in changed.take() {
                    if let Some(due) = due.get_mut(task) {
                        due.put_off(Instant::now());
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Word::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
        for due in &mut due {
            if due.at() <= Instant::now() {
                due.run();
            }
        }
    }
}

/// Work, and when it is to be done.
struct Due {
    regular: Instant,
    /// When changes have settled, and when that is not waited for any longer.
    changed: Option<(Instant, Instant)>,
    task: Task,
}

impl Due {
    fn new(task: Task) -> Self {
        Self { regular: Instant::now() + task.interval, changed: None, task }
    }

    fn at(&self) -> Instant {
        self.changed.map_or(self.regular, |(quiet, latest)| self.regular.min(quiet).min(latest))
    }

    /// Waits for more changes after one.
    fn put_off(&mut self, now: Instant) {
        let latest = self.changed.map_or(now + SETTLE_MAX, |(_, latest)| latest);
        self.changed = Some((now + SETTLE, latest));
    }

    fn run(&mut self) {
        (self.task.run)();
        self.changed = None;
        // From the end of the run, so that slow work cannot pile up.
        self.regular = Instant::now() + self.task.interval;
    }
}

/// Watches folders, as far as it is possible: work is done in its interval anyway.
fn watch(
    watched: Vec<Watched>,
    changed: Arc<Changed>,
    words: Sender<Word>,
) -> Option<RecommendedWatcher> {
    let folders: BTreeSet<PathBuf> = watched.iter().map(|watched| watched.folder.clone()).collect();
    if folders.is_empty() {
        return None;
    }
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if let Some(event) = event.ok().filter(|event| !event.kind.is_access()) {
            let is_in =
                |own: &&Watched| event.paths.iter().any(|path| path.starts_with(&own.folder));
            if changed.add(watched.iter().filter(is_in).map(|own| own.task)) {
                _ = words.send(Word::Changed);
            }
        }
    })
    .ok()?;
    for folder in folders {
        _ = watcher.watch(&folder, RecursiveMode::NonRecursive);
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
    fn changes_while_the_work_is_done_are_noted_once() {
        let changed = Changed::default();
        let woken = (0..1000).filter(|_| changed.add([3, 1].into_iter())).count();
        assert_eq!((woken, changed.take()), (1, BTreeSet::from([1, 3])));
        assert!(!changed.add(std::iter::empty()) && changed.add([1].into_iter()));
    }

    #[test]
    fn work_waits_for_the_last_of_several_changes_but_not_for_ever() {
        let run = Box::new(|| ());
        let interval = Duration::from_secs(3600);
        let mut due = Due::new(Task { name: "nothing".to_owned(), interval, run });
        let (regular, start) = (due.at(), Instant::now());
        let mut now = start;
        while now < start + SETTLE_MAX {
            due.put_off(now);
            assert_eq!(due.at(), (now + SETTLE).min(start + SETTLE_MAX));
            now += SETTLE / 2;
        }
        due.run();
        assert!(due.at() >= regular);
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
