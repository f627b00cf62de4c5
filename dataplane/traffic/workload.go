package traffic

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// FCS is the length in bytes of the frame check sequence that Ethernet hardware
// appends. Sizes in a [Workload] include it, as RFC 2544 has it; frames handed to
// a device do not.
const FCS = 4

// MaxFlows bounds the number of flows of a workload.
const MaxFlows = 10_000_000

// Order says how the flow of a packet is drawn.
type Order uint8

// Orders of drawing. All are functions of the seed and the sequence number alone.
const (
	// Uniform draws each flow with equal probability.
	Uniform Order = iota
	// Zipf draws flow number f, counted from 0, with a probability proportional
	// to (f+1)^-Exponent.
	Zipf
	// RoundRobin takes the flows in turn.
	RoundRobin
)

var orderNames = [...]string{Uniform: "uniform", Zipf: "zipf", RoundRobin: "round-robin"}

func (o Order) String() string {
	if int(o) < len(orderNames) {
		return orderNames[o]
	}
	return fmt.Sprintf("Order(%d)", uint8(o))
}

// ParseOrder is the inverse of [Order.String].
func ParseOrder(s string) (Order, error) {
	for o, name := range orderNames {
		if s == name {
			return Order(o), nil
		}
	}
	return 0, fmt.Errorf("unknown order of flows %q: use uniform, zipf or round-robin", s)
}

// Clock names the clock of the send times. Both ends must use the same one.
type Clock uint8

const (
	// Monotonic is CLOCK_MONOTONIC: never stepped, and the same in all network
	// namespaces of one machine. It means nothing on another machine.
	Monotonic Clock = iota
	// TAI is CLOCK_TAI, for two machines synchronised by PTP. A step of the
	// clock during a run shows up as latency.
	TAI
)

func (c Clock) String() string {
	if c == TAI {
		return "tai"
	}
	return "monotonic"
}

// Endpoints is one side of all the flows.
type Endpoints struct {
	// MAC is the Ethernet address of flow 0.
	MAC net.HardwareAddr
	// MACs spreads the flows over so many consecutive addresses, from MAC on:
	// flow f has address MAC + f mod MACs. 1 to the number of flows.
	MACs int
	// Net holds the addresses, at most the first 2^24 of it. Both sides must be of one family.
	Net netip.Prefix
}

// Workload describes a stream of packets completely: two sources with equal
// workloads send equal bytes but for the send time. It is a plain value.
type Workload struct {
	// Sizes, in bytes on the wire with the frame check sequence (64 means that
	// 60 bytes are handed to the device), are taken in turn: packet n has
	// Sizes[n mod len(Sizes)]. 1 to 16 of them.
	Sizes []int
	// Flows is the number of flows, 1 to MaxFlows. Flow f's source address and
	// port are the digits of f: f mod 2^h is the host part of the address (h bits
	// long) and the rest is added to port 1024. Destination address and port
	// are a hash of f.
	Flows int
	// Order draws the flow of each packet.
	Order Order
	// Exponent of Zipf's law, above 0 to 4; other orders ignore it.
	Exponent float64
	// Source and Destination of the flows.
	Source, Destination Endpoints
	// UDPChecksum fills in the UDP checksum, which IPv4 leaves optional (0). IPv6
	// always has it.
	UDPChecksum bool
	// Reversed swaps source and destination in the frames: the answers' direction.
	Reversed bool
	// Seed of the draw.
	Seed uint64
	// Run distinguishes the packets of one run from those of another.
	Run uint16
	// Clock of the send times.
	Clock Clock
	// TCP makes the packets of TCP: acknowledgements with payload, whose sequence number is the packet's. Else they are of UDP.
	TCP bool
	// VLANs are the identifiers of tags, the outer one first: 802.1Q, and 802.1ad for the outer of two. MPLS are labels, the top of the stack
	// first, at most four, behind the tags. VXLAN is a tunnel, nil: none; not with MPLS. Sizes are of the whole frame.
	VLANs []uint16
	MPLS  []uint32
	VXLAN *VXLAN
	// Parts above 1 makes this workload one of several that are sent at a time ([Parallel]), Part of 0 to Parts-1. A part has each Parts-th flow
	// and each Parts-th sequence number, from Part on, so that no flow is in two of them.
	Part, Parts int
}

// parts is how many parts there are, at least 1.
func (w Workload) parts() int { return max(w.Parts, 1) }

// ownFlows is how many flows are of this part.
func (w Workload) ownFlows() int { return (w.Flows - w.Part + w.parts() - 1) / w.parts() }

// IMIX returns twelve sizes in which 64, 570 and 1518 bytes occur as 7:4:1, well
// mixed, so that the proportion holds for each stretch of twelve packets.
func IMIX() []int {
	const s, m, l = 64, 570, 1518
	return []int{s, m, s, s, m, s, l, s, m, s, m, s}
}

// Fixed returns one size for all packets, in bytes with the frame check sequence.
func Fixed(size int) []int { return []int{size} }

// DefaultWorkload is 64-byte packets of 1000 uniform flows between the two halves of
// the benchmarking network 198.18.0.0/15 (RFC 2544, appendix C.2.2), with one MAC
// address on each side.
func DefaultWorkload() Workload {
	return Workload{
		Sizes: Fixed(64),
		Flows: 1000,
		Source: Endpoints{
			MAC: net.HardwareAddr{2, 0, 0, 0, 0, 0}, MACs: 1, Net: netip.MustParsePrefix("198.18.0.0/16"),
		},
		Destination: Endpoints{
			MAC: net.HardwareAddr{6, 0, 0, 0, 0, 0}, MACs: 1, Net: netip.MustParsePrefix("198.19.0.0/16"),
		},
		Seed: 1,
		Run:  1,
	}
}

// isIPv6 reports whether the packets are of IPv6.
func (w Workload) isIPv6() bool { return w.Source.Net.Addr().Is6() }

// MinSize is the smallest size, in bytes with the frame check sequence, that holds
// all headers and the mark: 64 for IPv4, 84 for IPv6, 12 more for TCP, and what encapsulates it.
func (w Workload) MinSize() int {
	return w.headerLen() + markLen + FCS
}

func (w Workload) headerLen() int {
	n := w.extraLen() + ethLen + udpLen
	if w.TCP {
		n += tcpLen - udpLen
	}
	if w.isIPv6() {
		return n + ip6Len
	}
	return n + ip4Len
}

// MaxSize is the largest size of the workload, in bytes with the frame check sequence.
func (w Workload) MaxSize() int {
	largest := 0
	for _, size := range w.Sizes {
		largest = max(largest, size)
	}
	return largest
}

// Validate reports all faults at once.
func (w Workload) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if w.Flows < 1 || w.Flows > MaxFlows {
		fault("flows: %d is not between 1 and %d", w.Flows, MaxFlows)
	}
	if int(w.Order) >= len(orderNames) {
		fault("order: %v is unknown", w.Order)
	}
	if w.Order == Zipf && !(w.Exponent > 0 && w.Exponent <= 4) {
		fault("exponent: %v is not above 0 and at most 4", w.Exponent)
	}
	if w.Parts < 0 || w.Parts > 256 || w.Part < 0 || w.Part >= w.parts() || w.Parts > 1 && w.Flows < w.Parts {
		fault("parts: %d of %d with %d flows: choose 0 to the number of parts, which is at most 256 and the number of flows", w.Part, w.Parts, w.Flows)
	}
	faults = append(faults, w.validateEncapsulation())
	if w.Clock > TAI {
		fault("clock: %d is unknown", w.Clock)
	}
	faults = append(faults, w.Source.validate("source", w.Flows), w.Destination.validate("destination", w.Flows))
	if w.Source.Net.IsValid() && w.Destination.Net.IsValid() {
		if w.Source.Net.Addr().Is6() != w.Destination.Net.Addr().Is6() {
			fault("source and destination: %s and %s are of different families", w.Source.Net, w.Destination.Net)
		}
		if ports := (w.Flows - 1) >> w.Source.hostBits(); ports > 0xffff-firstPort {
			fault("source: %s is too small for %d flows: use a shorter prefix", w.Source.Net, w.Flows)
		}
		w.validateSizes(fault)
	}
	return errors.Join(faults...)
}

func (w Workload) validateSizes(fault func(string, ...any)) {
	if len(w.Sizes) < 1 || len(w.Sizes) > maxSizes {
		fault("sizes: %d of them, where 1 to %d are possible", len(w.Sizes), maxSizes)
	}
	for i, size := range w.Sizes {
		if slices.Contains(w.Sizes[:i], size) { // as those of IMIX
			continue
		}
		if size < w.MinSize() || size > 9018 {
			fault("sizes: %d is not between %d and 9018 bytes: these headers need %d, so choose sizes from there on (the smallest of imix is 64)", size, w.MinSize(), w.MinSize())
		}
	}
}

func (e Endpoints) validate(name string, flows int) error {
	var faults []error
	if len(e.MAC) != 6 {
		faults = append(faults, fmt.Errorf("%s MAC address: %q is not 6 bytes long", name, e.MAC))
	} else if e.MAC[0]&1 != 0 {
		faults = append(faults, fmt.Errorf("%s MAC address: %s is a group address", name, e.MAC))
	}
	if e.MACs < 1 || e.MACs > max(flows, 1) {
		faults = append(faults, fmt.Errorf("%s MAC addresses: %d is not between 1 and the number of flows, %d", name, e.MACs, flows))
	}
	switch {
	case !e.Net.IsValid():
		faults = append(faults, fmt.Errorf("%s network: %v is no prefix: write one as 10.0.0.0/16 or 2001:db8::/64", name, e.Net))
	case e.Net != e.Net.Masked():
		faults = append(faults, fmt.Errorf("%s network: %v has bits behind its length: write %v", name, e.Net, e.Net.Masked()))
	}
	return errors.Join(faults...)
}

// hostBits is how many low bits of the network differ from flow to flow: of a large network its first addresses are enough.
func (e Endpoints) hostBits() int { return min(e.Net.Addr().BitLen()-e.Net.Bits(), maxHostBits) }
