//! Telling systemd, if it asks (N-80).

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// How often systemd's watchdog is to be pinged, if it watches this process: twice as often as it asks for.
pub fn watchdog_period() -> Option<Duration> {
    let pid = std::env::var("WATCHDOG_PID").ok();
    if pid.is_some_and(|pid| pid != std::process::id().to_string()) {
        return None;
    }
    period(&std::env::var("WATCHDOG_USEC").ok()?)
}

fn period(usec: &str) -> Option<Duration> {
    let asked = usec.parse().ok().filter(|usec| *usec > 0)?;
    Some(Duration::from_micros(asked) / 2)
}

/// Sends one state line such as `READY=1` to `NOTIFY_SOCKET`; without one, or when it is gone, nothing happens.
pub fn send(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    // Being supervised is no condition for supervising.
    let _ = send_to(&name, state);
}

fn send_to(name: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::SocketAddr;
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_pinged_twice_as_often_as_it_asks() {
        assert_eq!(period("30000000"), Some(Duration::from_secs(15)));
        assert_eq!(period("0"), None);
        assert_eq!(period("soon"), None);
    }

    #[test]
    fn the_state_arrives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        send_to(path.as_os_str(), "READY=1").unwrap();
        let mut bytes = [0; 16];
        let n = systemd.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..n], b"READY=1");
    }
}
