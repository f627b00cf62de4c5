package socket

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bounded is a listener with bounded connections. A connection beyond the bound is closed at
// once, before a byte of it is read.
type Bounded struct {
	net.Listener
	// Take takes a slot for a connection, which leave gives back; ok is false if there is
	// none. Take is called on accept, leave on close.
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
			return &bounded{Conn: c, leave: leave}, nil
		}
		b.Refused()
		_ = c.Close()
	}
}

// bounded is a connection that holds a slot until it is closed.
type bounded struct {
	net.Conn
	leave func()
	once  sync.Once
	asked atomic.Bool // a byte came
}

// Read implements net.Conn. That a byte came is noted before it is read, as the kernel has it no more then: at any moment Asked sees the one or the other.
func (c *bounded) Read(b []byte) (n int, err error) {
	if s, ok := c.Conn.(syscall.Conn); ok && !c.asked.Load() {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Read(func(fd uintptr) bool { // an error of its is the next Read's, too
				n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
				if err == nil && n > 0 {
					c.asked.Store(true)
				}
				return !errors.Is(err, unix.EAGAIN)
			})
		}
	}
	if n, err = c.Conn.Read(b); n > 0 {
		c.asked.Store(true)
	}
	return n, err
}

// Close implements net.Conn.
func (c *bounded) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}
