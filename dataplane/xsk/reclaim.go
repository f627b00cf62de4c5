package xsk

import "runtime"

// Held counts the frames that the kernel took and has not given back through a ring. Which
// ones they are it does not report: they are those that the owner does not find elsewhere.
type Held struct {
	// RX frames were taken from the fill ring and hold no delivered packet: in copy mode those
	// on the pool's free list, left from packets that found the RX ring full; in zero-copy
	// mode those posted to the device.
	RX int
	// TX frames were taken from the TX ring and are not completed: packets in flight,
	// or, for good, invalid descriptors (Stats.TXInvalidDescs).
	TX int
}

// Reclaim appends the addresses of all frames that are in the socket's rings, and says
// how many more the kernel holds. Together they are all that was ever pushed and not popped:
//
//	Fill.Push + TX.Push - RX.Pop - Completion.Pop = appended + Held.RX + Held.TX
//
// Call it once nothing redirects to the socket (its XSKMAP entry was removed) and
// when its rings are unused, right before Close: it empties our side of RX and
// completion, but the kernel may go on with fill and TX. Packets still in the TX ring
// are sent if possible. All those frames, the held ones
// too, may be used again when Close has returned.
//
// It waits for packets that the XDP program is redirecting at this moment, some milliseconds.
func (s *Socket) Reclaim(addrs []uint64) ([]uint64, Held) {
	s.drain()
	GracePeriod()
	ix := s.indexes()
	for try := 0; ix.held().RX < 0 && try < 1000; try++ {
		// Between xskq_prod_submit(rx) and xskq_cons_release(fill) a frame is in both rings.
		runtime.Gosched()
		ix = s.indexes()
	}
	if sentTwice := -ix.held().TX; sentTwice > 0 {
		// What drain could not cure: these were dropped by the device and completed, but
		// the kernel did not publish that it took them. They are the oldest in the TX ring.
		ix.txTaken += uint32(sentTwice)
	}
	add := func(addr uint64) { addrs = append(addrs, addr) }
	addDesc := func(d Desc) { addrs = append(addrs, d.Addr) }
	s.Fill.between(ix.fillTaken, s.Fill.head, add)
	s.RX.between(s.RX.tail, ix.rxGiven, addDesc)
	s.TX.between(ix.txTaken, s.TX.head, addDesc)
	s.Completion.between(s.Completion.tail, ix.completionGiven, add)
	s.RX.release(int(ix.rxGiven - s.RX.tail))
	s.Completion.release(int(ix.completionGiven - s.Completion.tail))
	return addrs, ix.held()
}

// Held returns how many frames the kernel holds now. It is exact while the socket is at
// rest, and else a moment's view.
func (s *Socket) Held() Held { return s.indexes().held() }

// indexes are the kernel's ends of the four rings. They begin at zero with the socket
// and count up, so differences between rings are numbers of frames.
type indexes struct{ rxGiven, fillTaken, completionGiven, txTaken uint32 }

// indexes reads what the kernel gave before what it took: a frame that moves on in
// between counts as held, rather than as given before it was taken.
func (s *Socket) indexes() (ix indexes) {
	ix.rxGiven = s.RX.produced.Load()
	ix.fillTaken = s.Fill.consumed.Load()
	ix.completionGiven = s.Completion.produced.Load()
	ix.txTaken = s.TX.consumed.Load()
	return ix
}

func (ix indexes) held() Held {
	return Held{RX: int(int32(ix.fillTaken - ix.rxGiven)), TX: int(int32(ix.txTaken - ix.completionGiven))}
}

// drain has the kernel take what is in the TX ring. Beside sending the rest, this makes
// the kernel publish its index: a packet that the device drops (carrier lost) is completed, but
// __xsk_generic_xmit publishes the consumer only after a packet was sent or the ring found
// empty. Each call then takes one packet, hence the bound.
func (s *Socket) drain() {
	for range s.TX.Size() + 64 {
		if s.TX.Unsent() == 0 {
			return
		}
		if r := s.TX.Kick(); r != KickDone && r != KickAgain && r != KickDropped {
			return
		}
	}
}
