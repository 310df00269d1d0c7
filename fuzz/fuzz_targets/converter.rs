#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_expr::testing::conv_oracle::check_converters(data));
