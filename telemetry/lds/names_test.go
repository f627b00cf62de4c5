package lds

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestLostFlows: all flows that lost packets are named, with the exact number, among many that did not, through blocks, two workers and
// records; where more lost packets than there is room for, it says so.
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
		flows, complete, known := d.LostFlows(hash)
		if !known || complete != (lossy <= 200) {
			t.Fatalf("%d lost packets: known %v, complete %v", lossy, known, complete)
		}
		if complete && len(flows) != len(truth) {
			t.Errorf("%d flows named, %d lost packets", len(flows), len(truth))
		}
		for _, f := range flows {
			if complete && truth[f.Name] != f.Lost {
				t.Errorf("%+v lost %d, not %d", f.Name, f.Lost, truth[f.Name])
			}
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
				from, to := newNames(room), newNames(room)
				truth := map[FlowName]int64{}
				for i := range room {
					name := of.flow(r, i+trial*room)
					lost := 1 + r.IntN(40)/10*r.IntN(10) // often one packet
					truth[name] = int64(lost)
					for range lost {
						from.add(hash(name), name)
					}
				}
				flows, complete := decode(&from, &to, hash)
				if !complete {
					incomplete++
				}
				if complete && len(flows) != len(truth) {
					t.Fatalf("trial %d: %d flows of %d, and complete", trial, len(flows), len(truth))
				}
				for _, f := range flows {
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

// TestEarlierNames: a record with names in the form of an earlier release is refused as such.
func TestEarlierNames(t *testing.T) {
	c := Config{Rows: 2, Columns: 300, Virtual: 1, IntervalNs: 1 << 30, LostFlows: 5}
	b := encode(t, newPoint(t, c))
	if b[0] != codecVersion+namesFlows {
		t.Fatalf("version %d", b[0])
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
