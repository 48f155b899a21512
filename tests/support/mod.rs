//! What the tests share. A test with a real agent looks like this:
//!
//! ```ignore
//! #[expect(dead_code, reason = "the harness has more than is needed here")]
//! mod support;
//!
//! use serde_json::json;
//! use support::agent::TestAgent;
//! use support::manifest::{LIVES, manifest};
//! use support::wait::{can_run, wait_for};
//!
//! #[test]
//! fn a_container_that_fails_is_restarted() {
//!     if !can_run() {
//!         return; // its reason is printed and counted
//!     }
//!     let agent = TestAgent::start(); // private directories, busybox in the store
//!     agent.put("web.yaml", &manifest("web", 2, "exit 3"));
//!     let status = agent.wait_for_status("web", "a restart", |status| {
//!         (status["containerStatuses"][0]["restartCount"] == 1).then(|| status.clone())
//!     });
//!     let last = &status["containerStatuses"][0]["lastState"]["terminated"];
//!     assert_eq!(last["exitCode"], json!(3));
//! }
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | `agent` | [`agent::TestAgent`]: starts, kills, ends and reboots an agent; its directories and processes |
//! | `watch` | what a [`agent::TestAgent`] shows: pods, statuses, events, logs; waiting for them |
//! | `ask` | the commands of a person, asked of a [`agent::TestAgent`] |
//! | `manifest` | manifests, and the script of a container that lives until it is told to end |
//! | `wait` | where tests can run, how long, waiting for a condition |
//! | `web` | [`web::Web`]: an HTTP server on loopback that answers as the test says, well or badly |
//! | `witness` | [`witness::Witness`]: hears what containers do, in order, and lets them wait for the test |
//! | `loopback` | the server under both: who accepts, and the end |
//! | `disk` | [`disk::SmallDisk`]: a disk that is soon full |
//! | `logs` | a log without a holder, and what is in it |
//! | `images` | images made on the spot |
//! | `sandbox`, `wire`, `mounts` | a holder without an agent, a connection to it, and volumes for it |
//!
//! Rules: every wait has a condition and a deadline, nothing sleeps; a manifest has `hostNetwork: true` (which
//! [`manifest::pod`] writes), so that no test depends on a bridge; every directory, cgroup and process ends with its value.
//! A new file `tests/<theme>.rs` is found by cargo, and by `tests/run`, by itself.

pub mod agent;
pub mod ask;
pub mod disk;
pub mod images;
pub mod logs;
pub mod loopback;
pub mod manifest;
pub mod mounts;
pub mod sandbox;
pub mod wait;
pub mod watch;
pub mod web;
pub mod wire;
pub mod witness;
