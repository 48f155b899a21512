//! The volumes of a pod: what is mounted into its containers beside their root file systems.
//!
//! The agent orders them as data ([`spec`]); the pod's holder makes them, in its own mount namespace, so that the kernel
//! takes them all away with the holder.

pub mod spec;
