// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/* The director's datapath: for every frame decide in XDP whether it belongs to a virtual server, to which real server it
 * goes, and send it there. What is not ours goes up the stack untouched.
 *
 * way of a packet: parse -> vips -> flow (or schedule) -> forward (DR: MACs; TUN: outer header; NAT: rewrite)
 *
 * Left out: VLAN tags in the frame (hardware strips them before), IPv6 options other than hop-by-hop, destination and
 * fragment headers, path MTU messages of our own. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "director.h"

#define INLINE static __always_inline
/* Verified once by itself, not once for every way to its call: loading takes a tenth of the time. */
#define GLOBAL __attribute__((noinline))
#define SECOND_NS 1000000000ULL
#define IP_MF 0x2000
#define IP_OFFSET 0x1fff
#define IP_DF 0x4000
#define ICMP6 58
/* Servers a load scheduler compares. */
#define LOAD_SERVERS_MAX 1024
/* Ring entries tried when servers are full. */
#define TRIES_MAX 16

/* Sizes are the defaults; the loader sets them from its options. */
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 65536); __type(key, struct vip_key); __type(value, struct service); } vips SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 65536); __type(key, __u32); __type(value, struct server); } servers SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 65536); __type(key, __u32); __type(value, struct load); } loads SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1048576); __type(key, __u32); __type(value, __u32); } rings SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 16384); __type(key, __u32); __type(value, __u32); } cursors SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 1048576); __type(key, struct flow_key); __type(value, struct flow); } flows SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 262144); __type(key, struct flow_key); __type(value, struct reply); } replies SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 262144); __type(key, struct persist_key); __type(value, struct persist); } templates SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 16384); __type(key, struct fragment_key); __type(value, __u32); } fragments SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, struct settings); } settings SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 65536); __type(key, __u32); __type(value, struct tally); } server_tallies SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 16384); __type(key, __u32); __type(value, struct tally); } service_tallies SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, COUNTERS); __type(key, __u32); __type(value, __u64); } counters SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, struct flood); } floods SEC(".maps");
/* Addresses of this machine that tunnels may end at (the decap program). */
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 256); __type(key, struct vip_key); __type(value, __u32); } tunnel_ends SEC(".maps");

struct packet {
	struct flow_key key;	/* as the client's packets have it */
	__u32 l4;		/* offset of the transport header */
	__u32 length;		/* of the IP packet */
	__u32 fragment_id;
	__u8 first_fragment;
	__u8 later_fragment;
	__u8 syn, ack, fin, rst;
	__u8 icmp_error;	/* key was read from the quoted packet */
};

INLINE void count(__u32 what)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &what);
	if (value)
		*value += 1;
}

/* Ports and flags. In an ICMP error only 8 bytes are sure to be there. */
INLINE int parse_transport(void *data, void *end, struct packet *p, __u32 at, int quoted)
{
	__u16 *ports = data + at;
	if ((void *)(ports + 2) > end)
		return -1;
	p->key.client_port = ports[0];
	p->key.vip_port = ports[1];
	if (p->key.protocol != IPPROTO_TCP || quoted)
		return 0;
	struct tcphdr *tcp = data + at;
	if ((void *)(tcp + 1) > end)
		return -1;
	p->syn = tcp->syn;
	p->ack = tcp->ack;
	p->fin = tcp->fin;
	p->rst = tcp->rst;
	return 0;
}

INLINE int has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

/* The packet quoted by an ICMP error came from the virtual address: source and destination change places. */
INLINE int parse_quoted4(void *data, void *end, struct packet *p, __u32 at)
{
	struct iphdr *ip = data + at;
	if ((void *)(ip + 1) > end || ip->version != 4)
		return -1;
	__u32 header = ip->ihl * 4;
	if (header < sizeof(*ip) || !has_ports(ip->protocol) || (ip->frag_off & bpf_htons(IP_OFFSET)))
		return -1;
	p->key.protocol = ip->protocol;
	p->key.client[0] = ip->daddr;
	p->key.vip[0] = ip->saddr;
	if (parse_transport(data, end, p, at + header, 1))
		return -1;
	__u16 port = p->key.client_port;
	p->key.client_port = p->key.vip_port;
	p->key.vip_port = port;
	p->icmp_error = 1;
	return 0;
}

INLINE int parse_quoted6(void *data, void *end, struct packet *p, __u32 at)
{
	struct ipv6hdr *ip = data + at;
	if ((void *)(ip + 1) > end || ip->version != 6 || !has_ports(ip->nexthdr))
		return -1;
	p->key.protocol = ip->nexthdr;
	__builtin_memcpy(p->key.client, &ip->daddr, 16);
	__builtin_memcpy(p->key.vip, &ip->saddr, 16);
	if (parse_transport(data, end, p, at + sizeof(*ip), 1))
		return -1;
	__u16 port = p->key.client_port;
	p->key.client_port = p->key.vip_port;
	p->key.vip_port = port;
	p->icmp_error = 1;
	return 0;
}

/* 0: understood; 1: nothing for us; -1: malformed. */
INLINE int parse4(void *data, void *end, struct packet *p)
{
	struct iphdr *ip = data + sizeof(struct ethhdr);
	if ((void *)(ip + 1) > end)
		return -1;
	__u32 header = ip->ihl * 4;
	if (ip->version != 4 || header < sizeof(*ip))
		return -1;
	__u16 offset = bpf_ntohs(ip->frag_off);
	p->key.family = 4;
	p->key.protocol = ip->protocol;
	p->key.client[0] = ip->saddr;
	p->key.vip[0] = ip->daddr;
	p->l4 = sizeof(struct ethhdr) + header;
	p->length = bpf_ntohs(ip->tot_len);
	p->fragment_id = ip->id;
	p->first_fragment = (offset & IP_MF) && !(offset & IP_OFFSET);
	p->later_fragment = (offset & IP_OFFSET) != 0;
	if (p->later_fragment)
		return 0;
	if (ip->protocol == IPPROTO_ICMP) {
		__u8 *type = data + p->l4;
		if ((void *)(type + 8) > end)
			return -1;
		/* unreachable, time exceeded, parameter problem */
		if (*type != 3 && *type != 11 && *type != 12)
			return 1;
		return parse_quoted4(data, end, p, p->l4 + 8) ? 1 : 0;
	}
	if (!has_ports(ip->protocol))
		return 1;
	return parse_transport(data, end, p, p->l4, 0);
}

INLINE int parse6(void *data, void *end, struct packet *p)
{
	struct ipv6hdr *ip = data + sizeof(struct ethhdr);
	if ((void *)(ip + 1) > end || ip->version != 6)
		return -1;
	__u8 next = ip->nexthdr;
	__u32 at = sizeof(struct ethhdr) + sizeof(*ip);
	p->key.family = 6;
	__builtin_memcpy(p->key.client, &ip->saddr, 16);
	__builtin_memcpy(p->key.vip, &ip->daddr, 16);
	p->length = bpf_ntohs(ip->payload_len) + sizeof(*ip);
#pragma unroll
	for (int i = 0; i < 3; i++) {
		if (next != 0 && next != 60 && next != 44)
			break;
		__u8 *header = data + at;
		if ((void *)(header + 8) > end)
			return -1;
		if (next == 44) {
			__u16 offset = (__u16)header[2] << 8 | header[3];
			__builtin_memcpy(&p->fragment_id, header + 4, 4);
			p->later_fragment = (offset & 0xfff8) != 0;
			p->first_fragment = (offset & 1) && !p->later_fragment;
			at += 8;
		} else {
			at += 8 + header[1] * 8;
		}
		next = header[0];
	}
	p->key.protocol = next;
	p->l4 = at;
	if (p->later_fragment)
		return 0;
	if (next == ICMP6) {
		__u8 *type = data + at;
		if ((void *)(type + 8) > end)
			return -1;
		if (*type < 1 || *type > 4)
			return 1;
		return parse_quoted6(data, end, p, at + 8) ? 1 : 0;
	}
	if (!has_ports(next))
		return 1;
	return parse_transport(data, end, p, at, 0);
}

INLINE __u32 mix(__u32 h, __u32 v)
{
	h ^= v;
	h ^= h >> 16;
	h *= 0x7feb352d;
	h ^= h >> 15;
	h *= 0x846ca68b;
	h ^= h >> 16;
	return h;
}

/* The same on every director: no seed of this machine takes part. */
INLINE __u32 hash4(__u32 h, const __u32 *words)
{
	h = mix(h, words[0]);
	h = mix(h, words[1]);
	h = mix(h, words[2]);
	return mix(h, words[3]);
}

INLINE __u32 flow_hash(const struct service *s, const struct flow_key *key, int with_port)
{
	__u32 h = mix(0x6c34, (__u32)key->protocol << 16 | key->vip_port);
	if (s->pick == PICK_DESTINATION_HASH)
		return hash4(h, key->vip);
	h = hash4(hash4(h, key->vip), key->client);
	if (with_port || (s->flags & SERVICE_HASH_PORT))
		h = mix(h, key->client_port);
	return h;
}

INLINE struct server *server_at(__u32 index)
{
	struct server *server = bpf_map_lookup_elem(&servers, &index);
	return server && (server->flags & SERVER_PRESENT) ? server : 0;
}

INLINE int full(__u32 index, const struct server *server)
{
	if (!server->conns_max)
		return 0;
	struct load *load = bpf_map_lookup_elem(&loads, &index);
	return load && load->active + load->inactive >= server->conns_max;
}

INLINE __u32 ring_at(const struct service *s, __u32 position)
{
	__u32 at = s->ring_start + position;
	__u32 *index = bpf_map_lookup_elem(&rings, &at);
	return index ? *index : ~0U;
}

struct comparison {
	struct service service;
	__u32 best;
	__u64 best_load, best_weight;
};

static long compare(__u32 position, void *context)
{
	struct comparison *c = context;
	if (position >= c->service.ring_length)
		return 1;
	__u32 index = ring_at(&c->service, position);
	struct server *server = server_at(index);
	struct load *load = bpf_map_lookup_elem(&loads, &index);
	if (!server || !load || !server->weight || (server->conns_max && load->active + load->inactive >= server->conns_max))
		return 0;
	__u64 measure = 0, weight = server->weight;
	switch (c->service.load) {
	case LOAD_CONNECTIONS:
		measure = (__u64)load->active * 256 + load->inactive;
		weight = 1;
		break;
	case LOAD_WEIGHTED:
		measure = (__u64)load->active * 256 + load->inactive;
		break;
	case LOAD_NEVER_QUEUE:
		if (!load->active) {
			c->best = index;
			return 1;
		}
		/* fall through */
	case LOAD_EXPECTED:
		measure = (__u64)load->active + 1;
		break;
	case LOAD_OVERFLOW:
		/* the heaviest with room: least 1 / weight */
		if (load->active >= server->weight)
			return 0;
		measure = 1;
		break;
	}
	if (c->best == ~0U || measure * c->best_weight < c->best_load * weight) {
		c->best = index;
		c->best_load = measure;
		c->best_weight = weight;
	}
	return 0;
}

/* Picks a server for a new flow; ~0 if there is none. A flow that will not be kept (or whose entry was lost) is hashed,
 * so that all its packets go the same way. */
GLOBAL __u32 schedule(const struct service *s, const struct packet *p, int hashed)
{
	if (!s || !p || !s->ring_length)
		return ~0U;
	if (s->pick == PICK_LOAD && !hashed) {
		struct comparison c = { .service = *s, .best = ~0U };
		bpf_loop(LOAD_SERVERS_MAX, compare, &c, 0);
		return c.best;
	}
	int by_hash = hashed || s->pick != PICK_COUNTER;
	__u32 position;
	if (by_hash) {
		position = flow_hash(s, &p->key, hashed && s->pick == PICK_COUNTER);
	} else {
		__u32 id = s->id;
		__u32 *cursor = bpf_map_lookup_elem(&cursors, &id);
		if (!cursor)
			return ~0U;
		position = __sync_fetch_and_add(cursor, 1);
	}
	for (int i = 0; i < TRIES_MAX; i++) {
		__u32 index = ring_at(s, (position + i) % s->ring_length);
		struct server *server = server_at(index);
		if (server && server->weight && !full(index, server))
			return index;
		if (by_hash && !hashed && !(s->flags & SERVICE_FALLBACK))
			return ~0U;
	}
	return ~0U;
}

INLINE void mask_client(__u32 *client, __u8 prefix)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int bits = (int)prefix - 32 * i;
		if (bits <= 0)
			client[i] = 0;
		else if (bits < 32)
			client[i] &= bpf_htonl(~0U << (32 - bits));
	}
}

GLOBAL __u32 schedule_persistent(const struct service *s, const struct packet *p, __u64 now, int hashed)
{
	if (!s || !p)
		return ~0U;
	struct persist_key key = { .service = s->id, .family = p->key.family };
	__builtin_memcpy(key.client, p->key.client, 16);
	mask_client(key.client, s->persist_prefix);
	struct persist *known = bpf_map_lookup_elem(&templates, &key);
	if (known && now - known->seen_ns < s->persist_timeout_s * SECOND_NS) {
		struct server *server = server_at(known->server);
		if (server && server->generation == known->generation) {
			known->seen_ns = now;
			return known->server;
		}
	}
	__u32 index = schedule(s, p, hashed);
	struct server *server = server_at(index);
	if (server) {
		struct persist value = { .seen_ns = now, .server = index, .generation = server->generation };
		bpf_map_update_elem(&templates, &key, &value, BPF_ANY);
	}
	return index;
}

INLINE void tally(void *map, __u32 index, __u32 bytes, int connection)
{
	struct tally *t = bpf_map_lookup_elem(map, &index);
	if (!t)
		return;
	t->packets += 1;
	t->bytes += bytes;
	t->connections += connection;
}

INLINE void account(__u32 index, int active, int inactive)
{
	struct load *load = bpf_map_lookup_elem(&loads, &index);
	if (!load)
		return;
	if (active)
		__sync_fetch_and_add(&load->active, active);
	if (inactive)
		__sync_fetch_and_add(&load->inactive, inactive);
}

/* One direction is seen: SYN, then ACK, then FIN or RST, as IPVS's input-only table has it. */
INLINE __u8 next_state(__u8 state, const struct packet *p)
{
	if (p->key.protocol != IPPROTO_TCP)
		return FLOW_UDP;
	if (p->rst)
		return FLOW_CLOSED;
	if (p->fin)
		return FLOW_FIN;
	if (p->syn)
		return FLOW_SYN;
	if (state == FLOW_SYN || state == 0)
		return FLOW_ESTABLISHED;
	return state;
}

INLINE int is_active(__u8 state)
{
	return state == FLOW_ESTABLISHED || state == FLOW_UDP;
}

/* Whether this core has seen more new flows in this second than it shall keep. */
INLINE int flooded(__u64 now, const struct settings *set)
{
	__u32 zero = 0;
	struct flood *f = bpf_map_lookup_elem(&floods, &zero);
	if (!f || !set->new_flows_max)
		return 0;
	__u64 second = now / SECOND_NS;
	if (f->window_s != second) {
		f->window_s = second;
		f->count = 0;
	}
	f->count += 1;
	return f->count > set->new_flows_max;
}

/* The server for a packet of a virtual server: that of its flow, or a new one. */
GLOBAL __u32 choose(const struct service *s, const struct packet *p, int *fresh)
{
	__u32 zero = 0;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	if (!s || !p || !fresh || !set)
		return ~0U;
	__u64 now = bpf_ktime_get_coarse_ns();
	int tcp = p->key.protocol == IPPROTO_TCP;
	*fresh = 1;
	if (s->flags & SERVICE_ONE_PACKET)
		return s->flags & SERVICE_PERSISTENT ? schedule_persistent(s, p, now, 0) : schedule(s, p, 0);

	struct flow *flow = bpf_map_lookup_elem(&flows, &p->key);
	if (flow) {
		__u8 state = flow->state;
		__u32 timeout = state < FLOW_STATES ? set->timeout_s[state] : 0;
		struct server *server = server_at(flow->server);
		int usable = 1;
		if (now - flow->seen_ns > timeout * SECOND_NS && now > flow->seen_ns) {
			count(COUNT_EXPIRED);
			usable = 0;
		} else if (!server || server->generation != flow->generation) {
			count(COUNT_STALE);
			usable = 0;
		} else if (p->syn && !p->ack && state != FLOW_SYN) {
			/* the client has begun anew; a repeated SYN stays where the first went */
			usable = 0;
		}
		if (usable) {
			__u8 next = next_state(state, p);
			if (next != state) {
				flow->state = next;
				int delta = is_active(next) - is_active(state);
				if (delta)
					account(flow->server, delta, -delta);
			}
			/* written at most once in a second: the line stays shared between cores */
			if (now - flow->seen_ns > SECOND_NS || next != state)
				flow->seen_ns = now;
			*fresh = 0;
			return flow->server;
		}
		if (server && server->generation == flow->generation)
			account(flow->server, -is_active(state), is_active(state) - 1);
	}

	int lost = tcp && !p->syn;
	int flood = flooded(now, set);
	__u32 index = s->flags & SERVICE_PERSISTENT ? schedule_persistent(s, p, now, lost || flood) : schedule(s, p, lost || flood);
	struct server *server = server_at(index);
	if (!server)
		return ~0U;
	if (flood) {
		count(COUNT_FLOOD);
		if (flow)
			bpf_map_delete_elem(&flows, &p->key);
		return index;
	}
	struct flow value = {
		.seen_ns = now,
		.server = index,
		.service = s->id,
		.generation = server->generation,
		.state = next_state(0, p),
	};
	bpf_map_update_elem(&flows, &p->key, &value, BPF_ANY);
	account(index, is_active(value.state), !is_active(value.state));
	count(COUNT_NEW_FLOW);
	return index;
}

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

INLINE int nat(struct xdp_md *ctx, const struct server *server, __u32 index, const struct packet *p, int fresh)
{
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
INLINE int nat_reply(struct xdp_md *ctx, struct packet *p)
{
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

INLINE struct service *service_of(const struct flow_key *flow)
{
	struct vip_key key = { .port = flow->vip_port, .protocol = flow->protocol, .family = flow->family };
	__builtin_memcpy(key.address, flow->vip, 16);
	struct service *s = bpf_map_lookup_elem(&vips, &key);
	if (s)
		return s;
	key.port = 0;
	return bpf_map_lookup_elem(&vips, &key);
}

INLINE int direct(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	count(COUNT_SEEN);
	struct packet p = {};
	int parsed;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		parsed = parse4(data, end, &p);
	else if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		parsed = parse6(data, end, &p);
	else
		return XDP_PASS;
	if (parsed) {
		/* the stack judges what we cannot read */
		if (parsed < 0)
			count(COUNT_MALFORMED);
		return XDP_PASS;
	}
	__u32 zero = 0;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	if (!set)
		return XDP_PASS;

	struct fragment_key fragment = {};
	if (p.first_fragment || p.later_fragment) {
		__builtin_memcpy(fragment.source, p.key.client, 16);
		__builtin_memcpy(fragment.destination, p.key.vip, 16);
		fragment.id = p.fragment_id;
		fragment.protocol = p.key.protocol;
	}
	if (p.later_fragment) {
		__u32 *index = bpf_map_lookup_elem(&fragments, &fragment);
		if (index)
			return forward(ctx, *index, &p, 0);
		/* a fragment to one of our addresses whose first part was not seen is no business of the stack either,
		 * but without its port we cannot know it is ours */
		count(COUNT_FRAGMENT_LOST);
		return XDP_PASS;
	}

	struct service *found = service_of(&p.key);
	if (!found) {
		if (set->nat && !p.icmp_error) {
			int verdict = nat_reply(ctx, &p);
			if (verdict != XDP_PASS)
				return verdict;
		}
		count(COUNT_NOT_VIP);
		return XDP_PASS;
	}
	/* a copy: the entry may be replaced while we work */
	struct service s = *found;
	if (s.flags & SERVICE_LOCAL)
		return XDP_PASS;
	if (p.icmp_error) {
		struct flow *flow = bpf_map_lookup_elem(&flows, &p.key);
		if (!flow)
			return XDP_PASS;
		count(COUNT_ICMP);
		return forward(ctx, flow->server, &p, 0);
	}
	int fresh = 1;
	__u32 index = choose(&s, &p, &fresh);
	if (index == ~0U) {
		count(COUNT_NO_SERVER);
		return XDP_DROP;
	}
	tally(&service_tallies, s.id, p.length, fresh);
	if (p.first_fragment)
		bpf_map_update_elem(&fragments, &fragment, &index, BPF_ANY);
	return forward(ctx, index, &p, fresh);
}

SEC("xdp")
int director(struct xdp_md *ctx)
{
	return direct(ctx);
}

/* Strips the outer header of tunnels that end here (a real server's side); the stack gets the inner packet. */
SEC("xdp")
int decap(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	struct vip_key key = {};
	__u32 strip;
	__u8 inner;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);
		if ((void *)(ip + 1) > end || ip->ihl != 5 || (ip->frag_off & bpf_htons(IP_MF | IP_OFFSET)))
			return XDP_PASS;
		key.family = 4;
		key.address[0] = ip->daddr;
		strip = sizeof(*ip);
		inner = ip->protocol;
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);
		if ((void *)(ip + 1) > end)
			return XDP_PASS;
		key.family = 6;
		__builtin_memcpy(key.address, &ip->daddr, 16);
		strip = sizeof(*ip);
		inner = ip->nexthdr;
	} else {
		return XDP_PASS;
	}
	if (inner != IPPROTO_IPIP && inner != IPPROTO_IPV6)
		return XDP_PASS;
	if (!bpf_map_lookup_elem(&tunnel_ends, &key))
		return XDP_PASS;
	struct ethhdr saved = *eth;
	saved.h_proto = inner == IPPROTO_IPIP ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
	if (bpf_xdp_adjust_head(ctx, strip))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	eth = data;
	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	*eth = saved;
	count(COUNT_DECAPSULATED);
	return XDP_PASS;
}

/* Does nothing: veth needs a program on the far end before it takes frames sent by XDP, and it measures the floor. */
SEC("xdp")
int pass(struct xdp_md *ctx __attribute__((unused)))
{
	return XDP_PASS;
}

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

char _license[] SEC("license") = "GPL";
