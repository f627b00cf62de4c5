package records

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	sketches "github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/l3"
	points "github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/oblivious"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	samples "github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
)

// memory is a target whose registers come into being when they are named.
type memory struct {
	cells  map[string][]uint64
	broken error
}

func (m *memory) at(name string) []uint64 {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "egress."), "ingress.")
	if m.cells[name] == nil {
		m.cells[name] = make([]uint64, 1<<16)
	}
	return m.cells[name]
}

func (m *memory) Registers(name string) ([]uint64, error) { return m.at(name), m.broken }

func (m *memory) WriteRegister(name string, index int, value uint64) error {
	m.at(name)[index] = value
	return m.broken
}

// TestArray: what came to a cell is the difference, whatever the width at which it wraps.
func TestArray(t *testing.T) {
	for _, c := range []struct {
		bits         uint8
		halves       bool
		before, came uint64
	}{
		{32, false, 0, 7}, {32, false, 1<<32 - 3, 7}, {32, false, 5, 1<<32 - 2}, // -2 in 32 bits
		{64, false, 1<<64 - 3, 7}, {64, true, 1<<32 - 1, 1}, {64, true, 1<<64 - 1, 1 << 40}, {64, true, 0, 1<<64 - 9},
	} {
		m := &memory{cells: map[string][]uint64{}}
		a := array{name: "r", bits: c.bits, halves: c.halves}
		set := func(v uint64) {
			m.at("r")[3] = v << (64 - c.bits) >> (64 - c.bits)
			m.at("r_high")[3], m.at("r_low")[3] = v>>32, v&(1<<32-1)
		}
		set(c.before)
		if err := a.read(m); err != nil {
			t.Fatal(err)
		}
		forget(&a)
		set(c.before + c.came)
		m.cells["r"] = append([]uint64(nil), m.at("r")...) // as a reading is another array each time
		if err := a.read(m); err != nil {
			t.Fatal(err)
		}
		if got := a.take(3); got != c.came {
			t.Errorf("%d bits from %#x on: %#x came, taken as %#x", c.bits, c.before, c.came, got)
		}
		if got := a.take(3); got != 0 {
			t.Errorf("%d bits: %#x is taken twice", c.bits, got)
		}
	}
}

const (
	epochBits = 27
	length    = int64(1) << epochBits
	begin     = 1000 * length
)

// bench is a Source over memory, with one fragment, a point on one side and a sample.
type bench struct {
	*memory
	now    int64
	source *Source
	during func() // as a reading of a register begins; nil: nothing
	heads  []record.Header
	bodies [][]byte
}

func newBench(t *testing.T) *bench { return newSettling(t, 0) }

// newSettling waits so many ns behind each edge.
func newSettling(t *testing.T, settle int64) *bench {
	t.Helper()
	sketch, point, sample := sketches.DefaultConfig(), points.DefaultConfig(), oblivious.DefaultConfig()
	sketch.EpochBits, sketch.Fragments = epochBits, []sketches.Fragment{{Kind: "countmin", Memory: 64, Candidates: -1, Target: 1e-3}}
	point.Columns, point.IntervalBits = 16, epochBits
	sample.Unit, sample.Kind, sample.EpochBits, sample.Size = "packets", "dus", epochBits, 16
	b := &bench{memory: &memory{cells: map[string][]uint64{}}, now: begin}
	var err error
	b.source, err = New(Config{
		Switch: &tables.Switch{
			ID: 1, Hash: hash.CRC, Graph: []string{"parse", "oblivious", "lds_ingress", "patch", "disketch"},
			Ports:  []pipeline.Port{{Name: "a"}, {Name: "b"}},
			Stages: map[string]any{"disketch": &sketch, "lds_ingress": &point, "oblivious": &sample},
		},
		Target: b, Clock: func() int64 { return b.now }, Settle: settle, Shortest: epochBits - 3, Inline: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.source.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Registers gives a copy, as a switch does.
func (b *bench) Registers(name string) ([]uint64, error) {
	if b.during != nil {
		b.during()
	}
	cells, err := b.memory.Registers(name)
	return append([]uint64(nil), cells...), err
}

// pass counts packets as the program does: all of one flow and cell.
func (b *bench) pass(packets uint64) {
	control, parity := "disketch_egress.fragment_0.", int(b.now>>epochBits&1)
	log := b.at(control + "schedule_log")[parity]
	bank := int(uint64(b.now)>>(epochBits-log)&(1<<log-1)&1 ^ b.at(control + "schedule_flip")[parity])
	if b.at(control + "schedule_epoch")[parity] != uint64(b.now)>>epochBits {
		b.at(control + "missed")[0] += packets
	} else {
		b.at(control + "cells")[bank<<fragmentColumnBits|5] += packets
		for _, name := range []string{"packets", "value", "seen"} {
			b.at(control + name)[bank] += packets
		}
	}
	b.at("lds_ingress.side.packets")[parity] += packets
	for row := range 4 {
		b.at("lds_ingress.side.cell_count")[(parity<<ldsRowBits|row)<<ldsColumnBits|3] += packets
	}
	b.at("oblivious_ingress.packets")[parity] += packets
}

// collect collects at a time.
func (b *bench) collect(now int64, last bool) {
	b.now = now
	b.source.Collect(now, last, func(h *record.Header, body func([]byte) ([]byte, error)) {
		text, err := body(nil)
		if err != nil {
			panic(err)
		}
		b.heads, b.bodies = append(b.heads, *h), append(b.bodies, text)
	})
}

// sums are the packets of the records by kind, and those that they say are missed.
func (b *bench) sums(t *testing.T) (counted, missed map[record.Kind]uint64) {
	t.Helper()
	counted, missed = map[record.Kind]uint64{}, map[record.Kind]uint64{}
	for i, h := range b.heads {
		missed[h.Kind] += h.Missed
		var sketch disketch.Record
		var sample samples.Sample
		var err error
		switch h.Kind {
		case record.DiSketch:
			err = sketch.UnmarshalBinary(b.bodies[i])
			counted[h.Kind] += sketch.Seen
		case record.Oblivious:
			err = sample.UnmarshalBinary(b.bodies[i])
			counted[h.Kind] += sample.Packets
		case record.LDS:
			var p *lds.Point
			p, err = lds.Decode(b.bodies[i], hash.CRC)
			if err == nil {
				counted[h.Kind] += p.Packets()
				inCells := uint64(0)
				for column := 0; p.Packets() != 0 && column < p.Config().Columns; column++ { // of none the cells are folded to one
					inCells += p.Cell(0, column).Count
				}
				if inCells != p.Packets() {
					t.Errorf("record %d: the cells of %d packets have %d", i, p.Packets(), inCells)
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return counted, missed
}

var measuring = []record.Kind{record.DiSketch, record.Oblivious, record.LDS}

// TestEveryPacketOnce: whether the control plane comes in time, late, or not while readings fail, each packet is
// counted or missed, once.
func TestEveryPacketOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		step int64 // between two looks
		fail bool
		late bool
		busy bool // packets pass while registers are read, one after the other
	}{
		{"in time", length / 16, false, false, false}, {"at edges", length / 8, false, false, false},
		{"late", 7 * length / 2, false, true, false}, {"failing", length / 4, true, true, false},
		{"in time, busy", length / 16, false, false, true}, {"late, busy", 7 * length / 2, false, true, true}, {"failing, busy", length / 4, true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			sent, next := uint64(0), begin+c.step
			if c.busy {
				b.during = func() {
					b.pass(1)
					sent++
				}
			}
			for now := begin; now < begin+40*length; now += length / 32 {
				b.now = now
				if now >= next {
					if b.broken = nil; c.fail && now > begin+9*length && now < begin+14*length {
						b.broken = errors.New("no answer")
					}
					b.collect(now, false)
					next += c.step
				}
				b.pass(3)
				sent += 3
			}
			b.during = nil // the last packets have left
			b.collect(b.now+1, true)
			counted, missed := b.sums(t)
			for _, k := range measuring {
				if counted[k]+missed[k] != sent || (missed[k] != 0) != c.late {
					t.Errorf("%v: %d counted, %d missed, of %d", k, counted[k], missed[k], sent)
				}
			}
			if faults, err := b.source.Faults(); (faults != 0) != c.fail {
				t.Errorf("%d faults: %v", faults, err)
			}
			if (b.source.Late() != 0) != c.late {
				t.Errorf("%d readings came too late", b.source.Late())
			}
			for i, h := range b.heads {
				if h.Missed != 0 && h.Kind != record.Oblivious && !h.Partial {
					t.Errorf("record %d, %+v, misses packets and is not partial", i, h)
				}
			}
		})
	}
}

// TestLastRecords: the last records have all packets, wherever between two edges they are made: also where what was
// counted behind an edge would have waited for what comes late from before it.
func TestLastRecords(t *testing.T) {
	const settle = length / 64
	for _, at := range []int64{1, settle / 2, settle + 1, 5 * settle, 10*settle + 1, length / 2, length - 1} {
		b := newSettling(t, settle)
		edge, sent := begin+8*length, uint64(0)
		end := edge + at
		count := func(now int64) {
			b.now = now
			b.pass(3)
			sent += 3
		}
		for now := begin; now < end; now += length / 32 {
			count(now)
			b.collect(now+1, false)
		}
		count(max(edge, end-1))
		b.collect(end, true)
		counted, missed := b.sums(t)
		for _, k := range measuring {
			if counted[k] != sent || missed[k] != 0 {
				t.Errorf("%d ns behind an edge: %v: %d counted, %d missed, of %d", at, k, counted[k], missed[k], sent)
			}
		}
		// What might still have come is not there: such records say so.
		for i, h := range b.heads {
			if over := h.Start + h.Span; h.Kind == record.DiSketch && over+settle > end && !h.Partial {
				t.Errorf("%d ns behind an edge: record %d, %+v, ends %d ns before the last reading and is not partial", at, i, h, end-over)
			}
		}
	}
}

// sampledCopy is a frame at the CPU port: an IPv4 packet that was admitted to the sample, by its packet id.
func sampledCopy(t *testing.T, b *bench, kind uint8) []byte {
	t.Helper()
	c := Copy{Kind: kind, Arrival: b.now, Data: []byte("\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00\x45\x00\x00\x1c\x00\x01\x00\x00\x40\x11\x66\xce\x0a\x00\x00\x01\x0a\x00\x00\x02\x00\x07\x00\x08\x00\x08\x00\x00")}
	if err := b.source.parser.parse(&c, func(_ *packet.Batch, p *packet.Packet) { c.ID = p.ID }); err != nil {
		t.Fatal(err)
	}
	frame := append([]byte{kind}, make([]byte, 15)...)
	frame = binary.BigEndian.AppendUint64(frame, c.ID)
	frame = binary.BigEndian.AppendUint64(frame, uint64(c.Arrival))
	return append(frame, c.Data...)
}

// TestDrops: each frame from the CPU port is in a record, or counted with why not.
func TestDrops(t *testing.T) {
	b := newBench(t)
	entries := func() (n int) {
		for i, h := range b.heads {
			var s samples.Sample
			if h.Kind == record.Oblivious {
				if err := s.UnmarshalBinary(b.bodies[i]); err != nil {
					t.Fatal(err)
				}
				n += len(s.Entries)
			}
		}
		return n
	}
	expect := func(when string, want map[string]uint64) {
		t.Helper()
		if got := b.source.Drops(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	sampled := sampledCopy(t, b, copySample)
	b.source.Receive(sampled)
	expect("a copy", map[string]uint64{})
	b.source.Receive(nil)
	b.source.Receive(sampled[:copyLen-1])
	b.source.Receive(append([]byte{0}, sampled[1:]...))
	b.source.Receive(append([]byte{8}, sampled[1:]...))
	b.source.Receive(sampledCopy(t, b, copyRecord)) // this switch has no pint
	want := map[string]uint64{DropForeign: 4, DropUnclaimed: 1}
	expect("four that are none, and one that nobody wants", want)
	b.collect(begin+length/2, true)
	if n := entries(); n != 1 {
		t.Errorf("%d entries of samples, want 1", n)
	}
	b.source.Receive(sampled)
	b.source.Receive(sampledCopy(t, b, copySample|copyPunt))
	want[DropLate] = 2
	expect("two behind the last records", want)
	if p := b.source.Punts(); p[PuntNeighbour] != 1 {
		t.Errorf("packets for the control plane: %v", p)
	}
	if n, err := b.source.Faults(); n != 0 {
		t.Errorf("%d faults: %v", n, err)
	}
	for reason := range want {
		if !slices.Contains(DropReasons(), reason) {
			t.Errorf("%s is not among the reasons", reason)
		}
	}
}

// TestTornCells: cells that do not hold what was counted become no estimate: their packets are missed.
func TestTornCells(t *testing.T) {
	b := newBench(t)
	b.pass(10)
	b.at("disketch_egress.fragment_0.cells")[6]++
	b.collect(begin+length, false)
	counted, missed := b.sums(t)
	if n, err := b.source.Faults(); n != 1 || missed[record.DiSketch] != 10 || counted[record.DiSketch] != 0 {
		t.Errorf("%d faults (%v), %d counted, %d missed", n, err, counted[record.DiSketch], missed[record.DiSketch])
	}
}

// TestSizes: this package's sizes are the program's.
func TestSizes(t *testing.T) {
	text, err := os.ReadFile("../include/telemetry.p4")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"FRAGMENT_COLUMN_BITS": fragmentColumnBits, "LDS_ROW_BITS": ldsRowBits, "LDS_COLUMN_BITS": ldsColumnBits} {
		m := regexp.MustCompile(`#define ` + name + ` (\d+)`).FindSubmatch(text)
		if m == nil {
			t.Errorf("the program has no %s", name)
			continue
		}
		if got, err := strconv.Atoi(string(m[1])); err != nil || got != want {
			t.Errorf("%s is %s, here %d", name, m[1], want)
		}
	}
	if text, err = os.ReadFile("../include/headers.p4"); err != nil {
		t.Fatal(err)
	}
	_, cpu, _ := strings.Cut(string(text), "header cpu_t {")
	cpu, _, _ = strings.Cut(cpu, "}")
	bits := strings.Count(cpu, "port_t ")*16 + strings.Count(cpu, "time_t ")*64
	for _, m := range regexp.MustCompile(`bit<(\d+)>`).FindAllStringSubmatch(cpu, -1) {
		n, _ := strconv.Atoi(m[1])
		bits += n
	}
	if bits != 8*copyLen {
		t.Errorf("cpu_t has %d bits, here %d bytes", bits, copyLen)
	}
}

// TestPunts: what a router hands to its control plane is told apart.
func TestPunts(t *testing.T) {
	b := newBench(t)
	b.source.punts = newPunts(&l3.Config{Interfaces: []l3.Interface{{Port: "a", Addresses: []string{"192.0.2.1/24", "2001:db8::1/64"}}}})
	ethernet := "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02"
	ip4 := func(dst string) string {
		return ethernet + "\x08\x00\x45\x00\x00\x1c\x00\x01\x00\x00\x40\x11\x00\x00\xc6\x33\x64\x01" + dst + "\x00\x07\x00\x08\x00\x08\x00\x00"
	}
	ip6 := func(kind string) string {
		return ethernet + "\x86\xdd\x60\x00\x00\x00\x00\x08\x3a\xff" + strings.Repeat("\xfe\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05", 2) + kind + "\x00\x00\x00\x00\x00\x00\x00"
	}
	// neighbour is a whole solicitation, with its checksum and a change to it.
	neighbour := func(change uint16) string {
		d := []byte(ip6("\x87") + strings.Repeat("\x00", 16))
		d[19] = 24
		pseudo := header.PseudoSum6(header.IPv6At(d, 14), header.ProtoICMPv6, 24)
		binary.BigEndian.PutUint16(d[56:], ^header.Sum(d[54:], pseudo)+change)
		return string(d)
	}
	want := map[string]uint64{PuntARP: 1, PuntDiscovery: 3, PuntChecksum: 1, PuntForUs: 1, PuntNeighbour: 2}
	for _, data := range []string{
		ethernet + "\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01" + strings.Repeat("\x00", 20),
		ip6("\x87"), ip6("\x88"), neighbour(0), neighbour(1), ip6("\x80"), ip4("\xc0\x00\x02\x01"), ip4("\xc0\x00\x02\x02"),
	} {
		b.source.Take(&Copy{Kind: copyPunt, Data: []byte(data)}, begin)
	}
	if got := b.source.Punts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// FuzzCopy: whatever comes to the CPU port is taken in or refused.
func FuzzCopy(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x07" + strings.Repeat("\x00", 31) + "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00\x45\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseCopy(b)
		if (err != nil) != (len(b) < copyLen || b[0] == 0 || b[0] > 7) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		source, err := New(Config{
			Switch: &tables.Switch{ID: 1, Hash: hash.CRC, Graph: []string{"parse", "patch"}, Ports: []pipeline.Port{{Name: "a"}, {Name: "b"}}},
			Target: &memory{}, Clock: func() int64 { return begin },
		})
		if err != nil {
			t.Fatal(err)
		}
		source.Take(&c, begin)
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
}
