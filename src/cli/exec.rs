//! `vetch exec`: a command in a running container. The holder does the work; we hand it pipes, or get the master of a
//! pty that was made in the container. A person's own terminal, file or socket never enters a container: only what is a
//! pipe already is passed on, everything else is copied.

mod copy;
mod terminal;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use k8s_openapi::api::core::v1::Pod;
use rustix::fs::{FileType, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio;

use self::copy::{Copy, Relay};
use self::terminal::RawTerminal;
use super::holders::Found;
use super::select::{self, Scope};
use super::{CliError, Reach, holders, output};
use crate::api::client::Client;
use crate::config::HolderPaths;
use crate::holder::client::HolderConnection;
use crate::holder::proto::{ExecCommand, FailureKind, FromHolder, Reply, Request, ToHolder};
use crate::sys::signals;

/// Chooses the container that a command without `-c` means, as kubectl does.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// The program exists and cannot be executed.
const EXIT_NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
const EXIT_NOT_FOUND: u8 = 127;

/// Run a command in a running container
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch exec web -- cat /etc/hosts\n  vetch exec -it web -c app -- sh\n  echo hello | vetch exec -i web -- cat\n\nThe exit code is the command's own. Works without an agent, too."
)]
pub struct Args {
    /// The pod, with or without the node's name at its end
    pod: String,
    /// The command and its arguments, passed on as they are
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
    /// Container [default: the pod's first]
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Pass our standard input on
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Give the command a terminal
    #[arg(short, long)]
    tty: bool,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    reach: Reach,
}

/// Starts the command and stays with it until it ends.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let (holder, container) = resolve(args)?;
    let connection = HolderConnection::connect(&holder)?;
    let command = ExecCommand {
        container,
        args: args.command.clone(),
        tty: args.tty,
        timeout_ms: None,
    };
    let stdin = args.stdin.then(stdio::stdin);
    let code = if args.tty {
        with_terminal(&connection, command, stdin)?
    } else {
        with_pipes(&connection, command, stdin)?
    };
    // 128+signal fits, too.
    Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1)))
}

/// The pod's holder and the id of the running container.
fn resolve(args: &Args) -> Result<(HolderPaths, String), CliError> {
    let mut found = holders::scan(&args.reach.paths());
    let pods = found
        .iter()
        .map(|holder| Pod::clone(&holder.record.pod.pod))
        .filter(|pod| args.scope.contains(pod))
        .collect();
    let pod = select::find(pods, &args.pod).map_err(|error| explain(args, &found, error))?;
    let name = match &args.container {
        Some(name) => name.clone(),
        None => default_container(&pod),
    };
    let uid = select::uid(&pod)?;
    found.retain(|holder| holder.record.pod.uid == uid);
    for holder in found {
        let containers = holder.state.iter().flat_map(|state| &state.containers);
        let mut running = containers.filter(|c| c.name == name && c.state.is_live());
        if let Some(container) = running.next_back() {
            let id = container.id.clone();
            return Ok((holder.paths, id));
        }
    }
    Err(CliError::NotFound(format!(
        "container {name:?} of pod {:?} does not run",
        select::name(&pod)
    )))
}

/// A pod without a holder may be one that has finished, or not begun; the agent knows.
/// Where nothing runs at all, the agent's silence is the news.
fn explain(args: &Args, found: &[Found], error: CliError) -> CliError {
    let client = Client::new(&args.reach.paths());
    match args.scope.pod(&client, &args.pod) {
        Ok(pod) => CliError::NotFound(format!("pod {:?} does not run", select::name(&pod))),
        Err(CliError::Client(silence)) if found.is_empty() => silence.into(),
        Err(_) => error,
    }
}

/// The annotated container or else the first; said when there is a choice.
pub fn default_container(pod: &Pod) -> String {
    let annotated = pod
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(DEFAULT_CONTAINER));
    let names: Vec<&str> = pod
        .spec
        .iter()
        .flat_map(|spec| &spec.containers)
        .map(|container| container.name.as_str())
        .collect();
    let chosen = annotated.map_or_else(|| (*names.first().unwrap_or(&"")).to_owned(), Clone::clone);
    if names.len() > 1 && annotated.is_none() {
        output::say(&format!(
            "Defaulted container {chosen:?} out of: {}",
            names.join(", ")
        ));
    }
    chosen
}

/// Sends the request; gives back the pty's master, if one came.
fn start(
    connection: &HolderConnection,
    command: ExecCommand,
    fds: &[BorrowedFd<'_>],
) -> Result<Option<OwnedFd>, CliError> {
    let request = ToHolder {
        id: 1,
        request: Request::Exec(command),
    };
    connection.send(&request, fds)?;
    loop {
        let (message, fds) = connection.recv()?;
        match message {
            FromHolder::Reply {
                reply: Reply::Failed { kind, message },
                ..
            } => return Err(refusal(kind, message)),
            FromHolder::Reply {
                reply: Reply::Started { .. },
                ..
            } => {
                return Ok(fds.into_iter().next());
            }
            FromHolder::Reply {
                reply: Reply::Done, ..
            }
            | FromHolder::State(_)
            | FromHolder::ExecExited { .. } => {}
        }
    }
}

/// A program that cannot be executed gives the code that shells, docker and kubectl give.
fn refusal(kind: FailureKind, message: String) -> CliError {
    let code = match kind {
        FailureKind::NotFound => EXIT_NOT_FOUND,
        FailureKind::Start => EXIT_NOT_EXECUTABLE,
        FailureKind::Create | FailureKind::Volume | FailureKind::Refused => {
            return CliError::NotFound(message);
        }
    };
    CliError::NotExecuted { code, message }
}

fn with_pipes(
    connection: &HolderConnection,
    command: ExecCommand,
    stdin: Option<BorrowedFd<'_>>,
) -> Result<i32, CliError> {
    let (input, feed) = input(stdin).map_err(terminal::fail)?;
    let (out, out_copy) = output_to(stdio::stdout()).map_err(terminal::fail)?;
    let (err, err_copy) = output_to(stdio::stderr()).map_err(terminal::fail)?;
    start(
        connection,
        command,
        &[input.as_fd(), out.as_fd(), err.as_fd()],
    )?;
    // The command must see the end of its input, and we the end of its output.
    drop((input, out, err));
    let relay = Relay {
        input: feed,
        outputs: [out_copy, err_copy].into_iter().flatten().collect(),
        signals: None,
    };
    relay.run(connection, &mut |_| true)
}

fn with_terminal(
    connection: &HolderConnection,
    command: ExecCommand,
    stdin: Option<BorrowedFd<'_>>,
) -> Result<i32, CliError> {
    // Before raw mode: a signal must not end us with the terminal in it.
    let signals = signals::watch(&[libc::SIGWINCH, libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
        .map_err(terminal::fail)?;
    let Some(master) = start(connection, command, &[])? else {
        return Err(CliError::NotFound("the holder sent no terminal".to_owned()));
    };
    terminal::copy_size(&master);
    let _raw = RawTerminal::enter(stdin)?;
    let relay = Relay::of_terminal(&master, stdin, signals).map_err(terminal::fail)?;
    relay.run(connection, &mut |signal| {
        let resized = signal == libc::SIGWINCH;
        if resized {
            terminal::copy_size(&master);
        }
        resized
    })
}

/// What the container gets as stdin, and what feeds it.
fn input(stdin: Option<BorrowedFd<'_>>) -> io::Result<(OwnedFd, Option<Copy>)> {
    let Some(stdin) = stdin else {
        return Ok((File::open("/dev/null")?.into(), None));
    };
    let own = stdin.try_clone_to_owned()?;
    if is_pipe(&own)? {
        return Ok((own, None));
    }
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    // A command that does not read must not keep us from reading what it writes.
    rustix::fs::fcntl_setfl(&ours, OFlags::NONBLOCK)?;
    Ok((theirs, Some(Copy::new(own, ours))))
}

/// What the container gets for one of our outputs, and what brings it there.
fn output_to(own: BorrowedFd<'_>) -> io::Result<(OwnedFd, Option<Copy>)> {
    let own = own.try_clone_to_owned()?;
    if is_pipe(&own)? {
        return Ok((own, None));
    }
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((theirs, Some(Copy::new(ours, own))))
}

fn is_pipe(fd: &OwnedFd) -> io::Result<bool> {
    let mode = rustix::fs::fstat(fd)?.st_mode;
    Ok(FileType::from_raw_mode(mode) == FileType::Fifo)
}
