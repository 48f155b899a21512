//! Tests of the plan: whole plans from tables, and laws over a simulated node.

mod admission;
mod changes;
mod containers;
mod deadline;
mod details;
mod eviction;
mod fixtures;
mod hooks;
mod init;
mod laws;
mod lifecycle;
mod phase;
mod ports;
mod probes;
mod rules;
mod shutdown;
mod sidecars;
mod sim;
mod status;
mod stop;
mod story;
mod sysctls;
