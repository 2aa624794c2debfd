//! Two processes of the node role that follow each other, and everything that can happen to one of
//! them at each step: the node has answers all the same, from this node or from the central servers.
//!
//! Which of the two answers shows in what they say: `10.1.1.1` is the central server's answer by way of
//! this node, `10.1.1.9` that of the central servers themselves.

use super::place::{Place, UPSTREAM};
use super::{CLUSTER_DNS, WEB, arguments};
use crate::fixture::{Folder, Server, nodens};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// What it takes on a quiet machine is less than a second: see `docs/handover.md`. This is for a busy one,
/// and shorter than any wait that would be a fault: those for a lease, a probe, or another process.
const SOON: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(60);

/// How far the hand-over has come when something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The successor has the sockets, and waits for an upstream.
    Waiting,
    /// It is ready, and tries for a while.
    Trial,
    /// It takes queries, and the predecessor stands by.
    StandsBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Predecessor,
    Successor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Killed,
    ToldToEnd,
    /// All threads, as a process that hangs.
    Stopped,
    /// Killed, and started again at once.
    Restarted,
}

/// Who answers afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    Node,
    Central,
}

const TABLE: &[(Step, Who, What, Answers)] = {
    use Answers::{Central, Node};
    use Step::{StandsBy, Trial, Waiting};
    use What::{Killed, Restarted, Stopped, ToldToEnd};
    use Who::{Predecessor, Successor};
    &[
        // No upstream answers: the node has what is in its cache, and the central servers what is not.
        (Waiting, Predecessor, Killed, Central),
        (Waiting, Predecessor, ToldToEnd, Central),
        (Waiting, Predecessor, Restarted, Central),
        (Waiting, Successor, Killed, Node),
        (Waiting, Successor, ToldToEnd, Node),
        (Waiting, Successor, Stopped, Node),
        (Waiting, Successor, Restarted, Node),
        (Trial, Predecessor, Killed, Node),
        (Trial, Predecessor, ToldToEnd, Node),
        (Trial, Predecessor, Stopped, Node),
        (Trial, Predecessor, Restarted, Node),
        (Trial, Successor, Killed, Node),
        (Trial, Successor, ToldToEnd, Node),
        (Trial, Successor, Stopped, Node),
        (Trial, Successor, Restarted, Node),
        (StandsBy, Predecessor, Killed, Node),
        (StandsBy, Predecessor, ToldToEnd, Node),
        (StandsBy, Predecessor, Stopped, Node),
        (StandsBy, Predecessor, Restarted, Node),
        (StandsBy, Successor, Killed, Node),
        (StandsBy, Successor, Stopped, Node),
        (StandsBy, Successor, Restarted, Node),
        // Both were meant; the predecessor serves again because nobody has told it so.
        (StandsBy, Successor, ToldToEnd, Node),
    ]
};

/// A node with central servers behind the address of the cluster's DNS.
struct Scene {
    name: String,
    place: Place,
    arguments: Vec<String>,
    upstream: Option<Server>,
    _central: Server,
    _folder: Folder,
}

impl Scene {
    fn new(name: &str) -> Self {
        let place = Place::new();
        let central = place.start_central(&format!("{name}-central"), CLUSTER_DNS);
        let upstream = Some(place.start_upstream(&format!("{name}-upstream")));
        let folder = Folder::new(name);
        let arguments = arguments(&folder);
        // What is in the cache stays there.
        let base = folder.0.join("Corefile.base");
        let text = std::fs::read_to_string(&base).unwrap();
        std::fs::write(base, text.replace("cache 30", "cache 3600")).unwrap();
        let name = name.to_owned();
        Self { name, place, arguments, upstream, _central: central, _folder: folder }
    }

    /// A pod, which stays idle after it has handed over.
    fn pod(&self, what: &str, trial: &str) -> Server {
        let mut command = self.place.command("env");
        command.arg("KUBERNETES_SERVICE_HOST=192.0.2.99").arg(nodens().get_program());
        // Files of its own, as in a container.
        let folder = Folder::new(&format!("{}-{what}", self.name));
        let own = |name: &str| folder.0.join(name).display().to_string();
        command.args(&self.arguments).args(["-handover-trial", trial]);
        command.args(["-pidfile", &own("pid"), "-conf", &own("Corefile")]);
        command.env("KUBE_DNS_UPSTREAM_SERVICE_HOST", UPSTREAM);
        Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], 53)))
    }

    /// Who answers now, if anybody does at once.
    fn answers(&self) -> Option<Answers> {
        let answer = self.place.ask_within(CLUSTER_DNS, WEB, Duration::from_millis(300))?;
        match &answer.answer.first()?.rdata[..] {
            [10, 1, 1, 1] => Some(Answers::Node),
            [10, 1, 1, 9] => Some(Answers::Central),
            other => panic!("{other:?}"),
        }
    }

    fn wait_for(&self, what: &str, wanted: Answers, patience: Duration) -> Duration {
        let begun = Instant::now();
        while self.answers() != Some(wanted) {
            assert!(begun.elapsed() < patience, "{what}: not {wanted:?} within {patience:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        begun.elapsed()
    }

    /// How long nobody answers from now on, over a while in which everything is over.
    fn longest_gap(&self, what: &str, wanted: Answers) -> Duration {
        let (begun, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
        loop {
            let answers = self.answers();
            longest = longest.max(last.elapsed());
            assert!(longest < SOON, "{what}: nobody answers for {longest:?}");
            if answers.is_some() {
                last = Instant::now();
            }
            if answers == Some(wanted) && begun.elapsed() > Duration::from_millis(1500) {
                return longest;
            }
            assert!(begun.elapsed() < LONG, "{what}: not {wanted:?}, but {answers:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Starts both, and waits until `step` is reached.
fn bring_to(step: Step, scene: &mut Scene) -> (Server, Server) {
    // The predecessor's is the time for which it stands by, the successor's that for which it tries.
    let stands_by = if step == Step::StandsBy { "10000s" } else { "10ms" };
    let first = scene.pod("first", stands_by);
    scene.wait_for("the start", Answers::Node, LONG);
    if step == Step::Waiting {
        assert!(scene.upstream.take().unwrap().end("-TERM").success());
    }
    let second = scene.pod("second", if step == Step::Trial { "3s" } else { "10ms" });
    match step {
        Step::Waiting => {
            second.wait_long_for("waiting until an upstream answers", LONG);
        }
        Step::Trial => {
            second.wait_long_for("ready, taking over", LONG);
        }
        Step::StandsBy => {
            first.wait_long_for("the successor takes queries, standing by for", LONG);
        }
    }
    (first, second)
}

/// Every thread has stopped, so that nothing is done any more.
fn stop(server: &Server) {
    server.signal("-STOP");
    let is_stopped = |task: &Path| {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    let until = Instant::now() + LONG;
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        if tasks.flatten().all(|task| is_stopped(&task.path())) {
            return;
        }
        assert!(Instant::now() < until, "it does not stop");
    }
}

/// Plays one row.
fn play(number: usize, (step, who, what, answers): (Step, Who, What, Answers)) {
    let text = format!("{step:?}, {who:?} {what:?}");
    let mut scene = Scene::new(&format!("follow-{number}"));
    let (first, second) = bring_to(step, &mut scene);
    let (victim, other) = match who {
        Who::Predecessor => (first, second),
        Who::Successor => (second, first),
    };
    let begun = Instant::now();
    let (mut stopped, mut again) = (None, None);
    match what {
        What::Killed => _ = victim.end("-KILL"),
        What::Restarted => {
            _ = victim.end("-KILL");
            again = Some(scene.pod("again", "10ms"));
        }
        What::ToldToEnd => {
            victim.signal("-TERM");
            stopped = Some(victim);
        }
        What::Stopped => {
            stop(&victim);
            stopped = Some(victim);
        }
    }
    let gap = scene.longest_gap(&text, answers);
    eprintln!("{text}: {answers:?} after {:?}, longest gap {gap:?}", begun.elapsed());
    // An upstream that comes back brings everything to this node.
    if step == Step::Waiting {
        let upstream = format!("follow-{number}-upstream-again");
        scene.upstream = Some(scene.place.start_upstream(&upstream));
    }
    if let (What::Stopped, Some(victim)) = (what, &stopped) {
        victim.signal("-CONT");
    }
    scene.wait_for(&text, Answers::Node, LONG);
    // Where one of two processes has to end, it does, and nothing else is left of it.
    for server in [Some(other), stopped, again].into_iter().flatten() {
        server.signal("-TERM");
        server.wait();
    }
    scene.wait_for(&text, Answers::Central, LONG);
    assert!(!scene.place.ip("link").contains("nodelocaldns"), "{text}: the link is left behind");
}

fn play_all(rows: impl Fn(Step, Who) -> bool) {
    for (number, row) in TABLE.iter().enumerate() {
        if rows(row.0, row.1) {
            play(number, *row);
        }
    }
}

/// A successor that waits has nothing to answer with, and must not keep the kubelet from noticing.
#[test]
fn a_predecessor_that_is_stopped_while_its_successor_waits_fails_its_liveness_probe() {
    let mut scene = Scene::new("follow-liveness");
    let (first, second) = bring_to(Step::Waiting, &mut scene);
    assert_eq!(scene.place.get("169.254.20.10:8080", "/health").unwrap().1, "OK");
    stop(&first);
    let read = scene.place.inside(|| {
        let mut stream = TcpStream::connect(("169.254.20.10", 8080)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        write!(stream, "GET /health HTTP/1.0\r\nHost: node\r\n\r\n").unwrap();
        stream.read(&mut [0; 64]).map_err(|error| error.kind())
    });
    assert_eq!(read, Err(ErrorKind::WouldBlock), "somebody else answers for it");
    // Unless what the successor waits for comes before the kubelet ends the other one.
    scene.upstream = Some(scene.place.start_upstream("follow-liveness-upstream-again"));
    scene.wait_for("an upstream", Answers::Node, LONG);
    _ = first.end("-KILL");
    assert!(second.end("-TERM").success());
    scene.wait_for("the end", Answers::Central, LONG);
}

#[test]
fn whatever_happens_to_one_of_two_while_the_second_gets_ready_the_node_has_answers() {
    play_all(|step, _| step == Step::Waiting);
}

#[test]
fn whatever_happens_to_one_of_two_as_the_second_takes_over_the_node_has_answers() {
    play_all(|step, _| step == Step::Trial);
}

#[test]
fn whatever_happens_to_one_of_two_while_the_first_stands_by_the_node_has_answers() {
    play_all(|step, _| step == Step::StandsBy);
}
