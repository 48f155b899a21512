//! What the containers of a [`super::sandbox::Sandbox`] mount: the order for the holder, the mounts of config.json that
//! belong to it, and the contents of files.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail by panic")]

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use oci_spec::runtime::{Mount, MountBuilder, Spec};
use vetch::config::HolderPaths;
use vetch::volume::spec::{
    FileContent, FileSet, HostPathKind, Payload, Propagation, Source, Volume, VolumeMount,
    VolumeOrder,
};

#[derive(Clone, Default)]
pub struct Mounts {
    pub order: VolumeOrder,
    pub payload: Payload,
    /// Where in the container, and with which options.
    targets: Vec<(PathBuf, Vec<String>)>,
}

impl Mounts {
    pub fn volume(mut self, name: &str, source: Source) -> Self {
        let name = name.to_owned();
        self.order.volumes.push(Volume { name, source });
        self
    }

    pub fn host_path(self, name: &str, path: impl Into<PathBuf>, kind: HostPathKind) -> Self {
        let path = path.into();
        self.volume(name, Source::HostPath { path, kind })
    }

    /// A volume of files with this content.
    pub fn files(mut self, name: &str, generation: u64, set: FileSet) -> Self {
        self.payload.generation = generation;
        self.payload.volumes.insert(name.to_owned(), set);
        self.volume(name, Source::Files)
    }

    /// Mounts the whole volume.
    pub fn on(self, volume: &str, target: &str) -> Self {
        self.mount(volume, target, |_| {}, &["rw"])
    }

    pub fn mount(
        mut self,
        volume: &str,
        target: &str,
        change: impl FnOnce(&mut VolumeMount),
        options: &[&str],
    ) -> Self {
        let mut mount = VolumeMount {
            volume: volume.to_owned(),
            sub_path: None,
            sub_path_expr: None,
            propagation: Propagation::Private,
        };
        change(&mut mount);
        self.order.mounts.push(mount);
        let options = ["rbind"].iter().chain(options);
        self.targets
            .push((target.into(), options.map(|&o| o.to_owned()).collect()));
        self
    }

    pub fn sub_path(self, volume: &str, sub_path: &str, target: &str) -> Self {
        let change = |mount: &mut VolumeMount| mount.sub_path = Some(sub_path.into());
        self.mount(volume, target, change, &["rw"])
    }

    pub fn propagating(self, volume: &str, target: &str, propagation: Propagation) -> Self {
        let change = |mount: &mut VolumeMount| mount.propagation = propagation;
        self.mount(volume, target, change, &["rw"])
    }

    /// Adds the mounts to config.json.
    pub fn add_to(&self, spec: &mut Spec, paths: &HolderPaths, id: &str) {
        let ours = self.targets.iter().enumerate().map(|(index, target)| {
            let (destination, options) = target.clone();
            MountBuilder::default()
                .destination(destination)
                .typ("bind")
                .source(paths.volume_mount(id, index))
                .options(options)
                .build()
                .unwrap()
        });
        let mut mounts: Vec<Mount> = spec.mounts().clone().unwrap_or_default();
        mounts.extend(ours);
        spec.set_mounts(Some(mounts));
        let is_both = |mount: &VolumeMount| mount.propagation == Propagation::Both;
        if self.order.mounts.iter().any(is_both) {
            let linux = spec.linux_mut().as_mut().unwrap();
            linux.set_rootfs_propagation(Some("shared".to_owned()));
        }
    }

    /// The memory file that goes with a request.
    pub fn payload_file(&self) -> Option<OwnedFd> {
        (!self.payload.volumes.is_empty()).then(|| payload_file(&self.payload))
    }
}

pub fn payload_file(payload: &Payload) -> OwnedFd {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create("files", flags).unwrap();
    let mut file = std::fs::File::from(file);
    file.write_all(&serde_json::to_vec(payload).unwrap())
        .unwrap();
    file.into()
}

/// Files by (path, content, mode), with a hash that tells them apart.
pub fn file_set(files: &[(&str, &str, u32)]) -> FileSet {
    let content = |&(path, data, mode): &(&str, &str, u32)| {
        let data = data.as_bytes().to_vec();
        (path.to_owned(), FileContent { data, mode })
    };
    FileSet {
        hash: format!("{files:?}"),
        files: files.iter().map(content).collect(),
        gid: None,
    }
}
