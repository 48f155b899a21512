//! TCP connections of probes: made in the right network namespace, by address or name, and gone soon after their close.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};
use rustix::io::Errno;
use rustix::net::AddressFamily;
use smol::Async;
use smol::lock::Semaphore;

use super::Network;
use crate::sys::netns;

/// How many names are looked up at once. The rest waits, and its time runs.
const MAX_LOOKUPS: usize = 4;
/// How many addresses of a name are tried.
const MAX_ADDRESSES: usize = 8;
/// Room for the resolver, which keeps its buffers on the stack.
const LOOKUP_STACK: usize = 256 * 1024;
/// what the peer has not taken this long after the close is given up, ms.
const LINGER_MS: u32 = 1000;
/// How much of what a peer says first is kept, for messages.
const FIRST_WORDS: usize = 16;
/// How much is read in all: more than the longest head, the longest begin of a body and a TLS handshake together. Without
/// it, a peer that never pauses (endless `100 Continue`, endless HTTP/2 pings) would keep the agent's only thread, because
/// the parsers go on for as long as there is something to read, and no timeout could end that.
const MAX_READ: usize = 256 * 1024;

static LOOKUPS: Semaphore = Semaphore::new(MAX_LOOKUPS);

/// Why there is no connection, in the words of Go's `net` package, which people search for.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name is not known.
    #[error("dial tcp: lookup {host}: {why}")]
    Lookup {
        /// The name.
        host: String,
        /// Cause.
        why: String,
    },
    /// The peer, or the way to it, refused.
    #[error("dial tcp {address}: connect: {why}")]
    Connect {
        /// The peer.
        address: SocketAddr,
        /// Cause.
        why: String,
    },
    /// There is no socket to be had, or no pod: nothing was asked.
    #[error("make a socket in the pod's network namespace")]
    Socket(#[source] io::Error),
}

/// A connection that remembers what the peer said first. `&Connection` is what one reads and writes.
#[derive(Debug)]
pub struct Connection {
    socket: Async<TcpStream>,
    first: RefCell<Vec<u8>>,
    /// Bytes that may still be read.
    left: Cell<usize>,
}

impl Connection {
    /// Up to 16 bytes.
    pub fn first_words(&self) -> Vec<u8> {
        self.first.borrow().clone()
    }
}

/// Kubelet sets SO_LINGER, with which close waits in its thread until the peer has taken everything; ours would be
/// the agent's only one. This leaves the waiting, and the giving up, to the kernel. Not set before the end: a slow peer has
/// the time that the probe gives it.
impl Drop for Connection {
    fn drop(&mut self) {
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&self.socket, LINGER_MS);
    }
}

/// Host and port as Go joins them.
pub fn join(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Connects to a host by address or name.
pub async fn dial(network: Network, host: &str, port: u16) -> Result<Connection, DialError> {
    let mut addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => lookup(host, port).await?,
    };
    addresses.truncate(MAX_ADDRESSES);
    let mut outcome = Err(DialError::Lookup {
        host: host.to_owned(),
        why: "no such host".to_owned(),
    });
    for address in addresses {
        outcome = connect(network, address).await;
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

async fn connect(network: Network, address: SocketAddr) -> Result<Connection, DialError> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = match network {
        Network::Host => netns::tcp_socket(family),
        Network::Pod(holder) => netns::tcp_socket_of(holder, family),
    };
    let socket = TcpStream::from(socket.map_err(DialError::Socket)?);
    let started = rustix::net::connect(&socket, &address);
    let connected = async {
        match started {
            Ok(()) => Async::new_nonblocking(socket),
            Err(Errno::INPROGRESS) => {
                let socket = Async::new_nonblocking(socket)?;
                socket.writable().await?;
                match socket.get_ref().take_error()? {
                    Some(error) => Err(error),
                    None => Ok(socket),
                }
            }
            Err(error) => Err(error.into()),
        }
    };
    let refused = |error| DialError::Connect {
        address,
        why: plain(&error),
    };
    Ok(Connection {
        socket: connected.await.map_err(refused)?,
        first: RefCell::default(),
        left: Cell::new(MAX_READ),
    })
}

/// Asks the system's resolver in a thread that ends with its work (see `agent::store::sync_aside` for why not in
/// `smol::unblock`'s). Whoever stops waiting leaves it behind, so the thread holds the permit.
async fn lookup(host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
    let failed = |error: io::Error| DialError::Lookup {
        host: host.to_owned(),
        why: plain(&error),
    };
    let permit = LOOKUPS.acquire().await;
    let (done, outcome) = async_channel::bounded(1);
    let name = host.to_owned();
    std::thread::Builder::new()
        .name("lookup".to_owned())
        .stack_size(LOOKUP_STACK)
        .spawn(move || {
            let addresses = (name.as_str(), port).to_socket_addrs();
            // Nobody waits any more when the probe's time is over.
            let _ = done.try_send(addresses.map(Iterator::collect::<Vec<_>>));
            drop(permit);
        })
        .map_err(failed)?;
    let outcome = outcome.recv().await;
    outcome
        .unwrap_or_else(|_| Err(io::Error::other("the lookup ended without an answer")))
        .map_err(failed)
}

/// As Go writes it: without the number, and in lower case.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let text = text
        .strip_prefix("failed to lookup address information: ")
        .unwrap_or(text);
    if text == "Name or service not known" {
        return "no such host".to_owned();
    }
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

impl AsyncRead for &Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let left = self.left.get();
        if left == 0 {
            let why = format!("the server sent more than {MAX_READ} bytes");
            return Poll::Ready(Err(io::Error::other(why)));
        }
        let outcome = Pin::new(&mut &self.socket).poll_read(cx, buffer);
        if let Poll::Ready(Ok(n)) = &outcome {
            self.left.set(left.saturating_sub(*n));
            let mut first = self.first.borrow_mut();
            let room = FIRST_WORDS - first.len();
            first.extend(buffer.iter().take(*n).take(room));
        }
        outcome
    }
}

impl AsyncWrite for &Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &self.socket).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &self.socket).poll_close(cx)
    }
}
