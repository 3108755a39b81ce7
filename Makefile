# Spillway. `make run`, `make test` and `make build` do all their set-up themselves; `make help` lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: help run test regress regress-accept bench build lint fmt deps readme clean

# TAGS is worked out once, the first time a recipe needs it, which is after `deps` has run: empty where RocksDB fits, norocksdb where
# it does not. It can be given: make build TAGS=norocksdb
ifeq ($(origin TAGS),undefined)
TAGS = $(eval TAGS := $(shell scripts/rocksdb-tag.sh))$(TAGS)
endif

# Go stamps binaries with the commit. Where there is no usable git repository (an unpacked archive, a clone owned by someone else)
# asking for the stamp would fail the build.
ifeq ($(origin STAMP),undefined)
STAMP = $(eval STAMP := $(shell git rev-parse --verify -q HEAD >/dev/null 2>&1 || echo -buildvcs=false))$(STAMP)
endif

# The tags go into GOFLAGS rather than on the command line, so that tests which build a binary build the same one. What the user's
# GOFLAGS has already said stays.
WITH_GO = GOFLAGS="$(strip $(shell go env GOFLAGS) $(if $(TAGS),-tags=$(TAGS)) $(STAMP))"

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

run: build ## build, run the quickstart experiment, print its comparison table (RUN_ARGS="--seed 7" for more)
	@scripts/run.sh quickstart $(RUN_ARGS)

test: build ## everything that must hold before a change lands
	@$(WITH_GO) scripts/test.sh

regress: deps ## simulate every controller and hold it against the kept results: did one become worse? (PROFILES="lock memory")
	@$(WITH_GO) scripts/regress.sh check $(PROFILES)

# What is given on make's command line is in the recipe's environment, whatever quotes are in it.
regress-accept: deps ## keep the results as they are now: make regress-accept REASON="what moved, and why that is right"
	@$(WITH_GO) scripts/regress.sh accept $(PROFILES)

bench: deps ## Go benchmarks of what sits on measured paths (BENCH=regexp)
	@$(WITH_GO) BENCH='$(or $(BENCH),.)' scripts/bench.sh

build: deps ## the binaries, in bin/
	@$(WITH_GO) go build -o bin/ ./cmd/...

lint: deps ## gofmt, go vet, staticcheck and the rules of internal/archtest
	@$(WITH_GO) scripts/test.sh lint

fmt: ## gofmt the tree
	@gofmt -l -w .

deps: ## see to compiler, libraries and memcached; a no-op where all is present
	@scripts/install-deps.sh

readme: build ## draw the picture in README.md anew
	@scripts/readme.sh

clean: ## remove what was built; results stay, they were measured
	rm -rf bin
