use super::*;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Deserialize)]
struct Case {
    name: String,
    chain: String,
    bundle: String,
    /// Of Go's client, by the name that the server is asked for by.
    verdicts: BTreeMap<String, String>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../tests/fixtures/certificates/cases.json")).unwrap()
}

/// 2027-01-01.
fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(1_798_761_600))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn ask(verifier: &dyn ServerCertVerifier, case: &Case, name: &str) -> Result<(), Error> {
    let sent: Vec<_> = CertificateDer::pem_slice_iter(case.chain.as_bytes()).flatten().collect();
    let (leaf, rest) = sent.split_first().unwrap();
    let name = ServerName::try_from(name).unwrap();
    verifier.verify_server_cert(leaf, rest, &name, &[], now()).map(|_| ())
}

#[test]
fn servers_are_believed_that_go_believes_and_no_others() {
    let mut different = Vec::new();
    for case in cases() {
        let trust = Trust::Given(Authorities::in_text(case.bundle.as_bytes()), None);
        let verifier = Verifier::new(trust, provider()).unwrap();
        for (name, verdict) in &case.verdicts {
            let ours = ask(&verifier, &case, name);
            if ours.is_ok() != (verdict == "yes") {
                different.push(format!("{} as {name}: Go: {verdict}, here: {ours:?}", case.name));
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

/// What is behind `webpki` is there for a reason: without it these are refused.
#[test]
fn webpki_alone_refuses_servers_that_go_believes() {
    let refused = cases().into_iter().filter(|case| {
        let known = Authorities::new(Authorities::in_text(case.bundle.as_bytes()), &provider());
        let mut believed = case.verdicts.iter().filter(|(_, verdict)| *verdict == "yes");
        believed.any(|(name, _)| {
            known.webpki().is_none_or(|webpki| ask(&**webpki, case, name).is_err())
        })
    });
    let names: Vec<_> = refused.map(|case| case.name).collect();
    for name in ["self-signed-authority", "leaf-is-authority", "self-signed-for-all"] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
}

#[test]
fn a_refusal_says_what_an_operator_can_act_on() {
    let said = |wanted: &str, name: &str| {
        let case = cases().into_iter().find(|case| case.name == wanted).unwrap();
        let trust = Trust::Given(Authorities::in_text(case.bundle.as_bytes()), None);
        let verifier = Verifier::new(trust, provider()).unwrap();
        ask(&verifier, &case, name).unwrap_err().to_string()
    };
    assert!(said("self-signed-authority", "10.96.0.2").contains("not valid for name"));
    assert!(said("self-signed-expired", "10.96.0.1").contains("expired"));
    assert!(said("intermediate-missing", "10.96.0.1").contains("UnknownIssuer"));
    assert!(said("leaf-is-authority-of-another-root", "10.96.0.1").contains("BadSignature"));
}

#[test]
fn authorities_that_are_replaced_in_place_are_read_for_the_next_connection() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    let all = cases();
    let of = |name: &str| all.iter().find(|case| case.name == name).unwrap();
    let (k3s, kops) = (of("k3s"), of("kops"));
    std::fs::write(&file, &kops.bundle).unwrap();
    let given = Authorities::in_text(kops.bundle.as_bytes());
    let verifier = Verifier::new(Trust::Given(given, Some(file.clone())), provider()).unwrap();
    assert!(ask(&verifier, kops, "kubernetes").is_ok());
    assert!(ask(&verifier, k3s, "kubernetes").is_err());
    std::fs::write(&file, &k3s.bundle).unwrap();
    assert!(ask(&verifier, k3s, "kubernetes").is_ok());
    // Half a file is none.
    std::fs::write(&file, "-----BEGIN CERTIFICATE-----\nMIIB").unwrap();
    assert!(ask(&verifier, k3s, "kubernetes").is_ok());
    assert!(ask(&verifier, kops, "kubernetes").is_err());
}
