//! What is said, and how often.

use super::*;
use crate::kinds;

struct Told {
    report: Report,
    now: SystemTime,
}

impl Told {
    fn new() -> Self {
        let report = Report::new("10.96.0.1:443".into(), false, [Kind::Services, Kind::Slices]);
        Self { report, now: UNIX_EPOCH + Duration::from_secs(1000) }
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    fn failed(&mut self, kind: Kind, fault: Fault) -> Option<String> {
        self.report.failed(&of(kind), &fault, self.now).map(|(_, text)| text)
    }

    fn connected(&mut self, kind: Kind) -> Option<String> {
        self.report.connected(&of(kind), self.now).map(|(_, text)| text)
    }
}

fn of(kind: Kind) -> Resource {
    *kinds::all().iter().find(|resource| resource.kind == kind).unwrap()
}

fn unreachable() -> Fault {
    Fault::Unreachable("Connection refused".into())
}

#[test]
fn a_server_that_is_gone_is_said_once_for_all_kinds_and_rarely_again() {
    let mut told = Told::new();
    assert_eq!(told.connected(Kind::Services), None);
    assert_eq!(told.connected(Kind::Slices), None);
    assert_eq!(told.report.link(), Link::Connected);
    let first = told.after(5).failed(Kind::Services, unreachable()).unwrap();
    assert_eq!(
        first,
        "no connection to the Kubernetes API at 10.96.0.1:443: Connection refused; answering from \
         what was known 0s ago"
    );
    assert_eq!(told.failed(Kind::Slices, unreachable()), None);
    let mut said = Vec::new();
    for second in 1..=1000 {
        if let Some(text) = told.after(1).failed(Kind::Services, unreachable()) {
            assert!(text.contains("known ") && text.contains(" now)"), "{text}");
            said.push(second);
        }
    }
    assert_eq!(said, [60, 180, 420, 900]);
    let link = told.report.link();
    assert_eq!(link, Link::Lost { since_unix_s: 1005, reason: "Connection refused".into() });
    let again = told.connected(Kind::Services).unwrap();
    assert_eq!(again, "Kubernetes API at 10.96.0.1:443: watching again after 16m40s");
    assert!(told.report.lost_since(Kind::Slices).is_some());
    assert_eq!(told.connected(Kind::Slices), None);
    assert_eq!(told.report.link(), Link::Connected);
}

#[test]
fn a_change_of_what_is_wrong_is_said_at_once() {
    let mut told = Told::new();
    assert!(
        told.failed(Kind::Services, unreachable()).unwrap().ends_with("; nothing is known yet")
    );
    let tls = Fault::Tls("invalid peer certificate: UnknownIssuer".into());
    assert!(told.after(1).failed(Kind::Services, tls.clone()).unwrap().starts_with("no TLS with"));
    assert_eq!(told.after(1).failed(Kind::Services, tls), None);
    let forbidden = Fault::Forbidden("services is forbidden".into());
    let text = told.after(1).failed(Kind::Services, forbidden.clone()).unwrap();
    assert!(text.contains("does not let us read services: services is forbidden"), "{text}");
    assert_eq!(told.after(1).failed(Kind::Services, forbidden), None);
    // What one kind may not is nothing that others have been told of.
    let forbidden = Fault::Forbidden("endpointslices is forbidden".into());
    assert!(told.failed(Kind::Slices, forbidden).unwrap().contains("endpointslices.discovery"));
}

#[test]
fn a_right_that_nothing_depends_on_is_missed_in_one_line() {
    let mut told = Told::new();
    told.report.optional = true;
    let forbidden = || Fault::Forbidden("services is forbidden".into());
    let text = told.failed(Kind::Services, forbidden()).unwrap();
    assert_eq!(
        text,
        "no right to read services from the Kubernetes API at 10.96.0.1:443 (list and watch on \
         services), working without: see Rights in docs/node.md"
    );
    assert_eq!(told.failed(Kind::Slices, forbidden()), None);
    assert_eq!(told.after(100_000).failed(Kind::Services, forbidden()), None);
    // A right that was there and is taken away is worth a warning.
    assert!(told.connected(Kind::Services).is_some());
    let text = told.failed(Kind::Services, forbidden()).unwrap();
    assert!(text.contains("does not let us read services"), "{text}");
}
