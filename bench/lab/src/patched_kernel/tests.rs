// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::kernel_source::asked_twice;

fn write_file(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().expect("below")).expect("made");
    fs::write(path, text).expect("written");
}

const MAKEFILE: &str = "# x\nVERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\nNAME = x\n";

fn patch_to(to: &str) -> String {
    format!("--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1 +1 @@\n-one\n+{to}\n")
}

/// A tree with one file, a series, and a cache.
fn make_workplace(series: &[&str]) -> (tempfile::TempDir, Cache, Asked) {
    let root = tempfile::tempdir().expect("a directory");
    let source = root.path().join("source");
    for (file, text) in [("Makefile", MAKEFILE), ("Kconfig", ""), ("mm/a.c", "one\n")] {
        write_file(&source, file, text);
    }
    for (number, text) in series.iter().enumerate() {
        write_file(root.path(), &format!("series/{number}.patch"), text);
    }
    let cache = Cache::open_at(root.path().join("cache")).expect("a cache");
    let asked = Asked {
        patches: Some(root.path().join("series")),
        source: Some(source),
        blanks: Blanks::Exact,
        each: false,
        config: None,
    };
    (root, cache, asked)
}

fn open<'a>(cache: &'a Cache, asked: &'a Asked) -> Result<Bench<'a>> {
    Bench::open(cache, &"debian:7.3".parse()?, asked, None)
}

#[test]
fn a_build_is_named_by_all_that_goes_into_it() {
    let files = |text: &str| Files::from([("mm/a.c".to_owned(), Some(text.to_owned()))]);
    let name = |version, source, config, text, gcc| {
        hash_build_inputs(version, source, config, &files(text), gcc)
    };
    let first = name("7.3.4", 0, "CONFIG_A=y\n", "x", "12.2");
    assert_eq!(first, name("7.3.4", 0, "CONFIG_A=y\n", "x", "12.2"));
    for other in [
        name("7.3.5", 0, "CONFIG_A=y\n", "x", "12.2"),
        name("7.3.4", 1, "CONFIG_A=y\n", "x", "12.2"),
        name("7.3.4", 0, "CONFIG_B=y\n", "x", "12.2"),
        name("7.3.4", 0, "CONFIG_A=y\n", "y", "12.2"),
        name("7.3.4", 0, "CONFIG_A=y\n", "x", "14.2"),
        hash_build_inputs("7.3.4", 0, "CONFIG_A=y\n", &Files::new(), "12.2"),
    ] {
        assert_ne!(first, other);
    }
}

#[test]
fn a_build_is_told_from_trees_and_packages() {
    for name in ["7.3.4-stock-521d5656", "6.12.1-rc1-patched-0a0b0c0d"] {
        assert!(is_build(name), "{name}");
    }
    for name in [
        "patched-7.3",
        "patched-own-0a0b0c0d",
        "7.3.4-stock-521d5656.lock",
        "7.3.4-patched-521d5656.partial",
        "6.12.117+deb12-cloud-amd64",
    ] {
        assert!(!is_build(name), "{name}");
    }
}

#[test]
fn a_series_is_applied_to_the_tree_before_anything_is_built() {
    let (_root, cache, asked) =
        make_workplace(&[&patch_to("two"), &patch_to("three").replace("-one", "-two")]);
    let bench = open(&cache, &asked).expect("fits");
    let text = |count| {
        bench
            .patched_files(count)
            .expect("fits")
            .remove("mm/a.c")
            .flatten()
    };
    assert_eq!(text(1).as_deref(), Some("two\n"));
    assert_eq!(text(2).as_deref(), Some("three\n"));
    assert!(bench.patched_files(0).expect("fits").is_empty());
    let (_root, cache, asked) = make_workplace(&[&patch_to("two"), &patch_to("three")]);
    let error = format!("{:#}", open(&cache, &asked).err().expect("does not fit"));
    assert!(
        error.contains("the patch `1.patch`: mm/a.c: its hunk at line 3 of the patch"),
        "{error}"
    );
    assert!(error.contains("be\n    one\nand is\n    two\n"), "{error}");
}

#[test]
fn the_patch_after_which_it_does_not_build_is_named() {
    let (root, cache, mut asked) =
        make_workplace(&[&patch_to("two"), &patch_to("three").replace("-one", "-two")]);
    // It takes any configuration, and does not compile the word two.
    let make = "tinyconfig olddefconfig:\n\t@touch .config\nbzImage modules:\n\t@! grep -n two mm/a.c /dev/null | \
                sed 's/$$/: error: no/' | grep . >&2\n\t@false\n";
    write_file(root.path(), "source/Makefile", &format!("{MAKEFILE}{make}"));
    let error = |asked: &Asked, side| {
        let bench = open(&cache, asked).expect("fits");
        format!(
            "{:#}",
            bench.get_kernel(side, &|_| ()).expect_err("does not build")
        )
    };
    assert!(
        !error(&asked, Side::Patched).contains("two"),
        "only the last is built"
    );
    asked.each = true;
    let said = error(&asked, Side::Patched);
    assert!(said.contains("with the patches up to `0.patch`"), "{said}");
    assert!(said.contains("mm/a.c:1:two: error: no"), "{said}");
}

#[test]
fn kernels_that_cannot_be_built_are_refused_before_anything_is_fetched() {
    let (_root, cache, mut asked) = make_workplace(&[&patch_to("two")]);
    asked.source = None;
    for name in ["debian:7.3:arm64", "debug"] {
        let spec = name.parse().expect("a kernel");
        let error = Bench::open(&cache, &spec, &asked, None)
            .err()
            .expect("refused");
        assert!(
            error
                .to_string()
                .contains("--kernel debian:6.12 or another series"),
            "{error}"
        );
    }
}

#[test]
fn the_configuration_names_no_option_twice_and_knows_its_source() {
    let (root, ..) = make_workplace(&[]);
    let source = root.path().join("source");
    let without = common_config(&source);
    assert_eq!(asked_twice(&without), [""; 0]);
    assert!(!without.contains("PROC_SYSCTL"));
    write_file(&source, "fs/proc/Kconfig", "config PROC_SYSCTL\n\tbool\n");
    assert!(common_config(&source).contains("CONFIG_PROC_SYSCTL=y\n"));
    assert_eq!(read_version(&source).expect("a version"), "7.3.4");
}

#[test]
fn a_scenario_has_its_filesystems_built_in() {
    let text = "title = \"x\"\n[host]\nmemory = \"1G\"\ncpus = 1\n[[disk]]\nname = \"d\"\nsize = \"1G\"\n\
                filesystem = \"xfs\"\n[cgroup.a]\n[[job]]\nname = \"j\"\ncgroup = \"a\"\n\
                fio = { rw = \"write\", size = \"1m\" }\n[[phase]]\nname = \"p\"\njobs = [\"j\"]\nduration = \"5s\"\n";
    let scenario = |text: &str| scenario::parse("x", "a.toml", text).expect("valid");
    assert_eq!(config_for_scenario(&scenario(text)), "CONFIG_XFS_FS=y\n");
    assert_eq!(
        config_for_scenario(&scenario(&text.replace("xfs", "ext4"))),
        ""
    );
}

/// A kernel's Makefile, as far as builds use it: the image is mm/a.c.
const BUILDS: &str = "srctree := .\ntinyconfig:\n\t@: > .config\nolddefconfig:\n\t@true\nmodules:\nbzImage:\n\
    \t@mkdir -p include/config arch/x86/boot; : > modules.builtin; : > System.map; echo x >> built\n\
    \t@sed -n 's/CONFIG_LOCALVERSION=\"\\(.*\\)\"/7.3.4\\1/p' .config > include/config/kernel.release\n\
    \t@cp mm/a.c arch/x86/boot/bzImage\nrun-command:\n\t@$(KBUILD_RUN_COMMAND)\n";

#[test]
fn what_was_built_is_kept_by_what_it_was_built_of() {
    use std::os::unix::fs::PermissionsExt;
    let (root, cache, asked) = make_workplace(&[&patch_to("two")]);
    write_file(
        root.path(),
        "source/Makefile",
        &format!("{MAKEFILE}{BUILDS}"),
    );
    let headers = "#!/bin/sh\nmkdir -p \"$1\"; : > \"$1/Makefile\"\n";
    write_file(root.path(), &format!("source/{HEADERS}"), headers);
    let script = root.path().join("source").join(HEADERS);
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("set");
    let build = |side| {
        let bench = open(&cache, &asked).expect("fits");
        let kernel = bench.get_kernel(side, &|_| ()).expect("builds");
        let built = fs::read_to_string(bench.tree_of(side).source.source.join("built"));
        (kernel, built.map_or(0, |text| text.lines().count()))
    };
    let image = |kernel: &Kernel| fs::read_to_string(&kernel.image).expect("an image");
    let (stock, _) = build(Side::Stock);
    let (patched, builds) = build(Side::Patched);
    assert_eq!(
        (image(&stock), image(&patched), builds),
        ("one\n".into(), "two\n".into(), 2)
    );
    assert!(
        stock.release.starts_with("7.3.4-stock-"),
        "{}",
        stock.release
    );
    assert!(
        patched.release.starts_with("7.3.4-patched-"),
        "{}",
        patched.release
    );
    assert!(
        patched
            .headers
            .is_some_and(|headers| headers.ends_with("build"))
    );
    // The same, by another name and in another mail.
    write_file(
        root.path(),
        "series/0.patch",
        &format!("Subject: [PATCH] again\n\n{}", patch_to("two")),
    );
    assert_eq!((build(Side::Patched).1, build(Side::Stock).1), (2, 2));
    write_file(root.path(), "series/0.patch", &patch_to("three"));
    assert_eq!(
        (image(&build(Side::Patched).0), build(Side::Patched).1),
        ("three\n".into(), 3)
    );
    write_file(root.path(), "series/0.patch", &patch_to("two"));
    let (again, builds) = build(Side::Patched);
    assert_eq!((image(&again), builds), ("two\n".into(), 3));
    assert_eq!(again.release, patched.release);
}
