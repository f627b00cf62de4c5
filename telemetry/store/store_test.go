package store

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
)

const second = 1e9

// envelope makes a record of a body.
func envelope(t testing.TB, h record.Header, body func([]byte) ([]byte, error)) []byte {
	t.Helper()
	b, err := record.Append(nil, &h, body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sampleRecord(t testing.TB, sw uint32, start int64, packets int, partial bool) []byte {
	s, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range packets {
		s.Add(uint64(i)*0x9e3779b97f4a7c15+uint64(sw), 100, &oblivious.Key{Version: 4, SrcPort: uint16(i)})
	}
	return envelope(t, record.Header{
		Kind: record.Oblivious, Switch: sw, Name: string('a' + rune(sw)), Start: start, Span: second, Partial: partial, Missed: uint64(sw),
	}, s.Sample().AppendBinary)
}

func pointRecord(t testing.TB, sw uint32, instance uint16, interval int64) []byte {
	p, err := lds.NewPoint(lds.Config{Rows: 2, Columns: 8, Virtual: 1, IntervalNs: second})
	if err != nil {
		t.Fatal(err)
	}
	p.Begin(interval)
	p.Add(5, 6, interval*second+7, 100)
	return envelope(t, record.Header{Kind: record.LDS, Switch: sw, Name: "b", Instance: instance, Start: interval * second, Span: second}, p.AppendBinary)
}

func fragmentRecord(t testing.TB, sw uint64, epoch uint64) []byte {
	return envelope(t, record.Header{Kind: record.DiSketch, Switch: uint32(sw), Name: "c", Instance: 1, Start: int64(epoch) << 30, Span: 1 << 30}, fragment(t, sw, epoch).AppendBinary)
}

func fragment(t testing.TB, sw uint64, epoch uint64) *disketch.Record {
	f, err := disketch.NewFragment(disketch.Config{
		ID: disketch.ID{Switch: sw, Sketch: 1}, Kind: disketch.CountMin, Memory: 1024, Epochs: 30, Target: 1,
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
	return c.Record()
}

func join(records ...[]byte) (all []byte) {
	for _, r := range records {
		all = append(all, r...)
	}
	return all
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	broken := sampleRecord(t, 1, 3*second, 5, false)
	broken[len(broken)-1] ^= 1
	file := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s2 := sampleRecord(t, 2, 2*second, 20, false)
	file("a-00000001.records", join(
		sampleRecord(t, 1, 2*second, 5, false),
		broken,
		sampleRecord(t, 1, second, 5, true),
		sampleRecord(t, 1, second, 6, true),  // after a restart
		sampleRecord(t, 1, second, 7, false), // contradicts both
	))
	file("b-00000001.records", join(s2, s2, pointRecord(t, 2, 3, 1), fragmentRecord(t, 2, 4), []byte("rubbish"),
		envelope(t, record.Header{Kind: 200, Span: 1}, func(b []byte) ([]byte, error) { return b, nil }),
		envelope(t, record.Header{Kind: record.PINT, Span: 1}, func(b []byte) ([]byte, error) { return b, nil }),
		envelope(t, record.Header{Kind: record.LDS, Span: 1}, func(b []byte) ([]byte, error) { return append(b, 1, 2), nil }),
		envelope(t, record.Header{Kind: record.LDS}, func(b []byte) ([]byte, error) { return b, nil }),
		s2[:len(s2)-3]))
	file("other.txt", []byte("not read"))
	s, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := Counts{Records: 6, Duplicates: 1, Unreadable: 5, Conflicts: 1, Unknown: 1, CutOff: 1}
	if diff := cmp.Diff(want, s.Counts()); diff != "" {
		t.Errorf("counts, -want +got:\n%s", diff)
	}
	if len(s.Samples) != 4 || len(s.Points) != 1 || len(s.Fragments) != 1 || len(s.Sketches.Epochs()) != 1 {
		t.Fatalf("%d samples, %d points, %d fragments", len(s.Samples), len(s.Points), len(s.Fragments))
	}
	for i := 1; i < len(s.Samples); i++ {
		if s.Samples[i].From < s.Samples[i-1].From {
			t.Error("samples are not in order")
		}
	}
	p := s.Points[0]
	if cells, err := p.Decode(); err != nil || p.Port() != 1 || !p.Egress() || cells.Packets() != 1 || !cells.Config().Equal(p.Config) || p.From != second {
		t.Errorf("the point: port %d, egress %t, %+v, %v", p.Port(), p.Egress(), p.Origin, err)
	}
	if id, ok := s.Switch("c"); !ok || id != 2 || s.Name(1) != "b" || s.Name(9) != "9" {
		t.Errorf("names: %d, %t, %q, %q", id, ok, s.Name(1), s.Name(9))
	}
	if all := s.All(); all.From != second || all.To != 5<<30 {
		t.Errorf("all records: %+v", all)
	}
	if last := s.Last(second); last.From != last.To-second {
		t.Errorf("the last second: %+v", last)
	}
}

// TestHostileHeaders: names cannot steer a terminal, and times and counts cannot wrap.
func TestHostileHeaders(t *testing.T) {
	s := &Store{}
	point := func(h record.Header) {
		h.Kind, h.Span = record.LDS, second
		p, err := lds.NewPoint(lds.Config{Rows: 1, Columns: 1, Virtual: 1, IntervalNs: second})
		if err != nil {
			t.Fatal(err)
		}
		s.AddBytes(envelope(t, h, p.AppendBinary))
	}
	point(record.Header{Switch: 1, Name: "leaf\x1b[31m\n1é\xff"})
	if got := s.Name(1); got != "leaf\uFFFD[31m\uFFFD1é\uFFFD" || s.Points[0].Name != got {
		t.Errorf("name %q", got)
	}
	point(record.Header{Switch: 2, Missed: 1<<61 + 1})
	point(record.Header{Switch: 3, Start: 1<<61 + 1})
	point(record.Header{Switch: 4, Start: -1<<61 - 1})
	if c := s.Counts(); c.Records != 1 || c.Unreadable != 3 {
		t.Errorf("%+v", c)
	}
}

// TestPointsAtRest: the record of a quiet point of the largest size takes memory of
// its own length, not of its cells, which are 256 times as much.
func TestPointsAtRest(t *testing.T) {
	p, err := lds.NewPoint(lds.Config{Rows: 1, Columns: lds.MaxCells, Virtual: 1, IntervalNs: second})
	if err != nil {
		t.Fatal(err)
	}
	b := envelope(t, record.Header{Kind: record.LDS, Span: second}, p.AppendBinary)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := &Store{}
	s.AddBytes(b)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; len(s.Points) != 1 || grown > 4*uint64(len(b)) {
		t.Errorf("%d points, %d bytes allocated for a record of %d", len(s.Points), grown, len(b))
	}
}

func TestMissing(t *testing.T) {
	s := &Store{}
	s.AddBytes(join(
		sampleRecord(t, 1, second, 3, false), sampleRecord(t, 1, 2*second, 3, false), sampleRecord(t, 1, 3*second, 3, true),
		sampleRecord(t, 2, second, 3, true), sampleRecord(t, 3, 9*second, 3, true),
	))
	got := s.Missing(OfSamples, Window{second, 3 * second})
	want := []Missing{
		{Switch: "b", Of: OfSamples, Packets: 2},
		{Switch: "c", Of: OfSamples, Absent: 1, Partial: 1, Packets: 2},
		{Switch: "d", Of: OfSamples, Absent: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := s.Missing(OfPoints, s.All()); len(got) != 0 {
		t.Errorf("points are missing where there are none: %+v", got)
	}
}

// TestBroken changes single bytes of a file of records: whatever the place, all
// other records are read.
func TestBroken(t *testing.T) {
	records := [][]byte{sampleRecord(t, 1, second, 4, false), pointRecord(t, 2, 0, 1), fragmentRecord(t, 3, 1), sampleRecord(t, 2, second, 4, false)}
	whole := join(records...)
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		b := append([]byte(nil), whole...)
		b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
		s := &Store{}
		s.AddBytes(b)
		if c := s.Counts(); c.Records != 3 || c.Unreadable+c.CutOff != 1 {
			t.Fatalf("%+v of %d records with one broken", c, len(records))
		}
	}
}

func FuzzAddBytes(f *testing.F) {
	f.Add(join(sampleRecord(f, 1, second, 4, false), pointRecord(f, 2, 0, 1)))
	f.Add(fragmentRecord(f, 3, 1))
	f.Add([]byte("WR\x01\x02\x00\x00\x00\x30WRWRWR"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &Store{}
		s.AddBytes(b)
		s.Sort()
		c := s.Counts()
		if n := len(s.Samples) + len(s.Points) + len(s.Fragments); uint64(n) != c.Records {
			t.Errorf("%d records are there, %d were counted", n, c.Records)
		}
		for _, of := range []string{OfSamples, OfFlowSamples, OfPoints, OfFragments} {
			s.Missing(of, s.All())
		}
	})
}

// FuzzAdd gives bodies to the decoders directly, which a checksum would keep from
// the fuzzer.
func FuzzAdd(f *testing.F) {
	for _, b := range [][]byte{sampleRecord(f, 1, second, 4, false), pointRecord(f, 2, 0, 1), fragmentRecord(f, 3, 1)} {
		h, body, _, err := record.Decode(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(h.Kind), h.Start, h.Span, body)
	}
	f.Fuzz(func(t *testing.T, kind uint8, start, span int64, body []byte) {
		s := &Store{}
		h := record.Header{Kind: record.Kind(kind), Start: start, Span: span}
		s.Add(h, body)
		s.Add(h, body)
		if c := s.Counts(); c.Records > 1 {
			t.Errorf("one record was taken twice: %+v", c)
		}
	})
}

// TestForgedFragment: a body that names another switch than its envelope is refused, so that
// no switch speaks for another, and so is one of another time.
func TestForgedFragment(t *testing.T) {
	var s Store
	for _, h := range []record.Header{{Switch: 2, Instance: 1}, {Switch: 3, Instance: 1}, {Switch: 2, Instance: 0}, {Switch: 2, Instance: 1, Missed: 1}} {
		body, err := fragment(t, 2, 4).AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Kind, h.Start, h.Span = record.DiSketch, 4<<30, 1<<30
		if h.Missed != 0 {
			h.Start = 5 << 30 // is not where its epoch is
		}
		s.Add(h, body)
	}
	if c := s.Counts(); c.Records != 1 || c.Unreadable != 3 || len(s.Fragments) != 1 {
		t.Errorf("%+v, %d fragments", c, len(s.Fragments))
	}
}

// TestFamilies: bodies are read with the family of their envelope, and what says the same by
// another one contradicts it.
func TestFamilies(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		var s Store
		relabel := func(b []byte, f hash.Family) Outcome {
			h, body, _, err := record.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			h.Hash = f
			return s.Add(h, body)
		}
		records := [][]byte{sampleRecord(t, 1, second, 20, false), pointRecord(t, 2, 3, 1), fragmentRecord(t, 2, 4)}
		for i, b := range records {
			if o := relabel(b, family); o != Taken {
				t.Errorf("record %d by %v: %v", i, family, o)
			}
			if o := relabel(b, family); o != Duplicate {
				t.Errorf("record %d by %v again: %v", i, family, o)
			}
			if o := relabel(b, (family+1)%(hash.AES+1)); o != Conflict {
				t.Errorf("record %d by %v behind %v: %v", i, (family+1)%(hash.AES+1), family, o)
			}
		}
		p, err := s.Points[0].Decode()
		if err != nil || p.Config().Hash != family || s.Points[0].Hash != family || s.Points[0].Config.Hash != family {
			t.Errorf("the point is of %v, %v", s.Points[0].Config.Hash, err)
		}
		if s.Samples[0].Sample.Hash != family || s.Samples[0].Origin.Hash != family || s.Fragments[0].Hash != family {
			t.Errorf("the sample is of %v, the fragment of %v", s.Samples[0].Sample.Hash, s.Fragments[0].Hash)
		}
		// Another switch of the sketch, in the same epoch.
		if o := relabel(fragmentRecord(t, 3, 4), (family+1)%(hash.AES+1)); o != Conflict {
			t.Errorf("another family in a sketch: %v", o)
		}
		if c := s.Counts(); c.Records != 3 || c.Duplicates != 3 || c.Conflicts != 4 {
			t.Errorf("%+v", c)
		}
	}
}

// TestUnkeyedRecords: records under a network key that is not loaded are counted, and hide none of the others of their file.
func TestUnkeyedRecords(t *testing.T) {
	unkeyed := func(start int64) []byte {
		return envelope(t, record.Header{Kind: record.Oblivious, Switch: 1, Name: "a", Hash: hash.FamilyOf(hash.AES, 0x26d1), Start: start, Span: second},
			func(b []byte) ([]byte, error) { return append(b, "anything"...), nil })
	}
	var file []byte
	for n := range int64(1000) {
		file = append(file, unkeyed((n+10)*second)...)
	}
	file = append(file, sampleRecord(t, 1, 2*second, 5, false)...)
	file = append(file, "rubbish"...)
	file = append(file, unkeyed(3*second)...)
	file = append(file, sampleRecord(t, 1, 4*second, 5, false)...)
	var s Store
	s.AddBytes(file)
	if diff := cmp.Diff(Counts{Records: 2, Unkeyed: 1001, Unreadable: 1}, s.Counts()); diff != "" {
		t.Errorf("counts, -want +got:\n%s", diff)
	}
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	l.AddBytes(file)
	if diff := cmp.Diff(s.Counts(), l.Counts()); diff != "" {
		t.Errorf("counts of a live store, -want +got:\n%s", diff)
	}
}
