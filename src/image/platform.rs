//! Which of an image's platforms runs here (I-12).

use std::fmt;

/// An architecture as images name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// GOARCH.
    pub architecture: String,
    /// `v7`, `v8`; empty when it does not matter.
    pub variant: String,
}

impl Platform {
    /// Of this machine.
    pub fn host() -> Self {
        let machine = rustix::system::uname();
        Self::of(
            std::env::consts::ARCH,
            machine.machine().to_str().unwrap_or_default(),
        )
    }

    /// From Rust's name for the architecture and the machine that the kernel names.
    pub fn of(architecture: &str, machine: &str) -> Self {
        let (architecture, variant) = match architecture {
            "x86_64" => ("amd64", ""),
            "x86" => ("386", ""),
            "aarch64" => ("arm64", "v8"),
            "arm" => ("arm", arm_variant(machine)),
            other => (other, ""),
        };
        Self {
            architecture: architecture.to_owned(),
            variant: variant.to_owned(),
        }
    }

    /// How well an image suits this machine, lower is better; `None`: not at all. 32-bit ARM takes its own variant, then
    /// the lower ones, and an image without variant counts as v7. Elsewhere the lowest variant is the safest choice.
    pub fn rank(&self, os: &str, architecture: &str, variant: &str) -> Option<u8> {
        if os != "linux" || architecture != self.architecture {
            return None;
        }
        if architecture == "arm" {
            let own = version(&self.variant).unwrap_or(7);
            return own.checked_sub(version(variant).unwrap_or(7));
        }
        Some(version(variant).unwrap_or(0))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture)?;
        if !self.variant.is_empty() {
            write!(f, "/{}", self.variant)?;
        }
        Ok(())
    }
}

fn version(variant: &str) -> Option<u8> {
    variant.strip_prefix('v')?.parse().ok()
}

/// A 64-bit kernel runs v7 programs.
fn arm_variant(machine: &str) -> &'static str {
    match machine {
        m if m.starts_with("armv5") => "v5",
        m if m.starts_with("armv6") => "v6",
        _ => "v7",
    }
}
