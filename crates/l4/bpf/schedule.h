/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Which server: that of the flow, of the client (persistence), or the scheduler's choice; and the flow's state. */

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
	h = hash4(hash4(h, key->vip), key->client);
	if (with_port || (s->flags & SERVICE_HASH_PORT))
		h = mix(h, key->client_port);
	return h;
}

/* The slot of 256 that IPVS's sh (client's address and, with sh-port, port) and dh (virtual address) look into. */
INLINE __u32 slot_of(const struct service *s, const struct flow_key *key)
{
	const __u32 *a = s->pick == PICK_SOURCE_SLOT ? key->client : key->vip;
	__u32 port = s->pick == PICK_SOURCE_SLOT && (s->flags & SERVICE_HASH_PORT) ? bpf_ntohs(key->client_port) : 0;
	return ((port + bpf_ntohl(a[0] ^ a[1] ^ a[2] ^ a[3])) * 0x61c88647U) >> 24;
}

INLINE struct server *server_at(__u32 index)
{
	struct server *server = bpf_map_lookup_elem(&servers, &index);
	return server && (server->flags & SERVER_PRESENT) ? server : 0;
}

/* A server that had as many connections as it may have gets none until it has few enough again, as in IPVS. */
INLINE int is_full(const struct server *server, struct load *load)
{
	if (!server->conns_max)
		return 0;
	__u32 all = load->active + load->inactive;
	if (all >= server->conns_max) {
		if (!load->full)
			load->full = 1;
	} else if (load->full && (server->conns_min ? all < server->conns_min : (__u64)all * 4 < (__u64)server->conns_max * 3)) {
		load->full = 0;
	}
	return load->full;
}

INLINE int full(__u32 index, const struct server *server)
{
	if (!server->conns_max)
		return 0;
	struct load *load = bpf_map_lookup_elem(&loads, &index);
	return load && is_full(server, load);
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
	if (!server || !load || !server->weight || is_full(server, load))
		return 0;
	__u64 measure = 0, weight = server->weight;
	switch (c->service.load) {
	case LOAD_CONNECTIONS:
		measure = (__u64)load->active * 256 + load->inactive;
		weight = 1;
		break;
	case LOAD_WEIGHTED:
	case LOAD_LOCAL:
	case LOAD_REPLICATED:
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
		if (load->active > server->weight)
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

/* The least loaded of a service's servers. By itself for its stack's sake, as the next ones: 512 bytes are for all calls. */
GLOBAL __u32 least_loaded(const struct service *s)
{
	if (!s)
		return ~0U;
	struct comparison c = { .service = *s, .best = ~0U };
	bpf_loop(LOAD_SERVERS_MAX, compare, &c, 0);
	return c.best;
}

/* Whether a server has less than half the connections that its weight allows. */
static long idle(__u32 position, void *context)
{
	struct comparison *c = context;
	if (position >= c->service.ring_length)
		return 1;
	__u32 index = ring_at(&c->service, position);
	struct server *server = server_at(index);
	struct load *load = bpf_map_lookup_elem(&loads, &index);
	if (!server || !load || (__u64)load->active * 2 >= server->weight)
		return 0;
	c->best = index;
	return 1;
}

/* lblc, lblcr: more active connections than its weight while another is half idle. */
GLOBAL int overloaded(const struct service *s, __u32 index)
{
	struct server *server = server_at(index);
	struct load *load = bpf_map_lookup_elem(&loads, &index);
	if (!s || !server || !load || load->active <= server->weight)
		return 0;
	struct comparison c = { .service = *s, .best = ~0U };
	bpf_loop(LOAD_SERVERS_MAX, idle, &c, 0);
	return c.best != ~0U;
}

/* A set that has not changed for this long loses its most loaded server (IPVS: lblcr_expiration, a day). */
#define LOCAL_REST_NS (86400 * SECOND_NS)

/* The least loaded of the servers that a virtual address stays with; ~0 if none of them can be used. Drops the most loaded of a
 * set that has rested. */
GLOBAL __u32 local_server(struct locality *known, __u64 now)
{
	if (!known)
		return ~0U;
	__u32 best = ~0U, worst = 0;
	__u64 best_load = 0, best_weight = 1, worst_load = 0, worst_weight = 1;
	for (__u32 n = 0; n < LOCAL_SERVERS; n++) {
		/* the newest first: it wins against equals */
		__u32 i = LOCAL_SERVERS - 1 - n;
		if (i >= known->count)
			continue;
		__u32 index = known->server[i];
		struct server *server = server_at(index);
		struct load *load = bpf_map_lookup_elem(&loads, &index);
		if (!server || !load || server->generation != known->generation[i] || !server->weight)
			continue;
		__u64 measure = (__u64)load->active * 256 + load->inactive;
		if (best == ~0U || measure * best_weight < best_load * server->weight) {
			best = index;
			best_load = measure;
			best_weight = server->weight;
		}
		if (measure * worst_weight > worst_load * server->weight) {
			worst = i;
			worst_load = measure;
			worst_weight = server->weight;
		}
	}
	if (known->count > 1 && known->count <= LOCAL_SERVERS && now - known->changed_ns > LOCAL_REST_NS) {
		__u32 last = known->count - 1;
		if (last < LOCAL_SERVERS && worst < LOCAL_SERVERS) {
			known->server[worst] = known->server[last];
			known->generation[worst] = known->generation[last];
			known->count = last;
			known->changed_ns = now;
		}
	}
	return best;
}

/* lblc, lblcr. */
GLOBAL __u32 schedule_local(const struct service *s, const struct packet *p)
{
	if (!s || !p || !s->ring_length)
		return ~0U;
	__u64 now = bpf_ktime_get_coarse_ns();
	struct persist_key key = { .service = s->id, .family = p->key.family };
	__builtin_memcpy(key.client, p->key.vip, 16);
	struct locality *known = bpf_map_lookup_elem(&localities, &key);
	if (known) {
		__u32 index = local_server(known, now);
		if (index != ~0U && !overloaded(s, index))
			return index;
	}
	__u32 best = least_loaded(s);
	struct server *server = server_at(best);
	if (!server)
		return ~0U;
	__u32 at = known && s->load == LOAD_REPLICATED ? known->count : 0;
	/* cores that add at the same time may lose one of their servers: the next overload adds it again */
	if (known) {
		int there = 0;
		for (__u32 i = 0; i < LOCAL_SERVERS; i++)
			there |= i < at && known->server[i] == best && known->generation[i] == server->generation;
		if (!there && at < LOCAL_SERVERS) {
			known->server[at] = best;
			known->generation[at] = server->generation;
			known->count = at + 1;
			known->changed_ns = now;
		}
		return best;
	}
	__u32 zero = 0;
	struct locality *value = bpf_map_lookup_elem(&new_locality, &zero);
	if (!value)
		return best;
	value->changed_ns = now;
	value->count = 1;
	value->server[0] = best;
	value->generation[0] = server->generation;
	bpf_map_update_elem(&localities, &key, value, BPF_ANY);
	return best;
}

/* Servers that are full or drain are passed over, as far as the ring goes. */
struct search {
	struct service service;
	__u32 start;
	__u32 found;
	__u32 turn;	/* whose turn it is is counted: those that are passed over have had theirs */
};

INLINE void turn(const struct service *s, __u32 by)
{
	__u32 id = s->id;
	__u32 *cursor = bpf_map_lookup_elem(&cursors, &id);
	if (cursor)
		__sync_fetch_and_add(cursor, by);
}

static long usable(__u32 step, void *context)
{
	struct search *search = context;
	if (step >= search->service.ring_length)
		return 1;
	__u32 index = ring_at(&search->service, (search->start + step) % search->service.ring_length);
	struct server *server = server_at(index);
	if (!server || !server->weight || full(index, server))
		return 0;
	search->found = index;
	if (search->turn)
		turn(&search->service, step);
	return 1;
}

GLOBAL __u32 next_usable(const struct service *s, __u32 start, int counted)
{
	if (!s)
		return ~0U;
	struct search search = { .service = *s, .start = start, .found = ~0U, .turn = counted };
	bpf_loop(TRIES_MAX, usable, &search, 0);
	/* nobody had it: the turn stays where it was */
	if (counted && search.found == ~0U)
		turn(s, ~0U);
	return search.found;
}

/* twos: two servers drawn by their weights; the one with the lower load by weight has it, the first of equals. */
GLOBAL __u32 less_loaded_of_two(const struct service *s)
{
	if (!s || !s->ring_length)
		return ~0U;
	__u32 one = ring_at(s, bpf_get_prandom_u32() % s->ring_length);
	__u32 two = ring_at(s, bpf_get_prandom_u32() % s->ring_length);
	struct server *first = server_at(one), *second = server_at(two);
	struct load *first_load = bpf_map_lookup_elem(&loads, &one), *second_load = bpf_map_lookup_elem(&loads, &two);
	if (!first || !second || !first_load || !second_load)
		return ~0U;
	int first_usable = first->weight && !full(one, first), second_usable = second->weight && !full(two, second);
	if (!first_usable && !second_usable)
		return next_usable(s, bpf_get_prandom_u32(), 0);
	if (!first_usable || !second_usable)
		return first_usable ? one : two;
	__u64 first_measure = (__u64)first_load->active * 256 + first_load->inactive;
	__u64 second_measure = (__u64)second_load->active * 256 + second_load->inactive;
	return second->weight * first_measure > first->weight * second_measure ? two : one;
}

/* Picks a server for a new flow; ~0 if there is none. A flow that will not be kept (or whose entry was lost) is hashed,
 * so that all its packets go the same way. */
GLOBAL __u32 schedule(const struct service *s, const struct packet *p, int hashed)
{
	if (!s || !p || !s->ring_length)
		return ~0U;
	if (s->pick == PICK_LOAD && !hashed) {
		if (s->load >= LOAD_LOCAL)
			return schedule_local(s, p);
		return least_loaded(s);
	}
	if (s->pick == PICK_TWO && !hashed)
		return less_loaded_of_two(s);
	int slots = s->pick == PICK_SOURCE_SLOT || s->pick == PICK_DESTINATION_SLOT;
	__u32 position;
	if (slots) {
		position = slot_of(s, &p->key);
	} else if (hashed || s->pick == PICK_MAGLEV) {
		position = flow_hash(s, &p->key, hashed && (s->pick == PICK_COUNTER || s->pick == PICK_TWO));
	} else {
		__u32 id = s->id;
		__u32 *cursor = bpf_map_lookup_elem(&cursors, &id);
		if (!cursor)
			return ~0U;
		position = __sync_fetch_and_add(cursor, 1);
	}
	__u32 index = ring_at(s, position % s->ring_length);
	struct server *server = server_at(index);
	if (server && server->weight && !full(index, server))
		return index;
	/* a full server keeps its clients waiting, unless sh-fallback or mh-fallback is set; one that drains does not */
	if (!hashed && s->pick != PICK_COUNTER && !(s->flags & SERVICE_FALLBACK) && server && server->weight)
		return ~0U;
	/* IPVS begins its search at twice the slot */
	return next_usable(s, slots ? position * 2 : position, s->pick == PICK_COUNTER && !hashed);
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

/* IPVS counts a connection from its SYN on, so that a burst of them is spread. */
INLINE int is_active(__u8 state)
{
	return state == FLOW_SYN || state == FLOW_ESTABLISHED || state == FLOW_UDP;
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
	full(index, server);
	count(COUNT_NEW_FLOW);
	return index;
}
