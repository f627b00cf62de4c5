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
	auto    bool // n is chosen from the traffic
	plan    *disketch.Fragment
	choice  disketch.Choice
	workers []*epoch.Worker[disketch.Counter]

	// The collector's.
	merger *epoch.Merger[disketch.Counter]
	slices *disketch.Slices // of an epoch that is counted in slices; nil: of none yet
	inside bool             // slices has some slices of its epoch
	// What the slices so far missed, and whether one of them is partial.
	slicesMissed  uint64
	slicesPartial bool
	// unmerged packets were in cells that did not fit to those of the open slice.
	unmerged uint64
	loaded   *disketch.Counter // of what was counted in registers
	search   chan *disketch.Record
	shape    shape

	records, packets, conflicts atomic.Uint64
	rounded                     atomic.Uint64 // records
	cellRatio, cellLeast        atomic.Uint64 // bits of floats: steps of the last record
	log                         atomic.Uint32
	assigned                    atomic.Bool
	assignments, stale          atomic.Uint64
	target, rho                 atomic.Uint64 // bits of floats
}

func newFragment(f Fragment, id disketch.ID, epochs disketch.Epochs, seed uint64, family hash.Family) (*fragment, error) {
	plan, err := disketch.NewFragment(f.config(id, epochs, seed, family))
	if err != nil {
		return nil, err
	}
	return &fragment{
		id: id, epochs: epochs, keyer: f.newKeyer(family), kind: f.Kind, bytes: f.Unit == "bytes", hops: f.Hops, memory: f.Memory,
		beside: plan.CandidateBytes(), auto: f.Target == 0, plan: plan, search: make(chan *disketch.Record, 1),
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

// begin plans an epoch, which the first worker that enters it decides for all: its schedule, and in how many
// parts it is counted, as the logarithm.
func (f *fragment) begin(e uint64) (disketch.Schedule, uint8) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.plan.Begin(e)
	f.log.Store(uint32(s.Log))
	_, assigned := f.plan.Assigned(e)
	f.assigned.Store(assigned)
	return s, max(s.Log, f.plan.Slices(e))
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
		f.endSlices(emit)
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

// emit takes what was counted in a part of an epoch, and makes the record of a subepoch.
func (f *fragment) emit(m *epoch.Merged[disketch.Counter], emit record.Emit) {
	// Packets that found no cells make an estimate too low.
	missed := m.Missed + f.unmerged
	f.unmerged = 0
	e := f.epochs.Epoch(uint64(m.Slice.Start))
	if slices := f.slicesOf(e); slices > 0 && uint8(f.epochs)-m.Slice.Shift == slices {
		f.slice(m, e, slices, missed, emit)
		return
	}
	f.endSlices(emit)
	if !m.Cells.IsOpen() {
		// No worker had cells: the record has only what was missed.
		defer m.Cells.Close()
		m.Cells.Begin(f.scheduleOf(m.Slice))
	}
	f.record(m.Cells.Record(), m.Slice, missed, m.Partial, emit)
}

// slicesOf is the logarithm of the slices of an epoch that was planned.
func (f *fragment) slicesOf(e uint64) uint8 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plan.Slices(e)
}

// slice takes a slice of an epoch, and makes the epoch's record with its last one.
func (f *fragment) slice(m *epoch.Merged[disketch.Counter], e uint64, log uint8, missed uint64, emit record.Emit) {
	if f.slices == nil {
		s, err := f.plan.NewSlices()
		if err != nil {
			panic("disketch: a valid configuration makes no counter: " + err.Error())
		}
		f.slices = s
	}
	number := f.epochs.Subepoch(uint64(m.Slice.Start), log)
	if f.inside && (f.slices.Epoch() != e || number < f.slices.Next()) {
		f.endSlices(emit)
	}
	if !f.inside {
		f.mu.Lock()
		plan := f.plan.Schedule(e, 0)
		f.mu.Unlock()
		f.slices.Begin(plan, log)
		f.inside, f.slicesMissed, f.slicesPartial = true, 0, false
	}
	if from := f.slices.Next(); from > 0 && from < number {
		f.mu.Lock()
		f.plan.Late()
		f.mu.Unlock()
	}
	for f.slices.Next() < number {
		// Nothing came of it: the switch was not there, or the exporter late.
		f.slices.Skip()
		f.slicesPartial = true
	}
	if err := f.slices.Add(m.Cells); err != nil {
		f.conflicts.Add(1)
		missed += m.Cells.Record().Seen
	}
	f.slicesMissed += missed
	f.slicesPartial = f.slicesPartial || m.Partial
	if f.slices.Complete() {
		f.endSlices(emit)
	}
}

// endSlices makes the record of the epoch of the slices so far.
func (f *fragment) endSlices(emit record.Emit) {
	if !f.inside {
		return
	}
	f.inside = false
	e := f.slices.Epoch()
	whole := epoch.Slice{Start: int64(e << f.epochs), Shift: uint8(f.epochs)}
	f.record(f.slices.Record(), whole, f.slicesMissed, f.slicesPartial || !f.slices.Complete(), emit)
}

// record emits a record.
func (f *fragment) record(r *disketch.Record, at epoch.Slice, missed uint64, partial bool, emit record.Emit) {
	// Where no worker had cells in a slice of an epoch that is looked at, the record is of the epoch, and has a part of it.
	if length := f.epochs.Nanoseconds() >> r.Log; length != uint64(at.Length()) {
		at = epoch.Slice{Start: int64(r.Epoch<<f.epochs + r.Subepoch*length), Shift: uint8(f.epochs) - r.Log}
		partial = true
	}
	r.Partial = partial || missed*100 > r.Seen // one packet in a hundred at most
	f.records.Add(1)
	f.packets.Add(r.Packets)
	rho := r.Error()
	f.rho.Store(math.Float64bits(rho))
	f.mu.Lock()
	f.plan.Observe(r)
	f.target.Store(math.Float64bits(f.plan.Target()))
	auto := f.auto
	if r.Squares != nil && missed > 0 {
		f.plan.Late()
	}
	f.mu.Unlock()
	if auto && !r.Partial && r.Squares != nil {
		f.look(r.Clone())
	}
	f.shape.round(r, at.Length())
	ratio, least := r.Steps()
	f.cellRatio.Store(math.Float64bits(ratio))
	f.cellLeast.Store(math.Float64bits(least))
	if ratio > 0 {
		f.rounded.Add(1)
	}
	emit(&record.Header{
		Kind: record.DiSketch, Instance: f.id.Sketch,
		Start: at.Start, Span: at.Length(), Missed: missed, Partial: r.Partial,
	}, r.AppendBinary)
}

// scheduleOf is the schedule and the subepoch that workers had in a slice.
func (f *fragment) scheduleOf(s epoch.Slice) (disketch.Schedule, uint64) {
	log, start := uint8(f.epochs)-s.Shift, uint64(s.Start)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plan.Schedule(f.epochs.Epoch(start), log), f.epochs.Subepoch(start, log)
}

// look has n chosen from the record of an epoch that was counted in slices.
func (f *fragment) look(r *disketch.Record) {
	if f.inline {
		f.choose(r)
		return
	}
	select {
	case f.search <- r:
	default: // The last search still runs.
	}
}

func (f *fragment) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case r := <-f.search:
			f.choose(r)
		}
	}
}

// searchTrials keep a search below some 50 ms.
const searchTrials = 1000

// choose chooses n for paths whose other fragments are like this one.
func (f *fragment) choose(r *disketch.Record) {
	var records disketch.Records
	if err := records.Add(r); err != nil {
		return
	}
	path := make([]uint64, f.hops)
	for i := range path {
		path[i] = f.id.Switch
	}
	errors, err := records.Choose(disketch.TargetSearch{
		Query: disketch.Query{Sketch: f.id.Sketch, Hash: r.Hash}, Epoch: r.Epoch, Paths: [][]uint64{path}, Trials: searchTrials, Seed: f.id.Switch,
	})
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.auto { // not set meanwhile
		f.plan.Aim(f.choice.Found(errors))
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
	gauge("assigned", "1 if the collector chose n, 0 if the switch did", map[bool]float64{true: 1}[f.assigned.Load()])
	gauge("target_error", "error that the fragment aims at, rho; 0: n is chosen from the traffic", math.Float64frombits(f.target.Load()))
	gauge("estimated_error", "estimated error of the last subepoch (Equation 4)", math.Float64frombits(f.rho.Load()))
	count("records_total", "records made", f.records.Load())
	count("rounded_records_total", "records of which cells are rounded, to keep within the budget", f.rounded.Load())
	gauge("rounding_ratio", "step to which large cells of the last record are rounded, over their value; 0: they are whole", math.Float64frombits(f.cellRatio.Load()))
	gauge("rounding_step", "step to which its small cells are rounded; 1 or 0: they are whole", math.Float64frombits(f.cellLeast.Load()))
	count("counted_packets_total", "packets in the cells of these records", f.packets.Load())
	count("assignments_total", "numbers of subepochs that came from a collector and were taken", f.assignments.Load())
	count("stale_assignments_total", "those that were older than the last one, over, or of another sketch or length of epochs", f.stale.Load())
	count("overruns_total", "subepochs in which a worker lacked cells, since the exporter was late", overruns)
	count("missed_packets_total", "packets not counted for that reason", missed)
	count("conflicts_total", "workers' cells that did not fit together, since the clock stepped", f.conflicts.Load())
}
