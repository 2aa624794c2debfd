//! Where the upstream service is.

use super::endpoints;
use crate::events::Event;
use nodens_core::Shared;
use nodens_core::cluster::{Feed, Key, Source};
use nodens_core::log::Level;
use nodens_kube::{ConfigError, Watches};
use nodens_node::face::Service;
use std::hash::RandomState;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between the first two attempts to find it; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Time after which a host name is looked up again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Time between two looks at what the watch of the endpoints knows. A dead server is left at once
/// all the same: `forward` sees to that.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// What is known of the upstream service.
#[derive(Debug, Default)]
struct Known {
    addresses: Vec<String>,
    /// Why it is not known (any more).
    missing: String,
}

/// Finds the upstream service, and goes on looking where it can move.
pub(crate) struct Discovery {
    known: Arc<Mutex<Known>>,
    /// The endpoints of the service, where the API server tells.
    feed: Option<Arc<Feed>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How a service is found.
enum Way {
    /// It is where it is.
    Fixed(Vec<String>),
    /// Its name is looked up from time to time.
    Lookup(String),
    /// Its servers are watched; as long as they are not known, its address is used, beside those that it had.
    Watch { feed: Arc<Feed>, key: Key, address: Option<String> },
    /// Nobody tells.
    Nowhere(String),
}

impl Discovery {
    /// Looks for the service that `name` names. [`Event::Look`] tells of each change.
    pub(crate) fn start(
        name: &str,
        events: Sender<Event>,
        shared: &Shared,
        watches: &mut Watches,
    ) -> Self {
        let way = way(name, shared, watches);
        let known = Arc::new(Mutex::new(Known::default()));
        let mut discovery = Self { known: known.clone(), feed: None, stop: None, thread: None };
        let (stop, stopped) = channel::<()>();
        let pause = move |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        let run: Box<dyn FnOnce() + Send> = match way {
            Way::Fixed(addresses) => {
                discovery.lock().addresses = addresses;
                return discovery;
            }
            Way::Nowhere(why) => {
                discovery.lock().missing = why;
                return discovery;
            }
            Way::Lookup(host) => Box::new(move || look_up(&host, &known, &events, pause)),
            Way::Watch { feed, key, address } => {
                discovery.lock().addresses = address.iter().cloned().collect();
                discovery.feed = Some(feed.clone());
                Box::new(move || watch(&feed, &key, address, &known, &events, pause))
            }
        };
        discovery.thread = std::thread::Builder::new().name("upstream".to_owned()).spawn(run).ok();
        discovery.stop = Some(stop);
        discovery
    }

    /// Its addresses, with port where that is not 53; none if it is not found yet.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.lock().addresses.clone()
    }

    /// Why there are no addresses.
    pub(crate) fn missing(&self) -> String {
        self.lock().missing.clone()
    }

    /// What has to go on being watched.
    pub(crate) fn feed(&self) -> Option<Arc<Feed>> {
        self.feed.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A lookup that hangs must not hold up the end of the process.
        drop(self.thread.take());
    }
}

fn way(name: &str, shared: &Shared, watches: &mut Watches) -> Way {
    let (namespace, name) = match Service::parse(name) {
        Service::Literal(addresses) => return Way::Fixed(addresses),
        Service::Host(host) => return Way::Lookup(host),
        Service::Kubernetes { namespace, name } => (namespace, name),
    };
    // The environment tells of services of the pod's own namespace only.
    let own = endpoints::own_namespace();
    let is_own = namespace.is_none() || namespace == own;
    let address = match Service::from_environment(&name, |name| std::env::var(name).ok()) {
        _ if !is_own => Err(format!("{name} is of another namespace than this pod")),
        found => found.map(|address| address.to_string()).map_err(|error| error.to_string()),
    };
    // Without an address the start waits for the endpoints.
    let mut start = |namespace: &str| {
        let found = endpoints::source(namespace, &name, address.is_err());
        let (source, key) = found.map_err(|error| error.to_string())?;
        let feed = start_watch(&source, shared, watches).map_err(|error| error.to_string())?;
        Ok((feed, key))
    };
    let watched = match (own, namespace) {
        (None, _) => Err("not running in a pod with access to the Kubernetes API".to_owned()),
        (Some(own), None) => start(&own),
        (Some(_), Some(namespace)) => start(&namespace),
    };
    match (watched, address) {
        (Ok((feed, key)), address) => Way::Watch { feed, key, address: address.ok() },
        (Err(_), Ok(address)) => Way::Fixed(vec![address]),
        (Err(why), Err(error)) => {
            let text = format!("Unable to lookup IP address of Upstream service {name}: {error}");
            shared.sink.line(Level::Warning, "", text);
            Way::Nowhere(format!("{error}, and {why}"))
        }
    }
}

fn start_watch(
    source: &Source,
    shared: &Shared,
    watches: &mut Watches,
) -> Result<Arc<Feed>, ConfigError> {
    let feed = shared.clusters.feed(source);
    watches.start(std::slice::from_ref(&feed))?;
    Ok(feed)
}

/// Follows the servers of the service until `pause` says that it is enough.
fn watch(
    feed: &Feed,
    key: &Key,
    address: Option<String>,
    known: &Mutex<Known>,
    events: &Sender<Event>,
    pause: impl Fn(Duration) -> bool,
) {
    let chooser = RandomState::new();
    let mut last = Vec::new();
    loop {
        let addresses = match endpoints::servers(feed, key, &chooser) {
            none if none.is_empty() => endpoints::beside(&last, address.as_ref()),
            servers => {
                last.clone_from(&servers);
                servers
            }
        };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.is_empty() {
            known.missing = endpoints::why_not(feed);
        } else if known.addresses != addresses {
            known.addresses = addresses;
            _ = events.send(Event::Look);
        }
        drop(known);
        if !pause(WATCH_EVERY) {
            return;
        }
    }
}

/// Looks up `host` again and again until `pause` says that it is enough.
fn look_up(
    host: &str,
    known: &Mutex<Known>,
    events: &Sender<Event>,
    pause: impl Fn(Duration) -> bool,
) {
    let mut time = PAUSE;
    loop {
        let found = nodens_net::lookup::lookup_host(host, &[]);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(found) => {
                let mut addresses: Vec<_> = found.iter().map(ToString::to_string).collect();
                // The order changes from answer to answer, and means nothing.
                addresses.sort_unstable();
                if known.addresses != addresses {
                    known.addresses = addresses;
                    _ = events.send(Event::Look);
                }
                time = LOOK_AGAIN;
            }
            Err(error) => {
                known.missing = format!("lookup {host}: {error}");
                time = (time * 2).min(PAUSE_MAX);
            }
        }
        drop(known);
        if !pause(time) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_core::cluster::Link;
    use nodens_core::log::{Record, Sink};
    use nodens_kube::Moments;
    use std::sync::mpsc::{Receiver, sync_channel};

    fn start(name: &str) -> (Discovery, Receiver<Record>, Receiver<Event>) {
        let (sender, lines) = sync_channel(10);
        let shared = Arc::new(Shared::new(1, Sink::new(sender)));
        let (sender, events) = channel();
        let mut watches = Watches::new(shared.clone(), Moments::default());
        (Discovery::start(name, sender, &shared, &mut watches), lines, events)
    }

    #[test]
    fn literals_are_where_they_are_and_host_names_are_looked_up() {
        let (literal, _, _) = start("10.0.0.1,10.0.0.2:5353");
        assert_eq!(literal.addresses(), ["10.0.0.1", "10.0.0.2:5353"]);
        let (sender, events) = channel();
        let known = Mutex::new(Known::default());
        look_up("127.0.0.1", &known, &sender, |_| false);
        assert_eq!(events.try_recv(), Ok(Event::Look));
        assert_eq!(known.lock().unwrap().addresses, ["127.0.0.1"]);
        // Nothing new is nothing to look at.
        look_up("127.0.0.1", &known, &sender, |_| false);
        assert!(events.try_recv().is_err());
    }

    #[test]
    fn a_service_that_nobody_tells_of_is_missing_and_why_is_said() {
        let (missing, lines, _) = start("no-such-service");
        assert!(missing.addresses().is_empty());
        assert!(missing.missing().contains("NO_SUCH_SERVICE_SERVICE_HOST"));
        assert_eq!(lines.try_iter().count(), 1);
        let (other, _, _) = start("elsewhere/no-such-service");
        assert!(other.missing().contains("of another namespace"), "{}", other.missing());
    }

    #[test]
    fn the_address_serves_until_the_servers_are_known() {
        let clusters = nodens_core::cluster::Clusters::default();
        let (source, key) = endpoints::source("kube-system", "kube-dns", false).unwrap();
        let feed = clusters.feed(&source);
        let (sender, events) = channel();
        let known = Mutex::new(Known::default());
        let address = Some("10.96.0.11".to_owned());
        watch(&feed, &key, address, &known, &sender, |_| false);
        assert_eq!(known.lock().unwrap().addresses, ["10.96.0.11"]);
        assert_eq!(events.try_recv(), Ok(Event::Look));
        // Without an address what was known stays, and what is wrong is said.
        watch(&feed, &key, None, &known, &sender, |_| false);
        assert_eq!(known.lock().unwrap().addresses, ["10.96.0.11"]);
        assert!(known.lock().unwrap().missing.contains("has not answered yet"));
    }

    #[test]
    fn servers_that_nobody_tells_of_any_more_stay_beside_the_address() {
        let clusters = nodens_core::cluster::Clusters::default();
        let (source, key) = endpoints::source("kube-system", "kube-dns", false).unwrap();
        let feed = clusters.feed(&source);
        let (sender, events) = channel();
        let known = Mutex::new(Known::default());
        let lost = Link::Lost { since_unix_s: 0, reason: "refused".to_owned() };
        // What the API server says, and what is known then.
        let steps = [
            (Some(&[1, 2][..]), Link::Connected, &["10.244.0.1", "10.244.0.2"][..]),
            (None, lost, &["10.244.0.1", "10.244.0.2", "10.96.0.11"]),
            (Some(&[3]), Link::Connected, &["10.244.0.3"]),
            (Some(&[]), Link::Connected, &["10.244.0.3", "10.96.0.11"]),
        ];
        let step = std::cell::Cell::new(0);
        let tell = || {
            let Some((hosts, link, _)) = steps.get(step.get()) else { return false };
            if let Some(hosts) = hosts {
                feed.publish(endpoints::tests::snapshot(&key, 53, hosts.iter().copied()));
                feed.set_synced();
            }
            feed.set_link(link.clone());
            true
        };
        tell();
        let address = Some("10.96.0.11".to_owned());
        watch(&feed, &key, address, &known, &sender, |_| {
            assert_eq!(known.lock().unwrap().addresses, steps[step.get()].2);
            assert_eq!(events.try_recv(), Ok(Event::Look));
            step.set(step.get() + 1);
            tell()
        });
        assert_eq!(step.get(), steps.len());
    }
}
