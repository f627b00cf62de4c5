package port

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/pipeline/packet"
)

// pkt is a packet of a test capture.
type pkt struct {
	pcapfile.Header
	data []byte
}

func writeCapture(t testing.TB, name string, f pcapfile.Format, pkts []pkt) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	out, err := pcapfile.Create(path, f, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkts {
		if err := out.WriteHeader(p.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(p.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func readCapture(t testing.TB, path string) []pkt {
	t.Helper()
	in, err := pcapfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var pkts []pkt
	for {
		h, err := in.Next()
		if err == io.EOF {
			return pkts
		}
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, h.CapLen)
		if err := in.Read(data); err != nil {
			t.Fatal(err)
		}
		pkts = append(pkts, pkt{h, data})
	}
}

// makePackets returns packets whose first bytes are the port and their number,
// at times that mostly rise, sometimes repeat and sometimes fall.
func makePackets(rng *rand.Rand, port byte, n int) []pkt {
	now := int64(1_700_000_000e9)
	pkts := make([]pkt, n)
	for i := range pkts {
		now += int64(rng.IntN(5)-1) * 1000
		data := make([]byte, 14+rng.IntN(500))
		data[0], data[1], data[2] = port, byte(i>>8), byte(i)
		pkts[i] = pkt{pcapfile.Header{
			Time: now, CapLen: uint32(len(data)), WireLen: uint32(len(data) + rng.IntN(2)*700), LinkType: pcapfile.Ethernet,
		}, data}
	}
	return pkts
}

// rig plays pcap ports as a worker does.
type rig struct {
	t      testing.TB
	pool   *packet.Pool
	cache  *packet.Cache
	batch  *packet.Batch
	ports  []*Pcap
	queues []Queue
	order  []packet.Packet // as received
	idx    [16][]uint16
}

func newRig(t testing.TB, frameSize int, configs ...PcapConfig) *rig {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 512, FrameSize: frameSize, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, pool: pool, cache: pool.NewCache()}
	r.batch = packet.NewBatch(r.cache, 4*packet.BatchSize)
	var set PcapSet
	for i, c := range configs {
		c.Name = fmt.Sprintf("p%d", i)
		p := set.Add(c)
		q, err := p.Open(uint16(i), 0, r.cache)
		if err != nil {
			t.Fatal(err)
		}
		r.ports, r.queues = append(r.ports, p), append(r.queues, q)
	}
	return r
}

// round receives once from each queue. stage fills the batch's OutPorts; what
// has none, or a Reason, is freed, and the rest sent port by port.
func (r *rig) round(stage func(b *packet.Batch)) (got int, open bool) {
	idx := &r.idx
	for _, q := range r.queues {
		n := q.Receive(r.batch)
		if got += n; n == 0 {
			open = open || !q.Ended()
			continue
		}
		open = true
		r.order = append(r.order, r.batch.Pkts...)
		stage(r.batch)
		for i := range idx {
			idx[i] = idx[i][:0]
		}
		for i := range r.batch.Pkts {
			p := &r.batch.Pkts[i]
			if p.Reason != 0 || p.OutPort == packet.NoPort {
				r.cache.FreePacket(p)
				continue
			}
			idx[p.OutPort] = append(idx[p.OutPort], uint16(i))
		}
		for o := range idx {
			if len(idx[o]) == 0 {
				continue
			}
			taken := r.queues[o].Transmit(r.batch, idx[o])
			for _, i := range idx[o][taken:] {
				r.cache.FreePacket(&r.batch.Pkts[i])
			}
		}
		r.batch.Reset()
	}
	for _, q := range r.queues {
		q.Service()
	}
	return got, open
}

// run plays to the end, and closes all. It returns what Close said.
func (r *rig) run(stage func(b *packet.Batch)) error {
	r.t.Helper()
	for open := true; open; {
		_, open = r.round(stage)
	}
	var errs []error
	for _, q := range r.queues {
		_, err := q.Close()
		errs = append(errs, err)
	}
	for _, p := range r.ports {
		errs = append(errs, p.Close())
	}
	r.cache.Close()
	if c := r.pool.Census(); c.Free != c.Frames || c.Faults != 0 {
		r.t.Errorf("frames at the end: %+v", c)
	}
	r.pool.Close()
	return errors.Join(errs...)
}

func openCapture(t testing.TB, path string) *pcapfile.In {
	t.Helper()
	in, err := pcapfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func createOutput(t testing.TB, path string, names ...string) *PcapOutput {
	t.Helper()
	out, err := pcapfile.Create(path, pcapfile.Format{Nano: true, LinkField: 1}, names...)
	if err != nil {
		t.Fatal(err)
	}
	return NewPcapOutput(out)
}

func toPort(n uint16) func(*packet.Batch) {
	return func(b *packet.Batch) {
		for i := range b.Pkts {
			b.Pkts[i].OutPort = n
		}
	}
}

func comparePackets(t *testing.T, got, want []pkt) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d packets, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Header != want[i].Header || !bytes.Equal(got[i].data, want[i].data) {
			t.Fatalf("packet %d: %+v %.20x, want %+v %.20x", i, got[i].Header, got[i].data, want[i].Header, want[i].data)
		}
	}
}

// TestPcapThrough sends a capture from one port to another: the file that
// comes out has the same bytes, whatever the format.
func TestPcapThrough(t *testing.T) {
	pkts := makePackets(rand.New(rand.NewPCG(1, 1)), 0, 1000)
	for _, tc := range []struct {
		name string
		f    pcapfile.Format
	}{
		{"a.pcap", pcapfile.Format{LinkField: 1, SnapLen: 65535}},
		{"a.pcap", pcapfile.Format{LinkField: 1, SnapLen: 262144, Nano: true, BigEndian: true}},
		{"a.pcap.gz", pcapfile.Format{LinkField: 1, SnapLen: 262144, BigEndian: true}},
		{"a.pcapng", pcapfile.Format{}},
		{"a.pcapng.gz", pcapfile.Format{}},
	} {
		t.Run(fmt.Sprint(tc.name, tc.f), func(t *testing.T) {
			path := writeCapture(t, tc.name, tc.f, pkts)
			in := openCapture(t, path)
			copied := filepath.Join(t.TempDir(), tc.name)
			file, err := pcapfile.Create(copied, in.Format(), "eth0")
			if err != nil {
				t.Fatal(err)
			}
			out := NewPcapOutput(file)
			if err := newRig(t, 2048, PcapConfig{In: in}, PcapConfig{Out: out}).run(toPort(1)); err != nil {
				t.Fatal(err)
			}
			want, _ := os.ReadFile(path)
			got, _ := os.ReadFile(copied)
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes came out, want the same %d", len(got), len(want))
			}
		})
	}
}

// TestPcapMerge receives on three ports and compares the order with a merge
// made by the rule's own words.
func TestPcapMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	var left [3][]pkt
	configs := make([]PcapConfig, 4)
	for i, n := range []int{700, 1, 1300} {
		left[i] = makePackets(rng, byte(i), n)
		configs[i].In = openCapture(t, writeCapture(t, "in.pcap", pcapfile.Format{Nano: true, LinkField: 1}, left[i]))
	}
	var want []pkt
	for {
		first := -1
		for i := range left {
			if len(left[i]) != 0 && (first < 0 || left[i][0].Time < left[first][0].Time) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		want = append(want, left[first][0])
		left[first] = left[first][1:]
	}
	path := filepath.Join(t.TempDir(), "out.pcap")
	configs[3].Out = createOutput(t, path)
	r := newRig(t, 2048, configs...)
	if err := r.run(toPort(3)); err != nil {
		t.Fatal(err)
	}
	comparePackets(t, readCapture(t, path), want)
	for i, p := range r.order {
		if byte(p.InPort) != want[i].data[0] || p.Arrival != want[i].Time || p.WireLen != want[i].WireLen {
			t.Fatalf("packet %d arrived as %+v, want %+v", i, p, want[i].Header)
		}
	}
}

// TestPcapSharedOutput floods and forwards to several ports that write one
// file: the file has the order of the batches, and the right interfaces.
func TestPcapSharedOutput(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	in := makePackets(rng, 0, 2000)
	path := filepath.Join(t.TempDir(), "out.pcapng")
	shared := createOutput(t, path, "p1", "p2", "p3")
	var want []pkt
	stage := func(b *packet.Batch) {
		old := b.Rebuild()
		for i := range old {
			data := append([]byte(nil), b.Data(&old[i])...)
			p := b.Append()
			*p = old[i]
			p.OutPort = uint16(1 + rng.IntN(3))
			send := []*packet.Packet{p}
			if rng.IntN(3) == 0 {
				if cp := b.Append(); b.Copy(cp, &old[i]) {
					cp.OutPort = uint16(1 + rng.IntN(3))
					send = append(send, cp)
				}
			}
			for _, p := range send {
				want = append(want, pkt{pcapfile.Header{
					Time: p.Arrival, CapLen: p.Len, WireLen: p.WireLen, Interface: uint32(p.OutPort - 1), LinkType: pcapfile.Ethernet,
				}, data})
			}
		}
	}
	r := newRig(t, 2048,
		PcapConfig{In: openCapture(t, writeCapture(t, "in.pcapng", pcapfile.Format{}, in))},
		PcapConfig{Out: shared}, PcapConfig{Out: shared}, PcapConfig{Out: shared})
	if err := r.run(stage); err != nil {
		t.Fatal(err)
	}
	comparePackets(t, readCapture(t, path), want)
}

// TestPcapChain transmits a packet that lies in three frames.
func TestPcapChain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.pcap")
	in := makePackets(rand.New(rand.NewPCG(4, 4)), 0, 1)
	r := newRig(t, 2048,
		PcapConfig{In: openCapture(t, writeCapture(t, "in.pcap", pcapfile.Format{Nano: true}, in))},
		PcapConfig{Out: createOutput(t, path)})
	var frames [2]uint64
	r.cache.Alloc(frames[:])
	copy(r.pool.Memory()[frames[0]+7:], "continued ")
	copy(r.pool.Memory()[frames[1]:], "and ended")
	if err := r.run(func(b *packet.Batch) {
		p := &b.Pkts[0]
		p.Next = r.pool.Link(frames[0]+7, 10, r.pool.Link(frames[1], 9, 0))
		p.OutPort = 1
	}); err != nil {
		t.Fatal(err)
	}
	in[0].data = append(in[0].data, "continued and ended"...)
	in[0].CapLen += 19
	comparePackets(t, readCapture(t, path), in)
}

// TestPcapDrops receives packets that exceed a frame, and packets of another
// link type: they arrive dropped, in their place.
func TestPcapDrops(t *testing.T) {
	room := 2048 - Headroom
	var pkts []pkt
	for i, n := range []int{60, room, room + 1, 9000, 0, 61} {
		pkts = append(pkts, pkt{pcapfile.Header{Time: int64(i) * 1000, CapLen: uint32(n), WireLen: uint32(n + 5), LinkType: pcapfile.Ethernet}, make([]byte, n)})
	}
	r := newRig(t, 2048, PcapConfig{In: openCapture(t, writeCapture(t, "in.pcap", pcapfile.Format{}, pkts))}, PcapConfig{})
	if err := r.run(toPort(1)); err != nil {
		t.Fatal(err)
	}
	want := []packet.Reason{0, 0, packet.ReasonTooLong, packet.ReasonTooLong, 0, 0}
	for i, p := range r.order {
		if p.Reason != want[i] || p.WireLen != pkts[i].WireLen || p.Reason == 0 && p.Len != pkts[i].CapLen {
			t.Errorf("packet %d: %+v, want reason %q and lengths of %+v", i, p, want[i], pkts[i].Header)
		}
	}
	if len(r.order) != len(want) {
		t.Errorf("%d packets, want %d", len(r.order), len(want))
	}
}

// TestPcapTruncated cuts a capture: what is whole arrives, the fault is told.
func TestPcapTruncated(t *testing.T) {
	pkts := makePackets(rand.New(rand.NewPCG(5, 5)), 0, 100)
	path := writeCapture(t, "in.pcap", pcapfile.Format{Nano: true}, pkts)
	info, _ := os.Stat(path)
	if err := os.Truncate(path, info.Size()-3); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 2048, PcapConfig{In: openCapture(t, path)}, PcapConfig{})
	if err := r.run(toPort(1)); err != nil {
		t.Fatal(err)
	}
	if err := r.ports[0].ReadError(); len(r.order) != 99 || !errors.Is(err, pcapfile.ErrTruncated) {
		t.Errorf("%d packets and %v, want 99 and ErrTruncated", len(r.order), err)
	}
}

// TestPcapDiskFull writes where no byte fits: reception ends early, the error
// names the file.
func TestPcapDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	pkts := makePackets(rand.New(rand.NewPCG(6, 6)), 0, 8000)
	r := newRig(t, 2048,
		PcapConfig{In: openCapture(t, writeCapture(t, "in.pcap", pcapfile.Format{Nano: true}, pkts))},
		PcapConfig{Out: createOutput(t, "/dev/full")})
	err := r.run(toPort(1))
	if err == nil || len(r.order) == len(pkts) {
		t.Fatalf("error %v after %d of %d packets, want an error before the end", err, len(r.order), len(pkts))
	}
	t.Log(err)
}

// TestPcapStopReceive ends reception in the middle, of one port of two.
func TestPcapStopReceive(t *testing.T) {
	configs := make([]PcapConfig, 2)
	for i := range configs {
		pkts := makePackets(rand.New(rand.NewPCG(7, 7)), byte(i), 1000)
		configs[i].In = openCapture(t, writeCapture(t, "in.pcap", pcapfile.Format{Nano: true}, pkts))
	}
	r := newRig(t, 2048, configs...)
	r.round(toPort(0))
	if err := r.ports[0].StopReceive(); err != nil {
		t.Fatal(err)
	}
	before := len(r.order)
	if err := r.run(toPort(0)); err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, p := range r.order[before:] {
		if p.InPort == 0 {
			t.Fatal("a stopped port received")
		}
		last++
	}
	if last < 900 {
		t.Errorf("the other port received %d more, want all its 1000 by the end", last)
	}
}

func TestPcapDoesNotAllocatePerPacket(t *testing.T) {
	pkts := makePackets(rand.New(rand.NewPCG(8, 8)), 0, 64*400)
	for i := range pkts {
		pkts[i].Time = int64(i) * 1000
	}
	r := newRig(t, 2048,
		PcapConfig{In: openCapture(t, writeCapture(t, "in.pcapng", pcapfile.Format{}, pkts))},
		PcapConfig{Out: createOutput(t, filepath.Join(t.TempDir(), "out.pcapng"), "p1")})
	r.order = make([]packet.Packet, 0, len(pkts))
	stage := toPort(1)
	r.round(stage)
	if n := testing.AllocsPerRun(200, func() { r.round(stage) }); n != 0 {
		t.Errorf("%v allocations per batch of %d", n, packet.BatchSize)
	}
	if err := r.run(stage); err != nil {
		t.Fatal(err)
	}
}

// TestPcapPortsCloseAtOnce: the last of the ports that share an output closes
// it, whichever that is.
func TestPcapPortsCloseAtOnce(t *testing.T) {
	for range 50 {
		path := filepath.Join(t.TempDir(), "out.pcapng")
		file, err := pcapfile.Create(path, pcapfile.Format{NG: true}, "p0", "p1", "p2", "p3")
		if err != nil {
			t.Fatal(err)
		}
		out, set := NewPcapOutput(file), &PcapSet{}
		var ports [4]Port
		for i := range ports {
			ports[i] = set.Add(PcapConfig{Name: fmt.Sprintf("p%d", i), Out: out})
		}
		var all sync.WaitGroup
		for _, p := range ports {
			all.Go(func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if pkts := readCapture(t, path); len(pkts) != 0 {
			t.Fatalf("%d packets from nowhere", len(pkts))
		}
	}
}
