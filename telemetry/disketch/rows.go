package disketch

import (
	"fmt"
	"strings"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
	"github.com/weirswitch/weir/telemetry/sketch/bloom"
	"github.com/weirswitch/weir/telemetry/sketch/conservative"
	"github.com/weirswitch/weir/telemetry/sketch/countmin"
	"github.com/weirswitch/weir/telemetry/sketch/countsketch"
	"github.com/weirswitch/weir/telemetry/sketch/hyperloglog"
	"github.com/weirswitch/weir/telemetry/sketch/tower"
	"github.com/weirswitch/weir/telemetry/sketch/univmon"
)

// Kind is the sketch that a fragment is a row of. The numbers are part of the
// records' format.
type Kind uint8

const (
	CountSketch Kind = 1 + iota
	CountMin
	UnivMon
	Tower
	Conservative
	SuMax
	Bloom
	HyperLogLog
)

// kinds says what each kind is. Those that are linear add up: copies, and slices of an epoch, merge to what one row would hold, and
// cells say what there would be with other subepochs.
var kinds = [...]struct {
	name    string
	linear  bool
	minimum bool // estimates are never too low
	flows   bool // it counts what single flows send
	least   int  // bytes of memory
}{
	CountSketch:  {"countsketch", true, false, true, sketch.CellBytes},
	CountMin:     {"countmin", true, true, true, sketch.CellBytes},
	UnivMon:      {"univmon", true, false, true, sketch.CellBytes},
	Tower:        {"tower", false, true, true, tower.LeastBytes},
	Conservative: {"conservative", false, true, true, conservative.LeastBytes},
	SuMax:        {"sumax", false, true, true, conservative.LeastBytes},
	Bloom:        {"bloom", false, true, false, bloom.LeastBytes},
	HyperLogLog:  {"hyperloglog", false, false, false, hyperloglog.MinRegisters},
}

func (k Kind) known() bool { return k >= CountSketch && int(k) < len(kinds) }

// Flows says that a kind estimates how often a flow occurs. Bloom says in how many epochs it did, HyperLogLog how many flows
// there are: their epochs have one subepoch.
func (k Kind) Flows() bool { return k.known() && kinds[k].flows }

// String is the kind's name in configuration files.
func (k Kind) String() string {
	if k.known() {
		return kinds[k].name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// KindNames lists the kinds' names, for messages.
func KindNames() string {
	var names []string
	for k := CountSketch; k.known(); k++ {
		names = append(names, k.String())
	}
	return strings.Join(names, ", ")
}

// ParseKind finds a kind by its name.
func ParseKind(name string) (Kind, error) {
	for k := CountSketch; k.known(); k++ {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("sketch %q: choose among %s", name, KindNames())
}

// nonlinear is a row whose updates are not sums. Of a flow it says one number, Estimate.
type nonlinear interface {
	Use(hash.Family)
	Add(flow uint64, v int64)
	AddBatch(flows []uint64, v []int64)
	Reset(seed uint64)
	Estimate(flow uint64) int64
	// Levels have counters of their own, of which Level says which estimate a flow; Width of them are in Cells, and Error bounds
	// the mean error of their estimates.
	Levels() int
	Level(flow uint64) int
	Width(level int) int
	Cells(level int) []int32
	Cell(level, i int) int32
	Error(level int) float64
	// Total is the sum of what was added; Holds says whether the row can be what is left of that.
	Total() uint64
	Holds() bool
	Saturated() uint64
	Bytes() int
	AppendBinary(b []byte) ([]byte, error)
}

// rows are the cells of a fragment: exactly one of the fields is set.
type rows struct {
	sketch *countsketch.Row
	min    *countmin.Row
	univ   *univmon.Fragment
	other  nonlinear
	packed *packed // of a linear kind; nothing can be added to it
}

func newRows(kind Kind, memory, levels int, levelSeed uint64, family hash.Family) (r rows, err error) {
	switch kind {
	case CountSketch:
		r.sketch, err = countsketch.NewRowBytes(memory, 0)
	case CountMin:
		r.min, err = countmin.NewRowBytes(memory, 0)
	case UnivMon:
		r.univ, err = univmon.NewFragmentBytes(levels, memory, levelSeed, 0)
	case Tower:
		r.other, err = tower.NewRowBytes(memory, 0)
	case Conservative, SuMax:
		r.other, err = conservative.NewRowBytes(memory, kind == SuMax, 0)
	case Bloom:
		r.other, err = bloom.NewRowBytes(memory, 0)
	case HyperLogLog:
		r.other, err = hyperloglog.NewRowBytes(memory, levelSeed)
	default:
		err = fmt.Errorf("%v is unknown", kind)
	}
	if err == nil {
		r.use(family)
	}
	return r, err
}

// use makes rows that nothing was added to, or that were decoded, hash by a family.
func (r *rows) use(family hash.Family) {
	switch {
	case r.packed != nil:
		r.packed.family = family
	case r.sketch != nil:
		r.sketch.Use(family)
	case r.min != nil:
		r.min.Use(family)
	case r.other != nil:
		r.other.Use(family)
	default:
		r.univ.Use(family)
	}
}

func (r *rows) kind() Kind {
	switch {
	case r.packed != nil:
		return r.packed.of
	case r.sketch != nil:
		return CountSketch
	case r.min != nil:
		return CountMin
	case r.other != nil:
		return kindOf(r.other)
	}
	return UnivMon
}

func kindOf(r nonlinear) Kind {
	switch r := r.(type) {
	case *conservative.Row:
		if r.OnePass() {
			return SuMax
		}
		return Conservative
	case *bloom.Row:
		return Bloom
	case *hyperloglog.Row:
		return HyperLogLog
	}
	return Tower
}

func (r *rows) add(flow uint64, v int64) {
	switch {
	case r.sketch != nil:
		r.sketch.Add(flow, v)
	case r.min != nil:
		r.min.Add(flow, v)
	case r.other != nil:
		r.other.Add(flow, v)
	default:
		r.univ.Add(flow, v)
	}
}

func (r *rows) addBatch(flows []uint64, v []int64) {
	switch {
	case r.sketch != nil:
		r.sketch.AddBatch(flows, v)
	case r.min != nil:
		r.min.AddBatch(flows, v)
	case r.other != nil:
		r.other.AddBatch(flows, v)
	default:
		r.univ.AddBatch(flows, v)
	}
}

func (r *rows) reset(seed uint64) {
	switch {
	case r.sketch != nil:
		r.sketch.Reset(seed)
	case r.min != nil:
		r.min.Reset(seed)
	case r.other != nil:
		r.other.Reset(seed)
	default:
		r.univ.Reset(seed)
	}
}

// observe is O_R.
func (r *rows) observe(flow uint64) observed {
	switch {
	case r.packed != nil:
		return r.packed.observe(flow)
	case r.sketch != nil:
		return observed{count: float64(r.sketch.Estimate(flow))}
	case r.min != nil:
		return observed{count: float64(r.min.Estimate(flow))}
	case r.other != nil:
		return observed{count: float64(r.other.Estimate(flow))}
	}
	return observed{count: float64(r.univ.Estimate(flow))}
}

// error is Equation 4, of a level of UnivMon.
func (r *rows) error(level int) float64 {
	switch {
	case r.packed != nil:
		return r.packed.errors[level]
	case r.sketch != nil:
		return r.sketch.Error()
	case r.min != nil:
		return r.min.Error()
	case r.other != nil:
		return r.other.Error(level)
	}
	return r.univ.Error(level)
}

// cells are those of a level.
func (r *rows) cells(level int) []int32 {
	switch {
	case r.packed != nil:
		return r.packed.cells(level)
	case r.sketch != nil:
		return r.sketch.Cells()
	case r.min != nil:
		return r.min.Cells()
	case r.other != nil:
		return r.other.Cells(level)
	}
	return r.univ.Row(level)
}

// width is how many cells a level has, of Tower those of bytes.
func (r *rows) width() int {
	switch {
	case r.packed != nil:
		return r.packed.width
	case r.univ != nil:
		return r.univ.Width()
	case r.other != nil:
		return r.other.Width(0)
	}
	return len(r.cells(0))
}

// at is a cell of a level.
func (r *rows) at(level, column int) float64 {
	if r.packed != nil && r.packed.scale != nil {
		value, _, _ := r.packed.rounded(level, column)
		return value
	}
	if r.packed != nil {
		return float64(r.packed.at(level, column))
	}
	if r.other != nil {
		return float64(r.other.Cell(level, column))
	}
	return float64(r.cells(level)[column])
}

// levelSeed is UnivMon's, 0 of other kinds.
func (r *rows) levelSeed() uint64 {
	switch {
	case r.packed != nil:
		return r.packed.levelSeed
	case r.univ != nil:
		return r.univ.LevelSeed()
	}
	if h, ok := r.other.(*hyperloglog.Row); ok {
		return h.Seed()
	}
	return 0
}

func (r *rows) levels() int {
	if r.packed != nil {
		return r.packed.nLevels
	}
	if r.univ != nil {
		return r.univ.Levels()
	}
	if r.other != nil {
		return r.other.Levels()
	}
	return 1
}

// level is that of a flow: 0 but in UnivMon and Tower; of the latter it is what its counters hold that says so.
func (r *rows) level(flow uint64) int {
	if r.packed != nil {
		return r.packed.level(flow)
	}
	if r.univ != nil {
		return r.univ.Level(flow)
	}
	if r.other != nil {
		return r.other.Level(flow)
	}
	return 0
}

func (r *rows) bytes() int {
	switch {
	case r.packed != nil:
		return r.packed.bytes()
	case r.sketch != nil:
		return r.sketch.Bytes()
	case r.min != nil:
		return r.min.Bytes()
	case r.other != nil:
		return r.other.Bytes()
	}
	return r.univ.Bytes()
}

func (r *rows) saturated() uint64 {
	switch {
	case r.packed != nil:
		return r.packed.saturate
	case r.sketch != nil:
		return r.sketch.Saturated()
	case r.min != nil:
		return r.min.Saturated()
	case r.other != nil:
		return r.other.Saturated()
	}
	return r.univ.Saturated()
}

// holds says whether the cells can be what is left of additions that sum up to
// value: of Count-Min their sum is that, of Count Sketch it is so up to signs, and UnivMon
// gives it. Cells that saturated may be anything.
func (r *rows) holds(value uint64) bool {
	if r.packed != nil {
		return r.packed.holds(value)
	}
	if r.other != nil {
		return r.other.Total() == value && (r.other.Saturated() > 0 || r.other.Holds())
	}
	if r.univ != nil && uint64(r.univ.Total()) != value {
		return false
	}
	if r.saturated() > 0 {
		return true
	}
	sum, odd := uint64(0), uint64(0)
	for level := range r.levels() {
		for _, c := range r.cells(level) {
			if c < 0 && r.min != nil {
				return false
			}
			sum += uint64(max(int64(c), -int64(c)))
			odd ^= uint64(c) & 1
		}
	}
	if r.min != nil {
		return sum == value
	}
	return sum <= value && odd == value&1
}

// merge takes rows of one kind.
func (r *rows) merge(o *rows) error {
	switch {
	case r.sketch != nil:
		return r.sketch.Merge(o.sketch)
	case r.min != nil:
		return r.min.Merge(o.min)
	case r.other != nil:
		return mergeNonlinear(r.other, o.other)
	}
	return r.univ.Merge(o.univ)
}

func mergeNonlinear(r, o nonlinear) error {
	switch r := r.(type) {
	case *tower.Row:
		if o, ok := o.(*tower.Row); ok {
			return r.Merge(o)
		}
	case *conservative.Row:
		if o, ok := o.(*conservative.Row); ok {
			return r.Merge(o)
		}
	case *bloom.Row:
		if o, ok := o.(*bloom.Row); ok {
			return r.Merge(o)
		}
	case *hyperloglog.Row:
		if o, ok := o.(*hyperloglog.Row); ok {
			return r.Merge(o)
		}
	}
	return fmt.Errorf("merge rows of different kinds: %w", sketch.ErrShape)
}

func cloneNonlinear(r nonlinear) nonlinear {
	switch r := r.(type) {
	case *conservative.Row:
		return r.Clone()
	case *bloom.Row:
		return r.Clone()
	case *hyperloglog.Row:
		return r.Clone()
	}
	return r.(*tower.Row).Clone()
}

func (r *rows) clone() rows {
	switch {
	case r.packed != nil:
		return *r
	case r.sketch != nil:
		return rows{sketch: r.sketch.Clone()}
	case r.min != nil:
		return rows{min: r.min.Clone()}
	case r.other != nil:
		return rows{other: cloneNonlinear(r.other)}
	}
	return rows{univ: r.univ.Clone()}
}

func (r *rows) appendBinary(b []byte) ([]byte, error) {
	switch {
	case r.packed != nil:
		return append(b, r.packed.body...), nil
	case r.sketch != nil:
		return r.sketch.AppendBinary(b)
	case r.min != nil:
		return r.min.AppendBinary(b)
	case r.other != nil:
		return r.other.AppendBinary(b)
	}
	return r.univ.AppendBinary(b)
}

func decodeRows(kind Kind, b []byte) (r rows, err error) {
	switch kind {
	case CountSketch:
		r.sketch = new(countsketch.Row)
		err = r.sketch.UnmarshalBinary(b)
	case CountMin:
		r.min = new(countmin.Row)
		err = r.min.UnmarshalBinary(b)
	case UnivMon:
		r.univ = new(univmon.Fragment)
		err = r.univ.UnmarshalBinary(b)
	case Tower:
		t := new(tower.Row)
		r.other, err = t, t.UnmarshalBinary(b)
	case Conservative, SuMax:
		r.other, err = conservative.Decode(b, kind == SuMax)
	case Bloom:
		r.other, err = bloom.Decode(b)
	case HyperLogLog:
		r.other, err = hyperloglog.Decode(b)
	default:
		err = fmt.Errorf("%v is unknown", kind)
	}
	return r, err
}
