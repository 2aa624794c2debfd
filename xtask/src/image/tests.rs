use std::collections::BTreeMap;
use std::io::Read;

use super::*;

/// The smallest ELF64 header with one program header of the given type.
fn program(kind: u8) -> Vec<u8> {
    let mut file = vec![0; 64 + 56];
    file[..4].copy_from_slice(b"\x7fELF");
    file[32] = 64;
    file[54] = 56;
    file[56] = 1;
    file[64] = kind;
    file
}

fn image() -> Image {
    Image {
        tag: "localhost/nodens:1.2.3".to_owned(),
        user: CLUSTER.user.to_owned(),
        architecture: "amd64",
        command: Vec::new(),
        has_capability: true,
        entries: vec![
            Entry::Program { path: "/nodens".to_owned(), program: program(1) },
            Entry::File { path: AUTHORITIES.to_owned(), data: b"authorities".to_vec() },
            Entry::Link { path: "/coredns".to_owned(), target: "nodens".to_owned() },
        ],
    }
}

fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(archive);
    let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let mut data = Vec::new();
        entry.read_to_end(&mut data).unwrap();
        (entry.path().unwrap().display().to_string(), data)
    };
    archive.entries().unwrap().map(read).collect()
}

fn json(files: &BTreeMap<String, Vec<u8>>, name: &str) -> serde_json::Value {
    serde_json::from_slice(&files[name]).unwrap()
}

/// The path of the blob that a descriptor names.
fn named(descriptor: &serde_json::Value) -> String {
    descriptor["digest"].as_str().unwrap().replace("sha256:", "blobs/sha256/")
}

#[test]
fn both_indices_lead_to_the_same_layer_and_configuration() {
    let files = files(&image().archive().unwrap());
    let manifest = json(&files, &named(&json(&files, "index.json")["manifests"][0]));
    let saved = &json(&files, "manifest.json")[0];
    assert_eq!(saved["RepoTags"][0], "localhost/nodens:1.2.3");
    assert_eq!(saved["Config"], named(&manifest["config"]));
    assert_eq!(saved["Layers"][0], named(&manifest["layers"][0]));
    let config = json(&files, &named(&manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"][0], "/nodens");
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
}

#[test]
fn an_image_without_authorities_is_not_made() {
    let error = |path: &str| authorities(path).err().unwrap().to_string();
    assert!(error("/none/ca.crt").contains("install ca-certificates"));
    assert!(error(repo::root().join("Cargo.toml").to_str().unwrap()).contains("no certificates"));
}

#[test]
fn the_layer_has_the_program_with_its_capability_and_the_link() {
    let files = files(&image().archive().unwrap());
    let manifest = json(&files, &named(&json(&files, "index.json")["manifests"][0]));
    let layer = &files[&named(&manifest["layers"][0])];
    let mut archive = tar::Archive::new(&layer[..]);
    let mut entries = archive.entries().unwrap();
    let mut nodens = entries.next().unwrap().unwrap();
    assert_eq!(nodens.path().unwrap().to_str(), Some("nodens"));
    assert_eq!(nodens.header().mode().unwrap(), 0o755);
    let extension = nodens.pax_extensions().unwrap().unwrap().next().unwrap().unwrap();
    assert_eq!(extension.key(), Ok("SCHILY.xattr.security.capability"));
    assert_eq!(extension.value_bytes()[..8], [1, 0, 0, 2, 0, 4, 0, 0]);
    let authorities = entries.next().unwrap().unwrap();
    assert_eq!(authorities.path().unwrap().to_str(), Some("etc/ssl/certs/ca-certificates.crt"));
    assert_eq!((authorities.header().mode().unwrap(), authorities.size()), (0o644, 11));
    let coredns = entries.next().unwrap().unwrap();
    assert_eq!(coredns.link_name().unwrap().unwrap().to_str(), Some("nodens"));
    assert!(entries.next().is_none());
}

#[test]
fn a_program_without_the_capability_starts_where_all_are_dropped() {
    let files = files(&Image { has_capability: false, ..image() }.archive().unwrap());
    let manifest = json(&files, &named(&json(&files, "index.json")["manifests"][0]));
    let mut archive = tar::Archive::new(&files[&named(&manifest["layers"][0])][..]);
    let mut nodens = archive.entries().unwrap().next().unwrap().unwrap();
    assert!(nodens.pax_extensions().unwrap().is_none());
}

#[test]
fn the_same_inputs_give_the_same_octets() {
    assert_eq!(image().archive().unwrap(), image().archive().unwrap());
}

#[test]
fn a_program_that_needs_a_loader_is_refused() {
    assert!(is_static(&program(1)).is_ok());
    assert!(is_static(&program(3)).unwrap_err().to_string().contains("dynamically"));
    assert!(is_static(b"#!/bin/sh").unwrap_err().to_string().contains("no Linux program"));
}

#[test]
fn files_need_a_name_and_a_place() {
    let parsed = |line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse(&words).map(|options| options.files).map_err(|error| error.to_string())
    };
    let expected = vec![(PathBuf::from("a:b"), "/c".to_owned())];
    assert_eq!(parsed("--file a:b:/c --tag t --out o"), Ok(expected));
    assert!(parsed("--file a:/c --out o").unwrap_err().contains("--tag"));
    assert!(parsed("--file a").unwrap_err().contains("FILE:PATH"));
    assert!(parsed("--tag").unwrap_err().contains("needs a value"));
    assert!(parsed("--capability all").unwrap_err().contains("expected NET_BIND_SERVICE"));
    assert!(parsed("--capability none").unwrap_err().contains("--file"));
    assert!(parsed("--nonsense x").unwrap_err().contains("unknown option"));
}

#[test]
fn both_roles_have_all_names_of_the_program() {
    let folder = std::env::temp_dir().join(format!("nodens-image-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(folder.join("program"), program(1)).unwrap();
    std::fs::write(folder.join("nodens-top"), program(1)).unwrap();
    for (name, user) in [("cluster", "65532:65532"), ("node", "0:0")] {
        let arguments = ["--role", name, "--program", &path("program"), "--out", &path(name)]
            .map(str::to_owned);
        assert!(run(&arguments).unwrap());
        let files = files(&std::fs::read(path(name)).unwrap());
        let manifest = json(&files, &named(&json(&files, "index.json")["manifests"][0]));
        assert_eq!(json(&files, &named(&manifest["config"]))["config"]["User"], user);
        let layer = &files[&named(&manifest["layers"][0])];
        let mut layer = tar::Archive::new(&layer[..]);
        let names = layer.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let is_privileged = entry.pax_extensions().unwrap().is_some();
            (entry.path().unwrap().display().to_string(), is_privileged)
        });
        let wanted = [
            ("nodens", true),
            ("nodens-top", false),
            ("etc/ssl/certs/ca-certificates.crt", false),
            ("coredns", false),
            ("node-cache", false),
        ];
        let wanted = wanted.map(|(name, is_privileged)| (name.to_owned(), is_privileged));
        assert_eq!(names.collect::<Vec<_>>(), wanted);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(
        run(&["--role".to_owned(), "edge".to_owned()]).unwrap_err().to_string().contains("edge")
    );
}
