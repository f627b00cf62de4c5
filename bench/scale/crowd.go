package scale

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weirswitch/weir/bench/netsim/transport"

	sketch "github.com/weirswitch/weir/telemetry/disketch"
)

// crowd is a network of pathSwitches switches, each of which sees about as many flows in an epoch as the switch of the second, of the same sizes, by
// fragments of a kind. Flows pass hops of them.
type crowd struct {
	kind    sketch.Kind
	records []*sketch.Record // by switch
	paths   map[uint64][]uint64
	flows   []uint64
	counts  []float64
	packets float64 // that a switch sees on average
}

// newCrowd makes one of so many flows at a switch.
func newCrowd(kind sketch.Kind, memory int, flows int, sizes [2]*transport.Distribution, seed uint64) (*crowd, error) {
	r := rand.New(rand.NewPCG(seed, 'c'))
	c := &crowd{kind: kind, paths: map[uint64][]uint64{}}
	var counters []*sketch.Counter
	for sw := range uint64(pathSwitches) {
		f, err := sketch.NewFragment(sketch.Config{ID: sketch.ID{Switch: 1 + sw}, Kind: kind, Memory: memory, Epochs: epochBits, Seed: seed})
		if err != nil {
			return nil, err
		}
		counter, err := f.NewCounter()
		if err != nil {
			return nil, err
		}
		counter.Begin(f.Begin(1<<29), 0)
		counters = append(counters, counter)
	}
	sent := [2]float64{}
	for range flows * pathSwitches / hops {
		which := 0
		if sent[1] < sent[0] {
			which = 1
		}
		size := sizes[which].Quantile(r.Float64())
		sent[which] += size
		n := int64(size/payload) + 1
		n += n / 2 // acknowledgements, as in the second
		flow := uint64(r.Uint32())
		if c.paths[flow] != nil {
			continue
		}
		var path []uint64
		for len(path) < hops {
			if sw := 1 + r.Uint64N(pathSwitches); !slices.Contains(path, sw) {
				path = append(path, sw)
				counters[sw-1].Add(flow, n, false)
			}
		}
		c.paths[flow] = path
		c.flows, c.counts = append(c.flows, flow), append(c.counts, float64(n))
		c.packets += float64(n) * hops / pathSwitches
	}
	for _, counter := range counters {
		x := counter.Record()
		x.Packets, x.Seen = x.Value, x.Value // Add took a flow's for one
		c.records = append(c.records, x)
	}
	return c, nil
}

// crowdErrors are how answers about the flows of a crowd err.
type crowdErrors struct {
	Bytes   float64 // of a record, mean
	Rows    float64 // root of the mean squared error of flows, by Rows
	Checked float64 // the same by the default composition
	Small   float64 // of flows of 10 packets and less
	Large   float64 // relative, of flows of 1,000 packets and more
	Heavy   float64 // 1 less the F1 of flows of a share of the packets of a switch, mean over heavyShares
	Bias    float64 // mean relative error of the large ones
	Outside float64 // share of the flows outside of their bounds of 95 %
	Width   float64 // of the bounds of large flows, relative, mean
}

// errors asks about all flows, by records that were rounded.
func (c *crowd) errors(at sketch.Rounding) (e crowdErrors, err error) {
	records, err := c.decode(at, &e)
	if err != nil {
		return e, err
	}
	q := sketch.Query{From: 1 << 29, To: 1<<29 + 1}
	paths := sketch.PathFunc(func(flow uint64) []uint64 { return c.paths[flow] })
	asker := records.Asker()
	asker.Learn(q, c.flows, paths)
	byRows := q
	byRows.Composition = sketch.Rows
	small, large, heavy := 0., 0., newHeavyCounts(c.packets)
	for i, flow := range c.flows {
		truth := c.counts[i]
		a := asker.Frequency(q, flow, paths)
		off := a.Value - truth
		e.Checked += off * off
		rows := asker.Frequency(byRows, flow, paths).Value - truth
		e.Rows += rows * rows
		if truth < a.Low || truth > a.High {
			e.Outside++
		}
		if truth <= 10 {
			e.Small += off * off
			small++
		}
		if truth >= 1000 {
			e.Large += off * off / (truth * truth)
			e.Bias += off / truth
			e.Width += (a.High - a.Low) / truth
			large++
		}
		heavy.add(truth, a.Value)
	}
	n := float64(len(c.flows))
	e.Rows, e.Checked, e.Small, e.Large = math.Sqrt(e.Rows/n), math.Sqrt(e.Checked/n), math.Sqrt(e.Small/small), math.Sqrt(e.Large/large)
	e.Bias, e.Width, e.Outside = e.Bias/large, e.Width/large, e.Outside/n
	e.Heavy = heavy.wrong()
	return e, nil
}

// heavyCounts compares which flows are heavy with which are by estimates, at thresholds from half of heavyShare to twice it. At a single one, one or two flows in 400 are wrong, and
// chance says which records have them.
type heavyCounts []struct{ least, found, heavy, right float64 }

const (
	heavyShares  = 33
	heavyOctaves = 2
)

func newHeavyCounts(packets float64) heavyCounts {
	h := make(heavyCounts, heavyShares)
	for i := range h {
		h[i].least = packets * heavyShare * math.Exp2(heavyOctaves*(float64(i)/(heavyShares-1)-0.5))
	}
	return h
}

func (h heavyCounts) add(truth, estimate float64) {
	for i := range h {
		x := &h[i]
		if estimate >= x.least {
			x.found++
		}
		if truth >= x.least {
			x.heavy++
			if estimate >= x.least {
				x.right++
			}
		}
	}
}

// wrong is 1 less F1, mean over the thresholds.
func (h heavyCounts) wrong() (sum float64) {
	for i := range h {
		sum += (1 - 2*h[i].right/max(h[i].found+h[i].heavy, 1)) / heavyShares
	}
	return sum
}

// decode are the records as a collector has them.
func (c *crowd) decode(at sketch.Rounding, e *crowdErrors) (*sketch.Records, error) {
	records := new(sketch.Records)
	for _, r := range c.records {
		r.Rounding = at
		b, err := r.AppendBinary(nil)
		if err != nil {
			return nil, err
		}
		e.Bytes += float64(len(b)) / pathSwitches
		x, err := sketch.Decode(b, r.Hash)
		if err != nil {
			return nil, err
		}
		if err := records.AddPrepared(x); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// entropyKept is how many of the heaviest flows of each level of UnivMon the entropy is estimated from, as a query of the default limits does.
const entropyKept = 1000

// entropy is the relative error of the entropy of the flows' shares, of a crowd of UnivMon.
func (c *crowd) entropy(at sketch.Rounding) (off float64, e crowdErrors, err error) {
	records, err := c.decode(at, &e)
	if err != nil {
		return 0, e, err
	}
	s, err := records.Summarise(sketch.Query{From: 1 << 29, To: 1<<29 + 1}, entropyKept, c.flows, sketch.PathFunc(func(flow uint64) []uint64 { return c.paths[flow] }))
	if err != nil {
		return 0, e, err
	}
	total, truth := 0., 0.
	for _, n := range c.counts {
		total += n
	}
	for _, n := range c.counts {
		truth -= n / total * math.Log2(n/total)
	}
	return s.Entropy(total).Value/truth - 1, e, nil
}

// crowds are networks of which sketches are asked: one of Count Sketch as the second's, and some of UnivMon of its default size.
type crowds struct {
	flows   *crowd
	entropy []*crowd
}

const (
	entropyNetworks = 3
	entropyMemory   = 1 << 20
)

func newCrowds(memory, flows int, sizes [2]*transport.Distribution, seed uint64) (c crowds, err error) {
	if c.flows, err = newCrowd(sketch.CountSketch, memory, flows, sizes, seed); err != nil {
		return c, err
	}
	for i := range uint64(entropyNetworks) {
		x, err := newCrowd(sketch.UnivMon, entropyMemory, flows, sizes, seed+i)
		if err != nil {
			return c, err
		}
		c.entropy = append(c.entropy, x)
	}
	return c, nil
}

// quality fills in how answers err by records of a rounding.
func (c *crowds) quality(q *quality, at sketch.Rounding) error {
	e, err := c.flows.errors(at)
	if err != nil {
		return err
	}
	q.Sketched, q.SketchedHeavy = e.Checked, e.Heavy
	sum := 0.
	for _, x := range c.entropy {
		off, _, err := x.entropy(at)
		if err != nil {
			return err
		}
		sum += off * off / float64(len(c.entropy))
	}
	q.Entropy = math.Sqrt(sum)
	return nil
}
