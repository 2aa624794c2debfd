//! A request from its admission to its response, or to the wait for one.

use super::{Verdict, Worker};
use crate::chain::{Outcome, Start};
use crate::containment;
use crate::finish;
use crate::job::{Client, Recipient};
use crate::time::Now;
use nodens_wire::{Admission, Query, admit, not_implemented};

impl Worker {
    /// Handles one request; an immediate response is written to `out`.
    pub fn receive(
        &mut self,
        now: Now,
        client: Client,
        request: &[u8],
        out: &mut Vec<u8>,
    ) -> Verdict {
        let query = match admit(request) {
            Admission::Ignore => return Verdict::Silent,
            Admission::Reject(header) => {
                out.clear();
                out.extend(header.to_bytes());
                return Verdict::Answered;
            }
            Admission::Accept(query) => query,
            Admission::Update(query) => {
                return self.receive_update(now, client, request, query, out);
            }
        };
        self.begin((now, client), request, query, Start::Top, out)
    }

    /// Servers without a handler for updates know no more than that there are such messages.
    #[cold]
    fn receive_update(
        &mut self,
        now: Now,
        client: Client,
        request: &[u8],
        query: Query,
        out: &mut Vec<u8>,
    ) -> Verdict {
        if self.config.server_of(&client).is_some_and(|server| server.takes_updates) {
            return self.begin((now, client), request, query, Start::Update, out);
        }
        let Some(header) = not_implemented(request) else { return Verdict::Silent };
        out.clear();
        out.extend(header.to_bytes());
        Verdict::Answered
    }

    #[inline(always)]
    fn begin(
        &mut self,
        (now, client): (Now, Client),
        request: &[u8],
        query: Query,
        start: Start<'_>,
        out: &mut Vec<u8>,
    ) -> Verdict {
        let mut job = self.spare.pop().unwrap_or_default();
        job.start(now, Recipient::Client(client), request, query);
        job.current.asked_ns = self.state.unsent.arrived(now);
        if self.tlvs.is_some() {
            job.tlvs.clone_from(&self.tlvs);
        }
        self.reserve_ticket();
        let outcome = match finish::objection(&mut job) {
            true => Outcome::Done,
            false => containment::run(&self.config, &mut self.state, now, &mut job, start),
        };
        let verdict = match outcome {
            Outcome::Done => {
                finish::finish(&self.config, &self.state.shared, &mut job);
                self.state.note_answer(&self.config, now, &mut job);
                std::mem::swap(out, &mut job.current.response.wire);
                match job.current.response.take_rest(out) {
                    None => Verdict::Answered,
                    stream => {
                        self.stream = stream;
                        Verdict::Streaming
                    }
                }
            }
            Outcome::Dropped => Verdict::Silent,
            Outcome::Waiting => {
                let ticket = self.park(job);
                self.settle(now);
                self.make_room(now, ticket);
                self.settle(now);
                return Verdict::Pending;
            }
        };
        self.recycle(job);
        self.settle(now);
        verdict
    }
}
