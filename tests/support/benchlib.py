"""What tests/bench needs: a private agent, a private podman, a beacon that containers connect to, /proc readers."""

import asyncio
import base64
import collections
import contextlib
import hashlib
import io
import json
import os
import pathlib
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import threading
import time

IMAGE = "localhost/bench:1"
BUSYBOX = pathlib.Path("/bin/busybox")
DEADLINE_S = 60

# Connects to the beacon, stays connected while it lives, and exits at once on SIGTERM.
SCRIPT = "trap 'exit 0' TERM; sleep 100000 | nc 127.0.0.1 {port} & wait"

Usage = collections.namedtuple("Usage", "written switches")


def release_binary(top):
    """Builds the release binary (a no-op when it is fresh) and returns its path."""
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=top, check=True)
    found = sorted(top.glob("target/*/release/vetch"), key=lambda path: path.stat().st_mtime)
    if not found:
        sys.exit("tests/bench: no release binary below target/")
    return found[-1]


def smaps(pid):
    """Fields of smaps_rollup in kB."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def private_kb(pid):
    """Memory that would be free without this process."""
    fields = smaps(pid)
    return fields["Private_Clean"] + fields["Private_Dirty"]


def usage(pids):
    """Bytes sent to storage and voluntary context switches of all threads of these processes."""
    written = switches = 0
    for pid in pids:
        io_text = pathlib.Path(f"/proc/{pid}/io").read_text()
        written += int(io_text.split("\nwrite_bytes:")[1].split()[0])
        for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
            switches += int(status.read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return Usage(written, switches)


def comm(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def cpu_s(pids):
    """CPU seconds of these processes and of the children that they have reaped."""
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def cgroup_cpu_s(cgroup):
    """CPU seconds of all that is and was in a cgroup and below."""
    v1 = pathlib.Path(f"/sys/fs/cgroup/cpuacct{cgroup}/cpuacct.usage")
    if v1.exists():
        return int(v1.read_text()) / 1e9
    v2 = pathlib.Path(f"/sys/fs/cgroup{cgroup}/cpu.stat").read_text()
    return int(v2.split("usage_usec")[1].split()[0]) / 1e6


def busybox_rootfs(directory):
    """A root file system with busybox and the applets that SCRIPT needs."""
    (directory / "bin").mkdir(parents=True)
    shutil.copy(BUSYBOX, directory / "bin/busybox")
    for applet in ("sh", "sleep", "nc", "true"):
        (directory / "bin" / applet).symlink_to("busybox")
    for empty in ("proc", "sys", "dev", "etc", "tmp"):
        (directory / empty).mkdir()


def docker_archive(rootfs, target):
    """A docker-archive of one uncompressed layer."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(rootfs, arcname=".")
    diff_id = "sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()
    arch = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}.get(platform.machine(), platform.machine())
    config = json.dumps({
        "architecture": arch,
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"]},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{}],
    }).encode()
    name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": name, "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(target, "w") as tar:
        for entry, content in ((name, config), ("layer.tar", layer.getvalue()), ("manifest.json", manifest)):
            info = tarfile.TarInfo(entry)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def pod(name, label, port):
    """A manifest whose only container runs SCRIPT."""
    container = {"name": "c", "image": IMAGE, "imagePullPolicy": "Never",
                 "command": ["sh", "-c", SCRIPT.format(port=port)]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"v": label}},
                       "spec": {"hostNetwork": True, "containers": [container]}})


def pod_with_volumes(name, label, port):
    """The same with limits and three volumes: of the host, on a tmpfs, and the Secret that all pods share."""
    manifest = json.loads(pod(name, label, port))
    container = manifest["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "5m", "memory": "1Mi"}}
    container["volumeMounts"] = [{"name": volume, "mountPath": f"/{volume}", "readOnly": volume == "host"}
                                 for volume in ("host", "memory", "secret")]
    manifest["spec"]["volumes"] = [{"name": "host", "hostPath": {"path": "/usr/share", "type": "Directory"}},
                                   {"name": "memory", "emptyDir": {"medium": "Memory"}},
                                   {"name": "secret", "secret": {"secretName": "s"}}]
    return json.dumps(manifest)


def pod_of_one_process_tree(name, label, port):
    """The same as `pod`, with a first process that all its containers share."""
    manifest = json.loads(pod(name, label, port))
    manifest["spec"]["shareProcessNamespace"] = True
    return json.dumps(manifest)


def secret(value):
    """The Secret of `pod_with_volumes`."""
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"value": value}})


def probed_pod(name, handler):
    """A manifest with two containers that sleep, each with a liveness and a readiness probe every second."""
    probe = {"periodSeconds": 1, "timeoutSeconds": 5, **handler}
    containers = [{"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "100000"],
                   "livenessProbe": probe, "readinessProbe": probe} for name in "ab"]
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                       "spec": {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": containers}})


class ProbeServer:
    """Answers 200 to whoever asks, and counts those who connect."""

    def __init__(self):
        self.asked = 0
        self.loop = asyncio.new_event_loop()
        serve = asyncio.start_server(self.answer, "127.0.0.1", 0, backlog=512)
        self.server = self.loop.run_until_complete(serve)
        self.port = self.server.sockets[0].getsockname()[1]
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    async def answer(self, reader, writer):
        self.asked += 1
        with contextlib.suppress(OSError):
            if await reader.read(4096):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            writer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.server.close()


class Beacon:
    """A loopback server that containers connect to: accepting is 'the process runs', closing is 'it is gone'."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.server.settimeout(DEADLINE_S)
        self.port = self.server.getsockname()[1]
        self.connections = []

    def accept(self, start):
        """Seconds from `start` to the next connection."""
        connection, _ = self.server.accept()
        elapsed = time.monotonic() - start
        self.connections.append(connection)
        return elapsed

    def accept_many(self, count, start):
        """Seconds from `start` to the last of `count` connections."""
        return max([self.accept(start) for _ in range(count)], default=0.0)

    def wait_closed(self):
        """Until the newest connection is closed by the other side."""
        connection = self.connections.pop()
        connection.settimeout(DEADLINE_S)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(4096):
                pass
        connection.close()

    def close(self):
        for connection in self.connections:
            connection.close()
        self.server.close()


class Agent:
    """A vetch agent with private directories and cgroup root, its image loaded, ended with all its pods at the end."""

    def __init__(self, bench, scratch, pods, kind):
        self.scratch, self.binary, self.run_dir = scratch, bench.binary, bench.run_directory()
        self.beacon = Beacon()
        self.manifests = scratch / "m"
        self.manifests.mkdir()
        self.cgroup = f"/vetch-bench-{os.getpid()}"
        busybox_rootfs(scratch / "rootfs")
        docker_archive(scratch / "rootfs", scratch / "image.tar")
        self.vetch("image", "import", "--root-dir", scratch / "root", scratch / "image.tar")
        if kind is pod_with_volumes:
            self.change_secret("0")
        for number in range(pods):
            self.apply(f"p{number}", kind(f"p{number}", "v", self.beacon.port))
        self.started = self.ready_after = 0.0
        self.process = self.spawn()

    def vetch(self, *args):
        return subprocess.run([self.binary, *args], check=True, capture_output=True, text=True).stdout

    def spawn(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(self.scratch / "notify"))
        notify.settimeout(DEADLINE_S)
        command = [self.binary, "agent", "--pod-manifest-path", self.manifests, "--root-dir", self.scratch / "root",
                   "--run-dir", self.run_dir, "--log-dir", self.scratch / "log",
                   "--cgroup-root", self.cgroup, "--hostname-override", "bench"]
        env = {**os.environ, "NOTIFY_SOCKET": str(self.scratch / "notify")}
        with open(self.scratch / "agent.log", "w") as log:
            self.started = time.monotonic()
            process = subprocess.Popen(command, stderr=log, env=env)
        while b"READY=1" not in notify.recv(4096):
            pass
        self.ready_after = time.monotonic() - self.started
        return process

    def pod(self, name, label="v"):
        return pod(name, label, self.beacon.port)

    def apply(self, name, text, mode=0o644):
        """Renames a manifest into place; returns the moment before the rename."""
        temporary = self.scratch / f"{name}.new"
        temporary.write_text(text)
        temporary.chmod(mode)
        start = time.monotonic()
        temporary.rename(self.manifests / f"{name}.json")
        return start

    def change_secret(self, value):
        """Returns the moment before the change."""
        return self.apply("secret", secret(value), mode=0o600)

    def remove(self, name):
        (self.manifests / f"{name}.json").unlink()

    def wait_ready(self, pods):
        """Until so many pods are ready."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            found = json.loads(self.vetch("get", "pods", "-o", "json", "--run-dir", self.run_dir))["items"]
            conditions = [c for pod in found for c in pod["status"].get("conditions", [])]
            if sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions) >= pods:
                return
            time.sleep(0.5)
        sys.exit("tests/bench: the pods are not ready")

    def states(self):
        return [json.loads(path.read_text()) for path in (self.run_dir / "holders").glob("*/state.json")]

    def holders(self):
        return [state["process"]["pid"] for state in self.states()]

    def first_processes(self):
        """Of pods whose containers see each other's processes: what reaps there."""
        def parent(pid):
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
        holders = {str(pid) for pid in self.holders()}
        pauses = [pid for pid in os.listdir("/proc") if pid.isdigit() and comm(pid) == "pause"]
        return [int(pid) for pid in pauses if parent(pid) in holders]

    def containers(self, count):
        """The first process of each, once the holders have so many on record."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            containers = [container for state in self.states() for container in state["containers"]]
            pids = [container["state"]["Running"]["process"]["pid"] for container in containers]
            if len(pids) >= count:
                return pids
            time.sleep(0.05)
        sys.exit("tests/bench: containers are missing")

    def summary(self):
        """Bytes of the answer to /stats/summary."""
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(DEADLINE_S)
        with client:
            client.connect(str(self.run_dir / "agent.sock"))
            client.sendall(b"GET /stats/summary HTTP/1.1\r\nHost: vetch\r\nConnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
        if b" 200 " not in answer.split(b"\r\n")[0]:
            sys.exit(f"tests/bench: /stats/summary: {answer[:200]}")
        return answer

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.vetch("stop", "--all", "--run-dir", self.run_dir)
        self.process.wait(DEADLINE_S)
        self.beacon.close()


class Volumes:
    """Those of a container of `pod_with_volumes`, or none: ordered of its holder again, or mounted by others as they are."""

    SOURCES = {"host": {"HostPath": {"path": "/usr/share", "kind": "Directory"}},
               "memory": {"Memory": {"size_bytes": None}},
               "secret": "Files"}

    def __init__(self, holder, mounts):
        self.holder = holder
        wanted = [mount["destination"].strip("/") for mount in mounts]
        self.names = [name for name in wanted if name in self.SOURCES]

    def order(self):
        mounts = [{"volume": name, "sub_path": None, "propagation": "Private"} for name in self.names]
        volumes = [{"name": name, "source": self.SOURCES[name]} for name in self.names]
        return {"volumes": volumes, "mounts": mounts, "fs_group": None}

    def payload(self):
        """A descriptor, if any."""
        if not self.names:
            return []
        files = {"value": {"data": base64.b64encode(b"0").decode(), "mode": 0o644}}
        generation = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        content = {"generation": generation, "volumes": {"secret": {"hash": "0", "files": files, "gid": None}}}
        file = os.memfd_create("bench", os.MFD_CLOEXEC)
        os.write(file, json.dumps(content).encode())
        return [file]

    def binds(self, container):
        """Where the holder will have them, by mount point."""
        binds = self.holder / "mounts" / container
        return {f"/{name}": str(binds / str(index)) for index, name in enumerate(self.names)}

    def roots(self):
        """Where they are, in the holder's mount namespace."""
        return {f"/{name}": "/usr/share" if name == "host" else str(self.holder / "volumes" / name) for name in self.names}


class Bundle:
    """The bundle of a running container, started again under new ids by its holder, crun and runc."""

    def __init__(self, agent):
        self.agent = agent
        agent.containers(1)
        self.holder = next((agent.run_dir / "holders").iterdir())
        bundle = next((self.holder / "containers").iterdir())
        self.spec = json.loads((bundle / "config.json").read_text())
        self.spec["process"]["args"] = ["sleep", "100000"]
        self.volumes = Volumes(self.holder, self.spec["mounts"])
        self.record = json.loads((self.holder / "state.json").read_text())["containers"][0]
        self.layers = [str(path) for path in (agent.scratch / "root/images").glob("layers/sha256/*/fs")]
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(str(self.holder / "holder.sock"))
        self.socket.settimeout(DEADLINE_S)

    def write_spec(self, directory, container, sources):
        spec = json.loads(json.dumps(self.spec))
        for mount in spec["mounts"]:
            mount["source"] = sources.get(mount["destination"], mount.get("source"))
        spec["linux"]["cgroupsPath"] = os.path.dirname(self.spec["linux"]["cgroupsPath"]) + "/" + container
        directory.mkdir(parents=True)
        (directory / "config.json").write_text(json.dumps(spec))

    def by_holder(self, number):
        container = f"{number:064x}"
        writable = self.agent.scratch / "bench-layer" / container
        (writable / "upper").mkdir(parents=True)
        (writable / "work").mkdir()
        self.write_spec(self.holder / "containers" / container, container, self.volumes.binds(container))
        create = {
            "id": container, "name": f"b{number}", "restart_count": 0, "hash": "0", "image": self.record["image"],
            "image_id": self.record["image_id"],
            "rootfs": {"lower": self.layers, "writable": str(writable), "cwd": "/", "uid": 0, "gid": 0},
            "confinement": {"seccomp": "RuntimeDefault", "no_new_privileges": False,
                            "capabilities": self.spec["process"]["capabilities"]["bounding"]},
            "log": {"file": str(self.agent.scratch / f"b{number}.log"), "link": str(self.agent.scratch / f"l{number}"),
                    "max_size": 1 << 20, "max_files": 2},
            "termination_message": None, "termination_message_from_logs": False, "volumes": self.volumes.order()}
        payload = self.volumes.payload()
        start = time.monotonic()
        answer = self.ask(number, {"Create": create}, payload)
        elapsed = time.monotonic() - start
        if "Started" not in str(answer):
            sys.exit(f"tests/bench: the holder could not start a container: {answer}")
        self.ask(number, {"Stop": {"id": container, "signal": 9, "grace_ms": 2000, "reason": "bench"}})
        return elapsed

    def ask(self, number, request, fds=()):
        socket.send_fds(self.socket, [json.dumps({"id": number, "request": request}).encode()], list(fds))
        for fd in fds:
            os.close(fd)
        while True:
            answer = json.loads(self.socket.recv(1 << 18))
            if "Reply" in answer and answer["Reply"]["id"] == number:
                return answer["Reply"]["reply"]

    def by_cli(self, runtime, number):
        """The overlay is mounted beforehand: neither crun nor runc does that; the holder's figure includes it."""
        container = f"vb-{os.getpid()}-{number}"
        directory = self.agent.run_dir / f"{runtime}-{number}"
        self.write_spec(directory, container, self.volumes.roots())
        (directory / "rootfs").mkdir()
        writable = self.agent.scratch / f"{runtime}-{number}"
        for part in ("upper", "work"):
            (writable / part).mkdir(parents=True)
        state = self.agent.run_dir / runtime
        # The spec mounts the pod's shared memory, which exists only in the holder's mount namespace.
        pid = json.loads((self.holder / "state.json").read_text())["process"]["pid"]
        lower = ":".join(self.layers)
        script = f"""
            mount -t overlay overlay -o lowerdir={lower},upperdir={writable}/upper,workdir={writable}/work {directory}/rootfs
            umount /sys/fs/cgroup/unified 2>/dev/null
            set -e
            echo $EPOCHREALTIME
            {runtime} --root {state} create --bundle {directory} {container} </dev/null >/dev/null
            {runtime} --root {state} start {container}
            echo $EPOCHREALTIME
            {runtime} --root {state} delete --force {container} >/dev/null
        """
        enter = ["nsenter", "--mount", "--target", str(pid), "unshare", "--mount", "bash", "-c", script]
        done = subprocess.run(enter, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"tests/bench: {runtime} failed: {done.stderr.strip()}")
        start, end = done.stdout.split()[:2]
        return float(end) - float(start)


class Podman:
    """A private podman with runc, cgroupfs and the same image."""

    def __init__(self, bench, scratch):
        self.scratch, self.runs, self.run_dir = scratch, max(3, bench.runs // 2), bench.run_directory()
        self.beacon = Beacon()
        config = scratch / "containers.conf"
        config.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
                          '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n')
        self.env = {**os.environ, "CONTAINERS_CONF": str(config)}
        busybox_rootfs(scratch / "rootfs")
        docker_archive(scratch / "rootfs", scratch / "image.tar")
        self.podman("load", "-i", scratch / "image.tar")
        # The first run builds podman's pause image; that is not what we measure.
        self.play(0)
        self.beacon.accept(time.monotonic())
        self.down()
        self.beacon.wait_closed()

    def podman(self, *args):
        base = ["podman", "--root", self.scratch / "root", "--runroot", self.run_dir]
        done = subprocess.run([*base, *args], env=self.env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"tests/bench: podman {args[0]} failed: {done.stderr.strip()}")

    def play(self, number, *options):
        path = self.scratch / "pod.yaml"
        path.write_text(pod("bench", str(number), self.beacon.port))
        self.podman("play", "kube", *options, path)

    def down(self):
        self.podman("play", "kube", "--down", self.scratch / "pod.yaml")

    def close(self):
        base = ["podman", "--root", self.scratch / "root", "--runroot", self.run_dir]
        subprocess.run([*base, "pod", "rm", "--all", "--force"], env=self.env, capture_output=True)
        subprocess.run([*base, "rmi", "--all", "--force"], env=self.env, capture_output=True)
        subprocess.run(["umount", self.scratch / "root/overlay"], capture_output=True)
        self.beacon.close()


class Missing:
    """Stands in for a peer that is not installed: nothing is run."""

    runs = 0


class Bench:
    """Collects samples and prints the table."""

    def __init__(self, binary, directories, runs, idle, probes):
        self.binary, self.runs, self.idle, self.probes = binary, runs, idle, probes
        self.scratch, self.volatile = directories
        self.samples, self.values, self.skipped, self.count = {}, {}, [], 0

    def directory(self):
        self.count += 1
        path = self.scratch / str(self.count)
        path.mkdir()
        return path

    def run_directory(self):
        """On a tmpfs, as /run is."""
        self.count += 1
        path = self.volatile / str(self.count)
        path.mkdir()
        return path

    @contextlib.contextmanager
    def agent(self, pods=0, kind=pod):
        agent = Agent(self, self.directory(), pods, kind)
        try:
            yield agent
        finally:
            agent.close()

    @contextlib.contextmanager
    def podman(self, figure):
        if not shutil.which("podman") or not shutil.which("runc"):
            self.skip(f"{figure} with podman", "podman or runc is not installed")
            yield Missing()
            return
        podman = Podman(self, self.directory())
        try:
            yield podman
        finally:
            podman.close()

    def sample(self, figure, who, seconds):
        self.samples.setdefault(figure, {}).setdefault(who, []).append(seconds * 1000)

    def value(self, figure, number, unit):
        self.values[figure] = (number, unit)

    def skip(self, what, why):
        self.skipped.append(f"SKIPPED: {what}: {why}")

    def report(self):
        print(f"machine: {os.cpu_count()} cores, {platform.machine()}, kernel {platform.release()}, "
              f"load {os.getloadavg()[0]:.1f}")
        print(f"{'figure':<40} {'who':<8} {'median ms':>10} {'min':>8} {'max':>8} {'vetch/who':>10}")
        for figure, by in self.samples.items():
            ours = statistics.median(by["vetch"])
            for who, values in by.items():
                median = statistics.median(values)
                ratio = f"{ours / median:.2f}" if who != "vetch" else ""
                print(f"{figure:<40} {who:<8} {median:>10.1f} {min(values):>8.1f} {max(values):>8.1f} {ratio:>10}")
        for figure, (number, unit) in self.values.items():
            print(f"{figure:<49} {number:>10} {unit}")
        for line in self.skipped:
            print(line)

    def as_json(self):
        return {"samples_ms": self.samples, "values": self.values, "skipped": self.skipped}
