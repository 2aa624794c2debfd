#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nodens_fuzz_bodies::update::update(data));
