//! Taking up another configuration.

use super::error::ReloadError;
use super::{Server, compile, source};
use crate::clusters;
use crate::events::Event;
use crate::handover::{Inherited, Waiting};
use crate::load::{self, Loaded};
use crate::node::Node;
use crate::tasks::Tasks;
use nodens_core::log::Level;
use std::sync::mpsc::Receiver;

impl Server {
    /// Reloads if the Corefile differs from what was last looked at.
    pub(super) fn look(&mut self, events: &Receiver<Event>) {
        let at_once = self.node.as_mut().is_some_and(Node::refresh_at_once);
        if !self.reloads.active() && !at_once {
            return;
        }
        // A file that cannot be read is being replaced, or gone: what runs goes on.
        let Ok(source) = source(&self.flags, self.node.as_ref()) else { return };
        match load::parse_anew(source) {
            Ok(loaded) if !self.reloads.is_new(&loaded.hash) => {}
            Ok(loaded) => {
                if let Err(error) = self.take_up(loaded, events) {
                    self.reloads.failed(&error);
                }
            }
            Err(error) => {
                let text = error.brief();
                if self.reloads.is_new(&text) {
                    self.reloads.count_failure();
                    let text = format!("Corefile parse failed: {text}");
                    self.shared.sink.line(Level::Warning, "reload", text);
                }
            }
        }
    }

    pub(super) fn reload(&mut self, events: &Receiver<Event>) -> Result<(), ReloadError> {
        if let Some(node) = &mut self.node {
            node.refresh();
        }
        let source = source(&self.flags, self.node.as_ref())?;
        let loaded = load::parse_anew(source)?;
        self.take_up(loaded, events)
    }

    /// Builds everything new beside the old, then swaps: all or nothing.
    fn take_up(&mut self, loaded: Loaded, events: &Receiver<Event>) -> Result<(), ReloadError> {
        self.say("Reloading");
        let result = self.try_take_up(loaded, events);
        match &result {
            Ok(()) => self.say("Reloading complete"),
            Err(error) => {
                // The watches started for it are not wanted.
                self.watches.retain(&clusters::feeds(&self.config.services));
                let text = format!("Restart failed: {error}");
                self.shared.sink.line(Level::Error, "", text);
            }
        }
        result
    }

    fn try_take_up(&mut self, loaded: Loaded, events: &Receiver<Event>) -> Result<(), ReloadError> {
        let (config, tasks) = compile(&loaded, &self.flags, &self.shared, self.node.as_ref())?;
        clusters::watch(&mut self.watches, &config.services, &self.shared)?;
        // The old configuration answers meanwhile. What comes is obeyed right after the reload.
        let deferred = std::mem::take(&mut self.deferred);
        let mut waiting = Waiting::new(events, deferred, Inherited::default(), &self.shared);
        clusters::wait(&config.services, &self.shared, &mut waiting);
        self.deferred = waiting.deferred;
        self.endpoints.apply(&config.services)?;
        let applied = self.runtime.as_mut().map(|runtime| runtime.apply(config.clone()));
        match applied {
            Some(Err(error)) => {
                // The endpoints of the old configuration are still bound or can be bound again.
                _ = self.endpoints.apply(&self.config.services);
                return Err(error.into());
            }
            Some(Ok(silent)) if !silent.is_empty() => {
                let text = format!("workers {silent:?} have not taken up the configuration yet");
                self.shared.sink.line(Level::Warning, "reload", text);
            }
            _ => {}
        }
        self.config = config;
        self.tasks = Tasks::start(tasks);
        self.watches.retain(&clusters::feeds(&self.config.services));
        self.configure_services(&loaded);
        Ok(())
    }
}
