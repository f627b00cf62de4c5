package vectors

// mutant is one change to the sources of p4/v1model and p4/include that the comparison has to find.
type mutant struct {
	name     string
	file     string // of p4
	old, new string // old is in the file once
	// equivalent is the proof that no packet can tell it from the program; empty: the vectors have to.
	equivalent string
}

// lookFirst are vectors in which mutants of a file are looked for before all others.
var lookFirst = map[string][]string{
	"v1model/oblivious.p4":        {"patch-boundaries"},
	"v1model/parser.p4":           {"patch-corners", "patch-boundaries"},
	"v1model/derive.p4":           {"patch-corners"},
	"v1model/checksum.p4":         {"l3-corners", "ipid-corners", "patch-zero-corners"},
	"v1model/pint_utilisation.p4": {"subepochs-boundaries"},
	"v1model/pint_codec.p4":       {"patch-boundaries", "subepochs-boundaries"},
	"v1model/pint_encoder.p4":     {"patch-boundaries", "patch-ttl-boundaries"},
	"v1model/pint.p4":             {"patch-mtu-corners", "patch-ttl-boundaries", "ipid-boundaries", "patch-boundaries", "subepochs-boundaries"},
	"v1model/lds.p4":              {"patch-boundaries", "l2-boundaries", "patch-mtu-boundaries"},
	"v1model/disketch.p4":         {"subepochs-corners", "subepochs-boundaries", "patch-ttl-corners"},
	"v1model/l3.p4":               {"l3-corners", "l3-boundaries"},
	"v1model/l2.p4":               {"l2-corners", "l2-vlan-corners"},
}

// mutants: each bound, rounding, fold, exponent and formula of the programs whose change is not seen in nearly every packet.
var mutants = []mutant{
	{"nothing is changed", "v1model/weir.p4", "V1Switch(packet_parser(), ", "V1Switch(packet_parser(), ", "it is the program, which shows that what finds a mutant is the change"},
	{"the sample's limit excludes itself", "v1model/oblivious.p4", "if (rank.a <= most) {", "if (rank.a < most) {", ""},
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
	{"a hop's limit for the path excludes itself", "v1model/pint_encoder.p4", "writes = (g.a <= most) ? 1w1 : 1w0;", "writes = (g.a < most) ? 1w1 : 1w0;", ""},
	{"a hop's limit for the latency excludes itself", "v1model/pint_encoder.p4", "samples = (g.b <= most) ? 1w1 : 1w0;", "samples = (g.b < most) ? 1w1 : 1w0;", ""},
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

	{"an interval's end is in it", "v1model/lds.p4", "if (t + slack >= 64w2 << interval_bits) {", "if (t + slack > 64w2 << interval_bits) {", ""},
	{"a row's limit excludes itself", "v1model/lds.p4", "if ((of_packet << virtual_bits) <= most) {", "if ((of_packet << virtual_bits) < most) {", ""},
	{"the slack is a nanosecond less", "v1model/lds.p4", "bit<64> slack = 64w1 << (interval_bits - 1);", "bit<64> slack = (64w1 << (interval_bits - 1)) - 1;", ""},
	{"the other half of an interval is nearer", "v1model/lds.p4", "if (half[0:0] == 0) {", "if (half[0:0] == 1) {", ""},
	{"a shim's interval may be two ahead", "v1model/lds.p4", "                        interval = slice + 1;", "                        interval = told + 1;", ""},
	{"packets that are replayed are not timed", "v1model/lds.p4", "if (p.arrival != p.now) {", "if (p.arrival < p.now) {", ""},
	{"packets that are replayed leave by the clock", "v1model/lds.p4", "if (p.arrival > p.at) {", "if (false) {", ""},
	{"packets that leave as they arrive", "v1model/lds.p4", "if (p.arrival > p.at) {", "if (p.arrival >= p.at) {", "with arrival = at the one becomes the other"},
	{"a flow's cells do not wrap", "v1model/lds.p4", "(of_packet >> (8w32 - virtual_bits))) &     \\\n                 ((32w1 << column_bits) - 1)", "(of_packet >> (8w32 - virtual_bits))) &     \\\n                 ((32w2 << column_bits) - 1)", ""},

	{"the second subepoch is another", "v1model/disketch.p4", "(first + ((last + 1) >> 1)) & last;", "(first + (last >> 1)) & last;", ""},
	{"the second subepoch is not within the epoch", "v1model/disketch.p4", "(first + ((last + 1) >> 1)) & last;", "(first + ((last + 1) >> 1));", ""},
	{"one_subepoch is two", "v1model/disketch.p4", "(host_to_host == 1 && twice == 1 && second", "(host_to_host == 1 && second", ""},
	{"flows from a host are counted twice", "v1model/disketch.p4", "meta.now, meta.length, is_from_host & is_to_host);\n            fragment_1", "meta.now, meta.length, is_from_host);\n            fragment_1", ""},
	{"banks do not take turns", "v1model/disketch.p4", "(bit<32>)(subepoch[0:0] ^ flip);", "(bit<32>)subepoch[0:0];", ""},
	{"a subepoch is twice as long", "v1model/disketch.p4", "bit<64> slice = now >> (epoch_bits - log);", "bit<64> slice = now >> (epoch_bits - log + 1);", ""},

	{"a packet is routed with its last hop", "v1model/l3.p4", "} else if (meta.ttl <= 1) {", "} else if (meta.ttl < 1) {", ""},
	{"a packet as long as the MTU is too long", "v1model/l3.p4", "if (bytes > (bit<32>)mtu) {", "if (bytes >= (bit<32>)mtu) {", ""},
	{"neighbour discovery may have no trailer", "v1model/l3.p4", "meta.length > (bit<32>)mtu + ETHERNET_LEN) {", "meta.length >= (bit<32>)mtu + ETHERNET_LEN) {", ""},
	{"a next hop is another", "v1model/l3.p4", "choice = (bit<16>)(h.a >> (32 - log));", "choice = (bit<16>)(h.a >> (31 - log)) >> 1 ^ 1;", ""},
	{"a station that moved does not find itself", "v1model/l2.p4", "if (moved && hdr.ethernet.dst == hdr.ethernet.src) {", "if (false) {", ""},
	{"a VLAN of 0 is one", "v1model/l2.p4", "if (meta.flags & FLAG_VLAN != 0 && meta.vlan[11:0] != 0) {", "if (meta.flags & FLAG_VLAN != 0) {", ""},
}
