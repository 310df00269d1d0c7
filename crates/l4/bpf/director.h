/* The structures shared between the XDP programs and the program that loads them.
 * Mirrored by src/datapath/layout.rs; tests/layout.rs compares sizes and offsets through BTF.
 * Addresses and ports are in network order; an IPv4 address stands in the first word, the others are 0. */
#ifndef SLUICE_DIRECTOR_H
#define SLUICE_DIRECTOR_H

struct vip_key {
	__u32 address[4];
	__u16 port;	/* 0: any port (persistent services without one) */
	__u8 protocol;
	__u8 family;	/* 4 or 6 */
};

/* How a server is picked from a service's ring. */
enum pick { PICK_COUNTER, PICK_MAGLEV, PICK_DESTINATION_SLOT, PICK_LOAD, PICK_SOURCE_SLOT, PICK_TWO };
/* What PICK_LOAD compares. */
enum load_kind { LOAD_CONNECTIONS, LOAD_WEIGHTED, LOAD_EXPECTED, LOAD_NEVER_QUEUE, LOAD_OVERFLOW, LOAD_LOCAL, LOAD_REPLICATED };

#define SERVICE_HASH_PORT 1	/* the client's port takes part in the hash */
#define SERVICE_FALLBACK 2	/* an overloaded server is passed over when hashing */
#define SERVICE_ONE_PACKET 4	/* no flow is kept */
#define SERVICE_PERSISTENT 8
#define SERVICE_LOCAL 16	/* known, and left to this machine's own sockets */

struct service {
	__u32 id;		/* of the virtual_server block: counters, cursor, persistence */
	__u8 pick;
	__u8 load;
	__u8 flags;
	__u8 persist_prefix;	/* of the client's address, in bits */
	__u32 ring_start;
	__u32 ring_length;
	__u32 persist_timeout_s;
};

enum kind { KIND_NAT = 1, KIND_DIRECT = 2, KIND_TUNNEL = 3 };
#define SERVER_PRESENT 1
#define SERVER_LOCAL 2		/* this machine itself */

struct server {
	__u32 address[4];
	__u32 tunnel_source[4];
	__u32 ifindex;		/* 0: the next hop is not known */
	__u32 weight;
	__u32 conns_max;	/* 0: no limit */
	__u16 port;
	__u16 generation;	/* changes when the slot goes to another server */
	__u8 family;
	__u8 kind;
	__u8 flags;
	__u8 pad;
	__u8 next_hop[6];
	__u8 own_mac[6];
	__u32 mtu;		/* of the interface towards it; 0: not known */
	__u32 conns_min;	/* once full, it gets none until it has fewer; 0: than three quarters of conns_max */
};

/* Connections of a server as the schedulers see them. */
struct load {
	__u32 active;
	__u32 inactive;
	__u32 full;		/* it had conns_max, and not yet few enough again */
};

struct flow_key {
	__u32 client[4];
	__u32 vip[4];
	__u16 client_port;
	__u16 vip_port;
	__u8 protocol;
	__u8 family;
	__u16 pad;
};

enum flow_state { FLOW_SYN = 1, FLOW_ESTABLISHED = 2, FLOW_FIN = 3, FLOW_CLOSED = 4, FLOW_UDP = 5 };
#define FLOW_STATES 6

struct flow {
	__u64 seen_ns;		/* CLOCK_MONOTONIC, coarse */
	__u32 server;
	__u32 service;
	__u16 generation;
	__u8 state;
	__u8 pad[5];
};

/* A connection's way back through NAT, keyed by the server's side. */
struct reply {
	__u32 vip[4];
	__u16 vip_port;
	__u8 client_mac[6];	/* where the client's packets came from */
	__u8 own_mac[6];
	__u16 pad;
	__u32 ifindex;
	__u32 server;
};

struct persist_key {
	__u32 client[4];
	__u32 service;
	__u32 family;
};

struct persist {
	__u64 seen_ns;
	__u32 server;
	__u16 generation;
	__u16 pad;
};

/* lblc, lblcr: the servers a virtual address stays with, the newest last. */
#define LOCAL_SERVERS 8
struct locality {
	__u64 changed_ns;
	__u32 count;
	__u32 pad;
	__u32 server[LOCAL_SERVERS];
	__u16 generation[LOCAL_SERVERS];
};

struct fragment_key {
	__u32 source[4];
	__u32 destination[4];
	__u32 id;
	__u32 protocol;
};

struct settings {
	__u32 timeout_s[FLOW_STATES];	/* by flow_state; 0 of no use */
	__u32 new_flows_max;		/* per core and second before flows are no longer kept; 0: no limit */
	__u32 nat;			/* some server is reached by NAT: look for replies */
};

struct tally {
	__u64 connections;
	__u64 packets;
	__u64 bytes;
};

/* Everything that can become of a packet, counted per core. */
enum counter {
	COUNT_SEEN, COUNT_NOT_VIP, COUNT_FORWARDED, COUNT_NEW_FLOW, COUNT_NO_SERVER, COUNT_NO_NEXT_HOP,
	COUNT_MALFORMED, COUNT_FRAGMENT_LOST, COUNT_FLOOD, COUNT_ICMP, COUNT_STALE, COUNT_EXPIRED, COUNT_REPLY,
	COUNT_NO_ROOM, COUNT_DECAPSULATED, COUNT_TTL, COUNT_TOO_LONG, COUNT_LOCAL, COUNTERS,
};

struct flood {
	__u64 window_s;
	__u64 count;
};

/* Where the loader writes and reads each field. */
#define AT(type, field, offset) _Static_assert(__builtin_offsetof(struct type, field) == offset, #type "." #field)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == size, #type)
SIZE(vip_key, 20); AT(vip_key, port, 16); AT(vip_key, protocol, 18); AT(vip_key, family, 19);
SIZE(service, 20); AT(service, pick, 4); AT(service, load, 5); AT(service, flags, 6); AT(service, persist_prefix, 7);
AT(service, ring_start, 8); AT(service, ring_length, 12); AT(service, persist_timeout_s, 16);
SIZE(server, 72); AT(server, tunnel_source, 16); AT(server, ifindex, 32); AT(server, weight, 36); AT(server, conns_max, 40);
AT(server, port, 44); AT(server, generation, 46); AT(server, family, 48); AT(server, kind, 49); AT(server, flags, 50);
AT(server, next_hop, 52); AT(server, own_mac, 58); AT(server, mtu, 64); AT(server, conns_min, 68);
SIZE(load, 12); AT(load, inactive, 4); AT(load, full, 8);
SIZE(flow_key, 40); AT(flow_key, vip, 16); AT(flow_key, client_port, 32); AT(flow_key, vip_port, 34); AT(flow_key, protocol, 36); AT(flow_key, family, 37);
SIZE(flow, 24); AT(flow, server, 8); AT(flow, service, 12); AT(flow, generation, 16); AT(flow, state, 18);
SIZE(persist_key, 24); SIZE(persist, 16); AT(persist, server, 8); AT(persist, generation, 12);
SIZE(settings, 32); AT(settings, new_flows_max, 24); AT(settings, nat, 28);
SIZE(tally, 24); AT(tally, packets, 8); AT(tally, bytes, 16);

#endif
