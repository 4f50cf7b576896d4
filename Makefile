# SPDX-License-Identifier: GPL-2.0-only
# `make help` says what can be done.

PREFIX ?= /usr/local
KDIR ?= /lib/modules/$(shell uname -r)/build
# The kernel those headers are of.
KRELEASE = $(shell cat $(KDIR)/include/config/kernel.release 2>/dev/null || uname -r)
FUZZ_SECONDS ?= 60
# What the debug kernel looks for: kasan, or kcsan.
KIND ?= kasan

# Where rustup puts cargo; last, so that a cargo on the path wins.
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET := $(or $(CARGO_TARGET_DIR),target)
# What is built for: FOR=amd64 or arm64, by Debian's names; this machine if it is not said.
MACHINE_amd64 := x86_64
MACHINE_arm64 := aarch64
MACHINE := $(if $(FOR),$(MACHINE_$(FOR)),$(shell uname -m))
$(if $(MACHINE),,$(error FOR is amd64 or arm64, not `$(FOR)`))
export CARGO_BUILD_TARGET := $(MACHINE)-unknown-linux-gnu
BINARY := $(TARGET)/$(CARGO_BUILD_TARGET)/release/weir-bench
# Debian's name of what is built for.
STATIC_DIR := $(abspath $(TARGET)/static/$(if $(filter aarch64,$(MACHINE)),arm64,amd64))
DEB_DIR := $(abspath $(TARGET)/deb)
# What tests of Kubernetes' runtime take into their guest, and how Go makes it: static, so that it
# runs in an image with nothing else.
KUBE_DIR := $(abspath $(TARGET)/kubernetes)
# The one place a version is written.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
GO_BUILD := CGO_ENABLED=1 go build -trimpath -tags netgo,osusergo -ldflags '-linkmode external -extldflags -static -s -w'
# The packages name no address that answers mail: there is none yet.
UNANSWERED := bogus-mail-host,bogus-mail-host-in-debian-changelog
# What the demo's guests keep time by: the instructions they execute, the same on any machine, or this machine's clock.
CLOCK ?= instructions
CLOCK_instructions := --count-instructions
CLOCK_emulated :=
$(if $(filter instructions emulated,$(CLOCK)),,$(error CLOCK is instructions or emulated, not `$(CLOCK)`))
# What runs in the lab, too, and meets its expectations on the twin.
TWIN := dirty-knobs bandwidth io-psi io-psi-scarce no-knob rate-based-10dd floor-sustained ceiling ceiling-ratio weight
# Of those, what guests with one CPU, and disks in their memory, show as well.
COMPARED := dirty-knobs io-psi no-knob rate-based-10dd floor-sustained ceiling-ratio weight ceiling
# Calls of fsync, which the twin was not fitted to.
COMPARED += $(addprefix fsync/,ext4-append ext4-overwrite xfs-append xfs-overwrite alone)
# Windows on a flood.
COMPARED += $(addprefix window/,two-floods subtree later-ext4 later-xfs reads-in-order with-ceiling)
COMPARED += $(addprefix window/,weights-fsync weights-nested xfs-fast xfs-random)
TWIN_GUESTS ?= 5
# What is made for guests that count instructions.
COUNTED := io-psi fsync bounded-sync
BIN_DIR := $(DESTDIR)$(PREFIX)/bin
SHARE_DIR := $(DESTDIR)$(PREFIX)/share
MAN_DIR := $(SHARE_DIR)/man/man1
MODULE_DIR := $(DESTDIR)/lib/modules/$(KRELEASE)/updates

help: ## say what can be done here
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## show one noisy writer and its victim, on a stock kernel and with weir (CLOCK=emulated: by this machine's clock)
	./weir run scenarios/dirty-knobs.toml --on lab $(CLOCK_$(CLOCK))

setup: ## install what this machine lacks (apt-get, with sudo if not root)
	@tools/setup.sh

build: ## build weir-bench, which has all commands
	cargo build --locked --release --package weir-bench

static: ## build one static binary of what a node needs, target/static/ARCHITECTURE/weir (FOR=arm64: from here for arm64)
	@tools/setup.sh
	$(if $(filter-out $(shell uname -m),$(MACHINE)),@tools/setup.sh $(FOR))
	cargo build --locked --profile static --package weir
	install -D -m 755 $(TARGET)/$(CARGO_BUILD_TARGET)/static/weir $(STATIC_DIR)/weir
	tools/man.sh $(STATIC_DIR)/man node
	@stat --format '%n: %s bytes' $(STATIC_DIR)/weir

proof-static: setup arm64 ## build both static binaries, run them alone in roots of guests, arm64 among them (10 minutes)
	cargo test --locked --package weir-bench --test guest -- --ignored --nocapture --test-threads 1 node::

kmod: ## build the module for the running kernel, or for KDIR=...
	@test -e $(KDIR)/Makefile || { echo "make kmod: no kernel headers at $(KDIR): run \`tools/setup.sh kmod\`, or give KDIR=..." >&2; exit 1; }
	$(MAKE) -C kmod KDIR=$(KDIR) modules

test: ## check format and lints, run every test, guests included (twenty minutes on two idle cores)
	@tools/setup.sh test
	tools/test.sh

test-quick: ## run every test that needs no guest
	cargo test --locked --workspace --exclude weir-bench
	cargo test --locked --package weir-bench --bins --test cli --test docs --test manual --test packages \
		--test plan --test report

scenarios: setup ## run all scenarios at full length, three times each (an hour or more)
	@failed=; for scenario in scenarios/*.toml; do \
		case " $(COUNTED) " in *" $$(basename $$scenario .toml) "*) clock=--count-instructions;; *) clock=;; esac; \
		./weir run $$scenario --on lab --repeat 3 $$clock || failed="$$failed $$scenario"; \
	done; test -z "$$failed" || { echo "did not show what they must:$$failed" >&2; exit 1; }

hardware: build ## run five scenarios on the disk that DIR=... lies on, keep all that was measured in one archive (as root; half an hour)
	@test -n "$(DIR)" || { echo "make hardware: give DIR=..., a directory on the disk, with 12 GiB free" >&2; exit 1; }
	WEIR=$(BINARY) tools/hardware.sh $(DIR)

twin: build ## run what the twin can run, hosts that no lab has included (seconds)
	@failed=; for scenario in $(TWIN:%=scenarios/%.toml) scenarios/twin/*.toml; do \
		$(BINARY) run $$scenario --on twin || failed="$$failed $$scenario"; \
	done; test -z "$$failed" || { echo "did not show what they must:$$failed" >&2; exit 1; }

twin-guests: setup ## hold the twin against guests that count instructions, five in each arm (some hours; TWIN_GUESTS=1 for less)
	@for scenario in $(COMPARED); do \
		./weir compare scenarios/$$scenario.toml --count-instructions --repeat $(TWIN_GUESTS); \
		test $$? -le 1 || exit 1; \
	done

twin-random: ## look for a scenario that breaks the twin's promises, RANDOM_SCENARIOS=10000 of them (some minutes)
	cargo test --locked --package twin --test invariants -- --ignored --nocapture

sweep-ray: build ## sweep over a local Ray cluster of two workers, and compare with a sweep without (Ray comes from the Python package index)
	@test -d $(TARGET)/sweep-ray || python3 -m venv $(TARGET)/sweep-ray
	$(TARGET)/sweep-ray/bin/pip install --quiet --requirement bench/python/requirements.txt
	WEIR=$(abspath $(BINARY)) PYTHONPATH=bench/python $(TARGET)/sweep-ray/bin/python -m pytest -p no:cacheprovider -q bench/python/tests

report-pages: build ## use pages of weir report in a real browser, take screenshots, read a trace by Perfetto's schema (a minute)
	@tools/setup.sh pages
	tools/report-pages.sh $(abspath $(BINARY)) $(abspath $(TARGET)/report-pages)

matrix: setup arm64 ## run what has no result yet of the module's tests on each kernel, write docs/support.md (hours; goes on where it was)
	./weir kernels --all >/dev/null
	tools/matrix.sh $(MATRIX)

kernels: setup ## ask the oracle about each kernel of the archive that docs/kernels.tsv does not have (KERNELS=--newest: the newest alone)
	./weir kernels --new $(KERNELS)

proof: setup ## fuzz the knobs, overload the probes, stir up a stock kernel (about half an hour)
	cargo test --locked --package weir-bench --test guest -- --ignored --nocapture --test-threads 1 proof:: module:: oracle:: lab:: host:: \
		--skip a_kernel_without_arguments --skip chaos_on_the_debug_kernel --skip hostile_tenant --skip fifty_writers

rt: setup ## run the module's tests on PREEMPT_RT, print its longest sections with interrupts off (10 minutes)
	cargo test --locked --package weir-bench --test guest -- --ignored --nocapture --test-threads 1 rt::

scale: setup ## measure the beat among 10,000 cgroups, 50,000 removed ones, 256 possible CPUs (half an hour, 9 GiB)
	cargo test --locked --package weir-bench --test guest -- --ignored --nocapture --test-threads 1 scale::

stalls: setup ## stage every stall that explain tells apart, on both kernels, with and without the module (15 minutes)
	cargo test --locked --package weir-bench --test guest -- --ignored --nocapture --test-threads 1 explain::

tiers: setup ## bring cgroups to their shares of fast memory, kill agents while checksummed memory moves, take memory offline, weigh one at rest (fifty minutes; TIER_SECONDS=30 for less)
	cargo test --locked --release --package weir-bench --test guest -- --ignored --nocapture --test-threads 1 tiers::

metrics: ## have a real Prometheus scrape the agent and answer every query of the dashboard (a minute)
	tools/metrics.sh

chaos: setup debug-kernel ## half an hour of everything at once on the debug kernel
	cargo test --locked --package weir-bench --test guest -- --ignored --nocapture chaos_on_the_debug_kernel

hostile: setup debug-kernel ## play an unprivileged tenant for ten minutes, and remove what 50 writers sleep on, on the debug kernels and poisoned ones (hours)
	cargo test --locked --package weir-bench --test guest -- --ignored --nocapture --test-threads 1 hostile_tenant fifty_writers neighbour_notices

cost: setup arm64 ## count the instructions weir adds, and write docs/cost.md
	tools/cost.sh

record-cost: setup build ## count the instructions that weir record adds to what a thousand writers do (some minutes, with nothing beside it)
	$(BINARY) exec --no-module --cpus 1 --memory 5G --count-instructions --driver brd --timeout 30m \
		--file kmod/tests/tap.sh:/tap.sh bench/weir-bench/tests/guest/record-cost.sh 1000

debug-kernel: ## build the kernel that --kernel debug boots, with KASAN, lockdep, kmemleak, or KIND=kcsan (half an hour)
	@tools/setup.sh debug-kernel
	cargo run --locked --package lab --example debug-kernel -- $(KIND)

refused: setup ## hold the oracle against the module on small kernels built to be refused, one without ftrace among them (an hour and a half on a busy machine)
	@tools/setup.sh debug-kernel
	cargo test --locked --package weir-bench --test guest -- --ignored --nocapture --test-threads 1 refused::

patched: setup ## build a kernel with a one-line patch, and without, and run a scenario in its arm (an hour, then minutes)
	@tools/setup.sh debug-kernel
	cargo test --locked --package weir-bench --test guest -- --ignored --nocapture --test-threads 1 patched::

reservation: setup ## hold the host's limit with floors that fill it, every case five times (two hours)
	tools/reservation.sh

fuzz: ## look for input that breaks a promise of the policy, for FUZZ_SECONDS=60
	@tools/setup.sh fuzz
	mkdir -p node/policy/fuzz/found node/policy/fuzz/artifacts
	cd node/policy/fuzz && RUSTFLAGS="--cfg fuzzing" cargo run --locked --release --target-dir target -- \
		-max_total_time=$(FUZZ_SECONDS) -max_len=400 -use_value_profile=1 -print_final_stats=1 \
		-artifact_prefix=artifacts/ found corpus/policy

arm64: setup ## build the command for arm64 guests, --kernel debian:6.12:cloud:arm64 (two minutes)
	@tools/setup.sh arm64
	cargo build --locked --profile quick --package weir-bench --target aarch64-unknown-linux-gnu

proof-arm64: arm64 ## run the module's tests and the demo in arm64 guests (half an hour)
	cargo test --locked --package weir-bench --test guest -- --ignored --nocapture --test-threads 1 arm64:: a_kernel_without_arguments

deb: ## build Debian packages: weir, weir-bench, and weir-dkms with the module's source (FOR=arm64: from here for arm64)
	@tools/setup.sh deb
	$(if $(filter-out $(shell uname -m),$(MACHINE)),@tools/setup.sh $(FOR))
	rm -rf $(DEB_DIR)
	mkdir -p $(DEB_DIR)
	WEIR_DEB_DIR=$(DEB_DIR) $(FOR:%=dpkg-architecture -a% -f -c) debian/rules clean binary
	debian/rules clean
	lintian --quiet --allow-root --fail-on error,warning --suppress-tags $(UNANSWERED) $(DEB_DIR)/*.deb
	@ls $(DEB_DIR)/*.deb

rpm: ## build RPM packages, weir and weir-dkms, install them into an empty root and check it (COMMAND=FILE: that binary)
	@tools/setup.sh rpm
	$(if $(COMMAND),,$(MAKE) static)
	packaging/rpm/build.sh $(abspath $(TARGET)/rpm) $(VERSION) $(abspath $(or $(COMMAND),$(STATIC_DIR)/weir))
	packaging/rpm/check.sh $(abspath $(TARGET)/rpm) $(VERSION)

sysext: ## build a system extension for hosts whose /usr is read-only, and merge it into an empty root (PREBUILT=DIRECTORY of RELEASE/weir.ko)
	@tools/setup.sh sysext
	$(if $(COMMAND),,$(MAKE) static)
	packaging/sysext/build.sh $(abspath $(TARGET)/sysext) $(abspath $(or $(COMMAND),$(STATIC_DIR)/weir)) $(PREBUILT)
	packaging/sysext/check.sh $(abspath $(TARGET)/sysext)/weir.raw

nix: ## evaluate the Nix expression of command and module, packaging/nix (seconds; it was never built)
	@tools/setup.sh nix
	packaging/nix/check.sh

test-dkms: ## have DKMS build the module in Debian 12 and 13 for each kernel (PLACES=bookworm:arm64 emulated)
	@tools/setup.sh deb
	@tools/setup.sh dkms
	rm -rf $(TARGET)/dkms
	mkdir -p $(TARGET)/dkms
	WEIR_DEB_DIR=$(abspath $(TARGET)/dkms) debian/rules clean binary-indep
	debian/rules clean
	tools/dkms.sh $(TARGET)/dkms/weir-dkms_$(VERSION)_all.deb $(TARGET)/dkms/logs $(PLACES)

test-containers: setup deb ## real runtimes in a Debian guest that installs the packages (10 minutes)
	@tools/setup.sh system
	packaging/run.sh $(DEB_DIR)

test-requests: setup deb sysext ## units, Podman's Quadlet, Ansible and a system extension in a Debian 13 guest (15 minutes)
	@tools/setup.sh system
	rm -rf $(TARGET)/requests
	mkdir $(TARGET)/requests
	cp $(DEB_DIR)/*.deb $(TARGET)/sysext/weir.raw packaging/ansible/weir.yml $(TARGET)/requests
	packaging/run.sh $(TARGET)/requests trixie packaging/requests

nri: ## build weir-nri, which gives pods of Kubernetes their knobs, and weir-node, which labels nodes (needs Go)
	@tools/setup.sh go
	cd cluster/nri && $(GO_BUILD) -o $(KUBE_DIR)/programs/weir-nri .
	cd cluster/nri && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(KUBE_DIR)/programs/weir-node ./weir-node

chart-images: static nri ## make the images of cluster/charts/weir, target/kubernetes/weir.tar and weir-module.tar (PREBUILT=DIRECTORY of RELEASE/weir.ko, SUITE=trixie)
	@tools/setup.sh system
	cp $(STATIC_DIR)/weir $(KUBE_DIR)/programs
	cluster/charts/images.sh $(KUBE_DIR) $(VERSION) $(KUBE_DIR)/programs $(PREBUILT)

manifests: ## render cluster/charts/weir to cluster/charts/manifests
	@tools/setup.sh go
	cluster/charts/render.sh cluster/charts/manifests

test-chart: ## lint the chart, check what it renders against the API's types (builds helm once, some minutes)
	@tools/setup.sh go
	cd cluster/charts/check && unformatted=$$(gofmt -l .) && { test -z "$$unformatted" || { echo "gofmt: $$unformatted" >&2; false; }; }
	cd cluster/charts/check && go vet ./... && go test ./...

test-nri: ## check the Go code's format and lints, run its tests
	@tools/setup.sh go
	cd cluster/nri && unformatted=$$(gofmt -l .) && { test -z "$$unformatted" || { echo "gofmt: $$unformatted" >&2; false; }; }
	cd cluster/nri && go vet ./... && go test ./...

test-kubernetes: setup deb chart-images ## pods through containerd's CRI in a Debian 13 guest, by the chart's images (an hour; WEIR_TESTS="prepare node" for less, WEIR_SUITE=trixie+sid for unstable's containerd)
	@tools/setup.sh system
	rm -rf $(KUBE_DIR)/payload
	mkdir $(KUBE_DIR)/payload
	cd cluster/nri && $(GO_BUILD) -o $(KUBE_DIR)/payload/cripod ./cripod
	cp $(DEB_DIR)/*.deb $(KUBE_DIR)/programs/weir-nri packaging/oci.sh $(KUBE_DIR)/payload
	gzip -1 -c $(KUBE_DIR)/weir.tar >$(KUBE_DIR)/payload/weir.tar.gz
	gzip -1 -c $(KUBE_DIR)/weir-module.tar >$(KUBE_DIR)/payload/weir-module.tar.gz
	cluster/charts/render.sh --guest $(KUBE_DIR)/payload
	WEIR_GUEST_SECONDS=$${WEIR_GUEST_SECONDS:-7200} packaging/run.sh $(KUBE_DIR)/payload $${WEIR_SUITE:-trixie} packaging/kubernetes
	test -n "$$WEIR_TESTS" || WEIR_TESTS="prepare auto" WEIR_GUEST_SECONDS=$${WEIR_GUEST_SECONDS:-7200} \
		packaging/run.sh $(KUBE_DIR)/payload $${WEIR_SUITE:-trixie} packaging/kubernetes

test-kubelet: setup deb nri ## pods through a real kubelet, kube-apiserver and etcd in a Debian 13 guest (half an hour once to build them; an hour)
	@tools/setup.sh system
	rm -rf $(KUBE_DIR)/kubelet
	mkdir $(KUBE_DIR)/kubelet
	cd packaging/kubelet && for program in kubelet kube-apiserver kubectl; do \
		CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(KUBE_DIR)/kubelet/ k8s.io/kubernetes/cmd/$$program && \
		gzip -1 $(KUBE_DIR)/kubelet/$$program || exit 1; done
	cd cluster/nri && $(GO_BUILD) -o $(KUBE_DIR)/kubelet/cripod ./cripod
	cp $(DEB_DIR)/*.deb $(KUBE_DIR)/programs/weir-nri packaging/oci.sh $(KUBE_DIR)/kubelet
	WEIR_TESTS="prepare install kubelet" WEIR_GUEST_SECONDS=$${WEIR_GUEST_SECONDS:-7200} \
		packaging/run.sh $(KUBE_DIR)/kubelet trixie packaging/kubernetes

# The command of a node and its manual alone, as in the package weir. COMMAND=FILE: this binary, built before.
install-command: $(if $(COMMAND),,static)
	install -D -m 755 $(or $(COMMAND),$(STATIC_DIR)/weir) $(BIN_DIR)/weir
	tools/man.sh $(MAN_DIR) node
	install -D -m 644 packaging/completions/weir.bash $(SHARE_DIR)/bash-completion/completions/weir
	install -D -m 644 packaging/completions/_weir $(SHARE_DIR)/zsh/vendor-completions/_weir
	install -D -m 644 packaging/completions/weir.fish $(SHARE_DIR)/fish/vendor_completions.d/weir.fish

# The same of the bench, as in the package weir-bench.
install-bench: build
	install -D -m 755 $(BINARY) $(BIN_DIR)/weir-bench
	tools/man.sh $(MAN_DIR) bench
	install -D -m 644 packaging/completions/weir-bench.bash $(SHARE_DIR)/bash-completion/completions/weir-bench
	install -D -m 644 packaging/completions/_weir-bench $(SHARE_DIR)/zsh/vendor-completions/_weir-bench
	install -D -m 644 packaging/completions/weir-bench.fish $(SHARE_DIR)/fish/vendor_completions.d/weir-bench.fish

install: install-command install-bench kmod ## install both commands, man pages and module (PREFIX, DESTDIR, KDIR)
	install -D -m 644 kmod/weir.ko $(MODULE_DIR)/weir.ko
	$(if $(DESTDIR),,depmod $(KRELEASE))

uninstall: ## remove what install put in place
	rm -f $(BIN_DIR)/weir $(BIN_DIR)/weir-bench $(MAN_DIR)/weir.1 $(MAN_DIR)/weir-*.1 $(MODULE_DIR)/weir.ko
	rm -f $(SHARE_DIR)/bash-completion/completions/weir $(SHARE_DIR)/zsh/vendor-completions/_weir $(SHARE_DIR)/fish/vendor_completions.d/weir.fish
	rm -f $(SHARE_DIR)/bash-completion/completions/weir-bench $(SHARE_DIR)/zsh/vendor-completions/_weir-bench $(SHARE_DIR)/fish/vendor_completions.d/weir-bench.fish
	$(if $(DESTDIR),,depmod $(KRELEASE))

clean: ## remove what was built; the lab's downloads in .cache stay
	cargo clean
	rm -rf node/policy/fuzz/target
	if test -e $(KDIR)/Makefile; then $(MAKE) -C kmod KDIR=$(KDIR) clean; fi

.PHONY: hardware rpm sysext nix static proof-static kernels refused arm64 proof-arm64 hostile rt scale help demo setup build kmod test test-quick scenarios matrix stalls reservation fuzz deb nri chart-images manifests test-chart test-nri test-kubernetes test-kubelet test-dkms test-containers test-requests install-command install-bench install uninstall clean debug-kernel proof chaos cost record-cost metrics twin-random report-pages sweep-ray tiers
