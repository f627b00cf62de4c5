package lab

import (
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// echoHost answers a ping's requests in order, once it is let.
type echoHost struct {
	net.PacketConn
	requests chan []byte
}

func (h *echoHost) WriteTo(b []byte, _ net.Addr) (int, error) {
	h.requests <- append([]byte(nil), b...)
	return len(b), nil
}

// answer takes the oldest request and gives its reply to the pinger.
func (h *echoHost) answer(p *pinger) {
	m := <-h.requests
	m[0] = p.kind.reply
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accept(m, make([]byte, 65536))
}

// stops waits until the number is want, gives it time to go on, and fails if it does.
func stops(t *testing.T, what string, number func() int, want int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); number() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d, want %d", what, number(), want)
		}
	}
	time.Sleep(20 * time.Millisecond)
	if n := number(); n != want {
		t.Fatalf("%s: %d, want %d and no more", what, n, want)
	}
}

// The first request is answered before there is a second one; then the window
// is full, regardless of answers.
func TestFirstRequestAlone(t *testing.T) {
	const count, size = 100, 16
	host := &echoHost{requests: make(chan []byte, count)}
	l := &load{Traffic: Traffic{Count: count, Window: size, Sizes: []int{64, 128}}, sinkIP: netip.MustParseAddr("fd00::1")}
	p := &pinger{
		load: l, kind: echoes[6], conn: host, meter: silent{}, track: newTracker(count, 1), began: time.Now(),
		window: make(chan struct{}, size), sentAt: make([]atomic.Int64, count),
	}
	ended := make(chan error, 1)
	go func() { ended <- p.send(t.Context()) }()
	waiting := func() int { return len(host.requests) }
	stops(t, "requests before the first answer", waiting, 1)
	for i := range count {
		host.answer(p)
		if i%10 == 0 {
			stops(t, fmt.Sprintf("requests in flight after %d answers", i+1), waiting, min(size, count-1-i))
		}
	}
	if err := <-ended; err != nil || p.track.received != count || p.track.wrong != 0 {
		t.Fatalf("%v, %+v", err, p.track)
	}
}

// wireConn counts the datagrams that are written to it.
type wireConn struct {
	net.Conn
	written atomic.Uint64
}

func (c *wireConn) Write(b []byte) (int, error) {
	c.written.Add(1)
	return len(b), nil
}

func TestFirstDatagramAlone(t *testing.T) {
	var received atomic.Uint64
	conn := &wireConn{}
	l := &load{Traffic: Traffic{Count: 100, Window: 16, Rate: 1e6, Sizes: []int{64, 64}}}
	ended := make(chan error, 1)
	go func() {
		_, err := l.sendDatagrams(t.Context(), conn, 48, received.Load)
		ended <- err
	}()
	under := func() int { return int(conn.written.Load() - received.Load()) }
	stops(t, "datagrams before the first arrived", under, 1)
	received.Store(1)
	stops(t, "datagrams in flight", under, 16)
	for conn.written.Load() < 100 {
		received.Store(conn.written.Load())
		time.Sleep(time.Millisecond)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
