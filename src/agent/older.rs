//! What holders cannot do that were started by an older version of vetch: they outlive an upgrade, and go on with what they
//! know.

use crate::holder::proto::{Devices, Seccomp};
use crate::oci::{Launch, NodeFacts};

#[cfg(test)]
mod tests;

/// The first version of the protocol whose holders know volumes, programs for devices, and all of a confinement.
const POD_ENVIRONMENT: u32 = 3;

/// The container asks for more than its holder can do, and would be made without.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the pod was started by an older version, which {0}: remove its manifest and put it back, to start it anew"
)]
pub struct TooOld(&'static str);

/// Whether a holder of this version makes the container as it is meant.
pub fn check(launch: &Launch, version: u32) -> Result<(), TooOld> {
    let confinement = &launch.confinement;
    let is_usual = confinement.apparmor.is_none()
        && confinement.seccomp != Seccomp::Localhost
        && confinement.devices == Devices::Usual;
    if version >= POD_ENVIRONMENT {
        Ok(())
    } else if !launch.volumes.mounts.is_empty() {
        Err(TooOld("knows no volumes"))
    } else if !is_usual {
        Err(TooOld("cannot confine this container as it asks"))
    } else {
        Ok(())
    }
}

/// C-40: the node as it is with a holder of this version. An old one leaves devices to themselves on v2.
pub fn node(node: &NodeFacts, version: u32) -> NodeFacts {
    let knows_programs = version >= POD_ENVIRONMENT;
    NodeFacts {
        device_rules_enforced: node.device_rules_enforced
            && (knows_programs || !node.unified_cgroups),
        ..node.clone()
    }
}
