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

/// Files that examples name, in whatever folder, and that must exist, with what stands in them.
const FILES: [(&str, &str); 9] = [
    ("resolv.conf", "search lab.example.org example.org\nnameserver 192.0.2.53\n"),
    ("weights", "www.example.org\n192.0.2.1 3\n192.0.2.2 1\n"),
    ("example.org.zone", "@ 60 SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.53\n"),
    ("db.com", "@ 60 SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.53\n"),
    ("db.example.com", "@ 60 SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.53\n"),
    (
        "Kexample.org.+013+31548.key",
        include_str!("../../nodens-zone/testdata/dnssec/Kexample.org.+013+31548.key"),
    ),
    (
        "Kexample.org.+013+31548.private",
        include_str!("../../nodens-zone/testdata/dnssec/Kexample.org.+013+31548.private"),
    ),
    (
        "Kcluster.local.+015+17213.key",
        "cluster.local. 3600 IN DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=\n",
    ),
    (
        "Kcluster.local.+015+17213.private",
        "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\nPrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n",
    ),
];

/// Certificates, keys and authorities, made anew in each run.
const PEM_FILES: [&str; 5] = ["cert.pem", "ca.pem", "nodens.pem", "key.pem", "nodens.key"];

/// Writes all of them into a folder.
fn write_files(folder: &Path) {
    let made = rcgen::generate_simple_self_signed(["dns.example.org".to_owned()]);
    let rcgen::CertifiedKey { cert, signing_key } = made.expect("a certificate");
    let (certificate, key) = (cert.pem(), signing_key.serialize_pem());
    let pem = |name: &str| if name.contains("key") { key.clone() } else { certificate.clone() };
    let texts = FILES.map(|(name, text)| (name, text.to_owned())).into_iter();
    for (name, text) in texts.chain(PEM_FILES.map(|name| (name, pem(name)))) {
        fs::write(folder.join(name), text).expect("a file");
    }
}

/// A Corefile whose files are those of `folder`, as far as it has them.
fn in_folder(corefile: &str, folder: &Path) -> String {
    let words = corefile.split_inclusive(char::is_whitespace).map(|word| {
        let Some(name) = Path::new(word.trim()).file_name() else { return word.to_owned() };
        let path = folder.join(name);
        // Keys are named without the endings of their files.
        let key = folder.join(format!("{}.key", name.display()));
        let known = path.is_file() || key.is_file();
        if known { word.replace(word.trim(), &path.to_string_lossy()) } else { word.to_owned() }
    });
    words.collect()
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
    let text = in_folder(text, folder);
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
    write_files(folder.path());
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
