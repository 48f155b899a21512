//! What the agent orders and the holder makes. Data only: no I/O.
//!
//! A volume that has to be made (a tmpfs, an image, files) is made once per holder at
//! [`crate::config::HolderPaths::volume`]. Each mount of a container gets a bind of its own, of the volume or of a path
//! in it, at [`crate::config::HolderPaths::volume_mount`], with the propagation that is asked for; that is what the
//! runtime specification names as the mount's source.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Everything that one container mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeOrder {
    /// The volumes that it mounts, each once.
    pub volumes: Vec<Volume>,
    /// Its mounts; their position is their number.
    pub mounts: Vec<VolumeMount>,
    /// C-35, V-60: of the volumes that are the pod's own.
    pub fs_group: Option<FsGroup>,
}

/// A volume of the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// `volumes[].name`.
    pub name: String,
    /// What it is.
    pub source: Source,
}

/// Where a volume's content is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// V-20…V-28.
    HostPath {
        /// Absolute.
        path: PathBuf,
        /// What has to be there.
        kind: HostPathKind,
    },
    /// V-10: a directory on the root directory's file system, made if it is missing.
    EmptyDir {
        /// In the pod's durable directory.
        dir: PathBuf,
    },
    /// V-13: a tmpfs.
    Memory {
        /// None: half of the memory, the kernel's own limit.
        size_bytes: Option<u64>,
    },
    /// V-30: files from ConfigMaps, Secrets and the pod itself, on a tmpfs; their content comes in a [`Payload`].
    Files,
    /// V-57: the root file system of an image, read-only.
    Image {
        /// Unpacked layers, top-most first.
        layers: Vec<PathBuf>,
    },
}

/// `hostPath.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostPathKind {
    /// V-20: not said; a missing one becomes a directory.
    Unset,
    /// V-21.
    DirectoryOrCreate,
    /// V-22.
    Directory,
    /// V-23.
    FileOrCreate,
    /// V-24.
    File,
    /// V-24.
    Socket,
    /// V-24; the container may use the device (D-16).
    CharDevice,
    /// V-24; the container may use the device (D-16).
    BlockDevice,
}

/// One mount of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMount {
    /// [`Volume::name`].
    pub volume: String,
    /// V-53: below the volume's root, relative, without `..`; variables are expanded (V-55).
    pub sub_path: Option<PathBuf>,
    /// The same for messages, with its variables, if it has some: their values may be those of Secrets.
    #[serde(default)]
    pub sub_path_expr: Option<String>,
    /// V-52.
    pub propagation: Propagation,
}

/// V-52: which way later mounts travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// `None`: neither way.
    Private,
    /// `HostToContainer`.
    FromHost,
    /// `Bidirectional`.
    Both,
}

/// V-60: who may write to the pod's own volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsGroup {
    /// `fsGroup`.
    pub gid: u32,
    /// `fsGroupChangePolicy: OnRootMismatch`.
    pub only_on_root_mismatch: bool,
}

/// Contents of [`Source::Files`] volumes. Too large for a packet, and not to be written down: it travels in a memory
/// file whose descriptor comes with the request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// When this was decided, CLOCK_BOOTTIME ms: older content never replaces newer.
    pub generation: u64,
    /// By name of the volume.
    pub volumes: BTreeMap<String, FileSet>,
}

/// The files of one volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSet {
    /// Of everything below, to tell whether something changed.
    pub hash: String,
    /// By path: relative, without `..`.
    pub files: BTreeMap<String, FileContent>,
    /// V-32: the group that may read them.
    pub gid: Option<u32>,
}

/// One file. Never shown: it may be secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// Content.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub data: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

impl std::fmt::Debug for FileContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let length = self.data.len();
        write!(f, "FileContent({length} bytes, mode {:o})", self.mode)
    }
}

fn to_base64<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(data))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(de::Error::custom)
}
