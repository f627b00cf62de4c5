package tables

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestValue(t *testing.T) {
	for _, c := range []struct {
		v     Value
		text  string
		bits  int
		bytes []byte
	}{
		{Number(0), "0x0", 0, []byte{0}},
		{Number(1), "0x1", 1, []byte{1}},
		{Number(0x100), "0x100", 9, []byte{1, 0}},
		{Number(1 << 63), "0x8000000000000000", 64, []byte{0x80, 0, 0, 0, 0, 0, 0, 0}},
		{MAC([6]byte{2, 0, 0, 0, 0, 7}), "0x20000000007", 42, []byte{2, 0, 0, 0, 0, 7}},
		{address(netip.MustParseAddr("10.0.0.1")), "0xa000001", 28, []byte{10, 0, 0, 1}},
		{address(netip.MustParseAddr("::1")), "0x1", 1, []byte{1}},
		{address(netip.MustParseAddr("fd00::1")), "0xfd000000000000000000000000000001", 128,
			[]byte{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
		{ones(3, 8), "0xe0", 8, []byte{0xe0}},
		{ones(0, 8), "0x0", 0, []byte{0}},
		{ones(66, 128), "0xffffffffffffffffc000000000000000", 128, nil},
	} {
		if c.v.String() != c.text || c.v.Bits() != c.bits {
			t.Errorf("%v has %d bits, want %s of %d", c.v, c.v.Bits(), c.text, c.bits)
		}
		if b := c.v.bytes(); c.bytes != nil && !bytes.Equal(b, c.bytes) {
			t.Errorf("%v: bytes %x, want %x", c.v, b, c.bytes)
		}
	}
}

// sample has everything that contents can have, for the program of sampleInfo.
func sample() *Contents {
	return &Contents{
		Defaults: []Default{{"ingress.keys", act("ingress.set_keys", param("p", Number(7)), param("q", Number(0xffffffff)))}},
		Entries: []Entry{
			{Table: "ingress.ports", Keys: []Key{exact("port", Number(3))}, Action: act("NoAction")},
			{Table: "ingress.routes", Keys: []Key{lpm("dst", netip.MustParsePrefix("10.1.0.0/16"))}, Action: act("ingress.forward", param("hop", Number(2)))},
			{Table: "ingress.routes", Keys: []Key{lpm("dst", netip.MustParsePrefix("0.0.0.0/0"))}, Action: act("ingress.forward", param("hop", Number(3)))},
			{Table: "ingress.lengths", Priority: 1, Keys: []Key{ternary("value", Number(0x80), ones(1, 8)), exact("set", Number(1))}, Action: act("ingress.forward", param("hop", Number(1)))},
			{Table: "ingress.lengths", Priority: 2, Keys: []Key{ternary("value", Value{}, Value{}), exact("set", Number(1))}, Action: act("ingress.forward", param("hop", Number(0)))},
			{Table: "ingress.ranges", Priority: 1, Keys: []Key{{Field: "q", Match: Range, Value: Number(5), High: Number(9)}}, Action: act("NoAction")},
			{Table: "ingress.ranges", Priority: 2, Keys: []Key{{Field: "q", Match: Range, High: Number(0xffffffff)}}, Action: act("NoAction")},
		},
		Registers: []Register{{"ingress.limit", 1, 0xffffffff}},
		Epochs:    []Register{{"ingress.limit", 0, 7}},
		Clones:    []Clone{{1, 510}},
		Groups:    []Group{{1, []int{0, 2}}, {2, []int{1}}},
		Digests:   []Digest{{"heard"}},
	}
}

// TestEpochsAt: what the contents say of another time is what would be built for it, without building it.
func TestEpochsAt(t *testing.T) {
	s := load(t, "switch.toml")
	c := build(t, s).Contents
	if len(c.Epochs) == 0 {
		t.Fatal("the configuration has no epochs")
	}
	for _, now := range []uint64{0, options.Now, options.Now + 1<<30, options.Now + 3<<40, 1<<64 - 1<<43} {
		o := options
		o.Now = now
		want, err := Build(s, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.EpochsAt(now); !slices.Equal(got, want.Epochs) {
			t.Errorf("at %d: %v, want %v", now, got, want.Epochs)
		}
	}
	if n := testing.AllocsPerRun(10, func() { c.EpochsAt(options.Now) }); n > 200 {
		t.Errorf("%v allocations: the tables are built", n)
	}
}

// TestLearning: static stations take their room from those that are learned, an entry of heard for each port.
func TestLearning(t *testing.T) {
	bridge := func(keys string) *Switch {
		return read(t, "[switch]\nname = \"s1\"\nhash = \"crc\"\ngraph = [\"parse\", \"l2\"]\n[[port]]\nname = \"p0\"\ninterface = \"e0\"\n[[port]]\nname = \"p1\"\ninterface = \"e1\"\n[stages.l2]\n"+keys)
	}
	static := "[[stages.l2.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p0\"\n"
	for _, c := range []struct {
		keys string
		want Learning
	}{
		{"", Learning{16384, 300 * time.Second}},
		{"ageing = \"7s\"\ntable_size = 100\n", Learning{100, 7 * time.Second}},
		{"table_size = 100\n" + static, Learning{99, 300 * time.Second}},
		{static, Learning{16382, 300 * time.Second}},
	} {
		if got, ok := bridge(c.keys).Learning(); !ok || got != c.want {
			t.Errorf("%q: %+v, %v, want %+v", c.keys, got, ok, c.want)
		}
	}
	if got, ok := load(t, "router.toml").Learning(); ok {
		t.Errorf("a router learns %+v", got)
	}
}
