use crate::testing::Bench;

#[test]
fn it_is_a_setting_of_its_block_alone() {
    let bench = Bench::new("a.example {\n debug\n whoami\n}\nb.example {\n whoami\n}");
    let debug = bench.worker.config().blocks.iter().map(|block| block.settings.debug);
    assert_eq!(debug.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn arguments_and_blocks_are_refused() {
    for line in ["debug on", "debug {\n }"] {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.starts_with("Corefile:2:"), "{error}");
    }
}
