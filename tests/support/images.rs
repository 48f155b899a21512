//! Images made on the spot, so that no test needs a network.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const BUSYBOX: &str = "/bin/busybox";

/// A docker-archive `busybox.tar` in `dir` with the image `busybox:latest`: Debian's busybox-static with links for all its
/// applets, no entrypoint, cmd `sh`, user root.
pub fn busybox_archive(dir: &Path) -> PathBuf {
    let config = json!({
        "Cmd": ["sh"],
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    });
    let path = dir.join("busybox.tar");
    docker_archive(&path, "busybox:latest", config, &[busybox_layer()]);
    path
}

/// Writes a docker-archive of one image with the given layers (uncompressed tars, lowest first). `config` is the part
/// that holds Cmd, Env, Entrypoint, User, …
pub fn docker_archive(path: &Path, name: &str, config: Value, layers: &[Vec<u8>]) {
    let layer_names: Vec<_> = (0..layers.len())
        .map(|n| format!("{n}/layer.tar"))
        .collect();
    let diff_ids: Vec<_> = layers.iter().map(|layer| digest(layer)).collect();
    let config = image_config(config, &diff_ids);
    let config_name = format!("{}.json", &digest(&config)["sha256:".len()..]);
    let manifest = json!([{
        "Config": config_name,
        "RepoTags": [name],
        "Layers": layer_names,
    }]);
    let mut tar = tar::Builder::new(File::create(path).expect("create the archive"));
    append(&mut tar, &config_name, &config);
    for (name, layer) in layer_names.iter().zip(layers) {
        append(&mut tar, name, layer);
    }
    append(&mut tar, "manifest.json", manifest.to_string().as_bytes());
    tar.into_inner().expect("finish the archive");
}

/// An image configuration for this machine.
pub fn image_config(config: Value, diff_ids: &[String]) -> Vec<u8> {
    json!({
        "architecture": goarch(),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    })
    .to_string()
    .into_bytes()
}

/// This machine's architecture as images name it.
pub fn goarch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

/// `sha256:…`
pub fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn append(tar: &mut tar::Builder<File>, name: &str, data: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(data.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, name, data)
        .expect("append to the archive");
}

/// Its root file system.
pub fn busybox_layer() -> Vec<u8> {
    let busybox = fs::read(BUSYBOX)
        .unwrap_or_else(|e| panic!("{BUSYBOX}: {e}: apt-get install busybox-static"));
    let mut tar = tar::Builder::new(Vec::new());
    for dir in [
        "bin", "dev", "etc", "home", "proc", "root", "run", "sbin", "sys", "usr", "usr/bin",
        "usr/sbin", "var",
    ] {
        directory(&mut tar, dir, 0o755);
    }
    directory(&mut tar, "tmp", 0o1777);
    file(&mut tar, "bin/busybox", 0o755, &busybox);
    file(
        &mut tar,
        "etc/passwd",
        0o644,
        b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
    );
    file(
        &mut tar,
        "etc/group",
        0o644,
        b"root:x:0:\nnogroup:x:65534:\nusers:x:100:nobody\n",
    );
    for applet in applets() {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        tar.append_link(&mut header, &applet, BUSYBOX)
            .expect("append a link");
    }
    tar.into_inner().expect("finish the layer")
}

/// Paths such as `bin/sh`, without busybox itself.
fn applets() -> Vec<String> {
    let output = Command::new(BUSYBOX)
        .arg("--list-full")
        .output()
        .expect("run busybox");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|path| path.contains('/') && *path != "bin/busybox")
        .map(str::to_owned)
        .collect()
}

fn directory(tar: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_mode(mode);
    header.set_size(0);
    tar.append_data(&mut header, path, std::io::empty())
        .expect("append a directory");
}

fn file(tar: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, data: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(data.len() as u64);
    tar.append_data(&mut header, path, data)
        .expect("append a file");
}
