//! Requests of HTTP/2 that nobody waits for any more: they take room until they are taken back.

use super::stream::Stream;
use super::streams::Streams;
use super::waiting::Waiting;
use crate::limits::{UPSTREAM_FORGOTTEN_MAX, UPSTREAM_UNSENT_MAX};
use nodens_core::Now;
use nodens_core::upstream::Ask;

impl Stream {
    /// Takes back requests that nobody has waited for in a long time.
    pub(super) fn cancel_forgotten(&mut self, now: Now) -> bool {
        let Some(http) = &mut self.http else { return false };
        let is_old = |waiting: &Waiting| {
            waiting.forgotten && now.since(waiting.sent_at) >= UPSTREAM_FORGOTTEN_MAX
        };
        let old: Vec<u16> =
            self.waiting.iter().filter(|(_, own)| is_old(own)).map(|(id, _)| *id).collect();
        old.iter().for_each(|id| http.cancel(*id));
        old.iter().for_each(|id| _ = self.take(*id));
        !old.is_empty()
    }

    /// How many requests that nobody waits for are all that keeps it from another.
    fn in_the_way(&self, now: Now, queries_max: Option<u32>) -> usize {
        let is_full = self.http.as_ref().is_some_and(|http| !http.has_room() && !http.is_leaving());
        let is_spent = queries_max.is_some_and(|most| self.asked >= most);
        let is_slow = self.pipe.output.len() >= UPSTREAM_UNSENT_MAX;
        let takes_more = is_full && !is_spent && !is_slow && !self.is_old(now);
        if takes_more { self.waiting.len().saturating_sub(self.live) } else { 0 }
    }

    /// Takes back the oldest request that nobody waits for.
    fn cancel_oldest(&mut self) {
        let forgotten = self.waiting.iter().filter(|(_, own)| own.forgotten);
        let oldest = forgotten.min_by_key(|(_, own)| own.sent_at).map(|(id, _)| *id);
        let (Some(id), Some(http)) = (oldest, &mut self.http) else { return };
        http.cancel(id);
        self.take(id);
    }
}

impl Streams {
    /// Makes room for a query where requests that nobody waits for have taken it all; false if there are none.
    /// Each costs the upstream a reset, so it is one, the oldest of the connection with the most.
    pub(super) fn make_room(&mut self, ask: &Ask, now: Now) -> bool {
        let queries_max = self.manners.queries_max(ask.upstream.id, now);
        let keys = self.by_upstream.get(&ask.upstream.id).map(Vec::as_slice).unwrap_or_default();
        let count = |stream: &Stream| match ask.elsewhere && stream.has_asked_for(ask.ticket) {
            true => 0,
            false => stream.in_the_way(now, queries_max),
        };
        let counts = keys.iter().filter_map(|key| Some((count(self.open.get(*key)?), *key)));
        let most = counts.max_by_key(|(count, _)| *count).filter(|(count, _)| *count > 0);
        let Some((_, key)) = most else { return false };
        if let Some(stream) = self.open.get_mut(key) {
            stream.cancel_oldest();
        }
        self.mark(key);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::counters::Counters;
    use crate::limits::{UPSTREAM_CONNECTIONS, UPSTREAM_STREAMS};
    use crate::poll::Poll;
    use crate::random::Random;
    use nodens_core::log::Sink;
    use nodens_core::testing::request;
    use nodens_core::upstream::{Carrier, Key, Settings};
    use nodens_core::worker::{Ticket, Worker};
    use nodens_core::{ListenerKind, Shared, build, config::BuildOptions};
    use std::net::TcpListener;
    use std::sync::Arc;

    #[test]
    fn requests_that_were_given_up_leave_room_for_others() {
        let shared = Arc::new(Shared::new(1, Sink::new(std::sync::mpsc::sync_channel(100).0)));
        let tree = nodens_corefile::parse("", ".:0 {}", &nodens_corefile::NoSources);
        let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
        let mut worker = Worker::new(0, shared.clone(), Arc::new(config), 0);
        let (poll, counters) = (Poll::new().unwrap(), Counters::new(&shared, 0));
        let (mut streams, mut random) = (Streams::default(), Random::new());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, kind) = (listener.local_addr().unwrap(), ListenerKind::Grpc);
        let key = Key { address, kind, source: None, tls: None, settings: Settings::default() };
        let upstream = shared.upstreams.get(key, &shared.registry);
        let mut put = |streams: &mut Streams| {
            let (upstream, carrier) = (upstream.clone(), Carrier::Grpc);
            let ticket = Ticket::default();
            let ask = Ask { ticket, attempt: 1, upstream, carrier, elsewhere: false };
            let mut message = request("example.org A");
            let now = Now::default();
            let waiting = Waiting::new(&ask, &message, now, Vec::new()).unwrap();
            let mut cx = Context { now, poll: &poll, worker: &mut worker, counters: &counters };
            streams.ask(&ask, &mut message, waiting, &mut random, &mut cx)
        };
        let most = 2 * UPSTREAM_CONNECTIONS * UPSTREAM_STREAMS;
        // None is waited for long, so that no connection ever has many that are.
        for _ in 0..most + UPSTREAM_STREAMS {
            let (key, id) = put(&mut streams).unwrap();
            streams.forget(key, id).unwrap();
        }
        assert_eq!(streams.open.len(), 2 * UPSTREAM_CONNECTIONS);
        assert_eq!(streams.open.iter().map(|(_, own)| own.waiting.len()).sum::<usize>(), most);
    }
}
