package port

import (
	"errors"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Port is one port of a switch. Its methods may be called while workers use
// its queues. Info and Counters may be called at any time, the others not
// concurrently with each other; those of different ports may.
type Port interface {
	// Open opens a queue, 0 <= queue < Info().Queues, for the worker that owns
	// the cache, or gives Down if the interface may be missing and is. Packets received there get number as their InPort.
	Open(number uint16, queue int, frames *packet.Cache) (Queue, error)
	// Info describes the port and the modes that were granted. The modes are
	// known once all queues are open.
	Info() Info
	// Counters reads what the driver and the kernel count beneath the workers.
	Counters() Counters
	// StopReceive makes the port receive nothing more, so that its queues run
	// empty; what it received already is still delivered.
	StopReceive() error
	// Close releases the port, after all its queues were closed.
	Close() error
}

// ArrivalTimer is a Port that can find out when each packet arrived.
type ArrivalTimer interface {
	// TimeArrivals makes the port's queues set Packet.Arrival, as the
	// configuration says (DataplaneConfig.Timestamps). It is called before the first
	// Open, and only if a stage needs arrival times. Info().Mode names what was
	// granted and, where that is less than was asked, why.
	TimeArrivals() error
}

// LargePasser is a Port to which senders leave the segmentation of large packets.
type LargePasser interface {
	// PassLarge says whether its queues receive large packets as they are (packet.Large), if all stages take them, or their segments. It is called
	// before the first Open, and while no worker receives.
	PassLarge(pass bool)
}

// LargeTaker is a Queue that may take large packets.
type LargeTaker interface {
	Queue
	// TakesLarge reports whether the other end takes large packets of a kind now. Others must be cut before Transmit.
	TakesLarge(l packet.Large) bool
}

// Restorable is a Port over something that can vanish while the switch runs,
// and come back under the same name. What it adds may be called by one goroutine
// at a time, also while another one calls StopReceive.
type Restorable interface {
	Port
	// Lost looks whether the interface that the port was opened on is gone.
	Lost() bool
	// Pause leaves to the kernel what arrives from now on. What arrived before is
	// in the queues when it returns.
	Pause() error
	// Detach lets go of the interface, behind Pause. The caller has taken the queues
	// out of use, and closes them behind it. Why the port is not back yet, if
	// that is known, is for Info; ErrDisabled if it shall not come back.
	Detach(why error) error
	// GiveBack puts back the settings of the interface that Detach let go of. The caller has closed the
	// queues: a driver removes no queue that a socket has.
	GiveBack() error
	// Restore finds the interface of the port's name and readies the port for an
	// Open of each of its queues, as many as there were. Where it fails, nothing has changed,
	// and Info says why.
	Restore() error
	// Configure gives a detached port other settings for the next Open, and returns
	// those it had. What Config.Fixed names stays as it was.
	Configure(c Config) (before Config)
	// Restored says that all queues were opened and have their workers. Packets
	// come to them from now on; meanwhile they went to the kernel.
	Restored() error
}

// Renewable is a Restorable whose driver may drop what the port gave it.
type Renewable interface {
	Restorable
	// Renew puts back what the driver has dropped without a word since the last time. It is called after each event of the
	// link. The first time that something had to be put back, it returns why, for the log.
	Renew() (note string, err error)
}

// ErrDisabled is why a port is detached that control has switched off.
var ErrDisabled = errors.New("the port was switched off")

// Queue is one queue of a port, as its worker sees it. No method blocks.
type Queue interface {
	// Receive appends arrived packets to the batch, at most
	// packet.BatchSize and as many as fit, and returns how many. It sets
	// Addr, Len, WireLen, Next, InPort, InQueue, and Arrival where the driver
	// knows it.
	Receive(b *packet.Batch) int
	// Transmit takes the packets b.Pkts[i], for i of idx in order, and returns
	// how many it took. The rest stay the caller's; Refusal says why.
	Transmit(b *packet.Batch, idx []uint16) int
	// Refusal is the drop reason for what the last Transmit did not take.
	Refusal() packet.Reason
	// Service does what is due between batches: it wakes the kernel where it
	// asks to be woken, frees transmitted frames and offers new ones. It
	// reports whether transmitted frames are still in flight.
	Service() (pending bool)
	// Depth is how many frames wait to be sent: Transmit took them, and the
	// kernel has not confirmed them. It reads the rings as they are now, without a
	// system call, and counts a packet of several frames by its frames.
	Depth() int
	// FD is what to poll for arrivals, or -1 where there is always something
	// (or never anything again: see Ended).
	FD() int
	// Ended reports that no packet will ever arrive again.
	Ended() bool
	// Close closes the queue and frees its frames into its cache, those too that
	// the kernel still held.
	Close() (Rest, error)
}

// Rehomer is a Queue that can pass from one owner to another, with whose cache it
// works from then on. No owner may be using it meanwhile.
type Rehomer interface {
	Queue
	Rehome(frames *packet.Cache)
}

// Doubter is a Queue that takes packets although its interface is down, until the kernel was asked to send. LinkDown, called by its
// owner, has it ask before it takes the next ones, until the kernel says that the interface is up.
type Doubter interface {
	Queue
	LinkDown()
}

// Sleeper is a Queue whose other end notifies it only where it is asked to.
type Sleeper interface {
	Queue
	// Sleep asks for FD to become readable with the next packet. It reports whether packets wait
	// already, and the worker must not sleep. It is called once all queues were found empty.
	Sleep() (ready bool)
}

// Rest is what was left in a queue when it closed, and is free now.
type Rest struct {
	HeldRx int // frames that the kernel held to receive into
	HeldTx int // frames that the kernel held to transmit, not confirmed
	Unsent int // packets in the TX ring that the kernel had not taken
}

// Add adds what was left in another queue.
func (r *Rest) Add(o Rest) {
	r.HeldRx += o.HeldRx
	r.HeldTx += o.HeldTx
	r.Unsent += o.Unsent
}

// State is whether a port can carry packets.
type State string

// The states of a port. Packets to one that is not up are dropped (port_down).
const (
	StateUp         State = "up"
	StateDown       State = "down"       // the link is down, or has no carrier
	StateGone       State = "gone"       // the interface does not exist
	StateRebuilding State = "rebuilding" // it exists again, but the port is not open yet
	StateDisabled   State = "disabled"   // control has switched the port off
	StateRemoved    State = "removed"    // control has removed the port, and its counts are left
)

// Info describes a port.
type Info struct {
	Name      string `json:"name"`
	Interface string `json:"interface,omitempty"` // of the kernel, or a file
	Index     int    `json:"index"`               // of the interface; 0 without one
	Driver    string `json:"driver"`
	Mode      string `json:"mode"` // all that was granted, in words: "native, copy, need_wakeup"
	// Fallbacks are why Mode is less than "auto" tries first, a sentence each.
	Fallbacks []string `json:"fallbacks,omitempty"`
	Queues    int      `json:"queues"`
	MTU       int      `json:"mtu"`       // bytes behind the Ethernet header
	MaxFrame  int      `json:"max_frame"` // longest packet, bytes without FCS
	MAC       string   `json:"mac,omitempty"`
	// Reception is what the device is told to receive beside what is for its own address:
	// "promiscuous", or addresses and "all multicast"; empty without a device.
	Reception string `json:"reception,omitempty"`
	Up        bool   `json:"up"`
	State     State  `json:"state"`
	// Error is why the port cannot do all it should, in words; empty if it can.
	Error string `json:"error"`
	// Settings are those of the interface that the port has changed, until it closes; Refused are those
	// that it could not change.
	Settings []nic.Change  `json:"settings"`
	Refused  []nic.Refusal `json:"refused"`
	// Speed is the link's, in bits per second; 0 where the driver does not
	// tell. It is for the stages, and in no report.
	Speed uint64 `json:"-"`
}

// Counters are what happens to packets outside the workers' sight: lost before
// they were received or after they were handed over. All count packets.
type Counters struct {
	RxRingFull   uint64 `json:"rx_ring_full"`   // arrived while the RX ring was full
	RxNoFrame    uint64 `json:"rx_no_frame"`    // arrived while the fill ring was empty
	RxDropped    uint64 `json:"rx_dropped"`     // dropped by the kernel for other reasons
	RxInvalid    uint64 `json:"rx_invalid"`     // descriptors that the kernel refused
	TxInvalid    uint64 `json:"tx_invalid"`     // descriptors that the kernel refused
	Kept         uint64 `json:"kept"`           // left to the kernel by the keep list
	NoSocket     uint64 `json:"no_socket"`      // left to the kernel: arrived on a queue that the port does not serve
	LinkTxDrops  uint64 `json:"link_tx_drops"`  // dropped by the device after it was sent
	LinkRxErrors uint64 `json:"link_rx_errors"` // dropped by the device before XDP saw it: errors, and those for which it had no buffer
	RxTooLong    uint64 `json:"rx_too_long"`    // longer than a frame, dropped by the XDP program
	RxTagLost    uint64 `json:"rx_tag_lost"`    // dropped by the XDP program, which could not put their VLAN tag into them
	TxUnsent     uint64 `json:"tx_unsent"`      // left in the TX ring of an interface that vanished
	// RingFaults counts what broke the rings of a port in shared memory: each costs the connection, and no packet that is counted here.
	RingFaults uint64 `json:"ring_faults"`
	// Faults are RxInvalid, TxInvalid and RingFaults of a port in shared memory by name: what of the other end's rings was refused.
	Faults map[string]uint64 `json:"faults,omitempty"`
	// ChecksumsCompleted counts packets whose sender had left the transport checksum to its device, which did not
	// compute it. Their checksums were completed, and they were received like all others.
	ChecksumsCompleted uint64 `json:"checksums_completed"`
}

// Add sums the counters of another time or socket.
func (c *Counters) Add(o *Counters) {
	c.RxRingFull += o.RxRingFull
	c.RxNoFrame += o.RxNoFrame
	c.RxDropped += o.RxDropped
	c.RxInvalid += o.RxInvalid
	c.TxInvalid += o.TxInvalid
	c.Kept += o.Kept
	c.NoSocket += o.NoSocket
	c.LinkTxDrops += o.LinkTxDrops
	c.LinkRxErrors += o.LinkRxErrors
	c.RxTooLong += o.RxTooLong
	c.RxTagLost += o.RxTagLost
	c.TxUnsent += o.TxUnsent
	c.RingFaults += o.RingFaults
	for name, n := range o.Faults {
		c.addFault(name, n)
	}
	c.ChecksumsCompleted += o.ChecksumsCompleted
}

func (c *Counters) addFault(name string, n uint64) {
	if c.Faults == nil {
		c.Faults = map[string]uint64{}
	}
	c.Faults[name] += n
}

// addDropped adds what a socket counts as dropped. In copy mode a packet that
// found the fill ring empty is in both of the kernel's counters (xsk_rcv in
// net/xdp/xsk.c); in zero-copy mode the second one counts events, not packets.
func (c *Counters) addDropped(dropped, fillEmpty uint64) {
	noFrame := min(dropped, fillEmpty)
	c.RxNoFrame += noFrame
	c.RxDropped += dropped - noFrame
}

// Lost sums the packets that were lost outside the workers' sight.
func (c Counters) Lost() uint64 {
	return c.RxRingFull + c.RxNoFrame + c.RxDropped + c.RxInvalid + c.TxInvalid + c.LinkTxDrops + c.LinkRxErrors + c.RxTooLong + c.RxTagLost + c.TxUnsent
}
