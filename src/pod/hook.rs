//! What lifecycle hooks do, with names and ports resolved (section 2.7 of the specification). The holder runs them.

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};
use serde::{Deserialize, Serialize};

use super::probe::{self, ActionError, HttpGet};

/// A lifecycle hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hook {
    /// P-91: in the container, with its environment and user; fails unless it exits 0.
    Exec {
        /// argv, verbatim.
        args: Vec<String>,
    },
    /// P-92: only a transport error fails.
    HttpGet(HttpGet),
    /// P-94.
    Sleep {
        /// Milliseconds.
        ms: u64,
    },
    /// P-95: it cannot be run (tcpSocket, unknown port name, …), and fails.
    Broken {
        /// Lower case, no full stop.
        why: String,
    },
}

/// `lifecycle.postStart`.
pub fn post_start(container: &Container) -> Option<Hook> {
    let lifecycle = container.lifecycle.as_ref()?;
    Some(hook(container, lifecycle.post_start.as_ref()?))
}

/// `lifecycle.preStop`.
pub fn pre_stop(container: &Container) -> Option<Hook> {
    let lifecycle = container.lifecycle.as_ref()?;
    Some(hook(container, lifecycle.pre_stop.as_ref()?))
}

fn hook(container: &Container, handler: &LifecycleHandler) -> Hook {
    let outcome = match (&handler.exec, &handler.http_get, &handler.sleep) {
        (Some(exec), None, None) => Ok(Hook::Exec {
            args: exec.command.clone().unwrap_or_default(),
        }),
        (None, Some(get), None) => probe::http_get(container, get).map(Hook::HttpGet),
        (None, None, Some(sleep)) => Ok(Hook::Sleep {
            ms: u64::try_from(sleep.seconds)
                .unwrap_or(0)
                .saturating_mul(1000),
        }),
        (None, None, None) if handler.tcp_socket.is_some() => Err(ActionError::TcpHook),
        (None, None, None) => Err(ActionError::NoHandler),
        (..) => Err(ActionError::ManyHandlers),
    };
    outcome.unwrap_or_else(|error| Hook::Broken {
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests;
