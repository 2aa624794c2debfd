#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nodens_fuzz_bodies::transfer_in::transfer_in(data));
