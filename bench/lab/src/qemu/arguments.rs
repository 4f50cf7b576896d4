// SPDX-License-Identifier: GPL-2.0-only
//! QEMU's command line.

use super::{Machine, Start};
use crate::arch::Arch;
use crate::{madt, numa, tsc};
use anyhow::{Context, Result, ensure};
use guest::protocol::WORK_SLOT;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The frequency of a guest's time stamp counter while instructions are counted, one a nanosecond.
const COUNTED_KHZ: u64 = 1_000_000;

/// Files that QEMU is given as open descriptors, besides those it starts from.
pub(super) struct Inherited<'a> {
    pub(super) images: &'a [File],
    pub(super) console: &'a File,
    pub(super) madt: Option<&'a File>,
    pub(super) channel: &'a UnixStream,
    pub(super) monitor: &'a UnixStream,
}

/// A file without a name.
pub(super) fn madt_file(possible_cpus: u32) -> Result<File> {
    let mut file = tempfile::tempfile().context("making a file for an ACPI table")?;
    file.write_all(&madt::build_table(possible_cpus))
        .context("writing an ACPI table")?;
    Ok(file)
}

/// QEMU refers to files it inherits by these paths.
pub(super) fn fd_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The name of a drive, the same in arguments and in the monitor's commands.
pub(super) fn drive_id(index: usize) -> String {
    format!("disk{index}")
}

pub(super) fn machine_arguments(
    machine: &Machine<'_>,
    start: &Start<'_>,
    inherited: &Inherited<'_>,
) -> Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |option: &str, value: &dyn AsRef<std::ffi::OsStr>| {
        arguments.push(option.into());
        arguments.push(value.as_ref().into());
    };
    let arch = machine.emulator.arch;
    ensure!(
        arch == Arch::Amd64 || (machine.tiers.is_empty() && inherited.madt.is_none()),
        "guests with tiers of memory, or with more possible CPUs than there are, are x86-64 only: take a kernel without `:{}`",
        arch.debian_name()
    );
    add("-name", &"weir-lab");
    let board = match (arch, machine.tiers) {
        (Arch::Amd64, []) => "q35",
        (Arch::Amd64, _) => "q35,hmat=on",
        (Arch::Arm64, _) => "virt,gic-version=3",
    };
    add("-M", &board);
    if machine.count_instructions {
        // One instruction takes one nanosecond of virtual time, and time that nothing runs in is
        // skipped.
        add("-accel", &"tcg,thread=single");
        add("-icount", &"shift=0,sleep=off");
    } else {
        add("-accel", &"tcg,thread=multi");
    }
    let mut cpu = "max".to_owned();
    // Pointers are signed by a hash that is quick to emulate.
    if arch == Arch::Arm64 {
        cpu += ",pauth-impdef=on";
    }
    // Counting, a string instruction is one for each of its rounds, and leaves translated code
    // after each: a page set byte by byte would be 4,096. Without these Linux and the C library
    // copy and clear by words.
    if arch == Arch::Amd64 && machine.count_instructions {
        cpu += ",-erms,-fsrm,-fsrs,-fzrm,-fsrc";
    }
    // While a kernel with KASAN identifies its CPU, it forgets for an instant that its page tables
    // have five levels, and reports whatever an interrupt reads then as a wild access.
    if arch == Arch::Amd64 && machine.instrumented {
        cpu += ",-la57";
    }
    add("-cpu", &cpu);
    match inherited.madt {
        // Sockets make firmware switch to x2APIC, whose numbers have more than eight bits.
        Some(table) => {
            let (cpus, possible) = (machine.cpus, machine.possible_cpus);
            add(
                "-smp",
                &format!("{cpus},maxcpus={possible},sockets={possible},cores=1,threads=1"),
            );
            add(
                "-acpitable",
                &format!("sig=APIC,rev=3,data={}", fd_path(table)),
            );
        }
        None => add("-smp", &machine.cpus.to_string()),
    }
    add(
        "-m",
        &numa::memory_argument(machine.memory, machine.tiers, machine.dimm),
    );
    add("-display", &"none");
    add("-kernel", &machine.image);
    match start {
        Start::Boot(initramfs) | Start::Save(initramfs, _) => add("-initrd", &fd_path(initramfs)),
        Start::Restore(_, work, _) => {
            let size = work.metadata().context("a guest's work")?.len();
            let path = fd_path(work);
            add("-incoming", &"defer");
            add(
                "-object",
                &format!("memory-backend-file,id=work,mem-path={path},size={size},share=off"),
            );
            add(
                "-device",
                &format!("ivshmem-plain,memdev=work,addr={WORK_SLOT:#x}"),
            );
        }
    }
    // panic=-1 with -no-reboot: a panic ends QEMU at once. The log buffer holds all of a noisy run.
    // The jitter generator tests itself for a quarter of a billion instructions, for crypto that no
    // guest asks of it.
    let mut append = "quiet panic=-1 log_buf_len=4M initcall_blacklist=jent_mod_init".to_owned();
    match arch {
        // no_timer_check: on a busy machine the kernel finds the emulated timer wanting while it
        // boots, and stops there.
        Arch::Amd64 => append += " console=ttyS0 no_timer_check",
        Arch::Arm64 => append += " console=ttyAMA0",
    }
    // reliable: nor need the kernel compare the counter with a slower clock later, which a busy
    // host distorts as much.
    let khz = match machine.count_instructions {
        true => Some(COUNTED_KHZ),
        false => tsc::frequency_khz(),
    };
    if let Some(khz) = khz.filter(|_| arch == Arch::Amd64) {
        append += &format!(" tsc_early_khz={khz} tsc=reliable");
    }
    // To calibrate the local APIC's timer the kernel spins for a tenth of a second, and the emulator
    // leaves translated code at each `pause`: a quarter of what a boot costs. A single CPU does
    // with the HPET.
    let single = machine.cpus == 1 && inherited.madt.is_none();
    if arch == Arch::Amd64 && machine.count_instructions && single {
        append += " nolapic_timer";
    }
    if inherited.madt.is_some() {
        append += &format!(" {}", madt::kernel_options(machine.cpus));
    }
    add("-append", &format!("{append} {}", machine.append));
    add(
        "-chardev",
        &format!("file,id=console,path={}", fd_path(inherited.console)),
    );
    add("-serial", &"chardev:console");
    for (id, socket) in [
        ("channel", inherited.channel),
        ("monitor", inherited.monitor),
    ] {
        add(
            "-chardev",
            &format!("socket,id={id},fd={}", socket.as_raw_fd()),
        );
    }
    add("-serial", &"chardev:channel");
    add("-mon", &"chardev=monitor,mode=control");
    for (index, image) in inherited.images.iter().enumerate() {
        let id = drive_id(index);
        add(
            "-drive",
            &format!(
                "if=none,id={id},format=raw,cache=unsafe,aio=threads,discard=unmap,werror=report,rerror=report,file={}",
                fd_path(image)
            ),
        );
        add(
            "-device",
            &format!("virtio-blk-pci,drive={id},serial=weir-{index}"),
        );
    }
    for (index, bytes) in machine.disk_memory.iter().enumerate() {
        // A region of a PCI device has a power of two of bytes; what is not written takes none.
        let size = bytes.next_power_of_two();
        add(
            "-object",
            &format!("memory-backend-ram,id=memory{index},size={size}"),
        );
        add("-device", &format!("ivshmem-plain,memdev=memory{index}"));
    }
    let tiers = numa::numa_arguments(machine.tiers, machine.cpus, machine.dimm)?;
    arguments.extend(tiers.into_iter().map(OsString::from));
    arguments.push("-nodefaults".into());
    arguments.push("-no-reboot".into());
    Ok(arguments)
}
