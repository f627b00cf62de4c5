package workload

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/dataplane/pcapfile"
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

// TestBursts: flows that are to send in bursts do, all other packets of a flow being elsewhere, and as many bursts come early as late. So
// many bursts have a mean further than 0.05 from the middle with a chance below 1e-9, and so many flows a share further than 0.04 from theirs.
func TestBursts(t *testing.T) {
	tr, err := Synthetic{Packets: 200_000, Flows: 5000, Seconds: 5, Bursts: 0.3, Seed: 3}.Trace()
	if err != nil {
		t.Fatal(err)
	}
	check(t, tr)
	runs := map[uint32]int{}
	bursts, mean, last := 0, 0.0, uint32(0)
	for i := range tr.Len() {
		p := tr.At(i)
		if i == 0 || p.Flow != last {
			runs[p.Flow]++
		}
		last = p.Flow
	}
	inBursts := func(f uint32) bool {
		packets := int(tr.Flows[f].Packets)
		return packets >= 8 && runs[f] <= (packets+burstPackets-1)/burstPackets
	}
	at := map[uint32]int{}
	for i := range tr.Len() {
		p := tr.At(i)
		if !inBursts(p.Flow) {
			continue
		}
		if at[p.Flow]%burstPackets == 0 {
			bursts++
			mean += float64(p.TimeNs) / float64(tr.DurationNs)
		}
		at[p.Flow]++
	}
	large, sending := 0, 0
	for f := range tr.Flows {
		if tr.Flows[f].Packets >= 8 {
			large++
			if inBursts(uint32(f)) {
				sending++
			}
		}
	}
	if share := float64(sending) / float64(large); math.Abs(share-0.3) > 0.04 {
		t.Errorf("%d of %d flows send in bursts: %.2f, wanted 0.3", sending, large, share)
	}
	if mean /= float64(bursts); math.Abs(mean-0.5) > 0.05 {
		t.Errorf("%d bursts come at %.3f of the trace in the mean, wanted the middle", bursts, mean)
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

// TestCaptureSmall reads a capture of few packets: what is no IP is left out,
// a time that runs backwards is raised, a runt is no fault.
func TestCaptureSmall(t *testing.T) {
	udp := func(port byte) []byte {
		b := make([]byte, 60)
		copy(b[12:], []byte{0x08, 0, 0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, port, 0, 9, 0, 9, 0, 0, port})
		return b
	}
	arp := make([]byte, 60)
	arp[12], arp[13] = 8, 6
	file := filepath.Join(t.TempDir(), "small.pcap")
	out, err := pcapfile.Create(file, pcapfile.Format{Nano: true, LinkField: uint32(pcapfile.Ethernet)})
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range [][]byte{arp, udp(1), udp(2), make([]byte, 5), udp(1)} {
		h := pcapfile.Header{Time: [...]int64{50, 100, 300, 400, 200}[i], CapLen: uint32(len(b)), WireLen: uint32(len(b)), LinkType: pcapfile.Ethernet}
		if err := out.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := Capture(file, 1)
	if err != nil {
		t.Fatal(err)
	}
	check(t, tr)
	var times []int64
	var flows []uint32
	for i := range tr.Len() {
		times, flows = append(times, tr.At(i).TimeNs), append(flows, tr.At(i).Flow)
	}
	if !slices.Equal(times, []int64{0, 200, 200}) || !slices.Equal(flows, []uint32{0, 1, 0}) || tr.DurationNs != 200 || tr.Bytes() != 180 {
		t.Errorf("times %v, flows %v, %d ns, %d bytes", times, flows, tr.DurationNs, tr.Bytes())
	}
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
