use super::*;
use crate::place::Place;
use crate::protocol::Target;
use std::os::unix::fs::PermissionsExt;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn restored(folder: &Path) -> Result<Vec<Leftover>, Error> {
    leftovers(folder, Earlier::Restore)
}

/// A sysctl that is only read here, with the value that it has.
fn saved() -> Line {
    let target = Target::Sysctl { path: "kernel.pid_max".to_owned() };
    let setting = Setting::find(&Place::Host, None, &target).unwrap().remove(0);
    let value = setting.read().unwrap();
    Line::Saved { setting, value }
}

#[test]
fn a_journal_that_is_in_use_is_left_alone_and_one_that_is_not_is_restored_and_removed() {
    let folder = folder();
    let mut journal = Journal::create(folder.path(), 7, 1).unwrap();
    journal.append(&saved()).unwrap();
    assert_eq!(restored(folder.path()).unwrap(), []);
    let path = journal.path().to_owned();
    assert!(path.exists());
    drop(journal);
    let left = restored(folder.path()).unwrap();
    let expected = Leftover {
        path,
        restored: 1,
        pending: 0,
        other_boot: false,
        damaged: 0,
        failed: Vec::new(),
    };
    assert_eq!(left, [expected]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(restored(folder.path()).unwrap(), []);
    assert_eq!(restored(&folder.path().join("none")).unwrap(), []);
}

#[test]
fn a_journal_of_a_process_with_the_same_numbers_is_left_alone() {
    let folder = folder();
    let mut first = Journal::create(folder.path(), 7, 1).unwrap();
    first.append(&saved()).unwrap();
    let text = fs::read_to_string(first.path()).unwrap();
    assert!(Journal::create(folder.path(), 7, 1).is_err(), "it has two owners");
    let second = Journal::create(folder.path(), 7, 2).unwrap();
    assert_eq!(fs::read_to_string(first.path()).unwrap(), text);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    // The first journal is still there, so the next run restores the settings that it lists.
    second.remove().unwrap();
    drop(first);
    let left = restored(folder.path()).unwrap();
    assert_eq!(left.iter().map(|left| left.restored).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_journal_that_is_cut_at_any_octet_is_read_as_far_as_it_goes() {
    let begin = encode(&Line::Begin { process: 7, boot: boot(), network: own_network() });
    let text = format!("{begin}{}{}", encode(&saved()), encode(&saved()));
    let mut most = 0;
    for end in 0..=text.len() {
        let contents = Contents::read(&text[..end]);
        assert_eq!((contents.damaged, contents.other_boot), (0, false), "{end}");
        let count = contents.undo.saved.len();
        assert!(count >= most && count <= 2);
        most = count;
    }
    assert_eq!(most, 2);
}

#[test]
fn damaged_lines_are_counted_and_the_others_count() {
    let text = format!(
        "{}{}",
        encode(&Line::Begin { process: 7, boot: boot(), network: own_network() }),
        encode(&saved())
    );
    for at in 0..text.len() {
        let mut octets = text.clone().into_bytes();
        octets[at] ^= 1;
        let contents = Contents::read(&String::from_utf8_lossy(&octets));
        let whole = contents.damaged == 0 && contents.undo.saved.len() == 1;
        assert!(!whole, "octet {at}");
    }
    let folder = folder();
    let path = folder.path().join("7-8.journal");
    fs::write(&path, format!("no checksum\n{text}")).unwrap();
    let left = restored(folder.path()).unwrap().remove(0);
    assert_eq!((left.restored, left.damaged), (1, 1));
    let kept = folder.path().join("7-8.damaged");
    assert!(!path.exists() && kept.exists() && left.path == kept);
    assert!(left.is_incomplete() && left.to_string().contains("1 lines are damaged"), "{left}");
    assert!(!Leftover { other_boot: true, ..left }.is_incomplete());
}

#[test]
fn nothing_is_written_that_was_saved_before_the_machine_was_started() {
    let folder = folder();
    let Line::Saved { setting, .. } = saved() else { return };
    let begin = Line::Begin { process: 7, boot: "another".to_owned(), network: own_network() };
    let wrong = Line::Saved { setting, value: "not a number".to_owned() };
    let text = format!("{}{}", encode(&begin), encode(&wrong));
    fs::write(folder.path().join("7-8.journal"), text).unwrap();
    let left = restored(folder.path()).unwrap().remove(0);
    assert_eq!((left.other_boot, left.restored, left.failed.len()), (true, 0, 0));
    assert!(left.to_string().contains("nothing was left to restore"));
}

#[test]
fn what_cannot_be_restored_is_said_and_its_journal_stays() {
    let folder = folder();
    let Line::Saved { setting, .. } = saved() else { return };
    let begin = Line::Begin { process: 7, boot: boot(), network: own_network() };
    let wrong = Line::Saved { setting, value: "not a number".to_owned() };
    let path = folder.path().join("7-8.journal");
    fs::write(&path, format!("{}{}", encode(&begin), encode(&wrong))).unwrap();
    let left = restored(folder.path()).unwrap().remove(0);
    assert!(left.to_string().contains("failed: /proc/sys/kernel/pid_max is "), "{left}");
    assert!(path.exists());
}

#[test]
fn settings_of_another_network_namespace_are_not_written_here() {
    let folder = folder();
    let begin = Line::Begin { process: 7, boot: boot(), network: own_network() + 1 };
    let path = folder.path().join("7-8.journal");
    fs::write(&path, format!("{}{}", encode(&begin), encode(&saved()))).unwrap();
    // Without the line that says where they are they are as strange.
    let without = folder.path().join("8-9.journal");
    fs::write(&without, encode(&saved())).unwrap();
    let left = restored(folder.path()).unwrap();
    assert_eq!(left.len(), 2);
    for left in left {
        assert_eq!(left.restored, 0);
        assert!(left.to_string().contains("another network namespace"), "{left}");
    }
    assert!(path.exists() && without.exists());
    // Nothing is left of those from before the machine was started.
    let begin = Line::Begin { process: 7, boot: "another".to_owned(), network: 1 };
    fs::write(&path, format!("{}{}", encode(&begin), encode(&saved()))).unwrap();
    fs::remove_file(&without).unwrap();
    assert!(restored(folder.path()).unwrap()[0].other_boot && !path.exists());
}

#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    let folder = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(restored(folder.path()).is_err());
    assert!(Journal::create(folder.path(), 7, 1).is_err());
}

#[test]
fn a_journal_removes_no_namespace_that_has_another_name() {
    let strange: Network = serde_json::from_str(r#"{"name":"web"}"#).unwrap();
    let mut undo = Undo::default();
    undo.take(Line::Network(strange));
    undo.take(Line::Network(Network::name()));
    assert_eq!(undo.networks.len(), 1);
}

#[test]
fn what_the_kernel_chooses_by_a_setting_is_restored_after_that_setting() {
    let find = |target| Setting::find(&Place::Host, Some("lo"), &target).unwrap().remove(0);
    let sysctl = || find(Target::Sysctl { path: "kernel.pid_max".to_owned() });
    for names in [[sysctl(), find(Target::Qdisc)], [find(Target::Qdisc), sysctl()]] {
        let saved = names.map(|setting| (setting, String::new())).into();
        let undo = Undo { saved, ..Undo::default() };
        let order: Vec<String> = undo.in_order().map(|(setting, _)| setting.to_string()).collect();
        assert_eq!(order, ["/proc/sys/kernel/pid_max", "the queueing discipline of lo"]);
    }
}

#[test]
fn what_is_only_told_is_neither_written_nor_removed() {
    let folder = folder();
    let Line::Saved { setting, .. } = saved() else { return };
    let begin = Line::Begin { process: 7, boot: boot(), network: own_network() };
    // It would fail if it were written.
    let wrong = Line::Saved { setting, value: "not a number".to_owned() };
    let path = folder.path().join("7-8.journal");
    let text = format!("no checksum\n{}{}", encode(&begin), encode(&wrong));
    fs::write(&path, &text).unwrap();
    let left = leftovers(folder.path(), Earlier::Report).unwrap().remove(0);
    assert_eq!((left.restored, left.pending, left.damaged), (0, 1, 1));
    assert_eq!(left.failed, [] as [String; 0]);
    assert!(left.to_string().contains("1 settings of an earlier run that was killed"), "{left}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}
