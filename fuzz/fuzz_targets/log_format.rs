#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_expr::testing::rule_oracle::check_log_format(data));
