package memif

import "github.com/weirswitch/weir/dataplane/shmem"

// Fault is why something of a peer was refused.
type Fault uint8

// The faults. All but FaultChain (of an end that is missing), FaultRegion, FaultAddress and FaultLength of a packet that was
// received, FaultShort and FaultLong break the ring.
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

// Faults counts refusals by fault.
type Faults = shmem.Faults[Fault]
