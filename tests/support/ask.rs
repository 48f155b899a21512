//! The commands of a person, asked of a [`TestAgent`].

use std::process::{Command, Stdio};

use serde_json::Value;

use super::agent::TestAgent;

impl TestAgent {
    /// `vetch ARGS` for this agent's directories. What follows `--` stays last.
    pub fn vetch(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vetch"));
        let end = args.iter().position(|arg| *arg == "--");
        let (options, rest) = args.split_at(end.unwrap_or(args.len()));
        command
            .args(options)
            .arg("--run-dir")
            .arg(&self.paths.run_dir);
        if args[0] == "image" {
            command.arg("--root-dir").arg(&self.paths.root_dir);
        }
        command.args(rest).stdin(Stdio::null());
        command
    }

    /// Exit code, stdout and stderr of `vetch ARGS`.
    pub fn answer(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.vetch(args).output().expect("start vetch");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (
            output.status.code().expect("an exit code"),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// Stdout of a command that must succeed.
    pub fn text(&self, args: &[&str]) -> String {
        let (code, stdout, stderr) = self.answer(args);
        assert_eq!(code, 0, "{args:?}: {stderr}");
        stdout
    }

    /// The same for one that prints JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.text(args)).expect("JSON")
    }
}
