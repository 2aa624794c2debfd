//! What the main thread does in a hand-over.

use super::{GRACE, Server};
use crate::handover::{self, HolderError, Request, TakenOver};
use crate::node::Node;
use crate::pidfile::PidfileError;
use nodens_core::log::Level;
use nodens_net::{HandedConnection, Runtime};
use nodens_node::handover::{HandoverState, Named};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How long what has arrived already is answered still, where another process has the sockets too.
const DRAIN: Duration = Duration::from_millis(50);

impl Server {
    /// Does what a hand-over wants done; gives the exit code if this process has handed over.
    pub(super) fn hand_over(&mut self) -> Option<ExitCode> {
        self.handover.keep_time();
        let has_answer = self.node.as_ref().is_none_or(Node::has_answer);
        let is_due = has_answer || self.handover.is_over();
        if let Some(runtime) = self.runtime.as_ref().filter(|_| is_due) {
            self.handover.take_over(runtime);
        }
        while let Some(request) = self.handover.request() {
            match request {
                Request::State(reply) => _ = reply.send(self.state()),
                Request::Pause(reply) => _ = reply.send(self.pause()),
                Request::Retire => self.retire(),
                Request::Resume(text) => {
                    self.resume();
                    self.shared.sink.line(Level::Warning, "handover", text);
                }
                Request::Leave(kept, successor, leaving) => {
                    self.leave(&kept, successor);
                    drop(leaving);
                    self.handover.take_retired();
                    self.at_end = self.handover.finish();
                    return Some(ExitCode::SUCCESS);
                }
                Request::Serve(done, taken) => {
                    self.take_descriptors(taken);
                    self.take_questions();
                    _ = done.send(());
                }
                Request::TakeLate(taken) => self.take_descriptors(taken),
                Request::End(why) => {
                    let text = format!("another process serves, ending: {why}");
                    self.shared.sink.line(Level::Error, "handover", text);
                    self.leave_all();
                    return Some(ExitCode::FAILURE);
                }
                Request::Alone(outcome) => {
                    // What the predecessor had is free.
                    self.shared.cache.set_ceiling(self.budget.cache);
                    if let Some(runtime) = &mut self.runtime {
                        runtime.settle();
                    }
                    if let Some(node) = &self.node {
                        node.put_right();
                    }
                    self.handover.taken_over(outcome);
                }
            }
        }
        if let Some(node) = &self.node {
            node.set_listeners_shared(self.handover.shares_listeners());
        }
        None
    }

    /// Takes no more questions; gives what brings them to whoever takes them.
    fn pause(&mut self) -> Result<Named, HolderError> {
        let network = self.node.as_ref().map(Node::descriptors).transpose();
        let last =
            network.and_then(|network| self.handover.last_descriptors(network.unwrap_or_default()));
        let last = last?;
        if let Some(Err(error)) = self.runtime.as_ref().map(Runtime::pause) {
            // It takes nothing either way, and a successor is what helps its clients.
            let text = format!("{error}, handing over all the same");
            self.shared.sink.line(Level::Warning, "handover", text);
        }
        Ok(last)
    }

    /// Has what the predecessor gave with its last message.
    fn take_descriptors(&mut self, taken: TakenOver) {
        let network = self.handover.serving(taken);
        if let Some(node) = &self.node {
            node.inherit(network);
        }
    }

    /// Leaves to a successor what both would do, so that this process can still go on.
    fn retire(&mut self) {
        self.handover.retire();
        self.endpoints.pause();
        if let Some(node) = &mut self.node {
            node.abandon();
        }
    }

    /// Goes on, because the successor is gone.
    fn resume(&mut self) {
        // A worker that does not answer goes on when it comes back.
        _ = self.runtime.as_mut().map(Runtime::resume);
        if self.handover.take_retired() {
            self.endpoints.resume();
            if let Some(node) = &mut self.node {
                node.configure(&self.config);
            }
            if let Err(error) = self.announce_ready() {
                self.shared.sink.line(Level::Error, "", error.to_string());
            }
        }
        self.handover.alone();
    }

    /// Begins, unless a predecessor answers still.
    pub(super) fn announce_ready_unless_pending(&self) -> Result<(), PidfileError> {
        if self.handover.is_pending() { Ok(()) } else { self.announce_ready() }
    }

    /// Takes questions, which the predecessor does not do any more.
    fn take_questions(&mut self) {
        let Some(runtime) = &mut self.runtime else { return };
        // A worker that does not answer takes its questions when it comes back.
        _ = runtime.resume();
        self.endpoints.serve_inherited();
        if let Err(error) = self.announce_ready() {
            self.shared.sink.line(Level::Error, "", error.to_string());
        }
    }

    /// What a successor needs, which stays as it is until it has taken over or given up.
    fn state(&mut self) -> Result<HandoverState, HolderError> {
        let Some(runtime) = &self.runtime else { return Err(HolderError::Ends) };
        if self.handover.shares_listeners() {
            return Err(HolderError::UnderWay);
        }
        let state = handover::state(runtime, self.endpoints.export());
        self.handover.share();
        Ok(state)
    }

    /// Ends, and leaves what arrives at the listeners `kept` to another process.
    fn leave(&mut self, kept: &[SocketAddr], successor: Sender<HandedConnection>) {
        self.notifications = None;
        self.endpoints.close();
        if let Some(node) = &mut self.node {
            node.let_go();
        }
        if let Some(runtime) = self.runtime.take() {
            let left = runtime.leave(kept, &successor, GRACE);
            self.handover.left_behind(left);
        }
        self.taps.finish();
    }

    /// Ends on purpose, while another process has our listeners too.
    pub(super) fn stop_beside(&mut self) -> ExitCode {
        self.handover.announce_end();
        if let Some(node) = self.node.as_mut().filter(|_| self.handover.is_active()) {
            // The other one has nothing yet that brings questions to it: they go to the central servers.
            node.withdraw();
            std::thread::sleep(DRAIN);
            node.release();
        }
        self.leave_all();
        ExitCode::SUCCESS
    }

    /// Ends, and leaves everything to another process that has our listeners.
    fn leave_all(&mut self) {
        let kept = self.runtime.as_ref().map(Runtime::local_addresses);
        self.leave(&kept.unwrap_or_default(), channel().0);
    }

    pub(super) fn start_successor(&mut self) {
        match self.handover.start_successor(&self.flags) {
            Ok(pid) => self.say(&format!("SIGUSR2: Starting successor, process {pid}")),
            Err(error) => {
                let text = format!("SIGUSR2: no successor: {error}");
                self.shared.sink.line(Level::Error, "", text);
            }
        }
    }
}
