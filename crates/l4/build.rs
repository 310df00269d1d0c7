//! Compiles the XDP programs with clang. Without clang the crate still builds: everything but the datapath works, and
//! loading it says what to install.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("director.bpf.o");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    // Where clang will be once it is installed: cargo looks again when the file appears.
    println!("cargo:rerun-if-changed=/usr/bin/clang");
    println!("cargo:rerun-if-changed=/usr/include/bpf/bpf_helpers.h");
    let include = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let result = Command::new(&clang)
        .args([
            "-O2",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-target",
            "bpf",
            "-mcpu=v3",
            &include,
            "-c",
            "bpf/director.bpf.c",
            "-o",
        ])
        .arg(&out)
        .output();
    let why = match result {
        Ok(done) if done.status.success() => return,
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            // Headers that are missing are as good as no compiler; anything else is a mistake in the program.
            assert!(
                said.contains("file not found"),
                "clang cannot compile bpf/director.bpf.c:\n{said}"
            );
            "its headers are missing"
        }
        Err(_) => "clang is missing",
    };
    println!(
        "cargo:warning=sluice-l4 is built without its XDP programs, since {why}: apt-get install clang libbpf-dev linux-libc-dev"
    );
    if let Err(e) = std::fs::write(&out, b"") {
        println!("cargo:warning=cannot write {}: {e}", out.display());
    }
}
