//! `cargo xtask image`: the container image, without a container engine.
//!
//! Static programs, so one layer with the server, the program that draws `nodens top`, the authorities for certificates,
//! and nothing else. The archive is an OCI image layout that also carries the index of `docker save`: `docker load`, `podman load`, `ctr images import` and `skopeo` all read it. The
//! same inputs give the same octets.

mod archive;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::repo;
use archive::{Entry, Image};

const HELP: &str = "\
cargo xtask image [--role cluster|node] [--tag NAME:TAG] [--out FILE] [--profile NAME | --program FILE]
    builds Nodens as static programs, or takes FILE and a nodens-top beside it, and writes its image: for the role
    cluster (the default) target/nodens-image.tar, for the role node, which runs as root, target/nodens-node-image.tar
cargo xtask image --file FILE:PATH… [--link PATH=TARGET]… [--command WORD]… [--user UID:GID]
                  [--capability NET_BIND_SERVICE|none] --tag NAME:TAG --out FILE
    writes an image of static programs that are there; the first one is what the image runs, and has the capability:
    it listens on port 53 (the default), or starts also in containers that drop all capabilities (none)
";

/// What an image is for. The files are the same: what differs is who runs them when a manifest does not say.
struct Role {
    name: &'static str,
    image: &'static str,
    /// `UID:GID`.
    user: &'static str,
}

/// `nobody` of distroless images, whom CoreDNS's image runs as too; a number, so that `runAsNonRoot` can be checked.
const CLUSTER: Role = Role { name: "cluster", image: "nodens", user: "65532:65532" };

/// As in node-cache's image: only root gets what its manifest adds, CAP_NET_ADMIN, without a word in the manifest.
const NODE: Role = Role { name: "node", image: "nodens-node", user: "0:0" };

/// Names under which manifests of CoreDNS and of node-cache start their program.
const LINKS: [&str; 2] = ["/coredns", "/node-cache"];

/// The authorities of servers' certificates, where `ca-certificates` of most distributions has them and where
/// programs look for them.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

#[derive(Default)]
struct Options {
    tag: Option<String>,
    out: Option<PathBuf>,
    profile: Option<String>,
    program: Option<PathBuf>,
    command: Vec<String>,
    user: Option<String>,
    role: Option<String>,
    has_no_capability: bool,
    files: Vec<(PathBuf, String)>,
    links: Vec<(String, String)>,
}

pub(crate) fn run(args: &[String]) -> Result<bool> {
    if args.iter().any(|arg| arg == "--help") {
        print!("{HELP}");
        return Ok(true);
    }
    let mut options = parse(args)?;
    let role = role(options.role.as_deref())?;
    let is_server = options.files.is_empty();
    if is_server {
        let program = match options.program {
            Some(program) => program,
            None => build(options.profile.as_deref().unwrap_or("release"))?,
        };
        let screen = program.with_file_name("nodens-top");
        options.files.push((program, "/nodens".to_owned()));
        match std::fs::read(&screen).map_err(anyhow::Error::from).and_then(|file| is_static(&file))
        {
            Ok(()) => options.files.push((screen, "/nodens-top".to_owned())),
            Err(error) => println!(
                "without {} ({error}): in this image `nodens top` needs -json",
                screen.display()
            ),
        }
        let links = LINKS.map(|path| (path.to_owned(), "nodens".to_owned()));
        options.links.extend(links);
    }
    let version = env!("CARGO_PKG_VERSION");
    let tag = options.tag.unwrap_or_else(|| format!("localhost/{}:{version}", role.image));
    let usual = || repo::root().join(format!("target/{}-image.tar", role.image));
    let out = options.out.unwrap_or_else(usual);
    let mut entries = Vec::new();
    for (file, path) in &options.files {
        let program =
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        is_static(&program).with_context(|| format!("{}", file.display()))?;
        entries.push(Entry::Program { path: path.clone(), program });
    }
    if is_server {
        entries.push(authorities(AUTHORITIES)?);
    }
    entries.extend(options.links.into_iter().map(|(path, target)| Entry::Link { path, target }));
    let image = Image {
        tag: tag.clone(),
        user: options.user.unwrap_or_else(|| role.user.to_owned()),
        architecture: architecture()?.0,
        command: options.command,
        has_capability: !options.has_no_capability,
        entries,
    };
    let archive = image.archive()?;
    if let Some(parent) = out.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(&out, &archive).with_context(|| format!("cannot write {}", out.display()))?;
    println!("{tag}: {} ({:.1} MB)", out.display(), archive.len() as f64 / 1e6);
    Ok(true)
}

/// The authorities of this machine: without them no server's certificate is believed, unless the Corefile names
/// some.
fn authorities(path: &str) -> Result<Entry> {
    let data = std::fs::read(path)
        .with_context(|| format!("cannot read {path}: install ca-certificates on this machine"))?;
    let begin = b"-----BEGIN CERTIFICATE-----";
    ensure!(data.windows(begin.len()).any(|part| part == begin), "{path} has no certificates");
    Ok(Entry::File { path: AUTHORITIES.to_owned(), data })
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value\n{HELP}"))?.clone();
        match flag.as_str() {
            "--tag" => options.tag = Some(value),
            "--out" => options.out = Some(value.into()),
            "--profile" => options.profile = Some(value),
            "--program" => options.program = Some(value.into()),
            "--command" => options.command.push(value),
            "--user" => options.user = Some(value),
            "--role" => options.role = Some(value),
            "--capability" => {
                ensure!(
                    ["NET_BIND_SERVICE", "none"].contains(&value.as_str()),
                    "--capability {value}: expected NET_BIND_SERVICE or none"
                );
                options.has_no_capability = value == "none";
            }
            "--file" => {
                let (file, path) = value.rsplit_once(':').context("--file needs FILE:PATH")?;
                options.files.push((file.into(), path.to_owned()));
            }
            "--link" => {
                let (path, target) = value.split_once('=').context("--link needs PATH=TARGET")?;
                options.links.push((path.to_owned(), target.to_owned()));
            }
            _ => bail!("unknown option {flag}\n{HELP}"),
        }
    }
    let given = !options.files.is_empty();
    ensure!(
        !given || (options.tag.is_some() && options.out.is_some()),
        "--file needs --tag and --out"
    );
    ensure!(given || !options.has_no_capability, "--capability none is for images of --file");
    Ok(options)
}

fn role(name: Option<&str>) -> Result<&'static Role> {
    match name {
        None => Ok(&CLUSTER),
        Some(name) if name == CLUSTER.name => Ok(&CLUSTER),
        Some(name) if name == NODE.name => Ok(&NODE),
        Some(name) => bail!("no role {name}: expected {} or {}", CLUSTER.name, NODE.name),
    }
}

/// This machine's architecture as images and as Rust's targets name it.
fn architecture() -> Result<(&'static str, &'static str)> {
    match std::env::consts::ARCH {
        "x86_64" => Ok(("amd64", "x86_64-unknown-linux-gnu")),
        "aarch64" => Ok(("arm64", "aarch64-unknown-linux-gnu")),
        other => bail!("no image for the architecture {other}"),
    }
}

/// Builds the server with the C library inside. glibc rather than musl: its allocator serves threads without a common
/// lock, and `deploy/README.md` has the figures.
fn build(profile: &str) -> Result<PathBuf> {
    let (_, target) = architecture()?;
    repo::run(
        repo::cargo()
            .current_dir(repo::root())
            .args(["build", "--quiet", "--package", "nodens", "--package", "nodens-top"])
            .args(["--profile", profile])
            .args(["--target", target])
            .env("RUSTFLAGS", "-C target-feature=+crt-static"),
    )?;
    let kind = if profile == "dev" { "debug" } else { profile };
    Ok(repo::target().join(target).join(kind).join("nodens"))
}

/// An image has no loader and no libraries: a program that wants them would not start, with a misleading error.
fn is_static(program: &[u8]) -> Result<()> {
    ensure!(program.starts_with(b"\x7fELF"), "is no Linux program");
    let word = |at: usize| -> Option<usize> {
        Some(u64::from_le_bytes(program.get(at..at + 8)?.try_into().ok()?) as usize)
    };
    let half = |at: usize| -> Option<usize> {
        Some(u16::from_le_bytes(program.get(at..at + 2)?.try_into().ok()?) as usize)
    };
    // ELF64: e_phoff at 32, e_phentsize at 54, e_phnum at 56; a program header of type PT_INTERP (3) names the loader.
    let headers = || Some((word(32)?, half(54)?, half(56)?));
    let (first, size, count) = headers().context("is cut short")?;
    let interpreter = (0..count).any(|n| program.get(first + n * size) == Some(&3));
    ensure!(!interpreter, "is linked dynamically; an image of this kind has no libraries");
    Ok(())
}

#[cfg(test)]
mod tests;
