package controller

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/oblivious"
	"github.com/weirswitch/weir/telemetry/hash"
)

// fake keeps what it is told, and has room for few entries in a table.
type fake struct {
	room      int
	tables    map[string]map[int32]string // commands by handle
	ttl       map[int32]time.Duration
	registers map[string]uint64
	loaded    string
	writes    int
	handle    int32

	learned []bmv2.Learned
	expired []bmv2.Expired
	ended   chan struct{}
	broken  error
}

func newFake(room int) *fake {
	return &fake{room: room, tables: map[string]map[int32]string{}, ttl: map[int32]time.Duration{}, registers: map[string]uint64{}, ended: make(chan struct{})}
}

func (f *fake) Program() *bmv2.Program { return new(bmv2.Program) }

func (f *fake) Load(text string) error {
	f.loaded = text
	return nil
}

func (f *fake) AddEntry(command string) (int32, error) {
	table := strings.Fields(command)[1]
	if f.tables[table] == nil {
		f.tables[table] = map[int32]string{}
	}
	if len(f.tables[table]) == f.room {
		return 0, fmt.Errorf("%s: %w", command, bmv2.ErrFull)
	}
	f.handle++
	f.tables[table][f.handle] = command
	return f.handle, nil
}

func (f *fake) DeleteEntry(table string, handle int32) error {
	if _, ok := f.tables[table][handle]; !ok {
		return fmt.Errorf("no entry %d in %s", handle, table)
	}
	delete(f.tables[table], handle)
	return nil
}

func (f *fake) SetEntryTTL(table string, handle int32, ttl time.Duration) error {
	if _, ok := f.tables[table][handle]; !ok {
		return fmt.Errorf("no entry %d in %s", handle, table)
	}
	f.ttl[handle] = ttl
	return nil
}

func (f *fake) WriteRegister(name string, index int, value uint64) error {
	f.writes++
	f.registers[fmt.Sprintf("%s[%d]", name, index)] = value
	return nil
}

func (f *fake) Learned(time.Duration) (bmv2.Learned, error) {
	if f.broken != nil {
		return bmv2.Learned{}, f.broken
	}
	if len(f.learned) == 0 {
		return bmv2.Learned{}, bmv2.ErrQuiet
	}
	l := f.learned[0]
	f.learned = f.learned[1:]
	return l, nil
}

func (f *fake) Expired() (e bmv2.Expired, ok bool) {
	if len(f.expired) == 0 {
		return e, false
	}
	e, f.expired = f.expired[0], f.expired[1:]
	return e, true
}

func (f *fake) Ended() <-chan struct{} { return f.ended }

func (f *fake) Err() error { return errors.New("its last words") }

const (
	stations = "ingress.forward.l2.stations"
	heardAt  = "ingress.forward.l2.heard"
)

// count is how many entries a table has.
func (f *fake) count(table string) int { return len(f.tables[table]) }

// newest is the handle of the entry that was added last.
func (f *fake) newest(table string) int32 {
	return slices.Max(slices.Collect(maps.Keys(f.tables[table])))
}

// options are those of all tests: a time in the middle of an epoch.
var options = tables.Options{CPUPort: tables.DefaultCPUPort, Now: 1_800_000_000_123_456_789}

// bridgeOf is a switch of three ports with a table for so many stations.
func bridgeOf(tableSize int) *tables.Switch {
	c := l2.DefaultConfig()
	c.TableSize, c.Ageing = tableSize, 5*time.Minute
	return &tables.Switch{
		ID: 1, Hash: hash.CRC, Graph: []string{"l2"}, Stages: map[string]any{"l2": &c},
		Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}, {Name: "p2"}},
	}
}

func start(t *testing.T, f *fake, s *tables.Switch) *Controller {
	t.Helper()
	c, err := New(f, s, options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// from is a sample of the digest station_t.
func from(mac byte, port uint16) bmv2.Learned {
	s := append([]byte{0, 0}, 2, 0, 0, 0, 0, mac)
	return bmv2.Learned{List: 1, Samples: [][]byte{binary.BigEndian.AppendUint16(s, port)}}
}

// TestLearn: stations are learned, move, find no room, and age.
func TestLearn(t *testing.T) {
	f := newFake(100)
	c := start(t, f, bridgeOf(2))
	learn := func(l bmv2.Learned) {
		t.Helper()
		if err := c.Learn(l); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want Stations) {
		t.Helper()
		if got := c.Stations(); got != want || f.count(stations) != int(want.Known) || f.count(heardAt) != int(want.Known) {
			t.Errorf("%s: %+v, %d and %d entries, want %+v", what, got, f.count(stations), f.count(heardAt), want)
		}
	}
	learn(from(1, 0))
	first := f.newest(heardAt)
	if ttl := f.ttl[first]; ttl != 5*time.Minute {
		t.Errorf("a station lives for %v, want 5m", ttl)
	}
	learn(from(1, 0))
	expect("twice", Stations{Known: 1, Learned: 1})
	learn(from(2, 1))
	learn(from(3, 1))
	expect("beyond table_size", Stations{Known: 2, Learned: 2, Full: 1})
	learn(from(1, 2))
	expect("moved", Stations{Known: 2, Learned: 2, Moved: 1, Full: 1})
	if !c.Known(0, [6]byte{2, 0, 0, 0, 0, 1}, 2) || c.Known(0, [6]byte{2, 0, 0, 0, 0, 1}, 0) {
		t.Error("a station that moved is not known at its new port alone")
	}
	// What was told before it moved is of an entry that is gone.
	if err := c.expire(bmv2.Expired{Table: heardAt, Handles: []int32{first, 999}}); err != nil {
		t.Fatal(err)
	}
	expect("an old entry expired", Stations{Known: 2, Learned: 2, Moved: 1, Full: 1})
	if err := c.expire(bmv2.Expired{Table: heardAt, Handles: []int32{f.newest(heardAt)}}); err != nil {
		t.Fatal(err)
	}
	expect("aged", Stations{Known: 1, Learned: 2, Moved: 1, Aged: 1, Full: 1})
	learn(from(3, 1))
	expect("room again", Stations{Known: 2, Learned: 3, Moved: 1, Aged: 1, Full: 1})
}

// TestFull: a table of the switch that is full is no end: nothing of the station stays behind.
func TestFull(t *testing.T) {
	f := newFake(1)
	f.tables[heardAt] = map[int32]string{1000: "somebody"}
	c := start(t, f, bridgeOf(16384))
	f.learned = []bmv2.Learned{from(1, 0), from(2, 1)}
	for range 3 {
		if err := c.step(f, func() int64 { return int64(options.Now) }); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Stations(); got != (Stations{Full: 2}) || f.count(stations) != 0 || f.count(heardAt) != 1 {
		t.Errorf("%+v, %d and %d entries", got, f.count(stations), f.count(heardAt))
	}
}

func TestBadSample(t *testing.T) {
	c := start(t, newFake(1), bridgeOf(1))
	if err := c.Learn(bmv2.Learned{Samples: [][]byte{{1, 2, 3}}}); err == nil || !strings.Contains(err.Error(), "3 bytes") {
		t.Errorf("a sample of 3 bytes: %v", err)
	}
}

// sampling is a switch whose registers depend on the clock.
func sampling(epochBits int) *tables.Switch {
	c := oblivious.DefaultConfig()
	c.Unit, c.EpochBits = "packets", epochBits
	return &tables.Switch{ID: 1, Hash: hash.CRC, Graph: []string{"oblivious"}, Stages: map[string]any{"oblivious": &c}}
}

// TestTick: at any time the registers of the present epoch and of the next one are there, and they are written once.
func TestTick(t *testing.T) {
	const bits = 27
	f := newFake(1)
	c := start(t, f, sampling(bits))
	for now := options.Now; now < options.Now+6<<bits; now += 1 << (bits - 3) {
		if err := c.Tick(now); err != nil {
			t.Fatal(err)
		}
		for epoch := now >> bits; epoch <= now>>bits+1; epoch++ {
			at := fmt.Sprintf("ingress.oblivious_ingress.epoch[%d]", epoch&1)
			if got, ok := f.registers[at]; (ok || epoch > options.Now>>bits+1) && got != epoch {
				t.Fatalf("at %d %s is %d, want %d", now, at, got, epoch)
			}
		}
	}
	// Five more epochs begin, or six; the threshold of each is what it was.
	if f.writes < 5 || f.writes > 6 {
		t.Errorf("%d registers were written, want 5 or 6", f.writes)
	}
}

// TestShortEpochs: epochs that the loop would miss are refused, with key and remedy.
func TestShortEpochs(t *testing.T) {
	o := options
	o.LeastEpochBits = LeastEpochBits
	_, err := New(newFake(1), sampling(26), o)
	if err == nil || !strings.Contains(err.Error(), "stages.oblivious.epoch_bits: 26: epochs of 67.108864ms are too short") ||
		!strings.Contains(err.Error(), "choose 27 or more") {
		t.Errorf("epochs of 2^26 ns: %v", err)
	}
	if _, err := New(newFake(1), sampling(27), o); err != nil {
		t.Errorf("epochs of 2^27 ns: %v", err)
	}
}

// TestServe: the loop takes in what the switch tells, ends with ctx, and says why a switch ended.
func TestServe(t *testing.T) {
	now := func() int64 { return int64(options.Now) }
	f := newFake(10)
	c := start(t, f, bridgeOf(10))
	f.learned = []bmv2.Learned{from(1, 0), from(2, 1)}
	f.expired = []bmv2.Expired{{Table: heardAt, Handles: []int32{2}}} // the first station's
	ctx, cancel := context.WithCancel(context.Background())
	ticks := 0
	if err := c.Serve(ctx, f, func() int64 {
		if ticks++; ticks == 10 {
			cancel()
		}
		return now()
	}); err != nil {
		t.Errorf("the loop ends with ctx, and says %v", err)
	}
	if got := c.Stations(); got != (Stations{Known: 1, Learned: 2, Aged: 1}) {
		t.Errorf("%+v", got)
	}
	f.broken = errors.New("the switch closed its notifications")
	if err := c.Serve(context.Background(), f, now); !errors.Is(err, f.broken) {
		t.Errorf("a broken connection: %v", err)
	}
	close(f.ended)
	if err := c.Serve(context.Background(), f, now); err == nil || err.Error() != "its last words" {
		t.Errorf("a switch that ended: %v", err)
	}
}
