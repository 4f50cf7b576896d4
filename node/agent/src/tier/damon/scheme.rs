// SPDX-License-Identifier: GPL-2.0-only
//! What a kdamond is told: addresses to look at, and for each cgroup which of its pages go where.

use crate::tier::damon::admin::Admin;
use crate::tier::damon::owners::Range;
use crate::tier::engine::Way;

/// Treatment of a cgroup's pages in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Forgets that they were touched, no more.
    Mark,
    /// Moves pages that were not touched since.
    Cold,
    /// Moves pages that were touched since.
    Hot,
    /// Moves all pages.
    All,
    /// Counts pages that were touched since, and reports them to the kernel's lists as used.
    Count,
}

/// One cgroup's pages in a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The cgroup: exactly it, without descendants.
    pub memcg: String,
    /// The node they go to.
    pub to: u32,
    /// Direction of the moves.
    pub way: Way,
    /// Physical addresses it acts on.
    pub range: Range,
    /// Treatment of those pages.
    pub pass: Pass,
}

/// A filter: its type, and whether what matches is left out (or what does not).
type Filter = (&'static str, bool);

impl Scheme {
    /// After the filters on address and cgroup.
    fn filters(&self) -> &'static [Filter] {
        match self.pass {
            // The look at a page forgets that it was touched; then nothing is left.
            Pass::Mark => &[("young", false), ("anon", true), ("anon", false)],
            Pass::Cold => &[("young", true)],
            Pass::Hot | Pass::Count => &[("young", false)],
            Pass::All => &[],
        }
    }

    /// Writes its files below `schemes/N`.
    pub fn write(&self, admin: &Admin, directory: &str) -> Result<(), String> {
        let write = |file: &str, value: &str| admin.write(format!("{directory}/{file}"), value);
        let action = match (self.pass, self.way) {
            (Pass::Count, _) => "lru_prio",
            (_, Way::Down) => "migrate_cold",
            (_, Way::Up) => "migrate_hot",
        };
        write("action", action)?;
        write("target_nid", &self.to.to_string())?;
        write("access_pattern/sz/max", &u64::MAX.to_string())?;
        write("access_pattern/nr_accesses/max", &u32::MAX.to_string())?;
        write("access_pattern/age/max", &u32::MAX.to_string())?;
        let filters = self.filters();
        write("filters/nr_filters", &(filters.len() + 3).to_string())?;
        // All outside the range is left out. The other way round, what does not match being left
        // out, 6.12 leaves out every page: DAMON's part for physical memory asks a filter that it
        // does not know.
        let outside = [(0, self.range.0), (self.range.1, u64::MAX)];
        for (at, (start, end)) in outside.iter().enumerate() {
            write(&format!("filters/{at}/type"), "addr")?;
            write(&format!("filters/{at}/matching"), "Y")?;
            write(&format!("filters/{at}/addr_start"), &start.to_string())?;
            write(&format!("filters/{at}/addr_end"), &end.to_string())?;
        }
        write("filters/2/type", "memcg")?;
        write("filters/2/matching", "N")?;
        write("filters/2/memcg_path", &self.memcg)?;
        for (at, (kind, out)) in filters.iter().enumerate() {
            write(&format!("filters/{}/type", at + 3), kind)?;
            let matching = if *out { "Y" } else { "N" };
            write(&format!("filters/{}/matching", at + 3), matching)?;
        }
        Ok(())
    }
}

/// Intervals of a kdamond, in microseconds.
pub struct Pace {
    /// Time between looks at the clock, and at one page of each region.
    pub sample: u64,
    /// Schemes are applied so often, the first time after this.
    pub apply: u64,
}

/// Writes a kdamond's files: what it looks at, and its schemes.
pub fn set_up(
    admin: &Admin,
    kdamond: usize,
    ranges: &[Range],
    schemes: &[Scheme],
    pace: &Pace,
) -> Result<(), String> {
    let write = |file: &str, value: u64| admin.write(format!("{kdamond}/contexts/{file}"), value);
    write("nr_contexts", 1)?;
    admin.write(format!("{kdamond}/contexts/0/operations"), "paddr")?;
    write("0/monitoring_attrs/intervals/sample_us", pace.sample)?;
    write("0/monitoring_attrs/intervals/aggr_us", 1_000_000)?;
    write("0/monitoring_attrs/intervals/update_us", 60_000_000)?;
    // What the regions would tell is not asked for: few of them cost least.
    write("0/monitoring_attrs/nr_regions/min", 10)?;
    write(
        "0/monitoring_attrs/nr_regions/max",
        1000.max(ranges.len() as u64),
    )?;
    write("0/targets/nr_targets", 1)?;
    write("0/targets/0/regions/nr_regions", ranges.len() as u64)?;
    for (at, (start, end)) in ranges.iter().enumerate() {
        write(&format!("0/targets/0/regions/{at}/start"), *start)?;
        write(&format!("0/targets/0/regions/{at}/end"), *end)?;
    }
    write("0/schemes/nr_schemes", schemes.len() as u64)?;
    for (at, scheme) in schemes.iter().enumerate() {
        let directory = format!("{kdamond}/contexts/0/schemes/{at}");
        admin.write(format!("{directory}/apply_interval_us"), pace.apply)?;
        scheme.write(admin, &directory)?;
    }
    Ok(())
}

/// Looks what one claimed kdamond takes; whether it promotes.
///
/// # Errors
/// It does not take what is needed.
pub fn check_abilities(admin: &Admin) -> Result<bool, String> {
    admin.write("0/contexts/nr_contexts", 1)?;
    if admin.write("0/contexts/0/operations", "paddr").is_err() {
        return Err("this kernel's does not watch physical memory (CONFIG_DAMON_PADDR)".into());
    }
    let scheme = "0/contexts/0/schemes/0";
    admin.write("0/contexts/0/schemes/nr_schemes", 1)?;
    let takes = |file: &str, value: &str| admin.write(format!("{scheme}/{file}"), value).is_ok();
    if !takes("action", "migrate_cold") {
        return Err("this kernel's does not move pages (6.11 and later do)".into());
    }
    if !admin.has_file(format!("{scheme}/filters")) || !takes("filters/nr_filters", "1") {
        return Err("this kernel's has no filters (6.3 and later have)".into());
    }
    for filter in ["addr", "memcg", "young"] {
        if !takes("filters/0/type", filter) {
            return Err(format!("this kernel's has no filter `{filter}`"));
        }
    }
    Ok(takes("action", "migrate_hot"))
}
