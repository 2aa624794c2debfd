//! Which catalog has a member after a restart.

use super::*;

#[test]
fn a_member_does_not_change_hands_by_a_restart() {
    let listed = [("1.zones", "a.example.")];
    for (is_kept, primary) in [(true, "127.0.0.1:2"), (false, "127.0.0.1:1")] {
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let [one, two, far] = folders.each_ref().map(|folder| folder.path());
        let save = |folder: &Path, origin: &str, pointers: &[(&str, &str)]| {
            let zone = SecondaryZone::new(name(origin), Vec::new());
            let mut store = crate::secondary::store::Store::new(folder, &zone);
            store.save(&data(origin, pointers), &[]).unwrap();
        };
        save(one, "one.", &listed);
        save(two, "two.", &listed);
        if is_kept {
            save(two, "a.example.", &[]);
        }
        let mut scene = Scene::of(of(&stored_in([one, two, far])));
        assert_eq!(scene.zone("a.example.").primaries(), [primary.parse().unwrap()]);
        assert_eq!(scene.has_data("a.example."), is_kept);
        let refused =
            |scene: &Scene, number: usize| scene.service.configured[number].zone.refused().clashing;
        assert_eq!(
            [0, 1].map(|number| refused(&scene, number)),
            [is_kept, !is_kept].map(usize::from)
        );
        // The other has it as soon as it may.
        scene.apply(if is_kept { "two." } else { "one." }, &[]);
        let other = if is_kept { "127.0.0.1:1" } else { "127.0.0.1:2" };
        assert_eq!(scene.zone("a.example.").primaries(), [other.parse().unwrap()]);
    }
}
