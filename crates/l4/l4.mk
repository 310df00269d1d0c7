# Targets of the packet director; included by the top Makefile.
.PHONY: l4-deps l4-test l4-demo l4-interop l4-bench l4-failover l4-scale

# `make test` runs this crate's tests too: give them what they need.
deps: l4-deps

# What the datapath is built with and the tests run beside. Only root may install; elsewhere the crate builds without its
# XDP programs, and the tests that need them say that they are skipped.
l4-deps:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    missing=; \
	    for f in /usr/bin/clang=clang /usr/include/bpf/bpf_helpers.h=libbpf-dev /usr/include/linux/bpf.h=linux-libc-dev \
	             /usr/sbin/keepalived=keepalived /usr/sbin/nginx=nginx-light /sbin/ip=iproute2 /usr/bin/curl=curl \
	             /usr/bin/bc=bc /usr/sbin/nft=nftables /bin/ping=iputils-ping /usr/sbin/ethtool=ethtool \
	             /usr/bin/linux.uml=user-mode-linux /usr/sbin/ipvsadm=ipvsadm /usr/sbin/modprobe=kmod /usr/bin/python3=python3-minimal /usr/bin/openssl=openssl; do \
	        [ -e "$${f%%=*}" ] || missing="$$missing $${f#*=}"; \
	    done; \
	    if [ -n "$$missing" ]; then \
	        echo "installing$$missing"; \
	        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	    fi; \
	fi

l4-test: l4-deps
	cargo test -p sluice-l4

# KEEP=1 leaves it standing until Ctrl-C, with commands to try.
l4-demo: l4-deps
	cargo build -p sluice-l4
	crates/l4/demo/demo.sh "$${CARGO_TARGET_DIR:-target}/debug/sluice-l4"

# Beside real keepalived and a kernel's IPVS (user-mode-linux); docs/l4-interop.md says which test is for what.
l4-interop: l4-deps
	cargo test -p sluice-l4 --test twins --test twins_host --test bfd --test ipvs --test keepalived_agrees --test public

# Nanoseconds per packet and packets per second, beside nftables; see docs/l4-performance.md.
l4-bench: l4-deps
	cargo test -p sluice-l4 --test bench --test bench_nftables -- --ignored --nocapture --test-threads 1

# Times until the twin has taken over, beside keepalived's; ROUNDS (7) of each, CASE some of them ("100 ms, kill").
l4-failover: l4-deps
	cargo test -p sluice-l4 --test failover -- --ignored --nocapture

# Reload of 2000 virtual servers with 37 000 servers, and the cost of 10 000 checked ones; in a release build.
l4-scale: l4-deps
	cargo test --release -p sluice-l4 --test scale -- --ignored --nocapture --test-threads 1
