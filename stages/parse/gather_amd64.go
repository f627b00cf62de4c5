//go:build !purego

package parse

import "github.com/weirswitch/weir/pipeline/packet"

// gathers says that gather is there. It is a variable for tests to compare both.
var gathers = true

// gather fills in the words of the first packets of pkts[from:n] that are alive and plain, up to the first that is not or until q is full,
// and returns how many; q has k already. Arrivals of 0 become now, also that of the packet at which it ends. Of the IP header's second
// to tenth byte the bits kept are hashed, keptUnfragmented where only the flag against fragments is set. It does what the loop of ids does.
// The frames have to lie within mem, as Process has seen to.
//
//go:noescape
func gather(q *plainBlocks, pkts *packet.Packet, from, n, k int, mem *byte, now int64, kept, keptUnfragmented uint64) int
