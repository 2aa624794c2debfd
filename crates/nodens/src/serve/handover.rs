//! What the main thread does when servers follow each other.

use super::{GRACE, Server};
use crate::node::Node;
use crate::succession::Request;
use nodens_core::log::Level;
use nodens_net::{HandedConnection, Runtime};
use nodens_node::handover::Estate;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc::Sender;

impl Server {
    /// Does what a hand-over wants done; gives the exit code if this process has handed over.
    pub(super) fn hand_over(&mut self) -> Option<ExitCode> {
        let is_open = self.node.as_ref().is_none_or(Node::is_open);
        if let Some(runtime) = self.runtime.as_ref().filter(|_| is_open) {
            self.succession.take_over(runtime);
        }
        while let Some(request) = self.succession.request() {
            match request {
                Request::Estate(reply) => _ = reply.send(self.estate()),
                Request::Pause(reply) => {
                    let paused = self.runtime.as_ref().map_or(Ok(()), Runtime::pause);
                    _ = reply.send(paused.map_err(|error| error.to_string()));
                }
                Request::Retire => self.retire(),
                Request::Resume(text) => {
                    self.go_on();
                    self.shared.sink.line(Level::Warning, "handover", text);
                }
                Request::Leave(kept, heir) => {
                    self.leave(&kept, heir);
                    self.succession.take_retired();
                    self.after = self.succession.finish();
                    return Some(ExitCode::SUCCESS);
                }
                Request::Begin(done, goodbye) => {
                    self.succession.begun(goodbye);
                    self.take_questions();
                    _ = done.send(());
                }
                Request::Alone(outcome, offer) => {
                    // What the predecessor had is free.
                    self.shared.cache.set_ceiling(self.budget.cache);
                    if let Some(runtime) = &mut self.runtime {
                        runtime.settle();
                    }
                    if let Some(node) = &self.node {
                        node.put_right();
                    }
                    self.succession.taken_over(outcome, offer);
                }
            }
        }
        if let Some(node) = &self.node {
            node.set_together(self.succession.is_together());
        }
        None
    }

    /// Leaves to a successor what both would do, so that this process can still go on.
    fn retire(&mut self) {
        self.succession.retire();
        self.endpoints.pause();
        if let Some(node) = &mut self.node {
            node.abandon();
        }
    }

    /// Goes on, because the successor is gone.
    fn go_on(&mut self) {
        // A worker that does not answer goes on when it comes back.
        _ = self.runtime.as_mut().map(Runtime::resume);
        if self.succession.take_retired() {
            self.endpoints.go_on();
            if let Some(node) = &mut self.node {
                node.follow(&self.config);
            }
            if let Err(error) = self.begin() {
                self.shared.sink.line(Level::Error, "", error);
            }
        }
        self.succession.alone();
    }

    /// Begins, unless a predecessor answers still.
    pub(super) fn begin_unless_pending(&self) -> Result<(), String> {
        if self.succession.is_pending() { Ok(()) } else { self.begin() }
    }

    /// Takes questions, which the predecessor does not do any more.
    fn take_questions(&mut self) {
        let Some(runtime) = &mut self.runtime else { return };
        // A worker that does not answer takes its questions when it comes back.
        _ = runtime.resume();
        self.endpoints.resume();
        if let Err(error) = self.begin() {
            self.shared.sink.line(Level::Error, "", error);
        }
    }

    /// What a successor needs, which stays as it is until it has taken over or given up.
    fn estate(&mut self) -> Result<Estate, String> {
        let Some(runtime) = &self.runtime else { return Err("the server ends".to_owned()) };
        if self.succession.is_together() {
            return Err("a hand-over is under way".to_owned());
        }
        let network = self.node.as_ref().map(Node::descriptors).transpose();
        let network = network.map_err(|error| error.to_string())?.unwrap_or_default();
        let estate = self.succession.estate(runtime, self.endpoints.export(), network)?;
        self.succession.share();
        Ok(estate)
    }

    /// Ends, and leaves what arrives at the listeners `kept` to another process.
    pub(super) fn leave(&mut self, kept: &[SocketAddr], heir: Sender<HandedConnection>) {
        self.notifications = None;
        self.endpoints.close();
        if let Some(node) = &mut self.node {
            node.abandon();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.leave(kept, &heir, GRACE);
        }
        self.taps.finish();
    }

    pub(super) fn start_successor(&mut self) {
        match self.succession.start_successor(&self.flags) {
            Ok(pid) => self.say(&format!("SIGUSR2: Starting successor, process {pid}")),
            Err(error) => {
                let text = format!("SIGUSR2: no successor: {error}");
                self.shared.sink.line(Level::Error, "", text);
            }
        }
    }
}
