/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* To the server: by MAC (DR) or in an outer header (TUN); rewritten (NAT) is in nat.h. */

/* A packet that its tunnel would make too long for the link goes nowhere; its sender hears how long it may be (RFC 1191,
 * RFC 8201) from the virtual address, quoting the headers and 8 bytes. */
GLOBAL int too_long4(struct xdp_md *ctx, __u32 mtu)
{
	struct {
		struct iphdr ip;
		__u8 type, code;
		__u16 check, unused, mtu;
	} *out;
	struct ethhdr *eth;
	const __u32 quote = sizeof(struct iphdr) + 8, length = sizeof(*out) + quote;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + sizeof(*eth) + quote > end)
		return XDP_DROP;
	struct ethhdr link = *(struct ethhdr *)data;
	if (bpf_xdp_adjust_tail(ctx, (int)(sizeof(*eth) + quote) - (int)(end - data)) || bpf_xdp_adjust_head(ctx, -(int)sizeof(*out)))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	eth = data;
	out = data + sizeof(*eth);
	struct iphdr *quoted = (void *)(out + 1);
	if (data + sizeof(*eth) + length > end)
		return XDP_DROP;
	__builtin_memcpy(eth->h_dest, link.h_source, 6);
	__builtin_memcpy(eth->h_source, link.h_dest, 6);
	eth->h_proto = link.h_proto;
	__builtin_memset(out, 0, sizeof(*out));
	out->ip.version = 4;
	out->ip.ihl = 5;
	out->ip.tot_len = bpf_htons(length);
	out->ip.ttl = 64;
	out->ip.protocol = IPPROTO_ICMP;
	out->ip.saddr = quoted->daddr;
	out->ip.daddr = quoted->saddr;
	out->ip.check = fold(words(&out->ip, sizeof(out->ip) / 2));
	out->type = 3;
	out->code = 4;
	out->mtu = bpf_htons(mtu);
	out->check = fold(words(&out->type, (8 + quote) / 2));
	return XDP_TX;
}

GLOBAL int too_long6(struct xdp_md *ctx, __u32 mtu)
{
	struct {
		struct ipv6hdr ip;
		__u8 type, code;
		__u16 check;
		__u32 mtu;
	} *out;
	struct ethhdr *eth;
	const __u32 quote = sizeof(struct ipv6hdr) + 8, payload = 8 + quote;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + sizeof(*eth) + quote > end)
		return XDP_DROP;
	struct ethhdr link = *(struct ethhdr *)data;
	if (bpf_xdp_adjust_tail(ctx, (int)(sizeof(*eth) + quote) - (int)(end - data)) || bpf_xdp_adjust_head(ctx, -(int)sizeof(*out)))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	eth = data;
	out = data + sizeof(*eth);
	struct ipv6hdr *quoted = (void *)(out + 1);
	if (data + sizeof(*eth) + sizeof(*out) + quote > end)
		return XDP_DROP;
	__builtin_memcpy(eth->h_dest, link.h_source, 6);
	__builtin_memcpy(eth->h_source, link.h_dest, 6);
	eth->h_proto = link.h_proto;
	__builtin_memset(out, 0, sizeof(*out));
	out->ip.version = 6;
	out->ip.payload_len = bpf_htons(payload);
	out->ip.hop_limit = 64;
	out->ip.nexthdr = ICMP6;
	out->ip.saddr = quoted->daddr;
	out->ip.daddr = quoted->saddr;
	out->type = 2;
	out->mtu = bpf_htonl(mtu);
	/* addresses, length, next header: the pseudo-header (RFC 8200 section 8.1) */
	__u32 sum = words(&out->ip.saddr, 16) + bpf_htons(payload) + bpf_htons(ICMP6);
	out->check = fold(sum + words(&out->type, payload / 2));
	return XDP_TX;
}

INLINE int too_long(struct xdp_md *ctx, const struct server *server, const struct packet *p)
{
	__u32 room = server->mtu - (server->family == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
	count(COUNT_TOO_LONG);
	/* a later fragment tells its sender nothing */
	if (p->later_fragment || p->icmp_error)
		return XDP_DROP;
	return p->key.family == 4 ? too_long4(ctx, room) : too_long6(ctx, room);
}

INLINE int tunnel4(struct xdp_md *ctx, const struct server *server, const struct packet *p)
{
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct iphdr)))
		goto no_room;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *outer = data + sizeof(*eth);
	if ((void *)(outer + 1) > end)
		goto no_room;
	__builtin_memset(outer, 0, sizeof(*outer));
	outer->version = 4;
	outer->ihl = 5;
	outer->ttl = 64;
	outer->frag_off = bpf_htons(IP_DF);
	outer->protocol = p->key.family == 4 ? IPPROTO_IPIP : IPPROTO_IPV6;
	outer->tot_len = bpf_htons(p->length + sizeof(*outer));
	outer->saddr = server->tunnel_source[0];
	outer->daddr = server->address[0];
	__u32 sum = 0;
	__u16 *words = (void *)outer;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	outer->check = fold(sum);
	eth->h_proto = bpf_htons(ETH_P_IP);
	return emit(ctx, server);
no_room:
	count(COUNT_NO_ROOM);
	return XDP_DROP;
}

INLINE int tunnel6(struct xdp_md *ctx, const struct server *server, const struct packet *p)
{
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct ipv6hdr)))
		goto no_room;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct ipv6hdr *outer = data + sizeof(*eth);
	if ((void *)(outer + 1) > end)
		goto no_room;
	__builtin_memset(outer, 0, sizeof(*outer));
	outer->version = 6;
	outer->hop_limit = 64;
	outer->nexthdr = p->key.family == 4 ? IPPROTO_IPIP : IPPROTO_IPV6;
	outer->payload_len = bpf_htons(p->length);
	__builtin_memcpy(&outer->saddr, server->tunnel_source, 16);
	__builtin_memcpy(&outer->daddr, server->address, 16);
	eth->h_proto = bpf_htons(ETH_P_IPV6);
	return emit(ctx, server);
no_room:
	count(COUNT_NO_ROOM);
	return XDP_DROP;
}

INLINE int forward(struct xdp_md *ctx, __u32 index, const struct packet *p, int fresh)
{
	struct server *server = server_at(index);
	if (!server) {
		count(COUNT_NO_SERVER);
		return XDP_DROP;
	}
	tally(&server_tallies, index, p->length, fresh);
	/* This machine serves: the virtual address is its own, so the packet is left as it is. What would need another port is not. */
	int same_port = server->kind != KIND_NAT || !server->port || server->port == p->key.vip_port;
	if ((server->flags & SERVER_LOCAL) && same_port) {
		count(COUNT_LOCAL);
		return XDP_PASS;
	}
	if (!server->ifindex || (server->flags & SERVER_LOCAL)) {
		count(COUNT_NO_NEXT_HOP);
		return XDP_DROP;
	}
	if (server->kind == KIND_TUNNEL && server->mtu && p->length + (server->family == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) > server->mtu)
		return too_long(ctx, server, p);
	if (server->kind == KIND_TUNNEL)
		return server->family == 4 ? tunnel4(ctx, server, p) : tunnel6(ctx, server, p);
	if (server->kind == KIND_NAT)
		return nat(ctx, server, index, p, fresh);
	return emit(ctx, server);
}
