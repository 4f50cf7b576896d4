// SPDX-License-Identifier: GPL-2.0-only
//! `[host]` and `[[disk]]`: the machine.

use super::{LEAST_MEMORY, name, tier};
use crate::model::{Disk, DiskKind, Filesystem, HostSpec, Reclaim, Tier, Twin};
use config::problem::suggest_known;
use config::reader::{Table, Value};
use config::units;
use knobs::{ASSIST_THREADS_MAX, DRAIN_SECONDS_MAX};
use std::collections::BTreeMap;

/// Of what the model counts one by one.
const MOST_COST_NS: u64 = 60_000_000_000;
/// More than the model needs; a guest of the lab has at most 64.
const MOST_CPUS: u64 = 1024;
/// An NVMe queue has no more.
const MOST_PARALLEL: u64 = 1 << 16;
/// A disk no one says the size of; sparse, so it costs what is written.
const DISK_SIZE: u64 = 2 << 30;
/// Least size of a disk: all supported filesystems can be made on it (btrfs wants the most).
const LEAST_DISK: u64 = 256 << 20;

pub(super) fn read_host(root: &Table, tiers: &[Tier]) -> HostSpec {
    let mut host = HostSpec {
        memory_bytes: tiers.iter().map(|tier| tier.size_bytes).sum(),
        cpus: 1,
        sysctl: BTreeMap::new(),
        weir: BTreeMap::new(),
        lru_gen: None,
    };
    let Some(table) = root
        .required("host", "[host]")
        .and_then(|v| v.as_table(&["memory", "cpus", "sysctl", "weir", "lru_gen"]))
    else {
        return host;
    };
    if !tiers.is_empty() {
        if let Some(value) = table.optional("memory") {
            value.complain("is the sum of what the `[[tier]]` tables say: leave it out");
        }
    } else if let Some(value) = table.required("memory", "memory = \"2G\"") {
        host.memory_bytes = value
            .parse_with("a size, as in `\"2G\"`", units::parse_size)
            .unwrap_or_default();
        if host.memory_bytes > 0 && host.memory_bytes < LEAST_MEMORY {
            value.complain("is too small to boot a distribution kernel: at least `512M`");
        }
    }
    if let Some(value) = table.required("cpus", "cpus = 2") {
        match value.as_unsigned("a number of CPUs, as in `2`") {
            Some(n @ 1..=MOST_CPUS) => host.cpus = n as u32,
            Some(n) => value.complain(format!("`{n}` CPUs: a host has 1 to {MOST_CPUS}")),
            None => {}
        }
    }
    let sysctls = table
        .optional("sysctl")
        .and_then(|v| v.as_entries("a table, as in `{ \"vm.dirty_bytes\" = \"32M\" }`"));
    for (key, value) in sysctls.unwrap_or_default() {
        if let Some(text) = read_sysctl(key, &value) {
            host.sysctl.insert(key.into(), text);
        }
    }
    host.lru_gen = table.optional("lru_gen").and_then(|v| v.as_boolean());
    let parameters = table
        .optional("weir")
        .and_then(|v| v.as_entries("a table, as in `{ drain_seconds = 30 }`"));
    for (name, value) in parameters.unwrap_or_default() {
        if let Some(text) = read_parameter(name, &value, tiers.len()) {
            host.weir.insert(name.into(), text);
        }
    }
    host
}

/// `[twin]`: what a model of the host has to be told.
pub(super) fn read_twin(root: &Table) -> Twin {
    let Some(table) = root.optional("twin").and_then(|v| {
        v.as_table(&[
            "call",
            "page",
            "scan",
            "wake",
            "start",
            "rewrite",
            "read",
            "store",
            "refill",
            "flusher",
            "disk",
            "anonymous",
            "look",
            "counts",
            "burst",
            "stall",
            "stall_every",
            "fails",
            "queue",
            "vary",
            "access",
            "migrate",
            "reclaim",
        ])
    }) else {
        return Twin::default();
    };
    let long = |key| {
        let value = table.optional(key)?;
        let ns = value.parse_with("a time, as in `\"2us\"`", units::parse_nanoseconds)?;
        Some((value, ns))
    };
    let time = |key| {
        let (value, ns) = long(key)?;
        if ns > MOST_COST_NS {
            value.complain("is too long: at most `1m`");
        }
        Some(ns)
    };
    let bandwidth = |key| {
        table
            .optional(key)
            .and_then(|v| v.parse_with("a bandwidth, as in `\"500M/s\"`", units::parse_bandwidth))
    };
    let size = |key, like: &str| {
        table
            .optional(key)
            .and_then(|v| v.parse_with(&format!("a size, as in `\"{like}\"`"), units::parse_size))
    };
    // How often may be as seldom as a scenario is long.
    let (stall_ns, stall_every_ns) = (time("stall"), long("stall_every").map(|(_, ns)| ns));
    if let (Some(stall), every) = (stall_ns, stall_every_ns.unwrap_or(0)) {
        if stall >= every {
            table.complain("`stall` needs a longer `stall_every`, as in `stall_every = \"10s\"`");
        }
    }
    let queue = table
        .optional("queue")
        .and_then(|v| v.as_unsigned("a number: how many requests a disk takes at a time"))
        .and_then(|queue| match u16::try_from(queue) {
            Ok(queue @ 2..) => Some(queue),
            _ => {
                table.complain("`queue` is 2 to 65535 requests");
                None
            }
        });
    let vary = table
        .optional("vary")
        .and_then(|v| v.as_unsigned("a number: by how many percent the time of a request varies"))
        .and_then(|percent| match u8::try_from(percent) {
            Ok(percent @ 0..=100) => Some(percent),
            _ => {
                table.complain("`vary` is 0 to 100 percent");
                None
            }
        });
    Twin {
        queue,
        vary,
        stall_ns,
        stall_every_ns,
        fails: table
            .optional("fails")
            .and_then(|v| v.as_unsigned("a number: each so many-th request of a disk fails")),
        call_ns: time("call"),
        page_ns: time("page"),
        scan_ns: time("scan"),
        wake_ns: time("wake"),
        start_ns: time("start"),
        rewrite_ns: time("rewrite"),
        read_ns: time("read"),
        store_ns: time("store"),
        refill_ns: time("refill"),
        look_ns: time("look"),
        counts_ns: time("counts"),
        burst_ns: time("burst"),
        flusher_bandwidth: bandwidth("flusher"),
        flusher_more_pct: None,
        disk_bandwidth: bandwidth("disk"),
        anonymous_bytes: size("anonymous", "290G"),
        access_bytes: size("access", "64"),
        migrate_bandwidth: bandwidth("migrate"),
        reclaim: table.optional("reclaim").and_then(|v| {
            v.parse_with("`5.14`, `5.16-rc` or `6.12`", |text| {
                Reclaim::from_name(text).ok_or_else(|| {
                    format!(
                        "unknown kernel `{}`: expected `5.14`, `5.16-rc` or `6.12`",
                        text.escape_debug()
                    )
                })
            })
        }),
    }
}

/// A parameter of the module that a scenario may set, as it will be written.
fn read_parameter(name: &str, value: &Value, nodes: usize) -> Option<String> {
    let known = [
        "drain_seconds",
        "drain_tighten",
        "fair",
        "tiers",
        "tier_ratio",
        "assist",
    ];
    match name {
        "drain_seconds" => {
            let text = value.as_scalar()?;
            if text == "auto" || text.parse::<u64>().is_ok_and(|n| n <= DRAIN_SECONDS_MAX) {
                return Some(text);
            }
            value.complain(format!(
                "`{text}` is not what `drain_seconds` takes: whole seconds, 0 (off) to {DRAIN_SECONDS_MAX}, or `auto` on the twin"
            ));
        }
        "tiers" => {
            let text = value.string("nodes, fastest first, as in `\"0;1\"`")?;
            if let Err(why) = tier::check_node_lists(text, nodes) {
                value.complain(why);
            }
            return Some(text.to_owned());
        }
        "tier_ratio" => {
            let text = value.as_scalar()?;
            if text.parse::<u32>().is_ok_and(|n| n <= 100) {
                return Some(text);
            }
            value.complain(format!(
                "`{text}` is not what `tier_ratio` takes: a percentage, 1 to 100, or 0 (by capacity)"
            ));
        }
        "assist" => {
            let text = value.as_scalar()?;
            if text.parse::<u64>().is_ok_and(|n| n <= ASSIST_THREADS_MAX) {
                return Some(text);
            }
            value.complain(format!(
                "`{text}` is not what `assist` takes: threads that start writeback, 0 to {ASSIST_THREADS_MAX}"
            ));
        }
        "drain_tighten" | "fair" => return value.as_boolean().map(|on| u8::from(on).to_string()),
        _ => value.complain(format!(
            "weir has no host-wide option `{}`, {}",
            name.escape_debug(),
            suggest_known(name, known)
        )),
    }
    None
}

/// The text written into the sysctl; sizes become digits because the kernel takes nothing else.
fn read_sysctl(key: &str, value: &Value) -> Option<String> {
    let known = ["vm", "kernel", "fs", "net", "dev", "user"];
    let group = key.split('.').next().unwrap_or(key);
    let clean = key
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && !key.contains("..");
    if !clean || !known.contains(&group) || key == group || key.ends_with('.') {
        value.complain(format!(
            "`{}` is not a sysctl, as in `vm.dirty_bytes`; they begin with: {}",
            key.escape_debug(),
            known.join(", ")
        ));
        return None;
    }
    let text = value.as_scalar()?;
    if key.ends_with("_bytes") {
        return units::parse_size(&text)
            .map(|n| n.to_string())
            .map_err(|why| value.complain(why))
            .ok();
    }
    if (key.starts_with("vm.dirty") || key.ends_with("_ratio")) && text.parse::<u32>().is_err() {
        value.complain(format!(
            "`{text}` is not what `{key}` takes: a whole number without a unit"
        ));
        return None;
    }
    if key.ends_with("_ratio") && text.parse::<u32>().is_ok_and(|n| n > 100) {
        value.complain(format!("`{text}` is not a percentage: 0 to 100"));
    }
    Some(text)
}

pub(super) fn read_disks(root: &Table) -> Vec<Disk> {
    let known = &[
        "name",
        "size",
        "write_bandwidth",
        "read_bandwidth",
        "encrypted",
        "submit_bandwidth",
        "io_cost",
        "kind",
        "latency",
        "parallel",
        "seek",
        "filesystem",
        "mount_options",
    ];
    let mut disks: Vec<Disk> = Vec::new();
    for table in root.array_of_tables("disk", known) {
        let taken: Vec<&str> = disks.iter().map(|d| d.name.as_str()).collect();
        let name = name(&table, &taken);
        let bandwidth = |key| {
            table.optional(key).and_then(|v| {
                v.parse_with("a bandwidth, as in `\"20M/s\"`", units::parse_bandwidth)
            })
        };
        let kind = table
            .optional("kind")
            .and_then(|v| v.parse_with("a kind of disk, as in `\"nvme\"`", parse_disk_kind));
        let preset = kind.map(DiskKind::preset);
        let write_bandwidth = bandwidth("write_bandwidth").or(preset.map(|of| of.writes.bandwidth));
        let time = |key| {
            let value = table.optional(key)?;
            let ns = value.parse_with("a time, as in `\"80us\"`", units::parse_nanoseconds)?;
            if ns > MOST_COST_NS {
                value.complain("is too long: at most `1m`");
            }
            Some(ns)
        };
        let parallel = table.optional("parallel").and_then(|value| {
            let number = value.as_unsigned("a number of operations, as in `8`")?;
            if !(1..=MOST_PARALLEL).contains(&number) {
                value.complain(format!("is 1 to {MOST_PARALLEL} operations at a time"));
            }
            Some(number as u32)
        });
        let size = table.optional("size");
        let size_bytes = size.as_ref().map_or(Some(DISK_SIZE), |v| {
            v.parse_with("a size, as in `\"2G\"`", units::parse_size)
        });
        if let (Some(value), Some(..LEAST_DISK)) = (&size, size_bytes) {
            value.complain("is too small for a filesystem: at least `256M` (it is sparse: only what is written is used)");
        }
        let filesystem = table
            .required("filesystem", "filesystem = \"ext4\"")
            .and_then(|v| v.parse_with("a filesystem, as in `\"ext4\"`", parse_filesystem))
            .unwrap_or(Filesystem::Ext4);
        for key in ["mount_options", "encrypted", "submit_bandwidth"] {
            let value = table.optional(key);
            if let (Filesystem::Swap, Some(value)) = (filesystem, value) {
                value.complain("swap space does not take this key: leave it out");
            }
        }
        disks.push(Disk {
            name,
            size_bytes: size_bytes.unwrap_or_default(),
            write_bandwidth,
            read_bandwidth: bandwidth("read_bandwidth").or(preset.map(|of| of.reads.bandwidth)),
            kind,
            latency_ns: time("latency"),
            parallel,
            seek_ns: time("seek"),
            encrypted: table
                .optional("encrypted")
                .and_then(|v| v.as_boolean())
                .unwrap_or(false),
            submit_bandwidth: bandwidth("submit_bandwidth"),
            io_cost: io_cost(&table, write_bandwidth.is_some()),
            filesystem,
            mount_options: table
                .optional("mount_options")
                .and_then(|v| v.string("options as after `mount -o`, as in `\"noatime\"`"))
                .map(str::to_owned),
        });
    }
    disks
}

/// `true` if the kernel's model of the disk is switched on, which needs to be told how fast it is.
fn io_cost(disk: &Table, has_bandwidth: bool) -> bool {
    let Some(value) = disk.optional("io_cost") else {
        return false;
    };
    let on = value.as_boolean().unwrap_or(false);
    if on && !has_bandwidth {
        value.complain("`io.weight` divides what a disk is known to do: add `write_bandwidth`");
    }
    on
}

fn parse_disk_kind(text: &str) -> Result<DiskKind, String> {
    let named = |kind: &DiskKind| kind.name() == text;
    DiskKind::ALL.into_iter().find(named).ok_or_else(|| {
        let known = DiskKind::ALL.map(DiskKind::name);
        format!("no kind of disk `{text}`, {}", suggest_known(text, known))
    })
}

fn parse_filesystem(text: &str) -> Result<Filesystem, String> {
    match text {
        "ext4" => Ok(Filesystem::Ext4),
        "xfs" => Ok(Filesystem::Xfs),
        "btrfs" => Ok(Filesystem::Btrfs),
        "vfat" => Ok(Filesystem::Vfat),
        "nfs" => Ok(Filesystem::Nfs),
        "fuse" => Ok(Filesystem::Fuse),
        "swap" => Ok(Filesystem::Swap),
        other => Err(format!(
            "no filesystem `{other}` here, {}",
            suggest_known(
                other,
                ["ext4", "xfs", "btrfs", "vfat", "nfs", "fuse", "swap"]
            )
        )),
    }
}
