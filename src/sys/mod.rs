//! The only unsafe code: one syscall family per file. Prefer rustix; come here for what it lacks. Beside it, without unsafe
//! code, what every room needs of a file system and a clock: `state_file`, `remove`, `mounts`, `clock`.

pub mod bpf;
pub mod clock;
pub mod ioprio;
pub mod keyring;
pub mod mounts;
pub mod netdev;
pub mod netns;
pub mod packet;
pub mod process;
pub mod remove;
pub mod seccomp;
pub mod signals;
pub mod state_file;
pub mod still;
