package workload

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// OnOff describes a trace of flows that come and go, and send in bursts: a flow
// begins at a random time, lasts for a random share of what is left of the trace, and is
// silent between its bursts.
type OnOff struct {
	Packets int // of the trace, at least
	Seconds float64
	// Sizes are distributions of flows' bytes, as their quantiles: a flow draws one
	// of them.
	Sizes []func(share float64) float64
	// Largest bounds a flow's share of the packets; 0 means 0.02.
	Largest float64
	// Period is the mean time from one burst of a flow to the next, and On the mean
	// length of a burst, in seconds; 0 means 0.2 and 0.01.
	Period, On float64
	Seed       uint64
}

// fullFrame is how many bytes of a flow a packet carries.
const fullFrame = 1460

// Trace draws the trace. It takes 32 bytes per packet.
func (c OnOff) Trace() (*Trace, error) {
	if c.Largest == 0 {
		c.Largest = 0.02
	}
	if c.Period == 0 {
		c.Period = 0.2
	}
	if c.On == 0 {
		c.On = 0.01
	}
	if c.Packets < 1 || len(c.Sizes) == 0 || !(c.Seconds > 0) || !(c.Period > 0) || !(c.On > 0) || !(c.Largest > 0) {
		return nil, fmt.Errorf("%d packets, %d distributions of sizes, %g s, bursts of %g s every %g s: all must be above 0", c.Packets, len(c.Sizes), c.Seconds, c.On, c.Period)
	}
	t := &Trace{DurationNs: int64(c.Seconds * 1e9), packets: make([]Packet, 0, c.Packets)}
	r := rand.New(rand.NewPCG(c.Seed, 'o'))
	draw := Synthetic{Seed: c.Seed}
	most := max(c.Largest*float64(c.Packets), 1)
	for len(t.packets) < c.Packets {
		size := c.Sizes[r.IntN(len(c.Sizes))](r.Float64())
		n := int(min(math.Ceil(size/fullFrame), most))
		key := draw.key(uint64(len(t.Flows)))
		f := Flow{Key: key, Hash: hashKey(key), Packets: uint64(n)}
		for _, at := range c.times(n, r) {
			p := Packet{ID: hash.Uint64x2(c.Seed, idSeed, uint64(len(t.packets))), TimeNs: int64(at * 1e9), Flow: uint32(len(t.Flows)), Bytes: draw.length(len(t.packets))}
			f.Bytes += uint64(p.Bytes)
			t.packets = append(t.packets, p)
		}
		t.Flows = append(t.Flows, f)
	}
	slices.SortStableFunc(t.packets, func(a, b Packet) int { return cmp.Compare(a.TimeNs, b.TimeNs) })
	t.Name = fmt.Sprintf("on/off: %d packets of %d flows in %g s, bursts of %g ms every %g ms, seed %d",
		len(t.packets), len(t.Flows), c.Seconds, c.On*1e3, c.Period*1e3, c.Seed)
	return t, nil
}

// times are when the packets of a flow come: in bursts, at random times of its life.
func (c *OnOff) times(n int, r *rand.Rand) []float64 {
	begin := c.Seconds * r.Float64()
	life := (c.Seconds - begin) * r.Float64()
	type burst struct{ at, length, share float64 }
	var bursts []burst
	for at := begin; at <= begin+life; at += c.Period * r.ExpFloat64() {
		b := burst{at: at, length: c.On * r.ExpFloat64(), share: r.ExpFloat64()}
		if len(bursts) > 0 {
			b.share += bursts[len(bursts)-1].share // summed up, to draw from
		}
		bursts = append(bursts, b)
	}
	all := make([]float64, n)
	for i := range all {
		u := r.Float64() * bursts[len(bursts)-1].share
		k, _ := slices.BinarySearchFunc(bursts, u, func(b burst, u float64) int { return cmp.Compare(b.share, u) })
		b := bursts[min(k, len(bursts)-1)]
		all[i] = min(b.at+b.length*r.Float64(), c.Seconds*(1-1e-9))
	}
	return all
}
