//! Every input of the corpus, and every prefix of it, through the target it was found for.

use std::path::Path;

#[test]
fn the_corpus_breaks_no_property() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    for (name, body) in nodens_fuzz_bodies::TARGETS {
        let mut inputs = 0;
        for entry in std::fs::read_dir(corpus.join(name)).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            body(&bytes);
            for cut in 0..bytes.len().min(300) {
                body(&bytes[..cut]);
            }
            inputs += 1;
        }
        assert!(inputs > 0, "no corpus for {name}");
    }
}
