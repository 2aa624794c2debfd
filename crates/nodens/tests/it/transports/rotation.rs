//! Certificates that are replaced under load.

use super::load::Load;
use super::{ANSWERS, Authority, Ours, PATIENT};
use crate::fixture::eventually;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::time::{Duration, Instant};

/// Longer than the time between two looks at the files.
const RUN: Duration = Duration::from_secs(11);

#[test]
fn certificates_that_change_cost_no_query() {
    let authority = Authority::new();
    let ours = Ours::start_by("rotation", &authority, &format!("{PATIENT}\n {ANSWERS}"), &[]);
    let folder = ours.server.folder.0.clone();
    let load = Load::start(ours.ports, &authority);
    load.goes_on();
    let began = Instant::now();
    let mut reloads = 0;
    while began.elapsed() < RUN {
        let signed = authority.sign();
        match reloads % 4 {
            // Whole ones, as a renewal puts them there.
            0 | 2 => signed.write(&folder),
            // A certificate that is written half, over the one that is there.
            1 => {
                let half = signed.certificate.len() / 2;
                std::fs::write(folder.join("cert.pem"), &signed.certificate[..half]).unwrap();
            }
            // The key of another certificate.
            _ => std::fs::write(folder.join("key.pem"), &signed.key).unwrap(),
        }
        // They are read at once, beside every ten seconds.
        ours.server.signal("-USR1");
        reloads += 1;
        ours.server.wait_for(if reloads % 2 == 1 {
            "Reloading complete"
        } else {
            "Restart failed"
        });
        load.goes_on();
    }
    assert!(reloads > 8, "{reloads}");
    // Without a reload the next look at the files finds the last one.
    let last = authority.sign();
    last.write(&folder);
    let wanted = CertificateDer::from_pem_slice(last.certificate.as_bytes()).unwrap();
    eventually("the last certificate", || {
        std::thread::sleep(Duration::from_millis(200));
        load.certificates().iter().all(|found| *found == wanted)
    });
    load.goes_on();
    let outcome = load.stop();
    assert!(outcome.answered > 1000, "{} answers", outcome.answered);
    assert_eq!((outcome.closed, outcome.turned_away), (0, 0), "{:?}", outcome.unanswered);
    ours.end();
}
