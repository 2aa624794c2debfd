//! Who may take over from whom.

use nodens_net::{HandedConnection, ListenerAddress};
use nodens_node::handover::{Error, Folder, HandoverState, Holder, Name, Named, Offer, Takeover};
use rustix::process::Uid;
use rustix::thread::set_thread_uid;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const NOBODY: u32 = 65_534;

/// Tells why there was no hand-over, and must not be asked for anything else.
struct Owner(Sender<String>);

impl Holder for Owner {
    fn state(&mut self) -> Result<HandoverState, String> {
        _ = self.0.send("asked".to_owned());
        Err("nothing".to_owned())
    }

    fn answers(&mut self, _: &mut dyn FnMut(&[u8]) -> bool) {}

    fn called_off(&self) -> Arc<AtomicBool> {
        Arc::default()
    }

    fn pause(&mut self) -> Result<Named, String> {
        Err("never".to_owned())
    }

    fn retire(&mut self) -> Duration {
        Duration::ZERO
    }

    fn is_hurried(&self) -> bool {
        false
    }

    fn resume(&mut self, why: &Error) {
        _ = self.0.send(why.to_string());
    }

    fn refused(&mut self, why: &Error) {
        _ = self.0.send(why.to_string());
    }

    fn leave(&mut self, _: Vec<ListenerAddress>, _: Sender<HandedConnection>) {}

    fn has_left(&mut self) -> bool {
        false
    }
}

#[test]
fn a_process_of_another_user_is_given_nothing_and_takes_nothing() {
    let files = tempfile::tempdir().unwrap();
    // Somebody who has come by the folder and its secret is not believed either.
    let folder = Folder::open(&files.path().join("shared"), true).unwrap();
    let mut offer = Offer::new(Some(Name::take(&folder, "name").unwrap())).unwrap();
    let (told, tells) = channel();
    // For as long as the process lives.
    std::thread::spawn(move || offer.serve(&mut Owner(told), "test").map(drop));
    let claim = move || Takeover::claim(&folder, "name", "test");
    let as_stranger = || {
        let claim = claim.clone();
        let stranger = std::thread::spawn(move || {
            // Of this thread alone.
            set_thread_uid(Uid::from_raw(NOBODY)).expect("another user (are you root?)");
            claim().map(|_| ()).unwrap_err().to_string()
        });
        stranger.join().unwrap()
    };
    assert!(as_stranger().starts_with("Permission denied"), "the kernel is the first to refuse");
    let all = std::fs::Permissions::from_mode(0o777);
    let shared = files.path().join("shared");
    for file in std::fs::read_dir(&shared).unwrap() {
        std::fs::set_permissions(file.unwrap().path(), all.clone()).unwrap();
    }
    std::fs::set_permissions(&shared, all).unwrap();
    // Neither of them believes the other.
    assert_eq!(as_stranger(), "the other process belongs to the user with ID 0");
    let why = format!("the other process belongs to the user with ID {NOBODY}");
    assert_eq!(tells.recv_timeout(PATIENCE).unwrap(), why);
    // The same user is asked what it wants.
    assert!(matches!(claim(), Err(Error::Refused(why)) if why == "nothing"));
    assert_eq!(tells.recv_timeout(PATIENCE).unwrap(), "asked");
}
