// SPDX-License-Identifier: GPL-2.0-only
//! What of a scenario this machine cannot honour, all of it at once. Nothing is started or changed.

use crate::{disk, has_module, modules, mounts, worker};
use nix::sys::statvfs::statvfs;
use nix::unistd::geteuid;
use runner::disks;
use runner::system::{CGROUP_ROOT, read_meminfo};
use scenario::executor::Refusal;
use scenario::model::{Arm, Filesystem, Scenario};
use scenario::place::{self, Place};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Default)]
struct Refusals(Vec<Refusal>);

impl Refusals {
    fn refuse_key(&mut self, key: impl Into<String>, what: impl Into<String>) {
        self.0.push(Refusal::new(key, what));
    }

    fn refuse_machine(&mut self, what: impl Into<String>) {
        self.refuse_key("", what);
    }
}

/// Everything that keeps any scenario from being run here, in `arms`, with the module at `module`.
pub fn refusals_of_machine(arms: &[Arm], module: Option<&Path>) -> Vec<Refusal> {
    let mut refused = Refusals::default();
    check_machine(&mut refused);
    check_arms(arms, module, &mut refused);
    refused.0
}

/// Everything that keeps `scenario` from being run here, with disks `given` by name in directories.
pub fn refusals_of_scenario(
    scenario: &Scenario,
    given: &BTreeMap<String, PathBuf>,
) -> Vec<Refusal> {
    let mut refused = Refusals(place::refused_keys(scenario, Place::Host));
    check_host(scenario, &mut refused);
    check_disks(scenario, given, &mut refused);
    check_jobs(scenario, &mut refused);
    refused.0
}

/// What every scenario needs.
fn check_machine(refused: &mut Refusals) {
    if !geteuid().is_root() {
        refused.refuse_machine("takes root: sudo weir run ... --on host");
    }
    let root = Path::new(CGROUP_ROOT);
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    let has = |name| controllers.split_whitespace().any(|word| word == name);
    if !has("memory") || !has("io") {
        refused.refuse_machine(format!(
            "no cgroup v2 with the controllers memory and io at {CGROUP_ROOT}: boot with systemd.unified_cgroup_hierarchy=1"
        ));
    } else if root.join("cgroup.events").exists() {
        refused.refuse_machine(format!(
            "{CGROUP_ROOT} is not the root of all cgroups, as inside a container: run weir outside of it"
        ));
    }
    if fs::read_to_string("/proc/pressure/io").is_err() {
        refused.refuse_machine("no pressure stall information in /proc/pressure: boot with psi=1");
    }
    if !is_on_path("fio") {
        refused.refuse_machine("fio is not installed: apt-get install fio");
    }
}

fn check_arms(arms: &[Arm], module: Option<&Path>, refused: &mut Refusals) {
    let text = |file| fs::read_to_string(file).unwrap_or_default();
    let mut state = text("/sys/kernel/weir/state").trim().to_owned();
    // Without a knob it is idle, whatever it would do.
    if state == "idle" && text("/sys/module/weir/parameters/observe").starts_with('Y') {
        state = "observe".into();
    }
    if arms.contains(&Arm::Stock) && has_module() {
        refused.refuse_machine(
            "weir is loaded, and arm stock is without it: run `weir unload` first, or only --arm weir",
        );
    }
    if !arms.contains(&Arm::Weir) {
        return;
    }
    match module {
        _ if has_module() && !["idle", "active"].contains(&state.as_str()) => {
            refused.refuse_machine(format!(
                "weir is loaded, but its state is `{state}`: arm weir needs `idle` or `active` (see `weir status`)"
            ));
        }
        _ if has_module() => {}
        None => refused.refuse_machine(
            "no weir.ko is installed for this kernel: install weir-dkms or run `make install`, name one by --module, or run only --arm stock",
        ),
        Some(path) if !path.is_file() => {
            refused.refuse_machine(format!("{}: there is no such module", path.display()));
        }
        Some(_) => {}
    }
}

fn check_host(scenario: &Scenario, refused: &mut Refusals) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if scenario.host.cpus as usize > cpus {
        refused.refuse_key(
            "host.cpus",
            format!(
                "the scenario has {} CPUs, this machine {cpus}",
                scenario.host.cpus
            ),
        );
    }
    // The kernel keeps some of what is installed for itself.
    let memory = read_meminfo("MemTotal:").unwrap_or(0);
    if scenario.host.memory_bytes / 8 * 7 > memory {
        refused.refuse_key(
            "host.memory",
            format!(
                "the scenario has {} MiB of memory, this machine {} MiB",
                scenario.host.memory_bytes >> 20,
                memory >> 20
            ),
        );
    }
    for name in scenario.host.sysctl.keys() {
        if let Err(why) = fs::read_to_string(worker::sysctl_file(name)) {
            let file = worker::sysctl_file(name);
            refused.refuse_key(
                format!("host.sysctl.\"{name}\""),
                format!("{}: {why}", file.display()),
            );
        }
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(usual)
        .any(|directory| directory.join(program).is_file())
}

fn check_disks(scenario: &Scenario, given: &BTreeMap<String, PathBuf>, refused: &mut Refusals) {
    for name in given.keys() {
        if !scenario.disks.iter().any(|disk| disk.name == *name) {
            let known: Vec<&str> = scenario
                .disks
                .iter()
                .map(|disk| disk.name.as_str())
                .collect();
            refused.refuse_machine(format!(
                "--disk {name}: the scenario has no such disk, it has: {}",
                known.join(", ")
            ));
        }
    }
    let mut memory = 0;
    for (index, disk) in scenario.disks.iter().enumerate() {
        if !disk.filesystem.is_local() {
            continue;
        }
        if disk.filesystem == Filesystem::Swap {
            refused.refuse_key(format!("disk[{index}].filesystem"), place::SHARED);
            continue;
        }
        match given.get(&disk.name) {
            Some(directory) => check_given_disk(index, disk, directory, refused),
            None => {
                memory += disk.size_bytes;
                check_made_disk(index, disk, refused);
            }
        }
    }
    let available = read_meminfo("MemAvailable:").unwrap_or(0);
    if memory > available {
        refused.refuse_machine(format!(
            "disks of {} MiB would be made in memory, of which {} MiB are available: give some by --disk NAME=DIRECTORY, or a smaller `size`",
            memory >> 20,
            available >> 20
        ));
    }
}

/// A disk that is made here.
fn check_made_disk(index: usize, disk: &scenario::model::Disk, refused: &mut Refusals) {
    let kind = disks::kernel_name(disk.filesystem);
    let Some((program, _)) = disks::mkfs_command(disk.filesystem) else {
        return;
    };
    let mut lacks = |what: String| refused.refuse_key(format!("disk[{index}]"), what);
    if !modules::is_available(disk::DRIVER) && !Path::new("/sys/block/nbd0").exists() {
        lacks(format!(
            "this kernel has no module {}, of which disks are made: give one by --disk {}=DIRECTORY",
            disk::DRIVER,
            disk.name
        ));
    }
    if !is_on_path(program) {
        lacks(format!("{program} is not installed"));
    }
    if !worker::has_filesystem(kind) && !modules::is_available(kind) {
        lacks(format!("this kernel has no {kind}"));
    }
    if disk.encrypted && disk.io_cost {
        lacks("`io_cost` works on requests, which `encrypted` has none of: leave one out".into());
    }
    if disk.encrypted {
        if !is_on_path("dmsetup") {
            lacks("`encrypted` takes dmsetup: apt-get install dmsetup".into());
        }
        for module in disks::ENCRYPTION {
            if !modules::is_available(module) {
                lacks(format!("`encrypted`: this kernel has no module {module}"));
            }
        }
    }
}

/// A disk that is there.
fn check_given_disk(
    index: usize,
    disk: &scenario::model::Disk,
    directory: &Path,
    refused: &mut Refusals,
) {
    let at = directory.display();
    let mut cannot =
        |key: &str, what: String| refused.refuse_key(format!("disk[{index}].{key}"), what);
    let own = format!(
        "weir does not change the given disk at {at}: remove the key, or leave out --disk {}=... so that weir makes the disk",
        disk.name
    );
    for (key, is_set) in [
        ("write_bandwidth", disk.write_bandwidth.is_some()),
        ("read_bandwidth", disk.read_bandwidth.is_some()),
        ("encrypted", disk.encrypted),
        ("io_cost", disk.io_cost),
    ] {
        if is_set {
            cannot(key, own.clone());
        }
    }
    if !directory.is_dir() {
        return cannot("name", format!("{at} is not a directory"));
    }
    let Some(mount) = mounts::mount_of(directory) else {
        return cannot("name", format!("{at} is on no mount"));
    };
    let kind = disks::kernel_name(disk.filesystem);
    if mount.kind != kind {
        cannot(
            "filesystem",
            format!("{at} is on {}, not {kind}", mount.kind),
        );
    }
    if worker::device_number(directory).is_none() {
        cannot(
            "name",
            format!("{at} is on no block device, so its disk cannot be measured"),
        );
    }
    for option in disk
        .mount_options
        .iter()
        .flat_map(|options| options.split(','))
    {
        if !mount.options.iter().any(|other| other == option) {
            cannot(
                "mount_options",
                format!(
                    "{at} is not mounted with {option}: mount -o remount,{option} {}",
                    mount.at.display()
                ),
            );
        }
    }
    let free = statvfs(directory).map_or(0, |fs| fs.blocks_available() * fs.fragment_size());
    if free < disk.size_bytes {
        cannot(
            "size",
            format!(
                "{at} has {} MiB free, not {} MiB",
                free >> 20,
                disk.size_bytes >> 20
            ),
        );
    }
}

fn check_jobs(scenario: &Scenario, refused: &mut Refusals) {
    for (index, job) in scenario.jobs.iter().enumerate() {
        for (option, value) in &job.fio {
            if leads_elsewhere(value) {
                refused.refuse_key(
                    format!("job[{index}].fio.{option}"),
                    format!("`{value}` is outside of the job's disk, and this is no guest: name files without a path"),
                );
            }
        }
    }
}

/// Would fio use a file that is not in the directory it is given?
fn leads_elsewhere(value: &str) -> bool {
    value.starts_with('/') || value.contains(":/") || value.split('/').any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_job_reaches_a_device_or_another_directory() {
        for value in [
            "/dev/sda",
            "a:/dev/sda",
            "../x",
            "a/../../x",
            "external:/tmp/x.so",
        ] {
            assert!(leads_elsewhere(value), "{value}");
        }
        for value in ["a", "a:b", "4k/50:64k/50", "write", "sub/file"] {
            assert!(!leads_elsewhere(value), "{value}");
        }
    }

    fn keys(text: &str, given: &[(&str, &str)]) -> Vec<(String, String)> {
        let scenario = scenario::parse("t", "t.toml", text).expect("a scenario");
        let given = given
            .iter()
            .map(|(name, path)| ((*name).to_owned(), PathBuf::from(path)))
            .collect();
        let all = refusals_of_scenario(&scenario, &given).into_iter();
        all.map(|refusal| (refusal.key, refusal.what)).collect()
    }

    #[test]
    fn all_that_cannot_be_honoured_is_said_at_once() {
        let text = r#"
            title = "t"
            [host]
            memory = "900000G"
            cpus = 1000
            sysctl = { "vm.no_such_thing" = 1 }
            [[disk]]
            name = "d"
            filesystem = "xfs"
            write_bandwidth = "1M/s"
            io_cost = true
            encrypted = true
            [cgroup.many]
            copies = 3
            [[job]]
            name = "j"
            network = { bandwidth = "1M/s", buffer = "1M" }
            fio = { rw = "write", size = "1M", filename = "/dev/sda" }
            [[phase]]
            name = "p"
            jobs = ["j"]
            duration = "1s"
        "#;
        let refused = keys(text, &[("d", "/proc"), ("e", "/")]);
        for key in [
            "host.cpus",
            "host.memory",
            "host.sysctl.\"vm.no_such_thing\"",
            "disk[0].write_bandwidth",
            "disk[0].encrypted",
            "disk[0].io_cost",
            "disk[0].filesystem",
            "disk[0].name",
            "disk[0].size",
            "cgroup.many.copies",
            "job[0].network",
            "job[0].fio.filename",
        ] {
            assert!(
                refused.iter().any(|(other, _)| other == key),
                "{key}: {refused:?}"
            );
        }
        let unknown = "--disk e: the scenario has no such disk, it has: d";
        assert!(
            refused.iter().any(|(_, what)| what == unknown),
            "{refused:?}"
        );
    }
}
