// SPDX-License-Identifier: GPL-2.0-only
//! Numbers for people.

/// Bytes as a text such as `31.2 MiB`.
pub(crate) fn format_size(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift {
            return format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64);
        }
    }
    format!("{bytes} B")
}
