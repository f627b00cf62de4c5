package workload

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/pipeline/packet"
)

// check compares a trace with itself: counts, order of time, flows.
func check(t *testing.T, tr *Trace) {
	t.Helper()
	packets, bytes := make([]uint64, len(tr.Flows)), make([]uint64, len(tr.Flows))
	last := int64(0)
	for i := range tr.Len() {
		p := tr.At(i)
		if p.TimeNs < last || p.TimeNs > tr.DurationNs {
			t.Fatalf("packet %d at %d ns: not between %d and %d", i, p.TimeNs, last, tr.DurationNs)
		}
		last = p.TimeNs
		packets[p.Flow]++
		bytes[p.Flow] += uint64(p.Bytes)
	}
	keys := map[packet.FlowKey]bool{}
	for f := range tr.Flows {
		if got := tr.Flows[f]; got.Packets != packets[f] || got.Bytes != bytes[f] || packets[f] == 0 {
			t.Fatalf("flow %d says %d packets of %d bytes, has %d of %d", f, got.Packets, got.Bytes, packets[f], bytes[f])
		}
		keys[tr.Flows[f].Key] = true
	}
	if len(keys) != len(tr.Flows) {
		t.Errorf("%d keys for %d flows", len(keys), len(tr.Flows))
	}
}

func TestSynthetic(t *testing.T) {
	for _, c := range []Synthetic{
		{Packets: 1, Flows: 1},
		{Packets: 1000, Flows: 1000},
		{Packets: 1000, Flows: 3, Seed: 9},
		{Packets: 200_000, Flows: 20_000, Seconds: 5},
		{Packets: 100_000, Flows: 2000, Shape: 1.3, Largest: 1},
	} {
		tr, err := c.Trace()
		if err != nil {
			t.Fatal(err)
		}
		check(t, tr)
		if tr.Len() != c.Packets || len(tr.Flows) != c.Flows {
			t.Errorf("%+v: %d packets of %d flows", c, tr.Len(), len(tr.Flows))
		}
		ids := map[uint64]bool{}
		again, _ := c.Trace()
		for i := range tr.Len() {
			ids[tr.At(i).ID] = true
			if tr.At(i) != again.At(i) {
				t.Fatalf("%+v: packet %d differs in a second trace of the seed", c, i)
			}
		}
		if len(ids) != tr.Len() {
			t.Errorf("%d ids for %d packets", len(ids), tr.Len())
		}
	}
}

func TestSyntheticRefuses(t *testing.T) {
	for _, c := range []Synthetic{
		{}, {Packets: 5, Flows: 6}, {Packets: 5, Flows: 0}, {Packets: 5, Flows: 5, Shape: -1},
		{Packets: 5, Flows: 5, Largest: 2}, {Packets: 5, Flows: 5, Seconds: -1},
	} {
		if _, err := c.Trace(); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

func TestCapture(t *testing.T) {
	file := filepath.Join(netsim.DataDir(), "traces", "realmix-snap128.pcap.gz")
	if _, err := os.Stat(file); err != nil {
		t.Skip(err)
	}
	tr, err := Capture(file, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(tr.Name)
	check(t, tr)
}

func TestCaptureRefuses(t *testing.T) {
	if _, err := Capture(filepath.Join(t.TempDir(), "none.pcap"), 0); err == nil {
		t.Error("a missing file: no error")
	}
}

func TestAtDoesNotAllocate(t *testing.T) {
	tr, err := Synthetic{Packets: 100, Flows: 10}.Trace()
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = tr.At(50) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
