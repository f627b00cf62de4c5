package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	stage "github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// sums are those of the records of each fragment of a switch.
type sums struct {
	// seen packets passed the fragment, and missed ones while it had no cells: by
	// fragment. Together they are all packets, each once.
	seen, missed map[uint16]uint64
}

func newSums() *sums { return &sums{map[uint16]uint64{}, map[uint16]uint64{}} }

// add takes a record, and holds its cells to what it says was added to them: the
// cells of Count-Min add up to it, those of Count Sketch have its parity.
func (s *sums) add(t *testing.T, h record.Header, body []byte) {
	t.Helper()
	var r disketch.Record
	if err := r.UnmarshalBinary(body); err != nil {
		t.Fatal(err)
	}
	cells := uint64(0)
	for _, c := range r.Cells(0) {
		cells += uint64(c)
	}
	if r.Kind() == disketch.CountMin && cells != r.Value || r.Kind() == disketch.CountSketch && (cells^r.Value)&1 != 0 || r.Packets > r.Seen {
		t.Errorf("fragment %d, epoch %d: cells %d, value %d, %d packets of %d", h.Instance, r.Epoch, cells, r.Value, r.Packets, r.Seen)
	}
	if r.N() == 1 && r.Packets != r.Seen {
		t.Errorf("fragment %d, epoch %d: %d of %d packets were counted with n = 1", h.Instance, r.Epoch, r.Packets, r.Seen)
	}
	s.seen[h.Instance] += r.Seen
	s.missed[h.Instance] += h.Missed
}

func (s *sums) total(fragment uint16) uint64 { return s.seen[fragment] + s.missed[fragment] }

// readSums adds up a spool, and holds the store to taking each record of it once.
func readSums(t *testing.T, spool string) (s *sums, records uint64) {
	t.Helper()
	s = newSums()
	err := export.ReadSpool(spool, func(h record.Header, body []byte) error {
		if h.Kind == record.DiSketch {
			s.add(t, h, body)
			records++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := store.Read(spool)
	if err != nil {
		t.Fatal(err)
	}
	if c := kept.Counts(); c.Unreadable+c.CutOff != 0 {
		t.Errorf("%+v", c)
	}
	return s, records
}

// tmpfs mounts a small disk.
func tmpfs(t *testing.T, dir, size string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

// losing counts what is in the records that the spool did not take.
type losing struct {
	*export.Spool
	t       *testing.T
	lost    *sums
	records uint64
}

func (l *losing) Write(h *record.Header, encoded []byte) error {
	err := l.Spool.Write(h, encoded)
	if err != nil {
		h, body, _, decodeErr := record.Decode(encoded)
		if decodeErr != nil {
			l.t.Fatal(decodeErr)
		}
		l.lost.add(l.t, h, body)
		l.records++
	}
	return err
}

// TestSums runs the stage on two workers into the exporter and a spool, through
// each fault: in each case, every packet is in exactly one record, as seen or as
// missed, and every record is in the spool or counted as lost.
func TestSums(t *testing.T) {
	for _, c := range []struct {
		name              string
		late, steps, full bool
	}{{name: "quiet"}, {name: "late exporter", late: true}, {name: "clock steps", steps: true}, {name: "full disk", full: true}, {"all at once", true, true, true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.full {
				netnstest.Require(t) // it mounts
			}
			for seed := range uint64(2) {
				testSums(t, seed, c.late, c.steps, c.full)
			}
		})
	}
}

func testSums(t *testing.T, seed uint64, late, steps, full bool) {
	const fragments, workers = 3, 2
	module, err := stage.New(stage.Config{EpochBits: 20, Fragments: []stage.Fragment{
		{Kind: "countmin", Memory: 4096, Target: 1e9}, {Kind: "countsketch", Memory: 4096, Target: 0.01}, {Kind: "countmin", Unit: "bytes", Memory: 4096, Target: 5},
	}}, pipeline.Env{Name: "s7", ID: 7, Workers: workers, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}}})
	if err != nil {
		t.Fatal(err)
	}
	module.Inline()
	dir := filepath.Join(t.TempDir(), "spool")
	if full {
		tmpfs(t, dir, "64k")
	}
	spool, err := export.OpenSpool(export.Config{Spool: dir, SpoolBytes: 64 << 20}, "s7")
	if err != nil {
		t.Fatal(err)
	}
	sink := &losing{Spool: spool, t: t, lost: newSums()}
	exporter := export.New(7, "s7", hash.XX, []export.Source{module}, sink, nil)
	var running [workers]pipeline.Stage
	for i := range running {
		running[i] = module.Stage(i)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: packet.BatchSize, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b := packet.NewBatch(pool.NewCache(), packet.BatchSize)
	r := rand.New(rand.NewPCG(seed, 5))
	now, sent := int64(5<<20), uint64(0)
	for range 2000 {
		now += r.Int64N(1 << 18)
		if steps && r.IntN(100) == 0 {
			now += r.Int64N(16<<20) - 8<<20
		}
		for _, s := range running {
			s.(pipeline.Ticker).Tick(now)
		}
		b.Reset()
		for range 1 + r.IntN(9) {
			p := b.Append()
			p.FlowHash, p.WireLen, p.InPort, p.OutPort = uint32(r.Uint64N(99))*0x9e3779b1, uint32(60+r.IntN(1400)), 0, 1
			sent++
		}
		running[r.IntN(workers)].Process(b)
		if !late || r.IntN(40) == 0 {
			exporter.Poll(now)
		}
	}
	b.Reset()
	for _, s := range running {
		s.(pipeline.Ticker).Finish(now)
	}
	exporter.Finish(now)
	if err := spool.Close(); err != nil {
		t.Fatal(err)
	}
	kept, records := readSums(t, dir)
	counted := exporter.Counters(record.DiSketch)
	if counted.Records != records || counted.Lost != sink.records || full != (counted.Lost > 0) {
		t.Errorf("the exporter says %+v; %d records are in the spool, %d were refused", counted, records, sink.records)
	}
	for f := range uint16(fragments) {
		if got := kept.total(f) + sink.lost.total(f); got != sent {
			t.Errorf("fragment %d: %d packets in the spool, %d in lost records, %d passed", f, kept.total(f), sink.lost.total(f), sent)
		}
		if missed := kept.missed[f] + sink.lost.missed[f]; late != (missed > 0) {
			t.Errorf("fragment %d missed %d packets", f, missed)
		}
	}
}

func init() {
	if os.Getenv(testStage) == "1" {
		stages.Kinds["sluggish"] = stages.Kind{
			Help:     "makes the exporter late",
			Default:  func() any { return new(sluggishStage) },
			Validate: func(any, []string) error { return nil },
			New:      func(any, pipeline.Env) (pipeline.Module, error) { return new(sluggishStage), nil },
		}
	}
}

// sluggishStage holds up the exporter for many epochs whenever it is asked.
type sluggishStage struct{}

func (*sluggishStage) Role() pipeline.Role              { return pipeline.RoleIngress }
func (*sluggishStage) Needs() packet.Needs              { return 0 }
func (s *sluggishStage) Stage(int) pipeline.Stage       { return s }
func (*sluggishStage) Process(*packet.Batch)            {}
func (*sluggishStage) Collect(int64, bool, record.Emit) { time.Sleep(100 * time.Millisecond) }

// telemetry is what weir ctl shows, by stage and name, summed over labels.
func (b *testbed) telemetry(t *testing.T) map[string]uint64 {
	t.Helper()
	var shown struct {
		Metrics []struct {
			Stage, Name string
			Labels      map[string]string
			Value       float64
		}
	}
	status, stdout, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "telemetry", "--json")
	if err := json.Unmarshal([]byte(stdout), &shown); status != 0 || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, stderr)
	}
	all := map[string]uint64{}
	for _, m := range shown.Metrics {
		all[m.Stage+"."+m.Name] += uint64(m.Value)
	}
	return all
}

// TestLiveSums: a switch as users run it, with epochs of 1 ms. While its exporter
// sleeps through a hundred of them, and while its disk is full, it forwards every
// frame, and what is not in its records is counted.
func TestLiveSums(t *testing.T) {
	const rounds, frames = 1000, 50
	for _, c := range []struct {
		name  string
		graph string
		full  bool
		until string // the counter that says that the fault had its effect
	}{
		{"quiet", `"parse", "patch", "disketch"`, false, "disketch.records_total"},
		{"late exporter", `"parse", "sluggish", "patch", "disketch"`, false, "disketch.missed_packets_total"},
		{"full disk", `"parse", "patch", "disketch"`, true, "telemetry.lost_records_total"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newTestbed(t, 0)
			spool := filepath.Join(b.dir, "disk")
			if c.full {
				tmpfs(t, spool, "64k")
			}
			text := fmt.Sprintf("[telemetry]\nspool = %q\n[stages.disketch]\nepoch_bits = 20\n", spool) +
				"[[stages.disketch.fragment]]\nkind = \"countmin\"\nmemory = 4096\n[[stages.disketch.fragment]]\nkind = \"countsketch\"\nmemory = 4096\n[control]"
			p := b.start(t, b.config(t, "s1", `"parse", "patch"`, c.graph, "[control]", text), testStage+"=1")
			sent := uint64(0)
			for round := 0; ; round++ {
				b.exchange(t, frames)
				sent += 2 * frames
				if m := b.telemetry(t); m[c.until] > 0 {
					break
				} else if round == rounds {
					t.Fatalf("%d frames later, %s is 0: %v", sent, c.until, m)
				}
			}
			b.exchange(t, frames)
			sent += 2 * frames
			if status := p.stop(t); status != 0 {
				t.Errorf("status %d: %s", status, &p.stderr)
			}
			if r := p.report(t); uint64(r.Received) != sent || uint64(r.Forwarded) != sent || !r.Balanced || r.Frames.Lost != 0 {
				t.Errorf("last report: %+v, sent %d", r, sent)
			}
			s, records := readSums(t, spool)
			for f := range uint16(2) {
				if got := s.total(f); got > sent || !c.full && got != sent || records == 0 {
					t.Errorf("fragment %d: %d seen and %d missed, in %d records; %d were sent", f, s.seen[f], s.missed[f], records, sent)
				}
			}
		})
	}
}
