//! The criteria that only ACLs know: a fetch with a match method of its own (manual chapter 7.1 and the "ACL derivatives"
//! of chapter 7.3). One item each; `-dKacl` is printed from this table.

use std::fmt::Write;

use crate::pattern::{Match, Notation};

/// One criterion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AclKeyword {
    pub name: &'static str,
    /// The sample fetch behind it, which takes its arguments.
    pub fetch: &'static str,
    pub method: Match,
    /// How integers are written in its patterns.
    pub notation: Notation,
}

const fn kw(name: &'static str, fetch: &'static str, method: Match) -> AclKeyword {
    AclKeyword {
        name,
        fetch,
        method,
        notation: Notation::Plain,
    }
}

const fn dotted(name: &'static str, fetch: &'static str, method: Match) -> AclKeyword {
    AclKeyword {
        name,
        fetch,
        method,
        notation: Notation::Dotted,
    }
}

/// All of them, sorted by name.
pub const KEYWORDS: &[AclKeyword] = &[
    kw("base", "base", Match::Str),
    kw("base_beg", "base", Match::Beg),
    kw("base_dir", "base", Match::Dir),
    kw("base_dom", "base", Match::Dom),
    kw("base_end", "base", Match::End),
    kw("base_len", "base", Match::Len),
    kw("base_reg", "base", Match::Reg),
    kw("base_sub", "base", Match::Sub),
    kw("cook", "req.cook", Match::Str),
    kw("cook_beg", "req.cook", Match::Beg),
    kw("cook_dir", "req.cook", Match::Dir),
    kw("cook_dom", "req.cook", Match::Dom),
    kw("cook_end", "req.cook", Match::End),
    kw("cook_len", "req.cook", Match::Len),
    kw("cook_reg", "req.cook", Match::Reg),
    kw("cook_sub", "req.cook", Match::Sub),
    kw("hdr", "req.hdr", Match::Str),
    kw("hdr_beg", "req.hdr", Match::Beg),
    kw("hdr_dir", "req.hdr", Match::Dir),
    kw("hdr_dom", "req.hdr", Match::Dom),
    kw("hdr_end", "req.hdr", Match::End),
    kw("hdr_len", "req.hdr", Match::Len),
    kw("hdr_reg", "req.hdr", Match::Reg),
    kw("hdr_sub", "req.hdr", Match::Sub),
    kw("http_auth_group", "http_auth_group", Match::Str),
    kw("method", "method", Match::Str),
    kw("path", "path", Match::Str),
    kw("path_beg", "path", Match::Beg),
    kw("path_dir", "path", Match::Dir),
    kw("path_dom", "path", Match::Dom),
    kw("path_end", "path", Match::End),
    kw("path_len", "path", Match::Len),
    kw("path_reg", "path", Match::Reg),
    kw("path_sub", "path", Match::Sub),
    kw("payload", "req.payload", Match::Bin),
    kw("payload_lv", "req.payload_lv", Match::Bin),
    dotted("req.ssl_ver", "req.ssl_ver", Match::Int),
    kw("req_rdp_cookie", "req.rdp_cookie", Match::Str),
    kw("req_rdp_cookie_cnt", "req.rdp_cookie_cnt", Match::Int),
    kw("req_ssl_sni", "req.ssl_sni", Match::Str),
    dotted("req_ssl_ver", "req.ssl_ver", Match::Int),
    kw("req_ver", "req.ver", Match::Str),
    kw("resp_ver", "res.ver", Match::Str),
    kw("scook", "res.cook", Match::Str),
    kw("scook_beg", "res.cook", Match::Beg),
    kw("scook_dir", "res.cook", Match::Dir),
    kw("scook_dom", "res.cook", Match::Dom),
    kw("scook_end", "res.cook", Match::End),
    kw("scook_len", "res.cook", Match::Len),
    kw("scook_reg", "res.cook", Match::Reg),
    kw("scook_sub", "res.cook", Match::Sub),
    kw("shdr", "res.hdr", Match::Str),
    kw("shdr_beg", "res.hdr", Match::Beg),
    kw("shdr_dir", "res.hdr", Match::Dir),
    kw("shdr_dom", "res.hdr", Match::Dom),
    kw("shdr_end", "res.hdr", Match::End),
    kw("shdr_len", "res.hdr", Match::Len),
    kw("shdr_reg", "res.hdr", Match::Reg),
    kw("shdr_sub", "res.hdr", Match::Sub),
    kw("ssl_fc_sni_end", "ssl_fc_sni", Match::End),
    kw("ssl_fc_sni_reg", "ssl_fc_sni", Match::Reg),
    kw("url", "url", Match::Str),
    kw("url_beg", "url", Match::Beg),
    kw("url_dir", "url", Match::Dir),
    kw("url_dom", "url", Match::Dom),
    kw("url_end", "url", Match::End),
    kw("url_len", "url", Match::Len),
    kw("url_reg", "url", Match::Reg),
    kw("url_sub", "url", Match::Sub),
    kw("urlp", "urlp", Match::Str),
    kw("urlp_beg", "urlp", Match::Beg),
    kw("urlp_dir", "urlp", Match::Dir),
    kw("urlp_dom", "urlp", Match::Dom),
    kw("urlp_end", "urlp", Match::End),
    kw("urlp_len", "urlp", Match::Len),
    kw("urlp_reg", "urlp", Match::Reg),
    kw("urlp_sub", "urlp", Match::Sub),
];

/// The criterion of that name.
pub(super) fn find(name: &str) -> Option<&'static AclKeyword> {
    let at = KEYWORDS.binary_search_by_key(&name, |k| k.name).ok()?;
    KEYWORDS.get(at)
}

/// The block `-dKacl` prints.
pub fn dump_acl() -> String {
    let mut out = String::from("# List of registered ACL keywords:\n");
    for k in KEYWORDS {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{} = {} -m {}", k.name, k.fetch, k.method.name());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_fetches_exist() {
        assert!(KEYWORDS.is_sorted_by_key(|k| k.name));
        for k in KEYWORDS {
            assert!(
                crate::fetch::find(k.fetch).is_some(),
                "{} needs {}",
                k.name,
                k.fetch
            );
        }
        assert_eq!(find("path_beg").map(|k| k.method), Some(Match::Beg));
        assert_eq!(find("path_"), None);
    }

    #[test]
    fn the_dump_is_haproxy_s() {
        let dump = dump_acl();
        assert!(dump.starts_with(
            "# List of registered ACL keywords:\nbase = base -m str\nbase_beg = base -m beg\n"
        ));
        assert!(dump.ends_with("urlp_reg = urlp -m reg\nurlp_sub = urlp -m sub\n"));
    }
}
