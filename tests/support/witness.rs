//! Hears what containers do, in order, and lets them wait for the test: a server on loopback that scripts ask by `wget`.
//! It ends with the value.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::loopback::{Peer, Server};
use super::wait::{DEADLINE, look_until};

/// Between two looks at a gate and for the end of the server.
const PAUSE: Duration = Duration::from_millis(5);
/// Longer requests are cut here.
const MAX_HEAD: usize = 4096;

/// A running server.
pub struct Witness {
    server: Server,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    told: Vec<String>,
    /// How many may still pass.
    gates: BTreeMap<String, u32>,
}

impl Witness {
    /// On a free port of 127.0.0.1.
    pub fn start() -> Self {
        let shared = Arc::<Mutex<Shared>>::default();
        let own = Arc::clone(&shared);
        let server = Server::start(move |peer| serve(peer, &own));
        Self { server, shared }
    }

    /// Where it listens. A GET of `/tell/WORD` tells a word.
    pub fn port(&self) -> u16 {
        self.server.address.port()
    }

    /// A command that tells a word.
    pub fn tell(&self, word: &str) -> String {
        self.ask("tell", word)
    }

    /// A command that ends when the test lets it [`Self::pass`] this gate.
    pub fn hold(&self, gate: &str) -> String {
        self.ask("hold", gate)
    }

    /// A command that succeeds if it may pass this gate now.
    pub fn attempt(&self, gate: &str) -> String {
        self.ask("attempt", gate)
    }

    fn ask(&self, what: &str, name: &str) -> String {
        let address = self.server.address;
        format!("wget -qO /dev/null http://{address}/{what}/{name}")
    }

    /// Lets one more command pass, now or later.
    pub fn pass(&self, gate: &str) {
        let mut shared = self.shared.lock().expect("no panic");
        *shared.gates.entry(gate.to_owned()).or_default() += 1;
    }

    /// Lets every command pass from now on.
    pub fn open(&self, gate: &str) {
        let mut shared = self.shared.lock().expect("no panic");
        shared.gates.insert(gate.to_owned(), u32::MAX);
    }

    /// Every word so far.
    pub fn told(&self) -> Vec<String> {
        self.shared.lock().expect("no panic").told.clone()
    }

    /// How often this word was told.
    pub fn count(&self, word: &str) -> usize {
        self.told().iter().filter(|told| *told == word).count()
    }

    /// Waits until this word was told.
    pub fn wait_for(&self, word: &str) {
        self.wait_for_times(word, 1);
    }

    /// Waits until this word was told so often.
    pub fn wait_for_times(&self, word: &str, times: usize) {
        let found = look_until(DEADLINE, || (self.count(word) >= times).then_some(()));
        assert!(
            found.is_some(),
            "waited in vain for {word} {times} times, told: {:?}",
            self.told()
        );
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("told: {:?}", self.told());
        }
    }
}

/// None when the peer has gone, or the server ends: nobody is there to be told.
fn serve(mut peer: Peer, shared: &Mutex<Shared>) -> Option<()> {
    let head = head(&mut peer.stream)?;
    let path = head.split(' ').nth(1)?.strip_prefix('/')?;
    let (what, name) = path.split_once('/')?;
    let is_granted = loop {
        let mut shared = shared.lock().ok()?;
        match what {
            "tell" => {
                shared.told.push(name.to_owned());
                break true;
            }
            _ if peer.is_over() => return None,
            _ if shared.take(name) => break true,
            "attempt" => break false,
            _ => {}
        }
        drop(shared);
        if has_gone(&peer.stream) {
            return None;
        }
        std::thread::sleep(PAUSE);
    };
    let status = if is_granted { "200 OK" } else { "403 No" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    peer.stream.write_all(answer.as_bytes()).ok()
}

impl Shared {
    fn take(&mut self, gate: &str) -> bool {
        match self.gates.get_mut(gate) {
            Some(&mut u32::MAX) => true,
            Some(left @ 1..) => {
                *left -= 1;
                true
            }
            Some(0) | None => false,
        }
    }
}

/// Its process was killed: it must not pass a gate in the place of another.
fn has_gone(mut stream: &TcpStream) -> bool {
    let read = stream
        .set_nonblocking(true)
        .and_then(|()| stream.read(&mut [0]));
    let restored = stream.set_nonblocking(false);
    restored.is_err() || matches!(read, Ok(0))
}

fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    String::from_utf8(head).ok()
}
