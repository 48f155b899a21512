//! What the administrator of this node has prepared for confining containers, read when one of them asks for it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use rustix::fs::{Mode, OFlags};

use crate::config::Paths;
use crate::oci::seccomp::{Profile, ProfileError};
use crate::oci::{self, NodeFacts};

#[cfg(test)]
mod tests;

/// Bytes of the largest profile that is read; Docker's default has 15 KiB.
const MAX_PROFILE: u64 = 1 << 20;

/// C-51: why a `localhostProfile` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileFileError {
    /// It is not there, or no plain text.
    #[error("load seccomp profile {path}")]
    Read {
        /// Where it should be.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// It is no profile.
    #[error("load seccomp profile {path}")]
    Profile {
        /// Where it is.
        path: PathBuf,
        /// Where and why not.
        source: ProfileError,
    },
}

/// C-54: the AppArmor profiles that are loaded now, one a line; none if they cannot be read.
pub fn apparmor_profiles(node: &NodeFacts) -> Option<String> {
    if !node.apparmor {
        return None;
    }
    fs::read_to_string("/sys/kernel/security/apparmor/profiles").ok()
}

/// C-51: the profile that a container asks for.
pub fn seccomp_profile(
    paths: &Paths,
    pod: &Pod,
    container: &Container,
) -> Result<Option<Profile>, ProfileFileError> {
    let Some(name) = oci::localhost_profile(pod, container) else {
        return Ok(None);
    };
    let path = paths.seccomp_profiles().join(name);
    let text = match read(Path::new(name), &path) {
        Ok(text) => text,
        Err(source) => return Err(ProfileFileError::Read { path, source }),
    };
    Profile::parse(&text)
        .map(Some)
        .map_err(|source| ProfileFileError::Profile { path, source })
}

/// What is in the directory is the administrator's, links that lead out of it included; the name is the manifest's.
fn read(name: &Path, path: &Path) -> io::Result<String> {
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.as_os_str().is_empty() || !name.components().all(is_plain) {
        let why = "a relative path without .. is asked for";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    // A FIFO would be waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("no plain file"));
    }
    if metadata.len() > MAX_PROFILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut text = String::new();
    file.take(MAX_PROFILE).read_to_string(&mut text)?;
    Ok(text)
}
