//! The `vetch` binary: the role is chosen from argv, run, and turned into an exit code.

fn main() -> std::process::ExitCode {
    vetch::cli::main()
}
