//! Both halves against each other over a real socket, with a hand-written agent behind.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;

use async_channel::{Receiver, Sender};
use k8s_openapi::api::core::v1::Pod;
use smol::LocalExecutor;

use super::client::{Client, ClientError};
use super::server::{self, Backend, ListenError};
use super::types::{AgentStatus, Description, Draining, EventRecord, ObjectView, PlanView};
use crate::config::{Paths, ShutdownTurn};
use crate::figures::Depth;
use crate::pod::PodUid;

const TURNS: [ShutdownTurn; 1] = [ShutdownTurn {
    priority: 7,
    grace_ms: u64::MAX,
}];

struct Fake {
    paths: Paths,
    generation: Cell<u64>,
    gate: RefCell<(Sender<Infallible>, Receiver<Infallible>)>,
    done: Sender<()>,
}

impl Fake {
    fn bump(&self) {
        self.generation.set(self.generation.get() + 1);
        *self.gate.borrow_mut() = async_channel::bounded(1);
    }
}

impl Backend for Fake {
    fn status(&self) -> AgentStatus {
        AgentStatus {
            version: "0".into(),
            pid: 1,
            node_name: "box".into(),
            paths: self.paths.clone(),
            pod_manifest_path: "/m".into(),
            ready: true,
            stopping: false,
            draining: false,
            labels: BTreeMap::new(),
            allocatable: None,
            generation: self.generation.get(),
            files: Vec::new(),
            node_conditions: Vec::new(),
            conditions: vec!["odd".into()],
        }
    }
    fn pods(&self) -> Vec<Pod> {
        let mut pod = Pod::default();
        pod.metadata.name = Some("web-box".into());
        vec![pod]
    }
    fn describe(&self, _uid: &PodUid) -> Option<Description> {
        None
    }
    fn events(&self) -> Vec<EventRecord> {
        Vec::new()
    }
    fn objects(&self) -> Vec<ObjectView> {
        Vec::new()
    }
    fn plan(&self) -> PlanView {
        PlanView {
            actions: Vec::new(),
            notes: Vec::new(),
            wake_in_ms: Some(7),
            pods: Vec::new(),
        }
    }
    fn summary(&self, depth: Depth) -> Receiver<Result<Vec<u8>, String>> {
        let (tell, told) = async_channel::bounded(1);
        let answer = match depth {
            Depth::CpuAndMemory => Ok(br#"{"pods":[]}"#.to_vec()),
            Depth::Everything => Err("no cgroups".to_owned()),
        };
        tell.try_send(answer).unwrap();
        told
    }
    fn generation(&self) -> u64 {
        self.generation.get()
    }
    fn changed(&self) -> Receiver<Infallible> {
        self.gate.borrow().1.clone()
    }
    fn stop(&self) {
        self.bump();
        // Full: it is known already.
        let _ = self.done.try_send(());
    }
    fn drain(&self) -> Draining {
        Draining {
            turns: TURNS.into(),
        }
    }
}

/// Runs `ask` in a thread against a server that lives until `ask` has called `stop`.
fn with_server(ask: impl FnOnce(Client) + Send) {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths {
        run_dir: dir.path().into(),
        ..Paths::default()
    };
    let listener = server::listen(&paths.api_socket()).unwrap();
    let (done, finished) = async_channel::bounded(1);
    let client = Client::new(&paths);
    let backend = Rc::new(Fake {
        paths,
        generation: Cell::new(3),
        gate: RefCell::new(async_channel::bounded(1)),
        done,
    });
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || {
            ask(client.clone());
            client.stop().unwrap();
        });
        let executor = Rc::new(LocalExecutor::new());
        let serving = server::serve(listener, backend, Rc::clone(&executor));
        let ended = async {
            // Closed by a panicking asker never happens: the timeout is the way out.
            futures_lite::future::or(
                async {
                    let _ = finished.recv().await;
                },
                async {
                    smol::Timer::after(std::time::Duration::from_secs(20)).await;
                },
            )
            .await;
            // Let the answer to `stop` leave.
            while !asking.is_finished() {
                futures_lite::future::yield_now().await;
            }
        };
        smol::block_on(executor.run(futures_lite::future::or(serving, ended)));
    });
}

#[test]
fn answers_arrive_as_typed_values() {
    with_server(|client| {
        assert_eq!(client.status().unwrap().conditions, ["odd"]);
        assert_eq!(client.plan().unwrap().wake_in_ms, Some(7));
        assert!(client.events().unwrap().is_empty());
        assert_eq!(client.drain().unwrap().turns, TURNS);
        let pods = client.pods().unwrap();
        assert_eq!(pods[0].metadata.name.as_deref(), Some("web-box"));
    });
}

#[test]
fn an_unknown_pod_is_refused_with_its_uid() {
    with_server(|client| {
        let uid = PodUid::try_from("abc".to_owned()).unwrap();
        let error = client.describe(&uid).unwrap_err();
        assert_eq!(error.to_string(), "no pod with uid \"abc\"");
        assert!(matches!(error, ClientError::Refused { status: 404, .. }));
    });
}

#[test]
fn a_long_poll_answers_at_the_next_change() {
    with_server(|client| {
        assert_eq!(client.changes(2).unwrap().generation, 3);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| client.changes(3).unwrap().generation);
            client.stop().unwrap();
            assert_eq!(waiting.join().unwrap(), 4);
        });
    });
}

#[test]
fn without_an_agent_the_error_names_the_socket() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths {
        run_dir: dir.path().into(),
        ..Paths::default()
    };
    let error = Client::new(&paths).status().unwrap_err();
    assert!(matches!(error, ClientError::NoAgent { .. }));
    assert!(error.to_string().contains("agent.sock"), "{error}");
}

#[test]
fn a_socket_in_use_is_not_taken_over_and_a_stale_one_is() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("agent.sock");
    let first = server::listen(&socket).unwrap();
    let own = i32::try_from(std::process::id()).unwrap();
    match server::listen(&socket) {
        Err(ListenError::InUse { pid, .. }) => assert_eq!(pid, own),
        other => panic!("{other:?}"),
    }
    drop(first);
    server::listen(&socket).unwrap();
}

#[test]
fn a_socket_may_lie_deep() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("x".repeat(150));
    std::fs::create_dir(&deep).unwrap();
    let socket = deep.join("agent.sock");
    let _first = server::listen(&socket).unwrap();
    assert!(socket.exists());
    let second = server::listen(&socket);
    assert!(matches!(second, Err(ListenError::InUse { .. })));
}
