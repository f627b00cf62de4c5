//go:build !purego

package lds

import "github.com/weirswitch/weir/pipeline/packet"

// takes says that take is there. It is a variable for tests to compare both.
var takes = true

// take notes the packets that are alike, up to the first that is not, of n, at least one, and returns how many: it does what alike and takeAll do.
//
//go:noescape
func take(how *taking, pkts *packet.Packet, names *packet.FlowName, n int, ids, flows *uint64, at *int64, bytes *uint32) int
