//! Leaves the tables for unwinding (1 MB) out of the release program.
//!
//! A panic there says what and where, and aborts: nothing unwinds. Other builds do, tests among them, and keep their tables.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=release.ld");
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        let directory = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        println!("cargo::rustc-link-arg-bins=-T{directory}/release.ld");
    }
}
