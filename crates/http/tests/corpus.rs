//! Replays the fuzz corpora, so that what a fuzzer found once is tried by every `cargo test`.

mod oracle;

use std::path::Path;

fn replay(target: &str, check: fn(&[u8], &[usize])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut tried = 0;
    for entry in std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        let every_byte: Vec<usize> = (1..input.len()).collect();
        for cuts in [oracle::cuts_for(&input), every_byte] {
            // The path of a failing input is shown with the panic of the check.
            let result = std::panic::catch_unwind(|| check(&input, &cuts));
            assert!(
                result.is_ok(),
                "replay with: fuzz/run {target} {}",
                path.display()
            );
        }
        tried += 1;
    }
    assert!(tried > 20, "only {tried} inputs in {}", dir.display());
}

#[test]
fn requests_of_the_corpus() {
    replay("http1_request", oracle::check_request);
}

#[test]
fn responses_of_the_corpus() {
    replay("http1_response", oracle::check_response);
}

#[test]
fn chunked_bodies_of_the_corpus() {
    replay("chunked", oracle::check_chunked);
}
