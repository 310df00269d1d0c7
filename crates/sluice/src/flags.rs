//! The command line: HAProxy's flags, parsed by hand because they are (management guide, chapter 3).

/// What the command line asks for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Flags {
    /// Files and directories, in order (`-f`, and what follows `--`).
    pub files: Vec<String>,
    pub check: bool,
    /// `-cc`: evaluate a condition and exit.
    pub condition: Option<String>,
    /// `-C`: change to this directory first.
    pub directory: Option<String>,
    pub daemon: bool,
    /// `-db`, `-d`: stay in the foreground whatever the configuration says.
    pub foreground: bool,
    pub debug: bool,
    pub verbose: bool,
    pub quiet: bool,
    /// `-dW`: warnings are errors.
    pub zero_warning: bool,
    /// `-dD`: diagnostics too.
    pub diag: bool,
    /// `-dr`: servers whose names have no address are disabled.
    pub ignore_unresolved: bool,
    pub no_splice: bool,
    pub no_reuseport: bool,
    /// `-W`, `-Ws`.
    pub master_worker: bool,
    pub notify_systemd: bool,
    /// `--worker`: started by a master process, which is behind this descriptor.
    pub worker: Option<i32>,
    /// `-S`: the master's command socket.
    pub master_socket: Option<String>,
    pub local_peer: Option<String>,
    pub maxconn: Option<u32>,
    /// `-m`: megabytes of address space.
    pub memory_mb: Option<u64>,
    pub pidfile: Option<String>,
    /// `-sf`: these processes finish their sessions and leave.
    pub finish: Vec<i32>,
    /// `-st`: these leave at once.
    pub terminate: Vec<i32>,
    /// `-x`: the old process's stats socket, to take its listeners from.
    pub old_socket: Option<String>,
    /// `-v` is 1, `-vv` 2.
    pub version: u8,
    /// `-dK`: the classes to dump ("all", "cfg", "smp"...).
    pub dump_keywords: Option<String>,
    /// `-dC`: print the configuration as read.
    pub dump_config: bool,
}

/// Why the command line cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    #[error("'{0}' is not a flag of Sluice; run it with -h to see them")]
    Unknown(String),
    #[error("'{0}' needs {1} behind it")]
    Missing(String, &'static str),
    #[error("'{0}' expects a number, not '{1}'")]
    Number(String, String),
    #[error("usage")]
    Usage,
}

/// Reads the arguments behind the program's name.
pub fn parse(args: &[String]) -> Result<Flags, FlagError> {
    let mut f = Flags::default();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        let mut value = |what| {
            rest.next()
                .cloned()
                .ok_or_else(|| FlagError::Missing(arg.clone(), what))
        };
        match arg.as_str() {
            "-f" => {
                f.files.push(value("a file or directory")?);
                // HAProxy takes several names behind one -f
                while let Some(next) = rest.peek().filter(|a| !a.starts_with('-')) {
                    f.files.push(next.to_string());
                    rest.next();
                }
            }
            "--" => f.files.extend(rest.by_ref().cloned()),
            "-c" => f.check = true,
            "-cc" => f.condition = Some(value("a condition")?),
            "-C" => f.directory = Some(value("a directory")?),
            "-D" => f.daemon = true,
            "-db" => f.foreground = true,
            "-d" => {
                f.foreground = true;
                f.debug = true;
            }
            "-V" => f.verbose = true,
            "-q" => f.quiet = true,
            "-dW" => f.zero_warning = true,
            "-dD" => f.diag = true,
            "-dr" => f.ignore_unresolved = true,
            "-dS" => f.no_splice = true,
            "-dR" => f.no_reuseport = true,
            "-W" => f.master_worker = true,
            "-Ws" => {
                f.master_worker = true;
                f.notify_systemd = true;
            }
            "--worker" => f.worker = Some(number(arg, &value("a descriptor")?)? as i32),
            "-S" => f.master_socket = Some(value("an address")?),
            "-L" => f.local_peer = Some(value("a name")?),
            "-n" => f.maxconn = Some(number(arg, &value("a number")?)? as u32),
            "-N" => _ = number(arg, &value("a number")?)?,
            "-m" => f.memory_mb = Some(number(arg, &value("megabytes")?)?),
            "-p" => f.pidfile = Some(value("a file")?),
            "-x" => f.old_socket = Some(value("a socket")?),
            "-sf" | "-st" => {
                let list = if arg == "-sf" {
                    &mut f.finish
                } else {
                    &mut f.terminate
                };
                while let Some(pid) = rest.peek().and_then(|a| a.parse().ok()) {
                    list.push(pid);
                    rest.next();
                }
            }
            "-v" => f.version = 1,
            "-vv" => f.version = 2,
            "-dC" => f.dump_config = true,
            "-h" | "--help" => return Err(FlagError::Usage),
            // pollers, poisoning, profiling, tracing: nothing of it exists here, and all of it is harmless
            "-de" | "-dp" | "-dk" | "-dG" | "-dI" | "-dV" | "-dZ" | "-dF" | "-dL" | "-dv"
            | "-dt" => {}
            a if a.starts_with("-dM") || a.starts_with("-dt") => {}
            a if a.starts_with("-dC") => f.dump_config = true,
            a if a.starts_with("-dK") => f.dump_keywords = Some(a[3..].to_string()),
            _ => return Err(FlagError::Unknown(arg.clone())),
        }
    }
    Ok(f)
}

/// A master's arguments as its workers get them: without what is the master's own, and what is for the first worker only.
pub fn worker_args(args: &[String], first: bool) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "-W" | "-Ws" | "-D" => {}
            "-S" | "-p" | "-C" => _ = rest.next(),
            "-x" if !first => _ = rest.next(),
            "-sf" | "-st" if !first => {
                while rest.peek().is_some_and(|a| a.parse::<i32>().is_ok()) {
                    rest.next();
                }
            }
            "--" => {
                out.push(arg.clone());
                out.extend(rest.by_ref().cloned());
            }
            _ => out.push(arg.clone()),
        }
    }
    // what follows must not be taken for a file
    if let Some(at) = out.iter().position(|a| a == "--") {
        let files = out.split_off(at + 1);
        out.pop();
        for file in files {
            out.extend(["-f".to_string(), file]);
        }
    }
    out
}

fn number(flag: &str, text: &str) -> Result<u64, FlagError> {
    text.parse()
        .map_err(|_| FlagError::Number(flag.into(), text.into()))
}

/// What `-h` prints.
pub const USAGE: &str = "\
Usage: sluice [-f <file|dir>]* [flags] [-- <file>*]
  -c              check the configuration and exit (0: valid, 1: not)
  -cc <cond>      evaluate a condition of '.if' and exit (0: true, 1: false, 2: error)
  -dC             print the configuration as it was read
  -dD / -dW       also report diagnostics / refuse to start with warnings
  -dK<class>      list the language: all, acl, cfg, cli, cnv, flt, smp, svc; later: what does
                  not simply work, as class, name, state and part
  -v / -vv        version / with build options
  -C <dir>        change to <dir> before reading files
  -D / -db        run in the background / stay in the foreground
  -d / -V / -q    debug / verbose / quiet
  -W / -Ws        run under a service manager (-Ws: tell systemd when ready)
  -S <addr>       the master's command socket
  -L <name>       local peer name
  -n <n> / -m <n> process-wide maxconn / memory limit in megabytes
  -p <file>       write the process number there
  -sf/-st <pid>*  when ready, tell these to finish / to terminate
  -x <socket>     take the listeners of the process behind this stats socket
  -dr             disable servers whose names have no address, and start
  -dS / -dR       no splicing / no port sharing between threads
";

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Flags, FlagError> {
        parse(
            &line
                .split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn what_varnishtest_and_service_managers_write() {
        let f = check("-d -f /tmp/h1/cfg").unwrap();
        assert!(f.debug && f.foreground && f.files == ["/tmp/h1/cfg"]);
        let f =
            check("-Ws -f /etc/haproxy/haproxy.cfg -p /run/haproxy.pid -sf 12 13 -x /run/s.sock")
                .unwrap();
        assert!(
            f.notify_systemd
                && f.finish == [12, 13]
                && f.old_socket.as_deref() == Some("/run/s.sock")
        );
        let f = check("-c -V -f a b -- c d").unwrap();
        assert_eq!(f.files, ["a", "b", "c", "d"]);
    }

    #[test]
    fn workers_get_what_is_not_the_masters() {
        let args =
            |line: &str| -> Vec<String> { line.split_whitespace().map(String::from).collect() };
        let line = "-Ws -f a.cfg -p /run/x.pid -S /run/m.sock,level,user -D -n 9 -sf 12 13 -x /run/s.sock -- b.cfg c";
        assert_eq!(
            worker_args(&args(line), true).join(" "),
            "-f a.cfg -n 9 -sf 12 13 -x /run/s.sock -f b.cfg -f c"
        );
        assert_eq!(
            worker_args(&args(line), false).join(" "),
            "-f a.cfg -n 9 -f b.cfg -f c"
        );
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(
            check("-f"),
            Err(FlagError::Missing("-f".into(), "a file or directory"))
        );
        assert_eq!(
            check("--config x"),
            Err(FlagError::Unknown("--config".into()))
        );
        assert_eq!(
            check("-n many"),
            Err(FlagError::Number("-n".into(), "many".into()))
        );
    }
}
