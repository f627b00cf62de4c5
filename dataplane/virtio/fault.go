package virtio

import "github.com/weirswitch/weir/dataplane/shmem"

// Fault is why something of a driver was refused.
type Fault uint8

// The faults. FaultIndex, FaultHead and FaultMemory break the ring, and so does FaultChain where a packed ring has no end.
const (
	FaultIndex     Fault = iota // the available index is further ahead than the ring is long, or ran backwards
	FaultHead                   // a chain begins beyond the ring
	FaultNext                   // a descriptor continues beyond its table
	FaultChain                  // a chain has more descriptors than its table, or than this device takes
	FaultIndirect               // an indirect table within a table, continued, empty, of odd size or not negotiated
	FaultAddress                // a buffer that is not in the guest's memory
	FaultDirection              // a buffer to write where one to read must be, or the other way round
	FaultShort                  // no Ethernet header behind the packet's header
	FaultLong                   // a packet longer than the caller takes
	FaultRoom                   // a buffer shorter than the packet, without mergeable buffers
	FaultMemory                 // the memory was taken away
	FaultChecksum               // a checksum outside its packet, or not where its segments have it
	FaultSegment                // a packet to cut that is not of the kind it claims to be, or into too small or too large segments
	faults
)

var faultNames = [faults]string{
	"index", "head", "next", "chain", "indirect", "address", "direction", "short", "long", "room", "memory", "checksum", "segment",
}

// String returns the fault's name in reports.
func (f Fault) String() string { return faultNames[f] }

// Faults counts refusals by fault.
type Faults = shmem.Faults[Fault]
