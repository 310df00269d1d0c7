// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/* The director's datapath: for every frame decide in XDP whether it belongs to a virtual server, to which real server it
 * goes, and send it there. What is not ours goes up the stack untouched.
 *
 * way of a packet: parse -> vips -> flow (or schedule) -> forward (DR: MACs; TUN: outer header; NAT: rewrite)
 *
 * Left out: VLAN tags in the frame (hardware strips them before), IPv6 options other than hop-by-hop, destination and
 * fragment headers. */
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
/* Ring entries tried when servers are full or drain: all the slots of sh and dh. */
#define TRIES_MAX 256

#include "maps.h"
#include "parse.h"
#include "schedule.h"
#include "nat.h"
#include "forward.h"

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
		if (set->nat) {
			int verdict = nat_reply(ctx, &p);
			if (verdict != XDP_PASS)
				return verdict;
		}
		/* a fragment to one of our addresses whose first part was not seen is no business of the stack either,
		 * but without its port we cannot know it is ours */
		count(COUNT_FRAGMENT_LOST);
		return XDP_PASS;
	}

	struct service *found = service_of(&p.key);
	if (!found) {
		if (set->nat) {
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

#include "measure.h"

char _license[] SEC("license") = "GPL";
