#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Evaluates default.nix by Nix itself, with builders that return what they are called with, and
# holds it against the tree: version, sources, lock file, and each file that a phase installs.
set -eu
cd "$(dirname "$0")/../.."
NIX_STATE_DIR=$(mktemp -d)
trap 'rm -rf "$NIX_STATE_DIR"' EXIT
export NIX_STATE_DIR
evaluate() { # EXPRESSION
	nix-instantiate --eval --strict --json --readonly-mode --store dummy:// --expr "
		let
			pkgs = { pkgsStatic.rustPlatform.buildRustPackage = x: x; stdenv.mkDerivation = x: x; };
			kernel = { modDirVersion = \"6.12.0\"; dev = \"/kernel\"; moduleBuildDependencies = [ ]; };
			weir = import ./packaging/nix { inherit pkgs; };
			module = weir.module kernel;
		in $1"
}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
for package in weir.command module; do
	[ "$(evaluate "$package.version")" = "\"$version\"" ] || {
		echo "nix: $package has another version than Cargo.toml, $version" >&2
		exit 1
	}
done
lock=$(evaluate 'toString weir.command.cargoLock.lockFile' | tr -d '"')
[ -e "$lock" ] || {
	echo "nix: no lock file $lock" >&2
	exit 1
}
evaluate '"${weir.command.src} ${module.src}"' >/dev/null
# Files that phases name, but what is built and what begins with a variable.
phases=$(evaluate '"${weir.command.postInstall} ${module.buildPhase} ${module.installPhase}"')
for file in $(printf '%b' "$phases" | tr ' "' '\n\n' | grep -E '^(kmod|packaging|tools|policy)(/|$)'); do
	case $file in
	kmod/weir.ko) ;;
	*) [ -e "$file" ] || {
		echo "nix: no $file in the tree" >&2
		exit 1
	} ;;
	esac
done
echo "nix: both packages of $version evaluate"
