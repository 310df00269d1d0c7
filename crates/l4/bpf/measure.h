/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Programs that measurements need; nothing of the director calls them. */

/* For measurements: takes every frame and does nothing with it. */
SEC("xdp")
int drop(struct xdp_md *ctx __attribute__((unused)))
{
	count(COUNT_SEEN);
	return XDP_DROP;
}

struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 2); __type(key, __u32); __type(value, __u64); } generator SEC(".maps");

/* Another client address and port each time, generator[1] + 1 of them. -1: the frame is no TCP. */
INLINE int next_client(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	struct tcphdr *tcp = (void *)(ip + 1);
	if ((void *)(tcp + 1) > end)
		return -1;
	__u32 zero = 0, one = 1;
	__u64 *at = bpf_map_lookup_elem(&generator, &zero), *mask = bpf_map_lookup_elem(&generator, &one);
	if (!at || !mask)
		return -1;
	__u64 n = (*at)++ & *mask;
	ip->saddr = bpf_htonl(0x0a640000 + (n >> 14));
	tcp->source = bpf_htons(1024 + (n & 0x3fff));
	return 0;
}

/* For measurements: sends the frame back out as another client's each time. */
SEC("xdp")
int generate(struct xdp_md *ctx)
{
	return next_client(ctx) ? XDP_DROP : XDP_TX;
}

/* For measurements: directs the frame as another client's each time. */
SEC("xdp")
int direct_new(struct xdp_md *ctx)
{
	return next_client(ctx) ? XDP_DROP : direct(ctx);
}

/* For measurements: directs the frame and takes the tunnel's header off again, so that the next run finds it as it came. */
SEC("xdp")
int tunnel_again(struct xdp_md *ctx)
{
	int verdict = direct(ctx);
	if (bpf_xdp_adjust_head(ctx, sizeof(struct iphdr)))
		return XDP_ABORTED;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	if ((void *)(eth + 1) > end)
		return XDP_ABORTED;
	__builtin_memset(eth, 2, 2 * ETH_ALEN);
	eth->h_proto = bpf_htons(ETH_P_IP);
	return verdict;
}
