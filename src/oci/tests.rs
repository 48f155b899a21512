use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use oci_spec::image::ImageConfiguration;
use oci_spec::runtime::{Capability, LinuxNamespace, LinuxNamespaceType};
use serde_json::{Value, json};

use super::{ConfigError, ContainerInput, Launch, ManagedFiles, NodeFacts, VolumePlaces, launch};
use crate::holder::proto::{Devices, Seccomp};
use crate::oci::seccomp::Profile;
use crate::pod::objects::Objects;
use crate::pod::{Origin, PodUid, StaticPod};

pub const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/sh
broken line
#comment:x:7:7::/:/bin/sh
web:x:33:34:the web:/var/www:/bin/false
nohome:x:50:51
1000:x:77:78::/seventy-seven:/bin/sh
";

pub const GROUP: &str = "\
root:x:0:root
www:x:34:
video:x:44:web,other
broken
audio:x:29:other, web
staff:x:50:
";

/// Everything `launch` needs, made from JSON.
pub struct Fixture {
    pub pod: StaticPod,
    pub image: ImageConfiguration,
    pub node: NodeFacts,
    pub files: ManagedFiles,
    pub seccomp: Option<Profile>,
    pub apparmor: Option<&'static str>,
    pub objects: Objects,
    pub places: VolumePlaces,
    pub passwd: &'static str,
    pub group: &'static str,
}

impl Fixture {
    /// `spec` is the pod's; its first container is the one that is launched. `config` is the image's `config`.
    pub fn new(spec: Value, config: Value) -> Self {
        let pod = json!({
            "metadata": {"name": "web-node1", "namespace": "shop"},
            "spec": spec,
        });
        let image = json!({
            "architecture": "amd64",
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": []},
            "config": config,
        });
        Self {
            pod: static_pod(pod),
            image: serde_json::from_value(image).unwrap(),
            node: NodeFacts {
                name: "node1".into(),
                host_ips: vec!["192.0.2.7".into(), "2001:db8::7".into()],
                unified_cgroups: true,
                can_lower_oom_score: true,
                memory_bytes: 1 << 30,
                cpus: 4,
                ..NodeFacts::default()
            },
            files: ManagedFiles {
                shm: "/run/vetch/holders/u1/shm".into(),
                ..ManagedFiles::default()
            },
            seccomp: None,
            apparmor: None,
            objects: Objects::default(),
            places: VolumePlaces::default(),
            passwd: PASSWD,
            group: GROUP,
        }
    }

    pub fn input(&self) -> ContainerInput<'_> {
        ContainerInput {
            pod: &self.pod,
            container: &self.pod.pod.spec.as_ref().unwrap().containers[0],
            image: &self.image,
            passwd: self.passwd,
            group: self.group,
            cgroup_path: Path::new("/vetch/besteffort/podu1/c1"),
            node: &self.node,
            files: &self.files,
            seccomp: self.seccomp.as_ref(),
            apparmor: self.apparmor,
            objects: &self.objects,
            places: &self.places,
        }
    }

    pub fn launch(&self) -> Result<Launch, ConfigError> {
        launch(self.input())
    }
}

pub fn static_pod(pod: Value) -> StaticPod {
    StaticPod {
        uid: PodUid::try_from("u1".to_owned()).unwrap(),
        pod: serde_json::from_value::<Pod>(pod).unwrap().into(),
        document_hash: String::new(),
        origin: Origin {
            file: "web.yaml".into(),
            line: 1,
        },
        diagnostics: Vec::new(),
    }
}

/// A busybox as it comes.
fn busybox() -> Fixture {
    Fixture::new(
        json!({"containers": [{"name": "main", "image": "busybox"}]}),
        json!({"Cmd": ["sh"], "Env": ["PATH=/bin"]}),
    )
}

#[test]
fn a_plain_busybox_has_exactly_this_specification() {
    let launch = busybox().launch().unwrap();
    let mut spec = serde_json::to_value(&launch.spec).unwrap();
    // A hash set; compared below.
    spec["process"]["capabilities"] = Value::Null;
    let golden = include_str!("tests/busybox.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    assert_eq!(
        spec,
        golden,
        "{}",
        serde_json::to_string_pretty(&spec).unwrap()
    );
    assert_eq!(launch.confinement.seccomp, Seccomp::RuntimeDefault);
    assert!(!launch.confinement.no_new_privileges);
    assert_eq!(launch.confinement.capabilities.len(), 13);
    let process = launch.spec.process().as_ref().unwrap();
    let bounding = process.capabilities().as_ref().unwrap().bounding();
    let bounding = bounding.as_ref().unwrap();
    assert_eq!(bounding.len(), 14, "the 13 include SETPCAP; plus SYS_ADMIN");
    assert!(bounding.contains(&Capability::SysAdmin));
}

#[test]
fn the_specification_is_the_same_after_a_trip_through_config_json() {
    let launch = busybox().launch().unwrap();
    let text = serde_json::to_string(&launch.spec).unwrap();
    assert_eq!(
        serde_json::from_str::<oci_spec::runtime::Spec>(&text).unwrap(),
        launch.spec
    );
}

#[test]
fn no_namespace_of_the_pod_is_listed() {
    let mut fixture = busybox();
    for unified in [true, false] {
        fixture.node.unified_cgroups = unified;
        let launch = fixture.launch().unwrap();
        let linux = launch.spec.linux().as_ref().unwrap();
        for namespace in linux.namespaces().as_ref().unwrap() {
            assert_eq!(namespace.path(), &None::<PathBuf>);
            match namespace.typ() {
                LinuxNamespaceType::Mount | LinuxNamespaceType::Pid => {}
                LinuxNamespaceType::Cgroup => assert!(unified),
                LinuxNamespaceType::Network
                | LinuxNamespaceType::Ipc
                | LinuxNamespaceType::Uts
                | LinuxNamespaceType::User
                | LinuxNamespaceType::Time => panic!("{:?}", namespace.typ()),
            }
        }
    }
}

/// C-43.
#[test]
fn a_privileged_container_has_no_bars() {
    let fixture = Fixture::new(
        json!({"containers": [{"name": "main", "securityContext": {"privileged": true}}]}),
        json!({"Entrypoint": ["/x"]}),
    );
    let launch = fixture.launch().unwrap();
    let linux = launch.spec.linux().as_ref().unwrap();
    assert_eq!(linux.masked_paths().as_ref().unwrap().len(), 0);
    assert_eq!(linux.readonly_paths().as_ref().unwrap().len(), 0);
    assert_eq!(launch.confinement.seccomp, Seccomp::Unconfined);
    assert_eq!(launch.confinement.capabilities.len(), 41);
    let resources = linux.resources().as_ref().unwrap();
    assert!(resources.devices().as_ref().unwrap()[0].allow());
    assert_eq!(launch.confinement.devices, Devices::AllOfNode);
    // On a unified node; the host's cgroup namespace is the one that is not listed.
    let namespaces = linux.namespaces().as_ref().unwrap().iter();
    let mut types = namespaces.map(LinuxNamespace::typ);
    assert!(types.all(|typ| typ != LinuxNamespaceType::Cgroup));
    let sys = launch.spec.mounts().as_ref().unwrap().iter();
    let mut sys = sys.filter(|mount| mount.destination().starts_with("/sys"));
    assert!(sys.all(|mount| mount.options().as_ref().unwrap().contains(&"rw".to_owned())));
}
