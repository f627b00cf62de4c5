package socket

import (
	"net"
	"sync"
)

// Bounded is a listener whose connections take places. What comes when its places are taken
// is closed at once, before a byte of it is read.
type Bounded struct {
	net.Listener
	// Take takes a place for a connection, which leave gives back; ok is false if there is
	// none. It is called by whoever accepts, leave by whoever closes.
	Take func(net.Conn) (leave func(), ok bool)
	// Refused counts a connection that was closed.
	Refused func()
}

// Accept implements net.Listener.
func (b *Bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := b.Take(c); ok {
			return &placed{Conn: c, leave: leave}, nil
		}
		b.Refused()
		_ = c.Close()
	}
}

// placed is a connection that has a place until it is closed.
type placed struct {
	net.Conn
	leave func()
	once  sync.Once
}

// Close implements net.Conn.
func (c *placed) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}
