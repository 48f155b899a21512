//! An HTTP server on loopback that answers as the test says, well or badly. It ends with the value.

use std::io::{ErrorKind, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::loopback::{Peer, Server};

/// Between two bytes of a slow answer, and at most between two looks for the end of the server.
const PAUSE: Duration = Duration::from_millis(20);
/// Longer requests are cut here.
const MAX_HEAD: usize = 64 * 1024;

/// What the next request is answered by. The connection is closed after it.
#[derive(Clone)]
pub enum Answer {
    /// A status without a body.
    Status(u16),
    /// Whatever these bytes are.
    Bytes(Vec<u8>),
    /// The first bytes once, the others for ever, as fast as they are taken: a body or a head without end.
    Endless(&'static str, &'static str),
    /// One byte of a head now and then, for ever.
    Slow,
    /// Nothing, for ever.
    Silence,
}

/// A running server.
pub struct Web {
    server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Mutex<Answer>,
    requests: Mutex<Vec<String>>,
}

impl Web {
    /// On a free port of 127.0.0.1.
    pub fn start(answer: Answer) -> Self {
        let shared = Arc::new(Shared {
            answer: Mutex::new(answer),
            requests: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        let server = Server::start(move |peer| own.serve(&peer));
        Self { server, shared }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.server.address.port()
    }

    /// Answers differently from the next request on.
    pub fn answer(&self, answer: Answer) {
        *self.shared.answer.lock().expect("no panic") = answer;
    }

    /// The heads (request line and headers) of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().expect("no panic").clone()
    }
}

impl Shared {
    /// None when the peer has gone, or the server ends: nobody is there to be told.
    fn serve(&self, peer: &Peer) -> Option<()> {
        peer.stream.set_read_timeout(Some(PAUSE)).ok()?;
        peer.stream.set_write_timeout(Some(PAUSE)).ok()?;
        let head = peer.head()?;
        self.requests.lock().expect("no panic").push(head);
        let answer = self.answer.lock().expect("no panic").clone();
        match answer {
            Answer::Status(code) => {
                let head = format!(
                    "HTTP/1.1 {code} Told\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
                peer.send(head.as_bytes())
            }
            Answer::Bytes(bytes) => peer.send(&bytes),
            Answer::Endless(first, again) => {
                peer.send(first.as_bytes())?;
                let again = again.repeat(1 + 16_384 / again.len());
                loop {
                    peer.send(again.as_bytes())?;
                }
            }
            Answer::Slow => {
                let mut bytes = b"HTTP/1.1 200 OK\r\nX-Slow: "
                    .iter()
                    .chain([&b'x'].into_iter().cycle());
                loop {
                    peer.send(&[*bytes.next()?])?;
                    peer.pause()?;
                }
            }
            Answer::Silence => loop {
                peer.pause()?;
            },
        }
    }
}

impl Peer {
    fn head(&self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD {
            let mut byte = [0];
            if self.read(&mut byte)? > 0 {
                head.extend(byte);
            }
        }
        Some(String::from_utf8_lossy(&head).into_owned())
    }

    /// Lets [`PAUSE`] go by, or less if the peer says more.
    fn pause(&self) -> Option<()> {
        self.read(&mut [0; 1024]).map(drop)
    }

    /// 0 when nothing came for [`PAUSE`]; None at the end of the connection or of the server.
    fn read(&self, bytes: &mut [u8]) -> Option<usize> {
        if self.is_over() {
            return None;
        }
        match (&self.stream).read(bytes) {
            Ok(0) => None,
            Ok(count) => Some(count),
            Err(e) => is_patient(&e).then_some(0),
        }
    }

    fn send(&self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            if self.is_over() {
                return None;
            }
            match (&self.stream).write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(e) if is_patient(&e) => {}
                Err(_) => return None,
            }
        }
        Some(())
    }
}

/// Nothing is wrong, it is only not yet time.
fn is_patient(error: &std::io::Error) -> bool {
    let kinds = [
        ErrorKind::WouldBlock,
        ErrorKind::TimedOut,
        ErrorKind::Interrupted,
    ];
    kinds.contains(&error.kind())
}
