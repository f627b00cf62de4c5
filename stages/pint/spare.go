package pint

// sparing chooses the packets of a flow that carry a digest, where not all are to: its first ones, from which a sink learns its
// path, and then one of so many, by which it notices that the path changed. That is what DeltaINT (ICNP 2021) does with values of switches,
// which travel when they differ from what is known; a path is new where a flow is. It belongs to one worker.
type sparing struct {
	first uint32 // packets of a flow
	mask  uint64 // of a packet's hash: 0 in it, it carries all the same
	// A cell is of the flow that was last seen of those whose hashes share it, so that two that alternate carry too many digests, never too few:
	//
	//	31       15      7       0
	//	| flow   | time  | count |
	cells [sparedFlows]uint32
}

const (
	sparedFlows = 1 << 16
	// A flow begins anew each 2^spareShift ns, 69 s: who asks for a path of the last minutes has its first packets in them.
	spareShift = 36
	maxFirst   = 255
	maxOneOf   = 1 << 16
)

func newSparing(c *Config) *sparing {
	if c.ThenOneOf == 1 {
		return nil
	}
	return &sparing{first: uint32(c.FirstPackets), mask: uint64(c.ThenOneOf - 1)}
}

// carries counts a packet of a flow, and reports whether it is to carry a digest.
func (s *sparing) carries(flow uint32, id uint64, now int64) bool {
	cell := &s.cells[flow%sparedFlows]
	if of := flow/sparedFlows<<16 | uint32(now>>spareShift)&0xff<<8; *cell&^0xff != of {
		*cell = of
	}
	if *cell&0xff < s.first {
		*cell++
		return true
	}
	return id*0x9e3779b97f4a7c15>>40&s.mask == 0
}
