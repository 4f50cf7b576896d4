#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# cgroups-rs 0.5.1, the crate of Kata Containers: io_stat of cgroup v2 is 0 in every field, for the
# line that its own source gives as an example too. It divides `rbytes=180224` at a colon, finds
# none and takes 0. A device whose line has more than the six common keys, as io.latency and io.cost
# add them, is left out altogether. Neither is an error: a monitor sees an idle disk, or none.
# shellcheck source=findings/common.inc
. "$(dirname "$(readlink -f "$0")")/common.inc"

require_programs cargo cc
mkdir -p probe/src cgroup
cat >probe/Cargo.toml <<'END'
[package]
name = "probe"
version = "0.1.0"
edition = "2021"
[dependencies]
cgroups-rs = "=0.5.1"
[profile.dev]
debug = false
END
cat >probe/src/main.rs <<'END'
use cgroups_rs::fs::blkio::BlkIoController;
fn main() {
    let folder = std::path::PathBuf::from("cgroup");
    let controller = BlkIoController::new(folder.clone(), folder, true);
    for disk in controller.blkio().io_stat {
        println!(
            "{}:{} rbytes={} wbytes={} rios={} wios={} dbytes={} dios={}",
            disk.major, disk.minor, disk.rbytes, disk.wbytes, disk.rios, disk.wios, disk.dbytes, disk.dios
        );
    }
}
END
# Two disks: one as usual, one with what the kernel's page says of io.latency.
cat >cgroup/io.stat <<'END'
8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0
8:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021 depth=max avg_lat=120 win=500
END
CARGO_TARGET_DIR=$temp/target try_quietly cargo build --manifest-path probe/Cargo.toml

state_case "cgroups-rs $(sed -n '/name = "cgroups-rs"/{n;s/version = "\(.*\)"/\1/p}' probe/Cargo.lock), $(rustc --version | cut -d ' ' -f 1,2)" \
	"8:16 with 1459200, 314773504, 192, 353, 0, 0, and 8:0 with its six numbers" \
	"Documentation/admin-guide/cgroup-v2.rst: io.stat is nested keyed (KEY=VALUE); with io.latency it has depth, avg_lat, win"
conclude "$(target/debug/probe)" "8:16 rbytes=0 wbytes=0 rios=0 wios=0 dbytes=0 dios=0"
