//! Fetches of the kernel's view of a TCP connection, `TCP_INFO` (manual chapter 7.3.3).

use super::{arg_int, arg_str, int};
use crate::args::Arg;
use crate::conv::BadArg;
use crate::env::{Env, Side, TcpInfo};
use crate::value::Fetched;

fetches! {
    "fc_rtt" (; Str) -> Sint, CLIENT, |a, env, _| time(a, env, Side::Client, |t| t.rtt_us), prepare |a, _| unit(a)
        => "The round trip time to the client in ms (or `us`).";
    "fc_rttvar" (; Str) -> Sint, CLIENT, |a, env, _| time(a, env, Side::Client, |t| t.rttvar_us), prepare |a, _| unit(a)
        => "The variance of the round trip time to the client in ms (or `us`).";
    "bc_rtt" (; Str) -> Sint, CLIENT, |a, env, _| time(a, env, Side::Server, |t| t.rtt_us), prepare |a, _| unit(a)
        => "The round trip time to the server in ms (or `us`).";
    "bc_rttvar" (; Str) -> Sint, CLIENT, |a, env, _| time(a, env, Side::Server, |t| t.rttvar_us), prepare |a, _| unit(a)
        => "The variance of the round trip time to the server in ms (or `us`).";
    "fc_unacked" (; Str) -> Sint, CLIENT, |_, env, _| count(env, |t| t.unacked), prepare |a, _| unit(a)
        => "Segments sent to the client that it has not acknowledged.";
    "fc_sacked" (; Str) -> Sint, CLIENT, |_, env, _| count(env, |t| t.sacked), prepare |a, _| unit(a)
        => "Segments the client acknowledged out of order.";
    "fc_lost" (; Str) -> Sint, CLIENT, |_, env, _| count(env, |t| t.lost), prepare |a, _| unit(a)
        => "Segments to the client taken for lost.";
    "fc_retrans" (; Str) -> Sint, CLIENT, |_, env, _| count(env, |t| t.retrans), prepare |a, _| unit(a)
        => "Segments being sent to the client again.";
    "fc_fackets" (; Str) -> Sint, CLIENT, |_, env, _| count(env, |t| t.fackets), prepare |a, _| unit(a)
        => "Segments between the first unacknowledged and the last acknowledged one.";
    "fc_reordering" (; Str) -> Sint, CLIENT, |_, env, _| count(env, |t| t.reordering), prepare |a, _| unit(a)
        => "How far segments were seen out of order.";
}

/// The unit in the first argument, as how many µs it has.
fn unit(args: &mut [Arg]) -> Result<(), BadArg> {
    args[0] = match arg_str(args, 0) {
        None | Some(b"" | b"ms") => Arg::Sint(1000),
        Some(b"us") => Arg::Sint(1),
        Some(_) => return Err(BadArg::new(0, "the unit must be ms or us")),
    };
    Ok(())
}

fn time<'a>(
    args: &'a [Arg],
    env: &'a dyn Env,
    side: Side,
    which: fn(&TcpInfo) -> i64,
) -> Fetched<'a> {
    let unit = arg_int(args, 0).unwrap_or(1000).max(1);
    int(env.tcp_info(side).map(|t| which(&t) / unit))
}

fn count<'a>(env: &'a dyn Env, which: fn(&TcpInfo) -> i64) -> Fetched<'a> {
    int(env.tcp_info(Side::Client).map(|t| which(&t)))
}

#[cfg(test)]
mod tests {
    use crate::env::TcpInfo;
    use crate::place::Place;
    use crate::testing::{TestEnv, compile};

    #[test]
    fn the_kernel_is_asked() {
        let mut env = TestEnv::new();
        env.check(&[("fc_rtt", None), ("bc_rtt", None), ("fc_lost", None)]);
        env.client_tcp = Some(TcpInfo {
            rtt_us: 12_345,
            rttvar_us: 678,
            unacked: 1,
            sacked: 2,
            lost: 3,
            retrans: 4,
            fackets: 5,
            reordering: 6,
        });
        env.server_tcp = Some(TcpInfo {
            rtt_us: 5_000,
            rttvar_us: 1_999,
            ..TcpInfo::default()
        });
        env.check(&[
            ("fc_rtt", Some("12")),
            ("fc_rtt(ms)", Some("12")),
            ("fc_rtt(us)", Some("12345")),
            ("fc_rttvar", Some("0")),
            ("fc_rttvar(us)", Some("678")),
            ("bc_rtt", Some("5")),
            ("bc_rttvar", Some("1")),
            ("fc_unacked", Some("1")),
            ("fc_sacked", Some("2")),
            ("fc_lost", Some("3")),
            ("fc_retrans", Some("4")),
            ("fc_fackets", Some("5")),
            ("fc_reordering", Some("6")),
        ]);
        assert!(compile("fc_rtt(s)", Place::empty()).is_err());
    }
}
