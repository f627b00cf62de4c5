// The tests keep the constants and the headers of the P4 programs equal
// to those of the Go stages.
package include_test

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	_ "github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/parse"
)

// goNames says which constant of which Go package a P4 constant equals. Flags,
// faults and reasons are compared as sets, below.
var goNames = map[string][]string{
	"pipeline/header": {
		"TYPE_IPV4 TypeIPv4", "TYPE_ARP TypeARP", "TYPE_VLAN TypeVLAN", "TYPE_SERVICE_VLAN TypeServiceVLAN",
		"TYPE_LEGACY_QINQ TypeLegacyQinQ", "TYPE_IPV6 TypeIPv6", "TYPE_MPLS TypeMPLS",
		"TYPE_MPLS_MULTICAST TypeMPLSMulticast", "TYPE_SHIM TypeShim", "SHIM_VERSION ShimVersion",
		"PROTO_HOP_BY_HOP ProtoHopByHop", "PROTO_ICMP ProtoICMP", "PROTO_TCP ProtoTCP", "PROTO_UDP ProtoUDP",
		"PROTO_DCCP ProtoDCCP", "PROTO_ROUTING ProtoRouting", "PROTO_FRAGMENT ProtoFragment", "PROTO_AH ProtoAH",
		"PROTO_ICMPV6 ProtoICMPv6", "PROTO_NO_NEXT ProtoNoNext", "PROTO_DESTINATION ProtoDestination",
		"PROTO_SCTP ProtoSCTP", "PROTO_MOBILITY ProtoMobility", "PROTO_UDP_LITE ProtoUDPLite", "PROTO_HIP ProtoHIP",
		"PROTO_SHIM6 ProtoShim6", "ICMPV6_NEIGHBOUR_SOLICIT ICMPv6NeighbourSolicit",
		"ICMPV6_NEIGHBOUR_ADVERT ICMPv6NeighbourAdvert",
		"ETHERNET_LEN EthernetLen", "VLAN_LEN VLANLen", "SHIM_FIXED_LEN shimFixed", "ARP_LEN ARPLen",
		"IPV4_LEN IPv4Len", "IPV6_LEN IPv6Len", "IPV6_EXT_LEN IPv6ExtLen", "TCP_LEN TCPLen", "UDP_LEN UDPLen",
		"ICMP_LEN ICMPLen", "SCTP_LEN SCTPLen", "DCCP_LEN DCCPLen", "DCCP_EXT_LEN DCCPExtLen",
	},
	"stages/parse": {
		"MAX_TAGS maxTags", "MAX_SHIMS maxShims", "MAX_EXTENSIONS maxExtensions", "MAX_DATAGRAM maxDatagram",
		"NUM_FAULTS numFaults",
	},
	"p4/tables": {
		"REASON_MULTICAST reasonMulticast", "REASON_MARTIAN reasonMartian", "CPU_SESSION cpuSession", "MAX_PORTS maxPorts",
		"STATION_TABLE_SIZE maxStations", "ROUTE_TABLE_SIZE maxRoutes", "NEXT_HOP_TABLE_SIZE maxNextHops",
		"VLAN_MEMBER_TABLE_SIZE maxVLANMembers", "FLOOD_TABLE_SIZE maxFloods", "DIGEST_BITS digestBits", "FRAGMENTS maxFragments",
		"FRAGMENT_COLUMN_BITS maxFragmentColumnBits", "LDS_ROWS pointRows", "LDS_COLUMN_BITS maxLDSColumnBits",
	},
	"pipeline/packet": {"NO_PORT NoPort", "REASON_CONSUMED Consumed"},
	"telemetry/pint":  {"MAX_HOPS MaxHops"},
	"telemetry/pint/encode": {
		"LOG_FRACTION LogFraction", "UTILISATION_TABLE_BITS utilisationTable", "UTILISATION_SCALE utilisationScale",
		"EXP_BITS expBits",
	},
	"stages/pint": {
		"SOURCED sourced", "TRANSITED transited", "SUNK sunk", "LOCAL local", "LEFT_BARE leftBare", "LEFT_MTU leftMTU",
		"LEFT_ROOM leftRoom", "LEFT_OTHER leftOther", "LEFT_NONZERO leftNonzero", "LEFT_OWN leftOwn",
		"LEFT_LOOPING leftLooping", "LEFT_FORGED leftForged", "UNKNOWN_PLAN unknownPlan", "HOP_SATURATED hopSaturated",
		"HOP_UNKNOWN hopUnknown", "LOOPS_FOUND loopsFound", "RECORDED recorded", "RING_FULL ringFull", "PINT_COUNTS numProgramCounts",
	},
}

// goConstants are those of a Go package, exported or not: what they are made of must
// be in the package itself.
func goConstants(t *testing.T, dir string) *types.Scope {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no Go files: %v", dir, err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	// What other packages say is not asked, so that errors are no matter.
	c := types.Config{Error: func(error) {}, Importer: noImports{}}
	p, _ := c.Check(dir, set, files, nil)
	return p.Scope()
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

func goConstant(t *testing.T, s *types.Scope, name string) (uint64, bool) {
	t.Helper()
	c, ok := s.Lookup(name).(*types.Const)
	if !ok {
		t.Errorf("%s: Go has no such constant", name)
		return 0, false
	}
	n, exact := constant.Uint64Val(constant.ToInt(c.Val()))
	if !exact {
		t.Errorf("%s is %s in Go", name, c.Val())
	}
	return n, exact
}

func TestConstants(t *testing.T) {
	p := load(t)
	for dir, pairs := range goNames {
		scope := goConstants(t, dir)
		for _, pair := range pairs {
			ours, theirs, _ := strings.Cut(pair, " ")
			want, ok := goConstant(t, scope, theirs)
			if n := p.number(t, ours); ok && n != want {
				t.Errorf("%s is %#x, %s.%s %#x", ours, n, dir, theirs, want)
			}
		}
	}
	// Powers of two in Go are numbers of bits in P4, and the other way round.
	for ours, theirs := range map[string]string{"UTILISATION_VALUE_BITS": "telemetry/pint UtilisationOne", "ROUND_BITS": "telemetry/pint/encode RoundOne"} {
		dir, theirs, _ := strings.Cut(theirs, " ")
		scope := goConstants(t, dir)
		if want, ok := goConstant(t, scope, theirs); ok && 1<<p.number(t, ours) != want {
			t.Errorf("%s is %d, %s %d", ours, p.number(t, ours), theirs, want)
		}
	}
	if n := p.number(t, "UTILISATION_TABLE_SIZE"); n != 1<<p.number(t, "UTILISATION_TABLE_BITS") {
		t.Errorf("UTILISATION_TABLE_SIZE is %d", n)
	}
	if n := p.number(t, "OPAQUE_BLOCK_LEN"); n != 8*packet.IDWordsOther {
		t.Errorf("OPAQUE_BLOCK_LEN is %d", n)
	}
}

// TestFlags compares the parser's flags, by Go's names: FLAG_LATER_FRAGMENT is
// FlagLaterFragment.
func TestFlags(t *testing.T) {
	p := load(t)
	scope := goConstants(t, "pipeline/packet")
	want := map[string]uint64{}
	for _, name := range scope.Names() {
		if rest, ok := strings.CutPrefix(name, "Flag"); ok && rest != "s" {
			n, _ := goConstant(t, scope, name)
			want[strings.ToLower(rest)] = n
		}
	}
	compare(t, p, "FLAG_", want)
}

// TestFaults compares what is wrong with malformed packets.
func TestFaults(t *testing.T) {
	p := load(t)
	want := map[string]uint64{}
	for f := parse.Fault(1); uint64(f) < p.number(t, "NUM_FAULTS"); f++ {
		want[strings.ReplaceAll(f.String(), "_", "")] = uint64(f)
	}
	compare(t, p, "FAULT_", want)
}

// compare says where the constants that begin with a prefix differ from those that
// are wanted, by names without underscores.
func compare(t *testing.T, p *program, prefix string, want map[string]uint64) {
	t.Helper()
	found := 0
	for name, n := range p.numbers {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		found++
		w, ok := want[strings.ReplaceAll(strings.ToLower(rest), "_", "")]
		if !ok {
			t.Errorf("%s: Go has none", name)
		} else if n != w {
			t.Errorf("%s is %#x, in Go %#x", name, n, w)
		}
	}
	if found != len(want) || found == 0 {
		t.Errorf("%d constants %s..., in Go %d", found, prefix, len(want))
	}
}

// TestReasons asks that each reason of P4 is one of Go's, and that each has a number
// of its own.
func TestReasons(t *testing.T) {
	p := load(t)
	names := map[string]bool{"consumed": true}
	for _, r := range packet.Reasons() {
		names[r.String()] = true
	}
	seen := map[uint64]string{0: "NO_REASON"}
	for name, n := range p.numbers {
		rest, ok := strings.CutPrefix(name, "REASON_")
		if !ok {
			continue
		}
		if !names[strings.ToLower(rest)] {
			t.Errorf("%s: Go has no such reason", name)
		}
		if other, twice := seen[n]; twice {
			t.Errorf("%s and %s are both %d", name, other, n)
		}
		if seen[n] = name; n >= p.number(t, "NUM_REASONS") {
			t.Errorf("%s is %d: raise NUM_REASONS", name, n)
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d reasons were found", len(seen))
	}
}

// TestLengths compares headers with the lengths that Go knows.
func TestLengths(t *testing.T) {
	p := load(t)
	if n := p.length(t, "ethernet_t") + p.length(t, "ether_type_t"); n != header.EthernetLen {
		t.Errorf("the link header has %d bytes", n)
	}
	// The EtherType that announces a shim is in front of it in Go, the one that it
	// keeps behind it in P4.
	digest := p.length(t, "digest_t")
	if n := p.length(t, "shim_t") + digest; n != header.ShimLen(digest) || digest != int(p.number(t, "DIGEST_LEN")) {
		t.Errorf("a shim has %d bytes, with a digest of %d", n, digest)
	}
	if n := p.length(t, "given_time_t"); n != int(p.number(t, "GIVEN_TIME_LEN")) {
		t.Errorf("given_time_t has %d bytes", n)
	}
	for name, want := range map[string]int{
		"vlan_t": header.VLANLen, "ipv4_t": header.IPv4Len, "ipv6_t": header.IPv6Len, "tcp_t": header.TCPLen, "dccp_t": header.DCCPLen,
	} {
		if n := p.length(t, name); n != want {
			t.Errorf("%s has %d bytes, in Go %d", name, n, want)
		}
	}
}

// TestLayouts writes headers by their P4 fields and reads them by Go's views.
func TestLayouts(t *testing.T) {
	p := load(t)
	equal := func(what string, got, want uint64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %#x, want %#x", what, got, want)
		}
	}
	flag := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}

	link := append(p.pack(t, "ethernet_t", map[string]uint64{"dst": 0x020304050607, "src": 0x0a0b0c0d0e0f}),
		p.pack(t, "vlan_t", map[string]uint64{"type": header.TypeVLAN, "priority": 5, "drop_eligible": 1, "id": 0x123})...)
	link = append(link, p.pack(t, "shim_t", map[string]uint64{"type": header.TypeShim, "version": 1, "interval": 1, "length": 1, "hop": 0xa5, "plan": 0x1234})...)
	link = append(link, p.pack(t, "digest_t", map[string]uint64{"value": 0xabcd})...)
	link = append(link, p.pack(t, "ether_type_t", map[string]uint64{"value": header.TypeIPv6})...)
	eth := header.EthernetAt(link, 0)
	equal("ethernet dst", uint64(eth.Dst()[5]), 0x07)
	equal("ethernet src", uint64(eth.Src()[0]), 0x0a)
	equal("ethernet type", uint64(eth.Type()), header.TypeVLAN)
	tag := header.VLANAt(link, header.EthernetLen)
	equal("vlan tci", uint64(tag.TCI()), 0xb123)
	equal("vlan type", uint64(tag.Type()), header.TypeShim)
	shim := header.ShimAt(link, header.EthernetLen+header.VLANLen)
	equal("shim version", uint64(shim.Version()), 1)
	equal("shim interval", flag(shim.Interval()), 1)
	equal("shim hop", uint64(shim.Hop()), 0xa5)
	equal("shim plan", uint64(shim.Plan()), 0x1234)
	equal("shim digest", shim.Digest(), 0xabcd)
	equal("shim type", uint64(shim.Type()), header.TypeIPv6)

	b := p.pack(t, "ipv4_t", map[string]uint64{
		"version": 4, "ihl": 6, "tos": 0x5a, "total_length": 0x1122, "identification": 0x3344, "mark": 0, "dont_fragment": 1,
		"more_fragments": 1, "offset": 0x155, "ttl": 77, "protocol": 6, "checksum": 0x5566, "src": 0x0a000001, "dst": 0x0a000002,
	})
	ip := header.IPv4At(b, 0)
	equal("ipv4 version", uint64(ip.Version()), 4)
	equal("ipv4 ihl", uint64(ip.HeaderLen()), 24)
	equal("ipv4 tos", uint64(ip.TOS()), 0x5a)
	equal("ipv4 total_length", uint64(ip.TotalLen()), 0x1122)
	equal("ipv4 identification", uint64(ip.ID()), 0x3344)
	equal("ipv4 dont_fragment", flag(ip.DontFragment()), 1)
	equal("ipv4 more_fragments", flag(ip.MoreFragments()), 1)
	equal("ipv4 offset", uint64(ip.FragmentOffset()), 8*0x155)
	equal("ipv4 ttl", uint64(ip.TTL()), 77)
	equal("ipv4 protocol", uint64(ip.Protocol()), 6)
	equal("ipv4 checksum", uint64(ip.Checksum()), 0x5566)
	equal("ipv4 src", uint64(ip.Src()[3]), 1)
	equal("ipv4 dst", uint64(ip.Dst()[3]), 2)

	b = p.pack(t, "ipv6_t", map[string]uint64{
		"version": 6, "traffic_class": 0xa5, "flow_label": 0xabcde, "payload_length": 0x1122, "next_header": 58, "hop_limit": 33, "src": 1, "dst": 2,
	})
	ip6 := header.IPv6At(b, 0)
	equal("ipv6 version", uint64(ip6.Version()), 6)
	equal("ipv6 traffic_class", uint64(ip6.TrafficClass()), 0xa5)
	equal("ipv6 flow_label", uint64(ip6.FlowLabel()), 0xabcde)
	equal("ipv6 payload_length", uint64(ip6.PayloadLen()), 0x1122)
	equal("ipv6 next_header", uint64(ip6.NextHeader()), 58)
	equal("ipv6 hop_limit", uint64(ip6.HopLimit()), 33)
	equal("ipv6 src", uint64(ip6.Src()[15]), 1)
	equal("ipv6 dst", uint64(ip6.Dst()[15]), 2)

	b = p.pack(t, "tcp_t", map[string]uint64{
		"src_port": 1000, "dst_port": 80, "sequence": 1, "acknowledgment": 2, "data_offset": 7, "flags": 0x12, "window": 3, "checksum": 4, "urgent": 5,
	})
	tcp := header.TCPAt(b, 0)
	equal("tcp src_port", uint64(tcp.SrcPort()), 1000)
	equal("tcp dst_port", uint64(tcp.DstPort()), 80)
	equal("tcp data_offset", uint64(tcp.HeaderLen()), 28)

	b = p.pack(t, "dccp_t", map[string]uint64{"src_port": 5, "dst_port": 6, "data_offset": 9, "bytes": 0xffffff, "type": 0, "extended": 1, "more": 0})
	dccp := header.DCCPAt(b, 0)
	equal("dccp dst_port", uint64(dccp.DstPort()), 6)
	equal("dccp data_offset", uint64(dccp.DataOffset()), 36)
	equal("dccp extended", flag(dccp.Extended()), 1)
}
