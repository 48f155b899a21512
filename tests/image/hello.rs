//! The program of the built-in image.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A running `vetch hello` on a port of its own.
struct Hello {
    child: Child,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl Hello {
    fn start(name: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vetch"))
            .arg("hello")
            .envs([("PORT", "0"), ("POD_NAME", name)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(
            line.starts_with(&format!("hello from {name}, listening on port ")),
            "{line}"
        );
        let port = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        Self {
            child,
            output,
            port,
        }
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Hello {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn hello_names_its_pod_whatever_slow_clients_do_and_ends_on_sigterm() {
    let mut hello = Hello::start("<web>");
    let mut slow = TcpStream::connect(("127.0.0.1", hello.port)).unwrap();
    slow.write_all(b"GET / HT").unwrap();
    let answer = hello.ask("GET /\x1b HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("Hello from &lt;web>"), "{answer}");
    let answer = hello.ask("POST / HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    let pid = Pid::from_raw(i32::try_from(hello.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(hello.child.wait().unwrap().success());
    let mut log = String::new();
    hello.output.read_to_string(&mut log).unwrap();
    let expected =
        "127.0.0.1 \"GET /\\u{1b} HTTP/1.1\" 200\n127.0.0.1 \"POST / HTTP/1.1\" 405\nbye\n";
    assert_eq!(log, expected);
}
