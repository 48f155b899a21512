//! A server that answers each connection with the same bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long a server waits for anything; nothing in a test takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server does with a connection after the request's head has come.
pub type Script = dyn Fn(&mut TcpStream) -> std::io::Result<()> + Send;

/// What a server does with a connection from its begin, and where it tells what was asked.
pub type RawScript = dyn Fn(&mut TcpStream, &Sender<String>) -> std::io::Result<()> + Send;

/// Ends with its listener: the thread lives as long as the test program.
pub struct Server {
    pub address: SocketAddr,
    pub requests: Receiver<String>,
}

impl Server {
    pub fn start(bind: &str, script: Box<Script>) -> Self {
        let after_head = move |stream: &mut TcpStream, seen: &Sender<String>| {
            let _ = seen.send(read_head(stream)?);
            script(stream)
        };
        Self::raw(bind, Box::new(after_head))
    }

    pub fn raw(bind: &str, script: Box<RawScript>) -> Self {
        let listener = TcpListener::bind(bind).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, requests) = channel();
        thread::Builder::new()
            .spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    stream.set_write_timeout(Some(PATIENCE)).unwrap();
                    // A client that goes away in between is what some tests are about.
                    let _ = script(&mut stream, &seen);
                }
            })
            .unwrap();
        Self { address, requests }
    }

    pub fn answering(answer: impl Into<Vec<u8>>) -> Self {
        Self::answering_at("127.0.0.1:0", answer)
    }

    pub fn answering_at(bind: &str, answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(bind, Box::new(move |stream| stream.write_all(&answer)))
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The next request that came.
    pub fn request(&self) -> String {
        self.requests.recv_timeout(PATIENCE).unwrap()
    }
}

pub fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(String::from_utf8(head).unwrap())
}

/// Waits until the client goes away.
pub fn hold(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut rest = [0; 64];
    while stream.read(&mut rest)? > 0 {}
    Ok(())
}
