// What the graph needs beyond the headers (stages/parse/derive.go): flags, flow
// hash, packet id.
#ifndef WEIR_DERIVE_P4
#define WEIR_DERIVE_P4

#include "packet.p4"
#include "hash.p4"

// flags_of sets the flags that headers tell.
control flags_of(in headers_t hdr, inout metadata_t meta) {
    apply {
        meta.ether_type = hdr.ether_type.value;
        if (hdr.vlan[0].isValid()) {
            meta.flags = meta.flags | FLAG_VLAN;
            meta.vlan = hdr.vlan[0].priority ++ hdr.vlan[0].drop_eligible ++ hdr.vlan[0].id;
        }
        if (hdr.vlan[1].isValid()) {
            meta.flags = meta.flags | FLAG_QINQ;
        }
        if (hdr.shim.isValid()) {
            meta.flags = meta.flags | FLAG_SHIM;
        }
        if (hdr.ethernet.dst[40:40] == 1) {
            meta.flags = meta.flags | FLAG_MULTICAST;
            if (hdr.ethernet.dst == 0xffffffffffff) {
                meta.flags = meta.flags | FLAG_BROADCAST;
            }
        }
        if (meta.fault != NO_FAULT) {
            meta.flags = meta.flags | FLAG_MALFORMED;
        }
        if (meta.flags & FLAG_PORTS == 0) {
            meta.src_port = 0;
            meta.dst_port = 0;
        }
    }
}

// flow_hash_of hashes the flow key (pipeline/packet/flowkey.go): fragments have no
// ports, and IPv6 ones the protocol of the fragment header.
//
//   IPv4: src, dst, ports, protocol, 4, 0 0        IPv6: the same with 6
//   else: both addresses, the EtherType as a number, 0 0
control flow_hash_of(in headers_t hdr, inout metadata_t meta, in hash_key_t key) {
    apply {
        bit<16> src_port = meta.src_port;
        bit<16> dst_port = meta.dst_port;
        bit<8> proto = meta.proto;
        if (meta.flags & FLAG_FRAGMENT != 0) {
            src_port = 0;
            dst_port = 0;
            if (hdr.ipv6.isValid()) {
                proto = PROTO_FRAGMENT;
            }
        }
        if (hdr.ipv4.isValid()) {
            bit<64> first = hdr.ipv4.src ++ hdr.ipv4.dst;
            bit<64> second = src_port ++ dst_port ++ proto ++ 8w4 ++ 16w0;
            FIRST_ROUND_2(meta.flow_message, WIRE(first), WIRE(second));
        } else if (hdr.ipv6.isValid()) {
            bit<64> last = src_port ++ dst_port ++ proto ++ 8w6 ++ 16w0;
            FIRST_ROUND_5(meta.flow_message, WIRE_PAIR(hdr.ipv6.src), WIRE_PAIR(hdr.ipv6.dst), WIRE(last));
        } else {
            bit<64> first = hdr.ethernet.dst ++ hdr.ethernet.src[47:32];
            bit<64> second = hdr.ethernet.src[31:0] ++ meta.ether_type[7:0] ++ meta.ether_type[15:8] ++ 16w0;
            FIRST_ROUND_2(meta.flow_message, WIRE(first), WIRE(second));
        }
        hash_t h;
        message_hash.apply(h, meta.flow_message, key);
        meta.flow_hash = h.b;
    }
}

// id_of hashes what does not change along the path and differs between packets: the
// layouts of packet.IDBlock.
control id_of(in headers_t hdr, inout metadata_t meta, in hash_key_t key, in bit<1> ipid_carrier) {
    // The pieces T1, T2 and P.
    bit<64> t1;
    bit<64> t2;
    bit<64> payload;

    action unknown_layout(in words_t words) {
        t1 = words.a;
        t2 = words.b;
        payload = words.c;
    }

    action pieces() {
        t1 = meta.transport.a;
        t2 = 0;
        payload = meta.transport.b;
    }

    apply {
        message_t m = NO_MESSAGE;
        // Without a transport header, and in fragments of IPv6, words behind the IP header count.
        bool known = meta.flags & FLAG_L4 != 0 && !(hdr.ipv6.isValid() && meta.flags & FLAG_FRAGMENT != 0);
        if (!known) {
            unknown_layout(meta.behind);
        } else if (meta.proto == PROTO_TCP) {
            t1 = meta.transport.a;
            t2 = hdr.tcp.acknowledgment ++ hdr.tcp.data_offset ++ hdr.tcp.flags ++ hdr.tcp.checksum;
            payload = meta.payload;
        } else if (meta.proto == PROTO_UDP || meta.proto == PROTO_UDP_LITE || meta.proto == PROTO_ICMP || meta.proto == PROTO_ICMPV6) {
            pieces();
        } else if (meta.proto == PROTO_SCTP || meta.proto == PROTO_DCCP) {
            t1 = meta.transport.a;
            t2 = meta.transport.b;
            payload = meta.payload;
        } else {
            unknown_layout(meta.transport);
        }
        if (hdr.ipv4.isValid()) {
            bit<16> identification = hdr.ipv4.identification;
            // Digests travel in that of atomic datagrams.
            if (ipid_carrier == 1 && hdr.ipv4.dont_fragment == 1 && hdr.ipv4.more_fragments == 0 && hdr.ipv4.offset == 0) {
                identification = 0;
            }
            bit<64> first = hdr.ipv4.src ++ hdr.ipv4.dst;
            bit<64> second = meta.proto ++ 8w0 ++ identification ++ 3w0 ++ hdr.ipv4.offset ++ hdr.ipv4.total_length;
            FIRST_ROUND_5(m, WIRE(first), WIRE(second), WIRE(t1), WIRE(t2), WIRE(payload));
        } else if (hdr.ipv6.isValid()) {
            bit<64> fifth = meta.proto ++ 24w0 ++ hdr.ipv6.payload_length ++ 16w0;
            FIRST_ROUND_8(m, WIRE_PAIR(hdr.ipv6.src), WIRE_PAIR(hdr.ipv6.dst), WIRE(fifth), WIRE(t1), WIRE(t2), WIRE(payload));
        } else {
            bit<256> block = 0;
            if (hdr.opaque_32.isValid()) {
                block = hdr.opaque_32.bytes;
            }
            if (hdr.opaque_16.isValid()) {
                block = (bit<256>)hdr.opaque_16.bytes;
            }
            if (hdr.opaque_8.isValid()) {
                block = block << 64 | (bit<256>)hdr.opaque_8.bytes;
            }
            if (hdr.opaque_4.isValid()) {
                block = block << 32 | (bit<256>)hdr.opaque_4.bytes;
            }
            if (hdr.opaque_2.isValid()) {
                block = block << 16 | (bit<256>)hdr.opaque_2.bytes;
            }
            if (hdr.opaque_1.isValid()) {
                block = block << 8 | (bit<256>)hdr.opaque_1.bytes;
            }
            block = block << ((OPAQUE_BLOCK_LEN - meta.opaque) << 3);
            FIRST_ROUND_4(m, WIRE(block[255:192]), WIRE(block[191:128]), WIRE(block[127:64]), WIRE(block[63:0]));
        }
        hash_t h;
        message_hash.apply(h, m, key);
        meta.id = h.a ++ h.b;
        FIRST_ROUND_WORD(meta.id_message, NUMBER(meta.id));
    }
}

// derive is the stage parse behind the parser.
control derive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    hash_key_t key = 0;
    bit<1> ipid_carrier = 0;
    bit<1> drop_malformed = 0;

    counter(NUM_FAULTS, CounterType.packets) faults;

    // set_parse is [stages.parse]: the key of its seed, under the name that tells the hash
    // family, whether digests travel in the identification, and what becomes of malformed packets.
    action set_parse(hash_key_t FAMILY_KEY, bit<1> carrier, bit<1> drop) {
        key = FAMILY_KEY;
        ipid_carrier = carrier;
        drop_malformed = drop;
    }

    table parse_config {
        actions = { set_parse; }
        default_action = set_parse(0, 0, 0);
    }

    apply {
        parse_config.apply();
        flags_of.apply(hdr, meta);
        if (meta.fault != NO_FAULT) {
            faults.count((bit<32>)meta.fault);
            if (drop_malformed == 1) {
                meta.reason = REASON_MALFORMED;
            }
        }
        if (meta.reason == NO_REASON) {
            meta.l3 = (bit<16>)(meta.length - meta.room);
            flow_hash_of.apply(hdr, meta, key);
            id_of.apply(hdr, meta, key, ipid_carrier);
        }
    }
}

#endif
