package xdp

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
)

// Clock is what the program reads when a packet arrives.
type Clock uint8

const (
	// ClockNone reads no clock and writes nothing.
	ClockNone Clock = iota
	// ClockTAI is CLOCK_TAI, as the whole switch has it (bpf_ktime_get_tai_ns, Linux 6.1).
	ClockTAI
	// ClockMonotonic is CLOCK_MONOTONIC, for older kernels: the reader adds what
	// CLOCK_TAI is ahead.
	ClockMonotonic
)

// BestClock is the clock that this kernel has for XDP programs.
func BestClock() Clock {
	if features.HaveProgramHelper(ebpf.XDP, asm.FnKtimeGetTaiNs) == nil {
		return ClockTAI
	}
	return ClockMonotonic
}

// TimestampSize is how many bytes directly precede a packet with an arrival time:
//
//	| tag (8) | nanoseconds (8) | packet ...
//
// both in the machine's byte order. A frame keeps what an earlier packet left in it, so only the
// Program's own tag, which the reader clears, marks the time as this packet's.
// Counters.Untimed counts the packets without, which are all where the driver lacks XDP metadata.
const TimestampSize = 16

// Tag marks a time in front of a packet; 0 if the program writes none. No sender can
// guess it, so no bytes of a packet pass for a time.
func (p *Program) Tag() uint64 { return p.tag }

// newTag draws a tag; it is never 0.
func newTag() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:]) | 1
}
