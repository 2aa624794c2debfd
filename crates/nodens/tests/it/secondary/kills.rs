//! Primary, Nodens and secondary, each of which ends without notice at any time while the zone changes.

use super::peers::{Kind, Peer, Role, ZONE};
use super::{Model, from_environment, records, serial, until};
use crate::fixture::{Folder, Server, among_few, free_port};
use std::io::Write as _;
use std::time::{Duration, Instant};

/// How often something ends, unless `NODENS_KILLS` has another number:
/// `NODENS_KILLS=100 cargo test -p nodens --test it survive -- --nocapture`.
const KILLS: u32 = 10;
/// The same with servers of which there is one run of that length already.
const KILLS_FEW: u32 = 3;
/// After so many of these all have to have the same zone.
const KILLS_BETWEEN_LOOKS: u32 = 5;

/// What ends.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Primary,
    Nodens,
    Secondary,
}

struct Three {
    primary: Peer,
    nodens: Option<Server>,
    secondary: Peer,
    here: u16,
    name: String,
    corefile: String,
    /// Times that Nodens served at once what it had on disk.
    restored: u32,
    _store: Folder,
}

impl Three {
    fn start(kind: Kind, name: &str, zone: &str) -> Option<Self> {
        let (here, store) = (free_port(), Folder::new(&format!("{name}-store")));
        let primary = Peer::start(kind, &format!("{name}-1"), Role::Primary(here), zone)?;
        let secondary = Peer::start(kind, &format!("{name}-2"), Role::Secondary(here), "").unwrap();
        let corefile = format!(
            "{ZONE}:{here} {{\n bind 127.0.0.1\n secondary {{\n transfer from 127.0.0.1:{}\n store {}\n \
             }}\n transfer {{\n to * 127.0.0.1:{}\n }}\n}}\n",
            primary.port,
            store.0.display(),
            secondary.port,
        );
        let nodens = Some(Server::start(name, &corefile));
        let (name, restored) = (name.to_owned(), 0);
        Some(Self { primary, nodens, secondary, here, name, corefile, restored, _store: store })
    }

    fn kill(&mut self, victim: Victim) {
        match victim {
            Victim::Primary => self.primary.crash(),
            Victim::Secondary => self.secondary.crash(),
            Victim::Nodens => {
                let server = self.nodens.take().unwrap();
                assert!(!server.end("-KILL").success());
                let server = Server::start(&self.name, &self.corefile);
                let is_there = serial(&records(self.here)).is_some();
                // It says so right after; a primary may have been quick meanwhile, so that the version tells nothing.
                let mut says_so = (0..100).map(|_| {
                    std::thread::sleep(Duration::from_millis(10));
                    server.count_seen("Restored from disk: 1 zones") > 0
                });
                self.restored += u32::from(is_there && says_so.any(|said| said));
                self.nodens = Some(server);
            }
        }
    }

    /// Waits until all have this version, record by record.
    fn look(&self, model: &Model) {
        let log = || {
            let lines = self.nodens.as_ref().map(|server| server.seen("")).unwrap_or_default();
            format!("{} {lines:#?} {}", self.primary.log(), self.secondary.log())
        };
        let wanted = until(self.primary.port, model.serial, log);
        assert_eq!(
            wanted.len(),
            model.text().lines().filter(|line| !line.starts_with('$')).count()
        );
        assert_eq!(until(self.here, model.serial, log), wanted);
        assert_eq!(until(self.secondary.port, model.serial, log), wanted);
    }
}

/// A zone changes all the time, and something ends without notice again and again: in the end all have the same.
fn kill(kind: Kind, name: &str, usual: u32) {
    let _turn = among_few();
    let mut model = Model::new();
    let Some(mut three) = Three::start(kind, name, &model.text()) else { return };
    three.look(&model);
    let (kills, began) = (from_environment("NODENS_KILLS", usual), Instant::now());
    let mut ended = [0; 3];
    for kill in 1..=kills {
        for _ in 0..=model.draw(2) {
            model.change(1 + kill as usize % 7);
            three.primary.change(&model.text());
            std::thread::sleep(Duration::from_millis(model.draw(150).into()));
        }
        let victim = match model.draw(4) {
            0 => Victim::Primary,
            1 => Victim::Secondary,
            _ => Victim::Nodens,
        };
        ended[victim as usize] += 1;
        three.kill(victim);
        if kill % KILLS_BETWEEN_LOOKS == 0 || kill == kills {
            three.look(&model);
        }
    }
    let [primary, nodens, secondary] = ended;
    let said = format!(
        "{kind:?}: killed {primary} times the primary, {nodens} Nodens ({} served at once from disk), {secondary} the \
         secondary; serial {} after {:?}",
        three.restored,
        model.serial,
        began.elapsed()
    );
    // For those who want the figures of a long run.
    _ = writeln!(std::io::stdout(), "{said}");
    assert!(three.restored * 2 >= nodens, "{} of {nodens}", three.restored);
}

#[test]
fn zones_of_knot_survive_the_end_of_anyone() {
    kill(Kind::Knot, "kills-knot", KILLS);
}

#[test]
fn zones_of_bind_survive_the_end_of_anyone() {
    kill(Kind::Bind, "kills-bind", KILLS_FEW);
}

#[test]
fn zones_of_nsd_survive_the_end_of_anyone() {
    kill(Kind::Nsd, "kills-nsd", KILLS_FEW);
}

#[test]
fn zones_of_powerdns_survive_the_end_of_anyone() {
    kill(Kind::Powerdns, "kills-powerdns", KILLS_FEW);
}

#[test]
fn zones_of_coredns_survive_the_end_of_anyone() {
    kill(Kind::Coredns, "kills-coredns", KILLS_FEW);
}
