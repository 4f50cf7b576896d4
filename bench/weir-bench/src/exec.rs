// SPDX-License-Identifier: GPL-2.0-only
//! `weir exec`: run a script in a guest with a stock kernel.

use crate::patches::PatchArgs;
use anyhow::{Context, Result, anyhow, bail};
use lab::{Cache, Outcome, Said, ScriptDisk, ScriptRequest};
use scenario::model::{Filesystem, Tier};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use weir::host::doctor;
use weir::output;

/// Run a shell script in a guest that boots a stock kernel
///
/// The guest has busybox, fio, mkfs.* and weir, and /weir.ko, which `weir load` finds, if weir's
/// source tree has a module.
/// Output comes line by line. Exit status: the script's own; 125 if the guest failed (its kernel
/// warned, for example), 126 if it hung or died, 2 if it could not be run.
#[derive(clap::Args, Debug)]
pub struct ExecArgs {
    /// debian:6.12, debian:7.3:generic, debian:6.12:arm64 (`weir kernels` lists them), debug,
    /// debug-kcsan, or the path of a vmlinuz
    #[arg(long, default_value = "debian:6.12")]
    kernel: String,
    #[command(flatten)]
    build: PatchArgs,
    /// Memory of the guest
    #[arg(long, default_value = "2G", value_parser = config::units::parse_size)]
    memory: u64,
    /// Memory of one kind, as a NUMA node; repeat it for each kind, fastest first. The guest's memory
    /// is their sum instead of --memory, its CPUs are on the first node. Latency and bandwidth as in
    /// 250ns and 50G/s
    #[arg(long = "tier", value_name = "SIZE[,LATENCY,BANDWIDTH]", value_parser = parse_tier)]
    tiers: Vec<Tier>,
    /// Make the last tier a DIMM: all of its memory can go offline and be removed
    #[arg(long)]
    dimm: bool,
    /// CPUs of the guest
    #[arg(long, default_value_t = 2)]
    cpus: u32,
    /// CPUs that the guest's kernel keeps per-CPU data for; those beyond --cpus are absent
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    possible_cpus: u32,
    /// A disk: linked as /dev/weir/NAME and, with a filesystem, mounted at /mnt/NAME; bandwidth as
    /// in 256K/s
    #[arg(long = "disk", value_name = "NAME=SIZE[,FS[,WRITE_BPS]]", value_parser = parse_disk)]
    disks: Vec<ScriptDisk>,
    /// Put a file of this machine into the guest
    #[arg(long = "file", value_name = "HOST:GUEST", value_parser = parse_file)]
    files: Vec<(PathBuf, String)>,
    /// Put a Debian package into the guest, with the libraries it needs but nothing else it depends
    /// on
    #[arg(long = "package", value_name = "NAME")]
    packages: Vec<String>,
    /// Put one of the kernel's modules into the guest, with what it needs, for modprobe to load
    #[arg(long = "driver", value_name = "NAME")]
    drivers: Vec<String>,
    /// Let the time stamp counter count the instructions of all CPUs, one nanosecond each; idle
    /// time is skipped
    #[arg(long)]
    count_instructions: bool,
    /// More kernel command line
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Keep the files that the script leaves in the guest's folder /out here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Set an environment variable of the script
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// End the guest after this long
    #[arg(long, default_value = "10m", value_parser = config::units::parse_milliseconds)]
    timeout: u64,
    /// Do not build weir.ko for the guest
    #[arg(long)]
    no_module: bool,
    /// Build weir.ko with this make variable, e.g. WEIR_FAULTS=y to be able to inject faults
    #[arg(long = "make", value_name = "NAME=VALUE", conflicts_with = "no_module")]
    make: Vec<String>,
    /// Build the kernel modules of this folder, which has a Kbuild, and put them at / in the guest
    #[arg(long = "kbuild", value_name = "FOLDER")]
    modules: Vec<PathBuf>,
    /// Run by the guest's busybox sh
    script: PathBuf,
    /// Arguments of the script
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// The exit status of a guest that failed.
const FAILED: u8 = 125;
/// The exit status of a guest whose result is inconclusive.
const INCONCLUSIVE: u8 = 126;

/// Runs the subcommand.
pub fn run(args: ExecArgs) -> Result<ExitCode> {
    let request = ScriptRequest {
        build: args.build.to_build_request()?,
        kernel: args.kernel,
        memory: args.memory,
        tiers: fill_in_tiers(args.tiers),
        dimm: args.dimm,
        cpus: args.cpus,
        possible_cpus: args.possible_cpus,
        disks: args.disks,
        files: args.files,
        packages: args.packages,
        drivers: args.drivers,
        count_instructions: args.count_instructions,
        append: args.append,
        script: args.script,
        args: args.args,
        env: args.env.into_iter().collect(),
        limit: Duration::from_millis(args.timeout),
        module: !args.no_module,
        make: args.make,
        modules: args.modules,
        init: None,
        out: args.out,
        cache: Cache::discover()?,
    };
    boot_guest(&request)
}

/// Commands that make of a guest an installed host: a cgroup, and the module in its place.
const INSTALL: &str = "mkdir -p /sys/fs/cgroup/doctor /lib/modules/$(uname -r)/updates\n\
    [ ! -e /weir.ko ] || cp /weir.ko /lib/modules/$(uname -r)/updates/\n";

// `weir doctor` with a kernel of the lab's. A doc comment would replace the help that a node has, and
// a group would have the name of the node's.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct DoctorArgs {
    /// Ask another kernel, in a guest that boots it; as for `weir exec`, and with its exit statuses
    /// 125 and 126
    #[arg(long, conflicts_with = "btf")]
    kernel: Option<String>,
    #[command(flatten)]
    here: doctor::DoctorArgs,
}

/// Runs `weir doctor` here, or in a guest with the exit status of `weir exec`.
pub fn run_doctor(args: &DoctorArgs) -> Result<ExitCode> {
    let Some(kernel) = &args.kernel else {
        return doctor::run(&args.here);
    };
    let json = if args.here.json { " --json" } else { "" };
    run_script_text(kernel, &format!("{INSTALL}exec weir doctor{json}\n"))
}

/// Runs the text of a script in a small guest; the exit status is as of `weir
/// exec`.
fn run_script_text(kernel: &str, script: &str) -> Result<ExitCode> {
    let file = tempfile::NamedTempFile::new().context("making a file for the guest's script")?;
    std::fs::write(file.path(), script).with_context(|| format!("{}", file.path().display()))?;
    boot_guest(&ScriptRequest {
        kernel: kernel.to_owned(),
        build: None,
        memory: 1 << 30,
        tiers: Vec::new(),
        dimm: false,
        cpus: 2,
        possible_cpus: 0,
        disks: Vec::new(),
        files: Vec::new(),
        packages: Vec::new(),
        drivers: Vec::new(),
        count_instructions: false,
        append: String::new(),
        script: file.path().to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        limit: Duration::from_secs(600),
        module: true,
        make: Vec::new(),
        modules: Vec::new(),
        init: None,
        out: None,
        cache: Cache::discover()?,
    })
}

/// Boots the guest, prints its script's output and says what became of it.
fn boot_guest(request: &ScriptRequest) -> Result<ExitCode> {
    // A guest runs to its end even if the reader of its output is gone.
    let mut shown = Ok(());
    let result = lab::run_script(request, &mut |said| match said {
        Said::Line(line) if shown.is_ok() => shown = output::print_line(line),
        Said::Line(_) => {}
        Said::Preparing(what) => output::print_note(format_args!("weir exec: preparing {what}")),
        Said::FailedBoot(failed) => output::print_note(format_args!("weir exec: {failed}")),
    })?;
    shown?;
    let release = result.kernel_release.as_deref().unwrap_or("?");
    output::print_note(format_args!(
        "weir exec: kernel {release}, {:.1} s, console in {}",
        result.seconds,
        result.log.display()
    ));
    Ok(match result.outcome {
        Outcome::Done => {
            let status = result.status.context("a finished script has a status")?;
            ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX))
        }
        Outcome::Failed(why) => {
            output::print_note(format_args!("weir exec: failed: {why}"));
            ExitCode::from(FAILED)
        }
        Outcome::Inconclusive(why) => {
            output::print_note(format_args!("weir exec: inconclusive: {why}"));
            ExitCode::from(INCONCLUSIVE)
        }
    })
}

/// Parses the value of `--disk`.
fn parse_disk(text: &str) -> Result<ScriptDisk> {
    let shape = || {
        anyhow!(
            "`{text}` is not a disk: write NAME=SIZE[,FS[,WRITE_BPS]], as in slow=1G,ext4,256K/s"
        )
    };
    let (name, rest) = text.split_once('=').ok_or_else(shape)?;
    let parts: Vec<&str> = rest.split(',').collect();
    if name.is_empty() || name.contains('/') || parts.len() > 3 {
        bail!(shape());
    }
    let filesystem = match parts.get(1).copied().unwrap_or("") {
        "" | "none" => None,
        "ext4" => Some(Filesystem::Ext4),
        "xfs" => Some(Filesystem::Xfs),
        "btrfs" => Some(Filesystem::Btrfs),
        "vfat" => Some(Filesystem::Vfat),
        "swap" => Some(Filesystem::Swap),
        other => {
            bail!(
                "`{text}`: unknown filesystem `{other}`, known: ext4, xfs, btrfs, vfat, swap, none"
            )
        }
    };
    Ok(ScriptDisk {
        name: name.to_owned(),
        size: config::units::parse_size(parts[0]).map_err(|why| anyhow!(why))?,
        filesystem,
        write_bandwidth: parts
            .get(2)
            .map(|text| config::units::parse_bandwidth(text))
            .transpose()
            .map_err(|why| anyhow!(why))?,
    })
}

/// `SIZE[,LATENCY,BANDWIDTH]`; a latency of 0 if none is given.
fn parse_tier(text: &str) -> Result<Tier> {
    let parts: Vec<&str> = text.split(',').collect();
    let (latency_ns, bandwidth) = match parts[1..] {
        [] => (0, 0),
        [latency, bandwidth] => (
            config::units::parse_nanoseconds(latency).map_err(|why| anyhow!(why))?,
            config::units::parse_bandwidth(bandwidth).map_err(|why| anyhow!(why))?,
        ),
        _ => bail!(
            "`{text}` is not a tier: write SIZE[,LATENCY,BANDWIDTH], as in 1G or 384M,250ns,50G/s"
        ),
    };
    if parts.len() > 1 && latency_ns == 0 {
        bail!("`{text}`: latency must be above 0, as in 250ns");
    }
    Ok(Tier {
        name: String::new(),
        size_bytes: config::units::parse_size(parts[0]).map_err(|why| anyhow!(why))?,
        latency_ns,
        bandwidth,
    })
}

/// Names them by their place, and gives those without a latency what such a tier usually has.
fn fill_in_tiers(mut tiers: Vec<Tier>) -> Vec<Tier> {
    for (index, tier) in tiers.iter_mut().enumerate() {
        tier.name = index.to_string();
        if tier.latency_ns == 0 {
            (tier.latency_ns, tier.bandwidth) = Tier::default_speed(index);
        }
    }
    tiers
}

/// Parses `HOST:GUEST` of `--file`.
fn parse_file(text: &str) -> Result<(PathBuf, String)> {
    match text.rsplit_once(':') {
        Some((host, guest)) if !host.is_empty() && guest.starts_with('/') => {
            Ok((host.into(), guest.to_owned()))
        }
        _ => bail!(
            "`{text}` is not a file to copy: write HOST:GUEST with an absolute path in the guest, as in a.txt:/a.txt"
        ),
    }
}

/// Parses `NAME=VALUE` of `--env`.
fn parse_variable(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => bail!("`{text}` is not NAME=VALUE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_read() {
        let slow = parse_disk("slow=1G,ext4,256K/s").unwrap();
        assert_eq!(
            slow,
            ScriptDisk {
                name: "slow".into(),
                size: 1 << 30,
                filesystem: Some(Filesystem::Ext4),
                write_bandwidth: Some(262_144)
            }
        );
        assert_eq!(parse_disk("raw=64M").unwrap().filesystem, None);
    }

    #[test]
    fn tiers_are_read_and_have_usual_costs() {
        let tiers = fill_in_tiers(vec![
            parse_tier("1G").unwrap(),
            parse_tier("384M").unwrap(),
            parse_tier("1G,2us,8G/s").unwrap(),
        ]);
        let of = |tier: &Tier| (tier.size_bytes, tier.latency_ns, tier.bandwidth);
        assert_eq!(of(&tiers[0]), (1 << 30, 80, 200 << 30));
        assert_eq!(of(&tiers[1]), (384 << 20, 250, 48 << 30));
        assert_eq!(of(&tiers[2]), (1 << 30, 2000, 8 << 30));
        assert_eq!(tiers[2].name, "2");
        for (text, why) in [
            ("1G,80ns", "write SIZE[,LATENCY,BANDWIDTH]"),
            ("1G,0ns,1G/s", "latency must be above 0"),
            ("1X", "`1X` is not a size"),
            ("1G,80ns,1G", "expected an amount per second"),
        ] {
            let error = parse_tier(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn bad_arguments_say_what_would_be_right() {
        for (text, why) in [
            (
                "slow",
                "write NAME=SIZE[,FS[,WRITE_BPS]], as in slow=1G,ext4,256K/s",
            ),
            ("slow=1X", "`1X` is not a size"),
            (
                "slow=1G,ntfs",
                "unknown filesystem `ntfs`, known: ext4, xfs, btrfs, vfat, swap, none",
            ),
            ("slow=1G,ext4,256K", "expected an amount per second"),
        ] {
            let error = parse_disk(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(
            parse_file("a:b")
                .unwrap_err()
                .to_string()
                .contains("absolute path in the guest")
        );
        assert!(
            parse_variable("X")
                .unwrap_err()
                .to_string()
                .contains("NAME=VALUE")
        );
    }

    #[test]
    fn the_command_finds_the_module_where_the_lab_puts_it() {
        use guest::protocol::{CONFIG_PATH, MODULE_PATH};
        use weir::host::{GUEST_CONFIG, GUEST_MODULE};
        let below_root = [GUEST_CONFIG, GUEST_MODULE].map(|name| format!("/{name}"));
        assert_eq!(below_root, [CONFIG_PATH, MODULE_PATH]);
    }
}
