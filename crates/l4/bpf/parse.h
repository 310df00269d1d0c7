/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* A frame becomes a struct packet: addresses, ports, flags, what an ICMP error quotes, which part of a fragmented packet it is. */

struct packet {
	struct flow_key key;	/* as the client's packets have it */
	__u32 l4;		/* offset of the transport header */
	__u32 length;		/* of the IP packet */
	__u32 fragment_id;
	__u8 first_fragment;
	__u8 later_fragment;
	__u8 syn, ack, fin, rst;
	__u8 icmp_error;	/* key was read from the quoted packet */
	__u32 quoted;		/* offsets of the quoted packet's headers */
	__u32 quoted_l4;
};

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
	p->quoted = at;
	p->quoted_l4 = at + header;
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
	p->quoted = at;
	p->quoted_l4 = at + sizeof(*ip);
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
