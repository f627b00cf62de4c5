//go:build !purego

package l2

import (
	"golang.org/x/sys/cpu"

	"github.com/weirswitch/weir/pipeline/packet"
)

// wide says that the processor compares four words at once. It is a variable for tests to compare both.
var wide = cpu.X86.HasAVX2 && cpu.X86.HasBMI1

// The functions of lookups_amd64.s take 1 <= n <= maxLookups. They check no bounds: offsets are those of layout.first and other, which
// are of the table's buckets.

// placeWide works in fours: what it stores behind n is of no use. It prefetches the buckets of the first lookups.
//
//go:noescape
func placeWide(buckets *bucket, l *lookups, keys *[maxLookups]uint64, n int, layout *layout, mixer *mixer, prefetched int)

//go:noescape
func touchWide(buckets *bucket, l *lookups, n int)

// matchWide also places those that found nothing in their second buckets, and prefetches these, unless second is nil.
//
//go:noescape
func matchWide(buckets *bucket, l *lookups, n int, name uint64, second *lookups, layout *layout) (missed int)

// gather finds the keys of the first packets of pkts[i:n] that live, have no tag and are well-formed, arrived at port from and begin at last, an offset into
// memory, or in front of it; it returns where it ended. They are of the VLAN that tag is the keys' of.
//
//go:noescape
func gather(keys *[maxLookups]uint64, pkts *packet.Packet, i, n int, mem *byte, last int, from uint16, tag uint64) int

// straight does what look does for the first packets of pkts[i:n] that live, whose source is where it was and as recently as mark, and
// whose destination is behind another port; it returns where it ended. name and ports are the table's masks of an entry's parts.
//
//go:noescape
func straight(s *search, pkts *packet.Packet, i, n int, name, ports uint64, mark uint8) int
