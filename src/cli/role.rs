//! Hidden roles: what vetch starts of itself. They are told apart before the command line is parsed, since they lie on
//! the path to a pod's start and nobody types them.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::agent::{pressure, trash};
use crate::figures;
use crate::holder::logs::compress;
use crate::image::import_dir;

/// Runs a hidden role, if argv names one.
pub fn hidden(argv: &[OsString]) -> Option<ExitCode> {
    match (argv.get(1)?.to_str()?, argv.get(2..)?) {
        ("holder", [dir]) => Some(crate::holder::run(Path::new(dir))),
        (compress::ROLE, [file]) => Some(compress::run(Path::new(file))),
        ("hello", [once]) if once == "--once" => Some(super::hello::greet()),
        ("hello", []) => Some(super::hello::run()),
        (import_dir::ROLE, [root_dir]) => {
            super::output::say_warnings();
            Some(super::image::import_dir(Path::new(root_dir)))
        }
        (pressure::RECLAIM_ROLE, args) => Some(super::image::reclaim(args)),
        (figures::ROLE, args) => Some(figures::run(args)),
        (trash::ROLE, dirs) => Some(trash::run(dirs)),
        _ => None,
    }
}
