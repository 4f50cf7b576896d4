// SPDX-License-Identifier: GPL-2.0-only
//! Globs on paths of cgroups, as the sections of a policy file have them.

use config::reader::Value;
use glob::{MatchOptions, Pattern};

/// Rules of matching as in a shell: `*` and `?` end at a slash.
const AS_IN_A_SHELL: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Returns whether a glob matches a cgroup's path.
pub fn matches_path(glob: &Pattern, path: &str) -> bool {
    glob.matches_with(path, AS_IN_A_SHELL)
}

/// Reads one glob or a list of them.
pub(crate) fn read_patterns(value: &Value) -> Vec<Pattern> {
    let wanted = "a glob on cgroup paths, or a list of them";
    let items = if value.is_array() {
        value.as_array(wanted).unwrap_or_default()
    } else {
        vec![value.clone()]
    };
    if items.is_empty() {
        value.complain("no glob in the list: the rule would match nothing");
    }
    items
        .iter()
        .filter_map(|item| item.parse_with(wanted, parse_pattern))
        .collect()
}

/// A glob on cgroup paths.
///
/// # Errors
/// It would never match, and why.
pub fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let shown = text.escape_debug();
    let never = |why: &str| Err(format!("`{shown}` would match no cgroup: {why}"));
    if !text.starts_with('/') {
        return never("say the path from the root of the hierarchy, as in `/system.slice/*`");
    }
    if text == "/sys/fs/cgroup" || text.starts_with("/sys/fs/cgroup/") {
        return never("leave out /sys/fs/cgroup, as in `/system.slice/*`");
    }
    if text == "/" {
        return never("the root cgroup has none of these files");
    }
    if text.ends_with('/') || text.split('/').any(|part| part == "." || part == "..") {
        return never(
            "write the path as the kernel does, without `.`, `..` and a slash at the end",
        );
    }
    if text[1..].split('/').any(str::is_empty) {
        return never("there is nothing between two of its slashes");
    }
    if text.contains('{') {
        return never("there are no alternatives in braces: write a list of globs");
    }
    Pattern::new(text).map_err(|why| format!("`{shown}` is not a glob: {}", why.msg))
}
