use super::*;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::fs;
use std::path::Path;

/// Writes a certificate for `name` and its key to `folder`.
fn write(folder: &Path, name: &str) -> ServerFiles {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([name.to_owned()]).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&certificate, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    let (authorities, client_auth, key_log) = (None, ClientAuth::None, None);
    ServerFiles { certificate, key, authorities, client_auth, key_log }
}

#[test]
fn changed_files_are_taken_up_and_damaged_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let files = write(folder.path(), "a.example");
    let server = Server::load(files.clone()).unwrap();
    let first = server.config(Protocol::Dot).unwrap();
    assert!(!server.reload().unwrap());
    write(folder.path(), "b.example");
    assert!(server.reload().unwrap());
    let second = server.config(Protocol::Dot).unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert!(Arc::ptr_eq(&first.ticketer, &second.ticketer), "sessions could not be resumed");
    fs::write(&files.certificate, "nothing").unwrap();
    let error = server.reload().unwrap_err().to_string();
    assert!(error.ends_with("cert.pem: expected certificates in PEM format"), "{error}");
    assert!(Arc::ptr_eq(&second, &server.config(Protocol::Dot).unwrap()));
}

#[test]
fn what_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = write(folder.path(), "a.example");
    let other = tempfile::tempdir().unwrap();
    let stranger = write(other.path(), "a.example");
    let load = |change: &dyn Fn(&mut ServerFiles)| {
        let mut files = good.clone();
        change(&mut files);
        Server::load(files).unwrap_err().to_string()
    };
    let none = folder.path().join("none");
    let error = load(&|files| files.key.clone_from(&none));
    assert!(
        error.starts_with("could not read ") && error.contains("none: No such file"),
        "{error}"
    );
    let error = load(&|files| files.key.clone_from(&good.certificate));
    assert!(error.ends_with("cert.pem: expected a private key in PEM format"), "{error}");
    let error = load(&|files| files.key.clone_from(&stranger.key));
    assert!(error.contains("cert.pem: "), "{error}");
    let error = load(&|files| files.key_log = Some(folder.path().to_owned()));
    assert!(error.starts_with("unable to write TLS Key Log to "), "{error}");
    let error = load(&|files| {
        files.client_auth = ClientAuth::RequireAndVerify;
        files.authorities = Some(files.key.clone());
    });
    assert!(error.ends_with("key.pem: expected certificates in PEM format"), "{error}");
}
