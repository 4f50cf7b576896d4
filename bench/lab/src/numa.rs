// SPDX-License-Identifier: GPL-2.0-only
//! A guest with memory of several speeds: a NUMA node per tier, all CPUs on the first.
//!
//! Real tiers differ in what an access costs; emulated ones only say so, in the ACPI tables that a
//! kernel groups nodes into memory tiers by (HMAT: latency and bandwidth of each node as seen from
//! the CPUs). What a guest shows is therefore where pages lie and what moves them, not how fast
//! they are: that is the twin's.
//!
//! Example: `1280M,80ns,200G/s` and `384M,250ns,50G/s` make node 0 with the CPUs and node 1 without
//! any. Linux 6.12 puts them into `memory_tier4` and `memory_tier56` and demotes from 0 to 1; 6.1
//! does not read HMAT for this and has both in one tier. Each node is 10 further away than the one
//! before it, so that of several lower tiers the next one is what a kernel demotes to.
//!
//! What a guest boots with it cannot give back whole: the kernel keeps account of a node's memory
//! in that memory. So the last tier may be a DIMM, which can all be taken offline, and out.

use anyhow::{Result, bail, ensure};
use scenario::model::Tier;

const MIB: u64 = 1 << 20;
/// x86-64 kernels keep account of memory in sections of this size, each of one node.
const SECTION: u64 = 128 * MIB;
/// ACPI's, for a node and itself.
const LOCAL_DISTANCE: usize = 10;
/// Distances are bytes and 255 means unreachable.
const MOST_TIERS: usize = 16;
/// HMAT has 16 bits for a bandwidth, with one factor for all of a table.
const BANDWIDTH_BITS: u32 = 16;

/// The amount of memory, `dimm` saying that the last tier is one.
pub fn memory_argument(all: u64, tiers: &[Tier], dimm: bool) -> String {
    match tiers.last().filter(|_| dimm) {
        None => format!("{all}B"),
        Some(last) => format!(
            "size={}B,slots=1,maxmem={all}B",
            all.saturating_sub(last.size_bytes)
        ),
    }
}

/// QEMU's arguments; none where there are no tiers.
///
/// # Errors
/// What HMAT cannot say, or QEMU will not.
pub fn numa_arguments(tiers: &[Tier], cpus: u32, dimm: bool) -> Result<Vec<String>> {
    ensure!(
        !dimm || tiers.len() > 1,
        "the last tier of two or more can be a DIMM"
    );
    if tiers.is_empty() {
        return Ok(Vec::new());
    }
    check_tiers(tiers)?;
    let mut arguments = Vec::new();
    let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    for (node, tier) in tiers.iter().enumerate() {
        let size = tier.size_bytes;
        add(
            "-object",
            format!("memory-backend-ram,id=tier{node},size={size}B"),
        );
        let holds = if node == 0 {
            format!(",cpus=0-{}", cpus - 1)
        } else {
            String::new()
        };
        let memory = match dimm && node + 1 == tiers.len() {
            true => {
                add("-device", format!("pc-dimm,memdev=tier{node},node={node}"));
                String::new()
            }
            false => format!(",memdev=tier{node}"),
        };
        add(
            "-numa",
            format!("node,nodeid={node}{holds}{memory},initiator=0"),
        );
    }
    for from in 0..tiers.len() {
        for to in (0..tiers.len()).filter(|to| *to != from) {
            let distance = LOCAL_DISTANCE * (1 + from.abs_diff(to));
            add("-numa", format!("dist,src={from},dst={to},val={distance}"));
        }
    }
    for (node, tier) in tiers.iter().enumerate() {
        let of = format!("hmat-lb,initiator=0,target={node},hierarchy=memory");
        let (latency, bandwidth) = (tier.latency_ns, tier.bandwidth);
        add(
            "-numa",
            format!("{of},data-type=access-latency,latency={latency}"),
        );
        add(
            "-numa",
            format!("{of},data-type=access-bandwidth,bandwidth={bandwidth}"),
        );
    }
    Ok(arguments)
}

fn check_tiers(tiers: &[Tier]) -> Result<()> {
    ensure!(
        tiers.len() <= MOST_TIERS,
        "{} tiers: a guest has {MOST_TIERS} at most",
        tiers.len()
    );
    for tier in tiers {
        let name = &tier.name;
        if tier.size_bytes == 0 || tier.size_bytes % SECTION != 0 {
            bail!("tier {name}: a guest's tiers come in multiples of 128M, as in 1280M or 384M");
        }
        if tier.bandwidth == 0 || tier.bandwidth % MIB != 0 {
            bail!("tier {name}: bandwidth must be a whole number of MiB per second");
        }
        if tier.latency_ns == 0 || tier.latency_ns > u64::from(u16::MAX) {
            bail!("tier {name}: latency must be 1 to {} ns", u16::MAX);
        }
    }
    let bits = tiers.iter().fold(0, |all, tier| all | tier.bandwidth);
    if u64::BITS - bits.leading_zeros() - bits.trailing_zeros() > BANDWIDTH_BITS {
        bail!(
            "bandwidths of tiers must be multiples of one power of two, at most 65535 times it: write rounder numbers, as in 200G/s and 50G/s"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(size_bytes: u64, latency_ns: u64, bandwidth: u64) -> Tier {
        Tier {
            name: "t".into(),
            size_bytes,
            latency_ns,
            bandwidth,
        }
    }

    #[test]
    fn the_first_node_has_the_cpus_and_each_is_further_away() {
        let tiers = [
            tier(1280 << 20, 80, 200 << 30),
            tier(384 << 20, 250, 50 << 30),
            tier(256 << 20, 900, 8 << 30),
        ];
        let text = numa_arguments(&tiers, 2, false).unwrap().join(" ");
        for part in [
            "memory-backend-ram,id=tier1,size=402653184B",
            "node,nodeid=0,cpus=0-1,memdev=tier0,initiator=0",
            "node,nodeid=2,memdev=tier2,initiator=0",
            "dist,src=0,dst=1,val=20",
            "dist,src=2,dst=0,val=30",
            "target=1,hierarchy=memory,data-type=access-latency,latency=250",
            "target=2,hierarchy=memory,data-type=access-bandwidth,bandwidth=8589934592",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(numa_arguments(&[], 2, false).unwrap().is_empty());
    }

    #[test]
    fn the_last_may_be_a_dimm() {
        let tiers = [tier(1 << 30, 80, 200 << 30), tier(384 << 20, 250, 50 << 30)];
        let text = numa_arguments(&tiers, 2, true).unwrap().join(" ");
        for part in [
            "memdev=tier0,initiator=0",
            "pc-dimm,memdev=tier1,node=1",
            "node,nodeid=1,initiator=0",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let all = (1 << 30) + (384 << 20);
        assert_eq!(
            memory_argument(all, &tiers, true),
            "size=1073741824B,slots=1,maxmem=1476395008B"
        );
        assert_eq!(memory_argument(all, &tiers, false), "1476395008B");
    }

    #[test]
    fn what_the_tables_cannot_say_is_refused() {
        let fast = tier(1 << 30, 80, 200 << 30);
        for (slow, why) in [
            (tier(1376 << 20, 250, 50 << 30), "multiples of 128M"),
            (tier(1 << 30, 0, 50 << 30), "latency must be"),
            (tier(1 << 30, 65_536, 50 << 30), "latency must be"),
            (tier(1 << 30, 250, 1000), "whole number of MiB"),
            (tier(1 << 30, 250, 3 << 20), "rounder numbers"),
        ] {
            let error = numa_arguments(&[fast.clone(), slow], 1, false)
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(numa_arguments(&vec![fast.clone(); 17], 1, false).is_err());
        assert!(numa_arguments(&[fast], 1, true).is_err());
    }
}
