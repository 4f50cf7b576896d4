// SPDX-License-Identifier: GPL-2.0-only
//! On plain files. Real systemd, Docker and Podman are packaging/tests/requests.sh's.

use super::*;
use crate::journal::Said;
use std::fs;

/// A machine's root directory, what is asked for on it, and what was said.
struct Bench {
    dir: tempfile::TempDir,
    requests: Requests,
    said: Said,
}

impl Bench {
    fn new() -> Bench {
        let dir = tempfile::tempdir().expect("made");
        let said = Said::default();
        let journal = Journal::new(said.clone(), false);
        let requests = Requests::new(dir.path(), RequestSettings::without_section(), journal);
        Bench {
            dir,
            requests,
            said,
        }
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.dir.path().join(file);
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        fs::write(file, text).expect("written");
    }

    fn drop_in(&self, unit: &str, text: &str) {
        self.write(&format!("etc/systemd/system/{unit}.d/weir.conf"), text);
    }

    /// A container of Docker's with these labels; its cgroup's path.
    fn container(&self, labels: &str) -> String {
        let id = "0123456789abcdef".repeat(4);
        let text = format!(r#"{{"ID":"{id}","Config":{{"Labels":{{{labels}}}}}}}"#);
        self.write(
            &format!("var/lib/docker/containers/{id}/config.v2.json"),
            &text,
        );
        format!("/system.slice/docker-{id}.scope")
    }

    fn of(&mut self, place: &CgroupDir) -> String {
        let granted = self.requests.granted_to(place).into_iter();
        let words = granted.map(|(knob, setting)| format!("{}={}", knob.name(), setting.text));
        words.collect::<Vec<_>>().join(" ")
    }

    fn said(&self) -> String {
        self.said.take_text()
    }
}

fn place(path: &str) -> CgroupDir {
    CgroupDir {
        directory: PathBuf::new(),
        path: path.into(),
        inode: 1,
        delegated: false,
    }
}

#[test]
fn keys_are_the_knobs_names() {
    assert_eq!(
        Knob::DIRTY.map(label_key).join(" "),
        "weir.dev/dirty-min weir.dev/dirty-bytes weir.dev/dirty-ratio weir.dev/dirty-bandwidth weir.dev/dirty-weight \
         weir.dev/writeback-bytes"
    );
    assert_eq!(
        Knob::DIRTY.map(unit_key).join(" "),
        "X-Weir-DirtyMin X-Weir-DirtyBytes X-Weir-DirtyRatio X-Weir-DirtyBandwidth X-Weir-DirtyWeight \
         X-Weir-WritebackBytes"
    );
}

#[test]
fn a_unit_gets_what_it_asks_for_until_systemd_reads_otherwise() {
    let mut bench = Bench::new();
    let db = place("/system.slice/db.service");
    bench.drop_in(
        "db.service",
        "[Service]\nX-Weir-DirtyMin=16M\nX-Weir-DirtyWeight=400\n",
    );
    assert_eq!(bench.of(&db), "dirty_min=16M dirty_weight=400");
    bench.drop_in("db.service", "");
    assert!(!bench.requests.have_changed());
    assert_eq!(bench.of(&db), "dirty_min=16M dirty_weight=400");
    // As daemon-reload does.
    bench.write("run/systemd/generator/x", "");
    assert!(bench.requests.have_changed() && !bench.requests.have_changed());
    assert_eq!(bench.of(&db), "");
    assert_eq!(bench.requests.count_requests(), (0, 0));
}

#[test]
fn what_is_wrong_is_said_once_and_the_rest_goes_on() {
    let mut bench = Bench::new();
    let db = place("/system.slice/db.service");
    let text = "[Service]\nX-Weir-DirtyMin=16MB\nX-Weir-DirtyBytes=64M\nX-Weir-Dirty=1\n";
    bench.drop_in("db.service", text);
    assert_eq!(bench.of(&db), "dirty_bytes=64M");
    let file = "/etc/systemd/system/db.service.d/weir.conf";
    let said = bench.said();
    let words = format!(
        "error: /system.slice/db.service: X-Weir-DirtyMin in {file}: memory.dirty_min: invalid value `16MB`: expected bytes"
    );
    assert!(said.contains(&words), "{said}");
    let words = format!(
        "X-Weir-Dirty in {file}: unknown key `X-Weir-Dirty`: expected X-Weir-DirtyMin, X-Weir-DirtyBytes"
    );
    assert!(said.contains(&words), "{said}");
    assert_eq!(bench.requests.count_requests(), (1, 2));
    bench.write("run/systemd/generator/x", "");
    assert!(bench.requests.have_changed());
    assert_eq!(bench.of(&db), "dirty_bytes=64M");
    assert_eq!(bench.said(), "");
    bench.drop_in("db.service", &text.replace("16MB", "17MB"));
    bench
        .requests
        .follow_settings(RequestSettings::without_section());
    bench.of(&db);
    assert_eq!(bench.said().lines().count(), 1);
}

#[test]
fn a_label_limits_and_takes_from_others_only_if_allowed() {
    let mut bench = Bench::new();
    let labels = r#""weir.dev/dirty-bytes":"75%","weir.dev/dirty-min":"1M","other":"x""#;
    let container = place(&bench.container(labels));
    assert_eq!(bench.of(&container), "dirty_bytes=75%");
    let said = bench.said();
    assert!(
        said.contains("label weir.dev/dirty-min: memory.dirty_min = 1M takes from others: allow it by `containers = \"all\"`"),
        "{said}"
    );
    let all = RequestSettings {
        containers: Containers::All,
        ..RequestSettings::without_section()
    };
    bench.requests.follow_settings(all);
    assert_eq!(bench.of(&container), "dirty_min=1M dirty_bytes=75%");
    bench.requests.follow_settings(RequestSettings::default());
    assert_eq!(bench.of(&container), "");
    assert_eq!(bench.said(), "");
}

#[test]
fn who_does_not_own_the_host_gets_nothing() {
    let mut bench = Bench::new();
    bench.drop_in("db.service", "X-Weir-DirtyMin=16M\n");
    let container = bench.container(r#""weir.dev/dirty-bytes":"64M""#);
    for (inode, path) in ["/system.slice/db.service", &container]
        .into_iter()
        .enumerate()
    {
        let delegated = CgroupDir {
            delegated: true,
            inode: 10 + inode as u64,
            ..place(path)
        };
        assert_eq!(bench.of(&delegated), "", "{path}");
    }
    let inside = CgroupDir {
        inode: 7,
        ..place(&format!("{container}/db.service"))
    };
    assert_eq!(bench.of(&inside), "");
    assert_eq!(bench.of(&place(&container)), "dirty_bytes=64M");
    let pod = bench.container(
        r#""weir.dev/dirty-bytes":"64M","io.kubernetes.pod.namespace":"a","io.kubernetes.pod.name":"b""#,
    );
    bench
        .requests
        .follow_settings(RequestSettings::without_section());
    assert_eq!(bench.of(&place(&pod)), "", "weir-nri's");
}

#[test]
fn a_unit_wins_over_a_label_and_a_container_is_waited_for() {
    let mut bench = Bench::new();
    let id = "0123456789abcdef".repeat(4);
    let path = format!("/system.slice/docker-{id}.scope");
    assert_eq!(bench.of(&place(&path)), "");
    bench.container(r#""weir.dev/dirty-bytes":"max","weir.dev/dirty-weight":"50""#);
    assert_eq!(bench.of(&place(&path)), "dirty_bytes=max dirty_weight=50");
    bench.drop_in("docker-.scope", "X-Weir-DirtyBytes=256M\n");
    bench
        .requests
        .follow_settings(RequestSettings::without_section());
    assert_eq!(bench.of(&place(&path)), "dirty_bytes=256M dirty_weight=50");
}

#[test]
fn an_image_does_not_fill_the_journal() {
    let mut bench = Bench::new();
    let long = "9".repeat(1 << 20);
    let labels: Vec<String> = (0..1000)
        .map(|n| format!(r#""weir.dev/{n}":"{long}""#))
        .take(3)
        .collect();
    let container = place(&bench.container(&labels.join(",")));
    bench.of(&container);
    let said = bench.said();
    assert!(said.len() < 1000 && said.contains("too long"), "{said}");
    let labels: Vec<String> = (0..1000)
        .map(|n| format!(r#""weir.dev/{n}":"1""#))
        .collect();
    let container = place(&bench.container(&labels.join(",")));
    bench
        .requests
        .follow_settings(RequestSettings::without_section());
    bench.of(&container);
    assert_eq!(bench.said().lines().count(), MOST_LABELS);
}
