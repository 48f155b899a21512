//! One run of one check: what a probe finds, and nothing of what follows from it. Stateless. Bounded by its timeout, and in
//! memory; ends all it began when the future is dropped. Its texts are those of Go and kubelet, which people search for.

mod dial;
mod exec;
mod grpc;
mod health;
mod http;
mod request;
#[cfg(test)]
mod tests;
mod tls;
mod url;

use std::cell::Cell;
use std::time::Duration;

use futures_lite::FutureExt;
use smol::Timer;

use self::dial::DialError;
use self::http::{Agent, GetError};
use crate::config::HolderPaths;
use crate::error;
use crate::pod::probe::{Check, HttpGet};
use crate::sys::process::ProcessId;

/// Where a pod's own checks connect to, in its network namespace or the host's.
const OWN_ADDRESS: &str = "127.0.0.1";

/// What one run found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is well.
    Success,
    /// It is well, and something should be said.
    Warning(String),
    /// It is not well.
    Failure(String),
    /// nothing was found out; counts as neither.
    Errored(String),
}

/// Whom a check asks.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where the pod's addresses are.
    pub network: Network,
    /// How to reach its holder.
    pub holder: HolderPaths,
    /// The container that runs now.
    pub container_id: String,
}

/// A network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The one that this process is in.
    Host,
    /// That of this process, a pod's holder.
    Pod(ProcessId),
}

/// Runs a check once. Takes little longer than `timeout`, whatever the other side does.
pub async fn run(check: &Check, target: &Target, timeout: Duration) -> Outcome {
    match check {
        Check::Exec { args } => exec::run(args, target, timeout).await,
        Check::HttpGet(get) => http_get(get, target.network, timeout).await,
        Check::TcpSocket { host, port } => {
            let (network, host) = place(host.as_deref(), target.network);
            tcp_socket(network, host, *port, timeout).await
        }
        Check::Grpc { port, service } => grpc::run(target.network, *port, service, timeout).await,
        Check::Broken { why } => Outcome::Errored(why.clone()),
    }
}

/// P-92: a hook's request, from the network namespace of the caller. Only a transport error fails; a status never does.
/// Has no time limit of its own.
pub async fn hook_get(get: &HttpGet) -> Result<(), String> {
    let stage = Cell::default();
    let agent = Agent::Lifecycle;
    match http::get(get, (Network::Host, OWN_ADDRESS), agent, &stage).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_plain_answer() => http::get(
            &without_tls(get),
            (Network::Host, OWN_ADDRESS),
            agent,
            &stage,
        )
        .await
        .map(drop)
        .map_err(|error| error::chain(&error)),
        Err(error) => Err(error::chain(&error)),
    }
}

/// P-93: a server that does not speak TLS is asked without, but told no secret.
fn without_tls(get: &HttpGet) -> HttpGet {
    let mut get = get.clone();
    get.tls = false;
    get.headers
        .retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
    get
}

/// An explicit host is reached from the host's network, the pod itself from within.
fn place(host: Option<&str>, network: Network) -> (Network, &str) {
    match host {
        Some(host) => (Network::Host, host),
        None => (network, OWN_ADDRESS),
    }
}

async fn http_get(get: &HttpGet, network: Network, timeout: Duration) -> Outcome {
    let place = place(get.host.as_deref(), network);
    let stage = Cell::default();
    let asked = async {
        match http::get(get, place, Agent::Probe, &stage).await {
            Ok(status) if status.is_success() => Outcome::Success,
            Ok(status) if status.is_redirection() => Outcome::Warning(format!(
                "Probe terminated redirects with statuscode: {}",
                status.as_u16()
            )),
            Ok(status) => Outcome::Failure(format!(
                "HTTP probe failed with statuscode: {}",
                status.as_u16()
            )),
            Err(GetError::Request(error)) => Outcome::Errored(error.to_string()),
            Err(error) => failure(&error),
        }
    };
    let late = async {
        Timer::after(timeout).await;
        let url = url::Url::of(get, place.1).to_string();
        Outcome::Failure(format!(
            "Get {url:?}: context deadline exceeded (Client.Timeout exceeded {})",
            stage.get()
        ))
    };
    asked.or(late).await
}

///
async fn tcp_socket(network: Network, host: &str, port: u16, timeout: Duration) -> Outcome {
    let dialled = async {
        match dial::dial(network, host, port).await {
            Ok(_) => Outcome::Success,
            Err(error) => failure(&error),
        }
    };
    let late = async {
        Timer::after(timeout).await;
        Outcome::Failure(format!("dial tcp {}: i/o timeout", dial::join(host, port)))
    };
    dialled.or(late).await
}

/// What our own side lacked says nothing about the other.
fn failure(error: &(dyn std::error::Error + 'static)) -> Outcome {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    let is_ours = causes.any(|cause| {
        matches!(
            cause.downcast_ref::<DialError>(),
            Some(DialError::Socket(_))
        )
    });
    let text = error::chain(error);
    if is_ours {
        Outcome::Errored(text)
    } else {
        Outcome::Failure(text)
    }
}
