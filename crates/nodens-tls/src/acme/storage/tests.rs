use super::*;

fn storage(root: &Path, ca: &str, email: Option<&str>) -> Storage {
    Storage::new(&AcmeOptions {
        domains: vec!["dns.example".to_owned()],
        email: email.map(str::to_owned),
        ca: ca.to_owned(),
        storage: root.to_owned(),
        ca_root: None,
        resolver: None,
    })
}

#[test]
fn the_layout_is_that_of_coredns() {
    let place = |ca: &str, domain: &str| {
        let (chain, key) = storage(Path::new("/s"), ca, None).certificate_files(domain);
        assert_eq!(chain.with_extension("key"), key);
        chain.display().to_string()
    };
    let lets_encrypt = "/s/certificates/acme-v02.api.letsencrypt.org-directory";
    assert_eq!(
        place(AcmeOptions::CA, "dns.example"),
        format!("{lets_encrypt}/dns.example/dns.example.crt")
    );
    assert_eq!(
        place(AcmeOptions::CA, "*.example"),
        format!("{lets_encrypt}/wildcard_.example/wildcard_.example.crt")
    );
    assert_eq!(
        place("https://CA.test:14000/a/b?c", "a"),
        "/s/certificates/ca.test-14000-a-b/a/a.crt"
    );
    assert_eq!(place("http://ca.test", "a"), "/s/certificates/ca.test/a/a.crt");
    let account = |email| storage(Path::new("/s"), "http://ca.test", email).account;
    assert_eq!(account(None), Path::new("/s/acme/ca.test/users/default/nodens.json"));
    let odd = account(Some("A+b/../../C@x.example"));
    assert_eq!(odd, Path::new("/s/acme/ca.test/users/a_plus_bc@x.example/nodens.json"));
}

#[test]
fn only_the_owner_may_read_what_is_kept_and_nothing_else_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("deep/storage");
    let storage = storage(&root, "https://ca.test/dir", None);
    assert!(storage.certificate("dns.example").unwrap().is_none());
    assert!(storage.account().unwrap().is_none());
    storage.check().unwrap();
    for round in [&b"1"[..], b"2"] {
        storage.save_account(round).unwrap();
        storage.save_certificate("dns.example", round, round).unwrap();
        assert_eq!(storage.account().unwrap().unwrap(), round);
        let kept = storage.certificate("dns.example").unwrap().unwrap();
        assert_eq!(kept, (round.to_vec(), round.to_vec()));
    }
    let mut folders = vec![root];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
    assert_eq!(files, 4, "certificate, key, what CoreDNS wants to know of them, account");
    assert!(storage.narrow().is_empty());
}

#[test]
fn keys_that_others_could_read_are_theirs_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path(), "https://ca.test/dir", None);
    storage.save_account(b"a").unwrap();
    storage.save_certificate("dns.example", b"c", b"k").unwrap();
    let (_, key) = storage.certificate_files("dns.example");
    for path in [&key, &storage.account] {
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
    assert_eq!(storage.narrow(), [key.clone(), storage.account.clone()]);
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(storage.narrow().is_empty());
}

#[test]
fn what_was_left_by_a_write_that_was_cut_off_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path(), "https://ca.test/dir", None);
    storage.save_account(b"old").unwrap();
    let left = storage.account.with_file_name(format!(".nodens.json.{}", std::process::id()));
    fs::write(&left, "ne").unwrap();
    assert_eq!(storage.account().unwrap().unwrap(), b"old");
    storage.save_account(b"new").unwrap();
    assert_eq!(storage.account().unwrap().unwrap(), b"new");
    assert!(!left.exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(storage(&file, "https://ca.test/dir", None).check().is_err());
}
