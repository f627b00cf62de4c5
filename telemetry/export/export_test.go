package export

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
)

// numbers is a source of numbered records.
type numbers struct {
	next, stop uint64
	kind       record.Kind
	size       int
	last       bool
}

func (n *numbers) Collect(_ int64, last bool, emit record.Emit) {
	n.last = n.last || last
	for i := 0; i < 3 && n.next < n.stop; i++ {
		number := n.next
		emit(&record.Header{Kind: n.kind, Start: int64(number)}, func(dst []byte) ([]byte, error) {
			return append(binary.BigEndian.AppendUint64(dst, number), make([]byte, n.size)...), nil
		})
		n.next++
	}
}

func read(t *testing.T, dir string) (numbers []uint64, names map[string]int) {
	t.Helper()
	names = map[string]int{}
	err := ReadSpool(dir, func(h record.Header, body []byte) error {
		names[h.Name]++
		numbers = append(numbers, binary.BigEndian.Uint64(body))
		if uint64(h.Start) != numbers[len(numbers)-1] {
			return fmt.Errorf("header %+v on body %d", h, numbers[len(numbers)-1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return numbers, names
}

func openSpool(t *testing.T, c Config, name string) *Spool {
	t.Helper()
	s, err := OpenSpool(c, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestExport(t *testing.T) {
	c := DefaultConfig()
	c.Spool = filepath.Join(t.TempDir(), "deep", "spool")
	for id, name := range []string{"s1", "s2-x"} {
		source := &numbers{stop: 10, kind: record.LDS}
		e := New(uint32(id), name, hash.Family(id), []Source{source}, openSpool(t, c, name), nil)
		for e.Poll(0) > 0 {
		}
		e.Finish(0)
		if got := e.Counters(record.LDS); got.Records != 10 || got.Lost != 0 || got.Bytes == 0 || !source.last {
			t.Errorf("%s: %+v, last %v", name, got, source.last)
		}
	}
	crc := 0
	err := ReadSpool(c.Spool, func(h record.Header, _ []byte) error {
		if h.Hash == hash.CRC {
			crc++
		}
		if want := map[string]record.Header{"s1": {Switch: 0, Hash: hash.XX}, "s2-x": {Switch: 1, Hash: hash.CRC}}[h.Name]; h.Switch != want.Switch || h.Hash != want.Hash {
			t.Errorf("a record of %s: %+v", h.Name, h)
		}
		return nil
	})
	if err != nil || crc != 10 {
		t.Errorf("%d records of crc, %v", crc, err)
	}
	if got, names := read(t, c.Spool); len(got) != 20 || names["s1"] != 10 || names["s2-x"] != 10 {
		t.Errorf("read %v of %v", got, names)
	}
}

// TestBound: beyond its bound a spool forgets the oldest records, and says so; a
// second run goes on behind the first.
func TestBound(t *testing.T) {
	c := Config{Spool: t.TempDir(), SpoolBytes: minSpool}
	next := uint64(0)
	for run := range 2 {
		spool := openSpool(t, c, "s1")
		source := &numbers{next: next, stop: next + 2000, kind: record.DiSketch, size: 1000}
		e := New(1, "s1", hash.XX, []Source{source}, spool, nil)
		for e.Poll(0) > 0 {
		}
		next = source.next
		got, _ := read(t, c.Spool)
		for i := range got {
			if got[i] != next-uint64(len(got))+uint64(i) {
				t.Fatalf("run %d: record %d of %d is %d, the last is %d", run, i, len(got), got[i], next)
			}
		}
		if spool.Dropped() == 0 || len(got) < 900 || len(got)*1000 > minSpool {
			t.Errorf("run %d: %d records kept, %d files dropped", run, len(got), spool.Dropped())
		}
		spool.Close()
	}
}

// TestFullDisk writes to a full device: records are lost and counted, and those
// before stay readable.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	spool := openSpool(t, Config{Spool: t.TempDir(), SpoolBytes: minSpool}, "s1")
	good := spool.file
	source := &numbers{stop: 3}
	e := New(1, "s1", hash.XX, []Source{source}, spool, nil)
	e.Poll(0)
	spool.file, source.stop = full, 6
	e.Poll(0)
	spool.file, source.stop = good, 9
	e.Poll(0)
	if got := e.Counters(0); got.Records != 6 || got.Lost != 3 {
		t.Errorf("%+v", got)
	}
	if got, _ := read(t, spool.dir); len(got) != 6 || got[5] != 8 {
		t.Errorf("read %v", got)
	}
}

// TestPartOfARecord: a record that was written in part, and cannot be taken
// back, ends its file, and the next goes to another.
func TestPartOfARecord(t *testing.T) {
	spool := openSpool(t, Config{Spool: t.TempDir(), SpoolBytes: 64 * minSpool}, "s1")
	e := New(1, "s1", hash.XX, []Source{&numbers{stop: 6}}, spool, nil)
	e.Poll(0)
	good := spool.file
	r, w, err := os.Pipe() // takes a part, and cannot be cut
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	go func() {
		_, _ = r.Read(make([]byte, 1))
		_ = r.Close()
	}()
	spool.file = w
	e.sources = []Source{&numbers{stop: 1, size: 1 << 20}}
	e.Poll(0)
	if spool.file != nil {
		t.Error("a file with a part of a record is written on")
	}
	e.sources = []Source{&numbers{next: 3, stop: 6}}
	e.Poll(0)
	if got := e.Counters(0); got.Records != 6 || got.Lost != 1 {
		t.Errorf("%+v", got)
	}
	if got, _ := read(t, spool.dir); len(got) != 6 || got[5] != 5 {
		t.Errorf("read %v", got)
	}
}

// TestFolderVanishes: a folder that somebody removes is made anew with the next file.
func TestFolderVanishes(t *testing.T) {
	spool := openSpool(t, Config{Spool: filepath.Join(t.TempDir(), "spool"), SpoolBytes: minSpool}, "s1")
	if err := os.RemoveAll(spool.dir); err != nil {
		t.Fatal(err)
	}
	source := &numbers{stop: 100, size: 10_000}
	e := New(1, "s1", hash.XX, []Source{source}, spool, nil)
	for e.Poll(0) > 0 {
	}
	if got := e.Counters(0); got.Records != 100 || got.Lost != 0 {
		t.Errorf("%+v", got)
	}
	if got, _ := read(t, spool.dir); len(got) < 90 || got[len(got)-1] != 99 {
		t.Errorf("read %v", got)
	}
}

// TestOneWriter: a second switch of the same name is refused while the first
// writes, one of another name is not, and a file in the way costs no more than
// the record that met it.
func TestOneWriter(t *testing.T) {
	c := Config{Spool: t.TempDir(), SpoolBytes: minSpool}
	first := openSpool(t, c, "s1")
	if _, err := OpenSpool(c, "s1"); err == nil {
		t.Error("two writers of a name: no error")
	}
	openSpool(t, c, "s1-2")
	if err := os.WriteFile(filepath.Join(c.Spool, "s1-00000001.records"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	e := New(1, "s1", hash.XX, []Source{&numbers{stop: 30, size: 10_000}}, first, nil)
	for e.Poll(0) > 0 {
	}
	if got := e.Counters(0); got.Records != 29 || got.Lost != 1 {
		t.Errorf("%+v", got)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openSpool(t, c, "s1")
}

// TestEmptyFiles: runs that measure nothing leave nothing behind.
func TestEmptyFiles(t *testing.T) {
	c := Config{Spool: t.TempDir(), SpoolBytes: minSpool}
	for range 3 {
		if err := os.WriteFile(filepath.Join(c.Spool, "s1-00000007.records"), nil, 0o666); err != nil {
			t.Fatal(err) // as a switch that was killed leaves it
		}
		if err := openSpool(t, c, "s1").Close(); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := spoolFiles(c.Spool, "s1"); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestCut: the end of a file that a switch is still writing is no fault, garbage is.
func TestCut(t *testing.T) {
	c := Config{Spool: t.TempDir(), SpoolBytes: minSpool}
	e := New(1, "s1", hash.XX, []Source{&numbers{stop: 3}}, openSpool(t, c, "s1"), nil)
	e.Poll(0)
	found, err := spoolFiles(c.Spool, "s1")
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	b, _ := os.ReadFile(found[0].path)
	write := func(b []byte) {
		if err := os.WriteFile(found[0].path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(b[:len(b)-3])
	if got, _ := read(t, c.Spool); len(got) != 2 {
		t.Errorf("read %v of a cut file", got)
	}
	b[len(b)-1] ^= 1
	write(b)
	if err := ReadSpool(c.Spool, func(record.Header, []byte) error { return nil }); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("a changed file: %v", err)
	}
}

func TestRefuses(t *testing.T) {
	if err := (&Config{SpoolBytes: 5}).Validate(); err == nil {
		t.Error("a bound of 5 bytes: no error")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSpool(Config{Spool: file, SpoolBytes: minSpool}, "s1"); err == nil {
		t.Error("a file for a folder: no error")
	}
}

func TestRun(t *testing.T) {
	source := &numbers{stop: 20}
	spool := openSpool(t, Config{Spool: t.TempDir(), SpoolBytes: minSpool}, "s1")
	e := New(1, "s1", hash.XX, []Source{source}, spool, nil)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		e.Run(stop, func() int64 { return time.Now().UnixNano() })
		close(ended)
	}()
	for deadline := time.Now().Add(2 * time.Minute); e.Counters(0).Records < 20; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", e.Counters(0))
		}
	}
	close(stop)
	<-ended
}

// TestStateOfAFileThatIsGone: a state of before that names a file which was sent and removed is not taken for one of a new file, also after a run
// that sent nothing, and a kill.
func TestStateOfAFileThatIsGone(t *testing.T) {
	c := Config{Spool: t.TempDir(), SpoolBytes: minSpool}
	if err := os.WriteFile(filepath.Join(c.Spool, "s1.state"), []byte(`{"version":1,"file":5,"offset":100}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := openSpool(t, c, "s1").Close(); err != nil {
		t.Fatal(err)
	}
	s := openSpool(t, c, "s1")
	feed(t, s, record.LDS, 0, 30, 100)
	killed := c
	killed.Spool = t.TempDir()
	if err := os.CopyFS(killed.Spool, os.DirFS(c.Spool)); err != nil {
		t.Fatal(err)
	}
	if n := counts(openSpool(t, killed, "s1"), record.LDS).Waiting.Records; n != 30 {
		t.Errorf("%d of 30 records wait", n)
	}
}
