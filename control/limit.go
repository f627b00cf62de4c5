package control

import (
	"net"
	"sync"
	"sync/atomic"
)

// The most connections at a time. What comes beyond is closed at once. Admins
// have places of their own, so that readers cannot keep them out.
const (
	maxReaders = 128
	maxAdmins  = 64
)

// limiter bounds the connections of a listener. It knows who connected before
// it decides, from the kernel; over TCP nobody is known before the handshake, so
// all are readers.
type limiter struct {
	net.Listener
	refused *atomic.Uint64
	open    [2]atomic.Int64 // readers, admins
}

// Accept implements net.Listener.
func (l *limiter) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		id := peerOf(c)
		place, most := &l.open[0], int64(maxReaders)
		if id.admin {
			place, most = &l.open[1], maxAdmins
		}
		if place.Add(1) <= most {
			return &placed{Conn: c, id: id, place: place}, nil
		}
		place.Add(-1)
		l.refused.Add(1)
		_ = c.Close()
	}
}

// placed is a connection that has a place until it is closed.
type placed struct {
	net.Conn
	id    identity
	place *atomic.Int64
	once  sync.Once
}

// Close implements net.Conn.
func (c *placed) Close() error {
	c.once.Do(func() { c.place.Add(-1) })
	return c.Conn.Close()
}

// Bound returns a listener that closes connections at once that come when there
// are as many as the API allows readers.
func Bound(l net.Listener) net.Listener { return &limiter{Listener: l, refused: new(atomic.Uint64)} }
