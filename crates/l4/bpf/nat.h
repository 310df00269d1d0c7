/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Network address translation: the destination becomes the server on the way in, the source the virtual server on the way out,
 * in packets, in their fragments, and in what ICMP errors quote of them. And what sending needs: checksums and emit(). */

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

/* Sum of 16-bit words; the number is known when this is compiled. */
INLINE __u32 words(const void *from, int number)
{
	const __u16 *word = from;
	__u32 sum = 0;
#pragma unroll
	for (int i = 0; i < number; i++)
		sum += word[i];
	return sum;
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

/* No header begins further back than this. */
#define OFFSET_MAX 256

/* Port and checksum of the end that changes. -1: it ended too early, or cannot be done. */
INLINE int rewrite_transport(void *data, void *end, const struct packet *p, const __u32 *address, __u16 port, int source)
{
	const __u32 *old_address = source ? p->key.client : p->key.vip;
	__u16 old_port = source ? p->key.client_port : p->key.vip_port;
	void *l4 = data + p->l4;
	if (p->l4 > OFFSET_MAX)
		return -1;
	__u16 *check;
	switch (p->key.protocol) {
	case IPPROTO_TCP: {
		struct tcphdr *tcp = l4;
		if ((void *)(tcp + 1) > end)
			return -1;
		check = &tcp->check;
		break;
	}
	case IPPROTO_UDP: {
		struct udphdr *udp = l4;
		if ((void *)(udp + 1) > end)
			return -1;
		check = &udp->check;
		break;
	}
	default:
		/* SCTP's checksum knows nothing of addresses, and all of the packet: its port must stay */
		return port == old_port ? 0 : -1;
	}
	/* a UDP checksum of 0 means none (RFC 768) */
	if (p->key.protocol == IPPROTO_TCP || *check) {
		__u16 sum = update_words(*check, old_address, address, p->key.family == 4 ? 1 : 4);
		sum = update16(sum, old_port, port);
		*check = sum || p->key.protocol == IPPROTO_TCP ? sum : 0xffff;
	}
	__u16 *ports = l4;
	ports[source ? 0 : 1] = port;
	return 0;
}

/* Address and time to live of the IP header. */
INLINE int rewrite_network(void *data, void *end, int family, const __u32 *old_address, const __u32 *address, int source)
{
	if (family == 4) {
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

/* What an ICMP error quotes went the other way: there the server's end is the source on the way in and the destination on the
 * way out. The quoted IPv4 header's checksum changes with its address, so that the sum over both stays what it was; the quoted
 * transport checksum is left, as nobody has the whole packet to look at it.
 *
 * On the way out the outer source is changed only if it is the server's own: a router's stays. */
INLINE int rewrite_error(void *data, void *end, const struct packet *p, const __u32 *address, __u16 port, int source)
{
	const __u32 *old_address = source ? p->key.client : p->key.vip;
	__u16 old_port = source ? p->key.client_port : p->key.vip_port;
	if (p->l4 > OFFSET_MAX || p->quoted > OFFSET_MAX || p->quoted_l4 > OFFSET_MAX)
		return -1;
	__u16 *icmp = data + p->l4, *ports = data + p->quoted_l4;
	if ((void *)(icmp + 4) > end || (void *)(ports + 2) > end)
		return -1;
	__u16 check = update16(icmp[1], old_port, port);
	ports[source ? 1 : 0] = port;
	if (p->key.family == 4) {
		struct iphdr *quoted = data + p->quoted, *ip = data + sizeof(struct ethhdr);
		if ((void *)(quoted + 1) > end || (void *)(ip + 1) > end)
			return -1;
		quoted->check = update_words(quoted->check, old_address, address, 1);
		if (source)
			quoted->daddr = address[0];
		else
			quoted->saddr = address[0];
		icmp[1] = check;
		__u32 own = source ? ip->saddr : ip->daddr;
		int change = own == old_address[0];
		return rewrite_network(data, end, 4, &own, change ? address : &own, source);
	}
	struct ipv6hdr *quoted = data + p->quoted, *ip = data + sizeof(struct ethhdr);
	if ((void *)(quoted + 1) > end || (void *)(ip + 1) > end)
		return -1;
	__builtin_memcpy(source ? &quoted->daddr : &quoted->saddr, address, 16);
	check = update_words(check, old_address, address, 4);
	const __u32 *own = source ? ip->saddr.in6_u.u6_addr32 : ip->daddr.in6_u.u6_addr32;
	if (own[0] == old_address[0] && own[1] == old_address[1] && own[2] == old_address[2] && own[3] == old_address[3]) {
		/* the pseudo-header */
		check = update_words(check, old_address, address, 4);
		if (rewrite_network(data, end, 6, old_address, address, source))
			return -1;
	} else {
		ip->hop_limit -= 1;
	}
	icmp[1] = check;
	return 0;
}

/* Rewrites one end of a packet: the destination on the way in, the source on the way out. */
INLINE int rewrite(void *data, void *end, const struct packet *p, const __u32 *address, __u16 port, int source)
{
	if (p->icmp_error)
		return rewrite_error(data, end, p, address, port, source);
	if (!p->later_fragment && rewrite_transport(data, end, p, address, port, source))
		return -1;
	return rewrite_network(data, end, p->key.family, source ? p->key.client : p->key.vip, address, source);
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
	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	if (ttl_ends(data, end, p)) {
		count(COUNT_TTL);
		return XDP_DROP;
	}
	struct flow_key back = { .client_port = p->key.client_port, .vip_port = server->port, .protocol = p->key.protocol, .family = p->key.family };
	__builtin_memcpy(back.client, p->key.client, 16);
	__builtin_memcpy(back.vip, server->address, 16);
	/* neither a later fragment (no ports) nor an error (no client) begins anything */
	if (!p->later_fragment && !p->icmp_error && (fresh || !bpf_map_lookup_elem(&replies, &back))) {
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

/* How a fragment of a server's answer goes on: as its first one did. */
INLINE struct reply *reply_of(const struct packet *p)
{
	struct fragment_key fragment = { .id = p->fragment_id, .protocol = p->key.protocol };
	if (p->first_fragment || p->later_fragment) {
		__builtin_memcpy(fragment.source, p->key.client, 16);
		__builtin_memcpy(fragment.destination, p->key.vip, 16);
	}
	if (p->later_fragment)
		return bpf_map_lookup_elem(&reply_fragments, &fragment);
	struct flow_key key = { .client_port = p->key.vip_port, .vip_port = p->key.client_port, .protocol = p->key.protocol, .family = p->key.family };
	__builtin_memcpy(key.client, p->key.vip, 16);
	__builtin_memcpy(key.vip, p->key.client, 16);
	struct reply *reply = bpf_map_lookup_elem(&replies, &key);
	if (reply && p->first_fragment)
		bpf_map_update_elem(&reply_fragments, &fragment, reply, BPF_ANY);
	return reply;
}

/* A packet of a server on its way back to a client through NAT. XDP_PASS if it is none. */
GLOBAL int nat_reply(struct xdp_md *ctx, struct packet *p)
{
	if (!p)
		return XDP_DROP;
	struct reply *reply = reply_of(p);
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
