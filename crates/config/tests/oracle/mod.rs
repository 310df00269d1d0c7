//! What must hold for any bytes given as a configuration, shared by the property tests and the fuzz target.

use sluice_config::{LoadOptions, RenderOptions, Severity, SourceFile, load};
use sluice_expr::Loader;

struct Files;

impl Loader for Files {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        match path.len() % 4 {
            0 => Err("no such file".into()),
            1 => Ok(b"HTTP/1.0 503 Busy\r\ncontent-length: 0\r\n\r\n".to_vec()),
            2 => Ok(b"10.0.0.1 one\n# comment\nb.example two\n".to_vec()),
            _ => Ok(Vec::new()),
        }
    }
    fn env(&self, _name: &str) -> Option<String> {
        None
    }
}

/// Reads a configuration and checks what every reading has to keep.
pub fn check_config(bytes: &[u8]) {
    let mut opts = LoadOptions::new(&Files, &|name| {
        (!name.contains('.')).then(|| [127, 0, 0, 1].into())
    });
    opts.env = vec![
        ("EMPTY".into(), String::new()),
        ("LIST".into(), " a  b ".into()),
        ("PORT".into(), "80".into()),
    ];
    opts.diag = true;
    let file = SourceFile {
        name: "fuzz.cfg".into(),
        text: bytes.to_vec(),
    };
    let loaded = load(&[file], &opts);

    let alerts = loaded
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Alert)
        .count();
    assert_eq!(
        alerts == 0,
        loaded.model.is_some(),
        "a model exactly when nothing is wrong"
    );

    let lines = bytes.split(|b| *b == b'\n').count() as u32;
    for finding in &loaded.diagnostics {
        assert!(!finding.message.is_empty());
        if let Some(at) = &finding.origin {
            assert!(
                (1..=lines).contains(&at.line),
                "line {} of {lines}",
                at.line
            );
        }
        if let Some(excerpt) = &finding.excerpt {
            let span = &excerpt.span;
            assert!(
                span.start <= span.end && span.end <= excerpt.source.len() + 1,
                "{finding:?}"
            );
        }
        // Rendering copes with any span and any text.
        let shown = finding.render(RenderOptions {
            pid: 1,
            ..Default::default()
        });
        assert!(shown.ends_with('\n'));
    }

    if let Some(model) = loaded.model {
        for (index, proxy) in model.proxies.iter().enumerate() {
            assert_eq!(proxy.id.0 as usize, index);
            let target = proxy.default_backend.map(|b| model.proxy(b));
            assert!(target.is_none_or(|b| b.is_backend()));
        }
    }
}
