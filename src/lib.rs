//! vetch: a lightweight static-pod supervisor for edge devices.
//!
//! The map, top to bottom. A room may use those below it, where the flow needs it; what it may name of those above it,
//! which is vocabulary, is said in `tests/purity.rs`:
//!
//! - [`cli`]: one file per command; the only code that prints.
//! - [`agent`]: the async shell. Sources → desired, holders → observed, [`plan`], apply.
//! - [`api`]: the agent's local HTTP API, server and client half.
//! - [`figures`]: what machine, pods and containers use, and whether the node runs short of it.
//! - [`holder`]: the sync shell. One process per pod: namespaces, rootfs, libcontainer, logs, exec.
//! - [`probe`]: one run of one check: HTTP, TCP, gRPC, exec.
//! - [`image`]: the local image store.
//! - [`oci`]: a runtime specification for each container, and what goes with it. Pure.
//! - [`volume`]: what is mounted into containers beside their roots.
//! - [`plan`]: the decision what to do next. Pure.
//! - [`network`]: the hosts, resolv.conf and hostname files of a pod.
//! - [`config`]: every setting, every default, every path.
//! - [`pod`]: manifests, read and understood. Pure.
//! - [`sys`]: the only unsafe code, one syscall family per file.
//!
//! Pure is no I/O, no clock, no logging (a test checks their imports). Beside them, [`error`]: how errors are told.

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
