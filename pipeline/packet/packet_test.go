package packet

import (
	"testing"
	"unsafe"
)

func TestPacketIsOneCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(Packet{}); n != 64 {
		t.Fatalf("a Packet has %d bytes, want one cache line of 64", n)
	}
}

// TestCopyOfChain copies a packet of three frames and compares all bytes.
func TestCopyOfChain(t *testing.T) {
	b, c := newTestBatch(t, 16, true)
	src := b.Append()
	pieces := [][]byte{fill(1, 1500), fill(2, 1800), fill(3, 77)}
	var links [3]uint64
	if c.Alloc(links[:]) != 3 {
		t.Fatal("no frames")
	}
	for i, p := range pieces {
		copy(b.Mem[links[i]+100:], p)
	}
	l2 := c.Pool().Link(links[2]+100, 77, 0)
	l1 := c.Pool().Link(links[1]+100, 1800, l2)
	src.Addr, src.Len, src.Next, src.WireLen = links[0]+100, 1500, l1, 3377

	dst := b.Append()
	if !b.Copy(dst, src) {
		t.Fatal("copy failed")
	}
	want, got := b.AppendBytes(nil, src), b.AppendBytes(nil, dst)
	if string(want) != string(got) || len(got) != 3377 {
		t.Fatalf("copy differs: %d and %d bytes", len(want), len(got))
	}
	c.FreePacket(dst)
	c.FreePacket(src)
	c.Close()
	if census := c.Pool().Census(); census.Free != 16 || census.Faults != 0 {
		t.Fatalf("census %+v, want all 16 free and no fault", census)
	}
}

// TestSegments: a large packet is as many as a device cuts it into; all others are one.
func TestSegments(t *testing.T) {
	b, c := newTestBatch(t, 4, false)
	var frames [2]uint64
	if c.Alloc(frames[:]) != 2 {
		t.Fatal("no frames")
	}
	for _, tt := range []struct {
		wire  uint32
		large Large
		flags Flags
		want  uint64
	}{
		{3000, Large{}, FlagL4, 1},
		{54, Large{Size: 1000, Kind: 1}, FlagL4, 1},
		{1054, Large{Size: 1000, Kind: 1}, FlagL4, 1},
		{1055, Large{Size: 1000, Kind: 1}, FlagL4, 2},
		{3054, Large{Size: 1000, Kind: 1}, FlagL4, 3},
		{3054, Large{Size: 1000, Kind: 1}, 0, 1},
		{3054, Large{Kind: 1}, FlagL4, 1},
	} {
		p := Packet{Addr: frames[0], Len: 54, WireLen: tt.wire, Payload: 54, Flags: tt.flags, Next: c.Pool().Link(frames[1], tt.wire-54, 0)}
		c.Pool().SetLarge(p.Next, tt.large)
		if got := b.Segments(&p); got != tt.want {
			t.Errorf("%d bytes, %+v: %d segments, want %d", tt.wire, tt.large, got, tt.want)
		}
	}
	if got := b.Segments(&Packet{WireLen: 9000, Payload: 54, Flags: FlagL4}); got != 1 {
		t.Errorf("a packet of one frame: %d segments", got)
	}
}

// TestCopyWithoutFrames runs the pool dry in the middle of a chain.
func TestCopyWithoutFrames(t *testing.T) {
	b, c := newTestBatch(t, 3, true)
	var f [2]uint64
	c.Alloc(f[:])
	p := Packet{Addr: f[0], Len: 10, Next: c.Pool().Link(f[1], 10, 0)}
	if b.Copy(new(Packet), &p) {
		t.Fatal("copied two frames into one")
	}
	c.FreePacket(&p)
	c.Close()
	if census := c.Pool().Census(); census.Free != 3 || census.Faults != 0 {
		t.Fatalf("census %+v, want all free", census)
	}
}

func TestAuditFindsDoubleFree(t *testing.T) {
	_, c := newTestBatch(t, 4, true)
	addr, _ := c.AllocOne()
	c.Free(addr + 7)
	c.Free(addr)
	if got := c.Pool().Census(); got.Faults != 1 || c.Len() != 4 {
		t.Fatalf("double free: census %+v, cache %d; want one fault and 4 frames", got, c.Len())
	}
}

// TestSpillAndRefill moves frames between two caches through the pool.
func TestSpillAndRefill(t *testing.T) {
	_, c := newTestBatch(t, 4*cacheBulk, false)
	other := c.Pool().NewCache()
	all := make([]uint64, 4*cacheBulk)
	if n := c.Alloc(all); n != len(all) {
		t.Fatalf("allocated %d of %d", n, len(all))
	}
	if n := other.Alloc(make([]uint64, 1)); n != 0 || !other.Short() || other.Short() {
		t.Fatalf("allocated %d from an empty pool; want none, and to be told once", n)
	}
	for _, a := range all {
		c.Free(a)
	}
	if c.Spill(); c.Len() != len(all) {
		t.Fatalf("a cache without bound gave frames away: it has %d of %d", c.Len(), len(all))
	}
	c.Bound(2 * cacheBulk)
	c.Spill()
	if c.Len() != cacheBulk {
		t.Fatalf("cache keeps %d, want %d", c.Len(), cacheBulk)
	}
	if n := other.Alloc(all[:3*cacheBulk]); n != 3*cacheBulk {
		t.Fatalf("the other cache got %d, want %d", n, 3*cacheBulk)
	}
	seen := map[uint64]bool{}
	for _, a := range all[:3*cacheBulk] {
		if seen[a] {
			t.Fatalf("frame %d given out twice", a)
		}
		seen[a] = true
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	b, c := newTestBatch(t, 256, false)
	if n := testing.AllocsPerRun(100, func() {
		var f [BatchSize]uint64
		c.Alloc(f[:])
		for _, a := range f {
			p := b.Append()
			p.Addr, p.Len = a, 60
		}
		old := b.Rebuild()
		for i := range old {
			*b.Append() = old[i]
			if cp := b.Append(); cp != nil {
				b.Copy(cp, &old[i])
			}
		}
		for i := range b.Pkts {
			b.Drop(&b.Pkts[i], ReasonNoPort)
			c.FreePacket(&b.Pkts[i])
		}
		b.Reset()
	}); n != 0 {
		t.Fatalf("%v allocations per batch", n)
	}
}

func newTestBatch(t *testing.T, frames int, audit bool) (*Batch, *Cache) {
	t.Helper()
	pool, err := NewPool(PoolConfig{Frames: frames, FrameSize: 2048, Audit: audit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	c := pool.NewCache()
	return NewBatch(c, 4*BatchSize), c
}

func fill(seed byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i*7)
	}
	return b
}
