package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/records"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/export"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	os.Exit(m.Run())
}

func testConfig(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(`
[switch]
name = "s1"
id = 1
hash = "crc"
graph = ["parse", "oblivious", "patch"]

[[port]]
name = "left"
interface = "eth1"

[[port]]
name = "right"
interface = "eth2"

[stages.patch]
pairs = [["left", "right"]]

[stages.oblivious]
unit = "packets"
`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCheck: a good configuration passes, and rates of queues are of ports and within BMv2's bounds.
func TestCheck(t *testing.T) {
	c := testConfig(t)
	if err := errors.Join(Check(c), CheckQueueRates(c, map[string]int64{"left": 1, "right": bmv2.MaxQueueRate})); err != nil {
		t.Error(err)
	}
	err := CheckQueueRates(c, map[string]int64{"left": 0, "middle": 5, "right": bmv2.MaxQueueRate + 1})
	want := `queue rate of port "left": 0 packets per second: choose 1 to 1000000000
queue rate: port "middle" is not defined: define [[port]] name = "middle" or correct the name
queue rate of port "right": 1000000001 packets per second: choose 1 to 1000000000`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
}

// TestFates: packets and the copies that flooding made of them add up, each by itself.
func TestFates(t *testing.T) {
	number := func(name string) int {
		for n, reason := range tables.ReasonNames() {
			if reason == name {
				return n
			}
		}
		t.Fatal(name)
		return 0
	}
	for _, c := range []struct {
		name                  string
		received, transmitted uint64
		counters              map[string]uint64 // by "counter reason", or "counter"
		want                  *api.ReportResponse
		copies                *api.Fate
	}{
		{"nothing", 0, 0, nil, &api.ReportResponse{Balanced: true}, &api.Fate{}},
		{"drops at either end", 10, 6, map[string]uint64{"ingress.ingress_dropped unpatched": 2, "egress.egress_dropped pint_loop": 1, "ingress.ingress_dropped consumed": 1},
			&api.ReportResponse{Forwarded: 6, Consumed: 1, Dropped: map[string]uint64{"unpatched": 2, "pint_loop": 1}, Balanced: true}, &api.Fate{}},
		// A flood to three ports: one packet and two copies.
		{"flood", 1, 3, map[string]uint64{"egress.copies": 2}, &api.ReportResponse{Forwarded: 1, Balanced: true}, &api.Fate{Received: 2, Forwarded: 2}},
		{"flood with a drop", 1, 2, map[string]uint64{"egress.copies": 2, "egress.copies_dropped pint_loop": 1, "egress.egress_dropped pint_loop": 1},
			&api.ReportResponse{Forwarded: 1, Balanced: true}, &api.Fate{Received: 2, Forwarded: 1, Dropped: map[string]uint64{"pint_loop": 1}}},
		{"the packet itself drops", 1, 2, map[string]uint64{"egress.copies": 2, "egress.egress_dropped pint_loop": 1},
			&api.ReportResponse{Forwarded: 0, Dropped: map[string]uint64{"pint_loop": 1}, Balanced: true}, &api.Fate{Received: 2, Forwarded: 2}},
		{"one vanished", 2, 1, nil, &api.ReportResponse{Forwarded: 1}, &api.Fate{}},
		{"copies vanished", 1, 1, map[string]uint64{"egress.copies": 2}, &api.ReportResponse{Forwarded: 0}, &api.Fate{Received: 2, Forwarded: 1}},
	} {
		left := map[string]uint64{}
		for key, n := range c.counters {
			counter, reason, named := strings.Cut(key, " ")
			at := 0
			if named {
				at = number(reason)
			}
			left[fmt.Sprint(counter, at)] = n
		}
		r := &api.ReportResponse{Received: c.received, Forwarded: c.transmitted}
		if err := fates(r, func(name string, n int) (uint64, error) { return left[fmt.Sprint(name, n)], nil }); err != nil {
			t.Fatal(err)
		}
		if r.Forwarded != c.want.Forwarded || r.Consumed != c.want.Consumed || r.Balanced != c.want.Balanced || !maps.Equal(r.Dropped, c.want.Dropped) {
			t.Errorf("%s: %v", c.name, r)
		}
		if f := r.Copies; f.Received != c.copies.Received || f.Forwarded != c.copies.Forwarded || !maps.Equal(f.Dropped, c.copies.Dropped) {
			t.Errorf("%s: copies %v", c.name, f)
		}
	}
	gone := errors.New("gone")
	if err := fates(new(api.ReportResponse), func(string, int) (uint64, error) { return 0, gone }); !errors.Is(err, gone) {
		t.Errorf("a switch that does not answer: %v", err)
	}
}

// fakeTarget notes the order of calls.
type fakeTarget struct{ calls []string }

func (f *fakeTarget) note(text string) error {
	f.calls = append(f.calls, text)
	return nil
}

func (f *fakeTarget) Program() *bmv2.Program { return new(bmv2.Program) }

func (f *fakeTarget) Load(string) error { return f.note("tables") }

func (f *fakeTarget) AddEntry(string) (int32, error) { return 0, f.note("an entry") }

func (f *fakeTarget) DeleteEntry(string, int32) error { return f.note("an entry less") }

func (f *fakeTarget) SetEntryTTL(string, int32, time.Duration) error { return f.note("a time to live") }

func (f *fakeTarget) WriteRegister(name string, index int, value uint64) error {
	return f.note(fmt.Sprintf("%s[%d] = %d", name, index, value))
}

func (f *fakeTarget) Started(func() int64) (int64, time.Duration, error) { return 42, 1, nil }

func (f *fakeTarget) AddPort(number int, name string) error {
	return f.note(fmt.Sprintf("port %d %s", number, name))
}

// TestLoadOrder: a switch knows the time ahead of its tables, and has ports when it has both.
func TestLoadOrder(t *testing.T) {
	c := testConfig(t)
	here, err := netns.Current()
	if err != nil {
		t.Skip(err)
	}
	defer here.Close()
	for i := range c.Ports {
		c.Ports[i].Interface = "lo"
	}
	s := &Node{config: c, here: here, now: func() int64 { return 1_800_000_000_123_456_789 }, ports: Tables(c), begin: map[string]netns.Counters{}}
	f := new(fakeTarget)
	if err := s.load(f); err != nil {
		t.Fatal(err)
	}
	if want := []string{"tai_offset[0] = 42", "tables", "port 0 lo", "port 1 lo"}; !slices.Equal(f.calls, want) {
		t.Errorf("called %q, want %q", f.calls, want)
	}
}

// TestMeasuredLatency: a port's cells become what a Weir switch says of its own histogram.
func TestMeasuredLatency(t *testing.T) {
	cells := make([]uint64, tables.LatencyCells)
	for ns := uint64(1000); ns <= 100_000; ns += 1000 {
		cells[tables.LatencyCell(3, ns)]++
	}
	m := measuredLatency("p3", tables.LatenciesOf(cells, 3))
	if m.Port != "p3" || m.Value != "hop_latency" || m.Packets != 100 {
		t.Errorf("%+v", m)
	}
	for _, q := range []struct{ got, want float64 }{{m.Median, 50_500}, {m.P90, 90_500}, {m.P99, 99_500}, {m.Highest, 100_000}} {
		if math.Abs(q.got/q.want-1) > 0.125 {
			t.Errorf("%v ns, want %v: %+v", q.got, q.want, m)
		}
	}
	if none := measuredLatency("p4", tables.LatenciesOf(cells, 4)); none.Packets != 0 {
		t.Errorf("a port that nothing left by: %+v", none)
	}
}

// TestSettled: the report is taken until it adds up, and as it is when that never comes or it cannot be taken.
func TestSettled(t *testing.T) {
	taken := 0
	r, err := settled(func() (*api.ReportResponse, error) {
		taken++
		return &api.ReportResponse{Received: uint64(taken), Balanced: taken == 3}, nil
	})
	if err != nil || !r.Balanced || r.Received != 3 || taken != 3 {
		t.Errorf("%+v, %v, taken %d times", r, err, taken)
	}
	if r, err = settled(func() (*api.ReportResponse, error) { return new(api.ReportResponse), nil }); err != nil || r.Balanced {
		t.Errorf("packets were lost: %+v, %v", r, err)
	}
	if r, err = settled(func() (*api.ReportResponse, error) { return nil, io.ErrUnexpectedEOF }); r != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("no report: %+v, %v", r, err)
	}
}

// udpFrame is a datagram of 10.0.0.1 for 10.0.0.2.
func udpFrame() []byte {
	return append([]byte{2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1, 0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0x66, 0xbd, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 8, 0, 26}, make([]byte, 20)...)
}

// blank is a target that counts nothing.
type blank struct{}

func (blank) Registers(string) ([]uint64, error) { return make([]uint64, 1<<17), nil }

func (blank) WriteRegister(string, int, uint64) error { return nil }

// TestFinalReport: what comes to the CPU port until all packets have left is taken in, and the records are made
// behind that. What is no copy, is nobody's or comes later is in the report.
func TestFinalReport(t *testing.T) {
	netnstest.Require(t)
	c := testConfig(t)
	source, err := records.New(records.Config{Switch: Tables(c), Target: blank{}, Clock: clock.Kernel.TAI})
	if err != nil {
		t.Fatal(err)
	}
	ns := netnstest.New(t, "wp")
	r := &recorder{end: make(chan struct{})}
	if err := ns.Do(func() (err error) {
		r.cpu, err = bmv2.OpenCPUPort()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.source = &cpuSource{Source: source, cpu: r.cpu}
	if r.export, err = export.NewPath(c.Telemetry, c.Switch.ID, c.Switch.Name, c.Switch.Hash, nil, nil, r.source); err != nil {
		t.Fatal(err)
	}
	r.running.Go(r.read)
	port, err := ns.PacketSocket(r.cpu.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	come := func(frames ...[]byte) {
		t.Helper()
		before := r.came.Load()
		for _, f := range frames {
			if err := port.Send(f); err != nil {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(10 * time.Second); r.came.Load() != before+uint64(len(frames)); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d frames came", r.came.Load()-before, len(frames))
			}
		}
	}
	taken, finished := 0, 0
	r.finish = func() error {
		finished = taken
		err := r.export.Close(clock.Kernel.TAI())
		come(cpuFrame(1), cpuFrame(1))
		return err
	}
	report, err := finalReport(func() (*api.ReportResponse, error) {
		if taken++; taken == 3 {
			come(make([]byte, 60), cpuFrame(2))
		}
		return &api.ReportResponse{Balanced: taken == 3}, nil
	}, r)
	if err != nil || taken != 3 || finished != 3 {
		t.Errorf("%v; %d reports were taken, the records were made behind %d", err, taken, finished)
	}
	drops := map[string]float64{}
	for _, m := range report.GetMetrics() {
		if m.Stage == "p4" && m.Name == "dropped_copies_total" {
			drops[m.Labels["reason"]] = m.Value
		}
	}
	if want := map[string]float64{records.DropForeign: 1, records.DropUnclaimed: 1, records.DropLate: 2}; !maps.Equal(drops, want) {
		t.Errorf("the report has dropped copies %v, want %v", drops, want)
	}
	// Once is enough, also with an error.
	r.finish = func() error { return errors.New("again") }
	if err := r.stop(); err != nil {
		t.Errorf("a second end: %v", err)
	}
}

// cpuFrame is a copy of a kind at the CPU port, of now.
func cpuFrame(kind byte) []byte {
	f := append([]byte{kind}, make([]byte, 23)...)
	return append(binary.BigEndian.AppendUint64(f, uint64(clock.Kernel.TAI())), udpFrame()...)
}
