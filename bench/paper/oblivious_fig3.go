package paper

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// obliviousFig3 measures the relative error of the number of packets in the
// network, beside HyperLogLog with as many registers as a sample has entries, and
// obliviousFig4 of the bytes, beside CKY and Lemiesz' sketch.
// An entry takes 64 bytes or so, a register of HyperLogLog and CKY one, and one of Lemiesz'
// sketch 8: rows named same_memory are of sketches of as many bytes, and all_memory of as many as all tables of a switch's sampler have. Rows named same_record are of as many bytes as the sample's
// record has (record_bytes_per_entry), a register of HyperLogLog in 6 bits. They count one thing
// only, where a sample has flows of any kind. Rows named query are what weir query volume answers from
// the switches' records, with all defaults: it goes beyond the paper by the switches' own totals (oblivious.Sample.Calibrate), and
// query_over_hll_same_memory compares both.
var (
	obliviousFig3 = volumeFigure("fig3", oblivious.Packets, []string{"hll"}, "routing-oblivious Fig. 3: below HyperLogLog")
	obliviousFig4 = volumeFigure("fig4", oblivious.Bytes, []string{"cky", "lemiesz"}, "routing-oblivious Fig. 4: below CKY")
)

func volumeFigure(name string, unit oblivious.Unit, rivals []string, source string) netFigure {
	return netFigure{
		name: name,
		unit: unit,
		measure: func(r *netRun) (out []outcome, err error) {
			truth := r.trace.volume(unit)
			for _, merged := range r.merged() {
				e, err := merged.sample.Volume(unit, 0.05)
				if err != nil {
					return nil, err
				}
				out = append(out, outcome{merged.name + ".error", math.Abs(e.Value-truth) / truth})
			}
			bytes, err := r.recordBytes()
			if err != nil {
				return nil, err
			}
			out = append(out, outcome{recordBytesRow, bytes})
			asked, err := r.query(unit)
			if err != nil {
				return nil, err
			}
			inside := 0.
			if asked.Holds(truth) {
				inside = 1
			}
			return append(out, outcome{r.kind.String() + "_query.error", math.Abs(asked.Value-truth) / truth},
				outcome{r.kind.String() + "_query.inside", inside}), nil
		},
		rival: func(ctx context.Context, o Options, m measures, traces []*obliviousTrace) error {
			return rivalVolume(ctx, o, m, traces, unit, rivals)
		},
		rows: func(m measures, t *table, traces []*obliviousTrace) {
			m.ratio(t, traces, "error.query_over_"+rivals[0]+"_same_memory", []string{"uwra_query.error", "nwps_query.error"},
				[]string{rivals[0] + "_same_memory.error"}, 1.3, "weir query volume; beyond "+source+" at equal memory", "lower")
			m.ratio(t, traces, "error.query_over_"+rivals[0]+"_all_memory", []string{"uwra_query.error", "nwps_query.error"},
				[]string{rivals[0] + "_all_memory.error"}, 1.3, "weir query volume; beyond "+source+" at the memory of all tables of a sampler", "lower")
			m.ratio(t, traces, "error.query_over_union", []string{"uwra_query.error", "nwps_query.error"},
				[]string{"uwra_union.error", "nwps_union.error"}, 1, "weir query volume over the sample alone", "lower")
			m.rows(t, traces, []string{"uwra_query.inside", "nwps_query.inside"}, "share", "bounds of 95 % that hold the truth", "higher")
			m.ratio(t, traces, "error.union_over_"+rivals[0]+"_same_memory", []string{"uwra_union.error", "nwps_union.error"},
				[]string{rivals[0] + "_same_memory.error"}, 1.3, "the sample alone; "+source+" at equal memory", "lower")
			for _, rival := range rivals {
				if registerBits[rival] > 0 {
					m.ratio(t, traces, "error.union_over_"+rival+"_same_record", []string{"uwra_union.error", "nwps_union.error"},
						[]string{rival + "_same_record.error"}, 1.3, "the sample alone; "+source+" at equal bytes of records", "lower")
				}
			}
			m.rows(t, traces, []string{recordBytesRow}, "bytes", "a switch's record, over the sample's size", "lower")
			names := []string{"uwra.error", "nwps.error"}
			for _, rival := range rivals {
				names = append(names, rival+".error")
			}
			names = append(names, "uwra_simple.error", "nwps_simple.error", "uwra_union.error", "nwps_union.error", "uwra_query.error", "nwps_query.error")
			for _, rival := range rivals {
				names = append(names, rival+"_same_memory.error", rival+"_all_memory.error", rival+"_same_record.error")
			}
			m.rows(t, traces, names, "relative", source, "lower")
		},
	}
}

// query asks the question of weir query volume, of the records that the switches send.
func (r *netRun) query(unit oblivious.Unit) (query.Bounded, error) {
	s := &store.Store{}
	for i, sample := range r.samples {
		b, err := record.Append(nil, &record.Header{Kind: record.Oblivious, Switch: uint32(i + 1), Name: fmt.Sprint("s", i+1), Span: 1 << 30}, sample.AppendBinary)
		if err != nil {
			return query.Bounded{}, err
		}
		s.AddBytes(b)
	}
	s.Sort()
	v, err := (&query.Engine{Store: s}).Volume(nil)
	if err != nil {
		return query.Bounded{}, err
	}
	if unit == oblivious.Bytes {
		return v.Bytes, nil
	}
	return v.Packets, nil
}

// recordBytesRow is what a record takes for each entry.
const recordBytesRow = "record_bytes_per_entry"

// recordBytes is that, of every twentieth switch.
func (r *netRun) recordBytes() (float64, error) {
	bytes, entries := 0, 0
	for i := 0; i < len(r.samples); i += 20 {
		b, err := r.samples[i].MarshalBinary()
		if err != nil {
			return 0, err
		}
		bytes += len(b)
		entries += r.samples[i].Size
	}
	return float64(bytes) / float64(entries), nil
}

// registerBits is what a register takes in a record, of the rivals whose registers are small numbers.
var registerBits = map[string]float64{"hll": 6}

// rivalRuns is how many runs of a rival there are for each of the network's: a mean of few errors says little.
const rivalRuns = 4

// entryBytes is what an entry takes, and registerBytes what a register of each
// rival does.
const entryBytes = 64

var registerBytes = map[string]int{"hll": 1, "cky": 1, "lemiesz": 8}

// volumeSketch is a rival: its registers depend on the set of packets only, and merge into those
// of an observer who saw all.
type volumeSketch interface {
	add(id uint64, bytes uint32)
	estimate() float64
}

func newVolumeSketch(rival string, registers int, seed uint64) volumeSketch {
	if rival == "lemiesz" {
		return newExpSketch(registers, seed)
	}
	return newHyperLogLog(registers, seed, rival == "cky")
}

// rivalVolume adds the rows of the rivals. Each packet is counted once: merging
// the sketches of all switches gives the same, whatever the routes.
func rivalVolume(ctx context.Context, o Options, m measures, traces []*obliviousTrace, unit oblivious.Unit, rivals []string) error {
	// Rows of the network, as workers add others meanwhile.
	network := maps.Clone(m)
	runs := rivalRuns * obliviousRuns(o, 0)
	traces, other := slices.Clone(traces), traces
	traces = slices.DeleteFunc(traces, func(t *obliviousTrace) bool { return t.toCore })
	var mu sync.Mutex
	done := 0
	err := parallel(ctx, runs*len(traces), func(i int) error {
		t, run := traces[i/runs], i%runs
		mu.Lock()
		o.progress(done, runs*len(traces), fmt.Sprintf("%s%v", t.prefix, rivals))
		mu.Unlock()
		sketches := map[string]volumeSketch{}
		for _, rival := range rivals {
			for i, size := range sampleSizes {
				if obliviousRuns(o, i) == 0 {
					continue
				}
				seed := hash.Uint64x2(o.Seed, 'H', uint64(run))
				perEntry, _ := interval(network[t.prefix+recordBytesRow+"."+size.name])
				if bits := registerBits[rival]; bits > 0 {
					sketches[rival+"_same_record.error."+size.name] = newVolumeSketch(rival, int(float64(size.size)*perEntry*8/bits), seed)
				}
				sketches[rival+".error."+size.name] = newVolumeSketch(rival, size.size, seed)
				sketches[rival+"_same_memory.error."+size.name] = newVolumeSketch(rival, size.size*entryBytes/registerBytes[rival], seed)
				all := oblivious.Config{Size: size.size}.Memory()
				sketches[rival+"_all_memory.error."+size.name] = newVolumeSketch(rival, all/registerBytes[rival], seed)
			}
		}
		for i := range t.Len() {
			if i%windowSize == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			p := t.At(i)
			for _, s := range sketches {
				s.add(p.ID, p.Bytes)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		truth := t.volume(unit)
		for row, s := range sketches {
			m.add(t.prefix+row, run, runs, math.Abs(s.estimate()-truth)/truth)
		}
		done++
		return nil
	})
	for _, t := range other {
		if t.toCore { // the same packets as the first trace
			for row, values := range maps.Clone(m) {
				if name, _, _ := strings.Cut(row, "."); slices.ContainsFunc(rivals, func(r string) bool {
					return name == r || strings.HasPrefix(name, r+"_same_") || strings.HasPrefix(name, r+"_all_")
				}) {
					m[t.prefix+row] = values
				}
			}
		}
	}
	return err
}
