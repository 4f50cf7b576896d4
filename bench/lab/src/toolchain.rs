// SPDX-License-Identifier: GPL-2.0-only
//! The compiler of a newer release, or for another architecture, run on this machine.
//!
//! A kernel's headers name the compiler the kernel was built with, and come with programs (modpost,
//! objtool, resolve_btfids). Those of a newer release need a newer C library than this machine may
//! have. So the compiler, binutils, pahole and all their libraries are unpacked into the cache, and
//! each program becomes a script that starts it through the dynamic linker that came with it:
//!
//! ```text
//! tools-trixie-gcc-14/usr/bin/x86_64-linux-gnu-gcc-14      the script
//! tools-trixie-gcc-14/usr/bin/x86_64-linux-gnu-gcc-14.elf  the program
//! ```
//!
//! Nothing of them is seen outside of a build ([`Toolchain::put_tools_in_path`]).

use crate::apt::{Apt, Release};
use crate::arch::Arch;
use crate::cache::Cache;
use crate::tool::read;
use anyhow::{Context, Result};
use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the directory of the tools to the scripts.
const VARIABLE: &str = "WEIR_TOOLS";
/// The name of a program whose own name its script has.
const PROGRAM: &str = "elf";
/// In the place of a program; links to it are followed, since they have no `.elf` beside them.
const SCRIPT: &str = r#"#!/bin/sh
exec "$WEIR_TOOLS/usr/lib64/ld-linux-x86-64.so.2" \
	--library-path "$WEIR_TOOLS/usr/lib/x86_64-linux-gnu" \
	--argv0 "$0" "$(readlink -f "$0").elf" "$@"
"#;
/// Libraries that compilers depend on for what kernel modules are not: 10 MB.
const NOT_FOR_KERNELS: &[&str] = &["libasan", "libhwasan", "liblsan", "libtsan", "libubsan"];

/// Tools in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toolchain {
    root: PathBuf,
}

impl Toolchain {
    /// Lets a program, and those it starts, find these tools before the host's.
    pub fn put_tools_in_path(&self, command: &mut Command) -> Result<()> {
        let host = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.root.join("usr/bin")).chain(std::env::split_paths(&host));
        let path = std::env::join_paths(path).context("the cache's path in PATH")?;
        command.env("PATH", path).env(VARIABLE, &self.root);
        Ok(())
    }
}

/// The tools that these headers ask for, from their own release, which compile for `arch`; fetched
/// if they are not in the cache.
pub fn get(cache: &Cache, from: &Release, arch: Arch, headers: &Path) -> Result<Toolchain> {
    let compiler = compiler_of_headers(headers)?;
    let name = format!("tools-{}-{compiler}{}", from.name, arch.cache_suffix());
    let root = cache.make_directory(&name, |into| {
        let version = compiler.trim_start_matches("gcc-");
        let target = arch.gnu_triplet().replace('_', "-");
        let (gcc, cpp) = (
            format!("gcc-{version}-{target}"),
            format!("cpp-{version}-{target}"),
        );
        let binutils = format!("binutils-{target}");
        let mut wanted = vec![gcc.as_str(), &cpp, &binutils, "pahole"];
        // The headers' own programs need no other library than these. Those of the guests' release
        // run with this machine's.
        if !from.is_release_of_guests() {
            wanted.push("libssl3t64");
        }
        let apt = Apt::set_up(cache, from, Arch::HERE)?;
        let packages = apt
            .resolve_with_libraries(&wanted)
            .with_context(|| format!("finding the packages of {compiler}"))?;
        let packages = packages.iter().map(String::as_str).filter(|package| {
            let name = package.split('=').next().unwrap_or_default();
            !name.ends_with("-dev") && !NOT_FOR_KERNELS.iter().any(|no| name.starts_with(no))
        });
        apt.unpack_packages(packages, into)
            .with_context(|| format!("the compiler {compiler}"))?;
        merge_usr(into)?;
        wrap_programs(&into.join("usr"))?;
        // By these names a compiler for this machine looks for them.
        for name in ["as", "ld"] {
            let link = into.join("usr/bin").join(name);
            if arch == Arch::HERE && !link.exists() {
                symlink(format!("{}-{name}", arch.gnu_triplet()), &link)
                    .with_context(|| format!("{}", link.display()))?;
            }
        }
        Ok(())
    })?;
    Ok(Toolchain { root })
}

/// Moves libraries to where newer releases have them.
fn merge_usr(root: &Path) -> Result<()> {
    let old = root.join("lib").join(Arch::HERE.gnu_triplet());
    if !old.is_dir() {
        return Ok(());
    }
    let new = root.join("usr/lib").join(Arch::HERE.gnu_triplet());
    let moved = |from: &Path, to: &Path| {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            fs::rename(entry.path(), to.join(entry.file_name()))?;
        }
        std::io::Result::Ok(())
    };
    moved(&old, &new).with_context(|| format!("moving {}", old.display()))?;
    let linker = root.join("usr").join(Arch::HERE.linker_path());
    let there = format!(
        "../lib/{}/{}",
        Arch::HERE.gnu_triplet(),
        Arch::HERE.linker_name()
    );
    fs::create_dir_all(linker.parent().unwrap_or(root))
        .and_then(|()| symlink(there, &linker))
        .with_context(|| format!("{}", linker.display()))
}

/// The compiler that Debian's headers ask for by version, such as `gcc-14`.
pub fn compiler_of_headers(headers: &Path) -> Result<String> {
    let path = headers.join(".kernelvariables");
    let variables = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let compiler = variables
        .split_whitespace()
        .find_map(|word| word.strip_prefix("$(CROSS_COMPILE)"))
        .with_context(|| format!("{}: names no compiler", path.display()))?;
    Ok(compiler.to_owned())
}

/// Puts a script in the place of each program below a directory.
pub fn wrap_programs(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("{}", directory.display()))? {
        let entry = entry.with_context(|| format!("{}", directory.display()))?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            wrap_programs(&path)?;
        } else if kind.is_file()
            && entry.metadata()?.permissions().mode() & 0o100 != 0
            && is_program(&path)?
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            fs::rename(&path, path.with_file_name(format!("{name}.{PROGRAM}")))
                .and_then(|()| fs::write(&path, SCRIPT))
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
                .with_context(|| format!("{}", path.display()))?;
        }
    }
    Ok(())
}

/// Does the kernel start this file through a dynamic linker? Libraries that it could start, too,
/// are none.
fn is_program(path: &Path) -> Result<bool> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.contains(".so") {
        return Ok(false);
    }
    let bytes = read(path)?;
    let Ok(header) = FileHeader64::<Endianness>::parse(&*bytes) else {
        return Ok(false);
    };
    let endian = header.endian()?;
    let headers = header
        .program_headers(endian, &*bytes)
        .with_context(|| format!("{}: its ELF headers", path.display()))?;
    Ok(headers
        .iter()
        .any(|header| header.p_type(endian) == PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_become_scripts_and_nothing_else_does() {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("bin");
        fs::create_dir(&inside).unwrap();
        // The tests themselves are linked statically.
        let own = "/bin/sh";
        for name in ["program", "libc.so.6"] {
            fs::copy(own, inside.join(name)).unwrap();
        }
        fs::write(inside.join("script"), "#!/bin/sh\n").unwrap();
        symlink("program", inside.join("link")).unwrap();
        wrap_programs(root.path()).unwrap();
        let read = |name: &str| fs::read(inside.join(name)).unwrap();
        assert!(read("program") == SCRIPT.as_bytes());
        assert!(read("link") == SCRIPT.as_bytes());
        assert!(read("program.elf") == fs::read(own).unwrap());
        assert!(!inside.join("libc.so.6.elf").exists());
        assert_eq!(read("script"), b"#!/bin/sh\n");
    }

    #[test]
    fn libraries_and_linker_are_found_as_in_newer_releases() {
        let root = tempfile::tempdir().unwrap();
        let inside = |below: &str| root.path().join(below);
        let old = inside("lib").join(Arch::HERE.gnu_triplet());
        let new = inside("usr/lib").join(Arch::HERE.gnu_triplet());
        fs::create_dir_all(&old).unwrap();
        fs::create_dir_all(&new).unwrap();
        fs::write(old.join(Arch::HERE.linker_name()), "linker").unwrap();
        fs::write(new.join("libbfd.so"), "").unwrap();
        merge_usr(root.path()).unwrap();
        assert!(new.join("libbfd.so").exists());
        // Wherever the directory is moved.
        let moved = tempfile::tempdir().unwrap();
        fs::rename(inside("usr"), moved.path().join("usr")).unwrap();
        let linker = moved.path().join("usr").join(Arch::HERE.linker_path());
        assert_eq!(fs::read(linker).unwrap(), b"linker");
        merge_usr(root.path()).expect("nothing is left to move");
    }

    #[test]
    fn headers_say_which_compiler() {
        let headers = tempfile::tempdir().unwrap();
        let text = "override ARCH = x86\nCC = $(if $(CACHED),$(CCACHE)) $(CROSS_COMPILE)gcc-14\n";
        fs::write(headers.path().join(".kernelvariables"), text).unwrap();
        assert_eq!(compiler_of_headers(headers.path()).unwrap(), "gcc-14");
    }
}
