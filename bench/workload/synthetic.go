package workload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Synthetic describes a trace whose flow sizes have a heavy tail: a Pareto
// distribution, P(size > x) = (m/x)^Shape, cut at Largest, whose scale m is
// chosen so that the sizes add up to Packets. All flows last the whole trace:
// the packets come in a random order, at a constant rate.
type Synthetic struct {
	Packets int
	Flows   int // at most Packets
	// Shape is the tail's exponent, above 0: the smaller, the heavier the tail. 0
	// means 1.05, which gives the largest hundredth of the flows about two
	// thirds of the packets, as backbone traces have.
	Shape float64
	// Largest bounds a flow's share of the packets, in (0, 1]; 0 means 0.02.
	Largest float64
	// Seconds is the duration; 0 means 1.
	Seconds float64
	// Bursts is the share of the flows, 0 to 1, of which each burstPackets packets come together, at the time of a random one
	// of them.
	Bursts float64
	Seed   uint64
}

// Members of the hash family, so that keys, ids and lengths do not depend on
// each other.
const (
	keySeed = 0x6b65_7900 + iota
	idSeed
	lengthSeed
	orderSeed
)

// frameLengths are packet lengths as a backbone has them: many small, many
// full, some between; drawn with equal probability.
var frameLengths = [16]uint32{60, 60, 60, 60, 60, 66, 66, 66, 120, 350, 570, 900, 1450, 1514, 1514, 1514}

func (c Synthetic) withDefaults() (Synthetic, error) {
	if c.Shape == 0 {
		c.Shape = 1.05
	}
	if c.Largest == 0 {
		c.Largest = 0.02
	}
	if c.Seconds == 0 {
		c.Seconds = 1
	}
	var errs []error
	if c.Flows < 1 || c.Packets < c.Flows || uint64(c.Packets) > math.MaxUint32 {
		errs = append(errs, fmt.Errorf("%d packets of %d flows: need a flow, a packet for each, and at most %d packets", c.Packets, c.Flows, uint32(math.MaxUint32)))
	}
	if !(c.Shape > 0) || !(c.Largest > 0 && c.Largest <= 1) || !(c.Seconds > 0) {
		errs = append(errs, fmt.Errorf("shape %g, largest %g, %g s: choose a shape and a duration above 0, and a share in (0, 1]", c.Shape, c.Largest, c.Seconds))
	}
	return c, errors.Join(errs...)
}

// Trace draws the trace. It takes 4 bytes per packet and 64 per flow.
func (c Synthetic) Trace() (*Trace, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	sizes := c.sizes()
	t := &Trace{
		Name: fmt.Sprintf("synthetic: %d packets of %d flows in %g s, Pareto sizes of shape %g cut at %g of the packets, seed %d",
			c.Packets, c.Flows, c.Seconds, c.Shape, c.Largest, c.Seed),
		Flows:      make([]Flow, c.Flows),
		DurationNs: int64(c.Seconds * 1e9),
		order:      make([]uint32, 0, c.Packets),
		draw:       &c,
	}
	for f, size := range sizes {
		key := c.key(uint64(f))
		t.Flows[f] = Flow{Key: key, Hash: hashKey(key), Packets: uint64(size)}
		for range size {
			t.order = append(t.order, uint32(f))
		}
	}
	r := rand.New(rand.NewPCG(c.Seed, orderSeed))
	r.Shuffle(len(t.order), func(i, j int) { t.order[i], t.order[j] = t.order[j], t.order[i] })
	c.burst(t.order, r)
	for i, f := range t.order {
		t.Flows[f].Bytes += uint64(c.length(i))
	}
	return t, nil
}

// burstPackets is how many packets a burst has at most.
const burstPackets = 64

// burst moves packets of some flows together, in the order of time.
func (c *Synthetic) burst(order []uint32, r *rand.Rand) {
	if c.Bursts <= 0 {
		return
	}
	chosen := make([]bool, c.Flows)
	for f := range chosen {
		chosen[f] = r.Float64() < c.Bursts
	}
	left := make([]uint32, c.Flows)
	for _, f := range order {
		left[f]++
	}
	// Of each burst, how many packets it has, how many are yet to come, and before how many of these it is sent.
	type burst struct{ packets, left, at uint16 }
	bursts := make([]burst, c.Flows)
	var out []uint32
	for _, f := range order {
		if !chosen[f] {
			out = append(out, f)
			continue
		}
		b := &bursts[f]
		if b.left == 0 {
			b.packets = uint16(min(left[f], burstPackets))
			b.left, b.at = b.packets, uint16(1+r.IntN(int(b.packets)))
			left[f] -= uint32(b.packets)
		}
		if b.left == b.at {
			for range b.packets {
				out = append(out, f)
			}
		}
		b.left--
	}
	copy(order, out)
}

// sizes returns the flows' sizes, at least 1 each, which add up to Packets:
// the quantiles of the distribution at the middle of as many equal steps, so
// that the tail does not hang on a lucky draw. The scale is found by halving.
func (c *Synthetic) sizes() []int {
	n := float64(c.Flows)
	cut := max(c.Largest*float64(c.Packets), 1)
	size := func(scale float64, f int) float64 {
		x := scale * math.Pow((float64(f)+0.5)/n, -1/c.Shape)
		return min(max(x, 1), cut)
	}
	sum := func(scale float64) (s float64) {
		for f := range c.Flows {
			s += math.Floor(size(scale, f))
		}
		return s
	}
	low, high := 0.0, 1.0
	for sum(high) < float64(c.Packets) && high < float64(c.Packets) {
		high *= 2
	}
	for range 60 {
		if mid := (low + high) / 2; sum(mid) <= float64(c.Packets) {
			low = mid
		} else {
			high = mid
		}
	}
	sizes, rest := make([]int, c.Flows), c.Packets
	for f := range sizes {
		sizes[f] = int(size(low, f))
		rest -= sizes[f]
	}
	// What rounding left over, and what the cut did not allow, is spread evenly.
	for f := range sizes {
		share := rest / (c.Flows - f)
		sizes[f] += share
		rest -= share
	}
	return sizes
}

// key makes an IPv4 5-tuple: half of the flows TCP, half UDP, all different.
func (c *Synthetic) key(f uint64) packet.FlowKey {
	h := hash.Uint64x2(c.Seed, keySeed, f)
	k := packet.FlowKey{Version: 4, Proto: 6, SrcPort: uint16(h), DstPort: uint16(h >> 16)}
	if h>>63 != 0 {
		k.Proto = 17
	}
	// The source address alone distinguishes the flows, by a mixing that is one to
	// one: an odd factor.
	binary.BigEndian.PutUint32(k.Src[:4], uint32(f)*0x9e3779b1)
	binary.BigEndian.PutUint32(k.Dst[:4], uint32(h>>32))
	return k
}

func (c *Synthetic) packet(i int, flow uint32) Packet {
	return Packet{
		ID:     hash.Uint64x2(c.Seed, idSeed, uint64(i)),
		TimeNs: int64(float64(i) * c.Seconds * 1e9 / float64(c.Packets)),
		Flow:   flow,
		Bytes:  c.length(i),
	}
}

func (c *Synthetic) length(i int) uint32 {
	return frameLengths[hash.Uint64x2(c.Seed, lengthSeed, uint64(i))%uint64(len(frameLengths))]
}
