//! The hidden role `hello`: what runs in the built-in image. A tiny HTTP server that says which pod it is.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::output;
use crate::sys::{clock, signals};

/// Connections served at once; more wait in the kernel.
const MAX_CONNECTIONS: usize = 32;
/// Bytes of a request that are read.
const MAX_REQUEST: usize = 2048;
/// Time for a whole request, in ms.
const PATIENCE_MS: u64 = 5000;
const DEFAULT_PORT: u16 = 8080;

/// Serves until SIGTERM or SIGINT.
pub fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&format!("hello: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Says one line and is done: a job.
pub fn greet() -> ExitCode {
    log(&format!("hello from {}, and bye", pod_name()));
    ExitCode::SUCCESS
}

fn serve() -> io::Result<()> {
    // As pid 1 of a namespace no signal would end us by itself.
    let signals = signals::watch(&[libc::SIGTERM, libc::SIGINT])?;
    let port = match std::env::var("PORT") {
        Ok(text) => text
            .parse()
            .map_err(|_| io::Error::other(format!("PORT {text:?} is no port number")))?,
        Err(_) => DEFAULT_PORT,
    };
    let listener = listen(port)?;
    let mut server = Server {
        page: page(&pod_name()),
        listener,
        signals,
        connections: Vec::new(),
    };
    let port = server.listener.local_addr()?.port();
    log(&format!(
        "hello from {}, listening on port {port}",
        pod_name()
    ));
    while server.turn()? {}
    log("bye");
    Ok(())
}

/// Both families where there is IPv6.
fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(("::", port))
        .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
        .map_err(|e| io::Error::other(format!("listen on port {port}: {e}")))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

struct Server {
    page: String,
    listener: TcpListener,
    signals: OwnedFd,
    connections: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    request: Vec<u8>,
    deadline_ms: u64,
}

enum Progress {
    Waiting,
    Done,
}

impl Server {
    /// Waits for something and does it; false when it is time to end.
    fn turn(&mut self) -> io::Result<bool> {
        self.wait()?;
        if signals::next(&self.signals).is_some() {
            return Ok(false);
        }
        let now_ms = clock::now().boot_ms;
        let page = &self.page;
        self.connections.retain_mut(|connection| {
            connection.deadline_ms > now_ms
                && matches!(connection.advance(page), Ok(Progress::Waiting))
        });
        self.accept(now_ms);
        Ok(true)
    }

    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if self.connections.len() < MAX_CONNECTIONS {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let streams = self.connections.iter().map(|c| c.stream.as_fd());
        fds.extend(streams.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let deadline_ms = self.connections.iter().map(|c| c.deadline_ms).min();
        let timeout = deadline_ms.and_then(|deadline_ms| {
            let left_ms = deadline_ms.saturating_sub(clock::now().boot_ms);
            Timespec::try_from(Duration::from_millis(left_ms)).ok()
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn accept(&mut self, now_ms: u64) {
        while self.connections.len() < MAX_CONNECTIONS {
            // Whatever fails here concerns one client, or passes.
            let Ok((stream, peer)) = self.listener.accept() else {
                return;
            };
            if stream.set_nonblocking(true).is_ok() {
                self.connections.push(Connection {
                    stream,
                    peer,
                    request: Vec::new(),
                    deadline_ms: now_ms + PATIENCE_MS,
                });
            }
        }
    }
}

impl Connection {
    fn advance(&mut self, page: &str) -> io::Result<Progress> {
        let mut chunk = [0; 512];
        while !is_complete(&self.request) {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Progress::Done),
                Ok(length) => self.request.extend_from_slice(&chunk[..length]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Waiting),
                Err(e) => return Err(e),
            }
        }
        let line = self.request.split(|b| matches!(b, b'\r' | b'\n')).next();
        let line = String::from_utf8_lossy(line.unwrap_or_default());
        let (status, answer) = answer(&line, page);
        let peer = self.peer.ip().to_canonical();
        log(&format!("{peer} \"{}\" {status}", line.escape_debug()));
        // It fits into the socket's buffer; a client that takes nothing loses it.
        self.stream.write_all(answer.as_bytes())?;
        self.stream.shutdown(std::net::Shutdown::Write)?;
        Ok(Progress::Done)
    }
}

fn is_complete(request: &[u8]) -> bool {
    request.len() >= MAX_REQUEST
        || request.windows(4).any(|w| w == b"\r\n\r\n")
        || request.windows(2).any(|w| w == b"\n\n")
}

/// Status code and the whole answer.
fn answer(line: &str, page: &str) -> (u16, String) {
    let (status, reason, body) = match line.split(' ').next() {
        Some("GET" | "HEAD") => (200, "OK", page),
        Some(_) | None => (405, "Method Not Allowed", ""),
    };
    let length = body.len();
    let shown = if line.starts_with("HEAD ") { "" } else { body };
    let text = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{shown}"
    );
    (status, text)
}

fn page(pod: &str) -> String {
    let pod: String = pod
        .chars()
        .map(|c| match c {
            '<' => "&lt;".to_owned(),
            '&' => "&amp;".to_owned(),
            _ => c.to_string(),
        })
        .collect();
    format!(
        "<!doctype html>\n<title>{pod}</title>\n<h1>Hello from {pod}</h1>\n\
         <p>This pod runs vetch {} and nothing else.\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn pod_name() -> String {
    let from_env = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    from_env("POD_NAME")
        .or_else(|| from_env("HOSTNAME"))
        .unwrap_or_else(|| {
            rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned()
        })
}

/// A log that nobody reads is no reason to stop serving.
fn log(line: &str) {
    let _ = output::print(&format!("{line}\n"));
}
