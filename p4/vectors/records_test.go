package vectors

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/p4/records"
	"github.com/weirswitch/weir/stages/disketch"
	stagelds "github.com/weirswitch/weir/stages/lds"
	telemetry "github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/lds"
	sample "github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// made is a record as it travels, with its header.
type made struct {
	record.Header
	body []byte
}

// name tells a record from the others of a switch.
func (m *made) name() string {
	return fmt.Sprintf("%v %d, plan %d, from %d for %d", m.Kind, m.Instance, m.Plan, m.Start, m.Span)
}

// album keeps records.
type album struct {
	t   *testing.T
	all []made
}

// record implements collector.
func (a *album) record(h *record.Header, body func([]byte) ([]byte, error)) {
	text, err := body(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	a.all = append(a.all, made{*h, text})
}

// edgeBits: the clocks of these tests stop at all edges, which are multiples of 2^19 ns: subepochs and
// intervals have 1 ms at least, of which some are looked at in the middle.
const edgeBits = 19

// edges are the times from one packet to the next at which there is something to do.
func edges(from, to int64) (all []int64) {
	for t := (from>>edgeBits + 1) << edgeBits; t <= to; t += 1 << edgeBits {
		all = append(all, t)
	}
	return all
}

// recordsOfGo takes packets through the Go stages, whose clocks stop at all edges.
func recordsOfGo(t *testing.T, s *Setup, packets []Packet) []made {
	t.Helper()
	a := &album{t: t}
	g, err := newGoSwitch(s.Switch, a)
	if err != nil {
		t.Fatal(err)
	}
	g.pint = nil // Digests are collected like all else.
	for i, p := range packets {
		if i > 0 {
			for _, now := range edges(packets[i-1].Now, p.Now) {
				if now >= g.graph.NextTick() {
					g.graph.Tick(now)
				}
			}
		}
		if _, err := g.step(p); err != nil {
			t.Fatal(err)
		}
	}
	g.finish(packets[len(packets)-1].Now)
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	return a.all
}

// registers are those of a P4 switch that counted what the Go stages did: the records of these are added when
// they are over.
type registers struct {
	t       *testing.T
	setup   *Setup
	plane   *controlPlane       // its state is what came
	cells   map[string][]uint64 // what was there before, and what the control plane wrote
	waiting []made
}

// newRegisters holds numbers that are about to wrap.
func newRegisters(t *testing.T, s *Setup, waiting []made) *registers {
	r := &registers{t: t, setup: s, plane: newControlPlane(s, nil), cells: map[string][]uint64{}, waiting: waiting}
	rng := rand.New(rand.NewPCG(1, 2))
	add := func(name string, size int, bits int) {
		r.cells[name] = make([]uint64, size)
		for i := range r.cells[name] {
			r.cells[name][i] = (-rng.Uint64N(1 << 12)) << (64 - bits) >> (64 - bits)
		}
	}
	for i := range 2 {
		control := fmt.Sprintf("disketch_egress.fragment_%d.", i)
		add(control+"cells", 2<<fragmentColumnBits, 32)
		for name, size := range map[string]int{"packets": 2, "value": 2, "seen": 2, "missed": 1} {
			add(control+name, size, 64)
		}
		for _, name := range []string{"epoch", "log", "flip", "key"} {
			r.cells[control+"schedule_"+name] = make([]uint64, 2)
		}
		r.cells[control+"cell_key"] = make([]uint64, 2)
	}
	for _, name := range []string{"packets", "bytes"} {
		add("oblivious_ingress."+name, 2, 64)
	}
	for _, name := range []string{"threshold", "epoch"} {
		r.cells["oblivious_ingress."+name] = make([]uint64, 2)
	}
	for _, side := range sides {
		for _, name := range []string{"cell_sum_high", "cell_sum_low", "cell_digest_high", "cell_digest_low"} {
			add(side+".side."+name, 2<<(ldsPointBits+ldsRowBits+ldsColumnBits), 32)
		}
		for _, name := range []string{"cell_count", "cell_bytes"} {
			add(side+".side."+name, 2<<(ldsPointBits+ldsRowBits+ldsColumnBits), 64)
		}
		for _, name := range []string{"packets", "outside"} {
			add(side+".side."+name, 2<<ldsPointBits, 64)
		}
	}
	return r
}

// Registers implements records.Target.
func (r *registers) Registers(name string) ([]uint64, error) {
	cells, ok := r.cells[name]
	if !ok {
		return nil, fmt.Errorf("no register %s", name)
	}
	if whole, half := strings.CutSuffix(name, "_low"); half {
		return r.half(whole, 0), nil
	} else if whole, half := strings.CutSuffix(name, "_high"); half {
		return r.half(whole, 32), nil
	}
	sum := slices.Clone(cells)
	for i, v := range r.plane.state[name] {
		if sum[i] += v; narrow(name) {
			sum[i] = uint64(uint32(sum[i]))
		}
	}
	return sum, nil
}

// half are 32 bits of numbers that two registers have.
func (r *registers) half(name string, shift int) []uint64 {
	high, low, came := r.cells[name+"_high"], r.cells[name+"_low"], r.plane.state[name]
	half := make([]uint64, len(low))
	for i := range half {
		sum := high[i]<<32 + low[i]
		if came != nil {
			sum += came[i]
		}
		half[i] = uint64(uint32(sum >> shift))
	}
	return half
}

// WriteRegister implements records.Target.
func (r *registers) WriteRegister(name string, index int, value uint64) error {
	for full, cells := range r.cells {
		if strings.HasSuffix(name, full) {
			cells[index] = value
			return nil
		}
	}
	return fmt.Errorf("no register %s", name)
}

// pass adds what is over at a time, or all.
func (r *registers) pass(now int64, all bool) {
	r.waiting = slices.DeleteFunc(r.waiting, func(m made) bool {
		end := m.Start + m.Span
		if c, ok := stageConfig[stagelds.Config](r.setup.Switch, sides[m.Instance&1]); ok && m.Kind == record.LDS && c.IntervalBit {
			end += m.Span / 2
		}
		if now < end && !all {
			return false
		}
		r.add(&m)
		return true
	})
}

// add adds a record to what came to the registers.
func (r *registers) add(m *made) {
	r.t.Helper()
	switch m.Kind {
	case record.DiSketch:
		d := new(telemetry.Record)
		if err := d.UnmarshalBinary(m.body); err != nil {
			r.t.Fatal(err)
		}
		r.plane.subepoch(fmt.Sprintf("disketch_egress.fragment_%d.", m.Instance), d, d.Subepoch&1^r.flip(d))
	case record.Oblivious:
		var s sample.Sample
		if err := s.UnmarshalBinary(m.body); err != nil {
			r.t.Fatal(err)
		}
		r.plane.state.add("oblivious_ingress.packets", 2, int(m.Start/m.Span&1), s.Packets)
		r.plane.state.add("oblivious_ingress.bytes", 2, int(m.Start/m.Span&1), s.Bytes)
	case record.LDS:
		if err := r.plane.point(&m.Header, m.body); err != nil {
			r.t.Fatal(err)
		}
	}
}

// flip is the bank of an epoch's first subepoch, as the control plane told. It must have told of the schedule
// that the Go stage has.
func (r *registers) flip(d *telemetry.Record) uint64 {
	r.t.Helper()
	told := func(name string) uint64 {
		return r.cells[fmt.Sprintf("disketch_egress.fragment_%d.%s", d.Fragment.Sketch, name)][d.Epoch&1]
	}
	if told("schedule_epoch") != d.Epoch || told("schedule_log") != uint64(d.Log) {
		r.t.Fatalf("epoch %d has 2^%d subepochs in Go; the control plane told of epoch %d with 2^%d", d.Epoch, d.Log, told("schedule_epoch"), told("schedule_log"))
	}
	return told("schedule_flip")
}

// TestRecords: the registers that a switch has when the packets of the vectors have passed become the records
// that the Go stages make of these packets, byte for byte, from numbers on that wrap meanwhile.
func TestRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	logs := map[uint8]int{}
	for i, f := range vectorFiles(t) {
		if likely(f) == boundaryRank {
			continue // packets that arrive in other intervals than the clock's, whose banks a control plane has read by then
		}
		t.Run(strings.TrimSuffix(filepath.Base(f), suffix), func(t *testing.T) {
			v, err := ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			s, err := LoadSetup(setupDir, v.Setup)
			if err != nil {
				t.Fatal(err)
			}
			if i%2 != 0 {
				divide(s)
			}
			want := recordsOfGo(t, s, v.Packets)
			for _, m := range want {
				if m.Kind == record.DiSketch {
					logs[m.body[5]]++
				}
			}
			r := newRegisters(t, s, slices.DeleteFunc(slices.Clone(want), func(m made) bool {
				return m.Kind == record.PINT || !isRead(s, &m)
			}))
			got := &album{t: t}
			now := v.Packets[0].Now
			source := newSource(t, s, r, func() int64 { return now })
			for i, p := range v.Packets {
				if i > 0 {
					for _, now = range append(edges(v.Packets[i-1].Now, p.Now), p.Now) {
						r.pass(now, false)
						source.Collect(now, false, got.record)
					}
				}
				for _, m := range v.Results[i].Messages {
					source.Take(m.copy(), now)
				}
			}
			r.pass(now, true)
			source.Collect(now, true, got.record)
			if n, err := source.Faults(); n != 0 {
				t.Errorf("%d faults, the last one: %v", n, err)
			}
			compareRecords(t, s, want, got.all)
		})
	}
	if t.Logf("epochs by log n: %v", logs); len(logs) < 3 {
		t.Error("the number of subepochs hardly changes")
	}
}

// divide makes the fragments divide their epochs, which are too short and have too much traffic for that in the
// committed configurations.
func divide(s *Setup) {
	c, ok := stageConfig[disketch.Config](s.Switch, "disketch")
	if !ok {
		return
	}
	c.EpochBits = 24
	for i := range c.Fragments {
		c.Fragments[i].Target = 0.02
	}
}

// copy is the message as it is at the CPU port.
func (m *Message) copy() *records.Copy {
	return &records.Copy{
		Kind: m.Kind, Hop: m.Hop, Plan: m.Plan, InPort: m.InPort, OutPort: m.OutPort, Digest: m.Digest, ID: m.ID, Arrival: m.Arrival, Data: m.Data,
	}
}

// newSource reads a target by the clock of a test, without any delay.
func newSource(t *testing.T, s *Setup, target records.Target, clock func() int64) *records.Source {
	t.Helper()
	source, err := records.New(records.Config{Switch: s.Switch, Target: target, Clock: clock, Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	source.Listen()
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return source
}

// compareRecords holds the records of the systems that are read to those of the Go stages.
func compareRecords(t *testing.T, s *Setup, want, got []made) {
	t.Helper()
	byName := func(all []made) map[string]*made {
		names := map[string]*made{}
		for i := range all {
			m := &all[i]
			if isRead(s, m) {
				if names[m.name()] != nil {
					t.Errorf("%s comes twice", m.name())
				}
				names[m.name()] = m
			}
		}
		return names
	}
	w, g := byName(want), byName(got)
	kinds := map[record.Kind]int{}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		a, b := w[name], g[name]
		kinds[a.Kind]++
		switch {
		case b == nil:
			t.Errorf("%s: the registers give none", name)
		case a.Header != b.Header:
			t.Errorf("%s: Go has %+v, the registers give %+v", name, a.Header, b.Header)
		case !bytes.Equal(withoutClasses(t, a), withoutClasses(t, b)):
			t.Errorf("%s: the bodies differ: %s", name, explain(a, b))
		}
		delete(g, name)
	}
	for name := range g {
		t.Errorf("%s: Go has none", name)
	}
	t.Logf("equal: %v", kinds)
}

// isRead says whether a record of Go is one that registers can give. Intervals of 1 ms end while packets are
// in the switch, which stay up to 2 ms here: by a shim's bit these are of an interval whose bank has been read.
func isRead(s *Setup, m *made) bool {
	c, ok := stageConfig[stagelds.Config](s.Switch, sides[m.Instance&1])
	if m.Kind == record.LDS && ok && c.IntervalBit && c.IntervalBits < 23 {
		return false
	}
	return true
}

// withoutClasses is a record's body, of a sample without the totals by protocol, which P4 programs do not count.
func withoutClasses(t *testing.T, m *made) []byte {
	t.Helper()
	if m.Kind != record.Oblivious {
		return m.body
	}
	var s sample.Sample
	if err := s.UnmarshalBinary(m.body); err != nil {
		t.Fatal(err)
	}
	clear(s.Classes[:])
	body, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// explain says what differs between two records' bodies.
func explain(a, b *made) string {
	switch a.Kind {
	case record.DiSketch:
		var x, y telemetry.Record
		if err := x.UnmarshalBinary(a.body); err != nil {
			return err.Error()
		}
		if err := y.UnmarshalBinary(b.body); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d of %d packets, value %d, against %d of %d, %d", x.Packets, x.Seen, x.Value, y.Packets, y.Seen, y.Value)
	case record.PINT:
		var x, y pint.DigestBatch
		if err := errors.Join(pint.DecodeDigests(a.body, &x), pint.DecodeDigests(b.body, &y)); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d digests behind %d, boot %d, against %d behind %d, boot %d", len(x.Records), x.Sent, x.Boot, len(y.Records), y.Sent, y.Boot)
	case record.Oblivious:
		var x, y sample.Sample
		if err := errors.Join(x.UnmarshalBinary(a.body), y.UnmarshalBinary(b.body)); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d entries of %d packets, %d bytes, against %d of %d, %d", len(x.Entries), x.Packets, x.Bytes, len(y.Entries), y.Packets, y.Bytes)
	case record.LDS:
		x, err := lds.Decode(a.body, a.Hash)
		if err != nil {
			return err.Error()
		}
		y, err := lds.Decode(b.body, b.Hash)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("flags %d, %d packets, %d outside, against %d, %d, %d", x.Flags(), x.Packets(), x.Outside(), y.Flags(), y.Packets(), y.Outside())
	}
	return fmt.Sprintf("%d and %d bytes", len(a.body), len(b.body))
}
