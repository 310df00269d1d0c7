//! What is wrong with an expression is shown under the wrong word, with the reason and what would fit.
//!
//! `data/diagnostics.txt` is the record of all of them, made to be read; `UPDATE_DOCS=1` writes it.

use sluice_expr::pattern::Store;
use sluice_expr::place::Place;
use sluice_expr::{Expr, ExprError, Loader, ParseCtx};

struct NoFiles;
impl Loader for NoFiles {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        Err(format!("there is no file '{path}'"))
    }
}

fn parse(text: &str, place: Place) -> Result<Expr, ExprError> {
    let store = Store::new();
    Expr::parse(
        text,
        &ParseCtx {
            place,
            loader: &NoFiles,
            store: &store,
            file: "test.cfg",
            line: 1,
            http: true,
            acls: None,
        },
    )
}

/// The expression, a caret line, the message, the hint.
fn show(text: &str, error: &ExprError) -> String {
    let span = match error.span.is_empty() {
        true => 0..text.len(),
        false => error.span.clone(),
    };
    let carets = "^".repeat(text[span.clone()].chars().count().max(1));
    let mut out = format!(
        "    {text}\n    {}{carets}\n{error}\n",
        " ".repeat(text[..span.start].chars().count())
    );
    if let Some(hint) = &error.hint {
        out.push_str(&format!("hint: {hint}\n"));
    }
    out
}

const SECTIONS: &[(&str, &[(&str, Place)])] = &[
    (
        "Unknown names",
        &[
            ("hdrr(host)", Place::FE_HTTP_REQ),
            ("req.hdr(host),loewr", Place::FE_HTTP_REQ),
            ("something_else", Place::FE_HTTP_REQ),
            ("lower", Place::FE_HTTP_REQ),
            ("path,src", Place::FE_HTTP_REQ),
            ("", Place::FE_HTTP_REQ),
            ("(host)", Place::FE_HTTP_REQ),
            ("path,", Place::FE_HTTP_REQ),
            ("path lower", Place::FE_HTTP_REQ),
        ],
    ),
    (
        "Arguments",
        &[
            ("src(1)", Place::FE_HTTP_REQ),
            ("hdr(host,1,2)", Place::FE_HTTP_REQ),
            ("hdr(host,first)", Place::FE_HTTP_REQ),
            ("hdr(host,-11)", Place::FE_HTTP_REQ),
            ("int()", Place::FE_HTTP_REQ),
            ("int(0x10)", Place::FE_HTTP_REQ),
            ("bool(yes)", Place::FE_HTTP_REQ),
            ("bin(414)", Place::FE_HTTP_REQ),
            ("ipv4(1.2.3)", Place::FE_HTTP_REQ),
            ("ipv6([::1])", Place::FE_HTTP_REQ),
            ("date(0,h)", Place::FE_HTTP_REQ),
            ("uuid(3)", Place::FE_HTTP_REQ),
            ("payload(0)", Place::FE_REQ_CONTENT),
            ("req.payload_lv(0,2,-3)", Place::FE_REQ_CONTENT),
            ("var(name)", Place::FE_HTTP_REQ),
            ("url_param(a,?,x)", Place::FE_HTTP_REQ),
            ("src,ipmask(33)", Place::FE_HTTP_REQ),
            ("str(a", Place::FE_HTTP_REQ),
            ("str(\"a)", Place::FE_HTTP_REQ),
            ("acl(mine)", Place::FE_HTTP_REQ),
        ],
    ),
    (
        "Types",
        &[
            ("always_true,ipmask(24)", Place::FE_HTTP_REQ),
            ("ipv6(::1),add(1)", Place::FE_HTTP_REQ),
            ("method,add(1)", Place::FE_HTTP_REQ),
            (
                "path,base64,length,ipmask(24),upper,bool,ipmask(24)",
                Place::FE_HTTP_REQ,
            ),
        ],
    ),
    (
        "Places",
        &[
            ("hdr(host)", Place::FE_CONNECTION),
            ("path", Place::FE_SESSION),
            ("be_name", Place::FE_CONNECTION),
            ("fc_pp_tlv(5)", Place::FE_CONNECTION),
            ("status", Place::FE_HTTP_REQ),
            ("be_name", Place::FE_HTTP_REQ),
            ("srv_name", Place::BE_HTTP_REQ),
            ("path", Place::BE_HTTP_RES),
            ("path", Place::LOG),
            ("res.hdr(x)", Place::LOG),
            ("src", Place::CFG),
            ("src", Place::CLI),
            ("path", Place::CHECK),
            ("path", Place::BE_HTTP_RES.union(Place::FE_HTTP_RES)),
        ],
    ),
    (
        "Parts of Sluice that are not there yet",
        &[
            ("ssl_fc_sni", Place::FE_HTTP_REQ),
            ("sc0_conn_rate(st)", Place::FE_HTTP_REQ),
            ("res.cache_hit", Place::BE_HTTP_RES),
        ],
    ),
];

#[test]
fn every_fault_is_shown_with_its_place_and_reason() {
    let mut page = String::new();
    for (title, cases) in SECTIONS {
        page.push_str(&format!("{title}\n{}\n\n", "=".repeat(title.len())));
        for (text, place) in *cases {
            let error = parse(text, *place).expect_err(text);
            page.push_str(&show(text, &error));
            page.push('\n');
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/diagnostics.txt");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).expect("the record is written");
    }
    let written = std::fs::read_to_string(path).expect("data/diagnostics.txt");
    assert!(
        written == page,
        "data/diagnostics.txt differs, see `git diff` after UPDATE_DOCS=1:\n{page}"
    );
}
