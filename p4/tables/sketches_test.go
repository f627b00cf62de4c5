package tables

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/oblivious"
	fragments "github.com/weirswitch/weir/telemetry/disketch"
	points "github.com/weirswitch/weir/telemetry/lds"
	samples "github.com/weirswitch/weir/telemetry/oblivious"
)

// fragment is the control disketch_fragment, without its counts.
type fragment struct {
	x       *target
	control string
	cells   map[uint64]int32 // by bank << 15 | column
}

func (f *fragment) reg(name string, index uint64) uint64 {
	return f.x.registers[f.control+"."+name][int(index)]
}

func (f *fragment) count(flow, now, bytes uint64, hostToHost bool) {
	_, shape := f.x.apply(f.control + ".shape")
	epoch := now >> shape["log_epoch"]
	parity := epoch & 1
	if f.reg("schedule_epoch", parity) != epoch {
		return
	}
	log := f.reg("schedule_log", parity)
	slice, last := now>>(shape["log_epoch"]-log), uint64(1)<<log-1
	bank := slice&last&1 ^ f.reg("schedule_flip", parity)
	k := f.reg("schedule_key", parity)
	h := f.x.hash(k, little(flow, 8))
	first := uint64(h.b) & last
	if second := (first + (last+1)>>1) & last; first != slice&last && !(hostToHost && shape["in_two"] == 1 && second == slice&last) {
		return
	}
	v := int32(1)
	if shape["in_bytes"] == 1 {
		v = int32(bytes)
	}
	k = f.reg("cell_key", parity)
	h = f.x.hash(k, little(flow, 8))
	if shape["with_signs"] == 1 && h.b&1 == 1 {
		v = -v
	}
	column, _ := bits.Mul64(uint64(h.a)<<32|uint64(h.b), shape["row_cells"])
	if _, levels := f.x.apply(f.control + ".levels"); levels["level_top"] != 0 {
		l := f.x.hash(levels["of_levels"], little(flow, 8))
		column += uint64(bits.TrailingZeros32(l.b|uint32(levels["level_top"]))) * shape["row_cells"]
	}
	f.cells[bank<<15|column] += v
}

// TestFragments: over an epoch as the tables begin it, and one with more subepochs, the
// cells are those of the Go fragments.
func TestFragments(t *testing.T) { eachFamily(t, "switch.toml", testFragments) }

func testFragments(t *testing.T, s *Switch) {
	x := build(t, s)
	c := s.Stages["disketch"].(*disketch.Config)
	for i := range c.Fragments {
		shape := c.FragmentConfig(i, s.ID, s.Hash)
		plan, err := fragments.NewFragment(shape)
		if err != nil {
			t.Fatal(err)
		}
		epoch := shape.Epochs.Epoch(options.Now)
		for _, log := range []uint8{0, 2} {
			schedule := plan.Schedule(epoch, log)
			for _, r := range ScheduleRegisters(i, schedule, epoch&1 != 0) {
				before := x.registers[r.Name][r.Index]
				if log == 0 && before != r.Value {
					t.Errorf("%s[%d] is %#x at first, want %#x", r.Name, r.Index, before, r.Value)
				}
				x.registers[r.Name][r.Index] = r.Value
			}
			for subepoch := range schedule.N() {
				compareFragment(t, x, i, plan, schedule, subepoch)
			}
		}
	}
}

func compareFragment(t *testing.T, x *target, i int, plan *fragments.Fragment, s fragments.Schedule, subepoch uint64) {
	t.Helper()
	shape := plan.Config()
	want, err := plan.NewCounter()
	if err != nil {
		t.Fatal(err)
	}
	want.Begin(s, subepoch)
	got := fragment{x: x, control: fragmentControl(i), cells: map[uint64]int32{}}
	r := rand.New(rand.NewPCG(uint64(i), subepoch))
	start := s.Epoch<<shape.Epochs + subepoch<<(uint8(shape.Epochs)-s.Log)
	for range 5000 {
		flow, bytes, single := uint64(r.Uint32()), 60+r.Uint64N(1455), r.IntN(4) == 0
		now := start + r.Uint64N(1<<(uint8(shape.Epochs)-s.Log))
		v := int64(1)
		if shape.Unit == fragments.Bytes {
			v = int64(bytes)
		}
		want.Add(flow, v, single)
		got.count(flow, now, bytes, single)
	}
	bank := subepoch&1 ^ s.Epoch&1
	record, counted := want.Record(), 0
	for column, v := range record.Cells(0) {
		if g := got.cells[bank<<15|uint64(column)]; g != v {
			t.Fatalf("fragment %d, subepoch %d of %d, cell %d: %d by the tables, %d in Go", i, subepoch, s.N(), column, g, v)
		}
		delete(got.cells, bank<<15|uint64(column))
		if v != 0 {
			counted++
		}
	}
	if len(got.cells) != 0 || counted == 0 {
		t.Errorf("fragment %d: %d cells that Go has not, %d that are not zero", i, len(got.cells), counted)
	}
}

// TestSampler: the hash that the tables give is the rank, and the threshold admits
// what the sampler's limit does.
func TestSampler(t *testing.T) { eachFamily(t, "switch.toml", testSampler) }

func testSampler(t *testing.T, s *Switch) {
	x := build(t, s)
	c := s.Stages["oblivious"].(*oblivious.Config)
	main, _ := c.Samplers(s.Hash)
	sampler, err := samples.NewSampler(main)
	if err != nil {
		t.Fatal(err)
	}
	_, k := x.apply(obliviousControl + ".sampler")
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		sampler.Add(r.Uint64(), 100, &samples.Key{})
	}
	epoch := options.Now >> c.EpochBits
	if x.registers[obliviousControl+".threshold"][int(epoch&1)] != 1<<32-1 || x.registers[obliviousControl+".epoch"][int(epoch&1)] != epoch {
		t.Error("the present epoch does not begin with all packets admitted")
	}
	lowered := ThresholdRegisters(epoch, sampler.Limit())
	admitted := 0
	for range 50_000 {
		id := r.Uint64()
		rank := x.hash(k["of_ranks"], little(id, 8))
		want := sampler.Admits(id, 100)
		got := uint64(rank.a) <= lowered[0].Value
		if want && !got {
			t.Fatalf("packet %#x of rank %#x%08x: the sampler admits it, the table does not", id, rank.a, rank.b)
		}
		if got && !want && uint64(rank.a) != lowered[0].Value {
			t.Fatalf("packet %#x of rank %#x%08x: the table admits it, the sampler does not", id, rank.a, rank.b)
		}
		if got {
			admitted++
		}
	}
	if admitted == 0 || admitted > 10_000 {
		t.Errorf("%d of 50000 packets are admitted", admitted)
	}
}

// TestPoints: packets go to the cells of the Go points, on both sides.
func TestPoints(t *testing.T) { eachFamily(t, "switch.toml", testPoints) }

func testPoints(t *testing.T, s *Switch) {
	x := build(t, s)
	for stage, control := range map[string]string{"lds_ingress": ldsIngressControl, "lds_egress": ldsEgressControl} {
		c := s.Stages[stage].(*lds.Config)
		want, err := points.NewPoint(c.Sketch(s.Hash))
		if err != nil {
			t.Fatal(err)
		}
		_, shape := x.apply(control + ".shape")
		_, rates := x.apply(control + ".rates")
		_, k := x.apply(control + ".keys")
		interval := int64(options.Now) >> shape["log_interval"]
		want.Begin(interval)
		cells := map[[2]int]points.Cell{}
		r := rand.New(rand.NewPCG(7, 8))
		for range 3000 {
			words, id := []byte{10, 0, 0, byte(r.Uint32()), 10, 1, 2, 3, 4, 5, 6, 7, 17, 4, 0, 0}, r.Uint64()
			name := x.hash(k["of_name"], words)
			flow := uint64(name.a)<<32 | uint64(name.b)
			at, bytes := interval<<shape["log_interval"]+r.Int64N(1<<shape["log_interval"]), 60+r.Uint32N(1455)
			if w := s.Hash.Uint64x2(0, leWord(words[:8]), leWord(words[8:])); w != flow {
				t.Fatalf("flow %#x, want %#x", flow, w)
			}
			want.Add(flow, id, at, bytes)
			digest := x.hash(k["of_packet_0"], little(id, 8))
			for row := range 4 {
				flowOf := fmt.Sprintf("flow_%d", row/2)
				h := x.hash(k["of_"+flowOf], little(flow, 8))
				packetOf := fmt.Sprintf("packet_%d", row/2)
				p := x.hash(k["of_"+packetOf], little(id, 8))
				ofFlow, ofPacket := [2]uint32{h.a, h.b}[row%2], [2]uint32{p.a, p.b}[row%2]
				spread := uint64(ofPacket) * shape["flow_cells"]
				if spread&(1<<32-1) > rates[fmt.Sprintf("limit_%d", row)] {
					continue
				}
				column := (uint64(ofFlow)*shape["row_cells"]>>32 + spread>>32) % shape["row_cells"]
				at2 := [2]int{row, int(column)}
				cell := cells[at2]
				cell.Sum += at - interval<<shape["log_interval"]
				cell.Count++
				cell.Digest += digest.b
				cell.Bytes += uint64(bytes)
				cells[at2] = cell
			}
		}
		for row := range 4 {
			for column := range c.Columns {
				if got := cells[[2]int{row, column}]; got != want.Cell(row, column) {
					t.Fatalf("%s, row %d, column %d: %+v by the tables, %+v in Go", stage, row, column, got, want.Cell(row, column))
				}
			}
		}
		for number, name := range []string{"core0", "core1"} {
			port := map[string]uint64{"h0": 0, "core0": 1, "h1": 2, "core1": 3}[name]
			if action, p := x.apply(control+".point", port); action == "" || p["point_number"] != uint64(number) {
				t.Errorf("%s: port %s is point %d (%q), want %d", stage, name, p["point_number"], action, number)
			}
		}
		if action, _ := x.apply(control+".point", 0); action != "" {
			t.Errorf("%s: h0 is measured", stage)
		}
	}
}

func leWord(b []byte) (w uint64) {
	for i, x := range b {
		w |= uint64(x) << (8 * i)
	}
	return w
}

// TestFlowWeights: a policy's entries are for either address and either port, of its IP version alone, in the order of policies.
func TestFlowWeights(t *testing.T) {
	x := build(t, load(t, "sketches.toml"))
	table := ldsIngressControl + ".weights"
	v6, v4 := Value{High: 0x20010db8_0000_0000}, Value{High: 10 << 56}
	ones33, ones8, none := ones(33, 128), ones(8, 128), Value{}
	type entry struct {
		times, ipv4, version       uint64 // version is the mask of ipv4
		src, srcMask, dst, dstMask Value
		proto, srcPort, dstPort    uint64
	}
	want := []entry{
		{10000, 0, 1, v6, ones33, none, none, 6, 443, 0}, {10000, 0, 1, v6, ones33, none, none, 6, 0, 443},
		{10000, 0, 1, none, none, v6, ones33, 6, 443, 0}, {10000, 0, 1, none, none, v6, ones33, 6, 0, 443},
		{3, 1, 1, v4, ones8, none, none, 0, 0, 0}, {3, 1, 1, none, none, v4, ones8, 0, 0, 0},
		{2, 0, 0, none, none, none, none, 0, 0, 0},
	}
	for i, e := range x.tables[table] {
		k := e.Keys
		got := entry{e.Action.Params[0].Value.Low, k[0].Value.Low, k[0].Mask.Low, k[1].Value, k[1].Mask, k[2].Value, k[2].Mask,
			k[3].Value.Low, k[4].Value.Low, k[5].Value.Low}
		if i >= len(want) || got != want[i] || e.Priority != i+1 {
			t.Errorf("entry %d, of priority %d: %+v", i, e.Priority, got)
		}
	}
	if n := len(x.tables[table]); n != len(want) {
		t.Errorf("%d entries, want %d", n, len(want))
	}
}
