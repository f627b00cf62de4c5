package lacp

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorded is a LACPDU of a system that has not heard of a partner yet.
var recorded = strings.Join([]string{
	"01 01", "01 14 ffff 021122334455 000f 00ff 0001 4f 000000", "02 14 ffff 000000000000 0001 00ff 0001 01 000000", "03 10 0000" + strings.Repeat("00", 12),
	"00 00" + strings.Repeat("00", 50),
}, "")

func fromHex(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestPDU(t *testing.T) {
	data := fromHex(t, recorded)
	p, ok := Decode(data)
	want := PDU{
		Actor: Participant{
			System: System{0xffff, [6]byte{2, 0x11, 0x22, 0x33, 0x44, 0x55}}, Key: 15, PortPriority: 255, Port: 1,
			State: Activity | ShortTimeout | Aggregation | Synchronization | Defaulted,
		},
		Partner: Participant{System: System{Priority: 0xffff}, Key: 1, PortPriority: 255, Port: 1, State: Activity},
	}
	if !ok || p != want {
		t.Fatalf("read %v, %v, want %v", p, ok, want)
	}
	if again := p.Append(nil); !bytes.Equal(again, data) {
		t.Errorf("written as\n%x, was\n%x", again, data)
	}
	if text := p.Actor.String(); text != "system 65535,02:11:22:33:44:55 key 15 port 255,1 state activity,timeout,aggregation,synchronization,defaulted" {
		t.Error(text)
	}
}

// TestMalformed: each byte of the headers that is another one makes the PDU malformed, and so does each length that is too short. What is behind, and the
// TLVs of later versions, are passed over.
func TestMalformed(t *testing.T) {
	good := fromHex(t, recorded)
	for n := range Length {
		if Valid(good[:n]) {
			t.Errorf("%d bytes are a LACPDU", n)
		}
	}
	for _, at := range []int{0, 2, 3, 22, 23, 42, 43} {
		bad := bytes.Clone(good)
		bad[at]++
		if Valid(bad) {
			t.Errorf("byte %d is %#x, and it is a LACPDU", at, bad[at])
		}
	}
	for _, tc := range []struct {
		at, value int
		valid     bool
	}{{1, 0, false}, {1, 2, true}, {58, 9, true}, {109, 1, true}} {
		data := bytes.Clone(good)
		data[tc.at] = byte(tc.value)
		if Valid(data) != tc.valid {
			t.Errorf("byte %d is %d: valid is %v", tc.at, tc.value, !tc.valid)
		}
	}
	later := bytes.Clone(good)
	later[1], later[42] = 2, 4
	if !Valid(append(later, 1, 2, 3)) {
		t.Error("a LACPDU of version 2 with another third TLV, and padding, is none")
	}
}

func TestMarkerResponse(t *testing.T) {
	info := append(fromHex(t, "02 01 01 10 0001 021122334455 00000007 0000"), make([]byte, Length)...)
	want := bytes.Clone(info)
	want[2] = 2
	if !MarkerResponse(info) || !bytes.Equal(info, want) {
		t.Errorf("answered with %x", info)
	}
	if MarkerResponse(info) {
		t.Error("a response was answered")
	}
	if MarkerResponse(info[:Length-1]) || MarkerResponse(fromHex(t, recorded)) {
		t.Error("what is no marker was answered")
	}
}

// cable is a link between ports of two aggregators, by which PDUs pass unless it is cut.
type cable struct {
	a, b *Port
	cut  bool
	deaf bool // nothing arrives at b
}

// rig is two systems and the cables between them, with a clock of its own.
type rig struct {
	a, b   *Aggregator
	cables []*cable
	now    time.Time
	loss   float64
	random *rand.Rand
}

func newRig(cables int) *rig {
	r := &rig{
		a:   &Aggregator{System: System{0x8000, [6]byte{2, 0, 0, 0, 0, 1}}, Key: 1, Fast: true},
		b:   &Aggregator{System: System{0xffff, [6]byte{2, 0, 0, 0, 0, 2}}, Key: 9},
		now: time.Unix(1000, 0), random: rand.New(rand.NewPCG(1, 2)),
	}
	for i := range cables {
		c := &cable{a: r.a.Add(uint16(i + 1)), b: r.b.Add(uint16(i + 11))}
		c.a.SetUp(true, r.now)
		c.b.SetUp(true, r.now)
		r.cables = append(r.cables, c)
	}
	return r
}

const tick = 100 * time.Millisecond

// run has time pass, with each LACPDU arriving at once, or never.
func (r *rig) run(d time.Duration) {
	for end := r.now.Add(d); r.now.Before(end); r.now = r.now.Add(tick) {
		for i, out := range r.a.Step(r.now) {
			if c := r.cables[i]; out != nil && !c.cut && !c.deaf && r.random.Float64() >= r.loss {
				c.b.Receive(out, r.now)
			}
		}
		for i, out := range r.b.Step(r.now) {
			if c := r.cables[i]; out != nil && !c.cut && r.random.Float64() >= r.loss {
				c.a.Receive(out, r.now)
			}
		}
	}
}

func (r *rig) active() string {
	var at []string
	for i, c := range r.cables {
		if c.a.Active() && c.b.Active() {
			at = append(at, fmt.Sprint(i))
		} else if c.a.Active() || c.b.Active() {
			at = append(at, fmt.Sprint(i, "!"))
		}
	}
	return strings.Join(at, " ")
}

func (r *rig) want(t *testing.T, what, active string) {
	t.Helper()
	if got := r.active(); got != active {
		for i, c := range r.cables {
			t.Logf("cable %d: a %v %v selected %v, b %v %v selected %v", i, c.a.Rx, c.a.Mux, c.a.Selected, c.b.Rx, c.b.Mux, c.b.Selected)
		}
		t.Fatalf("%s: cables %q are active at both ends, want %q", what, got, active)
	}
}

// TestConverge: two systems agree on all cables within some seconds, at both ends, and leave a cable together.
func TestConverge(t *testing.T) {
	r := newRig(3)
	r.want(t, "at the beginning", "")
	r.run(AggregateWait / 2)
	r.want(t, "before the aggregate wait time is over", "")
	r.run(2 * AggregateWait)
	r.want(t, "behind it", "0 1 2")
	for _, c := range r.cables {
		if c.a.Partner != c.b.Actor && c.a.Partner.State|Synchronization != c.b.Actor.State {
			t.Errorf("a knows b as %v, it is %v", c.a.Partner, c.b.Actor)
		}
	}
	// The link fails: at once, without LACPDUs.
	r.cables[1].a.SetUp(false, r.now)
	r.cables[1].b.SetUp(false, r.now)
	r.run(tick)
	r.want(t, "a link is down", "0 2")
	r.cables[1].a.SetUp(true, r.now)
	r.cables[1].b.SetUp(true, r.now)
	r.run(3 * AggregateWait)
	r.want(t, "it is up again", "0 1 2")
	// A cable that carries nothing, though its links are up: a, which asks for fast LACPDUs, leaves it after three of them. b is told nothing,
	// and waits for the long time.
	r.cables[0].cut = true
	r.run(ShortTime + 2*tick)
	if r.cables[0].a.Active() {
		t.Error("a port whose partner is silent for the short time is active")
	}
	r.run(ShortTime)
	if r.cables[0].a.Rx != RxDefaulted || r.cables[0].a.Selected {
		t.Errorf("the port is %v", r.cables[0].a.Rx)
	}
	r.run(LongTime)
	r.want(t, "a cable is cut", "1 2")
	r.cables[0].cut = false
	r.run(SlowPeriodic + 3*AggregateWait)
	r.want(t, "it is mended", "0 1 2")
}

// TestFarewell: a partner leaves a port at once that has said farewell, and no other one; it takes the port again when that begins anew.
func TestFarewell(t *testing.T) {
	r := newRig(3)
	r.run(3 * AggregateWait)
	r.want(t, "at the beginning", "0 1 2")
	c := r.cables[1]
	c.b.Receive(c.a.Farewell(), r.now)
	r.b.Step(r.now)
	if c.b.Active() || c.b.Takes() || !r.cables[0].b.Active() || !r.cables[2].b.Active() {
		t.Errorf("after a farewell at cable 1: %v %v %v", r.cables[0].b.Mux, c.b.Mux, r.cables[2].b.Mux)
	}
	c.a.SetUp(false, r.now)
	if c.a.Farewell() != nil {
		t.Error("a port without a link says farewell")
	}
	at := slices.Index(r.a.Ports, c.a)
	ports := r.a.Ports
	r.a.Ports = nil
	c.a = r.a.Add(2)
	c.a.SetUp(true, r.now)
	ports[at], r.a.Ports = c.a, ports
	r.run(3 * AggregateWait)
	r.want(t, "the port is there anew", "0 1 2")
}

// TestOneWay: of a cable that carries LACPDUs in one direction alone, neither end is used once the silent direction has timed out.
func TestOneWay(t *testing.T) {
	r := newRig(2)
	r.run(3 * AggregateWait)
	r.want(t, "at the beginning", "0 1")
	r.cables[1].deaf = true
	r.run(LongTime + ShortTime + 2*FastPeriodic)
	r.want(t, "b hears nothing by cable 1", "0")
}

// TestLossy: with a third of all LACPDUs lost, the systems agree in the end, and no cable is active at one end alone for longer than the long time.
func TestLossy(t *testing.T) {
	r := newRig(4)
	r.loss = 1.0 / 3
	r.run(10 * time.Minute)
	r.loss = 0
	r.run(2 * SlowPeriodic)
	r.want(t, "in the end", "0 1 2 3")
}

// TestRate: whatever happens, a port sends at most 3 LACPDUs within a second, and answers at most 5 markers.
func TestRate(t *testing.T) {
	r := newRig(1)
	p := r.cables[0].a
	random := rand.New(rand.NewPCG(3, 4))
	var sent, answered []time.Time
	for range 20_000 {
		r.now = r.now.Add(time.Duration(random.IntN(int(50 * time.Millisecond))))
		pdu := PDU{Actor: Participant{System: System{1, [6]byte{2, 1, 1, 1, 1, byte(random.Uint32())}}, Key: uint16(random.Uint32()), Port: 1, State: State(random.Uint32())}}
		p.Receive(pdu.Append(nil), r.now)
		marker := append([]byte{SubtypeMarker, 1, 1, 16}, make([]byte, Length-4)...)
		if p.Receive(marker, r.now) != nil {
			answered = append(answered, r.now)
		}
		if out := r.a.Step(r.now); out[0] != nil {
			sent = append(sent, r.now)
		}
	}
	for _, c := range []struct {
		what  string
		times []time.Time
		most  int
	}{{"LACPDUs", sent, maxTransmits}, {"answers", answered, maxResponses}} {
		for i := c.most; i < len(c.times); i++ {
			if c.times[i].Sub(c.times[i-c.most]) < FastPeriodic {
				t.Fatalf("%d %s within a second", c.most+1, c.what)
			}
		}
		if len(c.times) < 100 {
			t.Errorf("only %d %s", len(c.times), c.what)
		}
	}
}

// TestHostile: a port whose partner is another one with each LACPDU joins at most once in the aggregate wait time, and takes none of the others along, of which it
// may forge the identity.
func TestHostile(t *testing.T) {
	r := newRig(3)
	r.run(3 * AggregateWait)
	r.want(t, "at the beginning", "0 1 2")
	victim := r.cables[0].a
	others := []uint64{r.cables[1].a.Left, r.cables[2].a.Left}
	left, random := victim.Left, rand.New(rand.NewPCG(5, 6))
	begin := r.now
	for range 10_000 {
		pdu := PDU{
			Actor:   Participant{System: System{uint16(random.IntN(3)), [6]byte{2, 0, 0, 0, 0, byte(random.IntN(4))}}, Key: uint16(random.IntN(3)), Port: uint16(random.IntN(3)), State: State(random.Uint32())},
			Partner: victim.Actor,
		}
		victim.Receive(pdu.Append(nil), r.now)
		r.run(tick)
	}
	if got, most := victim.Left-left, uint64(r.now.Sub(begin)/AggregateWait)+2; got > most {
		t.Errorf("the port joined and left %d times in %v", got, r.now.Sub(begin))
	}
	if r.cables[1].a.Left != others[0] || r.cables[2].a.Left != others[1] {
		t.Error("another port left")
	}
	for i, c := range r.cables[1:] {
		if !c.a.Active() || !c.b.Active() {
			t.Errorf("cable %d is not active", i+1)
		}
	}
}

// TestSelection: a group is kept for as long as a port of it is there; then the largest one is taken. Neither the switch itself, nor a partner that cannot aggregate, is a partner.
func TestSelection(t *testing.T) {
	now := time.Unix(1, 0)
	a := &Aggregator{System: System{1, [6]byte{2, 0, 0, 0, 0, 1}}, Key: 1}
	for i := range 5 {
		a.Add(uint16(i)).SetUp(true, now)
	}
	hear := func(port int, system byte, state State) {
		p := PDU{Actor: Participant{System: System{1, [6]byte{2, 0, 0, 0, 0, system}}, Key: 1, Port: uint16(port), State: state}, Partner: a.Ports[port].Actor}
		a.Ports[port].Receive(p.Append(nil), now)
	}
	selected := func() (all string) {
		for i, p := range a.Ports {
			if p.Selected {
				all += fmt.Sprint(i)
			}
		}
		return all
	}
	const good = Activity | Aggregation | Synchronization
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"one partner", func() { hear(0, 7, good) }, "0"},
		{"two ports of another one", func() { hear(1, 8, good); hear(2, 8, good) }, "0"},
		{"one that cannot aggregate", func() { hear(3, 7, good&^Aggregation) }, "0"},
		{"the switch itself", func() { hear(4, 1, good) }, "0"},
		{"the first one goes", func() { a.Ports[0].SetUp(false, now) }, "12"},
		{"and comes back", func() { a.Ports[0].SetUp(true, now); hear(0, 7, good) }, "12"},
	} {
		step.do()
		a.Step(now)
		a.Step(now) // the mux machine has left the former group
		if got := selected(); got != step.want {
			t.Errorf("%s: selected are %q, want %q", step.what, got, step.want)
		}
	}
}

// FuzzDecode: what is read is written as it was, but for what is reserved.
func FuzzDecode(f *testing.F) {
	f.Add(fromHex(f, recorded))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, ok := Decode(data)
		if ok != Valid(data) {
			t.Fatal("read what is not valid, or not what is")
		}
		again, ok2 := Decode(p.Append(nil))
		if ok && (!ok2 || again != p) {
			t.Fatalf("%v is written as %v", p, again)
		}
		// The machines take anything.
		a := &Aggregator{System: System{1, [6]byte{2, 0, 0, 0, 0, 1}}, Key: 1}
		port := a.Add(1)
		now := time.Unix(1, 0)
		port.SetUp(true, now)
		port.Receive(data, now)
		for range 100 {
			a.Step(now)
			now = now.Add(tick)
		}
	})
}
