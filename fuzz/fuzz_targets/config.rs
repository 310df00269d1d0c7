#![no_main]

#[path = "../../crates/config/tests/oracle/mod.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check_config(data));
