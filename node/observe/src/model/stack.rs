// SPDX-License-Identifier: GPL-2.0-only
//! Devices that lie on others, as those of LVM, dm-crypt and md do.
//!
//! The kernel counts what goes through such a device at each level. A cgroup that writes 16 MiB to
//! a filesystem on LVM has 16 MiB of `253:0` in its `io.stat`, and 16 MiB of `8:0`.

use super::host::Device;
use std::collections::BTreeMap;

/// Devices right below each device that lies on others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack(BTreeMap<String, Vec<String>>);

impl FromIterator<(String, Vec<String>)> for Stack {
    fn from_iter<T: IntoIterator<Item = (String, Vec<String>)>>(found: T) -> Stack {
        let found = found.into_iter().filter(|(_, below)| !below.is_empty());
        Stack(found.collect())
    }
}

impl Stack {
    /// Stack of the devices of a look.
    pub(crate) fn from_devices(devices: &[Device]) -> Stack {
        let below = |device: &Device| (device.bdi.clone(), device.below.clone());
        devices.iter().map(below).collect()
    }

    /// Takes out the devices right below one.
    pub(crate) fn take_below(&mut self, device: &str) -> Vec<String> {
        self.0.remove(device).unwrap_or_default()
    }

    /// A device and all that it lies on, from the top down.
    pub fn device_and_below(&self, device: &str) -> Vec<String> {
        let mut found = vec![device.to_owned()];
        let mut next = 0;
        while let Some(below) = found.get(next).map(|device| self.0.get(device)) {
            // A recording may have a device that lies on itself.
            for device in below.into_iter().flatten() {
                if !found.contains(device) {
                    found.push(device.clone());
                }
            }
            next += 1;
        }
        found
    }

    /// The sum of what went to devices, with each byte once. Of a device that lies on others counts
    /// what has not gone on: dm-crypt still encrypts it, or a thread of md's hands it on, in whose
    /// name the kernel counts it there.
    pub fn sum_without_handed_on<'a>(&self, went: impl IntoIterator<Item = (&'a str, u64)>) -> u64 {
        let went: BTreeMap<&str, u64> = went.into_iter().collect();
        let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::saturating_add);
        sum(&mut went.iter().map(|(device, bytes)| {
            let below = self.0.get(*device).into_iter().flatten();
            let gone_on = sum(&mut below.filter_map(|device| went.get(device.as_str()).copied()));
            bytes.saturating_sub(gone_on)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(devices: &[(&str, &[&str])]) -> Stack {
        let owned = |(device, below): &(&str, &[&str])| {
            let below = below.iter().map(|device| device.to_string());
            (device.to_string(), below.collect())
        };
        devices.iter().map(owned).collect()
    }

    #[test]
    fn a_byte_counts_once() {
        let lvm = stack(&[("253:0", &["8:0"]), ("253:1", &["8:0"])]);
        assert_eq!(
            lvm.sum_without_handed_on([("253:0", 10), ("253:1", 20), ("8:0", 35)]),
            35
        );
        let on_luks = stack(&[("253:1", &["253:0"]), ("253:0", &["259:0"])]);
        let encrypts = [("253:1", 10), ("253:0", 10), ("259:0", 8)];
        assert_eq!(on_luks.sum_without_handed_on(encrypts), 10);
        let raid0 = stack(&[("9:0", &["8:0", "8:16"])]);
        assert_eq!(
            raid0.sum_without_handed_on([("9:0", 10), ("8:0", 5), ("8:16", 5)]),
            10
        );
        assert_eq!(
            raid0.sum_without_handed_on([("9:0", 10)]),
            10,
            "handed on by md's thread"
        );
        assert_eq!(
            Stack::default().sum_without_handed_on([("8:0", 10), ("8:16", 5)]),
            15
        );
        assert_eq!(
            Stack::default().sum_without_handed_on([("a", u64::MAX), ("b", 5)]),
            u64::MAX
        );
    }

    #[test]
    fn all_that_a_device_lies_on_is_found() {
        let on_luks = stack(&[("253:1", &["253:0"]), ("253:0", &["259:0"])]);
        assert_eq!(
            on_luks.device_and_below("253:1"),
            ["253:1", "253:0", "259:0"]
        );
        assert_eq!(on_luks.device_and_below("8:0"), ["8:0"]);
        let circle = stack(&[("1:0", &["2:0"]), ("2:0", &["1:0"])]);
        assert_eq!(circle.device_and_below("1:0"), ["1:0", "2:0"]);
    }
}
