//! `language`: the best of a list by an Accept-Language header.

use std::borrow::Cow;

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{on_bytes, prepared, set_prepared, str_arg};
use crate::env::Env;
use crate::value::{Fetched, Sample, Value};

converters! {
    "language" (Str; Str) Str -> Str, language, prepare prepare_list
        => "The language of the list `fr;en;...` that an Accept-Language header likes best, or the default given.";
}

/// The languages to choose from, in their order.
struct List(Vec<Vec<u8>>);

fn prepare_list(args: &mut Vec<Arg>, _: &ParseCtx<'_>) -> Result<(), BadArg> {
    let languages = str_arg(args, 0)
        .split(|c| *c == b';')
        .filter(|l| !l.is_empty());
    let list = List(languages.map(<[u8]>::to_vec).collect());
    set_prepared(args, 0, list);
    Ok(())
}

fn language<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    on_bytes(sample, |s| {
        let List(languages) = prepared(args, 0)?;
        let default = Some(str_arg(args, 1)).filter(|d| !d.is_empty());
        best(languages, &s)
            .or(default)
            .map(|l| Value::Str(Cow::Borrowed(l)))
    })
}

/// The first with the highest quality above zero; the header is read in best effort.
fn best<'l>(languages: &'l [Vec<u8>], header: &[u8]) -> Option<&'l [u8]> {
    let mut best: Option<(u32, &[u8])> = None;
    for item in header.split(|c| *c == b',') {
        let item = item.trim_ascii();
        let end = item
            .iter()
            .position(|c| *c == b';' || c.is_ascii_whitespace())
            .unwrap_or(item.len());
        let (range, rest) = item.split_at(end);
        let Some(language) = languages.iter().find(|l| matches(range, l)) else {
            continue;
        };
        let Some(quality) = quality(rest.trim_ascii_start()) else {
            continue;
        };
        if quality > best.map_or(0, |(q, _)| q) {
            best = Some((quality, language));
        }
    }
    best.map(|(_, language)| language)
}

/// A range of the header matches a language that it is, or that it is a variant of (`fr-CA` matches `fr`).
fn matches(range: &[u8], language: &[u8]) -> bool {
    range
        .strip_prefix(language)
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'-')))
}

/// The quality in thousandths out of `;q=0.5`: 1 when there is none. Nothing when the item goes on in another way.
fn quality(params: &[u8]) -> Option<u32> {
    const FULL: u32 = 1_000;
    let Some(rest) = params.strip_prefix(b";") else {
        return params.is_empty().then_some(FULL);
    };
    let value = rest
        .trim_ascii_start()
        .strip_prefix(b"q")
        .and_then(|r| r.trim_ascii_start().strip_prefix(b"="))
        .map(<[u8]>::trim_ascii_start);
    Some(match value {
        Some([whole @ b'0'..=b'9', rest @ ..]) => {
            let mut thousandths = u32::from(whole - b'0') * FULL;
            if let Some(decimals) = rest.strip_prefix(b".") {
                for (digit, worth) in decimals
                    .iter()
                    .take_while(|c| c.is_ascii_digit())
                    .zip([100, 10, 1])
                {
                    thousandths += u32::from(digit - b'0') * worth;
                }
            }
            thousandths.min(FULL)
        }
        _ => FULL,
    })
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::{check_all, check_header, check_header_new};

    #[test]
    fn headers() {
        check_header(&[
            (b"fr,en;q=0.8", "hdr,language(es;fr;en)", Some(b"fr")),
            (
                b"de,en;q=0.5,fr;q=0.7",
                "hdr,language(es;fr;en)",
                Some(b"fr"),
            ),
            (b"de", "hdr,language(es;fr;en)", None),
            (b"de", "hdr,language(es;fr;en,xx)", Some(b"xx")),
            (b"fr-CA,en;q=0.5", "hdr,language(es;fr;en)", Some(b"fr")),
            (
                b"fr-CA,en;q=0.5",
                "hdr,language(es;fr-CA;en)",
                Some(b"fr-CA"),
            ),
            (b"fr,en;q=0.5", "hdr,language(fr-CA;en)", Some(b"en")),
            (b"fr-CA", "hdr,language(fr;fr-CA)", Some(b"fr")),
            (b"fr;q=0", "hdr,language(fr;en)", None),
            (b"FR,en;q=0.1", "hdr,language(fr;en)", Some(b"en")),
            (
                b"fr ; q=0.5 , en ; q=0.6",
                "hdr,language(fr;en)",
                Some(b"en"),
            ),
            (b"fr;q=0.555,en;q=0.556", "hdr,language(fr;en)", Some(b"en")),
            (b"fr;q=1.000,en;q=1", "hdr,language(fr;en)", Some(b"fr")),
            (b"fr;q=.5,en", "hdr,language(fr;en)", Some(b"fr")),
            (b"fr;q=2,en", "hdr,language(fr;en)", Some(b"fr")),
            (b"fr;q=x,en;q=0.1", "hdr,language(fr;en)", Some(b"fr")),
            (b"fr;q=,en;q=0.1", "hdr,language(fr;en)", Some(b"fr")),
            (b"fr;x=0.1,en;q=0.5", "hdr,language(fr;en)", Some(b"fr")),
            (
                b"fr;level=1;q=0.1,en;q=0.5",
                "hdr,language(fr;en)",
                Some(b"fr"),
            ),
            (b"*", "hdr,language(fr;en)", None),
            (b"*", "hdr,language(*;en)", Some(b"*")),
            (b",,fr", "hdr,language(fr;en)", Some(b"fr")),
            (
                b"fr;q=0.5;q=0.9,en;q=0.7",
                "hdr,language(fr;en)",
                Some(b"en"),
            ),
            (b"fr;q = 0.5,en;q=0.4", "hdr,language(fr;en)", Some(b"fr")),
            (b"fr-,en;q=0.4", "hdr,language(fr;en)", Some(b"fr")),
            (b"-fr,en;q=0.4", "hdr,language(fr;en)", Some(b"en")),
            (b"frx,en;q=0.4", "hdr,language(fr;en)", Some(b"en")),
            (b"en;q=0.7,fr;q=0.7", "hdr,language(fr;en)", Some(b"en")),
            (
                b"fr;q=0.1234,en;q=0.1235",
                "hdr,language(fr;en)",
                Some(b"fr"),
            ),
            (b"fr;q=1.5,en;q=0.4", "hdr,language(fr;en)", Some(b"fr")),
            (b"fr;q=0.,en;q=0.4", "hdr,language(fr;en)", Some(b"en")),
            (b"fr;q=00.5,en;q=0.4", "hdr,language(fr;en)", Some(b"en")),
            (b"fr;Q=0.3,en;q=0.4", "hdr,language(fr;en)", Some(b"fr")),
            (b"fr en;q=0.4", "hdr,language(fr;en)", None),
            (b"en", "hdr,language(;en)", Some(b"en")),
            (b"en", "hdr,language(en;)", Some(b"en")),
            (b"fr;en", "hdr,language(fr;en)", Some(b"fr")),
            (b"fr; ,en", "hdr,language(fr;en)", Some(b"fr")),
            (b"fr;q ,en", "hdr,language(fr;en)", Some(b"fr")),
        ]);
        check_all(&[
            ("str(),language(en,d)", Some("d")),
            ("str(),language(en)", None),
            ("str(en),language()", None),
            ("str(en),language(,d)", Some("d")),
            ("str(fr),language(en;fr;)", Some("fr")),
            ("str(fr),language(fr,)", Some("fr")),
            ("str(de),language(fr,)", None),
        ]);
    }

    /// HAProxy drops the language after one whose quality is a whole number, too.
    #[test]
    fn a_quality_of_zero_drops_one_language() {
        check_header_new(&[(b"fr;q=0,en;q=0.1", "hdr,language(fr;en)", Some(b"en"))]);
    }
}
