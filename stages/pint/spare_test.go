package pint

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline/header"
)

// sparingConfig gives digests to the first 12 packets of a flow, and then to 1 of 8.
func sparingConfig() Config {
	c := DefaultConfig()
	c.FirstPackets, c.ThenOneOf = 12, 8
	return c
}

// TestSpared: the first packets of each flow carry digests, of the others one of so many by chance, all arrive as they were sent, and the sink finds the
// paths of all flows. Others are counted as spared, and by switches behind the source as bare.
func TestSpared(t *testing.T) {
	const hops, flows, packets = 4, 20, 400
	c := sparingConfig()
	n := newChain(t, hops, c, largeFrame)
	r := rand.New(rand.NewPCG(7, 7))
	var frames [][]byte
	for i := range packets * flows {
		frames = append(frames, ethernet(0x0800, ipv4(64, 0x4000, 6, tcp(2000+i%flows, 80, uint32(i), random(r, 40)))))
	}
	first := n.at(0, frames, still)
	carried := 0
	for i, f := range first {
		switch shim := len(f) - len(frames[i]); {
		case shim == header.ShimLen(2):
			carried++
		case shim != 0:
			t.Fatalf("packet %d grows by %d bytes", i, shim)
		case i/flows < c.FirstPackets:
			t.Errorf("packet %d of flow %d is spared", i/flows, i%flows)
		}
	}
	rest := float64(flows * (packets - c.FirstPackets))
	mean, deviation := rest/float64(c.ThenOneOf), math.Sqrt(rest/float64(c.ThenOneOf)*(1-1/float64(c.ThenOneOf)))
	if got := float64(carried - flows*c.FirstPackets); math.Abs(got-mean) > 6*deviation { // a chance of 2e-9
		t.Errorf("%g packets behind the first carry digests, of %g", got, mean)
	}
	checkSum(t, n.nodes[0].module, packets*flows)
	if got := counts(n.nodes[0].module); got["left_packets_total spared"] != uint64(packets*flows-carried) || got["sourced_packets_total"] != uint64(carried) {
		t.Errorf("%d carry digests: %v", carried, got)
	}
	at := first
	for i := 1; i < hops; i++ {
		at = n.at(i, at, still)
		checkSum(t, n.nodes[i].module, packets*flows)
		if got := counts(n.nodes[i].module); got["left_packets_total bare"] != uint64(packets*flows-carried) {
			t.Errorf("hop %d: %v", i+1, got)
		}
	}
	for i := range at {
		if !bytes.Equal(at[i], frames[i]) {
			t.Fatalf("packet %d: sent % x\nreceived % x", i, frames[i], at[i])
		}
	}
	paths := n.paths()
	if len(paths) != flows {
		t.Fatalf("%d paths", len(paths))
	}
	for _, p := range paths {
		if !p.Certain || !slices.Equal(p.numbers, []uint64{1, 2, 3, 4}) {
			t.Errorf("path %+v", p)
		}
	}
}

// TestSparingCells: a flow begins anew after a while, and where another one takes its cell.
func TestSparingCells(t *testing.T) {
	s := newSparing(&Config{FirstPackets: 3, ThenOneOf: maxOneOf})
	const flow, other = 5, 5 + 9*sparedFlows
	id := uint64(0)
	carried := func(flow uint32, now int64) (n int) {
		for range 10 {
			for id++; id*0x9e3779b97f4a7c15>>40&s.mask == 0; id++ {
			}
			if s.carries(flow, id, now) {
				n++
			}
		}
		return n
	}
	for i, step := range []struct {
		flow uint32
		now  int64
		want int
	}{{flow, 0, 3}, {flow, 1 << (spareShift - 1), 0}, {other, 0, 3}, {other, 0, 0}, {flow, 0, 3}, {flow, 1 << spareShift, 3}, {flow, 1<<spareShift + 1, 0}} {
		if got := carried(step.flow, step.now); got != step.want {
			t.Errorf("step %d: %d packets, want %d", i, got, step.want)
		}
	}
	if newSparing(&Config{FirstPackets: 3, ThenOneOf: 1}) != nil {
		t.Error("packets are spared where all carry")
	}
}

// TestSparedHostShim: a host's frame that looks like one of the network's is wrapped, whether its flow is to be spared or not.
func TestSparedHostShim(t *testing.T) {
	c := DefaultConfig()
	c.FirstPackets, c.ThenOneOf = 0, maxOneOf
	n := newChain(t, 2, c, largeFrame)
	shimmed := newChain(t, 2, DefaultConfig(), largeFrame).at(0, [][]byte{aFrame(100)}, still)[0]
	var frames [][]byte
	for range 50 {
		frames = append(frames, shimmed)
	}
	for i, f := range n.through(frames, func(int) int64 { return 500 }) {
		if !bytes.Equal(f, shimmed) {
			t.Fatalf("frame %d: % x, sent % x", i, f, shimmed)
		}
	}
	if got := counts(n.nodes[0].module); got["sourced_packets_total"] != 50 {
		t.Errorf("%v", got)
	}
}

// TestSparingFaults: what cannot be is said by its key.
func TestSparingFaults(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"first_packets: 256 is out of range":   func(c *Config) { c.FirstPackets = 256 },
		"first_packets: -1 is out of range":    func(c *Config) { c.FirstPackets = -1 },
		"then_one_of: 12: choose a power":      func(c *Config) { c.ThenOneOf = 12 },
		"then_one_of: 0: choose a power":       func(c *Config) { c.ThenOneOf = 0 },
		"then_one_of: 131072: choose a power":  func(c *Config) { c.ThenOneOf = 2 * maxOneOf },
		"then_one_of: the stages lds need the": func(c *Config) { c.IntervalBits = 30 },
	} {
		c := sparingConfig()
		change(&c)
		if err := c.Validate(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
