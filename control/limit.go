package control

import (
	"net"
	"sync/atomic"

	"github.com/weirswitch/weir/internal/socket"
)

// The most connections at a time. What comes beyond is closed at once. Admins
// have places of their own, so that readers cannot keep them out.
const (
	maxReaders = 128
	maxAdmins  = 64
)

// bound bounds the connections of a listener. It knows who connected before
// it decides, from the kernel; over TCP nobody is known before the handshake, so
// all are readers.
func bound(l net.Listener, refused *atomic.Uint64) *socket.Bounded {
	var readers, admins atomic.Int64
	take := func(c net.Conn) (leave func(), ok bool) {
		place, most := &readers, int64(maxReaders)
		if socket.PeerOf(c).Privileged() {
			place, most = &admins, maxAdmins
		}
		if place.Add(1) > most {
			place.Add(-1)
			return nil, false
		}
		return func() { place.Add(-1) }, true
	}
	return &socket.Bounded{Listener: l, Take: take, Refused: func() { refused.Add(1) }}
}

// Bound returns a listener that closes connections at once that come when there
// are as many as the API allows readers.
func Bound(l net.Listener) net.Listener { return bound(l, new(atomic.Uint64)) }
