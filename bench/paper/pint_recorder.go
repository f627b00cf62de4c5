package paper

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintsink "github.com/weirswitch/weir/telemetry/pint/sink"
)

// recorderRates times the whole recorder, with the three queries of figure 11
// in 16 bits and sketches of 100 bytes a hop, in a fat tree: records of flows from their first, 100 of each in
// random order, and then the same records again, when all paths are known. record takes them in.
func recorderRates(o Options, flows int, record func(*pintsink.Recorder, []pint.Record)) (established, fresh float64, err error) {
	const packets, hops = 100, 5
	tree, err := netsim.FatTree(8)
	if err != nil {
		return 0, 0, err
	}
	plans, err := fig11Plans(o)
	if err != nil {
		return 0, 0, err
	}
	plan := plans[0].plan
	for i := range plan.Queries {
		if q := &plan.Queries[i]; q.Aggregation == pint.Quantiles {
			q.SpaceBytes = 500
		}
	}
	encoder, err := plan.Compile()
	if err != nil {
		return 0, 0, err
	}
	config := pintsink.RecorderConfig{Decoders: map[string]pintsink.DecoderConfig{"path": {Values: tree.IDs()}}}
	r := rand.New(rand.NewPCG(o.Seed, uint64(flows)))
	records := recorderInput(r, encoder, tree.IDs(), flows, packets, hops)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var recorder *pintsink.Recorder
	least := time.Second
	if o.Quick {
		least /= 10
	}
	var took [2]time.Duration // fresh, established
	rounds := 0
	for ; took[0] < least; rounds++ {
		if recorder, err = pintsink.NewRecorder(plan, config); err != nil {
			return 0, 0, err
		}
		for i := range took {
			start := clock.Thread(0)
			record(recorder, records)
			took[i] += clock.Thread(0) - start
		}
	}
	n := float64(rounds * len(records))
	return n / took[1].Seconds(), n / took[0].Seconds(), nil
}

// recorderInput is what a sink records of flows over random paths.
func recorderInput(r *rand.Rand, e *encode.Encoder, ids []uint64, flows, packets, hops int) []pint.Record {
	paths := make([][]uint64, flows)
	for i := range paths {
		for range hops {
			paths[i] = append(paths[i], ids[r.IntN(len(ids))])
		}
	}
	records := make([]pint.Record, flows*packets)
	for i := range records {
		flow := r.IntN(flows)
		id, digest := r.Uint64(), uint64(0)
		for hop, sw := range paths[flow] {
			digest = e.Encode(id, hop+1, digest, &pint.Observed{
				pint.SwitchID: sw, pint.HopLatency: 2000 + uint64(1000*r.ExpFloat64()), pint.EgressUtilisation: r.Uint64N(pint.UtilisationOne),
			})
		}
		key := pint.FlowKey{Proto: 6, Version: 4}
		binary.BigEndian.PutUint32(key.Src[:], uint32(flow))
		records[i] = pint.Record{Flow: key, ID: id, Digest: digest, TimeNs: uint64(i) * 1000, Plan: e.Plan(), Hops: uint8(hops)}
	}
	return records
}

// addRecorderRates adds the recorder's rows for few flows and many: with records one by
// one, and in batches as a sink drains them from its ring (recorder.<flows>.batch).
func addRecorderRates(o Options, t *table) error {
	for _, way := range []struct {
		suffix string
		record func(*pintsink.Recorder, []pint.Record)
	}{
		{"", func(r *pintsink.Recorder, records []pint.Record) {
			for i := range records {
				r.Record(&records[i])
			}
		}},
		{".batch", (*pintsink.Recorder).RecordBatch},
	} {
		for _, flows := range []int{10, 10_000} {
			established, fresh, err := recorderRates(o, flows, way.record)
			if err != nil {
				return fmt.Errorf("recorder, %d flows: %w", flows, err)
			}
			name := fmt.Sprintf("recorder.%d%s", flows, way.suffix)
			t.add(name+".established", "digests/s", established, "one core; three queries, all paths known", "higher")
			t.add(name+".flows", "digests/s", fresh, "one core; three queries, flows of 100 packets from their first", "higher")
		}
	}
	return nil
}
