//! `map_*`: the input looked up in a file of keys and values. How each matches is in [`crate::pattern`].

use crate::args::Arg;
use crate::compile::ParseCtx;
use crate::conv::BadArg;
use crate::conv::operand::{int_arg, prepared, set_prepared, str_arg, text_arg};
use crate::env::Env;
use crate::pattern::MapRef;
use crate::pattern::file_hint;
use crate::value::{Absent, Fetched, Sample};

converters! {
    "map" (Str; Str) Str -> Str, lookup, prepare |args, ctx| prepare("map", args, ctx)
        => "Looks the input up in a map by an equal string, gives the value.";
    "map_beg" (Str; Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_beg", args, ctx)
        => "Looks the input up in a map by the beginning of the input, gives the value.";
    "map_beg_int" (Str; Sint) Str -> Sint, lookup, prepare |args, ctx| prepare("map_beg_int", args, ctx)
        => "Looks the input up in a map by the beginning of the input, gives the value as a number.";
    "map_beg_ip" (Str; Str) Str -> Addr, lookup, prepare |args, ctx| prepare("map_beg_ip", args, ctx)
        => "Looks the input up in a map by the beginning of the input, gives the value as an address.";
    "map_beg_key" (Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_beg_key", args, ctx)
        => "Looks the input up in a map by the beginning of the input, gives the key that matched.";
    "map_dir" (Str; Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_dir", args, ctx)
        => "Looks the input up in a map by a path component, gives the value.";
    "map_dir_int" (Str; Sint) Str -> Sint, lookup, prepare |args, ctx| prepare("map_dir_int", args, ctx)
        => "Looks the input up in a map by a path component, gives the value as a number.";
    "map_dir_ip" (Str; Str) Str -> Addr, lookup, prepare |args, ctx| prepare("map_dir_ip", args, ctx)
        => "Looks the input up in a map by a path component, gives the value as an address.";
    "map_dir_key" (Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_dir_key", args, ctx)
        => "Looks the input up in a map by a path component, gives the key that matched.";
    "map_dom" (Str; Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_dom", args, ctx)
        => "Looks the input up in a map by a domain component, gives the value.";
    "map_dom_int" (Str; Sint) Str -> Sint, lookup, prepare |args, ctx| prepare("map_dom_int", args, ctx)
        => "Looks the input up in a map by a domain component, gives the value as a number.";
    "map_dom_ip" (Str; Str) Str -> Addr, lookup, prepare |args, ctx| prepare("map_dom_ip", args, ctx)
        => "Looks the input up in a map by a domain component, gives the value as an address.";
    "map_dom_key" (Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_dom_key", args, ctx)
        => "Looks the input up in a map by a domain component, gives the key that matched.";
    "map_end" (Str; Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_end", args, ctx)
        => "Looks the input up in a map by the end of the input, gives the value.";
    "map_end_int" (Str; Sint) Str -> Sint, lookup, prepare |args, ctx| prepare("map_end_int", args, ctx)
        => "Looks the input up in a map by the end of the input, gives the value as a number.";
    "map_end_ip" (Str; Str) Str -> Addr, lookup, prepare |args, ctx| prepare("map_end_ip", args, ctx)
        => "Looks the input up in a map by the end of the input, gives the value as an address.";
    "map_end_key" (Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_end_key", args, ctx)
        => "Looks the input up in a map by the end of the input, gives the key that matched.";
    "map_int" (Str; Str) Sint -> Str, lookup, prepare |args, ctx| prepare("map_int", args, ctx)
        => "Looks the input up in a map by a number or a range, gives the value.";
    "map_int_int" (Str; Sint) Sint -> Sint, lookup, prepare |args, ctx| prepare("map_int_int", args, ctx)
        => "Looks the input up in a map by a number or a range, gives the value as a number.";
    "map_int_ip" (Str; Str) Sint -> Addr, lookup, prepare |args, ctx| prepare("map_int_ip", args, ctx)
        => "Looks the input up in a map by a number or a range, gives the value as an address.";
    "map_int_key" (Str) Sint -> Str, lookup, prepare |args, ctx| prepare("map_int_key", args, ctx)
        => "Looks the input up in a map by a number or a range, gives the key that matched.";
    "map_ip" (Str; Str) Addr -> Str, lookup, prepare |args, ctx| prepare("map_ip", args, ctx)
        => "Looks the input up in a map by an address or a network, gives the value.";
    "map_ip_int" (Str; Sint) Addr -> Sint, lookup, prepare |args, ctx| prepare("map_ip_int", args, ctx)
        => "Looks the input up in a map by an address or a network, gives the value as a number.";
    "map_ip_ip" (Str; Str) Addr -> Addr, lookup, prepare |args, ctx| prepare("map_ip_ip", args, ctx)
        => "Looks the input up in a map by an address or a network, gives the value as an address.";
    "map_ip_key" (Str) Addr -> Str, lookup, prepare |args, ctx| prepare("map_ip_key", args, ctx)
        => "Looks the input up in a map by an address or a network, gives the key that matched.";
    "map_reg" (Str; Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_reg", args, ctx)
        => "Looks the input up in a map by a regular expression, gives the value.";
    "map_reg_int" (Str; Sint) Str -> Sint, lookup, prepare |args, ctx| prepare("map_reg_int", args, ctx)
        => "Looks the input up in a map by a regular expression, gives the value as a number.";
    "map_reg_ip" (Str; Str) Str -> Addr, lookup, prepare |args, ctx| prepare("map_reg_ip", args, ctx)
        => "Looks the input up in a map by a regular expression, gives the value as an address.";
    "map_reg_key" (Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_reg_key", args, ctx)
        => "Looks the input up in a map by a regular expression, gives the key that matched.";
    "map_regm" (Str; Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_regm", args, ctx)
        => "Looks the input up in a map by a regular expression, gives the value with `\\1` replaced by what was captured.";
    "map_str" (Str; Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_str", args, ctx)
        => "Looks the input up in a map by an equal string, gives the value.";
    "map_str_int" (Str; Sint) Str -> Sint, lookup, prepare |args, ctx| prepare("map_str_int", args, ctx)
        => "Looks the input up in a map by an equal string, gives the value as a number.";
    "map_str_ip" (Str; Str) Str -> Addr, lookup, prepare |args, ctx| prepare("map_str_ip", args, ctx)
        => "Looks the input up in a map by an equal string, gives the value as an address.";
    "map_str_key" (Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_str_key", args, ctx)
        => "Looks the input up in a map by an equal string, gives the key that matched.";
    "map_sub" (Str; Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_sub", args, ctx)
        => "Looks the input up in a map by a part of the input, gives the value.";
    "map_sub_int" (Str; Sint) Str -> Sint, lookup, prepare |args, ctx| prepare("map_sub_int", args, ctx)
        => "Looks the input up in a map by a part of the input, gives the value as a number.";
    "map_sub_ip" (Str; Str) Str -> Addr, lookup, prepare |args, ctx| prepare("map_sub_ip", args, ctx)
        => "Looks the input up in a map by a part of the input, gives the value as an address.";
    "map_sub_key" (Str) Str -> Str, lookup, prepare |args, ctx| prepare("map_sub_key", args, ctx)
        => "Looks the input up in a map by a part of the input, gives the key that matched.";
}

/// Loads the map; a default that is left out makes a miss give nothing.
fn prepare(name: &'static str, args: &mut Vec<Arg>, ctx: &ParseCtx<'_>) -> Result<(), BadArg> {
    let default = match args.get(1) {
        Some(Arg::Str(_)) => Some(text_arg(args, 1)?.to_string()),
        _ => int_arg(args, 1).map(|i| i.to_string()),
    };
    if str_arg(args, 0).is_empty() {
        return Err(BadArg::new(0, "the map's file is missing"));
    }
    let file = text_arg(args, 0)?;
    let map = MapRef::for_converter(name, file, default.as_deref(), ctx)
        .map_err(|message| BadArg::new(0, message).hint(file_hint(file, ctx)))?;
    set_prepared(args, 0, map);
    Ok(())
}

fn lookup<'a>(args: &'a [Arg], sample: Sample<'a>, _: &'a dyn Env) -> Fetched<'a> {
    let map = prepared::<MapRef>(args, 0).ok_or(Absent::Never)?;
    let value = map.lookup(&sample.value).ok_or(Absent::Never)?;
    Ok(Sample { value, ..sample })
}

#[cfg(test)]
mod tests {
    use crate::conv::testing::{check_all, check_new, check_refused};

    /// Fills in the path of a test map: `map(str.map)`.
    fn check(cases: &[(&str, Option<&str>)], asks: fn(&[(&str, Option<&str>)])) {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/map/");
        let cases: Vec<(String, Option<&str>)> = cases
            .iter()
            .map(|(e, v)| (e.replacen("(@", &format!("({dir}"), 1), *v))
            .collect();
        let cases: Vec<_> = cases.iter().map(|(e, v)| (e.as_str(), *v)).collect();
        asks(&cases);
    }

    #[test]
    fn strings() {
        check(
            &[
                ("str(red),map(@str.map)", Some("rouge fonce")),
                ("str(blue),map_str(@str.map)", Some("bleu")),
                ("str(green),map(@str.map)", None),
                ("str(green),map(@str.map,vert)", Some("vert")),
                ("str(),map(@str.map,vert)", Some("vert")),
                ("str(abcdef),map_beg(@str.map)", Some("first")),
                ("str(xabc),map_end(@str.map)", Some("first")),
                ("str(xabcx),map_sub(@str.map)", Some("first")),
                ("str(/a/img/c),map_dir(@str.map)", Some("images")),
                ("str(www.example.com),map_dom(@str.map)", Some("site")),
                ("str(www.example.com),map_end(@str.map)", Some("site")),
            ],
            check_all,
        );
    }

    #[test]
    fn numbers_and_addresses() {
        check(
            &[
                ("int(5),map_int(@int.map)", Some("small")),
                ("int(42),map_int(@int.map)", Some("answer")),
                ("str(2000),map_int(@int.map)", Some("big")),
                ("int(11),map_int(@int.map)", None),
                ("str(192.0.2.7),map_ip(@ip.map)", Some("doc")),
                ("ipv4(192.0.2.200),map_ip(@ip.map)", Some("half")),
                ("ipv6(2001:db8::9),map_ip(@ip.map)", Some("six")),
                ("str(10.0.0.2),map_ip(@ip.map,none)", Some("none")),
            ],
            check_all,
        );
    }

    #[test]
    fn results() {
        check(
            &[
                ("str(b),map_str_int(@num.map),add(1)", Some("71")),
                ("str(c),map_str_int(@num.map,9)", Some("9")),
                ("str(c),map_str_int(@num.map)", None),
                ("str(a),map_str_ip(@addr.map)", Some("192.0.2.5")),
                ("str(b),map_str_ip(@addr.map)", Some("2001:db8::5")),
                (
                    "str(c),map_str_ip(@addr.map,198.51.100.1)",
                    Some("198.51.100.1"),
                ),
                ("str(/user/77/x),map_regm(@reg.map)", Some("id=77")),
                ("str(/b/rest),map_regm(@reg.map)", Some("rest-b")),
                ("str(/b/rest),map_reg(@reg.map)", Some("\\2-\\1")),
            ],
            check_all,
        );
        check(
            &[
                ("str(abcdef),map_beg_key(@str.map)", Some("abc")),
                ("int(5),map_int_key(@int.map)", Some("1:10")),
                (
                    "str(192.0.2.200),map_ip_key(@ip.map)",
                    Some("192.0.2.128/25"),
                ),
                ("str(/b/x),map_reg_key(@reg.map)", Some("^/(a|b)/(.*)$")),
            ],
            check_new,
        );
    }

    #[test]
    fn bad_maps_are_refused() {
        check_refused(&[
            ("str(a),map(/nowhere/x.map)", "x.map"),
            ("str(a),map()", "file"),
            ("str(a),map_str_int(/nowhere/x.map,y)", "integer"),
        ]);
        let numbers = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/map/str.map");
        check_refused(&[(&format!("str(a),map_str_int({numbers})"), "number")]);
    }
}
