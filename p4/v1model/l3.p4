// The router (stages/l3): longest prefix, one hop less to live, next hop by flow
// hash, new link header. What the switch itself would answer, and packets to
// neighbours that are not known, go to the CPU port.
#ifndef WEIR_L3_P4
#define WEIR_L3_P4

#include "packet.p4"
#include "hash.p4"
#include "checksum.p4"

// pick chooses one of some next hops for the flow at this switch (l3.Pick): so many times
// the hash of the flow hash, under the switch's id, as a fraction of 1.
control pick(in bit<32> flow_hash, in hash_key_t key, in bit<16> hops, out bit<16> choice) {
    apply {
        word_message_t m;
        bit<64> number = (bit<64>)flow_hash;
        FIRST_ROUND_WORD(m, NUMBER(number));
        hash_t h;
        word_hash.apply(h, m, key);
        bit<80> product = (bit<80>)(h.a ++ h.b) * (bit<80>)hops;
        choice = product[79:64];
    }
}

control l3(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    hash_key_t switch_key = 0;
    bit<1> routed = 0;       // the input port has addresses
    mac_t in_mac = 0;
    ipv6_address_t in_link_local = 0;
    bit<1> connected = 0;    // the destination is on the port's own link
    bit<16> first = 0;       // of the next hops
    bit<16> hops = 0;        // how many
    mac_t out_mac = 0;
    bit<16> mtu = 0;
    mac_t neighbour = 0;     // 0: not known

    action set_switch(hash_key_t of_hops) {
        switch_key = of_hops;
    }

    // The key of the seed that is the switch's id.
    table l3_config {
        actions = { set_switch; }
        default_action = set_switch(0);
    }

    action in_interface(mac_t mac, ipv6_address_t link_local) {
        routed = 1;
        in_mac = mac;
        in_link_local = link_local;
    }

    table in_interfaces {
        key = { meta.in_port: exact; }
        actions = { in_interface; NoAction; }
        default_action = NoAction();
        size = MAX_PORTS;
    }

    action route_by(bit<16> first_hop, bit<16> count) {
        first = first_hop;
        hops = count;
    }

    action route_connected(port_t port) {
        connected = 1;
        meta.out_port = port;
    }

    action route_local() {
        meta.reason = REASON_CONSUMED;
    }

    action route_discard(reason_t reason) {
        meta.reason = reason;
    }

    table routes4 {
        key = { hdr.ipv4.dst: lpm; }
        actions = { route_by; route_connected; route_local; route_discard; }
        default_action = route_discard(REASON_NO_ROUTE);
        size = ROUTE_TABLE_SIZE;
    }

    table routes6 {
        key = { hdr.ipv6.dst: lpm; }
        actions = { route_by; route_connected; route_local; route_discard; }
        default_action = route_discard(REASON_NO_ROUTE);
        size = ROUTE_TABLE_SIZE;
    }

    // mac is 0 while it is not known.
    action next_hop(port_t port, mac_t mac) {
        meta.out_port = port;
        neighbour = mac;
    }

    table next_hops {
        key = { first: exact; }
        actions = { next_hop; NoAction; }
        default_action = NoAction();
        size = NEXT_HOP_TABLE_SIZE;
    }

    action out_interface(mac_t mac, bit<16> bytes) {
        out_mac = mac;
        mtu = bytes;
    }

    table out_interfaces {
        key = { meta.out_port: exact; }
        actions = { out_interface; NoAction; }
        default_action = NoAction();
        size = MAX_PORTS;
    }

    // No packet may come from such an address (RFC 6890); link-local ones are not
    // among them.
    action martian() {
        meta.reason = REASON_MARTIAN;
    }

    table martians4 {
        key = { hdr.ipv4.src: ternary; }
        actions = { martian; NoAction; }
        const default_action = NoAction();
        const entries = {
            0x00000000 &&& 0xff000000: martian();
            0x7f000000 &&& 0xff000000: martian();
            0xe0000000 &&& 0xe0000000: martian();
        }
    }

    table martians6 {
        key = { hdr.ipv6.src: ternary; }
        actions = { martian; NoAction; }
        const default_action = NoAction();
        const entries = {
            0: martian();
            1: martian();
            0xffff00000000 &&& 0xffffffffffffffffffffffff00000000: martian();
            0xff000000000000000000000000000000 &&& 0xff000000000000000000000000000000: martian();
        }
    }

    apply {
        l3_config.apply();
        in_interfaces.apply();
        bool discovery = hdr.ipv6.isValid() && meta.flags & FLAG_L4 != 0 && meta.proto == PROTO_ICMPV6 &&
            (meta.transport.a[63:56] == ICMPV6_NEIGHBOUR_SOLICIT || meta.transport.a[63:56] == ICMPV6_NEIGHBOUR_ADVERT);
        bool group = meta.flags & FLAG_MULTICAST != 0;
        bool ip = hdr.ipv4.isValid() || hdr.ipv6.isValid();
        if (meta.flags & FLAG_VLAN != 0 || routed == 0) {
            meta.reason = REASON_NOT_ROUTED;
        } else if (meta.flags & FLAG_ARP != 0) {
            meta.reason = REASON_CONSUMED;
        } else if (discovery && group) {
            meta.reason = REASON_CONSUMED;
        } else if (group) {
            meta.reason = REASON_MULTICAST;
        } else if (hdr.ethernet.dst != in_mac) {
            meta.reason = REASON_NOT_FOR_US;
        } else if (discovery && hdr.shim.isValid()) {
            meta.reason = REASON_CONSUMED;
        } else if (!ip) {
            meta.reason = REASON_NOT_ROUTED;
        } else if (hdr.ipv4.isValid()) {
            if (sm.checksum_error == 1) {
                meta.reason = REASON_BAD_CHECKSUM;
            } else {
                martians4.apply();
            }
        } else {
            martians6.apply();
        }

        bool link_local_source = hdr.ipv6.isValid() && hdr.ipv6.src[127:118] == LINK_LOCAL_PREFIX;
        if (meta.reason == NO_REASON) {
            if (hdr.ipv4.isValid()) {
                routes4.apply();
            } else if (hdr.ipv6.dst[127:118] == LINK_LOCAL_PREFIX && hdr.ipv6.dst != in_link_local) {
                meta.reason = REASON_MARTIAN;
            } else {
                routes6.apply();
            }
        }
        if (meta.reason == NO_REASON) {
            if (link_local_source) {
                meta.reason = REASON_MARTIAN;
            } else if (meta.ttl <= 1) {
                meta.reason = REASON_TTL_EXPIRED;
            } else {
                if (connected == 0) {
                    if (hops > 1) {
                        bit<16> choice;
                        pick.apply(meta.flow_hash, switch_key, hops, choice);
                        first = first + choice;
                    }
                    next_hops.apply();
                }
                out_interfaces.apply();
                bit<32> bytes = hdr.ipv4.isValid() ? (bit<32>)hdr.ipv4.total_length : (bit<32>)hdr.ipv6.payload_length + IPV6_LEN;
                if (bytes > (bit<32>)mtu) {
                    meta.reason = REASON_MTU_EXCEEDED;
                } else if (neighbour == 0 || discovery && meta.length > (bit<32>)mtu + ETHERNET_LEN) {
                    meta.reason = REASON_CONSUMED;
                } else {
                    hdr.ethernet.dst = neighbour;
                    hdr.ethernet.src = out_mac;
                    meta.flags = meta.flags & ~(FLAG_MULTICAST | FLAG_BROADCAST);
                    meta.ttl = meta.ttl - 1;
                    if (hdr.ipv4.isValid()) {
                        decrement_ttl.apply(hdr.ipv4.ttl, hdr.ipv4.checksum);
                    } else {
                        hdr.ipv6.hop_limit = meta.ttl;
                    }
                }
            }
        }
        // Neighbour discovery by unicast through the switch is forwarded like any packet;
        // where that cannot be, it is the switch's own matter.
        if (discovery && meta.reason != NO_REASON && meta.reason != REASON_NOT_ROUTED && meta.reason != REASON_NOT_FOR_US) {
            meta.reason = REASON_CONSUMED;
        }
        if (meta.reason == REASON_CONSUMED) {
            meta.cpu_kind = meta.cpu_kind | CPU_PUNT;
        }
    }
}

#endif
