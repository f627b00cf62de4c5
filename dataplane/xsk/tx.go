package xsk

import "golang.org/x/sys/unix"

// TX is the ring of packets to send.
type TX struct {
	producer[Desc]
	fd int
}

// Push offers packets and returns how many descriptors were taken: the first ones,
// and always whole packets, so that the kernel never sees a packet without its end.
// Options must be 0 or Continued.
func (t *TX) Push(descs []Desc) int {
	n := wholePackets(descs[:t.room(len(descs))])
	if n > 0 {
		t.publish(descs[:n])
	}
	return n
}

// Kick asks the kernel to send what Push published. In copy mode the packets leave
// inside the call, at most Granted.TXBudget (or 32) descriptors of them, on this CPU.
// In zero-copy mode it wakes the driver.
func (t *TX) Kick() KickResult { return kickResult(sendtoNothing(t.fd)) }

// Unsent returns how many descriptors the kernel has not taken from the ring yet.
func (t *TX) Unsent() int { return len(t.slots) - t.Free() }

// KickResult is what became of a Kick.
type KickResult uint8

const (
	// KickDone means the kernel took all there was, or will.
	KickDone KickResult = iota
	// KickAgain means there is more to send: the budget was used up, the completion
	// ring or the socket's send buffer is full, or the device is busy. Pop completions,
	// then kick again.
	KickAgain
	// KickDropped means the device refused a packet and its frame came back
	// as if sent (NET_XMIT_DROP). There may be more to send.
	KickDropped
	// KickNoMemory means that the kernel could not allocate; try later.
	KickNoMemory
	// KickDown means that the interface is down. The ring keeps its packets.
	KickDown
	// KickGone means that the interface was removed or the socket closed.
	KickGone
	// KickFailed is any other errno.
	KickFailed
)

// kickResult maps the errno of sendto. EINTR cannot happen: the call does not sleep.
func kickResult(errno unix.Errno) KickResult {
	switch errno {
	case 0:
		return KickDone
	case unix.EAGAIN:
		return KickAgain
	case unix.EBUSY:
		return KickDropped
	case unix.ENOBUFS, unix.ENOMEM:
		return KickNoMemory
	case unix.ENETDOWN:
		return KickDown
	case unix.ENXIO, unix.EBADF:
		return KickGone
	default:
		return KickFailed
	}
}

var kickNames = [...]string{"done", "again", "dropped", "no memory", "down", "gone", "failed"}

// String names the result.
func (k KickResult) String() string { return kickNames[k] }
