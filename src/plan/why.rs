//! Why an instance of a container ended, in the words of `vetch describe`.

use k8s_openapi::api::core::v1::Container;

use super::absorb::LOST_REASON;
use super::{PastInstance, StopCause};
use crate::holder::proto::Exit;

const SIGKILL: i32 = 9;

/// "its liveness probe failed: HTTP probe failed with statuscode: 500 (exit code 137)".
pub fn last_exit(container: &Container, ended: &PastInstance) -> String {
    let exit = &ended.exit;
    let Some(stop) = &ended.stop else {
        return by_itself(container, exit);
    };
    let killed = if exit.signal == Some(SIGKILL) {
        ", killed when its grace was over"
    } else {
        ""
    };
    format!("{} (exit code {}{killed})", cause(stop), exit.code)
}

fn cause(stop: &StopCause) -> String {
    match stop {
        StopCause::Changed => "its definition changed".to_owned(),
        StopCause::Dropped => "it was taken out of the pod".to_owned(),
        StopCause::Double => "it had been started twice".to_owned(),
        StopCause::PodEnds => "its pod was ended".to_owned(),
        StopCause::NodeDown => {
            "the node went down, or its pod was ended without an agent".to_owned()
        }
        StopCause::Probe { kind, output } => {
            let kind = kind.as_str().to_lowercase();
            said(&format!("its {kind} probe failed"), output)
        }
        StopCause::PostStart { message } => said("its postStart hook failed", message),
        StopCause::RestartAll => "all containers of its pod were restarted".to_owned(),
    }
}

fn by_itself(container: &Container, exit: &Exit) -> String {
    let code = exit.code;
    let message = exit.message.as_deref().unwrap_or_default();
    match (exit.reason.as_str(), exit.signal) {
        ("OOMKilled", _) => format!(
            "it ran out of memory{} (exit code {code})",
            limit(container)
        ),
        ("StartError", _) => said("it could not be started", message),
        (LOST_REASON, _) => message.to_owned(),
        (_, Some(signal)) => {
            format!("it was killed by signal {signal}, which vetch did not send (exit code {code})")
        }
        (_, None) => format!("it ended by itself (exit code {code})"),
    }
}

fn limit(container: &Container) -> String {
    let limits = container.resources.as_ref().and_then(|r| r.limits.as_ref());
    match limits.and_then(|limits| limits.get("memory")) {
        Some(limit) => format!(": its limit is {}", limit.0),
        None => ": it has no limit of its own, so its pod or the node had none left".to_owned(),
    }
}

fn said(what: &str, output: &str) -> String {
    match output.trim() {
        "" => what.to_owned(),
        output => format!("{what}: {output}"),
    }
}
