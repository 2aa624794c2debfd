# Every target does its own set-up on Debian, or says what is missing.

CARGO ?= cargo
FUZZ_SECONDS ?= 30
COMPARISONS ?= 200
# For the figures of docs/cluster.md: make e2e E2E_SCALE=
E2E_SCALE ?= --starts 2 --relists 4 --rounds 2 --seconds 4

.PHONY: help demo test check conformance e2e e2e-quick flood bench bench-authority bench-lab aa fuzz truth setup toolchain

help:
	@echo "make demo         ten seconds of a cluster's queries through Nodens, what it saved, and a page of it"
	@echo "make test         every test"
	@echo "make check        format, lints, docs, repository rules"
	@echo "make conformance  the same queries to CoreDNS and to Nodens"
	@echo "make e2e          Nodens and CoreDNS on a real Kubernetes control plane (builds Kubernetes once)"
	@echo "make flood        ten million packets, a third of them malformed; prints the memory before and after"
	@echo "make bench-lab    the load generator beside dnsperf and kxdpgun"
	@echo "make bench        Nodens beside eight other servers (about an hour; BENCH=\"--seconds 1\" for less)"
	@echo "make bench-authority  catalogs of 100,000 zones, zones of 1,000,000 records, zones that change (AUTHORITY=\"--zones 1000 catalog-start\" for less)"
	@echo "make truth        break what nodens-lab promises, place by place, and see that a test notices"
	@echo "make aa           COMPARISONS=$(COMPARISONS) comparisons of a server with itself, and with one that is 5 % slower"
	@echo "make fuzz         every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)"

# Nothing can be built, not even what installs the rest, without Rust and the linker it calls.
toolchain:
	@command -v $(CARGO) > /dev/null || { echo "no '$(CARGO)' in PATH: install Rust, see https://rustup.rs"; exit 1; }
	@command -v cc > /dev/null || { apt-get update -qq && apt-get install -y -qq gcc libc6-dev; } \
		|| { echo "no 'cc' to link with: install gcc and libc6-dev"; exit 1; }

setup: toolchain
	@$(CARGO) xtask peers --tests
	-@$(CARGO) xtask peers pebble

demo: toolchain
	@echo "1/2 compiling nodens and nodens-lab (release; the first time takes minutes)"
	@$(CARGO) build --release -p nodens -p nodens-lab
	@echo "2/2 measuring: 4 s without a cache, 10 s with it; again and slower if this machine is too busy for that"
	@target/release/nodens-lab demo --nodens target/release/nodens --out target/demo

test: setup
	@$(CARGO) xtask test

check: toolchain
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --no-deps --document-private-items --quiet
	$(CARGO) xtask tidy
	$(CARGO) xtask bench-instructions --check

# All is built with the features of the whole workspace, as by `make test`: others would compile most of it anew.
conformance: toolchain
	@$(CARGO) xtask peers coredns
	@$(CARGO) xtask acceptance
	@$(CARGO) xtask conformance
	@$(CARGO) build --quiet --workspace --bins --tests
	$(CARGO) test --workspace --test coredns
	$(CARGO) test --workspace --test it coredns
	@$(CARGO) xtask peers unbound knot nsd bind9 iproute2
	$(CARGO) test --workspace --test rebuilt

# Both programs go into images as well, so they bring their libraries with them.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

e2e: toolchain
	@$(CARGO) xtask peers coredns coredns-before kubernetes kubernetes-node containerd cni helm etcd etcd-server runc nftables iptables conntrack iproute2 util-linux
	@$(CARGO) xtask peers gcc musl-tools golang-go default-jdk-headless dnsutils dnsperf
	@RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --release --target $(HOST) -p nodens -p nodens-top -p nodens-lab -p nodens-e2e
	target/$(HOST)/release/nodens-e2e all --scale "$(E2E_SCALE)"

# What a change has to pass: without real nodes, and without goals that need a machine with no other work.
e2e-quick: toolchain
	@$(CARGO) xtask peers coredns kubernetes etcd etcd-server nftables iptables conntrack iproute2 util-linux
	@$(CARGO) xtask peers gcc musl-tools golang-go default-jdk-headless dnsutils
	@$(CARGO) build --workspace --bins --tests
	target/debug/nodens-e2e all --quick

flood: toolchain
	NODENS_FLOOD=10000000 $(CARGO) test --release -p nodens --test it flood -- --nocapture

bench: toolchain
	@$(CARGO) xtask peers coredns iproute2 unbound dnsdist knot-resolver pdns-recursor bind9 bind9-utils knot nsd \
		pdns-server pdns-backend-bind
	@$(CARGO) build --release -p nodens -p nodens-lab
	@target/release/nodens-lab bench --nodens target/release/nodens $(BENCH)

AUTHORITY ?= catalog-start memory-million members-change big-zone-change ixfr fan-out
bench-authority: toolchain
	@$(CARGO) xtask peers bind9 knot nsd
	@$(CARGO) build --release -p nodens -p nodens-lab
	@target/release/nodens-lab authority --nodens target/release/nodens $(AUTHORITY)

truth: toolchain
	@$(CARGO) xtask mutations

# The first must call a difference in at most one of twenty cases, the second find it in four of five.
aa: toolchain
	@$(CARGO) build --release -p nodens-lab
	@target/release/nodens-lab ab --self-test $(COMPARISONS) --pairs 10 --retries 0
	@target/release/nodens-lab ab --self-test 20 --inject p50=5% --noise-pairs 20 --retries 0
	@target/release/nodens-lab ab --self-test 20 --inject cpu=5% --noise-pairs 20 --retries 0

bench-lab: toolchain
	@$(CARGO) xtask peers dnsperf knot-dnsutils iproute2
	@$(CARGO) build --release -p nodens-lab
	@target/release/nodens-lab bench-lab --docs docs/lab.md

fuzz: toolchain
	@$(CARGO) xtask fuzz --seconds $(FUZZ_SECONDS)
