use crate::config::HealthService;
use crate::testing::Bench;
use std::time::Duration;

fn services(lines: &str) -> Vec<HealthService> {
    let bench = Bench::new(&format!(". {{\n {lines}\n whoami\n}}"));
    bench.worker.config().services.health.clone()
}

fn service(address: &str, lameduck: u64) -> HealthService {
    HealthService { address: address.to_owned(), lameduck: Duration::from_secs(lameduck) }
}

#[test]
fn address_and_lameduck_have_defaults() {
    assert_eq!(services("health"), [service(":8080", 0)]);
    assert_eq!(services("health {\n lameduck 5s\n }"), [service(":8080", 5)]);
    let lines = "health 169.254.20.10:8080\n health [::1]:8091 {\n lameduck 1m\n }";
    assert_eq!(services(lines), [service("169.254.20.10:8080", 0), service("[::1]:8091", 60)]);
    assert_eq!(services("health localhost:0"), [service("localhost:0", 0)]);
}

#[test]
fn blocks_and_ports_share_an_endpoint() {
    let text = "a.example:53 a.example:54 {\n health {\n lameduck 5s\n }\n whoami\n}\n\
                b.example {\n health {\n lameduck 7s\n }\n whoami\n}";
    let bench = Bench::new(text);
    assert_eq!(bench.worker.config().services.health, [service(":8080", 7)]);
}

#[test]
fn what_is_no_address_or_duration_is_refused() {
    let cases = [
        ("health 8080", "2:9: expected an address and port such as :8080, found `8080`"),
        ("health 192.0.2.1", "2:9: expected an address and port"),
        ("health ::1:8080", "2:9: expected an address and port"),
        ("health [::1]", "2:9: expected an address and port"),
        ("health :80800", "2:9: expected an address and port"),
        ("health :8080 :8081", "2:15: Wrong argument count"),
        ("health {\n lameduck\n }", "3:2: Wrong argument count after 'lameduck'"),
        ("health {\n lameduck 5\n }", "3:11: expected a duration such as 30s, found `5`"),
        ("health {\n lameduk 5s\n }", "3:2: unknown property 'lameduk', did you mean 'lameduck'?"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
