//! What the main thread does in a hand-over.

use super::Server;
use super::lacks::lacks;
use crate::handover::{self, HolderError, Request, TakenOver};
use crate::node::Node;
use nodens_core::log::Level;
use nodens_net::{HandedConnection, ListenerAddress, Runtime};
use nodens_node::handover::{HandoverState, Named};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How long what has arrived already is answered still, where another process has the sockets too.
const DRAIN: Duration = Duration::from_millis(50);

impl Server {
    /// Does what a hand-over wants done; gives the exit code if this process has handed over.
    pub(super) fn hand_over(&mut self) -> Option<ExitCode> {
        self.handover.keep_time();
        let has_answer = self.services.node.as_ref().is_none_or(Node::has_answer);
        let services = &self.services;
        let is_due =
            self.handover.is_over() || (has_answer && self.handover.has_enough(|| lacks(services)));
        if let Some(runtime) = self.services.runtime.as_ref().filter(|_| is_due) {
            self.handover.take_over(runtime);
        }
        while let Some(request) = self.handover.request() {
            match request {
                Request::State(reply) => _ = reply.send(self.state()),
                Request::Pause(reply) => _ = reply.send(self.pause()),
                Request::Retire => {
                    self.handover.retire();
                    self.services.retire();
                }
                Request::Resume(text) => {
                    let is_retired = self.handover.take_retired();
                    self.services.resume(is_retired);
                    self.handover.alone();
                    self.context.shared.sink.line(Level::Warning, "handover", text);
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
                    self.services.take_queries();
                    _ = done.send(());
                }
                Request::TakeLate(taken) => self.take_descriptors(taken),
                Request::End(why) => {
                    let text =
                        format!("another process serves, ending: {why}{}", self.handover.lacked());
                    self.context.shared.sink.line(Level::Error, "handover", text);
                    self.leave_all();
                    return Some(ExitCode::FAILURE);
                }
                Request::Alone(outcome) => {
                    self.services.settle();
                    self.handover.taken_over(outcome);
                }
            }
        }
        if let Some(node) = &self.services.node {
            node.set_listeners_shared(self.handover.shares_listeners());
        }
        None
    }

    /// Takes no more queries; gives what brings them here, for the successor.
    fn pause(&mut self) -> Result<Named, HolderError> {
        let last = self.handover.last_descriptors(self.services.network()?)?;
        self.services.pause();
        Ok(last)
    }

    /// Has what the predecessor gave with its last message.
    fn take_descriptors(&mut self, taken: TakenOver) {
        let network = self.handover.serving(taken);
        if let Some(node) = &self.services.node {
            node.inherit(network);
        }
    }

    /// What a successor needs, which stays as it is until it has taken over or given up.
    fn state(&mut self) -> Result<HandoverState, HolderError> {
        let Some(runtime) = &self.services.runtime else { return Err(HolderError::Ends) };
        if self.handover.shares_listeners() {
            return Err(HolderError::UnderWay);
        }
        let lacks = lacks(&self.services);
        let state = handover::state(runtime, self.services.http_listeners(), lacks);
        self.handover.share();
        Ok(state)
    }

    /// Ends, and leaves what arrives at the listeners `kept` to another process.
    fn leave(&mut self, kept: &[ListenerAddress], successor: Sender<HandedConnection>) {
        let handover = &mut self.handover;
        self.services.leave(kept, successor, |left| handover.left_behind(left));
    }

    /// Ends on purpose, while another process has our listeners too.
    pub(super) fn stop_beside(&mut self) {
        self.services.stop_notifying();
        self.handover.announce_end();
        if let Some(node) = self.services.node.as_mut().filter(|_| self.handover.is_active()) {
            // The other one has nothing yet that brings queries to it: they go to the central servers.
            node.withdraw();
            std::thread::sleep(DRAIN);
            node.release();
        }
        self.leave_all();
    }

    /// Ends, and leaves everything to another process that has our listeners.
    fn leave_all(&mut self) {
        let kept = self.services.runtime.as_ref().map(Runtime::bound_listeners);
        self.leave(&kept.unwrap_or_default(), channel().0);
    }

    pub(super) fn start_successor(&mut self) {
        match self.handover.start_successor(&self.context.flags) {
            Ok(pid) => self.say(&format!("SIGUSR2: Starting successor, process {pid}")),
            Err(error) => {
                let text = format!("SIGUSR2: no successor: {error}");
                self.context.shared.sink.line(Level::Error, "", text);
            }
        }
    }
}
