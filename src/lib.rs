//! vetch: a lightweight static-pod supervisor for edge devices.
//!
//! The map, top to bottom; a room may use those below it only where the flow needs it:
//!
//! - [`cli`]: one file per command; the only code that prints.
//! - [`agent`]: the async shell. Sources → desired, holders → observed, [`plan`], apply.
//! - [`api`]: the agent's local HTTP API, server and client half.
//! - [`holder`]: the sync shell. One process per pod: namespaces, rootfs, libcontainer, logs, exec.
//! - [`figures`]: what machine, pods and containers use, and whether the node runs short of it.
//! - [`image`]: the local image store.
//! - [`network`]: the hosts, resolv.conf and hostname files of a pod.
//! - [`volume`]: what is mounted into containers beside their roots.
//! - [`probe`]: one run of one check: HTTP, TCP, gRPC, exec.
//! - [`oci`], [`plan`], [`pod`]: pure decisions; no I/O, no clock, no logging (a test checks their imports).
//! - [`config`]: every setting, every default, every path.
//! - [`error`]: how errors are told.
//! - [`sys`]: the only unsafe code, one syscall family per file.

pub mod agent;
pub mod api;
pub mod cli;
pub mod config;
pub mod error;
pub mod figures;
pub mod holder;
pub mod image;
pub mod network;
pub mod oci;
pub mod plan;
pub mod pod;
pub mod probe;
pub mod sys;
pub mod volume;
