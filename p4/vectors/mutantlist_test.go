package vectors

import "github.com/weirswitch/weir/telemetry/hash"

// mutant is one change to the sources of p4/v1model and p4/include that the comparison has to find.
type mutant struct {
	name     string
	file     string // of p4
	old, new string // old is in the file once
	// equivalent is the proof that no packet can tell it from the program; empty: the vectors have to.
	equivalent string
}

// mutants are changes by the hash family that the program is compiled for, and compared under the setups of.
var mutants = map[hash.Family][]mutant{hash.CRC: crcMutants, hash.XX: xxhashMutants}

// lookFirst are vectors in which mutants of a file are looked for before all others.
var lookFirst = map[string][]string{
	"v1model/oblivious.p4":        {"keys-boundaries", "keys-corners", "patch-ttl-boundaries", "patch-boundaries"},
	"v1model/parser.p4":           {"patch-corners", "patch-boundaries"},
	"v1model/derive.p4":           {"patch-corners"},
	"v1model/checksum.p4":         {"l3-corners", "ipid-corners", "patch-zero-corners"},
	"v1model/pint_utilisation.p4": {"subepochs-boundaries"},
	"v1model/pint_codec.p4":       {"patch-boundaries", "subepochs-boundaries"},
	"v1model/pint_encoder.p4":     {"patch-boundaries", "patch-ttl-boundaries"},
	"v1model/pint.p4":             {"patch-mtu-corners", "patch-ttl-boundaries", "patch-ttl-corners", "ipid-boundaries", "patch-boundaries", "subepochs-boundaries"},
	"v1model/lds.p4":              {"keys-boundaries", "patch-boundaries", "l2-boundaries", "patch-mtu-boundaries"},
	"v1model/disketch.p4":         {"keys-boundaries", "keys-corners", "subepochs-corners", "subepochs-boundaries", "patch-ttl-corners"},
	"v1model/l3.p4":               {"l3-corners", "l3-boundaries"},
	"v1model/l2.p4":               {"l2-corners", "l2-vlan-corners"},
	"v1model/xxhash.p4":           {"xxhash-corners", "xxhash-boundaries", "xxhash-l3-corners"},
}

// crcMutants: each bound, rounding, fold, exponent and formula of the programs whose change is not seen in nearly every packet.
var crcMutants = []mutant{
	{"nothing is changed", "v1model/weir.p4", "V1Switch(packet_parser(), ", "V1Switch(packet_parser(), ", "it is the program, which shows that what finds a mutant is the change"},
	{"the sample's limit excludes itself", "v1model/oblivious.p4", "((bit<64>)most + 1) * (bit<64>)weight", "(bit<64>)most * (bit<64>)weight", ""},
	{"a sample of bytes takes bytes less", "v1model/oblivious.p4", "((bit<64>)most + 1) * (bit<64>)weight", "((bit<64>)most * (bit<64>)weight + 1)", ""},
	{"ranks of UWRA are as those of NWPS", "v1model/oblivious.p4", "(rank.a >> rank_shift)", "rank.a", ""},
	{"a sample's bytes are those of the wire", "v1model/oblivious.p4", "bytes = (bit<32>)hdr.ipv4.total_length + ETHERNET_LEN;", "bytes = meta.length;", ""},
	{"a sample's bytes of IPv6 lack its header", "v1model/oblivious.p4", "(ETHERNET_LEN + IPV6_LEN)", "ETHERNET_LEN", ""},
	{"short frames count for less in a sample", "v1model/oblivious.p4", "if (bytes < SHORTEST_FRAME) {", "if (false) {", ""},
	{"the sample's epoch is that of the arrival", "v1model/oblivious.p4", "bit<64> number = meta.now >> epoch_bits;", "bit<64> number = meta.arrival >> epoch_bits;", ""},
	{"the longest datagram is no fragment's", "v1model/parser.p4", "<< 3) + meta.inside <= MAX_DATAGRAM);", "<< 3) + meta.inside < MAX_DATAGRAM);", ""},
	{"the longest datagram is no fragment's of IPv6", "v1model/parser.p4", "& 0xfff8) + meta.inside <= MAX_DATAGRAM);", "& 0xfff8) + meta.inside < MAX_DATAGRAM);", ""},
	{"as many tags as there may be are too many", "v1model/parser.p4", "(TYPE_VLAN, MAX_TAGS, _): ether_type;", "(TYPE_VLAN, 7, _): ether_type;", ""},
	{"IPv6 extension headers are one fewer", "v1model/parser.p4", "(MAX_EXTENSIONS, _): extension_count;", "(15, _): extension_count;", ""},
	{"UDP's length may be one more", "v1model/parser.p4", "        meta.valid = (bit<1>)(meta.need <= meta.inside);\n        transition select(meta.fits, meta.flags, meta.need, meta.valid) {\n            (0, FLAG_FRAGMENT &&& FLAG_FRAGMENT, _, _): accept;\n            (0, _, _, _): udp_truncated;\n            (1, _, 0 &&& 0xfffffff8, _): udp_length;",
		"        meta.valid = (bit<1>)(meta.need <= meta.inside + 1);\n        transition select(meta.fits, meta.flags, meta.need, meta.valid) {\n            (0, FLAG_FRAGMENT &&& FLAG_FRAGMENT, _, _): accept;\n            (0, _, _, _): udp_truncated;\n            (1, _, 0 &&& 0xfffffff8, _): udp_length;", ""},
	{"the extended header of DCCP may be shorter", "v1model/parser.p4", "meta.need >= DCCP_EXT_LEN));", "meta.need >= DCCP_LEN));", ""},
	{"a checksum is folded once", "v1model/checksum.p4", "        sum = (sum >> 16) + (sum & 0xffff);\n        checksum = ~", "        checksum = ~", ""},
	{"the TTL's fall does not carry", "v1model/checksum.p4", "        sum = sum + (sum >> 16);\n", "", ""},
	{"the TTL's fall leaves the other zero", "v1model/checksum.p4", "if (checksum == 0xffff) {", "if (checksum == 0xfffe) {", ""},
	{"a packet id of IPv6 fragments has their ports", "v1model/derive.p4", " && !(hdr.ipv6.isValid() && meta.flags & FLAG_FRAGMENT != 0);", ";", ""},
	{"flows of IPv6 fragments have their protocol", "v1model/derive.p4", "proto = PROTO_FRAGMENT;", "proto = meta.proto;", ""},
	{"packets that are not IP are not moved to the block's end", "v1model/derive.p4", "block = block << ((OPAQUE_BLOCK_LEN - meta.opaque) << 3);", "", ""},

	{"a utilisation's power ends one earlier", "v1model/pint_utilisation.p4", "(n > 60 || power > 1 << 60)", "(n > 59 || power > 1 << 60)",
		"entries are 2^32 or more, so with n = 60 power = entry << 28 is 2^60 or more, which the other condition makes 2^60"},
	{"a utilisation's power ends at half", "v1model/pint_utilisation.p4", "(n > 60 || power > 1 << 60)", "(n > 60 || power > 1 << 59)", ""},
	{"a utilisation's power ends a bit later", "v1model/pint_utilisation.p4", "(n > 60 || power > 1 << 60) ? 64w1 << 60", "(n > 60 || power > 1 << 60) ? 64w1 << 61", ""},
	{"a utilisation's power shifts to the left by 0", "v1model/pint_utilisation.p4", "(n <= EXP_BITS) ?", "(n < EXP_BITS) ?", "with n = EXP_BITS both shifts are by 0 bits"},
	{"a power below the last bit is not 0", "v1model/pint_utilisation.p4", "power = (x[63:63] == 1) ? 64w0 : power;", "", ""},
	{"a round trip is cut to itself", "v1model/pint_utilisation.p4", "if (tau > link.round_trip) {", "if (tau >= link.round_trip) {", "tau = round_trip becomes round_trip"},
	{"half a round trip is in the other formula", "v1model/pint_utilisation.p4", "if (tau <= link.round_trip >> 1) {", "if (tau < link.round_trip >> 1) {", ""},
	{"the time of the last packet is written again", "v1model/pint_utilisation.p4", "if (now > before) {", "if (now >= before) {", "with now = before, tau is 0 as before, and the register gets what it has"},
	{"what is left of a utilisation is 0 twice", "v1model/pint_utilisation.p4", "u = (u > term) ? u - term : 64w0;", "u = (u >= term) ? u - term : 64w0;", "with u = term both are 0"},
	{"no packet may be in the queue", "v1model/pint_utilisation.p4", "z = (x == 0 || y == 0) ? 64w0 : power;", "z = (x == 0 || y == 1) ? 64w0 : power;", ""},
	{"codes are rounded down", "v1model/pint_codec.p4", "sum = sum + (bit<64>)round;", "", ""},
	{"codes are rounded by a bit less", "v1model/pint_codec.p4", "sum = sum + (bit<64>)round;", "sum = sum + (bit<64>)(round >> 1);", ""},
	{"the highest code is reached earlier", "v1model/pint_codec.p4", "} else if (steps > (bit<64>)top) {", "} else if (steps >= (bit<64>)top) {", "with steps = top the code is top on both ways"},
	{"values below the least one have a code", "v1model/pint_codec.p4", "if (sum[63:63] == 1) {", "if (false) {", ""},
	{"a hop's limit for the path excludes its upper half", "v1model/pint_encoder.p4", "writes = (g.a ++ g.b <= most) ? 1w1 : 1w0;", "writes = (g.a < most[63:32]) ? 1w1 : 1w0;", ""},
	{"a hop's limit for the latency excludes its upper half", "v1model/pint_encoder.p4", "samples = (g.b ++ g.a <= most) ? 1w1 : 1w0;", "samples = (g.b < most[63:32]) ? 1w1 : 1w0;", ""},
	{"an equal use of a link is written again", "v1model/pint_encoder.p4", "if (congestion > (written", "if (congestion >= (written", "with equal codes the digest gets what it has"},
	{"another hash rounds", "v1model/pint_encoder.p4", "bit<ROUND_BITS> round = q.b[ROUND_BITS - 1:0];", "bit<ROUND_BITS> round = g.b[ROUND_BITS - 1:0];", ""},
	{"the path's bits are added, not XORed", "v1model/pint_encoder.p4", "(written & ~cleared) ^ contribution;", "(written & ~cleared) | contribution;", ""},

	{"a shim has to leave a byte", "v1model/pint.p4", "if (meta.length + SHIM_LEN > max_frame) {", "if (meta.length + SHIM_LEN >= max_frame) {", ""},
	{"a packet as long as the link's longest loses its shim", "v1model/pint.p4", "} else if (to_edge == 0 && meta.length > max_frame) {", "} else if (to_edge == 0 && meta.length >= max_frame) {", ""},
	{"hops end one earlier", "v1model/pint.p4", "if (hdr.shim.hop != MAX_HOPS) {", "if (hdr.shim.hop != 254) {", ""},
	{"a TTL of 32 has come from 64", "v1model/pint.p4", "if (ttl <= 32) {", "if (ttl < 32) {", ""},
	{"a TTL of 64 has come from 128", "v1model/pint.p4", "} else if (ttl <= 64) {", "} else if (ttl < 64) {", ""},
	{"a TTL of 128 has come from 255", "v1model/pint.p4", "} else if (ttl <= 128) {", "} else if (ttl < 128) {", ""},
	{"a TTL that has not fallen says 0", "v1model/pint.p4", "if (ttl < first) {", "if (ttl <= first) {", "with ttl = first the difference is the 0 that is there"},
	{"a packet that stays for no time", "v1model/pint.p4", "if (meta.now > meta.arrival) {\n                    seen", "if (meta.now >= meta.arrival) {\n                    seen", "with now = arrival the difference is the 0 that is there"},
	{"the interval's bit is the arrival's", "v1model/pint.p4", "(meta.now > meta.arrival) ? meta.now : meta.arrival;", "meta.arrival;", ""},
	{"the interval's bit is the clock's", "v1model/pint.p4", "(meta.now > meta.arrival) ? meta.now : meta.arrival;", "meta.now;", ""},
	{"the longest latencies are longer", "v1model/pint.p4", ": (64w1 << LATENCY_TOP) - 1;", ": (64w1 << LATENCY_TOP);", ""},
	{"latencies have a bit less", "v1model/pint.p4", "(seen.hop_latency >> LATENCY_TOP == 0)", "(seen.hop_latency >> (LATENCY_TOP - 1) == 0)", ""},
	{"a fragment of a datagram may be atomic", "v1model/pint.p4", "hdr.ipv4.dont_fragment == 1 && hdr.ipv4.more_fragments == 0 && hdr.ipv4.offset == 0) {\n                    atomic", "hdr.ipv4.dont_fragment == 1 && hdr.ipv4.offset == 0) {\n                    atomic", ""},

	{"digests of the next plan are of no plan", "v1model/pint.p4", "    of_next = has_next;", "    of_next = 0;", ""},
	{"packets of hosts may have the next plan", "v1model/pint.p4", "if (from_edge == 0 && hdr.shim.isValid() && hdr.shim.plan == next_id) {", "if (hdr.shim.isValid() && hdr.shim.plan == next_id) {", ""},
	{"a plan 0 is the next one where none is", "v1model/pint.p4", "    of_next = has_next;", "    of_next = 1;", ""},
	{"digests of the next plan are written as those of the first", "v1model/pint.p4", "if (of_next == 1) {\n                        next_encoder", "if (of_next == 1 && hop == 0) {\n                        next_encoder", ""},
	{"hops of the next plan are not by the TTL", "v1model/pint.p4", "next_hops.apply();", "next_hops.apply();\n                    hops_from_ttl = 0;", ""},

	{"an interval's end is in it", "v1model/lds.p4", "if (t + slack >= 64w2 << interval_bits) {", "if (t + slack > 64w2 << interval_bits) {", ""},
	{"a row's limit excludes itself", "v1model/lds.p4", "if (spread_[31:0] <= most) {", "if (spread_[31:0] < most) {", ""},
	{"the slack is a nanosecond less", "v1model/lds.p4", "bit<64> slack = 64w1 << (interval_bits - 1);", "bit<64> slack = (64w1 << (interval_bits - 1)) - 1;", ""},
	{"the other half of an interval is nearer", "v1model/lds.p4", "if (half[0:0] == 0) {", "if (half[0:0] == 1) {", ""},
	{"a shim's interval may be two ahead", "v1model/lds.p4", "                        interval = slice + 1;", "                        interval = told + 1;", ""},
	{"packets that are replayed are not timed", "v1model/lds.p4", "if (p.arrival != p.now) {", "if (p.arrival < p.now) {", ""},
	{"packets that are replayed leave by the clock", "v1model/lds.p4", "if (p.arrival > p.at) {", "if (false) {", ""},
	{"packets that leave as they arrive", "v1model/lds.p4", "if (p.arrival > p.at) {", "if (p.arrival >= p.at) {", "with arrival = at the one becomes the other"},
	{"a flow's cells do not wrap", "v1model/lds.p4", "if (column_ >= columns) {", "if (column_ > columns) {", ""},
	{"a weight is not the time's", "v1model/lds.p4", "cell, t * weight)", "cell, t)", ""},
	{"a weight is not the count's", "v1model/lds.p4", "ADD(cell_count, cell, weight)", "ADD(cell_count, cell, 1)", ""},
	{"a weight is of either version", "v1model/lds.p4", "p.ipv4 = hdr.ipv4.isValid() ? 1w1 : 1w0;", "p.ipv4 = 1w1;", ""},
	{"a weight's addresses of IPv4 are the last bits", "v1model/lds.p4", "p.dst = hdr.ipv4.isValid() ? hdr.ipv4.dst ++ 96w0", "p.dst = hdr.ipv4.isValid() ? 96w0 ++ hdr.ipv4.dst", ""},

	{"the second subepoch is another", "v1model/disketch.p4", "(first + ((last + 1) >> 1)) & last;", "(first + (last >> 1)) & last;", ""},
	{"the second subepoch is not within the epoch", "v1model/disketch.p4", "(first + ((last + 1) >> 1)) & last;", "(first + ((last + 1) >> 1));", ""},
	{"one_subepoch is two", "v1model/disketch.p4", "(host_to_host == 1 && twice == 1 && second", "(host_to_host == 1 && second", ""},
	{"flows from a host are counted twice", "v1model/disketch.p4", "meta.now, meta.length, is_from_host & is_to_host);\n            fragment_1", "meta.now, meta.length, is_from_host);\n            fragment_1", ""},
	{"banks do not take turns", "v1model/disketch.p4", "(bit<32>)(subepoch[0:0] ^ flip);", "(bit<32>)subepoch[0:0];", ""},
	{"a level's row is the next one", "v1model/disketch.p4", "column + level * columns;", "column + (level ^ 1) * columns;", ""},
	{"levels have no top", "v1model/disketch.p4", "trailing_zeros.apply(l.b | top, level);", "trailing_zeros.apply(l.b, level);", ""},
	{"levels are 2 at most", "v1model/disketch.p4", "if (lowest & 0xf0f0f0f0 != 0) { n = n + 4; }", "", ""},
	{"levels are 7 at most", "v1model/disketch.p4", "if (lowest & 0xff00ff00 != 0) { n = n + 8; }", "", ""},
	{"levels are 15 at most", "v1model/disketch.p4", "if (lowest & 0xffff0000 != 0) { n = n + 16; }", "", ""},
	{"a prefix of IPv4 is as long as that of IPv6", "v1model/disketch.p4", "src = ip.src & (src4_mask ++ 96w0);", "", ""},
	{"a flow of addresses has no version", "v1model/disketch.p4", ", NUMBER(ip.version));", ", 64w0);", ""},
	{"packets without addresses are in a flow of addresses", "v1model/disketch.p4", "if (has_shape == 1 && !(of_addresses == 1 && ip.version == 0)) {", "if (has_shape == 1) {", ""},
	{"a subepoch is twice as long", "v1model/disketch.p4", "bit<64> slice = now >> (epoch_bits - log);", "bit<64> slice = now >> (epoch_bits - log + 1);", ""},

	{"a packet is routed with its last hop", "v1model/l3.p4", "} else if (meta.ttl <= 1) {", "} else if (meta.ttl < 1) {", ""},
	{"a packet as long as the MTU is too long", "v1model/l3.p4", "if (bytes > (bit<32>)mtu) {", "if (bytes >= (bit<32>)mtu) {", ""},
	{"neighbour discovery may have no trailer", "v1model/l3.p4", "meta.length > (bit<32>)mtu + ETHERNET_LEN) {", "meta.length >= (bit<32>)mtu + ETHERNET_LEN) {", ""},
	{"a next hop is another", "v1model/l3.p4", "choice = product[79:64];", "choice = product[79:64] ^ 1;", ""},
	{"a station that moved does not find itself", "v1model/l2.p4", "if (moved && hdr.ethernet.dst == hdr.ethernet.src) {", "if (false) {", ""},
	{"a VLAN of 0 is one", "v1model/l2.p4", "if (meta.flags & FLAG_VLAN != 0 && meta.vlan[11:0] != 0) {", "if (meta.flags & FLAG_VLAN != 0) {", ""},
}

// xxhashMutants: the lines of the family, and what decides by more of a hash than crc's has.
var xxhashMutants = []mutant{
	{"xxhash: nothing is changed", "v1model/weir.p4", "V1Switch(packet_parser(), ", "V1Switch(packet_parser(), ", "it is the program, which shows that what finds a mutant is the change"},
	{"xxhash: a hop's limit for the path excludes itself", "v1model/pint_encoder.p4", "writes = (g.a ++ g.b <= most) ? 1w1 : 1w0;", "writes = (g.a ++ g.b < most) ? 1w1 : 1w0;", ""},
	{"xxhash: a hop's limit for the path has an upper half alone", "v1model/pint_encoder.p4", "writes = (g.a ++ g.b <= most) ? 1w1 : 1w0;", "writes = (g.a <= most[63:32]) ? 1w1 : 1w0;", ""},
	{"xxhash: a hop's limit for the latency excludes itself", "v1model/pint_encoder.p4", "samples = (g.b ++ g.a <= most) ? 1w1 : 1w0;", "samples = (g.b ++ g.a < most) ? 1w1 : 1w0;", ""},
	{"xxhash: a hop's limit for the latency has an upper half alone", "v1model/pint_encoder.p4", "samples = (g.b ++ g.a <= most) ? 1w1 : 1w0;", "samples = (g.b <= most[63:32]) ? 1w1 : 1w0;", ""},
	{"xxhash: the layer is told by an upper half alone", "v1model/pint_encoder.p4", "turned = q.b ++ q.a;", "turned = q.b ++ 32w0;", ""},
	{"xxhash: a word of a lane is turned less", "v1model/xxhash.p4", "return ROTATE(before + product, 31) * PRIME1;", "return ROTATE(before + product, 30) * PRIME1;", ""},
	{"xxhash: a word behind the stripes is turned less", "v1model/xxhash.p4", "return ROTATE(state ^ scrambled, 27) * PRIME1 + PRIME4;", "return ROTATE(state ^ scrambled, 26) * PRIME1 + PRIME4;", ""},
	{"xxhash: a joined lane lacks its prime", "v1model/xxhash.p4", "return (state ^ scramble(v)) * PRIME1 + PRIME4;", "return (state ^ scramble(v)) * PRIME1;", ""},
	{"xxhash: the first lane is joined as it is", "v1model/xxhash.p4", "x = ROTATE(v1, 1) + ROTATE(v2, 7)", "x = v1 + ROTATE(v2, 7)", ""},
	{"xxhash: the fourth lane is turned less", "v1model/xxhash.p4", "ROTATE(v4, 18);", "ROTATE(v4, 17);", ""},
	{"xxhash: the lanes are joined in another order", "v1model/xxhash.p4", "join(join(join(join(x, v1), v2), v3), v4)", "join(join(join(join(x, v1), v3), v2), v4)", ""},
	{"xxhash: the fourth lane begins as the third", "v1model/xxhash.p4", "v4 = lane(key - PRIME1, m.d);", "v4 = lane(key, m.d);", ""},
	{"xxhash: the second stripe of a lane is the first one's", "v1model/xxhash.p4", "v3 = lane(v3, m.g);", "v3 = lane(v3, m.c);", ""},
	{"xxhash: eight words are as long as five", "v1model/xxhash.p4", "m.bytes = 64;                                       \\\n    FIRST_STRIPE", "m.bytes = 40;                                       \\\n    FIRST_STRIPE", ""},
	{"xxhash: eight words have one stripe", "v1model/xxhash.p4", "            if (m.bytes == 64) {\n", "            if (false) {\n", ""},
	{"xxhash: four words are as long as five", "v1model/xxhash.p4", "m.bytes = 32; ", "m.bytes = 40; ", ""},
	{"xxhash: a fifth word is left out", "v1model/xxhash.p4", "            if (m.bytes == 40) {\n", "            if (false) {\n", ""},
	{"xxhash: two words of many are as long as one", "v1model/xxhash.p4", "    @hidden action mix_two() {\n        x = tail(tail(key + (PRIME5 + 16), m.a), m.b);", "    @hidden action mix_two() {\n        x = tail(tail(key + (PRIME5 + 8), m.a), m.b);", ""},
	{"xxhash: a pair is the other way round", "v1model/xxhash.p4", "    @hidden action mix() {\n        x = tail(tail(key + (PRIME5 + 16), m.a), m.b);", "    @hidden action mix() {\n        x = tail(tail(key + (PRIME5 + 16), m.b), m.a);", ""},
	{"xxhash: a word is as long as two", "v1model/xxhash.p4", "x = tail(key + (PRIME5 + 8), m);", "x = tail(key + (PRIME5 + 16), m);", ""},
	{"xxhash: the first step of the end is a bit less", "v1model/xxhash.p4", "x = (x ^ (x >> 33)) * PRIME2;", "x = (x ^ (x >> 32)) * PRIME2;", ""},
	{"xxhash: the second step of the end is a bit less", "v1model/xxhash.p4", "x = (x ^ (x >> 29)) * PRIME3;", "x = (x ^ (x >> 28)) * PRIME3;", ""},
	{"xxhash: the last step of the end is left out", "v1model/xxhash.p4", "    x = x ^ (x >> 32);                  \\\n", "", ""},
	{"xxhash: halves of a wide field are the other way round", "v1model/xxhash.p4", "#define WIRE_PAIR(x) SWAP64((x)[127:64]), SWAP64((x)[63:0])", "#define WIRE_PAIR(x) SWAP64((x)[63:0]), SWAP64((x)[127:64])", ""},
	{"xxhash: bytes of the wire are a number as they are", "v1model/xxhash.p4", "#define WIRE(x) SWAP64(x)", "#define WIRE(x) (x)", ""},
	{"xxhash: numbers are as on the wire", "v1model/xxhash.p4", "#define NUMBER(x) (x)", "#define NUMBER(x) SWAP64(x)", ""},
	{"xxhash: a hop's number is as on the wire", "v1model/xxhash.p4", "#define WORD_OF_8(x) ((bit<64>)(x))", "#define WORD_OF_8(x) ((x) ++ 56w0)", ""},
}
