package l3

import "github.com/weirswitch/weir/telemetry/hash"

// Pick chooses one of n equal next hops, 0 <= i < n, for a flow at a switch (with ECMPPacket, for a packet by its id). It
// is the whole of the ECMP decision, so that with a flow's hash known (see
// package parse), the switch's id and family of hashes, and the number of next hops knows the
// packet's path is known. n is at least 1.
//
// The switch's id salts the hash. Without it the switches of one tier would
// all choose the same, and those of the next tier would see only flows that hash
// to one side: they would polarise.
func Pick(f hash.Family, flowHash, switchID uint32, n int) int {
	h := hash.Uint64(uint64(switchID), uint64(flowHash)) // in line, where the others are calls
	if f != hash.XX {
		h = f.Uint64(uint64(switchID), uint64(flowHash))
	}
	return int(hash.Reduce(h, uint64(n)))
}
