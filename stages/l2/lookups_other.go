//go:build !amd64 || purego

package l2

import "github.com/weirswitch/weir/pipeline/packet"

// wide: only lookups_amd64.s compares several words at once.
var wide = false

func touchWide(*bucket, *lookups, int) { panic("l2: no wide lookups") }
func matchWide(*bucket, *lookups, int, uint64, *lookups, *layout) int {
	panic("l2: no wide lookups")
}
func placeWide(*bucket, *lookups, *[maxLookups]uint64, int, *layout, *mixer, int) {
	panic("l2: no wide lookups")
}

func gather(*[maxLookups]uint64, *packet.Packet, int, int, *byte, int, uint16, uint64) int {
	panic("l2: no wide lookups")
}
func straight(*search, *packet.Packet, int, int, uint64, uint64, uint8) int {
	panic("l2: no wide lookups")
}
