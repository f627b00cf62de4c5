package paper

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
)

// laterLosing is how many of the flows of an interval lose one to three packets each.
var laterLosing = []int{20, 100, 200, 400, 1600, 6400}

// What laterLDS measures with: an interval of 10,000 flows of 20 packets on average, and room for 200 lost flows.
const (
	laterLDSFlows   = 10_000
	laterLDSPackets = 20
	laterLostFlows  = 200
)

// laterLDS asks which flows lost packets in an interval, as more and more do, at equal memory: by cells alone, to which all flows are given as candidates, which takes another 13 bytes
// a flow that are not counted; by the names of lost flows that LDS has since FermatSketch (whole); and with samples beside these (samples), after
// ChameleMon's idea to look at fewer flows where more lose packets. named is the share of the flows that lost packets that are named with the exact number; wrong, over them, how
// many are named that lost none, or another number; flows_error the mean relative error of how many flows lost packets, 1 where it is not known.
func laterLDS(ctx context.Context, o Options) ([]Row, error) {
	runs := o.runs(60)
	base := lds.Config{Rows: 4, Columns: 2048, Virtual: 1, IntervalNs: 1 << 30}
	sampled, whole, cells := base, base, base
	sampled.LostFlows = laterLostFlows
	whole.LostFlows, whole.WholeNames = laterLostFlows, true
	for next := whole; next.Bytes() <= sampled.Bytes(); next.LostFlows++ {
		whole = next
	}
	for next := cells; next.Bytes() <= sampled.Bytes(); next.Columns++ {
		cells = next
	}
	schemes := []struct {
		name   string
		config lds.Config
	}{{"cells", cells}, {"whole", whole}, {"samples", sampled}}
	var mu sync.Mutex
	m, done := measures{}, 0
	record := map[string]float64{}
	err := parallel(ctx, runs*len(laterLosing), func(i int) error {
		run, losing := i/len(laterLosing), laterLosing[i%len(laterLosing)]
		r := rand.New(rand.NewPCG(hash.Uint64x2(o.Seed, 'L', uint64(run)), uint64(losing)))
		flows := newLaterFlows(r, losing)
		for _, s := range schemes {
			c := s.config
			c.Seed = r.Uint64()
			named, wrong, count, bytes, err := flows.measure(c, r.Uint64())
			if err != nil {
				return err
			}
			mu.Lock()
			row := fmt.Sprintf("%s.losing%d", s.name, losing)
			m.add("named."+row, run, runs, named)
			m.add("wrong."+row, run, runs, wrong)
			m.add("flows_error."+row, run, runs, count)
			record[s.name] = max(record[s.name], float64(bytes))
			mu.Unlock()
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		o.progress(done, runs*len(laterLosing), "lost flows")
		return nil
	})
	if err != nil {
		return nil, err
	}
	var t table
	for _, s := range schemes {
		source := fmt.Sprintf("rows of cells: 4 of %d; room for %d lost flows", s.config.Columns, s.config.LostFlows)
		t.add("memory."+s.name, "bytes", float64(s.config.Bytes()), source, "neither")
		t.add("record."+s.name, "bytes", record[s.name], "the largest; "+source, "lower")
	}
	source := fmt.Sprintf("%d flows of %d packets; equal memory; %d runs", laterLDSFlows, laterLDSPackets, runs)
	for _, metric := range []struct{ name, unit, better string }{{"named", "share", "higher"}, {"wrong", "ratio", "lower"}, {"flows_error", "relative", "lower"}} {
		for _, s := range schemes {
			for _, losing := range laterLosing {
				row := fmt.Sprintf("%s.%s.losing%d", metric.name, s.name, losing)
				mean, half := interval(m[row])
				t.add(row, metric.unit, mean, source, metric.better)
				t.add(row+".ci95", metric.unit, half, "half the 95 % confidence interval of the mean", "neither")
			}
		}
	}
	return t, nil
}

// laterFlows are the flows of an interval, the first of which lose packets.
type laterFlows struct {
	names   []lds.FlowName
	packets []int
	lost    []int // of the first flows
	seed    uint64
}

func newLaterFlows(r *rand.Rand, losing int) *laterFlows {
	f := &laterFlows{names: make([]lds.FlowName, laterLDSFlows), packets: make([]int, laterLDSFlows), lost: make([]int, losing), seed: r.Uint64()}
	for i := range f.names {
		f.names[i] = lds.FlowName{Addresses: r.Uint64(), Ports: r.Uint64() & (1<<40 - 1)}
		f.packets[i] = 4 + r.IntN(2*laterLDSPackets-7)
	}
	for i := range f.lost {
		f.lost[i] = 1 + r.IntN(3)
	}
	return f
}

// hash is a flow's, as points take it.
func (f *laterFlows) hash(n lds.FlowName) uint64 { return hash.Uint64x2(f.seed, n.Addresses, n.Ports) }

// measure counts the flows at two points, and asks for those that lost packets.
func (f *laterFlows) measure(c lds.Config, ids uint64) (named, wrong, count float64, bytes int, err error) {
	sender, err := lds.NewPoint(c)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	receiver, err := lds.NewPoint(c)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	for i, name := range f.names {
		h := f.hash(name)
		for k := range f.packets[i] {
			id := hash.Uint64x2(ids, uint64(i), uint64(k))
			at := int64(id >> 35)
			sender.Add(h, id, at, 100)
			sender.Name(h, name)
			if i < len(f.lost) && k < f.lost[i] {
				continue
			}
			receiver.Add(h, id, at+int64(id>>4&0xffff), 100)
			receiver.Name(h, name)
		}
	}
	form, err := sender.AppendBinary(nil)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	d, err := lds.Subtract(sender, receiver, lds.AnyDelay())
	if err != nil {
		return 0, 0, 0, 0, err
	}
	got := map[lds.FlowName]int64{}
	about, known := 0.0, true
	if c.LostFlows > 0 {
		l, _ := d.LostFlows(f.hash)
		sampled := 0
		for _, lost := range l.Flows {
			got[lost.Name] = lost.Lost
			if lost.Share >= l.Of {
				sampled++
			}
		}
		if known = l.Of != 0; known {
			about, _, _ = lds.Losing(sampled, l.Of, 0.05)
		}
	} else {
		for _, name := range f.names {
			if e := d.Flow(f.hash(name), 1, lds.Balanced); e.HasLoss && math.Round(e.Lost) != 0 {
				got[name] = int64(math.Round(e.Lost))
			}
		}
		about = float64(len(got))
	}
	right := 0
	for i, lost := range f.lost {
		if got[f.names[i]] == int64(lost) {
			right++
		}
	}
	n := float64(len(f.lost))
	count = 1
	if known {
		count = math.Abs(about-n) / n
	}
	return float64(right) / n, float64(len(got)-right) / n, count, len(form), nil
}
