#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Lines of code of the module with a floor and a ceiling set and nothing else: all of the core
# build, and of it what is on the path of a pass, a beat or a write.  Blank lines and comments
# do not count; what only runs at load (main, symbols, btf, layout, needs), and what hooks and
# unhooks the kernel's functions (hook), is not on the path.
set -eu
cd "$(dirname "$0")/../kmod"
code() { # FILE...
	cat -- "$@" | gcc -fpreprocessed -dD -E -P - 2>/dev/null | grep -c '[^[:space:]]'
}
core=$(sed -n 's/^weir-y :\{0,1\}+\{0,1\}= *//p' Kbuild | tr ' ' '\n' | sed 's/\.o$/.c/')
path=
for file in $core; do
	case $file in
	main.c | hook.c | symbols.c | btf.c | layout.c | status.c | policy/btf.c | policy/needs.c) ;;
	*) path="$path $file" ;;
	esac
done
options=
for file in $(sed -n 's/^weir-\$(WEIR_[BFDT][A-Z]*) += *//p' Kbuild); do
	options="$options ${file%.o}.c"
done
# shellcheck disable=SC2086 # lists of files
{
	echo "on the path: $(code $path) lines in $(echo $path | wc -w) files"
	echo "the core, with what runs at load, hooks and status: $(code $core) lines"
	echo "all headers: $(code ./*.h policy/*.h) lines"
	echo "options (bandwidth, flusher, drain, tiers): $(code $options) lines"
}
