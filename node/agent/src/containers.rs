// SPDX-License-Identifier: GPL-2.0-only
//! What container runtimes note of a container, by the id in its cgroup's name.
//!
//! Read from the files that runtimes keep for themselves, not asked of the runtime: a call to the
//! CRI takes a socket that is as good as root, a runtime that answers while the host stalls, and
//! for each runtime another protocol. The file is there before the container's first process. It
//! is one read for each container that is asked for, and none if there is no need.
//!
//! |runtime|file|
//! |---|---|
//! |containerd's CRI|`config.json` of the bundle: annotations|
//! |CRI-O, Podman|the same, elsewhere|
//! |Docker|`config.v2.json`: labels|

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Labels or annotations.
pub type Notes = BTreeMap<String, String>;

/// Directories that have one for each container, and what is in it.
const PLACES: [(&str, &str); 4] = [
    (
        "run/containerd/io.containerd.runtime.v2.task/k8s.io",
        "config.json",
    ),
    (
        "run/containers/storage/overlay-containers",
        "userdata/config.json",
    ),
    (
        "var/lib/containers/storage/overlay-containers",
        "userdata/config.json",
    ),
    ("var/lib/docker/containers", "config.v2.json"),
];
/// Digits of an id.
const DIGITS: usize = 64;
/// Files above that are none.
const MOST_BYTES: u64 = 4 << 20;

/// A pod's container, or a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The container's name; empty for all of the pod.
    pub container: String,
}

impl Pod {
    /// Reads the pod from a runtime's notes; nothing if the container is not a pod's.
    fn from_notes(notes: &Notes) -> Option<Pod> {
        let get = |keys: [&str; 2]| keys.iter().find_map(|key| notes.get(*key).cloned());
        Some(Pod {
            namespace: get([
                "io.kubernetes.cri.sandbox-namespace",
                "io.kubernetes.pod.namespace",
            ])?,
            name: get(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"])?,
            container: get([
                "io.kubernetes.cri.container-name",
                "io.kubernetes.container.name",
            ])
            .unwrap_or_default(),
        })
    }

    /// Finds the pod that the cgroup at `path` belongs to. `cgroups` is where the hierarchy is,
    /// `root` the machine's root directory. A pod's own cgroup is known by a container in it.
    pub fn of_cgroup(root: &Path, cgroups: &Path, path: &str) -> Option<Pod> {
        if let Some(id) = container_id_of(path) {
            return Pod::from_notes(&read(root, id)?);
        }
        if !path.contains("/kubepods") || !last_component(path).contains("pod") {
            return None;
        }
        let below = std::fs::read_dir(cgroups.join(path.trim_start_matches('/'))).ok()?;
        let mut names = below
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let pod = names.find_map(|name| Pod::from_notes(&read(root, id_in_name(&name)?)?))?;
        Some(Pod {
            container: String::new(),
            ..pod
        })
    }
}

fn last_component(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The id of the container whose cgroup this is, or the cgroup above it.
pub fn container_id_of(path: &str) -> Option<&str> {
    path.rsplit('/').find_map(id_in_name)
}

/// The id of the container whose own cgroup this is. Not one that is called like a container's in
/// another's, whose root can make it; and not that of Podman's helper.
pub fn own_container_id(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/')?;
    let is_own = !name.contains("-conmon-") && container_id_of(above).is_none();
    id_in_name(name).filter(|_| is_own)
}

/// Returns whether a container with these notes is a pod's.
pub fn is_pod(notes: &Notes) -> bool {
    Pod::from_notes(notes).is_some()
}

/// Finds the container's id in a name such as `docker-ID.scope`, `cri-containerd-ID.scope` or `ID`.
fn id_in_name(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit('-').next()?;
    let is_id = id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(id)
}

/// Reads all that a runtime notes of a container, on the machine with this root directory.
pub fn read(root: &Path, id: &str) -> Option<Notes> {
    PLACES.iter().find_map(|(directory, file)| {
        let file = File::open(root.join(directory).join(id).join(file)).ok()?;
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
        parse(&text)
    })
}

/// An OCI bundle has annotations, Docker's file labels.
fn parse(text: &str) -> Option<Notes> {
    #[derive(Deserialize)]
    struct Noted {
        #[serde(default)]
        annotations: Option<Notes>,
        #[serde(default, rename = "Config")]
        config: Option<Config>,
    }
    #[derive(Deserialize)]
    struct Config {
        #[serde(default, rename = "Labels")]
        labels: Option<Notes>,
    }
    let noted: Noted = serde_json::from_str(text).ok()?;
    let labels = noted.config.and_then(|config| config.labels);
    Some(labels.or(noted.annotations).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn ids_are_found_in_the_names_that_runtimes_give() {
        let id = "0123456789abcdef".repeat(4);
        for path in [
            format!("/system.slice/docker-{id}.scope"),
            format!("/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{id}.scope"),
            format!("/kubepods/besteffort/pod1-2/{id}"),
            format!("/machine.slice/libpod-{id}.scope/container/x.service"),
        ] {
            assert_eq!(container_id_of(&path), Some(id.as_str()), "{path}");
        }
        for path in ["/", "/system.slice/cron.service", "/a-0123456789abcdef"] {
            assert_eq!(container_id_of(path), None, "{path}");
        }
    }

    #[test]
    fn a_container_has_one_cgroup_of_its_own() {
        let (a, b) = ("a".repeat(DIGITS), "b".repeat(DIGITS));
        for path in [
            format!("/system.slice/docker-{a}.scope"),
            format!("/docker/{a}"),
            format!("/system.slice/db.service/libpod-payload-{a}"),
        ] {
            assert_eq!(own_container_id(&path), Some(a.as_str()), "{path}");
        }
        for path in [
            format!("/machine.slice/libpod-conmon-{a}.scope"),
            format!("/machine.slice/libpod-{a}.scope/container"),
            format!("/system.slice/docker-{b}.scope/docker-{a}.scope"),
            "/system.slice/db.service".into(),
        ] {
            assert_eq!(own_container_id(&path), None, "{path}");
        }
    }

    #[test]
    fn a_pod_is_known_by_what_its_runtime_notes() {
        let dir = tempfile::tempdir().expect("made");
        let (root, id) = (dir.path(), "a".repeat(DIGITS));
        let bundle = root.join(PLACES[0].0).join(&id);
        fs::create_dir_all(&bundle).expect("made");
        let text = r#"{"ociVersion":"1.0","annotations":{
            "io.kubernetes.cri.sandbox-namespace":"shop","io.kubernetes.cri.sandbox-name":"db-0",
            "io.kubernetes.cri.container-name":"etcd"},"process":{"args":["x"]}}"#;
        fs::write(bundle.join("config.json"), text).expect("written");
        let cgroups = root.join("cg");
        let pod = format!("/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{id}.scope");
        fs::create_dir_all(cgroups.join(&pod[1..])).expect("made");
        let found = Pod::of_cgroup(root, &cgroups, &pod).expect("a pod's");
        assert_eq!(
            (
                found.namespace.as_str(),
                found.name.as_str(),
                found.container.as_str()
            ),
            ("shop", "db-0", "etcd")
        );
        let above = Pod::of_cgroup(root, &cgroups, "/kubepods.slice/kubepods-pod1_2.slice");
        assert_eq!(
            above,
            Some(Pod {
                container: String::new(),
                ..found
            })
        );
        assert_eq!(Pod::of_cgroup(root, &cgroups, "/kubepods.slice"), None);
        assert_eq!(Pod::of_cgroup(root, &cgroups, "/system.slice"), None);
    }

    #[test]
    fn dockers_labels_are_read_and_damage_is_nothing() {
        let notes = parse(r#"{"ID":"x","Config":{"Labels":{"weir.dev/dirty-bytes":"64M"}}}"#);
        assert_eq!(notes.expect("read")["weir.dev/dirty-bytes"], "64M");
        assert_eq!(parse("{}"), Some(Notes::new()));
        assert_eq!(parse(r#"{"Config":{"Labels":null}}"#), Some(Notes::new()));
        assert_eq!(parse(r#"{"annotations":"#), None);
    }
}
