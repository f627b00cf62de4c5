package forward

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/traffic"
)

func TestCollections(t *testing.T) {
	log := `time=x level=info msg="gc 9 @1s 2%: 900+900+900 ms clock"
gc 1 @0.012s 2%: 0.018+1.1+0.003 ms clock, 0.036+0.1/1.0/0.2+0.007 ms cpu, 4->4->0 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P
gc 2 @120.3s 0%: 0.011+250+0.25 ms clock, 0.02+0/0.3/0.1+0.5 ms cpu, 1->1->0 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)
gc 3 @x broken
`
	if n, pause := collections([]byte(log)); n != 2 || pause != 250*time.Microsecond {
		t.Errorf("%d collections, longest pause %v", n, pause)
	}
	if n, pause := collections(nil); n != 0 || pause != 0 {
		t.Errorf("%d, %v", n, pause)
	}
}

func TestResidentMemory(t *testing.T) {
	if n, err := residentMemory(os.Getpid()); err != nil || n < 1<<20 || n > 1<<40 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := residentMemory(1 << 30); err == nil {
		t.Error("a process that does not exist has memory")
	}
}

// Worst cases count, over all rounds.
func TestAddSoak(t *testing.T) {
	r := &bench.Result{Name: "forward"}
	addSoak(r, "patch.64B.", []Sample{
		{Soak: &Soak{Seconds: 10, Packets: 100, Lost: 1, P999: 5, Pause: 7, RSS: []uint64{50, 70, 60}}},
		{},
		{Soak: &Soak{Seconds: 10, Packets: 100, Lost: 2, P999: 9, Pause: 3, RSS: []uint64{80, 75}}},
	})
	for metric, want := range map[string]float64{
		"packets": 200, "lost": 3, "latency_p999": 9, "gc_pause_max": 7, "rss_growth": 10, "rss_end": 75,
	} {
		if row, ok := r.Row("patch.64B.soak." + metric); !ok || row.Value != want {
			t.Errorf("%s: %v, want %v", metric, row.Value, want)
		}
	}
}

// A short soak of the real switch: the rows are there, and collections are seen in its log.
func TestForwardSoak(t *testing.T) {
	c := shortConfig(t, "patch")
	c.Soak = 200 * time.Millisecond
	var samples []Sample
	c.Raw = func(s Sample) { samples = append(samples, s) }
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	checkGone(t)
	if len(samples) != 1 {
		t.Fatalf("%+v", samples)
	}
	if samples[0].NDR.Rate == 0 {
		t.Skip("no rate without loss was found: the machine is too busy to soak")
	}
	s := samples[0].Soak
	if s == nil || s.Packets == 0 || s.Lost > s.Packets || len(s.RSS) != 1 || s.RSS[0] < 1<<20 || s.P999 <= 0 || s.Max < s.P999 {
		t.Errorf("%+v", s)
	}
	if _, ok := r.Row("patch.64B.soak.lost"); !ok {
		t.Errorf("%+v", r.Rows)
	}
}

func TestSoakNeedsWeirAndNDR(t *testing.T) {
	c := DefaultConfig()
	c.Devices, c.Weir = []string{"bridge", "patch"}, []string{"weir"}
	c.Soak, c.Searches, c.Ring = time.Second, false, 3000
	err := c.Validate()
	for _, part := range []string{"ring: 3000: choose a power of two", "soak: it reads memory and pauses of weir's own process, which bridge has not", "soak: it needs the NDR"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// Two workers forward from the one queue of a cable to that of another, over the ring between them,
// without loss at a rate at which one does.
func TestTwoWorkersLoseNothing(t *testing.T) {
	c := shortConfig(t, "patch", "patch2")
	chosen, err := choose(c.Devices, false)
	if err != nil || len(chosen) != 2 {
		t.Fatal(chosen, err)
	}
	for _, d := range chosen {
		w, err := newWorkload(&c, "64", 1)
		if err != nil {
			t.Fatal(err)
		}
		lost := forwardAll(t, &c, d, w)
		if lost != 0 {
			t.Errorf("%s: %d packets were lost", d.name, lost)
		}
	}
}

// forwardAll sends 4000 packets through a device from a source that sleeps between them, and returns how
// many did not arrive. The rings hold what is sent at once, so that a worker that is not scheduled loses none.
func forwardAll(t *testing.T, c *Config, d device, w traffic.Workload) (lost uint64) {
	t.Helper()
	r, err := newRig(c.Cores, c.Placement, w, t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	running, err := d.start(r, deviceOptions{weir: c.Weir, poll: c.Poll})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := running.stop(); err != nil { // it checks that the switch's counters add up
			t.Error(err)
		}
	}()
	ctx := context.Background()
	if err := r.start(ctx); err != nil {
		t.Fatal(err)
	}
	source, err := traffic.NewPacketSource(r.port(r.left), w)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if err := r.sink.Reset(); err != nil {
		t.Fatal(err)
	}
	total := uint64(0)
	for next := r.next; total < 4000; {
		sent, err := source.Run(ctx, traffic.Load{Rate: 4000, Count: 500, FirstSeq: next})
		if err != nil {
			t.Fatal(err)
		}
		next, total = sent.NextSeq, total+sent.Packets
		// A worker may wait for its core for longer than a measurement would.
		for deadline := time.Now().Add(2 * time.Minute); ; {
			got, err := r.settle(total)
			if err != nil {
				t.Fatal(err)
			}
			if lost = got.Lost(total); lost == 0 || time.Now().After(deadline) {
				break
			}
		}
		if lost != 0 {
			break
		}
	}
	return lost
}
