use super::*;
use nodens_core::log::Sink;

#[test]
fn an_attempt_that_fails_keeps_the_listeners_of_a_predecessor_for_the_next() {
    let shared = Arc::new(Shared::new(1, Sink::new(std::sync::mpsc::sync_channel(100).0)));
    // The predecessor has the first still, and a stranger the second; they are opened in this order.
    let mut listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.sort_by_key(|listener| listener.local_addr().unwrap());
    let [first, second] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let [predecessor, stranger] = listeners;
    let text = format!(".:0 {{\n bind 127.0.0.1\n health {first}\n ready {second}\n whoami\n}}\n");
    let tree = nodens_corefile::parse("Corefile", &text, &nodens_corefile::SystemSources).unwrap();
    let config = nodens_core::build(&tree, &Default::default(), &shared).unwrap();
    let mut endpoints = Endpoints::new(Arc::new(Facts::new(shared))).unwrap();
    endpoints.inherit(vec![(first, predecessor.try_clone().unwrap())]);
    for _ in 0..2 {
        let error = endpoints.apply(&config.services).unwrap_err();
        assert_eq!(error.address, second.to_string(), "{error}");
    }
    drop(stranger);
    endpoints.apply(&config.services).unwrap();
    assert_eq!(endpoints.export().len(), 2);
}
