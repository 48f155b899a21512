//! Device rules of a container on cgroup v2. On v1 and hybrid systems libcontainer writes them into the devices
//! controller, and there is nothing to do here.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use oci_spec::runtime::{LinuxDeviceCgroup, Spec};
use rustix::fs::{Mode, OFlags};

use super::cgroup::Cgroups;
use crate::oci::devices;
use crate::sys::bpf;

#[cfg(test)]
mod tests;

/// Why devices are not confined.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceError {
    #[error("load the program for devices into the kernel")]
    Load(#[source] io::Error),
    #[error("attach the program for devices to {path}")]
    Attach { path: PathBuf, source: io::Error },
}

/// Whether this kernel and our rights are enough for device rules on v2; else why not.
pub fn are_enforceable() -> io::Result<()> {
    bpf::load_device_program(&devices::refusal()).map(drop)
}

/// From now on the rules of the specification hold for what is in the cgroup, which exists. On a kernel that has no such
/// programs nothing happens: the agent has then withheld CAP_MKNOD.
pub(super) fn enforce(cgroups: &Cgroups, cgroup: &str, spec: &Spec) -> Result<(), DeviceError> {
    let Some(dir) = cgroups.unified_dir(cgroup).filter(|_| cgroups.is_unified()) else {
        return Ok(());
    };
    let resources = spec
        .linux()
        .as_ref()
        .and_then(|linux| linux.resources().as_ref());
    let rules = resources.and_then(|resources| resources.devices().as_deref());
    match attach(&dir, rules.unwrap_or_default()) {
        Err(DeviceError::Load(_)) if are_enforceable().is_err() => Ok(()),
        result => result,
    }
}

fn attach(dir: &Path, rules: &[LinuxDeviceCgroup]) -> Result<(), DeviceError> {
    let Some(program) = devices::program(rules) else {
        return Ok(());
    };
    let program = bpf::load_device_program(&program).map_err(DeviceError::Load)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty())
        .map_err(io::Error::from)
        .and_then(|dir| bpf::attach(&program, dir.as_fd()))
        .map_err(|source| DeviceError::Attach {
            path: dir.to_owned(),
            source,
        })
}
