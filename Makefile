# Every target does its own set-up on Debian, or says what is missing.

CARGO ?= cargo
FUZZ_SECONDS ?= 30
# What the tests ask with, by Debian package.
TEST_TOOLS = dnsutils knot-dnsutils gcc musl-tools iproute2 libc-ares-dev python3-dnspython

.PHONY: help demo test check conformance flood bench fuzz setup

help:
	@echo "make demo         ten seconds of a cluster's questions through Nodens, and what it saved"
	@echo "make test         every test"
	@echo "make check        format, lints, docs, repository rules"
	@echo "make conformance  the same questions to CoreDNS and to Nodens"
	@echo "make flood        ten million packets, a third of them malformed; prints the memory before and after"
	@echo "make bench        Nodens beside CoreDNS, Unbound and dnsdist"
	@echo "make fuzz         every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)"

setup:
	@$(CARGO) xtask peers $(TEST_TOOLS)

demo:
	@$(CARGO) build --quiet --release -p nodens -p nodens-lab
	@target/release/nodens-lab demo --nodens target/release/nodens

test: setup
	$(CARGO) test --workspace

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --no-deps --document-private-items --quiet
	$(CARGO) xtask tidy

conformance:
	@$(CARGO) xtask peers coredns
	@$(CARGO) xtask conformance

flood:
	NODENS_FLOOD=10000000 $(CARGO) test --release -p nodens --test it flood -- --nocapture

bench:
	@$(CARGO) xtask peers coredns unbound dnsdist
	@$(CARGO) build --quiet --release -p nodens -p nodens-lab
	@target/release/nodens-lab bench --nodens target/release/nodens

fuzz:
	@$(CARGO) xtask fuzz --seconds $(FUZZ_SECONDS)
