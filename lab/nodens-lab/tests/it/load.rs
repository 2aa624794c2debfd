//! `nodens-lab load` and what it leaves behind.

use crate::{Echo, lab};
use lab_result::ResultFile;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The result on standard output.
pub(crate) fn json(output: &Output) -> ResultFile {
    lab_result::from_json(Path::new("stdout"), &output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A port where no process listens and, as long as this process lives, nobody else can: a socket has it
/// whose peer is somebody else.
pub(crate) fn closed_port() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", 9)).unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    std::mem::forget(socket);
    port
}

fn lab_in(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_load_of_every_built_workload_ends_with_a_result_and_all_answers() {
    let echo = Echo::start();
    for workload in ["cluster", "zipf", "uniform", "unique"] {
        let arguments =
            ["load", "-p", &echo.port, "-Q", "500", "-l", "0.4", "-w", workload, "--json"];
        let result = json(&lab(&arguments));
        let sent = result.counts.sent;
        assert!((150..=250).contains(&sent), "{workload}: {sent}");
        assert_eq!(result.counts.answered, sent);
        assert_eq!(result.rcodes["NOERROR"], sent);
        assert_eq!(result.response.recorded(), sent);
    }
}

#[test]
fn a_seed_is_a_plan() {
    let echo = Echo::start();
    let plan = |seed| {
        let arguments =
            ["load", "-p", &echo.port, "-n", "50", "-l", "0.2", "--seed", seed, "--json"];
        json(&lab(&arguments)).plan.hash
    };
    assert_eq!(plan("1"), plan("1"));
    assert_ne!(plan("1"), plan("2"));
}

#[test]
fn a_dead_server_gives_a_result_without_nan_and_without_colour() {
    let port = closed_port();
    let output = lab(&["load", "-p", &port, "-Q", "200", "-l", "0.3", "-t", "0.3", "--no-out"]);
    let text = stdout(&output);
    assert!(text.contains("ICMP refused"), "{text}");
    assert!(text.contains("≥ 300 ms"), "{text}");
    assert!(!text.to_lowercase().contains("nan") && !text.contains('\x1b'), "{text}");
    let result =
        json(&lab(&["load", "-p", &port, "-Q", "200", "-l", "0.2", "-t", "0.2", "--json"]));
    assert_eq!(result.counts.answered, 0);
    assert_eq!(result.counts.lost(), result.response.censored());
    assert_eq!((result.response.recorded(), result.response.mean()), (0, None));
}

#[test]
fn bad_lines_of_a_names_file_are_named_and_an_empty_one_is_refused() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names");
    let file = path.to_str().unwrap();
    std::fs::write(&path, "one.example A\nbad..name A\ntwo.example BOGUS\n").unwrap();
    let output = lab(&["load", "-p", &echo.port, "-d", file, "-n", "20", "-l", "0.2", "--json"]);
    let errors = stderr(&output);
    assert!(errors.contains(&format!("{file}:2:1: name has an empty label")), "{errors}");
    assert!(errors.contains(&format!("{file}:3:13: `BOGUS` is not a record type")), "{errors}");
    assert!(json(&output).counts.answered > 0);
    let output = lab(&["load", "-p", &echo.port, "-d", file, "--strict"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&format!("{file}:2:1: name has an empty label")));
    std::fs::write(&path, "; nothing\n").unwrap();
    let output = lab(&["load", "-p", &echo.port, "-d", file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("has no query"));
}

#[test]
fn a_load_leaves_a_result_file_and_says_how_to_look_at_it() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let output = lab_in(folder.path(), &["load", "-p", &echo.port, "-Q", "300", "-l", "0.3"]);
    let text = stdout(&output);
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap()).collect();
    assert_eq!(files.len(), 2, "{text}");
    let path =
        files.iter().map(|file| file.path()).find(|path| path.extension().unwrap() == "json");
    let path = path.unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("nodens-lab-127.0.0.1-"), "{name}");
    assert!(text.contains(&format!("  result     {name}\n")), "{text}");
    // The last line opens the page, and report makes the same one from the file.
    let page = name.replace(".json", ".html");
    assert!(text.trim_end().ends_with(&format!("open {page}")), "{text}");
    let page = std::fs::read(folder.path().join(page)).unwrap();
    let again = lab_in(folder.path(), &["report", name, "-o", "again.html"]);
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(std::fs::read(folder.path().join("again.html")).unwrap() == page);
    let result = lab_result::read(&path).unwrap();
    assert_eq!(result.counts.sent, result.counts.answered);
    // Where and how it was measured is all there.
    let provenance = &result.provenance;
    assert_eq!(provenance.argv[1..3], ["load", "-p"]);
    assert!(!provenance.host.kernel.is_empty() && !provenance.host.cpus_allowed.is_empty());
    assert!(provenance.route.as_ref().unwrap().local);
    assert!(provenance.sysctls.keys().any(|key| key.starts_with("net.")), "{provenance:?}");
    let run = &result.run;
    assert!(run.finished_unix_ns >= run.started_unix_ns + run.active_ns);
}

#[test]
fn a_place_that_cannot_be_written_is_told_before_the_load_and_a_full_disk_after_the_summary() {
    let output = lab(&["load", "-p", &closed_port(), "-l", "600", "-o", "/nonexistent/x.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/nonexistent is not a directory"), "{}", stderr(&output));
    if !Path::new("/dev/full").exists() {
        return;
    }
    let echo = Echo::start();
    let output = lab(&["load", "-p", &echo.port, "-Q", "300", "-l", "0.3", "-o", "/dev/full"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write /dev/full: No space left"));
    assert!(stdout(&output).contains("  queries    sent "), "{}", stdout(&output));
}

#[test]
fn exports_are_written_beside_a_result_and_the_same_ones_made_from_it_later() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let formats = ["shotgun", "dns-metrics", "csv", "json", "hgrm"];
    let mut arguments: Vec<String> =
        ["load", "-p", &echo.port, "-Q", "300", "-l", "0.3", "-o", "r.json"]
            .map(String::from)
            .into();
    for format in formats {
        arguments.extend(["--export".into(), format!("{format}=out.{format}")]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = lab_in(folder.path(), &arguments);
    assert!(stdout(&output).trim_end().ends_with("open r.html"), "{output:?}");
    for format in formats {
        let again = lab_in(folder.path(), &["export", "r.json", "--format", format]);
        let written = std::fs::read(folder.path().join(format!("out.{format}"))).unwrap();
        assert!(again.status.success() && !written.is_empty(), "{}", stderr(&again));
        assert_eq!(again.stdout, written, "{format}");
    }
}

#[test]
fn an_export_that_cannot_be_made_says_why() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cut.json"), "{\"schema\": 2,").unwrap();
    for (arguments, reason) in [
        (&["export", "none.json", "-f", "csv"][..], "cannot read none.json: No such file"),
        (&["export", "cut.json", "-f", "csv"], "cut.json: ends in line 1 in the middle"),
        (&["export", "cut.json", "-f", "xml"], "is not an output format, expected dnsperf,"),
        (&["export", "cut.json", "-f", "shotgun", "--shotgun-unit", "1ns"], "at least 1us"),
        (&["load", "--export", "csv"], "expected FORMAT=FILE"),
        (&["load", "--export", "csv=/nonexistent/x.csv"], "/nonexistent is not a directory"),
    ] {
        let output = lab_in(folder.path(), arguments);
        assert!(!output.status.success());
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    }
}

/// What the endpoint says, asked as a scraper does.
fn scrape(address: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.1\r\nHost: lab\r\n\r\n").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    text
}

#[test]
fn a_running_load_can_be_scraped_and_ends_with_a_partial_result() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["load", "-p", &echo.port, "-Q", "200", "-l", "600", "-o", "r.json"])
        .args(["--prometheus", "127.0.0.1:0"])
        .current_dir(folder.path())
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let line =
        lines.find_map(|line| Some(line.ok()?.strip_prefix("metrics on http://")?.to_owned()));
    let address = line.unwrap().strip_suffix("/metrics").unwrap().to_owned();
    // A line per second says that there is something to scrape.
    let second = lines.find(|line| line.as_ref().unwrap().contains(" s  sent ")).unwrap().unwrap();
    assert!(second.contains("p99.9"), "{second}");
    let text = scrape(&address);
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    let sample = |name: &str| -> f64 {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(sample("nodens_lab_sent_total ") > 0.0);
    assert!(sample("nodens_lab_response_seconds_bucket{le=\"+Inf\"}") > 0.0);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "an interrupted run is no success");
    let result = lab_result::read(&folder.path().join("r.json")).unwrap();
    assert!(result.run.interrupted && result.counts.sent > 0);
    let (c, sum) = (&result.counts, |of: fn(&lab_result::Second) -> u64| {
        result.seconds.iter().map(of).sum::<u64>()
    });
    assert_eq!(c.sent, c.answered + c.lost() + c.interrupted);
    assert_eq!((c.sent, c.answered), (sum(|second| second.sent), sum(|second| second.answered)));
}

#[test]
fn the_plan_says_what_connections_are_like() {
    let echo = Echo::with(&["-m", "udp,tcp"]);
    let plan = |arguments: &[&str]| {
        let load = ["load", "-p", &echo.port, "-Q", "100", "-l", "100ms", "-c", "2", "--json"];
        json(&lab(&[&load[..], arguments].concat())).plan
    };
    let connecting = plan(&["-m", "tcp"]).connecting.unwrap();
    assert!(connecting.connect_first && connecting.life == "persistent", "{connecting:?}");
    let mix = ["--mix", "udp=1,tcp=1", "--connect-first=false", "--pipelining", "3"];
    let mixed = plan(&[&mix[..], &["--conn-life", "queries=2", "-t", "700ms"]].concat());
    let connecting = mixed.connecting.unwrap();
    assert!(!connecting.connect_first && connecting.life == "queries=2", "{connecting:?}");
    assert_eq!((connecting.pipelining, connecting.set_up_timeout_ns), (Some(3), 700_000_000));
    let at = format!("127.0.0.1:{}", echo.port);
    assert!(mixed.transports.iter().all(|share| share.server.as_deref() == Some(&at)));
    let datagrams = plan(&["--source", "127.0.0.7", "--kernel-stamps"]);
    assert_eq!(datagrams.connecting, None);
    assert_eq!(
        (datagrams.sources, datagrams.stamps),
        (vec!["127.0.0.7".into()], Some("kernel".into()))
    );
}

#[test]
fn connections_are_counted_by_second_and_in_all() {
    let echo = Echo::with(&["-m", "tcp"]);
    let arguments = ["load", "-p", &echo.port, "-m", "tcp", "-Q", "200", "-l", "1.2", "-c", "4"];
    let result = json(&lab(&[&arguments[..], &["--conn-life", "queries=10", "--json"]].concat()));
    let all = result.connections.unwrap();
    let seconds = result.seconds.iter().map(|second| second.connections.unwrap());
    let opened: u64 = seconds.clone().map(|seen| seen.opened).sum();
    assert!(all.opened >= 4 && opened <= all.opened && opened > 0, "{all:?}");
    assert!(seconds.clone().all(|seen| seen.active <= 64), "{:?}", seconds.collect::<Vec<_>>());
}

#[test]
fn a_result_has_no_secret_however_its_key_was_spelt() {
    let echo = Echo::start();
    for spelling in
        [&["-Dy", "hmac-sha1:k:c2VjcmV0"][..], &["-eDyk:c2VjcmV0"], &["--tsig=k:c2VjcmV0"]]
    {
        let load = ["load", "-p", &echo.port, "-Q", "100", "-n", "2", "--json"];
        let output = lab(&[&load[..], spelling].concat());
        let result = String::from_utf8(output.stdout).unwrap();
        assert!(result.contains("k:…") && !result.contains("c2VjcmV0"), "{result}");
    }
    let folder = tempfile::tempdir().unwrap();
    let names = folder.path().join("names");
    std::fs::write(&names, "a.example A\n").unwrap();
    // The last key is used, and those before it are no less secret.
    let dnsperf = ["dnsperf", "-p", &echo.port, "-n", "1", "-y", "o:b3RoZXI=", "-y", "k:c2VjcmV0"];
    let text = stdout(&lab(&[&dnsperf[..], &["-d", names.to_str().unwrap()]].concat()));
    assert!(text.contains("-y o:… -y k:…") && !text.contains("c2VjcmV0"), "{text}");
}

#[test]
fn runs_that_start_in_the_same_second_keep_a_result_and_a_page_each() {
    let echo = Echo::start();
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
            .args(["load", "-p", &echo.port, "-Q", "20", "-l", "0.2", "--no-version"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let runs: Vec<_> = (0..4).map(|_| start()).collect();
    runs.into_iter().for_each(|mut run| _ = run.wait().unwrap());
    let files = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    let results: Vec<_> =
        names.iter().filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    assert_eq!((results.len(), names.len()), (4, 8), "{names:?}");
    for path in results {
        assert!(lab_result::read(path).unwrap().counts.sent > 0);
        assert!(path.with_extension("html").is_file());
    }
}

#[test]
fn where_nothing_listens_that_is_said_with_its_exit_code_over_udp_and_tcp() {
    let port = closed_port();
    let taken = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let address: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    taken.bind(&address.into()).unwrap();
    let tcp = taken.local_addr().unwrap().as_socket().unwrap().port().to_string();
    for (mode, port) in [("udp", &port), ("tcp", &tcp)] {
        let output = lab(&["load", "-m", mode, "-p", port, "-l", "0.2", "-t", "0.3", "--no-out"]);
        let text = stdout(&output).replace("\n             ", " ");
        assert!(text.contains(&format!("nothing listens at 127.0.0.1:{port}")), "{mode}: {text}");
        assert_eq!(output.status.code(), Some(4), "{mode}: {text}");
    }
}

#[test]
fn an_icmp_refusal_and_the_rcode_refused_have_different_names() {
    let echo = Echo::with(&["--rcode", "100%:REFUSED"]);
    let folder = tempfile::tempdir().unwrap();
    let base = ["load", "-l", "0.2", "-t", "0.3", "-o", "r.json", "--export", "csv=r.csv"];
    let answered = lab_in(folder.path(), &[&base[..], &["-p", &echo.port]].concat());
    assert!(stdout(&answered).contains("answers    REFUSED"), "{answered:?}");
    assert!(!stdout(&answered).contains("refused"), "{}", stdout(&answered));
    let dead = lab_in(folder.path(), &[&base[..], &["-p", &closed_port()]].concat());
    assert!(stdout(&dead).contains("ICMP refused"), "{}", stdout(&dead));
    assert!(!stdout(&dead).contains("REFUSED"));
    let json = std::fs::read_to_string(folder.path().join("r.json")).unwrap();
    assert!(json.contains("\"icmp_refused\"") && !json.contains("\"refused\""));
    let csv = std::fs::read_to_string(folder.path().join("r.csv")).unwrap();
    assert!(csv.contains(",icmp_refused,") && csv.contains(",refused_rcode,"), "{csv}");
}

#[test]
fn what_cannot_be_is_refused_before_the_run_and_named() {
    let echo = Echo::start();
    let base = ["load", "-p", &echo.port, "-l", "600", "--no-out"];
    for (more, wanted) in [
        (&["-l", "0"][..], "the duration must be positive"),
        (&["--cpus", "1023"], "may not run on CPU 1023, only on "),
        (&["--source", "192.0.2.9"], "cannot send from 192.0.2.9"),
        (&["--source", "192.0.2.9", "-m", "tcp"], "cannot send from 192.0.2.9"),
    ] {
        let base = if more[0] == "-l" { &base[..3] } else { &base[..] };
        let output = lab(&[base, more].concat());
        assert_eq!(output.status.code(), Some(1), "{more:?}: {output:?}");
        assert!(stderr(&output).contains(wanted), "{more:?}: {}", stderr(&output));
    }
    let limited = format!("ulimit -n 90; exec {} \"$@\"", env!("CARGO_BIN_EXE_nodens-lab"));
    let mut command = Command::new("sh");
    command.args(["-c", &limited, "sh"]).args(base).args(["-c", "60"]);
    let output = command.output().unwrap();
    let wanted = "60 clients need 124 open descriptors (`ulimit -n`), but there are 90";
    assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    // No file can be made there, not even by root.
    let output = lab_in(Path::new("/proc"), &["load", "-p", &echo.port, "-l", "600"]);
    assert!(stderr(&output).contains("cannot write nodens-lab-127"), "{}", stderr(&output));
    let output = lab(&["load", "-p", &echo.port, "-l", "600", "-o", "/proc/r.json"]);
    assert!(stderr(&output).contains("cannot write /proc/r.json"), "{}", stderr(&output));
}
