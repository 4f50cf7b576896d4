// SPDX-License-Identifier: GPL-2.0-only
//! Where a guest's disks come from.
//!
//! QEMU emulates and throttles them, by the host's clock. A guest that counts instructions has a
//! clock of its own, so it makes its own disks, with `bench/lab/disk`, of memory that QEMU gives it
//! for each.

use crate::cache::{Cache, source_tree};
use crate::kernel::Kernel;
use crate::module;
use crate::qemu::Drive;
use anyhow::{Context, Result};
use guest::protocol::GuestDisk;
use std::path::PathBuf;

/// A guest's disks.
pub struct Disks {
    /// The disks as the guest is told of them.
    pub disks: Vec<GuestDisk>,
    /// The module that makes them in the guest; QEMU does if `None`.
    pub module: Option<PathBuf>,
    /// The module that makes writes to some of them cost CPU time, if any is to.
    pub submit_module: Option<PathBuf>,
}

impl Disks {
    /// Of a guest that has `own` ones or those of QEMU. Errors: there is no source tree or compiler
    /// for the module.
    pub fn get(cache: &Cache, kernel: &Kernel, disks: Vec<GuestDisk>, own: bool) -> Result<Disks> {
        let own = own && !disks.is_empty();
        let submits = disks.iter().any(|disk| disk.submit_bandwidth.is_some());
        if !own && !submits {
            return Ok(Disks {
                disks,
                module: None,
                submit_module: None,
            });
        }
        let tree = source_tree().context(
            "weir's source tree is needed to build disks of guests that count instructions, or that have a \
             submit_bandwidth: run from inside it",
        )?;
        let built = module::build_modules_in(cache, kernel, &tree.join("bench/lab/disk"))?;
        let named = |name: &str| {
            let found = built
                .iter()
                .find(|module| module.file_stem() == Some(name.as_ref()));
            found
                .cloned()
                .with_context(|| format!("bench/lab/disk made no {name}.ko"))
        };
        Ok(Disks {
            module: own.then(|| named("weir_disk")).transpose()?,
            submit_module: submits.then(|| named("weir_submit")).transpose()?,
            disks,
        })
    }

    /// The drives that QEMU has to emulate.
    pub fn drives(&self) -> Vec<Drive> {
        let emulated = self.disks.iter().filter(|_| self.module.is_none());
        let drives = emulated.map(|disk| Drive {
            size: disk.size,
            write_bandwidth: disk.write_bandwidth,
            read_bandwidth: disk.read_bandwidth,
        });
        drives.collect()
    }

    /// Bytes of memory that QEMU gives the guest for each disk that it makes itself.
    pub fn memory_sizes(&self) -> Vec<u64> {
        let own = self.disks.iter().filter(|_| self.module.is_some());
        own.map(|disk| disk.size).collect()
    }
}
