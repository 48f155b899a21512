//! A TCP server on loopback. It ends with the value.

#![expect(
    clippy::disallowed_methods,
    reason = "the server's threads; who serves looks for its end all the time"
)]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A running server.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    is_over: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

/// A connection to the server.
pub struct Peer {
    /// To whoever asked.
    pub stream: TcpStream,
    is_over: Arc<AtomicBool>,
}

impl Server {
    /// On a free port of 127.0.0.1. Every connection is served on a thread of its own, which has to end when the server is
    /// over; None when nobody is there any more.
    pub fn start(serve: impl Fn(Peer) -> Option<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen on loopback");
        let address = listener.local_addr().expect("an address");
        let is_over = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&is_over);
        let acceptor = std::thread::spawn(move || accept(&listener, &own, &Arc::new(serve)));
        Self {
            address,
            is_over,
            acceptor: Some(acceptor),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Peer {
    /// Whether the server ends.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

fn accept<S>(listener: &TcpListener, is_over: &Arc<AtomicBool>, serve: &Arc<S>)
where
    S: Fn(Peer) -> Option<()> + Send + Sync + 'static,
{
    while let Ok((stream, _)) = listener.accept() {
        let is_over = Arc::clone(is_over);
        let peer = Peer { stream, is_over };
        if peer.is_over() {
            return;
        }
        let serve = Arc::clone(serve);
        std::thread::spawn(move || serve(peer));
    }
}
