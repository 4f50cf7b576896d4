// SPDX-License-Identifier: GPL-2.0-only
//! Kinds of disks, with figures that are published for one of each.
//!
//! | kind | disk | source |
//! | --- | --- | --- |
//! | `hdd` | 7,200 rpm, SATA | seeks and latency: Ultrastar DC HC310 OEM specification 1.4, 4.5.1; 154 MB/s: storagereview.com, WD Black 4 TB |
//! | `ssd` | Samsung 870 EVO 1 TB, SATA | its data sheet, in kitguru.net's review |
//! | `nvme` | Samsung 970 EVO Plus 1 TB | its data sheet, in digit.in's review; writes beyond its fast part |
//! | `usb` | Lexar JumpDrive S75, USB 3.0 | CrystalDiskMark on acex.com.au, 27 May 2017 |
//!
//! A latency is what one operation of 4 KiB takes by itself: 13,000 reads a second at a depth of 1 are
//! 77 us. What is read or written in parallel follows from those at a depth of 32: 98,000 of 77 us are
//! 8 at a time. Of a stick all that does not follow on takes longer, not only small requests, so it
//! seeks. Queues are the kernel's: 32 tags of NCQ; 1,023 of an NVMe queue; 2 of mq-deadline on
//! usb-storage, which takes one command at a time.

use serde::{Deserialize, Serialize};

/// Technologies of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    /// Rotating, with a head.
    Hdd,
    /// Flash behind SATA.
    Ssd,
    /// Flash behind PCIe.
    Nvme,
    /// A memory stick on USB.
    Usb,
}

/// Times of reads, or of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Bytes per second, in order.
    pub bandwidth: u64,
    /// Of an operation of 4 KiB that is alone.
    pub latency_ns: u64,
    /// Operations at a time.
    pub parallel: u32,
    /// Before a request in the same file that does not follow the last.
    pub near_ns: u64,
    /// Before a request in another file.
    pub far_ns: u64,
}

/// Published figures of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Times of a read.
    pub reads: Timing,
    /// Times of a write.
    pub writes: Timing,
    /// Requests that the kernel hands over at a time.
    pub queue: u16,
}

/// Half a turn at 7,200 rpm.
const HALF_TURN_NS: u64 = 4_160_000;

impl DiskKind {
    /// All kinds that scenarios can name.
    pub const ALL: [DiskKind; 4] = [DiskKind::Hdd, DiskKind::Ssd, DiskKind::Nvme, DiskKind::Usb];

    /// The kind's name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            DiskKind::Hdd => "hdd",
            DiskKind::Ssd => "ssd",
            DiskKind::Nvme => "nvme",
            DiskKind::Usb => "usb",
        }
    }

    /// The kind's figures.
    pub fn preset(self) -> Preset {
        let flash = |bandwidth, latency_ns, parallel| Timing {
            bandwidth,
            latency_ns,
            parallel,
            ..Timing::default()
        };
        let seeks = |bandwidth, near_ns, far_ns| Timing {
            bandwidth,
            near_ns,
            far_ns,
            parallel: 1,
            ..Timing::default()
        };
        let (reads, writes, queue) = match self {
            DiskKind::Hdd => (
                seeks(
                    154_000_000,
                    230_000 + HALF_TURN_NS,
                    7_400_000 + HALF_TURN_NS,
                ),
                seeks(
                    154_000_000,
                    320_000 + HALF_TURN_NS,
                    8_200_000 + HALF_TURN_NS,
                ),
                32,
            ),
            DiskKind::Ssd => (
                flash(560_000_000, 77_000, 8),
                flash(530_000_000, 28_000, 2),
                32,
            ),
            DiskKind::Nvme => (
                flash(3_500_000_000, 53_000, 32),
                flash(1_700_000_000, 17_000, 9),
                1023,
            ),
            DiskKind::Usb => (
                seeks(136_000_000, 960_000, 960_000),
                seeks(98_000_000, 7_000_000, 7_000_000),
                2,
            ),
        };
        Preset {
            reads,
            writes,
            queue,
        }
    }
}
