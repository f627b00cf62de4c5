//go:build ignore

// SPDX-License-Identifier: Dual MIT/GPL
//
// The program on each port of the switch: it gives the packets of a receive queue to
// the AF_XDP socket of that queue, after leaving chosen ones to the kernel.
//
// The constants below are set before loading and frozen, so the verifier knows them and removes
// what they switch off: with an empty keep list the program is a map lookup.

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_ETHERTYPES 8
#define MAX_PORTS 16
#define MAX_VLAN_TAGS 2
#define MAX_EXTENSIONS 8

#define ETH_P_8021AD_OLD 0x9100 /* QinQ before 802.1ad */
#define IP_FRAGMENT_OFFSET 0x1fff
#define IPV6_FRAGMENT_OFFSET 0xfff8
#define IPPROTO_MH 135 /* mobility, RFC 6275 */

/* What to keep. Lists are filled from the front; the counts say how far. */
const volatile __u32 keep_ethertype_count = 0;
const volatile __u16 keep_ethertypes[MAX_ETHERTYPES] = {}; /* host byte order */
const volatile bool keep_any_protocol = false;
const volatile bool keep_protocols[256] = {};
const volatile __u32 keep_port_count = 0;
const volatile __u32 keep_ports[MAX_PORTS] = {}; /* protocol << 16 | port, host byte order */

/* Write the arrival time in front of the packet, marked with this tag; 0 writes nothing. */
const volatile __u64 timestamp_tag = 0;
/* Take CLOCK_TAI (Linux 6.1), else CLOCK_MONOTONIC. */
const volatile bool timestamp_tai = true;

/* The longest packet that a frame holds, in bytes; 0 leaves it to the socket. */
const volatile __u32 longest = 0;

/* Per CPU, so that no packet touches another CPU's line. The order is that of Counters in Go. */
enum counter {
	KEPT,      /* on the keep list: left to the kernel */
	NO_SOCKET, /* no socket on the queue: left to the kernel */
	UNTIMED,   /* redirected without the timestamp asked for */
	UNSTAMPED, /* timed by the program: the device gave no time */
	ASTRAY,    /* timed by the program: the device's clock is elsewhere */
	TOO_LONG,  /* dropped: longer than a frame */
	TAG_LOST,  /* dropped: no room to put its VLAN tag back */
	COUNTERS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64); /* set before loading */
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

static __always_inline void count(__u32 which)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &which);

	if (value)
		(*value)++;
}

struct vlan_tag {
	__be16 tci;
	__be16 ethertype;
};

struct ports {
	__be16 source;
	__be16 dest;
};

/* The first bytes of an IPv6 extension header, as far as walking needs them. */
struct extension {
	__u8 next;
	__u8 length; /* in 8 bytes behind the first 8; in 4 bytes plus 2 for AH */
	__be16 fragment;
	__be32 rest;
};

static __always_inline bool kept_ethertype(__u16 ethertype)
{
#pragma unroll
	for (__u32 i = 0; i < MAX_ETHERTYPES; i++)
		if (i < keep_ethertype_count && keep_ethertypes[i] == ethertype)
			return true;
	return false;
}

static __always_inline bool kept_protocol(__u8 protocol)
{
	return keep_any_protocol && keep_protocols[protocol];
}

static __always_inline bool kept_port(__u8 protocol, void *transport, void *end)
{
	struct ports *ports = transport;
	__u32 source, dest;

	if (keep_port_count == 0 || (void *)(ports + 1) > end)
		return false;
	source = protocol << 16 | bpf_ntohs(ports->source);
	dest = protocol << 16 | bpf_ntohs(ports->dest);
#pragma unroll
	for (__u32 i = 0; i < MAX_PORTS; i++)
		if (i < keep_port_count && (keep_ports[i] == source || keep_ports[i] == dest))
			return true;
	return false;
}

/* What the walk over an IP header leaves: the last protocol seen, and where its header is. */
struct transport {
	void *header; /* NULL: none in this packet, or out of sight */
	__u8 protocol;
};

/* Returns whether the protocol decides already. */
static __always_inline bool walk_ipv4(void *data, void *end, struct transport *t)
{
	struct iphdr *ip = data;

	if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5)
		return false;
	t->protocol = ip->protocol;
	if (!(ip->frag_off & bpf_htons(IP_FRAGMENT_OFFSET)))
		t->header = data + ip->ihl * 4;
	return kept_protocol(ip->protocol);
}

/* The same for IPv6. Extension headers are protocols too, so `proto/51` keeps what carries AH. */
static __always_inline bool walk_ipv6(void *data, void *end, struct transport *t)
{
	struct ipv6hdr *ip = data;
	void *next = ip + 1;
	__u8 protocol;

	if (next > end || ip->version != 6)
		return false;
	protocol = ip->nexthdr;
	for (int i = 0; i <= MAX_EXTENSIONS; i++) {
		struct extension *x = next;

		if (kept_protocol(protocol))
			return true;
		switch (protocol) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
		case IPPROTO_MH:
		case IPPROTO_AH:
		case IPPROTO_FRAGMENT:
			break;
		default:
			t->protocol = protocol;
			t->header = next;
			return false;
		}
		if ((void *)(x + 1) > end)
			return false;
		if (protocol == IPPROTO_FRAGMENT) {
			if (x->fragment & bpf_htons(IPV6_FRAGMENT_OFFSET))
				return kept_protocol(x->next); /* what follows is payload */
			next += sizeof(*x);
		} else if (protocol == IPPROTO_AH) {
			next += sizeof(*x) + x->length * 4;
		} else {
			next += sizeof(*x) + x->length * 8;
		}
		protocol = x->next;
	}
	return false;
}

static __always_inline bool kept(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	void *next = eth + 1;
	struct transport transport = {};
	__u16 ethertype;

	if (keep_ethertype_count == 0 && !keep_any_protocol && keep_port_count == 0)
		return false;
	if (next > end)
		return false;
	ethertype = bpf_ntohs(eth->h_proto);
#pragma unroll
	for (int i = 0; i < MAX_VLAN_TAGS; i++) {
		struct vlan_tag *tag = next;

		if (ethertype != ETH_P_8021Q && ethertype != ETH_P_8021AD && ethertype != ETH_P_8021AD_OLD)
			break;
		/* A type on the list may also be that of the tag. */
		if (kept_ethertype(ethertype))
			return true;
		if ((void *)(tag + 1) > end)
			return false;
		ethertype = bpf_ntohs(tag->ethertype);
		next = tag + 1;
	}
	if (kept_ethertype(ethertype))
		return true;
	if (!keep_any_protocol && keep_port_count == 0)
		return false;
	if (ethertype == ETH_P_IP) {
		if (walk_ipv4(next, end, &transport))
			return true;
	} else if (ethertype == ETH_P_IPV6) {
		if (walk_ipv6(next, end, &transport))
			return true;
	}
	return transport.header && kept_port(transport.protocol, transport.header, end);
}

/* What stands directly in front of a packet. */
struct arrival {
	__u64 tag;
	__u64 time; /* nanoseconds */
};

/*
 * The device's receive time of the packet, in its clock's nanoseconds (Linux 6.3). The kernel puts
 * the driver's function in its place, so only a program that is loaded for one device may call it.
 */
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym;

/* A device whose clock is further off, in nanoseconds, does not keep our clock. */
#define MAX_ASTRAY 100000000ULL

static __always_inline __u64 arrival_time(struct xdp_md *ctx, bool hardware)
{
	__u64 now = timestamp_tai ? bpf_ktime_get_tai_ns() : bpf_ktime_get_ns();
	__u64 time = 0;

	if (!hardware)
		return now;
	if (bpf_xdp_metadata_rx_timestamp(ctx, &time) || time == 0) {
		count(UNSTAMPED);
		return now;
	}
	if (time - now + MAX_ASTRAY > 2 * MAX_ASTRAY) {
		count(ASTRAY);
		return now;
	}
	return time;
}

static __always_inline void write_time(struct xdp_md *ctx, bool hardware)
{
	/* First of all: some devices leave their time where the metadata will be. */
	__u64 time = arrival_time(ctx, hardware);
	void *data = (void *)(long)ctx->data;
	void *meta = (void *)(long)ctx->data_meta;
	struct arrival *arrival;

	/* Takes the place of metadata that the packet brings along, from a program before this one. */
	if (bpf_xdp_adjust_meta(ctx, data - meta - (long)sizeof(*arrival))) {
		count(UNTIMED); /* the driver has no metadata, or the packet no headroom */
		return;
	}
	arrival = (void *)(long)ctx->data_meta;
	if ((void *)(arrival + 1) > (void *)(long)ctx->data)
		return; /* never; for the verifier */
	arrival->tag = timestamp_tag;
	arrival->time = time;
}

/*
 * The VLAN tag that the device has taken out of the packet, or that its sender has never put in (Linux 6.8). As above, only
 * a program that is loaded for one device may call it.
 */
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *protocol, __u16 *tci) __ksym;

struct tagged {
	__u32 addresses[3];
	struct vlan_tag tag; /* its type, then its TCI */
};

/* Puts a tag behind the addresses. Returns whether there was room. */
static __always_inline bool put_tag(struct xdp_md *ctx, __be16 protocol, __u16 tci)
{
	struct tagged *to;
	__u32 *from;

	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct vlan_tag)))
		return false;
	to = (void *)(long)ctx->data;
	if ((void *)(to + 1) > (void *)(long)ctx->data_end)
		return false;
	from = &to->addresses[1];
	to->addresses[0] = from[0];
	to->addresses[1] = from[1];
	to->addresses[2] = from[2];
	to->tag.tci = protocol;
	to->tag.ethertype = bpf_htons(tci);
	return true;
}

/* What a variant asks the device for. */
enum device { NOTHING, TIMES, TAGS };

static __always_inline int to_socket(struct xdp_md *ctx, enum device device)
{
	bool tagged = false;
	__be16 protocol = 0;
	__u16 tci = 0;
	__u32 queue;
	long action;

	if (device == TAGS)
		tagged = bpf_xdp_metadata_rx_vlan_tag(ctx, &protocol, &tci) == 0;
	if ((tagged && kept_ethertype(bpf_ntohs(protocol))) || kept(ctx)) {
		count(KEPT);
		return XDP_PASS;
	}
	if (tagged) {
		/* The kernel has the tag still: what goes to it stays as it came. */
		queue = ctx->rx_queue_index;
		if (!bpf_map_lookup_elem(&sockets, &queue)) {
			count(NO_SOCKET);
			return XDP_PASS;
		}
		if (!put_tag(ctx, protocol, tci)) {
			count(TAG_LOST);
			return XDP_DROP;
		}
	}
	/* The socket would drop it too, but among others. */
	if (longest && (long)ctx->data_end - (long)ctx->data > longest) {
		count(TOO_LONG);
		return XDP_DROP;
	}
	if (timestamp_tag)
		write_time(ctx, device == TIMES);
	action = bpf_redirect_map(&sockets, ctx->rx_queue_index, tagged ? XDP_DROP : XDP_PASS);
	if (action != XDP_REDIRECT)
		count(NO_SOCKET);
	return action;
}

/* For packets within one buffer. */
SEC("xdp")
int redirect(struct xdp_md *ctx)
{
	return to_socket(ctx, NOTHING);
}

/* The same for packets of several buffers. Headers are in the first one. */
SEC("xdp.frags")
int redirect_frags(struct xdp_md *ctx)
{
	return to_socket(ctx, NOTHING);
}

/* The same two with the device's times. */
SEC("xdp")
int redirect_hardware(struct xdp_md *ctx)
{
	return to_socket(ctx, TIMES);
}

SEC("xdp.frags")
int redirect_hardware_frags(struct xdp_md *ctx)
{
	return to_socket(ctx, TIMES);
}

/* The same two with tags that are not in the packets. */
SEC("xdp")
int redirect_tags(struct xdp_md *ctx)
{
	return to_socket(ctx, TAGS);
}

SEC("xdp.frags")
int redirect_tags_frags(struct xdp_md *ctx)
{
	return to_socket(ctx, TAGS);
}

char _license[] SEC("license") = "Dual MIT/GPL";
