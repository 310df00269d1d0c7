//! `docs/diagnostics.md` shows every class of diagnostic; this runs its examples. After a change that is meant, write
//! the new answers with `UPDATE=1 cargo test -p sluice-config --test diagnostics`.

use sluice_config::{LoadOptions, RenderOptions, SourceFile, load};
use sluice_expr::Loader;

struct Files;

impl Loader for Files {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        match path {
            "/etc/haproxy/503.http" => Ok(b"HTTP/1.0 503 Busy\r\n\r\nlater\n".to_vec()),
            "/etc/haproxy/page.html" => Ok(b"<html>later</html>\n".to_vec()),
            "/etc/haproxy/hosts.map" => Ok(b"a.example  one\nb.example  two\n".to_vec()),
            _ => Err("no such file or directory".into()),
        }
    }
}

fn answer(config: &str) -> String {
    let mut opts = LoadOptions::new(&Files, &|name| {
        (name == "localhost").then(|| [127, 0, 0, 1].into())
    });
    opts.env = vec![("PORT".into(), "80 81".into())];
    let file = SourceFile {
        name: "haproxy.cfg".into(),
        text: config.into(),
    };
    let loaded = load(&[file], &opts);
    let closing = |m: &str| m.starts_with("Error(s) found") || m.starts_with("Fatal errors");
    let shown: String = loaded
        .diagnostics
        .iter()
        .filter(|d| !closing(&d.message))
        .map(|d| {
            d.render(RenderOptions {
                pid: 1234,
                ..Default::default()
            })
        })
        .collect();
    match shown.is_empty() {
        true => "(nothing to say)\n".to_owned(),
        false => shown,
    }
}

const CONFIG: &str = "```haproxy\n";
const ANSWER: &str = "```text\n";
const END: &str = "```\n";

/// The page with the answers as they are now.
fn rewritten(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(CONFIG) {
        let (config, after) = after.split_once(END).expect("a closed example");
        let (between, after) = after
            .split_once(ANSWER)
            .expect("an answer after each example");
        let (_, after) = after.split_once(END).expect("a closed answer");
        assert!(
            between.trim().is_empty(),
            "text between an example and its answer"
        );
        out.extend([
            before,
            CONFIG,
            config,
            END,
            between,
            ANSWER,
            &answer(config),
            END,
        ]);
        rest = after;
    }
    out + rest
}

#[test]
fn the_page_shows_what_is_said() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/diagnostics.md");
    let page = std::fs::read_to_string(path).expect("docs/diagnostics.md");
    let now = rewritten(&page);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, now).expect("docs/diagnostics.md is writable");
        return;
    }
    for (n, (expected, found)) in page.lines().zip(now.lines()).enumerate() {
        assert_eq!(expected, found, "docs/diagnostics.md:{}", n + 1);
    }
    assert_eq!(page.lines().count(), now.lines().count());
}
