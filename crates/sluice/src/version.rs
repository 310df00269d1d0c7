//! What `-v` and `-vv` print: the lines that tools grep.

/// The HAProxy version whose language is spoken, as `version_atleast()` and `HAProxy version` know it.
pub const LANGUAGE_VERSION: &str = sluice_config::condition::LANGUAGE_VERSION;

/// Features as `feature()` and `-vv` name them; a name is listed with `-` when it is not there.
pub const FEATURES: &[(&str, bool)] = &[
    ("51DEGREES", false),
    ("ACCEPT4", true),
    ("BACKTRACE", true),
    ("CPU_AFFINITY", true),
    ("CRYPT_H", true),
    ("DEVICEATLAS", false),
    ("DL", false),
    ("EPOLL", true),
    ("GETADDRINFO", true),
    ("KQUEUE", false),
    ("LIBCRYPT", true),
    ("LINUX_SPLICE", true),
    ("LINUX_TPROXY", true),
    ("LUA", false),
    ("NS", false),
    ("OPENSSL", false),
    ("OPENSSL_AWSLC", false),
    ("PCRE2", true),
    ("PCRE2_JIT", true),
    ("POLL", true),
    ("PRCTL", true),
    ("PROMEX", true),
    ("QUIC", false),
    ("RT", true),
    ("SLZ", false),
    ("SYSTEMD", true),
    ("TFO", true),
    ("THREAD", true),
    ("TPROXY", true),
    ("WURFL", false),
    ("ZLIB", false),
];

/// Names that `enabled()` finds.
pub const ENABLED: &[&str] = &["EPOLL", "SPLICE", "REUSEPORT", "GETADDRINFO"];

/// Prints the version; more of it when `full`.
pub fn print(full: bool) {
    println!(
        "HAProxy version {LANGUAGE_VERSION} compatible - Sluice {} {}",
        env!("CARGO_PKG_VERSION"),
        option_env!("SLUICE_DATE").unwrap_or("")
    );
    println!("Status: development branch - not safe for use in production.");
    if let Ok(u) = rustix::system::uname().sysname().to_str() {
        let un = rustix::system::uname();
        let text = |c: &std::ffi::CStr| c.to_string_lossy().into_owned();
        println!(
            "Running on: {u} {} {} {}",
            text(un.release()),
            text(un.version()),
            text(un.machine())
        );
    }
    if !full {
        return;
    }
    println!("Build options :");
    println!("  TARGET  = linux-glibc");
    println!("  CPU     = generic");
    println!("  CC      = rustc");
    println!("  OPTIONS = {}", options());
    println!();
    let list: Vec<String> = FEATURES
        .iter()
        .map(|(n, on)| format!("{}{n}", if *on { '+' } else { '-' }))
        .collect();
    println!("Feature list : {}", list.join(" "));
    println!();
    println!("Default settings :\n  bufsize = 16384, maxrewrite = 1024, maxpollevents = 200\n");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    println!("Built with multi-threading support (MAX_THREADS=64, default={cpus}).");
    println!("Built with the Prometheus exporter as a service");
    println!(
        "Built with transparent proxy support using: IP_TRANSPARENT IPV6_TRANSPARENT IP_FREEBIND"
    );
    println!("Encrypted password support via crypt(3): yes");
    println!();
    println!(
        "Available polling systems :\n      epoll : pref=300,  test result OK\nTotal: 1 (1 usable), will use epoll.\n"
    );
    println!("Available multiplexer protocols :");
    println!("(protocols marked as <default> cannot be specified using 'proto' keyword)");
    println!("  <default> : mode=HTTP  side=FE|BE  mux=H1    flags=HTX");
    println!("         h1 : mode=HTTP  side=FE|BE  mux=H1    flags=HTX|NO_UPG");
    println!("  <default> : mode=TCP   side=FE|BE  mux=PASS  flags=");
    println!("       none : mode=TCP   side=FE|BE  mux=PASS  flags=NO_UPG\n");
    println!("Available services : prometheus-exporter");
    println!("Available filters :\n\t[BWLIM] bwlim-in\n\t[BWLIM] bwlim-out");
}

fn options() -> String {
    let on = FEATURES
        .iter()
        .filter(|(n, on)| *on && matches!(*n, "PCRE2" | "PCRE2_JIT" | "SYSTEMD" | "PROMEX"));
    on.map(|(n, _)| format!("USE_{n}=1"))
        .collect::<Vec<_>>()
        .join(" ")
}
