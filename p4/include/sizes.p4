// Sizes and numbers that programs share with the Go stages; p4/include's Go test
// keeps what both sides know equal.
#ifndef WEIR_SIZES_P4
#define WEIR_SIZES_P4

// Ports. A BMv2 port number has 9 bits, of which our tables use as many as this.
#define MAX_PORTS 64
#define PORT_BITS 6

// What the parser looks behind (stages/parse).
#define MAX_TAGS 8
#define MAX_SHIMS 2
#define MAX_EXTENSIONS 16

// Lengths in bytes.
#define ETHERNET_LEN 14
#define VLAN_LEN 4
#define SHIM_FIXED_LEN 6
#define ARP_LEN 28
#define IPV4_LEN 20
#define IPV6_LEN 40
#define IPV6_EXT_LEN 8
#define TCP_LEN 20
#define UDP_LEN 8
#define ICMP_LEN 8
#define SCTP_LEN 12
#define DCCP_LEN 12
#define DCCP_EXT_LEN 16
#define MAX_DATAGRAM 65535
#define SHORTEST_FRAME 60
#define OPAQUE_BLOCK_LEN 32
#define GIVEN_TIME_LEN 18

// The digest of a plan for P4, in bits: what fits both carriers.
#define DIGEST_BITS 16
#define DIGEST_LEN 2
#define MAX_HOPS 255

// Tables of forwarding.
#define STATION_TABLE_SIZE 16384
#define ROUTE_TABLE_SIZE 4096
#define NEXT_HOP_TABLE_SIZE 1024
#define VLAN_MEMBER_TABLE_SIZE 4096
#define FLOOD_TABLE_SIZE 1024

#endif
