package disketch

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/epoch"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
)

// fragment is one fragment of the switch: its plan, its workers' counters, and
// how they become records.
type fragment struct {
	id     disketch.ID
	epochs disketch.Epochs
	keyer  Keyer
	kind   string
	bytes  bool // cells count bytes
	hops   int
	memory int
	beside int // bytes of candidates beside the cells
	inline bool

	// mu guards what workers ask for once in an epoch, and the collector sets
	// once in a subepoch.
	mu      sync.Mutex
	auto    bool // the target is found from the traffic
	plan    *disketch.Fragment
	found   disketch.Target
	workers []*epoch.Worker[disketch.Counter]

	// The collector's.
	merger  *epoch.Merger[disketch.Counter]
	sample  []*disketch.Record // of the epoch that the next target is found from
	samples uint64             // epochs looked at so far
	// unmerged packets were in cells that did not fit to those of the open slice.
	unmerged uint64
	loaded   *disketch.Counter // of what was counted in registers
	search   chan []*disketch.Record

	records, packets, conflicts atomic.Uint64
	log                         atomic.Uint32
	target, rho                 atomic.Uint64 // bits of floats
}

func newFragment(f Fragment, id disketch.ID, epochs disketch.Epochs, seed uint64, family hash.Family) (*fragment, error) {
	plan, err := disketch.NewFragment(f.config(id, epochs, seed, family))
	if err != nil {
		return nil, err
	}
	return &fragment{
		id: id, epochs: epochs, keyer: f.newKeyer(family), kind: f.Kind, bytes: f.Unit == "bytes", hops: f.Hops, memory: f.Memory,
		beside: plan.CandidateBytes(), auto: f.Target == 0, plan: plan, search: make(chan []*disketch.Record, 1),
	}, nil
}

// counter makes a counter of the plan, whose configuration was validated.
func (f *fragment) counter() *disketch.Counter {
	c, err := f.plan.NewCounter()
	if err != nil {
		panic("disketch: a valid configuration makes no counter: " + err.Error())
	}
	return c
}

func (f *fragment) newWorker() *epoch.Worker[disketch.Counter] {
	w := epoch.NewWorker(f.counter)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workers = append(f.workers, w)
	return w
}

// begin plans an epoch, which the first worker that enters it decides for all.
func (f *fragment) begin(e uint64) disketch.Schedule {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.plan.Begin(e)
	f.log.Store(uint32(s.Log))
	return s
}

func (f *fragment) collect(now int64, last bool, emit func(*record.Header, func([]byte) ([]byte, error))) {
	if f.merger == nil {
		f.mu.Lock()
		f.merger = epoch.NewMerger(f.workers, f.counter, f.merge, (*disketch.Counter).Close)
		f.mu.Unlock()
	}
	emitted := func(m *epoch.Merged[disketch.Counter]) { f.emit(m, emit) }
	f.merger.Collect(now, emitted)
	if last {
		f.merger.Flush(emitted)
	}
}

// merge adds a worker's counter. It can fail only where a clock stepped so that
// one slice had two plans; then its packets are missed, and counted.
func (f *fragment) merge(dst, src *disketch.Counter) {
	if err := dst.Join(src); err != nil {
		f.conflicts.Add(1)
		f.unmerged += src.Record().Seen
	}
}

// emit makes the record of a subepoch.
func (f *fragment) emit(m *epoch.Merged[disketch.Counter], emit func(*record.Header, func([]byte) ([]byte, error))) {
	if !m.Cells.IsOpen() {
		// No worker had cells: the record has only what was missed.
		defer m.Cells.Close()
		m.Cells.Begin(f.scheduleOf(m.Slice))
	}
	r := m.Cells.Record()
	// Packets that found no cells make an estimate too low: one in a hundred at most.
	missed := m.Missed + f.unmerged
	f.unmerged = 0
	r.Partial = m.Partial || missed*100 > r.Seen
	f.records.Add(1)
	f.packets.Add(r.Packets)
	rho := r.Error()
	f.rho.Store(math.Float64bits(rho))
	f.mu.Lock()
	f.plan.Observe(r)
	f.target.Store(math.Float64bits(f.plan.Target()))
	auto := f.auto
	f.mu.Unlock()
	if auto && !r.Partial {
		f.keep(r)
	}
	emit(&record.Header{
		Kind: record.DiSketch, Instance: f.id.Sketch,
		Start: m.Slice.Start, Span: m.Slice.Length(), Missed: missed, Partial: r.Partial,
	}, r.AppendBinary)
}

// scheduleOf is the schedule and the subepoch that workers had in a slice.
func (f *fragment) scheduleOf(s epoch.Slice) (disketch.Schedule, uint64) {
	log, start := uint8(f.epochs)-s.Shift, uint64(s.Start)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plan.Schedule(f.epochs.Epoch(start), log), f.epochs.Subepoch(start, log)
}

// keep gathers the records of an epoch for the search for a target: behind the
// epochs 1, 2, 4, 8, 16, ... and then every 16th.
func (f *fragment) keep(r *disketch.Record) {
	if r.Subepoch == 0 {
		f.sample = f.sample[:0]
		f.samples++
	}
	if n := f.samples; n&(n-1) != 0 && n%16 != 0 {
		return
	}
	f.sample = append(f.sample, r.Clone())
	if r.Subepoch != r.N()-1 || len(f.sample) != int(r.N()) {
		return
	}
	all := append([]*disketch.Record(nil), f.sample...)
	f.sample = f.sample[:0]
	if f.inline {
		f.findTarget(all)
		return
	}
	select {
	case f.search <- all:
	default: // The last search still runs.
	}
}

func (f *fragment) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case all := <-f.search:
			f.findTarget(all)
		}
	}
}

// searchTrials keep a search below some 50 ms.
const searchTrials = 1000

// findTarget finds a target for paths whose other fragments are like this one.
func (f *fragment) findTarget(all []*disketch.Record) {
	var records disketch.Records
	for _, r := range all {
		if err := records.Add(r); err != nil {
			return // Two subepochs of one number: a clock stepped.
		}
	}
	path := make([]uint64, f.hops)
	for i := range path {
		path[i] = f.id.Switch
	}
	rho, err := records.FindTarget(disketch.TargetSearch{
		Query: disketch.Query{Sketch: f.id.Sketch, Hash: all[0].Hash}, Epoch: all[0].Epoch, Paths: [][]uint64{path}, Trials: searchTrials, Seed: f.id.Switch,
	})
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.auto { // not set meanwhile
		f.plan.SetTarget(f.found.Found(rho))
	}
}

func (f *fragment) metrics(emit func(pipeline.Metric)) {
	labels := [][2]string{{"fragment", strconv.Itoa(int(f.id.Sketch))}, {"kind", f.kind}}
	gauge := func(name, help string, v float64) {
		emit(pipeline.Metric{Name: name, Help: help, Labels: labels, Value: v, Gauge: true})
	}
	count := func(name, help string, v uint64) {
		emit(pipeline.Metric{Name: name, Help: help, Labels: labels, Value: float64(v)})
	}
	f.mu.Lock()
	workers := f.workers
	f.mu.Unlock()
	var overruns, missed uint64
	for _, w := range workers {
		overruns += w.Overruns()
		missed += w.Missed()
	}
	gauge("cell_bytes", "memory of one copy of the fragment's cells", float64(f.memory))
	gauge("candidate_bytes", "memory of the keys of heavy flows beside one copy of the cells", float64(f.beside))
	gauge("subepochs", "subepochs of the current epoch, n", float64(uint64(1)<<f.log.Load()))
	gauge("target_error", "error that the fragment aims at, rho; 0 until one is found", math.Float64frombits(f.target.Load()))
	gauge("estimated_error", "estimated error of the last subepoch (Equation 4)", math.Float64frombits(f.rho.Load()))
	count("records_total", "records made", f.records.Load())
	count("counted_packets_total", "packets in the cells of these records", f.packets.Load())
	count("overruns_total", "subepochs in which a worker lacked cells, since the exporter was late", overruns)
	count("missed_packets_total", "packets not counted for that reason", missed)
	count("conflicts_total", "workers' cells that did not fit together, since the clock stepped", f.conflicts.Load())
}
