//! Every Corefile of every directive's README starts a real server.
//!
//! Each runs in namespaces of its own, so that it may use any port; its interfaces and addresses,
//! the files it names, the upstreams' hosts and what a pod finds of its cluster are made up there.

use crate::fixture::{Folder, need, nodens};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Corefiles of a README: what stands between `~~~ corefile` and the next fence.
fn corefiles(readme: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut current: Option<String> = None;
    for line in readme.lines() {
        let fence = line.trim_start();
        match &mut current {
            None if fence == "~~~ corefile" || fence == "``` corefile" => {
                current = Some(String::new());
            }
            None => {}
            Some(_) if fence.starts_with("~~~") || fence.starts_with("```") => {
                found.extend(current.take());
            }
            Some(text) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    found
}

/// Starts `corefile` and ends it as soon as it says that it runs.
fn start(folder: &Folder, corefile: &str) -> Result<(), String> {
    let conf = folder.write("Corefile", corefile);
    let script = "
ip link set lo up
ip link add eth0 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up
ip addr add 10.0.0.1/8 dev eth0; ip addr add 192.0.2.1/24 dev eth0
ip -6 addr add 2001:db8::1/64 dev eth0 nodad
sysctl -q -w net.ipv4.ip_nonlocal_bind=1 net.ipv6.ip_nonlocal_bind=1
# What the kubelet puts into a pod; nobody answers at the address.
mount -t tmpfs none /run && [ /var/run -ef /run ] || mount --bind /run /var/run
mkdir -p /run/secrets/kubernetes.io/serviceaccount && cd /run/secrets/kubernetes.io/serviceaccount
cp \"$1/ca.pem\" ca.crt; echo token >token; echo default >namespace
export KUBERNETES_SERVICE_HOST=192.0.2.99 KUBERNETES_SERVICE_PORT=6443
cd \"$1\"
exec \"$2\" -conf \"$3\" >out 2>err
";
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-c", script, "sh"]);
    let mut child = command.arg(&folder.0).arg(nodens().get_program()).arg(&conf).spawn().unwrap();
    let out = folder.0.join("out");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let until = std::time::Instant::now() + crate::fixture::PATIENCE;
    loop {
        let runs = read(&out).contains("Nodens-");
        let ended = child.try_wait().unwrap();
        if runs || ended.is_some() || std::time::Instant::now() > until {
            // `exec` made the server this very child.
            _ = child.kill();
            _ = child.wait();
            _ = std::fs::remove_file(&out);
            return if runs { Ok(()) } else { Err(read(&folder.0.join("err"))) };
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn every_corefile_of_a_readme_starts_a_server() {
    need("unshare", "util-linux");
    let handlers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nodens-core/src/handlers");
    let mut examples = Vec::new();
    for entry in std::fs::read_dir(handlers).unwrap() {
        let readme = entry.unwrap().path().join("README.md");
        let Ok(text) = std::fs::read_to_string(&readme) else { continue };
        examples.extend(corefiles(&text).into_iter().map(|corefile| (readme.clone(), corefile)));
    }
    // Where a cluster is named, the server waits for it for a while: those wait together.
    let (clusters, others): (Vec<_>, Vec<_>) =
        examples.iter().partition(|(_, corefile)| corefile.contains("kubernetes"));
    let files = Files::new();
    let try_one = |(readme, corefile): &(PathBuf, String)| {
        let folder = files.folder();
        let error = start(&folder, &in_folder(&folder, corefile)).err()?;
        Some(format!("{}:\n{corefile}\n{error}", readme.display()))
    };
    let mut faults: Vec<_> = others.into_iter().filter_map(try_one).collect();
    std::thread::scope(|scope| {
        let trials: Vec<_> =
            clusters.into_iter().map(|example| scope.spawn(|| try_one(example))).collect();
        faults.extend(trials.into_iter().filter_map(|trial| trial.join().unwrap()));
    });
    let started = examples.len();
    assert!(faults.is_empty(), "{} of {started}:\n{}", faults.len(), faults.join("\n"));
    assert!(started >= 30, "only {started} Corefiles found");
}

/// Files that examples name, by their last component.
const FILES: &[(&str, &str)] = &[
    ("weights", "www.example.org\n192.0.2.1 3\n192.0.2.2 1\n"),
    ("hosts", "192.0.2.1 a.example.org\n"),
    ("example.hosts", "192.0.2.1 a.example.org\n"),
    ("example.org.zone", "@ 60 SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.53\n"),
    ("resolv.conf", "nameserver 192.0.2.53\nsearch example.org\n"),
    (
        "Kexample.org.+013+31548.key",
        include_str!("../../../nodens-zone/testdata/dnssec/Kexample.org.+013+31548.key"),
    ),
    (
        "Kexample.org.+013+31548.private",
        include_str!("../../../nodens-zone/testdata/dnssec/Kexample.org.+013+31548.private"),
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

/// The same of a certificate, its key and its authority.
const PEM_FILES: [&str; 3] = ["cert.pem", "key.pem", "ca.pem"];

/// Makes folders with what examples name.
struct Files {
    certificate: String,
    key: String,
    folders: AtomicUsize,
}

impl Files {
    fn new() -> Self {
        let names = vec!["api.example.org".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        Self { certificate, key, folders: AtomicUsize::new(0) }
    }

    fn folder(&self) -> Folder {
        let folder =
            Folder::new(&format!("readmes-{}", self.folders.fetch_add(1, Ordering::Relaxed)));
        for (name, text) in FILES {
            folder.write(name, text);
        }
        for name in PEM_FILES {
            folder.write(name, if name == "key.pem" { &self.key } else { &self.certificate });
        }
        folder
    }
}

/// The name of a key by its public file.
fn stem_of_key(file: &str) -> Option<&OsStr> {
    file.strip_suffix(".key").map(OsStr::new)
}

/// Absolute paths of the example files are moved into the folder.
fn in_folder(folder: &Folder, corefile: &str) -> String {
    let words = corefile.split_inclusive(char::is_whitespace).map(|word| {
        let file = Path::new(word.trim());
        let mut names = FILES.iter().map(|(name, _)| *name).chain(PEM_FILES);
        // Keys are named without the endings of their files.
        let known = file
            .file_name()
            .is_some_and(|name| names.any(|it| name == it || Some(name) == stem_of_key(it)));
        if file.is_absolute() && known && !file.exists() {
            let name = file.file_name().unwrap_or_default();
            word.replace(word.trim(), &folder.0.join(name).to_string_lossy())
        } else {
            word.to_owned()
        }
    });
    words.collect()
}
