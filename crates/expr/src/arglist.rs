//! Reading `(arg,arg,...)`: the second level of quoting (manual chapter 2.2) and the typing of each argument by its
//! [`ArgSpec`]. Names of proxies, servers and the like stay names here; [`crate::Expr::resolve`] binds them later.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::args::{Arg, ArgKind, ArgSpec, NameRef};
use crate::error::ExprError;
use crate::value::{leading_int, parse_ipv4, parse_ipv6};
use crate::vars::VarRef;

/// One argument as written, quotes and escapes resolved, with its place in the text.
struct Raw {
    text: Vec<u8>,
    span: Range<usize>,
}

/// A list that was read.
pub(crate) struct ArgList {
    /// As many as the grammar has kinds, `Arg::None` for each one left out.
    pub args: Vec<Arg>,
    /// Where each stands in the text; the item's name for those left out.
    pub spans: Vec<Range<usize>>,
    /// Where the list ends.
    pub end: usize,
}

/// Reads the list that opens at byte `open` of `text` (a parenthesis; anything else is a list left out) for the item
/// called `name`.
pub(crate) fn read(
    text: &str,
    open: usize,
    name: Range<usize>,
    spec: ArgSpec,
) -> Result<ArgList, ExprError> {
    let (mut raws, end) = if text.as_bytes().get(open) == Some(&b'(') {
        split(text, open)?
    } else {
        (Vec::new(), open)
    };
    // `name()` is a list of none, but where a text may be left out it gives an empty one: `req.hdr()` is any header
    let takes_text = spec.required == 0 && spec.kinds.first() == Some(&ArgKind::Str);
    if !takes_text && raws.len() == 1 && raws[0].span.is_empty() {
        raws.clear();
    }
    // nothing behind the last comma: an argument that cannot be empty is left out there
    if let Some(last) = raws.len().checked_sub(1)
        && last > 0
        && last >= spec.required
        && raws[last].span.is_empty()
        && spec
            .kinds
            .get(last)
            .is_some_and(|kind| left_out(*kind).is_none())
    {
        raws.pop();
    }
    let title = &text[name.clone()];
    if let Some(extra) = raws.get(spec.kinds.len()) {
        let message = match spec.kinds.len() {
            0 => format!("`{title}` takes no argument"),
            1 => format!("`{title}` takes one argument, {} are given", raws.len()),
            n => format!(
                "`{title}` takes at most {n} arguments, {} are given",
                raws.len()
            ),
        };
        return Err(ExprError::new(message)
            .at(extra.span.clone())
            .hint(format!("write {}", signature(title, spec))));
    }
    let mut args = Vec::with_capacity(spec.kinds.len());
    let mut spans = Vec::with_capacity(spec.kinds.len());
    for (i, &kind) in spec.kinds.iter().enumerate() {
        let (arg, span) = match raws.get(i) {
            Some(raw) => {
                let arg = typed(kind, &raw.text).map_err(|wanted| {
                    let got = String::from_utf8_lossy(&raw.text);
                    ExprError::new(format!(
                        "argument {} of `{title}` must be {wanted}, not '{got}'",
                        i + 1
                    ))
                    .at(raw.span.clone())
                    .hint(format!("write {}", signature(title, spec)))
                })?;
                (arg, raw.span.clone())
            }
            None if i >= spec.required => (Arg::None, name.clone()),
            None => match Some(kind).filter(|_| i == 0).and_then(left_out) {
                Some(arg) => (arg, name.clone()),
                None => {
                    return Err(ExprError::new(format!(
                        "`{title}` needs {} argument{}, {} given",
                        spec.required,
                        if spec.required == 1 { "" } else { "s" },
                        raws.len()
                    ))
                    .at(name.start..end.max(name.end))
                    .hint(format!("write {}", signature(title, spec))));
                }
            },
        };
        args.push(arg);
        spans.push(span);
    }
    Ok(ArgList { args, spans, end })
}

/// The name with its argument types, as `-dKsmp` prints it: `payload_lv(integer,integer[,string])`.
pub fn signature(name: &str, spec: ArgSpec) -> String {
    let mut out = String::from(name);
    if spec.kinds.is_empty() {
        return out;
    }
    out.push('(');
    for (i, kind) in spec.kinds.iter().enumerate() {
        if i == spec.required {
            out.push('[');
        }
        if i > 0 {
            out.push(',');
        }
        out.push_str(kind.name());
    }
    if spec.required < spec.kinds.len() {
        out.push(']');
    }
    out.push(')');
    out
}

/// Cuts the text from the parenthesis at `open` to its partner into arguments. Double quotes protect all but
/// themselves and the backslash, single quotes protect everything.
fn split(text: &str, open: usize) -> Result<(Vec<Raw>, usize), ExprError> {
    let bytes = text.as_bytes();
    let mut raws = Vec::new();
    let mut quote: Option<(u8, usize)> = None;
    let mut arg = Vec::new();
    let mut start = open + 1;
    let mut at = open + 1;
    while let Some(&b) = bytes.get(at) {
        match (quote, b) {
            (Some((q, _)), _) if b == q => quote = None,
            (None, b'"' | b'\'') => quote = Some((b, at)),
            (None | Some((b'"', _)), b'\\') => match bytes.get(at + 1).and_then(|&c| escape(c)) {
                Some(c) => {
                    arg.push(c);
                    at += 1;
                }
                None => arg.push(b),
            },
            (None, b',' | b')') => {
                raws.push(Raw {
                    text: std::mem::take(&mut arg),
                    span: start..at,
                });
                start = at + 1;
                if b == b')' {
                    return Ok((raws, at + 1));
                }
            }
            _ => arg.push(b),
        }
        at += 1;
    }
    Err(match quote {
        Some((q, at)) => ExprError::new(format!("the quote {} is not closed", char::from(q)))
            .at(at..at + 1)
            .hint("quotes inside parentheses are a second level: escape them from the first one"),
        None => ExprError::new("the parenthesis is not closed")
            .at(open..open + 1)
            .hint("a `)` that belongs to an argument needs quotes inside the parentheses"),
    })
}

/// What a backslash makes of the byte after it; `None` where it is an ordinary backslash.
fn escape(c: u8) -> Option<u8> {
    match c {
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'\\' | b'"' | b'\'' | b' ' => Some(c),
        _ => None,
    }
}

/// What a first argument is when it is not there although it is required: names mean the current proxy, a text is empty.
fn left_out(kind: ArgKind) -> Option<Arg> {
    match kind {
        ArgKind::Frontend | ArgKind::Backend | ArgKind::Table | ArgKind::Str => {
            typed(kind, b"").ok()
        }
        _ => None,
    }
}

/// The argument as its kind; the error says what was wanted.
fn typed(kind: ArgKind, text: &[u8]) -> Result<Arg, &'static str> {
    let name = || std::str::from_utf8(text).map_err(|_| "a name in UTF-8");
    Ok(match kind {
        ArgKind::Str
        | ArgKind::FieldNumber
        | ArgKind::Map
        | ArgKind::PtrResolvers
        | ArgKind::Reg => Arg::Str(text.to_vec()),
        ArgKind::Sint => Arg::Sint(whole_int(text).ok_or("an integer")?),
        ArgKind::Ipv4 => Arg::Ipv4(parse_ipv4(text).ok_or("an IPv4 address")?),
        ArgKind::Ipv6 => Arg::Ipv6(parse_ipv6(text).ok_or("an IPv6 address")?),
        ArgKind::Mask4 => {
            Arg::Mask4(mask4(text).ok_or("an IPv4 mask (0 to 32, or 255.255.255.0)")?)
        }
        ArgKind::Mask6 => Arg::Mask6(mask6(text).ok_or("an IPv6 mask (0 to 128, or ffff:ffff::)")?),
        ArgKind::Time => {
            Arg::TimeMs(with_unit(text, TIME_UNITS).ok_or("a delay like 10s or 500ms")?)
        }
        ArgKind::Size => Arg::Size(with_unit(text, SIZE_UNITS).ok_or("a size like 16k")?),
        ArgKind::Frontend => Arg::Frontend(NameRef::new(name()?)),
        ArgKind::Backend => Arg::Backend(NameRef::new(name()?)),
        ArgKind::Table => Arg::Table(NameRef::new(name()?)),
        ArgKind::Server | ArgKind::Userlist if text.is_empty() => return Err("a name"),
        ArgKind::Server => Arg::Server(NameRef::new(name()?)),
        ArgKind::Userlist => Arg::Userlist(NameRef::new(name()?)),
        ArgKind::Var => Arg::Var(VarRef::parse(name()?).map_err(
            |_| "a variable with its scope (proc, sess, txn, req, res, check), like txn.name",
        )?),
    })
}

/// The whole text as a number, saturating; `None` when anything else is in it.
fn whole_int(text: &[u8]) -> Option<i64> {
    let digits = text
        .strip_prefix(b"-")
        .or(text.strip_prefix(b"+"))
        .unwrap_or(text);
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then(|| leading_int(text))?
}

fn mask4(text: &[u8]) -> Option<Ipv4Addr> {
    match whole_int(text) {
        Some(len @ 0..=32) => Some(Ipv4Addr::from_bits(
            u32::MAX.checked_shl(32 - len as u32).unwrap_or(0),
        )),
        Some(_) => None,
        None => parse_ipv4(text),
    }
}

fn mask6(text: &[u8]) -> Option<Ipv6Addr> {
    match whole_int(text) {
        Some(len @ 0..=128) => Some(Ipv6Addr::from_bits(
            u128::MAX.checked_shl(128 - len as u32).unwrap_or(0),
        )),
        Some(_) => None,
        None => parse_ipv6(text),
    }
}

/// Units with what each is worth in the unit stored; the first stands for a number without one.
const TIME_UNITS: &[(&[u8], u64)] = &[
    (b"ms", 1),
    (b"us", 0),
    (b"s", 1000),
    (b"m", 60_000),
    (b"h", 3_600_000),
    (b"d", 86_400_000),
];
const SIZE_UNITS: &[(&[u8], u64)] = &[(b"", 1), (b"k", 1 << 10), (b"m", 1 << 20), (b"g", 1 << 30)];

fn with_unit(text: &[u8], units: &[(&[u8], u64)]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    let worth = match unit {
        [] => units.first()?.1,
        unit => units.iter().find(|(u, _)| u.eq_ignore_ascii_case(unit))?.1,
    };
    // Microseconds are the one unit below the unit stored.
    match worth {
        0 => Some(number.div_ceil(1000)),
        worth => number.checked_mul(worth),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arg(kind: ArgKind, text: &str) -> Option<String> {
        typed(kind, text.as_bytes())
            .ok()
            .map(|arg| format!("{arg:?}"))
    }

    #[test]
    fn every_kind_reads_its_own() {
        let check = |kind, text: &str, want: Option<&str>| {
            assert_eq!(arg(kind, text).as_deref(), want, "{kind:?} {text}");
        };
        check(ArgKind::Sint, "-12", Some("Sint(-12)"));
        check(ArgKind::Sint, "+12", Some("Sint(12)"));
        for wrong in ["", "-", "12x", "0x1", " 1", "1 "] {
            check(ArgKind::Sint, wrong, None);
        }
        check(ArgKind::Mask4, "24", Some("Mask4(255.255.255.0)"));
        check(ArgKind::Mask4, "0", Some("Mask4(0.0.0.0)"));
        check(ArgKind::Mask4, "255.0.255.0", Some("Mask4(255.0.255.0)"));
        check(ArgKind::Mask4, "33", None);
        check(ArgKind::Mask6, "64", Some("Mask6(ffff:ffff:ffff:ffff::)"));
        check(ArgKind::Mask6, "129", None);
        check(ArgKind::Ipv4, "01.2.3.4", None);
        check(ArgKind::Time, "10s", Some("TimeMs(10000)"));
        check(ArgKind::Time, "10", Some("TimeMs(10)"));
        check(ArgKind::Time, "1500us", Some("TimeMs(2)"));
        check(ArgKind::Time, "2d", Some("TimeMs(172800000)"));
        check(ArgKind::Time, "2w", None);
        check(ArgKind::Time, "99999999999999999999s", None);
        check(ArgKind::Size, "16k", Some("Size(16384)"));
        check(ArgKind::Size, "1G", Some("Size(1073741824)"));
        check(ArgKind::Size, "1x", None);
        check(ArgKind::Server, "", None);
        check(ArgKind::Userlist, "", None);
    }

    #[test]
    fn signatures_show_what_may_be_left_out() {
        let show = |required, kinds| signature("f", ArgSpec { kinds, required });
        assert_eq!(show(0, &[]), "f");
        assert_eq!(show(1, &[ArgKind::Str]), "f(string)");
        assert_eq!(
            show(0, &[ArgKind::Str, ArgKind::Sint]),
            "f([string,integer])"
        );
        assert_eq!(
            show(1, &[ArgKind::Str, ArgKind::Sint]),
            "f(string[,integer])"
        );
    }

    proptest! {
        /// A mask of n bits begins with n ones and has no others.
        #[test]
        fn mask_lengths_count_leading_ones(n in 0u32..=32, m in 0u32..=128) {
            let four = mask4(n.to_string().as_bytes()).expect("a mask").to_bits();
            prop_assert_eq!((four.leading_ones(), four.count_ones()), (n, n));
            let six = mask6(m.to_string().as_bytes()).expect("a mask").to_bits();
            prop_assert_eq!((six.leading_ones(), six.count_ones()), (m, m));
        }

        /// Applying a mask is the same as cutting the address's text form of bits.
        #[test]
        fn masks_keep_the_leading_bits(address: u32, n in 0u32..=32) {
            let mask = mask4(n.to_string().as_bytes()).expect("a mask").to_bits();
            let bits = format!("{address:032b}");
            let kept = format!("{:0<32}", &bits[..n as usize]);
            prop_assert_eq!(format!("{:032b}", address & mask), kept);
        }
    }
}
