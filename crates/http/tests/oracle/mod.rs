//! What must hold for any bytes at all. The property tests, the corpus replay and the fuzz targets
//! all call these; each panics when its promise is broken.
#![allow(dead_code, clippy::disallowed_methods)]

use sluice_http::*;

pub fn strict() -> Limits {
    Limits::default()
}

pub fn relaxed() -> Limits {
    Limits {
        accept_invalid: true,
        payload_any_method: true,
        ..Limits::default()
    }
}

/// A head that came in, in a form that can be compared, and how much input it took.
pub type Outcome = Result<Option<(usize, Vec<u8>, Framing)>, ParseError>;

pub fn read_request(input: &[u8], cuts: &[usize], limits: &Limits) -> Outcome {
    let mut scan = HeadScan::new();
    let mut out = Request::new();
    feed(input, cuts, |piece| {
        parse_request(piece, &mut scan, limits, &mut out)
    })
    .map(|found| {
        found.map(|consumed| {
            let mut text = Vec::new();
            out.write_to(&mut text);
            (consumed, text, out.framing)
        })
    })
}

pub fn read_response(input: &[u8], cuts: &[usize], limits: &Limits, method: Method) -> Outcome {
    let mut scan = HeadScan::new();
    let mut out = Response::new();
    feed(input, cuts, |piece| {
        parse_response(piece, &mut scan, limits, method, &mut out)
    })
    .map(|found| {
        found.map(|consumed| {
            let mut text = Vec::new();
            out.write_to(&mut text);
            (consumed, text, out.framing)
        })
    })
}

/// Gives longer and longer prefixes, the last the whole, until the parser has decided.
fn feed(
    input: &[u8],
    cuts: &[usize],
    mut parse: impl FnMut(&[u8]) -> Result<Parsed, ParseError>,
) -> Result<Option<usize>, ParseError> {
    let mut ends: Vec<usize> = cuts.iter().map(|&c| c.min(input.len())).collect();
    ends.push(input.len());
    ends.sort_unstable();
    for end in ends {
        if let Parsed::Complete { consumed } = parse(&input[..end])? {
            assert!(consumed <= end, "consumed {consumed} of {end}");
            return Ok(Some(consumed));
        }
    }
    Ok(None)
}

/// Cuts made of the input itself, so that a fuzzer can move them.
pub fn cuts_for(input: &[u8]) -> Vec<usize> {
    let seed = input.iter().fold(7usize, |sum, &b| {
        sum.wrapping_mul(31).wrapping_add(usize::from(b))
    });
    let len = input.len() + 1;
    vec![seed % len, (seed >> 8) % len, (seed >> 16) % len]
}

/// Cutting the input changes nothing, and what is written is one unambiguous head.
pub fn check_request(input: &[u8], cuts: &[usize]) {
    for limits in [strict(), relaxed()] {
        let whole = read_request(input, &[], &limits);
        assert_eq!(
            read_request(input, cuts, &limits),
            whole,
            "cut at {cuts:?}: {}",
            input.escape_ascii()
        );
        let Ok(Some((_, text, framing))) = whole else {
            continue;
        };
        check_written(&text);
        // Rewriting may make a head longer; the bound is on what comes in.
        let roomy = Limits {
            head_max: usize::MAX,
            ..limits.clone()
        };
        let again = read_request(&text, &[], &roomy);
        assert_eq!(
            again,
            Ok(Some((text.len(), text.clone(), framing))),
            "{}",
            text.escape_ascii()
        );
    }
}

pub fn check_response(input: &[u8], cuts: &[usize]) {
    for limits in [strict(), relaxed()] {
        for method in [Method::Get, Method::Head, Method::Connect] {
            let whole = read_response(input, &[], &limits, method);
            assert_eq!(
                read_response(input, cuts, &limits, method),
                whole,
                "cut at {cuts:?}"
            );
            let Ok(Some((_, text, framing))) = whole else {
                continue;
            };
            check_written(&text);
            let roomy = Limits {
                head_max: usize::MAX,
                ..limits.clone()
            };
            let again = read_response(&text, &[], &roomy, method);
            assert_eq!(
                again,
                Ok(Some((text.len(), text.clone(), framing))),
                "{}",
                text.escape_ascii()
            );
        }
    }
}

/// A written head as the next parser, however simple, will see it: lines end in CRLF and only there,
/// each but the first has a colon with no blank before it, at most one way to tell the body's end.
fn check_written(text: &[u8]) {
    let shown = text.escape_ascii();
    let head = text
        .strip_suffix(b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no end: {shown}"));
    let mut framings = 0;
    for (i, line) in split_crlf(head).into_iter().enumerate() {
        assert!(!line.is_empty(), "empty line: {shown}");
        assert!(
            !line.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)),
            "line end or NUL: {shown}"
        );
        if i == 0 {
            continue;
        }
        let colon = line
            .iter()
            .position(|&b| b == b':')
            .unwrap_or_else(|| panic!("no colon: {shown}"));
        let name = &line[..colon];
        assert!(
            !name.is_empty() && !name.iter().any(|&b| b <= b' ' || b == 0x7f),
            "bad name: {shown}"
        );
        if name.eq_ignore_ascii_case(b"content-length") {
            framings += 1;
            assert!(
                line[colon + 2..].iter().all(u8::is_ascii_digit),
                "odd length: {shown}"
            );
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            framings += 1;
            assert!(
                line[colon + 2..].eq_ignore_ascii_case(b"chunked"),
                "odd coding: {shown}"
            );
        }
    }
    assert!(framings <= 1, "{framings} framings: {shown}");
}

fn split_crlf(text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(2).position(|w| w == b"\r\n") {
        lines.push(&rest[..at]);
        rest = &rest[at + 2..];
    }
    lines.push(rest);
    lines
}

/// A body as it was read: bytes consumed, whether it ended, payload, trailers.
pub type BodyOutcome = Result<(usize, bool, Vec<u8>, Vec<u8>), ()>;

pub fn read_chunked(input: &[u8], cuts: &[usize]) -> BodyOutcome {
    let mut body = BodyDecoder::new(Framing::Chunked);
    let (mut payload, mut trailers) = (Vec::new(), Vec::new());
    let mut ends: Vec<usize> = cuts.iter().map(|&c| c.min(input.len())).collect();
    ends.push(input.len());
    ends.sort_unstable();
    let mut pos = 0;
    for end in ends {
        let piece = &input[pos..end];
        let step = body.decode_parts(piece, &mut |part| match part {
            BodyPart::Data(bytes) => payload.extend_from_slice(bytes),
            BodyPart::Trailers(bytes) => trailers.extend_from_slice(bytes),
        });
        let step = step.map_err(|_| ())?;
        assert!(step.consumed <= piece.len() && (step.done || step.consumed == piece.len()));
        pos += step.consumed;
        if step.done {
            return Ok((pos, true, payload, trailers));
        }
    }
    Ok((pos, false, payload, trailers))
}

/// The decoder agrees with a plain model, however the input is cut, and so does `advance`, which
/// walks over chunks partly by `skip` as splice does.
pub fn check_chunked(input: &[u8], cuts: &[usize]) {
    let model = model_chunked(input);
    let shown = input.escape_ascii();
    assert_eq!(read_chunked(input, &[]), model, "{shown}");
    assert_eq!(read_chunked(input, cuts), model, "cut at {cuts:?}: {shown}");
    let spliced = splice_chunked(input);
    assert_eq!(
        spliced,
        model.map(|(consumed, done, ..)| (consumed, done)),
        "{shown}"
    );
}

/// Looks at one byte at a time, and at payload not at all.
fn splice_chunked(input: &[u8]) -> Result<(usize, bool), ()> {
    let mut body = BodyDecoder::new(Framing::Chunked);
    let mut pos = 0;
    while pos < input.len() && !body.is_done() {
        let blind = usize::try_from(body.spliceable())
            .unwrap_or(usize::MAX)
            .min(input.len() - pos);
        if blind > 0 {
            body.skip(blind as u64);
            pos += blind;
        } else {
            pos += body.advance(&input[pos..=pos]).map_err(|_| ())?.consumed;
        }
    }
    Ok((pos, body.is_done()))
}

/// RFC 9112 section 7.1 over a whole input, with the same bounds as the decoder.
fn model_chunked(input: &[u8]) -> BodyOutcome {
    let mut payload = Vec::new();
    let mut pos = 0;
    let mut overhead = 0u64;
    loop {
        let rest = &input[pos..];
        let digits = rest.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let mut size = 0u128;
        for (i, &b) in rest[..digits].iter().enumerate() {
            if i > 0 && size == 0 {
                overhead += 1;
            }
            size = size * 16 + u128::from((b as char).to_digit(16).unwrap());
            if size >= 1 << 52 || overhead > u64::from(CHUNK_EXTENSION_MAX) {
                return Err(());
            }
        }
        if digits == 0 {
            return if rest.is_empty() {
                Ok((pos, false, payload, vec![]))
            } else {
                Err(())
            };
        }
        // Blanks, then an extension up to the CRLF.
        let after = &rest[digits..];
        let line_end = after
            .iter()
            .position(|&b| (b < 0x20 && b != b'\t') || b == 0x7f)
            .unwrap_or(after.len());
        let extension = &after[..line_end];
        let blanks = extension
            .iter()
            .take_while(|b| matches!(b, b' ' | b'\t'))
            .count();
        overhead += match extension.get(blanks) {
            None => blanks as u64,
            Some(b';') => extension.len() as u64 - 1,
            Some(_) => return Err(()),
        };
        if overhead > u64::from(CHUNK_EXTENSION_MAX) {
            return Err(());
        }
        match after[line_end..] {
            [] | [b'\r'] => return Ok((input.len(), false, payload, vec![])),
            [b'\r', b'\n', ..] => {}
            _ => return Err(()),
        }
        pos += digits + line_end + 2;
        if size == 0 {
            return model_trailers(&input[pos..])
                .map(|(len, done)| (pos + len, done, payload, input[pos..pos + len].to_vec()));
        }
        overhead = overhead
            .saturating_sub(u64::try_from(size).unwrap().min(u64::from(u32::MAX) - 16) + 16);
        let take = usize::try_from(size)
            .unwrap_or(usize::MAX)
            .min(input.len() - pos);
        payload.extend_from_slice(&input[pos..pos + take]);
        pos += take;
        match input[pos..] {
            [] | [b'\r'] => return Ok((input.len(), false, payload, vec![])),
            [b'\r', b'\n', ..] => pos += 2,
            _ => return Err(()),
        }
    }
}

/// Length of the trailer section at the start of `input`, and whether it ends there.
fn model_trailers(input: &[u8]) -> Result<(usize, bool), ()> {
    let max = TRAILERS_MAX as usize;
    let mut pos = 0;
    loop {
        let line = &input[pos..];
        let name = line.iter().take_while(|&&b| is_token(&[b])).count();
        let bound = |len: usize| if pos + len > max { Err(()) } else { Ok(()) };
        match line.get(name) {
            None => return bound(name).map(|()| (input.len(), false)),
            Some(b'\r') if name == 0 => {
                return match line[1..] {
                    _ if pos + 1 > max => Err(()),
                    [] => Ok((input.len(), false)),
                    [b'\n', ..] => Ok((pos + 2, true)),
                    _ => Err(()),
                };
            }
            Some(b':') if name > 0 => {}
            Some(_) => return Err(()),
        }
        let forbidden: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];
        if forbidden
            .iter()
            .any(|f| line[..name].eq_ignore_ascii_case(f))
        {
            return Err(());
        }
        let end = line
            .iter()
            .skip(name)
            .position(|&b| (b < 0x20 && b != b'\t') || b == 0x7f);
        let Some(end) = end.map(|n| n + name) else {
            return bound(line.len()).map(|()| (input.len(), false));
        };
        bound(end)?;
        match line[end..] {
            [b'\r'] => return bound(end + 1).map(|()| (input.len(), false)),
            [b'\r', b'\n', ..] => bound(end + 2)?,
            _ => return Err(()),
        }
        pos += end + 2;
    }
}
