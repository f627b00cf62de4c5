// The learning bridge (stages/l2). The control plane learns from digests: it adds
// to stations what is to be forwarded, and to heard where it heard whom. Flooded
// packets go to a multicast group of the VLAN without the input port, whose last
// port has the replication id 0, the original, and the others 1, copies.
#ifndef WEIR_L2_P4
#define WEIR_L2_P4

#include "packet.p4"

// A station that was heard at a port where it was not known to be.
struct station_t {
    bit<12> vlan;
    mac_t mac;
    port_t port;
}

#define STATION_DIGEST 1

control l2(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<12> pvid = 0;
    bit<1> carried = 0;

    // All VLANs, tags as they are: ports without VLAN configuration.
    action transparent() {
        carried = 1;
    }

    // The VLAN of untagged packets; VLANs that the port carries are in members.
    action filtered(bit<12> vlan) {
        pvid = vlan;
    }

    table in_ports {
        key = { meta.in_port: exact; }
        actions = { transparent; filtered; }
        default_action = transparent();
        size = MAX_PORTS;
    }

    action carry() {
        carried = 1;
    }

    table members {
        key = { meta.in_port: exact; meta.bridge_vlan: exact; }
        actions = { carry; NoAction; }
        default_action = NoAction();
        size = VLAN_MEMBER_TABLE_SIZE;
    }

    action learn() {
        digest<station_t>(STATION_DIGEST, { meta.bridge_vlan, hdr.ethernet.src, meta.in_port });
    }

    // Static stations stand here with every port: they do not move. A learned one is given a time
    // to live by the control plane, which is told when it was not heard for so long.
    table heard {
        key = { meta.bridge_vlan: exact; hdr.ethernet.src: exact; meta.in_port: exact; }
        actions = { learn; NoAction; }
        default_action = learn();
        size = STATION_TABLE_SIZE;
        support_timeout = true;
    }

    action forward_to(port_t port) {
        meta.out_port = port;
    }

    table stations {
        key = { meta.bridge_vlan: exact; hdr.ethernet.dst: exact; }
        actions = { forward_to; NoAction; }
        default_action = NoAction();
        size = STATION_TABLE_SIZE;
    }

    action flood_to(bit<16> group) {
        sm.mcast_grp = group;
    }

    action no_member() {
        meta.reason = REASON_NO_MEMBER;
    }

    table floods {
        key = { meta.in_port: exact; meta.bridge_vlan: ternary; }
        actions = { flood_to; no_member; }
        default_action = no_member();
        size = FLOOD_TABLE_SIZE;
    }

    // 01:80:c2:00:00:00 to 0f end at a bridge (802.1Q, 8.6.3).
    action link_local() {
        meta.reason = REASON_LINK_LOCAL;
    }

    table reserved_groups {
        key = { hdr.ethernet.dst: ternary; }
        actions = { link_local; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    apply {
        in_ports.apply();
        meta.bridge_vlan = pvid;
        // A packet of no VLAN that ends within a tag is in none: padding would complete the tag.
        bool cut = meta.fault == FAULT_VLAN_TRUNCATED;
        if (meta.flags & FLAG_VLAN != 0 && meta.vlan[11:0] != 0) {
            meta.bridge_vlan = meta.vlan[11:0];
            cut = false;
        }
        if (carried == 0 && !cut) {
            members.apply();
        }
        if (carried == 0) {
            meta.reason = REASON_VLAN_FILTERED;
        } else {
            bool moved = false;
            if (hdr.ethernet.src[40:40] == 0 && hdr.ethernet.src != 0) {
                moved = heard.apply().miss;
            }
            if (moved && hdr.ethernet.dst == hdr.ethernet.src) {
                // The control plane will learn that the destination is behind this port.
                meta.out_port = meta.in_port;
            } else if (meta.flags & FLAG_MULTICAST != 0) {
                reserved_groups.apply();
            } else {
                stations.apply();
            }
            if (meta.reason == NO_REASON && meta.out_port == NO_PORT) {
                floods.apply();
            } else if (meta.out_port == meta.in_port) {
                meta.reason = REASON_SAME_PORT;
            }
        }
    }
}

// l2_leave gives a packet the tag, or none, with which its VLAN leaves the port, at
// the beginning of egress: copies of one packet may need different ones.
//
//               | to VLAN = pvid | to other VLAN
//   untagged    | -              | push
//   VID 0       | pop (not in 0) | set VID, the priority stays
//   VID = VLAN  | pop            | -
control l2_leave(inout headers_t hdr, inout metadata_t meta) {
    bit<12> pvid = 0;

    action leave_as(bit<12> vlan) {
        pvid = vlan;
    }

    table out_ports {
        key = { meta.out_port: exact; }
        actions = { leave_as; }
        default_action = leave_as(0);
        size = MAX_PORTS;
    }

    apply {
        out_ports.apply();
        bool tagged = hdr.vlan[0].isValid();
        if (meta.bridge_vlan == pvid) {
            if (tagged && pvid != 0) {
                hdr.vlan.pop_front(1);
                meta.length = meta.length - VLAN_LEN;
                meta.l3 = meta.l3 - VLAN_LEN;
            }
        } else if (!tagged) {
            hdr.vlan.push_front(1);
            hdr.vlan[0].setValid();
            hdr.vlan[0].type = TYPE_VLAN;
            hdr.vlan[0].priority = 0;
            hdr.vlan[0].drop_eligible = 0;
            hdr.vlan[0].id = meta.bridge_vlan;
            meta.length = meta.length + VLAN_LEN;
            meta.l3 = meta.l3 + VLAN_LEN;
        } else if (hdr.vlan[0].id == 0) {
            hdr.vlan[0].id = meta.bridge_vlan;
        }
        meta.flags = meta.flags & ~(FLAG_VLAN | FLAG_QINQ);
        meta.vlan = 0;
        if (hdr.vlan[0].isValid()) {
            meta.flags = meta.flags | FLAG_VLAN;
            meta.vlan = hdr.vlan[0].priority ++ hdr.vlan[0].drop_eligible ++ hdr.vlan[0].id;
        }
        if (hdr.vlan[1].isValid()) {
            meta.flags = meta.flags | FLAG_QINQ;
        }
    }
}

#endif
