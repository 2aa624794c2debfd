//! Control groups of a run, which belong to the machine and do not end with a sandbox.
//!
//! A *sweeper* waits outside for the end of the run, however it comes, and removes them.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

/// Set for the sweeper; its value is the name of the run.
pub(crate) const SWEEP: &str = "NODENS_E2E_SWEEP";

/// Where hierarchies are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// How long the processes of a run that was killed may take to leave their groups.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(180);

/// What the names of groups begin with; the number of the run's process follows.
pub(crate) const PREFIX: &str = "nodens-e2e-";

/// How long nothing has happened in a group that may be removed by others than its own sweeper.
const OLD: Duration = Duration::from_secs(600);

/// The groups of a run and the process that removes them.
#[derive(Debug)]
pub(crate) struct Groups {
    sweeper: Child,
    /// The sweeper starts when this is closed, by whatever.
    alive: Option<ChildStdin>,
}

impl Groups {
    /// Makes the group `name` in every hierarchy.
    pub(crate) fn make(name: &str) -> Result<Self> {
        remove_old();
        let mut sweeper = Command::new(std::env::current_exe()?)
            .env(SWEEP, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the run, not for what cleans up after it.
            .process_group(0)
            .spawn()
            .context("cannot start the sweeper")?;
        let alive = sweeper.stdin.take();
        let groups = Groups { sweeper, alive };
        for hierarchy in hierarchies()? {
            make_in(&hierarchy, name).with_context(|| hierarchy.display().to_string())?;
        }
        Ok(groups)
    }

    /// Waits until the groups are gone.
    pub(crate) fn remove(mut self) -> Result<()> {
        drop(self.alive.take());
        let status = self.sweeper.wait()?;
        if !status.success() {
            bail!("control groups are left behind");
        }
        Ok(())
    }
}

/// The group of a run, with a limit on the memory of the processes that are put into it.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    folder: PathBuf,
    files: &'static MemoryFiles,
}

/// What the controller calls its files.
#[derive(Debug)]
struct MemoryFiles {
    limit: &'static str,
    used: &'static str,
    peak: &'static str,
    /// Its line `oom_kill` counts processes that were killed.
    kills: &'static str,
}

const VERSION_1: MemoryFiles = MemoryFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    peak: "memory.max_usage_in_bytes",
    kills: "memory.oom_control",
};

const VERSION_2: MemoryFiles = MemoryFiles {
    limit: "memory.max",
    used: "memory.current",
    peak: "memory.peak",
    kills: "memory.events",
};

impl MemoryGroup {
    /// Limits the group of the run `name` to so many octets.
    pub(crate) fn of_run(name: &str, limit: u64) -> Result<Self> {
        for hierarchy in hierarchies()? {
            let folder = hierarchy.join(name);
            for files in [&VERSION_1, &VERSION_2] {
                let path = folder.join(files.limit);
                if path.is_file() {
                    fs::write(&path, limit.to_string()).context(path.display().to_string())?;
                    return Ok(MemoryGroup { folder, files });
                }
            }
        }
        bail!("no control group limits memory here");
    }

    /// The file to which a process is written that shall be in the group.
    pub(crate) fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Octets in use: of processes, of the kernel for them, and of files they read.
    pub(crate) fn used(&self) -> Result<u64> {
        self.number(self.files.used)
    }

    /// The same without files that were not used lately, which the kernel forgets before it kills.
    pub(crate) fn working(&self) -> Result<u64> {
        let stat = self.text("memory.stat")?;
        let field = |name| stat.lines().find_map(|line: &str| line.strip_prefix(name));
        // Version 1 has the field without the groups below, too.
        let files = field("total_inactive_file ").or_else(|| field("inactive_file "));
        let files = files.context("no inactive_file")?.trim().parse()?;
        Ok(self.used()?.saturating_sub(files))
    }

    /// Gives up files of processes that have ended. Where the kernel cannot, they stay for a while.
    pub(crate) fn forget(&self) {
        for (file, what) in [("memory.force_empty", "0"), ("memory.reclaim", "1G")] {
            let path = self.folder.join(file);
            if path.is_file() {
                // As much as there is; version 2 fails if that is less than requested.
                _ = fs::write(path, what);
            }
        }
    }

    /// The most that was ever in use.
    pub(crate) fn peak(&self) -> Result<u64> {
        self.number(self.files.peak)
    }

    /// Processes that were killed at the limit.
    pub(crate) fn kills(&self) -> Result<u64> {
        let text = self.text(self.files.kills)?;
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        Ok(line.context("no line oom_kill")?.trim().parse()?)
    }

    fn number(&self, file: &str) -> Result<u64> {
        Ok(self.text(file)?.trim().parse()?)
    }

    fn text(&self, file: &str) -> Result<String> {
        let path = self.folder.join(file);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }
}

/// The sweeper: waits for the end of the run and removes its groups.
pub(crate) fn sweep(name: &str) -> Result<ExitCode> {
    let mut nothing = Vec::new();
    std::io::stdin().read_to_end(&mut nothing)?;
    let deadline = Instant::now() + SWEEP_TIMEOUT;
    let mut left: Vec<PathBuf> = hierarchies()?.iter().map(|root| root.join(name)).collect();
    loop {
        // One that cannot be removed yet keeps none of the others.
        left.retain(|group| remove(group).is_err());
        if left.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() > deadline {
            let held: Vec<String> = left.iter().map(|group| held(group)).collect();
            bail!("{}", held.join(", "));
        }
        left.iter().for_each(|group| end_processes(group));
        thread::sleep(Duration::from_millis(50));
    }
}

/// A group that cannot be removed, with what is in it.
fn held(group: &Path) -> String {
    let processes: Vec<String> = processes(group).iter().map(u32::to_string).collect();
    format!("{} (processes: {})", group.display(), processes.join(" "))
}

/// Ends what is still in a group of a run that is over. What a runtime has frozen does not end before it is thawed.
fn end_processes(group: &Path) {
    for folder in folders(group) {
        for (file, what) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
            let path = folder.join(file);
            if path.is_file() {
                _ = fs::write(path, what);
            }
        }
    }
    for process in processes(group) {
        if let Some(id) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            _ = rustix::process::kill_process(id, Signal::KILL);
        }
    }
}

/// The processes of a group and of those below it.
fn processes(group: &Path) -> Vec<u32> {
    let texts = folders(group).into_iter().map(|folder| {
        // Groups go while this looks at them.
        fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default()
    });
    let mut all: Vec<u32> = texts
        .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>())
        .collect();
    all.retain(|process| *process > 1);
    all
}

/// A group and those below it.
fn folders(group: &Path) -> Vec<PathBuf> {
    let mut all = vec![group.to_owned()];
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(folders(&entry.path()));
        }
    }
    all
}

/// Removes the empty groups of runs whose sweeper was killed as well.
fn remove_old() {
    let is_old = |group: &PathBuf| {
        let process = group.file_name().and_then(|name| name.to_str()?.strip_prefix(PREFIX));
        let process = process.and_then(|text| text.parse::<u32>().ok());
        let is_gone = process.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists());
        let age = fs::metadata(group).and_then(|data| data.modified()).map(|time| time.elapsed());
        is_gone && age.is_ok_and(|age| age.is_ok_and(|age| age > OLD))
    };
    for group in of_runs(PREFIX).unwrap_or_default().iter().filter(|group| is_old(group)) {
        _ = remove(group);
    }
}

/// The groups of runs whose names begin so.
pub(crate) fn of_runs(name: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for hierarchy in hierarchies()? {
        for entry in fs::read_dir(&hierarchy)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(name) {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// One folder with version 2, one for each controller with version 1.
fn hierarchies() -> Result<Vec<PathBuf>> {
    let is_group = |folder: &Path| folder.join("cgroup.procs").is_file();
    let root = PathBuf::from(ROOT);
    if is_group(&root) {
        return Ok(vec![root]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&root).context(ROOT)? {
        let entry = entry?;
        // Links are second names of the same hierarchy.
        if entry.file_type()?.is_dir() && is_group(&entry.path()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn make_in(hierarchy: &Path, name: &str) -> Result<()> {
    let group = hierarchy.join(name);
    fs::create_dir(&group)?;
    // In version 1 a new group has neither processors nor memory, and takes no process.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let own = group.join(file);
        if own.is_file() && fs::read_to_string(&own)?.trim().is_empty() {
            let all = fs::read_to_string(hierarchy.join(file)).unwrap_or_default();
            if !all.is_empty() {
                fs::write(own, all)?;
            }
        }
    }
    Ok(())
}

/// Removes a group and those below it; one that is not there is no error.
fn remove(group: &Path) -> Result<()> {
    let entries = match fs::read_dir(group) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    Ok(fs::remove_dir(group)?)
}
