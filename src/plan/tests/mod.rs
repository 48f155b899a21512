//! Tests of the plan: whole plans from tables, and laws over a simulated node.

mod admission;
mod changes;
mod details;
mod fixtures;
mod laws;
mod lifecycle;
mod phase;
mod shutdown;
mod sim;
mod sim_apply;
mod sim_node;
mod stop;
