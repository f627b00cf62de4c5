# Weir's make targets; "make help" lists them. Go and make are all that most of
# them need: the targets that need more say so.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO        ?= go
FUZZTIME  ?= 30000x
BENCHTIME ?= 1s

# Go stamps the commit into the binary where it can ask git for it; a source
# archive has no commit, and "weir version" says so.
VCS = $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)

# Many tests wait most of the time, for switches, servers and kernels: more packages at a time than a small machine
# has cores, and several tests of a package. The packages that take longest begin first.
PARALLEL ?= 4
TEST      = $(GO) test -p $(PARALLEL) -parallel 4 $(TESTFLAGS)
# More flags of go test: CI, where lint vets all, has no package vetted again.
TESTFLAGS ?=
# Many tests run switches, servers and kernel peers on a machine that others use, too. With RERUNS, as in CI, up to
# three tests that failed run again, alone, and are named: one that passes then is a fault to fix, and no reason to stop.
RERUNS ?= 0
ifneq ($(RERUNS),0)
TEST = $(GO) tool gotestsum --format standard-quiet --rerun-fails=$(RERUNS) --rerun-fails-max-failures=3 \
	--rerun-fails-run-root-test --rerun-fails-abort-on-data-race --packages "$(PACKAGES)" -- -p $(PARALLEL) -parallel 4 $(TESTFLAGS)
run = $(TEST) $(1)
else
run = $(TEST) $(1) $(PACKAGES)
endif
# Tests build weir themselves, without cgo and without paths. With the same flags, all that these targets compile is compiled once.
ALIKE = lint test test-all test-arm64 arm64-some vm-some bench-once fuzz
$(ALIKE): export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
$(ALIKE): export CGO_ENABLED := 0
FIRST    := ./cmd/weir ./internal/doctest
PACKAGES  = $(FIRST) $(shell $(GO) list ./... | grep -v -e /cmd/weir$$ -e /internal/doctest$$)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## compile bin/weir, without cgo, stamped with the commit
	CGO_ENABLED=0 $(GO) build -buildvcs=$(VCS) -trimpath -o bin/weir ./cmd/weir

# Where "make install" puts things: packages set DESTDIR and PREFIX=/usr.
DESTDIR ?=
PREFIX  ?= /usr/local
ETC     ?= /etc
# WEIR runs here and writes man pages and completions; BINARY is what is installed, for another processor perhaps.
WEIR    ?= bin/weir
BINARY  ?= $(WEIR)
SHARE    = $(DESTDIR)$(PREFIX)/share

.PHONY: install
install: build install-files ## copy weir, its man pages, completions, units and examples to PREFIX (/usr/local) below DESTDIR

# The documents are where they are in the tree, so that their links and the paths of their examples hold.
DOC = $(SHARE)/doc/weir
.PHONY: install-docs
install-docs:
	install -d $(DOC)/docs/decisions $(DOC)/docs/images $(DOC)/config $(DOC)/dist/grafana $(DOC)/control/api $(DOC)/telemetry/view/api/example $(DOC)/examples/stage/ttlguard $(DOC)/examples/pace
	install -m 644 LICENSE NOTICE THIRD-PARTY-NOTICES *.md $(DOC)
	install -m 644 docs/*.md docs/*.lua docs/*.pcap $(DOC)/docs
	install -m 644 docs/decisions/*.md $(DOC)/docs/decisions
	install -m 644 docs/images/* $(DOC)/docs/images
	install -m 644 config/*.toml $(DOC)/config
	install -m 644 dist/grafana-dashboard.json dist/weir@.service dist/weir-collect.service $(DOC)/dist
	install -m 644 dist/grafana/*.json $(DOC)/dist/grafana
	install -m 644 control/api/*.proto $(DOC)/control/api
	install -m 644 telemetry/view/api/*.proto $(DOC)/telemetry/view/api
	install -m 644 telemetry/view/api/example/*.go $(DOC)/telemetry/view/api/example
	install -m 644 examples/stage/*.go examples/stage/*.toml $(DOC)/examples/stage
	install -m 644 examples/stage/ttlguard/*.go $(DOC)/examples/stage/ttlguard
	install -m 644 examples/pace/*.go $(DOC)/examples/pace
	find bench/results p4/README.md p4/include/*.p4 p4/v1model/*.p4 p4/testdata/setups/plan-shim.toml -type f -exec install -D -m 644 {} $(DOC)/{} \;

.PHONY: install-files
install-files: install-docs
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/weir
	rm -f $(SHARE)/man/man1/weir*.1.gz
	$(WEIR) man --out $(SHARE)/man/man1
	gzip -n9 $(SHARE)/man/man1/weir*.1
	mkdir -p $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(WEIR) completion bash >$(SHARE)/bash-completion/completions/weir
	$(WEIR) completion zsh >$(SHARE)/zsh/site-functions/_weir
	$(WEIR) completion fish >$(SHARE)/fish/vendor_completions.d/weir.fish
	mkdir -p $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in weir@.service weir-collect.service; do \
		sed 's|/usr/bin/weir|$(PREFIX)/bin/weir|' dist/$$unit >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit; done
	[ -e $(DESTDIR)$(ETC)/weir/collect.toml ] || install -D -m 644 dist/collect.toml $(DESTDIR)$(ETC)/weir/collect.toml

# A release is of the version that CHANGELOG.md has first.
VERSION ?= $(shell sed -n 's/^\#\# \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -1)
ARCHES  ?= amd64 arm64
RELEASE ?= bin/release
.PHONY: release
release: ## archives, deb, rpm, OCI images, lists of modules and checksums into RELEASE (bin/release), reproducibly
	VERSION=$(VERSION) ARCHES="$(ARCHES)" dist/release.sh $(RELEASE)

.PHONY: release-test
release-test: ## make the release for this processor twice, compare, install each package in a clean root and run it (root; rpm, iproute2)
	VERSION=$(VERSION) ARCHES=$$($(GO) env GOARCH) dist/release.sh bin/release-test
	VERSION=$(VERSION) ARCHES=$$($(GO) env GOARCH) dist/release.sh bin/release-again
	diff bin/release-test/SHA256SUMS bin/release-again/SHA256SUMS && rm -r bin/release-again
	VERSION=$(VERSION) dist/try.sh bin/release-test

.PHONY: demo
demo: build ## three switches between two hosts in network namespaces, with real traffic (root)
	bin/weir lab run config/demo.toml

.PHONY: test
test: here ## before each commit, in minutes: all packages, small (go test -short); without root, tests in network namespaces skip
	$(call run,-short -timeout 30m)

.PHONY: test-all
test-all: PACKAGES := $(filter-out %/dataplane/vm,$(PACKAGES))
test-all: here ## all tests but vm-some, in full size: figures, faults, labs and documents of all kinds
	$(call run,-timeout 50m)

.PHONY: test-arm64
test-arm64: ## all packages built and vetted for arm64, and their tests, small, as arm64 programs but those of internal/arm64/left-out.txt, in half an hour (qemu-user)
	GO="$(GO)" TESTFLAGS="$(TESTFLAGS)" internal/arm64/test.sh

.PHONY: arm64-some
arm64-some: ## of test-arm64 the packages with assembly for arm64 (qemu-user)
	GO="$(GO)" TESTFLAGS="$(TESTFLAGS)" internal/arm64/test.sh some

.PHONY: test-duckdb
test-duckdb: ## DuckDB reads the Parquet files back (a C++ linker)
	CGO_ENABLED=1 $(GO) test -count=1 -mod=mod -modfile=telemetry/view/parquet/duckdb/duckdb.mod -tags duckdb ./telemetry/view/parquet/duckdb ./telemetry/collect/archive
	CGO_ENABLED=1 $(GO) test -count=1 -mod=mod -modfile=telemetry/view/parquet/duckdb/duckdb.mod -tags duckdb -run '^TestDuckDBRollups$$' ./telemetry/collect/service

# versitygw is a module of its own, with its versions in internal/s3test/testdata: none of its modules is among ours.
.PHONY: test-s3
test-s3: ## the archive in a real store of S3, versitygw, built from its module; not in test-all, as that takes 110 s of CPU at first, 8 s later
	cd internal/s3test/testdata && CGO_ENABLED=0 $(GO) build -mod=mod -trimpath -o $(CURDIR)/bin/versitygw github.com/versity/versitygw/cmd/versitygw
	WEIR_TEST_S3=$(CURDIR)/bin/versitygw $(GO) test -count=1 -run 'S3' ./telemetry/collect/archive ./telemetry/collect/service

# Tests that compute take ten times as long under the race detector, and packages that begin no goroutines, and whose tests
# begin none, have nothing for it to find.
CONCURRENT = grep -qE 'go func|\bgo [a-zA-Z.]+\(|\.Go\(|errgroup|net\.Listen|AfterFunc' "$$dir"/*.go
# So do these, of one goroutine each, in packages that have others. What the last six start as processes other tests start, too, and so
# do the goroutines of the first nine.
ALONE = TestUnevenMemories|TestSomeBurstyFlows|TestLDSFig9Holds|TestLDSFig11Holds|TestEntropies|TestUnevenEpochs|TestDSFig13Holds|TestDSFig14Holds|TestDSFig16Holds|TestFamily|TestHashFamilies|TestSecondWords|TestScatter|TestSpill|TestVariance|TestShims|TestTrie|TestManyCountingRules|TestPassForwards|TestLayerSearch|TestDSOrder|TestTopologyHelps|TestNoWrongPathIsCertain|TestRivals|TestCondenseRead|TestEveryPacketOnce|TestTwin|TestTableTwin|TestRecords|TestFlood|TestDigestsChooseFragments|TestFrequencyByBothSystems|TestObserveIsExact|TestFlowsAreDistinct|TestDrawReachesTheTail|TestZipfTable|TestQuerySelections|TestCollectorLab|TestPintIPID|TestPintIsNotSeen|TestPintTellsTheSketch|TestPintDissector
.PHONY: race
race: PACKAGES = ./cmd/weir $(shell $(GO) list -f '{{.ImportPath}} {{.Dir}}' ./... | grep -v -e /cmd/weir' ' -e /internal/doctest' ' | \
	while read -r package dir; do if $(CONCURRENT); then echo "$$package"; fi; done)
race: here ## what test runs, under the race detector: the packages with goroutines (a C compiler)
	CGO_ENABLED=1 $(call run,-short -race -skip '^($(ALONE))$$' -timeout 30m)

.PHONY: here
here:
	@$(GO) test -count=1 -v -run '^TestHere$$' ./dataplane/lab/netnstest | sed -n 's/^ *netnstest_test.go:[0-9]*: /the tests in network namespaces: /p'

.PHONY: pictures
pictures: ## the pictures of the page in docs/images (Chromium; netsim's data for Kentucky)
	WEIR_REQUIRE_CHROMIUM=1 WEIR_PICTURES=$(CURDIR)/docs/images $(GO) test -count=1 -timeout 20m -run '^(TestPictures|TestLooks|TestThousand)$$' ./telemetry/view/page

.PHONY: flaps
flaps: ## 1,000 link flaps and 100 lost interfaces under load (root)
	WEIR_REQUIRE_NETNS=1 WEIR_FLAPS=1000 WEIR_RECREATE=100 $(GO) test -count=1 -timeout 20m -v -run '^(TestFlaps|TestRecreated)$$' ./dataplane/worker

GARBAGE ?= 1000000
HOSTILE = ^(TestHostileGuests|TestHostileMemif|TestGarbage|TestGarbageClient)$$
.PHONY: garbage
garbage: ## GARBAGE (1000000) rounds of hostile guests and of hostile peers of memif, twice: the second time under the race detector (a C compiler)
	WEIR_GARBAGE=$(GARBAGE) $(GO) test -count=1 -timeout 60m -v -run '$(HOSTILE)' ./node ./dataplane/memif
	CGO_ENABLED=1 WEIR_GARBAGE=$(GARBAGE) $(GO) test -race -count=1 -timeout 120m -v -run '$(HOSTILE)' ./node ./dataplane/memif

KILLS ?= 100
.PHONY: kills
kills: ## KILLS (100) kills of DPDK's testpmd and of the switch, by vhost-user and memif (root; dpdk-dev, huge pages)
	WEIR_KILLS=$(KILLS) $(GO) test -count=1 -timeout 30m -v -run '^TestKilled' ./dataplane/port

.PHONY: member-lost
member-lost: ## the member of a bond that is cut under load: what is lost, by mode (root, a quiet machine)
	WEIR_REQUIRE_NETNS=1 WEIR_MEMBER_LOST=1 $(GO) test -count=1 -timeout 10m -v -run '^TestMemberLost$$' ./node

.PHONY: vm-some
# -count=1: the test builds the guests' programs, of which go's cache of results knows nothing.
vm-some: PACKAGES := ./dataplane/vm
vm-some: here ## two drivers of vm-test, with little traffic, and two guests of one switch (root; dataplane/vm/install.sh)
	$(call run,-count=1 -timeout 30m)

# VM is "guests" (two virtual machines on one switch), a driver, or a driver, a row and a test with colons between them; "full" is all of the matrix.
VM ?= full
.PHONY: vm-test
vm-test: ## the acceptance on NICs' drivers in virtual machines, a table of driver, mode and test (root; dataplane/vm/install.sh)
	WEIR_REQUIRE_VM=1 WEIR_REQUIRE_NETNS=1 WEIR_VM="$(VM)" $(GO) test -count=1 -timeout 4h -v -run '^(TestDrivers|TestGuests|TestMigration)$$' ./dataplane/vm

# Faults are how often each one happens.
FAULTS ?= 20
.PHONY: collect-faults
collect-faults: ## FAULTS (20) kills of switch, server, cluster node, collector; full disks and cut networks; of a store of S3, too, once make test-s3 has built one (root)
	WEIR_REQUIRE_NETNS=1 WEIR_COLLECT_FAULTS=$(FAULTS) WEIR_TEST_S3=$(wildcard $(CURDIR)/bin/versitygw) $(GO) test -count=1 -timeout 30m -v -run '^TestFault' ./cmd/weir ./telemetry/collect/service

# CHAOS is how long random faults happen, SEED which ones.
CHAOS ?= 1h
SEED ?= 1
.PHONY: chaos
chaos: ## CHAOS (1h) of random faults in six switches, two collectors and three servers, by SEED (root)
	WEIR_REQUIRE_NETNS=1 WEIR_CHAOS=$(CHAOS) WEIR_CHAOS_SEED=$(SEED) $(GO) test -count=1 -timeout 0 -v -run '^TestChaos$$' ./cmd/weir

# Inputs are counted, not timed: before Go 1.27 a target may fail with "context deadline
# exceeded" when its time is over, having found nothing (go.dev/issue/75804).
# GUIDED has coverage guide them, for which all packages are compiled once more: empty in CI, whose few inputs it would hardly guide.
GUIDED ?= -fuzz .
.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (30000x: so many inputs)
	@bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; \
	grep -rlP --include='*_test.go' '^func Fuzz\w' . | xargs -n 1 dirname | sort -u | while read -r dir; do \
		$(GO) test -c $(GUIDED) -o "$$bin/fuzz.test" "$$dir"; \
		grep -ohP '^func \KFuzz\w+' "$$dir"/*_test.go | while read -r target; do \
			echo "$$target in $$dir"; \
			(cd "$$dir" && "$$bin/fuzz.test" -test.run '^$$' -test.fuzz "^$$target$$" -test.fuzztime $(FUZZTIME) \
				-test.fuzzminimizetime 1000x -test.fuzzcachedir "$$($(GO) env GOCACHE)/fuzz"); \
		done; \
	done

# VULNDB is the database of known vulnerabilities of Go modules.
VULNDB ?= https://vuln.go.dev
.PHONY: vuln
vuln: ## known vulnerabilities in what the programs call (needs VULNDB)
	@if curl -fsS --max-time 20 -o /dev/null $(VULNDB)/index/db.json; then \
		$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 -db $(VULNDB) ./...; \
	else \
		echo "not looked for known vulnerabilities: $(VULNDB) cannot be reached"; \
	fi

.PHONY: bench
bench: ## each Go benchmark for BENCHTIME (1s)
	$(GO) test -p 1 -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

.PHONY: bench-once
bench-once: ## each Go benchmark but the slow ones for one round, so that none rots
	$(GO) test -short -p $(PARALLEL) -run '^$$' ./... -args -test.bench . -test.benchmem -test.benchtime 1x

.PHONY: bench-forward
bench-forward: build ## packets per second of the AF_XDP drivers and the Linux bridge, in one run (root)
	bin/weir bench forward

.PHONY: bench-pipeline
bench-pipeline: build ## nanoseconds per packet of stages, graphs and workers, without any I/O
	bin/weir bench pipeline

# Not part of test: it takes SOAK and some minutes more, and wants a quiet machine.
SOAK ?= 10m
.PHONY: soak
soak: build ## SOAK (10m) at 90 % of the rate without loss: loss, memory, latency, pauses (root)
	bin/weir bench forward --dut patch --size 64 --rounds 1 --ring 16384 --duration 60s --trials 1 --precision 0.05 --soak $(SOAK)

.PHONY: lint
lint: ## gofmt, go vet and staticcheck find nothing
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "run \"make fmt\" for:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

.PHONY: fmt
fmt: ## format all Go files
	gofmt -w .

.PHONY: generate
generate: ## rebuild generated files in place (clang, llvm, libbpf-dev and protobuf-compiler of Debian 12)
	$(GO) generate ./...

# Generation runs in a copy, so that the check neither changes the tree nor asks
# that everything is committed.
.PHONY: check-generate
check-generate: ## generated files equal what their sources give (needs the same)
	@copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	tar -c --exclude=./.git --exclude=./bin . | tar -xC "$$copy"; \
	(cd "$$copy" && $(GO) generate ./...); \
	diff -rq --exclude=.git --exclude=bin . "$$copy" || { echo "run \"make generate\""; exit 1; }; \
	echo "generated files are up to date"

.PHONY: p4
p4: ## compile the P4 programs into bin/p4, those for BMv2 without a warning (p4c; P4C_BM2, P4C_BAREFOOT and BFAS say where)
	@P4C_BM2="$(P4C_BM2)" P4C_BAREFOOT="$(P4C_BAREFOOT)" BFAS="$(BFAS)" GO="$(GO)" p4/compile.sh bin/p4

# Of each of five captures so many packets go through BMv2; all of the malformed ones do. P4_TABLE names a file whose table of
# what has run is written anew (docs/p4.md).
P4_PACKETS ?= 20000
# What the user names must be there: then nothing is skipped.
P4_ASKED = $(strip $(P4C_BM2)$(SIMPLE_SWITCH)$(P4TEST)$(P4_TABLE)$(P4_CAPTURES)$(P4_SETUPS)$(P4_SEED)$(filter-out file,$(origin P4_PACKETS)))
P4_REQUIRE = WEIR_REQUIRE_BMV2=1 WEIR_REQUIRE_NETNS=1
P4_TEST = $(if $(P4_ASKED),$(P4_REQUIRE)) $(if $(P4_TABLE),WEIR_P4_TABLE="$(abspath $(P4_TABLE))") P4C_BM2="$(P4C_BM2)" SIMPLE_SWITCH="$(SIMPLE_SWITCH)" $(GO) test -count=1 -timeout 120m -v
P4_QUIET = { grep --line-buffered -v -e '^=== ' -e '^PASS$$' || true; }

.PHONY: p4-test
p4-test: ## the Go stages do what the P4 programs do on BMv2, afresh (P4C_BM2, SIMPLE_SWITCH; root), or as the vectors say, if nothing is named
	$(P4_TEST) -run '^TestVectors' ./p4/vectors | $(P4_QUIET)
	$(P4_TEST) ./p4/bmv2 ./p4/controller ./p4/tables ./p4/v1model | $(P4_QUIET)
	WEIR_P4_PACKETS=$(P4_PACKETS) WEIR_P4_CAPTURES="$(P4_CAPTURES)" WEIR_P4_SETUPS="$(P4_SETUPS)" WEIR_P4_SEED=$(P4_SEED) \
		$(P4_TEST) -run '^TestBMv2' ./p4/vectors | $(P4_QUIET)
	P4TEST="$(P4TEST)" TNA_INCLUDE="$(TNA_INCLUDE)" P4C_16_INCLUDE_PATH="$(P4C_16_INCLUDE_PATH)" \
		$(P4_TEST) -run '^TestTofino' ./p4/vectors | $(P4_QUIET)
	$(P4_TEST) -run '^(TestMixedLab|TestP4Bridge|TestP4Records|TestP4QueuedPackets)$$' ./cmd/weir | $(P4_QUIET)

.PHONY: p4-mutants
p4-mutants: ## change lines of the P4 programs, one at a time: the vectors find each change, or P4_PACKETS=600 do (P4C_BM2, SIMPLE_SWITCH; root; MUTANT, a regular expression of names)
	$(P4_REQUIRE) WEIR_P4_MUTANTS="$(or $(MUTANT),all)" WEIR_P4_PACKETS=$(if $(filter-out file,$(origin P4_PACKETS)),$(P4_PACKETS),600) \
		$(P4_TEST) -run '^TestMutants' ./p4/vectors | $(P4_QUIET)

.PHONY: p4-vectors
p4-vectors: ## write p4/testdata/vectors and p4/tables' P4Info anew, by p4c and BMv2 (the same), in minutes
	$(P4_REQUIRE) $(P4_TEST) -run '^TestProgram$$/^$$' ./p4/tables -update | $(P4_QUIET)
	$(P4_REQUIRE) $(P4_TEST) -run '^TestBMv2$$' ./p4/vectors -update | $(P4_QUIET)
	$(GO) test -count=1 -run '^TestVectors' ./p4/vectors


# test is not among them: race runs the same tests, and test-all the same in full size.
CI_STEPS := lint vuln check-generate race test-all arm64-some vm-some bench-once fuzz demo

.PHONY: ci
ci: ## what CI runs, nothing else (needs what race and generate need)
	@for step in $(CI_STEPS); do \
		echo "== make $$step"; SECONDS=0; \
		$(MAKE) --no-print-directory "$$step"; \
		echo "== make $$step took $$SECONDS s"; \
	done

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf bin
	find . -name '*.test' -o -name '*.prof' -o -name '*.out' | xargs -r rm -f
