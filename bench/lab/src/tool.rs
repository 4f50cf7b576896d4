// SPDX-License-Identifier: GPL-2.0-only
//! Running the host's tools, with errors that name the package to install.

use anyhow::{Context, Result, bail};
use std::io::ErrorKind;
use std::process::{Command, Output};

/// Every program of the host that the lab runs, and the Debian package it is in. `make setup`
/// installs these.
pub const HOST_TOOLS: &[(&str, &str)] = &[
    ("apt-get", "apt"),
    ("apt-cache", "apt"),
    ("dpkg-deb", "dpkg"),
    ("xz", "xz-utils"),
    ("gzip", "gzip"),
    ("pahole", "pahole"),
    ("make", "make"),
    ("gcc", "gcc"),
];

/// Packages that hold no program but are needed all the same: what the headers' own tools link
/// against, Debian's keys. `tools/setup.sh` reads this list.
pub const HOST_LIBRARIES: &[&str] = &["libelf1", "libc6-dev", "debian-archive-keyring"];

/// Runs to the end; an error holds what the program said.
pub fn run_to_success(command: &mut Command) -> Result<()> {
    run(command).map(drop)
}

/// Runs to the end and returns what was written to stdout.
pub fn run_for_output(command: &mut Command) -> Result<String> {
    let output = run(command)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| missing_program(&name, error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = if said.trim().is_empty() {
            String::from_utf8_lossy(&output.stdout)
        } else {
            said
        };
        bail!(
            "{name} failed ({}):\n{}",
            output.status,
            quote_errors(&said)
        );
    }
    Ok(output)
}

/// Is there such a program on this machine?
pub fn is_on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|at| at.join(program).is_file()))
}

/// Why a program could not be started, and which package to install if it is not there.
pub fn missing_program(program: &str, error: std::io::Error) -> anyhow::Error {
    let package = HOST_TOOLS
        .iter()
        .find(|(name, _)| *name == program)
        .map(|(_, package)| package);
    match (error.kind(), package) {
        (ErrorKind::NotFound, Some(package)) => {
            anyhow::anyhow!(
                "{program} is not on this machine: install it with `apt-get install {package}`"
            )
        }
        _ => anyhow::Error::from(error).context(format!("cannot run {program}")),
    }
}

/// The last lines, and before them the first error: a compiler goes on after it.
fn quote_errors(said: &str) -> String {
    let last = last_lines(said, 15);
    match said.lines().find(|line| line.contains("error: ")) {
        Some(first) if !last.contains(first) => format!("{first}\n...\n{last}"),
        _ => last,
    }
}

/// The last `count` lines.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Reads a file, naming it in the error.
pub fn read(path: &std::path::Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_names_its_package() {
        let error = missing_program("pahole", ErrorKind::NotFound.into()).to_string();
        assert_eq!(
            error,
            "pahole is not on this machine: install it with `apt-get install pahole`"
        );
    }

    #[test]
    fn the_first_error_is_quoted_however_much_follows() {
        let many = "a.c:1: error: the cause\n".to_owned() + &"a.c:2: error: more\n".repeat(20);
        let text = quote_errors(&many);
        assert!(text.starts_with("a.c:1: error: the cause\n...\n"), "{text}");
        assert_eq!(text.lines().count(), 17);
        assert_eq!(quote_errors("error: all\nof it\n"), "error: all\nof it");
    }

    #[test]
    fn a_failing_tool_is_quoted() {
        let error = run_to_success(Command::new("sh").args(["-c", "echo the reason >&2; exit 3"]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("sh failed (exit status: 3)") && error.contains("the reason"),
            "{error}"
        );
    }
}
