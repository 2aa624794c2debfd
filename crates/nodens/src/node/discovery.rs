//! Where the upstream service is.

use crate::events::Event;
use nodens_core::log::{Level, Sink};
use nodens_node::face::Service;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between the first two attempts to find it; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Time after which a host name is looked up again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

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
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How a service is found.
enum Way {
    /// It is where it is.
    Fixed(Vec<String>),
    /// Its name is looked up from time to time.
    Lookup(String),
    /// Nobody tells.
    Nowhere(String),
}

impl Discovery {
    /// Looks for the service that `name` names. [`Event::Look`] tells of each change.
    pub(crate) fn start(name: &str, events: Sender<Event>, sink: &Sink) -> Self {
        let way = way(name, sink);
        let mut known = Known::default();
        if let Way::Nowhere(why) = &way {
            known.missing.clone_from(why);
        }
        let known = Arc::new(Mutex::new(known));
        let mut discovery = Self { known: known.clone(), stop: None, thread: None };
        match way {
            Way::Fixed(addresses) => discovery.lock().addresses = addresses,
            Way::Nowhere(_) => {}
            Way::Lookup(host) => {
                let (stop, stopped) = channel::<()>();
                let pause =
                    move |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
                let run = move || follow(&host, &known, &events, pause);
                discovery.thread =
                    std::thread::Builder::new().name("upstream".to_owned()).spawn(run).ok();
                discovery.stop = Some(stop);
            }
        }
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

fn way(name: &str, sink: &Sink) -> Way {
    match Service::parse(name) {
        Service::Literal(addresses) => Way::Fixed(addresses),
        Service::Host(host) => Way::Lookup(host),
        Service::Kubernetes { namespace: None, name } => {
            match Service::from_environment(&name, |variable| std::env::var(variable).ok()) {
                Ok(address) => Way::Fixed(vec![address.to_string()]),
                Err(error) => {
                    let text =
                        format!("Unable to lookup IP address of Upstream service {name}: {error}");
                    sink.line(Level::Warning, "", text);
                    Way::Nowhere(error.to_string())
                }
            }
        }
        Service::Kubernetes { namespace: Some(namespace), name } => {
            Way::Nowhere(format!("nobody tells where {namespace}/{name} is"))
        }
    }
}

/// Looks up `host` again and again until `pause` says that it is enough.
fn follow(
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
    use std::sync::mpsc::sync_channel;

    #[test]
    fn literals_and_host_names_become_addresses() {
        let (sender, _lines) = sync_channel(10);
        let sink = Sink::new(sender);
        let (sender, events) = channel();
        let literal = Discovery::start("10.0.0.1,10.0.0.2:5353", sender.clone(), &sink);
        assert_eq!(literal.addresses(), ["10.0.0.1", "10.0.0.2:5353"]);
        let host = Discovery::start("127.0.0.1.", sender, &sink);
        // Without a resolver there is no telling; with one there is no such name.
        _ = events.recv_timeout(Duration::from_millis(100));
        assert!(host.addresses().is_empty() || host.missing().is_empty());
    }

    #[test]
    fn a_service_that_nobody_tells_of_is_missing_and_why_is_said() {
        let (sender, lines) = sync_channel(10);
        let (events, _looks) = channel();
        let missing = Discovery::start("no-such-service", events, &Sink::new(sender));
        assert!(missing.addresses().is_empty());
        assert!(missing.missing().contains("NO_SUCH_SERVICE_SERVICE_HOST"));
        assert_eq!(lines.try_iter().count(), 1);
    }
}
