//! The process that restores after a run was killed: what it says to the run before anything is changed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn guard(kubeconfig: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["swap", "a/deployment/b", "--guard", "r1", "--kubeconfig"])
        .arg(kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// An API server that has nothing.
fn api_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"none","reason":"NotFound","code":404}"#;
            let len = body.len();
            write!(
                stream,
                "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    url
}

#[test]
fn a_guard_says_that_it_has_reached_the_cluster_or_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    // As a pipe is that was read before.
    std::fs::write(&file, "").unwrap();
    let ended = guard(&file).wait_with_output().unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.starts_with("it reads the kubeconfig again: no cluster"), "{said}");
    let url = api_server();
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{{"name":"k","cluster":{{"server":"{url}"}}}}],"users":[{{"name":"u","user":{{}}}}],"contexts":[{{"name":"c","context":{{"cluster":"k","user":"u"}}}}]}}"#
    );
    std::fs::write(&file, text).unwrap();
    let mut guard = guard(&file);
    let mut first = [0];
    guard.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"+");
    assert!(guard.try_wait().unwrap().is_none(), "it stays until the run ends");
    drop(guard.stdin.take());
    assert!(guard.wait().unwrap().success());
}
