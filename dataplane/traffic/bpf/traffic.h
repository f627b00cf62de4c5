/* What the two programs and the Go code agree on. frame.go and flow.go are the
 * twins of this file; TestLiveProgramMatchesGo holds them together. */
#pragma once

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAGIC 0x5754 /* "WT" */
#define FIRST_PORT 1024

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88A8
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define TCP_LEN 20 /* bytes of a header without options */

struct eth {
	__u8 dst[6];
	__u8 src[6];
	__be16 type;
} __attribute__((packed));

struct ip4 {
	__u8 version_ihl;
	__u8 tos;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__be32 src;
	__be32 dst;
} __attribute__((packed));

struct ip6 {
	__be32 version_class_label;
	__be16 length;
	__u8 next_header;
	__u8 hop_limit;
	__be32 src[4];
	__be32 dst[4];
} __attribute__((packed));

struct udp {
	__be16 src;
	__be16 dst;
	__be16 length;
	__be16 checksum;
} __attribute__((packed));

/* The mark, 18 bytes: what is left of 60 behind Ethernet, IPv4 and UDP. */
struct mark {
	__be64 magic_seq; /* magic in the upper 16 bits, sequence number in 48 */
	__be16 run;
	__be64 sent_ns;
} __attribute__((packed));

/* SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014, figure 13). */
static __always_inline __u64 mix64(__u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* scale maps 32 random bits to [0, n) by a multiplication; its bias is at most n / 2^32. */
static __always_inline __u32 scale(__u64 bits, __u32 n)
{
	return ((bits >> 32) * n) >> 32;
}
