use crate::config::ReadyService;
use crate::testing::Bench;

fn services(lines: &str) -> Vec<ReadyService> {
    let bench = Bench::new(&format!(". {{\n {lines}\n whoami\n}}"));
    bench.worker.config().services.ready.clone()
}

fn service(address: &str, continuously: bool) -> ReadyService {
    ReadyService { address: address.to_owned(), continuously }
}

#[test]
fn address_and_monitor_have_defaults() {
    assert_eq!(services("ready"), [service(":8181", false)]);
    assert_eq!(services("ready :8182"), [service(":8182", false)]);
    let lines = "ready 127.0.0.1:8181 {\n monitor continuously\n }";
    assert_eq!(services(lines), [service("127.0.0.1:8181", true)]);
    let lines = "ready {\n monitor continuously\n monitor until-ready\n }";
    assert_eq!(services(lines), [service(":8181", false)]);
}

#[test]
fn a_block_served_at_two_ports_has_one_endpoint() {
    let bench = Bench::new("a.example:53 a.example:54 {\n ready\n whoami\n}");
    assert_eq!(bench.worker.config().services.ready, [service(":8181", false)]);
}

#[test]
fn malformed_uses_are_refused() {
    let cases = [
        ("ready 8181", "2:8: expected an address and port such as :8181, found `8181`"),
        ("ready :1 :2", "2:11: Wrong argument count"),
        ("ready\n ready", "3:2: this plugin can only be used once per Server Block"),
        ("ready {\n monitor\n }", "3:2: Wrong argument count after 'monitor'"),
        (
            "ready {\n monitor always\n }",
            "3:10: expected until-ready or continuously, found `always`",
        ),
        ("ready {\n watch\n }", "3:2: unknown property 'watch'"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

#[test]
fn only_blocks_with_the_directive_are_waited_for() {
    let text = "a.example {\n ready\n erratic\n}\nb.example {\n erratic\n}\nc.example {\n ready\n whoami\n}";
    let mut bench = Bench::new(text);
    let config = bench.worker.config().clone();
    let [readiness] = &config.services.readiness[..] else { panic!("{:?}", config.services) };
    assert_eq!(readiness.directive, "erratic");
    let request = crate::testing::request("a.example. A");
    let states = [0; 6].map(|_| {
        let ready = (readiness.check)();
        bench.ask_bytes(&request);
        ready
    });
    assert_eq!(states, [false, false, false, true, true, false]);
}
