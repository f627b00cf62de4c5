package capture

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/weirswitch/weir/control/filter"
	"github.com/weirswitch/weir/pipeline/packet"
)

func newBatch(t testing.TB, frames int) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: frames, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return packet.NewBatch(pool.NewCache(), packet.BatchSize)
}

// number makes the packet an Ethernet frame with a number behind its header.
func number(b *packet.Batch, p *packet.Packet, length int, n uint32) {
	p.Len, p.WireLen = uint32(length), uint32(length)
	data := b.Data(p)
	clear(data)
	binary.BigEndian.PutUint16(data[12:], 0x88b5)
	binary.BigEndian.PutUint32(data[14:], n)
}

// TestBuffer: a full buffer keeps the oldest, in order, cut as asked, and counts
// the rest; a packet of several frames comes whole.
func TestBuffer(t *testing.T) {
	batch := newBatch(t, 4)
	addr, _ := batch.Frames.AllocOne()
	p := batch.Append()
	p.Addr = addr
	b := NewBuffer(filter.Filter{}, 16, 2048)
	slots := uint32(len(b.slots))
	if len(b.backing) > memory || 2*len(b.backing) <= memory {
		t.Errorf("%d bytes of slots", len(b.backing))
	}
	batch.Now = 42
	for n := range slots + 100 {
		number(batch, p, 60, n)
		b.Take(batch, p)
	}
	if b.Dropped() != 100 {
		t.Errorf("%d dropped, want 100", b.Dropped())
	}
	want := uint32(0)
	for b.Drain(func(c *Packet) bool {
		if n := binary.BigEndian.Uint32(append(c.Data[14:16:16], byte(want>>8), byte(want))); n != want || len(c.Data) != 16 || c.WireLen != 60 || c.Time != 42 {
			t.Fatalf("packet %d is %+v", want, c)
		}
		want++
		return want%1000 != 0
	}) {
	}
	if want != slots {
		t.Errorf("%d packets, want %d", want, slots)
	}
	whole := NewBuffer(filter.Filter{}, 0, 2048)
	second, _ := batch.Frames.AllocOne()
	number(batch, p, 1800, 7)
	p.Next = batch.Pool().Link(second, 1000, 0)
	p.WireLen = 2800
	whole.Take(batch, p)
	whole.Drain(func(c *Packet) bool {
		if len(c.Data) != 2048 || c.WireLen != 2800 {
			t.Errorf("%d of %d bytes", len(c.Data), c.WireLen)
		}
		return true
	})
}

// TestBufferWorkers: workers at once, and a reader who comes and goes; each packet
// is taken or counted, and each worker's are in order.
func TestBufferWorkers(t *testing.T) {
	const workers, each = 4, 20_000
	b := NewBuffer(filter.Filter{}, 4096, 2048)
	var all sync.WaitGroup
	for w := range workers {
		batch := newBatch(t, 2)
		addr, _ := batch.Frames.AllocOne()
		all.Go(func() {
			p := batch.Append()
			p.Addr, p.InPort = addr, uint16(w)
			for n := range uint32(each) {
				number(batch, p, 60, n+1)
				b.Take(batch, p)
			}
		})
	}
	got := 0
	var last [workers]uint32
	read := func() {
		b.Drain(func(c *Packet) bool {
			if n := binary.BigEndian.Uint32(c.Data[14:]); n <= last[c.InPort] {
				t.Errorf("packet %d of worker %d behind %d", n, c.InPort, last[c.InPort])
			} else {
				last[c.InPort] = n
			}
			got++
			return true
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		read()
	}
	read()
	if uint64(got)+b.Dropped() != workers*each {
		t.Errorf("%d taken and %d dropped of %d", got, b.Dropped(), workers*each)
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	batch := newBatch(t, 1)
	addr, _ := batch.Frames.AllocOne()
	p := batch.Append()
	p.Addr = addr
	number(batch, p, 60, 1)
	f, err := filter.Parse("not tcp")
	if err != nil {
		t.Fatal(err)
	}
	b := NewBuffer(f, 0, 2048)
	if n := testing.AllocsPerRun(1000, func() { b.Take(batch, p) }); n != 0 {
		t.Errorf("%v allocations per packet", n)
	}
}
