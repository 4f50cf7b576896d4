// SPDX-License-Identifier: GPL-2.0-only
//! What tiers the host has, as the module was told, and how full their nodes are.

use anyhow::{Context, Result, bail};
use knobs::PageSize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// All figures of memory here are in pages of this size, whatever the kernel's are.
pub use knobs::PAGE;

/// The module's parameter that keeps which nodes are which tier.
pub const TIERS: &str = "sys/module/weir/parameters/tiers";

/// A host below its root directory.
#[derive(Clone, Debug)]
pub struct TierHost {
    root: PathBuf,
}

/// A node of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Number of the node.
    pub id: u32,
    /// Pages it has.
    pub present: u64,
    /// Pages that are free.
    pub free: u64,
    /// Free pages below which the kernel begins to reclaim, or stops only there: the zones' high
    /// watermarks.
    pub high: u64,
}

impl Node {
    /// Pages that stay free whatever is moved: above what wakes the kernel's own reclaim there is
    /// to be room for what its owners allocate until the next step.
    pub fn headroom(&self) -> u64 {
        self.high + policy::tier::headroom(self.present)
    }

    /// Pages that may be moved to it.
    pub fn room_pages(&self) -> u64 {
        self.free.saturating_sub(self.headroom())
    }
}

/// A tier: its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tier {
    /// In the order of their numbers.
    pub nodes: Vec<Node>,
}

impl Tier {
    /// Pages it has.
    pub fn capacity(&self) -> u64 {
        self.nodes.iter().map(|node| node.present).sum()
    }

    /// Pages that are free.
    pub fn free_pages(&self) -> u64 {
        self.nodes.iter().map(|node| node.free).sum()
    }

    /// Pages of these that stay free.
    pub fn headroom(&self) -> u64 {
        self.nodes.iter().map(Node::headroom).sum()
    }

    /// Returns whether a node is one of its own.
    pub fn has_node(&self, id: u32) -> bool {
        self.nodes.iter().any(|node| node.id == id)
    }
}

impl TierHost {
    /// The host whose root directory is there.
    pub fn at_root(root: &Path) -> TierHost {
        TierHost { root: root.into() }
    }

    /// The full path of one relative to the root.
    pub fn full_path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// A file's text without the end of its line, if it can be read.
    pub fn read_text(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = fs::read_to_string(self.full_path(path)).ok()?;
        Some(text.trim_end().into())
    }

    /// The tiers as switched on, fastest first; none if they are off or there is no module.
    ///
    /// # Errors
    /// The parameter says what no list of nodes is.
    pub fn read_tiers(&self) -> Result<Vec<Tier>> {
        let Some(text) = self.read_text(TIERS).filter(|text| !text.is_empty()) else {
            return Ok(Vec::new());
        };
        let lists = parse_tiers(&text)?;
        let nodes = self.read_nodes()?;
        let tier = |ids: Vec<u32>| Tier {
            nodes: ids
                .into_iter()
                .filter_map(|id| nodes.get(&id).cloned())
                .collect(),
        };
        Ok(lists.into_iter().map(tier).collect())
    }

    /// The host-wide share of a limit that may be in the top tier, in percent; 0 is by capacity.
    pub fn tier_ratio(&self) -> u32 {
        self.read_text("sys/module/weir/parameters/tier_ratio")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }

    /// Pages that may be moved to a node now.
    pub fn node_room(&self, node: u32) -> u64 {
        let nodes = self.read_nodes().unwrap_or_default();
        nodes.get(&node).map_or(0, Node::room_pages)
    }

    /// Reads all nodes with memory.
    fn read_nodes(&self) -> Result<BTreeMap<u32, Node>> {
        let path = self.full_path("proc/zoneinfo");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(sum_zones(PageSize::running(), &text))
    }

    /// Free pages of each node, from a file so short that it may be read every second:
    /// /proc/zoneinfo has lines for each CPU.
    pub fn free_by_node(&self) -> BTreeMap<u32, u64> {
        sum_free_blocks(
            PageSize::running(),
            &self.read_text("proc/buddyinfo").unwrap_or_default(),
        )
    }

    /// The kernel's own tiers, fastest first, where it tells of them (6.1 and later).
    pub fn memory_tiers(&self) -> Vec<Vec<u32>> {
        let entries = fs::read_dir(self.full_path("sys/devices/virtual/memory_tiering"));
        let mut tiers: Vec<(u32, Vec<u32>)> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let rank = name.strip_prefix("memory_tier")?.parse().ok()?;
                let list = fs::read_to_string(entry.path().join("nodelist")).ok()?;
                let nodes = parse_list(list.trim())
                    .ok()
                    .filter(|nodes| !nodes.is_empty())?;
                Some((rank, nodes))
            })
            .collect();
        tiers.sort();
        tiers.into_iter().map(|(_, nodes)| nodes).collect()
    }

    /// Nodes that have memory.
    pub fn memory_nodes(&self) -> Vec<u32> {
        self.read_text("sys/devices/system/node/has_memory")
            .and_then(|text| parse_list(&text).ok())
            .unwrap_or_default()
    }

    /// Physical addresses of a node's memory, in order: start and end.
    ///
    /// # Errors
    /// The kernel does not tell of it.
    pub fn node_addresses(&self, node: u32) -> Result<Vec<(u64, u64)>> {
        let size = self
            .read_text("sys/devices/system/memory/block_size_bytes")
            .and_then(|text| u64::from_str_radix(&text, 16).ok())
            .context("/sys/devices/system/memory does not tell the size of a memory block")?;
        let directory = self.full_path(format!("sys/devices/system/node/node{node}"));
        let entries = fs::read_dir(&directory)
            .with_context(|| format!("cannot list {}", directory.display()))?;
        let blocks: BTreeSet<u64> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name();
                let number = name.to_str()?.strip_prefix("memory")?;
                let number = number.parse().ok()?;
                // One that is going offline, or not online yet, has no pages to move.
                let state = fs::read_to_string(entry.path().join("state"));
                state
                    .is_ok_and(|state| state.trim() == "online")
                    .then_some(number)
            })
            .collect();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for block in blocks {
            let (start, end) = (block * size, (block + 1) * size);
            match ranges.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => ranges.push((start, end)),
            }
        }
        Ok(ranges)
    }
}

/// Parses lists of nodes such as `0-1;2`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_tiers(text: &str) -> Result<Vec<Vec<u32>>> {
    let text = text.trim_end().trim_end_matches(';');
    text.split(';')
        .map(|list| parse_list(list.trim()))
        .collect()
}

/// Parses numbers such as `0-2,5`.
///
/// # Errors
/// It is none.
pub fn parse_list(text: &str) -> Result<Vec<u32>> {
    let mut all = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            text.parse::<u32>().with_context(|| {
                format!("`{part}`: expected a node or a range of nodes, as in `0` or `0-1`")
            })
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last > 1023 {
            bail!("`{part}`: expected a range with the smaller node first, 1023 at most");
        }
        all.extend(first..=last);
    }
    Ok(all.into_iter().collect())
}

/// Numbers as the kernel writes them: `0-2,5`.
pub fn format_list(nodes: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &node in nodes {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == node => *last = node,
            _ => parts.push((node, node)),
        }
    }
    let part = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Nodes by what their zones add up to.
fn sum_zones(page: PageSize, text: &str) -> BTreeMap<u32, Node> {
    let mut nodes: BTreeMap<u32, Node> = BTreeMap::new();
    let number = |pages: &str| page.units_of_pages(pages.parse().unwrap_or(0));
    let mut current = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Node ") {
            current = rest.split(',').next().and_then(|id| id.parse().ok());
            continue;
        }
        let Some(id) = current else { continue };
        let node = nodes.entry(id).or_insert_with(|| Node {
            id,
            ..Node::default()
        });
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["pages", "free", pages] => node.free += number(pages),
            // Per-CPU lists further down have a line of the same name, with a colon.
            ["high", pages] => node.high += number(pages),
            ["present", pages] => node.present += number(pages),
            _ => {}
        }
    }
    nodes.retain(|_, node| node.present > 0);
    nodes
}

/// Nodes by the blocks of 1, 2, 4 and more free pages that each zone's line counts.
fn sum_free_blocks(page: PageSize, buddyinfo: &str) -> BTreeMap<u32, u64> {
    let mut nodes = BTreeMap::new();
    for line in buddyinfo.lines() {
        let mut words = line.split_whitespace();
        let node = words.nth(1).and_then(|word| word.strip_suffix(','));
        let Some(node) = node.and_then(|node| node.parse().ok()) else {
            continue;
        };
        let blocks = words.skip(2).map(|count| count.parse().unwrap_or(0));
        let pages = blocks
            .enumerate()
            .map(|(order, count): (_, u64)| count << order);
        *nodes.entry(node).or_insert(0) += page.units_of_pages(pages.sum());
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        assert_eq!(parse_list("0-2,5").expect("a list"), [0, 1, 2, 5]);
        assert_eq!(parse_list("").expect("empty").len(), 0);
        assert_eq!(format_list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        for bad in ["x", "2-1", "1-", "0-99999"] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
        assert_eq!(
            parse_tiers("0-1;2\n").expect("tiers"),
            [vec![0, 1], vec![2]]
        );
        assert_eq!(parse_tiers("0;").expect("one tier"), [vec![0]]);
    }

    #[test]
    fn a_node_is_the_sum_of_its_zones() {
        let text = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 5
  pages free     100
        boost    0
        min      1
        low      2
        high     3
        spanned  4095
        present  400
        managed  380
  pagesets
    cpu: 0
              count: 1
              high:  77
Node 0, zone    DMA32
  pages free     1000
        high     30
        present  4000
Node 1, zone   Normal
  pages free     7
        high     9
        present  50
Node 1, zone  Movable
  pages free     0
        high     0
        present  0
Node 2, zone   Normal
  pages free     0
        present  0
";
        let nodes = sum_zones(PageSize::default(), text);
        assert_eq!(
            nodes[&0],
            Node {
                id: 0,
                present: 4400,
                free: 1100,
                high: 33
            }
        );
        assert_eq!(nodes[&0].room_pages(), 1100 - 33 - 44);
        assert_eq!(nodes[&1].room_pages(), 0, "below its watermark");
        assert!(!nodes.contains_key(&2), "nothing is in it");
    }

    #[test]
    fn free_pages_are_added_up() {
        let text = "\
Node 0, zone      DMA      1      0      2
Node 0, zone    DMA32      3      4      0
Node 1, zone   Normal      0      0      5
";
        let of_4k = PageSize::default();
        assert_eq!(
            sum_free_blocks(of_4k, text),
            BTreeMap::from([(0, 9 + 11), (1, 20)])
        );
        assert!(sum_free_blocks(of_4k, "").is_empty());
        let of_16k = PageSize::of_bytes(16 << 10).expect("a size");
        assert_eq!(
            sum_free_blocks(of_16k, text),
            BTreeMap::from([(0, 80), (1, 80)])
        );
    }

    #[test]
    fn a_tier_may_name_a_node_that_is_not_there_yet() {
        let dir = tempfile::tempdir().expect("made");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text).expect("written");
        };
        let host = TierHost::at_root(dir.path());
        assert!(host.read_tiers().expect("no module").is_empty());
        write(TIERS, "\n");
        assert!(host.read_tiers().expect("off").is_empty());
        write(TIERS, "0;1-2\n");
        write(
            "proc/zoneinfo",
            "Node 0, zone Normal\n  pages free 10\n  high 1\n  present 200\n\
             Node 2, zone Normal\n  pages free 20\n  high 1\n  present 100\n",
        );
        let tiers = host.read_tiers().expect("on");
        assert_eq!((tiers[0].capacity(), tiers[1].capacity()), (200, 100));
        assert!(tiers[1].has_node(2) && !tiers[1].has_node(1));
        assert_eq!((tiers[1].free_pages(), tiers[1].headroom()), (20, 2));
    }

    #[test]
    fn memory_that_is_offline_is_not_looked_through() {
        let dir = tempfile::tempdir().expect("made");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("sys/devices/system/memory/block_size_bytes", "8000000\n");
        for (block, state) in [(0, "online"), (1, "online"), (2, "offline"), (4, "online")] {
            write(
                &format!("sys/devices/system/node/node1/memory{block}/state"),
                state,
            );
        }
        let host = TierHost::at_root(dir.path());
        assert_eq!(
            host.node_addresses(1).expect("told"),
            [(0, 0x1000_0000), (0x2000_0000, 0x2800_0000)]
        );
        assert!(host.node_addresses(7).is_err());
    }
}
