//! The repeated work of handlers, on threads of their own.

use nodens_core::config::{Services, Task, Watched};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From the last change in a folder until what depends on it is done: an editor and a script change
/// several files one after the other, and write large ones in parts.
const SETTLE: Duration = Duration::from_millis(200);

/// So much work is done at once.
const AT_ONCE: usize = 4;

/// From the first change, however many follow.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// How long work that is being done when it is to end is waited for: a file may lie on a disk that does not answer.
const PATIENCE: Duration = Duration::from_secs(1);

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
    /// Work with this number is done.
    Done(usize, Task),
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
        let done = stop.clone();
        let run = move || {
            let _watch = watch;
            run(tasks, &changed, &words, done);
        };
        let thread = std::thread::Builder::new().name("tasks".to_owned()).spawn(run).ok();
        Self { stop: Some(stop), thread }
    }
}

/// Has done what is due until it is told to stop.
fn run(tasks: Vec<Task>, changed: &Changed, words: &Receiver<Word>, done: Sender<Word>) {
    let mut plan = Plan::new(tasks);
    let mut hands = Hands::new(done);
    loop {
        let next = plan.first().map(|(at, _)| at).filter(|_| hands.has_room());
        let next = next.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        let wait = next.saturating_duration_since(Instant::now());
        match words.recv_timeout(wait) {
            Ok(Word::Changed) => {
                for number in changed.take() {
                    plan.change(number, |due| due.put_off(Instant::now()));
                }
            }
            Ok(Word::Done(number, task)) => {
                hands.busy -= 1;
                plan.change(number, |due| due.rest(task));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Word::Stop) | Err(RecvTimeoutError::Disconnected) => return hands.end(words),
        }
        // What is due for longest comes first, so that nothing waits for ever.
        let now = Instant::now();
        while let Some((_, number)) = plan.first().filter(|(at, _)| *at <= now && hands.has_room())
        {
            plan.change(number, |due| hands.run(number, due));
        }
    }
}

/// All work, in the order in which it is due.
struct Plan {
    due: Vec<Due>,
    /// That which is not being done, by number.
    order: BTreeSet<(Instant, usize)>,
}

impl Plan {
    fn new(tasks: Vec<Task>) -> Self {
        let due: Vec<_> = tasks.into_iter().map(Due::new).collect();
        let at = due.iter().enumerate().filter_map(|(number, due)| Some((due.at()?, number)));
        Self { order: at.collect(), due }
    }

    fn first(&self) -> Option<(Instant, usize)> {
        self.order.first().copied()
    }

    fn change(&mut self, number: usize, change: impl FnOnce(&mut Due)) {
        let Some(due) = self.due.get_mut(number) else { return };
        due.at().into_iter().for_each(|at| _ = self.order.remove(&(at, number)));
        change(due);
        self.order.extend(due.at().map(|at| (at, number)));
    }
}

/// Threads that do the work: several, so that a slow disk or a very large file does not keep all other files
/// from being read. Each is started when it is needed for the first time.
struct Hands {
    jobs: Sender<(usize, Task)>,
    queue: Arc<Mutex<Receiver<(usize, Task)>>>,
    done: Sender<Word>,
    threads: Vec<JoinHandle<()>>,
    busy: usize,
}

impl Hands {
    fn new(done: Sender<Word>) -> Self {
        let (jobs, queue) = channel();
        let (queue, threads) = (Arc::new(Mutex::new(queue)), Vec::new());
        Self { jobs, queue, done, threads, busy: 0 }
    }

    fn has_room(&self) -> bool {
        self.busy < AT_ONCE
    }

    fn run(&mut self, number: usize, due: &mut Due) {
        if self.busy == self.threads.len() {
            let (queue, done) = (self.queue.clone(), self.done.clone());
            let thread = std::thread::Builder::new().name("tasks".to_owned());
            self.threads.extend(thread.spawn(move || work(&queue, &done)));
        }
        let Some(task) = due.begin() else { return };
        if self.threads.is_empty() {
            // There is no thread to be had: later, perhaps.
            return due.rest(task);
        }
        self.busy += usize::from(self.jobs.send((number, task)).is_ok());
    }

    /// Waits for what is being done, but not for ever; what takes longer ends by itself, and nothing begins any more.
    fn end(self, words: &Receiver<Word>) {
        let Self { jobs, threads, mut busy, .. } = self;
        drop(jobs);
        let until = Instant::now() + PATIENCE;
        while busy > 0 {
            let left = until.saturating_duration_since(Instant::now());
            match words.recv_timeout(left) {
                Ok(Word::Done(..)) => busy -= 1,
                Ok(_) => {}
                Err(_) => return,
            }
        }
        for thread in threads {
            _ = thread.join();
        }
    }
}

fn work(queue: &Mutex<Receiver<(usize, Task)>>, done: &Sender<Word>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, mut task)) = next else { return };
        // A fault of one must not end the others; it has been said.
        _ = catch_unwind(AssertUnwindSafe(|| (task.run)()));
        if done.send(Word::Done(number, task)).is_err() {
            return;
        }
    }
}

/// Work, and when it is to be done.
struct Due {
    regular: Instant,
    /// When changes have settled, and when that is not waited for any longer.
    changed: Option<(Instant, Instant)>,
    /// Nothing while it is being done.
    task: Option<Task>,
}

impl Due {
    fn new(task: Task) -> Self {
        Self { regular: Instant::now() + task.interval, changed: None, task: Some(task) }
    }

    /// When it is to be done; not while it is.
    fn at(&self) -> Option<Instant> {
        let at = self
            .changed
            .map_or(self.regular, |(quiet, latest)| self.regular.min(quiet).min(latest));
        self.task.is_some().then_some(at)
    }

    /// Waits for more changes after one.
    fn put_off(&mut self, now: Instant) {
        let latest = self.changed.map_or(now + SETTLE_MAX, |(_, latest)| latest);
        self.changed = Some((now + SETTLE, latest));
    }

    /// It begins, and what has changed before is seen by it.
    fn begin(&mut self) -> Option<Task> {
        self.changed = None;
        self.task.take()
    }

    /// It is done again after a while: counted from the end, so that slow work cannot pile up.
    fn rest(&mut self, task: Task) {
        self.regular = Instant::now() + task.interval;
        self.task = Some(task);
    }
}

/// Watches folders, as far as it is possible: work is done in its interval anyway.
fn watch(
    watched: Vec<Watched>,
    changed: Arc<Changed>,
    words: Sender<Word>,
) -> Option<RecommendedWatcher> {
    let watched: Vec<_> = watched.into_iter().filter_map(absolute).collect();
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

/// As the paths of events are, however the folder is written.
fn absolute(watched: Watched) -> Option<Watched> {
    let folder = std::path::absolute(watched.folder).ok()?;
    Some(Watched { folder, ..watched })
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
            assert_eq!(due.at(), Some((now + SETTLE).min(start + SETTLE_MAX)));
            now += SETTLE / 2;
        }
        let task = due.begin().unwrap();
        assert_eq!(due.at(), None, "it is not begun twice");
        due.put_off(now);
        due.rest(task);
        assert_eq!(due.at(), Some(now + SETTLE), "what changed meanwhile is not seen");
        let task = due.begin().unwrap();
        due.rest(task);
        assert!(due.at() >= regular);
    }

    #[test]
    fn work_that_takes_long_or_fails_keeps_nothing_else_waiting() {
        let (blocked, release) = channel::<()>();
        let (release, runs) = (Mutex::new(release), Arc::new(AtomicUsize::new(0)));
        let task = |run| Task { name: "t".to_owned(), interval: Duration::from_millis(1), run };
        let slow = task(Box::new(move || _ = release.lock().unwrap().recv()));
        let bad = task(Box::new(|| panic!("on purpose")));
        let seen = runs.clone();
        let count = task(Box::new(move || _ = seen.fetch_add(1, Ordering::Relaxed)));
        let tasks = Tasks::start(Work { tasks: vec![slow, bad, count], watched: Vec::new() });
        while runs.load(Ordering::Relaxed) < 5 {
            std::thread::yield_now();
        }
        drop(blocked);
        drop(tasks);
    }

    #[test]
    fn work_that_never_ends_does_not_keep_the_server_from_going_on() {
        let (blocked, release) = channel::<()>();
        let (began, begun) = channel();
        let release = Mutex::new(release);
        let run = Box::new(move || {
            _ = began.send(());
            _ = release.lock().unwrap().recv();
        });
        let task = Task { name: "t".to_owned(), interval: Duration::from_millis(1), run };
        let tasks = Tasks::start(Work { tasks: vec![task], watched: Vec::new() });
        begun.recv().unwrap();
        let since = Instant::now();
        drop(tasks);
        assert!((PATIENCE..10 * PATIENCE).contains(&since.elapsed()), "{:?}", since.elapsed());
        drop(blocked);
    }

    #[test]
    fn a_change_in_a_folder_makes_its_work_due_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        change_in(folder.path(), folder.path());
        // A relative one is below the folder that the program was started in.
        let here = std::env::current_dir().unwrap();
        let folder = tempfile::tempdir_in(&here).unwrap();
        let below = folder.path().strip_prefix(&here).unwrap();
        change_in(folder.path(), below);
        change_in(folder.path(), &std::path::Path::new(".").join(below));
    }

    fn change_in(real: &std::path::Path, folder: &std::path::Path) {
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
            Watched { folder: folder.to_owned(), task: 1 },
        ];
        let tasks = Tasks::start(Work { tasks, watched });
        for count in 1..=2 {
            std::fs::write(real.join("file"), "text").unwrap();
            let since = Instant::now();
            while runs[1].load(Ordering::Relaxed) < count {
                assert!(since.elapsed() < Duration::from_secs(20), "{}", folder.display());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(tasks);
        assert_eq!(runs[0].load(Ordering::Relaxed), 0);
    }
}
