/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The maps, and the counter of everything that can become of a packet. */

/* Sizes are the defaults; the loader sets them from its options. */
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 65536); __type(key, struct vip_key); __type(value, struct service); } vips SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 65536); __type(key, __u32); __type(value, struct server); } servers SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 65536); __type(key, __u32); __type(value, struct load); } loads SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1048576); __type(key, __u32); __type(value, __u32); } rings SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 16384); __type(key, __u32); __type(value, __u32); } cursors SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 1048576); __type(key, struct flow_key); __type(value, struct flow); } flows SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 262144); __type(key, struct flow_key); __type(value, struct reply); } replies SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 262144); __type(key, struct persist_key); __type(value, struct persist); } templates SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 65536); __type(key, struct persist_key); __type(value, struct locality); } localities SEC(".maps");
/* Where a new one is put together: the stack has no room for it. */
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, struct locality); } new_locality SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 16384); __type(key, struct fragment_key); __type(value, __u32); } fragments SEC(".maps");
/* The same for what servers send back through NAT. */
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 16384); __type(key, struct fragment_key); __type(value, struct reply); } reply_fragments SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, struct settings); } settings SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 65536); __type(key, __u32); __type(value, struct tally); } server_tallies SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 16384); __type(key, __u32); __type(value, struct tally); } service_tallies SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, COUNTERS); __type(key, __u32); __type(value, __u64); } counters SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, struct flood); } floods SEC(".maps");
/* Addresses of this machine that tunnels may end at (the decap program). */
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 256); __type(key, struct vip_key); __type(value, __u32); } tunnel_ends SEC(".maps");

INLINE void count(__u32 what)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &what);
	if (value)
		*value += 1;
}
