//! The client half: blocking calls for the CLI, one connection each.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use futures_lite::future;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use smol::{Async, Timer};
use smol_hyper::rt::FuturesIo;

use super::address::Address;
use super::server::LONG_POLL;
use super::types::{
    AgentStatus, Changes, Description, Draining, EventRecord, ObjectView, PlanView,
};
use crate::config::Paths;
use crate::figures::Depth;
use crate::pod::{PodUid, stored};

/// The agent answers from memory; one that needs longer is stuck.
const DEADLINE: Duration = Duration::from_secs(10);
/// Some answers come from a child that looks around first.
const SLOW_DEADLINE: Duration = Duration::from_secs(60);
/// Largest answer read: 200 pods with events are about 2 MiB.
const MAX_ANSWER: usize = 64 << 20;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no agent answers on {socket}; is `vetch agent` running?")]
    NoAgent {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket is there but cannot be used.
    #[error("connect to the agent on {socket}")]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The agent went away, or what answers is no agent.
    #[error("talk to the agent on {socket}")]
    Talk {
        /// The socket.
        socket: PathBuf,
        /// Cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer in time.
    #[error("the agent on {socket} did not answer within {seconds} s")]
    Late {
        /// The socket.
        socket: PathBuf,
        /// How long we waited.
        seconds: u64,
    },
    /// The agent says no.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// What the agent says.
        message: String,
    },
    /// The answer is not what this version expects.
    #[error("understand the agent's answer to {path}")]
    Decode {
        /// What was asked.
        path: String,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
}

/// What we need of a PodList.
#[derive(Deserialize)]
struct Pods {
    #[serde(deserialize_with = "stored::pods")]
    items: Vec<Pod>,
}

/// Talks to the agent of a run directory.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// Names the agent; connects only when asked something.
    pub fn new(paths: &Paths) -> Self {
        Self {
            socket: paths.api_socket(),
        }
    }
    /// The agent itself.
    pub fn status(&self) -> Result<AgentStatus, ClientError> {
        self.get("/v1/status")
    }
    /// Every pod, with full status.
    pub fn pods(&self) -> Result<Vec<Pod>, ClientError> {
        Ok(self.get::<Pods>("/v1/pods")?.items)
    }
    /// Everything about one pod; `Refused` with 404 when there is none with this UID.
    pub fn describe(&self, uid: &PodUid) -> Result<Description, ClientError> {
        self.get(&format!("/v1/describe/{uid}"))
    }
    /// Events, oldest first.
    pub fn events(&self) -> Result<Vec<EventRecord>, ClientError> {
        self.get("/v1/events")
    }
    /// ConfigMaps and Secrets, without values of the latter.
    pub fn objects(&self) -> Result<Vec<ObjectView>, ClientError> {
        self.get("/v1/objects")
    }
    /// What the agent would do now, and why.
    pub fn plan(&self) -> Result<PlanView, ClientError> {
        self.get("/v1/plan")
    }
    /// H-24: resource figures.
    pub fn summary(&self, depth: Depth) -> Result<serde_json::Value, ClientError> {
        let path = match depth {
            Depth::CpuAndMemory => "/stats/summary?only_cpu_and_memory=true",
            Depth::Everything => "/stats/summary",
        };
        decode(path, &self.call(Method::GET, path, SLOW_DEADLINE)?)
    }
    /// Waits until the generation is not `after`, or for 30 s.
    pub fn changes(&self, after: u64) -> Result<Changes, ClientError> {
        let path = format!("/v1/changes?after={after}");
        let body = self.call(Method::GET, &path, LONG_POLL + DEADLINE)?;
        decode(&path, &body)
    }
    /// Makes the agent end every pod and then itself; returns at once.
    pub fn stop(&self) -> Result<(), ClientError> {
        self.call(Method::POST, "/v1/stop", DEADLINE).map(drop)
    }
    /// Makes the agent end every pod, turn by turn, and start none from now on; returns at once.
    pub fn drain(&self) -> Result<Draining, ClientError> {
        let path = "/v1/drain";
        decode(path, &self.call(Method::POST, path, DEADLINE)?)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        decode(path, &self.call(Method::GET, path, DEADLINE)?)
    }

    fn call(&self, method: Method, path: &str, deadline: Duration) -> Result<Bytes, ClientError> {
        smol::block_on(future::or(self.exchange(method, path), async {
            Timer::after(deadline).await;
            Err(ClientError::Late {
                socket: self.socket.clone(),
                seconds: deadline.as_secs(),
            })
        }))
    }

    async fn exchange(&self, method: Method, path: &str) -> Result<Bytes, ClientError> {
        let connected = Address::of(&self.socket)
            .and_then(|address| UnixStream::connect(address.path()))
            .and_then(Async::new);
        let stream = connected.map_err(|source| self.unreachable(source))?;
        let (mut sender, connection) = http1::handshake(FuturesIo::new(stream))
            .await
            .map_err(|source| self.talk(source))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(hyper::header::HOST, "vetch")
            .body(Empty::<Bytes>::new())
            .map_err(|source| self.talk(source))?;
        let asked = async {
            let answer = sender
                .send_request(request)
                .await
                .map_err(|source| self.talk(source))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER)
                .collect()
                .await
                .map_err(|source| self.talk(source))?;
            accepted(status, body.to_bytes())
        };
        let (asked, _) = future::zip(asked, connection).await;
        asked
    }

    fn unreachable(&self, source: io::Error) -> ClientError {
        let socket = self.socket.clone();
        if matches!(
            source.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        ) {
            ClientError::NoAgent { socket }
        } else {
            ClientError::Connect { socket, source }
        }
    }

    fn talk(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
        ClientError::Talk {
            socket: self.socket.clone(),
            source: source.into(),
        }
    }
}

fn accepted(status: StatusCode, body: Bytes) -> Result<Bytes, ClientError> {
    if status.is_success() {
        Ok(body)
    } else {
        Err(ClientError::Refused {
            status: status.as_u16(),
            message: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

fn decode<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|source| ClientError::Decode {
        path: path.to_owned(),
        source,
    })
}
