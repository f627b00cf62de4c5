// Package xdp loads and attaches the XDP program that gives packets to AF_XDP sockets.
//
//	packet --> redirect.c --+-- on the keep list ------> kernel's stack (XDP_PASS), counted
//	                        +-- queue without socket --> kernel's stack (XDP_PASS), counted
//	                        +-- else ------------------> the socket of the receive queue (XSKMAP)
//
// The program comes compiled (redirect_bpf*.o, made by go generate). Its constants are set at
// load time, so that a keep list costs only what it names and an empty one nothing:
// the verifier removes the parse as dead code.
//
// A [Program] is loaded per interface and attached by a bpf_link, which the kernel removes when
// the process ends, by kill -9 too.
//
// VLAN tags that the device has taken out of the packet (hardware offload), or that its sender has never put in (veth with
// tx-vlan-offload at the far end), are not in what the socket receives. Ports turn the offload off (dataplane/nic), and a
// program that is loaded for a veth puts the tags in (Options.TagsOf).
package xdp
