//! The process that changes settings and restores them.
//!
//! It is a second process of the same program, in a session of its own, so that Ctrl-C and the end of
//! a terminal do not reach it. It makes every change itself, one after the other, on requests that
//! it reads from its standard input. When that ends, whether the program asked for it or was killed,
//! no change is under way and everything is restored.

use crate::catalogue::PRESENT;
use crate::error::Error;
use crate::journal::{self, Earlier, Exclusive, Journal, Leftover, Line};
use crate::place::Place;
use crate::protocol::{Reply, Request};
use crate::setting::Setting;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Tells the keeper which folder its journal belongs to.
const FOLDER: &str = "NODENS_LAB_JOURNALS";
/// The variable that tells it what its journal's name has beside the numbers of the processes.
const CHANCE: &str = "NODENS_LAB_JOURNAL";
/// The folder unless another one is chosen.
const DEFAULT_FOLDER: &str = "/var/lib/nodens-lab/journals";

/// How long a trial of the machine waits for another one, whose keeper may just restore.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is said after that.
const BUSY: &str = "another trial changes settings of this machine, or restores them";

/// How the process that changes settings is started, and where its journals are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeper {
    arguments: Vec<OsString>,
    folder: PathBuf,
}

impl Keeper {
    /// This program with `arguments`, which make it call [`run`] and nothing else.
    pub fn new<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { arguments, folder: DEFAULT_FOLDER.into() }
    }

    /// With its journals in another folder, which has to be on a disk or in memory of this machine.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = folder.to_owned();
        self
    }

    /// Restores or tells what runs left changed whose keeper has ended as well. While a trial changes
    /// settings of the machine nothing is done: it has done so itself.
    ///
    /// # Errors
    ///
    /// The folder cannot be read, or other users can write to it.
    pub fn leftovers(&self, earlier: Earlier) -> Result<Vec<Leftover>, Error> {
        match Exclusive::take(&self.folder, Duration::ZERO)? {
            Some(_lock) => journal::leftovers(&self.folder, earlier),
            None => Ok(Vec::new()),
        }
    }

    /// The same for a session whose keeper has the lock of the folder.
    pub(crate) fn leftovers_of_host(&self, earlier: Earlier) -> Result<Vec<Leftover>, Error> {
        journal::leftovers(&self.folder, earlier)
    }

    /// Restores what this process has changed by a keeper that was killed.
    pub(crate) fn leftover_of(
        &self,
        keeper: &Connection,
        host: bool,
    ) -> Result<Option<Leftover>, Error> {
        let lock = if host { Exclusive::take(&self.folder, PATIENCE)? } else { None };
        if host && lock.is_none() {
            return Err(Error::Failed(vec![format!("{BUSY}: it restores those of this one, too")]));
        }
        let processes = (std::process::id(), keeper.process());
        journal::leftover_of(&self.folder, processes, keeper.chance)
    }

    pub(crate) fn start(&self) -> Result<Connection, Error> {
        let failed = |error: std::io::Error| Error::Keeper(format!("cannot be started: {error}"));
        // This very file, also if another one has its name by now.
        let mut command = Command::new("/proc/self/exe");
        let chance = RandomState::new().build_hasher().finish();
        command.args(&self.arguments).env(FOLDER, &self.folder).env(CHANCE, chance.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = lab_sys::process::spawn_detached(&mut command).map_err(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or_else(|| Error::Keeper("has no pipes".to_owned()))?;
        let mut connection =
            Connection { child, chance, input: Some(input), output: BufReader::new(output) };
        connection.begun()?;
        Ok(connection)
    }
}

/// The program's end of the pipes to its keeper.
#[derive(Debug)]
pub(crate) struct Connection {
    child: Child,
    /// A part of the name of its journal.
    chance: u64,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Connection {
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Reply, Error> {
        let gone = |error: std::io::Error| Error::Keeper(format!("has ended: {error}"));
        let input = self.input.as_mut().ok_or_else(|| Error::Keeper("has ended".to_owned()))?;
        let mut line = serde_json::to_vec(request).map_err(|e| Error::Keeper(e.to_string()))?;
        line.push(b'\n');
        input.write_all(&line).map_err(gone)?;
        self.reply()
    }

    /// Asks for what has no other reply than that it is done.
    pub(crate) fn order(&mut self, request: &Request) -> Result<(), Error> {
        match self.ask(request)? {
            Reply::Done => Ok(()),
            Reply::Failed(failed) => Err(Error::Failed(failed)),
            other => Err(Error::Keeper(format!("replies {other:?}"))),
        }
    }

    /// Waits until it has locked its journal.
    fn begun(&mut self) -> Result<(), Error> {
        match self.reply()? {
            Reply::Done => Ok(()),
            Reply::Failed(failed) => Err(Error::Failed(failed)),
            other => Err(Error::Keeper(format!("begins with {other:?}"))),
        }
    }

    /// The next reply. Lines that are none are the program's own, and passed over.
    fn reply(&mut self) -> Result<Reply, Error> {
        loop {
            let mut line = String::new();
            match self.output.read_line(&mut line) {
                Ok(0) => return Err(Error::Keeper("has ended: it says no more".to_owned())),
                Err(error) => return Err(Error::Keeper(format!("has ended: {error}"))),
                Ok(_) => {}
            }
            if let Ok(reply) = serde_json::from_str(&line) {
                return Ok(reply);
            }
        }
    }

    /// Its number.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Lets it end, waits for that, and says whether it did so in good order.
    pub(crate) fn close(&mut self) -> bool {
        self.input = None;
        self.child.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.input.is_some() {
            // What cannot be restored the keeper says itself.
            _ = self.order(&Request::End);
        }
        self.close();
    }
}

/// The whole life of a keeper: to be called by a program that [`Keeper::new`]'s arguments start.
///
/// # Errors
///
/// It was started by somebody else, or something could not be restored; that has been written to
/// standard error, too.
pub fn run() -> Result<(), Error> {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    let chance = std::env::var(CHANCE).ok().and_then(|text| text.parse().ok());
    let (folder, chance) = folder
        .zip(chance)
        .ok_or_else(|| Error::Keeper("is started by other commands, not by users".to_owned()))?;
    let program = rustix::process::getppid().map_or(0, |id| id.as_raw_nonzero().get());
    let program = u32::try_from(program).unwrap_or(0);
    let mut journal = match Journal::create(&folder, program, chance) {
        Ok(journal) => journal,
        Err(error) => {
            say(&Reply::Failed(vec![error.to_string()]));
            return Err(error);
        }
    };
    // No folder is kept in use by a process that users do not see.
    _ = std::env::set_current_dir("/");
    say(&Reply::Done);
    let mut work =
        Work { journal: &mut journal, folder: &folder, machine: None, knobs: BTreeMap::new() };
    let mut asked = false;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(Request::End) => {
                asked = true;
                break;
            }
            Ok(request) => say(&work.request(request)),
            Err(error) => say(&Reply::Failed(vec![format!("request `{line}`: {error}")])),
        }
    }
    // The machine stays locked until its settings are restored.
    let machine = work.machine.take();
    let ended = end(journal, program, asked);
    drop(machine);
    ended
}

/// Restores everything and reports it: to the program, or to whoever reads the terminal.
fn end(journal: Journal, program: u32, asked: bool) -> Result<(), Error> {
    let failed = journal.undo().end();
    if !failed.is_empty() {
        let path = journal.path().display();
        tell(&format!("settings could not be restored ({path}): {}", failed.join("; ")));
        say(&Reply::Failed(failed.clone()));
        return Err(Error::Failed(failed));
    }
    let count = journal.undo().saved.len();
    journal.remove()?;
    if asked {
        say(&Reply::Done);
    } else {
        tell(&format!("process {program} was ended; settings restored: {count}"));
    }
    Ok(())
}

/// Writes to standard error, which may be a terminal that has gone.
fn tell(text: &str) {
    _ = writeln!(std::io::stderr(), "nodens-lab: {text}");
}

/// Writes a reply. If the program has gone, its standard input says so next.
fn say(reply: &Reply) {
    let Ok(mut line) = serde_json::to_vec(reply) else { return };
    line.push(b'\n');
    let mut output = std::io::stdout().lock();
    _ = output.write_all(&line).and_then(|()| output.flush());
}

struct Work<'a> {
    journal: &'a mut Journal,
    folder: &'a Path,
    /// What settings of the machine are changed with.
    machine: Option<Exclusive>,
    /// The settings of each knob with their saved values.
    knobs: BTreeMap<String, Vec<(Setting, String)>>,
}

impl Work<'_> {
    fn request(&mut self, request: Request) -> Reply {
        match request {
            Request::Machine => match Exclusive::take(self.folder, PATIENCE) {
                Ok(Some(lock)) => {
                    self.machine = Some(lock);
                    Reply::Done
                }
                Ok(None) => Reply::Failed(vec![BUSY.to_owned()]),
                Err(error) => Reply::Failed(vec![error.to_string()]),
            },
            Request::Save { place: Place::Host, .. } if self.machine.is_none() => {
                Reply::Failed(vec!["settings of the machine need its lock".to_owned()])
            }
            Request::Make(network) => {
                let made = self.journal.append(&Line::Network(network.clone()));
                let made = made.map_err(|error| error.to_string()).and_then(|()| network.make());
                made.map_or_else(|error| Reply::Failed(vec![error]), |()| Reply::Done)
            }
            Request::Save { knob, place, device, target } => {
                match Setting::find(&place, device.as_deref(), &target) {
                    Ok(settings) => self.save(knob, settings),
                    Err(reason) => Reply::Missing(reason),
                }
            }
            Request::Set { knob, value } => self.set(&knob, &value),
            Request::Forget { knob } => {
                self.knobs.remove(&knob);
                Reply::Done
            }
            Request::Restore => {
                let failed = self.journal.undo().restore();
                if failed.is_empty() { Reply::Done } else { Reply::Failed(failed) }
            }
            Request::End => Reply::Done,
        }
    }

    fn save(&mut self, knob: String, settings: Vec<Setting>) -> Reply {
        let same = |other: &&(Setting, String)| settings.contains(&other.0);
        for (name, others) in &self.knobs {
            if others.iter().find(same).is_some() {
                return Reply::Missing(format!("is the same setting as {name}"));
            }
        }
        let mut all = Vec::with_capacity(settings.len());
        for setting in settings {
            match setting.read() {
                Ok(value) => all.push((setting, value)),
                Err(reason) => return Reply::Missing(reason),
            }
        }
        for (setting, value) in all.clone() {
            if let Err(error) = self.journal.append(&Line::Saved { setting, value }) {
                return Reply::Failed(vec![error.to_string()]);
            }
        }
        let mut values: Vec<&str> = all.iter().map(|(_, value)| value.as_str()).collect();
        values.dedup();
        let values = values.join(" / ");
        self.knobs.insert(knob, all);
        Reply::Saved(values)
    }

    fn set(&mut self, knob: &str, value: &str) -> Reply {
        let Some(settings) = self.knobs.get(knob) else {
            return Reply::Failed(vec![format!("{knob} was not saved")]);
        };
        for (setting, saved) in settings {
            if value == PRESENT {
                match setting.restore(saved) {
                    Ok(()) => continue,
                    Err(reason) => return Reply::Refused(reason),
                }
            }
            if let Err(reason) = setting.write(value, saved) {
                return Reply::Refused(reason);
            }
            match setting.holds(value) {
                Ok(Ok(())) => {}
                Ok(Err(kept)) => return Reply::Kept(kept),
                Err(reason) => return Reply::Refused(reason),
            }
        }
        Reply::Done
    }
}
