//! The built-in image `builtin/hello`: vetch's own static binary and nothing else, so that a first try needs neither
//! network nor files. It is written as an OCI layout and imported like any other.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::digest::{Digest, Hashing};
use super::import::{self, ImportError, ImportOptions, ImportReport};
use super::platform::Platform;
use super::{Store, StoreError};

pub use crate::pod::image_ref::BUILTIN as HELLO;

/// Makes [`HELLO`] and imports it. Waits for the store's lock.
pub fn import_hello(store: &Store, options: &ImportOptions) -> Result<ImportReport, ImportError> {
    import::with_lock(store, |writer| {
        let archive = hello_archive(&store.staging_dir())?;
        import::import_locked(writer, &archive, options)
    })
}

/// Makes an OCI layout of [`HELLO`] in the new directory `hello` below `dir` and gives its path.
fn hello_archive(dir: &Path) -> Result<PathBuf, StoreError> {
    let layout = Layout::create(dir.join("hello"))?;
    let layer = layout.layer(Path::new("/proc/self/exe"))?;
    let platform = Platform::host();
    let config = layout.json(&json!({
        "architecture": platform.architecture,
        "variant": platform.variant,
        "os": "linux",
        "config": {"Entrypoint": ["/vetch", "hello"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
    }))?;
    let manifest = layout.json(&json!({
        "schemaVersion": 2,
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
    }))?;
    let mut descriptor = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
    descriptor["annotations"] = json!({"io.containerd.image.name": HELLO});
    layout.write(
        "index.json",
        &json!({"schemaVersion": 2, "manifests": [descriptor]}),
    )?;
    layout.write("oci-layout", &json!({"imageLayoutVersion": "1.0.0"}))?;
    Ok(layout.dir)
}

struct Layout {
    dir: PathBuf,
}

struct Blob {
    digest: Digest,
    size: u64,
}

impl Blob {
    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.size})
    }
}

impl Layout {
    fn create(dir: PathBuf) -> Result<Self, StoreError> {
        let blobs = dir.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).map_err(|e| StoreError::io("create", &blobs, e))?;
        Ok(Self { dir })
    }

    fn blob(&self, digest: &Digest) -> PathBuf {
        self.dir.join("blobs/sha256").join(digest.hex())
    }

    fn json(&self, value: &Value) -> Result<Blob, StoreError> {
        let text = value.to_string();
        let digest = Digest::of(text.as_bytes());
        self.write(&format!("blobs/sha256/{}", digest.hex()), value)?;
        Ok(Blob {
            digest,
            size: text.len() as u64,
        })
    }

    /// Not synced: it is imported at once and thrown away.
    fn write(&self, name: &str, value: &Value) -> Result<(), StoreError> {
        let path = self.dir.join(name);
        File::create(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, value.to_string().as_bytes()))
            .map_err(|e| StoreError::io("write", &path, e))
    }

    /// A tar that holds the program as `/vetch`.
    fn layer(&self, program: &Path) -> Result<Blob, StoreError> {
        let path = self.dir.join("layer");
        write_layer(program, &path).map_err(|e| StoreError::io("write", &path, e))?;
        let mut file = File::open(&path)
            .map(Hashing::new)
            .map_err(|e| StoreError::io("open", &path, e))?;
        let size =
            io::copy(&mut file, &mut io::sink()).map_err(|e| StoreError::io("read", &path, e))?;
        let digest = file.finish();
        let target = self.blob(&digest);
        std::fs::rename(&path, &target).map_err(|e| StoreError::io("rename into", &target, e))?;
        Ok(Blob { digest, size })
    }
}

fn write_layer(program: &Path, path: &Path) -> io::Result<()> {
    let mut program = File::open(program)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(program.metadata()?.len());
    header.set_mode(0o755);
    let mut tar = tar::Builder::new(File::create(path)?);
    tar.append_data(&mut header, "vetch", &mut program)?;
    tar.finish()
}
