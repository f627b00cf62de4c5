package socket

import (
	"net"
	"sync"
)

// Slots are those of connections: so many of all, and so many of one address. It is safe for concurrent use.
type Slots struct {
	most, each int

	mu   sync.Mutex
	open int
	of   map[string]int
}

// NewSlots returns slots for most connections, of which one address has at most each.
func NewSlots(most, each int) *Slots {
	return &Slots{most: most, each: max(1, each), of: map[string]int{}}
}

// Take takes a slot for the other end of a connection; ok is false if there is none. A connection without an address
// counts as one of "unix".
func (p *Slots) Take(c net.Conn) (leave func(), ok bool) {
	from, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		from = "unix"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.most || p.of[from] >= p.each {
		return nil, false
	}
	p.open++
	p.of[from]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open--
		if p.of[from]--; p.of[from] == 0 {
			delete(p.of, from)
		}
	}, true
}
