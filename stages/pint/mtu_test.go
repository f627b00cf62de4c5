package pint

import (
	"bytes"
	"testing"

	"github.com/weirswitch/weir/pipeline/header"
)

// TestNarrowLinkBehind: the source's link has room for the shim, the one behind it
// has not. There full packets lose the shim instead of being lost, but for a
// host's forged one, which the next switch would take for the network's.
func TestNarrowLinkBehind(t *testing.T) {
	const narrow = 1514
	full := aFrame(narrow - 42)
	forged := append(bytes.Clone(full[:12]), 0x88, 0xb5, header.ShimVersion<<4|1, 1, 0, 1, 0, 0)
	forged = append(forged, full[12:narrow-8]...)
	tail := append(bytes.Clone(full[:12]), 0x81, 0, 0, 5)
	tail = append(tail, full[12:narrow-4]...)
	fits := aFrame(narrow - 42 - header.ShimLen(2))
	if len(full) != narrow || len(forged) != narrow || len(tail) != narrow || len(fits) != narrow-header.ShimLen(2) {
		t.Fatalf("frames of %d, %d, %d and %d bytes", len(full), len(forged), len(tail), len(fits))
	}
	n := newChain(t, 4, DefaultConfig(), largeFrame)
	n.nodes[1] = newNode(t, 2, DefaultConfig(), narrow)
	sent := [][]byte{full, fits, tail}
	for i, f := range n.through(sent, func(int) int64 { return 1 }) {
		if !bytes.Equal(f, sent[i]) {
			t.Errorf("frame %d arrives as % x, not % x", i, f[:min(40, len(f))], sent[i][:40])
		}
	}
	if out := n.at(1, n.at(0, [][]byte{forged}, still), still); out[0] != nil {
		t.Errorf("forged: % x", out[0][:40])
	}
	c := counts(n.nodes[1].module)
	if c["left_packets_total mtu"] != 2 || c["left_packets_total host_shim"] != 1 || c["transited_packets_total"] != 1 {
		t.Errorf("%v", c)
	}
	checkSum(t, n.nodes[1].module, 4)
}
