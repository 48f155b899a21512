//! Tests of the plan: whole plans from tables, and laws over a simulated node.

mod fixtures;
mod laws;
mod lifecycle;
mod sim;
