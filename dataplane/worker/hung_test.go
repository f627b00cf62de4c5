package worker

import (
	"context"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// hung is a port whose device takes some packets and never sends one, as one
// with a transmit ring of its own can (zero-copy); a veth cannot.
type hung struct {
	*port.Memory
	room int
}

type hungQueue struct {
	port.Queue
	room   int
	frames *packet.Cache
	held   []packet.Packet
}

func (h *hung) Open(number uint16, queue int, frames *packet.Cache) (port.Queue, error) {
	q, err := h.Memory.Open(number, queue, frames)
	return &hungQueue{Queue: q, room: h.room, frames: frames}, err
}

func (q *hungQueue) Transmit(b *packet.Batch, idx []uint16) int {
	n := min(len(idx), q.room-len(q.held))
	for _, i := range idx[:n] {
		q.held = append(q.held, b.Pkts[i])
	}
	return n
}

func (q *hungQueue) Service() bool { return len(q.held) != 0 }
func (q *hungQueue) Depth() int    { return len(q.held) }

func (q *hungQueue) Close() (port.Rest, error) {
	for i := range q.held {
		q.frames.FreePacket(&q.held[i])
	}
	rest, err := q.Queue.Close()
	rest.HeldTx += len(q.held)
	return rest, err
}

// TestHungDevice: packets for a device that sends nothing fill its ring and are
// dropped then, as tx_full; those of the other ports all pass, and the end does
// not wait for ever.
func TestHungDevice(t *testing.T) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 4096, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	// cross sends what arrives at a port to the next one: p0 -> p1 -> p2 -> p0.
	const room, limit = 512, 10_000
	packets := [][]byte{make([]byte, 60)} // opForward
	c := DefaultConfig()
	c.Pin = false
	s, err := New(c, Parts{Name: "test", Pool: pool, Ports: []port.Port{
		port.NewMemory("p0", 1, packets, limit),
		&hung{port.NewMemory("p1", 1, packets, limit), room},
		port.NewMemory("p2", 1, packets, limit),
	}, Chain: []pipeline.Named{{Name: "mark", Module: mark{}}, {Name: "cross", Module: &cross{ports: 3}}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, nil) }()
	for deadline := time.Now().Add(30 * time.Second); s.Report().Received != 3*limit; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("received %d", s.Report().Received)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	r := s.Report()
	p0, p1, p2 := &r.Ports[0], &r.Ports[1], &r.Ports[2]
	if p0.Forwarded != room || p0.Dropped["tx_full"] != limit-room || p1.Transmitted != room {
		t.Errorf("to the hung port: %+v, transmitted %d", p0.Fate, p1.Transmitted)
	}
	if p1.Forwarded != limit || p2.Forwarded != limit {
		t.Errorf("between the others: %+v, %+v", p1.Fate, p2.Fate)
	}
	if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 || r.Frames.Unconfirmed != room {
		t.Errorf("balanced %v, frames %+v", r.Balanced, r.Frames)
	}
}
