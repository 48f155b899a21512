//! The JSON of an OCI layout: index, manifest, configuration, each checked against its digest; the choice of the platform.

use oci_spec::image::{Descriptor, ImageIndex, ImageManifest};

use super::archive::Archive;
use super::digest::Digest;
use super::find::{
    FindError, Found, MAX_IMAGES, limit, pair_layers, parse, parse_digest, read_config,
};
use super::platform::Platform;

/// Indexes inside indexes.
const MAX_NESTING: usize = 4;
/// Written by containerd and Docker: the whole name.
const NAME_ANNOTATION: &str = "io.containerd.image.name";
/// By the specification: often the tag alone.
const REF_ANNOTATION: &str = "org.opencontainers.image.ref.name";

/// All images of the index that are for this platform.
pub fn images(archive: &Archive, host: &Platform) -> Result<Vec<Found>, FindError> {
    let index: ImageIndex = parse(
        "index.json",
        &archive.read_json("index.json")?,
        "an OCI image index",
    )?;
    limit(
        "index.json",
        index.manifests().len(),
        MAX_IMAGES,
        "too many images",
    )?;
    // Several platforms of one image may lie side by side here; they have the same name, or none.
    let mut groups: Vec<(Option<String>, Vec<Descriptor>)> = Vec::new();
    for descriptor in index.manifests() {
        let name = name_of(descriptor);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(descriptor.clone()),
            None => groups.push((name, vec![descriptor.clone()])),
        }
    }
    let mut found: Vec<Found> = Vec::new();
    for (name, members) in groups {
        let mut image = choose(archive, host, &members, Vec::new())?;
        image.names.extend(name);
        match found.iter_mut().find(|known| known.id == image.id) {
            Some(known) => known.names.append(&mut image.names),
            None => found.push(image),
        }
    }
    Ok(found)
}

/// A bare tag is no name: it would become `docker.io/library/<tag>`.
fn name_of(descriptor: &Descriptor) -> Option<String> {
    let annotations = descriptor.annotations().as_ref()?;
    annotations.get(NAME_ANNOTATION).cloned().or_else(|| {
        let name = annotations.get(REF_ANNOTATION)?;
        name.contains(['/', ':']).then(|| name.clone())
    })
}

/// Picks the best platform and reads its manifest, or the index that stands for it. `above`: digests on the way here.
fn choose(
    archive: &Archive,
    host: &Platform,
    members: &[Descriptor],
    above: Vec<Digest>,
) -> Result<Found, FindError> {
    let best = members
        .iter()
        .filter_map(|member| Some((rank(host, member, members.len())?, member)))
        .min_by_key(|(rank, _)| *rank);
    let Some((_, member)) = best else {
        return Err(FindError::Platform {
            offered: offered(members),
            host: host.clone(),
        });
    };
    let (name, digest, bytes) = read_blob(archive, member)?;
    let mut digests = above;
    digests.push(digest);
    if let Some(members) = nested_index(&bytes) {
        limit(&name, members.len(), MAX_IMAGES, "too many images")?;
        limit(
            &name,
            digests.len(),
            MAX_NESTING,
            "too many indexes inside each other",
        )?;
        return choose(archive, host, &members, digests);
    }
    read_manifest(archive, host, (&name, &bytes), digests)
}

/// Without a platform the configuration tells, later.
fn rank(host: &Platform, member: &Descriptor, members: usize) -> Option<u8> {
    match member.platform() {
        None => Some(u8::MAX),
        Some(_) if members == 1 => Some(0),
        Some(platform) => host.rank(
            &platform.os().to_string(),
            &platform.architecture().to_string(),
            platform.variant().as_deref().unwrap_or_default(),
        ),
    }
}

fn offered(members: &[Descriptor]) -> String {
    let names: Vec<String> = members
        .iter()
        .filter_map(|member| member.platform().as_ref())
        .map(|p| format!("{}/{}", p.os(), p.architecture()))
        .filter(|name| name != "unknown/unknown")
        .collect();
    if names.is_empty() {
        "no platform".to_owned()
    } else {
        names.join(", ")
    }
}

/// By content, since media types are optional: an index has `manifests`.
fn nested_index(bytes: &[u8]) -> Option<Vec<Descriptor>> {
    let index: ImageIndex = serde_json::from_slice(bytes).ok()?;
    Some(index.manifests().clone())
}

fn read_manifest(
    archive: &Archive,
    host: &Platform,
    (name, bytes): (&str, &[u8]),
    digests: Vec<Digest>,
) -> Result<Found, FindError> {
    let manifest: ImageManifest = parse(name, bytes, "an OCI image manifest")?;
    let (config_name, _, config) = read_blob(archive, manifest.config())?;
    let (id, config, diff_ids) = read_config(&config_name, &config, host)?;
    let mut blobs = Vec::new();
    for layer in manifest.layers() {
        let (layer_name, digest) = blob_name(name, layer)?;
        blobs.push((layer_name, Some(digest)));
    }
    Ok(Found {
        id,
        config,
        layers: pair_layers(name, blobs, diff_ids)?,
        names: Vec::new(),
        digests,
    })
}

/// A JSON blob whose content has the digest that the descriptor says.
fn read_blob(
    archive: &Archive,
    descriptor: &Descriptor,
) -> Result<(String, Digest, Vec<u8>), FindError> {
    let (name, expected) = blob_name("index.json", descriptor)?;
    let bytes = archive.read_json(&name)?;
    let found = Digest::of(&bytes);
    if found != expected {
        return Err(FindError::WrongDigest {
            name,
            expected,
            found,
        });
    }
    Ok((name, expected, bytes))
}

fn blob_name(document: &str, descriptor: &Descriptor) -> Result<(String, Digest), FindError> {
    let digest = parse_digest(document, descriptor.digest().to_string())?;
    Ok((format!("blobs/sha256/{}", digest.hex()), digest))
}
