package control

import (
	"net"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/weirswitch/weir/internal/socket"
)

// The most connections at a time. What comes beyond is closed at once. Admins
// have their own limit, so that readers cannot keep them out.
const (
	maxReaders = 128
	maxAdmins  = 64
)

// bound bounds the connections of a listener. It knows who connected before
// it decides, from the kernel; over TCP the peer is unknown before the handshake, so
// all are readers.
func bound(l net.Listener, refused *atomic.Uint64) *socket.Bounded {
	readers, admins := semaphore.NewWeighted(maxReaders), semaphore.NewWeighted(maxAdmins)
	take := func(c net.Conn) (leave func(), ok bool) {
		slots := readers
		if socket.PeerOf(c).Privileged() {
			slots = admins
		}
		return func() { slots.Release(1) }, slots.TryAcquire(1)
	}
	return &socket.Bounded{Listener: l, Take: take, Refused: func() { refused.Add(1) }}
}

// Bound returns a listener that closes connections at once that come when there
// are as many as the API allows readers.
func Bound(l net.Listener) net.Listener { return bound(l, new(atomic.Uint64)) }
