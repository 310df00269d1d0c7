//! Fetches of what a client authenticates itself with: the `Authorization` header (RFC 7617 and RFC 6750).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Cursor, arg_str, more, never, request, text};
use crate::args::Arg;
use crate::env::Env;
use crate::value::{Absent, Fetched, Sample, Value};

fetches! {
    "http_auth" (Userlist) -> Bool, REQUEST, accepted
        => "Whether user and password of Basic authentication stand in a userlist.";
    "http_auth_group" (Userlist) -> Str, REQUEST, user_of_list
        => "The user when name and password stand in a userlist; an ACL matches the user's groups.";
    "http_auth_user" () -> Str, REQUEST, |_, env, _| Ok(Sample::string(basic(env)?.0))
        => "The user name of Basic authentication, unchecked.";
    "http_auth_pass" () -> Str, REQUEST, |_, env, _| Ok(Sample::string(basic(env)?.1))
        => "The password of Basic authentication, unchecked.";
    "http_auth_type" () -> Str, REQUEST, |_, env, _| scheme(env)
        => "The authentication scheme: Basic, with valid credentials, or Bearer.";
    "http_auth_bearer" (; Str) -> Str, REQUEST, bearer => "The token of Bearer authentication, or of another header.";
}

/// Scheme and credentials of a header, which must both be there.
fn split(value: &[u8]) -> Result<(&[u8], &[u8]), Absent> {
    let space = memchr::memchr(b' ', value).ok_or(Absent::Never)?;
    let (scheme, rest) = value.split_at(space);
    match rest.trim_ascii() {
        [] => Err(Absent::Never),
        credentials if scheme.is_empty() || credentials.is_empty() => Err(Absent::Never),
        credentials => Ok((scheme, credentials)),
    }
}

fn authorization(env: &dyn Env) -> Result<(&[u8], &[u8]), Absent> {
    let value = request(env)?
        .headers
        .get("authorization")
        .ok_or(Absent::Never)?;
    split(value)
}

/// User and password of Basic authentication.
fn basic(env: &dyn Env) -> Result<(Vec<u8>, Vec<u8>), Absent> {
    let (scheme, credentials) = authorization(env)?;
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return Err(Absent::Never);
    }
    decode(credentials)
}

fn decode(credentials: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Absent> {
    let mut user = STANDARD.decode(credentials).map_err(|_| Absent::Never)?;
    let colon = memchr::memchr(b':', &user).ok_or(Absent::Never)?;
    let password = user.split_off(colon + 1);
    user.truncate(colon);
    Ok((user, password))
}

fn userlist(args: &[Arg]) -> Option<u32> {
    match args.first() {
        Some(Arg::Userlist(list)) => list.id(),
        _ => None,
    }
}

/// User and whether the userlist in the first argument takes the password.
fn checked(args: &[Arg], env: &dyn Env) -> Result<(Vec<u8>, bool), Absent> {
    let list = userlist(args).ok_or(Absent::Never)?;
    let (user, password) = basic(env)?;
    let accepted = env.check_password(list, &user, &password);
    Ok((user, accepted))
}

fn accepted<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    match checked(args, env) {
        Ok((_, accepted)) => Ok(Sample::bool(accepted)),
        Err(absent) => Err(absent),
    }
}

/// The user once the password is right; for an ACL, which compares with groups, each of the user's groups.
fn user_of_list<'a>(args: &'a [Arg], env: &'a dyn Env, cursor: &mut Cursor) -> Fetched<'a> {
    let (user, true) = checked(args, env)? else {
        return never();
    };
    if !cursor.iterates() {
        return Ok(Sample::string(user));
    }
    let list = userlist(args).ok_or(Absent::Never)?;
    let groups = env.groups_of(list, &user).unwrap_or_default();
    let group = groups.get(cursor.0[0] as usize).ok_or(Absent::Never)?;
    cursor.0[0] += 1;
    Ok(more(Value::Str(group.as_bytes().into()), true))
}

fn scheme(env: &dyn Env) -> Fetched<'_> {
    let (scheme, credentials) = authorization(env)?;
    if scheme.eq_ignore_ascii_case(b"basic") {
        decode(credentials)?;
        Ok(Sample::str(b"Basic"))
    } else if scheme.eq_ignore_ascii_case(b"bearer") {
        Ok(Sample::str(b"Bearer"))
    } else {
        never()
    }
}

fn bearer<'a>(args: &'a [Arg], env: &'a dyn Env, _: &mut Cursor) -> Fetched<'a> {
    let headers = &request(env)?.headers;
    let token = |value| match split(value) {
        Ok((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer") => Some(token),
        _ => None,
    };
    match arg_str(args, 0).filter(|name| !name.is_empty()) {
        // a header named here gives a text in any case, as in HAProxy
        Some(name) => Ok(Sample::str(
            headers.get(name).and_then(token).unwrap_or_default(),
        )),
        None => text(headers.get("authorization").and_then(token)),
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::Names;
    use crate::env::{ProxyId, ServerId};
    use crate::place::Place;
    use crate::testing::{TestEnv, compile};
    use crate::value::Value;

    fn with(authorization: &str) -> TestEnv {
        TestEnv::request(format!(
            "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: {authorization}\r\n\r\n"
        ))
    }

    #[test]
    fn basic_credentials_are_taken_apart() {
        with("Basic dXNlcjpwYTpzcw==").check(&[
            ("http_auth_user", Some("user")),
            ("http_auth_pass", Some("pa:ss")),
            ("http_auth_type", Some("Basic")),
            ("http_auth_bearer", None),
        ]);
        with("basic   dXNlcjpwYQ==").check(&[
            ("http_auth_user", Some("user")),
            ("http_auth_pass", Some("pa")),
            ("http_auth_type", Some("Basic")),
        ]);
    }

    #[test]
    fn broken_credentials_are_none() {
        for broken in ["Basic dXNlcg==", "Basic !!!!", "Basic", "Digest abc", ""] {
            with(broken).check(&[
                ("http_auth_user", None),
                ("http_auth_pass", None),
                ("http_auth_type", None),
                ("http_auth_bearer", None),
            ]);
        }
    }

    #[test]
    fn bearer_tokens_come_from_any_header() {
        with("Bearer tok en\r\nX-B: bearer abc").check(&[
            ("http_auth_type", Some("Bearer")),
            ("http_auth_bearer", Some("tok en")),
            ("http_auth_bearer(x-b)", Some("abc")),
            ("http_auth_bearer(none)", Some("")),
        ]);
    }

    struct Lists;
    impl Names for Lists {
        fn frontend(&self, _: &str) -> Option<ProxyId> {
            None
        }
        fn backend(&self, _: &str) -> Option<ProxyId> {
            None
        }
        fn current(&self) -> Option<ProxyId> {
            None
        }
        fn server(&self, _: &str, _: &str) -> Option<ServerId> {
            None
        }
        fn table(&self, _: &str) -> Option<ProxyId> {
            None
        }
        fn userlist(&self, name: &str) -> Option<u32> {
            (name == "staff").then_some(0)
        }
    }

    #[test]
    fn userlists_check_passwords() {
        let mut env = with("Basic dXNlcjpwYQ==");
        let expr = |text: &str| {
            let expr = compile(text, Place::FE_HTTP_REQ).expect(text);
            assert!(expr.resolve(&Lists).is_empty());
            expr
        };
        let (auth, group) = (expr("http_auth(staff)"), expr("http_auth_group(staff)"));
        assert_eq!(env.eval_text(&auth).as_deref(), Some("0"));
        assert_eq!(env.eval_text(&group), None);
        env.users = vec![(
            "user".into(),
            "pa".into(),
            vec!["admin".into(), "dev".into()],
        )];
        assert_eq!(env.eval_text(&auth).as_deref(), Some("1"));
        assert_eq!(env.eval_text(&group).as_deref(), Some("user"));
        let mut cursor = crate::fetch::Cursor::default();
        let mut groups = Vec::new();
        while let Ok(sample) = group.eval_next(&env, &mut cursor) {
            groups.push(sample.value.into_owned());
        }
        assert_eq!(
            groups,
            ["admin", "dev"].map(|g| Value::Str(g.as_bytes().into()))
        );
    }

    #[test]
    fn an_unknown_userlist_is_named() {
        let expr = compile("http_auth(nobody)", Place::FE_HTTP_REQ).expect("compiles");
        let errors = expr.resolve(&Lists);
        assert_eq!(errors.len(), 1);
        assert_eq!(
            errors[0].message,
            "`http_auth`: no userlist is called 'nobody'"
        );
        assert_eq!(errors[0].span, 10..16);
    }
}
