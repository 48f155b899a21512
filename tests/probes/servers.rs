//! Servers that speak more than plain HTTP: TLS, whoever signed the certificate, and gRPC.

use super::support::agent::TestAgent;
use super::support::wait::can_run;
use super::*;

///
#[test]
fn an_https_server_makes_a_container_ready() {
    if !can_run() {
        return;
    }
    let Some(server) = tls::Server::start() else {
        return;
    };
    let agent = TestAgent::start();
    let handler = format!("httpGet: {{scheme: HTTPS, port: {}}}", server.port);
    agent.put(
        "web.yaml",
        &lives("web", &every_second("readinessProbe", &handler)),
    );
    wait_until_ready(&agent, "web");
    drop(server);
    wait_until_unready(&agent, "web");
}

///
#[test]
fn a_grpc_server_makes_a_container_ready_and_unready() {
    if !can_run() {
        return;
    }
    let server = grpc::Server::start();
    let agent = TestAgent::start();
    let handler = format!("grpc: {{port: {}}}", server.port());
    agent.put(
        "web.yaml",
        &lives("web", &every_second("readinessProbe", &handler)),
    );
    wait_until_ready(&agent, "web");
    server.answer(grpc::NOT_SERVING);
    wait_until_unready(&agent, "web");
    let why = "Readiness probe failed: service unhealthy (responded with \"NOT_SERVING\")";
    assert!(times(&agent, ("web", "Unhealthy"), why) > 0);
}

mod tls {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Child, Command, Stdio};

    use tempfile::TempDir;

    use crate::support::wait::wait_for;

    const CERTIFICATE: &str =
        "req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -subj /CN=nobody -days 1";

    /// `openssl s_server` with a certificate that nobody signed.
    pub struct Server {
        child: Child,
        pub port: u16,
        _dir: TempDir,
    }

    impl Server {
        /// None without openssl, with the reason printed.
        #[expect(clippy::print_stdout, reason = "a skip is printed")]
        pub fn start() -> Option<Self> {
            let dir = tempfile::tempdir().unwrap();
            let Ok(made) = openssl(&dir).args(CERTIFICATE.split(' ')).status() else {
                println!("SKIPPED: a TLS server needs openssl");
                return None;
            };
            assert!(made.success());
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let serve = format!("s_server -accept 127.0.0.1:{port} -key key -cert cert -www");
            let child = openssl(&dir).args(serve.split(' ')).spawn().unwrap();
            wait_for("the TLS server", || {
                TcpStream::connect(("127.0.0.1", port)).ok()
            });
            Some(Self {
                child,
                port,
                _dir: dir,
            })
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn openssl(dir: &TempDir) -> Command {
        let mut command = Command::new("openssl");
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

mod grpc {
    use std::io::{self, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    /// As `HealthCheckResponse` numbers them.
    const SERVING: u8 = 1;
    pub const NOT_SERVING: u8 = 2;

    /// Frames that need no answer, as HTTP/2 has them: length, type, flags, stream.
    const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
    const SETTINGS_ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";
    /// Status 200 and the content type, without a table.
    const HEAD: &[u8] = b"\0\0\x14\x01\x04\0\0\0\x01\x88\x0f\x10\x10application/grpc";
    /// A message of two bytes, the last of which is the status.
    const MESSAGE: &[u8] = b"\0\0\x07\0\0\0\0\0\x01\0\0\0\0\x02\x08";
    const TRAILERS: &[u8] = b"\0\0\x0f\x01\x05\0\0\0\x01\0\x0bgrpc-status\x010";

    /// Answers health checks, one a connection.
    pub struct Server {
        address: SocketAddr,
        status: Arc<AtomicU8>,
        is_over: Arc<AtomicBool>,
    }

    impl Server {
        #[expect(
            clippy::disallowed_methods,
            reason = "the server's thread, which ends with the value"
        )]
        pub fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let server = Self {
                address: listener.local_addr().unwrap(),
                status: Arc::new(AtomicU8::new(SERVING)),
                is_over: Arc::default(),
            };
            let (status, is_over) = (Arc::clone(&server.status), Arc::clone(&server.is_over));
            std::thread::spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    // The client goes when it has its answer.
                    let _ = serve(stream, &status);
                }
            });
            server
        }

        pub fn port(&self) -> u16 {
            self.address.port()
        }

        pub fn answer(&self, status: u8) {
            self.status.store(status, Ordering::SeqCst);
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            self.is_over.store(true, Ordering::SeqCst);
            // Wakes the thread.
            let _ = TcpStream::connect(self.address);
        }
    }

    fn serve(mut stream: TcpStream, status: &AtomicU8) -> io::Result<()> {
        stream.read_exact(&mut [0; b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()])?;
        stream.write_all(SETTINGS)?;
        loop {
            let mut frame = [0; 9];
            stream.read_exact(&mut frame)?;
            let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
            io::copy(
                &mut Read::by_ref(&mut stream).take(length.into()),
                &mut io::sink(),
            )?;
            match (frame[3], frame[4]) {
                (1, _) => {
                    let status = status.load(Ordering::SeqCst);
                    stream.write_all(&[HEAD, MESSAGE, &[status], TRAILERS].concat())?;
                }
                (4, 0) => stream.write_all(SETTINGS_ACK)?,
                _ => {}
            }
        }
    }
}
