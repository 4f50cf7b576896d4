// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use proptest::prelude::*;

fn parsed(text: &str) -> Rules {
    Rules::parse("agent.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn refused(text: &str) -> String {
    Rules::parse("agent.toml", text)
        .expect_err("refused")
        .to_string()
}

fn wanted(rules: &Rules, path: &str) -> String {
    let wanted = rules.settings_for(path, false);
    let words: Vec<String> = wanted
        .iter()
        .map(|(knob, setting)| {
            let Origin::Line(line) = setting.origin else {
                panic!("not a rule's: {setting:?}");
            };
            format!("{}={}@{line}", knob.file_name(), setting.text)
        })
        .collect();
    words.join(" ")
}

#[test]
fn the_last_rule_that_names_a_knob_counts() {
    let rules = parsed(
        r#"
[[rule]]
cgroup = "/system.slice/docker-*.scope"
set = { "memory.dirty_bytes" = "256M", "memory.dirty_weight" = 50 }

[[rule]]
cgroup = ["/system.slice/docker-1f*.scope", "/batch"]
set = { "memory.dirty_bytes" = "1G", "memory.dirty_min" = "64M" }
"#,
    );
    assert_eq!(
        wanted(&rules, "/system.slice/docker-1f00.scope"),
        "memory.dirty_min=64M@6 memory.dirty_bytes=1G@6 memory.dirty_weight=50@2"
    );
    assert_eq!(
        wanted(&rules, "/system.slice/docker-22.scope"),
        "memory.dirty_bytes=256M@2 memory.dirty_weight=50@2"
    );
    assert_eq!(
        wanted(&rules, "/batch"),
        "memory.dirty_min=64M@6 memory.dirty_bytes=1G@6"
    );
    assert_eq!(wanted(&rules, "/system.slice/docker.service"), "");
}

#[test]
fn globs_match_as_in_a_shell() {
    let rule = |glob: &str| {
        parsed(&format!(
            "[[rule]]\ncgroup = '{glob}'\nset = {{ \"memory.dirty_weight\" = 5 }}"
        ))
    };
    let cases = [
        ("/a/*", "/a/b", true),
        ("/a/*", "/a/b/c", false),
        ("/a/*", "/a", false),
        ("/a/**", "/a/b", true),
        ("/a/**", "/a/b/c", true),
        ("/a/**", "/ab/c", false),
        ("/**/x.scope", "/a/b/x.scope", true),
        ("/**/x.scope", "/x.scope", true),
        ("/a/[bc]?.slice", "/a/b1.slice", true),
        ("/a/[!bc]?.slice", "/a/b1.slice", false),
        // As systemd escapes a `-`.
        ("/a/b\\x2dc.service", "/a/b\\x2dc.service", true),
        ("/a/*", "/a/.hidden", true),
    ];
    for (glob, path, matches) in cases {
        let found = !rule(glob).settings_for(path, false).is_empty();
        assert_eq!(found, matches, "{glob} {path}");
    }
}

#[test]
fn what_others_named_is_passed_over() {
    let rules = parsed(
        "[[rule]]\ncgroup = \"/user.slice/**\"\nset = { \"memory.dirty_min\" = \"1G\" }\n\
         [[rule]]\ncgroup = \"/user.slice/**\"\ndelegated = true\nset = { \"memory.dirty_bytes\" = \"1G\" }\n",
    );
    let names = |delegated| -> Vec<Knob> {
        let wanted = rules.settings_for("/user.slice/u/mine", delegated);
        wanted.into_keys().collect()
    };
    assert_eq!(names(false), [Knob::DirtyMin, Knob::DirtyBytes]);
    assert_eq!(names(true), [Knob::DirtyBytes]);
}

#[test]
fn no_rules_are_a_policy_too() {
    assert!(parsed("# all commented out\n").is_empty());
}

#[test]
fn everything_that_is_wrong_is_said_at_once_and_where() {
    let text = r#"
[[rule]]
cgroup = "/a/*"
set = { "memory.dirty_min" = "16MB", "memory.high" = "1G" }
[[rule]]
cgroup = ["a/*", "/a/***"]
sets = {}
[[rule]]
cgroup = []
set = { "memory.dirty_weight" = [1] }
[rules]
"#;
    let expected = "\
agent.toml:4: key `rule[0].set.\"memory.dirty_min\"`: memory.dirty_min: invalid value `16MB`: expected bytes with optional K, M, G or T, or `max`
agent.toml:4: key `rule[0].set.\"memory.high\"`: not a file that the agent sets: it sets memory.dirty_min, memory.dirty_bytes, memory.dirty_ratio, memory.dirty_bandwidth, memory.dirty_weight, memory.writeback_bytes
agent.toml:6: key `rule[1].cgroup[0]`: `a/*` would match no cgroup: say the path from the root of the hierarchy, as in `/system.slice/*`
agent.toml:6: key `rule[1].cgroup[1]`: `/a/***` is not a glob: wildcards are either regular `*` or recursive `**`
agent.toml:7: key `rule[1].sets`: unknown key, did you mean `set`? known: cgroup, delegated, set
agent.toml:9: key `rule[2].cgroup`: no glob in the list: the rule would match nothing
agent.toml:10: key `rule[2].set.\"memory.dirty_weight\"`: is an array, but must be a string or a number
agent.toml:11: key `rules`: unknown key, did you mean `rule`? known: assist, objective, reclaim, requests, rule, stock, tier";
    assert_eq!(refused(text), expected, "\n{}", refused(text));
}

#[test]
fn a_rule_that_could_do_nothing_is_refused() {
    let rule = |glob: &str| {
        refused(&format!(
            "[[rule]]\ncgroup = \"{glob}\"\nset = {{ \"memory.dirty_min\" = 1 }}\n"
        ))
    };
    assert!(
        rule("/").contains("the root cgroup has none"),
        "{}",
        rule("/")
    );
    for glob in ["/a/", "/a/../b", "/./a"] {
        assert!(rule(glob).contains("as the kernel does"), "{}", rule(glob));
    }
    assert!(rule("/a//b").contains("between two of its slashes"));
    assert!(rule("/{a,b}").contains("write a list of globs"));
    let empty = refused("[[rule]]\ncgroup = \"/a\"\nset = {}\n");
    assert!(empty.contains("no knob in it"), "{empty}");
    let missing = refused("[[rule]]\n");
    assert_eq!(missing.lines().count(), 2, "{missing}");
}

#[test]
fn a_file_that_is_not_there_or_no_toml_is_said_so() {
    let nowhere = Rules::load(Path::new("/nonexistent/agent.toml"), None).expect_err("refused");
    assert!(
        nowhere
            .to_string()
            .starts_with("/nonexistent/agent.toml: cannot read the policy: "),
        "{nowhere}"
    );
    let broken = refused("[[rule]\n");
    assert!(broken.starts_with("agent.toml:1: not TOML: "), "{broken}");
}

proptest! {
    /// No input makes the parser panic, and what it takes holds no value that the module refuses.
    #[test]
    fn any_text_is_taken_or_refused(text in "(\\[\\[rule\\]\\]\n|cgroup = |set = |\"/[a*?\\[\\]/{]{0,5}\"\n|\\{ \"memory.dirty_(min|bytes|ratio|weight)\" = (\"[0-9KMx]{0,3}\"|[0-9]{1,5}|max) \\}\n|\\PC{0,3}){0,8}") {
        if let Ok(rules) = Rules::parse("any", &text) {
            for rule in &rules.rules {
                prop_assert!(!rule.cgroups.is_empty() && !rule.set.is_empty());
                for (knob, setting) in &rule.set {
                    prop_assert_eq!(knob.parse(&setting.text), Ok(setting.value));
                }
            }
        }
    }
}

#[test]
fn a_ceiling_may_be_a_share_of_memory() {
    let rules = parsed("[[rule]]\ncgroup = '/a'\nset = { \"memory.dirty_bytes\" = \"75%\" }");
    let wanted = rules.settings_for("/a", false);
    let setting = wanted[&Knob::DirtyBytes];
    let of = |bytes| {
        setting
            .resolve_percent(|| bytes)
            .map(|setting| setting.text)
    };
    assert_eq!(of(Some(32 << 20)), Some("25165824".into()));
    assert_eq!(of(Some(4096 * 3)), Some("8192".into()));
    assert_eq!((of(Some(0)), of(None)), (Some("8192".into()), None));
    for text in ["0%", "101%", "%"] {
        let why = refused(&format!(
            "[[rule]]\ncgroup = '/a'\nset = {{ \"memory.dirty_bytes\" = \"{text}\" }}"
        ));
        assert!(why.contains("dirty_bytes"), "{why}");
    }
    refused("[[rule]]\ncgroup = '/a'\nset = { \"memory.dirty_min\" = \"50%\" }");
}
