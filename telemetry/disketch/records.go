package disketch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Records are the collected records of a network, and answer its queries. The
// zero value is empty and ready. Several goroutines may query at a time, none
// of them while Add, Expect or Forget runs.
type Records struct {
	epochs    map[uint64]map[ID]*fragmentEpoch
	fragments map[ID]bool // known to be in the network
	shapes    map[sketchEpoch]Shape
	lent      map[uint64]bool // epochs whose records are those of another Records
}

// sketchEpoch is a sketch in an epoch.
type sketchEpoch struct {
	epoch  uint64
	sketch uint16
}

// Shape is what all fragments of a sketch must have in common in an epoch, so that their
// estimates are of one thing. Shapes compare by ==.
type Shape struct {
	kind      Kind
	unit      Unit
	epochs    Epochs
	levels    int
	levelSeed uint64 // of UnivMon
	hash      hash.Family
}

// Shape of a record's sketch.
func (r *Record) Shape() Shape {
	return Shape{kind: r.Kind(), unit: r.Unit, epochs: r.Epochs, levels: r.rows.levels(), levelSeed: r.rows.levelSeed(), hash: r.Hash}
}

// fragmentEpoch is what came of one fragment in one epoch.
type fragmentEpoch struct {
	schedule Schedule
	records  []*Prepared // by subepoch; nil: missing
}

// Prepared is a record with what queries need of all its cells, so that they read
// single ones only. It is immutable: several Records may have it.
type Prepared struct {
	*Record
	rho    float64 // Record.Error
	levels []level
}

// Prepare reads all cells of the record, which must not change any more.
func (rec *Record) Prepare() *Prepared {
	x := &Prepared{Record: rec, rho: rec.Error(), levels: make([]level, rec.rows.levels())}
	for i := range x.levels {
		x.levels[i].rho = rec.rows.error(i)
		x.levels[i].measure(rec.rows.cells(i))
	}
	return x
}

// Empty reports whether nothing says that a packet was counted: of cells that are not sums, candidates alone say it.
func (x *Prepared) Empty() bool {
	return len(x.Candidates) == 0 && (x.rho == 0 || x.rows.other != nil)
}

// What a prepared record takes beside its cells and candidates, in bytes.
const (
	preparedBytes  = 512
	candidateBytes = 56
	levelBytes     = 280
)

// Bytes is the memory that the record takes.
func (x *Prepared) Bytes() int {
	return preparedBytes + x.rows.bytes() + 8*cap(x.Squares) + cap(x.Candidates)*candidateBytes + len(x.levels)*levelBytes
}

type level struct {
	rho float64
	noise
}

var (
	// ErrDuplicate says that a record of this fragment and subepoch is there.
	ErrDuplicate = errors.New("a record of this subepoch is there already")
	// ErrPartial says that a record does not cover its subepoch. Its fragment is
	// missing then.
	ErrPartial = errors.New("the record does not cover its subepoch")
	// ErrConflict says that a fragment's records of one epoch disagree on the
	// epoch's division: its switch restarted, or its clock stepped. Or that it is of
	// another kind, unit, length of epochs, levels or hash family than what came first of this
	// sketch in the epoch: the switches' configurations differ.
	ErrConflict = errors.New("records of this epoch disagree")
)

// Add takes a record, which must not change any more. What it refuses, with
// ErrPartial, ErrDuplicate or ErrConflict, changes nothing but that the fragment
// is expected.
func (r *Records) Add(rec *Record) error {
	return r.add(rec, rec.Prepare)
}

// AddPrepared is Add of a record whose cells were read already: it takes no longer for
// a large one.
func (r *Records) AddPrepared(x *Prepared) error {
	return r.add(x.Record, func() *Prepared { return x })
}

// add takes a record, and has it prepared if it is taken.
func (r *Records) add(rec *Record, prepared func() *Prepared) error {
	if r.epochs == nil {
		r.epochs = map[uint64]map[ID]*fragmentEpoch{}
	}
	r.expect(rec.Fragment)
	if rec.Partial {
		return fmt.Errorf("%v, epoch %d, subepoch %d: %w", rec.Fragment, rec.Epoch, rec.Subepoch, ErrPartial)
	}
	at := sketchEpoch{rec.Epoch, rec.Fragment.Sketch}
	if s, ok := r.shapes[at]; ok && s != rec.Shape() {
		return fmt.Errorf("%v, epoch %d, is of another kind, unit, shape or hash family than others of its sketch: %w", rec.Fragment, rec.Epoch, ErrConflict)
	}
	byID := r.own(rec.Epoch)
	f := byID[rec.Fragment]
	if f == nil {
		f = &fragmentEpoch{schedule: rec.Schedule, records: make([]*Prepared, rec.N())}
		byID[rec.Fragment] = f
	}
	if f.schedule != rec.Schedule {
		return fmt.Errorf("%v, epoch %d: %w", rec.Fragment, rec.Epoch, ErrConflict)
	}
	if f.records[rec.Subepoch] != nil {
		return fmt.Errorf("%v, epoch %d, subepoch %d: %w", rec.Fragment, rec.Epoch, rec.Subepoch, ErrDuplicate)
	}
	if r.shapes == nil {
		r.shapes = map[sketchEpoch]Shape{}
	}
	r.shapes[at] = rec.Shape()
	f.records[rec.Subepoch] = prepared()
	return nil
}

// own are the records of an epoch, to be changed.
func (r *Records) own(epoch uint64) map[ID]*fragmentEpoch {
	byID := r.epochs[epoch]
	if byID != nil && !r.lent[epoch] {
		return byID
	}
	own := make(map[ID]*fragmentEpoch, len(byID))
	for id, f := range byID {
		own[id] = f.clone()
	}
	r.epochs[epoch] = own
	delete(r.lent, epoch)
	return own
}

func (f *fragmentEpoch) clone() *fragmentEpoch {
	return &fragmentEpoch{f.schedule, slices.Clone(f.records)}
}

// Join adds the records of another one, which must not change any more. Epochs of which r has no record are not copied. false: Add
// would have refused some of the records; r is of no use then.
func (r *Records) Join(o *Records) bool {
	if r.epochs == nil {
		r.epochs, r.fragments, r.shapes = map[uint64]map[ID]*fragmentEpoch{}, map[ID]bool{}, map[sketchEpoch]Shape{}
	}
	for id := range o.fragments {
		if !r.fragments[id] {
			r.expect(id)
		}
	}
	for at, shape := range o.shapes {
		if s, ok := r.shapes[at]; ok && s != shape {
			return false
		}
		r.shapes[at] = shape
	}
	for epoch, theirs := range o.epochs {
		if r.epochs[epoch] == nil {
			if r.lent == nil {
				r.lent = map[uint64]bool{}
			}
			r.epochs[epoch], r.lent[epoch] = theirs, true
			continue
		}
		ours := r.own(epoch)
		for id, f := range theirs {
			if g := ours[id]; g == nil {
				ours[id] = f.clone()
			} else if !g.join(f) {
				return false
			}
		}
	}
	return true
}

// join adds the subepochs of another one.
func (f *fragmentEpoch) join(o *fragmentEpoch) bool {
	if f.schedule != o.schedule {
		return false
	}
	for i, x := range o.records {
		if x != nil && f.records[i] != nil {
			return false
		}
		if x != nil {
			f.records[i] = x
		}
	}
	return true
}

// expect says that there is such a fragment, so that answers name it where its
// records are missing. Each fragment of which a record came is expected.
func (r *Records) expect(id ID) {
	if r.fragments == nil {
		r.fragments = map[ID]bool{}
	}
	r.fragments[id] = true
}

// Epochs lists the epochs of which there are records, in order.
func (r *Records) Epochs() []uint64 {
	var all []uint64
	for e := range r.epochs {
		all = append(all, e)
	}
	slices.Sort(all)
	return all
}

// Fragments lists the fragments of a sketch that are expected, by switch.
func (r *Records) Fragments(sketch uint16) []ID {
	var all []ID
	for id := range r.fragments {
		if id.Sketch == sketch {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b ID) int { return cmp.Compare(a.Switch, b.Switch) })
	return all
}

// Candidates lists the flows that the records of a query's epochs name, by
// flow, each once: its key, and the most that one record counted for it.
func (r *Records) Candidates(q Query) []Candidate {
	found := map[uint64]Candidate{}
	for e, fragments := range r.epochs {
		if e < q.From || e >= q.To {
			continue
		}
		for id, f := range fragments {
			if !q.asks(id, f) {
				continue
			}
			for _, x := range f.records {
				if x == nil {
					continue
				}
				for _, c := range x.Candidates {
					if old, ok := found[c.Flow]; !ok || c.Count > old.Count {
						found[c.Flow] = c
					}
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Candidate) int { return cmp.Compare(a.Flow, b.Flow) })
}

// Known is how many of the heaviest flows of each level (of all, but in UnivMon)
// the records of a query's epochs name almost surely: half of the room that the
// subepochs of an epoch had together, in the fragment that had the least of those
// whose room did not suffice. All of them: math.MaxInt.
func (r *Records) Known(q Query) int {
	least := math.MaxInt
	for e, fragments := range r.epochs {
		if e < q.From || e >= q.To {
			continue
		}
		for id, f := range fragments {
			if q.asks(id, f) {
				least = min(least, f.known())
			}
		}
	}
	return least
}

// known is Known of one fragment in one epoch. A table that is half full has sets
// that are full.
func (f *fragmentEpoch) known() int {
	room, full := 0, false
	for _, x := range f.records {
		if x == nil {
			continue
		}
		room += x.Room
		byLevel := make([]int, x.rows.levels())
		for _, c := range x.Candidates {
			byLevel[x.rows.level(c.Flow)]++
		}
		full = full || slices.Max(byLevel) >= x.Room/2
	}
	if !full {
		return math.MaxInt
	}
	return room / 2
}

// Looked is the last epoch of a query that a fragment counted in slices; false: there is none.
func (r *Records) Looked(q Query) (epoch uint64, ok bool) {
	for e, fragments := range r.epochs {
		if e < q.From || e >= q.To || ok && e <= epoch {
			continue
		}
		for id, f := range fragments {
			if q.asks(id, f) && f.looked() {
				epoch, ok = e, true
				break
			}
		}
	}
	return epoch, ok
}

// LookedAt says whether a fragment counted an epoch in slices, so that its record says what n suits the traffic.
func (r *Records) LookedAt(id ID, epoch uint64) bool {
	f := r.epochs[epoch][id]
	return f != nil && f.looked()
}

func (f *fragmentEpoch) looked() bool { return f.records[0] != nil && f.records[0].Squares != nil }

// N is how many subepochs a fragment's epoch had; 0: no record of it came.
func (r *Records) N(id ID, epoch uint64) int {
	if f := r.epochs[epoch][id]; f != nil {
		return len(f.records)
	}
	return 0
}

// Error is the mean of a fragment's estimated errors in an epoch (Equation 5)
// over the records that came; false: none came.
func (r *Records) Error(id ID, epoch uint64) (float64, bool) {
	f := r.epochs[epoch][id]
	if f == nil {
		return 0, false
	}
	sum, n := 0.0, 0
	for _, x := range f.records {
		if x != nil {
			sum += x.rho
			n++
		}
	}
	return sum / float64(max(n, 1)), n > 0
}
