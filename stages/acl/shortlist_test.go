package acl

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// TestLongestList: a combination of as many rules as a list may have is compared, one of more is left to the rows, and both find the
// last of the rules.
func TestLongestList(t *testing.T) {
	for _, n := range []int{longest, longest + 1} {
		var c Config
		for i := range 200 { // addresses of one rule each, so that lists are short on average
			c.Rules = append(c.Rules, Rule{Action: Permit, Dst: fmt.Sprintf("10.0.1.%d", i)})
		}
		for i := range n {
			c.Rules = append(c.Rules, Rule{Action: Permit, Dst: "10.0.0.1", Src: fmt.Sprintf("10.0.2.%d", i)})
		}
		c.Default = Deny
		s := newModule(t, c).Stage(0).(*stage)
		if len(s.rules.shortlists) != 1 {
			t.Fatalf("%d rules: %d shortlists", n, len(s.rules.shortlists))
		}
		b := newBatch(t)
		b.Pkts = b.Pkts[:2]
		for i := range b.Pkts { // of the last rule, and of none
			p := &b.Pkts[i]
			*p = packet.Packet{Addr: p.Addr, Len: 60, WireLen: 60, EtherType: 0x0800, Flags: packet.FlagIPv4 | packet.FlagL4, L3: 14, L4: 34, Proto: 1}
			copy(b.Data(p)[14+12:], []byte{10, 0, 2, byte(n - 1 + i), 10, 0, 0, 1})
		}
		s.Process(b)
		if got := s.hits[len(c.Rules)-1].packets; got != 1 || b.Dropped != 1 || s.short[0] != (n == longest) {
			t.Errorf("%d rules of an address: the last one has %d packets, %d are dropped; compared: %v", n, got, b.Dropped, s.short[0])
		}
	}
}

// TestListsTooLong: rules that overlap by the thousand have no shortlists, which would be of a few combinations and leave all others to
// rows without a cache.
func TestListsTooLong(t *testing.T) {
	c := Config{Default: Permit}
	for i := range 4000 {
		c.Rules = append(c.Rules, Rule{Action: Deny, SrcPort: fmt.Sprintf("0-%d", i), DstPort: fmt.Sprintf("%d-65535", i)})
	}
	if r := newModule(t, c).rules.Load(); len(r.shortlists) != 0 || r.caches == nil {
		t.Errorf("%d shortlists; rows have a cache: %v", len(r.shortlists), r.caches != nil)
	}
}

// TestFlowKey: packets that differ in what a rule looks at have different keys, or none.
func TestFlowKey(t *testing.T) {
	c := Config{Default: Permit, Rules: []Rule{{Action: Deny, TCPFlags: "syn", InPorts: []string{"p1"}, Src: "10.0.0.0/8", DstPort: "1-2"}}}
	rules := newModule(t, c).rules.Load()
	if !rules.layOutFlowKey() {
		t.Fatal("no room for ports, addresses, flags and the input port")
	}
	key := func(change func(*fields)) key {
		f := fields{
			src: netip.AddrFrom4([4]byte{10, 0, 0, 1}), dst: netip.AddrFrom4([4]byte{10, 0, 0, 2}),
			etherType: 0x0800, vlan: vlanNone, proto: 6, flags: 2, srcPort: 1, dstPort: 2, ports: true, inPort: 1,
		}
		change(&f)
		p := f.probe()
		return rules.flowKey(&f, &p)
	}
	seen := map[[2]uint64]string{}
	for name, change := range map[string]func(*fields){
		"none":            func(*fields) {},
		"source":          func(f *fields) { f.src = f.dst },
		"destination":     func(f *fields) { f.dst = f.src },
		"addresses":       func(f *fields) { f.src, f.dst = f.dst, f.src },
		"ports":           func(f *fields) { f.srcPort, f.dstPort = 2, 1 },
		"source port":     func(f *fields) { f.srcPort = 65535 },
		"port":            func(f *fields) { f.dstPort = 65535 },
		"protocol":        func(f *fields) { f.proto = 255 },
		"no flags":        func(f *fields) { f.flags = noFlags },
		"all flags":       func(f *fields) { f.flags = 255 },
		"input port":      func(f *fields) { f.inPort = 0 },
		"last input port": func(f *fields) { f.inPort = 1<<14 - 1 },
	} {
		k := key(change)
		if other, ok := seen[[2]uint64{k.low, k.high}]; ok || k.high&keyUsed == 0 {
			t.Errorf("%s: key %x, as of %q", name, k, other)
		}
		seen[[2]uint64{k.low, k.high}] = name
	}
	for name, change := range map[string]func(*fields){
		"an input port too many": func(f *fields) { f.inPort = 1<<14 | 1 },
		"another type":           func(f *fields) { f.etherType = 0x8847 },
		"no ports":               func(f *fields) { f.ports = false },
		"IPv6":                   func(f *fields) { f.src = netip.IPv6Unspecified() },
		"a part is unknown":      func(f *fields) { f.unknown = unknownVLAN },
	} {
		if k := key(change); k.high != 0 || k.low != 0 {
			t.Errorf("%s: key %x", name, k)
		}
	}
	for name, rule := range map[string]Rule{
		"VLAN": {Action: Deny, VLAN: "1"}, "MAC": {Action: Deny, SrcMAC: "02:00:00:00:00:01"}, "counting": {Action: Count, Src: "10.0.0.0/8"},
		"masked MAC": {Action: Deny, DstMAC: "02:00:00:00:00:00/ff:00:00:00:00:00"},
	} {
		if newModule(t, Config{Default: Permit, Rules: []Rule{rule}}).rules.Load().layOutFlowKey() {
			t.Errorf("%s: a key of flows has room", name)
		}
	}
}

// TestLargerBatch: of a batch larger than packet.BatchSize each packet has its verdict, and those that were dropped before keep their
// reason and are not counted, be it all of them.
func TestLargerBatch(t *testing.T) {
	const n = 3*packet.BatchSize + 5
	pool, err := packet.NewPool(packet.PoolConfig{Frames: n, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	b := packet.NewBatch(pool.NewCache(), n)
	for range n {
		addr, _ := b.Frames.AllocOne()
		b.Append().Addr = addr
	}
	other := packet.Register("acl_test", "dropped before")
	r := rand.New(rand.NewPCG(21, 21))
	c := Config{Default: Permit}
	for i := range 60 {
		c.Rules = append(c.Rules, Rule{Action: pick(r, Permit, Deny, Count), Dst: fmt.Sprintf("10.%d.%d.%d", i&3, i>>2&3, i%8)})
	}
	m := newModule(t, c)
	set, err := c.compile(pipeline.PortNames(m.env.Ports))
	if err != nil {
		t.Fatal(err)
	}
	s := m.Stage(0).(*stage)
	if len(s.rules.shortlists) == 0 {
		t.Fatal("no shortlists")
	}
	want := make([]hit, len(set.rules)+1)
	for _, before := range []int{0, 3, n} { // one packet in so many is left; 0: all
		for i := range b.Pkts {
			randomPacket(r, b, i)
			if before != 0 && (i+1)%before != 0 || before == n {
				b.Pkts[i].Reason = other
			}
		}
		b.Dropped = 0
		s.Process(b)
		for i := range b.Pkts {
			p := &b.Pkts[i]
			if p.Reason != other && walk(set, b, p, want) != (p.Reason == 0) {
				t.Errorf("packet %d of %d: %v", i, n, p.Reason)
			}
		}
	}
	for i := range want {
		if s.hits[i] != want[i] {
			t.Errorf("rule %d counts %+v, not %+v", i, s.hits[i], want[i])
		}
	}
}

// TestFutileCache: a cache that knows fewer than one packet in four is asked about one batch in sixteen, until it knows more.
func TestFutileCache(t *testing.T) {
	s := &stage{}
	for _, c := range []struct{ known, asks uint32 }{{1<<12 - 1, 10}, {1 << 12, 160}, {0, 10}} {
		s.asked, s.known = 1<<14, c.known
		asks := uint32(0)
		for range 160 {
			if s.worthwhile() {
				asks++
			}
		}
		if asks != c.asks {
			t.Errorf("%d of %d known: asked about %d of 160 batches, not %d", c.known, 1<<14, asks, c.asks)
		}
	}
}
