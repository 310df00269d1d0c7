#![no_main]

#[path = "../../crates/http/tests/oracle/mod.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check_chunked(data, &oracle::cuts_for(data)));
