//! Keeps the certificates of one configuration.

use crate::limits::{LOOK_EVERY, OBTAIN_TIMEOUT};
use crate::{account, order, pace};
use instant_acme::Error;
use nodens_core::challenges::Challenges;
use nodens_core::log::{Level, Sink};
use nodens_tls::Managed;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Looks after one certificate after the other.
pub(crate) struct Keeper {
    managed: Arc<Managed>,
    challenges: Arc<Challenges>,
    sink: Sink,
    /// Held while an account is made.
    accounts: Arc<Mutex<()>>,
    domains: Vec<Domain>,
}

/// What is known of one certificate beside its life.
struct Domain {
    name: String,
    /// Failures in a row.
    failures: u32,
    /// Certificates in a row that were to be renewed as soon as they were there.
    hasty: u32,
    /// When it may be tried again after one.
    again: Instant,
}

impl Domain {
    /// Notes that it was tried: with success, until the certificate is to be renewed and until it ends there is as much
    /// time as `left` says. Gives how long nothing has to be done.
    fn settle(&mut self, now: Instant, left: Option<(Duration, Duration)>) -> Duration {
        let Some((renewal, end)) = left else {
            self.failures = self.failures.saturating_add(1);
            let pause = pace::pause(self.failures);
            self.again = now + pause;
            return pause;
        };
        self.failures = 0;
        self.hasty = if renewal.is_zero() { self.hasty.saturating_add(1) } else { 0 };
        let pause = pace::after(renewal, end, self.hasty);
        // The time of a renewal is one of the system's clock: that runs while the machine sleeps, and may be set.
        self.again = if renewal.is_zero() { now + pause } else { now };
        pause
    }
}

impl Keeper {
    pub(crate) fn new(
        managed: Arc<Managed>,
        challenges: Arc<Challenges>,
        sink: Sink,
        accounts: Arc<Mutex<()>>,
    ) -> Self {
        let again = Instant::now();
        let domain = |name: &String| Domain { name: name.clone(), failures: 0, hasty: 0, again };
        let domains = managed.options().domains.iter().map(domain).collect();
        Self { managed, challenges, sink, accounts, domains }
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
        self.load();
        loop {
            let mut wait = LOOK_EVERY;
            for place in 0..self.domains.len() {
                wait = wait.min(self.look(place).await);
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn say(&self, level: Level, text: String) {
        self.sink.line(level, "tls", text);
    }

    /// Takes up what the storage has.
    fn load(&self) {
        for path in self.managed.storage().narrow() {
            let text = format!("Others could read {}: now only its owner can", path.display());
            self.say(Level::Warning, text);
        }
        for Domain { name, .. } in &self.domains {
            match self.managed.load(name) {
                Ok(true) => self.say(Level::Info, format!("ACME certificate of {name} loaded")),
                Ok(false) => {}
                Err(error) => {
                    let text = format!(
                        "ACME certificate of {name} failed to load, a new one is obtained: {error}"
                    );
                    self.say(Level::Warning, text);
                }
            }
        }
    }

    /// Obtains a certificate if it is time; gives how long nothing has to be done.
    async fn look(&mut self, place: usize) -> Duration {
        let Some(domain) = self.domains.get(place) else { return LOOK_EVERY };
        let life = self.managed.life(&domain.name);
        let left = life.map_or(Duration::ZERO, |life| until(life.renew_at()));
        let left = left.max(domain.again.saturating_duration_since(Instant::now()));
        if !left.is_zero() {
            return left;
        }
        let (name, is_new) = (domain.name.clone(), life.is_none());
        let done = tokio::time::timeout(OBTAIN_TIMEOUT, self.obtain(&name)).await;
        let done = done.unwrap_or_else(|_| Err("timed out".to_owned()));
        let life = self.managed.life(&name).filter(|_| done.is_ok());
        let Some(domain) = self.domains.get_mut(place) else { return LOOK_EVERY };
        let left = life.map(|life| (until(life.renew_at()), until(life.not_after)));
        let pause = domain.settle(Instant::now(), left);
        self.report(&name, is_new, &done, pause);
        pause
    }

    fn report(&self, name: &str, is_new: bool, done: &Result<(), String>, pause: Duration) {
        let (did, doing) = if is_new { ("obtained", "obtain") } else { ("renewed", "renew") };
        match done {
            Ok(()) => self.say(Level::Info, format!("ACME certificate of {name} {did}")),
            Err(error) => {
                let seconds = pause.as_secs();
                let text = format!(
                    "ACME certificate of {name} failed to {doing}, next attempt in {seconds}s: {error}"
                );
                self.say(Level::Error, text);
            }
        }
    }

    async fn obtain(&self, name: &str) -> Result<(), String> {
        let storage = self.managed.storage();
        let folder = storage.root().display();
        storage.check().map_err(|error| format!("cannot write to {folder}: {error}"))?;
        let issued = match self.order(name, false).await {
            Err(error) if account::is_unknown(&error) => self.order(name, true).await,
            issued => issued,
        };
        let issued = issued.map_err(|error| error.to_string())?;
        let (chain, key) = (issued.chain.as_bytes(), issued.key.as_bytes());
        self.managed.take_up(name, chain, key).map_err(|error| error.to_string())?;
        if let Err(error) = storage.save_certificate(name, chain, key) {
            let text = format!("ACME certificate of {name} failed to be kept in {folder}: {error}");
            self.say(Level::Error, text);
        }
        Ok(())
    }

    async fn order(&self, name: &str, anew: bool) -> Result<order::Issued, Error> {
        let account = {
            let _one = self.accounts.lock().await;
            account::account(&self.managed, &self.sink, anew).await?
        };
        order::obtain(&account, name, &self.challenges).await
    }
}

/// How long until `at`, in seconds since 1970.
fn until(at: i64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = Duration::from_secs(u64::try_from(at).unwrap_or(0));
    at.saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_systems_clock_says_when_a_certificate_is_renewed() {
        let now = Instant::now();
        let mut domain = Domain { name: "a.example".to_owned(), failures: 3, hasty: 2, again: now };
        let day = Duration::from_secs(24 * 3600);
        let pause = domain.settle(now, Some((60 * day, 90 * day)));
        assert_eq!((pause, domain.again), (60 * day, now));
        assert_eq!((domain.failures, domain.hasty), (0, 0));
    }

    #[test]
    fn what_fails_or_is_due_at_once_waits() {
        let now = Instant::now();
        let mut domain = Domain { name: "a.example".to_owned(), failures: 0, hasty: 0, again: now };
        for left in [None, None, Some((Duration::ZERO, Duration::ZERO))] {
            let pause = domain.settle(now, left);
            assert_eq!(domain.again, now + pause);
            assert!(!pause.is_zero());
        }
        assert_eq!((domain.failures, domain.hasty), (0, 1));
    }
}
