# Everything a newcomer needs:  make demo   and   make test   (both run `make setup` first).
# `make help` lists the rest. The work is in scripts/, so that each step also runs by hand.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help gains setup install uninstall demo demo-compare test bench bench-kernel bench-record bench-report bench-faults bench-collector bench-fleet bench-software bench-layout planished kernel-e2e kernel-unwind kernel-here kernel-modules kernel-instrumented kernel-matched study arm64 fuzz options build fmt clippy msrv licences clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

setup: ## install from Debian or Ubuntu what is missing; says what; nothing the second time
	@scripts/setup.sh

build: setup ## the release binary and the libraries it loads elsewhere, in target/release
	@scripts/build.sh

install: build ## planish, its libraries, man pages and completions into PREFIX (/usr/local); as root where that asks for it
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install.sh

uninstall: ## take away what `make install` put there (same PREFIX)
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install.sh --uninstall

demo: setup ## record, profile, rebuild, measure and report SQLite (15 minutes the first time)
	@scripts/demo.sh

test: setup ## every test, then a short fuzz run over the kept inputs
	@scripts/setup.sh test
	@scripts/test.sh

bench: ## planish beside its peers, the error rates of compare, software branch stacks; writes measurements/
	@scripts/setup.sh bench
	@scripts/bench.sh
	@scripts/bench-compare.sh
	@scripts/bench-record.sh
	@scripts/bench-software.sh
	@scripts/bench-livepatch.sh
	@scripts/bench-dwarf.sh
	@scripts/bench-layout.sh

gains: setup ## planish on real programs beside PGO and BOLT (hours; make gains PROGRAM=xz for one); writes measurements/
	@scripts/setup.sh bench
	@scripts/gains.sh $(PROGRAM)

bench-layout: setup ## layouts of SQLite beside BOLT: taken branches, L1i misses, CPU time (40 minutes); writes measurements/
	@scripts/setup.sh bench
	@scripts/bench-layout.sh

planished: setup ## planish rebuilt with a profile and a layout of itself, beside the plain build; writes measurements/
	@scripts/planished.sh

bench-record: ## planish record beside perf record (root); writes measurements/
	@scripts/bench-record.sh

bench-report: setup ## planish report beside perf, samply, hotspot and inferno on 1 GB (BENCH_LARGE=20000000000: 20 GB, too); writes measurements/
	@scripts/setup.sh bench
	@scripts/bench-report.sh

bench-fleet: setup ## planish fleet merge beside DuckDB at 1, 10 and 100 million rows, and when shards are enough; writes measurements/
	@scripts/setup.sh bench
	@scripts/bench-fleet.sh
	@scripts/bench-fleet-enough.sh

bench-faults: ## recordings on slow and full disks, recorders killed at 200 moments (root); writes measurements/
	@scripts/bench-faults.sh

bench-collector: setup ## what a collector costs on an idle and a loaded machine, and what kill -9 at 200 moments loses (an hour, root); writes measurements/
	@scripts/bench-collector.sh

bench-software: setup ## what software branch stacks cost and how exact they are; writes measurements/
	@scripts/bench-software.sh

demo-compare: setup ## four comparisons of SQLite builds (20 minutes); writes docs/examples/
	@scripts/demo-compare.sh

bench-kernel: ## planish beside llvm-profgen on Debian's kernel (downloads 300 MB); writes measurements/
	@scripts/setup.sh bench
	@scripts/bench-kernel.sh

kernel-e2e: setup ## a Linux 6.12 with profile and layout from Debian's sources, booted and measured (30 minutes; SERIES=6.1 too)
	@scripts/setup.sh kernel
	@scripts/kernel-e2e.sh $(or $(SERIES),6.12)

study: setup ## a study on kernels: make study NAME=align (20 minutes); writes measurements/
	@scripts/setup.sh kernel
	@scripts/study.sh $(NAME)

kernel-here: build ## does `planish kernel here` take a machine through boots by GRUB? an emulated one (20 minutes the first time)
	@scripts/setup.sh kernel
	@scripts/kernel-here.sh $(ROUNDS)

kernel-modules: build ## profile and layout of a kernel's modules, ext4, IPv6 and one outside of the tree, measured (an hour)
	@scripts/setup.sh kernel
	@scripts/kernel-modules.sh

kernel-instrumented: build ## what gcc's instrumented profile gives a kernel, beside a sampled one (40 minutes)
	@scripts/setup.sh kernel
	@scripts/kernel-instrumented.sh

kernel-matched: build ## what a profile of one stable release of Linux is worth at a later one (an hour)
	@scripts/setup.sh kernel
	@scripts/kernel-matched.sh $(SERIES)

kernel-unwind: setup ## do stacks of a built kernel unwind while it runs, through cold parts too? make kernel-unwind BUILD=out
	@scripts/kernel-unwind.sh $(BUILD)

arm64: ## does planish build, run and record on AArch64? cross-built and emulated (20 minutes the first time, downloads 80 MB)
	@scripts/arm64.sh

fuzz: setup ## a longer fuzz run: make fuzz SECONDS_EACH=600 TARGET=perfdata
	@scripts/fuzz.sh --seconds $(or $(SECONDS_EACH),60) $(TARGET)

options: setup ## write docs/reference/options.md anew, after options have changed
	@. scripts/toolchain.sh && need_rust && PLANISH_WRITE_OPTIONS=1 $$CARGO test -q --workspace --bins page_of_options

fmt: ## check the formatting
	@. scripts/toolchain.sh && need_rust && $$CARGO fmt --all --check

clippy: ## lints as errors
	@. scripts/toolchain.sh && need_rust && $$CARGO clippy --workspace --all-targets -- -D warnings

msrv: ## no dependency needs a newer Rust than Cargo.toml states; no std call of ours does
	@. scripts/toolchain.sh && need_rust && $$CARGO test -q -p planish --test dependencies -- rust_version
	@. scripts/toolchain.sh && need_rust && $$CARGO clippy --workspace -- -D clippy::incompatible_msrv

licences: ## every dependency's licence is on the list in deny.toml
	@. scripts/toolchain.sh && need_rust && $$CARGO test -q -p planish --test dependencies -- licence

clean: ## remove what building and the demo made
	rm -rf target fuzz/target demo/*/target demo/*/.planish
