//! The archive: one layer, its configuration, and the two indices that readers look for.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// A file of the image.
pub(super) enum Entry {
    /// A program that everyone may run.
    Program { path: String, program: Vec<u8> },
    /// A file that everyone may read.
    File { path: String, data: Vec<u8> },
    /// A symbolic link.
    Link { path: String, target: String },
}

pub(super) struct Image {
    /// `NAME:TAG` that readers give the image.
    pub(super) tag: String,
    /// `UID:GID`.
    pub(super) user: String,
    /// As Go names it: `amd64`, `arm64`.
    pub(super) architecture: &'static str,
    /// Arguments of the entry point when none are given.
    pub(super) command: Vec<String>,
    /// Whether the entry point may listen on port 53, and does not start where it may not.
    pub(super) has_capability: bool,
    /// The first one is the entry point.
    pub(super) entries: Vec<Entry>,
}

/// The extended attribute `security.capability`: version 2 with the effective bit, `CAP_NET_BIND_SERVICE` (10) permitted.
/// As in CoreDNS's image, it lets a user other than root listen on port 53 where the container runtime gives no
/// unprivileged ports, if the container's capabilities contain it. capabilities(7), `linux/capability.h`.
const NET_BIND_SERVICE: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The media types of the OCI image specification 1.1.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

impl Image {
    pub(super) fn archive(&self) -> Result<Vec<u8>> {
        let layer = self.layer()?;
        let config = self.config(&layer).to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &config),
            "layers": [descriptor(LAYER, &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let mut described = descriptor(MANIFEST, &manifest);
        let tag = self.tag.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        described["annotations"] =
            json!({"io.containerd.image.name": self.tag, "org.opencontainers.image.ref.name": tag});
        described["platform"] = json!({"architecture": self.architecture, "os": "linux"});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]});
        // What `docker save` writes, for readers from before the OCI layout.
        let saved = json!([{
            "Config": blob(&config), "RepoTags": [self.tag], "Layers": [blob(&layer)],
        }]);

        let mut archive = Builder::new(Vec::new());
        for data in [&layer, &config, &manifest] {
            append(&mut archive, &blob(data), 0o644, data)?;
        }
        append(&mut archive, "index.json", 0o644, index.to_string().as_bytes())?;
        append(&mut archive, "manifest.json", 0o644, saved.to_string().as_bytes())?;
        append(&mut archive, "oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(archive.into_inner()?)
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut layer = Builder::new(Vec::new());
        let mut runs = self.has_capability;
        for entry in &self.entries {
            match entry {
                Entry::Program { path, program } => {
                    // Only what the image runs: another program with it would not start where the
                    // container may not have it.
                    if std::mem::take(&mut runs) {
                        let name = "SCHILY.xattr.security.capability";
                        layer.append_pax_extensions([(name, &NET_BIND_SERVICE[..])])?;
                    }
                    append(&mut layer, path.trim_start_matches('/'), 0o755, program)?;
                }
                Entry::File { path, data } => {
                    append(&mut layer, path.trim_start_matches('/'), 0o644, data)?;
                }
                Entry::Link { path, target } => {
                    let mut header = header(0o777, 0);
                    header.set_entry_type(EntryType::Symlink);
                    layer.append_link(&mut header, path.trim_start_matches('/'), target)?;
                }
            }
        }
        Ok(layer.into_inner()?)
    }

    fn config(&self, layer: &[u8]) -> Value {
        let entry_point = self.entries.iter().find_map(|entry| match entry {
            Entry::Program { path, .. } => Some(path),
            Entry::File { .. } | Entry::Link { .. } => None,
        });
        json!({
            "architecture": self.architecture,
            "os": "linux",
            "config": {
                "Entrypoint": [entry_point],
                "Cmd": self.command,
                "User": self.user,
                "WorkingDir": "/",
                "ExposedPorts": {"53/udp": {}, "53/tcp": {}},
            },
            "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        })
    }
}

fn append(archive: &mut Builder<Vec<u8>>, path: &str, mode: u32, data: &[u8]) -> Result<()> {
    let mut header = header(mode, data.len() as u64);
    Ok(archive.append_data(&mut header, path, data)?)
}

/// Owned by root, from the first of January 1970: nothing in it tells when or where it was made.
fn header(mode: u32, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}

fn descriptor(media_type: &str, data: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(data), "size": data.len()})
}

fn digest(data: &[u8]) -> String {
    format!("sha256:{}", hex(data))
}

fn blob(data: &[u8]) -> String {
    format!("blobs/sha256/{}", hex(data))
}

fn hex(data: &[u8]) -> String {
    Sha256::digest(data).iter().fold(String::new(), |mut text, octet| {
        _ = write!(text, "{octet:02x}");
        text
    })
}
