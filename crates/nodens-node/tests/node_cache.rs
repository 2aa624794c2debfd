//! Templates as node-cache fills them in: each folder of `node-cache` holds what it was given and the
//! `Corefile` that it wrote. `cargo xtask node-cache` compares them with the program itself.

use nodens_node::face::{KubeDns, Values, render};
use std::path::Path;

#[test]
fn every_corefile_is_that_of_node_cache_octet_for_octet() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node-cache");
    let mut count = 0;
    for case in std::fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()) {
        let read = |name: &str| {
            std::fs::read_to_string(case.join(name))
                .unwrap_or_else(|error| panic!("{}/{name}: {error}", case.display()))
        };
        let name = case.file_name().unwrap().to_str().unwrap();
        let kube_dns = KubeDns::read(&case);
        assert_eq!(kube_dns.is_err(), name.starts_with("refused-"), "{name}: {kube_dns:?}");
        let values = Values {
            cluster_dns: read("upstream").trim().to_owned(),
            local: read("localip").trim().to_owned(),
            port: 53,
            prometheus: ":9253".to_owned(),
            kube_dns: kube_dns.unwrap_or_default(),
        };
        let rendered = render(&read("Corefile.base"), &values).unwrap();
        assert_eq!(rendered.text, read("Corefile"), "{name}");
        assert_eq!(rendered.transport_kept, name == "kept-transport");
        count += 1;
    }
    assert!(count >= 11, "only {count} cases");
}
