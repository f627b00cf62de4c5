package store

import (
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/record"
)

// shapedRecord is a fragment's record of a sketch in a unit, with epochs of 2^bits ns.
func shapedRecord(t testing.TB, sw, epoch uint64, unit disketch.Unit, bits disketch.Epochs) []byte {
	f, err := disketch.NewFragment(disketch.Config{
		ID: disketch.ID{Switch: sw, Sketch: 1}, Kind: disketch.CountMin, Memory: 1024, Epochs: bits, Target: 1, Unit: unit,
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.NewCounter()
	if err != nil {
		t.Fatal(err)
	}
	c.Begin(f.Begin(epoch), 0)
	c.Add(7, 1, false)
	r := c.Record()
	return envelope(t, record.Header{Kind: record.DiSketch, Switch: uint32(sw), Instance: 1, Start: int64(epoch) << bits, Span: 1 << bits}, r.AppendBinary)
}

// disputed counts what views leave out for its shape, by switch.
func disputed(s *Store, of string) map[string]uint64 {
	by := map[string]uint64{}
	for _, m := range s.Missing(of, Window{0, 1 << 50}) {
		if m.Disputed > 0 {
			by[m.Switch] += m.Disputed
		}
	}
	return by
}

// TestShapeOfOne: one switch that sends its fragments in another shape, first or later, once or always, does not
// shut out those of others: its own are left out and named.
func TestShapeOfOne(t *testing.T) {
	attacks := map[string]func(epoch uint64) [][]byte{
		"another unit": func(epoch uint64) [][]byte {
			return [][]byte{shapedRecord(t, 66, epoch, disketch.Bytes, 30)}
		},
		"shorter epochs": func(epoch uint64) [][]byte {
			return [][]byte{shapedRecord(t, 66, 2*epoch, disketch.Packets, 29)}
		},
		"epochs of the same number elsewhere": func(epoch uint64) [][]byte {
			return [][]byte{shapedRecord(t, 66, epoch, disketch.Packets, 29)}
		},
	}
	for name, attack := range attacks {
		for _, first := range []bool{true, false} {
			l := newLive(t, LiveConfig{Bytes: 8 << 20})
			sent := uint64(0)
			for epoch := uint64(100); epoch < 110; epoch++ {
				var honest [][]byte
				for sw := uint64(1); sw <= 3; sw++ {
					honest = append(honest, shapedRecord(t, sw, epoch, disketch.Packets, 30))
				}
				hostile := attack(epoch)
				sent += uint64(len(hostile))
				if first {
					l.AddBytes(join(hostile...))
				}
				l.AddBytes(join(honest...))
				if !first {
					l.AddBytes(join(hostile...))
				}
			}
			l.check(t)
			v := l.View(Window{})
			if len(v.Fragments) != 30 {
				t.Errorf("%s, first %v: %d of 30 records of the others are here", name, first, len(v.Fragments))
			}
			if by := disputed(v, OfFragments); by["66"] != sent || len(by) != 1 {
				t.Errorf("%s, first %v: disputed %v", name, first, by)
			}
		}
	}
}

// TestShapeChanges: a network whose shape is changed keeps what it measured before.
func TestShapeChanges(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: 8 << 20})
	for epoch := uint64(100); epoch < 110; epoch++ {
		unit := disketch.Packets
		if epoch >= 105 {
			unit = disketch.Bytes
		}
		for sw := uint64(1); sw <= 3; sw++ {
			l.AddBytes(shapedRecord(t, sw, epoch, unit, 30))
		}
	}
	if v := l.View(Window{}); len(v.Fragments) != 30 || len(disputed(v, OfFragments)) != 0 {
		t.Errorf("%d records, disputed %v", len(v.Fragments), disputed(v, OfFragments))
	}
}

// TestClockAhead: a record of a time to come does not move the window of anybody, and is named; so is a switch
// whose clock is ahead by the seconds between TAI and UTC. When its clock is right again, its records count.
func TestClockAhead(t *testing.T) {
	now := int64(1000 << 30)
	l := newLive(t, LiveConfig{Bytes: 8 << 20, Now: func() int64 { return now }})
	send := func(sw uint32, ahead int64, slice int64) {
		h, body, _, err := record.Decode(sampleRecord(t, sw, (slice<<30)+ahead, 5, false))
		if err != nil {
			t.Fatal(err)
		}
		if o := l.Add(h, body); o != Taken {
			t.Errorf("switch %d: %v", sw, o)
		}
	}
	for slice := int64(990); slice < 999; slice++ {
		now = (slice + 1) << 30
		for sw := uint32(1); sw <= 3; sw++ {
			send(sw, 0, slice)
		}
		send(4, 37e9, slice)
	}
	send(5, 110e9, 998)
	v := l.View(Window{})
	w := v.LastBefore(5*time.Second, now)
	if w.To > now || w.From < now-62e8 {
		t.Errorf("the last 5 s before %d are %+v", now, w)
	}
	inside := 0
	for i := range v.Samples {
		if v.Samples[i].Overlaps(w) {
			inside++
		}
	}
	if inside < 12 {
		t.Errorf("%d samples of the last 5 s are here", inside)
	}
	skewed := map[string]uint64{}
	for _, m := range v.Missing(OfSamples, w) {
		if m.Skewed > 0 {
			skewed[m.Switch] = m.Skewed
		}
	}
	if skewed["e"] != 9 || skewed["f"] != 1 || len(skewed) != 2 {
		t.Errorf("left out for their clocks: %v", skewed)
	}
	clocks, ahead := l.Clocks()
	if len(clocks) != 5 || clocks[0].Skewed || !clocks[3].Skewed || clocks[3].Offset.Round(time.Second) != 37*time.Second || ahead != 0 {
		t.Errorf("%+v, ahead %v", clocks, ahead)
	}
	for slice := int64(1000); slice < 1040; slice++ {
		now = (slice + 1) << 30
		send(4, 0, slice)
	}
	if clocks, _ := l.Clocks(); clocks[3].Skewed {
		t.Errorf("%+v", clocks[3])
	}
	if v := l.View(Window{}); v.Samples[len(v.Samples)-1].Switch != 4 {
		t.Error("a clock that is right again is not believed")
	}
}

// TestClockOfCollector: if most switches are ahead it is the collector's clock that is wrong: all are believed,
// but for the one that differs from the others.
func TestClockOfCollector(t *testing.T) {
	now := int64(1000 << 30)
	l := newLive(t, LiveConfig{Bytes: 8 << 20, Now: func() int64 { return now }})
	for sw := uint32(1); sw <= 4; sw++ {
		ahead := int64(37e9)
		if sw == 4 {
			ahead = 100e9
		}
		h, body, _, _ := record.Decode(sampleRecord(t, sw, now-1<<30+ahead, 5, false))
		l.Add(h, body)
	}
	v := l.View(Window{})
	if w := v.LastBefore(time.Second, now); len(v.Samples) != 3 || w.To < now+36e9 || w.To > now+38e9 {
		t.Errorf("%d samples, the last second is %+v", len(v.Samples), w)
	}
	if _, ahead := l.Clocks(); ahead.Round(time.Second) != 37*time.Second {
		t.Errorf("ahead %v", ahead)
	}
}

// TestLateRecords: when records are late, what is old is not taken for what is new.
func TestLateRecords(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: 8 << 20})
	l.AddBytes(sampleRecord(t, 1, 100<<30, 5, false))
	v := l.View(Window{})
	end := v.All().To
	if w := v.LastBefore(5*time.Second, end+3e9); w.To != end {
		t.Errorf("records in the making: %+v", w)
	}
	if w := v.LastBefore(5*time.Second, end+300e9); w.From <= end {
		t.Errorf("records of five minutes ago are the last 5 s: %+v", w)
	}
}

// TestFloodPaysItself: a switch that sends very much moves out its own records.
func TestFloodPaysItself(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: 4 << 20})
	for slice := int64(0); slice < 100; slice++ {
		for sw := uint32(1); sw <= 3; sw++ {
			l.AddBytes(sampleRecord(t, sw, slice<<30, 4, false))
		}
		for i := range uint64(50) {
			l.AddBytes(digestsRecord(t, 66, slice, 1, uint64(slice)*50+i, (uint64(slice)*50+i)*100, 100))
		}
	}
	l.check(t)
	v := l.View(Window{})
	by := map[uint32]int{}
	for i := range v.Samples {
		by[v.Samples[i].Switch]++
	}
	if by[1] != 100 || by[2] != 100 || by[3] != 100 {
		t.Errorf("samples of the others: %v", by)
	}
	if l.Counts().Evicted == 0 {
		t.Error("nothing was evicted: the test shows nothing")
	}
	named := uint64(0)
	for _, m := range v.Missing(OfDigests, Window{0, 200 << 30}) {
		if m.Switch == "d66" {
			named += m.Evicted
		}
	}
	if named != l.Counts().Evicted {
		t.Errorf("%d evictions are named, of %d", named, l.Counts().Evicted)
	}
}

// TestNamesOfOthers: a switch does not pass for another one by its name.
func TestNamesOfOthers(t *testing.T) {
	named := func(sw uint32, name string, slice int64) []byte {
		h, body, _, _ := record.Decode(sampleRecord(t, sw, slice<<30, 3, false))
		h.Name = name
		return envelope(t, h, func(b []byte) ([]byte, error) { return append(b, body...), nil })
	}
	l := newLive(t, LiveConfig{Bytes: 8 << 20, Names: map[uint32]string{1: "s1"}})
	l.AddBytes(join(
		named(77, "s1", 1), named(1, "s1", 1), // bound to its credentials, in any order
		named(2, "s2", 1), named(78, "s2", 1), // not bound: of the first
		named(79, "2", 1),                                 // the number of another one
		named(80, "s2 ", 1), named(81, "\u0455\u0032", 1), // which look like s2
	))
	v := l.View(Window{})
	for sw, want := range map[uint32]string{1: "s1", 2: "s2", 77: "77", 78: "78", 79: "79", 80: "80", 81: "81"} {
		if got := v.Name(sw); got != want {
			t.Errorf("switch %d is called %q, want %q", sw, got, want)
		}
		if found, ok := v.Switch(want); !ok || found != sw {
			t.Errorf("%q is switch %d", want, found)
		}
	}
	denied := l.DeniedNames()
	if len(denied) != 5 || denied[77] != "s1" || denied[78] != "s2" || denied[79] != "2" {
		t.Errorf("%v", denied)
	}
}
