package lds

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
)

var testEnv = pipeline.Env{Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}, {Name: "p2"}}}

// testConfig has intervals of 2^20 ns and few cells.
func testConfig() Config {
	c := DefaultConfig()
	c.Columns, c.IntervalBits, c.Seed = 500, 20, 3
	return c
}

// end is one measurement point: a module of one worker with its batch.
type end struct {
	t testing.TB
	*Module
	stage *stage
	batch *packet.Batch
	next  int64
	got   map[int64]*lds.Point // by interval
	heads []record.Header

	// Where the clock goes back intervals come again; these go to more.
	again bool
	more  []*lds.Point
}

func newEnd(t testing.TB, c Config, build func(Config, pipeline.Env) (*Module, error)) *end {
	t.Helper()
	m, err := build(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 2 * packet.BatchSize, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	e := &end{t: t, Module: m, stage: m.Stage(0).(*stage), batch: packet.NewBatch(pool.NewCache(), packet.BatchSize), got: map[int64]*lds.Point{}}
	addr, _ := e.batch.Frames.AllocOne()
	e.batch.Append().Addr = addr
	return e
}

// put makes the batch one UDP packet of the flow, with an interval bit if marked.
func (e *end) put(flow uint32, id uint64, at int64, marked, odd bool) {
	p := &e.batch.Pkts[0]
	l3 := 14
	data := e.batch.Mem[p.Addr:][:128]
	clear(data)
	if marked {
		l3 += 8
		copy(data[12:], []byte{0x88, 0xb5, 1<<4 | 1, 0, 0, 7, 0, 0})
		if odd {
			header.Shim(data[14:22]).SetInterval(true)
		}
	}
	copy(data[l3-2:], []byte{8, 0, 0x45})
	binary.BigEndian.PutUint32(data[l3+12:], 0x0a000000|flow)
	binary.BigEndian.PutUint32(data[l3+16:], 0x0b000000)
	*p = packet.Packet{Addr: p.Addr, Len: 128, WireLen: 128, ID: id, Arrival: at, InPort: 1, OutPort: 1,
		Flags: packet.FlagIPv4 | packet.FlagL4 | packet.FlagPorts, L3: uint16(l3), L4: uint16(l3 + 20), Proto: 17, SrcPort: 1, DstPort: 2}
	e.batch.Now = at
}

// pass runs the packet of put through the stage, at its time.
func (e *end) pass() {
	e.tick(e.batch.Now)
	e.stage.Process(e.batch)
}

func (e *end) tick(now int64) {
	if now >= e.next {
		e.next = e.stage.Tick(now)
		e.Collect(now, false, e.emit)
	}
}

func (e *end) finish(now int64) {
	e.stage.Finish(now)
	e.Collect(now, true, e.emit)
}

func (e *end) emit(h *record.Header, body func([]byte) ([]byte, error)) {
	b, err := record.Append(nil, h, body)
	if err != nil {
		e.t.Fatal(err)
	}
	head, payload, _, err := record.Decode(b)
	if err != nil {
		e.t.Fatal(err)
	}
	p, err := lds.Decode(payload, head.Hash)
	if err != nil {
		e.t.Fatal(err)
	}
	if head.Kind != record.LDS || head.Span != 1<<e.shift || head.Start != p.Interval()<<e.shift {
		e.t.Fatalf("record %+v on interval %d", head, p.Interval())
	}
	if head.Instance/2 != 1 {
		return // a port without packets
	}
	if e.got[p.Interval()] != nil {
		if e.again {
			e.more = append(e.more, p)
			return
		}
		e.t.Fatalf("interval %d comes twice", p.Interval())
	}
	e.got[p.Interval()] = p
	e.heads = append(e.heads, head)
}

// flowOf is the hash of the flow's key, as a query makes it.
func flowOf(flow uint32) uint64 {
	k := packet.FlowKey{Version: 4, Proto: 17, SrcPort: 1, DstPort: 2}
	binary.BigEndian.PutUint32(k.Src[:4], 0x0a000000|flow)
	binary.BigEndian.PutUint32(k.Dst[:4], 0x0b000000)
	w, _ := k.Words()
	return hash.Uint64x2(0, w[0], w[1])
}

const (
	linkFlows = 20
	linkNs    = 40_000 // delay of flow 0; others have 1 us more each
)

// link sends packets over a link with a delay per flow from an egress to an
// ingress point, for ten intervals from number 7 on, and loses a share of them.
// It returns the losses by interval and flow, by the sender's clock.
func link(t *testing.T, c Config, marked bool, loss float64) (sender, receiver *end, lost map[[2]int64]float64) {
	sender, receiver = newEnd(t, c, NewEgress), newEnd(t, c, NewIngress)
	type event struct {
		at   int64
		from bool
		flow uint32
		id   uint64
		odd  bool
	}
	r := rand.New(rand.NewPCG(5, 5))
	length := int64(1) << c.IntervalBits
	var events []event
	lost = map[[2]int64]float64{}
	for i := range 20_000 {
		sent := 7*length + int64(i)*10*length/20_000
		flow, id, number := r.Uint32N(linkFlows), r.Uint64(), sent/length
		events = append(events, event{sent, true, flow, id, number&1 != 0})
		if r.Float64() < loss {
			lost[[2]int64{number, int64(flow)}]++
			continue
		}
		events = append(events, event{sent + linkNs + 1000*int64(flow), false, flow, id, number&1 != 0})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range events {
		at := receiver
		if e.from {
			at = sender
		}
		at.put(e.flow, e.id, e.at, marked, e.odd)
		at.pass()
	}
	sender.finish(17 * length)
	receiver.finish(17 * length)
	return sender, receiver, lost
}

// TestLinkWithIntervalBit: with the bit, no cell is spoiled by packets under way
// at an edge: delays and losses of all whole intervals are exact.
func TestLinkWithIntervalBit(t *testing.T) {
	c := testConfig()
	c.IntervalBit = true
	sender, receiver, lost := link(t, c, true, 0.02)
	for number := int64(9); number < 16; number++ {
		d := subtract(t, sender, receiver, number)
		for flow := range uint32(linkFlows) {
			e := d.Flow(flowOf(flow), 1, lds.Balanced)
			if want := lost[[2]int64{number, int64(flow)}]; !e.HasLoss || e.Lost != want {
				t.Errorf("interval %d, flow %d: %+v, lost %g", number, flow, e, want)
			}
			if e.HasDelay != (lost[[2]int64{number, int64(flow)}] == 0) {
				t.Errorf("interval %d, flow %d: delay %v with %g lost", number, flow, e.HasDelay, lost[[2]int64{number, int64(flow)}])
			}
			checkDelay(t, number, flow, &e)
		}
	}
}

// TestLinkByClock: without the bit, packets under way spoil cells, which are
// refused: what is left is right.
func TestLinkByClock(t *testing.T) {
	c := testConfig()
	c.IntervalBits = 24 // of which a packet is under way 0.3 %
	sender, receiver, _ := link(t, c, true, 0)
	refused, cells := 0, 0
	for number := int64(9); number < 16; number++ {
		d := subtract(t, sender, receiver, number)
		refused, cells = refused+d.Refused(), cells+d.Refused()+d.Cells(lds.Usable)
		for flow := range uint32(linkFlows) {
			e := d.Flow(flowOf(flow), 1, lds.Balanced)
			checkDelay(t, number, flow, &e)
		}
	}
	t.Logf("%d of %d cells are refused", refused, cells)
	if refused == 0 || refused == cells {
		t.Errorf("%d of %d cells are refused: the test shows nothing", refused, cells)
	}
}

func subtract(t *testing.T, sender, receiver *end, number int64) *lds.Difference {
	t.Helper()
	a, b := sender.got[number], receiver.got[number]
	if a == nil || b == nil {
		t.Fatalf("interval %d: no record", number)
	}
	if (a.Flags()|b.Flags())&lds.Partial != 0 {
		t.Fatalf("interval %d is partial", number)
	}
	d, err := lds.Subtract(a, b, lds.AnyDelay())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func checkDelay(t *testing.T, number int64, flow uint32, e *lds.Estimate) {
	t.Helper()
	if want := float64(linkNs + 1000*flow); e.HasDelay && math.Abs(e.MeanNs-want) > 0.01*want {
		t.Errorf("interval %d, flow %d: a delay of %g, want %g", number, flow, e.MeanNs, want)
	}
}

// TestEveryPacketIsCountedOnce: over all records, with late and early packets,
// gaps without any packet, and bits that mean nothing.
func TestEveryPacketIsCountedOnce(t *testing.T) {
	for _, bit := range []bool{false, true} {
		c := testConfig()
		c.IntervalBit = bit
		e := newEnd(t, c, NewIngress)
		r := rand.New(rand.NewPCG(6, 6))
		now := int64(1 << 30)
		for i := range 3000 {
			now += r.Int64N(2000)
			if i%500 == 0 {
				now += 5 << 20
			}
			e.put(1, r.Uint64(), now, r.IntN(2) == 0, r.IntN(2) == 0)
			e.pass()
		}
		e.finish(now)
		counted := uint64(0)
		for _, p := range e.got {
			counted += p.Packets() + p.Outside()
		}
		if counted != 3000 {
			t.Errorf("bit %v: %d of 3000 packets", bit, counted)
		}
	}
}

// TestStalledSender: a sender's worker is held up from shortly before the edge of an interval until its second half. The
// bit is of the time at which a packet leaves, so both ends count it in the same interval, and nothing is lost or missed.
func TestStalledSender(t *testing.T) {
	c := testConfig()
	c.IntervalBit = true
	length := int64(1) << c.IntervalBits
	from, until := 12*length-length/20, 12*length+length*6/10
	sender, receiver := newEnd(t, c, NewEgress), newEnd(t, c, NewIngress)
	for i := range int64(2000) {
		arrival := 7*length + i*length/200
		leaves := arrival
		if arrival >= from {
			leaves = max(arrival, until)
		}
		odd := leaves/length&1 != 0
		sender.put(1, uint64(i), arrival, true, odd)
		sender.batch.Now = leaves
		sender.pass()
		receiver.put(1, uint64(i), leaves+1000, true, odd)
		receiver.pass()
	}
	sender.finish(17 * length)
	receiver.finish(17 * length)
	for number := int64(9); number < 15; number++ {
		d := subtract(t, sender, receiver, number)
		e := d.Flow(flowOf(1), 1, lds.Balanced)
		if lost, known := d.Lost(); !known || lost != 0 || !e.HasLoss || e.Lost != 0 || e.Packets == 0 {
			t.Errorf("interval %d: %d lost, known %v; of the flow %+v", number, lost, known, e)
		}
	}
	if missed := missedBy(sender) + missedBy(receiver); missed != 0 {
		t.Errorf("%d packets are missed", missed)
	}
}

// TestStalledOverSlices: a receiver's worker is held up over whole slices. Over one, it counts all packets next to it: over
// all intervals none is lost, and none of them is missing or in part. Over two, it refuses some, and says so of all intervals
// in which they may be; the others are exact.
func TestStalledOverSlices(t *testing.T) {
	c := testConfig()
	c.IntervalBit = true
	length := int64(1) << c.IntervalBits
	for over, unknown := range [][]int64{1: nil, 2: {10, 11, 12, 13}} {
		if over == 0 {
			continue
		}
		from, until := 10*length+length*8/10, (11+int64(over))*length+length/10
		sender, receiver := newEnd(t, c, NewEgress), newEnd(t, c, NewIngress)
		for i := range int64(2000) {
			at := 7*length + i*length/200
			odd := at/length&1 != 0
			sender.put(1, uint64(i), at, true, odd)
			sender.pass()
			receiver.put(1, uint64(i), at+1000, true, odd)
			if at >= from {
				receiver.batch.Now = max(receiver.batch.Now, until)
			}
			receiver.pass()
		}
		sender.finish(17 * length)
		receiver.finish(17 * length)
		all, moved := int64(0), false
		for number := int64(8); number < 16; number++ {
			a, b := sender.got[number], receiver.got[number]
			if b == nil {
				if !slices.Contains(unknown, number) {
					t.Errorf("over %d: interval %d has no record", over, number)
				}
				continue
			}
			d, err := lds.Subtract(a, b, lds.AnyDelay())
			if err != nil {
				t.Fatal(err)
			}
			lost, known := d.Lost()
			if known == slices.Contains(unknown, number) {
				t.Errorf("over %d: interval %d: %d lost, known %v", over, number, lost, known)
			}
			if known {
				all, moved = all+lost, moved || lost != 0
			}
		}
		if all != 0 || moved != (over == 1) {
			t.Errorf("over %d: %d packets are lost over all intervals; some were counted in another one: %v", over, all, moved)
		}
	}
}

// TestEndInside: a switch that ends in the first half of an interval may lack late packets of the one before.
func TestEndInside(t *testing.T) {
	c := testConfig()
	c.IntervalBit = true
	length := int64(1) << c.IntervalBits
	for _, eighth := range []int64{3, 5} {
		e := newEnd(t, c, NewIngress)
		for i := range int64(200) {
			at := 7*length + i*length/40
			if at > 11*length {
				break
			}
			e.put(1, uint64(i), at, true, at/length&1 != 0)
			e.pass()
		}
		e.finish(11*length + eighth*length/8)
		for number := int64(8); number < 12; number++ {
			want := number == 11 || number == 10 && eighth < 4
			if p := e.got[number]; p == nil || p.Flags()&lds.Partial != 0 != want {
				t.Errorf("end at %d/8 of interval 11: interval %d, if it has a record (%v): want partial %v", eighth, number, p != nil, want)
			}
		}
	}
}

// TestStalledReceiver: packets whose arrival the XDP program timed wait for the worker for most of an interval. Those that
// arrived more than half an interval before the one in which it comes to them are refused; the record counts them as missed, and tells no losses
// of that interval. (Without the bit the one before lacks them, and its record has gone.)
func TestStalledReceiver(t *testing.T) {
	c := testConfig()
	length := int64(1) << c.IntervalBits
	from, until := 11*length+length*3/10, 12*length+length/10
	sender, receiver := newEnd(t, c, NewEgress), newEnd(t, c, NewIngress)
	refused := uint64(0)
	for i := range int64(2000) {
		at := 7*length + i*length/200
		sender.put(1, uint64(i), at, false, false)
		sender.pass()
		receiver.put(1, uint64(i), at, false, false)
		if at >= from && at < until {
			receiver.batch.Now = until
			if at < 12*length-length/2 {
				refused++
			}
		}
		receiver.pass()
	}
	sender.finish(17 * length)
	receiver.finish(17 * length)
	if missed := missedBy(receiver); refused == 0 || missed != refused {
		t.Errorf("%d packets are missed, %d were refused", missed, refused)
	}
	d := subtract(t, sender, receiver, 12)
	if _, known := d.Lost(); known || d.Flow(flowOf(1), 1, lds.Balanced).HasLoss {
		t.Error("an interval of which a point refused packets tells losses")
	}
	receiver.Metrics(func(m pipeline.Metric) {
		if m.Name == "refused_packets_total" && uint64(m.Value) != refused {
			t.Errorf("%s is %g, %d were refused", m.Name, m.Value, refused)
		}
	})
}

// missedBy is how many packets the records of an end miss.
func missedBy(e *end) (n uint64) {
	for _, h := range e.heads {
		n += h.Missed
	}
	return n
}

func TestWhatIsMeasured(t *testing.T) {
	c := testConfig()
	c.Ports = []string{"p1"}
	c.Weights = []Weight{{Weight: 50, Prefix: "10.0.0.7/32"}, {Weight: 20, Protocol: 17, Port: 9}, {Weight: 3, Prefix: "10.0.0.0/28"}}
	e := newEnd(t, c, NewIngress)
	now := int64(1 << 30)
	change := []func(p *packet.Packet){
		func(p *packet.Packet) {},                                      // flow 1: weight 3
		func(p *packet.Packet) { p.DstPort = 9 },                       // 20
		func(p *packet.Packet) { p.Reason = packet.ReasonNoPort },      // dropped
		func(p *packet.Packet) { p.InPort = 2 },                        // elsewhere
		func(p *packet.Packet) { p.InPort = packet.NoPort },            // nowhere
		func(p *packet.Packet) { p.Flags = 0 },                         // no IP
		func(p *packet.Packet) { p.Flags, p.L3 = packet.FlagIPv6, 14 }, // 1
	}
	for i, f := range change {
		e.put(1, uint64(i), now, false, false)
		f(&e.batch.Pkts[0])
		e.pass()
	}
	e.put(7, 100, now, false, false) // 50
	e.pass()
	e.finish(now)
	p := e.got[now>>20]
	if p == nil {
		t.Fatal("no record")
	}
	total := uint64(0)
	for column := range c.Columns {
		total += p.Cell(0, column).Count
	}
	if p.Packets() != 4 || total != 3+20+1+50 {
		t.Errorf("%d packets of weight %d", p.Packets(), total)
	}
	metrics := map[string]float64{}
	e.Metrics(func(m pipeline.Metric) { metrics[m.Name] = m.Value })
	if metrics["measured_packets_total"] != 4 || metrics["skipped_packets_total"] != 1 || metrics["records_total"] != 1 {
		t.Errorf("%v", metrics)
	}
}

// TestLateWorker: a packet that arrived in time, and that its worker comes to up to
// an interval later, is counted in the interval that its bit tells.
func TestLateWorker(t *testing.T) {
	c := testConfig()
	c.IntervalBit = true
	const length = 1 << 20
	// In tenths of an interval.
	for _, arrival := range []int64{1000, 1003, 1004, 1006, 1009} {
		for late := range int64(10) {
			for _, sent := range []int64{arrival - 4, arrival, arrival + 4} {
				number, slice := sent/10, (arrival+late)/10
				if slice-number > 1 || number-slice > 1 {
					continue // beyond what a trio has room for
				}
				e := newEnd(t, c, NewIngress)
				e.put(1, 7, arrival*length/10, true, number&1 != 0)
				e.batch.Now = (arrival + late) * length / 10
				e.tick((slice - 2) * length) // so that the slice is one of several
				e.pass()
				e.finish((slice + 3) * length)
				if p := e.got[number]; p == nil || p.Packets() != 1 {
					t.Errorf("sent at %d, arrived at %d, seen at %d: not in interval %d", sent, arrival, arrival+late, number)
				}
			}
		}
	}
}

func TestIntervalBit(t *testing.T) {
	at := func(head ...byte) []byte { return append(make([]byte, 12), head...) }
	rest := []byte{1, 0, 7, 0xd1, 0xd2, 8, 0} // hop, plan, digest of two bytes, type
	shim := func(first byte, tags ...byte) []byte {
		return append(append(at(tags...), 0x88, 0xb5, first), rest...)
	}
	for name, c := range map[string]struct {
		data        []byte
		odd, marked bool
	}{
		"none":            {at(8, 0, 0x45), false, false},
		"even":            {shim(0x11), false, true},
		"odd":             {shim(0x19), true, true},
		"behind tags":     {shim(0x19, 0x88, 0xa8, 0, 1, 0x81, 0, 0, 2), true, true},
		"another version": {shim(0x29), true, false},
		"cut":             {shim(0x19)[:21], false, false},
		"cut tag":         {at(0x81, 0, 0, 1, 0x88), false, false},
		"tags only":       {at(slices.Repeat([]byte{0x81, 0, 0, 1}, 9)...), false, false},
		"nothing":         {nil, false, false},
	} {
		odd, marked := intervalBit(c.data)
		if marked != c.marked || marked && odd != c.odd {
			t.Errorf("%s: %v, %v", name, odd, marked)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	c := testConfig()
	c.Ports = []string{"p9", "p1", "p1"}
	c.IntervalBits, c.Virtual = -3, -1
	c.Weights = []Weight{{Weight: 0}, {Weight: 1, Prefix: "ten"}, {Weight: 1, Protocol: 300}, {Weight: 1, Port: -1}}
	err := c.Validate([]string{"p0", "p1"})
	for _, want := range []string{`ports[0]: port "p9"`, `ports[2]: port "p1" is there twice`, "interval_bits: -3", "-1 virtual cells", "weight[0].weight: 0",
		`weight[1].prefix: "ten"`, "weight[2].protocol: 300", "weight[3].port: -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no fault %q in\n%v", want, err)
		}
	}
	c = testConfig()
	c.Rows, c.Columns = 4, 500_000
	if err := c.Validate(strings.Fields(strings.Repeat("p ", 600))); err == nil || !strings.Contains(err.Error(), "columns: 600 points of 1200000000 cells in all") {
		t.Errorf("%v", err)
	}
	for i := range 600 {
		c.Classes = append(c.Classes, Class{From: fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), To: "11.0.0.0/8"})
	}
	c.IntervalBit = true
	if err := c.Validate([]string{"p"}); err == nil || !strings.Contains(err.Error(), "columns: 1800 points of 3600000000 cells in all") {
		t.Errorf("%v", err)
	}
	c.Classes, c.IntervalBit = nil, false
	c.Columns = 1 << 20
	if err := c.Validate(nil); err == nil || !strings.Contains(err.Error(), "columns: 4194304 cells in 4 rows: choose at most 203") {
		t.Errorf("%v", err)
	}
	c = testConfig()
	c.Rows, c.Banks = 17, []float64{2}
	if err := c.Validate(nil); err == nil || !strings.Contains(err.Error(), "17 rows") || !strings.Contains(err.Error(), "rate 2") {
		t.Errorf("%v", err)
	}
}

// TestLargestRecord: the fullest point that a configuration allows fits into a record.
func TestLargestRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: a record of all cells that there may be")
	}
	c := testConfig()
	c.Rows, c.Columns = 1, mostCells
	if err := c.Validate([]string{"p0"}); err != nil {
		t.Fatal(err)
	}
	p, err := lds.NewPoint(c.sketch(hash.XX))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	cells := make([]lds.Cell, mostCells)
	for i := range cells {
		cells[i] = lds.Cell{Sum: -1<<61 + r.Int64N(1<<60), Count: 1<<40 + r.Uint64N(1<<39), Digest: r.Uint32(), Bytes: 1<<47 + r.Uint64N(1<<46)}
	}
	if err := p.Load(1, 1<<62, 1<<62, cells); err != nil {
		t.Fatal(err)
	}
	body := p.AppendBinary
	if _, err := record.Append(nil, &record.Header{Kind: record.LDS, Name: strings.Repeat("s", 255)}, body); err != nil {
		t.Error(err)
	}
}

func TestProcessDoesNotAllocate(t *testing.T) {
	c := testConfig()
	c.IntervalBit = true
	c.Weights = []Weight{{Weight: 50, Prefix: "10.0.0.7/32"}}
	e := newEnd(t, c, NewIngress)
	e.put(1, 1, 1<<30, true, false)
	e.pass()
	if n := testing.AllocsPerRun(1000, func() { e.stage.Process(e.batch) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWorkersMerge: packets of a point that two workers share give the same
// record as those of one worker.
func TestWorkersMerge(t *testing.T) {
	for _, bit := range []bool{false, true} {
		c := testConfig()
		c.IntervalBit = bit
		one, two := newEnd(t, c, NewIngress), newEnd(t, c, NewIngress)
		env := testEnv
		env.Workers = 2
		var err error
		if two.Module, err = NewIngress(c, env); err != nil {
			t.Fatal(err)
		}
		workers := []*stage{two.Module.Stage(0).(*stage), two.Module.Stage(1).(*stage)}
		next := []int64{0, 0}
		r := rand.New(rand.NewPCG(8, 8))
		now := int64(1 << 30)
		for range 5000 {
			now += r.Int64N(2000)
			flow, id, odd, w := r.Uint32N(9), r.Uint64(), now>>20&1 != 0, r.IntN(2)
			one.put(flow, id, now, true, odd)
			one.pass()
			two.put(flow, id, now, true, odd)
			for i, s := range workers {
				if now >= next[i] {
					next[i] = s.Tick(now)
				}
			}
			workers[w].Process(two.batch)
			two.Collect(now, false, two.emit)
		}
		one.finish(now)
		for _, s := range workers {
			s.Finish(now)
		}
		two.Collect(now, true, two.emit)
		if len(one.got) != len(two.got) || len(one.got) < 3 {
			t.Fatalf("bit %v: %d records of one worker, %d of two", bit, len(one.got), len(two.got))
		}
		for number, p := range one.got {
			a, _ := p.AppendBinary(nil)
			b, _ := two.got[number].AppendBinary(nil)
			if !slices.Equal(a, b) {
				t.Errorf("bit %v: interval %d of two workers differs from that of one", bit, number)
			}
		}
	}
}
