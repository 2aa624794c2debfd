//! Catalogs that several directives have.

use super::*;

fn serves(service: &SecondaryService, origin: &str) -> bool {
    service.zones.load().get(name(origin).view()).is_some()
}

#[test]
fn every_directive_that_has_a_catalog_follows_it_and_each_zone_is_kept_once() {
    let configured = Scene::new().service.configured[..1].to_vec();
    let few = Configured { catalog: Some(vec![name("example.")]), ..configured[0].clone() };
    let services = [of(&configured), of(&[few])];
    let pointers = [("1.zones", "a.example."), ("2.zones", "c.")];
    let mut scene = Scene::of_several(&services);
    scene.apply("one.", &pointers);
    let shown = |services: &[SecondaryService; 2], origin| {
        services.each_ref().map(|own| serves(own, origin))
    };
    assert_eq!(shown(&services, "a.example."), [true, true]);
    assert_eq!(shown(&services, "c."), [true, false]);
    let kept =
        |scene: &Scene| scene.keeper.areas.iter().map(|area| area.zones.len()).sum::<usize>();
    assert_eq!((kept(&scene), configured[0].zone.members().len()), (3, 2));
    // The same after a reload, with data.
    configured[0].zone.replace(data("one.", &pointers), &[]);
    scene.fill("a.example.");
    drop(scene);
    let services = services.map(|service| of(&service.configured));
    let mut scene = Scene::of_several(&services);
    assert_eq!((shown(&services, "a.example."), kept(&scene)), ([true, true], 3));
    // Another label: the same new zone in both.
    scene.apply("one.", &[("9.zones", "a.example.")]);
    let zones = services
        .each_ref()
        .map(|own| own.zones.load().get(name("a.example.").view()).unwrap().clone());
    assert!(Arc::ptr_eq(&zones[0], &zones[1]) && zones[0].soa().is_none());
    assert_eq!(kept(&scene), 2);
    scene.apply("one.", &[]);
    assert_eq!((shown(&services, "a.example."), kept(&scene)), ([false, false], 1));
}

#[test]
fn a_member_that_is_given_to_a_catalog_is_the_zone_that_another_directive_has_of_it() {
    for (label, is_filled) in [("1", false), ("1", true), ("9", false), ("9", true)] {
        let configured = Scene::new().service.configured;
        let services = [of(&configured), of(&configured[..1])];
        let mut scene = Scene::of_several(&services);
        let own = format!("{label}.zones");
        scene.apply("two.", &[(&own, "a.example.")]);
        scene.fill("a.example.");
        // It clashes where the other catalog is.
        scene.apply("one.", &[("1.zones", "a.example.")]);
        let zones = |services: &[SecondaryService; 2]| {
            services
                .each_ref()
                .map(|own| own.zones.load().get(name("a.example.").view()).unwrap().clone())
        };
        let [_, theirs] = zones(&services);
        let theirs = theirs.as_secondary().unwrap();
        if is_filled {
            theirs.replace(data("a.example.", &[]), &[]);
        }
        let coo = format!("coo.{own}");
        scene.apply("two.", &[(&own, "a.example."), (&coo, "one.")]);
        let [given, now] = zones(&services);
        let is_one = std::ptr::eq(given.as_secondary().unwrap(), now.as_secondary().unwrap());
        // Under the same label it keeps what is here of it.
        let keeps = label == "1" && !is_filled;
        assert_eq!((is_one, given.soa().is_some()), (!keeps, keeps || is_filled), "{label}");
        assert!(std::ptr::eq(now.as_secondary().unwrap(), theirs));
        scene.apply("one.", &[]);
        scene.apply("two.", &[]);
        assert!(services.each_ref().iter().all(|own| !serves(own, "a.example.")));
    }
}
