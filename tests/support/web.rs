//! An HTTP server on loopback that answers as the test says, well or badly. It ends with the value.

#![expect(
    clippy::disallowed_methods,
    reason = "the server's threads; they look for its end at least every PAUSE"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two bytes of a slow answer.
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
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    answer: Mutex<Answer>,
    requests: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Web {
    /// On a free port of 127.0.0.1.
    pub fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen on loopback");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            answer: Mutex::new(answer),
            requests: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accept(&listener, &own));
        Self {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
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

impl Drop for Web {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.is_over() {
            return;
        }
        let own = Arc::clone(shared);
        std::thread::spawn(move || own.serve(&stream));
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// None when the peer has gone, or the server ends: nobody is there to be told.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        stream.set_read_timeout(Some(PAUSE)).ok()?;
        stream.set_write_timeout(Some(PAUSE)).ok()?;
        let head = self.head(stream)?;
        self.requests.lock().expect("no panic").push(head);
        let answer = self.answer.lock().expect("no panic").clone();
        match answer {
            Answer::Status(code) => {
                let head = format!(
                    "HTTP/1.1 {code} Told\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
                self.send(stream, head.as_bytes())
            }
            Answer::Bytes(bytes) => self.send(stream, &bytes),
            Answer::Endless(first, again) => {
                self.send(stream, first.as_bytes())?;
                let again = again.repeat(1 + 16_384 / again.len());
                loop {
                    self.send(stream, again.as_bytes())?;
                }
            }
            Answer::Slow => {
                let mut bytes = b"HTTP/1.1 200 OK\r\nX-Slow: "
                    .iter()
                    .chain([&b'x'].into_iter().cycle());
                loop {
                    self.send(stream, &[*bytes.next()?])?;
                    self.pause(stream)?;
                }
            }
            Answer::Silence => loop {
                self.pause(stream)?;
            },
        }
    }

    fn head(&self, stream: &TcpStream) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD {
            let mut byte = [0];
            if self.read(stream, &mut byte)? > 0 {
                head.extend(byte);
            }
        }
        Some(String::from_utf8_lossy(&head).into_owned())
    }

    /// Lets [`PAUSE`] go by, or less if the peer says more.
    fn pause(&self, stream: &TcpStream) -> Option<()> {
        self.read(stream, &mut [0; 1024]).map(drop)
    }

    /// 0 when nothing came for [`PAUSE`]; None at the end of the connection or of the server.
    fn read(&self, mut stream: &TcpStream, bytes: &mut [u8]) -> Option<usize> {
        if self.is_over() {
            return None;
        }
        match stream.read(bytes) {
            Ok(0) => None,
            Ok(count) => Some(count),
            Err(e) => is_patient(&e).then_some(0),
        }
    }

    fn send(&self, mut stream: &TcpStream, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            if self.is_over() {
                return None;
            }
            match stream.write(bytes) {
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
