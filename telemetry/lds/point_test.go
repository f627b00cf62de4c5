package lds

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// newPoint makes a point or ends the test.
func newPoint(t testing.TB, c Config) *Point {
	t.Helper()
	p, err := NewPoint(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// begin is where the point's interval begins.
func (p *Point) begin() int64 { return p.middle - p.config.half() }

// shapes are configs with everything that may go wrong at an edge: odd rows,
// columns that are no power of two, virtual LDAs as long as a row.
func shapes() []Config {
	return []Config{
		{Rows: 1, Columns: 1, Virtual: 1, IntervalNs: 1000},
		{Rows: 4, Columns: 17, Virtual: 1, IntervalNs: 1e9, Seed: 3},
		{Rows: 3, Columns: 5, Virtual: 5, IntervalNs: 1e9, Seed: 4},
		{Rows: 5, Columns: 40, Virtual: 7, Rates: []float64{0.01, 0.1, 0.5, 1, 0.25}, IntervalNs: 1e6, Seed: 5},
		{Rows: 16, Columns: 33, Virtual: 4, IntervalNs: 1e9, Seed: math.MaxUint64},
		{Rows: 3, Columns: 16, Virtual: 1, IntervalNs: 1 << 30, Seed: 8, Hash: hash.CRC},
		{Rows: 5, Columns: 40, Virtual: 7, Rates: []float64{0.01, 0.1, 0.5, 1, 0.25}, IntervalNs: 1e6, Seed: 7, Hash: hash.CRC},
	}
}

func TestConfigRefuses(t *testing.T) {
	good := DefaultConfig()
	for name, change := range map[string]func(*Config){
		"no rows":         func(c *Config) { c.Rows = 0 },
		"too many rows":   func(c *Config) { c.Rows = maxRows + 1 },
		"no columns":      func(c *Config) { c.Columns = 0 },
		"too many cells":  func(c *Config) { c.Columns = MaxCells/4 + 1 },
		"no virtual":      func(c *Config) { c.Virtual = 0 },
		"virtual > row":   func(c *Config) { c.Columns, c.Virtual = 3, 4 },
		"rates of others": func(c *Config) { c.Rates = []float64{1} },
		"rate 0":          func(c *Config) { c.Rates = []float64{1, 1, 0, 1} },
		"rate 2":          func(c *Config) { c.Rates = []float64{1, 2, 1, 1} },
		"rate NaN":        func(c *Config) { c.Rates = []float64{1, math.NaN(), 1, 1} },
		"no interval":     func(c *Config) { c.IntervalNs = 0 },
		"no hash family":  func(c *Config) { c.Hash = 9 },
		"long interval":   func(c *Config) { c.IntervalNs = maxIntervalNs + 1 },
	} {
		c := good
		change(&c)
		if _, err := NewPoint(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if !good.Equal(Config{Rows: 4, Columns: 17500, Virtual: 1, IntervalNs: 1e9, Rates: []float64{1, 1, 1, 1}}) {
		t.Error("rates of 1 differ from no rates")
	}
}

// cellsOf is where a packet goes: the cells of a point that has it alone.
func cellsOf(p *Point, flow, id uint64) []int {
	q := p.Clone()
	q.Begin(p.Interval())
	q.Add(flow, id, q.begin(), 1)
	var at []int
	for i, c := range q.wide() {
		if c != (Cell{}) {
			at = append(at, i)
		}
	}
	return at
}

// blockOf fills a Block packet by packet.
type blockOf struct {
	Block
	n int
}

// put takes a packet in, after what there is was added if it is full or of points that were not made with this one.
func (b *blockOf) put(p *Point, flow, id uint64, timeNs int64, bytes, weight uint32) int {
	if b.n == BlockSize || b.n > 0 && b.Points[0].group != p.group {
		b.flush()
	}
	i := b.n
	b.Points[i], b.Flow[i], b.ID[i], b.Time[i], b.Bytes[i], b.Weight[i] = p, flow, id, timeNs, bytes, weight
	b.n++
	return i
}

func (b *blockOf) flush() uint64 {
	n := b.n
	b.n = 0
	return b.Add(n)
}

// length and weight are mostly those of packets, and now and then as large as they can be.
func length(r *rand.Rand) uint32 {
	if r.IntN(5000) == 0 {
		return r.Uint32()
	}
	return r.Uint32N(9000)
}

func weight(r *rand.Rand) uint32 {
	if r.IntN(5000) == 0 {
		return r.Uint32()
	}
	return 1 + r.Uint32N(9)
}

// TestAddAgainstTwin compares cells with sums that are kept by cell and packet
// in maps. Where a packet goes is asked of points with one packet each.
func TestAddAgainstTwin(t *testing.T) {
	for _, c := range shapes() {
		r := rand.New(rand.NewPCG(1, c.Seed))
		p := newPoint(t, c)
		p.Begin(7)
		twin := make([]Cell, len(p.cells))
		outside := uint64(0)
		for range 500 {
			flow, id, bytes, weight := r.Uint64N(20), r.Uint64(), r.Uint32N(2000), 1+r.Uint32N(100)
			rel := r.Int64N(4*c.IntervalNs) - c.IntervalNs
			p.AddWeighted(flow, id, 7*c.IntervalNs+rel, bytes, weight)
			if rel < -(c.IntervalNs/2) || rel >= 2*c.IntervalNs-c.IntervalNs/2 {
				outside++
				continue
			}
			alone := p.Clone()
			alone.Begin(7)
			alone.Add(flow, id, alone.begin()+1, 1)
			for _, i := range cellsOf(p, flow, id) {
				row, column := i/c.Columns, i%c.Columns
				if off := (column - p.base(flow, row) + c.Columns) % c.Columns; off >= c.Virtual {
					t.Fatalf("%+v: row %d, column %d is %d beyond the flow's base", c, row, column, off)
				}
				twin[i].Sum += rel * int64(weight)
				twin[i].Count += uint64(weight)
				twin[i].Bytes += uint64(bytes)
				twin[i].Digest += alone.at(i).Digest
			}
		}
		if p.Outside() != outside || p.Packets() != 500-outside {
			t.Errorf("%+v: %d packets, %d outside, expected %d", c, p.Packets(), p.Outside(), outside)
		}
		for i := range twin {
			if twin[i] != p.at(i) {
				t.Fatalf("%+v: cell %d is %+v, expected %+v", c, i, p.at(i), twin[i])
			}
		}
	}
}

// TestBlockAgainstAdd: packets of several points that go through a block give the
// cells of packets that are added one by one, with and without the processor's help.
func TestBlockAgainstAdd(t *testing.T) {
	defer func(w bool) { wide = w }(wide)
	for _, w := range []bool{wide, false} {
		wide = w
		for _, c := range shapes() {
			r := rand.New(rand.NewPCG(9, c.Seed))
			together, err := NewPoints(c, 3)
			if err != nil {
				t.Fatal(err)
			}
			// The last point is of a group of its own.
			blocked := append(together, newPoint(t, c))
			var single []*Point
			for i, p := range blocked {
				p.Enter(int64(i))
				single = append(single, p.Clone())
			}
			var b blockOf
			for range 60 {
				for range r.IntN(3 * BlockSize) {
					i, flow, id, at, bytes, times := r.IntN(len(blocked)), r.Uint64N(20), r.Uint64(), r.Int64N(3*c.IntervalNs), length(r), weight(r)
					if i == 3 && r.IntN(20) != 0 {
						i = 0 // else most blocks are small
					}
					single[i].AddWeighted(flow, id, at, bytes, times)
					b.put(blocked[i], flow, id, at, bytes, times)
				}
				b.flush()
			}
			for i, p := range blocked {
				if p.Packets() == 0 || single[i].Packets() != p.Packets() || single[i].Outside() != p.Outside() {
					t.Errorf("%+v: %d packets, in blocks %d", c, single[i].Packets(), p.Packets())
				}
				if !slices.Equal(single[i].wide(), p.wide()) {
					t.Fatalf("%+v: cells of point %d differ with wide = %t", c, i, wide)
				}
			}
		}
	}
}

// TestAddToAgainstAdd: blocks of packets of one point give its cells and counts as packets that are added one by one, also if some are outside of
// the interval or too long for a cell, and in the rows that suit the flows.
func TestAddToAgainstAdd(t *testing.T) {
	defer func(w bool) { wide = w }(wide)
	for _, w := range []bool{wide, false} {
		wide = w
		for _, c := range shapes() {
			r := rand.New(rand.NewPCG(19, c.Seed))
			together, err := NewPoints(c, 2)
			if err != nil {
				t.Fatal(err)
			}
			p := together[1]
			p.Enter(3)
			p.SetRows(1 + r.IntN(c.Rows))
			single := p.Clone()
			single.Enter(3)
			var b Block
			for i := range b.Weight {
				b.Weight[i] = 1
			}
			bad := 0
			for range 200 {
				n, odd, out := r.IntN(BlockSize+1), r.IntN(4) == 0, uint64(0)
				for k := range n {
					b.Flow[k], b.ID[k], b.Time[k], b.Bytes[k] = r.Uint64N(20), r.Uint64(), 3*c.IntervalNs+r.Int64N(c.IntervalNs), r.Uint32N(9000)
					if odd {
						b.Bytes[k] = length(r)
						b.Time[k] += (r.Int64N(5) - 2) * r.Int64N(c.IntervalNs)
					}
					before := single.Outside()
					single.Add(b.Flow[k], b.ID[k], b.Time[k], b.Bytes[k])
					out |= (single.Outside() - before) << k
				}
				if got := b.AddTo(p, n); got != out {
					t.Fatalf("%+v: outside are %b, want %b", c, got, out)
				}
				bad += bits.OnesCount64(out)
			}
			if bad == 0 || p.Packets() != single.Packets() || p.Outside() != single.Outside() {
				t.Errorf("%+v: %d packets and %d outside, one by one %d and %d", c, p.Packets(), p.Outside(), single.Packets(), single.Outside())
			}
			if !slices.Equal(single.wide(), p.wide()) {
				t.Fatalf("%+v: cells differ with wide = %t", c, wide)
			}
		}
	}
}

func TestTooManyPoints(t *testing.T) {
	c := DefaultConfig()
	c.Columns = MaxCells / 4
	if _, err := NewPoints(c, 1<<10); err == nil {
		t.Error("a group of 2^32 cells")
	}
}

// TestScatter: rows sample at their rates, offsets in the virtual LDA are
// equally likely, and neither depends on the other or on another row. Each
// deviate exceeds 6.8 with a chance of 1e-11; there are below 1000.
func TestScatter(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testScatter(t, family) })
	}
}

func testScatter(t *testing.T, family hash.Family) {
	c := Config{Rows: 5, Columns: 1000, Virtual: 6, Rates: []float64{0.01, 0.1, 0.5, 1, 0.25}, IntervalNs: 1e9, Seed: 8, Hash: family}
	p := newPoint(t, c)
	const n = 200_000
	r := rand.New(rand.NewPCG(2, 2))
	var joint [5][5]int
	var offsets [5][6]int
	for range n {
		id := r.Uint64()
		var in [5]bool
		before := counts(p, 1)
		p.Add(1, id, 0, 1)
		after := counts(p, 1)
		for row := range 5 {
			for off := range 6 {
				if after[row][off] != before[row][off] {
					in[row] = true
					offsets[row][off]++
				}
			}
		}
		for a := range 5 {
			for b := range 5 {
				if in[a] && in[b] {
					joint[a][b]++
				}
			}
		}
	}
	check := func(what string, seen int, prob float64) {
		if z := (float64(seen) - n*prob) / math.Sqrt(n*prob*(1-prob)+1e-9); math.Abs(z) > 6.8 {
			t.Errorf("%s: %d of %d, expected a share of %g (deviate %.1f)", what, seen, n, prob, z)
		}
	}
	for a := range 5 {
		for b := range 5 {
			prob := c.Rates[a] * c.Rates[b]
			if a == b {
				prob = c.Rates[a]
			}
			check("rows together", joint[a][b], prob)
		}
		for off := range 6 {
			check("offset", offsets[a][off], c.Rates[a]/6)
		}
	}
}

// counts reads the counts of a flow's virtual LDA.
func counts(p *Point, flow uint64) (n [5][6]uint64) {
	for row := range 5 {
		for off := range 6 {
			n[row][off] = p.Cell(row, (p.base(flow, row)+off)%p.config.Columns).Count
		}
	}
	return n
}

// TestSumsAreExactUpToCapacity fills a cell with the extreme timestamps, up to
// the capacity and beyond, and compares with integers that cannot overflow.
func TestSumsAreExactUpToCapacity(t *testing.T) {
	for _, interval := range []int64{2, 1e6, 1e9, maxIntervalNs} {
		c := Config{Rows: 1, Columns: 1, Virtual: 1, IntervalNs: interval}
		early, late := -interval/2, 2*interval-interval/2-1
		capacity := c.capacity()
		for _, swap := range []bool{false, true} {
			a, b := newPoint(t, c), newPoint(t, c)
			ta, tb := early, late
			if swap {
				ta, tb = tb, ta
			}
			want, delay := new(big.Int), big.NewInt(tb-ta)
			add := func(n uint64) {
				// As few packets as possible: the weight is what fills the cell.
				for n > 0 {
					w := uint32(min(n, math.MaxUint32))
					a.AddWeighted(1, n, ta, 1, w)
					b.AddWeighted(1, n, tb, 1, w)
					want.Add(want, new(big.Int).Mul(delay, big.NewInt(int64(w))))
					n -= uint64(w)
				}
			}
			// Fill by packets where that is quick, else by doubling copies.
			if capacity < 1<<40 {
				add(capacity)
			} else {
				add(capacity >> 24)
				for range 24 {
					if a.Merge(a.Clone()) != nil || b.Merge(b.Clone()) != nil {
						t.Fatal("a point does not merge with its copy")
					}
					want.Lsh(want, 1)
				}
				add(capacity - a.at(0).Count)
			}
			d, err := Subtract(a, b, AnyDelay())
			if err != nil {
				t.Fatal(err)
			}
			if a.at(0).Count != capacity || d.State(0, 0) != Usable {
				t.Fatalf("interval %d: count %d of %d, %s", interval, a.at(0).Count, capacity, d.State(0, 0))
			}
			if got := b.at(0).Sum - a.at(0).Sum; !want.IsInt64() || got != want.Int64() {
				t.Errorf("interval %d: difference %d, want %s", interval, got, want)
			}
			// No sum wrapped either: it has the sign of its timestamps.
			for _, s := range []struct{ sum, t int64 }{{a.at(0).Sum, ta}, {b.at(0).Sum, tb}} {
				exact := new(big.Int).Mul(big.NewInt(s.t), new(big.Int).SetUint64(capacity))
				if !exact.IsInt64() || exact.Int64() != s.sum {
					t.Errorf("interval %d: sum %d, want %s", interval, s.sum, exact)
				}
			}
			add(1)
			if d, _ = Subtract(a, b, AnyDelay()); d.State(0, 0) != Overfull || d.Flow(1, 1, 0.1).HasDelay {
				t.Errorf("interval %d: a cell beyond its capacity is %s", interval, d.State(0, 0))
			}
		}
	}
}

func TestMerge(t *testing.T) {
	for _, c := range shapes() {
		r := rand.New(rand.NewPCG(3, c.Seed))
		whole, parts := newPoint(t, c), []*Point{newPoint(t, c), newPoint(t, c), newPoint(t, c)}
		for range 2000 {
			flow, id, at, bytes, w := r.Uint64N(50), r.Uint64(), r.Int64N(2*c.IntervalNs), length(r), weight(r)
			whole.AddWeighted(flow, id, at, bytes, w)
			parts[r.IntN(3)].AddWeighted(flow, id, at, bytes, w)
		}
		parts[2].Mark(Partial)
		whole.Mark(Partial)
		forth, back := parts[0].Clone(), parts[2].Clone()
		for _, err := range []error{forth.Merge(parts[1]), forth.Merge(parts[2]), back.Merge(parts[1]), back.Merge(parts[0])} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range whole.cells {
			if whole.at(i) != forth.at(i) || whole.at(i) != back.at(i) {
				t.Fatalf("%+v: cell %d: whole %+v, merged %+v and %+v", c, i, whole.at(i), forth.at(i), back.at(i))
			}
		}
		if forth.Packets() != whole.Packets() || forth.Outside() != whole.Outside() || forth.Flags() != whole.Flags() {
			t.Errorf("%+v: merged points count otherwise", c)
		}
	}
	a, b := newPoint(t, shapes()[1]), newPoint(t, shapes()[1])
	b.Begin(1)
	if a.Merge(b) == nil || a.Merge(newPoint(t, shapes()[2])) == nil {
		t.Error("points of other intervals or shapes merge")
	}
}

func TestBeginEmpties(t *testing.T) {
	p := newPoint(t, shapes()[3])
	p.Add(1, 2, 3, 4)
	p.Add(1, 2, 1<<50, 4)
	p.Mark(Stepped | Partial)
	p.Begin(3)
	q := newPoint(t, shapes()[3])
	q.Begin(3)
	if p.Packets() != 0 || p.Outside() != 0 || p.Flags() != 0 || p.Interval() != 3 {
		t.Error("an interval begins with what was before")
	}
	for i := range p.cells {
		if p.at(i) != q.at(i) {
			t.Fatalf("cell %d is not empty", i)
		}
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	for _, c := range shapes() {
		p := newPoint(t, c)
		id := uint64(0)
		var b blockOf
		if n := testing.AllocsPerRun(1000, func() {
			id++
			p.AddWeighted(id, id, int64(id), 60, 2)
			for i := range uint64(3) {
				b.put(p, 0, i, int64(id), 60, 1)
			}
			b.flush()
		}); n != 0 {
			t.Errorf("%+v: %v allocations", c, n)
		}
	}
}

func TestStepDetector(t *testing.T) {
	d := StepDetector{ToleranceNs: 100}
	for i, c := range []struct {
		clock, steady int64
		want          bool
	}{
		{1 << 60, 5, false}, // the first reading tells nothing
		{1<<60 + 1000, 1005, false},
		{1<<60 + 2090, 2005, false}, // slewed
		{1<<60 + 3190, 3005, false}, // again, from there
		{1<<60 + 4300, 4005, true},  // 110 ahead
		{1<<60 + 5300, 5005, false},
		{1<<60 + 6000, 6005, true}, // 300 back
		{1 << 59, 7005, true},
		{1<<59 + 1, 7006, false},
	} {
		if got := d.Observe(c.clock, c.steady); got != c.want {
			t.Errorf("reading %d: %v", i, got)
		}
	}
}
