//! Parsing and evaluating whole expressions.

use std::borrow::Cow;

use proptest::prelude::*;
use sluice_expr::pattern::Store;
use sluice_expr::place::Place;
use sluice_expr::{Expr, ExprError, Loader, ParseCtx, Type};

struct NoFiles;
impl Loader for NoFiles {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        Err(format!("there is no file '{path}'"))
    }
    fn env(&self, name: &str) -> Option<String> {
        (name == "GREETING").then(|| "hello".into())
    }
}

fn with_ctx<T>(place: Place, use_it: impl FnOnce(&ParseCtx<'_>) -> T) -> T {
    let store = Store::new();
    use_it(&ParseCtx {
        place,
        loader: &NoFiles,
        store: &store,
        file: "test.cfg",
        line: 1,
        http: true,
        acls: None,
    })
}

fn parse(text: &str) -> Result<Expr, ExprError> {
    with_ctx(Place::empty(), |ctx| Expr::parse(text, ctx))
}

/// The value without a stream, as text.
fn value(text: &str) -> Option<String> {
    let expr = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let env = sluice_expr::env::Nowhere::default();
    let sample = expr.eval(&env).ok()?;
    let mut out = Vec::new();
    sample.value.write_text(&mut out);
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// The answers are those of HAProxy 2.6 to `%[...]`.
#[test]
fn arguments_have_quotes_of_their_own() {
    let check = |text: &str, want: &str| assert_eq!(value(text).as_deref(), Some(want), "{text}");
    check("str(abc)", "abc");
    check("str( abc )", " abc ");
    check(r#"str("a,b")"#, "a,b");
    check(r#"str("a)b")"#, "a)b");
    check("str('a)b')", "a)b");
    check(r#"str(a\"b)"#, "a\"b");
    check(r#"str("a\"b")"#, "a\"b");
    check(r#"str(a"b c"d)"#, "ab cd");
    check(r"str(a\nb)", "a\nb");
    check(r#"str("a\tb")"#, "a\tb");
    check(r"str('a\tb')", r"a\tb");
    check(r"str(a\x41)", r"a\x41");
    check(r"str(a\ b)", "a b");
    check(r#"str("a\$b")"#, r"a\$b");
    check(r#"str("$HOME")"#, "$HOME");
    check("str(a''b)", "ab");
    check(r#"str("a"'b'c)"#, "abc");
    check("str()", "");
    check("str", "");
    check("int(-5)", "-5");
    check("int(+5)", "5");
    check("int(99999999999999999999)", "9223372036854775807");
    check("bool(TRUE)", "1");
    check("bool(0)", "0");
    check("ipv6(::1.2.3.4)", "::1.2.3.4");
    check("meth(get)", "get");
    check("bin(4142)", "AB");
    check("bin(41004142)", "A");
    check("env(GREETING)", "hello");
    check("always_true", "1");
    assert_eq!(value("env(NOTHING)"), None);
    for refused in [
        r"str(a\,b)",
        r"str(a\)b)",
        "str(a,b)",
        "str(\"a)",
        "str(a",
        "str(a)x",
        r"str(\",
    ] {
        assert!(parse(refused).is_err(), "{refused}");
    }
}

#[test]
fn converters_follow_after_commas() {
    let check = |text: &str, want: Option<&str>| assert_eq!(value(text).as_deref(), want, "{text}");
    check("str(a),,upper", Some("A"));
    check("str(abc),bytes(0,2)", Some("ab"));
    check("str(12ab),add(1)", Some("13"));
    check("str(ab),add(1)", Some("1"));
    check("str(),add(1)", None);
    check("str(-7x),add(0)", Some("-7"));
    check("bool(true),add(1)", Some("2"));
    check("ipv4(1.2.3.4),add(1)", Some("16909061"));
    check(
        "int(9223372036854775807),add(1)",
        Some("9223372036854775807"),
    );
    check("bin(41004142),upper", Some("A"));
    check("int(5),bytes(0,8)", Some(""));
    check("str(a),base64", Some("YQ=="));
    check("int(65),base64", Some("AAAAAAAAAEE="));
}

#[test]
fn the_type_of_the_result_is_known_before() {
    let check = |text: &str, want: Type| assert_eq!(parse(text).expect(text).out, want, "{text}");
    check("src", Type::Addr);
    check("src,ipmask(24)", Type::Addr);
    check("path,length", Type::Sint);
    check("var(txn.x)", Type::Any);
    check("req.hdr(a),lower,base64", Type::Str);
}

#[test]
fn a_prefix_ends_where_something_else_begins() {
    let (expr, end) = with_ctx(Place::LOG, |ctx| {
        Expr::parse_prefix("str(a]),upper] and more", ctx)
    })
    .expect("parses");
    assert_eq!((&*expr.text, end), ("str(a]),upper", 13));
    let (expr, end) = with_ctx(Place::LOG, |ctx| Expr::parse_prefix("src]", ctx)).expect("parses");
    assert_eq!((&*expr.text, end), ("src", 3));
}

#[test]
fn converters_may_be_words_of_their_own() {
    let check = |words: &[&str], want: (&str, usize)| {
        let (expr, taken) =
            with_ctx(Place::empty(), |ctx| Expr::parse_words(words, ctx)).expect("parses");
        assert_eq!((&*expr.text, taken), want, "{words:?}");
    };
    check(&["src"], ("src", 1));
    check(&["src", "ipmask(24)", "table", "t"], ("src,ipmask(24)", 2));
    check(
        &["path,lower", ",length", "if", "x"],
        ("path,lower,length", 2),
    );
    let error = with_ctx(Place::empty(), |ctx| {
        Expr::parse_words(&["src", "ipmask(99)"], ctx)
    })
    .expect_err("a bad mask");
    assert_eq!((error.word, error.span), (1, 7..9));
    assert!(with_ctx(Place::empty(), |ctx| Expr::parse_words(&[], ctx)).is_err());
}

#[test]
fn expressions_say_what_they_read() {
    let check = |text: &str, request: bool, response: bool| {
        let expr = parse(text).expect(text);
        assert_eq!(
            (expr.needs_request(), expr.needs_response()),
            (request, response),
            "{text}"
        );
    };
    check("path", true, false);
    check("hdr(x)", true, false);
    check("req.payload(0,1)", true, false);
    check("res.hdr(x)", false, true);
    check("status", false, true);
    check("src", false, false);
    check("str(a)", false, false);
    check("fe_name", false, false);
}

#[test]
fn a_constant_is_borrowed_from_the_expression() {
    let expr = parse("str(abc)").expect("parses");
    let env = sluice_expr::env::Nowhere::default();
    let sample = expr.eval_as(&env, Type::Bin).expect("a value");
    assert!(matches!(
        sample.value,
        sluice_expr::Value::Str(Cow::Borrowed(b"abc"))
    ));
    assert!(expr.eval_as(&env, Type::Sint).is_ok());
    assert!(expr.eval_as(&env, Type::Ipv4).is_err());
}

proptest! {
    /// Whatever is written, there is an expression or a fault inside the text.
    #[test]
    fn nothing_written_breaks_the_parser(text in ".{0,40}") {
        if let Err(error) = parse(&text) {
            prop_assert!(text.get(error.span.clone()).is_some(), "{text:?}: {error:?}");
        }
    }

    /// The same with the characters expressions are made of.
    #[test]
    fn nothing_near_an_expression_breaks_the_parser(
        text in "(str|hdr|src|int|path|payload|var|acl|date)?([(),\"'\\\\ ]|a|ipmask|upper|txn.x|-?[0-9]{1,3}|é){0,12}"
    ) {
        match parse(&text) {
            Ok(expr) => prop_assert_eq!(&*expr.text, text.as_str()),
            Err(error) => prop_assert!(text.get(error.span.clone()).is_some(), "{text:?}: {error:?}"),
        }
    }

    /// A string in quotes comes back as it was.
    #[test]
    fn quoted_arguments_come_back(raw in "[^\"\\\\]{0,20}") {
        let quoted = format!("str(\"{raw}\")");
        let expr = parse(&quoted).expect("parses");
        let env = sluice_expr::env::Nowhere::default();
        let sample = expr.eval(&env).expect("a value");
        prop_assert_eq!(sample.value.bytes(), Some(raw.as_bytes()));
    }
}
