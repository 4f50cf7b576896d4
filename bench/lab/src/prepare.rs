// SPDX-License-Identifier: GPL-2.0-only
//! Putting a guest's initramfs together: what all guests of a kernel have in common (userland, kernel
//! modules, weir), and one guest's work (its config, and what that needs).

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
use std::io::{BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The files that all guests of a kernel have in common.
pub struct Base {
    /// The initramfs archives it consists of.
    archives: Vec<PathBuf>,
    /// The binary that is process 1.
    init: PathBuf,
}

impl Base {
    /// Of guests of `kernel` whose process 1 is `init`, or weir's command for the kernel's
    /// architecture. What is not in the cache is made first.
    pub fn for_kernel(cache: &Cache, kernel: &Kernel, init: Option<&Path>) -> Result<Base> {
        let modules = KernelModules::find(&kernel.modules, &kernel.release)?;
        let archives = vec![
            userland::make_archive(cache, kernel.arch)?,
            modules.make_archive(cache, &[])?,
        ];
        let init = match init {
            Some(path) => path.to_path_buf(),
            None => kernel.arch.init()?,
        };
        Ok(Base { archives, init })
    }

    /// Nothing but a process 1.
    #[cfg(test)]
    pub fn bare(init: PathBuf) -> Base {
        let archives = Vec::new();
        Base { archives, init }
    }

    /// The files that it is made of.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.archives.iter().chain([&self.init])
    }

    /// An initramfs in `place`, a file without a name: what is common, and then `work`, if that is
    /// known.
    pub fn write_initramfs(&self, place: &Path, work: Option<&File>) -> Result<File> {
        let mut image = tempfile::tempfile_in(place).context("making the initramfs")?;
        for path in &self.archives {
            append_to(path, &mut image)?;
        }
        let mut archive = Archive::new(BufWriter::new(image));
        archive.add_copy("usr/bin/weir", 0o755, &self.init)?;
        for program in [runner::memory::PROGRAM, runner::sync::PROGRAM] {
            archive.add_link(&format!("usr/bin/{program}"), "weir")?;
        }
        let mut image = finish_archive(archive)?;
        if let Some(mut work) = work {
            work.seek(SeekFrom::Start(0))
                .and_then(|_| std::io::copy(&mut work, &mut image))
                .context("copying a guest's work into the initramfs")?;
        }
        Ok(image)
    }
}

fn append_to(path: &Path, image: &mut File) -> Result<()> {
    let mut source = File::open(path).with_context(|| format!("{}", path.display()))?;
    std::io::copy(&mut source, image)
        .map(drop)
        .with_context(|| format!("copying {}", path.display()))
}

fn finish_archive(archive: Archive<BufWriter<File>>) -> Result<File> {
    archive
        .finish()?
        .into_inner()
        .map_err(|error| error.into_error())
        .context("writing an archive")
}

/// The files of one guest besides those that all have in common.
pub struct Contents<'a> {
    /// In the order of the machine's drives.
    pub disks: &'a Disks,
    /// The work to do.
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
}

/// Writes a guest's work into a file without a name. The config is also kept at `config_copy`, for
/// people.
pub fn write_work(
    cache: &Cache,
    kernel: &Kernel,
    contents: Contents<'_>,
    config_copy: Option<&Path>,
) -> Result<File> {
    let modules = KernelModules::find(&kernel.modules, &kernel.release)?;
    let mut names: Vec<String> = FIRST.iter().map(|name| (*name).to_owned()).collect();
    names.extend(
        contents
            .disks
            .disks
            .iter()
            .filter_map(|disk| disk.filesystem)
            .filter(|filesystem| *filesystem != Filesystem::Swap)
            .map(|filesystem| runner::disks::kernel_name(filesystem).to_owned()),
    );
    names.retain(|name| modules.has_module(name));
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

    let mut image = tempfile::tempfile_in(cache.path_below("")).context("making a guest's work")?;
    if !contents.drivers.is_empty() {
        append_to(&modules.make_archive(cache, contents.drivers)?, &mut image)?;
    }
    if !contents.packages.is_empty() {
        append_to(
            &packages::make_archive(cache, kernel.arch, contents.packages)?,
            &mut image,
        )?;
    }
    let mut archive = Archive::new(BufWriter::new(image));
    archive.add_file(CONFIG_PATH, 0o644, &config)?;
    if let Some(script) = &contents.script {
        archive.add_file(SCRIPT_PATH, 0o755, script)?;
    }
    if let Some(module) = &contents.module {
        archive.add_copy(MODULE_PATH, 0o644, module)?;
    }
    for (module, place) in [
        (&contents.disks.module, DISK_MODULE_PATH),
        (&contents.disks.submit_module, SUBMIT_MODULE_PATH),
    ] {
        if let Some(module) = module {
            archive.add_copy(place, 0o644, module)?;
        }
    }
    for (from, to) in contents.files {
        ensure!(
            to.starts_with('/'),
            "{}: the path in the guest must be absolute, not `{to}`",
            from.display()
        );
        archive.add_copy(to, 0o755, from)?;
    }
    finish_archive(archive)
}
