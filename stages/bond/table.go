package bond

import "github.com/weirswitch/weir/pipeline/packet"

// The buckets of a bond: enough that 16 members differ by a sixtieth of their share at most.
const (
	bucketBits = 10
	buckets    = 1 << bucketBits
)

// assignment is the member of each bucket, a port number; packet.NoPort where a bond has none.
type assignment [buckets]uint16

// tables are what workers read. They never change: another state of the members makes others.
type tables struct {
	roles []role // by port number
	bonds []bond
	names []string // of the ports
	// fresh is by worker what it distributes by, where there are more bonds than before, or less: workers allocate nothing.
	fresh [][]own
}

// role is what a port is to the stages.
type role struct {
	kind     kind
	receives receives // of members
	slow     bool     // the member takes the slow protocols' frames (LACP)
	// usable: a bucket that the member had may still leave by it, until it moves.
	usable bool
	index  uint16 // of bonds
}

type kind uint8

const (
	other kind = iota
	isMember
	isBond
)

// receives is what a member takes.
type receives uint8

const (
	nothing receives = iota
	unicast          // what was on its way when another member became active, without what that one receives too
	everything
)

// bond is one bond.
type bond struct {
	number  uint16 // of its port
	hash    hash
	down    bool
	targets assignment
}

// assign gives each bucket one of the members, of which all have the same share but for one bucket. As many as can keep theirs. Without members
// there is none.
func assign(before *assignment, members []uint16) (after assignment) {
	for i := range after {
		after[i] = packet.NoPort
	}
	n := len(members)
	if n == 0 {
		return after
	}
	share, extra := buckets/n, buckets%n
	count := make([]int, n)
	for i, m := range before {
		for k := range members {
			if members[k] != m {
				continue
			}
			if count[k] == share && extra > 0 {
				extra--
			} else if count[k] >= share {
				break
			}
			count[k]++
			after[i] = m
		}
	}
	for i := range after {
		if after[i] != packet.NoPort {
			continue
		}
		least := 0
		for k := range members {
			if count[k] < count[least] {
				least = k
			}
		}
		count[least]++
		after[i] = members[least]
	}
	return after
}
