#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# procfs-core 0.18.0, the parser of the crate procfs: paths of /proc/mounts are decoded in part. The
# kernel escapes space, tab, newline, backslash and hash; the crate decodes all but the space, in
# passes one after the other, so that an escaped backslash before "043" becomes a hash. Of
# /proc/PID/mountinfo it decodes nothing. A program that looks a mount point up by path, as a
# volume of a pod, does not find it.
# shellcheck source=findings/common.inc
. "$(dirname "$(readlink -f "$0")")/common.inc"

require_programs cargo cc
mkdir -p probe/src
cat >probe/Cargo.toml <<'END'
[package]
name = "probe"
version = "0.1.0"
edition = "2021"
[dependencies]
procfs-core = { version = "=0.18.0", default-features = false }
END
cat >probe/Cargo.lock <<'END'
version = 4

[[package]]
name = "bitflags"
version = "2.13.2"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "3ded4057c258ba199e2d26386d3af3780957ecaee6c4ef4041c6b4b8b97c0b06"

[[package]]
name = "hex"
version = "0.4.3"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "7f24254aa9a54b5c858eaee2f5bccdb46aaf0e486a595ed5fd8f86ba55232a70"

[[package]]
name = "probe"
version = "0.1.0"
dependencies = [
 "procfs-core",
]

[[package]]
name = "procfs-core"
version = "0.18.0"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "e6401bf7b6af22f78b563665d15a22e9aef27775b79b149a66ca022468a4e405"
dependencies = [
 "bitflags",
 "hex",
]
END
cat >probe/src/main.rs <<'END'
use procfs_core::{process::MountInfos, FromBufRead, MountEntry};
fn main() {
    for name in [r"a\011b", r"a\134b", r"a\043b", r"a\040b", r"a\134043b"] {
        let line = format!("tmpfs /mnt/{name} tmpfs rw 0 0\n");
        let mounts = Vec::<MountEntry>::from_buf_read(line.as_bytes()).expect("mounts");
        let line = format!("36 35 0:40 / /mnt/{name} rw - tmpfs tmpfs rw\n");
        let infos = MountInfos::from_buf_read(line.as_bytes()).expect("mountinfo");
        println!(
            "{name}: mounts {:?}, mountinfo {:?}",
            mounts[0].fs_file, infos.0[0].mount_point
        );
    }
}
END
CARGO_TARGET_DIR=$temp/target try_quietly cargo build --locked --manifest-path probe/Cargo.toml

state_case "procfs-core 0.18.0, $(rustc --version | cut -d ' ' -f 1,2)" \
	"both decode: tab, backslash, hash and space between a and b, and backslash, 043 in the last" \
	"Linux, fs/proc_namespace.c: these are escaped, with newline; getmntent(3): readers decode \\040, \\011, \\012, \\134"
conclude "$(target/debug/probe)" "$(cat <<'END'
a\011b: mounts "/mnt/a\tb", mountinfo "/mnt/a\\011b"
a\134b: mounts "/mnt/a\\b", mountinfo "/mnt/a\\134b"
a\043b: mounts "/mnt/a#b", mountinfo "/mnt/a\\043b"
a\040b: mounts "/mnt/a\\040b", mountinfo "/mnt/a\\040b"
a\134043b: mounts "/mnt/a#b", mountinfo "/mnt/a\\134043b"
END
)"
