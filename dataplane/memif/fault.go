package memif

import "sync/atomic"

// Fault is why something of a peer was refused.
type Fault uint8

// The faults. All but FaultChain (of an end that is missing), FaultAddress and FaultLength of a packet that was received,
// FaultShort and FaultLong break the ring.
const (
	FaultIndex   Fault = iota // head or tail is further ahead than the ring is long, or ran backwards
	FaultRace                 // the peer keeps changing the word that our index is in
	FaultChain                // a packet's last descriptor is missing, or its chain is too long
	FaultRegion               // a buffer in a region that is not there
	FaultAddress              // a buffer beyond the end of its region
	FaultLength               // a packet longer than our buffer
	FaultRoom                 // an empty buffer to write to
	FaultShort                // a packet shorter than an Ethernet header
	FaultLong                 // a packet longer than the caller, or the ring, takes
	FaultMemory               // the memory was taken away
	faults
)

var faultNames = [faults]string{
	"index", "race", "chain", "region", "address", "length", "room", "short", "long", "memory",
}

// String returns the fault's name in reports.
func (f Fault) String() string { return faultNames[f] }

// Faults counts refusals by fault. Any goroutine may read it.
type Faults [faults]atomic.Uint64

// Each calls f for the faults that have happened.
func (c *Faults) Each(f func(Fault, uint64)) {
	for i := range c {
		if n := c[i].Load(); n != 0 {
			f(Fault(i), n)
		}
	}
}

// Broken returns how many faults were a ring's, and cost the connection.
func (c *Faults) Broken(sent bool) (sum uint64) {
	for i := range c {
		sum += c[i].Load()
	}
	return sum - min(sum, c.Packets(sent))
}

// Packets returns how many packets were refused and cost nothing else: the other faults are a ring's, and end it.
func (c *Faults) Packets(sent bool) (sum uint64) {
	if sent {
		return c[FaultLong].Load()
	}
	for _, f := range []Fault{FaultChain, FaultRegion, FaultAddress, FaultLength, FaultShort, FaultLong} {
		sum += c[f].Load()
	}
	return sum
}
