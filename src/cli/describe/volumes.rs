//! The volumes of a description, and their mounts, as kubectl writes them.

use k8s_openapi::api::core::v1::{
    Container, DownwardAPIVolumeFile, PodSpec, ProjectedVolumeSource, Volume, VolumeMount,
};

use super::page::Page;

/// What a container mounts.
pub fn mounts(page: &mut Page, wanted: &Container) {
    let mut mounts: Vec<&VolumeMount> = wanted.volume_mounts.iter().flatten().collect();
    if mounts.is_empty() {
        return page.row(2, "Mounts", "<none>");
    }
    mounts.sort_by_key(|mount| &mount.mount_path);
    page.head(2, "Mounts");
    for mount in mounts {
        page.line(3, line(mount));
    }
}

fn line(mount: &VolumeMount) -> String {
    let access = match (mount.read_only, mount.recursive_read_only.as_deref()) {
        (Some(true), Some("IfPossible" | "Enabled")) => "ro,recursive",
        (Some(true), _) => "ro",
        (Some(false) | None, _) => "rw",
    };
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let path = given(&mount.sub_path).or_else(|| given(&mount.sub_path_expr));
    let path = path.map_or_else(String::new, |path| format!(",path={path:?}"));
    let (target, name) = (&mount.mount_path, &mount.name);
    format!("{target} from {name} ({access}{path})")
}

/// What the pod has.
pub fn volumes(page: &mut Page, spec: Option<&PodSpec>) {
    let volumes = spec.and_then(|spec| spec.volumes.as_deref());
    let Some(volumes) = volumes.filter(|volumes| !volumes.is_empty()) else {
        return page.row(0, "Volumes", "<none>");
    };
    page.head(0, "Volumes");
    for volume in volumes {
        page.head(1, &volume.name);
        self::volume(page, volume);
    }
}

fn volume(page: &mut Page, volume: &Volume) {
    if let Some(host) = &volume.host_path {
        page.row(2, "Type", "HostPath (bare host directory volume)");
        page.row(2, "Path", &host.path);
        page.row(2, "HostPathType", host.type_.as_deref().unwrap_or_default());
    } else if let Some(dir) = &volume.empty_dir {
        page.row(
            2,
            "Type",
            "EmptyDir (a temporary directory that shares a pod's lifetime)",
        );
        page.row(2, "Medium", dir.medium.as_deref().unwrap_or_default());
        let limit = dir.size_limit.as_ref().map(|limit| limit.0.as_str());
        page.row(2, "SizeLimit", limit.unwrap_or("<unset>"));
    } else if let Some(map) = &volume.config_map {
        page.row(2, "Type", "ConfigMap (a volume populated by a ConfigMap)");
        page.row(2, "Name", &map.name);
        page.row(2, "Optional", map.optional == Some(true));
    } else if let Some(secret) = &volume.secret {
        page.row(2, "Type", "Secret (a volume populated by a Secret)");
        page.optional(2, "SecretName", secret.secret_name.as_ref());
        page.row(2, "Optional", secret.optional == Some(true));
    } else if let Some(downward) = &volume.downward_api {
        page.row(
            2,
            "Type",
            "DownwardAPI (a volume populated by information about the pod)",
        );
        items(page, downward.items.as_deref());
    } else if let Some(projected) = &volume.projected {
        self::projected(page, projected);
    } else if let Some(image) = &volume.image {
        page.row(2, "Type", "Image (a container image or OCI artifact)");
        page.optional(2, "Reference", image.reference.as_ref());
        page.optional(2, "PullPolicy", image.pull_policy.as_ref());
    }
}

fn items(page: &mut Page, items: Option<&[DownwardAPIVolumeFile]>) {
    page.head(2, "Items");
    for item in items.unwrap_or_default() {
        let field = item.field_ref.as_ref().map(|field| &field.field_path);
        let resource = item.resource_field_ref.as_ref();
        let source = field.or(resource.map(|resource| &resource.resource));
        let source = source.map_or("", String::as_str);
        page.line(3, format_args!("{source} -> {}", item.path));
    }
}

fn projected(page: &mut Page, projected: &ProjectedVolumeSource) {
    page.row(
        2,
        "Type",
        "Projected (a volume that contains injected data from multiple sources)",
    );
    for source in projected.sources.iter().flatten() {
        if let Some(secret) = &source.secret {
            page.row(2, "SecretName", &secret.name);
            page.row(2, "Optional", secret.optional == Some(true));
        }
        if source.downward_api.is_some() {
            page.row(2, "DownwardAPI", true);
        }
        if let Some(map) = &source.config_map {
            page.row(2, "ConfigMapName", &map.name);
            page.row(2, "Optional", map.optional == Some(true));
        }
    }
}
