/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* To the server: by MAC (DR), in an outer header (TUN), or rewritten (NAT), and NAT's way back. */

INLINE int emit(struct xdp_md *ctx, const struct server *server)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	__builtin_memcpy(eth->h_dest, server->next_hop, 6);
	__builtin_memcpy(eth->h_source, server->own_mac, 6);
	count(COUNT_FORWARDED);
	if (server->ifindex == ctx->ingress_ifindex)
		return XDP_TX;
	return bpf_redirect(server->ifindex, 0);
}

INLINE __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
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

/* RFC 1624: HC' = ~(~HC + ~m + m'). */
INLINE __u16 update16(__u16 check, __u16 from, __u16 to)
{
	return fold((__u32)(__u16)~check + (__u16)~from + to);
}

INLINE __u16 update_word(__u16 check, __u32 from, __u32 to)
{
	return update16(update16(check, from & 0xffff, to & 0xffff), from >> 16, to >> 16);
}

INLINE __u16 update_words(__u16 check, const __u32 *from, const __u32 *to, int words)
{
	check = update_word(check, from[0], to[0]);
	if (words == 1)
		return check;
	check = update_word(check, from[1], to[1]);
	check = update_word(check, from[2], to[2]);
	return update_word(check, from[3], to[3]);
}

/* Rewrites one end of a packet: the destination on the way in, the source on the way out. -1: it ended too early. */
INLINE int rewrite(void *data, void *end, const struct packet *p, const __u32 *address, __u16 port, int source)
{
	const __u32 *old_address = source ? p->key.client : p->key.vip;
	__u16 old_port = source ? p->key.client_port : p->key.vip_port;
	int words = p->key.family == 4 ? 1 : 4;
	void *l4 = data + p->l4;
	if (p->l4 > 256)
		return -1;
	__u16 *check;
	if (p->key.protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = l4;
		if ((void *)(tcp + 1) > end)
			return -1;
		check = &tcp->check;
	} else {
		struct udphdr *udp = l4;
		if ((void *)(udp + 1) > end)
			return -1;
		check = &udp->check;
	}
	/* a UDP checksum of 0 means none (RFC 768) */
	if (p->key.protocol == IPPROTO_TCP || *check) {
		__u16 sum = update_words(*check, old_address, address, words);
		sum = update16(sum, old_port, port);
		*check = sum || p->key.protocol == IPPROTO_TCP ? sum : 0xffff;
	}
	__u16 *ports = l4;
	ports[source ? 0 : 1] = port;
	if (p->key.family == 4) {
		struct iphdr *ip = data + sizeof(struct ethhdr);
		if ((void *)(ip + 1) > end)
			return -1;
		__u16 sum = update_words(ip->check, old_address, address, 1);
		__u16 before = (__u16)ip->ttl | (__u16)ip->protocol << 8;
		ip->ttl -= 1;
		__u16 after = (__u16)ip->ttl | (__u16)ip->protocol << 8;
		ip->check = update16(sum, before, after);
		if (source)
			ip->saddr = address[0];
		else
			ip->daddr = address[0];
		return 0;
	}
	struct ipv6hdr *ip = data + sizeof(struct ethhdr);
	if ((void *)(ip + 1) > end)
		return -1;
	ip->hop_limit -= 1;
	__builtin_memcpy(source ? &ip->saddr : &ip->daddr, address, 16);
	return 0;
}

INLINE int ttl_ends(void *data, void *end, const struct packet *p)
{
	if (p->key.family == 4) {
		struct iphdr *ip = data + sizeof(struct ethhdr);
		return (void *)(ip + 1) > end || ip->ttl <= 1;
	}
	struct ipv6hdr *ip = data + sizeof(struct ethhdr);
	return (void *)(ip + 1) > end || ip->hop_limit <= 1;
}

GLOBAL int nat(struct xdp_md *ctx, const struct server *server, __u32 index, const struct packet *p, int fresh)
{
	if (!server || !p)
		return XDP_DROP;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	/* fragments and ICMP errors would need their inner parts rewritten */
	if ((void *)(eth + 1) > end || p->first_fragment || p->later_fragment || p->icmp_error || p->key.protocol == IPPROTO_SCTP)
		return XDP_DROP;
	if (ttl_ends(data, end, p)) {
		count(COUNT_TTL);
		return XDP_DROP;
	}
	struct flow_key back = { .client_port = p->key.client_port, .vip_port = server->port, .protocol = p->key.protocol, .family = p->key.family };
	__builtin_memcpy(back.client, p->key.client, 16);
	__builtin_memcpy(back.vip, server->address, 16);
	if (fresh || !bpf_map_lookup_elem(&replies, &back)) {
		struct reply value = { .vip_port = p->key.vip_port, .ifindex = ctx->ingress_ifindex, .server = index };
		__builtin_memcpy(value.vip, p->key.vip, 16);
		__builtin_memcpy(value.client_mac, eth->h_source, 6);
		__builtin_memcpy(value.own_mac, eth->h_dest, 6);
		bpf_map_update_elem(&replies, &back, &value, BPF_ANY);
	}
	if (rewrite(data, end, p, server->address, server->port, 0)) {
		count(COUNT_MALFORMED);
		return XDP_DROP;
	}
	return emit(ctx, server);
}

/* A packet of a server on its way back to a client through NAT. XDP_PASS if it is none. */
GLOBAL int nat_reply(struct xdp_md *ctx, struct packet *p)
{
	if (!p)
		return XDP_DROP;
	struct flow_key key = { .client_port = p->key.vip_port, .vip_port = p->key.client_port, .protocol = p->key.protocol, .family = p->key.family };
	__builtin_memcpy(key.client, p->key.vip, 16);
	__builtin_memcpy(key.vip, p->key.client, 16);
	struct reply *reply = bpf_map_lookup_elem(&replies, &key);
	if (!reply)
		return XDP_PASS;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	if ((void *)(eth + 1) > end || ttl_ends(data, end, p) || rewrite(data, end, p, reply->vip, reply->vip_port, 1)) {
		count(COUNT_TTL);
		return XDP_DROP;
	}
	__builtin_memcpy(eth->h_dest, reply->client_mac, 6);
	__builtin_memcpy(eth->h_source, reply->own_mac, 6);
	count(COUNT_REPLY);
	if (reply->ifindex == ctx->ingress_ifindex)
		return XDP_TX;
	return bpf_redirect(reply->ifindex, 0);
}

INLINE int forward(struct xdp_md *ctx, __u32 index, const struct packet *p, int fresh)
{
	struct server *server = server_at(index);
	if (!server) {
		count(COUNT_NO_SERVER);
		return XDP_DROP;
	}
	tally(&server_tallies, index, p->length, fresh);
	if (!server->ifindex) {
		count(COUNT_NO_NEXT_HOP);
		return XDP_DROP;
	}
	if (server->kind == KIND_TUNNEL)
		return server->family == 4 ? tunnel4(ctx, server, p) : tunnel6(ctx, server, p);
	if (server->kind == KIND_NAT)
		return nat(ctx, server, index, p, fresh);
	return emit(ctx, server);
}
