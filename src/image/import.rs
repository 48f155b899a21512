//! Import of an archive into the store. Blocking and slow: for the CLI, or a child of the agent.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::archive::{Archive, ArchiveError};
use super::compression::Decoder;
use super::digest::{Digest, Hashing};
use super::find::{FindError, Found, FoundLayer, find_images};
use super::platform::Platform;
use super::record::{self, Pin, Record};
use super::tar_stream::Input;
use super::unpack::{UnpackError, unpack};
use super::writer::Writer;
use super::{Store, StoreError, overlay};
use crate::pod::image_ref::ImageRef;
use crate::sys::remove;

/// Bytes read from an archive at once.
const BUFFER: usize = 64 * 1024;

/// How to import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// What to pin the images by.
    pub pin: Option<Pin>,
    /// Names instead of those in the archive, which then must hold exactly one image.
    pub names: Vec<String>,
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// In the order of the archive.
    pub images: Vec<ImportedImage>,
    /// For people: names left out and the like.
    pub warnings: Vec<String>,
}

/// One image of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedImage {
    /// Config digest.
    pub id: Digest,
    /// Normalised.
    pub names: Vec<String>,
    /// Layers that were not here before.
    pub new_layers: usize,
    /// All layers.
    pub layers: usize,
}

/// Why an import failed. Nothing of it is visible then.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The images in it.
    #[error(transparent)]
    Find(#[from] FindError),
    /// A layer.
    #[error("unpack layer {name}")]
    Unpack {
        /// Path inside the archive.
        name: String,
        /// Cause.
        #[source]
        source: UnpackError,
    },
    /// A layer's bytes are not what its digest says.
    #[error("layer {name} has the digest {found}, not {expected}")]
    WrongDigest {
        /// Path inside the archive.
        name: String,
        /// Of the file or of the tar in it.
        expected: Digest,
        /// What it has.
        found: Digest,
    },
    /// `--name` is for an archive with one image.
    #[error("{path} holds {count} images: they cannot all be given the same name")]
    NamesForMany {
        /// Of the archive.
        path: PathBuf,
        /// How many.
        count: usize,
    },
}

/// Imports all images of an archive that are for this machine. Waits for the store's lock.
pub fn import(
    store: &Store,
    source: &Path,
    options: &ImportOptions,
) -> Result<ImportReport, ImportError> {
    with_lock(store, |writer| import_locked(writer, source, options))
}

/// Runs an import with the store's lock, and tidies up after it.
pub(super) fn with_lock(
    store: &Store,
    import: impl FnOnce(&Writer<'_>) -> Result<ImportReport, ImportError>,
) -> Result<ImportReport, ImportError> {
    let writer = store.lock()?;
    let outcome = import(&writer);
    // Also after a failure: what it left must not take the space of the next try.
    let tidied = writer.clean().and_then(|()| writer.sweep());
    let report = outcome?;
    tidied?;
    Ok(report)
}

/// [`import`] for who has the lock, and tidies up.
pub(super) fn import_locked(
    writer: &Writer<'_>,
    source: &Path,
    options: &ImportOptions,
) -> Result<ImportReport, ImportError> {
    let archive = Archive::open(source, &writer.store.staging_dir())?;
    let found = find_images(&archive, &Platform::host())?;
    if !options.names.is_empty() && found.len() != 1 {
        return Err(ImportError::NamesForMany {
            path: source.to_owned(),
            count: found.len(),
        });
    }
    let mut import = Import {
        writer,
        allowance: archive.allowance(),
        archive,
        options,
        report: ImportReport::default(),
    };
    // All layers first: an archive is visible as a whole, or not at all.
    let new_layers = found
        .iter()
        .map(|image| import.layers(image))
        .collect::<Result<Vec<usize>, _>>()?;
    for (image, new_layers) in found.into_iter().zip(new_layers) {
        import.image(image, new_layers)?;
    }
    Ok(import.report)
}

struct Import<'a> {
    writer: &'a Writer<'a>,
    archive: Archive,
    /// Bytes that may still be unpacked.
    allowance: u64,
    options: &'a ImportOptions,
    report: ImportReport,
}

impl Import<'_> {
    /// Unpacks what is missing and says how many layers that was.
    fn layers(&mut self, found: &Found) -> Result<usize, ImportError> {
        let mut new = 0;
        for layer in &found.layers {
            if !self.writer.store.layer_fs(&layer.diff_id).is_dir() {
                self.layer(layer)?;
                new += 1;
            }
        }
        Ok(new)
    }

    fn image(&mut self, found: Found, new_layers: usize) -> Result<(), ImportError> {
        let layers = found.layers.len();
        let names = self.names(&found.names);
        let record = self.record(found)?;
        self.writer.commit(&record, &names)?;
        if names.is_empty() {
            let id = &record.id;
            self.report
                .warnings
                .push(format!("image {id} has no name: import it with --name"));
        }
        self.report.images.push(ImportedImage {
            id: record.id,
            names,
            new_layers,
            layers,
        });
        Ok(())
    }

    /// Unpacks in `staging`, checks, syncs, then gives the layer its final name.
    fn layer(&mut self, layer: &FoundLayer) -> Result<(), ImportError> {
        let store = self.writer.store;
        let staged = self.writer.stage(layer.diff_id.hex())?;
        let size = self.unpack_checked(layer, &staged)?;
        record::write(&staged.join("size"), &size)?;
        sync_file_system(&staged)?;
        let target = store.layer_dir(&layer.diff_id);
        if target.exists() {
            // Without its tree, or else it would not be unpacked again.
            self.writer.discard(&target, layer.diff_id.hex())?;
        }
        std::fs::rename(&staged, &target).map_err(|e| StoreError::io("rename into", &target, e))?;
        record::sync_dir(&store.layers_dir())?;
        Ok(())
    }

    /// Gives the bytes of file data. The file's own digest is left out when the diff id says the same, as in an
    /// uncompressed layer: hashing is what an import spends its time on.
    fn unpack_checked(&mut self, layer: &FoundLayer, staged: &Path) -> Result<u64, ImportError> {
        let file = self.archive.open_file(&layer.name)?;
        let Some(digest) = layer.digest.as_ref().filter(|d| **d != layer.diff_id) else {
            return self.unpack_stream(layer, BufReader::with_capacity(BUFFER, file), staged);
        };
        let mut blob = BufReader::with_capacity(BUFFER, Hashing::new(file));
        let size = self.unpack_stream(layer, &mut blob, staged)?;
        io::copy(&mut blob, &mut io::sink()).map_err(|e| unreadable(layer, e))?;
        check(layer, digest, blob.into_inner().finish())?;
        Ok(size)
    }

    fn unpack_stream(
        &mut self,
        layer: &FoundLayer,
        input: impl BufRead,
        staged: &Path,
    ) -> Result<u64, ImportError> {
        let replaced = staged.join("replaced");
        let fs_dir = make_root(&staged.join("fs"))?;
        let replaced_dir = make_root(&replaced)?;
        let mut stream = LayerStream {
            inner: Hashing::new(Decoder::new(input).map_err(|e| unreadable(layer, e))?),
            allowance: self.allowance,
        };
        let unpacked = unpack(&mut stream, fs_dir.as_fd(), replaced_dir.as_fd())
            .map_err(|source| failed(layer, source))?;
        // The digest is over everything, also what follows the end of the tar.
        io::copy(&mut stream, &mut io::sink()).map_err(|e| unreadable(layer, e))?;
        self.allowance = self.allowance.saturating_sub(stream.inner.count());
        check(layer, &layer.diff_id, stream.inner.finish())?;
        remove::tree(&replaced).map_err(|e| StoreError::io("remove", &replaced, e))?;
        Ok(unpacked.bytes)
    }

    fn names(&mut self, found: &[String]) -> Vec<String> {
        let given = if self.options.names.is_empty() {
            found
        } else {
            &self.options.names
        };
        let mut names = BTreeSet::new();
        for name in given {
            match name.parse::<ImageRef>() {
                Ok(reference) if reference.digest.is_none() => {
                    names.insert(reference.canonical());
                }
                Ok(_) => {}
                Err(e) => self.report.warnings.push(e.to_string()),
            }
        }
        names.into_iter().collect()
    }

    /// Joined with what is known about the image already.
    fn record(&self, found: Found) -> Result<Record, ImportError> {
        let store = self.writer.store;
        let known: Option<Record> = record::read(&store.record_path(&found.id)).ok().flatten();
        let (mut digests, mut pins) = known.map(|k| (k.digests, k.pins)).unwrap_or_default();
        digests.extend(found.digests);
        pins.extend(self.options.pin.clone());
        // A layer that occurs twice hides its lower copy completely, and overlayfs refuses to have one directory twice.
        // Nor does overlayfs look whether a layer's root is opaque: what lies below such a layer is left out here.
        let mut layers: Vec<Digest> = Vec::new();
        for layer in found.layers.into_iter().rev() {
            if !layers.contains(&layer.diff_id) {
                layers.push(layer.diff_id);
            }
        }
        if let Some(last) = layers
            .iter()
            .position(|l| is_opaque_root(&store.layer_fs(l)))
        {
            layers.truncate(last + 1);
        }
        let mut size = 0u64;
        for layer in &layers {
            let path = store.layer_dir(layer).join("size");
            size = size.saturating_add(record::read::<u64>(&path)?.unwrap_or_default());
        }
        Ok(Record {
            id: found.id,
            digests,
            layers,
            size,
            pins,
            config: found.config,
        })
    }
}

fn failed(layer: &FoundLayer, source: UnpackError) -> ImportError {
    ImportError::Unpack {
        name: layer.name.clone(),
        source,
    }
}

fn unreadable(layer: &FoundLayer, source: io::Error) -> ImportError {
    failed(layer, UnpackError::Tar(source.into()))
}

fn check(layer: &FoundLayer, expected: &Digest, found: Digest) -> Result<(), ImportError> {
    if found == *expected {
        return Ok(());
    }
    Err(ImportError::WrongDigest {
        name: layer.name.clone(),
        expected: expected.clone(),
        found,
    })
}

fn is_opaque_root(layer: &Path) -> bool {
    File::open(layer).is_ok_and(|dir| overlay::is_opaque(dir.as_fd()))
}

/// The root of a layer that does not say otherwise is 0755, whatever the umask.
fn make_root(path: &Path) -> Result<File, StoreError> {
    std::fs::create_dir(path).map_err(|e| StoreError::io("create", path, e))?;
    let dir = File::open(path).map_err(|e| StoreError::io("open", path, e))?;
    rustix::fs::fchmod(&dir, rustix::fs::Mode::from_raw_mode(0o755))
        .map_err(|e| StoreError::io("set the mode of", path, e))?;
    Ok(dir)
}

/// One call instead of an fsync for each of thousands of files.
fn sync_file_system(path: &Path) -> Result<(), StoreError> {
    let dir = File::open(path).map_err(|e| StoreError::io("open", path, e))?;
    rustix::fs::syncfs(dir).map_err(|e| StoreError::io("sync", path, e))
}

/// A layer's uncompressed tar: hashed, and bounded.
struct LayerStream<R> {
    inner: Hashing<R>,
    allowance: u64,
}

impl<R: Read> Read for LayerStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        if self.inner.count() > self.allowance {
            return Err(io::Error::other("it unpacks to far more than its size"));
        }
        Ok(length)
    }
}

impl<R: Read> Input for &mut LayerStream<R> {
    fn skip(&mut self, length: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.take(length), &mut io::sink())?;
        if skipped == length {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

#[cfg(test)]
mod tests;
