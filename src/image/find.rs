//! Which images an archive holds: reads the JSON of docker-archives here, of OCI layouts in [`super::oci_layout`]. Unpacks
//! nothing.

use oci_spec::image::ImageConfiguration;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::archive::{Archive, ArchiveError};
use super::digest::{BadDigest, Digest};
use super::oci_layout;
use super::platform::Platform;

/// Most images in one archive, and most descriptors in one index.
pub(super) const MAX_IMAGES: usize = 256;
/// Most layers of one image. overlayfs takes 500.
const MAX_LAYERS: usize = 200;

/// Why the images of an archive could not be determined.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// Reading the archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Neither `index.json` nor `manifest.json`.
    #[error(
        "{path} holds no image: neither index.json (OCI layout) nor manifest.json (docker-archive)"
    )]
    NoImage {
        /// Of the archive.
        path: std::path::PathBuf,
    },
    /// A document is no JSON of the kind it should be.
    #[error("{name} is not {kind}")]
    Json {
        /// Path inside the archive.
        name: String,
        /// What it should be.
        kind: &'static str,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
    /// A document or layer names a digest that we do not know.
    #[error("in {name}")]
    BadDigest {
        /// Path inside the archive.
        name: String,
        /// Which.
        #[source]
        source: BadDigest,
    },
    /// Content and digest differ.
    #[error("{name} has the digest {found}, not {expected}")]
    WrongDigest {
        /// Path inside the archive.
        name: String,
        /// What it should have.
        expected: Digest,
        /// What it has.
        found: Digest,
    },
    /// Nothing for this machine.
    #[error("the image is for {offered}, this machine is {host}")]
    Platform {
        /// List of platforms.
        offered: String,
        /// This machine.
        host: Platform,
    },
    /// Layers of the manifest and diff ids of the configuration differ in number.
    #[error("{name} has {layers} layers, its configuration {diff_ids}")]
    LayerCount {
        /// Path inside the archive.
        name: String,
        /// In the manifest.
        layers: usize,
        /// In the configuration.
        diff_ids: usize,
    },
    /// A limit.
    #[error("{name} has {problem}")]
    TooMuch {
        /// Path inside the archive.
        name: String,
        /// Of what.
        problem: &'static str,
    },
}

/// An image of an archive, ready to be unpacked.
#[derive(Debug)]
pub struct Found {
    /// Digest of the configuration.
    pub id: Digest,
    /// The configuration as it was written.
    pub config: serde_json::Value,
    /// Lowest first.
    pub layers: Vec<FoundLayer>,
    /// As written in the archive.
    pub names: Vec<String>,
    /// Of its manifest and of the indexes that lead to it.
    pub digests: Vec<Digest>,
}

/// A layer inside an archive.
#[derive(Debug)]
pub struct FoundLayer {
    /// Path inside the archive.
    pub name: String,
    /// Of the (compressed) file; a docker-archive has none.
    pub digest: Option<Digest>,
    /// Of the uncompressed tar.
    pub diff_id: Digest,
}

/// One image of a docker-archive.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// All images of the archive that are for this platform; an image that is not is an error.
pub fn find_images(archive: &Archive, host: &Platform) -> Result<Vec<Found>, FindError> {
    let docker = archive.has("manifest.json");
    if archive.has("index.json") {
        let mut found = oci_layout::images(archive, host)?;
        if docker {
            add_docker_names(archive, &mut found)?;
        }
        return Ok(found);
    }
    if docker {
        return docker_images(archive, host);
    }
    Err(FindError::NoImage {
        path: archive.path().to_owned(),
    })
}

fn docker_manifest(archive: &Archive) -> Result<Vec<DockerImage>, FindError> {
    let images: Vec<DockerImage> = parse(
        "manifest.json",
        &archive.read_json("manifest.json")?,
        "a docker-archive manifest",
    )?;
    limit("manifest.json", images.len(), MAX_IMAGES, "too many images")?;
    Ok(images)
}

fn docker_images(archive: &Archive, host: &Platform) -> Result<Vec<Found>, FindError> {
    docker_manifest(archive)?
        .into_iter()
        .map(|image| {
            let bytes = archive.read_json(&image.config)?;
            let (id, config, diff_ids) = read_config(&image.config, &bytes, host)?;
            let blobs = image.layers.into_iter().map(|name| (name, None));
            Ok(Found {
                id,
                config,
                layers: pair_layers(&image.config, blobs.collect(), diff_ids)?,
                names: image.repo_tags.unwrap_or_default(),
                digests: Vec::new(),
            })
        })
        .collect()
}

/// `docker save` since 25 writes both formats into one archive; only this part has the whole names.
fn add_docker_names(archive: &Archive, found: &mut [Found]) -> Result<(), FindError> {
    for image in docker_manifest(archive)? {
        let Some(hex) = image.config.rsplit('/').next() else {
            continue;
        };
        let hex = hex.trim_end_matches(".json");
        for found in found.iter_mut().filter(|found| found.id.hex() == hex) {
            for name in image.repo_tags.iter().flatten() {
                if !found.names.contains(name) {
                    found.names.push(name.clone());
                }
            }
        }
    }
    Ok(())
}

pub(super) fn read_config(
    name: &str,
    bytes: &[u8],
    host: &Platform,
) -> Result<(Digest, serde_json::Value, Vec<Digest>), FindError> {
    let config: ImageConfiguration = parse(name, bytes, "an image configuration")?;
    let (os, architecture) = (config.os().to_string(), config.architecture().to_string());
    let variant = config.variant().as_deref().unwrap_or_default();
    if !architecture.is_empty() && host.rank(&os, &architecture, variant).is_none() {
        return Err(FindError::Platform {
            offered: format!(
                "{os}/{architecture}{}{variant}",
                if variant.is_empty() { "" } else { "/" }
            ),
            host: host.clone(),
        });
    }
    let diff_ids = config
        .rootfs()
        .diff_ids()
        .iter()
        .map(|id| parse_digest(name, id.clone()))
        .collect::<Result<_, _>>()?;
    let raw = parse(name, bytes, "an image configuration")?;
    Ok((Digest::of(bytes), raw, diff_ids))
}

pub(super) fn pair_layers(
    name: &str,
    blobs: Vec<(String, Option<Digest>)>,
    diff_ids: Vec<Digest>,
) -> Result<Vec<FoundLayer>, FindError> {
    if blobs.len() != diff_ids.len() {
        return Err(FindError::LayerCount {
            name: name.to_owned(),
            layers: blobs.len(),
            diff_ids: diff_ids.len(),
        });
    }
    limit(name, blobs.len(), MAX_LAYERS, "more than 200 layers")?;
    Ok(blobs
        .into_iter()
        .zip(diff_ids)
        .map(|((name, digest), diff_id)| FoundLayer {
            name,
            digest,
            diff_id,
        })
        .collect())
}

pub(super) fn parse_digest(document: &str, text: String) -> Result<Digest, FindError> {
    Digest::try_from(text).map_err(|source| FindError::BadDigest {
        name: document.to_owned(),
        source,
    })
}

pub(super) fn parse<T: DeserializeOwned>(
    name: &str,
    bytes: &[u8],
    kind: &'static str,
) -> Result<T, FindError> {
    serde_json::from_slice(bytes).map_err(|source| FindError::Json {
        name: name.to_owned(),
        kind,
        source,
    })
}

pub(super) fn limit(
    name: &str,
    count: usize,
    most: usize,
    problem: &'static str,
) -> Result<(), FindError> {
    if count <= most {
        return Ok(());
    }
    Err(FindError::TooMuch {
        name: name.to_owned(),
        problem,
    })
}
