//! Every Corefile in the README of a handler and in a page of `docs` is accepted.

use nodens_core::config::{BuildOptions, build};
use nodens_core::log::Sink;
use nodens_core::shared::Shared;
use nodens_corefile::{SystemSources, parse};
use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files that examples name and that must exist, with what stands in them.
const FILES: [(&str, &str); 6] = [
    ("/etc/resolv.conf", "search lab.example.org example.org\nnameserver 192.0.2.53\n"),
    ("/etc/nodens/weights", "www.example.org\n192.0.2.1 3\n192.0.2.2 1\n"),
    (
        "/etc/nodens/Kexample.org.+013+31548.key",
        include_str!("../../nodens-zone/testdata/dnssec/Kexample.org.+013+31548.key"),
    ),
    (
        "/etc/nodens/Kexample.org.+013+31548.private",
        include_str!("../../nodens-zone/testdata/dnssec/Kexample.org.+013+31548.private"),
    ),
    (
        "/etc/nodens/Kcluster.local.+015+17213.key",
        "cluster.local. 3600 IN DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=\n",
    ),
    (
        "/etc/nodens/Kcluster.local.+015+17213.private",
        "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\nPrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n",
    ),
];

/// A certificate and its key, which differ from run to run.
const CERTIFICATE: [&str; 2] = ["/etc/nodens/cert.pem", "/etc/nodens/key.pem"];

/// What stands in these.
fn certificate() -> [String; 2] {
    let made = rcgen::generate_simple_self_signed(["dns.example.org".to_owned()]);
    let rcgen::CertifiedKey { cert, signing_key } = made.expect("a certificate");
    [cert.pem(), signing_key.serialize_pem()]
}

/// A block of a README: where it starts and its text.
struct Example {
    line: usize,
    text: String,
}

/// The blocks between fences that are marked as a Corefile.
fn examples(readme: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside: Option<(&str, bool)> = None;
    for (number, line) in readme.lines().enumerate() {
        let fence = ["~~~", "```"].into_iter().find(|fence| line.starts_with(fence));
        match (fence, inside) {
            (Some(fence), None) => {
                let wanted = line.trim_start_matches(fence).trim() == "corefile";
                inside = Some((fence, wanted));
                if wanted {
                    examples.push(Example { line: number + 1, text: String::new() });
                }
            }
            (Some(fence), Some((open, _))) if fence == open => inside = None,
            (_, Some((_, true))) => {
                let example = examples.last_mut().expect("a block is open");
                example.text.push_str(line);
                example.text.push('\n');
            }
            _ => {}
        }
    }
    assert!(inside.is_none(), "a block is not closed");
    examples
}

fn readmes() -> Vec<PathBuf> {
    let handlers = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/handlers");
    let mut found: Vec<_> = fs::read_dir(handlers)
        .expect("the handlers' folder")
        .filter_map(|entry| Some(entry.ok()?.path().join("README.md")))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found
}

/// The pages of `docs`.
fn pages() -> Vec<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let entries = fs::read_dir(docs).expect("the folder of pages").flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
}

/// Builds a configuration from `text`, or says why not.
fn check(text: &str, folder: &Path) -> Result<(), String> {
    let mut text = text.to_owned();
    for path in FILES.map(|(path, _)| path).into_iter().chain(CERTIFICATE) {
        let name = Path::new(path).file_name().expect("a file");
        text = text.replace(path, &folder.join(name).to_string_lossy());
    }
    // Keys are named without the endings of their files.
    text = text.replace("/etc/nodens/K", &folder.join("K").to_string_lossy());
    let (sender, _log) = std::sync::mpsc::sync_channel(64);
    let shared = Arc::new(Shared::new(1, Sink::new(sender)));
    let of = |addresses: [&str; 2]| -> Vec<IpAddr> {
        addresses.iter().map(|address| address.parse().expect("an address")).collect()
    };
    let interfaces = HashMap::from([
        ("lo".to_owned(), of(["127.0.0.1", "::1"])),
        ("eth0".to_owned(), of(["192.0.2.1", "2001:db8::1"])),
    ]);
    let options = BuildOptions { interfaces, ..BuildOptions::default() };
    let tree = parse("README", &text, &SystemSources).map_err(|error| error.to_string())?;
    build(&tree, &options, &shared).map(drop).map_err(|error| error.to_string())
}

#[test]
fn every_corefile_in_every_readme_and_page_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, text) in FILES {
        let name = Path::new(path).file_name().expect("a file");
        fs::write(folder.path().join(name), text).expect("a file");
    }
    for (path, text) in CERTIFICATE.into_iter().zip(certificate()) {
        let name = Path::new(path).file_name().expect("a file");
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let mut wrong = Vec::new();
    let (readmes, pages) = (readmes(), pages());
    for path in readmes.iter().chain(&pages) {
        let examples = examples(&fs::read_to_string(path).expect("a page"));
        if examples.is_empty() && readmes.contains(path) {
            wrong.push(format!("{}: no Corefile", path.display()));
        }
        for Example { line, text } in examples {
            if let Err(error) = check(&text, folder.path()) {
                wrong.push(format!("{} line {line}: {error}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_corefile_would_be_found() {
    let readme = "# x\n~~~ txt\nnot { this\n~~~\n~~~ corefile\n. {\n cahce\n}\n~~~\n";
    let [example] = examples(readme).try_into().ok().expect("one example");
    assert_eq!(example.line, 5);
    let error = check(&example.text, Path::new("/")).expect_err("`cahce` is no directive");
    assert!(error.contains("README:2:2: Unknown directive 'cahce'"), "{error}");
}
