//! Who is not root: told so, and kept out of the sockets (invariant 12).

#![expect(clippy::unwrap_used, reason = "test code outside #[test] functions")]

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Uid;
use tempfile::TempDir;
use vetch::config::HolderPaths;
use vetch::holder::client::{ClientError, HolderConnection};
use vetch::holder::proto::FromHolder;

use support::agent::TestAgent;
use support::manifest::{LIVES, manifest};
use support::wait::can_run;

const NOBODY: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The binary, and a manifest, where everybody can get at them.
struct Public(TempDir);

impl Public {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o755);
        std::fs::copy(env!("CARGO_BIN_EXE_vetch"), dir.path().join("vetch")).unwrap();
        let mut file = std::fs::File::create(dir.path().join("pod.yaml")).unwrap();
        file.write_all(manifest("web", 2, LIVES).as_bytes())
            .unwrap();
        Self(dir)
    }

    /// Exit code, stdout and stderr of `vetch ARGS` as nobody.
    fn vetch(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(self.0.path().join("vetch"))
            .args(args)
            .current_dir(self.0.path())
            .uid(NOBODY)
            .gid(NOBODY)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }
}

#[test]
fn who_is_not_root_is_told_so() {
    if !can_run() {
        return;
    }
    let public = Public::new();
    let agent = TestAgent::prepare();
    let run_dir = agent.paths.run_dir.to_str().unwrap();
    for args in [&["agent", "--run-dir", run_dir][..], &["run", "pod.yaml"]] {
        let (code, stdout, stderr) = public.vetch(args);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{args:?}");
        assert!(stderr.contains("must run as root"), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    let (code, _, stderr) = public.vetch(&["check", "pod.yaml"]);
    assert_eq!(code, Some(0), "a check needs no root: {stderr}");
}

#[test]
fn who_is_not_root_learns_nothing_of_an_agent_and_changes_nothing() {
    if !can_run() {
        return;
    }
    let public = Public::new();
    let agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", 2, LIVES));
    let before = agent.wait_until_running("web");
    set_mode(agent.paths.run_dir.parent().unwrap(), 0o755);
    let run_dir = agent.paths.run_dir.to_str().unwrap();
    for args in [
        &["get", "pods"][..],
        &["status"],
        &["logs", "web"],
        &["exec", "web", "--", "true"],
        &["stop", "--all"],
    ] {
        let (options, rest) =
            args.split_at(args.iter().position(|a| *a == "--").unwrap_or(args.len()));
        let all = [options, &["--run-dir", run_dir], rest].concat();
        let (code, stdout, stderr) = public.vetch(&all);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{args:?}: {stderr}");
        assert!(stderr.contains("Permission denied"), "{args:?}: {stderr}");
    }
    assert_eq!(agent.wait_until_running("web"), before);
}

/// What `connect` gives in a thread that is nobody.
fn as_nobody<T: Send>(connect: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let nobody = Uid::from_raw(NOBODY);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            connect()
        });
        thread.join().unwrap()
    })
}

/// The first byte that an agent says to a request; None when it hangs up.
fn first_byte(socket: &Path) -> std::io::Result<Option<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    // It may have hung up already.
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut byte = [0];
    match stream.read(&mut byte) {
        Ok(1) => Ok(Some(byte[0])),
        Ok(_) => Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => Ok(None),
        Err(e) => Err(e),
    }
}

#[test]
fn the_agent_hangs_up_on_who_is_not_root_whatever_the_modes_say() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let socket = agent.paths.api_socket();
    set_mode(agent.paths.run_dir.parent().unwrap(), 0o755);
    let denied = as_nobody(|| first_byte(&socket)).unwrap_err();
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
    set_mode(&agent.paths.run_dir, 0o777);
    set_mode(&socket, 0o666);
    assert_eq!(as_nobody(|| first_byte(&socket)).unwrap(), None);
    assert_eq!(first_byte(&socket).unwrap(), Some(b'H'));
}

fn first_packet(holder: &HolderPaths) -> Result<FromHolder, ClientError> {
    let connection = HolderConnection::connect(holder)?;
    Ok(connection.recv()?.0)
}

#[test]
fn a_holder_hangs_up_on_who_is_not_root_whatever_the_modes_say() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", 2, LIVES));
    agent.wait_until_running("web");
    let uid = agent.pod("web").unwrap().metadata.uid.unwrap();
    let holder = HolderPaths::new(agent.paths.holders().join(uid));
    set_mode(agent.paths.run_dir.parent().unwrap(), 0o755);
    let denied = as_nobody(|| first_packet(&holder)).unwrap_err();
    assert!(matches!(denied, ClientError::Connect { .. }), "{denied}");
    for dir in [
        agent.paths.run_dir.as_path(),
        &agent.paths.holders(),
        holder.dir(),
    ] {
        set_mode(dir, 0o777);
    }
    set_mode(&holder.socket(), 0o666);
    let hung_up = as_nobody(|| first_packet(&holder));
    assert!(matches!(hung_up, Err(ClientError::Closed)), "{hung_up:?}");
    let first = first_packet(&holder).unwrap();
    assert!(matches!(first, FromHolder::State(_)), "{first:?}");
}
