//! The `sluice-lab` command; everything is in the library.

fn main() -> std::process::ExitCode {
    sluice_lab::cli::main()
}
