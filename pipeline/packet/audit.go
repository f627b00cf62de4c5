package packet

// Owner is who holds a frame, for the audit.
type Owner uint32

// The owners of a frame. The zero Owner is a free frame.
const (
	OwnerFree   Owner = iota // in a Cache or the pool's list
	OwnerWorker              // in a batch, or between a ring and a cache
	OwnerFill                // in a fill ring, or with the kernel behind it
	OwnerTx                  // in a TX ring, with the kernel, or in a completion ring
)

func (o Owner) String() string {
	return [...]string{"free", "worker", "fill", "tx"}[o&3]
}

// Audited reports whether the pool keeps the owner of each frame.
func (p *Pool) Audited() bool { return p.audit != nil }

// Move records that the frame of addr passes from one owner to another. It
// reports, and counts, if the frame was not where the caller believes. Without
// the audit it does nothing and reports true.
func (p *Pool) Move(addr uint64, from, to Owner) bool {
	if p.audit == nil {
		return true
	}
	i := p.Index(addr)
	if int(i) >= len(p.audit) || !p.audit[i].CompareAndSwap(uint32(from), uint32(to)) {
		p.faults.Add(1)
		return false
	}
	return true
}

// KernelOwner returns the direction in which the kernel holds the frame of addr,
// OwnerFill or OwnerTx, for what a closing socket gives back from either. A frame
// that the kernel does not hold is a fault that Move will find.
func (p *Pool) KernelOwner(addr uint64) Owner {
	if p.audit != nil && Owner(p.audit[p.Index(addr)].Load()) == OwnerTx {
		return OwnerTx
	}
	return OwnerFill
}

// Census counts the frames of each owner, and the transitions that the audit
// refused. It is exact only while nothing moves. Without the audit it knows
// the free frames of the pool's own list alone.
type Census struct {
	Frames int    // all frames
	Free   int    // free
	Worker int    // held by workers
	Fill   int    // with the kernel to receive
	Tx     int    // with the kernel to transmit
	Faults uint64 // transitions refused
}

// Census takes stock of the frames.
func (p *Pool) Census() Census {
	c := Census{Frames: p.Frames(), Faults: p.faults.Load()}
	if p.audit == nil {
		c.Free = p.Free()
		return c
	}
	for i := range p.audit {
		switch Owner(p.audit[i].Load()) {
		case OwnerFree:
			c.Free++
		case OwnerWorker:
			c.Worker++
		case OwnerFill:
			c.Fill++
		case OwnerTx:
			c.Tx++
		}
	}
	return c
}
