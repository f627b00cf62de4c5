package lds

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestLostFlows: all flows that lost packets are named, with the exact number, among many that did not, through blocks, two workers and
// records; where more lost packets than there is room for, it says so, and names all of a sample, exactly.
func TestLostFlows(t *testing.T) {
	for _, lossy := range []int{0, 1, 150, 2000} {
		c := Config{Rows: 2, Columns: 300, Virtual: 1, IntervalNs: 1 << 30, Seed: 4, LostFlows: 200}
		from, other, to := newPoint(t, c), newPoint(t, c), newPoint(t, c)
		r := rand.New(rand.NewPCG(5, uint64(lossy)))
		hash := func(n FlowName) uint64 { return n.Addresses*3 ^ n.Ports }
		var block blockOf
		truth := map[FlowName]int64{}
		for i := range 4000 {
			name := FlowName{r.Uint64(), r.Uint64() & (1<<40 - 1)}
			flow, lost := hash(name), 0
			if i < lossy {
				lost = 1 + r.IntN(20)
				truth[name] = int64(lost)
			}
			for k := range 20 + r.IntN(30) {
				id := r.Uint64()
				p := from
				if id&1 != 0 {
					p = other
				}
				block.Name[block.put(p, flow, id, 5, 60, 1)] = name
				if k >= lost {
					to.Add(flow, id, 7, 60)
					to.Name(flow, name)
				}
			}
		}
		block.flush()
		if err := from.Merge(other); err != nil {
			t.Fatal(err)
		}
		sent, err := Decode(encode(t, from), 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(encode(t, to), 0)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Subtract(sent, got, AnyDelay())
		if err != nil {
			t.Fatal(err)
		}
		l, known := d.LostFlows(hash)
		if !known || (l.Of == 1) != (lossy <= 200) || l.Of == 0 {
			t.Fatalf("%d flows lost packets: known %v, of one flow of %d", lossy, known, l.Of)
		}
		named := map[FlowName]int64{}
		for _, f := range l.Flows {
			if named[f.Name] = f.Lost; truth[f.Name] != f.Lost {
				t.Errorf("%+v lost %d, not %d", f.Name, f.Lost, truth[f.Name])
			}
		}
		sampled := 0
		for name, lost := range truth {
			share := 1
			if n := samplesOf(from.group.family.Uint64(from.group.flow, hash(name))); n > 0 {
				share = shareOf(n - 1)
			}
			if share >= l.Of {
				if sampled++; named[name] != lost {
					t.Errorf("of one flow of %d, %+v lost %d, and %d are named", share, name, lost, named[name])
				}
			}
		}
		if value, low, high := Losing(sampled, l.Of, 1e-6); float64(lossy) < low || float64(lossy) > high || l.Of == 1 && value != float64(lossy) {
			t.Errorf("%d flows lost packets, of one of %d %d: %g (%g to %g)", lossy, l.Of, sampled, value, low, high)
		}
		from.Begin(1)
		if n := testing.AllocsPerRun(10, func() {
			for i := range uint64(64) {
				block.Name[block.put(from, 0, i, 1<<30, 60, 1)] = FlowName{i, i}
			}
			block.flush()
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// TestRoomForLostFlows: of intervals in which as many flows lose packets as there is room for, nearly all are decoded, and none wrongly, whether the
// flows are strangers, neighbours by address or by port. A pair of flows with the same four buckets is not decoded: 1 in 1,000 intervals of
// 200 flows at the most (0.07 % of 3,000 simulated ones), so more than 9 of 1,000 by luck have a probability below 1e-6.
func TestRoomForLostFlows(t *testing.T) {
	const trials, room = 1000, 200
	hash := func(n FlowName) uint64 { return hash.Uint64x2(77, n.Addresses, n.Ports) }
	for _, of := range []struct {
		name string
		flow func(r *rand.Rand, i int) FlowName
	}{
		{"strangers", func(r *rand.Rand, _ int) FlowName { return FlowName{r.Uint64(), r.Uint64() & (1<<40 - 1)} }},
		{"neighbours by address", func(_ *rand.Rand, i int) FlowName {
			return FlowName{0x0200000a_0100000a + uint64(i)<<24, 17<<32 | 0x3500_0010}
		}},
		{"neighbours by port", func(_ *rand.Rand, i int) FlowName {
			return FlowName{0x0200000a_0100000a, 6<<32 | uint64(i)<<16 | 0xbb01}
		}},
	} {
		t.Run(of.name, func(t *testing.T) {
			incomplete := 0
			for trial := range trials {
				r := rand.New(rand.NewPCG(21, uint64(trial)))
				from, to := newNames(room, true), newNames(room, true)
				truth := map[FlowName]int64{}
				for i := range room {
					name := of.flow(r, i+trial*room)
					lost := 1 + r.IntN(40)/10*r.IntN(10) // often one packet
					truth[name] = int64(lost)
					for range lost {
						from.add(hash(name), name)
					}
				}
				l := decode(&from, &to, hash)
				if l.Of != 1 {
					incomplete++
				}
				if l.Of == 1 && len(l.Flows) != len(truth) {
					t.Fatalf("trial %d: %d flows of %d, and complete", trial, len(l.Flows), len(truth))
				}
				for _, f := range l.Flows {
					if truth[f.Name] != f.Lost {
						t.Fatalf("trial %d: %+v lost %d, not %d", trial, f.Name, f.Lost, truth[f.Name])
					}
				}
			}
			t.Logf("%d of %d intervals incomplete", incomplete, trials)
			if incomplete > 9 {
				t.Errorf("%d of %d intervals incomplete", incomplete, trials)
			}
		})
	}
}

// TestManyLostFlows: up to 20 times as many flows as there is room for lose packets, and in nearly all of 100 intervals each a sample of them is named, all of
// what it is said to be of, none wrongly. The bounds of their number, for 0.1, hold in 75 of 100 at least: fewer
// have a probability below 1e-4 if 90 % hold, as they do or more.
func TestManyLostFlows(t *testing.T) {
	const trials, room = 100, 200
	hash := func(n FlowName) uint64 { return hash.Uint64x2(78, n.Addresses, n.Ports) }
	for _, lossy := range []int{300, 1000, 3000, 4000} {
		unknown, held := 0, 0
		for trial := range trials {
			r := rand.New(rand.NewPCG(uint64(lossy), uint64(trial)))
			from, to := newNames(room, false), newNames(room, false)
			truth, shares := map[FlowName]int64{}, map[int]int{}
			for range lossy {
				name := FlowName{r.Uint64(), r.Uint64() & (1<<40 - 1)}
				truth[name] = int64(1 + r.IntN(3))
				for range truth[name] {
					from.add(hash(name), name)
				}
				for i := range samplesOf(hash(name)) {
					shares[shareOf(i)]++
				}
			}
			l := decode(&from, &to, hash)
			if l.Of == 0 {
				unknown++
				continue
			}
			sampled := 0
			for _, f := range l.Flows {
				if truth[f.Name] != f.Lost {
					t.Fatalf("trial %d: %+v lost %d, not %d", trial, f.Name, f.Lost, truth[f.Name])
				}
				if f.Share >= l.Of {
					sampled++
				}
			}
			if sampled != shares[l.Of] && l.Of != 1 {
				t.Fatalf("trial %d: %d flows of one of %d, not %d", trial, sampled, l.Of, shares[l.Of])
			}
			if _, low, high := Losing(sampled, l.Of, 0.1); low <= float64(lossy) && float64(lossy) <= high {
				held++
			}
		}
		t.Logf("%d flows lost packets: in %d of %d intervals no sample is known, bounds held in %d", lossy, unknown, trials, held)
		if unknown > trials/20 || held < 75 {
			t.Errorf("%d flows lost packets: in %d of %d intervals no sample is known, bounds held in %d", lossy, unknown, trials, held)
		}
	}
}

// TestLosing: the bounds are those of the binomial distribution, summed term by term.
func TestLosing(t *testing.T) {
	for _, of := range []int{16, 64, 256} {
		for _, sampled := range []int{0, 1, 3, 20} {
			value, low, high := Losing(sampled, of, 0.1)
			// atMost is the probability of n or fewer of all in the sample.
			atMost := func(all, n int) (sum float64) {
				p := 1 / float64(of)
				term := math.Pow(1-p, float64(all))
				for k := 0; k <= n; k++ {
					sum += term
					term *= float64(all-k) / float64(k+1) * p / (1 - p)
				}
				return sum
			}
			if value != float64(sampled*of) || atMost(int(high)+1, sampled) > 0.05 || atMost(int(high)-1, sampled) < 0.05 {
				t.Errorf("%d of one of %d: %g, at most %g", sampled, of, value, high)
			}
			if sampled > 0 && (1-atMost(int(low)+1, sampled-1) < 0.05 || 1-atMost(int(low)-1, sampled-1) > 0.05) || sampled == 0 && low != 0 {
				t.Errorf("%d of one of %d: at least %g", sampled, of, low)
			}
		}
	}
	if value, low, high := Losing(7, 1, 0.1); value != 7 || low != 7 || high != 7 {
		t.Errorf("%g (%g to %g) of all 7", value, low, high)
	}
}

// TestEarlierNames: a record with names without samples, as an earlier release made it, is read, and compared by all flows. One of
// a release before is refused as such.
func TestEarlierNames(t *testing.T) {
	c := Config{Rows: 2, Columns: 300, Virtual: 1, IntervalNs: 1 << 30, LostFlows: 5}
	b := encode(t, newPoint(t, c))
	if b[0] != codecVersion+namesFlows {
		t.Fatalf("version %d", b[0])
	}
	p := newPoint(t, c)
	p.Add(3, 3, 3, 60)
	p.Name(3, FlowName{4, 5})
	b = encode(t, p)
	whole := p.names
	whole.part, whole.buckets = 0, whole.buckets[:nameRows*whole.rows]
	form := p.names.append(nil)
	at := bytes.LastIndex(b, form)
	earlier := whole.append(slices.Clone(b[:at]))
	earlier = append(slices.Delete(earlier, at+1, at+2), b[at+len(form):]...) // how many buckets a sample has
	earlier[0] = codecVersion + namesWhole
	q, err := Decode(earlier, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, points := range [][2]*Point{{p, newPoint(t, c)}, {q, newPoint(t, c)}} {
		d, err := Subtract(points[0], points[1], AnyDelay())
		if err != nil {
			t.Fatal(err)
		}
		l, known := d.LostFlows(func(FlowName) uint64 { return 3 })
		if !known || l.Of != 1 || len(l.Flows) != 1 || l.Flows[0].Name != (FlowName{4, 5}) || l.Flows[0].Lost != 1 {
			t.Errorf("%+v, known %v", l, known)
		}
	}
	b[0] = codecVersion
	if _, err := Decode(b, 0); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
	c.LostFlows = 0
	b = encode(t, newPoint(t, c))
	b[0] += namesFlows
	if _, err := Decode(b, 0); err == nil {
		t.Error("a record that says that it names flows, and does not")
	}
}
