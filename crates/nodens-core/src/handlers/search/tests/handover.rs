//! What a predecessor leaves in the cache.

use super::*;

/// A successor with the answers of `before`, which has not heard of the cluster yet.
fn successor(before: &Pair) -> Pair {
    let corefile = written("", "cache 30");
    let mut after = Pair::unaware(&corefile, &BuildOptions::default(), "");
    let gone = before.node.now.mono_ns.saturating_sub(after.node.now.mono_ns);
    after.pass(Duration::from_nanos(gone));
    let (old, new) = (&before.node, &after.node);
    let mut taken = 0;
    old.shared.cache.export(old.now, |packed| {
        taken += usize::from(new.shared.cache.import(packed, new.now));
        true
    });
    assert!(taken > 0);
    after
}

#[test]
fn a_service_created_just_before_a_handover_resolves_after_it() {
    let names = ["new.shop.svc", "new-0.new.shop.svc"];
    let more = "
        headless shop/new
        slice shop/new/1 :tcp:80 -- 10.1.0.7=new-0";
    let mut before = Pair::new("", "cache 30", "");
    for name in names {
        assert_eq!(before.rcode(&format!("{name}.cluster.local A")).0, NO);
    }
    assert_eq!(before.rcode("web.shop.svc.cluster.local A"), (YES, 1));
    before.pass(Duration::from_secs(1));
    let mut after = successor(&before);
    let objects = format!("{CLUSTER}{more}");
    // Its first list has the service, and says nothing of its age.
    after.publish(&objects);
    for name in names {
        assert_eq!(after.rcode(&format!("{name}.cluster.local A")), (YES, 1), "{name}");
        assert_eq!(after.rcode(&format!("{name}.cluster.local A")), (YES, 0), "{name}");
    }
    // All else is there.
    assert_eq!(after.rcode("web.shop.svc.cluster.local A"), (YES, 0));
}

#[test]
fn before_the_services_are_known_none_is_denied_from_memory() {
    let mut before = Pair::new("", "cache 30", "");
    assert_eq!(before.rcode("new.shop.svc.cluster.local A").0, NO);
    assert_eq!(before.rcode("www.example.com.cluster.local A").0, NO);
    before.pass(Duration::from_secs(1));
    let mut after = successor(&before);
    let now = after.node.now.unix_s;
    after.central.borrow_mut().publish(&format!("{CLUSTER}\nservice shop/new 10.0.0.9"), now);
    assert_eq!(after.rcode("new.shop.svc.cluster.local A"), (YES, 1));
    // What no service can be called is.
    assert_eq!(after.rcode("www.example.com.cluster.local A"), (NO, 0));
    // And if they never are, the cache is used again.
    after.pass(Duration::from_secs(31));
    assert_eq!(after.rcode("no.shop.svc.cluster.local A"), (NO, 1));
    assert_eq!(after.rcode("no.shop.svc.cluster.local A"), (NO, 0));
}
