# The front door. `make help` lists what it can do; CMake, Ninja and the scripts of tools/ do it.

.DEFAULT_GOAL := help
# One target at a time: each uses JOBS processes itself.
.NOTPARALLEL:

#: JOBS       processes at a time; default: as many as there are cores
JOBS ?= $(shell nproc)
#: BUILD_DIR  where to build; sanitizers use BUILD_DIR-asan and -tsan, fuzzers -fuzz, lint -lint, packages -deb; default: build
BUILD_DIR ?= build
#: YES        YES=1 installs missing packages without asking
YES ?=
#: NET        make demo: NET=veth has workers on kernel sockets and veth links instead of memif
NET ?=
#: FLEET      make demo: an etcd and so many boxes of a fleet instead, 3 to 16, whose job's home is killed midway
#: LOSS       make demo: lose this share of all frames on purpose, for example LOSS=1%
LOSS ?=
#: TESTS      make test: only the tests whose names match this regular expression
TESTS ?=
#: JSON       make bench: also write the results to this file
JSON ?=
#: BASE       make ab: the commit to compare HEAD with
BASE ?=
#: THRESHOLD  make ab: how many percent slower HEAD may be; default: 3
THRESHOLD ?= 3
#: SEEDS      make soak, soak-boxes, soak-racks, soak-sparse, soak-tables: how many seeds, from 0 on, or FIRST:COUNT; default: 10000
SEEDS ?= 10000
#: QUICK      make experiment: QUICK=1 looks whether it works, in a minute; its figures are worth nothing
QUICK ?=
#: ROUTES     make experiment: ROUTES=1 compares plans of jobs over many boxes instead, 15 minutes
ROUTES ?=
#: HOT        make experiment: HOT=1 has rounds with hot keys instead, 10 minutes
HOT ?=
#: SPARSE     make experiment: SPARSE=1 has sums of which most blocks are zeros instead, 2 minutes
SPARSE ?=
#: SECONDS    make fuzz: how long each fuzzer runs; default: 60
SECONDS ?= 60
#: PREFIX     make install: where to; default: /usr/local
PREFIX ?= /usr/local
#: DESTDIR    make install: put before PREFIX, for packaging
DESTDIR ?=

override BUILD_DIR := $(patsubst %/,%,$(strip $(BUILD_DIR)))
ASAN_DIR := $(BUILD_DIR)-asan
TSAN_DIR := $(BUILD_DIR)-tsan
FUZZ_DIR := $(BUILD_DIR)-fuzz
DEB_DIR := $(BUILD_DIR)-deb
# Configured and never built: how clang compiles each file by itself.
LINT_DIR := $(BUILD_DIR)-lint
ifeq ($(BUILD_DIR),)
  $(error BUILD_DIR is empty; leave it out or name a directory, for example BUILD_DIR=build)
endif
ifeq ($(shell [ '$(JOBS)' -gt 0 ] 2>/dev/null && echo ok),)
  $(error JOBS is '$(JOBS)'; it must be a whole number above 0, for example JOBS=2)
endif

# Debug keeps TALLY_DCHECK; -O1 keeps the tests under sanitizers fast. TALLY_SANITIZE adds -g.
CLANG := -DCMAKE_CXX_COMPILER=clang++-14 -DTALLY_BUILD_BENCH=OFF
CLANG += -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DTALLY_SANITIZE
# ThreadSanitizer: what has more than one thread, and nothing else.
TSAN_TARGETS := tests/e2e/all api_test api_plugin_test daemon_test http_test kv_table_test tally_io_test
# Root reserves what is missing of the hugepages that some tests need, and gives it back. For others, and where the
# kernel has no more, those tests are skipped.
HUGEPAGES := $(if $(filter 0,$(shell id -u)),tools/hugepages run 72 --)
IN_PARALLEL := xargs -d '\n' -r -n 8 -P $(JOBS)
# In this order `make check` fails soon; the tests come last, so that their count is its last line. They mostly wait, so
# clang's checks run beside them.
CHECK_STAGES := format rules build build-asan build-tsan test beside headers lint

.PHONY: help deps deps-frameworks build build-asan build-tsan demo test check bench bench-full ab experiment fmt format rules headers lint soak soak-boxes soak-racks soak-sparse soak-tables fuzz deb deb-same deb-test install clean
.PHONY: need configure configure-asan configure-tsan configure-lint

help: ## this list
	@echo 'Tally, a software switch that sums gradients. Usage: make TARGET [VARIABLE=VALUE...]'
	@echo; echo 'First time:  make demo'
	@echo; echo 'Targets:'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' Makefile
	@echo; echo 'Variables:'
	@sed -n 's/^#: /  /p' Makefile

deps: ## install the packages of tools/packages.txt that are missing (apt-get)
	@tools/deps install

deps-frameworks: ## likewise those of tools/packages-frameworks.txt: PyTorch and MPIs, 350 MB
	@TALLY_PACKAGES=tools/packages-frameworks.txt tools/deps install

# Every target that builds or runs something starts here; a stage of `make check` need not ask again.
need:
	@$(if $(DEPS_CHECKED),:,tools/deps check)

configure: need
	@tools/configure '$(BUILD_DIR)' -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=g++

configure-asan: need
	@tools/configure '$(ASAN_DIR)' $(CLANG)=address

configure-lint: need
	@tools/configure '$(LINT_DIR)' $(CLANG)=address -DTALLY_UNITY=OFF -DTALLY_UNITY_TESTS=OFF -DTALLY_PRECOMPILE=OFF -DTALLY_SESSION_SERVICE=ON
# Nothing is built there that would see what has been added to a CMakeLists.txt since.
	@ninja -C '$(LINT_DIR)' build.ninja >/dev/null

configure-tsan: need
	@tools/configure '$(TSAN_DIR)' $(CLANG)=thread

build: configure ## build everything: g++, Release, warnings are errors
	@cmake --build '$(BUILD_DIR)' --parallel $(JOBS)

build-asan: configure-asan ## build the tests with clang++, AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --build '$(ASAN_DIR)' --parallel $(JOBS)

build-tsan: configure-tsan ## build the tests that have threads with clang++ and ThreadSanitizer
	@cmake --build '$(TSAN_DIR)' --parallel $(JOBS) --target $(TSAN_TARGETS)

demo: configure ## one switch, two training jobs and an urgent one midway, every sum checked
	@cmake --build '$(BUILD_DIR)' --parallel $(JOBS) --target tally-demo-worker tally-perf tally-ps tallyd tallyctl tally_dpdk_transport
	@$(if $(FLEET),tools/demo-fleet '$(BUILD_DIR)' --boxes '$(FLEET)',NET='$(NET)' tools/demo '$(BUILD_DIR)' $(if $(LOSS),--loss '$(LOSS)'))

test: build build-asan build-tsan ## run the tests of the three builds; the last line counts them
	@$(HUGEPAGES) tools/run-tests --jobs $(JOBS) --only '$(TESTS)' 'g++ Release=$(BUILD_DIR)' \
	  'clang++ ASan+UBSan=$(ASAN_DIR)' 'clang++ TSan=$(TSAN_DIR):unit|e2e'

check: need ## everything CI checks: format, rules, the three builds, headers, lint, test
	@MAKE='$(MAKE)' tools/stages $(CHECK_STAGES)

bench: build ## the benchmarks that say most, 2 minutes
	@tools/run-bench $(if $(JSON),--json '$(JSON)') '$(BUILD_DIR)'

bench-full: ## all of them, as root, recorded with plots in bench/results
	@TALLY_PACKAGES=tools/packages-bench.txt tools/deps check
	@'$(MAKE)' build
	@tools/run-bench --full --record bench/results $(if $(JSON),--json '$(JSON)') '$(BUILD_DIR)'

ab: need ## the benches of loop and pipeline, of BASE and of HEAD in turn; fails when a row of HEAD is slower
	@bench/ab BASE='$(BASE)' THRESHOLD='$(THRESHOLD)' JOBS=$(JOBS)

experiment: configure ## compare the disciplines in virtual time, 15 minutes; QUICK=1 for a look
	@cmake --build '$(BUILD_DIR)' --parallel $(JOBS) --target $(if $(ROUTES),tally_routes,$(if $(HOT),tally_hot_rounds,$(if $(SPARSE),tally_sparse,tally_experiment)))
	@mkdir -p bench/out
ifneq ($(HOT),)
	@'$(BUILD_DIR)/bench/rounds/tally_hot_rounds' --jobs $(JOBS) $(if $(QUICK),--quick bench/out/hot_rounds,bench/results/hot_rounds)
	@$(if $(QUICK),,tools/plot-bench bench/results/hot_rounds.json bench/results)
else ifneq ($(SPARSE),)
	@'$(BUILD_DIR)/bench/sparse/tally_sparse' --jobs $(JOBS) $(if $(QUICK),--quick bench/out/sparse_sums,bench/results/sparse_sums)
else ifeq ($(ROUTES),)
	@'$(BUILD_DIR)/bench/experiment/tally_experiment' --jobs $(JOBS) \
	  $(if $(QUICK),--quick bench/out/experiment,bench/results/experiment)
else
	@'$(BUILD_DIR)/bench/routes/tally_routes' --jobs $(JOBS) $(if $(QUICK),--quick bench/out/routes,bench/results/routes)
	@$(if $(QUICK),,tools/plot-bench bench/results/routes.json bench/results)
endif

fmt: need ## format every .h and .cc in place (clang-format-14)
	@tools/sources cxx | $(IN_PARALLEL) clang-format-14 -i

format: need ## check the format, change nothing
	@tools/sources cxx | $(IN_PARALLEL) tools/check-format || \
	  { echo 'format: mend all of it with: make fmt' >&2; exit 1; }

rules: ## check includes, cycles, names and what comments and documents point at
	@tools/check-tree
	@tools/check-links

headers: configure-lint ## check that each header compiles alone, and each source that is built together with others
	@tools/check-headers $(JOBS) '$(LINT_DIR)'

lint: configure-lint ## clang-tidy over the product, shellcheck over the scripts
	@tools/sources shell | $(IN_PARALLEL) shellcheck
	@tools/lint $(JOBS) '$(LINT_DIR)'

soak: build ## run the simulator over many seeds
soak-boxes: build ## ... of jobs over several boxes
soak-racks: build ## ... of jobs of racks
soak-sparse: build ## ... of sums of rows of tables
soak-tables: build ## ... of tables whose hot rows are summed and cold ones pushed
soak soak-boxes soak-racks soak-sparse soak-tables:
	@[ -x '$(BUILD_DIR)/tests/sim/tally_sim_run' ] || \
	  { echo 'soak: there is no $(BUILD_DIR)/tests/sim/tally_sim_run in this version' >&2; exit 2; }
	@'$(BUILD_DIR)/tests/sim/tally_sim_run' $(patsubst soak-%,--%,$(filter soak-%,$@)) --seeds $(if $(findstring :,$(SEEDS)),$(SEEDS),0:$(SEEDS))

fuzz: need ## run each libFuzzer program for a while
	@tools/configure '$(FUZZ_DIR)' $(CLANG)=address -DTALLY_FUZZ=ON
	@tools/run-fuzz '$(FUZZ_DIR)' $(JOBS) '$(SECONDS)'

deb: ## Debian packages of what git has, checked by lintian, in build-deb
	@TALLY_PACKAGES=tools/packages-deb.txt tools/deps check
	@JOBS=$(JOBS) tools/package '$(DEB_DIR)'

deb-same: ## build those packages twice, in two folders, locales and time zones: the same bytes?
	@TALLY_PACKAGES=tools/packages-deb.txt tools/deps check
	@JOBS=$(JOBS) tools/package-twice '$(DEB_DIR)'

deb-test: ## as root: those packages in a clean root: install, sums, upgrade under a running job, remove, purge
	@TALLY_PACKAGES=tools/packages-deb.txt tools/deps check
	@tests/packages/walk '$(DEB_DIR)'

install: configure ## build what is installed, and install it below DESTDIR/PREFIX
	@cmake --build '$(BUILD_DIR)' --parallel $(JOBS) --target tally_installed
	@DESTDIR='$(DESTDIR)' cmake --install '$(BUILD_DIR)' --prefix '$(PREFIX)'

clean: ## remove the build directories that make made, and only those
	@for dir in '$(BUILD_DIR)' '$(ASAN_DIR)' '$(TSAN_DIR)' '$(FUZZ_DIR)' '$(LINT_DIR)' '$(DEB_DIR)'; do \
	  if [ -e "$$dir/.made-by-make" ]; then rm -rf -- "$$dir" && echo "removed $$dir"; \
	  elif [ -e "$$dir" ]; then echo "clean: $$dir was not made by make; left alone"; fi; \
	done
