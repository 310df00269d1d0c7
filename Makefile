# Two commands matter: `make run` and `make test`. Both install what they need.

CARGO ?= cargo
TARGET ?= target
export CARGO_TARGET_DIR ?= $(CURDIR)/$(TARGET)

.PHONY: run test deps build release bench lab profile coverage fmt clean

# The proxy on examples/quickstart.cfg with two origin servers, until Ctrl-C.
run: release
	@scripts/run

# Everything CI runs: unit, property, corpus, end-to-end and differential tests.
test: deps
	@scripts/test

deps:
	@scripts/deps

build:
	$(CARGO) build --bins

# Laid out by what ran under load (`make profile`): a tenth less CPU per request than a plain `cargo build --release`.
# Its sum among the flags has cargo build anew when the record is another.
RECORD := $(CURDIR)/crates/sluice/release.profdata
release: export RUSTFLAGS += -Cprofile-use=$(RECORD) -Cllvm-args=-no-pgo-warn-mismatch --cfg=record="$(firstword $(shell cksum $(RECORD)))"
release:
	$(CARGO) build --release -p sluice -p sluice-lab

# Records that anew; for maintainers, before a release.
profile:
	@scripts/profile

# CPU per request beside haproxy, nginx and a bare relay (docs/performance.md).
bench: deps release
	$(CARGO_TARGET_DIR)/release/sluice-lab bench

# A short form of every published experiment; leaves target/lab/index.html.
lab: release
	@scripts/deps haproxy nginx=nginx-core wrk h2load=nghttp2-client ip=iproute2
	$(CARGO_TARGET_DIR)/release/sluice-lab all --short --out $(CARGO_TARGET_DIR)/lab

# What of HAProxy's language is known, works, is registered for later, or is missing.
coverage: deps build
	@scripts/coverage

fmt:
	$(CARGO) fmt --all

clean:
	$(CARGO) clean

-include crates/l4/l4.mk
