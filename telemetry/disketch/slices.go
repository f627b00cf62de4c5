package disketch

import "fmt"

// SliceLog is the binary logarithm of how many slices of an epoch a fragment looks at, to
// see when its flows send. More subepochs than that are not chosen from the traffic.
const SliceLog = 4

// sliceCells is how many cells of a fragment are looked at: the second moment has a relative
// standard error of sqrt(2/sliceCells).
const sliceCells = 1 << 16

// Slices joins the counters of the slices of an epoch with n = 1. Sketches are linear: the cells
// of the epoch are the sum of those of its slices, and the squares of a slice's cells say
// what the second moment of the flows in that slice is. Where flows send evenly, it is that of the epoch over
// the square of the number of slices; where all of a flow is in one slice, over the number.
// It is not safe for concurrent use.
type Slices struct {
	whole   *Counter
	log     uint8
	next    uint64
	sums    [SliceLog + 1][]int64 // by the logarithm of slices: cells of the one that is being added up
	filled  [SliceLog + 1]bool
	squares [SliceLog + 1]float64
}

// NewSlices makes one that holds nothing.
func (f *Fragment) NewSlices() (*Slices, error) {
	c, err := f.NewCounter()
	if err != nil {
		return nil, err
	}
	return &Slices{whole: c}, nil
}

// Begin empties it for an epoch of 2^log slices, log at most SliceLog.
func (s *Slices) Begin(plan Schedule, log uint8) {
	s.whole.BeginSlice(plan)
	s.log, s.next = min(log, SliceLog), 0
	clear(s.filled[:])
	clear(s.squares[:])
}

// Add takes what was counted in the next slice; nil, or a counter that is not open: nothing was.
// An error says that the counter is of another epoch, and changes nothing but that there is no such slice.
func (s *Slices) Add(c *Counter) error {
	var err error
	if c != nil && c.open {
		err = s.whole.Merge(c)
	}
	if err != nil || c == nil || !c.open {
		c = nil
	}
	s.next++
	s.add(s.log, c.some(s.whole))
	return err
}

// Skip takes it that nothing was counted in the next slice.
func (s *Slices) Skip() { _ = s.Add(nil) }

// some are the cells that are looked at, in one list: zeros of a nil counter.
func (c *Counter) some(shape *Counter) []int64 {
	levels := shape.rows.levels()
	each := min(shape.rows.width(), max(sliceCells/levels, 1))
	if c == nil {
		return make([]int64, each*levels)
	}
	all := make([]int64, 0, each*levels)
	for l := range levels {
		for _, v := range c.rows.cells(l)[:each] {
			all = append(all, int64(v))
		}
	}
	return all
}

// add adds the cells of a slice, and those of the longer one that it completes.
func (s *Slices) add(log uint8, cells []int64) {
	s.squares[log] += s.secondMoment(cells)
	if log == 0 {
		return
	}
	if !s.filled[log] {
		s.sums[log], s.filled[log] = cells, true
		return
	}
	s.filled[log] = false
	for i, v := range s.sums[log] {
		cells[i] += v
	}
	s.add(log-1, cells)
}

// secondMoment estimates that of all flows: of Count Sketch and UnivMon the mean of squares over
// the width; cells of Count-Min hold the mean of all flows, too.
func (s *Slices) secondMoment(cells []int64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range cells {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	width, levels := float64(s.whole.rows.width()), float64(s.whole.rows.levels())
	some := float64(len(cells)) / levels
	if s.whole.rows.kind() == CountMin {
		squares = max(squares-sum*sum/some, 0)
	}
	return squares * width / some
}

// Record is what was counted in the epoch. It shares the cells, as Counter.Record's. It has Squares and Flows if
// all slices were added.
func (s *Slices) Record() *Record {
	r := s.whole.Record()
	if s.next == 1<<s.log && s.log > 0 {
		r.Squares = append([]float64(nil), s.squares[:s.log+1]...)
		if s.whole.sliced {
			r.Flows = s.whole.flows.Flows()
		}
	}
	return r
}

// Complete says that all slices were added.
func (s *Slices) Complete() bool { return s.next >= 1<<s.log }

// Next is the number of the slice that Add takes next.
func (s *Slices) Next() uint64 { return s.next }

// Epoch is the number of the epoch of the last Begin.
func (s *Slices) Epoch() uint64 { return s.whole.schedule.Epoch }

// String names the epoch and how far it is.
func (s *Slices) String() string {
	return fmt.Sprintf("%v, epoch %d: %d of %d slices", s.whole.id, s.Epoch(), s.next, 1<<s.log)
}
