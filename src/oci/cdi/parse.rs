//! The text of one CDI file, in YAML or JSON. Every field that is not known here is a mistake: a device that is given by
//! halves would fail in the container, where nobody sees why.

use std::path::PathBuf;

use oci_spec::runtime::{Hook, HookBuilder, LinuxDeviceType};

use super::{CdiMount, DeviceNode, Edits, HookPoint, SpecFile};
use crate::pod::cdi::{is_device, is_kind};
use crate::pod::yaml::{self, Entry, Node, Value};

/// Of the format. What changed between them is which fields there are.
const VERSIONS: [&str; 8] = [
    "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0",
];

/// What is wrong with a file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {message}")]
pub struct Problem {
    /// From 1.
    pub line: u32,
    /// In words, with the field.
    pub message: String,
}

type Parsed<T> = Result<T, Problem>;

/// Reads one file.
pub fn parse(text: &str) -> Parsed<SpecFile> {
    let (documents, problems) = yaml::read(text);
    if let Some(problem) = problems.into_iter().next() {
        return Err(Problem {
            line: problem.line,
            message: problem.message,
        });
    }
    let [root] = documents.as_slice() else {
        return Err(Problem {
            line: 1,
            message: "must be one document".to_owned(),
        });
    };
    let root = At {
        node: root,
        path: String::new(),
    };
    root.only(
        &[
            "cdiVersion",
            "kind",
            "annotations",
            "devices",
            "containerEdits",
        ],
        &[],
    )?;
    let version = root.required("cdiVersion")?;
    let text = version.text()?;
    if !VERSIONS.contains(&text.trim_start_matches('v')) {
        return Err(version.wrong(&format!("{text:?} is not one of {}", VERSIONS.join(", "))));
    }
    let kind = root.required("kind")?;
    if !is_kind(&kind.text()?) {
        return Err(kind.wrong("must be like vendor.com/class"));
    }
    let mut devices = Vec::new();
    for device in root.list("devices")? {
        device.only(&["name", "annotations", "containerEdits"], &[])?;
        let name = device.required("name")?;
        let text = name.text()?;
        if !is_device(&text) {
            return Err(
                name.wrong("must be letters and digits, with '_', '-', '.' and ':' between")
            );
        }
        if devices.iter().any(|(known, _)| *known == text) {
            return Err(name.wrong("is there twice"));
        }
        devices.push((text, edits(&device)?));
    }
    Ok(SpecFile {
        kind: kind.text()?,
        edits: edits(&root)?,
        devices,
    })
}

fn edits(of: &At<'_>) -> Parsed<Edits> {
    let Some(at) = of.get("containerEdits") else {
        return Ok(Edits::default());
    };
    at.only(
        &[
            "env",
            "deviceNodes",
            "mounts",
            "hooks",
            "additionalGids",
            "additionalGIDs",
        ],
        &["netDevices", "intelRdt"],
    )?;
    let mut edits = Edits {
        env: at.texts("env")?,
        nodes: at
            .list("deviceNodes")?
            .iter()
            .map(node)
            .collect::<Parsed<_>>()?,
        mounts: at
            .list("mounts")?
            .iter()
            .map(mount)
            .collect::<Parsed<_>>()?,
        hooks: at.list("hooks")?.iter().map(hook).collect::<Parsed<_>>()?,
        gids: Vec::new(),
    };
    if let Some(entry) = edits
        .env
        .iter()
        .find(|entry| entry.find('=').is_none_or(|at| at == 0))
    {
        return Err(at.wrong(&format!("env {entry:?} must be like NAME=value")));
    }
    // The specification's text and its schema spell it differently.
    for field in ["additionalGids", "additionalGIDs"] {
        for gid in at.list(field)? {
            edits.gids.push(gid.number()?);
        }
    }
    Ok(edits)
}

fn node(at: &At<'_>) -> Parsed<DeviceNode> {
    at.only(
        &[
            "path",
            "hostPath",
            "type",
            "major",
            "minor",
            "fileMode",
            "permissions",
            "uid",
            "gid",
        ],
        &[],
    )?;
    let kind = at.get("type").map(|at| match at.text()?.as_str() {
        "b" => Ok(LinuxDeviceType::B),
        "c" => Ok(LinuxDeviceType::C),
        "u" => Ok(LinuxDeviceType::U),
        "p" => Ok(LinuxDeviceType::P),
        _ => Err(at.wrong("must be b, c, u or p")),
    });
    let access = at.get("permissions").map(|at| {
        let text = at.text()?;
        let is_known = !text.is_empty() && text.chars().all(|c| "rwm".contains(c));
        is_known
            .then_some(text)
            .ok_or_else(|| at.wrong("must be some of rwm"))
    });
    let number = |field| at.get(field).map(|at| at.number()).transpose();
    let (major, minor) = (number("major")?, number("minor")?);
    Ok(DeviceNode {
        path: at.required("path")?.absolute()?,
        host_path: at.get("hostPath").map(|at| at.absolute()).transpose()?,
        kind: kind.transpose()?,
        // Zero is what is not said, too.
        numbers: match (major.unwrap_or(0), minor.unwrap_or(0)) {
            (0, 0) => None,
            (major, minor) => Some((major.into(), minor.into())),
        },
        file_mode: number("fileMode")?,
        access: access.transpose()?,
        uid: number("uid")?,
        gid: number("gid")?,
    })
}

fn mount(at: &At<'_>) -> Parsed<CdiMount> {
    at.only(&["hostPath", "containerPath", "options", "type"], &[])?;
    let mount = CdiMount {
        host_path: at.required("hostPath")?.text()?.into(),
        path: at.required("containerPath")?.absolute()?,
        kind: at.get("type").map(|at| at.text()).transpose()?,
        options: at.texts("options")?,
    };
    if mount.is_bind() {
        at.required("hostPath")?.absolute()?;
    }
    Ok(mount)
}

fn hook(at: &At<'_>) -> Parsed<(HookPoint, Hook)> {
    at.only(&["hookName", "path", "args", "env", "timeout"], &[])?;
    let name = at.required("hookName")?;
    let point = match name.text()?.as_str() {
        "prestart" => HookPoint::Prestart,
        "createRuntime" => HookPoint::CreateRuntime,
        "createContainer" => HookPoint::CreateContainer,
        "poststart" => HookPoint::Poststart,
        known @ ("startContainer" | "poststop") => {
            return Err(name.wrong(&format!("{known} hooks are not run by this version")));
        }
        other => return Err(name.wrong(&format!("{other:?} is not a hook"))),
    };
    let mut hook = HookBuilder::default()
        .path(at.required("path")?.absolute()?)
        .build()
        .expect("every field has a default");
    let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
    let timeout = at.get("timeout").map(|at| at.number()).transpose()?;
    hook.set_args(some(at.texts("args")?))
        .set_env(some(at.texts("env")?))
        .set_timeout(timeout.map(i64::from).filter(|&seconds| seconds > 0));
    Ok((point, hook))
}

/// A value, and what it is called.
struct At<'a> {
    node: &'a Node,
    path: String,
}

impl<'a> At<'a> {
    fn wrong(&self, why: &str) -> Problem {
        let colon = if self.path.is_empty() { "" } else { ": " };
        Problem {
            line: self.node.line,
            message: format!("{}{colon}{why}", self.path),
        }
    }

    fn below(&self, key: &str, node: &'a Node) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self {
            node,
            path: format!("{}{dot}{key}", self.path),
        }
    }

    /// It is a mapping with these keys at most; some others are named as what we cannot do.
    fn only(&self, known: &[&str], refused: &[&str]) -> Parsed<()> {
        let Value::Mapping(entries) = &self.node.value else {
            return Err(self.wrong("must be an object"));
        };
        let is_known = |entry: &&Entry| known.contains(&entry.key.as_str());
        let Some(entry) = entries.iter().find(|entry| !is_known(entry)) else {
            return Ok(());
        };
        let at = self.below(&entry.key, &entry.node);
        Err(if refused.contains(&entry.key.as_str()) {
            at.wrong("not supported by this version")
        } else {
            at.wrong("unknown field")
        })
    }

    fn get(&self, key: &str) -> Option<Self> {
        let entry = self.node.get(key)?;
        (!entry.node.is_null()).then(|| self.below(key, &entry.node))
    }

    fn required(&self, key: &str) -> Parsed<Self> {
        self.get(key)
            .ok_or_else(|| self.wrong(&format!("{key} is missing")))
    }

    fn list(&self, key: &str) -> Parsed<Vec<Self>> {
        let Some(at) = self.get(key) else {
            return Ok(Vec::new());
        };
        if !matches!(at.node.value, Value::Sequence(_)) {
            return Err(at.wrong("must be a list"));
        }
        let items = at.node.items().iter().enumerate();
        let items = items.map(|(index, item)| Self {
            node: item,
            path: format!("{}[{index}]", at.path),
        });
        Ok(items.collect())
    }

    fn texts(&self, key: &str) -> Parsed<Vec<String>> {
        self.list(key)?.iter().map(Self::text).collect()
    }

    fn text(&self) -> Parsed<String> {
        let text = self.node.text().map(ToOwned::to_owned);
        text.ok_or_else(|| self.wrong("must be a text"))
    }

    fn absolute(&self) -> Parsed<PathBuf> {
        let path = PathBuf::from(self.text()?);
        let plain = path.is_absolute() && !path.iter().any(|part| part == "..");
        plain
            .then_some(path)
            .ok_or_else(|| self.wrong("must be an absolute path without .."))
    }

    fn number(&self) -> Parsed<u32> {
        let number = self
            .node
            .integer()
            .and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| self.wrong("must be a whole number"))
    }
}
