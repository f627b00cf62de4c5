//go:build !purego

package oblivious

import "github.com/weirswitch/weir/pipeline/packet"

// gathers says that gather is there. It is a variable for tests to compare both.
var gathers = true

// gather takes the first packets of pkts[i:n] that count and are of IPv4 or IPv6, up to the first that is not, is a fragment of IPv6 or has its IP header
// behind last, an offset into memory; it returns where it ended. Without weighs it takes no lengths. It does what one does.
//
//go:noescape
func gather(to *block, pkts *packet.Packet, i, n int, mem *byte, last int, weighs bool) int
