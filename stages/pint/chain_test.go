package pint

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
)

const largeFrame = 2014

// TestTransparent takes frames of all kinds through chains: they arrive as they
// were sent, and inside the chain each has its shim.
func TestTransparent(t *testing.T) {
	for _, hops := range []int{2, 3, 5} {
		n := newChain(t, hops, DefaultConfig(), largeFrame)
		r := rand.New(rand.NewPCG(1, uint64(hops)))
		var frames [][]byte
		for range 3000 {
			frames = append(frames, anyFrame(r))
		}
		at := frames
		for i := range hops {
			at = n.at(i, at, func() int64 { return 500 })
			for k, f := range at {
				if i == hops-1 {
					break
				}
				end := len(f) - len(frames[k])
				if end != header.ShimLen(2) || !bytes.HasSuffix(f, frames[k][22:]) || !bytes.Equal(f[:12], frames[k][:12]) {
					t.Fatalf("hop %d: % x\nof % x", i+1, f[:60], frames[k][:60])
				}
			}
		}
		for k := range frames {
			if !bytes.Equal(at[k], frames[k]) {
				t.Fatalf("%d hops: sent % x\nreceived % x", hops, frames[k], at[k])
			}
		}
		for i, node := range n.nodes {
			checkSum(t, node.module, 3000)
			if c := counts(node.module); i > 0 && i < hops-1 && c["transited_packets_total"] != 3000 {
				t.Errorf("hop %d: %v", i+1, c)
			}
		}
		c := counts(n.sink())
		if c["sunk_packets_total"] != 3000 || c["records_total"] != 3000 {
			t.Errorf("sink: %v", c)
		}
		if c := counts(n.nodes[0].module); c["sourced_packets_total"] != 3000 {
			t.Errorf("source: %v", c)
		}
	}
}

// TestDecoded: the sink finds the path of each flow, the latencies of the hops
// as the switches have them, and the use of the links.
func TestDecoded(t *testing.T) {
	for _, f := range []hash.Family{hash.XX, hash.CRC} {
		t.Run(f.String(), func(t *testing.T) { testDecoded(t, f) })
	}
}

func testDecoded(t *testing.T, f hash.Family) {
	const hops, packets, flows = 5, 400, 8
	n := newChainOf(t, f, hops, DefaultConfig(), largeFrame)
	r := rand.New(rand.NewPCG(2, 2))
	latency := func(hop int) int64 { return int64(float64(1000*hop) * math.Exp(r.NormFloat64()/4)) }
	var frames [][]byte
	for i := range packets * flows {
		frames = append(frames, ethernet(0x0800, ipv4(64, 0x4000, 6, tcp(1000+i%flows, 80, uint32(i), random(r, 100)))))
	}
	n.through(frames, latency)
	paths := n.paths()
	if len(paths) != flows {
		t.Fatalf("%d paths: %+v", len(paths), paths)
	}
	for _, p := range paths {
		if !p.Certain || !slices.Equal(p.numbers, []uint64{1, 2, 3, 4, 5}) || p.Packets != packets {
			t.Errorf("path %+v", p)
		}
	}
	for i := range flows {
		flow := fmt.Sprintf("10.0.0.1:%d > 10.0.0.2:80 tcp", 1000+i)
		answer, err := n.ask(n.sink(), query.Question{Kind: query.KindLatency, Flow: flow})
		if err != nil {
			t.Fatal(err)
		}
		list := answer.(*query.LatencyAnswer).Hops
		if len(list) != hops {
			t.Fatalf("flow %d: %+v", i, list)
		}
		for k, h := range list {
			measured := n.nodes[k].measured(t, pint.HopLatency)
			// About 75 samples of a lognormal of sigma 1/4: the median's standard error
			// is 1.25*0.25/sqrt(75) = 3.6 %; 25 % is beyond 6 of it, 40 answers: 1e-7.
			if h.Hop != k+1 || h.Switch != fmt.Sprint(k+1) || math.Abs(h.Quantiles[0].Value/measured.Median-1) > 0.25 || h.Samples < 30 {
				t.Errorf("flow %d: %+v, measured %+v", i, h, measured)
			}
			if measured.Packets != packets*flows {
				t.Errorf("hop %d measured %d packets", k+1, measured.Packets)
			}
		}
	}
	answer, err := n.ask(n.sink(), query.Question{Kind: query.KindLatency})
	if err != nil {
		t.Fatal(err)
	}
	pools := answer.(*query.LatencyAnswer).Hops
	if len(pools) != hops {
		t.Fatalf("%d pools: %+v", len(pools), pools)
	}
	for i, h := range pools {
		measured, median := n.nodes[i].measured(t, pint.HopLatency), h.Quantiles[0]
		// 600 samples: the standard error is 1.3 %, and 10 % beyond 7 of it.
		if h.Switch != fmt.Sprint(i+1) || h.Flows != flows ||
			math.Abs(median.Value/measured.Median-1) > 0.1 || measured.Median < median.Low || measured.Median > median.High {
			t.Errorf("switch %d: %+v, measured %+v", i+1, h, measured)
		}
	}
	answer, err = n.ask(n.sink(), query.Question{Kind: query.KindCongestion, Limit: 3})
	if c, ok := answer.(*query.CongestionAnswer); !ok || len(c.Flows) != 3 || c.Value != "egress_utilisation" || c.Flows[0].Samples == 0 || c.Flows[0].Median.Value <= 0 {
		t.Errorf("congestion %+v, %v", answer, err)
	}
}

// measured is the one port's that packets left by.
func (n *node) measured(t *testing.T, v pint.Value) Measured {
	t.Helper()
	n.stage.Tick(0)
	list := n.module.Measured(v)
	if len(list) != 1 || list[0].Port != "p1" {
		t.Fatalf("measured %+v", list)
	}
	return list[0]
}

// TestReroute: from one packet to the next a flow passes another switch, and
// the sink notices.
func TestReroute(t *testing.T) {
	n := newChain(t, 5, DefaultConfig(), largeFrame)
	r := rand.New(rand.NewPCG(3, 3))
	send := func(packets int) {
		var frames [][]byte
		for range packets {
			frames = append(frames, ethernet(0x0800, ipv4(64, 0x4000, 6, tcp(1, 2, r.Uint32(), random(r, 30)))))
		}
		n.through(frames, func(int) int64 { return 1000 })
	}
	send(60)
	if p := n.paths(); len(p) != 1 || !p[0].Certain || p[0].Changes != 0 {
		t.Fatalf("before: %+v", p)
	}
	n.nodes[2] = newNode(t, 33, DefaultConfig(), largeFrame)
	send(60)
	if p := n.paths(); len(p) != 1 || !p[0].Certain || p[0].Changes != 1 || !slices.Equal(p[0].numbers, []uint64{1, 2, 33, 4, 5}) {
		t.Errorf("after: %+v", p)
	}
}

// TestFamilies: both carriers decode paths of hashed values in both families of hashes, and
// a switch whose plan has another family than itself is refused with the remedy.
func TestFamilies(t *testing.T) {
	const hops, packets = 5, 300
	queries := func(c pintplan.Config) pintplan.Config {
		c.Bits, c.Queries = 16, slices.Clone(pintplan.Default().Queries)
		c.Queries[0].Static = &pint.StaticQuery{Code: pint.Hashed, Layers: encode.Hybrid(hops)}
		return c
	}
	for _, f := range []hash.Family{hash.XX, hash.CRC} {
		for _, carrier := range []string{pintplan.CarrierShim, pintplan.CarrierIPID} {
			c := DefaultConfig()
			c.Plan = savePlan(t, queries(pintplan.Config{ID: 6, Seed: 5, Hash: f, Carrier: carrier}))
			c.Switches = []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
			n := newChainOf(t, f, hops, c, largeFrame)
			n.ttl = carrier == pintplan.CarrierIPID
			r := rand.New(rand.NewPCG(9, 9))
			var frames [][]byte
			for range packets {
				frames = append(frames, ethernet(0x0800, ipv4(64, 0x4000, 6, tcp(1, 2, r.Uint32(), random(r, 30)))))
			}
			n.through(frames, func(int) int64 { return 1000 })
			if p := n.paths(); len(p) != 1 || !p[0].Certain || p[0].Packets != packets || !slices.Equal(p[0].numbers, []uint64{1, 2, 3, 4, 5}) {
				t.Errorf("%v, carrier %s: %+v", f, carrier, p)
			}
			other := hash.XX + hash.CRC - f
			_, err := New(c, pipeline.Env{ID: 1, Hash: other})
			if want := fmt.Sprintf("plan 6 has hash %q, and the switch has %q: set hash = %q in [switch] of all switches, or write hash = %q in the plan's file", f, other, f, other); err == nil || err.Error() != want {
				t.Errorf("a plan of %v in a switch of %v: %v", f, other, err)
			}
			if plans, err := c.Plans(f); err != nil || len(plans) != 1 || plans[0].Hash != f {
				t.Errorf("plans %v, %v", plans, err)
			}
		}
		c := DefaultConfig() // the built-in plan follows the switch
		if plans, err := c.Plans(f); err != nil || len(plans) != 1 || plans[0].Hash != f {
			t.Errorf("plans %v, %v", plans, err)
		}
	}
}

// TestEdge: a plan's edge is in every shim on the path, whatever writes the digest, and changes nothing of what is decoded.
func TestEdge(t *testing.T) {
	for _, x := range []struct{ bits, edgeBits, length int }{{16, 8, 3}, {16, 16, 4}, {8, 3, 2}, {32, 32, 8}, {48, 12, 8}} {
		for _, loops := range []bool{false, true} { // a plan that looks for loops has its digests written packet by packet
			c := DefaultConfig()
			q := []pint.Query{{Name: "path", Value: pint.SwitchID, Aggregation: pint.Path, Bits: 8, Frequency: 1, Static: &pint.StaticQuery{Code: pint.Linear, ValueBits: 10, Layers: encode.Dense(pint.Linear)}}}
			if loops {
				if x.bits == 8 {
					continue
				}
				q = append(q, pint.Query{Name: "loops", Value: pint.SwitchID, Aggregation: pint.Loop, Bits: 8, Frequency: 1, Threshold: 3})
			}
			c.Plan = savePlan(t, pintplan.Config{ID: 8, Seed: 3, Bits: x.bits, EdgeBits: x.edgeBits, Queries: q})
			const hops, flows, packets = 4, 3, 60
			n := newChain(t, hops, c, largeFrame)
			r := rand.New(rand.NewPCG(8, uint64(x.edgeBits)))
			var frames [][]byte
			for i := range flows * packets {
				frames = append(frames, ethernet(0x0800, ipv4(64, 0x4000, 6, tcp(1000+i%flows, 80, uint32(i), random(r, 100)))))
			}
			at := frames
			for i := range hops {
				at = n.at(i, at, func() int64 { return 500 })
				for _, f := range at {
					if i == hops-1 {
						break
					}
					if s := header.ShimAt(f, header.EthernetLen); s == nil || s.DigestLen() != x.length || s.Edge((x.edgeBits+7)/8) != 1 {
						t.Fatalf("%+v, loops %v, hop %d: % x", x, loops, i+1, f[:30])
					}
				}
			}
			for k := range frames {
				if !bytes.Equal(at[k], frames[k]) {
					t.Fatalf("%+v: sent % x\nreceived % x", x, frames[k], at[k])
				}
			}
			paths := n.paths()
			for _, p := range paths {
				if !p.Certain || !slices.Equal(p.numbers, []uint64{1, 2, 3, 4}) || p.Packets != packets {
					t.Errorf("%+v, loops %v: path %+v", x, loops, p)
				}
			}
			if len(paths) != flows {
				t.Errorf("%+v: %d paths", x, len(paths))
			}
		}
	}
	c := DefaultConfig()
	c.Plan = savePlan(t, pintplan.Config{ID: 8, Seed: 3, Bits: 16, EdgeBits: 4, Queries: pintplan.Default().Queries})
	if _, err := New(c, pipeline.Env{Name: "s", ID: 16, Hash: hash.XX}); err == nil {
		t.Error("a switch id of 5 bits is taken for an edge of 4")
	}
}
