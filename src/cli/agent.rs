//! `vetch agent`: the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use super::CliError;
use crate::agent::log::Log;
use crate::config::{self, Overrides};

/// Run the pods of a manifest directory, until stopped; pods outlive the agent
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch agent\n  vetch agent --pod-manifest-path /srv/pods --hostname-override edge-1\n\nFlags win over the configuration file. SIGTERM ends the agent and leaves the pods running; `vetch stop --all` ends both."
)]
pub struct Args {
    /// Configuration file (a KubeletConfiguration) [default: /etc/vetch/config.yaml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of manifests, or one manifest [default: /etc/kubernetes/manifests]
    #[arg(long, value_name = "PATH")]
    pod_manifest_path: Option<PathBuf>,
    /// Durable state: images and pods [default: /var/lib/vetch]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
    /// State of one boot: sockets and holders [default: /run/vetch]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Parent of pods/ and containers/ [default: /var/log]
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// Cgroup below which all pods live [default: /vetch]
    #[arg(long, value_name = "CGROUP")]
    cgroup_root: Option<String>,
    /// Node name [default: the host name, in lower case]
    #[arg(long, value_name = "NAME")]
    hostname_override: Option<String>,
    /// Labels of the node, for pods that select their node; on top of the configuration file's
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    node_labels: Vec<String>,
}

/// Loads the configuration and becomes the agent.
pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let overrides = Overrides {
        pod_manifest_path: args.pod_manifest_path,
        root_dir: args.root_dir,
        run_dir: args.run_dir,
        log_dir: args.log_dir,
        cgroup_root: args.cgroup_root,
        node_name: args.hostname_override,
        node_labels: args.node_labels,
    };
    let loaded = config::load(args.config.as_deref(), overrides)?;
    for warning in &loaded.warnings {
        Log::from_env().warn(warning);
    }
    crate::agent::run(loaded.config)?;
    Ok(ExitCode::SUCCESS)
}
