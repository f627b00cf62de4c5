package pint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// FlowKey is the 5-tuple of a flow, or the part of it that a FlowDefinition
// keeps. It is comparable.
type FlowKey struct {
	// Src and Dst are the addresses; an IPv4 address is in the first four
	// bytes, with zeros behind.
	Src, Dst         [16]byte
	SrcPort, DstPort uint16
	Proto            uint8
	Version          uint8 // 4 or 6
}

// FlowDefinition says which packets are one flow. The zero value is the
// 5-tuple.
type FlowDefinition struct {
	// Key is "5-tuple" (also if empty), "src", "dst" or "src-dst".
	Key string `toml:"key,omitempty"`
	// SrcPrefix and DstPrefix keep that many bits of an address, of those that
	// the key has; 0 keeps all. An IPv4 address has 32.
	SrcPrefix int `toml:"src_prefix,omitzero"`
	DstPrefix int `toml:"dst_prefix,omitzero"`
}

var flowKeys = []string{"", "5-tuple", "src", "dst", "src-dst"}

// Validate reports all faults at once.
func (d FlowDefinition) Validate() error {
	var faults []error
	if !slices.Contains(flowKeys, d.Key) {
		faults = append(faults, fmt.Errorf("key %q: use one of %q", d.Key, flowKeys[1:]))
	}
	for _, p := range []struct {
		name string
		bits int
		not  string
	}{{"src_prefix", d.SrcPrefix, "dst"}, {"dst_prefix", d.DstPrefix, "src"}} {
		if p.bits < 0 || p.bits > 128 {
			faults = append(faults, fmt.Errorf("%s %d: use 0 to 128", p.name, p.bits))
		}
		if p.bits != 0 && d.Key == p.not {
			faults = append(faults, fmt.Errorf("%s: key %q has no such address: leave it out", p.name, d.Key))
		}
	}
	return errors.Join(faults...)
}

// Of returns the flow of a packet with the given 5-tuple.
func (d FlowDefinition) Of(k FlowKey) FlowKey {
	switch d.Key {
	case "src":
		k = FlowKey{Src: k.Src, Version: k.Version}
	case "dst":
		k = FlowKey{Dst: k.Dst, Version: k.Version}
	case "src-dst":
		k = FlowKey{Src: k.Src, Dst: k.Dst, Version: k.Version}
	}
	if d.SrcPrefix != 0 {
		keepPrefix(&k.Src, d.SrcPrefix)
	}
	if d.DstPrefix != 0 {
		keepPrefix(&k.Dst, d.DstPrefix)
	}
	return k
}

// keepPrefix clears all but the first n bits.
func keepPrefix(a *[16]byte, n int) {
	for i := n / 8; i < len(a); i++ {
		keep := max(0, n-8*i)
		a[i] &= ^byte(0xff >> keep)
	}
}

// Hash is what tables with the seed look up a flow by.
func (k *FlowKey) Hash(seed uint64) uint64 {
	word := func(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
	return hash.Uint64x5(seed, word(k.Src[:8]), word(k.Src[8:]), word(k.Dst[:8]), word(k.Dst[8:]),
		uint64(k.SrcPort)|uint64(k.DstPort)<<16|uint64(k.Proto)<<32|uint64(k.Version)<<40)
}
