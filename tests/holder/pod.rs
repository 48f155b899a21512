//! What the containers of a pod share, and what they see.

use vetch::holder::proto::Reply;

use crate::support::sandbox::Sandbox;
use crate::support::wait::{can_run, wait_for};
use crate::support::wire::{Wire, exec_request};
use crate::{LIVES, container, shell};

#[test]
fn a_pod_has_its_own_network_and_name() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    let see = |args: &[&str]| sandbox.exec(&id, args).2;
    assert_eq!(see(&["hostname"]), "web-1\n");
    let links = see(&["ip", "addr"]);
    assert!(links.contains("127.0.0.1/8"), "{links}");
    assert!(links.contains("LOOPBACK,UP"), "{links}");
    assert_eq!(
        links.matches("mtu").count(),
        links.matches("lo").count().min(1)
    );
    let sysctl = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    assert_eq!(see(&["cat", sysctl]), "0\n");
    let sysctl = "/proc/sys/net/ipv4/ping_group_range";
    assert_eq!(see(&["cat", sysctl]), "0\t2147483647\n");
    for ns in ["net", "ipc", "uts"] {
        let link = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/{ns}")).unwrap();
        let holder = link(&sandbox.pid().to_string());
        assert_ne!(holder, link("self"), "{ns}");
        assert_eq!(
            holder,
            link(&sandbox.container_pid(&id).to_string()),
            "{ns}"
        );
    }
}

#[test]
fn host_network_means_the_hosts_network_and_name() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&format!("  hostNetwork: true\n{}", shell(LIVES)));
    let id = sandbox.run("c");
    for (ns, same) in [
        ("net", true),
        ("uts", true),
        ("ipc", false),
        ("mnt", false),
        ("pid", false),
    ] {
        let link = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/{ns}")).unwrap();
        let container = link(&sandbox.container_pid(&id).to_string());
        assert_eq!(container == link("self"), same, "{ns}");
    }
    assert_eq!(sandbox.exec(&id, &["true"]).0, 0);
}

/// P-180, P-182, C-66.
#[test]
fn containers_share_memory_and_loopback_but_not_processes() {
    if !can_run() {
        return;
    }
    let spec = format!(
        "  containers:\n{}{}",
        container(
            "a",
            "echo shared > /dev/shm/x; nc -l -p 4242 -e echo reached"
        ),
        container("b", LIVES)
    );
    let sandbox = Sandbox::start(&spec);
    let (a, b) = (sandbox.run("a"), sandbox.run("b"));
    let reach = "until test -e /dev/shm/x; do sleep 0.02; done; cat /dev/shm/x; \
                 until nc 127.0.0.1 4242; do sleep 0.02; done; ls /proc | head -n 1";
    let (_, _, output) = sandbox.exec(&b, &["sh", "-c", reach]);
    assert!(output.starts_with("shared\nreached\n1\n"), "{output}");
    let processes = sandbox.exec(&b, &["ps"]).2;
    assert!(!processes.contains("4242"), "{processes}");
    assert_eq!(sandbox.exit(&a).code, 0);
}

#[test]
fn a_hundred_layers_are_one_root() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell("ls /layers | head -n 200"));
    sandbox.adjust = |request| {
        let base = request.rootfs.lower[0].parent().unwrap().to_owned();
        for number in 0..100 {
            let layer = base.join(format!("layer,with:odd-name-{number}"));
            std::fs::create_dir_all(layer.join("layers")).unwrap();
            std::fs::File::create(layer.join("layers").join(number.to_string())).unwrap();
            request.rootfs.lower.insert(0, layer);
        }
    };
    let id = sandbox.run("c");
    assert_eq!(sandbox.exit(&id).code, 0);
    assert_eq!(sandbox.log(&id).lines().count(), 100);
}

/// C-26.
#[test]
fn the_working_directory_is_made_for_its_user() {
    if !can_run() {
        return;
    }
    let spec = "  securityContext: {runAsUser: 1000, runAsGroup: 1000}\n  containers:\n  - name: c\n    image: busybox\n    workingDir: /srv/app\n    command: [sh, -c, 'pwd; touch mine && id; cat /proc/self/status; exec sleep 1000']";
    let mut sandbox = Sandbox::start(spec);
    sandbox.adjust = |request| (request.rootfs.uid, request.rootfs.gid) = (1000, 1000);
    let id = sandbox.run("c");
    let (code, _, own) = sandbox.exec(&id, &["sh", "-c", "pwd; id; cat /proc/self/status"]);
    assert_eq!(code, 0);
    let log = wait_for("output", || {
        let log = sandbox.log(&id);
        log.contains("Speculation").then_some(log)
    });
    for text in [&log, &own] {
        assert!(text.starts_with("/srv/app\nuid=1000 gid=1000"), "{text}");
        assert!(
            text.contains("Groups:\t\n") || text.contains("Groups:\t1000"),
            "{text}"
        );
        assert!(text.contains("CapEff:\t0000000000000000"), "{text}");
        assert!(text.contains("CapPrm:\t0000000000000000"), "{text}");
        assert!(text.contains("Seccomp:\t2"), "{text}");
    }
}

/// C-7.
#[test]
fn the_environment_arrives_in_its_order() {
    if !can_run() {
        return;
    }
    let spec = "  containers:\n  - name: c\n    image: busybox\n    command: [/bin/env]\n    env:\n    - {name: Z, value: z}\n    - {name: A, value: a}\n    - {name: M, value: 'x=y z'}";
    let sandbox = Sandbox::start(spec);
    let id = sandbox.run("c");
    sandbox.exit(&id);
    let log = sandbox.log(&id);
    let ours: Vec<_> = log.lines().filter(|l| l.as_bytes()[1] == b'=').collect();
    assert_eq!(ours, ["Z=z", "A=a", "M=x=y z"]);
    assert!(log.contains("PATH=/"), "{log}");
    assert!(!log.contains("VETCH"), "{log}");
    assert_eq!(sandbox.remove(&id, true), Reply::Done);
}

#[test]
fn a_user_can_open_its_streams_again() {
    if !can_run() {
        return;
    }
    let spec = "  securityContext: {runAsUser: 1000}\n  containers:\n  - name: c\n    image: busybox\n    command: [sh, -c, 'echo out > /dev/stdout; echo err > /dev/stderr; exec sleep 1000']";
    let sandbox = Sandbox::start(spec);
    let id = sandbox.run("c");
    wait_for("output", || {
        let log = sandbox.log(&id);
        (log.contains("out\n") && log.contains("err\n")).then_some(())
    });
    let wire = Wire::connect(&sandbox.paths);
    let mut command = exec_request(&id, &["sh", "-c", "read go; echo seen > $(tty) && exit 3"]);
    command.tty = true;
    let request = wire.send(vetch::holder::proto::Request::Exec(command), &[]);
    let (_, fds) = wire.reply(request);
    let mut master = std::fs::File::from(fds.into_iter().next().unwrap());
    std::io::Write::write_all(&mut master, b"go\n").unwrap();
    assert_eq!(wire.exec_exit(), (3, false));
}

#[test]
fn links_of_the_image_are_not_in_the_way_of_mounts() {
    if !can_run() {
        return;
    }
    for (link, target) in [
        ("etc/message", "../tmp/gone/message"),
        ("etc/message", "message"),
        ("etc/message", "/dev/gone"),
        ("etc", "../../var/etc"),
    ] {
        let sandbox = Sandbox::start(
            "  containers:\n  - name: c\n    image: busybox\n    terminationMessagePath: /etc/message\n    command: [sh, -c, 'echo -n bye > /etc/message']",
        );
        let layer = sandbox.dir.path().join("layer");
        if link == "etc" {
            std::fs::remove_dir(layer.join("etc")).unwrap();
        }
        std::os::unix::fs::symlink(target, layer.join(link)).unwrap();
        let id = sandbox.run("c");
        let exit = sandbox.exit(&id);
        assert_eq!(exit.message.as_deref(), Some("bye"), "{link} -> {target}");
    }
}
