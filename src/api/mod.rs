//! The agent's local HTTP API over its Unix socket (0600, in a 0700 directory, peer uid checked): server half in the
//! agent, client half in the CLI, and the types both share.

mod address;
pub mod client;
pub mod server;
#[cfg(test)]
mod tests;
pub mod types;
