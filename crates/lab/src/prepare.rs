// SPDX-License-Identifier: GPL-2.0-only
//! Putting one guest's initramfs together: userland, kernel modules, weir, its config.

use crate::cache::Cache;
use crate::disks::Disks;
use crate::initramfs::Archive;
use crate::kernel::Kernel;
use crate::kernel_modules::{FIRST, KernelModules};
use crate::{packages, userland};
use anyhow::{Context, Result, ensure};
use guest::protocol::{
    CONFIG_PATH, DISK_MODULE_PATH, GuestConfig, MODULE_PATH, SCRIPT_PATH, SUBMIT_MODULE_PATH, Work,
};
use scenario::model::Filesystem;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// What goes into a guest besides the userland and the kernel's modules.
pub struct Contents<'a> {
    /// In the order of the machine's drives.
    pub disks: &'a Disks,
    /// What to do.
    pub work: Work,
    /// The script, if that is the work.
    pub script: Option<Vec<u8>>,
    /// weir.ko on the host.
    pub module: Option<PathBuf>,
    /// More of the distribution's packages.
    pub packages: &'a [String],
    /// More of the kernel's modules, to be had by modprobe.
    pub drivers: &'a [String],
    /// Files of the host, and where they go.
    pub files: &'a [(PathBuf, String)],
    /// Process 1; weir's command for the kernel's architecture if `None`.
    pub init: Option<&'a Path>,
}

/// Writes the initramfs into a file without a name. The config is also kept at `config_copy`, for
/// people.
pub fn initramfs(
    cache: &Cache,
    kernel: &Kernel,
    contents: Contents<'_>,
    config_copy: Option<&Path>,
) -> Result<File> {
    let userland = userland::archive(cache, kernel.arch)?;
    let packages = match contents.packages {
        [] => None,
        names => Some(packages::archive(cache, kernel.arch, names)?),
    };
    let modules = KernelModules::find(&kernel.modules, &kernel.release)?;
    let mut names: Vec<String> = FIRST.iter().map(|name| (*name).to_owned()).collect();
    names.extend(
        contents
            .disks
            .disks
            .iter()
            .filter_map(|disk| disk.filesystem)
            .filter(|filesystem| *filesystem != Filesystem::Swap)
            .map(|filesystem| runner::disks::kind(filesystem).to_owned()),
    );
    names.retain(|name| modules.has(name));
    let config = GuestConfig {
        modules: names,
        disks: contents.disks.disks.clone(),
        own_disks: contents.disks.module.is_some(),
        work: contents.work,
    };
    let config = serde_json::to_vec_pretty(&config)?;
    if let Some(path) = config_copy {
        std::fs::write(path, &config).with_context(|| format!("{}", path.display()))?;
    }

    let mut image = tempfile::tempfile_in(cache.path("")).context("making the initramfs")?;
    let drivers = modules.archive(cache, contents.drivers)?;
    for path in [Some(userland), packages, Some(drivers)]
        .into_iter()
        .flatten()
    {
        let mut source = File::open(&path).with_context(|| format!("{}", path.display()))?;
        std::io::copy(&mut source, &mut image)
            .with_context(|| format!("copying {}", path.display()))?;
    }
    let mut archive = Archive::new(BufWriter::new(image));
    archive.file(CONFIG_PATH, 0o644, &config)?;
    let init = match contents.init {
        Some(path) => path.to_path_buf(),
        None => kernel.arch.init()?,
    };
    archive.copy("usr/bin/weir", 0o755, &init)?;
    for program in [runner::memory::PROGRAM, runner::sync::PROGRAM] {
        archive.link(&format!("usr/bin/{program}"), "weir")?;
    }
    if let Some(script) = &contents.script {
        archive.file(SCRIPT_PATH, 0o755, script)?;
    }
    if let Some(module) = &contents.module {
        archive.copy(MODULE_PATH, 0o644, module)?;
    }
    for (module, place) in [
        (&contents.disks.module, DISK_MODULE_PATH),
        (&contents.disks.submit_module, SUBMIT_MODULE_PATH),
    ] {
        if let Some(module) = module {
            archive.copy(place, 0o644, module)?;
        }
    }
    for (from, to) in contents.files {
        ensure!(
            to.starts_with('/'),
            "{}: the path in the guest must be absolute, not `{to}`",
            from.display()
        );
        archive.copy(to, 0o755, from)?;
    }
    let mut buffer = archive.finish()?;
    buffer.flush().context("writing the initramfs")?;
    buffer
        .into_inner()
        .map_err(|error| error.into_error())
        .context("writing the initramfs")
}
