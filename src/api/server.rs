//! The server half: one request a connection, answered from memory. It holds no state of its own; what it knows comes
//! from a [`Backend`].

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;
use std::time::Duration;

use async_channel::Receiver;
use futures_lite::future;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use smol::{Async, LocalExecutor, Timer};
use smol_hyper::rt::FuturesIo;

use super::address::Address;
use super::types::{
    AgentStatus, Changes, Description, Draining, EventRecord, ObjectView, PlanView,
};
use crate::figures::Depth;
use crate::pod::PodUid;

/// Connections served at once; more wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 32;
/// Longest life of a connection, a long poll included.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(60);
/// A long poll answers after this even without news.
pub const LONG_POLL: Duration = Duration::from_secs(30);
/// Pause after a failed accept (no descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What the server asks of the agent. Every answer comes from memory, but for the summary.
pub trait Backend {
    /// The agent itself.
    fn status(&self) -> AgentStatus;
    /// Every pod, with full status.
    fn pods(&self) -> Vec<Pod>;
    /// One pod.
    fn describe(&self, uid: &PodUid) -> Option<Description>;
    /// Oldest first.
    fn events(&self) -> Vec<EventRecord>;
    /// ConfigMaps and Secrets, without values of the latter.
    fn objects(&self) -> Vec<ObjectView>;
    /// What would be done now, and why.
    fn plan(&self) -> PlanView;
    /// Resource figures as JSON, or why there are none; by a child, so that they come later.
    fn summary(&self, depth: Depth) -> Receiver<Result<Vec<u8>, String>>;
    /// Rises with each visible change.
    fn generation(&self) -> u64;
    /// Closed at the next rise of the generation.
    fn changed(&self) -> Receiver<Infallible>;
    /// End every pod, then the agent.
    fn stop(&self);
    /// End every pod, turn by turn, and start none from now on.
    fn drain(&self) -> Draining;
}

/// Why the agent could not listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody answers there already.
    #[error("another agent (pid {pid}) answers on {socket}")]
    InUse {
        /// The peer's pid, as the kernel tells it.
        pid: i32,
        /// The socket.
        socket: std::path::PathBuf,
    },
    /// The socket could not be made.
    #[error("listen on {socket}")]
    Bind {
        /// The socket.
        socket: std::path::PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Makes the socket with mode 0600; a socket left by a dead agent is replaced.
pub fn listen(socket: &std::path::Path) -> Result<Async<UnixListener>, ListenError> {
    let connected = Address::of(socket).and_then(|address| UnixStream::connect(address.path()));
    if let Ok(stream) = connected {
        let pid = rustix::net::sockopt::socket_peercred(&stream)
            .map_or(0, |peer| peer.pid.as_raw_nonzero().get());
        return Err(ListenError::InUse {
            pid,
            socket: socket.to_path_buf(),
        });
    }
    bind(socket).map_err(|source| ListenError::Bind {
        socket: socket.to_path_buf(),
        source,
    })
}

fn bind(socket: &std::path::Path) -> io::Result<Async<UnixListener>> {
    use std::os::unix::fs::PermissionsExt;
    crate::sys::remove::file(socket)?;
    let listener = Async::<UnixListener>::bind(Address::of(socket)?.path())?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Accepts and serves for ever; each connection is a task of `executor`.
pub async fn serve<B: Backend + 'static>(
    listener: Async<UnixListener>,
    backend: Rc<B>,
    executor: Rc<LocalExecutor<'static>>,
) {
    let open = Rc::new(Cell::new(0_usize));
    loop {
        if open.get() >= MAX_CONNECTIONS {
            Timer::after(ACCEPT_PAUSE).await;
            continue;
        }
        let Ok((stream, _)) = listener.accept().await else {
            Timer::after(ACCEPT_PAUSE).await;
            continue;
        };
        if !is_root(&stream) {
            continue;
        }
        open.set(open.get() + 1);
        let (backend, open) = (Rc::clone(&backend), Rc::clone(&open));
        executor
            .spawn(async move {
                connection(stream, backend).await;
                open.set(open.get() - 1);
            })
            .detach();
    }
}

/// Invariant 12: root only, whatever the file modes say.
fn is_root<S: AsFd>(stream: &S) -> bool {
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root())
}

async fn connection<B: Backend>(stream: Async<UnixStream>, backend: Rc<B>) {
    let service = hyper::service::service_fn(|request: Request<Incoming>| {
        let backend = Rc::clone(&backend);
        async move { Ok::<_, Infallible>(answer(&request, &*backend).await) }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(16 * 1024)
        .serve_connection(FuturesIo::new(stream), service);
    let served = async {
        // A client that went away is no news.
        let _ = serving.await;
    };
    future::or(served, async {
        Timer::after(CONNECTION_DEADLINE).await;
    })
    .await;
}

type Answer = Response<Full<Bytes>>;

/// Routes one request.
async fn answer<B: Backend>(request: &Request<Incoming>, backend: &B) -> Answer {
    let path = request.uri().path();
    match (request.method(), path) {
        (&Method::GET, "/v1/status") => json(&backend.status()),
        (&Method::GET, "/v1/pods") => json(&List::<Pod> {
            items: backend.pods(),
            ..List::default()
        }),
        (&Method::GET, "/v1/events") => json(&backend.events()),
        (&Method::GET, "/v1/objects") => json(&backend.objects()),
        (&Method::GET, "/v1/plan") => json(&backend.plan()),
        (&Method::GET, "/v1/changes") => changes(request.uri().query(), backend).await,
        (&Method::GET, "/stats/summary") => summary(request.uri().query(), backend).await,
        (&Method::POST, "/v1/stop") => {
            backend.stop();
            empty(StatusCode::ACCEPTED)
        }
        (&Method::POST, "/v1/drain") => json(&backend.drain()),
        (&Method::GET, _) => path
            .strip_prefix("/v1/describe/")
            .map_or_else(|| no_such(path), |uid| describe(uid, backend)),
        _ => no_such(path),
    }
}

fn describe<B: Backend>(uid: &str, backend: &B) -> Answer {
    let found = PodUid::try_from(uid.to_owned())
        .ok()
        .and_then(|uid| backend.describe(&uid));
    match found {
        Some(description) => json(&description),
        None => text(StatusCode::NOT_FOUND, format!("no pod with uid {uid:?}")),
    }
}

async fn summary<B: Backend>(query: Option<&str>, backend: &B) -> Answer {
    let mut wishes = query.unwrap_or_default().split('&');
    let depth = match wishes.any(|wish| wish == "only_cpu_and_memory=true") {
        true => Depth::CpuAndMemory,
        false => Depth::Everything,
    };
    match backend.summary(depth).recv().await {
        Ok(Ok(body)) => of_json(body),
        Ok(Err(message)) => text(StatusCode::INTERNAL_SERVER_ERROR, message),
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "the agent ends".to_owned()),
    }
}

async fn changes<B: Backend>(query: Option<&str>, backend: &B) -> Answer {
    let after = query
        .and_then(|query| query.strip_prefix("after="))
        .map_or(Some(0), |number| number.parse::<u64>().ok());
    let Some(after) = after else {
        return text(StatusCode::BAD_REQUEST, "after must be a number".to_owned());
    };
    let news = async {
        // Another agent than the one that was seen counts from the beginning.
        while backend.generation() == after {
            // Only ever closed, never sent to: this waits for the next rise.
            let _ = backend.changed().recv().await;
        }
    };
    future::or(news, async {
        Timer::after(LONG_POLL).await;
    })
    .await;
    json(&Changes {
        generation: backend.generation(),
    })
}

fn json<T: Serialize>(value: &T) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => of_json(body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn of_json(body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn no_such(path: &str) -> Answer {
    text(StatusCode::NOT_FOUND, format!("no such request: {path}"))
}

fn text(status: StatusCode, message: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(message)));
    *answer.status_mut() = status;
    answer
}

fn empty(status: StatusCode) -> Answer {
    text(status, String::new())
}
