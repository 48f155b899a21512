//! `regex-lite` under the name of its large sibling; see Cargo.toml beside this file.

pub use regex_lite::*;
