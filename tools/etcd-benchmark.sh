#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# etcd-benchmark.sh DIRECTORY: builds etcd's own load generator, DIRECTORY/benchmark, for bench/weir-bench/tests/guest/etcd.sh.
# Go checks the modules against its checksum database. etcd's go.mod replaces modules by folders, so `go install` refuses it.
set -eu
mkdir -p "$1"
cd "$1"
[ -e go.mod ] || go mod init benchmark
go get go.etcd.io/etcd/v3/tools/benchmark@v3.6.8
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' go.etcd.io/etcd/v3/tools/benchmark
