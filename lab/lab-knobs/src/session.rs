//! A trial: settings that are changed, and are as before when it ends.

use crate::catalogue::PRESENT;
use crate::choice::Choice;
use crate::error::{Error, Problem};
use crate::journal::{Earlier, Leftover};
use crate::keeper::{Connection, Keeper};
use crate::knob::{Kind, Knob, Side, Value};
use crate::listener::{self, Changed};
use crate::protocol::{Reply, Request, Target};
use crate::scope::Scope;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Command;

/// A trial, from the saving of values to their restoration.
///
/// Dropping it restores as [`Session::end`] does, without saying what failed.
#[derive(Debug)]
pub struct Session {
    keeper: Keeper,
    connection: Connection,
    scope: Scope,
    saved: BTreeMap<String, Value>,
    leftovers: Vec<Leftover>,
    /// Values of what the keeper does not change: by the name of the setting.
    chosen: BTreeMap<String, (Kind, Value)>,
    changed: Vec<Changed>,
}

/// What a survey finds out about a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// Its name.
    pub knob: String,
    /// Its present value, none if the server has it; or why it cannot be changed.
    pub present: Result<Option<Value>, String>,
}

/// What a survey finds out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Of each setting, in the order of the choices.
    pub knobs: Vec<Availability>,
    /// What earlier runs left, restored or not.
    pub leftovers: Vec<Leftover>,
}

/// Which of `choices` can be changed within `scope`. In namespaces each is set to both of its levels,
/// read back, and restored, and no namespace stays; on the host values are only read. Values that an
/// `earlier` run left are restored before, or only told.
///
/// # Errors
///
/// There can be no session at all.
pub fn survey(
    keeper: &Keeper,
    scope: &Scope,
    choices: &[Choice],
    earlier: Earlier,
) -> Result<Survey, Error> {
    let mut session = Session::start(keeper, scope, earlier)?;
    let mut all = Vec::with_capacity(choices.len());
    for Choice { knob, low, high } in choices {
        let present = match session.save(knob) {
            Ok(()) => {
                let tried = session.try_both(knob, low, high);
                if tried.is_err() && session.saved.contains_key(&*knob.name) {
                    session.connection.order(&Request::Forget { knob: knob.name.to_string() })?;
                }
                tried
            }
            Err(problem) => Err(problem?.reason),
        };
        let present = present.map(|()| session.present(knob).cloned());
        all.push(Availability { knob: knob.name.to_string(), present });
    }
    let leftovers = std::mem::take(&mut session.leftovers);
    session.end()?;
    Ok(Survey { knobs: all, leftovers })
}

impl Drop for Session {
    fn drop(&mut self) {
        // Dropping the connection ends the keeper, which restores everything else.
        _ = listener::restore(&mut self.changed);
    }
}

impl Session {
    /// Restores what an earlier run left, makes the namespaces, and saves the values of `knobs`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] lists all settings that this kernel or scope lacks; others say why
    /// there can be no session. Nothing is changed then.
    pub fn begin(keeper: &Keeper, scope: Scope, knobs: &[&Knob]) -> Result<Self, Error> {
        let mut session = Self::start(keeper, &scope, Earlier::Restore)?;
        let mut problems = Vec::new();
        for knob in knobs {
            if let Err(problem) = session.save(knob) {
                problems.push(problem?);
            }
        }
        if problems.is_empty() {
            return Ok(session);
        }
        session.end()?;
        Err(Error::Unavailable(problems))
    }

    fn start(keeper: &Keeper, scope: &Scope, earlier: Earlier) -> Result<Self, Error> {
        let mut connection = keeper.start()?;
        let leftovers = if scope.is_namespace() {
            keeper.leftovers(earlier)?
        } else {
            connection.order(&Request::Machine)?;
            keeper.leftovers_of_host(earlier)?
        };
        let incomplete = leftovers.iter().find(|left| left.is_incomplete());
        if let Some(left) = incomplete.filter(|_| earlier == Earlier::Restore) {
            return Err(Error::Leftover(left.to_string()));
        }
        let mut session = Self {
            keeper: keeper.clone(),
            connection,
            scope: scope.clone(),
            saved: BTreeMap::new(),
            leftovers,
            chosen: BTreeMap::new(),
            changed: Vec::new(),
        };
        if let Some(network) = scope.network() {
            session.connection.order(&Request::Make(network.clone()))?;
        }
        Ok(session)
    }

    /// The outer error is a setting's, the inner one the session's.
    fn save(&mut self, knob: &Knob) -> Result<(), Result<Problem, Error>> {
        let problem = |reason: String| Ok(Problem { knob: knob.name.to_string(), reason });
        if let Some(reason) = self.scope.forbids(knob) {
            return Err(problem(reason.to_owned()));
        }
        let Some(target) = Target::of(knob) else {
            return Ok(());
        };
        let request = Request::Save {
            knob: knob.name.to_string(),
            place: self.scope.place(knob.side),
            device: self.scope.device().map(str::to_owned),
            target,
        };
        match self.connection.ask(&request).map_err(Err)? {
            Reply::Saved(value) => {
                self.saved.insert(knob.name.to_string(), Value::normal(&value));
                Ok(())
            }
            Reply::Missing(reason) => Err(problem(reason)),
            Reply::Failed(failed) => Err(Err(Error::Failed(failed))),
            other => Err(Err(Error::Keeper(format!("replies {other:?}")))),
        }
    }

    fn try_both(&mut self, knob: &Knob, low: &Value, high: &Value) -> Result<(), String> {
        if Target::of(knob).is_none() {
            return Ok(());
        }
        if low.as_str() == PRESENT && self.present(knob) == Some(high) {
            return Err(format!(
                "has the value `{high}` already: name two with {0}=LOW,HIGH",
                knob.name
            ));
        }
        if !self.scope.is_namespace() {
            return Ok(());
        }
        let tried = self.set(knob, high).and_then(|()| self.set(knob, low));
        let restored = self.connection.order(&Request::Restore);
        tried.and(restored).map_err(|error| error.to_string())
    }

    /// Sets `knob` to `value` and reads it back. Socket options and placeholders are kept for
    /// [`Session::serving`] and [`Session::render`].
    ///
    /// # Errors
    ///
    /// The value was refused, or the kernel kept another one ([`Error::Kept`]); the setting may then
    /// have either. Whoever gives up has to call [`Session::restore`], or end.
    pub fn set(&mut self, knob: &Knob, value: &Value) -> Result<(), Error> {
        let name = || knob.name.to_string();
        if Target::of(knob).is_none() {
            self.chosen.insert(name(), (knob.kind.clone(), value.clone()));
            return Ok(());
        }
        if !self.saved.contains_key(&*knob.name) {
            return Err(Error::NotPart(name()));
        }
        let request = Request::Set { knob: name(), value: value.to_string() };
        let value = value.to_string();
        match self.connection.ask(&request)? {
            Reply::Done => Ok(()),
            Reply::Refused(reason) => Err(Error::Refused { knob: name(), value, reason }),
            Reply::Kept(kept) => Err(Error::Kept { knob: name(), value, kept }),
            Reply::Failed(failed) => Err(Error::Failed(failed)),
            other => Err(Error::Keeper(format!("replies {other:?}"))),
        }
    }

    /// Applies the socket options that were set to the sockets that `process` and its children
    /// listen on, and reads them back. To be called after every start of the server.
    ///
    /// # Errors
    ///
    /// It listens on none, the kernel refuses a value or keeps another one.
    pub fn serving(&mut self, process: u32) -> Result<(), Error> {
        for (knob, (kind, value)) in &self.chosen {
            let Kind::Listener(option) = kind else { continue };
            // `none` is the server's own choice.
            let Ok(value) = value.as_str().parse::<i32>() else { continue };
            listener::set(process, knob, *option, value, &mut self.changed)?;
        }
        Ok(())
    }

    /// `template` with the chosen values in the place of `{NAME}`.
    ///
    /// # Errors
    ///
    /// It lacks a placeholder whose value was set.
    pub fn render(&self, template: &str) -> Result<String, Error> {
        let mut text = template.to_owned();
        for (kind, value) in self.chosen.values() {
            let Kind::Server { placeholder } = kind else { continue };
            let hole = format!("{{{placeholder}}}");
            if !template.contains(&hole) {
                return Err(Error::Template(placeholder.to_string()));
            }
            text = text.replace(&hole, value.as_str());
        }
        Ok(text)
    }

    /// Gives every setting its saved value and reads it back; the session goes on. Placeholders and
    /// socket options are forgotten, and sockets that are still there get back what they had.
    ///
    /// # Errors
    ///
    /// What has another value still.
    pub fn restore(&mut self) -> Result<(), Error> {
        self.chosen.clear();
        let sockets = listener::restore(&mut self.changed);
        self.connection.order(&Request::Restore)?;
        sockets
    }

    /// Restores everything, removes the namespaces and the journal.
    ///
    /// # Errors
    ///
    /// What has another value still. Its journal stays, and the next session tries again.
    pub fn end(mut self) -> Result<(), Error> {
        let sockets = listener::restore(&mut self.changed);
        let ended = self.connection.order(&Request::End);
        let orderly = self.connection.close();
        match ended {
            Ok(()) if orderly => sockets,
            Err(Error::Failed(failed)) => Err(Error::Failed(failed)),
            // Its keeper was killed: this process does the work.
            _ => {
                let host = !self.scope.is_namespace();
                let left = self.keeper.leftover_of(&self.connection, host)?;
                match left.filter(Leftover::is_incomplete) {
                    Some(left) => Err(Error::Leftover(left.to_string())),
                    None => sockets,
                }
            }
        }
    }

    /// The saved value of `knob`.
    pub fn present(&self, knob: &Knob) -> Option<&Value> {
        self.saved.get(&*knob.name)
    }

    /// What earlier runs had left, restored when this session began.
    pub fn leftovers(&self) -> &[Leftover] {
        &self.leftovers
    }

    /// What it may change.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// A command that runs `program` on one side.
    pub fn command(&self, side: Side, program: &str) -> Command {
        self.scope.command(side, program)
    }

    /// The address of one side, in namespaces.
    pub fn address(&self, side: Side) -> Option<IpAddr> {
        self.scope.address(side)
    }

    /// The number of the process that changes and restores the settings.
    pub fn keeper(&self) -> u32 {
        self.connection.process()
    }
}
