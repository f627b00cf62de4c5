package disketch

import (
	"fmt"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/countmin"
	"github.com/weirswitch/weir/telemetry/sketch/countsketch"
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
)

var kindNames = map[Kind]string{CountSketch: "countsketch", CountMin: "countmin", UnivMon: "univmon", Tower: "tower"}

// String is the kind's name in configuration files.
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ParseKind finds a kind by its name.
func ParseKind(name string) (Kind, error) {
	for k, n := range kindNames {
		if n == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("sketch %q: choose countsketch, countmin, univmon or tower", name)
}

// rows are the cells of a fragment: exactly one of the pointers is set.
type rows struct {
	sketch *countsketch.Row
	min    *countmin.Row
	univ   *univmon.Fragment
	tower  *tower.Row
	packed *packed // of any kind; nothing can be added to it
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
		r.tower, err = tower.NewRowBytes(memory, 0)
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
	case r.tower != nil:
		r.tower.Use(family)
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
	case r.tower != nil:
		return Tower
	}
	return UnivMon
}

func (r *rows) add(flow uint64, v int64) {
	switch {
	case r.sketch != nil:
		r.sketch.Add(flow, v)
	case r.min != nil:
		r.min.Add(flow, v)
	case r.tower != nil:
		r.tower.Add(flow, v)
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
	case r.tower != nil:
		r.tower.AddBatch(flows, v)
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
	case r.tower != nil:
		r.tower.Reset(seed)
	default:
		r.univ.Reset(seed)
	}
}

// estimate is O_R.
func (r *rows) estimate(flow uint64) float64 {
	switch {
	case r.packed != nil:
		return r.packed.estimate(flow)
	case r.sketch != nil:
		return float64(r.sketch.Estimate(flow))
	case r.min != nil:
		return float64(r.min.Estimate(flow))
	case r.tower != nil:
		return float64(r.tower.Estimate(flow))
	}
	return float64(r.univ.Estimate(flow))
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
	case r.tower != nil:
		return r.tower.Error(level)
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
	case r.tower != nil:
		return r.tower.Cells(level)
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
	case r.tower != nil:
		return r.tower.Width(0)
	}
	return len(r.cells(0))
}

// at is a cell of a level.
func (r *rows) at(level, column int) int32 {
	if r.packed != nil {
		return r.packed.at(level, column)
	}
	if r.tower != nil {
		return r.tower.Cell(level, column)
	}
	return r.cells(level)[column]
}

// levelSeed is UnivMon's, 0 of other kinds.
func (r *rows) levelSeed() uint64 {
	switch {
	case r.packed != nil:
		return r.packed.levelSeed
	case r.univ != nil:
		return r.univ.LevelSeed()
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
	if r.tower != nil {
		return 2
	}
	return 1
}

// level is that of a flow: 0 but in UnivMon, and in Tower, where it is what its counters hold that says so.
func (r *rows) level(flow uint64) int {
	if r.packed != nil {
		return r.packed.level(flow)
	}
	if r.univ != nil {
		return r.univ.Level(flow)
	}
	if r.tower != nil {
		return r.tower.Level(flow)
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
	case r.tower != nil:
		return r.tower.Bytes()
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
	case r.tower != nil:
		return r.tower.Saturated()
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
	if r.tower != nil {
		return r.tower.Total() == value && (r.tower.Saturated() > 0 || r.tower.Holds())
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
	case r.tower != nil:
		return r.tower.Merge(o.tower)
	}
	return r.univ.Merge(o.univ)
}

func (r *rows) clone() rows {
	switch {
	case r.packed != nil:
		return *r
	case r.sketch != nil:
		return rows{sketch: r.sketch.Clone()}
	case r.min != nil:
		return rows{min: r.min.Clone()}
	case r.tower != nil:
		return rows{tower: r.tower.Clone()}
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
	case r.tower != nil:
		return r.tower.AppendBinary(b)
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
		r.tower = new(tower.Row)
		err = r.tower.UnmarshalBinary(b)
	default:
		err = fmt.Errorf("%v is unknown", kind)
	}
	return r, err
}
