use super::super::secret::Claim;
use super::*;

const NAME: &str = "test/name";

#[test]
fn a_folder_that_others_use_too_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let files = tempfile::tempdir().unwrap();
    let path = files.path();
    let mode = |mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let mode_now = || std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    mode(0o755);
    std::fs::create_dir(path.join("systemd")).unwrap();
    let error = Folder::open(path, true).unwrap_err().to_string();
    assert!(error.contains("mode 755") && error.contains("(systemd)"), "{error}");
    assert_eq!(mode_now(), 0o755);
    assert!(!path.join("secret").exists());
    // Who has made it private has said that it may be used.
    mode(0o700);
    let folder = Folder::open(path, true).unwrap();
    std::fs::remove_dir(path.join("systemd")).unwrap();
    // What is left of other processes is no reason to leave it open to everybody.
    let name = Name::take(&folder, NAME).unwrap();
    let _listener = name.listen().unwrap();
    std::fs::write(path.join("secret.1234"), "").unwrap();
    std::fs::create_dir(path.join("lost+found")).unwrap();
    mode(0o755);
    Folder::open(path, true).unwrap();
    assert_eq!(mode_now(), 0o700);
}

#[test]
fn a_folder_that_others_could_have_written_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("shared");
    let missing = Folder::open(&path, false).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir(&path).unwrap();
    mode(&path, 0o777);
    assert!(Folder::open(&path, true).unwrap_err().to_string().contains("mode 777"));
    // As the kubelet makes it.
    mode(&path, 0o755);
    let folder = Folder::open(&path, true).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let again = Folder::open(&path, false).unwrap();
    let (nonces, claim) = ([[1; 32], [2; 32]], Claim::Successor);
    let proof = folder.secret.prove(claim, &nonces);
    assert!(again.secret.accepts(claim, &nonces, &proof), "the secret stays");
    assert!(!again.secret.accepts(Claim::Busy, &nonces, &proof));
    let secret = path.join("secret");
    assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    mode(&secret, 0o644);
    assert!(Folder::open(&path, false).unwrap_err().to_string().contains("mode 644"));
    mode(&secret, 0o600);
    std::fs::write(&secret, "short").unwrap();
    assert!(Folder::open(&path, false).unwrap_err().to_string().contains("damaged"));
    std::fs::remove_file(&secret).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &secret).unwrap();
    assert!(Folder::open(&path, false).is_err());
    let link = files.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(Folder::open(&link, true).is_err());
}
