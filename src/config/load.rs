//! The configuration file and the flags, together: a subset of KubeletConfiguration with a section of our own.

use std::io;
use std::path::{Path, PathBuf};

use super::file::File;
use super::place::{ConfigError, Place, refuse_flag};
use super::{Config, node};
use crate::pod::quantity::Unit;

/// Read when no `--config` is given; need not exist.
const DEFAULT_FILE: &str = "/etc/vetch/config.yaml";
/// A configuration is a page of text.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// What the command line sets; wins over the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--pod-manifest-path`
    pub pod_manifest_path: Option<PathBuf>,
    /// `--root-dir`
    pub root_dir: Option<PathBuf>,
    /// `--run-dir`
    pub run_dir: Option<PathBuf>,
    /// `--log-dir`
    pub log_dir: Option<PathBuf>,
    /// `--cgroup-root`
    pub cgroup_root: Option<String>,
    /// `--hostname-override`
    pub node_name: Option<String>,
    /// `--node-labels`, each `key=value`; on top of the file's
    pub node_labels: Vec<String>,
}

/// A usable configuration, and what was odd about its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Complete and checked.
    pub config: Config,
    /// Fields that have no effect: `/etc/vetch/config.yaml: evictionSoft: unknown field, it has no effect`.
    pub warnings: Vec<String>,
}

/// Reads the file (`/etc/vetch/config.yaml` if none is named and it exists), puts the flags on top and checks everything.
pub fn load(file: Option<&Path>, flags: Overrides) -> Result<Loaded, ConfigError> {
    let path = file.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match read(path) {
        Ok(text) => text,
        Err(error) if file.is_none() && error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => {
            return Err(ConfigError::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    let hostname = rustix::system::uname();
    merge(path, &text, flags, &hostname.nodename().to_string_lossy())
}

fn read(path: &Path) -> io::Result<String> {
    use io::Read;
    let file = std::fs::File::open(path)?;
    if file.metadata()?.len() > MAX_FILE_SIZE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut text = String::new();
    file.take(MAX_FILE_SIZE).read_to_string(&mut text)?;
    Ok(text)
}

/// The pure half of [`load`].
pub(super) fn merge(
    path: &Path,
    text: &str,
    flags: Overrides,
    hostname: &str,
) -> Result<Loaded, ConfigError> {
    let (file, mut warnings) = parse(path, text)?;
    let here = Place { path };
    here.check_kind(&file)?;
    let mut config = Config::new(node_name(
        &here,
        flags.node_name.as_deref(),
        file.vetch.node_name.as_deref(),
        hostname,
    )?);
    here.apply_values(&file, &mut config)?;
    here.apply_node(&file, &mut config)?;
    warnings.extend(here.without_effect(&file));
    here.apply_paths(file, &mut config)?;
    apply_flags(flags, &mut config)?;
    Ok(Loaded { config, warnings })
}

fn parse(path: &Path, text: &str) -> Result<(File, Vec<String>), ConfigError> {
    let mut warnings = Vec::new();
    let document = serde_yaml::Deserializer::from_str(text);
    let file: Option<File> = serde_ignored::deserialize(document, |field| {
        // serde_ignored writes an Option on the way as `?`.
        let field = field.to_string().replace("?.", "");
        warnings.push(format!(
            "{}: {field}: unknown field, it has no effect",
            path.display()
        ));
    })
    .map_err(|source| ConfigError::Syntax {
        path: path.to_owned(),
        source,
    })?;
    Ok((file.unwrap_or_default(), warnings))
}

impl Place<'_> {
    fn check_kind(&self, file: &File) -> Result<(), ConfigError> {
        let group = file.api_version.as_deref().map(|v| v.split('/').next());
        if !matches!(group, None | Some(Some("kubelet.config.k8s.io"))) {
            return Err(self.refuse("apiVersion", "must be kubelet.config.k8s.io/v1beta1"));
        }
        match file.kind.as_deref() {
            None | Some("KubeletConfiguration") => Ok(()),
            Some(_) => Err(self.refuse("kind", "must be KubeletConfiguration")),
        }
    }

    fn apply_values(&self, file: &File, config: &mut Config) -> Result<(), ConfigError> {
        if let Some(text) = &file.file_check_frequency {
            config.file_check_frequency = self.duration("fileCheckFrequency", text)?;
        }
        if let Some(text) = &file.container_log_max_size {
            config.container_log_max_size = node::amount(text, Unit::One)
                .filter(|&bytes| bytes > 0)
                .ok_or_else(|| self.refuse("containerLogMaxSize", BAD_SIZE))?;
        }
        if let Some(files) = file.container_log_max_files {
            if files < 2 {
                return Err(self.refuse("containerLogMaxFiles", "must be at least 2"));
            }
            config.container_log_max_files = files;
        }
        Ok(())
    }

    fn apply_paths(&self, file: File, config: &mut Config) -> Result<(), ConfigError> {
        let own = file.vetch;
        let paths = [
            (
                "staticPodPath",
                file.static_pod_path,
                &mut config.pod_manifest_path,
            ),
            ("resolvConf", file.resolv_conf, &mut config.resolv_conf),
            ("vetch.rootDir", own.root_dir, &mut config.paths.root_dir),
            ("vetch.runDir", own.run_dir, &mut config.paths.run_dir),
            ("vetch.logDir", own.log_dir, &mut config.paths.log_dir),
        ];
        for (field, value, setting) in paths {
            let Some(value) = value else { continue };
            if !value.is_absolute() {
                return Err(self.refuse(field, "must be an absolute path"));
            }
            *setting = value;
        }
        if let Some(dirs) = own.cdi_spec_dirs {
            if !dirs.iter().all(|dir| dir.is_absolute()) {
                return Err(self.refuse("vetch.cdiSpecDirs", "must be absolute paths"));
            }
            config.cdi_spec_dirs = dirs;
        }
        if let Some(root) = own.cgroup_root {
            config.cgroup_root =
                cgroup(&root).ok_or_else(|| self.refuse("vetch.cgroupRoot", BAD_CGROUP))?;
        }
        Ok(())
    }
}

const BAD_SIZE: &str = "must be a size above 0, written like 10Mi";
const BAD_CGROUP: &str = "must be an absolute cgroup path of plain names, such as /vetch";
const BAD_NAME: &str = "must be a host name: at most 253 letters, digits, '-' and '.', each part beginning and ending with a letter or digit";

/// Relative paths of flags are taken from where we were started.
fn apply_flags(flags: Overrides, config: &mut Config) -> Result<(), ConfigError> {
    let paths = [
        (
            "--pod-manifest-path",
            flags.pod_manifest_path,
            &mut config.pod_manifest_path,
        ),
        ("--root-dir", flags.root_dir, &mut config.paths.root_dir),
        ("--run-dir", flags.run_dir, &mut config.paths.run_dir),
        ("--log-dir", flags.log_dir, &mut config.paths.log_dir),
    ];
    for (flag, value, setting) in paths {
        let Some(value) = value else { continue };
        *setting = std::path::absolute(&value).map_err(|error| refuse_flag(flag, error))?;
    }
    if let Some(root) = flags.cgroup_root {
        config.cgroup_root =
            cgroup(&root).ok_or_else(|| refuse_flag("--cgroup-root", BAD_CGROUP))?;
    }
    for label in flags.node_labels {
        let (key, value) = node::label(&label).map_err(|why| refuse_flag("--node-labels", why))?;
        config.node_labels.insert(key, value);
    }
    Ok(())
}

/// S-74.
fn node_name(
    here: &Place<'_>,
    flag: Option<&str>,
    field: Option<&str>,
    hostname: &str,
) -> Result<String, ConfigError> {
    let name = flag.or(field).unwrap_or(hostname).trim().to_lowercase();
    if is_subdomain(&name) {
        return Ok(name);
    }
    Err(match (flag, field) {
        (Some(_), _) => refuse_flag("--hostname-override", BAD_NAME),
        (None, Some(_)) => here.refuse("vetch.nodeName", BAD_NAME),
        (None, None) => refuse_flag(
            &format!("host name {hostname:?}"),
            format!("{BAD_NAME}; choose another node name by --hostname-override"),
        ),
    })
}

/// DNS-1123 subdomain.
fn is_subdomain(name: &str) -> bool {
    name.len() <= 253
        && name.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
}

/// An absolute path of plain names below the root, without a trailing slash.
fn cgroup(text: &str) -> Option<String> {
    let path = text.strip_prefix('/')?.trim_end_matches('/');
    let plain = |name: &str| !name.is_empty() && name != "." && name != "..";
    path.split('/').all(plain).then(|| format!("/{path}"))
}
