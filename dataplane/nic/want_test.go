package nic

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// igb is an interface as igb has it, with n of 8 queues.
func igb(n int) *Interface {
	c := channelCounts{maxCombined: 8, maxOther: 1, other: 1, combined: uint32(n)}
	return &Interface{
		Name: "eth0", Driver: "igb", MTU: 1500, counts: c,
		Queues: Queues{Receive: n, Max: 8, Channels: c.String(), Settable: true},
		RSS:    RSS{Spread: equalText(n), Size: 128, Function: "toeplitz", Key: symmetricKey(40), Transform: "none"},
		Features: map[string]Feature{
			"rx-vlan-hw-parse": {On: true}, "rx-vlan-filter": {On: true, Fixed: true}, "rx-lro": {On: true, Fixed: true},
		},
		XDP: XDP{Known: true, Native: true, Redirect: true, Transmit: true, ZeroCopy: true},
	}
}

// virtio is an interface as virtio_net has it, with up to n queues on a machine of so many processors.
func virtio(n, processors int) *Interface {
	i := named(igb(n), "virtio_net")
	i.counts.maxCombined, i.Queues.Max, i.processors = uint32(n), n, processors
	i.Features = nil
	return i
}

func named(i *Interface, driver string) *Interface {
	i.Driver = driver
	return i
}

// split returns i as a driver that splits headers from data has it.
func split(i *Interface) *Interface {
	i.HeaderSplit = On
	return i
}

// without returns i as a driver without certain settings has it.
func without(i *Interface, settings ...Setting) *Interface {
	for _, s := range settings {
		switch s {
		case Channels:
			i.Queues.Settable = false
		case Spread:
			i.RSS = RSS{}
		}
	}
	return i
}

// TestGrant: which queues a port serves, what it would change for that, and what it would lack.
func TestGrant(t *testing.T) {
	vlan := Change{"rx-vlan-hw-parse", "on", "off"}
	for _, c := range []struct {
		name    string
		i       *Interface
		c       Config
		queues  int
		changes []Change
		refused []string
	}{
		{"one queue for each worker", igb(8), Config{Workers: 2}, 2, []Change{vlan, {"channels", "combined 8", "combined 2"}}, []string{"rx-lro"}},
		{"more queues for more workers", igb(1), Config{Workers: 4}, 4, []Change{vlan, {"channels", "combined 1", "combined 4"}}, []string{"rx-lro"}},
		{"no more than there can be", igb(4), Config{Workers: 16}, 8, []Change{vlan, {"channels", "combined 4", "combined 8"}}, []string{"rx-lro"}},
		{"as many as configured", igb(8), Config{Queues: 3, Workers: 2}, 3, []Change{vlan, {"channels", "combined 8", "combined 3"}}, []string{"rx-lro"}},
		{"all, where there is no choice", without(igb(8), Channels), Config{Workers: 2}, 8, []Change{vlan}, []string{"rx-lro"}},
		{"RSS uses fewer", without(igb(8), Channels), Config{Queues: 2, Workers: 2}, 2, []Change{vlan, {"rss-spread", "equal 8", "equal 2"}}, []string{"rx-lro"}},
		{"the key is symmetric already", igb(2), Config{Workers: 2, Symmetric: true}, 2, []Change{vlan}, []string{"rx-lro"}},
		{"ice needs no other key", named(igb(2), "ice"), Config{Workers: 2, Symmetric: true}, 2, []Change{vlan, {"rss-transform", "none", "symmetric-xor"}}, []string{"rx-lro"}},
		{"no RSS to make symmetric", without(igb(1), Spread), Config{Workers: 1, Symmetric: true}, 1, []Change{vlan}, []string{"rx-lro", "rss-transform"}},
		{"a veth's ends must fit", &Interface{Driver: vethDriver, Queues: Queues{Receive: 4, Max: 4, Channels: "rx 4 tx 4"}, Features: map[string]Feature{"rx-vlan-hw-parse": {On: true}}},
			Config{Queues: 2, Workers: 1}, 2, []Change{}, nil},
		{"a veth has no more", &Interface{Driver: vethDriver, Queues: Queues{Receive: 4, Max: 8, Channels: "rx 4 tx 4"}}, Config{Queues: 8}, 8, []Change{}, []string{"channels"}},
		{"nor has igb", igb(4), Config{Queues: 9}, 9, []Change{vlan}, []string{"channels", "rx-lro"}},
		{"virtio adds a queue for each processor to XDP, unless there are too few", virtio(8, 4), Config{Workers: 2}, 5, []Change{{"channels", "combined 8", "combined 5"}}, nil},
		{"which are told if the number is given", virtio(8, 4), Config{Queues: 2}, 2, []Change{{"channels", "combined 8", "combined 2"}}, []string{"channels"}},
		{"which generic XDP does not", virtio(8, 4), Config{Workers: 2, Generic: true}, 2, []Change{{"channels", "combined 8", "combined 2"}}, nil},
		{"nor one that has too few anyhow", virtio(4, 4), Config{Workers: 2}, 2, []Change{{"channels", "combined 4", "combined 2"}}, nil},
		{"ena keeps half of the queues for XDP", named(igb(8), "ena"), Config{Workers: 6}, 4, []Change{vlan, {"channels", "combined 8", "combined 4"}}, []string{"rx-lro"}},
		{"header split goes", split(igb(1)), Config{Workers: 1}, 1, []Change{vlan, {"tcp-data-split", "on", "off"}}, []string{"rx-lro"}},
		{"a tun has no channels", &Interface{Driver: "tun", Queues: Queues{Receive: 2}}, Config{Queues: 1}, 1, []Change{}, []string{"channels"}},
	} {
		g := c.i.Grant(c.c)
		var refused []string
		for _, r := range g.Obstacles {
			refused = append(refused, r.Name)
		}
		if g.Queues != c.queues || !cmp.Equal(g.Changes, c.changes) || !cmp.Equal(refused, c.refused) {
			t.Errorf("%s: %d queues, changes %v, obstacles %v", c.name, g.Queues, g.Changes, refused)
		}
	}
}

// TestGrantMode: with mode = "generic" nothing better is promised.
func TestGrantMode(t *testing.T) {
	if g := igb(1).Grant(Config{Workers: 1}); !g.ZeroCopy || g.Mode() != "native, zero-copy" {
		t.Errorf("%+v", g)
	}
	if g := igb(1).Grant(Config{Workers: 1, Generic: true}); g.Native || g.ZeroCopy || g.FrameSize != 0 || g.Mode() != "generic, copy" || g.WhyNot == "" {
		t.Errorf("%+v", g)
	}
}

// TestGrantQueues: more queues than there are name what there can be, and by what.
func TestGrantQueues(t *testing.T) {
	for _, c := range []struct {
		settable bool
		most     int
		want     string
	}{
		{false, 4, "3 queues are configured and p0 has 2: the port does not open; set queues = 2, or give the interface more (ethtool -L; it can have 4)"},
		{false, 2, "3 queues are configured and there can be 2: the port does not open; set queues = 2"},
		{true, 2, "3 queues are configured and there can be 2: the port does not open; set queues = 2"},
	} {
		i := igb(2)
		i.Name, i.Queues.Settable, i.Queues.Max = "p0", c.settable, c.most
		g := i.Grant(Config{Workers: 1, Queues: 3})
		if !slices.ContainsFunc(g.Obstacles, func(r Refusal) bool { return fmt.Sprint(r) == fmt.Sprint(Refusal{string(Channels), c.want}) }) {
			t.Errorf("%+v: %v", c, g.Obstacles)
		}
	}
}

// TestServing: the counts for n receive queues, by what a driver counts.
func TestServing(t *testing.T) {
	for _, c := range []struct {
		now  channelCounts
		n    int
		want string
	}{
		{channelCounts{maxCombined: 8, combined: 8}, 2, "combined 2"},
		{channelCounts{maxCombined: 8, maxRx: 8, combined: 4, rx: 2}, 4, "combined 4"},
		{channelCounts{maxRx: 8, maxTx: 8, rx: 8, tx: 8}, 2, "rx 2 tx 2"},
		{channelCounts{maxRx: 8, maxTx: 8, rx: 1, tx: 1}, 4, "rx 4 tx 4"},
		{channelCounts{maxRx: 8, maxTx: 2, rx: 1, tx: 1}, 4, "rx 4 tx 2"},
	} {
		got := c.now.serving(c.n).String()
		if got != c.want {
			t.Errorf("%v for %d: %s, want %s", c.now, c.n, got, c.want)
		}
		if back, err := c.now.with(got); err != nil || back != c.now.serving(c.n) {
			t.Errorf("%s is read as %v, %v", got, back, err)
		}
	}
}

// TestTable: a table is written short where it can be, and read back.
func TestTable(t *testing.T) {
	for _, c := range []struct {
		table []uint32
		text  string
	}{
		{[]uint32{0, 1, 2, 3, 0, 1, 2, 3}, "equal 4"},
		{[]uint32{0, 0, 0}, "equal 1"},
		{[]uint32{0, 1, 1, 0}, "0*1 1*2 0*1"},
		{[]uint32{2, 3}, "2*1 3*1"},
	} {
		if got := formatTable(c.table); got != c.text {
			t.Errorf("%v is written %q, want %q", c.table, got, c.text)
		}
		if got, err := parseTable(c.text, len(c.table)); err != nil || !cmp.Equal(got, c.table) {
			t.Errorf("%q is read as %v, %v", c.text, got, err)
		}
	}
	for _, bad := range []string{"equal 0", "equal x", "1*1 2*1 x*1", "1*1 2*x", "1 2 3", "1*1 2*1"} {
		if got, err := parseTable(bad, 3); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}
