//! Taking up another configuration.

use super::Server;
use super::error::ReloadError;
use crate::clusters;
use crate::events::Event;
use crate::handover::{Inherited, Waiting};
use crate::load::{self, Loaded};
use crate::node::Node;
use nodens_core::config::Services;
use nodens_core::log::Level;
use std::sync::mpsc::Receiver;

impl Server {
    /// Reloads if the Corefile differs from what was last looked at.
    pub(super) fn look(&mut self, events: &Receiver<Event>) {
        let at_once = self.services.node.as_mut().is_some_and(Node::refresh_at_once);
        if !self.reloads.active() && !at_once {
            return;
        }
        // A file that cannot be read is being replaced, or gone: the configuration stays.
        let Ok(source) = self.services.source() else { return };
        match load::parse_anew(source) {
            Ok(loaded) if !self.reloads.is_new(&loaded.hash) => {}
            Ok(loaded) => {
                if let Err(error) = self.take_up(loaded, events) {
                    self.reloads.failed(&error);
                    // Not what is in the file is wrong: it is tried again.
                    if matches!(error, ReloadError::Unsynced) {
                        self.reloads.forget();
                    }
                }
            }
            Err(error) => {
                let text = error.brief();
                if self.reloads.is_new(&text) {
                    self.reloads.count_failure();
                    let text = format!("Corefile parse failed: {text}");
                    self.context.shared.sink.line(Level::Warning, "reload", text);
                }
            }
        }
    }

    pub(super) fn reload(&mut self, events: &Receiver<Event>) -> Result<(), ReloadError> {
        if let Some(node) = &mut self.services.node {
            node.refresh();
        }
        let source = self.services.source()?;
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
                // Of a large cluster, the next attempt finds what came since.
                let keeps_watches = matches!(error, ReloadError::Unsynced);
                self.services.let_go_of_prepared(keeps_watches);
                let text = format!("Restart failed: {error}");
                self.context.shared.sink.line(Level::Error, "", text);
            }
        }
        result
    }

    fn try_take_up(&mut self, loaded: Loaded, events: &Receiver<Event>) -> Result<(), ReloadError> {
        let (shared, deferred) = (&self.context.shared, &mut self.deferred);
        let wait = |services: &Services| {
            // The old configuration answers meanwhile. What comes is obeyed right after the reload.
            let before = std::mem::take(deferred);
            let mut waiting = Waiting::new(events, before, Inherited::default(), shared);
            clusters::wait(services, shared, &mut waiting);
            *deferred = waiting.deferred;
        };
        let compiled = self.services.prepare_anew(loaded, wait)?;
        if clusters::would_lose(&self.services.config.services, &compiled.config.services) {
            return Err(ReloadError::Unsynced);
        }
        let loaded = self.services.replace(compiled)?;
        self.services.configure(&loaded, &mut self.reloads);
        Ok(())
    }
}
