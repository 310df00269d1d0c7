//! What holds for every converter and every byte: it comes back, with a value of the type it promises, that does not depend
//! on how the bytes are held. Shared by the fuzz target and the tests.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::compile::Expr;
use crate::conv::Run;
use crate::place::Place;
use crate::testing::{TestEnv, compile};
use crate::value::{Absent, Sample, Type, Value};

/// Each working converter that opens no file, with arguments it takes.
const EXAMPLES: &[&str] = &[
    "add(3)",
    "add_item(\",\",txn.x,y)",
    "aes_cbc_dec(128,AAECAwQFBgcICQoLDA0ODw==,AAECAwQFBgcICQoLDA0ODw==)",
    "aes_cbc_enc(256,AAECAwQFBgcICQoLDA0ODw==,AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=)",
    "aes_gcm_dec(128,AAECAwQFBgcICQoLDA0ODw==,AAECAwQFBgcICQoLDA0ODw==,AAECAwQFBgcICQoLDA0ODw==)",
    "aes_gcm_enc(192,AAECAwQFBgcICQoL,AAECAwQFBgcICQoLDA0ODxAREhMUFRYX,txn.tag,AAAA)",
    "and(7)",
    "b64dec",
    "base2",
    "base64",
    "be2dec(:,3,1)",
    "be2dec(:,8)",
    "be2hex(:,3,1)",
    "be2hex",
    "bool",
    "bytes(2)",
    "bytes(1,3)",
    "capture-req(0)",
    "capture-res(0)",
    "concat(a,txn.x,b)",
    "cpl",
    "crc32(1)",
    "crc32c",
    "cut_crlf",
    "date",
    "debug(x)",
    "digest(md5)",
    "digest(sha3-512)",
    "div(0)",
    "div(-1)",
    "djb2(1)",
    "eth.data",
    "eth.dst",
    "eth.hdr",
    "eth.proto",
    "eth.src",
    "eth.vlan",
    "even",
    "fe_exists",
    "field(2,/ ,0)",
    "field(-2,/ ,3)",
    "fix_is_valid",
    "fix_tag_value(35)",
    "has_ctl",
    "hex",
    "hex2i",
    "hmac(sha512,a2V5)",
    "host_only",
    "htonl",
    "http_date(5)",
    "http_date(0,us)",
    "iif(a,b)",
    "ip.data",
    "ip.df",
    "ip.dst",
    "ip.fp(7)",
    "ip.hdr",
    "ip.proto",
    "ip.src",
    "ip.tos",
    "ip.ttl",
    "ip.ver",
    "ipmask(9,9)",
    "json",
    "json(utf8)",
    "json(utf8ps)",
    "json_query('$.a[1].b')",
    "json_query('$','int')",
    "jwt_decrypt_jwk('{\"kty\":\"oct\",\"k\":\"AAECAwQFBgcICQoLDA0ODw\"}')",
    "jwt_decrypt_secret(AAECAwQFBgcICQoLDA0ODw==)",
    "jwt_header_query",
    "jwt_header_query('$.alg')",
    "jwt_payload_query('$.exp','int')",
    "jwt_verify(HS256,secret)",
    "jwt_verify(none,secret)",
    "language(en;fr,de)",
    "le2dec(:,3)",
    "length",
    "lower",
    "ltime(%c|%Z|%G-%V|%10s)",
    "ltrim(ab)",
    "mod(0)",
    "mod(-1)",
    "mqtt_field_value(connect,username)",
    "mqtt_field_value(connack,31)",
    "mqtt_is_valid",
    "ms_ltime(%3N)",
    "ms_utime(%N)",
    "mul(-3)",
    "nbsrv",
    "neg",
    "not",
    "odd",
    "or(8)",
    "param(a)",
    "port_only",
    "protobuf(1)",
    "protobuf(1.2.3,sint64)",
    "regsub('a*','<\\\\0>',g)",
    "reverse",
    "reverse_dom",
    "rfc7239_field(for)",
    "rfc7239_is_valid",
    "rfc7239_n2nn",
    "rfc7239_n2np",
    "rfc7239_nn",
    "rfc7239_np",
    "rtrim(ab)",
    "sdbm(1)",
    "secure_memcmp(txn.x)",
    "set-var(txn.x,ifnotset)",
    "sha1",
    "sha2(384)",
    "srv_is_up",
    "srv_queue",
    "strcmp(txn.x)",
    "sub(3)",
    "tcp.dst",
    "tcp.flags",
    "tcp.options.mss",
    "tcp.options.sack",
    "tcp.options.tsopt",
    "tcp.options.tsval",
    "tcp.options.wscale",
    "tcp.options.wsopt",
    "tcp.options_list",
    "tcp.seq",
    "tcp.src",
    "tcp.win",
    "ub64dec",
    "ub64enc",
    "ungrpc(1.2,float)",
    "unset-var(txn.x)",
    "upper",
    "url_dec",
    "url_dec(1)",
    "url_enc",
    "us_ltime(%S.%6N)",
    "us_utime(%s)",
    "utime(%_5d%-H%^a%#Z%z,7)",
    "when(!error)",
    "word(2,/ ,0)",
    "word(-2,/ ,3)",
    "wt6(1)",
    "x509_v_err_str",
    "xor(3)",
    "xxh3(1)",
    "xxh32(1)",
    "xxh64(1)",
];

static ALL: LazyLock<Vec<Expr>> = LazyLock::new(|| {
    let chain = |chain: &&str| {
        compile(&format!("str(),{chain}"), Place::empty())
            .unwrap_or_else(|e| panic!("{chain}: {}", e.message))
    };
    EXAMPLES.iter().map(chain).collect()
});

/// Every converter on these bytes, as text and as binary, borrowed and owned, and on the number they begin with.
pub fn check_converters(data: &[u8]) {
    let env = TestEnv::bytes(b"", true);
    let mut number = [0; 8];
    for (to, from) in number.iter_mut().zip(data) {
        *to = *from;
    }
    let number = Value::Sint(i64::from_le_bytes(number));
    for expr in ALL.iter() {
        let text = outcome(expr, Value::Str(Cow::Borrowed(data)), &env);
        let owned = outcome(expr, Value::Str(Cow::Owned(data.to_vec())), &env);
        assert_eq!(text, owned, "{expr:?} looks at who owns its input");
        let _ = outcome(expr, Value::Bin(Cow::Borrowed(data)), &env);
        let _ = outcome(expr, number.clone(), &env);
    }
}

/// The steps of an expression on a value.
fn outcome<'a>(
    expr: &'a Expr,
    value: Value<'a>,
    env: &'a TestEnv,
) -> Result<Value<'static>, Absent> {
    env.vars.borrow_mut().clear();
    let mut sample = Sample::new(value);
    for step in expr.steps.iter() {
        let Run::Fn(run) = step.def.run else {
            return Err(Absent::Never);
        };
        if let Some(to) = step.cast {
            sample.value = sample.value.cast(to).ok_or(Absent::Never)?;
        }
        let input = sample.value.type_of();
        sample = run(&step.args, sample, env)?;
        let got = sample.value.type_of();
        let fits = match step.def.out {
            Type::Any => true,
            Type::Same => got == input,
            Type::Addr => matches!(got, Type::Ipv4 | Type::Ipv6),
            // A string taken as bytes may stay the string it was, and `protobuf` gives integers.
            Type::Bin => matches!(got, Type::Bin | Type::Str | Type::Sint),
            out => got == out,
        };
        assert!(fits, "{expr:?} gave {got:?}");
    }
    Ok(sample.value.into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conv;
    use crate::testing::oracle::replay;

    #[test]
    fn every_converter_has_its_example() {
        for def in conv::all().iter().filter(|d| matches!(d.run, Run::Fn(_))) {
            let opens_files = def.name.starts_with("map") || def.name.ends_with("_cert");
            let has = EXAMPLES
                .iter()
                .any(|e| e.split('(').next() == Some(def.name));
            assert!(has || opens_files, "{} has no example", def.name);
        }
    }

    #[test]
    fn converters_hold_on_the_corpora() {
        replay("content", check_converters);
        replay("http1_request", check_converters);
        replay("converter", check_converters);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn converters_hold_on_any_bytes(data in prop::collection::vec(any::<u8>(), 0..200)) {
            check_converters(&data);
        }

        /// Inputs that mean something, cut short and with bytes changed.
        #[test]
        fn converters_hold_on_damaged_inputs(
            which: prop::sample::Index,
            cut: prop::sample::Index,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
                let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/converter");
                let files = std::fs::read_dir(dir).expect("the corpus");
                files.map(|f| std::fs::read(f.expect("an entry").path()).expect("an input")).collect()
            });
            let mut data = which.get(&CORPUS).clone();
            for (at, byte) in changes {
                let at = at.index(data.len());
                data[at] = byte;
            }
            data.truncate(cut.index(data.len()) * 2 + 1);
            check_converters(&data);
        }
    }
}
