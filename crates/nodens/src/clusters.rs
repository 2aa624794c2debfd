//! The wait for what `kubernetes` has to know before queries can be answered.

use crate::handover::{Waited, Waiting};
use nodens_core::Shared;
use nodens_core::cluster::Feed;
use nodens_core::config::{ClusterService, Services};
use nodens_core::log::Level;
use nodens_kube::{ConfigError, Watches};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two lines that say what start waits for, as in CoreDNS.
const SAY_EVERY: Duration = Duration::from_millis(500);
/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What `services` wants to be watched.
pub(crate) fn feeds(services: &Services) -> Vec<Arc<Feed>> {
    services.clusters.iter().map(|cluster| cluster.feed.clone()).collect()
}

/// Something that queries cannot be answered without can never be watched.
#[derive(Debug, thiserror::Error)]
#[error("plugin/kubernetes: {0}")]
pub(crate) struct WatchError(#[from] ConfigError);

/// Starts to watch what `services` wants and nobody watches yet.
///
/// # Errors
/// If something that queries cannot be answered without can never be watched. Of what is only
/// good to know, one line is said.
pub(crate) fn watch(
    watches: &mut Watches,
    services: &Services,
    shared: &Shared,
) -> Result<(), WatchError> {
    for cluster in &services.clusters {
        let started = watches.start(std::slice::from_ref(&cluster.feed));
        match started {
            Err(error) if cluster.optional => {
                let text = format!(
                    "no Kubernetes API to ask for names or pods, search paths are learned from \
                     answers: {error}"
                );
                shared.sink.line(Level::Warning, "kubernetes", text);
            }
            started => started?,
        }
    }
    Ok(())
}

/// Waits until everything has been listed once, each for as long as it is worth waiting for.
/// A signal that ends the process ends the wait, and so does the end of a predecessor; [`Waited::On`] is
/// what it gives else. All that comes meanwhile is kept: files may have changed since they were read.
pub(crate) fn wait(services: &Services, shared: &Shared, waiting: &mut Waiting<'_>) -> Waited {
    let begun = Instant::now();
    let mut say_at = begun + SAY_EVERY;
    loop {
        let missing = |cluster: &&ClusterService| !cluster.optional && !cluster.feed.synced();
        let missing = services.clusters.iter().filter(missing);
        let Some(left) = missing.map(|cluster| cluster.startup_timeout).max() else {
            return Waited::On;
        };
        let now = Instant::now();
        // However late this thread comes to look, each line that was due is said.
        while say_at <= now && say_at - begun < left {
            let text = "waiting for Kubernetes API before starting server";
            shared.sink.line(Level::Info, "kubernetes", text);
            say_at += SAY_EVERY;
        }
        if now - begun >= left {
            let text = "starting server with unsynced Kubernetes API";
            shared.sink.line(Level::Warning, "kubernetes", text);
            return Waited::On;
        }
        match waiting.pause(LOOK_EVERY) {
            Waited::On => {}
            ended => return ended,
        }
    }
}

/// Whether names that `now` answers from a cluster would be answered no more: `next` watches it in another way, and its API
/// server has not given everything yet.
pub(crate) fn would_lose(now: &Services, next: &Services) -> bool {
    let is_kept = |own: &ClusterService| {
        next.clusters.iter().any(|other| Arc::ptr_eq(&other.feed, &own.feed))
    };
    let is_given_up = |own: &ClusterService| own.feed.synced() && !is_kept(own);
    let is_missing = |own: &ClusterService| !own.feed.synced();
    let any = |services: &Services, is: &dyn Fn(&ClusterService) -> bool| {
        services.clusters.iter().any(|own| !own.optional && is(own))
    };
    any(now, &is_given_up) && any(next, &is_missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Deferred, Event};
    use crate::handover::Inherited;
    use nodens_core::cluster::{Api, Source};
    use nodens_core::log::{Record, Sink};
    use signal_hook::consts::{SIGTERM, SIGUSR1};
    use std::sync::mpsc::{channel, sync_channel};

    fn services(shared: &Shared, timeouts: &[u64]) -> Services {
        let cluster = |(at, ms): (usize, &u64)| {
            let api = Api::Endpoint { url: format!("http://192.0.2.{at}"), tls: None };
            let feed = shared.clusters.feed(&Source { api, ..Source::default() });
            let startup_timeout = Duration::from_millis(*ms);
            ClusterService { feed, startup_timeout, optional: *ms == 0 }
        };
        let mut services = Services::default();
        services.clusters.extend(timeouts.iter().enumerate().map(cluster));
        services
    }

    #[test]
    fn start_goes_on_when_all_is_known_or_time_is_up_and_says_which() {
        let (sender, lines) = sync_channel(100);
        let shared = Arc::new(Shared::new(1, Sink::new(sender)));
        let (_events, events) = channel();
        let waiting =
            &mut Waiting::new(&events, Deferred::default(), Inherited::default(), &shared);
        let said = || {
            let text = |record| match record {
                Record::Line { text, .. } => text,
                other => panic!("{other:?}"),
            };
            lines.try_iter().map(text).collect::<Vec<_>>()
        };
        let one = services(&shared, &[1200]);
        assert_eq!(wait(&one, &shared, waiting), Waited::On);
        let text = "waiting for Kubernetes API before starting server".to_owned();
        let unsynced = "starting server with unsynced Kubernetes API".to_owned();
        assert_eq!(said(), [text.clone(), text, unsynced]);
        assert_eq!(wait(&services(&shared, &[0]), &shared, waiting), Waited::On);
        assert!(said().is_empty(), "nobody waits for what is only good to know");
        one.clusters[0].feed.set_synced();
        assert_eq!(wait(&services(&shared, &[1200]), &shared, waiting), Waited::On);
        assert_eq!(wait(&Services::default(), &shared, waiting), Waited::On);
        assert!(said().is_empty());
    }

    #[test]
    fn only_a_cluster_that_is_answered_from_can_be_lost() {
        let (sender, _lines) = sync_channel(100);
        let shared = Arc::new(Shared::new(1, Sink::new(sender)));
        let [one, two] = [&[1][..], &[1, 1][..]].map(|timeouts| services(&shared, timeouts));
        let mut other = Services::default();
        other.clusters.extend(two.clusters.get(1).cloned());
        assert!(!would_lose(&one, &other), "nothing is known yet");
        one.clusters[0].feed.set_synced();
        assert!(would_lose(&one, &other));
        assert!(!would_lose(&one, &two), "what is known stays beside another cluster");
        assert!(!would_lose(&one, &Services::default()), "a cluster that is wanted no more");
        assert!(!would_lose(&Services::default(), &other));
        other.clusters[0].feed.set_synced();
        assert!(!would_lose(&one, &other));
    }

    #[test]
    fn a_signal_ends_the_wait_and_nothing_that_came_is_lost() {
        let (sender, _lines) = sync_channel(100);
        let shared = Arc::new(Shared::new(1, Sink::new(sender)));
        let (sender, events) = channel();
        let reload = Event::Signal(SIGUSR1);
        for event in [Event::Look, reload, Event::Signal(SIGTERM)] {
            sender.send(event).unwrap();
        }
        let services = services(&shared, &[3_600_000]);
        let mut waiting = Waiting::new(&events, Deferred::default(), Inherited::default(), &shared);
        assert_eq!(wait(&services, &shared, &mut waiting), Waited::Ended);
        let kept: Vec<_> = std::iter::from_fn(|| waiting.deferred.next()).collect();
        assert_eq!(kept, [Event::Signal(SIGTERM), Event::Look, reload]);
    }
}
