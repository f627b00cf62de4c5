//go:build ignore

/* The packet sink: checks the mark, counts, and drops. A packet that does not bear
 * the mark of this run goes on to the kernel's stack. */
#include <linux/pkt_cls.h>
#include "traffic.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define SUB_BITS 7
#define MAX_EXPONENT 34
#define BUCKETS ((MAX_EXPONENT - SUB_BITS + 2) << SUB_BITS)
#define WINDOW_BITS 24 /* sequence numbers within which a duplicate is detected */
#define BIN_SHIFT 20   /* a bin of send times is 2^20 ns, about 1.05 ms */
#define BINS 65536
#define FLOWS_PER_LINE 16

struct config {
	__u32 src_net, src_bits;
	__u32 flows;
	__u8 ipv6, reversed, tai, bins, order, exact;
	__u16 run;
	__u8 offset;  /* of the plain frame within what encapsulates it */
	__u8 vlans;   /* tags, up to two, which receivers may have taken off */
	__u8 untyped; /* what is in front of the IP header is no type of Ethernet: MPLS */
	__u8 tcp;
};

struct stats {
	__u64 packets, bytes, foreign;
	__u64 duplicates; /* exact within the window */
	__u64 stale;      /* came more than a window late: unknown whether a duplicate */
	__u64 reordered;  /* behind a later packet of its flow */
	__u64 late;       /* behind a later packet of any flow on this core */
	__u64 next_seq;   /* highest sequence number seen, plus 1 */
	__u64 first_ns, last_ns;
	__u64 latency_sum, latency_min, latency_max;
	__u64 ahead;      /* arrived before they were sent: the clocks disagree */
	__u64 latency[BUCKETS];
};

struct line {
	__u32 next[FLOWS_PER_LINE]; /* low bits of the flow's highest sequence number, plus 1 */
};

const volatile struct config config;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stats);
} stats SEC(".maps");

/* Bitmap of seen sequence numbers, a ring. An entry holds 32 of them and, in its
 * upper half, the turn of the ring that they belong to. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << (WINDOW_BITS - 5));
	__type(key, __u32);
	__type(value, __u64);
} window SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader sets it */
	__type(key, __u32);
	__type(value, struct line);
} order SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BINS);
	__type(key, __u32);
	__type(value, __u64);
} bins SEC(".maps");

static __always_inline __u32 bucket(__u64 value)
{
	__u32 e = 0;
	__u64 v = value;
	if (v >> (MAX_EXPONENT + 1))
		return BUCKETS - 1;
	if (v < 1 << SUB_BITS)
		return v;
	if (v >> 32) { e += 32; v >>= 32; }
	if (v >> 16) { e += 16; v >>= 16; }
	if (v >> 8) { e += 8; v >>= 8; }
	if (v >> 4) { e += 4; v >>= 4; }
	if (v >> 2) { e += 2; v >>= 2; }
	e += v >> 1;
	return ((e - SUB_BITS + 1) << SUB_BITS) + ((value >> (e - SUB_BITS)) & ((1 << SUB_BITS) - 1));
}

/* first_sight marks the number as seen; 1: first time, 0: again, -1: too old to tell. */
static __always_inline int first_sight(__u64 seq)
{
	__u32 index = seq >> 5 & ((1 << (WINDOW_BITS - 5)) - 1);
	__u64 turn = seq >> WINDOW_BITS << 32, bit = 1ULL << (seq & 31);
	__u64 *entry = bpf_map_lookup_elem(&window, &index);
	if (!entry)
		return -1;
	/* Cores race only for the same 32 numbers; four tries are plenty. */
	for (int i = 0; i < 4; i++) {
		__u64 old = *(volatile __u64 *)entry, base = old;
		if ((old ^ turn) >> 32) {
			if (old >> 32 > turn >> 32)
				return -1;
			base = turn;
		}
		if (base & bit)
			return 0;
		if (__sync_val_compare_and_swap(entry, old, base | bit) == old)
			return 1;
	}
	return -1;
}

static __always_inline int behind_flow(__u32 flow, __u32 next)
{
	__u32 index = flow / FLOWS_PER_LINE;
	struct line *line = bpf_map_lookup_elem(&order, &index);
	if (!line)
		return 0;
	__u32 *last = &line->next[flow & (FLOWS_PER_LINE - 1)];
	if (*last && (__s32)(next - *last) < 0)
		return 1;
	*last = next;
	return 0;
}

static __always_inline int is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

/* find_mark gives the mark of a frame of this run and its flow, or null. */
static __always_inline struct mark *find_mark(void *data, void *end, __u32 *flow)
{
	struct eth *eth = data;
	struct udp *udp;
	__u32 address, offset = config.offset;
	__u32 header = config.tcp ? TCP_LEN : sizeof(*udp);
	__u8 protocol = config.tcp ? IPPROTO_TCP : IPPROTO_UDP;
	if (config.offset) {
		__be16 *type = data + 12;
		__u32 tags = 0;
		if (data + 20 > end)
			return 0;
		if (config.vlans && is_tag(type[0])) {
			tags = 1;
			if (config.vlans > 1 && is_tag(type[2]))
				tags = 2;
		}
		offset -= 4 * (config.vlans - tags);
	}
	eth = data + offset;
	if (config.ipv6) {
		struct ip6 *ip = (void *)(eth + 1);
		udp = (void *)(ip + 1);
		if ((void *)udp + header + sizeof(struct mark) > end)
			return 0;
		if ((!config.untyped && eth->type != bpf_htons(ETH_P_IPV6)) || ip->next_header != protocol)
			return 0;
		address = bpf_ntohl(config.reversed ? ip->dst[3] : ip->src[3]);
	} else {
		struct ip4 *ip = (void *)(eth + 1);
		udp = (void *)(ip + 1);
		if ((void *)udp + header + sizeof(struct mark) > end)
			return 0;
		if ((!config.untyped && eth->type != bpf_htons(ETH_P_IP)) || ip->version_ihl != 0x45 || ip->protocol != protocol)
			return 0;
		address = bpf_ntohl(config.reversed ? ip->dst : ip->src);
	}
	struct mark *mark = (void *)udp + header;
	if (bpf_be64_to_cpu(mark->magic_seq) >> 48 != MAGIC || mark->run != bpf_htons(config.run))
		return 0;
	__u16 port = bpf_ntohs(config.reversed ? udp->dst : udp->src);
	*flow = ((__u32)(port - FIRST_PORT) << config.src_bits) + (address - config.src_net);
	return mark;
}

/* count takes a frame down; 1: of this run, 0: foreign, -1: fault. */
static __always_inline int count(void *data, void *end, __u32 length)
{
	__u32 zero = 0, flow = 0;
	struct stats *s = bpf_map_lookup_elem(&stats, &zero);
	if (!s)
		return -1;
	struct mark *mark = find_mark(data, end, &flow);
	if (!mark) {
		s->foreign++;
		return 0;
	}
	__u64 now = config.tai ? bpf_ktime_get_tai_ns() : bpf_ktime_get_ns();
	__u64 seq = bpf_be64_to_cpu(mark->magic_seq) & 0xffffffffffffULL;
	__u64 sent = bpf_be64_to_cpu(mark->sent_ns);

	s->packets++;
	s->bytes += length;
	s->last_ns = now;
	if (!s->first_ns)
		s->first_ns = now;

	if (config.exact) {
		int first = first_sight(seq);
		if (first <= 0) {
			if (first)
				s->stale++;
			else
				s->duplicates++;
			return 1;
		}
	}
	if (seq < s->next_seq)
		s->late++;
	else
		s->next_seq = seq + 1;
	if (config.order && flow < config.flows && behind_flow(flow, seq + 1))
		s->reordered++;

	__u64 latency = now - sent;
	if ((__s64)latency < 0) {
		s->ahead++;
		latency = 0;
	}
	s->latency_sum += latency;
	if (latency > s->latency_max)
		s->latency_max = latency;
	/* The minimum is kept as its complement, so that zero means none. */
	if (~latency > s->latency_min)
		s->latency_min = ~latency;
	__u32 b = bucket(latency);
	if (b < BUCKETS)
		s->latency[b]++;

	if (config.bins) {
		__u32 bin = sent >> BIN_SHIFT & (BINS - 1);
		__u64 *n = bpf_map_lookup_elem(&bins, &bin);
		if (n)
			__sync_fetch_and_add(n, 1);
	}
	return 1;
}

SEC("xdp.frags")
int sink(struct xdp_md *ctx)
{
	switch (count((void *)(long)ctx->data, (void *)(long)ctx->data_end, bpf_xdp_get_buff_len(ctx))) {
	case 1:
		return XDP_DROP;
	case 0:
		return XDP_PASS;
	}
	return XDP_ABORTED;
}

SEC("tcx/ingress")
int sink_tc(struct __sk_buff *skb)
{
	return count((void *)(long)skb->data, (void *)(long)skb->data_end, skb->len) == 1 ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}
