//! The private directories of one `vetch run`.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::ending::{self, Grace};
use super::{CliError, output, own_binary};
use crate::config::{self, Overrides, Paths};
use crate::holder::cgroup::Cgroups;
use crate::image::{self, ImportOptions, Store, builtin};
use crate::plan::ImagePresence;
use crate::pod::StaticPod;
use crate::sys::{mounts, remove};

/// From statfs(2): a root file system cannot be put together upon this one.
const OVERLAYFS: rustix::fs::FsWord = 0x794c_7630;
/// An empty file: the machine's own settings have no say here.
const NO_CONFIG: &str = "/dev/null";

/// A directory of our own, 0700, and a cgroup root of our own.
#[derive(Debug)]
pub struct Home {
    dir: PathBuf,
    cgroup_root: String,
}

impl Home {
    /// Makes the directory in `$TMPDIR`, /run, /tmp or /dev/shm: the first of them that can hold a root file system. The
    /// name is short, because paths of sockets have to be.
    pub fn create() -> Result<Self, CliError> {
        let pid = std::process::id();
        let wanted = std::env::var_os("TMPDIR").map(PathBuf::from);
        let usual = ["/run", "/tmp", "/dev/shm"].map(PathBuf::from);
        let base = wanted
            .into_iter()
            .chain(usual)
            .find(|dir| is_usable(dir))
            .unwrap_or_else(|| "/run".into());
        let dir = base.join(format!("vetch-{pid}"));
        make_dir(&dir)?;
        Ok(Self {
            dir,
            cgroup_root: format!("/vetch-run-{pid}"),
        })
    }

    /// Where everything is.
    pub fn paths(&self) -> Paths {
        Paths {
            root_dir: self.dir.join("root"),
            run_dir: self.dir.join("run"),
            log_dir: self.dir.join("log"),
        }
    }

    /// What the agent has to say; shown when it fails.
    pub fn agent_log(&self) -> PathBuf {
        self.dir.join("agent.log")
    }

    /// The agent's command line.
    pub fn agent_command(&self, manifests: &Path) -> Command {
        let paths = self.paths();
        let mut command = Command::new(own_binary());
        command
            .args(["agent", "--config", NO_CONFIG])
            .args(["--cgroup-root", &self.cgroup_root])
            .args(["--hostname-override", &node_name()])
            .arg("--pod-manifest-path")
            .arg(manifests)
            .arg("--root-dir")
            .arg(paths.root_dir)
            .arg("--run-dir")
            .arg(paths.run_dir)
            .arg("--log-dir")
            .arg(paths.log_dir);
        command
    }

    /// Imports archives, and the built-in image if a pod wants it, before the agent starts.
    pub fn provide_images(&self, archives: &[PathBuf], pods: &[StaticPod]) -> Result<(), CliError> {
        let paths = self.paths();
        make_dir(&paths.root_dir)?;
        let store = Store::open(&paths.images())?;
        for archive in archives {
            import(&store, archive)?;
        }
        if images(pods).any(|image| image == builtin::HELLO) {
            let made = builtin::import_hello(&store, &ImportOptions::default());
            made.map_err(|source| CliError::Import {
                path: builtin::HELLO.into(),
                source,
            })?;
        }
        self.tell_missing(&store, pods);
        Ok(())
    }

    /// The agent's own advice would load it into the machine's store, not into this one.
    fn tell_missing(&self, store: &Store, pods: &[StaticPod]) {
        let is_missing = |image: &&str| matches!(store.presence(image), ImagePresence::Absent);
        let missing: BTreeSet<&str> = images(pods).filter(is_missing).collect();
        for image in missing {
            output::say(&format!(
                "image {image:?} is missing: give its archive by --image FILE, or by: {} image import --root-dir {} FILE",
                super::own_name(),
                self.paths().root_dir.display()
            ));
        }
    }

    /// What the agent is to read: the one thing that was named, or a directory of links to all files.
    pub fn provide_manifests(
        &self,
        named: &[PathBuf],
        files: &[PathBuf],
    ) -> Result<PathBuf, CliError> {
        if let [path] = named {
            return absolute(path);
        }
        let links = self.dir.join("manifests");
        make_dir(&links)?;
        for (number, file) in files.iter().enumerate() {
            // The number keeps files of the same name apart.
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let link = links.join(format!("{number}-{name}"));
            symlink(absolute(file)?, &link).map_err(|source| fail("create", &link, source))?;
        }
        Ok(links)
    }

    /// Ends what still runs, then removes everything.
    pub fn leave(self, grace: Grace) -> Result<(), CliError> {
        let ended = ending::end_all(&self.paths(), grace);
        let cgroups = Cgroups::discover()?;
        let removed = cgroups.remove(&self.cgroup_root);
        // Nobody lives who could still use what a container mounted for the host.
        let unmounted = mounts::unmount_below(&self.dir);
        unmounted.map_err(|source| fail("unmount below", &self.dir, source))?;
        remove::tree(&self.dir).map_err(|source| fail("remove", &self.dir, source))?;
        ended?;
        Ok(removed?)
    }
}

/// The host's name if it can be a node's name (S-74); a first try must not fail because of it.
fn node_name() -> String {
    config::load(Some(Path::new(NO_CONFIG)), Overrides::default())
        .map_or_else(|_| "node".to_owned(), |loaded| loaded.config.node_name)
}

/// There, and able to hold the upper layer of an overlay.
fn is_usable(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|fs| fs.f_type != OVERLAYFS)
}

fn import(store: &Store, archive: &Path) -> Result<(), CliError> {
    let report = image::import(store, archive, &ImportOptions::default()).map_err(|source| {
        CliError::Import {
            path: archive.to_owned(),
            source,
        }
    })?;
    for warning in &report.warnings {
        output::say(&format!("warning: {warning}"));
    }
    Ok(())
}

fn images(pods: &[StaticPod]) -> impl Iterator<Item = &str> {
    pods.iter()
        .filter_map(|pod| pod.pod.spec.as_ref())
        .flat_map(|spec| &spec.containers)
        .filter_map(|container| container.image.as_deref())
}

fn make_dir(dir: &Path) -> Result<(), CliError> {
    DirBuilder::new()
        .mode(0o700)
        .create(dir)
        .map_err(|source| fail("create", dir, source))
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    fs::canonicalize(path).map_err(|source| fail("find", path, source))
}

fn fail(operation: &'static str, path: &Path, source: io::Error) -> CliError {
    CliError::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}
