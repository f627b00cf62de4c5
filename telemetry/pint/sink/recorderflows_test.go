package sink

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
)

// slowTable is flowTable with a map, and entries in the same places.
type slowTable struct {
	index map[pint.FlowKey]int
	keys  []pint.FlowKey
	heard []bool
	state []int
	hand  int
	limit int
}

func (t *slowTable) at(k pint.FlowKey) (state *int, evicted bool) {
	if i, known := t.index[k]; known {
		t.heard[i] = true
		return &t.state[i], false
	}
	if len(t.keys) < t.limit {
		t.index[k] = len(t.keys)
		t.keys, t.heard, t.state = append(t.keys, k), append(t.heard, false), append(t.state, 0)
		return &t.state[len(t.state)-1], false
	}
	for ; t.heard[t.hand]; t.hand = (t.hand + 1) % t.limit {
		t.heard[t.hand] = false
	}
	i := t.hand
	delete(t.index, t.keys[i])
	t.index[k], t.keys[i], t.state[i] = i, k, 0
	t.hand = (t.hand + 1) % t.limit
	return &t.state[i], true
}

// TestFlowTableAgainstMap compares random operations. Tags of few values make flows share
// slots, and tags.
func TestFlowTableAgainstMap(t *testing.T) {
	for _, tags := range []uint64{1, 3, 50, 1 << 32} {
		for _, limit := range []int{1, 7, 8, 100, 1000} {
			r := rand.New(rand.NewPCG(tags, uint64(limit)))
			const seed = 5
			tag := func(k *pint.FlowKey) uint64 { return k.Hash(seed) >> 32 % tags << 32 }
			table := newFlowTable[int](limit, seed)
			slow := slowTable{index: map[pint.FlowKey]int{}, limit: limit}
			var evicted, want uint64
			operations := 20 * limit
			if tags < 50 {
				operations = min(operations, 2000) // they take as many steps as there are flows
			}
			for range operations {
				k := flowKey(r.IntN(2*limit) * r.IntN(2*limit))
				got := table.at(&k, tag(&k), &evicted)
				state, gone := slow.at(k)
				if gone {
					want++
				}
				if *got != *state || evicted != want {
					t.Fatalf("%d tags, limit %d: state %d, evicted %d, want %d, %d", tags, limit, *got, evicted, *state, want)
				}
				*got++
				*state++
			}
			if got := slices.Collect(table.keys()); !slices.Equal(got, slow.keys) {
				t.Fatalf("%d tags, limit %d: flows %v, want %v", tags, limit, got, slow.keys)
			}
			for k, i := range slow.index {
				if f := table.lookup(&k, uint32(tag(&k)>>32)); f == nil || f.state != slow.state[i] {
					t.Fatalf("%d tags, limit %d: flow %v is not found", tags, limit, k)
				}
			}
			used := 0
			for _, s := range table.slots {
				if s != 0 {
					used++
				}
			}
			if used != len(slow.keys) || len(table.slots) > max(16, 4*limit) {
				t.Fatalf("limit %d: %d slots of %d are used for %d flows", limit, used, len(table.slots), len(slow.keys))
			}
		}
	}
}

// TestFlowKeyHashReadsAll: each byte of a key matters.
func TestFlowKeyHashReadsAll(t *testing.T) {
	seen := map[uint64]bool{}
	var k pint.FlowKey
	note := func() {
		if h := k.Hash(1); seen[h] {
			t.Errorf("the hash of %v is another key's", k)
		} else {
			seen[h] = true
		}
		k = pint.FlowKey{}
	}
	note()
	for i := range 16 {
		k.Src[i] = 1
		note()
		k.Dst[i] = 1
		note()
	}
	for _, shift := range []int{0, 8} {
		k.SrcPort = 1 << shift
		note()
		k.DstPort = 1 << shift
		note()
	}
	k.Proto = 1
	note()
	k.Version = 1
	note()
}

// TestRecordBatch: many records at once are the same as one after the other, with
// flows that are evicted, flows of other definitions, windows, and records that count only.
func TestRecordBatch(t *testing.T) {
	p := everyQuery(t)
	for i := range p.Queries {
		switch i % 3 {
		case 1:
			p.Queries[i].Flow = pint.FlowDefinition{Key: "src-dst", SrcPrefix: 27}
		case 2:
			if n := p.Queries[i].Numeric; n != nil {
				n.WindowNs = 1 << 40
			}
		}
	}
	e, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	config := RecorderConfig{MaxFlows: 40, Decoders: map[string]DecoderConfig{"path": {Values: switchIDs()}}}
	one, err := NewRecorder(p, config)
	if err != nil {
		t.Fatal(err)
	}
	var events, batchEvents []Event
	one.config.PathEvent = func(_ string, _ pint.FlowKey, e Event) { events = append(events, e) }
	config.PathEvent = func(_ string, _ pint.FlowKey, e Event) { batchEvents = append(batchEvents, e) }
	many, err := NewRecorder(p, config)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(41, 1))
	for range 300 {
		var batch []pint.Record
		for range r.IntN(3 * recordBlock) {
			flow := min(r.IntN(100), r.IntN(100), r.IntN(100))
			o := network(e, r, flow, pathOf(flow), func(int) pint.Observed {
				return pint.Observed{pint.HopLatency: 1000 + r.Uint64N(5000), pint.QueueOccupancy: r.Uint64N(100), pint.EgressPort: uint64(flow), pint.IngressPort: 1}
			})
			switch r.IntN(50) {
			case 0:
				o.Hops = 0
			case 1:
				o.Plan++
			}
			batch = append(batch, o)
		}
		for i := range batch {
			one.Record(&batch[i])
		}
		many.RecordBatch(batch)
	}
	if one.Counts() != many.Counts() || one.Counts().Evicted == 0 || !slices.Equal(events, batchEvents) || len(events) == 0 {
		t.Fatalf("%+v and %d events one by one, %+v and %d in batches", one.Counts(), len(events), many.Counts(), len(batchEvents))
	}
	keys := map[pint.FlowKey]bool{}
	for i := range p.Queries {
		name := p.Queries[i].Name
		a, b := slices.Collect(one.Flows(name)), slices.Collect(many.Flows(name))
		if !slices.Equal(a, b) {
			t.Fatalf("%s: flows %v, in batches %v", name, a, b)
		}
		for _, k := range a {
			keys[k] = true
		}
	}
	for _, k := range slices.Collect(maps.Keys(keys)) {
		for i := range p.Queries {
			name := p.Queries[i].Name
			type answers struct {
				path    PathAnswer
				packets PacketAnswer
				samples [6]uint64
			}
			var a, b answers
			for r, to := range map[*Recorder]*answers{one: &a, many: &b} {
				to.path, _ = r.Path(name, k)
				to.packets, _ = r.Packets(name, k)
				for hop := range to.samples {
					to.samples[hop] = r.Samples(name, k, hop+1)
				}
			}
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%s of %v: %+v, in batches %+v", name, k, a, b)
			}
		}
	}
}

// TestRecordingDoesNotAllocate: records of flows whose paths are certain need no memory.
func TestRecordingDoesNotAllocate(t *testing.T) {
	p := threeQueries(t)
	p.Queries[1].SpaceBytes = 0 // the library's sketches grow now and then
	e, _ := p.Compile()
	rec, err := NewRecorder(p, RecorderConfig{Decoders: map[string]DecoderConfig{"path": {Values: switchIDs()}}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(42, 1))
	records := make([]pint.Record, 4000)
	for i := range records {
		flow := r.IntN(10)
		records[i] = network(e, r, flow, pathOf(flow), func(int) pint.Observed { return pint.Observed{pint.HopLatency: 2000} })
	}
	rec.RecordBatch(records)
	if n := testing.AllocsPerRun(5, func() { rec.RecordBatch(records) }); n > 0 {
		t.Errorf("%v allocations for %d records in batches", n, len(records))
	}
	if n := testing.AllocsPerRun(5, func() { rec.Record(&records[0]) }); n > 0 {
		t.Errorf("%v allocations per record", n)
	}
}
