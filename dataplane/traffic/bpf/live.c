//go:build ignore

/* The packet source: writes one frame of the workload into each page that the
 * kernel's live-frame mode of BPF_PROG_RUN offers, and redirects it out of an
 * interface, at a steady rate.
 *
 * The kernel calls the program in a loop that only a signal or the end of the
 * repeat count stops. Between packets the program therefore returns XDP_DROP,
 * which hands the page straight back (about 30 ns), until the next one is due. */
#include "traffic.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define ORDER_UNIFORM 0
#define ORDER_ZIPF 1
#define ORDER_ROUND_ROBIN 2
#define MAX_SIZES 16
#define RATE_SHIFT 16

struct config {
	__u64 seed;
	__u64 src_mac, dst_mac;       /* of flow 0; 48 bits */
	__u32 src_macs, dst_macs;     /* how many addresses the flows are spread over */
	__u32 src_net[4], dst_net[4]; /* host order, host part zero; IPv4 uses [3] only */
	__u32 src_bits, dst_bits;     /* length of the host part, 0 to 24 */
	__u32 net_sum;                /* 16-bit words of both nets but their last two, summed */
	__u32 flows;                  /* of this part */
	__u32 part, parts;            /* numbers and flows are each parts-th, from part on */
	__u32 columns;
	__u32 ifindex;
	__u16 sizes[MAX_SIZES];
	__u8 size_count;
	__u8 order;
	__u8 ipv6;
	__u8 udp_checksum;
	__u8 reversed;
	__u8 tai;
	__u16 run;
};

struct state {
	__u64 interval;    /* ns << RATE_SHIFT between packets; 0: as fast as it goes */
	__u64 max_lag;     /* ns << RATE_SHIFT that the source may catch up */
	__u64 duration_ns; /* 0: no limit */
	__u64 count;       /* packets; 0: no limit */
	__u64 start_ns, last_ns;
	__u64 next;        /* ns << RATE_SHIFT after start_ns */
	__u64 seq, bytes;  /* seq counts the part's packets */
	__u64 idle;        /* calls that were too early */
	__u64 slipped;     /* ns << RATE_SHIFT given up because the source came too late */
	__u64 end_ns;      /* when the program noticed the end */
	__u64 done;
};

/* One column of the alias table over buckets of flows (sampler.go). */
struct column {
	__u32 threshold;
	__u32 base, width;
	__u32 alias_base, alias_width;
};

const volatile struct config config;
struct state state;
/* Written by user space while the program runs, so it is separate. */
volatile __u64 stop;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader sets it */
	__type(key, __u32);
	__type(value, struct column);
} columns SEC(".maps");

static __always_inline __u32 draw_flow(__u64 seq)
{
	if (config.order == ORDER_ROUND_ROBIN)
		return seq % config.flows;
	__u64 bits = mix64(config.seed + seq * 0x9e3779b97f4a7c15ULL);
	if (config.order == ORDER_UNIFORM)
		return scale(bits, config.flows);
	__u32 index = scale(bits, config.columns);
	struct column *column = bpf_map_lookup_elem(&columns, &index);
	if (!column)
		return 0;
	__u32 base = column->base, width = column->width;
	if ((__u32)bits >= column->threshold) {
		base = column->alias_base;
		width = column->alias_width;
	}
	if (width == 1)
		return base;
	return base + scale(mix64(bits), width);
}

static __always_inline void write_mac(__u8 *to, __u64 mac)
{
	*(__be16 *)to = bpf_htons(mac >> 32);
	*(__be32 *)(to + 2) = bpf_htonl(mac);
}

static __always_inline __u64 spread(__u64 mac, __u32 count, __u32 flow)
{
	return count == 1 ? mac : mac + flow % count;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline __u64 words(__u64 value)
{
	return (value >> 48) + (value >> 32 & 0xffff) + (value >> 16 & 0xffff) + (value & 0xffff);
}

/* write fills the frame in; false if it does not hold the headers. */
static __always_inline int write_frame(struct xdp_md *ctx, __u32 flow, __u64 seq, __u64 now)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 size = end - data;
	struct eth *eth = data;
	struct udp *udp;

	__u64 src_mac = spread(config.src_mac, config.src_macs, flow);
	__u64 dst_mac = spread(config.dst_mac, config.dst_macs, flow);
	__u32 src = config.src_net[3] + (flow & ((1u << config.src_bits) - 1));
	__u32 spun = flow * 0x9e3779b1u;
	__u32 dst = config.dst_net[3] + (spun >> 8 & ((1u << config.dst_bits) - 1));
	__u16 sport = FIRST_PORT + (flow >> config.src_bits);
	__u16 dport = FIRST_PORT + (spun >> 17);
	__u16 l4;

	if (config.ipv6) {
		struct ip6 *ip = (void *)(eth + 1);
		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) + sizeof(struct mark) > end)
			return 0;
		l4 = size - sizeof(*eth) - sizeof(*ip);
		eth->type = bpf_htons(ETH_P_IPV6);
		ip->version_class_label = bpf_htonl(6u << 28);
		ip->length = bpf_htons(l4);
		ip->next_header = IPPROTO_UDP;
		ip->hop_limit = 64;
		__be32 *from = config.reversed ? ip->dst : ip->src;
		__be32 *to = config.reversed ? ip->src : ip->dst;
		for (int i = 0; i < 3; i++) {
			from[i] = bpf_htonl(config.src_net[i]);
			to[i] = bpf_htonl(config.dst_net[i]);
		}
		from[3] = bpf_htonl(src);
		to[3] = bpf_htonl(dst);
	} else {
		struct ip4 *ip = (void *)(eth + 1);
		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) + sizeof(struct mark) > end)
			return 0;
		__u16 length = size - sizeof(*eth);
		l4 = length - sizeof(*ip);
		eth->type = bpf_htons(ETH_P_IP);
		ip->version_ihl = 0x45;
		ip->tos = 0;
		ip->length = bpf_htons(length);
		ip->id = 0;
		ip->fragment = bpf_htons(0x4000); /* do not fragment: an atomic datagram, RFC 6864 */
		ip->ttl = 64;
		ip->protocol = IPPROTO_UDP;
		ip->checksum = bpf_htons(fold(0x4500 + 0x4000 + 0x4011 + length + words(src) + words(dst)));
		ip->src = bpf_htonl(config.reversed ? dst : src);
		ip->dst = bpf_htonl(config.reversed ? src : dst);
	}
	write_mac(eth->src, config.reversed ? dst_mac : src_mac);
	write_mac(eth->dst, config.reversed ? src_mac : dst_mac);
	udp->src = bpf_htons(config.reversed ? dport : sport);
	udp->dst = bpf_htons(config.reversed ? sport : dport);
	udp->length = bpf_htons(l4);
	udp->checksum = 0;

	struct mark *mark = (void *)(udp + 1);
	__u64 magic_seq = (__u64)MAGIC << 48 | (seq & 0xffffffffffffULL);
	mark->magic_seq = bpf_cpu_to_be64(magic_seq);
	mark->run = bpf_htons(config.run);
	mark->sent_ns = bpf_cpu_to_be64(now);
	if (config.udp_checksum) {
		/* The padding behind the mark is zero and adds nothing. */
		__u64 sum = config.net_sum + words(src) + words(dst) + IPPROTO_UDP + 2 * (__u64)l4 +
			    sport + dport + words(magic_seq) + config.run + words(now);
		__u16 folded = fold(sum);
		udp->checksum = bpf_htons(folded ? folded : 0xffff);
	}
	return 1;
}

SEC("xdp")
int live(struct xdp_md *ctx)
{
	struct state *s = &state;
	if (s->done)
		return XDP_DROP;
	__u64 now = config.tai ? bpf_ktime_get_tai_ns() : bpf_ktime_get_ns();
	if (!s->start_ns)
		s->start_ns = now;
	__u64 elapsed = now - s->start_ns;
	if (stop || (s->duration_ns && elapsed >= s->duration_ns) ||
	    (s->count && s->seq >= s->count)) {
		s->end_ns = now;
		s->done = 1;
		return XDP_DROP;
	}
	if (s->interval) {
		__u64 due = s->next, at = elapsed << RATE_SHIFT;
		if (at < due) {
			s->idle++;
			return XDP_DROP;
		}
		if (at - due > s->max_lag) {
			s->slipped += at - due - s->max_lag;
			due = at - s->max_lag;
		}
		s->next = due + s->interval;
	}

	__u64 seq = s->seq;
	__u32 size = config.sizes[0];
	if (config.size_count > 1)
		size = config.sizes[(seq % config.size_count) & (MAX_SIZES - 1)];
	int grow = (int)size - (int)(ctx->data_end - ctx->data);
	if (grow && bpf_xdp_adjust_tail(ctx, grow))
		return XDP_ABORTED;
	if (!write_frame(ctx, draw_flow(seq) * config.parts + config.part, seq * config.parts + config.part, now))
		return XDP_ABORTED;
	s->seq = seq + 1;
	s->bytes += size;
	s->last_ns = now;
	return bpf_redirect(config.ifindex, 0);
}
